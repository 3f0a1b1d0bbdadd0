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
from gcl_hard.experiments.record import digest_of
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.settings import RunConfig
from gcl_hard.files.io import cache_root, file_stamp, write_json


class DataSets:
    """Data sets by configuration, each read once per process.

    Methods take a configuration, and the user's own data where these have no file; of such sets
    the last few are kept.

    Args:
        context: gives the folder, the device and the digest of the source: facts that another
            version of the source cached are ignored.
    """

    MOST_OWN = 4

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._sets: dict[Hashable, Any] = {}
        self._facts: dict[Hashable, dict[str, Any]] = {}
        self._notes: dict[Hashable, list[str]] = {}
        self._own: dict[int, Any] = {}
        self._files: dict[Hashable, list[tuple[str, Any]]] = {}
        self._seen = set[Hashable]()
        self._call = context.call

    def of_call(self, call: str) -> Self:
        """The same sets; another call of a process looks again whether their files have changed."""
        if call != self._call:
            self._call = call
            self._seen.clear()
        return self

    def load(self, config: RunConfig, own: Any = None) -> Any:
        """The data of a configuration.

        Raises:
            InputError: if they are not available or lack what the configuration needs.
        """
        key = self._current(config, own)
        if key not in self._sets:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always", UserWarning)
                self._sets[key] = self._context.experiment_of(config).load(
                    config, self._context, own
                )
            for one in said:
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
            self._notes[key] = [str(one.message) for one in said if one.category is UserWarning]
        return self._sets[key]

    def facts(self, config: RunConfig, own: Any = None) -> dict[str, Any]:
        """Description of the data for results; its digest distinguishes data sets of the same name.

        ``notes``, if there are any, are what reading them warned of, such as files left out.

        A finished table is shown without parsing its sets: the facts of a file are cached for as
        long as neither the file nor this package changes.

        Raises:
            InputError: if the data are not available.
        """
        key = self._current(config, own)
        if key not in self._facts and own is not None:
            self._facts[key] = self._read(config, own)
        if key not in self._facts:
            stamps = self._files[key]
            files = [file for file, _ in stamps]
            text = json.dumps([*key[1:], self._context.versions["source"], stamps])
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            cache = FactsCache(cache_root() / "facts.json")
            # Without a file there is nothing that tells whether the data have changed.
            found = cache.get(digest) if files else None
            if found is None:
                found = self._read(config, None)
                if "notes" in found and files:  # which name no folder of this machine
                    folder = f"{Path(os.path.commonpath(files)).parent}/"
                    found["notes"] = [one.replace(folder, "") for one in found["notes"]]
                if files:
                    cache.put(digest, found)
            self._facts[key] = found
        if "digest" not in self._facts[key]:
            raise InputError(
                f"facts of {config.domain} have no digest, by which changed data are told apart: "
                f"gcl_hard.files.io.digest_of_arrays makes one"
            )
        facts = self._facts[key]
        return facts | experiment_of(config).resolved(config, facts)

    def _read(self, config: RunConfig, own: Any) -> dict[str, Any]:
        """The facts of data and what was said when they were read."""
        found = self._context.experiment_of(config).facts(self.load(config, own))
        notes = self._notes[self._current(config, own)]
        return found | ({"notes": notes} if notes else {})

    def size(self, config: RunConfig, own: Any = None) -> tuple[int, int]:
        """The ``size`` argument of :meth:`RunConfig.cost`."""
        return self._context.experiment_of(config).size(self.load(config, own))

    def _current(self, config: RunConfig, own: Any) -> tuple[Hashable, ...]:
        """Key of a configuration's data, of which what is out of date is forgotten; ``own`` is
        kept, so that its id stays its own.
        """
        if own is not None and id(own) not in self._own:
            self._own[id(own)] = own
            old = [*self._own][: -self.MOST_OWN]
            for one in old:
                del self._own[one]
            self._forget(lambda key: key[0] in old)
        found = (None if own is None else id(own), config.domain, *config.data_key)
        if own is None and found not in self._seen:
            files = [
                file.absolute()
                for file in experiment_of(config).files(config, self._context.data_dir)
            ]
            stamps = [(str(file), file_stamp(file)) for file in files]
            if self._files.get(found) != stamps:
                self._forget(lambda key: key == found)
            self._files[found] = stamps
            self._seen.add(found)
        return found

    def _forget(self, which: Callable[[Any], bool]) -> None:
        """Drop what is known under some keys."""
        for kept in (self._sets, self._facts, self._notes):
            for key in [*filter(which, kept)]:
                del kept[key]


class FactsCache:
    """A JSON file that caches facts about data sets; losing it costs only time."""

    LARGEST = 200  # entries; the oldest are dropped first

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, key: str) -> dict[str, Any] | None:
        """The facts under a key; None if there are none, or others than were written."""
        found = self._read().get(key)
        if not isinstance(found, dict) or not isinstance(found.get("facts"), dict):
            return None
        facts: dict[str, Any] = found["facts"]
        return facts if found.get("digest") == digest_of(facts) else None

    def put(self, key: str, value: dict[str, Any]) -> None:
        """Add facts; a file that cannot be written is no error."""
        entry = {"facts": value, "digest": digest_of(value)}
        entries = [*self._read().items(), (key, entry)][-self.LARGEST :]
        with contextlib.suppress(Exception):
            write_json(dict(entries), self._path)

    def _read(self) -> dict[str, Any]:
        try:
            stored = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return stored if isinstance(stored, dict) else {}
