"""Embeddings of new data by a saved encoder: the command ``embed``, and :func:`gcl_hard.embed`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import torch
from torch import nn

from gcl_hard.commands.encoders import Model, model_of_file, model_without_file
from gcl_hard.commands.parser import Parser
from gcl_hard.core.ids import repeated
from gcl_hard.errors import InputError
from gcl_hard.experiments import hardware
from gcl_hard.experiments.custom import EncoderMaker
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.embedding import (
    Embeddings,
    Items,
    check_target,
    digests_of,
    embed_items,
    embed_to_file,
)
from gcl_hard.experiments.experiment import Level, Reading, RunContext
from gcl_hard.experiments.options import ExecutionOptions, as_path
from gcl_hard.experiments.progress import bar_of
from gcl_hard.experiments.registry import runnable
from gcl_hard.files.io import check_writable, digest_of_arrays, joined_digest

OUTPUT = "embeddings.npz"
"""The file that the command writes if none is named."""


@overload
def embed(model: Any, data: Any, *, output: None = None, **options: Any) -> Embeddings: ...
@overload
def embed(model: Any, data: Any, *, output: str | Path, **options: Any) -> Path: ...
def embed(  # type: ignore[misc]
    model: str | Path | nn.Module,
    data: Any,
    *,
    output: str | Path | None = None,
    level: Level = "graphs",
    smiles: str | None = None,
    id: str | None = None,
    edges: Any | str | Path = None,
    only: Any | str | Path = None,
    encoder: EncoderMaker | str | None = None,
    fold: int | None = None,
    trust: bool = False,
    batch_size: int | None = None,
    data_dir: str | Path | None = None,
    device: str = "auto",
    jobs: int = 1,
    threads: int | None = None,
    force: bool = False,
    progress: bool = True,
) -> Embeddings | Path:
    """Embeddings of graphs, nodes of a graph, molecules, images, vectors or texts.

    Rows come in the order of the data. With ``output`` they are written to a file batch by batch,
    so that memory holds a batch, and a call that was stopped goes on where it was.

    Args:
        model: NAME.pt, as :func:`gcl_hard.evaluate`, ``bench --save-encoder`` and ``pretrain``
            save it; or an encoder itself, or a model with one, with a set of its data, but for
            images and texts.
        data: graphs: a set by its name or path, a :class:`gcl_hard.graphs.GraphSet`, or a list of
            graphs; nodes: a set by its name or path, a :class:`gcl_hard.nodes.NodeSet`, or one
            graph, or a table (CSV, Parquet, DataFrame) beside ``edges``; molecules: a CSV file, a
            known set, or :class:`gcl_hard.molecules.Molecules`;
            images: a folder, all of which is read, a set, a :class:`gcl_hard.images.Split`, or
            uint8 [n, 3, S, S]; vectors: a set or a table by its name or path, a DataFrame, a
            :class:`gcl_hard.vectors.VectorSet`, or an array [n, d]; texts: likewise, a
            :class:`gcl_hard.texts.TextSet`, or a list of texts.
        output: NAME.npz, NAME.parquet (extra ``parquet``) or NAME.csv; without it Python keeps
            them in memory.
        level: ``"nodes"`` for all nodes of graphs, which get a second column ``node``, or all atoms
            of molecules.
        smiles: column of SMILES of a CSV; found by its name if not given.
        id: column of a table with what rows are called; the rows' numbers if not given.
        edges: table of edges beside a table of nodes, which is read as that of the encoder was.
        only: table with the ids of those nodes that are written, or a list of them; otherwise all.
        encoder: your own, as it was given when it was trained, or ``module:Name`` of it; not needed
            for ours.
        fold: which encoder, of a file with one for each fold.
        trust: as of :func:`gcl_hard.load_encoder`.
        batch_size: items embedded at a time.
        data_dir: an offline mirror of data sets; by default the folder in ``GCL_HARD_DATA``.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        jobs: processes that parse SMILES.
        threads: CPU threads; those of PyTorch if not given.
        force: whether a file of another model, or of other data, is replaced.
        progress: whether notes on the data, and the progress of an ``output``, are shown.

    Returns:
        The embeddings, with ``ids``; ``columns`` has what else rows are called, such as ``node`` of
        a graph, or ``part`` of a set of images. With ``output`` its path.

    Raises:
        InputError: for a file that holds no encoder, data that are not available or have other
            features than the encoder reads, or an ``output`` that belongs to others.
        DivergenceError: for an embedding that is not finite; names the item.

    Example:
        >>> from gcl_hard.graphs import GIN, load_graphs
        >>> nodes = embed(GIN(7), load_graphs("MUTAG", download=False), level="nodes")
        >>> nodes.values.shape, nodes.ids[-1], nodes.columns["node"][:3]
        ((3371, 96), np.int64(187), array([0, 1, 2]))
    """
    path = None if output is None else Path(output)
    if path is not None:
        check_target(path)
        check_writable(path.absolute().parent)
    trained = (
        model_without_file(model, data) if isinstance(model, nn.Module)
        else model_of_file(Path(model), encoder, fold=fold, trust=trust)
    )  # fmt: skip
    execution = ExecutionOptions(device=device, jobs=jobs, threads=threads)
    if threads is not None:
        torch.set_num_threads(threads)
    context = RunContext(
        execution.output, as_path(data_dir), str(hardware.choose_device(device)),
        threads=None, cores=jobs, versions={}, experiment_of=runnable,
    )  # fmt: skip
    items = items_of(trained, data, Reading(context, level, smiles, id, batch_size, edges, only))
    for note in items.notes if progress else ():
        print(note, file=sys.stderr)
    if path is None:
        return embed_items(items, trained.digest)
    if not progress:
        embed_to_file(items, trained.digest, path, force=force)
        return path
    if duplicates := repeated(items.columns["id"]) if len(items.columns) == 1 else 0:
        print(f"{duplicates} ids stand for several rows", file=sys.stderr)
    with bar_of("embedding", " rows", int(items.bounds[-1])) as bar:
        embed_to_file(items, trained.digest, path, force=force, on_rows=bar.update)
    return path


def items_of(model: Model, data: Any, reading: Reading) -> Items:
    """The items of data that a model embeds."""
    experiment = runnable(CONFIGS[model.domain])
    owners = {"smiles": "molecules", "id": "molecules", "edges": "nodes", "only": "nodes"}
    for name, owner in owners.items():
        if getattr(reading, name) is not None and name not in experiment.reading:
            raise InputError(f"{name} applies to {owner}, and this encodes {model.domain}")
    if reading.level == "nodes" and "level" not in experiment.reading:
        raise InputError(f"level nodes applies to graphs and molecules, not to {model.domain}")
    encoder = model.encoder.to(reading.context.device)
    items = experiment.items(encoder, model.saved, data, reading)
    if not items.bounds[-1]:
        raise InputError(
            f"there is nothing to embed in {data if isinstance(data, str) else 'these data'}"
        )
    ids = digest_of_arrays(*(items.whole or items.columns).values())
    return replace(items, digest=joined_digest(items.digest, ids, reading.level))


def embed_parser() -> Parser:
    """The parser of ``gcl-hard embed``."""
    parser = Parser(
        "gcl_hard embed",
        "Embed new data by a saved encoder, each row with its name. The same command goes on where "
        "it was stopped.",
        "encoder.pt photos/ -o z.parquet",
        usage="MODEL DATA [-o FILE] [...]",
    )  # fmt: skip
    parser.add_argument("model", metavar="MODEL", help="of pretrain, or of bench --save-encoder")
    parser.add_argument(
        "data", metavar="DATA",
        help="a folder of images, a CSV of SMILES or of nodes, a set by its name or path, or "
        "module:name of your graphs",
    )  # fmt: skip
    parser.add_options("embedding", embed, {"model", "trust", "progress"}, output=OUTPUT)
    return parser


def parse_embed(arguments: Sequence[str]) -> dict[str, Any]:
    """The arguments of :func:`embed` in a command line."""
    return {"output": OUTPUT} | embed_parser().parse(arguments)[0]


STOPPED = "stopped before any row; the same command begins again"


def command(arguments: Sequence[str]) -> int:
    """Run the command line, and return its exit status."""
    path = embed(**parse_embed(arguments))
    model, data = digests_of(path)
    print(f"{path}: model {model}, data {data}")
    return 0
