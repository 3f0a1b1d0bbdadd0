"""The first command of the README, a page of it, and the same from Python."""

from pathlib import Path

import gcl_hard
from gcl_hard import bench
from gcl_hard.graphs import GIN, load_graphs

SHORT = ["--seeds=1", "--folds=2", "--epochs=1", "--device=cpu", "--output=out"]
assert bench.main(["--method=hscl,majority,wl", *SHORT, "--report=page.md"]) == 0
assert Path("page.md").exists()
results = gcl_hard.evaluate(
    GIN, load_graphs("MUTAG"), "ucl", seeds=1, folds=2, epochs=1, output="mine", progress=False
)
assert results.table["method"].tolist() == ["ucl", "majority", "untrained"]
assert len(results.encoders("ucl")) == 2
