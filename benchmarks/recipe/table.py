"""The rows of the table of recipes: baselines, both recipes, ablations, fewer graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from gcl_hard.graphs.tudataset import lacks_edge_labels
from gcl_hard.settings.domains import is_baseline
from gcl_hard.settings.graphs import GRAPH_BASELINES, GraphConfig
from gcl_hard.settings.presets import TABLE_II, recipe

Part = Literal["baselines", "paper", "ours", "off", "on", "fewer"]

ABLATIONS: dict[str, tuple[str, ...]] = {
    "two views": (
        "contrast",
        "objective",
        "hardness_scale",
        "temperature",
        "augmentations",
        "strength",
        "views",
    ),
    "optimiser": ("lr", "lr_schedule", "epochs", "batch_size", "weight_decay"),
    "encoder": ("encoder", "layers", "dim", "readout", "jk", "edge_labels", "virtual_node"),
    "encodings": ("features", "encodings"),
    "SVM": ("standardise", "probe", "kernel", "c_grid"),
    "weights": ("beta", "beta_changes", "detach_weights"),
}
"""Settings that change together when a part is removed from our recipe, or added to the paper's."""
ABLATED = "hscl"
SHARES = (0.1, 0.25, 0.5)
"""Shares of a training fold's graphs in learning curves; the table itself uses all of them."""
CURVES = ("wl-oa", "supervised", "untrained", "hucl", "hscl")
REPORTED = (*TABLE_II["MUTAG"],)
"""Methods of the paper's Table II: its recipe is run with them only, and they run first."""
METHODS = ("ucl", "dcl", "hucl", "hcl", "scl", "hscl", "hscl-tau", *GRAPH_BASELINES)
DATASETS = tuple(TABLE_II)
PROTOCOLS = ("inductive", "transductive")
SEEDS = tuple(range(100, 105))
"""Fresh ones: the search for the recipe used others."""
SCORED_ALIKE = ("untrained", "supervised")
"""Baselines with a row for each recipe, since they use its settings."""


Own = Mapping[str, Mapping[str, Any] | None]
"""The settings of a row by data set; None where it has no configuration."""


@dataclass(frozen=True, eq=False)
class Entry:
    """A row of the table.

    Attributes:
        part: part of the table.
        name: name of the row within it: a method, an ablation, a method and a share.
        method: method of the configurations.
        protocol: protocol of the row.
        configs: configurations by data set.
    """

    part: Part
    name: str
    method: str
    protocol: str
    configs: Mapping[str, GraphConfig]

    @property
    def is_baseline(self) -> bool:
        """Whether nothing contrastive is trained."""
        return is_baseline(self.method)


def papers(*, quick: bool) -> dict[str, Any]:
    """The paper's recipe, defaults but for hardness; few epochs for a smoke run."""
    return {"hardness_scale": "batch-max"} | _epochs(quick=quick)


def ours(dataset: str, *, quick: bool) -> dict[str, Any]:
    """Our recipe for a data set; few epochs for a smoke run."""
    return recipe(dataset) | _epochs(quick=quick)


def _epochs(*, quick: bool) -> dict[str, Any]:
    return {"epochs": GraphConfig.quick["epochs"][0]} if quick else {}


def entries(
    datasets: Sequence[str], methods: Sequence[str], protocols: Sequence[str], *, quick: bool
) -> list[Entry]:
    """The rows of the table, in the order to run them.

    Args:
        datasets: canonical names.
        methods: trained ones and baselines, canonical; the paper's recipe has rows for those of its
            Table II alone.
        protocols: protocols of the trained ones; ablations and learning curves are ``inductive``.
        quick: whether encoders train for few epochs, for a smoke run.

    Returns:
        The rows; an ablation has no configuration on a set where it changes nothing.
    """
    paper = papers(quick=quick)
    papers_own: Own = dict.fromkeys(datasets, paper)
    recipes = {name: ours(name, quick=quick) for name in datasets}

    def row(
        part: Part, name: str, method: str, settings: Own, protocol: Any = "inductive"
    ) -> Entry:
        # Its supervised runs are trained as long as all others, to their last epoch.
        configs = {
            dataset: GraphConfig(
                **own | {"dataset": dataset, "method": method, "protocol": protocol, "patience": 0}
            )
            for dataset, own in settings.items()
            if own is not None
        }
        return Entry(part, name, method, protocol, configs)

    trained = sorted(
        (m for m in methods if m not in GRAPH_BASELINES), key=lambda m: m not in REPORTED
    )
    baselines = [m for m in methods if m in GRAPH_BASELINES]
    rows = [row("baselines", m, m, papers_own) for m in baselines]
    rows += [row("ours", m, m, recipes) for m in baselines if m in SCORED_ALIKE]
    both: tuple[tuple[Part, Own], ...] = (("ours", recipes), ("paper", papers_own))
    rows += [
        row(part, m, m, settings, protocol)
        for part, settings in both
        for protocol in protocols
        for m in trained
        if part == "ours" or m in REPORTED
    ]
    if "inductive" not in protocols:
        return rows
    if ABLATED in trained:
        for ablation, names in ABLATIONS.items():
            off = {d: _ablated(recipes[d], paper, d, names) for d in datasets}
            on = {d: _ablated(paper, recipes[d], d, names) for d in datasets}
            rows += [row("off", ablation, ABLATED, off), row("on", ablation, ABLATED, on)]
    for share in SHARES:
        kernel = {d: {"train_share": share} for d in datasets}
        fewer = {d: {**recipes[d], "train_share": share} for d in datasets}
        rows += [
            row("fewer", f"{share:g}", m, kernel if m == "wl-oa" else fewer)
            for m in CURVES
            if m in methods
        ]
    return [one for one in rows if one.configs]


def _ablated(
    own: Mapping[str, Any], others: Mapping[str, Any], dataset: str, names: Sequence[str]
) -> Mapping[str, Any] | None:
    """A recipe with some settings as in another; None if that changes nothing."""
    base, other = (GraphConfig(dataset=dataset, method=ABLATED, **given) for given in (own, others))
    bare = lacks_edge_labels(dataset)
    changed = {n: getattr(other, n) for n in names if not (bare and n == "edge_labels")}
    moved = replace(base, **changed)
    if moved == base:
        return None
    return {
        name: value
        for name, value in asdict(moved).items()
        if name not in ("dataset", "method", "protocol")
    }
