"""Ensembles: models trained together against one by one.

Run: python benchmarks/ensembles.py [--data-dir DIR] [--device cpu] [--pairs 5] [--sizes 1,4,16]
     [--out results.csv] [--quick]

On a CPU every process has one thread. *Plain* is ``training.loop.train``, one model after the
other, node by node; the others train ensembles, of the size named or the one that the command
chooses. In *two processes* both train at once, and their rates are summed over epochs in which
both were training. Timed are epochs, except the first of every run: imports, set-up, and the choice
of a size are excluded. Making coloured batches is included: every ensemble is the first on its set,
though later ones would reuse them (the saving has its own row).

On a CUDA device: seconds a step by the number of models, and the device's own peaks of memory.

``ensemble_cases.py`` defines models.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext
from pathlib import Path
from typing import Any

import torch
from ensemble_cases import (
    AUTOMATIC,
    DATASETS,
    EPOCHS,
    MB,
    MODEL,
    ON_CUDA,
    PLAIN,
    SIZES,
    SMALL,
    Case,
    cases_of,
    first,
    train_plainly,
    usual_size,
)
from pairs import Table, Values, ratios, timed

from gcl_hard.errors import InputError
from gcl_hard.graphs import GraphSet, load_graphs
from gcl_hard.training.ensemble import train_ensemble


@dataclass(frozen=True)
class Turn:
    """A turn of training in a process.

    Attributes:
        case: case of the encoders.
        contender: ``PLAIN``, ``AUTOMATIC`` or the number of models.
        paired: whether another process trains at the same time.
    """

    case: Case
    contender: str | int
    paired: bool = False


class Enough(Exception):  # noqa: N818 (no error: training is stopped)
    """Enough epochs were timed."""


class Laps:
    """Called as epochs end: times all but the first, then stops training.

    Args:
        epochs: number of epochs to time.
        both: set if another process trains too: waits for it after the first epoch, and goes on
            until it is done as well.
        clock: returns seconds.
    """

    def __init__(
        self,
        epochs: int,
        both: Both | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.epochs, self.both, self.clock = epochs, both, clock
        self.ends: list[float] = []

    def __call__(self, *_: object) -> None:
        if not self.ends and self.both is not None:
            self.both.start.wait()
        self.ends.append(self.clock())
        done = len(self.ends) - 1
        if done == self.epochs and self.both is not None:
            with self.both.done.get_lock():
                self.both.done.value += 1
        if done >= self.epochs and (self.both is None or self.both.done.value == 2):
            raise Enough

    @property
    def seconds(self) -> float:
        """Seconds of a timed epoch."""
        return (self.ends[self.epochs] - self.ends[0]) / self.epochs


class Both:
    """State shared by two processes that train at the same time."""

    def __init__(self, context: SpawnContext) -> None:
        self.start = context.Barrier(2)
        self.done: Any = context.Value("i", 0)


@contextmanager
def stopped() -> Iterator[None]:
    """Context for a training that is stopped before its last epoch."""
    with suppress(Enough):
        yield
        raise AssertionError("training ended before enough epochs were timed")


class Trainer:
    """Trains in a process; remembers data sets."""

    def __init__(self, data_dir: str | None, both: Both) -> None:
        self.both = both
        self._load = cache(partial(load_graphs, data_dir=data_dir, download=False))

    def _set(self, case: Case) -> GraphSet:
        """A set that no ensemble has made batches of."""
        return replace(self._load(case.dataset))

    def __call__(self, turn: Turn) -> tuple[int, float]:
        """Models, and seconds of an epoch of one of them."""
        config, graphs = turn.case.config, self._set(turn.case)
        both = self.both if turn.paired else None
        if turn.contender == PLAIN:
            laps = Laps(EPOCHS["cpu"], both)
            with stopped():
                train_plainly(config, graphs, laps)
            return 1, laps.seconds
        size = usual_size(turn.case) if turn.contender == AUTOMATIC else int(turn.contender)
        ensemble = first(config, graphs, size)
        laps = Laps(EPOCHS["cpu"] if size <= SMALL else 1, both)
        with stopped():
            train_ensemble(ensemble, config.optimisation(), on_epoch=laps)
        return size, laps.seconds / size


def worker(connection: Connection, data_dir: str | None, both: Both) -> None:
    """A process that trains turns from its connection with one thread."""
    torch.set_num_threads(1)
    trainer = Trainer(data_dir, both)
    while (turn := connection.recv()) is not None:
        connection.send(trainer(turn))


class Processes:
    """Two processes; one waits while the other trains alone."""

    def __init__(self, data_dir: str | None) -> None:
        context = get_context("spawn")
        self.both = Both(context)
        self.connections, self.processes = [], []
        for _ in range(2):
            parent_end, child_end = context.Pipe()
            process = context.Process(
                target=worker, args=(child_end, data_dir, self.both), daemon=True
            )
            process.start()
            child_end.close()
            self.connections.append(parent_end)
            self.processes.append(process)

    def train(self, turn: Turn) -> tuple[list[int], float]:
        """Models of each training process, and their joint seconds of an epoch of a model."""
        self.both.done.value = 0
        chosen = self.connections[: 2 if turn.paired else 1]
        for connection in chosen:
            connection.send(turn)
        results = [connection.recv() for connection in chosen]
        return [models for models, _ in results], rates_added([seconds for _, seconds in results])

    def end(self) -> None:
        for connection, process in zip(self.connections, self.processes, strict=True):
            connection.send(None)
            process.join()


def rates_added(seconds: Sequence[float]) -> float:
    """Joint seconds per piece of several workers, each at its own pace."""
    return 1 / sum(1 / each for each in seconds)


def models_an_hour(seconds: Sequence[float]) -> list[float]:
    """From seconds of an epoch of a model."""
    return [3600 / (MODEL * each) for each in seconds]


def time_training(
    train: Callable[[Turn], tuple[list[int], float]], case: Case, sizes: Sequence[int], pairs: int
) -> tuple[Values, Values]:
    """Seconds of an epoch of a model by every contender, A B A B ..., and automatic sizes."""
    turns = {
        "one process, plain": Turn(case, PLAIN),
        **{f"one process, P = {size}": Turn(case, size) for size in sizes},
        f"one process, {AUTOMATIC}": Turn(case, AUTOMATIC),
        "two processes, plain": Turn(case, PLAIN, paired=True),
        f"two processes, {AUTOMATIC}": Turn(case, AUTOMATIC, paired=True),
    }
    seconds: Values = {name: [] for name in turns}
    models: Values = {}
    for round_ in range(pairs + 1):
        for name, turn in turns.items():
            chosen, each = train(turn)
            if round_:  # sizes are chosen in the first
                seconds[name].append(each)
            if turn.contender == AUTOMATIC:
                models[name] = [float(size) for size in chosen]
    return seconds, models


def against_plain(seconds: Values, sizes: Sequence[int]) -> Values:
    """Round by round, ours against one by one with the same number of processes."""
    best = min(
        (f"one process, P = {p}" for p in sizes), key=lambda n: statistics.median(seconds[n])
    )
    one_process, two_processes = "one process", "two processes"
    return ratios(
        seconds | {f"{one_process}, best P": seconds[best]},
        [
            (f"{one_process}, plain", f"{one_process}, best P"),
            (f"{one_process}, plain", f"{one_process}, {AUTOMATIC}"),
            (f"{two_processes}, plain", f"{two_processes}, {AUTOMATIC}"),
        ],
    )


def batches_of(graphs: GraphSet) -> float:
    """Seconds to make an epoch's coloured batches."""
    ensemble = first(Case(graphs.name, "ucl").config, graphs, 1)
    list(ensemble.batches(1))
    return timed(lambda: list(ensemble.batches(2)))[0]


