"""Settings of experiments on the nodes of one graph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Self

from gcl_hard.core.setting import Setting, declared
from gcl_hard.errors import InputError
from gcl_hard.evaluation.checks import checked_shares
from gcl_hard.evaluation.splits import SHARES, ProbeSolver
from gcl_hard.experiments.settings import (
    BATCH_SIZE,
    EPOCHS,
    LR,
    WEIGHT_DECAY,
    ConfigHead,
    Domain,
    OwnTraining,
    RunConfig,
    Values,
    by_method,
    check_unread,
    defaults,
    is_own,
    method_setting,
    of_part,
    row,
    settings_class,
)
from gcl_hard.files.tables import SUFFIXES, is_table
from gcl_hard.graphs.parts import Merge
from gcl_hard.losses.loss import ContrastiveLoss, Reduction
from gcl_hard.losses.methods import METHODS
from gcl_hard.nodes import given_splits_of, published_metric
from gcl_hard.nodes.views import NodeViews

GCN, SAGE = "gcn", "sage"
"""The encoders of nodes that are ours."""
RAW, SGC, UNTRAINED, SUPERVISED = "raw", "sgc", "untrained", "supervised"
ENCODED = (UNTRAINED, SUPERVISED)
PROBED = (RAW, SGC, UNTRAINED)
TRAINED = (SUPERVISED,)
"""Baselines that read settings of the encoder, of the probe, and of training."""
NODE_BASELINES = ("majority", *PROBED, SUPERVISED)
"""Baselines on nodes."""
_OF_POOLS = {
    name: "chooses positives from several views, and a node has two"
    for name, method in METHODS.items()
    if method.positives == "hard"
}
NODE_METHODS = tuple(name for name in METHODS if name not in _OF_POOLS)
NodeProtocol = Literal["transductive"]
Splits = Literal["random", "given"]
NodeFeatures = Literal["auto", "scaled", "stored"]
NodeScore = Literal["accuracy", "auc"]
NodeReduction = Literal["anchors", "pairs"]
NodeDegrees = Literal["graph", "part"]
Activation = Literal["relu", "prelu"]
RANDOM, RANDOM_AWARE = 20, 5
"""Random splits of a run, and of one that trains an encoder for each."""


def _trains_each(above: Values) -> bool:
    """Whether every split has its own encoder, trained with its training labels."""
    method_row = row(above)
    return above["method"] == SUPERVISED or (method_row is not None and method_row.label_aware)


def _split(above: Values) -> Splits:
    return "given" if given_splits_of(above["dataset"]) > 1 else "random"


def _splits(above: Values) -> int | None:
    if above["folds"] is not None:
        return int(above["folds"])
    number = RANDOM
    if above["split"] == "given":
        number = 1 if above["edges"] else given_splits_of(above["dataset"])
    return (min(number, RANDOM_AWARE) if _trains_each(above) else number) or None


def _score(above: Values) -> str:
    return published_metric(above["dataset"])


def _hops(hops: tuple[int, ...] | None, above: Values) -> tuple[int, ...] | None:
    if hops is None:
        return None
    distinct = tuple(sorted(set(hops)))
    if not distinct or distinct[0] < 0:
        raise InputError(f"hops are whole numbers of at least 0, got {hops}")
    return distinct


def _sizes(sizes: tuple[int, ...] | None, above: Values) -> tuple[int, ...] | None:
    if sizes and min(sizes) < 1:
        raise InputError(f"neighbours are whole numbers of at least 1, got {sizes}")
    return sizes or None


def _column(text: str) -> Any:
    """A setting that names columns of the user's own tables."""
    return Setting(
        text, "data", common=True, read_by=NODE_BASELINES,
        applies=lambda above: above["edges"] is not None,
        canonical=lambda names, above: names or None,
    )  # fmt: skip


@dataclass(frozen=True)
class NodeLoss(ConfigHead):
    """How the loss is averaged."""

    reduction: Annotated[NodeReduction, Setting(
        "mean over anchors, each by its mean over positives, or over pairs, of which the nodes "
        "with a known label then own nearly all; over pairs of drawn anchors it is biased",
        several=True,
    )] = "anchors"  # fmt: skip


