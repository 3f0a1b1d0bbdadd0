"""Settings of recipes: what they name, what trains together, and what a share of graphs sees."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.svm import SVC
from torch import Tensor

from gcl_hard.errors import InputError
from gcl_hard.evaluation import (
    Fold,
    inner_holdout,
    kernel_fold,
    outer_folds,
    svm_cross_validation,
    svm_fold,
)
from gcl_hard.evaluation.kernels import C_GRID
from gcl_hard.experiments import graph_seeds, side_by_side
from gcl_hard.experiments.cell import defaults
from gcl_hard.experiments.cells import from_dict
from gcl_hard.experiments.floors import graph_size, probe_of, wl_kernel
from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.graph_seeds import run_seed, train_seeds
from gcl_hard.experiments.jobs import Job
from gcl_hard.experiments.packs import packs
from gcl_hard.experiments.protocols import build, folds_of, part_of
from gcl_hard.experiments.scoring import score
from gcl_hard.experiments.seed_score import SeedScore
from gcl_hard.experiments.side_by_side import Encoder, Trained, train_encoders
from gcl_hard.graphs import GraphSet, ViewPopulation, load
from gcl_hard.tuning.graph_part import accuracy_of

CELLS = Path(__file__).parents[2] / "benchmarks" / "results" / "cells"
NEW = ("jk", "edge_labels", "virtual_node", "encodings", "kernel", "c_grid", "train_share")


@pytest.fixture(scope="module")
def mutag() -> GraphSet:
    return load("MUTAG", download=False)


def small(method: str = "hscl", **settings: Any) -> GraphCell:
    return GraphCell(
        **{"method": method, "epochs": 2, "batch_size": 64, "layers": 2, "dim": 4, "folds": 3,
           **settings}
    )  # fmt: skip


def two_view(method: str = "hscl", **settings: Any) -> GraphCell:
    return small(method, contrast="two-view", **settings)


# Cells


@pytest.mark.parametrize(
    "name",
    [
        "MUTAG_hscl_paper_*_seed0.json", "ENZYMES_ucl_inductive_*.json",
        "PTC_MR_wl_inductive_*_seed0.json", "MUTAG_supervised_inductive_*_seed0.json",
        "IMDB-BINARY_untrained_inductive_*_seed0.json",
    ],
)  # fmt: skip
def test_finished_cells_keep_their_names(name: str) -> None:
    paths = sorted(CELLS.glob(name))
    assert paths
    for path in paths:
        config = json.loads(path.read_text(encoding="utf-8"))["config"]
        cell = from_dict(config)
        assert path.name.startswith(f"{cell.key()}_")
        again = json.loads(json.dumps({**config, **{n: getattr(cell, n) for n in NEW}}))
        assert from_dict(again) == cell


@pytest.mark.parametrize(
    "changed",
    [
        {"jk": "last"}, {"edge_labels": True}, {"virtual_node": True}, {"encodings": ("wl",)},
        {"kernel": "linear"}, {"c_grid": (1.0,)}, {"readout": "both"},
        {"protocol": "inductive", "train_share": 0.5},
    ],
)  # fmt: skip
def test_every_new_setting_is_in_the_name(changed: dict[str, Any]) -> None:
    plain = GraphCell(protocol=changed.get("protocol", "paper"))
    cell = replace(plain, **changed)
    assert cell.key() != plain.key()
    assert from_dict(json.loads(json.dumps(vars(cell)))) == cell


def test_empty_lists_and_whole_numbers_are_one_experiment() -> None:
    assert GraphCell(encodings=(), c_grid=()) == GraphCell()
    assert GraphCell(c_grid=(1, 10)) == GraphCell(c_grid=(1.0, 10.0))
    assert GraphCell(c_grid=(1, 10)).key() == GraphCell(c_grid=(1.0, 10.0)).key()
    floor = GraphCell(method="wl", c_grid=[1, 10])  # type: ignore[arg-type]
    assert floor.c_grid == (1.0, 10.0)


@pytest.mark.parametrize(
    ("method", "read"),
    [
        ("majority", set()),
        ("wl", {"c_grid", "train_share"}),
        ("graph-size", {"c_grid", "train_share"}),
        ("untrained", set(NEW)),
        ("supervised", {"jk", "edge_labels", "virtual_node", "encodings", "train_share"}),
    ],
)
def test_a_floor_has_the_settings_that_it_reads_alone(method: str, read: set[str]) -> None:
    every = {
        "jk": "last", "edge_labels": True, "virtual_node": True, "encodings": ("wl",),
        "kernel": "linear", "c_grid": (1.0,), "train_share": 0.5,
    }  # fmt: skip
    assert set(every) == set(NEW)
    cell, default = GraphCell(method=method, **every), defaults(GraphCell)
    assert {name for name in NEW if getattr(cell, name) != default[name]} == read


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"jk": "lats"}, "unknown jk 'lats'; did you mean last"),
        ({"kernel": "rbf+wloa"}, r"unknown kernel 'rbf\+wloa'; did you mean rbf\+wl"),
        ({"readout": "bth"}, "unknown readout 'bth'; did you mean both"),
        ({"encodings": ("cycels",)}, "unknown encoding 'cycels'; did you mean cycles"),
        ({"encodings": ("wl", "wl")}, "encoding 'wl' is named twice"),
        ({"c_grid": (1.0, 0.0)}, r"c-grid holds penalties C > 0, got \(1.0, 0.0\)"),
        ({"c_grid": (float("nan"),)}, "c-grid holds penalties C > 0"),
        ({"c_grid": (float("inf"),)}, "c-grid holds penalties C > 0"),
        ({"protocol": "inductive", "train_share": 0.0}, r"train-share is in \(0, 1\], got 0"),
        ({"protocol": "inductive", "train_share": 1.5}, r"train-share is in \(0, 1\], got 1.5"),
        ({"train_share": 0.5}, "under protocol paper encoders see all graphs"),
    ],
)  # fmt: skip
def test_cells_refuse(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        GraphCell(**settings)


def test_trained_leaves_out_what_only_the_svm_sees() -> None:
    cell = two_view(kernel="linear", standardise=False, c_grid=(1.0,), virtual_node=True)
    assert cell.trained == two_view(virtual_node=True)
    assert Job(cell, 3, inner=True).trained == Job(cell.trained, 3, inner=True)
    fields = set(defaults(GraphCell)) - {"kernel", "standardise", "c_grid"}
    assert all(getattr(cell, name) == getattr(cell.trained, name) for name in fields)


@pytest.mark.parametrize(
    ("dataset", "there"),
    [
        ("MUTAG", True), ("PTC_MR", True), ("PROTEINS", True), ("ENZYMES", False),
        ("IMDB-MULTI", False),
    ],
)  # fmt: skip
def test_edge_labels_train_apart_unless_a_set_is_known_to_have_none(
    dataset: str, there: bool
) -> None:
    with_edges, without = (two_view(dataset=dataset, edge_labels=given) for given in (True, False))
    assert (with_edges.trained != without.trained) is there
    assert (with_edges.together != without.together) is there
    found = packs([Job(with_edges, 0), Job(without, 0)], members=1)
    assert len(found) == 1 + there


# Packs


@pytest.mark.parametrize(
    "apart",
    [
        {"strength": 0.1}, {"augmentations": ("drop-nodes",)}, {"jk": "last"},
        {"edge_labels": True}, {"virtual_node": True}, {"readout": "both"},
        {"encodings": ("degree",)}, {"contrast": "local-global"}, {"dim": 8},
        {"protocol": "inductive"},
    ],
)  # fmt: skip
def test_other_views_and_encoders_train_apart(apart: dict[str, Any]) -> None:
    other = replace(two_view("ucl"), objective=None, temperature=None, **apart)
    cells = [two_view("ucl"), other, two_view("scl", lr=0.1, objective="jsd")]
    found = packs([Job(cell, 0) for cell in cells])
    assert [[job.cell for job in pack] for pack in found] == [[cells[0], cells[2]], [other]]


def test_shares_of_training_graphs_train_apart() -> None:
    cells = [two_view(protocol="inductive", train_share=share) for share in (1.0, 0.5)]
    assert len(packs([Job(cell, 0) for cell in cells])) == 2


PROBES: tuple[dict[str, Any], ...] = (
    {}, {"kernel": "linear", "c_grid": (0.1, 1.0)}, {"standardise": False},
    {"c_grid": (0.1, 10.0)},
)  # fmt: skip


def scored(method: str, **settings: Any) -> list[GraphCell]:
    return [two_view(method, **settings, **probe) for probe in PROBES]


def test_jobs_that_differ_in_scoring_alone_are_one_member_of_a_pack() -> None:
    cells = [cell for row in zip(scored("ucl"), scored("hscl"), strict=True) for cell in row]
    todo = [Job(cell, seed) for seed in (0, 1) for cell in cells]
    for members, sizes in ((2, [8, 8]), (1, [4, 4, 4, 4]), (3, [12, 4])):
        found = packs(todo, members=members)
        assert [len(pack) for pack in found] == sizes
        assert set(itertools.chain(*found)) == set(todo)
        for pack in found:
            assert len({job.trained for job in pack}) <= members
    assert [len(pack) for pack in packs(todo, n_processes=2)] == [8, 8]
    assert [len(pack) for pack in packs(todo, n_processes=4)] == [4, 4, 4, 4]


# Training


@pytest.fixture
def populations(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Kinds and sizes of what is trained from now on."""
    seen: list[tuple[str, int]] = []
    real = side_by_side.train_population

    def train(population: Any, *arguments: Any, **settings: Any) -> Any:
        seen.append((type(population).__name__, len(population.models)))
        return real(population, *arguments, **settings)

    monkeypatch.setattr(side_by_side, "train_population", train)
    return seen


