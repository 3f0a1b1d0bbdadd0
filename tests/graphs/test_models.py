"""Encoders and models: against hand-written passes, and in the hands of a user."""

from __future__ import annotations

import copy
import math
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import global_add_pool
from torch_geometric.utils import to_networkx

from gcl_hard import METHODS, ContrastiveLoss, Exponential, InputError, NegativeSampler, fit
from gcl_hard.graphs import GIN, GraphBatch, GraphClassifier, GraphSet, InfoGraph, TwoView
from gcl_hard.graphs.tudataset import load_graphs
from tests.reference import loops
from tests.said import says

IDS = [0, 1, 3, 2, 8]  # of both classes


@pytest.fixture(scope="module")
def mutag() -> GraphSet:
    return load_graphs("MUTAG")


def small_batch(mutag):
    return mutag.batch(torch.tensor(IDS))


class MyEncoder(nn.Module):
    """What a user might bring: one linear layer, summed."""

    def __init__(self, width=6, graph_width=None):
        super().__init__()
        self.linear = nn.Linear(7, width)
        self.graph = nn.Linear(width, graph_width or width)

    def forward(self, x, edge_index, batch, **_):
        nodes = self.linear(x)
        return nodes, self.graph(global_add_pool(nodes, batch))


@pytest.mark.parametrize("method", ["ucl", "dcl", "hucl", "hcl", "scl", "hscl"])
def test_infograph_is_heads_around_the_loss(mutag, method):
    torch.manual_seed(0)
    batch = small_batch(mutag)
    model = InfoGraph(GIN(7, dim=4, layers=2), method=method, beta=1.3).double()
    batch.x = batch.x.double()
    nodes, graphs = model.encoder(batch.x, batch.edge_index, batch.batch)

    def head(h, z):
        inner = h.block(z)
        return (inner + z @ h.shortcut.weight.T + h.shortcut.bias).detach()

    row = METHODS[method]
    expected = loops.local_global(
        head(model.node_head, nodes).tolist(),
        head(model.graph_head, graphs).tolist(),
        batch.batch.tolist(),
        batch.y.tolist(),
        admit=row.admit,
        eta=lambda t: math.exp(1.3 * t) if row.hardening else 1.0,
        objective="jsd",
        prior=0.1 if row.debias else None,
    )
    assert len(set(batch.y.tolist())) == 2
    assert abs(model(batch).item() - expected) < 1e-9


def test_head_is_three_linear_relu_and_a_linear_shortcut():
    from gcl_hard.graphs.models import Head

    torch.manual_seed(0)
    head, z = Head(5), torch.randn(3, 5)
    linears = [m for m in head.block if isinstance(m, nn.Linear)]
    assert len(linears) == 3
    out = z
    for linear in linears:
        out = torch.relu(out @ linear.weight.T + linear.bias)
    torch.testing.assert_close(head(z), out + z @ head.shortcut.weight.T + head.shortcut.bias)


@pytest.mark.parametrize("model_type", [InfoGraph, TwoView])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_every_model(mutag, model_type, method):
    if model_type is InfoGraph and METHODS[method].infonce_only:
        with pytest.raises(InputError, match="infonce"):
            InfoGraph(GIN(7, dim=8, layers=2), method=method)
        return
    torch.manual_seed(0)
    model = model_type(GIN(7, dim=8, layers=2), method=method)
    loss = model(mutag.batch(torch.arange(32)))
    loss.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    assert loss.isfinite()
    assert grads
    assert all(g.isfinite().all() for g in grads)
    assert any(g.abs().max() > 0 for g in grads)


@pytest.mark.parametrize("one_forward", [True, False])
def test_views_of_hard_positives_begin_with_the_graphs_themselves(mutag, one_forward):
    model = TwoView(GIN(7, dim=8), method="spacl", n_views=4, one_forward=one_forward)
    batch = GraphBatch.of(mutag.batch(torch.arange(8)))
    views = model.views_of(batch, torch.Generator().manual_seed(0))
    assert len(views) == 4
    assert torch.equal(views[0].x, batch.x)
    assert all(not torch.equal(view.x, batch.x) for view in views[1:])
    assert model(batch).isfinite()
    plain = TwoView(GIN(7, dim=8), method="hcl", n_views=3)
    drawn = plain.views_of(batch, torch.Generator().manual_seed(0))
    assert len(drawn) == 3
    assert all(not torch.equal(view.x, batch.x) for view in drawn)
    with pytest.raises(InputError, match="views"):
        TwoView(GIN(7, dim=8), n_views=1)


