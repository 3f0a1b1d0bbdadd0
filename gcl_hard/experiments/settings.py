"""Configurations: the settings that change the numbers of a run, and only these; the part that all
domains share."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, make_dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar

from gcl_hard.core.setting import Field, Part, Setting, declared, resolve, restricted, stated
from gcl_hard.errors import InputError, check_number, check_option, unknown
from gcl_hard.functional.hardness import bounded
from gcl_hard.functional.schedules import Annealed, Linear, Schedule
from gcl_hard.losses.loss import ContrastiveLoss
from gcl_hard.losses.methods import (
    DEFAULT_BETA,
    DEFAULT_CLASS_PRIOR,
    METHODS,
    PARTS,
    SETTINGS,
    Method,
    contrastive_loss,
    default_threshold,
    method,
)
from gcl_hard.training.loop import LrSchedule, Optimisation

Domain = str
"""Name of a domain."""
CONTROLS = ("ucl", "scl")
"""Methods that all others of their data set and protocol are tested against."""
LogKind = Literal["csv", "tensorboard", "wandb"]
Config = TypeVar("Config", bound="RunConfig")
Values = Mapping[str, Any]


def row(above: Values) -> Method | None:
    """The method that the settings name; None for a baseline."""
    return METHODS.get(above["method"])


def _hardens_by(kind: str) -> Any:
    return lambda above: (chosen := row(above)) is not None and chosen.hardening == kind


def _is_hard(above: Values) -> bool:
    """Whether positives are chosen from a pool of views."""
    method_row = row(above)
    return method_row is not None and above.get("positives", method_row.positives) == "hard"


def chooses_views(above: Values) -> bool:
    """Whether the method itself chooses positives from a pool of views."""
    method_row = row(above)
    return method_row is not None and method_row.positives == "hard"


def _threshold(above: Values) -> Linear:
    return default_threshold(
        objective=above.get("objective", "infonce"), hardness_scale=above.get("hardness_scale")
    )


def _temperature(above: Values) -> float | None:
    return 0.5 if above.get("objective", "infonce") == "infonce" else None


def _class_prior(above: Values) -> float | None:
    method_row = row(above)
    return DEFAULT_CLASS_PRIOR if method_row is not None and method_row.takes_prior else None


def _without(text: str, above: Values) -> str | None:
    parts = sorted({*text.split("+")} - {"none"})
    for part in parts:
        check_option("part of SPACL", part, PARTS)
    return "+".join(parts) or None


def _views(above: Values) -> int | None:
    return max(4, above["hard_positives"]) if _is_hard(above) else None


LR = Setting(
    "learning rate of Adam", "training", above=0, symbol="lr", title="learning rate", common=True,
    several=True, chosen=True, read_by=("supervised",), space=(1e-4, 0.1, "log"),
)  # fmt: skip
EPOCHS = Setting(
    "passes over the training data", "training", least=1, symbol="epochs", common=True,
    several=True, chosen=True, read_by=("supervised",),
)  # fmt: skip
BATCH_SIZE = Setting(
    "samples in a batch", "training", least=2, several=True, read_by=("supervised",)
)
BATCH_PARTS = Setting(
    "parts of a batch that are encoded one at a time: less memory, all negatives; BatchNorm's "
    "statistics are those of a part",
    "training", least=1,
)  # fmt: skip


OWN_EPOCHS = 5


PATIENCE = Setting(
    "epochs without a better score on validation items after which supervised ends, with the "
    "weights of its best one; 0: its last ones, after epochs",
    "training", least=0, read_by=("supervised",),
    applies=lambda above: above["method"] == "supervised", otherwise=lambda above: 0, before=(0,),
)  # fmt: skip
SUPERVISED_EPOCHS = Setting(
    f"epochs of supervised at most, if it has patience ({OWN_EPOCHS} × epochs)", "training",
    least=1, read_by=("supervised",), applies=lambda above: above["patience"] > 0,
)  # fmt: skip
SUPERVISED_LR = Setting(
    "learning rate of supervised, if it is another (lr)", "training", above=0,
    read_by=("supervised",), applies=lambda above: above["method"] == "supervised",
)  # fmt: skip


@dataclass(frozen=True)
class OwnTraining:
    """Settings of the supervised baseline's own training, which has a validation part."""

    patience: Annotated[int, PATIENCE] = 100
    supervised_epochs: Annotated[int | None, SUPERVISED_EPOCHS] = None
    supervised_lr: Annotated[float | None, SUPERVISED_LR] = None


