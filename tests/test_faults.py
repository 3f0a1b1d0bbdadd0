"""Real faults: decompression bombs, killed processes, full disks, clocks that jump."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gcl_hard.errors import InputError
from gcl_hard.graphs import load as load_graphs
from gcl_hard.graphs import read_molecules
from gcl_hard.io import refuse_bomb

MIB = 2**20

# Decompression bombs


@contextmanager
def in_little_memory(most: int = 64 * MIB) -> Iterator[None]:
    """The block allocates at most so many bytes at a time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def bomb(path: Path, *, times: int) -> Path:
    """An archive of a set of graphs whose list of edges unpacks to so many MiB."""
    edges = b"1, 2\n2, 1\n" * (MIB // 10 + 1)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("SET/SET_graph_indicator.txt", "1\n1\n")
        archive.writestr("SET/SET_graph_labels.txt", "1\n")
        with archive.open("SET/SET_A.txt", "w") as member:
            for _ in range(times):
                member.write(edges)
    return path


def test_an_archive_that_unpacks_to_a_thousandfold_is_refused_unread(tmp_path: Path) -> None:
    path = bomb(tmp_path / "SET.zip", times=220)
    assert path.stat().st_size < MIB
    with in_little_memory(), pytest.raises(InputError, match="would unpack from"):
        load_graphs("SET", data_dir=tmp_path, download=False)


def test_an_archive_is_not_unpacked_beyond_the_size_that_it_declares(tmp_path: Path) -> None:
    path = bomb(tmp_path / "SET.zip", times=220)
    with zipfile.ZipFile(path) as archive:
        real = archive.getinfo("SET/SET_A.txt").file_size
    content = path.read_bytes()
    assert content.count(struct.pack("<L", real)) == 2  # in the member's header and the directory
    path.write_bytes(content.replace(struct.pack("<L", real), struct.pack("<L", 1000)))
    with in_little_memory(), pytest.raises(InputError, match="cannot be read"):
        load_graphs("SET", data_dir=tmp_path, download=False)


def test_a_large_archive_that_is_hardly_compressed_is_none(tmp_path: Path) -> None:
    path = tmp_path / "SET.zip"
    with zipfile.ZipFile(path, "w") as archive, archive.open("SET/SET_A.txt", "w") as member:
        for _ in range(220):
            member.write(bytes(MIB))
    with zipfile.ZipFile(path) as archive:
        refuse_bomb(archive, path)


@pytest.mark.parametrize("text", [b"C\n", b"C"])
def test_a_gzipped_table_that_unpacks_to_a_thousandfold_is_refused(
    text: bytes, tmp_path: Path
) -> None:
    """Many rows, or one line without an end."""
    pytest.importorskip("rdkit")
    path = tmp_path / "mine.csv.gz"
    with gzip.open(path, "w") as file:
        file.write(b"smiles\n")
        for _ in range(220):
            file.write(text * (MIB // len(text)))
    with in_little_memory(), pytest.raises(InputError, match="would unpack from"):
        read_molecules(path, cache_dir=tmp_path / "cache")
    assert not list(tmp_path.glob("cache/molecules/*"))


def test_a_gzipped_header_without_an_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv.gz"
    with gzip.open(path, "w") as file:
        for _ in range(220):
            file.write(b"C" * MIB)
    with in_little_memory(128 * MIB), pytest.raises(InputError, match="has a line of more than"):
        read_molecules(path, cache_dir=tmp_path / "cache")
