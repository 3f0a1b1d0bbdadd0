"""The committed search for a recipe, read again: ``committed_search.py TREE``.

Its runs under JSD were scored when ``batch-max`` was the default hardness scale, which its file
does not state; with today's default they would have to be trained.
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from gcl_hard.bench import main

if __name__ == "__main__":
    tree = Path(sys.argv[1])
    search = yaml.safe_load((tree / "configs/search/recipe.yaml").read_text(encoding="utf-8"))
    for settings in search["ablations"]["objective"]:
        settings["hardness_scale"] = "batch-max"
    Path("search.yaml").write_text(yaml.safe_dump(search, sort_keys=False), encoding="utf-8")
    store = str(tree / "benchmarks/results/tables")
    shown = ["--report-only", "--report", "page.md", "--best", "best"]
    sys.exit(main(["--search", "search.yaml", "--output", store, *shown]))
