"""Sets of facts: how they are read, numbered and looked up."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

from gcl_hard import InputError
from gcl_hard.links import KNOWN, Facts, LinkSet, load_links, read_links
from gcl_hard.links.data import KINDS
from tests.said import says

DATA = Path(__file__).parents[3] / "shared" / "data" / "links"
FAMILY = {
    "train": "ann\tparent\tbob\nann\tparent\teve\nbob\tparent\tcid\ncid\tlikes\tann\n",
    "valid": "ann\tgrandparent\tcid\n",
    "test": "eve\tparent\tdan\nann\tlikes\tcid\n",
}


def folder(tmp_path: Path, **changed: str) -> Path:
    path = tmp_path / "family"
    path.mkdir()
    for part, text in {**FAMILY, **changed}.items():
        (path / f"{part}.txt").write_bytes(text.encode())
    return path


def packed(path: Path, name: str = "family.tar.gz", prefix: str = "") -> Path:
    archive = path.with_name(name)
    with tarfile.open(archive, "w:gz") as tar:
        for part in FAMILY:
            content = (path / f"{part}.txt").read_bytes()
            member = tarfile.TarInfo(f"{prefix}{part}.txt")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return archive


def named(links: LinkSet, part: str) -> set[tuple[str, str, str]]:
    return {
        (links.entities[h], links.relations[r], links.entities[t])
        for h, r, t in links.part(part).tolist()  # type: ignore[arg-type]
    }


def facts(text: str) -> set[tuple[str, ...]]:
    return {tuple(line.split("\t")) for line in text.splitlines()}


def test_a_folder_and_an_archive_are_one_set(tmp_path: Path) -> None:
    path = folder(tmp_path)
    links = load_links("family", data_dir=tmp_path)
    assert (links.n_entities, links.n_relations) == (5, 3)
    for part, text in FAMILY.items():
        assert named(links, part) == facts(text)
    for prefix in ("", "inside/"):
        again = read_links(packed(path, prefix=prefix))
        assert again.digest == links.digest
        assert again.name == links.name == "family"
    assert load_links(str(path)).digest == links.digest
    with pytest.raises(InputError, match=r"\bfamily\b.*\bfamily\.tar\.gz\b.*each may be"):
        load_links("family", data_dir=tmp_path)


@pytest.mark.parametrize("ending", ["\r\n", "\r", "\n\n", " \n"])
def test_lines_end_as_on_any_system(ending: str, tmp_path: Path) -> None:
    changed = {part: text.replace("\n", ending) for part, text in FAMILY.items()}
    links = read_links(folder(tmp_path, **changed))
    for part, text in FAMILY.items():
        assert named(links, part) == facts(text)


def test_spaces_around_names_are_dropped_and_told(tmp_path: Path) -> None:
    folder(tmp_path, valid="ann \tgrandparent\tcid\n")
    links = load_links("family", data_dir=tmp_path)
    assert named(links, "valid") == {("ann", "grandparent", "cid")}
    assert says(" ".join(links.notes), 1, "'ann '")


def test_what_training_has_not_seen_is_kept_and_counted(tmp_path: Path) -> None:
    links = read_links(folder(tmp_path))
    assert "dan" in links.entities
    for kind in ("entities", "relations"):
        assert any(says(note, 1, kind, "training") for note in links.notes)
    repeated = FAMILY["train"] + "ann\tparent\tbob\n"
    again = LinkSet.from_triples(
        [tuple(line.split("\t")) for line in repeated.splitlines()],  # type: ignore[misc]
        [("ann", "likes", "bob")],
    )
    assert len(again.train) == 4
    assert any(says(note, "train", 1, "repeated") for note in again.notes)


def test_queries_ask_both_ways_and_facts_are_those_of_a_slow_loop(tmp_path: Path) -> None:
    links = read_links(folder(tmp_path))
    n = links.n_relations
    for part in ("train", "valid", "test"):
        queries = links.queries(part)  # type: ignore[arg-type]
        asked = set(zip(*(column.tolist() for column in queries), strict=True))
        expected = set()
        for h, r, t in links.part(part).tolist():  # type: ignore[arg-type]
            expected |= {(h, r, t), (t, r + n, h)}
        assert asked == expected
    for known, parts in ((links.training_facts, ["train"]),
                         (links.all_facts, ["train", "valid", "test"])):  # fmt: skip
        every = {
            triple
            for part in parts
            for triple in zip(*(column.tolist() for column in links.queries(part)), strict=True)  # type: ignore[arg-type]
        }
        queries = links.queries("test")
        rows, columns = known.pairs(links.key(queries))
        got = set(zip(rows.tolist(), columns.tolist(), strict=True))
        asked_of = [(int(q), int(r)) for q, r in zip(queries.entity, queries.relation, strict=True)]
        assert got == {
            (i, answer)
            for i, query in enumerate(asked_of)
            for entity, relation, answer in every
            if (entity, relation) == query
        }


def test_known_facts_among_some_candidates() -> None:
    known = Facts.of(torch.tensor([3, 3, 9, 3]), torch.tensor([7, 2, 0, 2]))
    candidates = torch.tensor([2, 0])
    where = torch.full((8,), -1)
    where[candidates] = torch.arange(2)
    rows, columns = known.pairs(torch.tensor([9, 3, 4, 3, 12]), where)
    assert rows.tolist() == [0, 1, 3]
    assert columns.tolist() == [1, 0, 0]
    nothing = Facts.of(torch.tensor([], dtype=torch.int64), torch.tensor([], dtype=torch.int64))
    assert not any(len(indices) for indices in nothing.pairs(torch.tensor([1, 2])))


def test_training_facts_are_those_of_training_alone(tmp_path: Path) -> None:
    links = read_links(folder(tmp_path))
    (tmp_path / "more").mkdir()
    other = read_links(folder(tmp_path / "more", test=FAMILY["test"] + "bob\tparent\tann\n"))
    for name in ("keys", "starts", "answers"):
        assert torch.equal(getattr(links.training_facts, name), getattr(other.training_facts, name))
    assert len(other.all_facts.answers) == len(links.all_facts.answers) + 2


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"train": "ann parent bob\n"}, [1, "tabs", "train.txt"]),
        ({"valid": "ann\tparent\tbob\tcid\n"}, [1, "tabs", "valid.txt"]),
        ({"test": "ann\t\tbob\n"}, [1, "tabs", "test.txt"]),
        ({"valid": ""}, ["valid.txt", "empty"]),
        ({"valid": "ann\tparent\tbob\n"}, [1, "train", "valid", "ann"]),
    ],
)
def test_what_cannot_be_read_is_named(
    changed: dict[str, str], words: list[object], tmp_path: Path
) -> None:
    with pytest.raises(InputError) as error:
        read_links(folder(tmp_path, **changed))
    assert says(str(error.value), *words), error.value


def test_damaged_missing_and_unknown_sets_are_one_message(tmp_path: Path) -> None:
    path = folder(tmp_path)
    (path / "train.txt").write_bytes(b"\xff\xfe\tr\tb\n")
    with pytest.raises(InputError, match=r"train\.txt\b.*UTF-8"):
        read_links(path)
    archive = tmp_path / "other.tar.gz"
    archive.write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"other\.tar\.gz\b"):
        read_links(archive)
    with pytest.raises(InputError, match=r"FB15k-237\b"):
        load_links("FB15k-273", data_dir=tmp_path, cache_dir=tmp_path, download=False)
    (path / "test.txt").unlink()
    with pytest.raises(FileNotFoundError):
        read_links(path)
    with pytest.raises(InputError, match=r"no set of facts"):
        load_links(str(path))


def test_another_set_of_a_known_name_is_refused(tmp_path: Path) -> None:
    folder(tmp_path).rename(tmp_path / "UMLS")
    with pytest.raises(InputError, match=r"UMLS\b.*\b135\b"):
        load_links("umls", data_dir=tmp_path)


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the published sets")
@pytest.mark.parametrize("name", KNOWN)
def test_the_published_sets_have_their_published_sizes(name: str) -> None:
    links = load_links(name.lower(), data_dir=DATA, download=False)
    sizes = [len(links.part(part)) for part in ("train", "valid", "test")]
    assert (links.n_entities, links.n_relations, *sizes) == KNOWN[name].counts
    assert links.name == name
    queries = links.queries("test").at(slice(500))
    rows, columns = links.all_facts.pairs(links.key(queries))
    answers = set(zip(range(500), queries.answer.tolist(), strict=True))
    assert answers <= set(zip(rows.tolist(), columns.tolist(), strict=True))


def test_kinds_of_relations_are_those_of_a_slow_loop() -> None:
    generator = torch.Generator().manual_seed(3)
    draws = torch.randint(9, (40, 2), generator=generator).tolist()
    triples = {(f"e{h}", f"r{i % 3}", f"e{t if i % 3 else t // 4}")
            for i, (h, t) in enumerate(draws)}  # fmt: skip
    triples |= {(f"e{i}", "r3", f"e{(i + 1) % 9}") for i in range(9)}
    links = LinkSet.from_triples(sorted(triples))
    many = []
    for r in range(4):
        facts = [(h, t) for h, kind, t in links.train.tolist() if kind == r]
        tails = len(facts) / len({h for h, _ in facts})
        heads = len(facts) / len({t for _, t in facts})
        many.append((heads >= 1.5, tails >= 1.5))
    names = {(False, False): "1_1", (False, True): "1_n", (True, False): "n_1", (True, True): "n_n"}
    expected = [names[pair] for pair in many] + [names[pair[::-1]] for pair in many]
    assert [KINDS[k] for k in links.kinds.tolist()] == expected
    assert len(set(expected)) > 1


def test_graphs_with_kinds_of_edges_are_sets_of_facts() -> None:
    parts = [
        Data(edge_index=torch.tensor([[0, 1, 1], [1, 2, 2]]), edge_type=torch.tensor([0, 1, 1])),
        Data(edge_index=torch.tensor([[2], [0]]), edge_type=torch.tensor([0]), num_nodes=5),
    ]
    links = LinkSet.from_graphs(*parts)
    assert (links.n_entities, links.n_relations) == (5, 2)
    assert links.train.tolist() == [[0, 0, 1], [1, 1, 2]]
    assert links.valid.tolist() == [[2, 0, 0]]
    assert says(" ".join(links.notes), 1, "repeated", 2, "entities")
    named = LinkSet.from_graphs(parts[0], entities=["a", "b", "c"], relations=["r", "s"])
    assert named.entities == ("a", "b", "c")
    masked = Data(edge_index=parts[0].edge_index, edge_type=parts[0].edge_type,
                  train_mask=torch.tensor([True, False, False]))  # fmt: skip
    for wrong, words in (
        ((Data(edge_index=parts[0].edge_index),), ["edge_type"]),
        ((masked,), ["train_mask"]),
        ((parts[0], parts[0]), ["train", "valid", "0 0 1"]),
        ((Data(edge_index=torch.zeros(2, 0, dtype=torch.int64),
               edge_type=torch.zeros(0, dtype=torch.int64)),), ["no training"]),
    ):  # fmt: skip
        with pytest.raises(InputError) as error:
            LinkSet.from_graphs(*wrong)
        assert says(str(error.value), *words)
    for names in (["a"], ["a", "b"], ["a", "a", "b"], [1, 2, 3]):
        with pytest.raises(InputError):
            LinkSet.from_graphs(parts[0], entities=names)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"\b9\b.*\b3\b"):
        LinkSet.from_graphs(Data(edge_index=parts[0].edge_index, edge_type=parts[0].edge_type,
                                 num_nodes=9), entities=["a", "b", "c"])  # fmt: skip
    for facts in ([(0, 1, 2)], [("a", "b")], ["abc"], [torch.zeros(3)]):
        with pytest.raises(InputError, match="triples of text"):
            LinkSet.from_triples(facts)  # type: ignore[arg-type]


def written(
    tmp_path: Path, train: str, valid: str = "a\tr\tc\n", test: str = "b\tr\ta\n"
) -> LinkSet:
    path = tmp_path / "own"
    path.mkdir(exist_ok=True)
    for part, text in {"train": train, "valid": valid, "test": test}.items():
        (path / f"{part}.txt").write_text(text, encoding="utf-8")
    return read_links(path)


def test_tab_separated_n_triples_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"train\.txt, line 1\b.*dot"):
        written(tmp_path, "<x/a>\t<x/r>\t<x/b> .\n")
    plain = written(tmp_path, "a Inc.\tr.\tb Inc.\n", "b Inc.\tr.\ta Inc.\n", "a\tr.\tb\n")
    assert plain.entities == ("a", "a Inc.", "b", "b Inc.")


@pytest.mark.parametrize(
    "header", ["head\trelation\ttail", "Subject\tPredicate\tObject", "source\ttype\ttarget"]
)
@pytest.mark.parametrize("parts", [["test"], ["train", "valid", "test"]])
def test_names_of_columns_are_no_fact(header: str, parts: list[str], tmp_path: Path) -> None:
    texts = {"train": "a\tr\tb\nb\tr\tc\nc\tr\ta\n", "valid": "a\tr\tc\n", "test": "b\tr\ta\n"}
    plain = written(tmp_path, *texts.values())
    links = written(
        tmp_path, *(f"{header}\n" * (part in parts) + text for part, text in texts.items())
    )
    assert links.digest == plain.digest
    for part in parts:
        assert any(says(note, part, 1, *header.split("\t")) for note in links.notes)
    assert len(links.notes) == len(parts) + len(plain.notes)


def test_a_first_line_whose_words_other_lines_have_is_a_fact(tmp_path: Path) -> None:
    links = written(tmp_path, "h\tr\tt\na\tr\tb\n")
    assert ("h", "r", "t") in named(links, "train")
    assert any(says(note, "train", 1, "h", "r", "t") for note in links.notes)
    other = written(tmp_path, "a\tr\tb\nhead\trelation\ttail\n")  # not the first line
    assert ("head", "relation", "tail") in named(other, "train")
    with pytest.raises(InputError) as error:
        written(tmp_path, "head\ttail\trelation\na\tb\tr\n")
    assert says(str(error.value), "train.txt", 1, "columns", "tail")
    with pytest.raises(InputError) as error:
        written(tmp_path, "a\tr\tb\nb\tr\tc\n", "Kopf\tArt\tZiel\nc\tr\ta\n", "a\tr\tc\n")
    assert says(str(error.value), "valid.txt", 1, "Kopf", "Art", "Ziel", "columns")


def test_triples_that_end_with_the_relation_are_noted() -> None:
    facts = [(f"e{i}", f"e{i + 1}", "rs"[i % 2]) for i in range(9)]
    assert any(says(note, 2, 9, "head") for note in LinkSet.from_triples(facts).notes)  # type: ignore[arg-type]
    right = LinkSet.from_triples([(h, r, t) for h, t, r in facts])  # type: ignore[arg-type]
    few = LinkSet.from_triples([(f"e{i}", f"r{i}", "e0") for i in range(9)])  # tails are heads
    assert right.notes == few.notes == ()


def test_names_are_in_the_order_of_their_numbers() -> None:
    graph = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), edge_type=torch.tensor([0, 1]))
    names, kinds = ("cid", "ann", "bob"), ("likes", "knows")
    accepted: list[tuple[Any, Any]] = [
        (list(names), kinds),
        (np.array(names), pd.Index(kinds)),
        ({"ann": 1, "bob": 2, "cid": 0}, {"knows": 1, "likes": 0}),
        ({2: "bob", 0: "cid", 1: "ann"}, {np.int64(1): "knows", np.int64(0): "likes"}),
    ]
    for entities, relations in accepted:
        of_graph = LinkSet.from_graphs(graph, entities=entities, relations=relations)
        of_names = LinkSet.from_triples(
            [("cid", "likes", "ann"), ("ann", "knows", "bob")],
            entities=entities, relations=relations,
        )  # fmt: skip
        for links in (of_graph, of_names):
            assert (links.entities, links.relations) == (names, kinds)
            assert links.train.tolist() == [[0, 0, 1], [1, 1, 2]]
    for wrong in (
        {*names}, dict.fromkeys(names, 0), {"cid": 1, "ann": 2, "bob": 3}, {"0": "cid"}, "abc",
        {"cid": 0, "ann": 1, "bob": 3}, ["cid", "ann", " "], ["cid", "ann", ""], ["cid", "ann", 3],
    ):  # fmt: skip
        with pytest.raises(InputError, match="entities"):
            LinkSet.from_graphs(graph, entities=wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"relations\b.*'knows'"):
        LinkSet.from_triples([("a", "knows", "b")], relations=["likes"])
    with pytest.raises(InputError, match="blank"):
        LinkSet.from_triples([("", "r", "b")])


def test_names_that_look_alike_are_kept_apart() -> None:
    train = [("é", "r", "e\u0301"), ("b", "r", "b\0"), ("b ", "r", "c"), ("c\0", "s", "d")]
    assert LinkSet.from_triples(train).n_entities == 8


def test_kinds_of_edges_may_be_a_column() -> None:
    ends, kinds = torch.tensor([[0, 1], [1, 2]]), torch.tensor([[0], [1]])
    links = LinkSet.from_graphs(Data(edge_index=ends, edge_type=kinds))
    assert links.train.tolist() == [[0, 0, 1], [1, 1, 2]]
    for wrong in (kinds.int(), torch.eye(2).long()):
        with pytest.raises(InputError, match="edge_type"):
            LinkSet.from_graphs(Data(edge_index=ends, edge_type=wrong))
