"""A small model of texts, trained with hard negatives by the trainer of sentence-transformers."""

from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.base.modules import Dense
from sentence_transformers.sentence_transformer.modules import BoW

from gcl_hard.texts import TextLoss
from tests.extras.absent import refused_import

words = ["lost", "card", "transfer", "money", "late", "stolen"]
model = SentenceTransformer(modules=[BoW(words), Dense(len(words), 4)], device="cpu")
pairs = Dataset.from_dict({
    "anchor": ["lost card", "late transfer", "money"],
    "positive": ["card stolen", "transfer late money", "money transfer"],
})  # fmt: skip
arguments = SentenceTransformerTrainingArguments("run", max_steps=2, use_cpu=True)
trainer = SentenceTransformerTrainer(model, arguments, pairs, loss=TextLoss(model, "hucl"))
assert trainer.train().training_loss > 0

refused_import("gcl_hard.evaluate", "bench")
refused_import("gcl_hard.graphs.GIN", "graphs")
