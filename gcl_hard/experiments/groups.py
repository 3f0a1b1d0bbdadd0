"""Which runs train together: groups of one data set and shape, cut from a command's full plan."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from math import ceil

from gcl_hard.experiments.config import GraphConfig
from gcl_hard.experiments.runs import Run

Group = tuple[Run, ...]

USUAL = {"cpu": 8, "cuda": 256}
"""Models of an ensemble. Neither the clock nor free memory nor the number of processes decides, so
that the same command trains the same models together. On a CPU 16 train the most models an hour on
every set of benchmarks/results/ensembles.csv, and 4 already 76 to 97 % of that on most; 8 leave
two processes with work for ten seeds of one configuration. On a GPU a step of many costs hardly
more than one of few, and 256 models of these sets fit in 16 GB."""
FOLD_BY_FOLD = 4
"""Runs of a group on a CPU whose every fold is an ensemble: they are saved when the last fold
ends, and 4 train within 10 % of the best."""


def groups_of(runs: Sequence[Run], *, size: int | None = None, device: str = "cpu") -> list[Group]:
    """Cut the runs of a command into groups that train as ensembles.

    The same runs give the same groups, whatever is finished already, however many processes share
    them and however much memory is free: a model's rounding depends on what is trained beside it.

    Args:
        runs: the full plan of the command, in the order to do them.
        size: models of an ensemble, None for the usual number on the device.
        device: as PyTorch writes it.

    Returns:
        Groups in the order of their first runs; what trains alone is a group of one.

    Example:
        >>> from gcl_hard.experiments.config import GraphConfig
        >>> runs = [Run(GraphConfig(method=name), 0) for name in ("ucl", "wl", "hscl")]
        >>> [[run.config.method for run in group] for group in groups_of(runs)]
        [['ucl', 'hscl'], ['wl']]
    """
    alike: dict[Hashable, dict[Run, list[Run]]] = {}
    for run in runs:
        own = _shared(run, on_cpu=device == "cpu")
        # Those that differ in scoring alone are trained once.
        alike.setdefault(own, {}).setdefault(run.training, []).append(run)
    found: list[Group] = []
    for group in alike.values():
        n = _runs_in_group(next(iter(group)), size, device)
        trained = list(group.values())
        found += [
            tuple(run for same in trained[start:end] for run in same)
            for start, end in equal_parts(len(trained), n)
        ]
    order = {run: number for number, run in enumerate(runs)}
    return sorted(found, key=lambda group: order[group[0]])


def usual_size(device: str) -> int:
    """Models of an ensemble where no size is asked for.

    Args:
        device: as PyTorch writes it.
    """
    return USUAL.get(device.partition(":")[0], 1)


def equal_parts(n: int, most: int) -> list[tuple[int, int]]:
    """Cut n things in order into as few parts of at most ``most`` as there can be, about equal.

    Args:
        n: at least 1.
        most: at least 1.

    Returns:
        First and past the last of each part.

    Example:
        >>> equal_parts(10, 8)
        [(0, 5), (5, 10)]
    """
    parts = ceil(n / most)
    cuts = [round(n * part / parts) for part in range(parts + 1)]
    return list(itertools.pairwise(cuts))


def _shared(run: Run, *, on_cpu: bool) -> Hashable:
    """What runs of one group share."""
    shared = run.config.group_key
    if shared is None:
        return run
    # On a CPU those that hold out the same graphs; those that draw the same views on any device.
    views = isinstance(run.config, GraphConfig) and run.config.two_view
    same_seed = views or (on_cpu and run.config.encoders > 1)
    return (run.config.domain, shared, (run.seed, run.inner) if same_seed else None)


def _runs_in_group(run: Run, size: int | None, device: str) -> int:
    """Distinct runs of a group."""
    if run.config.encoders <= 1:
        return size or usual_size(device)
    if device == "cpu":
        return size or FOLD_BY_FOLD
    return max(1, (size or usual_size(device)) // run.config.encoders)
