"""The architecture of the package, checked on the source: layers, import cycles, class names."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "gcl_hard").rglob("*.py"))
ORDER = (
    "core", "functional", "losses", "evaluation", "theory", "files", "training", "models",
    "experiments", "graphs", "nodes", "links", "molecules", "images", "vectors", "texts",
    "testing", "tuning", "reports", "commands",
)  # fmt: skip
"""The rooms from below: each imports those under it, but for what :data:`APART` keeps apart."""
DOMAINS = {"graphs", "nodes", "links", "molecules", "images", "vectors", "texts"}
APART: dict[str, set[str]] = {
    "functional": {*ORDER} - {"core"},
    "losses": {*ORDER} - {"core", "functional"},
    "evaluation": {*ORDER} - {"core"},
    "files": {*ORDER} - {"core"},
    "training": {"evaluation", "theory"},
    "models": {*ORDER} - {"losses"},
    "nodes": DOMAINS - {"graphs"},
    "links": DOMAINS - {"graphs"},
    "molecules": DOMAINS - {"graphs"},
    "images": DOMAINS,
    "vectors": DOMAINS,
    "texts": DOMAINS - {"vectors"},
    "tuning": DOMAINS,
    "reports": DOMAINS,
}
"""Rooms that a room does not import, though they stand below it."""
ENTRY_POINTS = {"bench", "tune", "figures", "pretrain"}
ANYWHERE = {"errors", "version"}
# room -> the rooms it may import, besides itself and these; "" is gcl_hard/__init__.py
MAY_IMPORT: dict[str, set[str]] = {
    **{name: set() for name in ANYWHERE},
    **{room: {*ORDER[:number]} - APART.get(room, set()) for number, room in enumerate(ORDER)},
    "": {*ORDER},
    "__main__": {"", "commands"},
    **{name: {"commands"} for name in ENTRY_POINTS},
}
OWNERS = {
    "torch_geometric": {"graphs", "nodes", "links", "molecules"},
    "rdkit": {"molecules"},
    "onnx": {"experiments"},
    "onnxruntime": {"experiments"},
    "safetensors": {"files"},
    "pooch": {"files"},
    "torchvision": {"images"},
    "kornia": {"images"},
    "timm": {"images"},
    "sentence_transformers": {"texts"},
    "transformers": {"texts"},
    "optuna": {"tuning", "reports", "commands"},
    "cmaes": {"tuning"},
    "pandas": {"reports", "experiments", "files"},
    "seaborn": {"reports"},
    "jinja2": {"reports"},
}


def imported(tree: ast.Module, package: str) -> Iterator[str]:
    """Dotted names imported anywhere in the module, also inside functions and by import_module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            # `from gcl_hard import graphs` names a layer only in what it imports
            yield from (f"{base}.{a.name}" for a in node.names) if base == "gcl_hard" else (base,)
        elif isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            literal = node.args[0] if node.args else None
            if name in {"import_module", "__import__"} and isinstance(literal, ast.Constant):
                yield resolve_name(str(literal.value), package)


def layer_of(dotted: str) -> str:
    """The layer a dotted gcl_hard name lies in; a name from gcl_hard/__init__.py lies in ""."""
    first = f"{dotted}.".split(".")[1]
    return first if first in MAY_IMPORT else ""


def violations(source: str, path: str) -> list[str]:
    """Imports in `source`, the module at `path` (gcl_hard/...), that no arrow allows."""
    parts = Path(path).with_suffix("").parts
    layer = "" if parts[1] == "__init__" else parts[1]
    if layer not in MAY_IMPORT:
        return [f"{path} lies in no known layer"]
    wrong = []
    for name in imported(ast.parse(source), ".".join(parts[:-1])):
        top = name.split(".")[0]
        if top == "gcl_hard":
            allowed = layer_of(name) in MAY_IMPORT[layer] | {layer, *ANYWHERE}
        elif layer == "functional":
            allowed = top == "torch" or top in sys.stdlib_module_names
        else:
            allowed = layer in OWNERS.get(top, {layer})
        if not allowed:
            wrong.append(f"{path} imports {name}")
    return wrong


def test_every_floor_is_there() -> None:
    rooms = {path.relative_to(ROOT / "gcl_hard").parts[0].removesuffix(".py") for path in MODULES}
    assert rooms == {*MAY_IMPORT} - {""} | {"__init__"}


