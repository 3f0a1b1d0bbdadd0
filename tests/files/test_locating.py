"""The one locator of data: its order of folders, its downloads, and what arrives damaged."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gcl_hard.errors import InputError
from gcl_hard.files import cached, locating
from gcl_hard.files.cached import cached_folder
from gcl_hard.files.locating import Download, Wanted
from gcl_hard.graphs import load_graphs
from gcl_hard.images import load_images
from gcl_hard.links import load_links
from gcl_hard.molecules import load_molecules
from gcl_hard.nodes import load_nodes
from tests.said import says

Site = tuple[Path, str]


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    (tmp_path / "given").mkdir()
    return locating.folders(
        "sets", data_dir=tmp_path / "given", cache_dir=tmp_path / "cache", files="NAME.txt files"
    )


def wanted(download: Download | None = None, name: str = "toy.txt") -> Wanted:
    """A set that is one file or folder."""

    def look(folder: Path) -> Path | None:
        return folder / name if (folder / name).exists() else None

    return Wanted(
        look=look,
        lacks=lambda folder: f"without {name}",
        headline="no toy",
        put=[("the toy", name), ("another", "other.txt")],
        hint="dolls are here",
        download=download,
    )


def failure(download: Download, places: dict[str, Path], name: str) -> str:
    """The message of a download that fails, which must leave nothing behind."""
    with pytest.raises(InputError) as caught:
        locating.locate(wanted(download, name), places, download=True)
    assert not [*places["cache"].glob("*")]
    return str(caught.value)


def test_the_site_is_asked_last_and_once(
    places: dict[str, Path], site: Site, tmp_path: Path
) -> None:
    served = site[0] / "toy.txt"
    served.write_text("site")
    toy = wanted(Download(f"{site[1]}/toy.txt", "toy.txt"))
    places |= {"package": tmp_path / "package"}
    assert locating.locate(toy, places, download=True) == places["cache"] / "toy.txt"
    served.unlink()
    assert locating.locate(toy, places, download=True).read_text() == "site"
    for left in places["cache"].iterdir():
        left.unlink()
    for name in ("package", "cache", "data folder"):  # each comes before those already there
        places[name].mkdir(exist_ok=True)
        (places[name] / "toy.txt").write_text(name)
        assert locating.locate(toy, places, download=True).read_text() == name


def test_the_message_names_what_was_tried_and_what_to_do(places: dict[str, Path]) -> None:
    with pytest.raises(InputError) as caught:
        locating.locate(wanted(Download("http://x/toy", "toy.txt")), places, download=False)
    lines = str(caught.value).splitlines()
    data_folder = places["data folder"]
    for facts in (
        ["no toy"], ["data folder", f"{data_folder}:", "without toy.txt"],
        ["cache", f"{places['cache']}:", "without toy.txt"], ["http://x/toy", "off"],
        ["the toy", f"{data_folder / 'toy.txt'}", "another", f"{data_folder / 'other.txt'}",
         "GCL_HARD_DATA"],
        ["dolls"],
    ):  # fmt: skip
        assert [says(line, *facts) for line in lines].count(True) == 1, facts


def pack(path: Path, members: dict[str, bytes]) -> Path:
    """An archive by the suffix of its name."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
            for name, content in members.items():
                zipped.writestr(name, content)
        return path
    with tarfile.open(path, f"w:{path.suffix[1:]}") as packed:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize("name", ["toy.txt", "toy"])
def test_a_flipped_byte_of_what_was_downloaded_is_named(
    name: str, places: dict[str, Path], site: Site
) -> None:
    (site[0] / "toy.txt").write_text("smiles,y\nC,1\n")
    pack(site[0] / "toy.zip", {"toy/a.txt": b"smiles,y\nC,1\n", "toy/b/c.txt": b""})
    folder = name == "toy"
    address = f"{site[1]}/toy.zip" if folder else f"{site[1]}/toy.txt"
    toy = wanted(Download(address, name, unpack=folder), name)
    located = locating.locate(toy, places, download=True)
    file = located / "a.txt" if folder else located
    assert locating.locate(toy, places, download=False) == located
    file.write_bytes(file.read_bytes().replace(b"1", b"2"))
    with pytest.raises(InputError) as caught:
        locating.locate(toy, places, download=True)
    assert says(str(caught.value), str(file), "remove", str(located), "download")


def test_a_damaged_folder_of_the_cache_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "set"
    made = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "in").mkdir()
        (folder / "in" / "a.txt").write_text("whole")

    def damage(content: str | None) -> None:
        (path / "in" / "a.txt").unlink()
        if content is not None:
            (path / "in" / "a.txt").write_text(content)

    for _ in range(2):
        assert cached_folder(path, make) == path
    assert len(made) == 1
    for content in ("whale", None):
        damage(content)
        with pytest.warns(UserWarning, match=r"set.in.a\.txt .* made again"):
            cached_folder(path, make)
        assert (path / "in" / "a.txt").read_text() == "whole"
    assert [other.name for other in tmp_path.iterdir()] == ["set"]


