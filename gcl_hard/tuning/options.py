"""Options of a search, its samplers and its pruners."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from optuna.exceptions import ExperimentalWarning
from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, NopPruner, WilcoxonPruner
from optuna.samplers import BaseSampler, CmaEsSampler, RandomSampler, TPESampler

from gcl_hard.core.seeds import seed_for
from gcl_hard.errors import InputError, check_option
from gcl_hard.experiments.custom import EncoderMaker, UserParts, check_maker, named_object
from gcl_hard.experiments.domains import CONFIGS, lent_encoders
from gcl_hard.experiments.engine import check_engine
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.searches import PrunerName, SamplerName, SearchOptions
from gcl_hard.experiments.settings import Domain, RunConfig, flag, is_pretrained, known
from gcl_hard.experiments.trials import Inner, Steps
from gcl_hard.experiments.values import warn_of_unread
from gcl_hard.tuning.objective import check_encoder
from gcl_hard.tuning.space import Base, Space, default_space, read_space

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

Callback = Callable[[Any, Any], object]
"""Called with Optuna's study and a trial that has ended."""
STEPS: dict[str, Steps] = {
    "none": "none", "median": "epochs", "hyperband": "epochs", "wilcoxon": "folds",
}  # fmt: skip
"""Unit of the intermediate scores that each pruner needs."""
WILCOXON_FOLDS = 5
"""With fewer folds the test could end a trial only after the last; more folds would give more
intermediate scores than a trial stores."""
STARTUP = 10
"""Trials that a sampler first draws at random, and that a pruner does not end."""
LARGEST = {"cpu": 16, "cuda": 256}
"""Largest default size of an ensemble of trials, by kind of device."""
NOT_IN_NAMES = re.compile(r"[/\\:@<>\x00-\x1f]")
"""Characters that names of files and studies must not have."""