@dataclass(frozen=True)
class ConfigHead:
    """The three settings that every configuration begins with; its domain declares them.

    A setting that decides a default in :class:`RunConfig` belongs in a subclass of this, from which
    the domain's configuration inherits as well, so that it resolves first.
    """

    dataset: str = ""
    method: str = ""
    protocol: str = ""


DETACH_WEIGHTS = Setting("whether q is a constant to the gradient")
WEIGHT_DECAY = Setting("weight decay of Adam", "training", least=0, read_by=("supervised",))


BETA = Setting(
    "β ≥ 0 of hucl, hcl and hscl; acts after the temperature", least=0, symbol="β", title="β",
    common=True, several=True, chosen=True, applies=_hardens_by("exponential"),
    otherwise=lambda above: None, usual=lambda above: DEFAULT_BETA, space=(0.1, 20.0, "log"),
)  # fmt: skip
THRESHOLD_START = Setting(
    "cosine l of hscl-tau in epoch 1 (-0.5; in deviations -1)", symbol="start",
    title="threshold in the first epoch", several=True, chosen=True,
    applies=_hardens_by("threshold"), usual=lambda above: _threshold(above).start,
    space=(-1.0, 0.5),
)  # fmt: skip
THRESHOLD_END = Setting(
    "cosine l of hscl-tau in the last epoch (0)", symbol="end",
    title="threshold in the last epoch", several=True, chosen=True,
    applies=_hardens_by("threshold"), usual=lambda above: _threshold(above).end, space=(-0.5, 0.5),
)  # fmt: skip
BETA_CHANGES = Setting(
    "HCL's annealing: steps in which β falls to 0; 0: constant", least=0, several=True,
    applies=_hardens_by("exponential"),
)  # fmt: skip
WITHOUT = Setting(
    "what spacl leaves out: none, anchor, hard-positives, adversarial, filter, a+b", several=True,
    applies=chooses_views, canonical=_without,
)  # fmt: skip


@dataclass(frozen=True)
class _Loss:
    """Settings of the losses and the steps of their training."""

    beta: Annotated[float | None, BETA] = DEFAULT_BETA
    threshold_start: Annotated[float | None, THRESHOLD_START] = None
    threshold_end: Annotated[float | None, THRESHOLD_END] = None
    lr: Annotated[float, LR] = 0.01
    epochs: Annotated[int, EPOCHS] = 200
    beta_changes: Annotated[int, BETA_CHANGES] = 0
    without: Annotated[str | None, WITHOUT] = None


def settings_class(name: str, declarations: Mapping[str, Field]) -> type:
    """A dataclass with these settings as its fields, for configurations to inherit from."""
    return make_dataclass(
        name,
        [(f.name, Annotated[f.kind, f.setting], f.default) for f in declarations.values()],
        frozen=True,
    )


def _of_methods() -> dict[str, Field]:
    """Settings that only some methods have; None stands for the default of the method's class."""
    return {
        name: replace(
            declared_by_class, argument=name, kind=declared_by_class.kinds[0] | None, default=None,
            setting=replace(
                declared_by_class.setting,
                applies=_is_hard if name == "hard_positives" else _in_method(name),
                usual=_constant(declared_by_class.default),
            ),
        )
        for name, declared_by_class in SETTINGS.items()
    }  # fmt: skip


def _constant(value: Any) -> Callable[[Values], Any]:
    return lambda above: value


def _in_method(name: str) -> Any:
    """Whether the method has a setting, and the part that reads it is not left out."""

    def applies(above: Values) -> bool:
        left_out = name == "quota" and "filter" in (above["without"] or "").split("+")
        method_row = row(above)
        return method_row is not None and name in method_row.own_settings and not left_out

    return applies


