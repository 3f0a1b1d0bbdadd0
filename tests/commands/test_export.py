"""Encoders exported to ONNX, torch.export and safetensors, against the encoders themselves."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GINConv, global_add_pool

import gcl_hard
from gcl_hard import InputError, bench
from gcl_hard.__main__ import main as gcl_hard_main
from gcl_hard.experiments import exporting
from gcl_hard.graphs import GIN, GraphSet, encoded, load_graphs
from gcl_hard.images import ViewRecipe, Views, fast_net
from gcl_hard.links import DistMult
from gcl_hard.molecules import Molecules, from_smiles
from gcl_hard.molecules.data import ATOMS, BONDS
from gcl_hard.nodes import GCN
from gcl_hard.pretrain import main as pretrain
from tests.said import says

onnxruntime = pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
safetensors = pytest.importorskip("safetensors.torch")
pytestmark = pytest.mark.exact  # a traced program would have the changes of its tracing
ROOT = Path(__file__).parents[2]
MUTAG = ["--dataset=MUTAG", "--method=ucl", "--epochs=1", "--seeds=1", "--layers=2", "--dim=4",
         "--threads=1", "--save-encoder", "--output=runs"]  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GCL_HARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def export(*arguments: object) -> int:
    return gcl_hard_main(["export", *map(str, arguments)])


def trained(*flags: str) -> Path:
    assert bench.main([*MUTAG, *flags]) == 0
    (encoder,) = Path("runs").glob("*.pt")
    return encoder


def onnx_program(path: str | Path) -> Callable[..., dict[str, Any]]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(**inputs: Tensor) -> dict[str, Any]:
        arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
        return dict(zip(names, session.run(None, arrays), strict=True))

    return run


def torch_program(path: str | Path) -> Callable[..., tuple[Tensor, ...]]:
    program: Callable[..., tuple[Tensor, ...]] = torch.export.load(path).module()
    return program


def inputs_of(graphs: Any) -> dict[str, Tensor]:
    """The inputs of a program, of a set of graphs or molecules."""
    batch = graphs.all()
    x, edges = batch.x, batch.edge_attr
    if not x.is_floating_point():
        x, edges = x.long(), edges.long()
    inputs = {"x": x, "edge_index": batch.edge_index, "ptr": graphs.node_ptr}
    return inputs | ({} if edges is None else {"edge_attr": edges})


def close(got: Any, expected: Any) -> None:
    expected = np.asarray(torch.as_tensor(expected))
    scale = float(np.abs(expected).max())
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5 * scale)


def check_graphs(path: str, encoder: nn.Module, sets: list[Any], *, edges: bool) -> None:
    """Hold a program on some sets of graphs against what the encoder embeds of them."""
    program = onnx_program(path) if path.endswith("onnx") else torch_program(path)
    for graphs in sets:
        inputs = inputs_of(graphs)
        if not edges:
            inputs.pop("edge_attr", None)
        outputs = program(**inputs)
        nodes, whole = (
            (outputs["nodes"], outputs["graphs"]) if isinstance(outputs, dict) else outputs
        )
        close(whole, gcl_hard.graphs.embed_graphs(encoder, graphs))
        close(nodes, gcl_hard.graphs.embed_graphs(encoder, graphs, nodes=True))


def random_graphs(n: int, width: int, edge_dim: int = 0) -> GraphSet:
    """Graphs of which the last, or only one, is a single node without edges."""
    drawn = np.random.default_rng(n)
    graphs = []
    for size in (*drawn.integers(1, 8, n - 1), 1):
        pairs = np.argwhere(np.triu(drawn.random((size, size)) < 0.5, 1)).T
        edge_index = torch.from_numpy(np.concatenate([pairs, pairs[::-1]], 1).copy())
        values = torch.from_numpy(drawn.random((pairs.shape[1], edge_dim), np.float32))
        graphs.append(
            Data(
                x=torch.from_numpy(drawn.standard_normal((size, width), np.float32)),
                edge_index=edge_index, edge_attr=torch.cat([values, values]) if edge_dim else None,
                y=0,
            )
        )  # fmt: skip
    return GraphSet.from_graphs(graphs)


SIZES = (1, 2, 17)

# Graphs


LABELLED = {"readout": "both", "virtual_node": True, "edge_dim": 3, "layers": 2}


@pytest.mark.parametrize(
    ("suffix", "options"),
    [
        ("onnx", {}),
        ("onnx", LABELLED),
        ("pt2", LABELLED),
        ("pt2", {"readout": "mean", "jk": "last", "virtual_node": True}),
    ],
)
def test_graphs_and_their_nodes_are_embedded_alike(suffix: str, options: dict[str, Any]) -> None:
    edge_dim = options.get("edge_dim", 0)
    encoder = GIN(5, 8, **options).eval()
    norm_randomly(encoder)
    done = gcl_hard.export(encoder, f"gin.{suffix}", like=random_graphs(2, 5, edge_dim))
    assert done.inputs == ("x", "edge_index", "ptr", "edge_attr")[: 4 if edge_dim else 3]
    assert done.checked
    sets = [random_graphs(n, 5, edge_dim) for n in SIZES]
    check_graphs(f"gin.{suffix}", encoder, sets, edges=bool(edge_dim))


def norm_randomly(encoder: nn.Module) -> None:
    """Give BatchNorm statistics, as training does."""
    for module in encoder.modules():
        if isinstance(module, nn.BatchNorm1d):
            nn.init.uniform_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 2)


def test_a_run_is_exported_with_encodings_edge_labels_and_a_virtual_node(
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = trained("--encodings=degree,cycles", "--edge-labels", "true", "--virtual-node", "true")
    assert export(file, "-o", "gin.onnx") == 0
    assert says(capsys.readouterr().out, "gin.onnx", "x, edge_index, ptr, edge_attr")
    mutag = encoded(load_graphs("MUTAG"), ["degree", "cycles"])
    sets = [mutag[[3]], mutag[5:7], mutag[20:37]]
    check_graphs("gin.onnx", gcl_hard.load_encoder(file), sets, edges=True)

    facts = {prop.key: prop.value for prop in onnx.load("gin.onnx").metadata_props}
    assert facts["gcl_hard"] == gcl_hard.__version__
    assert facts["domain"] == "graphs"
    assert facts["model"] == gcl_hard.embed(file, "MUTAG").model
    assert tuple(json.loads(facts["columns"])) == mutag.columns
    assert tuple(json.loads(facts["edge_columns"])) == mutag.edge_columns


@pytest.mark.parametrize("suffix", ["onnx", "pt2"])
def test_molecules_are_embedded_alike(suffix: str) -> None:
    pytest.importorskip("rdkit")
    Path("mine.csv").write_text("smiles\n" + "\n".join("C" * n + "O" for n in range(1, 9)))
    flags = ["--dataset=mine.csv", "--epochs=1", "--layers=2", "--dim=4", "--output=e.pt"]
    assert pretrain(flags) == 0
    assert export("e.pt", "-o", f"mol.{suffix}") == 0
    several = ["c1ccccc1Br", "C", "[Na+].[Cl-]", "N#CC(F)=O", *("C" * n for n in range(1, 14))]
    sets: list[Molecules] = [from_smiles(smiles) for smiles in (["C"], several[:2], several)]
    assert len(sets[-1]) == 17
    encoder = gcl_hard.load_pretrained("e.pt").encoder
    check_graphs(f"mol.{suffix}", encoder, sets, edges=True)
    if suffix == "onnx":
        program = onnx.load("mol.onnx")
        facts = {prop.key: prop.value for prop in program.metadata_props}
        assert facts["domain"] == "molecules"
        assert json.loads(facts["atoms"]) == ATOMS
        assert json.loads(facts["bonds"]) == BONDS
        named = {
            value.name: [
                axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim
            ]
            for value in (*program.graph.input, *program.graph.output)
        }
        assert named == {
            "x": ["nodes", 6], "edge_index": [2, "edges"], "ptr": ["graphs_plus_1"],
            "edge_attr": ["edges", 4], "nodes": ["nodes", 8], "graphs": ["graphs", 8],
        }  # fmt: skip


class Own(nn.Module):
    """As users write it: the number of graphs is read from ``batch``."""

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.out_dim = 6
        self.conv = GINConv(nn.Linear(n_features, 6))

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        nodes = self.conv(x, edge_index).relu()
        return nodes, global_add_pool(nodes, batch)


class Branching(Own):
    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        if x.mean() > 0:
            x = -x
        return super().forward(x, edge_index, batch)


@pytest.mark.parametrize("suffix", ["onnx", "pt2"])
def test_own_encoders_are_embedded_alike_by_files_that_name_no_folder(suffix: str) -> None:
    encoder = Own(5)
    gcl_hard.export(encoder, f"own.{suffix}", like=random_graphs(2, 5, 3))
    sets = [random_graphs(n, 5) for n in SIZES]
    check_graphs(f"own.{suffix}", encoder, sets, edges=False)
    content = Path(f"own.{suffix}").read_bytes()  # neither is compressed
    for folder in (ROOT, Path(torch.__file__).parent):
        assert str(folder).encode() not in content


OWN = """
import torch
from torch_geometric.nn import GINEConv, global_mean_pool

