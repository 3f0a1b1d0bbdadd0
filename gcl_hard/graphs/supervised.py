"""The supervised floor: the same encoder, trained end to end with cross-entropy."""

from __future__ import annotations

from torch import Tensor, nn

from gcl_hard.errors import InputError
from gcl_hard.graphs.contrast import GraphModel, Graphs, encode
from gcl_hard.graphs.encoders import xavier
from gcl_hard.models import evaluating


class Supervised(GraphModel):
    r"""A linear classifier on an encoder's readout, both trained with cross-entropy.

    .. math:: \ell = -\frac{1}{G} \sum_g \log \operatorname{softmax}(W z_g + b)_{y_g}

    Args:
        encoder: any module ``(x, edge_index, batch) -> (nodes [N, d], graphs [G, d])``.
        n_classes: C ≥ 2.
        out_dim: d; read from ``encoder.out_dim`` if None.

    Raises:
        InputError: for fewer than two classes, or if the width is not known.

    Source:
        Xu, Hu, Leskovec, Jegelka (2019), *How Powerful are Graph Neural Networks?*, section 4,
        with one linear layer on the concatenated readouts.

    Example:
        >>> from gcl_hard.graphs import GIN, load
        >>> mutag = load("MUTAG")
        >>> model = Supervised(GIN(mutag.n_features), n_classes=2)
        >>> model(mutag.all()).isfinite(), model.predict(mutag.all()).shape
        (tensor(True), torch.Size([188]))
    """

    def __init__(self, encoder: nn.Module, n_classes: int, out_dim: int | None = None) -> None:
        if n_classes < 2:
            raise InputError(f"n_classes must be at least 2, got {n_classes}")
        super().__init__(encoder, out_dim)
        self.classifier = nn.Linear(self.out_dim, n_classes)
        xavier(self.classifier)

    def forward(self, graphs: Graphs) -> Tensor:
        """Loss of a batch, float [], nats."""
        return nn.functional.cross_entropy(self._logits(graphs), graphs.y)

    def predict(self, graphs: Graphs) -> Tensor:
        """The likeliest class of every graph in eval mode, int64 [G]."""
        with evaluating(self):
            return self._logits(graphs).argmax(dim=1)

    def _logits(self, graphs: Graphs) -> Tensor:
        logits: Tensor = self.classifier(encode(self.encoder, graphs, self.out_dim)[1])
        return logits
