"""Experiments on the nodes of one graph: an encoder, and a logistic regression on each split."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gcl_hard.core.seeds import seed_for, seeded
from gcl_hard.errors import DivergenceError, InputError, calling_own
from gcl_hard.evaluation.folds import ThreeWaySplit
from gcl_hard.evaluation.metrics import metric, predicted_by, score_of_logits
from gcl_hard.evaluation.splits import (
    dense_if_full,
    fold_splits,
    given_splits,
    probe_splits,
    random_splits,
)
from gcl_hard.experiments import hardware
from gcl_hard.experiments.custom import check_call, name_of, own_part
from gcl_hard.experiments.embedding import Items
from gcl_hard.experiments.experiment import (
    Clock,
    Experiment,
    Parts,
    Reading,
    Report,
    RunContext,
    TrainedRun,
    check_finite,
    refuse_together,
    seeded_weights,
    silent,
)
from gcl_hard.experiments.exporting import Exportable
from gcl_hard.experiments.record import Scored, Tested
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.training import TrainedEncoders, Training
from gcl_hard.files.tables import is_table, read_table
from gcl_hard.functional.negatives import all_finite
from gcl_hard.graphs.embedded import IN_ORDER, check_columns, named_as
from gcl_hard.graphs.sparse import to_scipy
from gcl_hard.losses.pairing import ClassPairs
from gcl_hard.models import evaluating
from gcl_hard.nodes import given_splits_of
from gcl_hard.nodes.data import NodeSet, own_nodes
from gcl_hard.nodes.files import load_nodes, paths, table_paths
from gcl_hard.nodes.models import UNKNOWN, NodeClassifier, NodeContrast, NodeModel, embed_nodes
from gcl_hard.nodes.settings import (
    NODE_BASELINES,
    NODE_METHODS,
    RAW,
    SGC,
    SUPERVISED,
    UNTRAINED,
    NodeConfig,
)
from gcl_hard.nodes.tables import TableReading, keys
from gcl_hard.nodes.views import Neighbourhoods, NodeBatch, transformed_by
from gcl_hard.training.loop import memory_for
from gcl_hard.training.stopping import EarlyStopping

if TYPE_CHECKING:
    from gcl_hard.theory.diagnostics import Sampler

NODES = 1024
"""Maximum number of nodes in a snapshot; both views of each are anchors."""


class NodeExperiment(Experiment[NodeConfig, NodeSet]):
    """Experiments on nodes; methods as in ``Experiment``."""

    scores_on_cpu: ClassVar[bool] = True
    item: ClassVar[str] = "node"
    power: ClassVar[str] = (
        "larger training parts (--folds, --shares), or given splits (--split given), find smaller "
        "ones"
    )
    methods: ClassVar[tuple[str, ...]] = NODE_METHODS
    usual_baselines: ClassVar[tuple[str, ...]] = NODE_BASELINES
    has_validation: ClassVar[bool] = True
    common_splits: ClassVar[bool] = True
    search_defaults: ClassVar[Mapping[str, Any]] = {"splits": 5}
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": (0, 1), "epochs": (3,), "beta": (1.0,), "splits": 2
    }  # fmt: skip
    options: ClassVar[frozenset[str]] = frozenset({"diagnostics", "save_encoder"})
    reading: ClassVar[frozenset[str]] = frozenset({"edges", "only"})
    shape: ClassVar[frozenset[str]] = frozenset({"n_features"})

    def load(
        self, config: NodeConfig, context: RunContext, user_data: NodeSet | None = None
    ) -> NodeSet:
        """The graph on the device, with features scaled as configured."""
        nodes = user_data
        if nodes is None:
            nodes = _named(config, context.data_dir)
        if _features(config, nodes) == "scaled":
            nodes = nodes.normalised()
        return nodes.to(torch.device(context.device))

    def facts(self, data: NodeSet) -> dict[str, Any]:
        """Sizes, classes, and a digest."""
        return {
            "n_nodes": data.n_nodes,
            "n_edges": data.n_edges,
            "n_features": data.n_features,
            "n_classes": data.n_classes,
            "class_names": list(data.class_names),
            "n_labelled": int((data.y != UNKNOWN).sum()),
            "digest": data.digest,
            **({"notes": list(data.notes)} if data.notes else {}),
            **({"table": data.table.as_dict()} if data.table else {}),
        }

    def files(self, config: NodeConfig, data_dir: Path | None) -> list[Path]:
        """The file of a set, or its two tables."""
        if config.edges is not None:
            return table_paths(config.dataset, config.edges, data_dir=data_dir)
        return paths(config.dataset, data_dir=data_dir)

    def set_name(self, config: NodeConfig) -> str:
        """The name, of a table without its suffix."""
        return config.dataset.partition(".")[0] if config.edges else config.dataset

    def seeds_used(self, config: NodeConfig, seeds: Sequence[int]) -> tuple[int, ...]:
        """The first seed alone if each of several splits has its own encoder."""
        alone = config.trains_each and config.n_scores > 1
        return tuple(seeds[:1]) if alone else super().seeds_used(config, seeds)

    def reads_some_labels(self, config: NodeConfig) -> bool:
        """Label-aware training reads the labels of training nodes."""
        return config.reads_labels

    def sees_test_labels(self, config: NodeConfig) -> bool:
        """Never: encoders are trained only with labels of training nodes."""
        return False

    def searches_on_test(self, config: NodeConfig) -> bool:
        """Never: the trials of a search are scored on validation nodes."""
        return False

    def can_select(self, config: NodeConfig) -> bool:
        """Whether an encoder is trained: settings are then chosen on validation nodes."""
        return config.encoders > 0

    def test_share(self, config: NodeConfig, facts: Mapping[str, Any]) -> float:
        """n_test / n_train of the first split; 0 for a single split."""
        return float(facts["n_test"] / facts["n_train"]) if config.n_scores > 1 else 0.0

    def metrics(self, config: NodeConfig, data: NodeSet) -> tuple[str, ...]:
        """Accuracy, or the ROC-AUC."""
        assert config.score is not None
        return (config.score,)

    def size(self, data: NodeSet) -> tuple[int, int]:
        """Nodes and edges, and nodes."""
        return data.n_nodes + data.n_edges, data.n_nodes

    def check(self, config: NodeConfig, data: NodeSet, context: RunContext, *, inner: bool) -> None:
        """Refuse missing splits, and an encoder that does not fit."""
        refuse_together(context, "nodes")
        if data.n_classes < 2:
            raise InputError(
                f"{config.dataset}: labels y of nodes have {data.n_classes} classes, and scores "
                f"need at least two{': give their column, --label' * (data.table is not None)}"
            )
        y = data.y.cpu().numpy()
        for k, split in enumerate(splits_of(config, data)):
            parts = {"training": split.train}
            if config.score == "auc":
                parts |= {"validation": split.valid, "test": split.test}
            for name, ids in parts.items():
                if len(np.unique(y[ids])) < 2:
                    raise InputError(
                        f"{config.dataset}: the {name} part of split {k} has {len(ids)} nodes of "
                        f"one class alone"
                    )
            share = config.known_labels if config.trains_each else 0
            if share > 0 and not len(known_ids(split, k, share)):
                raise InputError(
                    f"known-labels {share:g} of {len(split.train)} training nodes is none: raise "
                    f"it, or give 0"
                )
        if config.score == "auc" and data.n_classes != 2:
            raise InputError(f"score auc is of two classes, {config.dataset} has {data.n_classes}")
        if config.method in (UNTRAINED, SUPERVISED) or not config.is_baseline:
            _check_own_parts(config, data, context.parts)

    def advice(self, config: NodeConfig, data: NodeSet) -> str | None:
        """How tables were read, and given splits that are not used."""
        remarks, n_given = [], 0 if data.train is None else len(data.train)
        if data.table is not None:
            remarks += [f"{config.dataset}: {note}" for note in data.notes]
        if n_given and config.split == "random" and not given_splits_of(config.dataset):
            remarks.append(
                f"{config.dataset} comes with {n_given} splits, which are not used: --split given "
                f"--splits {n_given} uses them"
            )
        if config.split == "given" and config.n_scores < n_given and not config.trains_each:
            remarks.append(
                f"{config.dataset}: the first {config.n_scores} of {n_given} given splits"
            )
        return "\n".join(remarks) or None

    def train_run(self, run: Run, data: NodeSet, context: RunContext, report: Report) -> TrainedRun:
        """Train the encoder of a run, or one for each split, and embed all nodes."""
        hardware.use_threads(context.threads, math.inf, 1, context.cores)
        config = _config(run)
        if not config.encoders:
            clock, embedded = Clock(), None
            if config.method == UNTRAINED:
                with seeded_weights(run.seed, 0):
                    encoder = new_encoder(config, data.n_features, context.parts)
                embedded = embed_nodes(encoder.to(data.x.device), data)
                clock.evaluate()
            return TrainedRun(run, (), *clock.seconds, embeddings=embedded)
        try:
            return _Encoders(run, data, context, report).train()
        except DivergenceError as error:
            return TrainedRun(run, error=error)

    def fit(self, config: NodeConfig, data: NodeSet, context: RunContext, seed: int) -> NodeModel:
        """A model trained on the graph, with the labels of the first split's training nodes."""
        hardware.use_threads(context.threads, math.inf, 1, context.cores)
        run, context = Run(config, seed), context.without_checkpoints()
        return _Encoders(run, data, context, silent).train_encoder(0)[0]

    def score(self, trained: TrainedRun, data: NodeSet, context: RunContext) -> Scored:
        """Predictions for the test nodes of each split."""
        hardware.use_threads(context.threads, math.inf, 1, context.cores)
        run, config = trained.run, _config(trained.run)
        y, splits = data.y.cpu().numpy(), splits_of(config, data)
        assert config.score is not None
        predictions = _predictions(trained, data, splits)
        parts = [split.valid if run.inner else split.test for split in splits]
        facts: dict[str, Any] = {
            "split": config.split,
            **dict(zip(("n_train", "n_valid", "n_test"), map(len, splits[0]), strict=True)),
            "features": _features(config, data),
            **trained.facts,
        }  # fmt: skip
        if config.method == SGC:
            facts["hops"] = [p.hops for p in predictions]
        if config.method != "majority" and not any(
            np.ptp(p.predicted[part]) for part, p in zip(parts, predictions, strict=True)
        ):
            same = f"{run}: predicts the same for all test nodes, as majority does"
            facts["remarks"] = [*facts.get("remarks", ()), same]
        return Scored(
            tuple(
                Tested(part, y[part], p.predicted[part])
                for part, p in zip(parts, predictions, strict=True)
            ),
            chosen=tuple(p.penalty for p in predictions if p.penalty is not None),
            validation=() if run.inner else tuple(p.validation for p in predictions),
            facts=facts,
        )

    def new_encoder(
        self, config: NodeConfig, saved: Mapping[str, Any], parts: Parts | None
    ) -> nn.Module:
        """A GCN, or another encoder that the configuration names."""
        return new_encoder(config, saved["n_features"], parts)

    def items(
        self, encoder: nn.Module, saved: Mapping[str, Any], data: Any, reading: Reading
    ) -> Items:
        """All nodes of a graph, in one batch."""
        config, context = saved["config"], reading.context
        if kind := saved.get("features"):
            config = replace(config, features=kind)
        notes: tuple[str, ...] = ()
        if hasattr(data, "iloc") or (isinstance(data, str | Path) and is_table(str(data))):
            nodes = _of_tables(saved, data, reading.edges)
            notes = nodes.notes[:-1]  # without that no label was read
        elif isinstance(data, str | Path):
            config, context = named_as(data, config, context)
            nodes = load_nodes(config.dataset, data_dir=context.data_dir)
        else:
            nodes = own_nodes(data)
        table = saved.get("table")
        if table and nodes.table and nodes.table.as_dict()["features"] != table["features"]:
            raise InputError(
                f"features of {nodes.name} were computed by its own means and words, and the "
                f"encoder's are others: give the tables themselves, or like= its set"
            )
        if saved.get("columns") and nodes.columns:
            nodes = nodes.aligned(saved["columns"])
        else:
            notes = (*notes, IN_ORDER)
        nodes = self.load(config, context, nodes)
        wanted = saved.get("n_features", nodes.n_features)
        check_columns(nodes.name, "node", nodes.n_features, wanted, data="nodes")
        rows = _rows(nodes, reading.only, table["id"] if table else "id")
        return Items(
            {"id": nodes.names[rows]}, nodes.digest, np.array([0, len(rows)]),
            lambda _: embed_nodes(encoder, nodes)[rows], notes, whole={"id": nodes.names},
        )  # fmt: skip

    def exportable(self, encoder: nn.Module, saved: Mapping[str, Any]) -> Exportable:
        """Embeddings of nodes, from dense features and edges."""
        from gcl_hard.graphs.exported import nodes_exportable

        return nodes_exportable(encoder, saved)

    def arrays(self, trained: TrainedRun, data: NodeSet) -> dict[str, NDArray[Any]]:
        """``embeddings`` float32 [N, d], or [splits, N, d] if every split has an encoder,
        ``nodes``, their names, ``labels`` [N], −1 where unknown, and ``split`` int8
        [splits, N]: 0 train, 1 validation, 2 test, −1 in none.
        """
        config = _config(trained.run)
        parts = np.full((config.n_scores, data.n_nodes), -1, np.int8)
        for k, split in enumerate(splits_of(config, data)):
            for number, ids in enumerate(split):
                parts[k, ids] = number
        return {
            "embeddings": np.asarray(trained.embeddings, np.float32), "nodes": data.names,
            "labels": data.y.cpu().numpy(), "split": parts,
        }  # fmt: skip

    def user_data(self, data: Any, name: str, settings: Mapping[str, Any]) -> NodeSet:
        """As :func:`gcl_hard.nodes.data.own_nodes`."""
        return own_nodes(data)

    def file_facts(self, data: Any) -> dict[str, Any]:
        """Nodes have the features that the encoder reads."""
        return {"features": "stored"}


