"""Text of unknown intents: an encoder trained with labels of the known ones.

    python out_of_distribution.py [--method scl,hscl,spacl-sup] [--data 20newsgroups]

Without --data a small set of requests in twelve intents is made here. A folder is a download of
scikit-learn's 20 newsgroups (its data_home); nothing is downloaded. Half of the classes are known:
their texts train the encoder, and a test text is scored by its largest cosine to a training text.
"""

import argparse
import json
import random
from pathlib import Path

import torch
from sklearn.datasets import fetch_20newsgroups
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import roc_auc_score, roc_curve
from torch import nn

from gcl_hard import METHODS, contrastive_loss

OUTPUT = Path("out_of_distribution.json")
INTENTS = {
    "weather": ("rain snow sun storm wind forecast umbrella degrees", "will it {} in {}"),
    "travel": ("train flight hotel ticket seat luggage boarding platform", "book a {} to {}"),
    "food": ("pizza soup salad noodles curry breakfast dessert menu", "order {} near {}"),
    "music": ("song album playlist concert guitar piano singer band", "play a {} from {}"),
    "bank": ("transfer card balance loan deposit fee account payment", "check my {} in {}"),
    "health": ("doctor pharmacy fever vaccine pain clinic nurse allergy", "find a {} in {}"),
    "sport": ("match score team league goal tennis football stadium", "show the {} of {}"),
    "news": ("headline election minister report paper story editor vote", "read the {} about {}"),
    "home": ("lamp heating door alarm vacuum window kettle camera", "turn off {} in {}"),
    "shopping": ("shoes jacket discount parcel receipt size refund shop", "buy {} from {}"),
    "work": ("meeting deadline email colleague office report invoice calendar", "plan a {} in {}"),
    "school": ("lesson exam teacher homework grade library essay course", "ask about {} in {}"),
}
PLACES = "london paris berlin rome madrid vienna oslo prague lisbon dublin".split()  # noqa: SIM905
FILLERS = "please now today could you maybe i want to need quickly again".split()  # noqa: SIM905


def requests(per_intent=60, seed=0):
    """Requests and the number of their intent; half mention a word of another one."""
    draw = random.Random(seed)
    texts, labels = [], []
    every = [word for words, _ in INTENTS.values() for word in words.split()]
    for label, (words, shape) in enumerate(INTENTS.values()):
        for _ in range(per_intent):
            text = shape.format(draw.choice(words.split()), draw.choice(PLACES)).split()
            if draw.random() < 0.5:
                text += ["not", "the", draw.choice(every)]
            for _ in range(draw.randint(0, 4)):
                text.insert(draw.randint(0, len(text)), draw.choice(FILLERS))
            texts.append(" ".join(text))
            labels.append(label)
    return texts, labels


def newsgroups(folder):
    found = fetch_20newsgroups(
        data_home=folder, subset="all", remove=("headers", "footers", "quotes"),
        download_if_missing=False,
    )  # fmt: skip
    return found.data, found.target.tolist()


class Encoder(nn.Module):
    """A bag of word embeddings and a hidden layer."""

    def __init__(self, n_words, dim=64):
        super().__init__()
        self.words = nn.Linear(n_words, dim, bias=False)
        self.head = nn.Sequential(nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, counts):
        return self.head(self.words(counts / counts.sum(1, keepdim=True).clamp(min=1)))


def fit(method, counts, labels, epochs, seed):
    """Train an encoder on views that each lose a fifth of their words."""
    torch.manual_seed(seed)
    encoder, loss = Encoder(counts.shape[1]), contrastive_loss(method, seed=seed)
    optimiser = torch.optim.Adam(encoder.parameters(), lr=0.005)
    n_views = 4 if METHODS[method].positives == "hard" else 2
    for epoch in range(1, epochs + 1):
        loss.set_epoch(epoch, epochs)
        for part in torch.randperm(len(counts)).split(128):
            x = counts[part]
            views = [x * (torch.rand_like(x) > 0.2) for _ in range(n_views - 1)]
            value = loss([encoder(view) for view in (x, *views)], labels=labels[part])
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
    return encoder.eval()


@torch.no_grad()
def detection(encoder, train, known, unknown):
    """AUROC, and the share of unknown texts taken for known where 95 % of these are."""
    z = [nn.functional.normalize(encoder(x)) for x in (train, known, unknown)]
    scores = torch.cat([(of @ z[0].T).amax(1) for of in z[1:]])
    is_known = torch.cat([torch.ones(len(known)), torch.zeros(len(unknown))])
    false, true, _ = roc_curve(is_known, scores)
    return {"AUROC": float(roc_auc_score(is_known, scores)), "FPR95": float(false[true >= 0.95][0])}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", default="ucl,scl,hscl,spacl-sup", help="comma-separated")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", help="scikit-learn's data_home with 20 newsgroups")
    given = parser.parse_args()
    texts, labels = newsgroups(given.data) if given.data else requests()
    y = torch.tensor(labels)
    counts = torch.tensor(
        CountVectorizer(max_features=5000).fit_transform(texts).toarray(), dtype=torch.float32
    )
    found = {}
    for method in given.method.split(","):
        each = []
        for seed in range(given.seeds):
            draw = torch.Generator().manual_seed(seed)
            classes = torch.randperm(int(y.max()) + 1, generator=draw)
            inside = torch.isin(y, classes[: len(classes) // 2])
            test = torch.rand(len(y), generator=draw) < 0.3
            encoder = fit(method, counts[inside & ~test], y[inside & ~test], given.epochs, seed)
            parts = (inside & ~test, inside & test, ~inside & test)
            each.append(detection(encoder, *(counts[part] for part in parts)))
        found[method] = {k: sum(one[k] for one in each) / len(each) for k in each[0]}
        print(f"{method:10}", "  ".join(f"{k} {100 * v:.1f} %" for k, v in found[method].items()))
    OUTPUT.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
