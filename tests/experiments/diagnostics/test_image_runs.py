"""Looks while seeds of images train: nothing changes, and a stopped seed goes on with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gcl_hard.experiments import image_protocol
from gcl_hard.experiments.diagnostics import images as of_images
from gcl_hard.experiments.diagnostics import watch
from gcl_hard.experiments.image_data import ImageData
from gcl_hard.experiments.images import build
from gcl_hard.images import ImageContrast
from tests.experiments import tiny_images
from tests.experiments.diagnostics import epochs
from tests.experiments.diagnostics.test_kept import assert_points_give_the_look
from tests.experiments.tiny_images import Command, Tiny, few_digits, garbage, runs_in, small

SAVING = ("--checkpoint-minutes=0", "--class-pairs=true", "--save-encoder")
STEPS = 6  # of two epochs
OF_THE_RUN = ("diagnostics", "seconds_diagnostics", "seconds_train", "seconds_eval", "finished",
              "versions")  # fmt: skip


@pytest.fixture
def command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    return Command(tmp_path, capsys, monkeypatch)


def stored(command: Command) -> dict[str, Any]:
    (path,) = command.files("*_seed0.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def points(command: Command) -> dict[str, Any]:
    (path,) = command.files("*.npz")
    with np.load(path) as found:
        return {name: value.tolist() for name, value in found.items()}


def unmeasured(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in OF_THE_RUN}


# Nothing changes


@pytest.mark.parametrize("method", ["hscl", "ucl"])
def test_nothing_of_a_seed_changes(command: Command, method: str) -> None:
    found, weights = [], []
    for more in ((), ("--diagnostics=1",)):
        command.output = command.folder / f"out{len(more)}"
        assert command("--save-encoder", f"--method={method}", *more) == 0
        assert command.steps == STEPS
        found.append(stored(command))
        assert epochs(found[-1]) == ([1, 2] if more else [])
        assert (found[-1]["seconds_diagnostics"] > 0) == bool(more)
        assert len(command.files("*.npz")) == len(more)
        (encoder,) = command.files("*.pt")
        weights.append(torch.load(encoder, weights_only=True)["encoder"])
    assert unmeasured(found[0]) == unmeasured(found[1])
    assert len(found[0]["curve"]) == 2
    assert tiny_images.same_bits(*weights)


def test_without_the_flag_nothing_is_computed(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError

    for where, name in (
        (of_images, "image_sampler"), (of_images, "Watch"), (watch, "look_at"),
        (image_protocol, "KeptWatch"),
    ):  # fmt: skip
        monkeypatch.setattr(where, name, never)
    assert command() == 0
    assert stored(command)["diagnostics"] == []


def test_floors_are_not_looked_at(command: Command) -> None:
    assert command("--method=untrained,pixels,majority", "--diagnostics=1") == 0
    found = [json.loads(path.read_text(encoding="utf-8"))["diagnostics"]
             for path in command.files("*_seed0.json")]  # fmt: skip
    assert found == [[]] * 3
    assert command("--method=untrained,pixels,majority", "--diagnostics=1") == 0
    assert "3 of 3 seeds were finished before" in command.out


def test_inner_hold_outs_and_test_images_are_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_protocol, "resnet", lambda name, stem: Tiny())
    run = runs_in(tmp_path)
    assert run(small(), inner=True, diagnostics=1).score.seen is None
    data = few_digits()
    dirty = ImageData(**{**vars(data), "test": garbage(data.test)})
    clean, other = (run(small(), of, diagnostics=1).score.seen for of in (data, dirty))
    assert clean is not None
    assert other is not None
    assert clean.looks == other.looks
    assert clean.points is not None
    assert other.points is not None
    assert all((part == other.points[name]).all() for name, part in clean.points.items())


def test_looks_are_at_the_encoder_as_it_is_after_the_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_protocol, "resnet", lambda name, stem: Tiny())
    run, data = runs_in(tmp_path), few_digits()
    seen = run(small(beta=3.0), diagnostics=1).score.seen
    assert seen is not None
    for epoch, look in enumerate(seen.looks, 1):
        cell = small(beta=3.0, epochs=epoch)
        weights = run(cell, save_encoder=True).weights
        encoding = build(cell, data, 3)
        encoding.model.encoder.load_state_dict(weights)
        sampler = of_images.image_sampler(cell, data.probe, encoding.views, torch.float32)
        sample = sampler(encoding.model)
        assert sample is not None
        # The head is not kept: what is of the encoder's embeddings alone.
        current = encoding.model.loss.sampler.current
        geometry = of_images_look(sample, current, epoch)["geometry"]
        for name in ("nc1", "cdnv", "overlap", "effective_rank", "packing"):
            assert look["geometry"][name] == geometry[name]
        assert look["settings"]["own"]["setting"] == "beta=3"


def of_images_look(sample: Any, current: Any, epoch: int) -> dict[str, Any]:
    return watch.look_at(sample, current, epoch, last=False)


def test_an_encoder_that_is_not_finite_is_looked_past(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ImageContrast.project

    def project(self: ImageContrast, images: torch.Tensor) -> torch.Tensor:
        z = real(self, images)
        return z if self.training else z * float("nan")

    monkeypatch.setattr(ImageContrast, "project", project)
    assert command("--diagnostics=1") == 0
    assert command.steps == STEPS
    empty = {"anchors": 0, "settings": {}, "geometry": {}}
    assert stored(command)["diagnostics"] == [{"epoch": 1, **empty}, {"epoch": 2, **empty}]
    assert command.files("*.npz") == []


def test_the_points_give_the_last_look_again(command: Command) -> None:
    assert command("--batch-size=120", "--diagnostics=2") == 0
    found = stored(command)
    assert epochs(found) == [2]
    assert_points_give_the_look(command.files("*.npz")[0], found["diagnostics"][0])


def test_the_result_file_has_looks_and_curves(command: Command) -> None:
    assert command("--seeds=2", "--diagnostics=1", f"--json={command.folder / 'all.json'}") == 0
    (cell,) = json.loads((command.folder / "all.json").read_text(encoding="utf-8"))["cells"]
    files = [json.loads(path.read_text(encoding="utf-8"))
             for path in command.files("*_seed?.json")]  # fmt: skip
    assert len(files) == 2
    assert cell["diagnostics"] == [one["diagnostics"] for one in files]
    assert cell["curves"] == [one["curve"] for one in files]
    assert [[epoch for epoch, _ in curve] for curve in cell["curves"]] == [[1, 2]] * 2


# Going on


def undisturbed(command: Command) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
    output, command.output = command.output, command.folder / "undisturbed"
    assert command(*SAVING, "--diagnostics=1") == 0
    found = stored(command)
    assert epochs(found) == [1, 2]
    whole = found["diagnostics"], points(command), unmeasured(found)
    command.output = output
    return whole


@pytest.mark.parametrize("step", [2, 4])  # within epoch 1, after it
def test_a_resumed_seed_has_the_looks_of_an_undisturbed_one(step: int, command: Command) -> None:
    command.interrupted(step, *SAVING, "--diagnostics=1")
    assert command("--resume", *SAVING, "--diagnostics=1") == 0
    assert command.steps == STEPS - (step - 1)
    found = stored(command)
    assert (found["diagnostics"], points(command), unmeasured(found)) == undisturbed(command)
    assert found["seconds_diagnostics"] > 0


def stop_while_scored(command: Command, monkeypatch: pytest.MonkeyPatch, *flags: str) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(image_protocol, "linear_probe", stop)
        assert command(*SAVING, *flags) == 130
    assert len(command.files("*.ckpt")) == 1


def test_a_seed_stopped_while_it_is_scored_keeps_its_looks(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_while_scored(command, monkeypatch, "--diagnostics=1")
    assert command("--resume", *SAVING, "--diagnostics=1") == 0
    assert command.steps == 0
    found = stored(command)
    assert (found["diagnostics"], points(command), unmeasured(found)) == undisturbed(command)


def refused(command: Command, flags: tuple[str, ...]) -> None:
    """Says why; the checkpoint stays, and what it was begun with goes on."""
    assert command("--resume", *SAVING, *flags) == 2
    for words in ("of another run: diagnostics ", "remove it to start over"):
        assert words in command.out + command.err
    assert "Traceback" not in command.out + command.err
    assert len(command.files("*.ckpt")) == 1
    assert command.files("*_seed0.json") == []


BEGUN_AND_GIVEN = [
    ((), ("--diagnostics=1",)), (("--diagnostics=1",), ("--diagnostics=2",)),
    (("--diagnostics=1",), ()),
]  # fmt: skip


@pytest.mark.parametrize(("begun", "given"), BEGUN_AND_GIVEN)
def test_a_checkpoint_begun_with_other_looks_is_refused(
    command: Command, begun: tuple[str, ...], given: tuple[str, ...]
) -> None:
    command.interrupted(5, *SAVING, *begun)
    refused(command, given)
    assert command("--resume", *SAVING, *begun) == 0
    assert epochs(stored(command)) == ([1, 2] if begun else [])


@pytest.mark.parametrize(
    ("begun", "given"),
    [((), ("--diagnostics=1",)), (("--diagnostics=2",), ("--diagnostics=1",))],
)
def test_a_trained_checkpoint_with_other_looks_is_refused(
    command: Command, monkeypatch: pytest.MonkeyPatch, begun: tuple[str, ...],
    given: tuple[str, ...],
) -> None:  # fmt: skip
    stop_while_scored(command, monkeypatch, *begun)
    refused(command, given)
