"""Trained encoders, read from files or given as modules."""

from __future__ import annotations

import inspect
import warnings
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import nn

from gcl_hard.commands.datasets import domains_of_objects
from gcl_hard.core.extras import check_extra
from gcl_hard.errors import InputError
from gcl_hard.experiments.custom import (
    EncoderMaker,
    UserParts,
    code_digest,
    is_one_graph,
    named_object,
)
from gcl_hard.experiments.domains import CONFIGS, DOMAINS, from_dict, namespace
from gcl_hard.experiments.experiment import Parts
from gcl_hard.experiments.registry import experiment_of, runnable
from gcl_hard.experiments.settings import is_own, is_pretrained
from gcl_hard.files.io import digest_of_arrays, file_digest, joined_digest, reading
from gcl_hard.files.stored import load_torch, unlike, with_weights


class Model(NamedTuple):
    """A trained encoder, with the content of its file.

    Attributes:
        encoder: in evaluation mode.
        domain: domain of the data that it embeds.
        saved: content of the file, with ``config``.
        digest: digest of the file, or of the weights of an encoder without one.
    """

    encoder: nn.Module
    domain: str
    saved: dict[str, Any]
    digest: str


def load_encoder(
    path: str | Path, encoder: EncoderMaker | None = None, *, fold: int | None = None,
    trust: bool = False,
) -> nn.Module:  # fmt: skip
    """A trained encoder that ``bench --save-encoder``, :func:`evaluate` or ``pretrain`` saved.

    Args:
        path: file NAME.pt; it is read as data (``weights_only``).
        encoder: your own, as it was given when it was trained; not needed for ours.
        fold: fold of the encoder, where a file has one for each fold.
        trust: whether ``module:Name``, where the file names its encoder so, may be imported and
            called: it may be any code that Python finds, so trust your own files alone.

    Returns:
        The encoder, on the CPU, in evaluation mode. :func:`gcl_hard.graphs.embed_graphs` embeds
        graphs by it. Images: views are to be normalised as ``mean`` and ``std`` in the file say.

    Raises:
        InputError: for a file that holds no encoder, or several without ``fold``, an encoder that
            does not fit it, a fold that it does not have, or a name in it that is neither given nor
            trusted; shows the name.

    Example:
        >>> load_encoder("results/missing.pt")
        Traceback (most recent call last):
        ...
        gcl_hard.errors.InputError: cannot read results/missing.pt: No such file or directory
    """
    return model_of_file(Path(path), encoder, fold=fold, trust=trust).encoder


def encoder_in(
    path: Path,
    saved: dict[str, Any],
    maker: EncoderMaker | None,
    *,
    fold: int | None,
    trust: bool = False,
) -> nn.Module:
    """One encoder of a file; arguments as of :func:`load_encoder`.

    Args:
        path: the file, for messages.
        saved: its content.
        maker: makes the user's own encoder.
        fold: its fold; None is refused if there are several.
        trust: whether a name in the file may be imported.
    """
    if maker is None and trust and ":" in (name := _name(saved["config"])):
        maker = named_object(name, "encoder")
    encoders = encoders_of(path, saved, maker)
    if fold is None and len(encoders) > 1:
        raise InputError(
            f"{path} has {len(encoders)} encoders, one for each fold: say which by fold, 0 to "
            f"{len(encoders) - 1}"
        )
    if not 0 <= (fold or 0) < len(encoders):
        raise InputError(f"{path} has encoders 0 to {len(encoders) - 1}, got fold {fold}")
    return encoders[fold or 0]


def _name(config: Any) -> str:
    """Name of the user's own encoder in a configuration, without the digest of its code."""
    return str(config.encoder).partition("@")[0] if is_own(config.encoder) else ""


def read_encoders(path: Path, content: Any = None) -> dict[str, Any]:
    """The content of a file of encoders, checked; ``content`` is what was read of it already."""
    saved: dict[str, Any] = content or load_torch(path, "a file of encoders", {})
    with reading(path, "a file of encoders"):
        why = unlike(saved, {
            "config": dict[str, Any], "encoders": list[dict[str, Any]] | None,
            "encoder": dict[str, Any] | None,
        })  # fmt: skip
        if why is not None:
            raise ValueError(why)
        saved["config"] = from_dict(saved["config"], recorded=True)
        if saved.get("encoders") is None:
            if saved.get("encoder") is None:
                raise KeyError("encoders")
            saved["encoders"] = [saved["encoder"]]
        if missing := experiment_of(saved["config"]).shape - {*saved}:
            raise KeyError(*missing)
    return saved


