"""The command ``transfer``: encoders of molecules scored on labelled sets, and fingerprints."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from jsonargparse import ArgumentParser

from gcl_hard.commands.parser import (
    entry_parser,
    option_defaults,
    print_config,
    public_command,
    read_arguments,
)
from gcl_hard.core.extras import check_extra
from gcl_hard.errors import GclHardError, InputError, check_option, check_processes
from gcl_hard.files.io import check_writable
from gcl_hard.graphs.moleculenet import SOURCES, has_split, name_or_path
from gcl_hard.losses.methods import METHODS
from gcl_hard.runs.logs import opened_log
from gcl_hard.runs.plan import Run
from gcl_hard.settings.base import COMMON, HEAD, LogKinds, known
from gcl_hard.settings.flags import add_flag, add_options, options_of
from gcl_hard.settings.molecules import (
    AWARE,
    FIXED,
    SPLITS,
    SUPERVISED,
    UNTRAINED,
    MoleculeConfig,
)
from gcl_hard.settings.values import check_report

if TYPE_CHECKING:
    from gcl_hard.experiments.custom import UserParts
    from gcl_hard.reports.transfer import Shown
    from gcl_hard.runs.runner import Runner

NINE = ("BACE", "BBBP", "ClinTox", "SIDER", "Tox21", "ToxCast", "ESOL", "FreeSolv", "Lipo")
CLIFFS = tuple(name for name in SOURCES if name.startswith("CHEMBL"))
NONE = "none"
DECLARED = known(MoleculeConfig)
CHOOSES = "; of several, validation chooses"


def _help(name: str) -> str:
    """Help text of a setting."""
    return DECLARED[name].setting.help


class Asked(NamedTuple):
    """A run that a command asks for, and where its result is shown.

    Attributes:
        run: the run.
        row: label of its row in tables.
        choice: label of the row of the best of several settings; empty if there is one.
    """

    run: Run
    row: str
    choice: str = ""


@dataclass(frozen=True)
class TransferOptions:
    """The options of ``python -m gcl_hard.transfer``."""

    dataset: Annotated[tuple[str, ...], "sets of molecules, or files NAME.csv", COMMON] = ("BACE",)
    targets: Annotated[tuple[str, ...] | None, _help("targets")] = None
    smiles: Annotated[str | None, _help("smiles")] = None
    embeddings: Annotated[
        tuple[str, ...],
        "a file of gcl_hard.pretrain, untrained, untrained:FILE (of a file's shape), ecfp, wl or "
        "counts (of atoms and bonds); a+b joins kernels; {seed} in a file's name is the seed",
        COMMON,
    ] = (UNTRAINED, "ecfp")
    finetune: Annotated[
        tuple[str, ...], "none, a method that reads labels, or supervised, of encoders", COMMON
    ] = (NONE,)
    split: Annotated[tuple[str, ...] | None, _help("split"), COMMON] = None
    seeds: Annotated[tuple[int, ...], "a count (3 is 0…2) or a list (0,1,2)", COMMON] = (0, 1, 2)
    train_share: Annotated[
        tuple[float, ...], "shares of the training part that are used, a learning curve if several"
    ] = (1.0,)
    beta: Annotated[tuple[float, ...], _help("beta") + CHOOSES] = (1.0,)
    similarity: Annotated[tuple[float, ...], _help("similarity") + CHOOSES] = (0.0,)
    neighbours: Annotated[tuple[int, ...], _help("neighbours") + CHOOSES] = (0,)
    probe: Annotated[str | None, _help("probe"), COMMON] = None
    table: Annotated[
        str | None, "transfer: the nine sets of MoleculeNet; cliffs: twenty of MoleculeACE", COMMON
    ] = None
    output: Annotated[Path, "folder of the results, which are saved as runs finish", COMMON] = Path(
        "transfer"
    )
    report: Annotated[Path | None, "page.md or page.html to write", COMMON] = None
    against: Annotated[str | None, "label of a row that the page compares all others with, too"] = (
        None
    )
    log: Annotated[LogKinds, COMMON] = None
    report_only: Annotated[bool, "run nothing: show what is finished", COMMON] = False
    compact: Annotated[Path | None, "move a folder's result files into one file, and exit"] = None
    data_dir: Annotated[Path | None, "folder with the molecules (or set GCL_HARD_DATA)", COMMON] = (
        None
    )
    jobs: Annotated[int, "processes on this machine", COMMON] = 1
    scheduler: Annotated[str | None, "tcp://HOST:PORT of a Dask scheduler that has workers"] = None
    threads: Annotated[int | None, "CPU threads of all processes together (one each)"] = None
    settings: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        check_processes(jobs=self.jobs, threads=self.threads)

    def asked(self) -> list[Asked]:
        """All runs, files by their paths.

        What has no encoder has no fine-tuning, and a head is its own probe, joined with nothing.
        What no seed changes has one: fingerprints, and one file of an encoder that is not
        fine-tuned. ``{seed}`` in a file's name stands for the seed. Without splits it is the given
        one where the set has one, and else scaffold.

        Raises:
            InputError: for what is not known, or means nothing together.
        """
        DECLARED["probe"].checked(self.probe)
        for name in self.finetune:
            _check_method(name)
        for share in self.train_share:
            DECLARED["train_share"].checked(share)
        how = [one for name in self.finetune for one in self._settings_of(name)]
        labels = {one: _label(one) for one in self.embeddings}
        if len({*labels.values()}) < len(labels):
            labels = {one: one for one in self.embeddings}
        if any(tuned["method"] != UNTRAINED for tuned in how) and not any(map(_encoders, labels)):
            raise InputError(
                f"--finetune needs an encoder, and there is none in {', '.join(labels)}: give "
                f"untrained, or a file of python -m gcl_hard.pretrain"
            )
        found = []
        for dataset, embedding, tuned, share in product(
            self._datasets(), self.embeddings, how, self.train_share
        ):
            row, choice = _names(labels[embedding], tuned, how)
            if not _encoders(embedding):
                row, choice = labels[embedding], ""
            of = share_label(share) if len({*self.train_share}) > 1 else ""
            for split, seed in product(self._splits(dataset), self.seeds):
                run = self._run(
                    embedding, tuned, seed, dataset=dataset, split=split, train_share=share
                )
                if run is not None:
                    found.append(Asked(run, row + of, choice and choice + of))
        return list(dict.fromkeys(found))

    def _datasets(self) -> list[str]:
        names = self.dataset
        if self.table is not None:
            check_option("table", self.table, ("transfer", "cliffs"))
            names = NINE if self.table == "transfer" else CLIFFS
        return list(dict.fromkeys(name_or_path(one, data_dir=self.data_dir) for one in names))

    def _splits(self, dataset: str) -> Sequence[str]:
        """The splits of a set."""
        given = has_split(dataset)
        for split in self.split or ():
            check_option("split", split, SPLITS)
            if split == "given" and not given:
                raise InputError(f"{dataset} has no given split: {', '.join(SPLITS[1:])}")
        return self.split or (("given",) if given else ("scaffold",))

    def _settings_of(self, name: str) -> list[dict[str, Any]]:
        """Fine-tuning by a name, once for each combination of what it reads."""
        if name == NONE:
            return [{"method": UNTRAINED}]
        reads = MoleculeConfig(method=name, **dict.fromkeys(LISTS, 1))
        lists = [
            getattr(self, one) if getattr(reads, one) else (DECLARED[one].default,) for one in LISTS
        ]
        settings = {"method": name, **(self.settings or {})}
        return [settings | dict(zip(LISTS, one, strict=True)) for one in product(*lists)]

    def _run(self, embedding: str, tuned: Mapping[str, Any], seed: int, **data: Any) -> Run | None:
        """A run of a combination; None for a head with which something is joined."""
        encoders = _encoders(embedding)
        if len(encoders) > 1:
            raise InputError(f"{embedding} joins two encoders: join one with {', '.join(FIXED)}")
        fixed, settings = [one for one in embedding.split("+") if one in FIXED], dict(tuned)
        if encoders:
            settings["encoder"] = encoders[0].replace("{seed}", str(seed))
        else:
            settings = {"method": fixed.pop(0)}
        if settings["method"] == SUPERVISED and fixed:
            return None
        config = MoleculeConfig(
            targets=self.targets,
            smiles=self.smiles,
            joined=tuple(fixed),
            probe=self.probe,
            **data,
            **settings,
        )
        drawn = config.is_new or "{seed}" in embedding or config.encoders > 0
        return Run(config, seed if drawn or config.train_share < 1 else 0)


def _check_method(name: str) -> None:
    """Refuse a name that is not a way of fine-tuning."""
    if name in METHODS:
        MoleculeConfig(method=name)  # one that reads labels
    else:
        check_option("finetune", name, (NONE, *AWARE, SUPERVISED))


def _encoders(embedding: str) -> list[str]:
    """The parts that are encoders."""
    return [part for part in embedding.split("+") if part not in FIXED]


def share_label(share: float) -> str:
    """Ending of a row's label, if a command has several shares."""
    return f", {100 * share:g} % of the training part"


