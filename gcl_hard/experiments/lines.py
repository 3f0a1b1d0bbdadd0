"""The lines of a table as numbers: what every drawing, file and page of results is made from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from gcl_hard.evaluation.significance import Interval, holm, wilcoxon
from gcl_hard.experiments.config import SELECTABLE, RunConfig, is_baseline
from gcl_hard.experiments.results import CellResult, Results, Scores, Selection, best_on_test

CONTROLS = ("ucl", "scl")
"""Methods that all others of their data set and protocol are tested against."""

LEVEL = 0.05
"""A difference counts as significant if its corrected p is below."""

SYMBOLS = {
    "beta": "β", "threshold_start": "start", "threshold_end": "end", "lr": "lr", "epochs": "epochs",
}  # fmt: skip

Kind = Literal["fixed", "inside", "best", "floor"]


@dataclass(frozen=True)
class Comparison:
    """A line against a control, on the folds of the seeds that both have.

    Attributes:
        control: the method compared with.
        seeds: how many seeds they share.
        difference: mean accuracy less the control's, points.
        p: of the corrected resampled t-test, Holm-corrected.
        p_wilcoxon: of Wilcoxon's test over seeds' means, Holm-corrected; None if it has none.
    """

    control: str
    seeds: int
    difference: float
    p: float
    p_wilcoxon: float | None

    @property
    def significant(self) -> bool:
        """Whether the corrected resampled t-test finds a difference at 5 %."""
        return self.p < LEVEL


@dataclass(frozen=True)
class Line:
    """One line of a table.

    Attributes:
        dataset: canonical name.
        method: of the papers, or a floor.
        protocol: of the table that the line stands in; a floor's own is always inductive.
        kind: ``fixed`` settings; chosen ``inside`` the training folds; ``best`` on the test folds,
            the paper's way, which is no estimate; a ``floor``.
        setting: what tells the line from others of its method, such as β=2; of a ``best`` line,
            the setting that was best.
        scores: accuracies; None while open.
        expected: seeds asked for.
        seconds: of training and scoring; 0 where another line's work is shown.
        paper: the paper's figure, percent, or None.
        tests: against each control, where there is one.
        optimism: of a ``best`` line: points above what was chosen inside, where that is known.
        beta: β, where the setting is β alone.
        reads_labels: whether its encoder is trained with labels; never of a floor.
        curve: monitoring of images: epoch and accuracy in percent, mean over seeds.
    """

    dataset: str
    method: str
    protocol: str
    kind: Kind
    setting: str
    scores: Scores | None
    expected: int
    seconds: float = 0.0
    paper: float | None = None
    tests: dict[str, Comparison] = field(default_factory=dict)
    optimism: float | None = None
    beta: float | None = None
    reads_labels: bool = False
    curve: tuple[tuple[int, float], ...] = ()

    @property
    def is_baseline(self) -> bool:
        """Whether it is of a floor, however its setting came to be."""
        return is_baseline(self.method)

    @property
    def choice(self) -> str:
        """How the setting came to be."""
        if self.kind == "inside":
            return "chosen inside"
        if self.kind == "best":
            return "best on test" + (f" ({self.setting})" if self.setting else "")
        return self.setting

    @property
    def label(self) -> str:
        """Method and choice."""
        return f"{self.method} {self.choice}".strip()

    @property
    def interval(self) -> Interval | None:
        """Mean and 95 % interval over all seed × fold pairs; None where there is one pair only."""
        return None if self.scores is None else self.scores.interval

    @property
    def gap(self) -> float | None:
        """Points above the paper's figure."""
        if self.scores is None or self.paper is None:
            return None
        return self.scores.mean - self.paper


def lines(results: Results) -> list[Line]:
    """The lines of a table, by protocol, data set and method as asked for; floors last.

    Args:
        results: of a command.

    Returns:
        One line a cell; where several settings of a method were run, one more for the best on
        the test folds, and one for what was chosen inside, if that was asked for.
    """
    trained = [c.protocol for c in results.cells if not c.is_baseline]
    own = [c.protocol for c in results.cells if c.is_baseline and c.encoders]
    protocols = list(dict.fromkeys([*trained, *own] or [c.protocol for c in results.cells]))
    found = []
    for protocol in protocols:
        for dataset in dict.fromkeys(c.dataset for c in results.cells):
            shown = [c for c in results.cells if c.dataset == dataset and _shown(c, protocol)]
            methods = sorted(dict.fromkeys(c.method for c in shown), key=is_baseline)
            block = [
                line
                for method in methods
                for line in _of_method(results, [c for c in shown if c.method == method], protocol)
            ]
            found += _tested(block)
    return found


