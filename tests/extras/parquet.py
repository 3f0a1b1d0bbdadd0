"""A table as a Parquet file."""

from pathlib import Path

from pyarrow import parquet

from gcl_hard.files.tables import write_tables

with Path("z.parquet").open("wb") as file:
    write_tables([{"id": ["a"], "z1": [2.0]}], file, ".parquet")
# By its path: one read from an object of Python's may end the process as it exits.
assert parquet.ParquetFile("z.parquet").read(use_threads=False).to_pydict()["z1"] == [2.0]
