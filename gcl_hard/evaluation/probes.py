"""Probes of embeddings: logistic regressions and votes of nearest neighbours.

Two protocols: nested cross-validation (``linear_cross_validation``, ``knn_cross_validation``), and
an official split whose test part is scored once (``linear_probe``, ``weighted_knn``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from gcl_hard.errors import DivergenceError, InputError, check_at_least, check_number, check_option
from gcl_hard.evaluation.checks import (
    Indices,
    Singles,
    check_classes,
    check_grid,
    check_numbers,
    check_share,
)
from gcl_hard.evaluation.folds import (
    CrossValidation,
    Fold,
    FoldScore,
    check_labels,
    grid_search,
    inner_holdout,
    nested_score,
)
from gcl_hard.evaluation.svm import C_GRID

if TYPE_CHECKING:
    import torch

K_GRID = (1, 3, 5, 10, 20)
MAX_ITER = 10_000
LANDMARKS = 500
"""Training samples that the Nyström method compares with."""
CHUNK = 2**24  # similarities in memory at a time: 64 MiB

Metric = Literal["euclidean", "cosine"]
ProbeName = Literal["logistic", "nystroem"]
Solver = Literal["adam", "logistic"]
Predict = Callable[[Sequence[float], Indices, Singles], Sequence[Indices | None]]
"""Takes candidates, rows of the training part to fit them on, and embeddings; returns for each
candidate the positions of the predicted classes, None if it diverged."""


def linear_cross_validation(
    embeddings: ArrayLike,
    labels: ArrayLike,
    *,
    seed: int,
    n_folds: int = 10,
    n_inner: int = 5,
    C_grid: Sequence[float] = C_GRID,
    max_iter: int = MAX_ITER,
    n_jobs: int = 1,
) -> CrossValidation:
    """Accuracy of a logistic regression on standardised embeddings, C chosen inside each fold.

    Args:
        embeddings: real numbers [n, d].
        labels: integers [n]; every class has at least ``n_folds`` members.
        seed: seed of the outer and of the inner folds, >= 0.
        n_folds: outer folds, >= 2.
        n_inner: inner folds, >= 2.
        C_grid: candidates for the inverse strength of the L2 penalty, each > 0; on a tie the
            smallest is chosen.
        max_iter: most iterations of one fit, >= 1.
        n_jobs: outer folds scored at a time, >= 1.

    Returns:
        One score per outer fold, in the order of ``outer_folds``; ``chosen`` is C.

    Raises:
        InputError: embeddings, labels or settings that cannot be used.

    Source: scikit-learn, ``sklearn.linear_model.LogisticRegression``.

    Example:
        >>> import numpy as np
        >>> x, y = np.arange(40.0)[:, None], np.arange(40) // 20
        >>> len(linear_cross_validation(x, y, seed=0, n_folds=5, C_grid=[1.0]).folds)
        5
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X = check_numbers("embeddings", embeddings)
    y = check_labels(labels, len(X), n_folds)
    check_at_least("max_iter", max_iter, 1)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=max_iter))
    candidates = {"logisticregression__C": check_grid("C_grid", C_grid)}
    return grid_search(
        model, candidates, X, y, seed=seed, n_folds=n_folds, n_inner=n_inner, n_jobs=n_jobs
    )


