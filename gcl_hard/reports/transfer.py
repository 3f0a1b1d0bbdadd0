"""The page of transfer: scores of molecules by set, and paired differences."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gcl_hard.errors import InputError
from gcl_hard.evaluation.checks import Floats, Indices
from gcl_hard.evaluation.metrics import metric as metric_of
from gcl_hard.evaluation.transfer import (
    Bootstrap,
    Score,
    paired_bootstrap,
    resampled_auc,
    resampled_rmse,
)
from gcl_hard.losses.methods import METHODS
from gcl_hard.reports import theme
from gcl_hard.reports.html import write_html
from gcl_hard.reports.rendering import rendered, write_files
from gcl_hard.reports.result_figures import learning_curves
from gcl_hard.reports.tables import escaped
from gcl_hard.runs.choice import best, inner_scores
from gcl_hard.runs.record import RunResult
from gcl_hard.settings.molecules import CHIRALITY, PROBED, SUPERVISED, MoleculeConfig

PUBLISHED = pd.DataFrame(
    {
        "RMSE": [0.669, 0.738, 0.909, 0.942, 1.118],
        "RMSE of molecules with an activity cliff": [0.758, 0.882, 0.983, 1.011, 1.145],
    },
    index=["SVM, ECFP", "LSTM, SMILES", "GCN", "GAT", "MPNN"],
)
"""Means over twenty of the thirty sets of van Tilborg, Alenicheva & Grisoni (2022), *Exposing the
Limitations of Molecular Machine Learning with Activity Cliffs*."""
COLUMNS = ("row", "dataset", "split", "seed", "metric", "score", "train", "pretrained")
"""Of each run and metric; the last two are the number of molecules that it is trained on, and that
its encoder was pre-trained on: 0 for an untrained one, missing without an encoder."""
TWENTY = 20
"""Sets that the published means are over."""
WIDEST = 8
"""Most columns of a table."""
METRICS = ("auc", "rmse", "cliff_rmse")
"""In the order of the page."""


class Shown(NamedTuple):
    """A finished run, and where it is shown.

    Attributes:
        row: label of its row.
        result: its record.
        choice: label of the row of the best of several settings; empty if there is one.
    """

    row: str
    result: RunResult
    choice: str = ""

    @property
    def config(self) -> MoleculeConfig:
        """Its settings."""
        return cast("MoleculeConfig", self.result.run.config)

    @property
    def dataset(self) -> str:
        """Name of its set."""
        return self.config.set_name

    @property
    def split(self) -> str:
        """Name of its split."""
        return str(self.result.data["split"])

    @property
    def data(self) -> dict[str, Any]:
        """Facts of its record."""
        return self.result.data

    def score(self, metric: str) -> float | None:
        """Its value of a metric; None if it has none, or one that is not defined."""
        value = self.result.scores.get(metric, [np.nan])[0]
        return None if np.isnan(value) else value


CLIFF_ALT = "Hard negatives on molecules with an activity cliff: RMSE of hscl less that of scl"


def title(metric: str) -> str:
    """A metric with its unit."""
    return metric_of(metric).label


def frame(results: Sequence[Shown]) -> pd.DataFrame:
    """One row for each run and metric; its columns are :data:`COLUMNS`."""
    found = [
        {
            "row": one.row, "dataset": one.dataset, "split": one.split,
            "seed": one.result.seed, "metric": metric, "score": one.result.scores[metric][0],
            "train": one.data["sizes"][0], "pretrained": one.data.get("pretrained"),
        }
        for one in results
        for metric in METRICS
        if metric in one.result.scores
    ]  # fmt: skip
    return pd.DataFrame(found, columns=[*COLUMNS])


def table(data: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Mean ± standard deviation over seeds and splits, by representation and set.

    Many sets are rows, few are columns.
    """
    mine = data[data["metric"] == metric]
    grouped = mine.groupby(["row", "dataset"], sort=False)["score"]
    digits = metric_of(metric).digits
    mean, deviation = grouped.mean(), grouped.std(ddof=1)
    spread = deviation.map(lambda one: "" if np.isnan(one) else f" ± {one:.{digits}f}")
    cells = mean.map(f"{{:.{digits}f}}".format) + spread
    found = cells.unstack("dataset").reindex(
        index=mine["row"].drop_duplicates(), columns=mine["dataset"].drop_duplicates()
    )  # fmt: skip
    means = mean.unstack("dataset").reindex(index=found.index)
    if found.shape[1] > 1:
        found.insert(0, "mean", means.mean(axis=1, skipna=False).map(f"{{:.{digits}f}}".format))
    found.index.name = None
    found.columns.name = None
    found = found.replace("nan", "–").fillna("–")
    return found if found.shape[1] <= WIDEST else found.T


