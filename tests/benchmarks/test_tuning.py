from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def script(bare_names: None) -> ModuleType:
    return importlib.import_module("tuning")


@pytest.fixture(scope="module")
def cases(bare_names: None) -> ModuleType:
    return importlib.import_module("tuning_cases")


def test_both_contenders_train_the_same_settings_to_the_same_scores(
    script: ModuleType, cases: ModuleType
) -> None:
    case = cases.Case("MUTAG", trials=5, epochs=1)
    # Rounding differs with the number of threads, and that with the batch.
    single, batched = (
        cases.whole_study(case, "--threads=1", f"--ensemble-size={n}") for n in (1, 4)
    )
    assert (single.batch, batched.batch) == (1, 4)
    assert len(single.trials) == 5
    assert single.scores == batched.scores
    script.check_same(single, batched)
    with pytest.raises(AssertionError, match="settings"):
        script.check_same(single, replace(batched, trials=batched.trials | {4: single.trials[3]}))


def test_a_search_that_lost_a_trial_is_no_timing(
    cases: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loses(arguments: list[str]) -> None:
        (output,) = (flag.partition("=")[2] for flag in arguments if flag.startswith("--output"))
        content = '{"studies": [{"complete": 2, "pruned": 1, "seconds": 1.0}]}'
        (Path(output) / "a_search.json").write_text(content, encoding="utf-8")

    monkeypatch.setattr(cases, "command", loses)
    assert cases.whole_search(cases.Case("MUTAG", trials=3), 2)[1] == 1.0
    with pytest.raises(AssertionError, match=r"\b2 jobs\b.*\b3\b.*\b4\b"):
        cases.whole_search(cases.Case("MUTAG", trials=4), 2)
