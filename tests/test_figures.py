"""``python -m gcl_hard.figures``: exit statuses, what is printed, and what is written."""

from __future__ import annotations

import csv
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
from matplotlib.image import imread

from gcl_hard import figures
from gcl_hard.commands.figures import FIGURES, parse_figures
from gcl_hard.errors import InputError
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.images.settings import ImageConfig
from tests.reports import made_runs as runs

EPOCHS = (1, 2, 3)
Refuse = Callable[..., str]


@pytest.fixture
def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Refuse:
    """Run a command that is refused; gives its one line."""

    def refuse(*arguments: str) -> str:
        assert figures.main([*arguments, "-o", str(tmp_path / "out")]) == 2
        out, err = capsys.readouterr()
        assert err.startswith("error: ")
        assert (out, err.count("\n")) == ("", 1)
        assert not (tmp_path / "out").exists()
        return err.strip()

    return refuse


def test_a_figure_is_written_with_its_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for method in ("ucl", "hucl", "hscl", "wl"):
        runs.save(tmp_path / "results", GraphConfig(method=method), epochs=EPOCHS)
    runs.save(tmp_path / "results", ImageConfig(), epochs=EPOCHS)
    only = ["--only", "dataset=mutag", "--only=method=ucl,hscl"]
    out = tmp_path / "out"
    call = ["-o", str(out), "fig4", str(tmp_path / "results"), *only]
    assert figures.main(call) == 0
    files = [out / f"fig4-MUTAG-jsd.{suffix}" for suffix in ("png", "svg", "csv")]
    assert sorted(files) == sorted(out.iterdir())
    assert capsys.readouterr().out.endswith(f"figure: {', '.join(map(str, files))}\n")
    height, width, _ = imread(files[0]).shape
    assert 1300 < width < 1500
    assert 300 < height < 1000
    assert ET.parse(files[1]).getroot().tag.endswith("svg")
    with files[2].open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * len(EPOCHS) * 4
    for row in rows:
        shown = runs.snapshot(int(row["epoch"]))["settings"][row["panel"]]
        assert float(row["fraction"]) == shown["assumption_1"]
    before = [path.read_bytes() for path in files]
    assert figures.main([*call, "--name", "again"]) == 0
    assert [path.with_stem("again").read_bytes() for path in files] == before


@pytest.mark.slow
def test_neither_a_data_set_nor_its_packages_are_needed(tmp_path: Path) -> None:
    config = GraphConfig(dataset="PROTEINS", protocol="transductive", contrast="two-view")
    runs.save(tmp_path / "results", config, epochs=EPOCHS)
    call = ["-X", "importtime", "-m", "gcl_hard.figures", "fig4", "results", "-o", "out"]
    done = subprocess.run([sys.executable, *call], cwd=tmp_path, capture_output=True, text=True,
                          check=True)  # fmt: skip
    loaded = {line.rpartition("|")[2].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert "matplotlib" in loaded
    assert not loaded & {"torch_geometric", "torchvision", "kornia", "optuna", "sklearn"}


@pytest.mark.parametrize("figure", sorted(FIGURES))
def test_what_results_do_not_give_is_refused(figure: str, tmp_path: Path, refused: Refuse) -> None:
    results = str(tmp_path / "results")
    assert results in refused(figure, results)
    runs.save(tmp_path / "results", GraphConfig())
    assert "--diagnostics 1" in refused(figure, results)
    for name in ("MUTAG", "PTC_MR"):
        runs.save(tmp_path / "results", GraphConfig(dataset=name), epochs=EPOCHS)
    assert "--only dataset=MUTAG" in refused(figure, results)


def test_a_place_that_cannot_be_written_to_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.save(tmp_path / "results", GraphConfig(), epochs=EPOCHS)
    (tmp_path / "out").write_text("a file", encoding="utf-8")
    assert figures.main(["fig4", str(tmp_path / "results"), "-o", str(tmp_path / "out")]) == 2
    assert str(tmp_path / "out") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "--output"), (["fig44", "a", "-o", "b"], "fig4"), (["fig4", "-o", "b"], "RESULTS"),
        (["fig4", "a"], "-o"), (["fig4", "a", "-o", "b", "--onyl", "x=y"], "--onyl"),
        (["fig4", "a", "-o", "b", "--only"], "--only"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(arguments: list[str], named: str) -> None:
    with pytest.raises(InputError, match=named):
        parse_figures(arguments)
