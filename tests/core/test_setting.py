"""A setting stated once: what derives from a declaration, and what a declaration cannot say."""

from __future__ import annotations

import json
import os
import random
import re
import runpy
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from gcl_hard.core.setting import Setting, declared, joined, resolve, stated
from gcl_hard.errors import InputError
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.registry import experiment_of, register
from gcl_hard.experiments.settings import RunConfig, as_json, flag, known
from gcl_hard.experiments.store import Store
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.tuning.space import read_space
from tests.said import says

ROOT = Path(__file__).parents[2]
DEFAULTS = Path(__file__).with_name("setting_defaults.json")


@dataclass
class Toy:
    kind: Annotated[Literal["a", "b"], Setting("the kind")] = "a"
    width: Annotated[int, Setting("of a layer", least=1)] = 8
    rate: Annotated[
        float | None,
        Setting("of steps", above=0, most=1, usual=lambda above: 1 / above["width"]),
    ] = None
    depth: Annotated[
        int | None,
        Setting("of b", applies=lambda above: above["kind"] == "b", usual=lambda above: 2),
    ] = None
    sizes: Annotated[tuple[float, ...], Setting("several")] = (1.0,)
    tolerance: float = 1e-3


TOY = declared(Toy)


def test_only_annotated_arguments_are_settings() -> None:
    assert list(TOY) == ["kind", "width", "rate", "depth", "sizes"]


