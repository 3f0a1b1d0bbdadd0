"""A hardening of your own in a sampler, both checked, and a loss that uses them."""

import torch

from gcl_hard import ContrastiveLoss, Hardening, NegativeSampler
from gcl_hard.testing import HardeningChecks, SamplerChecks


class Plateau(Hardening):
    """Exponential up to a cosine; beyond it, where false negatives lie, weights stay the same."""

    def __init__(self, beta=2.0, cosine=0.5):
        self.beta, self.cosine = beta, cosine

    def log_eta(self, rows):
        return self.beta * rows.similarity.clamp(max=self.cosine) / rows.temperature


class TestPlateau(HardeningChecks):  # `pytest own_hardening.py` runs these checks
    def make(self):
        return Plateau()


class TestSampler(SamplerChecks):
    def make(self):
        return NegativeSampler("other_labels", Plateau())


if __name__ == "__main__":
    torch.manual_seed(0)
    z1, z2, labels = torch.randn(32, 8), torch.randn(32, 8), torch.arange(32) % 4
    sampler = NegativeSampler("other_labels", Plateau())
    loss = ContrastiveLoss(sampler, positives="class", temperature=0.5)
    print(f"loss {loss(z1, z2, labels):.3f}")
