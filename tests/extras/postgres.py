"""The driver of a server database, where there is no server."""

import gcl_hard
from gcl_hard.tuning.storage import opened

try:
    opened("postgresql+psycopg://me@127.0.0.1:1/db")
except gcl_hard.InputError as error:
    assert "127.0.0.1" in str(error), error
else:
    raise AssertionError("opened a database that is not there")