TRIED = 50
"""Number of nodes, with a neighbour of each, on which the user's own parts are tried."""
UNLIKE = 0.01
"""Relative difference above which embeddings of a part count as different from those of the
whole graph."""


def _config(run: Run) -> NodeConfig:
    return cast("NodeConfig", run.config)


def _features(config: NodeConfig, data: NodeSet) -> str:
    if config.features != "auto":
        return config.features
    return "stored" if data.has_negative else "scaled"


def _named(config: NodeConfig, data_dir: Path | None) -> NodeSet:
    """The set that a configuration names."""
    if config.edges is None:
        return load_nodes(config.dataset, data_dir=data_dir)
    files = table_paths(config.dataset, config.edges, data_dir=data_dir)
    return NodeSet.from_tables(*files, **config.table_columns)


def _of_tables(saved: Mapping[str, Any], nodes: Any, edges: Any) -> NodeSet:
    """Nodes of tables, read as those that an encoder was trained on."""
    if saved.get("table") is None:
        raise InputError("the encoder was trained on no tables: give a NodeSet, or an npz file")
    if edges is None:
        raise InputError("nodes of a table have their edges in another: give edges (--edges)")
    like = replace(TableReading.from_dict(saved["table"]), label=None, split=None)
    return NodeSet.from_tables(nodes, edges, like=like)


