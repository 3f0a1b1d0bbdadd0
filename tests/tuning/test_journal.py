"""Journals whose last write was cut short, and journals that are damaged elsewhere."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import optuna
import pytest
from optuna.exceptions import StorageInternalError
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock

from gcl_hard.errors import InputError
from gcl_hard.tuning.journal import mended
from gcl_hard.tuning.storage import opened, reachable
from tests.said import says

VALUES = [0.5, 0.25, 0.75]


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


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def beside(path: Path) -> list[Path]:
    """What else is in the folder of the journal."""
    return [other for other in path.parent.iterdir() if other != path]


HALF = b'{"op_code":6,"worker_id":"b-1","tri'
TORN: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda last: last[:-20],
    "cut after a byte": lambda last: last[:1],
    "zeros": lambda last: last[:9] + bytes(300),
    "zeros and a line break": lambda last: bytes(20) + b"\n",
    "no text": lambda last: last[:9] + b"\xff\xfe\xfa\n",
    "half a line": lambda last: HALF + b"\n",
    "two lines in one": lambda last: HALF + last,
    "a blank line": lambda last: last + b"\n",
    "another kind of line": lambda last: last + b"3\n",
    "blank lines": lambda last: last + b"\n\n",
    "blank lines of Windows": lambda last: last + b"\r\n" * 3,
    "blanks": lambda last: last + b"  \n\t\n  ",
    "half a line and blank lines": lambda last: HALF + b"\n\n\n",
}


@pytest.mark.parametrize("torn", TORN.values(), ids=TORN)
def test_a_torn_end_is_cut_off_and_the_finished_trials_stay(
    path: Path, torn: Callable[[bytes], bytes]
) -> None:
    *_, last = lines = lines_of(path)
    path.write_bytes(b"".join(lines[:-1]) + torn(last))
    damaged, whole = path.read_bytes(), len(lines) - (not torn(last).startswith(last))
    with pytest.warns(UserWarning, match=path.name) as warned:
        study = ours(path)
    (message,) = (str(warning.message) for warning in warned)
    (copy,) = beside(path)
    assert says(message, str(path), f"line {whole + 1}", "3 finished trials", copy.name)
    assert copy.read_bytes() == damaged
    assert lines_of(path) == lines[:whole]
    assert values(study) == VALUES
    study.tell(study.ask(), 1.0)
    assert values(ours(path)) == values(study_of(plain(path))) == [*VALUES, 1.0]
    assert beside(path) == [copy]


def test_wherever_a_write_was_cut_the_trials_before_it_stay(path: Path) -> None:
    lines = lines_of(path)[:-1]
    *_, last = lines  # the third score
    for kept in range(1, len(last) - 1, 9):
        path.write_bytes(b"".join(lines[:-1]) + last[:kept])
        with pytest.warns(UserWarning, match=r"\b2 finished\b"):
            assert values(ours(path)) == VALUES[:2]


def test_a_copy_never_takes_the_place_of_another(path: Path) -> None:
    damaged = []
    for end in (b"{", b'{"op'):
        path.write_bytes(path.read_bytes() + end)
        damaged.append(path.read_bytes())
        with pytest.warns(UserWarning, match=path.name):
            ours(path)
    assert sorted(copy.read_bytes() for copy in beside(path)) == sorted(damaged)


def test_a_line_that_lacks_its_line_break_is_kept(path: Path) -> None:
    whole = b"".join(lines_of(path)[:-1])  # its end is the third score
    path.write_bytes(whole[:-1])
    with pytest.warns(UserWarning, match=path.name) as warned:
        study = ours(path)
    assert says(str(warned[0].message), str(path), 3, "trials")
    assert path.read_bytes() == whole
    assert beside(path) == []
    study.tell(study.ask(), 1.0)
    assert values(ours(path)) == [*VALUES, 1.0]


def test_a_journal_whose_first_write_was_cut_begins_anew(path: Path) -> None:
    path.write_bytes(lines_of(path)[0][:-9])
    with pytest.warns(UserWarning, match=path.name) as warned:
        storage = opened(f"journal:{path}")
    assert says(str(warned[0].message), str(path), "line 1", 0)
    assert storage.get_all_studies() == []


DAMAGED = {
    "half": HALF + b"\n",
    "two halves": HALF + b"\n" + HALF + b"\n",
    "zeros": bytes(64) + b"\n",
    "no text": b'{"op_code":8,"\xff":1}\n',
    "blank": b"\n",
    "white space": b" \t\r\n",
    "a number": b"3\n",
    "a list": b'["op_code"]\n',
    "two lines in one": HALF + b'{"op_code":0}\n',
    "an unknown operation": b'{"op_code":77,"worker_id":"b-1"}\n',
    "without its fields": b'{"op_code":6,"worker_id":"b-1"}\n',
}


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("damaged", DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize("cut", [0, 20])
def test_damage_elsewhere_is_named_with_its_line_and_nothing_is_written(
    path: Path, damaged: bytes, cut: int, *, create: bool
) -> None:
    lines = lines_of(path)
    finished = [n for n, line in enumerate(lines) if line.startswith(b'{"op_code":6')]
    lines[finished[2]] = damaged
    content = b"".join(lines)
    path.write_bytes(content[: len(content) - cut])
    content = path.read_bytes()
    with pytest.raises(InputError) as caught:
        opened(f"journal:{path}", create=create)
    assert says(str(caught.value), str(path), f"line {finished[2] + 1}")
    assert path.read_bytes() == content
    assert beside(path) == []


def test_damage_elsewhere_says_how_many_trials_are_before_it(path: Path) -> None:
    lines = lines_of(path)
    lines[-2] = HALF + b"\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(InputError) as caught:
        ours(path)
    assert says(str(caught.value), f"line {len(lines) - 1}", "2 finished trials")


@pytest.mark.parametrize("blank", [b"\n", b"  \r\n", b"\n\n\n"])
@pytest.mark.parametrize("torn", [b"", HALF, b"\n\n"])
def test_blank_lines_between_trials_are_to_be_removed_and_no_trial_is_lost(
    path: Path, blank: bytes, torn: bytes
) -> None:
    lines = lines_of(path)
    scores = [n for n, line in enumerate(lines) if line.startswith(b'{"op_code":6')]
    at = scores[0] + 1  # behind the first score
    path.write_bytes(b"".join([*lines[:at], blank, *lines[at:], torn]))
    content, last = path.read_bytes(), len(lines) + blank.count(b"\n") + (torn == HALF)
    with pytest.raises(InputError) as caught:
        ours(path)
    facts = [str(path), f"line {at + 1}", blank.count(b"\n"), f"line {last}"]
    assert says(str(caught.value), *facts, "1 before", "2 after")
    assert path.read_bytes() == content
    kept = [line for line in lines_of(path)[: last - (torn == HALF)] if line.strip()]
    path.write_bytes(b"".join(kept))
    assert values(ours(path)) == VALUES


def test_a_torn_journal_that_is_only_read_stays_as_it_is(path: Path) -> None:
    for end in (HALF, b"\xff\n", bytes(9)):
        whole = path.read_bytes()
        path.write_bytes(whole + end)
        with pytest.warns(UserWarning, match=path.name) as warned:
            study = ours(path, create=False)
        assert says(str(warned[0].message), str(path), len(end))
        assert values(study) == VALUES
        with pytest.raises(StorageInternalError):
            study.ask()
        assert path.read_bytes() == whole + end
        assert beside(path) == []
        path.write_bytes(whole)


# While it is written


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file may grow over so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_finds_the_disk_full_leaves_no_part_of_a_line(path: Path) -> None:
    study, before = ours(path), path.read_bytes()
    trial = study.ask()
    asked = path.read_bytes()
    with full_disk(len(asked) + 20):
        for _ in range(2):
            with pytest.raises(InputError) as caught, reachable(f"journal:{path}"):
                study.tell(trial, 1.0)
            assert says(str(caught.value), f"journal:{path}", "--storage")
            assert path.read_bytes() == asked != before
    study.tell(trial, 1.0)
    assert values(ours(path)) == [*VALUES, 1.0]


def test_a_disk_that_is_full_for_the_copy_is_named_and_nothing_is_cut(path: Path) -> None:
    path.write_bytes(path.read_bytes() + HALF)
    content = path.read_bytes()
    with full_disk(100), pytest.raises(InputError, match=path.name):
        opened(f"journal:{path}")
    assert path.read_bytes() == content
    assert beside(path) == []


def test_a_line_that_another_program_is_writing_is_waited_for(path: Path) -> None:
    lock, last = JournalFileSymlinkLock(str(path)), lines_of(path)[-1]
    lock.acquire()
    with path.open("ab") as file:
        file.write(last[:30])
        file.flush()
        studies: list[optuna.Study] = []
        opening = threading.Thread(target=lambda: studies.append(ours(path)))
        opening.start()
        opening.join(0.2)
        assert opening.is_alive()
        file.write(last[30:])
    lock.release()
    opening.join()
    assert values(studies[0]) == VALUES
    assert lines_of(path)[-2:] == [last, last]
    assert beside(path) == []


def test_nothing_is_written_behind_what_a_killed_program_has_left(path: Path) -> None:
    study = ours(path)
    with path.open("ab") as file:
        file.write(HALF)
    with pytest.warns(UserWarning, match=path.name) as warned:
        trial = study.ask()
    assert says(str(warned[0].message), str(path), "3 finished trials")
    study.tell(trial, 1.0)
    assert values(ours(path)) == [*VALUES, 1.0]


def test_the_lock_of_a_killed_program_can_be_seen_to_be_old(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Optuna takes a lock over by the age of the file that it points to."""
    monkeypatch.chdir(path.parent.parent)
    locked: list[bool] = []
    monkeypatch.setattr(
        os, "fsync", lambda file: locked.append(path.with_name(f"{path.name}.lock").exists())
    )
    ours(Path(path.parent.name) / path.name).ask()
    assert locked
    assert all(locked)


def test_a_journal_that_the_user_has_opened_is_mended_too(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole + HALF)
    storage = plain(path)
    with pytest.warns(UserWarning, match=r"\b3 finished\b"):
        assert mended(storage) is storage
    study = study_of(storage)
    study.tell(study.ask(), 1.0)
    assert values(study_of(plain(path))) == [*VALUES, 1.0]
    for other in (storage, optuna.storages.InMemoryStorage()):  # with nothing to mend
        assert mended(other) is other
