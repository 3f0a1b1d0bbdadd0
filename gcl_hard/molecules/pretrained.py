"""The file of a pre-trained encoder of molecules."""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

from torch import Tensor, nn

from gcl_hard.errors import InputError
from gcl_hard.experiments.custom import EncoderMaker
from gcl_hard.files.io import file_digest, reading
from gcl_hard.files.stored import load_torch, with_weights
from gcl_hard.graphs.data import GraphSet
from gcl_hard.graphs.features import vocabulary
from gcl_hard.molecules.data import from_tu
from gcl_hard.molecules.encoders import MoleculeGIN
from gcl_hard.molecules.settings import UNTRAINED

ARGUMENTS = inspect.signature(MoleculeGIN).parameters
USUAL_SHAPE = {name: argument.default for name, argument in ARGUMENTS.items()}
"""The default arguments of :class:`MoleculeGIN`."""


class Pretrained(NamedTuple):
    """A pre-trained encoder.

    Attributes:
        encoder: on the CPU, in evaluation mode; ``gcl_hard.graphs.embed(encoder, molecules)``.
        vocabulary: number of codes of each field of ``atoms`` and of ``bonds``.
        about: settings, data and losses of its training.
    """

    encoder: MoleculeGIN
    vocabulary: dict[str, dict[str, int]]
    about: dict[str, Any]

    @property
    def shape(self) -> dict[str, Any]:
        """Arguments of its :class:`MoleculeGIN`: ``MoleculeGIN(**shape)`` has new weights."""
        return _shape(self.about)


def load_pretrained(path: str | Path) -> Pretrained:
    """An encoder that ``python -m gcl_hard.pretrain`` saved.

    Args:
        path: file NAME.pt; nothing in it is executed (``weights_only``).

    Returns:
        The encoder with its vocabulary.

    Raises:
        InputError: for a file that holds no encoder, or an encoder of another vocabulary.

    Example:
        >>> load_pretrained("missing.pt")
        Traceback (most recent call last):
        ...
        gcl_hard.errors.InputError: cannot read missing.pt: No such file or directory
    """
    saved = load_torch(Path(path), "a pre-trained encoder", {
        "vocabulary": dict[str, dict[str, int]], "about": dict[str, Any],
        "encoder": dict[str, Tensor],
    })  # fmt: skip
    with reading(Path(path), "a pre-trained encoder"):
        codes, shape = saved["vocabulary"], _shape(saved["about"])
        int(saved["about"]["n"])  # molecules that it was trained on, which scores tell
    if codes != (ours := vocabulary()):
        others = [f"{k} {codes.get(k)}, here {ours[k]}" for k in ours if codes.get(k) != ours[k]]
        raise InputError(f"{path} has other codes, {'; '.join(others)}: train it again")
    make = partial(MoleculeGIN, **shape)
    encoder = with_weights(Path(path), saved["encoder"], make, layers=shape["layers"])
    return Pretrained(cast("MoleculeGIN", encoder), codes, saved["about"])


def _shape(about: dict[str, Any]) -> dict[str, Any]:
    config = about["run"]["config"]
    return {name: config[name] for name in USUAL_SHAPE}


@dataclass(frozen=True, eq=False)
class FileEncoder:
    """What makes copies of the encoder in a file of ``gcl_hard.pretrain``.

    Attributes:
        encoder: the encoder.
        n: number of molecules that it was pre-trained on.
    """

    encoder: nn.Module
    n: int

    def __call__(self, n_features: int) -> nn.Module:
        """A copy of the encoder."""
        return copy.deepcopy(self.encoder)


def pretrained_part(name: str, digits: int = 8) -> tuple[str, EncoderMaker]:
    """The encoder of a file of ``gcl_hard.pretrain``: its name in configurations, which has so many
    digits of the file's digest but not its folder, and what makes copies of it.

    Raises:
        InputError: if there is no such file, or it holds none.
    """
    path = Path(name.partition("@")[0])
    pretrained = load_pretrained(path)
    key = f"{path.name}@{file_digest(path)[:digits]}"
    if "@" in name and name != key:
        raise InputError(f"{path} has changed since it was {name}: it is {key} now")
    return key, FileEncoder(pretrained.encoder, int(pretrained.about["n"]))


def shape_of(path: str) -> str:
    """``untrained``, with the arguments of a file's encoder that differ from the defaults."""
    shape = load_pretrained(path).shape
    unusual = [f"{name}={value}" for name, value in shape.items() if value != USUAL_SHAPE[name]]
    return f"{UNTRAINED}:{'+'.join(unusual)}" if unusual else UNTRAINED


def coded(graphs: GraphSet) -> GraphSet:
    """Graphs of another domain with the codes that these encoders read: :func:`from_tu`."""
    return from_tu(graphs)
