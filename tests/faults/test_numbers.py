"""Huge, tiny, constant and lone values: a score in its range, or one message."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from gcl_hard.experiments.store import Store
from tests.faults.commands import SMALL, ended

pytestmark = [pytest.mark.faults, pytest.mark.filterwarnings("ignore")]
N = 24


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("GCL_HARD_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def scored(folder: str) -> None:
    """All scores in a folder are numbers, and shares of 100 are."""
    for row in Store(Path(folder)).rows():
        for name, values in row.scores.items():
            share = name not in ("rmse", "cliff_rmse")
            for value in values:
                assert not math.isinf(value)
                assert math.isnan(value) or 0 <= value <= (100 if share else math.inf)


# Graphs

rng = np.random.default_rng(0)
USUAL = [f"{value:.3f}, {k % 2}" for k, value in enumerate(rng.normal(size=N * 300))]
GRAPHS: dict[str, dict[str, object]] = {
    "plain": {"attributes": USUAL},
    "huge": {"attributes": "1e300, 1"},
    "half of them huge": {"attributes": ["1e300, 1", "1, 1"] * N * 3},
    "as large as single precision": {"attributes": "3e38, -3e38"},
    "large": {"attributes": [f"{1e18 * float(row.split(',')[0])}, 1e18" for row in USUAL]},
    "tiny": {"attributes": "1e-40, 1e-300"},
    "constant": {"attributes": "1, 1"},
    "negative": {"attributes": "-1, -5", "labels": [-(k % 3) - 7 for k in range(N)]},
    "one of a class": {"labels": [0] * (N - 1) + [1]},
    "one class": {"labels": [0] * N},
    "as many classes as graphs": {"labels": range(N)},
    "pairs of a class": {"labels": [k // 2 for k in range(N)]},
    "labels of 2 ** 62": {"labels": [(k % 2) * 2**62 for k in range(N)]},
    "nodes without edges": {"nodes": 1},
    "graphs of 1 and 300 nodes": {"nodes": [1, 300] * (N // 2)},
    "huge edges": {"attributes": USUAL, "edges": "1e200"},
    "large edges": {"attributes": USUAL, "edges": "1e30"},
    "two graphs": {"n": 2},
    "one graph": {"n": 1},
    "four graphs": {"n": 4},
}


def write_graphs(
    n: int = N, attributes: object = None, labels: object = None, edges: str = "", nodes: object = 6
) -> None:
    """A set of chains, SET, as TU archives have them."""
    folder = Path("SET")
    folder.mkdir()
    sizes = [nodes] * n if isinstance(nodes, int) else list(nodes)  # type: ignore[call-overload]
    owner = [g + 1 for g, size in enumerate(sizes) for _ in range(size)]
    pairs, at = list[tuple[int, int]](), 0
    for size in sizes:
        chain = [(at + i, at + i + 1) for i in range(1, size)]
        pairs += [*chain, *(pair[::-1] for pair in chain)]
        at += size
    files = {
        "A": [f"{a}, {b}" for a, b in pairs], "graph_indicator": owner,
        "graph_labels": [k % 2 for k in range(n)] if labels is None else [*labels],  # type: ignore[call-overload]
    }  # fmt: skip
    if attributes is not None:
        same = isinstance(attributes, str)
        files["node_attributes"] = [attributes] * len(owner) if same else attributes[: len(owner)]  # type: ignore[index]
    if edges:
        files["edge_attributes"] = [edges] * len(pairs)
    for name, lines in files.items():
        (folder / f"SET_{name}.txt").write_text("".join(f"{line}\n" for line in lines))


def settings_of_graphs() -> Iterator[str]:
    for method in ("ucl", "scl", "hucl", "hscl", "dcl", "hcl", "hscl-tau"):
        yield f"--method={method} --lr=1e30"
        yield f"--method={method} --lr=1e6 --contrast=two-view"
    for temperature in ("1e-8", "1e-30", "1e30"):
        yield f"--method=hscl --contrast=two-view --temperature={temperature}"
        yield f"--method=hcl --contrast=two-view --temperature={temperature} --beta=1e9"
    yield from (
        "--method=hscl --beta=1e9", "--method=hscl --beta=1e38 --contrast=two-view",
        "--weight-decay=1e30", "--epochs=0", "--batch-size=2", "--batch-size=1000000000",
        "--c-grid=1e-300,1e300", "--c-grid=1e308", "--kernel=linear --c-grid=1e10",
        "--probe=logistic --c-grid=1e300", "--probe=nystroem --standardise=false",
        "--data-seed=4294967295", "--data-seed=9223372036854775807", "--seeds=4294967295,",
        f"--folds={N + 1}", f"--folds={N}", f"--folds={N // 2 + 1}",
        "--train-share=0.0001 --protocol=inductive", "--train-share=0.1 --protocol=inductive",
    )  # fmt: skip


FLAGS = ["--dataset=SET", "--data-dir=.", *SMALL, "--epochs=3", "--output=out"]


@pytest.mark.parametrize("method", [
    "--method=hscl", "--method=untrained", "--method=supervised", "--method=graph-size,wl",
    "--method=scl --contrast=two-view", "--method=ucl --edge-labels=true",
])  # fmt: skip
@pytest.mark.parametrize("name", GRAPHS)
def test_graphs(name: str, method: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_graphs(**GRAPHS[name])  # type: ignore[arg-type]
    ended(capsys, "bench", [*FLAGS, *method.split()])
    scored("out")


@pytest.mark.parametrize("flags", [*settings_of_graphs()])
def test_settings_of_graphs(flags: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_graphs(attributes=USUAL)
    method = [] if "--method" in flags else ["--method=hscl"]
    ended(capsys, "bench", [*FLAGS, *method, *flags.split()])
    scored("out")


# Images

PIXELS = rng.integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
CLASSES = np.arange(40) % 2
IMAGES: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]] = {
    "plain": (PIXELS, CLASSES, CLASSES),
    "black": (PIXELS * 0, CLASSES, CLASSES),
    "one of a class": (PIXELS, (np.arange(40) > 38).astype(int), CLASSES),
    "one class": (PIXELS, CLASSES * 0, CLASSES * 0),
    "no labels": (PIXELS, CLASSES * 0 - 1, CLASSES),
    "some labels": (PIXELS, np.where(CLASSES, -1, 0), CLASSES),
    "a class in test alone": (PIXELS, CLASSES, CLASSES + 1),
}
SETTINGS_OF_IMAGES = [
    "--lr=1e30", "--temperature=1e-8", "--method=hscl --beta=1e9", "--batch-size=41",
    "--batch-size=1000000000", "--probe-lr=1e30", "--probe-batch-size=1000000000", "--size=4",
    "--size=100000", "--subset=4", "--crop=1e-9", "--noise=1e30", "--jitter=1e30",
    "--label-noise=0.999", "--accumulate=1000000", "--precision=bf16", "--precision=fp16",
    "--width=1", "--width=1000000", "--classes=2", "--classes=1", "--monitor-every=1000000000",
    "--checkpoint-minutes=1e300", "--loader-workers=1000",
]  # fmt: skip
OF_IMAGES = ["--dataset=SET", "--data-dir=.", "--encoder=fast", "--width=4", "--epochs=2",
             "--batch-size=8", "--seeds=1", "--probe-epochs=2", "--threads=1",
             "--output=out"]  # fmt: skip


def write_images(name: str) -> None:
    images, train, test = IMAGES[name]
    arrays = {"train_images": images, "train_labels": train, "test_images": images}
    np.savez("SET.npz", test_labels=test, **arrays)


@pytest.mark.parametrize("method", [
    "--method=scl", "--method=pixels", "--method=supervised", "--method=hscl --balanced=true",
    "--method=hucl --class-pairs=true", "--method=scl --select=true --temperature=0.1,0.5",
])  # fmt: skip
@pytest.mark.parametrize("name", IMAGES)
def test_images(name: str, method: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_images(name)
    ended(capsys, "bench", [*OF_IMAGES, *method.split()])
    scored("out")


@pytest.mark.parametrize("flags", SETTINGS_OF_IMAGES)
def test_settings_of_images(flags: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_images("plain")
    method = [] if "--method" in flags else ["--method=scl"]
    ended(capsys, "bench", [*OF_IMAGES, *method, *flags.split()])
    scored("out")


# Molecules

SMILES = [f"{'C' * (k % 7 + 1)}{'O' * (k // 7 % 3)}c1ccccc1{'N' * (k // 21)}" for k in range(60)]
TARGETS: dict[str, Callable[[int], object]] = {
    "usual": lambda k: k * 0.1,
    "two thirds unknown": lambda k: "nan" if k % 3 else k * 0.1,
    "one infinite": lambda k: "inf" if k == 5 else k * 0.1,
    "huge": lambda k: 1e300 * (k % 7) + 0.5,
    "as large as single precision": lambda k: 1e38 * (k % 3) + 0.5,
    "large": lambda k: 1e20 * (k % 7) + 0.5,
    "tiny": lambda k: 1e-300 * k,
    "constant": lambda k: 1.5,
    "one class": lambda k: 1,
    "one of a class": lambda k: int(k == 59),
    "two of a class": lambda k: int(k > 57),
    "three classes": lambda k: k % 3,
    "negative": lambda k: -k,
    "none": lambda k: "",
    "words": lambda k: "yes" if k % 2 else "NO",
    "classes": lambda k: k % 2,
}
SETTINGS_OF_MOLECULES = [
    "--lr=1e30", "--beta=1e9 --method=hscl", "--temperature=1e-8", "--similarity=1e300",
    "--similarity=1e9", "--neighbours=1000000000", "--batch-size=1000000000",
    "--train-share=1e-9", "--train-share=0.02", "--label-gap=0,1e300", "--label-gap=1e-9,1e-8",
    "--strength=0", "--probe=nystroem --method=untrained,counts",
    "--probe=linear --method=untrained,ecfp", "--seeds=18446744073709551615,",
]  # fmt: skip
OF_MOLECULES = ["--dataset=made.csv", "--method=untrained,ecfp,counts,wl,scl,supervised",
                "--epochs=2", "--seeds=1", "--split=random-0",
                "--output=out"]  # fmt: skip


def write_molecules(name: str) -> None:
    lines = [f"{smiles},{TARGETS[name](k)}\n" for k, smiles in enumerate(SMILES)]
    Path("made.csv").write_text("smiles,y\n" + "".join(lines))


@pytest.mark.parametrize("name", TARGETS)
def test_targets_of_molecules(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rdkit")
    write_molecules(name)
    ended(capsys, "bench", [*OF_MOLECULES, "--report=out/p.md"], 120)
    scored("out")


@pytest.mark.parametrize("flags", SETTINGS_OF_MOLECULES)
@pytest.mark.parametrize("name", ["usual", "classes"])
def test_settings_of_molecules(name: str, flags: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rdkit")
    write_molecules(name)
    ended(capsys, "bench", [*OF_MOLECULES, *flags.split()], 120)
    scored("out")


@pytest.mark.parametrize("flags", [
    "--subset=1", "--subset=2", "--subset=61", "--lr=1e30", "--batch-size=2", "--epochs=0",
    "--batch-size=1000000000", "--seed=-1", "--seed=18446744073709551616", "--seed=4294967296",
    "--temperature=1e-8", "--method=hscl --beta=1e9", "--checkpoint-minutes=nan", "--strength=0",
    "--dim=1", "--jobs=1000000",
])  # fmt: skip
def test_settings_of_pre_training(flags: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rdkit")
    write_molecules("usual")
    arguments = ["--dataset=made.csv", "--layers=2", "--dim=8", "--epochs=2", "--output=made.pt"]
    ended(capsys, "pretrain", [*arguments, *flags.split()], 120)
