"""The loss against the paper's loops in float64: value, gradient and counts, by every executor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gcl_hard.functional import fused, streaming, symmetric
from tests.losses.cases import Case, losses_of_nodes, losses_of_scores, losses_of_views
from tests.reference import loops

pytestmark = pytest.mark.filterwarnings("ignore:.*class_prior:UserWarning")


@contextmanager
def small_blocks(n_columns: int, *, halves: bool = True) -> Iterator[None]:
    """Several blocks in a small batch."""
    with (
        patch.object(streaming, "FEWEST_ROWS", 2),
        patch.object(streaming, "SCORES", 3 * n_columns),
        patch.object(fused, "ROWS", 4),
        patch.object(symmetric, "TILE", 3),
        patch.object(symmetric, "FEWEST_TILES", 2 if halves else math.inf),
    ):
        yield


def differentiated(value: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    """A value, and its gradient with weights that tell single anchors apart."""
    weights = torch.linspace(0.5, 2.0, value.numel(), dtype=value.dtype).view_as(value)
    total = (value * weights).sum()
    slopes = (
        torch.autograd.grad(total, inputs, allow_unused=True, retain_graph=True)
        if total.requires_grad
        else []
    )
    slopes = slopes or [None] * len(inputs)
    return [value.detach(), *(torch.zeros_like(z) if g is None else g
                              for z, g in zip(inputs, slopes, strict=True))]  # fmt: skip


def assert_same(actual: list[Tensor], expected: list[Tensor]) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-10, check_dtype=False)


def check(case: Case, rows: list[list[Tensor]], outputs: list[Any], inputs: list[Tensor]) -> None:
    expected = differentiated(loops.reduced(rows, case.loss["reduction"]), inputs)
    for value, seen in outputs:
        assert_same(differentiated(value, inputs), expected)
        assert (int(seen.contributing), int(seen.pairs)) == (
            sum(map(bool, rows)),
            sum(map(len, rows)),
        )


@pytest.mark.parametrize("admit", ["others", "other_labels", "rest", "debiased", "halves"])
@settings(max_examples=50)
@given(data=st.data())
def test_views_equal_the_loops(admit: str, data: st.DataObject) -> None:
    """By the table of all scores, in blocks, and by half of them where that applies."""
    case = data.draw(losses_of_views(admit))
    n, extra = len(case.inputs[0]), case.batch.get("candidates")
    w = case.sampler["pair_weights"]
    table = loops.table_of_views(
        case.inputs, *case.related(case.labels), gamma=case.loss.get("temperature", 0.5),
        raw=case.loss["objective"] == "jsd", extra=extra, w=None if w is None else w.exp().tolist(),
        anchors=case.batch.get("anchors"), detach_candidates=case.loss["detach_candidates"],
    )  # fmt: skip
    labels = torch.tensor(case.labels)
    batch = case.batch | ({} if extra is None else {"candidate_labels": labels[n:]})
    outputs = []
    for halves, blocks in ((False, False), (False, True), (True, True)):
        with small_blocks(len(table.columns), halves=halves):
            if case.streams or not blocks:
                loss = case.build(streaming=blocks)
                outputs.append(loss.with_diagnostics(case.inputs, labels[:n], **batch))
    with small_blocks(len(table.columns)):  # of the gradients, too
        inputs = [*case.inputs, *([] if extra is None else [extra])]
        check(case, case.oracle(table), outputs, inputs)


@pytest.mark.parametrize("scale", [None, "rank", "anchor", "cosine", "batch-max"])
@settings(max_examples=40)
@given(data=st.data())
def test_nodes_against_graphs_equal_the_loops(scale: str | None, data: st.DataObject) -> None:
    """By the table of all scores, fused, and in blocks; InfoNCE has no scale."""
    case = data.draw(losses_of_nodes(scale))
    nodes, graphs = case.inputs
    w, batch = case.sampler["pair_weights"], case.batch["batch"]
    table = loops.table_of_nodes(
        nodes, graphs.detach() if case.loss["detach_candidates"] else graphs, batch,
        *case.related(case.labels), gamma=case.loss.get("temperature", 0.5),
        raw=case.loss["objective"] == "jsd", w=None if w is None else w.exp().tolist(),
    )  # fmt: skip
    outputs = []
    for fuses, blocks in ((False, False), (True, False), (False, True)):
        with small_blocks(len(graphs)):
            if case.streams or not blocks:
                loss = case.build(streaming=blocks)
                loss.fused = fuses
                outputs.append(
                    loss.local_global_with_diagnostics(
                        nodes, graphs, batch, torch.tensor(case.labels)
                    )
                )
    with small_blocks(len(graphs)):
        check(case, case.oracle(table), outputs, case.inputs)


@settings(max_examples=120)
@given(case=losses_of_scores())
def test_queries_against_candidates_equal_the_loops(case: Case) -> None:
    """Scores, or vectors whose products they are; all at once and in blocks; facts in any form."""
    (q, c), batch, loss_settings, bias = case.inputs, case.batch, case.loss, -0.7
    scores = q @ c.T + bias
    own, known = batch["positive"].tolist(), batch["known"]
    proposal, repeated = batch.get("log_proposal"), batch.get("repeated")
    w = torch.ones_like(scores) if proposal is None else (-proposal).exp().expand_as(scores).clone()
    w = w.detach()
    if repeated is not None:
        w[repeated] = 0.0
    gamma = loss_settings.get("temperature", 1.0)
    table = loops.Table(
        scores / gamma, own, [*range(len(c))], [None] * len(q), known.tolist(), known.tolist(),
        w=w.tolist(),
    )  # fmt: skip
    rows, weights = case.oracle(table), batch.get("anchor_weights")
    inputs = [q, c] if weights is None or not weights.requires_grad else [q, c, weights]
    expected = loops.reduced(rows, loss_settings["reduction"], weights)
    expected = differentiated(expected, inputs)
    pairs = known.nonzero(as_tuple=True)
    order = torch.randperm(len(pairs[0]), generator=torch.Generator().manual_seed(0))
    in_pairs = batch | {"known": (pairs[0][order], pairs[1][order])}
    for streams in (False, True) if case.streams else (False,):
        with small_blocks(len(c)):
            loss = case.build(streaming=streams)
            values = [
                loss.scored(scores, **batch), loss.scored(scores, **in_pairs),
                loss.against(q, c, bias=bias, **in_pairs),
            ]  # fmt: skip
            for value in values:
                assert_same(differentiated(value, inputs), expected)
