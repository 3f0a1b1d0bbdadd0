"""Embeddings as a Parquet file."""

from pathlib import Path

import numpy as np
from pyarrow import parquet

from gcl_hard.experiments.embedding import WRITERS, Embeddings

embeddings = Embeddings(np.float32([[1, 2]]), {"id": np.array(["a"])}, "model", "data")
with Path("z.parquet").open("wb") as file:
    WRITERS[".parquet"](embeddings, file)
# By its path: one read from an object of Python's may end the process as it exits.
assert parquet.ParquetFile("z.parquet").read(use_threads=False).to_pydict()["z1"] == [2.0]
