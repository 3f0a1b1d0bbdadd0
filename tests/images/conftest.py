"""An own cache and mirror for every test of image sets."""

from __future__ import annotations

from pathlib import Path

import pytest

from gcl_hard.images import KNOWN
from tests.images.sets import NOWHERE, set_url


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An own, empty cache; nothing from the machine's environment; no way to the real sites."""
    monkeypatch.delenv("GCL_HARD_DATA", raising=False)
    monkeypatch.setenv("GCL_HARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    for name, site in KNOWN.items():
        if site.url:
            set_url(monkeypatch, name, f"{NOWHERE}/{site.folder}.tar.gz")
    return tmp_path / "cache" / "images"


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    folder = tmp_path / "mirror"
    folder.mkdir()
    return folder
