"""Models of nodes: contrast between the nodes of two views of a graph, and the supervised one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gcl_hard.core.seeds import Draws, Generators
from gcl_hard.errors import InputError, check_at_least
from gcl_hard.functional.labels import labels_for
from gcl_hard.functional.negatives import readable
from gcl_hard.graphs.augment import Transform
from gcl_hard.graphs.encoders import xavier
from gcl_hard.losses.loss import ContrastiveLoss
from gcl_hard.models import evaluating, loss_of, takes, width
from gcl_hard.nodes.views import NodeBatch, NodeViews, transformed_by

if TYPE_CHECKING:
    from typing import Unpack

    from gcl_hard.losses.keywords import MethodOptions

UNKNOWN = -1
"""The label of a node whose class is not known."""


class NodeModel(nn.Module):
    """Base of the node models: an encoder and its embeddings.

    Args:
        encoder: any module ``(x, edge_index) -> [N, d]``; it is given edge weights, where there
            are some, as ``edge_weight``, and sparse features if its attribute ``sparse_features``
            is true, dense ones otherwise.
        out_dim: d; read from ``encoder.out_dim`` if None.
    """

    def __init__(self, encoder: nn.Module, out_dim: int | None = None) -> None:
        super().__init__()
        self.out_dim: int = width(encoder, out_dim)
        self.encoder: nn.Module = encoder

    def embed(self, graph: Any) -> NDArray[np.float32]:
        """Embeddings of all nodes of a graph, in evaluation mode.

        Args:
            graph: a :class:`NodeSet`; a ``torch_geometric.data.Data``, which is read as
                :meth:`NodeSet.from_graph` does; or a :class:`NodeBatch`, as it is.

        Returns:
            float32 [N, d].
        """
        batch = NodeBatch.of(graph)
        with evaluating(self):
            z: NDArray[np.float32] = (
                encode_nodes(self.encoder, batch, self.out_dim).float().cpu().numpy()
            )
        return z


class NodeContrast(Draws, NodeModel):
    """Contrast every node's embeddings in two random views of a graph.

    The positive of a node is itself in the other view, and with class positives every node of its
    class; its candidates are the nodes of both views. The loss is a mean over anchors: under
    ``reduction="pairs"`` the 10 % of nodes with labels would make up almost the whole loss of class
    positives (Cora, scl, 40 steps at γ = 0.4, two splits: 74.3 % instead of 82.2).

    Args:
        encoder: any module ``(x, edge_index[, edge_weight]) -> [N, d]``, see :class:`NodeModel`.
        out_dim: d; read from ``encoder.out_dim`` if None.
        method: a name in ``METHODS``, ``ucl`` if None. Label-aware ones read
            ``y``, which is −1 where a label is not known: such a node is a negative of all others.
        loss: a :class:`ContrastiveLoss` of your own instead of a method's.
        views: shares of edges and columns that each view drops.
        augmentations: functions of your own from a ``torch_geometric.data.Data`` to a changed one
            of the same nodes, applied to each view after these.
        projection: width of the hidden layer of the projection head; d if None.
        anchors: nodes drawn as anchors in each step; None for all. Candidates are all nodes.
        seed: seed of views and anchors.
        **options: options of :func:`gcl_hard.contrastive_loss`.

    Raises:
        InputError: if the width is unknown, or for a size below 1.

    Source:
        Zhu et al. 2020, *Deep Graph Contrastive Representation Learning* (GRACE), whose loss is
        that of ``ucl``.

    Example:
        >>> from gcl_hard.nodes import GCN
        >>> ring = NodeBatch(torch.eye(4), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
        >>> model = NodeContrast(GCN(4, dim=8), method="hucl", beta=1.0)
        >>> model(ring).isfinite(), model.embed(ring).shape
        (tensor(True), (4, 8))
    """

    def __init__(
        self,
        encoder: nn.Module,
        out_dim: int | None = None,
        *,
        method: str | None = None,
        loss: ContrastiveLoss | None = None,
        views: NodeViews = NodeViews(),  # noqa: B008 - it is frozen
        augmentations: Sequence[Transform] = (),
        projection: int | None = None,
        anchors: int | None = None,
        seed: int = 0,
        **options: Unpack[MethodOptions],
    ) -> None:
        if loss is None:
            options = {"reduction": "anchors", "unknown": UNKNOWN, **options}
        chosen = loss_of(method, loss, options)
        super().__init__(encoder, out_dim)
        if chosen.takes_items:
            raise InputError(
                "hard positives are chosen from several views of an item, and a node has two: give "
                "another method than spacl, or positives view or class"
            )
        if not callable(views):
            raise InputError(f"views is {views!r}: give views of a graph, as NodeViews(…)")
        for name, size in (("projection", projection), ("anchors", anchors)):
            if size is not None:
                check_at_least(name, size, 1)
        if anchors is not None:
            chosen.check_anchors()
        self.loss: ContrastiveLoss = chosen
        self.views = views
        self.augmentations = tuple(augmentations)
        hidden = projection or self.out_dim
        self.projection = nn.Sequential(
            nn.Linear(self.out_dim, hidden), nn.ELU(), nn.Linear(hidden, self.out_dim)
        )
        xavier(self.projection)
        self.anchors = anchors
        self._generators = Generators(seed)

    def set_epoch(self, epoch: int, epochs: int) -> None:
        """Set the schedules of the loss to ``epoch`` (1 … ``epochs``)."""
        self.loss.set_epoch(epoch, epochs)

    def forward(self, graph: Any) -> Tensor:
        """Loss of a graph or a batch of one, float [], nats."""
        batch = NodeBatch.of(graph)
        generator = self._generators.on(batch.edge_index.T)
        z1, z2 = (self.project(view) for view in self.views_of(batch, generator))
        y, chosen = batch.y, None
        if batch.seeds is not None:
            z1, z2 = z1[: batch.seeds], z2[: batch.seeds]
            y = None if y is None else y[: batch.seeds]
        if self.anchors is not None and self.anchors < len(z1):
            chosen = torch.randperm(len(z1), generator=generator, device=z1.device)[: self.anchors]
        return self.loss(z1, z2, y, anchors=chosen)

    def views_of(self, batch: NodeBatch, generator: torch.Generator) -> tuple[NodeBatch, NodeBatch]:
        """Both views of a batch; the generator is on its device."""
        first, second = (
            transformed_by(
                self.views(batch, generator, second=number == 1), self.augmentations, generator
            )
            for number in range(2)
        )
        return first, second

    def project(self, batch: NodeBatch) -> Tensor:
        """Projected embeddings of the nodes, the input of the loss, float [N, d]."""
        return self.projection(encode_nodes(self.encoder, batch, self.out_dim))


class NodeClassifier(NodeModel):
    r"""Supervised baseline: encoder and linear classifier trained end to end with cross-entropy.

    .. math:: \ell = -\frac{1}{|L|} \sum_{v \in L} \log \operatorname{softmax}(W z_v + b)_{y_v}

    over the nodes L whose label is known.

    Args:
        encoder: any module ``(x, edge_index[, edge_weight]) -> [N, d]``, see :class:`NodeModel`.
        n_classes: C ≥ 2.
        out_dim: d; read from ``encoder.out_dim`` if None.

    Raises:
        InputError: for fewer than two classes, if the width is unknown, or, when it is called, if
            no label is known or one is no class.

    Source:
        Kipf & Welling (2017), *Semi-Supervised Classification with Graph Convolutional Networks*.

    Example:
        >>> from gcl_hard.nodes import GCN
        >>> edges, y = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), torch.tensor([0, 1, -1, -1])
        >>> model = NodeClassifier(GCN(4, dim=8), n_classes=2)
        >>> ring = NodeBatch(torch.eye(4), edges, y=y)
        >>> model(ring).isfinite(), model.scores(ring).shape
        (tensor(True), torch.Size([4, 2]))
    """

    def __init__(self, encoder: nn.Module, n_classes: int, out_dim: int | None = None) -> None:
        check_at_least("n_classes", n_classes, 2)
        super().__init__(encoder, out_dim)
        self.classifier = nn.Linear(self.out_dim, n_classes)
        xavier(self.classifier)

    def forward(self, graph: Any) -> Tensor:
        """Loss of a graph or a batch of one, float [], nats."""
        batch = NodeBatch.of(graph)
        y = self._labels(batch)
        known = (y != UNKNOWN).nonzero().flatten()
        logits = self._logits(batch)[: len(y)][known]
        if not len(known):
            if batch.seeds is None:
                raise InputError(
                    "a classifier of nodes needs labels, and none is known: all are −1"
                )
            return logits.sum()  # a batch of neighbours may have none
        return nn.functional.cross_entropy(logits, y[known])

    def _labels(self, batch: NodeBatch) -> Tensor:
        """The labels of a batch's own nodes, checked."""
        y = labels_for(batch.y, batch.num_nodes, "a classifier of nodes", None, unknown=UNKNOWN)
        n = self.classifier.out_features
        if readable(y) and y.max() >= n:
            raise InputError(
                f"labels of a classifier of {n} classes are 0..{n - 1}, and {UNKNOWN} where "
                f"unknown, got {int(y.max())}"
            )
        return y[: batch.seeds].long()

    def scores(self, graph: Any) -> Tensor:
        """Logits of all nodes in evaluation mode, float [N, C]."""
        with evaluating(self):
            return self._logits(NodeBatch.of(graph))

    def _logits(self, batch: NodeBatch) -> Tensor:
        return self.classifier(encode_nodes(self.encoder, batch, self.out_dim))


