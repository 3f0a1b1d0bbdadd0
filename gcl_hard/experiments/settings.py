"""Configurations: every setting that changes the numbers of a run, and nothing else; what those
of all domains share."""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import Field as DataclassField
from dataclasses import dataclass, is_dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Self,
    TypeVar,
)

from numpy.typing import NDArray

from gcl_hard.core.setting import Field, Part, Setting, declared, resolve, restricted, stated
from gcl_hard.errors import InputError, check_number, check_option, unknown
from gcl_hard.functional.hardness import bounded
from gcl_hard.functional.schedules import Annealed, Linear, Schedule
from gcl_hard.losses.loss import ContrastiveLoss, Positives
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
OwnSets = Literal["module", "table"]
COMMON = "common"
"""Marks an option of a command, ``Annotated[type, help, COMMON]``, that most people set."""
LogKind = Literal["csv", "tensorboard", "wandb"]
LogKinds = Annotated[
    tuple[LogKind, ...] | None,
    "write losses and scores as they come: csv, tensorboard, wandb, or several",
]
"""Type and help of the option ``log``."""
Config = TypeVar("Config", bound="RunConfig")
Values = Mapping[str, Any]


def row(above: Values) -> Method | None:
    """The method of settings, None for a baseline."""
    return METHODS.get(above["method"])


def _hardens_by(kind: str) -> Any:
    return lambda above: (own := row(above)) is not None and own.hardening == kind


def _is_hard(above: Values) -> bool:
    """Whether positives are chosen from a pool of views."""
    own = row(above)
    return own is not None and above.get("positives", own.positives) == "hard"


def _chooses_views(above: Values) -> bool:
    own = row(above)
    return own is not None and own.positives == "hard"


def _threshold(above: Values) -> Linear:
    return default_threshold(
        objective=above.get("objective", "infonce"), hardness_scale=above.get("hardness_scale")
    )


def _temperature(above: Values) -> float | None:
    return 0.5 if above.get("objective", "infonce") == "infonce" else None


def _class_prior(above: Values) -> float | None:
    own = row(above)
    return DEFAULT_CLASS_PRIOR if own is not None and own.takes_prior else None


def _without(given: str, above: Values) -> str | None:
    parts = sorted({*given.split("+")} - {"none"})
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


@dataclass(frozen=True)
class OwnTraining:
    """Settings of the supervised baseline's own training, which has a validation part."""

    patience: Annotated[int, PATIENCE] = 100
    supervised_epochs: Annotated[
        int | None,
        Setting(
            f"epochs of supervised at most, if it has patience ({OWN_EPOCHS} × epochs)",
            "training",
            least=1,
            read_by=("supervised",),
            applies=lambda above: above["patience"] > 0,
        ),
    ] = None
    supervised_lr: Annotated[
        float | None,
        Setting(
            "learning rate of supervised, if it is another (lr)",
            "training",
            above=0,
            read_by=("supervised",),
            applies=lambda above: above["method"] == "supervised",
        ),
    ] = None


DETACH_WEIGHTS = Setting("whether q is a constant to the gradient")
WEIGHT_DECAY = Setting("weight decay of Adam", "training", least=0, read_by=("supervised",))


