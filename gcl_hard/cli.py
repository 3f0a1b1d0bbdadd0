"""Command lines: flags from dataclasses and a YAML file, and one message per error."""

from __future__ import annotations

import argparse
import difflib
import itertools
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from jsonargparse import ArgumentError, ArgumentParser, DefaultHelpFormatter

from gcl_hard.errors import (
    GclHardError,
    InputError,
    check_at_least,
    unknown,
    without_password,
)
from gcl_hard.experiments.config import (
    CONFIGS,
    Domain,
    GraphConfig,
    RunConfig,
    defaults,
    flag,
)
from gcl_hard.experiments.experiment import RunOptions
from gcl_hard.experiments.presets import PRESETS, QUICK, SMALL, Preset, best_recipe
from gcl_hard.experiments.settings import (
    LISTED,
    add_options,
    add_settings,
    all_settings,
    explain,
    options_of,
)
from gcl_hard.methods import METHODS

if TYPE_CHECKING:
    from gcl_hard.experiments.pretraining import PretrainOptions
    from gcl_hard.experiments.transfer import TransferOptions
    from gcl_hard.tuning.options import TuneOptions

STOPPED = 130
"""Exit status after Ctrl-C, as in shells."""


def run_command(command: Callable[[], int], *, stopped: Callable[[], str]) -> int:
    """Run an entry point and turn an error of this package into one message.

    Args:
        command: returns the exit status.
        stopped: returns the message to print after a Ctrl-C that has none.

    Returns:
        The exit status: 2 for an error of this package, 130 after Ctrl-C.
    """
    # torch-geometric uses torch.jit at import; the user cannot change that.
    warnings.filterwarnings("ignore", message=".*torch.jit.* is deprecated")
    usual = warnings.formatwarning

    def format_warning(message: Any, kind: Any, path: str, *of_line: Any) -> str:
        if Path(path).is_relative_to(Path(__file__).parent):
            return f"warning: {message}\n"
        return usual(message, kind, path, *of_line)

    warnings.formatwarning = format_warning  # type: ignore[assignment]
    try:
        return command()
    except GclHardError as error:
        if os.environ.get("RANK", "0") == "0":  # of torchrun's processes one says it
            print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        print(f"\n{str(stop) or stopped()}", file=sys.stderr)
        return STOPPED
    finally:
        warnings.formatwarning = usual


def public_command(arguments: Sequence[str], entry_point: str = "bench") -> str:
    """The command as pages of results show it, which runs on any machine.

    Args:
        arguments: arguments of the command.
        entry_point: name of the entry point.

    Returns:
        The command without this machine's data folder, passwords and one-off flags.

    Example:
        >>> public_command(["--table", "2", "--data-dir", "a/b", "--json=c.json", "--force"])
        'python -m gcl_hard.bench --table 2 --data-dir DIR'
    """
    words, items = ["python", "-m", f"gcl_hard.{entry_point}"], iter(arguments)
    for item in items:
        name, given, _ = item.partition("=")
        if name in ("--data-dir", "--json", "--scheduler"):
            if not given:
                next(items, None)
            words += ["--data-dir", "DIR"] * (name == "--data-dir")
        elif name not in ("--report-only", "--force", "--compact"):
            words.append(item)
    return shlex.join(map(without_password, words))