def weights(results: Sequence[side_by_side.Result]) -> dict[int, dict[str, Tensor]]:
    found = {}
    for result in results:
        assert isinstance(result.trained, Trained)
        state = result.trained.model.state_dict()
        found[result.number] = {k: v for k, v in state.items() if isinstance(v, Tensor)}
    return found


@pytest.mark.parametrize("extra", [{}, {"edge_labels": True, "virtual_node": True, "jk": "last"}])
def test_two_view_encoders_side_by_side_are_those_trained_one_by_one(
    extra: dict[str, Any], mutag: GraphSet, populations: list[tuple[str, int]]
) -> None:
    folds = outer_folds(mutag.y.numpy(), seed=0, n_folds=3)[:2]
    cells = [two_view("ucl", epochs=1, **extra), two_view("hscl", lr=0.1, **extra)]
    encoders = [Encoder(cell, mutag, seed) for cell in cells for seed in (0, 1)]
    inductive = [replace(cell, protocol="inductive") for cell in cells]
    encoders += [
        Encoder.of_fold(cell, mutag, 0, k, fold) for cell in inductive for k, fold in
        enumerate(folds)
    ]  # fmt: skip
    together = weights(list(train_encoders(encoders, mutag, size=16)))
    assert sorted(populations) == [("ViewPopulation", 2)] * 4
    alone = weights(list(train_encoders(encoders, mutag, size=1)))
    assert together.keys() == alone.keys() == set(range(8))
    for number, state in together.items():
        assert all(torch.equal(state[name], alone[number][name]) for name in state)
    assert len({state["projection.0.weight"].sum().item() for state in together.values()}) == 8


