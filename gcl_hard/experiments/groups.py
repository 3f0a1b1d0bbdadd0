"""placeholder"""

from __future__ import annotations


def groups_of(runs, *, size=None, device="cpu"):
    found = {}
    for run in runs:
        k = run.config.group_key
        k = run if k is None else (k, run.seed, run.inner)
        found.setdefault(k, []).append(run)
    return [tuple(g[i : i + 8]) for g in found.values() for i in range(0, len(g), 8)]
