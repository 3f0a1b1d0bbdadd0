"""Images under the protocol of unseen classes: what is scored, and what no encoder sees."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import t
from torch import Tensor

from gcl_hard.experiments.experiment import TrainedRun
from gcl_hard.experiments.record import RunResult, Scored
from gcl_hard.experiments.run import Run
from gcl_hard.images.experiment import ImageExperiment
from gcl_hard.images.parts import ImageData
from gcl_hard.images.settings import ImageConfig
from gcl_hard.reports.frame import Scores
from tests.experiments import tiny_images
from tests.experiments.made import context, go_on, same_bits
from tests.experiments.tiny_images import Command, few_digits, garbage, small, tiny_encoder
from tests.said import says
from tests.vectors.test_protocols import rankings

__all__ = ["tiny_encoder"]

SHARES = (0.5, 0.2, 0.3)
SEED = 3


def unseen(method: str, **settings: Any) -> ImageConfig:
    return small(method, protocol="unseen", shares=SHARES, patience=0, **settings)


def ran(
    config: ImageConfig, data: ImageData, folder: Path, *, inner: bool = False
) -> tuple[TrainedRun, Scored]:
    """In a folder of its own: none continues another's checkpoint."""
    folder /= str(len([*folder.iterdir()]))
    folder.mkdir()
    experiment, where = ImageExperiment(), context(folder, save_encoder=True)
    (trained,) = experiment.train([Run(config, SEED, inner)], data, where, go_on)
    return trained, experiment.score(trained, data, where)


def drawn(data: ImageData) -> list[np.ndarray]:
    """The classes to train on, to choose on and to test on: a permutation of the seed, cut."""
    order = np.random.default_rng(SEED).permutation(data.n_classes)
    return np.split(order, [5, 7])


def poisoned(data: ImageData, classes: np.ndarray) -> ImageData:
    """Other pixels in the images of some classes, wherever they are."""

    def images(part: Any) -> Tensor:
        hit = torch.isin(part.labels, torch.from_numpy(classes))
        return torch.where(hit[:, None, None, None], garbage(part).images, part.images)

    train = replace(data.pretrain, images=images(data.pretrain))
    test = replace(data.test, images=images(data.test))
    return replace(data, pretrain=train, probe=train, test=test)


@pytest.mark.usefixtures("tiny_encoder")
@pytest.mark.parametrize("method", ["ucl", "hscl", "supervised", "untrained", "pixels"])
def test_images_of_unseen_classes_change_no_bit_of_an_encoder(method: str, tmp_path: Path) -> None:
    data = few_digits()
    train, valid, test = drawn(data)
    config = unseen(method, class_pairs=method == "ucl")
    trained, scored = ran(config, data, tmp_path)
    other, of_other = ran(config, poisoned(data, test), tmp_path)
    assert of_other.validation == scored.validation
    assert not np.array_equal(other.embeddings[1], trained.embeddings[1])
    assert np.array_equal(other.embeddings[0], trained.embeddings[0])
    changed, _ = ran(config, poisoned(data, valid), tmp_path)
    assert np.array_equal(changed.embeddings[1], trained.embeddings[1])
    assert (trained.losses, trained.curve) == (other.losses, other.curve)
    if trained.encoders:
        for run in (other, changed):
            assert run.encoders is not None
            assert same_bits(run.encoders["encoder"], trained.encoders["encoder"])
            assert run.encoders["mean"] == trained.encoders["mean"]
        seen, _ = ran(config, poisoned(data, train[:1]), tmp_path)
        assert seen.encoders is not None
        assert not same_bits(seen.encoders["encoder"], trained.encoders["encoder"])
    _, inner = ran(config, data, tmp_path, inner=True)
    assert inner.scores(["map_at_r"])["map_at_r"] == pytest.approx(scored.validation)
    poison = poisoned(data, test)
    assert ran(config, poison, tmp_path, inner=True)[1].scores(["recall_1"]) == inner.scores(
        ["recall_1"]
    )


