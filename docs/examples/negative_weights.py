"""Draw how the four main methods weigh the negatives of one image.

python negative_weights.py [FILE.png]: trains an encoder of handwritten digits by ucl, for seconds.
"""

import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from torch import nn

from gcl_hard import Exponential, NegativeSampler, contrastive_loss
from gcl_hard.reports.theme import colour, save, themed

METHODS = {
    "ucl": ("all alike", NegativeSampler("others")),
    "hucl": ("hard ones more", NegativeSampler("others", Exponential(beta=1.0))),
    "scl": ("other classes alone", NegativeSampler("other_labels")),
    "hscl": ("both", NegativeSampler("other_labels", Exponential(beta=1.0))),
}
TEMPERATURE = 0.3
LEFT = -2.0


def trained(pixels):
    """An encoder for which noisy copies of an image are alike."""
    encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128))
    optimizer = torch.optim.Adam(encoder.parameters(), lr=0.003)
    loss = contrastive_loss("ucl", temperature=TEMPERATURE)
    for _ in range(40):
        items = pixels[torch.randint(len(pixels), (128,))]
        optimizer.zero_grad()
        loss(*encoder(items + torch.rand(2, 128, 64) - 0.5)).backward()
        optimizer.step()
    return encoder


@themed
def drawn(images, similarity, same_label):
    """An anchor, the first image, and its candidates; below, their weights by each method."""
    n = len(similarity)
    figure = Figure(figsize=(9, 2.9), layout="constrained")
    top, *panels = figure.subplots(5, 1, sharex=True, height_ratios=[0.62, 1, 1, 1, 1])
    for k, image in enumerate(images, start=-1):
        left = k if k >= 0 else LEFT
        top.imshow(-image.view(8, 8), cmap="gray", extent=(left - 0.45, left + 0.45, 0, 0.9))
    top.set(xlim=(LEFT - 0.7, n - 0.4), ylim=(0, 1), aspect="auto")
    top.axis("off")
    top.text(LEFT, 1.1, "anchor", ha="center")
    top.text(n / 2, 1.1, "other images of the batch, the most similar first", ha="center")
    for panel, (name, (words, sampler)) in zip(panels, METHODS.items(), strict=True):
        q = sampler(
            similarity[None], others=torch.ones(1, n, dtype=torch.bool), temperature=TEMPERATURE,
            same_label=same_label[None],
        ).log_q[0].exp()  # fmt: skip
        for k in same_label.nonzero().flatten().tolist():
            panel.axvspan(k - 0.5, k + 0.5, color="#EEEEEE", zorder=0)
        panel.bar(range(n), q, color=colour(name), width=0.8)
        panel.text(LEFT, 0.08, name, ha="center", weight="bold", color=colour(name))
        panel.text(n - 0.6, 0.17, words, ha="right", va="top")
        panel.set(ylim=(0, 0.2), xticks=[], yticks=[])
        panel.spines["left"].set_visible(False)
    panels[-1].set_xlabel("bars: weights as negatives; grey: images of the anchor's own class")
    return figure


if __name__ == "__main__":
    torch.manual_seed(0)
    pixels, digits = (torch.tensor(x) for x in load_digits(return_X_y=True))
    pixels = pixels.float() / 16
    encoder = trained(pixels)
    batch = torch.randperm(len(pixels))[:29]
    with torch.no_grad():
        z = nn.functional.normalize(encoder(pixels[batch]), dim=1)
    similarity, order = (z[1:] @ z[0]).sort(descending=True)
    batch = torch.cat([batch[:1], batch[1:][order]])
    figure = drawn(pixels[batch], similarity, digits[batch[1:]] == digits[batch[0]])
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "negative-weights.png")
    save(figure, path)
    print(path)
