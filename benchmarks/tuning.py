"""Searches: batched against one by one, two jobs against one, and the overhead of a trial.

Run: python benchmarks/tuning.py [--data-dir DIR] [--device cpu] [--pairs 5] [--trials 64]
     [--out results.csv] [--quick]

Searched are β and the learning rate of hscl, at 50 epochs a trial. Settings are drawn at random by
the number of a trial, so that contenders train the same ones. Timed are

- whole studies in this process, reading the data, storing in a new SQLite file, training and
  scoring; imports are left out. *Batched* asks for as many trials at once as the command does, with
  one thread or with two, *one by one* for one, with one thread. *Scoring* is the share of a batched
  study that is spent in embeddings and SVMs;
- whole commands, ``--jobs 2 --threads 2`` against ``--jobs 1 --threads 1``, each with its default
  batch. *Command* includes everything: imports, the start of processes, and scoring the best trial
  on the outer part by one process. *Trials* excludes these: it runs from the first trial's start to
  the last one's end, by the times in the storage;
- trials whose scores take no time, sampled by TPE, stored in SQLite or a journal, without a pruner
  or with five intermediate scores for the median pruner; a study's seconds by its trials.

On a CUDA device, only the first of these. Files are written to the folder of ``TMPDIR``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ensembles import loaded
from pairs import Table, Values, ratios
from tuning_cases import EPOCHS, Case, Searched, overhead, whole_search, whole_study

from gcl_hard.experiments.trials import REPORTS
from gcl_hard.tuning.options import STARTUP

DATASETS = ("PTC_MR", "MUTAG")
STORAGES = {"SQLite": ".db", "journal": ".journal"}
BATCHES = (1, 8)
TRIAL = 10.0
"""Seconds of a trial to which its overhead is compared."""
AIMS = {"cpu": 1.5, "cuda": 10.0}
"""Batched against one by one."""
BATCHED, ALONE, TWO = "batched", "one by one", "batched, two threads"
RESULTS = Path(__file__).parent / "results"
QUICK_TRIALS, QUICK_FEW = 16, 4
"""The fewest trials of which the command asks for several at once on a CPU; and fewer, where that
does not matter."""


def check_same(first: Searched, other: Searched) -> None:
    """Check that both trained the same trials."""
    assert first.trials == other.trials, "the contenders' trials have other settings"


def time_batches(table: Table, case: Case, pairs: int) -> float:
    """Trials an hour, A B A B ...; returns the worst ratio of the better way to batch."""
    contenders = {ALONE: ("--ensemble-size=1", "--threads=1"), BATCHED: ("--threads=1",)}
    if case.device == "cpu":
        contenders[TWO] = ("--threads=2",)
    for flags in contenders.values():
        whole_study(replace(case, trials=2, epochs=1), *flags)  # imports, kernels
    searches: dict[str, list[Searched]] = {name: [] for name in contenders}
    for _ in range(pairs):
        for name, flags in contenders.items():
            searches[name].append(whole_study(case, *flags))
        for name in contenders:
            check_same(searches[ALONE][-1], searches[name][-1])
    seconds = {name: [search.seconds for search in runs] for name, runs in searches.items()}
    rates = {n: [3600 * case.trials / each for each in s] for n, s in seconds.items()}
    table.add(str(case), rates, unit="trials an hour")
    compared = ratios(seconds, [(ALONE, name) for name in contenders if name != ALONE])
    table.add(str(case), compared)
    best = max(min(values) for values in compared.values())
    batched = searches[BATCHED]
    table.add(
        str(case), {"trials at once": [float(search.batch) for search in batched]}, unit="trials"
    )
    shares = [100 * search.scoring / search.seconds for search in batched]
    table.add(str(case), {f"scoring, {BATCHED}": shares}, unit="%")
    return best


def time_jobs(table: Table, case: Case, pairs: int) -> float:
    """Seconds of commands and of their trials, A B A B ...; returns the trials' worst ratio."""
    contenders = {"one job": 1, "two jobs": 2}
    seconds: Values = {}
    for _ in range(pairs):
        for name, jobs in contenders.items():
            command, trials = whole_search(case, jobs)
            seconds.setdefault(f"command, {name}", []).append(command)
            seconds.setdefault(f"trials, {name}", []).append(trials)
    table.add(str(case), seconds)
    one_job, two_jobs = contenders
    compared = ratios(
        seconds,
        [(f"{measure}, {one_job}", f"{measure}, {two_jobs}") for measure in ("command", "trials")],
    )
    table.add(str(case), compared)
    return min(compared[f"trials, {one_job} / trials, {two_jobs}"])


