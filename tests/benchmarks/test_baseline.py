from __future__ import annotations

import pytest
import torch

from benchmarks.baseline import data_loader, masks_at_once, masks_by_loop, step_loss
from benchmarks.live_tensors import LiveTensors
from gcl_hard.graphs import GIN, InfoGraph, load_graphs
from gcl_hard.graphs.data import GraphBatch, GraphSet


@pytest.fixture(scope="module")
def mutag() -> GraphSet:
    return load_graphs("MUTAG")


def model_of(method: str, mutag: GraphSet) -> InfoGraph:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return InfoGraph(
            GIN(mutag.n_features), method=method, detach_weights=False, hardness_scale="batch-max"
        ).double()


def in_double(batch: GraphBatch) -> GraphBatch:
    batch.x = batch.x.double()
    return batch


@pytest.mark.parametrize("method", ["ucl", "hscl"])
@pytest.mark.parametrize("fused", [True, False])
def test_loss_and_gradients_equal_ours(mutag: GraphSet, method: str, fused: bool) -> None:
    batch = in_double(mutag.batch(torch.arange(0, 188, 5)))
    ours, common = model_of(method, mutag), model_of(method, mutag)
    ours.loss.fused = fused
    expected = ours(batch)
    got = step_loss(common, batch, hardened=method == "hscl", fill=masks_at_once)
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)  # the masks are float32
    expected.backward()
    got.backward()
    for ours_p, common_p in zip(ours.parameters(), common.parameters(), strict=True):
        torch.testing.assert_close(common_p.grad, ours_p.grad, rtol=1e-5, atol=1e-5)


def test_masks_by_loop_equal_masks_at_once(mutag: GraphSet) -> None:
    batch = mutag.batch(torch.tensor([3, 1, 4]))
    own_graph, others = masks_by_loop(batch.batch, 3)
    assert torch.equal(own_graph.nonzero()[:, 1], batch.batch)
    assert torch.equal(own_graph + others, torch.ones_like(own_graph))
    for by_loop, at_once in zip((own_graph, others), masks_at_once(batch.batch, 3), strict=True):
        assert torch.equal(by_loop, at_once)


def test_loader_gives_the_same_graphs(mutag: GraphSet) -> None:
    loader = data_loader(mutag, batch_size=10)
    for g in (0, 57, 187):
        item, expected = loader.dataset[g], mutag.batch(torch.tensor([g]))
        for field in ("x", "edge_index", "y", "edge_attr"):
            assert torch.equal(item[field], getattr(expected, field)), field


def test_fused_loss_holds_one_nodes_by_graphs_tensor_and_the_general_one_more() -> None:
    generator = torch.Generator().manual_seed(0)
    nodes = torch.randn(3000, 8, generator=generator, requires_grad=True)
    graphs = torch.randn(100, 8, generator=generator, requires_grad=True)
    owner, labels = torch.arange(3000) // 30, torch.arange(100) % 2
    loss = InfoGraph(GIN(1), method="hscl", detach_weights=False).loss
    peaks = []
    for fused in (True, False):
        loss.fused = fused
        with LiveTensors(large=3000 * 100) as live:
            loss.local_global(nodes, graphs, owner, labels).backward()
        peaks.append(live.peak_large)
    assert peaks[0] == 1
    assert peaks[1] > 3


def test_live_tensors_counts_what_is_alive_and_no_view_twice() -> None:
    ones = torch.ones(1000)
    with LiveTensors(large=1000) as live:
        doubled = ones * 2
        doubled.add_(1)
        views = [doubled[:500], doubled.view(10, 100), ones[:10]]
        assert (live.peak_bytes, live.peak_large) == (4000, 1)
        del doubled, views
        for _ in range(3):
            _ = (ones * 3) * 4
        assert (live.peak_bytes, live.peak_large) == (8000, 2)
