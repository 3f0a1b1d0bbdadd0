"""Inner and outer scores of images, against the cells that bench runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gcl_hard.experiments.image_cell import ImageCell
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from gcl_hard.errors import DivergenceError, OutOfMemory
from gcl_hard.experiments import image_protocol
from gcl_hard.tuning import image_part
from gcl_hard.tuning.image_part import ImageOuter, ImagePart
from gcl_hard.tuning.part import Candidate, Inner, Local, Score, Watch
from tests.experiments.tiny_images import Run, Tiny, few_digits, runs_in, small

LOCAL = Local(torch.device("cpu"), threads=1)
FEW: dict[str, Any] = {"epochs": 5, "probe_epochs": 5, "lr_schedule": "constant"}


class Steps:
    """How many batches have been trained on."""

    def __init__(self) -> None:
        self.count = 0

    def encoder(self, name: str, stem: str) -> nn.Module:
        found = Tiny()
        found.register_forward_pre_hook(self._step)
        return found

    def _step(self, encoder: nn.Module, _: Any) -> None:
        self.count += encoder.training


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    found = Steps()
    monkeypatch.setattr(image_protocol, "resnet", found.encoder)
    return found


@pytest.fixture
def bench(tmp_path: Path) -> Run:
    return runs_in(tmp_path)


def scores(cells: list[ImageCell], inner: Inner, watch: Watch | None = None) -> list[Score]:
    part = ImagePart(few_digits(), LOCAL, inner)
    candidates = [Candidate(10 * n, cell) for n, cell in enumerate(cells)]
    found = list(part.scores(candidates, inner, watch or Notes()))
    assert [score.number for score in found] == [one.number for one in candidates]
    return found


class Notes:
    """Notes what is reported; one candidate leaves after a step."""

    def __init__(self, leaving: tuple[int, int] | None = None) -> None:
        self.leaving = leaving
        self.reported: list[tuple[int, int, float]] = []
        self.shares: list[tuple[int, float]] = []

    def progress(self, number: int, share: float) -> None:
        self.shares.append((number, share))

    def report(self, number: int, step: int, score: float) -> bool:
        self.reported.append((number, step, score))
        return (number, step) != self.leaving


def test_an_inner_score_is_that_of_benchs_inner_hold_out(bench: Run) -> None:
    cells = [small(probe_epochs=10), small(probe_epochs=10, method="ucl", lr=0.01)]
    found = scores(cells, Inner(seed=3))
    for cell, score in zip(cells, found, strict=True):
        (fold,) = bench(cell, inner=True, seed=3).score.folds
        assert score == Score(score.number, 100 * fold.accuracy)
    assert found[0].accuracy != found[1].accuracy


def test_an_outer_score_is_benchs_score_on_the_test_images(bench: Run) -> None:
    outer = ImageOuter(few_digits(), LOCAL, Inner(seed=3))
    (fold,) = bench(small(), seed=3).score.folds
    assert outer.n_test == fold.n_test == 60
    assert outer.score(Candidate(0, small()), 3) == 100 * fold.accuracy


def test_hold_outs_are_a_fifth_hidden_from_training_and_drawn_anew() -> None:
    data = few_digits()
    inner = Inner(folds=3, seed=2)
    part = ImagePart(data, LOCAL, inner)
    labels = data.probe.labels.numpy()
    kept, hidden = train_test_split(
        np.arange(120), test_size=0.2, stratify=labels, random_state=2
    )  # fmt: skip
    first = part._folds[0]
    for split, ids in ((first.probe, kept), (first.pretrain, kept), (first.test, hidden)):
        assert torch.equal(split.images, data.probe.images[torch.from_numpy(np.sort(ids))])
    drawn = set()
    for fold in part._folds:
        assert (len(fold.pretrain), len(fold.probe), len(fold.test)) == (96, 96, 24)
        seen = {tuple(image.flatten().tolist()) for image in fold.pretrain.images}
        asked = frozenset(tuple(image.flatten().tolist()) for image in fold.test.images)
        assert not seen & asked
        drawn.add(asked)
    assert len(drawn) == 3
    assert part.n_scored(inner) == len(frozenset().union(*drawn))


def test_a_score_is_the_mean_over_hold_outs_each_reported_once() -> None:
    notes, inner = Notes(), Inner(folds=2, steps="folds")
    cells = [small(**FEW), small(**FEW, beta=5.0)]
    found = scores(cells, inner, notes)
    assert [one[:2] for one in notes.reported] == [(n, k) for n in (0, 10) for k in range(2)]
    for score in found:
        of_folds = [one[2] for one in notes.reported if one[0] == score.number]
        assert score.accuracy == pytest.approx(np.mean(of_folds))
    assert found == scores(cells, Inner(folds=2))


def test_a_report_is_the_score_of_training_that_ended_there(bench: Run) -> None:
    notes, inner = Notes(), Inner(steps="epochs")
    (score,) = scores([small(**FEW)], inner, notes)
    assert [one[:2] for one in notes.reported] == [(0, epoch) for epoch in inner.looks(5)]
    for _, epoch, accuracy in notes.reported:
        (fold,) = bench(small(**FEW | {"epochs": epoch}), inner=True, seed=0).score.folds
        assert accuracy == 100 * fold.accuracy
    assert [score] == scores([small(**FEW)], Inner())  # looking changes nothing


@pytest.mark.parametrize(
    ("inner", "step", "batches"),
    [(Inner(steps="epochs"), 2, 4), (Inner(folds=2, steps="folds"), 0, 10)],
)
def test_who_leaves_trains_no_further_and_the_others_keep_their_scores(
    steps: Steps, inner: Inner, step: int, batches: int
) -> None:
    notes = Notes((0, step))
    first, second = scores([small(**FEW), small(**FEW, beta=5.0)], inner, notes)
    assert first == Score(0, None)
    assert steps.count == batches + 10 * inner.folds
    assert max(at for number, at, _ in notes.reported if number == 0) == step
    assert second.accuracy == scores([small(**FEW, beta=5.0)], inner)[0].accuracy


def test_progress_rises_to_the_whole_over_hold_outs_and_epochs() -> None:
    notes = Notes()
    scores([small(**FEW), small(**FEW)], Inner(folds=2), notes)
    for number in (0, 10):
        shares = [share for of, share in notes.shares if of == number]
        assert shares == sorted(shares)
        assert {0.1, 0.5, 0.6, 1.0} <= {round(share, 9) for share in shares}


@pytest.mark.parametrize("looking", [Inner(), Inner(steps="epochs")])
def test_who_diverges_fails_alone(looking: Inner) -> None:
    cells = [small(**FEW, lr=lr) for lr in (1e-3, 1e30, 1e-2)]
    found = scores(cells, looking)
    assert isinstance(found[1].error, DivergenceError)
    assert found[1].accuracy is None
    assert [found[0].accuracy, found[2].accuracy] == [
        scores([cell], Inner())[0].accuracy for cell in (cells[0], cells[2])
    ]


def test_who_runs_out_of_memory_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Greedy(Tiny):
        def forward(self, x: Tensor) -> Tensor:
            raise torch.OutOfMemoryError("out of memory")

    kinds = iter([Tiny, Greedy, Tiny])
    monkeypatch.setattr(image_protocol, "resnet", lambda name, stem: next(kinds)())
    found = scores([small(**FEW)] * 3, Inner())
    assert isinstance(found[1].error, OutOfMemory)
    assert [score.error for score in (found[0], found[2])] == [None, None]
    assert found[0].accuracy == found[2].accuracy


def test_a_bug_is_not_taken_for_a_trial_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(image_part, "run_seed", broken)
    with pytest.raises(ZeroDivisionError):
        scores([small()], Inner())


def test_nothing_is_left_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_part.tempfile, "tempdir", str(tmp_path))
    scores([small(**FEW)], Inner(steps="epochs"), Notes((0, 2)))
    assert list(tmp_path.iterdir()) == []
