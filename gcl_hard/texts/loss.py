"""Losses with hard negatives for the trainer of sentence-transformers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from gcl_hard.errors import InputError, check_at_least, check_number, check_option
from gcl_hard.functional.negatives import check_labels
from gcl_hard.functional.plan import unit
from gcl_hard.losses.caching import cached_loss
from gcl_hard.losses.methods import DEFAULT_BETA, METHODS, contrastive_loss

Hardness = Literal["mean", "sum"]
HardnessMode = Literal["all_negatives", "in_batch_negatives", "hard_negatives"]
Features = Mapping[str, Any]
TEXT_METHODS = ("ucl", "hucl", "scl", "hscl")


class TextLoss(nn.Module):
    r"""Contrastive loss of texts, in place of ``MultipleNegativesRankingLoss``.

    An anchor's candidates are all documents of the batch: the positives of all rows, then their
    negatives. With t = cosine / γ,

    .. math:: \ell_{mean} = \log\left(1 + M e^{-t^+} \frac{\sum_j \eta_j e^{t_j}}
              {\sum_j \eta_j}\right), \qquad
              \ell_{sum} = \log\left(1 + \sum_j \eta_j e^{t_j - t^+}\right), \qquad
              \eta_j = e^{\beta t_j}

    Columns of a data set, by their order:

    - (anchor, positive) or (anchor, positive, negative, …): a term for each anchor. scl and hscl
      need labels of the rows, and leave the positives of an anchor's class out of its negatives.
    - (text), ucl and hucl: the text is encoded twice, as by SimCSE, so that dropout makes the
      positive.
    - (text) with labels, scl and hscl: every other text of the class is a positive.

    Args:
        model: a ``SentenceTransformer``, or any module from features to a dictionary with
            ``"sentence_embedding"``, float [B, d].
        method: ``"ucl"``, ``"hucl"``, ``"scl"`` or ``"hscl"``.
        beta: concentration β ≥ 0; not used by ucl and scl.
        temperature: γ > 0, 1 / ``scale`` there.
        hardness: ``"mean"`` divides by the mean of η, so that an anchor's weights add up to M, the
            number of its candidates; ``"sum"`` does not, as there with ``hardness_strength`` β / γ.
        hardness_mode: candidates that ``"sum"`` hardens: ``"all_negatives"``,
            ``"in_batch_negatives"`` (documents of other rows) or ``"hard_negatives"`` (negatives of
            the same row); an error with ``"mean"``, which hardens all.
        symmetric: whether positives are anchors, too, with all anchors as candidates: the mean of
            both directions. Without effect on classes; under ``"sum"`` that direction is not
            hardened.
        mini_batch_size: texts that are encoded at a time, by gradient caching; None for all. They
            are sorted by length.
        unknown: label of texts of unknown class, which share theirs with no other.

    Raises:
        InputError: for values outside these, labels that are missing, features that cannot be
            divided into parts, or ``"sum"`` with classes.

    Source:
        Henderson et al. (2017), section 4.4; Lan et al. (2025), Eq. 5, for ``"sum"``; Gao et al.
        (2021), *SimCSE*.

    Example:
        >>> class Model(nn.Module):
        ...     def forward(self, features):
        ...         return {"sentence_embedding": features["x"]}
        >>> queries, documents = torch.eye(3), torch.eye(3)[[0, 2, 1]]
        >>> loss = TextLoss(Model(), "hucl", beta=1.0, temperature=0.5)
        >>> loss([{"x": queries}, {"x": documents}])
        tensor(1.8512)
    """

    def __init__(
        self,
        model: nn.Module,
        method: str = "hucl",
        beta: float = DEFAULT_BETA,
        temperature: float = 0.05,
        *,
        hardness: Hardness = "mean",
        hardness_mode: HardnessMode = "all_negatives",
        symmetric: bool = False,
        mini_batch_size: int | None = None,
        unknown: int | None = None,
    ) -> None:
        super().__init__()
        check_option("method of texts", method, TEXT_METHODS)
        check_option("hardness", hardness, get_args(Hardness))
        check_option("hardness_mode", hardness_mode, get_args(HardnessMode))
        check_number("beta", beta, least=0)
        if mini_batch_size is not None:
            check_at_least("mini_batch_size", mini_batch_size, 1)
        if hardness == "mean" and hardness_mode != "all_negatives":
            raise InputError(f"hardness_mode={hardness_mode!r} belongs to hardness='sum'")
        self.model = model
        self.method = method
        self.beta = beta if METHODS[method].hardening else 0.0
        self.temperature = temperature
        self.hardness = hardness
        self.hardness_mode = hardness_mode
        self.symmetric = symmetric
        self.mini_batch_size = mini_batch_size
        self.unknown = unknown
        options: dict[str, Any] = {"beta": beta}
        if hardness == "sum":  # η is in the scores
            options = {"beta": 0.0, "weight": "kept"}
        self._pairs = contrastive_loss(method, temperature=temperature, positives="view", **options)
        self._classes = contrastive_loss(
            method, beta=beta, temperature=temperature, unknown=unknown
        )

    def forward(
        self, sentence_features: Iterable[Features], labels: Tensor | None = None
    ) -> Tensor:
        """Loss of a batch.

        Args:
            sentence_features: features of each column of B texts, as the model's ``preprocess``
                makes them; none is changed.
            labels: int64 [B], classes of the rows, ≥ 0 or ``unknown``; ignored by ucl and hucl.

        Returns:
            float [], nats.
        """
        columns = [*sentence_features]
        if len(columns) == 1 and not self._pairs.sampler.needs_labels:
            columns *= 2
        if self.mini_batch_size is None:
            return self._loss([self._encode(features) for features in columns], labels)
        divided = [_parts(features, self.mini_batch_size) for features in columns]

        def joined_loss(z: Tensor) -> Tensor:
            places = [at for _, at in divided]
            shares = torch.split(z, [len(at) for at in places])
            return self._loss([x[at] for x, at in zip(shares, places, strict=True)], labels)

        return cached_loss(self._encode, [x for parts, _ in divided for x in parts], joined_loss)

    def _encode(self, features: Features) -> Tensor:
        z: Tensor = self.model({**features})["sentence_embedding"]
        return z.to(torch.promote_types(z.dtype, torch.float32))

    def _loss(self, z: Sequence[Tensor], labels: Tensor | None) -> Tensor:
        """The loss of the columns' embeddings."""
        n = len(z[0])
        if len(z) == 1:
            if self.hardness == "sum":
                raise InputError("hardness='sum' is of pairs: leave it out with classes")
            return self._classes(z[0], labels)
        queries, documents = unit(z[0]), unit(torch.cat([*z[1:]]))
        same = None
        if self._pairs.sampler.needs_labels:
            y = check_labels(labels, n, self.method, z[0].device, unknown=self.unknown)
            same = y[:, None] == y
            if self.unknown is not None:
                same = same & (y != self.unknown)
        positive = torch.arange(n, device=queries.device)
        value = self._to_documents(queries, documents, positive, same)
        if self.symmetric:
            back = self._pairs.against(documents[:n], queries, positive, known=same)
            value = (value + back) / 2
        return value

    def _to_documents(
        self, queries: Tensor, documents: Tensor, positive: Tensor, same: Tensor | None
    ) -> Tensor:
        n, n_documents = len(queries), len(documents)
        known = None if same is None else nn.functional.pad(same, (0, n_documents - n))
        if self.hardness == "mean":
            return self._pairs.against(queries, documents, positive, known=known)
        with torch.autocast(queries.device.type, enabled=False):
            s = queries @ documents.T
        columns = torch.arange(n_documents, device=s.device)
        own = columns % n == positive[:, None]
        is_positive = columns == positive[:, None]
        hardened = {
            "all_negatives": ~is_positive,
            "in_batch_negatives": ~own,
            "hard_negatives": own & ~is_positive,
        }[self.hardness_mode]
        log_eta = torch.where(hardened, self.beta * s.detach(), 0.0)  # times γ
        return self._pairs.scored(s + log_eta, positive, known=known)

    def get_config_dict(self) -> dict[str, Any]:
        """Its settings, for model cards."""
        return {
            name: getattr(self, name)
            for name in ("method", "beta", "temperature", "hardness", "hardness_mode", "symmetric",
                         "mini_batch_size", "unknown")
        }  # fmt: skip


def _parts(features: Features, size: int) -> tuple[list[dict[str, Any]], Tensor]:
    """Parts of a column's texts, the longest first, and the row of each text in them."""
    mask = features.get("attention_mask")
    tensors = [value for value in features.values() if isinstance(value, Tensor) and value.dim()]
    if (
        not isinstance(mask, Tensor)
        or mask.dim() != 2
        or any(len(value) not in (1, len(mask)) for value in tensors)
    ):
        raise InputError(
            "mini_batch_size divides texts that are padded to one length: the model's features "
            "must have attention_mask [B, L], and tensors of B rows"
        )
    n, width = mask.shape
    lengths = (mask.bool() * torch.arange(1, width + 1, device=mask.device)).amax(1)
    order = lengths.argsort(descending=True)
    longest = lengths[order[::size]].tolist()

    def part(value: Any, rows: Tensor, length: int) -> Any:
        if not isinstance(value, Tensor) or not value.dim() or len(value) != n:
            return value
        value = value[rows]
        return value[:, :length] if value.dim() > 1 and value.shape[1] == width else value

    parts = [
        {name: part(value, rows, length) for name, value in features.items()}
        for rows, length in zip(torch.split(order, size), longest, strict=True)
    ]
    return parts, order.argsort()
