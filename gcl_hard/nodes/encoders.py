"""Node encoders: PyTorch Geometric's graph convolutions on dense or sparse features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, SAGEConv

from gcl_hard.errors import check_at_least
from gcl_hard.graphs.sparse import check_ends, csr, in_degree, sum_to
from gcl_hard.nodes.views import Degrees, weights_of

Activation = Literal["relu", "prelu"]
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"relu": nn.ReLU, "prelu": nn.PReLU}


class _Convolutions(nn.Module):
    """Layers of convolutions, each followed by an activation."""

    sparse_features = True

    def __init__(
        self,
        n_features: int,
        dim: int = 256,
        layers: int = 2,
        *,
        activation: Activation = "relu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_at_least("layers", layers, 1)
        self.out_dim = dim
        self.dropout = nn.Dropout(dropout)
        widths = [n_features, *[2 * dim] * (layers - 1), dim]
        self.convs = nn.ModuleList(map(self._layer, widths[:-1], widths[1:]))
        self.activations = nn.ModuleList(ACTIVATIONS[activation]() for _ in self.convs)

    def _layer(self, width: int, out: int) -> nn.Module:
        raise NotImplementedError

    def _adjacency(
        self, edge_index: Tensor, edge_weight: Tensor | None, n: int, degrees: Degrees | None
    ) -> Tensor:
        """The matrix that propagates embeddings, [N, N], with a row for each target node."""
        raise NotImplementedError

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        degrees: Degrees | None = None,
    ) -> Tensor:
        """Embeddings of the nodes, float [N, dim].

        Args:
            x: float [N, F], dense or ``torch.sparse_csr``.
            edge_index: int64 [2, E], from row 0 to row 1.
            edge_weight: float [E], or None.
            degrees: those in the whole graph, if this is a part that stands for it.
        """
        if torch.compiler.is_compiling() is False:
            check_ends(edge_index, x.shape[0])
        adjacency = self._adjacency(edge_index, edge_weight, x.shape[0], degrees)
        for layer, (conv, activation) in enumerate(zip(self.convs, self.activations, strict=True)):
            x = activation(conv(self.dropout(x) if layer else x, adjacency))
        return x


class GCN(_Convolutions):
    r"""Graph convolutional network.

    .. math:: H^{(k)} = \sigma(\hat A H^{(k-1)} W^{(k)} + b^{(k)}), \qquad
              \hat A = D^{-1/2} (A + I) D^{-1/2}

    Hidden layers are twice as wide as the last one, as in GRACE. Sparse features are multiplied as
    they are.

    Args:
        n_features: F.
        dim: d, width of the embeddings.
        layers: convolutions, at least 1.
        activation: σ, ``"relu"`` or ``"prelu"``, after every layer.
        dropout: share of the hidden embeddings that is dropped in training.

    Raises:
        InputError: for no layers.

    Source:
        Kipf & Welling (2017), *Semi-Supervised Classification with Graph Convolutional Networks*;
        the widths are those of CRIPAC-DIG/GRACE.

    Example:
        >>> GCN(3, dim=8)(torch.eye(3), torch.tensor([[0, 1], [1, 0]])).shape
        torch.Size([3, 8])
    """

    def _layer(self, width: int, out: int) -> nn.Module:
        return GCNConv(width, out, normalize=False)

    def _adjacency(
        self, edge_index: Tensor, edge_weight: Tensor | None, n: int, degrees: Degrees | None
    ) -> Tensor:
        return normalised_adjacency(edge_index, edge_weight, n, degrees)


class _LinearFirst(SAGEConv):  # type: ignore[misc]
    """A GraphSAGE convolution that multiplies by the weights before it averages over neighbours,
    which gives the same and lets features be sparse.
    """

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        mean: Tensor = adjacency @ nn.functional.linear(x, self.lin_l.weight)
        return mean + self.lin_l.bias + self.lin_r(x)


class GraphSAGE(_Convolutions):
    r"""GraphSAGE with the mean over neighbours; the arguments are those of :class:`GCN`.

    .. math:: h_v^{(k)} = \sigma\Big(W_1^{(k)} \operatorname{mean}_{u \in N(v)} h_u^{(k-1)}
              + W_2^{(k)} h_v^{(k-1)} + b^{(k)}\Big)

    Source:
        Hamilton, Ying, Leskovec (2017), *Inductive Representation Learning on Large Graphs*.

    Example:
        >>> GraphSAGE(3, dim=8)(torch.eye(3), torch.tensor([[0, 1], [1, 0]])).shape
        torch.Size([3, 8])
    """

    def _layer(self, width: int, out: int) -> nn.Module:
        return _LinearFirst(width, out)

    def _adjacency(
        self, edge_index: Tensor, edge_weight: Tensor | None, n: int, degrees: Degrees | None
    ) -> Tensor:
        weight = weights_of(edge_index, edge_weight)
        total = degrees.weight / degrees.scale if degrees else sum_to(edge_index, weight, n)
        return rows_of_targets(edge_index, weight / total[edge_index[1]], n)


NODE_ENCODERS: dict[str, type[_Convolutions]] = {"gcn": GCN, "sage": GraphSAGE}
"""The built-in node encoders, by name."""


def normalised_adjacency(
    edge_index: Tensor, edge_weight: Tensor | None, n: int, degrees: Degrees | None = None
) -> Tensor:
    r""":math:`\hat A = D^{-1/2} (A + I) D^{-1/2}`, ``torch.sparse_csr`` [N, N].

    For a part of a graph, D is that of the whole graph, and if the part has k of the d edges that
    lead to a node, each has d/k times its weight.

    Args:
        edge_index: int64 [2, E], from row 0 to row 1; entry (v, u) of A stands for u → v.
        edge_weight: float [E], or None for 1.
        n: N.
        degrees: those in the whole graph, if this is a part that stands for it.

    Example:
        >>> normalised_adjacency(torch.tensor([[0, 1], [1, 0]]), None, 2).to_dense()
        tensor([[0.5000, 0.5000],
                [0.5000, 0.5000]])
    """
    if degrees is not None:
        source, target = edge_index
        weight, is_loop = weights_of(edge_index, edge_weight), source == target
        # A loop that an augmentation has added keeps its weight, and others have 1.
        added = sum_to(edge_index, weight * is_loop, n)
        loop = torch.where(added > 0, added, 1)
        root = (degrees.weight - added + loop).rsqrt()
        weight = (weight * ~is_loop) * (root * degrees.scale)[target] * root[source]
        loops = torch.arange(n, device=source.device).expand(2, n)
        return rows_of_targets(
            torch.cat([edge_index, loops], 1), torch.cat([weight, loop * root.square()]), n
        )
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

    edges, weight = gcn_norm(
        edge_index, edge_weight, n, add_self_loops=True, dtype=torch.get_default_dtype()
    )
    return rows_of_targets(edges, weight, n)


def rows_of_targets(edge_index: Tensor, weight: Tensor, n: int) -> Tensor:
    """Weighted edges as a sparse matrix [N, N] with a row for each target node."""
    order = edge_index[1].argsort(stable=True)
    counts = in_degree(edge_index, n)
    starts = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    return csr(starts, edge_index[0][order], weight[order], (n, n))
