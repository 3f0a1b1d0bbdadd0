"""Runs read from results, chosen for a figure, named, and as a table."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from gcl_hard.commands.figures import parse_only
from gcl_hard.errors import InputError
from gcl_hard.experiments.record import RunResult
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import RunConfig
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.images.settings import ImageConfig
from gcl_hard.reports.frame import Results, result_json
from gcl_hard.reports.runs import (
    labels,
    over_seeds,
    read,
    require_snapshots,
    same_seeds,
    select,
    settings,
    snapshots,
    stem,
    subject,
    versions,
)
from tests.experiments import rewrite
from tests.reports import made_runs
from tests.said import says

HSCL, UCL = GraphConfig(folds=2), GraphConfig(folds=2, method="ucl")


def refusal(*places: Path) -> str:
    with pytest.raises(InputError) as caught:
        read(places)
    return str(caught.value)


def result_file(path: Path, *records: dict[str, Any]) -> Path:
    """What the bench writes of some records, by its own code."""
    kept = [RunResult.read(r) for r in records]
    seeds = tuple(dict.fromkeys(record.seed for record in kept))
    configs = tuple(dict.fromkeys(record.run.config for record in kept))
    results = Results(configs, seeds, {record.run: record for record in kept})
    path.write_text(json.dumps(result_json(results)), encoding="utf-8")
    return path


def test_a_record_keeps_what_a_figure_needs(tmp_path: Path) -> None:
    config = ImageConfig(method="scl", epochs=4)
    path = made_runs.save(
        tmp_path, config, 3, epochs=(2, 4), accuracies=[71.5], curve=[[2, 50], [4, 60]]
    )
    (run,) = read([path])
    assert (run.run.config, run.seed, run.values) == (config, 3, [71.5])
    assert run.curve == [[2, 50], [4, 60]]
    assert run.diagnostics == made_runs.snapshots((2, 4), seed=3)


def test_a_folder_gives_its_records_and_nothing_else(tmp_path: Path) -> None:
    for seed in (1, 0):
        made_runs.save(tmp_path, UCL, seed)
    made_runs.save(tmp_path, HSCL, 0)
    made_runs.save(tmp_path, HSCL, 1, inner=True)
    (tmp_path / ".hidden_seed0.json").write_text("{", encoding="utf-8")
    (tmp_path / "notes.json").write_text("{", encoding="utf-8")
    (tmp_path / "list.json").write_text("[1]", encoding="utf-8")
    result_file(tmp_path / "results.json", made_runs.stored(HSCL, 9, accuracies=[80, 90]))
    assert [(run.run.config, run.seed) for run in read([tmp_path])] == [
        (UCL, 0),
        (UCL, 1),
        (HSCL, 0),
    ]


def test_a_result_file_gives_what_its_records_gave(tmp_path: Path) -> None:
    stored_runs: list[dict[str, Any]] = [
        {"config": config, "seed": seed, "epochs": (5, 10), "accuracies": [80.0 + seed, 90.0],
         "curve": [[5, 40.0 + seed]]}
        for config in (UCL, HSCL) for seed in (0, 2)
    ]  # fmt: skip
    single = read([made_runs.save(tmp_path / "records", **each) for each in stored_runs])
    whole = read(
        [result_file(tmp_path / "all.json", *(made_runs.stored(**each) for each in stored_runs))]
    )
    assert len(single) == len(whole) == 4
    kept = ("config", "seed", "scores", "curve", "diagnostics", "versions")
    for result, other in zip(whole, single, strict=True):
        assert all(getattr(result, name) == getattr(other, name) for name in kept)
    assert {run.versions["source"] for run in whole} == {"0a"}


def test_a_result_file_without_snapshots_is_read(tmp_path: Path) -> None:
    (run,) = read(
        [result_file(tmp_path / "a.json", made_runs.stored(HSCL, 1, accuracies=[80, 90]))]
    )
    assert (run.seed, run.values, run.diagnostics, run.curve) == (1, [80, 90], [], [])


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_seed_that_is_there_twice_counts_once_with_its_snapshots(
    order: tuple[int, int], tmp_path: Path
) -> None:
    places = [
        made_runs.save(tmp_path / "a", HSCL),
        made_runs.save(tmp_path / "b", HSCL, epochs=(1, 2)),
    ]
    (run,) = read([places[i] for i in order])
    assert len(run.diagnostics) == 2


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_without_snapshots_the_later_counts(order: tuple[int, int], tmp_path: Path) -> None:
    days = [(90.0, "2026-01-02T00:00:00+00:00"), (80.0, "2026-01-03T00:00:00+00:00")]
    places = [
        made_runs.save(tmp_path / str(i), HSCL, accuracies=[accuracy], finished=day, version=str(i))
        for i, (accuracy, day) in enumerate(days)
    ]
    (run,) = read([places[i] for i in order])
    assert (run.values, run.versions) == ([80.0], {"source": "1"})
    made_runs.save(tmp_path / "0", HSCL, accuracies=[90.0], finished=days[1][1])
    (run,) = read([places[i] for i in order])  # of one moment: still the same of the two
    assert run.values == [90.0]


def test_the_order_of_places_does_not_matter(tmp_path: Path) -> None:
    configs = [GraphConfig(method=m) for m in ("hscl", "ucl", "scl")] + [GraphConfig(beta=0.5)]
    paths = [made_runs.save(tmp_path, config, seed) for config in configs for seed in (10, 2)]
    kept = read(paths)
    assert kept == read(reversed(paths))
    assert [(r.run.config.method, r.run.config.beta, r.seed) for r in kept] == [
        ("ucl", None, 2), ("ucl", None, 10), ("scl", None, 2), ("scl", None, 10),
        ("hscl", 0.5, 2), ("hscl", 0.5, 10), ("hscl", 1.0, 2), ("hscl", 1.0, 10),
    ]  # fmt: skip


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    wanted = ("--output", "python -m gcl_hard.bench", "--json")
    nowhere, other = tmp_path / "nowhere", tmp_path / "other.json"
    assert refusal(nowhere).startswith(f"{nowhere} ")
    assert says(refusal(nowhere), "exist", *wanted)
    assert refusal(tmp_path).startswith(f"{tmp_path} ")
    assert says(refusal(tmp_path), "finished", *wanted)
    other.write_text('{"trials": []}', encoding="utf-8")
    assert refusal(other).startswith(f"{other} ")
    assert says(refusal(other), "neither", "run's", "result file", *wanted)
    assert refusal(tmp_path).startswith(f"{tmp_path} ")
    assert says(refusal(tmp_path), "finished", *wanted)
    made_runs.save(tmp_path, GraphConfig(protocol="inductive"), inner=True)
    assert says(refusal(tmp_path), "inner", "hold-outs")


def test_an_empty_result_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_text(json.dumps(result_json(Results((), (), {}))), encoding="utf-8")
    assert refusal(path).startswith(f"{path} ")
    assert says(refusal(path), "finished")


@pytest.mark.parametrize(
    "snapshot",
    [
        3,
        {"epoch": 1, "anchors": 3, "settings": {"beta=1": {}}},
        {k: v for k, v in made_runs.snapshot(1).items() if k != "geometry"},
        {**made_runs.snapshot(1), "settings": {"beta=1": None}},
    ],
)
def test_snapshots_that_cannot_be_used_are_refused(snapshot: Any, tmp_path: Path) -> None:
    path = made_runs.save(tmp_path, HSCL, epochs=(1,))
    rewrite(path, diagnostics=[snapshot])
    for place in (path, tmp_path):
        message = refusal(place)
        assert message.startswith(str(path))
        assert says(message.removeprefix(str(path)), "damaged")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        *(({"schema_version": n}, ["schema", n]) for n in (0, 2, 99)),
        ({"config": {"gamma": 3}}, ["unknown", "settings", "gamma"]),
        ({"config": asdict(HSCL) | {"method": "hslc"}}, ["unknown", "method", "'hslc'"]),
        ({"domain": "texts"}, ["domain", "'texts'"]),
    ],
)
def test_a_record_that_another_version_wrote_is_named_and_left_out(
    changes: dict[str, Any], words: list[object], tmp_path: Path
) -> None:
    path = made_runs.save(tmp_path, HSCL, epochs=(1,))
    rewrite(path, **changes)
    assert says(refusal(path), str(path), *words)
    other = made_runs.save(tmp_path, HSCL, 1, epochs=(1,))
    with pytest.warns(UserWarning, match=path.name) as warned:
        (run,) = read([tmp_path])
    assert says(str(warned[0].message), 1, *words)
    assert (run.run, other.stem) == (Run(HSCL, 1), run.name)


def test_a_half_written_record_is_refused_and_left_out_of_a_folder(tmp_path: Path) -> None:
    made_runs.save(tmp_path, HSCL)
    broken = tmp_path / f"{Run(HSCL, 1).key}.json"
    broken.write_text('{"config": {', encoding="utf-8")
    assert says(refusal(broken), str(broken), "damaged")
    with pytest.warns(UserWarning, match=rf"1 .*{broken.name}.*damaged"):
        (run,) = read([tmp_path])
    assert run.run == Run(HSCL, 0)


def test_a_damaged_result_file_is_refused(tmp_path: Path) -> None:
    path = result_file(
        tmp_path / "a.json", made_runs.stored(HSCL, accuracies=[80, 90], epochs=(1,))
    )
    stored = json.loads(path.read_text(encoding="utf-8"))
    stored["configs"][0]["diagnostics"] = []  # of one seed too few
    path.write_text(json.dumps(stored), encoding="utf-8")
    assert refusal(path).startswith(f"{path} ")
    assert says(refusal(path), "damaged")


def test_runs_without_snapshots_are_named() -> None:
    with_one, without = (
        made_runs.run(HSCL, epochs=(1,)),
        [made_runs.run(UCL, seed) for seed in (4, 5)],
    )
    require_snapshots([with_one])
    with pytest.raises(InputError, match=r"^\D*--diagnostics 1\b"):
        require_snapshots(without)
    named = r"MUTAG ucl transductive, seed 4\b.*seed4\.json.*--diagnostics 1.*--only"
    with pytest.raises(InputError, match=rf"\b1 run\b.*{named}"):
        require_snapshots([with_one, without[0]])
    with pytest.raises(InputError, match=rf"\b2 runs\b.*{named}"):
        require_snapshots([with_one, *without])


def test_a_snapshot_of_what_was_not_finite_defines_nothing() -> None:
    run = made_runs.run(HSCL, epochs=(1, 2))
    run.diagnostics[0].update(anchors=0, settings={}, geometry={})
    frame = snapshots([run])
    first, second = (
        frame[(frame["epoch"] == epoch) & (frame["panel"] == "beta=1")].iloc[0] for epoch in (1, 2)
    )
    assert (first["finite"], first["defined"], first["common"]) == (False, 0, 0)
    assert first[["assumption_1", "ucl", "others", "nc1"]].isna().all()
    whole = made_runs.snapshot(2)
    for name, value in whole["settings"]["beta=1"].items():
        if name != "losses":
            assert second[name] == value
    for name, value in (whole["settings"]["beta=1"]["losses"] | whole["geometry"]).items():
        assert name not in frame or second[name] == value


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


def test_snapshots_that_do_not_count_others_are_read(tmp_path: Path) -> None:
    path = made_runs.save(tmp_path, HSCL, epochs=(1,))
    stored = json.loads(path.read_text(encoding="utf-8"))
    for setting in stored["diagnostics"][0]["settings"].values():
        del setting["others"], setting["other_labels"]
    rewrite(path, diagnostics=stored["diagnostics"])
    (run,) = read([path])
    frame = snapshots([run]).set_index("panel")
    assert frame["others"].isna().all()
    assert frame.loc["beta=2", "effective_hucl"] == 31.2


def test_versions_are_said_if_they_differ() -> None:
    runs = [
        made_runs.run(HSCL, seed, version=name) for seed, name in enumerate(("a", "b", None, "a"))
    ]
    assert (versions(runs), versions(runs[2:]), versions([])) == (2, 1, 0)


def test_seeds_that_all_points_share_are_kept_or_else_those_of_a_line() -> None:
    def points(*seeds: tuple[int, ...]) -> list[RunResult]:
        configs = [
            GraphConfig(epochs=10),
            GraphConfig(epochs=20),
            GraphConfig(method="ucl", epochs=20),
        ]
        return [
            made_runs.run(c, seed)
            for c, own_seeds in zip(configs, seeds, strict=False)
            for seed in own_seeds
        ]

    def kept(runs: list[RunResult]) -> list[tuple[int, int]]:
        shared, words = same_seeds(runs, {run.run.config: run.run.config.method for run in runs})
        assert words
        return [(run.run.config.epochs, run.seed) for run in shared]

    assert kept(points((0, 1, 2), (1, 2), (1, 2, 3))) == [
        (10, 1), (10, 2), (20, 1), (20, 2), (20, 1), (20, 2)
    ]  # fmt: skip
    assert kept(points((0, 1), (1, 2), (5,))) == [(10, 1), (20, 1), (20, 5)]
    assert kept(points((0,), (1,))) == [(10, 0), (20, 1)]


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


def refusal_of(*only: str) -> str:
    with pytest.raises(InputError) as caught:
        chosen(*only)
    return str(caught.value)


@pytest.mark.parametrize(
    ("only", "kept"),
    [
        (["dataset=MUTAG"], CONFIGS[:4]),
        (["dataset=mutag", "method=ucl,hucl"], CONFIGS[:2]),
        (["dataset=ptc"], CONFIGS[4:5]),
        (["protocol=paper", "method=hscl"], CONFIGS[2:4]),
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
    ("only", "words"),
    [
        ([], ["MUTAG, PTC_MR", "--only dataset=MUTAG"]),
        (["methd=ucl"], ["--only", "'methd'", "method", "method", "batch-size"]),
        (["method=hslc"], ["method", "'hslc'", "hscl", "ucl, hucl, hscl"]),
        (["batch_size=7"], ["batch-size", "'7'", 128]),
        (["dataset=PTC_MR", "method=hscl"], ["dataset=PTC_MR", "method=hscl"]),
        (["method=wl"], ["wl", "baseline", "trained"]),
        (["method"], ["--only", "KEY=VALUE", "KEY=VALUE,VALUE", "'method'"]),
        (["=ucl"], ["--only", "KEY=VALUE", "'=ucl'"]),
        (["method=,"], ["--only", "KEY=VALUE", "'method=,'"]),
    ],
)
def test_what_does_not_choose_is_refused(only: list[str], words: list[object]) -> None:
    assert says(refusal_of(*only), *words)


@pytest.mark.parametrize(
    ("first", "other", "words"),
    [
        (
            GraphConfig(),
            GraphConfig(protocol="inductive"),
            ["transductive, inductive", "--only protocol=transductive"],
        ),
        (
            GraphConfig(),
            GraphConfig(contrast="two-view", objective="jsd"),
            ["local-global, two-view", "--only contrast=local-global"],
        ),
        (GraphConfig(), GraphConfig(objective="infonce"), ["jsd, infonce", "--only objective=jsd"]),
        (GraphConfig(), ImageConfig(), ["MUTAG, digits", "--only dataset=MUTAG"]),
    ],
)
def test_a_mixture_is_refused(first: RunConfig, other: RunConfig, words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        select([made_runs.run(first), made_runs.run(other)])
    assert says(str(caught.value), *words)
    name = str(caught.value).rpartition("--only ")[2]
    assert [
        r.run.config
        for r in select([made_runs.run(first), made_runs.run(other)], parse_only([name]))
    ] == [first]


def test_baselines_are_passed_over_whatever_their_protocol() -> None:
    runs = [made_runs.run(GraphConfig()), made_runs.run(GraphConfig(method="untrained"))]
    assert [run.run.config for run in select(runs)] == [GraphConfig()]
    with pytest.raises(InputError, match=r"baselines.*\(untrained\)"):
        select(runs[1:])


def test_configs_are_told_apart_by_what_differs() -> None:
    configs: list[RunConfig] = [
        GraphConfig(method="ucl", lr=0.1), GraphConfig(method="hucl"), GraphConfig(method="hcl"),
        GraphConfig(method="hcl", beta_changes=4),
    ]  # fmt: skip
    *others, annealed = labels(configs).values()
    assert others == ["ucl lr=0.1", "hucl β=1 lr=0.01", "hcl β=1 lr=0.01"]
    assert says(annealed, "hcl β=1 lr=0.01", "annealed", 4)
    plain, annealed = settings(configs[2:]).values()
    assert plain == "β=1"
    assert says(annealed, "β=1", "annealed", 4)


def test_positives_that_are_the_methods_own_are_not_said() -> None:
    configs = [ImageConfig(method="ucl"), ImageConfig(method="scl")]
    assert list(labels(configs).values()) == ["ucl", "scl"]
    configs += [ImageConfig(method="hucl", positives="class"), ImageConfig(positives="view")]
    names = list(labels(configs).values())
    assert names[2:] == ["hucl β=1 positives=class", "hscl β=1 positives=view"]


def test_a_picture_says_what_it_is_of() -> None:
    runs = [
        made_runs.run(ImageConfig(), 0),
        made_runs.run(ImageConfig(), 1),
        made_runs.run(ImageConfig(method="ucl")),
    ]
    assert says(subject(runs[:2]), "digits", "2 views", "InfoNCE", "2 seeds")
    part = made_runs.run(ImageConfig(subset=4000))
    assert says(subject([part]), "digits", 4000, "images", "2 views", "1 seed")
    assert says(subject(runs), "digits", "2 views", "InfoNCE", 1, "2 seeds")
    assert not says(subject(runs[:2]), 1)


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


def test_what_has_no_diagnostics_is_left_out_where_others_have_them() -> None:
    configs = [GraphConfig(method="ucl", protocol="inductive"), GraphConfig(), GraphConfig(beta=2)]
    runs = [made_runs.run(config, epochs=(1,) * (k > 0)) for k, config in enumerate(configs)]
    assert select(runs, measured=True) == runs[1:]
    with pytest.raises(InputError, match=r"inductive, transductive.*--only protocol=inductive"):
        select(runs)
    assert select(runs[:1], measured=True) == runs[:1]


NO_RESULTS = ("{", "[]", '{"configs": 1}', '{"configs": [], "schema_version": 0}')


@pytest.mark.parametrize("content", NO_RESULTS)
def test_a_file_that_is_no_result_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "some.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"some\.json"):
        read([tmp_path / "some.json"])
