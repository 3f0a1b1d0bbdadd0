"""Several two-view models trained side by side on the same views of the same graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from gcl_hard.errors import InputError
from gcl_hard.graphs.data import GraphBatch, GraphSet, checked_ids
from gcl_hard.graphs.encoders import GIN
from gcl_hard.graphs.members import Counts, Tables, add_rows, linear, normed
from gcl_hard.graphs.models import GraphModel, TwoView
from gcl_hard.graphs.order import epoch_batches
from gcl_hard.graphs.population import LAYER, gin_refusal
from gcl_hard.graphs.views import PairedViews
from gcl_hard.seeds import Generators

PER_NODE, PER_MESSAGE, TABLES = 10, 6, 8
"""Tensors alive at once in a step: what a layer keeps of a node and of an edge, and the loss of
its table of similarities."""

ALIGN = 4
"""Numbers to which features are padded that each member has its own of: rows of all members then
lie alike in memory, and a CPU adds them up in the same order whatever the neighbours are."""


class ViewPopulation:
    """Two-view models of one shape that share their views, each with its own weights and loss.

    What they compute is what each would compute alone, up to rounding: models with one seed draw
    the same views. On a CPU a member's bits do not depend on what is trained beside it, where
    layers are a multiple of four wide.

    Args:
        models: :class:`TwoView` with :class:`GIN` encoders of one shape, equal augmentations,
            strength and seed; methods, β, thresholds and temperatures may differ.
        graphs: the set, its features as all members see them.
        batch_size: graphs in a batch, before any is held out.
        data_seed: of the batch order.
        held_out: int64 ids of graphs that no member may see; they are neither anchor, positive
            nor candidate and in no statistic of a normalisation.

    Attributes:
        alone: why the models cannot share their steps, or None.

    Raises:
        InputError: for no model, models whose views differ, or graphs without the features that
            they take.

    Example:
        >>> from gcl_hard.graphs import load
        >>> mutag = load("MUTAG")
        >>> models = [TwoView(GIN(mutag.n_features), method=name) for name in ("ucl", "hscl")]
        >>> ViewPopulation(models, mutag).alone is None
        True
    """

    def __init__(
        self,
        models: Sequence[GraphModel],
        graphs: GraphSet,
        *,
        batch_size: int = 128,
        data_seed: int = 0,
        held_out: Tensor | None = None,
    ) -> None:
        if not models:
            raise InputError("a population needs at least one model, got none")
        self.models = list(models)
        self.device = next(self.models[0].parameters()).device
        self.graphs, self.batch_size, self.data_seed = graphs, batch_size, data_seed
        self.held_out = held_out
        if held_out is not None:
            self.held_out = checked_ids(held_out, graphs.n_graphs, "held_out", least=0)
        self.alone = next((why for m in models if (why := view_refusal(m)) is not None), None)
        if self.alone is not None:
            return
        first = self.models[0]
        assert isinstance(first, TwoView)
        assert isinstance(first.encoder, GIN)
        for model in self.models[1:]:
            assert isinstance(model, TwoView)
            if _views_of(model) != _views_of(first):
                raise InputError(
                    f"members of a population share their views and readout, got "
                    f"{_views_of(first)} and {_views_of(model)}"
                )
        self._first, self._gin = first, first.encoder
        self._check_graphs()
        self._generators = Generators(first.seed)

    def _check_graphs(self) -> None:
        gin, graphs = self._gin, self.graphs
        if graphs.n_features != gin.in_dim:
            raise InputError(
                f"node features are {graphs.n_features} wide, these GINs take {gin.in_dim}"
            )
        if gin.edge_dim is not None and graphs.edge_dim != gin.edge_dim:
            got = "not there" if graphs.edge_dim is None else f"{graphs.edge_dim} wide"
            raise InputError(f"edge features are {got}, these GINs take {gin.edge_dim}")

    def set_epoch(self, epoch: int, epochs: Sequence[int]) -> None:
        """Move every member's schedules to ``epoch`` (from 1) of its ``epochs``."""
        for model, last in zip(self.models, epochs, strict=True):
            assert isinstance(model, TwoView)
            model.set_epoch(epoch, last)

    def batches(self, epoch: int) -> Iterator[PairedViews]:
        """Views of the batches of an epoch."""
        generator = self._generators.on(self.graphs.x.device)
        for batch in self.batches_of(0, epoch):
            first, second = (self._first.view(batch, generator) for _ in range(2))
            yield PairedViews.of(first, second, by_edge=self._gin.edge_dim is not None)

    def batches_of(self, member: int, epoch: int) -> Iterator[GraphBatch]:
        """The batches of one member trained by itself."""
        for index in epoch_batches(
            self.graphs.n_graphs, self.batch_size, seed=self.data_seed, epoch=epoch,
            held_out=self.held_out,
        ):  # fmt: skip
            yield self.graphs.batch(index)

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with some of the members."""
        self.models = [self.models[row] for row in rows]

    def memory_per_member(self) -> int:
        """About the bytes that a member takes in a step, on the largest batch of an epoch."""
        gin, parameters = self._gin, sum(p.numel() for p in self._first.parameters())
        width = sum(p.numel() for p in gin.norms.parameters()) // 2  # of all layers, jk or not
        largest = 0
        for batch in self.batches_of(0, 1):
            nodes, edges = 2 * len(batch.x), 2 * batch.edge_index.shape[1]
            kept = PER_NODE * nodes * width
            if gin.edge_dim is not None:
                kept += PER_MESSAGE * edges * width
            largest = max(largest, kept + TABLES * (2 * batch.n_graphs) ** 2)
        return self.graphs.x.dtype.itemsize * (4 * parameters + largest)

    def losses(self, parameters: Tables, buffers: Tables, batch: PairedViews) -> Tensor:
        """Loss of every member, float [P]; running statistics in ``buffers`` are moved on."""
        z = self._encode(parameters, buffers, batch)
        first, last = (
            [parameters[f"projection.{layer}.{part}"] for part in ("weight", "bias")]
            for layer in (0, 2)
        )
        z = linear(linear(z, *first).relu(), *last)
        found = []
        for model, own in zip(self.models, z, strict=True):
            assert isinstance(model, TwoView)
            found.append(model.loss(*own.chunk(2), batch.y))
        return torch.stack(found)

    def _encode(self, parameters: Tables, buffers: Tables, batch: PairedViews) -> Tensor:
        """Embeddings of graphs, float [P, 2B, d]."""
        gin, graphs, tables = self._gin, batch.graphs, (parameters, buffers)
        nodes, of_graphs = (
            Counts(graphs.x.new_ones(1, n)) for n in (len(graphs.x), graphs.n_graphs)
        )
        x, levels = graphs.x[None], list[Tensor]()
        if gin.edge_dim is not None:
            x = pad(x, (0, -gin.in_dim % ALIGN))
        virtual: Tensor | None = None
        for k, norm in enumerate(gin.norms):
            if k and len(gin.virtual):
                pooled = add_rows(batch.readout, x)
                pooled = pooled if virtual is None else virtual + pooled
                name = f"encoder.virtual.{k - 1}"
                own = [parameters[f"{name}.0.{part}"] for part in ("weight", "bias")]
                last = gin.get_submodule(f"virtual.{k - 1}.2")
                virtual = normed(linear(pooled, *own), of_graphs, tables, f"{name}.2", last)
                x = x + virtual.index_select(1, graphs.batch)
            x = self._gathered(k, x, parameters, batch)
            of_layer = {n: parameters[f"encoder.convs.{k}.nn.{n}"] for n in LAYER}
            of_inputs = of_layer["0.weight"]
            of_inputs = pad(of_inputs, (0, x.shape[2] - of_inputs.shape[2]))
            x = linear(x, of_inputs, of_layer["0.bias"]).relu()
            x = linear(x, of_layer["2.weight"], of_layer["2.bias"])
            x = normed(x, nodes, tables, f"encoder.norms.{k}", norm)
            levels.append(x)
        z = add_rows(batch.readout, torch.cat(levels, 2) if gin.jk == "cat" else x)
        if gin.readout == "sum":
            return z
        sizes = torch.bincount(graphs.batch, minlength=graphs.n_graphs)
        mean = z / sizes[:, None]
        return mean if gin.readout == "mean" else torch.cat([z, mean], 2)

    def _gathered(self, k: int, x: Tensor, parameters: Tables, batch: PairedViews) -> Tensor:
        """What a layer's MLP sees of each node: itself and the messages that it gets."""
        if self._gin.edge_dim is None:
            return add_rows(batch.neighbours, x)
        graphs, name = batch.graphs, f"encoder.convs.{k}.lin"
        assert graphs.edge_attr is not None
        weight, bias = parameters[f"{name}.weight"], parameters[f"{name}.bias"]
        spare = x.shape[2] - weight.shape[1]
        edges = linear(graphs.edge_attr[None], pad(weight, (0, 0, 0, spare)), pad(bias, (0, spare)))
        messages = (x.index_select(1, graphs.edge_index[0]) + edges).relu()
        return x + add_rows(batch.neighbours, messages)


def view_refusal(model: GraphModel) -> str | None:
    """Why a model cannot share its views with others, in words; None if it can.

    Args:
        model: any graph model.

    Example:
        >>> view_refusal(TwoView(GIN(7), one_forward=False))
        'views that are encoded in two forward passes have no member dimension'
    """
    if type(model) is not TwoView:
        return f"{type(model).__name__} has no views to share"
    if type(model.encoder) is not GIN:
        return f"{type(model.encoder).__name__} has no member dimension"
    if not model.one_forward:
        return "views that are encoded in two forward passes have no member dimension"
    if any(True for _ in model.loss.parameters()):
        return "a loss with parameters has no member dimension"
    return gin_refusal(model, model.encoder)


def _views_of(model: TwoView) -> tuple[object, ...]:
    gin = model.encoder
    assert isinstance(gin, GIN)
    return model.augmentations, model.strength, model.seed, gin.readout, gin.jk
