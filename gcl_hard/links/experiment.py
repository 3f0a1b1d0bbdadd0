"""Experiments on links: a model of facts, and the ranks of right answers among all entities."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gcl_hard.core.ids import text_array
from gcl_hard.errors import DivergenceError, InputError, calling_own
from gcl_hard.evaluation.ranking import AnswerRanks, filtered_ranks, mean_reciprocal_rank
from gcl_hard.experiments import hardware
from gcl_hard.experiments.custom import own_part
from gcl_hard.experiments.experiment import (
    ENCODERS,
    Experiment,
    Parts,
    Report,
    RunContext,
    TrainedRun,
    refuse_together,
    seeded_weights,
)
from gcl_hard.experiments.record import Scored, Tested
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.training import Training
from gcl_hard.files.locating import members
from gcl_hard.files.tables import is_table
from gcl_hard.links import PARTS, Part, canonical_name
from gcl_hard.links.asking import answered
from gcl_hard.links.data import KINDS, LinkSet, Queries
from gcl_hard.links.files import load_links, locate
from gcl_hard.links.models import (
    RGCN,
    SCORERS,
    Entities,
    LinkContrast,
    Scorer,
    check_scorer,
    scores_of,
)
from gcl_hard.links.reversed_facts import reversals
from gcl_hard.links.settings import (
    COUNTED,
    FREQUENCY,
    REVERSAL,
    RGCN_BLOCKS,
    SCORED,
    UNTRAINED,
    LinkConfig,
)
from gcl_hard.links.tables import Columns, read_questions
from gcl_hard.models import evaluating
from gcl_hard.training.stopping import EarlyStopping

SCORES, SCORES_ON_GPU = 2**20, 2**26
"""Number of scores of queries with all entities at a time; on a CPU they fit into its cache."""
SEEN = 0.5
"""Share of the training facts of two relations that makes them reversals."""


class LinkExperiment(Experiment[LinkConfig, LinkSet]):
    """Experiments on links; methods as in ``Experiment``."""

    item: ClassVar[str] = "question"
    unit: ClassVar[str] = "fact"
    beside: ClassVar[Mapping[str, tuple[str, ...]]] = {"mrr": ("hits1", "hits3", "hits10")}
    methods: ClassVar[tuple[str, ...]] = SCORED
    options: ClassVar[frozenset[str]] = frozenset({"save_encoder"})
    shape: ClassVar[frozenset[str]] = frozenset({"entities", "relations", *PARTS})
    usual_baselines: ClassVar[tuple[str, ...]] = (FREQUENCY, UNTRAINED)
    has_validation: ClassVar[bool] = True
    chooses_once: ClassVar[bool] = True
    quick: ClassVar[Mapping[str, Any]] = {"seeds": (0, 1), "epochs": (1,), "beta": (1.0,)}

    def load(
        self, config: LinkConfig, context: RunContext, user_data: LinkSet | None = None
    ) -> LinkSet:
        """The facts, on the device."""
        data = user_data or load_links(
            config.dataset, data_dir=context.data_dir, columns=config.columns,
            shares=config.shares, split_seed=config.split_seed,
        )  # fmt: skip
        return data.to(torch.device(context.device))

    def search_caution(self, config: LinkConfig) -> str | None:
        """Validation ranks do not know the test facts."""
        return (
            "inner ranks count test facts as wrong answers, outer ranks leave them out: the two "
            "scores do not compare"
        )

    def facts(self, data: LinkSet) -> dict[str, Any]:
        """Sizes, and a digest."""
        return {
            "n_entities": data.n_entities,
            "n_relations": data.n_relations,
            "n_train": len(data.train),
            "n_valid": len(data.valid),
            "n_test": 2 * len(data.test),
            "digest": data.digest,
            **({"notes": list(data.notes)} if data.notes else {}),
        }

    def canonical_dataset(self, config: LinkConfig) -> str:
        """As :func:`gcl_hard.links.canonical_name`."""
        return canonical_name(config.dataset)

    def files(self, config: LinkConfig, data_dir: Path | None) -> list[Path]:
        """The archive of a set, or its three files."""
        return members(locate(config.dataset, data_dir=data_dir), "*.txt")

    def searches_on_test(self, config: LinkConfig) -> bool:
        """Never: settings are chosen by the ranks of validation facts."""
        return False

    def unit_values(self, values: NDArray[Any]) -> NDArray[Any]:
        """The mean of the two questions of each fact."""
        return values.reshape(2, -1).mean(0)

    def metrics(self, config: LinkConfig, data: LinkSet) -> tuple[str, ...]:
        """MRR, which chooses settings, other metrics, and the MRR of each kind of questions."""
        kinds = torch.unique(data.kinds[data.queries("test").relation]).tolist()
        of_kinds = (f"mrr_{KINDS[kind]}" for kind in kinds)
        return ("mrr", "hits1", "hits3", "hits10", "amri", *of_kinds)

    def size(self, data: LinkSet) -> tuple[int, int]:
        """Training queries, and the scores of test queries in thousands."""
        return 2 * len(data.train), 2 * len(data.test) * data.n_entities // 1000

    def check(self, config: LinkConfig, data: LinkSet, context: RunContext, *, inner: bool) -> None:
        """Refuse sets without facts to choose by or to test on, and models that fail."""
        refuse_together(context, "links")
        needs: dict[Part, bool] = {"valid": inner or config.patience > 0, "test": not inner}
        for part, needed in needs.items():
            if needed and not len(data.part(part)):
                raise InputError(
                    f"{config.dataset} has no fact in {part}{'.txt' * (not is_table(data.name))}"
                    + (", by which settings and epochs are chosen" if part == "valid" else "")
                )
        if own_part(config.encoder, context.parts) is not None:
            _check_own_model(config, data, context.parts)

    def train_run(self, run: Run, data: LinkSet, context: RunContext, report: Report) -> TrainedRun:
        """Train the model of a run."""
        hardware.use_threads(context.threads, 1e6, 1, context.cores)
        config = cast("LinkConfig", run.config)
        if config.method in COUNTED:
            return TrainedRun(run)
        with seeded_weights(run.seed, 0) as seed:
            scorer = new_scorer(config, data, context.parts).to(data.train.device)
        training = Training(
            run, context, report, n_batches=math.ceil(2 * len(data.train) / config.batch_size)
        )
        losses: list[float] = []
        facts: dict[str, Any] = {}
        if not config.is_baseline:
            model = new_model(config, data, scorer, seed)
            stopping = None
            if config.patience:
                stopping = EarlyStopping(
                    scorer, lambda: mean_reciprocal_rank(ranks(scorer, data, "valid")),
                    patience=config.patience,
                )  # fmt: skip
            try:
                losses = training.train(
                    model, data.batches(config.batch_size, seed=run.seed), config.optimisation(),
                    device=data.train.device, seed=seed, stopping=stopping,
                )  # fmt: skip
            except DivergenceError as error:
                return TrainedRun(run, error=error)
            if stopping is not None:
                facts["best_epoch"] = stopping.best_epoch
        training.clock.train()
        encoders = None
        if ENCODERS in context.saves(run):
            state = {name: weight.cpu().clone() for name, weight in scorer.state_dict().items()}
            encoders = {"encoders": [state], "config": asdict(config), "seed": run.seed}
            encoders |= self.file_facts(data)
        return TrainedRun(
            run, tuple(losses[-1:]), *training.clock.seconds, embeddings=scorer, facts=facts,
            encoders=encoders,
        )  # fmt: skip

    def file_facts(self, data: LinkSet) -> dict[str, Any]:
        """The facts of the parts, int64 [n, 3], and the names, for a model's file."""
        parts: dict[str, Any] = {part: data.part(part).cpu() for part in PARTS}
        return {**parts, "entities": [*data.entities], "relations": [*data.relations]}

    def kept_model(self, encoder: Any, saved: Mapping[str, Any]) -> LinkContrast:
        """The model of a scorer and of the facts in its file."""
        return new_model(saved["config"], links_of(saved), encoder, int(saved.get("seed", 0)))

    def answers(
        self, model: Any, questions: Any, *, columns: Columns, k: int, known: bool
    ) -> Iterator[dict[str, NDArray[Any]]]:
        """The k best answers to the questions of a table."""
        return answered(model, read_questions(questions, columns), k, known)

    def new_encoder(
        self, config: LinkConfig, saved: Mapping[str, Any], parts: Parts | None
    ) -> nn.Module:
        """A new scorer of the entities and relations of a file."""
        return new_scorer(config, links_of(saved), parts)

    def score(self, trained: TrainedRun, data: LinkSet, context: RunContext) -> Scored:
        """The ranks of right answers, and the MRR of validation facts."""
        hardware.use_threads(context.threads, 1e6, 1, context.cores)
        scorer = trained.embeddings
        if scorer is None:
            scorer = Frequencies(data)
            if trained.run.config.method == REVERSAL:
                scorer = ReversedFacts(data, scorer)
        part: Part = "valid" if trained.run.inner else "test"
        wanted: tuple[Part, ...] = ("valid", part)
        of_part = {
            name: ranks(scorer, data, name)
            for name in dict.fromkeys(wanted) if len(data.part(name))
        }  # fmt: skip
        tested_ranks, kinds = of_part[part], data.kinds[data.queries(part).relation].cpu().numpy()
        tested = Tested(
            np.arange(len(tested_ranks.rank)), tested_ranks.candidates.cpu().numpy(),
            tested_ranks.rank.cpu().numpy(),
            {name: kinds == k for k, name in enumerate(KINDS)},
        )  # fmt: skip
        validation: tuple[float, ...] = ()
        if not trained.run.inner and "valid" in of_part:
            validation = (100 * mean_reciprocal_rank(of_part["valid"]),)
        return Scored((tested,), validation=validation, facts=trained.facts)

    def arrays(self, trained: TrainedRun, data: LinkSet) -> dict[str, NDArray[Any]]:
        """``embeddings`` float32 [E, d] of entities, ``relations`` [2 R, d], and their names,
        ``entity_names`` and ``relation_names``, as :func:`gcl_hard.core.ids.text_array` makes them.
        """
        scorer = trained.embeddings
        with torch.no_grad():
            arrays = {"embeddings": scorer.candidates().cpu().numpy()}
            arrays["relations"] = scorer.relations.weight.cpu().numpy()
        names = {"entity_names": data.entities, "relation_names": data.relations}
        return {**arrays, **{name: text_array(words) for name, words in names.items()}}


