"""Experiments on images: leakage, seeds, switches, scores, and runs that are stopped."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gcl_hard.core.seeds import seed_for
from gcl_hard.errors import DivergenceError
from gcl_hard.evaluation import inner_holdout, linear_probe
from gcl_hard.evaluation.probes import ProbeRecipe
from gcl_hard.experiments.run import Run
from gcl_hard.images import Split
from gcl_hard.images import training as image_training
from gcl_hard.images.experiment import ImageExperiment
from gcl_hard.images.parts import ImageData
from gcl_hard.images.settings import IMAGE_BASELINES, ImageConfig
from gcl_hard.images.training import build, majority
from gcl_hard.losses.methods import METHODS
from tests.experiments.made import context
from tests.experiments.tiny_images import (
    Execute,
    Ran,
    Tiny,
    at,
    few_digits,
    garbage,
    runs_in,
    same_bits,
    small,
    tiny_encoder,
)
from tests.said import says

__all__ = ["tiny_encoder"]

pytestmark = pytest.mark.usefixtures("tiny_encoder")


@pytest.fixture
def digits() -> ImageData:
    return few_digits()


@pytest.fixture
def run(tmp_path: Path) -> Execute:
    return runs_in(tmp_path)


# Leakage


@pytest.mark.parametrize("method", [*METHODS, "supervised"])
def test_garbage_in_test_images_changes_their_accuracy_alone(
    method: str, run: Execute, digits: ImageData
) -> None:
    clean = run(small(method))
    ruined = run(small(method), replace(digits, test=garbage(digits.test)))
    assert same_bits(clean.weights, ruined.weights)
    for name in ("mean", "std"):
        assert clean.saved[name] == ruined.saved[name]
    assert len(clean.trained.curve) == (10 if method == "supervised" else 2)
    assert clean.trained.curve == ruined.trained.curve
    assert clean.trained.losses == ruined.trained.losses
    score, other = clean.score, ruined.score
    assert (score.chosen, score.inner_accuracy) == (other.chosen, other.inner_accuracy)
    assert score.accuracy != other.accuracy


@pytest.mark.parametrize("method", ["ucl", "hscl", "supervised"])
def test_garbage_in_the_held_out_fifth_leaves_the_encoder_bit_identical(
    method: str, run: Execute, digits: ImageData
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
    assert clean.score.chosen == other.score.chosen
    assert clean.score.n_test == 24
    seen = [run(small(method), data, seed=seed).weights for data in (digits, ruined)]
    assert not same_bits(*seen)


def test_labels_of_the_held_out_fifth_leave_the_encoder_bit_identical(
    run: Execute, digits: ImageData
) -> None:
    inner = digits.held_out(3)
    as_split = replace(digits, pretrain=inner.pretrain, probe=inner.probe)
    for test in (inner.test, garbage(inner.test)):
        ran = run(small(), replace(as_split, test=test))
        assert same_bits(ran.weights, run(small(), inner=True).weights)


def test_the_test_images_are_not_read_by_an_inner_run(run: Execute, digits: ImageData) -> None:
    result = run(small(), inner=True)
    other = run(small(), replace(digits, test=garbage(digits.test)), inner=True)
    assert result.score == other.score
    assert result.trained.curve == other.trained.curve
    assert same_bits(result.weights, other.weights)


@pytest.mark.parametrize("method", METHODS)
def test_training_labels_are_read_by_label_aware_methods_alone(
    method: str, run: Execute, digits: ImageData
) -> None:
    relabelled = Split(digits.pretrain.images, digits.pretrain.labels.flip(0))
    other = run(small(method), replace(digits, pretrain=relabelled))
    same = same_bits(run(small(method)).weights, other.weights)
    assert same is not METHODS[method].label_aware


def test_one_training_image_changes_the_encoder(run: Execute, digits: ImageData) -> None:
    first = torch.tensor([0])
    other = at(digits.pretrain, first, garbage(digits.pretrain.take(first)))
    assert not same_bits(
        run(small("ucl")).weights, run(small("ucl"), replace(digits, pretrain=other)).weights
    )


# Seeds


def test_a_seed_is_its_bits_and_the_global_random_state_is_left(run: Execute) -> None:
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    result = run(small())
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002
    torch.manual_seed(6)
    again, other = run(small()), run(small(), seed=4)
    assert same_bits(result.weights, again.weights)
    assert (result.score, result.trained.curve) == (again.score, again.trained.curve)
    assert not same_bits(result.weights, other.weights)


def test_dropout_draws_what_the_seed_says(run: Execute, monkeypatch: pytest.MonkeyPatch) -> None:
    class Dropping(Tiny):
        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.dropout(super().forward(x), training=self.training)

    monkeypatch.setattr(image_training, "image_encoder", lambda name, stem, width: Dropping())
    torch.manual_seed(5)
    result = run(small())
    torch.manual_seed(6)
    again, other = run(small()), run(small(), seed=4)
    assert same_bits(result.weights, again.weights)
    assert not same_bits(result.weights, other.weights)


def test_all_methods_start_from_the_same_weights(digits: ImageData) -> None:
    def start(method: str, seed: int = 1) -> dict[str, Tensor]:
        model = build(small(method), digits, seed).model
        return {k: v for k, v in model.state_dict().items() if k.startswith(("encoder", "head"))}

    plain = start("ucl")
    assert any(key.startswith("head") for key in plain)
    for method in [*METHODS, "untrained"]:
        assert same_bits(start(method), plain)
    assert not same_bits(start("ucl", seed=2), plain)


def test_the_batch_order_is_that_of_data_seed_alone(run: Execute) -> None:
    result, other = run(small("ucl")), run(small("ucl", data_seed=1))
    assert not same_bits(result.weights, other.weights)


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
def test_a_switch_trains_another_encoder(settings: dict[str, Any], run: Execute) -> None:
    plain = run(small(settings.get("method", "hscl")))
    ran = run(small(**settings))
    assert all(weight.isfinite().all() for weight in ran.weights.values())
    assert not same_bits(plain.weights, ran.weights)
    assert 0 <= ran.score.accuracy <= 1
    assert np.isfinite(ran.trained.losses).all()


def test_workers_change_nothing(run: Execute) -> None:
    result, other = run(small()), run(small(), loader_workers=1)
    assert same_bits(result.weights, other.weights)
    assert result.score == other.score
    assert result.trained.losses == other.trained.losses
    assert result.trained.curve == other.trained.curve


def test_progress_counts_epochs_and_their_parts(run: Execute) -> None:
    epochs = [2 * share for share, _ in run(small()).reports]
    assert epochs == pytest.approx([0, 1 / 3, 2 / 3, 1, 1, 4 / 3, 5 / 3, 2])


def test_embeddings_that_are_not_finite_are_no_result(
    run: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_ = image_training.build

    def broken(*arguments: Any) -> Any:
        encoding = build_(*arguments)
        encoding.model.encoder[1].running_var.fill_(float("nan"))
        return encoding

    monkeypatch.setattr(image_training, "build", broken)
    with pytest.raises(DivergenceError, match=r"embeddings\b.*\bfinite\b.*digits untrained"):
        run(small("untrained"))


# Baselines


def test_majority_is_the_share_of_the_most_frequent_training_class() -> None:
    def split(labels: list[int]) -> Split:
        return Split(torch.zeros(len(labels), 3, 4, 4, dtype=torch.uint8), torch.tensor(labels))

    train, test = split([2, 1, 1, 2, 0]), split([1, 1, 1, 2, 0, 2, 2, 2])
    data = ImageData("mine", train, train, test, torch.arange(5), ("a", "b", "c"))
    score = majority(data)
    assert score.accuracy == 3 / 8  # 1 and 2 are equally frequent: the first
    assert (score.n_train, score.n_test, score.chosen) == (5, 8, None)
    assert (score.test.tolist(), score.predicted.tolist()) == ([*range(8)], [1] * 8)


@pytest.mark.parametrize("solver", ["adam", "logistic"])
def test_pixels_are_probed_as_they_are(solver: Any, run: Execute, digits: ImageData) -> None:
    config = small("pixels", probe=solver)
    rows = [part.images.numpy() / 255 for part in (digits.probe, digits.test)]
    mean, std = (f(rows[0], axis=(0, 2, 3), keepdims=True) for f in (np.mean, np.std))
    train, test = (((x - mean) / std).reshape(len(x), -1).astype(np.float32) for x in rows)
    expected = linear_probe(
        train, digits.probe.labels.numpy(), test, digits.test.labels.numpy(),
        seed=seed_for(3, 1) % 2**32,
        recipe=ProbeRecipe(solver=solver, rates=config.probe_lr, epochs=config.probe_epochs),
    )  # fmt: skip
    score = run(config).score
    assert score.chosen == expected.chosen
    assert score.accuracy == pytest.approx(expected.accuracy, abs=1.01 / len(test))
    assert score.test is not None
    assert score.test.tolist() == [*range(len(test))]
    assert score.accuracy == np.mean(score.predicted == digits.test.labels.numpy())


def test_test_images_that_are_training_images_are_counted(digits: ImageData) -> None:
    def advice(images: Tensor) -> str:
        data = replace(digits, test=Split(images, digits.test.labels))
        return ImageExperiment().advice(ImageConfig(dataset="digits"), data) or ""

    images = digits.test.images.clone()
    assert not says(advice(images), "test images are training images")
    images[:3] = digits.pretrain.images[[5, 5, 0]]
    assert says(advice(images), f"3 of {len(images)} test images", "training images")
    images[0, 0, 0, 0] ^= 1
    assert says(advice(images), f"2 of {len(images)} test images", "training images")


@pytest.mark.parametrize("baseline", IMAGE_BASELINES)
def test_baselines_read_nothing_of_the_test_images_but_the_score(
    baseline: str, run: Execute, digits: ImageData
) -> None:
    score = run(small(baseline)).score
    other = run(small(baseline), replace(digits, test=garbage(digits.test))).score
    assert (score.chosen, score.inner_accuracy) == (other.chosen, other.inner_accuracy)


# The curve and the encoder


@pytest.mark.parametrize(
    ("every", "epochs", "points"), [(0, 2, []), (1, 2, [1, 2]), (2, 5, [2, 4, 5]), (9, 2, [2])]
)
def test_the_curve_has_points_now_and_then_and_at_the_end(
    every: int, epochs: int, points: list[int], run: Execute
) -> None:
    ran = run(small("ucl", epochs=epochs), monitor_every=every)
    assert [epoch for epoch, _ in ran.trained.curve] == points


def test_monitoring_changes_nothing(run: Execute) -> None:
    result, other = run(small(), monitor_every=0), run(small(), monitor_every=1)
    assert same_bits(result.weights, other.weights)
    assert result.score == other.score


def embedded(ran: Ran, split: Split) -> np.ndarray:
    """What the saved encoder makes of images, normalised as the file says."""
    encoder = Tiny()
    encoder.load_state_dict(ran.weights)
    encoder.eval()
    mean, std = (torch.tensor(ran.saved[name]).view(3, 1, 1) for name in ("mean", "std"))
    with torch.no_grad():
        embedded: np.ndarray = encoder((split.images.float() / 255 - mean) / std).numpy()
    return embedded


def test_the_last_point_is_a_vote_of_training_images_for_held_out_ones(
    run: Execute, digits: ImageData
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
    assert ran.trained.curve[-1] == (2, pytest.approx(expected))


def test_too_few_images_for_a_curve_are_trained_on_without(run: Execute, digits: ImageData) -> None:
    rows = torch.cat([(digits.probe.labels == c).nonzero().flatten()[:4] for c in range(10)])
    few = digits.probe.take(rows)
    ran = run(small(batch_size=20, probe_lr=(0.01,)), replace(digits, pretrain=few, probe=few))
    assert ran.trained.curve == ()
    assert len(ran.trained.losses) == 1


def test_a_saved_encoder_gives_the_embeddings_that_were_scored(
    run: Execute, digits: ImageData, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored: list[np.ndarray] = []
    probe = image_training.linear_probe

    def spy(train: Any, known: Any, test: Any, asked: Any, **more: Any) -> Any:
        scored.extend((train, test))
        return probe(train, known, test, asked, **more)

    monkeypatch.setattr(image_training, "linear_probe", spy)
    ran = run(small())
    for z, part in zip(scored, (digits.probe, digits.test), strict=True):
        np.testing.assert_allclose(embedded(ran, part), z, rtol=1e-5, atol=1e-6)
    assert ran.saved["seed"] == 3
    config = json.loads(json.dumps(ran.saved["config"]))
    assert config == json.loads(json.dumps(asdict(small())))


# Runs that are stopped


@pytest.mark.parametrize("after", [2, 4, 5])
def test_training_that_is_asked_to_stop_saves_a_checkpoint_first(
    after: int, tmp_path: Path, digits: ImageData
) -> None:
    """Whatever the time between checkpoints: by Ctrl-C, that is."""
    run, shares = Run(small(class_pairs=True), 3), list[float]()
    options = {"save_encoder": True, "monitor_every": 1}

    def execute(folder: str, stop: int, **more: Any) -> Any:
        def report(run: Run, share: float, loss: float) -> bool:
            shares.append(share)
            return len(shares) < stop

        where = context(tmp_path / folder, **options, **more)
        where.output.mkdir(exist_ok=True)
        shares.clear()
        (trained,) = ImageExperiment().train([run], digits, where, report)
        return trained

    with pytest.raises(KeyboardInterrupt):
        execute("stopped", after)
    assert len(shares) <= after + 2
    assert [path.suffix for path in (tmp_path / "stopped").iterdir()] == [".ckpt"]
    resumed, whole = execute("stopped", 99), execute("whole", 99)
    for name in ("losses", "curve"):
        assert getattr(resumed, name) == getattr(whole, name)
    for embedding, other in zip(resumed.embeddings, whole.embeddings, strict=True):
        np.testing.assert_array_equal(embedding, other)
    assert same_bits(*(run_result.encoders["encoder"] for run_result in (resumed, whole)))
