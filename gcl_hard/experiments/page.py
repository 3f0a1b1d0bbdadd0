"""The page of results, and the files and figures beside it: sentences made of the numbers."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gcl_hard.errors import InputError
from gcl_hard.experiments import report
from gcl_hard.experiments.export import (
    best_trained,
    choices,
    count,
    markdown_table,
    marks,
    points,
    protocols,
    to_csv,
    to_latex,
    to_markdown,
    values,
    whole,
)
from gcl_hard.experiments.jobs import plan
from gcl_hard.experiments.lines import CONTROLS, LEVEL, Line, lines
from gcl_hard.experiments.results import Results, Selection
from gcl_hard.methods import METHODS

ALT = {
    "accuracy": "Mean accuracies with 95 % intervals, protocol {}",
    "ranks": "Average ranks over data sets with the critical difference, protocol {}",
    "beta": "Accuracy against β, protocol {}",
}

SEEN = {
    "paper": "One encoder per seed, trained on all graphs: every encoder has seen the graphs it is "
    "tested on.",
    "inductive": "One encoder per seed and fold, trained on that fold's training graphs only: a "
    "test graph is no anchor, no positive, no candidate and in no running statistic.",
}
SEEN_LABELS = {
    "paper": "**The label-aware encoders ({}) have seen the labels of the graphs they are tested "
    "on**; their accuracies are no estimate for new graphs.",
    "inductive": "C of the SVM is chosen by cross-validation inside the training fold, and the "
    "label-aware encoders ({}) have seen the labels of that cross-validation.",
}

ROUNDING = """## How far rounding alone moves a number

When the loss and Adam of this package were made faster, the last bits of a step changed and nothing
else. Training for 200 epochs amplifies that: the same seed of MUTAG hscl gave 85.1 % before and
87.8 % after. A seed can therefore be repeated to the bit only with the same code, versions and
number of threads, and differences between methods of two points on one data set mean little."""

TESTS = rf"""## How the tests work

Two methods are compared on the same folds of the same seeds. Training sets overlap, so folds are
not independent, and an ordinary t-test finds differences that are not there. The corrected
resampled t-test enlarges the variance of the mean difference $\bar d$ over all $J$ pairs of seed
and fold by the share of test to training graphs:

$$
t = \frac{{\bar d}}{{\sqrt{{\left(\frac{{1}}{{J}} + \frac{{n_\text{{test}}}}{{n_\text{{train}}}}
\right) s_d^2}}}}, \qquad J - 1 \text{{ degrees of freedom}}
$$

(Nadeau and Bengio, Machine Learning 52, 2003; for several runs Bouckaert and Frank, PAKDD 2004.)
Intervals in the figures are at 95 %, with the same correction.

- **Holm.** p-values are corrected (Holm 1979) over all lines, floors included, that are compared
  with one control on one data set under one protocol. A difference counts as significant if the
  corrected p is below {LEVEL:g}. What is not significant is not shown to be equal.
- **Wilcoxon.** In brackets, the signed-rank test over seeds' means, corrected in the same way.
- **Ranks.** Methods are ranked on each data set and ranks averaged; Friedman's test asks whether
  any differ, and ranks that differ by no more than the critical difference (Nemenyi) are not told
  apart (Demšar, JMLR 7, 2006).
