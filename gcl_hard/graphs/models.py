"""Graph models: InfoGraph, two-view contrast and the supervised baseline, with any encoder."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, reduce
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader

from gcl_hard.core.seeds import Draws, Generators
from gcl_hard.errors import InputError, check_at_least
from gcl_hard.functional.negatives import readable
from gcl_hard.graphs.augment import Transform, augment, check_views
from gcl_hard.graphs.data import GraphBatch, GraphSet, unread_of, warn_of_unread
from gcl_hard.graphs.encoders import GIN, xavier
from gcl_hard.losses.loss import ContrastiveLoss
from gcl_hard.models import InParts, evaluating, loss_of, takes, width

if TYPE_CHECKING:
    from typing import Unpack

    from gcl_hard.losses.keywords import MethodOptions, SeededOptions

MOST_NODES = 250_000
"""Most nodes that are embedded at a time."""


class Graphs(Protocol):
    """A batch of graphs, such as PyTorch Geometric's ``Batch`` or our ``GraphBatch``."""

    x: Tensor
    edge_index: Tensor
    batch: Tensor
    y: Tensor

    @property
    def num_graphs(self) -> int:
        """G."""


class GraphModel(nn.Module):
    """Base of the graph models: an encoder and its embeddings.

    Args:
        encoder: any module ``(x, edge_index, batch) -> (nodes [N, d], graphs [G, d])``.
        out_dim: d; read from ``encoder.out_dim`` if None.
    """

    _warned: frozenset[str] = frozenset()
    """Unread attributes of graphs that a warning has named."""

    def __init__(self, encoder: nn.Module, out_dim: int | None = None) -> None:
        super().__init__()
        self.out_dim: int = width(encoder, out_dim)
        self.encoder: nn.Module = encoder

    @overload
    def embed(self, graphs: Graphs, *, nodes: bool = False) -> Tensor: ...

    @overload
    def embed(
        self,
        graphs: GraphSet | Iterable[Any],
        batch_size: int | None = None,
        *,
        nodes: bool = False,
    ) -> NDArray[np.float32]: ...

    def embed(
        self, graphs: Any, batch_size: int | None = None, *, nodes: bool = False
    ) -> Tensor | NDArray[np.float32]:
        """Embeddings of graphs for downstream tasks: the readout in evaluation mode, no gradient.

        Args:
            graphs: a batch; or a :class:`GraphSet`, a loader of batches, or any input of
                :meth:`GraphSet.from_graphs`, which are embedded batch by batch.
            batch_size: graphs of a set in a batch; None for as many as have about 250,000 nodes.
            nodes: whether to return embeddings of all nodes, graph by graph.

        Returns:
            float [G, d], or [N, d] of nodes; for a batch a tensor, otherwise a NumPy array of
            float32. The mode of every module is restored.

        Raises:
            InputError: for anything else.

        Warns:
            UserWarning: names unread tensors and arrays of the graphs.
        """
        with evaluating(self):
            if getattr(graphs, "batch", None) is not None and not isinstance(graphs, GraphSet):
                return encode(self.encoder, self._read(graphs), self.out_dim)[0 if nodes else 1]
            self._warned = frozenset()  # one warning per call, as in from_graphs
            device = next((p.device for p in self.parameters()), torch.device("cpu"))
            embeddings = (
                encode(self.encoder, self._read(batch).to(device), self.out_dim)
                for batch in _batches(graphs, batch_size)
            )
            parts = [(z_nodes if nodes else z).float().cpu() for z_nodes, z in embeddings]
        return torch.cat(parts).numpy() if parts else np.empty((0, self.out_dim), np.float32)

    def _read(self, graphs: Any) -> GraphBatch:
        """A batch as encoder input; warns once of unread attributes."""
        batch = _with_features(graphs)
        unread = set() if torch.compiler.is_compiling() else unread_of(graphs) - self._warned
        if unread:
            self._warned |= unread
            warn_of_unread(unread, stacklevel=3)
        return batch


def embed_graphs(
    encoder: nn.Module, graphs: Any, batch_size: int | None = None, *, nodes: bool = False
) -> Tensor | NDArray[np.float32]:
    """Embeddings of graphs by an encoder alone; see :meth:`GraphModel.embed`.

    Example:
        >>> from gcl_hard.graphs import GIN, load_graphs
        >>> embed_graphs(GIN(7), load_graphs("MUTAG", download=False)).shape
        (188, 96)
    """
    return GraphModel(encoder).embed(graphs, batch_size, nodes=nodes)


