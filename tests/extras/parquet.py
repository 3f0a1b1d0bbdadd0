"""Embeddings as a Parquet file."""

import io

import numpy as np
from pyarrow import parquet

from gcl_hard.runs.embedding import WRITERS, Embeddings

file = io.BytesIO()
found = Embeddings(np.float32([[1, 2]]), {"id": np.array(["a"])}, "model", "data")
WRITERS[".parquet"](found, file)
file.seek(0)
assert parquet.ParquetFile(file).read(use_threads=False).to_pydict()["z1"] == [2.0]
