"""The command itself: exit statuses, messages, and what is left on disk."""

from __future__ import annotations

import json
import re
import signal
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from gcl_hard import bench
from gcl_hard.experiments import runner
from gcl_hard.graphs import PACKAGED, protocols, tudataset
from gcl_hard.graphs.experiment import GraphExperiment
from gcl_hard.losses.methods import METHODS
from tests.experiments import engine_tasks as tasks
from tests.said import says

TINY = ["--epochs=1", "--layers=1", "--dim=4", "--folds=2", "--device=cpu", "--threads=1",
        "--seeds=1"]  # fmt: skip
EMBEDDED = PACKAGED / "MUTAG.zip"


class Command:
    """``python -m gcl_hard.bench`` in this process, with tiny settings and a folder of its own."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.output = folder / "results"
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *arguments: str, usual: list[str] = TINY) -> int:
        """Run it as another process would; what it printed is in ``out`` and ``err``."""
        runner._DATA.clear()
        status = bench.main([*usual, f"--output={self.output}", *arguments])
        self.out, self.err = self._capsys.readouterr()
        return status

    def files(self) -> list[Path]:
        """Whatever lies in the output folder."""
        return [path for path in self.output.rglob("*") if path.is_file()]

    def result(self, pattern: str = "MUTAG*_??????.json") -> dict[str, Any]:
        """The one result file of a command."""
        (path,) = self.output.glob(pattern)
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return content

    def refuses(self, *arguments: str) -> str:
        """The message, once status, form and the absence of files are checked."""
        assert self(*arguments) == 2
        assert self.err.startswith("error: ")
        assert "Traceback" not in self.out + self.err
        assert self.files() == []
        return self.err


@pytest.fixture
def command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    """The command, offline: nothing from the machine's environment, no way to the real site."""
    monkeypatch.delenv("GCL_HARD_DATA", raising=False)
    monkeypatch.setenv("GCL_HARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(tudataset, "SITE", "http://127.0.0.1:9")
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)
    return Command(tmp_path, capsys)


# What works


def test_a_run_ends_with_a_table_and_a_result_file(command: Command) -> None:
    assert command("--seeds=2") == 0
    assert command.err == ""
    (path,) = command.output.glob("MUTAG_hscl_transductive_??????.json")
    assert command.out.rstrip().endswith(f"results: {path}")
    content = json.loads(path.read_text(encoding="utf-8"))
    (config,) = content["configs"]
    shown = f"{config['accuracy_mean']:.1f} ± {config['accuracy_std']:.1f}"
    (row,) = [line for line in command.out.splitlines() if line.split()[:2] == ["MUTAG", "hscl"]
              and "±" in line]  # fmt: skip
    assert shown in row
    assert "87.2" in row
    for seed, accuracy in zip(config["seeds"], config["accuracies"], strict=True):
        assert f"seed {seed}: {accuracy:.1f} %" in command.out


def test_a_table_is_printed_tested_and_written_with_its_files(command: Command) -> None:
    page = command.folder / "docs" / "results.md"
    arguments = ("--table=2", "--dataset=MUTAG", "--method=ucl,hscl,majority", "--beta=1,10",
                 "--seeds=2", "--jobs=1", "--quick", f"--report={page}")  # fmt: skip
    assert command(*arguments) == 0
    for part in ("smoke", "hscl", "majority"):
        assert says(command.out, part), part
    names = sorted(path.name for path in page.parent.iterdir())
    assert {"results.md", "results.csv", "results.tex"} < set(names)
    text = page.read_text(encoding="utf-8")
    for name in names:
        assert not name.endswith(".png") or f"({name})" in text, name
    before = {path.name: path.read_bytes() for path in page.parent.iterdir()}
    assert command(*arguments) == 0  # nothing is run
    assert {path.name: path.read_bytes() for path in page.parent.iterdir()} == before


def test_a_report_alone_says_that_nothing_is_there(command: Command) -> None:
    assert command("--report-only") == 0
    assert says(command.out, 0, 1, "runs", "finished")
    assert command.files() == []