def links_of(saved: Mapping[str, Any]) -> LinkSet:
    """The facts in the file of a model, named as in the configuration."""
    train, valid, test = (saved[part] for part in PARTS)
    return LinkSet(
        train, valid, test, tuple(saved["entities"]), tuple(saved["relations"]),
        saved["config"].dataset,
    )  # fmt: skip


def new_scorer(config: LinkConfig, data: LinkSet, parts: Parts | None) -> Any:
    """A new model of a configuration: one of ours, or of the user's own."""
    bias, make = config.bias or 0.0, own_part(config.encoder, parts)
    if make is not None:
        return make(data.n_entities, data.n_relations, config.dim, bias=bias)
    if config.encoder == "rgcn":
        return RGCN(data, config.dim, layers=config.layers or 1, blocks=RGCN_BLOCKS, bias=bias)
    kind = SCORERS[config.encoder]
    return kind(data.n_entities, data.n_relations, config.dim, bias=bias, sparse=config.sparse)


def new_model(config: LinkConfig, data: LinkSet, scorer: Any, seed: int) -> LinkContrast:
    """The model that trains a scorer."""
    pool: Literal["batch", "all"] = "batch" if config.candidate_pool == "batch" else "all"
    return LinkContrast(
        scorer, data, loss=config.loss(seed), candidates=config.candidates or pool,
        rare=config.rare, n3=config.n3, seed=seed,
    )  # fmt: skip