def test_two_view_models_that_share_nothing_train_alone(
    mutag: GraphSet, populations: list[tuple[str, int]]
) -> None:
    cell = two_view("ucl")

    class Own(torch.nn.Module):
        out_dim = 7

        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
            return x, torch.zeros(int(batch.max()) + 1, 7).index_add_(0, batch, x)

    encoders = [Encoder(cell, mutag, 0, make=lambda _: Own()), Encoder(cell, mutag, 1)]
    results = list(train_encoders(encoders[:1], mutag)) + list(train_encoders(encoders[1:], mutag))
    assert all(isinstance(result.trained, Trained) for result in results)
    assert populations == [("Population", 1), ("ViewPopulation", 1)]


@pytest.mark.parametrize("protocol", ["paper", "inductive"])
def test_scorings_of_one_training_are_what_each_gives_by_itself(
    protocol: str, mutag: GraphSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"protocol": protocol, "folds": 2, "epochs": 1}
    cells = [*scored("ucl", **settings), two_view("hscl", **settings)]
    jobs = [Job(cell, 1) for cell in cells]
    trained: list[int] = []
    real = graph_seeds.train_encoders

    def counted(encoders: Sequence[Encoder], *arguments: Any, **options: Any) -> Any:
        trained.append(len(encoders))
        return real(encoders, *arguments, **options)

    monkeypatch.setattr(graph_seeds, "train_encoders", counted)
    epochs: dict[Job, list[float]] = {job: [] for job in jobs}
    told = [lambda k, epoch, loss, beside=1, job=job: epochs[job].append(epoch) for job in jobs]
    found = {one.job: one for one in train_seeds(jobs, mutag, told, size=4)}
    assert trained == [2 * cells[0].encoders]
    assert found.keys() == set(jobs)
    assert len({tuple(of_job) for of_job in epochs.values()}) == 1  # each one's bar moves
    assert all(epochs.values())
    accuracies = set()
    for cell, job in zip(cells, jobs, strict=True):
        one = found[job]
        assert one.scoring is not None
        mine, alone = one.finished(*score(one.scoring)), run_seed(cell, mutag, 1)
        assert (mine.folds, mine.final_losses) == (alone.folds, alone.final_losses)
        accuracies.add(tuple((fold.accuracy, fold.chosen) for fold in mine.folds))
    assert len(accuracies) >= 3  # the scorings differ


