"""What earlier versions stored is read, found by the same commands, and never lost.

``releases/VERSION`` holds what ``commands.txt`` wrote with that version; ``made.csv`` is made up.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from gcl_hard import bench, load_encoder, load_pretrained, transfer, tune
from gcl_hard.graphs import embed, load, read_molecules
from gcl_hard.runs.store import COMPACT, Store, read_compact

RELEASES = sorted((Path(__file__).parent / "releases").iterdir())
COMMANDS = {"bench": bench.main, "transfer": transfer.main, "tune": tune.main}
CHANGED = {"molecules": ["--split=scaffold-chirality"]}
"""Arguments that say what was usual then: scaffolds of SMILES with their chirality."""


@pytest.fixture(params=RELEASES, ids=lambda path: path.name)
def release(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    here: Path = tmp_path / "release"
    shutil.copytree(request.param, here)
    monkeypatch.chdir(here)
    return here


def commands(release: Path) -> Iterator[tuple[str, list[str]]]:
    """What was executed, by the folder that it wrote to."""
    for line in (release / "commands.txt").read_text().splitlines():
        name, *arguments = shlex.split(line)
        output = arguments[-1].removeprefix("--output=")
        if name in COMMANDS:
            yield output, [name, *arguments, *CHANGED.get(output, [])]


def written(folder: Path) -> dict[tuple[str, int], list[float]]:
    """Scores by method and seed, as the files have them, read without this package."""
    rows = [json.loads(path.read_text()) for path in folder.glob("*_seed*.json")]
    for path in folder.glob("runs.jsonl"):
        found = [json.loads(line) for line in path.read_text().splitlines()]
        configs = [one["config"] for one in found if "config" in one and "run" not in one]
        rows += [one | {"config": configs[one["config"]]} for one in found if "run" in one]
    scores: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        if "embedding" in row:  # of transfer
            scores[f"{row['embedding']} {row['finetuning']}", row["seed"]] = [row["score"]["rmse"]]
        else:
            scores[row["config"]["method"], row["seed"]] = row["fold_accuracies"]
    return scores


def stored(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*_seed*")}


@pytest.mark.parametrize("output", ["singles", "compact", "images", "molecules"])
def test_the_same_command_trains_nothing_again(output: str, release: Path) -> None:
    before, kept = written(release / output), stored(release / output)
    assert before
    ((name, *arguments),) = (one for of, one in commands(release) if of == output)
    assert COMMANDS[name](arguments) == 0
    assert stored(release / output) == kept
    found = [*Store(release / output).rows()]
    assert sorted(tuple(row.values) for row in found) == sorted(map(tuple, before.values()))


@pytest.mark.parametrize("output", ["singles", "compact", "images", "molecules"])
def test_compaction_keeps_every_result(output: str, release: Path) -> None:
    before = [*Store(release / output).rows()]
    assert Store(release / output).compact() == len(before)
    assert read_compact(release / output / COMPACT) == before
    assert not [*(release / output).glob("*_seed*.json")]


def test_encoders_embed_as_they_did(release: Path) -> None:
    pytest.importorskip("rdkit")
    (path,) = (release / "singles").glob("*.pt")
    molecules = read_molecules("made.csv", targets=["size"], cache_dir="cache").molecules
    found = {
        "singles": embed(load_encoder(path), load("MUTAG", download=False)),
        "pretrained": embed(load_pretrained("pretrained.pt").encoder, molecules),
    }
    for name, expected in json.loads((release / "embedded.json").read_text()).items():
        torch.testing.assert_close(
            torch.as_tensor(found[name])[:3], torch.tensor(expected), rtol=1e-4, atol=1e-4
        )


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of flags that have other names now
def test_a_finished_search_asks_nothing_anew(release: Path) -> None:
    ((_, (_, *arguments)),) = ((of, one) for of, one in commands(release) if of == "search")
    journal = release / "search.journal"
    before = [json.loads(line) for line in journal.read_text().splitlines()]
    assert tune.main(arguments) == 0
    after = [json.loads(line) for line in journal.read_text().splitlines()]
    created = [sum(one["op_code"] == 4 for one in lines) for lines in (before, after)]
    assert after[: len(before)] == before
    assert created[0] == created[1] == 3
