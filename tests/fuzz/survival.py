"""What fuzzed cases share: an empty folder, a time limit, and odd values to draw from."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import string
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from gcl_hard.errors import GclHardError

CASES = int(os.environ.get("FUZZ", "0"))
fuzzed = settings(
    max_examples=CASES or 25, derandomize=not CASES, deadline=None, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip

LONGEST = 60
"""Seconds that a case may take."""


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """An empty folder, in which a case works, and beside which nothing may appear."""
    with tempfile.TemporaryDirectory() as outer:
        inner = Path(outer) / "inner"
        inner.mkdir()
        with contextlib.chdir(inner):
            yield inner
        assert [path.name for path in Path(outer).iterdir()] == ["inner"]


@contextlib.contextmanager
def alarm(seconds: int = LONGEST) -> Iterator[None]:
    """What takes too long is interrupted, and fails."""

    def too_long(*_: object) -> None:
        pytest.fail(f"not ended after {seconds} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def survives(read: Callable[[], Any]) -> None:
    """Reading succeeds, or ends in an error of ours or of the argument parser, in silence."""
    with (
        alarm(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.suppress(GclHardError, SystemExit),
    ):
        read()


words = st.one_of(
    st.sampled_from([
        "", "-1", "0", "1", "2.5", "nan", "inf", "1e400", "1e-400", "none", "true", ",", "1,,2",
        "MUTAG", "digits", "ucl", "hscl", "hscl,scl", "inductive", "0.1,0.5", "../x", "a:b", ":",
        "timm:x", "torchvision:resnet18", "x.npz", "null", "[1, 2]", "9" * 30, "β", "\n",
    ]),
    st.text(string.printable, max_size=12),
    st.integers(-(10**20), 10**20).map(str),
    st.floats().map(str),
)  # fmt: skip


def mutated(data: bytes) -> st.SearchStrategy[bytes]:
    """Bytes that are cut, overwritten, repeated or joined."""
    place = st.integers(0, max(len(data) - 1, 0))
    return st.one_of(
        place.map(lambda i: data[:i]),
        st.tuples(place, st.binary(min_size=1, max_size=20)).map(
            lambda at: data[: at[0]] + at[1] + data[at[0] + len(at[1]) :]
        ),
        st.tuples(place, place).map(lambda at: data[: at[0]] + data[at[1] :]),
        st.binary(max_size=200),
    )


def edited(text: str) -> st.SearchStrategy[str]:
    """Text of which a word or a line is changed."""
    lines = text.splitlines()

    @st.composite
    def change(draw: Any) -> str:
        edited_lines = list(lines)
        for _ in range(draw(st.integers(1, 3))):
            i = draw(st.integers(0, len(edited_lines) - 1))
            parts = edited_lines[i].split(draw(st.sampled_from([" ", ",", ":", ", "])))
            parts[draw(st.integers(0, len(parts) - 1))] = draw(words)
            edited_lines[i] = draw(st.sampled_from([",", " ", ":", ": "])).join(parts)
        return "\n".join(edited_lines) + "\n"

    return change()


def altered(value: Any, most: int = 4) -> st.SearchStrategy[Any]:
    """A JSON-like value in which something is replaced, left out, added or repeated."""
    odd = st.one_of(
        st.sampled_from([
            None, True, -1, 0, 2**31, 2**64, 1e308, float("nan"), float("inf"), "", " ", "a" * 300,
            "../../x", "\0", "\ud800", "=1+1", "<b>", [], [[]], [None], {}, {"a": 1}, [1] * 100,
        ]),
        words,
    )  # fmt: skip

    @st.composite
    def change(draw: Any) -> Any:
        copy = json.loads(json.dumps(value))
        for _ in range(min(most, draw(st.sampled_from([1, 1, 1, 2, 4])))):
            inside = copy
            while isinstance(inside, dict | list) and inside:
                is_list = isinstance(inside, list)
                key = draw(st.sampled_from(list(range(len(inside))) if is_list else sorted(inside)))
                child = inside[key]
                if isinstance(child, dict | list) and child and draw(st.integers(0, 3)):
                    inside = child
                    continue
                edit = draw(st.sampled_from(["replace", "replace", "remove", "add", "repeat"]))
                if edit == "remove":
                    del inside[key]
                elif edit == "repeat" and isinstance(child, list):
                    inside[key] = child * 2
                elif edit == "add" and not is_list:
                    inside[draw(st.sampled_from(["x", "schema_version", "run", "config"]))] = draw(
                        odd
                    )
                else:
                    inside[key] = draw(odd)
                break
        return copy

    return change()
