"""Encoders of sentence-transformers whose last layers are trained; what lies below is computed
once for each text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from gcl_hard.core.extras import check_extra
from gcl_hard.errors import InputError, check_at_least

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

PARTS, LEAST, MOST = 4, 8, 32
"""Parts of a batch, by length of the texts, and the numbers of texts in a part."""
TOKENIZED, TOKENS = 1024, 4096
"""Texts that are tokenized at a time, and tokens below the trained layers."""
TRIED = ("How are layers told apart?", "By a text.")
TOLERANCE = 1e-4
GIGABYTE = 2**30


class TextPart(NamedTuple):
    """Texts of similar lengths.

    Attributes:
        features: what the model of sentence-transformers takes.
        hidden: inputs of the trained layers, [b, T, d], or None where they are to be computed.
    """

    features: dict[str, Any]
    hidden: Tensor | None = None


class TextBatch(NamedTuple):
    """A batch of texts, in parts that are each padded to their own longest text.

    Attributes:
        parts: functions that make the parts, so that one at a time is in memory.
        rows: int64 [B], the row of each text among those of all parts.
    """

    parts: tuple[Callable[[], TextPart], ...]
    rows: Tensor


def sentence_model(name: str) -> SentenceTransformer:
    """A model of sentence-transformers on the CPU, in float32 and evaluation mode.

    Args:
        name: a folder, or a name on the Hugging Face hub.

    Raises:
        InputError: if it cannot be loaded, or has no tokenizer.
        MissingExtraError: without sentence-transformers.
    """
    check_extra("texts", f"the encoder {name}", "sentence_transformers")
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        model = SentenceTransformer(name, device="cpu", model_kwargs={"dtype": torch.float32})
        model.preprocess([*TRIED])
    except Exception as error:  # of two libraries, the hub, files of many kinds
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise InputError(
            f"sentence-transformers cannot load {name}, which must be a folder with a model and "
            f"its tokenizer, or a name on the Hugging Face hub: {reason}"
        ) from error
    words: Any = getattr(model, "tokenizer", None)
    if hasattr(words, "all_special_tokens") and len(words) <= len(words.all_special_tokens):
        raise InputError(f"{name} has no tokenizer, and every word would be an unknown one")
    return model.eval()


class SentenceEncoder(nn.Module):
    """A model of sentence-transformers, of which the last layers are trained.

    The others are always in evaluation mode, without dropout, and are neither parameters of this
    module nor in its state: they stay as the model was loaded.

    Args:
        model: the model, its folder, or its name on the Hugging Face hub.
        trained_layers: N ≥ 0, the number of transformer layers that are trained, the last ones,
            with all that follows them; 0 to train the whole model, embeddings of tokens included.

    Attributes:
        model: the whole model.
        source: the folder or name that it was loaded from; empty without.
        out_dim: d, width of its embeddings.
        lower: the layers that are not trained.

    Raises:
        InputError: for a model that cannot be loaded, has fewer layers, or whose layers do not
            follow each other: it can be trained as a whole.

    Example:
        >>> from sentence_transformers import SentenceTransformer
        >>> from sentence_transformers.sentence_transformer.modules import BoW, Dense
        >>> words = SentenceTransformer(modules=[BoW(["card", "pin"]), Dense(2, 4)], device="cpu")
        >>> encoder = SentenceEncoder(words)
        >>> encoder(TextInputs(encoder, ["my card", "a pin"]).batch([0, 1])).shape
        torch.Size([2, 4])
    """

    def __init__(self, model: SentenceTransformer | str, trained_layers: int = 0) -> None:
        super().__init__()
        self.source = model if isinstance(model, str) else ""
        loaded = sentence_model(model) if isinstance(model, str) else model.eval()
        self._loaded = (loaded,)  # no submodule: what is not trained is no parameter
        self.out_dim = int(loaded.get_embedding_dimension() or 0)
        self.lower: list[nn.Module] = []
        self._upper: list[nn.Module] = []
        self._returns_tuple = False
        check_at_least("trained-layers", trained_layers, 0)
        if not trained_layers:
            self.trained = nn.ModuleList([loaded.requires_grad_(True)])
            return
        self.trained = nn.ModuleList(self._split(trained_layers))
        loaded.requires_grad_(False)
        self.trained.requires_grad_(True)
        self._check_split()

    @property
    def model(self) -> SentenceTransformer:
        """The whole model."""
        return self._loaded[0]

    @property
    def has_dropout(self) -> bool:
        """Whether dropout makes two views of a text in training."""
        return any(isinstance(m, nn.Dropout) and m.p > 0 for m in self.trained.modules())

    def _apply(self, *arguments: Any, **options: Any) -> Any:
        whole: Any = self.model  # also what is not trained
        whole._apply(*arguments, **options)
        return super()._apply(*arguments, **options)  # type: ignore[no-untyped-call]

    def forward(self, batch: TextBatch) -> Tensor:
        """Embeddings of a batch, float [B, d]."""
        return torch.cat([self._embedded(part()) for part in batch.parts])[batch.rows]

    def _embedded(self, part: TextPart) -> Tensor:
        hidden = part.hidden

        def known(*inputs: Any, **options: Any) -> Any:
            return (hidden,) if self._returns_tuple else hidden

        with _replaced(() if hidden is None else self.lower, known):
            return self.model({**part.features})["sentence_embedding"][:, : self.out_dim]

    @torch.no_grad()
    def hidden(self, features: dict[str, Any]) -> Tensor:
        """Inputs of the trained layers, [B, T, width]."""
        outputs: list[Tensor] = []

        def passed(*inputs: Any, **options: Any) -> Any:
            states = inputs[0] if inputs else options["hidden_states"]
            return (states,) if self._returns_tuple else states

        def noted(layer: nn.Module, inputs: Any, output: Any) -> None:
            outputs.append(output[0] if self._returns_tuple else output)

        hook = self.lower[-1].register_forward_hook(noted)
        try:
            with _replaced(self._upper, passed):
                self.model({**features})
        finally:
            hook.remove()
        return outputs[0]

    def _split(self, number: int) -> list[nn.Module]:
        """What is trained: the last layers, and modules that are called after them."""
        called: dict[nn.Module, int] = {}
        outputs: dict[nn.Module, Any] = {}

        def begins(module: nn.Module, inputs: Any) -> None:
            called.setdefault(module, len(called))

        def ends(module: nn.Module, inputs: Any, output: Any) -> None:
            outputs[module] = output

        hooks = [module.register_forward_pre_hook(begins) for module in self.model.modules()]
        hooks += [module.register_forward_hook(ends) for module in self.model.modules()]
        try:
            with torch.no_grad():
                self.model(self.model.preprocess([*TRIED]))
        finally:
            for hook in hooks:
                hook.remove()
        lists = [
            [*modules] for modules in self.model.modules()
            if isinstance(modules, nn.ModuleList)
            and len(modules) and all(layer in called for layer in modules)
        ]  # fmt: skip
        layers = max(lists, key=len, default=[])
        if number > len(layers):
            raise InputError(
                f"trained-layers is {number}, and {self._name} has {len(layers)} layers: give "
                f"fewer, or 0 to train the whole model"
            )
        self.lower, self._upper = layers[:-number], layers[-number:]
        self._returns_tuple = isinstance(outputs[layers[0]], tuple)
        inside = {module for layer in layers for module in layer.modules()}
        start = called[layers[-1]]
        after = [m for m, place in called.items() if place > start and m not in inside]
        nested = {child for module in after for child in module.modules() if child is not module}
        return [*self._upper, *(module for module in after if module not in nested)]

    @property
    def _name(self) -> str:
        return type(self.model[0]).__name__

    def _check_split(self) -> None:
        """Refuse layers that more than one another's outputs depend on."""
        if not self.lower:
            return
        features = self.model.preprocess([*TRIED])
        reason: Exception | None = None
        try:
            with torch.no_grad():
                whole = self._embedded(TextPart(features))
                split = self._embedded(TextPart(features, self.hidden(features)))
            same = torch.allclose(whole, split, rtol=0, atol=TOLERANCE * float(whole.abs().max()))
        except Exception as error:  # of a model that was not made to be split
            same, reason = False, error
        trained = {id(p) for p in self.trained.parameters()}
        shared = any(id(p) in trained for layer in self.lower for p in layer.parameters())
        if not same or shared:
            raise InputError(
                f"layers of {self._name} do not follow each other, so that the last ones cannot be "
                f"trained alone: give trained-layers 0, which trains the whole model"
            ) from reason


