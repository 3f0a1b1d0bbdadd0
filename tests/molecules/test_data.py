"""Molecules: codes against PyTorch Geometric's reader, the cache, files, and the encoder."""

from __future__ import annotations

import csv
import gzip
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from gcl_hard.errors import InputError, MissingExtraError
from gcl_hard.graphs import GIN, TwoView, embed_graphs, load_graphs
from gcl_hard.graphs.augment import augment
from gcl_hard.molecules import (
    SOURCES,
    MoleculeGIN,
    Molecules,
    fingerprints,
    from_smiles,
    from_tu,
    load_molecules,
    read_molecules,
    scaffolds,
    tanimoto,
)
from gcl_hard.molecules import data as molecules
from gcl_hard.molecules import files as moleculenet
from gcl_hard.molecules.files import locate
from tests.said import says

pytest.importorskip("rdkit")
FOLDER = Path(__file__).parents[3] / "shared" / "data" / "molecules"
ON_DATA = pytest.mark.skipif(not FOLDER.is_dir(), reason="the molecules are not there")
SOME = [
    "CCO", "C", "[Na+].[Cl-]", "C[C@H](N)C(=O)O", "F/C=C/F", r"F/C=C\F", "c1ccc2[nH]ccc2c1",
    "[O-][N+](=O)c1ccccc1", "C#N", "[Fe+2]", "*CC", "O=S(=O)(O)O", "[2H]C",
]  # fmt: skip


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("GCL_HARD_DATA", raising=False)
    monkeypatch.setenv("GCL_HARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "molecules"


def edges(index: Tensor, attributes: Tensor) -> set[tuple[int, ...]]:
    pairs = [*map(tuple, index.T.tolist())]
    rows = [*map(tuple, attributes.tolist())]
    return {(*pair, *row) for pair, row in zip(pairs, rows, strict=True)}


def check_against_pyg(smiles: list[str]) -> None:
    """The fields that PyTorch Geometric's reader has as well, whose codes begin elsewhere.

    Its degrees count hydrogens.
    """
    from torch_geometric.utils import from_smiles as theirs

    ours = from_smiles(smiles)
    assert len(ours) == len(smiles)
    for text, graph in zip(smiles, ours, strict=True):
        expected = theirs(text)
        z, chirality, degree, charge, hydrogens, _, _, aromatic, _ = expected.x.T
        known = (charge >= 0) & (charge <= 10)
        columns = [
            z,
            degree - hydrogens + 1,
            torch.where(known, charge + 1, 0),
            hydrogens + 1,
            aromatic + 1,
        ]
        columns.append(chirality.clamp(max=3) + 1)
        assert torch.equal(graph.x.long(), torch.stack(columns, 1)), text
        kind, stereo, conjugated = expected.edge_attr.T
        kind = torch.tensor([{1: 1, 2: 2, 3: 3, 12: 4}.get(k, 5) for k in kind.tolist()])
        stereo = torch.tensor([1, 6, 2, 3, 4, 5])[stereo]
        attributes = torch.stack([kind.long(), conjugated + 1, stereo], 1)
        here = graph.edge_attr[:, [0, 2, 3]]
        assert edges(graph.edge_index, here) == edges(expected.edge_index, attributes), text


def test_codes_are_those_of_pytorch_geometrics_reader() -> None:
    check_against_pyg(SOME)


@ON_DATA
@pytest.mark.parametrize("name", ["BACE", "BBBP", "SIDER", "CHEMBL204_Ki"])
def test_codes_of_real_molecules_are_too(name: str) -> None:
    data = load_molecules(name, data_dir=FOLDER, limit=300)
    check_against_pyg([text.decode() for text in data.molecules.smiles[::5]])


def test_a_bond_is_in_a_ring_if_it_is_no_bridge() -> None:
    import networkx as nx

    for graph in from_smiles(["CCc1ccccc1", "C1CC1CC2CC2", "c1ccc2ccccc2c1C=O"]):
        ends = graph.edge_index.T.tolist()
        bridges = {frozenset(pair) for pair in nx.bridges(nx.Graph(ends))}
        ring = {
            frozenset(pair): int(code)
            for pair, code in zip(ends, graph.edge_attr[:, 1], strict=True)
        }
        assert ring == {pair: 1 if pair in bridges else 2 for pair in ring}


def test_what_is_outside_the_vocabulary_is_unknown_and_codes_stay_inside_it() -> None:
    read = from_smiles([*SOME, "[C+6]", "[U]"])
    for codes, sizes in ((read.x, molecules.ATOMS), (read.edge_attr, molecules.BONDS)):
        assert (codes.long() < torch.tensor([*sizes.values()])).all()
    charge, element = read[len(SOME)].x[0, 2], read[SOME.index("*CC")].x[0, 0]
    assert charge == element == molecules.UNKNOWN


def test_what_is_no_molecule_is_named_and_its_targets_are_left_out() -> None:
    targets = [[1.0, np.nan], [2, 2], [3, 3], [4, 4], [5, 5]]
    read = from_smiles(["CC", "no", "O", "", "CCO\nCC"], targets)
    assert [tuple(smiles) for smiles in read.invalid] == [(1, "no"), (3, ""), (4, "CCO\nCC")]
    assert read.smiles.tolist() == [b"CC", b"O"]
    assert read.rows.tolist() == [0, 2]
    assert read.y.shape == (2, 2)
    assert read.y[1].tolist() == [3, 3]
    assert read.y[0].isnan().tolist() == [False, True]


def test_targets_of_pandas_are_found_by_the_index_of_the_smiles() -> None:
    smiles = pd.Series(["CC", "no", "O", "CCO"], index=[7, 5, 3, 1])
    targets = pd.Series({1: 1.0, 3: 3, 5: 5, 7: 7})
    assert from_smiles(smiles, targets).y.tolist() == [7, 3, 1]
    assert from_smiles(smiles.tolist(), targets).y.tolist() == [1, 5, 7]
    assert from_smiles(smiles, targets.to_numpy()).y.tolist() == [1, 5, 7]
    with pytest.raises(InputError) as error:
        from_smiles(smiles, targets.rename({3: 9}))
    assert says(str(error.value), "targets", 3)
    twice = smiles.set_axis([0, 0, 1, 1])
    assert from_smiles(twice, targets.set_axis([0, 0, 1, 1])).y.tolist() == [1, 5, 7]


def test_a_smiles_of_more_than_3000_letters_is_left_out() -> None:
    read = from_smiles(["C" * 3000, "C" * 3001, "C" + "(C" * 5000 + ")" * 5000])
    assert read.rows.tolist() == [0]  # the last would take RDKit minutes
    message = read.left_out("mine")
    assert message is not None
    assert len(message) < 250


@pytest.mark.parametrize("smiles", [[], ["no", "neither"]])
def test_a_set_without_molecules_is_refused(smiles: list[str], cache: Path) -> None:
    for key in (None, "a"):
        with pytest.raises(InputError, match=rf"\b{len(smiles)} SMILES\b.*\bmolecule\b"):
            from_smiles(smiles, key=key)
    assert not cache.exists() or not [*cache.iterdir()]  # nothing half-written


def same(a: Molecules, b: Molecules) -> bool:
    tensors = ("x", "edge_index", "edge_attr", "node_ptr", "edge_ptr", "y")
    arrays = ("smiles", "rows")
    return (
        all(torch.equal(getattr(a, name), getattr(b, name)) for name in tensors)
        and all(np.array_equal(getattr(a, name), getattr(b, name)) for name in arrays)
        and (a.invalid, a.name) == (b.invalid, b.name)
    )


@pytest.mark.slow
def test_the_cache_several_processes_and_chunks_give_the_same_set(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    smiles = [*SOME, "no", *SOME, "CCCC"]
    whole = from_smiles(smiles)
    monkeypatch.setattr(molecules, "CHUNK", 4)
    counted: list[int] = []
    parts = {
        "chunks": from_smiles(smiles, progress=counted.append),
        "processes": from_smiles(smiles, jobs=2),
        "written": from_smiles(smiles, key="k"),
        "read": from_smiles(iter(()), key="k"),
    }
    assert all(same(whole, part) for part in parts.values())
    assert sum(counted) == len(smiles)
    assert len([*cache.iterdir()]) == 1
    assert isinstance(parts["read"].rows.base, np.memmap) or isinstance(
        parts["read"].rows, np.memmap
    )


def test_an_interrupted_reading_leaves_nothing_and_is_repeated(cache: Path) -> None:
    def broken() -> Any:
        yield from SOME
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        from_smiles(broken(), key="k")
    assert not [*cache.iterdir()]
    assert len(from_smiles(SOME, key="k")) == len(SOME)


def test_a_part_of_a_set_keeps_what_belongs_to_its_molecules() -> None:
    whole = from_smiles(SOME, range(len(SOME)))
    part = whole[[3, 0]]
    assert isinstance(part, Molecules)
    assert part.smiles.tolist() == [SOME[3].encode(), SOME[0].encode()]
    assert part.y.tolist() == [3, 0]
    assert same(part, whole.take(torch.tensor([3, 0])))
    assert part.with_targets([7, 8]).y.tolist() == [7, 8]
    assert torch.equal(part[0].x, whole[3].x)


@pytest.mark.parametrize(
    ("targets", "options", "facts"),
    [
        ([1.0], {}, ["targets", 2, "SMILES", "[1]"]),
        ([[0.0, 1.0]] * 2, {"tasks": ["a"]}, ["tasks", 1, "[2, 2]"]),
        ([0.5, 1.0], {"classes": True}, ["classes", "whole", 0]),
        ([-1, 1], {"classes": True}, ["classes", "whole", 0]),
    ],
)
def test_targets_that_do_not_fit_are_refused(
    targets: Any, options: Any, facts: list[object]
) -> None:
    with pytest.raises(InputError) as error:
        from_smiles(["C", "CC"], targets, **options)
    assert says(str(error.value), *facts)


def test_without_rdkit_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "rdkit", None)
    with pytest.raises(MissingExtraError, match=r"\.\[molecules\]"):
        from_smiles(["C"])


def test_tanimoto_is_rdkits() -> None:
    from rdkit import Chem
    from rdkit.Chem import rdFingerprintGenerator
    from rdkit.DataStructs import TanimotoSimilarity

    read = from_smiles(SOME)
    maker = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=1024)
    theirs = [maker.GetFingerprint(Chem.MolFromSmiles(smiles)) for smiles in SOME]
    expected = [[TanimotoSimilarity(a, b) for b in theirs] for a in theirs]
    bits = fingerprints(read)
    np.testing.assert_allclose(tanimoto(bits, bits), expected, rtol=1e-12)
    assert tanimoto([[0, 0]], [[0, 0]]) == 1


