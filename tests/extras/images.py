"""Two views of scikit-learn's digits, a small net in single precision and in bf16, and a probe."""

from dataclasses import replace

from gcl_hard.evaluation import linear_probe
from gcl_hard.images import (
    ImageContrast,
    Split,
    ViewPairs,
    ViewRecipe,
    Views,
    channel_statistics,
    fast_net,
    load_images,
)
from gcl_hard.training.loop import Optimisation, train
from tests.extras.absent import refused_import

digits = load_images("digits").split("train")
some = Split(digits.images[:256], digits.labels[:256])
mean, std = channel_statistics(some.images)
views = Views(ViewRecipe(flip=0.0), size=8, mean=mean, std=std)
model = ImageContrast(fast_net(), method="hscl")
once = Optimisation(epochs=1, lr=0.001)
train(model, ViewPairs(some, views, batch_size=128), once)
train(model, ViewPairs(some, views, batch_size=128), replace(once, precision="bf16-mixed"))
z = model.embed(some.images, views)
assert 0 < linear_probe(z, some.labels, z, some.labels, seed=0).accuracy <= 1

refused_import("gcl_hard.evaluate", "bench")
refused_import("gcl_hard.graphs.GIN", "graphs")
