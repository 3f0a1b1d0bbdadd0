"""What every test gets: a cache of its own session, and on request the rounding of another CPU."""

from __future__ import annotations

import math
import signal
import zlib
from collections.abc import Generator, Iterator
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

MOVED = torch.float32, torch.float64, torch.bfloat16


class Perturbed(TorchDispatchMode):
    """Moves every matrix product by one unit in the last place, as another CPU's library might.

    Up or down is drawn for each number of a result by the operation and the shape of the result:
    the same computation has the same bits again, and a model in an ensemble has others than in
    another company, as where a library chooses its kernel by the shape.
    """

    PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm"})

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__.rstrip("_")
        dense = all(x.layout == torch.strided for x in args if isinstance(x, Tensor))
        if name in self.PRODUCTS and dense and out.dtype in MOVED and out.numel():
            moved = torch.nextafter(out, towards(name, out.shape, out.dtype).to(out.device))
            # A sum of zeros is zero on any machine, and what overflows does so.
            out.copy_(torch.where((out == 0) | out.isinf(), out, moved))
        return out


def towards(name: str, shape: torch.Size, dtype: torch.dtype) -> Tensor:
    """±∞, drawn by the operation and the shape."""
    start = zlib.crc32(repr((name, *shape)).encode()) % 1000
    size = math.prod(shape)
    return drawn(dtype, 2 ** (start + size).bit_length())[start : start + size].view(shape)


@lru_cache
def drawn(dtype: torch.dtype, n: int) -> Tensor:
    up = torch.randint(2, (n,), generator=torch.Generator().manual_seed(0))
    return torch.where(up == 1, torch.inf, -torch.inf).to(dtype)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--perturb-matmul", action="store_true",
        help="move every matrix product by one unit in the last place, as another CPU might",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    # Jobs in the background of a shell ignore Ctrl-C, and so would what they start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "spawns: compares with processes, which are not perturbed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("perturb_matmul"):
        for item in items:
            if item.get_closest_marker("spawns"):
                item.add_marker(pytest.mark.skip(reason="other processes are not perturbed"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    with Perturbed() if item.config.getoption("perturb_matmul") else nullcontext():
        return (yield)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GCL_HARD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