def test_a_folder_that_another_process_was_faster_to_make_stays(tmp_path: Path) -> None:
    def make(folder: Path) -> None:
        (folder / "a.txt").write_text("late")
        (tmp_path / "set").mkdir()
        (tmp_path / "set" / "a.txt").write_text("early")

    assert (cached_folder(tmp_path / "set", make) / "a.txt").read_text() == "early"
    assert cached.first_damaged(tmp_path / "set") is None  # it has no record


ARCHIVES = ("toy.zip", "toy.tar.gz", "toy.tar.xz")


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_is_unpacked_to_the_folder_in_it(
    name: str, places: dict[str, Path], site: Site
) -> None:
    archive = pack(site[0] / name, {"toy/a/b.txt": b"deep", "toy/c.txt": b"", "read.me": b""})
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    download = Download(f"{site[1]}/{name}", "toy", f"sha256:{digest}", unpack=True)
    located = locating.locate(wanted(download, "toy"), places, download=True)
    assert located == places["cache"] / "toy"
    files = [path for path in located.rglob("[!.]*") if path.is_file()]
    assert {path.relative_to(located).as_posix() for path in files} == {"a/b.txt", "c.txt"}
    assert (located / "a" / "b.txt").read_bytes() == b"deep"


@pytest.mark.parametrize("name", ARCHIVES)
@pytest.mark.parametrize("outside", ["../evil.txt", "toy/../../evil.txt"])
def test_no_member_of_an_archive_lands_outside_its_folder(
    name: str, outside: str, places: dict[str, Path], site: Site, tmp_path: Path
) -> None:
    pack(site[0] / name, {"toy/a.txt": b"", outside: b"x"})
    toy = wanted(Download(f"{site[1]}/{name}", "toy", unpack=True), "toy")
    if name.endswith("zip"):  # which leaves out the dots
        locating.locate(toy, places, download=True)
        assert {path.name for path in places["cache"].iterdir()} == {"toy"}
    else:
        with pytest.raises(InputError, match=r"toy\.tar.*evil\.txt"):
            locating.locate(toy, places, download=True)
    assert not [path for path in tmp_path.rglob("evil.txt") if "toy" not in path.parts]


def test_another_checksum_is_named(places: dict[str, Path], site: Site) -> None:
    (site[0] / "toy.txt").write_text("toy")
    digest = hashlib.sha256(b"toy").hexdigest()
    download = Download(f"{site[1]}/toy.txt", "toy.txt", "sha256:" + "0" * 64)
    text = failure(download, places, "toy.txt")
    assert says(text, f"{site[1]}/toy.txt:", digest, "0" * 64)


@pytest.mark.parametrize("members", [{"dolls/a.txt": b""}, None])
def test_an_archive_without_the_folder_or_none_leaves_nothing(
    members: dict[str, bytes] | None, places: dict[str, Path], site: Site
) -> None:
    if members is None:
        (site[0] / "toy.zip").write_text("no archive")
    else:
        pack(site[0] / "toy.zip", members)
    text = failure(Download(f"{site[1]}/toy.zip", "toy", unpack=True), places, "toy")
    assert f"download {site[1]}/toy.zip: " in text
    assert str(places["cache"] / ".partial") not in text


def test_every_loader_takes_a_path_where_it_takes_a_name(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "path.npz",
        node_features=np.eye(4), node_labels=[0, 0, 1, 1], edges=[[0, 1], [1, 2], [2, 3]],
    )  # fmt: skip
    (tmp_path / "facts").mkdir()
    for part, fact in {"train": "a\tr\tb", "valid": "b\tr\ta", "test": "a\tr\ta"}.items():
        (tmp_path / "facts" / f"{part}.txt").write_text(fact, encoding="utf-8")
    (tmp_path / "table.csv").write_text("smiles,y\nCCO,1\nCC,0\n", encoding="utf-8")

    def loaded(load: Any, name: str, **options: Any) -> list[Any]:
        return [load(kind(name), **options) for kind in (str, Path)]

    for graphs in loaded(load_graphs, "mutag", download=False):
        assert (graphs.name, len(graphs)) == ("MUTAG", 188)
    for images in loaded(load_images, "digits", download=False):
        assert (images.name, images.size) == ("digits", (8, 8))
    for nodes in loaded(load_nodes, "path", data_dir=tmp_path):
        assert (nodes.name, nodes.n_nodes) == ("path", 4)
    for links in loaded(load_links, "facts", data_dir=tmp_path):
        assert (links.name, links.n_entities) == ("facts", 2)
    if find_spec("rdkit") is not None:
        for table in loaded(load_molecules, "table", data_dir=tmp_path, cache_dir=tmp_path):
            assert len(table.molecules) == 2
