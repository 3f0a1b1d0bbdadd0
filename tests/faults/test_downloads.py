"""Servers that break off, redirect, answer something else or nothing: a message, no half set."""

from __future__ import annotations

import http.server
import io
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gcl_hard import InputError
from gcl_hard.graphs import load, tudataset
from gcl_hard.molecules import files as moleculenet
from gcl_hard.molecules import load_molecules
from tests.fuzz.survival import alarm

pytestmark = [pytest.mark.faults, pytest.mark.filterwarnings("ignore")]
TABLE = "mol,Class,Model\n" + "".join(f"{'C' * k}O,{k % 2},Train\n" for k in range(1, 40))


def archive() -> bytes:
    texts = ("1, 2\n2, 1\n3, 4\n4, 3\n", "1\n1\n2\n2\n", "0\n1\n")
    files = dict(zip(("A", "graph_indicator", "graph_labels"), texts, strict=True))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as packed_zip:
        for name, text in files.items():
            packed_zip.writestr(f"PTC_MR/PTC_MR_{name}.txt", text)
    return packed.getvalue()


ARCHIVE = archive()
ANSWERS: dict[str, Callable[[bytes], tuple[int, dict[str, object], bytes]]] = {
    "half": lambda body: (200, {"Content-Length": len(body)}, body[: len(body) // 2]),
    "half, of a length that is not told": lambda body: (200, {}, body[: len(body) // 2]),
    "403": lambda body: (403, {"Content-Length": 5}, b"nope!"),
    "404": lambda body: (404, {"Content-Length": 5}, b"nope!"),
    "500": lambda body: (500, {"Content-Length": 5}, b"nope!"),
    "a page": lambda body: (200, {"Content-Length": 12}, b"<html>log in"),
    "nothing": lambda body: (200, {"Content-Length": 0}, b""),
    "a negative length": lambda body: (200, {"Content-Length": -5}, body),
    "a length in words": lambda body: (200, {"Content-Length": "long"}, body),
    "to a file": lambda body: (302, {"Location": "file:///etc/passwd"}, b""),
    "to itself": lambda body: (302, {"Location": "same"}, b""),
    "to nowhere": lambda body: (302, {"Location": "http://127.0.0.1:9/x"}, b""),
    "zeros": lambda body: (200, {"Content-Length": len(body)}, bytes(len(body))),
}
HANGS = ("no answer", "no HTTP", "closed at once")


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """A server that answers everything in one way; its address."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    behaviour, waiting = [""], threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            if behaviour[0] == "no answer":
                waiting.wait(20)
            elif behaviour[0] == "no HTTP":
                self.wfile.write(b"\\x00\\xff\\x00 garbage\\r\\n\\r\\n")
            elif behaviour[0] in ANSWERS:
                body = ARCHIVE if self.path.endswith("zip") else TABLE.encode()
                status, headers, content = ANSWERS[behaviour[0]](body)
                if headers.get("Location") == "same":
                    headers["Location"] = self.path
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(content)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()

        def start(answer: str) -> str:
            behaviour[0] = answer
            return f"http://127.0.0.1:{server.server_port}"

        yield start
        waiting.set()
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("kind", ["graphs", "molecules"])
@pytest.mark.parametrize("answer", [*ANSWERS, *HANGS])
def test_any_answer(
    answer: str, kind: str, serve: Callable[[str], str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    address = serve(answer)
    monkeypatch.delenv("GCL_HARD_DATA", raising=False)
    for module in (tudataset, moleculenet):
        monkeypatch.setattr(module, "SITE", address)
    monkeypatch.setattr("gcl_hard.files.locating.TIMEOUT", 3)
    if kind == "molecules":
        pytest.importorskip("rdkit")
    with alarm(30), pytest.raises(InputError, match=address):
        load("PTC_MR", cache_dir=tmp_path) if kind == "graphs" else load_molecules(
            "BACE", cache_dir=tmp_path
        )
    left = [path.name for path in tmp_path.rglob("*") if path.is_file() and path.name[0] != "."]
    assert not left
