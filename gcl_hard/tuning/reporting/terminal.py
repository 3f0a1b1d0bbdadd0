"""What a search found, on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gcl_hard.tuning.reporting.numbers import chosen_on_test, numbers
from gcl_hard.tuning.reporting.words import settings
from gcl_hard.tuning.tally import Tally

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gcl_hard.tuning.outcome import Finding, Outcome


def drawing(outcome: Outcome) -> RenderableType:
    """The best settings and the numbers, each with what it means.

    Args:
        outcome: of a search.

    Returns:
        What a rich console prints.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2), pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    rows = [(finding.study.study_name, _found(finding)) for finding in outcome.findings]
    rows += [(f"{n.name} {n.value.split(' (')[0]}", n.meaning) for n in numbers(outcome)]
    for row in rows:
        table.add_row(*map(Text, row))  # reasons may have brackets, which rich would read
    warning = chosen_on_test(outcome)
    return Group(table, *([Text(warning, style="bold yellow")] if warning else []))


def _found(finding: Finding) -> str:
    tally = Tally.of(finding.study.get_trials(deepcopy=False))
    failed = "; ".join(f"{n} x {reason}" for reason, n in tally.failures.most_common())
    counts = f"{tally.complete} complete, {tally.pruned} pruned"
    counts += f", {tally.failures.total()} failed ({failed})" if failed else ""
    where = "on the test folds" if finding.cell.protocol == "paper" else "inside"
    scores = f"{finding.inner:.1f} % {where}"
    scores += "" if finding.outer is None else f", {finding.outer:.1f} % outside"
    best = settings(finding.best.params)
    return f"trial {finding.best.number} of {counts}: {best}; {scores}"
