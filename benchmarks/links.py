"""Link prediction: epochs and rankings beside PyKEEN's, and steps of a random graph by its size.

Run: python benchmarks/links.py [--parts epoch,ranking,sparse] [--data-dir DIR] [--repeats 3]
     [--out results.csv]

One thread; seconds are CPU time. Epoch: DistMult of 64 dimensions on FB15k-237, some steps of 512
queries (``STEPS``), scaled to the two queries of each training fact; on both sides facts with their
inverses, fused Adam, no regulariser.

- *512 candidates*: ours are drawn for a batch, PyKEEN's for each query; *shared* is a loop of a
  few lines around PyKEEN's model and loss, of negatives that 64 queries share. NSSA is the
  self-adversarial loss, that of hscl under JSD; there both leave out known facts, shared does not.
- *all entities*: LCWA joins the known answers of a query in one target, so that its own epoch has
  fewer queries; symmetric LCWA asks both questions of each fact, as ours does, and excludes no
  known fact.

PyKEEN gets its fastest number of queries at a time (``AT_A_TIME``); it takes 1.6 times as long with
the 512 negatives of all 512 queries at once, 4 times with all entities and 64.

Ranking: filtered ranks of all test facts, heads and tails, from the same integer vectors, so that
all ranks must be equal; PyKEEN at 4 facts a time, its fastest here (its default is 32). Sparse: a
step of DistMult of 32 dimensions, 512 queries and 512 candidates, 200,000 random facts, with
gradients and Adam of a batch's rows or of the whole table, and the memory that a fresh process adds
to its peak, optimiser included.

Without PyKEEN (``pip install pykeen``) its rows are left out.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import logging
import math
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from live_tensors import peak_resident
from nodes import alone
from pairs import T, Table, Values, ratios
from torch import Tensor, nn

from gcl_hard.evaluation.ranking import (
    AnswerRanks,
    adjusted_mean_rank_index,
    hits,
    mean_reciprocal_rank,
)
from gcl_hard.links import DistMult, LinkContrast, LinkSet, load_links
from gcl_hard.links.experiment import ranks
from gcl_hard.training.loop import Optimisation, adam_of, sparse_adam, train

DATASET, DIM, BATCH, CANDIDATES, LR = "FB15k-237", 64, 512, 512, 0.01
GAMMA, BIAS = 2.0, -3.0
METHODS: dict[str, dict[str, Any]] = {
    "ucl": {"method": "ucl", "temperature": GAMMA},
    "hucl": {"method": "hucl", "temperature": GAMMA},
    "hscl, jsd": {"method": "hscl", "objective": "jsd"},
}
STEPS = {"ours": 200, "ours, all": 20, "negatives": 8, "shared": 20, "all": 2}
"""Steps of a turn, scaled to an epoch."""
AT_A_TIME = {"negatives": 64, "shared": 64, "LCWA": 4, "symmetric LCWA": 2}
"""Queries (for symmetric LCWA facts) that PyKEEN takes at a time."""
FACTS_AT_A_TIME = 4
SIZES, RELATIONS, FACTS, SPARSE_DIM = (15_000, 150_000, 1_500_000, 5_000_000), 10, 200_000, 32
WARM_STEPS, TIMED_STEPS = 3, 10
MEMORY, TABLES = 8e9, 7
"""Adam of whole tables is skipped if this many of them would exceed that memory: weights, two
moments, the gradient and those of the three look-ups that it sums."""


def timed(call: Callable[[], T]) -> tuple[float, T]:
    """CPU seconds of a call, and its result."""
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def take_turns(contenders: Mapping[str, Callable[[], None]], rounds: int) -> Values:
    """CPU seconds of every contender, A B A B …, after a round that is not timed."""
    seconds: Values = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, call in contenders.items():
            spent, _ = timed(call)
            if number:
                seconds[name].append(spent)
    return seconds


def peer() -> Any:
    """PyKEEN, or None without it."""
    try:
        with warnings.catch_warnings(action="ignore"):
            import pykeen.evaluation
            import pykeen.losses
            import pykeen.models
            import pykeen.training.lcwa
            import pykeen.triples
            import pykeen.version
    except ImportError as error:
        print(f"without PyKEEN: {error}")
        return None
    for name in ("pykeen", "torch_max_mem"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="pykeen|torch.utils.data")
    return pykeen


def new_model(links: LinkSet, candidates: Any, options: dict[str, Any]) -> LinkContrast:
    """Our model; the same weights at every call."""
    torch.manual_seed(0)
    bias = BIAS if options.get("objective") == "jsd" else 0.0
    scorer = DistMult(links.n_entities, links.n_relations, DIM, bias=bias)
    return LinkContrast(scorer, links, candidates=candidates, **options)


def ours(model: LinkContrast, links: LinkSet, steps: int | None) -> Callable[[], None]:
    """Our training, some steps of an epoch or all."""
    epoch_batches = links.batches(BATCH)

    def turn() -> None:
        train(
            model,
            lambda epoch: itertools.islice(epoch_batches(epoch), steps),
            Optimisation(1, lr=LR),
        )

    return turn


def losses_of(pykeen: Any) -> dict[str, Any]:
    """PyKEEN's losses with our settings."""
    return {
        "InfoNCE": pykeen.losses.InfoNCELoss(0.0, log_adversarial_temperature=math.log(GAMMA)),
        "NSSA": pykeen.losses.NSSALoss(BIAS, adversarial_temperature=1.0),
    }