VIEWS = Setting(
    "views of a sample (2; spacl: 4, the first is itself)", least=2, several=True, usual=_views,
    canonical=lambda views, above: None if views == 2 and not _is_hard(above) else views,
)  # fmt: skip
TEMPERATURE = Setting(
    "γ of InfoNCE, 0.5 if not given; JSD has none", above=0, symbol="γ", title="temperature γ",
    follows=("contrast", "objective"), several=True, chosen=True, usual=_temperature,
    space=(0.05, 1.0, "log"),
)  # fmt: skip
CLASS_PRIOR = Setting(
    "τ⁺ of dcl, hcl and bcl, 0.1 if not given", title="class prior τ⁺", usual=_class_prior,
    space=(0.01, 0.5),
)  # fmt: skip
LR_SCHEDULE = Setting("constant, or cosine to 0", "training", read_by=("supervised",))
DATA_SEED = Setting(
    "seed of the batch order, the same for all runs", "training", least=0, read_by=("supervised",)
)


@dataclass(frozen=True)
class _Training:
    """Settings after those of methods."""

    views: Annotated[int | None, VIEWS] = None
    temperature: Annotated[float | None, TEMPERATURE] = None
    class_prior: Annotated[float | None, CLASS_PRIOR] = None
    detach_weights: Annotated[bool, DETACH_WEIGHTS] = False
    batch_size: Annotated[int, BATCH_SIZE] = 128
    lr_schedule: Annotated[LrSchedule, LR_SCHEDULE] = "constant"
    weight_decay: Annotated[float, WEIGHT_DECAY] = 0.0
    data_seed: Annotated[int, DATA_SEED] = 0


HEAD = ("dataset", "method", "protocol")


def method_setting(
    baselines: tuple[str, ...], *, items: str = "", refused: Mapping[str, str] | None = None
) -> Setting:
    """The setting ``method`` of a domain with these baselines.

    Args:
        baselines: names of the baselines.
        items: what the domain's samples are called in messages.
        refused: methods that it does not have, and why.
    """
    without = refused or {}
    methods = [name for name in METHODS if name not in without]

    def canonical(spelling: str, above: Values) -> str:
        name = spelling.casefold()
        if name in without:
            raise InputError(
                f"{name} {without[name]}: methods of {items} are {', '.join(methods)}, or a "
                f"baseline, {', '.join(baselines)}"
            )
        if name not in METHODS and name not in baselines:
            raise unknown("method", spelling, (*METHODS, *baselines))
        return name

    text = f"{', '.join(METHODS)}; or a baseline: {', '.join(baselines)}"
    return Setting(text, common=True, several=True, canonical=canonical)


def by_method(setting: Setting, supervised: Any, other: Any, **changed: Any) -> Setting:
    """A setting with one default for the supervised baseline and another for all else."""
    return replace(
        setting,
        usual=lambda above: supervised if above["method"] == "supervised" else other,
        otherwise=lambda above: other,
        **changed,
    )


def selectable(config: type[RunConfig]) -> list[str]:
    """Names of the settings that can be chosen inside training data."""
    return [name for name, field in known(config).items() if field.setting.chosen]


def symbols(config: type[RunConfig]) -> dict[str, str]:
    """Symbols of settings in tables, in the order of the settings."""
    fields = known(config)
    return {name: fields[name].setting.symbol for name in fields if fields[name].setting.symbol}


def of_part(config: type[RunConfig], *parts: Part) -> list[str]:
    """Names of the settings of some parts of a run."""
    return [name for name, field in known(config).items() if field.setting.part in parts]


def known(config: type[RunConfig]) -> dict[str, Field]:
    """The settings of a class of configurations by name, in the order in which they resolve."""
    if config not in _KNOWN:

        def reads(field: Field) -> Any:
            return lambda above: (
                above["method"] not in config.baselines or above["method"] in field.setting.read_by
            )

        _KNOWN[config] = {
            name: field if name in HEAD[:2] else restricted(field, reads(field))
            for name, field in declared(config).items()
        }
    return _KNOWN[config]


_KNOWN: dict[type[RunConfig], dict[str, Field]] = {}


_MethodSettings = settings_class("_MethodSettings", _of_methods())


