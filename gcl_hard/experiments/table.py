"""What ``--table`` and ``--quick`` stand for: values of flags that are not given."""

from __future__ import annotations

from typing import Any

from gcl_hard.experiments.config import FLOORS
from gcl_hard.experiments.paper import TABLE_II
from gcl_hard.experiments.values import Counts, Numbers, Seeds, Words

TABLES: dict[str, dict[str, Any]] = {
    "2": {
        "dataset": Words(TABLE_II),
        "method": Words(("ucl", "hucl", "scl", "hscl", *FLOORS)),
        "protocol": Words(("paper", "inductive")),
        "beta": Numbers((1.0, 2.0, 10.0)),
        "select": True,
        "jobs": None,
    }
}
"""By the paper's number: every method, floor and protocol, β chosen inside training folds."""

QUICK: dict[str, Any] = {
    "seeds": Seeds((0, 1)),
    "epochs": Counts((3,)),
    "beta": Numbers((1.0, 10.0)),
}
"""A look in minutes."""
