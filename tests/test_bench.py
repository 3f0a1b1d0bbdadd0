"""The command itself: exit statuses, messages, and what is left on disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from gcl_hard import bench
from gcl_hard.errors import DivergenceError
from gcl_hard.experiments import ensembles, graph_seeds, protocols
from gcl_hard.methods import METHODS
from tests.experiments.test_protocols import Wrong

TINY = ["--epochs=1", "--layers=1", "--dim=4", "--folds=2", "--device=cpu", "--threads=1",
        "--seeds=1"]  # fmt: skip
EMBEDDED = tudataset.PACKAGED / "MUTAG.zip"


class Command:
    """``python -m gcl_hard.bench`` in this process, with tiny settings and a folder of its own."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.output = folder / "results"
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *arguments: str) -> int:
        """Run it; what it printed is in ``out`` and ``err``."""
        status = bench.main([*TINY, f"--output={self.output}", *arguments])
        self.out, self.err = self._capsys.readouterr()
        return status

    def files(self) -> list[Path]:
        """Whatever lies in the output folder."""
        return [path for path in self.output.rglob("*") if path.is_file()]

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
    (path,) = command.output.glob("MUTAG_hscl_paper_??????.json")
    assert command.out.rstrip().endswith(f"results: {path}")
    content = json.loads(path.read_text(encoding="utf-8"))
    (cell,) = content["cells"]
    shown = f"{cell['accuracy_mean']:.1f} ± {cell['accuracy_std']:.1f}"
    (row,) = [line for line in command.out.splitlines() if line.split()[:2] == ["MUTAG", "hscl"]
              and "±" in line]  # fmt: skip
    assert shown in row
    assert "87.2" in row
    for seed, accuracy in zip(cell["seeds"], cell["accuracies"], strict=True):
        assert f"seed {seed}: {accuracy:.1f} %" in command.out


def test_a_table_is_printed_tested_and_written_with_its_files(command: Command) -> None:
    page = command.folder / "docs" / "results.md"
    arguments = ("--table=2", "--dataset=MUTAG", "--method=ucl,hscl,majority", "--beta=1,10",
                 "--seeds=2", "--jobs=1", "--quick", f"--report={page}")  # fmt: skip
    assert command(*arguments) == 0
    for part in ("not reportable", "hscl inside", "hscl best", "majority", "− ucl", "Wilco"):
        assert part in command.out, part
    names = sorted(path.name for path in page.parent.iterdir())
    assert {"results.md", "results.csv", "results.tex"} < set(names)
    text = page.read_text(encoding="utf-8")
    for name in names:
        assert not name.endswith(".svg") or f"({name})" in text, name
    before = {path.name: path.read_bytes() for path in page.parent.iterdir()}
    assert command(*arguments) == 0  # nothing is run
    assert {path.name: path.read_bytes() for path in page.parent.iterdir()} == before


def test_a_report_alone_says_that_nothing_is_there(command: Command) -> None:
    assert command("--report-only") == 0
    assert "0 of 1 seeds were finished" in command.out
    assert command.files() == []


def test_several_betas_are_each_reported_with_a_warning_against_the_best(command: Command) -> None:
    assert command("--beta=1,2,10") == 0
    rows = [line.split() for line in command.out.splitlines()]
    found = [row[2] for row in rows if row[:2] == ["MUTAG", "hscl"] and "paper" in row]
    assert found == ["β=1", "β=2", "β=10", "best"]
    warning = "best mean on the test folds, which is the paper's way and no estimate"
    assert warning in command.out
    assert command("--beta=1") == 0
    assert "the paper's way" not in command.out


@pytest.mark.parametrize("contrast", ["local-global", "two-view"])
def test_every_method_runs(contrast: str, command: Command) -> None:
    assert command(f"--method={','.join(METHODS)}", f"--contrast={contrast}") == 0
    content = json.loads(
        next(command.output.glob("MUTAG_*_paper_??????.json")).read_text(encoding="utf-8")
    )
    assert [cell["method"] for cell in content["cells"]] == list(METHODS)


def test_both_protocols_stand_in_rows_of_their_own(command: Command) -> None:
    assert command("--protocol=paper,inductive", "--method=ucl") == 0
    (path,) = command.output.glob("*paper+inductive_??????.json")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert [(c["protocol"], c["paper_accuracy"]) for c in cells] == [
        ("paper", 86.8), ("inductive", None)]  # fmt: skip
    encoders = {
        stored["config"]["protocol"]: len(stored["final_losses"])
        for stored in (json.loads(path.read_text()) for path in command.output.glob("*_seed0.json"))
    }
    assert encoders == {"paper": 1, "inductive": 2}


