"""What the site has beside the committed pages: settings, and the pages of results."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import yaml

DOCS = Path(__file__).parent
LIST = DOCS.parent / "benchmarks/pages.yaml"


def on_config(config: Any) -> None:
    """Write the page of settings, and add pages of results that `make pages` has built."""
    runpy.run_path(str(DOCS / "settings.py"), run_name="__main__")
    groups = {
        f"Tables of {group}": [f"research/pages/{name}.md" for name in pages if is_built(name)]
        for group, pages in yaml.safe_load(LIST.read_text(encoding="utf-8")).items()
    }
    (research,) = (tab["Research"] for tab in config.nav if "Research" in tab)
    research += [{title: pages} for title, pages in groups.items() if pages]


def is_built(name: str) -> bool:
    """Whether the page of a name is there."""
    return (DOCS / f"research/pages/{name}.md").exists()
