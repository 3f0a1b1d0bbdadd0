"""An encoder of timm."""

import torch

from gcl_hard.images import image_encoder

encoder = image_encoder("timm:resnet10t")
assert encoder(torch.randn(2, 3, 64, 64)).shape == (2, encoder.out_dim)