def _names(
    label: str, tuned: Mapping[str, Any], all_of: Sequence[Mapping[str, Any]]
) -> tuple[str, str]:
    """The row of a run and of its choice: what differs among a method's settings is named."""
    if tuned["method"] == UNTRAINED:
        return label, ""
    mine = [one for one in all_of if one["method"] == tuned["method"]]
    said = [f"{name} {tuned[name]:g}" for name in LISTS if len({one[name] for one in mine}) > 1]
    row = f"{label}, {tuned['method']}"
    return ", ".join([row, *said]), f"{row}, chosen" if said else ""


def _label(embedding: str) -> str:
    """Names of the parts: for a file its stem, without the place of the seed."""
    return "+".join(_name(part) for part in embedding.split("+"))


def _name(part: str) -> str:
    if part in (*FIXED, UNTRAINED):
        return part
    of = f"{UNTRAINED}:" if part.startswith(f"{UNTRAINED}:") else ""
    return of + re.sub(r"[-_.]?\{seed\}", "", Path(part.removeprefix(of)).stem)


def transfer(options: TransferOptions, command: str = "") -> list[Shown]:
    """Run what is not finished, write the page, and return all results.

    Args:
        options: what to run.
        command: the command line, for the page.

    Raises:
        InputError: for anything that cannot be run.
        GclHardError: if runs failed, after the others have ended and the page is written.
    """
    from gcl_hard.experiments.custom import UserParts
    from gcl_hard.runs.store import COMPACT, Store

    if not (options.report_only or options.compact):
        check_extra("molecules", "gcl_hard.transfer")
    if options.compact is not None:
        print(f"{Store(options.compact).compact()} results in {options.compact / COMPACT}")
        return []
    given, own = options.asked(), UserParts()
    asked = [one._replace(run=_resolved(one.run, own)) for one in given]
    if options.against is not None:
        labels = (
            row.removesuffix(share_label(one.run.config.train_share))
            for one in asked for row in (one.row, one.choice) if row
        )  # fmt: skip
        _check_against(options, [*dict.fromkeys(labels)])
    check_report(options.report)
    if options.report is not None:
        check_writable(options.report.absolute().parent)
    runs, runner = list(dict.fromkeys(one.run for one in asked)), _runner(options, own)
    too_large: set[Run] = set()
    if not options.report_only:
        _say_other_shape(given)
        too_large = _too_large(runs, runner)
    with opened_log(options.log or (), options.output) as log:
        runner = replace(runner, log=log)
        results, failures = runner.run([run for run in runs if run not in too_large])
    n_open = len(runs) - len(results) - len(too_large)
    failed = GclHardError("\n".join([f"{n_open} of {len(runs)} runs failed:", *failures]))
    if failures and not results:
        raise failed
    if not results:
        raise InputError(f"none of {len(runs)} runs is finished in {options.output}")
    from gcl_hard.reports import transfer as page

    found = [
        page.Shown(one.row, results[one.run], one.choice) for one in asked if one.run in results
    ]
    found += page.chosen(found)
    data = page.frame(found)
    for metric in data["metric"].drop_duplicates():
        print(f"\n{page.title(metric)}\n{page.table(data, metric).to_string()}")
    if options.report is not None:
        page.write_page(
            options.report, found, command, n_open,
            too_large=[f"{one.run.config.set_name} ({one.run.config.split}) {one.row}"
                       for one in asked if one.run in too_large],
            against=options.against,
        )  # fmt: skip
    if failures:
        raise failed
    return found


