"""What the numbers say about floors and trained methods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gcl_hard.experiments.lines import Line
from gcl_hard.experiments.reporting.pick import best_trained, whole
from gcl_hard.experiments.reporting.words import count


def floors_tested(own: Sequence[Line]) -> list[str]:
    """Which floors are significantly below or above ucl, and which are neither."""
    tested = [(x, x.tests["ucl"]) for x in own if x.is_baseline and "ucl" in x.tests]
    if not tested:
        return []
    below = sum(t.significant and t.difference < 0 for _, t in tested)
    above = _by_set(x for x, t in tested if t.significant and t.difference > 0)
    level = _by_set(x for x, t in tested if not t.significant)
    return [
        f"**Floors and ucl, `{own[0].protocol}`:** of {count(len(tested), 'comparison')}, {below} "
        f"significantly below ucl; significantly above: {above or 'none'}; not told apart: "
        f"{level or 'none'}."
    ]


def _by_set(floors: Iterable[Line]) -> str:
    found: dict[str, list[str]] = {}
    for line in floors:
        found.setdefault(line.dataset, []).append(line.method)
    return ", ".join(f"{name} ({', '.join(methods)})" for name, methods in found.items())


def floors(own: Sequence[Line]) -> list[str]:
    """On each data set, floors against the best mean of a trained method, all seeds of both."""
    said = []
    for dataset in dict.fromkeys(line.dataset for line in own):
        here = [line for line in own if line.dataset == dataset]
        best = best_trained(here)
        ready = [x for x in here if x.is_baseline and whole(x)]
        means = sorted(((x.scores.mean, x.label) for x in ready if x.scores), reverse=True)
        if best is None or best.scores is None or not means:
            continue
        top = f"{best.label} ({best.scores.mean:.1f})"
        reach = [f"{name} ({mean:.1f})" for mean, name in means if mean >= best.scores.mean]
        said.append(
            f"{dataset}: {', '.join(reach)} {'reach' if len(reach) > 1 else 'reaches'} or "
            f"{'beat' if len(reach) > 1 else 'beats'} every trained method; their best is {top}."
            if reach
            else f"{dataset}: no floor reaches the best trained method, {top}; the nearest is "
            f"{means[0][1]} ({means[0][0]:.1f})."
        )
    if not said:
        return []
    head = f"**Floors and the highest mean of trained methods, `{own[0].protocol}`**"
    return [f"{head} (which, as the highest of several, is flattered):" + "".join(
        f"\n    - {text}" for text in said
    )]  # fmt: skip
