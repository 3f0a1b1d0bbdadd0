"""The driver of a search: how many trials come of it, what fails, and what is stopped."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
import pytest
from distributed import KilledWorker
from optuna.samplers import BaseSampler, BruteForceSampler, GridSampler, RandomSampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from gcl_hard.commands.study import study
from gcl_hard.errors import GclHardError, InputError
from gcl_hard.experiments.engine import TRIES
from gcl_hard.experiments.trials import Candidate
from gcl_hard.graphs import load_graphs
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.tuning import SearchResult, search
from gcl_hard.tuning.result import AllFailed
from gcl_hard.tuning.storage import AGAIN, FAILURE, GRID, TrialCounts
from tests.said import says
from tests.tuning.test_journal import full_disk

COMPLETE, PRUNED, FAIL = TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL
RUNNING, WAITING = TrialState.RUNNING, TrialState.WAITING
LR = {"type": "float", "low": 0.001, "high": 0.1, "log": True}
Report = Callable[..., bool]
Event = Callable[[Candidate, Report], bool | None]


def formula(candidate: Candidate) -> float:
    """A score that knows its settings."""
    return 90 - 100 * abs(candidate.config.lr - 0.01)


class Scorer:
    """The place of the tasks: scores by a formula, unless an event returns False."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.event: Event = lambda candidate, report: None
        self.groups: list[list[Candidate]] = []
        self.tasks: list[bytes] = []
        monkeypatch.setattr(search, "score_trials", self._score)
        monkeypatch.setattr(search, "score_outside", lambda *arguments, report: 50.0)

    @property
    def seen(self) -> list[Candidate]:
        return [candidate for group in self.groups for candidate in group]

    def _score(
        self, context: Any, objective: Any, k: int, graphs: Any, tried: Sequence[Candidate],
        *, report: Report,
    ) -> None:  # fmt: skip
        self.groups.append(list(tried))
        self.tasks.append(pickle.dumps((context, objective, k, graphs, tried)))
        for candidate in tried:
            if report("begin", k, candidate.number, wait=True):
                report("progress", k, candidate.number, 0.5)
                if self.event(candidate, report) is not False:
                    report("scored", k, candidate.number, formula(candidate), None, wait=True)


def fails(candidate: Candidate, report: Report, reason: str) -> bool:
    report("scored", 0, candidate.number, None, reason, wait=True)
    return False


@pytest.fixture
def scorer(monkeypatch: pytest.MonkeyPatch) -> Scorer:
    return Scorer(monkeypatch)


@pytest.fixture
def searched(tmp_path: Path) -> Callable[..., SearchResult]:
    """Searches MUTAG in a journal, which is quickly written."""

    def run(trials: int, batch: int = 1, **options: Any) -> SearchResult:
        usual: dict[str, Any] = {
            "space": {"lr": LR}, "sampler": "random", "progress": False, "study_name": "study",
            "storage": str(tmp_path / "a.journal"), "output": tmp_path,
        }  # fmt: skip
        return study("MUTAG", "hscl", trials=trials, ensemble_size=batch, **usual | options)

    return run


def stored(folder: Path, name: str = "study") -> optuna.Study:
    """The study as another program opens it."""
    journal = JournalStorage(JournalFileBackend(str(folder / "a.journal")))
    return optuna.load_study(study_name=name, storage=journal, sampler=RandomSampler(9))


def states(folder: Path) -> Counter[TrialState]:
    return Counter(trial.state for trial in stored(folder).trials)


def rates(optuna_study: optuna.Study, *included: TrialState) -> list[float]:
    return [
        trial.params["lr"]
        for trial in optuna_study.trials
        if trial.state in (included or (COMPLETE,))
    ]


# Undisturbed