@pytest.mark.parametrize("contrast", ["local-global", "two-view"])
def test_every_method_runs(contrast: str, command: Command) -> None:
    defined = [m for m, row in METHODS.items() if contrast == "two-view" or not row.infonce_only]
    assert command(f"--method={','.join(defined)}", f"--contrast={contrast}") == 0
    configs = command.result()["configs"]
    assert [config["method"] for config in configs] == defined


def test_both_protocols_stand_in_rows_of_their_own(command: Command) -> None:
    assert command("--protocol=transductive,inductive", "--method=ucl") == 0
    (path,) = command.output.glob("*transductive+inductive_??????.json")
    configs = json.loads(path.read_text(encoding="utf-8"))["configs"]
    assert [(c["protocol"], c["paper_accuracy"]) for c in configs] == [
        ("transductive", 86.8), ("inductive", None)]  # fmt: skip
    encoders = {
        stored["config"]["protocol"]: len(stored["final_losses"])
        for stored in (json.loads(path.read_text()) for path in command.output.glob("*_seed0.json"))
    }
    assert encoders == {"transductive": 1, "inductive": 2}


def test_help_and_a_printed_config_end_with_status_0(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    for flag, part in (("--help", "--device"), ("--print-config", "data_seed: 0")):
        with pytest.raises(SystemExit) as left:
            command(flag)
        assert left.value.code == 0
        assert part in capsys.readouterr().out


# Bad arguments


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["--dataset=MUTGA"], ["'MUTGA'", "MUTAG", "MUTAG", "MUTAG", "offline"]),
        (
            ["--dataset=ENZYMES"],
            ["'ENZYMES'", "ENZYMES.zip", "--data-dir"],
        ),
        (["--dataset=../MUTAG"], ["dataset", "'../MUTAG'"]),
        (["--tau=0.1"], ["--tau", "--temperature"]),
        (["--device=gpu"], ["device", "auto", "cpu", "cuda", "cuda:N", "'gpu'"]),
        (["--data-dir=/no/such/folder"], ["'/no/such/folder'", "NAME.zip"]),
        (["--features=attributes"], ["'attributes'", "labels"]),
        (["--folds=64"], ["class 0", 63, 64]),
    ],
)
def test_bad_input_is_one_message_and_status_2(
    arguments: list[str], facts: list[object], command: Command
) -> None:
    assert says(command.refuses(*arguments), *facts)


# Bad data


def write_set(folder: Path, name: str, labels: list[str], **changed: str) -> None:
    """A zip of triangles with a tail, one per label, as TUDataset has them."""
    edges = [(4 * g + i, 4 * g + j) for g in range(len(labels))
             for a, b in ((1, 2), (2, 3), (1, 3), (3, 4)) for i, j in ((a, b), (b, a))]  # fmt: skip
    texts = {
        "A": "".join(f"{i}, {j}\n" for i, j in edges),
        "graph_indicator": "".join(f"{g + 1}\n" * 4 for g in range(len(labels))),
        "graph_labels": "".join(f"{label}\n" for label in labels),
        **changed,
    }
    with zipfile.ZipFile(folder / f"{name}.zip", "w") as archive:
        for key, text in texts.items():
            archive.writestr(f"{name}/{name}_{key}.txt", text)


@pytest.mark.filterwarnings("ignore:the loss of every batch")  # all graphs are alike
def test_another_set_of_the_same_name_never_meets_the_old_numbers(command: Command) -> None:
    for folder, size in (("one", 12), ("two", 15)):
        (command.folder / folder).mkdir()
        write_set(command.folder / folder, "TOY", ["0", "1"] * size)
        arguments = ["--dataset=TOY", f"--data-dir={command.folder / folder}"]
        assert command(*arguments, f"--json={command.folder / 'toy.json'}") == 0
        content = json.loads((command.folder / "toy.json").read_text(encoding="utf-8"))
        assert content["configs"][0]["n_graphs"] == 2 * size


@pytest.mark.parametrize(
    ("labels", "changed", "facts"),
    [
        (["1"] * 20, {}, ["labels", "two"]),
        (["0"] * 20 + ["1"] * 9, {}, ["class 1", 9, 10]),
        (["0", "1"] * 9 + ["0", "nan"], {}, ["graph_labels", "integers", "'nan'"]),
        (["0", "1"] * 10, {"node_attributes": "nan\n" * 80}, ["node_attributes", "NaN"]),
    ],
)
def test_a_set_that_cannot_be_used_is_refused(
    labels: list[str], changed: dict[str, str], facts: list[object], command: Command
) -> None:
    write_set(command.folder, "BAD", labels, **changed)
    message = command.refuses("--dataset=BAD", f"--data-dir={command.folder}", "--folds=10")
    assert says(message, *facts)