_Views = settings_class("_Views", declared(NodeViews))


@dataclass(frozen=True)
class NodeConfig(OwnTraining, _Views, RunConfig, NodeLoss):  # type: ignore[misc, valid-type]
    """The settings of an experiment on nodes, as the files in ``configs/nodes`` state them.

    An encoder is trained on the whole graph, without the labels of validation and test nodes, or
    left untrained. A logistic regression, fitted to the training nodes of a split with the penalty
    chosen on its validation nodes, predicts the test nodes.

    Raises:
        InputError: for a value out of range, an unknown name, or a meaningless
            combination; before anything is loaded or written.

    Example:
        >>> NodeConfig("Cora", "ucl").splits, NodeConfig("Cora", "scl").splits
        (20, 5)
    """

    baselines: ClassVar[tuple[str, ...]] = NODE_BASELINES
    domain: ClassVar[Domain] = "nodes"

    dataset: Annotated[
        str, Setting("Cora, …, NAME of NAME.npz, or nodes.csv", "data", common=True, several=True)
    ] = "Cora"
    method: Annotated[str, method_setting(NODE_BASELINES, items="nodes", refused=_OF_POOLS)] = (
        "hscl"
    )
    protocol: Annotated[
        NodeProtocol, Setting("transductive", "split", common=True, several=True)
    ] = "transductive"
    epochs: Annotated[int | None, by_method(
        EPOCHS, 200, 100, help="steps, with neighbours passes (100, supervised 200)",
    )] = None  # type: ignore[assignment]  # fmt: skip
    lr: Annotated[float | None, by_method(LR, 0.01, 0.001, help="0.001, supervised 0.01")] = None  # type: ignore[assignment]  # it is resolved
    weight_decay: Annotated[float | None, by_method(
        WEIGHT_DECAY, 5e-4, 1e-5, help="weight decay of Adam (1e-5, supervised 5e-4)",
    )] = None  # type: ignore[assignment]  # fmt: skip
    batch_size: Annotated[
        int, replace(BATCH_SIZE, help="nodes in a batch, with neighbours; otherwise all are one")
    ] = 1024
    anchors: Annotated[int | None, Setting(
        "nodes drawn as anchors in a step, against all nodes of both views; all if not given",
        "training", least=1, several=True,
    )] = None  # fmt: skip
    neighbours: Annotated[tuple[int, ...] | None, Setting(
        "train on batches of nodes with so many neighbours drawn in each layer, such as 15,10; on "
        "the whole graph if not given",
        "training", read_by=TRAINED, canonical=_sizes,
    )] = None  # fmt: skip
    degrees: Annotated[NodeDegrees, Setting(
        "with neighbours gcn and sage normalise by the degrees of the whole graph, which is "
        "scored, or by those of the drawn part, as PyTorch Geometric's loader and layers do",
        "training", several=True, read_by=TRAINED,
        applies=lambda above: above["neighbours"] is not None, before=("part",),
    )] = "graph"  # fmt: skip
    known_labels: Annotated[float, Setting(
        "share of the training nodes whose label the encoder is trained with; the probe reads all "
        "of them",
        "training", least=0, most=1, symbol="labels", title="known labels", several=True,
        read_by=TRAINED, applies=_trains_each,
    )] = 1.0  # fmt: skip
    augmentations: Annotated[tuple[str, ...] | None, Setting(
        "your own, module:name, applied to each view after edges and columns are dropped",
        "views", custom=True, canonical=lambda names, above: names or None,
    )] = None  # fmt: skip
    encoder: Annotated[str, Setting(
        "gcn, sage, or your own module:Name",
        "encoder", custom=True, several=True, common=True, read_by=ENCODED,
    )] = GCN  # fmt: skip
    dim: Annotated[int, Setting(
        "width of the embeddings; hidden layers have twice as much",
        "gin", least=1, title="width of the embeddings", read_by=ENCODED,
    )] = 128  # fmt: skip
    layers: Annotated[int, Setting("convolutions", "gin", least=1, read_by=ENCODED)] = 2
    activation: Annotated[Activation, Setting("relu or prelu", "gin", read_by=ENCODED)] = "relu"
    dropout: Annotated[float | None, Setting(
        "share of hidden embeddings dropped in training (0, supervised 0.5)",
        "gin", least=0, below=1, read_by=ENCODED,
        usual=lambda above: 0.5 if above["method"] == SUPERVISED else 0.0,
    )] = None  # fmt: skip
    projection: Annotated[int | None, Setting(
        "width of the projection head's hidden layer; that of the embeddings if not given",
        "gin", least=1,
    )] = None  # fmt: skip
    features: Annotated[NodeFeatures, Setting(
        "scaled: rows have the sum 1; stored: as they are; auto: scaled unless some are negative",
        "data", read_by=NODE_BASELINES,
    )] = "auto"  # fmt: skip
    edges: Annotated[str | None, Setting(
        "table of edges (.csv, .tsv or .parquet) beside one of nodes, --dataset nodes.csv",
        "data", common=True, read_by=NODE_BASELINES,
    )] = None  # fmt: skip
    id: Annotated[str | None, _column("column of ids of nodes (id, or the first)")] = None
    label: Annotated[str | None, _column("column of classes of nodes (label)")] = None
    source: Annotated[str | None, _column("column of edges: one end (source, src, from)")] = None
    target: Annotated[str | None, _column("the other (target, dst, to; or the first two)")] = None
    weight: Annotated[str | None, _column("column of weights of edges (weight)")] = None
    merge_weights: Annotated[Merge | None, _column(
        "how the weights of an edge in both directions, or in several rows, become one; they must "
        "agree if not given"
    )] = None  # fmt: skip
    columns: Annotated[tuple[str, ...] | None, _column(
        "columns of nodes that are features; all others if not given"
    )] = None  # fmt: skip
    categories: Annotated[tuple[str, ...] | None, _column(
        "those of them whose numbers are words, such as codes"
    )] = None  # fmt: skip
    split: Annotated[Splits | None, Setting(
        "random, by --shares or --folds, or given, those that come with the data (default of known "
        "sets with several)",
        "split", read_by=NODE_BASELINES, usual=_split,
    )] = None  # fmt: skip
    shares: Annotated[tuple[float, ...], Setting(
        "parts of random splits to train, choose and test on",
        "split", common=True, read_by=NODE_BASELINES,
        applies=lambda above: above["split"] == "random",
        canonical=lambda shares, above: checked_shares("shares", shares),
    )] = (*SHARES, 0.8)  # fmt: skip
    folds: Annotated[int | None, Setting(
        "cross-validation in place of random splits: one fold to test on, the next to choose on",
        "split", least=3, common=True, read_by=NODE_BASELINES,
        applies=lambda above: above["split"] == "random",
    )] = None  # fmt: skip
    splits: Annotated[int | None, Setting(
        "splits (20, or all that are published with a known set; 5 of methods that train an "
        "encoder for each; all of --folds)",
        "split", least=1, common=True, read_by=NODE_BASELINES, usual=_splits,
    )] = None  # fmt: skip
    score: Annotated[NodeScore | None, Setting(
        "accuracy, or auc, the ROC-AUC of two classes (where the data's authors use it)",
        "probe", read_by=NODE_BASELINES, usual=_score,
    )] = None  # fmt: skip
    hops: Annotated[tuple[int, ...] | None, Setting(
        "steps of sgc over the graph, chosen on validation nodes (1,2,3,4,6)",
        "probe", read_by=(SGC,), applies=lambda above: above["method"] == SGC,
        usual=lambda above: (1, 2, 3, 4, 6), canonical=_hops,
    )] = None  # fmt: skip
    solver: Annotated[ProbeSolver | None, Setting(
        "of the regression: its optimum (newton), or where scikit-learn's L-BFGS ends (lbfgs), as "
        "in results before newton",
        "probe", read_by=PROBED, otherwise=lambda above: None, before=("lbfgs",),
        applies=lambda above: above["method"] not in ("majority", *TRAINED),
    )] = "newton"  # fmt: skip

    def check(self) -> None:
        """Refuse meaningless combinations on nodes."""
        if (self.edges is None) == is_table(self.dataset):
            raise InputError(
                "a table of nodes and one of edges make a graph: give --dataset NODES and --edges "
                f"EDGES, {', '.join(SUFFIXES)} each"
            )
        if self.folds is not None and self.shares != defaults(type(self))["shares"]:
            raise InputError("folds say what the parts are: leave shares out, or folds")
        if self.anchors is not None and not self.is_baseline:
            self.loss().check_anchors()
        if self.splits is None:
            raise InputError(
                f"how many splits {self.dataset} comes with is not known: give --splits N with "
                f"--split given"
            )
        if self.neighbours is None and self.batch_size != defaults(type(self))["batch_size"]:
            raise InputError(
                "batch-size is that of batches of nodes with neighbours: give --neighbours 15,10, "
                "or leave it out"
            )
        if self.method == SUPERVISED and self.known_labels == 0:
            raise InputError("supervised learns from labels: give known-labels above 0")
        if self.anchors is not None and self.neighbours is not None:
            raise InputError(
                "anchors are drawn from all nodes of the graph, and with neighbours a batch's own "
                "nodes are its anchors: give batch-size with neighbours, or leave neighbours out"
            )
        if self.encoder in (GCN, SAGE):
            if self.neighbours is not None and len(self.neighbours) != self.layers:
                raise InputError(
                    f"neighbours are drawn in each layer: give {self.layers} numbers for "
                    f"{self.layers} layers, got {len(self.neighbours)}"
                )
            return
        if not is_own(self.encoder):
            raise InputError(
                f"encoder is gcn, sage or your own module:Name, with the module in the working "
                f"folder or installed, got {self.encoder!r}"
            )
        check_unread(self, "gcn and sage")

    @property
    def unread(self) -> frozenset[str]:
        """Settings of gcn and sage, if another encoder replaces them."""
        names = {*of_part(type(self), "gin")} - {"projection", "dropout"}
        return frozenset(names if is_own(self.encoder) else ())

    @property
    def table_columns(self) -> dict[str, Any]:
        """Arguments of ``NodeSet.from_tables``."""
        names = "id", "label", "source", "target", "weight", "merge_weights", "columns"
        return {"categories": self.categories or ()} | {name: getattr(self, name) for name in names}

    @property
    def trains_each(self) -> bool:
        """Whether every split has its own encoder, trained with its training labels."""
        return _trains_each(self.values)

    @property
    def encoders(self) -> int:
        """Encoders that one run trains."""
        return super().encoders * (self.n_scores if self.trains_each else 1)

    @property
    def n_scores(self) -> int:
        """One score a split."""
        return int(self.splits or 0)

    @property
    def is_deterministic(self) -> bool:
        """Whether every seed gives the same scores."""
        return self.method in ("majority", RAW, SGC)

    @property
    def encoder_config(self) -> Self:
        """The settings without those of scoring."""
        if not self.encoders:
            return self
        unseen = {name: defaults(type(self))[name] for name in of_part(type(self), "probe")}
        if self.patience:  # the epoch is chosen by it
            unseen["score"] = self.score
        return replace(self, **unseen)

    def cost(self, size: tuple[int, int]) -> tuple[float, float]:
        """Work in node-epochs; the regression of a split costs about as much as a step.

        Args:
            size: nodes and edges, and nodes.
        """
        n_train, n_nodes = size
        return float(n_train * self.most_epochs * self.encoders), float(n_nodes * self.n_scores)

    def node_views(self) -> NodeViews:
        """The views."""
        return NodeViews(**{name: getattr(self, name) for name in declared(NodeViews)})

    def loss(self, seed: int = 0, **options: Any) -> ContrastiveLoss:
        """A new loss with these settings; the seed draws synthetic negatives."""
        reduction: Reduction = self.reduction
        return super().loss(seed, reduction=reduction, unknown=-1, **options)


CONFIG = NodeConfig
