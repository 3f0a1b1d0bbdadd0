"""The negative sampler: an admission rule times a hardening function, on a schedule."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from gcl_hard.core.seeds import Generators
from gcl_hard.errors import InputError, check_at_least, check_option, checking_keywords
from gcl_hard.functional.hardening import Hardening, Rows, as_hardening
from gcl_hard.functional.labels import LabelGap, check_gap
from gcl_hard.functional.mixture import Beta, BetaMixture, MixturePosterior
from gcl_hard.functional.negatives import (
    described,
    draw,
    log_negative_distribution,
    readable,
)
from gcl_hard.losses.synthetic import SyntheticNegatives

Admission = Literal["others", "other_labels", "rest"]
MIXTURE = "mixture"
"""Key of a sampler's state."""
PairWeights = Tensor | Callable[[Tensor, Tensor], Tensor]


class Negatives(NamedTuple):
    """The negative distribution q of a batch.

    Attributes:
        log_q: float [A, C], log q, −inf at candidates without weight.
        empty: bool [A], anchors without a negative; their row of ``log_q`` is uniform.
    """

    log_q: Tensor
    empty: Tensor


class NegativeSampler(nn.Module):
    r"""Negative sampler for graphs and images: admission times hardening times pair weights.

    .. math:: q_{ij} \propto 1[\text{admitted}_{ij}] \; \eta(t_{ij}) \; w_{ij}

    Args:
        admit: ``"others"`` (everything but the anchor and its other view),
            ``"other_labels"`` (others whose label differs) or ``"rest"`` (everything but the anchor
            and the positive of the term, as in the denominator of SupCon; another positive of the
            anchor is then a negative). Of nodes against graphs ``"rest"`` is ``"others"``.
        hardening: a :class:`Hardening`, a function t → log η(t), or None for none.
        draws: None for exact expectations under q (the limit of many negatives), or k ≥ 1
            negatives drawn per anchor with replacement (the paper's ψ_k).
        seed: seed of the draws.
        pair_weights: log w ≥ −∞ known from outside the embeddings, such as a prior of being a true
            negative or a similarity of the inputs: a tensor [B, B] of the batch's items ([B, B + K]
            with K further candidates, and graphs for nodes against graphs), or a function of
            their indices, int64 [R] and [C], that returns float [R, C] and may be called for a
            block of rows at a time. It has no gradient. Set the attribute anew for each batch, or
            give a function that looks up the batch's items. None for w = 1.
        label_gap: (δ₊, δ₋) for labels beyond classes, real numbers or multi-hot rows, by their
            distance d (:func:`~gcl_hard.functional.labels.label_distance`): d ≤ δ₊ makes a positive
            of class positives, d > δ₋ a negative of ``"other_labels"``; a pair between them, or
            with an unknown label (NaN), is neither; a pair with an unknown class, the ``unknown``
            of a loss, is a negative. Numbers in half precision must be closer to each other than
            δ₊ and δ₋ − δ₊. None for classes.

        synthetic: makes further negatives for each anchor, such as
            :class:`~gcl_hard.losses.synthetic.HardMixing`; None for none. InfoNCE only.

    Raises:
        InputError: for an unknown admission, fewer than one draw or δ₊ > δ₋; when weights are
            used, for NaN, +inf or another shape.

    Source:
        H-SCL paper, sections III-B and III-C: q_UCL, q_SCL, q_H-UCL and q_H-SCL are the four
        combinations.

    Example:
        >>> import torch
        >>> from gcl_hard import Exponential
        >>> sampler = NegativeSampler(admit="others", hardening=Exponential(beta=1.0))
        >>> s, others = torch.tensor([[0.0, 0.5, 1.0]]), torch.tensor([[True, True, False]])
        >>> sampler(s, others=others, temperature=0.5).log_q.exp()
        tensor([[0.2689, 0.7311, 0.0000]])
    """

    _mixture: BetaMixture | None = None

    @checking_keywords(beta="hardening=Exponential(beta={})")
    def __init__(
        self,
        admit: Admission = "others",
        hardening: Hardening | Callable[[Tensor], Tensor] | None = None,
        *,
        draws: int | None = None,
        seed: int = 0,
        pair_weights: PairWeights | None = None,
        label_gap: LabelGap | None = None,
        synthetic: SyntheticNegatives | None = None,
    ) -> None:
        super().__init__()
        check_option("admission", admit, get_args(Admission))
        if draws is not None:
            check_at_least("draws", draws, 1)
        self.admit: Admission = admit
        self._epoch = (1, 1)
        self.hardening = hardening
        self.draws = draws
        self.pair_weights = pair_weights
        self.label_gap = None if label_gap is None else check_gap(label_gap)
        self.synthetic = synthetic
        self._generators = Generators(seed)

    @property
    def hardening(self) -> Hardening:
        """η, with its schedules; can be set."""
        return self._hardening

    @hardening.setter
    def hardening(self, value: Hardening | Callable[[Tensor], Tensor] | None) -> None:
        # Resolved once an epoch: in a compiled graph its numbers are then inputs, not constants.
        self._hardening, self._mixture = as_hardening(value), None
        self._begin()

    def _begin(self) -> None:
        current = self._hardening.at(*self._epoch)
        if isinstance(current, MixturePosterior) and current.mixture is None:
            current = replace(current, mixture=self._mixture)
        self._current = current

    @property
    def seed(self) -> int:
        """The seed of its draws."""
        return self._generators.seed

    @property
    def needs_labels(self) -> bool:
        """Whether admission depends on labels."""
        return self.admit == "other_labels"

    @property
    def current(self) -> Hardening:
        """The hardening in the current epoch."""
        return self._current

    @property
    def has_slope(self) -> bool:
        """Whether expectations under q have a closed-form gradient: no draws and a known slope."""
        plain = self.draws is None and self.pair_weights is None
        return plain and self.current.slope(1.0) is not None

    @property
    def unfitted(self) -> bool:
        """Whether the current hardening has a mixture that is still to be fitted."""
        return isinstance(self.current, MixturePosterior) and self.current.mixture is None

    def fit(self, similarity: Tensor) -> None:
        """Fit the mixture of the current hardening if it has none yet; called by the loss.

        Args:
            similarity: float [n], s in [−1, 1] of negatives; with n = 0 it stays unfitted.
        """
        if self.unfitted and len(similarity):
            assert isinstance(self.current, MixturePosterior)
            self._mixture = self.current.fitted(similarity).mixture
            self._begin()

    def check_weights(self, n_rows: int, n_columns: int) -> None:
        """Check a tensor of pair weights against the items of a batch. InputError if it differs."""
        weights = self.pair_weights
        if isinstance(weights, Tensor) and weights.shape != (n_rows, n_columns):
            raise InputError(
                f"pair_weights must be log weights of the batch's items, [{n_rows}, {n_columns}], "
                f"got {list(weights.shape)}"
            )

    def log_weights(self, rows: Tensor, columns: Tensor, dtype: torch.dtype) -> Tensor | None:
        """Log w of pairs of items, float [R, C]; None for w = 1.

        Args:
            rows: int64 [R], the anchors' items.
            columns: int64 [C], the candidates' items.
            dtype: of the scores.
        """
        pair_weights = self.pair_weights
        if pair_weights is None:
            return None
        log_w = (
            pair_weights[rows[:, None], columns]
            if isinstance(pair_weights, Tensor)
            else pair_weights(rows, columns)
        )
        if not isinstance(log_w, Tensor) or log_w.shape != (len(rows), len(columns)):
            got = list(log_w.shape) if isinstance(log_w, Tensor) else type(log_w).__name__
            raise InputError(
                f"pair_weights must return log weights [{len(rows)}, {len(columns)}], got {got}"
            )
        log_w = log_w.detach().to(dtype)
        if readable(log_w) and bool((log_w.isnan() | (log_w == math.inf)).any()):
            raise InputError(
                "pair_weights must be logs of weights of at least 0, and hold NaN or +inf: "
                "−inf leaves a pair out"
            )
        return log_w

    def set_epoch(self, epoch: int, epochs: int) -> None:
        """Set scheduled parameters for ``epoch`` (1 … ``epochs``); call it when an epoch begins."""
        if not 1 <= epoch <= epochs:
            raise InputError(f"epoch must be between 1 and {epochs}, got {epoch}")
        begins_anew = epoch < self._epoch[0]
        self._epoch = (epoch, epochs)
        self._begin()
        if begins_anew or not isinstance(self._current, MixturePosterior):
            self._mixture = None  # a restarted training fits again

    def log_eta(
        self,
        similarity: Tensor,
        *,
        others: Tensor,
        temperature: float,
        log_integrand: Tensor | None = None,
        bounded: bool = True,
        admitted: Tensor | None = None,
    ) -> Tensor:
        """Log η in the current epoch, float of the shape of ``similarity``."""
        if log_integrand is None:
            log_integrand = similarity / temperature
        rows = Rows(similarity, temperature, log_integrand, others, bounded, admitted)
        return self.current.log_eta(rows)

    def forward(
        self,
        similarity: Tensor,
        *,
        others: Tensor,
        temperature: float,
        same_label: Tensor | None = None,
        log_integrand: Tensor | None = None,
        bounded: bool = True,
        log_weights: Tensor | None = None,
    ) -> Negatives:
        """Log q over the candidates.

        Args:
            similarity: float [A, C], s in [−1, 1]; may hold anything outside ``others``.
            others: bool [A, C].
            temperature: γ > 0.
            same_label: bool [A, C], pairs that labels keep from being negatives; needed by
                ``"other_labels"``, ignored otherwise.
            log_integrand: float [A, C], log of what a mean threshold averages; t by default.
            bounded: whether s is in [−1, 1]; else it is in deviations.
            log_weights: float [A, C], log w of :meth:`log_weights`; None for w = 1.

        Returns:
            :class:`Negatives`.
        """
        admitted = others
        if self.needs_labels:
            assert same_label is not None
            admitted = others & ~same_label
        log_eta = self.log_eta(
            similarity, others=others, temperature=temperature, log_integrand=log_integrand,
            bounded=bounded, admitted=admitted,
        )  # fmt: skip
        if log_weights is not None:
            log_eta = log_eta + log_weights
        return Negatives(*log_negative_distribution(log_eta, admitted))

    def sample(self, log_q: Tensor, scores: Tensor | None = None) -> Tensor:
        """Candidates drawn from q by this sampler's own generator, int64 [A, draws].

        Args:
            log_q: float [A, C].
            scores: float [A, C], by which activation checkpointing recognises a batch; ``log_q``
                if None, which other batches may share.
        """
        if self.draws is None:
            raise InputError("this sampler takes exact expectations: pass draws=k to draw")
        return draw(log_q, self.draws, self._generators.on(log_q if scores is None else scores))

    def run_state(self) -> dict[str, Any]:
        """Generators and a fitted mixture, so that a resumed run goes on as before."""
        state = self._generators.state()
        if self._mixture is not None:
            state[MIXTURE] = [
                None if component is None else [*component] for component in self._mixture
            ]
        return state

    def set_run_state(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`run_state` returned."""
        generators = {key: value for key, value in state.items() if key != MIXTURE}
        self._generators.restore(generators)
        self._mixture = None
        if MIXTURE in state:
            lower, upper = state[MIXTURE]
            self._mixture = BetaMixture(Beta(*lower), None if upper is None else Beta(*upper))
        self._begin()

    def extra_repr(self) -> str:
        """The summary that ``print`` shows."""
        weights = None if self.pair_weights is None else described(self.pair_weights)
        more = {"label_gap": self.label_gap, "draws": self.draws, "pair_weights": weights}
        shown = "".join(f", {name}={value}" for name, value in more.items() if value is not None)
        return f"admit={self.admit!r}, hardening={self.hardening}{shown}"
