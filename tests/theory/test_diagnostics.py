"""Diagnostics: snapshots against loops, when they are taken, that they change no number."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import nnls
from torch import Tensor

from gcl_hard import (
    ContrastiveLoss,
    Exponential,
    NegativeSampler,
    Threshold,
)
from gcl_hard.commands.bench import parse_bench
from gcl_hard.evaluation import inner_holdout, outer_folds
from gcl_hard.experiments.plan import plan
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.store import Store
from gcl_hard.functional.hardening import Hardening, Uniform
from gcl_hard.functional.negatives import all_finite
from gcl_hard.graphs import load_graphs, protocols
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.graphs.snapshots import graph_sampler
from gcl_hard.images import Split
from gcl_hard.images.snapshots import image_sampler
from gcl_hard.images.training import build
from gcl_hard.theory.diagnostics import (
    Batch,
    DiagnosticsCallback,
    Sample,
    snapshot,
)
from gcl_hard.theory.similarity import Objective
from gcl_hard.theory.snapshots import snapshot_epochs
from tests.experiments import record
from tests.experiments.made import Ran, encoders
from tests.experiments.tiny_images import (
    Command,
    at,
    few_digits,
    garbage,
    runs_in,
    same_bits,
    small,
    tiny_encoder,
)
from tests.reference import shapes, theory
from tests.said import says

__all__ = ["tiny_encoder"]

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


def loss_of(objective: Objective) -> ContrastiveLoss:
    """With the scale of the loops under JSD."""
    if objective == "infonce":
        return ContrastiveLoss(NegativeSampler(), temperature=GAMMA)
    return ContrastiveLoss(NegativeSampler(), objective="jsd", hardness_scale="batch-max")


def two_views(objective: Objective = "infonce") -> Sample:
    labels = [torch.tensor(pair_labels) for pair_labels, _ in PAIRS]
    batches = [
        Batch.two_view(
            loss_of(objective), numbers(len(y), 3, seed), numbers(len(y), 3, seed + 9), y
        )
        for y, (_, seed) in zip(labels, PAIRS, strict=True)
    ]  # fmt: skip
    return Sample(batches, numbers(10, 5, 4), torch.cat(labels))


OWNER, GRAPH_LABELS = torch.tensor([2, 0, 0, 1, 3, 2, 2]), torch.tensor([1, 0, 1, 0])


def local_global(objective: Objective = "jsd") -> Sample:
    nodes, graphs = numbers(7, 3, 1), numbers(4, 3, 2)
    batch = Batch.local_global(loss_of(objective), nodes, graphs, OWNER, GRAPH_LABELS)
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
    measured = snapshot(sample, Uniform(), 4, last=False)
    assert (measured["epoch"], measured["anchors"]) == (4, 20)
    assert list(measured["settings"]) == list(ETAS)
    for name, eta in ETAS.items():
        expected = theory.diagnosis(anchors, eta, objective, GAMMA)
        ours = measured["settings"][name]
        assert ours.keys() == expected.keys()
        assert ours.pop("losses") == digits(expected.pop("losses"))
        assert ours == digits(expected)


def optimality(sample: Sample) -> dict[str, float]:
    """Means over all anchors: the gradient by automatic differentiation, the angle in loops."""
    cones, angles, norms = [], [], []
    for batch in sample.batches:
        z = torch.nn.functional.normalize(batch.anchors.double(), dim=1)
        n = len(z) // 2
        for i in range(2 * n):
            x, p = z[i].clone().requires_grad_(), z[(i + n) % (2 * n)]
            others = z[[j for j in range(2 * n) if j % n != i % n]]
            logits = torch.cat([p[None], others]) @ x / GAMMA
            norms.append(torch.autograd.grad(logits.logsumexp(0) - logits[0], x)[0].norm().item())
            weights = [math.exp(float(other @ p) / GAMMA) for other in others]
            mean = sum(w * other for w, other in zip(weights, others, strict=True))
            angles.append(math.degrees(math.acos(abs(float(mean @ p)) / float(mean.norm()))))
            away = [nnls(others.T.numpy(), sign * p.numpy())[1] for sign in (1, -1)]
            cones.append(min(away))
    conditions = {"cone_distance": cones, "stationarity_angle": angles, "gradient_norm": norms}
    return {name: float(np.mean(values)) for name, values in conditions.items()}


def test_geometry_is_of_the_loss_and_of_the_classifier_as_each_has_it() -> None:
    sample = two_views()
    z, y = sample.z.tolist(), sample.labels.tolist()
    batches = [batch.anchors for batch in sample.batches]
    first, second = (torch.cat([z.chunk(2)[side] for z in batches]).tolist() for side in (0, 1))
    same, different = shapes.cosines(z, y)
    expected = shapes.neural_collapse(z, y)
    for name in ("spread", "gap"):
        expected[f"equiangular_{name}"] = expected.pop(name)
    p, q = (np.histogram(cosines, 50, (-1, 1))[0] for cosines in (same, different))
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
        **optimality(sample),
    }
    assert snapshot(sample, Uniform(), 1, last=False)["geometry"] == digits(expected)
    measured = snapshot(sample, Uniform(), 1, last=True)
    assert measured["histograms"] == {"same": p.tolist(), "different": q.tolist()}
    assert sum(p) + sum(q) == 10 * 9 / 2


@pytest.mark.parametrize(
    ("current", "name"),
    [(Exponential(5.0), "beta=5"), (Threshold(-0.4), "l=-0.4"), (Exponential(0.0), "beta=0")],
)
def test_the_trainings_own_hardening_is_measured_beside(current: Hardening, name: str) -> None:
    settings = snapshot(local_global(), current, 1, last=False)["settings"]
    assert list(settings) == [*ETAS, "own"]
    measured = settings["own"]
    assert measured.pop("setting") == name
    assert measured.keys() == settings["beta=1"].keys()
    anchors = list(theory.local_global_anchors(
        *(part.double().tolist() for part in (numbers(7, 3, 1), numbers(4, 3, 2))),
        OWNER.tolist(), GRAPH_LABELS.tolist(),
    ))  # fmt: skip
    if isinstance(current, Exponential):
        beta = float(current.beta)  # type: ignore[arg-type]
        expected = theory.diagnosis([anchors], lambda t: math.exp(beta * t), "jsd", GAMMA)
    else:
        expected = theory.diagnosis([anchors], lambda t: float(t >= -0.8), "jsd", GAMMA)
    assert measured.pop("losses") == digits(expected.pop("losses"))
    assert measured == digits(expected)


def test_nothing_finite_is_an_empty_snapshot() -> None:
    measured = snapshot(None, Exponential(5.0), 7, last=True)
    assert measured == {"epoch": 7, "anchors": 0, "settings": {}, "geometry": {}}
    z = numbers(3, 2, 0)
    assert all_finite([z, z])
    for value in (math.nan, math.inf, -math.inf):
        broken = z.clone()
        broken[1, 1] = value
        assert not all_finite([z, broken])


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
def test_whatever_is_snapshot_epochs_can_be_saved_and_read(
    tmp_path: Path, kind: str, labels: str
) -> None:
    snapshots = []
    for n, d in ((2, 1), (3, 2), (9, 4)):
        z, y = KINDS[kind](numbers(n, d, n)), LABELS[labels](n)
        owner = torch.arange(n).repeat_interleave(2)
        for objective in ("infonce", "jsd"):
            loss = loss_of(objective)
            for batch in (
                Batch.two_view(loss, z, KINDS[kind](numbers(n, d, 0)), y),
                Batch.local_global(loss, z.repeat_interleave(2, 0), z, owner, y),
            ):
                sample = Sample([batch], z, y)
                snapshots.append(snapshot(sample, Exponential(10.0), 1, last=True))
                json.dumps(snapshots[-1], allow_nan=False)
                assert snapshots[-1]["anchors"] == 2 * n
    if labels == "one class":
        for taken in snapshots:
            for setting in taken["settings"].values():
                assert (setting["assumption_1"], setting["defined"]) == (None, 0)
                assert set(setting["losses"].values()) == {None}
            assert taken["geometry"]["widest_angle"] is None
            assert taken["geometry"]["packing"] is None
    config = GraphConfig(folds=3)
    saved = replace(record(config, 0, [1.0, 2.0, 3.0]), diagnostics=snapshots)
    store = Store(tmp_path)
    store.put(Run(config, 0), saved)
    assert store.get(Run(config, 0)) == saved


# What is measured, under which names, and when


def test_snapshots_are_taken_every_so_many_epochs_and_at_the_last() -> None:
    for every, epochs in itertools.product(range(7), (1, 2, 5, 6, 12)):
        due = [e for e in range(1, epochs + 1) if every and (e % every == 0 or e == epochs)]
        assert snapshot_epochs(every, epochs) == due


# Runs: measuring changes nothing

EPOCHS = 5
TINY = [f"--epochs={EPOCHS}", "--layers=1", "--dim=4", "--folds=2", "--c-grid=1"]
OF_THE_RUN = ("diagnostics", "seconds_diagnostics", "seconds_train", "seconds_eval", "finished",
              "versions")  # fmt: skip
PLANS = {
    "transductive": ["--method=ucl,hscl-tau,hcl", "--beta=5", "--seeds=2", "--ensemble-size=4"],
    "inductive": ["--method=ucl,hscl", "--protocol=inductive", "--seeds=1", "--batch-size=40"],
    "two-view": ["--contrast=two-view", "--seeds=1", "--augmentations=drop-nodes,mask-attributes"],
}


def go(output: Path, *arguments: str) -> Ran:
    """Runs on MUTAG that end well."""
    options = parse_bench([*TINY, *arguments])
    todo = plan(options.configs, options.seeds, select=options.select)
    ran = Ran(output, todo, **vars(options.run))
    assert ran.failures == []
    return ran


def stored(folder: Path) -> dict[str, dict[str, Any]]:
    """Single files by the key of their run."""
    files = sorted(folder.glob("*_seed*.json"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}


def epochs_of(run_record: dict[str, Any]) -> list[int]:
    """Of the snapshots of a result."""
    return [shot["epoch"] for shot in run_record["diagnostics"]]


def points_in(folder: Path) -> set[str]:
    """Keys of the runs that have arrays."""
    return {path.stem for path in folder.glob("*.npz")}


def unmeasured(run_record: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in run_record.items() if name not in (*OF_THE_RUN, "digest")
    }


@pytest.mark.parametrize("name", PLANS)
def test_nothing_else_of_a_run_changes(tmp_path: Path, name: str) -> None:
    outputs = []
    for folder, more in (("without", ()), ("with", ("--diagnostics=2",))):
        go(tmp_path / folder, *PLANS[name], *more)
        results = stored(tmp_path / folder)
        for run_record in results.values():
            assert epochs_of(run_record) == ([2, 4, 5] if more else [])
            assert (run_record["seconds_diagnostics"] > 0) == bool(more)
            assert all(taken["anchors"] > 0 for taken in run_record["diagnostics"])
        assert points_in(tmp_path / folder) == ({*results} if more else set())
        outputs.append({key: unmeasured(run_record) for key, run_record in results.items()})
    assert outputs[0] == outputs[1]
    assert outputs[0]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--method=hscl", "--beta=7", "--seeds=3,8"],
        ["--protocol=inductive", "--contrast=two-view", "--features=degree-scalar", "--seeds=3"],
    ],
)
def test_snapshots_are_of_the_first_encoder_as_it_is_after_the_epoch(
    tmp_path: Path, arguments: list[str]
) -> None:
    """Made again from an encoder that is trained for so many epochs and no more."""
    ran = go(tmp_path / "runs", *arguments, "--diagnostics=3", "--ensemble-size=1")
    for run, result in ran.results.items():
        config = run.config
        assert isinstance(config, GraphConfig)
        kind = config.features if config.features != "auto" else "labels"
        graphs, held_out = load_graphs("MUTAG", download=False, features=kind), None
        if config.protocol == "inductive":
            fold = outer_folds(graphs.y.numpy(), seed=run.seed, n_folds=config.folds)[0]
            graphs = graphs.standardised_on(torch.from_numpy(fold.train))
            held_out = torch.from_numpy(fold.test)
        else:
            graphs = graphs.standardised_on(torch.arange(graphs.n_graphs))
        for taken, epoch in zip(result.diagnostics, (3, 5), strict=True):
            short = replace(config, epochs=epoch)
            first, *_ = encoders(
                run._replace(config=short), load_graphs("MUTAG", download=False, features=kind),
                tmp_path, ensemble_size=1,
            )  # fmt: skip
            model = protocols.build(short, graphs.n_features, run.seed)
            model.load_state_dict({**model.state_dict(), **first.weights})
            model.set_epoch(epoch, epoch)
            sample = graph_sampler(short, graphs, held_out)(model)
            current, last = Exponential(config.beta or 0.0), epoch == EPOCHS
            expected = snapshot(sample, current, epoch, last=last)
            assert taken == json.loads(json.dumps(expected))


def test_baselines_and_inner_hold_outs_are_not_measured(tmp_path: Path) -> None:
    arguments = ["--method=hscl,supervised,untrained,majority", "--protocol=inductive",
                 "--beta=1,2", "--select=true", "--seeds=1", "--diagnostics=5"]  # fmt: skip
    go(tmp_path, *arguments)
    has_epochs = {key: bool(epochs_of(run_record)) for key, run_record in stored(tmp_path).items()}
    measured = {key for key, has_snapshots in has_epochs.items() if has_snapshots}
    assert measured == {key for key in has_epochs if "_hscl_" in key and "_inner" not in key}
    assert (len(measured), len(has_epochs)) == (2, 7)
    assert points_in(tmp_path) == measured
    again = go(tmp_path, *arguments)
    assert says(again.shown, 7, 7, "finished")


def current_settings(folder: Path) -> dict[str, list[str | None]]:
    """By method, of each snapshot, which hardening was measured beside."""
    return {
        run_record["config"]["method"]: [
            taken["settings"].get("own", {}).get("setting") for taken in run_record["diagnostics"]
        ]
        for run_record in stored(folder).values()
    }


def test_the_own_hardening_is_that_of_the_epoch(tmp_path: Path) -> None:
    go(tmp_path, "--method=ucl,hscl,hscl-tau", "--beta=5", "--threshold-start=-0.5",
       "--threshold-end=0.3", "--seeds=1", "--diagnostics=1")  # fmt: skip
    go(tmp_path, "--method=hcl", "--beta=15", "--beta-changes=5", "--seeds=1", "--diagnostics=1")
    assert current_settings(tmp_path) == {
        "ucl": [None] * 5, "hscl": ["beta=5"] * 5,
        "hscl-tau": ["l=-0.5", "l=-0.3", "l=-0.1", "l=0.1", "l=0.3"],
        "hcl": ["beta=12", "beta=9", "beta=6", "beta=3", "beta=0"],
    }  # fmt: skip


def test_snapshots_of_a_training_that_began_anew_are_those_of_the_second(tmp_path: Path) -> None:
    measured = DiagnosticsCallback(3, 1, lambda: lambda model: model)
    for epoch in (1, 2, 1, 2, 3):
        measured(epoch, None, Uniform())
    assert [taken["epoch"] for taken in measured.snapshots] == [1, 2, 3]


# Stored results


def test_a_finished_run_without_the_snapshots_is_run_again(tmp_path: Path) -> None:
    arguments = ["--method=ucl,majority", "--seeds=1"]
    go(tmp_path, *arguments)
    before = stored(tmp_path)
    for every, taken, again in ((2, [2, 4, 5], True), (5, [2, 4, 5], False), (1, range(1, 6), True),
                                (2, range(1, 6), False), (0, range(1, 6), False)):  # fmt: skip
        ran = go(tmp_path, *arguments, f"--diagnostics={every}")
        (key,) = (key for key in stored(tmp_path) if "_ucl_" in key)
        run_record = stored(tmp_path)[key]
        assert epochs_of(run_record) == list(taken)
        assert says(ran.shown, 2 - again, 2, "finished")
        assert run_record["scores"] == before[key]["scores"]


def softmax_means(weights: np.ndarray, h: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """E_q[h], q ∝ weights on ``mask``; NaN where that is empty."""
    kept = weights * mask
    with np.errstate(invalid="ignore"):
        return np.asarray((kept * h).sum(1) / kept.sum(1))


def assert_points_give_the_snapshot(file: Path, taken: dict[str, Any]) -> None:
    with np.load(file) as stored:
        points = dict(stored)
    assert points.keys() == {
        "anchors", "candidates", "anchor_labels", "candidate_labels", "positive", "own",
        "temperature", "objective", *({} if points["objective"] == "infonce" else {"similarity"}),
    }  # fmt: skip
    assert points["anchors"].dtype == points["candidates"].dtype == np.float32
    assert len(points["anchors"]) == taken["anchors"]
    a, c = (points[name].astype(np.float64) for name in ("anchors", "candidates"))
    infonce, gamma = str(points["objective"]) == "infonce", float(points["temperature"])
    if infonce:
        a, c = (z / np.linalg.norm(z, axis=1, keepdims=True) for z in (a, c))
    t = a @ c.T / (gamma if infonce else 1)
    every = np.arange(len(c))
    others = (every != points["own"][:, None]) & (every != points["positive"][:, None])
    same = points["anchor_labels"][:, None] == points["candidate_labels"]
    s = t * gamma if infonce else points["similarity"].astype(np.float64)
    h = np.exp(t) if infonce else np.logaddexp(0, t)
    for beta in (1, 2):
        eta, setting = np.exp(beta * s / gamma), taken["settings"][f"beta={beta}"]
        left, right = (softmax_means(eta, h, others & label_mask) for label_mask in (same, ~same))
        defined = ~np.isnan(left) & ~np.isnan(right)
        holds = (left >= right)[defined].mean()
        assert setting["defined"] == defined.sum()
        assert setting["assumption_1"] == pytest.approx(holds, rel=1e-5)
        assert setting["collisions"] == pytest.approx(left[defined].mean(), rel=1e-5)
        assert setting["negatives"] == pytest.approx(right[defined].mean(), rel=1e-5)


@pytest.mark.parametrize("contrast", ["local-global", "two-view"])
@pytest.mark.parametrize("objective", ["jsd", "infonce"])
def test_points_give_the_last_snapshot_again(tmp_path: Path, contrast: str, objective: str) -> None:
    go(tmp_path, f"--contrast={contrast}", f"--objective={objective}", "--batch-size=100",
       "--seeds=1", "--diagnostics=4")  # fmt: skip
    ((file, run_record),) = stored(tmp_path).items()
    assert_points_give_the_snapshot(tmp_path / f"{file}.npz", run_record["diagnostics"][-1])


# Images

SAVING = ("--checkpoint-minutes=0", "--class-pairs=true", "--save-encoder")
STEPS = 6  # of two epochs


@pytest.fixture
def command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    return Command(tmp_path, capsys, monkeypatch)


def only(command: Command) -> dict[str, Any]:
    """The one result."""
    (run_record,) = stored(command.output).values()
    return run_record


def points(command: Command) -> dict[str, Any]:
    (path,) = command.files("*.npz")
    with np.load(path) as arrays:
        return {name: value.tolist() for name, value in arrays.items()}


@pytest.mark.parametrize("method", ["hscl"])
def test_nothing_else_of_a_run_on_images_changes(command: Command, method: str) -> None:
    records, weights = [], []
    for more in ((), ("--diagnostics=1",)):
        command.output = command.folder / f"out{len(more)}"
        assert command("--save-encoder", f"--method={method}", *more) == 0
        assert command.steps == STEPS
        records.append(only(command))
        assert epochs_of(records[-1]) == ([1, 2] if more else [])
        assert (records[-1]["seconds_diagnostics"] > 0) == bool(more)
        assert len(command.files("*.npz")) == len(more)
        (encoder,) = command.files("*.pt")
        weights.append(torch.load(encoder, weights_only=True)["encoder"])
    assert unmeasured(records[0]) == unmeasured(records[1])
    assert len(records[0]["curve"]) == 2
    assert same_bits(*weights)


@pytest.mark.usefixtures("tiny_encoder")
def test_inner_hold_outs_and_test_images_are_not_measured(tmp_path: Path) -> None:
    run, data = runs_in(tmp_path), few_digits()
    labels = data.probe.labels
    hidden = torch.from_numpy(inner_holdout(np.arange(120), labels.numpy(), seed=3).test)
    other_pixels = Split(garbage(data.probe.take(hidden)).images, labels[hidden])
    train = at(data.probe, hidden, other_pixels)
    ruined = replace(data, pretrain=train, probe=train)
    inner = [run(small(), images, inner=True, diagnostics=1).trained for images in (data, ruined)]
    assert len(inner[0].snapshots) == 2
    assert inner[0].snapshots == inner[1].snapshots
    dirty = replace(data, test=garbage(data.test))
    clean, other = (run(small(), images, diagnostics=1).trained for images in (data, dirty))
    assert clean.snapshots == other.snapshots
    assert len(clean.snapshots) == 2
    assert clean.points is not None
    assert other.points is not None
    assert all((part == other.points[name]).all() for name, part in clean.points.items())


@pytest.mark.usefixtures("tiny_encoder")
def test_snapshots_on_images_are_of_the_encoder_as_it_is_after_the_epoch(tmp_path: Path) -> None:
    run, data = runs_in(tmp_path), few_digits()
    trained = run(small(beta=3.0), diagnostics=1).trained
    assert len(trained.snapshots) == 2
    for epoch, taken in enumerate(trained.snapshots, 1):
        config = small(beta=3.0, epochs=epoch)
        encoding = build(config, data, 3)
        encoding.model.encoder.load_state_dict(run(config).weights)
        sampler = image_sampler(config, data.probe, encoding.views, torch.float32)
        sample = sampler(encoding.model)
        assert sample is not None
        # The head is not kept: what is of the encoder's embeddings alone.
        current = encoding.model.loss.sampler.current
        geometry = snapshot(sample, current, epoch, last=False)["geometry"]
        for name in ("nc1", "cdnv", "overlap", "effective_rank", "packing"):
            assert taken["geometry"][name] == geometry[name]
        assert taken["settings"]["own"]["setting"] == "beta=3"


# Going on


def undisturbed(command: Command) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
    output, command.output = command.output, command.folder / "undisturbed"
    assert command(*SAVING, "--diagnostics=1") == 0
    run_record = only(command)
    assert epochs_of(run_record) == [1, 2]
    whole = run_record["diagnostics"], points(command), unmeasured(run_record)
    command.output = output
    return whole


@pytest.mark.parametrize("step", [2, 4])  # within epoch 1, after it
def test_a_resumed_run_has_the_snapshots_of_an_undisturbed_one(step: int, command: Command) -> None:
    command.interrupted(step, *SAVING, "--diagnostics=1")
    assert command(*SAVING, "--diagnostics=1") == 0
    assert command.steps == STEPS - (step - 1)
    run_record = only(command)
    assert (run_record["diagnostics"], points(command), unmeasured(run_record)) == undisturbed(
        command
    )
    assert run_record["seconds_diagnostics"] > 0


def refused(command: Command, flags: tuple[str, ...]) -> None:
    """Says why; the checkpoint stays, and what it was begun with goes on."""
    assert command(*SAVING, *flags) == 2
    (path,) = command.files("*.ckpt")
    assert says(command.err, path.name, "diagnostics", "remove")
    assert "Traceback" not in command.out + command.err
    assert command.files("*_seed0.json") == []


BEGUN_AND_GIVEN = [((), ("--diagnostics=1",)), (("--diagnostics=1",), ("--diagnostics=2",))]


@pytest.mark.parametrize(("begun", "flags"), BEGUN_AND_GIVEN)
def test_a_checkpoint_begun_with_other_snapshots_is_refused(
    command: Command, begun: tuple[str, ...], flags: tuple[str, ...]
) -> None:
    command.interrupted(5, *SAVING, *begun)
    refused(command, flags)
    assert command(*SAVING, *begun) == 0
    assert epochs_of(only(command)) == ([1, 2] if begun else [])
