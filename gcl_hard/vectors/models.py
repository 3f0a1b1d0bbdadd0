"""Models of vectors: a residual head, contrast between views of items, the supervised baseline."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gcl_hard.core.seeds import Draws, Generators
from gcl_hard.errors import InputError, check_at_least, check_option
from gcl_hard.losses.loss import ContrastiveLoss
from gcl_hard.models import evaluating, loss_of, width
from gcl_hard.vectors.data import VectorSet
from gcl_hard.vectors.views import VectorViews

if TYPE_CHECKING:
    from typing import Unpack

    from gcl_hard.losses.keywords import MethodOptions

Scale = Literal["stored", "unit", "standardised"]
View = Callable[[Any, torch.Generator], Any]


class Scaling(nn.Module):
    """Vectors as they are stored, of length 1, or with columns of mean 0 and deviation 1.

    Args:
        n_features: d.
        kind: ``stored``, ``unit`` or ``standardised``; for the last call :meth:`fit`.
    """

    def __init__(self, n_features: int, kind: Scale = "stored") -> None:
        super().__init__()
        self.kind = check_option("scale", kind, get_args(Scale))
        if kind == "standardised":
            self.mean: Tensor
            self.deviation: Tensor
            self.register_buffer("mean", torch.zeros(n_features))
            self.register_buffer("deviation", torch.ones(n_features))

    def fit(self, x: Tensor) -> None:
        """Take mean and deviation of the columns of x [n, d]; a constant column has deviation 1."""
        if self.kind == "standardised":
            mean, deviation = moments(x)
            self.mean.copy_(mean)
            self.deviation.copy_(deviation)

    def forward(self, x: Tensor) -> Tensor:
        """The scaled vectors, [n, d]."""
        if self.kind == "unit":
            return nn.functional.normalize(x, dim=1)
        return x if self.kind == "stored" else (x - self.mean) / self.deviation


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each column, in double precision; 1 where it is constant."""
    rows = x.double()
    mean, deviation = rows.mean(0), rows.std(0, correction=0)
    constant = deviation <= torch.finfo(x.dtype).eps * rows.abs().amax(0)
    return mean.to(x.dtype), torch.where(constant, 1, deviation).to(x.dtype)


