"""The file of a pre-trained encoder of molecules."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from gcl_hard.errors import InputError
from gcl_hard.files.io import reading
from gcl_hard.files.stored import check_weights, load_torch
from gcl_hard.graphs.encoders import MoleculeGIN
from gcl_hard.molecules.data import ATOMS, BONDS

USUAL_SHAPE = {name: one.default for name, one in inspect.signature(MoleculeGIN).parameters.items()}
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
    state: dict[str, Tensor] = saved["encoder"]
    with reading(Path(path), "a pre-trained encoder"):
        of, shape = saved["vocabulary"], _shape(saved["about"])
        int(saved["about"]["n"])  # molecules that it was trained on, which scores tell
        widest = max((max(one.shape, default=0) for one in state.values()), default=0)
        if shape["layers"] > len(state) or shape["dim"] > widest:
            raise ValueError("weights of another shape than its settings say")
    if of != (ours := vocabulary()):
        others = [f"{k} {of.get(k)}, here {ours[k]}" for k in ours if of.get(k) != ours[k]]
        raise InputError(f"{path} has other codes, {'; '.join(others)}: train it again")
    encoder = MoleculeGIN(**shape)
    try:
        encoder.load_state_dict(state)
    except (RuntimeError, TypeError) as error:
        raise InputError(
            f"{path} holds weights of another encoder than its settings say, "
            f"{shape['layers']} layers of {shape['dim']}: train it again"
        ) from error
    check_weights(Path(path), encoder)
    return Pretrained(encoder.eval(), of, saved["about"])


def _shape(about: dict[str, Any]) -> dict[str, Any]:
    config = about["run"]["config"]
    return {name: config[name] for name in USUAL_SHAPE}


def vocabulary() -> dict[str, dict[str, int]]:
    """Number of codes of each field of atoms and bonds."""
    return {"atoms": dict(ATOMS), "bonds": dict(BONDS)}