class GraphContrast(GraphModel):
    """Base of the contrastive graph models: an encoder and a loss.

    Args:
        encoder: any module ``(x, edge_index, batch) -> (nodes [N, d], graphs [G, d])``.
        out_dim: d; read from ``encoder.out_dim`` if None.
        method: a name in ``METHODS``, ``ucl`` if None.
        loss: a :class:`ContrastiveLoss` in place of the method's.
        options: options of :func:`gcl_hard.contrastive_loss`; an error together with ``loss``.
    """

    def __init__(
        self,
        encoder: nn.Module,
        out_dim: int | None,
        method: str | None,
        loss: ContrastiveLoss | None,
        options: Mapping[str, Any],
    ) -> None:
        chosen = loss_of(method, loss, options)
        super().__init__(encoder, out_dim)
        self.loss: ContrastiveLoss = chosen

    def forward(self, graphs: Graphs) -> Tensor:
        """Loss of a batch, float [], nats."""
        (whole,), loss = self._split(self._read(graphs), 1)
        return loss(*self.encode_part(whole))

    def in_parts(self, graphs: Graphs, parts: int) -> InParts:
        """A batch in parts for :meth:`encode_part`, at most one per graph, and the loss of their
        joined outputs; see :func:`gcl_hard.cached_backward`. Views are drawn here.
        """
        return self._split(self._read(graphs), parts)

    def encode_part(self, part: Any) -> tuple[Tensor, ...]:
        """The embeddings of a part that the loss contrasts."""
        raise NotImplementedError

    def _split(self, graphs: GraphBatch, parts: int) -> InParts:
        raise NotImplementedError

    def set_epoch(self, epoch: int, epochs: int) -> None:
        """Set the schedules of the loss to ``epoch`` (1 … ``epochs``)."""
        self.loss.set_epoch(epoch, epochs)


class Head(nn.Module):
    r"""Projection head of InfoGraph: three Linear–ReLU plus a linear shortcut.

    .. math:: f(z) = (\operatorname{ReLU} \circ \operatorname{Linear})^3(z)
              + \operatorname{Linear}(z)

    Args:
        dim: width of input and output.

    Source:
        sunfanyunn/InfoGraph, ``unsupervised/model.py``, also for the Xavier initialisation;
        the paper has no equation of it.

    Example:
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
        return self.block(z) + self.shortcut(z)


class InfoGraph(GraphContrast):
    """InfoGraph: contrast every node with its own graph and the other graphs of the batch.

    Args:
        encoder: any module ``(x, edge_index, batch) -> (nodes [N, d], graphs [G, d])``; its
            weights are not initialised again.
        out_dim: d; read from ``encoder.out_dim`` if None.
        method: a name in ``METHODS``; ``ucl``, which is InfoGraph itself, if None.
        loss: a :class:`ContrastiveLoss` in place of the method's.
        **options: options of :func:`gcl_hard.contrastive_loss`: ``beta``, ``threshold``,
            ``class_prior``, ``objective`` (JSD here by default), ``temperature``,
            ``detach_weights``, …

    Raises:
        InputError: if the width is unknown, or the encoder returns other shapes.

    Source:
        Sun, Hoffmann, Verma, Tang (2020), *InfoGraph*; hardening as in joshr17/HCL's graph code,
        with the sign of the paper (docs: discrepancies).

    Example:
        >>> from gcl_hard.graphs import GIN, load_graphs
        >>> mutag = load_graphs("MUTAG")
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
        method: str | None = None,
        loss: ContrastiveLoss | None = None,
        **options: Unpack[SeededOptions],
    ) -> None:
        if loss is None:
            options = {"objective": "jsd", **options}
        super().__init__(encoder, out_dim, method, loss, options)
        self.node_head = Head(self.out_dim)
        self.graph_head = Head(self.out_dim)

    def encode_part(self, part: GraphBatch) -> tuple[Tensor, Tensor]:
        """Projected embeddings of nodes and of graphs."""
        nodes, z = encode(self.encoder, part, self.out_dim)
        return self.node_head(nodes), self.graph_head(z)

    def _split(self, graphs: GraphBatch, parts: int) -> InParts:
        pieces, batch = graphs.split(parts), graphs.batch
        if len(pieces) > 1:  # in the order of the joined nodes
            offsets = [0, *accumulate(part.n_graphs for part in pieces)]
            shifted = (p.batch + offset for p, offset in zip(pieces, offsets, strict=False))
            batch = torch.cat([*shifted])
        return pieces, lambda nodes, z: self.loss.local_global(nodes, z, batch, graphs.y)


