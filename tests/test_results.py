"""The numbers of the committed results pages are those of the committed records."""

from __future__ import annotations

import csv
import re
import shlex
from collections import Counter
from pathlib import Path

import pytest

from gcl_hard.bench import main
from gcl_hard.methods import METHODS
from gcl_hard.transfer import main as transfer

ROOT = Path(__file__).parents[1]
CONFIGS = "benchmarks/results/tables"
_METHODS = ",".join([*METHODS, "majority", "untrained", "wl-oa"])
PAGES = {
    "results": "--table recipe",
    "results-table-2": "--table 2",
    "results-table-2-batch-max": "--table 2 --beta 1,2,10 --hardness-scale batch-max",
    "results-methods": (
        f"--dataset MUTAG,PTC,ENZYMES --contrast two-view --method {_METHODS} --seeds 3"
    ),
    "results-methods-inductive": (
        f"--dataset MUTAG,PTC,ENZYMES --contrast two-view --method {_METHODS} --protocol inductive "
        "--seeds 3"
    ),
    "results-cifar10-methods": (
        "--dataset CIFAR10 --encoder fast --subset 5000 --batch-size 128 --epochs 10 "
        f"--precision bf16 --method {','.join(METHODS)},untrained,supervised,pixels,majority "
        "--seeds 3"
    ),
    "results-cifar100-conditions": (
        "--dataset CIFAR100 --method ucl,hucl,scl,hscl --encoder fast --precision bf16 "
        "--classes 10,100 --subset 2000 --label-noise 0,0.4 --batch-size 64,512 --epochs 10 "
        "--seeds 3"
    ),
    "results-images-small": "--table 1 --small",
    "results-cifar100-longer": (
        "--dataset CIFAR100 --method scl,hscl,majority,pixels,untrained --encoder fast "
        "--precision bf16 --subset 20000 --epochs 15,30 --temperature 0.5 --beta 1 --seeds 3 "
        "--monitor-every 3 --diagnostics 5"
    ),
    "results-digits": "--config configs/images/digits.yaml",
}
"""Pages, and the options of the command that makes each."""
FEWEST = {"results-cifar100-longer": 60}
"""Numbers that a page of few rows exceeds; others exceed 100."""


def numbers(page: str) -> Counter[tuple[str, ...]]:
    """The numbers in every line of every table."""
    lines = [line for line in page.splitlines() if line.startswith("|")]
    return Counter(tuple(re.findall(r"[+-]?\d*\.?\d+", line)) for line in lines)


@pytest.mark.parametrize("name", PAGES)
def test_the_records_give_the_numbers_of_the_page(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (CONFIGS, "configs"):
        (tmp_path / folder).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    target = ["--output", CONFIGS, "--report", f"docs/{name}.md", "--json", "results.json"]
    assert main([*PAGES[name].split(), *target, "--report-only"]) == 0
    made, committed = (
        (folder / f"docs/{name}.md").read_text(encoding="utf-8") for folder in (tmp_path, ROOT)
    )
    assert numbers(made) == numbers(committed)
    assert sum(n * len(line) for line, n in numbers(made).items()) > FEWEST.get(name, 100)
    commands = [page.split("```bash\n")[1].split("\n```")[0] for page in (made, committed)]
    assert commands[0] == commands[1]
    made_csv, committed_csv = (
        list(csv.DictReader((folder / f"docs/{name}.csv").read_text("utf-8").splitlines()))
        for folder in (tmp_path, ROOT)
    )
    assert made_csv == committed_csv


MOSES = "benchmarks/results/encoders/moses100k-{seed}.pt"
FEW = f"untrained,{MOSES},ecfp,untrained+ecfp,{MOSES}+ecfp"
OF_MOLECULES = {
    "results-moleculenet": (
        "--dataset BACE,BBBP,ClinTox,SIDER,ESOL,FreeSolv,Lipo --split scaffold "
        f"--embeddings {FEW.replace(',untrained+', ',wl,counts,untrained+')},untrained+counts,"
        f"{MOSES}+counts"
    ),
    "results-moleculenet-nine": (f"--table transfer --embeddings untrained,{MOSES},ecfp,counts"),
    "results-moleculenet-random": (
        "--dataset BACE,BBBP,ClinTox,SIDER,ESOL,FreeSolv,Lipo "
        f"--split random-0,random-1,random-2 --embeddings untrained,{MOSES},ecfp,wl,counts"
    ),
    "results-cliffs": (
        f"--table cliffs --embeddings {FEW.replace(',untrained+', ',wl,counts,untrained+')}"
    ),
    "results-cliffs-supervised": (
        "--table cliffs --embeddings untrained,ecfp --finetune none,supervised"
    ),
    "results-finetuning-all": (
        f"--table cliffs --embeddings {MOSES},{MOSES}+ecfp,ecfp --finetune none,scl,hscl"
    ),
    "results-finetuning-moleculenet": (
        "--dataset BACE,BBBP,ClinTox,SIDER,ESOL,FreeSolv,Lipo --split scaffold "
        f"--embeddings untrained,{MOSES},ecfp --finetune none,scl,hscl,supervised "
        "--against 'untrained, supervised'"
    ),
    "results-finetuning": (
        "--dataset CHEMBL1862_Ki,CHEMBL1871_Ki,CHEMBL2047_EC50,CHEMBL2835_Ki "
        f"--embeddings {MOSES},ecfp --finetune none,scl,hscl --beta 0.5,2 --similarity 0,4"
    ),
    "results-finetuning-fewer": (
        "--dataset CHEMBL1862_Ki,CHEMBL1871_Ki,CHEMBL2047_EC50,CHEMBL2835_Ki "
        f"--embeddings {MOSES},ecfp --finetune none,scl,hscl --train-share 0.25,0.5,1"
    ),
    "results-fewer-molecules": (
        "--dataset BACE,BBBP,ClinTox,SIDER,ESOL,FreeSolv,Lipo --split scaffold "
        f"--embeddings untrained,{MOSES},ecfp --train-share 0.05,0.2,1"
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        "results-moleculenet",
        *(
            pytest.param(one, marks=pytest.mark.slow)
            for one in OF_MOLECULES
            if one != "results-moleculenet"
        ),
    ],
)
def test_the_records_give_the_pages_of_molecules(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    page = tmp_path / f"{name}.md"
    target = ["--output", "benchmarks/results/transfer", "--report", str(page), "--report-only"]
    assert transfer([*shlex.split(OF_MOLECULES[name]), *target]) == 0
    committed = (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")
    assert numbers(page.read_text(encoding="utf-8")) == numbers(committed)
    assert " are open" not in committed


def test_no_run_of_the_recipe_table_is_open() -> None:
    assert " open" not in (ROOT / "docs/results.md").read_text(encoding="utf-8")
