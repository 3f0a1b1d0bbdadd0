"""What a search may be asked for, and the messages for the rest."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from gcl_hard.commands.parser import public_command
from gcl_hard.commands.tune import parse_tune
from gcl_hard.errors import InputError
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.images.settings import ImageConfig
from gcl_hard.tuning.options import TuneOptions, check_unsearched
from gcl_hard.tuning.space import Base, Space
from tests.said import says

LR = "lr: {type: float, low: 0.0001, high: 0.1, log: true}"


def refusal(*arguments: str) -> str:
    with pytest.raises(InputError) as caught:
        parse_tune(arguments)
    return str(caught.value)


@pytest.fixture
def space_of(tmp_path: Path) -> Any:
    """Writes a search space and gives its path."""

    def write(*lines: str, grid: str = "") -> str:
        path = tmp_path / "space.yaml"
        path.write_text("space:\n" + "".join(f"  {line}\n" for line in lines) + grid, "utf-8")
        return str(path)

    return write


EPOCHS = "epochs: {type: int, low: 1, high: 50}"


class Mine(nn.Module):
    """An encoder of one's own, as far as options are concerned."""

    def __init__(self, n_features: int) -> None:
        super().__init__()


# Defaults


def test_no_arguments_search_beta_and_lr_of_hscl() -> None:
    options = parse_tune([])
    assert options.base.config == GraphConfig(method="hscl", protocol="inductive")
    assert [d.name for d in options.search_space.dimensions] == ["beta", "lr"]
    assert (options.space, options.trials, options.seed) == ("beta", 64, 0)
    assert (options.sampler, options.pruner) == ("tpe", "none")
    assert (options.inner_folds, options.outer_folds, options.jobs) == (1, 1, 1)
    assert (options.ensemble_size, options.threads, options.storage, options.report) == (None,) * 4
    assert (options.output, options.device, options.report_only) == (Path("results"), "auto", False)


def test_graphs_are_searched_inductively_unless_the_paper_is_asked_for() -> None:
    assert parse_tune(["--dataset=PTC"]).base.config.protocol == "inductive"
    assert parse_tune(["--protocol=paper"]).base.config.protocol == "transductive"
    images = parse_tune(["--dataset=digits"])
    assert images.base.config == ImageConfig(method="hscl", dataset="digits")