def differences(results: Sequence[Shown], metric: str, against: str | None = None) -> pd.DataFrame:
    """Each row less each control on the sets, splits and seeds that both have, with intervals.

    What no seed changes, such as a fingerprint, has the score of all seeds. A cell ends with the
    number of sets and splits, and of seeds where something is trained.

    Args:
        results: finished runs.
        metric: one of :data:`METRICS`.
        against: the label of one more control.
    """
    by_row = _by_row(results, metric)
    found: dict[str, dict[str, str]] = {}
    digits = metric_of(metric).digits
    for row, cases in by_row.items():
        for name, control in _controls(row, against, by_row).items():
            others = by_row.get(control, {})
            pairs = [_matched(others[case], cases[case]) for case in cases if case in others]
            pairs = [one for one in pairs if one]
            if row == control or not pairs:
                continue
            got = _difference(pairs, metric)
            text = f"{got.difference:+.{digits}f} [{got.low:+.{digits}f}, {got.high:+.{digits}f}]"
            counts = "; ".join([str(len(pairs)), *_seeds_of(pairs)])
            found.setdefault(row, {})[f"− {name}"] = f"{text} ({counts})"
    return pd.DataFrame.from_dict(found, orient="index").fillna("–")


def chosen(results: Sequence[Shown]) -> list[Shown]:
    """For every choice, the result that is best on the validation part, by set, split and seed.

    A choice without the validation score of one of its results is not made.
    """
    groups: dict[tuple[Any, ...], list[Shown]] = {}
    for one in results:
        if one.choice:
            key = one.choice, one.dataset, one.split, one.result.seed
            groups.setdefault(key, []).append(one)
    found = []
    for (row, *_), mine in groups.items():
        if all(scores := [inner_scores(one.result) for one in mine]):
            higher = metric_of(mine[0].result.metric).higher
            found.append(mine[best([one for (one,) in scores], higher=higher)]._replace(row=row))
    return found


def _controls(row: str, against: str | None, rows: Iterable[str]) -> dict[str, str]:
    """The rows that one is compared with: the untrained one of its shape where there is
    one, and else the first; for a fine-tuned encoder the frozen one, too, and one with a supervised
    head; of hscl, scl; and one more.
    """
    curve = _without_share(row)
    share = row.removeprefix(curve)
    frozen = curve.partition(", ")[0]
    new = [one for one in map(_without_share, rows) if re.fullmatch("untrained(:[^+,]+)?", one)]
    alike = [one for one in new if one.partition(":")[2] in re.split(r"[+:]", frozen)]
    found = {"untrained": next(iter(alike + new), "untrained"), "ecfp": "ecfp", "frozen": frozen}
    found["supervised"] = f"{frozen}, supervised"
    if ", hscl" in curve:
        found["scl"] = _scl(curve)
    if against is not None:
        found[f"“{against}”"] = against  # in quotes, as other columns may have its name
    return {name: control + share for name, control in found.items()}


def _scl(row: str) -> str:
    """The row of scl with the settings of one of hscl, which has β, too."""
    return re.sub(", beta [^,]+", "", row.replace(", hscl", ", scl"))


def _without_share(row: str) -> str:
    """A row's label without the share of the training part, where it names one."""
    return re.sub(r", [\d.e-]+ % of the training part$", "", row)


def learning_figure(data: pd.DataFrame, metric: str) -> Figure | None:
    """Scores against the number of training molecules, mean and standard deviation over seeds.

    Args:
        data: as of :func:`frame`.
        metric: one of :data:`METRICS`.

    Returns:
        The figure; None for one share of the training parts.
    """
    mine = data[data["metric"] == metric].assign(method=lambda one: one["row"].map(_without_share))
    keys = ["dataset", "split", "method"]
    if mine.empty or mine.groupby(keys)["row"].nunique().max() < 2:
        return None
    points = mine.groupby([*keys, "row"], sort=False).agg(
        graphs=("train", "mean"), mean=("score", "mean"), half=("score", "std")
    )  # fmt: skip
    names = mine["method"].drop_duplicates()
    of = {name: next((part for part in name.split(", ")[1:]), name) for name in names}
    return learning_curves(
        points.reset_index().sort_values("graphs"), value=title(metric),
        training="training molecules", styles=theme.line_styles(of),
    )  # fmt: skip