STEREO = ["CC[C@H]1CCN1", "C1C[C@@H]2CC[C@H]1C2", "C1C[C@H]2CC[C@@H]1C2", "C[C@@H]1CC[C@H](O)CC1",
          "CC[C@@H](O)c1ccccc1", "O=C1C[C@@H]2CCCC[C@H]2O1", "O=C1C[C@H]2CCCC[C@H]2O1", r"F/C=C\F",
          "C(=C/c1ccccc1)\\c1ccncc1", "CCCC"]  # fmt: skip


@pytest.mark.parametrize("chirality", [False, True])
def test_scaffolds_are_those_of_rdkit_with_and_without_chirality(chirality: bool) -> None:
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

    expected = [MurckoScaffoldSmiles(smiles, includeChirality=chirality) for smiles in STEREO]
    assert scaffolds(STEREO, chirality=chirality) == expected
    assert any("@" in scaffold for scaffold in expected) == chirality
    assert (
        scaffolds([smiles.encode() for smiles in STEREO], chirality=chirality, jobs=2) == expected
    )


@pytest.mark.parametrize(
    "smiles", [*SOME, *STEREO, "CC(O)C", "c1:c:c:c:c:c:1C", "COc1ccc(/C(C)=N/O)cc1"]
)
def test_numbers_of_a_reaction_make_no_other_molecule(smiles: str) -> None:
    from rdkit import Chem

    text = smiles.replace("CC(O)C", "C[C@@H](O)C")  # no centre, whatever its carbons are numbered
    mol = Chem.MolFromSmiles(text, sanitize=False)
    atoms = mol.GetNumAtoms()
    for numbers in (range(1, atoms + 1), range(atoms, 0, -1)):
        for atom, number in zip(mol.GetAtoms(), numbers, strict=True):
            atom.SetAtomMapNum(number)
        mapped = Chem.MolToSmiles(mol, canonical=False)
        assert mapped.count(":") >= atoms
        plain, same = from_smiles([smiles]), from_smiles([mapped])
        assert same.smiles.tolist() == [mapped.encode()]
        for name in ("x", "edge_index", "edge_attr"):
            assert torch.equal(getattr(same, name), getattr(plain, name)), name
        assert (fingerprints(same) == fingerprints(plain)).all()
        for chirality in (False, True):
            first, second = scaffolds([smiles, mapped], chirality=chirality)
            assert first == second


