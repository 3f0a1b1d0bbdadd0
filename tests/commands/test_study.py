"""Searches from Python: one's own encoder, graphs and space."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import optuna
import pytest
import torch
from torch import Tensor, nn

from gcl_hard.commands.study import study
from gcl_hard.errors import InputError
from gcl_hard.graphs import GIN, GraphSet, load_graphs
from gcl_hard.graphs import training as ensembles
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.images import load_images
from gcl_hard.images import training as image_training
from gcl_hard.images.settings import ImageConfig
from gcl_hard.tuning import Finding, SearchResult, Space
from gcl_hard.tuning.result import AllFailed
from tests.experiments.tiny_images import Tiny
from tests.said import says
from tests.vectors.sets import blobs, npz

LR = {"lr": {"type": "float", "low": 1e-4, "high": 0.1, "log": True}}
TINY: dict[str, Any] = {"epochs": 1, "layers": 1, "dim": 4}


def searched(folder: Path, *arguments: Any, **options: Any) -> SearchResult:
    """A small search, its studies in a file that is quickly made unless another is given."""
    settings: dict[str, Any] = {
        "space": LR, "trials": 2, "sampler": "random", "threads": 1, "progress": False,
        "storage": str(folder / "study.journal"),
    }  # fmt: skip
    config = {"epochs": 1} if "encoder" in options else TINY
    return study(*arguments, output=folder, **settings | config | options)


class MyEncoder(nn.Module):
    """Sums of nodes after a layer; remembers what it was made with."""

    calls: list[dict[str, Any]] = []  # noqa: RUF012

    def __init__(self, n_features: int, *, dropout: float = 0.0, width: int = 6) -> None:
        super().__init__()
        self.calls.append({"n_features": n_features, "dropout": dropout, "width": width})
        self.out_dim = width
        self.layers = nn.Sequential(
            nn.Linear(n_features, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, width)
        )

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, edge_attr: Tensor
    ) -> tuple[Tensor, Tensor]:
        nodes = self.layers(x)
        graphs = nodes.new_zeros(int(batch.max()) + 1, self.out_dim)
        return nodes, graphs.index_add(0, batch, nodes)


@pytest.fixture
def calls() -> list[dict[str, Any]]:
    MyEncoder.calls.clear()
    return MyEncoder.calls


ENCODER = {
    "encoder.dropout": {"type": "float", "low": 0.0, "high": 0.5},
    "encoder.width": {"type": "categorical", "choices": [3, 5]},
}


def test_settings_of_ones_own_encoder_are_searched_with_those_of_the_configuration(
    tmp_path: Path, calls: list[dict[str, Any]]
) -> None:
    result = searched(tmp_path, "MUTAG", "hscl", space=LR | ENCODER, trials=4, encoder=MyEncoder)
    (finding,) = result.findings
    trials = finding.study.trials
    assert [set(trial.params) for trial in trials] == [{"lr", *ENCODER}] * 4
    asked = [
        {"n_features": 7}
        | {n.removeprefix("encoder."): v for n, v in t.params.items() if n != "lr"}
        for t in (*trials, finding.best)
    ]
    first, *rest = calls  # whether it can be used at all
    assert first["n_features"] == 7
    once = [arguments for n, arguments in enumerate(rest) if n == 0 or arguments != rest[n - 1]]
    assert once == [
        arguments for n, arguments in enumerate(asked) if n == 0 or arguments != asked[n - 1]
    ]
    assert finding.config == GraphConfig(
        protocol="inductive", method="hscl", lr=finding.best.params["lr"], epochs=1,
        encoder=finding.config.encoder,
    )  # fmt: skip
    assert finding.config.encoder.startswith("MyEncoder@")
    assert len({tuple(trial.params.items()) for trial in trials}) == 4


EDITED = """
class Edited(GIN):
    def __init__(self, n_features):
        super().__init__(n_features, 4, 1)

    def forward(self, x, edge_index, batch, edge_attr):
        nodes, graphs = super().forward(x, edge_index, batch)
        return nodes, {factor} * graphs