def size_figure(data: pd.DataFrame, metric: str) -> Figure | None:
    """Scores of frozen encoders against the number of molecules that they were pre-trained on, mean
    and standard deviation over seeds, beside an untrained encoder.

    Args:
        data: as of :func:`frame`.
        metric: one of :data:`METRICS`.

    Returns:
        The figure, of sets with encoders of several sizes, one of each; None if there is none.
    """
    alone = ~data["row"].str.contains(r"[+,]")
    mine = data[(data["metric"] == metric) & alone & data["pretrained"].notna()]
    sizes_of = mine[mine["pretrained"] > 0].groupby("dataset")["pretrained"].nunique()
    mine = mine[mine["dataset"].isin(sizes_of.index[sizes_of > 1])]
    if mine.empty or mine.groupby(["dataset", "pretrained"])["row"].nunique().max() > 1:
        return None
    sizes = sorted({*mine["pretrained"]} - {0})
    keys = ["dataset", "pretrained"]
    points = mine.groupby(keys, sort=False)["score"].agg(mean="mean", half="std").reset_index()
    untrained = points[points["pretrained"] == 0].drop(columns="pretrained")
    curves = pd.concat([
        points[points["pretrained"] > 0].assign(method="pre-trained"),
        untrained.merge(pd.DataFrame({"pretrained": sizes}), "cross").assign(method="untrained"),
    ])  # fmt: skip
    return learning_curves(
        curves.rename(columns={"pretrained": "graphs"}).sort_values("graphs"),
        value=title(metric), training="molecules of pre-training",
        styles=theme.line_styles({"pre-trained": "hucl", "untrained": "untrained"}),
    )  # fmt: skip


def cliff_figure(results: Sequence[Shown]) -> Figure | None:
    """hscl less scl on molecules with an activity cliff: sets from the smallest share of such
    molecules upwards, a panel for each kind of embedding.

    Returns:
        The figure; None without sets that both have been scored on.
    """
    metric, by_row = "cliff_rmse", _by_row(results, "cliff_rmse")
    rows = [row for row in by_row if ", hscl" in row and _scl(row) in by_row]
    best = [row for row in rows if row.endswith(", chosen")] or rows
    found = []
    for row in best:
        cases, scl = by_row[row], by_row[_scl(row)]
        for case in [case for case in cases if case in scl]:
            if pairs := _matched(scl[case], cases[case]):
                share = float(np.mean(next(iter(pairs.values()))[1].cliffs))
                found.append((share, _difference([pairs], metric), row, case[0]))
    return _cliff_panel(found) if found else None


@theme.themed
def _cliff_panel(found: Sequence[tuple[float, Bootstrap, str, str]]) -> Figure:
    names = list(dict.fromkeys(row for _, _, row, _ in found))
    sets = sorted({(share, dataset) for share, _, _, dataset in found})
    figure, panels = theme.panels(
        len(names), height=1.2 + 0.19 * len(sets), top=0.3, grid="x", sharey=True
    )
    for panel, name in zip(panels, names, strict=True):
        own = [(sets.index((share, dataset)), got)
               for share, got, row, dataset in found if row == name]  # fmt: skip
        y, hue = [at for at, _ in own], theme.colour("hscl")
        panel.axvline(0, color=theme.INK, linewidth=0.8)
        panel.hlines(y, [got.low for _, got in own], [got.high for _, got in own], color=hue)
        panel.plot([got.difference for _, got in own], y, "o", color=hue, markersize=4.5)
        panel.set_title(name.replace(", ", ",\n"))
        panel.locator_params(axis="x", nbins=5)  # more run into each other where panels are narrow
    panels[0].set_yticks(range(len(sets)), [f"{name}, {100 * share:.0f} %" for share, name in sets])
    panels[0].set_ylim(-0.6, len(sets) - 0.4)
    figure.supxlabel(
        "RMSE on molecules with an activity cliff (their share of the test part), hscl less scl",
        fontsize=theme.TEXT,
    )
    return figure


