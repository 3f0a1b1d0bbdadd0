"""Export of encoders of graphs, molecules and nodes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from gcl_hard.errors import InputError
from gcl_hard.experiments.exporting import Exportable
from gcl_hard.graphs.encoders import GIN
from gcl_hard.graphs.features import ATOMS, BONDS, CODES, vocabulary
from gcl_hard.graphs.pointers import PointerEncoder, paths

NODES, EDGES, POINTERS = Dim("nodes", min=1), Dim("edges", min=0), Dim("graphs_plus_1", min=2)


def graphs_exportable(encoder: nn.Module, saved: Mapping[str, Any]) -> Exportable:
    """A graph encoder for export, with batches as pointers.

    Args:
        encoder: a graph encoder.
        saved: ``n_features`` and ``edge_dim``; ``features``, ``columns`` and ``edge_columns``, if
            known.
    """
    module, codes = PointerEncoder(encoder), saved.get("features") == CODES
    parameters = inspect.signature(encoder.forward).parameters
    edge_dim = encoder.edge_dim if isinstance(encoder, GIN) else saved["edge_dim"]
    if "edge_attr" not in parameters:
        edge_dim = None
    dynamic_shapes = {"x": {0: NODES}, "edge_index": {1: EDGES}, "ptr": {0: POINTERS}}
    if edge_dim is not None:
        dynamic_shapes["edge_attr"] = {0: EDGES}

    def example(n: int) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(n)
        edge_index, ptr = paths(n)

        def features(rows: int, width: int, fields: Sequence[int]) -> Tensor:
            if codes:
                columns = [torch.randint(size, (rows,), generator=generator) for size in fields]
                return torch.stack(columns, 1)
            return torch.randn(rows, width, generator=generator, dtype=_precision(encoder))

        inputs = {
            "x": features(int(ptr[-1]), saved["n_features"], [*ATOMS.values()]),
            "edge_index": edge_index,
            "ptr": ptr,
        }
        if edge_dim is not None:
            inputs["edge_attr"] = features(edge_index.shape[1], edge_dim, [*BONDS.values()])
        return inputs

    stored = ("features", "columns", *(("edge_columns",) if edge_dim is not None else ()))
    facts = {name: saved[name] for name in stored if name in saved}
    return Exportable(
        module, dynamic_shapes, {"nodes": "nodes", "graphs": "graphs"}, example,
        {**facts, **(vocabulary() if codes else {})},
        "" if module.counts else "; if what pools nodes stops it: a parameter n_graphs=None of "
        "its forward is given the number of graphs, for global_add_pool(x, batch, n_graphs)",
    )  # fmt: skip


def molecules_exportable(encoder: nn.Module) -> Exportable:
    """A molecule encoder, on codes of atoms and bonds, for export."""
    return graphs_exportable(
        encoder, {"features": CODES, "n_features": len(ATOMS), "edge_dim": len(BONDS)}
    )


def nodes_exportable(encoder: nn.Module, saved: Mapping[str, Any]) -> Exportable:
    """A node encoder on dense features, for export.

    Raises:
        InputError: for an encoder that multiplies by sparse matrices, as ours do.
    """
    if getattr(encoder, "sparse_features", False):
        raise InputError(
            f"{type(encoder).__name__} cannot be exported: it multiplies by sparse matrices, which "
            f"torch.export does not trace and ONNX does not have"
        )

    def example(n: int) -> dict[str, Tensor]:
        edge_index, ptr = paths(n)
        generator = torch.Generator().manual_seed(n)
        shape = int(ptr[-1]), saved["n_features"]
        x = torch.randn(shape, generator=generator, dtype=_precision(encoder))
        return {"x": x, "edge_index": edge_index}

    dynamic_shapes = {"x": {0: NODES}, "edge_index": {1: EDGES}}
    facts = {"columns": saved["columns"]} if saved.get("columns") else {}
    return Exportable(encoder, dynamic_shapes, {"nodes": "nodes"}, example, facts)


def _precision(encoder: nn.Module) -> torch.dtype:
    """Floating-point dtype of an encoder's weights and inputs."""
    dtypes = (weight.dtype for weight in encoder.parameters() if weight.is_floating_point())
    return next(dtypes, torch.float32)
