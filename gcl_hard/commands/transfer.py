"""The command ``transfer``: encoders of molecules scored on labelled sets, and fingerprints."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from jsonargparse import ArgumentParser

from gcl_hard.commands.parser import (
    entry_parser,
    option_defaults,
    print_config,
    public_command,
    read_arguments,
    run_command,
)
from gcl_hard.errors import GclHardError, InputError, check_at_least, check_number, check_option
from gcl_hard.graphs.moleculenet import SOURCES, is_file
from gcl_hard.io import check_writable
from gcl_hard.methods import METHODS
from gcl_hard.settings.base import COMMON
from gcl_hard.settings.flags import add_options, options_of
from gcl_hard.settings.molecules import (
    LISTS,
    NONE,
    PROBES,
    SUPERVISED,
    Finetuning,
    TransferRun,
    runs_of,
    share_label,
)

NINE = ("BACE", "BBBP", "ClinTox", "SIDER", "Tox21", "ToxCast", "ESOL", "FreeSolv", "Lipo")
CLIFFS = tuple(name for name in SOURCES if name.startswith("CHEMBL"))


@dataclass(frozen=True)
class TransferOptions:
    """The options of ``python -m gcl_hard.transfer``."""

    dataset: Annotated[tuple[str, ...], "sets of molecules, or files NAME.csv", COMMON] = ("BACE",)
    targets: Annotated[
        tuple[str, ...] | None,
        "columns of targets of a file; all others that are numbers if not given",
    ] = None
    embeddings: Annotated[
        tuple[str, ...],
        "a file of gcl_hard.pretrain, untrained, untrained:FILE (of a file's shape), ecfp, wl or "
        "counts (of atoms and bonds); a+b joins kernels; {seed} in a file's name is the seed",
        COMMON,
    ] = ("untrained", "ecfp")
    finetune: Annotated[
        tuple[str, ...], "none, a method that reads labels, or supervised, of encoders", COMMON
    ] = (NONE,)
    split: Annotated[
        tuple[str, ...] | None,
        "given, scaffold, random-0 to random-2, random orders of scaffolds; scaffold-chirality "
        "tells mirror images apart, as random-0-chirality does (given where there is one, else "
        "scaffold)",
        COMMON,
    ] = None
    seeds: Annotated[tuple[int, ...], "a count (3 is 0…2) or a list (0,1,2)", COMMON] = (0, 1, 2)
    train_share: Annotated[
        tuple[float, ...], "shares of the training part that are used, a learning curve if several"
    ] = (1.0,)
    beta: Annotated[
        tuple[float, ...], "β of fine-tuning by hscl; of several, validation chooses"
    ] = (1.0,)
    similarity: Annotated[
        tuple[float, ...],
        "κ of fine-tuning: pairs weigh e^(κ·Tanimoto), so that similar molecules are harder; of "
        "several, validation chooses",
    ] = (0.0,)
    neighbours: Annotated[
        tuple[int, ...],
        "of fine-tuning: how many of its most similar molecules follow each drawn one in its "
        "batch; of several, validation chooses",
    ] = (0,)
    probe: Annotated[
        str | None,
        "kernel (SVM, SVR), linear (logistic, ridge) or nystroem, linear on features that stand "
        "for an RBF kernel; for large sets linear, else kernel, if not given",
        COMMON,
    ] = None
    table: Annotated[
        str | None, "transfer: the nine sets of MoleculeNet; cliffs: twenty of MoleculeACE", COMMON
    ] = None
    output: Annotated[Path, "folder of the results, which are saved as runs finish", COMMON] = Path(
        "transfer"
    )
    report: Annotated[Path | None, "page.md to write", COMMON] = None
    against: Annotated[str | None, "label of a row that the page compares all others with, too"] = (
        None
    )
    report_only: Annotated[bool, "run nothing: show what is finished", COMMON] = False
    compact: Annotated[Path | None, "move a folder's result files into one file, and exit"] = None
    data_dir: Annotated[Path | None, "folder with the molecules (or set GCL_HARD_DATA)", COMMON] = (
        None
    )
    jobs: Annotated[int, "processes on this machine", COMMON] = 1
    scheduler: Annotated[str | None, "tcp://HOST:PORT of a Dask scheduler that has workers"] = None
    threads: Annotated[int | None, "CPU threads of all processes together (one each)"] = None
    finetuning: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        for name in ("jobs", "threads"):
            if (value := getattr(self, name)) is not None:
                check_at_least(name, value, 1)

    def runs(self) -> list[TransferRun]:
        """All runs."""
        datasets = self.dataset
        if self.table is not None:
            check_option("table", self.table, ("transfer", "cliffs"))
            datasets = NINE if self.table == "transfer" else CLIFFS
        how = [one for name in self.finetune for one in self._settings_of(name)]
        for share in self.train_share:
            check_number("train-share", share, above=0, most=1)
        runs = runs_of(
            datasets, self.embeddings, how, self.split, self.seeds, train_shares=self.train_share
        )
        if any(how) and all(run.finetuning is None for run in runs):
            raise InputError(
                f"--finetune needs an encoder, and there is none in {', '.join(self.embeddings)}: "
                f"give untrained, or a file of python -m gcl_hard.pretrain"
            )
        check_option("probe", self.probe or PROBES[0], PROBES)
        if self.probe not in (None, "kernel") and any("wl" in run.parts for run in runs):
            raise InputError(
                f"wl is a kernel, which no {self.probe} probe reads: leave wl out of "
                f"embeddings, or give --probe kernel"
            )
        runs = [replace(run, probe=self.probe) for run in runs]
        if self.targets is None:
            return runs
        if named := [one for one in datasets if not is_file(one)]:
            raise InputError(f"targets are columns of files of yours, and {named[0]} has its own")
        return [replace(run, targets=self.targets) for run in runs]

    def _settings_of(self, name: str) -> list[Finetuning | None]:
        """Fine-tuning by a name, once for each combination of what it reads."""
        if name == NONE:
            return [None]
        hardened = name in METHODS and METHODS[name].hardening == "exponential"
        betas = self.beta if hardened else (Finetuning.beta,)
        supervised = name == SUPERVISED
        kappas = (Finetuning.similarity,) if supervised else self.similarity
        counts = (Finetuning.neighbours,) if supervised else self.neighbours
        return [
            Finetuning(
                name, beta=beta, similarity=kappa, neighbours=count, **(self.finetuning or {})
            )
            for beta, kappa, count in product(betas, kappas, counts)
        ]


def transfer(options: TransferOptions, command: str = "") -> list[dict[str, Any]]:
    """Run what is not finished, write the page, and return all results.

    Args:
        options: what to run.
        command: the command line, for the page.

    Raises:
        InputError: for anything that cannot be run.
        GclHardError: if runs failed, after the others have ended and the page is written.
    """
    from gcl_hard.experiments.transfer_execution import (
        check,
        check_encoders,
        execute,
        stored_result,
    )
    from gcl_hard.experiments.transfer_scores import Context
    from gcl_hard.experiments.transfer_store import COMPACT, compact, finished_results

    if options.compact is not None:
        print(f"{compact(options.compact)} results in {options.compact / COMPACT}")
        return []
    runs = options.runs()
    if options.against is not None:
        labels = (
            row.removesuffix(share_label(run.train_share))
            for run in runs for row in (run.row, run.choice) if row
        )  # fmt: skip
        _check_against(options, [*dict.fromkeys(labels)])
    known = finished_results(options.output)
    if options.report is not None and options.report.suffix != ".md":
        raise InputError(f"report is a page of Markdown, NAME.md, got {options.report}")
    if options.report is not None:
        check_writable(options.report.absolute().parent)
    threads = max(1, (options.threads or 1) // (1 if options.scheduler else options.jobs))
    results = {run: one for run in runs if (one := stored_result(options.output, run, known))}
    failed: dict[TransferRun, str] = {}
    too_large: list[TransferRun] = []
    if not options.report_only:
        check_encoders(runs)
    if not options.report_only and len(results) < len(runs):
        context = Context(options.data_dir, threads)
        too_large = check([run for run in runs if run not in results], context)
        check_writable(options.output)
        if todo := [run for run in runs if run not in results and run not in too_large]:
            done, failed = execute(
                todo, options.output, context, options.jobs, options.scheduler
            )  # fmt: skip
            results |= done
    found = [results[run] for run in runs if run in results]
    n_open = len(runs) - len(found) - len(too_large)
    failures = GclHardError(
        "\n".join([f"{len(failed)} of {len(runs)} runs failed:", *dict.fromkeys(failed.values())])
    )
    if failed and not found:
        raise failures
    if not found:
        raise InputError(f"none of {len(runs)} runs is finished in {options.output}")
    from gcl_hard.reports import transfer as page

    found += chosen(found)
    data = page.frame(found)
    for metric in data["metric"].drop_duplicates():
        print(f"\n{page.METRICS[metric]}\n{page.table(data, metric).to_string()}")
    if options.report is not None:
        page.write_page(
            options.report, found, command, n_open,
            too_large=[*map(str, too_large)], against=options.against,
        )  # fmt: skip
    if failed:
        raise failures
    return found


def _check_against(options: TransferOptions, labels: Sequence[str]) -> None:
    if options.report is None:
        raise InputError("against compares rows on a page: give --report page.md, too")
    if options.against not in labels:
        raise InputError(
            f"against is the label of a row, one of {'; '.join(map(repr, labels))}; got "
            f"{options.against!r}"
        )


def chosen(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For every choice, the result that is best on the validation part, by set, split and seed.

    A choice without the validation score of one of its results is not made.
    """
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for one in results:
        if one["choice"]:
            key = one["choice"], one["dataset"], one["split"], one["seed"]
            groups.setdefault(key, []).append(one)
    found = []
    for (row, *_), mine in groups.items():
        if all(one.get("validation") is not None for one in mine):
            best = max if "auc" in mine[0]["score"] else min
            found.append(best(mine, key=lambda one: one["validation"]) | {"row": row})
    return found


