"""What ``--table`` and ``--quick`` stand for: values of flags that are not given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from gcl_hard.experiments import graph_cell, image_cell
from gcl_hard.experiments.paper import TABLE_I, TABLE_II
from gcl_hard.experiments.values import Counts, Numbers, Seeds, Words
from gcl_hard.methods import METHODS


@dataclass(frozen=True)
class Table:
    """One of the paper's tables, or ours.

    Attributes:
        backend: whose cells it has.
        shows: what it is, in words.
        values: of flags that are not given.
        of_set: of flags that are not given, for single data sets.
    """

    backend: Literal["graphs", "images"]
    shows: str
    values: dict[str, Any]
    of_set: dict[str, dict[str, Any]] = field(default_factory=dict)


TABLES: dict[str, Table] = {
    "1": Table(
        "images",
        "Table I, images, with floors, grids and tests",
        {
            "dataset": Words(TABLE_I),
            "method": Words(("ucl", "hucl", "scl", "hscl", "hscl-tau", *image_cell.FLOORS)),
            "beta": Numbers((0.1, 0.5, 1.0, 2.0, 5.0)),
            "threshold_start": Numbers((-0.5, -0.3, -0.1)),
            "threshold_end": Numbers((-0.1, 0.0, 0.1)),
            "select": True,
        },
        of_set={"STL10": {"size": 32, "stem": "cifar"}},  # as in configs/images/stl10.yaml
    ),
    "2": Table(
        "graphs",
        "Table II, graphs, with floors, both protocols and tests",
        {
            "dataset": Words(TABLE_II),
            "method": Words(("ucl", "hucl", "scl", "hscl", *graph_cell.FLOORS)),
            "protocol": Words(("paper", "inductive")),
            "beta": Numbers((1.0, 2.0, 10.0)),
            "select": True,
            "jobs": None,
        },
    ),
    "recipe": Table(
        "graphs",
        "our recipe against the paper's, floors, levers and fewer graphs, fresh seeds",
        {
            "dataset": Words(TABLE_II),
            "method": Words((*METHODS, *graph_cell.FLOORS)),
            "protocol": Words(("inductive", "paper")),
            "seeds": Seeds(range(100, 105)),
            "jobs": None,
        },
    ),
}
"""By the paper's number: every method, floor and protocol, settings chosen inside training data."""

QUICK: dict[str, dict[str, Any]] = {
    "graphs": {
        "seeds": Seeds((0, 1)),
        "epochs": Counts((3,)),
        "beta": Numbers((1.0, 10.0)),
    },
    "images": {
        "dataset": Words(("digits",)),
        "encoder": "resnet18",
        "seeds": Seeds((0, 1)),
        "epochs": Counts((3,)),
        "beta": Numbers((1.0, 5.0)),
        "threshold_start": Numbers((-0.5,)),
        "threshold_end": Numbers((0.0,)),
    },
}
"""A look in minutes."""