class VectorHead(nn.Module):
    r"""An MLP on vectors; where its output is as wide as its input, a residual one.

    .. math:: h(z) = z + f(z)

    The last layer of f is 0 at the start, so that training begins at the vectors themselves.

    Args:
        n_features: d of the input.
        dim: width of the embeddings; d if None.
        hidden: width of the hidden layers.
        layers: hidden layers, ≥ 1.
        dropout: share of hidden units dropped in training.

    Source:
        He et al. (2016) for residuals; Goyal et al. (2017) for last layers that begin at 0.

    Example:
        >>> x = torch.randn(3, 8)
        >>> VectorHead(8)(x).equal(x), VectorHead(8, dim=4)(x).shape
        (True, torch.Size([3, 4]))
    """

    def __init__(
        self,
        n_features: int,
        dim: int | None = None,
        *,
        hidden: int = 512,
        layers: int = 1,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        for name, size in (("n_features", n_features), ("hidden", hidden), ("layers", layers)):
            check_at_least(name, size, 1)
        self.out_dim = n_features if dim is None else dim
        check_at_least("dim", self.out_dim, 1)
        widths = [n_features, *[hidden] * layers]
        blocks = [[nn.Linear(a, b), nn.ReLU(), nn.Dropout(dropout)] for a, b in pairwise(widths)]
        last = nn.Linear(hidden, self.out_dim)
        self.residual = self.out_dim == n_features
        if self.residual:
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
        self.layers = nn.Sequential(*(layer for block in blocks for layer in block), last)

    def forward(self, x: Tensor) -> Tensor:
        """Embeddings of vectors [n, d], float [n, dim]."""
        output: Tensor = self.layers(x)
        return x + output if self.residual else output


class ScaledEncoder(nn.Module):
    """An encoder on scaled vectors.

    Args:
        scaling: scales them.
        encoder: any module ``[n, d] -> [n, out_dim]``.
    """

    def __init__(self, scaling: Scaling, encoder: nn.Module) -> None:
        super().__init__()
        self.scaling, self.encoder, self.out_dim = scaling, encoder, width(encoder, None)

    def forward(self, x: Tensor) -> Tensor:
        """Embeddings of vectors [n, d], float [n, out_dim]."""
        output: Tensor = self.encoder(self.scaling(x))
        return output


class ItemModel(nn.Module):
    """Base of models of items that an encoder embeds one by one.

    Args:
        encoder: any module from a batch of n items, such as float [n, d], to [n, out_dim].
        out_dim: read from ``encoder.out_dim`` if None.
    """

    def __init__(self, encoder: nn.Module, out_dim: int | None = None) -> None:
        super().__init__()
        self.out_dim: int = width(encoder, out_dim)
        self.encoder: nn.Module = encoder

    def encode(self, batch: Any) -> Tensor:
        """Embeddings of a batch, checked, float [n, out_dim]."""
        z = self.encoder(batch)
        if not isinstance(z, Tensor) or z.dim() != 2 or z.shape[1] != self.out_dim:
            got = [*z.shape] if isinstance(z, Tensor) else type(z).__name__
            raise InputError(
                f"the encoder {type(self.encoder).__name__} must return embeddings "
                f"[n, {self.out_dim}], got {got}"
            )
        return z

    def embed(self, batch: Any) -> NDArray[np.float32]:
        """Embeddings in evaluation mode, float32 [n, out_dim].

        Args:
            batch: a batch, a :class:`VectorSet`, or an array [n, d].
        """
        vectors = batch.x if isinstance(batch, VectorSet) else batch
        if isinstance(vectors, np.ndarray):
            like = next(self.parameters(), torch.empty(0))
            batch = torch.as_tensor(vectors, dtype=like.dtype, device=like.device)
        with evaluating(self):
            z: NDArray[np.float32] = self.encode(batch).float().cpu().numpy()
        return z


class ItemContrast(Draws, ItemModel):
    """Contrast random views of items.

    Args:
        encoder: any module from a batch of n items to [n, out_dim]; see :class:`ItemModel`.
        out_dim: read from ``encoder.out_dim`` if None.
        method: a name in ``METHODS``, ``ucl`` if None. Label-aware ones read labels,
            −1 where unknown: such an item is a negative of all others.
        loss: a :class:`ContrastiveLoss` of your own instead of a method's.
        views: called with a batch and a generator; returns a view of it. None leaves views to the
            encoder's dropout.
        n_views: views of an item; with hard positives the first is the item itself.
        projection: width of the hidden layer of a projection head; None for no head, so that the
            embeddings themselves are contrasted.
        seed: seed of the views.
        **options: options of :func:`gcl_hard.contrastive_loss`; γ is 0.1 and the reduction
            ``anchors`` if not given.

    Example:
        >>> model = ItemContrast(VectorHead(8), method="hscl", beta=1.0)
        >>> model((torch.randn(6, 8), torch.tensor([0, 0, 1, 1, 2, 2]))).isfinite()
        tensor(True)
    """

    def __init__(
        self,
        encoder: nn.Module,
        out_dim: int | None = None,
        *,
        method: str | None = None,
        loss: ContrastiveLoss | None = None,
        views: View | None = VectorViews(),  # noqa: B008 - it is frozen
        n_views: int = 2,
        projection: int | None = None,
        seed: int = 0,
        **options: Unpack[MethodOptions],
    ) -> None:
        if loss is None:
            usual: MethodOptions = {"reduction": "anchors", "unknown": -1}
            if options.get("objective") != "jsd":
                usual["temperature"] = 0.1
            options = {**usual, **options}
        chosen = loss_of(method, loss, options)
        super().__init__(encoder, out_dim)
        check_at_least("n_views", n_views, 2)
        if not (views is None or callable(views)):
            raise InputError(
                f"views is {views!r}: give a function of a batch, or n_views={views!r}"
            )
        self.loss: ContrastiveLoss = chosen
        self.views, self.n_views = views, n_views
        self.projection: nn.Module = nn.Identity()
        if projection is not None:
            check_at_least("projection", projection, 1)
            self.projection = nn.Sequential(
                nn.Linear(self.out_dim, projection), nn.ReLU(),
                nn.Linear(projection, self.out_dim),
            )  # fmt: skip
        self._generators = Generators(seed)

    def set_epoch(self, epoch: int, epochs: int) -> None:
        """Set the schedules of the loss to ``epoch`` (1 … ``epochs``)."""
        self.loss.set_epoch(epoch, epochs)

    def forward(self, batch: tuple[Any, Tensor]) -> Tensor:
        """Loss of items and their labels [n], float [], nats."""
        items, y = batch
        generator = self._generators.on(y)

        def view(number: int) -> Any:
            itself = self.views is None or (self.loss.takes_items and not number)
            return items if itself or self.views is None else self.views(items, generator)

        z = [self.projection(self.encode(view(number))) for number in range(self.n_views)]
        loss: Tensor = self.loss(z, y)
        return loss


class ItemClassifier(ItemModel):
    """Supervised baseline: encoder and linear classifier, trained end to end by cross-entropy.

    Args:
        encoder: any module from a batch of n items to [n, out_dim].
        n_classes: C ≥ 2.
        out_dim: read from ``encoder.out_dim`` if None.

    Example:
        >>> model = ItemClassifier(VectorHead(8), 3)
        >>> model((torch.randn(2, 8), torch.tensor([0, 2]))).isfinite()
        tensor(True)
    """

    def __init__(self, encoder: nn.Module, n_classes: int, out_dim: int | None = None) -> None:
        check_at_least("n_classes", n_classes, 2)
        super().__init__(encoder, out_dim)
        self.classifier = nn.Linear(self.out_dim, n_classes)

    def forward(self, batch: tuple[Any, Tensor]) -> Tensor:
        """Loss of items and their labels [n], float [], nats."""
        items, y = batch
        loss: Tensor = nn.functional.cross_entropy(self.classifier(self.encode(items)), y)
        return loss