class Encoder(torch.nn.Module):
    out_dim = 4
    def __init__(self, n_features):
        super().__init__()
        self.conv = GINEConv(torch.nn.Linear(n_features, 4), edge_dim=4)
    def forward(self, x, edge_index, batch, edge_attr, n_graphs=None):
        nodes = self.conv(x, edge_index, edge_attr)
        return nodes, global_mean_pool(nodes, batch, n_graphs)
"""


def test_a_file_of_an_own_encoder_is_exported_with_its_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("own_exported.py").write_text(OWN)
    monkeypatch.syspath_prepend(".")
    flags = [flag for flag in MUTAG if not flag.startswith(("--layers", "--dim"))]
    assert bench.main([*flags, "--encoder=own_exported:Encoder"]) == 0
    (file,) = Path("runs").glob("*.pt")
    assert export(file, "-o", "own.pt2") == 2
    assert says(capsys.readouterr().err, "own_exported:Encoder")
    assert export(file, "--encoder", "own_exported:Encoder", "-o", "own.pt2") == 0
    encoder = gcl_hard.load_encoder(file, trust=True)
    mutag = load_graphs("MUTAG")
    check_graphs("own.pt2", encoder, [mutag[:1], mutag[4:21]], edges=True)


@pytest.mark.slow
def test_a_program_of_pytorch_needs_nothing_else() -> None:
    gcl_hard.export(GIN(5, 4, layers=1), "gin.pt2", like=random_graphs(2, 5))
    code = (
        "import sys, torch; run = torch.export.load('gin.pt2').module(); "
        "found = run(x=torch.ones(2, 5), edge_index=torch.tensor([[0, 1], [1, 0]]), "
        "ptr=torch.tensor([0, 2])); assert found[1].shape == (1, 4); "
        "assert not {'gcl_hard', 'torch_geometric'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


class OwnNodes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = GINConv(nn.Linear(3, 4))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z: Tensor = self.conv(x, edge_index)
        return z


def node_set(n: int) -> Any:
    drawn = np.random.default_rng(n)
    pairs = torch.from_numpy(drawn.integers(0, n, (2, 2 * n)))
    x = torch.from_numpy(drawn.random((n, 3), np.float32))
    data = Data(x=x, edge_index=torch.cat([pairs, pairs.flip(0)], 1), y=torch.arange(n) % 2)
    return gcl_hard.nodes.NodeSet.from_graph(data)


def test_own_encoders_of_nodes_are_embedded_alike() -> None:
    encoder = OwnNodes()
    gcl_hard.export(encoder, "nodes.pt2", like=node_set(4))
    for nodes in (node_set(4), node_set(30)):
        z = torch_program("nodes.pt2")(x=nodes.x, edge_index=nodes.edge_index)
        close(z, encoder(nodes.x, nodes.edge_index).detach())


def test_columns_of_nodes_are_in_the_file_and_a_graph_shows_what_is_embedded() -> None:
    nodes, kept = node_set(6), {exporting.FACTS: ""}
    gcl_hard.export(OwnNodes(), "nodes.pt2", like=replace(nodes, columns=("a", "b", "c")))
    torch.export.load("nodes.pt2", extra_files=kept)
    assert json.loads(kept[exporting.FACTS])["columns"] == ["a", "b", "c"]
    gcl_hard.export(OwnNodes(), "graph.pt2", like=Data(nodes.x, nodes.edge_index))
    torch.export.load("graph.pt2", extra_files=kept)
    assert "columns" not in json.loads(kept[exporting.FACTS])


# Images


def pixels(n: int, side: int) -> Tensor:
    drawn = np.random.default_rng(n)
    return torch.from_numpy(drawn.integers(0, 256, (n, 3, side, side), np.uint8))


def photos(side: int) -> None:
    Path("photos").mkdir()
    for k, image in enumerate(pixels(6, side)):
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(f"photos/{k}.png")


@pytest.mark.parametrize("size", [12, 16])
def test_images_are_embedded_alike_at_the_size_of_training_and_at_another(size: int) -> None:
    photos(12)
    flags = ["--dataset=photos/", "--encoder=fast", "--width=4", "--epochs=1", "--batch-size=4"]
    assert pretrain([*flags, f"--size={size}", "--output=e.pt"]) == 0
    assert export("e.pt", "-o", "e.onnx") == 0
    assert export("e.pt", "-o", "e.pt2") == 0
    for n in SIZES:
        images = pixels(n, 12)
        expected = gcl_hard.embed("e.pt", images).values
        close(onnx_program("e.onnx")(images=images)["embeddings"], expected)
        close(torch_program("e.pt2")(images=images), expected)
    saved = torch.load("e.pt", weights_only=True)
    facts = {prop.key: prop.value for prop in onnx.load("e.onnx").metadata_props}
    assert json.loads(facts["side"]) == 12
    assert json.loads(facts["size"]) == size
    assert json.loads(facts["mean"]) == saved["mean"]
    assert json.loads(facts["std"]) == saved["std"]
    kept = {exporting.FACTS: ""}
    torch.export.load("e.pt2", extra_files=kept)
    assert json.loads(kept[exporting.FACTS])["mean"] == saved["mean"]


def test_an_encoder_by_itself_is_exported_with_its_views() -> None:
    views = Views(ViewRecipe(), size=8, mean=(0.1, 0.5, 0.9), std=(0.3, 0.2, 0.1))
    encoder = fast_net(4).eval()
    gcl_hard.export(encoder, "e.pt2", like=views)
    images = pixels(3, 8)
    close(torch_program("e.pt2")(images=images), encoder(views.plain(images)).detach())


# What is refused


@pytest.mark.parametrize(
    ("encoder", "like", "words"),
    [
        (Branching(5), random_graphs(2, 5), ["Branching", "x.mean() > 0"]),
        (GCN(3, dim=4), node_set(4), ["GCN", "sparse"]),
        (DistMult(5, 2, dim=4), None, ["DistMult", "links"]),
        (GIN(5), None, ["like"]),
    ],
)
def test_what_cannot_be_exported_says_why(encoder: nn.Module, like: Any, words: list[str]) -> None:
    with pytest.raises(InputError) as error:
        gcl_hard.export(encoder, "e.pt2", like=like)
    assert says(str(error.value), *words)
    assert not [*Path().iterdir()]


def test_an_operation_that_onnx_lacks_is_named() -> None:
    class Eigen(Own):
        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
            nodes = x @ torch.linalg.eigh(x.T @ x)[1]
            return nodes, global_add_pool(nodes, batch)

    with pytest.raises(InputError) as error:
        gcl_hard.export(Eigen(5), "e.onnx", like=random_graphs(2, 5))
    assert says(str(error.value), "Eigen", "aten._linalg_eigh")


def test_a_program_that_differs_from_its_encoder_is_not_written() -> None:
    class Other(Own):
        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
            return super().forward(
                x * (2 if torch.compiler.is_exporting() else 1), edge_index, batch
            )

    with pytest.raises(InputError) as error:
        gcl_hard.export(Other(5), "e.pt2", like=random_graphs(2, 5))
    assert says(str(error.value), "Other", "nodes", "wrongly")
    assert not [*Path().iterdir()]


def test_a_file_that_is_there_is_replaced_only_if_that_is_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = trained()
    Path("e.pt2").write_bytes(b"mine")
    assert export(file, "-o", "e.pt2") == 2
    assert says(capsys.readouterr().err, "e.pt2", "--force")
    assert Path("e.pt2").read_bytes() == b"mine"
    assert export(file, "-o", "e.pt2", "--force") == 0
    assert export(file, "-o", "e.onx") == 2
    assert says(capsys.readouterr().err, ".onnx", ".pt2", ".safetensors")


def test_without_onnx_runtime_a_program_is_written_and_said_to_be_unchecked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find_spec = exporting.find_spec
    monkeypatch.setattr(
        exporting, "find_spec", lambda name: None if name == "onnxruntime" else find_spec(name)
    )
    assert export(trained(), "-o", "e.onnx") == 0
    assert says(capsys.readouterr().out, "ONNX Runtime")


# Weights


def same_weights(module: nn.Module, other: nn.Module) -> bool:
    ours, theirs = module.state_dict(), other.state_dict()
    return ours.keys() == theirs.keys() and all(ours[name].equal(theirs[name]) for name in ours)


def test_weights_come_back_bit_for_bit_with_the_settings_of_their_encoder() -> None:
    file = trained("--virtual-node", "true", "--protocol=inductive", "--folds=2")
    assert export(file, "--fold=1", "-o", "e.safetensors") == 0
    again = gcl_hard.load_encoder("e.safetensors")
    assert same_weights(again, gcl_hard.load_encoder(file, fold=1))
    embeddings = gcl_hard.embed("e.safetensors", "MUTAG")
    np.testing.assert_array_equal(embeddings.values, gcl_hard.embed(file, "MUTAG", fold=1).values)
    assert export("e.safetensors", "-o", "e.pt2") == 0
    with safetensors.safe_open("e.safetensors", "pt") as stored:
        facts = stored.metadata()
    assert facts["model"] == gcl_hard.embed(file, "MUTAG", fold=1).model
    assert json.loads(facts["settings"])["columns"] == [*load_graphs("MUTAG").columns]


def test_weights_of_molecules_and_of_images_come_back() -> None:
    pytest.importorskip("rdkit")
    Path("mine.csv").write_text("smiles\nCO\nCCO\nCCCO\nCCCCO\n")
    flags = ["--dataset=mine.csv", "--epochs=1", "--layers=1", "--dim=4", "--output=e.pt"]
    assert pretrain(flags) == 0
    assert export("e.pt", "-o", "e.safetensors") == 0
    encoders = [gcl_hard.load_pretrained(f"e.{suffix}") for suffix in ("pt", "safetensors")]
    assert same_weights(*(loaded.encoder for loaded in encoders))
    assert json.loads(json.dumps(encoders[0].about)) == encoders[1].about
    flags = ["--dataset=MUTAG", "--method=untrained", "--seeds=1", "--probe=logistic"]
    assert bench.main([*flags, "--encoder=e.safetensors", "--output=scores"]) == 0

    photos(8)
    flags = ["--dataset=photos/", "--encoder=fast", "--width=4", "--epochs=1", "--batch-size=4"]
    assert pretrain([*flags, "--output=i.pt"]) == 0
    assert export("i.pt", "-o", "i.safetensors") == 0
    z = [gcl_hard.embed(f"i.{suffix}", pixels(3, 8)).values for suffix in ("pt", "safetensors")]
    np.testing.assert_array_equal(*z)


def test_reading_weights_imports_nothing_that_they_name(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("evil_module.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(".")
    file = trained()
    assert export(file, "-o", "e.safetensors") == 0
    with safetensors.safe_open("e.safetensors", "pt") as stored:
        settings = json.loads(stored.metadata()["settings"])
    config = {"encoder": "evil_module:Encoder@0123abcd", "method": "ucl", "dataset": "MUTAG"}
    settings["config"] = config
    weights = safetensors.load_file("e.safetensors")
    safetensors.save_file(weights, "bad.safetensors", {"settings": json.dumps(settings)})
    with pytest.raises(InputError) as error:
        gcl_hard.load_encoder("bad.safetensors")
    assert says(str(error.value), "evil_module:Encoder")
    assert "evil_module" not in sys.modules
