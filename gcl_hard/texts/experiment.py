"""Experiments on texts: TF-IDF below an MLP, an encoder of sentence-transformers, or the user's
own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import nn

from gcl_hard.errors import InputError
from gcl_hard.experiments.custom import UserParts, check_call, own_part
from gcl_hard.experiments.embedding import Items, batch_bounds
from gcl_hard.experiments.experiment import Parts, Reading, RunContext, seeded_weights
from gcl_hard.files.io import expanded, file_digest, joined_digest
from gcl_hard.files.tables import is_table
from gcl_hard.texts.data import TextSet
from gcl_hard.texts.encoders import SentenceEncoder, TextInputs
from gcl_hard.texts.files import load_texts, paths
from gcl_hard.texts.settings import TFIDF, TextConfig
from gcl_hard.texts.tfidf import TfidfEncoder, TfidfInputs
from gcl_hard.vectors.data import LabelledItems
from gcl_hard.vectors.items import ItemExperiment
from gcl_hard.vectors.models import ItemModel, View
from gcl_hard.vectors.views import VectorViews

EMBEDDED = 512
"""Texts that are embedded at a time."""
READ = {".json", ".safetensors", ".bin", ".txt", ".model"}
"""Suffixes of files that decide what a folder's encoder computes."""


class PlainTexts:
    """Texts as they are, for the user's own encoder."""

    def __init__(self, texts: Sequence[str], encoder: nn.Module) -> None:
        self._texts, self.encoder = texts, encoder

    def __len__(self) -> int:
        return len(self._texts)

    def batch(self, ids: NDArray[np.int64]) -> list[str]:
        """Some of the texts."""
        return [self._texts[k] for k in ids]


class TextExperiment(ItemExperiment):
    """Experiments on texts; methods as in ``Experiment``."""

    item: ClassVar[str] = "text"
    sets: ClassVar[type[LabelledItems]] = TextSet
    shape: ClassVar[frozenset[str]] = frozenset({"terms", "width", "folder"})
    reading: ClassVar[frozenset[str]] = frozenset({"id"})

    def load(
        self, config: TextConfig, context: RunContext, user_data: TextSet | None = None
    ) -> TextSet:
        """The texts."""
        if user_data is not None:
            return user_data
        return load_texts(
            config.dataset, data_dir=context.data_dir, text=config.text, label=config.label,
            id=config.id,
        )  # fmt: skip

    def files(self, config: TextConfig, data_dir: Path | None) -> list[Path]:
        """The tables of a set."""
        return paths(config.dataset, data_dir=data_dir)

    def user_names(self, config: TextConfig, parts: UserParts) -> dict[str, Any]:
        """The encoder in a folder, by the folder's name and a digest of its files."""
        name, folder = config.encoder, expanded(config.encoder)
        if not config.is_sentence or not folder.is_dir():
            return {}
        if name not in parts.names:
            parts.names[name] = _name_of(folder)
            parts.parts[parts.names[name]] = FolderEncoder(str(folder.resolve()))
        return {"encoder": parts.names[name]}

    def inputs(
        self, config: TextConfig, data: TextSet, train: NDArray[np.int64], context: RunContext
    ) -> Any:
        """Tokens and what lies below the trained layers; vectors of TF-IDF; or the texts."""
        if config.encoder == TFIDF:
            return TfidfInputs.fitted(data.texts, train, config.dim, context.device)
        if not config.is_sentence:
            with seeded_weights(0, 0):
                encoder = _own_encoder(config, context.parts)
            return PlainTexts(data.texts, encoder.to(context.device))
        make = _sentence_maker(config, context.parts)
        return _sentence_inputs(
            make, config.layers_trained, data.texts, config.cache_limit, context.device
        )

    def shape_of(self, config: TextConfig, data: TextSet, inputs: Any) -> dict[str, Any]:
        """The terms and the width of TF-IDF, or the folder of the encoder."""
        if isinstance(inputs, TfidfInputs):
            return {"terms": inputs.terms, "width": inputs.x.shape[1], "folder": ""}
        folder = inputs.encoder.source if isinstance(inputs, TextInputs) else ""
        return {"terms": [], "width": 0, "folder": folder}

    def fit_encoder(self, encoder: nn.Module, inputs: Any) -> None:
        """Keep the fitted TF-IDF."""
        if isinstance(encoder, TfidfEncoder):
            encoder.fit(inputs)

    def views(self, config: TextConfig, inputs: Any) -> View | None:
        """Vectors of TF-IDF with entries dropped; otherwise the encoder's dropout makes views."""
        return VectorViews(config.dropout) if config.encoder == TFIDF else None

    def raw(self, config: TextConfig, data: TextSet, inputs: Any) -> NDArray[np.float32]:
        """The vectors of TF-IDF, or the embeddings of the encoder as it was loaded."""
        if isinstance(inputs, TfidfInputs):
            return inputs.x.cpu().numpy()
        return _raw(inputs)

    def new_encoder(
        self, config: TextConfig, saved: Mapping[str, Any], parts: Parts | None
    ) -> nn.Module:
        """TF-IDF below an MLP, an encoder of sentence-transformers, or the user's own."""
        if config.encoder == TFIDF:
            return TfidfEncoder(len(saved["terms"]), saved["width"], hidden=config.hidden)
        if not config.is_sentence:
            return _own_encoder(config, parts)
        encoder = _sentence_maker(config, parts, saved["folder"])(config.trained_layers)
        if not encoder.has_dropout and not config.is_baseline:
            warnings.warn(
                f"{config.encoder} has no dropout, so that two views of a text are the same",
                stacklevel=2,
            )
        return encoder

    def items(
        self, encoder: nn.Module, saved: Mapping[str, Any], data: Any, reading: Reading
    ) -> Items:
        """The texts of a table, of a set, or of a list."""
        config, context = saved["config"], reading.context
        if isinstance(data, str | Path) and not is_table(str(data)):
            data = load_texts(data, data_dir=context.data_dir)
        elif isinstance(data, str | Path) or hasattr(data, "iloc"):
            data = TextSet.from_table(data, text=config.text, id=reading.id)
        elif not isinstance(data, TextSet):
            data = TextSet.from_texts(data)
        inputs: Any = PlainTexts(data.texts, encoder)
        if isinstance(encoder, TfidfEncoder):
            inputs = encoder.inputs(data.texts, saved["terms"])
        elif isinstance(encoder, SentenceEncoder):
            inputs = TextInputs(encoder, data.texts, cache_limit=0)
        n, model = reading.batch_size or EMBEDDED, ItemModel(encoder)
        bounds = batch_bounds(len(data), n)
        return Items(
            {"id": data.names}, data.digest, bounds,
            lambda k: model.embed(inputs.batch(np.arange(bounds[k], bounds[k + 1]))), data.notes,
        )  # fmt: skip

    def write_folder(self, encoder: nn.Module, folder: Path) -> None:
        """Write a folder that sentence-transformers loads."""
        if not isinstance(encoder, SentenceEncoder):
            return super().write_folder(encoder, folder)
        encoder.model.save(str(folder), create_model_card=False)
        return None


