"""A search over the settings of a domain of one's own, kept in SQLite, with its page."""

from pathlib import Path

from gcl_hard import tune
from tests.extras.absent import refused_command
from tests.extras.own_domain import IRIS

command = [*IRIS, "--method=hscl", "--space=beta", "--trials=2", "--storage=iris.db"]
assert tune.main([*command, "--report=page.md"]) == 0
assert Path("page.md").exists()
refused_command("cluster", "tune", *command, "--trials=4", "--jobs=2")
refused_command("graphs", "tune", "--dataset=MUTAG", "--trials=1")
try:
    from gcl_hard.tuning.storage import opened

    opened("postgresql+psycopg://me@127.0.0.1:1/db")
except ImportError as error:
    assert "[postgres]" in str(error), error
