"""Command line and YAML of ``python -m gcl_hard.tune``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from jsonargparse import ArgumentParser

from gcl_hard.errors import InputError, unknown
from gcl_hard.experiments.choose import backend_for
from gcl_hard.experiments.config import CONFIGS, defaults, flag
from gcl_hard.experiments.flags import Help, add_flags, add_settings, parse, settings_of
from gcl_hard.experiments.values import Members
from gcl_hard.tuning import files
from gcl_hard.tuning.own_encoder import check_encoder
from gcl_hard.tuning.part import Inner
from gcl_hard.tuning.samplers import STEPS, WILCOXON_FOLDS, PrunerName, SamplerName
from gcl_hard.tuning.space import Base, Space

if TYPE_CHECKING:
    from gcl_hard.graphs import GraphSet
    from gcl_hard.tuning.part import Maker

MOST_TRIALS = {"cpu": 16, "cuda": 256}
"""Trials asked for at once where no number is given."""


@dataclass(frozen=True)
class TuneOptions:
    """What a search was asked for.

    Attributes:
        base: the settings that are not searched.
        space: as asked for, fitted to the base.
        space_name: how it was named.
        trials: that each study shall have, complete or pruned.
        sampler: tpe, cmaes or random.
        pruner: none, median, hyperband or wilcoxon.
        inner_folds: that a trial is scored on; 1 is a hold-out of a fifth.
        outer_folds: studies, each scored on what it has not seen; 1 is a hold-out of 30 %.
        batch: trials asked for at once, None to choose.
        workers: processes on each study.
        seed: of splits, encoders and samplers.
        storage: a URL or a path, None for a SQLite file in ``output``.
        study_name: None for one made of data set, method and protocol.
        output: folder of the results.
        report: the page to write, or None.
        device: ``auto``, ``cpu``, ``cuda``, …
        data_dir: an offline mirror, or None.
        threads: of the CPU, for all processes together; None to choose.
        report_only: whether nothing is run.
        graphs: a set of the user's own.
        encoder: makes an encoder of the user's own.
    """

    base: Base
    space: Space
    space_name: str
    trials: int = 64
    sampler: SamplerName = "tpe"
    pruner: PrunerName = "none"
    inner_folds: int = 1
    outer_folds: int = 1
    batch: int | None = None
    workers: int = 1
    seed: int = 0
    storage: str | None = None
    study_name: str | None = None
    output: Path = Path("results")
    report: Path | None = None
    device: str = "auto"
    data_dir: Path | None = None
    threads: int | None = None
    report_only: bool = False
    graphs: GraphSet | None = None
    encoder: Maker | None = None

    def __post_init__(self) -> None:
        for name in ("trials", "inner_folds", "outer_folds", "workers", "threads", "batch", "seed"):
            value = getattr(self, name)
            if value is None and name in ("threads", "batch"):
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise InputError(f"{flag(name)} must be a whole number, got {value!r}")
            if value < 1 and name != "seed":
                raise InputError(f"{flag(name)} must be at least 1, got {value}")
        if not 0 <= self.seed < 2**32:
            raise InputError(f"seed must be a whole number from 0 to 2**32 - 1, got {self.seed}")
        for name, known in (("sampler", get_args(SamplerName)), ("pruner", get_args(PrunerName))):
            if getattr(self, name) not in known:
                raise unknown(name, str(getattr(self, name)), known)
        if self.encoder is not None:
            check_encoder(self)
        if self.report is not None and self.report.suffix != ".md":
            raise InputError(f"report is a page of Markdown, NAME.md, got {self.report}")
        self._check_sampler()
        self._check_pruner()
        self._check_protocol()

    def _check_sampler(self) -> None:
        if self.sampler == "cmaes" and not self.space.numeric:
            words = [d.name for d in self.space.dimensions if not d.numeric]
            raise InputError(
                f"cmaes searches numbers only, and {', '.join(words)} is a choice: use "
                f"--sampler tpe, or make it a range"
            )

    def _check_pruner(self) -> None:
        names = [dimension.name for dimension in self.space.dimensions]
        steps = STEPS[self.pruner]
        if steps == "folds" and self.inner_folds != WILCOXON_FOLDS:
            raise InputError(
                f"pruner wilcoxon compares inner folds: give --inner-folds {WILCOXON_FOLDS}, "
                f"got {self.inner_folds}"
            )
        if steps == "epochs" and self.inner_folds > 1:
            raise InputError(
                f"pruner {self.pruner} looks at epochs of one inner hold-out: give "
                f"--inner-folds 1, or --pruner wilcoxon, which looks at folds"
            )
        if steps == "epochs" and "epochs" in names:
            raise InputError(
                f"pruner {self.pruner} compares trials epoch by epoch, and epochs are searched: "
                f"leave them out of the space, or use --pruner none or wilcoxon"
            )

    def _check_protocol(self) -> None:
        cell = self.base.alone
        if cell.backend == "images" and self.outer_folds > 1:
            raise InputError("images have an official test split, which is the one outer part: "
                             "leave --outer-folds out")  # fmt: skip
        if cell.protocol == "paper" and (self.outer_folds > 1 or self.inner_folds > 1):
            raise InputError(
                "protocol paper chooses on the test folds and has neither inner nor outer folds: "
                "leave them out, or use --protocol inductive"
            )

    @property
    def inner(self) -> Inner:
        """How trials are scored."""
        return Inner(self.inner_folds, STEPS[self.pruner], self.seed)

    def batch_on(self, device: str) -> int:
        """Trials asked for at once.

        Args:
            device: kind of it; where many train side by side at the price of few, more are.
        """
        if self.batch is not None:
            return self.batch
        if self.base.alone.group_key is None or self.encoder is not None:
            return 1  # they train one by one: a crash loses one
        share = 8 if device == "cpu" else 4  # a sampler learns between batches
        return max(1, min(self.trials // share, MOST_TRIALS.get(device, 1)))


SEARCH: list[tuple[str, Any, Any, str]] = [
    (
        "space", str | None, None,
        "YAML file, or one of: " + ", ".join(sorted(files.shipped())) + "; chosen by the method",
    ),
    ("trials", int, 64, "of each study: complete or pruned ones, of all workers"),
    ("sampler", SamplerName, "tpe", "tpe, cmaes (numbers only) or random"),
    ("pruner", PrunerName, "none", "none, median or hyperband (by epochs), wilcoxon (by folds)"),
    ("inner-folds", int, 1, "that score a trial, inside the outer part; 1 is a hold-out of 20 %"),
    ("outer-folds", int, 1, "studies, each scored on graphs it never saw; 1 is a hold-out of 30 %"),
    ("batch", Members, Members(0), "trials trained side by side, auto or a number"),
    ("workers", int, 1, "processes on each study; other machines join with the same command"),
    ("seed", int, 0, "of splits, encoders and sampler"),
    ("storage", str | None, None, "NAME.db, NAME.journal (shared disks) or a database URL"),
    ("study-name", str | None, None, "made of data set, method and protocol if not given"),
    ("output", Path, Path("results"), "folder of the storage and of the result"),
    ("report", Path | None, None, "page.md to write; figures, page.html and YAML go beside it"),
    ("device", str, "auto", "auto, cpu, cuda or cuda:N"),
    ("data-dir", Path | None, None, "folder with your copies of data sets (or set GCL_HARD_DATA)"),
    ("threads", int | None, None, "CPU threads of all processes, one each at least; else chosen"),
]  # fmt: skip
SWITCHES = [("report-only", "run nothing: show what was found so far")]
OWN = {"graphs": {"protocol": "inductive"}, "images": {}}
"""Defaults of settings that are not the cell's."""


