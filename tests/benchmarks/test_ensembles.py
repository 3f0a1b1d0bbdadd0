from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import pytest

from gcl_hard.experiments.plan import USUAL
from gcl_hard.graphs import GraphSet, load_graphs
from gcl_hard.graphs.protocols import folds_of
from gcl_hard.graphs.settings import GraphConfig


@pytest.fixture(scope="module")
def script(bare_names: None) -> ModuleType:
    return importlib.import_module("ensembles")


@pytest.fixture(scope="module")
def cases(bare_names: None) -> ModuleType:
    return importlib.import_module("ensemble_cases")


@pytest.fixture(scope="module")
def mutag() -> GraphSet:
    return load_graphs("MUTAG")


def ticking(*times: float) -> Callable[[], float]:
    return iter(times).__next__


def test_laps_leave_the_first_epoch_out_and_stop_training(script: ModuleType) -> None:
    laps = script.Laps(2, clock=ticking(100.0, 103.0, 108.0))
    laps(1, 0.5)
    laps(2, 0.5)
    with pytest.raises(script.Enough):
        laps(3, 0.5)
    assert laps.seconds == 4.0


def test_laps_of_two_go_on_until_both_are_done_and_count_their_own(script: ModuleType) -> None:
    lock = threading.Lock()
    done = SimpleNamespace(value=0, get_lock=lambda: lock)
    both = SimpleNamespace(start=threading.Barrier(1), done=done)
    fast = script.Laps(1, both, clock=ticking(0.0, 1.0, 5.0, 9.0))
    slow = script.Laps(1, both, clock=ticking(0.0, 6.0))
    fast()
    fast()
    fast()  # done, but the other is not
    slow()
    with pytest.raises(script.Enough):
        slow()
    with pytest.raises(script.Enough):
        fast()
    assert (fast.seconds, slow.seconds) == (1.0, 6.0)


def test_contenders_take_turns_after_a_round_that_is_not_timed(
    script: ModuleType, cases: ModuleType
) -> None:
    case, seen = cases.Case("MUTAG", "ucl"), []

    def train(turn: object) -> tuple[list[int], float]:
        seen.append(turn)
        return ([4, 16] if turn.paired else [4]), float(len(seen))

    seconds, models = script.time_training(train, case, (1, 4), pairs=2)
    assert len(set(seen)) == 6  # plain, P = 1, P = 4, auto P; two of plain, two of auto P
    assert seen == seen[:6] * 3
    assert [seconds[name] for name in seconds] == [[7.0 + i, 13.0 + i] for i in range(6)]
    assert models == {"one process, auto P": [4.0], "two processes, auto P": [4.0, 16.0]}


def test_models_of_an_inductive_ensemble_hold_out_the_same_fold(
    cases: ModuleType, mutag: GraphSet
) -> None:
    config = GraphConfig(protocol="inductive")
    fold = folds_of(config, mutag.y.numpy(), seed=0)[0]
    encoders = cases.encoders(config, mutag, 3)
    assert [encoder.seed for encoder in encoders] == [0, 1, 2]
    for encoder in encoders:
        assert encoder.held_out.tolist() == fold.test.tolist()
    assert cases.first(config, mutag, 3).alone is None


@pytest.mark.parametrize("protocol", ["transductive", "inductive"])
def test_the_usual_size_is_that_of_the_command(cases: ModuleType, protocol: str) -> None:
    size = cases.usual_size(cases.Case("MUTAG", "hscl", protocol))
    assert 1 < size <= USUAL["cpu"]
    assert (size == USUAL["cpu"]) == (protocol == "transductive")
