"""The command line of bench and its YAML: what is understood, and what is said about the rest."""

from __future__ import annotations

import importlib
import re
import warnings
from dataclasses import fields
from importlib import metadata
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from packaging.version import Version
from PIL import Image

from gcl_hard.__main__ import main as any_command
from gcl_hard.bench import main
from gcl_hard.commands.bench import parse_bench
from gcl_hard.commands.datasets import domain_of
from gcl_hard.commands.parser import public_command
from gcl_hard.commands.pretrain import parse_pretrain
from gcl_hard.commands.running import run_command
from gcl_hard.commands.tune import parse_tune
from gcl_hard.core.setting import declared
from gcl_hard.errors import GclHardError, InputError
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.experiment import RunOptions
from gcl_hard.experiments.settings import OwnTraining, flag, known
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.images.settings import ImageConfig
from gcl_hard.losses.methods import SETTINGS
from tests.said import says

ROOT = Path(__file__).parents[1]
NOT_SETTINGS = "--help", "--version", "--config", "--print-config", "--domain"


def only_config(*arguments: str) -> Any:
    (config,) = parse_bench(arguments).configs
    return config


def refusal(*arguments: str) -> str:
    with pytest.raises(InputError) as caught:
        parse_bench(arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_no_arguments_mean_the_default_configuration_with_five_seeds() -> None:
    options = parse_bench([])
    assert options.configs == (GraphConfig(),)
    assert options.seeds == (0, 1, 2, 3, 4)
    assert (options.device, options.output) == ("auto", Path("results"))
    assert (options.data_dir, options.json, options.threads) == (None, None, None)
    assert (options.jobs, options.scheduler, options.table) == (1, None, None)
    assert (options.report, options.select, options.compact) == (None, False, None)
    assert (options.quick, options.force, options.report_only) == (False, False, False)
    assert options.run == RunOptions()


def test_options_of_the_command_are_understood() -> None:
    options = parse_bench(
        ["--force", "--report-only", "--report=a/b.md", "--jobs=3", "--threads=6",
         "--scheduler=tcp://host:8786", "--compact=results", "--ensemble-size=4",
         "--diagnostics=2"]
    )  # fmt: skip
    assert (options.force, options.report_only, options.jobs, options.threads) == (True, True, 3, 6)
    assert (options.report, options.compact) == (Path("a/b.md"), Path("results"))
    assert options.scheduler == "tcp://host:8786"
    assert options.run == RunOptions(ensemble_size=4, diagnostics=2)
    assert parse_bench(["--ensemble-size=auto"]).run == RunOptions()
    images = parse_bench(
        ["--dataset=digits", "--save-encoder", "--loader-workers=2",
         "--monitor-every=5", "--checkpoint-minutes=0.5"]
    ).run  # fmt: skip
    assert images == RunOptions(
        save_encoder=True, loader_workers=2, monitor_every=5, checkpoint_minutes=0.5
    )


def test_a_quick_table_leaves_the_small_one_as_it_is() -> None:
    small = ["--table=1", "--small"]
    before = parse_bench(small)
    assert parse_bench([*small, "--quick"]) != before
    assert parse_bench(small) == before


def test_a_class_prior_is_of_the_methods_that_have_one() -> None:
    def priors(*arguments: str) -> set[tuple[str, str, float | None]]:
        options = parse_bench(["--method=ucl,HCL,bcl,scl,pixels", *arguments])
        return {(config.dataset, config.method, config.class_prior) for config in options.configs}

    assert priors("--dataset=CIFAR10", "--class-prior=0.3") == {
        ("CIFAR10", "hcl", 0.3), ("CIFAR10", "bcl", 0.3),
        *(("CIFAR10", method, None) for method in ("ucl", "scl", "pixels")),
    }  # fmt: skip
    of_table = priors("--table=1", "--small")
    for dataset, classes in (("CIFAR10", 10), ("CIFAR100", 100)):
        assert {(dataset, "hcl", 1 / classes), (dataset, "ucl", None)} <= of_table
    with pytest.raises(InputError, match=r"\b0\.3\b.*\bucl\b.*\bdcl\b.*\bhcl\b.*\bbcl\b"):
        parse_bench(["--dataset=CIFAR10", "--method=ucl", "--class-prior=0.3"])


# Help


def helped(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as left:
        main([*arguments] if "all" in arguments else [*arguments, "--help"])
    assert left.value.code == 0
    return capsys.readouterr().out


def flags_in(text: str) -> list[str]:
    return re.findall(r"^  (?:-\w(?: \w+)?, )?(--[\w-]+)", text, re.MULTILINE)


@pytest.mark.parametrize("domain", CONFIGS)
def test_help_is_that_of_a_domain_with_its_defaults_and_common_settings_first(
    domain: str, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = flags_in(text := helped(capsys, f"--domain={domain}", "--help", "all"))
    assert len(listed) == len(set(listed))
    settings = {
        name: {f"--{flag(setting)}" for setting in known(CONFIGS[name])} for name in CONFIGS
    }
    assert settings[domain] <= {*listed}
    assert not {*listed} & set().union(*settings.values()) - settings[domain] - {"--subset"}
    common = [f"--{flag(n)}" for n, f in known(CONFIGS[domain]).items() if f.setting.common]
    assert [name for name in listed if name not in NOT_SETTINGS][: len(common)] == common
    epochs = known(CONFIGS[domain])["epochs"].default
    rest = " ".join(text[text.index(" --epochs ") :].split())[:300]
    assert epochs is None or f"(default: {epochs}" in rest
    shown = flags_in(helped(capsys, f"--domain={domain}"))
    assert {"--dataset", "--method", "--seeds", "--select", "--output", "--device"} <= {*shown}
    assert {*common} <= {*shown} < {*listed}


def test_a_data_set_has_the_help_of_its_domain_and_it_is_short(
    capsys: pytest.CaptureFixture[str],
) -> None:
    of_graphs = flags_in(helped(capsys, "--help", "all"))
    assert of_graphs == flags_in(helped(capsys, "--dataset=PTC", "--help", "all"))
    assert len(helped(capsys).splitlines()) <= 80


# Lists


def test_lists_run_in_all_combinations_and_none_twice() -> None:
    configs = parse_bench(
        ["--dataset", "MUTAG,PTC", "--method", "hucl,hscl", "--protocol", "paper,inductive",
         "--beta", "1,2"]
    ).configs  # fmt: skip
    protocols = ("transductive", "inductive")
    expected = product(("MUTAG", "PTC"), ("hucl", "hscl"), protocols, (1.0, 2.0))
    assert [(c.dataset, c.method, c.protocol, c.beta) for c in configs] == list(expected)
    without_beta = parse_bench(["--method", "ucl,hscl", "--beta", "1,2,1"]).configs
    assert [(c.method, c.beta) for c in without_beta] == [("ucl", None), ("hscl", 1), ("hscl", 2)]
    both = parse_bench(["--protocol", "paper,transductive"]).configs
    assert both == (GraphConfig(),)
    rates = parse_bench(["--lr", "0.01,0.001", "--epochs", "10,20", "--method=ucl"]).configs
    assert {(c.lr, c.epochs) for c in rates} == {(0.01, 10), (0.01, 20), (0.001, 10), (0.001, 20)}
    thresholds = parse_bench(
        ["--method=hscl-tau", "--threshold-start=-0.5,-0.3", "--threshold-end=0,0.1"]
    ).configs
    assert len(thresholds) == 4


# Flags and files

GRAPH_SETTINGS: dict[str, Any] = {
    "dataset": "PTC", "method": "hcl", "protocol": "inductive", "beta": 3.0, "beta_changes": 2,
    "temperature": 0.2, "class_prior": 0.05, "objective": "infonce", "contrast": "two-view",
    "augmentations": ["drop-nodes", "random-walk"], "strength": 0.1, "detach_weights": True,
    "epochs": 9, "batch_size": 16, "lr": 0.5, "lr_schedule": "cosine", "weight_decay": 0.25,
    "layers": 2, "dim": 8, "readout": "mean", "features": "constant", "standardise": False,
    "folds": 4, "data_seed": 11, "jk": "last", "edge_labels": True, "virtual_node": True,
    "encodings": ["cycles", "degree"], "encoder": "gin", "probe": "svm", "kernel": "rbf+wl",
    "c_grid": [0.5, 2.0], "train_share": 0.5, "views": 3, "parts": 4,
}  # fmt: skip
IMAGE_SETTINGS: dict[str, Any] = {
    "dataset": "CIFAR10", "method": "hcl", "protocol": "split", "beta": 3.0, "beta_changes": 2,
    "temperature": 0.2, "class_prior": 0.05, "detach_weights": True, "epochs": 9,
    "batch_size": 16, "lr": 0.5, "lr_schedule": "cosine", "weight_decay": 0.25, "data_seed": 3,
    "positives": "class", "class_pairs": True, "balanced": True, "encoder": "resnet18", "width": 24,
    "stem": "imagenet", "size": 16, "pretrain_split": "train+unlabeled", "probe_split": "extra",
    "subset": 200, "crop": 0.2, "flip": 0.25, "jitter": 0.5, "grayscale": 0.1, "blur": 0.0,
    "noise": 0.1, "forward": "split", "precision": "bf16", "channels_last": False,
    "compile": True, "accumulate": 2, "negatives": "gathered", "probe": "adam",
    "classes": 5, "label_noise": 0.4, "views": 3, "parts": 4, "probe_lr": [0.1, 0.5],
    "momentum_encoder": 0.9, "queue": 64,
    "probe_weight_decay": 0.5, "probe_epochs": 7, "probe_batch_size": 64,
}  # fmt: skip
BOTH = pytest.mark.parametrize(
    ("kind", "settings"), [(GraphConfig, GRAPH_SETTINGS), (ImageConfig, IMAGE_SETTINGS)]
)


def asked(kind: Any, settings: dict[str, Any]) -> Any:
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()})


def as_flags(settings: dict[str, Any]) -> list[str]:
    spelt = {
        k: ",".join(map(str, v)) if isinstance(v, list) else str(v) for k, v in settings.items()
    }
    return [f"--{name.replace('_', '-')}={value}" for name, value in spelt.items()]


@BOTH
def test_every_setting_can_be_a_flag_and_a_file_says_the_same(
    kind: Any, settings: dict[str, Any], tmp_path: Path
) -> None:
    unused = {"threshold_start", "threshold_end", "hardness_scale", *SETTINGS, "without"}
    unused |= {*declared(OwnTraining), "shares"}
    # of other methods, of JSD, of supervised, and of another protocol
    assert set(settings) == {field.name for field in fields(kind)} - unused
    config = asked(kind, settings)
    by_flags = parse_bench([*as_flags(settings), "--seeds=3,4", f"--data-dir={tmp_path}"])
    assert by_flags.configs == (config,)
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**settings, "seeds": [3, 4], "data_dir": str(tmp_path)}))
    assert parse_bench(["--config", str(path)]) == by_flags


