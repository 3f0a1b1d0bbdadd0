"""The wheel, as `pip install` gives it to others: what is in it, and that it runs on its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
OUTSIDE = {
    name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "GCL_HARD_DATA")
}


def run(*command: str | Path, folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, env=OUTSIDE, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    # Without isolation: it would install hatchling from a registry.
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, folder=folder)
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment with the wheel, and our dependencies behind it."""
    folder = tmp_path_factory.mktemp("clean")
    run(sys.executable, "-m", "venv", "--without-pip", "env", folder=folder)
    python = folder / "env" / "bin" / "python"
    (wheel,) = built.glob("*.whl")
    pip = sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index"
    run(*pip, wheel, folder=folder)
    # A .pth file appends folders without reading the .pth files in them, as an editable install's.
    packages = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (site,) = (folder / "env").glob("lib/*/site-packages")
    (site / "dependencies.pth").write_text("\n".join(packages), encoding="utf-8")
    return python


def test_the_wheel_holds_the_package_with_its_data_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    ours = {path.relative_to(ROOT) for path in (ROOT / "gcl_hard").rglob("*") if path.is_file()}
    missing = {str(p) for p in ours if "__pycache__" not in p.parts} - names
    assert missing == set()
    for inside, outside in {"data/recipes": "graphs/best", "tuning/spaces": "search"}.items():
        configs = {
            f"gcl_hard/{inside}/{p.name}" for p in (ROOT / "configs" / outside).glob("*.yaml")
        }
        assert configs
        assert configs == {name for name in names if name.startswith(f"gcl_hard/{inside}/")}
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"gcl_hard"}


def test_the_sdist_holds_what_the_tests_need(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "gcl_hard/data/MUTAG.zip",
        "configs/search/beta.yaml", "tests/conftest.py", "tests/public_surface.txt",
        "docs/index.md", "benchmarks/results/tables/runs.jsonl.gz", "benchmarks/recipe/search.yaml",
    } <= names  # fmt: skip


def test_the_installed_package_is_the_wheel_alone(installed: Path, tmp_path: Path) -> None:
    code = """
import json, sys
from importlib.machinery import PathFinder
found = [PathFinder.find_spec("gcl_hard", [folder]) for folder in sys.path]
print(json.dumps([spec.origin for spec in found if spec and spec.origin]))
"""
    (file,) = json.loads(run(installed, "-c", code, folder=tmp_path))
    assert Path(file).is_relative_to(installed.parents[1])


def test_the_installed_commands_run(installed: Path, tmp_path: Path) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    out = run(installed, "-m", "gcl_hard.bench", "--version", folder=tmp_path)
    assert out.split() == ["gcl-hard", version]
    command = installed.with_name("gcl-hard")
    run(command, "bench", "--epochs", "2", "--seeds", "1", "--device", "cpu", folder=tmp_path)
    (file,) = tmp_path.glob("results/MUTAG_*_seed0.json")
    result = json.loads(file.read_text(encoding="utf-8"))
    assert len(result["scores"]["accuracy"]) == 10
