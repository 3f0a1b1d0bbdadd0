"""Checkpoints: resumed runs against undisturbed ones, bit by bit."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import types

import pytest
import torch

from gcl_hard.errors import InputError
from gcl_hard.training import checkpoint as module
from gcl_hard.training.checkpoint import Checkpoint
from tests.training.runs import (
    PER_EPOCH,
    RUN,
    Stopped,
    eagerly,
    fit,
    lazily,
    read,
    same,
    stopping,
)


def check_resumed(tmp_path, stop_at, resumes_after, **settings):
    whole, disturbed = tmp_path / "whole", tmp_path / "disturbed"
    model, losses = fit(Checkpoint(whole, RUN), **settings)
    with pytest.raises(Stopped):
        fit(Checkpoint(disturbed, RUN, every=0), stop_at=stop_at, **settings)
    again = Checkpoint(disturbed, RUN, resume=True, every=0)
    resumed, resumed_losses = fit(again, seed=99, **settings)
    assert resumed.calls == 4 * PER_EPOCH - resumes_after
    assert resumed_losses == losses
    assert same(resumed.state_dict(), model.state_dict())
    # optimiser, schedule, means, notes, and where every generator stands
    assert same(read(disturbed), read(whole))


@pytest.mark.parametrize(
    ("stop_at", "resumes_after", "settings"),
    [
        (2 * PER_EPOCH + 1, 2 * PER_EPOCH, {"batches": eagerly}),  # between epochs
        (PER_EPOCH + 4, PER_EPOCH + 3, {"batches": eagerly}),
        (PER_EPOCH + 4, PER_EPOCH + 3, {}),
        (PER_EPOCH + 4, PER_EPOCH + 3, {"lr_schedule": "constant"}),
        (PER_EPOCH + 4, PER_EPOCH + 2, {"accumulate": 2}),  # the second batch of a group
        (3 * PER_EPOCH, 3 * PER_EPOCH - 1, {"accumulate": 2}),  # the last group, of one
        (PER_EPOCH + 4, PER_EPOCH + 2, {"accumulate": 2, "precision": "bf16-mixed"}),
        (2 * PER_EPOCH + 4, 2 * PER_EPOCH + 3, {"stops": stopping}),
    ],
)
def test_resumed_is_undisturbed_to_the_bit(tmp_path, stop_at, resumes_after, settings):
    check_resumed(tmp_path, stop_at, resumes_after, **settings)


def test_a_run_that_ended_early_has_its_best_weights_and_trains_no_more(tmp_path):
    """Killed before its result was written, say."""

    def ends(model):
        return stopping(model, (0, 2, 1, 0, 5))

    ended, losses = fit(Checkpoint(tmp_path / "run", RUN, every=0), stops=ends, epochs=6)
    best = ended.net[1].num_batches_tracked
    assert (ended.calls, len(losses), int(best)) == (4 * PER_EPOCH, 4, 2 * PER_EPOCH)
    again, before = fit(
        Checkpoint(tmp_path / "run", RUN, resume=True), seed=99, stops=ends, epochs=6
    )
    assert (again.calls, before) == (0, losses)
    assert same(again.state_dict(), ended.state_dict())


def test_early_stopping_begins_with_a_training(tmp_path):
    """What was trained without it has no best epoch to go on from."""
    path = tmp_path / "run"
    for stops, then in [(None, stopping), (stopping, None)]:
        fit(Checkpoint(path, RUN), stops=stops)
        with pytest.raises(InputError, match=r"early stopping"):
            fit(Checkpoint(path, RUN, resume=True), stops=then)


def test_early_stopping_is_for_one_training():
    kept = []

    def keep(model):
        kept.append(kept[0] if kept else stopping(model))
        return kept[0]

    fit(None, stops=keep)
    with pytest.raises(InputError, match="EarlyStopping"):
        fit(None, stops=keep)


@pytest.mark.gpu
def test_loss_scale_and_generators_of_a_gpu_are_resumed(tmp_path):
    check_resumed(tmp_path, PER_EPOCH + 4, PER_EPOCH + 3, device="cuda", precision="16-mixed")
    state = read(tmp_path / "whole")["state"]
    assert state["scaler"]["scale"] > 0
    assert len(state["random"]["cuda"]) == torch.cuda.device_count()


def test_the_state_of_the_precision_is_saved_and_restored(tmp_path, monkeypatch):
    """Mixed precision on a CPU has no loss scale, so it is given one here."""
    from lightning_fabric.plugins.precision import MixedPrecision

    restored = []
    monkeypatch.setattr(MixedPrecision, "state_dict", lambda self: {"scale": 1024.0})
    monkeypatch.setattr(MixedPrecision, "load_state_dict", lambda self, got: restored.append(got))
    path = tmp_path / "run.ckpt"
    fit(Checkpoint(path, RUN), precision="bf16-mixed")
    fit(Checkpoint(path, RUN, resume=True), precision="bf16-mixed")
    assert restored == [{"scale": 1024.0}]


@pytest.mark.parametrize("batch", [1, PER_EPOCH + 3, 2 * PER_EPOCH, 4 * PER_EPOCH])
def test_asked_to_stop_it_saves_the_step_that_it_is_in(tmp_path, batch):
    path = tmp_path / "run.ckpt"
    model, losses = fit(None)
    checkpoint, drawn = Checkpoint(path, RUN, every=math.inf), 0

    def until(epoch):
        nonlocal drawn
        for item in lazily(epoch):
            drawn += 1
            if drawn == batch:
                checkpoint.stop()
            yield item

    with pytest.raises(KeyboardInterrupt):
        fit(checkpoint, batches=until)
    assert drawn == batch
    resumed, resumed_losses = fit(Checkpoint(path, RUN, resume=True), seed=1)
    assert resumed.calls == 4 * PER_EPOCH - batch
    assert resumed_losses == losses
    assert same(resumed.state_dict(), model.state_dict())


def test_asked_to_stop_after_its_last_step_it_ends_as_usual(tmp_path):
    checkpoint = Checkpoint(tmp_path / "run.ckpt", RUN)

    def last(epoch):
        yield from lazily(epoch)
        if epoch == 4:
            checkpoint.stop()

    assert fit(checkpoint, batches=last)[1] == fit(None)[1]


def test_saving_does_not_change_training(tmp_path):
    plain, losses = fit(None)
    saved, saved_losses = fit(Checkpoint(tmp_path / "run.ckpt", RUN, every=0))
    assert saved_losses == losses
    assert same(saved.state_dict(), plain.state_dict())


def test_a_run_that_is_done_trains_nothing(tmp_path):
    model, losses = fit(Checkpoint(tmp_path / "run.ckpt", RUN))
    checkpoint = Checkpoint(tmp_path / "run.ckpt", RUN, resume=True)
    again, same_losses = fit(checkpoint, seed=99, stop_at=1)
    assert again.calls == 0
    assert same_losses == losses
    assert same(again.state_dict(), model.state_dict())
    assert [list(point) for point in checkpoint.notes["curve"]] == [
        [epoch, loss] for epoch, loss in enumerate(losses, 1)
    ]


def test_without_resume_the_file_is_written_over_at_the_first_write(tmp_path):
    path = tmp_path / "run.ckpt"
    fit(Checkpoint(path, RUN))
    with pytest.raises(Stopped):
        fit(Checkpoint(path, {"method": "ucl"}), stop_at=7)
    assert read(path)["run"]["method"] == "hscl"
    model, losses = fit(Checkpoint(path, {"method": "ucl"}), seed=3)
    assert read(path)["run"] == {"method": "ucl"}
    assert same(read(path)["state"]["model"], model.state_dict())
    assert losses == fit(None, seed=3)[1]


def test_resume_without_a_file_starts(tmp_path):
    assert fit(Checkpoint(tmp_path / "run.ckpt", RUN, resume=True))[1] == fit(None)[1]


@pytest.mark.parametrize(
    ("every", "steps"),
    # a step takes 250 s: written after 3, 6, ... steps; the last write is the last epoch's
    [(0, [*range(1, 6), 5, *range(6, 11), 10, *range(11, 16), 15, *range(16, 21), 20]),
     (600, [3, 6, 9, 12, 15, 18, 20]), (math.inf, [20])],
)  # fmt: skip
def test_time_between_writes(tmp_path, monkeypatch, every, steps):
    now = 1000.0
    monkeypatch.setattr(module, "time", types.SimpleNamespace(monotonic=lambda: now))
    written = []

    class Counted(Checkpoint):
        def save(self, state):
            super().save(state)
            written.append(PER_EPOCH * (state["epoch"] - 1) + state["step"])

    def slowly(epoch):
        nonlocal now
        for batch in lazily(epoch):
            now += 250
            yield batch

    fit(Counted(tmp_path / "run.ckpt", RUN, every=every), batches=slowly)
    assert written == steps


def test_exists_and_remove(tmp_path):
    checkpoint = Checkpoint(tmp_path / "made" / "run.ckpt", RUN)
    assert not checkpoint.exists()
    checkpoint.remove()
    fit(checkpoint)
    assert checkpoint.exists()
    checkpoint.remove()
    assert list((tmp_path / "made").iterdir()) == []


KILLED = """
import os, signal, sys, torch
from pathlib import Path
from gcl_hard.training.checkpoint import Checkpoint

class Killer:
    def __init__(self, file):
        self.file, self.left = file, 40_000
    def write(self, data):
        self.file.write(data)
        self.left -= len(data)
        if self.left <= 0:
            self.file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        return len(data)
    def flush(self):
        self.file.flush()

checkpoint = Checkpoint(Path(sys.argv[1]), {"lr": 1})
checkpoint.save({"weights": [torch.arange(1_000)] + [torch.ones(1_000) for _ in range(99)]})
save = torch.save
torch.save = lambda state, file: save(state, Killer(file))
checkpoint.save({"weights": [torch.zeros(1_000) for _ in range(100)]})
"""


def test_killed_in_the_middle_of_a_write_leaves_the_file_before_whole(tmp_path):
    path = tmp_path / "run [1].ckpt"
    child = subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    assert child.returncode == -signal.SIGKILL
    (half,) = set(tmp_path.iterdir()) - {path}
    assert 40_000 <= half.stat().st_size < path.stat().st_size / 2
    checkpoint = Checkpoint(path, {"lr": 1}, resume=True)
    assert torch.equal(checkpoint.load()["weights"][0], torch.arange(1_000))
    checkpoint.save({})
    assert list(tmp_path.iterdir()) == [path]