def test_pixels_are_ranked_as_loops_do(tmp_path: Path) -> None:
    data = few_digits()
    train, valid, test = drawn(data)
    _, scored = ran(unseen("pixels"), data, tmp_path)
    seen = np.isin(data.pretrain.labels.numpy(), train)
    pixels = data.pretrain.images.numpy()[seen] / 255
    mean, std = (f(pixels, axis=(0, 2, 3), keepdims=True) for f in (np.mean, np.std))
    expected = []
    for classes in (valid, test):
        ids = np.flatnonzero(np.isin(data.test.labels.numpy(), classes))
        z = ((data.test.images.numpy()[ids] / 255 - mean) / std).reshape(len(ids), -1)
        expected.append(rankings(z, data.test.labels.numpy()[ids]))
    (fold,) = scored.folds
    assert fold.items.tolist() == ids.tolist()
    assert fold.score("recall_1") == pytest.approx(expected[1][0])
    assert fold.score("map_at_r") == pytest.approx(expected[1][1])
    assert scored.validation == pytest.approx([expected[0][1]])


def test_supervised_training_ends_by_rankings_of_the_classes_to_choose_on(
    tmp_path: Path, tiny_encoder: None
) -> None:
    data = few_digits()
    config = replace(unseen("supervised"), patience=1, supervised_epochs=6, supervised_lr=0.5)
    trained, scored = ran(config, data, tmp_path)
    epoch = trained.facts["best_epoch"]
    best, of_best = ran(
        replace(config, patience=0, epochs=epoch, lr=0.5, supervised_epochs=None), data, tmp_path
    )
    assert of_best.validation == scored.validation
    assert trained.encoders is not None
    assert best.encoders is not None
    assert same_bits(trained.encoders["encoder"], best.encoders["encoder"])


@pytest.fixture
def command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    read = [flag for flag in tiny_images.TINY if not flag.startswith("--probe")]
    monkeypatch.setattr(tiny_images, "TINY", read)
    return Command(tmp_path, capsys, monkeypatch)


ASKED = ("--protocol=unseen", "--shares=0.5,0.2,0.3")


def test_each_seed_is_a_draw_of_classes_and_settings_are_chosen_on_its_validation_classes(
    command: Command,
) -> None:
    page = command.folder / "page.md"
    methods = "--method=scl,hscl,pixels,untrained,supervised,majority"
    assert command(
        *ASKED, methods, "--beta=1,2", "--select=true", "--seeds=3", "--save-embeddings",
        f"--report={page}",
    ) == 0  # fmt: skip
    assert not command.files("*_inner_*")
    rows: dict[tuple[str, float | None], dict[int, Any]] = {}
    for path in command.files("digits_*_seed?.json"):
        record = json.loads(path.read_text("utf-8"))
        key = record["config"]["method"], record["config"]["beta"]
        rows.setdefault(key, {})[record["seed"]] = record
    assert {method for method, _ in rows} == {"scl", "hscl", "pixels", "untrained", "supervised"}
    for records in rows.values():
        assert {*records} == {0, 1, 2}
        assert len({record["scores"]["recall_1"][0] for record in records.values()}) > 1
        assert {record["data"]["test_classes"] for record in records.values()} == {3}
    records = [RunResult.read(rows["hscl", 2.0][seed]) for seed in range(3)]
    values = np.array([record.values[0] for record in records])
    half = t.ppf(0.975, 2) * np.sqrt((1 / 3 + 3 / 5) * values.var(ddof=1))
    interval = Scores.of_records(records, records[0].run.config).interval
    assert interval is not None
    assert values.mean() - interval.low == pytest.approx(min(half, values.mean()))
    assert says(page.read_text("utf-8"), "p", "seeds", "draw of classes")
    (path,) = command.files("digits_hscl_*seed0.embeddings.npz")[:1]
    with np.load(path) as saved:
        assert not {*saved["valid_labels"]} & {*saved["test_labels"]}


@pytest.mark.parametrize(
    "asked",
    [
        (*ASKED, "--method=majority"),
        ("--protocol=unseen", "--method=ucl"),  # of ten classes 15 % are fewer than two
        (*ASKED, "--protocol=split,unseen", "--method=ucl"),
        (*ASKED, "--classes=4", "--method=ucl"),
    ],
)
def test_what_cannot_be_ranked_is_refused(asked: tuple[str, ...], command: Command) -> None:
    command.refuses(*asked)


def test_a_search_scores_trials_on_the_validation_classes_of_a_draw(tmp_path: Path) -> None:
    from gcl_hard.experiments.trials import Inner
    from gcl_hard.images.trials import outer_parts

    (outer,) = outer_parts(unseen("ucl"), few_digits(), context(tmp_path), Inner(), 1)
    assert [(split.seed, split.inner) for split in outer.part.splits(Inner())] == [(0, True)]
