"""What the numbers say: sentences that stand exactly where the lines say so."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence

from gcl_hard.experiments.lines import CONTROLS, LEVEL, Line
from gcl_hard.experiments.reporting.floors import floors, floors_tested
from gcl_hard.experiments.reporting.pick import label_aware, protocols, whole
from gcl_hard.experiments.reporting.words import count, points, test_part, training_part


def findings(found: Sequence[Line]) -> list[str]:
    """What the numbers say, in sentences; nothing where nothing is finished.

    Args:
        found: lines of any protocols.

    Returns:
        Bullets of Markdown.
    """
    if not any(line.scores for line in found):
        return []
    said = _in_short(found)
    for protocol in protocols(found):
        own = [line for line in found if line.protocol == protocol]
        said += [_finished(own), *_trained(own), *floors_tested(own), *floors(own)]
    said += [*_seeing(found), *_optimism(found), *_gaps(found), *_wilcoxon(found)]
    return [f"- {text}" for text in said]


def _in_short(found: Sequence[Line]) -> list[str]:
    """The answer for whoever reads one sentence."""
    trained = [test for x in found if not x.is_baseline for test in x.tests.values()]
    if not trained:
        return []
    found_better = sum(test.significant and test.difference > 0 for test in trained)
    found_worse = sum(test.significant and test.difference < 0 for test in trained)
    parts = [
        f"of {count(len(trained), 'comparison')} of trained methods with ucl and scl so far, "
        + (
            f"{found_better} show a method significantly above and {found_worse} one significantly "
            "below"
            if found_better or found_worse
            else "none shows a significant difference"
        )
    ]
    untrained = [x.tests["ucl"] for x in found if x.method == "untrained" and "ucl" in x.tests]
    if untrained:
        same = sum(not test.significant for test in untrained)
        parts.append(
            f"an untrained encoder is not told apart from ucl in {same} of {len(untrained)} cases "
            "(a data set under a protocol)"
        )
    flattered = [line.optimism for line in found if line.optimism is not None]
    if flattered:
        parts.append(
            f"the best setting on the {test_part(found[0].protocol)} lies "
            f"{points(statistics.fmean(flattered))} points above what was chosen inside the "
            f"{training_part(found[0].protocol)}, on average"
        )
    return [f"**In short:** {'; '.join(parts)}."]


def _finished(own: Sequence[Line]) -> str:
    pairs: dict[tuple[str, str], list[Line]] = {}
    for line in own:
        if line.kind != "best":
            pairs.setdefault((line.dataset, line.method), []).append(line)
    some = sum(any(line.scores for line in pair) for pair in pairs.values())
    done = sum(all(map(whole, pair)) for pair in pairs.values())
    return (
        f"**Finished, `{own[0].protocol}`:** {done} of {len(pairs)} pairs of data set and method; "
        f"{some - done} more in part, {len(pairs) - some} not begun."
    )


def _trained(own: Sequence[Line]) -> list[str]:
    """What is significant against the controls."""
    parts = []
    for control in CONTROLS:
        tests = [(x, x.tests[control]) for x in own if not x.is_baseline and control in x.tests]
        found = [f"{x.dataset} {x.label} {points(t.difference)}" for x, t in tests if t.significant]
        told = f"{len(found) or 'none'} significant" + f": {', '.join(found)} points" * bool(found)
        parts += [f"of {count(len(tests), 'comparison')} with {control}, {told}"] if tests else []
    return [f"**Trained methods, `{own[0].protocol}`:** {'; '.join(parts)}."] if parts else []


def _seeing(found: Sequence[Line]) -> list[str]:
    """Protocol paper less inductive, on the same seeds, with and without labels."""
    fixed = {(x.protocol, x.dataset, x.method, x.setting): x for x in found if x.kind == "fixed"}
    gains: dict[bool, dict[str, list[float]]] = {True: {}, False: {}}
    for (protocol, *key), line in fixed.items():
        other = fixed.get(("inductive", *key))  # type: ignore[arg-type]
        if protocol != "paper" or not line.scores or other is None or not other.scores:
            continue
        theirs = other.scores
        if seeds := [s for s in line.scores.seeds if s in theirs.seeds]:
            gain = line.scores.of(seeds).mean - theirs.of(seeds).mean
            gains[label_aware(line)].setdefault(line.dataset, []).append(gain)
    parts = []
    for aware, sets in gains.items():
        if sets:
            each = ", ".join(f"{name} {points(statistics.fmean(g))}" for name, g in sets.items())
            mean = statistics.fmean(gain for several in sets.values() for gain in several)
            parts.append(f"label-{'aware' if aware else 'free'} methods {points(mean)} ({each})")
    if not parts:
        return []
    return [
        f"**`paper` less `inductive`**, points on the same seeds: {'; '.join(parts)}. Under "
        "`paper` encoders are also trained on more graphs, and on the test graphs themselves; what "
        "label-aware methods gain beyond label-free ones may come from seeing test labels. None of "
        "this is tested."
    ]


def _optimism(found: Sequence[Line]) -> list[str]:
    known = [(line.optimism, line) for line in found if line.optimism is not None]
    if not known:
        return []
    each = ", ".join(f"{line.dataset} {line.method} {points(o)}" for o, line in known)
    return [f"**Best on test less chosen inside**, points: {each}."]


def _gaps(found: Sequence[Line]) -> list[str]:
    gaps = [(gap, f"{x.dataset} {x.method}") for x in found if (gap := x.gap) is not None]
    if not gaps:
        return []
    (low, lowest), (high, highest) = min(gaps), max(gaps)
    above = sum(gap >= 0 for gap, _ in gaps)
    return [
        f"**Ours less the paper's figures:** {points(statistics.fmean(g for g, _ in gaps))} points "
        f"on average, from {points(low)} ({lowest}) to {points(high)} ({highest}); {above} of "
        f"{len(gaps)} are not below the paper's."
    ]


def _wilcoxon(found: Sequence[Line]) -> list[str]:
    """Seeds that are too few for any corrected p below the level."""
    n = max((test.seeds for line in found for test in line.tests.values()), default=0)
    families = Counter(
        (line.protocol, line.dataset, control) for line in found for control in line.tests
    )
    m = max(families.values(), default=0)
    if not n or m * 2.0 ** (1 - n) < LEVEL:
        return []
    enough = next(k for k in range(n, 99) if m * 2.0 ** (1 - k) < LEVEL)
    return [
        f"**Wilcoxon's test cannot decide:** with {count(n, 'seed')} its p is at least "
        f"{2.0 ** (1 - n):g} before Holm's correction; among {count(m, 'comparison')} with one "
        f"control it takes {count(enough, 'seed')} to get below {LEVEL:g}."
    ]
