"""The command ``pretrain``: an encoder of molecules or images, trained without targets."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from torch import nn

from gcl_hard.commands.encoders import model_of_file
from gcl_hard.commands.parser import METHODS_ALONE, Parser, data_named, defaults_of
from gcl_hard.core.extras import check_extra
from gcl_hard.errors import InputError
from gcl_hard.experiments.custom import EncoderMaker, UserParts
from gcl_hard.experiments.domains import CONFIGS, DOMAINS
from gcl_hard.experiments.logs import Logger
from gcl_hard.experiments.options import as_path
from gcl_hard.experiments.pretraining_settings import PretrainOptions
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.settings import RunConfig, defaults, flag
from gcl_hard.experiments.values import unknown_setting, warn_of_unread

DATA = "molecules: MOSES, a set of MoleculeNet's, or NAME.csv; images: a folder, or a set by name"
NO_FLAGS = ("scheduler",)


def _config_of(source: str | None, data_dir: Path | None) -> type[RunConfig]:
    """The class of configurations for data of a name or path; the first that pre-trains if none."""
    configs = [CONFIGS[name] for name, package in DOMAINS.items() if package.pretrains]
    readers = (c for c in configs if source and experiment_of(c).pretrains_on(source, data_dir))
    return next(readers, configs[0])


def pretrain_parser(config: type[RunConfig] | None = None, full: bool = True) -> Parser:
    """The parser of ``python -m gcl_hard.pretrain``, with the settings of data."""
    config = config or _config_of(None, None)
    pretraining = experiment_of(config).pretraining
    parser = Parser(
        "gcl_hard.pretrain",
        "Train an encoder of molecules, or of images, without targets, and save it. The same "
        "command goes on where it was stopped.",
        "--dataset photos/ --method hucl --output encoder.pt",
        config=config, data=pretraining.data, full=full,
    )  # fmt: skip
    shown, without = pretraining.settings, {*pretraining.unread}
    texts = {"dataset": DATA, "method": METHODS_ALONE}
    parser.add_settings(listed=False, common=True, shown=shown, texts=texts, without=without)
    parser.add_options("pre-training", PretrainOptions, without={"source", *NO_FLAGS})
    parser.add_settings(listed=False, common=False, shown=shown, without=without)
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
    named = data_named(arguments)
    config = _config_of(",".join(named.get("dataset", ())), named.get("data_dir"))
    stated, typed = pretrain_parser(config, "all" in arguments).parse(arguments)
    return _options(stated, typed)


def _options(
    stated: Mapping[str, Any], typed: Container[str] | None = None, **user_objects: Any
) -> PretrainOptions:
    """The options of a command.

    Args:
        stated: settings and options by name.
        typed: those to warn of if they are not read; all if None.
        **user_objects: logger and parts of the user's own.
    """
    config = _config_of(stated.get("dataset"), stated.get("data_dir"))
    pretraining = experiment_of(config).pretraining
    options = {*defaults_of(PretrainOptions)} - {"source", *NO_FLAGS}
    usual = {**defaults(config), **pretraining.settings}
    settings = {name: value for name, value in stated.items() if name not in options}
    for name in settings:
        if name in pretraining.unread:
            raise InputError(f"{flag(name)} is not read by pre-training: leave it out")
        if name not in usual:
            raise unknown_setting(name, config, options)
    source = str(stated.get("dataset", usual["dataset"]))
    read = config(**{**pretraining.settings, **settings, "dataset": PurePath(source).name})
    warn_of_unread([read], {n: v for n, v in settings.items() if typed is None or n in typed})
    rest = {name: value for name, value in stated.items() if name in options}
    return PretrainOptions(config=read, source=source, **rest, **user_objects)


def pretrain_encoder(
    data: str | Path,
    method: str = "hucl",
    *,
    output: str | Path = "encoder.pt",
    encoder: str | EncoderMaker | None = None,
    smiles: str | None = None,
    labels: str | Path | None = None,
    subset: int | None = None,
    seed: int = 0,
    data_dir: str | Path | None = None,
    device: str = "auto",
    jobs: int = 1,
    loader_workers: int = 0,
    threads: int | None = None,
    logger: Logger | None = None,
    checkpoint_minutes: float = 5.0,
    force: bool = False,
    **settings: Any,
) -> nn.Module:
    """Train an encoder of molecules, or of images, without targets, as ``gcl_hard.pretrain`` does.

    The same call goes on where it was stopped, and reads the file that it has finished.

    Args:
        data: images: a folder, all below which are trained on, or a set by its name. Molecules:
            MOSES, a set of MoleculeNet's, or a file NAME.csv.
        method: by which two views of each are contrasted, as ``--method``.
        output: file of the encoder, NAME.pt; its checkpoint is next to it.
        encoder: of images: a name, or a callable without arguments that makes your own.
        smiles: column of SMILES of a CSV; one of the usual names if None.
        labels: CSV with the columns file and label, of some images of a folder.
        subset: number of molecules or images, drawn at random; all if None.
        seed: seed of weights and views.
        data_dir: folder with the data.
        device: auto, cpu, cuda or cuda:N.
        jobs: processes that parse SMILES, the first time.
        loader_workers: processes that make views of images on the CPU; 0: on the device.
        threads: CPU threads.
        logger: takes the losses by ``log_metrics(metrics, step)``, as those of Lightning.
        checkpoint_minutes: minutes between checkpoints.
        force: whether to start over.
        **settings: as the flags of ``python -m gcl_hard.pretrain``: ``epochs``, ``beta``,
            ``batch_size``, ``pseudo_labels``, ….

    Returns:
        The encoder, on the CPU, in evaluation mode; :func:`embed` takes it, or its file.

    Raises:
        InputError: for data that are not available, a setting that is not known or not read, or
            a file of another run.
        DivergenceError: if a loss, or an embedding at the end, is not finite.

    Example:
        >>> pretrain_encoder("photos/", contrast="two-view")
        Traceback (most recent call last):
        ...
        gcl_hard.errors.InputError: contrast is no setting of images, but of graphs
    """
    if isinstance(encoder, nn.Module):
        raise InputError(
            f"encoder makes an encoder: give its class, or a function without arguments, got a "
            f"module of {type(encoder).__name__}"
        )
    if "dataset" in settings:
        raise InputError("dataset is what the first argument names: give one of them")
    parts, maker = UserParts(), encoder if callable(encoder) else None
    stated: dict[str, Any] = {
        "dataset": str(data), "method": method, "output": Path(output), "seed": seed,
        "device": device, "jobs": jobs, "loader_workers": loader_workers, "threads": threads,
        "checkpoint_minutes": checkpoint_minutes, "force": force, "smiles": smiles,
        "labels": as_path(labels), "subset": subset, "data_dir": as_path(data_dir), **settings,
    }  # fmt: skip
    if isinstance(stated.get("log"), str):
        stated["log"] = tuple(kind.strip() for kind in stated["log"].split(","))
    if encoder is not None:
        stated["encoder"] = encoder if maker is None else parts.add(maker)
    options = _options(stated, parts=parts, logger=logger)
    _run(options)
    return model_of_file(options.output, maker, fold=None).encoder


STOPPED = "stopped; the same command goes on from the last checkpoint"


def command(arguments: Sequence[str]) -> int:
    """Run the command line, and return its exit status."""
    _run(parse_pretrain(arguments))
    return 0


def _run(options: PretrainOptions) -> None:
    kind = experiment_of(options.config).pretraining.data
    check_extra(kind, f"pre-training on {kind}")
    from gcl_hard.experiments.pretraining import pretrain

    pretrain(options, DOMAINS[kind].module("pretraining").describe)
