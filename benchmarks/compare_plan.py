"""The commands that ``compare_commits.py`` runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Command:
    """A command line that runs once in each tree.

    Attributes:
        name: name of the command and of the folder that it runs in.
        entry: a name of :data:`PARSERS`, or ``python`` for a script.
        arguments: as typed; ``{tree}`` is the checkout, ``{scripts}`` the folder of our scripts,
            ``{shared}`` that of data and scripts beside the project, and ``../NAME`` the folder of
            another command.
        ensemble: whether several models train as one ensemble, so that numbers agree to a
            tolerance and not to the bit.
        after: commands whose results this one reads.
    """

    name: str
    entry: str
    arguments: str
    ensemble: bool = False
    after: tuple[str, ...] = ()


PARSERS = {
    "bench": "gcl_hard.commands.bench:parse_bench",
    "tune": "gcl_hard.commands.tune:parse_tune",
    "figures": "gcl_hard.commands.figures:parse_figures",
    "pretrain": "gcl_hard.commands.pretrain:parse_pretrain",
}
"""Parsers of the entry points' command lines."""

HERE = "--device cpu --threads 1"
RUN = f"{HERE} --output results --json result.json"
ALONE = f"{RUN} --ensemble-size 1"
SMALL = f"{ALONE} --dim 8"
IMAGES = f"{RUN} --dataset digits --encoder resnet18 --subset 100 --batch-size 50"
SEARCH = (
    f"{HERE} --output results --study-name search --dataset MUTAG --dim 8 --epochs 2 "
    "--ensemble-size 1"
)
COMMITTED = "--report-only --json result.json --report page.md"
STORE = "--output {tree}/benchmarks/results/tables"
METHODS = "ucl,hucl,scl,hscl,dcl,hcl,hscl-tau"
PRETRAINED = (
    f"{HERE} --output encoder.pt --subset 300 --epochs 2 --layers 2 --dim 8 --batch-size 64"
)


