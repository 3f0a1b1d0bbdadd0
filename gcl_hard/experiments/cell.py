"""The settings that every cell has: everything that changes its numbers, and nothing else."""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import asdict, dataclass, fields, replace
from typing import Annotated, Any, ClassVar, Literal, Self, get_args, get_type_hints

from gcl_hard.errors import InputError, unknown
from gcl_hard.functional.objectives import Objective
from gcl_hard.functional.schedules import Annealed, Linear, Schedule
from gcl_hard.losses import ContrastiveLoss, Positives
from gcl_hard.methods import DEFAULT_CLASS_PRIOR, METHODS, LossOptions, contrastive_loss, method
from gcl_hard.training.loop import Optimisation

LrSchedule = Literal["constant", "cosine"]

SELECTABLE = ("beta", "threshold_start", "threshold_end", "lr", "epochs")
"""Settings that can be chosen inside training data."""


@dataclass(frozen=True)
class Cell(ABC):
    """One data set, method and protocol with all settings; subclasses are of graphs and images.

    Raises:
        InputError: for a value out of range, an unknown name, or a combination that means
            nothing; before anything is loaded or written.
    """

    floors: ClassVar[dict[str, tuple[str, ...]]]
    """What needs no contrastive training, with the settings that it reads beside the data set."""
    floor_protocol: ClassVar[str]
    words: ClassVar[dict[str, Any]]
    """Settings that are one of a few words, with the words."""
    least: ClassVar[dict[str, int]]
    """Settings that are whole numbers, with the least that they may be."""
    backend: ClassVar[Literal["graphs", "images"]]

    dataset: str
    method: str
    protocol: str
    beta: Annotated[float | None, "β ≥ 0 of hucl, hcl and hscl; acts after the temperature"] = 1.0
    beta_changes: Annotated[int, "HCL's annealing: steps in which β falls to 0; 0 is constant"] = 0
    threshold_start: Annotated[float | None, "cosine l of hscl-tau in epoch 1"] = -0.5
    threshold_end: Annotated[float | None, "cosine l of hscl-tau in the last epoch"] = 0.0
    temperature: Annotated[float | None, "γ of InfoNCE, 0.5 if not given; JSD has none"] = None
    class_prior: Annotated[float | None, "τ⁺ of dcl and hcl, 0.1 if not given"] = None
    detach_weights: Annotated[bool, "whether q is a constant to the gradient"] = False
    epochs: Annotated[int, "passes over the training data"] = 200
    batch_size: Annotated[int, "samples in a batch"] = 128
    lr: Annotated[float, "learning rate of Adam"] = 0.01
    lr_schedule: Annotated[LrSchedule, "constant, or cosine to 0"] = "constant"
    weight_decay: Annotated[float, "of Adam"] = 0.0
    data_seed: Annotated[int, "of the batch order, the same for all seeds"] = 0

    def __post_init__(self) -> None:
        for name, literal in self.words.items():
            if getattr(self, name) not in get_args(literal):
                raise unknown(flag(name), str(getattr(self, name)), get_args(literal))
        for name, value in vars(self).items():
            if isinstance(value, float) and not math.isfinite(value):
                raise InputError(f"{flag(name)} must be a finite number, got {value}")
        for name, least in self.least.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{flag(name)} must be at least {least}, got {value}")
        floor = self.method.casefold() in self.floors
        for name, value in (self._as_floor() if floor else self._without_defaults()).items():
            object.__setattr__(self, name, value)
        self.optimisation()
        if not self.is_floor:
            self.loss()
        self._check()

    @abstractmethod
    def _check(self) -> None:
        """What a subclass refuses beside."""

    def _without_defaults(self) -> dict[str, Any]:
        """Fields with what "if not given" means filled in, and those that do not apply emptied.

        So that one experiment has one config, however it was asked for.
        """
        if self.method.casefold() not in METHODS:
            raise unknown("method", self.method, (*METHODS, *self.floors))
        row = method(self.method)
        if self.beta is not None and self.beta < 0:
            raise InputError(f"beta must be at least 0, got {self.beta}")
        filled: dict[str, Any] = {"method": row.name}
        if row.hardening != "exponential":
            filled |= {"beta": None, "beta_changes": 0}
        elif self.beta is None:
            raise InputError(f"{row.name} needs a beta")
        for name in ("threshold_start", "threshold_end"):
            value = getattr(self, name)
            if value is not None and not -1 <= value <= 1:
                raise InputError(f"{flag(name)} is a cosine, in [-1, 1], got {value}")
            if row.hardening != "threshold":
                filled[name] = None
            elif value is None:
                raise InputError(f"{row.name} needs a {flag(name)}")
        if row.debias and self.class_prior is None:
            filled["class_prior"] = DEFAULT_CLASS_PRIOR
        filled |= self._filled()
        return filled | self._floats(filled)

    @abstractmethod
    def _filled(self) -> dict[str, Any]:
        """The same of a subclass's own fields."""

    def _as_floor(self) -> dict[str, Any]:
        name = self.method.casefold()
        kept = {"dataset", "folds", *self.floors[name]}
        filled = {k: v for k, v in defaults(type(self)).items() if k not in kept}
        filled |= dict.fromkeys(("beta", "threshold_start", "threshold_end"))
        filled |= {"method": name, "protocol": self.floor_protocol}
        return filled | self._floats(filled)

    def _floats(self, filled: dict[str, Any]) -> dict[str, float | None]:
        """Numbers as floats: 2 and 2.0 are one experiment, in JSON too."""
        values = {name: filled.get(name, getattr(self, name)) for name in _float_fields(type(self))}
        return {name: None if value is None else float(value) for name, value in values.items()}

    @property
    def is_floor(self) -> bool:
        """Whether it is a floor: nothing contrastive is trained."""
        return self.method in self.floors

    @property
    def reads_labels(self) -> bool:
        """Whether the training of its encoder does."""
        return not self.is_floor and method(self.method).label_aware

    @property
    @abstractmethod
    def encoders(self) -> int:
        """How many encoders a seed trains."""

    @property
    @abstractmethod
    def n_scores(self) -> int:
        """How many test accuracies a seed has."""

    @property
    def share_of_fold(self) -> float:
        """Share of a training fold's samples that is trained on."""
        return 1.0

    @property
    @abstractmethod
    def can_select(self) -> bool:
        """Whether its settings can be chosen on data held out of its training data."""

    @property
    def trained(self) -> Self:
        """The cell as far as its encoders know: cells that agree in it differ in scoring alone."""
        return self

    @property
    def together(self) -> Hashable | None:
        """What cells share that train in one population; None for one that trains alone."""
        return None

    @property
    @abstractmethod
    def paper(self) -> float | None:
        """The paper's figure, percent, or None."""

    @abstractmethod
    def cost(self, size: tuple[int, int]) -> tuple[float, float]:
        """Work of training and of scoring, in one unit for all cells of a backend.

        Args:
            size: of the data set, as the backend counts it.
        """

    def optimisation(self) -> Optimisation:
        """How the encoder is optimised."""
        return Optimisation(
            epochs=self.epochs, lr=self.lr, weight_decay=self.weight_decay,
            lr_schedule=self.lr_schedule,
        )  # fmt: skip

    @abstractmethod
    def loss(self) -> ContrastiveLoss:
        """The loss of this cell, made anew."""

    def _loss(self, objective: Objective, positives: Positives | None = None) -> ContrastiveLoss:
        options: LossOptions = {"objective": objective, "detach_weights": self.detach_weights}
        if self.temperature is not None:
            options["temperature"] = self.temperature
        beta: float | Schedule = 0.0 if self.beta is None else self.beta
        if self.beta_changes and self.beta is not None:
            beta = Annealed(self.beta, self.beta_changes)
        start, end = self.threshold_start, self.threshold_end
        threshold = -1.0 if start is None or end is None else Linear(start, end)
        return contrastive_loss(
            self.method, beta=beta, threshold=threshold, class_prior=self.class_prior,
            positives=positives, **options,
        )  # fmt: skip

    def with_dataset(self, canonical: str) -> Self:
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
        default = defaults(type(self)) if raw else asdict(type(self)(method=self.method))  # type: ignore[call-arg]
        return {k: v for k, v in asdict(self).items() if v != default[k]}

    def __str__(self) -> str:
        """How messages and progress bars call it."""
        beta = "" if self.beta is None else f" β={self.beta:g}"
        return f"{self.dataset} {self.method}{beta} {self.protocol}"


def defaults(cell: type[Cell]) -> dict[str, Any]:
    """The fields of a kind of cell with their defaults."""
    return {f.name: f.default for f in fields(cell)}


_FLOATS: dict[str, tuple[str, ...]] = {}  # hints take milliseconds to read


def _float_fields(cell: type[Cell]) -> tuple[str, ...]:
    if cell.__name__ not in _FLOATS:
        hints = get_type_hints(cell)
        _FLOATS[cell.__name__] = tuple(n for n, h in hints.items() if h in (float, float | None))
    return _FLOATS[cell.__name__]


def flag(name: str) -> str:
    """A setting as the command line writes it."""
    return name.replace("_", "-")
