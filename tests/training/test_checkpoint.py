"""Checkpoints: resumed runs against undisturbed ones, bit by bit, and files that cannot be used."""

from __future__ import annotations

import json
import math
import random
import signal
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from gcl_hard import DivergenceError, InputError
from gcl_hard.training import checkpoint as module
from gcl_hard.training.checkpoint import Checkpoint
from gcl_hard.training.loop import Optimisation, train

RUN = {"method": "hscl", "lr": 0.01, "views": ("crop", "flip"), "temperature": None}
PER_EPOCH = 5  # batches
X = torch.linspace(-1, 1, 6 * PER_EPOCH * 3).reshape(-1, 3)
Y = X.sum(1, keepdim=True).sin()


class Stopped(Exception):  # noqa: N818
    """Stands for the process being killed."""


class Noisy(nn.Module):
    """BatchNorm, dropout, and a draw from every global generator at each batch."""

    def __init__(self, width=4, stop_at=math.inf):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(3, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.3),
            nn.Linear(width, 1),
        )  # fmt: skip
        self.calls, self.stop_at = 0, stop_at

    def forward(self, batch):
        self.calls += 1
        x, y = (part.to(self.net[0].weight.device) for part in batch)
        noise = torch.randn_like(x) * random.random() * np.random.rand()  # noqa: NPY002
        if self.calls >= self.stop_at:
            raise Stopped
        return (self.net(x + noise) - y).square().mean()


def lazily(epoch):
    """Order and noise from the global generator, each as it is needed."""
    for rows in torch.randperm(len(X)).split(6):
        yield X[rows] + 0.1 * torch.randn(1), Y[rows]


def eagerly(epoch):
    return list(lazily(epoch))


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)


def fit(checkpoint, *, seed=0, batches=lazily, stop_at=math.inf, device="cpu", notes=None, **how):
    """Train; the weights at the start and every global generator come from the seed."""
    seed_everything(seed)
    model = Noisy(stop_at=stop_at).to(device)

    def noted(epoch, mean):
        if checkpoint is not None:
            checkpoint.notes.setdefault("curve", []).append((epoch, np.float64(mean)))

    defaults = {"lr": 0.05, "weight_decay": 0.01, "lr_schedule": "cosine"}
    losses = train(
        model, batches, Optimisation(4, **(defaults | how)), device=device, checkpoint=checkpoint,
        on_epoch=noted,
    )  # fmt: skip
    return model, losses


def read(path):
    return torch.load(path, weights_only=True)


def same(one, other):
    """Equal to the bit, whatever tensors and containers are nested in."""
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def check_resumed(tmp_path, stop_at, resumes_after, **how):
    whole, disturbed = tmp_path / "whole", tmp_path / "disturbed"
    model, losses = fit(Checkpoint(whole, RUN), **how)
    with pytest.raises(Stopped):
        fit(Checkpoint(disturbed, RUN, every=0), stop_at=stop_at, **how)
    again = Checkpoint(disturbed, RUN, resume=True, every=0)
    resumed, resumed_losses = fit(again, seed=99, **how)
    assert resumed.calls == 4 * PER_EPOCH - resumes_after
    assert resumed_losses == losses
    assert same(resumed.state_dict(), model.state_dict())
    # optimiser, schedule, means, notes, and where every generator stands
    assert same(read(disturbed), read(whole))


@pytest.mark.parametrize("batches", [lazily, eagerly])
@pytest.mark.parametrize(
    ("stop_at", "resumes_after", "how"),
    [
        (2 * PER_EPOCH + 1, 2 * PER_EPOCH, {}),  # between epochs
        (PER_EPOCH + 4, PER_EPOCH + 3, {}),
        (PER_EPOCH + 4, PER_EPOCH + 3, {"lr_schedule": "constant"}),
        (2 * PER_EPOCH + 1, 2 * PER_EPOCH, {"accumulate": 2}),
        (PER_EPOCH + 4, PER_EPOCH + 2, {"accumulate": 2}),  # the second batch of a group
        (3 * PER_EPOCH, 3 * PER_EPOCH - 1, {"accumulate": 2}),  # the last group, of one
        (PER_EPOCH + 4, PER_EPOCH + 2, {"accumulate": 2, "precision": "bf16-mixed"}),
    ],
)
def test_resumed_is_undisturbed_to_the_bit(tmp_path, stop_at, resumes_after, how, batches):
    check_resumed(tmp_path, stop_at, resumes_after, batches=batches, **how)


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


def test_stopped_twice(tmp_path):
    path = tmp_path / "run.ckpt"
    _, losses = fit(None)
    with pytest.raises(Stopped):
        fit(Checkpoint(path, RUN, every=0), stop_at=PER_EPOCH + 3)
    with pytest.raises(Stopped):  # in the same epoch
        fit(Checkpoint(path, RUN, resume=True, every=0), seed=1, stop_at=3)
    assert fit(Checkpoint(path, RUN, resume=True), seed=2)[1] == losses


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


def emptied(path):
    path.write_bytes(b"")


def of_text(path):
    path.write_text("epoch: 3")


def of_others(path):
    torch.save({"weights": torch.ones(1)}, path)


def a_tensor(path):
    torch.save(torch.ones(1), path)


def with_code(path):
    torch.save({"schema_version": 1, "run": RUN, "notes": Path("x"), "state": {}}, path)


