"""Settings of experiments on graphs."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
)

from gcl_hard.errors import InputError, check_number
from gcl_hard.functional.hardness import DEFAULT_SCALE, HardnessScale
from gcl_hard.functional.objectives import Objective
from gcl_hard.losses import ContrastiveLoss
from gcl_hard.methods import (
    METHODS,
    method,
)
from gcl_hard.settings.base import (
    TRAINING,
    Domain,
    RunConfig,
    defaults,
    flag,
    is_own,
    is_pretrained,
)
from gcl_hard.settings.images import is_image_encoder

GIN, MOLECULE_GIN = "gin", "molecule-gin"
"""The encoders of graphs that are ours; the second is of molecules, whose features are codes."""
GraphProtocol = Literal["transductive", "inductive"]
Contrast = Literal["local-global", "two-view"]
Readout = Literal["sum", "mean", "both"]
JumpingKnowledge = Literal["cat", "last"]
GraphProbe = Literal["svm", "logistic", "nystroem"]
ProbeKernel = Literal["rbf", "linear", "rbf+wl", "rbf+wl-oa"]
GIN_SETTINGS = ("layers", "dim", "readout", "jk", "edge_labels", "virtual_node")
"""Settings of the GIN, which a user's own encoder replaces."""
_ENCODER = ("features", "encodings", "encoder", *GIN_SETTINGS)
_PROBE = ("standardise", "kernel", "c_grid", "probe")
GRAPH_BASELINES: dict[str, tuple[str, ...]] = {
    "majority": (),
    "graph-size": ("standardise", "c_grid", "train_share"),
    "label-histogram": ("features", "standardise", "c_grid", "train_share"),
    "wl": ("features", "c_grid", "train_share"),
    "wl-oa": ("features", "c_grid", "train_share"),
    "untrained": (*_ENCODER, *_PROBE, "train_share"),
    "supervised": (*_ENCODER, *TRAINING, "train_share"),
}
"""Baselines on graphs, with the settings that each reads in addition to data set and folds.

A baseline is fitted to training folds only, so its protocol is always ``inductive``."""


