"""Images: data sets, random views, ResNets, and contrastive models of two views.

Names are imported on first use, so that reading a set does not import torchvision or kornia.
"""

from gcl_hard.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, __file__, "images")
