"""The data sets of a process, each read once, and their cached facts."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import warnings
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, Self

from gcl_hard.errors import InputError
from gcl_hard.experiments.experiment import RunContext
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.settings import RunConfig
from gcl_hard.files.io import cache_root, file_stamp, write_json


class DataSets:
    """Data sets by configuration, each read once per process.

    Methods take a configuration, and the user's own data if these have no file, of which the last
    few sets are kept.

    Args:
        context: gives the folder, the device and the digest of the source: facts cached by another
            version of the source are ignored.
    """

    MOST_OWN = 4

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._sets: dict[Hashable, Any] = {}
        self._facts: dict[Hashable, dict[str, Any]] = {}
        self._notes: dict[Hashable, list[str]] = {}
        self._user_data: dict[int, Any] = {}
        self._files: dict[Hashable, list[tuple[str, Any]]] = {}
        self._seen = set[Hashable]()
        self._call = context.call

    def of_call(self, call: str) -> Self:
        """The same sets; a new call in the process checks again whether their files changed."""
        if call != self._call:
            self._call = call
            self._seen.clear()
        return self

    def load(self, config: RunConfig, user_data: Any = None) -> Any:
        """The data of a configuration.

        Raises:
            InputError: if they are not available or lack what the configuration needs.
        """
        key = self._current(config, user_data)
        if key not in self._sets:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", UserWarning)
                self._sets[key] = self._context.experiment_of(config).load(
                    config, self._context, user_data
                )
            for w in caught:
                warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
            self._notes[key] = [str(w.message) for w in caught if w.category is UserWarning]
        return self._sets[key]

    def facts(self, config: RunConfig, user_data: Any = None) -> dict[str, Any]:
        """Description of the data for results; its digest distinguishes data sets of the same name.

        ``notes``, if there are any, are warnings of reading them, such as files left out.

        A finished table is shown without parsing its sets: the facts of a file are cached until the
        file or this package changes.

        Raises:
            InputError: if the data are not available.
        """
        key = self._current(config, user_data)
        if key not in self._facts and user_data is not None:
            self._facts[key] = self._read(config, user_data)
        if key not in self._facts:
            stamps = self._files[key]
            files = [file for file, _ in stamps]
            text = json.dumps([*key[1:], self._context.versions["source"], stamps])
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            # Without a file nothing tells whether the data have changed.
            cache = cache_root() / "facts" / f"{digest}.json" if files else None
            facts = None if cache is None else _cached(cache)
            if facts is None:
                facts = self._read(config, None)
                if "notes" in facts and files:  # without folders of this machine
                    folder = f"{Path(os.path.commonpath(files)).parent}/"
                    facts["notes"] = [note.replace(folder, "") for note in facts["notes"]]
                if cache is not None:
                    with contextlib.suppress(InputError):  # losing it costs only time
                        write_json(facts, cache)
            self._facts[key] = facts
        if "digest" not in self._facts[key]:
            raise InputError(
                f"facts of {config.domain} have no digest, by which changed data are told apart: "
                f"gcl_hard.files.io.digest_of_arrays makes one"
            )
        facts = self._facts[key]
        return facts | experiment_of(config).resolved(config, facts)

    def _read(self, config: RunConfig, user_data: Any) -> dict[str, Any]:
        """The facts of data, with warnings of reading them as notes."""
        facts = self._context.experiment_of(config).facts(self.load(config, user_data))
        notes = self._notes[self._current(config, user_data)]
        return facts | ({"notes": notes} if notes else {})

    def size(self, config: RunConfig, user_data: Any = None) -> tuple[int, int]:
        """The ``size`` argument of :meth:`RunConfig.cost`."""
        return self._context.experiment_of(config).size(self.load(config, user_data))

    def _current(self, config: RunConfig, user_data: Any) -> tuple[Hashable, ...]:
        """Cache key of the data; drops stale entries.

        The user's own data are kept, so that no other object takes their id.
        """
        if user_data is not None and id(user_data) not in self._user_data:
            self._user_data[id(user_data)] = user_data
            old_ids = [*self._user_data][: -self.MOST_OWN]
            for old_id in old_ids:
                del self._user_data[old_id]
            self._drop(lambda key: key[0] in old_ids)
        current = (None if user_data is None else id(user_data), config.domain, *config.data_key)
        if user_data is None and current not in self._seen:
            files = [
                file.absolute()
                for file in experiment_of(config).files(config, self._context.data_dir)
            ]
            stamps = [(str(file), file_stamp(file)) for file in files]
            if self._files.get(current) != stamps:
                self._drop(lambda key: key == current)
            self._files[current] = stamps
            self._seen.add(current)
        return current

    def _drop(self, is_stale: Callable[[Any], bool]) -> None:
        """Drop the entries of stale keys."""
        for cache in (self._sets, self._facts, self._notes):
            for key in [*filter(is_stale, cache)]:
                del cache[key]


def _cached(path: Path) -> dict[str, Any] | None:
    """Facts in a file of the cache; None if there are none, or half of them."""
    try:
        facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return facts