@pytest.mark.parametrize("name", ["a/b: c?%20", "a\\b", "../a", "a:b", "a@b", "<a>", "a\0b", "a\n"])
def test_a_study_name_that_would_be_the_file_of_another_is_refused(name: str) -> None:
    message = refusal(f"--study-name={name}")
    assert says(message, "study_name", repr(name), "file")


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["--method=hscl-tau", "--trials=3"], ["--dataset=digits", "--ensemble-size=2"],
        ["--space=full", "--lr=0.02", "--report=page.md", "--pruner=median"],
    ],
)  # fmt: skip
def test_a_printed_config_means_the_same_search(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        parse_tune([*arguments, "--print-config"])
    assert left.value.code == 0
    path = tmp_path / "printed.yaml"
    path.write_text(capsys.readouterr().out, encoding="utf-8")
    again, options = parse_tune(["--config", str(path)]), parse_tune(arguments)
    assert again.base.config == options.base.config
    assert replace(again, base=options.base) == options


@pytest.mark.parametrize(
    ("pruner", "folds", "steps"),
    [("none", 1, "none"), ("none", 5, "none"), ("median", 1, "epochs"),
     ("hyperband", 1, "epochs"), ("wilcoxon", 5, "folds")],
)  # fmt: skip
def test_a_pruner_decides_what_a_step_is(pruner: str, folds: int, steps: str) -> None:
    assert parse_tune([f"--pruner={pruner}", f"--inner-folds={folds}"]).inner.steps == steps


# Trials at once


@pytest.mark.parametrize(
    ("arguments", "on_cpu", "on_cuda"),
    [
        ([], 8, 16),  # 64 trials: the sampler learns 8 times on a CPU, 4 times on a GPU
        (["--trials=512"], 16, 128),  # as many as train side by side on a CPU
        (["--trials=4000"], 16, 256),  # … and on a GPU
        (["--jobs=2"], 8, 16),
        (["--trials=3"], 1, 1),
        (["--ensemble-size=5"], 5, 5),
        (["--ensemble-size=5", "--dataset=digits"], 5, 5),
        (["--dataset=digits"], 1, 1),  # images train one by one
        (["--contrast=two-view"], 8, 16),
        (["--objective=infonce"], 1, 1),
    ],
)
def test_how_many_are_asked_for_at_once(arguments: list[str], on_cpu: int, on_cuda: int) -> None:
    options = parse_tune(arguments)
    assert (options.ensemble_on("cpu"), options.ensemble_on("cuda")) == (on_cpu, on_cuda)


def test_encoders_of_one_s_own_are_asked_for_one_by_one() -> None:
    base = Base(GraphConfig, {"method": "hscl", "protocol": "inductive"})
    lr = {"lr": {"type": "float", "low": 0.001, "high": 0.1}}
    space = Space.of(lr).fitted(base)
    assert TuneOptions(replace(base, make=Mine), space).ensemble_on("cpu") == 1
    assert TuneOptions(replace(base, make=Mine), space, ensemble_size=5).ensemble_on("cpu") == 5
    assert TuneOptions(base, space).ensemble_on("cpu") == 8


# Numbers and words


@pytest.mark.parametrize(
    "flag", ["--trials", "--jobs", "--inner-folds", "--outer-folds", "--threads"]
)
@pytest.mark.parametrize("value", [0, -3])
def test_nothing_is_done_zero_times(flag: str, value: int) -> None:
    assert says(refusal(f"{flag}={value}"), flag[2:], 1, value)


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_seeds_are_those_of_numpy(seed: int) -> None:
    assert says(refusal(f"--seed={seed}"), "seed", 0, seed)
    assert parse_tune([f"--seed={2**32 - 1}"]).seed == 2**32 - 1


# What does not go together


def test_median_and_hyperband_look_at_epochs_of_one_hold_out() -> None:
    for pruner in ("median", "hyperband"):
        message = refusal(f"--pruner={pruner}", "--inner-folds=3")
        assert says(message, pruner, "epochs", "--inner-folds 1", "--pruner wilcoxon")


@pytest.mark.parametrize("folds", [1, 2, 4, 6])
def test_wilcoxon_wants_five_folds(folds: int) -> None:
    message = refusal("--pruner=wilcoxon", f"--inner-folds={folds}")
    assert says(message, "wilcoxon", "--inner-folds 5", folds)


def test_trials_of_other_lengths_are_not_compared_epoch_by_epoch(space_of: Any) -> None:
    space = f"--space={space_of(EPOCHS, LR)}"
    for pruner in ("median", "hyperband"):
        message = refusal(space, f"--pruner={pruner}")
        assert says(message, pruner, "epochs", "searched", "--pruner", "wilcoxon")
    for allowed in (["--pruner=none"], ["--pruner=wilcoxon", "--inner-folds=5"]):
        assert parse_tune([space, *allowed]).pruner in ("none", "wilcoxon")


def test_cmaes_searches_numbers_only(space_of: Any) -> None:
    message = refusal("--sampler=cmaes", "--space=full")
    assert says(message, "cmaes", "lr_schedule, weight_decay, dim, readout", "--sampler tpe")
    assert parse_tune(["--sampler=cmaes", f"--space={space_of(EPOCHS, LR)}"]).sampler == "cmaes"


def test_images_have_one_outer_part() -> None:
    message = refusal("--dataset=digits", "--outer-folds=3")
    assert says(message, "images", "official", "--outer-folds")
    assert parse_tune(["--dataset=digits", "--inner-folds=3"]).inner_folds == 3


@pytest.mark.parametrize("folds", ["--outer-folds=3", "--inner-folds=3"])
def test_the_paper_has_no_folds_to_search_in(folds: str) -> None:
    message = refusal("--protocol=paper", folds)
    assert says(message, "transductive", "test", "folds", "--protocol inductive")


# From Python, where no parser has looked


def options(**stated: Any) -> TuneOptions:
    base = Base(GraphConfig, {"method": "hscl", "protocol": "inductive"})
    lr = {"lr": {"type": "float", "low": 0.001, "high": 0.1}}
    return TuneOptions(base, Space.of(lr).fitted(base), **stated)


@pytest.mark.parametrize(
    "name", ["trials", "inner_folds", "outer_folds", "jobs", "threads", "ensemble_size", "seed"]
)
@pytest.mark.parametrize("value", [2.0, True, "3", float("nan")])
def test_numbers_are_whole(name: str, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        options(**{name: value})
    assert says(str(caught.value), name.replace("_", "-"), "whole", repr(value))


# The command as pages show it


@pytest.mark.parametrize("form", ["--storage={}", "--storage {}"])
@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("postgresql://me:secret@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("postgresql+psycopg://me:secret@host/db", "postgresql+psycopg://me:***@host/db"),
        ("mysql://:secret@host/db", "mysql://:***@host/db"),
        ("postgresql://me:sec:ret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me@host:5432/db", "postgresql://me@host:5432/db"),
        ("sqlite:////folder/a.db", "sqlite:////folder/a.db"),
    ],
)
def test_no_password_is_public_command(form: str, url: str, seen: str) -> None:
    arguments = ["--dataset=PTC", *form.format(url).split()]
    command = shlex.split(public_command(arguments, "gcl_hard.tune"))
    assert command == [
        "python", "-m", "gcl_hard.tune", "--dataset=PTC", *form.format(seen).split(),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "url", ["postgresql://me:not/secret@host/db", "postgresql://me@host/db?password=secret"]
)
def test_no_password_of_another_form_is_public_command(url: str) -> None:
    assert "secret" not in public_command([f"--storage={url}"], "gcl_hard.tune")


# What is given, and searched too


def test_what_is_searched_is_not_given_too(space_of: Any) -> None:
    space = f"--space={space_of(LR, 'weight_decay: {type: float, low: 0, high: 0.1}')}"
    assert says(refusal(space, "--lr=0.02"), "lr", "searched", "given")
    assert says(refusal(space, "--weight-decay=0.01"), "weight-decay", "searched", "given")
    assert parse_tune([space, "--epochs=3"]).base.config.epochs == 3


def test_a_grid_tries_what_is_given() -> None:
    options = parse_tune(["--space=beta", "--lr=0.02"])
    grid = options.search_space.grid_of(options.base)
    assert grid == [{"beta": beta, "lr": 0.02} for beta in (1, 2, 10)]


def test_what_a_grid_names_is_not_given_and_the_rest_is_tried(space_of: Any) -> None:
    beta = "beta: {type: float, low: 0.1, high: 20}"
    space = f"--space={space_of(LR, beta, grid='grid: {beta: [1, 4]}')}"
    assert says(refusal(space, "--beta=2"), "beta", "searched", "given")
    options = parse_tune([space, "--lr=0.02"])
    assert options.search_space.grid_of(options.base) == [{"lr": 0.02, "beta": b} for b in (1, 4)]


def test_a_given_value_outside_the_space_is_refused() -> None:
    message = refusal("--space=beta", "--lr=0.5")
    assert says(message, "lr 0.5", "command", 0.0001, 0.1)


def test_all_that_is_searched_or_of_the_cell_may_be_given_as_nothing() -> None:
    """The API hands on what a command line would have left out."""
    base = Base(GraphConfig, {"method": "hscl"})
    space = Space.of({"lr": {"type": "float", "low": 0.001, "high": 0.1}}).fitted(base)
    check_unsearched({"lr": None, "epochs": 3}, space, base)
    with pytest.raises(InputError, match=r"\blr\b.*\bsearched\b.*\bgiven\b"):
        check_unsearched({"lr": 0.01}, space, base)
