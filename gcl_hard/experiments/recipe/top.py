"""The results page: what stands on top of it."""

from __future__ import annotations

from gcl_hard.experiments.presets import TABLES
from gcl_hard.experiments.recipe.answers import answers
from gcl_hard.experiments.recipe.compared import Compared
from gcl_hard.experiments.recipe_table import REPORTED
from gcl_hard.experiments.reporting.words import count, values
from gcl_hard.experiments.results import Results
from gcl_hard.experiments.runs import plan


def top(compared: Compared, command: str) -> list[str]:
    """The answers, what a number is, and the command that makes or finishes the results."""
    told = [*answers(compared), _asked(compared), _number(compared), _open(compared.results)]
    return ["# Results", _quick(compared), *told, f"```bash\n{command}\n```"]


def _quick(compared: Compared) -> str:
    if not compared.quick:
        return ""
    epochs = values((c for c in compared.results.cells if not c.is_baseline), "epochs")
    seeds = count(len(compared.results.seeds), "seed")
    return f"> **A quick look: {seeds}, {epochs or 'no'} epochs; not results.**"


def _asked(compared: Compared) -> str:
    told = (
        f"The answers compare {', '.join(REPORTED)} with our recipe under protocol `inductive`, "
        "where test graphs take no part in training. [What the methods are](methods.md)"
    )
    shown = any(compared.answers.values())
    more = (
        "; [the differences one by one](#paired-differences), the paper's recipe against untrained "
        "among them"
    )
    return f"{told}{more if shown else ''}."


def _number(compared: Compared) -> str:
    seeds = compared.results.seeds
    named = f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
    found = (
        "Our recipe was found by inner scores of other seeds ([the search](recipe.md)), so of "
        "other folds, but of the same graphs: labels of graphs that are tested here took part in "
        "that choice, except those of sets that the search does not name. It was chosen by hucl "
        "and hscl, which favours these over ucl, scl and untrained."
        if set(seeds) <= set(TABLES["recipe"].values["seeds"])
        else "Our recipe was found by inner scores of seeds that [the search](recipe.md) names: "
        "where these are among them, it is flattered."
    )
    return (
        f"A number is an accuracy in percent: the mean ± standard deviation over {named}. {found} "
        f"A seed varies the encoder and the folds; its accuracy is the mean over test folds of an "
        f"SVM on the embeddings, whose C is chosen inside each training fold{_kernel(compared)}. "
        f"The paper's Table II "
        f"by itself, with its grid of β, is [here](results-table-2.md)."
    )


def _kernel(compared: Compared) -> str:
    """What our recipe's SVM sees beside embeddings."""
    kernels = {c.kernel for row in compared.rows("ours") for c in row.cells.values()}
    if not any(kernel.startswith("rbf+") for kernel in kernels):
        return ""
    return (
        "; with our recipe a Weisfeiler-Lehman kernel of the graphs themselves is added to the "
        "embeddings', for untrained too"
    )


def _open(results: Results) -> str:
    n, n_open = len(plan(results.cells, results.seeds, select=False)), len(results.open)
    if not n_open:
        return f"All {n} runs (a seed of a setting each) are finished, by this command:"
    return (
        f"**{n_open} of {n} runs** (a seed of a setting each) **are open**, so answers and numbers "
        f"may change. This command finishes them:"
    )