@dataclass
class Predictions:
    """Targets and predictions of a test part, [n, T], and which molecules have a cliff.

    Its embedding is the encoder, empty without one, and what is joined with it; it is drawn if its
    seed changes what it predicts.
    """

    y: Floats
    predictions: Floats
    cliffs: Any
    embedding: tuple[str, ...]
    drawn: bool
    _scores: dict[tuple[str, int], Floats] = field(default_factory=dict)

    def score(self, metric: str, ids: Indices) -> Floats:
        """On several draws of the molecules, [B]. A row is compared with several on the same draws,
        so scores are kept.
        """
        key = metric, hash(ids.tobytes())
        if key not in self._scores:
            self._scores[key] = self._score(metric, ids)
        return self._scores[key]

    def _score(self, metric: str, ids: Indices) -> Floats:
        if metric == "auc":
            return 100 * resampled_auc(self.y, self.predictions, ids)
        which = self.cliffs if metric == "cliff_rmse" else None
        return resampled_rmse(self.y[:, 0], self.predictions[:, 0], ids, which)

    @classmethod
    def of(cls, one: Shown) -> Predictions:
        """Those of a finished run.

        Raises:
            InputError: for a record that lacks them.
        """
        config, folds = one.config, one.result.tested()
        if len(folds) != 1:
            raise InputError(
                f"{one.result.name} holds no predictions: run its command with --force"
            )
        (fold,) = folds
        y, found = (np.array(each, float).reshape(len(fold.items), -1)
                    for each in (fold.targets, fold.predicted))  # fmt: skip
        tuned = config.method not in PROBED or config.train_share < 1
        embedding = (config.encoder if config.has_encoder else "", *config.parts)
        return cls(y, found, fold.masks.get("cliffs"), embedding, tuned or config.is_new)

    @property
    def is_trained(self) -> bool:
        """Whether other seeds would give other predictions."""
        return self.drawn or bool(self.embedding[0])

    def is_fixed(self, beside: Predictions) -> bool:
        """Whether it is the same for all seeds of another: it has no encoder, or the frozen one
        that the other begins with.
        """
        same = not self.is_trained or self.embedding == beside.embedding
        return same and not self.drawn