@dataclass(frozen=True)
class RunConfig(_Training, _MethodSettings, _Loss, ConfigHead):  # type: ignore[misc, valid-type]
    """The settings of a data set, a method and a protocol, and what training, the plan and the
    store need of them; one subclass a domain, a frozen dataclass.

    Its :class:`~gcl_hard.experiments.Experiment` says what the domain can do, and how its tables
    are worded.

    Raises:
        InputError: for a value out of range, an unknown name, or a meaningless
            combination; before anything is loaded or written.
    """

    domain: ClassVar[Domain]
    baselines: ClassVar[tuple[str, ...]]
    """Methods without contrastive training; settings say which of them read them."""
    if TYPE_CHECKING:  # settings of methods and of domains

        def __getattr__(self, name: str) -> Any: ...

    def __post_init__(self) -> None:
        stated_values = {name: getattr(self, name) for name in known(type(self))}
        for name, value in resolve(known(type(self)), stated_values).items():
            object.__setattr__(self, name, value)
        self.optimisation()
        self.check()
        if not self.is_baseline:
            _check_loss_settings(self, stated_values)
            _check_once(self)

    def check(self) -> None:
        """Refuse combinations of the settings that a subclass adds."""
        return

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
        """Whether the negatives depend on the number of processes that train together."""
        return False

    @property
    def encoders(self) -> int:
        """Encoders that one run trains."""
        return int(not self.is_baseline or self.method == "supervised")

    @property
    def most_epochs(self) -> int:
        """Maximum number of epochs of an encoder."""
        if self.method != "supervised" or not isinstance(self, OwnTraining) or not self.patience:
            return self.epochs
        return self.supervised_epochs or OWN_EPOCHS * self.epochs

    @property
    def n_scores(self) -> int:
        """Number of test accuracies of one run."""
        return 1

    @property
    def is_deterministic(self) -> bool:
        """Whether all seeds give the same scores, so that one run stands for all."""
        return False

    @property
    def data_key(self) -> tuple[Hashable, ...]:
        """Key of the data: the settings that decide which are loaded."""
        return tuple(getattr(self, name) for name in of_part(type(self), "data"))

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

    def cost(self, size: tuple[int, int]) -> tuple[float, float]:
        """Work of training and of scoring, in a unit common to the configurations of a domain.

        Args:
            size: size of the data set: nodes and graphs, or images to train on and to score.
        """
        return float(self.encoders * self.most_epochs * size[0]), float(size[1])

    def optimisation(self) -> Optimisation:
        """How the encoder is optimised."""
        supervised_lr = self.supervised_lr if isinstance(self, OwnTraining) else None
        return Optimisation(
            epochs=self.most_epochs, lr=supervised_lr or self.lr, weight_decay=self.weight_decay,
            lr_schedule=self.lr_schedule,
        )  # fmt: skip

    def loss(self, seed: int = 0, **options: Any) -> ContrastiveLoss:
        """A new loss with these settings; the seed draws synthetic negatives.

        Args:
            seed: of the synthetic negatives.
            options: arguments of :func:`gcl_hard.losses.methods.contrastive_loss` that are not
                settings.
        """
        options = {"detach_weights": self.detach_weights, **options}
        options |= {name: getattr(self, name) for name in SETTINGS}
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
            without=without, seed=seed, **options,
        )  # fmt: skip

    @property
    def unread(self) -> frozenset[str]:
        """Settings of our encoders that the user's own encoder does not read."""
        return frozenset()

    def key(self) -> str:
        """File name stem: data set, method, protocol and a hash of the settings.

        The hash covers what differs from the defaults given the rest, so that a setting added later
        loses no results.
        """
        return _key(self)

    @property
    def values(self) -> dict[str, Any]:
        """Every setting, resolved."""
        return {name: getattr(self, name) for name in known(type(self))}

    def stated(self) -> dict[str, Any]:
        """Settings that differ from their defaults given the rest, except those of :data:`HEAD`.

        Example:
            >>> from gcl_hard.graphs.settings import GraphConfig
            >>> GraphConfig(contrast="two-view", lr=0.1, temperature=0.5).stated()
            {'contrast': 'two-view', 'lr': 0.1}
        """
        return {name: value for name, value in _stated(self).items() if name not in HEAD}

    def __str__(self) -> str:
        """Name in messages and progress bars."""
        stated, words = self.stated(), [self.dataset, self.method]
        if "encoder" in stated and (encoder := encoder_name(self)):
            words.append(encoder.partition("@")[0])
        for name, field in known(type(self)).items():
            if field.setting.symbol and (name in stated or name == "beta"):
                value = getattr(self, name)
                shown = f"{value:g}" if isinstance(value, float) else value
                words += [] if value is None else [f"{field.setting.symbol}={shown}"]
        return " ".join([*words, self.protocol])


