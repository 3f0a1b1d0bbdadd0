"""The settings of a cell on graphs."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Self

from gcl_hard.errors import InputError
from gcl_hard.experiments.cell import Cell, LrSchedule, defaults
from gcl_hard.experiments.paper import paper_accuracy
from gcl_hard.functional.objectives import Objective
from gcl_hard.losses import ContrastiveLoss

Protocol = Literal["paper", "inductive"]
Contrast = Literal["local-global", "two-view"]
Readout = Literal["sum", "mean", "both"]
JumpingKnowledge = Literal["cat", "last"]
ProbeKernel = Literal["rbf", "linear", "rbf+wl", "rbf+wl-oa"]

_ENCODER = (
    "features", "encodings", "layers", "dim", "readout", "jk", "edge_labels", "virtual_node",
)  # fmt: skip
_TRAINING = ("epochs", "batch_size", "lr", "lr_schedule", "weight_decay", "data_seed")
_PROBE = ("standardise", "kernel", "c_grid")
FLOORS: dict[str, tuple[str, ...]] = {
    "majority": (),
    "graph-size": ("standardise", "c_grid", "train_share"),
    "label-histogram": ("features", "standardise", "c_grid", "train_share"),
    "wl": ("features", "c_grid", "train_share"),
    "wl-oa": ("features", "c_grid", "train_share"),
    "untrained": (*_ENCODER, *_PROBE, "train_share"),
    "supervised": (*_ENCODER, *_TRAINING, "train_share"),
}
"""What needs no contrastive training, with the settings that it reads beside data set and folds.