def _rows(nodes: NodeSet, only: Any, column: str) -> NDArray[np.int64]:
    """Rows of some nodes, whose ids are listed or in a column of a table; of all without any."""
    if only is None:
        return np.arange(nodes.n_nodes)
    row = {str(name): k for k, name in enumerate(nodes.names.tolist())}
    if isinstance(only, str | Path) or hasattr(only, "iloc"):
        table = read_table(only, "ids")
        column = column if column in table else next(iter(table))
        only = [column] * (column in row) + [*keys(table[column], column)]  # without a first line
    if unknown := [str(name) for name in only if str(name) not in row]:
        raise InputError(
            f"{len(unknown):,} of {len(only):,} ids are not among the nodes, such as {unknown[0]}"
        )
    return np.array([row[str(name)] for name in only], np.int64)


def splits_of(config: NodeConfig, data: NodeSet) -> list[ThreeWaySplit]:
    """The splits of a configuration, the same for all methods and seeds.

    Raises:
        InputError: for given splits that the data do not have.
    """
    if config.split == "random":
        labelled = (data.y != UNKNOWN).nonzero().flatten().cpu().numpy()
        labels = data.y.cpu().numpy()[labelled]
        if config.folds is not None:
            return fold_splits(labelled, config.n_scores, folds=config.folds, labels=labels)
        shares = config.shares[0], config.shares[1]
        return random_splits(labelled, config.n_scores, shares=shares, labels=labels)
    if data.train is None or data.val is None or data.test is None:
        raise InputError(f"{config.dataset} comes without train, val and test masks")
    if config.n_scores > len(data.train):
        raise InputError(
            f"{config.dataset} comes with {len(data.train)} splits, got --splits {config.n_scores}"
        )
    masks = data.train, data.val, data.test
    return given_splits(*(mask[: config.n_scores].cpu().numpy() for mask in masks))


