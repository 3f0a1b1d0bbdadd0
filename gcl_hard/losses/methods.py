"""The table of methods: admission, hardening, positives and debiasing of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, Unpack, cast

from gcl_hard.core.setting import Field, declared, joined
from gcl_hard.errors import InputError, check_option, unknown
from gcl_hard.functional.hardening import Exponential, Hardening, Threshold
from gcl_hard.functional.hardness import DEFAULT_SCALE, EmbeddedScale, bounded
from gcl_hard.functional.mixture import MixturePosterior
from gcl_hard.functional.pool import HardPositives
from gcl_hard.functional.rowwise import RankPosterior, RelativeThreshold, Ring, Transport
from gcl_hard.functional.schedules import Linear, Schedule
from gcl_hard.losses.keywords import LossOptions, OwnOptions
from gcl_hard.losses.loss import ContrastiveLoss, Positives
from gcl_hard.losses.sampling import Admission, NegativeSampler
from gcl_hard.losses.synthetic import AdversarialNegatives, HardMixing, SyntheticNegatives

HardeningKind = Literal[
    "exponential", "threshold", "rank-posterior", "mixture-posterior", "relative", "ring",
    "transport",
]  # fmt: skip
SyntheticKind = Literal["mixing", "adversarial"]
Part = TypeVar("Part")


@dataclass(frozen=True)
class Method:
    """A method, a row of the table.

    Args:
        name: its name, also on the command line.
        admit: which candidates may be negatives.
        hardening: kind of hardening function, None for none.
        positives: positives of views; the positive of a node is always its own graph.
        debias: whether the class prior corrects for false negatives.
        source: its source.
        synthetic: kind of synthetic negatives, None for none.
        pooled: whether positives are summed inside the logarithm and negatives without a mean,
            as in SPACL's objective.
    """

    name: str
    admit: Admission
    hardening: HardeningKind | None
    positives: Positives
    debias: bool
    source: str
    synthetic: SyntheticKind | None = None
    pooled: bool = False

    @property
    def label_aware(self) -> bool:
        """Whether training reads labels."""
        return self.admit == "other_labels" or self.positives == "class"

    @property
    def takes_prior(self) -> bool:
        """Whether it has a class prior."""
        return self.debias or self.hardening == "rank-posterior"

    @property
    def own_settings(self) -> dict[str, Field]:
        """Its own settings by name, as its parts declare them; see :func:`contrastive_loss`."""
        pooled = [HardPositives] if self.positives == "hard" else []
        hardening = [HARDENINGS[self.hardening]] if self.hardening else []
        synthetic = [SYNTHETIC[self.synthetic]] if self.synthetic else []
        return joined(*map(declared, [*hardening, *pooled, *synthetic]))

    @property
    def settings(self) -> dict[str, Any]:
        """The defaults of its own settings."""
        return {name: field.default for name, field in self.own_settings.items()}

    @property
    def hardness_scale(self) -> EmbeddedScale:
        """What its hardening sees under JSD by default."""
        return "cosine" if self.hardening == "mixture-posterior" else DEFAULT_SCALE

    @property
    def infonce_only(self) -> bool:
        """Whether it needs unit embeddings, that is views and InfoNCE."""
        return self.synthetic is not None or self.positives == "hard"


HARDENINGS: dict[HardeningKind, type[Hardening]] = {
    "exponential": Exponential,
    "threshold": Threshold,
    "rank-posterior": RankPosterior,
    "mixture-posterior": MixturePosterior,
    "relative": RelativeThreshold,
    "ring": Ring,
    "transport": Transport,
}
SYNTHETIC: dict[SyntheticKind, type[SyntheticNegatives]] = {
    "mixing": HardMixing, "adversarial": AdversarialNegatives,
}  # fmt: skip
"""Classes of a row's hardening and synthetic negatives by kind; each declares its settings."""

