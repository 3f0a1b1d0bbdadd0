"""Sentence encoders of which some layers are trained, against sentence-transformers itself."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("sentence_transformers")

from gcl_hard.errors import InputError
from gcl_hard.texts.encoders import SentenceEncoder, TextInputs
from tests.texts.saved import WORDS, saved_encoder

TEXTS = [" ".join(WORDS[k : k + 1 + 5 * k % 13]) for k in range(len(WORDS))]
KINDS = {
    "bert": {},
    "distilbert": {"dim": 32, "n_layers": 3, "n_heads": 2, "hidden_dim": 64},
    "mpnet": {},
    "roberta": {},
    "electra": {"embedding_size": 16},
    "modernbert": {"global_attn_every_n_layers": 2, "local_attention": 4},
    "qwen3": {"num_key_value_heads": 1, "head_dim": 16},
}


def embeddings(encoder: SentenceEncoder, inputs: TextInputs, ids: object = None) -> Tensor:
    return encoder(inputs.batch(np.arange(len(inputs)) if ids is None else ids))


@pytest.mark.parametrize("kind", KINDS)
def test_kept_states_give_what_the_whole_model_does(tmp_path: Path, kind: str) -> None:
    encoder = SentenceEncoder(saved_encoder(tmp_path, kind, **KINDS[kind]), 1).eval()
    expected = encoder.model.encode(TEXTS, convert_to_tensor=True)
    for options, tolerance in (
        ({"dtype": torch.float32}, 1e-5), ({}, 2e-3), ({"cache_limit": 0.0}, 1e-5)
    ):  # fmt: skip
        inputs = TextInputs(encoder, TEXTS, **options)
        assert bool(inputs.note) == ("cache_limit" in options)
        with torch.no_grad():
            torch.testing.assert_close(
                embeddings(encoder, inputs), expected, rtol=0, atol=tolerance
            )
            some = embeddings(encoder, inputs, [5, 2, 5])
        torch.testing.assert_close(some, expected[[5, 2, 5]], rtol=0, atol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [1, 3])
def test_gradients_are_those_of_the_whole_model(tmp_path: Path, kind: str, number: int) -> None:
    encoder = SentenceEncoder(saved_encoder(tmp_path, kind, **KINDS[kind]), number).eval().double()
    reference = copy.deepcopy(encoder.model).eval().requires_grad_(True)
    target = torch.randn(len(TEXTS), encoder.out_dim)
    (embeddings(encoder, TextInputs(encoder, TEXTS, dtype=torch.float64)) * target).sum().backward()
    (reference(reference.preprocess(TEXTS))["sentence_embedding"] * target).sum().backward()
    wanted = dict(reference.named_parameters())
    error = 1e-5 if kind == "qwen3" else 1e-9  # its norms are in single precision
    trained = {
        name: p for name, p in encoder.model.named_parameters()
        if p.requires_grad and p.grad is not None
    }  # fmt: skip
    for name, parameter in trained.items():
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, wanted[name].grad, rtol=error, atol=error)
    layers = {number for name in trained for number in re.findall(r"layers?\.(\d+)\.", name)}
    assert len(layers) == number
    assert not any(p.requires_grad for layer in encoder.lower for p in layer.parameters())


def test_a_whole_model_is_trained_with_its_embeddings(encoder_folder: str) -> None:
    encoder = SentenceEncoder(encoder_folder)
    assert {id(p) for p in encoder.parameters()} == {id(p) for p in encoder.model.parameters()}
    embeddings(encoder, TextInputs(encoder, TEXTS)).sum().backward()
    (words,) = (p for n, p in encoder.model.named_parameters() if "word_embeddings" in n)
    assert words.grad is not None
    assert words.grad.abs().sum() > 0


def test_dropout_makes_two_views_and_none_below_the_trained_layers(encoder_folder: str) -> None:
    encoder = SentenceEncoder(encoder_folder, 1).train()
    kept = TextInputs(encoder, TEXTS, dtype=torch.float32)
    anew = TextInputs(encoder, TEXTS, cache_limit=0)
    assert not embeddings(encoder, kept).equal(embeddings(encoder, kept))
    torch.manual_seed(3)
    expected = embeddings(encoder, kept)
    torch.manual_seed(3)
    torch.testing.assert_close(embeddings(encoder, anew), expected, rtol=0, atol=1e-5)
    for module in encoder.trained.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    config = encoder.model[0].auto_model.config
    config.attention_probs_dropout_prob = 0.0
    for module in encoder.model.modules():
        if hasattr(module, "dropout") and isinstance(module.dropout, float):
            module.dropout = 0.0
    torch.testing.assert_close(embeddings(encoder, anew), embeddings(encoder, anew))


def test_padding_and_parts_change_nothing(encoder_folder: str) -> None:
    encoder = SentenceEncoder(encoder_folder, 2).eval()
    with torch.no_grad():
        whole = embeddings(encoder, TextInputs(encoder, TEXTS, parts=1))
        for parts in (2, 3, 8):
            part = embeddings(encoder, TextInputs(encoder, TEXTS, parts=parts))
            torch.testing.assert_close(part, whole, rtol=0, atol=1e-5)


def test_kept_states_take_as_many_bytes_as_tokens_need(encoder_folder: str) -> None:
    encoder = SentenceEncoder(encoder_folder, 1)
    tokens = sum(len(ids) for ids in encoder.model.tokenizer(TEXTS)["input_ids"])
    size = tokens * 32 * 2 / 2**30
    assert not TextInputs(encoder, TEXTS, cache_limit=size * 1.01).note
    assert TextInputs(encoder, TEXTS, cache_limit=size * 0.99).note


def test_states_beyond_half_precision_are_computed_anew(encoder_folder: str) -> None:
    encoder = SentenceEncoder(encoder_folder, 1).eval()
    (norm,) = (
        m for n, m in encoder.lower[-1].named_modules() if n == "output.LayerNorm"
    )  # fmt: skip
    norm.weight.data.mul_(1e6)
    inputs = TextInputs(encoder, TEXTS)
    assert "half precision" in inputs.note
    with torch.no_grad():
        assert embeddings(encoder, inputs).isfinite().all()


def test_the_state_is_what_is_trained_and_copies_are_apart(encoder_folder: str) -> None:
    encoder = SentenceEncoder(encoder_folder, 1)
    other = copy.deepcopy(encoder)
    assert sum(t.numel() for t in encoder.state_dict().values()) < sum(
        p.numel() for p in encoder.model.parameters()
    )
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    inputs = TextInputs(encoder, TEXTS)
    encoder.eval(), other.eval()
    assert not embeddings(encoder, inputs).allclose(embeddings(other, inputs))
    other.load_state_dict(encoder.state_dict())
    assert embeddings(encoder, inputs).equal(embeddings(other, inputs))
    half = copy.deepcopy(encoder).double()
    assert {p.dtype for p in half.model.parameters()} == {torch.float64}


def test_prompts_of_the_model_are_kept(encoder_folder: str, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(encoder_folder, device="cpu")
    model.prompts, model.default_prompt_name = {"ask": "how do i "}, "ask"
    model[1].include_prompt = False
    model.save(str(tmp_path))
    encoder = SentenceEncoder(str(tmp_path), 1).eval()
    expected = encoder.model.encode(TEXTS, convert_to_tensor=True)
    assert not expected.allclose(
        SentenceEncoder(encoder_folder).model.encode(TEXTS, convert_to_tensor=True)
    )
    with torch.no_grad():
        found = embeddings(encoder, TextInputs(encoder, TEXTS, dtype=torch.float32))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_models_without_layers_are_trained_whole(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(
        models.WordLevel({w: k for k, w in enumerate(dict.fromkeys(["?", *WORDS]))}, "?")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    static = SentenceTransformer(
        modules=[StaticEmbedding(tokenizer, embedding_dim=8)], device="cpu"
    )
    encoder = SentenceEncoder(static).eval()
    torch.testing.assert_close(
        embeddings(encoder, TextInputs(encoder, TEXTS)),
        static.encode(TEXTS, convert_to_tensor=True), rtol=0, atol=1e-6, check_device=False,
    )  # fmt: skip
    with pytest.raises(InputError, match="0 layers"):
        SentenceEncoder(static, 1)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("albert", {"embedding_size": 16, "num_hidden_layers": 6, "num_hidden_groups": 3}),
        ("t5", {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 3, "num_heads": 2}),
    ],
)
def test_layers_that_do_not_follow_each_other_are_refused(
    tmp_path: Path, kind: str, options: dict[str, int]
) -> None:
    folder = saved_encoder(tmp_path, kind, **options)
    with pytest.raises(InputError, match="trained-layers 0"):
        SentenceEncoder(folder, 1)
    SentenceEncoder(folder)


def test_what_cannot_be_loaded_is_said(encoder_folder: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="3 layers"):
        SentenceEncoder(encoder_folder, 4)
    with pytest.raises(InputError, match="sentence-transformers cannot load"):
        SentenceEncoder(str(tmp_path / "nothing"))
    bare = tmp_path / "bare"
    encoder = SentenceEncoder(encoder_folder)
    encoder.model[0].auto_model.save_pretrained(bare)
    with pytest.raises(InputError, match="tokenizer"):
        SentenceEncoder(str(bare))


@pytest.mark.slow
def test_minilm_gives_what_sentence_transformers_does(minilm_folder: Path) -> None:
    encoder = SentenceEncoder(str(minilm_folder), 2).eval()
    expected = encoder.model.encode(TEXTS, convert_to_tensor=True)
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float16, 1e-3)):
        inputs = TextInputs(encoder, TEXTS, dtype=dtype)
        with torch.no_grad():
            found = embeddings(encoder, inputs)
        torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)