A floor is fitted to training folds alone, so its protocol is ``inductive``, whatever is asked."""


@dataclass(frozen=True)
class GraphCell(Cell):
    """One cell on graphs. Field for field what the configs in ``configs/graphs`` state.

    Raises:
        InputError: for a value out of range, an unknown name, or a combination that means
            nothing; before anything is loaded or written.

    Example:
        >>> GraphCell(method="ucl", beta=2.0).beta is None  # ucl has no β
        True
    """

    floors: ClassVar[dict[str, tuple[str, ...]]] = FLOORS
    floor_protocol: ClassVar[str] = "inductive"
    words: ClassVar[dict[str, Any]] = {
        "protocol": Protocol, "contrast": Contrast, "lr_schedule": LrSchedule, "readout": Readout,
        "jk": JumpingKnowledge, "kernel": ProbeKernel,
    }  # fmt: skip
    least: ClassVar[dict[str, int]] = {
        "batch_size": 2, "layers": 1, "dim": 1, "folds": 2, "beta_changes": 0, "data_seed": 0,
    }  # fmt: skip
    backend: ClassVar[Literal["graphs", "images"]] = "graphs"

    dataset: Annotated[str, "a TU data set; PTC, IMDB-B and IMDB-M are understood"] = "MUTAG"
    method: Annotated[
        str, "ucl, dcl, hucl, hcl, scl, hscl or hscl-tau; or a floor: " + ", ".join(FLOORS)
    ] = "hscl"
    protocol: Annotated[Protocol, "paper (encoders see all graphs) or inductive"] = "paper"
    epochs: Annotated[int, "passes over the graphs"] = 200
    batch_size: Annotated[int, "graphs in a batch"] = 128
    objective: Annotated[
        Objective | None, "jsd (default of local-global) or infonce (of two-view)"
    ] = None
    contrast: Annotated[Contrast, "local-global (InfoGraph) or two-view"] = "local-global"
    augmentations: Annotated[
        tuple[str, ...] | None, "of two-view, in order (mask-attributes,perturb-edges)"
    ] = None
    strength: Annotated[float | None, "share that each augmentation changes (0.2)"] = None
    layers: Annotated[int, "layers of the GIN"] = 3
    dim: Annotated[int, "width of a layer; embeddings are layers × dim wide"] = 32
    readout: Annotated[Readout, "sum, mean or both over a graph's nodes"] = "sum"
    features: Annotated[
        str, "auto, labels, degree-onehot, degree-scalar, constant or attributes"
    ] = "auto"
    standardise: Annotated[bool, "whether the SVM sees standardised embeddings"] = True
    folds: Annotated[int, "of the outer cross-validation"] = 10
    jk: Annotated[JumpingKnowledge, "cat: an embedding is all layers; last: the last one"] = "cat"
    edge_labels: Annotated[bool, "GINE on edge labels and attributes, where there are any"] = False
    virtual_node: Annotated[bool, "a node linked to all nodes of its graph"] = False
    encodings: Annotated[
        tuple[str, ...] | None, "beside features: degree, random-walk, cycles, wl"
    ] = None
    kernel: Annotated[ProbeKernel, "of the SVM: rbf, linear, or rbf plus a WL kernel"] = "rbf"
    c_grid: Annotated[
        tuple[float, ...] | None, "values of the SVM's C to choose from (0.001, 0.01 … 1000)"
    ] = None
    train_share: Annotated[float, "of a training fold's graphs that are there at all"] = 1.0

    def _check(self) -> None:
        if not 0 < self.train_share <= 1:
            raise InputError(f"train-share is in (0, 1], got {self.train_share:g}")
        if self.train_share < 1 and self.protocol == "paper":
            raise InputError(
                "train-share leaves graphs out of training folds; under protocol paper encoders "
                "see all graphs: give protocol inductive"
            )
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

            check_views(self.augmentations or (), self.strength or 0.0)

    def _filled(self) -> dict[str, Any]:
        two_view = self.contrast == "two-view"
        objective = self.objective or ("infonce" if two_view else "jsd")
        filled: dict[str, Any] = {"objective": objective, **self._of_floors()}
        if objective == "infonce" and self.temperature is None:
            filled["temperature"] = 0.5
        if not two_view:
            return filled | {"augmentations": None, "strength": None}
        filled["augmentations"] = self.augmentations or ("mask-attributes", "perturb-edges")
        filled["strength"] = 0.2 if self.strength is None else self.strength
        return filled

    def _as_floor(self) -> dict[str, Any]:
        return self._of_floors() | super()._as_floor()

    def _of_floors(self) -> dict[str, Any]:
        """Lists, of which an empty one is none."""
        c_grid = None if not self.c_grid else tuple(map(float, self.c_grid))
        return {"encodings": self.encodings or None, "c_grid": c_grid}

    @property
    def trained(self) -> Self:
        """The cell without what no encoder sees: the SVM, and edge labels where there are none."""
        unseen = {name: defaults(type(self))[name] for name in _PROBE}
        if self.edge_labels:
            from gcl_hard.graphs.tudataset import lacks_edge_labels

            unseen["edge_labels"] = not lacks_edge_labels(self.dataset)
        return replace(self, **unseen)

    @property
    def two_view(self) -> bool:
        """Whether it contrasts two views; a floor contrasts nothing."""
        return not self.is_floor and self.contrast == "two-view"

    @property
    def encoders(self) -> int:
        """How many encoders a seed trains."""
        if self.is_floor and self.method != "supervised":
            return 0
        return self.folds if self.protocol == "inductive" else 1

    @property
    def n_scores(self) -> int:
        """One test accuracy a fold."""
        return self.folds

    @property
    def share_of_fold(self) -> float:
        """``train_share``."""
        return self.train_share

    @property
    def can_select(self) -> bool:
        """Where every fold has its own encoder, a part of its training graphs can be held out."""
        return self.protocol == "inductive" and self.encoders > 0

    @property
    def together(self) -> Hashable | None:
        """Data, shapes, views and batches; losses, learning rates and epochs may differ."""
        one_view = self.contrast == "local-global"
        if self.encoders == 0 or (one_view and self.objective == "infonce"):
            return None
        trained = self.trained
        shape = tuple(getattr(trained, name) for name in _ENCODER)
        batches = self.batch_size, self.data_seed, self.train_share
        views = self.augmentations, self.strength, self.method == "supervised"
        return self.dataset, self.protocol, self.contrast, *shape, *batches, *views

    @property
    def paper(self) -> float | None:
        """The paper's figure, percent; it has none for two views of a graph."""
        if self.contrast != "local-global":
            return None
        return paper_accuracy(self.dataset, self.method, self.protocol)

    def cost(self, size: tuple[int, int]) -> tuple[float, float]:
        """Work in node-epochs, so that one bar's ETA holds over sets and methods.

        The SVM of n graphs costs about 0.4 n² of them (measured on the sets of the paper).

        Args:
            size: nodes and graphs.
        """
        n_nodes, n_graphs = size
        return n_nodes * self.epochs * self.encoders, 0.4 * n_graphs**2

    def loss(self) -> ContrastiveLoss:
        """The loss of this cell, made anew."""
        return self._loss(self.objective or "jsd")