"""


def edited(factor: int) -> Any:
    """A class of one name, as a notebook has it after an edit."""
    space: dict[str, Any] = {"GIN": GIN, "__name__": "__main__"}
    exec(EDITED.format(factor=factor), space)
    return space["Edited"]


def test_an_edited_encoder_gets_scores_of_its_own(tmp_path: Path) -> None:
    first = searched(tmp_path, "MUTAG", "ucl", encoder=edited(1), trials=1, storage=None)
    other = searched(tmp_path, "MUTAG", "ucl", encoder=edited(0), trials=1, storage=None)
    again = searched(tmp_path, "MUTAG", "ucl", encoder=edited(1), trials=1, storage=None)
    assert again.study.study_name == first.study.study_name != other.study.study_name
    assert len(again.study.trials) == len(other.study.trials) == 1
    assert again.inner == first.inner != other.inner


def test_an_encoder_is_part_of_what_a_study_is_of(tmp_path: Path) -> None:
    searched(tmp_path, "MUTAG", "ucl", encoder=edited(1), trials=1, study_name="mine")
    with pytest.raises(InputError, match=r"\bencoder Edited@\w+ .*\busual\b"):
        searched(tmp_path, "MUTAG", "ucl", trials=1, study_name="mine")
    with pytest.raises(InputError, match=r"\bencoder Edited@.* Edited@\w"):
        searched(tmp_path, "MUTAG", "ucl", trials=1, encoder=edited(2), study_name="mine")


def test_its_settings_need_an_encoder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\bencoder\.dropout\b.*\bencoder="):
        searched(tmp_path, "MUTAG", "ucl", space=LR | ENCODER)
    assert list(tmp_path.iterdir()) == []


def test_ones_own_graphs_are_searched(tmp_path: Path) -> None:
    mutag = load_graphs("MUTAG")
    few = mutag.take(torch.arange(0, 188, 2))
    mine = GraphSet("mine", **{k: v for k, v in vars(few).items() if k not in ("name", "_sizes")})
    result = searched(tmp_path, mine, "ucl", storage=None)
    assert result.facts["dataset"] == result.best.dataset == "mine"
    assert result.study.study_name == "mine_ucl_inductive"
    assert (result.facts["n_inner_test"], result.facts["n_outer_test"]) == (13, 29)  # of 94
    assert (tmp_path / "mine_ucl_inductive.db").is_file()
    with pytest.raises(InputError, match="digest"):  # others under the same name
        searched(tmp_path, GraphSet(**{**vars(mine), "x": mine.x * 2}), "ucl", storage=None)


@pytest.mark.parametrize("kind", ["vectors", "images"])
def test_a_set_of_any_domain_is_searched_as_by_its_name(kind: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"encoder": "mlp"}
    both: tuple[Any, ...] = blobs(), npz(blobs(), tmp_path / "mine.npz")
    if kind == "images":
        both = load_images("digits"), "digits"
        settings = {"encoder": "fast", "width": 2, "subset": 100, "batch_size": 50}
    first, second = (
        [trial.value for trial in searched(tmp_path / name, data, "scl", **settings).study.trials]
        for name, data in zip("ab", both, strict=True)
    )
    assert first == second


def test_graphs_without_classes_cannot_be_scored(tmp_path: Path) -> None:
    few = [*load_graphs("MUTAG")[:30]]
    for graph in few:
        graph.y = None
    for protocol in ("inductive", "transductive"):
        with pytest.raises(InputError, match=r"\bmine\b.*\blabels\b.*\by\b"):
            searched(tmp_path, GraphSet.from_graphs(few, name="mine"), "ucl", protocol=protocol)


def test_a_space_is_a_mapping_a_file_a_name_or_the_methods(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("space: {lr: {type: float, low: 0.001, high: 0.002}}", encoding="utf-8")
    stated = {"space": {"beta": {"type": "float", "low": 1, "high": 9}}, "grid": {"beta": [7]}}
    spaces: dict[str, tuple[Any, set[str], str]] = {
        "mapping": (LR, {"lr"}, "given"),
        "whole": (stated, {"beta"}, "given"),
        "path": (file, {"lr"}, str(file)),
        "name": ("beta", {"beta", "lr"}, "beta"),
        "none": (None, {"beta", "lr"}, "beta"),
    }
    for name, (space, settings, called) in spaces.items():
        result = searched(tmp_path / name, "MUTAG", "hscl", space=space, trials=1)
        trial = result.findings[0].best
        assert set(trial.params) == settings
        assert result.facts["space"] == called
        if name == "path":
            assert 0.001 <= result.best.lr <= 0.002
        if name == "whole":
            assert result.best.beta == 7.0
    assert [dimension.name for dimension in Space.of(LR).dimensions] == ["lr"]


def test_what_is_found_hangs_together(tmp_path: Path) -> None:
    result = searched(tmp_path, "MUTAG", "hscl", trials=3, outer_folds=2, seed=7, ensemble_size=2)
    assert result.asked == 3
    assert len(result.findings) == 2
    for finding in result.findings:
        assert isinstance(finding, Finding)
        assert isinstance(finding.study, optuna.Study)
        assert finding.best.number == finding.study.best_trial.number
        assert finding.inner == finding.study.best_value
        assert finding.config.lr == finding.best.params["lr"]
        assert finding.outer is not None
        assert finding.optimism == finding.inner - finding.outer
        assert finding.n_outer == 1
        assert finding.seconds > 0
    inner = [finding.inner for finding in result.findings]
    outer = [finding.outer or 0.0 for finding in result.findings]
    assert result.inner == pytest.approx(sum(inner) / 2)
    assert result.outer == pytest.approx(sum(outer) / 2)
    assert result.optimism == pytest.approx(sum(inner) / 2 - sum(outer) / 2)
    assert result.best == result.findings[inner.index(max(inner))].config
    assert result.reads_labels  # hscl does
    assert result.facts["seed"] == 7


def test_called_again_it_goes_on(tmp_path: Path) -> None:
    first = searched(tmp_path, "MUTAG", "ucl")
    again = searched(tmp_path, "MUTAG", "ucl")
    assert [t.number for t in again.findings[0].study.trials] == [0, 1]
    assert (again.inner, again.outer) == (first.inner, first.outer)
    assert not again.reads_labels
    more = searched(tmp_path, "MUTAG", "ucl", trials=4)
    assert len(more.findings[0].study.trials) == 4
    elsewhere = searched(tmp_path / "fresh", "MUTAG", "ucl", trials=4)
    rates = [[t.params["lr"] for t in o.findings[0].study.trials] for o in (more, elsewhere)]
    assert rates[0] == rates[1]


@pytest.mark.parametrize("storage", ["a.db", "a.journal"])
def test_a_storage_may_be_any_file(tmp_path: Path, storage: str) -> None:
    for trials in (1, 2):
        result = searched(
            tmp_path / "results", "MUTAG", "ucl", trials=trials,
            storage=str(tmp_path / storage), study_name="mine",
        )  # fmt: skip
        assert result.study.study_name == "mine"
        assert len(result.study.trials) == trials
    assert (tmp_path / storage).is_file()
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["mine_search.json"]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"bta": 2.0}, r"'bta'.*\bbeta\b.*\bbeta\b"),  # the nearest, and then all that are known
        ({"space": {}}, r"\bempty\b.*\{beta:"),
        ({"space": {"lrr": LR["lr"]}}, r"'lrr'.*\blr\b.*\bdataset\b"),
        ({"data": "digits", "epochs": 1, "layers": 2}, r"\blayers\b.*\bimages\b"),
        ({"dataset": "digits"}, r"\bdata\b"),
        ({"report": "page.html"}, r"\breport\b.*\.md\b.*\bpage\.html\b"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_written(
    tmp_path: Path, settings: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        study(**{"space": LR, "output": tmp_path, "progress": False, **settings})
    assert list(tmp_path.iterdir()) == []


def test_without_a_score_it_raises_with_the_reasons(tmp_path: Path) -> None:
    high = {"lr": {"type": "float", "low": 1e29, "high": 1e30}}
    with pytest.raises(AllFailed, match=r"\b0 pruned\b.*\b2 failed\b.*\b2 x diverged\b"):
        searched(tmp_path, "MUTAG", "ucl", space=high, epochs=3)


def test_a_class_too_small_for_the_svm_is_refused_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It chooses C in 5 folds of an inner training part, 56 % of a class."""
    mutag = load_graphs("MUTAG")
    order = mutag.y.argsort()  # 63 of class 0
    graphs = mutag.take(torch.cat([order[:7], order[63:103]]))

    def trained(*_: Any, **__: Any) -> None:
        raise AssertionError("a trial was trained")

    monkeypatch.setattr(ensembles, "train_encoders", trained)
    with pytest.raises(InputError, match=r"\binner\b.*\bclass 0\b.*\b4\b.*\b5\b"):
        searched(tmp_path, graphs, "ucl")