def test_scaffolds_with_a_key_are_made_once() -> None:
    counts: list[int] = []
    smiles = ["CCc1ccccc1", "CCCC", "OC1CC1", "C1C[C@@H]2CC[C@H]1C2"]
    for chirality in (False, True):
        counts.clear()
        options = {"chirality": chirality, "key": "these", "progress": counts.append}
        first = scaffolds(smiles, **options)
        assert scaffolds(smiles, **options) == first == scaffolds(smiles, chirality=chirality)
        assert sum(counts) == 4
    assert scaffolds(["C1CC1"], key="others") == ["C1CC1"]


# Files


def write(path: Path, lines: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(lines) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["smiles,a", "C,1", "CC,0", "no,1"], ("classes", [1, 0], ("a",))),
        (["smiles,a", "C,2", "CC,0", "O,1"], ("classes", [2, 0, 1], ("a",))),
        (["a,SMILES,b", "1,C,", "0,CC,1"], ("tasks", [[1, np.nan], [0, 1]], ("a", "b"))),
        (["Mol,a", "C,-1.5", "CC,2"], ("values", [-1.5, 2], ("a",))),
        (["smiles,a", "C,yes", "CC,No"], ("classes", [1, 0], ("a",))),
        (
            ["smiles,a,b", "C,active,", "CC,inactive,1"],
            ("tasks", [[1, np.nan], [0, 1]], ("a", "b")),
        ),
        (["smiles,n", "C,1", "CC,2", "CCC,3"], ("values", [1, 2, 3], ("n",))),
    ],
)
@pytest.mark.parametrize("name", ["mine.csv", "mine.csv.gz"])
def test_a_file_says_what_its_targets_are(
    lines: list[str], expected: Any, name: str, tmp_path: Path
) -> None:
    kind, y, tasks = expected
    data = read_molecules(write(tmp_path / name, lines))
    assert (data.kind, data.molecules.tasks, data.molecules.name) == (kind, tasks, "mine")
    np.testing.assert_array_equal(data.molecules.y.numpy(), np.asarray(y, np.float64))
    assert data.molecules.y.is_floating_point() == (kind != "classes")


