"""The kinds of fault that bug reports of the field tell of, drawn at random.

``make fuzz`` runs more cases of these as well.
"""

from __future__ import annotations

import contextlib
import io
import os
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data

from gcl_hard import (
    ContrastiveLoss,
    InputError,
    NegativeSampler,
    Queue,
    contrastive_loss,
    load_encoder,
)
from gcl_hard.graphs import GIN, GraphSet, InfoGraph, load_graphs
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.images import load_images
from gcl_hard.losses.methods import METHODS
from gcl_hard.molecules import read_molecules
from gcl_hard.tuning.storage import opened, url_of
from tests.fuzz.survival import CASES, folder, fuzzed, mutated, survives, words

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # whatever is said of what is left out
    pytest.mark.timeout(0 if CASES else 600, method="thread"),
]


@fuzzed
@given(data=st.data())
def test_tu_files_of_every_shape(data: st.DataObject) -> None:
    """Edges in one direction, ids that begin anew, folders of other names, several of them."""
    n_graphs = data.draw(st.integers(1, 4))
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=n_graphs, max_size=n_graphs))
    anew = data.draw(st.booleans())
    lines, at = [], 1
    for n in sizes:
        start = 1 if anew else at
        for i in range(n - 1):
            edge = f"{start + i},{start + i + 1}"
            lines += [edge] if data.draw(st.booleans()) else [edge, ",".join(edge.split(",")[::-1])]
        at += n
    files = {
        "A": "\n".join(lines),
        "graph_indicator": "\n".join(str(g + 1) for g, n in enumerate(sizes) for _ in range(n)),
        "graph_labels": "\n".join(data.draw(st.lists(words, min_size=n_graphs, max_size=n_graphs)))
        if data.draw(st.booleans())
        else "\n".join(str(g % 2) for g in range(n_graphs)),
        "node_attributes": "\n".join(
            data.draw(st.sampled_from(["1, 2", "1e39", "nan", "0.5"])) for _ in range(sum(sizes))
        ),
    }
    inner = data.draw(
        st.lists(st.sampled_from(["", "N/", "n/", "N-main/", "data\\N\\raw\\", "__MACOSX/"]),
                 min_size=1, max_size=2)
    )  # fmt: skip
    with folder() as here:
        with zipfile.ZipFile(here / "N.zip", "w") as packed:
            for place in inner:
                for name, text in files.items():
                    packed.writestr(f"{place}N_{name}.txt", text)
        survives(lambda: load_graphs("N", data_dir=here, cache_dir=here / "cache", download=False))


cells = st.one_of(
    st.sampled_from([
        "", ">10", "10 nM", "15%", "5,2", "active", "yes", "1e39", "nan", "1", "0", "2.5", "train",
        "external", "dev", "TEST",
    ]),
    words,
)  # fmt: skip


@fuzzed
@given(data=st.data())
def test_tables_of_molecules_of_every_shape(data: st.DataObject) -> None:
    """Columns twice, measured values, splits of other words, rows without a molecule."""
    pytest.importorskip("rdkit")
    header = [
        "smiles",
        *data.draw(st.lists(st.sampled_from(["y", "z", "split", "id"]), max_size=4)),
    ]
    rows = []
    for _ in range(data.draw(st.integers(1, 6))):
        smiles = data.draw(st.sampled_from(["CCO", "c1ccccc1", "", "Total", "C[C@H](N)O", "xx"]))
        more = [data.draw(cells).replace("\n", " ") for _ in header[1:]]
        rows.append([smiles, *(f'"{cell}"' if "," in cell else cell for cell in more)])
    text = "\n".join(",".join(row) for row in [header, *rows])
    with folder() as here:
        (here / "mine.csv").write_text(text, encoding="utf-8", errors="replace")
        survives(lambda: read_molecules(here / "mine.csv", cache_dir=here / "cache"))


@fuzzed
@given(data=st.data())
def test_trees_of_images_of_every_shape(data: st.DataObject) -> None:
    """Splits and classes of any names, links in circles, suffixes of any kind."""
    from PIL import Image

    content = io.BytesIO()
    Image.new("RGB", (8, 8), (9, 99, 199)).save(content, "png")
    part = st.sampled_from(
        ["train", "Train", "test", "TEST", "val", "seg_train", "cat", "dog", ".x"]
    )
    suffix = st.sampled_from([".png", ".jfif", ".PNG", "", ".txt", ".pdf"])
    with folder() as here:
        root = here / data.draw(st.sampled_from(["pets", "Digits", "cifar10"]))
        for k in range(data.draw(st.integers(1, 12))):
            parts = data.draw(st.lists(part, max_size=3))
            path = root.joinpath(*parts) / f"{k}{data.draw(suffix)}"
            with contextlib.suppress(FileExistsError, NotADirectoryError):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.getvalue())
        for k in range(data.draw(st.integers(0, 2))):
            inside = data.draw(
                st.sampled_from(sorted(p for p in [root, *root.rglob("*")] if p.is_dir()))
            )
            with contextlib.suppress(FileExistsError):
                (inside / f"link{k}").symlink_to(
                    data.draw(st.sampled_from([".", "..", root, here]))
                )
        if data.draw(st.booleans()):
            name = os.fsencode(root) + b"/\xe9.png"
            Path(os.fsdecode(name)).write_bytes(content.getvalue())
        survives(lambda: load_images(root.name, data_dir=here, cache_dir=here / "cache"))