@dataclass(frozen=True)
class TuneOptions(SearchOptions):
    """A search: its options, and what is searched.

    Attributes:
        base: the settings that are not searched, with the user's own encoder.
        search_space: fitted to the base.
        graphs: the user's own set, or None.
        graphs_name: its ``module:name``, if it was given by name.
        callbacks: called with study and trial after each trial, as Optuna's.
    """

    base: Base
    search_space: Space
    graphs: Any = None
    graphs_name: str | None = None
    callbacks: tuple[Callback, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.report_only:
            check_engine(self.jobs, self.scheduler)
        check_encoder(self.base, self.search_space)
        self._check_name()
        self._check_sampler()
        self._check_pruner()
        self._check_protocol()

    def _check_name(self) -> None:
        name = self.study_name or ""
        if match := NOT_IN_NAMES.search(name):
            raise InputError(
                f"study_name {name!r} is a file name as well, which cannot have {match.group()!r} "
                f"on every system: give another"
            )

    def _check_sampler(self) -> None:
        if self.sampler == "cmaes" and not self.search_space.numeric:
            words = [d.name for d in self.search_space.dimensions if not d.numeric]
            raise InputError(
                f"cmaes searches numbers only, and {', '.join(words)} is a choice: use "
                f"--sampler tpe, or make it a range"
            )

    @property
    def steps(self) -> Steps:
        """Unit of the intermediate scores that the pruner needs."""
        if isinstance(self.pruner, str):
            return STEPS[self.pruner]
        if isinstance(self.pruner, NopPruner):
            return "none"
        by_folds = isinstance(self.pruner, WilcoxonPruner) or self.inner_folds > 1
        return "folds" if by_folds else "epochs"

    def _check_pruner(self) -> None:
        names = [dimension.name for dimension in self.search_space.dimensions]
        steps = self.steps if isinstance(self.pruner, str) else "none"
        if steps == "folds" and self.inner_folds != WILCOXON_FOLDS:
            raise InputError(
                f"pruner wilcoxon compares inner folds: give --inner-folds {WILCOXON_FOLDS}, "
                f"got {self.inner_folds}"
            )
        if steps == "epochs" and self.inner_folds > 1:
            raise InputError(
                f"pruner {self.pruner} looks at epochs of one inner hold-out: give "
                f"--inner-folds 1, or --pruner wilcoxon, which looks at folds"
            )
        if steps == "epochs" and "epochs" in names:
            raise InputError(
                f"pruner {self.pruner} compares trials epoch by epoch, and epochs are searched: "
                f"leave them out of the space, or use --pruner none or wilcoxon"
            )

    def _check_protocol(self) -> None:
        config = self.base.config
        if config.protocol in ("split", "unseen", "ood") and self.outer_folds > 1:
            raise InputError(
                f"{config.domain} have an official test part, which is the one outer part: leave "
                f"--outer-folds out"
            )
        if experiment_of(config).searches_on_test(config) and (
            self.outer_folds > 1 or self.inner_folds > 1
        ):
            raise InputError(
                "protocol transductive chooses on the test folds and has neither inner nor outer "
                "folds: leave them out, or use --protocol inductive"
            )

    @property
    def inner(self) -> Inner:
        """How trials are scored."""
        return Inner(self.inner_folds, self.steps, self.seed)

    def ensemble_on(self, device: str) -> int:
        """Number of trials that train as one ensemble on a device.

        Args:
            device: its kind; on a GPU ensembles are larger, since large ones cost hardly more.
        """
        if self.ensemble_size is not None:
            return self.ensemble_size
        if self.base.config.group_key is None:
            return 1  # they train one by one, and a crash loses only one
        share = 8 if device == "cpu" else 4  # a sampler learns between ensembles
        if device != "cpu" and self.sampler == "random":
            share = 1  # except the random one
        return max(1, min(self.trials // share, LARGEST.get(device, 1)))


def plain(name: str) -> str:
    """A name without the characters that file names must not have.

    Example:
        >>> plain("MUTAG_ucl_GAT@1f")
        'MUTAG_ucl_GAT-1f'
    """
    return NOT_IN_NAMES.sub("-", name)


def warn_of_untried(options: TuneOptions, settings: Mapping[str, Any]) -> None:
    """Warn of settings that no trial of a search reads: see :func:`warn_of_unread`."""
    if settings:
        warn_of_unread(_configs_of(options), settings)


def _configs_of(options: TuneOptions) -> list[RunConfig]:
    """Configurations of trials, among them each value of each searched choice."""
    choices = {
        dimension.name: dimension.ends
        for dimension in options.search_space.dimensions
        if not dimension.numeric and dimension.name in known(options.base.kind)
    }
    first, configs = {name: values[0] for name, values in choices.items()}, []
    for name, value in ((name, value) for name, values in choices.items() for value in values):
        with suppress(InputError):  # a trial that fails
            configs.append(options.base.config_with({**first, name: value}))
    return configs or [options.base.config]


def tune_options(
    domain: Domain,
    settings: Mapping[str, Any],
    *,
    usual: Mapping[str, Any] | None = None,
    space: str | Path | Mapping[str, Any] | None = None,
    encoder: EncoderMaker | None = None,
    recipe: str = "paper",
    **stated: Any,
) -> TuneOptions:
    """The options of a search.

    Args:
        domain: domain of the data set.
        settings: stated settings of the configuration.
        usual: settings that may be searched even though they have a value.
        space: dimensions by name, a file, a shipped name, or None for the method's own.
        encoder: makes the user's own encoder.
        recipe: ``"best"`` for our recipe of the data set, in place of the paper's settings.
        stated: other options, by field name.

    Returns:
        The options; space and settings are checked.

    Raises:
        InputError: for anything that cannot be run; says what would be.
    """
    kind = CONFIGS[domain]
    experiment = experiment_of(kind)
    stated_settings = {**experiment.defaults_in_search(settings), **(usual or {}), **settings}
    if experiment.searches_user_parts:
        name, parts = stated_settings.get("encoder", ""), UserParts()
        if encoder is None and is_pretrained(name):
            stated_settings["encoder"], encoder = lent_encoders().pretrained_part(name)
        elif encoder is None and ":" in name:
            encoder = named_object(name, "encoder")
            check_maker(encoder)
            stated_settings["encoder"] = parts.add(encoder, name)
        dataset = stated_settings.get("dataset", "")
        if stated.get("graphs") is None and ":" in dataset:
            stated_settings |= experiment.user_names(kind(**stated_settings), parts)
            stated["graphs"] = parts.graphs[stated_settings["dataset"]]
            stated["graphs_name"] = dataset
    base = Base(kind, stated_settings, encoder)
    if isinstance(space, Mapping):
        space_name, search_space = None, Space.of(space)
    else:
        space_name = str(space or default_space(base.config))
        search_space = read_space(space_name, kind)
    if check_option("recipe", recipe, ("paper", "best")) == "best":
        searched = {dimension.name for dimension in search_space.dimensions}
        ours = experiment.recipe(base.config.dataset)
        left_out = base.config.unread | searched
        ours = {name: value for name, value in ours.items() if name not in left_out}
        base = Base(kind, {**ours, **stated_settings}, encoder)
    fitted = search_space.fitted(base)
    check_unsearched(settings, fitted, base)
    return TuneOptions(base, fitted, space=space_name, recipe=recipe, **stated)


def check_unsearched(settings: Mapping[str, Any], space: Space, base: Base) -> None:
    """Check that no stated setting is searched, unless a grid uses its value.

    Args:
        settings: stated settings by name.
        space: what is searched.
        base: the rest.

    Raises:
        InputError: for a setting whose value would have no effect.
    """
    left = space.left_to(base)
    for name in (dimension.name for dimension in space.dimensions):
        if settings.get(name) is not None and name not in left:
            raise InputError(f"{flag(name)} is both searched and given: leave one of them out")


def _forwarded(name: str) -> Callable[..., Any]:
    """A method of :class:`BatchSampler` that calls its inner sampler without the batch."""

    def method(self: BatchSampler, study: Study, *arguments: Any) -> Any:
        return getattr(self._inner, name)(_Without(study, self._batch), *arguments)

    return method


class BatchSampler(BaseSampler):
    """A sampler that is seeded by each trial's number, and does not see the trial's own batch.

    The storage gives each number once, so that drivers of one study, on any machine and after any
    restart, never draw the same random numbers twice.

    Args:
        make: makes the sampler with a seed; a sampler with a state keeps it in the storage.
        seed: seed of the study.

    Example:
        >>> sampler = BatchSampler(lambda seed: RandomSampler(seed), seed=0)
    """

    def __init__(self, make: Callable[[int], BaseSampler], seed: int) -> None:
        self._make, self._seed = make, seed
        self._inner = make(seed)
        self._batch = set[int]()

    def begin(self) -> None:
        """Begin a batch."""
        self._batch = set()

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Seed the sampler."""
        self._batch.add(trial.number)
        self._inner = self._make(seed_for(self._seed, trial.number) % 2**32)
        self._inner.before_trial(cast("Study", _Without(study, self._batch)), trial)

    infer_relative_search_space = _forwarded("infer_relative_search_space")
    sample_relative = _forwarded("sample_relative")
    sample_independent = _forwarded("sample_independent")


class _Without:
    """A study without some of its trials, by their numbers."""

    def __init__(self, study: Study, hidden: set[int]) -> None:
        self._study, self._hidden = study, hidden

    def __getattr__(self, name: str) -> Any:
        return getattr(self._study, name)

    def get_trials(
        self, deepcopy: bool = True, states: Any = None, use_cache: bool = False
    ) -> list[FrozenTrial]:
        trials = self._study.get_trials(deepcopy=deepcopy, states=states)
        return [trial for trial in trials if trial.number not in self._hidden]

    _get_trials = get_trials  # which samplers call


def sampler(choice: SamplerName | BaseSampler, seed: int) -> BaseSampler:
    """A sampler by name: tpe, cmaes or random; or the user's own as it is.

    Args:
        choice: its name, or the sampler.
        seed: seed of the study.
    """
    return BatchSampler(partial(_sampler, choice), seed) if isinstance(choice, str) else choice


def _sampler(name: SamplerName, seed: int) -> BaseSampler:
    if name == "random":
        return RandomSampler(seed)
    if name == "cmaes":
        return CmaEsSampler(seed=seed, warn_independent_sampling=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)  # of constant_liar, before Optuna 5
        return TPESampler(seed=seed, n_startup_trials=STARTUP, constant_liar=True)


def pruner(choice: PrunerName | BasePruner, inner: Inner, epochs: int) -> BasePruner:
    """A pruner by name; or the user's own as it is.

    Args:
        choice: none, median, hyperband or wilcoxon; or the pruner.
        inner: when trials have intermediate scores.
        epochs: epochs of a trial.
    """
    if not isinstance(choice, str):
        return choice
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        if choice == "median":
            return MedianPruner(n_startup_trials=STARTUP)
        if choice == "hyperband":
            first, *_ = (*inner.report_epochs(epochs), epochs)
            return HyperbandPruner(min_resource=first, max_resource=epochs, reduction_factor=2)
        return WilcoxonPruner() if choice == "wilcoxon" else NopPruner()
