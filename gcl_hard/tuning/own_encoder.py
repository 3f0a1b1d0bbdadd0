"""Encoders of the user's own: refused before a search if they cannot be used in it."""

from __future__ import annotations

import inspect
import pickle
from typing import TYPE_CHECKING

from torch import nn

from gcl_hard.errors import InputError, unknown
from gcl_hard.experiments.config import defaults

if TYPE_CHECKING:
    from gcl_hard.graphs import GraphSet
    from gcl_hard.tuning.options import TuneOptions
    from gcl_hard.tuning.part import Maker

OURS = ("layers", "dim", "readout")
"""Settings of the GIN that an encoder of the user's own takes the place of."""


def check_encoder(options: TuneOptions) -> None:
    """Whether what is searched reaches the encoder, in every process.

    Args:
        options: with an encoder.

    Raises:
        InputError: for images, an encoder that is no maker of one, settings that it does not
            take, settings of the GIN, or several workers that cannot be sent it.
    """
    make = options.encoder
    assert make is not None
    if options.base.alone.backend == "images":
        raise InputError("an encoder of your own can be searched on graphs only: leave it out")
    if isinstance(make, nn.Module) or not callable(make):
        raise InputError(
            f"encoder is called as encoder(n_features, **searched) for every trial, so give the "
            f"class or a function, got {make!r}"[:300]
        )
    usual = defaults(options.base.kind)
    named = [dimension.name for dimension in options.space.dimensions]
    named += [name for name, value in options.base.settings.items() if value != usual.get(name)]
    for name in OURS:
        if name in named:
            raise InputError(
                f"{name} is a setting of the GIN, which your encoder takes the place of: give "
                f"yours a setting of its own, and search it as encoder.NAME"
            )
    _check_arguments(make, options)
    if options.workers > 1:
        try:
            pickle.dumps(make)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError(
                f"several workers need an encoder that can be imported (no lambda, no class "
                f"inside a function): {error}"
            ) from error


def _check_arguments(make: Maker, options: TuneOptions) -> None:
    try:
        signature = inspect.signature(make)
    except (TypeError, ValueError):  # of C code
        return
    parameters = signature.parameters.values()
    anything = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
    searched = options.space.of_encoder
    for name in searched:
        if name not in signature.parameters and not anything:
            raise unknown("setting of the encoder", name, signature.parameters)
    try:
        signature.bind(1, **dict.fromkeys(searched))
    except TypeError as error:
        raise InputError(
            f"encoder is called as encoder(n_features, **searched), and cannot be: {error}; give "
            f"its other arguments defaults, or search them as encoder.NAME"
        ) from error


def check_output(options: TuneOptions, graphs: GraphSet) -> None:
    """Whether it encodes two graphs, with the first values of what is searched.

    Args:
        options: with an encoder.
        graphs: the set.

    Raises:
        InputError: if it has no width or gives another shape.
    """
    import torch

    from gcl_hard.graphs import InfoGraph

    make = options.encoder
    assert make is not None
    first = {name: dimension.ends[0] for name, dimension in options.space.of_encoder.items()}
    with torch.random.fork_rng(devices=[]):
        model = InfoGraph(make(graphs.n_features, **first), method="ucl")
        model.embed(graphs.batch(torch.arange(2)))
