"""Data sets of a process, and what is known of them as long as neither files nor source change."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from gcl_hard.errors import InputError
from gcl_hard.experiments.datasets import DataSets
from gcl_hard.experiments.experiment import Clock, seeded_weights
from gcl_hard.experiments.runner import data_sets
from gcl_hard.graphs import PACKAGED, GraphSet, load_graphs, tudataset
from gcl_hard.graphs.experiment import GraphExperiment
from gcl_hard.graphs.settings import GraphConfig
from tests.experiments.made import context

CONFIG = GraphConfig(method="ucl")
SOURCE = "0123abcd"

Loads = list[tuple[str, str]]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GCL_HARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GCL_HARD_DATA", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def mirror(tmp_path: Path, cache: Path) -> Path:
    """A folder with a copy of the packaged archive."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    shutil.copy2(PACKAGED / "MUTAG.zip", folder)
    return folder


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> Loads:
    """Sets that are read from now on, with their features."""
    seen: Loads = []

    def spy(name: str, **settings: Any) -> Any:
        seen.append((name, settings["features"]))
        return load_graphs(name, **settings)

    monkeypatch.setattr(tudataset, "load_graphs", spy)
    return seen


def new(folder: Path | None, source: str = SOURCE) -> DataSets:
    """As another process would have it."""
    where = context(Path("results"), data_dir=folder)
    return DataSets(replace(where, versions={"source": source}))


# What is said of a set


def test_facts_are_those_of_mutag(mirror: Path) -> None:
    data = new(mirror)
    facts = data.facts(CONFIG)
    digest, edge_digest = facts.pop("digest"), facts.pop("edge_digest")
    assert facts == {
        "n_graphs": 188, "n_classes": 2, "n_features": 7, "features": "labels",
        "class_names": ["-1", "1"],
    }  # fmt: skip
    assert int(digest, 16) != int(edge_digest, 16)
    assert data.size(CONFIG) == (3371, 188)


def test_every_part_of_the_graphs_changes_the_digest() -> None:
    """One node's feature, one edge's end, one graph's label, where one graph ends."""
    graphs = load_graphs("MUTAG")
    x, edges, y, ptr = (t.clone() for t in (graphs.x, graphs.edge_index, graphs.y, graphs.node_ptr))
    x[-1, 0] += 1
    edges[1, -1] -= 1
    y[-1] = 1 - y[-1]
    ptr[1] -= 1
    changed = [
        replace(graphs, x=x),
        replace(graphs, edge_index=edges),
        replace(graphs, y=y),
        replace(graphs, node_ptr=ptr),
    ]
    digests = [GraphExperiment().facts(g)["digest"] for g in (graphs, *changed)]
    assert len(set(digests)) == 5
    mutag = load_graphs("MUTAG")
    assert GraphExperiment().facts(mutag)["digest"] == digests[0]


def test_a_set_is_read_once_for_each_kind_of_features(mirror: Path, loads: Loads) -> None:
    data = new(mirror)
    other = GraphConfig(method="scl", epochs=3)
    constant = GraphConfig(method="ucl", features="constant")
    assert data.load(CONFIG) is data.load(other)
    assert data.load(CONFIG).n_features == 7
    assert data.load(constant).n_features == 1
    data.facts(other)
    data.size(constant)
    assert loads == [("MUTAG", "auto"), ("MUTAG", "constant")]


