"""Settings of experiments on links: facts between entities, and the ranks of right answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

from gcl_hard.core.setting import Setting
from gcl_hard.errors import InputError
from gcl_hard.evaluation.checks import checked_shares
from gcl_hard.experiments.settings import (
    BATCH_SIZE,
    EPOCHS,
    ConfigHead,
    Domain,
    RunConfig,
    Values,
    is_own,
    method_setting,
)
from gcl_hard.files.tables import is_table
from gcl_hard.functional.hardness import ScoredScale
from gcl_hard.functional.objectives import Objective
from gcl_hard.losses.loss import ContrastiveLoss
from gcl_hard.losses.methods import METHODS
from gcl_hard.training.loop import Optimisation, sparse_adam

FREQUENCY, REVERSAL, UNTRAINED = "frequency", "reversal", "untrained"
COUNTED = (FREQUENCY, REVERSAL)
"""Baselines that rank answers by their frequency with the relation in training; reversal ranks
those of reversed training facts first."""
LINK_BASELINES = (*COUNTED, UNTRAINED)
"""These, and an untrained model."""
SCORED = ("ucl", "hucl", "scl", "hscl")
_REFUSED = {
    name: "is not defined for scores without bounds, or needs embeddings"
    for name in METHODS
    if name not in SCORED
}
LinkProtocol = Literal["split"]
CandidatePool = Literal["uniform", "batch", "all"]
DISTANCES = ("transe", "rotate")
SPARSE = ("distmult", "complex", "transe", "rotate")
LINK_MODELS = (*SPARSE, "rgcn")
RGCN_BLOCKS = 4
"""Blocks of the weights of an R-GCN."""


def _is_jsd(above: Values) -> bool:
    return bool(above["objective"] == "jsd")


def _is_table(above: Values) -> bool:
    return is_table(above["dataset"])


def _bias(above: Values) -> float:
    """Initial bias of a score: most candidates are wrong, and distances are below 0."""
    return 6.0 if above["encoder"] in DISTANCES else -3.0


@dataclass(frozen=True)
class LinkLoss(ConfigHead):
    """What the scores are: it decides defaults of the settings of losses."""

    objective: Annotated[Objective, Setting("infonce, or jsd, the logistic loss")] = "infonce"
    hardness_scale: Annotated[ScoredScale | None, Setting(
        "what β sees under jsd: score, rank or anchor",
        several=True, applies=_is_jsd, usual=lambda above: "score",
    )] = None  # fmt: skip


@dataclass(frozen=True)
class LinkConfig(RunConfig, LinkLoss):
    """The settings of an experiment on links.

    A model of entities and relations is trained on the training facts, contrasting the answer of
    each query with candidates. It is scored by the filtered ranks of the right heads and tails of
    test facts.

    Raises:
        InputError: for a value out of range, an unknown name, or a meaningless
            combination; before anything is loaded or written.

    Example:
        >>> LinkConfig("UMLS", "hucl").temperature, LinkConfig("UMLS", "hucl", objective="jsd").bias
        (2.0, -3.0)
    """

    baselines: ClassVar[tuple[str, ...]] = LINK_BASELINES
    domain: ClassVar[Domain] = "links"

    dataset: Annotated[str, Setting(
        "FB15k-237, …, a folder of triples, or a table, facts.csv",
        "data", common=True, several=True,
    )] = "FB15k-237"  # fmt: skip
    method: Annotated[str, method_setting(LINK_BASELINES, items="links", refused=_REFUSED)] = "hscl"
    protocol: Annotated[LinkProtocol, Setting("split, tested once", "split", several=True)] = (
        "split"
    )
    encoder: Annotated[str, Setting(
        "distmult, complex, transe, rotate, rgcn, or module:Name",
        "encoder", custom=True, several=True, common=True, read_by=(UNTRAINED,),
    )] = "distmult"  # fmt: skip
    dim: Annotated[
        int, Setting("width of the vectors of entities and relations", "encoder", least=1,
                     read_by=(UNTRAINED,))
    ] = 64  # fmt: skip
    layers: Annotated[int | None, Setting(
        "convolutions of rgcn over the training facts",
        "encoder", least=1, read_by=(UNTRAINED,), usual=lambda above: 1,
        applies=lambda above: bool(above["encoder"] == "rgcn"),
    )] = None  # fmt: skip
    bias: Annotated[float | None, Setting(
        "added to every score (jsd: -3; transe, rotate: 6, their margin)",
        "encoder", symbol="b", several=True, chosen=True, applies=_is_jsd, usual=_bias,
        space=(-8.0, 8.0),
    )] = None  # fmt: skip
    temperature: Annotated[float | None, Setting(
        "γ of infonce, which divides scores",
        above=0, symbol="γ", title="temperature", several=True, chosen=True,
        applies=lambda above: not _is_jsd(above), usual=lambda above: 2.0, space=(0.5, 16.0, "log"),
    )] = None  # fmt: skip
    candidate_pool: Annotated[
        CandidatePool, Setting("uniform, batch (its answers) or all", "training")
    ] = "uniform"
    candidates: Annotated[int | None, Setting(
        "entities drawn uniformly in a step, shared by its queries",
        "training", least=1, symbol="K", title="candidates", several=True, chosen=True,
        applies=lambda above: above["candidate_pool"] == "uniform", usual=lambda above: 512,
        space=(64, 4096, "log"),
    )] = None  # fmt: skip
    rare: Annotated[
        bool, Setting("weigh queries with few known facts more, as RotatE's code does", "training")
    ] = False
    n3: Annotated[float, Setting(
        "λ of the regulariser λ Σ|x|³ of the vectors of a fact",
        "training", least=0, symbol="λ", title="N3 λ", several=True, chosen=True,
        space=(1e-4, 0.1, "log"),
    )] = 0.0  # fmt: skip
    batch_size: Annotated[int, replace(BATCH_SIZE, help="queries in a batch")] = 512
    epochs: Annotated[int, EPOCHS] = 10
    patience: Annotated[int, Setting(
        "epochs without a better MRR of validation facts that end a run; 0: never",
        "training", least=0,
    )] = 0  # fmt: skip
    sparse: Annotated[
        bool, Setting("update no vectors but those of a batch (SparseAdam)", "training")
    ] = False
    columns: Annotated[tuple[str, ...] | None, Setting(
        "of a table: HEAD,RELATION,TAIL, and perhaps PART, if their names do not say it",
        "data", common=True, read_by=LINK_BASELINES, applies=_is_table,
    )] = None  # fmt: skip
    shares: Annotated[tuple[float, ...] | None, Setting(
        "of a table: shares of training, validation, testing (0.8,0.1,0.1, or its column of parts)",
        "data", common=True, read_by=LINK_BASELINES, applies=_is_table,
        canonical=lambda shares, above: checked_shares("shares", shares),
    )] = None  # fmt: skip
    split_seed: Annotated[int, Setting(
        "seed of the split of a table", "data", least=0, read_by=LINK_BASELINES, applies=_is_table
    )] = 0  # fmt: skip

    def check(self) -> None:
        """Refuse meaningless combinations."""
        if self.encoder not in LINK_MODELS and not is_own(self.encoder):
            raise InputError(
                f"encoder is {', '.join(LINK_MODELS)} or your own module:Name, with the module in "
                f"the working folder or installed, got {self.encoder!r}"
            )
        divisor = {"complex": 2, "rotate": 2, "rgcn": RGCN_BLOCKS}.get(self.encoder, 1)
        if self.dim % divisor:
            raise InputError(f"dim of {self.encoder} is a multiple of {divisor}, got {self.dim}")
        if self.sparse and (self.candidate_pool == "all" or self.encoder not in SPARSE):
            raise InputError(
                f"sparse updates the vectors of a batch alone, of encoders {', '.join(SPARSE)} and "
                f"not with candidate-pool all: got {self.encoder}, {self.candidate_pool}"
            )
        if self.sparse and self.weight_decay:
            raise InputError("sparse updates go without weight-decay: leave one of them out")

    def optimisation(self) -> Optimisation:
        """How the model is optimised."""
        usual = super().optimisation()
        return replace(usual, optimizer=sparse_adam) if self.sparse else usual

    @property
    def reads_labels(self) -> bool:
        """Never: known facts are training facts, and no labels are read."""
        return False

    @property
    def is_deterministic(self) -> bool:
        """Whether every seed gives the same scores."""
        return self.method in COUNTED

    def loss(self, seed: int = 0, **options: Any) -> ContrastiveLoss:
        """A new loss of scores with these settings."""
        if self.hardness_scale is not None:
            options["hardness_scale"] = self.hardness_scale
        return super().loss(seed, positives="view", objective=self.objective, **options)


CONFIG = LinkConfig
