"""The best settings as a config that ``python -m gcl_hard.bench --config`` takes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import yaml

from gcl_hard.experiments.config import RunConfig
from gcl_hard.experiments.options import LISTED


def best_yaml(cell: RunConfig, head: str) -> str:
    """A config of exactly one cell.

    Settings that a method does not have, such as β of hscl-tau, are left out where the flag takes
    no null.

    Args:
        cell: the settings.
        head: what the comment at the top says; may have several lines.

    Returns:
        YAML; numbers are read back with the same bits.

    Example:
        >>> from gcl_hard.experiments.config import GraphConfig
        >>> print("\\n".join(best_yaml(GraphConfig(beta=2.5), "The best.").splitlines()[:6]))
        # The best.
        <BLANKLINE>
        dataset: [MUTAG]
        method: [hscl]
        protocol: [paper]
        beta: [2.5]
    """
    stated: dict[str, Any] = {}
    for name, value in asdict(cell).items():
        if name not in LISTED:
            stated[name] = list(value) if isinstance(value, tuple) else value
        elif value is not None:
            stated[name] = [value]
    comment = "\n".join(f"# {line}".rstrip() for line in head.splitlines())
    body = yaml.safe_dump(
        stated, sort_keys=False, default_flow_style=None, allow_unicode=True, width=float("inf")
    )
    return f"{comment}\n\n{body}"