def test_every_import_follows_an_arrow() -> None:
    wrong = [
        line
        for path in MODULES
        for line in violations(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("gcl_hard/functional/negatives.py", "import numpy"),
        ("gcl_hard/functional/negatives.py", "from .. import losses"),
        ("gcl_hard/losses/sampling.py", "from gcl_hard import ContrastiveLoss"),
        ("gcl_hard/core/seeds.py", "from ..losses import ContrastiveLoss"),
        ("gcl_hard/losses/loss.py", "def lazy():\n    from gcl_hard.graphs.encoders import GIN"),
        ("gcl_hard/graphs/models.py", "from ..images import augment"),
        ("gcl_hard/graphs/models.py", "import torchvision.transforms"),
        ("gcl_hard/training/loop.py", "from torch_geometric.data import Batch"),
        ("gcl_hard/training/loop.py", "import gcl_hard.evaluation.svm as svm"),
        ("gcl_hard/evaluation/svm.py", "from gcl_hard.training import loop"),
        ("gcl_hard/experiments/cell.py", "import optuna"),
        ("gcl_hard/graphs/data.py", "import pandas"),
        ("gcl_hard/experiments/cell.py", "import importlib\nimportlib.import_module('optuna')"),
        ("gcl_hard/experiments/cell.py", "from gcl_hard import bench"),
        ("gcl_hard/experiments/table.py", "import gcl_hard.figures"),
        ("gcl_hard/experiments/settings.py", "def late():\n    from ..nodes import data"),
        ("gcl_hard/experiments/store.py", "import gcl_hard.graphs.experiment"),
        ("gcl_hard/experiments/runner.py", "from gcl_hard.graphs.settings import GraphConfig"),
        ("gcl_hard/experiments/datasets.py", "from gcl_hard.graphs import tudataset"),
        ("gcl_hard/links/files.py", "from gcl_hard.nodes import data"),
        ("gcl_hard/images/experiment.py", "from ..graphs import data"),
        ("gcl_hard/graphs/experiment.py", "from ..tuning.space import Space"),
        ("gcl_hard/tuning/search.py", "from gcl_hard.reports import page"),
        ("gcl_hard/reports/page.py", "from ..commands import parser"),
        ("gcl_hard/reports/page.py", "import gcl_hard.commands.parser as parser"),
        ("gcl_hard/commands/bench.py", "from gcl_hard import evaluate"),
        ("gcl_hard/bench.py", "from gcl_hard.graphs import InfoGraph"),
        ("gcl_hard/bench.py", "from gcl_hard.experiments.runner import Runner"),
        ("gcl_hard/helpers.py", ""),
    ],
)
def test_a_forbidden_import_is_found(path: str, source: str) -> None:
    assert len(violations(source, path)) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("gcl_hard/__init__.py", "from .losses import ContrastiveLoss\nfrom . import methods"),
        ("gcl_hard/functional/negatives.py", "import math\nimport torch.nn.functional as F"),
        (
            "gcl_hard/functional/__init__.py",
            "from .negatives import draw\nfrom ..errors import Bad",
        ),
        ("gcl_hard/graphs/models.py", "import torch_geometric\nfrom ..losses import Loss"),
        ("gcl_hard/experiments/figures.py", "from ..evaluation import svm\nfrom . import cell"),
        ("gcl_hard/commands/bench.py", "from ..reports import page\nimport rich"),
        ("gcl_hard/tune.py", "from gcl_hard import commands, errors"),
    ],
)
def test_an_allowed_import_is_not_reported(path: str, source: str) -> None:
    assert violations(source, path) == []


LOWER = {
    "graphs": {
        "attributes", "augment", "batching", "copies", "data", "encoders", "encodings", "ensemble",
        "features", "layers", "models", "order", "parts", "pointers", "refinement",
        "sparse", "tudataset", "view_losses",
    },
    "nodes": {"data", "encoders", "files", "models", "sources", "tables", "views"},
    "links": {"data", "files", "models", "reversed_facts", "tables"},
    "molecules": {"data", "encoders", "files"},
    "images": {
        "augment", "batching", "datasets", "decoding", "files", "folders", "models",
    },
    "vectors": {"data", "files", "models", "views"},
    "texts": {"data", "encoders", "files", "loss", "tfidf"},
}  # fmt: skip
"""Data and models of each domain, which a training loop of one's own uses."""


@pytest.mark.parametrize("domain", LOWER)
def test_data_and_models_of_a_domain_import_none_of_its_experiment(domain: str) -> None:
    folder = ROOT / "gcl_hard" / domain
    upper = {path.stem for path in folder.glob("*.py")} - LOWER[domain] - {"__init__"}
    assert {"settings", "experiment"} <= upper
    barred = ("gcl_hard.experiments", *(f"gcl_hard.{domain}.{name}" for name in upper))
    wrong = [
        (name, target)
        for name in LOWER[domain]
        for target in imported(ast.parse((folder / f"{name}.py").read_text("utf-8")), "gcl_hard")
        if f"{target}.".startswith(tuple(f"{name}." for name in barred))
    ]
    assert wrong == []


def test_no_module_is_called_utils() -> None:
    assert [
        path for path in MODULES if "utils" in path.relative_to(ROOT).with_suffix("").parts
    ] == []


def dotted(path: Path) -> str:
    """The dotted name of a module, that of the package for its __init__."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def cycles(sources: dict[str, str]) -> list[list[str]]:
    """Groups of modules that import each other, anywhere in their source; by dotted name."""
    graph = nx.DiGraph()
    for module, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                targets = [name if name in sources else str(node.module) for name in names]
            else:
                continue
            graph.add_edges_from((module, target) for target in targets if target in sources)
    return sorted(
        sorted(group) for group in nx.strongly_connected_components(graph) if len(group) > 1
    )


def test_commands_name_domains_in_types_alone() -> None:
    for path in (ROOT / "gcl_hard" / "commands").glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        tree.body = [
            node for node in tree.body
            if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        ]  # fmt: skip
        rooms = {layer_of(n) for n in imported(tree, "gcl_hard.commands") if n.startswith("gcl_")}
        assert rooms.isdisjoint(DOMAINS), path.name


def test_no_modules_import_each_other() -> None:
    sources = {dotted(path): path.read_text(encoding="utf-8") for path in MODULES}
    assert cycles(sources) == []


def test_an_import_inside_a_function_closes_a_cycle() -> None:
    sources = {
        "p": "",
        "p.a": "from p import b",
        "p.b": "def f():\n    from p.c import g",
        "p.c": "import p.a",
        "p.d": "from p.a import x",
    }
    assert cycles(sources) == [["p.a", "p.b", "p.c"]]


def test_public_class_names_are_unique() -> None:
    names = Counter(
        node.name
        for path in MODULES
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, count in names.items() if count > 1} == set()
