"""Embeddings of new data by a saved encoder: the command ``embed``, and :func:`gcl_hard.embed`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, overload

import torch
from jsonargparse import ArgumentParser
from torch import nn

from gcl_hard.commands.encoders import Model, model_of_file, model_without_file
from gcl_hard.commands.parser import (
    entry_parser,
    option_defaults,
    print_config,
    read_arguments,
    words_as_flags,
)
from gcl_hard.core.ids import repeated
from gcl_hard.errors import InputError, check_processes
from gcl_hard.experiments import hardware
from gcl_hard.experiments.custom import EncoderMaker, named_object
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.embedding import (
    Embeddings,
    Items,
    Level,
    Reading,
    check_target,
    embed_items,
    embed_to_file,
)
from gcl_hard.experiments.experiment import RunContext
from gcl_hard.experiments.flags import add_options, options_of
from gcl_hard.experiments.progress import bar_of
from gcl_hard.experiments.registry import runnable
from gcl_hard.experiments.settings import COMMON
from gcl_hard.files.io import check_writable, digest_of_arrays, joined_digest


@dataclass(frozen=True)
class EmbedOptions:
    """The options of ``gcl-hard embed``."""

    model: Annotated[
        Path | None,
        "NAME.pt of pretrain, or of bench --save-encoder; also the first word of the command",
        COMMON,
    ] = None
    data: Annotated[
        str | None,
        "a folder of images, a CSV of SMILES, a set by its name or path, or module:name of your "
        "graphs; also the second word",
        COMMON,
    ] = None
    output: Annotated[Path, "NAME.npz, NAME.parquet or NAME.csv", COMMON] = Path("embeddings.npz")
    level: Annotated[Level, "graphs and molecules: graphs, or all of their nodes", COMMON] = (
        "graphs"
    )
    smiles: Annotated[
        str | None, "column of SMILES of a CSV; smiles or the like if not given", COMMON
    ] = None
    ids: Annotated[
        str | None,
        "column of a CSV with what rows are called; the only one of words if not given",
        COMMON,
    ] = None
    encoder: Annotated[str | None, "your own encoder, module:Name, of a file that names one"] = None
    fold: Annotated[int | None, "which encoder, of a file with one for each fold"] = None
    batch_size: Annotated[int | None, "items embedded at a time; as in training if not given"] = (
        None
    )
    data_dir: Annotated[Path | None, "folder with your data sets (or set GCL_HARD_DATA)"] = None
    device: Annotated[str, "auto, cpu, cuda or cuda:N", COMMON] = "auto"
    jobs: Annotated[int, "processes that parse SMILES, the first time"] = 1
    threads: Annotated[int | None, "CPU threads"] = None
    force: Annotated[bool, "replace a file of another model or of other data", COMMON] = False

    def __post_init__(self) -> None:
        check_processes(threads=self.threads, jobs=self.jobs)
        check_target(self.output)

    @property
    def reading(self) -> Reading:
        """How the data are read."""
        return Reading(self.level, self.smiles, self.ids, self.batch_size)


@overload
def embed(
    model: str | Path | nn.Module,
    data: Any,
    *,
    output: None = None,
    level: Level = ...,
    smiles: str | None = ...,
    ids: str | None = ...,
    encoder: EncoderMaker | None = ...,
    fold: int | None = ...,
    trust: bool = ...,
    batch_size: int | None = ...,
    data_dir: str | Path | None = ...,
    device: str = ...,
    jobs: int = ...,
    force: bool = ...,
) -> Embeddings: ...


@overload
def embed(
    model: str | Path | nn.Module,
    data: Any,
    *,
    output: str | Path,
    level: Level = ...,
    smiles: str | None = ...,
    ids: str | None = ...,
    encoder: EncoderMaker | None = ...,
    fold: int | None = ...,
    trust: bool = ...,
    batch_size: int | None = ...,
    data_dir: str | Path | None = ...,
    device: str = ...,
    jobs: int = ...,
    force: bool = ...,
) -> Path: ...


def embed(
    model: str | Path | nn.Module,
    data: Any,
    *,
    output: str | Path | None = None,
    level: Level = "graphs",
    smiles: str | None = None,
    ids: str | None = None,
    encoder: EncoderMaker | None = None,
    fold: int | None = None,
    trust: bool = False,
    batch_size: int | None = None,
    data_dir: str | Path | None = None,
    device: str = "auto",
    jobs: int = 1,
    force: bool = False,
) -> Embeddings | Path:
    """Embeddings of graphs, their nodes, nodes of one graph, molecules or images, with their names.

    Rows come in the order of the data. With ``output`` they are written to a file batch by batch,
    so that memory holds a batch, and a call that was stopped goes on where it was.

    Args:
        model: NAME.pt, as :func:`gcl_hard.evaluate`, ``bench --save-encoder`` and ``pretrain``
            save it; or an encoder of graphs, molecules or nodes itself.
        data: graphs: a set by its name or path, a :class:`gcl_hard.graphs.GraphSet`, or a list of
            graphs; nodes: a set by its name or path, a :class:`gcl_hard.nodes.NodeSet`, or one
            graph; molecules: a CSV file, a known set, or :class:`gcl_hard.molecules.Molecules`;
            images: a folder, all of which is read, a set, a :class:`gcl_hard.images.Split`, or
            uint8 [n, 3, S, S].
        output: NAME.npz, NAME.parquet (extra ``parquet``) or NAME.csv; None to keep them in memory.
        level: ``"nodes"`` for all nodes of graphs, which get a second column ``node``, or all atoms
            of molecules.
        smiles: column of SMILES of a CSV; found by its name if None.
        ids: column of a CSV with what rows are called; the only one of words if None, and the rows'
            numbers if there are several or none.
        encoder: your own, as it was given when it was trained; not needed for ours.
        fold: which encoder, of a file with one for each fold.
        trust: as of :func:`gcl_hard.load_encoder`.
        batch_size: items embedded at a time.
        data_dir: an offline mirror of data sets; by default the folder in ``GCL_HARD_DATA``.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        jobs: processes that parse SMILES.
        force: whether a file of another model, or of other data, is replaced.

    Returns:
        The embeddings, with ``ids``; ``columns`` has what else rows are called, such as ``node`` of
        a graph, or ``part`` of a set of images. With ``output`` its path.

    Raises:
        InputError: for a file that holds no encoder, data that are not available or have other
            features than the encoder reads, or an ``output`` that belongs to others.
        DivergenceError: for an embedding that is not finite; names the item.

    Example:
        >>> from gcl_hard.graphs import GIN, load
        >>> nodes = embed(GIN(7), load("MUTAG", download=False), level="nodes")
        >>> nodes.values.shape, nodes.ids[-1], nodes.columns["node"][:3]
        ((3371, 96), np.int64(187), array([0, 1, 2]))
    """
    path = None if output is None else Path(output)
    if path is not None:
        check_target(path)
    trained = (
        model_without_file(model, data) if isinstance(model, nn.Module)
        else model_of_file(Path(model), encoder, fold=fold, trust=trust)
    )  # fmt: skip
    reading = Reading(level, smiles, ids, batch_size)
    items = items_of(trained, data, reading, device=device, data_dir=data_dir, jobs=jobs)
    if path is None:
        return embed_items(items, trained.digest)
    embed_to_file(items, trained.digest, path, force=force)
    return path


def items_of(
    model: Model,
    data: Any,
    reading: Reading,
    *,
    device: str,
    data_dir: str | Path | None,
    jobs: int,
) -> Items:
    """The items of data that a model embeds; arguments as of :func:`embed`."""
    context = RunContext(
        output=Path(), data_dir=None if data_dir is None else Path(data_dir),
        device=str(hardware.choose_device(device)), threads=None, cores=jobs, versions={},
        experiment_of=runnable,
    )  # fmt: skip
    experiment = runnable(CONFIGS[model.domain])
    for name in ("smiles", "ids"):
        if getattr(reading, name) is not None and name not in experiment.reading:
            raise InputError(f"{name} names a column of molecules, and this encodes {model.domain}")
    if reading.level == "nodes" and "level" not in experiment.reading:
        raise InputError(f"level nodes applies to graphs and molecules, not to {model.domain}")
    encoder = model.encoder.to(context.device)
    try:
        items = experiment.items(encoder, model.saved, data, context, reading)
    except InputError:
        if isinstance(data, str | Path):
            _check_kind(model.domain, Path(data), table="smiles" in experiment.reading)
        raise
    if not items.bounds[-1]:
        raise InputError(
            f"there is nothing to embed in {data if isinstance(data, str) else 'these data'}"
        )
    ids = digest_of_arrays(*items.columns.values())
    return replace(items, digest=joined_digest(items.digest, ids, reading.level))


def _check_kind(domain: str, path: Path, *, table: bool) -> None:
    """Refuse a folder for a domain that reads tables, and a table for one that does not."""
    if path.suffix.lower() == ".csv" and path.is_file() and not table:
        raise InputError(
            f"{path} is a CSV, which molecules are read from, and this encodes {domain}"
        )
    if path.is_dir() and table:
        raise InputError(f"{path} is a folder, and this encodes {domain}: give a CSV of SMILES")


def embed_parser() -> ArgumentParser:
    """The parser of ``gcl-hard embed``."""
    parser = entry_parser(
        "gcl_hard embed",
        "Embed new data by a saved encoder, each row with its name: MODEL DATA -o FILE. The same "
        "command goes on where it was stopped.",
        "encoder.pt photos/ -o z.parquet",
        usage="python -m gcl_hard embed MODEL DATA [-o FILE] [...]",
    )
    add_options(parser, "embedding", EmbedOptions, options_of(EmbedOptions))
    return parser


def parse_embed(arguments: Sequence[str]) -> EmbedOptions:
    """Read the command line of ``gcl-hard embed``.

    Args:
        arguments: without the program's name; MODEL and DATA first, or as flags.

    Returns:
        The options, checked.

    Raises:
        InputError: for anything that cannot be run; names the flag and the nearest ones.
    """
    parser = embed_parser()
    stated = read_arguments(parser, words_as_flags(parser, arguments, "model", "data"))
    if stated.pop("print_config", False):
        print_config(option_defaults(EmbedOptions) | stated)
    return EmbedOptions(**stated)


def run(options: EmbedOptions) -> None:
    """Embed, and write the file.

    Args:
        options: as parsed.

    Raises:
        InputError: for a model or data that are missing or do not fit.
        KeyboardInterrupt: after Ctrl-C.
    """
    if options.model is None or options.data is None:
        raise InputError("give a model and data: gcl-hard embed MODEL DATA -o FILE")
    check_writable(options.output.absolute().parent)
    torch.set_num_threads(options.threads or hardware.available_cores())
    maker = None if options.encoder is None else named_object(options.encoder, "encoder")
    model = model_of_file(options.model, maker, fold=options.fold)
    items = items_of(
        model, options.data, options.reading,
        device=options.device, data_dir=options.data_dir, jobs=options.jobs,
    )  # fmt: skip
    for note in items.notes:
        print(note, file=sys.stderr)
    if duplicates := repeated(items.columns["id"]) if len(items.columns) == 1 else 0:
        print(f"{duplicates} ids stand for several rows", file=sys.stderr)
    if empty := int((items.columns["id"].astype(str) == "").sum()):
        print(f"{empty} rows have an empty id", file=sys.stderr)
    rows = int(items.bounds[-1])
    with bar_of("embedding", " rows", rows) as bar:
        new = embed_to_file(
            items, model.digest, options.output, force=options.force, on_rows=bar.update
        )
    done = f"{rows:,} rows" if new else "was finished before"
    print(f"{options.output}: {done}, model {model.digest}, data {items.digest}")


STOPPED = "stopped before any row; the same command begins again"


def command(arguments: Sequence[str]) -> int:
    """Run the command line, and return its exit status."""
    run(parse_embed(arguments))
    return 0
