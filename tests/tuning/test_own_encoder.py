"""Encoders of the user's own: what is refused before anything is trained."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gcl_hard.commands.tune import parse_tune
from gcl_hard.errors import InputError
from gcl_hard.graphs import GraphSet
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.images.settings import ImageConfig
from gcl_hard.tuning.objective import check_output
from gcl_hard.tuning.options import TuneOptions
from gcl_hard.tuning.space import Base, Space
from tests.said import says

LR = {"type": "float", "low": 0.001, "high": 0.1}
WIDTH = {"type": "int", "low": 3, "high": 8}
WORD = {"type": "categorical", "choices": ["sum", "mean"]}


class Mine(nn.Module):
    """Sums of nodes after a layer; what it returns can be bent."""

    def __init__(self, n_features: int, *, width: int = 6, pooling: str = "sum") -> None:
        super().__init__()
        self.out_dim, self.pooling = width, pooling
        self.layer = nn.Linear(n_features, width)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, **_: Any) -> Any:
        nodes = self.layer(x)
        graphs = nodes.new_zeros(int(batch.max()) + 1, self.layer.out_features)
        return nodes, graphs.index_add(0, batch, nodes)


class Anything(Mine):
    """Takes any setting."""

    def __init__(self, n_features: int, **settings: Any) -> None:
        super().__init__(n_features)


def function(n_features: int, width: int = 4) -> nn.Module:
    return Mine(n_features, width=width)


def options(encoder: Any, searched: dict[str, Any] | None = None, **stated: Any) -> TuneOptions:
    base = Base(GraphConfig, {"method": "hscl", "protocol": "inductive"}, encoder)
    space = Space.of({"lr": LR, **(searched or {})}).fitted(base)
    return TuneOptions(base, space, **stated)


def refusal(encoder: Any, searched: dict[str, Any] | None = None, **stated: Any) -> str:
    with pytest.raises(InputError) as caught:
        options(encoder, searched, **stated)
    return str(caught.value)


# How it is called


@pytest.mark.parametrize(
    "encoder",
    [Mine, function, functools.partial(Mine, pooling="mean"), Anything, lambda n, width: Mine(n)],
    ids=["class", "function", "partial", "any settings", "lambda"],
)
def test_a_class_or_a_function_is_taken(encoder: Any) -> None:
    assert options(encoder, {"encoder.width": WIDTH}).base.make is encoder


@pytest.mark.parametrize("encoder", [Mine(7), "gin", 3], ids=["module", "word", "number"])
def test_what_makes_no_encoders_is_refused(encoder: Any) -> None:
    message = refusal(encoder)
    assert says(message, "encoder(n_features, …)", "class", "function", repr(encoder))
    assert len(message) <= 300


def test_a_setting_that_it_does_not_take_is_named() -> None:
    message = refusal(Mine, {"encoder.widht": WIDTH})
    assert says(message, "encoder", "'widht'")
    assert options(Anything, {"encoder.widht": WIDTH}).base.make is Anything


def test_an_argument_that_nothing_gives_is_named() -> None:
    message = refusal(nn.Linear)
    assert says(message, "Linear", "'out_features'", "encoder.NAME", "default")
    assert options(nn.Linear, {"encoder.out_features": WIDTH}).base.make is nn.Linear


# What is searched beside it


@pytest.mark.parametrize("name", ["layers", "dim", "readout"])
def test_settings_of_the_gin_are_not_searched_beside_it(name: str) -> None:
    message = refusal(Mine, {name: WIDTH if name in ("layers", "dim") else WORD})
    assert says(message, name, "GIN", "encoder")
    assert options(Anything, {f"encoder.{name}": WIDTH}).base.make is Anything


def test_images_have_no_encoder_of_one_s_own() -> None:
    base = Base(ImageConfig, {"method": "hscl"}, Mine)
    space = Space.of({"lr": LR}).fitted(base)
    with pytest.raises(InputError) as from_python:
        TuneOptions(base, space)
    with pytest.raises(InputError) as typed:
        parse_tune(["--dataset=digits", "--encoder=mine:Own"])
    for refused in (from_python, typed):
        assert says(str(refused.value), "encoder", "own", "graphs")


# What it returns


def test_it_is_tried_on_two_graphs_with_the_first_values(mutag: GraphSet) -> None:
    seen: list[dict[str, Any]] = []

    def make(n_features: int, **settings: Any) -> nn.Module:
        seen.append({"n_features": n_features, **settings})
        return Mine(n_features, **settings)

    search = options(make, {"encoder.width": WIDTH, "encoder.pooling": WORD})
    before = torch.get_rng_state()
    check_output(search.base, search.search_space, mutag)
    assert seen == [{"n_features": 7, "width": 3, "pooling": "sum"}]
    assert torch.equal(torch.get_rng_state(), before)  # searches with and without it are the same


class NoWidth(Mine):
    def __init__(self, n_features: int) -> None:
        super().__init__(n_features)
        del self.out_dim


class OtherWidth(Mine):
    def __init__(self, n_features: int) -> None:
        super().__init__(n_features)
        self.out_dim = 5


class Alone(Mine):
    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, **_: Any) -> Any:
        return super().forward(x, edge_index, batch)[1]


class Swapped(Mine):
    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, **_: Any) -> Any:
        return super().forward(x, edge_index, batch)[::-1]


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (NoWidth, r"\bout_dim\b.*\bNoWidth\b.*\bwhole\b.*\bNone\b"),
        (OtherWidth, r"\bgraphs \[2, 5\].*\bgraphs \[2, 6\]"),
        (Alone, r"\bnodes \[30, 6\].*\bgraphs \[2, 6\].*\bTensor\b"),
        (Swapped, r"\bgraphs \[2, 6\].*\bnodes \[2, 6\]"),
    ],
)
def test_other_outputs_are_refused_with_what_is_expected(
    mutag: GraphSet, encoder: type[nn.Module], message: str
) -> None:
    search = options(encoder)
    with pytest.raises(InputError, match=message):
        check_output(search.base, search.search_space, mutag)
