"""InfoGraph: nodes against graphs, with any encoder and any method of the table."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from gcl_hard.graphs.contrast import GraphContrast, Graphs, encode
from gcl_hard.graphs.encoders import xavier
from gcl_hard.losses import ContrastiveLoss


class Head(nn.Module):
    r"""InfoGraph's head: three Linear–ReLU plus a linear shortcut, width kept.

    .. math:: f(z) = (\operatorname{ReLU} \circ \operatorname{Linear})^3(z)
              + \operatorname{Linear}(z)

    Args:
        dim: width of input and output.

    Source:
        sunfanyunn/InfoGraph, ``unsupervised/model.py`` (its head and its Xavier initialisation
        come from that code, not from a paper's equation).

    Example:
        >>> import torch
        >>> Head(96)(torch.zeros(5, 96)).shape
        torch.Size([5, 96])
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.block = nn.Sequential(
            *(layer for _ in range(3) for layer in (nn.Linear(dim, dim), nn.ReLU()))
        )
        self.shortcut = nn.Linear(dim, dim)
        xavier(self)

    def forward(self, z: Tensor) -> Tensor:
        """Map float [N, dim] to float [N, dim]."""
        out: Tensor = self.block(z) + self.shortcut(z)
        return out


class InfoGraph(GraphContrast):
    """Contrast every node with its own graph and with the others of the batch.

    Args:
        encoder: any module ``(x, edge_index, batch) -> (nodes [N, d], graphs [G, d])``; its
            weights are left as they are.
        out_dim: d; read from ``encoder.out_dim`` if None.
        method: a name of ``METHODS``.
        loss: a :class:`ContrastiveLoss` of your own instead of a method's.
        **options: of :func:`gcl_hard.contrastive_loss`: ``beta``, ``threshold``,
            ``class_prior``, ``objective`` (JSD here by default), ``temperature``,
            ``detach_weights``, …

    Raises:
        InputError: if the width is not known, or the encoder turns out to return other shapes.

    Source:
        Sun, Hoffmann, Verma, Tang (2020), *InfoGraph*; under a hardening, joshr17/HCL's graph
        code with the paper's sign (docs: discrepancies).

    Example:
        >>> from gcl_hard.graphs import GIN, load
        >>> mutag = load("MUTAG")
        >>> model = InfoGraph(GIN(mutag.n_features), method="hscl", beta=1.0)
        >>> model(mutag.all()).isfinite()
        tensor(True)
        >>> model.embed(mutag.all()).shape
        torch.Size([188, 96])
    """

    def __init__(
        self,
        encoder: nn.Module,
        out_dim: int | None = None,
        *,
        method: str = "hscl",
        loss: ContrastiveLoss | None = None,
        **options: Any,
    ) -> None:
        if loss is None:
            options = {"objective": "jsd", **options}
        super().__init__(encoder, out_dim, method, loss, options)
        self.node_head = Head(self.out_dim)
        self.graph_head = Head(self.out_dim)

    def forward(self, graphs: Graphs) -> Tensor:
        """Loss of a batch, float [], nats."""
        nodes, z = encode(self.encoder, graphs, self.out_dim)
        return self.loss.local_global(
            self.node_head(nodes), self.graph_head(z), graphs.batch, graphs.y
        )