def test_a_diverged_training_is_the_error_of_all_its_scorings(mutag: GraphSet) -> None:
    bad = [Job(cell, 0) for cell in scored("ucl", lr=1e30)]
    good = Job(two_view("scl"), 0)
    found = list(train_seeds([*bad, good], mutag, [lambda *_: None] * 5, size=4))
    assert {one.job for one in found if one.error is not None} == set(bad)
    assert [one.job for one in found if one.score is not None] == [good]


def test_embeddings_meet_the_probe_of_their_cell(mutag: GraphSet) -> None:
    pytest.importorskip("grakel")
    cell = two_view("ucl", kernel="rbf+wl-oa", c_grid=(0.5, 50.0), protocol="inductive")
    found = run_seed(cell, mutag, 2)
    added = wl_kernel(mutag, optimal_assignment=True)
    y = mutag.y.numpy()
    for k, fold in enumerate(outer_folds(y, seed=2, n_folds=3)):
        (result,) = train_encoders([Encoder.of_fold(cell, mutag, 2, k, fold)], mutag)
        assert isinstance(result.trained, Trained)
        z = result.trained.model.embed(mutag.all()).double().numpy()
        expected = svm_fold(z, y, fold, C_grid=(0.5, 50.0), seed=2, added=added)
        assert found.folds[k] == expected
        # By hand: the sum of two kernels, with the C that was chosen.
        z = (z - z[fold.train].mean(0)) / np.maximum(z[fold.train].std(0), 1e-12)
        squared = ((z[:, None] - z[None]) ** 2).sum(2)
        K = np.exp(-squared / (z.shape[1] * z[fold.train].var())) + added
        svm = SVC(kernel="precomputed", C=expected.chosen)
        svm.fit(K[np.ix_(fold.train, fold.train)], y[fold.train])
        right = svm.predict(K[np.ix_(fold.test, fold.train)]) == y[fold.test]
        assert expected.accuracy == pytest.approx(right.mean())


@pytest.mark.parametrize("edge_labels", [False, True])
def test_build_takes_edges_only_where_they_are_asked_for_and_there(
    *, edge_labels: bool, mutag: GraphSet
) -> None:
    cell = two_view(edge_labels=edge_labels, jk="last", readout="both", virtual_node=True)
    for edge_dim in (None, 4):
        gin: Any = build(cell, 7, 0, edge_dim=edge_dim).encoder
        assert gin.edge_dim == (edge_dim if edge_labels else None)
        assert (gin.jk, gin.readout, len(gin.virtual), gin.out_dim) == ("last", "both", 1, 8)
    without = replace(mutag, edge_attr=None)
    first = weights(list(train_encoders([Encoder(cell, without, 0)], without)))[0]
    plain = replace(cell, edge_labels=False)
    second = weights(list(train_encoders([Encoder(plain, without, 0)], without)))[0]
    assert all(torch.equal(first[name], second[name]) for name in first)


# A share of the training graphs

LABELS = np.array([0] * 50 + [1] * 24 + [2] * 7 + [3] * 1)
WHOLE = Fold(np.setdiff1d(np.arange(82), [0, 1, 50, 74]), np.array([0, 1, 50, 74]))


@pytest.mark.parametrize("seed", range(5))
def test_parts_of_a_fold_are_stratified_nested_and_leave_the_test_part(seed: int) -> None:
    shares = (0.01, 0.25, 0.5, 0.77, 1.0)
    parts = [part_of(WHOLE, LABELS, seed=seed, share=share) for share in shares]
    for share, part in zip(shares, parts, strict=True):
        assert np.array_equal(part.test, WHOLE.test)
        assert np.array_equal(part.train, np.unique(part.train))
        assert set(part.train) <= set(WHOLE.train)
        sizes = np.bincount(LABELS[part.train], minlength=4)
        whole = np.bincount(LABELS[WHOLE.train], minlength=4)
        assert (sizes >= 1).all()
        assert (np.abs(sizes - np.maximum(share * whole, 1)) <= 0.5).all()
    for smaller, larger in itertools.pairwise(parts):
        assert set(smaller.train) < set(larger.train)
    assert np.array_equal(parts[-1].train, WHOLE.train)
    again = part_of(WHOLE, LABELS, seed=seed, share=0.5)
    assert np.array_equal(again.train, parts[2].train)
    assert not np.array_equal(part_of(WHOLE, LABELS, seed=seed + 100, share=0.5).train, again.train)