def probe_fold(
    embeddings: ArrayLike,
    labels: ArrayLike,
    fold: Fold,
    *,
    probe: ProbeName = "logistic",
    standardise: bool = True,
    C_grid: Sequence[float] = C_GRID,
    n_inner: int = 5,
    seed: int = 0,
) -> FoldScore:
    """Accuracy of a probe on one outer fold, for sets so large that an SVM takes hours.

    Args:
        embeddings: real numbers [n, d] of the whole set.
        labels: integers [n] of the whole set.
        fold: the samples to train on and to test on.
        probe: ``logistic``, a logistic regression on the embeddings; or ``nystroem``, one on
            their RBF kernel with at most :data:`LANDMARKS` of the training samples, whitened, which
            approximates the kernel of ``svm_fold``.
        standardise: scale each column by the mean and deviation of the training subset.
        C_grid: candidates for the inverse strength of the L2 penalty, each > 0; on a tie the
            smallest is chosen.
        n_inner: inner folds, >= 2.
        seed: seed of the inner folds and of the landmarks, >= 0.

    Returns:
        The fold's score; ``chosen`` is C.

    Raises:
        InputError: arguments that cannot be used.

    Source: scikit-learn, ``LogisticRegression`` and ``Nystroem``; Williams and Seeger (2001),
        *Using the Nyström Method to Speed Up Kernel Machines*.

    Example:
        >>> import numpy as np
        >>> x, y = np.arange(40.0)[:, None], np.arange(40) // 20
        >>> fold = Fold(np.arange(0, 40, 2), np.arange(1, 40, 2))
        >>> probe_fold(x, y, fold).accuracy
        1.0
    """
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    check_option("probe", probe, get_args(ProbeName))
    X = check_numbers("embeddings", embeddings)
    y = check_labels(labels, len(X), 2)
    grid = check_grid("C_grid", C_grid)

    def predictions(
        train: Indices, test: Indices, candidates: Sequence[float]
    ) -> Iterator[Indices]:
        scaled = StandardScaler(with_std=standardise).fit(X[train])
        fit, held_out = scaled.transform(X[train]), scaled.transform(X[test])
        if probe == "nystroem":
            gamma = 1 / (X.shape[1] * (fit.var() or 1.0))
            n = min(LANDMARKS, len(train))
            features = Nystroem(gamma=gamma, n_components=n, random_state=seed).fit(fit)
            fit, held_out = features.transform(fit), features.transform(held_out)
        model = LogisticRegression(max_iter=MAX_ITER, warm_start=True)  # from the C before
        for C in candidates:
            yield model.set_params(C=C).fit(fit, y[train]).predict(held_out)

    return nested_score(fold, y, grid, predictions, n_inner=n_inner, seed=seed)


def knn_cross_validation(
    embeddings: ArrayLike,
    labels: ArrayLike,
    *,
    seed: int,
    n_folds: int = 10,
    n_inner: int = 5,
    n_neighbors: int | Sequence[int] = K_GRID,
    metric: Metric = "euclidean",
    standardise: bool = True,
    n_jobs: int = 1,
) -> CrossValidation:
    """Accuracy of a k-nearest-neighbour vote, k chosen inside each training fold.

    Args:
        embeddings: real numbers [n, d].
        labels: integers [n]; every class has at least ``n_folds`` members.
        seed: seed of the outer and of the inner folds, >= 0.
        n_folds: outer folds, >= 2.
        n_inner: inner folds, >= 2.
        n_neighbors: k >= 1, or the candidates for k; on a tie the smallest is chosen.
        metric: "euclidean" or "cosine".
        standardise: scale each column by the mean and deviation of the training subset.
        n_jobs: outer folds scored at a time, >= 1.

    Returns:
        One score per outer fold, in the order of ``outer_folds``; ``chosen`` is k.

    Raises:
        InputError: embeddings, labels or settings that cannot be used.

    Source: scikit-learn, ``sklearn.neighbors.KNeighborsClassifier``.

    Example:
        >>> import numpy as np
        >>> x, y = np.arange(40.0)[:, None], np.arange(40) // 20
        >>> knn_cross_validation(x, y, seed=0, n_folds=5, n_neighbors=1).folds[0].chosen
        1.0
    """
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X = check_numbers("embeddings", embeddings)
    y = check_labels(labels, len(X), n_folds)
    check_option("metric", metric, get_args(Metric))
    grid = sorted(n_neighbors) if isinstance(n_neighbors, Sequence) else [n_neighbors]
    steps = [StandardScaler()] if standardise else []
    model = make_pipeline(*steps, KNeighborsClassifier(metric=metric))
    candidates = {"kneighborsclassifier__n_neighbors": grid}
    return grid_search(
        model, candidates, X, y, seed=seed, n_folds=n_folds, n_inner=n_inner, n_jobs=n_jobs
    )


