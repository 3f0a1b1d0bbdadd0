"""Embeddings of new data by a saved encoder: the command ``embed``, and :func:`gcl_hard.embed`."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple, overload

import torch
from jsonargparse import ArgumentParser
from torch import Tensor, nn

from gcl_hard.commands.encoders import encoder_in, read_encoders
from gcl_hard.commands.parser import (
    entry_parser,
    option_defaults,
    print_config,
    read_arguments,
    words_as_flags,
)
from gcl_hard.errors import InputError, check_processes
from gcl_hard.experiments.custom import EncoderMaker, code_digest, named_object
from gcl_hard.experiments.registry import DOMAINS, experiment_of
from gcl_hard.extras import check_extra
from gcl_hard.ids import repeated
from gcl_hard.io import check_writable, digest_of_arrays, file_digest
from gcl_hard.runs import hardware
from gcl_hard.runs.embedding import (
    Embeddings,
    Items,
    Level,
    Reading,
    check_target,
    embed_items,
    embed_to_file,
)
from gcl_hard.runs.experiment import RunContext
from gcl_hard.runs.progress import bar_of
from gcl_hard.settings.base import COMMON
from gcl_hard.settings.domains import CONFIGS
from gcl_hard.settings.flags import add_options, options_of
from gcl_hard.stored import load_torch


class Model(NamedTuple):
    """A trained encoder, with what its file says.

    Attributes:
        encoder: in evaluation mode.
        domain: the data that it embeds.
        saved: what the file says, ``config`` among it.
        digest: digest of the file, or of the weights of an encoder without one.
    """

    encoder: nn.Module
    domain: str
    saved: dict[str, Any]
    digest: str


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
            graphs; nodes: likewise, or a :class:`gcl_hard.graphs.NodeSet`; molecules: a CSV file,
            a known set, or :class:`gcl_hard.graphs.Molecules`; images: a folder, all of which is
            read, a set, a :class:`gcl_hard.images.Split`, or uint8 [n, 3, S, S].
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
        >>> found = embed(GIN(7), load("MUTAG", download=False), level="nodes")
        >>> found.values.shape, found.ids[-1], found.columns["node"][:3]
        ((3371, 96), np.int64(187), array([0, 1, 2]))
    """
    path = None if output is None else Path(output)
    if path is not None:
        check_target(path)
    found = (
        model_without_file(model, data) if isinstance(model, nn.Module)
        else model_of_file(Path(model), encoder, fold=fold, trust=trust)
    )  # fmt: skip
    reading = Reading(level, smiles, ids, batch_size)
    items = items_of(found, data, reading, device=device, data_dir=data_dir, jobs=jobs)
    if path is None:
        return embed_items(items, found.digest)
    embed_to_file(items, found.digest, path, force=force)
    return path


def model_of_file(
    path: Path, own: EncoderMaker | None = None, *, fold: int | None, trust: bool = False
) -> Model:
    """The encoder of a file of ``pretrain``, ``bench`` or :func:`gcl_hard.evaluate`.

    Args:
        path: NAME.pt.
        own: the user's own encoder.
        fold: which encoder, if there are several.
        trust: as of :func:`gcl_hard.load_encoder`.
    """
    digest = file_digest(path)
    if "vocabulary" in (pretrained := load_torch(path, "a file of encoders", {})):
        if fold is not None or own is not None:
            what = "fold" if fold is not None else "encoder"
            raise InputError(f"{path} has one encoder, which is ours: leave {what} out")
        check_extra("molecules", "an encoder of molecules")
        from gcl_hard.graphs.pretrained import load_pretrained

        return Model(load_pretrained(path).encoder, "molecules", pretrained, digest)
    saved = read_encoders(path)
    encoder = encoder_in(path, saved, own, fold=fold, trust=trust)
    more = [] if own is None else [code_digest(own)]
    if len(saved["encoders"]) > 1:
        more.append(str(fold))
    return Model(encoder, saved["config"].domain, saved, _joined(digest, *more))