def test_methods_beside_one_that_needs_views_have_views_too() -> None:
    def contrasts(*arguments: str) -> list[str | None]:
        return [config.contrast for config in parse_bench(arguments).configs]  # type: ignore[attr-defined]

    assert contrasts("--method=ucl,spacl") == ["two-view"] * 2
    assert contrasts("--method=ucl,ring") == ["local-global"] * 2
    assert contrasts("--method=spacl", "--without=none,anchor,filter+anchor") == ["two-view"] * 3
    with pytest.raises(InputError, match=r"spacl\b.*\btwo-view\b"):
        contrasts("--method=spacl", "--contrast=local-global")


def test_flags_win_over_the_file_wherever_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("epochs: 5\nbeta: [1, 2]\nseeds: 3\nlr: 1\n")
    for arguments in (["--epochs", "7", "--config", str(path)], [f"--config={path}", "--epochs=7"]):
        options = parse_bench(arguments)
        assert [(c.epochs, c.beta, c.lr) for c in options.configs] == [(7, 1.0, 1.0), (7, 2.0, 1.0)]
        assert options.seeds == (0, 1, 2)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("epoch: 5\n", ["--epoch", "mine.yaml", "--epochs"]),
        ("epochs: many\n", ["epochs", "many"]),
        ("beta: .nan\n", ["beta", "finite", "nan"]),
        ("beta: []\n", ["beta", "value"]),
        ("seeds: [1, 1]\n", ["seeds", "[1, 1]"]),
        ("epochs: [5\n", ["mine.yaml", "line 1"]),
        ("just words\n", ["config", "just words"]),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_reason(
    text: str, facts: list[object], tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        parse_bench(["--config", str(path)])
    assert says(str(error.value), *facts)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as left:
        parse_bench([*arguments, "--print-config"])
    assert left.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        [*as_flags(GRAPH_SETTINGS), "--beta=1,2", "--method=hucl,hscl-tau", "--seeds=5,6",
         "--class-prior=null", "--json=a.json", "--threads=2"],
        [*as_flags(IMAGE_SETTINGS), "--report=a.md"],
        ["--table=2", "--quick", "--dataset=PTC"],
        ["--dataset=digits", "--loader-workers=1", "--checkpoint-minutes=0"],
        ["--diagnostics=3", "--ensemble-size=2", "--jobs=2", "--select=true"],
    ],
)  # fmt: skip
def test_a_printed_config_means_the_same_command(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "printed.yaml"
    path.write_text(printed(capsys, *arguments))
    assert parse_bench(["--config", str(path)]) == parse_bench(arguments)


# What a command is about


@pytest.mark.parametrize(
    ("arguments", "domain"),
    [
        ([], "graphs"),
        (["--dataset", "PTC"], "graphs"),
        (["--dataset", "cifar-10"], "images"),
        (["--dataset=digits,STL10"], "images"),
        (["--table=1", "--dataset=CIFAR10"], "images"),
        (["--table=1"], "images"),
        (["--table=2"], "graphs"),
        (["--dataset=MUTAG", "--dataset=digits"], "images"),
        (["--dataset=NCI1,Mutagenicity,Cuneiform,Fingerprint"], "graphs"),
    ],
)
def test_data_sets_and_tables_say_what_a_command_is_about(
    arguments: list[str], domain: str
) -> None:
    assert {type(config) for config in parse_bench(arguments).configs} == {CONFIGS[domain]}


def test_a_misspelt_image_set_is_about_images_and_a_file_of_ones_own_too(tmp_path: Path) -> None:
    assert domain_of({"dataset": ("CIFR10",)}) == "images"
    assert domain_of({"dataset": ("mine",), "data_dir": tmp_path}) == "graphs"
    (tmp_path / "mine.npz").touch()
    assert domain_of({"dataset": ("mine",), "data_dir": tmp_path}) == "images"


def test_a_file_of_nodes_is_about_nodes_by_its_name_or_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = {"node_features": np.eye(3), "node_labels": [0, 1, 1], "edges": [[0, 1]]}
    np.savez(tmp_path / "mine.npz", **arrays)
    named = only_config("--dataset=mine", f"--data-dir={tmp_path}")
    assert (type(named), named.dataset) == (CONFIGS["nodes"], "mine")
    monkeypatch.chdir(tmp_path)
    for dataset in ("mine.npz", "./mine.npz", str(tmp_path / "mine.npz")):
        assert only_config(f"--dataset={dataset}") == named
        assert only_config(f"--dataset={dataset}", "--domain=nodes") == named
    (tmp_path / "mine.npz").rename(tmp_path / "cora.npz")
    with pytest.warns(UserWarning, match="cora.npz"):
        only_config("--dataset=Cora")
    monkeypatch.setenv("GCL_HARD_DATA", str(tmp_path))
    assert only_config("--dataset=Cora").dataset == "Cora"


def test_a_name_that_two_domains_have_needs_the_domain(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", node_features=np.eye(3), node_labels=[0, 1, 1], edges=[[0, 1]])
    for part in ("train", "valid", "test"):
        (tmp_path / "mine").mkdir(exist_ok=True)
        (tmp_path / "mine" / f"{part}.txt").touch()
    arguments = ["--dataset=mine", f"--data-dir={tmp_path}", "--method=ucl"]
    with pytest.raises(InputError) as caught:
        parse_bench(arguments)
    assert says(str(caught.value), "mine", "--domain nodes", "--domain links")
    for domain in ("nodes", "links"):
        assert type(only_config(*arguments, f"--domain={domain}")) is CONFIGS[domain]


def test_an_archive_of_facts_is_a_set_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "mine.tar.gz").touch()
    config = only_config(f"--dataset={tmp_path}/mine.tar.gz", "--method=ucl")
    assert (config.domain, config.dataset) == ("links", "mine")


def images_at(folder: Path) -> None:
    for part in ("train/cat", "train/dog", "test/cat", "test/dog"):
        (folder / part).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(folder / part / "0.png")


@pytest.mark.parametrize(
    ("name", "present"),
    [("Digits", "Digits"), ("DIGITS", "digits.npz"), ("CIFAR10", "cifar-10"), ("MUTAG", "MUTAG")],
)
def test_what_a_known_set_hides_in_the_working_folder_is_named(
    name: str, present: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if present.endswith(".npz"):
        (tmp_path / present).touch()
    else:
        images_at(tmp_path / present)
    with pytest.warns(UserWarning, match=present) as caught:
        config = only_config(f"--dataset={name}")
    assert (config.dataset == "MUTAG") == (type(config) is GraphConfig)
    (warning,) = caught
    assert says(str(warning.message), f"'{name}'", str(tmp_path / present), "name")


def test_a_set_of_the_data_folder_hides_none_that_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits.npz").touch()
    monkeypatch.setenv("GCL_HARD_DATA", str(tmp_path))
    assert only_config("--dataset=digits").dataset == "digits"
    assert only_config("--dataset=digits", f"--data-dir={tmp_path}").dataset == "digits"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "Mine.npz").touch()
    (tmp_path / "Mine.npz").touch()
    monkeypatch.setenv("GCL_HARD_DATA", str(tmp_path / "data"))
    with pytest.warns(UserWarning, match=str(tmp_path / "Mine.npz")):
        assert only_config("--dataset=Mine").dataset == "Mine"


def test_a_config_file_says_it_too_and_flags_win(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("dataset: [digits, CIFAR10]\n", encoding="utf-8")
    assert len(parse_bench(["--config", str(path)]).configs) == 2
    assert isinstance(only_config(f"--config={path}", "--dataset=MUTAG"), GraphConfig)
    path.write_text("table: '1'\nquick: true\n", encoding="utf-8")
    assert isinstance(parse_bench([f"--config={path}"]).configs[0], ImageConfig)


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["--dataset=digits,MUTAG"], ["images", "digits", "graphs", "MUTAG"]),
        (["--table=1", "--dataset=MUTAG"], ["--table 1", "images", "MUTAG", "graphs"]),
        (["--dataset=digits", "--layers=3"], ["--layers", "graphs", "images"]),
        (["--dataset=digits", "--ensemble-size=3"], ["--ensemble-size", "graphs", "images"]),
        (["--dataset=digits", "--encodr=resnet18"], ["--encodr", "--encoder"]),
        (["--encoder=resnet18"], ["'resnet18'", "molecule-gin"]),
    ],
)
def test_settings_of_the_other_domain_are_refused(
    arguments: list[str], facts: list[object]
) -> None:
    assert says(refusal(*arguments), *facts)


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["--epoch", "3"], ["--epoch", "--epochs"]),
        (["--data_dir", "x"], ["--data_dir", "--data-dir"]),
        (["MUTAG"], ["'MUTAG'", "flag", "commas"]),
        (["--epochs"], ["--epochs", "argument"]),
        (["--epochs", "1.5"], ["--epochs", "whole", 1.5]),
        (["--beta", "x"], ["--beta", "number", "x"]),
        (["--threads", "x"], ["--threads", "whole", "x"]),
        (["--beta", ","], ["--beta", "value"]),
        (["--standardise", "maybe"], ["--standardise", "true", "false", "maybe"]),
        (["--jobs", "0"], ["jobs", 1, 0]),
        (["--table", "3"], ["table", 1, 2, "'3'"]),
        (["--report", "page.pdf"], ["report", "NAME.md", "NAME.html", "page.pdf"]),
        (["--method", "ucl,majorty"], ["method", "'majorty'", "majority", "majority"]),
        (["--beta", "1,inf"], ["beta", "finite", "inf"]),
        (["--beta", "-0.5"], ["beta", 0, -0.5]),
        (["--hardness-scale=z-score"], ["hardness-scale", "'z-score'"]),
        (["--ensemble-size", "0"], ["ensemble-size", 1, 0]),
        (["--dataset=digits", "--loader-workers=-1"], ["loader-workers", 0, -1]),
        (["--dataset=digits", "--monitor-every=-1"], ["monitor-every", 0, -1]),
        (["--checkpoint-minutes=-1"], ["checkpoint-minutes", 0, -1.0]),
        (["--diagnostics=-1"], ["diagnostics", 0, -1]),
        (["--seeds=0"], ["--seeds", 1, 0, 0]),
    ],
)
def test_a_mistake_is_named_with_what_would_be_right(
    arguments: list[str], facts: list[object]
) -> None:
    assert says(refusal(*arguments), *facts)


