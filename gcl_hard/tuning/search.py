"""The driver of a search: asks for trials, sends them out, and stores their scores."""

from __future__ import annotations

import copy
import math
import time
import warnings
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from optuna.distributions import distribution_to_json
from optuna.exceptions import UpdateFinishedTrialError
from optuna.samplers import BruteForceSampler, GridSampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState
from torch import nn

from gcl_hard.errors import GclHardError, InputError
from gcl_hard.evaluation.metrics import alike, metric
from gcl_hard.experiments import hardware
from gcl_hard.experiments.engine import TRIES, Engine, Task, engine
from gcl_hard.experiments.experiment import RunContext, RunOptions
from gcl_hard.experiments.progress import progress
from gcl_hard.experiments.record import ACCURACY
from gcl_hard.experiments.registry import canonical, experiment_of, runnable
from gcl_hard.experiments.runner import data_sets, share, share_of
from gcl_hard.experiments.settings import HEAD, RunConfig, changed
from gcl_hard.experiments.trials import Candidate, Outer
from gcl_hard.tuning.objective import Objective, check_output, score_outside, score_trials
from gcl_hard.tuning.options import BatchSampler, TuneOptions, plain, pruner, sampler
from gcl_hard.tuning.storage import (
    OUTER,
    RETRIES,
    SCORED_ON,
    Heartbeats,
    StudyStorage,
    TrialCounts,
    fail,
    put_back,
    retry_orphans,
    surplus,
    uninterrupted,
    url_of,
    waiting,
)

if TYPE_CHECKING:
    from optuna import Study
    from optuna.storages import BaseStorage
    from rich.console import Console
    from rich.progress import Progress

POLL = 0.5
"""Seconds between checks of a study whose last trials other drivers are scoring."""