def on_cpu(table: Table, sets: Sequence[GraphSet], arguments: argparse.Namespace) -> None:
    processes = Processes(arguments.data_dir)
    worst: dict[str, tuple[float, str]] = {}
    for graphs in sets:
        table.add(graphs.name, {"batches of an epoch, made": [batches_of(graphs)]})
        for case in cases_of(graphs.name):
            sizes = arguments.sizes
            times, models = time_training(processes.train, case, sizes, arguments.pairs)
            rates = {name: models_an_hour(values) for name, values in times.items()}
            table.add(str(case), rates, unit="models an hour")
            compared = against_plain(times, sizes)
            table.add(str(case), compared)
            chosen = {f"models, {name}": values for name, values in models.items()}
            table.add(str(case), chosen, unit="models")
            for name, values in compared.items():
                worst_here = statistics.median(values), str(case)
                worst[name] = min(worst.get(name, worst_here), worst_here)
    processes.end()
    for name, (value, where) in worst.items():
        aim = 0.95 if name.startswith("two") else 1.5
        print(f"{name}: at least {value:.2f} ({where}); the aim is {aim}")


def cuda_step(case: Case, graphs: GraphSet, size: int) -> tuple[float, int]:
    """Seconds of a step, and the device's peak memory above its earlier use."""

    def clock() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    before = torch.cuda.memory_allocated()
    ensemble = first(case.config, graphs, size)
    steps = sum(1 for _ in ensemble.batches(1))
    laps = Laps(EPOCHS["cuda"], clock=clock)
    torch.cuda.reset_peak_memory_stats()
    with stopped():
        train_ensemble(ensemble, case.config.optimisation(), on_epoch=laps)
    peak = torch.cuda.max_memory_allocated() - before
    return laps.seconds / steps, peak


