"""Costs of ensembles besides time: the memory of a model, and operations.

Memory of a model is the increase of an epoch from 4 to 16 models, divided by 12, in tensors alive
at once; *resident* is the growth of a process from 16 to 64. Operations are those of dense
products, as PyTorch counts them: neither sparse products nor element-wise work. The projected
minimum is computed from them for 8 configurations a data set and 10 seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from ensemble_cases import FOLDS, GRID, MB, MODEL, SEEDS, Case, cases_of, first, train_plainly
from live_tensors import LiveTensors, peak_resident
from pairs import Table, Values
from torch.utils.flop_counter import FlopCounterMode

from gcl_hard.graphs import Ensemble, GraphSet, load
from gcl_hard.training.ensemble import train_ensemble
from gcl_hard.training.loop import Optimisation


def peak_of(ensemble: Ensemble) -> int:
    """Most bytes of tensors alive at once in an epoch, tables of parameters included."""
    for _ in ensemble.batches(1):  # made now, so that they are not counted
        pass
    with LiveTensors(large=1) as live:
        train_ensemble(ensemble, Optimisation(epochs=1))
    return live.peak_bytes


def slope(peaks: Mapping[int, int]) -> float:
    """Bytes per model, from the smallest and the largest ensemble."""
    few, many = min(peaks), max(peaks)
    return (peaks[many] - peaks[few]) / (many - few)


def resident_of(case: Case, data_dir: str | None) -> float:
    """Bytes by which a process grows per model; run it in a fresh process."""
    torch.set_num_threads(1)
    graphs = load(case.dataset, data_dir=data_dir, download=False)
    peaks = {}
    for size in (16, 64):  # the first allocates what all share
        train_ensemble(first(case.config, graphs, size), Optimisation(epochs=1))
        peaks[size] = round(peak_resident() * MB)
    return slope(peaks)


def memory_of(case: Case, graphs: GraphSet) -> Values:
    """Bytes of a model on a CPU."""
    measured = slope({size: peak_of(first(case.config, graphs, size)) for size in (4, 16)})
    return {"a model, measured": [measured / MB]}


def operations(case: Case, graphs: GraphSet) -> tuple[int, dict[str, int]]:
    """Steps of an epoch, and the floating-point operations of its dense products.

    Colours are those of all graphs, as in an ensemble on a GPU, which has every fold.
    """
    config = replace(case.config, epochs=1)
    ensemble = first(replace(config, protocol="transductive"), graphs, 1)
    steps = sum(1 for _ in ensemble.batches(1))
    with FlopCounterMode(display=False) as nodes:
        train_plainly(config, graphs, lambda *_: None)
    with FlopCounterMode(display=False) as colours:
        train_ensemble(ensemble, config.optimisation())
    return steps, {"nodes": nodes.get_total_flops(), "colours": colours.get_total_flops()}


def projected(an_epoch: Mapping[str, float], encoders_a_seed: int, tflops: float) -> float:
    """Seconds of a data set's runs of Table II at a device's peak.

    Args:
        an_epoch: operations of one model, by method.
        encoders_a_seed: 1, or the folds of ``inductive``.
        tflops: peak of the device, 10¹² operations a second.
    """
    models = sum(GRID[method] * count for method, count in an_epoch.items())
    return models * MODEL * SEEDS * encoders_a_seed / (tflops * 1e12)


def count_operations(table: Table, sets: Sequence[GraphSet], tflops: float) -> None:
    print("operations: dense products alone; sparse ones and element-wise work are not counted")
    for protocol, n_encoders in (("transductive", 1), ("inductive", FOLDS)):
        minima: Values = {}
        for graphs in sets:
            an_epoch: dict[str, dict[str, int]] = {}
            for method in GRID:
                case = Case(graphs.name, method, protocol)
                steps, counts = operations(case, graphs)
                for kind, count in counts.items():
                    an_epoch.setdefault(kind, {})[method] = count
                if case in cases_of(graphs.name):
                    rows = {
                        f"operations a step, {kind}": [n / steps / 1e6]
                        for kind, n in counts.items()
                    }
                    table.add(str(case), rows, unit="MFLOP")
            for kind, by_method in an_epoch.items():
                minimum = minima.setdefault(f"projected minimum, {kind}", [0.0])
                minimum[0] += projected(by_method, n_encoders, tflops)
        names = f"{len(sets)} sets" if len(sets) > 1 else sets[0].name
        table.add(f"{protocol}, {names}, {tflops:g} TFLOPS", minima)
