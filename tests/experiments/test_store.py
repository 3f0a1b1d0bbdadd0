"""The store: results are trusted only when whole and of the run asked for, in both forms."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gcl_hard.experiments.store
from gcl_hard.errors import InputError
from gcl_hard.evaluation import FoldScore
from gcl_hard.experiments.record import (
    SCHEMA_VERSION,
    RunResult,
    Scored,
    packed,
    unpacked,
)
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import RunConfig, known
from gcl_hard.experiments.store import COMPACT, Store
from gcl_hard.files.io import check_writable, write_json
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.images.settings import ImageConfig
from tests.experiments import record, rewrite, small
from tests.said import says

CONFIG = GraphConfig(method="hucl", folds=3)
RUN = Run(CONFIG, 4)
RESULT = record(CONFIG, 4, [80.0, 90.0, 85.5])
FULL = replace(
    RESULT, inner=False, curve=[[1, 50.0], [2, 61.5]], seconds_diagnostics=1.25,
    diagnostics=[{"epoch": 100, "settings": {"β": None}}, {"epoch": 200, "settings": {}}],
    final_losses=[0.1 + 0.2, 1e-300], fold_c=[], seconds_train=1 / 3,
)  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store of one result."""
    store = Store(tmp_path / "results")
    store.put(RUN, RESULT)
    return store


def left(store: Store) -> set[str]:
    """Names of all files in the folder."""
    return {path.name for path in store.folder.iterdir()}


# One result


def test_a_stored_result_is_read_back_whole(store: Store) -> None:
    assert store.get(RUN) == RESULT
    assert store.problem(RUN) is None
    content = json.loads(store.path(RUN).read_text(encoding="utf-8"))
    assert content["schema_version"] == SCHEMA_VERSION
    assert GraphConfig(**content["config"]) == CONFIG
    assert {*content["config"]} == {*known(GraphConfig)}
    assert content["scores"] == {"accuracy": [80.0, 90.0, 85.5]}
    store.put(RUN, FULL)
    assert store.get(RUN) == FULL


def accuracies(folder: Path, processes: int, run: Run) -> list[float] | None:
    result = Store(folder, processes=processes).get(run)
    return None if result is None else result.values


def of_processes(n: int, **settings: Any) -> tuple[Run, RunResult]:
    """A run of images, and its result by some processes."""
    run = Run(ImageConfig(**settings), 0)
    data = {"n_test": 360} | ({"processes": n} if n > 1 else {})
    return run, record(run.config, 0, [50.0 + n], data=data)


def test_results_of_other_numbers_of_processes_are_kept_apart(tmp_path: Path) -> None:
    for n in (1, 2, 3):
        Store(tmp_path, processes=n).put(*of_processes(n))
    for compacted in (False, True):
        if compacted:
            assert Store(tmp_path).compact() == 3
        for n in (1, 2, 3):
            run, result = of_processes(n)
            assert accuracies(tmp_path, n, run) == result.values
        assert accuracies(tmp_path, 4, run) is None
    assert len([*Store(tmp_path).rows()]) == 3


@pytest.mark.parametrize("settings", [{"negatives": "gathered"}, {"method": "supervised"}])
def test_a_loss_of_the_joined_batch_is_that_of_any_number(
    settings: dict[str, str], tmp_path: Path
) -> None:
    run, result = of_processes(2, **settings)
    Store(tmp_path, processes=2).put(run, result)
    assert accuracies(tmp_path, 1, run) == result.values


def test_a_result_of_another_run_is_neither_trusted_nor_overwritten(store: Store) -> None:
    other = replace(CONFIG, epochs=CONFIG.epochs + 1)
    for run in (Run(other, 4), Run(CONFIG, 5), Run(CONFIG, 4, inner=True)):
        shutil.copy(store.path(RUN), store.path(run))
        assert store.get(run) is None
        with pytest.raises(InputError, match=RUN.key):
            store.problem(run)
    run, result = of_processes(2)
    Store(store.folder).put(run, result)
    with pytest.raises(InputError, match="2processes"):
        store.problem(run)