def _commands() -> Iterator[Command]:
    def bench(name: str, arguments: str, **other: Any) -> Command:
        return Command(name, "bench", arguments, **other)

    def figure(name: str, figure: str, command: str, flags: str = "") -> Command:
        arguments = f"{figure} ../{command}/results -o . --name figure {flags}"
        return Command(name, "figures", arguments, after=(command,))

    yield bench("methods-transductive", f"{SMALL} --method {METHODS} --epochs 3 --seeds 2 --beta 2")
    yield bench(
        "methods-inductive",
        f"{SMALL} --method {METHODS} --protocol inductive --folds 3 --epochs 3 --seeds 2 "
        "--report page.md",
    )
    yield bench(
        "two-view",
        f"{SMALL} --method {METHODS} --protocol transductive,inductive --contrast two-view "
        "--folds 3 --epochs 2 --seeds 1",
    )
    yield bench(
        "two-view-views",
        f"{SMALL} --method ucl,hscl --contrast two-view --augmentations "
        "drop-nodes,random-walk,mask-attributes,perturb-edges --strength 0.3 "
        "--objective jsd --folds 3 --epochs 2 --seeds 1 --dataset PTC",
    )
    yield bench(
        "baselines",
        f"{SMALL} --method ucl,majority,graph-size,label-histogram,wl,wl-oa,untrained "
        "--protocol transductive,inductive --folds 3 --epochs 3 --seeds 1 --report page.md",
    )
    yield bench(
        "supervised",
        f"{SMALL} --method supervised --folds 3 --epochs 3 --seeds 2",
        ensemble=True,  # one fold's loss moved by 2e-7 as two kinds of ensemble became one
    )
    yield bench(
        "encoder-options",
        f"{SMALL} --dataset PTC --method hscl,untrained --edge-labels true --virtual-node true "
        "--encodings degree,random-walk,cycles,wl --readout both --jk last --kernel rbf+wl "
        "--protocol inductive --folds 3 --epochs 2 --seeds 1",
    )
    # The models above and here never train as an ensemble; elsewhere one alone is one of one.
    yield bench(
        "plain",
        f"{SMALL} --method ucl,dcl,hscl,hscl-tau --jk last --protocol transductive,inductive "
        "--folds 3 --epochs 3 --seeds 1",
    )
    yield bench(
        "optimiser-options",
        f"{SMALL} --method hcl,hscl --beta-changes 2 --lr-schedule cosine --weight-decay 0.01 "
        "--data-seed 1 --detach-weights true --kernel linear --standardise false --batch-size 32 "
        "--folds 3 --epochs 4 --seeds 1",
    )
    yield bench(
        "attributes",
        f"{SMALL} --dataset ENZYMES --method hscl --features attributes --folds 3 --epochs 1 "
        "--seeds 1 --c-grid 0.1,1,10",
    )
    yield bench(
        "degrees",
        f"{SMALL} --dataset IMDB-B --method ucl --folds 3 --epochs 1 --seeds 1 --c-grid 1,10",
    )
    yield bench(
        "train-share",
        f"{SMALL} --method ucl,label-histogram --protocol inductive --train-share 0.3 --folds 3 "
        "--epochs 2 --seeds 2 --report page.md",
    )
    yield bench(
        "select",
        f"{SMALL} --method ucl,hscl --beta 1,2,10 --select true --protocol inductive --folds 3 "
        "--epochs 2 --seeds 1 --report page.md",
    )
    yield bench(
        "config-file",
        f"{ALONE} --config {{tree}}/configs/graphs/ptc_mr.yaml --epochs 1 --seeds 1 --beta 1 "
        "--protocol transductive --c-grid 1",
    )
    yield bench(
        "recipe-best",
        f"{ALONE} --recipe best --dataset PTC --method hscl --epochs 1 --folds 3 --seeds 1",
    )
    yield bench(
        "table-2",
        f"{SMALL} --table 2 --quick --jobs 1 --dataset MUTAG --folds 3 --epochs 2 --seeds 2 "
        "--beta 1,2 --method ucl,hscl,scl,majority --report page.md",
    )
    yield bench("diagnostics", f"{SMALL} --method hucl,hscl --epochs 2 --seeds 2 --diagnostics 1")
    yield bench(
        "diagnostics-two-view",
        f"{SMALL} --method ucl,hscl --contrast two-view --epochs 2 --seeds 1 --diagnostics 1",
    )
    yield bench(
        "epochs",
        f"{SMALL} --method ucl,hscl --protocol inductive --folds 3 --epochs 1,2,3 --seeds 2",
    )
    yield bench(
        "betas",
        f"{SMALL} --method dcl,hucl,hcl,hscl --beta 1,2 --protocol inductive --folds 3 "
        "--epochs 2 --seeds 1",
    )
    yield figure("fig1", "fig1", "epochs")
    yield figure("fig4", "fig4", "diagnostics")
    yield figure("fig5", "fig5", "diagnostics", "--only method=hscl")
    yield figure("histograms", "histograms", "diagnostics")
    yield figure("geometry", "geometry", "diagnostics")
    yield figure("beta", "beta", "betas")
    plain = "--method hscl,dcl --epochs 2 --dim 8 --c-grid 1"
    yield bench("ensemble", f"{RUN} --ensemble-size 8 {plain} --seeds 20", ensemble=True)
    yield bench("ensemble-of-one", f"{RUN} --ensemble-size 1 {plain} --seeds 4")
    yield bench(
        "ensemble-two-view",
        f"{RUN} --ensemble-size 8 --method ucl,hscl-tau --contrast two-view --protocol inductive "
        "--folds 3 --epochs 2 --dim 8 --seeds 8 --c-grid 1",
        ensemble=True,
    )
    yield bench(
        "images",
        f"{IMAGES} --method ucl,hscl,hcl,hscl-tau,dcl --epochs 1 --seeds 1 --probe-epochs 10 "
        "--diagnostics 1",
    )
    yield bench(
        "images-pairs",
        f"{IMAGES} --method scl,hscl --class-pairs true --balanced true --probe logistic "
        "--forward split --accumulate 2 --epochs 1 --seeds 1 --monitor-every 1",
    )
    yield bench(
        "images-select",
        f"{IMAGES} --method hscl,majority,pixels,untrained --beta 1,5 --select true --epochs 1 "
        "--seeds 1 --probe-epochs 5 --report page.md",
    )
    yield figure("images-fig4", "fig4", "images", "--only method=hscl")
    yield Command("search-random", "tune", f"{SEARCH} --method hscl --trials 6 --sampler random")
    yield Command(
        "search-tpe",
        "tune",
        f"{SEARCH} --method hscl-tau --trials 6 --outer-folds 2 --inner-folds 2 --report page.md",
    )
    yield Command(
        "search-pruned", "tune", f"{SEARCH} --method hscl --trials 6 --pruner median --epochs 4"
    )
    yield Command(
        "search-transductive", "tune", f"{SEARCH} --method hucl --trials 6 --protocol transductive"
    )
    yield Command(
        "search-images",
        "tune",
        f"{HERE} --output results --study-name search --dataset digits --method hscl --trials 2 "
        "--encoder resnet18 --subset 60 --epochs 1 --batch-size 30 --probe-epochs 5",
    )


