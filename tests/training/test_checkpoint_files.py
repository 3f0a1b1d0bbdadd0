"""Checkpoint files that cannot be used, and states that are not saved."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from gcl_hard import DivergenceError, InputError
from gcl_hard.training import checkpoint as module
from gcl_hard.training.checkpoint import Checkpoint
from gcl_hard.training.loop import Optimisation, train
from tests.training.runs import (
    RUN,
    Noisy,
    Stopped,
    eagerly,
    fit,
    lazily,
    read,
)


def with_text(path):
    path.write_text("epoch: 3")


def with_code(path):
    torch.save({"schema_version": 1, "run": RUN, "notes": Path("x"), "state": {}}, path)


@pytest.mark.parametrize("spoil", [with_text, with_code])
def test_what_is_no_checkpoint_is_refused(tmp_path, spoil):
    path = tmp_path / "run.ckpt"
    fit(Checkpoint(path, RUN))
    spoil(path)
    with pytest.raises(InputError, match=r"run\.ckpt\b.*\bdamaged\b.*\bremove\b"):
        fit(Checkpoint(path, RUN, resume=True))


@pytest.mark.parametrize("part", [0.01, 0.999])
def test_what_is_truncated_is_refused(tmp_path, part):
    path = tmp_path / "run.ckpt"
    Checkpoint(path, RUN).save({"weights": torch.ones(10_000)})
    path.write_bytes(path.read_bytes()[: int(part * path.stat().st_size)])
    with pytest.raises(InputError, match=r"run\.ckpt\b.*\bdamaged\b.*\bremove\b"):
        Checkpoint(path, RUN, resume=True).load()


def test_what_cannot_be_opened_is_named(tmp_path):
    with pytest.raises(InputError, match=rf"{tmp_path}: Is a directory"):
        Checkpoint(tmp_path, RUN, resume=True).load()


def changed(path, **fields):
    torch.save(read(path) | fields, path)


def test_a_newer_version_is_refused(tmp_path):
    path = tmp_path / "run.ckpt"
    fit(Checkpoint(path, RUN))
    changed(path, schema_version=module.SCHEMA_VERSION + 1, notes=None, state=None)
    with pytest.raises(InputError, match=r"run\.ckpt\b.*\bversion [0-9]+\b.*\bupgrade\b.*gcl_hard"):
        fit(Checkpoint(path, RUN, resume=True))


def test_another_run_is_named_setting_by_setting(tmp_path):
    path = tmp_path / "run.ckpt"
    fit(Checkpoint(path, RUN | {"old": 1}))
    with pytest.raises(InputError, match=r"run\.ckpt\b") as caught:
        fit(Checkpoint(path, RUN | {"lr": 0.5, "views": ["crop"]}, resume=True))
    assert all(name in str(caught.value) for name in ("lr", "views", "old"))
    assert "method" not in str(caught.value)


def test_weights_that_do_not_fit_are_named(tmp_path):
    path = tmp_path / "run.ckpt"
    fit(Checkpoint(path, RUN))
    with pytest.raises(InputError, match=r"run\.ckpt\b.*net\.0\.weight\b.*\bremove\b"):
        train(
            Noisy(width=5), lazily, Optimisation(4), checkpoint=Checkpoint(path, RUN, resume=True)
        )


def test_fewer_batches_than_were_trained_on_are_refused(tmp_path):
    path = tmp_path / "run.ckpt"
    with pytest.raises(Stopped):
        fit(Checkpoint(path, RUN, every=0), stop_at=4)
    with pytest.raises(InputError, match=r"run\.ckpt\b.*\b3 batches\D+epoch 1\b\D+2\b.*\bremove\b"):
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
    with pytest.raises(InputError, match=r"\bwrite\b.*run\.ckpt\b"):
        fit(Checkpoint(tmp_path / "file" / "run.ckpt", RUN))


@pytest.mark.parametrize("every", [-1.0, math.nan])
def test_time_between_writes_is_checked(tmp_path, every):
    with pytest.raises(InputError, match=rf"^every\b\D+0\D+{every}$"):
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