def ranks(scorer: Any, data: LinkSet, part: Part) -> AnswerRanks:
    """Filtered ranks of the right answers of a part, tails first, then heads.

    Ranks of validation facts leave out only training and validation facts.

    Args:
        scorer: a model, or a function from queries to their scores with all entities, [B, E].
        data: the facts.
        part: its name.
    """
    if isinstance(scorer, Scorer):
        with evaluating(scorer), scorer.encoding():
            return _ranks(partial(Entities(scorer).scores, ranked=True), data, part)
    return _ranks(scorer, data, part)


def _ranks(score: Callable[[Queries], Tensor], data: LinkSet, part: Part) -> AnswerRanks:
    size = SCORES if data.train.device.type == "cpu" else SCORES_ON_GPU
    of_batches = []
    for batch in data.queries(part).split(max(1, size // data.n_entities)):
        known = data.facts_until(part).pairs(data.key(batch))
        of_batches.append(filtered_ranks(score(batch), batch.answer, known))
    return AnswerRanks.joined(of_batches)


def _check_own_model(config: LinkConfig, data: LinkSet, parts: Parts | None) -> None:
    """Check the user's own model on two queries, before anything is trained."""
    asked = data.queries("train").at(slice(2))
    call = f"{config.encoder} fails on {asked.number} queries"
    with torch.random.fork_rng(devices=[]), calling_own(call):
        scorer = new_scorer(config, data, parts).to(data.train.device)
        check_scorer(scorer, data)
        shape = scores_of(scorer, asked).shape
        if shape != (asked.number, data.n_entities):
            raise InputError(f"{config.encoder} scores {data.n_entities} entities as {[*shape]}")
        if not config.is_baseline:
            new_model(config, data, scorer, 0)(asked).backward()


class Frequencies:
    """Scores by how often an entity answers a relation in training, then by how often any.

    Args:
        data: the facts; their pairs of relation and answer are counted.
    """

    def __init__(self, data: LinkSet) -> None:
        known, n = data.queries("train"), data.n_entities
        pairs, counts = torch.unique(known.relation * n + known.answer, return_counts=True)
        of_relation = torch.bincount(pairs // n, minlength=2 * data.n_relations)
        self.starts = [0, *of_relation.cumsum(0).tolist()]
        self.answers, self.counts = pairs % n, counts.float()
        every = torch.bincount(known.answer, minlength=n).float()
        self.every = every / (every.max() + 1)

    def __call__(self, queries: Queries) -> Tensor:
        """Scores of queries with all entities, [B, E]."""
        scores = self.every.repeat(queries.number, 1)
        for row, relation in enumerate(queries.relation.tolist()):
            part = slice(self.starts[relation], self.starts[relation + 1])
            scores[row, self.answers[part]] += self.counts[part]
        return scores


class ReversedFacts:
    """Scores first the answers of reversed training facts, then others; both by frequency.

    Relations are compared by training facts alone. Half of these must have their reverse among
    them: if 60 % of the facts of a symmetric relation are drawn, 60 % of these have theirs.

    Args:
        data: the facts.
        frequencies: scores by frequency in the same facts.
    """

    def __init__(self, data: LinkSet, frequencies: Frequencies) -> None:
        self.data, self.frequencies = data, frequencies
        n, self.back = data.n_relations, defaultdict[int, list[int]](list)
        pairs = reversals(data.train, data.n_entities, n, SEEN)
        for r, back in zip(*(part.tolist() for part in pairs), strict=True):
            self.back[r].append(back + n)  # (h, r, t) answers as (t, back, h) does
            self.back[r + n].append(back)

    def __call__(self, queries: Queries) -> Tensor:
        """Scores of queries with all entities, [B, E]."""
        scores = self.frequencies(queries)
        first = 1 + self.frequencies.counts.max()
        for relation in self.back.keys() & {*queries.relation.tolist()}:
            rows = (queries.relation == relation).nonzero()[:, 0]
            for back in self.back[relation]:
                asked = queries.at(rows)._replace(relation=torch.full_like(rows, back))
                of_rows, answers = self.data.training_facts.pairs(self.data.key(asked))
                scores[rows[of_rows], answers] += first
        return scores


EXPERIMENT = LinkExperiment
