"""Whole commands on stored files that are damaged, altered, or of somebody else's making.

A value of another kind, a byte, a line: the command ends in a result or in one message. In files
that we write, nothing changes a number in silence. ``make test-faults`` draws 250 of each kind.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gcl_hard import bench, figures, pretrain, tune
from gcl_hard.experiments.store import COMPACT, Store
from tests.fuzz.survival import CASES, altered, folder, fuzzed, mutated, survives

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # whatever is said of what is left out
    pytest.mark.timeout(0 if CASES else 600, method="thread"),
]
few = settings(fuzzed, max_examples=CASES or 10)
SMALL = ["--epochs=2", "--folds=2", "--layers=1", "--dim=4", "--threads=1", "--seeds=1"]
GRAPHS = [*SMALL, "--method=ucl,hscl", "--beta=1,2", "--protocol=inductive", "--diagnostics=1",
          "--select=true"]  # fmt: skip
MOLECULES = ["--dataset=made.csv", "--targets=size", "--method=untrained,ecfp,scl", "--seeds=1",
             "--threads=1", "--epochs=1", "--split=random-0"]  # fmt: skip
PRETRAINING = ["--dataset=made.csv", "--epochs=2", "--batch-size=32", "--layers=1", "--dim=4",
               "--checkpoint-minutes=0"]  # fmt: skip
IMAGES = ["--dataset=./pets", "--method=pixels", "--seeds=1", "--probe-epochs=2", "--threads=1"]
CACHED: dict[str, tuple[str, Callable[[Sequence[str]], int], list[str]]] = {
    "molecules": ("made.csv", bench.main, MOLECULES),
    "images": ("pets", bench.main, IMAGES),
}
"""Kinds of data that the cache keeps: their source, and what reads them."""
SEARCH = ["--method=hscl", "--trials=3", "--epochs=1", "--layers=1", "--dim=4", "--threads=1",
          "--ensemble-size=1", "--output=out"]  # fmt: skip


def quietly(command: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return command([*arguments])


class StoppedError(Exception):
    """In place of a kill."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with files of every kind, as commands wrote them."""
    here: Path = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(here):
        patch.setenv("GCL_HARD_CACHE", str(here / "cache"))
        parts = ["C", "CC", "CO", "CN", "C(=O)", "c1ccccc1", "C(Cl)", "C1CCCC1"]
        molecules = {"".join(rng.choice(parts, rng.integers(2, 6))) for _ in range(80)}
        lines = [f"{word},{len(word) / 4}\n" for word in sorted(molecules)]
        (here / "made.csv").write_text("smiles,size\n" + "".join(lines))
        assert quietly(bench.main, [*GRAPHS, "--save-encoder", "--output=graphs"]) == 0
        assert quietly(bench.main, [*MOLECULES, "--output=molecules"]) == 0
        write_images()
        assert quietly(bench.main, [*IMAGES, "--output=images"]) == 0
        assert quietly(pretrain.main, [*PRETRAINING, "--output=whole.pt"]) == 0
        for kind in ("db", "journal"):
            assert quietly(tune.main, [*SEARCH, f"--storage=s.{kind}"]) == 0
        shutil.rmtree("out")
        for name in ("graphs", "molecules"):
            shutil.copytree(name, f"{name}-compact")
            Store(here / f"{name}-compact").compact()
        with contextlib.suppress(StoppedError):
            half_trained(patch)
        yield here


def write_images() -> None:
    from PIL import Image

    rng = np.random.default_rng(0)
    for k in range(20):
        path = Path("pets") / "ab"[k % 2] / f"{k}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(path)


def half_trained(patch: pytest.MonkeyPatch) -> None:
    """Leave the checkpoint of a pre-training that is stopped at its third."""
    from gcl_hard.training.checkpoint import Checkpoint

    save, left = Checkpoint.save, [1, 2, 3]

    def saving(self: Checkpoint, state: Any) -> None:
        save(self, state)
        left.pop()
        if not left:
            raise StoppedError

    patch.setattr(Checkpoint, "save", saving)
    try:
        quietly(pretrain.main, [*PRETRAINING, "--output=half.pt"])
    finally:
        patch.setattr(Checkpoint, "save", save)
        assert Path("half.ckpt").exists()


@contextlib.contextmanager
def copied(project: Path, *names: str) -> Iterator[Path]:
    """An empty folder with copies of some of what was made, and its cache."""
    with folder() as here, pytest.MonkeyPatch.context() as patch:
        patch.setenv("GCL_HARD_CACHE", str(project / "cache"))
        for name in names:
            copy = shutil.copytree if (project / name).is_dir() else shutil.copy
            copy(project / name, here / name)
        yield here


def damaged(data: st.DataObject, content: bytes) -> bytes:
    """A JSON file of which a value or a byte is another one."""
    if data.draw(st.booleans()):
        return data.draw(mutated(content))
    text = json.dumps(
        data.draw(altered(json.loads(content))), ensure_ascii=data.draw(st.booleans())
    )
    return text.encode(errors="surrogatepass")