def _joined(digest: str, *more: str) -> str:
    """A digest, or one of it and of what else tells two things apart."""
    if not more:
        return digest
    return hashlib.sha256(" ".join([digest, *more]).encode()).hexdigest()[:16]


def model_without_file(encoder: nn.Module, data: Any) -> Model:
    """An encoder that is given with its data, which are read as they are.

    Raises:
        InputError: for data that are named, or for images, whose normalisation a file says.
    """
    domain = _domain_of(data)
    if domain is None:
        raise InputError(
            f"an encoder by itself embeds graphs, molecules or nodes that are given, got "
            f"{type(data).__name__}: give its file NAME.pt, which says how its data were read"
        )
    saved: dict[str, Any] = {"config": CONFIGS[domain](), "features": "stored"}
    return Model(encoder, domain, saved, digest_of_encoder(encoder))


def digest_of_encoder(encoder: nn.Module) -> str:
    """Digest of an encoder without a file: its weights, its code, and its settings."""
    weights = [one.detach().cpu() for _, one in sorted(encoder.state_dict().items())]
    numbers = [one.double() if one.is_floating_point() else one for one in weights]
    code = code_digest(type(encoder))
    return _joined(digest_of_arrays(*numbers), code, repr(encoder), repr(_plain(encoder)))


def _plain(encoder: nn.Module) -> list[tuple[str, str, object]]:
    """Numbers and words that are attributes of modules, such as a kind of readout."""
    return [
        (name, key, value)
        for name, one in encoder.named_modules()
        for key, value in sorted(vars(one).items())
        if key != "training" and isinstance(value, int | float | str | bool | None)
    ]


def _domain_of(data: Any) -> str | None:
    from gcl_hard.graphs import Molecules, NodeSet

    if isinstance(data, NodeSet):
        return "nodes"
    if isinstance(data, Molecules):
        return "molecules"
    others = isinstance(data, str | Path | Tensor) or hasattr(data, "images")
    return "graphs" if isinstance(data, Iterable) and not others else None


def items_of(
    model: Model,
    data: Any,
    reading: Reading,
    *,
    device: str,
    data_dir: str | Path | None,
    jobs: int,
) -> Items:
    """What a model embeds of some data; arguments as of :func:`embed`."""
    context = RunContext(
        output=Path(), data_dir=None if data_dir is None else Path(data_dir),
        device=str(hardware.choose_device(device)), threads=None, cores=jobs, versions={},
        experiment_of=experiment_of,
    )  # fmt: skip
    for name in ("smiles", "ids"):
        if getattr(reading, name) is not None and model.domain != "molecules":
            raise InputError(f"{name} names a column of molecules, and this encodes {model.domain}")
    if reading.level == "nodes" and model.domain not in ("graphs", "molecules"):
        raise InputError(f"level nodes applies to graphs and molecules, not to {model.domain}")
    encoder = model.encoder.to(context.device)
    experiment = DOMAINS[model.domain].experiment()
    found = experiment.items(encoder, model.saved, data, context, reading)
    if not found.bounds[-1]:
        raise InputError(
            f"there is nothing to embed in {data if isinstance(data, str) else 'these data'}"
        )
    ids = digest_of_arrays(*found.columns.values())
    return replace(found, digest=_joined(found.digest, ids, reading.level))


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
    own = None if options.encoder is None else named_object(options.encoder, "encoder")
    model = model_of_file(options.model, own, fold=options.fold)
    items = items_of(
        model, options.data, options.reading,
        device=options.device, data_dir=options.data_dir, jobs=options.jobs,
    )  # fmt: skip
    for note in items.notes:
        print(note, file=sys.stderr)
    if several := repeated(items.columns["id"]) if len(items.columns) == 1 else 0:
        print(f"{several} ids stand for several rows", file=sys.stderr)
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
