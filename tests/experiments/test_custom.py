"""The digest of a user's own code changes with what it computes, and with nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from gcl_hard.experiments.custom import code_digest, name_of

ENCODER = '''
from functools import partial
import torch
from torch import nn

WIDTH = 8
OTHER = 1

def helper(z):
    """Doubles."""
    return 2 * z

class Base(nn.Module):
    def __init__(self, n_features, dropout=0.1):
        super().__init__()
        self.linear = nn.Linear(n_features, WIDTH)

class Mine(Base):
    """An encoder."""
    depth = 3

    def forward(self, x, edge_index, batch):
        # a comment
        nodes = [helper(z) for z in self.linear(x)]
        return nodes

    def unused(self):
        class Local:
            size = 4
        return Local
'''


def encoder_of(source: str, name: str = "Mine") -> Any:
    """What a prompt makes of some source: there is no file to read."""
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(source, space)
    return space[name]


def digest(source: str) -> str:
    return code_digest(encoder_of(source))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2 * z", "3 * z"),
        ("WIDTH = 8", "WIDTH = 9"),
        ("depth = 3", "depth = 4"),
        ("dropout=0.1", "dropout=0.2"),
        ("size = 4", "size = 5"),
        ("class Mine(Base)", "class Mine(nn.Module)"),
        ("nn.Linear(n_features", "nn.LazyLinear(n_features"),
        ("self.linear(x)]", "self.linear(x) if len(z)]"),
    ],
)
def test_what_changes_the_computation_changes_the_digest(old: str, new: str) -> None:
    assert old in ENCODER
    assert digest(ENCODER.replace(old, new)) != digest(ENCODER)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# a comment", "# another one\n"),
        ('"""Doubles."""', '"""Twice the argument."""'),
        ('"""An encoder."""', '"""The encoder of section 3."""'),
        ("OTHER = 1", "OTHER = 2"),
        ("def helper(z)", "def helper(z: torch.Tensor) -> torch.Tensor"),
        ("WIDTH = 8\nOTHER = 1", "OTHER = 1\nWIDTH = 8"),
    ],
)
def test_what_does_not_change_it_leaves_the_digest(old: str, new: str) -> None:
    assert old in ENCODER
    assert digest(ENCODER.replace(old, new)) == digest(ENCODER)


@dataclass(slots=True)
class Slotted:
    """Has no dictionary."""

    width: int


def test_arguments_closures_and_objects_count() -> None:
    mine = encoder_of(ENCODER)

    def closing(over: Any) -> Any:
        return lambda n: (n, over)

    weights = torch.arange(3.0)
    lots: list[Any] = [
        mine, partial(mine, dropout=0.2), partial(mine, dropout=0.3), partial(mine, 7),
        closing(1), closing(2), closing([1, {"a": 2}]), closing([1, {"a": 3}]),
        closing(weights), closing(weights + 1), closing({"a", "b"}), closing({"a", "c"}),
        closing(mine(2)), closing(mine(3)).__call__,
    ]  # fmt: skip
    a, b = nn.Tanh(), nn.ReLU()
    lots += [
        partial(mine, act=torch.relu), partial(mine, act=torch.neg), closing(torch.sum),
        closing(torch.mean), closing(np.int64(3)), closing(np.int64(64)), closing(torch.float32),
        closing(torch.float64), closing(range(3)), closing(range(4)), closing(np.add),
        closing(np.multiply), partial(mine, a=a, b=b, c=a), partial(mine, a=a, b=b, c=b),
        closing(Slotted(1)), closing(Slotted(2)),
    ]  # fmt: skip
    assert len({code_digest(function) for function in lots}) == len(lots)
    assert code_digest(partial(mine, dropout=0.2)) == code_digest(partial(mine, dropout=0.2))
    assert code_digest(closing(weights)) == code_digest(closing(weights.clone()))
    assert name_of(partial(partial(mine, 1), 2)) == "Mine"


MINE = """
import layers

class Mine:
    def forward(self, x):
        return layers.{} in {{"a", "b", "c"}}
"""
LIBRARY = "FACTOR = {}\ndef double(x):\n    return FACTOR * x\n"
VARIANTS = {
    "first": (MINE.format("double(x)"), LIBRARY.format(2)),
    "more": (MINE.format("double(x)") + "print('more')", LIBRARY.format(2)),
    "other library": (MINE.format("double(x)"), LIBRARY.format(3)),
    "narrow": (MINE.format("WIDTH"), "WIDTH = 3\n"),
    "wide": (MINE.format("WIDTH"), "WIDTH = 64\n"),
}
"""A script, and the file beside it that it imports."""
DIGESTS = """
import json, runpy, sys
from gcl_hard.experiments.custom import code_digest

found = {}
for folder in sys.argv[1:]:
    sys.modules.pop("layers", None)
    sys.path.insert(0, folder)
    found[folder] = code_digest(runpy.run_path(folder + "/run.py")["Mine"])
    sys.path.remove(folder)
sys.stderr.write(json.dumps(found))
"""


@pytest.mark.slow
def test_another_process_finds_the_same_and_files_of_the_users_own_count(tmp_path: Path) -> None:
    for name, (script, library) in VARIANTS.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.py").write_text(script, encoding="utf-8")
        (tmp_path / name / "layers.py").write_text(library, encoding="utf-8")

    def digests_by_name(seed: int) -> dict[str, str]:
        """By variant, in a process of its own whose sets have another order."""
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", DIGESTS, *VARIANTS],
            cwd=tmp_path, capture_output=True, text=True, check=True,
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
        )  # fmt: skip
        return json.loads(done.stderr)  # type: ignore[no-any-return]

    digests = digests_by_name(1)
    assert digests == digests_by_name(2)
    assert digests["more"] == digests["first"]
    assert digests["other library"] != digests["first"]
    assert digests["narrow"] != digests["wide"]


def test_what_refers_to_itself_is_read_once() -> None:
    class Node:
        def __init__(self) -> None:
            self.me = self

        def __call__(self, n: int) -> nn.Module:
            return self.me(n)

    assert code_digest(Node()) == code_digest(Node())
