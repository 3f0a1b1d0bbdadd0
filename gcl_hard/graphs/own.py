"""Sets of graphs of the user's own."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gcl_hard.errors import InputError
from gcl_hard.experiments.custom import check_call, name_of, named_object
from gcl_hard.experiments.settings import RunConfig

if TYPE_CHECKING:
    from gcl_hard.experiments.custom import UserParts
    from gcl_hard.graphs import GraphSet


def own_graphs(given: Any, *, name: str, features: str = "auto") -> GraphSet:
    """A set made of the user's own graphs.

    A part of a known set is named by its size, such as MUTAG-100: it has other accuracies.

    Args:
        given: a ``GraphSet``, or what ``GraphSet.from_graphs`` takes.
        name: name of the set, unless it has one.
        features: kind of node features, unless it has them.

    Raises:
        InputError: for graphs that make no set, or a name that is no valid file name.
    """
    from gcl_hard.graphs import MANIFEST, GraphSet, canonical_name

    if not isinstance(given, GraphSet):
        given = GraphSet.from_graphs(given, name=name, features=features)
    graphs: GraphSet = given
    known = MANIFEST.get(canonical_name(graphs.name))
    if known is not None and known.graphs != len(graphs):
        return replace(graphs, name=f"{graphs.name}-{len(graphs)}")
    return graphs


def graphs_named(name: str, features: str = "auto") -> GraphSet:
    """The set that ``module:name`` names: graphs, or a function that returns some.

    Raises:
        InputError: if there is no such thing, or it makes no set.
    """
    found = named_object(name, "dataset")
    if inspect.isroutine(found) or isinstance(found, type):
        check_call(found, f"{name_of(found)}()")
        found = found()
    return own_graphs(found, name=name.partition(":")[2], features=features)


def named(config: RunConfig, parts: UserParts) -> dict[str, Any]:
    """The name of the set, which is imported if it is a ``module:Name``.

    Raises:
        InputError: if there is no such thing, or two sets have one name.
    """
    dataset, names = config.dataset, parts.names
    if ":" in dataset and dataset not in names:
        graphs = graphs_named(dataset, config.features)
        if parts.graphs.setdefault(graphs.name, graphs) is not graphs:
            raise InputError(f"two sets are named {graphs.name}: give each a name of its own")
        names[dataset] = graphs.name
    return {"dataset": names.get(dataset, dataset)}
