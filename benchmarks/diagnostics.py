"""What ``--diagnostics 10`` costs: looks against training, and training with looks against without.

Run: python benchmarks/diagnostics.py [--data-dir DIR] [--pairs 3] [--epochs 100]
     [--out results.csv] [--quick]

Encoders of hscl are trained on one thread, each side in turn, with the population that the command
chooses; embedding and scoring are left out. *Looks* is the time in looks by that in training, both
of the same run; *with / without* compares whole runs and so holds what looks do to the caches of
others too. On digits, a ResNet-18 is trained for a tenth of the epochs, with the same number of
looks by epochs.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from gcl_hard.experiments.graph_seeds import train_seeds
from gcl_hard.experiments.place import Place, Running
from pairs import Table, Values, ratios, timed

from gcl_hard.experiments.config import GraphConfig, ImageConfig, RunConfig
from gcl_hard.experiments.experiment import SeedScore
from gcl_hard.experiments.image_data import image_data
from gcl_hard.experiments.images import run_seed
from gcl_hard.experiments.runs import Run
from gcl_hard.graphs import load

EVERY = 10
AIM = 5.0  # percent
SEEDS = 5
SETS = ("MUTAG", "PTC_MR", "ENZYMES", "IMDB-BINARY", "IMDB-MULTI")


@dataclass(frozen=True)
class Case:
    """What is trained.

    Attributes:
        name: of the row.
        cell: the settings.
        seeds: side by side, as far as the cell allows.
        data_dir: an offline mirror, or None.
    """

    name: str
    cell: RunConfig
    seeds: int
    data_dir: Path | None

    def train(self, every: int) -> list[SeedScore]:
        """Its seeds, looked at every so many epochs; 0 for never."""
        jobs = [Run(self.cell, seed) for seed in range(self.seeds)]
        if isinstance(self.cell, GraphConfig):
            graphs = load(self.cell.dataset, data_dir=self.data_dir)
            unseen: list[Callable[..., None]] = [ignored] * len(jobs)
            trained = train_seeds(jobs, graphs, unseen, diagnostics=every)
            return [one.score for one in trained if one.score is not None]
        assert isinstance(self.cell, ImageConfig)
        data = image_data(self.cell, None, torch.device("cpu"))
        with tempfile.TemporaryDirectory() as folder:
            running = Running(diagnostics=every, monitor_every=0, checkpoint_minutes=1e6)
            cpu = torch.device("cpu")
            place = Place(Path(folder) / "record.json", cpu, 1, 1, running, "")
            return [run_seed(job, data, place, ignored) for job in jobs]


def ignored(encoder: int, epoch: float, loss: float, beside: int = 1) -> None:
    """Nobody watches."""


def cases(epochs: int, data_dir: Path | None, *, quick: bool) -> list[Case]:
    """All of them, or MUTAG alone."""
    sets = SETS[:1] if quick else SETS
    few = max(EVERY, epochs // 10)
    found = [
        Case(f"{name} hscl, {SEEDS} seeds", GraphConfig(name, epochs=epochs), SEEDS, data_dir)
        for name in sets
    ]
    found.append(Case("MUTAG hscl, 1 seed", GraphConfig(epochs=epochs), 1, data_dir))
    inductive = GraphConfig(protocol="inductive", epochs=few)
    found.append(Case("MUTAG hscl inductive, 1 seed", inductive, 1, data_dir))
    two_view = GraphConfig(sets[-1] if quick else "PTC_MR", contrast="two-view", epochs=few)
    found.append(Case(f"{two_view.dataset} hscl two-view, 1 seed", two_view, 1, data_dir))
    if not quick:
        images = ImageConfig(encoder="resnet18", epochs=few, probe_epochs=1)
        found.append(Case("digits hscl ResNet-18, 1 seed", images, 1, None))
    return found


def time_case(table: Table, case: Case, pairs: int) -> float:
    """A B A B ...; returns the median share of looks, percent."""
    contenders = {"without": 0, "with": EVERY}
    seconds: Values = {name: [] for name in contenders}
    found: Values = {"looks": [], "a look": []}
    case.train(EVERY)  # imports, kernels, colours
    for _ in range(pairs):
        for name, every in contenders.items():
            whole, scores = timed(partial(case.train, every))
            spent = sum(score.seconds_eval for score in scores)
            seconds[name].append(whole - spent)
            if every:
                looks = sum(score.seen.seconds for score in scores if score.seen is not None)
                n = sum(len(score.seen.looks) for score in scores if score.seen is not None)
                training = sum(score.seconds_train for score in scores)
                found["looks"].append(100 * looks / training)
                found["a look"].append(looks / n)
    table.add(case.name, {"looks": found["looks"]}, unit="%")
    table.add(case.name, {"a look": found["a look"]})
    table.add(case.name, {f"training, {name}": values for name, values in seconds.items()})
    table.add(case.name, ratios(seconds, [("with", "without")]))
    return sorted(found["looks"])[len(found["looks"]) // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    epochs = 2 * EVERY if arguments.quick else arguments.epochs
    table = Table("diagnostics")
    shares = {
        case.name: time_case(table, case, 1 if arguments.quick else arguments.pairs)
        for case in cases(epochs, arguments.data_dir, quick=arguments.quick)
    }
    table.write(arguments.out)
    above = [f"{name} {share:.1f} %" for name, share in shares.items() if share > AIM]
    print(f"aim, {AIM:g} %: {'met everywhere' if not above else 'missed by ' + ', '.join(above)}")


if __name__ == "__main__":
    main()
