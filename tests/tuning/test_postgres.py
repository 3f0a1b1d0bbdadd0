"""The PostgreSQL server of the tests; tests/tuning/test_processes.py puts studies on it."""

from __future__ import annotations

import pytest

from tests.tuning import postgres


@pytest.mark.parametrize(
    ("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)]
)
def test_a_missing_server_is_a_skip_but_a_failure_on_ci(monkeypatch, tmp_path, ci, outcome):
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(postgres, "DEBIAN", tmp_path)
    with pytest.raises(outcome, match="apt-get install postgresql"):
        postgres.programs_or_skip()
