"""Checks for your own parts, to subclass in your tests: hardenings, samplers, encoders, sets.

A subclass whose name begins with ``Test`` makes the part in ``make``; pytest, or any runner that
calls methods named ``test_…``, runs the checks. A failed check says in a sentence what is wrong.

Example:
    >>> from gcl_hard import Exponential
    >>> class TestMine(HardeningChecks):
    ...     def make(self):
    ...         return Exponential(beta=2.0)
    >>> TestMine().test_definition_1()
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from gcl_hard.functional.hardening import Hardening, Rows, as_hardening
from gcl_hard.graphs import GraphBatch, GraphSet, load_graphs
from gcl_hard.graphs.models import encode
from gcl_hard.losses.sampling import NegativeSampler
from gcl_hard.models import evaluating, width

TEMPERATURES = (0.1, 0.5, 1.0)
ANCHORS, CANDIDATES = 6, 9


def _scores(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Similarities in [−1, 1], float64 [6, 9], and the candidates that are others."""
    generator = torch.Generator().manual_seed(seed)
    s = 2 * torch.rand(ANCHORS, CANDIDATES, generator=generator, dtype=torch.float64) - 1
    others = torch.rand(ANCHORS, CANDIDATES, generator=generator) < 0.8
    others[:, 0] = True
    return s, others


