"""TextLoss beside the losses of sentence-transformers, closed forms, and in their trainer."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gcl_hard import InputError, contrastive_loss
from gcl_hard.texts import TextLoss
from tests.texts.conftest import texts

pytest.importorskip("sentence_transformers", reason="needs the texts extra")
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.base.sampler import BatchSamplers
from sentence_transformers.sentence_transformer.losses import (
    CachedMultipleNegativesRankingLoss,
    MultipleNegativesRankingLoss,
)

B = 10
LABELS = torch.tensor([0, 1, 2, 0, 1, 3, 3, 0, 4, 1])
HARDNESS_MODES = ("in_batch_negatives", "hard_negatives", "all_negatives")


class Embedded(nn.Module):
    """Features that are embeddings."""

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        return {"sentence_embedding": features["x"]}


def numbers(columns: int, seed: int = 0, dim: int = 6) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(columns, B, dim, generator=generator, dtype=torch.float64)
    return [*z.requires_grad_().unbind()]


def of(z: list[Tensor], labels: Any = None, **settings: Any) -> Tensor:
    settings = {"method": "hucl", "beta": 1.3, "temperature": 0.2, **settings}
    return TextLoss(Embedded(), **settings)([{"x": x} for x in z], labels)


def columns(model: SentenceTransformer, number: int, n: int = B) -> list[dict[str, Any]]:
    return [model.preprocess(texts(n, seed)) for seed in range(number)]


def same_step(model: nn.Module, ours: nn.Module, theirs: nn.Module, features: Any, **tolerance: Any
) -> None:  # fmt: skip
    """The same values, and gradients of all weights."""
    outcomes = []
    for loss in (ours, theirs):
        model.zero_grad()
        value = loss([{**column} for column in features], None)
        (3 * value).backward()  # as accumulation and scalers do
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        outcomes.append([value.detach(), *map(Tensor.clone, grads)])
    assert len(outcomes[0]) == len(outcomes[1]) > 10
    assert all(x.abs().max() > 0 for x in outcomes[1][:2])
    for a, b in zip(*outcomes, strict=True):
        torch.testing.assert_close(a, b, **tolerance)


EXACT = {"rtol": 1e-10, "atol": 1e-12}


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("number", [2, 4])
@pytest.mark.parametrize("method", ["ucl", "hucl"])
def test_without_hardness_it_is_multiple_negatives_ranking(
    bert: SentenceTransformer, method: str, number: int, symmetric: bool
) -> None:
    bert.double()
    there: Any = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
    ours = TextLoss(bert, method, beta=0.0, temperature=0.05, symmetric=symmetric)
    theirs = MultipleNegativesRankingLoss(bert, scale=20.0, **there if symmetric else {})
    features = columns(bert, number)
    value, expected = (loss([{**x} for x in features], None) for loss in (ours, theirs))
    torch.testing.assert_close(value, expected, rtol=0, atol=1e-12)
    same_step(bert, ours, theirs, features, **EXACT)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("mode", HARDNESS_MODES)
def test_sums_are_their_hardness(bert: SentenceTransformer, mode: Any, symmetric: bool) -> None:
    bert.double()
    there: Any = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
    ours = TextLoss(
        bert, "hucl", beta=0.7, temperature=0.05, hardness="sum", hardness_mode=mode,
        symmetric=symmetric,
    )  # fmt: skip
    theirs = MultipleNegativesRankingLoss(
        bert, scale=20.0, hardness_mode=mode, hardness_strength=0.7 / 0.05,
        **there if symmetric else {},
    )  # fmt: skip
    same_step(bert, ours, theirs, columns(bert, 4), **EXACT)


@pytest.mark.parametrize("settings", [{"beta": 0.0}, {"hardness": "sum"}])
def test_large_batches_are_theirs(settings: dict[str, Any]) -> None:
    """Those that are computed in blocks."""
    z = torch.randn(3, 150, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    z.requires_grad_()
    hardness = {} if "beta" in settings else {
        "hardness_mode": "all_negatives", "hardness_strength": 1.3 / 0.2,
    }  # fmt: skip
    ours = of([*z], **settings)
    theirs = MultipleNegativesRankingLoss(Embedded(), scale=5.0, **hardness)  # type: ignore[arg-type]
    expected = theirs([{"x": x} for x in z], None)  # type: ignore[arg-type]
    torch.testing.assert_close(ours, expected, **EXACT)
    torch.testing.assert_close(
        *(torch.autograd.grad(value, z)[0] for value in (ours, expected)), rtol=1e-9, atol=1e-13
    )


def test_minilm_in_single_precision(minilm_folder: Path) -> None:
    model = SentenceTransformer(str(minilm_folder), device="cpu").eval()
    ours = TextLoss(model, "hucl", beta=0.0, temperature=0.05)
    theirs = MultipleNegativesRankingLoss(model, scale=20.0)
    same_step(model, ours, theirs, columns(model, 3), rtol=1e-4, atol=1e-5)


def loop(z: list[Tensor], labels: list[int] | None, beta: float, gamma: float) -> Tensor:
    """Means of eta, and negatives of other rows and classes, in loops."""
    queries, documents = z[0], torch.cat(z[1:])
    terms = []
    for i in range(B):
        t = torch.cosine_similarity(queries[i], documents) / gamma
        negatives = [
            j for j in range(len(documents)) if j != i
            and not (labels and j < B and labels[i] == labels[j] != -1)
        ]  # fmt: skip
        eta = (beta * t[negatives]).exp().detach()
        mean = (eta * t[negatives].exp()).sum() / eta.sum()
        terms.append((1 + (len(documents) - 1) * mean / t[i].exp()).log())
    return torch.stack(terms).mean()


@pytest.mark.parametrize("number", [2, 4])
@pytest.mark.parametrize("method", ["hucl", "scl", "hscl"])
def test_means_are_those_of_a_loop(method: str, number: int) -> None:
    z = numbers(number)
    labels = LABELS.clone()
    labels[:2] = -1
    beta = 0.0 if method == "scl" else 1.3
    ours = of(z, labels, method=method, unknown=-1)
    expected = loop(z, None if method == "hucl" else labels.tolist(), beta, 0.2)
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=0)
    slopes = (torch.autograd.grad(value, z) for value in (ours, expected))
    for a, b in zip(*slopes, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


def test_symmetric_is_the_mean_of_both_orders() -> None:
    queries, documents = numbers(2)
    orders = [of([a, b], LABELS, method="hscl") for a, b in ((queries, documents),
                                                             (documents, queries))]  # fmt: skip
    both = of([queries, documents], LABELS, method="hscl", symmetric=True)
    torch.testing.assert_close(both, sum(orders) / 2)


def test_sums_of_hscl_leave_its_class_out() -> None:
    """Without a pair of one class there is nothing to leave out; documents of it add nothing."""
    z = numbers(2)
    sums = {"hardness": "sum"}
    every = of(z, torch.arange(B), method="hscl", **sums)
    torch.testing.assert_close(every, of(z, **sums))
    ours, anchors = of(z, LABELS, method="hscl", **sums), []
    for i in range(B):
        t = torch.cosine_similarity(z[0][i], z[1]) / 0.2
        negatives = (2.3 * t)[LABELS[i] != LABELS]
        anchors.append((1 + negatives.exp().sum() / t[i].exp()).log())
    torch.testing.assert_close(ours, torch.stack(anchors).mean())


@pytest.mark.parametrize("method", ["scl", "hscl"])
def test_classes_of_single_texts_are_those_of_the_loss(method: str) -> None:
    (z,) = numbers(1)
    expected = contrastive_loss(method, beta=1.3, temperature=0.2)(z, LABELS)
    torch.testing.assert_close(of([z], LABELS, method=method), expected)


def test_a_single_text_is_encoded_twice_with_other_dropout(bert: SentenceTransformer) -> None:
    bert.train()
    (features,) = columns(bert, 1)
    values = []
    for pair in ([features], [features, features]):
        torch.manual_seed(1)
        values.append(TextLoss(bert, "hucl")([{**column} for column in pair], None).detach())
    torch.testing.assert_close(*values)
    same = TextLoss(bert.eval(), "hucl")([features], None)
    assert values[0] > same


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("labels", [None, torch.rand(B)])
def test_classes_need_labels(number: int, labels: Any) -> None:
    with pytest.raises(InputError, match="labels"):
        of(numbers(number), labels, method="scl")


@pytest.mark.parametrize(
    ("word", "settings"),
    [
        ("method", {"method": "dcl"}), ("beta", {"beta": -1.0}), ("hardness", {"hardness": "max"}),
        ("hardness_mode", {"hardness_mode": "hard_negatives"}),
        ("hardness_mode", {"hardness": "sum", "hardness_mode": "none"}),
        ("mini_batch_size", {"mini_batch_size": 0}), ("temperature", {"temperature": 0.0}),
    ],
)  # fmt: skip
def test_settings_out_of_range_are_named(word: str, settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=word):
        of(numbers(2), **settings)


def test_sums_have_no_meaning_for_classes() -> None:
    with pytest.raises(InputError, match="sum"):
        of(numbers(1), LABELS, method="hscl", hardness="sum")


# -------------------------------------------------------------------- gradient caching


@pytest.mark.parametrize("size", [3, 64])
@pytest.mark.parametrize("symmetric", [False, True])
def test_parts_are_their_cached_loss(bert: SentenceTransformer, size: int, symmetric: bool) -> None:
    bert.double()
    there: Any = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
    ours = TextLoss(bert, "hucl", beta=0.0, symmetric=symmetric, mini_batch_size=size)
    theirs = CachedMultipleNegativesRankingLoss(
        bert, mini_batch_size=size, **there if symmetric else {}
    )
    same_step(bert, ours, theirs, columns(bert, 3), **EXACT)


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "hucl", "number": 3},
        {"method": "hucl", "number": 3, "hardness": "sum", "symmetric": True},
        {"method": "hscl", "number": 2},
        {"method": "hscl", "number": 1},
    ],
)
def test_parts_change_nothing(bert: SentenceTransformer, settings: dict[str, Any]) -> None:
    bert.double()
    settings = {**settings}
    features = columns(bert, settings.pop("number"))

    class Labelled(TextLoss):
        def forward(self, sentence_features: Any, labels: Any = None) -> Tensor:
            return super().forward(sentence_features, LABELS)

    whole, parts = Labelled(bert, **settings), Labelled(bert, mini_batch_size=3, **settings)
    same_step(bert, parts, whole, features, **EXACT)
    with torch.no_grad():
        values = [loss(features) for loss in (parts, whole)]
    torch.testing.assert_close(*values)
    assert not values[0].requires_grad


def test_parts_draw_their_dropout_once(bert: SentenceTransformer) -> None:
    """The gradient is the slope of the value at the same dropout."""
    bert.double().train()
    loss = TextLoss(bert, "ucl", mini_batch_size=4)
    features = columns(bert, 1)
    weight = bert[0].auto_model.encoder.layer[0].output.dense.weight
    direction = torch.randn(weight.shape, generator=torch.Generator().manual_seed(0)).double()

    def value(step: float) -> Tensor:
        with torch.no_grad():
            weight.add_(step * direction)
        torch.manual_seed(3)
        result = loss(features)
        with torch.no_grad():
            weight.sub_(step * direction)
        return result

    value(0.0).backward()
    slope = (value(1e-6) - value(-1e-6)).item() / 2e-6
    assert weight.grad is not None
    assert (weight.grad * direction).sum().item() == pytest.approx(slope, rel=1e-5)


def test_both_passes_are_under_the_same_autocast(bert: SentenceTransformer) -> None:
    seen: list[bool] = []
    bert.register_forward_pre_hook(lambda *_: seen.append(torch.is_autocast_enabled("cpu")))
    with torch.autocast("cpu", torch.bfloat16):
        value = TextLoss(bert, "hucl", mini_batch_size=5)(columns(bert, 2))
    assert not torch.is_autocast_enabled("cpu")
    value.backward()
    assert seen == [True] * 8


@pytest.mark.parametrize(
    "changed",
    [{"attention_mask": None}, {"pixel_values": torch.zeros(3, 2)}],
)
def test_features_that_are_no_rows_are_refused_in_parts(
    bert: SentenceTransformer, changed: dict[str, Any]
) -> None:
    features = [{**column, **changed} for column in columns(bert, 2)]
    with pytest.raises(InputError, match="mini_batch_size"):
        TextLoss(bert, mini_batch_size=2)(features)


# -------------------------------------------------------------------------- their trainer


DATA = {
    "pairs": {"anchor": texts(24, 1), "positive": texts(24, 2)},
    "triplets": {"anchor": texts(24, 1), "positive": texts(24, 2), "negative": texts(24, 3)},
    "classes": {"text": texts(24, 1), "label": [i % 3 for i in range(24)]},
    "texts": {"text": texts(24, 1)},
}


def trained(
    model: SentenceTransformer, data: str, loss: nn.Module, folder: Path, sampler: BatchSamplers
) -> SentenceTransformerTrainer:
    arguments = SentenceTransformerTrainingArguments(
        str(folder), per_device_train_batch_size=8, max_steps=3, learning_rate=0.01,
        batch_sampler=sampler, use_cpu=True, seed=0, disable_tqdm=True, report_to="none",
        gradient_accumulation_steps=2, logging_steps=1, optim="sgd",
    )  # fmt: skip
    trainer = SentenceTransformerTrainer(model, arguments, Dataset.from_dict(DATA[data]), loss=loss)
    trainer.train()
    return trainer


@pytest.mark.slow
@pytest.mark.parametrize("size", [None, 3])
@pytest.mark.parametrize(
    ("method", "data", "sampler"),
    [
        ("hucl", "pairs", BatchSamplers.NO_DUPLICATES),
        ("hucl", "triplets", BatchSamplers.NO_DUPLICATES),
        ("hucl", "texts", BatchSamplers.BATCH_SAMPLER),
        ("hscl", "classes", BatchSamplers.GROUP_BY_LABEL),
    ],
)
def test_it_trains_and_is_loaded_again(  # noqa: PLR0917
    bert_folder: Path, tmp_path: Path, method: str, data: str, sampler: BatchSamplers,
    size: int | None,
) -> None:  # fmt: skip
    model = SentenceTransformer(str(bert_folder), device="cpu")
    before = deepcopy(model.state_dict())
    loss = TextLoss(model, method, temperature=0.1, mini_batch_size=size)
    trainer = trained(model, data, loss, tmp_path / "run", sampler)
    logged = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    assert len(logged) == 3
    assert all(0 < value < 20 for value in logged)
    changed = [name for name, x in model.state_dict().items() if not torch.equal(x, before[name])]
    assert len(changed) > len(before) / 2
    model.save_pretrained(str(tmp_path / "model"))
    assert "TextLoss" in (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    again = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    z = [m.eval().encode(texts(5), convert_to_tensor=True) for m in (model, again)]
    torch.testing.assert_close(*z)


@pytest.mark.slow
def test_the_trainer_takes_the_steps_of_their_loss(bert_folder: Path, tmp_path: Path) -> None:
    weights = []
    for make in (
        lambda model: MultipleNegativesRankingLoss(model, scale=20.0),
        lambda model: TextLoss(model, "hucl", beta=0.0, temperature=0.05),
    ):
        model = SentenceTransformer(
            str(bert_folder), device="cpu",
            config_kwargs={"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
        )  # fmt: skip
        folder = tmp_path / str(len(weights))
        trained(model, "pairs", make(model), folder, BatchSamplers.NO_DUPLICATES)
        weights.append(torch.cat([x.flatten() for x in model.parameters()]).detach())
    torch.testing.assert_close(*weights, rtol=0, atol=1e-5)
