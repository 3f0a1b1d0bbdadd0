"""How much weight q gives to known and to held-out facts of a knowledge graph.

Run: python -m benchmarks.link_weights --data-dir DIR [--dataset FB15k-237] [--out FILE.csv]

A DistMult is trained by InfoNCE, with known training facts among its negatives (ucl) and without
(scl), each with the temperature and λ chosen on validation facts. Then, for some training queries,
the weight of q ∝ exp(βt) over all entities but the answer, t being the score over γ: its share on
other training facts of the query, on its facts in the validation and test parts, and on the rest.
Held-out facts are read for this alone, never in training.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from gcl_hard import fit
from gcl_hard.links import DistMult, LinkContrast, LinkSet, load_links

BETAS = (0.0, 0.5, 1.0, 2.0)
SETTINGS = {"ucl": (32.0, 0.0003), "scl": (32.0, 0.001)}
"""Temperature and λ of each method."""
AT_A_TIME = 256


def trained(links: LinkSet, method: str, epochs: int, seed: int) -> LinkContrast:
    """A model as in the table of four methods on the page."""
    temperature, n3 = SETTINGS[method]
    torch.manual_seed(seed)
    scorer = DistMult(links.n_entities, links.n_relations, dim=64)
    model = LinkContrast(
        scorer, links, method=method, temperature=temperature, n3=n3, candidates=512, seed=seed
    )
    fit(model, links, epochs=epochs, batch_size=512, lr=0.01, seed=seed)
    return model.eval()


@torch.no_grad()
def weights(
    links: LinkSet, model: LinkContrast, temperature: float, n: int
) -> Iterator[dict[str, Any]]:
    """Shares of q, a mean over n drawn training queries, by β."""
    queries, drawn = links.queries("train"), torch.Generator().manual_seed(0)
    queries = queries.at(torch.randperm(queries.number, generator=drawn)[:n])
    kinds = ("training facts", "held-out facts", "others")
    sums = {beta: dict.fromkeys(kinds, 0.0) for beta in BETAS}
    for batch in queries.split(AT_A_TIME):
        t = model.scores(batch) / temperature
        rows, keys = torch.arange(len(t)), links.key(batch)
        masks = {}
        for name, facts in (("training facts", links.training_facts), ("all", links.all_facts)):
            mask = torch.zeros_like(t, dtype=torch.bool)
            mask[facts.pairs(keys)] = True
            mask[rows, batch.answer] = False
            masks[name] = mask
        masks["held-out facts"] = masks["all"] & ~masks["training facts"]
        masks["others"] = ~masks.pop("all")
        masks["others"][rows, batch.answer] = False
        t[rows, batch.answer] = -math.inf
        for beta in BETAS:
            q = torch.where(t.isinf(), -math.inf, beta * t).softmax(1)
            for name, mask in masks.items():
                sums[beta][name] += float(q[mask].double().sum())
    for beta, shares in sums.items():
        yield {"beta": beta, **{name: round(100 * shares[name] / n, 2) for name in kinds}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--dataset", default="FB15k-237")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    links, lines = load_links(arguments.dataset, data_dir=arguments.data_dir), []
    for method, (temperature, _) in SETTINGS.items():
        model = trained(links, method, arguments.epochs, arguments.seed)
        for line in weights(links, model, temperature, arguments.queries):
            lines.append({"dataset": arguments.dataset, "trained by": method, **line})
    for file in (sys.stdout, *([arguments.out.open("w")] if arguments.out else [])):
        writer = csv.DictWriter(file, [*lines[0]], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


if __name__ == "__main__":
    main()