def test_a_class_too_small_for_the_inner_folds_is_refused_before_training(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[str] = []
    real = GraphExperiment.train

    def train(self: Any, runs: Any, *rest: Any) -> Any:
        trained.extend(map(str, runs))
        return real(self, runs, *rest)

    monkeypatch.setattr(GraphExperiment, "train", train)
    write_set(command.folder, "SMALL", ["0"] * 20 + ["1"] * 4)
    message = command.refuses("--dataset=SMALL", f"--data-dir={command.folder}", "--folds=3")
    assert says(message, "n_inner=5", "class 1", 3, 5)
    assert trained == []


def test_a_damaged_archive_is_named(command: Command) -> None:
    path = command.folder / "MUTAG.zip"
    path.write_bytes(EMBEDDED.read_bytes()[:1000])
    assert str(path) in command.refuses(f"--data-dir={command.folder}")


def test_a_set_that_is_not_the_known_one_is_refused(command: Command) -> None:
    write_set(command.folder, "MUTAG", ["0", "1"] * 10)
    message = command.refuses(f"--data-dir={command.folder}")
    assert says(message, 20, "MUTAG", 188)


# Training that fails


def test_divergence_names_epoch_batch_and_setting_and_saves_nothing(command: Command) -> None:
    message = command.refuses("--lr=1e30", "--batch-size=64", "--epochs=2")
    assert says(message, "epoch 1", "batch 2", 3, "MUTAG hscl β=1 lr=1e+30", "transductive, seed 0")


def test_finished_runs_are_shown_and_kept_beside_a_diverged_one(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command("--seeds=0,") == 0
    (kept,) = command.output.glob("*_seed0.json")
    content = kept.read_bytes()
    real = protocols.build

    def build(config: Any, n_features: int, seed: int, *rest: Any, **more: Any) -> Any:
        model = real(config, n_features, seed, *rest, **more)
        if seed == 1:
            torch.nn.init.constant_(model.graph_head.shortcut.bias, torch.nan)
        return model

    with monkeypatch.context() as patch:
        patch.setattr(protocols, "build", build)
        assert command("--seeds=2") == 2
    assert re.fullmatch(r"error: .*\bnan\b.*\bepoch 1\b.*seed 1\).*\n", command.err)
    assert "results: " in command.out
    assert kept.read_bytes() == content
    assert len(list(command.output.glob("*_seed*.json"))) == 1
    assert command("--seeds=2") == 0
    assert len(list(command.output.glob("*_seed*.json"))) == 2


def test_an_interrupt_ends_with_status_130_and_says_how_to_go_on(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = GraphExperiment.train

    def train(self: Any, runs: Any, *rest: Any) -> Any:
        if runs[0].seed == 1:
            signal.raise_signal(signal.SIGINT)
        return real(self, runs, *rest)

    monkeypatch.setattr(GraphExperiment, "train", train)
    assert command("--seeds=3", "--ensemble-size=1") == 130
    assert says(command.err, "stopped", 1, 3, 2, "command")
    assert "Traceback" not in command.err
    assert [path.name[-11:] for path in command.files()] == ["_seed0.json"]


# Folders


def test_a_folder_is_compacted_and_read_as_before(command: Command) -> None:
    assert command("--method=ucl,hscl", "--seeds=2") == 0
    before = command.result()
    assert command(f"--compact={command.output}") == 0
    assert says(command.out, "4 results", str(command.output / "runs.jsonl.gz"))
    assert not list(command.output.glob("*_seed*.json"))
    assert command("--method=ucl,hscl", "--seeds=2") == 0
    assert says(command.out, 4, 4, "runs", "finished")
    assert command.result() == before
    assert command("--method=ucl,hscl", "--seeds=3") == 0
    assert len(list(command.output.glob("*_seed2.json"))) == 2
    assert command(f"--compact={command.output}") == 0
    assert says(command.out, "6 results", str(command.output / "runs.jsonl.gz"))


def test_the_result_file_stands_where_it_was_asked_for(command: Command) -> None:
    target = command.folder / "elsewhere" / "result.json"
    assert command(f"--json={target}") == 0
    assert json.loads(target.read_text(encoding="utf-8"))["configs"]
    assert [path.suffixes for path in command.files()] == [[".json"]]
    (command.folder / "folder").mkdir()
    assert command(f"--json={command.folder / 'folder'}") == 2
    assert says(command.err, "json", "file", str(command.folder / "folder"))


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (
            ["--beta=1,5", "--protocol=transductive"],
            ["select", "transductive", "--protocol inductive"],
        ),
        (["--protocol=inductive"], ["select", "beta", "temperature"]),
    ],
)
def test_a_selection_that_would_choose_nothing_is_refused(
    command: Command, arguments: list[str], facts: list[object]
) -> None:
    assert command(*arguments, "--select=true") == 2
    assert says(command.err, *facts)
    assert command.files() == []


def test_what_is_chosen_stands_in_the_result_file(command: Command) -> None:
    assert command("--beta=1,5", "--protocol=inductive", "--select=true", "--seeds=2",
                   "--folds=3") == 0  # fmt: skip
    content = command.result()
    (selection,) = content["selections"]
    inner = {}
    for path in command.output.glob("*_inner_seed?.json"):
        stored = json.loads(path.read_text(encoding="utf-8"))
        inner[stored["config"]["beta"], stored["seed"]] = stored["scores"]["accuracy"]
    assert len(inner) == 4
    for row, (seed, chosen) in enumerate(enumerate(selection["chosen"])):
        for fold, choice in enumerate(chosen):
            ones, fives = inner[1.0, seed][fold], inner[5.0, seed][fold]
            assert choice == int(fives > ones)
            accuracies = content["configs"][choice]["fold_accuracies"]
            assert selection["fold_accuracies"][row][fold] == accuracies[row][fold]


def test_a_part_of_a_table_does_not_overwrite_the_whole_ones_file(command: Command) -> None:
    small = ("--table=2", "--dataset=MUTAG", "--method=majority", "--jobs=1")
    assert command(*small, usual=["--seeds=1"]) == 0
    assert command(*small, "--quick", usual=["--seeds=1"]) == 0
    stems = {path.stem.rpartition("-")[0] for path in command.output.glob("table-2*.json")}
    assert stems == {"table-2", "table-2-quick"}


def test_a_smoke_run_is_not_written_over_results_and_that_is_known_before(
    command: Command,
) -> None:
    page = command.folder / "results.md"
    page.write_text("# Results\n")
    assert says(command.refuses("--quick", f"--report={page}"), str(page), "smoke", "--report")
    assert page.read_text() == "# Results\n"


# As a process


def start(*arguments: str) -> Any:
    return tasks.process(*tasks.command("gcl_hard.bench"), *TINY, *arguments)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_keeps_every_finished_run_whole(number: int, status: int, tmp_path: Path) -> None:
    with start("--seeds=1000", "--ensemble-size=1", f"--output={tmp_path}") as process:
        tasks.wait_for(lambda: list(tmp_path.glob("MUTAG*_seed1.json")))
        process.send_signal(number)
        _, err = process.communicate()
    assert process.returncode == status
    n = len(list(tmp_path.glob("*_seed*.json")))
    assert err.startswith("\n")
    assert says(err, "stopped", n, 1000, 1000 - n)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert len(left) >= 2
    assert all(name.startswith("MUTAG_hscl_transductive_") and "_seed" in name for name in left)
    for path in tmp_path.iterdir():
        assert len(json.loads(path.read_text(encoding="utf-8"))["scores"]["accuracy"]) == 2


# What differs from the defaults


def test_rows_and_files_name_what_differs(command: Command) -> None:
    for rate in ("0.02", "0.03"):
        more = ["--seeds=1", "--epochs=1", f"--lr={rate}"]
        assert command(*more, usual=["--folds=2", "--threads=1"]) == 0
        assert all(text in command.out for text in ("epochs=1 ", f"lr={rate} ", "folds=2"))
    assert len([*command.output.glob("MUTAG_hscl_transductive_??????.json")]) == 2
