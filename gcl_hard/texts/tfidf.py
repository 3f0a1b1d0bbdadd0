"""TF-IDF of texts and its SVD, fitted to a training part, below an MLP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gcl_hard.errors import InputError
from gcl_hard.vectors.models import VectorHead

ITERATIONS = 7
"""Power iterations of the randomized SVD, which is exact to rounding on such spectra."""


@dataclass(frozen=True, eq=False)
class TfidfInputs:
    """Texts by their TF-IDF and its SVD, both fitted to a training part.

    Attributes:
        terms: the V terms of the training part, sorted.
        idf: float64 [V].
        components: float64 [d, V].
        x: float32 [n, d].
    """

    terms: list[str]
    idf: NDArray[np.float64]
    components: NDArray[np.float64]
    x: Tensor

    @classmethod
    def fitted(
        cls, texts: Sequence[str], train: NDArray[np.int64], dim: int, device: str = "cpu"
    ) -> Self:
        """Texts by what their training part says.

        Args:
            texts: the texts, n.
            train: ids of the training part.
            dim: width of the SVD; less where the training part has fewer texts or terms.
            device: where the vectors are.

        Raises:
            InputError: if the training part has no words.

        Example:
            >>> TfidfInputs.fitted(["my card", "my rate", "a pin"], np.arange(2), 8).terms
            ['card', 'my', 'rate']
        """
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(sublinear_tf=True)
        try:
            weights = vectorizer.fit_transform([texts[k] for k in train])
        except ValueError as error:
            raise InputError(f"training texts have no word of two letters: {error}") from error
        width = min(dim, *weights.shape)
        svd = TruncatedSVD(width, n_iter=ITERATIONS, random_state=0).fit(weights)
        terms: list[str] = vectorizer.get_feature_names_out().tolist()
        return cls.read(texts, terms, vectorizer.idf_, svd.components_, device)

    @classmethod
    def read(
        cls, texts: Sequence[str], terms: list[str], idf: NDArray[np.float64],
        components: NDArray[np.float64], device: torch.device | str,
    ) -> Self:  # fmt: skip
        """Texts by what another training part said; a word that it did not have counts nothing."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(sublinear_tf=True, vocabulary=terms)
        vectorizer.idf_ = idf
        x = (vectorizer.transform(texts) @ components.T).astype(np.float32)
        return cls(terms, idf, components, torch.from_numpy(x).to(device))

    def __len__(self) -> int:
        return len(self.x)

    def batch(self, ids: NDArray[np.int64]) -> Tensor:
        """The vectors of some texts, [b, d]."""
        return self.x[torch.from_numpy(np.asarray(ids)).to(self.x.device)]


class TfidfEncoder(nn.Module):
    """A residual MLP on the SVD of TF-IDF, which it keeps.

    Args:
        n_terms: V.
        width: d.
        hidden: width of the hidden layer.
    """

    def __init__(self, n_terms: int, width: int, *, hidden: int = 512) -> None:
        super().__init__()
        self.head = VectorHead(width, hidden=hidden)
        self.out_dim = width
        self.idf: Tensor
        self.components: Tensor
        self.register_buffer("idf", torch.zeros(n_terms, dtype=torch.float64))
        self.register_buffer("components", torch.zeros(width, n_terms, dtype=torch.float64))

    def fit(self, inputs: TfidfInputs) -> None:
        """Keep what was fitted to a training part."""
        self.idf.copy_(torch.from_numpy(inputs.idf))
        self.components.copy_(torch.from_numpy(inputs.components))

    def forward(self, x: Tensor) -> Tensor:
        """Embeddings of vectors, float [b, d]."""
        output: Tensor = self.head(x)
        return output

    def inputs(self, texts: Sequence[str], terms: list[str]) -> TfidfInputs:
        """Texts as it reads them.

        Args:
            texts: the texts.
            terms: those of the training part.
        """
        idf, components = self.idf.cpu().numpy(), self.components.cpu().numpy()
        return TfidfInputs.read(texts, terms, idf, components, self.idf.device)