@dataclass(frozen=True)
class BenchOptions:
    """The options of ``python -m gcl_hard.bench``.

    Attributes:
        configs: every combination of data set, method, protocol, β, thresholds, lr and epochs.
        run: options of execution.
        datasets: data sets that a search for a recipe is restricted to, or None.
    """

    configs: tuple[RunConfig, ...]
    run: RunOptions
    datasets: tuple[str, ...] | None
    table: Annotated[
        str | None, "predefined table; " + "; ".join(f"{n}: {p.shows}" for n, p in PRESETS.items())
    ] = None
    recipe: Annotated[str, "source of settings that are not given: paper, or best (ours)"] = "paper"
    select: Annotated[
        bool, "choose β, thresholds, lr, epochs inside training data, if several are given"
    ] = False
    select_epochs: Annotated[
        int | None, "choose by one run of so many epochs of each candidate; run what is chosen"
    ] = None
    select_subset: Annotated[int | None, "images: the same, on so many training images"] = None
    seeds: Annotated[tuple[int, ...], "a count (5 is 0…4) or a list (0,1,2)"] = (0, 1, 2, 3, 4)
    quick: Annotated[bool, "smoke run: few seeds and epochs, two β; not reportable"] = False
    small: Annotated[bool, "--table 1 on 20,000 images by a fast net: hours on CPUs"] = False
    search: Annotated[Path | None, "YAML of a search for a recipe: configs/search/recipe.yaml"] = (
        None
    )
    best: Annotated[Path | None, "folder for the configs that a search chooses"] = None
    output: Annotated[Path, "folder of the results, which are saved as runs finish"] = Path(
        "results"
    )
    json: Annotated[Path | None, "result file; one in the output folder if not given"] = None
    report: Annotated[Path | None, "page.md to write; page.csv, .tex and figures go next to it"] = (
        None
    )
    report_only: Annotated[bool, "run nothing: show what is finished"] = False
    force: Annotated[bool, "repeat finished runs"] = False
    compact: Annotated[Path | None, "move a folder's result files into one file, and exit"] = None
    data_dir: Annotated[Path | None, "folder with your data sets (or set GCL_HARD_DATA)"] = None
    device: Annotated[str, "auto, cpu, cuda or cuda:N"] = "auto"
    jobs: Annotated[int | None, "processes on this machine; --table 2: one per core"] = 1
    threads: Annotated[
        int | None, "CPU threads of all processes together; at least one per process"
    ] = None
    scheduler: Annotated[str | None, "tcp://HOST:PORT of a Dask scheduler that has workers"] = None


OF_DOMAIN: dict[str, Domain] = {
    name: "graphs" if text.startswith("graphs:") else "images"
    for name, (_, text, _) in options_of(RunOptions).items()
    if text.startswith(("graphs:", "images:"))
}
"""Flags of :class:`RunOptions` that only one domain has."""


class _Help(DefaultHelpFormatter):
    """Help without the parser's defaults: the help texts state them."""

    def _get_help_string(self, action: Any) -> str:
        return str(action.help or "")


def add_version(parser: argparse.ArgumentParser) -> None:
    """Add ``--version``, which prints the version of the installed package."""
    version = f"gcl-hard {metadata.version('gcl-hard')}"
    parser.add_argument(
        "--version", action="version", version=version, help="print the version, and exit"
    )


def _parser(entry_point: str, description: str, example: str) -> ArgumentParser:
    parser = ArgumentParser(
        prog=f"python -m gcl_hard.{entry_point}",
        description=description,
        epilog=f"Example: {example}",
        usage=f"python -m gcl_hard.{entry_point} [--dataset NAME] [--method NAME] [...]",
        formatter_class=_Help,
        allow_abbrev=False,
        exit_on_error=False,
        print_config=None,  # ours prints what the command makes of the flags
    )
    add_version(parser)
    parser.add_argument(
        "--config", action="config", metavar="FILE", help="YAML file with any of these; flags win"
    )
    parser.add_argument(
        "--print-config", action="store_true", help="print the settings as YAML, and exit"
    )
    return parser


def bench_parser() -> ArgumentParser:
    """The parser of ``python -m gcl_hard.bench``."""
    parser = _parser(
        "bench",
        "Train encoders with hard negatives and score them: graphs by a nested 10-fold SVM, images "
        "by a linear probe. Several data sets, methods, β or protocols (a,b,c) run in all "
        "combinations; finished runs are not repeated.",
        "python -m gcl_hard.bench --dataset PTC --method ucl,hscl --seeds 3",
    )
    add_settings(parser, listed=True, own={}, texts={}, common=True)
    names = [*options_of(BenchOptions)]
    first = names.index("output")
    add_options(parser, "runs", BenchOptions, names[:first])
    add_options(parser, "execution", BenchOptions, names[first:])
    add_options(parser, "training runs", RunOptions, options_of(RunOptions))
    add_settings(parser, listed=True, own={}, texts={}, common=False)
    return parser


