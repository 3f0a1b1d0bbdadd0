"""The page that needs nothing else: its script once, its words escaped, its figures there."""

from __future__ import annotations

import json
import re

from gcl_hard.reports.search_figures import html
from tests.tuning.reporting.made import finding, outcome, searched, study, trial

SCRIPT = "plotly.js v"


def without_scripts(page: str) -> str:
    return re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


def test_all_figures_of_every_study_are_there_and_the_script_once() -> None:
    page = html(outcome(finding(searched()), finding(searched())), title="t")
    assert page.count(SCRIPT) == 1
    kinds = ["history", "slice", "parallel", "importances", "contour", "intermediate", "timeline"]
    ids = re.findall(r'<div id="([\w-]+)" class="plotly-graph-div"', page)
    assert ids == [f"{kind}-{k}" for k in (1, 2) for kind in kinds]
    assert page.index(SCRIPT) < page.index("Plotly.newPlot(")


def test_nothing_is_loaded_and_nothing_can_be_sent() -> None:
    page = html(outcome(), title="t")
    assert re.findall(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)\s*=", page) == []
    assert not re.search(r"@import|url\(", without_scripts(page))
    assert "http" not in without_scripts(page)
    configs = re.findall(r'\{[^{}]*"displaylogo"[^{}]*\}', page)
    assert len(configs) == 7
    assert all(json.loads(one)["showSendToCloud"] is False for one in configs)


def test_the_numbers_stand_on_top_and_the_reasons_of_failure_below() -> None:
    page = without_scripts(html(outcome(), title="hscl on PTC_MR"))
    said = ["<h1>hscl on PTC_MR", "70.0 %", "61.0 %", "+9.0 points", "the best of the 4 others"]
    where = [page.index(one) for one in [*said, "diverged: 2", "The trials in their order"]]
    assert where == sorted(where)


def test_words_of_users_are_escaped() -> None:
    bad = "<script>alert('x')</script>&"
    made = study(trial(50.0, {"beta": 1.0}), trial(bad, {"beta": 2.0}))
    page = html(outcome(finding(made), inner=bad), title=bad)
    assert "<script>alert" not in page
    assert without_scripts(page).count("&lt;script&gt;alert(") == 4
    # title, heading, the sentence on the inner score, the reason


def test_the_paper_s_protocol_is_labelled() -> None:
    page = html(outcome(finding(searched(), outer=None), protocol="paper"), title="t")
    assert 'class="note">Settings were chosen on the test folds, as the paper does' in page
    assert "Score on the test folds" in page
    assert "Outer score" not in page
    assert 'class="note"' not in html(outcome(), title="t")


def test_figures_speak_people_s_words() -> None:
    page = html(outcome(), title="t")
    data = page[page.index('id="history-1"') :]
    for word in ("learning rate", "temperature", "inner accuracy, %", "best so far"):
        assert word in data
    assert '"beta"' not in data
    assert "Hyperparameter" not in data


def test_a_search_of_one_trial_has_a_page() -> None:
    page = html(outcome(finding(study(trial(50.0, {"beta": 1.0})))), title="t")
    ids = re.findall(r'<div id="([\w-]+)" class="plotly-graph-div"', page)
    assert ids == ["history-1", "slice-1", "parallel-1", "timeline-1"]
