"""Saved encoders for other programs: the command ``export``, and :func:`gcl_hard.export`."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from gcl_hard.commands.encoders import Model, model_of_file, model_without_file
from gcl_hard.commands.parser import Parser
from gcl_hard.core.extras import check_extra
from gcl_hard.errors import InputError
from gcl_hard.experiments.custom import EncoderMaker
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.exporting import WRITERS
from gcl_hard.experiments.registry import experiment_of, runnable
from gcl_hard.files.io import atomic_write, check_new
from gcl_hard.files.stored import SAFETENSORS, safetensors_of
from gcl_hard.version import __version__

OUTPUT = "encoder.onnx"
"""The file that the command writes if none is named."""
SUFFIXES = (*WRITERS, SAFETENSORS)
WEIGHTS = {"encoder", "encoders", "held_out"}
"""Fields of a file of encoders that are weights, or numbers of their data."""


class Exported(NamedTuple):
    """An exported encoder.

    Attributes:
        path: the file.
        model: digest of the encoder.
        inputs: names of the program's inputs, in their order; none for weights alone.
        outputs: names of its outputs.
        checked: whether its embeddings were compared with those of the encoder.
    """

    path: Path
    model: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    checked: bool = False


def export(
    model: str | Path | nn.Module,
    output: str | Path,
    *,
    like: Any = None,
    encoder: EncoderMaker | str | None = None,
    fold: int | None = None,
    trust: bool = False,
    force: bool = False,
) -> Exported:
    """Write an encoder for programs that have neither this package nor, of ONNX, PyTorch.

    A program has an input ``images`` uint8 [B, 3, S, S], of the size that ``side`` in the file
    says, which it resizes and normalises itself, and the output ``embeddings`` [B, d]; of vectors
    ``x`` [n, d] and ``embeddings``; or of graphs the inputs ``x`` [N, F], ``edge_index`` [2, E],
    ``ptr`` [G + 1], the first node of each graph and N, and where the encoder reads edge features
    ``edge_attr`` [E, K], and the outputs ``nodes`` [N, d] and ``graphs`` [G, d]. Atoms and bonds of
    molecules are int64 codes. It computes in the precision of the weights, float32, also where
    training was in a half one. It is run on data made at random, of 1 graph or image and of 5, and
    refused if an embedding differs from the encoder's by more than 1e-4 of the largest.

    Args:
        model: NAME.pt or NAME.safetensors, as of :func:`gcl_hard.embed`; or an encoder itself.
        output: NAME.onnx (extra ``onnx``), NAME.pt2 for ``torch.export.load``, or
            NAME.safetensors, the weights with the settings that make the encoder, which
            :func:`gcl_hard.load_encoder` and :func:`gcl_hard.embed` read as they read NAME.pt; or a
            folder, a name without suffix, of encoders of texts, for sentence-transformers.
        like: of an encoder itself, data that it embeds: a :class:`gcl_hard.graphs.GraphSet`,
            :class:`gcl_hard.molecules.Molecules`, or the :class:`gcl_hard.images.Views` that it was
            trained with.
        encoder: your own, as it was given when it was trained, or ``module:Name`` of it; not needed
            for ours.
        fold: which encoder, of a file with one for each fold.
        trust: as of :func:`gcl_hard.load_encoder`.
        force: whether a file that is there is replaced.

    Returns:
        The path, and names of inputs and outputs.

    Raises:
        InputError: for a file that holds no encoder, an encoder that cannot be traced, with
            PyTorch's reason, or a program that differs from it; nothing is written then.

    Example:
        >>> import tempfile
        >>> from gcl_hard.graphs import GIN, load_graphs
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     mutag = load_graphs("MUTAG", download=False)
        ...     export(GIN(7, layers=1), f"{folder}/gin.pt2", like=mutag).inputs
        ('x', 'edge_index', 'ptr')
    """
    path = Path(output)
    _check_suffix(path)
    check_new(path, force=force)
    if like is not None and not isinstance(model, nn.Module):
        raise InputError(f"like is for an encoder by itself, and {model} says what it embeds")
    trained = (
        _without_file(model, like) if isinstance(model, nn.Module)
        else model_of_file(Path(model), encoder, fold=fold, trust=trust)
    )  # fmt: skip
    if not path.suffix:
        experiment = runnable(CONFIGS[trained.domain])
        experiment.write_folder(trained.encoder, path)
        return Exported(path, trained.digest)
    about = {"gcl_hard": __version__, "domain": trained.domain, "model": trained.digest}
    if path.suffix == SAFETENSORS:
        if isinstance(model, nn.Module):
            raise InputError(
                f"{path.name} has settings that make the encoder beside its weights, and "
                f"{type(model).__name__} by itself has none: give its file NAME.pt"
            )
        content = safetensors_of(trained.encoder.state_dict(), _facts(trained.saved), **about)
        exported = Exported(path, trained.digest)
    else:
        frozen = trained.encoder.requires_grad_(False)
        exportable = runnable(CONFIGS[trained.domain]).exportable(frozen, trained.saved)
        exportable = replace(exportable, facts={**about, **exportable.facts})
        content, checked = WRITERS[path.suffix](exportable, f"the encoder {type(frozen).__name__}")
        inputs, outputs = tuple(exportable.inputs), tuple(exportable.outputs)
        exported = Exported(path, trained.digest, inputs, outputs, checked)
    with atomic_write(path) as file:
        file.write(content)
    return exported


def _check_suffix(path: Path) -> None:
    """Refuse a kind of file that is not written here, or whose library is missing."""
    if path.suffix and path.suffix not in SUFFIXES:
        raise InputError(f"encoders are exported to {', '.join(SUFFIXES)}, got {path}")
    if path.suffix == ".onnx":
        check_extra("onnx", f"writing {path.name}", "onnx", "onnxscript")
    if path.suffix == SAFETENSORS:
        check_extra("onnx", f"writing {path.name}", "safetensors")


def _facts(saved: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a file beside weights."""
    facts = {name: value for name, value in saved.items() if name not in WEIGHTS}
    return facts | ({"config": asdict(facts["config"])} if "config" in facts else {})


