"""The trials of a search on graphs: the outer-training graphs, and the splits inside them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import torch

from gcl_hard.errors import DivergenceError, InputError, OutOfMemory
from gcl_hard.evaluation.folds import Fold, inner_folds
from gcl_hard.experiments.experiment import RunContext
from gcl_hard.experiments.trials import Inner, Outer, Part, TrialSplit, split
from gcl_hard.graphs import protocols
from gcl_hard.graphs.data import GraphSet
from gcl_hard.graphs.experiment import GraphExperiment
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.graphs.training import Encoder, GivenFold

OUTER_SHARE = 0.3
"""Share of the graphs that is held out of a search with one study."""


def outer_parts(
    config: GraphConfig, data: GraphSet, context: RunContext, inner: Inner, n_folds: int
) -> Sequence[GraphOuter]:
    """A hold-out or folds of the graphs; under the protocol ``transductive`` none is held out."""
    data = data.to(torch.device(context.device))
    protocols.check_classes(data)
    if config.protocol == "transductive":
        GraphExperiment().check(config, data, context, inner=False)
        return (GraphOuter(data, None),)
    return [GraphOuter(data, fold) for fold in cut_graphs(data, n_folds, inner.seed)]


class GraphPart(Part):
    """The outer-training graphs, as a set without references to the others.

    Args:
        graphs: on the device to train on.
        on_test_folds: whether to score as the protocol ``transductive`` does: encoders see all
            graphs, and accuracy is taken on the test folds of its cross-validation.
    """

    by_epochs: ClassVar[bool] = True
    searched: ClassVar[str] = "20 %"
    failures: ClassVar[tuple[type[Exception], ...]] = (DivergenceError, InputError, OutOfMemory)

    def __init__(self, graphs: GraphSet, *, on_test_folds: bool = False) -> None:
        super().__init__(GraphExperiment(), graphs)
        self._on_test_folds = on_test_folds

    def splits(self, inner: Inner) -> Sequence[TrialSplit]:
        """The inner folds, each with encoders of its own."""
        if self._on_test_folds:
            return [TrialSplit(self.data, inner.seed)]
        splits = []
        for k, fold in enumerate(inner.split(self.data.y.cpu().numpy())):
            scaled = self.data.standardised_on(torch.from_numpy(fold.train))
            encoder = partial(Encoder.of_fold, k=k, fold=fold)
            splits.append(TrialSplit(GivenFold(self.data, scaled, fold, encoder), inner.seed))
        return splits

    def n_scored(self, inner: Inner) -> int:
        """Graphs that an inner score is over; refuses a class too small to choose C inside."""
        labels = self.data.y.cpu().numpy()
        if self._on_test_folds:
            return len(labels)
        folds = inner.split(labels)
        for fold in folds:
            inner_folds(labels[fold.train], n_inner=5, seed=inner.seed)
        return sum(len(fold.test) for fold in folds)

    def name(self, inner: Inner) -> str:
        """What scores trials, in words."""
        if self._on_test_folds:
            return "the test folds"
        return super().name(inner) if inner.folds == 1 else f"{inner.folds} folds"


class GraphOuter(Outer):
    """Graphs split into a part to search in and a part to score on.

    Args:
        graphs: the whole set, on the device to train on.
        fold: the graphs to search in, and those to score on; None for settings that are chosen on
            the test folds as the paper does, which leaves no graphs to score on.
    """

    def __init__(self, graphs: GraphSet, fold: Fold | None) -> None:
        self._fold = fold
        if fold is None:
            super().__init__(GraphPart(graphs, on_test_folds=True), graphs, 0)
        else:
            part = GraphPart(graphs.take(torch.from_numpy(fold.train)))
            super().__init__(part, graphs, len(fold.test))

    def name(self, n_folds: int) -> str:
        """What scores the best settings, in words."""
        if self._fold is None:
            return "nothing"
        return "a hold-out of 30 %" if n_folds == 1 else f"{n_folds} folds"

    def _whole(self) -> GivenFold:
        assert self._fold is not None
        train_ids = torch.from_numpy(self._fold.train)
        graphs, part = self._data.standardised_on(train_ids), self.part.data
        if graphs is not self._data:
            part = graphs.take(train_ids)
        # The part by itself, as in the trials: an epoch has as many steps as theirs.
        return GivenFold(part, graphs, self._fold)


def cut_graphs(graphs: GraphSet, n_folds: int, seed: int) -> list[Fold]:
    """The outer parts of a search.

    Args:
        graphs: the whole set.
        n_folds: 1 for a stratified hold-out of 30 %, else of a stratified cross-validation.
        seed: seed of the split.

    Raises:
        InputError: for a class that is too small.
    """
    return split(graphs.y.cpu().numpy(), n_folds, seed, OUTER_SHARE)