class TwoView(Draws, GraphContrast):
    """Contrast the graph embeddings of two random augmentations of each graph.

    Args:
        encoder: any module ``(x, edge_index, batch) -> (nodes [N, d], graphs [G, d])``.
        out_dim: d; read from ``encoder.out_dim`` if None.
        method: a name in ``METHODS``, ``ucl`` if None.
        loss: a :class:`ContrastiveLoss` in place of the method's.
        augmentations: names in ``AUGMENTATIONS``, or functions from a
            ``torch_geometric.data.Data`` of all graphs of a batch to a changed one, such as a
            PyTorch Geometric transform; applied to each view in this order.
        strength: share p in [0, 1) of nodes, edges or features that each one changes.
        n_views: number of views of each graph, ≥ 2; for a loss of hard positives the first is the
            graph itself.
        seed: seed of the augmentations.
        one_forward: whether all views are encoded in one forward pass, with common BatchNorm
            statistics, or each in its own.
        **options: options of :func:`gcl_hard.contrastive_loss`.

    Raises:
        InputError: for an unknown augmentation, or if the width is unknown.

    Source:
        Chen et al. (2020), *SimCLR*, for the pair of views and the projection head that is
        discarded; You et al. (2020), *GraphCL*, for the four augmentations.

    Example:
        >>> from gcl_hard.graphs import GIN, load_graphs
        >>> mutag = load_graphs("MUTAG")
        >>> model = TwoView(GIN(mutag.n_features), method="hucl", beta=1.0)
        >>> model(mutag.all()).isfinite()
        tensor(True)
    """

    def __init__(
        self,
        encoder: nn.Module,
        out_dim: int | None = None,
        *,
        method: str | None = None,
        loss: ContrastiveLoss | None = None,
        augmentations: Sequence[str | Transform] = ("mask-attributes", "perturb-edges"),
        strength: float = 0.2,
        n_views: int = 2,
        seed: int = 0,
        one_forward: bool = True,
        **options: Unpack[MethodOptions],
    ) -> None:
        super().__init__(encoder, out_dim, method, loss, options)
        check_views(augmentations, strength)
        check_at_least("n_views", n_views, 2)
        self.projection = nn.Sequential(
            nn.Linear(self.out_dim, self.out_dim), nn.ReLU(), nn.Linear(self.out_dim, self.out_dim)
        )
        xavier(self.projection)
        self.augmentations = tuple(augmentations)
        self.strength = strength
        self.n_views = n_views
        self.one_forward = one_forward
        self.seed = seed
        self._generators = Generators(seed)

    def encode_part(self, part: Sequence[GraphBatch]) -> tuple[Tensor, ...]:
        """Projected embeddings of each view."""
        if self.one_forward:
            return self.project(reduce(GraphBatch.followed_by, part)).chunk(self.n_views)
        return tuple(self.project(view) for view in part)

    def _split(self, graphs: GraphBatch, parts: int) -> InParts:
        if graphs.x.ndim == 1:  # rows of a mask would broadcast
            raise InputError(f"x of a batch is [{len(graphs.x)}]: give x.unsqueeze(1)")
        views = self.views_of(graphs, self._generators.on(graphs.x, graphs.edge_index.T))
        pieces = [*zip(*(view.split(parts) for view in views), strict=True)]
        return pieces, lambda *z: self.loss(z, labels=graphs.y)

    def views_of(self, graphs: GraphBatch, generator: torch.Generator) -> list[GraphBatch]:
        """All views of every graph; the generator is on their device."""
        drawn = self.n_views - self.loss.takes_items
        views = [self.view(graphs, generator) for _ in range(drawn)]
        return [graphs, *views] if self.loss.takes_items else views

    def view(self, graphs: GraphBatch, generator: torch.Generator) -> GraphBatch:
        """A random augmentation of every graph; the generator is on their device."""
        for augmentation in self.augmentations:
            graphs = augment(graphs, augmentation, self.strength, generator=generator)
        return graphs

    def project(self, graphs: Graphs) -> Tensor:
        """Projected graph embeddings, the input of the loss, float [G, out_dim]."""
        _, z = encode(self.encoder, graphs, self.out_dim)
        return self.projection(z)