- Lines that are best on the test folds are not tested: they were chosen there."""


def write(results: Results, path: Path, *, command: str, quick: bool) -> list[Path]:
    """Write the page, and its CSV, LaTeX and figures beside it.

    Args:
        results: of a command.
        path: of the page, NAME.md; the rest is NAME.csv, NAME.tex and NAME-<protocol>-<figure>.svg.
        command: that made the results.
        quick: whether they are a quick look.

    Returns:
        What was written, the page first.

    Raises:
        InputError: if the place cannot be written to; names it.
    """
    from gcl_hard.experiments.figures import FIGURES, save  # matplotlib, only where it draws

    found = lines(results)
    drawn = {
        f"{protocol}-{name}": figure
        for protocol in protocols(found)
        for name, draw in FIGURES.items()
        if (figure := draw(found, protocol)) is not None
    }
    names = {name: f"{path.stem}-{name}.svg" for name in drawn}
    table = "% A quick look: not results.\n" * quick + to_latex(found)
    texts = {
        path: page(results, command=command, quick=quick, figures=names),
        path.with_suffix(".csv"): to_csv(found),
        path.with_suffix(".tex"): table,
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            file.write_text(text, encoding="utf-8", newline="\n")
        for name, figure in drawn.items():
            save(figure, path.with_name(names[name]))
    except OSError as error:
        raise InputError(f"cannot write {error.filename or path}: {error.strerror}") from error
    return [*texts, *(path.with_name(name) for name in names.values())]


def page(results: Results, *, command: str, quick: bool, figures: Mapping[str, str]) -> str:
    """The page, as Markdown for GitHub and MkDocs.

    Args:
        results: of a command.
        command: that made them.
        quick: whether they are a quick look, which the page then says first.
        figures: relative paths by name, ``<protocol>-accuracy``, ``-ranks`` or ``-beta``.

    Returns:
        The text; every sentence about the numbers is made from them.
    """
    found = lines(results)
    parts = ["# Results", _quick(results)] if quick else ["# Results"]
    parts += [
        _number(results),
        _open(results),
        f"```bash\n{command.replace(' --report-only', '')}\n```",
        f"## What {'this quick look' if quick else 'the comparison'} shows",
        "\n".join(findings(found)) or "Nothing is finished yet.",
    ]
    for protocol in protocols(found):
        own = [line for line in found if line.protocol == protocol]
        chosen = [s for s in results.selections if s.outer[0].cell.protocol == protocol]
        parts += _protocol(own, protocol, figures, chosen)
    return "\n\n".join([*parts, TESTS, ROUNDING, _origin(results)]) + "\n"


def _quick(results: Results) -> str:
    epochs = values((c for c in results.cells if c.encoders), "epochs")
    return (
        f"> **A quick look: {count(len(results.seeds), 'seed')}, {epochs or 'no'} epochs; not "
        f"results.** Nothing below says how good a method is."
    )


def _number(results: Results) -> str:
    folds = values(results.cells, "folds")
    return (
        f"A number is an accuracy in percent: the mean ± standard deviation over "
        f"{count(len(results.seeds), 'seed')}. A seed varies the encoder and the folds; the order "
        f"of batches is the same for all. Its accuracy is the mean over {folds} test folds of an "
        f"SVM on the embeddings, whose C is chosen inside each training fold (nested "
        f"cross-validation). Nothing is chosen over epochs: the last one counts."
    )


def _open(results: Results) -> str:
    n, n_open = len(plan(results.cells, results.seeds, select=results.select)), len(results.open)
    if not n_open:
        return f"All {n} runs (a seed of a setting each) are finished, by this command:"
    return f"{n_open} of {n} runs (a seed of a setting each) are open. This command finishes them:"


def _protocol(
    own: Sequence[Line], protocol: str, figures: Mapping[str, str], chosen: Sequence[Selection]
) -> list[str]:
    parts = [f"## Protocol `{protocol}`", _seen(own, protocol), *to_markdown(own)]
    parts.append("\n".join(f"- {note}" for note in marks(own)))
    tested = report.test_rows(own)
    if tested:
        heads = (report.TEST_HEADS.dataset, report.TEST_HEADS.method, *report.TEST_HEADS[3:])
        body = [(row.dataset, row.method, *row[3:]) for row in tested]
        parts.append(
            '<details markdown="1">\n<summary>Differences from ucl and scl, with p-values'
            "</summary>\n\nPoints; ns: not significant. p of the corrected resampled t-test, in "
            "brackets of Wilcoxon's test over seeds, both Holm-corrected.\n\n"
            f"{markdown_table(heads, body, texts=2)}\n\n</details>"
        )
    for name, alt in ALT.items():
        if path := figures.get(f"{protocol}-{name}"):
            parts.append(f"![{alt.format(protocol)}]({path})")
    if chosen:
        parts += ["What the training folds chose, all seeds:", choices(chosen)]
    return parts


def _seen(own: Sequence[Line], protocol: str) -> str:
    """What the protocol lets an encoder see."""
    aware = ", ".join(dict.fromkeys(line.method for line in own if _aware(line)))
    said = [SEEN[protocol]]
    if aware:
        said.append(SEEN_LABELS[protocol].format(aware))
    if any(line.kind == "floor" for line in own):
        said.append("Floors are fitted to training folds alone, under either protocol.")
    return " ".join(said)


def _aware(line: Line) -> bool:
    return line.kind != "floor" and METHODS[line.method].label_aware


def _origin(results: Results) -> str:
    """Devices, versions, dates and settings, from the records."""
    records = list(results.records.values())
    if not records:
        return "## Where the numbers come from\n\nThere are none yet."
    found: dict[str, set[str]] = {}
    for record in records:
        for package, version in record.versions.items():
            found.setdefault(package, set()).add(version)
    states = len(found.pop("source", ()))
    silent = sum("source" not in record.versions for record in records)
    days = sorted(record.finished[:10] for record in records)
    trained = [cell for cell in results.cells if not cell.is_floor]
    settings = "; ".join(
        f"{name.replace('_', '-')} {value}"
        for name in vars(results.cells[0])
        if name not in ("dataset", "method", "protocol") and (value := values(trained, name))
    )
    facts = [
        f"{count(len(records), 'record')}, {' to '.join(dict.fromkeys((days[0], days[-1])))}, "
        f"made by {count(states, 'state')} of the source"
        + (f"; {silent} do not say by which." if silent else "."),
        "; ".join(sorted({record.device for record in records})) + ".",
        "; ".join(f"{name} {', '.join(sorted(v))}" for name, v in found.items()) + ".",
        f"Settings of the trained methods: {settings}." if settings else "",
    ]
    return "## Where the numbers come from\n\n" + "\n".join(f"- {f}" for f in facts if f)


def findings(found: Sequence[Line]) -> list[str]:
    """What the numbers say, in sentences; nothing where nothing is finished.

    Args:
        found: lines of any protocols.

    Returns:
        Bullets of Markdown.
    """
    if not any(line.scores for line in found):
        return []
    said: list[str] = []
    for protocol in protocols(found):
        own = [line for line in found if line.protocol == protocol]
        said += [_finished(own), *_trained(own), *_floors_tested(own), *_floors(own)]
    said += [*_seeing(found), *_optimism(found), *_gaps(found), *_wilcoxon(found)]
    return [f"- {text}" for text in said]


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
        tests = [(x, x.tests[control]) for x in own if x.kind != "floor" and control in x.tests]
        found = [f"{x.dataset} {x.label} {points(t.difference)}" for x, t in tests if t.significant]
        told = f"{len(found) or 'none'} significant" + f": {', '.join(found)} points" * bool(found)
        parts += [f"of {count(len(tests), 'comparison')} with {control}, {told}"] if tests else []
    return [f"**Trained methods, `{own[0].protocol}`:** {'; '.join(parts)}."] if parts else []


def _floors_tested(own: Sequence[Line]) -> list[str]:
    """Which floors are significantly below or above ucl, and which are neither."""
    tested = [(x, x.tests["ucl"]) for x in own if x.kind == "floor" and "ucl" in x.tests]
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


def _floors(own: Sequence[Line]) -> list[str]:
    """On each data set, floors against the best mean of a trained method, all seeds of both."""
    said = []
    for dataset in dict.fromkeys(line.dataset for line in own):
        here = [line for line in own if line.dataset == dataset]
        best = best_trained(here)
        ready = [x for x in here if x.kind == "floor" and whole(x)]
        floors = sorted(((x.scores.mean, x.label) for x in ready if x.scores), reverse=True)
        if best is None or best.scores is None or not floors:
            continue
        top = f"{best.label} ({best.scores.mean:.1f})"
        reach = [f"{name} ({mean:.1f})" for mean, name in floors if mean >= best.scores.mean]
        said.append(
            f"{dataset}: {', '.join(reach)} {'reach' if len(reach) > 1 else 'reaches'} or "
            f"{'beat' if len(reach) > 1 else 'beats'} every trained method; their best is {top}."
            if reach
            else f"{dataset}: no floor reaches the best trained method, {top}; the nearest is "
            f"{floors[0][1]} ({floors[0][0]:.1f})."
        )
    if not said:
        return []
    head = f"**Floors and the highest mean of trained methods, `{own[0].protocol}`**"
    return [f"{head} (which, as the highest of several, is flattered):" + "".join(
        f"\n    - {text}" for text in said
    )]  # fmt: skip


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
            gains[_aware(line)].setdefault(line.dataset, []).append(gain)
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
        "seeing test labels adds is what label-aware methods gain beyond label-free ones. None of "
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
    """Seeds that are too few for any p below the level."""
    n = max((test.seeds for line in found for test in line.tests.values()), default=0)
    if not n or 2.0 ** (1 - n) < LEVEL:
        return []
    enough = next(m for m in range(n, 99) if 2.0 ** (1 - m) < LEVEL)
    return [
        f"**Wilcoxon's test cannot decide:** with {count(n, 'seed')} its p is at least "
        f"{2.0 ** (1 - n):g}, even before Holm's correction; it takes {enough} to get below "
        f"{LEVEL:g}."
    ]
