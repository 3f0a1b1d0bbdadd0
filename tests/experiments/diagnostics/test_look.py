"""One look at made-up embeddings: each number from its own loops, as JSON has numbers."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gcl_hard import Exponential, Threshold
from gcl_hard.experiments.config import GraphConfig
from gcl_hard.experiments.diagnostics import Batch, Sample, finite, look_at, plain
from gcl_hard.experiments.runs import Run
from gcl_hard.experiments.store import load, save
from gcl_hard.functional.hardening import Hardening, Uniform
from gcl_hard.functional.objectives import Objective
from tests.experiments import record
from tests.reference import shapes, theory

GAMMA = 0.5
ETAS = {
    "l=-0.25": lambda t: float(t >= -0.25 / GAMMA),
    "l=-0.05": lambda t: float(t >= -0.05 / GAMMA),
    "beta=1": math.exp,
    "beta=2": lambda t: math.exp(2 * t),
}
PAIRS = (((0, 1, 0, 2, 1, 0), 0), ((1, 1, 2, 0), 1))  # two batches of unequal sizes


def numbers(n: int, d: int, seed: int) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def two_views(objective: Objective = "infonce") -> Sample:
    labels = [torch.tensor(of) for of, _ in PAIRS]
    batches = [
        Batch.two_view(
            numbers(len(y), 3, seed), numbers(len(y), 3, seed + 9), y,
            temperature=GAMMA, objective=objective,
        )
        for y, (_, seed) in zip(labels, PAIRS, strict=True)
    ]  # fmt: skip
    return Sample(batches, numbers(10, 5, 4), torch.cat(labels))


OWNER, GRAPH_LABELS = torch.tensor([2, 0, 0, 1, 3, 2, 2]), torch.tensor([1, 0, 1, 0])


def local_global(objective: Objective = "jsd") -> Sample:
    nodes, graphs = numbers(7, 3, 1), numbers(4, 3, 2)
    batch = Batch.local_global(
        nodes, graphs, OWNER, GRAPH_LABELS, temperature=GAMMA, objective=objective
    )
    return Sample([batch], numbers(4, 5, 4), GRAPH_LABELS)


def digits(value: float) -> Any:
    return pytest.approx(value, rel=6e-6, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("objective", ["infonce", "jsd"])
def test_settings_are_the_papers_over_all_batches(objective: Objective) -> None:
    sample = two_views(objective)
    gamma = GAMMA if objective == "infonce" else None
    anchors = []
    for (labels, _), batch in zip(PAIRS, sample.batches, strict=True):
        z1, z2 = (part.tolist() for part in batch.anchors.double().chunk(2))
        anchors.append(list(theory.two_view_anchors(z1, z2, labels, gamma)))
    look = look_at(sample, Uniform(), 4, last=False)
    assert (look["epoch"], look["anchors"]) == (4, 20)
    assert list(look["settings"]) == list(ETAS)
    for name, eta in ETAS.items():
        expected = theory.diagnosis(anchors, eta, objective, GAMMA)
        ours = look["settings"][name]
        assert ours.keys() == expected.keys()
        assert ours.pop("losses") == digits(expected.pop("losses"))
        assert ours == digits(expected)


def test_geometry_is_of_the_loss_and_of_the_classifier_as_each_has_it() -> None:
    sample = two_views()
    z, y = sample.z.tolist(), sample.labels.tolist()
    batches = [batch.anchors for batch in sample.batches]
    first, second = (torch.cat([z.chunk(2)[side] for z in batches]).tolist() for side in (0, 1))
    same, different = shapes.cosines(z, y)
    expected = shapes.neural_collapse(z, y)
    for name in ("spread", "gap"):
        expected[f"equiangular_{name}"] = expected.pop(name)
    p, q = (np.histogram(of, 50, (-1, 1))[0] for of in (same, different))
    centres = [shapes.unit(shapes.mean([shapes.unit(v) for v in rows]))
               for rows in shapes.classes(z, y).values()]  # fmt: skip
    expected |= {
        "alignment": shapes.alignment(first, second, 2.0),
        "uniformity": shapes.uniformity(first, 2.0),
        "effective_rank": shapes.effective_rank(z),
        "packing": shapes.packing(z, y),
        "least_angle": math.degrees(shapes.least_angle(centres)),
        "widest_angle": 120.0,  # three points: a triangle
        "overlap": float(np.minimum(p / p.sum(), q / q.sum()).sum()),
    }
    assert look_at(sample, Uniform(), 1, last=False)["geometry"] == digits(expected)
    look = look_at(sample, Uniform(), 1, last=True)
    assert look["histograms"] == {"same": p.tolist(), "different": q.tolist()}
    assert sum(p) + sum(q) == 10 * 9 / 2


def test_histograms_are_of_the_last_look_alone() -> None:
    earlier, last = (look_at(local_global(), Uniform(), 2, last=last) for last in (False, True))
    assert last.pop("histograms").keys() == {"same", "different"}
    assert earlier == last


@pytest.mark.parametrize(
    ("current", "name"),
    [(Exponential(5.0), "beta=5"), (Threshold(-0.4), "l=-0.4"), (Exponential(0.0), "beta=0")],
)
def test_the_trainings_own_hardening_is_measured_beside(current: Hardening, name: str) -> None:
    settings = look_at(local_global(), current, 1, last=False)["settings"]
    assert list(settings) == [*ETAS, "own"]
    own = settings["own"]
    assert own.pop("setting") == name
    assert own.keys() == settings["beta=1"].keys()
    anchors = list(theory.local_global_anchors(
        *(part.double().tolist() for part in (numbers(7, 3, 1), numbers(4, 3, 2))),
        OWNER.tolist(), GRAPH_LABELS.tolist(),
    ))  # fmt: skip
    if isinstance(current, Exponential):
        beta = float(current.beta)  # type: ignore[arg-type]
        expected = theory.diagnosis([anchors], lambda t: math.exp(beta * t), "jsd", GAMMA)
    else:
        expected = theory.diagnosis([anchors], lambda t: float(t >= -0.8), "jsd", GAMMA)
    assert own.pop("losses") == digits(expected.pop("losses"))
    assert own == digits(expected)


@pytest.mark.parametrize("current", [Exponential(1.0), Exponential(2.0), Threshold(-0.25)])
def test_a_hardening_of_the_paper_is_not_measured_twice(current: Hardening) -> None:
    settings = look_at(local_global(), current, 1, last=False)["settings"]
    assert list(settings) == list(ETAS)
    assert not any("setting" in setting for setting in settings.values())


def test_nothing_finite_is_an_empty_look() -> None:
    look = look_at(None, Exponential(5.0), 7, last=True)
    assert look == {"epoch": 7, "anchors": 0, "settings": {}, "geometry": {}}
    z = numbers(3, 2, 0)
    assert finite(z, z)
    for value in (math.nan, math.inf, -math.inf):
        broken = z.clone()
        broken[1, 1] = value
        assert not finite(z, broken)


def test_numbers_are_as_json_has_them() -> None:
    found = plain({
        "nan": math.nan, "up": math.inf, "down": -math.inf, "tensor": torch.tensor(math.nan),
        "third": 1 / 3, "small": 1.23456789e-20, "large": -123456789.0, "double":
        torch.tensor(2 / 3, dtype=torch.float64), "count": 12345678, "none": None, "word": "β",
        "inside": {"a": math.inf, "b": torch.tensor(0.5)},
    })  # fmt: skip
    assert found == {
        "nan": None, "up": None, "down": None, "tensor": None, "third": 0.333333,
        "small": 1.23457e-20, "large": -123457000.0, "double": 0.666667, "count": 12345678,
        "none": None, "word": "β", "inside": {"a": None, "b": 0.5},
    }  # fmt: skip
    assert isinstance(found["count"], int)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


# Embeddings with which something is not defined


KINDS = {
    "usual": lambda z: z,
    "collapsed": lambda z: z[:1].expand_as(z).clone(),
    "zero": lambda z: 0 * z,
    "a zero row": lambda z: torch.cat([z[:1] * 0, z[1:]]),
    "huge": lambda z: z.clamp(-3, 3) * 1e38,
    "tiny": lambda z: z * 1e-42,
}
LABELS = {
    "one class": lambda n: torch.full((n,), 3),
    "classes of one": torch.arange,
    "two classes": lambda n: torch.arange(n) % 2,
    "a gap": lambda n: 1000 * (torch.arange(n) % 3),
}


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_looked_at_can_be_saved_and_read(
    tmp_path: Path, kind: str, labels: str
) -> None:
    looks = []
    for n, d in ((2, 1), (3, 2), (9, 4)):
        z, y = KINDS[kind](numbers(n, d, n)), LABELS[labels](n)
        owner = torch.arange(n).repeat_interleave(2)
        for objective in ("infonce", "jsd"):
            settings: Any = {"temperature": GAMMA, "objective": objective}
            for batch in (
                Batch.two_view(z, KINDS[kind](numbers(n, d, 0)), y, **settings),
                Batch.local_global(z.repeat_interleave(2, 0), z, owner, y, **settings),
            ):
                sample = Sample([batch], z, y)
                looks.append(look_at(sample, Exponential(10.0), 1, last=True))
                json.dumps(looks[-1], allow_nan=False)
                assert looks[-1]["anchors"] == 2 * n
    if labels == "one class":
        for look in looks:
            for setting in look["settings"].values():
                assert (setting["assumption_1"], setting["defined"]) == (None, 0)
                assert set(setting["losses"].values()) == {None}
            assert look["geometry"]["widest_angle"] is None
            assert look["geometry"]["packing"] is None
    cell = GraphConfig(folds=3)
    saved = replace(record(cell, 0, [1.0, 2.0, 3.0]), diagnostics=looks)
    save(saved, tmp_path / "one.json")
    assert load(tmp_path / "one.json", Run(cell, 0)) == saved


# What fig3 is drawn from


@pytest.mark.parametrize("objective", ["infonce", "jsd"])
@pytest.mark.parametrize("make", [two_views, local_global])
def test_points_give_the_scores_again(make: Any, objective: Objective) -> None:
    sample = make(objective)
    for batch in sample.batches:
        points = batch.points()
        dtypes = {name: str(value.dtype) for name, value in points.items()}
        assert dtypes.pop("objective").startswith("<U")
        assert dtypes == {
            "anchors": "float32", "candidates": "float32", "anchor_labels": "int64",
            "candidate_labels": "int64", "positive": "int64", "own": "int64",
            "scale": "float64", "temperature": "float64",
        }  # fmt: skip
        assert str(points["objective"]) == objective
        a, c = (points[name].astype(np.float64) for name in ("anchors", "candidates"))
        if objective == "infonce":
            a, c = (z / np.linalg.norm(z, axis=1, keepdims=True) for z in (a, c))
        t = a @ c.T / (float(points["temperature"]) if objective == "infonce" else 1)
        every, rows = np.arange(len(c)), np.arange(len(a))
        own, positive = points["own"], points["positive"]
        others = (every != own[:, None]) & (every != positive[:, None])
        assert (others == batch.scores.others.numpy()).all()
        np.testing.assert_allclose(t[others], batch.scores.t.numpy()[others], rtol=1e-12)
        np.testing.assert_allclose(t[rows, positive], batch.scores.t_pos.numpy(), rtol=1e-12)
        same = points["anchor_labels"][:, None] == points["candidate_labels"]
        assert (same == batch.scores.same.numpy()).all()
        scale = 1 / GAMMA if objective == "infonce" else np.abs(t[others]).max()
        # m is of float32 scores, as in the loss
        precision = 1e-12 if objective == "infonce" or make is not local_global else 1e-6
        assert float(points["scale"]) == pytest.approx(scale, rel=precision)
        if make is local_global:
            assert own.tolist() == [-1] * 7
            assert positive.tolist() == OWNER.tolist()
        else:
            n = len(a) // 2
            assert own.tolist() == list(range(2 * n))
            assert positive.tolist() == [*range(n, 2 * n), *range(n)]
