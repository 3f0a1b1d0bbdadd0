"""Saved seeds: trusted only when whole and of the cell asked for, and never half-written."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from gcl_hard.errors import InputError
from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.jobs import Job
from gcl_hard.experiments.records import (
    SCHEMA_VERSION,
    check_writable,
    fault,
    load,
    save,
    write_json,
)
from tests.experiments import record

CELL = GraphCell(method="hucl", folds=3)
JOB = Job(CELL, 4)
RECORD = record(CELL, 4, [80.0, 90.0, 85.5])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / JOB.file_name
    save(RECORD, path)
    return path


def rewrite(path: Path, **changed: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **changed}))


def test_a_saved_record_is_read_back_whole(path: Path) -> None:
    assert load(path, JOB) == RECORD
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert stored == {"schema_version": SCHEMA_VERSION, **asdict(RECORD)}


def test_a_record_is_named_after_its_cell_and_seed(path: Path) -> None:
    assert path.name == f"{CELL.key()}_seed4.json"
    others = [replace(CELL, epochs=3), replace(CELL, lr=0.1), replace(CELL, data_seed=1)]
    jobs = [JOB, JOB._replace(inner=True), *(Job(cell, 4) for cell in others)]
    assert len({job.file_name for job in jobs}) == 5


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_half_written_record_is_not_trusted(path: Path, share: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    assert load(path, JOB) is None


@pytest.mark.parametrize("content", ["[]", "null", "1", '"text"', "{}", "\xff\xfe"])
def test_a_file_that_is_no_record_is_not_trusted(path: Path, content: str) -> None:
    path.write_bytes(content.encode("latin-1"))
    assert load(path, JOB) is None


@pytest.mark.parametrize("version", [0, SCHEMA_VERSION + 1, None, "1"])
def test_a_record_of_another_schema_is_not_trusted(path: Path, version: object) -> None:
    rewrite(path, schema_version=version)
    assert load(path, JOB) is None


def test_a_record_of_another_cell_is_not_trusted_whatever_its_name(path: Path) -> None:
    other = replace(CELL, epochs=CELL.epochs + 1)
    for job in (Job(other, 4), Job(CELL, 5), Job(CELL, 4, inner=True)):
        assert load(path, job) is None
        copy = path.with_name(job.file_name)
        copy.write_bytes(path.read_bytes())
        assert load(copy, job) is None
        assert fault(copy) == "is not what its name says"


def test_a_record_with_unknown_or_missing_parts_is_not_trusted(path: Path) -> None:
    rewrite(path, colour="red")
    assert load(path, JOB) is None
    save(RECORD, path)
    rewrite(path, config={**asdict(CELL), "colour": "red"})
    assert load(path, JOB) is None
    save(RECORD, path)
    stored = json.loads(path.read_text(encoding="utf-8"))
    del stored["fold_accuracies"]
    path.write_text(json.dumps(stored))
    assert load(path, JOB) is None


@pytest.mark.parametrize("accuracies", [[], [80.0, 90.0], "abc", [80.0, None, 90.0]])
def test_a_record_without_an_accuracy_for_each_fold_is_not_trusted(
    path: Path, accuracies: object
) -> None:
    rewrite(path, fold_accuracies=accuracies)
    assert load(path, JOB) is None


def test_no_file_is_no_record(tmp_path: Path) -> None:
    assert load(tmp_path / "none.json", JOB) is None


@pytest.mark.parametrize("crash", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_crash_before_the_rename_leaves_the_old_file_and_nothing_else(
    path: Path, monkeypatch: pytest.MonkeyPatch, crash: BaseException
) -> None:
    before = path.read_bytes()
    seen: list[Path] = []

    def replace_fails(self: Path, target: Path) -> Path:
        seen.append(self)
        assert json.loads(self.read_text(encoding="utf-8"))["seed"] == 5
        raise crash

    monkeypatch.setattr(Path, "replace", replace_fails)
    expected = InputError if isinstance(crash, OSError) else KeyboardInterrupt
    with pytest.raises(expected) as caught:
        save(replace(RECORD, seed=5), path)
    if expected is InputError:
        assert str(caught.value) == f"cannot write {path}: No space left on device"
    assert len(seen) == 1
    assert seen[0].parent == path.parent
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_number_that_is_not_finite_is_never_written(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(ValueError, match="JSON compliant"):
        save(replace(RECORD, final_losses=[float("nan")]), path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_json_is_written_into_folders_that_do_not_exist_yet(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b" / "c.json"
    write_json({"name": "β"}, target)
    assert json.loads(target.read_text(encoding="utf-8")) == {"name": "β"}


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    below = tmp_path / "file" / "folder"
    with pytest.raises(InputError, match=f"cannot write to {below}: Not a directory"):
        check_writable(below)
    with pytest.raises(InputError, match=f"cannot write {below / 'x.json'}: Not a directory"):
        write_json({}, below / "x.json")
    check_writable(tmp_path / "new" / "folder")
    assert list((tmp_path / "new" / "folder").iterdir()) == []
