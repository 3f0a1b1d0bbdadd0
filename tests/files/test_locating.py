"""The one locator of data: its order of folders, its downloads, and what arrives damaged."""

from __future__ import annotations

import datetime
import hashlib
import http.server
import io
import ipaddress
import re
import socket
import ssl
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gcl_hard.errors import InputError
from gcl_hard.files import locating
from gcl_hard.files.locating import Download, Wanted
from gcl_hard.graphs import load as graphs_load
from gcl_hard.images import load as images_load
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


def wanted(download: Download | None = None, name: str = "toy.txt") -> Wanted[Path]:
    """A set that is one file or folder."""

    def look(folder: Path) -> Path | None:
        return folder / name if (folder / name).exists() else None

    return Wanted(
        look=look,
        lacks=lambda folder: f"without {name}",
        headline="no toy",
        put=(("the toy", name), ("another", "other.txt")),
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


@pytest.mark.parametrize("damage", ["byte", "shorter", "longer"])
@pytest.mark.parametrize("name", ["toy.txt", "toy"])
def test_what_is_no_more_what_arrived_is_downloaded_again(
    name: str, damage: str, places: dict[str, Path], site: Site
) -> None:
    (site[0] / "toy.txt").write_text("smiles,y\nC,1\n")
    pack(site[0] / "toy.zip", {"toy/a.txt": b"smiles,y\nC,1\n", "toy/b.txt": b""})
    folder = name == "toy"
    address = f"{site[1]}/toy.zip" if folder else f"{site[1]}/toy.txt"
    toy = wanted(Download(address, name, unpack=folder), name)
    located = locating.locate(toy, places, download=True)
    file = located / "a.txt" if folder else located
    content = file.read_bytes()
    spoil = {"byte": content.replace(b"1", b"2"), "shorter": content[:9], "longer": content * 2}
    file.write_bytes(spoil[damage])
    with pytest.raises(InputError, match="toy") as caught:
        locating.locate(toy, places, download=False)
    assert any(says(line, "cache", name, "downloaded") for line in str(caught.value).splitlines())
    with pytest.warns(UserWarning, match=re.escape(str(located))):
        assert locating.locate(toy, places, download=True) == located
    assert file.read_bytes() == content


def test_another_content_than_before_is_refused(places: dict[str, Path], site: Site) -> None:
    """Of an archive it is that of its files: it may be packed anew."""
    names = ("toy.txt", "toy.zip")
    downloads = [Download(f"{site[1]}/{name}", name) for name in names]

    def publish(content: bytes, comment: bytes) -> None:
        (site[0] / "toy.txt").write_bytes(content)
        with zipfile.ZipFile(pack(site[0] / "toy.zip", {"a.txt": content}), "a") as archive:
            archive.comment = comment

    def get(download: Download) -> Path:
        (places["cache"] / download.name).unlink(missing_ok=True)
        return locating.locate(wanted(download, download.name), places, download=True)

    publish(b"first", b"")
    for download in downloads:
        get(download)
    publish(b"first", b"packed anew")
    for download in downloads:
        get(download)
    publish(b"other", b"")
    for download in downloads:
        with pytest.raises(InputError, match=re.escape(f".{download.name}.json")):
            get(download)
        (places["cache"] / f".{download.name}.json").unlink()
        assert get(download).exists()


@pytest.mark.parametrize("page", [b"<!DOCTYPE html><p>sign in", b"\n <HTML><p>sign in"])
def test_a_web_page_in_place_of_a_file_is_told(
    page: bytes, places: dict[str, Path], site: Site
) -> None:
    (site[0] / "toy.txt").write_bytes(page)
    text = failure(Download(f"{site[1]}/toy.txt", "toy.txt"), places, "toy.txt")
    assert says(text, f"{site[1]}/toy.txt:", "page")


def test_a_server_that_drips_is_given_up(
    places: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(locating, "PATIENCE", 0.0)
    with answering(b"HTTP/1.0 200 OK\r\n\r\nsmi") as address:
        monkeypatch.setattr(locating, "LEAST_SPEED", 1e9)
        text = failure(Download(f"{address}/toy.txt", "toy.txt"), places, "toy.txt")
    assert says(text, f"{address}/toy.txt:", "slowly")


def certificate(folder: Path) -> Path:
    """A certificate of this machine, with its key, that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "toy")])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    builder = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now - day, now + day)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .sign(key, hashes.SHA256())
    )
    file = folder / "certificate.pem"
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    file.write_bytes(key.private_bytes(pem, form, plain) + builder.public_bytes(pem))
    return file


def test_no_server_leads_from_https_to_http(
    places: dict[str, Path], site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site[0] / "toy.txt").write_text("toy")
    file = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))

    class Redirects(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", f"{site[1]}/toy.txt")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Redirects) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        address = f"https://127.0.0.1:{server.server_port}/toy.txt"
        text = failure(Download(address, "toy.txt"), places, "toy.txt")
        server.shutdown()
        thread.join()
    assert says(text, f"{address}:", f"{site[1]}/toy.txt", "encrypted")


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
    files = [path for path in located.rglob("*") if path.is_file()]
    assert {path.relative_to(located).as_posix() for path in files} == {"a/b.txt", "c.txt"}
    assert (located / "a" / "b.txt").read_bytes() == b"deep"


@pytest.mark.parametrize("name", ARCHIVES)
@pytest.mark.parametrize("outside", ["../evil.txt", "toy/../../evil.txt"])
def test_a_member_that_would_land_outside_is_refused(
    name: str, outside: str, places: dict[str, Path], site: Site, tmp_path: Path
) -> None:
    pack(site[0] / name, {"toy/a.txt": b"", outside: b"x"})
    text = failure(Download(f"{site[1]}/{name}", "toy", unpack=True), places, "toy")
    assert outside in text
    assert not [*tmp_path.rglob("evil.txt")]


def spoilt(damage: str, path: Path) -> bytes:
    whole = path.read_bytes()
    if damage == "half":
        return whole[: len(whole) // 2]
    if damage == "flipped":
        middle = len(whole) // 2
        return whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1 :]
    return b"so this is no archive"


@pytest.mark.parametrize("damage", ["half", "flipped", "another file"])
@pytest.mark.parametrize("name", ARCHIVES)
def test_a_spoilt_archive_leaves_nothing(
    name: str, damage: str, places: dict[str, Path], site: Site
) -> None:
    content = hashlib.shake_256(b"toy").digest(4000)  # which no compression shortens
    archive = pack(site[0] / name, {"toy/a.txt": content})
    archive.write_bytes(spoilt(damage, archive))
    text = failure(Download(f"{site[1]}/{name}", "toy", unpack=True), places, "toy")
    (line,) = [
        text_line for text_line in text.splitlines() if f"download {site[1]}/{name}: " in text_line
    ]
    assert damage != "another file" or says(line, "zip", "tar")


def test_a_packed_zip_is_checked_member_by_member(places: dict[str, Path], site: Site) -> None:
    archive = pack(site[0] / "toy.zip", {"a.txt": hashlib.shake_256(b"toy").digest(4000)})
    archive.write_bytes(spoilt("flipped", archive))
    text = failure(Download(f"{site[1]}/toy.zip", "toy.zip"), places, "toy.zip")
    assert says(text, "a.txt", "damaged") or says(text, "a.txt", "CRC-32")


def test_another_checksum_is_named(places: dict[str, Path], site: Site) -> None:
    (site[0] / "toy.txt").write_text("toy")
    digest = hashlib.sha256(b"toy").hexdigest()
    download = Download(f"{site[1]}/toy.txt", "toy.txt", "sha256:" + "0" * 64)
    text = failure(download, places, "toy.txt")
    assert says(text, f"{site[1]}/toy.txt:", "sha256", digest, "0" * 64)


@pytest.mark.parametrize("name", ["toy.zip", "toy.tar.gz"])
def test_an_archive_that_unpacks_to_a_thousandfold_is_not_unpacked(
    name: str, places: dict[str, Path], site: Site
) -> None:
    archive = pack(site[0] / name, {"toy/a.txt": bytes(210 * 2**20)})
    size = archive.stat().st_size
    text = failure(Download(f"{site[1]}/{name}", "toy", unpack=True), places, "toy")
    assert says(text, size, 210 * 2**20)


def test_an_archive_without_the_folder_is_told(places: dict[str, Path], site: Site) -> None:
    pack(site[0] / "toy.zip", {"dolls/a.txt": b""})
    text = failure(Download(f"{site[1]}/toy.zip", "toy", unpack=True), places, "toy")
    assert re.search(rf"{site[1]}/toy\.zip: .*\btoy\b", text)
    assert str(places["cache"] / ".partial") not in text


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A server that gives one answer and hangs up; its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(2**16)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def test_a_download_that_breaks_off_leaves_nothing(
    places: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with answering(b"HTTP/1.0 200 OK\r\nContent-Length: 1000\r\n\r\nsmiles,y\nC,1\n") as address:
        text = failure(Download(f"{address}/toy.txt", "toy.txt"), places, "toy.txt")
    assert says(text, f"{address}/toy.txt:", 13, 1000)


def test_a_folder_that_another_process_was_faster_to_make_stays(
    places: dict[str, Path], site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack(site[0] / "toy.zip", {"toy/a.txt": b"late"})
    unpacked = zipfile.ZipFile.extractall

    def meanwhile(*arguments: object) -> None:
        unpacked(*arguments)  # type: ignore[arg-type]
        (places["cache"] / "toy").mkdir()
        (places["cache"] / "toy" / "a.txt").write_text("early")

    monkeypatch.setattr(zipfile.ZipFile, "extractall", meanwhile)
    download = Download(f"{site[1]}/toy.zip", "toy", unpack=True)
    located = locating.locate(wanted(download, "toy"), places, download=True)
    assert (located / "a.txt").read_text() == "early"
    assert [path.name for path in places["cache"].iterdir()] == ["toy"]


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

    for graphs in loaded(graphs_load, "mutag", download=False):
        assert (graphs.name, len(graphs)) == ("MUTAG", 188)
    for images in loaded(images_load, "digits", download=False):
        assert (images.name, images.size) == ("digits", (8, 8))
    for nodes in loaded(load_nodes, "path", data_dir=tmp_path):
        assert (nodes.name, nodes.n_nodes) == ("path", 4)
    for links in loaded(load_links, "facts", data_dir=tmp_path):
        assert (links.name, links.n_entities) == ("facts", 2)
    if find_spec("rdkit") is not None:
        for table in loaded(load_molecules, "table", data_dir=tmp_path, cache_dir=tmp_path):
            assert len(table.molecules) == 2