def encoder_name(config: RunConfig) -> str:
    """The encoder that a configuration trains or takes untrained; "" for a baseline without one."""
    field = known(type(config)).get("encoder")
    if field is None or (config.is_baseline and config.method not in field.setting.read_by):
        return ""
    return getattr(config, "encoder", None) or ""


def reads(config: RunConfig, name: str) -> bool:
    """Whether a setting applies, given the rest."""
    applies = known(type(config))[name].setting.applies
    return name not in config.unread and (applies is None or bool(applies(config.values)))


def as_json(config: RunConfig) -> dict[str, Any]:
    """Every setting, resolved, as JSON gives it back."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in config.values.items()}


def changed(config: RunConfig) -> dict[str, Any]:
    """Settings that differ from the defaults of the method."""
    usual = type(config)(method=config.method).values
    return {name: value for name, value in config.values.items() if value != usual[name]}


def _check_loss_settings(config: RunConfig, stated_values: Values) -> None:
    scale = getattr(config, "hardness_scale", None)
    if scale is None or bounded(scale):
        for name in ("threshold_start", "threshold_end"):
            if stated_values[name] is not None:
                check_number(f"{flag(name)}, a cosine,", stated_values[name], least=-1, most=1)
    if config.hard_positives is not None and config.views < config.hard_positives:
        raise InputError(
            f"hard-positives {config.hard_positives}, the anchor included, are chosen from as many "
            f"views, got views {config.views}: raise it"
        )


def _check_once(config: RunConfig) -> None:
    """Make the loss, which refuses meaningless combinations; once for the same settings."""
    key = (type(config), *(getattr(config, name) for name in of_part(type(config), "loss")))
    if key not in _CHECKED:
        config.loss()
        _CHECKED.add(key)


_CHECKED: set[Hashable] = set()


@lru_cache(maxsize=2**16)
def _stated(config: RunConfig) -> dict[str, Any]:
    return stated(known(type(config)), config.values)


@lru_cache(maxsize=2**16)
def _key(config: RunConfig) -> str:
    stated_values = stated(known(type(config)), config.values, keyed=True)
    content = {"domain": config.domain, **stated_values}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]
    return f"{config.dataset}_{config.method}_{config.protocol}_{digest}"


def check_unread(
    config: RunConfig, encoder: str, advice: str = "give yours a setting of its own"
) -> None:
    """Refuse settings of our encoder that the user's own, which replaces it, does not read.

    Args:
        config: with the user's own encoder.
        encoder: our encoder, in words.
        advice: what to do instead.
    """
    usual = defaults(type(config))
    if unread := sorted(name for name in config.unread if getattr(config, name) != usual[name]):
        raise InputError(
            f"{flag(unread[0])} is a setting of {encoder}, which your encoder replaces: {advice}"
        )


def is_own(name: str) -> bool:
    """Whether a setting names the user's own encoder or augmentation."""
    return OWN.fullmatch(name) is not None or is_pretrained(name)


def is_pretrained(name: str) -> bool:
    """Whether a setting names the file of a pre-trained encoder."""
    return PRETRAINED.fullmatch(name) is not None


def defaults(config: type[RunConfig]) -> dict[str, Any]:
    """Settings of a class of configurations with their declared defaults."""
    return {name: field.default for name, field in known(config).items()}


def flag(name: str) -> str:
    """Spelling of a setting on the command line."""
    return name.replace("_", "-")


OWN = re.compile(r"(?!(?:torchvision|timm):)[\w.<>]+(:[\w.<>]+|(:[\w.<>]+)?@[0-9a-f]+)")
"""Names of the user's own parts: ``module:Name``, and ``Name@digest`` once they are known."""
PRETRAINED = re.compile(r"[^@]*[^@/]\.(pt|safetensors)(@[0-9a-f]+)?")
"""Files of pre-trained encoders: ``FILE.pt`` or ``FILE.safetensors``, and ``NAME.pt@digest`` once
they are known."""
