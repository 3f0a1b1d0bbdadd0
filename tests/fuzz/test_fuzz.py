"""Whatever a command line or a file holds, it is read, or refused with one of our errors.

``make fuzz`` runs 10,000 cases; the suite the same few each time (``FUZZ`` cases of each kind).
"""

from __future__ import annotations

import contextlib
import io
import shlex
import zipfile
from argparse import ArgumentParser
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gcl_hard import bench, load_encoder, load_pretrained
from gcl_hard.commands.bench import bench_parser, parse_bench
from gcl_hard.commands.pretrain import parse_pretrain, pretrain_parser
from gcl_hard.commands.tune import parse_tune, tune_parser
from gcl_hard.graphs import load_graphs
from gcl_hard.images import load_images
from gcl_hard.molecules import read_molecules
from gcl_hard.nodes import load_nodes
from gcl_hard.training.checkpoint import Checkpoint
from tests.fuzz.survival import CASES, edited, folder, fuzzed, mutated, survives, words

ROOT = Path(__file__).parents[2]
MUTAG = ROOT / "gcl_hard" / "data" / "MUTAG.zip"
pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # whatever libraries warn of
    pytest.mark.timeout(0 if CASES else 600, method="thread"),  # the alarm is a case's own
]
# Commands

PARSERS: dict[str, tuple[Callable[..., Any], Callable[[], ArgumentParser]]] = {
    "bench": (parse_bench, bench_parser),
    "tune": (parse_tune, tune_parser),
    "pretrain": (parse_pretrain, pretrain_parser),
}


@cache
def flags(name: str) -> list[str]:
    parser = PARSERS[name][1]()
    return sorted(option for action in parser._actions for option in action.option_strings)


@pytest.mark.parametrize("name", PARSERS)
@fuzzed
@given(data=st.data())
def test_arguments(name: str, data: st.DataObject) -> None:
    flag = st.one_of(st.sampled_from(flags(name)), words)
    pairs = data.draw(st.lists(st.tuples(flag, st.one_of(st.none(), words)), max_size=5))
    joined = [f"{flag}={value}" if value is not None else flag for flag, value in pairs]
    with folder() as here:
        survives(lambda: PARSERS[name][0](joined))
        assert not [*here.iterdir()]


@fuzzed
@given(data=st.data())
def test_settings_in_yaml(data: st.DataObject) -> None:
    source = data.draw(st.sampled_from(sorted((ROOT / "configs").rglob("*.yaml"))))
    text = data.draw(st.one_of(edited(source.read_text(encoding="utf-8")), st.text(max_size=60)))
    with folder() as here:
        (here / "config.yaml").write_text(text, encoding="utf-8", errors="replace")
        survives(lambda: parse_bench([f"--config={here / 'config.yaml'}"]))
        survives(lambda: parse_tune([f"--config={here / 'config.yaml'}"]))


# Data


@cache
def archive() -> dict[str, bytes]:
    with zipfile.ZipFile(MUTAG) as source:
        return {name: source.read(name) for name in source.namelist() if not name.endswith("/")}


@fuzzed
@given(data=st.data())
def test_archives_of_graphs(data: st.DataObject) -> None:
    """Damaged members, members outside their folder, and bytes that are no archive."""
    with folder() as here:
        whole = data.draw(st.booleans())
        if not whole:
            (here / "MUTAG.zip").write_bytes(data.draw(mutated(MUTAG.read_bytes())))
        else:
            members = dict(archive())
            victim = data.draw(st.sampled_from(sorted(members)))
            old = members.pop(victim)
            change = data.draw(st.sampled_from(["bytes", "text", "outside", "absent"]))
            if change == "bytes":
                members[victim] = data.draw(mutated(old))
            elif change == "text":
                members[victim] = data.draw(edited(old.decode())).encode()
            elif change == "outside":
                members["../" * data.draw(st.integers(1, 3)) + "escaped.txt"] = old
                members[victim] = old
            with zipfile.ZipFile(here / "MUTAG.zip", "w") as packed:
                for name, content in members.items():
                    packed.writestr(name, content)
        survives(
            lambda: load_graphs("MUTAG", data_dir=here, cache_dir=here / "cache", download=False)
        )


@fuzzed
@given(data=st.data())
def test_files_of_molecules(data: st.DataObject) -> None:
    pytest.importorskip("rdkit")
    usual = "smiles,y,split\nCCO,1,train\nc1ccccc1,0,test\nCN,1,train\nC[C@H](N)O,0,valid\n"
    text = data.draw(st.one_of(edited(usual), st.text("CNOcn()[]=#123@+-.,\n\"'yx", max_size=60)))
    with folder() as here:
        (here / "mine.csv").write_text(text, encoding="utf-8", errors="replace")
        survives(lambda: read_molecules(here / "mine.csv", cache_dir=here / "cache"))


arrays = st.one_of(
    st.builds(
        np.zeros,
        st.lists(st.integers(0, 9), max_size=5).map(tuple),
        st.sampled_from(["u1", "i8", "f4", "?", "U3", "c8"]),
    ),
    st.builds(lambda n: np.zeros((n, 8, 8, 3), np.uint8), st.integers(0, 5)),
    st.builds(lambda y: np.array(y, np.int64), st.lists(st.integers(-2, 3), max_size=5)),
)


