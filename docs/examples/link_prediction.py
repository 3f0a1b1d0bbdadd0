"""Link prediction in a knowledge graph: queries (head, relation) against entities.

    python link_prediction.py [--method spacl-sup] [--epochs 100] [--data FB15k-237]

Without --data a family of five generations is made here. A folder holds train.txt, valid.txt and
test.txt, a line `head<TAB>relation<TAB>tail` each, as FB15k-237 and WN18RR are distributed; it is
read by PyTorch Geometric, and nothing is downloaded.
"""

import argparse
import json
import random
import shutil
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch_geometric.datasets import FB15k_237

from gcl_hard import METHODS, contrastive_loss

OUTPUT = Path("link_prediction.json")


def family(children=3, couples=20, seed=0):
    """Triples of a family tree: parents, children, spouses, siblings, grandparents, uncles."""
    draw = random.Random(seed)
    parents, spouse, born = {}, {}, couples * 2
    generation = list(range(born))
    for a, b in zip(generation[::2], generation[1::2], strict=True):
        spouse[a], spouse[b] = b, a
    for _ in range(4):
        young = []
        for a in {min(x, spouse[x]) for x in generation if x in spouse}:
            for _ in range(draw.randint(1, children)):
                parents[born] = (a, spouse[a])
                young.append(born)
                born += 1
        draw.shuffle(young)
        for a, b in zip(young[::2], young[1::2], strict=False):
            if parents[a] != parents[b]:
                spouse[a], spouse[b] = b, a
        generation = young
    triples = {(a, "spouse", b) for a, b in spouse.items()}
    for child, both in parents.items():
        for parent in both:
            triples |= {(child, "child of", parent), (parent, "parent of", child)}
            triples |= {(child, "grandchild of", old) for old in parents.get(parent, ())}
            for other, theirs in parents.items():
                if parents.get(parent) == theirs and other != parent:
                    triples.add((child, "nephew or niece of", other))
        triples |= {(child, "sibling", c) for c, p in parents.items() if p == both and c != child}
    names = {r: i for i, r in enumerate(sorted({r for _, r, _ in triples}))}
    found = torch.tensor(sorted((h, names[r], t) for h, r, t in triples))
    order = torch.randperm(len(found), generator=torch.Generator().manual_seed(seed))
    n_test = len(found) // 10
    return found[order[n_test:]], found[order[:n_test]], found, born, len(names)


def read(folder):
    """Triples of a folder, by PyTorch Geometric's reader: to train on, to test, and known ones."""
    with tempfile.TemporaryDirectory() as root:
        raw = Path(root) / "raw"
        raw.mkdir()
        for name in ("train.txt", "valid.txt", "test.txt"):
            shutil.copy(Path(folder) / name, raw / name)
        parts = [FB15k_237(root, split=split)[0] for split in ("train", "val", "test")]
    train, valid, test = (
        torch.stack([p.edge_index[0], p.edge_type, p.edge_index[1]], 1) for p in parts
    )
    every = torch.cat([train, valid, test])
    return train, test, every, int(every[:, ::2].max()) + 1, int(every[:, 1].max()) + 1


class Bilinear(nn.Module):
    """Entities as vectors, relations as a scale and a shift of the head's."""

    def __init__(self, n_entities, n_relations, dim=64):
        super().__init__()
        self.entities = nn.Embedding(n_entities, dim)
        self.scale, self.shift = nn.Embedding(n_relations, dim), nn.Embedding(n_relations, dim)
        self.dropout = nn.Dropout(0.1)
        nn.init.ones_(self.scale.weight)

    def query(self, head, relation):
        return self.dropout(self.entities(head) * self.scale(relation) + self.shift(relation))


def rank(model, test, every):
    """Filtered ranks of the true tails: other known tails of a query do not count."""
    known = {}
    for head, relation, tail in every.tolist():
        known.setdefault((head, relation), []).append(tail)
    with torch.no_grad():
        z = nn.functional.normalize(model.entities.weight)
        scores = nn.functional.normalize(model.query(test[:, 0], test[:, 1])) @ z.T
    for row, (head, relation, tail) in zip(scores, test.tolist(), strict=True):
        row[[other for other in known[head, relation] if other != tail]] = -2.0
    own = scores.gather(1, test[:, 2:])
    ranks = (scores > own).sum(1) + ((scores == own).sum(1) + 1) / 2  # ties count half
    hits = {f"Hits@{k}": (ranks <= k).double().mean().item() for k in (1, 3, 10)}
    return {"MRR": (1 / ranks).mean().item(), **hits}


def fit(method, train, sizes, epochs, seed):
    """Train a model whose views are the tail and queries under different dropout."""
    torch.manual_seed(seed)
    model = Bilinear(*sizes)
    loss = contrastive_loss(method, temperature=0.1, seed=seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    n_queries = 3 if METHODS[method].positives == "hard" else 1
    for epoch in range(1, epochs + 1):
        loss.set_epoch(epoch, epochs)
        for part in torch.randperm(len(train)).split(128):
            head, relation, tail = train[part].unbind(1)
            views = [model.query(head, relation) for _ in range(n_queries)]
            # The same tail twice in a batch is no negative of itself.
            value = loss([model.entities(tail), *views], labels=tail)
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
    return model.eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", default="ucl,scl,hscl,spacl-sup", help="comma-separated")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", help="folder of train.txt, valid.txt and test.txt")
    given = parser.parse_args()
    train, test, every, *sizes = read(given.data) if given.data else family()
    print(f"{sizes[0]} entities, {sizes[1]} relations, {len(train)} + {len(test)} triples")
    found = {}
    for method in given.method.split(","):
        each = [
            rank(fit(method, train, sizes, given.epochs, seed), test, every)
            for seed in range(given.seeds)
        ]
        found[method] = {k: sum(one[k] for one in each) / len(each) for k in each[0]}
        print(f"{method:10}", "  ".join(f"{k} {100 * v:.1f} %" for k, v in found[method].items()))
    OUTPUT.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
