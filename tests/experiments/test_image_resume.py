"""A seed that is stopped is gone on with, and ends as if it had not been stopped."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from gcl_hard.experiments import image_protocol
from tests.experiments.tiny_images import Command

SAVING = ("--checkpoint-minutes=0", "--class-pairs=true", "--save-encoder")
STEPS = 6  # of two epochs
CONFIG_OF_ANOTHER = ("--lr=0.01", *SAVING)


@pytest.fixture
def command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    return Command(tmp_path, capsys, monkeypatch)


def ended(command: Command) -> dict[str, Any]:
    """What a run ends with, its times left out; no state is left behind."""
    (record,) = command.files("*_seed0.json")
    (encoder,) = command.files("*_seed0.pt")
    assert command.files("*.ckpt") == []
    found = json.loads(record.read_text(encoding="utf-8"))
    same = ("fold_accuracies", "fold_c", "final_losses", "curve", "config", "data")
    weights = torch.load(encoder, weights_only=True)["encoder"]
    return {name: found[name] for name in same} | {k: v.tolist() for k, v in weights.items()}


def undisturbed(command: Command) -> dict[str, Any]:
    output, command.output = command.output, command.folder / "undisturbed"
    assert command(*SAVING) == 0
    assert command.steps == STEPS
    whole = ended(command)
    command.output = output
    assert len(whole["curve"]) == 2
    return whole


@pytest.mark.parametrize("step", [2, 4, 5])  # within epoch 1, after it, within epoch 2
def test_a_resumed_seed_ends_as_an_undisturbed_one(step: int, command: Command) -> None:
    command.interrupted(step, *SAVING)
    assert len(command.files("*_seed0.ckpt")) == 1
    assert command.files("*.json") == []
    assert command("--resume", *SAVING) == 0
    assert command.steps == STEPS - (step - 1)
    assert ended(command) == undisturbed(command)


def test_a_seed_stopped_twice_and_then_while_it_is_scored(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    command.interrupted(3, *SAVING)
    command.interrupted(2, "--resume", *SAVING)
    with monkeypatch.context() as patch:
        patch.setattr(image_protocol, "linear_probe", stop)
        assert command("--resume", *SAVING) == 130
    assert command("--resume", *SAVING) == 0
    assert command.steps == 0
    assert ended(command) == undisturbed(command)


def test_without_resume_a_stopped_seed_is_neither_gone_on_with_nor_thrown_away(
    command: Command,
) -> None:
    command.interrupted(4, *SAVING)
    (path,) = command.files("*.ckpt")
    content = path.read_bytes()
    said = command.refuses(*SAVING)
    for words in (str(path), "--resume", "--force"):
        assert words in said
    assert path.read_bytes() == content
    assert command(*SAVING, "--lr=0.01") == 0  # another experiment is not held up
    assert path.read_bytes() == content


def test_force_starts_over(command: Command) -> None:
    command.interrupted(4, *SAVING)
    assert command("--force", *SAVING) == 0
    assert command.steps == STEPS
    assert ended(command) == undisturbed(command)


def test_a_seed_stopped_before_its_first_checkpoint_begins_anew(command: Command) -> None:
    command.interrupted(1, *SAVING)
    assert command.files() == []
    assert command(*SAVING) == 0
    assert ended(command) == undisturbed(command)


def test_finished_seeds_are_not_touched_by_resume(command: Command) -> None:
    command.interrupted(STEPS + 2, "--seeds=2", *SAVING)
    (first,) = command.files("*_seed0.json")
    content = first.read_bytes()
    assert [path.name[-10:] for path in command.files("*.ckpt")] == ["seed1.ckpt"]
    assert command("--resume", "--seeds=2", *SAVING) == 0
    assert command.steps == STEPS - 1
    assert first.read_bytes() == content


def test_training_that_takes_less_than_the_interval_leaves_nothing(command: Command) -> None:
    command.interrupted(5, "--checkpoint-minutes=10")
    assert command.files() == []


# What cannot be gone on from


def cannot_go_on(command: Command) -> str:
    """The one message; the file is left as it is."""
    (path,) = command.files("*.ckpt")
    content = path.read_bytes()
    said = command.refuses("--resume", *SAVING)
    assert path.read_bytes() == content
    assert str(path) in said
    assert "remove" in said
    return said


def test_a_checkpoint_of_another_config_is_refused(command: Command) -> None:
    command.interrupted(4, *SAVING)
    (own,) = command.files("*.ckpt")
    own.unlink()
    command.interrupted(4, *CONFIG_OF_ANOTHER)
    (other,) = command.files("*.ckpt")
    shutil.move(other, own)
    assert "another run: lr 0.01 there, 0.001 here" in cannot_go_on(command)


def test_a_checkpoint_of_a_newer_version_is_refused(command: Command) -> None:
    command.interrupted(4, *SAVING)
    (path,) = command.files("*.ckpt")
    whole = torch.load(path, weights_only=True)
    torch.save({**whole, "schema_version": whole["schema_version"] + 1}, path)
    assert "upgrade gcl_hard" in cannot_go_on(command)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_truncated_checkpoint_is_refused(share: float, command: Command) -> None:
    command.interrupted(4, *SAVING)
    (path,) = command.files("*.ckpt")
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    assert "truncated or no checkpoint" in cannot_go_on(command)


def test_a_checkpoint_of_other_data_is_refused(command: Command) -> None:
    command.interrupted(4, *SAVING)
    (path,) = command.files("*.ckpt")
    whole = torch.load(path, weights_only=True)
    whole["run"]["data"] = "of others"
    torch.save(whole, path)
    assert "another run: data of others there" in cannot_go_on(command)
