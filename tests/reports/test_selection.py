"""Which runs a figure is of, and what they are called."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gcl_hard.errors import InputError
from gcl_hard.experiments.config import GraphConfig, ImageConfig, RunConfig
from gcl_hard.reports.command import parse_only
from gcl_hard.reports.runs import labels, select, settings, stem, subject
from tests.reports import made_runs as made

CONFIGS = (
    GraphConfig(method="ucl"),
    GraphConfig(method="hucl", beta=2),
    GraphConfig(beta=1, epochs=50),
    GraphConfig(beta=2, epochs=50),
    GraphConfig(dataset="PTC_MR", method="ucl"),
    GraphConfig(method="wl"),
)
RUNS = [made.run(config, seed) for config in CONFIGS for seed in (0, 1)]


def chosen(*only: str) -> list[tuple[RunConfig, int]]:
    return [(run.config, run.seed) for run in select(RUNS, parse_only(only))]


def refusal(*only: str) -> str:
    with pytest.raises(InputError) as caught:
        chosen(*only)
    return str(caught.value)


@pytest.mark.parametrize(
    ("only", "kept"),
    [
        (["dataset=MUTAG"], CONFIGS[:4]),
        (["dataset=mutag", "method=ucl,hucl"], CONFIGS[:2]),
        (["dataset=ptc"], CONFIGS[4:5]),
        (["beta=2"], (CONFIGS[1], CONFIGS[3])),
        (["beta=2.0", "method=hscl"], CONFIGS[3:4]),
        (["dataset=MUTAG", "beta=none"], CONFIGS[:1]),
        (["dataset=MUTAG", "method=ucl", "method=hscl", "epochs=50"], CONFIGS[2:4]),
        (["method=HSCL", "detach-weights=False"], CONFIGS[2:4]),
    ],
)
def test_settings_select(only: list[str], kept: tuple[RunConfig, ...]) -> None:
    assert chosen(*only) == [(config, seed) for config in kept for seed in (0, 1)]


def test_a_seed_chooses() -> None:
    assert chosen("seed=1", "method=hscl") == [(CONFIGS[2], 1), (CONFIGS[3], 1)]


@pytest.mark.parametrize(
    ("only", "said"),
    [
        ([], "several data sets (MUTAG, PTC_MR), and a figure is of one: choose it, as --only "
             "dataset=MUTAG"),
        (["methd=ucl"], "unknown setting in --only 'methd'; did you mean method"),
        (["method=hslc"], "unknown method in these results 'hslc'; did you mean hscl"),
        (["batch_size=7"], "unknown batch-size in these results '7'; known: 128"),
        (["dataset=PTC_MR", "method=hscl"], "no result has dataset=PTC_MR and method=hscl"),
        (["method=wl"], "wl is a baseline; figures are of trained methods"),
        (["method"], "--only takes KEY=VALUE or KEY=VALUE,VALUE, got 'method'"),
        (["=ucl"], "got '=ucl'"),
        (["method=,"], "got 'method=,'"),
    ],
)  # fmt: skip
def test_what_does_not_choose_is_refused(only: list[str], said: str) -> None:
    assert said in refusal(*only)


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (
            GraphConfig(),
            GraphConfig(protocol="inductive"),
            "several protocols (transductive, inductive)",
        ),
        (GraphConfig(), GraphConfig(contrast="two-view", objective="jsd"), "several contrasts"),
        (GraphConfig(), GraphConfig(objective="infonce"), "several objectives (jsd, infonce)"),
        (GraphConfig(), ImageConfig(), "several data sets (MUTAG, digits)"),
    ],
)
def test_a_mixture_is_refused(one: RunConfig, other: RunConfig, said: str) -> None:
    with pytest.raises(InputError) as caught:
        select([made.run(one), made.run(other)])
    assert said in str(caught.value)
    name = str(caught.value).rpartition("--only ")[2]
    assert [r.config for r in select([made.run(one), made.run(other)], parse_only([name]))] == [one]


def test_baselines_are_passed_over_whatever_their_protocol() -> None:
    runs = [made.run(GraphConfig()), made.run(GraphConfig(method="untrained"))]
    assert [run.config for run in select(runs)] == [GraphConfig()]
    with pytest.raises(InputError, match=r"of baselines alone \(untrained\)"):
        select(runs[1:])


def test_configs_are_told_apart_by_what_differs() -> None:
    configs: list[RunConfig] = [
        GraphConfig(method="ucl", lr=0.1), GraphConfig(method="hucl"), GraphConfig(method="hcl"),
        GraphConfig(method="hcl", beta_changes=4),
    ]  # fmt: skip
    assert list(labels(configs).values()) == [
        "ucl lr=0.1", "hucl β=1 lr=0.01", "hcl β=1 lr=0.01", "hcl β=1 lr=0.01 annealed in 4",
    ]  # fmt: skip
    assert list(settings(configs[2:]).values()) == ["β=1", "β=1 annealed in 4"]


def test_positives_that_are_the_methods_own_are_not_said() -> None:
    configs = [ImageConfig(method="ucl"), ImageConfig(method="scl")]
    assert list(labels(configs).values()) == ["ucl", "scl"]
    configs += [ImageConfig(method="hucl", positives="class"), ImageConfig(positives="view")]
    said = list(labels(configs).values())
    assert said[2:] == ["hucl β=1 positives=class", "hscl β=1 positives=view"]


def test_a_picture_says_what_it_is_of() -> None:
    runs = [
        made.run(ImageConfig(), 0),
        made.run(ImageConfig(), 1),
        made.run(ImageConfig(method="ucl")),
    ]
    assert subject(runs[:2]) == "digits: two views of an image, InfoNCE, 2 seeds"
    part = replace(runs[0], config=replace(runs[0].config, subset=4000))
    assert subject([part]).startswith("digits: a part of 4,000 images, two views")
    assert subject(runs) == "digits: two views of an image, InfoNCE, 1 to 2 seeds"


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (GraphConfig(), "fig4-MUTAG-jsd"),
        (GraphConfig(objective="infonce"), "fig4-MUTAG-infonce"),
        (GraphConfig(dataset="PTC_MR", contrast="two-view"), "fig4-PTC_MR-two-view"),
        (GraphConfig(contrast="two-view", objective="jsd"), "fig4-MUTAG-two-view-jsd"),
        (GraphConfig(protocol="inductive"), "fig4-MUTAG-jsd-inductive"),
        (ImageConfig(), "fig4-digits"),
    ],
)
def test_a_file_is_called_by_what_is_not_usual(config: RunConfig, name: str) -> None:
    assert stem("fig4", config) == name
