"""Experiments on links: a model of facts, and the ranks of right answers among all entities."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.errors import DivergenceError
from gcl_hard.evaluation.ranking import AnswerRanks, filtered_ranks, mean_reciprocal_rank
from gcl_hard.graphs.link_files import load_links
from gcl_hard.graphs.link_models import SCORERS, LinkContrast, Scorer, scores_of
from gcl_hard.graphs.links import LinkSet, Part, Queries
from gcl_hard.runs import hardware
from gcl_hard.runs.experiment import (
    Clock,
    Experiment,
    Report,
    RunContext,
    TrainedRun,
    refuse_together,
    seeded_weights,
)
from gcl_hard.runs.plan import Run
from gcl_hard.runs.record import Scored, Tested
from gcl_hard.settings.links import FREQUENCY, LinkConfig
from gcl_hard.training.loop import train

SCORES, SCORES_ON_GPU = 2**20, 2**26
"""Scores of queries with all entities at a time; on a CPU as many as its cache holds."""


class LinkExperiment(Experiment[LinkConfig, LinkSet]):
    """Experiments on links; methods as in ``Experiment``."""

    def load(self, config: LinkConfig, context: RunContext, own: LinkSet | None = None) -> LinkSet:
        """The facts, on the device."""
        found = own or load_links(config.dataset, data_dir=context.data_dir)
        return found.to(torch.device(context.device))

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

    def metrics(self, config: LinkConfig, data: LinkSet) -> tuple[str, ...]:
        """MRR first, by which settings are chosen."""
        return ("mrr", "hits1", "hits3", "hits10", "amri")

    def size(self, data: LinkSet) -> tuple[int, int]:
        """Training queries, and the scores of test queries in thousands."""
        return 2 * len(data.train), 2 * len(data.test) * data.n_entities // 1000

    def check(self, config: LinkConfig, data: LinkSet, context: RunContext, *, inner: bool) -> None:
        """Refuse sets without facts to choose by or to test on."""
        refuse_together(context, "links")

    def train_run(self, run: Run, data: LinkSet, context: RunContext, report: Report) -> TrainedRun:
        """Train the model of a run."""
        hardware.use_threads(context.threads, 1e6, 1, context.cores)
        config, clock = cast("LinkConfig", run.config), Clock()
        if config.method == FREQUENCY:
            return TrainedRun(run)
        with seeded_weights(run.seed, 0) as seed:
            scorer = new_scorer(config, data).to(data.train.device)
        losses: list[float] = []
        if not config.is_baseline:
            model = LinkContrast(
                scorer, data, loss=config.loss(seed), candidates=config.candidates or None,
                n3=config.n3, seed=seed,
            )  # fmt: skip

            def on_epoch(epoch: int, loss: float) -> None:
                if not report(run, epoch / config.epochs, loss):
                    raise KeyboardInterrupt

            try:
                losses = train(
                    model, data.batches(config.batch_size, seed=run.seed), config.optimisation(),
                    device=data.train.device, setting=str(run), on_epoch=on_epoch,
                )  # fmt: skip
            except DivergenceError as error:
                return TrainedRun(run, error=error)
        clock.train()
        return TrainedRun(run, tuple(losses[-1:]), *clock.seconds, embeddings=scorer)

    def score(self, trained: TrainedRun, data: LinkSet, context: RunContext) -> Scored:
        """The ranks of right answers, and the MRR of those of validation facts."""
        hardware.use_threads(context.threads, 1e6, 1, context.cores)
        if trained.embeddings is None:
            score = partial(_by_frequency, _frequencies(data))
        else:
            score = partial(scores_of, trained.embeddings)
        part: Part = "valid" if trained.run.inner else "test"
        wanted: tuple[Part, ...] = ("valid", part)
        of_part = {name: ranks(score, data, name) for name in dict.fromkeys(wanted)}
        found = of_part[part]
        tested = Tested(
            np.arange(len(found.rank)), found.candidates.cpu().numpy(), found.rank.cpu().numpy()
        )
        chosen_by = mean_reciprocal_rank(of_part["valid"])
        return Scored((tested,), validation=() if trained.run.inner else (chosen_by,))

    def arrays(self, trained: TrainedRun, data: LinkSet) -> dict[str, NDArray[Any]]:
        """``embeddings`` float32 [E, d] of entities, ``relations`` [2 R, d], and their names."""
        scorer: Scorer = trained.embeddings
        return {
            "embeddings": scorer.entities.weight.detach().cpu().numpy(),
            "relations": scorer.relations.weight.detach().cpu().numpy(),
            "entity_names": np.array(data.entities), "relation_names": np.array(data.relations),
        }  # fmt: skip


def new_scorer(config: LinkConfig, data: LinkSet) -> Scorer:
    """A new model of a configuration."""
    made = SCORERS[config.encoder]
    return made(data.n_entities, data.n_relations, config.dim, bias=config.bias or 0.0)


def ranks(score: Any, data: LinkSet, part: Part) -> AnswerRanks:
    """Filtered ranks of the right answers of a part, tails first, then heads.

    Args:
        score: from queries to their scores with all entities, float [B, E].
        data: the facts.
        part: its name.
    """
    found = []
    size = SCORES if data.train.device.type == "cpu" else SCORES_ON_GPU
    for batch in data.queries(part).split(max(1, size // data.n_entities)):
        known = data.all_facts.pairs(data.key(batch))
        found.append(filtered_ranks(score(batch), batch.answer, known))
    return AnswerRanks.joined(found)


def _frequencies(data: LinkSet) -> Tensor:
    """How often each entity answers each relation in training, float [2 R, E]."""
    known = data.queries("train")
    shape, device = (2 * data.n_relations, data.n_entities), known.answer.device
    counts = torch.zeros(shape, device=device)
    ones = torch.ones(known.number, device=device)
    counts.index_put_((known.relation, known.answer), ones, accumulate=True)
    return counts


def _by_frequency(counts: Tensor, queries: Queries) -> Tensor:
    """How often each entity answers the query's relation in training, then how often any."""
    every = counts.sum(0)
    return counts[queries.relation] + every / (every.max() + 1)
