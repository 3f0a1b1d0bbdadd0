"""Where graph sets come from, what is checked on the way, and what the messages say."""

from __future__ import annotations

import re
import time
import zipfile
from pathlib import Path

import pytest
import torch

from gcl_hard.errors import InputError
from gcl_hard.graphs import MANIFEST, PACKAGED, GraphSet, tudataset
from gcl_hard.graphs.tudataset import load_graphs, parse
from tests.said import says

TU = Path(__file__).parents[3] / "shared" / "data" / "tu"
EMBEDDED = PACKAGED / "MUTAG.zip"
TOY = {"A": "1, 2\n2, 1\n", "graph_indicator": "1\n1\n2\n", "graph_labels": "1\n-1\n"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An own, empty cache; nothing from the machine's environment; no way to the real site."""
    monkeypatch.delenv("GCL_HARD_DATA", raising=False)
    monkeypatch.setenv("GCL_HARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(tudataset, "SITE", "http://127.0.0.1:9")
    return tmp_path / "cache" / "tu"


@pytest.fixture
def site(site: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder served as the download site."""
    folder, address = site
    monkeypatch.setattr(tudataset, "SITE", address)
    return folder


def write_zip(path: Path, texts: dict[str, str], name: str, inside: str | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = f"{name}/" if inside is None else inside
    with zipfile.ZipFile(path, "w") as archive:
        for key, text in texts.items():
            archive.writestr(f"{folder}{name}_{key}.txt", text)
    return path


def mutag_texts() -> dict[str, str]:
    with zipfile.ZipFile(EMBEDDED) as archive:
        members = [Path(member) for member in archive.namelist() if "MUTAG_" in member]
        return {m.stem[len("MUTAG_") :]: archive.read(m.as_posix()).decode() for m in members}


def rest(text: str) -> str:
    """All lines but the first."""
    return text.partition("\n")[2]


def toy(n_graphs: int) -> dict[str, str]:
    """A set of single-node graphs; their number tells copies in different places apart."""
    ids = "".join(f"{i + 1}\n" for i in range(n_graphs))
    return {"A": "", "graph_indicator": ids, "graph_labels": ids}


# Names and known sets


@pytest.mark.parametrize("name", ["", "../MUTAG", "a/b", ".hidden", "x y"])
def test_names_that_could_leave_the_folder_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=re.escape(repr(name)) + r".*'_'.*'-'.*'\.'.*'\+'"):
        load_graphs(name)


# Average nodes and undirected edges are the published statistics, two decimals.
@pytest.mark.parametrize(
    ("name", "counts", "nodes", "edges", "n_edge_labels"),
    [
        ("MUTAG", [63, 125], 17.93, 19.79, 4),
        ("PTC_MR", [192, 152], 14.29, 14.69, 4),
        ("ENZYMES", [100] * 6, 32.63, 62.14, 0),
        ("IMDB-BINARY", [500, 500], 19.77, 96.53, 0),
        ("IMDB-MULTI", [500] * 3, 13.00, 65.94, 0),
    ],
)
def test_known_sets_have_the_published_sizes(
    name: str, counts: list[int], nodes: float, edges: float, n_edge_labels: int
) -> None:
    if name != "MUTAG" and not TU.is_dir():
        pytest.skip(f"{TU} is not there")
    begin = time.process_time()
    graphs = load_graphs(name, data_dir=TU if name != "MUTAG" else None, download=False)
    assert time.process_time() - begin < 3  # of the CPU
    assert graphs.class_counts.tolist() == counts
    assert graphs.n_nodes / graphs.n_graphs == pytest.approx(nodes, abs=0.005)
    assert graphs.edge_index.shape[1] / 2 / graphs.n_graphs == pytest.approx(edges, abs=0.005)
    assert (0 if graphs.edge_attr is None else graphs.edge_attr.shape[1]) == n_edge_labels


def test_embedded_mutag_equals_the_mirror() -> None:
    mirror = TU / "MUTAG.zip"
    if not mirror.is_file():
        pytest.skip(f"{mirror} is not there")
    with zipfile.ZipFile(EMBEDDED) as ours, zipfile.ZipFile(mirror) as theirs:
        assert sorted(ours.namelist()) == sorted(theirs.namelist())
        assert all(ours.read(member) == theirs.read(member) for member in ours.namelist())


# The order of places


def test_places_are_tried_in_order(
    tmp_path: Path, cache: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir, environment = tmp_path / "given", tmp_path / "environment"
    environment.mkdir()
    write_zip(site / "TOY.zip", toy(2), "TOY")
    assert load_graphs("TOY").n_graphs == 2
    assert [path.name for path in cache.glob("[!.]*")] == ["TOY.zip"]

    for left in cache.iterdir():
        left.unlink()
    write_zip(cache / "TOY.zip", toy(3), "TOY")
    monkeypatch.setenv("GCL_HARD_DATA", str(environment))
    assert load_graphs("TOY").n_graphs == 3
    write_zip(environment / "TOY.zip", toy(4), "TOY")
    assert load_graphs("TOY").n_graphs == 4
    write_zip(data_dir / "TOY.zip", toy(5), "TOY")
    assert load_graphs("TOY", data_dir=data_dir).n_graphs == 5
    raw = data_dir / "TOY" / "raw"
    raw.mkdir(parents=True)
    for key, text in toy(6).items():
        (raw / f"TOY_{key}.txt").write_text(text)
    assert load_graphs("TOY", data_dir=data_dir).n_graphs == 6
    for key, text in toy(7).items():
        (data_dir / "TOY2").mkdir(exist_ok=True)
        (data_dir / "TOY2" / f"TOY2_{key}.txt").write_text(text)
    assert load_graphs("TOY2", data_dir=str(data_dir)).n_graphs == 7


def test_package_copy_comes_after_the_cache(cache: Path) -> None:
    assert load_graphs("MUTAG").n_graphs == 188
    (cache / "MUTAG").mkdir(parents=True)  # an empty folder is no copy
    assert load_graphs("MUTAG").n_graphs == 188
    (cache / "MUTAG.zip").write_bytes(b"")
    with pytest.raises(InputError, match=r"cache.tu.MUTAG\.zip .*\bdamaged\b.*\bcopy\b"):
        load_graphs("MUTAG")


def test_offline_message_says_everything_once(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError) as caught:
        load_graphs("enzymes", data_dir=tmp_path)
    message = str(caught.value)
    for facts in (
        ["dataset", "'ENZYMES'"],
        [f"{tmp_path}:", "ENZYMES/", "ENZYMES.zip"],
        [f"{cache}:", "ENZYMES/"],
        ["download http://127.0.0.1:9/ENZYMES.zip:", "refused"],
        ["http://127.0.0.1:9/ENZYMES.zip", str(tmp_path / "ENZYMES.zip"), "GCL_HARD_DATA"],
        ["MUTAG", "offline"],
    ):
        assert [says(line, *facts) for line in message.splitlines()].count(True) == 1, facts
    assert not list(cache.iterdir())
    with pytest.raises(InputError, match=r"ENZYMES\.zip: .*\boff\n.*offline.*cache\S*ENZYMES\.zip"):
        load_graphs("ENZYMES", download=False)


def test_misspelt_name_offers_the_nearest_and_still_lists_places() -> None:
    with pytest.raises(InputError, match=r"'MUTGA'.*\bMUTAG\b.*\bMUTAG\b.*\n(.*\n)+.*MUTGA\.zip"):
        load_graphs("MUTGA")


def test_data_folder_that_is_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"data_dir='.*nowhere' .*\bfolder\b"):
        load_graphs("MUTAG", data_dir=tmp_path / "nowhere")
    monkeypatch.setenv("GCL_HARD_DATA", str(tmp_path / "typo"))
    with pytest.raises(InputError, match=r"GCL_HARD_DATA='.*typo' .*\bfolder\b"):
        load_graphs("MUTAG")


# Damaged and contradicting files


def test_damaged_zips_are_named(tmp_path: Path) -> None:
    whole = EMBEDDED.read_bytes()
    flipped = bytearray(whole)
    flipped[2000] ^= 0xFF
    for content in (whole[: len(whole) // 2], bytes(flipped), b"no zip"):
        (tmp_path / "MUTAG.zip").write_bytes(content)
        with pytest.raises(InputError, match=r"MUTAG\.zip .*\bdamaged\b.*\bcopy\b"):
            load_graphs("MUTAG", data_dir=tmp_path)


def test_zip_without_required_files_names_them(tmp_path: Path) -> None:
    texts = mutag_texts()
    del texts["graph_labels"], texts["A"]
    write_zip(tmp_path / "MUTAG.zip", texts, "MUTAG")
    with pytest.raises(InputError, match=r"MUTAG\.zip .*MUTAG_A\.txt, MUTAG_graph_labels\.txt"):
        load_graphs("MUTAG", data_dir=tmp_path)


EDGE = {"A": "1,2\n2,1\n", "graph_indicator": "1\n1\n2\n", "graph_labels": "1\n-1\n"}


def put(path: Path, texts: dict[str, str], start: str) -> None:
    """Files of which the paths begin alike, in a new archive or an unpacked folder."""
    if path.suffix.lower() == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for key, text in texts.items():
                archive.writestr(f"{start}{key}.txt", text)
        return
    for key, text in texts.items():
        file = path / f"{start}{key}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.mark.parametrize("where", ["TOY.zip", "TOY", "toy.ZIP", "Toy"])
@pytest.mark.parametrize(
    "start", ["TOY_", "TOY-main/TOY_", "data/TOY/raw/TOY_", "toy/TOY_", "raw/toy_"]
)
def test_files_are_read_in_whatever_folder_they_are(tmp_path: Path, where: str, start: str) -> None:
    put(tmp_path / where, EDGE, start)
    graphs = load_graphs("TOY", data_dir=tmp_path, download=False)
    assert (graphs.n_graphs, graphs.edge_ptr.tolist()) == (2, [0, 2, 2])


@pytest.mark.parametrize("where", ["TOY.zip", "TOY"])
def test_files_in_two_folders_are_named(tmp_path: Path, where: str) -> None:
    texts = {f"{folder}/TOY_{key}": text for folder in "ab" for key, text in EDGE.items()}
    put(tmp_path / where, texts, "")
    with pytest.raises(InputError) as error:
        load_graphs("TOY", data_dir=tmp_path)
    assert says(str(error.value), str(tmp_path / where), "a/", "b/")


@pytest.mark.parametrize("where", ["TOY.zip", "TOY"])
def test_files_of_a_set_that_are_not_read_are_named(tmp_path: Path, where: str) -> None:
    about = {"TOY_readme": "of it", "TOY_label_README": "of labels", "README": "a", "OTHER_x": "1"}
    put(tmp_path / where, {f"TOY_{key}": text for key, text in EDGE.items()} | about, "")
    assert load_graphs("TOY", data_dir=tmp_path).n_graphs == 2  # warns of nothing
    more = EDGE | {"graph_attributes": "1\n2\n", "Edge_Weights": "1"}
    (tmp_path / "more").mkdir()
    put(tmp_path / "more" / where, more, "toy_")
    with pytest.warns(UserWarning, match="toy_") as warned:
        assert load_graphs("TOY", data_dir=tmp_path / "more").n_graphs == 2
    named = ["toy_graph_attributes.txt", "toy_Edge_Weights.txt"]
    assert [says(str(warning.message), *named) for warning in warned] == [True]


def test_two_spellings_of_a_file_or_an_archive_are_named(tmp_path: Path) -> None:
    put(tmp_path / "TOY.zip", EDGE | {"a": "1,2\n2,1\n"}, "TOY_")
    with pytest.raises(InputError) as error:
        load_graphs("TOY", data_dir=tmp_path)
    assert says(str(error.value), "TOY_A.txt", "TOY_a.txt")
    for name in ("Other.zip", "OTHER.zip"):
        put(tmp_path / name, EDGE, "OTHER_")
    assert load_graphs("OTHER", data_dir=tmp_path).n_graphs == 2
    with pytest.raises(InputError) as error:
        load_graphs("other", data_dir=tmp_path)
    assert says(str(error.value), "Other.zip", "OTHER.zip", "other.zip")


def test_what_is_there_instead_is_said(tmp_path: Path) -> None:
    (tmp_path / "LEFT").mkdir()
    with pytest.raises(InputError) as error:
        load_graphs("LEFT", data_dir=tmp_path, download=False)
    assert says(str(error.value), f"{tmp_path}:", "LEFT_*.txt", "LEFT/", "LEFT.zip")
    put(tmp_path, EDGE, "LOOSE_")
    with pytest.raises(InputError) as error:
        load_graphs("LOOSE", data_dir=tmp_path, download=False)
    assert says(str(error.value), f"{tmp_path}:", "LOOSE_*.txt", "LOOSE/")


# Edges in one direction, and ids that begin anew

TRIANGLES = [(1, 2), (2, 3), (1, 3)]


def lines(edges: list[tuple[int, int]], *, both: bool = True) -> str:
    """Lines of A, each with its reverse."""
    return "".join(f"{u},{v}\n" + f"{v},{u}\n" * both for u, v in edges)


def of_sizes(*sizes: int) -> dict[str, str]:
    """The files without A of graphs of the given sizes."""
    indicator = "".join(f"{g + 1}\n" * n for g, n in enumerate(sizes))
    return {"graph_indicator": indicator, "graph_labels": ("0\n1\n" * len(sizes))[: 2 * len(sizes)]}


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("1,2\n2,3\n4,5\n4,6\n", [4, 4, 2, 2, "1, 2", "2, 1"]),  # each once, as upper triangle
        ("2,1\n3,2\n6,4\n", [3, 3, 2, 2, "2, 1", "1, 2"]),  # as lower triangle
        ("1,1\n1,2\n2,1\n4,5\n4,5\n6,4\n", [2, 4, 1, 2, "4, 5", "5, 4"]),  # in the second
    ],
)
def test_edges_in_one_direction_are_refused_as_from_graphs_does(text: str, facts: list) -> None:
    texts = {"A": text, **of_sizes(3, 3)}
    with pytest.raises(InputError) as error:
        parse(texts, "toy")
    assert says(str(error.value), "toy", *facts)
    assert says(str(error.value), "directed=True")
    from torch_geometric.data import Data

    edges = torch.tensor([[int(n) - 1 for n in line.split(",")] for line in text.split()]).T
    with pytest.raises(InputError):
        GraphSet.from_graphs([Data(edge_index=edges, num_nodes=6, y=0)])


@pytest.mark.parametrize(
    ("text", "sizes", "edgeless"),
    [
        (lines(TRIANGLES[:2]) * 6, [3] * 6, 5),
        (lines(TRIANGLES) + lines(TRIANGLES[:1]) + lines(TRIANGLES[1:]), [4, 2, 3], 2),
        (lines(TRIANGLES[:2], both=False) * 2, [3, 3], 1),
        (lines(TRIANGLES) * 2, [2, 3, 3], 1),  # which also crosses graphs
    ],
)
def test_ids_that_begin_anew_are_named(text: str, sizes: list[int], edgeless: int) -> None:
    rows = text.split()
    with pytest.raises(InputError) as error:
        parse({"A": text, **of_sizes(*sizes)}, "toy")
    assert says(str(error.value), "toy", len(rows) - len({*rows}), edgeless, len(sizes))


@pytest.mark.parametrize(
    ("text", "sizes", "edges"),
    [
        (lines(TRIANGLES) * 2, [3, 1, 2], [6, 0, 0]),  # no other graph has room for them
        (lines([(1, 2)]) * 3, [2, 2], [2, 0]),  # more often than there are graphs
        ("1,2\n1,2\n2,1\n2,1\n", [2, 2], [2, 0]),  # twice in a row
        (lines([(1, 2), (3, 4)]) * 2, [2, 2, 2], [2, 2, 0]),  # ids count on
        (lines(TRIANGLES), [3, 3, 3], [6, 0, 0]),  # no repeats
        (lines([(1, 2), (3, 4)]) + lines([(1, 2)]), [2, 5], [2, 2]),  # none without an edge
        ("", [3, 3], [0, 0]),
        ("1,1\n2,2\n1,1\n", [2, 1], [0, 0]),  # loops
    ],
)
def test_graphs_without_edges_and_doubled_edges_are_read(
    text: str, sizes: list[int], edges: list[int]
) -> None:
    raw = parse({"A": text, **of_sizes(*sizes)}, "toy")
    assert raw.edge_ptr.diff().tolist() == edges


@pytest.mark.parametrize(
    ("key", "edit", "facts"),
    [
        ("graph_labels", lambda t: t[:-3], ["graph_labels", 187, "graph_indicator", 188]),
        ("graph_labels", lambda t: t.replace("-1", "1"), [1, "classes", "MUTAG", 2]),
        ("graph_labels", lambda t: t.replace("-1", "1.5", 1), ["graph_labels", "integers", "1.5"]),
        ("graph_labels", lambda t: "", ["graph_labels", "empty"]),
        ("node_labels", lambda t: t.replace("0", "C", 1), ["node_labels", "integers", "'C'"]),
        ("node_labels", lambda t: t[:-3], ["node_labels", 3370, 3371]),
        ("node_labels", lambda t: t.replace("6", "0"), [6, "node", "MUTAG", 7]),
        ("edge_labels", rest, ["edge_labels", 7441, 7442]),
        ("A", lambda t: "1, 3371\n" + rest(t), ["edges", "different"]),
        ("A", lambda t: "1, 9999\n" + rest(t), ["nodes", "1..3371"]),
        ("A", lambda t: "0, 1\n" + rest(t), ["nodes", "1..3371"]),
        ("node_labels", lambda t: "900000000\n" + rest(t), ["node_labels", 900_000_000, 10_000]),
        ("A", lambda t: t + "1, 2, 3\n", ["integers", "columns", 2, 3]),
        ("A", lambda t: t.replace("\n", ",1\n"), ["3 columns", 2]),
        ("graph_indicator", lambda t: t.replace("188", "189"), ["graph_indicator", "gaps"]),
        ("graph_indicator", lambda t: "2\n" + rest(t), ["graph_indicator", "gaps"]),
    ],
)  # fmt: skip
def test_text_that_contradicts_is_named(tmp_path: Path, key: str, edit, facts: list) -> None:
    texts = mutag_texts()
    texts[key] = edit(texts[key])
    write_zip(tmp_path / "MUTAG.zip", texts, "MUTAG")
    with pytest.raises(InputError) as error:
        load_graphs("MUTAG", data_dir=tmp_path)
    assert says(str(error.value), "MUTAG.zip", *facts)


def test_another_set_under_a_known_name_names_both_numbers(tmp_path: Path) -> None:
    write_zip(tmp_path / "PTC_MR.zip", mutag_texts(), "PTC_MR")
    with pytest.raises(InputError, match=r"\b188 .*PTC_MR\b.*\b344\b.*\b3371 .*PTC_MR\b.*\b4915\b"):
        load_graphs("PTC", data_dir=tmp_path)


def test_attributes_must_be_finite_and_text_must_be_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"toy\b.*node_attributes\b.*NaN"):
        parse({**TOY, "node_attributes": "1.5\nnan\n2\n"}, "toy")
    path = write_zip(tmp_path / "TOY.zip", toy(2), "TOY")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("TOY/TOY_node_labels.txt", b"\xff\xfe\n")
    with pytest.raises(InputError, match=r"TOY\.zip\b.*UTF-8"):
        load_graphs("TOY", data_dir=tmp_path)


def test_loops_and_repeats_go_and_edge_columns_follow() -> None:
    raw = parse(
        {
            "A": "3,1\n1,3\n2,2\n1,2\n2,1\n1,3\n4,5\n5,4",
            "edge_labels": "7\n7\n9\n8\n8\n9\n7\n7",
            "edge_attributes": "0,1\n2,3\n4,5\n6,7\n8,9\n10,11\n12,13\n14,15",
            "graph_indicator": "1\n1\n1\n2\n2",
            "graph_labels": "0\n4",
        },
        "toy",
    )
    assert raw.edge_index.tolist() == [[0, 0, 1, 2, 3, 4], [1, 2, 0, 0, 4, 3]]
    assert raw.edge_ptr.tolist() == [0, 4, 6]
    assert raw.edges.labels.argmax(dim=1).tolist() == [1, 0, 1, 0, 0, 0]
    assert raw.edges.labels.shape[1] == 3
    assert raw.edges.numbers[:, 0].tolist() == [6, 2, 8, 0, 12, 14]
    assert raw.y.tolist() == [0, 1]


def test_unknown_set_loads_with_edge_attributes_before_edge_labels(tmp_path: Path) -> None:
    texts = {**TOY, "edge_labels": "0\n1\n", "edge_attributes": "0.5\n0.25\n"}
    write_zip(tmp_path / "TOY.zip", texts, "TOY")
    graphs = load_graphs("TOY", data_dir=tmp_path)
    assert graphs.edge_attr.tolist() == [[0.5, 1, 0], [0.25, 0, 1]]
    assert graphs.y.tolist() == [1, 0]
    assert "TOY" not in MANIFEST