def encoders_of(
    path: Path, saved: dict[str, Any], maker: Parts | EncoderMaker | None
) -> list[nn.Module]:
    """The encoders in a file; the user's own are made by their maker, or by name among several."""
    config = saved["config"]
    make = partial(_new, path, config, saved, maker)
    with torch.random.fork_rng(devices=[]):
        return [with_weights(path, state, make) for state in saved["encoders"]]


def _new(
    path: Path, config: Any, saved: dict[str, Any], maker: Parts | EncoderMaker | None
) -> nn.Module:
    if maker is None and is_own(config.encoder):
        name = _name(config)
        if is_pretrained(name):
            name = f"lambda n: gcl_hard.load_pretrained({name!r}).encoder"
        elif ":" in name:
            raise InputError(
                f"{path} names its encoder {name}, code that would be imported and called: give "
                f"it, as encoder={name.rpartition(':')[2]}, or if the file is yours trust=True"
            )
        raise InputError(f"{path} holds encoders of {name}: give it, as encoder={name}")
    parts: Any = maker
    if callable(maker):
        parts = {config.encoder: maker}
        if UserParts().add(maker).partition("@")[2] != config.encoder.partition("@")[2]:
            warnings.warn(
                f"the code of the encoders in {path} was another one: {config.encoder}",
                stacklevel=5,
            )
    return runnable(config).new_encoder(config, saved, parts)


def model_of_file(
    path: Path, maker: EncoderMaker | str | None = None, *, fold: int | None, trust: bool = False
) -> Model:
    """The encoder of a file of ``pretrain``, ``bench`` or :func:`gcl_hard.evaluate`.

    Args:
        path: NAME.pt.
        maker: makes the user's own encoder, or ``module:Name`` of what does.
        fold: fold of the encoder, if there are several.
        trust: as of :func:`gcl_hard.load_encoder`.
    """
    made_by: EncoderMaker | None = (
        named_object(maker, "encoder") if isinstance(maker, str) else maker
    )
    if "vocabulary" in (content := load_torch(path, "a file of encoders", {})):
        if fold or made_by is not None:
            argument = "fold" if fold else "encoder"
            raise InputError(f"{path} has one encoder, which is ours: leave {argument} out")
        domain, package = next((name, lent) for name, lent in DOMAINS.items() if lent.encoders)
        check_extra(package.extra, f"an encoder of {domain}")
        encoder = package.module(package.encoders).load_pretrained(path).encoder
        return Model(encoder, domain, content, file_digest(path))
    saved = read_encoders(path, content)
    encoder = encoder_in(path, saved, made_by, fold=fold, trust=trust)
    more = [] if made_by is None else [code_digest(made_by)]
    if len(saved["encoders"]) > 1:
        more.append(str(fold))
    return Model(encoder, saved["config"].domain, saved, joined_digest(file_digest(path), *more))


def model_without_file(encoder: nn.Module, data: Any) -> Model:
    """An encoder, or a model's, given with its data, which are read as they are.

    Raises:
        InputError: for named data, or images, whose normalisation is in a file alone.
    """
    kinds = [kind for kind in type(encoder).__mro__ if kind.__module__.startswith("gcl_hard.")]
    if any("embed" in vars(kind) for kind in kinds):
        encoder = cast("nn.Module", encoder.encoder)  # of InfoGraph, ItemContrast, …
    domains = domains_of_objects(data)
    if is_one_graph(data) and not _reads_batch(encoder):
        domains = [name for name in CONFIGS if getattr(namespace(name), "from_one_graph", False)]
    config = CONFIGS[domains[-1]]()
    saved = {"config": config, **experiment_of(config).file_facts(data)}
    return Model(encoder, config.domain, saved, digest_of_encoder(encoder))


def digest_of_encoder(encoder: nn.Module) -> str:
    """Digest of an encoder without a file: its weights, its code, and its settings."""
    weights = [weight.detach().cpu() for _, weight in sorted(encoder.state_dict().items())]
    numbers = [weight.double() if weight.is_floating_point() else weight for weight in weights]
    code = code_digest(type(encoder))
    return joined_digest(digest_of_arrays(*numbers), code, repr(encoder), repr(_plain(encoder)))


def _plain(encoder: nn.Module) -> list[tuple[str, str, object]]:
    """Attributes of modules that are numbers or strings, such as a kind of readout."""
    return [
        (name, key, value)
        for name, module in encoder.named_modules()
        for key, value in sorted(vars(module).items())
        if key != "training" and isinstance(value, int | float | str | bool | None)
    ]


def _reads_batch(encoder: nn.Module) -> bool:
    """Whether an encoder needs the graph of each node beside features and edges."""
    parameters = inspect.signature(encoder.forward).parameters.values()
    needed = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty]
    return len(needed) > 2