def on_cuda(table: Table, sets: Sequence[GraphSet], arguments: argparse.Namespace) -> None:
    moved = {graphs.name: graphs.to("cuda") for graphs in sets}
    for case in table.each(case for name in moved for case in cases_of(name)):
        seconds: Values = {f"step, P = {size}": [] for size in arguments.sizes}
        peaks: dict[int, int] = {}
        for round_ in range(arguments.pairs + 1):
            for size in arguments.sizes:
                each, peaks[size] = cuda_step(case, moved[case.dataset], size)
                if round_:  # the first makes batches and loads kernels
                    seconds[f"step, P = {size}"].append(each)
        smallest = f"step, P = {min(arguments.sizes)}"
        table.add(str(case), seconds)
        table.add(str(case), ratios(seconds, [(name, smallest) for name in seconds]))
        if len(peaks) > 1:
            few, many = min(peaks), max(peaks)
            grown = (peaks[many] - peaks[few]) / (many - few)
            table.add(f"{case} cuda", {"a model, measured": [grown / MB]}, unit="MB")


def loaded(names: Sequence[str], data_dir: str | None) -> list[GraphSet]:
    """The sets that are available offline."""
    sets = []
    for name in names:
        try:
            sets.append(load_graphs(name, data_dir=data_dir, download=False))
        except InputError:
            print(f"{name:32}left out: neither in the data folder nor in the cache")
    return sets


def sizes_of(text: str) -> tuple[int, ...]:
    """Numbers of models, ascending: ``1,4,16``."""
    sizes = sorted({int(part) for part in text.split(",")})
    if sizes[0] < 1:
        raise argparse.ArgumentTypeError(f"an ensemble has at least one model, got {sizes[0]}")
    return tuple(sizes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="folder with NAME.zip files (GCL_HARD_DATA)")
    parser.add_argument("--device", choices=tuple(SIZES), default="cpu")
    parser.add_argument("--pairs", type=int, default=5, help="interleaved runs of each (5)")
    parser.add_argument(
        "--sizes", type=sizes_of, help="models of an ensemble (1,4,16; cuda: up to 256)"
    )
    parser.add_argument("--out", type=Path, help="CSV file to write")
    parser.add_argument("--quick", action="store_true", help="MUTAG alone, 3 pairs")
    arguments = parser.parse_args()
    arguments.sizes = arguments.sizes or SIZES[arguments.device]
    torch.set_num_threads(1)
    names: Sequence[str] = DATASETS if arguments.device == "cpu" else ON_CUDA
    if arguments.quick:
        names, arguments.pairs = names[:1], 3
    sets = loaded(names, arguments.data_dir)
    table = Table("ensembles", arguments)
    (on_cpu if arguments.device == "cpu" else on_cuda)(table, sets, arguments)
    table.write(arguments.out)


if __name__ == "__main__":
    main()
