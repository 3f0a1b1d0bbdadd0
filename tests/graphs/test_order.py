"""The order of graphs in an epoch and its batches."""

from __future__ import annotations

import itertools

import pytest
import torch

from gcl_hard.errors import InputError
from gcl_hard.graphs.order import epoch_batches, epoch_chunks


@pytest.mark.parametrize("batch_size", [2, 3, 50, 500])
def test_every_epoch_visits_every_graph_once_in_its_own_order(batch_size: int) -> None:
    epochs = [epoch_batches(101, batch_size, seed=3, epoch=e) for e in (1, 2)]
    for batches in epochs:
        assert sorted(torch.cat(batches).tolist()) == list(range(101))
        assert min(len(batch) for batch in batches) >= 2
        assert all(len(batch) == batch_size for batch in batches[:-1])
    assert not torch.equal(torch.cat(epochs[0]), torch.cat(epochs[1]))
    again = epoch_batches(101, batch_size, seed=3, epoch=2)
    assert all(torch.equal(a, b) for a, b in zip(again, epochs[1], strict=True))
    other = epoch_batches(101, batch_size, seed=4, epoch=2)
    assert not torch.equal(torch.cat(other), torch.cat(again))


def test_held_out_graphs_leave_the_order_of_the_others_alone() -> None:
    everything = torch.cat(epoch_batches(60, 8, seed=0, epoch=5))
    for fold in range(10):
        held_out = torch.arange(fold, 60, 10)
        batches = epoch_batches(60, 8, seed=0, epoch=5, held_out=held_out)
        left = [g for g in everything.tolist() if g not in held_out.tolist()]
        assert torch.cat(batches).tolist() == left
        assert min(len(batch) for batch in batches) >= 2


@pytest.mark.parametrize("n_kept", [2, 3, 5])
def test_batches_too_small_for_negatives_join_a_neighbour(n_kept: int) -> None:
    for epoch in range(20):
        batches = epoch_batches(40, 4, seed=1, epoch=epoch, held_out=torch.arange(n_kept, 40))
        assert sorted(torch.cat(batches).tolist()) == list(range(n_kept))
        assert min(len(batch) for batch in batches) >= 2


def trained_on_by_each(n_graphs: int, members: int, seed: int, share: float) -> torch.Tensor:
    """Graphs that each of some models trains on, at least two."""
    g = torch.Generator().manual_seed(seed)
    kept = torch.rand(members, n_graphs, generator=g) >= share
    kept[:, :2] = True
    return kept


@pytest.mark.parametrize("batch_size", [2, 4, 7, 100])
def test_chunks_without_held_out_graphs_are_the_batches(batch_size: int) -> None:
    for epoch in range(3):
        order = {"seed": 5, "epoch": epoch}
        batches = epoch_batches(41, batch_size, **order)
        for kept in (None, torch.ones(3, 41, dtype=torch.bool)):
            chunks = epoch_chunks(41, batch_size, kept=kept, **order)
            assert [c.tolist() for c in chunks] == [b.tolist() for b in batches]


def test_chunks_are_each_models_batches_before_its_graphs_are_dropped() -> None:
    """Where models join their chunks differently they are refused, and nowhere else."""
    shared = refused = 0
    for batch_size, share, epoch in itertools.product((2, 4, 10), (0.1, 0.5, 0.8), range(10)):
        order = {"seed": 2, "epoch": epoch}
        kept = trained_on_by_each(40, 2, epoch, share)
        single = [epoch_chunks(40, batch_size, kept=row[None], **order) for row in kept]
        if [len(c) for c in single[0]] != [len(c) for c in single[1]]:
            refused += 1
            with pytest.raises(InputError, match=rf"held-out\b.*\bepoch {epoch}\b.*ensembles"):
                epoch_chunks(40, batch_size, kept=kept, **order)
            continue
        shared += 1
        chunks = epoch_chunks(40, batch_size, kept=kept, **order)
        assert torch.equal(torch.cat(chunks), torch.cat(epoch_batches(40, batch_size, **order)))
        for row in kept:
            held_out = (~row).nonzero().flatten()
            batches = epoch_batches(40, batch_size, held_out=held_out, **order)
            assert [c[row[c]].tolist() for c in chunks] == [b.tolist() for b in batches]
    assert min(shared, refused) > 20


def chunk_lengths(left_out: list[list[int]], seed: int = 0) -> list[int]:
    """Lengths of chunks of 3 of 12 graphs, of which models hold out some by place in the order."""
    order = torch.cat(epoch_batches(12, 3, seed=seed, epoch=1))
    kept = torch.ones(len(left_out), 12, dtype=torch.bool)
    for row, places in zip(kept, left_out, strict=True):
        row[order[places]] = False
    return [len(chunk) for chunk in epoch_chunks(12, 3, seed=seed, epoch=1, kept=kept)]


def test_a_chunk_left_with_one_graph_joins_with_its_held_out_ones() -> None:
    assert chunk_lengths([[0], [4]]) == [3, 3, 3, 3]
    assert chunk_lengths([[3, 4]]) == [6, 3, 3]
    assert chunk_lengths([[0, 1]]) == [6, 3, 3]  # the first joins the next
    assert chunk_lengths([[0, 1, 2, 3, 4]]) == [9, 3]
    assert chunk_lengths([[9, 10, 11]]) == [3, 3, 6]
    assert chunk_lengths([[3, 4], [4, 5]]) == [6, 3, 3]  # other graphs, the same join


def test_epoch_chunks_refuses_what_cannot_be_trained_on() -> None:
    kept = torch.ones(3, 5, dtype=torch.bool)
    kept[1, 1:] = False
    with pytest.raises(InputError, match=r"\b1 .*\b5 .*>= 2"):
        epoch_chunks(5, 2, seed=0, epoch=1, kept=kept)
    with pytest.raises(InputError, match=r"\b1 .*\b1 .*>= 2"):
        epoch_chunks(1, 2, seed=0, epoch=1)
    for name, value in (("batch_size", 1), ("seed", -1), ("epoch", -1)):
        arguments = {"batch_size": 2, "seed": 0, "epoch": 1, name: value}
        with pytest.raises(InputError, match=rf"{name}\b.*{value}$"):
            epoch_chunks(5, **arguments)
