"""Linear and nearest-neighbour probes against plain loops, PyTorch's layers and scikit-learn."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import gcl_hard
from gcl_hard.errors import DivergenceError, InputError
from gcl_hard.evaluation import (
    Fold,
    ProbeRecipe,
    knn_cross_validation,
    linear_cross_validation,
    linear_probe,
    probe_fold,
    svm_cross_validation,
    weighted_knn,
)
from gcl_hard.evaluation.probes import _descend

# Nested cross-validation

# the linear probe's whole grid takes seconds where three values show the same
few_c_linear_cross_validation = partial(linear_cross_validation, C_grid=(1e-3, 0.1, 10.0))

CROSS_VALIDATED = [
    pytest.param(knn_cross_validation, id="knn"),
    pytest.param(few_c_linear_cross_validation, id="linear"),
]


def overlapping(n: int = 120, n_classes: int = 3, seed: int = 0):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % n_classes)
    X = rng.standard_normal((n_classes, 6))[labels] + 1.2 * rng.standard_normal((n, 6))
    return X * np.logspace(-1, 1, 6), labels


def standardised_accuracy(model, X, y, train, test):
    scaler = StandardScaler().fit(X[train])
    model.fit(scaler.transform(X[train]), y[train])
    return np.mean(model.predict(scaler.transform(X[test])) == y[test])


def nested_loop(make, grid, X, y, *, seed, n_folds):
    """Nested cross-validation by hand: (accuracy, chosen) of each fold."""
    outcomes = []
    for train, test in StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(X, y):
        inner = list(StratifiedKFold(5, shuffle=True, random_state=seed).split(X[train], y[train]))
        means = [
            np.mean([standardised_accuracy(make(v), X, y, train[a], train[b]) for a, b in inner])
            for v in grid
        ]
        chosen = grid[int(np.argmax(means))]
        outcomes.append((standardised_accuracy(make(chosen), X, y, train, test), chosen))
    return outcomes


def test_knn_equals_a_nested_loop_over_k():
    X, y = overlapping()
    grid = [1, 3, 7, 15]
    ours = knn_cross_validation(X, y, seed=3, n_folds=5, n_neighbors=grid)
    theirs = nested_loop(KNeighborsClassifier, grid, X, y, seed=3, n_folds=5)
    assert [(score.accuracy, score.chosen) for score in ours.folds] == theirs


def test_linear_equals_a_nested_loop_over_c():
    X, y = overlapping()
    grid = [1e-3, 0.1, 10.0]
    ours = linear_cross_validation(X, y, seed=3, n_folds=4, C_grid=grid)
    theirs = nested_loop(
        lambda C: LogisticRegression(C=C, max_iter=10_000), grid, X, y, seed=3, n_folds=4
    )
    assert [(score.accuracy, score.chosen) for score in ours.folds] == theirs


class Landmarks(Nystroem):
    """All samples, where they are fewer than 500."""

    def fit(self, X, y=None):
        self.n_components = min(500, len(X))
        return super().fit(X)


@pytest.mark.parametrize("probe", ["logistic", "nystroem"])
def test_a_probe_of_folds_equals_a_nested_loop(probe):
    X, y = overlapping()
    grid = [1e-3, 0.1, 10.0]

    def make(C):
        model = LogisticRegression(C=C, max_iter=10_000)
        if probe == "logistic":
            return model
        # Columns are standardised: d · var(X) is 6.
        return make_pipeline(Landmarks(gamma=1 / 6, random_state=3), model)

    theirs = nested_loop(make, grid, X, y, seed=3, n_folds=5)
    ours = [
        probe_fold(X, y, Fold(train, test), probe=probe, C_grid=grid, seed=3)
        for train, test in StratifiedKFold(5, shuffle=True, random_state=3).split(X, y)
    ]
    assert [(score.accuracy, score.chosen) for score in ours] == theirs


def test_a_kernel_of_raw_embeddings_is_as_wide_as_scikit_learns_scale():
    X, y = overlapping(600)
    train, test = next(StratifiedKFold(2, shuffle=True, random_state=3).split(X, y))
    centred = X - X[train].mean(axis=0)
    scale = 1 / (X.shape[1] * X[train].var(axis=0).mean())  # of columns that are centred
    model = make_pipeline(
        Landmarks(gamma=scale, random_state=3), LogisticRegression(C=100.0, max_iter=10_000)
    ).fit(centred[train], y[train])
    ours = probe_fold(
        X, y, Fold(train, test), probe="nystroem", C_grid=[100.0], standardise=False, seed=3
    )
    assert ours.accuracy == model.score(centred[test], y[test])


@pytest.mark.parametrize("probe", CROSS_VALIDATED)
def test_shuffled_labels_score_about_chance_and_the_fold_sizes_are_the_svm_s(probe):
    X, y = overlapping(n=100, n_classes=2)
    shuffled = np.random.default_rng(5).permutation(y)
    scores = probe(X, shuffled, seed=0)
    assert abs(scores.accuracy - 0.5) < 4 * 0.5 / np.sqrt(100)
    sizes = [(score.n_train, score.n_test) for score in scores.folds]
    svm = svm_cross_validation(X, shuffled, seed=0, C_grid=[1.0])
    assert sizes == [(score.n_train, score.n_test) for score in svm.folds]


# An official split

LABELS = np.array([-3, 4, 70])
SHORT = ProbeRecipe(epochs=3, batch_size=32, rates=(1e-3, 1e-1))
LOGISTIC = ProbeRecipe(solver="logistic", C_grid=(1e-3, 1e-1, 10.0))


def parts(n: int = 150, m: int = 90, *, seed: int = 0, noise: float = 1.2):
    """Overlapping classes with unconsecutive labels: train, its labels, test, its labels."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n + m) % len(LABELS))
    X = rng.standard_normal((len(LABELS), 6))[y] + noise * rng.standard_normal((n + m, 6))
    X = X.astype(np.float32)
    return X[:n], LABELS[y[:n]], X[n:], LABELS[y[n:]]