@given(byte=st.integers(0, 255), share=st.floats(0, 1, exclude_max=True), cut=st.booleans())
def test_another_byte_and_a_missing_end_change_no_number(
    byte: int, share: float, cut: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = Store(tmp_path_factory.mktemp("results"))
    store.put(RUN, RESULT)
    content = store.path(RUN).read_bytes()
    at = int(share * len(content))
    store.path(RUN).write_bytes(
        content[:at] + bytes([byte]) * (not cut) + content[at + 1 :] * (not cut)
    )
    result = store.get(RUN)
    assert result is None or replace(result, unknown={}) == RESULT


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b'"text"', b"{}", b"\xff\xfe", b'{"a": '])
def test_a_damaged_file_is_named_counted_and_left_alone(store: Store, content: bytes) -> None:
    other = Run(CONFIG, 5)
    store.path(other).write_bytes(content)
    assert store.get(other) is None
    assert says(str(store.problem(other)), store.path(other).name, "damaged")
    for each in (lambda: [result.run for result in store.rows()] == [RUN], store.compact):
        with pytest.warns(UserWarning, match=store.path(other).name) as warned:
            assert each()
        assert says(str(warned[0].message), 1)
    assert left(store) == {COMPACT, store.path(other).name}
    assert store.path(other).read_bytes() == content


def test_a_result_that_lacks_a_part_is_not_trusted_unless_the_part_is_newer(store: Store) -> None:
    newer = dict.fromkeys(("inner", "curve", "diagnostics", "seconds_diagnostics", "threads"))
    rewrite(store.path(RUN), **newer)
    assert store.get(RUN) == RESULT
    content = store.path(RUN).read_bytes()
    for name in ("scores", "finished", "data", "versions"):
        store.path(RUN).write_bytes(content)
        rewrite(store.path(RUN), **{name: None})
        assert store.get(RUN) is None


def test_no_file_is_no_result(tmp_path: Path) -> None:
    store = Store(tmp_path / "none")
    assert (store.get(RUN), store.problem(RUN), list(store.rows())) == (None, None, [])
    assert not store.folder.exists()


