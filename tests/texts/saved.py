"""Folders that sentence-transformers loads: encoders with random weights, of several kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

WORDS = [
    "my", "card", "has", "not", "arrived", "where", "is", "it", "how", "do", "i", "change", "pin",
    "please", "the", "exchange", "rate", "wrong", "top", "up", "failed", "refund", "transfer",
    "money", "to", "a", "friend", "lost", "phone", "why", "was", "charged",
]  # fmt: skip


def saved_tokenizer(folder: Path, side: str = "right") -> Path:
    """A folder with a tokenizer of whole words."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [*special, *sorted({*WORDS}), *"abcdefghijklmnopqrstuvwxyz.,?!"]
    numbers = {word: k for k, word in enumerate(dict.fromkeys(words))}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(
        ("[SEP]", numbers["[SEP]"]), ("[CLS]", numbers["[CLS]"])
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
        sep_token="[SEP]", mask_token="[MASK]", padding_side=side, model_max_length=32,
        model_input_names=["input_ids", "attention_mask"],
    ).save_pretrained(folder)  # fmt: skip
    return folder


def saved_encoder(folder: Path, kind: str = "bert", **changed: Any) -> str:
    """A folder with an encoder of random weights, its tokenizer, pooling and length 1."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Normalize, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling
    from transformers import AutoConfig, AutoModel

    sizes = {
        "vocab_size": 128, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2,
        "intermediate_size": 64, "max_position_embeddings": 40, "pad_token_id": 0,
    }  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModel.from_config(AutoConfig.for_model(kind, **{**sizes, **changed}))
    for name, weight in model.named_parameters():
        if weight.dim() > 1 and "embed" not in name.casefold():
            weight.data.mul_(8)  # random layers of 0.02 are nearly the identity
    model.save_pretrained(folder / "parts")
    saved_tokenizer(folder / "parts", "left" if kind == "qwen3" else "right")
    transformer = Transformer(str(folder / "parts"))
    modules = [transformer, Pooling(transformer.get_embedding_dimension()), Normalize()]
    SentenceTransformer(modules=modules, device="cpu").save(str(folder / kind))
    return str(folder / kind)