# Around a command


@pytest.mark.parametrize(
    ("raised", "status", "shown"),
    [
        (GclHardError("so and so"), 2, "error: so and so\n"),
        (InputError("so and so"), 2, "error: so and so\n"),
        (FileNotFoundError(2, "None there", "a.txt"), 2, "error: [Errno 2] None there: 'a.txt'\n"),
        (KeyboardInterrupt(), 130, "\nstopped here\n"),
    ],
)
def test_what_a_command_raises_becomes_a_message_and_a_status(
    raised: BaseException, status: int, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> int:
        raise raised

    assert run_command(command, stopped=lambda: "stopped here") == status
    assert capsys.readouterr().err == shown
    assert run_command(lambda: 7, stopped=lambda: "") == 7


def test_a_fault_of_ours_is_one_line_and_a_file_with_the_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def command() -> int:
        raise ZeroDivisionError("so and so\nand more")

    assert run_command(command, stopped=lambda: "") == 1
    line, end = capsys.readouterr().err.split("\n")
    assert (end, says(line, "error", "ZeroDivisionError", "so and so")) == ("", True)
    trace = Path(line.split()[-1].rstrip(")"))
    assert "Traceback" in trace.read_text("utf-8")
    trace.unlink()


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--seeds", "3", "--beta=1,2"], "--seeds 3 --beta=1,2"),
        (["--data-dir=/home/me", "--lr", "1"], "--data-dir DIR --lr 1"),
        (["--json", "a.json", "--force", "--report-only", "--report=b.md"], "--report=b.md"),
        (["--scheduler=tcp://1.2.3.4:8786", "--jobs=2"], "--jobs=2"),
        (["--output", "my results"], "--output 'my results'"),
    ],
)
def test_a_shown_command_runs_on_any_machine(arguments: list[str], shown: str) -> None:
    assert public_command(arguments) == f"python -m gcl_hard.bench {shown}"


