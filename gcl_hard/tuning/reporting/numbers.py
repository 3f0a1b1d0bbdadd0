"""The numbers of a search with what they mean, as sentences made from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gcl_hard.experiments.reporting.words import count, points
from gcl_hard.tuning.lease import GRID
from gcl_hard.tuning.reporting.spoken import complete
from gcl_hard.tuning.reporting.words import percent

if TYPE_CHECKING:
    from gcl_hard.tuning.outcome import Finding, Outcome

ON_TEST = (
    "Settings were chosen on the test folds, as the paper does: a trial's score is that of the "
    "folds it is reported on. The best of them is too high on average and no estimate for new "
    "{items}; there is no outer score."
)
SEEN = "The encoders have moreover seen the labels of the {items} they are tested on."


@dataclass(frozen=True)
class Number:
    """One number of a search.

    Attributes:
        name: what it is.
        value: with its standard error, where that is known.
        meaning: sentences.
    """

    name: str
    value: str
    meaning: str


def standard_error(accuracy: float, n: int) -> float:
    """How far the choice of held-out items alone moves an accuracy.

    ``100 √(p (1 − p) / n)`` with p = accuracy / 100.

    Args:
        accuracy: percent.
        n: items that it is over.

    Returns:
        Points.

    Source: the standard deviation of a binomial share.

    Example:
        >>> standard_error(50.0, 100)
        5.0
    """
    share = accuracy / 100
    return 100 * math.sqrt(share * (1 - share) / n)


def items(outcome: Outcome) -> str:
    """What is classified: graphs or images."""
    return outcome.findings[0].cell.backend


def step_of(outcome: Outcome) -> str:
    """What intermediate scores are after; Wilcoxon's pruner compares folds."""
    return "fold" if "wilcoxon" in str(outcome.facts.get("pruner")).casefold() else "epoch"


def chosen_on_test(outcome: Outcome) -> str | None:
    """What is to be said of a search under the paper's protocol; None of any other."""
    if outcome.facts.get("protocol") != "paper":
        return None
    seen = f" {SEEN}" if outcome.reads_labels else ""
    return (ON_TEST + seen).format(items=items(outcome))


def numbers(outcome: Outcome) -> list[Number]:
    """The inner score, and where there is an outer one, that and the optimism between them."""
    found = [_inner(outcome)]
    if outcome.outer is not None and outcome.optimism is not None:
        found += [_outer(outcome, outcome.outer), _optimism(outcome, outcome.optimism)]
    elif outcome.why is not None:
        found.append(Number("Outer score", "none yet", f"There is none: {outcome.why}."))
    return found


def _inner(outcome: Outcome) -> Number:
    tried = [len(complete(finding.study)) for finding in outcome.findings]
    several = len(tried) > 1
    n = outcome.facts.get("n_inner_test")
    where = outcome.facts.get("inner")
    on = f"the same {n} {items(outcome)}" if n else f"the same {items(outcome)}"
    on += f" ({where}{', of its study' if several else ''})" if where else ""
    mean = f"The mean over {len(tried)} studies of the best" if several else "The best"
    total = " and ".join(dict.fromkeys(count(k, "trial") for k in tried))
    luck = (
        ""
        if max(tried) == 1
        else " The best of several is also the luckiest, so the score is optimistic."
    )
    paper = chosen_on_test(outcome) is not None
    return Number(
        "Score on the test folds" if paper else "Inner score",
        _with_error(outcome.inner, inner_error(outcome), "of one trial"),
        f"{mean} of {total} with a score, each scored on {on}.{luck}",
    )


def _outer(outcome: Outcome, outer: float) -> Number:
    n = outcome.facts.get("n_outer_test")
    where = outcome.facts.get("outer")
    several = len(outcome.findings) > 1
    on = f"{n} {items(outcome)}" if n else items(outcome)
    on += f" that no trial{' of its study' if several else ''} has seen"
    on += f" ({where})" if where else ""
    first = "The mean over studies: the" if several else "The"
    looks = max(finding.looks for finding in outcome.findings)
    again = (
        f" {looks} trials have been scored there, each best at its time: who goes on searching for "
        "a better outer score makes it optimistic too."
    )
    return Number(
        "Outer score",
        _with_error(outer, outer_error(outcome), ""),
        f"{first} best trial's settings, trained once on everything that the search could see and "
        f"scored once on {on}{', each' if several else ''}.{again if looks > 1 else ''}",
    )


def _optimism(outcome: Outcome, optimism: float) -> Number:
    said = "Inner less outer score: what choosing the best has added, and chance."
    inner, outer = inner_error(outcome), outer_error(outcome)
    if inner is not None and outer is not None:
        error = math.hypot(inner, outer)
        if error:
            ratio = abs(optimism) / error
            said += f" It is {ratio:.1f} standard errors of such a difference ({error:.1f} points)"
            said += "; below two, chance alone may be all of it." if ratio < 2 else "."
    return Number("Optimism", f"{points(optimism)} points", said)


def _with_error(accuracy: float, error: float | None, of: str) -> str:
    if error is None:
        return percent(accuracy)
    return f"{percent(accuracy)} (standard error {f'{of} ' if of else ''}{error:.1f})"


def inner_error(outcome: Outcome, finding: Finding | None = None) -> float | None:
    """The standard error of one inner score, points; None where nobody says over how many items.

    The mean over studies has at most that: their inner parts may have items in common.
    """
    n = outcome.facts.get("n_inner_test")
    if not n:
        return None
    return standard_error((finding or outcome).inner, n)


def outer_error(outcome: Outcome) -> float | None:
    """The standard error of the outer score, points.

    Outer parts of several studies have no item in common, so they count as one large one.
    """
    n = outcome.facts.get("n_outer_test")
    if outcome.outer is None or not n:
        return None
    return standard_error(outcome.outer, n * len(outcome.findings))


def grid_of(outcome: Outcome) -> str:
    """What the settings that were tried first are called: the paper's, or the user's own."""
    return str(outcome.facts.get("grid") or "the grid")


def against_grid(outcome: Outcome, finding: Finding) -> str | None:
    """The best of the grid against the best of the other trials, as sentences.

    Returns:
        None where no trial is of the grid.
    """
    if not any(trial.user_attrs.get(GRID) for trial in finding.study.get_trials(deepcopy=False)):
        return None
    scored = [(t.value, bool(t.user_attrs.get(GRID))) for t in complete(finding.study)]
    ours = [score for score, of_grid in scored if score is not None and not of_grid]
    theirs = [score for score, of_grid in scored if score is not None and of_grid]
    grid = grid_of(outcome)
    if not theirs:
        return f"No trial of {grid} has a score."
    if not ours:
        return f"Only {grid} has scores; its best is {percent(max(theirs))}."
    gap = max(ours) - max(theirs)
    said = (
        f"The best of the {count(len(theirs), 'trial')} of {grid} has "
        f"{percent(max(theirs))}, the best of the {len(ours)} others {percent(max(ours))}: "
        f"{points(gap)} points"
    )
    error = inner_error(outcome, finding)
    if not error:
        return f"{said}."
    ratio = abs(gap) / error
    said += f", or {ratio:.1f} standard errors of one inner score ({error:.1f} points)."
    if ratio < 2:
        return f"{said} That is less than two: the search has shown no difference from the grid."
    fair = " The more trials, the higher their best by chance alone." if gap > 0 else ""
    return f"{said}{fair}"
