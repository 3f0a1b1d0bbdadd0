"""Facts in one table: which columns are read, and what a drawn split keeps."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gcl_hard import InputError, bench
from gcl_hard.commands.bench import parse_bench
from gcl_hard.experiments.store import Store
from gcl_hard.links import PARTS, LinkSet, load_links, read_links
from tests.said import says

Fact = tuple[str, str, str]
FACTS = [
    (f"Käufer {i}", r, f"Ort {(i * s) % 12}")
    for i in range(12)
    for s, r in ((1, "in"), (5, "à, ß"))
]


def named(links: LinkSet, part: Any) -> list[Fact]:
    e, r = links.entities, links.relations
    return [(e[h], r[k], e[t]) for h, k, t in links.part(part).tolist()]


def frame(
    facts: list[Fact] = FACTS, columns: tuple[str, ...] = ("head", "relation", "tail")
) -> Any:
    return pd.DataFrame(facts, columns=[*columns])


FACT = st.tuples(*(st.integers(0, n).map(lambda i: f"n{i}") for n in (14, 3, 14)))


@settings(max_examples=60, deadline=None)
@given(st.lists(FACT, min_size=2, max_size=120, unique=True), st.integers(0, 5),
       st.sampled_from([(0.8, 0.1, 0.1), (0.5, 0.2, 0.3), (0.7, 0.0, 0.3)]))  # fmt: skip
def test_a_split_covers_every_name_and_parts_no_pair(
    facts: list[Fact], seed: int, shares: tuple[float, ...]
) -> None:
    links = LinkSet.from_table(frame(facts), shares=shares, split_seed=seed)
    parts = [named(links, part) for part in PARTS]
    assert sorted(fact for part in parts for fact in part) == sorted(facts)
    train = parts[0]
    assert {e for h, _, t in train for e in (h, t)} == {e for h, _, t in facts for e in (h, t)}
    assert {r for _, r, _ in train} == {r for _, r, _ in facts}
    pairs = [{frozenset((h, t)) for h, _, t in part} for part in parts]
    assert len(set.union(*pairs)) == sum(map(len, pairs))
    largest = max(Counter(frozenset((h, t)) for h, _, t in facts).values())
    for part, share in zip(parts[1:], shares[1:], strict=True):
        assert len(part) <= round(share * len(facts)) + largest / 2


def test_facts_that_are_added_move_few_others() -> None:
    draw = np.random.default_rng(0).integers(0, 60, (1_200, 2)).tolist()
    facts = [*dict.fromkeys((f"e{a}", f"r{a % 3}", f"e{b}") for a, b in draw if a != b)]
    parts = []
    for n in (900, 950):
        links = LinkSet.from_table(pd.DataFrame(facts[:n], columns=["head", "relation", "tail"]))
        parts.append({
            (links.entities[h], links.relations[r], links.entities[t]): part
            for part in PARTS for h, r, t in links.part(part).tolist()
        })  # fmt: skip
    first, second = parts
    assert sum(first[fact] != second[fact] for fact in first) < 20  # of 180 that are held out
    assert not [fact for fact in first if (first[fact], second[fact]) == ("train", "test")]


def test_a_dense_set_has_the_shares_and_rows_in_any_order_the_same_parts() -> None:
    rng = np.random.default_rng(0)
    facts = sorted(
        {(f"a{h}", f"r{r}", f"a{t}") for h, r, t in rng.integers(0, (40, 3, 40), (900, 3))}
    )
    links = LinkSet.from_table(frame(facts), shares=(0.6, 0.1, 0.3), split_seed=3)
    for part, share in zip(PARTS, (0.6, 0.1, 0.3), strict=True):
        assert len(links.part(part)) == pytest.approx(share * len(facts), abs=4)
    shuffled = [facts[i] for i in rng.permutation(len(facts))]
    again = LinkSet.from_table(frame(shuffled), shares=(0.6, 0.1, 0.3), split_seed=3)
    other = LinkSet.from_table(frame(facts), shares=(0.6, 0.1, 0.3), split_seed=4)
    for part in PARTS:
        assert {*named(again, part)} == {*named(links, part)}
    assert {*named(other, "test")} != {*named(links, "test")}
    pairs = Counter(frozenset((h, t)) for h, _, t in facts)
    assert any(says(note, sum(n for n in pairs.values() if n > 1)) for note in links.notes)


@pytest.mark.parametrize(
    "header",
    [("h", "r", "t"), ("Subject", "Predicate", "Object"), ("source", "relation", "target"),
     ("head_label", "relation_label", "tail_label"), ("from", "type", "to")],
)  # fmt: skip
def test_columns_are_known_by_their_names_in_any_order(header: tuple[str, ...]) -> None:
    table = frame(columns=header)[[header[2], header[0], header[1]]].assign(weight=0.5)
    links = LinkSet.from_table(table)
    assert {fact for part in PARTS for fact in named(links, part)} == {*FACTS}
    assert any(says(note, "weight") for note in links.notes)


@pytest.mark.parametrize(
    "header", [("a", "b", "c"), ("head", "tail", "tail"), ("source", "type", "label")]
)
def test_columns_that_say_nothing_are_shown_with_what_to_do(header: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as caught:
        LinkSet.from_table(frame(columns=header))
    assert says(str(caught.value), *header[:2], "--columns")
    if header == ("a", "b", "c"):
        links = LinkSet.from_table(frame(columns=header), columns=header)
        assert {fact for part in PARTS for fact in named(links, part)} == {*FACTS}
        with pytest.raises(InputError, match=r"'d'.*known: a, b, c"):
            LinkSet.from_table(frame(columns=header), columns=("a", "b", "d"))


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
def test_files_are_read_as_frames_are(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"facts.{suffix}"
    if suffix == "parquet":
        frame().to_parquet(path)
    else:
        separator = {"csv": ";", "tsv": "\t"}[suffix]
        frame().to_csv(path, index=False, sep=separator, encoding="utf-8-sig")
    whole = LinkSet.from_table(frame())
    for links in (LinkSet.from_table(path), load_links(path), LinkSet.from_table(str(path))):
        assert links.digest == whole.digest
        assert links.name == path.name


def test_columns_may_be_called_by_numbers() -> None:
    plain = LinkSet.from_table(pd.DataFrame(FACTS), columns=("0", "1", "2"))
    assert named(plain, "train") == named(LinkSet.from_table(frame()), "train")


def test_a_file_of_settings_names_several_columns(tmp_path: Path) -> None:
    facts = frame(columns=("who", "how", "where"))
    facts.to_csv(tmp_path / "facts.csv", index=False)
    (tmp_path / "run.yaml").write_text(
        f"dataset: {tmp_path / 'facts.csv'}\ncolumns: [who, how, where]\n"
    )
    (config, *_) = parse_bench([f"--config={tmp_path / 'run.yaml'}"]).configs
    assert config.domain == "links"
    assert config.columns == ("who", "how", "where")


@pytest.mark.parametrize(
    ("header", "domain"),
    [("head,relation,tail", "links"), ("smiles,y", "molecules"), ("a,b", None)],
)
@pytest.mark.parametrize("by_path", [True, False])
def test_columns_say_whose_a_table_is(
    header: str, domain: str | None, by_path: bool, tmp_path: Path
) -> None:
    (tmp_path / "mine.csv").write_text(f"{header}\nC,1,2\n")
    flags = [f"--dataset={tmp_path}/mine.csv"]
    if not by_path:
        flags = ["--dataset=mine.csv", f"--data-dir={tmp_path}"]
    if domain is not None:
        assert {config.domain for config in parse_bench(flags).configs} == {domain}
    elif by_path:
        with pytest.raises(InputError):
            parse_bench(flags)


def test_numbers_are_names_also_beside_empty_cells() -> None:
    numbers = [(7, "next", 8), (8, "next", 9), (9, "next", 7)]
    links = LinkSet.from_table(frame(numbers), shares=(1, 0, 0))  # type: ignore[arg-type]
    assert links.entities == ("7", "8", "9")
    for empty in (None, np.nan, " ", pd.NA):
        table = frame([*FACTS, ("a", "in", empty)])  # type: ignore[list-item]
        with pytest.raises(InputError) as caught:
            LinkSet.from_table(table)
        assert says(str(caught.value), len(FACTS) + 1, "tail")
    floats = pd.DataFrame({"h": [1.0, 2.0, 3.0], "r": "is", "t": [2, 3, 1]})
    assert LinkSet.from_table(floats, shares=(1, 0, 0)).entities == ("1", "2", "3")


def test_a_column_has_the_parts_unless_a_split_is_asked_for() -> None:
    words = ["Train", "dev", "test"] + ["training"] * (len(FACTS) - 3)
    table = frame().assign(split=words)
    links = LinkSet.from_table(table)
    assert [len(links.part(part)) for part in PARTS] == [len(FACTS) - 2, 1, 1]
    assert named(links, "test") == [FACTS[2]]
    by_name = LinkSet.from_table(
        table.rename(columns={"split": "x"}), columns=("head", "relation", "tail", "x")
    )
    assert by_name.digest == links.digest
    drawn = LinkSet.from_table(table, shares=(0.5, 0.25, 0.25))
    assert len(drawn.test) > 1
    with pytest.raises(InputError) as caught:
        LinkSet.from_table(table.assign(split="north"))
    assert says(str(caught.value), 1, "split", "north")


@pytest.mark.parametrize("shares", [(0.8, 0.2), (0.8, 0.1, 0.2), (0, 0.5, 0.5), (1.2, -0.1, -0.1)])
def test_shares_sum_to_one(shares: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="shares"):
        LinkSet.from_table(frame(), shares=shares)


def test_a_row_too_short_is_named(tmp_path: Path) -> None:
    (tmp_path / "facts.csv").write_text("head,relation,tail\na,r,b\na,r\n")
    with pytest.raises(InputError, match="line 3"):
        LinkSet.from_table(tmp_path / "facts.csv")
    for content in ("", "head,relation,tail\n"):
        (tmp_path / "facts.csv").write_text(content)
        with pytest.raises(InputError, match=r"facts\.csv"):
            LinkSet.from_table(tmp_path / "facts.csv")


def test_a_header_in_three_files_is_guessed(tmp_path: Path) -> None:
    for k, part in enumerate(PARTS):
        (tmp_path / f"{part}.txt").write_text(f"Kunde\that\tProdukt\na{k}\tr\tb\n")
    with pytest.raises(InputError, match=r"Kunde hat Produkt.*a header line\?"):
        read_links(tmp_path)


def test_unknown_names_are_answered_with_the_nearest() -> None:
    links = LinkSet.from_table(frame())
    assert links.numbered([("Ort 3", None, "")]).tolist() == [
        [links.entities.index("Ort 3"), -1, -1]
    ]
    with pytest.raises(InputError) as caught:
        links.numbered([("Ort 3", None, ""), ("Kaufer 11", "sold", "Ort 3")])
    assert says(str(caught.value), "Kaufer 11", "Käufer 11", "row 2", "sold")
    assert not says(str(caught.value), "Ort 3")


# Commands

RUN = ("--method=ucl,frequency", "--epochs=1", "--dim=4", "--candidates=8", "--seeds=1",
       "--device=cpu", "--threads=1", "--output=out")  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    frame().to_csv("facts.csv", index=False)
    frame(columns=("Kunde", "hat", "Produkt")).to_csv("mine.csv", index=False)
    return tmp_path


def keys() -> set[str]:
    return {result.name for result in Store("out").rows()}


def test_a_table_is_benched_by_its_header_its_columns_or_its_domain(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.main(["--dataset=facts.csv", *RUN]) == 0
    first = keys()
    assert says(capsys.readouterr().out, "split by seed 0")
    assert bench.main(["--dataset=facts.csv", *RUN, "--report-only"]) == 0
    assert says(capsys.readouterr().out, "2 of 2 runs", "before")
    assert bench.main([f"--dataset={folder}/facts.csv", "--domain=links", *RUN]) == 0
    assert keys() == first
    assert bench.main(["--dataset=facts.csv", "--split-seed=1", *RUN]) == 0
    assert bench.main(["--dataset=facts.csv", "--shares=0.6,0.2,0.2", *RUN]) == 0
    assert len(keys()) == 3 * len(first)
    capsys.readouterr()
    assert bench.main(["--dataset=mine.csv", "--columns=Kunde,hat,Produkt", *RUN]) == 0
    for flags, words in (
        ([], ("--smiles", "--columns", "--domain")),
        (["--domain=links"], ("--columns", "hat")),
    ):
        capsys.readouterr()
        assert bench.main(["--dataset=mine.csv", *flags, *RUN]) == 2
        assert says(capsys.readouterr().err, "mine.csv", *words)
    frame(columns=("a", "b", "c")).to_csv("some.tsv", index=False, sep="\t")
    assert bench.main(["--dataset=some.tsv", *RUN]) == 2
    assert says(capsys.readouterr().err, "some.tsv", "--domain")


def test_a_changed_table_is_another_set(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--dataset=facts.csv", *RUN]) == 0
    frame(FACTS[:-1]).to_csv("facts.csv", index=False)
    capsys.readouterr()
    assert bench.main(["--dataset=facts.csv", *RUN]) == 0
    assert not says(capsys.readouterr().out, "2 of 2 runs", "before")
