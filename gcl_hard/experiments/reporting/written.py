"""Pages and their figures, as files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gcl_hard.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_files(texts: Mapping[Path, str], figures: Mapping[Path, Figure]) -> list[Path]:
    """Write texts and figures; folders that are missing are made.

    Args:
        texts: by file, a page first.
        figures: by file.

    Returns:
        What was written, texts first.

    Raises:
        InputError: if a place cannot be written to; names it.
    """
    # matplotlib, only where it draws
    from gcl_hard.experiments.reporting.figures.drawing import save

    try:
        for file, content in texts.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8", newline="\n")
        for file, figure in figures.items():
            save(figure, file)
    except OSError as error:
        where = error.filename or next(iter(texts))
        raise InputError(f"cannot write {where}: {error.strerror}") from error
    return [*texts, *figures]
