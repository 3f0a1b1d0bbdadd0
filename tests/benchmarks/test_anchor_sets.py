"""Sets drawn are the paper's, of an anchor that has them all."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex

from benchmarks.paper.__main__ import main
from benchmarks.paper.anchor_sets import Embeddings, fig3, sets
from gcl_hard.errors import InputError
from gcl_hard.experiments.record import RunResult
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.images.settings import ImageConfig
from gcl_hard.reports import theme
from tests.reports import made_runs
from tests.reports.made import counts
from tests.said import says

Kept = tuple[RunResult, Path]
"""A run, and the file of its embeddings."""


def save_points(
    path: Path, *, n: int = 24, dim: int = 5, classes: int = 2, objective: str = "infonce",
    seed: int = 0,
) -> Path:  # fmt: skip
    """Two views of n samples as anchors and candidates; of "jsd" 3 n nodes against n graphs."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    if objective == "infonce":
        views = np.concatenate([labels, labels])
        anchors = candidates = rng.normal(size=(2 * n, dim)) + 0.5 * views[:, None]
        positive, anchor_columns = np.roll(np.arange(2 * n), n), np.arange(2 * n)
        anchor_labels = candidate_labels = views
        more = {}
    else:
        graph = np.repeat(np.arange(n), 3)
        candidates = rng.normal(size=(n, dim)) + labels[:, None]
        anchors = rng.normal(size=(3 * n, dim)) + candidates[graph]
        anchor_labels, candidate_labels, positive = labels[graph], labels, graph
        anchor_columns = np.full(3 * n, -1)
        t = anchors @ candidates.T
        more = {"similarity": (t / np.abs(t).max()).astype(np.float32)}
    np.savez(
        path, anchors=anchors.astype(np.float32), candidates=candidates.astype(np.float32),
        anchor_labels=anchor_labels, candidate_labels=candidate_labels, positive=positive,
        own=anchor_columns, temperature=0.5, objective=objective, **more,
    )  # fmt: skip
    return path


def draw(kept: Kept, **settings: Any) -> made_runs.Shown:
    return made_runs.shown(fig3)(*kept, **settings)


SETS = ("in_scl", "in_hucl", "in_hscl", "in_hcol")
OBJECTIVES = ("infonce", "jsd")


def run(tmp_path: Path, seed: int = 0, **settings: Any) -> tuple[RunResult, Path]:
    path = save_points(tmp_path / f"{seed}.npz", seed=seed, **settings)
    config = ImageConfig() if settings.get("objective", "infonce") == "infonce" else GraphConfig()
    return made_runs.run(config, seed, epochs=(7,)), path


def heading(drawn: made_runs.Shown) -> str:
    return " ".join(drawn.figure.texts[-1].get_text().split())


def slow_sets(path: Path, anchor: int, threshold: float) -> list[list[bool]]:
    """Of one anchor, candidate by candidate."""
    with np.load(path) as file:
        p = dict(file)
    x, sets = p["anchors"][anchor].astype(float), []
    for k, z in enumerate(p["candidates"].astype(float)):
        if p["objective"] == "infonce":
            s = float(x @ z) / math.sqrt(float(x @ x) * float(z @ z))
        else:
            s = float(p["similarity"][anchor, k])
        other = k not in {p["own"][anchor], p["positive"][anchor]}
        same = p["anchor_labels"][anchor] == p["candidate_labels"][k]
        hard = s >= threshold
        sets.append([other and row for row in (not same, hard, hard and not same, hard and same)])
    return [[bool(value) for value in row] for row in sets]


def candidates(drawn: made_runs.Shown) -> list[dict[str, object]]:
    return [row for row in drawn.rows if row["role"] != "anchor" or row["similarity"] is not None]


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(("anchor", "threshold"), [(0, -0.25), (5, 0.0), (17, 0.3)])
def test_sets_are_those_of_a_loop(
    tmp_path: Path, objective: str, anchor: int, threshold: float
) -> None:
    pair = run(tmp_path, objective=objective, classes=3)
    drawn = draw(pair, anchor=anchor, threshold=threshold)
    wanted = slow_sets(pair[1], anchor, threshold)
    assert [[row[name] for name in SETS] for row in candidates(drawn)] == wanted
    numbers = [counts(axes.get_title().partition(": ")[2]) for axes in drawn.figure.axes]
    sizes, total = np.sum(wanted, axis=0), len(wanted) - (2 if objective == "infonce" else 1)
    assert numbers == [[size, total] for size in sizes]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_point_is_drawn_where_its_row_says_and_in_its_colour(
    tmp_path: Path, objective: str
) -> None:
    drawn = draw(run(tmp_path, objective=objective))
    another, same, grey = theme.COLOURS["ucl"], theme.COLOURS["scl"], "#D0D0D0"
    colours = {False: another, True: same}
    for axes, name in zip(drawn.figure.axes, SETS, strict=True):
        dot_colours: dict[tuple[float, float], str] = {}
        for dots in axes.collections:
            faces = np.asarray(dots.get_facecolor())
            for i, (x, y) in enumerate(np.asarray(dots.get_offsets())):
                dot_colours[x, y] = to_hex(faces[i % len(faces)]).upper()
        for row in (row for row in drawn.rows if row["role"] == "candidate"):
            hue = colours[bool(row["same_label"])] if row[name] else grey
            assert dot_colours[row["x"], row["y"]] == hue  # type: ignore[index]


