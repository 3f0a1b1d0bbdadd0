"""Gathered negatives: several processes have the loss of one, on the joined batch."""

from __future__ import annotations

from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import distributed

from gcl_hard import (
    ContrastiveLoss,
    Exponential,
    InputError,
    MixturePosterior,
    NegativeSampler,
    Threshold,
    gather,
)
from tests.distributed import run_processes
from tests.said import says

SPLITS = {2: (6, 3), 3: (4, 0, 5)}
"""Items of each process, the joined batch of nine."""
LABELS = torch.tensor([0, 1, 1, 2, 0, 3, 1, 0, 2])
MARKED = torch.tensor([0, -1, 1, 2, 0, -1, 1, -1, 2])
VALUES = torch.tensor([0.1, 1.2, 1.3, 2.9, 0.2, 3.0, 1.1, 0.0, 2.0], dtype=torch.float64)
NODES = torch.arange(9).repeat_interleave(torch.tensor([2, 3, 1, 1, 4, 2, 2, 3, 2]))


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def sampler(admit="others", hardening=None, **more):
    return NegativeSampler(admit, hardening, **more)


WEIGHTS = numbers(9, 9, seed=7)
VIEWS = {
    "ucl": {"sampler": sampler()},
    "hucl": {"sampler": sampler("others", Exponential(1.5)), "detach_weights": False},
    "hcl": {"sampler": sampler("others", Exponential(1.0)), "class_prior": 0.1},
    "hscl": {"sampler": sampler("other_labels", Exponential(1.0)), "positives": "class"},
    "hscl-tau": {"sampler": sampler("other_labels", Threshold(0.2)), "positives": "class"},
    "anchors": {"sampler": sampler("other_labels"), "positives": "class", "reduction": "anchors"},
    "rest": {"sampler": sampler("rest", Exponential(1.0)), "positives": "class"},
    "weights": {"sampler": sampler(pair_weights=WEIGHTS)},
    "gap": {"sampler": sampler("other_labels", label_gap=(0.3, 0.8)), "positives": "class"},
    "jsd": {"sampler": sampler("others", Exponential(1.0)), "objective": "jsd"},
    "unknown": {"sampler": sampler("other_labels"), "positives": "class", "unknown": -1},
    "progcl": {"sampler": sampler("others", MixturePosterior())},
}
GRAPHS = {
    "jsd": {"sampler": sampler("other_labels", Exponential(1.0)), "objective": "jsd"},
    "jsd-hcl": {
        "sampler": sampler("others", Exponential(1.0)), "objective": "jsd", "class_prior": 0.1
    },
    "infonce": {"sampler": sampler("others", Exponential(1.0))},
    "unknown": {"sampler": sampler("other_labels"), "unknown": -1},
    "progcl": {
        "sampler": sampler("others", MixturePosterior()), "objective": "jsd",
        "hardness_scale": "cosine",
    },
}  # fmt: skip


def labels_of(name):
    return {"gap": VALUES, "unknown": MARKED}.get(name, LABELS)


class Computed(NamedTuple):
    """What a slice of the items has."""

    value: torch.Tensor
    counts: list[int]
    gradient: torch.Tensor
    effective: torch.Tensor


def views_loss(name, mine, n_views=2, **options):
    z = [numbers(9, 5, seed=v)[mine].requires_grad_() for v in range(n_views)]
    loss = ContrastiveLoss(**deepcopy(VIEWS[name]), **options)
    value, seen = loss.with_diagnostics(z, labels_of(name)[mine])
    gradient = torch.stack(torch.autograd.grad(value, z), 1)
    effective = seen.effective_negatives.view(n_views, -1).T
    return Computed(value.detach(), [*map(int, seen.counts.values())], gradient, effective)