def _resolved(run: Run, own: UserParts) -> Run:
    """A run whose files are named by their content."""
    return run._replace(config=own.resolved(run.config))


def _runner(options: TransferOptions, own: UserParts) -> Runner:
    from rich.console import Console

    from gcl_hard.experiments.registry import experiment_of
    from gcl_hard.runs import hardware
    from gcl_hard.runs.experiment import RunContext
    from gcl_hard.runs.runner import Runner

    context = RunContext(
        output=options.output, data_dir=options.data_dir, device="cpu",
        threads=options.threads or 1, cores=1 if options.scheduler else options.jobs,
        versions=hardware.versions(), experiment_of=experiment_of, parts=own.parts,
    )  # fmt: skip
    return Runner(
        context, Console(stderr=True), jobs=options.jobs, scheduler=options.scheduler,
        report_only=options.report_only, own_sets=own.graphs,
    )  # fmt: skip


def _too_large(runs: Sequence[Run], runner: Runner) -> set[Run]:
    """Open runs whose sets are too large for the kernel of wl, which are told."""
    found = {
        run for run in runs
        if "wl" in run.config.parts and runner.stored(run) is None
        and runner.data.load(run.config, runner.own(run.config)).is_too_large(run.config)
    }  # fmt: skip
    for name in dict.fromkeys(run.config.set_name for run in runs if run in found):
        print(
            f"{name} is too large for the kernel of wl: left out; --probe kernel computes it "
            f"anyway",
            file=sys.stderr,
        )
    return found