@pytest.mark.parametrize("crash", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_crash_before_the_rename_leaves_the_old_file_and_nothing_else(
    store: Store, monkeypatch: pytest.MonkeyPatch, crash: BaseException
) -> None:
    before = store.path(RUN).read_bytes()

    def replace_fails(self: Path, target: Path) -> Path:
        assert self.parent == store.folder
        assert json.loads(self.read_text(encoding="utf-8"))["seconds_eval"] == 99.0
        raise crash

    monkeypatch.setattr(Path, "replace", replace_fails)
    with pytest.raises((InputError, KeyboardInterrupt)):
        store.put(RUN, replace(RESULT, seconds_eval=99.0))
    assert store.path(RUN).read_bytes() == before
    assert left(store) == {store.path(RUN).name}


def test_a_number_that_is_not_finite_is_never_written(store: Store) -> None:
    before = store.path(RUN).read_bytes()
    with pytest.raises(ValueError, match="JSON compliant"):
        store.put(RUN, replace(RESULT, final_losses=[float("nan")]))
    assert store.path(RUN).read_bytes() == before
    assert left(store) == {store.path(RUN).name}


def test_points_stand_beside_their_result_and_go_with_the_next_one(store: Store) -> None:
    points = {"anchors": np.eye(3, dtype=np.float32), "objective": np.array("jsd")}
    store.put_arrays(RUN, points)
    with np.load(store.path(RUN).with_suffix(".npz")) as arrays:
        assert {name: value.tolist() for name, value in arrays.items()} == {
            name: value.tolist() for name, value in points.items()
        }
    store.put_arrays(RUN, None)
    store.put_arrays(RUN, None)
    assert left(store) == {store.path(RUN).name}


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    below = tmp_path / "file" / "folder"
    with pytest.raises(InputError, match=rf"{below}\b.*Not a directory"):
        check_writable(below)
    with pytest.raises(InputError, match=rf"{below / 'x.json'}\b.*Not a directory"):
        write_json({}, below / "x.json")


def test_a_result_lacks_snapshots_only_if_it_could_have_them() -> None:
    config = small(epochs=4, protocol="inductive")

    def lacking(every: int, had: list[int], settings: GraphConfig = config, **more: Any) -> bool:
        snapshots = [{"epoch": epoch, "settings": {}} for epoch in had]
        return record(settings, 0, [1.0] * 3, diagnostics=snapshots, **more).lacks_snapshots(every)

    assert [lacking(every, []) for every in (0, 1, 9)] == [False, True, True]
    assert [lacking(every, [2, 4]) for every in (0, 1, 2, 3, 4, 9)] == [
        False, True, False, True, False, False,
    ]  # fmt: skip
    assert not any(lacking(every, [1, 2, 3, 4]) for every in range(9))
    assert not lacking(1, [], inner=True)
    assert not lacking(1, [], settings=small("supervised"))


# Many results: single files and the compact form


def several() -> dict[Run, RunResult]:
    """Of graphs and images, with and without what most results lack."""
    configs: list[RunConfig] = [CONFIG, replace(CONFIG, lr=0.5), ImageConfig(method="ucl")]
    results = {}
    for config in configs:
        for seed in (0, 1, 11):
            accuracies = [60.0 + seed + 0.25 * k for k in range(config.n_scores)]
            result = record(config, seed, accuracies, seconds_train=seed / 7)
            results[Run(config, seed)] = result
    results[RUN] = FULL
    inner = RUN._replace(inner=True)
    results[inner] = replace(RESULT, inner=True, versions={"torch": "2.9"}, device="a GPU")
    return results


def filled(folder: Path, results: dict[Run, RunResult]) -> Store:
    store = Store(folder)
    for run, result in results.items():
        store.put(run, result)
    return store


def read(store: Store) -> dict[Run, RunResult]:
    return {result.run: result for result in store.rows()}


def test_the_compact_form_says_the_same_as_single_files(tmp_path: Path) -> None:
    results = several()
    store = filled(tmp_path, results)
    before = list(store.rows())
    assert before == [results[run] for run in sorted(results, key=lambda run: run.key)]
    assert store.compact() == len(results)
    assert left(store) == {COMPACT}
    for reader in (store, Store(tmp_path)):
        assert list(reader.rows()) == before
        assert all(reader.get(run) == result for run, result in results.items())
        assert reader.problem(RUN) is None
        assert reader.get(Run(CONFIG, 99)) is None


def test_compacting_twice_writes_the_same_bytes_whatever_the_order(tmp_path: Path) -> None:
    results = several()
    once = filled(tmp_path / "one", results)
    once.compact()
    content = (tmp_path / "one" / COMPACT).read_bytes()
    once.compact()
    assert (tmp_path / "one" / COMPACT).read_bytes() == content
    *some, last = results
    other = filled(tmp_path / "other", {run: results[run] for run in reversed(some)})
    other.compact()
    other.put(last, results[last])
    assert other.compact() == len(results)
    assert (tmp_path / "other" / COMPACT).read_bytes() == content


@pytest.mark.parametrize("year", [2020, 2026, 2030])
def test_of_two_results_of_a_run_the_newer_is_its_result_and_is_compacted(
    store: Store, year: int
) -> None:
    """Of the same date, the single file."""
    store.compact()
    date = f"{year}{RESULT.finished[4:]}"
    single = replace(RESULT, finished=date, scores={"accuracy": [1.0, 2.0, 3.0]})
    store.put(RUN, single)
    newer = single if year >= 2026 else RESULT
    for compacted in (False, True):
        if compacted:
            assert store.compact() == 1
            assert left(store) == {COMPACT}
        for reader in (store, Store(store.folder)):
            assert reader.get(RUN) == newer
            assert list(reader.rows()) == [newer]


@contextmanager
def in_the_middle(monkeypatch: pytest.MonkeyPatch, does: Callable[[], object]) -> Iterator[None]:
    """Something that happens once while a compaction writes its file."""
    real = gcl_hard.experiments.store._lines

    def slowly(*arguments: Any) -> Iterator[str]:
        monkeypatch.setattr(gcl_hard.experiments.store, "_lines", real)
        does()
        return real(*arguments)

    monkeypatch.setattr(gcl_hard.experiments.store, "_lines", slowly)
    yield
    assert gcl_hard.experiments.store._lines is real


def test_what_comes_during_a_compaction_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = several()
    *some, last = results
    store = filled(tmp_path, {run: results[run] for run in some})
    again = replace(results[some[0]], finished="2040-01-01T00:00:00+00:00")

    def come() -> None:
        other = Store(tmp_path)
        other.put(last, results[last])
        other.put(some[0], again)

    with in_the_middle(monkeypatch, come):
        assert store.compact() == len(some)
    expected = results | {some[0]: again}
    for reader in (store, Store(tmp_path)):
        assert read(reader) == expected
        assert all(reader.get(run) == result for run, result in expected.items())
    assert store.compact() == len(results)
    assert read(store) == expected


def test_a_run_that_is_trained_again_keeps_its_single_file(store: Store) -> None:
    with held_elsewhere(lock_of(store, RUN)):
        assert store.compact() == 1
        assert store.path(RUN).exists()
    assert store.get(RUN) == RESULT


def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no/such"):
        Store(tmp_path / "no" / "such").compact()
    assert not (tmp_path / "no").exists()


def test_folders_merge_by_copying_single_files(tmp_path: Path) -> None:
    results = several()
    half = len(results) // 2
    parts = [dict([*results.items()][:half]), dict([*results.items()][half:])]
    store, other = (filled(tmp_path / f"{k}", part) for k, part in enumerate(parts))
    store.compact()
    for path in other.folder.iterdir():
        shutil.copy(path, store.folder)
    assert read(store) == results
    assert store.compact() == len(results)
    assert read(Store(store.folder)) == results


def test_points_and_checkpoints_are_not_compacted(store: Store) -> None:
    store.put_arrays(RUN, {"x": np.arange(3)})
    store.path(RUN).with_suffix(".ckpt").write_bytes(b"half-way")
    (store.folder / "MUTAG_hucl_transductive.json").write_text("a command's own result file")
    store.compact()
    names = {COMPACT, f"{RUN.key}.npz", f"{RUN.key}.ckpt", "MUTAG_hucl_transductive.json"}
    assert left(store) == names


def refused(folder: Path, *words: str) -> None:
    """The compact form is not used, and left as it is."""
    content = (folder / COMPACT).read_bytes()
    for use in (lambda s: list(s.rows()), lambda s: s.get(RUN), lambda s: s.compact()):
        with pytest.raises(InputError, match=COMPACT) as caught:
            use(Store(folder))
        assert says(str(caught.value), *words)
    assert (folder / COMPACT).read_bytes() == content


@pytest.mark.parametrize("share", [0.5, 0.98])
def test_a_torn_compact_form_is_named(tmp_path: Path, share: float) -> None:
    filled(tmp_path, several()).compact()
    path = tmp_path / COMPACT
    content = path.read_bytes()
    lines = gzip.decompress(content)
    path.write_bytes(content[: int(share * len(content))])
    refused(tmp_path, "damaged")
    path.write_bytes(gzip.compress(lines[: int(share * len(lines))]))
    refused(tmp_path, "damaged")


@pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, 1, "x"])
def test_a_compact_form_of_another_schema_is_refused(store: Store, version: object) -> None:
    store.compact()
    path = store.folder / COMPACT
    _, *rest = gzip.decompress(path.read_bytes()).decode().splitlines()
    lines = [json.dumps({"schema_version": version}), *rest]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    refused(store.folder, f"schema {version}")


