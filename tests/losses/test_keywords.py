"""Typed keyword arguments: the dictionaries that ``**options`` are."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import torch

import gcl_hard
from gcl_hard.commands.bench import parse_bench
from gcl_hard.errors import InputError
from gcl_hard.losses import ContrastiveLoss, NegativeSampler
from gcl_hard.losses.keywords import LossOptions, OwnOptions, SeededOptions
from gcl_hard.losses.methods import SETTINGS, contrastive_loss
from gcl_hard.training.loop import Optimisation, OptimisationOptions


def hints(function: Callable[..., Any] | type, *without: str) -> dict[str, Any]:
    return {n: kind for n, kind in get_type_hints(function).items() if n not in without}


def test_the_dictionaries_have_the_arguments_and_their_types() -> None:
    of_loss = hints(ContrastiveLoss.__init__, "sampler", "positives", "class_prior", "return")
    assert hints(LossOptions) == of_loss
    own = {name: field.kind | None for name, field in SETTINGS.items()}
    assert hints(OwnOptions) == of_loss | own
    of_method = hints(contrastive_loss, "name", "options", "return")
    assert hints(SeededOptions) == of_loss | own | of_method
    assert hints(OptimisationOptions) == hints(Optimisation)


MEANT = {
    "tau": "temperature", "tau_plus": "class_prior", "l": "threshold", "alpha": "beta",
    "learning_rate": "lr",
}  # fmt: skip


@pytest.mark.parametrize("name", [*MEANT])
def test_a_name_of_the_field_is_answered_with_ours(name: str) -> None:
    meant = MEANT[name].replace("_", "[-_]")
    options: dict[str, Any] = {name: 0.1}
    with pytest.raises(InputError, match=rf"'{name}'; did you mean [^?]*\b{meant}"):
        gcl_hard.evaluate("gin", "MUTAG", **options)
    if meant != "lr":
        with pytest.raises(InputError, match=rf"'{name}'; did you mean [^?]*\b{meant}\b"):
            contrastive_loss("hucl", **options)
    flag = name.replace("_", "-")
    with pytest.raises(InputError, match=rf"--{flag}; did you mean [^?]*--{meant}"):
        parse_bench([f"--{flag}", "0.1"])


@pytest.mark.parametrize(
    ("name", "meant"),
    [("tau", "temperature"), ("tau_plus", "class_prior"), ("beta", r"Exponential\(beta=0\.5\)")],
)
def test_constructors_answer_them_too(name: str, meant: str) -> None:
    options: dict[str, Any] = {name: 0.5}
    with pytest.raises(InputError, match=meant):
        ContrastiveLoss(NegativeSampler(), **options)
    if name == "beta":
        with pytest.raises(InputError, match=meant):
            NegativeSampler(**options)


def test_a_printed_loss_has_what_is_not_the_default() -> None:
    options: dict[str, Any] = {
        "temperature": 0.2, "weight": "kept", "reduction": "none", "class_prior": 0.1,
        "detach_weights": False, "positives": "class", "on_empty": "raise",
    }  # fmt: skip
    printed, usual = (repr(ContrastiveLoss(NegativeSampler(), **given)) for given in (options, {}))
    for name, value in options.items():
        assert f"{name}={value!r}" in printed
        assert f"{name}={value!r}" not in usual
    jsd = ContrastiveLoss(NegativeSampler(), objective="jsd", hardness_scale="anchor")
    assert "temperature" not in repr(jsd)
    assert "hardness_scale='anchor'" in repr(jsd)


def test_labels_for_a_loss_that_reads_none_name_the_one_that_does() -> None:
    z, labels = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 2
    for given in ((z, labels), ([z], labels), (z, None, labels)):
        with pytest.raises(InputError, match=r"hucl\b.*\blabels\b.*\bhscl\b"):
            contrastive_loss("hucl")(*given)
    assert contrastive_loss("hscl")(z, labels) > 0
    with pytest.raises(InputError, match=r"^(?!.*hscl)"):
        contrastive_loss("hucl")(z)


def test_labels_in_a_column_and_stacked_views_are_not_guessed() -> None:
    z, labels = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 2
    loss = contrastive_loss("hscl")
    with pytest.raises(InputError, match=r"labels\[:, 0\]"):
        loss(z, z, labels[:, None])
    assert loss(z, z, labels[:, None][:, 0]) == loss(z, z, labels)
    with pytest.raises(InputError, match="axis 1"):
        loss(torch.stack([z, z]), labels=labels)
    torch.testing.assert_close(loss(torch.stack([z, z], 1), labels=labels), loss(z, z, labels))
    few = z[:1], z[1:2], labels[:1]  # the last batch of an epoch
    assert loss(torch.stack(few[:2], 1), few[2]) == loss(*few) == 0
    with pytest.warns(UserWarning, match="axis 1"):
        contrastive_loss("hucl")(torch.stack([z, z]))
    assert not hasattr(contrastive_loss("ucl"), "beta")
    with pytest.raises(InputError, match="list"):
        contrastive_loss("hucl")(z, z, z.clone().requires_grad_())


def test_a_loss_takes_a_sampler_and_a_method_is_named_as_here() -> None:
    with pytest.raises(InputError, match="contrastive_loss"):
        ContrastiveLoss("hscl")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="ucl"):
        contrastive_loss("SimCLR")


USES = """
import gcl_hard
from gcl_hard.graphs import GIN, InfoGraph, TwoView, load_graphs

mutag = load_graphs("MUTAG")
InfoGraph(GIN(7), method="hscl", beta=2.0, hardness_scale="rank", seed=1)
TwoView(GIN(7), method="hucl", temperature=0.2)
gcl_hard.fit(InfoGraph(GIN(7)), mutag, epochs=2, lr=0.1)
gcl_hard.contrastive_loss("bcl", auc=0.7, temperature=0.5)
"""
WRONG = {
    "betta": 'InfoGraph(GIN(7), method="hscl", betta=2.0)',
    "hardness_scale": 'InfoGraph(GIN(7), hardness_scale="ranks")',
    "lr": 'gcl_hard.fit(InfoGraph(GIN(7)), mutag, lr="fast")',
}


@pytest.mark.slow
def test_a_type_checker_sees_misspelt_settings(tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(USES)
    (tmp_path / "wrong.py").write_text(USES + "\n".join(WRONG.values()) + "\n")
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run(
        [*command, "right.py", "wrong.py"], cwd=tmp_path, capture_output=True, text=True,
        check=False,
    ).stdout  # fmt: skip
    errors = [line for line in done.splitlines() if ": error:" in line]
    assert len(errors) == len(WRONG), done
    for name, line in zip(WRONG, errors, strict=True):
        assert line.startswith("wrong.py")
        assert name in line
