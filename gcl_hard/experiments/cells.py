"""All kinds of cells: of graphs and of images."""

from __future__ import annotations

from typing import Any

from gcl_hard.errors import InputError
from gcl_hard.experiments.cell import Cell, defaults
from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.image_cell import ImageCell

CELLS: dict[str, type[Cell]] = {cell.backend: cell for cell in (GraphCell, ImageCell)}
"""By backend."""


def is_floor(name: str) -> bool:
    """Whether a method's name is that of a floor, of graphs or of images.

    Example:
        >>> is_floor("pixels"), is_floor("hscl")
        (True, False)
    """
    return any(name in cell.floors for cell in CELLS.values())


def from_dict(stored: dict[str, Any]) -> Cell:
    """A config as it was stored in a result file.

    Args:
        stored: what ``dataclasses.asdict`` gave, JSON in between; settings that did not exist
            yet are what they are by default.

    Returns:
        The config: of graphs, unless only those of images have all its settings.

    Raises:
        InputError: if it has a setting that is not known here.

    Example:
        >>> import json
        >>> from dataclasses import asdict
        >>> from_dict(json.loads(json.dumps(asdict(GraphCell())))) == GraphCell()
        True
    """
    kinds = [cell for cell in CELLS.values() if set(stored) <= set(defaults(cell))]
    if not kinds:
        surplus = min((set(stored) - set(defaults(cell)) for cell in CELLS.values()), key=len)
        raise InputError(f"unknown settings: {', '.join(sorted(surplus))}")
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()}
    return kinds[0](**values)