@dataclass(frozen=True)
class PreparedSearch:
    """A search with its data loaded and split.

    Attributes:
        options: with the canonical name of the data set.
        context: where and how trials are scored.
        objective: scores them.
        outers: the outer parts, a study each.
        metric: name of the metric of the scores.
    """

    options: TuneOptions
    context: RunContext
    objective: Objective
    outers: tuple[Outer, ...]
    metric: str

    @classmethod
    def of(cls, options: TuneOptions) -> PreparedSearch:
        """Load and split the data.

        Args:
            options: options of the search.

        Raises:
            InputError: if the data are missing or cannot be split, or a user's own encoder fails.
        """
        device = hardware.choose_device(options.device)
        context = RunContext(
            options.output, options.data_dir, str(device), options.threads,
            hardware.available_cores(), hardware.versions(), runnable,
            # A stopped trial starts again, without a checkpoint.
            RunOptions(monitor_every=0, checkpoint_minutes=math.inf,
                       ensemble_size=1 if options.ensemble_size == 1 else None),
        )  # fmt: skip
        config, graphs = options.base.config, options.graphs
        experiment = runnable(config)
        name = canonical(config).dataset if graphs is None else graphs.name
        base = replace(options.base, settings={**options.base.settings, "dataset": name})
        options, config = replace(options, base=base), base.config
        sets = data_sets(context)
        data = sets.load(config, graphs)
        digest = sets.facts(config, graphs)["digest"]
        usual, *others = experiment.metrics(config, data)
        scored_by = options.metric or usual
        similar = (name for name in alike(usual) if not metric(name).mask)
        metrics = dict.fromkeys([usual, *similar, *others])
        if metric(scored_by) and scored_by not in metrics:
            raise InputError(
                f"predictions of runs on {config.dataset} are scored by {', '.join(metrics)}, not "
                f"by {scored_by}"
            )
        inner = replace(options.inner, metric=scored_by)
        objective = Objective(config, inner, options.outer_folds, digest)
        outers = objective.load(context, graphs)
        if base.make is not None:
            check_output(base, options.search_space, outers[0].part.data.to("cpu"))
        for outer in outers:
            outer.part.n_scored(options.inner)  # refuses a class that is too small
            if options.steps == "epochs" and not outer.part.by_epochs:
                raise InputError(
                    f"a pruner by epochs needs scores after some epochs, which encoders of "
                    f"{config.domain} do not have: give --pruner none, or wilcoxon"
                )
        return cls(options, context, objective, outers, scored_by)

    @property
    def config(self) -> RunConfig:
        """The settings that are not searched."""
        return self.objective.config

    @cached_property
    def methods(self) -> str:
        """The method, or the searched ones."""
        return "+".join(self.options.search_space.methods(self.options.base))

    @property
    def stem(self) -> str:
        """Common stem of study and file names."""
        if self.options.study_name:
            return self.options.study_name
        config = self.config
        stem = f"{config.dataset}_{self.methods}_{config.protocol}"
        if self._encoder is not None:  # an edited encoder gets another study
            stem += f"_{self._encoder}"
        return plain(stem)

    @property
    def names(self) -> list[str]:
        """Names of the studies."""
        n = len(self.outers)
        return [self.stem] if n == 1 else [f"{self.stem}_outer{k + 1}of{n}" for k in range(n)]

    @property
    def url(self) -> str:
        """URL of the storage."""
        return url_of(self.options.storage, self.options.output, self.stem)

    def studies(self, storage: BaseStorage) -> list[Study]:
        """Create or open the studies.

        Args:
            storage: storage of the search's URL.

        Raises:
            InputError: if the storage cannot be used, or a study belongs to something else.
        """
        options, studies = self.options, []
        higher = metric(self.metric).higher
        direction = StudyDirection.MAXIMIZE if higher else StudyDirection.MINIMIZE
        for k, name in enumerate(self.names):
            stored, identity = StudyStorage(self.url, name, storage), self.identity(k)
            parts = options.sampler, options.pruner
            parts = copy.deepcopy(parts) if k else parts  # the user's own
            if options.report_only:
                studies.append(stored.existing(identity, direction=direction))
                continue
            studies.append(stored.join(
                identity, options.search_space.grid_of(options.base), direction=direction,
                sampler=sampler(parts[0], options.seed + k),
                pruner=pruner(parts[1], options.inner, self.config.epochs),
            ))  # fmt: skip
        return studies

    def identity(self, k: int) -> dict[str, Any]:
        """What identifies the k-th study: a search that differs in it must not continue it."""
        options, config, outer = self.options, self.config, self.outers[0]
        apart = {*HEAD} | {dimension.name for dimension in options.search_space.dimensions}
        settings = {name: value for name, value in changed(config).items() if name not in apart}
        settings.pop("encoder" if self._encoder else "", None)
        return {
            "dataset": config.dataset, "method": self.methods, "protocol": config.protocol,
            "settings": settings, "space": self._space(), "digest": self.objective.digest,
            "inner": outer.part.name(options.inner),
            "outer": f"part {k + 1}, {outer.name(options.outer_folds)}",
            "sampler": _name(options.sampler), "pruner": _name(options.pruner),
            "seed": options.seed, "encoder": self._encoder,
            "metric": None if self.metric == ACCURACY else self.metric,
        }  # fmt: skip

    @property
    def _encoder(self) -> str | None:
        """Name and digest of the user's own encoder, None without one."""
        base = self.options.base
        return None if base.make is None else str(base.settings["encoder"])

    @cached_property
    def environment(self) -> dict[str, Any]:
        """This device, and the versions of the libraries that numbers depend on."""
        device = hardware.device_name(hardware.choose_device(self.context.device))
        return {"device": device, "versions": self.context.versions}

    def facts(self, study: Study) -> dict[str, Any]:
        """Facts of the search for pages and files; the device is that of the last trial."""
        options, outer = self.options, self.outers[0]
        scored_on: dict[str, Any] = study.user_attrs.get(SCORED_ON, self.environment)
        return self.identity(0) | scored_on | {
            "outer": outer.name(options.outer_folds),
            "space": options.space or "given",
            "dimensions": self._space(),
            "grid": "the paper's grid" if options.search_space.grid == "paper" else "the grid",
            "encoder": self._encoder and self._encoder.partition("@")[0],
            "encoder_own": self._encoder is not None,
            "graphs_own": options.graphs is not None,
            "graphs_name": options.graphs_name,
            "n_inner_test": outer.part.n_scored(options.inner),
            "n_outer_test": outer.n_test or None,
            "study": self.stem,
        }  # fmt: skip

    def _space(self) -> dict[str, Any]:
        """Optuna's distributions, and the grid."""
        space = self.options.search_space
        distributions: dict[str, Any] = {
            dimension.name: distribution_to_json(dimension.distribution)
            for dimension in space.dimensions
        }
        return distributions | {"grid": space.grid_of(self.options.base)}

    def run(self, studies: Sequence[Study], storage: BaseStorage, console: Console) -> None:
        """Score trials until every study is finished, then its best one on the outer test part.

        Args:
            studies: studies of the outer parts.
            storage: storage of the studies.
            console: console for progress.

        Raises:
            InputError: for a scheduler that cannot be used.
            KeyboardInterrupt: after Ctrl-C; unfinished trials are enqueued again.
        """
        options = self.options
        with ExitStack() as stack:
            shown = stack.enter_context(progress(console, speed_estimate_period=300))
            bars = StudyBars(shown, console, studies, self)
            trials: dict[tuple[int, int], Trial] = {}
            beats = stack.enter_context(Heartbeats(storage, self.url, trials))
            driver = _Driver(self, studies, trials, beats, bars)
            workers = engine(options.jobs, options.scheduler, driver.on_report)
            driver.run(stack.enter_context(workers))

    def retrained(self, trial: FrozenTrial, seed: int) -> nn.Module:
        """A model trained with the settings of a trial on all data."""
        candidate = self.options.base.candidate(trial.number, trial.params)
        graphs, sets = self.options.graphs, data_sets(self.context)
        data = sets.load(candidate.config, graphs)
        if sets.facts(candidate.config, graphs)["digest"] != self.objective.digest:
            raise InputError(
                f"{candidate.config.dataset} has changed since the search: restore its files, or "
                f"search again"
            )
        context = replace(self.context, parts=candidate.parts)
        return runnable(candidate.config).fit(candidate.config, data, context, seed).eval()