@dataclass(frozen=True)
class ProbeRecipe:
    """Training settings of a linear probe, and the candidates for its hyper-parameter.

    Args:
        solver: "adam", softmax regression by stochastic gradients on the raw embeddings;
            "logistic", scikit-learn's logistic regression on standardised embeddings.
        rates: for Adam, learning rates to choose from, each > 0.
        weight_decay: for Adam, factor of the weights that is added to their gradient, >= 0.
        epochs: for Adam, passes over the training part, >= 1.
        batch_size: for Adam, embeddings per step, >= 1; the last batch of an epoch may be smaller.
        C_grid: for the logistic regression, inverse strengths of the L2 penalty to choose from,
            each > 0.
        holdout: share of the training part that is held out for the choice, in (0, 1).

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
        check_option("solver", self.solver, get_args(Solver))
        for name in ("rates", "C_grid"):
            object.__setattr__(self, name, check_grid(name, getattr(self, name)))
        check_number("weight_decay", self.weight_decay, least=0)
        check_at_least("epochs", self.epochs, 1)
        check_at_least("batch_size", self.batch_size, 1)
        check_share("holdout", self.holdout, usual=0.2)

    @property
    def candidates(self) -> tuple[float, ...]:
        """The candidates for the solver's hyper-parameter, ascending."""
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
    """Test accuracy of argmax_c (W x + b)_c, trained on an official split's training part only.

    The hyper-parameter (Adam's learning rate, or C) is chosen on a stratified hold-out of the
    training part, on a tie the smallest, and refitted on all of it; a single candidate
    needs no hold-out. Adam takes the raw embeddings, as in the papers' code: the default rates
    suit norms of about 0.1 to 100, and at norms of 0.001 they leave the accuracy at chance.
    The logistic regression standardises each column by its mean and deviation over the samples
    that it is fitted to.

    Args:
        train: real numbers [n, d].
        train_labels: integers [n], two classes or more.
        test: real numbers [m, d]; read once, to score the final classifier.
        test_labels: integers [m], of classes in ``train_labels``; used for the accuracy only.
        seed: seed of the hold-out and of Adam's order of samples, in [0, 2³²); W and b start at 0.
        recipe: the solver and its settings.
        device: for Adam, a PyTorch device; the logistic regression runs on the CPU.

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
    split = _checked_parts(
        train=train, train_labels=train_labels, test=test, test_labels=test_labels
    )
    adam = recipe.solver == "adam"
    predict = _adam(split, recipe, seed, device) if adam else _logistic(split)
    chosen, inner = recipe.candidates[0], None
    if len(recipe.candidates) > 1:
        y = split.classes[split.train_classes]
        part = inner_holdout(np.arange(len(y)), y, seed=seed, fraction=recipe.holdout)
        x, truth = split.train[part.test], split.train_classes[part.test]
        scores = _scored(predict, recipe.candidates, part.train, x, truth)
        accuracies = [accuracy for accuracy, _ in scores]
        inner = max(accuracies)
        chosen = recipe.candidates[accuracies.index(inner)]
    everything = np.arange(len(split.train))
    ((accuracy, classes),) = _scored(predict, [chosen], everything, split.test, split.test_classes)
    return FoldScore(
        accuracy, chosen, len(split.train), len(split.test), inner,
        test=np.arange(len(split.test)), predicted=split.classes[classes],
    )  # fmt: skip


class _Parts(NamedTuple):
    """The two parts of an official split, each label as its position in ``classes``.

    The embeddings are the caller's own arrays if they have the right dtype: do not write into
    them.
    """

    train: Singles
    train_classes: Indices
    test: Singles
    test_classes: Indices
    classes: Indices


def _checked_parts(**parts: ArrayLike) -> _Parts:
    """The checked parts of an official split, in single precision.

    Args:
        parts: embeddings [n, d] and integer labels [n] of the training part, then [m, d] and [m]
            of the test part, under the names of the caller's arguments.
    """
    (train_name, train), (y_name, y), (test_name, test), (u_name, u) = parts.items()
    X = check_numbers(train_name, train, dtype=np.float32)
    T = check_numbers(test_name, test, dtype=np.float32)
    if T.shape[1] != X.shape[1]:
        raise InputError(f"{test_name}: {T.shape[1]} columns, but {train_name} has {X.shape[1]}")
    known, asked = check_classes(y_name, y, len(X)), check_classes(u_name, u, len(T))
    classes, positions = np.unique(known, return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"{y_name}: expected two classes or more, got {classes.tolist()}")
    unseen = np.setdiff1d(asked, classes)
    if unseen.size:
        raise InputError(f"{u_name}: {unseen[:5].tolist()} are not among those of {y_name}")
    return _Parts(X, positions, T, np.searchsorted(classes, asked), classes)


def _scored(
    predict: Predict, values: Sequence[float], rows: Indices, x: Singles, truth: Indices
) -> list[tuple[float, Indices]]:
    """Accuracy on ``x`` of each candidate fitted to the given rows, and the positions of the
    predicted classes; -1 and none if it diverged.
    """
    scores = [
        (-1.0, truth[:0]) if classes is None else (float(np.mean(classes == truth)), classes)
        for classes in predict(values, rows, x)
    ]
    if max(accuracy for accuracy, _ in scores) < 0:
        raise DivergenceError(f"linear probe: the loss is not finite at rates={tuple(values)}")
    return scores


def _logistic(split: _Parts) -> Predict:
    """Logistic regressions on the CPU, of standardised embeddings in single precision."""

    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    def predict(values: Sequence[float], rows: Indices, x: Singles) -> list[Indices]:
        X, y = split.train[rows], split.train_classes[rows]
        scaler = StandardScaler().fit(X)
        X = scaler.transform(X, copy=False)  # rows taken by index are a copy already
        x = scaler.transform(x)
        return [LogisticRegression(C=C, max_iter=MAX_ITER).fit(X, y).predict(x) for C in values]

    return predict


def _adam(split: _Parts, recipe: ProbeRecipe, seed: int, device: str) -> Predict:
    """Softmax regressions on a device, all rates trained at once."""
    import torch

    X = torch.from_numpy(split.train).to(device)
    y = torch.from_numpy(split.train_classes).to(device)

    def predict(values: Sequence[float], rows: Indices, x: Singles) -> list[Indices | None]:
        generator = torch.Generator().manual_seed(seed)
        fitted = _descend(
            X, y, torch.from_numpy(rows), rates=values, recipe=recipe, generator=generator
        )
        queries = torch.from_numpy(x).to(device)
        with in_single_precision(X.device):
            return [
                None if pair is None else (queries @ pair[0].T + pair[1]).argmax(1).cpu().numpy()
                for pair in fitted
            ]

    return predict


def in_single_precision(device: torch.device) -> AbstractContextManager[Any]:
    """Context without a surrounding autocast."""
    import torch

    return torch.autocast(device.type, enabled=False)


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
    gradient of the summed losses is, for each regression, that of its own loss.
    """
    import torch
    import torch.nn.functional as F

    K, C, d = len(rates), int(y.max()) + 1, X.shape[1]
    # callers may have switched gradients off
    with torch.inference_mode(False), torch.enable_grad(), in_single_precision(X.device):
        like: dict[str, Any] = {"device": X.device, "dtype": X.dtype, "requires_grad": True}
        weights = [torch.zeros(C, d, **like) for _ in rates]
        biases = [torch.zeros(C, **like) for _ in rates]
        groups = zip(weights, biases, rates, strict=True)
        optimiser = torch.optim.Adam(
            [{"params": [w, b], "lr": rate} for w, b, rate in groups],
            weight_decay=recipe.weight_decay,
        )
        total = torch.zeros(K, device=X.device, dtype=X.dtype)
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
    """Accuracy of a weighted vote of the k embeddings in the bank most similar to each query.

    A query goes to the class c with the largest Σ exp(s_i / temperature), summed over those of its
    k nearest bank embeddings whose label is c; s_i is the cosine similarity, 0 if either embedding
    is 0. On a tie the lowest label is taken.

    Args:
        bank: real numbers [n, d].
        bank_labels: integers [n], two classes or more.
        queries: real numbers [m, d].
        query_labels: integers [m], of classes in ``bank_labels``.
        k: neighbours that vote, in [1, n]; ties at the k-th place are broken arbitrarily.
        temperature: temperature of the votes, > 0; small values give the nearest the most weight.
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
    check_number("temperature", temperature, above=0)
    split = _checked_parts(
        bank=bank, bank_labels=bank_labels, queries=queries, query_labels=query_labels
    )
    if k > len(split.train):
        raise InputError(f"k={k}: expected at most {len(split.train)}, the size of the bank")
    import torch
    import torch.nn.functional as F

    voters = torch.from_numpy(split.train_classes).to(device)
    with torch.no_grad(), in_single_precision(voters.device):
        stored = F.normalize(torch.from_numpy(split.train).to(device))
        winners = []
        for chunk in torch.split(torch.from_numpy(split.test), max(1, CHUNK // len(stored))):
            s, nearest = (F.normalize(chunk.to(device)) @ stored.T).topk(k)
            # relative to the nearest's vote, or small temperatures overflow
            weight = ((s - s[:, :1]).double() / temperature).exp()
            votes = weight.new_zeros(len(s), len(split.classes))
            winners.append(votes.scatter_add_(1, voters[nearest], weight).argmax(1).cpu())
    return float(np.mean(torch.cat(winners).numpy() == split.test_classes))
