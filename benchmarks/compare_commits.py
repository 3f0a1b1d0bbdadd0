"""Compare what two commits compute, on one machine, number by number.

    python benchmarks/compare_commits.py BASE [--only NAME,...] [--data-dir DIR] [--shared DIR]
                                              [--jobs N]
    python benchmarks/compare_commits.py BASE --commands

The first runs the commands of ``compare_plan.py`` once in a checkout of BASE and once in this
working tree, one thread each, and compares every number that they wrote: result files, records,
tables, figures' CSV, trials of searches, and saved encoders.
Numbers must have the same bits. Of ensembles, losses of a run agree to 1e-4 (float32), and the
accuracies of two commits, paired by seed, differ in the mean by at most three standard errors. Each
tree has a cache of its own, so that both read and parse all data. Commands that need a missing file
of ``--shared`` are skipped and named. The second parses every command that BASE documents in both
trees and compares the configurations. Exit status 1 on a difference.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

from compare_plan import COMMANDS, Command, chosen
from documented_commands import configurations, documented

ROOT = Path(__file__).resolve().parents[1]
LOSSES = "final_losses"
LOSS_TOLERANCE = 1e-4
"""Relative tolerance of float32 losses after the few epochs that are compared here."""
STANDARD_ERRORS = 3.0
VARYING = frozenset(
    {"seconds", "seconds_train", "seconds_eval", "seconds_diagnostics", "finished", "versions"}
    | {"device", "schema_version"}
)
"""Keys and columns of times, dates and machines."""
STATUS = "run.json"
SCRIPTS = ROOT / "benchmarks" / "compare_scripts"

Values = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One seed of one configuration, as a tree wrote it.

    Attributes:
        config: its settings.
        seed: its seed, and whether its scores come from hold-outs inside the training folds.
        values: everything in its record, by dotted path.
    """

    config: Values
    seed: str
    values: Values


@dataclass(frozen=True)
class Written:
    """Output of a command.

    Attributes:
        runs: runs from records.
        values: values from all other files, by file and dotted path.
    """

    runs: list[Run]
    values: Values


