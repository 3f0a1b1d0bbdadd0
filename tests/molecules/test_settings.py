"""Settings of molecules: what means nothing is refused, and names of results before are kept."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch

from gcl_hard.errors import InputError
from gcl_hard.experiments.domains import DOMAINS, from_dict, namespace
from gcl_hard.experiments.settings import as_json
from gcl_hard.losses.methods import METHODS, contrastive_loss
from gcl_hard.molecules.settings import AWARE, MoleculeConfig


@pytest.mark.parametrize("method", METHODS)
def test_methods_of_labelled_molecules_read_labels(method: str) -> None:
    if METHODS[method].label_aware:
        assert MoleculeConfig(method=method).reads_labels
        return
    with pytest.raises(InputError, match=rf"\b{method}\b.*\blabels\b.*\bscl, hscl\b.*\becfp\b"):
        MoleculeConfig(method=method)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"probe": "linear", "joined": ("wl",)}, r"\bwl\b.*\blinear\b.*--probe kernel"),
        ({"probe": "linear", "method": "wl"}, r"\bwl\b.*\blinear\b.*--probe kernel"),
        ({"targets": ("y",)}, r"\btargets\b.*\bBACE\b"),
        ({"encoder": "gin"}, r"\buntrained\b.*\bFILE\.pt\b.*'gin'"),
        ({"joined": ("untrained",)}, r"joined\b.*\becfp\b"),
        ({"split": "sideways"}, r"split\b.*\bscaffold\b"),
        ({"split": "given"}, r"BACE\b.*\bgiven\b.*\bscaffold\b"),
        ({"label_gap": (1.0,)}, r"label_gap\b.*\btwo\b.*1"),
        ({"label_gap": (2.0, 1.0)}, "2.0"),
        ({"augmentations": ("nothing",)}, "nothing"),
    ],
)
def test_what_means_nothing_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        MoleculeConfig(**settings)


def test_the_split_of_a_known_set_is_known_and_that_of_a_table_is_left_to_its_columns() -> None:
    names = {"BACE": "scaffold", "CHEMBL204_Ki": "given", "mine.csv": None, "mine@0123": None}
    for name, split in names.items():
        assert MoleculeConfig(name).split == split
    assert MoleculeConfig("BACE", split="scaffold").key() == MoleculeConfig("BACE").key()
    assert MoleculeConfig("mine@0123", split="scaffold").key() != MoleculeConfig("mine@0123").key()


def test_what_a_probe_reads_trains_no_encoder_of_its_own() -> None:
    plain = MoleculeConfig(method="scl")
    for settings in ({"joined": ("ecfp",)}, {"probe": "linear"}):
        assert replace(plain, **settings).encoder_config == plain
        assert replace(plain, **settings).group_key == plain.group_key
    for settings in ({"lr": 1.0}, {"split": "random-0"}, {"train_share": 0.5}):
        assert replace(plain, **settings).group_key != plain.group_key
    assert MoleculeConfig(method="ecfp").group_key is None


@pytest.mark.parametrize(
    ("name", "domain"),
    [("bace", "molecules"), ("CHEMBL204_Ki", "molecules"), ("some/mine.csv", "molecules"),
     ("MUTAG", "graphs"), ("digits", "images")],
)  # fmt: skip
def test_a_data_set_names_its_domain(name: str, domain: str) -> None:
    assert [
        name_of_domain for name_of_domain in DOMAINS if namespace(name_of_domain).has_dataset(name)
    ] == [domain]


@pytest.mark.parametrize("method", AWARE)
def test_fine_tuning_takes_the_usual_loss_of_a_method(method: str) -> None:
    """Its weights are constants to the gradient, which is not how the papers train encoders."""
    labels = torch.arange(16) % 3
    gradients = []
    for loss in (MoleculeConfig(method=method).loss(3), contrastive_loss(method, seed=3)):
        views = torch.randn(32, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
        loss(*views.chunk(2), labels).backward()
        gradients.append(views.grad)
    torch.testing.assert_close(*gradients)


def test_configurations_of_records_are_read_again() -> None:
    config = MoleculeConfig("mine@0123", "hscl", joined=("ecfp", "wl"), targets=("a", "b"))
    assert from_dict(json.loads(json.dumps(as_json(config))), "molecules") == config
