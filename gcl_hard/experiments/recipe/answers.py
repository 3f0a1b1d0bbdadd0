"""The three sentences on top of the recipe table, made from its numbers."""

from __future__ import annotations

from collections.abc import Sequence

from gcl_hard.experiments.recipe.compared import Compared, Difference, Pair
from gcl_hard.experiments.reporting.words import count, interval, points

ASKED = {
    "contrast": "Does contrastive learning help on {}?",
    "hard": "Do hard negatives?",
    "labels": "Do labels?",
}
OPEN = "Nothing that is finished here says."

Found = tuple[Pair, str, Difference]
"""A pair of rows, a data set, and how they differ there."""


def answers(compared: Compared) -> list[str]:
    """The questions and what the numbers answer, as Markdown.

    Args:
        compared: the rows.

    Returns:
        One paragraph a question.
    """
    where = "these sets" if len(compared.datasets) > 1 else compared.datasets[0]
    return [
        f"**{question.format(where)}** {_answer(compared, compared.answers[name])}"
        for name, question in ASKED.items()
    ]


def _answer(compared: Compared, pairs: Sequence[Pair]) -> str:
    each = [(pair, dataset, one) for pair in pairs for dataset, one in pair.on.items()]
    if not each:
        return OPEN
    gains = [x for x in each if x[2].significant and x[2].mean > 0]
    losses = [x for x in each if x[2].significant and x[2].mean < 0]
    shows = "show" if len(gains) > 1 else "shows"
    return (
        f"{_verdict(each, gains, losses)} Of {count(len(each), 'comparison')} "
        f"{len(gains) or 'none'} {shows} a significant gain{_named(gains)}, "
        f"{len(losses) or 'none'} a significant loss{_named(losses)}. {_means(compared, pairs)}"
    )


def _verdict(each: Sequence[Found], gains: Sequence[Found], losses: Sequence[Found]) -> str:
    n = len(each)
    if gains and losses:
        return "It depends."
    if gains:
        return "Yes." if len(gains) == n else "Yes, in part."
    if losses:
        return "No, the contrary." if len(losses) == n else "No, in part the contrary."
    return "On no set measurably." if len({d for _, d, _ in each}) > 1 else "Not measurably."


def _named(some: Sequence[Found]) -> str:
    rows: dict[str, list[str]] = {}
    for pair, dataset, _ in some:
        rows.setdefault(dataset, []).append(pair.ours.name)
    listed = "; ".join(f"{dataset}: {', '.join(names)}" for dataset, names in rows.items())
    return f" ({listed})" if listed else ""


def _means(compared: Compared, pairs: Sequence[Pair]) -> str:
    if len(compared.datasets) == 1:
        means = [f"{_rows(pair)} {points(one.mean)}" for pair in pairs for one in pair.on.values()]
        return f"Points on {compared.datasets[0]}: {', '.join(means)}."
    means = []
    for pair in pairs:
        gain = compared.over_sets(pair)
        above = sum(one.mean > 0 for one in pair.on.values())
        said = "open" if gain is None else f"{interval(gain)} ({above} of {len(pair.on)})"
        means.append(f"{_rows(pair)} {said}")
    told = "Points, mean over sets with its 95 % interval (sets above 0)"
    return f"{told}: {', '.join(means)}."


def _rows(pair: Pair) -> str:
    return f"{pair.ours.name} over {pair.theirs.name}"
