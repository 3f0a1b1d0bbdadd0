"""Where the numbers of a page come from."""

from __future__ import annotations

from gcl_hard.experiments.reporting.words import count, values
from gcl_hard.experiments.results import Results


def origin(results: Results) -> str:
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
    trained = [cell for cell in results.cells if not cell.is_baseline]
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
