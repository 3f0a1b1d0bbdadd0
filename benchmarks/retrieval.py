"""Rankings of vectors among 100,000: ours, faiss's exact search and scikit-learn's brute force.

Run: python benchmarks/retrieval.py [--out results.csv] [--pairs 5] [--queries 2000]

Times are of some queries, as those of all vectors take minutes; the last row has these, of ours.
"""

from __future__ import annotations

import argparse
import resource
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import faiss
import numpy as np
import torch
from live_tensors import peak_resident
from numpy.typing import NDArray
from pairs import Table, ratios, take_turns, timed
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from gcl_hard.evaluation import retrieve

N, CLASS_SIZE = 100_000, 100
WIDTHS = (128, 256, 384)
OURS, FAISS, SKLEARN = "ours", "faiss IndexFlatIP", "scikit-learn brute"

Singles = NDArray[np.float32]
Labels = NDArray[np.int64]


def clusters(d: int) -> tuple[Singles, Labels]:
    """Unit vectors around the centres of their classes."""
    draws = np.random.default_rng(0)
    y = np.arange(N) // CLASS_SIZE
    centres = draws.standard_normal((N // CLASS_SIZE, d), dtype=np.float32)
    z = draws.standard_normal((N, d), dtype=np.float32) + 0.3 * centres[y]
    return z / np.linalg.norm(z, axis=1, keepdims=True), y


def by_faiss(z: Singles, n_queries: int) -> NDArray[np.int64]:
    index = faiss.IndexFlatIP(z.shape[1])
    index.add(z)
    return np.asarray(index.search(z[:n_queries], CLASS_SIZE)[1])


def by_sklearn(z: Singles, n_queries: int) -> NDArray[np.int64]:
    search = NearestNeighbors(n_neighbors=CLASS_SIZE, algorithm="brute", metric="cosine").fit(z)
    return np.asarray(search.kneighbors(z[:n_queries], return_distance=False))


def check(z: Singles, y: Labels, n_queries: int) -> None:
    """Our R@1 is that of faiss's neighbours."""
    nearest = by_faiss(z, n_queries)[:, 1]
    assert abs(retrieve(z, y).recall(1) - np.mean(y[nearest] == y[:n_queries])) < 1e-9


def rank_all(d: int) -> tuple[float, float]:
    """Seconds of ranking all vectors for each other, and the memory that it adds, MB."""
    torch.set_num_threads(1)
    z, y = clusters(d)
    before = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    spent, _ = timed(lambda: retrieve(z, y))
    return spent, peak_resident() - before * resource.getpagesize() / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="CSV file to write")
    parser.add_argument("--pairs", type=int, default=5, help="interleaved runs of each (5)")
    parser.add_argument("--queries", type=int, default=2000, help="vectors that are ranked for")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    table, n_queries = Table("retrieval"), arguments.queries
    with threadpool_limits(1):
        for d in WIDTHS:
            z, y = clusters(d)
            some = np.where(np.arange(N) < n_queries, y, np.arange(N))  # others are alone
            check(z, some, n_queries)
            seconds = take_turns(
                {
                    OURS: lambda z=z, y=some: retrieve(z, y),
                    FAISS: lambda z=z: by_faiss(z, n_queries),
                    SKLEARN: lambda z=z: by_sklearn(z, n_queries),
                },
                arguments.pairs,
            )
            compared = ratios(seconds, [(name, OURS) for name in (FAISS, SKLEARN)])
            table.add(f"d={d} queries={n_queries}", seconds | compared)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        spent, memory = fresh.submit(rank_all, max(WIDTHS)).result()
    table.add(f"d={max(WIDTHS)} queries={N}", {OURS: [spent]})
    table.add(f"d={max(WIDTHS)} queries={N}", {"memory that ours adds": [memory]}, "MB")
    table.write(arguments.out)


if __name__ == "__main__":
    main()