def _close(actual: Tensor, expected: Tensor, wrong: str, tolerance: float = 1e-9) -> None:
    equal = torch.allclose(actual, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    assert equal, wrong


def _check_gradients(encoder: nn.Module, loss: Tensor) -> None:
    loss.backward()  # type: ignore[no-untyped-call]
    parameters = encoder.named_parameters()
    without = [name for name, p in parameters if p.requires_grad and p.grad is None]
    assert not without, f"no gradient reaches {', '.join(without)}"


class HardeningChecks:
    """Checks of a hardening η (the H-SCL paper's Definition 1) and of how it reads its rows."""

    def make(self) -> Hardening | Callable[[Tensor], Tensor]:
        """The hardening: an instance of a subclass of ``Hardening``, or a function t → log η."""
        raise NotImplementedError

    def _log_eta(self, s: Tensor, others: Tensor, temperature: float) -> Tensor:
        log_integrand = s / temperature
        return as_hardening(self.make()).log_eta(Rows(s, temperature, log_integrand, others))

    def test_definition_1(self) -> None:
        """η is a number of at least 0, and does not decrease in t."""
        for temperature in TEMPERATURES:
            as_hardening(self.make()).check(temperature)

    def test_every_row_is_its_own(self) -> None:
        """The weights of an anchor do not depend on other anchors, unless it is batch-wide."""
        hardening = as_hardening(self.make())
        if hardening.batch_wide:
            return
        s, others = _scores()
        whole = self._log_eta(s, others, 0.5)
        for i in range(len(s)):
            alone = self._log_eta(s[i : i + 1], others[i : i + 1], 0.5)
            seen = others[i]
            _close(
                alone[0][seen], whole[i][seen],
                "the weights of an anchor depend on other rows: set batch_wide = True if they must",
            )  # fmt: skip

    def test_candidates_have_no_order(self) -> None:
        """Other columns of the same candidates give the same weights."""
        s, others = _scores()
        order = torch.randperm(CANDIDATES, generator=torch.Generator().manual_seed(1))
        moved = self._log_eta(s[:, order], others[:, order], 0.5)
        expected = self._log_eta(s, others, 0.5)[:, order]
        seen = others[:, order]
        _close(moved[seen], expected[seen], "the weights depend on the order of the candidates")

    def test_what_is_no_other_is_not_read(self) -> None:
        """Scores of the anchor itself and of its other view change no weight."""
        s, others = _scores()
        changed = torch.where(others, s, -s + 0.3)
        expected = self._log_eta(s, others, 0.5)
        weights = self._log_eta(changed, others, 0.5)
        _close(
            weights[others], expected[others], "the weights depend on what is not among `others`"
        )

    def test_the_slope_is_that_of_log_eta(self) -> None:
        """``slope(γ)``, unless it is None, is the derivative of log η by s."""
        hardening = as_hardening(self.make())
        for temperature in TEMPERATURES:
            if (slope := hardening.slope(temperature)) is None:
                return
            s, others = _scores()
            step = 1e-6
            above, below = (self._log_eta(s + by, others, temperature) for by in (step, -step))
            derivative = (above - below) / (2 * step)
            seen = others & derivative.isfinite()  # where η > 0
            _close(
                derivative[seen], torch.full_like(derivative[seen], slope),
                f"slope({temperature}) is {slope}, which is not the derivative of log η", 1e-5,
            )  # fmt: skip

    def test_single_precision_stays_single(self) -> None:
        """float32 scores give float32 weights."""
        s, others = _scores()
        weights = self._log_eta(s.float(), others, 0.5)
        assert weights.dtype == torch.float32, f"float32 scores give weights of {weights.dtype}"


class SamplerChecks:
    """Checks of a negative sampler: its distribution over the candidates of every anchor."""

    def make(self) -> NegativeSampler:
        """The sampler."""
        raise NotImplementedError

    def _log_q(self, s: Tensor, others: Tensor, same: Tensor) -> tuple[Tensor, Tensor]:
        sampler = self.make()
        negatives = sampler(s, others=others, temperature=0.5, same_label=same)
        return negatives.log_q.exp(), negatives.empty

    def test_it_is_a_distribution_over_admitted_candidates(self) -> None:
        """Every row sums to 1; an anchor's own label has no weight if labels decide."""
        s, others = _scores()
        same = torch.rand(s.shape, generator=torch.Generator().manual_seed(2)) < 0.3
        q, empty = self._log_q(s, others, same)
        assert bool((q >= 0).all()), "a negative has a weight below 0"
        ones = torch.ones(len(s), dtype=q.dtype)
        _close(q.sum(1), ones, "the weights of a row do not sum to 1")
        weighed = q[~empty]
        assert not weighed[~others[~empty]].any(), "a candidate outside `others` has a weight"
        if self.make().needs_labels:
            assert not weighed[same[~empty]].any(), "an item of the anchor's label has a weight"

    def test_candidates_have_no_order(self) -> None:
        """Other columns of the same candidates give the same weights."""
        s, others = _scores()
        same = torch.zeros_like(others)
        order = torch.randperm(CANDIDATES, generator=torch.Generator().manual_seed(1))
        q, _ = self._log_q(s, others, same)
        moved, _ = self._log_q(s[:, order], others[:, order], same)
        if self.make().draws is None:
            _close(moved, q[:, order], "the weights depend on the order of the candidates")

    def test_an_anchor_without_negatives_is_marked(self) -> None:
        """No row is NaN, and rows without an admitted candidate are ``empty``."""
        s, others = _scores()
        others[2] = False
        q, empty = self._log_q(s, others, torch.zeros_like(others))
        assert bool(q.isfinite().all()), "weights are not finite where an anchor has no negative"
        assert bool(empty[2]), "an anchor without candidates is not marked as empty"


class GraphEncoderChecks:
    """Checks of an encoder of graphs, called as ``(x, edge_index, batch)``."""

    def make(self, n_features: int, edge_dim: int | None) -> nn.Module:
        """The encoder, for sets with these numbers of node and edge features."""
        raise NotImplementedError

    def graphs(self) -> GraphSet:
        """Graphs to check it on; MUTAG by default."""
        return load_graphs("MUTAG", download=False)

    def _encoder_and_graphs(self) -> tuple[nn.Module, GraphSet]:
        graphs = self.graphs()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            encoder = self.make(graphs.n_features, graphs.edge_dim)
        return encoder, graphs

    def _embedded(self, encoder: nn.Module, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        with evaluating(encoder):
            return encode(encoder, batch, width(encoder, None))

    def test_shapes_and_width(self) -> None:
        """Embeddings of nodes [N, d] and graphs [G, d], with d in ``out_dim``."""
        encoder, graphs = self._encoder_and_graphs()
        nodes, graph_embeddings = self._embedded(encoder, graphs.batch([0, 1, 2]))
        finite = bool(nodes.isfinite().all() and graph_embeddings.isfinite().all())
        assert finite, "embeddings are not finite"

    def test_a_graph_does_not_depend_on_its_batch(self) -> None:
        """In evaluation mode a graph has the same embedding alone and beside others."""
        encoder, graphs = self._encoder_and_graphs()
        ids = [3, 0, 5]
        _, together = self._embedded(encoder, graphs.batch(ids))
        for row, graph_id in zip(together, ids, strict=True):
            _, alone = self._embedded(encoder, graphs.batch([graph_id]))
            _close(
                alone[0], row, "a graph's embedding depends on the other graphs of its batch", 1e-4
            )

    def test_nodes_have_no_order(self) -> None:
        """Renumbered nodes have the same embeddings, and so has their graph."""
        encoder, graphs = self._encoder_and_graphs()
        batch = graphs.batch([0])
        order = torch.randperm(len(batch.x), generator=torch.Generator().manual_seed(1))
        position = order.argsort()
        moved = replace(batch, x=batch.x[order], edge_index=position[batch.edge_index])
        nodes, graph = self._embedded(encoder, batch)
        moved_nodes, moved_graph = self._embedded(encoder, moved)
        _close(moved_nodes, nodes[order], "embeddings of nodes depend on their numbers", 1e-4)
        _close(moved_graph, graph, "a graph's embedding depends on the numbers of its nodes", 1e-4)

    def test_evaluation_draws_nothing(self) -> None:
        """Two calls in evaluation mode agree, and leave the encoder as it was."""
        encoder, graphs = self._encoder_and_graphs()
        batch = graphs.batch([0, 1])
        before = {k: v.clone() for k, v in encoder.state_dict().items()}
        first, second = self._embedded(encoder, batch), self._embedded(encoder, batch)
        assert torch.equal(first[1], second[1]), "two calls in evaluation mode differ"
        same = all(torch.equal(v, before[k]) for k, v in encoder.state_dict().items())
        assert same, "a call in evaluation mode changes the encoder"

    def test_every_weight_is_trained(self) -> None:
        """Every parameter has a gradient from node and graph embeddings together."""
        encoder, graphs = self._encoder_and_graphs()
        encoder.train()
        nodes, graph_embeddings = encode(encoder, graphs.batch([0, 1, 2, 3]), width(encoder, None))
        _check_gradients(encoder, nodes.square().sum() + graph_embeddings.square().sum())

    def test_weights_travel(self) -> None:
        """``state_dict`` of one encoder makes another the same."""
        encoder, graphs = self._encoder_and_graphs()
        other = self.make(graphs.n_features, graphs.edge_dim)
        other.load_state_dict(encoder.state_dict())
        batch = graphs.batch([0, 1])
        copied, expected = self._embedded(other, batch)[1], self._embedded(encoder, batch)[1]
        _close(copied, expected, "state_dict does not hold all that embeddings depend on", 1e-5)


class ImageEncoderChecks:
    """Checks of an encoder of images, from float [B, 3, S, S] to embeddings [B, d]."""

    size = 32
    """Side of the images in pixels."""

    def make(self) -> nn.Module:
        """The encoder."""
        raise NotImplementedError

    def _embedded(self, encoder: nn.Module, x: Tensor) -> Tensor:
        with evaluating(encoder):
            z: Any = encoder(x)
        assert isinstance(z, Tensor), f"the encoder returns {type(z).__name__}, no tensor"
        return z

    def _images(self) -> Tensor:
        return torch.rand(3, 3, self.size, self.size, generator=torch.Generator().manual_seed(0))

    def test_shape_and_width(self) -> None:
        """Embeddings [B, d], with d in ``out_dim``."""
        encoder = self.make()
        z = self._embedded(encoder, self._images())
        d = width(encoder, None)
        assert z.shape == (3, d), f"embeddings are {list(z.shape)}, and out_dim says [3, {d}]"
        assert bool(z.isfinite().all()), "embeddings are not finite"

    def test_an_image_does_not_depend_on_its_batch(self) -> None:
        """In evaluation mode an image has the same embedding alone and beside others."""
        encoder, x = self.make(), self._images()
        alone = torch.cat([self._embedded(encoder, image[None]) for image in x])
        together = self._embedded(encoder, x)
        _close(alone, together, "an image's embedding depends on its batch", 1e-4)

    def test_every_weight_is_trained(self) -> None:
        """Every parameter has a gradient."""
        encoder = self.make().train()
        _check_gradients(encoder, encoder(self._images()).square().sum())


class GraphSetChecks:
    """Checks of your own set of graphs."""

    def make(self) -> GraphSet:
        """The set, read again."""
        raise NotImplementedError

    def test_edges_stay_inside_their_graphs(self) -> None:
        """No edge leads from one graph into another, or out of the set."""
        graphs = self.make()
        batch = graphs.all()
        ends = batch.edge_index
        inside = not ends.numel() or (int(ends.min()) >= 0 and int(ends.max()) < len(batch.x))
        assert inside, "an edge names a node that does not exist"
        owner = batch.batch
        assert torch.equal(owner[ends[0]], owner[ends[1]]), "an edge joins two graphs"

    def test_edges_have_both_directions(self) -> None:
        """Every edge exists in both directions, as message passing expects of undirected graphs."""
        ends = self.make().all().edge_index
        edges = set(map(tuple, ends.T.tolist()))
        missing = [edge for edge in edges if edge[::-1] not in edges]
        assert not missing, f"{len(missing)} edges have no other direction, such as {missing[:1]}"

    def test_labels_are_classes_from_zero(self) -> None:
        """Labels, if there are any, are 0 … C − 1, and every class has a graph."""
        graphs = self.make()
        if graphs.n_classes:
            labels = sorted({*graphs.y.tolist()})
            expected = list(range(graphs.n_classes))
            assert labels == expected, f"labels are {labels}, and n_classes is {graphs.n_classes}"

    def test_features_are_finite(self) -> None:
        """No feature is NaN or infinite."""
        batch = self.make().all()
        assert bool(batch.x.isfinite().all()), "a node feature is not finite"
        if batch.edge_attr is not None:
            assert bool(batch.edge_attr.isfinite().all()), "an edge feature is not finite"

    def test_reading_it_twice_gives_the_same(self) -> None:
        """The set is the same every time, so that results belong to it."""
        first, second = self.make(), self.make()
        same = (
            torch.equal(first.x, second.x)
            and torch.equal(first.edge_index, second.edge_index)
            and torch.equal(first.y, second.y)
        )
        assert same, "two readings of the set differ"
