"""The command line and its YAML: what is understood, and what is said about the rest."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from gcl_hard.experiments.options import bench_parser, parse_bench

from gcl_hard.errors import InputError
from gcl_hard.experiments.config import FLOORS, GraphConfig

CONFIGS = Path(__file__).parents[2] / "configs" / "graphs"

FLAGS = [
    "--dataset", "--method", "--protocol", "--beta", "--threshold-start", "--threshold-end",
    "--temperature", "--class-prior", "--objective", "--contrast", "--epochs", "--batch-size",
    "--lr", "--layers", "--dim", "--seeds", "--device", "--data-dir", "--config", "--output",
    "--json", "--help",
]  # fmt: skip


def only_cell(*arguments: str) -> GraphConfig:
    (cell,) = parse_bench(arguments).cells
    return cell


def refusal(*arguments: str) -> str:
    with pytest.raises(InputError) as caught:
        parse_bench(arguments)
    return str(caught.value)


def test_no_arguments_mean_the_default_cell_with_five_seeds() -> None:
    options = parse_bench([])
    assert options.cells == (GraphConfig(),)
    assert tuple(options.seeds) == (0, 1, 2, 3, 4)
    assert (options.device, options.output) == ("auto", Path("results"))
    assert (options.data_dir, options.json, options.threads) == (None, None, None)


def test_every_promised_flag_is_there() -> None:
    known = {o for action in bench_parser()._actions for o in action.option_strings}
    assert set(FLAGS) <= known


# Lists


@pytest.mark.parametrize(
    ("written", "meant"),
    [("1", [1.0]), ("1,2,10", [1.0, 2.0, 10.0]), ("0.5, 1e1", [0.5, 10.0]), ("[1,2]", [1.0, 2.0])],
)
def test_beta_is_a_list(written: str, meant: list[float]) -> None:
    assert [cell.beta for cell in parse_bench(["--beta", written]).cells] == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [("3", (0, 1, 2)), ("0,1,2", (0, 1, 2)), ("7,", (7,)), ("4,2", (4, 2)), ("1", (0,))],
)
def test_seeds_are_a_count_or_a_list(written: str, meant: tuple[int, ...]) -> None:
    assert tuple(parse_bench(["--seeds", written]).seeds) == meant


@pytest.mark.parametrize("written", ["0", "-1", "1,1", "-1,2", "x", "2.5", ",", "1,x"])
def test_seeds_that_are_neither_are_refused(written: str) -> None:
    assert "--seeds" in refusal(f"--seeds={written}")


@pytest.mark.parametrize("written", ["4294967296,", "99999999999999999999,"])
def test_a_seed_too_large_for_the_folds_is_refused_at_once(written: str) -> None:
    assert "seed" in refusal("--seeds", written)


def test_lists_run_in_all_combinations_and_none_twice() -> None:
    cells = parse_bench(
        ["--dataset", "MUTAG,PTC", "--method", "hucl,hscl", "--protocol", "paper,inductive",
         "--beta", "1,2"]
    ).cells  # fmt: skip
    expected = product(("MUTAG", "PTC"), ("hucl", "hscl"), ("paper", "inductive"), (1.0, 2.0))
    assert [(c.dataset, c.method, c.protocol, c.beta) for c in cells] == list(expected)
    without_beta = parse_bench(["--method", "ucl,hscl", "--beta", "1,2,1"]).cells
    assert [(c.method, c.beta) for c in without_beta] == [("ucl", None), ("hscl", 1), ("hscl", 2)]


# Flags and files

SETTINGS: dict[str, Any] = {
    "dataset": "PTC", "method": "hcl", "protocol": "inductive", "beta": 3.0, "beta_changes": 2,
    "temperature": 0.2, "class_prior": 0.05, "objective": "infonce", "contrast": "two-view",
    "augmentations": ["drop-nodes", "random-walk"], "strength": 0.1, "detach_weights": True,
    "epochs": 9, "batch_size": 16, "lr": 0.5, "lr_schedule": "cosine", "weight_decay": 0.25,
    "layers": 2, "dim": 8, "readout": "mean", "features": "constant", "standardise": False,
    "folds": 4, "data_seed": 11, "jk": "last", "edge_labels": True, "virtual_node": True,
    "encodings": ["cycles", "degree"], "kernel": "rbf+wl", "c_grid": [0.5, 2.0],
    "train_share": 0.5,
}  # fmt: skip
ASKED = GraphConfig(**{k: tuple(v) if isinstance(v, list) else v for k, v in SETTINGS.items()})


def as_flags(settings: dict[str, Any]) -> list[str]:
    spelt = {
        k: ",".join(map(str, v)) if isinstance(v, list) else str(v) for k, v in settings.items()
    }
    return [f"--{name.replace('_', '-')}={value}" for name, value in spelt.items()]


def test_every_setting_can_be_a_flag() -> None:
    unused = {"threshold_start", "threshold_end"}  # of hscl-tau alone
    assert set(SETTINGS) == {field.name for field in fields(GraphConfig)} - unused
    assert only_cell(*as_flags(SETTINGS)) == ASKED
    flags = ["--method=hscl-tau", "--threshold-start=-0.3", "--threshold-end=0.1"]
    cell = only_cell(*flags)
    assert (cell.threshold_start, cell.threshold_end) == (-0.3, 0.1)


def test_a_file_says_the_same_as_flags(tmp_path: Path) -> None:
    path = tmp_path / "cell.yaml"
    path.write_text(yaml.safe_dump({**SETTINGS, "seeds": [3, 4], "data_dir": str(tmp_path)}))
    options = parse_bench(["--config", str(path)])
    assert options.cells == (ASKED,)
    assert (tuple(options.seeds), options.data_dir) == ((3, 4), tmp_path)


def test_flags_win_over_the_file_wherever_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "cell.yaml"
    path.write_text("epochs: 5\nbeta: [1, 2]\nseeds: 3\nlr: 1\n")
    for arguments in (["--epochs", "7", "--config", str(path)], [f"--config={path}", "--epochs=7"]):
        options = parse_bench(arguments)
        assert [(c.epochs, c.beta, c.lr) for c in options.cells] == [(7, 1.0, 1.0), (7, 2.0, 1.0)]
        assert tuple(options.seeds) == (0, 1, 2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("epoch: 5\n", "unknown key 'epoch' in the config file; did you mean epochs"),
        ("epochs: many\n", "--epochs.*many"),
        ("epochs: 0\n", "epochs must be at least 1, got 0"),
        ("beta: .nan\n", "beta must be a finite number, got nan"),
        ("beta: [1, -2]\n", "beta .*got -2"),
        ("seeds: [1, 1]\n", "--seeds"),
        ("seeds: true\n", "--seeds"),
        ("epochs: [5\n", "config|[Yy][Aa][Mm][Ll]"),
        ("just words\n", "config|just words"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_reason(
    text: str, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "cell.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=says):
        parse_bench(["--config", str(path)])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert "gone.yaml" in refusal("--config", str(tmp_path / "gone.yaml"))


@pytest.mark.parametrize("spelt", ["--print_config", "--print-config"])
def test_a_printed_config_means_the_same_command(
    spelt: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*as_flags(SETTINGS), "--beta=1,2", "--method=hucl,hscl-tau", "--seeds=5,6",
                 "--class-prior=null", "--json=a.json", "--threads=2"]  # fmt: skip
    with pytest.raises(SystemExit) as left:
        parse_bench([*arguments, spelt])
    assert left.value.code == 0
    path = tmp_path / "printed.yaml"
    path.write_text(capsys.readouterr().out)
    assert parse_bench(["--config", str(path)]) == parse_bench(arguments)


def test_every_config_states_every_setting_and_can_be_run() -> None:
    paths = sorted(path for path in CONFIGS.rglob("*.yaml") if path.parent.name != "best")
    assert paths, f"no config in {CONFIGS}"
    for path in paths:
        stated = set(yaml.safe_load(path.read_text(encoding="utf-8")))
        missing = {field.name for field in fields(GraphConfig)} - stated
        assert not missing, f"{path.name} does not state {sorted(missing)}"
        assert parse_bench(["--config", str(path)]).cells


def test_recipes_are_configs_too() -> None:
    paths = sorted((CONFIGS / "best").glob("*.yaml"))
    assert paths, f"no recipe in {CONFIGS / 'best'}"
    for path in paths:
        (cell,) = parse_bench(["--config", str(path)]).cells
        for name, value in yaml.safe_load(path.read_text(encoding="utf-8")).items():
            assert getattr(cell, name) == (tuple(value) if isinstance(value, list) else value), name


# Tables


def test_a_table_stands_for_sets_methods_floors_protocols_and_betas() -> None:
    options = parse_bench(["--table", "2"])
    trained = [c for c in options.cells if not c.is_baseline]
    sets = ("MUTAG", "ENZYMES", "PTC_MR", "IMDB-BINARY", "IMDB-MULTI")
    assert {c.dataset for c in options.cells} == set(sets)
    assert len(trained) == 5 * 2 * (1 + 3 + 1 + 3)  # sets × protocols × (ucl, hucl, scl, hscl)
    assert len(options.cells) - len(trained) == 5 * len(FLOORS)
    assert {c.beta for c in trained if c.method == "hscl"} == {1.0, 2.0, 10.0}
    assert {c.epochs for c in options.cells} == {200}
    assert tuple(options.seeds) == (0, 1, 2, 3, 4)
    assert (options.table, options.select, options.jobs, options.quick) == ("2", True, None, False)


def test_what_is_given_wins_over_the_table(tmp_path: Path) -> None:
    path = tmp_path / "cell.yaml"
    path.write_text("seeds: 3\nbeta: [4]\n")
    arguments = ["--table=2", "--dataset=PTC", "--method=hscl,wl", "--protocol=inductive",
                 "--select=false", "--jobs=1", f"--config={path}"]  # fmt: skip
    options = parse_bench(arguments)
    assert [(c.dataset, c.method, c.beta) for c in options.cells] == [
        ("PTC", "hscl", 4.0), ("PTC", "wl", None),
    ]  # fmt: skip
    assert (tuple(options.seeds), options.select, options.jobs) == ((0, 1, 2), False, 1)


def test_quick_is_few_seeds_and_epochs_of_other_cells() -> None:
    whole, quick = parse_bench(["--table=2"]), parse_bench(["--table=2", "--quick"])
    assert quick.quick
    assert len(quick.seeds) == 2
    assert max(c.epochs for c in quick.cells if c.encoders) <= 5
    shared = set(whole.cells) & set(quick.cells)
    assert {c.method for c in shared} == set(FLOORS) - {"supervised"}  # they train nothing
    assert parse_bench(["--quick", "--epochs=7"]).cells[0].epochs == 7


def test_lr_and_epochs_are_lists_too() -> None:
    cells = parse_bench(["--lr", "0.01,0.001", "--epochs", "10,20", "--method=ucl"]).cells
    assert [(c.lr, c.epochs) for c in cells] == [(0.01, 10), (0.01, 20), (0.001, 10), (0.001, 20)]


def test_a_command_does_one_thing_in_one_process_unless_asked() -> None:
    options = parse_bench([])
    assert (options.jobs, options.table, options.report, options.select) == (1, None, None, False)
    assert (options.quick, options.force, options.report_only) == (False, False, False)
    options = parse_bench(["--force", "--report-only", "--report=a/b.md", "--jobs=3"])
    assert (options.force, options.report_only, options.jobs) == (True, True, 3)
    assert options.report == Path("a/b.md")


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--epoch", "3"], "unknown flag --epoch; did you mean --epochs"),
        (["--bta=1"], "unknown flag --bta; did you mean --beta"),
        (["--data_dir", "x"], "unknown flag --data_dir; did you mean --data-dir"),
        (["--temp", "0.5"], "unknown flag --temp"),
        (["MUTAG"], "'MUTAG' belongs to no flag; several values are separated by commas"),
        (["--epochs"], "--epochs: expected one argument"),
        (["--epochs", "1.5"], "--epochs: .*1.5"),
        (["--beta", "x"], "--beta: .*x"),
        (["--beta", ","], "--beta: .*at least one"),
        (["--standardise", "maybe"], "--standardise: .*maybe"),
        (["--jobs", "0"], "jobs must be at least 1, got 0"),
        (["--table", "3"], "--table: expected 1, 2 or recipe, got 3"),
        (["--table", "two"], "--table: expected 1, 2 or recipe, got two"),
        (["--report", "page.html"], "NAME.md, got page.html"),
        (["--epochs", "10,x"], "--epochs: expected whole numbers, separated by commas, got 10,x"),
        (["--method", "ucl,majorty"], "unknown method 'majorty'; did you mean majority"),
        (["--threads", "0"], "threads must be at least 1, got 0"),
        (["--method", "ucl,hslc"], "unknown method 'hslc'; did you mean hscl"),
        (["--protocol", "induktive"], "unknown protocol 'induktive'; did you mean inductive"),
        (["--beta", "1,nan"], "beta must be a finite number, got nan"),
        (["--beta", "1,inf"], "beta must be a finite number, got inf"),
        (["--beta", "-0.5"], "beta must be .*got -0.5"),
    ],
)
def test_a_mistake_is_named_with_what_would_be_right(arguments: list[str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse_bench(arguments)


@pytest.mark.parametrize(
    ("flag", "value"),
    [("--lr", "nan"), ("--temperature", "nan"), ("--class-prior", "inf"),
     ("--threshold-end", "nan"), ("--objective", "jds"), ("--contrast", "two-vew"),
     ("--readout", "max"), ("--lr-schedule", "cosin")],
)  # fmt: skip
def test_a_refused_value_is_named_without_the_parsers_jargon(flag: str, value: str) -> None:
    message = refusal(flag, value)
    assert flag.removeprefix("--") in message
    assert value in message
    for jargon in ("Union", "subtypes", "typing.", "NoneType", "Expected a float. Got value: nan"):
        assert jargon not in message


def test_options_are_equal_when_asked_equally() -> None:
    one = parse_bench(["--seeds", "2", "--beta", "1,2"])
    other = parse_bench(["--beta=1.0,2.0", "--seeds=0,1"])
    assert one == other
    assert one != replace(other, device="cpu")
