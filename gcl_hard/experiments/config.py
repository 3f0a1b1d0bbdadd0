"""The settings of a cell: everything that changes its numbers, and nothing else."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Annotated, Any, Literal, get_args, get_type_hints

from gcl_hard.errors import InputError, unknown
from gcl_hard.functional.schedules import Annealed, Linear, Schedule
from gcl_hard.losses import ContrastiveLoss, Objective
from gcl_hard.methods import DEFAULT_CLASS_PRIOR, METHODS, LossOptions, contrastive_loss, method
from gcl_hard.training.loop import Optimisation

Protocol = Literal["paper", "inductive"]
Contrast = Literal["local-global", "two-view"]
LrSchedule = Literal["constant", "cosine"]
Readout = Literal["sum", "mean"]

_ARCHITECTURE = ("layers", "dim", "readout")
FLOORS: dict[str, tuple[str, ...]] = {
    "majority": (),
    "graph-size": ("standardise",),
    "label-histogram": ("features", "standardise"),
    "wl": ("features",),
    "wl-oa": ("features",),
    "untrained": ("features", "standardise", *_ARCHITECTURE),
    "supervised": (
        "features", *_ARCHITECTURE, "epochs", "batch_size", "lr", "lr_schedule", "weight_decay",
        "data_seed",
    ),
}  # fmt: skip
"""What needs no contrastive training, with the settings that it reads beside data set and folds.

