"""Probes of an official split: trained on its training part, scored once on its test part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from gcl_hard.errors import DivergenceError, InputError, unknown
from gcl_hard.evaluation.checks import (
    Indices,
    Singles,
    Split,
    check_at_least,
    check_device,
    check_grid,
    check_split,
)
from gcl_hard.evaluation.nested import FoldScore
from gcl_hard.evaluation.splits import Fold, inner_holdout

if TYPE_CHECKING:
    import torch

Solver = Literal["adam", "logistic"]
Classify = Callable[[Singles], Indices]
"""Embeddings to the positions of their classes."""
Fit = Callable[[Sequence[float], Indices], Sequence[Classify | None]]
"""Candidates and rows of the training part to their classifiers; None where one diverged."""

LOGISTIC_ITERATIONS = 10_000
CHUNK = 2**24  # similarities held at a time: 64 MiB


@dataclass(frozen=True)
class ProbeRecipe:
    """How a linear probe is trained, and what its hyper-parameter is chosen from.

    Args:
        solver: "adam", softmax regression by stochastic gradients on the embeddings as they are;
            "logistic", scikit-learn's logistic regression on standardised embeddings.
        rates: of Adam, learning rates to choose from, each > 0.
        weight_decay: of Adam, factor of the weights added to their gradient, >= 0.
        epochs: of Adam, passes over the training part, >= 1.
        batch_size: of Adam, embeddings a step, >= 1; the last batch of an epoch may be smaller.
        C_grid: of the logistic regression, inverse strengths of the L2 penalty to choose from,
            each > 0.
        holdout: share of the training part that the choice is made on, in (0, 1).

    Raises:
        InputError: a setting that cannot be used.

    Source: weight decay, epochs and batch size of HCL's linear evaluation (Robinson et al., 2021),
        whose learning rate is 1e-3.

    Example:
        >>> ProbeRecipe(rates=(1e-2, 1e-3)).candidates
        (0.001, 0.01)
    """

    solver: Solver = "adam"
    rates: tuple[float, ...] = (1e-4, 1e-3, 1e-2)
    weight_decay: float = 1e-6
    epochs: int = 100
    batch_size: int = 512
    C_grid: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    holdout: float = 0.2

    def __post_init__(self) -> None:
        if self.solver not in get_args(Solver):
            raise unknown("solver", self.solver, get_args(Solver))
        for name in ("rates", "C_grid"):
            object.__setattr__(self, name, check_grid(name, getattr(self, name)))
        if not 0 <= self.weight_decay < np.inf:
            raise InputError(
                f"weight_decay={self.weight_decay!r}: expected a finite number >= 0, such as 1e-6"
            )
        check_at_least("epochs", self.epochs, 1)
        check_at_least("batch_size", self.batch_size, 1)
        if not 0 < self.holdout < 1:
            raise InputError(f"holdout={self.holdout!r}: expected a share between 0 and 1")

    @property
    def candidates(self) -> tuple[float, ...]:
        """What the solver's hyper-parameter is chosen from, ascending."""
        return self.rates if self.solver == "adam" else self.C_grid


PAPERS = ProbeRecipe()


def linear_probe(
    train: ArrayLike,
    train_labels: ArrayLike,
    test: ArrayLike,
    test_labels: ArrayLike,
    *,
    seed: int,
    recipe: ProbeRecipe = PAPERS,
    device: str = "cpu",
) -> FoldScore:
    """Test accuracy of argmax_c (W x + b)_c, trained on an official split's training part alone.

    The hyper-parameter (Adam's learning rate, or C) is chosen on a stratified hold-out of the
    training part, the smallest of several best ones, and refitted on all of it; one candidate
    needs no hold-out. Adam sees the embeddings as they are, as in the papers' code: the default
    rates suit norms of about 0.1 to 100, and at norms of 0.001 they leave the accuracy at chance.
    The logistic regression standardises each column by its mean and deviation over the samples
    that it is fitted to.

    Args:
        train: real numbers [n, d].
        train_labels: integers [n], two classes or more.
        test: real numbers [m, d]; read once, by the classifier that is scored.
        test_labels: integers [m], of classes in ``train_labels``; read for the accuracy alone.
        seed: of the hold-out and of Adam's order of samples, in [0, 2³²); W and b start at 0.
        recipe: the solver and its settings.
        device: of Adam, a PyTorch device; the logistic regression runs on the CPU.

    Returns:
        The score; ``chosen`` is the rate or C, ``inner_accuracy`` its accuracy on the hold-out,
        None if there was one candidate.

    Raises:
        InputError: embeddings, labels, seed or device that cannot be used, or a class too small
            for the hold-out.
        DivergenceError: Adam's loss is not finite at any rate, or at the chosen one once refitted.

    Source: Adam with the recipe of the papers' code (``ProbeRecipe``); scikit-learn,
        ``sklearn.linear_model.LogisticRegression``.

    Example:
        >>> x, y = np.arange(-20.0, 20.0)[:, None] + 0.5, np.arange(40) // 20
        >>> linear_probe(x[::2], y[::2], x[1::2], y[1::2], seed=0).accuracy
        1.0
    """
    check_at_least("seed", seed, 0)
    split = check_split(train=train, train_labels=train_labels, test=test, test_labels=test_labels)
    adam = recipe.solver == "adam"
    fit = _adam(split, recipe, seed, check_device(device)) if adam else _logistic(split)
    chosen, inner = recipe.candidates[0], None
    if len(recipe.candidates) > 1:
        chosen, inner = _choose(fit, split, recipe, seed)
    (classify,) = fit([chosen], np.arange(len(split.train)))
    if classify is None:
        raise _diverged([chosen])
    accuracy = float(np.mean(classify(split.test) == split.test_classes))
    return FoldScore(accuracy, chosen, len(split.train), len(split.test), inner)