def _shown(cell: RunConfig, protocol: str) -> bool:
    """A floor stands under every protocol; one that trains encoders under its own."""
    return cell.protocol == protocol or (cell.is_baseline and not cell.encoders)


def _of_method(results: Results, cells: Sequence[RunConfig], protocol: str) -> list[Line]:
    first = cells[0]
    empty = Line(
        dataset=first.dataset,
        method=first.method,
        protocol=protocol,
        kind="floor" if first.is_baseline else "fixed",
        setting="",
        scores=None,
        expected=len(results.seeds),
        reads_labels=first.reads_labels,
    )
    finished = [r for r in map(results.result, cells) if r is not None]
    paper = first.paper if all(r.paper is not None for r in finished) else None
    found = [_filled(empty, results.result(cell), cell, cells) for cell in cells]
    if len(cells) == 1:
        return [replace(found[0], paper=paper)]
    selection = None
    if results.select and first.can_select:
        selection = results.selection(cells)
        inside = replace(empty, kind="inside")
        if selection is not None:
            seconds = sum(result.seconds for result in selection.inner)
            inside = replace(inside, scores=selection.scores, seconds=seconds)
        found.append(inside)
    if len({cell.epochs for cell in cells}) > 1:
        return found  # no maximum over epochs of a test score
    best = _best(results, cells, selection)
    line = replace(empty, kind="best", paper=paper)
    if best is not None:
        line = replace(_filled(line, best, best.cell, cells), seconds=0.0, curve=())
    return [*found, replace(line, optimism=selection.optimism if selection else None)]


def _filled(
    line: Line, result: CellResult | None, cell: RunConfig, beside: Sequence[RunConfig]
) -> Line:
    """The line with a cell's setting, and its numbers if there are any."""
    names = _settings(cell, beside)
    setting = " ".join(f"{SYMBOLS[name]}={getattr(cell, name):g}" for name in names)
    line = replace(line, setting=setting, beta=cell.beta if names == ["beta"] else None)
    if result is None:
        return line
    return replace(line, scores=result.scores, seconds=result.seconds, curve=result.curve)


def _settings(cell: RunConfig, beside: Sequence[RunConfig]) -> list[str]:
    """β, and whatever else differs between lines of a method."""
    return [
        name
        for name in SELECTABLE
        if len({getattr(c, name) for c in beside}) > 1 or (name == "beta" and cell.beta is not None)
    ]


def _best(
    results: Results, cells: Sequence[RunConfig], selection: Selection | None
) -> CellResult | None:
    """On seeds that all candidates have: on those of the selection, where there is one."""
    if selection is not None:
        return selection.best
    seeds = results.shared_seeds((cell, False) for cell in cells)
    found = [results.result(cell, seeds=seeds) for cell in cells] if seeds else []
    return best_on_test([r for r in found if r is not None]) if found else None


def _tested(block: Sequence[Line]) -> list[Line]:
    """The lines of a data set and protocol with their tests; Holm over those with one control.

    A line that is the best of several on the test folds is not tested: it was chosen there.
    """
    tested = {index: line for index, line in enumerate(block) if line.kind != "best"}
    found = list(block)
    for control in CONTROLS:
        reference = _reference(tested.values(), control)
        if reference is None:
            continue
        raw = {
            index: test
            for index, line in tested.items()
            if line.method != control and (test := _compare(line, reference)) is not None
        }
        p = holm([test.p for test in raw.values()])
        p_wilcoxon = holm([test.p_wilcoxon for test in raw.values()])
        for (index, test), one, other in zip(raw.items(), p, p_wilcoxon, strict=True):
            corrected = replace(test, p=test.p if one is None else one, p_wilcoxon=other)
            found[index] = replace(found[index], tests={**found[index].tests, control: corrected})
    return found


def _reference(block: Iterable[Line], control: str) -> Line | None:
    """The control's line: chosen inside where it was, else its only one."""
    own = [line for line in block if line.method == control]
    inside = [line for line in own if line.kind == "inside"]
    own = inside or own
    return own[0] if len(own) == 1 else None


def _compare(line: Line, control: Line) -> Comparison | None:
    """Uncorrected; None without a shared seed, or with one on one test split."""
    if line.scores is None or control.scores is None:
        return None
    seeds = [s for s in line.scores.seeds if s in control.scores.seeds]
    if not seeds:
        return None
    ours, theirs = line.scores.of(seeds), control.scores.of(seeds)
    t = ours.test_against(theirs)
    if t is None:
        return None
    return Comparison(
        control=control.method,
        seeds=len(seeds),
        difference=t.difference,
        p=t.p,
        p_wilcoxon=wilcoxon(ours.accuracies, theirs.accuracies),
    )