def test_the_projection_is_that_of_principal_components(tmp_path: Path) -> None:
    pair = run(tmp_path)
    z = np.load(pair[1])["candidates"].astype(float)
    z /= np.sqrt((z**2).sum(1, keepdims=True))
    _, sigma, v = np.linalg.svd(z - z.mean(0))
    drawn = draw(pair)
    projected = np.array([[row["x"], row["y"]] for row in drawn.rows], dtype=float)
    assert np.abs(projected) == pytest.approx(np.abs((z - z.mean(0)) @ v[:2].T))
    share = (sigma[:2] ** 2).sum() / (sigma**2).sum()
    assert f"{100 * share:.0f} %" in drawn.note


@pytest.mark.parametrize("projection", ["pca", "tsne", "mds"])
def test_projections_are_the_same_every_time(tmp_path: Path, projection: Any) -> None:
    pair = run(tmp_path, n=8)
    first, second = (draw(pair, projection=projection).rows for _ in range(2))
    assert first == second
    assert np.isfinite([[row["x"], row["y"]] for row in first]).all()  # type: ignore[arg-type]


def test_roles_and_labels(tmp_path: Path) -> None:
    graphs = draw(run(tmp_path, objective="jsd", classes=3), anchor=4)  # of graph 1
    assert [row["role"] for row in graphs.rows] == [
        "candidate", "positive", *["candidate"] * 22, "anchor"
    ]  # fmt: skip
    assert graphs.rows[-1]["similarity"] is None
    assert not any(graphs.rows[index][name] for index in (1, -1) for name in SETS)
    assert [row["label"] for row in graphs.rows] == [*(i % 3 for i in range(24)), 1]
    assert [row["same_label"] for row in graphs.rows[:24]] == [i % 3 == 1 for i in range(24)]
    views = draw(run(tmp_path), anchor=4)
    roles = {index: row["role"] for index, row in enumerate(views.rows)}
    assert {i: role for i, role in roles.items() if role != "candidate"} == {
        4: "anchor", 28: "positive"
    }  # fmt: skip


@pytest.mark.parametrize(("objective", "threshold"), [("infonce", 0.6), ("jsd", 0.1)])
def test_the_anchor_is_near_the_median_sizes(
    tmp_path: Path, objective: str, threshold: float
) -> None:
    pair = run(tmp_path, objective=objective, classes=3)
    n_anchors = len(np.load(pair[1])["anchors"])
    sizes = np.array([np.sum(slow_sets(pair[1], a, threshold), axis=0) for a in range(n_anchors)])
    eligible = [a for a in range(n_anchors) if sizes[a].min() > 0]
    assert 0 < len(eligible) < n_anchors
    median = np.median(sizes[eligible], axis=0)
    best = min(eligible, key=lambda a: float((abs(sizes[a] - median) / median).sum()))
    assert f"anchor {best}" in heading(draw(pair, threshold=threshold))


def saved(path: Path, cosines: list[float], labels: list[int]) -> tuple[RunResult, Path]:
    """One anchor on the plane, of label 0, and candidates at given cosines."""
    z = np.array([[1.0, 0.0], [1.0, 0.0], *((c, math.sqrt(1 - c * c)) for c in cosines)])
    labels = [0, 0, *labels]
    np.savez(
        path, anchors=z[:1], candidates=z, anchor_labels=np.array([0]), own=np.array([0]),
        candidate_labels=np.array(labels), positive=np.array([1]), temperature=0.5,
        objective="infonce",
    )  # fmt: skip
    return made_runs.run(ImageConfig()), path


