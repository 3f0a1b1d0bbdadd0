"""The command on images: what it prints and leaves, and what it refuses before it trains."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from gcl_hard.experiments.run import Run
from gcl_hard.images import Views, image_encoder
from gcl_hard.images import training as image_training
from gcl_hard.images.settings import IMAGE_BASELINES, ImageConfig
from gcl_hard.losses.methods import METHODS
from gcl_hard.reports.frame import Results, published
from gcl_hard.reports.rows import rows
from tests.experiments import record, rewrite
from tests.experiments.tiny_images import Command
from tests.said import says

SIDE, PER_CLASS, CLASSES = 6, 20, 3


@pytest.fixture
def command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    return Command(tmp_path, capsys, monkeypatch)


def arrays(**changed: Any) -> dict[str, Any]:
    """A set of three classes that differ in brightness; None leaves an array out."""
    rng, data = np.random.default_rng(0), dict[str, Any]()
    for split in ("train", "test"):
        labels = np.arange(CLASSES * PER_CLASS) % CLASSES
        noise = rng.integers(0, 60, (len(labels), SIDE, SIDE, 3))
        data[f"{split}_images"] = (noise + 80 * labels[:, None, None, None]).astype(np.uint8)
        data[f"{split}_labels"] = labels
    return {name: value for name, value in {**data, **changed}.items() if value is not None}


def mirror(folder: Path, **changed: Any) -> str:
    """Puts the set, with some of its arrays replaced, into a folder; the flag that names it."""
    folder.mkdir(exist_ok=True)
    np.savez(folder / "shades.npz", **arrays(**changed))
    return f"--data-dir={folder}"


OWN = ("--dataset=shades", "--subset=null", "--batch-size=20")


# What works


def test_digits_with_a_resnet_from_a_command_to_a_page(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_training, "image_encoder", image_encoder)
    page = command.folder / "page.md"
    asked = (
        "--encoder=resnet18",
        "--width=16",
        "--method=hscl,pixels,majority",
        f"--report={page}",
    )
    assert command(*asked, "--save-encoder") == 0
    assert command.err == ""
    rows = [line.split()[1] for line in command.out.splitlines() if line.startswith(" digits")]
    assert rows == ["hscl", "pixels", "majority"]
    for method in ("hscl", "pixels", "majority"):
        (path,) = command.files(f"digits_{method}_split_*_seed0.json")
        record = json.loads(path.read_text(encoding="utf-8"))
        (accuracy,) = record["scores"]["accuracy"]
        assert f"{accuracy:.1f}" in command.out
        assert record["data"]["n_train"] == 120
        assert [epoch for epoch, _ in record["curve"]] == ([1, 2] if method == "hscl" else [])
    assert len(command.files("*.pt")) == 1
    assert command.files("*.ckpt") == []
    text = page.read_text(encoding="utf-8")
    figures = [path.name for path in page.parent.glob("page*curve*.png")]
    assert figures
    assert all(f"({name})" in text for name in figures)
    before = [path.read_bytes() for path in command.files()]
    assert command(*asked) == 0  # nothing is run
    assert command.steps == 0
    assert [path.read_bytes() for path in command.files()] == before


def test_all_methods_and_baselines_stand_in_one_table(command: Command) -> None:
    methods = [*METHODS, *IMAGE_BASELINES]
    assert command(f"--method={','.join(methods)}") == 0
    content = json.loads(command.files("digits_*_??????.json")[0].read_text(encoding="utf-8"))
    assert [config["method"] for config in content["configs"]] == methods
    for method in methods:
        assert f"digits {method} " in " ".join(command.out.split())


def test_nearest_neighbours_stand_beside_the_probe(command: Command) -> None:
    page = command.folder / "page.md"
    asked = ("--method=ucl,majority", "--save-embeddings", f"--report={page}")
    assert command(*asked) == 0
    (path,) = command.files("digits_ucl_*_seed0.json")
    stored = json.loads(path.read_text("utf-8"))
    with np.load(path.with_suffix(".embeddings.npz")) as saved:
        bank, queries = (
            saved[part] / np.linalg.norm(saved[part], axis=1, keepdims=True)
            for part in ("train", "test")
        )
        classes = np.eye(10)[saved["train_labels"]]  # all 120 vote: they are fewer than 200
        votes = np.exp(queries @ bank.T / 0.5) @ classes
        right = 100 * np.mean(votes.argmax(axis=1) == saved["test_labels"])
    assert stored["knn"] == pytest.approx(right, abs=0.6)  # two of 360: near ties
    (majority,) = command.files("digits_majority_*_seed0.json")
    assert json.loads(majority.read_text("utf-8"))["knn"] is None
    shown = page.read_text("utf-8")
    assert "digits, kNN" in shown
    assert f"{stored['knn']:.1f}" in shown
    assert "knn" in page.with_suffix(".csv").read_text("utf-8").splitlines()[0].split(",")
    rewrite(path, knn=None)  # as in earlier results
    assert command(*asked) == 0
    assert command.steps == 0
    assert "kNN" not in page.read_text("utf-8")
    assert "knn" not in page.with_suffix(".csv").read_text("utf-8")


def test_settings_are_chosen_on_training_images(command: Command) -> None:
    assert command("--method=hscl", "--beta=0.1,5", "--select=true") == 0
    assert len(command.files("*_inner_seed0.json")) == 2
    rows = [line.split()[1:3] for line in command.out.splitlines() if line.startswith(" digits")]
    assert rows == [["hscl", "β=0.1"], ["hscl", "β=5"], ["hscl", "inside"], ["hscl", "best"]]


def test_a_set_is_named_by_its_path_too(command: Command) -> None:
    where, other = (mirror(command.folder / name).partition("=")[2] for name in ("mine", "another"))
    train = ("--method=pixels", "--subset=null", "--batch-size=20")
    assert command(*train, f"--dataset={where}/shades.npz") == 0
    assert command(*train, "--dataset=shades", f"--data-dir={where}", "--report-only") == 0
    assert " shades   pixels" in command.out
    for wrong in (
        [f"--dataset={where}/nothing"],
        [f"--dataset={where}/shades.npz,digits"],
        [f"--dataset={where}/shades.npz,{other}/shades.npz"],
        [f"--dataset={where}/shades.npz", f"--data-dir={where}"],
    ):
        assert command(*train, *wrong) == 2


def test_a_folder_of_the_working_directory_is_named_like_a_path(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mixed/a", "mixed/b", "digits/a", "notes", "MUTAG", "CIFAR10/a"):
        (command.folder / name).mkdir(parents=True)
    for k in range(10):
        for name in ("mixed/a", "mixed/b", "digits/a", "CIFAR10/a"):
            Image.new("RGB", (8, 8), (20 * k, 9, 9)).save(command.folder / name / f"{k}.png")
    monkeypatch.chdir(command.folder)
    train = ("--method=majority", "--subset=null", "--batch-size=4")
    for name in ("mixed", "./mixed"):
        assert command(*train, f"--dataset={name}") == 0
    assert len(command.files("mixed_majority_*_seed0.json")) == 1
    with pytest.warns(UserWarning, match=str(command.folder / "digits")):
        assert command(*train, "--dataset=digits") == 0  # scikit-learn's
    (stored,) = command.files("digits_majority_*_seed0.json")
    assert json.loads(stored.read_text("utf-8"))["data"]["n_test"] == 360
    for name in ("notes", "./notes", "./MUTAG"):
        err = command.refuses(f"--dataset={name}")
        assert says(err, name.removeprefix("./"), "images", "CLASS/")
    for name in ("./digits", "./CIFAR10"):
        err = command.refuses(f"--dataset={name}")
        assert says(err, name.removeprefix("./"), "known", "name")


def test_what_shorter_runs_choose_is_run_in_full(command: Command) -> None:
    page = command.folder / "page.md"
    asked = (
        "--method=ucl,hucl,majority", "--beta=0.5,5", "--temperature=0.1,1", "--select=true",
        "--select-epochs=1", "--select-subset=80", "--seeds=2", "--diagnostics=1",
        f"--report={page}",
    )  # fmt: skip
    assert command(*asked) == 0
    inner = [json.loads(p.read_text("utf-8")) for p in command.files("*_inner_seed*.json")]
    assert len(inner) == 6
    assert {(r["config"]["epochs"], r["config"]["subset"], r["seed"]) for r in inner} == {
        (1, 80, 0)
    }
    for method in ("ucl", "hucl"):
        of_method = [r for r in inner if r["config"]["method"] == method]
        best = max(r["scores"]["accuracy"][0] for r in of_method)
        settings = {
            (r["config"]["beta"], r["config"]["temperature"])
            for r in of_method
            if r["scores"]["accuracy"][0] == best
        }
        full = [
            json.loads(p.read_text("utf-8"))
            for p in command.files(f"digits_{method}_*_seed?.json")
            if "inner" not in p.name
        ]
        assert [(r["seed"], r["config"]["epochs"]) for r in full] == [(0, 2), (1, 2)]
        assert {(r["config"]["beta"], r["config"]["temperature"]) for r in full} <= settings
    assert command(*asked) == 0  # nothing is run
    assert command.steps == 0
    for wrong in (["--select=false"], ["--select-epochs=0"], ["--epochs=1,2"], ["--small"]):
        assert command(*asked, *wrong) == 2
        assert command.steps == 0


def test_a_table_is_shown_while_only_shorter_runs_are_finished(command: Command) -> None:
    page = command.folder / "page.md"
    asked = (
        "--method=hscl,scl,majority", "--beta=0.5,5", "--temperature=0.1,1", "--select=true",
        "--select-epochs=1", f"--report={page}",
    )  # fmt: skip
    assert command(*asked, "--report-only") == 0
    assert len(command.out.strip().splitlines()) == 3
    assert not page.exists()
    assert command.files() == []
    assert command(*asked) == 0
    for path in command.files("digits_*_seed0.json"):
        if "inner" not in path.name:
            path.unlink()
    page.unlink()
    assert command(*asked, "--report-only") == 0
    shown = page.read_text("utf-8")
    assert "open" in shown
    assert not re.search(r"\bdigits \(\d\D+\d\)", shown)
    command.files("digits_scl_*_inner_seed0.json")[0].unlink()
    assert command(*asked, "--report-only") == 0
    (line,) = [line.split() for line in command.out.splitlines() if " scl inside " in line]
    assert line[:5] == ["digits", "scl", "inside", "split", "open"]


def test_the_papers_figure_does_not_stand_beside_a_part_of_its_set() -> None:
    config, data = (
        ImageConfig(dataset="CIFAR10", method="ucl"),
        {"n_train": 50_000, "n_test": 10_000},
    )
    official = {"n_official": 50_000, "n_official_test": 10_000}
    for changed, figure in (({}, 89.16), ({"n_train": 23_000}, None), ({"n_test": 5_000}, None)):
        result = record(config, 0, [50.0], data={**official, **data, **changed})
        assert published(config, [result]) == figure
        (row,) = rows(Results([config], (0,), {Run(config, 0): result}))
        assert row.paper == figure


def test_unlabelled_images_are_pretrained_on(command: Command) -> None:
    where = mirror(command.folder / "mine", unlabeled_images=arrays()["train_images"][:40])
    for split in ("unlabeled", "train+unlabeled"):
        assert command(*OWN, where, "--method=ucl,hucl", f"--pretrain-split={split}") == 0


# What is refused before anything is trained


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["--batch-size=121"], ["batch-size", 121, 120]),
        (["--batch-size=1"], ["batch-size", 2, 1]),
        (["--precision=fp16"], ["precision", "fp16", "CUDA", "bf16"]),
        (["--device=cuda"], ["cuda", 0, "--device cpu"]),
        (["--device=gpu"], ["device", "auto", "cpu", "cuda:N", "'gpu'"]),
        (["--pretrain-split=unlabeled"], ["digits", "'unlabeled'", "train", "test"]),
        (["--probe-split=test"], ["probe-split", "test", "test"]),
        (["--subset=2000"], ["subset", 2000, 1437, "train"]),
        (["--subset=20"], [20]),
        (["--dataset=digitz"], ["'digitz'", "digits", "digits", "digits"]),
    ],
)
def test_what_cannot_be_run_is_one_message(
    arguments: list[str], facts: list[object], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert says(command.refuses(*arguments), *facts)


IMAGES, LABELS = arrays()["train_images"], arrays()["train_labels"]
UNLABELLED = {"unlabeled_images": IMAGES[:40]}
BAD_SETS: list[tuple[str, dict[str, Any], list[str], list[object]]] = [
    (
        "one class",
        {"train_labels": 0 * LABELS, "test_labels": 0 * LABELS},
        [],
        ["shades", "training", "class", "only", "probe"],
    ),
    (
        "one class, chosen inside",
        {"train_labels": 0 * LABELS, "test_labels": 0 * LABELS},
        ["--select=true", "--beta=1,2"],
        ["shades", "training", "class", "only", "probe"],
    ),
    (
        "a class of the test images alone",
        {"train_labels": np.minimum(LABELS, 1)},
        ["--method=ucl,majority"],
        ["shades", "class 2", "test", 60, "train", "probe"],
    ),
    (
        "a class of one image",
        {"train_labels": np.where(np.arange(60) == 59, 2, LABELS % 2)},
        [],
        ["class 2", 1, 2],
    ),
]
for method in ("scl", "hscl", "hscl-tau"):
    for split in ("unlabeled", "train+unlabeled"):
        flags = [f"--method={method}", f"--pretrain-split={split}"]
        facts: list[object] = ["shades", f"split {split}", method, "labels"]
        BAD_SETS.append((f"{method} on {split}", UNLABELLED, flags, facts))
for switch in ("--class-pairs=true", "--balanced=true", "--positives=class"):
    flags = ["--method=ucl", "--pretrain-split=unlabeled", switch]
    facts = ["shades", "split unlabeled", "labels"]
    BAD_SETS.append((f"ucl with {switch}", UNLABELLED, flags, facts))
facts = ["shades", "split unlabeled", "labels", "probe"]
BAD_SETS.append(("a probe without labels", UNLABELLED, ["--probe-split=unlabeled"], facts))


@pytest.mark.parametrize(
    ("changed", "arguments", "facts"),
    [bad[1:] for bad in BAD_SETS],
    ids=[bad[0] for bad in BAD_SETS],
)
def test_a_set_that_cannot_be_used_is_one_message(
    changed: dict[str, Any], arguments: list[str], facts: list[object], command: Command
) -> None:
    where = mirror(command.folder / "mine", **changed)
    assert says(command.refuses(*OWN, where, *arguments), *facts)


def test_one_class_to_pretrain_on_leaves_scl_no_negative(command: Command) -> None:
    where = mirror(command.folder / "mine", extra_images=IMAGES, extra_labels=0 * LABELS)
    assert command(*OWN, where, "--method=scl", "--pretrain-split=extra") == 2
    assert says(command.err, "shades", "scl", "negative")


@pytest.mark.parametrize(
    ("where", "facts"),
    [
        ((Views, "forward"), ["epoch 1", "batch 1"]),
        ((Views, "plain"), ["embedding", "80 images", "8 pixels"]),
    ],
)
def test_where_memory_ends_batch_and_size_are_named(
    where: tuple[type, str],
    facts: list[object],
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(*where, full)
    assert command("--method=hscl") == 2
    assert says(command.err, "memory", *facts)
    assert says(command.err, "size", "batch-size")


def test_what_classes_are_short_of_is_said(command: Command) -> None:
    names = np.array(["cat", "dog", "owl"])
    few = np.where(np.arange(60) < 4, 2, LABELS % 2)
    where = mirror(
        command.folder / "mine", train_labels=few, test_labels=LABELS % 2, class_names=names
    )
    assert command(*OWN, where, "--balanced=true") == 0
    assert says(command.out, "test", "shades", "owl")


def test_what_is_left_out_of_a_folder_is_in_the_result_and_on_the_page(command: Command) -> None:
    folder, rng = command.folder / "photos" / "pets", np.random.default_rng(0)
    for part, n in (("train", 8), ("test", 4), ("val", 3)):
        for label in ("cat", "dog"):
            (folder / part / label).mkdir(parents=True)
            for i in range(n):
                pixels = rng.integers(256, size=(8, 8, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / part / label / f"{i}.png")
    page = command.folder / "page.md"
    flags = ["--dataset=pets", f"--data-dir={folder.parent}", "--subset=null", "--batch-size=4"]
    for _ in range(2):  # the second time nothing is read
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert command(*flags, "--method=majority", "--seeds=1", f"--report={page}") == 0
        for text in (command.out, page.read_text("utf-8")):
            assert says(text, 6, "images", "pets/val")
    (result,) = command.files("*_seed0.json")
    data = json.loads(result.read_text("utf-8"))["data"]
    assert (data["classes"], data["n_train"], data["n_test"]) == (["cat", "dog"], 16, 8)
    (note,) = data["notes"]
    assert says(note, 6, "images", "pets/val")
    assert str(command.folder) not in result.read_text("utf-8")