METHODS: dict[str, Method] = {
    row.name: row
    for row in (
        Method("ucl", "others", None, "view", False, "SimCLR, InfoGraph"),
        Method("dcl", "others", None, "view", True, "HCL with β = 0"),
        Method("hucl", "others", "exponential", "view", False, "H-UCL: HCL without debiasing"),
        Method("hcl", "others", "exponential", "view", True, "Robinson et al. (2021)"),
        Method("scl", "other_labels", None, "class", False, "SCL of the H-SCL paper"),
        Method("hscl", "other_labels", "exponential", "class", False, "H-SCL(β)"),
        Method("hscl-tau", "other_labels", "threshold", "class", False, "H-SCL(τ)"),
        Method("bcl", "others", "rank-posterior", "view", False, "BCL: Liu & Wang (2023)"),
        Method("progcl", "others", "mixture-posterior", "view", False, "ProGCL: Xia et al. (2022)"),
        Method("ring", "others", "ring", "view", False, "Wu et al. (2021)"),
        Method("ot", "others", "transport", "view", False, "Jiang, Ishwar & Aeron (2023)"),
        Method("mochi", "others", None, "view", False, "Kalantidis et al. (2020)", "mixing"),
        Method("spacl", "others", "relative", "hard", False, "SPACL", "adversarial", True),
        Method("spacl-sup", "other_labels", "relative", "hard", False, "SPACL with labels",
               "adversarial", True),
    )
}  # fmt: skip
"""Every method by name."""
SETTINGS = joined(*(row.own_settings for row in METHODS.values()))
"""Settings that only some methods have, by name."""

DEFAULT_BETA = 1.0
DEFAULT_CLASS_PRIOR = 0.1
DEFAULT_THRESHOLD = Linear(-0.5, 0.0)
"""Cosines."""
DEFAULT_DEVIATIONS = Linear(-1.0, 0.0)
"""Thresholds of a hardness in deviations; from 1 on they would leave most anchors empty."""
PARTS = ("anchor", "hard-positives", "adversarial", "filter")
"""Parts of SPACL that can be left out."""


def method(name: str) -> Method:
    """The method of a name, in upper or lower case.

    Args:
        name: one of ``METHODS``.

    Returns:
        The method.

    Raises:
        InputError: if there is no such method; offers the closest names.

    Example:
        >>> method("hscl").admit
        'other_labels'
    """
    if name.casefold() not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name.casefold()]


def contrastive_loss(
    name: str,
    *,
    beta: float | Schedule = DEFAULT_BETA,
    threshold: float | Schedule | None = None,
    class_prior: float | None = None,
    positives: Positives | HardPositives | None = None,
    without: Sequence[str] = (),
    seed: int = 0,
    **options: Unpack[OwnOptions],
) -> ContrastiveLoss:
    """The loss of a method.

    Args:
        name: one of ``METHODS``.
        beta: concentration β ≥ 0 of the exponential hardening, or a schedule; methods without that
            hardening do not read it.
        threshold: cosine l ≤ 1 of the threshold hardening, or a schedule. From −0.5 to 0 if None;
            under JSD with a hardness in deviations from −1 to 0 of these.
        class_prior: τ⁺ in [0, 1) of the debiased methods and of bcl, 0.1 if None; an error with
            other methods, but for those with labels of which ``unknown`` says that some lack.
        positives: ``"view"``, ``"class"`` or ``"hard"``; those of the method if None.
        without: parts of SPACL to leave out, of ``"anchor"`` (the first view is the anchor),
            ``"hard-positives"`` (the first of the other views are positives), ``"adversarial"``
            and ``"filter"``; an error with other methods.
        seed: seed of the synthetic negatives.
        options: settings of the method, if not its defaults (bcl: ``auc``, ``hardness``, see
            :class:`RankPosterior`; progcl: ``fit_after``, see :class:`MixturePosterior`; ring:
            ``ring_inner``, ``ring_outer``, where the ring closes from 1 to ``ring_outer``, see
            :class:`Ring`; ot: ``epsilon``, see :class:`Transport`; mochi: ``hardest``, ``mixed``,
            ``mixed_with_anchor``, see :class:`HardMixing`; spacl: ``quota``, see
            :class:`RelativeThreshold`, and ``hard_positives``, see :class:`HardPositives`), and
            further arguments of :class:`ContrastiveLoss`.

    Returns:
        The loss.

    Raises:
        InputError: for an unknown method or setting, one of another method, or values out of range.

    Example:
        >>> contrastive_loss("hucl", beta=2.0, temperature=0.5).sampler
        NegativeSampler(admit='others', hardening=Exponential(beta=2.0))
    """
    row, left_out = method(name), _parts(name, without)
    known = [*LossOptions.__annotations__, *SETTINGS]
    if wrong := [name for name in options if name not in known]:
        raise unknown("setting of a loss", wrong[0], ["beta", "threshold", "class_prior", *known])
    reads = {*row.settings, *["threshold"][: row.hardening == "threshold"]}
    if positives == "hard":
        reads.add("hard_positives")
    settings = {"threshold": threshold, **{k: v for k, v in options.items() if k in SETTINGS}}
    if other := [k for k, v in settings.items() if v is not None and k not in reads]:
        raise InputError(f"{name} has no {' and no '.join(other)}: leave it out")
    loss_options = cast("LossOptions", {k: v for k, v in options.items() if k not in SETTINGS})
    values: dict[str, Any] = dict(row.settings)
    values |= {k: v for k, v in options.items() if k in values and v is not None}
    if row.hardening == "threshold" and threshold is None:
        threshold = default_threshold(**loss_options)
    values |= {"beta": beta, "threshold": threshold}
    values["class_prior"] = DEFAULT_CLASS_PRIOR if class_prior is None else class_prior
    hardening, synthetic = row.hardening, row.synthetic
    if hardening == "rank-posterior":
        class_prior = None  # its own
    if hardening == "relative" and "filter" in left_out:
        hardening = None
    if synthetic == "adversarial" and "adversarial" in left_out:
        synthetic = None
    positives = positives or row.positives
    chosen = {*left_out} & {"anchor", "hard-positives"}
    if chosen and positives != "hard":
        raise InputError(f"without {', '.join(sorted(chosen))} has no meaning for {positives!r}")
    if positives == "hard":
        stated = options.get("hard_positives")
        number = row.settings.get("hard_positives", 2) if stated is None else stated
        positives = HardPositives(
            int(number or 0), dynamic_anchor="anchor" not in left_out,
            farthest="hard-positives" not in left_out,
        )  # fmt: skip
    if loss_options.get("objective") == "jsd":
        loss_options["hardness_scale"] = loss_options.get("hardness_scale") or row.hardness_scale
    if row.pooled:
        loss_options = {"pooling": "logsumexp", "weight": "kept", **loss_options}
    sampler = NegativeSampler(
        row.admit,
        _hardening(hardening, values) if hardening else None,
        synthetic=_built(SYNTHETIC[synthetic], values, seed=seed) if synthetic else None,
    )
    incomplete = loss_options.get("unknown") is not None
    prior = _class_prior(row, class_prior, incomplete=incomplete)
    loss = ContrastiveLoss(sampler, positives=positives, class_prior=prior, **loss_options)
    loss.method = row.name
    return loss