def test_help_and_a_printed_config_end_with_status_0(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    for flag, part in (("--help", "--threshold-start"), ("--print-config", "beta_changes: 0")):
        with pytest.raises(SystemExit) as left:
            command(flag)
        assert left.value.code == 0
        assert part in capsys.readouterr().out


# Bad arguments


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--dataset=MUTGA"], ["unknown dataset 'MUTGA'; did you mean MUTAG?", "works offline"]),
        (["--dataset=ENZYMES"], ["dataset 'ENZYMES' cannot be had", "ENZYMES.zip", "--data-dir"]),
        (["--dataset=../MUTAG"], ["dataset '../MUTAG'"]),
        (["--method=hslc"], ["unknown method 'hslc'; did you mean hscl"]),
        (["--protocol=papre"], ["unknown protocol 'papre'; did you mean paper"]),
        (["--beta=-1"], ["beta", "at least 0", "-1"]),
        (["--beta=1,nan"], ["beta must be a finite number, got nan"]),
        (["--method=hscl-tau", "--threshold-start=-1.5"], ["threshold-start", "[-1, 1]", "-1.5"]),
        (["--method=hscl-tau", "--threshold-end=2"], ["threshold-end", "[-1, 1]", "2"]),
        (["--class-prior=0.1"], ["class prior 0.1 with hscl", "label-aware"]),
        (["--method=dcl", "--class-prior=1"], ["[0, 1)", "1"]),
        (["--epochs=0"], ["epochs must be at least 1, got 0"]),
        (["--lr=0"], ["lr", "above 0"]),
        (["--seeds=0"], ["--seeds"]),
        (["--epoch=3"], ["unknown flag --epoch; did you mean --epochs"]),
        (["--device=gpu"], ["device must be auto, cpu, cuda or cuda:N, got 'gpu'"]),
        (["--data-dir=/no/such/folder"], ["'/no/such/folder' is not a folder"]),
        (["--config=gone.yaml"], ["gone.yaml"]),
        (["--features=attributes"], ["'attributes' are not in this set", "labels"]),
        (["--folds=64"], ["class 0 has 63 members, fewer than the 64 folds"]),
    ],
)
def test_bad_input_is_one_message_and_status_2(
    arguments: list[str], says: list[str], command: Command
) -> None:
    message = command.refuses(*arguments)
    for part in says:
        assert part in message


@pytest.mark.parametrize(
    "arguments", [["--method=hscl-tau", "--threshold-start=null"], ["--seeds=4294967296,"]]
)
def test_a_value_nobody_thought_of_is_no_traceback(arguments: list[str], command: Command) -> None:
    command.refuses(*arguments)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_refused(command: Command) -> None:
    assert "sees 0 CUDA device(s); use --device cpu" in command.refuses("--device=cuda")


@pytest.mark.parametrize("flag", ["--output", "--json"])
def test_a_place_below_a_file_is_refused(flag: str, command: Command) -> None:
    (command.folder / "file").write_text("mine")
    message = command.refuses(f"{flag}={command.folder / 'file' / 'below' / 'x.json'}")
    assert f"cannot write to {command.folder / 'file'}" in message
    assert (command.folder / "file").read_text() == "mine"


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


def test_the_sets_made_here_are_good_unless_spoilt(command: Command) -> None:
    write_set(command.folder, "GOOD", ["0", "1"] * 10)
    assert command("--dataset=GOOD", f"--data-dir={command.folder}", "--folds=10") == 0


def test_another_set_of_the_same_name_never_meets_the_old_numbers(command: Command) -> None:
    for folder, size in (("one", 12), ("two", 15)):
        (command.folder / folder).mkdir()
        write_set(command.folder / folder, "TOY", ["0", "1"] * size)
        arguments = ["--dataset=TOY", f"--data-dir={command.folder / folder}"]
        assert command(*arguments, f"--json={command.folder / 'toy.json'}") == 0
        content = json.loads((command.folder / "toy.json").read_text(encoding="utf-8"))
        assert content["cells"][0]["n_graphs"] == 2 * size


@pytest.mark.parametrize(
    ("labels", "changed", "says"),
    [
        (["1"] * 20, {}, "expected two classes or more"),
        (["0"] * 20 + ["1"] * 9, {}, "class 1 has 9 members, fewer than the 10 folds"),
        (["0", "1"] * 10, {"graph_labels": "0\n1\n" * 9}, "graph_labels has 18 lines"),
        (["0", "1"] * 9 + ["0", "1.5"], {}, "graph_labels must hold integers only"),
        (["0", "1"] * 9 + ["0", "nan"], {}, "graph_labels must hold integers only"),
        (["0", "1"] * 10, {"graph_labels": ""}, "graph_labels is empty"),
        (["0", "1"] * 10, {"node_attributes": "nan\n" * 80}, "node_attributes holds NaN"),
        (["0", "1"] * 10, {"A": "1, 5\n"}, "edges between different graphs"),
    ],
)
def test_a_set_that_cannot_be_used_is_refused(
    labels: list[str], changed: dict[str, str], says: str, command: Command
) -> None:
    write_set(command.folder, "BAD", labels, **changed)
    message = command.refuses("--dataset=BAD", f"--data-dir={command.folder}", "--folds=10")
    assert says in message


