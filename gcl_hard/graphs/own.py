"""The user's own sets of graphs."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gcl_hard.errors import InputError
from gcl_hard.experiments.custom import check_call, name_of, named_object
from gcl_hard.experiments.settings import RunConfig

if TYPE_CHECKING:
    from gcl_hard.experiments.custom import UserParts
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


def named(config: RunConfig, parts: UserParts) -> dict[str, Any]:
    """The name of the set; a ``module:Name`` is imported.

    Raises:
        InputError: if the name cannot be imported, or two sets have the same name.
    """
    dataset, names = config.dataset, parts.names
    if ":" in dataset and dataset not in names:
        graphs = graphs_named(dataset, config.features)
        if parts.graphs.setdefault(graphs.name, graphs) is not graphs:
            raise InputError(f"two sets are named {graphs.name}: give each a name of its own")
        names[dataset] = graphs.name
    return {"dataset": names.get(dataset, dataset)}
