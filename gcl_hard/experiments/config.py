"""Configurations: every setting that changes the numbers of a run, and nothing else."""

from __future__ import annotations

import hashlib
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    Union,
    Unpack,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from gcl_hard.errors import InputError, check_at_least, check_number, check_option, unknown
from gcl_hard.functional.hardness import DEFAULT_SCALE, HardnessScale, bounded
from gcl_hard.functional.objectives import Objective
from gcl_hard.functional.schedules import Annealed, Linear, Schedule
from gcl_hard.losses import ContrastiveLoss, Negatives, Positives
from gcl_hard.methods import (
    DEFAULT_CLASS_PRIOR,
    METHODS,
    PARTS,
    SETTINGS,
    Options,
    contrastive_loss,
    default_threshold,
    method,
)
from gcl_hard.training.loop import LrSchedule, Optimisation, Precision

if TYPE_CHECKING:
    from gcl_hard.images import ViewRecipe

Domain = Literal["graphs", "images"]
Config = TypeVar("Config", bound="RunConfig")

EARLIER: dict[str, Any] = {
    "threshold_start": -0.5, "threshold_end": 0.0, "hardness_scale": "batch-max",
    "contrast": "local-global",
}  # fmt: skip
"""What runs had before their default changed, or before it was a setting."""
SELECTABLE = ("beta", "threshold_start", "threshold_end", "temperature", "lr", "epochs")
"""Settings that can be chosen inside training data."""


