"""Sets of texts with classes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from gcl_hard.errors import InputError, unknown
from gcl_hard.files.tables import name_of_table, read_table
from gcl_hard.texts import LABELS, TEXTS
from gcl_hard.vectors.data import LabelledItems


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TextSet(LabelledItems):
    """Texts with classes.

    Attributes:
        texts: the texts.

    Example:
        >>> texts = TextSet.from_texts(["where is my card", "what is the rate", " "], [0, 1, 1])
        >>> texts, texts.notes
        (TextSet(own: 2 texts, 2 classes), ('texts that are empty, left out: 1',))
    """

    item: ClassVar[str] = "text"

    texts: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits of the texts, classes, names and split."""
        return self.digest_with(np.array(self.texts, object))

    @classmethod
    def from_texts(
        cls,
        texts: Sequence[str | None],
        y: Any = None,
        *,
        split: Any = None,
        ids: Sequence[Hashable] | None = None,
        name: str = "own",
    ) -> Self:
        """A set of texts.

        Args:
            texts: texts, n; those that are None or blank are left out, and counted in ``notes``.
            y: classes [n], whole numbers or words; −1, NaN or nothing where unknown; or None.
            split: parts [n], the words train, valid and test, or 0, 1 and 2; validation is drawn
                from training where there is none.
            ids: names of the texts [n]; 0 to n − 1 if None.
            name: name of the set in results.

        Raises:
            InputError: for what is no text, or does not fit.
        """
        strange = [value for value in texts if value is not None and not isinstance(value, str)]
        if strange:
            raise InputError(f"{name}: {strange[0]!r} is a {type(strange[0]).__name__}, no text")
        fields = cls.fields(len(texts), name, y, ids, split)
        kept = np.array([k for k, text in enumerate(texts) if text and text.strip()], np.int64)
        if not len(kept):
            raise InputError(f"{name} has no texts: all {len(texts)} are empty")
        if n_empty := len(texts) - len(kept):
            for field in ("y", "names", "split"):
                fields[field] = None if fields[field] is None else fields[field][kept]
            fields["notes"] = (*fields["notes"], f"texts that are empty, left out: {n_empty:,}")
        return cls(texts=tuple(str(texts[k]) for k in kept), **fields)

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        text: str | None = None,
        label: str | None = None,
        id: str | None = None,
        split: str | None = None,
        name: str | None = None,
    ) -> Self:
        """A set of a table with a row for each text.

        Args:
            table: a DataFrame, or the path of a CSV, Parquet or JSON lines file.
            text: column of texts; ``text``, ``sentence``, ``utterance``, ``question``, ``query`` or
                ``document`` if None.
            label: column of classes; ``label``, ``class``, ``category`` or ``intent``, if there is
                one.
            id: column of ids, likewise ``id``.
            split: column with the words train, valid and test, likewise ``split``.
            name: name of the set in results; that of the file, or ``own``, if None.

        Raises:
            InputError: for columns that are not there, two that may be the texts or the classes,
                and an id of several rows.

        Example:
            >>> import pandas as pd
            >>> frame = pd.DataFrame({"utterance": ["my card", "the rate"], "intent": ["a", "b"]})
            >>> TextSet.from_table(frame).class_names
            ('a', 'b')
        """
        name = name_of_table(table) if name is None else name
        columns = read_table(table, "texts")

        def values(flag: str, named: str | None, usual: Sequence[str]) -> Any:
            if named is not None and named not in columns:
                raise unknown("column of texts", named, columns)
            names = [column for column in columns if column.casefold() in usual]
            if named is None and len(names) > 1:
                raise InputError(
                    f"{name}: each of the columns {', '.join(names)} may be the one of {flag}s: "
                    f"name it by {flag} (--{flag} {names[0]})"
                )
            column = named or next(iter(names), None)
            return None if column is None else columns[column]

        texts = values("text", text, TEXTS)
        if texts is None:
            raise InputError(
                f"{name} has no column text: name the column of texts by text (--text), one of "
                f"{', '.join(columns)}"
            )
        return cls.from_texts(
            texts.tolist(), values("label", label, LABELS), ids=values("id", id, ("id",)),
            split=values("split", split, ("split",)), name=name,
        )  # fmt: skip