@pytest.mark.parametrize(
    ("cosines", "text"),
    [
        ([0.9, -0.2, -0.3, -0.5], "l = -0.25"),
        ([0.9, -0.2, -0.2, -0.2], "l = -0.05"),
        ([0.9, 0.7, 0.1, 0.1], "l = 0.75"),  # a quarter of the way from 0.7 to 0.9
    ],
)
def test_the_threshold_is_one_that_tells_pairs_apart(
    tmp_path: Path, cosines: list[float], text: str
) -> None:
    labels = [0, 1, 1, 1]
    if text == "l = -0.05":
        cosines, labels = [*cosines, 0.5], [*labels, 1]
    assert text in heading(draw(saved(tmp_path / "p.npz", cosines, labels), anchor=0))


def test_a_cosine_at_the_threshold_is_hard(tmp_path: Path) -> None:
    pair = saved(tmp_path / "p.npz", [0.6, 0.6 - 1e-9, -0.6], [1, 1, 0])
    assert sets(Embeddings.load(pair[1]), 0.6)["in_hucl"].tolist() == [
        [False, False, True, False, False]
    ]


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    views = run(tmp_path)
    for anchor in (-1, 48):
        with pytest.raises(InputError, match=rf"anchor\D+\b0\b\D+\b47\b.*{anchor}\b"):
            draw(views, anchor=anchor)
    with pytest.raises(InputError, match=r"l = 1\b.*\bfour sets\b.*--threshold.*--anchor"):
        draw(views, threshold=1.0)


def far_graph(path: Path) -> tuple[RunResult, Path]:
    """Nodes against graphs of which the last lies far from all."""
    save_points(path, n=200, objective="jsd")
    with np.load(path) as file:
        arrays = dict(file)
    arrays["candidates"][-1] *= 1e4
    np.savez(path, **arrays)
    return made_runs.run(GraphConfig(), epochs=(7,)), path


def test_one_far_graph_does_not_make_dots_of_the_others(tmp_path: Path) -> None:
    drawn = draw(far_graph(tmp_path / "p.npz"), anchor=0, threshold=0.0)
    place = np.array([[row["x"], row["y"]] for row in drawn.rows], dtype=float)
    roles = [row["role"] for row in drawn.rows]
    for axes in drawn.figure.axes:
        (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
        inside = (place > [left, low]).all(1) & (place < [right, high]).all(1)
        assert inside[[roles.index("anchor"), roles.index("positive")]].all()
        outside = int((~inside[:200]).sum())
        assert 1 <= outside <= 8
        assert not inside[199]
        assert right - left < 1e-2 * np.ptp(place[:, 0])
    assert f"{outside} of 200" in drawn.note


# The command


def stored(folder: Path, config: ImageConfig, seed: int = 0, *, embeddings: bool = True) -> Path:
    """The file of a result, with or without embeddings next to it."""
    path = made_runs.save(folder, config, seed, epochs=(7,))
    if embeddings:
        save_points(path.with_suffix(".npz"), seed=seed)
    return path


def rows(folder: Path) -> str:
    return next(folder.glob("*.csv")).read_text(encoding="utf-8")


def test_the_first_seed_with_embeddings_is_drawn_or_the_one_chosen(tmp_path: Path) -> None:
    results, config = tmp_path / "results", ImageConfig()
    stored(results, config, 0, embeddings=False)
    stored(results, ImageConfig(beta=2), 0, embeddings=False)
    for seed in (3, 1):
        stored(results, config, seed)
    for name, only, seed in (("a", [], 1), ("b", ["--only", "seed=3"], 3)):
        output = tmp_path / name
        assert main(["fig3", str(results), "--dataset", "digits", "-o", str(output), *only]) == 0
        assert {path.name for path in output.iterdir()} == {
            f"fig3-digits.{suffix}" for suffix in ("png", "svg", "csv")
        }
        path = save_points(tmp_path / f"{seed}.npz", seed=seed)
        expected = fig3(made_runs.run(config, seed, epochs=(7,)), path).data
        assert rows(output) == expected.to_csv(index=False, lineterminator="\n")


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ({"embeddings": False}, [".npz", "--diagnostics 1", "--force"]),
        ({}, ["hscl β=1, hscl β=2", "--only method=hscl --only beta=1"]),
    ],
)
def test_results_without_one_encoder_to_draw_are_refused(
    results: dict[str, bool], expected: list[str], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for beta in (1.0, 2.0):
        path = stored(tmp_path / "results", ImageConfig(beta=beta), **results)
    output = tmp_path / "figures"
    assert main(["fig3", str(path.parent), "--dataset", "digits", "-o", str(output)]) == 2
    assert says(capsys.readouterr().err, *expected)
    assert not output.exists()
