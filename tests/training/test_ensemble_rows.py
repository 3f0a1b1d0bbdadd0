"""Tables of parameters against the modules they come from, and Adam on them against PyTorch's."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call

from gcl_hard import InputError
from gcl_hard.training.ensemble import Adam, Stacked

X = torch.linspace(-1, 1, 30, dtype=torch.float64).reshape(10, 3)


class Net(nn.Module):
    """Parameters of no, one and two dimensions, a buffer of floats and one of integers."""

    def __init__(self, width=4):
        super().__init__()
        self.first = nn.Linear(3, width)
        self.norm = nn.BatchNorm1d(width)
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        return self.scale * self.norm(self.first(x)).sin().sum(1)


def nets(n=4, width=4):
    modules_ = []
    for seed in range(n):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            net = Net(width).double()
            nn.init.normal_(net.norm.weight, 1.0, 0.3)
            net.norm.running_mean.normal_()
            net.norm.num_batches_tracked.fill_(seed)
            modules_.append(net)
    return modules_


def row_of(stacked, row):
    return {name: leaf[row] for name, leaf in stacked.parameters.items()}


def test_rows_are_the_modules():
    modules = nets()
    stacked = Stacked(modules)
    assert stacked.flat.dtype == torch.float64
    assert set(stacked.parameters) == {name for name, _ in modules[0].named_parameters()}
    assert set(stacked.buffers) == {name for name, _ in modules[0].named_buffers()}
    for row, module in enumerate(modules):
        for name, value in module.named_parameters():
            assert torch.equal(stacked.parameters[name][row], value)
        for name, value in module.named_buffers():
            assert torch.equal(stacked.buffers[name][row], value)
            assert stacked.buffers[name].dtype == value.dtype
    n = sum(p.numel() for p in modules[0].parameters())
    assert torch.count_nonzero(stacked.flat[:, n:]) == 0


def test_modules_are_left_alone():
    modules = nets(2)
    before = copy.deepcopy(modules)
    stacked = Stacked(modules)
    with torch.no_grad():
        stacked.flat.add_(1.0)
    stacked.buffers["norm.running_mean"].add_(1.0)
    for module, same in zip(modules, before, strict=True):
        for name, value in same.state_dict().items():
            assert torch.equal(module.state_dict()[name], value)


def test_gradients_add_up_in_the_table_and_in_their_own_row():
    modules = nets()
    stacked = Stacked(modules)
    for module in modules:
        module.eval()
    for row in (0, 2, 2):
        functional_call(modules[row], row_of(stacked, row), (X,)).sum().backward()
    for row, times in enumerate((1, 0, 2, 0)):
        modules[row](X).sum().backward()
        for name, value in modules[row].named_parameters():
            part = stacked.named(stacked.flat.grad)[name]
            torch.testing.assert_close(part[row], times * value.grad, rtol=1e-13, atol=1e-13)
    assert torch.count_nonzero(stacked.flat.grad[[1, 3]]) == 0
    assert torch.count_nonzero(stacked.flat.grad[2]) > 0


def test_write_back_copies_one_row_and_its_buffers():
    stacked = Stacked(nets())
    with torch.no_grad():
        stacked.flat.mul_(3.0)
    stacked.buffers["norm.num_batches_tracked"].add_(7)
    module = nets(1)[0]
    stacked.write_back(2, module)
    for name, value in module.named_parameters():
        assert torch.equal(value, stacked.parameters[name][2])
        assert value.requires_grad
        assert value.grad is None
    assert module.norm.num_batches_tracked == 2 + 7
    held = module.first.weight.detach().clone()
    with torch.no_grad():
        stacked.flat.zero_()
    assert torch.equal(module.first.weight, held)


def test_keep_drops_rows_of_everything():
    modules = nets()
    stacked = Stacked(modules)
    stacked.keep([1, 3])
    assert len(stacked.flat) == 2
    for row, module in enumerate((modules[1], modules[3])):
        for name, value in module.named_parameters():
            assert torch.equal(stacked.parameters[name][row], value)
        for name, value in module.named_buffers():
            assert torch.equal(stacked.buffers[name][row], value)


def test_rows_go_by_name_whatever_came_first():
    """A part that was put in later, at the end, is the same part."""
    modules = [nn.Module(), nn.Module()]
    for module, names in zip(modules, ("ab", "ba"), strict=True):
        for name in names:
            module.register_parameter(name, nn.Parameter(torch.full((2,), float(ord(name)))))
    assert [name for name, _ in modules[1].named_parameters()] == ["b", "a"]
    stacked = Stacked(modules)
    for name in "ab":
        assert stacked.parameters[name].tolist() == [[float(ord(name))] * 2] * 2


@pytest.mark.parametrize(
    ("name", "modules"),
    [
        ("weight", [nn.Linear(2, 3), nn.Linear(2, 3), nn.Linear(4, 3)]),
        ("bias", [nn.Linear(2, 3), nn.Linear(2, 3, bias=False)]),
        ("bias", [nn.Linear(2, 3, bias=False), nn.Linear(2, 3)]),
        ("weight", [nn.Linear(2, 3), nn.Linear(2, 3).double()]),
        ("running_mean", [nn.BatchNorm1d(3), nn.BatchNorm1d(3, track_running_stats=False)]),
        ("Conv1d", [nn.Linear(2, 3), nn.Conv1d(2, 3, 1)]),
    ],
)
def test_what_cannot_be_stacked_is_named(name, modules):
    with pytest.raises(InputError, match=name):
        Stacked(modules)


class Race:
    """The rows of a table and single modules with PyTorch's Adam, on the same losses."""

    def __init__(self, settings):
        self.modules = nets(len(settings))
        self.rows = list(range(len(settings)))
        self.stacked = Stacked(self.modules)
        self.adam = Adam(self.stacked, settings)
        self.single = [
            torch.optim.Adam(module.parameters(), lr=lr, weight_decay=decay, fused=False)
            for module, (lr, decay) in zip(self.modules, settings, strict=True)
        ]
        for module in self.modules:
            module.eval()
        self.batch = itertools.count()

    def loss(self, out, member):
        """A batch and a loss of each member's own."""
        return ((out - member).square() * (self.now + member).sin().abs()).mean()

    def step(self, steps=1):
        for _ in range(steps):
            self.now = X[:, 0] + next(self.batch)
            self.adam.zero_grad()
            for row, member in enumerate(self.rows):
                module, optimiser = self.modules[member], self.single[member]
                out = functional_call(module, row_of(self.stacked, row), (X,))
                self.loss(out, member).backward()
                optimiser.zero_grad()
                self.loss(module(X), member).backward()
                optimiser.step()
            self.adam.step()
        self.check()

    def check(self):
        assert len(self.stacked.flat) == len(self.rows)
        for row, member in enumerate(self.rows):
            for name, value in self.modules[member].named_parameters():
                torch.testing.assert_close(
                    self.stacked.parameters[name].detach()[row], value.detach(),
                    rtol=1e-11, atol=1e-12, msg=lambda m, at=(name, member): f"{at}: {m}",
                )  # fmt: skip

    def set_rates(self, rates):
        self.adam.set_rates(rates)
        for member, rate in zip(self.rows, rates, strict=True):
            self.single[member].param_groups[0]["lr"] = rate

    def keep(self, rows):
        self.adam.keep(rows)
        self.rows = [self.rows[row] for row in rows]
        self.check()


