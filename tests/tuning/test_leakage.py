"""Nothing of an outer test part can be reached by what scores trials, or changes a bit of it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import (
    BuiltinFunctionType,
    FrameType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.commands.study import study
from gcl_hard.evaluation import Fold
from gcl_hard.experiments.trials import Candidate, Inner, Score, Steps
from gcl_hard.graphs import GraphSet, protocols
from gcl_hard.graphs import trials as graph_trials
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.graphs.trials import GraphOuter, GraphPart, cut_graphs
from gcl_hard.images import training as image_training
from gcl_hard.images.trials import ImageOuter
from gcl_hard.tuning import SearchResult, objective
from gcl_hard.tuning.options import PrunerName
from tests.experiments import tiny_images
from tests.tuning.scoring import outer_accuracy, scores_of

LR = {"lr": {"type": "float", "low": 1e-4, "high": 0.1, "log": True}}
OTHER = (type, ModuleType, BuiltinFunctionType, GetSetDescriptorType, MemberDescriptorType)


SMALL: dict[str, Any] = {"protocol": "inductive", "epochs": 3, "layers": 2, "dim": 4}


def small(**settings: Any) -> GraphConfig:
    return GraphConfig(**SMALL | settings)


# What can be reached


def neighbours(thing: object) -> Iterator[object]:
    """What an object holds; of a function what it has caught, not the module that it is in."""
    if isinstance(thing, FunctionType):
        yield from (thing.__closure__, thing.__defaults__, thing.__kwdefaults__)
    elif isinstance(thing, Tensor):
        yield from (thing._base, thing.grad, vars(thing))
    elif isinstance(thing, np.ndarray):
        yield thing.base
    else:
        yield from gc.get_referents(thing)
        yield getattr(thing, "__dict__", None)


def reachable(root: object) -> list[object]:
    """Everything that can be come to from an object."""
    seen: dict[int, object] = {}
    todo: list[object] = [root]
    while todo:
        thing = todo.pop()
        if id(thing) in seen or thing is None or isinstance(thing, (*OTHER, FrameType)):
            continue
        seen[id(thing)] = thing
        todo.extend(neighbours(thing))
    return list(seen.values())


def sizes(root: object) -> set[int]:
    """Lengths of all tensors and arrays that can be come to, and of the memory behind them."""
    lengths: set[int] = set()
    for thing in reachable(root):
        if isinstance(thing, Tensor) and thing.layout == torch.strided:
            lengths |= {*thing.shape, thing.untyped_storage().nbytes() // thing.element_size()}
        elif isinstance(thing, Tensor | np.ndarray):
            lengths |= {*thing.shape}
    return lengths


def sizes_of(graphs: GraphSet) -> set[int]:
    """Lengths that only tensors of the whole set have."""
    n_edges = graphs.edge_index.shape[1]
    return {
        graphs.n_graphs, graphs.n_graphs + 1, graphs.n_nodes, n_edges, graphs.x.numel(),
        graphs.edge_index.numel(),
    }  # fmt: skip


def run(part: Any, *configs: Any, folds: int = 1, steps: Steps = "epochs") -> list[float | None]:
    tried = [Candidate(n, config) for n, config in enumerate(configs)]
    scores = scores_of(part, tried, Inner(folds, steps))
    assert all(score.error is None for score in scores.values())
    return [scores[n].value for n in range(len(configs))]


@pytest.mark.parametrize("worked", [False, True])
@pytest.mark.parametrize("n_folds", [1, 3])
def test_from_a_part_there_is_no_way_to_the_whole_set(
    mutag: GraphSet, n_folds: int, *, worked: bool
) -> None:
    for fold in cut_graphs(mutag, n_folds, seed=0):
        outer = GraphOuter(mutag, fold)
        if worked:  # what it remembers too
            run(outer.part, small(), small(beta=10.0))
        reached = reachable(outer.part)
        assert not any(thing is mutag or thing is fold for thing in reached)
        assert not any(isinstance(thing, GraphOuter) for thing in reached)
        lengths = sizes(outer.part)
        assert len(fold.train) in lengths
        assert not lengths & sizes_of(mutag)
        assert sizes_of(mutag) <= sizes(outer)  # the walk does find it where it is


def test_the_walk_sees_through_closures_views_and_attributes(mutag: GraphSet) -> None:
    """A part that kept the set in any of these ways would be caught."""

    def caught() -> int:
        return mutag.n_graphs

    (fold,) = cut_graphs(mutag, 1, seed=0)
    part = GraphOuter(mutag, fold).part
    view = mutag.y[: len(fold.train)]
    ways: list[Any] = [caught, [{"a": (mutag,)}], view, view.numpy(), mutag.all, mutag.all()]
    for way in ways:
        leaky = GraphPart(part.data)
        leaky.kept = way  # type: ignore[attr-defined]
        assert sizes(leaky) & sizes_of(mutag), way
    assert not sizes(part) & sizes_of(mutag)


def test_from_a_part_of_images_there_is_no_way_to_test_images() -> None:
    data = tiny_images.few_digits()
    outer = ImageOuter(data, Inner(folds=2))
    reached = reachable(outer.part)
    assert not any(thing is data or thing is data.test for thing in reached)
    assert not {len(data.test), len(data.probe)} & sizes(outer.part)
    tests = {tuple(image.flatten().tolist()) for image in data.test.images}
    images = [
        tuple(image.flatten().tolist())
        for thing in reached
        if isinstance(thing, Tensor) and thing.dtype == torch.uint8
        for image in thing
    ]
    assert len(images) >= 2 * len(data.probe)
    assert not tests & set(images)
    assert {len(data.test), len(data.probe)} <= sizes(outer)


# What would change


def with_garbage(graphs: GraphSet, fold: Fold) -> GraphSet:
    """Other features, edges and labels of the graphs outside a part."""
    hidden = torch.zeros(graphs.n_graphs, dtype=torch.bool)
    hidden[torch.from_numpy(fold.test)] = True
    x, y, edges = graphs.x.clone(), graphs.y.clone(), graphs.edge_index.clone()
    x[torch.repeat_interleave(hidden, graphs.node_ptr.diff())] = torch.nan
    y[hidden] = 1 - y[hidden]
    of_graph = torch.repeat_interleave(torch.arange(graphs.n_graphs), graphs.edge_ptr.diff())
    outside = hidden[of_graph]
    edges[:, outside] = graphs.node_ptr[of_graph[outside]]  # all at the first node
    return replace(graphs, x=x, y=y, edge_index=edges)


@pytest.mark.parametrize(("n_folds", "folds", "steps"), [(1, 2, "folds"), (3, 1, "epochs")])
def test_garbage_outside_changes_no_bit_of_an_inner_score(
    mutag: GraphSet, n_folds: int, folds: int, steps: Steps
) -> None:
    published = {"hardness_scale": "batch-max"}
    cells = [
        small(**published), small(beta=10.0, lr=0.1, **published), small(layers=1, method="scl")
    ]  # fmt: skip
    fold = cut_graphs(mutag, n_folds, seed=0)[-1]
    dirty = with_garbage(mutag, fold)
    assert not torch.equal(dirty.y, mutag.y)
    parts = [GraphOuter(graphs, fold).part for graphs in (mutag, dirty)]
    clean, other = (run(part, *cells, folds=folds, steps=steps) for part in parts)
    assert clean == other
    assert len(set(clean)) > 1


def test_degrees_outside_change_no_bit_of_what_is_scored(
    mutag: GraphSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded: list[NDArray[np.float64]] = []
    real = protocols.embeddings

    def embeddings(*arguments: Any) -> NDArray[np.float64]:
        embedded.append(real(*arguments))
        return embedded[-1]

    monkeypatch.setattr(protocols, "embeddings", embeddings)
    (fold,) = cut_graphs(mutag, 1, seed=0)
    everyone = torch.arange(mutag.n_graphs)
    for graphs in (mutag, with_garbage(mutag, fold)):
        scalar = replace(graphs, features="degree-scalar").standardised_on(everyone)
        run(GraphOuter(scalar, fold).part, small(), steps="none")
    np.testing.assert_array_equal(embedded[0], embedded[1])
    assert len(embedded) == 2


@pytest.fixture
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        image_training, "image_encoder", lambda name, stem, width: tiny_images.Tiny()
    )


@pytest.mark.usefixtures("_tiny")
def test_other_test_images_and_labels_change_no_bit_of_an_inner_score() -> None:
    data = tiny_images.few_digits()
    dirty = replace(data, test=tiny_images.garbage(data.test))
    few: dict[str, Any] = {"probe_epochs": 5}
    cells = [tiny_images.small(**few), tiny_images.small(**few, beta=10.0, lr=0.01)]
    outers = [ImageOuter(images, Inner(folds=2)) for images in (data, dirty)]
    clean, other = (run(outer.part, *cells, folds=2) for outer in outers)
    assert clean == other
    assert len({*clean}) > 1
    tested = [outer_accuracy(outer, cells[0], 0, threads=1) for outer in outers]
    assert tested[0] != tested[1]


# What raises


class Guarded(Tensor):
    """Labels that raise where a held-out one would be read."""

    hidden: frozenset[int] | None = None
    """Whose labels raise; None while the set is being cut, and while the best trial is scored."""
    harmless = ("device", "shape", "dtype", "layout", "is_cuda", "numel", "size", "dim", "__len__")

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = getattr(function, "__name__", "")
        if name == "__get__":
            name = function.__self__.__name__
        if cls.hidden is None:
            return super().__torch_function__(function, types, args, kwargs or {})
        taken = args[1] if name == "__getitem__" and len(args) == 2 else None
        allowed = isinstance(taken, Tensor) and not {*taken.tolist()} & cls.hidden
        if not allowed and name not in cls.harmless:
            raise AssertionError(f"{name} reads labels of held-out graphs")
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))


@pytest.fixture
def guarded(fewer: GraphSet, monkeypatch: pytest.MonkeyPatch) -> Iterator[GraphSet]:
    """A set whose outer test labels raise from the cut on, except while it is scored on."""
    real_cut, real_score = cut_graphs, GraphOuter.score

    def cutting(*arguments: Any) -> list[Fold]:
        Guarded.hidden = None
        (fold,) = real_cut(*arguments)
        Guarded.hidden = frozenset(fold.test.tolist())
        return [fold]

    def scoring(outer: GraphOuter, candidate: Candidate, *rest: Any) -> Score:
        hidden, Guarded.hidden = Guarded.hidden, None
        tested.append(candidate.number)
        try:
            return real_score(outer, candidate, *rest)
        finally:
            Guarded.hidden = hidden

    tested.clear()
    monkeypatch.setattr(graph_trials, "cut_graphs", cutting)
    monkeypatch.setattr(GraphOuter, "score", scoring)
    yield replace(fewer, y=fewer.y.clone().as_subclass(Guarded))
    Guarded.hidden = None


tested: list[int] = []
"""Trials that were scored on the outer test part."""


def test_labels_that_raise_do_raise(guarded: GraphSet) -> None:
    (fold,) = graph_trials.cut_graphs(guarded, 1, 0)
    assert guarded.take(torch.from_numpy(fold.train)).n_graphs == len(fold.train)
    reads = [
        lambda: guarded.take(torch.from_numpy(fold.test[:1])), lambda: guarded.y.cpu().numpy(),
        guarded.y.tolist, guarded.all, lambda: guarded.class_counts,
        lambda: guarded.y[int(fold.test[0])], lambda: guarded.y == 1, lambda: guarded.y[1:],
        lambda: list(guarded.y), lambda: np.asarray(guarded.y),
    ]  # fmt: skip
    for read in reads:
        with pytest.raises(AssertionError, match="held-out"):
            read()
    assert guarded.n_graphs == 63


@pytest.mark.parametrize("pruner", ["median", "wilcoxon"])
def test_a_whole_study_runs_on_labels_that_raise_and_is_tested_outside_once(
    guarded: GraphSet, fewer: GraphSet, tmp_path: Path, pruner: PrunerName
) -> None:
    def run(graphs: GraphSet, trials: int) -> SearchResult:
        Guarded.hidden = None
        objective._CUT.clear()
        return study(
            graphs, "hscl", space=LR, trials=trials, pruner=pruner, ensemble_size=2,
            sampler="random", inner_folds=5 if pruner == "wilcoxon" else 1,
            output=tmp_path / type(graphs.y).__name__, threads=1, progress=False,
            epochs=2, layers=1, dim=4, storage=str(tmp_path / f"{type(graphs.y).__name__}.journal"),
        )  # fmt: skip

    first = run(guarded, 2)
    best = first.findings[0].best.number
    assert tested == [best]
    plain = run(fewer, 2)
    assert (first.inner, first.outer) == (plain.inner, plain.outer)
    assert tested == [best] * 2
    again = run(guarded, 2)
    assert tested == [best] * 2
    assert (again.outer, again.findings[0].n_outer) == (first.outer, 1)
    more = run(guarded, 3).findings[0]
    later = [more.best.number] if more.best.number != best else []
    assert tested == [best] * 2 + later
    assert more.n_outer == 1 + len(later)


@pytest.mark.usefixtures("_tiny")
def test_test_images_are_scored_once_per_best_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored: list[int] = []
    real = ImageOuter.score

    def scoring(outer: ImageOuter, candidate: Candidate, *rest: Any) -> Score:
        scored.append(candidate.number)
        return real(outer, candidate, *rest)

    monkeypatch.setattr(ImageOuter, "score", scoring)
    options: dict[str, Any] = {
        "subset": 120, "epochs": 1, "batch_size": 40, "blur": 0.0, "probe_epochs": 3,
        "threads": 1, "progress": False, "output": tmp_path,
        "storage": str(tmp_path / "study.journal"),
    }  # fmt: skip
    first = study("digits", "ucl", trials=2, **options, space=LR)
    second = study("digits", "ucl", trials=2, **options, space=LR)
    assert scored == [first.findings[0].best.number]
    assert first.outer == second.outer
