"""Run the cells of a command, seed by seed; what is finished is read, not run again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from gcl_hard.errors import DivergenceError, InputError
from gcl_hard.experiments import machine, records
from gcl_hard.experiments.config import CellConfig
from gcl_hard.experiments.options import BenchOptions
from gcl_hard.experiments.results import CellResult, result_json
from gcl_hard.graphs.batches import GraphSet

if TYPE_CHECKING:
    from rich.console import Console


@dataclass
class Outcome:
    """What a command came to.

    Attributes:
        results: cells with at least one finished seed.
        failures: a message for every seed that could not be finished.
        path: where the result file was written, None without results.
    """

    results: list[CellResult] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    path: str | None = None


class Job(NamedTuple):
    """One seed of one cell."""

    cell: CellConfig
    seed: int

    @property
    def encoders(self) -> int:
        """How many encoders it trains."""
        return self.cell.folds if self.cell.protocol == "inductive" else 1


def run(options: BenchOptions, console: Console) -> Outcome:
    """Run what is not finished, save every seed at once, and put the result file together.

    Args:
        options: as parsed.
        console: where progress goes.

    Returns:
        The outcome; a seed that diverges is reported there and does not stop the others.

    Raises:
        InputError: for anything wrong with data, device or folders, before training starts.
    """
    from gcl_hard.evaluation import outer_folds
    from gcl_hard.evaluation.nested import inner_folds
    from gcl_hard.graphs.datasets import canonical_name, load

    device = machine.choose_device(options.device)
    cells = list(dict.fromkeys(c.with_dataset(canonical_name(c.dataset)) for c in options.cells))
    sets: dict[tuple[str, str], GraphSet] = {}
    for cell in cells:
        if (cell.dataset, cell.features) not in sets:
            graphs = load(cell.dataset, data_dir=options.data_dir, features=cell.features)
            sets[cell.dataset, cell.features] = graphs.to(device)
        labels = sets[cell.dataset, cell.features].y.cpu().numpy()
        for fold in outer_folds(labels, seed=0, n_folds=cell.folds):
            inner_folds(labels[fold.train], n_inner=5, seed=0)
    records.check_writable(options.output)
    if options.json is not None:
        records.check_writable(options.json.absolute().parent)
        if options.json.is_dir():
            raise InputError(f"json must be a file, got the folder {options.json}")

    versions = machine.versions()  # of the source as it is now, not when a seed ends
    outcome = Outcome()
    jobs = [Job(cell, seed) for cell in cells for seed in options.seeds]
    facts = {key: _facts(graphs) for key, graphs in sets.items()}
    finished = {
        job: record
        for job in jobs
        if (record := _saved(options, job, facts[job.cell.dataset, job.cell.features])) is not None
    }
    pending = [job for job in jobs if job not in finished]
    if finished:
        console.print(f"{len(finished)} of {len(jobs)} seeds were finished before", style="dim")
    with _progress(console, pending, sets) as advance:
        for job in pending:
            key = job.cell.dataset, job.cell.features
            try:
                record = _run(
                    job, sets[key], facts[key], options, versions=versions, on_epoch=advance(job)
                )
            except DivergenceError as error:
                outcome.failures.append(str(error))
                continue
            records.save(record, records.record_path(options.output, job.cell, job.seed))
            finished[job] = record
            console.print(_line(job, record), highlight=False)
    for cell in cells:
        done = tuple(finished[Job(cell, s)] for s in options.seeds if Job(cell, s) in finished)
        if done:
            outcome.results.append(CellResult(cell, done))
    if outcome.results:
        path = options.json or options.output / f"{_name(cells)}.json"
        records.write_json(result_json(outcome.results), path)
        outcome.path = str(path)
    return outcome


def _saved(options: BenchOptions, job: Job, facts: dict[str, Any]) -> records.Record | None:
    """The record of a job if it is of that seed and of these graphs."""
    record = records.load(records.record_path(options.output, job.cell, job.seed), job.cell)
    if record is None or record.seed != job.seed:
        return None
    return record if {**facts, **record.data} == facts else None


def _facts(graphs: GraphSet) -> dict[str, Any]:
    """What a record says of its data; the digest tells two sets of one name apart."""
    digest = hashlib.sha256()
    for tensor in (graphs.x, graphs.edge_index, graphs.y, graphs.node_ptr):
        digest.update(tensor.cpu().contiguous().numpy().tobytes())
    return {
        "n_graphs": graphs.n_graphs,
        "n_classes": graphs.n_classes,
        "n_features": graphs.n_features,
        "features": graphs.features,
        "digest": digest.hexdigest()[:16],
    }


def _run(
    job: Job,
    graphs: GraphSet,
    facts: dict[str, Any],
    options: BenchOptions,
    *,
    versions: dict[str, str],
    on_epoch: Callable[[int, int, float], None],
) -> records.Record:
    from gcl_hard.experiments.protocols import run_seed

    cell = job.cell
    nodes = graphs.n_nodes / graphs.n_graphs * min(cell.batch_size, graphs.n_graphs)
    threads = machine.use_threads(options.threads, nodes, cell.dim * cell.layers)
    n_jobs = options.threads or machine.available_cores()
    score = run_seed(cell, graphs, job.seed, n_jobs=max(threads, n_jobs), on_epoch=on_epoch)
    return records.Record(
        config=asdict(cell),
        seed=job.seed,
        fold_accuracies=[100 * fold.accuracy for fold in score.folds],
        fold_c=[fold.chosen for fold in score.folds],
        final_losses=list(score.final_losses),
        seconds_train=score.seconds_train,
        seconds_eval=score.seconds_eval,
        data=facts,
        device=machine.device_name(graphs.x.device),
        versions=versions,
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _line(job: Job, record: records.Record) -> str:
    mean = sum(record.fold_accuracies) / len(record.fold_accuracies)
    seconds = record.seconds_train + record.seconds_eval
    return f"{job.cell}, seed {job.seed}: {mean:.1f} % ({seconds:.0f} s)"


def _name(cells: list[CellConfig]) -> str:
    """What a command's result file is called: its data sets, methods and protocols.

    And, where other settings are not the default, a digest: two experiments have two files.
    """
    named = ("dataset", "method", "protocol")
    parts = ["+".join(dict.fromkeys(getattr(c, n) for c in cells)) for n in named]
    if any(c.changed().keys() - set(named) for c in cells):
        parts.append(hashlib.sha256("".join(c.key() for c in cells).encode()).hexdigest()[:6])
    return "_".join(parts)


@contextmanager
def _progress(
    console: Console, pending: list[Job], sets: dict[tuple[str, str], GraphSet]
) -> Iterator[Callable[[Job], Callable[[int, int, float], None]]]:
    """One bar over everything, in node-epochs so that its ETA holds, and one for this seed."""
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    def size(job: Job) -> int:
        return sets[job.cell.dataset, job.cell.features].n_nodes

    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"),
        TimeElapsedColumn(), TextColumn("ETA"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bars:
        whole = sum(size(job) * job.cell.epochs * job.encoders for job in pending)
        everything = bars.add_task(f"{len(pending)} seeds", total=whole, visible=len(pending) > 1)
        one = bars.add_task("", total=1, visible=False)

        def start(job: Job) -> Callable[[int, int, float], None]:
            epochs = job.cell.epochs
            bars.reset(one, total=epochs * job.encoders, visible=True)

            def on_epoch(encoder: int, epoch: int, loss: float) -> None:
                of = f" encoder {encoder + 1}/{job.encoders}" if job.encoders > 1 else ""
                text = f"{job.cell}, seed {job.seed}{of} epoch {epoch}/{epochs} loss {loss:.3f}"
                bars.update(one, advance=1, description=text)
                bars.advance(everything, size(job))

            return on_epoch

        yield start