A floor is fitted to training folds alone, so its protocol is ``inductive``, whatever is asked."""

WORDS = {"protocol": Protocol, "contrast": Contrast, "lr_schedule": LrSchedule, "readout": Readout}


@dataclass(frozen=True)
class CellConfig:
    """One cell on graphs. Field for field what the configs in ``configs/graphs`` state.

    Raises:
        InputError: for a value out of range, an unknown name, or a combination that means
            nothing; before anything is loaded or written.

    Example:
        >>> CellConfig(method="ucl", beta=2.0).beta is None  # ucl has no β
        True
    """

    dataset: Annotated[str, "a TU data set; PTC, IMDB-B and IMDB-M are understood"] = "MUTAG"
    method: Annotated[
        str, "ucl, dcl, hucl, hcl, scl, hscl or hscl-tau; or a floor: " + ", ".join(FLOORS)
    ] = "hscl"
    protocol: Annotated[Protocol, "paper (encoders see all graphs) or inductive"] = "paper"
    beta: Annotated[float | None, "β ≥ 0 of hucl, hcl and hscl; acts after the temperature"] = 1.0
    beta_changes: Annotated[int, "HCL's annealing: β falls in this many steps; 0 is constant"] = 0
    threshold_start: Annotated[float | None, "cosine l of hscl-tau in epoch 1"] = -0.5
    threshold_end: Annotated[float | None, "cosine l of hscl-tau in the last epoch"] = 0.0
    temperature: Annotated[float | None, "γ of InfoNCE, 0.5 if not given; JSD has none"] = None
    class_prior: Annotated[float | None, "τ⁺ of dcl and hcl, 0.1 if not given"] = None
    objective: Annotated[
        Objective | None, "jsd (default of local-global) or infonce (of two-view)"
    ] = None
    contrast: Annotated[Contrast, "local-global (InfoGraph) or two-view"] = "local-global"
    augmentations: Annotated[
        tuple[str, ...] | None, "of two-view, in order (mask-attributes,perturb-edges)"
    ] = None
    strength: Annotated[float | None, "share that each augmentation changes (0.2)"] = None
    detach_weights: Annotated[bool, "whether q is a constant to the gradient"] = False
    epochs: Annotated[int, "passes over the graphs"] = 200
    batch_size: Annotated[int, "graphs in a batch"] = 128
    lr: Annotated[float, "learning rate of Adam"] = 0.01
    lr_schedule: Annotated[LrSchedule, "constant, or cosine to 0"] = "constant"
    weight_decay: Annotated[float, "of Adam"] = 0.0
    layers: Annotated[int, "layers of the GIN"] = 3
    dim: Annotated[int, "width of a layer; embeddings are layers × dim wide"] = 32
    readout: Annotated[Readout, "sum or mean over a graph's nodes"] = "sum"
    features: Annotated[
        str, "auto, labels, degree-onehot, degree-scalar, constant or attributes"
    ] = "auto"
    standardise: Annotated[bool, "whether the SVM sees standardised embeddings"] = True
    folds: Annotated[int, "of the outer cross-validation"] = 10
    data_seed: Annotated[int, "of the batch order, the same for all seeds"] = 0

    def __post_init__(self) -> None:
        for name, literal in WORDS.items():
            if getattr(self, name) not in get_args(literal):
                raise unknown(_flag(name), str(getattr(self, name)), get_args(literal))
        for name, value in vars(self).items():
            if isinstance(value, float) and not math.isfinite(value):
                raise InputError(f"{_flag(name)} must be a finite number, got {value}")
        for name, least in (
            ("batch_size", 2),
            ("layers", 1),
            ("dim", 1),
            ("folds", 2),
            ("beta_changes", 0),
            ("data_seed", 0),
        ):
            if getattr(self, name) < least:
                raise InputError(f"{_flag(name)} must be at least {least}, "
                                 f"got {getattr(self, name)}")  # fmt: skip
        floor = self.method.casefold() in FLOORS
        for name, value in (self._as_floor() if floor else self._without_defaults()).items():
            object.__setattr__(self, name, value)
        self.optimisation()
        if not self.is_floor:
            self.loss()
        if self.features != "auto" or self.contrast == "two-view":
            self._check_graph_names()

    def _check_graph_names(self) -> None:
        from gcl_hard.graphs.features import check_kind  # torch-geometric takes seconds

        check_kind(self.features)
        if self.contrast == "two-view":
            from gcl_hard.graphs.augment import check_views

            check_views(self.augmentations or (), self.strength or 0.0)

    def _without_defaults(self) -> dict[str, Any]:
        """Fields with what "if not given" means filled in, and those that do not apply emptied.

        So that one experiment has one config, however it was asked for.
        """
        if self.method.casefold() not in METHODS:
            raise unknown("method", self.method, (*METHODS, *FLOORS))
        row = method(self.method)
        if self.beta is not None and self.beta < 0:
            raise InputError(f"beta must be at least 0, got {self.beta}")
        two_view = self.contrast == "two-view"
        objective = self.objective or ("infonce" if two_view else "jsd")
        filled: dict[str, Any] = {"method": row.name, "objective": objective}
        if objective == "infonce" and self.temperature is None:
            filled["temperature"] = 0.5
        if row.hardening != "exponential":
            filled |= {"beta": None, "beta_changes": 0}
        elif self.beta is None:
            raise InputError(f"{row.name} needs a beta")
        for name in ("threshold_start", "threshold_end"):
            value = getattr(self, name)
            if value is not None and not -1 <= value <= 1:
                raise InputError(f"{_flag(name)} is a cosine, in [-1, 1], got {value}")
            if row.hardening != "threshold":
                filled[name] = None
            elif value is None:
                raise InputError(f"{row.name} needs a {_flag(name)}")
        if row.debias and self.class_prior is None:
            filled["class_prior"] = DEFAULT_CLASS_PRIOR
        if not two_view:
            filled |= {"augmentations": None, "strength": None}
        else:
            filled["augmentations"] = self.augmentations or ("mask-attributes", "perturb-edges")
            filled["strength"] = 0.2 if self.strength is None else self.strength
        return filled | self._floats(filled)

    def _as_floor(self) -> dict[str, Any]:
        name = self.method.casefold()
        kept = {"dataset", "folds", *FLOORS[name]}
        filled = {k: v for k, v in DEFAULTS.items() if k not in kept}
        filled |= dict.fromkeys(("beta", "threshold_start", "threshold_end"))
        filled |= {"method": name, "protocol": "inductive"}
        return filled | self._floats(filled)

    def _floats(self, filled: dict[str, Any]) -> dict[str, float | None]:
        """Numbers as floats: 2 and 2.0 are one experiment, in JSON too."""
        values = {name: filled.get(name, getattr(self, name)) for name in FLOATS}
        return {name: None if value is None else float(value) for name, value in values.items()}

    @property
    def is_floor(self) -> bool:
        """Whether it is a floor: nothing contrastive is trained."""
        return self.method in FLOORS

    @property
    def encoders(self) -> int:
        """How many encoders a seed trains."""
        if self.is_floor and self.method != "supervised":
            return 0
        return self.folds if self.protocol == "inductive" else 1

    def optimisation(self) -> Optimisation:
        """How the encoder is optimised."""
        return Optimisation(
            epochs=self.epochs, lr=self.lr, weight_decay=self.weight_decay,
            lr_schedule=self.lr_schedule,
        )  # fmt: skip

    def loss(self) -> ContrastiveLoss:
        """The loss of this cell, made anew."""
        options: LossOptions = {
            "objective": self.objective or "jsd",
            "detach_weights": self.detach_weights,
        }
        if self.temperature is not None:
            options["temperature"] = self.temperature
        beta: float | Schedule = 0.0 if self.beta is None else self.beta
        if self.beta_changes and self.beta is not None:
            beta = Annealed(self.beta, self.beta_changes)
        start, end = self.threshold_start, self.threshold_end
        threshold = -1.0 if start is None or end is None else Linear(start, end)
        return contrastive_loss(
            self.method, beta=beta, threshold=threshold, class_prior=self.class_prior, **options
        )

    def with_dataset(self, canonical: str) -> CellConfig:
        """The same cell with its data set spelt canonically."""
        return replace(self, dataset=canonical)

    def key(self) -> str:
        """What names the cell's files: data set, method, protocol and a hash of the settings.

        Settings at their defaults are left out of the hash, so that a setting added later, whose
        default is what was done before, does not orphan finished work.
        """
        text = json.dumps(self.changed(raw=True), sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:10]
        return f"{self.dataset}_{self.method}_{self.protocol}_{digest}"

    def changed(self, *, raw: bool = False) -> dict[str, Any]:
        """Settings that are not the default; ``raw`` counts what does not apply as changed."""
        default = DEFAULTS if raw else asdict(CellConfig(method=self.method))
        return {k: v for k, v in asdict(self).items() if v != default[k]}

    def __str__(self) -> str:
        """How messages and progress bars call it."""
        beta = "" if self.beta is None else f" β={self.beta:g}"
        return f"{self.dataset} {self.method}{beta} {self.protocol}"


FLOATS = tuple(n for n, h in get_type_hints(CellConfig).items() if float in (h, *get_args(h)))
DEFAULTS = {f.name: f.default for f in fields(CellConfig)}


def _flag(name: str) -> str:
    return name.replace("_", "-")


def from_dict(stored: dict[str, Any]) -> CellConfig:
    """A config as it was stored in a result file.

    Args:
        stored: what ``dataclasses.asdict`` gave, JSON in between; settings that did not exist
            yet are what they are by default.

    Returns:
        The config.

    Raises:
        InputError: if it has a setting that is not known here.

    Example:
        >>> from_dict(json.loads(json.dumps(asdict(CellConfig())))) == CellConfig()
        True
    """
    if surplus := set(stored) - set(DEFAULTS):
        raise InputError(f"unknown settings: {', '.join(sorted(surplus))}")
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()}
    return CellConfig(**values)