def new_encoder(config: NodeConfig, n_features: int, parts: Parts | None) -> nn.Module:
    """A new encoder of a configuration."""
    make = own_part(config.encoder, parts)
    if make is not None:
        check_call(make, "encoder(n_features)", n_features)
        return make(n_features)
    from gcl_hard.nodes.encoders import NODE_ENCODERS

    return NODE_ENCODERS[config.encoder](
        n_features, config.dim, config.layers, activation=config.activation,
        dropout=config.dropout or 0.0,
    )  # fmt: skip


def _check_own_parts(config: NodeConfig, data: NodeSet, parts: Parts | None) -> None:
    """Check the user's own parts on some nodes of the graph, before anything is trained."""
    make = own_part(config.encoder, parts)
    views = [] if config.is_baseline else _own_views(config, parts)
    if make is None and not views:
        return
    part = Neighbourhoods(data.to(torch.device("cpu")), (1,)).around(
        np.arange(min(TRIED, data.n_nodes)), np.random.default_rng(0)
    )
    part = transformed_by(part, views, torch.Generator())
    if make is not None:
        call = f"the encoder {name_of(make)} fails on {part.num_nodes} nodes"
        with torch.random.fork_rng(devices=[]), calling_own(call):
            embed_nodes(new_encoder(config, data.n_features, parts), part)