@dataclass(frozen=True)
class _Loss:
    """Settings of the losses and the steps of their training."""

    beta: Annotated[
        float | None,
        Setting(
            "β ≥ 0 of hucl, hcl and hscl; acts after the temperature",
            least=0,
            symbol="β",
            title="β",
            common=True,
            several=True,
            chosen=True,
            applies=_hardens_by("exponential"),
            otherwise=lambda above: None,
            usual=lambda above: DEFAULT_BETA,
            space=(0.1, 20.0, "log"),
        ),
    ] = DEFAULT_BETA
    threshold_start: Annotated[
        float | None,
        Setting(
            "cosine l of hscl-tau in epoch 1 (-0.5; in deviations -1)",
            symbol="start",
            title="threshold in the first epoch",
            several=True,
            chosen=True,
            applies=_hardens_by("threshold"),
            usual=lambda above: _threshold(above).start,
            space=(-1.0, 0.5),
        ),
    ] = None
    threshold_end: Annotated[
        float | None,
        Setting(
            "cosine l of hscl-tau in the last epoch (0)",
            symbol="end",
            title="threshold in the last epoch",
            several=True,
            chosen=True,
            applies=_hardens_by("threshold"),
            usual=lambda above: _threshold(above).end,
            space=(-0.5, 0.5),
        ),
    ] = None
    lr: Annotated[float, LR] = 0.01
    epochs: Annotated[int, EPOCHS] = 200
    beta_changes: Annotated[
        int,
        Setting(
            "HCL's annealing: steps in which β falls to 0; 0: constant",
            least=0,
            several=True,
            applies=_hardens_by("exponential"),
        ),
    ] = 0
    without: Annotated[
        str | None,
        Setting(
            "what spacl leaves out: none, anchor, hard-positives, adversarial, filter, a+b",
            several=True,
            applies=_chooses_views,
            canonical=_without,
        ),
    ] = None


@dataclass(frozen=True)
class _Training:
    """Settings after those of methods."""

    views: Annotated[
        int | None,
        Setting(
            "views of a sample (2; spacl: 4, the first is itself)",
            least=2,
            several=True,
            usual=_views,
            canonical=lambda given, above: None if given == 2 and not _is_hard(above) else given,
        ),
    ] = None
    temperature: Annotated[
        float | None,
        Setting(
            "γ of InfoNCE, 0.5 if not given; JSD has none",
            above=0,
            symbol="γ",
            title="temperature γ",
            follows=("contrast", "objective"),
            several=True,
            chosen=True,
            usual=_temperature,
            space=(0.05, 1.0, "log"),
        ),
    ] = None
    class_prior: Annotated[
        float | None,
        Setting(
            "τ⁺ of dcl, hcl and bcl, 0.1 if not given",
            title="class prior τ⁺",
            usual=_class_prior,
            space=(0.01, 0.5),
        ),
    ] = None
    detach_weights: Annotated[bool, DETACH_WEIGHTS] = False
    batch_size: Annotated[int, BATCH_SIZE] = 128
    lr_schedule: Annotated[
        LrSchedule, Setting("constant, or cosine to 0", "training", read_by=("supervised",))
    ] = "constant"
    weight_decay: Annotated[float, WEIGHT_DECAY] = 0.0
    data_seed: Annotated[
        int,
        Setting(
            "seed of the batch order, the same for all runs",
            "training",
            least=0,
            read_by=("supervised",),
        ),
    ] = 0


def _of_methods() -> dict[str, Field]:
    """Settings of some methods alone: None for the default that their class declares."""
    found = {}
    for name, one in SETTINGS.items():
        own = one.setting
        found[name] = replace(
            one, argument=name, kind=one.kinds[0] | None, default=None,
            setting=replace(
                own,
                applies=_is_hard if name == "hard_positives" else _has(name),
                usual=_constant(one.default),
            ),
        )  # fmt: skip
    return found


def _constant(value: Any) -> Callable[[Values], Any]:
    return lambda above: value


def _has(name: str) -> Any:
    """Whether a method has a setting, and what reads it is not left out."""

    def applies(above: Values) -> bool:
        left_out = name == "quota" and "filter" in (above["without"] or "").split("+")
        own = row(above)
        return own is not None and name in own.own_settings and not left_out

    return applies


HEAD = ("dataset", "method", "protocol")


def method_setting(
    baselines: tuple[str, ...], *, of: str = "", refused: Mapping[str, str] | None = None
) -> Setting:
    """The setting ``method`` of a domain with these baselines.

    Args:
        baselines: their names.
        of: what the domain's methods belong to, for messages.
        refused: methods that it does not have, and why.
    """
    without = refused or {}

    def canonical(given: str, above: Values) -> str:
        name = given.casefold()
        if name in without:
            others = [one for one in METHODS if one not in without]
            raise InputError(
                f"{name} {without[name]}: methods of {of} are {', '.join(others)}, or a baseline, "
                f"{', '.join(baselines)}"
            )
        if name not in METHODS and name not in baselines:
            raise unknown("method", given, (*METHODS, *baselines))
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
    return [name for name, one in known(config).items() if one.setting.chosen]