def _say_other_shape(asked: Sequence[Asked]) -> None:
    """Tell if ``untrained`` has another shape than the encoder of a file."""
    from gcl_hard.experiments.custom import shape_of

    names = dict.fromkeys(one.run.config.encoder for one in asked if one.run.config.has_encoder)
    files = [name for name in names if name.removeprefix(f"{UNTRAINED}:") == name != UNTRAINED]
    other = [name for name in files if shape_of(name) != UNTRAINED]
    if other and [name for name in names if name not in files] == [UNTRAINED]:
        print(
            f"{UNTRAINED} has another shape than {other[0]}: {UNTRAINED}:{other[0]} has the same",
            file=sys.stderr,
        )


def _check_against(options: TransferOptions, labels: Sequence[str]) -> None:
    if options.report is None:
        raise InputError("against compares rows on a page: give --report page.md, too")
    if options.against not in labels:
        raise InputError(
            f"against is the label of a row, one of {'; '.join(map(repr, labels))}; got "
            f"{options.against!r}"
        )


LISTS = tuple(
    one.name
    for one in fields(TransferOptions)
    if one.name in DECLARED and DECLARED[one.name].setting.chosen
)
"""Settings of fine-tuning of which a command takes several."""
SETTINGS = tuple(
    name
    for name in DECLARED
    if name not in (*HEAD, "encoder", "joined", *(one.name for one in fields(TransferOptions)))
)
"""Settings of which a command takes one."""


def transfer_parser() -> ArgumentParser:
    """The parser of ``python -m gcl_hard.transfer``."""
    parser = entry_parser(
        "gcl_hard.transfer",
        "Score encoders of molecules on labelled sets, frozen or fine-tuned inside the training "
        "part, beside fingerprints. Finished runs are not repeated.",
        "--dataset BACE,ESOL --embeddings untrained,encoder.pt,ecfp",
    )
    add_options(parser, "runs", TransferOptions, options_of(TransferOptions))
    group = parser.add_argument_group("fine-tuning")
    for name in SETTINGS:
        one = DECLARED[name]
        made = add_flag(group, name, one.kind, one.setting.help, one.default, listed=False)
        made.common = one.setting.common
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
    return TransferOptions(**stated, settings=settings)


STOPPED = "stopped; what is finished is saved, the same command goes on"


def command(arguments: Sequence[str]) -> int:
    """Run the command line, and return its exit status."""
    transfer(parse_transfer(arguments), public_command(arguments, "gcl_hard.transfer"))
    return 0