@dataclass(frozen=True)
class FolderEncoder:
    """Makes the encoder in a folder, or of a name on the hub."""

    folder: str

    def __call__(self, trained_layers: int) -> SentenceEncoder:
        """A new encoder."""
        return SentenceEncoder(self.folder, trained_layers)


def _name_of(folder: Path) -> str:
    """The name of a folder and a digest of what decides its encoder."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in READ)
    digests = [f"{path.relative_to(folder)} {file_digest(path)}" for path in files]
    return f"{folder.resolve().name}#{joined_digest('', *digests)[:8]}"


def _sentence_maker(
    config: TextConfig, parts: Parts | None, folder: str = ""
) -> Callable[[int], SentenceEncoder]:
    """What makes the encoder of a configuration, of the folder that its file names if any."""
    if parts and config.encoder in parts:
        return parts[config.encoder]
    place = folder or config.encoder
    folder_there = expanded(place).is_dir() and "#" in config.encoder
    if folder_there and (now := _name_of(expanded(place))) != config.encoder:
        raise InputError(f"{place} is not {config.encoder}, as it was in training, but {now}")
    return FolderEncoder(place)


def _own_encoder(config: TextConfig, parts: Parts | None) -> nn.Module:
    """The user's own encoder, which takes a list of texts."""
    make = own_part(config.encoder, parts)
    assert make is not None
    check_call(make, "encoder()")
    return make()


@lru_cache(maxsize=2)
def _sentence_inputs(
    make: Callable[[int], SentenceEncoder], trained_layers: int, texts: tuple[str, ...],
    cache_limit: float, device: str,
) -> TextInputs:  # fmt: skip
    """The same for all splits, as nothing is fitted to a training part."""
    inputs = TextInputs(make(trained_layers).to(device), texts, cache_limit=cache_limit)
    if inputs.note:
        warnings.warn(inputs.note, stacklevel=2)
    return inputs


@lru_cache(maxsize=2)
def _raw(inputs: Any) -> NDArray[np.float32]:
    """Embeddings of all texts by an encoder that is not trained."""
    model = ItemModel(inputs.encoder)
    parts = np.array_split(np.arange(len(inputs)), -(-len(inputs) // EMBEDDED))
    return np.concatenate([model.embed(inputs.batch(ids)) for ids in parts])


EXPERIMENT = TextExperiment