@cache
def symbols(config: type[RunConfig]) -> dict[str, str]:
    """How tables write the settings that have a symbol, in their order."""
    return {name: one.setting.symbol for name, one in known(config).items() if one.setting.symbol}


def of_part(config: type[RunConfig], *parts: Part) -> list[str]:
    """Names of the settings of some parts of a run."""
    return [name for name, one in known(config).items() if one.setting.part in parts]


def configuration(cls: type[Config]) -> type[Config]:
    """Make a class of a domain's settings a configuration: with those of losses and methods.

    They stand after what the domain declares for the loss, so that their defaults see that.

    Args:
        cls: its body declares ``dataset``, ``method``, ``protocol`` and the domain's own settings;
            one that all domains have takes the place of that. The subclass of a configuration has
            its settings.

    Raises:
        TypeError: for a class without one of the three.
    """
    parent = next((one for one in cls.__mro__[1:] if is_dataclass(one)), None)
    own = ({} if parent is None else declared(parent)) | declared(_body(cls))
    for part in cls.has_settings_of:
        own |= {name: one for name, one in declared(part).items() if name not in own}
    stated = ("domain", "baselines", "baseline_protocol")
    if lacking := [name for name in stated if not hasattr(cls, name)]:
        raise TypeError(f"{cls.__name__} has no {' and no '.join(lacking)}: see RunConfig")
    if lacking := [name for name in HEAD if name not in own]:
        raise TypeError(f"{cls.__name__} declares no {' and no '.join(lacking)}")
    losses = {name: one for name, one in own.items() if one.setting.part == "loss"}
    shared = [declared(_Loss), _of_methods(), declared(_Training)]
    common = {name for fields in shared for name in fields}
    first = [own[name] for name in HEAD]
    before = [one for name, one in losses.items() if name not in (*HEAD, *common)]
    middle = [own.get(name, one) for fields in shared for name, one in fields.items()]
    placed = {one.name for one in (*first, *before, *middle)}
    ordered = [*first, *before, *middle, *(one for name, one in own.items() if name not in placed)]
    for one in ordered:
        cls.__annotations__.pop(one.name, None)  # so that it takes its place in the order
        cls.__annotations__[one.name] = Annotated[one.kind, one.setting]
        setattr(cls, one.name, one.default)
    return dataclass(frozen=True)(cls)


def _body(cls: type) -> type:
    """A dataclass of what the body of a class declares."""
    names = {name: vars(cls)[name] for name in cls.__annotations__ if name in vars(cls)}
    own = {"__annotations__": dict(cls.__annotations__), "__module__": cls.__module__}
    return dataclass(type(cls.__name__, (), own | names))


@cache
def known(config: type[RunConfig]) -> dict[str, Field]:
    """The settings of a class of configurations by name, in the order in which they resolve."""
    baselines = config.baselines

    def reads(one: Field) -> Any:
        return lambda above: (
            above["method"] not in baselines or above["method"] in one.setting.read_by
        )

    found = dict(declared(config))
    for name, one in found.items():
        if name not in HEAD[:2]:
            found[name] = restricted(one, reads(one))
    protocol = replace(
        found["protocol"].setting, applies=lambda above: above["method"] not in baselines,
        otherwise=lambda above: config.baseline_protocol,
    )  # fmt: skip
    found["protocol"] = replace(found["protocol"], setting=protocol)
    return found


class PretrainingData(NamedTuple):
    """What pre-training on a domain's data reads.

    Attributes:
        data: the domain whose module ``pretraining`` reads the data, which messages name as well;
            empty where there is no pre-training.
        unread: settings that it does not read.
        refused: options that apply to other data.
    """

    data: str = ""
    unread: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


