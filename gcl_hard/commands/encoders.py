"""Files of trained encoders: what they hold, and the encoders made of it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gcl_hard.errors import InputError
from gcl_hard.experiments.custom import EncoderMaker, UserParts, named_object
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.io import reading
from gcl_hard.runs.experiment import Parts
from gcl_hard.settings.base import is_own, is_pretrained
from gcl_hard.settings.domains import from_dict
from gcl_hard.stored import check_weights, load_torch


def load_encoder(
    path: str | Path, encoder: EncoderMaker | None = None, *, fold: int = 0, trust: bool = False
) -> nn.Module:
    """A trained encoder that ``bench --save-encoder`` or :func:`evaluate` saved.

    Args:
        path: file NAME.pt; it is read as data (``weights_only``).
        encoder: your own, as it was given when it was trained; not needed for ours.
        fold: which encoder, where a run has one for each fold.
        trust: whether ``module:Name``, where the file names its encoder so, may be imported and
            called: it may be any code that Python finds, so trust your own files alone.

    Returns:
        The encoder, on the CPU, in evaluation mode. Graphs: ``gcl_hard.graphs.embed(encoder,
        graphs)`` gives embeddings. Images: views are to be normalised as ``mean`` and ``std`` in
        the file say.

    Raises:
        InputError: for a file that holds no encoder, an encoder that does not fit it, a fold that
            it does not have, or a name in it that is neither given nor trusted; shows the name.

    Example:
        >>> load_encoder("results/missing.pt")
        Traceback (most recent call last):
        ...
        gcl_hard.errors.InputError: cannot read results/missing.pt: No such file or directory
    """
    path = Path(path)
    return encoder_in(path, read_encoders(path), encoder, fold=fold, trust=trust)


def encoder_in(
    path: Path,
    saved: dict[str, Any],
    own: EncoderMaker | None,
    *,
    fold: int | None,
    trust: bool = False,
) -> nn.Module:
    """One encoder of a file; arguments as of :func:`load_encoder`.

    Args:
        path: the file, for messages.
        saved: what it holds.
        own: the user's own.
        fold: which, if there are several; None is refused then.
        trust: whether a name in the file may be imported.
    """
    if own is None and trust and ":" in (named := _named(saved["config"])):
        own = named_object(named, "encoder")
    found = encoders_of(path, saved, own)
    if fold is None and len(found) > 1:
        raise InputError(
            f"{path} has {len(found)} encoders, one for each fold: say which by fold, 0 to "
            f"{len(found) - 1}"
        )
    if not 0 <= (fold or 0) < len(found):
        raise InputError(f"{path} has encoders 0 to {len(found) - 1}, got fold {fold}")
    return found[fold or 0]


def _named(config: Any) -> str:
    """The user's own encoder by its name in a configuration, without the digest of its code."""
    return str(config.encoder).partition("@")[0] if is_own(config.encoder) else ""


def read_encoders(path: Path) -> dict[str, Any]:
    """What a file of encoders holds."""
    saved: dict[str, Any] = load_torch(path, "a file of encoders", {
        "config": dict[str, Any], "encoders": list[dict[str, Any]] | None,
        "encoder": dict[str, Any] | None,
    })  # fmt: skip
    with reading(path, "a file of encoders"):
        saved["config"] = from_dict(saved["config"])
        if saved.get("encoders") is None:
            if saved.get("encoder") is None:
                raise KeyError("encoders")
            saved["encoders"] = [saved["encoder"]]
        if missing := experiment_of(saved["config"]).shape - {*saved}:
            raise KeyError(*missing)
    return saved


def encoders_of(
    path: Path, saved: dict[str, Any], own: Parts | EncoderMaker | None
) -> list[nn.Module]:
    """The encoders in a file, made by the user's own or by its name among several."""
    config, found = saved["config"], list[nn.Module]()
    for state in saved["encoders"]:
        with torch.random.fork_rng(devices=[]):
            if own is None and not is_own(config.encoder):
                _check_shape(path, config, saved, state)
            encoder = _new(path, config, saved, own)
        try:
            encoder.load_state_dict(state)
        except RuntimeError as error:
            raise InputError(f"the encoders of {path} are other ones: {error}") from error
        check_weights(path, encoder)
        found.append(encoder.eval())
    return found


def _check_shape(path: Path, config: Any, saved: dict[str, Any], state: Mapping[str, Any]) -> None:
    """Refuse an encoder of another shape than its weights, which might not fit into memory."""
    with reading(path, "a file of encoders"):
        if (layers := getattr(config, "layers", 0)) > len(state):
            raise InputError(
                f"the encoders of {path} are other ones: they have not {layers} layers"
            )
        with torch.device("meta"):
            expected = _new(path, config, saved, None).state_dict()
        for name, one in expected.items():
            if name in state and (shape := state[name].shape) != one.shape:
                raise InputError(
                    f"the encoders of {path} are other ones: {name} is {[*shape]}, and by its "
                    f"settings {[*one.shape]}"
                )


def _new(
    path: Path, config: Any, saved: dict[str, Any], own: Parts | EncoderMaker | None
) -> nn.Module:
    if own is None and is_own(config.encoder):
        named = _named(config)
        if is_pretrained(named):
            named = f"lambda n: gcl_hard.load_pretrained({named!r}).encoder"
        elif ":" in named:
            raise InputError(
                f"{path} names its encoder {named}, code that would be imported and called: give "
                f"it, as encoder={named.rpartition(':')[2]}, or if the file is yours trust=True"
            )
        raise InputError(f"{path} holds encoders of {named}: give it, as encoder={named}")
    parts: Any = own
    if callable(own):
        parts = {config.encoder: own}
        if UserParts().add(own).partition("@")[2] != config.encoder.partition("@")[2]:
            warnings.warn(
                f"the code of the encoders in {path} was another one: {config.encoder}",
                stacklevel=4,
            )
    made: nn.Module = experiment_of(config).new_encoder(config, saved, parts)
    return made
