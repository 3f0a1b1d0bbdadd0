"""Samplers that never repeat a trial, and pruners with what a step is for them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from optuna.exceptions import ExperimentalWarning
from optuna.pruners import (
    BasePruner,
    HyperbandPruner,
    MedianPruner,
    NopPruner,
    WilcoxonPruner,
)
from optuna.samplers import BaseSampler, CmaEsSampler, RandomSampler, TPESampler

from gcl_hard.seeds import seed_for
from gcl_hard.tuning.part import Inner, Steps

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial, TrialState

SamplerName = Literal["tpe", "cmaes", "random"]
PrunerName = Literal["none", "median", "hyperband", "wilcoxon"]

STEPS: dict[str, Steps] = {
    "none": "none", "median": "epochs", "hyperband": "epochs", "wilcoxon": "folds",
}  # fmt: skip
"""After what each pruner looks at a trial."""
WILCOXON_FOLDS = 5
"""Of fewer the test could stop a trial after the last alone; more are more scores in between than
a trial stores."""
STARTUP = 10
"""Trials that a sampler draws at random, and a pruner lets pass, before it has seen enough."""


class Numbered(BaseSampler):
    """A sampler that begins anew for every trial, seeded by its number.

    Numbers are given by the storage, each once: workers on one study, on any machine and after any
    restart, never draw the same random numbers twice, and one worker alone draws the same in
    every run.

    Args:
        make: makes the sampler with a seed; what it must remember it keeps in the storage.
        seed: of the study.

    Example:
        >>> sampler = Numbered(lambda seed: RandomSampler(seed), seed=0)
    """

    def __init__(self, make: Callable[[int], BaseSampler], seed: int) -> None:
        self._make, self._seed = make, seed
        self._inner = make(seed)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """A trial begins."""
        self._inner = self._make(seed_for(self._seed, trial.number) % 2**32)
        self._inner.before_trial(study, trial)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """What is drawn together."""
        return self._inner.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Draw that."""
        return self._inner.sample_relative(study, trial, search_space)

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Draw one more."""
        return self._inner.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self,
        study: Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """A trial has ended."""
        self._inner.after_trial(study, trial, state, values)


def sampler(name: SamplerName, seed: int) -> Numbered:
    """A sampler by name: tpe, cmaes or random.

    Args:
        name: which.
        seed: of the study.
    """
    return Numbered(_MAKERS[name], seed)


def _tpe(seed: int) -> BaseSampler:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)  # the liar's, before Optuna 5
        return TPESampler(seed=seed, n_startup_trials=STARTUP, constant_liar=True)


def _cmaes(seed: int) -> BaseSampler:
    return CmaEsSampler(seed=seed, warn_independent_sampling=False)


_MAKERS: dict[str, Callable[[int], BaseSampler]] = {
    "tpe": _tpe, "cmaes": _cmaes, "random": RandomSampler,
}  # fmt: skip


def pruner(name: PrunerName, inner: Inner, epochs: int) -> BasePruner:
    """A pruner by name.

    Args:
        name: none, median, hyperband or wilcoxon.
        inner: how often trials are looked at.
        epochs: of a trial.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        if name == "median":
            return MedianPruner(n_startup_trials=STARTUP)
        if name == "hyperband":
            first, *_ = (*inner.looks(epochs), epochs)
            return HyperbandPruner(min_resource=first, max_resource=epochs, reduction_factor=2)
        return WilcoxonPruner() if name == "wilcoxon" else NopPruner()
