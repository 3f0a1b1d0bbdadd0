"""Several graph models trained side by side on the same graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from gcl_hard.errors import InputError
from gcl_hard.functional import counted
from gcl_hard.functional.counted import Rule, counted_jsd
from gcl_hard.graphs.colours import ColouredBatch, ColouredSet
from gcl_hard.graphs.data import GraphBatch, GraphSet, checked_ids
from gcl_hard.graphs.encoders import GIN
from gcl_hard.graphs.members import Counts, Tables, add_rows, linear, normed
from gcl_hard.graphs.models import GraphModel, Head, InfoGraph, Supervised
from gcl_hard.graphs.order import epoch_batches, epoch_chunks
from gcl_hard.losses import ContrastiveLoss
from gcl_hard.sampling import NegativeSampler

# Tensors alive at once in a step, counted on one: what the encoder keeps of a layer's colours, what
# the heads keep of embeddings, and the loss of scores.
PER_COLOUR, PER_EMBEDDING, TABLES = 8, 9, 10

# Names of parameters: the layers of a head, its shortcut last, and what a GIN's layer has.
HEAD = ("block.0", "block.2", "block.4", "shortcut")
LAYER = ("0.weight", "0.bias", "2.weight", "2.bias")


class Population:
    """Models of one shape that share their batches, each with its own weights and loss.

    What they compute is what each would compute alone, up to rounding; on a CPU a member's bits do
    not depend on what is trained beside it, where layers are a multiple of four wide. Nodes that no
    message passing tells apart are one (:class:`gcl_hard.graphs.colours.ColouredSet`).

    Args:
        models: :class:`InfoGraph` under JSD, or :class:`Supervised`, with :class:`GIN` encoders
            of one shape; methods, β and thresholds may differ. Others are trained one by one.
        graphs: the set, or the same one with its colours, which populations can then share.
        batch_size: graphs in a batch, before any is held out.
        data_seed: of the batch order, which members share.
        held_out: of each model int64 ids of graphs that it must not see: they are neither anchor,
            positive nor candidate for it and in no statistic of its normalisation. The others
            keep their batches. Where all members hold out the same graphs, on a CPU no bit
            depends on these; else sums of other lengths round differently.
        features: of each model, node features of its own, float [N, F]: nodes with equal features
            in ``graphs`` must have equal ones here (an inductive fold's scaling of degrees).

    Attributes:
        alone: why the models cannot share their steps, or None.

    Raises:
        InputError: for no model, models of different shapes, or lists of another length.

    Example:
        >>> from gcl_hard.graphs import load
        >>> mutag = load("MUTAG")
        >>> models = [InfoGraph(GIN(mutag.n_features), method=name) for name in ("ucl", "hscl")]
        >>> Population(models, mutag).alone is None
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
    ) -> None:
        if not models:
            raise InputError("a population needs at least one model, got none")
        for what, given in (("held_out", held_out), ("features", features)):
            if given is not None and len(given) != len(models):
                raise InputError(f"{what} has {len(given)} entries for {len(models)} models")
        self.models = list(models)
        some = next(self.models[0].parameters())
        self.device, self.dtype = some.device, some.dtype
        self.graphs = graphs if isinstance(graphs, GraphSet) else graphs.graphs.to(self.device)
        self.batch_size, self.data_seed = batch_size, data_seed
        self.held_out = [
            None if ids is None else checked_ids(ids, self.graphs.n_graphs, "held_out", least=0)
            for ids in held_out or [None] * len(models)
        ]
        self._features_of = features
        self.alone = next((why for model in models if (why := refusal(model)) is not None), None)
        if self.alone is None:
            self._stack(graphs)

    def _stack(self, graphs: GraphSet | ColouredSet) -> None:
        gin = self.models[0].encoder
        assert isinstance(gin, GIN)
        self.norms = list(gin.norms)
        self.readout = gin.readout
        for model in self.models:
            assert isinstance(model.encoder, GIN)
            if model.encoder.readout != self.readout or type(model) is not type(self.models[0]):
                raise InputError(
                    f"models of a population must be equal, got {_named(self.models[0])} and "
                    f"{_named(model)}"
                )
        layers = len(gin.convs)
        self.coloured = ColouredSet(graphs, layers) if isinstance(graphs, GraphSet) else graphs
        if self.coloured.layers != layers:
            raise InputError(
                f"colours of {self.coloured.layers} layers do not serve a GIN of {layers}"
            )
        nodes = self.coloured.representatives
        own = self._features_of or [self.graphs.x]
        for x in own:
            if x.shape != (self.graphs.n_nodes, gin.in_dim):
                raise InputError(
                    f"node features must be {[self.graphs.n_nodes, gin.in_dim]}, nodes and what "
                    f"this GIN takes, got {list(x.shape)}"
                )
        self.features = torch.stack([x[nodes.to(x.device)] for x in own])
        self.features = self.features.to(self.device, self.dtype)
        self.kept: Tensor | None = None
        self.seen: Tensor | None
        self.mask: Tensor | None
        if any(ids is not None for ids in self.held_out):
            self.kept = torch.ones(len(self.models), self.graphs.n_graphs, dtype=torch.bool)
            for row, ids in zip(self.kept, self.held_out, strict=True):
                row[[] if ids is None else ids] = False
        self.rules: list[Rule] = []
        self._look()

    def _look(self) -> None:
        """What no member trains on leaves the batches; where all agree there is no mask."""
        self.seen = self.mask = None
        if self.kept is not None:
            self.seen = self.kept.any(0)
            same = torch.equal(self.kept.all(0), self.seen)
            self.mask = None if same else self.kept.to(self.device)

    def set_epoch(self, epoch: int, epochs: Sequence[int]) -> None:
        """Move every member's schedules to ``epoch`` (from 1) of its ``epochs``."""
        self.rules = []
        for model, last in zip(self.models, epochs, strict=True):
            if isinstance(model, InfoGraph):
                model.set_epoch(epoch, last)
                self.rules.append(rule_of(model.loss))

    def batches(self, epoch: int) -> Iterator[ColouredBatch]:
        """The batches of an epoch, of all graphs that some member trains on."""
        family = None if self.seen is None else self.seen.numpy().tobytes()
        for chunk in epoch_chunks(
            self.graphs.n_graphs, self.batch_size, seed=self.data_seed, epoch=epoch, kept=self.kept
        ):
            index = chunk if self.seen is None else chunk[self.seen[chunk]]
            yield self.coloured.remembered(index, self.device, self.dtype, family)

    def batches_of(self, member: int, epoch: int) -> Iterator[GraphBatch]:
        """The batches of one member trained by itself."""
        graphs = self.graphs
        for index in epoch_batches(
            graphs.n_graphs, self.batch_size, seed=self.data_seed, epoch=epoch,
            held_out=self.held_out[member],
        ):  # fmt: skip
            yield graphs.batch(index)

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with some of the members."""
        self.models = [self.models[row] for row in rows]
        self.held_out = [self.held_out[row] for row in rows]
        index = torch.tensor(rows)
        self.kept = None if self.kept is None else self.kept[index]
        self._look()
        if len(self.features) > 1:
            self.features = self.features[index.to(self.device)]

    def memory_per_member(self) -> int:
        """About the bytes that a member takes in a step, on the largest batch of an epoch.

        Parameters, gradients and moments; what backward needs of encoder and heads, in layers of
        colours; the table of scores and, on a device other than the CPU, what the loss makes
        of it (a CPU works on one member's at a time).
        """
        model = self.models[0]
        parameters = sum(p.numel() for p in model.parameters())
        tables = 1 if self.device.type == "cpu" else TABLES
        largest = 0
        for batch in self.batches(1):
            _, *levels = batch.n_colours
            width, n_graphs = model.out_dim, len(batch.y)
            largest = max(
                largest,
                PER_COLOUR * width // len(levels) * sum(levels)
                + PER_EMBEDDING * width * (levels[-1] + n_graphs)
                + tables * levels[-1] * n_graphs,
            )
        return self.dtype.itemsize * (4 * parameters + largest)

    def losses(self, parameters: Tables, buffers: Tables, batch: ColouredBatch) -> Tensor:
        """Loss of every member, float [P]; running statistics in ``buffers`` are moved on."""
        kept = None if self.mask is None else self.mask[:, batch.graphs]
        nodes, graphs = self._encode(parameters, buffers, batch, kept)
        if isinstance(self.models[0], Supervised):
            logits = linear(graphs, parameters["classifier.weight"], parameters["classifier.bias"])
            return _cross_entropy(logits, batch.y, kept)
        nodes = _head(parameters, "node_head", nodes)
        graphs = _head(parameters, "graph_head", graphs)
        return counted_jsd(nodes, graphs, batch.pairs, self.rules, batch.classes, kept)

    def _encode(
        self, parameters: Tables, buffers: Tables, batch: ColouredBatch, kept: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Embeddings of the last level's colours [P, U, d] and of graphs [P, G, d]."""
        counts = _counts(batch, kept)
        x = self.features[:, batch.features]
        if kept is not None:  # what only held-out graphs have must not meet a product, NaN or not
            x = torch.where(counts[0].row.transpose(1, 2) > 0, x, 0.0)
        levels = []
        for k, (sums, norm) in enumerate(zip(batch.sums, self.norms, strict=True)):
            own = {n: parameters[f"encoder.convs.{k}.nn.{n}"] for n in LAYER}
            x = add_rows(sums, linear(x, own["0.weight"])) + own["0.bias"][:, None]
            x = linear(x.relu(), own["2.weight"], own["2.bias"])
            name = f"encoder.norms.{k}"
            x = normed(x, counts[k + 1], (parameters, buffers), name, norm)
            levels.append(x)
        # Not h[:, at]: the gradient of that adds in any order where several threads do it.
        lower = [h.index_select(1, at) for h, at in zip(levels, batch.parents[1:], strict=False)]
        nodes = torch.cat([*lower, x], 2)
        graphs = add_rows(batch.readout, nodes)
        return nodes, graphs / batch.sizes[:, None] if self.readout == "mean" else graphs


def refusal(model: GraphModel) -> str | None:
    """Why a model cannot share its steps with others, in words; None if it can.

    Args:
        model: any graph model.

    Example:
        >>> from gcl_hard.graphs import TwoView
        >>> refusal(TwoView(GIN(7)))
        'TwoView has no member dimension'
    """
    parts: list[tuple[object, type]] = [(model.encoder, GIN)]
    if type(model) is InfoGraph:
        parts += [(model.loss, ContrastiveLoss), (model.loss.sampler, NegativeSampler)]
        parts += [(model.node_head, Head), (model.graph_head, Head)]
    elif type(model) is Supervised:
        parts += [(model.classifier, nn.Linear)]
    else:
        return f"{_named(model)} has no member dimension"
    for part, ours in parts:
        if type(part) is not ours:
            return f"{_named(part)} has no member dimension"
    gin = model.encoder
    assert isinstance(gin, GIN)
    if gin.edge_dim is not None or len(gin.virtual) or gin.readout == "both" or gin.jk == "last":
        return "edge features, a virtual node, readout both and jk last have no colours"
    why = gin_refusal(model, gin)
    return _refused_loss(model.loss) if why is None and isinstance(model, InfoGraph) else why


def gin_refusal(model: GraphModel, gin: GIN) -> str | None:
    """Why a model's weights cannot be stacked with those of others, in words; None if they can."""
    of_virtual = [gin.get_submodule(f"virtual.{k}.2") for k in range(len(gin.virtual))]
    for norm in (*gin.norms, *of_virtual):
        usual = isinstance(norm, nn.BatchNorm1d) and norm.affine and norm.track_running_stats
        if not usual or norm.momentum is None:
            return f"{norm} has no member dimension"
    if any(float(conv.eps) for conv in gin.convs):  # type: ignore[arg-type]
        return "a GINConv with an eps has no member dimension"
    if not all(parameter.requires_grad for parameter in model.parameters()):
        return "a model with frozen parameters has no member dimension"
    return None


def _refused_loss(loss: ContrastiveLoss) -> str | None:
    if loss.objective != "jsd" or loss.sampler.draws is not None:
        return "only JSD without draws has a member dimension"
    if loss.on_empty != "skip":
        return f"on_empty={loss.on_empty!r} has no member dimension"
    return counted.refusal(loss.sampler.hardening, loss.temperature)


def rule_of(loss: ContrastiveLoss) -> Rule:
    """How a loss weighs negatives in its current epoch."""
    sampler = loss.sampler
    return Rule(
        sampler.current, loss.temperature, sampler.needs_labels, loss.detach_weights,
        loss.class_prior,
    )  # fmt: skip


def _head(parameters: Tables, name: str, z: Tensor) -> Tensor:
    own = {n: (parameters[f"{name}.{n}.weight"], parameters[f"{name}.{n}.bias"]) for n in HEAD}
    h = z
    for layer in HEAD[:-1]:
        h = linear(h, *own[layer]).relu()
    return h + linear(z, *own[HEAD[-1]])


def _counts(batch: ColouredBatch, kept: Tensor | None) -> list[Counts]:
    """How often the colours of every level occur for each member, from level 0."""
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
    """Mean over the graphs that each member trains on, float [P]."""
    each = cross_entropy(logits.transpose(1, 2), y.expand(len(logits), -1), reduction="none")
    if kept is None:
        return each.mean(1)
    return torch.where(kept, each, 0.0).sum(1) / kept.sum(1)


def _named(part: object) -> str:
    return type(part).__name__
