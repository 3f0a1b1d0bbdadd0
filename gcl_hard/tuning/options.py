"""Options of a search, its samplers and its pruners."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from optuna.exceptions import ExperimentalWarning
from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, NopPruner, WilcoxonPruner
from optuna.samplers import BaseSampler, CmaEsSampler, GridSampler, RandomSampler, TPESampler

from gcl_hard.core.seeds import seed_for
from gcl_hard.errors import InputError, check_option
from gcl_hard.experiments.custom import (
    EncoderMaker,
    UserParts,
    check_maker,
    named_object,
)
from gcl_hard.experiments.domains import CONFIGS, lent_encoders
from gcl_hard.experiments.engine import check_engine
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.searches import PrunerName, SamplerName, SearchOptions
from gcl_hard.experiments.settings import (
    Domain,
    RunConfig,
    flag,
    is_pretrained,
    known,
)
from gcl_hard.experiments.trials import Inner, Steps
from gcl_hard.experiments.values import warn_of_unread
from gcl_hard.tuning.objective import check_encoder
from gcl_hard.tuning.space import Base, Space, default_space, read_space
from gcl_hard.tuning.storage import BATCH, positions

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
"""Trials that a sampler first draws at random, and that a pruner lets pass."""
LARGEST = {"cpu": 16, "cuda": 256}
"""Trials asked for at once, on each kind of device, where the command names no number."""
NO_NAME = re.compile(r"[/\\:@<>\x00-\x1f]")
"""Characters that names of files and studies do without."""


@dataclass(frozen=True)
class TuneOptions(SearchOptions):
    """A search: its options, and what is searched.

    Attributes:
        base: the settings that are not searched, with the user's own encoder.
        search_space: fitted to the base.
        graphs: the user's own set, or None.
        graphs_name: ``module:name`` of it, where it was named so.
        callbacks: called with study and trial after each trial, as Optuna's.
        own_sampler: an object in place of the named one; likewise the other two.
    """

    base: Base
    search_space: Space
    graphs: Any = None
    graphs_name: str | None = None
    callbacks: tuple[Callback, ...] = ()
    own_sampler: BaseSampler | None = None
    own_pruner: BasePruner | None = None
    own_storage: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.report_only:
            check_engine(self.jobs, self.scheduler)
        check_encoder(self.base, self.search_space)
        self._check_name()
        self._check_sampler()
        self._check_pruner()
        self._check_protocol()

        for own, kind in ((self.own_sampler, BaseSampler), (self.own_pruner, BasePruner)):
            if own is not None and not isinstance(own, kind):
                raise InputError(
                    f"expected a name or an object of Optuna's {kind.__name__}, got {own}"
                )
        if not all(map(callable, self.callbacks)):
            raise InputError(f"callbacks are called with study and trial, got {self.callbacks!r}")

    def _check_name(self) -> None:
        name = self.study_name or ""
        if found := NO_NAME.search(name):
            raise InputError(
                f"study_name {name!r} names a file, too, which cannot have {found.group()!r} "
                f"everywhere: give another; an earlier version has stored it as {plain(name)!r}"
            )

    def _check_sampler(self) -> None:
        if self.sampler == "cmaes" and not self.search_space.numeric:
            words = [d.name for d in self.search_space.dimensions if not d.numeric]
            raise InputError(
                f"cmaes searches numbers only, and {', '.join(words)} is a choice: use "
                f"--sampler tpe, or make it a range"
            )
        if isinstance(self.own_sampler, GridSampler):
            names = {dimension.name for dimension in self.search_space.dimensions}
            if differ := sorted(names ^ self.own_sampler._search_space.keys()):
                raise InputError(
                    f"{', '.join(differ)}: either only in the grid of GridSampler "
                    f"({', '.join(sorted(self.own_sampler._search_space))}) or only in the space "
                    f"({', '.join(sorted(names))}), and both must have the same names"
                )

    @property
    def steps(self) -> Steps:
        """Unit of the intermediate scores that the pruner needs."""
        if self.own_pruner is None:
            return STEPS[self.pruner]
        if isinstance(self.own_pruner, NopPruner):
            return "none"
        by_folds = isinstance(self.own_pruner, WilcoxonPruner) or self.inner_folds > 1
        return "folds" if by_folds else "epochs"

    def _check_pruner(self) -> None:
        names = [dimension.name for dimension in self.search_space.dimensions]
        steps = "none" if self.own_pruner is not None else self.steps
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
        if config.protocol == "split" and self.outer_folds > 1:
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
            device: kind of it; where many train as one ensemble at the price of few, more are.
        """
        if self.ensemble_size is not None:
            return self.ensemble_size
        if self.base.config.group_key is None:
            return 1  # they train one by one: a crash loses one
        share = 8 if device == "cpu" else 4  # a sampler learns between ensembles
        if device != "cpu" and self.sampler == "random" and self.own_sampler is None:
            share = 1  # but this one
        return max(1, min(self.trials // share, LARGEST.get(device, 1)))


def plain(name: str) -> str:
    """A name without characters that names of files do without.

    Example:
        >>> plain("MUTAG_ucl_GAT@1f")
        'MUTAG_ucl_GAT-1f'
    """
    return NO_NAME.sub("-", name)


MOST_COMBINATIONS = 1_000


def warn_of_untried(options: TuneOptions, given: Mapping[str, Any]) -> None:
    """Name settings that no trial of a search reads: see :func:`warn_of_unread`."""
    if given:
        warn_of_unread(_configs_of(options), given)


def _configs_of(options: TuneOptions) -> list[RunConfig]:
    """What trials may train: the base with all combinations of the categories that are searched, of
    very many the first ones.
    """
    choices = {
        one.name: getattr(one.distribution, "choices", None)
        for one in options.search_space.dimensions if one.name in known(options.base.kind)
    }  # fmt: skip
    several = {name: of for name, of in choices.items() if of}
    found = []
    for drawn in islice(product(*several.values()), MOST_COMBINATIONS):
        with suppress(InputError):  # a trial that fails
            found.append(options.base.config_with(dict(zip(several, drawn, strict=True))))
    return found or [options.base.config]


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
        settings: settings of the configuration, those that are stated.
        usual: settings that may be searched though they have a value.
        space: dimensions by name, a file, a shipped name, or None for the method's own.
        encoder: makes the user's own encoder.
        recipe: ``"best"`` for our recipe of the data set, in place of the paper's settings.
        stated: other options, by the names of the fields.

    Returns:
        The options; space and settings are checked.

    Raises:
        InputError: for anything that cannot be run; says what would be.
    """
    for name in ("sampler", "pruner", "storage"):
        if not isinstance(stated.get(name, ""), str | Path | None):
            stated[f"own_{name}"] = stated.pop(name)
    kind = CONFIGS[domain]
    experiment = experiment_of(kind)
    stated_settings = {**experiment.search_defaults, **(usual or {}), **settings}
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
        of_space, found = None, Space.of(space)
    else:
        of_space = str(space or default_space(base.config))
        found = read_space(of_space, kind)
    if check_option("recipe", recipe, ("paper", "best")) == "best":
        left_out = base.config.unread.union(dimension.name for dimension in found.dimensions)
        ours = experiment.recipe(base.config.dataset)
        ours = {name: value for name, value in ours.items() if name not in left_out}
        base = Base(kind, {**ours, **stated_settings}, encoder)
    fitted = found.fitted(base)
    check_given(settings, fitted, base)
    return TuneOptions(base, fitted, space=of_space, recipe=recipe, **stated)


def check_given(given: Mapping[str, Any], space: Space, base: Base) -> None:
    """Refuse a setting that is both given and searched, unless a grid uses it.

    Args:
        given: settings by name.
        space: what is searched.
        base: the rest.

    Raises:
        InputError: for a setting that would be given for nothing.
    """
    left = space.left_to(base)
    for name in (dimension.name for dimension in space.dimensions):
        if given.get(name) is not None and name not in left:
            raise InputError(f"{flag(name)} is searched, and given too: leave one of them out")


def _forwarded(name: str) -> Callable[..., Any]:
    """A method of :class:`PerTrialSeed` that is its inner sampler's, with what it may see."""

    def method(self: PerTrialSeed, study: Study, trial: FrozenTrial, *given: Any) -> Any:
        return getattr(self._inner, name)(self._seen, _numbered(trial, self._position), *given)

    return method


class PerTrialSeed(BaseSampler):
    """A sampler that is seeded by each trial's position, and sees the trials before its batch.

    A position is a trial's number, not counting repeats of interrupted trials. Numbers are given by
    the storage, each once: workers on one study, on any machine and after any restart, never draw
    the same random numbers twice. Of a batch none sees another, so that one worker alone draws the
    same in every run, wherever it was killed and begun again. Several at a time see which trials
    have ended, which depends on their speed.

    Args:
        make: makes the sampler with a seed; what it must remember it keeps in the storage.
        seed: seed of the study.

    Example:
        >>> sampler = PerTrialSeed(lambda seed: RandomSampler(seed), seed=0)
    """

    def __init__(self, make: Callable[[int], BaseSampler], seed: int) -> None:
        self._make, self._seed = make, seed
        self._inner = make(seed)
        self._seen: Any = None
        self._position = 0
        self.size = 1
        """Trials of the next batch."""

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Seed the sampler, and note the batch of the trial."""
        # Of Hyperband, which shows samplers the trials of a bracket, all of them are counted.
        listed = study._storage.get_all_trials(study._study_id, deepcopy=False)
        where = positions(listed)
        position = self._position = where[trial.number]
        batch = self._batch(listed, where, position)
        if trial.user_attrs.get(BATCH) != batch:
            study._storage.set_trial_user_attr(trial._trial_id, BATCH, batch)
        self._inner = self._make(seed_for(self._seed, position) % 2**32)
        self._seen = _before(study, listed, where, batch[0])
        self._inner.before_trial(self._seen, _numbered(trial, position))

    def _batch(
        self, listed: Sequence[FrozenTrial], where: Sequence[int], position: int
    ) -> list[int]:
        """First position and size of a batch: as noted, of the position before, or new."""
        noted = {
            at: one.user_attrs[BATCH]
            for one, at in zip(listed, where, strict=True)
            if BATCH in one.user_attrs and at in (position, position - 1)
        }
        first, size = noted.get(position) or noted.get(position - 1, (position, self.size))
        return [first, size] if position < first + size else [position, self.size]

    def goes_on(self, study: Study, number: int) -> bool:
        """Whether the next trial belongs to the batch of one that has been asked for."""
        listed = study.get_trials(deepcopy=False)
        where = positions(listed)
        waits = (at for one, at in zip(listed, where, strict=True) if one.state.name == "WAITING")
        following = next(waits, max(where) + 1)
        return bool(self._batch(listed, where, following) == listed[number].user_attrs[BATCH])

    infer_relative_search_space = _forwarded("infer_relative_search_space")
    sample_relative = _forwarded("sample_relative")
    sample_independent = _forwarded("sample_independent")


def _numbered(trial: FrozenTrial, number: int) -> FrozenTrial:
    """A trial under another number, which samplers draw by."""
    found = copy.copy(trial)
    found.number = number
    return found


def _before(study: Study, listed: Sequence[FrozenTrial], where: Sequence[int], first: int) -> Study:
    """A study as it was before a position: of each earlier one its last trial, numbered by it."""
    last = {at: one for one, at in zip(listed, where, strict=True) if at < first}
    shown = {one.number for one in study.get_trials(deepcopy=False)}
    trials = [_numbered(one, at) for at, one in sorted(last.items()) if one.number in shown]

    def some(
        deepcopy: bool = True, states: Any = None, use_cache: bool = False
    ) -> list[FrozenTrial]:
        found = [one for one in trials if states is None or one.state in states]
        return copy.deepcopy(found) if deepcopy else found

    seen: Any = copy.copy(getattr(study, "_study", study))
    seen.get_trials = seen._get_trials = some
    return cast("Study", seen)


def sampler(name: SamplerName, seed: int) -> PerTrialSeed:
    """A sampler by name: tpe, cmaes or random.

    Args:
        name: which.
        seed: seed of the study.
    """
    return PerTrialSeed(partial(_sampler, name), seed)


def _sampler(name: SamplerName, seed: int) -> BaseSampler:
    if name == "random":
        return RandomSampler(seed)
    if name == "cmaes":
        return CmaEsSampler(seed=seed, warn_independent_sampling=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)  # the liar's, before Optuna 5
        return TPESampler(seed=seed, n_startup_trials=STARTUP, constant_liar=True)


def pruner(name: PrunerName, inner: Inner, epochs: int) -> BasePruner:
    """A pruner by name.

    Args:
        name: none, median, hyperband or wilcoxon.
        inner: after what trials have intermediate scores.
        epochs: epochs of a trial.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        if name == "median":
            return MedianPruner(n_startup_trials=STARTUP)
        if name == "hyperband":
            first, *_ = (*inner.report_epochs(epochs), epochs)
            return HyperbandPruner(min_resource=first, max_resource=epochs, reduction_factor=2)
        return WilcoxonPruner() if name == "wilcoxon" else NopPruner()