@pytest.mark.parametrize("spoil", [emptied, of_text, of_others, a_tensor, with_code])
def test_what_is_no_checkpoint_is_refused(tmp_path, spoil):
    path = tmp_path / "run.ckpt"
    fit(Checkpoint(path, RUN))
    spoil(path)
    with pytest.raises(InputError, match=r"run\.ckpt is truncated or no checkpoint .*remove it"):
        fit(Checkpoint(path, RUN, resume=True))


@pytest.mark.parametrize("part", [0.01, 0.3, 0.5, 0.9, 0.999])
def test_what_is_truncated_is_refused(tmp_path, part):
    path = tmp_path / "run.ckpt"
    Checkpoint(path, RUN).save({"weights": torch.ones(10_000)})
    path.write_bytes(path.read_bytes()[: int(part * path.stat().st_size)])
    with pytest.raises(InputError, match=r"run\.ckpt is truncated or no checkpoint .*remove it"):
        Checkpoint(path, RUN, resume=True).load()


def test_what_cannot_be_opened_is_named(tmp_path):
    with pytest.raises(InputError, match=f"cannot read {tmp_path}"):
        Checkpoint(tmp_path, RUN, resume=True).load()


def changed(path, **fields):
    torch.save(read(path) | fields, path)


def test_a_newer_version_is_refused(tmp_path):
    path = tmp_path / "run.ckpt"
    fit(Checkpoint(path, RUN))
    changed(path, schema_version=module.SCHEMA_VERSION + 1, notes=None, state=None)
    with pytest.raises(InputError, match=r"run\.ckpt .*version 2.*upgrade gcl_hard.*start over"):
        fit(Checkpoint(path, RUN, resume=True))


def test_another_run_is_named_setting_by_setting(tmp_path):
    path = tmp_path / "run.ckpt"
    fit(Checkpoint(path, RUN | {"old": 1}))
    with pytest.raises(InputError, match=r"run\.ckpt is of another run") as caught:
        fit(Checkpoint(path, RUN | {"lr": 0.5, "views": ["crop"]}, resume=True))
    said = str(caught.value)
    assert "lr 0.01 there, 0.5 here" in said
    assert "views ['crop', 'flip'] there, ['crop'] here" in said
    assert "old 1 there, None here" in said
    assert "remove it to start over" in said
    assert "method" not in said
    assert "force" not in said


def test_at_most_five_settings_are_named(tmp_path):
    path = tmp_path / "run.ckpt"
    fit(Checkpoint(path, {f"s{i}": i for i in range(7)}))
    with pytest.raises(InputError) as caught:
        fit(Checkpoint(path, {f"s{i}": -1 for i in range(7)}, resume=True))
    assert [f"s{i} {i} there" in str(caught.value) for i in range(7)] == [True] * 5 + [False] * 2
    assert "and 2 more" in str(caught.value)


def test_weights_that_do_not_fit_are_named(tmp_path):
    path = tmp_path / "run.ckpt"
    fit(Checkpoint(path, RUN))
    with pytest.raises(InputError, match=r"run\.ckpt.*net\.0\.weight.*remove it to start over"):
        train(
            Noisy(width=5), lazily, Optimisation(4), checkpoint=Checkpoint(path, RUN, resume=True)
        )


def test_fewer_batches_than_were_trained_on_are_refused(tmp_path):
    path = tmp_path / "run.ckpt"
    with pytest.raises(Stopped):
        fit(Checkpoint(path, RUN, every=0), stop_at=4)
    with pytest.raises(InputError, match=r"run\.ckpt.*3 batches into epoch 1.*has only 2"):
        fit(Checkpoint(path, RUN, resume=True), batches=lambda epoch: eagerly(epoch)[:2])


class Line(nn.Module):
    """A line through the origin; a batch that is 0 has a finite loss and no finite gradient."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(()))

    def forward(self, batch):
        return (self.w * batch).sqrt()


@pytest.mark.parametrize("bad", [math.inf, 0.0])
def test_what_is_not_finite_is_never_saved(tmp_path, bad):
    path = tmp_path / "run.ckpt"

    def batches(epoch):
        return [torch.tensor(bad if (epoch, i) == (2, 1) else 1.0) for i in range(4)]

    with pytest.raises(DivergenceError, match="epoch 2, batch"):
        train(Line(), batches, Optimisation(3), checkpoint=Checkpoint(path, RUN, every=0))
    state = read(path)["state"]
    assert (state["epoch"], state["step"]) == (2, 1)
    assert state["model"]["w"].isfinite()
    assert all(loss.isfinite() for loss in state["losses"])


def test_a_place_that_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write .*run\.ckpt"):
        fit(Checkpoint(tmp_path / "file" / "run.ckpt", RUN))


@pytest.mark.parametrize("every", [-1.0, math.nan])
def test_time_between_writes_is_checked(tmp_path, every):
    with pytest.raises(InputError, match="every must be at least 0 seconds"):
        Checkpoint(tmp_path / "run.ckpt", RUN, every=every)


def test_a_run_is_words_and_numbers(tmp_path):
    with pytest.raises(InputError, match="run"):
        Checkpoint(tmp_path / "run.ckpt", {"device": torch.device("cpu")})


def test_run_and_notes_are_as_json_has_them(tmp_path):
    path = tmp_path / "run.ckpt"
    checkpoint = Checkpoint(path, RUN | {"rate": np.float64(0.1)})
    checkpoint.notes["points"] = [(1, np.float64(0.5))]
    checkpoint.save({})
    stored = read(path)
    assert stored["run"] == json.loads(json.dumps(RUN | {"rate": 0.1}))
    assert stored["notes"] == {"points": [[1, 0.5]]}