def _own_views(config: NodeConfig, parts: Parts | None) -> list[Any]:
    """The user's own augmentations."""
    views = (own_part(name, parts) for name in config.augmentations or ())
    return [view for view in views if view is not None]


class _Encoders(TrainedEncoders):
    """The encoders of a run, trained one after the other.

    Args:
        run: the run.
        data: the graph.
        context: names the user's own parts, and the epochs between two snapshots of the first one.
        report: called after every epoch.
    """

    def __init__(self, run: Run, data: NodeSet, context: RunContext, report: Report) -> None:
        super().__init__(run, context, self._sampler)
        self.run, self.config, self.data = run, _config(run), data
        self.context, self.report = context, report
        self.splits = splits_of(self.config, data)
        self.remarks: list[str] = []

    def _sampler(self) -> Sampler[NodeContrast]:
        return node_sampler(self.config, self.data)

    def train(self) -> TrainedRun:
        """Train the encoders, and embed the nodes by each.

        Raises:
            DivergenceError: for a loss or embeddings that are not finite.
        """
        for k in range(self.config.encoders):
            model, loss, stopping, clock = self.train_encoder(k)
            output = _outputs(model, self.data)
            check_finite(output, self.run)
            self.add(k, model.encoder, loss, output, stopping)
            if not k and self.config.neighbours is not None:
                self._compare_part(model, output)
            clock.evaluate()
            self.seconds_train += clock.seconds[0]
            self.seconds_eval += clock.seconds[1]
        trained = self.trained(self.run, {
            "n_features": self.data.n_features, "features": _features(self.config, self.data),
            "columns": list(self.data.columns),
            **({"table": self.data.table.as_dict()} if self.data.table else {}),
        })  # fmt: skip
        if not self.config.trains_each:
            trained.embeddings = trained.embeddings[0]
        if self.remarks:
            trained.facts["remarks"] = self.remarks
        return trained

    def train_encoder(self, k: int) -> tuple[NodeModel, float, EarlyStopping | None, Clock]:
        """The k-th encoder, trained, with its last loss, early stopping and time."""
        config, device = self.config, self.data.x.device
        graph = self.data.as_batch()._replace(y=self._labels(k))
        with seeded_weights(self.run.seed, k) as seed:
            model = self._model(seed).to(device)
        stopping = self._stopping(k, model)
        batches, n_batches = self._batches(graph, device)
        training = Training(
            self.run, self.context, self.report,
            n_batches=n_batches, number=k, total=config.encoders,
        )  # fmt: skip
        with memory_for(
            lambda: (
                f"out of memory in training on the {self.data.n_nodes} nodes of {config.dataset}: "
                f"give --anchors N, or --neighbours 15,10 to train on parts of the graph"
            )
        ):
            losses = training.train(
                model, batches, config.optimisation(), device=device, seed=seed,
                stopping=stopping, diagnostics=None if k else self.diagnostics,
            )  # fmt: skip
        return model, losses[-1], stopping, training.clock

    def _batches(
        self, graph: NodeBatch, device: torch.device
    ) -> tuple[Callable[[int], Iterable[NodeBatch]], int]:
        """The batches of an epoch, and their number."""
        config = self.config
        if config.neighbours is None:
            return (lambda epoch: [graph]), 1
        drawn = Neighbourhoods(graph.to("cpu"), config.neighbours, degrees=config.degrees)
        of_epoch = drawn.batches(config.batch_size, seed=config.data_seed)
        return partial(_moved, of_epoch, device), math.ceil(graph.num_nodes / config.batch_size)

    def _compare_part(self, model: NodeModel, whole: NDArray[Any]) -> None:
        """Add a remark if embeddings on a part of the graph differ from those on all of it."""
        config, graph = self.config, NodeBatch.of(self.data).to("cpu")
        ids = np.random.default_rng(0).permutation(graph.num_nodes)[:TRIED]
        everything = (graph.num_nodes,) * len(config.neighbours or ())
        parts = Neighbourhoods(graph, everything, degrees=config.degrees)
        part = parts.around(ids, np.random.default_rng(0)).to(self.data.x.device)
        difference = np.linalg.norm(_outputs(model, part)[: len(ids)] - whole[ids])
        share = difference / max(np.linalg.norm(whole[ids]), np.finfo(np.float32).tiny)
        if share > UNLIKE:
            self.remarks.append(
                f"{config.encoder}: embeddings of a batch's own nodes, with all their neighbours "
                f"drawn, differ by {share:.0%} from those in the whole graph, which are scored, as "
                f"of encoders that normalise by the part or have more layers than --neighbours"
            )

    def _stopping(self, k: int, model: NodeModel) -> EarlyStopping | None:
        """Stops supervised training by the validation nodes of split k."""
        config, valid = self.config, torch.from_numpy(self.splits[k].valid)
        name = config.score or "accuracy"
        if not config.patience or not isinstance(model, NodeClassifier):
            return None
        nodes, y = valid.to(self.data.y.device), self.data.y[valid]
        return EarlyStopping(
            model, lambda: score_of_logits(model.scores(self.data)[nodes], y, name),
            patience=config.patience,
        )  # fmt: skip

    def _model(self, seed: int) -> NodeModel:
        config, parts = self.config, self.context.parts
        encoder = new_encoder(config, self.data.n_features, parts)
        if config.method == SUPERVISED:
            return NodeClassifier(encoder, self.data.n_classes)
        return NodeContrast(
            encoder, loss=config.loss(seed), views=config.node_views(),
            augmentations=_own_views(config, parts), projection=config.projection,
            anchors=config.anchors, seed=seed,
        )  # fmt: skip

    def _labels(self, k: int) -> Tensor:
        """The labels that the k-th encoder may read; −1 for all other nodes."""
        y = torch.full_like(self.data.y, UNKNOWN)
        if self.config.trains_each:
            ids = known_ids(self.splits[k], k, self.config.known_labels)
            known = torch.from_numpy(ids).to(y.device)
            y[known] = self.data.y[known]
        return y