class GraphClassifier(GraphModel):
    r"""Supervised baseline: encoder and linear classifier trained end to end with cross-entropy.

    .. math:: \ell = -\frac{1}{G} \sum_g \log \operatorname{softmax}(W z_g + b)_{y_g}

    Args:
        encoder: any module ``(x, edge_index, batch) -> (nodes [N, d], graphs [G, d])``.
        n_classes: C ≥ 2.
        out_dim: d; read from ``encoder.out_dim`` if None.

    Raises:
        InputError: for fewer than two classes, or if the width is unknown.

    Source:
        Xu, Hu, Leskovec, Jegelka (2019), *How Powerful are Graph Neural Networks?*, section 4,
        with a single linear layer on the concatenated readouts.

    Example:
        >>> from gcl_hard.graphs import GIN, load_graphs
        >>> mutag = load_graphs("MUTAG")
        >>> model = GraphClassifier(GIN(mutag.n_features), n_classes=2)
        >>> model(mutag.all()).isfinite(), model.predict(mutag.all()).shape
        (tensor(True), torch.Size([188]))
    """

    def __init__(self, encoder: nn.Module, n_classes: int, out_dim: int | None = None) -> None:
        check_at_least("n_classes", n_classes, 2)
        super().__init__(encoder, out_dim)
        self.classifier = nn.Linear(self.out_dim, n_classes)
        xavier(self.classifier)

    def forward(self, graphs: Graphs) -> Tensor:
        """Loss of a batch, float [], nats."""
        batch = self._read(graphs)
        return nn.functional.cross_entropy(self._logits(batch), batch.y)

    def scores(self, graphs: Graphs) -> Tensor:
        """Logits of every graph in evaluation mode, float [G, C]."""
        with evaluating(self):
            return self._logits(self._read(graphs))

    def predict(self, graphs: Graphs) -> Tensor:
        """The most likely class of every graph in evaluation mode, int64 [G]."""
        return self.scores(graphs).argmax(dim=1)

    def _logits(self, graphs: Graphs) -> Tensor:
        return self.classifier(encode(self.encoder, graphs, self.out_dim)[1])


def _batches(graphs: Any, batch_size: int | None) -> Iterator[Any]:
    """Batches of a set, a loader, or single graphs."""
    if batch_size is not None:
        check_at_least("batch_size", batch_size, 1)
    if isinstance(graphs, DataLoader):
        yield from graphs
        return
    if not isinstance(graphs, GraphSet):
        graphs = GraphSet.from_graphs(graphs, directed=True)
    for part in embedded_together(graphs, batch_size):
        yield graphs.batch(part)


def embedded_together(graphs: GraphSet, batch_size: int | None = None) -> Sequence[Tensor]:
    """Ids of the graphs of each batch; arguments as of :meth:`GraphModel.embed`."""
    ids = torch.arange(len(graphs))
    if batch_size is not None:
        return torch.split(ids, batch_size)
    fill = graphs.node_ptr[1:].cpu() // MOST_NODES
    sizes = torch.unique_consecutive(fill, return_counts=True)[1]
    return torch.split(ids, sizes.tolist())


