"""Journals whose last write was cut short, and journals that are damaged elsewhere."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from gcl_hard.errors import InputError
from gcl_hard.tuning.storage import opened
from tests.said import says

VALUES = [0.5, 0.25, 0.75]
HALF = b'{"op_code":6,"worker_id":"b-1","tri'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal of three finished trials, whose last line is about something else."""
    path = tmp_path / "a.journal"
    study = optuna.create_study(storage=plain(path), study_name="study", direction="maximize")
    for value in VALUES:
        study.tell(study.ask(), value)
    study.set_user_attr("note", "of no trial")
    return path


def plain(path: Path) -> JournalStorage:
    """The journal as another program opens it."""
    return JournalStorage(JournalFileBackend(str(path)))


def study_of(storage: optuna.storages.BaseStorage) -> optuna.Study:
    return optuna.load_study(study_name="study", storage=storage)


def ours(path: Path, *, create: bool = True) -> optuna.Study:
    return study_of(opened(f"journal:{path}", create=create))


def values(study: optuna.Study) -> list[float | None]:
    return [trial.value for trial in study.trials if trial.value is not None]


def test_wherever_the_last_write_was_cut_the_trials_before_it_stay(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    *before, last = lines[:-1]  # the third score
    for kept in range(1, len(last), 9):
        path.write_bytes(b"".join(before) + last[:kept])
        with pytest.warns(UserWarning, match=path.name) as warned:
            study = ours(path)
        assert says(str(warned[0].message), str(path), kept)
        assert path.read_bytes() == b"".join(before)
        study.tell(study.ask(), 1.0)
        assert values(ours(path)) == values(study_of(plain(path))) == [*VALUES[:2], 1.0]


@pytest.mark.parametrize("torn", [HALF, bytes(300), b"\xff\xfe"])
def test_a_torn_journal_that_is_only_read_stays_as_it_is(path: Path, torn: bytes) -> None:
    content = path.read_bytes() + torn
    path.write_bytes(content)
    assert values(ours(path, create=False)) == VALUES
    assert path.read_bytes() == content


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("damaged", [HALF, b"3", b"", b"\xff"])
def test_a_damaged_journal_is_named_and_nothing_is_written(
    path: Path, damaged: bytes, *, create: bool
) -> None:
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*lines[:4], damaged, *lines[4:]]) + HALF)
    content = path.read_bytes()
    with pytest.raises(InputError) as caught:
        ours(path, create=create)
    assert says(str(caught.value), str(path), "line 5")
    assert path.read_bytes() == content


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file may grow over so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
