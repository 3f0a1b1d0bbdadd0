"""What a page of results explains: what encoders have seen, and how the tests work."""

from __future__ import annotations

from collections.abc import Sequence

from gcl_hard.experiments.lines import LEVEL, Line
from gcl_hard.experiments.reporting.pick import label_aware
from gcl_hard.experiments.reporting.words import of_images

SEEN = {
    "paper": "One encoder per seed, trained on all graphs: every encoder has seen the graphs it is "
    "tested on.",
    "split": "One encoder per seed, trained on no test image; all images are normalised by the "
    "channels of those that it is trained on. The test images are read once, after the last epoch, "
    "by a linear probe on frozen embeddings. Where the probe has several learning rates (or C) to "
    "choose from, it chooses on a fifth of its training images and is then trained on all of them.",
    "inductive": "One encoder per seed and fold, trained on that fold's training graphs only: a "
    "test graph is no anchor, no positive, no candidate and in no running statistic.",
}
SEEN_LABELS = {
    "split": "The label-aware encoders ({}) were trained with the labels of the training images.",
    "paper": "**The label-aware encoders ({}) have seen the labels of the graphs they are tested "
    "on**; their accuracies are no estimate for new graphs.",
    "inductive": "C of the SVM is chosen by cross-validation inside the training fold, and the "
    "label-aware encoders ({}) have seen the labels of that cross-validation.",
}

RANKS = """- **Ranks.** Methods are ranked on each data set and ranks averaged; Friedman's test
  asks whether any differ, and ranks that differ by no more than the critical difference (Nemenyi)
  are not told apart (Demšar, JMLR 7, 2006)."""

SPLIT_TESTS = f"""## How the tests work

Two methods are compared on the same seeds. All seeds share the split, so a paired t-test over seeds
asks whether training anew would show the difference **on these test images**; it needs two seeds
and knows nothing of other test images. How far those may move a single accuracy is its standard
error, √(p (1 − p) / n), in the table of the terminal (s.e.) and in the CSV (se_test).

- **Holm.** p-values are corrected (Holm 1979) over all lines, floors included, that are compared
  with one control on one data set. A difference counts as significant if the corrected p is below
  {LEVEL:g}. What is not significant is not shown to be equal.
- **Wilcoxon.** In brackets, the signed-rank test over seeds, corrected in the same way.
- Intervals in the figures are at 95 %, over seeds.
{RANKS}
- Lines that are best on the test images are not tested: they were chosen there."""

TESTS = rf"""## How the tests work

Two methods are compared on the same folds of the same seeds. Training sets overlap, so folds are
not independent, and an ordinary t-test finds differences that are not there. The corrected
resampled t-test enlarges the variance of the mean difference $\bar d$ over all $J$ pairs of seed
and fold by the share of test to training graphs:

$$
t = \frac{{\bar d}}{{\sqrt{{\left(\frac{{1}}{{J}} + \frac{{n_\text{{test}}}}{{n_\text{{train}}}}
\right) s_d^2}}}}, \qquad J - 1 \text{{ degrees of freedom}}
$$

(Nadeau and Bengio, Machine Learning 52, 2003; for several runs Bouckaert and Frank, PAKDD 2004.)
Intervals in the figures are at 95 %, with the same correction.

- **Holm.** p-values are corrected (Holm 1979) over all lines, floors included, that are compared
  with one control on one data set under one protocol. A difference counts as significant if the
  corrected p is below {LEVEL:g}. What is not significant is not shown to be equal.
- **Wilcoxon.** In brackets, the signed-rank test over seeds' means, corrected in the same way.
{RANKS}
- Lines that are best on the test folds are not tested: they were chosen there.
- Under protocol `paper` the folds of a seed share one encoder, which has seen their test graphs. No
  correction knows of that: p may be too small there."""


def seen(own: Sequence[Line], protocol: str) -> str:
    """What the protocol lets an encoder see."""
    aware = ", ".join(dict.fromkeys(line.method for line in own if label_aware(line)))
    said = [SEEN[protocol]]
    if aware:
        said.append(SEEN_LABELS[protocol].format(aware))
    if any(line.is_baseline for line in own) and not of_images(protocol):
        said.append("Floors are fitted to training folds alone, under either protocol.")
    return " ".join(said)