def _name(part: object) -> str:
    """Name of a sampler or pruner; of the user's own that of its class."""
    return part if isinstance(part, str) else type(part).__name__


@dataclass(eq=False)
class _Driver:
    """Runs the trials of a search."""

    search: PreparedSearch
    studies: Sequence[Study]
    _trials: dict[tuple[int, int], Trial]
    beats: Heartbeats
    bars: StudyBars
    _end_time: float = math.inf
    _stopping: set[int] = field(default_factory=set)
    _stopped: set[int] = field(default_factory=set)
    _groups: dict[Task, tuple[int, list[Candidate]]] = field(default_factory=dict)

    def run(self, workers: Engine) -> None:
        """Search, then score the best trials on the outer test parts."""
        self._workers, search = workers, self.search
        processes = search.options.jobs
        if search.options.scheduler is not None:  # the scheduler's workers have a core each
            processes = search.context.cores
        self._context = share_of(search.context, processes)
        graphs = search.options.graphs
        self._graphs = None if graphs is None else workers.submit(share, graphs, remote=True)
        try:
            self._search()
            self._score_outside()
        except BaseException as error:
            if not isinstance(error, OSError):  # nothing is written behind a failed write
                self._put_back()
            raise
        finally:
            for study in self.studies:
                vars(study).pop("stop", None)

    def _search(self) -> None:
        asked = self.search.options.trials
        for k, study in enumerate(self.studies):
            # Optuna's own stops nothing but study.optimize.
            study.stop = partial(self._stopping.add, k)  # type: ignore[method-assign]
            retry_orphans(study, alone=not self.beats.needed)
            if not self.beats.needed:
                self._stopping.discard(k)
            tried = [trial for trial in study.get_trials(deepcopy=False) if trial.params]
            # Samplers that try all settings once stop a search after its last trial.
            ends = isinstance(study.sampler, GridSampler | BruteForceSampler)
            if ends and tried and not waiting(study):
                study.sampler.after_trial(study, tried[-1], tried[-1].state, tried[-1].values)
        self._stopped |= self._stopping
        self._fill()  # whatever the minutes are, some trials are run
        self._end_time = time.monotonic() + 60 * (self.search.options.minutes or math.inf)
        while True:
            for task in self._workers.completed():
                self._ended(task)
                self._fill()
            left = [study for k, study in enumerate(self.studies) if k not in self._stopped]
            unfinished = [study for study in left if not TrialCounts.of(study).over(asked)]
            if not unfinished:
                return
            if self._time_is_over():
                self.bars.time_is_over(unfinished)
                return
            self._workers.wait(POLL)  # others score the last trials; if they die, this one does
            self._fill()

    def _time_is_over(self) -> bool:
        return time.monotonic() >= self._end_time

    def _fill(self) -> None:
        """Send a group of trials to each idle worker, of the first study that needs some."""
        while len(self._groups) < self._workers.workers and not self._time_is_over():
            for k in range(len(self.studies)):
                if k not in self._stopped and (candidates := self._ask(k)):
                    self._submit(k, candidates)
                    break
            else:
                return

    def _submit(self, k: int, candidates: list[Candidate]) -> None:
        task = self._workers.submit(
            score_trials, self._context, self.search.objective, k, self._graphs, candidates
        )
        self._groups[task] = k, candidates

    @uninterrupted()
    def _ask(self, k: int) -> list[Candidate]:
        """The next group of trials of a study; empty if all are done or under way."""
        study, options = self.studies[k], self.search.options
        batch = options.ensemble_on(self.search.context.device.partition(":")[0])
        while True:
            self.beats.check(study)
            counts = TrialCounts.of(study)
            self.bars.show(k, counts)
            left = options.trials - counts.finished - counts.running
            n = min(batch, math.ceil(left / self._workers.workers))
            if n <= 0 or counts.over(options.trials):
                return []
            if study.user_attrs.get(SCORED_ON) != self.search.environment:
                study.set_user_attr(SCORED_ON, self.search.environment)
            candidates, drawn = [], self._draw(k, n)
            excess = surplus(study, options.trials) if self.beats.needed else ()
            for trial in drawn:
                if trial.number in excess:  # another driver has asked at the same moment
                    put_back(study, self._trials.pop((k, trial.number)))
                    continue
                try:
                    candidates.append(options.base.candidate(trial.number, trial.params))
                except InputError as error:
                    self._end(k, trial, None, f"no configuration: {error}")
            if candidates:
                return candidates

    def _draw(self, k: int, n: int) -> list[Trial]:
        """Trials with drawn settings; one whose driver has died is by itself."""
        study, drawn = self.studies[k], list[Trial]()
        if isinstance(study.sampler, BatchSampler):
            study.sampler.begin()
        while len(drawn) < n:
            alone = any(RETRIES in trial.system_attrs for trial in waiting(study)[:1])
            if alone and drawn:
                break
            drawn.append(self._drawn(k))
            if alone:  # these settings may have ended a driver
                break
        return drawn

    def _drawn(self, k: int) -> Trial:
        """A trial with drawn settings."""
        study, options = self.studies[k], self.search.options
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Heartbeat of storage")  # we record them
            trial = study.ask()
        self._trials[k, trial.number] = trial
        self.beats.record(trial)
        try:
            options.search_space.draw(trial, options.base)
        except ValueError as error:
            if isinstance(options.sampler, str):
                raise
            raise InputError(
                f"sampler {_name(options.sampler)} cannot draw settings of this space: {error}"
            ) from error
        return trial

    @uninterrupted()
    def on_report(self, kind: str, k: int, number: int, *values: Any) -> bool:
        """Handle a report of :class:`Scoring`; returns whether the trial goes on."""
        trial = self._trials.get((k, number))
        if kind == "progress":
            self.bars.progress(k, number, values[0])
            return True
        if trial is None:  # of a repeated task, whose worker died: the trial has its score
            return False
        if kind == "intermediate":
            return self._goes_on(trial, *values)
        if kind == "scored":
            self._end(k, trial, *values)
        return True

    @staticmethod
    def _goes_on(trial: Trial, step: int, accuracy: float) -> bool:
        try:
            with warnings.catch_warnings():
                # A group starts again if its worker process dies.
                warnings.filterwarnings("ignore", message=".*already reported.*")
                trial.report(accuracy, step)
            return not trial.should_prune()
        except UpdateFinishedTrialError:  # stale: another driver has enqueued it again
            return False

    @uninterrupted()
    def _end(self, k: int, trial: Trial, accuracy: float | None, failure: str | None) -> None:
        """Store the score of a trial, or that it was pruned, or why it failed."""
        study = self.studies[k]
        state = TrialState.PRUNED if accuracy is None else TrialState.COMPLETE
        if failure is not None:
            fail(study, trial, failure)
        else:
            # Another driver may have ended it meanwhile.
            with suppress(UpdateFinishedTrialError):
                study.tell(trial, accuracy, state=state, skip_if_finished=True)
        if waiting(study):  # an exhausted sampler does not know of trials that are enqueued again
            self._stopping.discard(k)
        self._trials.pop((k, trial.number))
        self.bars.ended(k, trial.number, TrialCounts.of(study))
        ended = study.get_trials(deepcopy=False)[trial.number]
        for callback in self.search.options.callbacks:
            callback(study, ended)
        if k in self._stopping:
            self._stopped.add(k)

    def _ended(self, task: Task) -> None:
        """Handle the end of a task: resend or fail trials without a score."""
        if task is self._graphs:
            task.result()
            return
        k, candidates = self._groups.pop(task)
        left = [candidate for candidate in candidates if (k, candidate.number) in self._trials]
        try:
            task.result()
        except Exception as error:
            if type(error).__name__ != "KilledWorker":
                raise
            if len(candidates) > 1:  # one by one, to find the trial that kills workers
                for candidate in left:
                    self._submit(k, [candidate])
                return
            for candidate in left:
                reason = f"its worker process was killed, {TRIES} times"
                self._end(k, self._trials[k, candidate.number], None, reason)
        else:
            if left:  # the worker was retired
                self._submit(k, left)

    def _score_outside(self) -> None:
        """Score the best trial of each study on its outer test part, unless it has been."""
        sent: dict[Task, tuple[Study, FrozenTrial]] = {}
        for k, study in enumerate(self.studies):
            best, scores = TrialCounts.of(study).best, study.user_attrs.get(OUTER, {})
            if best is None or str(best.number) in scores or self.search.outers[k].n_test == 0:
                continue
            candidate = self.search.options.base.candidate(best.number, best.params)
            task = self._workers.submit(
                score_outside, self._context, self.search.objective, k, self._graphs, candidate
            )
            sent[task] = study, best
        for task in self._workers.completed():
            if task is self._graphs:
                continue
            study, best = sent[task]
            try:
                score = task.result()
            except Exception as error:
                if type(error).__name__ != "KilledWorker":
                    raise
                raise GclHardError(
                    f"the worker processes that scored trial {best.number} of {study.study_name} "
                    f"on the outer test part were killed; if memory ran out, use fewer --jobs"
                ) from error
            scores = study.user_attrs.get(OUTER, {})
            study.set_user_attr(OUTER, {**scores, str(best.number): score})

    @uninterrupted()
    def _put_back(self) -> None:
        """Enqueue the settings of unfinished trials again."""
        for (k, _), trial in self._trials.items():
            put_back(self.studies[k], trial)