def test_a_class_too_small_for_the_inner_folds_is_refused_before_training(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[str] = []
    real = graph_seeds.train_seeds

    def train_seeds(jobs: Any, *args: Any, **settings: Any) -> Any:
        trained.extend(map(str, jobs))
        return real(jobs, *args, **settings)

    monkeypatch.setattr(graph_seeds, "train_seeds", train_seeds)
    write_set(command.folder, "SMALL", ["0"] * 20 + ["1"] * 4)
    message = command.refuses("--dataset=SMALL", f"--data-dir={command.folder}", "--folds=3")
    assert "fewer than the 5 folds" in message
    assert trained == []


@pytest.mark.parametrize("damage", ["truncated", "flipped", "text", "empty", "other"])
def test_a_damaged_archive_is_named(damage: str, command: Command) -> None:
    content = EMBEDDED.read_bytes()
    middle = len(content) // 2
    spoilt = {
        "truncated": content[:middle],
        "flipped": content[:middle] + bytes(b ^ 255 for b in content[middle : middle + 40])
        + content[middle + 40 :],
        "text": b"<html>404</html>",
        "empty": b"",
        "other": content.replace(b"MUTAG_graph_labels", b"MUTAX_graph_labels"),
    }  # fmt: skip
    path = command.folder / "MUTAG.zip"
    path.write_bytes(spoilt[damage])
    assert str(path) in command.refuses(f"--data-dir={command.folder}")


def test_a_set_that_is_not_the_known_one_is_refused(command: Command) -> None:
    write_set(command.folder, "MUTAG", ["0", "1"] * 10)
    assert "20 graphs where MUTAG has 188" in command.refuses(f"--data-dir={command.folder}")


# Training that fails


def test_divergence_names_epoch_batch_and_setting_and_saves_nothing(command: Command) -> None:
    message = command.refuses("--lr=1e30", "--batch-size=64", "--epochs=2")
    assert "in epoch 1, batch 2 of 3 (MUTAG hscl β=1 paper, seed 0)" in message


def test_finished_cells_are_shown_and_kept_beside_a_diverged_one(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command("--seeds=0,") == 0
    (kept,) = command.output.glob("*_seed0.json")
    content = kept.read_bytes()
    real = ensembles.train_ensemble

    def train(population: Any, *_: object, **__: object) -> list[DivergenceError]:
        error = DivergenceError("the loss is nan in epoch 1, batch 1 of 1")
        return [error] * len(population.models)

    monkeypatch.setattr(ensembles, "train_ensemble", train)
    assert command("--seeds=2") == 2
    assert command.err == "error: the loss is nan in epoch 1, batch 1 of 1\n"
    assert "results: " in command.out
    assert kept.read_bytes() == content
    assert len(list(command.output.glob("*_seed*.json"))) == 1
    monkeypatch.setattr(ensembles, "train_ensemble", real)
    assert command("--seeds=2") == 0
    assert len(list(command.output.glob("*_seed*.json"))) == 2


def test_an_encoder_of_the_wrong_shape_is_one_message(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocols, "GIN", Wrong)
    assert "the encoder must return (nodes [" in command.refuses()


def test_an_interrupt_ends_with_status_130_and_says_how_to_go_on(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = graph_seeds.train_seeds

    def train_seeds(jobs: Any, *arguments: Any, **settings: Any) -> Any:
        if jobs[0].seed == 1:
            raise KeyboardInterrupt
        return real(jobs, *arguments, **settings)

    monkeypatch.setattr(graph_seeds, "train_seeds", train_seeds)
    assert command("--seeds=3", "--members=1") == 130
    assert "the same command continues" in command.err
    assert "Traceback" not in command.err
    assert [path.name[-11:] for path in command.files()] == ["_seed0.json"]


# As a process


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "gcl_hard.bench", *TINY, *arguments]
    return subprocess.Popen(
        command, cwd=Path(__file__).parents[1], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        # A job in the background of a script is born deaf to Ctrl-C, and so are its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )  # fmt: skip


def test_a_process_with_a_mistyped_method_exits_with_2_and_no_traceback(tmp_path: Path) -> None:
    process = start("--method=hslc", f"--output={tmp_path}")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert err.startswith("error: unknown method 'hslc'; did you mean hscl")
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_keeps_every_finished_seed_whole(tmp_path: Path) -> None:
    process = start("--seeds=1000", f"--output={tmp_path}")
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("MUTAG*_seed1.json")) and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    try:
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert err.strip() == "stopped; finished seeds are saved, the same command continues"
    left = sorted(path.name for path in tmp_path.iterdir())
    assert len(left) >= 2
    assert all(name.startswith("MUTAG_hscl_paper_") and "_seed" in name for name in left)
    for path in tmp_path.iterdir():
        assert len(json.loads(path.read_text(encoding="utf-8"))["fold_accuracies"]) == 2
