"""The queue of candidates against a deque."""

from __future__ import annotations

from collections import deque

import pytest
import torch

from gcl_hard import InputError, Queue, contrastive_loss


def test_a_queue_holds_the_last_embeddings():
    queue, known = Queue(10, 3), deque(maxlen=10)
    assert queue.candidates() == {}
    for step, n in enumerate((4, 4, 1, 10, 3, 7)):
        z, y = torch.randn(n, 3), torch.full((n,), step)
        queue.add(z, y)
        known.extend(zip(z.tolist(), y.tolist(), strict=True))
        assert len(queue) == len(known)
        assert bool(queue.filled) == (step >= 3)
        arguments = queue.candidates()
        pairs = zip(
            arguments["candidates"].tolist(), arguments["candidate_labels"].tolist(), strict=True
        )
        assert sorted(pairs) == sorted(known)


def test_a_queue_is_saved_and_goes_on():
    queue, again = Queue(10, 3), Queue(10, 3)
    queue.add(torch.randn(7, 3))
    again.load_state_dict(queue.state_dict())
    more = torch.randn(6, 3)
    for queue_ in (queue, again):
        queue_.add(more)
    assert torch.equal(queue.embeddings, again.embeddings)
    assert (int(again.pointer), bool(again.filled)) == (3, True)
    assert "candidate_labels" not in queue.candidates()


def test_a_loss_takes_its_candidates_and_no_gradient_reaches_them():
    queue, loss = Queue(6, 4), contrastive_loss("hscl")
    z1, z2, y = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4), torch.arange(3)
    queue.add(z1 * 2, y)
    more = queue.candidates()
    assert not more["candidates"].requires_grad
    got = loss(z1, z2, y, **more)
    by_hand = loss(z1, z2, y, candidates=2 * z1.detach(), candidate_labels=y)
    torch.testing.assert_close(got, by_hand)


def test_what_does_not_fit_is_refused():
    queue = Queue(4, 3)
    with pytest.raises(InputError, match=r"queue\b.*\b4\b.*\b5\b"):
        queue.add(torch.randn(5, 3))
    with pytest.raises(InputError, match=r"\[B, 3\].*\[2, 4\]"):
        queue.add(torch.randn(2, 4))
    with pytest.raises(InputError, match=r"queue\b.*\bintegers \[2\].*float32.*candidate_labels"):
        queue.add(torch.randn(2, 3), torch.tensor([0.5, 1.5]))
    with pytest.raises(InputError, match="size"):
        Queue(0, 3)
    queue.add(torch.randn(2, 3), torch.tensor([0, 1]))
    queue.add(torch.randn(2, 3))
    with pytest.raises(InputError, match="candidate_labels"):
        contrastive_loss("scl")(
            torch.randn(2, 3), torch.randn(2, 3), torch.tensor([0, 1]), **queue.candidates()
        )