def _stated(parser: ArgumentParser, arguments: Sequence[str]) -> dict[str, Any]:
    """Values given by a command line and its YAML file; flags override a ``--config``."""
    first, rest, items = [], [], iter(arguments)
    for item in items:
        if item == "--config":
            first += [item, *itertools.islice(items, 1)]
        elif item.startswith("--config="):
            first.append(item)
        else:
            rest.append(item)
    try:
        found = dict(vars(parser.parse_args(first + rest, defaults=False)))
    except ArgumentError as error:
        raise InputError(explain(str(error), parser)) from error
    except UnicodeDecodeError as error:
        raise InputError(f"the file of {' '.join(first)} is not UTF-8: {error}") from error
    found.pop("config", None)
    return found


def _of_path(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Data sets given as paths, ``--dataset some/folder/NAME``: their names and their folder.

    A name alone is the path of a NAME.npz or folder in the working directory, unless a set has it.
    """
    given = stated.get("dataset", ())
    names = [given] if isinstance(given, str) else list(given)
    here = stated.get("data_dir") is None
    for name in names:
        if name and "/" not in name and not (here and _is_here(name)):
            _check_namesakes(name, stated.get("data_dir"))
    paths = [Path(name).expanduser() for name in names if "/" in name or (here and _is_here(name))]
    if not paths:
        return {}
    folders = {path.parent for path in paths}
    if len(paths) < len(names) or len(folders) > 1 or stated.get("data_dir") is not None:
        raise InputError(
            f"{paths[0]} is a path: other data sets of the command must be in the same folder, and "
            f"--data-dir left out"
        )
    for name, path in zip(names, paths, strict=True):
        if not path.exists():
            raise InputError(f"dataset '{name}': there is no such file or folder")
        _check_folder(path)
    stems = tuple(path.stem if path.suffix.casefold() == ".npz" else path.name for path in paths)
    return {"dataset": stems[0] if isinstance(given, str) else stems, "data_dir": folders.pop()}


def _is_here(name: str) -> bool:
    """Whether a name is that of a file or folder of the working directory, and of no other set."""
    path = Path(name)
    if path.suffix.casefold() == ".npz":
        return path.is_file()
    return path.is_dir() and not _is_available(name)


def _check_namesakes(name: str, data_dir: Path | None) -> None:
    """Warn of images in the working directory that a set of the same name hides.

    Raises:
        InputError: if there is no set of the name, but one with other capitals or as a NAME.npz.
    """
    from gcl_hard.images.files import canonical_name, namesakes, nearly_named, own_files

    here = Path()
    if _is_available(name, data_dir):
        read = own_files(name, data_dir)
        images, arrays = namesakes(here, canonical_name(name)) if data_dir is None else ([], [])
        for path in (*images, *arrays):
            if read is None or not path.samefile(read):
                warnings.warn(
                    f"dataset {name!r} is not {path.absolute()}, which is not read: give that "
                    f"another name, and --dataset this name, to have it read",
                    stacklevel=2,
                )
        return
    folders = [data_dir] if data_dir else [os.environ.get("GCL_HARD_DATA"), here]
    near = [one for folder in folders if folder for one in nearly_named(Path(folder), name)]
    if near:
        raise InputError(
            f"dataset {name!r}: there is {near[0].absolute()}, which is spelt otherwise: give "
            f"--dataset {near[0].name}"
        )


def _is_available(name: str, data_dir: Path | None = None) -> bool:
    """Whether a name is that of a known set, or of one in the data folder or the cache."""
    from gcl_hard.graphs import tudataset
    from gcl_hard.images.datasets import is_image_set

    if not name or is_image_set(name, data_dir):
        return True
    try:
        return tudataset.canonical_name(name) in tudataset.MANIFEST or bool(
            tudataset.locate(name, data_dir=data_dir, download=False)
        )
    except InputError:
        return False


def _check_folder(path: Path) -> None:
    """Refuse a folder that holds neither images nor graphs, or images under a known set's name."""
    from gcl_hard.images.files import KNOWN, canonical_name
    from gcl_hard.images.folders import SUFFIXES, has_classes

    if not path.is_dir():
        return
    holds = has_classes(path)
    if holds and canonical_name(path.name) in KNOWN:
        raise InputError(f"{path} has the name of a known set: give your images another one")
    if not holds and not any(path.rglob(f"{path.name}_A.txt")):
        raise InputError(
            f"{path} holds no images in CLASS/ or train/CLASS/ ({', '.join(SUFFIXES)}), and no "
            f"{path.name}_A.txt of graphs"
        )


def domain_of(stated: Mapping[str, Any]) -> Domain:
    """The domain of a command, graphs or images, by its data sets, else by its table.

    Args:
        stated: values by name: ``dataset``, ``table``, ``data_dir``.

    Returns:
        The domain; graphs by default.

    Raises:
        InputError: for data sets of both kinds, a table and data sets of different kinds, or an
            unknown table.

    Example:
        >>> domain_of({"dataset": ("CIFAR10",)}), domain_of({"table": "1"}), domain_of({})
        ('images', 'images', 'graphs')
    """
    from gcl_hard.images.datasets import is_image_set
    from gcl_hard.images.files import KNOWN

    given = stated.get("dataset", ())
    names = [given] if isinstance(given, str) else list(given)
    folder, table = stated.get("data_dir"), stated.get("table")
    known = [one.casefold() for one in KNOWN]
    images = [
        name
        for name in names
        if is_image_set(name, folder)
        or difflib.get_close_matches(name.casefold(), known, cutoff=0.75)  # misspelt
    ]
    if images and len(images) < len(names):
        graphs = [name for name in names if name not in images]
        raise InputError(
            f"images ({', '.join(images)}) and graphs ({', '.join(graphs)}) have different "
            f"settings: give each kind a command of its own"
        )
    found: Domain = "images" if images else "graphs"
    if not table:
        return found
    if table not in PRESETS:
        *some, last = PRESETS
        raise InputError(f"--table: expected {', '.join(some)} or {last}, got {table}")
    of_table = PRESETS[table].domain
    if names and found != of_table:
        raise InputError(f"--table {table} is of {of_table}, and {', '.join(names)} of {found}")
    return of_table


def _check_domain(stated: Mapping[str, Any], domain: Domain) -> None:
    """Refuse flags of the other domain."""
    for name in stated:
        domains = (
            all_settings()[name][0] if name in all_settings() else (OF_DOMAIN.get(name, domain),)
        )
        if domain not in domains:
            raise InputError(f"unknown flag --{flag(name)}; {WHERE[domains[0]]}")


WHERE = {
    "graphs": "it is of graphs, and the data sets given are images",
    "images": "it is of images: give their --dataset too (digits, CIFAR10, …, or NAME, with "
    "NAME.npz in --data-dir)",
}


def parse_bench(arguments: Sequence[str]) -> BenchOptions:
    """Read the command line of ``python -m gcl_hard.bench``.

    Args:
        arguments: without the program's name.

    Returns:
        The options; every configuration is checked.

    Raises:
        InputError: for anything that cannot be run; names the flag and the nearest ones.
    """
    stated = _stated(bench_parser(), arguments)
    stated |= _of_path(stated)
    printing = stated.pop("print_config", False)
    domain = domain_of(stated)
    config = CONFIGS[domain]
    _check_domain(stated, domain)
    usual = _defaults(BenchOptions)
    values: dict[str, Any] = dict(usual)
    for name, default in defaults(config).items():
        values[name] = (default,) if name in LISTED else default
    preset = PRESETS.get(stated.get("table", ""))
    if preset is not None:
        values |= preset.values
    quick = dict(SMALL) if stated.get("small") else {}
    quick |= QUICK[domain] if stated.get("quick") else {}
    values |= quick | stated
    values |= {name: (None,) for name in LISTED if name in values and values[name] is None}
    _check_bench(values, stated, config)
    stated_or_small = quick | stated
    given = {
        name: stated_or_small[name] for name in options_of(RunOptions) if name in stated_or_small
    }
    configs: list[RunConfig] = []
    if values["search"] is None and values["compact"] is None:
        configs = bench_configs(config, values, preset, {*stated, *quick}, stated)
    run = _run_options(given)
    if printing:
        refused = _refused(values) | ({"dataset"} - {*stated} if values["search"] else set())
        _print_config({name: one for name, one in values.items() if name not in refused})
    return BenchOptions(
        tuple(dict.fromkeys(configs)), run=run, datasets=stated.get("dataset"),
        **{name: values[name] for name in usual},
    )  # fmt: skip


def _defaults(options: type) -> dict[str, Any]:
    """Flags of a dataclass with their defaults."""
    return {name: default for name, (*_, default) in options_of(options).items()}


def _refused(values: Mapping[str, Any]) -> set[str]:
    """Flags that a search for a recipe, or the table of recipes, sets itself."""
    settings = {*defaults(GraphConfig), "recipe", "select"}
    if values["search"] is not None:
        return settings - {"dataset"} | {"table", "seeds", "quick", "json"}
    return settings - {*OF_TABLE} if values["table"] == "recipe" else set()


OF_TABLE = ("dataset", "method", "protocol")
"""Settings that the table of recipes accepts."""


def _print_config(values: Mapping[str, Any]) -> None:
    """Print values as YAML that ``--config`` reads, and exit."""
    import yaml

    shown = {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
    shown = {k: str(v) if isinstance(v, Path) else v for k, v in shown.items()}
    print(yaml.safe_dump(shown, sort_keys=False), end="")
    raise SystemExit(0)


def _check_bench(
    values: Mapping[str, Any], stated: Mapping[str, Any], config: type[RunConfig]
) -> None:
    if values["best"] is not None and values["search"] is None:
        raise InputError("best is the folder for what a search chooses: give --search too")
    for name in ("threads", "jobs"):
        if values[name] is not None:
            check_at_least(name, values[name], 1)
    if values["report"] is not None and values["report"].suffix != ".md":
        raise InputError(f"report is a page of Markdown, NAME.md, got {values['report']}")
    _check_selection(values, config)
    if stated.get("resume") and values["force"]:
        raise InputError("resume continues from checkpoints, force starts over: give one of them")
    if values["search"] is None:
        return
    path = values["search"]
    if config is not GraphConfig:
        raise InputError(
            f"{path} searches on graphs, and {', '.join(stated['dataset'])} are images"
        )
    if own := sorted(_refused(values) & {*stated}):
        raise InputError(f"{path} states what is searched: leave out {', '.join(map(flag, own))}")


def _check_selection(values: Mapping[str, Any], config: type[RunConfig]) -> None:
    if values["small"] and values["table"] != "1":
        raise InputError("small is of table 1: give --table 1 too")
    for name in ("select_epochs", "select_subset"):
        if values[name] is None:
            continue
        check_at_least(flag(name), values[name], 1)
        if not values["select"]:
            raise InputError(f"{flag(name)} is how settings are chosen: give --select true too")
    if values["select_subset"] is not None and config is GraphConfig:
        raise InputError("select-subset is of images; graphs are few: leave it out")
    if values["select_epochs"] is not None and len(values["epochs"]) > 1:
        raise InputError(
            "select-epochs compares settings after equally many epochs: give one epochs"
        )


def _run_options(given: Mapping[str, Any]) -> RunOptions:
    for name in ("loader_workers", "monitor_every", "checkpoint_minutes", "diagnostics"):
        if name in given and not 0 <= given[name] < float("inf"):
            raise InputError(f"{flag(name)} must be at least 0, got {given[name]}")
    return RunOptions(**given)


def bench_configs(
    config: type[RunConfig],
    values: Mapping[str, Any],
    preset: Preset | None,
    given: set[str],
    stated: Mapping[str, Any],
) -> list[RunConfig]:
    """All combinations of the listed settings.

    Args:
        config: class of the configurations.
        values: values of all flags.
        preset: the table that was asked for, or None.
        given: names of settings that win over those of the preset or the recipe.
        stated: values that were stated.
    """
    if values["table"] == "recipe":
        return _recipe_table(values, stated)
    if values["recipe"] not in ("paper", "best"):
        raise unknown("recipe", values["recipe"], ("paper", "best"))
    if preset and values["recipe"] != "paper":
        raise InputError(
            f"--table {values['table']} is of the paper's recipe: leave out recipe; for graphs, "
            f"--table recipe compares ours with it"
        )
    listed = [name for name in LISTED if name in defaults(config)]
    shared = {name: values[name] for name in defaults(config) if name not in listed}
    rows = [METHODS[name] for name in map(str.casefold, values["method"]) if name in METHODS]
    if "contrast" in shared and any(row.infonce_only for row in rows):
        shared["contrast"] = shared["contrast"] or "two-view"  # of all, so that they compare
    with_prior = [row.name for row in rows if row.takes_prior]
    found = []
    for combination in itertools.product(*(values[name] for name in listed)):
        one = dict(zip(listed, combination, strict=True))
        usual = dict(preset.by_dataset.get(one["dataset"], {})) if preset else {}
        if values["recipe"] == "best":
            usual |= {"protocol": "inductive"} | best_recipe(config, one["dataset"])
        if given & {"contrast", "objective"}:  # settings of another contrast or objective
            views = ("objective", "temperature", "augmentations", "strength")
            usual = {name: value for name, value in usual.items() if name not in views}
        usual = {name: value for name, value in usual.items() if name not in given}
        settings = one | shared | usual
        if one["method"].casefold() not in with_prior and (with_prior or "class_prior" in usual):
            settings["class_prior"] = None  # only for methods that have one
        found.append(config(**settings))
    return found


def _recipe_table(values: Mapping[str, Any], stated: Mapping[str, Any]) -> list[RunConfig]:
    """The configurations of ``--table recipe``."""
    from gcl_hard.experiments.recipe_table import entries
    from gcl_hard.graphs.tudataset import canonical_name

    if own := sorted(_refused(values) & {*stated}):
        raise InputError(
            f"--table recipe has settings of its own: leave out {', '.join(map(flag, own))}; it "
            f"takes {', '.join(OF_TABLE)} and seeds"
        )
    datasets = dict.fromkeys(map(canonical_name, values["dataset"]))
    methods = dict.fromkeys(GraphConfig(method=name).method for name in values["method"])
    protocols = dict.fromkeys(GraphConfig(protocol=name).protocol for name in values["protocol"])
    rows = entries([*datasets], [*methods], [*protocols], quick=values["quick"])
    return [config for row in rows for config in row.configs.values()]


def tune_parser() -> ArgumentParser:
    """The parser of ``python -m gcl_hard.tune``."""
    from gcl_hard.tuning.options import TuneOptions

    parser = _parser(
        "tune",
        "Search settings of a method with Optuna, scored inside training data alone; then score "
        "the best ones once on data that the search never saw. The same command continues a "
        "search that was stopped.",
        "python -m gcl_hard.tune --dataset PTC --method hscl --trials 64",
    )
    own = {"protocol": "inductive, images split"}
    texts = {"method": all_settings()["method"][2].partition(";")[0]}  # without baselines
    add_settings(parser, listed=False, own=own, texts=texts, common=True)
    add_options(parser, "the search", TuneOptions, options_of(TuneOptions))
    add_settings(parser, listed=False, own=own, texts=texts, common=False)
    return parser


def parse_tune(arguments: Sequence[str]) -> TuneOptions:
    """Read the command line of ``python -m gcl_hard.tune``.

    Args:
        arguments: without the program's name.

    Returns:
        The options; space and settings are checked.

    Raises:
        InputError: for anything that cannot be run; names the flag and the nearest ones.
    """
    from gcl_hard.tuning.options import DEFAULTS, TuneOptions, tune_options

    parser = tune_parser()
    try:
        stated = _stated(parser, arguments)
    except InputError as error:
        raise _explained_tune(error) from error
    stated |= _of_path(stated)
    printing = stated.pop("print_config", False)
    domain = domain_of(stated)
    _check_domain(stated, domain)
    settings = {name: stated.pop(name) for name in defaults(CONFIGS[domain]) if name in stated}
    options = tune_options(domain, settings, **stated)
    if printing:
        usual = defaults(CONFIGS[domain]) | DEFAULTS[domain] | _defaults(TuneOptions)
        for dimension in options.search_space.dimensions:
            usual.pop(dimension.name, None)
        _print_config(usual | settings | stated)
    return options


def pretrain_parser() -> ArgumentParser:
    """The parser of ``python -m gcl_hard.pretrain``."""
    from gcl_hard.experiments.pretraining import OTHERS, USUAL, PretrainOptions

    parser = _parser(
        "pretrain",
        "Train an encoder of molecules on a large set without targets, and save it. The same "
        "command goes on where it was stopped.",
        "python -m gcl_hard.pretrain --dataset MOSES --n 100000 --output encoder.pt",
    )
    texts = {
        "dataset": "a set of molecules: MOSES, one of MoleculeNet's, or a file NAME.csv",
        "method": all_settings()["method"][2].partition(";")[0],
        "epochs": "passes over the molecules", "batch_size": "molecules in a batch",
    }  # fmt: skip
    names = {*defaults(GraphConfig)} - {*OTHERS}
    of: dict[str, Any] = {"listed": False, "own": USUAL, "texts": texts, "names": names}
    add_settings(parser, common=True, **of)
    add_options(parser, "pre-training", PretrainOptions, options_of(PretrainOptions))
    add_settings(parser, common=False, **of)
    return parser


def parse_pretrain(arguments: Sequence[str]) -> PretrainOptions:
    """Read the command line of ``python -m gcl_hard.pretrain``.

    Args:
        arguments: without the program's name.

    Returns:
        The options, checked.

    Raises:
        InputError: for anything that cannot be run; names the flag and the nearest ones.
    """
    from gcl_hard.experiments.pretraining import OTHERS, USUAL, PretrainOptions

    stated = _stated(pretrain_parser(), arguments)
    printing = stated.pop("print_config", False)
    settings = {name: stated.pop(name) for name in defaults(GraphConfig) if name in stated}
    if printing:
        values = USUAL | _defaults(PretrainOptions) | settings | stated
        _print_config({name: value for name, value in values.items() if name not in OTHERS})
    return PretrainOptions(GraphConfig(**USUAL | settings), **stated)


def transfer_parser() -> ArgumentParser:
    """The parser of ``python -m gcl_hard.transfer``."""
    from gcl_hard.experiments.transfer import SETTINGS, TransferOptions
    from gcl_hard.experiments.transfer_runs import Finetuning

    parser = _parser(
        "transfer",
        "Score encoders of molecules on labelled sets, frozen or fine-tuned inside the training "
        "part, beside fingerprints. Finished runs are not repeated.",
        "python -m gcl_hard.transfer --dataset BACE,ESOL --embeddings untrained,encoder.pt,ecfp",
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
    from gcl_hard.experiments.transfer import SETTINGS, TransferOptions

    stated = _stated(transfer_parser(), arguments)
    printing = stated.pop("print_config", False)
    settings = {name: stated.pop(name) for name in SETTINGS if name in stated}
    if printing:
        _print_config(_defaults(TransferOptions) | stated | settings)
    return TransferOptions(**stated, finetuning=settings)


def _explained_tune(error: InputError) -> InputError:
    """The error, with the flag or entry point that a file belongs to."""
    message = str(error)
    if message.startswith("--space"):
        return InputError("give a file with a search space to --space FILE, not to --config")
    if "got [" in message:
        return InputError(
            f"{message}; a search takes one value of each setting (a file of lists is for "
            f"python -m gcl_hard.bench)"
        )
    return error