@dataclass(frozen=True)
class RunConfig(ABC):
    """The settings of a data set, a method and a protocol; one subclass for graphs, one for images.

    Raises:
        InputError: for a value out of range, an unknown name, or a combination that means
            nothing; before anything is loaded or written.
    """

    baselines: ClassVar[dict[str, tuple[str, ...]]]
    """Methods without contrastive training, with the settings that each reads."""
    baseline_protocol: ClassVar[str]
    minimum: ClassVar[dict[str, int]]
    """Minimum of each integer setting."""
    domain: ClassVar[Domain]
    data_settings: ClassVar[tuple[str, ...]]
    """Settings that decide which data are loaded."""

    dataset: str
    method: str
    protocol: str
    beta: Annotated[float | None, "β ≥ 0 of hucl, hcl and hscl; acts after the temperature"] = 1.0
    beta_changes: Annotated[int, "HCL's annealing: steps in which β falls to 0; 0: constant"] = 0
    threshold_start: Annotated[
        float | None, "cosine l of hscl-tau in epoch 1 (-0.5; in deviations -1)"
    ] = None
    threshold_end: Annotated[float | None, "cosine l of hscl-tau in the last epoch (0)"] = None
    temperature: Annotated[float | None, "γ of InfoNCE, 0.5 if not given; JSD has none"] = None
    class_prior: Annotated[float | None, "τ⁺ of dcl, hcl and bcl, 0.1 if not given"] = None
    auc: Annotated[float | None, "α of bcl, 0.5 if not given"] = None
    hardness: Annotated[float | None, "h of bcl, 1 if not given"] = None
    quota: Annotated[float | None, "λ_Q of spacl, 0.95 if not given"] = None
    hard_positives: Annotated[int | None, "λ_P of spacl, the anchor included (2)"] = None
    without: Annotated[
        str | None, "what spacl leaves out: none, anchor, hard-positives, adversarial, filter, a+b"
    ] = None
    ring_inner: Annotated[float | None, "share of the nearest that ring leaves out (0.01)"] = None
    ring_outer: Annotated[float | None, "share that ring closes to in the last epoch (0.1)"] = None
    epsilon: Annotated[float | None, "ε of ot, 2 γ if not given"] = None
    hardest: Annotated[int | None, "negatives that mochi mixes (64)"] = None
    mixed: Annotated[int | None, "mixtures of two negatives of mochi (32)"] = None
    mixed_with_anchor: Annotated[int | None, "mixtures with the anchor of mochi (16)"] = None
    views: Annotated[int | None, "views of a sample (2; spacl: 4, the first is itself)"] = None
    detach_weights: Annotated[bool, "whether q is a constant to the gradient"] = False
    epochs: Annotated[int, "passes over the training data"] = 200
    batch_size: Annotated[int, "samples in a batch"] = 128
    lr: Annotated[float, "learning rate of Adam"] = 0.01
    lr_schedule: Annotated[LrSchedule, "constant, or cosine to 0"] = "constant"
    weight_decay: Annotated[float, "weight decay of Adam"] = 0.0
    data_seed: Annotated[int, "seed of the batch order, the same for all runs"] = 0

    def __post_init__(self) -> None:
        for name, kind in _field_types(type(self)).items():
            value = _checked(flag(name), getattr(self, name), kind)
            object.__setattr__(self, name, value)
            if value is not None and name in self.minimum:
                check_at_least(flag(name), value, self.minimum[name])
        baseline = self.method.casefold() in self.baselines
        for name, value in (self._as_baseline() if baseline else self._without_defaults()).items():
            object.__setattr__(self, name, value)
        self.optimisation()
        if not self.is_baseline:
            self.loss()
        self._check()

    @abstractmethod
    def _check(self) -> None:
        """Check the settings that a subclass adds."""

    def _without_defaults(self) -> dict[str, Any]:
        """Resolve defaults that depend on other settings, and clear settings that do not apply.

        So one experiment has one configuration, however it is written.
        """
        if self.method.casefold() not in METHODS:
            raise unknown("method", self.method, (*METHODS, *self.baselines))
        row = method(self.method)
        if self.beta is not None:
            check_number("beta", self.beta, least=0)
        filled: dict[str, Any] = {"method": row.name, **self._filled()}
        if row.hardening != "exponential":
            filled |= {"beta": None, "beta_changes": 0}
        elif self.beta is None:
            raise InputError(f"{row.name} needs a beta")
        scale: HardnessScale | None = filled.get("hardness_scale")
        objective = filled.get("objective", "infonce")
        usual = default_threshold(objective=objective, hardness_scale=scale)
        for name, value in (("threshold_start", usual.start), ("threshold_end", usual.end)):
            given = getattr(self, name)
            if given is not None and (scale is None or bounded(scale)):
                check_number(f"{flag(name)}, a cosine,", given, least=-1, most=1)
            filled[name] = value if given is None else given
            if row.hardening != "threshold":
                filled[name] = None
        for name in SETTINGS:
            given = getattr(self, name)
            own = row.settings.get(name) if given is None else given
            filled[name] = own if name in row.settings else None
        if row.takes_prior and self.class_prior is None:
            filled["class_prior"] = DEFAULT_CLASS_PRIOR
        hard = filled.get("positives", row.positives) == "hard"
        most = self.hard_positives or row.settings.get("hard_positives") or 2
        filled["hard_positives"] = most if hard else None
        if hard and self.views is not None and self.views < most:
            raise InputError(
                f"hard-positives {most}, the anchor included, are chosen from as many views, got "
                f"views {self.views}: raise it"
            )
        parts = sorted({*(self.without or "none").split("+")} - {"none"})
        for part in parts:
            check_option("part of SPACL", part, PARTS)
        filled["without"] = "+".join(parts) or None if row.positives == "hard" else None
        if "filter" in parts:
            filled["quota"] = None
        filled["views"] = (
            (self.views or max(4, most)) if hard else None if self.views == 2 else self.views
        )
        return filled | self._floats(filled)

    @abstractmethod
    def _filled(self) -> dict[str, Any]:
        """:meth:`_without_defaults` for the settings that a subclass adds."""

    def _as_baseline(self) -> dict[str, Any]:
        name = self.method.casefold()
        kept = {"dataset", "folds", *self.baselines[name]}
        filled = {k: v for k, v in defaults(type(self)).items() if k not in kept}
        filled |= dict.fromkeys(("beta", "threshold_start", "threshold_end"))
        filled |= {"method": name, "protocol": self.baseline_protocol}
        return filled | self._floats(filled)

    def _floats(self, filled: dict[str, Any]) -> dict[str, float | None]:
        """Convert numbers to floats, so that 2 and 2.0 give one key, in JSON too."""
        kinds = _field_types(type(self))
        names = [name for name, kind in kinds.items() if kind in (float, float | None)]
        values = {name: filled.get(name, getattr(self, name)) for name in names}
        return {name: None if value is None else float(value) for name, value in values.items()}

    @property
    def set_name(self) -> str:
        """Name of the data set in tables, with the number of classes if ``classes`` is given."""
        return self.dataset

    @property
    def is_baseline(self) -> bool:
        """Whether nothing contrastive is trained."""
        return self.method in self.baselines

    @property
    def reads_labels(self) -> bool:
        """Whether the encoder is trained with labels."""
        return not self.is_baseline and method(self.method).label_aware

    @property
    def local_negatives(self) -> bool:
        """Whether the number of processes that train together decides what the negatives are."""
        return False

    @property
    @abstractmethod
    def encoders(self) -> int:
        """Encoders that one run trains."""

    @property
    def n_scores(self) -> int:
        """Number of test accuracies of one run."""
        return 1

    @property
    def share_of_fold(self) -> float:
        """Share of a training fold's samples that is trained on."""
        return 1.0

    @property
    def can_select(self) -> bool:
        """Whether settings can be chosen on data held out of every encoder's training data."""
        return self.encoders > 0 and self.protocol != "transductive"

    @property
    def encoder_config(self) -> Self:
        """The settings that training reads; configurations that share it differ in scoring."""
        return self

    @property
    def group_key(self) -> Hashable | None:
        """Key of configurations that can train as one ensemble; None if this one cannot."""
        return None

    @abstractmethod
    def cost(self, size: tuple[int, int]) -> tuple[float, float]:
        """Work of training and of scoring, in a unit common to the configurations of a domain.

        Args:
            size: size of the data set: nodes and graphs, or images to train on and to score.
        """

    def optimisation(self) -> Optimisation:
        """How the encoder is optimised."""
        return Optimisation(
            epochs=self.epochs, lr=self.lr, weight_decay=self.weight_decay,
            lr_schedule=self.lr_schedule,
        )  # fmt: skip

    @abstractmethod
    def loss(self, seed: int = 0) -> ContrastiveLoss:
        """A new loss with these settings; the seed is of synthetic negatives."""

    def _loss(
        self, seed: int, positives: Positives | None = None, **options: Unpack[Options]
    ) -> ContrastiveLoss:
        options |= cast("Options", {name: getattr(self, name) for name in SETTINGS})
        options["detach_weights"] = self.detach_weights
        if self.temperature is not None:
            options["temperature"] = self.temperature
        beta: float | Schedule = 0.0 if self.beta is None else self.beta
        if self.beta_changes and self.beta is not None:
            beta = Annealed(self.beta, self.beta_changes)
        start, end = self.threshold_start, self.threshold_end
        threshold = None if start is None or end is None else Linear(start, end)
        without = self.without.split("+") if self.without else ()
        return contrastive_loss(
            self.method, beta=beta, threshold=threshold, class_prior=self.class_prior,
            positives=positives, without=without, seed=seed, **options,
        )  # fmt: skip

    def resolved(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Settings resolved from the data, for the result."""
        return {}

    def key(self) -> str:
        """File name stem: data set, method, protocol and a hash of the settings.

        Settings at their defaults are left out of the hash, so that a setting added later, whose
        default is the earlier behaviour, keeps finished runs valid; where it is not, the earlier
        behaviour is (:data:`EARLIER`).
        """
        usual = defaults(type(self)) | EARLIER
        values = {k: v for k, v in asdict(self).items() if v != usual[k]}
        if values.get("hardness_scale") is None:  # it does not apply, as it never did
            values.pop("hardness_scale", None)
        text = json.dumps(values, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:10]
        return f"{self.dataset}_{self.method}_{self.protocol}_{digest}"

    def stated(self) -> dict[str, Any]:
        """Settings that differ from what is usual for the data set and the method."""
        usual = asdict(type(self)(dataset=self.dataset, method=self.method))  # type: ignore[call-arg]
        apart = ("dataset", "method", "protocol")
        return {k: v for k, v in asdict(self).items() if v != usual[k] and k not in apart}

    def changed(self) -> dict[str, Any]:
        """Settings that differ from their defaults."""
        default = asdict(type(self)(method=self.method))  # type: ignore[call-arg]
        return {k: v for k, v in asdict(self).items() if v != default[k]}

    def __str__(self) -> str:
        """Name in messages and progress bars."""
        beta = "" if self.beta is None else f" β={self.beta:g}"
        return f"{self.dataset} {self.method}{beta} {self.protocol}"


def is_own(name: str) -> bool:
    """Whether a setting names an encoder or an augmentation of the user's own."""
    return OWN.fullmatch(name) is not None or is_pretrained(name)


def is_pretrained(name: str) -> bool:
    """Whether a setting names the file of a pre-trained encoder."""
    return PRETRAINED.fullmatch(name) is not None


def defaults(config: type[RunConfig]) -> dict[str, Any]:
    """Settings of a class of configurations with their defaults."""
    return {f.name: f.default for f in fields(config)}


@cache
def _field_types(config: type[RunConfig]) -> dict[str, Any]:
    hints = get_type_hints(config)
    return {f.name: hints[f.name] for f in fields(config)}


def _checked(name: str, value: Any, kind: Any) -> Any:
    """A value of a field's type; a list becomes a tuple. InputError for another type."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    if value is None and NoneType in kinds:
        return None
    kind = kinds[0]
    if get_origin(kind) is Literal:
        return check_option(name, value, get_args(kind))
    if get_origin(kind) is tuple:
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise InputError(f"{name} must be a list, got {value!r}")
        return tuple(_checked(name, one, get_args(kind)[0]) for one in value)
    if kind is float:
        check_number(name, value)
    elif not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InputError(f"{name} must be {KINDS[kind]}, got {value!r}")
    return value


KINDS = {bool: "True or False", int: "a whole number", str: "a word"}


def flag(name: str) -> str:
    """Spelling of a setting on the command line."""
    return name.replace("_", "-")


OWN = re.compile(r"(?!(?:torchvision|timm):)[\w.<>]+(:[\w.<>]+|(:[\w.<>]+)?@[0-9a-f]+)")
"""Names of parts of the user's own: ``module:Name``, and ``Name@digest`` once they are known."""
PRETRAINED = re.compile(r"[^@]*[^@/]\.pt(@[0-9a-f]+)?")
"""Files of pre-trained encoders: ``FILE.pt``, and ``NAME.pt@digest`` once they are known."""
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
_TRAINING = ("epochs", "batch_size", "lr", "lr_schedule", "weight_decay", "data_seed")
_PROBE = ("standardise", "kernel", "c_grid", "probe")
GRAPH_BASELINES: dict[str, tuple[str, ...]] = {
    "majority": (),
    "graph-size": ("standardise", "c_grid", "train_share"),
    "label-histogram": ("features", "standardise", "c_grid", "train_share"),
    "wl": ("features", "c_grid", "train_share"),
    "wl-oa": ("features", "c_grid", "train_share"),
    "untrained": (*_ENCODER, *_PROBE, "train_share"),
    "supervised": (*_ENCODER, *_TRAINING, "train_share"),
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
            hint = "; it is of images: give their --dataset" * _is_image_encoder(self.encoder)
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


ImageProtocol = Literal["split"]
RESNETS, FAST = ("resnet50", "resnet18"), "fast"
"""The encoders of images that are ours."""
OF_LIBRARY = re.compile(r"(torchvision|timm):[\w.]+")
Stem = Literal["auto", "cifar", "imagenet"]
Forward = Literal["fused", "split"]
Precisions = Literal["fp32", "bf16", "fp16"]
Probe = Literal["adam", "logistic"]

FABRIC: dict[str, Precision] = {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
DEFAULT_FLIP = 0.5

_ADAM = ("probe_lr", "probe_weight_decay", "probe_epochs", "probe_batch_size")
_IMAGES_USED = ("probe_split", "subset", "classes")
_IMAGE_PROBE = ("probe", *_ADAM, *_IMAGES_USED)
_IMAGE_ENCODER = (
    *_IMAGE_PROBE, "size", "encoder", "width", "stem", "precision", "channels_last",
    "pretrain_split",
)  # fmt: skip
IMAGE_BASELINES: dict[str, tuple[str, ...]] = {
    "majority": _IMAGES_USED,
    "pixels": (*_IMAGE_PROBE, "size"),
    "untrained": _IMAGE_ENCODER,
    "supervised": (
        *_IMAGE_ENCODER, *_TRAINING, "label_noise", "crop", "flip", "jitter", "grayscale", "blur",
        "noise", "forward", "compile", "accumulate", "balanced",
    ),
}  # fmt: skip
"""Baselines on images, with the settings that each reads in addition to the data set."""


@dataclass(frozen=True)
class ImageConfig(RunConfig):
    """The settings of an experiment on images, as the files in ``configs/images`` state them.

    Raises:
        InputError: for a value out of range, an unknown name, or a combination that means
            nothing; before anything is loaded or written.

    Example:
        >>> ImageConfig(method="scl").positives
        'class'
    """

    baselines: ClassVar[dict[str, tuple[str, ...]]] = IMAGE_BASELINES
    baseline_protocol: ClassVar[str] = "split"
    minimum: ClassVar[dict[str, int]] = {
        "batch_size": 2, "size": 4, "subset": 4, "accumulate": 1, "probe_epochs": 1,
        "probe_batch_size": 1, "beta_changes": 0, "data_seed": 0, "width": 1, "classes": 2,
        "views": 2, "hard_positives": 2, "hardest": 1, "mixed": 0, "mixed_with_anchor": 0,
    }  # fmt: skip
    domain: ClassVar[Domain] = "images"
    data_settings: ClassVar[tuple[str, ...]] = (
        "dataset", "pretrain_split", "probe_split", "subset", "classes", "label_noise",
    )  # fmt: skip

    dataset: Annotated[
        str, "digits, CIFAR10, CIFAR100, STL10, TinyImageNet, NAME of NAME.npz or NAME/train/CLASS/"
    ] = "digits"
    method: Annotated[
        str,
        f"{', '.join(METHODS)}; or a baseline: " + ", ".join(IMAGE_BASELINES),
    ] = "hscl"
    protocol: Annotated[ImageProtocol, "split: trained on the training images, tested once"] = (
        "split"
    )
    epochs: Annotated[int, "passes over the images"] = 200
    batch_size: Annotated[int, "images in a batch; n = 2 × batch-size embeddings"] = 256
    lr: Annotated[float, "learning rate of Adam"] = 0.001
    weight_decay: Annotated[float, "weight decay of Adam"] = 1e-6
    positives: Annotated[
        Positives | None, "view, class or hard; the method's own if not given (class: scl, hscl)"
    ] = None
    class_pairs: Annotated[bool, "second view from another image of the class"] = False
    balanced: Annotated[bool, "whether batches hold all classes in equal parts"] = False
    encoder: Annotated[
        str,
        "resnet50, resnet18, fast (a small net for 32 pixels), torchvision:NAME, timm:NAME, or "
        "module:Name of your own",
    ] = "resnet50"
    width: Annotated[
        int | None, "channels of the encoder's first layer (64 of a ResNet, 32 of fast)"
    ] = None
    stem: Annotated[Stem, "auto (cifar up to 64 pixels), cifar or imagenet"] = "auto"
    size: Annotated[int | None, "side of a view in pixels; the data set's if not given"] = None
    pretrain_split: Annotated[str, "split that the encoder is trained on"] = "train"
    probe_split: Annotated[str, "split that the probe is trained on"] = "train"
    subset: Annotated[int | None, "training images, a stratified draw; all if not given"] = None
    classes: Annotated[int | None, "the first so many classes alone; all if not given"] = None
    label_noise: Annotated[
        float, "share of the labels read in training that are wrong ones; the probe's are right"
    ] = 0.0
    crop: Annotated[float, "smallest share of the area that a random crop keeps"] = 0.08
    flip: Annotated[float | None, "probability of a horizontal flip (0.5; digits: 0)"] = None
    jitter: Annotated[float, "strength of the colour jitter"] = 0.4
    grayscale: Annotated[float, "probability of conversion to grey"] = 0.2
    blur: Annotated[float, "probability of a Gaussian blur"] = 0.5
    noise: Annotated[float, "standard deviation of Gaussian noise"] = 0.0
    forward: Annotated[Forward, "both views in one pass (fused) or in two (split)"] = "fused"
    precision: Annotated[Precisions, "fp32, bf16 or fp16, mixed"] = "fp32"
    channels_last: Annotated[bool, "memory format of images and weights"] = True
    compile: Annotated[bool, "whether torch.compile compiles the encoder"] = False
    accumulate: Annotated[int, "batches whose mean gradient makes one step"] = 1
    negatives: Annotated[
        Negatives, "under torchrun: of each process (local), or of all of them (gathered)"
    ] = "local"
    probe: Annotated[Probe, "linear probe: adam, or scikit-learn's logistic regression"] = "adam"
    probe_lr: Annotated[
        tuple[float, ...], "learning rates of adam, chosen on a part of the training images"
    ] = (0.0001, 0.001, 0.01)
    probe_weight_decay: Annotated[float, "weight decay of adam"] = 1e-6
    probe_epochs: Annotated[int, "epochs of adam"] = 100
    probe_batch_size: Annotated[int, "batch size of adam"] = 512

    def _check(self) -> None:
        self.view_recipe()
        check_number("label-noise", self.label_noise, least=0, below=1)
        if not _is_image_encoder(self.encoder) and not is_own(self.encoder):
            libraries = ("torchvision:NAME", "timm:NAME", "module:Name of your own")
            raise unknown("encoder", self.encoder, [*RESNETS, FAST, *libraries])
        if self.encoder not in RESNETS and self.stem != "auto":
            raise InputError(
                f"stem is of {' and '.join(RESNETS)}: the encoder {self.encoder} has its own"
            )
        if self.encoder not in (*RESNETS, FAST) and self.width is not None:
            raise InputError(
                f"width is of {', '.join(RESNETS)} and {FAST}: the encoder {self.encoder} has its "
                f"own"
            )
        for name in ("pretrain_split", "probe_split"):
            if getattr(self, name) == "test":
                raise InputError(
                    f"{flag(name)} must not be test: nothing is trained on test images"
                )

    def _filled(self) -> dict[str, Any]:
        positives = self.positives or method(self.method).positives
        of_class = method(self.method).label_aware or positives == "class"
        reads_labels = of_class or self.class_pairs or self.balanced
        return {
            "temperature": 0.5 if self.temperature is None else self.temperature,
            "positives": positives,
            **self._shared(),
            "label_noise": self.label_noise if reads_labels else 0.0,
        }

    def _as_baseline(self) -> dict[str, Any]:
        read = self.baselines[self.method.casefold()]
        return super()._as_baseline() | {k: v for k, v in self._shared().items() if k in read}

    def _shared(self) -> dict[str, Any]:
        """Canonical settings of views, encoder and probe."""
        # Mirrored digits are not digits.
        from gcl_hard.images.models import WIDTH

        usual_flip = 0.0 if self.dataset.casefold() == "digits" else DEFAULT_FLIP
        return {
            "flip": usual_flip if self.flip is None else self.flip,
            "width": None if self.width == WIDTH.get(self.encoder) else self.width,
            **self._probe(),
        }

    def _probe(self) -> dict[str, Any]:
        rates = tuple(sorted({float(rate) for rate in self.probe_lr}))
        if not rates or not all(0 < rate < math.inf for rate in rates):
            raise InputError(f"probe-lr must be finite numbers above 0, got {self.probe_lr}")
        check_number("probe-weight-decay", self.probe_weight_decay, least=0)
        if self.probe == "logistic":
            return {name: defaults(ImageConfig)[name] for name in _ADAM}
        return {"probe_lr": rates, "probe_weight_decay": float(self.probe_weight_decay)}

    def view_recipe(self) -> ViewRecipe:
        """Random augmentations of the views."""
        from gcl_hard.images import ViewRecipe

        return ViewRecipe(
            crop=self.crop, flip=self.flip or 0.0, jitter=self.jitter, grayscale=self.grayscale,
            blur=self.blur, noise=self.noise,
        )  # fmt: skip

    def stem_at(self, size: int) -> Literal["cifar", "imagenet"]:
        """The stem for views of a size in pixels."""
        from gcl_hard.images import stem_for

        return stem_for(size) if self.stem == "auto" else self.stem

    def resolved(self, facts: dict[str, Any]) -> dict[str, Any]:
        """The size of views and the stem that goes with it."""
        size = self.size or int(facts["side"])
        if self.encoder not in RESNETS or self.method in ("majority", "pixels"):
            return {"size": size}
        return {"size": size, "stem": self.stem_at(size)}

    @property
    def set_name(self) -> str:
        """Name of the data set in tables, with the number of classes if ``classes`` is given."""
        return self.dataset + (f", {self.classes} classes" if self.classes else "")

    @property
    def encoders(self) -> int:
        """Encoders that one run trains."""
        return 1 if self.method == "supervised" or not self.is_baseline else 0

    @property
    def label_reader(self) -> str:
        """Name of the setting that makes training read labels, for messages."""
        if self.is_baseline:
            return self.method
        if self.positives == "class" and method(self.method).positives == "view":
            return f"{self.method} with positives class"
        if not method(self.method).label_aware:
            return "class-pairs" if self.class_pairs else "balanced"
        return self.method

    @property
    def reads_labels(self) -> bool:
        """Whether the encoder is trained with labels."""
        by_setting = self.positives == "class" or self.class_pairs or self.balanced
        return super().reads_labels or by_setting or self.method == "supervised"

    @property
    def local_negatives(self) -> bool:
        """Whether each of several processes contrasts its own part of a batch."""
        return not self.is_baseline and self.negatives == "local"

    def cost(self, size: tuple[int, int]) -> tuple[float, float]:
        """Work in image-epochs; embedding an image costs a sixth of training on it.

        Args:
            size: images to train on and to score.
        """
        n_train, n_score = size
        return n_train * self.epochs * self.encoders, (n_train + n_score) / 6

    def optimisation(self) -> Optimisation:
        """How the encoder is optimised."""
        precision = FABRIC[self.precision]
        return replace(super().optimisation(), precision=precision, accumulate=self.accumulate)

    def loss(self, seed: int = 0) -> ContrastiveLoss:
        """A new loss with these settings; the seed is of synthetic negatives."""
        return self._loss(
            seed, objective="infonce", positives=self.positives, negatives=self.negatives
        )


CONFIGS: dict[str, type[RunConfig]] = {
    config.domain: config for config in (GraphConfig, ImageConfig)
}
"""The class of configurations of each domain."""


def _is_image_encoder(name: str) -> bool:
    """Whether a setting names an encoder of images that is ours or a library's."""
    return name in (*RESNETS, FAST) or OF_LIBRARY.fullmatch(name) is not None


def is_baseline(name: str) -> bool:
    """Whether a method is a baseline, on graphs or on images.

    Example:
        >>> is_baseline("pixels"), is_baseline("hscl")
        (True, False)
    """
    return any(name in config.baselines for config in CONFIGS.values())


def from_dict(stored: dict[str, Any]) -> RunConfig:
    """The configuration stored in a result file.

    Args:
        stored: the output of ``dataclasses.asdict``, also after JSON; settings that are missing
            have their defaults, or what :data:`EARLIER` says of a JSD loss's hardness.

    Returns:
        A ``GraphConfig``, or an ``ImageConfig`` if only that has all the settings.

    Raises:
        InputError: for an unknown setting.

    Example:
        >>> import json
        >>> from dataclasses import asdict
        >>> from_dict(json.loads(json.dumps(asdict(GraphConfig())))) == GraphConfig()
        True
    """
    kinds = [config for config in CONFIGS.values() if set(stored) <= set(defaults(config))]
    if not kinds:
        surplus = min((set(stored) - set(defaults(config)) for config in CONFIGS.values()), key=len)
        raise InputError(f"unknown settings: {', '.join(sorted(surplus))}")
    if stored.get("objective") == "jsd":
        stored = {"hardness_scale": EARLIER["hardness_scale"], **stored}
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()}
    return kinds[0](**values)
