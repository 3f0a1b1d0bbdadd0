"""Two augmented views of every graph, contrasted between graph embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gcl_hard.functional.generators import Generators
from gcl_hard.graphs.augment import AUGMENTATIONS, check_views
from gcl_hard.graphs.batches import GraphBatch
from gcl_hard.graphs.contrast import GraphContrast, Graphs, encode
from gcl_hard.graphs.encoders import xavier
from gcl_hard.losses import ContrastiveLoss


class TwoView(GraphContrast):
    """Contrast the graph embeddings of two random augmentations of each graph.

    Args:
        encoder: any module ``(x, edge_index, batch) -> (nodes [N, d], graphs [G, d])``.
        out_dim: d; read from ``encoder.out_dim`` if None.
        method: a name of ``METHODS``.
        loss: a :class:`ContrastiveLoss` of your own instead of a method's.
        augmentations: names of ``AUGMENTATIONS``, applied one after the other to each view.
        strength: share p in [0, 1) of nodes, edges or features that each of them changes.
        seed: of the augmentations.
        one_forward: encode both views in one forward pass, so that BatchNorm sees them together;
            False takes two passes.
        **options: of :func:`gcl_hard.contrastive_loss`.

    Raises:
        InputError: for an unknown augmentation, or a width that is not known.

    Source:
        Chen et al. (2020), *SimCLR*, for the pair of views and the projection head that is
        thrown away; You et al. (2020), *GraphCL*, for the four augmentations.

    Example:
        >>> from gcl_hard.graphs import GIN, load
        >>> mutag = load("MUTAG")
        >>> model = TwoView(GIN(mutag.n_features), method="hucl", beta=1.0)
        >>> model(mutag.all()).isfinite()
        tensor(True)
    """

    def __init__(
        self,
        encoder: nn.Module,
        out_dim: int | None = None,
        *,
        method: str = "hscl",
        loss: ContrastiveLoss | None = None,
        augmentations: Sequence[str] = ("mask-attributes", "perturb-edges"),
        strength: float = 0.2,
        seed: int = 0,
        one_forward: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(encoder, out_dim, method, loss, options)
        check_views(augmentations, strength)
        self.projection = nn.Sequential(
            nn.Linear(self.out_dim, self.out_dim), nn.ReLU(), nn.Linear(self.out_dim, self.out_dim)
        )
        xavier(self.projection)
        self.augmentations = tuple(augmentations)
        self.strength = strength
        self.one_forward = one_forward
        self.seed = seed
        self._generators = Generators(seed)

    def forward(self, graphs: Graphs) -> Tensor:
        """Loss of a batch, float [], nats."""
        batch = GraphBatch.of(graphs)
        generator = self._generators.on(batch.x.device)
        first, second = self.view(batch, generator), self.view(batch, generator)
        if self.one_forward:
            z1, z2 = self.project(first.followed_by(second)).chunk(2)
        else:
            z1, z2 = self.project(first), self.project(second)
        loss: Tensor = self.loss(z1, z2, batch.y)
        return loss

    def view(self, graphs: GraphBatch, generator: torch.Generator) -> GraphBatch:
        """A random augmentation of every graph; the generator lies on their device."""
        for name in self.augmentations:
            augment = AUGMENTATIONS[name]
            graphs = augment(graphs, self.strength, generator=generator)
        return graphs

    def get_extra_state(self) -> dict[str, Any]:
        """Where the augmentations' generators stand, so that a resumed run draws the same."""
        return self._generators.state()

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`get_extra_state` returned."""
        self._generators.restore(state)

    def project(self, graphs: Graphs) -> Tensor:
        """What the loss sees of graphs: float [G, out_dim], in the mode that the model is in."""
        _, z = encode(self.encoder, graphs, self.out_dim)
        projected: Tensor = self.projection(z)
        return projected