@pytest.mark.parametrize("batch", [1, 8, 30])
def test_a_study_gets_the_asked_number_of_trials_in_groups(
    scorer: Scorer, searched: Any, tmp_path: Path, batch: int
) -> None:
    result = searched(20, batch)
    assert states(tmp_path) == {COMPLETE: 20}
    sizes = [len(group) for group in scorer.groups]
    assert sizes == [batch] * (20 // batch) + [20 % batch] * bool(20 % batch)
    for candidate, trial in zip(scorer.seen, result.study.trials, strict=True):
        assert candidate.config.lr == trial.params["lr"]
        assert trial.value == formula(candidate)
    assert result.inner == max(map(formula, scorer.seen))


def test_when_its_minutes_are_over_a_search_ends_and_goes_on_later(
    scorer: Scorer,
    searched: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = [0.0]

    def takes_a_minute(candidate: Candidate, report: Report) -> None:
        clock[0] += 60

    scorer.event = takes_a_minute
    monkeypatch.setattr(search, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    result = searched(20, 2, minutes=5, progress=True)
    assert states(tmp_path) == {COMPLETE: 6}  # the third group began before
    assert result.inner == max(map(formula, scorer.seen))
    assert result.outer == 50
    assert says(capsys.readouterr().out, "study", 6, 20, "goes on")
    searched(20, 2, minutes=1e-9)
    assert states(tmp_path) == {COMPLETE: 8}
    searched(20, 2, minutes=12, progress=True)
    assert states(tmp_path) == {COMPLETE: 20}
    assert not says(capsys.readouterr().out, "goes on")
    undisturbed = searched(20, 2, study_name="undisturbed").study
    assert rates(undisturbed) == rates(result.study)


@pytest.mark.parametrize("minutes", [0, -1, math.nan])
def test_minutes_are_above_zero(searched: Any, minutes: float) -> None:
    with pytest.raises(InputError, match=r"\bminutes\b.*\b0\b"):
        searched(2, minutes=minutes)


def test_a_task_holds_neither_the_data_nor_the_place_of_its_study(
    scorer: Scorer, searched: Any
) -> None:
    searched(2, study_name="of-the-driver")
    assert len(scorer.tasks) == 2
    for task in scorer.tasks:
        assert len(task) < load_graphs("MUTAG").x.nbytes
        assert b"a.journal" not in task
        assert b"of-the-driver" not in task


@pytest.mark.parametrize("sampler", ["tpe", "cmaes"])
def test_going_on_asks_for_the_rest_and_repeats_nothing(
    scorer: Scorer, searched: Any, sampler: str
) -> None:
    counts = []
    for trials, batch in ((3, 2), (8, 3), (8, 3)):
        before = len(scorer.seen)
        searched(trials, batch, sampler=sampler)
        counts.append(len(scorer.seen) - before)
    assert counts == [3, 5, 0]
    assert len({candidate.config for candidate in scorer.seen}) == 8


def test_the_grid_comes_first_and_is_whole(scorer: Scorer, searched: Any) -> None:
    grid = (0.05, 0.002, 0.07)
    result = searched(5, 2, space={"space": {"lr": LR}, "grid": {"lr": list(grid)}})
    assert tuple(candidate.config.lr for candidate in scorer.seen)[:3] == grid
    marks = [bool(trial.user_attrs.get(GRID)) for trial in result.study.trials]
    assert marks == [True] * 3 + [False] * 2


def test_pruned_trials_count(scorer: Scorer, searched: Any, tmp_path: Path) -> None:
    def odd(candidate: Candidate, report: Report) -> bool:
        if candidate.number % 2:
            report("scored", 0, candidate.number, None, None, wait=True)
            assert stored(tmp_path).trials[candidate.number].state == PRUNED
        return not candidate.number % 2

    scorer.event = odd
    searched(10, 3)
    assert states(tmp_path) == {COMPLETE: 5, PRUNED: 5}


def test_studies_are_searched_in_their_order(scorer: Scorer, searched: Any) -> None:
    result = searched(4, 3, outer_folds=2)
    assert [len(group) for group in scorer.groups] == [3, 1, 3, 1]
    assert [len(outer.trials) for outer in result.studies] == [4, 4]
    assert result.study is result.studies[0]
    assert result.outer == 50.0
    for scored in (result, *result.findings):
        assert scored.optimism == scored.inner - 50.0 != 0.0


# What fails


@pytest.mark.parametrize("batch", [1, 4])
def test_failures_do_not_count_and_are_made_up_for(
    scorer: Scorer, searched: Any, batch: int
) -> None:
    scorer.event = lambda candidate, report: (
        candidate.number % 3 != 0 or fails(candidate, report, "diverged")
    )
    counts = TrialCounts.of(searched(10, batch).study)
    assert counts.complete == 10
    assert [*counts.failures] == ["diverged"]


@pytest.mark.parametrize("batch", [1, 4])
def test_as_many_failures_as_asked_trials_end_a_search(
    scorer: Scorer, searched: Any, tmp_path: Path, batch: int
) -> None:
    reasons = ["diverged", "out of memory", "diverged", "no such"]
    scorer.event = lambda candidate, report: fails(candidate, report, reasons[candidate.number % 4])
    message = r"\b8 failed\b.*4 x diverged; 2 x out of memory; 2 x no such"
    for _ in range(2):  # it is over
        with pytest.raises(AllFailed, match=message):
            searched(8, batch)
        assert states(tmp_path) == {FAIL: 8}


def test_settings_that_kill_their_workers_fail_alone_and_say_so(
    scorer: Scorer, searched: Any
) -> None:
    def kill(candidate: Candidate, report: Report) -> None:
        if candidate.number == 1:
            raise KilledWorker("score_trials", None, TRIES - 1)

    scorer.event = kill
    trials = searched(4, 4).study.trials
    assert [len(group) for group in scorer.groups] == [4, 1, 1, 1, 1]
    assert [trial.state for trial in trials] == [COMPLETE, FAIL, COMPLETE, COMPLETE, COMPLETE]
    assert says(trials[1].user_attrs[FAILURE], "killed", TRIES)


def test_workers_that_are_killed_outside_are_named_and_the_trials_stay(
    scorer: Scorer, searched: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(*_: Any, report: Report) -> None:
        raise KilledWorker("score_outside", None, TRIES - 1)

    monkeypatch.setattr(search, "score_outside", kill)
    with pytest.raises(GclHardError, match=r"\btrial 0\b.*\bstudy\b.*\bkilled\b.*--jobs\b"):
        searched(2)
    assert states(tmp_path) == {COMPLETE: 2}


def test_settings_that_are_no_configuration_fail_with_the_reason(
    scorer: Scorer, searched: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = GraphConfig.check

    def check(config: GraphConfig) -> None:
        if config.lr > 0.05:
            from gcl_hard.errors import InputError

            raise InputError("lr is too high")
        real(config)

    searched(1)  # both ends of the range are checked before
    monkeypatch.setattr(GraphConfig, "check", check)
    space = {"lr": {"type": "categorical", "choices": [0.001, 0.1]}}
    monkeypatch.setattr("gcl_hard.tuning.space._check_ends", lambda *_: None)
    result = searched(6, 2, space=space, study_name="other")
    bad = [trial for trial in result.study.trials if trial.state == FAIL]
    assert {trial.params["lr"] for trial in bad} == {0.1}
    (reason,) = {trial.user_attrs[FAILURE] for trial in bad}
    assert says(reason, "configuration", "lr is too high")
    assert TrialCounts.of(result.study).complete == 6


def test_a_bug_ends_the_search_and_is_no_failed_trial(
    scorer: Scorer, searched: Any, tmp_path: Path
) -> None:
    def broken(candidate: Candidate, report: Report) -> bool:
        raise FileNotFoundError("weights.pt")

    scorer.event = broken
    with pytest.raises(FileNotFoundError, match=r"weights\.pt"):
        searched(2)
    assert TrialCounts.of(stored(tmp_path)).failures == {}


# Samplers that end the search

FEW = [0.01, 0.02, 0.03]
ENDING: dict[str, Callable[[list[float]], BaseSampler]] = {
    "grid": lambda rates: GridSampler({"lr": rates}, seed=1),
    "brute force": lambda rates: BruteForceSampler(seed=1),
}


@pytest.mark.filterwarnings("ignore:BruteForceSampler is experimental")
@pytest.mark.parametrize("trials", [2, 9])
@pytest.mark.parametrize("make", ENDING.values(), ids=ENDING)
def test_a_sampler_whose_last_settings_fail_ends_the_search_with_the_best_of_the_others(
    scorer: Scorer, searched: Any, make: Callable[..., BaseSampler], trials: int
) -> None:
    scorer.event = lambda candidate, report: (
        candidate.number != 1 or fails(candidate, report, "diverged")
    )
    for _ in range(2):
        result = searched(trials, space={"lr": FEW[:2]}, sampler=make(FEW[:2]))
        first, second = result.study.trials[:2]
        assert (first.state, second.state) == (COMPLETE, FAIL)
        assert result.inner == first.value
        assert result.outer == 50.0
        assert len(scorer.seen) == len(result.study.trials) == 2


@pytest.mark.filterwarnings("ignore:BruteForceSampler is experimental")
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("make", ENDING.values(), ids=ENDING)
def test_a_sampler_that_ends_the_search_leaves_no_settings_out_that_were_interrupted(
    scorer: Scorer,
    searched: Any,
    tmp_path: Path,
    make: Callable[..., BaseSampler],
    *,
    batch: int,
    killed: bool,
) -> None:
    def stopped(candidate: Candidate, report: Report) -> None:
        if candidate.number == 1:
            raise KeyboardInterrupt

    def search() -> optuna.Study:
        result: SearchResult = searched(9, batch, space={"lr": FEW}, sampler=make(FEW))
        return result.study

    if killed:  # while two were trained
        searched(1, space={"lr": FEW}, sampler=make(FEW))
        other = stored(tmp_path)
        other.sampler = make(FEW)
        for _ in range(2):
            other.ask().suggest_categorical("lr", FEW)
    else:
        scorer.event = stopped
        with pytest.raises(KeyboardInterrupt):
            search()
        scorer.event = lambda candidate, report: None
    for _ in range(2):
        assert {*rates(search())} == {*FEW}


def test_a_sampler_that_cannot_draw_is_named_and_the_finished_trials_stay(
    scorer: Scorer, searched: Any, tmp_path: Path
) -> None:
    class Two(RandomSampler):
        def sample_independent(self, study: Any, trial: Any, *space: Any) -> Any:
            if trial.number == 2:
                raise ValueError("no third one")
            return super().sample_independent(study, trial, *space)

    with pytest.raises(InputError) as caught:
        searched(4, sampler=Two(seed=0))
    assert says(str(caught.value), "Two", "no third one")
    assert states(tmp_path) == {COMPLETE: 2, FAIL: 1, WAITING: 1}


# Reports


def test_intermediate_scores_reach_the_pruner_and_its_answer_the_task(
    scorer: Scorer, searched: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Odd(optuna.pruners.BasePruner):
        def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
            return trial.number % 2 == 1 and trial.last_step == 2

    monkeypatch.setattr(search, "pruner", lambda *_: Odd())
    answers: list[list[bool]] = []

    def event(candidate: Candidate, report: Report) -> bool:
        steps = (1, 2, 2)  # a group is begun again if its worker dies
        answers.append(
            [report("intermediate", 0, candidate.number, s, 10.0 * s, wait=True) for s in steps]
        )
        if not answers[-1][-1]:
            report("scored", 0, candidate.number, None, None, wait=True)
        return answers[-1][-1]

    scorer.event = event
    result = searched(4, 2)
    assert answers == [[True, n % 2 == 0, n % 2 == 0] for n in range(4)]
    assert [trial.state for trial in result.study.trials] == [COMPLETE, PRUNED] * 2
    assert all(t.intermediate_values == {1: 10.0, 2: 20.0} for t in result.study.trials)


def test_a_task_that_is_repeated_scores_no_trial_twice(
    scorer: Scorer, searched: Any, tmp_path: Path
) -> None:
    def event(candidate: Candidate, report: Report) -> bool:
        if candidate.number == 1:  # its worker died here, and another begins anew
            assert not report("begin", 0, 0, wait=True)
            assert not report("scored", 0, 0, 1.0, None, wait=True)
            assert report("begin", 0, 1, wait=True)
        return True

    scorer.event = event
    result = searched(3, 3)
    assert result.study.trials[0].value == formula(scorer.seen[0])
    assert states(tmp_path) == {COMPLETE: 3}


# A torn journal, and a full disk


def test_a_search_that_fills_the_disk_goes_on_when_there_is_room(
    scorer: Scorer, searched: Any, tmp_path: Path
) -> None:
    path = tmp_path / "a.journal"
    with ExitStack() as room:

        def fills(candidate: Candidate, report: Report) -> None:
            if candidate.number == 2:
                room.enter_context(full_disk(path.stat().st_size + 20))

        scorer.event = fills
        with pytest.raises(OSError, match="large"):
            searched(4, 2)
    scorer.event = lambda candidate, report: None
    with pytest.warns(UserWarning, match=r"\ba\.journal\b"):
        result = searched(4, 2)
    assert states(tmp_path) == {COMPLETE: 4, FAIL: 2}
    assert [trial.value for trial in result.study.trials[:2]] == [*map(formula, scorer.seen[:2])]


# Stopped


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ZeroDivisionError])
def test_a_stopped_search_keeps_what_has_ended_and_goes_on_with_the_rest(
    scorer: Scorer, searched: Any, tmp_path: Path, stop: type[BaseException]
) -> None:
    def stopped(candidate: Candidate, report: Report) -> None:
        if candidate.number == 6:
            raise stop

    undisturbed = searched(10, 5, storage=str(tmp_path / "undisturbed.journal")).study
    space = {"space": {"lr": LR}, "grid": {"lr": rates(undisturbed)[:7]}}
    scorer.event = stopped
    with pytest.raises(stop):
        searched(10, 5, space=space)
    assert states(tmp_path) == {COMPLETE: 6, FAIL: 4, WAITING: 4}
    trials = stored(tmp_path).trials
    back = {trial.user_attrs[AGAIN]: trial for trial in trials if trial.state == WAITING}
    assert sorted(back) == [6, 7, 8, 9]
    for number, trial in back.items():
        assert trial.params == trials[number].params
        assert trial.user_attrs.get(GRID) == trials[number].user_attrs.get(GRID)
    scorer.event = lambda candidate, report: None
    again = searched(10, 5, space=space)
    assert sorted(rates(again.study)) == sorted(rates(undisturbed))
    assert states(tmp_path) == {COMPLETE: 10, FAIL: 4}


def test_trials_of_a_driver_that_was_killed_are_done_once_more_by_themselves(
    scorer: Scorer, searched: Any, tmp_path: Path
) -> None:
    searched(2)
    other = stored(tmp_path)
    for _ in range(3):
        other.ask().suggest_float("lr", 0.001, 0.1, log=True)
    lost = rates(other, RUNNING)
    result = searched(10, 4)
    assert states(tmp_path) == {COMPLETE: 10, FAIL: 3}
    assert [len(group) for group in scorer.groups[2:]] == [1, 1, 1, 4, 1]
    assert [group[0].config.lr for group in scorer.groups[2:5]] == lost
    assert TrialCounts.of(result.study).failures == {}