def _without_file(encoder: nn.Module, like: Any) -> Model:
    """An encoder by itself, with the facts of its inputs that data state."""
    if hasattr(encoder, "query"):
        raise InputError(
            f"{type(encoder).__name__} is a model of links, which scores the entities that it was "
            f"trained on and embeds no others: its vectors are those of --save-embeddings"
        )
    if like is None:
        raise InputError(
            "an encoder by itself does not say what its inputs are: give its file NAME.pt, or like="
            "data that it embeds, graphs, molecules or nodes, or the views of images"
        )
    model = model_without_file(copy.deepcopy(encoder).cpu(), like)
    data = experiment_of(model.saved["config"]).user_data(like, "custom", {})
    names = ("n_features", "edge_dim", "features", "columns", "edge_columns")
    facts = {name: getattr(data, name) for name in names if hasattr(data, name)}
    return model._replace(saved={**model.saved, **facts})


def export_parser() -> Parser:
    """The parser of ``gcl-hard export``."""
    parser = Parser(
        "gcl_hard export",
        "Write a saved encoder for other programs, and compare its embeddings there.",
        "encoder.pt -o encoder.onnx",
        usage="MODEL [-o FILE] [...]",
    )
    parser.add_argument("model", metavar="MODEL", help="of pretrain, or of bench --save-encoder")
    parser.add_options("exporting", export, {"model", "like", "trust"}, output=OUTPUT)
    return parser


def parse_export(arguments: Sequence[str]) -> dict[str, Any]:
    """The arguments of :func:`export` in a command line."""
    return {"output": OUTPUT} | export_parser().parse(arguments)[0]


STOPPED = "stopped; nothing was written"


def command(arguments: Sequence[str]) -> int:
    """Run the command line, and return its exit status."""
    exported = export(**parse_export(arguments))
    content = f"{', '.join(exported.inputs)} -> {', '.join(exported.outputs)}"
    if not exported.inputs:
        content = "weights, and the settings that make the encoder"
    elif not exported.checked:
        content += "; not compared with the encoder, for ONNX Runtime is not installed"
    print(f"{exported.path}: {content}; model {exported.model}")
    return 0
