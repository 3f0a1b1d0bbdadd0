"""What the graph models share: an encoder, embeddings for downstream use, and mostly a loss."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor, nn

from gcl_hard.errors import InputError
from gcl_hard.losses import ContrastiveLoss
from gcl_hard.models import evaluating, loss_of, width


class Graphs(Protocol):
    """A batch of graphs: PyTorch Geometric's ``Batch`` and our ``GraphBatch`` both fit."""

    x: Tensor
    edge_index: Tensor
    batch: Tensor
    y: Tensor

    @property
    def num_graphs(self) -> int:
        """G."""


class GraphModel(nn.Module):
    """A graph encoder in training: what all models share.

    Args:
        encoder: any module ``(x, edge_index, batch) -> (nodes [N, d], graphs [G, d])``.
        out_dim: d; read from ``encoder.out_dim`` if None.
    """

    def __init__(self, encoder: nn.Module, out_dim: int | None = None) -> None:
        super().__init__()
        self.out_dim: int = width(encoder, out_dim)
        self.encoder: nn.Module = encoder

    def embed(self, graphs: Graphs) -> Tensor:
        """The encoder's readout in eval mode, without gradient: what an SVM sees.

        Args:
            graphs: a batch.

        Returns:
            float [G, d]; every module is left in the mode it was in.
        """
        with evaluating(self):
            return encode(self.encoder, graphs, self.out_dim)[1]


class GraphContrast(GraphModel):
    """An encoder trained by a contrastive loss; subclasses say what is contrasted with what.

    Args:
        encoder: any module ``(x, edge_index, batch) -> (nodes [N, d], graphs [G, d])``.
        out_dim: d; read from ``encoder.out_dim`` if None.
        method: a name of ``METHODS``; ignored if ``loss`` is given.
        loss: a :class:`ContrastiveLoss` of your own instead of a method's.
        options: of :func:`gcl_hard.contrastive_loss`; an error beside ``loss``.
    """

    def __init__(
        self,
        encoder: nn.Module,
        out_dim: int | None,
        method: str,
        loss: ContrastiveLoss | None,
        options: dict[str, Any],
    ) -> None:
        chosen = loss_of(method, loss, options)
        super().__init__(encoder, out_dim)
        self.loss: ContrastiveLoss = chosen

    def set_epoch(self, epoch: int, epochs: int) -> None:
        """Move the loss's schedules to ``epoch`` (1 … ``epochs``)."""
        self.loss.set_epoch(epoch, epochs)


def encode(encoder: nn.Module, graphs: Graphs, out_dim: int) -> tuple[Tensor, Tensor]:
    """Call an encoder and check what it returns.

    Args:
        encoder: a :class:`GraphEncoder`; one with an ``edge_dim`` is called with
            ``edge_attr=graphs.edge_attr`` too.
        graphs: a batch.
        out_dim: d, the width that both outputs must have.

    Returns:
        Node embeddings float [N, d] and graph embeddings float [G, d].

    Raises:
        InputError: if there are no node features, or the encoder returned something else; names
            both shapes.

    Example:
        >>> from gcl_hard.graphs import GIN, load
        >>> mutag = load("MUTAG")
        >>> nodes, graphs = encode(GIN(mutag.n_features), mutag.all(), out_dim=96)
        >>> nodes.shape
        torch.Size([3371, 96])
    """
    x, batch = graphs.x, graphs.batch
    if x is None:
        raise InputError(
            "these graphs have no node features (x is None): make some, for example with "
            'GraphSet.from_graphs(graphs, features="degree-onehot")'
        )
    takes_edges = getattr(encoder, "edge_dim", None) is not None
    edges = {"edge_attr": getattr(graphs, "edge_attr", None)} if takes_edges else {}
    out = encoder(x, graphs.edge_index, batch, **edges)
    n_graphs = graphs.num_graphs
    expected = f"(nodes [{len(x)}, {out_dim}], graphs [{n_graphs}, {out_dim}])"
    if not (isinstance(out, tuple) and len(out) == 2 and all(isinstance(o, Tensor) for o in out)):
        raise InputError(
            f"the encoder must return {expected}, a pair of tensors, got {type(out).__name__}"
        )
    z_nodes, z_graphs = out
    if z_nodes.shape != (len(x), out_dim) or z_graphs.shape != (n_graphs, out_dim):
        raise InputError(
            f"the encoder must return {expected}, got (nodes {list(z_nodes.shape)}, graphs "
            f"{list(z_graphs.shape)}); is out_dim={out_dim} its width?"
        )
    return z_nodes, z_graphs