def tensors(X, y):
    return torch.from_numpy(X), torch.from_numpy(np.searchsorted(LABELS, y))


def plain_adam(X, y, rows, *, rate, recipe, seed):
    """nn.Linear from zero, CrossEntropyLoss and Adam in a plain loop; X, y are tensors."""
    layer = nn.Linear(X.shape[1], len(LABELS))
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    optimiser = torch.optim.Adam(layer.parameters(), lr=rate, weight_decay=recipe.weight_decay)
    criterion = nn.CrossEntropyLoss()
    generator = torch.Generator().manual_seed(seed)
    for _ in range(recipe.epochs):
        order = rows[torch.randperm(len(rows), generator=generator)]
        for start in range(0, len(rows), recipe.batch_size):
            batch = order[start : start + recipe.batch_size]
            optimiser.zero_grad()
            criterion(layer(X[batch]), y[batch]).backward()
            optimiser.step()
    return layer


def held_out(train_labels, seed, share=0.2):
    """Rows kept and rows held out."""
    kept, out = train_test_split(
        np.arange(len(train_labels)), test_size=share, stratify=train_labels, random_state=seed
    )
    return np.sort(kept), np.sort(out)


@pytest.mark.parametrize("rates", [(0.03,), (1e-3, 0.03, 0.5)])
def test_each_rate_descends_as_a_linear_layer_of_its_own(rates):
    recipe = ProbeRecipe(epochs=4, batch_size=32, weight_decay=0.1)
    X, y = tensors(*parts()[:2])
    rows = torch.arange(7, 150)  # neither all rows nor a multiple of the batch size
    generator = torch.Generator().manual_seed(5)
    ours = _descend(X, y, rows, rates=rates, recipe=recipe, generator=generator)
    for pair, rate in zip(ours, rates, strict=True):
        layer = plain_adam(X, y, rows, rate=rate, recipe=recipe, seed=5)
        torch.testing.assert_close(pair[0], layer.weight.detach(), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(pair[1], layer.bias.detach(), rtol=1e-5, atol=1e-5)


def test_adam_s_choice_is_made_on_the_hold_out_and_refitted_on_all_of_the_training_part():
    train, train_labels, test, test_labels = parts()
    X, y = tensors(train, train_labels)
    T, u = tensors(test, test_labels)
    recipe = ProbeRecipe(epochs=3, batch_size=32, rates=(0.5, 1e-4, 0.02))
    kept, out = map(torch.from_numpy, held_out(train_labels, seed=2))
    inner = {}
    for rate in sorted(recipe.rates):
        layer = plain_adam(X, y, kept, rate=rate, recipe=recipe, seed=2)
        inner[rate] = (layer(X[out]).argmax(1) == y[out]).double().mean().item()
    chosen = max(inner, key=inner.get)  # the first, so the smallest, of several best
    assert len(set(inner.values())) > 1
    layer = plain_adam(X, y, torch.arange(len(X)), rate=chosen, recipe=recipe, seed=2)
    score = linear_probe(train, train_labels, test, test_labels, seed=2, recipe=recipe)
    assert (score.chosen, score.inner_accuracy) == (chosen, pytest.approx(inner[chosen]))
    assert score.accuracy == pytest.approx((layer(T).argmax(1) == u).double().mean().item())
    assert (score.n_train, score.n_test) == (150, 90)


@pytest.mark.parametrize("seed", [0, 1])
def test_logistic_equals_scikit_learn_by_hand(seed):
    train, train_labels, test, test_labels = parts(seed=seed)
    train, test = (X * np.logspace(-3, 3, 6, dtype=np.float32) for X in (train, test))
    kept, out = held_out(train_labels, seed=seed)

    def fitted(C, rows):
        model = make_pipeline(StandardScaler(), LogisticRegression(C=C, max_iter=1000))
        return model.fit(train[rows].astype(float), train_labels[rows])

    inner = [fitted(C, kept).score(train[out], train_labels[out]) for C in LOGISTIC.C_grid]
    chosen = LOGISTIC.C_grid[int(np.argmax(inner))]
    final = fitted(chosen, np.arange(len(train))).score(test, test_labels)
    score = linear_probe(train, train_labels, test, test_labels, seed=seed, recipe=LOGISTIC)
    assert score.chosen == chosen
    assert (score.inner_accuracy, score.accuracy) == pytest.approx((max(inner), final))


@pytest.mark.parametrize("recipe", [SHORT, LOGISTIC])
def test_test_labels_are_read_for_the_accuracy_alone(recipe):
    train, train_labels, test, test_labels = parts()
    garbage = np.random.default_rng(9).choice(LABELS, len(test_labels))
    true, false = (
        linear_probe(train, train_labels, test, labels, seed=0, recipe=recipe)
        for labels in (test_labels, garbage)
    )
    assert (true.chosen, true.inner_accuracy) == (false.chosen, false.inner_accuracy)
    assert true.accuracy > false.accuracy + 0.1


@pytest.mark.parametrize("recipe", [SHORT, LOGISTIC])
def test_a_test_embedding_is_classified_alike_in_any_company(recipe):
    train, train_labels, test, test_labels = parts()
    far = 1e3 * np.random.default_rng(9).standard_normal((2000, 6)) + 500
    far_labels = np.full(2000, 70)
    alone, other, both = (
        linear_probe(train, train_labels, T, u, seed=0, recipe=recipe)
        for T, u in [
            (test, test_labels),
            (far, far_labels),
            (np.vstack([test, far]), np.concatenate([test_labels, far_labels])),
        ]
    )
    assert both.accuracy * 2090 == pytest.approx(alone.accuracy * 90 + other.accuracy * 2000)
    assert both.chosen == alone.chosen == other.chosen


@pytest.mark.parametrize("solver", ["adam", "logistic"])
def test_one_candidate_needs_no_hold_out(solver):
    recipe = ProbeRecipe(solver=solver, rates=(0.1,), C_grid=(0.1,), epochs=20)
    train, train_labels, test, test_labels = parts(noise=0.2)
    single = np.concatenate([np.flatnonzero(train_labels != 70), [np.argmax(train_labels == 70)]])
    score = linear_probe(
        train[single], train_labels[single], test, test_labels, seed=0, recipe=recipe
    )
    assert (score.chosen, score.inner_accuracy) == (0.1, None)
    assert score.accuracy > 0.6
    choosing = ProbeRecipe(solver=solver, epochs=1)
    with pytest.raises(InputError, match=r"class 70 .*\b1\b"):
        linear_probe(
            train[single], train_labels[single], test, test_labels, seed=0, recipe=choosing
        )


def test_same_seed_same_score_and_no_global_state_is_touched():
    call = [*parts(seed=3)]
    before = [array.copy() for array in call]
    state = torch.random.get_rng_state()
    with torch.no_grad():  # as when a run is watched between epochs
        first = linear_probe(*call, seed=1, recipe=SHORT)
    with torch.inference_mode():
        second = linear_probe(*call, seed=1, recipe=SHORT)
    assert first == second == linear_probe(*call, seed=1, recipe=SHORT)
    linear_probe(*call, seed=1, recipe=LOGISTIC)
    assert torch.equal(torch.random.get_rng_state(), state)
    for array, copy in zip(call, before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_a_rate_that_diverges_loses_and_is_named_where_all_do():
    train, train_labels, test, test_labels = parts(noise=0.2)
    call = {"train_labels": train_labels, "test_labels": test_labels, "seed": 0}
    big = {"train": 1e12 * train, "test": 1e12 * test} | call
    both = ProbeRecipe(rates=(1e-3, 1e30), epochs=2, batch_size=32)
    score = linear_probe(**big, recipe=both)
    assert score.chosen == 1e-3
    assert score == linear_probe(**big, recipe=ProbeRecipe(rates=(1e-3, 1e-3), **_steps(both)))
    for rates in [(1e30,), (1e29, 1e30)]:
        recipe = ProbeRecipe(rates=rates, **_steps(both))
        with pytest.raises(DivergenceError, match=rf"rates=\({rates[0]!r}".replace("+", r"\+")):
            linear_probe(**big, recipe=recipe)


def _steps(recipe):
    return {"epochs": recipe.epochs, "batch_size": recipe.batch_size}


def voted(bank, bank_labels, queries, k, temperature):
    """The class of each query by a double loop over queries and neighbours."""
    classes = []
    for q in queries.astype(float):
        cosine = [q @ b / np.sqrt((q @ q) * (b @ b)) for b in bank.astype(float)]
        votes = dict.fromkeys(np.unique(bank_labels), 0.0)
        for i in sorted(range(len(bank)), key=lambda i: -cosine[i])[:k]:
            votes[bank_labels[i]] += np.exp(cosine[i] / temperature)
        classes.append(max(votes, key=votes.get))
    return np.array(classes)


@pytest.mark.parametrize(("k", "temperature"), [(1, 0.5), (7, 0.07), (40, 0.5), (150, 5.0)])
def test_weighted_knn_equals_a_double_loop_and_scikit_learn(k, temperature, monkeypatch):
    monkeypatch.setattr("gcl_hard.evaluation.probes.CHUNK", 4 * 150)  # chunks of four queries
    bank, bank_labels, queries, query_labels = parts(seed=4)
    loop = voted(bank, bank_labels, queries, k, temperature)
    theirs = KNeighborsClassifier(
        k, metric="cosine", weights=lambda distance: np.exp((1 - distance) / temperature)
    ).fit(bank, bank_labels)
    np.testing.assert_array_equal(theirs.predict(queries), loop)
    settings = {"k": k, "temperature": temperature}
    ours = weighted_knn(bank, bank_labels, queries, query_labels, **settings)
    assert ours == pytest.approx(np.mean(loop == query_labels))
    # the loop's own answers as truth: every single query agrees
    assert weighted_knn(bank, bank_labels, queries, loop, **settings) == 1.0


def test_weighted_knn_ignores_length_and_stays_finite_at_any_temperature():
    bank, bank_labels, queries, _ = parts(seed=5)
    nearest = voted(bank, bank_labels, queries, 1, 1.0)
    lengths = np.random.default_rng(0).lognormal(0, 5, (150, 1))
    for temperature in (1e-9, 1e9):
        k = 150 if temperature < 1 else 1
        call = (bank * lengths, bank_labels, queries * 1e-3, nearest)
        assert weighted_knn(*call, k=k, temperature=temperature) == 1.0


def test_weighted_knn_takes_the_lowest_of_equally_voted_labels():
    bank, queries = np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, -1.0]]), np.ones((1, 2))
    for bank_labels, lowest in [([9, 2, 9], 2), ([2, 9, 9], 2), ([5, 5, 1], 5)]:
        assert weighted_knn(bank, bank_labels, queries, [lowest], k=2) == 1.0