@fuzzed
@given(data=st.data())
def test_arrays_of_images(data: st.DataObject) -> None:
    names = ("train_images", "train_labels", "test_images", "test_labels", "class_names")
    drawn = data.draw(st.dictionaries(st.sampled_from(names), arrays))
    file = io.BytesIO()
    np.savez(file, **drawn)
    content = file.getvalue()
    content = data.draw(st.one_of(st.just(content), mutated(content)))
    with folder() as here:
        (here / "MINE.npz").write_bytes(content)
        survives(lambda: load_images("MINE", data_dir=here, cache_dir=here / "cache"))


ROWS = {"data": np.ones(2), "indices": np.array([1, 2]), "indptr": np.array([0, 1, 2, 2]),
        "shape": np.array([3, 3])}  # fmt: skip
PART = np.eye(3, dtype=bool)[:, None]
LAYOUTS = (
    {f"{part}_{field}": values for part in ("adj", "attr") for field, values in ROWS.items()}
    | {"labels": np.array([0, 1, 1])},
    {"node_features": np.eye(3), "node_labels": np.array([0, 1, 1]), "edges": np.array([[0, 1]])},
)
"""Files of graphs with classes of nodes; both may have more arrays."""
odd = st.one_of(
    arrays,
    st.builds(np.array, st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4)),
    st.builds(np.array, st.lists(st.integers(-1, 4), min_size=3, max_size=4)),
    st.builds(np.array, st.lists(st.floats(), min_size=3, max_size=3)),
    st.builds(lambda n: np.array([[n, 0], [1, n]]), st.integers(-1, 3)),
    st.builds(lambda mask: np.array([mask]), st.lists(st.booleans(), min_size=3, max_size=3)),
)


@fuzzed
@given(data=st.data())
def test_arrays_of_nodes(data: st.DataObject) -> None:
    layout = data.draw(st.sampled_from(LAYOUTS))
    masks = {
        f"{name}_masks": mask for name, mask in zip(("train", "val", "test"), PART, strict=True)
    }
    others = {**masks, "class_names": np.array(["no", "yes"]), "attr_matrix": np.eye(3)}
    more = data.draw(st.sampled_from(["none", "masks", "all"]))
    whole = {**layout, **({} if more == "none" else masks if more == "masks" else others)}
    changed = data.draw(st.dictionaries(st.sampled_from(sorted(whole)), odd, max_size=3))
    file = io.BytesIO()
    np.savez(file, **{**whole, **changed})
    content = file.getvalue()
    content = data.draw(st.one_of(st.just(content), mutated(content)))
    with folder() as here:
        (here / "MINE.npz").write_bytes(content)
        survives(lambda: load_nodes("MINE", data_dir=here, cache_dir=here / "cache").digest)


@cache
def picture() -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (12, 9), (9, 99, 199)).save(file, "png")
    return file.getvalue()


@fuzzed
@given(data=st.data())
def test_folders_of_images(data: st.DataObject) -> None:
    with folder() as here:
        for label in ("a", "b"):
            for k in range(6):
                content = data.draw(st.one_of(st.just(picture()), mutated(picture())))
                path = here / "pets" / label / f"{k}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        survives(lambda: load_images("pets", data_dir=here, cache_dir=here / "cache"))


# What we write ourselves


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a result and an encoder."""
    here: Path = tmp_path_factory.mktemp("results")
    command = "--method=ucl --epochs=1 --seeds=1 --folds=2 --layers=1 --dim=4 --threads=1"
    with contextlib.redirect_stdout(io.StringIO()):
        assert bench.main([*shlex.split(command), "--save-encoder", f"--output={here}"]) == 0
    return here


@fuzzed
@given(data=st.data())
def test_encoders_and_checkpoints(data: st.DataObject, results: Path) -> None:
    (encoder,) = results.glob("*.pt")
    content = data.draw(mutated(encoder.read_bytes()))
    with folder() as here:
        path = here / "some.pt"
        path.write_bytes(content)
        survives(lambda: load_encoder(path))
        survives(lambda: load_pretrained(path))
        survives(lambda: Checkpoint(path, {"seed": 0}, resume=True).load())


@fuzzed
@given(
    content=st.recursive(
        st.one_of(st.none(), st.integers(-9, 9), st.text(max_size=4), st.just(torch.zeros(2))),
        lambda inner: st.dictionaries(
            st.sampled_from(["schema_version", "run", "notes", "state", "config", "encoder",
                             "encoders", "vocabulary"]),
            inner, max_size=4,
        ),
    )
)  # fmt: skip
def test_files_of_torch_that_are_something_else(content: Any) -> None:
    with folder() as here:
        path = here / "some.pt"
        torch.save(content, path)
        survives(lambda: load_encoder(path))
        survives(lambda: load_pretrained(path))
        survives(lambda: Checkpoint(path, {"seed": 0}, resume=True).load())