def _outputs(model: NodeModel, graph: Any) -> NDArray[Any]:
    """The outputs that are scored: logits of a classifier, embeddings otherwise."""
    if isinstance(model, NodeClassifier):
        return model.scores(graph).cpu().numpy()
    return model.embed(graph)


def _moved(of_epoch: Any, device: torch.device, epoch: int) -> Iterator[NodeBatch]:
    for batch in of_epoch(epoch):
        yield batch.to(device)


def known_ids(split: ThreeWaySplit, k: int, share: float) -> NDArray[np.int64]:
    """The training nodes of split k whose label is known; a smaller share is a subset."""
    order = np.random.default_rng((k, 1)).permutation(split.train)
    return order[: round(share * len(order))]


class _Predicted(NamedTuple):
    """Predictions for every node by one split, and what was chosen on its validation nodes."""

    predicted: NDArray[Any]
    validation: float
    penalty: float | None = None
    hops: int | None = None


def _predictions(
    trained: TrainedRun, data: NodeSet, splits: list[ThreeWaySplit]
) -> list[_Predicted]:
    config, y = _config(trained.run), data.y.cpu().numpy()
    assert config.score is not None
    if config.method in ("majority", SUPERVISED):
        measure = metric(config.score)
        classes = [_unprobed(trained, y, k, split) for k, split in enumerate(splits)]
        return [
            _Predicted(predicted, measure.score(y[split.valid], predicted[split.valid]))
            for predicted, split in zip(classes, splits, strict=True)
        ]
    best: list[_Predicted] = []
    for hops, z in _representations(trained, data):
        parts = [(z, splits)]
        if config.trains_each:
            parts = [(split_z, [split]) for split_z, split in zip(z, splits, strict=True)]
        probed = [
            _Predicted(*probe, hops)
            for inputs, probed_on in parts
            for probe in probe_splits(
                inputs, y, probed_on, score=config.score, solver=config.solver or "newton"
            )
        ]
        pairs = zip(best or probed, probed, strict=True)
        best = [new if new.validation > old.validation else old for old, new in pairs]
    return best