@dataclass(frozen=True)
class GraphConfig(RunConfig):
    """The settings of an experiment on graphs, as the files in ``configs/graphs`` state them.

    Raises:
        InputError: for a value out of range, an unknown name, or a combination that means
            nothing; before anything is loaded or written.

    Example:
        >>> GraphConfig(method="ucl", beta=2.0).beta is None  # ucl has no β
        True
    """

    baselines: ClassVar[dict[str, tuple[str, ...]]] = GRAPH_BASELINES
    baseline_protocol: ClassVar[str] = "inductive"
    minimum: ClassVar[dict[str, int]] = {
        "batch_size": 2, "layers": 1, "dim": 1, "folds": 2, "beta_changes": 0, "data_seed": 0,
        "views": 2, "hard_positives": 2, "hardest": 1, "mixed": 0, "mixed_with_anchor": 0,
    }  # fmt: skip
    domain: ClassVar[Domain] = "graphs"
    data_settings: ClassVar[tuple[str, ...]] = ("dataset", "features", "encodings", "of_molecules")

    dataset: Annotated[str, "a TU data set; PTC, IMDB-B and IMDB-M are accepted too"] = "MUTAG"
    method: Annotated[
        str,
        f"{', '.join(METHODS)}; or a baseline: " + ", ".join(GRAPH_BASELINES),
    ] = "hscl"
    protocol: Annotated[
        GraphProtocol, "transductive (paper; encoders see all graphs) or inductive"
    ] = "transductive"
    epochs: Annotated[int, "passes over the graphs"] = 200
    batch_size: Annotated[int, "graphs in a batch"] = 128
    objective: Annotated[
        Objective | None, "jsd (default of local-global) or infonce (default of two-view)"
    ] = None
    hardness_scale: Annotated[
        HardnessScale | None,
        f"what hardens under jsd: anchor, rank, cosine or batch-max, HCL's ({DEFAULT_SCALE})",
    ] = None
    contrast: Annotated[
        Contrast | None, "local-global (InfoGraph; default) or two-view (default of mochi, spacl)"
    ] = None
    augmentations: Annotated[
        tuple[str, ...] | None,
        "of two-view, in order (mask-attributes,perturb-edges), or module:name",
    ] = None
    strength: Annotated[float | None, "share that each augmentation changes (0.2)"] = None
    encoder: Annotated[
        str,
        "gin, molecule-gin (of molecules), FILE.pt of gcl_hard.pretrain, or module:Name of yours, "
        "called as Name(n_features)",
    ] = GIN
    layers: Annotated[int, "layers of the GIN"] = 3
    dim: Annotated[int, "width of a layer; embeddings are layers × dim wide"] = 32
    readout: Annotated[Readout, "sum, mean or both over a graph's nodes"] = "sum"
    features: Annotated[
        str, "auto, labels, degree-onehot, degree-scalar, constant or attributes"
    ] = "auto"
    standardise: Annotated[bool, "whether the SVM is given standardised embeddings"] = True
    folds: Annotated[int, "folds of the outer cross-validation"] = 10
    jk: Annotated[JumpingKnowledge, "cat: an embedding is all layers; last: the last one"] = "cat"
    edge_labels: Annotated[bool, "GINE on edge labels and attributes, where there are any"] = False
    virtual_node: Annotated[bool, "a node linked to all nodes of its graph"] = False
    encodings: Annotated[
        tuple[str, ...] | None, "columns added to node features: degree, random-walk, cycles, wl"
    ] = None
    probe: Annotated[
        GraphProbe, "svm, logistic (linear probe) or nystroem (approximates the SVM's rbf)"
    ] = "svm"
    kernel: Annotated[ProbeKernel, "kernel of the SVM: rbf, linear, or rbf plus a WL kernel"] = (
        "rbf"
    )
    c_grid: Annotated[
        tuple[float, ...] | None, "values of the SVM's C to choose from (0.001, 0.01 … 1000)"
    ] = None
    train_share: Annotated[float, "share of a training fold's graphs that is used"] = 1.0

    def __post_init__(self) -> None:
        if str(self.protocol) == "paper":
            object.__setattr__(self, "protocol", "transductive")
        super().__post_init__()

    def _check(self) -> None:
        check_number("train-share", self.train_share, above=0, most=1)
        if self.train_share < 1 and self.protocol == "transductive":
            raise InputError(
                "train-share leaves graphs out of training folds; under protocol transductive "
                "encoders see all graphs: give protocol inductive"
            )
        self._check_encoder()
        if self.probe != "svm" and self.kernel != "rbf":
            raise InputError(f"kernel {self.kernel} is of the SVM: leave it out, or probe")
        if self.c_grid is not None and not all(0 < c < float("inf") for c in self.c_grid):
            raise InputError(f"c-grid holds penalties C > 0, got {self.c_grid}")
        if self.encodings:
            from gcl_hard.graphs.encodings import check_encodings

            check_encodings(self.encodings)
        if self.features == "auto" and self.contrast != "two-view":
            return
        from gcl_hard.graphs.features import check_kind  # torch-geometric takes seconds

        check_kind(self.features)
        if self.contrast == "two-view":
            from gcl_hard.graphs.augment import check_views

            named = [name for name in self.augmentations or () if not is_own(name)]
            check_views(named, self.strength or 0.0)

    def _check_encoder(self) -> None:
        """Refuse an encoder that is neither the GIN nor named, and settings of the GIN for it."""
        if self.encoder == GIN:
            return
        if self.of_molecules:
            for name in ("features", "encodings"):
                if getattr(self, name) != defaults(type(self))[name]:
                    raise InputError(
                        f"{name} is of the encoder gin: {self.encoder.partition('@')[0]} reads "
                        f"atoms and bonds"
                    )
        if self.encoder == MOLECULE_GIN:
            for name in ("edge_labels", "virtual_node"):
                if getattr(self, name):
                    raise InputError(f"{flag(name)} is of the encoder gin, not of {MOLECULE_GIN}")
            return
        if not is_own(self.encoder):
            hint = "; it is of images: give their --dataset" * is_image_encoder(self.encoder)
            raise InputError(
                f"encoder is gin, molecule-gin, FILE.pt of gcl_hard.pretrain, or module:Name of "
                f"your own, with the module in the working folder or installed, got "
                f"{self.encoder!r}{hint}"
            )
        usual = defaults(type(self))
        if given := [name for name in GIN_SETTINGS if getattr(self, name) != usual[name]]:
            raise InputError(
                f"{flag(given[0])} is a setting of the GIN, which your encoder replaces: "
                f"{'leave it out' if self.of_molecules else 'give yours a setting of its own'}"
            )

    @property
    def of_molecules(self) -> bool:
        """Whether the encoder reads atoms and bonds."""
        return self.encoder == MOLECULE_GIN or is_pretrained(self.encoder)

    def _filled(self) -> dict[str, Any]:
        of_views = method(self.method).infonce_only
        contrast = self.contrast or ("two-view" if of_views else "local-global")
        two_view = contrast == "two-view"
        if not two_view and (of_views or self.views not in (None, 2)):
            what = self.method if of_views else f"views {self.views}"
            raise InputError(f"{what} needs views of each graph: give contrast two-view")
        objective = self.objective or ("infonce" if two_view else "jsd")
        filled: dict[str, Any] = {"objective": objective, "contrast": contrast, **self._shared()}
        hardens = objective == "jsd" and method(self.method).hardening is not None
        filled["hardness_scale"] = (self.hardness_scale or DEFAULT_SCALE) if hardens else None
        if objective == "infonce" and self.temperature is None:
            filled["temperature"] = 0.5
        if not two_view:
            return filled | {"augmentations": None, "strength": None}
        filled["augmentations"] = self.augmentations or ("mask-attributes", "perturb-edges")
        filled["strength"] = 0.2 if self.strength is None else self.strength
        return filled

    def _as_baseline(self) -> dict[str, Any]:
        return self._shared() | super()._as_baseline() | {"contrast": "local-global"}

    def _shared(self) -> dict[str, Any]:
        """Normalise list settings; an empty list becomes None."""
        c_grid = None if not self.c_grid else tuple(map(float, self.c_grid))
        return {"encodings": self.encodings or None, "c_grid": c_grid}

    @property
    def encoder_config(self) -> Self:
        """The settings without those of the SVM, and without edge labels where there are none."""
        unseen = {name: defaults(type(self))[name] for name in _PROBE}
        if self.edge_labels:
            from gcl_hard.graphs.tudataset import lacks_edge_labels

            unseen["edge_labels"] = not lacks_edge_labels(self.dataset)
        return replace(self, **unseen)

    @property
    def two_view(self) -> bool:
        """Whether two views of each graph are contrasted."""
        return not self.is_baseline and self.contrast == "two-view"

    @property
    def reads_wl(self) -> bool:
        """Whether it has a Weisfeiler-Lehman kernel, or colours as encodings."""
        added = self.kernel.partition("+")[2]
        return not {"wl", "wl-oa"}.isdisjoint((self.method, added, *(self.encodings or ())))

    @property
    def encoders(self) -> int:
        """Encoders that one run trains."""
        if self.is_baseline and self.method != "supervised":
            return 0
        return self.folds if self.protocol == "inductive" else 1

    @property
    def n_scores(self) -> int:
        """One test accuracy per fold."""
        return self.folds

    @property
    def share_of_fold(self) -> float:
        """``train_share``."""
        return self.train_share

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
        if self.encoder != GIN:
            return None
        trained = self.encoder_config
        shape = tuple(getattr(trained, name) for name in _ENCODER)
        batches = self.batch_size, self.data_seed, self.train_share
        takes_items = not one_view and method(self.method).positives == "hard"
        views = (
            self.augmentations, self.strength, self.views, takes_items, self.method == "supervised"
        )  # fmt: skip
        return self.dataset, self.protocol, self.contrast, *shape, *batches, *views

    def cost(self, size: tuple[int, int]) -> tuple[float, float]:
        """Work in node-epochs, a unit common to data sets and methods.

        The SVM of n graphs costs about 0.4 n² of them (measured on the paper's data sets).

        Args:
            size: nodes and graphs.
        """
        n_nodes, n_graphs = size
        return n_nodes * self.epochs * self.encoders, 0.4 * n_graphs**2

    def loss(self, seed: int = 0) -> ContrastiveLoss:
        """A new loss with these settings; the seed is of synthetic negatives."""
        return self._loss(
            seed, objective=self.objective or "jsd", hardness_scale=self.hardness_scale
        )