def test_folds_of_a_share_are_parts_of_the_folds(mutag: GraphSet) -> None:
    y = mutag.y.numpy()
    cell = two_view(protocol="inductive", train_share=0.5)
    whole = outer_folds(y, seed=3, n_folds=3)
    for fold, part in zip(whole, folds_of(cell, y, 3), strict=True):
        assert np.array_equal(part.train, part_of(fold, y, seed=3, share=0.5).train)
        assert np.array_equal(part.test, fold.test)
        assert abs(len(part.train) - len(fold.train) / 2) <= 1
    for fold, inner in zip(whole, folds_of(cell, y, 3, inner=True), strict=True):
        part = part_of(fold, y, seed=3, share=0.5)
        expected = inner_holdout(part.train, y, seed=3)
        assert np.array_equal(inner.train, expected.train)
        assert np.array_equal(inner.test, expected.test)
        assert not set(inner.train) & set(inner.test)
        assert not (set(inner.train) | set(inner.test)) & set(fold.test)


def with_garbage(graphs: GraphSet, ids: Sequence[int]) -> GraphSet:
    """The set with features that no graph has in some graphs."""
    x = graphs.x.clone()
    for g in ids:
        x[graphs.node_ptr[g] : graphs.node_ptr[g + 1]] = 7.0
    return replace(graphs, x=x)