def _by_row(
    results: Sequence[Shown], metric: str
) -> dict[str, dict[tuple[str, str], dict[int, Predictions]]]:
    """Predictions of each row on each set and split, by seed."""
    found: dict[str, dict[tuple[str, str], dict[int, Predictions]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for one in results:
        if one.score(metric) is not None:
            found[one.row][one.dataset, one.split][one.result.seed] = Predictions.of(one)
    return found


Pair = tuple[Predictions, Predictions]


def _matched(first: dict[int, Predictions], second: dict[int, Predictions]) -> dict[int, Pair]:
    """Two rows on one set by the seeds that both have; what no seed changes has all of them."""
    found = {}
    for seed in sorted({*first, *second}):
        one, other = first.get(seed), second.get(seed)
        one, other = one or _fixed(first, other), other or _fixed(second, one)
        if one and other:
            found[seed] = one, other
    return found


def _fixed(cases: dict[int, Predictions], beside: Predictions | None) -> Predictions | None:
    """The case of a row that is the same for all seeds, if it is."""
    case = next(iter(cases.values()))
    return case if beside and case.is_fixed(beside) else None


def _seeds_of(sets: Sequence[dict[int, Pair]]) -> list[str]:
    """How many seeds are compared, if a seed changes anything."""
    if not any(one.is_trained for pairs in sets for pair in pairs.values() for one in pair):
        return []
    counts = sorted({len(pairs) for pairs in sets})
    many = "–".join(str(one) for one in dict.fromkeys((counts[0], counts[-1])))
    return [f"{many} seed{'s' * (counts[-1] > 1)}"]


def _difference(sets: Sequence[dict[int, Pair]], metric: str) -> Bootstrap:
    """The second row less the first, mean over sets."""
    seeds = sorted({seed for pairs in sets for seed in pairs})

    def score_of(pairs: dict[int, Pair]) -> Score:
        def score(ids: Indices, which: int) -> Floats:
            missing = np.full(len(ids), np.nan)
            found = [
                pairs[seed][which].score(metric, ids) if seed in pairs else missing
                for seed in seeds
            ]
            return found[0] if len(seeds) == 1 else np.stack(found, axis=1)

        return score

    sized = [(score_of(pairs), len(next(iter(pairs.values()))[0].y)) for pairs in sets]
    return paired_bootstrap(sized, seeds=len(seeds))


def _listed(names: Sequence[str], most: int = 12) -> str:
    """Names in a line; if there are many, the first and their number."""
    return ", ".join(names[:most]) + (f" … ({len(names)})" if len(names) > most else "")


def _markdown(table: pd.DataFrame) -> str:
    """A table whose rows and columns have names of the user's files and sets."""
    named = table.rename(index=escaped, columns=escaped)
    return str(named.to_markdown(disable_numparse=True))


def all_scores(data: pd.DataFrame) -> pd.DataFrame:
    """A line of texts for each representation, set, split and metric: mean ± standard deviation."""
    keys = ["metric", "dataset", "split", "row"]
    of = data.groupby(keys, sort=False)["score"]
    found = pd.DataFrame({"mean": of.mean(), "std": of.std(ddof=1), "seeds": of.size()})
    found = found.reset_index()
    texts = []
    for one in found.itertuples():
        text = metric_of(str(one.metric)).text
        spread = "" if np.isnan(one.std) else f" ± {text(one.std)}"
        texts.append(text(one.mean) + spread)
    named = found[keys].assign(**{"mean ± std": texts, "seeds": found["seeds"].astype(str)})
    return named.rename(columns={"dataset": "data set", "row": "representation"})


def heading(results: Sequence[Shown]) -> str:
    """What a page is about: the kind of its sets, their number, and what was done."""
    configs = [one.config for one in results]
    sets, splits, shares = (
        dict.fromkeys(getattr(config, name) for config in configs)
        for name in ("dataset", "split", "train_share")
    )
    tuned = dict.fromkeys(one.method for one in configs if one.method in (*METHODS, SUPERVISED))
    cliffs = any("masks" in (one.result.test or {}) for one in results)
    parts = [
        f"{len(sets)} sets",
        f"fine-tuned by {', '.join(tuned)}" if tuned else "frozen encoders",
        ", ".join(splits),
        f"shares {', '.join(f'{one:g}' for one in shares)}" * (len(shares) > 1),
    ]
    kind = "Molecules with activity cliffs" if cliffs else "Molecules"
    return f"{kind}: {'; '.join(filter(None, parts))}"


def write_page(
    path: Path,
    results: Sequence[Shown],
    command: str,
    n_open: int,
    *,
    too_large: Sequence[str] = (),
    against: str | None = None,
) -> None:
    """Write the page, with its figures next to it.

    Args:
        path: page.md; its figures are page-cliffs.png, page-curve-METRIC.png and
            page-size-METRIC.png.
        results: finished runs.
        command: that makes it.
        n_open: number of runs that are not finished.
        too_large: runs that were left out because their sets are too large.
        against: see :func:`differences`.
    """
    data = frame(results)
    metrics = [metric for metric in METRICS if (data["metric"] == metric).any()]
    parts = [
        {
            "title": title(metric),
            "lower": not metric_of(metric).higher,
            "table": _markdown(table(data, metric)),
            "differences": _markdown(differences(results, metric, against)),
        }
        for metric in metrics
    ]
    left_out = sorted({
        f"{one.dataset} ({one.split}): {', '.join(names)}"
        for one in results if (names := one.data.get("one_class"))
    })  # fmt: skip
    few = sorted({
        f"{one.dataset} ({one.split}): {len(names)}"
        for one in results if (names := one.data.get("few"))
    })  # fmt: skip
    invalid = sorted({f"{one.dataset}: {n}" for one in results if (n := one.data["invalid"])})
    targets = {one.dataset: names for one in results if (names := one.data.get("tasks"))}
    drawn = (
        {"cliffs": (cliff_figure(results), CLIFF_ALT)}
        | {
            f"curve-{metric}": (learning_figure(data, metric), f"{title(metric)}, learning curve")
            for metric in metrics
        }
        | {
            f"size-{metric}": (size_figure(data, metric), f"{title(metric)}, by pre-training")
            for metric in metrics
        }
    )
    figures = {
        path.with_name(f"{path.stem}-{name}.png"): (figure, alt)
        for name, (figure, alt) in drawn.items()
        if figure is not None
    }
    with_cliffs = {one.dataset for one in results if "masks" in (one.result.test or {})}
    all_cliffs = len(with_cliffs) == TWENTY
    splits = [*dict.fromkeys(data["split"])]
    text = rendered(
        "transfer.md.j2", heading=heading(results), parts=parts, cliffs="cliff_rmse" in metrics,
        command=command,
        figures={one.name: alt for one, (_, alt) in figures.items()},
        published=PUBLISHED.T.to_markdown() if all_cliffs else "",
        n_open=n_open, n=sum(one.row != one.choice for one in results),
        seeds=sorted(set(data["seed"])), splits=splits,
        chirality=[one for one in splits if one.endswith(CHIRALITY)],
        left_out=left_out, too_large=too_large, few=few, invalid=invalid,
        targets={name: _listed(tasks) for name, tasks in sorted(targets.items())},
        devices=sorted({one.result.device for one in results}),
        days=sorted({one.result.finished[:10] for one in results}),
        sources=sorted({one.result.versions["source"] for one in results}),
    )  # fmt: skip
    drawn_files = {file: figure for file, (figure, _) in figures.items()}
    if path.suffix == ".html":
        write_html(path, text, drawn_files, all_scores(data))
    else:
        write_files({path: text}, drawn_files)