def _committed() -> Iterator[Command]:
    """Tables and figures of the results in the repository."""
    yield Command("committed-table-2", "bench", f"--table 2 {STORE} {COMMITTED}")
    drawn = "--only dataset=MUTAG --only contrast="
    plain = f"{drawn}local-global --only protocol=transductive --only"
    inductive = "--only dataset=MUTAG --only protocol=inductive --only"
    for name, only in (
        ("fig1", f"{inductive} method=ucl,hucl,scl,hscl --only beta=1,none"),
        ("fig4", f"{plain} beta=1,none"),
        ("fig5", f"{plain} method=hscl --only beta=1"),
        ("histograms", f"{plain} method=hucl,ucl"),
        ("geometry", f"{plain} beta=1,none"),
        ("beta", f"{inductive} epochs=200"),
    ):
        drawing = f"{name} {{tree}}/benchmarks/results/figures -o . --name figure {only}"
        yield Command(f"committed-{name}", "figures", drawing)


def _molecules() -> Iterator[Command]:
    """Encoders of molecules, and their scores; the sets are too large to come with the project."""
    pretrain = f"{PRETRAINED} --data-dir {{shared}}/data/molecules --dataset"
    yield Command("pretrain", "pretrain", f"{pretrain} ESOL")
    yield Command(
        "pretrain-scaffolds",
        "pretrain",
        f"{pretrain} BBBP --method hscl --beta 2 --seed 1 --lr-schedule cosine --force",
    )
    encoder = "../pretrain/encoder.pt"
    score = "--threads 1 --data-dir {shared}/data/molecules --epochs 1 --report page.md"
    yield Command(
        "molecules",
        "bench",
        f"{score} --dataset BACE --encoder untrained:{encoder},{encoder} --seeds 2 "
        "--method untrained,scl,hscl,hscl-tau,spacl-sup,supervised --train-share 0.3",
        after=("pretrain",),
    )
    yield Command(
        "molecules-cliffs",
        "bench",
        f"{score} --dataset CHEMBL1862_Ki --encoder {encoder} --seeds 1 --beta 0.5,2 "
        "--method untrained,wl,counts,hscl,supervised --similarity 0,4 --neighbours 0,2",
        after=("pretrain",),
    )
    yield Command(
        "molecules-tasks",
        "bench",
        f"{score} --dataset ClinTox,FreeSolv --encoder {encoder} --method untrained,scl "
        "--joined ecfp --split random-0,scaffold-chirality --probe linear --seeds 1",
        after=("pretrain",),
    )
    yield Command(
        "pretrained-bench",
        "bench",
        f"{RUN} --ensemble-size 1 --dataset MUTAG --encoder {encoder} --method untrained,hscl "
        "--protocol inductive --folds 3 --epochs 1 --seeds 1",
        after=("pretrain",),
    )


def _scripts() -> Iterator[Command]:
    """The doors of Python, and the scripts that lie beside the project."""
    yield Command("evaluate", "python", "{scripts}/evaluate.py")
    yield Command("study", "python", "{scripts}/study.py")
    printed = "{scripts}/printed.py {shared}"
    yield Command("cases-graphs", "python", f"{printed}/cases/graphs")
    yield Command("cases-images", "python", f"{printed}/cases/images")
    parts = "steps losses images runs tune"
    yield Command("gpu", "python", f"{printed}/gpu/try.sh {parts}")


COMMANDS: dict[str, Command] = {
    command.name: command for command in (*_commands(), *_committed(), *_molecules(), *_scripts())
}
"""By name, in the order in which they are run."""


def chosen(names: Sequence[str]) -> list[Command]:
    """Some commands, and those whose results they read; all if none is named.

    Raises:
        KeyError: for a name that is none.
    """
    wanted = set(names or COMMANDS)
    while more := {need for name in wanted for need in COMMANDS[name].after} - wanted:
        wanted |= more
    return [command for name, command in COMMANDS.items() if name in wanted]