CALLS = {
    "linear": lambda x, y: linear_probe(x, y, x[:30], y[:30], seed=0, recipe=ProbeRecipe(epochs=3)),
    "knn": lambda x, y: weighted_knn(x, y, x[:30], y[:30], k=5),
    "folds": lambda x, y: knn_cross_validation(x, y, seed=0, n_folds=3, n_inner=2, n_neighbors=1),
}


@pytest.mark.parametrize("name", CALLS)
def test_embeddings_are_taken_as_encoders_return_them(name: str) -> None:
    y = torch.arange(60) % 3
    x = torch.randn(60, 8, generator=torch.Generator().manual_seed(0))
    x[torch.arange(60), y] += 3
    expected = CALLS[name](x.numpy(), y.numpy())
    assert CALLS[name](x.clone().requires_grad_(), y) == expected
    half = x.bfloat16()
    assert CALLS[name](half, y) == CALLS[name](half.float().numpy(), y.numpy())
    torch.set_default_dtype(torch.float64)
    try:
        assert CALLS[name](x, y) == expected
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert CALLS[name](x, y) == expected


def test_no_probe_needs_torch_before_it_is_called():
    code = f"""
import sys
package = type(sys)("gcl_hard")  # the package itself exports losses, which need torch
package.__path__ = [{str(Path(gcl_hard.__file__).parent)!r}]
sys.modules["gcl_hard"] = package
from gcl_hard.evaluation import ProbeRecipe, linear_probe, weighted_knn
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