def test_a_config_that_is_not_utf_8_is_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "latin.yaml"
    file.write_bytes('method: "ü"'.encode("latin-1"))
    assert any_command(["bench", f"--config={file}"]) == 2
    err = capsys.readouterr().err
    assert str(file) in err
    assert "utf-8" in err


@pytest.mark.parametrize("name", ["bench", "tune", "figures"])
def test_one_command_has_the_others(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["--help"]):
        assert any_command(arguments) == 0
        assert f"gcl-hard {name}" in capsys.readouterr().out
    assert any_command([name, "--nonsense=1"]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert any_command([name[:-1]]) == 2
    assert says(capsys.readouterr().err, f"'{name[:-1]}'", name, name)


@pytest.mark.parametrize("name", ["bench", "tune", "figures", "pretrain"])
def test_every_command_prints_the_version(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        importlib.import_module(f"gcl_hard.{name}").main(["--version"])
    assert capsys.readouterr().out.split() == ["gcl-hard", metadata.version("gcl-hard")]


def test_the_version_is_that_of_the_installed_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert any_command(["--version"]) == 0
    assert capsys.readouterr().out.split() == ["gcl-hard", metadata.version("gcl-hard")]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    releases = re.findall(r"^## \[([\d.]+)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert citation["version"] == releases[0]
    here = Version(metadata.version("gcl-hard"))
    assert here == Version(releases[0]) or (here.is_devrelease and here > Version(releases[0]))
    (script,) = metadata.entry_points(name="gcl-hard", group="console_scripts")
    assert script.load() is any_command


@pytest.mark.parametrize(
    ("arguments", "flags"),
    [
        (["--method=ucl", "--beta=3"], {"--beta"}),
        (
            ["--method=ucl,majority", "--beta=3", "--threshold-start=0"],
            {"--beta", "--threshold-start"},
        ),
        (["--method=ucl,hucl", "--beta=3"], set()),
        (["--method=ucl", "--protocol=inductive", "--patience=3"], {"--patience"}),
        (["--method=hscl", "--seeds=1", "--lr=0.1"], set()),
        (["--method=majority", "--epochs=1"], set()),
        (["--method=supervised", "--beta=2"], {"--beta"}),
        (["--dataset=digits", "--method=ucl", "--label-noise=0,0.1"], {"--label-noise"}),
        (["--method=hscl", "--temperature=0.5", "--contrast=two-view"], set()),
        (["--config={folder}/a.yaml", "--method=ucl"], set()),
    ],
)
def test_what_no_run_reads_is_named(arguments: list[str], flags: set[str], tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("method: [hucl]\nbeta: [1, 2]\n")
    filled = [argument.format(folder=tmp_path) for argument in arguments]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parse_bench(filled)
    named = {word for warning in caught for word in re.findall(r"--[\w-]+", str(warning.message))}
    assert named == flags


def test_what_a_search_and_a_training_do_not_read_is_named() -> None:
    with pytest.warns(UserWarning, match=r"--beta\b"):
        parse_tune(["--dataset=MUTAG", "--method=ucl", "--beta=3"])
    with pytest.warns(UserWarning, match=r"--beta\b"):
        parse_pretrain(["--dataset=digits", "--method=ucl", "--beta=3"])
    with pytest.raises(InputError, match="patience"):
        parse_pretrain(["--dataset=digits", "--patience=3"])


def test_what_some_trials_read_is_not_named(tmp_path: Path) -> None:
    space = tmp_path / "space.yaml"
    space.write_text(
        "space:\n  method: {type: categorical, choices: [ucl, hscl-tau]}\n"
        "  lr: {type: float, low: 0.001, high: 0.1, log: true}\n"
    )
    command = ["--dataset=MUTAG", f"--space={space}"]
    parse_tune([*command, "--threshold-start=-0.3"])
    with pytest.warns(UserWarning, match=r"--beta\b"):
        parse_tune([*command, "--beta=2"])
