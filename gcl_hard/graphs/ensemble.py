"""Ensembles: graph models of one shape trained side by side on the same graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from gcl_hard.core.ahead import ahead
from gcl_hard.core.seeds import Generators
from gcl_hard.errors import InputError
from gcl_hard.functional import jsd
from gcl_hard.functional.jsd import Classes, Rule, counted_jsd
from gcl_hard.functional.negatives import check_labels
from gcl_hard.graphs.batching import PairedViews
from gcl_hard.graphs.copies import on_device
from gcl_hard.graphs.data import GraphBatch, GraphSet
from gcl_hard.graphs.encoders import GIN
from gcl_hard.graphs.layers import Counts, Sums, Tables, add_rows, linear, normed
from gcl_hard.graphs.models import GraphClassifier, GraphModel, Head, InfoGraph, TwoView
from gcl_hard.graphs.order import checked_ids, epoch_batches, epoch_chunks
from gcl_hard.graphs.refinement import ColouredBatch, ColouredSet
from gcl_hard.graphs.view_losses import ViewLosses
from gcl_hard.losses.loss import ContrastiveLoss
from gcl_hard.losses.sampling import NegativeSampler

# Names of parameters: the layers of a head, its shortcut last; a GIN's layer; a projection.
HEAD = ("block.0", "block.2", "block.4", "shortcut")
LAYER = ("0.weight", "0.bias", "2.weight", "2.bias")

Batch = ColouredBatch | PairedViews


class Ensemble:
    """Models of one shape that share batches, each with its own weights and loss.

    Results equal those of training each model alone, up to rounding. For local–global contrast and
    supervised training, nodes that message passing cannot tell apart are merged
    (:class:`gcl_hard.graphs.refinement.ColouredSet`). Two-view models draw the same views, in
    which few nodes are equal.

    Args:
        models: :class:`InfoGraph` under JSD, :class:`TwoView` or :class:`GraphClassifier`, all of
            one class, with :class:`GIN` encoders of one shape; methods, β, thresholds and
            temperatures may differ; augmentations, strength and seed may not. Others are trained
            one by one.
        graphs: the set, or its coloured set, which several ensembles can share.
        batch_size: graphs in a batch, before held-out graphs are removed.
        data_seed: seed of the batch order, which models share.
        held_out: for each model, int64 ids of graphs hidden from it: they are neither anchor,
            positive nor candidate, and enter no statistic of its normalisation. The others keep
            their batches. If all models hold out the same graphs, no bit depends on these on a
            CPU; otherwise sums of other lengths round differently. Two-view models must all hold
            out the same graphs.
        features: node features of each model, float [N, F]: nodes with equal features in
            ``graphs`` must have equal ones here (an inductive fold's scaling of degrees).
            Two-view models use those of ``graphs``.
        alone: reason to train the models one by one in any case, such as batches in parts.

    Attributes:
        alone: reason why the models cannot share steps, or None.

    Raises:
        InputError: without models, for models of different classes, shapes or views, lists of
            another length, or graphs without the features that the models need.

    Example:
        >>> from gcl_hard.graphs import load_graphs
        >>> mutag = load_graphs("MUTAG")
        >>> models = [InfoGraph(GIN(mutag.n_features), method=name) for name in ("ucl", "hscl")]
        >>> Ensemble(models, mutag).alone is None
        True
    """

    def __init__(
        self,
        models: Sequence[GraphModel],
        graphs: GraphSet | ColouredSet,
        *,
        batch_size: int = 128,
        data_seed: int = 0,
        held_out: Sequence[Tensor | None] | None = None,
        features: Sequence[Tensor] | None = None,
        alone: str | None = None,
    ) -> None:
        if not models:
            raise InputError("an ensemble needs at least one model, got none")
        for name, values in (("held_out", held_out), ("features", features)):
            if values is not None and len(values) != len(models):
                raise InputError(f"{name} has {len(values)} entries for {len(models)} models")
        self.models = list(models)
        weight = next(self.models[0].parameters())
        self.device, self.dtype = weight.device, weight.dtype
        plain = graphs if isinstance(graphs, GraphSet) else graphs.graphs
        self.graphs = plain.to("cpu")  # batches are made there
        self.batch_size, self.data_seed = batch_size, data_seed
        self.held_out = [
            None if ids is None else checked_ids(ids, self.graphs.n_graphs, "held_out", least=0)
            for ids in held_out or [None] * len(models)
        ]
        self.alone = alone or next(
            (reason for model in models if (reason := refusal(model)) is not None), None
        )
        if self.alone is not None:
            return
        gin = self.models[0].encoder
        assert isinstance(gin, GIN)
        self._gin = gin
        shared = [_shared(model) for model in self.models]
        if any(settings != shared[0] for settings in shared):
            raise InputError(
                f"models of an ensemble must be equal in kind, readout and views, got {shared}"
            )
        self.kept: Tensor | None = None
        if any(ids is not None for ids in self.held_out):
            self.kept = torch.ones(len(self.models), self.graphs.n_graphs, dtype=torch.bool)
            for row, ids in zip(self.kept, self.held_out, strict=True):
                row[[] if ids is None else ids] = False
        self.seen: Tensor | None
        self.mask: Tensor | None
        self._restrict()
        self.coloured: ColouredSet | None = None
        self.rules: list[Rule] = []
        self._view_losses: ViewLosses | None = None  # of this epoch, created with its first batch
        if isinstance(self.models[0], TwoView):
            if features is not None or self.mask is not None:
                raise InputError("two-view models share their node features and held-out graphs")
            self._generators = Generators(self.models[0].seed)
        else:
            self._compress(graphs, features)
        self._unknown = self._read_labels()

    def _read_labels(self) -> int | None:
        """The label that means an unknown class; checks the labels that the losses read."""
        losses = [model.loss for model in self.models if isinstance(model, InfoGraph)]
        marks = [loss.unknown for loss in losses if loss.sampler.needs_labels]
        if len({*marks}) > 1:
            raise InputError("models of an ensemble that use labels must have the same unknown")
        if not marks:
            return None
        y = self.graphs.y if self.seen is None else self.graphs.y[self.seen]
        check_labels(y, len(y), 'admit="other_labels"', unknown=marks[0])
        return marks[0]

    def _compress(self, graphs: GraphSet | ColouredSet, features: Sequence[Tensor] | None) -> None:
        layers = len(self._gin.convs)
        self.coloured = ColouredSet(graphs, layers) if isinstance(graphs, GraphSet) else graphs
        nodes = self.coloured.representatives
        rows = [x[nodes.to(x.device)] for x in features or [self.graphs.x]]
        self.features = torch.stack(rows)
        self.features = self.features.to(self.device, self.dtype)

    def _restrict(self) -> None:
        """Remove graphs that no model trains on; mask those that only some train on."""
        self.seen = self.mask = None
        if self.kept is not None:
            self.seen = self.kept.any(0)
            same = torch.equal(self.kept.all(0), self.seen)
            self.mask = None if same else self.kept.to(self.device)

    def set_epoch(self, epoch: int, epochs: Sequence[int]) -> None:
        """Set every model's schedules to ``epoch`` (from 1) of its ``epochs``."""
        self.rules = []
        for model, last in zip(self.models, epochs, strict=True):
            if isinstance(model, InfoGraph | TwoView):
                model.set_epoch(epoch, last)
            if isinstance(model, InfoGraph):
                self.rules.append(model.loss.rule)
        self._view_losses = None

    def batches(self, epoch: int) -> Iterator[Batch]:
        """The batches of an epoch, of all graphs that some model trains on.

        They are made on the CPU; for a GPU one batch ahead.
        """
        if self.coloured is not None:
            return ahead(self._coloured_batches(self.coloured, epoch), self.device)
        views, first = self._views(epoch), self.models[0]
        # User-defined augmentations draw from the global random states, as training may.
        custom = isinstance(first, TwoView) and any(map(callable, first.augmentations))
        return views if custom else ahead(views, self.device)

    def _coloured_batches(self, coloured: ColouredSet, epoch: int) -> Iterator[ColouredBatch]:
        for chunk in epoch_chunks(
            self.graphs.n_graphs, self.batch_size, seed=self.data_seed, epoch=epoch, kept=self.kept
        ):
            index = chunk if self.seen is None else chunk[self.seen[chunk]]
            yield coloured.batch(index).to(self.device, self.dtype)

    def _views(self, epoch: int) -> Iterator[PairedViews]:
        first = self.models[0]
        assert isinstance(first, TwoView)
        generator = self._generators.on(self.graphs.x[:0])
        for batch in self._plain_batches(0, epoch):
            views = first.views_of(batch, generator)
            paired = PairedViews.of(*views, by_edge=self._gin.edge_dim is not None)
            yield on_device(paired, self.device)

    def batches_of(self, model: int, epoch: int) -> Iterator[GraphBatch]:
        """The batches of one model that is trained alone."""
        batches = self._plain_batches(model, epoch)
        return ahead((batch.to(self.device) for batch in batches), self.device)

    def _plain_batches(self, model: int, epoch: int) -> Iterator[GraphBatch]:
        for index in epoch_batches(
            self.graphs.n_graphs, self.batch_size, seed=self.data_seed, epoch=epoch,
            held_out=self.held_out[model],
        ):  # fmt: skip
            yield self.graphs.batch(index)

    def keep(self, rows: Sequence[int]) -> None:
        """Continue with a subset of the models."""
        self.models = [self.models[row] for row in rows]
        self.held_out = [self.held_out[row] for row in rows]
        index = torch.tensor(rows)
        self.kept = None if self.kept is None else self.kept[index]
        self._restrict()
        self._view_losses = None
        if self.coloured is not None and len(self.features) > 1:
            self.features = self.features[index.to(self.device)]

    def losses(self, parameters: Tables, buffers: Tables, batch: Batch) -> Tensor:
        """Loss of every model, float [P]; running statistics in ``buffers`` are updated."""
        tables = parameters, buffers
        if isinstance(batch, PairedViews):
            _, z = self._encode(tables, batch, None)
            z = _dense(parameters, "projection.2", _dense(parameters, "projection.0", z).relu())
            views = batch.graphs.n_graphs // len(batch.y)
            if self._view_losses is None:
                view_losses = [model.loss for model in self.models if isinstance(model, TwoView)]
                self._view_losses = ViewLosses(view_losses, z)
            losses, self._used = self._view_losses(z, views, batch.y)
            return losses
        kept = None if self.mask is None else self.mask[:, batch.graphs]
        nodes, graphs = self._encode(tables, batch, kept)
        if isinstance(self.models[0], GraphClassifier):
            return _cross_entropy(_dense(parameters, "classifier", graphs), batch.y, kept)
        nodes = _head(parameters, "node_head", nodes)
        graphs = _head(parameters, "graph_head", graphs)
        return counted_jsd(nodes, graphs, batch.pairs, self.rules, self._classes(batch), kept)

    def trained(self, batch: Batch) -> Tensor:
        """Models that the last batch trains, bool [P]."""
        if isinstance(batch, PairedViews):
            return self._used > 0
        kept = batch.y.new_ones(len(self.models), len(batch.y), dtype=torch.bool)
        if self.mask is not None:
            kept = self.mask[:, batch.graphs]
        sizes = kept.sum(1)
        if isinstance(self.models[0], GraphClassifier):
            return sizes > 0
        if (classes := self._classes(batch)) is None:
            return sizes > 1
        kind, n_kinds = classes
        n_classes = (kept.long() @ nn.functional.one_hot(kind, n_kinds) > 0).sum(1)
        other = torch.tensor([rule.other_labels for rule in self.rules], device=kept.device)
        return torch.where(other, n_classes, sizes) > 1

    def _classes(self, batch: ColouredBatch) -> Classes | None:
        """Classes of a batch's graphs; each graph without a label is a class of its own."""
        if batch.classes is None or self._unknown is None:
            return batch.classes
        return batch.classes.separated(batch.y == self._unknown)

    def _encode(
        self, tables: tuple[Tables, Tables], batch: Batch, kept: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Embeddings of nodes or last colours, float [P, U, d], and of graphs, [P, G, d]."""
        gin = self._gin
        if isinstance(batch, ColouredBatch):
            counts, sums = _counts(batch, kept), batch.sums
            x = self.features[:, batch.features]
            if kept is not None:  # features of held-out graphs, even NaN, must not enter a product
                x = torch.where(counts[0].row.transpose(1, 2) > 0, x, 0.0)
        else:
            x = batch.graphs.x[None]
            counts = [Counts(x.new_ones(1, x.shape[1]))] * (len(gin.norms) + 1)
            sums = (batch.neighbours,) * len(gin.norms)
        levels: list[Tensor] = []
        virtual: Tensor | None = None
        for k, norm in enumerate(gin.norms):
            if k and len(gin.virtual):
                assert isinstance(batch, PairedViews)
                virtual = self._virtual(k - 1, x, virtual, tables, batch)
                x = x + virtual.index_select(1, batch.graphs.batch)
            x = self._convolved(k, x, sums[k], tables[0], batch)
            x = normed(x, counts[k + 1], tables, f"encoder.norms.{k}", norm)
            levels.append(x)
        if isinstance(batch, ColouredBatch):
            # Not h[:, at], whose gradient is summed in any order by several threads.
            lower = zip(levels, batch.parents[1:], strict=False)
            levels = [*(h.index_select(1, at) for h, at in lower), x]
        nodes = torch.cat(levels, 2) if gin.jk == "cat" else x
        graphs = add_rows(batch.readout, nodes)
        if gin.readout == "sum":
            return nodes, graphs
        mean = graphs / batch.sizes[:, None]
        return nodes, mean if gin.readout == "mean" else torch.cat([graphs, mean], 2)

    def _convolved(self, k: int, x: Tensor, sums: Sums, parameters: Tables, batch: Batch) -> Tensor:
        """A layer's MLP applied to rows plus their messages."""
        weights = {n: parameters[f"encoder.convs.{k}.nn.{n}"] for n in LAYER}
        if isinstance(batch, ColouredBatch):  # fewer rows before the sum than after: multiply first
            x = add_rows(sums, linear(x, weights["0.weight"])) + weights["0.bias"][:, None]
        else:
            if self._gin.edge_dim is None:
                x = add_rows(sums, x)
            else:
                assert batch.graphs.edge_attr is not None
                edges = _dense(parameters, f"encoder.convs.{k}.lin", batch.graphs.edge_attr[None])
                messages = (x.index_select(1, batch.graphs.edge_index[0]) + edges).relu()
                x = x + add_rows(sums, messages)
            x = linear(x, weights["0.weight"], weights["0.bias"])
        return linear(x.relu(), weights["2.weight"], weights["2.bias"])

    def _virtual(
        self,
        k: int,
        x: Tensor,
        before: Tensor | None,
        tables: tuple[Tables, Tables],
        batch: PairedViews,
    ) -> Tensor:
        """The virtual node of every graph after layer k, float [P, G, d]."""
        pooled = add_rows(batch.readout, x)
        pooled = pooled if before is None else before + pooled
        name, counts = f"encoder.virtual.{k}", Counts(x.new_ones(1, pooled.shape[1]))
        pooled = _dense(tables[0], f"{name}.0", pooled)
        return normed(
            pooled, counts, tables, f"{name}.2", self._gin.get_submodule(f"virtual.{k}.2")
        )


def refusal(model: GraphModel) -> str | None:
    """Reason why a model cannot be stacked, or None.

    Args:
        model: any graph model.

    Example:
        >>> refusal(TwoView(GIN(7), one_forward=False))
        'two forward passes and losses with parameters cannot be stacked'
    """
    gin = model.encoder
    if type(model) not in (InfoGraph, GraphClassifier, TwoView) or type(gin) is not GIN:
        return f"{_class_name(model)} of {_class_name(gin)} cannot be stacked"
    norms = *gin.norms, *(layers.get_submodule("2") for layers in gin.virtual)
    usual = all(
        isinstance(n, nn.BatchNorm1d) and n.affine and n.track_running_stats and n.momentum
        for n in norms
    )
    usual &= all(parameter.requires_grad for parameter in model.parameters())
    if not usual or any(float(conv.eps) for conv in gin.convs):  # type: ignore[arg-type]
        return "a GIN with layers of its own, an eps or frozen parameters cannot be stacked"
    if isinstance(model, TwoView):
        if not model.one_forward or [*model.loss.parameters()]:
            return "two forward passes and losses with parameters cannot be stacked"
        return None
    if gin.edge_dim is not None or len(gin.virtual) or gin.readout == "both" or gin.jk == "last":
        return "edge features, a virtual node, readout both and jk last cannot be compressed"
    return _refused_loss(model) if isinstance(model, InfoGraph) else None


def _refused_loss(model: InfoGraph) -> str | None:
    loss, sampler = model.loss, model.loss.sampler
    kinds = type(loss), type(sampler), type(model.node_head), type(model.graph_head)
    plain = kinds == (ContrastiveLoss, NegativeSampler, Head, Head) and loss.objective == "jsd"
    if not plain or loss.on_empty != "skip":
        return "only JSD of our own loss, sampler and heads, skipping anchors, can be stacked"
    if (sampler.draws, sampler.pair_weights, sampler.label_gap) != (None, None, None):
        return "draws, pair weights and a label gap cannot be stacked"
    return jsd.refusal(sampler.hardening, loss.rule.scale)


def _dense(parameters: Tables, name: str, x: Tensor) -> Tensor:
    return linear(x, parameters[f"{name}.weight"], parameters[f"{name}.bias"])


def _head(parameters: Tables, name: str, z: Tensor) -> Tensor:
    h = z
    for layer in HEAD[:-1]:
        h = _dense(parameters, f"{name}.{layer}", h).relu()
    return h + _dense(parameters, f"{name}.{HEAD[-1]}", z)


def _counts(batch: ColouredBatch, kept: Tensor | None) -> list[Counts]:
    """Multiplicities of the colours of every level for each model, from level 0."""
    pairs = batch.pairs
    weight = pairs.times[None] if kept is None else pairs.times * kept[:, pairs.graph]
    *below, n_last = batch.n_colours
    last = weight.new_zeros(len(weight), n_last).index_add_(1, pairs.colour, weight)
    levels = [
        last.new_zeros(len(last), n).index_add_(1, at, last)
        for n, at in zip(below, batch.parents, strict=True)
    ]
    return [Counts(count) for count in (*levels, last)]


def _cross_entropy(logits: Tensor, y: Tensor, kept: Tensor | None) -> Tensor:
    """Mean over the graphs that each model trains on, float [P]."""
    losses = cross_entropy(logits.transpose(1, 2), y.expand(len(logits), -1), reduction="none")
    if kept is None:
        return losses.mean(1)
    return torch.where(kept, losses, 0.0).sum(1) / kept.sum(1)


def _shared(model: GraphModel) -> tuple[object, ...]:
    """Settings besides the shapes that the models of an ensemble share."""
    gin = model.encoder
    assert isinstance(gin, GIN)
    views: tuple[object, ...] = ()
    if isinstance(model, TwoView):
        views = (
            model.augmentations,
            model.strength,
            model.seed,
            model.n_views,
            model.loss.takes_items,
        )
    return _class_name(model), gin.readout, gin.jk, *views


def _class_name(part: object) -> str:
    return type(part).__name__
