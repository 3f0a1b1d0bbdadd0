"""The checks of ``gcl_hard.testing``: our parts pass them, and broken parts do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gcl_hard import Exponential, MeanThreshold, NegativeSampler, Threshold
from gcl_hard.functional.hardening import Hardening, Rows, Uniform
from gcl_hard.functional.mixture import Beta, BetaMixture, MixturePosterior
from gcl_hard.functional.rowwise import RankPosterior, RelativeThreshold, Ring, Transport
from gcl_hard.graphs import GIN, GraphSet, load_graphs
from gcl_hard.images import fast_net, image_encoder
from gcl_hard.testing import (
    GraphEncoderChecks,
    GraphSetChecks,
    HardeningChecks,
    ImageEncoderChecks,
    SamplerChecks,
)


def checks(suite: Any) -> list[str]:
    return [name for name in dir(suite) if name.startswith("test_")]


def user_suite(suite: Any, make: Callable[..., Any]) -> Any:
    """A subclass, as a user writes it, whose part is made by a function."""
    return type("Mine", (suite,), {"make": lambda self, *arguments: make(*arguments)})()


HARDENINGS: dict[str, Callable[[], Any]] = {
    "uniform": Uniform,
    "exponential": lambda: Exponential(beta=2.0),
    "threshold": lambda: Threshold(0.2),
    "mean threshold": MeanThreshold,
    "ring": Ring,
    "rank posterior": RankPosterior,
    "mixture posterior": lambda: MixturePosterior(
        mixture=BetaMixture(Beta(4.0, 8.0, 0.8), Beta(12.0, 3.0, 0.2))
    ),
    "unfitted mixture": MixturePosterior,
    "relative threshold": RelativeThreshold,
    "transport": Transport,
    "function": lambda: lambda t: 3 * t,
}
ENCODERS: dict[str, Callable[..., nn.Module]] = {
    "gin": lambda n, e: GIN(n, 8, 2),
    "gin with edges": lambda n, e: GIN(n, 8, 2, edge_dim=e),
    "gin with a virtual node": lambda n, e: GIN(n, 8, 3, virtual_node=True, readout="both"),
}
IMAGES: dict[str, Callable[[], nn.Module]] = {
    "fast": lambda: fast_net(4),
    "resnet18": lambda: image_encoder("resnet18", width=8),
    "torchvision": lambda: image_encoder("torchvision:shufflenet_v2_x0_5"),
}


@pytest.mark.parametrize("check", checks(HardeningChecks))
@pytest.mark.parametrize("name", HARDENINGS)
def test_hardenings_pass(name: str, check: str) -> None:
    getattr(user_suite(HardeningChecks, HARDENINGS[name]), check)()


@pytest.mark.parametrize("check", checks(SamplerChecks))
@pytest.mark.parametrize("admit", ["others", "other_labels", "rest"])
@pytest.mark.parametrize("draws", [None, 5])
def test_samplers_pass(admit: Any, draws: int | None, check: str) -> None:
    make = lambda: NegativeSampler(admit, Exponential(1.0), draws=draws)  # noqa: E731
    getattr(user_suite(SamplerChecks, make), check)()


@pytest.mark.filterwarnings("ignore:.*edge_attr:UserWarning")
@pytest.mark.parametrize("check", checks(GraphEncoderChecks))
@pytest.mark.parametrize("name", ENCODERS)
def test_graph_encoders_pass(name: str, check: str) -> None:
    getattr(user_suite(GraphEncoderChecks, ENCODERS[name]), check)()


@pytest.mark.parametrize("check", checks(ImageEncoderChecks))
@pytest.mark.parametrize("name", IMAGES)
def test_image_encoders_pass(name: str, check: str) -> None:
    getattr(user_suite(ImageEncoderChecks, IMAGES[name]), check)()


@pytest.mark.parametrize("check", checks(GraphSetChecks))
def test_mutag_passes(check: str) -> None:
    getattr(user_suite(GraphSetChecks, lambda: load_graphs("MUTAG")), check)()


# Broken parts


class Broken(Hardening):
    """A hardening by a function of its rows."""

    row_wise = True

    def __init__(self, log_eta: Callable[[Rows], Tensor]) -> None:
        self._log_eta = log_eta

    def log_eta(self, rows: Rows) -> Tensor:
        return self._log_eta(rows)

    def slope(self, temperature: float) -> float | None:
        return 1 / temperature if self._log_eta(ROW).numel() == 1 else None


ONE = torch.zeros(1, 1)
ROW = Rows(ONE, 0.5, ONE, ONE == 0)


def sloping(rows: Rows) -> Tensor:
    return 3 * rows.similarity


BROKEN_HARDENINGS: dict[str, Callable[[Rows], Tensor]] = {
    "test_every_row_is_its_own": lambda rows: rows.similarity - rows.similarity.mean(),
    "test_candidates_have_no_order": lambda rows: rows.similarity.cumsum(1),
    "test_what_is_no_other_is_not_read": lambda rows: (
        rows.similarity - rows.similarity.mean(1, keepdim=True)
    ),
    "test_the_slope_is_that_of_log_eta": sloping,
    "test_single_precision_stays_single": lambda rows: rows.similarity.double(),
}


@pytest.mark.parametrize("check", BROKEN_HARDENINGS)
def test_a_broken_hardening_fails(check: str) -> None:
    part = user_suite(HardeningChecks, lambda: Broken(BROKEN_HARDENINGS[check]))
    with pytest.raises(AssertionError):
        getattr(part, check)()


def test_a_falling_weight_fails() -> None:
    with pytest.raises(ValueError, match=r"\b10\b.*\b9\.9\b.*t = -9\.9\b"):
        user_suite(HardeningChecks, lambda: lambda t: -t).test_definition_1()


class Wrong(NegativeSampler):
    """A sampler that changes what the sampler returns."""

    def __init__(self, change: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> None:
        super().__init__("other_labels")
        self.change = change

    def forward(self, similarity: Tensor, **options: Any) -> Any:
        hardened = super().forward(similarity, **options)
        log_q, empty = self.change(hardened.log_q, hardened.empty)
        return type(hardened)(log_q, empty)


@pytest.mark.parametrize(
    ("check", "change"),
    [
        ("test_it_is_a_distribution_over_admitted_candidates", lambda q, empty: (q + 1, empty)),
        (
            "test_it_is_a_distribution_over_admitted_candidates",
            lambda q, empty: (torch.full_like(q, 1 / q.shape[1]).log(), empty),
        ),
        ("test_candidates_have_no_order", lambda q, empty: (q.roll(1, 1), empty)),
        ("test_an_anchor_without_negatives_is_marked", lambda q, empty: (q, empty & False)),
    ],
)
def test_a_broken_sampler_fails(check: str, change: Any) -> None:
    with pytest.raises(AssertionError):
        getattr(user_suite(SamplerChecks, lambda: Wrong(change)), check)()


class Faulty(nn.Module):
    """A linear encoder with a fault."""

    out_dim = 3

    def __init__(self, n_features: int, fault: str) -> None:
        super().__init__()
        self.linear, self.unused = nn.Linear(n_features, 3), nn.Linear(2, 2)
        self.unused.requires_grad_(fault == "unused")
        self.fault, self.scale = fault, float(torch.rand(()))
        self.register_buffer("calls", torch.zeros(()))

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, edge_attr: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        nodes = self.linear(x)
        if self.fault == "order":
            nodes = nodes * torch.arange(len(x))[:, None]
        if self.fault == "batch":
            nodes = nodes - nodes.mean(0)
        if self.fault == "random":
            nodes = nodes + torch.rand(())
        if self.fault == "count":
            self.calls += 1
        if self.fault == "hidden":
            nodes = nodes * self.scale
        if self.fault == "nan":
            nodes = nodes / 0 * 0
        graphs = nodes.new_zeros(int(batch.max()) + 1, 3).index_add(0, batch, nodes)
        return nodes, graphs


@pytest.mark.parametrize(
    ("check", "fault"),
    [
        ("test_shapes_and_width", "nan"),
        ("test_a_graph_does_not_depend_on_its_batch", "batch"),
        ("test_nodes_have_no_order", "order"),
        ("test_evaluation_draws_nothing", "random"),
        ("test_evaluation_draws_nothing", "count"),
        ("test_every_weight_is_trained", "unused"),
        ("test_weights_travel", "hidden"),
    ],
)
def test_a_broken_graph_encoder_fails(check: str, fault: str) -> None:
    part = user_suite(GraphEncoderChecks, lambda n, e: Faulty(n, fault))
    with pytest.raises(AssertionError):
        getattr(part, check)()
    getattr(user_suite(GraphEncoderChecks, lambda n, e: Faulty(n, "none")), check)()


class FaultyImages(nn.Module):
    """An encoder of images with a fault."""

    out_dim = 3

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.linear, self.unused = nn.Linear(3, 3), nn.Linear(2, 2)
        self.unused.requires_grad_(fault == "unused")
        self.fault = fault

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.linear(x.mean((2, 3)))
        if self.fault == "batch":
            z = z - z.mean(0)
        return z[:, :2] if self.fault == "width" else z


@pytest.mark.parametrize(
    ("check", "fault"),
    [
        ("test_shape_and_width", "width"),
        ("test_an_image_does_not_depend_on_its_batch", "batch"),
        ("test_every_weight_is_trained", "unused"),
    ],
)
def test_a_broken_image_encoder_fails(check: str, fault: str) -> None:
    with pytest.raises(AssertionError):
        getattr(user_suite(ImageEncoderChecks, lambda: FaultyImages(fault)), check)()
    getattr(user_suite(ImageEncoderChecks, lambda: FaultyImages("none")), check)()


def changed(**values: Tensor) -> Callable[[], GraphSet]:
    def make() -> GraphSet:
        graphs = load_graphs("MUTAG")
        for name, value in values.items():
            object.__setattr__(graphs, name, value)
        return graphs

    return make


def across() -> Tensor:
    edges = load_graphs("MUTAG").edge_index.clone()
    edges[1, 0] = 40  # a node of another graph
    return edges


def drawn() -> GraphSet:
    return changed(x=torch.rand(MUTAG.x.shape))()


MUTAG = load_graphs("MUTAG")


@pytest.mark.parametrize(
    ("check", "make"),
    [
        ("test_edges_stay_inside_their_graphs", changed(edge_index=across())),
        ("test_edges_have_both_directions", changed(edge_index=across())),
        ("test_labels_are_classes_from_zero", changed(y=MUTAG.y + 1)),
        ("test_features_are_finite", changed(x=MUTAG.x / 0)),
        ("test_reading_it_twice_gives_the_same", drawn),
    ],
)
def test_a_broken_set_fails(check: str, make: Callable[[], GraphSet]) -> None:
    with pytest.raises(AssertionError):
        getattr(user_suite(GraphSetChecks, make), check)()
