"""The image backend: sets, views, ResNets, and two views under the losses of ``gcl_hard``.

Names are imported when used: reading a set does not wait for torchvision or kornia.
"""

from typing import TYPE_CHECKING

from gcl_hard.lazy import lazy

if TYPE_CHECKING:
    from gcl_hard.images.augment import ViewRecipe, Views, channel_statistics
    from gcl_hard.images.batches import ClassPairs, epoch_batches
    from gcl_hard.images.datasets import ImageSet, Split, load
    from gcl_hard.images.encoders import projection_head, resnet, stem_for
    from gcl_hard.images.two_view import ImageContrast, ViewPair, ViewPairs

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

__getattr__ = lazy(
    __name__,
    {
        "ClassPairs": "batches",
        "ImageContrast": "two_view",
        "ImageSet": "datasets",
        "Split": "datasets",
        "ViewPair": "two_view",
        "ViewPairs": "two_view",
        "ViewRecipe": "augment",
        "Views": "augment",
        "channel_statistics": "augment",
        "epoch_batches": "batches",
        "load": "datasets",
        "projection_head": "encoders",
        "resnet": "encoders",
        "stem_for": "encoders",
    },
)