@dataclass
class Comparison:
    """Comparison of one command in two trees.

    Attributes:
        runs: number of compared runs.
        values: number of compared values.
        differences: the differences in words.
        largest: largest absolute difference of two numbers.
    """

    runs: int = 0
    values: int = 0
    differences: list[str] = field(default_factory=list)
    largest: float = 0.0

    def equal(self, name: str, old: Any, new: Any) -> None:
        """Compare a value to the bit; NaN equals NaN."""
        self.values += 1
        if _number(old) and _number(new):
            if old == new or (math.isnan(old) and math.isnan(new)):
                return
            self.largest = max(self.largest, abs(old - new))
        elif type(old) is type(new) and old == new:
            return
        self.differences.append(f"{name}: {old!r} in base, {new!r} here")

    def close(self, name: str, old: float, new: float, tolerance: float) -> None:
        """Compare two losses to a relative tolerance."""
        self.values += 1
        self.largest = max(self.largest, abs(old - new))
        if not math.isclose(old, new, rel_tol=tolerance):
            self.differences.append(f"{name}: {old!r} in base, {new!r} here")


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def flat(content: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a JSON document by dotted path; prose and varying keys are left out."""
    if isinstance(content, Mapping):
        for key, value in content.items():
            if key not in VARYING:
                yield from flat(value, f"{path}.{key}" if path else str(key))
    elif hasattr(content, "tolist"):
        yield from flat(content.tolist(), path)
    elif isinstance(content, (list, tuple)):
        yield f"{path}.length", len(content)
        for index, value in enumerate(content):
            yield from flat(value, f"{path}.{index}")
    elif isinstance(content, str):
        if " " not in content:  # the digest in an encoder's file is one of versions, too
            yield path, re.sub(r"(\.pt)@[0-9a-f]+", r"\1", content)
    else:
        yield path, content


def read(folder: Path) -> Written:
    """Everything that a command wrote to a folder."""
    runs: list[Run] = []
    values: Values = {}
    for file in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != STATUS):
        name = file.relative_to(folder).as_posix()
        for content in _documents(file):
            if isinstance(content, dict) and {"config", "seed"} <= content.keys():
                seed = f"seed {content['seed']}" + " inner" * bool(content.get("inner"))
                content.pop("digest", None)  # of its times, too
                config = {  # lists as text, so that they tell runs apart
                    name: json.dumps(value) if isinstance(value, (list, dict)) else value
                    for name, value in content["config"].items()
                }
                runs.append(Run(config, seed, dict(flat(content))))
            else:
                values |= flat(content, name)
    return Written(runs, values)


def _documents(file: Path) -> Iterator[Any]:
    """The JSON documents of a file, the rows of a CSV file, or the trials of a search."""
    if file.suffix == ".json":
        yield json.loads(file.read_text(encoding="utf-8"))
    elif file.name.endswith((".jsonl", ".jsonl.gz")):
        content = file.read_bytes()
        text = (gzip.decompress(content) if file.suffix == ".gz" else content).decode()
        yield from map(json.loads, text.splitlines())
    elif file.suffix == ".csv":
        with file.open(encoding="utf-8", newline="") as lines:
            yield rows(csv.DictReader(lines))
    elif file.suffix == ".yaml":
        import yaml

        yield yaml.safe_load(file.read_text(encoding="utf-8"))
    elif file.suffix == ".npz":
        import numpy as np

        with np.load(file, allow_pickle=False) as arrays:
            yield dict(arrays)
    elif file.suffix == ".pt":
        import torch

        yield {"saved": torch.load(file, map_location="cpu", weights_only=True)}
    elif file.suffix == ".db":
        yield trials(file)


def rows(table: Iterable[Mapping[str, str]]) -> Values:
    """Rows of a table by their text cells, so that their order is free; numbers as numbers."""
    values: Values = {}
    seen: Counter[str] = Counter()
    for row in table:
        cells = {key: _value(text) for key, text in row.items()}
        label = " ".join(value for value in cells.values() if isinstance(value, str))
        seen[label] += 1
        values[f"[{label} #{seen[label]}]"] = cells
    return values


def _value(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text or None


def trials(file: Path) -> Values:
    """The trials of the studies in an Optuna database."""
    import optuna

    storage = f"sqlite:///{file}"
    return {
        name: [
            {
                "state": trial.state.name,
                "values": trial.values,
                "params": trial.params,
                "steps": {str(step): value for step, value in trial.intermediate_values.items()},
            }
            for trial in optuna.load_study(study_name=name, storage=storage).trials
        ]
        for name in optuna.get_all_study_names(storage)
    }


def labelled(old: Sequence[Run], new: Sequence[Run]) -> list[dict[str, Run]]:
    """The runs of two trees, labelled by the settings that vary between runs of a command."""
    shared = [set.intersection(*(set(run.config) for run in runs)) for runs in (old, new) if runs]
    common = set.intersection(*shared) if shared else set()
    varied = sorted(
        name
        for name in common
        if any(len({repr(run.config[name]) for run in runs}) > 1 for runs in (old, new))
    )
    by_label = []
    for runs in (old, new):
        named = {}
        for run in runs:
            parts = [f"{name}={run.config[name]}" for name in varied]
            named[" ".join([*parts, run.seed])] = run
        if len(named) != len(runs):
            raise SystemExit(f"runs of one tree share a label: {sorted(named)}")
        by_label.append(named)
    return by_label


def compare(old: Written, new: Written, *, ensemble: bool = False) -> Comparison:
    """Compare the output of two trees; for ensembles only losses and accuracies of the runs."""
    comparison = Comparison()
    base, here = labelled(old.runs, new.runs)
    for label in sorted(base.keys() ^ here.keys()):
        comparison.differences.append(f"{label}: only {'in base' if label in base else 'here'}")
    shared = [label for label in base if label in here]
    comparison.runs = len(shared)
    if ensemble:
        _compare_ensembles(comparison, {label: (base[label], here[label]) for label in shared})
        return comparison
    for label in shared:
        _compare_values(comparison, base[label].values, here[label].values, f"{label}: ")
    _compare_values(comparison, old.values, new.values, "")
    return comparison


def _compare_values(comparison: Comparison, old: Values, new: Values, prefix: str) -> None:
    for name in old | new:
        if name not in old or name not in new:
            where = "in base" if name in old else "here"
            comparison.differences.append(f"{prefix}{name}: only {where}")
        else:
            comparison.equal(prefix + name, old[name], new[name])


def _compare_ensembles(comparison: Comparison, pairs: Mapping[str, tuple[Run, Run]]) -> None:
    gains: dict[str, list[float]] = {}
    for label, (old, new) in pairs.items():
        losses = [name for name in old.values if name.startswith(f"{LOSSES}.")]
        for name in losses:
            pair = (old.values[name], new.values.get(name, math.nan))
            comparison.close(f"{label}: {name}", *pair, 0.0 if "length" in name else LOSS_TOLERANCE)
        settings = label.partition("seed ")[0] + "inner" * (" inner" in label)
        gains.setdefault(settings, []).append(_accuracy(new) - _accuracy(old))
    for settings, by_seed in gains.items():
        comparison.values += 1
        mean = statistics.fmean(by_seed)
        error = statistics.stdev(by_seed) / math.sqrt(len(by_seed)) if len(by_seed) > 1 else 0.0
        if abs(mean) > STANDARD_ERRORS * error:
            comparison.differences.append(
                f"{settings}: accuracies moved by {mean:+.3f} points over {len(by_seed)} seeds "
                f"(standard error {error:.3f})"
            )


def _accuracy(run: Run) -> float:
    prefix = f"scores.{run.values['metric']}."
    return statistics.fmean(
        value
        for name, value in run.values.items()
        if name.startswith(prefix) and not name.endswith(".length")
    )


@dataclass(frozen=True)
class Tree:
    """A checkout, and the folder that its commands write to.

    Attributes:
        path: path of the checkout.
        results: a folder for each command, and the cache.
        shared: folder of data and scripts beside the project.
    """

    path: Path
    results: Path
    shared: Path

    def run(self, command: Command, data_dir: Path | None) -> dict[str, Any]:
        """Run a command unless its results exist; returns its exit status and seconds."""
        folder = self.results / command.name
        module = [] if command.entry == "python" else ["-m", f"gcl_hard.{command.entry}"]
        stated = call = [*module, *command.arguments.split()]
        for name, place in (("tree", self.path), ("scripts", SCRIPTS), ("shared", self.shared)):
            call = [word.replace(f"{{{name}}}", str(place)) for word in call]
        scripts = [word for word in call if word.endswith(".py")]
        stated += [Path(script).read_text(encoding="utf-8") for script in scripts]
        if (folder / STATUS).exists():
            known = json.loads((folder / STATUS).read_text(encoding="utf-8"))
            if known["call"] == stated:
                return cast(dict[str, Any], known)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        data = {} if data_dir is None else {"GCL_HARD_DATA": str(data_dir.resolve())}
        data["GCL_HARD_CACHE"] = str(self.results / ".cache")
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, *call],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(self.path)} | threads | data,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        outcome = {"call": stated, "status": done.returncode, "error": done.stderr[-2000:]}
        outcome["seconds"] = time.perf_counter() - start
        if done.returncode == 0:
            (folder / STATUS).write_text(json.dumps(outcome), encoding="utf-8")
        return outcome


def missing(command: Command, shared: Path) -> str:
    """The first missing file or folder of ``{shared}`` that a command names."""
    named = [word for word in command.arguments.split() if word.startswith("{shared}")]
    return next((n for n in named if not Path(n.replace("{shared}", str(shared))).exists()), "")


def without_missing(commands: Sequence[Command], shared: Path) -> list[Command]:
    """The commands whose files exist; prints the others."""
    lacks = {command.name: missing(command, shared) for command in commands}
    for command in commands:  # a command follows those whose results it reads
        lacks[command.name] = next(filter(None, map(lacks.get, (command.name, *command.after))), "")
    for path in sorted({*lacks.values()} - {""}):
        names = [name for name, lacked in lacks.items() if lacked == path]
        where = path.replace("{shared}", str(shared))
        print(f"{len(names)} skipped, without {where} (--shared): {', '.join(names)}", flush=True)
    return [command for command in commands if not lacks[command.name]]


def compare_runs(
    commands: Sequence[Command], base: Tree, here: Tree, *, data_dir: Path | None, jobs: int
) -> bool:
    """Run commands in two trees, and print a line for each.

    Returns:
        Whether everything agrees.
    """
    width = max(len(command.name) for command in commands)
    print(f"{'command':{width}}  runs  values  agreement             base, s  here, s", flush=True)
    same, total = True, [0.0, 0.0]
    ready = [c for c in commands if not c.after], [c for c in commands if c.after]
    for wave in ready:
        with ThreadPoolExecutor(jobs) as pool:
            both = [[pool.submit(tree.run, c, data_dir) for tree in (base, here)] for c in wave]
            for command, calls in zip(wave, both, strict=True):
                old, new = (call.result() for call in calls)
                comparison = _compared(command, base, here, old, new)
                total = [total[0] + old["seconds"], total[1] + new["seconds"]]
                same &= not comparison.differences
                counted = f"{command.name:{width}}  {comparison.runs:4}  {comparison.values:6}"
                seconds = f"{old['seconds']:7.1f}  {new['seconds']:7.1f}"
                print(f"{counted}  {_agreement(command, comparison):20}  {seconds}", flush=True)
                _print_differences(comparison.differences)
    print(f"{'all':{width}}  {'':35} {total[0]:8.1f} {total[1]:8.1f}")
    return same


def _compared(
    command: Command, base: Tree, here: Tree, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Comparison:
    failed = [
        f"exit status {outcome['status']} {where}: {outcome['error']}"
        for where, outcome in (("in base", old), ("here", new))
        if outcome["status"]
    ]
    if failed:
        return Comparison(differences=failed)
    written = [read(tree.results / command.name) for tree in (base, here)]
    comparison = compare(*written, ensemble=command.ensemble)
    if not comparison.values and not comparison.differences:
        comparison.differences.append("no output that could be compared")
    return comparison


def _agreement(command: Command, comparison: Comparison) -> str:
    if comparison.differences:
        return f"{len(comparison.differences)} differ, {comparison.largest:.2g}"
    return f"within, {comparison.largest:.2g}" if command.ensemble else "equal"


def _print_differences(differences: Sequence[str], most: int = 8) -> None:
    for line in differences[:most]:
        print(f"    {line}")
    if len(differences) > most:
        print(f"    and {len(differences) - most} more")


def compare_documented(base: Path, here: Path) -> bool:
    """Parse every command that the base documents in both trees, and print the differences.

    Returns:
        Whether all configurations agree.
    """
    shown = documented(base)
    typed = [(command.entry, list(command.arguments)) for command in shown]
    refused = differing = 0
    both = (configurations(tree, typed) for tree in (base, here))
    for command, before, after in zip(shown, *both, strict=True):
        if "error" in before:  # it names a file of the reader's
            refused += 1
            continue
        comparison = Comparison()
        if "error" in after:
            comparison.differences.append(f"refused here: {after['error']}")
        else:
            # A setting that one tree lacks equals one that the other leaves open.
            old, new = (
                {name: value for name, value in flat(options) if value is not None}
                for options in (before, after)
            )
            _compare_values(comparison, old, new, "")
        if comparison.differences:
            differing += 1
            print(
                f"{command.page}: python -m gcl_hard.{command.entry} {' '.join(command.arguments)}"
            )
            _print_differences(comparison.differences)
    print(f"{len(shown)} documented commands: {differing} differ, {refused} refused by the base")
    return not differing


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """A temporary git worktree of a commit."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder).resolve() / "tree"
        _git("worktree", "add", "--detach", "--quiet", str(tree), commit)
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(ROOT), *arguments], check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "base", metavar="BASE", help="commit that this working tree is compared with"
    )
    parser.add_argument("--only", metavar="NAME,...", default="", help=", ".join(COMMANDS))
    parser.add_argument("--data-dir", type=Path, help="folder of TU data sets (or GCL_HARD_DATA)")
    parser.add_argument(
        "--shared", type=Path, default=ROOT.parent / "shared", metavar="DIR",
        help="folder with data/molecules (default: shared, beside the project)",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, default=1, help="commands at a time (default: 1)")
    parser.add_argument(
        "--cache", type=Path, help="folder that keeps what commits wrote, for the next comparison"
    )
    parser.add_argument(
        "--commands", action="store_true", help="compare how documented commands are parsed"
    )
    options = parser.parse_args(arguments)
    names = [name for name in options.only.split(",") if name]
    if unknown := [name for name in names if name not in COMMANDS]:
        parser.error(f"--only: no command is called {', '.join(unknown)}")
    commit = _git("rev-parse", f"{options.base}^{{commit}}")
    head = "" if _git("status", "--porcelain") else _git("rev-parse", "HEAD")
    with checkout(commit) as tree, tempfile.TemporaryDirectory() as scratch:
        if options.commands:
            return 0 if compare_documented(tree, ROOT) else 1
        kept = Path(options.cache or scratch).resolve()
        shared = options.shared.resolve()
        base = Tree(tree, kept / commit, shared)
        clean = head not in ("", commit)
        here = Tree(ROOT, kept / head if clean else Path(scratch) / "here", shared)
        run = partial(compare_runs, data_dir=options.data_dir, jobs=options.jobs)
        commands = without_missing(chosen(names), shared)
        return 0 if commands and run(commands, base, here) else 1


if __name__ == "__main__":
    sys.exit(main())