def tune_parser(backend: str = "graphs") -> ArgumentParser:
    """The parser of ``python -m gcl_hard.tune``, with the settings of a backend."""
    parser = ArgumentParser(
        prog="python -m gcl_hard.tune",
        description="Search settings of a method with Optuna, scored inside training data alone; "
        "then score the best ones once on data that the search never saw. The same command goes "
        "on with a search that was stopped, or joins it from another machine.",
        epilog=EPILOG[backend],
        usage="python -m gcl_hard.tune [--dataset NAME] [--method NAME] [--trials N] [...]",
        formatter_class=Help,
        allow_abbrev=False,
        exit_on_error=False,
    )
    parser.add_argument(
        "--config", action="config", metavar="FILE", help="YAML with any of these; flags win"
    )
    add_flags(parser, SEARCH, SWITCHES)
    add_settings(parser, CONFIGS[backend], {}, **OWN[backend])
    return parser


EPILOG = {
    "graphs": "Example: python -m gcl_hard.tune --dataset PTC --method hscl --trials 64. The "
    "settings of images: python -m gcl_hard.tune --dataset CIFAR10 --help",
    "images": "Example: python -m gcl_hard.tune --dataset digits --encoder resnet18 --epochs 3 "
    "--trials 20. The settings of graphs: python -m gcl_hard.tune --help",
}


def parse_tune(arguments: Sequence[str]) -> TuneOptions:
    """Read a command line.

    Args:
        arguments: without the program's name.

    Returns:
        The options; space and settings are checked.

    Raises:
        InputError: for anything that cannot be run; names the flag and the nearest ones.
    """
    backend = backend_for(arguments)
    kind = CONFIGS[backend]
    parser = tune_parser(backend)
    try:
        values = parse(parser, arguments)
    except InputError as error:
        raise _explained(error) from error
    base = Base(kind, settings_of(values, defaults(kind)))
    name = values["space"] or files.usual(base.alone)
    space = files.read(name).fitted(base)
    check_given(parse(parser, arguments, defaults=False), space, base)
    own = [n.replace("-", "_") for n, *_ in (*SEARCH, *SWITCHES) if n not in ("space", "batch")]
    return TuneOptions(
        base, space, name, batch=int(values["batch"]) or None, **{n: values[n] for n in own}
    )


def _explained(error: InputError) -> InputError:
    """Files that belong to another flag or door."""
    said = str(error)
    if said.startswith("--space"):
        return InputError("a file with a search space goes to --space FILE, not to --config")
    if "expected" in said and "got [" in said:
        return InputError(
            f"{said}; a search takes one value of each setting (a file of lists is for "
            f"python -m gcl_hard.bench)"
        )
    return error


def check_given(given: Mapping[str, Any], space: Space, base: Base) -> None:
    """What is searched is given only where a grid takes it.

    Args:
        given: settings by name.
        space: what is searched.
        base: the rest.

    Raises:
        InputError: for a setting that would be given for nothing.
    """
    left = space.left_to(base)
    for name in (dimension.name for dimension in space.dimensions):
        if given.get(name) is not None and name not in left:
            raise InputError(f"{flag(name)} is searched, and given too: leave one of them out")