class Named:
    """Tiny encoders in the place of ResNets, and how those were called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: set[str] = set()
        monkeypatch.setattr(image_training, "image_encoder", self._resnet)

    def _resnet(self, name: str, stem: str, width: int | None) -> nn.Module:
        self.names.add(name)
        return Tiny()


DIGITS: dict[str, Any] = {
    "space": LR, "trials": 1, "progress": False, "threads": 1, "device": "cpu", "epochs": 1,
    "subset": 60, "batch_size": 30, "probe_epochs": 2,
}  # fmt: skip


def test_images_are_told_by_their_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = Named(monkeypatch)
    result = study("digits", "ucl", output=tmp_path, **DIGITS)
    assert isinstance(result.best, ImageConfig)
    assert result.facts["protocol"] == "split"
    assert named.names == {"resnet50"}


def test_the_network_of_images_may_be_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = Named(monkeypatch)
    result = study("digits", "ucl", output=tmp_path, encoder="resnet18", **DIGITS)
    assert isinstance(result.best, ImageConfig)
    assert result.best.encoder == "resnet18"
    assert named.names == {"resnet18"}


def test_an_encoder_of_ones_own_is_refused_where_it_would_not_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Named(monkeypatch)
    with pytest.raises(InputError) as error:
        study("digits", "ucl", output=tmp_path, encoder=MyEncoder, **DIGITS)
    assert says(str(error.value), "own", "encoder", "graphs")