def _choose(fit: Fit, split: Split, recipe: ProbeRecipe, seed: int) -> tuple[float, float]:
    """The first of the best candidates on the hold-out, and its accuracy there."""
    part = _holdout(split, recipe.holdout, seed)
    held_out, truth = split.train[part.test], split.train_classes[part.test]
    accuracies = [
        -1.0 if classify is None else float(np.mean(classify(held_out) == truth))
        for classify in fit(recipe.candidates, part.train)
    ]
    best = int(np.argmax(accuracies))
    if accuracies[best] < 0:
        raise _diverged(recipe.candidates)
    return recipe.candidates[best], accuracies[best]


def _holdout(split: Split, share: float, seed: int) -> Fold:
    y = split.classes[split.train_classes]
    try:
        part = inner_holdout(np.arange(len(y)), y, seed=seed, fraction=share)
    except InputError as error:
        raise InputError(
            f"holdout={share!r} of {len(y)} training samples cannot be split off: {error}; "
            "give one candidate, which needs no hold-out, or change the share"
        ) from error
    missing = np.setdiff1d(y, y[part.train])
    if missing.size:
        raise InputError(
            f"holdout={share!r} leaves no sample of class {missing[0]} to train on; "
            "expected a smaller share"
        )
    return part


def _diverged(rates: Sequence[float]) -> DivergenceError:
    return DivergenceError(
        f"linear probe: the loss is not finite at rates={tuple(rates)}; expected smaller rates, "
        "or embeddings nearer to unit norm"
    )


def _logistic(split: Split) -> Fit:
    """Logistic regressions on the CPU, of standardised embeddings in single precision."""

    def fit(values: Sequence[float], rows: Indices) -> list[Classify]:
        X, y = split.train[rows], split.train_classes[rows]
        scaler = StandardScaler().fit(X)
        X = scaler.transform(X, copy=False)  # rows taken by index are a copy already
        models = [LogisticRegression(C=C, max_iter=LOGISTIC_ITERATIONS).fit(X, y) for C in values]
        return [partial(_predict, scaler, model) for model in models]

    return fit


def _predict(scaler: StandardScaler, model: LogisticRegression, x: Singles) -> Indices:
    return np.asarray(model.predict(scaler.transform(x)), dtype=np.int64)


def _adam(split: Split, recipe: ProbeRecipe, seed: int, device: torch.device) -> Fit:
    """Softmax regressions on a device, that of each rate beside the others."""
    import torch

    X = torch.from_numpy(split.train).to(device)
    y = torch.from_numpy(split.train_classes).to(device)

    def fit(values: Sequence[float], rows: Indices) -> list[Classify | None]:
        generator = torch.Generator().manual_seed(seed)
        fitted = _descend(
            X, y, torch.from_numpy(rows), rates=values, recipe=recipe, generator=generator
        )
        return [None if pair is None else partial(_argmax, *pair) for pair in fitted]

    return fit


def _argmax(weight: torch.Tensor, bias: torch.Tensor, x: Singles) -> Indices:
    import torch

    logits = torch.from_numpy(x).to(weight.device) @ weight.T + bias
    return np.asarray(logits.argmax(1).cpu())


