"""The runs of a command: their order, and the groups that train together."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Sequence
from math import ceil

from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import RunConfig, selectable


def candidate_groups(configs: Iterable[RunConfig]) -> list[tuple[RunConfig, ...]]:
    """Configurations that differ only in what can be chosen inside training data.

    Args:
        configs: any.

    Returns:
        The groups of two or more, in the order given.

    Example:
        >>> from gcl_hard.graphs.settings import GraphConfig
        >>> configs = [GraphConfig(protocol="inductive", beta=b) for b in (1, 2)]
        >>> [[config.beta for config in group] for group in candidate_groups(configs)]
        [[1.0, 2.0]]
    """
    groups: dict[tuple[object, ...], list[RunConfig]] = {}
    for config in configs:
        if experiment_of(config).can_select(config):
            apart = selectable(type(config))
            fixed = (type(config), *(v for k, v in config.values.items() if k not in apart))
            groups.setdefault(fixed, []).append(config)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def inner_run(config: RunConfig, seed: int) -> Run:
    """The run whose scores inside the training data choose between configurations."""
    experiment = experiment_of(config)
    return Run(config, seed, inner=experiment.chooses_once or not experiment.validates(config))


def plan(configs: Sequence[RunConfig], seeds: Sequence[int], *, select: bool) -> list[Run]:
    """All runs of a command: those with one encoder for all folds first, then seed by seed.

    If it is stopped early, all methods have the same seeds, so that they can be compared.

    Args:
        configs: without repeats.
        seeds: requested seeds; a configuration may need fewer.
        select: whether settings are chosen inside training folds.

    Returns:
        The runs.

    Example:
        >>> from gcl_hard.graphs.settings import GraphConfig
        >>> [str(run) for run in plan([GraphConfig(method="ucl")], [0, 1], select=True)]
        ['MUTAG ucl transductive, seed 0', 'MUTAG ucl transductive, seed 1']
    """
    candidates = (
        {config for group in candidate_groups(configs) for config in group} if select else set()
    )
    runs = dict.fromkeys(
        run
        for seed in seeds
        for config in configs
        if seed in experiment_of(config).seeds_used(config, seeds)
        for run in (Run(config, seed), *([inner_run(config, seed)] * (config in candidates)))
    )
    return sorted(runs, key=lambda run: run.config.encoders > 1)


Group = tuple[Run, ...]

USUAL = {"cpu": 8, "cuda": 256}
"""Models per ensemble. It depends neither on the clock nor on free memory nor on the number of
processes, so that the same command trains the same models together. On a CPU 16 train the most
models per hour on every set of benchmarks/results/ensembles.csv, and 4 already 76 to 97 % of that
on most; 8 leave
two processes with work for ten seeds of one configuration. On a GPU a step of many costs hardly
more than one of few, and 256 models of these sets fit in 16 GB."""
FOLD_BY_FOLD = 4
"""Runs per group on a CPU if every fold is an ensemble: they are saved when the last fold ends,
and 4 train within 10 % of the best speed."""


def groups_of(runs: Sequence[Run], *, size: int | None = None, device: str = "cpu") -> list[Group]:
    """Cut the runs of a command into groups that train as ensembles.

    The same runs give the same groups, whatever is finished already, however many processes share
    them and however much memory is free: a model's rounding depends on what is trained with it.

    Args:
        runs: the full plan of the command, in the order to do them.
        size: models per ensemble, None for the usual number on the device.
        device: as PyTorch writes it.

    Returns:
        Groups in the order of their first runs; a run that trains alone is a group of one.

    Example:
        >>> from gcl_hard.graphs.settings import GraphConfig
        >>> runs = [Run(GraphConfig(method=name), 0) for name in ("ucl", "wl", "hscl")]
        >>> [[run.config.method for run in group] for group in groups_of(runs)]
        [['ucl', 'hscl'], ['wl']]
    """
    alike: dict[Hashable, dict[Run, list[Run]]] = {}
    for run in runs:
        key = _shared(run, on_cpu=device == "cpu")
        # Runs that differ only in scoring are trained once.
        alike.setdefault(key, {}).setdefault(run.training, []).append(run)
    groups: list[Group] = []
    for group in alike.values():
        n = _runs_in_group(next(iter(group)), size, device)
        trained = list(group.values())
        groups += [
            tuple(run for same in trained[start:end] for run in same)
            for start, end in equal_parts(len(trained), n)
        ]
    order = {run: number for number, run in enumerate(runs)}
    return sorted(groups, key=lambda group: order[group[0]])


def usual_size(device: str) -> int:
    """Models per ensemble if no size is given.

    Args:
        device: as PyTorch writes it.
    """
    return USUAL.get(device.partition(":")[0], 1)


def equal_parts(n: int, most: int) -> list[tuple[int, int]]:
    """Cut n items in order into the fewest nearly equal parts of at most ``most``.

    Args:
        n: at least 1.
        most: at least 1.

    Returns:
        First and past-the-end index of each part.

    Example:
        >>> equal_parts(10, 8)
        [(0, 5), (5, 10)]
    """
    parts = ceil(n / most)
    cuts = [round(n * part / parts) for part in range(parts + 1)]
    return list(itertools.pairwise(cuts))


def _shared(run: Run, *, on_cpu: bool) -> Hashable:
    """Key of the runs of one group."""
    shared = run.config.group_key
    if shared is None:
        return run
    # On a CPU runs that hold out the same graphs; on any device runs that draw the same views.
    same_seed = run.config.shares_views or (on_cpu and run.config.encoders > 1)
    return (run.config.domain, shared, (run.seed, run.inner) if same_seed else None)


def _runs_in_group(run: Run, size: int | None, device: str) -> int:
    """Number of distinct runs in a group."""
    if run.config.encoders <= 1:
        return size or usual_size(device)
    if device == "cpu":
        return size or FOLD_BY_FOLD
    return max(1, (size or usual_size(device)) // run.config.encoders)