def test_a_set_that_is_nowhere_is_an_error(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tudataset, "SITE", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(
        InputError, match=r"'NOSUCHSET'(.|\n)*127\.0\.0\.1:9/NOSUCHSET\.zip: .*refused"
    ):
        new(None).facts(GraphConfig(dataset="NOSUCHSET"))


# What is remembered


def test_facts_are_remembered_without_reading_the_graphs_again(
    mirror: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = new(mirror).facts(CONFIG)
    monkeypatch.setattr(tudataset, "load_graphs", lambda *_, **__: pytest.fail("read again"))
    monkeypatch.setattr(GraphExperiment, "facts", lambda *_: pytest.fail("worked out again"))
    assert new(mirror).facts(CONFIG) == first
    assert new(mirror).facts(GraphConfig(method="hscl", beta=3.0, folds=2)) == first
    assert len([*(cache / "facts").iterdir()]) == 1


def touch(archive: Path) -> None:
    status = archive.stat()
    os.utime(archive, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000))


def exchange(archive: Path) -> None:
    """Another file of the same name, size and date."""
    status = archive.stat()
    archive.write_bytes(archive.read_bytes())
    os.utime(archive, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("change", [touch, exchange])
def test_facts_are_forgotten_when_the_file_changes(
    change: Callable[[Path], None], mirror: Path, loads: Loads
) -> None:
    first = new(mirror).facts(CONFIG)
    change(mirror / "MUTAG.zip")
    assert new(mirror).facts(CONFIG) == first
    assert len(loads) == 2
    new(mirror).facts(CONFIG)
    assert len(loads) == 2


def test_facts_are_forgotten_when_the_source_changes(mirror: Path, loads: Loads) -> None:
    new(mirror).facts(CONFIG)
    new(mirror, "another").facts(CONFIG)
    assert len(loads) == 2
    for source in (SOURCE, "another"):
        new(mirror, source).facts(CONFIG)
    assert len(loads) == 2


def test_two_files_of_one_name_are_two_sets(mirror: Path, tmp_path: Path, loads: Loads) -> None:
    """Even of one size and date, as a copied mirror may have them."""
    (tmp_path / "other").mkdir()
    shutil.copy2(mirror / "MUTAG.zip", tmp_path / "other")
    for folder in (mirror, tmp_path / "other", None, mirror):
        new(folder).facts(CONFIG)
    assert len(loads) == 3


def one_of(folder: Path, n_edges: int) -> None:
    """A set, SET, of two chains, and of as many edges."""
    folder.mkdir(exist_ok=True)
    edges = "".join(f"{k}, {k + 1}\n{k + 1}, {k}\n" for k in range(1, n_edges + 1))
    for name, text in {
        "A": edges, "graph_indicator": "1\n" * 5 + "2\n" * 5, "graph_labels": "1\n2\n"
    }.items():  # fmt: skip
        (folder / f"SET_{name}.txt").write_text(text)


def test_a_process_reads_anew_what_has_changed_between_two_calls(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook whose files are written again, or that goes to another folder."""
    shown = []

    def called() -> GraphSet:
        data = data_sets(context(Path("results"), data_dir=Path()))
        config = GraphConfig(dataset="SET", features="constant")
        shown.append(data.facts(config)["digest"])
        graphs: GraphSet = data.load(config)
        assert data.load(config) is graphs
        return graphs

    for name, n_edges in {"a": 3, "b": 2}.items():
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        one_of(Path("SET"), n_edges)
        assert called().edge_index.shape[1] == 2 * n_edges
    again = called()
    assert called() is again
    one_of(Path("SET"), 4)
    assert called().edge_index.shape[1] == 8
    assert len(set(shown)) == 3


@pytest.mark.parametrize("where", ["MUTAG_graph_labels.txt", "MUTAG_node_labels.txt"])
def test_an_unpacked_set_is_known_by_its_files(where: str, mirror: Path, loads: Loads) -> None:
    archive = mirror / "MUTAG.zip"
    with zipfile.ZipFile(archive) as file:
        file.extractall(mirror)
    archive.unlink()
    (changed,) = mirror.rglob(where)
    first = new(mirror).facts(CONFIG)
    assert new(mirror).facts(CONFIG) == first
    assert len(loads) == 1
    lines = changed.read_text(encoding="utf-8").splitlines()
    changed.write_text("\n".join(reversed(lines)) + "\n", encoding="utf-8")
    touch(changed)
    assert new(mirror).facts(CONFIG)["digest"] != first["digest"]
    assert len(loads) == 2


# A cache that is lost costs time only


@pytest.mark.parametrize("content", ["", "{", "\xff\xfe"])
def test_a_damaged_cache_is_made_anew(
    content: str, mirror: Path, cache: Path, loads: Loads
) -> None:
    first = new(mirror).facts(CONFIG)
    (path,) = (cache / "facts").iterdir()
    path.write_bytes(content.encode("latin-1"))
    assert new(mirror).facts(CONFIG) == first
    assert new(mirror).facts(CONFIG) == first
    assert len(loads) == 2


def test_a_cache_that_cannot_be_written_is_no_error(
    mirror: Path, cache: Path, loads: Loads
) -> None:
    cache.write_text("a file where the folder should be", encoding="utf-8")
    facts = [new(mirror).facts(CONFIG) for _ in range(2)]
    assert facts[0] == facts[1]
    assert len(loads) == 2
    assert cache.is_file()


# Names, weights, times


def test_weights_are_those_of_seed_and_encoder_and_the_global_state_is_left() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    drawn = {}
    for seed, encoder in ((0, 0), (0, 1), (1, 0), (0, 0)):
        with seeded_weights(seed, encoder) as views:
            drawn.setdefault((seed, encoder), []).append((torch.randn(3).tolist(), views))
    assert torch.equal(torch.get_rng_state(), before)
    again, *_ = drawn[0, 0]
    assert drawn[0, 0] == [again, again]
    assert len({str(ids) for ids in drawn.values()}) == 3


def test_a_clock_has_an_account_for_training_and_one_for_scoring(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def later(seconds: float) -> None:
        now[0] += seconds

    notes = dict[str, Any]()
    clock = Clock(notes)
    for seconds, account in ((1, clock.train), (2, clock.evaluate), (4, clock.pause)):
        later(seconds)
        account()
    later(8)
    clock.train()
    assert clock.seconds == (9, 2)
    assert notes == {"seconds": [9, 2]}
    later(1)
    resumed = Clock(notes)
    later(1)
    resumed.evaluate()
    assert resumed.seconds == (9, 3)