def graphs_loss(name, mine, **options):
    graphs = numbers(9, 5)[mine].requires_grad_()
    own_nodes = torch.isin(NODES, torch.arange(9)[mine])
    nodes = numbers(len(NODES), 5, seed=1)[own_nodes].requires_grad_()
    loss = ContrastiveLoss(**deepcopy(GRAPHS[name]), **options)
    value, seen = loss.local_global_with_diagnostics(
        nodes, graphs, NODES[own_nodes] - mine.start, labels_of(name)[mine]
    )
    gradient = torch.cat(torch.autograd.grad(value, [nodes, graphs]))
    counts = [*map(int, seen.counts.values())]
    return Computed(value.detach(), counts, gradient, seen.effective_negatives)


def cases():
    """Everything that is computed on either side, by name."""
    for name in VIEWS:
        for n_views in (2, 3):
            for streaming in (False, "auto") if name == "jsd" else (False, True):
                yield views_loss, name, {"n_views": n_views, "streaming": streaming}
    for name in GRAPHS:
        yield graphs_loss, name, {}


def worker(rank, world, folder):
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world
    )
    edges = [0, *torch.tensor(SPLITS[world]).cumsum(0).tolist()]
    mine = [slice(a, b) for a, b in pairwise(edges)][rank]
    computed = [
        compute(name, mine, negatives="gathered", **options) for compute, name, options in cases()
    ]
    z = numbers(9, 5)[mine].requires_grad_()
    every, y = gather(z, LABELS[mine])
    (slope,) = torch.autograd.grad((every * numbers(9, 5, seed=3)).sum(), z)
    try:
        gather(numbers(2, 3 + rank))
        refused = "no"
    except InputError as error:
        refused = str(error)
    plain = [tuple(part) for part in computed]
    torch.save((plain, every.detach(), y, slope, refused), f"{folder}/{rank}.pt")
    distributed.destroy_process_group()


@pytest.mark.exact
@pytest.mark.parametrize("world", SPLITS)
def test_processes_have_the_loss_of_the_joined_batch(world: int, tmp_path: Path) -> None:
    run_processes(worker, world, str(tmp_path), nprocs=world)
    parts = [torch.load(tmp_path / f"{rank}.pt") for rank in range(world)]
    edges = torch.tensor(SPLITS[world]).cumsum(0)
    graph_rows = torch.searchsorted(NODES, edges).tolist()
    for at, (compute, name, options) in enumerate(cases()):
        expected = compute(name, slice(0, 9), **options)
        computed = [Computed(*part[0][at]) for part in parts]
        for part_ in computed:
            torch.testing.assert_close(part_.value, expected.value, rtol=1e-10, atol=1e-12)
            assert part_.counts == expected.counts, (name, options)
        torch.testing.assert_close(
            torch.cat([part_.effective for part_ in computed]), expected.effective
        )
        slopes = [part_.gradient / world for part_ in computed]
        if compute is graphs_loss:  # nodes, then graphs
            ends = zip([0, *graph_rows], graph_rows, strict=False)
            n_nodes = [b - a for a, b in ends]
            slopes = [
                *(s[:n] for s, n in zip(slopes, n_nodes, strict=True)),
                *(s[n:] for s, n in zip(slopes, n_nodes, strict=True)),
            ]
        torch.testing.assert_close(torch.cat(slopes), expected.gradient, rtol=1e-8, atol=1e-12)
    for rank, (_, every, y, _, refused) in enumerate(parts):
        assert torch.equal(every, numbers(9, 5))
        assert torch.equal(y, LABELS)
        assert says(refused, "rows", rank, world, f"[2, {3 + rank}]")
    weighed = world * numbers(9, 5, seed=3)
    torch.testing.assert_close(torch.cat([part[3] for part in parts]), weighed)


def test_one_process_needs_no_group() -> None:
    for compute, name, options in cases():
        gathered, expected = (
            compute(name, slice(0, 9), negatives=negatives, **options)
            for negatives in ("gathered", "local")
        )
        assert torch.equal(gathered.value, expected.value)
        assert gathered.counts == expected.counts
        torch.testing.assert_close(gathered.gradient, expected.gradient, rtol=1e-12, atol=1e-15)


def test_a_scale_of_one_batch_is_refused() -> None:
    with pytest.raises(InputError, match="gathered"):
        ContrastiveLoss(
            NegativeSampler(), objective="jsd", hardness_scale="batch-max", negatives="gathered"
        )