@pytest.mark.parametrize(
    ("lines", "options", "facts"),
    [
        (["a,b", "C,1"], {}, ["mine.csv", "smiles", "canonical_smiles", "mol", "a, b"]),
        (["smiles,b", "C,1"], {"smiles": "text"}, ["mine.csv", "text", "smiles, b"]),
        (["smiles,b", "C,1"], {"targets": ["c"]}, ["mine.csv", "'c'", "b"]),
        (
            ["smiles,b", "C,x"],
            {"targets": ["b"]},
            ["mine.csv", "column b", "row 1", "'x'"],
        ),
        (
            ["smiles,b,c", "C,x,y"],
            {},
            ["mine.csv", "column b", "row 1", "'x'", "numbers", "unlabelled", "targets"],
        ),
        (["smiles,b", "C"], {}, ["mine.csv", "line 2", 1, 2]),
        (["smiles,b", "no,1"], {}, ["SMILES", 1, "'no'"]),
        ([], {}, ["mine.csv", "empty", "names"]),
        (["smiles,y,y", "C,1,2"], {}, ["mine.csv", "y and y", "rename"]),
        (["smiles,y,y", "C,1,2"], {"targets": ["y"]}, ["mine.csv", "y and y", "rename"]),
        (["smiles,y,SMILES", "C,1,C"], {}, ["smiles", "SMILES", "rename"]),
        (["smiles,y,split,Split", "C,1,a,b"], {}, ["split", "Split", "rename"]),
        (["smiles,y", "C,1e39"], {}, ["finite", "1e+39"]),
    ],
)
def test_a_file_that_does_not_fit_is_refused(
    lines: list[str], options: Any, facts: list[object], tmp_path: Path
) -> None:
    path = write(tmp_path / "mine.csv", lines)
    if not lines:
        path.write_text("")
    with pytest.raises(InputError) as error:
        read_molecules(path, **options)
    assert says(str(error.value), *facts)