RATES = st.sampled_from([0.01, 0.03, 0.002])


@settings(max_examples=20)
@given(data=st.data())
def test_adam_on_rows_is_adam_on_modules(data):
    """Whichever rows are dropped, and whatever their rates become, on the way."""
    decays = st.sampled_from([0.0, 0.0, 0.1, 0.5])
    race = Race(data.draw(st.lists(st.tuples(RATES, decays), min_size=2, max_size=4)))
    for _ in range(4):
        n, change = len(race.rows), data.draw(st.sampled_from(["none", "keep", "rates"]))
        if change == "keep":
            rows = st.sets(st.integers(0, n - 1), min_size=1).map(sorted)
            race.keep(data.draw(rows))
        if change == "rates":
            race.set_rates(data.draw(st.lists(RATES, min_size=n, max_size=n)))
        race.step(data.draw(st.integers(1, 3)))


def test_rates_of_one_speed_leave_the_rows_together():
    race = Race([(0.01, 0.0)] * 4)
    for epoch in range(3):
        race.set_rates([0.01 / (1 + epoch)] * 4)
        race.step(2)
    assert len(race.adam._adam.param_groups) == 1


def test_a_row_without_a_number_stays_alone_with_it():
    race = Race([(0.01, 0.0)] * 4)
    race.step(2)
    before = race.stacked.flat.detach().clone()
    race.stacked.flat.grad = torch.zeros_like(before)
    race.stacked.flat.grad[1] = torch.nan
    race.adam.step()
    after = race.stacked.flat.detach()
    assert after[1].isnan().any()
    assert after[[0, 2, 3]].isfinite().all()
    assert not torch.equal(after[0], before[0])  # momentum goes on
