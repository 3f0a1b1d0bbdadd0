"""How images are scored: floors, the monitoring curve, and the encoder that is kept."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gcl_hard.experiments.image_cell import FLOORS
from gcl_hard.experiments.image_protocol import majority

from gcl_hard.evaluation import inner_holdout, linear_probe
from gcl_hard.evaluation.probes import ProbeRecipe
from gcl_hard.experiments import image_protocol
from gcl_hard.experiments.image_data import ImageData
from gcl_hard.images import Split
from gcl_hard.seeds import seed_for
from tests.experiments.tiny_images import (
    Ran,
    Run,
    Tiny,
    few_digits,
    garbage,
    runs_in,
    same_bits,
    small,
)


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_protocol, "resnet", lambda name, stem: Tiny())


@pytest.fixture
def digits() -> ImageData:
    return few_digits()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return runs_in(tmp_path)


# Floors


def test_majority_is_the_share_of_the_most_frequent_training_class() -> None:
    def split(labels: list[int]) -> Split:
        return Split(torch.zeros(len(labels), 3, 4, 4, dtype=torch.uint8), torch.tensor(labels))

    train, test = split([2, 1, 1, 2, 0]), split([1, 1, 1, 2, 0, 2, 2, 2])
    data = ImageData("mine", train, train, test, torch.arange(5), 3)
    score = majority(data)
    assert score.accuracy == 3 / 8  # 1 and 2 are equally frequent: the first
    assert (score.n_train, score.n_test, score.chosen) == (5, 8, None)


def test_majority_of_a_data_set_equals_counting(run: Run, digits: ImageData) -> None:
    counts = np.bincount(digits.probe.labels.numpy())
    expected = np.mean(digits.test.labels.numpy() == counts.argmax())
    ran = run(small("majority"))
    assert ran.score.folds[0].accuracy == pytest.approx(expected)
    assert (ran.score.final_losses, ran.score.curve, ran.saved) == ((), (), {})


@pytest.mark.parametrize("solver", ["adam", "logistic"])
def test_pixels_are_probed_as_they_are(solver: Any, run: Run, digits: ImageData) -> None:
    cell = small("pixels", probe=solver)
    rows = [part.images.numpy() / 255 for part in (digits.probe, digits.test)]
    mean, std = (f(rows[0], axis=(0, 2, 3), keepdims=True) for f in (np.mean, np.std))
    train, test = (((x - mean) / std).reshape(len(x), -1).astype(np.float32) for x in rows)
    expected = linear_probe(
        train, digits.probe.labels.numpy(), test, digits.test.labels.numpy(),
        seed=seed_for(3, 1) % 2**32,
        recipe=ProbeRecipe(solver=solver, rates=cell.probe_lr, epochs=cell.probe_epochs),
    )  # fmt: skip
    found = run(cell).score.folds[0]
    assert found.chosen == expected.chosen
    assert found.accuracy == pytest.approx(expected.accuracy, abs=1.01 / len(test))


def test_an_untrained_encoder_is_scored_without_training(run: Run) -> None:
    ran = run(small("untrained"))
    assert (ran.score.final_losses, ran.score.curve, ran.calls) == ((), (), [])
    assert not list(ran.place.record.parent.iterdir())


@pytest.mark.parametrize("floor", FLOORS)
def test_floors_read_nothing_of_the_test_images_but_the_score(
    floor: str, run: Run, digits: ImageData
) -> None:
    one = run(small(floor)).score.folds[0]
    other = run(small(floor), replace(digits, test=garbage(digits.test))).score.folds[0]
    assert (one.chosen, one.inner_accuracy) == (other.chosen, other.inner_accuracy)


# The curve and the encoder


@pytest.mark.parametrize(
    ("every", "epochs", "points"), [(0, 2, []), (1, 2, [1, 2]), (2, 5, [2, 4, 5]), (9, 2, [2])]
)
def test_the_curve_has_points_now_and_then_and_at_the_end(
    every: int, epochs: int, points: list[int], run: Run
) -> None:
    ran = run(small("ucl", epochs=epochs), monitor_every=every)
    assert [epoch for epoch, _ in ran.score.curve] == points


def test_monitoring_changes_nothing(run: Run) -> None:
    one, other = run(small(), monitor_every=0), run(small(), monitor_every=1)
    assert same_bits(one.weights, other.weights)
    assert one.score.folds == other.score.folds


def embedded(ran: Ran, split: Split) -> np.ndarray:
    """What the saved encoder makes of images, normalised as the file says."""
    encoder = Tiny()
    encoder.load_state_dict(ran.weights)
    encoder.eval()
    mean, std = (torch.tensor(ran.saved[name]).view(3, 1, 1) for name in ("mean", "std"))
    with torch.no_grad():
        found: np.ndarray = encoder((split.images.float() / 255 - mean) / std).numpy()
    return found


def test_the_last_point_is_a_vote_of_training_images_for_held_out_ones(
    run: Run, digits: ImageData
) -> None:
    ran = run(small())
    labels = digits.probe.labels.numpy()
    fold = inner_holdout(np.arange(120), labels, seed=0, fraction=0.1)
    z = embedded(ran, digits.probe).astype(np.float64)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    votes = np.zeros((12, 10))
    for row, i in enumerate(fold.test):  # all of the 108 others vote: fewer than 200
        for j in fold.train:
            votes[row, labels[j]] += np.exp(z[i] @ z[j] / 0.5)
    expected = 100 * np.mean(votes.argmax(1) == labels[fold.test])
    assert ran.score.curve[-1] == (2, pytest.approx(expected))


def test_an_inner_run_has_no_curve(run: Run) -> None:
    assert run(small(), inner=True).score.curve == ()


def test_too_few_images_for_a_curve_are_trained_on_without(run: Run, digits: ImageData) -> None:
    rows = torch.cat([(digits.probe.labels == c).nonzero().flatten()[:4] for c in range(10)])
    few = digits.probe.take(rows)
    ran = run(small(batch_size=20, probe_lr=(0.01,)), replace(digits, pretrain=few, probe=few))
    assert ran.score.curve == ()
    assert len(ran.score.final_losses) == 1


def test_a_saved_encoder_gives_the_embeddings_that_were_scored(
    run: Run, digits: ImageData, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored: list[np.ndarray] = []
    probe = image_protocol.linear_probe

    def spy(train: Any, known: Any, test: Any, asked: Any, **more: Any) -> Any:
        scored.extend((train, test))
        return probe(train, known, test, asked, **more)

    monkeypatch.setattr(image_protocol, "linear_probe", spy)
    ran = run(small())
    for z, part in zip(scored, (digits.probe, digits.test), strict=True):
        np.testing.assert_allclose(embedded(ran, part), z, rtol=1e-5, atol=1e-6)
    assert ran.saved["seed"] == 3
    config = json.loads(json.dumps(ran.saved["config"]))
    assert config == json.loads(json.dumps(asdict(small())))


def test_no_encoder_is_kept_unless_asked_for(run: Run) -> None:
    assert run(small("ucl"), save_encoder=False).saved == {}
