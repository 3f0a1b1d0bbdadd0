"""Settings of experiments on texts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from gcl_hard.core.setting import Setting, declared
from gcl_hard.errors import InputError
from gcl_hard.experiments.protocols import UNSEEN
from gcl_hard.experiments.settings import (
    BATCH_SIZE,
    EPOCHS,
    LR,
    ConfigHead,
    Domain,
    Values,
    check_unread,
    is_own,
    of_part,
)
from gcl_hard.files.tables import is_table
from gcl_hard.texts import KNOWN
from gcl_hard.vectors.settings import (
    BASELINES,
    EMBEDDED,
    ENCODED,
    UNTRAINED,
    ItemConfig,
    Splits,
)

TFIDF = "tfidf"
"""The encoder that needs no download."""


def _is_sentence(above: Values) -> bool:
    """Whether the encoder is one of sentence-transformers."""
    return above["encoder"] != TFIDF and not is_own(above["encoder"])


def _by_encoder(setting: Setting, sentence: float, other: float, help: str) -> Setting:
    """A setting with one default for encoders of sentence-transformers and another for the rest."""

    def usual(above: Values) -> float:
        return sentence if _is_sentence(above) else other

    text = f"{help} ({sentence:g}, tfidf {other:g})"
    return replace(setting, help=text, usual=usual, otherwise=usual)


def _split(above: Values) -> Splits:
    return "given" if above["dataset"] in KNOWN and above["protocol"] != UNSEEN else "random"


@dataclass(frozen=True)
class TextHead(ConfigHead):
    """The encoder, on which defaults of training depend."""

    encoder: Annotated[str, Setting(
        "tfidf (TF-IDF, its SVD, an MLP), a folder or a name on the Hugging Face hub that "
        "sentence-transformers loads, or your own module:Name",
        "encoder", custom=True, several=True, common=True, read_by=EMBEDDED,
    )] = TFIDF  # fmt: skip


@dataclass(frozen=True)
class TextConfig(ItemConfig, TextHead):
    """The settings of an experiment on texts.

    Example:
        >>> TextConfig().lr, TextConfig(encoder="sentence-transformers/all-MiniLM-L6-v2").lr
        (0.001, 5e-05)
    """

    domain: ClassVar[Domain] = "texts"

    dataset: Annotated[str, Setting("BANKING77, or a table", "data", common=True, several=True)] = (
        "BANKING77"
    )
    epochs: Annotated[int | None, _by_encoder(EPOCHS, 5, 50, EPOCHS.help)] = None  # type: ignore[assignment]  # it is resolved
    lr: Annotated[float | None, _by_encoder(
        replace(LR, space=(1e-6, 1e-2, "log")), 5e-5, 1e-3, LR.help
    )] = None  # type: ignore[assignment]  # fmt: skip
    batch_size: Annotated[
        int | None, _by_encoder(BATCH_SIZE, 64, 256, "texts in a batch")
    ] = None  # type: ignore[assignment]  # fmt: skip
    split: Annotated[Splits | None, replace(
        declared(ItemConfig)["split"].setting,
        help="random, by --shares, or given, that of the data (default of known sets but under "
        "unseen), of whose training part some is for validation if it has none",
        usual=_split,
    )] = None  # type: ignore[assignment]  # fmt: skip
    trained_layers: Annotated[int, Setting(
        "last transformer layers that are trained; what lies below is computed once, without "
        "dropout; 0: the whole model",
        "encoder", least=0, symbol="layers", title="trained layers", common=True, several=True,
        read_by=ENCODED, applies=_is_sentence,
    )] = 2  # fmt: skip
    cache_limit: Annotated[float, Setting(
        "gigabytes for what lies below the trained layers, in half precision; where it needs more, "
        "it is computed anew for every batch",
        "training", least=0, read_by=ENCODED, applies=_is_sentence,
    )] = 4.0  # fmt: skip
    dim: Annotated[int, Setting(
        "tfidf: width of its SVD, and of the embeddings",
        "gin", least=1, title="width of the embeddings", read_by=EMBEDDED,
    )] = 256  # fmt: skip
    hidden: Annotated[int, Setting(
        "tfidf: width of the hidden layer", "gin", least=1, read_by=ENCODED
    )] = 512  # fmt: skip
    dropout: Annotated[float, Setting(
        "tfidf: share of the entries dropped in a view", "gin", least=0, below=1, several=True,
    )] = 0.1  # fmt: skip
    text: Annotated[str | None, Setting(
        "column of texts of a table (text)", "data", common=True, read_by=BASELINES
    )] = None  # fmt: skip

    def check(self) -> None:
        """Refuse meaningless combinations on texts."""
        super().check()
        if not is_table(self.dataset) and (self.text or self.label or self.id):
            raise InputError(
                f"{self.dataset} is no table, whose columns --text, --label and --id name"
            )
        if self.encoder != TFIDF:
            check_unread(self, TFIDF)

    @property
    def unread(self) -> frozenset[str]:
        """Settings of tfidf, if another encoder replaces it."""
        return frozenset(() if self.encoder == TFIDF else of_part(type(self), "gin"))

    @property
    def is_sentence(self) -> bool:
        """Whether the encoder is one of sentence-transformers."""
        return _is_sentence(self.values)

    @property
    def layers_trained(self) -> int:
        """The ``trained_layers`` of encoders that are trained; 0, as for a whole model, else."""
        return self.trained_layers if self.encoders or self.method == UNTRAINED else 0


CONFIG = TextConfig
