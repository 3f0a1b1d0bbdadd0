"""Flags, paths and files of settings that nobody meant: each ends in a result or one message."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.commands import SMALL, ended

pytestmark = [pytest.mark.faults, pytest.mark.filterwarnings("ignore")]
BENCH = [*SMALL, "--method=ucl", "--output=out"]
LONG = "A" * 300
HUGE = str(2**64)

PATHS = {
    "dataset": [LONG, "A" * 5000, f"./{LONG}/{LONG}", "", ".", "..", "/", "~nosuchuser/x", "./x**y",
                "./x[z", "a\nb", "-", "--", "file", "file/x", "/dev/null", "@", "a@b"],
    "data-dir": ["~nosuchuser/x", "file", "missing", "", ".", LONG],
    "output": ["file", "file/x", "/dev/null", "/proc/1/x", f"./{LONG}", "/".join(["d" * 200] * 30),
               os.fsdecode(b"bad\xff"), "a\nb", "a b ü 数 \U0001f600", ""],
    "json": ["/dev/full", ".", "missing/x.json", LONG],
    "report": ["/dev/full.md", "missing/missing/p.md", os.fsdecode(b"bad\xff.md"), "folder.md",
               "p.txt", f"{LONG}.md"],
    "config": ["missing.yaml", ".", "http://127.0.0.1:9/x.yaml", "file:///etc/passwd",
               "a\0b", "file", LONG],
    "compact": ["no/such", "file", ""],
    "search": ["no/such", "file", "."],
    "encoder": ["os:system", "missing.py:x", "x:", ":x", "timm:", LONG],
}  # fmt: skip
SEEDS = ["0", "-1", "1,1", HUGE, "1e3", "10001", "1" + "0" * 22, "٣", "５", "1,,2", ",",
         "0,4294967295", "4294967296,", "nan", "true", "1_0"]  # fmt: skip
WHOLE = ("batch-size", "epochs", "folds", "layers", "dim", "data-seed", "threads", "jobs",
         "ensemble-size", "monitor-every", "diagnostics", "loader-workers", "views")  # fmt: skip
WHOLES = ("0", "-1", "1", "1000000000", HUGE, "nan", "1e400", "true", "٣", "")
LONG_AT_WORK = {("layers", "1000000000"), ("epochs", "1000000000"), ("dim", "1000000000")}
"""Which would only be long, and may be meant."""
REAL = ("lr", "beta", "temperature", "weight-decay", "train-share", "threshold-start",
        "checkpoint-minutes", "strength", "class-prior")  # fmt: skip
REALS = ("0", "-1", "1e-300", "1e-8", "1e9", "1e38", "1e300", "nan", "inf", "-inf", "1e400")


def odd_files() -> Iterator[tuple[str, str, str]]:
    """Name, command and content of YAML files."""
    for key in ("output", "dataset", "data_dir", "report", "json", "compact", "search", "best"):
        yield f"null byte in {key}", "bench", f'{key}: "a\\0b"\n'
    yield "an alias of itself", "bench", "beta: &a [*a]\n"
    yield "code", "bench", "beta: !!python/object/apply:os.system ['touch called']\n"
    yield "code in a space", "tune", "space: !!python/object/apply:os.system ['touch called']\n"
    yield "10,000 values", "bench", "beta: [" + ",".join(str(i / 7) for i in range(1, 10**4)) + "]"
    yield "10,000 sets", "bench", "dataset: [" + ",".join(f"A{i}" for i in range(10**4)) + "]"
    yield "a list", "bench", "[1, 2]"
    yield "a word", "bench", "word"
    yield "nothing", "bench", ""
    yield "not UTF-8", "bench", "dataset: \udcff"
    yield "two documents", "bench", "beta: 1\n---\nbeta: 2\n"
    yield "one key twice", "bench", "beta: 1\nbeta: 2\n"
    yield "numbers as keys", "bench", "1: 2\n[1, 2]: 3\n"
    yield "dates", "bench", "beta: 2026-01-01\n"


CASES = [
    *((f"{name}={value[:30]!r}", [f"--{name}={value}"])
      for name, values in PATHS.items() for value in values),
    *((f"seeds={value}", [f"--seeds={value}"]) for value in SEEDS),
    *(
        (f"{name}={value}", [f"--{name}={value}"])
        for name in WHOLE for value in WHOLES if (name, value) not in LONG_AT_WORK
    ),
    *(
        (f"{name}={value}, {contrast}", [f"--{name}={value}", f"--contrast={contrast}",
         "--method=hscl-tau" if "threshold" in name else "--method=hscl"])
        for name in REAL for value in REALS for contrast in ("local-global", "two-view")
    ),
]  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("GCL_HARD_DATA", raising=False)
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # nothing is downloaded
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("x")
    for name in ("folder.md", "x**y", "x[z"):
        Path(name).mkdir()
    return tmp_path


@pytest.mark.parametrize(
    "arguments", [arguments for _, arguments in CASES], ids=[name for name, _ in CASES]
)
def test_any_value_of_any_flag(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    ended(capsys, "bench", [*BENCH, *arguments])


@pytest.mark.parametrize(
    ("command", "text"), [odd[1:] for odd in odd_files()], ids=[odd[0] for odd in odd_files()]
)
def test_any_file_of_settings(
    command: str, text: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "given.yaml").write_bytes(text.encode(errors="surrogateescape"))
    flags = ["--config=given.yaml"] if command == "bench" else ["--space=given.yaml"]
    ended(capsys, command, [*flags, *BENCH[:6], "--output=out", "--report-only"])
    assert not (here / "called").exists()


@pytest.mark.parametrize("name", ["GCL_HARD_DATA", "GCL_HARD_CACHE"])
@pytest.mark.parametrize("value", ["~nosuchuser/x", "file/x", LONG, "/proc/1/x", "/dev/null"])
def test_any_folder_of_the_environment(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, value)
    ended(capsys, "bench", [*BENCH, "--dataset=NCI1x"])
    ended(capsys, "bench", BENCH)


def test_a_misspelt_folder_is_not_made(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(capsys, "bench", ["--compact=no/such"])[0] == 2
    assert not (here / "no").exists()