def test_a_column_that_numbers_the_rows_is_no_target(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.csv", ["ID,smiles,a", "7,C,1.5", "8,CC,0.5", "9,CCC,2"])
    with pytest.warns(UserWarning, match=r"mine\.csv\b.*\btargets\b.*\bcolumn ID\b"):
        data = read_molecules(path)
    assert data.molecules.tasks == ("a",)
    np.testing.assert_array_equal(data.molecules.y.numpy(), np.float32([1.5, 0.5, 2]))
    assert read_molecules(path, targets=["ID", "a"]).molecules.tasks == ("ID", "a")


@pytest.mark.parametrize("cell", [">10", '"5,2"', "10 nM", "5.2 ± 0.3", "64-17-5", "1_2", "3D"])
def test_a_column_that_is_no_target_is_named(cell: str, tmp_path: Path) -> None:
    lines = ["smiles,mw,ic50", f"CCO,46.1,{cell}", f"CCN,45.1,{cell}", "CC,30.1,5.2"]
    path = write(tmp_path / "mine.csv", lines)
    with pytest.warns(UserWarning, match=r"mine\.csv.*column ic50.*row 1.*no number"):
        assert read_molecules(path).molecules.tasks == ("mw",)
    assert read_molecules(path, targets=["mw"]).molecules.tasks == ("mw",)


@pytest.mark.parametrize("more", [",", "Total,4", "no,7", "no,", "no,>5"])
def test_rows_without_a_molecule_have_no_say_in_what_targets_are(more: str, tmp_path: Path) -> None:
    data = read_molecules(write(tmp_path / "mine.csv", ["smiles,y", "C,1", more, "CC,0", "CO,1"]))
    assert (data.kind, data.molecules.y.tolist()) == ("classes", [1, 0, 1])
    assert [row for row, _ in data.molecules.invalid] == [1]


@pytest.mark.parametrize("word", ["external", "", "held out", "3"])
def test_a_split_of_other_words_is_refused_where_there_are_targets(
    word: str, tmp_path: Path
) -> None:
    lines = ["smiles,y,split", "C,1,train", f"CC,0,{word}", "CO,1,test", f"no,1,{word}x"]
    path = write(tmp_path / "mine.csv", lines)
    with pytest.raises(InputError) as error:
        read_molecules(path)
    assert says(str(error.value), "split", "row 2", f"'{word}'", "train", "valid", "test")
    assert read_molecules(path, kind="unlabelled").test is None


@pytest.mark.parametrize("smiles", ["CCO", b"CCO"])
def test_one_text_is_no_list_of_smiles(smiles: Any) -> None:
    with pytest.raises(InputError, match="list"):
        from_smiles(smiles)
    with pytest.raises(InputError, match="strings"):
        from_smiles(["CCO", math.nan])  # type: ignore[list-item]


@pytest.mark.parametrize("classes", [True, False])
def test_words_are_no_targets(classes: bool) -> None:
    with pytest.raises(InputError, match=r"\bnumber\b.*\bclasses\b"):
        from_smiles(["CO", "CC"], ["toxic", "safe"], classes=classes)


@pytest.mark.parametrize("target", [math.inf, -math.inf, 1e39])
def test_targets_are_finite_in_single_precision(target: float) -> None:
    with pytest.raises(InputError, match=rf"finite.*{target:g}.*row 1".replace("+", r"\+")):
        from_smiles(["CO", "CC"], [1.0, target])


def test_targets_keep_double_precision() -> None:
    y = [2_012_742.25, 2_012_742.2501]
    assert from_smiles(["CO", "CC"], y).y.tolist() == y


def test_parts_and_cliffs_are_read_in_any_writing(tmp_path: Path) -> None:
    lines = ["SMILES, y,Split,Cliff_mol", "C,1.5,Train,True", "CC,2,TEST ,false", "CCC,3,val,1"]
    data = read_molecules(write(tmp_path / "mine.csv", lines))
    assert data.molecules.tasks == ("y",)
    assert data.test is not None
    assert data.valid is not None
    assert data.cliffs is not None
    assert data.test.tolist() == [False, True, False]
    assert data.valid.tolist() == [False, False, True]
    assert data.cliffs.tolist() == [True, False, True]


@pytest.mark.parametrize("content", [b"smiles,a\n\xff\xfe,1\n"])
def test_a_damaged_file_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"mine\.csv .*UTF-8"):
        read_molecules(path)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.csv", ["smiles,a", "C,1", "O,0"])
    assert len(read_molecules(path).molecules) == 2
    write(path, ["smiles,a", "C,1", "O,0", "CCO,1"])
    assert len(read_molecules(path).molecules) == 3
    assert len(read_molecules(path, limit=1, kind="values").molecules) == 1


