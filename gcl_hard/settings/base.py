"""Configurations: every setting that changes the numbers of a run, and nothing else; what those
of all domains share."""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from types import NoneType, UnionType
from typing import (
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
from gcl_hard.functional.hardness import HardnessScale, bounded
from gcl_hard.functional.schedules import Annealed, Linear, Schedule
from gcl_hard.losses import ContrastiveLoss, Positives
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
from gcl_hard.training.loop import LrSchedule, Optimisation

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
    def shares_views(self) -> bool:
        """Whether runs that train as one ensemble draw the same views, from one seed."""
        return False

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


TRAINING = ("epochs", "batch_size", "lr", "lr_schedule", "weight_decay", "data_seed")
