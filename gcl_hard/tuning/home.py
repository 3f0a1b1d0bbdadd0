"""A study's place: made once, joined by whoever searches the same."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import optuna
from optuna.exceptions import DuplicatedStudyError
from optuna.storages import BaseStorage
from optuna.study import StudyDirection

from gcl_hard.cli import without_password as shown
from gcl_hard.errors import InputError
from gcl_hard.tuning.lease import GRID
from gcl_hard.tuning.storage import opened, reachable

if TYPE_CHECKING:
    from optuna import Study
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler

ABOUT, READY = "gcl_hard", "gcl_hard_ready"
"""Attributes of a study: what it is of, and whether its grid has been enqueued."""
READY_SECONDS = 10.0  # for whoever made a study to enqueue its grid


@dataclass(frozen=True)
class About:
    """What a study is of: workers with another one must not join it.

    Attributes:
        dataset: name.
        method: name, or several that are searched.
        protocol: name.
        settings: of the cell, those that are not searched.
        space: the dimensions and the grid, as words.
        digest: of the data.
        inner: how trials are scored.
        outer: which outer part, of how many.
        sampler: name.
        pruner: name.
        seed: of everything.
        encoder: name of the user's own, or None.
    """

    dataset: str
    method: str
    protocol: str
    settings: dict[str, Any]
    space: dict[str, Any]
    digest: str
    inner: str
    outer: str
    sampler: str
    pruner: str
    seed: int
    encoder: str | None = None

    def as_json(self) -> dict[str, Any]:
        """As it is stored."""
        found: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return found


@dataclass(frozen=True)
class Home:
    """A study's place: its storage and its name.

    Attributes:
        url: of the storage.
        name: of the study.
    """

    url: str
    name: str
    storage: BaseStorage = field(compare=False, repr=False)

    @classmethod
    def at(cls, url: str, name: str, *, create: bool = True) -> Home:
        """Open it; arguments and errors as of :func:`opened`."""
        return cls(url, name, opened(url, create=create))

    def join(
        self,
        about: About,
        grid: list[dict[str, Any]],
        *,
        sampler: BaseSampler,
        pruner: BasePruner,
    ) -> Study:
        """Make the study or join it.

        Args:
            about: what it is of.
            grid: settings tried before all else; enqueued by whoever makes the study.
            sampler: of this process.
            pruner: of this process.

        Returns:
            The study.

        Raises:
            InputError: if the study is of something else; says of what.
        """
        with reachable(self.url):
            try:
                study = optuna.create_study(
                    storage=self.storage, study_name=self.name, direction="maximize",
                    sampler=sampler, pruner=pruner,
                )  # fmt: skip
            except DuplicatedStudyError:
                study = optuna.load_study(
                    study_name=self.name, storage=self.storage, sampler=sampler, pruner=pruner
                )
                self._check(study, about)
                if self._wait(study):
                    return study
            study.set_user_attr(ABOUT, about.as_json())
            for params in grid:
                study.enqueue_trial(params, user_attrs={GRID: True}, skip_if_exists=True)
            study.set_user_attr(READY, True)
        return study

    def found(self, about: About) -> Study:
        """The study as it is, to be looked at.

        Raises:
            InputError: if there is none, or it is of something else.
        """
        with reachable(self.url):
            try:
                study = optuna.load_study(study_name=self.name, storage=self.storage)
            except KeyError:
                raise InputError(
                    f"there is no study {self.name!r} in {shown(self.url)}: the command without "
                    f"--report-only begins it"
                ) from None
            self._check(study, about)
        return study

    def _wait(self, study: Study) -> bool:
        """Until whoever made the study has enqueued its grid; False if that has died."""
        end = time.monotonic() + READY_SECONDS
        while not study.user_attrs.get(READY):
            if time.monotonic() > end:
                return False
            time.sleep(0.1)
        return True

    def _foreign(self) -> InputError:
        return InputError(
            f"study {self.name!r} in {shown(self.url)} is not of gcl_hard: give another "
            f"--study-name or --storage"
        )

    def _check(self, study: Study, about: About) -> None:
        if study.directions != [StudyDirection.MAXIMIZE]:
            raise self._foreign()
        for _ in range(20):  # whoever made it may be about to say what it is of
            trials = study.get_trials(deepcopy=False)  # before the attribute, which is set first
            stored = study.user_attrs.get(ABOUT)
            if stored is not None:
                break
            if trials:
                raise self._foreign()
            time.sleep(0.1)
        else:
            return
        mine = about.as_json()
        differ = [key for key in mine if stored.get(key) != mine[key]]
        if differ:
            named = [key for key in differ if key in ("dataset", "method", "protocol")]
            differ = named or differ  # the rest follows from these
            what = "; ".join(_difference(key, stored.get(key), mine[key]) for key in differ)
            raise InputError(
                f"study {self.name!r} in {shown(self.url)} is of {stored.get('dataset')} "
                f"{stored.get('method')}, {stored.get('protocol')}, and this command differs: "
                f"{what}. Give another --study-name or --storage"
            )


def _difference(key: str, stored: Any, mine: Any) -> str:
    if isinstance(stored, dict) and isinstance(mine, dict):
        keys = [k for k in {**stored, **mine} if stored.get(k) != mine.get(k)]
        if key == "space":
            return f"another search space ({', '.join(keys)})"
        return ", ".join(_difference(k, stored.get(k), mine.get(k)) for k in keys)
    return f"{key} {_short(stored)} there, {_short(mine)} here"


def _short(value: Any) -> str:
    return "as usual" if value is None else str(value)
