"""Images: data sets, random views, ResNets, and contrastive models of two views.

Names are imported on first use, so that reading a set does not import torchvision or kornia.
"""

from typing import TYPE_CHECKING

from gcl_hard.lazy import lazy

if TYPE_CHECKING:
    from gcl_hard.images.augment import ViewRecipe, Views, channel_statistics
    from gcl_hard.images.batching import ClassPairs, ViewPair, ViewPairs, epoch_batches
    from gcl_hard.images.datasets import ImageSet, Split, load
    from gcl_hard.images.encoders import projection_head, resnet, stem_for
    from gcl_hard.images.models import ImageContrast

__all__ = [
    "ClassPairs",
    "ImageContrast",
    "ImageSet",
    "Split",
    "ViewPair",
    "ViewPairs",
    "ViewRecipe",
    "Views",
    "channel_statistics",
    "epoch_batches",
    "load",
    "projection_head",
    "resnet",
    "stem_for",
]

_MODULES = {
    "augment": ("ViewRecipe", "Views", "channel_statistics"),
    "batching": ("ClassPairs", "ViewPair", "ViewPairs", "epoch_batches"),
    "datasets": ("ImageSet", "Split", "load"),
    "encoders": ("projection_head", "resnet", "stem_for"),
    "models": ("ImageContrast",),
}
__getattr__ = lazy(__name__, {name: module for module, names in _MODULES.items() for name in names})