def time_overhead(table: Table, case: Case, pairs: int) -> float:
    """Milliseconds of a trial without work, A B A B ...; returns the largest share, percent."""
    kinds = {"a trial": 0, f"a trial, {REPORTS} reports": REPORTS}
    contenders = [(storage, n) for storage in STORAGES for n in BATCHES]
    seconds: dict[tuple[str, int], Values] = {
        contender: {k: [] for k in kinds} for contender in contenders
    }
    overhead(replace(case, trials=STARTUP + 2), ".journal", 8, REPORTS)  # TPE's imports come late
    for _ in range(pairs):
        for storage, n in contenders:
            for kind, reports in kinds.items():
                each = overhead(case, STORAGES[storage], n, reports)
                seconds[storage, n][kind].append(each)
    largest = 0.0
    for (storage, n), values in seconds.items():
        name = f"{storage}, batch {n}"
        table.add(name, {kind: [1e3 * s for s in all_] for kind, all_ in values.items()}, unit="ms")
        shares = {
            f"{kind}, of {TRIAL:.0f} s": [100 * s / TRIAL for s in all_]
            for kind, all_ in values.items()
        }
        table.add(name, shares, unit="%")
        largest = max(largest, *(max(all_) for all_ in shares.values()))
    return largest


def markdown(table: Table) -> Iterator[str]:
    """All rows."""
    yield "| case | metric | median | min | max | unit |"
    yield "|---" * 6 + "|"
    for _, case, metric, median, low, high, unit, _ in table.rows:
        figures = " | ".join(f"{float(value):.3g}" for value in (median, low, high))
        yield f"| {case} | {metric} | {figures} | {unit} |"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="folder with NAME.zip files (GCL_HARD_DATA)")
    parser.add_argument("--device", choices=tuple(AIMS), default="cpu")
    parser.add_argument("--pairs", type=int, default=5, help="interleaved runs of each (5)")
    parser.add_argument("--trials", type=int, default=64, help="of a study (64)")
    parser.add_argument("--out", type=Path, help="CSV file (results/tuning.csv; cuda: -gpu)")
    parser.add_argument("--quick", action="store_true", help="MUTAG alone, tiny studies, 1 pair")
    arguments = parser.parse_args(argv)
    device, pairs = arguments.device, arguments.pairs
    names, trials, few, epochs = DATASETS, arguments.trials, arguments.trials, EPOCHS
    if arguments.quick:
        pairs, names, trials, few, epochs = 1, names[1:], QUICK_TRIALS, QUICK_FEW, 1
    elif arguments.out is None:
        arguments.out = RESULTS / ("tuning.csv" if device == "cpu" else "tuning-gpu.csv")
    here = [graphs.name for graphs in loaded(names, arguments.data_dir)]
    cases = [Case(name, trials, epochs, device, arguments.data_dir) for name in here]
    table, summary = Table("tuning", arguments), []
    aim = f"the aim is {AIMS[device]}"
    parts = {f"{case}, batched: at least {{:.2f}}; {aim}": (time_batches, case) for case in cases}
    if device == "cpu":
        small = [replace(case, trials=few) for case in cases]
        limit = f"% of a trial of {TRIAL:.0f} s; the aim is 2"
        parts |= {f"{case}, two jobs: at least {{:.2f}}; the aim is 1.6": (time_jobs, case)
                  for case in small}  # fmt: skip
        parts |= {f"overhead: at most {{:.2f}} {limit}": (time_overhead, case)
                  for case in small[-1:]}  # fmt: skip
    for part in table.each(parts):
        measure, case = parts[part]
        summary.append(part.format(measure(table, case, pairs)))
    table.write(arguments.out)
    print("", *markdown(table), "", *summary, sep="\n")


if __name__ == "__main__":
    main()