def check_losses(pykeen: Any, links: LinkSet) -> None:
    """Check that the losses are the same; ours under JSD is twice the other, less 2 log 2."""
    batch = links.queries("train").at(slice(64))
    labels = nn.functional.one_hot(batch.answer, links.n_entities).float()
    jsd = {"method": "hucl", "objective": "jsd"}  # hscl's where no other fact is known
    cases = (METHODS["ucl"], 1, 0.0), (jsd, 2, 2 * math.log(2))
    for loss, (options, factor, less) in zip(losses_of(pykeen).values(), cases, strict=True):
        model = new_model(links, "all", options)
        scores = model.scores(batch) - model.scorer.bias
        other = factor * loss.process_lcwa_scores(scores, labels) - less
        torch.testing.assert_close(model(batch), other, rtol=1e-5, atol=1e-5)


def their_model(pykeen: Any, facts: Any, loss: Any = None) -> Any:
    """PyKEEN's DistMult, like ours without constraint and regulariser."""
    return pykeen.models.DistMult(
        triples_factory=facts, embedding_dim=DIM, entity_constrainer=None, regularizer=None,
        loss=loss, random_seed=0,
    )  # fmt: skip


def their_facts(pykeen: Any, links: LinkSet) -> Any:
    """The training facts, with their inverses."""
    return pykeen.triples.CoreTriplesFactory(
        links.train, num_entities=links.n_entities, num_relations=links.n_relations,
        create_inverse_triples=True,
    )  # fmt: skip


