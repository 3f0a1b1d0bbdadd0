"""Settings of experiments on graphs."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, get_args

from gcl_hard.core.setting import Setting
from gcl_hard.errors import InputError, check_option
from gcl_hard.evaluation.checks import check_grid
from gcl_hard.evaluation.probing import PROBES
from gcl_hard.experiments.settings import (
    BATCH_PARTS,
    BATCH_SIZE,
    EPOCHS,
    ConfigHead,
    Domain,
    OwnTraining,
    RunConfig,
    Values,
    check_unread,
    defaults,
    flag,
    is_own,
    is_pretrained,
    method_setting,
    of_part,
    row,
)
from gcl_hard.functional.hardness import DEFAULT_SCALE, EmbeddedScale
from gcl_hard.functional.objectives import Objective
from gcl_hard.graphs import canonical_name
from gcl_hard.graphs.encoders import JumpingKnowledge, Readout
from gcl_hard.graphs.features import check_kind
from gcl_hard.losses.loss import ContrastiveLoss
from gcl_hard.losses.methods import method
from gcl_hard.training.loop import Optimisation

GIN, MOLECULE_GIN = "gin", "molecule-gin"
"""The encoders of graphs that are ours; the second takes molecules, whose features are codes."""
NOT_OF_MOLECULES = ("features", "encodings", "edge_labels", "virtual_node")
"""Settings that the encoders of molecules do not read."""
GraphProtocol = Literal["transductive", "inductive"]
Contrast = Literal["local-global", "two-view"]
if TYPE_CHECKING:
    GraphProbe = str
else:
    GraphProbe = Literal[*PROBES]
ProbeKernel = Literal["rbf", "linear", "rbf+wl", "rbf+wl-oa"]
PROBED = ("untrained",)
TRAINED = ("untrained", "supervised")
KERNELS = ("graph-size", "label-histogram", "wl", "wl-oa")
FOLDS_USED = (*KERNELS, *TRAINED)
"""Baselines that read settings of the probe, of the encoder, that are kernels, and that read the
training folds."""
GRAPH_BASELINES = ("majority", *FOLDS_USED)
"""Baselines on graphs; each is fitted to training folds only, so its protocol is ``inductive``."""


OF_PAPER = ("PTC_MR", "MUTAG", "ENZYMES", "IMDB-BINARY", "IMDB-MULTI")
"""Sets of Table II of the H-SCL paper."""


def _usual_protocol(above: Values) -> str:
    """The paper's protocol on its own sets, with which ``bench`` compares; on other data the one
    that estimates the accuracy on new graphs.
    """
    name = ""
    with suppress(InputError):  # for what is not the name of a TU set
        name = canonical_name(above["dataset"])
    return "transductive" if name in OF_PAPER else "inductive"


def _protocol(name: str, above: Values) -> str:
    protocol = "transductive" if name == "paper" else name
    return check_option("protocol", protocol, get_args(GraphProtocol))


def _two_view(above: Values) -> bool:
    return bool(above["contrast"] == "two-view")


def _contrast(above: Values) -> Contrast:
    method_row = row(above)
    return "two-view" if method_row is not None and method_row.infonce_only else "local-global"


def _hardened(above: Values) -> bool:
    """Whether something is hardened under JSD."""
    method_row = row(above)
    hardens = method_row is not None and method_row.hardening is not None
    return above["objective"] == "jsd" and hardens


def _scale(above: Values) -> EmbeddedScale:
    method_row = row(above)
    return DEFAULT_SCALE if method_row is None else method_row.hardness_scale


@dataclass(frozen=True)
class GraphLoss(ConfigHead):
    """What is contrasted, and how: it decides defaults of the settings of losses."""

    contrast: Annotated[Contrast | None, Setting(
        "local-global (InfoGraph; default) or two-view (default of mochi, spacl)",
        usual=_contrast, otherwise=lambda above: "local-global",
    )] = None  # fmt: skip
    objective: Annotated[Objective | None, Setting(
        "jsd (default of local-global) or infonce (default of two-view)",
        follows=("contrast",), usual=lambda above: "infonce" if _two_view(above) else "jsd",
    )] = None  # fmt: skip
    hardness_scale: Annotated[EmbeddedScale | None, Setting(
        f"what hardens under jsd: anchor, rank, cosine or batch-max, HCL's ({DEFAULT_SCALE}; "
        f"progcl: cosine)",
        several=True, applies=_hardened, usual=_scale,
    )] = None  # fmt: skip


@dataclass(frozen=True)
class GraphConfig(OwnTraining, RunConfig, GraphLoss):
    """The settings of an experiment on graphs, as the files in ``configs/graphs`` state them.

    Raises:
        InputError: for a value out of range, an unknown name, or a meaningless
            combination; before anything is loaded or written.

    Example:
        >>> GraphConfig(method="ucl", beta=2.0).beta is None  # ucl has no β
        True
    """

    baselines: ClassVar[tuple[str, ...]] = GRAPH_BASELINES
    domain: ClassVar[Domain] = "graphs"

    dataset: Annotated[str, Setting(
        "a TU data set; PTC, IMDB-B and IMDB-M are accepted too", "data", common=True, several=True,
    )] = "MUTAG"  # fmt: skip
    method: Annotated[str, method_setting(GRAPH_BASELINES)] = "hscl"
    protocol: Annotated[str | None, Setting(
        "inductive, or transductive (paper: its sets' default; encoders see all graphs)",
        "split", common=True, several=True, usual=_usual_protocol,
        otherwise=lambda above: "inductive", before=("transductive",), canonical=_protocol,
    )] = None  # type: ignore[assignment]  # fmt: skip
    epochs: Annotated[int, replace(EPOCHS, help="passes over the training data")] = 200
    batch_size: Annotated[int, replace(BATCH_SIZE, help="graphs in a batch")] = 128
    augmentations: Annotated[tuple[str, ...] | None, Setting(
        "of two-view, in order (mask-attributes,perturb-edges), or module:name", "views",
        custom=True, follows=("contrast", "objective"), applies=_two_view,
        usual=lambda above: ("mask-attributes", "perturb-edges"),
        canonical=lambda names, above: names or None,
    )] = None  # fmt: skip
    strength: Annotated[float | None, Setting(
        "share that each augmentation changes (0.2)", "views",
        follows=("contrast", "objective"), applies=_two_view, usual=lambda above: 0.2,
    )] = None  # fmt: skip
    encoder: Annotated[str, Setting(
        "gin, molecule-gin, FILE.pt of gcl_hard.pretrain, or your own module:Name, called as "
        "Name(n_features)",
        "encoder", custom=True, several=True, common=True, read_by=TRAINED,
    )] = GIN  # fmt: skip
    layers: Annotated[int, Setting("layers of the GIN", "gin", least=1, read_by=TRAINED)] = 3
    dim: Annotated[int, Setting(
        "width of a layer; embeddings are layers × dim wide",
        "gin", title="width of a layer", least=1, read_by=TRAINED,
    )] = 32  # fmt: skip
    readout: Annotated[Readout, Setting(
        "sum, mean or both over a graph's nodes", "gin", read_by=TRAINED
    )] = "sum"  # fmt: skip
    features: Annotated[str, Setting(
        "auto, labels, degree-onehot, degree-scalar, constant or attributes",
        "data", read_by=("label-histogram", "wl", "wl-oa", *TRAINED),
    )] = "auto"  # fmt: skip
    standardise: Annotated[bool, Setting(
        "whether the SVM is given standardised embeddings",
        "probe", read_by=("graph-size", "label-histogram", *PROBED),
    )] = True  # fmt: skip
    folds: Annotated[int, Setting(
        "folds of the outer cross-validation", "split", least=2, read_by=GRAPH_BASELINES
    )] = 10  # fmt: skip
    jk: Annotated[JumpingKnowledge, Setting(
        "cat: an embedding is all layers; last: the last one", "gin", read_by=TRAINED
    )] = "cat"  # fmt: skip
    edge_labels: Annotated[bool, Setting(
        "GINE on edge labels and attributes, where there are any", "gin", read_by=TRAINED
    )] = False  # fmt: skip
    virtual_node: Annotated[bool, Setting(
        "a node linked to all nodes of its graph", "gin", read_by=TRAINED
    )] = False  # fmt: skip
    encodings: Annotated[tuple[str, ...] | None, Setting(
        "columns added to node features: degree, random-walk, cycles, wl",
        "data", read_by=TRAINED, canonical=lambda names, above: names or None,
    )] = None  # fmt: skip
    probe: Annotated[GraphProbe, Setting(
        ", ".join(probe.help for probe in PROBES.values()), "probe", read_by=PROBED
    )] = "svm"  # fmt: skip
    kernel: Annotated[ProbeKernel, Setting(
        "kernel of the SVM: rbf, linear, or rbf plus a WL kernel", "probe", read_by=PROBED
    )] = "rbf"  # fmt: skip
    c_grid: Annotated[tuple[float, ...] | None, Setting(
        "values of the SVM's C to choose from (0.001, 0.01 … 1000)", "probe",
        read_by=(*KERNELS, *PROBED), canonical=lambda penalties, above: penalties or None,
    )] = None  # fmt: skip
    train_share: Annotated[float, Setting(
        "share of a training fold's graphs that is used",
        "split", above=0, most=1, read_by=FOLDS_USED,
    )] = 1.0  # fmt: skip
    parts: Annotated[int, BATCH_PARTS] = 1

    def check(self) -> None:
        """Refuse meaningless combinations."""
        if not self.is_baseline and self.contrast != "two-view":
            of_views = method(self.method).infonce_only
            if of_views or self.views is not None:
                reason = self.method if of_views else f"views {self.views}"
                raise InputError(f"{reason} needs views of each graph: give contrast two-view")
        if self.train_share < 1 and self.protocol == "transductive":
            raise InputError(
                "train-share leaves graphs out of training folds; under protocol transductive "
                "encoders see all graphs: give protocol inductive"
            )
        _check_encoder(self)
        if self.probe != "svm" and self.kernel != "rbf":
            raise InputError(f"kernel {self.kernel} applies to the SVM: leave it out, or probe")
        if self.c_grid is not None:
            check_grid("c-grid", self.c_grid)
        if self.encodings:
            from gcl_hard.graphs.encodings import check_encodings

            check_encodings(self.encodings)
        check_kind(self.features)
        if self.contrast == "two-view":
            from gcl_hard.graphs.augment import check_views

            named = [name for name in self.augmentations or () if not is_own(name)]
            check_views(named, self.strength or 0.0)

    @property
    def unread(self) -> frozenset[str]:
        """Settings of the GIN, if another encoder replaces it."""
        return frozenset(of_part(type(self), "gin") if is_own(self.encoder) else ())

    @property
    def data_key(self) -> tuple[Hashable, ...]:
        """Key of the data: the settings that decide which graphs are loaded, and in which form."""
        return *super().data_key, self.of_molecules

    @property
    def of_molecules(self) -> bool:
        """Whether the encoder reads atoms and bonds."""
        return self.encoder == MOLECULE_GIN or is_pretrained(self.encoder)

    @property
    def encoder_config(self) -> Self:
        """The settings without those of the SVM, and without edge labels where there are none."""
        unseen = {name: defaults(type(self))[name] for name in of_part(type(self), "probe")}
        if self.edge_labels:
            from gcl_hard.graphs.tudataset import lacks_edge_labels

            unseen["edge_labels"] = not lacks_edge_labels(self.dataset)
        return replace(self, **unseen)

    @property
    def two_view(self) -> bool:
        """Whether two views of each graph are contrasted."""
        return not self.is_baseline and self.contrast == "two-view"

    @property
    def encoders(self) -> int:
        """Encoders that one run trains."""
        return super().encoders * (self.folds if self.protocol == "inductive" else 1)

    @property
    def n_scores(self) -> int:
        """One test accuracy per fold."""
        return self.folds

    @property
    def shares_views(self) -> bool:
        """See :attr:`RunConfig.shares_views`."""
        return self.two_view

    @property
    def group_key(self) -> Hashable | None:
        """Key of configurations that can train as one ensemble: data, shapes, views and batches."""
        one_view = self.contrast == "local-global"
        if self.encoders == 0 or (one_view and self.objective == "infonce"):
            return None
        if self.encoder != GIN or self.parts > 1:
            return None
        trained = self.encoder_config
        shape = tuple(
            getattr(trained, name) for name in of_part(type(self), "data", "encoder", "gin")
        )
        batches = self.batch_size, self.data_seed, self.train_share
        takes_items = not one_view and method(self.method).positives == "hard"
        views = (
            self.augmentations, self.strength, self.views, takes_items, self.method == "supervised"
        )  # fmt: skip
        return self.protocol, self.contrast, *shape, *batches, *views

    def cost(self, size: tuple[int, int]) -> tuple[float, float]:
        """Work in node-epochs, a unit common to data sets and methods.

        The SVM of n graphs costs about 0.4 n² of them (measured on the paper's data sets).

        Args:
            size: nodes and graphs.
        """
        n_nodes, n_graphs = size
        return n_nodes * self.most_epochs * self.encoders, 0.4 * n_graphs**2

    def optimisation(self) -> Optimisation:
        """How the encoder is optimised."""
        return replace(super().optimisation(), parts=self.parts)

    def loss(self, seed: int = 0, **options: Any) -> ContrastiveLoss:
        """A new loss with these settings; the seed draws synthetic negatives."""
        return super().loss(
            seed, objective=self.objective or "jsd", hardness_scale=self.hardness_scale, **options
        )


def _check_encoder(config: GraphConfig) -> None:
    """Refuse an unknown encoder, and settings of the GIN for another encoder."""
    if config.encoder == GIN:
        return
    if config.of_molecules:
        for name in NOT_OF_MOLECULES:
            if getattr(config, name) != defaults(type(config))[name]:
                raise InputError(
                    f"{flag(name)} applies to the encoder gin: "
                    f"{config.encoder.partition('@')[0]} reads atoms and bonds"
                )
    if config.encoder == MOLECULE_GIN:
        return
    if not is_own(config.encoder):
        raise InputError(
            f"encoder is gin, molecule-gin, FILE.pt of gcl_hard.pretrain, or your own "
            f"module:Name, with the module in the working folder or installed, got "
            f"{config.encoder!r}"
        )
    check_unread(config, "the GIN", *["leave it out"] * config.of_molecules)


def reads_wl(config: GraphConfig) -> bool:
    """Whether it has a Weisfeiler-Lehman kernel, or its colours as encodings."""
    added = config.kernel.partition("+")[2]
    return not {"wl", "wl-oa"}.isdisjoint((config.method, added, *(config.encodings or ())))


CONFIG = GraphConfig
