"""Search spaces: what is fitted to a method and drawn for a trial."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import optuna
import pytest
from gcl_hard.experiments.graph_cell import GraphCell
from optuna.trial import FixedTrial

from gcl_hard.errors import InputError
from gcl_hard.tuning.space import FIXED, Base, Space
from tests.tuning.spaces import BETA, HARDENED, LR, THRESHOLDS, graphs, images, methods, refusal


def names(space: Space) -> list[str]:
    return [dimension.name for dimension in space.dimensions]


# What a file may state


def test_dimensions_alone_are_a_space() -> None:
    assert Space.of({"lr": LR, "beta": BETA}) == Space.of({"space": {"lr": LR, "beta": BETA}})


@pytest.mark.parametrize("given", [{}, {"space": {}}, {"space": None}, {"grid": "paper"}])
def test_an_empty_space_is_refused_with_an_example(given: Any) -> None:
    assert "search space is empty; it needs a setting such as {beta:" in refusal(given)


@pytest.mark.parametrize("given", [[LR], "beta", None, 3])
def test_what_is_no_mapping_is_refused(given: Any) -> None:
    assert "a search space is a mapping of settings" in refusal(given)


def test_an_unknown_key_beside_the_space_gets_the_nearest() -> None:
    assert "'gird'; did you mean grid?" in refusal({"space": {"lr": LR}, "gird": "paper"})
    assert "'spcae'; did you mean space?" in refusal({"spcae": {"lr": LR}, "grid": "paper"})


def test_a_misspelt_space_alone_gets_the_nearest() -> None:
    assert "did you mean space?" in refusal({"spcae": {"lr": LR}})


@pytest.mark.parametrize("grid", ["papers", [1, 2], {"lr": 0.1}, {"lr": []}, 3])
def test_a_grid_is_paper_or_lists(grid: Any) -> None:
    assert "grid is paper, or names with lists" in refusal({"space": {"lr": LR}, "grid": grid})


# What fits a method


def test_dimensions_of_other_methods_are_left_out() -> None:
    space = Space.of({"lr": LR, "beta": HARDENED, **THRESHOLDS})
    assert names(space.fitted(graphs("hscl"))) == ["lr", "beta"]
    assert names(space.fitted(graphs("hscl-tau"))) == ["lr", *THRESHOLDS]
    assert names(space.fitted(graphs("scl"))) == ["lr"]


def test_nothing_left_is_refused_with_what_there_was() -> None:
    said = refusal({"beta": HARDENED, **THRESHOLDS}, graphs("ucl"))
    assert "nothing of this search space is a setting of ucl" in said
    assert "beta, threshold_start, threshold_end" in said


@pytest.mark.parametrize(
    ("name", "right"),
    [("betta", "beta"), ("Beta", "beta"), ("threshold-start", "threshold_start"), ("lr ", "lr")],
)
def test_an_unknown_setting_gets_the_nearest(name: str, right: str) -> None:
    said = refusal({name: LR})
    assert f"unknown setting of the search space {name!r}; did you mean {right}" in said


def test_settings_of_the_other_backend_are_unknown() -> None:
    assert "unknown setting of the search space 'crop'" in refusal({"crop": LR}, graphs())
    assert "unknown setting of the search space 'layers'" in refusal({"layers": LR}, images())


@pytest.mark.parametrize("name", FIXED)
def test_data_and_scores_cannot_be_searched(name: str) -> None:
    base = graphs() if name in GraphCell.__dataclass_fields__ else images()
    said = refusal({name: methods("a", "b")}, base)
    assert said == f"{name} cannot be searched: scores of different {name} are not comparable"


def test_whatever_decides_data_or_scores_is_fixed() -> None:
    assert {"dataset", "protocol", "features", "folds", "subset", "probe_split"} <= {*FIXED}
    assert not {"beta", "lr", "method", "epochs", "layers", "temperature"} & {*FIXED}


@pytest.mark.parametrize(
    ("base", "name", "when"),
    [
        (graphs("ucl"), "beta", "[hucl, hcl, hscl]"),
        (graphs("hscl-tau"), "beta", "[hucl, hcl, hscl]"),
        (graphs("hscl"), "threshold_start", "[hscl-tau]"),
    ],
)
def test_a_setting_that_the_method_lacks_is_refused_with_when(
    base: Base, name: str, when: str
) -> None:
    within = {"type": "float", "low": 0.1, "high": 0.5}
    said = refusal({name: within}, base)
    assert f"{base.alone.method} has no {name.replace('_', '-')} to be searched" in said
    assert f"write when: {{method: {when}}}" in said


@pytest.mark.parametrize(
    ("name", "low", "high", "said"),
    [
        ("threshold_end", -1, 1.5, "threshold-end is a cosine, in [-1, 1], got 1.5"),
        ("threshold_start", -2, 0, "threshold-start is a cosine, in [-1, 1], got -2"),
        ("lr", 0, 0.1, "lr must be a finite number above 0, got 0"),
        ("weight_decay", -1, 0, "weight-decay must be a finite number of at least 0"),
        ("class_prior", 0.1, 0.5, "a label-aware method admits no negative"),
        ("temperature", 0.1, 1, "temperature is InfoNCE's"),
    ],
)
def test_an_end_that_no_cell_may_have_is_refused(
    name: str, low: float, high: float, said: str
) -> None:
    found = refusal({name: {"type": "float", "low": low, "high": high}}, graphs("hscl-tau"))
    assert said in found


def test_whole_numbers_and_choices_that_no_cell_may_have_are_refused() -> None:
    low = {"type": "int", "low": 0, "high": 3}
    assert "layers must be at least 1, got 0" in refusal({"layers": low})
    words = {"readout": methods("sum", "max")}
    assert "unknown readout 'max'; did you mean mean?" in refusal(words)


def test_an_end_is_checked_for_every_method_that_has_it() -> None:
    prior = {"type": "float", "low": 0.1, "high": 0.5, "when": {"method": ["dcl", "scl"]}}
    space = {"method": methods("dcl", "scl"), "class_prior": prior}
    assert "class prior 0.1 with scl" in refusal(space, graphs("dcl"))


def test_unknown_methods_get_the_nearest() -> None:
    lr = {**LR, "when": {"method": ["hscl", "hslc"]}}
    assert "unknown method of lr 'hslc'; did you mean hscl" in refusal({"lr": lr})
    both = {"method": methods("ucl", "hslc"), "lr": LR}
    assert "unknown method 'hslc'; did you mean hscl" in refusal(both)
    floor = {"method": methods("hscl", "untrained"), "lr": LR}
    assert "unknown method 'untrained'" in refusal(floor)


def test_settings_of_an_own_encoder_need_one() -> None:
    space = {"lr": LR, "encoder.width": {"type": "int", "low": 8, "high": 64}}
    assert "encoder.width is a setting of your own encoder, and none is given" in refusal(space)
    fitted = Space.of(space).fitted(graphs(), encoder=True)
    assert names(fitted) == ["lr", "encoder.width"]
    assert "unknown setting" in refusal({"encoderwidth": LR}, encoder=True)


def test_settings_of_an_own_encoder_go_to_it_alone() -> None:
    candidate = graphs(lr=0.02).candidate(7, {"beta": 3, "encoder.width": 16, "encoder.lr": 1})
    assert candidate.encoder == {"width": 16, "lr": 1}
    assert (candidate.number, candidate.cell) == (7, GraphCell(method="hscl", beta=3, lr=0.02))


def plain(kind: type[Any]) -> list[tuple[str, Any]]:
    """Settings that may be searched, with their usual values."""
    cell = kind(method="hscl")
    found = [(f.name, getattr(cell, f.name)) for f in fields(kind) if f.name not in FIXED]
    return [(name, value) for name, value in found if value is not None and name != "method"]


@pytest.mark.parametrize("base", [graphs(), images()], ids=["graphs", "images"])
def test_numbers_are_searched_as_what_they_are(base: Base) -> None:
    for name, value in plain(base.kind):
        right = {int: "int", float: "float", tuple: "list"}.get(type(value), "categorical")
        for tried in ("int", "float"):
            if right not in (tried, "list"):
                said = refusal({name: {"type": tried, "low": 1, "high": 2}}, base)
                assert said == f"{name} is searched with type: {right}"


@pytest.mark.parametrize(
    ("name", "choice", "what"),
    [
        ("layers", "two", "a whole number"), ("layers", 2.0, "a whole number"),
        ("layers", True, "a whole number"), ("layers", None, "a whole number"),
        ("lr", "fast", "a number"), ("lr", False, "a number"),
        ("detach_weights", "yes", "true or false"), ("detach_weights", 1, "true or false"),
        ("readout", 1, "a word"), ("readout", True, "a word"), ("readout", None, "a word"),
        ("method", None, "a word"), ("method", 3, "a word"),
    ],
)  # fmt: skip
def test_choices_are_values_of_the_setting(name: str, choice: Any, what: str) -> None:
    said = refusal({"beta": BETA, name: methods(choice)})
    assert said == f"{name}: {choice!r} is no value of it, which is {what}"


def test_choices_may_be_whole_where_a_number_is_meant() -> None:
    found = Space.of({"lr": methods(1, 0.1), "dim": methods(8, 16)}).fitted(graphs())
    assert [d.ends for d in found.dimensions] == [(1, 0.1), (8, 16)]


def test_lists_cannot_be_searched() -> None:
    base = graphs(contrast="two-view")
    for what in (LR, methods("drop-nodes")):
        said = refusal({"augmentations": what}, base)
        assert said == "augmentations is a list, which cannot be searched"


def test_the_learning_rates_of_a_probe_are_a_list() -> None:
    assert refusal({"probe_lr": LR}, images()) == "probe_lr is a list, which cannot be searched"


@pytest.mark.parametrize("floor", ["untrained", "majority"])
def test_floors_have_nothing_to_search(floor: str) -> None:
    assert f"{floor} has nothing to search: it is a floor" in refusal({"lr": LR}, graphs(floor))
    with pytest.raises(InputError, match="it is a floor"):
        _ = graphs(floor).alone


# What is drawn


def test_a_trial_has_what_its_method_has() -> None:
    stated = {"lr": LR, "beta": HARDENED, "method": methods("hscl", "hscl-tau", "ucl")}
    space = Space.of({**stated, **THRESHOLDS}).fitted(graphs("ucl"))
    assert names(space)[0] == "method"  # it decides about the others
    for method, has in {
        "ucl": {"lr": 0.01},
        "hscl": {"lr": 0.01, "beta": 2.0},
        "hscl-tau": {"lr": 0.01, "threshold_start": -0.5, "threshold_end": 0.1},
    }.items():
        whole = {"method": method, **has}
        assert space.draw(FixedTrial(whole), graphs("ucl")) == whole  # asked for nothing else
        assert graphs("ucl").cell(whole) == GraphCell(**whole)  # type: ignore[arg-type]


def test_without_a_method_dimension_the_command_s_decides() -> None:
    space = Space.of({"lr": LR, "beta": HARDENED})
    assert space.draw(FixedTrial({"lr": 0.01}), graphs("scl")) == {"lr": 0.01}


def test_optuna_knows_the_dimensions_as_they_are_stated() -> None:
    width = {"type": "int", "low": 8, "high": 64, "step": 8}
    depth = {"type": "int", "low": 1, "high": 100, "log": True}
    drop = {"type": "float", "low": 0, "high": 1, "step": 0.25}
    stated = {"dim": width, "layers": depth, "weight_decay": drop, "lr": LR}
    space = Space.of({**stated, "readout": methods("sum", "mean")}).fitted(graphs())
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(0))
    for _ in range(20):
        trial = study.ask()
        values = space.draw(trial, graphs())
        assert values == trial.params
        assert trial.distributions == {d.name: d.distribution for d in space.dimensions}
        assert values["dim"] % 8 == 0
        assert values["weight_decay"] * 4 % 1 == 0
        study.tell(trial, 0.0)


def test_only_ranges_are_numeric() -> None:
    assert Space.of({"lr": LR, "layers": {"type": "int", "low": 1, "high": 2}}).numeric
    assert not Space.of({"lr": LR, "layers": methods(1, 2)}).numeric