class RunConfig(ABC):
    """The settings of a data set, a method and a protocol; one subclass a domain.

    Raises:
        InputError: for a value out of range, an unknown name, or a combination that means
            nothing; before anything is loaded or written.
    """

    baselines: ClassVar[tuple[str, ...]]
    """Methods without contrastive training; settings say which of them read them."""
    methods: ClassVar[tuple[str, ...]] = tuple(METHODS)
    """Contrastive methods that the domain has."""
    baseline_protocol: ClassVar[str]
    domain: ClassVar[Domain]
    has_settings_of: ClassVar[tuple[type, ...]] = ()
    """Classes whose declared settings are settings of the configuration."""
    quick: ClassVar[Mapping[str, Any]] = {"seeds": (0, 1), "epochs": (3,), "beta": (1.0, 10.0)}
    """Values of a smoke run (``--quick``)."""
    in_search: ClassVar[Mapping[str, Any]] = {}
    """Defaults of settings in a search that differ from those of a single run."""
    sets: ClassVar[str] = "--domain too"
    """What to give a command that is about this domain, in messages."""
    chooses_once: ClassVar[bool] = False
    """Whether settings are chosen by one run of each candidate that reads no test item: what is not
    chosen is never tested."""
    unit: ClassVar[str] = ""
    """What the test part is a sample of, where intervals are over seeds and such units; empty where
    they are over seeds alone."""
    own_sets: ClassVar[OwnSets | None] = None
    """How commands name a data set of the user's own: ``module:name`` of graphs, or the file of a
    table, for which ``encoder`` may be a file, too."""
    item: ClassVar[str] = "item"
    """What one sample is called; several have an s."""
    common_splits: ClassVar[bool] = False
    """Whether split k is the same for all configurations and seeds, so that those of other numbers
    of splits are compared on the first ones, and ± is over splits as well."""
    beside: ClassVar[tuple[str, ...]] = ()
    """Metrics that tables show beside the first one, of records that have them."""
    controls: ClassVar[Mapping[str, str]] = {name: name for name in CONTROLS}
    """What rows are compared with, by the names of columns: rows of these methods, of which
    :meth:`is_control` says which."""
    averages_sets: ClassVar[bool] = False
    """Whether the mean over the data sets of a command is a row of its tables, too."""
    usual_baselines: ClassVar[tuple[str, ...]] = ("majority", "untrained")
    """Baselines that :func:`gcl_hard.evaluate` runs if none are named."""
    pretraining: ClassVar[PretrainingData] = PretrainingData()
    protocol_notes: ClassVar[Mapping[str, str]] = {}
    """What commands say of a protocol before they train."""

    if TYPE_CHECKING:  # what :func:`configuration` adds
        __dataclass_fields__: ClassVar[dict[str, DataclassField[Any]]]
        dataset: str
        method: str
        protocol: str
        epochs: int
        batch_size: int
        lr: float

        def __init__(self, *values: Any, **settings: Any) -> None: ...

        def __getattr__(self, name: str) -> Any: ...

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in known(type(self))}
        for name, value in resolve(known(type(self)), given).items():
            object.__setattr__(self, name, value)
        self.optimisation()
        self._check()
        if not self.is_baseline:
            self._check_loss(given)
            _check_once(self)

    def _check(self) -> None:
        """Refuse combinations of the settings that a subclass adds."""
        return

    def _check_loss(self, given: Values) -> None:
        scale = getattr(self, "hardness_scale", None)
        if scale is None or bounded(scale):
            for name in ("threshold_start", "threshold_end"):
                if given[name] is not None:
                    check_number(f"{flag(name)}, a cosine,", given[name], least=-1, most=1)
        if self.hard_positives is not None and self.views < self.hard_positives:
            raise InputError(
                f"hard-positives {self.hard_positives}, the anchor included, are chosen from as "
                f"many views, got views {self.views}: raise it"
            )

    @classmethod
    def combined(cls, configs: Sequence[Self]) -> Sequence[Self]:
        """The configurations of a command, without what means nothing together."""
        return configs

    @property
    def canonical_dataset(self) -> str:
        """The one name of the data set, which may have several."""
        return self.dataset

    def files(self, data_dir: Path | None) -> list[Path]:
        """Files of the data set, if it is a named one; InputError if they are not available."""
        return []

    @property
    def set_name(self) -> str:
        """Name of the data set in tables, with the number of classes if ``classes`` is given."""
        return self.dataset

    @property
    def is_baseline(self) -> bool:
        """Whether nothing contrastive is trained."""
        return self.method in self.baselines

    @property
    def encoder_read(self) -> str:
        """The encoder that it trains or takes untrained; "" for a baseline that has none."""
        one = known(type(self)).get("encoder")
        if one is None or (self.is_baseline and self.method not in one.setting.read_by):
            return ""
        return getattr(self, "encoder", None) or ""

    @property
    def row_name(self) -> str:
        """What its rows are called in tables, beside the settings in which they differ."""
        return self.method

    @property
    def row_fields(self) -> dict[str, Any]:
        """What its rows have of ``representation``, ``share`` and ``split``."""
        return {}

    def is_control(self, name: str, compared: RunConfig) -> bool:
        """Whether it is the control of a name that another configuration is compared with."""
        return self.method != compared.method

    def of_seed(self, seed: int) -> Self:
        """The configuration of the run of a seed, for which ``{seed}`` stands in names of files."""
        return self

    @property
    def reads_labels(self) -> bool:
        """Whether the encoder is trained with labels."""
        return not self.is_baseline and method(self.method).label_aware

    @property
    def reads_some_labels(self) -> bool:
        """Whether training reads the labels of some items and takes those of others as unknown."""
        return False

    @property
    def sees_test_labels(self) -> bool:
        """Whether the encoder is trained with labels of the items that it is tested on."""
        return self.reads_labels and self.protocol == "transductive"

    @property
    def local_negatives(self) -> bool:
        """Whether the number of processes that train together decides what the negatives are."""
        return False

    @property
    def encoders(self) -> int:
        """Encoders that one run trains."""
        return int(not self.is_baseline)

    @property
    def most_epochs(self) -> int:
        """Epochs that an encoder is trained for at most."""
        own_training = self.method == "supervised" and OwnTraining in self.has_settings_of
        if not own_training or not self.patience:
            return self.epochs
        own: int | None = self.supervised_epochs
        return own or OWN_EPOCHS * self.epochs

    @property
    def _own_lr(self) -> float | None:
        return self.supervised_lr if OwnTraining in self.has_settings_of else None

    @property
    def n_scores(self) -> int:
        """Number of test accuracies of one run."""
        return 1

    @property
    def share_of_fold(self) -> float:
        """Share of a training fold's samples that is trained on."""
        return 1.0

    def test_share(self, facts: Mapping[str, Any]) -> float:
        """n_test / n_train of its test scores, which tests of differences are corrected by.

        Args:
            facts: what its record states of the data.

        Returns:
            That of equal folds, 1 / ((K − 1) · :attr:`share_of_fold`); 0 for one split.
        """
        return 1 / ((self.n_scores - 1) * self.share_of_fold) if self.n_scores > 1 else 0.0

    @property
    def is_deterministic(self) -> bool:
        """Whether every seed gives the same scores, so that one is run and stands for all."""
        return False

    def seeds_used(self, seeds: Sequence[int]) -> tuple[int, ...]:
        """Those of the seeds that were asked for that it is run with."""
        return tuple(seeds[:1] if self.is_deterministic else seeds)

    @property
    def searches_on_test(self) -> bool:
        """Whether the trials of a search are scored on the test folds, since nothing is held out of
        the training of an encoder.
        """
        return self.protocol == "transductive"

    @property
    def can_select(self) -> bool:
        """Whether settings can be chosen on data held out of every encoder's training data."""
        return self.encoders > 0 and self.protocol != "transductive"

    @property
    def has_validation(self) -> bool:
        """Whether every run is scored on a validation part, too, so that none is run to choose."""
        return False

    def of_units(self, values: NDArray[Any]) -> NDArray[Any]:
        """The values of the test units by those of the test items, whose mean is the same."""
        return values

    @property
    def data_key(self) -> tuple[Hashable, ...]:
        """What decides which data are loaded."""
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
        return Optimisation(
            epochs=self.most_epochs, lr=self._own_lr or self.lr,
            weight_decay=self.weight_decay,
            lr_schedule=self.lr_schedule,
        )  # fmt: skip

    def loss(self, seed: int = 0) -> ContrastiveLoss:
        """A new loss with these settings; the seed draws synthetic negatives."""
        return self._loss(seed)

    def _loss(
        self, seed: int, positives: Positives | None = None, **options: Any
    ) -> ContrastiveLoss:
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
            positives=positives, without=without, seed=seed, **options,
        )  # fmt: skip

    def reads(self, name: str) -> bool:
        """Whether a setting applies, given the rest."""
        applies = known(type(self))[name].setting.applies
        return name not in self.unread and (applies is None or bool(applies(self.values)))

    @property
    def unread(self) -> frozenset[str]:
        """Settings of our encoders, which one of the user's own does not read."""
        return frozenset()

    def resolved(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Settings resolved from the data, for the result."""
        return {}

    def key(self) -> str:
        """File name stem: data set, method, protocol and a hash of the settings.

        The hash is one of what differs from the defaults given the rest, so that a setting added
        later loses no result.
        """
        return _key(self)

    def as_json(self) -> dict[str, Any]:
        """Every setting, resolved, as JSON gives it back."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in self.values.items()}

    @property
    def values(self) -> dict[str, Any]:
        """Every setting, resolved."""
        return {name: getattr(self, name) for name in known(type(self))}

    def stated(self) -> dict[str, Any]:
        """Settings that differ from their defaults given the rest, but data set, method, protocol.

        Example:
            >>> from gcl_hard.graphs.settings import GraphConfig
            >>> GraphConfig(contrast="two-view", lr=0.1, temperature=0.5).stated()
            {'contrast': 'two-view', 'lr': 0.1}
        """
        return {name: value for name, value in _stated(self).items() if name not in HEAD}

    def changed(self) -> dict[str, Any]:
        """Settings that differ from those of a configuration of the method alone."""
        usual = type(self)(method=self.method).values
        return {name: value for name, value in self.values.items() if value != usual[name]}

    def __str__(self) -> str:
        """Name in messages and progress bars."""
        stated, words = self.stated(), [self.dataset, self.method]
        if "encoder" in stated and (encoder := self.encoder_read):
            words.append(encoder.partition("@")[0])
        for name, one in known(type(self)).items():
            if one.setting.symbol and (name in stated or name == "beta"):
                value = getattr(self, name)
                shown = f"{value:g}" if isinstance(value, float) else value
                words += [] if value is None else [f"{one.setting.symbol}={shown}"]
        return " ".join([*words, self.protocol])


def _check_once(config: RunConfig) -> None:
    """Make the loss of a configuration, which refuses what means nothing; those of the same
    settings once.
    """
    own = (type(config), *(getattr(config, name) for name in of_part(type(config), "loss")))
    if own not in _CHECKED:
        config.loss()
        _CHECKED.add(own)


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


def is_own(name: str) -> bool:
    """Whether a setting names the user's own encoder or augmentation."""
    return OWN.fullmatch(name) is not None or is_pretrained(name)


def is_pretrained(name: str) -> bool:
    """Whether a setting names the file of a pre-trained encoder."""
    return PRETRAINED.fullmatch(name) is not None


def defaults(config: type[RunConfig]) -> dict[str, Any]:
    """Settings of a class of configurations with their declared defaults."""
    return {name: one.default for name, one in known(config).items()}


def flag(name: str) -> str:
    """Spelling of a setting on the command line."""
    return name.replace("_", "-")


OWN = re.compile(r"(?!(?:torchvision|timm):)[\w.<>]+(:[\w.<>]+|(:[\w.<>]+)?@[0-9a-f]+)")
"""Names of the user's own parts: ``module:Name``, and ``Name@digest`` once they are known."""
PRETRAINED = re.compile(r"[^@]*[^@/]\.(pt|safetensors)(@[0-9a-f]+)?")
"""Files of pre-trained encoders: ``FILE.pt`` or ``FILE.safetensors``, and ``NAME.pt@digest`` once
they are known."""
