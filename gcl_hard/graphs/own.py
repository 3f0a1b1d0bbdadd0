"""The user's own sets of graphs."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gcl_hard.experiments.custom import check_call, name_of, named_object

if TYPE_CHECKING:
    from gcl_hard.graphs.data import GraphSet


def own_graphs(data: Any, *, name: str, features: str = "auto") -> GraphSet:
    """A set made of the user's own graphs.

    A part of a known set has its size in its name, such as MUTAG-100: its accuracies differ.

    Args:
        data: a ``GraphSet``, or what ``GraphSet.from_graphs`` takes.
        name: name of the set, unless it has one.
        features: kind of node features, unless it has them.

    Raises:
        InputError: for graphs that make no set, or an invalid file name.
    """
    from gcl_hard.graphs import MANIFEST, canonical_name
    from gcl_hard.graphs.data import GraphSet

    graphs: GraphSet = (
        data
        if isinstance(data, GraphSet)
        else GraphSet.from_graphs(data, name=name, features=features)
    )
    known = MANIFEST.get(canonical_name(graphs.name))
    if known is not None and known.graphs != len(graphs):
        return replace(graphs, name=f"{graphs.name}-{len(graphs)}")
    return graphs


def graphs_named(name: str, features: str = "auto") -> GraphSet:
    """The set that ``module:name`` names: graphs, or a function that returns some.

    Raises:
        InputError: if the name cannot be imported, or it makes no set.
    """
    graphs = named_object(name, "dataset")
    if inspect.isroutine(graphs) or isinstance(graphs, type):
        check_call(graphs, f"{name_of(graphs)}()")
        graphs = graphs()
    return own_graphs(graphs, name=name.partition(":")[2], features=features)