tensors = st.one_of(
    st.builds(
        torch.zeros,
        st.lists(st.integers(0, 4), max_size=3).map(tuple),
        dtype=st.sampled_from(
            [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool]
        ),
    ),
    st.just(torch.eye(3).to_sparse()),
    st.builds(torch.tensor, st.lists(st.integers(-2, 3), max_size=4)),
    st.builds(lambda y: np.array(y, np.uint16), st.lists(st.integers(0, 3), max_size=4)),
)


@fuzzed
@given(data=st.data())
def test_graphs_of_every_kind(data: st.DataObject) -> None:
    """Batches among graphs, features and targets of any dtype, edges out of range."""
    fields = {
        "x": st.one_of(st.just(torch.ones(3, 2)), tensors),
        "edge_index": st.sampled_from(
            [
                torch.tensor([[0, 1], [1, 0]]),
                torch.tensor([[0], [7]]),
                torch.zeros(2, 0).long(),
                None,
            ]
        ),
        "y": st.one_of(
            st.none(), tensors, st.sampled_from([0, 1, 0.5, 1e39, "word", float("nan")])
        ),
        "edge_weight": st.one_of(st.none(), tensors),
    }
    graphs = [
        Data(**{k: v for k in fields if (v := data.draw(fields[k])) is not None})
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    if data.draw(st.booleans()):
        with contextlib.suppress(Exception):  # of PyG, which cannot join anything
            graphs.append(Batch.from_data_list(graphs))
    survives(lambda: GraphSet.from_graphs(graphs))
    survives(lambda: InfoGraph(GIN(2, dim=4, layers=1), method="ucl").embed(graphs))


@fuzzed
@given(data=st.data())
def test_losses_of_anything(data: st.DataObject) -> None:
    """Views, labels and candidates of any shape and dtype, for every method."""
    views = st.one_of(st.just(torch.ones(3, 2)), st.just(torch.randn(4, 3)), tensors)
    z1, z2 = data.draw(views), data.draw(views)
    labels = data.draw(st.one_of(st.none(), tensors, st.just([0, 1, 2]), st.just(torch.arange(3))))
    gap = data.draw(st.sampled_from([None, (0.0, 0.5), (0.3, 1.0)]))
    loss = contrastive_loss(data.draw(st.sampled_from(sorted(METHODS))))
    if gap is not None:
        loss = ContrastiveLoss(NegativeSampler("other_labels", label_gap=gap), positives="class")
    survives(lambda: loss(z1, z2, labels))
    survives(lambda: loss(z1, labels))

    def queued() -> None:
        queue = Queue(4, 2)
        queue.add(z1, labels)
        loss(z1, z2, labels, **queue.candidates())

    survives(queued)


@fuzzed
@given(data=st.data())
def test_encoders_that_name_code(data: st.DataObject) -> None:
    """Whatever a file names as its encoder, nothing of it is called."""
    name = data.draw(
        st.one_of(
            st.sampled_from(["os:system", "subprocess:getoutput", "pathlib:Path.touch", "os:mkdir",
                             "own.pt@00000000", "timm:x", "builtins:open"]),
            st.tuples(words, words).map(":".join),
        )
    )  # fmt: skip
    with folder() as here:
        config = asdict(GraphConfig()) | {"encoder": name}
        torch.save(
            {"config": config, "seed": 0, "n_features": "touch called", "edge_dim": None,
             "encoders": [{}], "data": "x"},
            here / "some.pt",
        )  # fmt: skip
        survives(lambda: load_encoder(here / "some.pt"))
        assert [path.name for path in here.iterdir()] == ["some.pt"]


@fuzzed
@given(data=st.data())
def test_torn_journals(data: st.DataObject) -> None:
    """A journal that is damaged at its end keeps its trials; of any other not a byte is changed."""
    with folder() as here:
        path = here / "a.journal"
        study = optuna.create_study(
            storage=opened(url_of(str(path), here, "s")), study_name="s", load_if_exists=True
        )
        for value in range(3):
            trial = study.ask()
            study.tell(trial, float(value))
        whole = path.read_bytes()
        if data.draw(st.booleans()):
            last = whole[:-1].rfind(b"\n") + 1
            torn = whole[: data.draw(st.integers(last, len(whole) - 1))]
            torn += data.draw(st.sampled_from([b"", b"\0" * 7, b"\xff\xfe"]))
            expected = 2
        else:
            torn, expected = data.draw(mutated(whole)), None
        path.write_bytes(torn)
        again: list[Any] = []

        def read() -> None:
            storage = opened(url_of(str(path), here, "s"))
            trials = optuna.load_study(study_name="s", storage=storage).trials
            again.extend(t for t in trials if t.state.is_finished())

        try:
            with contextlib.suppress(KeyError):  # no study of the name is left
                survives(read)
        except InputError:
            pass
        if expected is not None:
            assert len(again) == expected
        elif not again:
            assert torn.startswith(path.read_bytes()) or path.read_bytes().startswith(torn)


@pytest.mark.slow
@fuzzed
@given(data=st.data())
def test_paths_of_studies(data: st.DataObject) -> None:
    """A study is in the file that its path says, or refused."""
    name = data.draw(st.text("ab %?#@:{}.é~&=+", min_size=1, max_size=8)).strip(". ")
    with folder() as here:
        place = here / (name or "x")
        place.mkdir()

        def make() -> None:
            url = url_of(None, place, "s")
            optuna.create_study(storage=opened(url), study_name="s")
            written = {path for path in here.rglob("*") if path.is_file()}
            assert written
            assert all(path.parent == place for path in written)

        survives(make)
