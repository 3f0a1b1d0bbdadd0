"""Runs of a domain of one's own in two processes."""

from gcl_hard import bench
from tests.extras.own_domain import IRIS

if __name__ == "__main__":
    assert bench.main([*IRIS, "--method=ucl,raw", "--seeds=2", "--jobs=2"]) == 0