def test_a_users_encoder_fits_and_keeps_its_weights(mutag):
    encoder = MyEncoder()
    before = copy.deepcopy(encoder.state_dict())
    model = InfoGraph(encoder=encoder, out_dim=6, method="hscl", beta=1.0)
    assert model(small_batch(mutag)).isfinite()
    assert model.embed(small_batch(mutag)).shape == (5, 6)
    for key, value in encoder.state_dict().items():
        assert torch.equal(value, before[key])


def test_embedding_is_eval_mode_without_gradient_and_leaves_the_mode(mutag):
    torch.manual_seed(0)
    model = InfoGraph(GIN(7))
    batch = small_batch(mutag)
    model(batch)
    running = copy.deepcopy(model.state_dict())
    z = model.embed(batch)
    assert model.training
    assert not z.requires_grad
    for key, value in model.state_dict().items():
        if torch.is_tensor(value):
            assert torch.equal(value, running[key])
    model.eval()
    torch.testing.assert_close(z, model.encoder(batch.x, batch.edge_index, batch.batch)[1])
    alone = torch.cat([model.embed(mutag.batch(torch.tensor([i]))) for i in IDS])
    torch.testing.assert_close(z, alone, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("encoder", "out_dim", "message"),
    [
        (MyEncoder(6), 5, r"graphs \[5, 5\].*nodes \[\d+, 6\], graphs \[5, 6\]"),
        (MyEncoder(6, 4), 6, r"graphs \[5, 6\].*nodes \[\d+, 6\], graphs \[5, 4\]"),
        (nn.Identity(), None, r"out_dim\b.*\bIdentity\b.*None"),
    ],
)
def test_a_wrong_encoder_is_told_both_shapes(mutag, encoder, out_dim, message):
    with pytest.raises(InputError, match=message):
        InfoGraph(encoder, out_dim)(small_batch(mutag))


def test_unused_edge_features_are_named_once_for_a_class(mutag):
    class Deaf(MyEncoder):
        def forward(self, x, edge_index, batch):
            return super().forward(x, edge_index, batch)

    batch, ours = small_batch(mutag), [InfoGraph(Deaf(6), 6) for _ in range(2)]  # as in two folds
    with pytest.warns(UserWarning, match=r"\b4 edge features.*Deaf") as warned:
        embedded = [model.embed(batch) for model in ours]
    assert len(embedded) == 2
    assert len(warned) == 1


def test_an_encoder_that_returns_no_pair_is_told(mutag):
    class Single(MyEncoder):
        def forward(self, x, edge_index, batch, **_):
            return super().forward(x, edge_index, batch)[1]

    with pytest.raises(InputError, match=r"\(nodes \[\d+, 6\], graphs \[5, 6\]\).*\bTensor$"):
        InfoGraph(Single(), 6)(small_batch(mutag))


def test_loss_and_options_do_not_mix():
    loss = ContrastiveLoss(NegativeSampler("others", Exponential(1.0)), objective="jsd")
    assert InfoGraph(GIN(7), loss=loss).loss is loss
    with pytest.raises(InputError, match=r"\bloss\b.*\bbeta\b"):
        InfoGraph(GIN(7), loss=loss, beta=1.0)
    with pytest.raises(InputError, match="method"):
        InfoGraph(GIN(7), loss=loss, method="ucl")


def test_two_view_without_augmentation_contrasts_a_graph_with_itself(mutag):
    torch.manual_seed(0)
    model = TwoView(GIN(7), method="ucl", augmentations=())
    model.eval()
    batch = small_batch(mutag)
    z = model.projection(model.encoder(batch.x, batch.edge_index, batch.batch)[1])
    torch.testing.assert_close(model(batch), model.loss(z, z))


@pytest.mark.parametrize("train", [True, False])
def test_two_view_in_one_forward_or_two_differs_through_batchnorm_only(mutag, train):
    batch, values = small_batch(mutag), []
    for one_forward in (True, False):
        torch.manual_seed(0)
        model = TwoView(GIN(7), method="ucl", one_forward=one_forward)
        values.append(model.train(train)(batch).item())
    assert (abs(values[0] - values[1]) < 1e-5) != train