# Results of other versions


UNKNOWN: list[dict[str, Any]] = [
    {"config": {"sharpness": 3}}, {"domain": "texts"},
    *({"schema_version": version} for version in (SCHEMA_VERSION - 1, SCHEMA_VERSION + 1, "1")),
]  # fmt: skip


@pytest.mark.parametrize("change", UNKNOWN)
def test_what_another_version_wrote_is_left_out_and_never_lost(
    change: dict[str, Any], store: Store
) -> None:
    """Named and counted; it is neither overwritten nor dropped, and fails nothing."""
    other = Run(CONFIG, 5)
    store.put(other, replace(RESULT, seed=5))
    stored = json.loads(store.path(other).read_text(encoding="utf-8"))
    stored["config"] |= change.get("config", {})
    rewrite(store.path(other), **change | {"config": stored["config"]})
    kept = store.path(other).read_bytes()
    with pytest.warns(UserWarning, match=store.path(other).name) as warned:
        assert [result.run for result in store.rows()] == [RUN]
    assert says(str(warned[0].message), 1)
    assert store.get(other) is None
    with pytest.raises(InputError, match=store.path(other).name):
        store.problem(other)
    with pytest.warns(UserWarning, match=store.path(other).name):
        assert store.compact() == 1
    assert store.path(other).read_bytes() == kept


def test_a_line_of_another_version_outlives_a_compaction(store: Store) -> None:
    store.put(Run(CONFIG, 5), replace(RESULT, seed=5))
    store.compact()
    path = store.folder / COMPACT
    text = gzip.decompress(path.read_bytes()).decode()
    lines = [json.loads(line) for line in text.splitlines()]
    (config,) = (line["config"] for line in lines if "config" in line and "run" not in line)
    number = next(k for k, line in enumerate(lines) if line.get("seed") == 5)
    lines.insert(number, {"config": config | {"sharpness": 3}})
    lines[number + 1] |= {"run": "theirs", "config": 1, "digest": "theirs", "more": [1]}
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    again = Store(store.folder)
    assert again.get(RUN) == RESULT
    for each in (lambda: [result.run for result in again.rows()] == [RUN], again.compact):
        with pytest.warns(UserWarning, match=r"\btheirs\b.*\bsharpness\b"):
            assert each()
    written = [json.loads(x) for x in gzip.decompress(path.read_bytes()).decode().splitlines()]
    (theirs,) = (line for line in written if line.get("run") == "theirs")
    assert (theirs["more"], theirs["digest"], theirs["seed"]) == ([1], "theirs", 5)
    configs = [line["config"] for line in written if "config" in line and "run" not in line]
    assert configs[theirs["config"]]["sharpness"] == 3


