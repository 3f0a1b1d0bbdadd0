"""The machine: which device, how many threads, and which versions made a number."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from threadpoolctl import threadpool_limits

from gcl_hard.errors import InputError
from gcl_hard.experiments import hardware


@pytest.fixture
def _threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    with threadpool_limits():
        yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("asked", ["gpu", "", "cuda:x", "mps", "cpu,cuda"])
def test_a_device_that_is_none_is_refused(asked: str) -> None:
    with pytest.raises(InputError, match=rf"\bauto, cpu, cuda\b.*cuda:N\b.*'{asked}'$"):
        hardware.choose_device(asked)


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert hardware.choose_device("auto") == hardware.choose_device("cuda")
    assert hardware.choose_device("cuda") == torch.device("cuda", 0)
    with pytest.raises(InputError, match=r"cuda:1\b.*\b1 CUDA\b.*--device cpu"):
        hardware.choose_device("cuda:1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert hardware.choose_device("auto") == torch.device("cpu")
    with pytest.raises(InputError, match="--device cpu"):
        hardware.choose_device("cuda")


@pytest.mark.usefixtures("_threads_as_before")
def test_threads_are_those_asked_for_or_few_where_batches_are_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for asked in (1, 2, 3):
        assert hardware.use_threads(asked, 1e9, 512) == asked == torch.get_num_threads()
    assert hardware.use_threads(None, 100, 32, cores=8) == 1
    assert hardware.use_threads(None, 1e9, 512, cores=2) == 2 == torch.get_num_threads()
    several = [hardware.use_threads(None, nodes, 512, cores=4) for nodes in (1e3, 5e3, 1e4, 1e6)]
    assert several == sorted(several)
    assert several[-1] == 4
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert hardware.use_threads(None, 1e9, 512, cores=2) == 1
    assert hardware.use_threads(2, 1e9, 512) == 2


def test_versions_are_of_what_computes() -> None:
    versions = hardware.versions()
    assert versions["python"] == platform.python_version()
    assert versions["torch"] == importlib.metadata.version("torch")
    assert versions["source"] == hardware.source_digest() == hardware.source_digest()
    assert {"scikit-learn", "numpy", "gcl-hard"} <= set(versions)


def test_memory_is_the_least_of_what_machine_and_container_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = hardware.available_memory()
    assert free is not None
    assert 0 < free < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    monkeypatch.setattr(hardware, "CONTAINER", tmp_path)
    (tmp_path / "memory.stat").write_text("file 800\nanon 300\n")
    (tmp_path / "memory.max").write_text("1000\n")
    assert hardware.available_memory() == 700