def spoilt(data: st.DataObject, results: Path) -> None:
    """Damage one single file, or a line of the compact form."""
    if (results / COMPACT).exists():
        lines = gzip.decompress((results / COMPACT).read_bytes()).splitlines()
        at = data.draw(st.integers(0, len(lines) - 1))
        lines[at : at + 1] = data.draw(
            st.sampled_from([[damaged(data, lines[at])], [], [lines[at]] * 2])
        )
        (results / COMPACT).write_bytes(gzip.compress(b"\n".join(lines) + b"\n"))
        return
    path = data.draw(st.sampled_from(sorted(results.glob("*.json"))))
    path.write_bytes(damaged(data, path.read_bytes()))


@pytest.mark.slow
@few
@given(data=st.data())
def test_results_of_graphs(data: st.DataObject, project: Path) -> None:
    results = data.draw(st.sampled_from(["graphs", "graphs-compact"]))
    figure = data.draw(st.sampled_from(["fig1", "fig4", "fig5", "geometry", "beta"]))
    commands: list[tuple[Any, list[str]]] = [
        (bench.main, [*GRAPHS, "--report-only", f"--output={results}", "--report=out/p.md"]),
        (bench.main, [f"--compact={results}"]),
        (figures.main, [figure, results, "-o", "f", "--only", "method=hscl", "--only", "beta=1"]),
    ]
    with copied(project, results) as here:
        spoilt(data, here / results)
        for command, arguments in commands:
            survives(lambda command=command, arguments=arguments: command(arguments))


@few
@given(data=st.data())
@pytest.mark.parametrize("kind", ["db", "journal"])
def test_searches(kind: str, data: st.DataObject, project: Path) -> None:
    more = data.draw(st.sampled_from([["--report-only"], ["--trials=4"]]))
    with copied(project, f"s.{kind}") as here:
        path = here / f"s.{kind}"
        content = path.read_bytes()
        if kind == "journal" and data.draw(st.booleans()):
            lines = content.splitlines()
            at = data.draw(st.integers(0, len(lines) - 1))
            other = damaged(data, lines[at])
            lines[at : at + 1] = data.draw(st.sampled_from([[other], [], [lines[at]] * 2, [b""]]))
            content = b"\n".join(lines) + b"\n" * data.draw(st.booleans())
        else:
            content = data.draw(mutated(content))
        path.write_bytes(content)
        survives(lambda: tune.main([*SEARCH, f"--storage=s.{kind}", *more]))


@few
@given(data=st.data())
@pytest.mark.parametrize("kind", ["molecules", "images"])
def test_the_cache(kind: str, data: st.DataObject, project: Path) -> None:
    """What is not as it was written is made again, and so the numbers are the same."""
    source, command, arguments = CACHED[kind]
    with copied(project, source, "cache") as here, pytest.MonkeyPatch.context() as patch:
        patch.setenv("GCL_HARD_CACHE", str(here / "cache"))
        files = sorted(path for path in (here / "cache" / kind).rglob("*") if path.is_file())
        path = data.draw(st.sampled_from(files))
        if data.draw(st.booleans()):
            path.write_bytes(data.draw(mutated(path.read_bytes())))
        else:
            path.unlink()
        status: list[int] = []
        survives(lambda: status.append(command([*arguments, "--output=out"])))
        if status == [0]:
            assert predictions(here / "out") == predictions(project / kind)


def predictions(folder: Path) -> dict[str, Any]:
    return {row.name: row.predicted for row in Store(folder).rows()}


@few
@given(data=st.data())
@pytest.mark.parametrize("results", ["graphs", "graphs-compact", "molecules", "molecules-compact"])
def test_no_result_changes_in_silence(results: str, data: st.DataObject, project: Path) -> None:
    """A value or some bytes of a file that are others: the result is as it was, or refused."""
    whole = {row.name: row.stored() for row in Store(project / results).rows()}
    with copied(project, results) as here:
        path = here / results / COMPACT
        lines = path.exists()
        if not lines:
            path = data.draw(st.sampled_from(sorted((here / results).glob("*_seed*.json"))))
        content = gzip.decompress(path.read_bytes()) if lines else path.read_bytes()
        if data.draw(st.booleans()):
            content = data.draw(mutated(content))
        else:
            texts = content.splitlines() if lines else [content]
            at = data.draw(st.integers(0, len(texts) - 1))
            texts[at] = json.dumps(data.draw(altered(json.loads(texts[at]), 1))).encode()
            content = b"\n".join(texts)
        path.write_bytes(gzip.compress(content) if lines else content)
        records: list[Any] = []
        survives(lambda: records.extend(Store(here / results).rows()))
        for row in records:
            stored = row.stored()
            assert row.name in whole
            if not row.unknown:  # which are told apart from ours, and kept
                assert stored == whole[row.name]