def test_a_known_set_is_found_in_folders_and_said_where_to_put(tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    write(mirror / "any" / "bace.csv", ["mol,Class", "C,1", "CC,0"])
    assert len(load_molecules("bace", data_dir=mirror).molecules) == 2
    with pytest.raises(InputError, match=r"'BBBP'(.|\n)*\boffline\b.*mirror/bbbp\.csv\b.*GCL_HARD"):
        load_molecules("BBBP", data_dir=mirror, download=False)
    with pytest.raises(InputError, match=r"'BASE'.*\bBACE\b.*\bBACE\b"):
        load_molecules("BASE")


def test_a_set_of_moleculenet_is_downloaded_once(
    cache: Path, site: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = site
    monkeypatch.setattr(moleculenet, "SITE", address)
    table = write(folder / "SAMPL.csv", ["iupac,smiles,expt,calc", "x,C,1.5,2", "y,CC,2.5,3"])
    for _ in range(2):
        assert load_molecules("FreeSolv").molecules.y.tolist() == [1.5, 2.5]
        table.unlink(missing_ok=True)
    assert (cache / "SAMPL.csv").is_file()
    with pytest.raises(InputError, match=f"{address}/BBBP.csv: .*404"):
        load_molecules("BBBP")


def test_addresses_of_moleculenet_are_those_of_pytorch_geometric() -> None:
    from torch_geometric.datasets import MoleculeNet

    theirs = {MoleculeNet.url.format(source[1]) for source in MoleculeNet.names.values()}
    ours = {
        f"{moleculenet.SITE}/{source.downloads}" for source in SOURCES.values() if source.downloads
    }
    assert ours <= theirs


@ON_DATA
def test_the_shared_sets_have_their_sizes() -> None:
    sizes = {"BACE": 1513, "BBBP": 2039, "ESOL": 1128, "FreeSolv": 642, "CHEMBL4203_Ki": 731}
    for name, size in sizes.items():
        data = load_molecules(name, data_dir=FOLDER)
        assert len(data.molecules) == size
        assert (data.kind, data.test is not None) == (SOURCES[name].kind, "CHEMBL" in name)
    cliffs = load_molecules("CHEMBL4203_Ki", data_dir=FOLDER)
    with locate("CHEMBL4203_Ki", data_dir=FOLDER).open() as file:
        rows = [*csv.DictReader(file)]
    assert cliffs.cliffs is not None
    assert cliffs.test is not None
    assert cliffs.cliffs.tolist() == [row["cliff_mol"] == "1" for row in rows]
    assert cliffs.test.tolist() == [row["split"] == "test" for row in rows]
    np.testing.assert_allclose(cliffs.molecules.y.numpy(), [float(row["y"]) for row in rows], 1e-6)


@ON_DATA
def test_invalid_molecules_of_tox21_are_counted() -> None:
    from rdkit import Chem

    data = load_molecules("Tox21", data_dir=FOLDER)
    with (FOLDER / "moleculenet" / "tox21.csv").open() as file:
        read = [Chem.MolFromSmiles(row["smiles"]) for row in csv.DictReader(file)]
    invalid = [i for i, mol in enumerate(read) if mol is None]  # none or 8: versions differ
    assert [smiles.row for smiles in data.molecules.invalid] == invalid
    assert len(read) == 7831
    assert data.molecules.y.shape == (7831 - len(invalid), 12)


# TU sets and the encoder


def test_mutag_is_molecules_of_its_known_formulas() -> None:
    mutag = load_graphs("MUTAG")
    coded = from_tu(mutag)
    first = coded[0]
    # A nitroarene, C14 N O2: three fused aromatic rings and a nitro group.
    numbers, counts = np.unique(first.x[:, 0].numpy(), return_counts=True)
    assert dict(zip(numbers.tolist(), counts.tolist(), strict=True)) == {6: 14, 7: 1, 8: 2}
    degrees = torch.bincount(first.edge_index[0], minlength=len(first.x))
    assert torch.equal(first.x[:, 1].long(), degrees + 1)
    kinds = first.edge_attr[:, 0]
    assert torch.equal(
        torch.unique(first.edge_index[0][kinds == 4]), (first.x[:, 4] == 2).nonzero().flatten()
    )
    assert (coded.x[:, [2, 3, 5]] == molecules.UNKNOWN).all()
    assert set(coded.x[:, 0].tolist()) == {6, 7, 8, 9, 17, 35, 53}
    with pytest.raises(InputError, match=r"custom\b.*\belements\b.*\bMUTAG, PTC_MR\b"):
        from_tu(from_smiles(["CC"]))


def test_the_encoder_sums_embeddings_of_codes() -> None:
    torch.manual_seed(0)
    encoder = MoleculeGIN(dim=8, layers=2)
    batch = from_smiles(SOME).all()

    def summed(codes: Tensor, part: Any, sizes: Any) -> Tensor:
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        rows = [
            sum(
                part.table.weight[start + int(code)]
                for start, code in zip(starts, row, strict=True)
            )
            for row in codes
        ]
        return torch.stack(rows)

    assert batch.edge_attr is not None
    x = summed(batch.x, encoder.atoms, [*molecules.ATOMS.values()])
    bonds = summed(batch.edge_attr, encoder.bonds, [*molecules.BONDS.values()])
    assert isinstance(encoder.gin, GIN)
    expected = encoder.gin(x, batch.edge_index, batch.batch, bonds)
    outputs = encoder(batch.x, batch.edge_index, batch.batch, batch.edge_attr)
    for ours, theirs in zip(outputs, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_an_encoder_of_molecules_refuses_other_graphs() -> None:
    mutag = load_graphs("MUTAG")
    with pytest.raises(InputError, match=r"atoms\b.*\binteger\b.*float32 \[3371, 7\].*from_smiles"):
        embed_graphs(MoleculeGIN(8, 2), mutag)


@pytest.mark.parametrize("by", ["mask-attributes", "drop-nodes", "perturb-edges", "random-walk"])
def test_augmentations_keep_codes_in_the_vocabulary(by: str) -> None:
    batch = from_smiles(SOME[2:]).all()
    view = augment(batch, by, 0.4, generator=torch.Generator().manual_seed(0))
    assert view.x.dtype == torch.uint8
    assert view.edge_attr is not None
    assert view.edge_attr.dtype == torch.uint8
    if by == "mask-attributes":
        masked = (view.x == molecules.UNKNOWN).all(1)
        assert masked.any()
        assert torch.equal(view.x[~masked], batch.x[~masked])


def test_molecules_train_and_embed_like_other_graphs() -> None:
    from gcl_hard.training.loop import fit

    read = from_smiles([*SOME, *SOME], [0, 1] * len(SOME), classes=True)
    torch.manual_seed(0)
    model = TwoView(MoleculeGIN(8, 2), method="hscl")
    losses = fit(model, read, batch_size=8, epochs=5, lr=0.01)
    assert losses[-1] < losses[0]
    alone = np.concatenate([model.embed(read[[i]]) for i in range(3)])
    np.testing.assert_allclose(model.embed(read)[:3], alone, rtol=1e-4, atol=1e-5)


def test_counts_are_those_of_a_loop_over_atoms_and_bonds() -> None:
    read = from_smiles(["CO", "c1ccccc1[N+](=O)[O-]", "C", "C[C@H](N)C(=O)O"])
    for molecule, counts in zip(read, read.counts(), strict=True):
        expected = []
        for codes, fields in ((molecule.x, molecules.ATOMS), (molecule.edge_attr, molecules.BONDS)):
            for column, size in enumerate(fields.values()):
                expected += [int((codes[:, column] == code).sum()) for code in range(size)]
        assert counts.tolist() == expected