@pytest.mark.parametrize(
    ("explicit", "expected"),
    [
        ({}, ("a", 8, 0.125, None, (1.0,))),
        ({"width": 4, "sizes": [1, 2]}, ("a", 4, 0.25, None, (1.0, 2.0))),
        ({"kind": "b", "rate": 1}, ("b", 8, 1.0, 2, (1.0,))),
        ({"depth": 5}, ("a", 8, 0.125, None, (1.0,))),
        ({"kind": "b", "depth": 5}, ("b", 8, 0.125, 5, (1.0,))),
    ],
)
def test_a_default_sees_what_stands_above(
    explicit: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    resolved = resolve(TOY, explicit)
    assert tuple(resolved.values()) == expected
    assert all(type(a) is type(b) for a, b in zip(resolved.values(), expected, strict=True))


@pytest.mark.parametrize(
    ("explicit", "expected"),
    [
        ({"width": 8, "rate": 0.125}, {}),
        ({"width": 4, "rate": 0.125}, {"width": 4, "rate": 0.125}),
        ({"width": 4, "rate": 0.25}, {"width": 4}),
        ({"kind": "b", "depth": 2}, {"kind": "b"}),
    ],
)
def test_what_is_stated_differs_from_the_default_given_the_rest(
    explicit: dict[str, Any], expected: dict[str, Any]
) -> None:
    values = resolve(TOY, explicit)
    assert stated(TOY, values) == expected
    assert resolve(TOY, expected) == values


@pytest.mark.parametrize(
    ("explicit", "facts"),
    [
        ({"kind": "c"}, ("kind", "'c'", "a, b")),
        ({"width": 0}, ("width", 1, 0)),
        ({"width": True}, ("width", "True")),
        ({"width": 2.5}, ("width", 2.5)),
        ({"rate": 2}, ("rate", 1, 2)),
        ({"rate": float("nan")}, ("rate", "nan")),
        ({"sizes": "12"}, ("sizes", "list")),
        ({"sizes": [1, "x"]}, ("sizes", "x")),
        ({"kind": "a", "depth": "deep"}, ("depth", "deep")),
    ],
)
def test_a_wrong_value_is_refused_by_name_also_where_it_does_not_apply(
    explicit: dict[str, Any], facts: tuple[Any, ...]
) -> None:
    with pytest.raises(InputError) as refused:
        resolve(TOY, explicit)
    assert says(str(refused.value), *facts)


def test_one_name_with_two_defaults_is_an_error() -> None:
    @dataclass
    class Other:
        width: Annotated[int, Setting("of another")] = 16

    @dataclass
    class Same:
        width: Annotated[int, Setting("of a third")] = 8

    assert list(joined(TOY, declared(Same))) == list(TOY)
    with pytest.raises(TypeError, match=r"width\b.*\b8\b.*\b16\b"):
        joined(TOY, declared(Other))
    with pytest.raises(TypeError, match=r"Bare\.x\b.*default"):
        declared(type("Bare", (), {"__init__": bare}))


def bare(self: Any, x: Annotated[int, Setting("without a default")]) -> None: ...


# Configurations


def drawn(kind: type[RunConfig], rng: random.Random) -> dict[str, Any]:
    """Settings as a user may give them: some of the space of each, and the method."""
    settings: dict[str, Any] = {
        "method": rng.choice([*experiment_of(kind).methods, *kind.baselines])
    }
    for name, field in rng.sample([*known(kind).items()], 6):
        space = field.setting.space
        if space and isinstance(space[0], (int, float)):
            low, high = space[:2]
            settings[name] = field.checked(type(low)(rng.uniform(low, high)))
    return settings


@pytest.mark.parametrize("kind", CONFIGS.values(), ids=CONFIGS)
def test_what_a_configuration_states_gives_it_again(kind: type[RunConfig]) -> None:
    rng, n = random.Random(0), 0
    while n < 300:
        try:
            config = kind(**drawn(kind, rng))
        except InputError:
            continue
        n += 1
        head = {"dataset": config.dataset, "method": config.method, "protocol": config.protocol}
        assert kind(**head | config.stated()) == config
        assert kind(**config.values) == config


def test_every_committed_result_is_found_under_its_name() -> None:
    n = 0
    for folder in sorted(ROOT.glob("benchmarks/results/**/runs.jsonl*")):
        store = Store(folder.parent)
        for result in store.rows():
            assert store.get(result.run) == result
            n += 1
    assert n > 6000


def test_a_changed_default_keeps_the_keys_of_the_old_one() -> None:
    """The old value is in the declaration: results made with either are found under their own."""
    field = TOY["width"]
    changed = replace(field, default=16, setting=replace(field.setting, before=(8,)))
    after = TOY | {"width": changed}
    for width in (8, 16, 32):
        old, new = (resolve(known, {"width": width}) for known in (TOY, after))
        assert stated(after, new, keyed=True) == stated(TOY, old, keyed=True)
    assert resolve(after, {})["width"] == 16
    assert stated(after, resolve(after, {})) == {}
    assert stated(after, resolve(after, {}), keyed=True) == {"width": 16}


# What derives from a declaration

PLAIN, DECLARED = (
    "    steps: int = 100\n",
    """    steps: Annotated[
        int,
        Setting("steps of the coupling", least=1, several=True, space=(10, 1000, "log")),
    ] = 100
""",
)
ADDED = """
import io, json, sys
from pathlib import Path
from gcl_hard.commands.bench import bench_parser, parse_bench
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.graphs.presets import recipe
from gcl_hard.tuning.space import Base, Space

keys = [GraphConfig(method=m, **own).key() for m in ("ot", "ucl", "wl", "hscl")
        for own in ({}, {"dataset": "PTC_MR", "epochs": 3})]
keys.append(GraphConfig(method="ot", epsilon=2, contrast="two-view").key())
found = {"keys": keys}
if "add" in sys.argv:
    more = GraphConfig(method="ot", steps=50)
    text = io.StringIO(); bench_parser().print_help(text)
    flags = parse_bench(["--method", "ot,ucl", "--steps", "50,100"]).configs
    space = Space.of({"space": {"steps": {"type": "int", "low": 10, "high": 1000, "log": True}}})
    found |= {
        "help": "--steps" in text.getvalue(),
        "configs": [[c.method, c.steps] for c in flags],
        "searched": space.fitted(Base(GraphConfig, {"method": "ot"})).dimensions[0].name,
        "yaml": parse_bench(["--config", sys.argv[-1]]).configs[0].steps,
        "stated": more.stated(), "own key": more.key(), "loss": more.loss().sampler.hardening.steps,
    }
    from gcl_hard.reports.rows import in_symbols
    found["column"] = in_symbols(more, ["steps"])
    try:
        GraphConfig(method="ot", steps=0)
    except ValueError as error:
        found["error"] = str(error)
print(json.dumps(found))
"""


def test_a_setting_added_to_a_method_is_everywhere_and_loses_no_result(tmp_path: Path) -> None:
    """By its declaration alone: a flag, a key of YAML, a dimension, a column, a check."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "gcl_hard", tmp_path / "gcl_hard", ignore=ignored)
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    module = tmp_path / "gcl_hard/functional/rowwise.py"
    text = module.read_text(encoding="utf-8")
    assert text.count(PLAIN) == 1
    module.write_text(text.replace(PLAIN, DECLARED), encoding="utf-8")
    file = tmp_path / "own.yaml"
    file.write_text("method: [ot]\nsteps: [7]\n", encoding="utf-8")

    def run(*arguments: str) -> dict[str, Any]:
        call = [sys.executable, "-W", "ignore", "-c", ADDED, *arguments]
        tree = tmp_path if arguments else ROOT
        env = os.environ | {"PYTHONPATH": str(tree)}
        done = subprocess.run(call, cwd=tree, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    before, after = run(), run("add", str(file))
    assert after["keys"] == before["keys"]
    assert after["own key"] not in after["keys"]
    assert after["help"]
    # ucl has no such setting: one configuration, however many values are given
    assert after["configs"] == [["ot", 50], ["ot", 100], ["ucl", None]]
    assert (after["searched"], after["yaml"], after["loss"]) == ("steps", 7, 50)
    assert after["stated"] == {"steps": 50}
    assert after["column"] == "steps=50"
    assert says(after["error"], "steps", 1, 0)


def usual() -> dict[str, dict[str, dict[str, Any]]]:
    """Every resolved default, by domain and method."""
    return {
        domain: {
            name: json.loads(json.dumps(kind(method=name, **extra_settings(kind, name)).values))
            for name in (*experiment_of(kind).methods, *kind.baselines)
        }
        for domain, kind in CONFIGS.items()
    }


def extra_settings(kind: type[RunConfig], name: str) -> dict[str, Any]:
    return {}


def test_no_default_changes_in_silence() -> None:
    """A changed default gives another experiment the key of an old one.

    Keep the old value in the declaration, and write the file again:
    python -m tests.core.test_setting > tests/core/setting_defaults.json
    """
    frozen = json.loads(DEFAULTS.read_text(encoding="utf-8"))
    for domain, methods in usual().items():
        for method, values in methods.items():
            before = frozen[domain][method]
            assert {k: v for k, v in values.items() if k in before} == before


def test_the_reference_page_has_every_setting_with_its_default() -> None:
    rows = re.findall(r"^\| `--(\S+)` \|(.*)\|$", reference_page(), re.MULTILINE)
    fields = [field for kind in CONFIGS.values() for field in known(kind).values()]
    assert sorted(name for name, _ in rows) == sorted(flag(field.name) for field in fields)
    for name, shown in (("beta", "1"), ("folds", "10"), ("dataset", "MUTAG")):
        assert any(row == name and f"| {shown} |" in text for row, text in rows)


def reference_page() -> str:
    """The page of settings that the site has."""
    page: str = runpy.run_path(str(ROOT / "docs/settings.py"))["page"]()
    return page


@pytest.mark.parametrize(("text", "names"), [("epsilon", ["epsilon"]), ("lr, auc", ["lr", "auc"])])
def test_names_of_settings_are_a_search_space(text: str, names: list[str]) -> None:
    space = read_space(text, GraphConfig)
    assert [dimension.name for dimension in space.dimensions] == names
    with pytest.raises(InputError, match=r"'standardise'"):
        read_space("lr,standardise", GraphConfig)
    with pytest.raises(InputError, match=r"'candidates'"):
        read_space("candidates", GraphConfig)  # of links


if __name__ == "__main__":
    print(json.dumps(usual(), indent=1))


def test_the_subclass_of_a_configuration_has_its_settings_and_those_that_it_adds() -> None:
    @dataclass(frozen=True)
    class Smaller(GraphConfig):
        layers: Annotated[int, Setting("layers, fewer", "encoder", least=1)] = 2
        bits: Annotated[int, Setting("bits of a weight", "encoder", least=1, symbol="bits")] = 8

    assert as_json(Smaller()) == as_json(GraphConfig()) | {"layers": 2, "bits": 8}
    with pytest.raises(InputError):
        Smaller(bits=0)


def test_a_configuration_names_data_set_method_and_protocol() -> None:
    @dataclass(frozen=True)
    class Lacking(RunConfig):
        domain = "lacking"
        baselines = ()
        dataset: Annotated[str, Setting("a set")] = "a"

    with pytest.raises(InputError, match=r"method.*protocol"):
        register(Lacking, lambda: pytest.fail("it is refused"))
