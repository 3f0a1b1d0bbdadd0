"""Synthetic negatives: embeddings made near the hardest ones, or near the positives."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from contextlib import nullcontext
from copy import deepcopy
from functools import partial
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.utils.parametrizations import spectral_norm

from gcl_hard.core.seeds import Drawing, Draws, Generators, Replay, seed_for, seeded
from gcl_hard.core.setting import Setting
from gcl_hard.core.tracing import hooked, in_backward, refuse_vmap
from gcl_hard.errors import InputError, check_at_least, check_number
from gcl_hard.functional.dense import DenseScores
from gcl_hard.functional.negatives import all_finite
from gcl_hard.functional.plan import Pairing, Plan, unit

MIXING, NOISE, WEIGHTS = range(3)
"""Streams of random numbers of one seed."""


class Scene(NamedTuple):
    """What synthetic negatives are made from; unit vectors without gradients.

    Attributes:
        anchors: float [A, d].
        candidates: float [C, d].
        scores: float [A, C], their cosines over γ.
        admitted: bool [A, C], which are negatives.
        items: float [A, d], embeddings of the anchors' items: the anchors themselves, with hard
            positives the items' first views, and for nodes their graphs.
        positives: float [P, d], positives of any anchor.
    """

    anchors: Tensor
    candidates: Tensor
    scores: Tensor
    admitted: Tensor
    items: Tensor
    positives: Tensor

    @property
    def finite(self) -> bool:
        """Whether all items and positives are; waits for a device."""
        return all_finite([self.items, self.positives])


def scene_of(pairing: Pairing, scores: DenseScores, plan: Plan) -> Scene:
    """What synthetic negatives of a batch are made from."""
    anchors, candidates = unit(pairing.anchors.detach()), unit(pairing.candidates.detach())
    n = len(candidates)
    # Each view of the batch is a positive of its other ones.
    positives = candidates[: pairing.n_views * pairing.n_items]
    if pairing.positives is not None:
        positives = unit(pairing.positives.detach()).flatten(0, 1)
    admitted = scores.others
    if plan.admit == "other_labels" and scores.labels is not None:
        admitted = admitted & ~scores.labels.barred
    items = candidates[pairing.label_columns]
    return Scene(
        anchors, candidates, scores.t.detach()[:, :n], admitted[:, :n], items, positives
    )  # fmt: skip


class Synthetic(NamedTuple):
    """Synthetic negatives of each anchor.

    Attributes:
        embeddings: float [A, K, d], unit vectors without gradients.
        real: bool [A, K], False where an anchor had nothing to make one from.
    """

    embeddings: Tensor
    real: Tensor


class SyntheticNegatives(nn.Module, ABC):
    """Makes negatives for each anchor; an argument of :class:`gcl_hard.NegativeSampler`.

    They are candidates like the others: admitted, hardened, and counted in M. Each process makes
    its own.
    """

    @abstractmethod
    def forward(self, scene: Scene) -> Synthetic:
        """Negatives of each anchor."""


class HardMixing(Draws, SyntheticNegatives):
    r"""MoCHi: mixtures of the hardest negatives with each other and with the anchor.

    .. math:: h = \frac{\alpha n_i + (1 - \alpha) n_j}{\lVert \cdot \rVert}, \qquad
              h' = \frac{\beta u + (1 - \beta) n_j}{\lVert \cdot \rVert}

    with :math:`n_i, n_j` drawn from the N admitted negatives that are most similar to the anchor u,
    α uniform in (0, 1) and β in (0, 1/2), so that the negative dominates.

    Args:
        hardest: N ≥ 1, a batch's admitted negatives if there are fewer.
        mixed: number of h for each anchor, ≥ 0.
        with_anchor: number of h', ≥ 0.
        seed: seed of the draws.

    Raises:
        InputError: for numbers below these.

    Source:
        Kalantidis, Sariyildiz, Pion, Weinzaepfel, Larlus (2020), *Hard Negative Mixing for
        Contrastive Learning*.

    Example:
        >>> from gcl_hard import ContrastiveLoss, NegativeSampler
        >>> loss = ContrastiveLoss(NegativeSampler(synthetic=HardMixing(4, mixed=2)))
        >>> loss(torch.eye(8), torch.eye(8)).isfinite()
        tensor(True)
    """

    def __init__(
        self,
        hardest: Annotated[int, Setting("negatives that mochi mixes", least=1)] = 64,
        *,
        mixed: Annotated[int, Setting("mixtures of two negatives of mochi", least=0)] = 32,
        with_anchor: Annotated[
            int, Setting("mixtures with the anchor of mochi", name="mixed_with_anchor", least=0)
        ] = 16,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_at_least("hardest", hardest, 1)
        check_at_least("mixed", mixed, 0)
        check_at_least("with_anchor", with_anchor, 0)
        self.hardest, self.mixed, self.with_anchor = hardest, mixed, with_anchor
        self._generators = Generators(seed_for(seed, MIXING))

    def forward(self, scene: Scene) -> Synthetic:
        """``mixed`` + ``with_anchor`` negatives of each anchor that has a negative."""
        device, dtype = scene.scores.device, scene.scores.dtype
        # The same draws in any precision and default dtype.
        drawing: dict[str, Any] = {"generator": self._generators.on(scene.scores), "device": device}
        drawing["dtype"] = torch.float32
        shape = len(scene.anchors), self.mixed + self.with_anchor
        scores = scene.scores.masked_fill(~scene.admitted, -math.inf)
        hard = scores.topk(min(self.hardest, scores.shape[1]), 1).indices
        number = scene.admitted.sum(1, keepdim=True).clamp(max=hard.shape[1])

        def drawn(n: int) -> Tensor:
            """n of the hardest of each anchor, [A, n, d]."""
            at = torch.rand(shape[0], n, **drawing)
            at = (at * number).long().clamp(max=hard.shape[1] - 1)
            return scene.candidates[hard.gather(1, at)]

        share = torch.rand(*shape, 1, **drawing).to(dtype)
        share[:, self.mixed :] /= 2
        n = self.mixed
        z = drawn(shape[1]).mul_(1 - share)
        z[:, :n].addcmul_(drawn(n), share[:, :n])
        z[:, n:].addcmul_(scene.anchors[:, None], share[:, n:])
        # Opposite vectors in equal parts have no direction.
        z.mul_(1 / torch.linalg.vector_norm(z, dim=2, keepdim=True).clamp(min=1e-6))
        return Synthetic(z, (number > 0).expand(shape))

    def extra_repr(self) -> str:
        """The summary that ``print`` shows."""
        return f"hardest={self.hardest}, mixed={self.mixed}, with_anchor={self.with_anchor}"


class AdversarialNegatives(SyntheticNegatives):
    r"""SPACL's generator of embeddings that resemble positives, and its discriminator.

    .. math:: \min_G \max_D \; \mathbb{E}_{z^+}[\log D(z^+)]
              + \mathbb{E}_{z}[\log(1 - D(G(z, \epsilon)))]

    z is the embedding of an anchor's item, ε Gaussian noise, and z⁺ are the batch's positives. Each
    batch in training mode takes one step of D and one of G, by an Adam of their own. All their
    inputs are constants: no gradient reaches the encoder through D or G, or them from the loss. D's
    layers have spectral norm 1, which bounds its slope. A batch that is not finite is left out. If
    training G or D reaches a value that is not finite, both are frozen as they were before, with a
    warning, and training goes on. Each process has its own game, and all continue with the first
    process's after a restart. A batch waits for a GPU twice.

    Args:
        number: negatives of each anchor, ≥ 1.
        hidden: width of both networks, ≥ 1.
        lr: learning rate, > 0.
        seed: seed of weights and noise.

    Raises:
        InputError: for values below these.

    Source:
        SPACL, "Adversarial Hard Negative Generation", which states the objective but no networks;
        Miyato et al. (2018), *Spectral Normalization for Generative Adversarial Networks*.

    Example:
        >>> from gcl_hard import ContrastiveLoss, NegativeSampler
        >>> loss = ContrastiveLoss(NegativeSampler(synthetic=AdversarialNegatives()))
        >>> loss(torch.eye(8), torch.eye(8)).isfinite()
        tensor(True)
    """

    def __init__(
        self, number: int = 1, *, hidden: int = 64, lr: float = 1e-3, seed: int = 0
    ) -> None:
        super().__init__()
        check_at_least("number", number, 1)
        check_at_least("hidden", hidden, 1)
        check_number("lr", lr, above=0)
        self.number, self.hidden, self.lr = number, hidden, lr
        self.frozen = False
        """Whether G or D diverged, so that both stay as they were before."""
        self.seed = seed
        self._generators = Generators(seed_for(seed, NOISE))
        # Not a submodule: its parameters are not the encoder's optimiser's.
        self._game: list[_Game] = []
        self._replay = Replay[Tensor]()

    def forward(self, scene: Scene) -> Synthetic:
        """G's embeddings for each anchor, and in training mode a step of D and of G before."""
        refuse_vmap(scene.items, "the game of adversarial negatives")
        training = self.training and torch.is_grad_enabled()
        z = self._replay.again([scene.items]) if training and in_backward() else None
        if z is None:
            generator = self._generators.on(scene.items)
            # Activation checkpointing must not see its own backward passes.
            apart = saved_tensors_hooks(lambda x: x, lambda x: x) if hooked() else nullcontext()
            with apart:
                z = self._played(scene, generator, learns=training and not self.frozen)
            if self.training:
                self._replay.keep([scene.items], lambda: z if training else z[:, :0])
        elif z.shape[1] == 0:
            raise InputError(
                "adversarial negatives need torch.utils.checkpoint with use_reentrant=False"
            )
        return Synthetic(z, torch.ones(z.shape[:2], dtype=torch.bool, device=z.device))

    def _played(self, scene: Scene, generator: torch.Generator, *, learns: bool) -> Tensor:
        game = self._ensure_game(scene.items)
        if learns and scene.finite and not game.step(scene, generator):
            self.frozen = True
            warnings.warn(
                "the generator of adversarial negatives diverged: it is frozen at its last finite "
                "weights, and training goes on; lower its lr",
                stacklevel=2,
            )
        with torch.no_grad():
            embeddings = [game.generate(scene.items, generator) for _ in range(self.number)]
        return torch.stack(embeddings, 1)

    def _ensure_game(self, z: Tensor) -> _Game:
        if not self._game:
            with Drawing(seeded(self.seed, WEIGHTS)):
                self._game.append(_Game(z.shape[1], self.hidden, self.lr))
        game = self._game[0]
        weights = next(game.parameters())
        if (weights.device, weights.dtype) != (z.device, z.dtype):
            game.to(z)
            for optimiser in game.optimisers:
                optimiser.load_state_dict(optimiser.state_dict())  # moves their moments along
        return game

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_game": [], "_saved": self.run_state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        saved = state.pop("_saved")
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self.set_run_state(saved)

    def run_state(self) -> dict[str, Any]:
        """Weights, optimisers and generators, so that a resumed run continues alike."""
        state = {"generators": self._generators.state(), "frozen": self.frozen}
        if self._game:
            game = self._game[0]
            state |= {"dim": game.dim, "weights": game.state_dict()}
            state |= {"optimisers": [optimiser.state_dict() for optimiser in game.optimisers]}
        return deepcopy(state)  # optimisers would share their moments

    def set_run_state(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`run_state` returned."""
        self._generators.restore(state["generators"])
        self.frozen = state["frozen"]
        self._game.clear()
        if "dim" in state:
            weights = state["weights"]
            like = next(iter(weights.values()))
            game = self._ensure_game(like.new_zeros(0, state["dim"]))
            game.load_state_dict(weights)
            for optimiser, optimiser_state in zip(
                game.optimisers, state["optimisers"], strict=True
            ):
                optimiser.load_state_dict(optimiser_state)

    def extra_repr(self) -> str:
        """The summary that ``print`` shows."""
        return f"number={self.number}, hidden={self.hidden}, lr={self.lr}"


class _Game(nn.Module):
    """Generator, discriminator and their optimisers."""

    def __init__(self, dim: int, hidden: int, lr: float) -> None:
        super().__init__()
        self.dim = dim
        linear = partial(nn.Linear, dtype=torch.float32)  # the same weights in any precision
        self.generator = nn.Sequential(linear(2 * dim, hidden), nn.ReLU(), linear(hidden, dim))
        self.discriminator = nn.Sequential(
            spectral_norm(linear(dim, hidden)), nn.LeakyReLU(0.2),
            spectral_norm(linear(hidden, 1)),
        )  # fmt: skip
        self.optimisers = [
            torch.optim.Adam(net.parameters(), lr=lr, betas=(0.5, 0.9))
            for net in (self.discriminator, self.generator)
        ]

    def generate(self, z: Tensor, generator: torch.Generator) -> Tensor:
        """G(z, ε), float [A, d]."""
        noise = torch.randn(z.shape, generator=generator, device=z.device, dtype=torch.float32)
        noise = noise.to(z.dtype) / math.sqrt(self.dim)
        offset: Tensor = self.generator(torch.cat([z, noise], 1))
        return unit(z + offset)

    def step(self, scene: Scene, generator: torch.Generator) -> bool:
        """A step of D and one of G; False, with the weights restored, if it is not finite."""
        before = [x.detach().clone() for x in self.parameters()]
        with torch.enable_grad():
            fake = self.generate(scene.items, generator)
            on_real, on_fake = (
                self.discriminator(scene.positives),
                self.discriminator(fake.detach()),
            )
            # −log D(z⁺) − log(1 − D(G)), D = sigmoid of its logit
            d_loss = (
                nn.functional.softplus(-on_real).mean() + nn.functional.softplus(on_fake).mean()
            )
            self._descend(0, d_loss)
            g_loss = -nn.functional.softplus(self.discriminator(fake)).mean()
            self._descend(1, g_loss)
        if all_finite([d_loss, g_loss, *self.parameters()]):
            return True
        with torch.no_grad():
            for x, weights in zip(self.parameters(), before, strict=True):
                x.copy_(weights)
        return False

    def _descend(self, index: int, loss: Tensor) -> None:
        optimiser = self.optimisers[index]
        parameters = [x for group in optimiser.param_groups for x in group["params"]]
        for x, grad in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            x.grad = grad
        optimiser.step()
