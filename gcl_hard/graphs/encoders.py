"""Graph encoders: node features and edges to node and graph embeddings."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from gcl_hard.errors import InputError, check_at_least, check_option

Readout = Literal["sum", "mean", "both"]
READOUTS = {
    "sum": ("global_add_pool",),
    "mean": ("global_mean_pool",),
    "both": ("global_add_pool", "global_mean_pool"),
}
"""The functions of ``torch_geometric.nn`` that pool nodes, by readout."""
JumpingKnowledge = Literal["cat", "last"]


def xavier(module: nn.Module) -> None:
    """Initialise every Linear of a module: Xavier-uniform weights and zero biases.

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
              \Big(h_v^{(k-1)} + \sum_{u \in N(v)} m_{uv}\Big)\Big)\Big), \qquad
              m_{uv} = h_u^{(k-1)}

    with MLP = Linear–ReLU–Linear. The embedding of a node concatenates all its layers, that of
    a graph the readouts of all layers. With edge features e (GINE) the message is
    m_uv = ReLU(h_u + W e_uv + b). With a virtual node s linked to all nodes of its graph,
    s⁽¹⁾ = VN(Σ_v h_v⁽¹⁾) and s⁽ᵏ⁾ = VN(s⁽ᵏ⁻¹⁾ + Σ_v h_v⁽ᵏ⁾) are added to the input of layer k + 1
    at each node; VN = BN ∘ ReLU ∘ Linear.

    Args:
        n_features: F, width of the node features.
        dim: width of each layer.
        layers: number of layers K ≥ 1.
        readout: ``"sum"`` or ``"mean"`` over the nodes of a graph, or ``"both"``, concatenated;
            node embeddings are then repeated, as the sum and the mean of one node.
        jk: ``"cat"`` for all layers, ``"last"`` for the last one only.
        edge_dim: K, width of the edge features; None ignores them.
        virtual_node: whether to add a virtual node.

    Attributes:
        out_dim: width of the embeddings: ``dim``, times K with ``"cat"``, times two with both
            readouts.

    Raises:
        InputError: for a size below 1, or an unknown readout or jk.

    Source:
        Xu, Hu, Leskovec, Jegelka (2019), *How Powerful are Graph Neural Networks?*; the order of
        ReLU and BatchNorm as in sunfanyunn/InfoGraph, ``unsupervised/gin.py``. Edges as in Hu et
        al. (2020), *Strategies for Pre-training Graph Neural Networks*; the virtual node as in
        Gilmer et al. (2017), *Neural Message Passing for Quantum Chemistry*.

    Example:
        >>> gin = GIN(n_features=7, dim=32, layers=3)
        >>> x, edges = torch.ones(3, 7), torch.tensor([[0, 1], [1, 0]])
        >>> nodes, graphs = gin(x, edges, batch=torch.tensor([0, 0, 1]))
        >>> nodes.shape, graphs.shape
        (torch.Size([3, 96]), torch.Size([2, 96]))
    """

    def __init__(
        self,
        n_features: int,
        dim: int = 32,
        layers: int = 3,
        *,
        readout: Readout = "sum",
        jk: JumpingKnowledge = "cat",
        edge_dim: int | None = None,
        virtual_node: bool = False,
    ) -> None:
        # Here, as torch_geometric takes seconds, and showing results needs none of it.
        from torch_geometric import nn as pyg

        super().__init__()
        for name, size in (("n_features", n_features), ("dim", dim), ("layers", layers)):
            check_at_least(name, size, 1)
        if edge_dim is not None:
            check_at_least("edge_dim", edge_dim, 1)
        check_option("readout", readout, READOUTS)
        check_option("jk", jk, get_args(JumpingKnowledge))
        widths = [n_features] + [dim] * (layers - 1)
        mlps = [nn.Sequential(nn.Linear(w, dim), nn.ReLU(), nn.Linear(dim, dim)) for w in widths]
        self.convs = nn.ModuleList(
            pyg.GINConv(mlp) if edge_dim is None else pyg.GINEConv(mlp, edge_dim=edge_dim)
            for mlp in mlps
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(dim) for _ in range(layers))
        self.virtual = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.BatchNorm1d(dim))
            for _ in range(layers - 1 if virtual_node else 0)
        )
        self.readout, self.jk = readout, jk
        self._add = pyg.global_add_pool
        self._pools = [getattr(pyg, name) for name in READOUTS[readout]]
        self.n_features, self.edge_dim = n_features, edge_dim
        self.out_dim = dim * (layers if jk == "cat" else 1) * len(READOUTS[readout])
        xavier(self)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor,
        edge_attr: Tensor | None = None,
        n_graphs: int | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Embed a batch of graphs.

        Args:
            x: float [N, F], node features.
            edge_index: int64 [2, E], both directions of every edge.
            batch: int64 [N], graph of each node, ascending.
            edge_attr: float [E, K]; ignored without an ``edge_dim``.
            n_graphs: G; read from ``batch`` if None, which ``torch.export`` cannot.

        Returns:
            Node embeddings float [N, d] and graph embeddings float [G, d], d = ``out_dim``.

        Raises:
            InputError: for features of another width, or missing edge features.
        """
        if x.shape[1] != self.n_features:
            raise InputError(
                f"node features are {x.shape[1]} wide, this GIN takes {self.n_features}"
            )
        edges: tuple[Tensor, ...] = ()
        if self.edge_dim is not None:
            expected = [edge_index.shape[1], self.edge_dim]
            if edge_attr is None or list(edge_attr.shape) != expected:
                got = "missing" if edge_attr is None else f"{list(edge_attr.shape)}"
                raise InputError(f"edge features are {got}, this GIN takes {expected}")
            edges = (edge_attr,)
        layers: list[Tensor] = []
        virtual: Tensor | None = None
        for k, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            if k and len(self.virtual):
                pooled = self._add(layers[-1], batch, n_graphs)
                virtual = self.virtual[k - 1](pooled if virtual is None else virtual + pooled)
                x = x + virtual[batch]
            x = norm(torch.relu(conv(x, edge_index, *edges)))
            layers.append(x)
        nodes = torch.cat(layers, 1) if self.jk == "cat" else x
        return (
            torch.cat([nodes] * len(self._pools), 1),
            torch.cat([pool(nodes, batch, n_graphs) for pool in self._pools], 1),
        )