def encode(encoder: nn.Module, graphs: Graphs, out_dim: int) -> tuple[Tensor, Tensor]:
    """Call an encoder and check its output.

    Args:
        encoder: a :class:`GraphEncoder`. If its ``forward`` has a parameter ``edge_attr``, it gets
            the edge features; with a parameter ``n_graphs`` the number of graphs, which pooling
            would otherwise read from ``batch``, synchronising a GPU.
        graphs: a batch.
        out_dim: d, the required width of both outputs.

    Returns:
        Node embeddings float [N, d] and graph embeddings float [G, d].

    Raises:
        InputError: for anything but a batch, for missing node features, for a graph without nodes
            or an edge to a missing node (on a CPU), or for other outputs of the encoder; names the
            shapes got and expected.

    Warns:
        UserWarning: if the graphs have edge features that the encoder has no parameter for.

    Example:
        >>> from gcl_hard.graphs import GIN, load_graphs
        >>> mutag = load_graphs("MUTAG")
        >>> nodes, graphs = encode(GIN(mutag.n_features), mutag.all(), out_dim=96)
        >>> nodes.shape
        torch.Size([3371, 96])
    """
    graphs = _with_features(graphs)
    x, batch = _as_read(graphs.x, encoder), graphs.batch
    _check_nodes(batch, graphs.num_graphs)
    keywords: dict[str, Any] = _edge_features(encoder, graphs)
    if _takes_number(type(_uncompiled(encoder)).forward):  # avoids a GPU synchronisation
        keywords["n_graphs"] = graphs.num_graphs
    out = encoder(x, graphs.edge_index, batch, **keywords)
    n_graphs = graphs.num_graphs
    expected = f"(nodes [{len(x)}, {out_dim}], graphs [{n_graphs}, {out_dim}])"
    if not (isinstance(out, tuple) and len(out) == 2 and all(isinstance(o, Tensor) for o in out)):
        raise InputError(f"the encoder must return {expected}, got {type(out).__name__}")
    z_nodes, z_graphs = out
    if [z_nodes.shape, z_graphs.shape] != [(len(x), out_dim), (n_graphs, out_dim)]:
        raise InputError(
            f"the encoder must return {expected}, got (nodes {list(z_nodes.shape)}, graphs "
            f"{list(z_graphs.shape)})"
        )
    return z_nodes, z_graphs


def _with_features(graphs: Any) -> GraphBatch:
    """A batch; InputError for anything else, and for one without node features."""
    batch = GraphBatch.of(graphs)
    if batch.x is None:
        raise InputError(
            "these graphs have no node features (x is None): create some, for example with "
            'GraphSet.from_graphs(graphs, features="degree-onehot")'
        )
    return batch


def _as_read(features: Tensor, encoder: nn.Module) -> Tensor:
    """Features in the encoder's precision; integers may be codes, except for a GIN."""
    dtype = next((p.dtype for p in encoder.parameters() if p.is_floating_point()), None)
    if dtype is None or not (features.is_floating_point() or isinstance(_uncompiled(encoder), GIN)):
        return features
    return features.to(dtype)


def _check_nodes(batch: Tensor, n_graphs: int) -> None:
    """InputError for a graph without nodes, if readable without synchronisation."""
    if batch.numel() and readable(batch):
        empty = torch.bincount(batch, minlength=n_graphs)[:n_graphs] == 0
        if bool(empty.any()):
            raise InputError(
                f"graph {int(empty.int().argmax())} of a batch of {n_graphs} has no nodes: leave "
                f"it out"
            )


def _uncompiled(encoder: nn.Module) -> nn.Module:
    """The encoder below torch.compile."""
    return getattr(encoder, "_orig_mod", encoder)


def _edge_features(encoder: nn.Module, graphs: Graphs) -> dict[str, Tensor | None]:
    """The edge features as keyword argument of an encoder."""
    edge_attr: Tensor | None = getattr(graphs, "edge_attr", None)
    plain = _uncompiled(encoder)
    if not takes(type(plain).forward, "edge_attr"):
        if edge_attr is not None:
            _warn_unused(type(plain).__qualname__, [*edge_attr.shape, 1][1])
        return {}
    columns = getattr(plain, "edge_dim", None)
    if edge_attr is None and columns and not graphs.edge_index.shape[1]:
        edge_attr = graphs.x.new_empty(0, columns)  # no edge has no features
    return {"edge_attr": edge_attr if edge_attr is None else _as_read(edge_attr, encoder)}


@cache  # once per class of encoders, since every fold has its own encoder
def _warn_unused(kind: str, n_features: int) -> None:
    warnings.warn(
        f"the {n_features} edge features of these graphs are not used: {kind}.forward has "
        f"no parameter edge_attr",
        stacklevel=5,
    )


@cache
def _takes_number(forward: Callable[..., Any]) -> bool:
    """Whether a function has a parameter ``n_graphs``."""
    return "n_graphs" in inspect.signature(forward).parameters