class StudyBars:
    """Progress bars of studies, and messages about better trials.

    Args:
        bars: progress bars to draw on.
        console: console to print on.
        studies: in their order.
        search: their search.
    """

    def __init__(
        self, bars: Progress, console: Console, studies: Sequence[Study], search: PreparedSearch
    ) -> None:
        self._bars, self._print = bars, partial(console.print, highlight=False, markup=False)
        self._studies, self._asked = studies, search.options.trials
        self._metric = metric(search.metric)
        on_test = experiment_of(search.config).searches_on_test(search.config)
        self._where = "on the test folds" if on_test else "inside"
        self._counts = [TrialCounts.of(study) for study in studies]
        self._shares: dict[tuple[int, int], float] = {}
        self._tasks = [bars.add_task("", total=self._asked) for _ in studies]
        for k, (study, counts) in enumerate(zip(studies, self._counts, strict=True)):
            self._draw(k)
            if done := counts.finished:
                line = f"{study.study_name}: {done} of {self._asked} trials were done before"
                self._print(line, style="dim")

    def show(self, k: int, counts: TrialCounts) -> None:
        """Show the progress of the k-th study, and a new best trial."""
        former, best = self._counts[k].best, counts.best
        self._counts[k] = counts
        if best is not None and (
            former is None or self._metric.gain(best.values[0], former.values[0]) > 0
        ):
            self._print(
                f"{self._studies[k].study_name} trial {best.number}: {self._score(best)}, the best "
                f"of {counts.finished} ({_settings(best.params)})"
            )
        self._draw(k)

    def progress(self, k: int, number: int, share: float) -> None:
        """Show the share of a trial's work that is done."""
        self._shares[k, number] = share
        self._draw(k)

    def ended(self, k: int, number: int, counts: TrialCounts) -> None:
        """Show that a trial has ended."""
        self._shares.pop((k, number), None)
        self.show(k, counts)

    def time_is_over(self, unfinished: Sequence[Study]) -> None:
        """Say how far studies are that the time has ended, and how to go on."""
        for study in unfinished:
            done = TrialCounts.of(study).finished
            self._print(
                f"{study.study_name}: the minutes are over, and {done} of {self._asked} trials are "
                f"done: the same command goes on"
            )

    def _draw(self, k: int) -> None:
        under_way = sum(share for (study, _), share in self._shares.items() if study == k)
        done = min(self._counts[k].finished + under_way, self._asked)
        self._bars.update(self._tasks[k], completed=done, description=self._text(k))

    def _score(self, trial: FrozenTrial) -> str:
        return f"{self._metric.shown(trial.values[0])} {self._where}"

    def _text(self, k: int) -> str:
        counts = self._counts[k]
        best = f", best {self._score(counts.best)}" if counts.best else ""
        failed = f", {counts.failures.total()} failed" if counts.failures else ""
        asked = "" if counts.finished > self._asked else f" of {self._asked}"
        return f"{self._studies[k].study_name}: {counts.finished}{asked} trials done{best}{failed}"


def _settings(params: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in params.items()
    )