def theirs(
    pykeen: Any, links: LinkSet, loop_name: str, loss: Any, folder: str
) -> tuple[Callable[[], None], int]:
    """An epoch of PyKEEN's training on the facts of a few steps, and their number of queries."""
    training = pykeen.training
    loops: dict[str, Any] = {"negatives": training.SLCWATrainingLoop, "shared": _shared(training),
                            "LCWA": training.LCWATrainingLoop,
                            "symmetric LCWA": training.lcwa.SymmetricLCWATrainingLoop}  # fmt: skip
    steps = STEPS.get(loop_name, STEPS["all"])
    drawn = np.random.default_rng(0).permutation(len(links.train))[: steps * BATCH // 2]
    subset = replace(links, train=links.train[torch.from_numpy(drawn)])
    facts = their_facts(pykeen, subset)
    options: dict[str, Any] = {}
    if loop_name in ("negatives", "shared"):
        options["negative_sampler_kwargs"] = {
            "num_negs_per_pos": CANDIDATES if loop_name == "negatives" else 1,
            "corruption_scheme": ("tail",),
            "filtered": loop_name == "negatives" and isinstance(loss, pykeen.losses.NSSALoss),
        }
    loop = loops[loop_name](
        model=their_model(pykeen, facts, loss), triples_factory=facts, optimizer="adam",
        optimizer_kwargs={"lr": LR, "fused": True}, automatic_memory_optimization=False, **options,
    )  # fmt: skip
    epochs = itertools.count(1)
    size = BATCH // 2 if loop_name == "symmetric LCWA" else BATCH

    def turn() -> None:
        epoch = next(epochs)
        loop.train(
            facts, num_epochs=epoch, continue_training=epoch > 1, batch_size=size,
            sub_batch_size=AT_A_TIME[loop_name], use_tqdm=False, checkpoint_directory=folder,
        )  # fmt: skip

    return turn, len(subset.training_facts.keys) if loop_name == "LCWA" else steps * BATCH


def _shared(training: Any) -> Any:
    """PyKEEN's loop with negatives that queries share."""

    class Shared(training.SLCWATrainingLoop):
        def _process_batch(self, batch: Any, start: int, stop: int, *_: Any, **__: Any) -> Tensor:
            positives = batch["positives"][start:stop]
            drawn = torch.randint(self.model.num_entities, (CANDIDATES,))
            return self.loss.process_slcwa_scores(
                positive_scores=self.model.score_hrt(positives),
                negative_scores=self.model.score_t(positives[:, :2], tails=drawn),
            )

    return Shared


def compare_epochs(table: Table, pykeen: Any, links: LinkSet, repeats: int) -> None:
    queries = links.queries("train")
    print(f"an epoch: {queries.number:,} queries, of which {len(links.training_facts.keys):,} "
          f"differ; {CANDIDATES} candidates, or {links.n_entities:,}")  # fmt: skip
    drawn: dict[str, Callable[[], None]] = {}
    every: dict[str, Callable[[], None]] = {}
    contenders = {"512 candidates": drawn, "all entities": every}
    asked: dict[str, int] = {}
    for name, options in METHODS.items():
        drawn[name] = ours(new_model(links, CANDIDATES, options), links, STEPS["ours"])
        model = new_model(links, "all", options)
        every[f"{name}, all"] = ours(model, links, STEPS["ours, all"])
        asked |= {name: STEPS["ours"] * BATCH, f"{name}, all": STEPS["ours, all"] * BATCH}
    with tempfile.TemporaryDirectory() as folder:
        if pykeen is not None:
            check_losses(pykeen, links)
            for loop_name in AT_A_TIME:
                group = drawn if loop_name in STEPS else every
                for name, loss in losses_of(pykeen).items():
                    if (loop_name, name) == ("symmetric LCWA", "NSSA"):  # as no loss of ours here
                        continue
                    contender = f"PyKEEN {loop_name}, {name}"
                    group[contender], asked[contender] = theirs(
                        pykeen, links, loop_name, loss, folder
                    )
        gc.collect()
        gc.freeze()  # PyKEEN collects garbage once an epoch, which would count in each turn
        seconds = {case: take_turns(group, repeats) for case, group in contenders.items()}
        gc.unfreeze()
    for case, case_seconds in seconds.items():
        epochs: Values = {
            name: [value * queries.number / asked[name] for value in values]
            for name, values in case_seconds.items()
        }
        table.add(case, epochs)
        same = {"InfoNCE": "ucl", "NSSA": "hscl, jsd"}
        if "all" in case:
            same = {loss: f"{name}, all" for loss, name in same.items()}
        peers = [name for name in epochs if name.startswith("PyKEEN")]
        table.add(
            case,
            ratios(epochs, [(peer_name, same[peer_name.split(", ")[1]]) for peer_name in peers]),
        )
        lcwa_share = len(links.training_facts.keys) / queries.number
        for name in peers:
            if name.startswith("PyKEEN LCWA"):
                table.add(
                    case, {f"{name}, its own epoch": [lcwa_share * value for value in epochs[name]]}
                )
    whole = ours(new_model(links, CANDIDATES, METHODS["ucl"]), links, None)
    table.add("512 candidates", {"ucl, a whole epoch": [timed(whole)[0]]})


def their_ranks(pykeen: Any, model: Any, links: LinkSet) -> tuple[AnswerRanks, list[float]]:
    """PyKEEN's ranks, tails first, then heads, and its MRR, Hits@10 and AMRI."""
    evaluator = pykeen.evaluation.RankBasedEvaluator(
        metrics=["mrr", "hits_at_k", "amri"], add_defaults=False, clear_on_finalize=False
    )
    result = evaluator.evaluate(
        model, links.test, batch_size=FACTS_AT_A_TIME, use_tqdm=False,
        additional_filter_triples=[links.train, links.valid],
    )  # fmt: skip
    sides = [
        AnswerRanks(
            torch.from_numpy(np.concatenate(evaluator.ranks[side, "realistic"])).double(),
            torch.from_numpy(np.concatenate(evaluator.num_candidates[side])),
        )
        for side in ("tail", "head")
    ]
    named = [result.get_metric(name) for name in ("mrr", "hits@10", "amri")]
    return AnswerRanks.joined(sides), named


def with_vectors(pykeen: Any, links: LinkSet, scorer: DistMult) -> Any:
    """PyKEEN's model with our vectors: relation r is its 2 r, the question for heads 2 r + 1."""
    model = their_model(pykeen, their_facts(pykeen, links))
    relations = scorer.relations.weight.view(2, links.n_relations, DIM).transpose(0, 1)
    for parameter, weight in zip(
        model.parameters(), (scorer.entities.weight, relations), strict=True
    ):
        parameter.data.copy_(weight.reshape(parameter.shape))
    return model


def differences(ours: AnswerRanks, other: AnswerRanks, metrics: list[float]) -> tuple[float, float]:
    """Number of differing ranks or candidate counts, and the largest difference of a metric."""
    unequal = (ours.rank != other.rank) | (ours.candidates != other.candidates)
    our_metrics = mean_reciprocal_rank(ours), hits(ours, 10)
    both = zip((*our_metrics, adjusted_mean_rank_index(ours)), metrics, strict=True)
    return float(unequal.sum()), max(abs(a - b) for a, b in both)


def compare_ranks(table: Table, pykeen: Any, links: LinkSet, repeats: int) -> None:
    model = new_model(links, CANDIDATES, METHODS["hucl"])
    ours(model, links, None)()
    scorer = model.scorer
    seconds: Values = {}
    case = f"ranking, {2 * len(links.test):,} questions"

    def our_ranks() -> AnswerRanks:
        vars(links).pop("all_facts", None)  # PyKEEN recomputes it each time, too
        return ranks(scorer, links, "test")

    if pykeen is not None:  # raw vectors, whose scores may differ in the last digit
        subset = replace(links, test=links.test[:1000])
        other, metrics = their_ranks(pykeen, with_vectors(pykeen, subset, scorer), subset)
        number, most = differences(ranks(scorer, subset, "test"), other, metrics)
        table.add("ranking, 2,000 questions, floats", {
            "ranks that differ": [number], "largest difference of a metric": [most],
        }, unit="")  # fmt: skip
    for weight in scorer.parameters():
        weight.data.mul_(16).round_().clamp_(-7, 7)  # so that sums of products are exact
    other_model = None if pykeen is None else with_vectors(pykeen, links, scorer)
    for _ in range(repeats):
        spent, our_result = timed(our_ranks)
        seconds.setdefault("ours", []).append(spent)
        if other_model is not None:
            spent, (other, metrics) = timed(lambda: their_ranks(pykeen, other_model, links))
            seconds.setdefault("PyKEEN", []).append(spent)
    table.add(case, seconds)
    if other_model is not None:
        table.add(case, ratios(seconds, [("PyKEEN", "ours")]))
        number, most = differences(our_result, other, metrics)
        if number or most > 1e-6:
            raise SystemExit(f"{number:.0f} ranks differ, and a metric by {most}")
        table.add(case, {"ranks that differ": [number], "largest difference of a metric": [most]},
                  unit="")  # fmt: skip
    print(f"MRR {mean_reciprocal_rank(our_result):.3f}, Hits@10 {hits(our_result, 10):.3f}, AMRI "
          f"{adjusted_mean_rank_index(our_result):.4f}")  # fmt: skip


def random_links(n: int) -> LinkSet:
    """Random facts between n entities."""
    draws = np.random.default_rng(0)
    columns = [draws.integers(size, size=FACTS) for size in (n, RELATIONS, n)]
    none = torch.empty(0, 3, dtype=torch.int64)
    names = tuple(map(str, range(n))), tuple(map(str, range(RELATIONS)))
    return LinkSet(torch.from_numpy(np.stack(columns, 1)), none, none, *names)


def measured_step(n: int, sparse: bool) -> tuple[float, float]:
    """CPU milliseconds of the median step, and MB added after the set has been made."""
    torch.set_num_threads(1)
    for size in (1000, n):  # the first is for imports
        links = random_links(size)
        batches = itertools.islice(links.batches(BATCH)(1), WARM_STEPS + TIMED_STEPS)
        before = peak_resident()
        scorer = DistMult(size, RELATIONS, SPARSE_DIM, sparse=sparse)
        model = LinkContrast(scorer, links, method="hucl", temperature=GAMMA, candidates=CANDIDATES)
        parameters = [*model.parameters()]
        optimiser = sparse_adam(parameters, lr=LR) if sparse else adam_of(parameters, lr=LR)
        seconds = []
        for batch in batches:
            start = time.process_time()
            optimiser.zero_grad()
            model(batch).backward()
            optimiser.step()
            seconds.append(time.process_time() - start)
    return float(np.median(seconds[WARM_STEPS:])) * 1000, peak_resident() - before


def compare_sizes(table: Table, repeats: int) -> None:
    for n in SIZES:
        names = {"sparse": True}
        if TABLES * 4 * SPARSE_DIM * n < MEMORY:
            names["dense"] = False
        milliseconds: Values = {name: [] for name in names}
        memory: Values = {name: [] for name in names}
        for _ in range(repeats):
            for name, sparse in names.items():
                spent, added = alone(measured_step, n, sparse)
                milliseconds[name].append(spent)
                memory[name].append(added)
        table.add(f"a step, E={n:,}", milliseconds, unit="ms")
        if "dense" in names:
            table.add(f"a step, E={n:,}", ratios(milliseconds, [("dense", "sparse")]))
        table.add(f"a step, E={n:,}, memory", memory, unit="MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default="epoch,ranking,sparse")
    parser.add_argument("--data-dir", type=Path, help=f"folder with {DATASET}.tar.gz")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, help="CSV file to write")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    parts = arguments.parts.split(",")
    if {"epoch", "ranking"} & {*parts}:
        links = load_links(DATASET, data_dir=arguments.data_dir)
        pykeen = peer()
    table = Table("links", arguments)
    for part in table.each(parts):
        if part == "epoch":
            compare_epochs(table, pykeen, links, arguments.repeats)
        elif part == "ranking":
            compare_ranks(table, pykeen, links, arguments.repeats)
        elif part == "sparse":
            compare_sizes(table, arguments.repeats)
    table.write(arguments.out)


if __name__ == "__main__":
    main()