def test_a_line_of_another_version_is_not_run_over(store: Store) -> None:
    """A newer version's default of a setting that is not known here has the name of this run."""
    store.compact()
    path = store.folder / COMPACT
    text = gzip.decompress(path.read_bytes()).decode()
    path.write_bytes(gzip.compress(text.replace('"config": {', '"config": {"z": 0, ').encode()))
    again = Store(store.folder)
    assert again.get(RUN) is None
    with pytest.raises(InputError, match=r"\bz\b"):
        again.problem(RUN)


def test_a_field_that_is_not_known_is_kept_as_it_is(store: Store) -> None:
    rewrite(store.path(RUN), colour={"hue": [1, 2]})
    result = store.get(RUN)
    assert result == replace(RESULT, unknown={"colour": {"hue": [1, 2]}})
    store.compact()
    assert Store(store.folder).get(RUN) == result
    store.put(RUN, result)
    assert json.loads(store.path(RUN).read_text(encoding="utf-8"))["colour"] == {"hue": [1, 2]}


# Predictions


def test_scores_are_those_of_the_predictions_as_stored(store: Store) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 30)
    folds = np.array_split(rng.permutation(30), 3)
    guesses = [np.where(rng.random(len(test)) < 0.7, y[test], 0) for test in folds]
    scores = [
        FoldScore(float((g == y[t]).mean()), 1.0, 20, len(t), None, test=t, predicted=g)
        for t, g in zip(folds, guesses, strict=True)
    ]
    test_items, predicted = Scored.of(scores, y).packed()
    result = replace(
        RESULT, test=test_items, predicted=predicted,
        scores={"accuracy": [100 * score.accuracy for score in scores]},
    )  # fmt: skip
    store.put(RUN, result)
    store.compact()
    stored = Store(store.folder).get(RUN)
    assert stored == result
    assert Scored(tuple(stored.tested())).scores(stored.scores) == stored.scores
    for fold, test, guess in zip(stored.tested(), folds, guesses, strict=True):
        assert (fold.items == test).all()
        assert (fold.targets == y[test]).all()
        assert (fold.predicted == guess).all()


@pytest.mark.parametrize("most", [1, 255, 256, 70_000, 2**33])
def test_whole_numbers_of_any_size_are_packed(most: int) -> None:
    values = np.array([0, most, most - 1, 1])
    assert (unpacked(packed(values)) == values).all()
    assert len(packed([])) < 4
    assert unpacked(packed([])).shape == (0,)


# Locks


HOLD = (
    "import sys; from pathlib import Path; from gcl_hard.files.io import locked\n"
    "with locked(Path(sys.argv[1])) as mine: print(mine, flush=True); sys.stdin.read()"
)


@contextmanager
def held_elsewhere(lock: Path) -> Iterator[None]:
    """Another process holds a lock, and is killed at the end."""
    lock.parent.mkdir(exist_ok=True)
    other = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", HOLD, str(lock)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        try:
            yield
        finally:
            other.kill()


def lock_of(store: Store, run: Run) -> Path:
    return store.folder / f".{store.path(run).name}.lock"


def test_a_lock_is_refused_while_another_process_holds_it_and_ends_with_that(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path / "results")
    with held_elsewhere(lock_of(store, RUN)):
        with store.lock(RUN) as mine:
            assert not mine
        with store.lock(Run(CONFIG, 5)) as mine:
            assert mine
    with store.lock(RUN) as mine:
        assert mine
    assert list(store.folder.iterdir()) == []


def test_a_killed_writers_leftovers_go_with_the_next_lock(tmp_path: Path) -> None:
    store, other = Store(tmp_path), Run(CONFIG, 5)
    for run in (RUN, other):
        (tmp_path / f".{store.path(run).name}.x1y2").write_text('{"half')
    with store.lock(RUN):
        pass
    assert left(store) == {f".{store.path(other).name}.x1y2"}


def test_a_second_compaction_is_refused_while_one_is_running(store: Store) -> None:
    with held_elsewhere(store.folder / f".{COMPACT}.lock"):
        with pytest.raises(InputError, match=rf"{store.folder}\b.*\bcompacted\b"):
            store.compact()
        assert store.get(RUN) == RESULT
    assert store.compact() == 1
    assert left(store) == {COMPACT}
