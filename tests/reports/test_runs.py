"""Runs read from results, chosen for a figure, named, and as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gcl_hard.commands.figures import parse_only
from gcl_hard.errors import InputError
from gcl_hard.experiments.settings import RunConfig
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.images.settings import ImageConfig
from gcl_hard.reports.runs import (
    labels,
    over_seeds,
    read,
    require_snapshots,
    select,
    snapshots,
    stem,
    subject,
    versions,
)
from tests.reports import made_runs

HSCL, UCL = GraphConfig(folds=2), GraphConfig(folds=2, method="ucl")


def test_a_folder_gives_its_records_in_the_order_of_methods(tmp_path: Path) -> None:
    configs = [GraphConfig(method=m) for m in ("hscl", "ucl", "scl")] + [GraphConfig(beta=0.5)]
    for config in configs:
        for seed in (10, 2):
            made_runs.save(tmp_path, config, seed, epochs=(2, 4), curve=[[2, 50]])
    made_runs.save(tmp_path, HSCL, 1, inner=True)
    (tmp_path / "notes.json").write_text("{", encoding="utf-8")
    kept = read([tmp_path])
    assert [(r.run.config.method, r.run.config.beta, r.seed) for r in kept] == [
        ("ucl", None, 2), ("ucl", None, 10), ("scl", None, 2), ("scl", None, 10),
        ("hscl", 0.5, 2), ("hscl", 0.5, 10), ("hscl", 1.0, 2), ("hscl", 1.0, 10),
    ]  # fmt: skip
    assert kept[0].diagnostics == made_runs.snapshots((2, 4), seed=2)
    assert (kept[0].values, kept[0].curve) == ([80.0], [[2, 50]])


DAYS = ("2026-01-02T00:00:00+00:00", "2026-01-03T00:00:00+00:00")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize(
    ("first", "second"),  # of which the second counts
    [
        ({"finished": DAYS[1]}, {"finished": DAYS[0], "epochs": (1, 2)}),
        ({"finished": DAYS[0]}, {"finished": DAYS[1], "accuracies": [70.0]}),
        ({}, {"accuracies": [90.0]}),
    ],
)
def test_a_run_in_two_folders_counts_once(
    first: dict[str, Any], second: dict[str, Any], order: tuple[int, int], tmp_path: Path
) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder, options in zip(folders, (first, second), strict=True):
        made_runs.save(folder, HSCL, **options)
    assert read([folders[k] for k in order]) == read(folders[1:])


def test_scores_that_are_not_defined_are_left_out_and_counted(tmp_path: Path) -> None:
    made_runs.save(tmp_path, UCL)
    made_runs.save(tmp_path, HSCL, accuracies=[float("nan")])
    with pytest.warns(UserWarning, match=r"^1 run .*hscl"):
        assert [run.run.config for run in read([tmp_path])] == [UCL]


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InputError, match=f"^{folder} .*--output"):
            read([folder])


def test_runs_without_snapshots_are_named() -> None:
    with_one = made_runs.run(HSCL, epochs=(1,))
    without = [made_runs.run(UCL, seed) for seed in (4, 5)]
    require_snapshots([with_one])
    with pytest.raises(InputError, match=r"2 of 3 runs.*ucl.*seed 4.*--diagnostics 1"):
        require_snapshots([with_one, *without])


def test_a_snapshot_of_what_was_not_finite_defines_nothing() -> None:
    run = made_runs.run(HSCL, epochs=(1, 2))
    run.diagnostics[0].update(anchors=0, settings={}, geometry={})
    frame = snapshots([run]).query("panel == 'beta=1'").set_index("epoch")
    first, second = frame.loc[1], frame.loc[2]
    assert (first["finite"], first["defined"], first["common"]) == (False, 0, 0)
    assert first[["assumption_1", "ucl", "others", "nc1"]].isna().all()
    whole = made_runs.snapshot(2)
    hardening = whole["settings"]["beta=1"]
    expected = hardening | hardening["losses"] | whole["geometry"]
    names = [name for name in frame if name in expected]
    assert len(names) > 20
    assert {name: second[name] for name in names} == {name: expected[name] for name in names}


def test_numbers_against_epoch_are_over_the_seeds_that_define_them() -> None:
    runs = [
        made_runs.run(HSCL, seed, epochs=epochs)
        for seed, epochs in enumerate([(1, 2), (2, 3), (2,)])
    ]
    shares = [
        run.diagnostics[i]["settings"]["beta=1"] for run, i in zip(runs, (1, 0, 0), strict=True)
    ]
    shares[2]["assumption_1"] = None
    frame = snapshots(runs)
    means = over_seeds(frame[frame["panel"] == "beta=1"], "assumption_1")
    both = [share["assumption_1"] for share in shares[:2]]
    assert means.to_dict("index") == {
        ("hscl β=1", 2): {"mean": pytest.approx(sum(both) / 2), "min": min(both), "max": max(both)}
    }


def test_versions_are_counted_as_far_as_they_are_known() -> None:
    runs = [
        made_runs.run(HSCL, seed, version=name) for seed, name in enumerate(("a", "b", None, "a"))
    ]
    assert (versions(runs), versions(runs[2:]), versions([])) == (2, 1, 0)


# Selection and names

CONFIGS = (
    GraphConfig(method="ucl"),
    GraphConfig(method="hucl", beta=2),
    GraphConfig(beta=1, epochs=50),
    GraphConfig(beta=2, epochs=50),
    GraphConfig(dataset="PTC_MR", method="ucl"),
    GraphConfig(method="wl"),
)
RUNS = [made_runs.run(config, seed) for config in CONFIGS for seed in (0, 1)]


def chosen(*only: str) -> list[tuple[RunConfig, int]]:
    return [(run.run.config, run.seed) for run in select(RUNS, parse_only(only))]


@pytest.mark.parametrize(
    ("only", "kept"),
    [
        (["dataset=mutag", "method=ucl,hucl"], CONFIGS[:2]),
        (["dataset=ptc"], CONFIGS[4:5]),
        (["protocol=paper", "method=hscl"], CONFIGS[2:4]),
        (["beta=2.0"], (CONFIGS[1], CONFIGS[3])),
        (["dataset=MUTAG", "beta=none"], CONFIGS[:1]),
        (["dataset=MUTAG", "method=ucl", "method=hscl", "epochs=50"], CONFIGS[2:4]),
        (["method=HSCL", "detach-weights=False"], CONFIGS[2:4]),
    ],
)
def test_settings_select(only: list[str], kept: tuple[RunConfig, ...]) -> None:
    assert chosen(*only) == [(config, seed) for config in kept for seed in (0, 1)]
    assert chosen(*only, "seed=1") == [(config, 1) for config in kept]


@pytest.mark.parametrize(
    ("only", "named"),
    [
        ([], "--only dataset=MUTAG"), (["methd=ucl"], "method"), (["method=hslc"], "hscl"),
        (["method=wl"], "ucl"), (["dataset=PTC_MR", "method=hscl"], "run"), (["method"], "=VALUE"),
        (["method=,"], "=VALUE"),
    ],
)  # fmt: skip
def test_what_does_not_choose_is_refused(only: list[str], named: str) -> None:
    with pytest.raises(InputError, match=named):
        chosen(*only)


@pytest.mark.parametrize(
    "other",
    [
        GraphConfig(protocol="inductive"), GraphConfig(contrast="two-view", objective="jsd"),
        GraphConfig(objective="infonce"), ImageConfig(),
    ],
)  # fmt: skip
def test_a_mixture_is_refused_with_what_would_choose(other: RunConfig) -> None:
    mixture = [made_runs.run(GraphConfig()), made_runs.run(other)]
    with pytest.raises(InputError) as caught:
        select(mixture)
    only = str(caught.value).rpartition("--only ")[2]
    assert [r.run.config for r in select(mixture, parse_only([only]))] == [GraphConfig()]


def test_baselines_and_what_has_no_diagnostics_are_left_out() -> None:
    configs = [GraphConfig(method="ucl", protocol="inductive"), GraphConfig(), GraphConfig(beta=2),
               GraphConfig(method="untrained")]  # fmt: skip
    runs = [made_runs.run(config, epochs=(1,) * (k > 0)) for k, config in enumerate(configs)]
    assert select(runs, measured=True) == runs[1:3]
    assert select(runs[:1], measured=True) == runs[:1]
    with pytest.raises(InputError):
        select(runs[3:])


def test_configs_are_told_apart_by_what_differs() -> None:
    configs: list[RunConfig] = [
        GraphConfig(method="ucl", lr=0.1), GraphConfig(method="hucl"), GraphConfig(method="hcl"),
        GraphConfig(method="hcl", beta_changes=4),
    ]  # fmt: skip
    names = [*labels(configs).values()]
    assert len({*names}) == 4
    assert names[:2] == ["ucl lr=0.1", "hucl β=1 lr=0.01 beta-changes=0"]
    configs = [ImageConfig(method="ucl"), ImageConfig(method="scl")]
    assert [*labels(configs).values()] == ["ucl", "scl"]
    configs += [ImageConfig(method="hucl", positives="class"), ImageConfig(positives="view")]
    assert [*labels(configs).values()][2:] == ["hucl β=1 class", "hscl β=1 view"]


def test_a_picture_says_what_it_is_of() -> None:
    runs = [made_runs.run(ImageConfig(subset=4000, temperature=0.2), seed) for seed in (0, 1)]
    for fact in ("digits", "4,000 images", "2 views", "InfoNCE", "γ = 0.2", "2 seeds"):
        assert fact in subject(runs)
    assert "1 to 2 seeds" in subject([*runs, made_runs.run(ImageConfig(method="ucl"))])


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (GraphConfig(), "fig4-MUTAG-jsd"),
        (GraphConfig(objective="infonce"), "fig4-MUTAG-infonce"),
        (GraphConfig(contrast="two-view", objective="jsd"), "fig4-MUTAG-two-view-jsd"),
        (GraphConfig(protocol="inductive"), "fig4-MUTAG-jsd-inductive"),
        (ImageConfig(), "fig4-digits"),
    ],
)
def test_a_file_is_called_by_what_is_not_usual(config: RunConfig, name: str) -> None:
    assert stem("fig4", config) == name