@pytest.mark.parametrize("method", ["hscl", "supervised"])
def test_an_encoder_sees_its_share_and_nothing_else(
    method: str, mutag: GraphSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = two_view(method, protocol="inductive", train_share=0.5)
    if method == "supervised":
        cell = small(method, train_share=0.5)
    found: list[dict[str, Tensor]] = []
    real = graph_seeds.train_encoders

    def spy(*arguments: Any, **settings: Any) -> Any:
        for result in real(*arguments, **settings):
            found.append({k: v.clone() for k, v in weights([result])[result.number].items()})
            yield result

    monkeypatch.setattr(graph_seeds, "train_encoders", spy)
    part = folds_of(cell, mutag.y.numpy(), 4)[1]
    unseen = sorted(set(range(188)) - set(part.train.tolist()))
    (clean,) = train_seeds([Job(cell, 4)], mutag, [lambda *_: None])
    assert clean.score is not None
    list(train_seeds([Job(cell, 4)], with_garbage(mutag, unseen), [lambda *_: None]))
    list(train_seeds([Job(replace(cell, train_share=1.0), 4)], mutag, [lambda *_: None]))
    same = [
        [all(torch.equal(one[n], two[n]) for n in one) for one, two in zip(found[:3], other,
         strict=True)]
        for other in (found[3:6], found[6:])
    ]  # fmt: skip
    assert same[0][1] is True
    assert same[1] == [False, False, False]


# Floors


def floor_folds(cell: GraphCell, graphs: GraphSet, *, inner: bool) -> list[Fold]:
    """In the words of the protocol."""
    y, found = graphs.y.numpy(), []
    for fold in outer_folds(y, seed=5, n_folds=3):
        part = part_of(fold, y, seed=5, share=cell.train_share)
        found.append(inner_holdout(part.train, y, seed=5) if inner else part)
    return found


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_floors_are_scored_on_the_share_and_inside_hold_outs(
    share: float, *, inner: bool, mutag: GraphSet
) -> None:
    pytest.importorskip("grakel")
    y, grid = mutag.y.numpy(), (0.1, 10.0)
    K = wl_kernel(mutag, optimal_assignment=False)

    def of(method: str) -> tuple[GraphCell, SeedScore]:
        cell = small(method, train_share=share, c_grid=grid)
        return cell, run_seed(cell, mutag, 5, inner=inner)

    cell, found = of("wl")
    folds = floor_folds(cell, mutag, inner=inner)
    assert found.folds == tuple(kernel_fold(K, y, fold, C_grid=grid, seed=5) for fold in folds)
    assert {fold.chosen for fold in found.folds} <= set(grid)
    _, found = of("graph-size")
    X = graph_size(mutag)
    assert found.folds == tuple(svm_fold(X, y, fold, C_grid=grid, seed=5) for fold in folds)
    cell, found = of("untrained")
    z = Encoder(cell, mutag, 5).build().embed(mutag.all()).double().numpy()
    assert found.folds == tuple(svm_fold(z, y, fold, C_grid=grid, seed=5) for fold in folds)
    _, found = of("majority")  # has no share: its classes are as many times fewer
    whole = floor_folds(small("majority"), mutag, inner=inner)
    for one, fold in zip(found.folds, whole, strict=True):
        label = np.bincount(y[fold.train]).argmax()
        assert one.accuracy == pytest.approx((y[fold.test] == label).mean())


def test_untrained_of_all_graphs_is_scored_as_before(mutag: GraphSet) -> None:
    cell = small("untrained")
    z = Encoder(cell, mutag, 5).build().embed(mutag.all()).double().numpy()
    expected = svm_cross_validation(z, mutag.y.numpy(), seed=5, n_folds=3)
    assert run_seed(cell, mutag, 5).folds == expected.folds


# Probes


def test_a_probe_is_that_of_the_cell(mutag: GraphSet) -> None:
    assert probe_of(GraphCell(), mutag) == {"kernel": "rbf", "C_grid": C_GRID, "added": None}
    linear = GraphCell(kernel="linear", c_grid=(2.0,))
    assert probe_of(linear, mutag) == {"kernel": "linear", "C_grid": (2.0,), "added": None}


@pytest.mark.parametrize("name", ["wl", "wl-oa"])
def test_the_wl_kernel_of_a_probe_ignores_encodings(name: str, mutag: GraphSet) -> None:
    pytest.importorskip("grakel")
    graphs = mutag.take(torch.arange(30))
    cell = GraphCell(kernel=f"rbf+{name}")  # type: ignore[arg-type]
    expected = wl_kernel(graphs, optimal_assignment=name == "wl-oa")
    for encodings in ([], ["random-walk", "cycles"]):
        probe = probe_of(cell, graphs.encoded(encodings))
        assert probe["kernel"] == "rbf"
        assert probe["added"] is not None
        np.testing.assert_array_equal(probe["added"], expected)
    unlike = replace(graphs.encoded(["random-walk"]), n_encoded=0)  # as if they were features
    added = probe_of(cell, unlike)["added"]
    assert added is not None
    assert np.abs(added - expected).max() > 0.01


@pytest.mark.parametrize("probe", PROBES)
def test_a_search_scores_by_the_same_probe(probe: dict[str, Any], mutag: GraphSet) -> None:
    cell = two_view("ucl", **probe)
    y, fold = mutag.y.numpy(), outer_folds(mutag.y.numpy(), seed=0, n_folds=3)[0]
    z = np.random.default_rng(0).normal(size=(188, 5)) * [1, 5, 25, 1, 1] + y[:, None]
    how: dict[str, Any] = {"standardise": cell.standardise, "seed": 7, "kernel": cell.kernel}
    how["C_grid"] = cell.c_grid or C_GRID
    expected = 100 * svm_fold(z, y, fold, **how).accuracy
    assert accuracy_of(z, cell, mutag, seed=7, fold=fold) == expected
    expected = 100 * svm_cross_validation(z, y, n_folds=3, **how).accuracy
    assert accuracy_of(z, cell, mutag, seed=7, fold=None) == expected


def test_two_view_populations_are_what_a_size_is_chosen_of(
    mutag: GraphSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[tuple[type, int]] = []

    def seconds(of: Any, *_: Any) -> float:
        tried.append((type(of), len(of.models)))
        return {1: 10.0, 4: 1.0, 6: 100.0}[len(of.models)]

    from gcl_hard.experiments import population_size

    monkeypatch.setattr(population_size, "seconds_per_step", seconds)
    fresh = replace(mutag)
    cells = [two_view("hucl", beta=float(beta), epochs=1) for beta in range(6)]
    sizes: list[int] = []
    real = side_by_side.train_population

    def train(population: Any, *arguments: Any, **settings: Any) -> Any:
        sizes.append(len(population.models))
        return real(population, *arguments, **settings)

    monkeypatch.setattr(side_by_side, "train_population", train)
    list(train_encoders([Encoder(cell, fresh, 0) for cell in cells], fresh))
    assert tried == [(ViewPopulation, 1), (ViewPopulation, 4), (ViewPopulation, 6)]
    assert sizes == [3, 3]  # parts of at most four