def _hardening(kind: HardeningKind, values: Mapping[str, Any]) -> Hardening:
    """The hardening of a kind, with schedules where it depends on the epoch."""
    scheduled: dict[HardeningKind, dict[str, Any]] = {
        "exponential": {"beta": values["beta"]},
        "threshold": {"cosine": values["threshold"]},
        "rank-posterior": {"class_prior": values["class_prior"]},
        "ring": {"outer": Linear(1.0, values["ring_outer"])} if kind == "ring" else {},
    }
    return _built(HARDENINGS[kind], values, **scheduled.get(kind, {}))


def _built(kind: Callable[..., Part], values: Mapping[str, Any], **other: Any) -> Part:
    """A part of a loss, built from the settings that it declares."""
    arguments = {field.argument: values[name] for name, field in declared(kind).items()}
    return kind(**arguments | other)


def _parts(name: str, without: Sequence[str]) -> Sequence[str]:
    """Parts to leave out, checked."""
    for part in without:
        check_option("part of SPACL", part, PARTS)
        if method(name).positives != "hard":
            raise InputError(f"without {part}: {name} has no such part, spacl has")
    return without


def default_threshold(**options: Unpack[LossOptions]) -> Linear:
    """Thresholds of a loss with these options, from the first epoch to the last.

    Example:
        >>> default_threshold(objective="jsd", hardness_scale="cosine")
        Linear(start=-0.5, end=0.0)
    """
    jsd = options.get("objective") == "jsd"
    relative = jsd and not bounded(options.get("hardness_scale") or DEFAULT_SCALE)
    return DEFAULT_DEVIATIONS if relative else DEFAULT_THRESHOLD


def _class_prior(row: Method, class_prior: float | None, *, incomplete: bool) -> float | None:
    if row.debias:
        return DEFAULT_CLASS_PRIOR if class_prior is None else class_prior
    if class_prior is None or (row.label_aware and incomplete):
        return class_prior
    others = ", ".join(m.name for m in METHODS.values() if m.takes_prior)
    kind = "label-aware " if row.label_aware else ""
    raise InputError(f"class prior {class_prior} with {kind}{row.name}: it is of {others}")