def _descend(
    X: torch.Tensor,
    y: torch.Tensor,
    rows: torch.Tensor,
    *,
    rates: Sequence[float],
    recipe: ProbeRecipe,
    generator: torch.Generator,
) -> list[tuple[torch.Tensor, torch.Tensor] | None]:
    """Weights [C, d] and biases [C] of each rate; None where the loss was not finite.

    The K regressions share the batches and one product with their stacked weights [K C, d]; the
    gradient of the sum of their losses is, for each, that of its own.
    """
    import torch
    import torch.nn.functional as F

    K, C, d = len(rates), int(y.max()) + 1, X.shape[1]
    # also from code that evaluates, where gradients are off
    with torch.inference_mode(False), torch.enable_grad():
        weights = [torch.zeros(C, d, device=X.device, requires_grad=True) for _ in rates]
        biases = [torch.zeros(C, device=X.device, requires_grad=True) for _ in rates]
        groups = zip(weights, biases, rates, strict=True)
        optimiser = torch.optim.Adam(
            [{"params": [w, b], "lr": rate} for w, b, rate in groups],
            weight_decay=recipe.weight_decay,
        )
        total = torch.zeros(K, device=X.device)
        for _ in range(recipe.epochs):
            order = rows[torch.randperm(len(rows), generator=generator)].to(X.device)
            for batch in torch.split(order, recipe.batch_size):
                logits = F.linear(X[batch], torch.cat(weights), torch.cat(biases))
                target = y[batch].repeat_interleave(K)
                losses = F.cross_entropy(logits.view(-1, C), target, reduction="none")
                loss = losses.view(-1, K).mean(0)
                optimiser.zero_grad()
                torch.autograd.backward(loss.sum())
                optimiser.step()
                total += loss.detach()
    return [
        (w.detach(), b.detach()) if t.isfinite() and w.isfinite().all() else None
        for w, b, t in zip(weights, biases, total, strict=True)
    ]


def weighted_knn(
    bank: ArrayLike,
    bank_labels: ArrayLike,
    queries: ArrayLike,
    query_labels: ArrayLike,
    *,
    k: int = 200,
    temperature: float = 0.5,
    device: str = "cpu",
) -> float:
    """Accuracy of a vote of the k embeddings in the bank most similar to each query.

    A query goes to the class c with the largest Σ exp(s_i / temperature), summed over those of its
    k nearest bank embeddings whose label is c; s_i is the cosine similarity, 0 if either embedding
    is 0. The lowest label of several equally voted ones is taken.

    Args:
        bank: real numbers [n, d].
        bank_labels: integers [n], two classes or more.
        queries: real numbers [m, d].
        query_labels: integers [m], of classes in ``bank_labels``.
        k: neighbours that vote, in [1, n]; of those equally near at the last place, any.
        temperature: of the votes, > 0; small values let the nearest decide.
        device: a PyTorch device.

    Returns:
        Share of the queries classified correctly, in [0, 1].

    Raises:
        InputError: embeddings, labels or settings that cannot be used.

    Source: Wu et al., Unsupervised feature learning via non-parametric instance discrimination,
        2018, section 3.4, with temperature 0.07; 0.5 and k = 200 are those of HCL's code.

    Example:
        >>> bank = [[1.0, 0.0], [2.0, 0.1], [0.0, 3.0]]
        >>> weighted_knn(bank, [0, 0, 1], [[5.0, 1.0], [0.1, 1.0]], [0, 1], k=1)
        1.0
    """
    check_at_least("k", k, 1)
    if not 0 < temperature < np.inf:
        raise InputError(f"temperature={temperature!r}: expected a positive finite number")
    split = check_split(
        bank=bank, bank_labels=bank_labels, queries=queries, query_labels=query_labels
    )
    if k > len(split.train):
        raise InputError(f"k={k}: expected at most {len(split.train)}, the size of the bank")
    where = check_device(device)
    import torch
    import torch.nn.functional as F

    with torch.no_grad():
        stored = F.normalize(torch.from_numpy(split.train).to(where))
        voters = torch.from_numpy(split.train_classes).to(where)
        winners = []
        for chunk in torch.split(torch.from_numpy(split.test), max(1, CHUNK // len(stored))):
            s, nearest = (F.normalize(chunk.to(where)) @ stored.T).topk(k)
            # relative to the nearest's vote, or small temperatures overflow
            weight = ((s - s[:, :1]).double() / temperature).exp()
            votes = weight.new_zeros(len(s), len(split.classes))
            winners.append(votes.scatter_add_(1, voters[nearest], weight).argmax(1).cpu())
    return float(np.mean(torch.cat(winners).numpy() == split.test_classes))