def _unprobed(trained: TrainedRun, y: NDArray[Any], k: int, split: ThreeWaySplit) -> NDArray[Any]:
    """Predictions of a supervised encoder, or the most frequent class of the training nodes."""
    config = _config(trained.run)
    assert config.score is not None
    if config.method == SUPERVISED:
        return predicted_by(trained.scores[k], config.score)
    if config.score == "auc":
        return np.zeros(len(y))
    return np.full(len(y), np.bincount(y[split.train]).argmax())


def _representations(trained: TrainedRun, data: NodeSet) -> Iterator[tuple[int | None, Any]]:
    """Inputs of the probe, for all splits or for each; of sgc after each number of steps."""
    config = _config(trained.run)
    if config.method not in (RAW, SGC):
        yield None, trained.embeddings
        return
    x = to_scipy(data.x)
    if config.method == RAW:
        yield None, x
        return
    from gcl_hard.nodes.encoders import normalised_adjacency

    by = to_scipy(normalised_adjacency(data.edge_index, data.edge_weight, data.n_nodes))
    done = 0
    for hops in config.hops or ():
        while done < hops:
            x, done = dense_if_full(by @ x), done + 1
        yield hops, x


def node_sampler(config: NodeConfig, data: NodeSet) -> Sampler[NodeContrast]:
    """Sampler of views of some nodes, and of other nodes of their classes.

    The classes are those of the data, whatever labels the encoder is trained with.

    Args:
        config: its ``data_seed`` decides what is drawn: all methods and seeds are measured on the
            same nodes.
        data: the graph.

    Returns:
        A function from a model to a :class:`Sample`.
    """
    from gcl_hard.theory.diagnostics import SALT, Batch, Sample

    draws = seeded(config.data_seed, SALT)
    labels = data.y.cpu()
    known = (labels != UNKNOWN).nonzero().flatten()
    index = torch.randperm(len(known), generator=draws)[:NODES]
    partners = known[ClassPairs(labels[known]).draw(index, draws)]
    index = known[index]
    device, graph = data.x.device, NodeBatch.of(data)
    seed = seed_for(config.data_seed, SALT, 1)

    def sample(model: NodeContrast) -> Sample | None:
        views = model.views_of(graph, torch.Generator(device).manual_seed(seed))
        with evaluating(model):
            z1, z2 = (model.project(view) for view in views)
        embedded = torch.from_numpy(model.embed(graph))[index].to(device)
        if not all_finite([embedded, z1, z2]):
            return None
        y = data.y[index.to(device)]
        batch = Batch.two_view(model.loss, z1[index], z2[partners], y)
        return Sample([batch], embedded, y)

    return sample


EXPERIMENT = NodeExperiment