def embed_nodes(encoder: nn.Module, graph: Any) -> NDArray[np.float32]:
    """Embeddings of all nodes of a graph by an encoder alone; see :meth:`NodeModel.embed`.

    Example:
        >>> from gcl_hard.nodes import GCN
        >>> edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> embed_nodes(GCN(4, dim=8), NodeBatch(torch.eye(4), edges)).shape
        (4, 8)
    """
    return NodeModel(encoder).embed(graph)


def encode_nodes(encoder: nn.Module, batch: NodeBatch, out_dim: int) -> Tensor:
    """Call an encoder of nodes and check its output.

    Args:
        encoder: see :class:`NodeModel`.
        batch: a graph, or a part of one.
        out_dim: d, the required width.

    Returns:
        float [N, d].

    Raises:
        InputError: if the encoder returns anything else, or reads no weights where edges have some.

    Example:
        >>> from gcl_hard.nodes import GCN
        >>> edges = torch.tensor([[0, 1], [1, 0]])
        >>> encode_nodes(GCN(2, dim=8), NodeBatch(torch.eye(2), edges), 8).shape
        torch.Size([2, 8])
    """
    x = batch.x
    if x.layout != torch.strided and not getattr(encoder, "sparse_features", False):
        x = x.to_dense()
    named: dict[str, Any] = {}
    if batch.edge_weight is not None:
        if not takes(type(encoder).forward, "edge_weight"):
            raise InputError(
                f"the edges have weights, and {type(encoder).__name__} takes none: give its "
                f"forward a parameter edge_weight, or leave the weights out of the graph"
            )
        named["edge_weight"] = batch.edge_weight
    if batch.degrees is not None and takes(type(encoder).forward, "degrees"):
        named["degrees"] = batch.degrees
    z = encoder(x, batch.edge_index, **named)
    expected = [batch.num_nodes, out_dim]
    if not isinstance(z, Tensor) or [*z.shape] != expected:
        got = [*z.shape] if isinstance(z, Tensor) else type(z).__name__
        raise InputError(
            f"the encoder {type(encoder).__name__} must return embeddings of the nodes {expected}, "
            f"got {got}"
        )
    return z