@contextmanager
def _replaced(layers: Sequence[nn.Module], forward: Callable[..., Any]) -> Iterator[None]:
    """Layers that compute something else."""
    for layer in layers:
        layer.forward = forward
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


class TextInputs:
    """Texts as an encoder reads them: tokens, and inputs of its trained layers, without padding.

    Args:
        encoder: the encoder; what it does not train is computed once, in evaluation mode.
        texts: the texts, n.
        cache_limit: gigabytes (2³⁰ bytes) ≥ 0 for the inputs of the trained layers; where they need
            more, every batch computes them anew.
        dtype: of what is kept; a value beyond its range has all of it computed anew.
        parts: parts of a batch at most, each padded to its own longest text.

    Attributes:
        encoder: the encoder.
        note: whether inputs are computed anew, a sentence; empty otherwise.
    """

    def __init__(
        self,
        encoder: SentenceEncoder,
        texts: Sequence[str],
        *,
        cache_limit: float = 4.0,
        dtype: torch.dtype = torch.float16,
        parts: int = PARTS,
    ) -> None:
        self.encoder, self._texts, self._parts = encoder, texts, parts
        self._model = encoder.model
        self.note = ""
        self._columns: dict[str, Tensor] = {}
        self._constants: dict[str, Any] = {}
        self._hidden: Tensor | None = None
        self._tokenize()
        if encoder.lower and self._columns:
            self._keep_hidden(cache_limit, dtype)

    def __len__(self) -> int:
        return len(self._texts)

    def _features(self, texts: Sequence[str]) -> dict[str, Any]:
        prompt = self._model.prompts.get(self._model.default_prompt_name or "")
        return self._model.preprocess([*texts], prompt=prompt)

    def _tokenize(self) -> None:
        """Keep all tokens, where there is a mask of them."""
        columns: dict[str, list[Tensor]] = {}
        lengths = []
        for start in range(0, len(self), TOKENIZED):
            features = self._features(self._texts[start : start + TOKENIZED])
            mask = features.get("attention_mask")
            if mask is None or any(
                isinstance(v, Tensor) and v.shape != mask.shape for v in features.values()
            ):
                return  # such as token ids of all texts behind each other
            real = mask.bool()
            lengths.append(real.sum(1))
            for name, value in features.items():
                if isinstance(value, Tensor):
                    columns.setdefault(name, []).append(value[real])
                else:
                    self._constants[name] = value
        device = self._model.device
        self._lengths = torch.cat(lengths).numpy()
        self._starts = np.cumsum(self._lengths) - self._lengths
        self._columns = {name: torch.cat(values).to(device) for name, values in columns.items()}
        tokenizer = self._model.tokenizer
        self._pads = {"input_ids": tokenizer.pad_token_id or 0}
        self._left = tokenizer.padding_side == "left"

    def _keep_hidden(self, limit: float, dtype: torch.dtype) -> None:
        """Compute what lies below the trained layers, for texts of one length at a time."""
        n_tokens, size = int(self._lengths.sum()), torch.finfo(dtype).bits // 8
        kept: Tensor | None = None
        for length in np.unique(self._lengths):
            same = np.flatnonzero(self._lengths == length)
            for ids in np.array_split(same, -(-len(same) * int(length) // TOKENS)):
                features, tokens, _ = self._padded(ids)
                states = self.encoder.hidden(features)
                if kept is None:
                    needed = n_tokens * states.shape[2] * size / GIGABYTE
                    if needed > limit:
                        self.note = (
                            f"what lies below the trained layers needs {needed:.2g} GB, more than "
                            f"cache-limit {limit:g}, and is computed anew for every batch"
                        )
                        return
                    kept = states.new_empty((n_tokens, states.shape[2]), dtype=dtype)
                kept[tokens] = states.to(dtype)
        if kept is not None and not kept.isfinite().all():
            self.note = (
                "what lies below the trained layers is beyond the range of half precision, and is "
                "computed anew for every batch"
            )
            return
        self._hidden = kept

    def batch(self, ids: ArrayLike) -> TextBatch:
        """Some texts, on the encoder's device.

        Args:
            ids: [B], numbers of texts in any order, repeats allowed.
        """
        ids = np.asarray(ids, np.int64)
        device = self._model.device
        if not self._columns:
            whole = partial(self._unsplit, ids)
            return TextBatch((whole,), torch.arange(len(ids), device=device))
        order = np.argsort(self._lengths[ids], kind="stable")
        n_parts = max(1, min(self._parts, len(ids) // LEAST), len(ids) // MOST)
        parts = (partial(self._part, ids[rows]) for rows in np.array_split(order, n_parts))
        return TextBatch(tuple(parts), torch.from_numpy(np.argsort(order)).to(device))

    def _part(self, ids: NDArray[np.int64]) -> TextPart:
        features, tokens, _ = self._padded(ids)
        if self._hidden is None:
            return TextPart(features)
        return TextPart(features, self._hidden[tokens].to(next(self.encoder.parameters()).dtype))

    def _unsplit(self, ids: NDArray[np.int64]) -> TextPart:
        device, features = self._model.device, self._features([self._texts[i] for i in ids])
        return TextPart(
            {n: v.to(device) if isinstance(v, Tensor) else v for n, v in features.items()}
        )

    def _padded(self, ids: Any) -> tuple[dict[str, Any], Tensor, Tensor]:
        """Features of some texts, numbers of their tokens, [b, T], and which of these are real."""
        lengths, starts = self._lengths[ids, None], self._starts[ids, None]
        places = np.arange(lengths.max())[None]
        if self._left:
            places = places - lengths.max() + lengths
        real = (places >= 0) & (places < lengths)
        device = self._model.device
        tokens = torch.from_numpy(np.where(real, starts + places, starts)).to(device)
        mask = torch.from_numpy(real).to(device)
        features = {
            name: values[tokens].masked_fill(~mask, self._pads.get(name, 0))
            for name, values in self._columns.items()
        }
        return {**self._constants, **features}, tokens, mask
