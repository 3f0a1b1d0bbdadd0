"""What an encoder of images may see: leakage, seeds and switches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gcl_hard.experiments.image_protocol import build
from torch import Tensor

from gcl_hard.errors import DivergenceError
from gcl_hard.evaluation import inner_holdout
from gcl_hard.experiments import image_protocol
from gcl_hard.experiments.image_data import ImageData
from gcl_hard.images import Split
from gcl_hard.methods import METHODS
from tests.experiments.tiny_images import (
    Run,
    Tiny,
    at,
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


# Leakage


@pytest.mark.parametrize("method", METHODS)
def test_garbage_in_test_images_changes_their_accuracy_alone(
    method: str, run: Run, digits: ImageData
) -> None:
    clean = run(small(method))
    ruined = run(small(method), replace(digits, test=garbage(digits.test)))
    assert same_bits(clean.weights, ruined.weights)
    for name in ("mean", "std"):
        assert clean.saved[name] == ruined.saved[name]
    assert len(clean.score.curve) == 2
    assert clean.score.curve == ruined.score.curve
    assert clean.score.final_losses == ruined.score.final_losses
    (one,), (other,) = clean.score.folds, ruined.score.folds
    assert (one.chosen, one.inner_accuracy) == (other.chosen, other.inner_accuracy)
    assert one.accuracy != other.accuracy


@pytest.mark.parametrize("method", ["ucl", "hscl"])
def test_garbage_in_the_held_out_fifth_leaves_the_encoder_bit_identical(
    method: str, run: Run, digits: ImageData
) -> None:
    seed = 3
    labels = digits.probe.labels.numpy()
    held_out = torch.from_numpy(inner_holdout(np.arange(120), labels, seed=seed).test)
    # one another's labels, so that the same images are held out
    swapped = garbage(digits.probe.take(held_out))
    swapped = Split(swapped.images, digits.probe.labels[held_out])
    train = at(digits.probe, held_out, swapped)
    ruined = replace(digits, pretrain=train, probe=train)
    clean = run(small(method), inner=True, seed=seed)
    other = run(small(method), ruined, inner=True, seed=seed)
    assert same_bits(clean.weights, other.weights)
    assert clean.saved["mean"] == other.saved["mean"]
    assert clean.score.folds[0].chosen == other.score.folds[0].chosen
    assert clean.score.folds[0].n_test == 24
    seen = [run(small(method), data, seed=seed).weights for data in (digits, ruined)]
    assert not same_bits(*seen)


def test_labels_of_the_held_out_fifth_leave_the_encoder_bit_identical(
    run: Run, digits: ImageData
) -> None:
    inner = digits.held_out(3)
    as_split = replace(digits, pretrain=inner.pretrain, probe=inner.probe)
    for test in (inner.test, garbage(inner.test)):
        ran = run(small(), replace(as_split, test=test))
        assert same_bits(ran.weights, run(small(), inner=True).weights)


def test_the_test_images_are_not_read_by_an_inner_run(run: Run, digits: ImageData) -> None:
    one = run(small(), inner=True)
    other = run(small(), replace(digits, test=garbage(digits.test)), inner=True)
    assert one.score.folds == other.score.folds
    assert one.score.curve == other.score.curve
    assert same_bits(one.weights, other.weights)


@pytest.mark.parametrize("method", METHODS)
def test_training_labels_are_read_by_label_aware_methods_alone(
    method: str, run: Run, digits: ImageData
) -> None:
    relabelled = Split(digits.pretrain.images, digits.pretrain.labels.flip(0))
    other = run(small(method), replace(digits, pretrain=relabelled))
    same = same_bits(run(small(method)).weights, other.weights)
    assert same is not METHODS[method].label_aware


def test_one_training_image_changes_the_encoder(run: Run, digits: ImageData) -> None:
    first = torch.tensor([0])
    other = at(digits.pretrain, first, garbage(digits.pretrain.take(first)))
    assert not same_bits(
        run(small("ucl")).weights, run(small("ucl"), replace(digits, pretrain=other)).weights
    )


# Seeds


def test_a_seed_is_its_bits_and_the_global_random_state_is_left(run: Run) -> None:
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    one = run(small())
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002
    torch.manual_seed(6)
    again, other = run(small()), run(small(), seed=4)
    assert same_bits(one.weights, again.weights)
    assert (one.score.folds, one.score.curve) == (again.score.folds, again.score.curve)
    assert not same_bits(one.weights, other.weights)


def test_all_methods_start_from_the_same_weights(digits: ImageData) -> None:
    def start(method: str, seed: int = 1) -> dict[str, Tensor]:
        model = build(small(method), digits, seed).model
        return {k: v for k, v in model.state_dict().items() if k.startswith(("encoder", "head"))}

    plain = start("ucl")
    assert any(key.startswith("head") for key in plain)
    for method in [*METHODS, "untrained"]:
        assert same_bits(start(method), plain)
    assert not same_bits(start("ucl", seed=2), plain)


def test_the_batch_order_is_that_of_data_seed_alone(run: Run) -> None:
    one, other = run(small("ucl")), run(small("ucl", data_seed=1))
    assert not same_bits(one.weights, other.weights)


# Switches


@pytest.mark.parametrize(
    "settings",
    [
        {"class_pairs": True},
        {"balanced": True},
        {"forward": "split"},
        {"accumulate": 2},
        {"precision": "bf16"},
        {"lr_schedule": "cosine"},
        {"detach_weights": True},
        {"positives": "view"},
        {"size": 12},
        {"noise": 0.1},
        {"beta": 3.0},
        {"beta_changes": 2, "beta": 2.0},
        {"method": "hscl-tau", "threshold_start": 0.5},
    ],
)
def test_a_switch_trains_another_encoder(settings: dict[str, Any], run: Run) -> None:
    plain = run(small(settings.get("method", "hscl")))
    ran = run(small(**settings))
    assert all(weight.isfinite().all() for weight in ran.weights.values())
    assert not same_bits(plain.weights, ran.weights)
    assert 0 <= ran.score.folds[0].accuracy <= 1
    assert np.isfinite(ran.score.final_losses).all()


def test_the_memory_format_changes_nothing_but_rounding(run: Run) -> None:
    one, other = run(small(epochs=1)), run(small(epochs=1, channels_last=False))
    for key, weight in one.weights.items():
        torch.testing.assert_close(weight, other.weights[key], rtol=1e-3, atol=1e-4)


def test_workers_change_nothing(run: Run) -> None:
    one, other = run(small()), run(small(), workers=1)
    assert same_bits(one.weights, other.weights)
    assert one.score.folds == other.score.folds
    assert one.score.final_losses == other.score.final_losses
    assert one.score.curve == other.score.curve


def test_progress_counts_epochs_and_their_parts(run: Run) -> None:
    calls = run(small()).calls
    assert [call[1] for call in calls] == pytest.approx([0, 1 / 3, 2 / 3, 1, 1, 4 / 3, 5 / 3, 2])
    assert {call[0] for call in calls} == {0}


def test_embeddings_that_are_not_finite_are_no_result(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_ = image_protocol.build

    def broken(*arguments: Any) -> Any:
        encoding = build_(*arguments)
        encoding.model.encoder[1].running_var.fill_(float("nan"))
        return encoding

    monkeypatch.setattr(image_protocol, "build", broken)
    with pytest.raises(DivergenceError, match="embeddings are not finite"):
        run(small("untrained"))