def test_two_view_goes_on_from_its_states(mutag):
    torch.manual_seed(0)
    batch, model = small_batch(mutag), TwoView(GIN(7), method="ucl")
    model.eval()
    model(batch)
    copied = TwoView(GIN(7), method="ucl").eval()
    copied.load_state_dict(copy.deepcopy(model.state_dict()))
    copied.set_run_state(model.run_state())
    assert copied(batch).item() == model(batch).item()


def test_a_set_is_embedded_batch_by_batch(mutag):
    model = InfoGraph(GIN(7, 4, 2), method="ucl")
    with torch.no_grad():  # so that evaluation and training differ
        model(small_batch(mutag))
    whole = model.embed(mutag.all())
    loader = DataLoader([*mutag], batch_size=32)
    drawn = [to_networkx(graph, node_attrs=["x"], to_undirected=True) for graph in mutag]
    for embedded in (
        model.embed(mutag), model.embed(mutag, batch_size=50), model.embed([*mutag]),
        model.embed(loader), model.embed(drawn), model.embed(mutag, 1),
    ):  # fmt: skip
        assert isinstance(embedded, np.ndarray)
        np.testing.assert_allclose(embedded, whole.numpy(), rtol=1e-4, atol=1e-5)
    assert model.training
    for bad in (mutag[0], 3, None):
        with pytest.raises(InputError, match=f"graphs .*list.*{type(bad).__name__}"):
            model.embed(bad)
    with pytest.raises(InputError, match=r"batch_size\b.*\b1\b.*\b0$"):
        model.embed(mutag, batch_size=0)


@pytest.mark.parametrize("y", [None, 0.5])
@pytest.mark.parametrize("kind", [InfoGraph, TwoView])
def test_graphs_without_classes_train_where_no_method_needs_them(mutag, y, kind):
    graphs = [*mutag[:12]]
    for number, graph in enumerate(graphs):
        graph.y = None if y is None else y + number
    unlabelled = GraphSet.from_graphs(graphs, directed=True)
    for method in ("ucl", "dcl", "hucl", "hcl"):
        torch.manual_seed(0)
        model = kind(GIN(7, 4, 1), method=method)
        model(unlabelled.all()).backward()
        torch.manual_seed(0)
        labelled = kind(GIN(7, 4, 1), method=method)
        labelled(mutag[:12].all()).backward()
        for ours, theirs in zip(model.parameters(), labelled.parameters(), strict=True):
            assert torch.equal(ours.grad, theirs.grad)
    for method in ("scl", "hscl", "hscl-tau"):
        with pytest.raises(InputError, match="labels"):
            kind(GIN(7, 4, 1), method=method)(unlabelled.all())


# Batches of a user's own loader


PAIR = torch.tensor([[0, 1], [1, 0]])


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_graph_without_nodes_is_named_wherever_it_stands(at):
    graphs = [Data(x=torch.randn(2, 2), edge_index=PAIR) for _ in range(2)]
    graphs.insert(at, Data(x=torch.empty(0, 2), edge_index=torch.empty(2, 0, dtype=torch.long)))
    model = InfoGraph(GIN(2, dim=4, layers=1), method="ucl")
    with pytest.raises(InputError, match=rf"\bgraph {at}\b.*\b3\b.*\bnodes\b"):
        model(next(iter(DataLoader(graphs, batch_size=3))))


@pytest.fixture
def batch():
    """Four graphs with features of edges, as a loader gives them."""
    generator = torch.Generator().manual_seed(0)
    graphs = [
        Data(
            x=torch.randn(3, 2, generator=generator), edge_index=PAIR, y=k % 2,
            edge_attr=torch.tensor([[k, 1], [2, k]]).float(),
        )
        for k in range(4)
    ]  # fmt: skip
    return next(iter(DataLoader(graphs, batch_size=4)))


def on_edges(kind):
    torch.manual_seed(0)
    if kind is GraphClassifier:
        return kind(GIN(2, dim=4, layers=1, edge_dim=2), 2)
    return kind(GIN(2, dim=4, layers=1, edge_dim=2), method="ucl")


KINDS = pytest.mark.parametrize("kind", [InfoGraph, TwoView, GraphClassifier])


@KINDS
@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.uint8])
@pytest.mark.parametrize("field", ["edge_attr", "x"])
def test_features_of_any_precision_are_read_as_those_of_the_weights(batch, kind, dtype, field):
    batch[field] = batch[field].round().abs()
    changed = batch.clone().update({field: batch[field].to(dtype)})
    if (kind, field) != (TwoView, "x"):  # which masks with a mean, of whole numbers another one
        assert on_edges(kind)(changed).item() == pytest.approx(on_edges(kind)(batch).item())
    ours, theirs = (on_edges(kind).embed(source) for source in (changed, batch))
    torch.testing.assert_close(ours, theirs)


