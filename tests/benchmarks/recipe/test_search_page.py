"""The page of a search: what it says is true of the numbers, whatever they are."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.recipe.page import in_short, search_page, write_search
from benchmarks.recipe.search import Chosen, said
from gcl_hard.errors import InputError
from gcl_hard.reports.tables import interval
from gcl_hard.runs.plan import Run
from gcl_hard.settings.graphs import GraphConfig
from tests.benchmarks.recipe.made_search import SEEDS, Bench, chosen
from tests.reports.made import sentences
from tests.said import says

COMMAND = "python -m benchmarks.recipe search --search mine.yaml"
ABLATIONS = {
    "rate": [{"lr": 0.1}, {"lr": 0.2}, {"lr": 0.3}],
    "width": [{"dim": 8}],
    "length": [{"epochs": 60}],
    "readout": [{"readout": "mean"}],
}
GAINED = {
    ("lr", 0.1): (2.0, 0.5), ("lr", 0.2): (-3.0, 0.5), ("lr", 0.3): (1.9, 0.1),
    ("dim", 8): (3.0, 5.0), ("epochs", 60): (1.0, 1.0), ("readout", "mean"): (0.4, 2.0),
}  # fmt: skip
"""Points on both sets, and spread."""


def effect(config: GraphConfig) -> tuple[float, float]:
    """Width and rate do not add up; dim is noisy; lr 0.1 does more on MUTAG."""
    if config.is_baseline:
        return (7.0 if config.dim == 8 else 0.0), 0.0
    found = [v for (name, value), v in GAINED.items() if getattr(config, name) == value]
    both = config.dim == 8 and config.lr == 0.1
    extra = 6.0 * (config.dataset == "MUTAG" and config.lr == 0.1 and not both)
    extra -= 6.0 * (config.dataset == "ENZYMES" and config.lr == 0.1 and not both)
    return sum(p for p, _ in found) - 3.0 * both + extra, sum(s for _, s in found)


@pytest.fixture(scope="module")
def searched() -> tuple[Chosen, Bench]:
    return chosen(ABLATIONS, effect)


def text(found: Chosen) -> str:
    return search_page(found, COMMAND)


def section(found: Chosen, name: str) -> str:
    """The section whose heading has a word."""
    parts = re.split(r"^## ", text(found), flags=re.M)[1:]
    (part,) = (p for p in parts if says(p.partition("\n")[0], name))
    return part


def rows(part: str) -> list[list[str]]:
    """Cells of the table, without its rule."""
    lines = [line for line in part.splitlines() if line.startswith("|")]
    configs = [[config.strip() for config in line.strip("|").split("|")] for line in lines]
    assert len({len(row) for row in configs}) == 1
    return configs[:1] + configs[2:]


def listed(found: Chosen, side: str) -> list[str]:
    """What the list has with intervals on one side of 0, without gains."""
    (line,) = (x for x in section(found, "chosen").splitlines() if says(x, "interval", side, 0))
    names = line.split(": ", 1)[1].split("; ")
    return [name.rpartition(" (")[0] for name in names if "(" in name]


def test_every_ablation_has_its_row_and_numbers(searched: tuple[Chosen, Bench]) -> None:
    found, _ = searched
    heads, *body = rows(section(found, "alternative"))
    part, setting, *sets, whole, baseline = heads
    assert says(part, "part")
    assert says(whole, "sets")
    assert (setting, sets, baseline) == ("setting", ["MUTAG", "ENZYMES"], "untrained")
    assert [row[0] for row in body] == ["rate", "", "", "width", "length", "readout"]
    for row, one in zip(body, found.alternatives, strict=True):
        assert row[1].removesuffix(" *helping*") == said(one.settings)
        gains = [one.gains["MUTAG"], one.gains["ENZYMES"], one.gain]
        untrained = one.by_method["untrained"]
        assert row[2:] == [*map(interval, gains), interval(untrained) if untrained.mean else "–"]
    assert [row[-1].partition(" ")[0] for row in body] == ["–", "–", "–", "+7.0", "–", "–"]


def test_what_helps_is_marked_and_nothing_else(searched: tuple[Chosen, Bench]) -> None:
    found, _ = searched
    marked = {row[1].removesuffix(" *helping*") for row in rows(section(found, "alternative"))
              if row[1].endswith("*helping*")}  # fmt: skip
    best: dict[str, tuple[float, float, str]] = {}
    for one in found.alternatives:
        half = np.hypot(*((g.high - g.low) / 2 for g in one.gains.values())) / 2
        mean = np.mean([g.mean for g in one.gains.values()])
        best[one.ablation] = max(best.get(one.ablation, (-9.0, 0.0, "")),
                              (mean, half / 1.96, said(one.settings)))  # fmt: skip
    assert marked == {name for mean, error, name in best.values() if mean > error}
    assert marked == {"lr 0.1", "dim 8", "epochs 60"}
    assert said(found.left_out[0].settings) in marked  # though the recipe has it not


def test_a_setting_that_comes_with_another_ablation_is_not_marked() -> None:
    linear = {"kernel": "linear", "c_grid": (0.1, 1.0)}
    ablations = {"kernel": [linear], "grid": [{"c_grid": (0.1, 1.0)}]}
    found, _ = chosen(ablations, lambda config: (2.0 * (config.kernel == "linear"), 0.0))
    assert found.best == linear
    marks = [row[1].endswith("*helping*") for row in rows(section(found, "alternative"))[1:]]
    assert marks == [True, False]


def test_intervals_without_0_are_listed_by_their_side(searched: tuple[Chosen, Bench]) -> None:
    found, _ = searched
    clear = {
        name: [said(one.settings) for one in found.alternatives if outside(one.gain)]
        for name, outside in (
            ("above", lambda g: g.low > 0), ("below", lambda g: g.high < 0),
        )
    }  # fmt: skip
    assert listed(found, "above") == clear["above"] == ["lr 0.1", "lr 0.3"]
    assert listed(found, "below") == clear["below"] == ["lr 0.2"]


def test_the_recipe_and_what_was_left_out_are_named(searched: tuple[Chosen, Bench]) -> None:
    found, _ = searched
    assert found.best == {"dim": 8, "epochs": 60}
    said_first, *_ = in_short(found)
    gained = interval(found.joined[-1].gain)
    assert says(said_first, "recipe", "sets", "start", "dim 8, epochs 60", gained)
    assert f"- R{said_first[1:]}." in section(found, "chosen")
    joined = section(found, "joined")
    names = [row[0] for row in rows(joined)[1:]]
    assert names == ["dim 8", "dim 8, epochs 60"]
    left = found.left_out[0]
    assert says(sentences(joined), "left", f"lr 0.1 ({interval(left.gain)})")
    for row, one in zip(rows(joined)[1:], found.joined, strict=True):
        assert row[3] == interval(one.gain)


def test_what_a_baseline_gains_by_the_recipe_is_said(searched: tuple[Chosen, Bench]) -> None:
    found, _ = searched
    gained = found.joined[-1].by_method["untrained"]
    assert gained.mean == pytest.approx(7.0)  # dim 8 is in it
    assert says(section(found, "chosen"), "untrained", interval(gained), "recipe")


def test_a_recipe_of_its_own_is_named_with_its_gain_over_the_recipe_for_all() -> None:
    def own(config: GraphConfig) -> tuple[float, float]:
        sign = 1 if config.dataset == "MUTAG" else -1
        return 4.0 * (config.epochs == 60) + sign * 2.0 * (config.dim == 8), 0.25 * (
            config.dim == 8
        )

    found, bench = chosen(ABLATIONS, own)
    gained = interval(found.own["MUTAG"].gains["MUTAG"])
    assert gained.startswith("+2.0 [+1.6")
    _, line = in_short(found)
    assert says(line, "recipe", "MUTAG", "epochs 60, dim 8", gained)
    assert f"- R{line[1:]}." in section(found, "chosen")
    scores = {(row[0], row[1]): row[2:] for row in rows(section(found, "inner"))[1:]}
    assert list(scores) == [(m, n) for m in ("untrained", "hucl", "hscl")
                            for n in ("start", "chosen")]  # fmt: skip
    settings = {"start": [{}, {}], "chosen": [{"epochs": 60, "dim": 8}, {"epochs": 60}]}
    for (method, name), shown in scores.items():
        for dataset, given, percent in zip(
            ("MUTAG", "ENZYMES"), settings[name], shown, strict=True
        ):
            config = found.search.config(dataset, method, given)
            made_up = [bench.accuracies(Run(config, seed, inner=True)) for seed in SEEDS]
            assert float(percent) == pytest.approx(np.mean(made_up), abs=0.0501)


def test_where_nothing_helped_the_page_says_so() -> None:
    found, _ = chosen(ABLATIONS, lambda _: (0.0, 0.0))
    whole, own = in_short(found)
    assert says(whole, "recipe", "sets", "start")
    assert says(own, "recipe", "own")
    assert not re.search(r"\d|MUTAG|ENZYMES", whole + own)
    assert says(section(found, "joined"), "nothing")
    assert not re.search(r"\d|\|", section(found, "joined"))
    assert listed(found, "above") == listed(found, "below") == []
    assert "*helping*" not in "".join(row[1] for row in rows(section(found, "alternative")))


def test_the_page_says_how_it_was_made(searched: tuple[Chosen, Bench]) -> None:
    found, _ = searched
    first = text(found).split("```")[0]
    assert says(sentences(first), 3, "folds", "`inductive`", "seeds", "4, 9")
    assert f"```bash\n{COMMAND}\n```" in text(found)
    ablations = section(found, "alternative")
    assert says(ablations, "start", "contrast two-view, lr 0.001, epochs 30")
    assert says(sentences(ablations), "mean", "hucl, hscl")
    assert says(sentences(ablations), "gains", "untrained", "decide")
    assert says(sentences(ablations), "interval", 6, 0.3)


def test_without_a_baseline_none_is_spoken_of() -> None:
    found, _ = chosen(ABLATIONS, effect, methods=("hscl",))
    assert says(rows(section(found, "alternative"))[0][-1], "sets")
    assert not says(text(found), "decide")
    assert not says(text(found), "untrained")


def test_a_page_is_written_where_it_can_be(searched: tuple[Chosen, Bench], tmp_path: Path) -> None:
    path = tmp_path / "recipe.md"
    picture = path.with_name("recipe-ablations.png")
    assert write_search(searched[0], path, command=COMMAND) == [path, picture]
    assert path.read_bytes().decode() == search_page(searched[0], COMMAND, figure=picture.name)
    with pytest.raises(InputError, match=r"\bwrite\b.*: Is a directory"):
        write_search(searched[0], tmp_path, command=COMMAND)