SETTINGS = tuple(one.name for one in fields(Finetuning) if one.name not in ("method", *LISTS))
"""Settings of fine-tuning of which a command takes one."""


def transfer_parser() -> ArgumentParser:
    """The parser of ``python -m gcl_hard.transfer``."""
    parser = entry_parser(
        "gcl_hard.transfer",
        "Score encoders of molecules on labelled sets, frozen or fine-tuned inside the training "
        "part, beside fingerprints. Finished runs are not repeated.",
        "--dataset BACE,ESOL --embeddings untrained,encoder.pt,ecfp",
    )
    add_options(parser, "runs", TransferOptions, options_of(TransferOptions))
    add_options(parser, "fine-tuning", Finetuning, SETTINGS)
    return parser


def parse_transfer(arguments: Sequence[str]) -> TransferOptions:
    """Read the command line of ``python -m gcl_hard.transfer``.

    Args:
        arguments: without the program's name.

    Returns:
        The options.

    Raises:
        InputError: for anything that cannot be read; names the flag and the nearest ones.
    """
    stated = read_arguments(transfer_parser(), arguments)
    printing = stated.pop("print_config", False)
    settings = {name: stated.pop(name) for name in SETTINGS if name in stated}
    if printing:
        print_config(option_defaults(TransferOptions) | stated | settings)
    return TransferOptions(**stated, finetuning=settings)


STOPPED = "stopped; what is finished is saved, the same command goes on"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: arguments of the command line; ``sys.argv`` if None.

    Returns:
        Exit status: 0; 2 if something was wrong with the input; 130 after Ctrl-C.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)

    def command() -> int:
        transfer(parse_transfer(given), public_command(given, "gcl_hard.transfer"))
        return 0

    return run_command(command, stopped=lambda: STOPPED)