def test_codes_stay_whole_numbers_for_an_encoder_that_embeds_them(batch):
    class Embedded(nn.Module):
        out_dim = 4

        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(5, 4)

        def forward(self, x, edge_index, batch, edge_attr):
            assert edge_attr.dtype == torch.int64
            nodes = self.table(x)
            return nodes, global_add_pool(nodes, batch)

    batch.x, batch.edge_attr = torch.arange(12) % 5, batch.edge_attr.long()
    assert InfoGraph(Embedded(), method="ucl")(batch).isfinite()
    with pytest.raises(InputError, match=r"\bx\b.*unsqueeze"):  # a mask of rows would broadcast
        TwoView(Embedded(), method="ucl")(batch)


@KINDS
@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("x", lambda old: old[:, 0]), ("x", lambda old: old[1:]), ("x", lambda _: None),
        ("edge_index", lambda old: old + 2), ("edge_index", lambda old: old - 1),
        ("edge_attr", lambda old: old[1:]),
    ],
)  # fmt: skip
def test_fields_of_a_batch_that_do_not_fit_are_named(batch, kind, field, change):
    batch[field] = change(batch[field])
    for read in (on_edges(kind), on_edges(kind).embed, lambda b: on_edges(kind).embed(Loaded([b]))):
        with pytest.raises(InputError, match=field):
            read(batch)


class Loaded(torch.utils.data.DataLoader):
    """A loader that gives what it was made of."""

    def __init__(self, batches):
        super().__init__(batches, batch_size=None, collate_fn=lambda graphs: graphs)


@KINDS
@pytest.mark.parametrize("make", [lambda b: (b, 1), lambda b: b.to_data_list(), lambda b: b[0]])
def test_what_is_no_batch_of_graphs_is_refused(batch, kind, make):
    graphs = make(batch)
    for read in (
        on_edges(kind),
        lambda source: on_edges(kind).embed(Loaded([source])),
        lambda source: fit(on_edges(kind), Loaded([source]), epochs=1),
    ):
        with pytest.raises(InputError, match=type(graphs).__name__):
            read(graphs)


def test_data_with_a_vector_of_graphs_is_a_batch(batch):
    by_hand = Data(x=batch.x, edge_index=batch.edge_index, batch=batch.batch)
    by_hand.edge_attr = batch.edge_attr
    model = on_edges(InfoGraph)
    torch.testing.assert_close(model.embed(by_hand), model.embed(batch))


@pytest.mark.parametrize("edge_attr", [None, torch.empty(0, 2)])
def test_a_batch_without_any_edge_needs_no_edge_features(batch, edge_attr):
    alone = Data(x=torch.ones(2, 2), edge_index=PAIR[:, :0], edge_attr=edge_attr)
    model = on_edges(InfoGraph)
    alike = Data(x=torch.ones(2, 2), edge_index=PAIR[:, :0], edge_attr=torch.empty(0, 2))
    expected = model.embed(Batch.from_data_list([alike, alike])).numpy()
    embedded = model.embed(DataLoader([alone, alone], batch_size=2))
    np.testing.assert_allclose(embedded, expected, rtol=1e-6)
    np.testing.assert_allclose(model.embed([alone, alone]), expected, rtol=1e-6)


@KINDS
def test_what_a_model_does_not_read_is_said_once(batch, kind):
    graphs = batch.to_data_list()
    for graph in graphs:
        graph.edge_weight, graph.pos, graph.smiles = torch.ones(2), np.ones((3, 2)), "C"
    loader = DataLoader(graphs, batch_size=2, follow_batch=["x"])
    called, fitted = lambda model: [*map(model, loader)], lambda model: fit(model, loader, epochs=2)
    for read in (called, fitted, lambda model: model.embed(loader)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            read(on_edges(kind))
        messages = [str(graph.message) for graph in caught if "edge_weight" in str(graph.message)]
        assert len(messages) == 1
        assert says(messages[0], "edge_weight", "pos")
        assert not says(messages[0], "x_batch")
        assert not says(messages[0], "smiles")
    followed = DataLoader(batch.to_data_list(), batch_size=2, follow_batch=["x", "edge_attr"])
    for graph in followed:
        assert on_edges(kind)(graph).isfinite()  # and warns of nothing
