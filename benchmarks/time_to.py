"""Seconds of training until the monitoring curve of a run first reaches an accuracy.

Run: python benchmarks/time_to.py RESULTS [--accuracy 94]

RESULTS is a folder of results on images, trained with ``--monitor-every 1``. The curve is the
accuracy of nearest neighbours among training images, on others that are held out of the vote; its
own time is not counted.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from gcl_hard.experiments.store import Store


def times(folder: Path, accuracy: float) -> pd.DataFrame:
    """A row for each run with a curve: the first epoch at the accuracy, and seconds until then."""
    rows = []
    for result in Store(folder).rows():
        config = result.run.config
        if not result.curve or result.inner:
            continue
        first = next((int(epoch) for epoch, share in result.curve if share >= accuracy), None)
        rows.append({
            "run": str(result.run), "epochs": config.epochs,
            "highest, %": max(share for _, share in result.curve), "first epoch": first,
            "seconds": None if first is None else result.seconds_train * first / config.epochs,
            "device": result.device,
        })  # fmt: skip
    return pd.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="folder of results")
    parser.add_argument("--accuracy", type=float, default=94, help="in percent (94)")
    arguments = parser.parse_args()
    print(times(arguments.results, arguments.accuracy).to_string(index=False, float_format="%.1f"))


if __name__ == "__main__":
    main()
