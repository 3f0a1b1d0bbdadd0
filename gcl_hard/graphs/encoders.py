"""Graph encoders: from node features and edges to node and graph embeddings."""

from __future__ import annotations

from typing import Literal, Protocol

import torch
from torch import Tensor, nn
from torch_geometric.nn import GINConv, global_add_pool, global_mean_pool

from gcl_hard.errors import InputError, unknown

Readout = Literal["sum", "mean"]
READOUTS = {"sum": global_add_pool, "mean": global_mean_pool}


class GraphEncoder(Protocol):
    """What fits the encoder slot: any module with this call."""

    def __call__(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        """Node embeddings [N, d] and graph embeddings [G, d] of a batch of graphs."""


def xavier(module: nn.Module) -> None:
    """Xavier-uniform weights and zero biases in every Linear of a module.

    Args:
        module: changed in place.

    Example:
        >>> linear = nn.Linear(2, 2)
        >>> xavier(linear)
        >>> linear.bias.tolist()
        [0.0, 0.0]
    """
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            nn.init.zeros_(part.bias)


class GIN(nn.Module):
    r"""Graph isomorphism network as InfoGraph uses it.

    .. math:: h_v^{(k)} = \operatorname{BN}\Big(\operatorname{ReLU}\Big(\operatorname{MLP}^{(k)}
              \Big(h_v^{(k-1)} + \sum_{u \in N(v)} h_u^{(k-1)}\Big)\Big)\Big)

    with MLP = Linear–ReLU–Linear. A node's embedding is all its layers concatenated, a graph's
    the readout of every layer, concatenated.

    Args:
        in_dim: F, width of the node features.
        dim: width of each layer.
        layers: number of layers K ≥ 1; embeddings are K · dim wide.
        readout: ``"sum"`` or ``"mean"`` over the nodes of a graph.

    Raises:
        InputError: for a size below 1 or an unknown readout.

    Source:
        Xu, Hu, Leskovec, Jegelka (2019), *How Powerful are Graph Neural Networks?*; the order of
        ReLU and BatchNorm as in sunfanyunn/InfoGraph, ``unsupervised/gin.py``.

    Example:
        >>> gin = GIN(in_dim=7, dim=32, layers=3)
        >>> x, edges = torch.ones(3, 7), torch.tensor([[0, 1], [1, 0]])
        >>> nodes, graphs = gin(x, edges, batch=torch.tensor([0, 0, 1]))
        >>> nodes.shape, graphs.shape
        (torch.Size([3, 96]), torch.Size([2, 96]))
    """

    def __init__(
        self, in_dim: int, dim: int = 32, layers: int = 3, *, readout: Readout = "sum"
    ) -> None:
        super().__init__()
        for name, size in (("in_dim", in_dim), ("dim", dim), ("layers", layers)):
            if size < 1:
                raise InputError(f"{name} must be at least 1, got {size}")
        if readout not in READOUTS:
            raise unknown("readout", readout, READOUTS)
        widths = [in_dim] + [dim] * layers
        self.convs = nn.ModuleList(
            GINConv(nn.Sequential(nn.Linear(width, dim), nn.ReLU(), nn.Linear(dim, dim)))
            for width in widths[:-1]
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(dim) for _ in range(layers))
        self.readout = readout
        self.in_dim = in_dim
        self.out_dim = dim * layers
        xavier(self)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        """Embed a batch of graphs.

        Args:
            x: float [N, F], node features.
            edge_index: int64 [2, E], both directions of every edge.
            batch: int64 [N], graph of each node, ascending.

        Returns:
            Node embeddings float [N, K · dim] and graph embeddings float [G, K · dim].
        """
        if x.shape[1] != self.in_dim:
            raise InputError(f"node features are {x.shape[1]} wide, this GIN takes {self.in_dim}")
        layers = []
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = norm(torch.relu(conv(x, edge_index)))
            layers.append(x)
        nodes = torch.cat(layers, 1)
        return nodes, READOUTS[self.readout](nodes, batch)
