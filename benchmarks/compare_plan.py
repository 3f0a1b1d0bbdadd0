"""What ``compare_commits.py`` runs, in the words of this commit, and what older commits call it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Command:
    """A command line that is run once in each tree.

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


@dataclass(frozen=True)
class Rename:
    """One change of words between commits; every mapping leads from the new word to the old one.

    Attributes:
        since: a path, or ``path:text``, that only trees with the new words have.
        flags: ``--new`` to ``--old``; ``"tune --new"`` is for one entry point.
        values: by the name of a flag, JSON key or CSV column (the new one), its values.
        keys: JSON keys and CSV columns.
        options: dotted paths, from the top, of a parsed configuration whose keys are new; None for
            options that one of the two trees lacks or keeps in another form.
        paths: parts of file names, in arguments and of what is written.
        modules: names of modules, in the scripts that are run.
        ignored: new names of keys that only one of the two trees has.
        gone: words of command lines that only the older tree has a command for.
        texts: new to old text of scripts, which may be written in either.
        parsers: entry point to ``module:function`` that parses its command line.

    Example:
        >>> rename = Rename("x", flags={"--ensemble-size": "--members"},
        ...                 values={"protocol": {"transductive": "paper"}})
        >>> rename.arguments("bench", ["--ensemble-size", "1", "--protocol=transductive"])
        ['--members', '1', '--protocol=paper']
    """

    since: str
    flags: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str | None] = field(default_factory=dict)
    paths: Mapping[str, str] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    ignored: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    texts: Mapping[str, str] = field(default_factory=dict)
    parsers: Mapping[str, str] = field(default_factory=dict)

    def known_to(self, tree: Path) -> bool:
        """Whether a checkout has the new words already."""
        path, _, text = self.since.partition(":")
        file = tree / path
        return file.exists() and (not text or text in file.read_text(encoding="utf-8"))

    def reversed(self) -> Rename:
        """From the old words to the new ones."""
        scoped = [(new.rpartition(" "), old) for new, old in self.flags.items()]
        return Rename(
            self.since,
            flags={f"{scope} {old}".strip(): new for (scope, _, new), old in scoped},
            values={
                self.keys.get(name, self._flag_of(name)): {o: n for n, o in words.items()}
                for name, words in self.values.items()
            },
            paths={old: new for new, old in self.paths.items()},
        )

    def _flag_of(self, name: str) -> str:
        return self.flags.get(f"--{name}", f"--{name}").removeprefix("--")

    def arguments(self, entry: str, arguments: Sequence[str]) -> list[str]:
        """A command line in the old words."""
        found: list[str] = []
        name = ""
        for argument in arguments:
            head, equals, text = argument.partition("=")
            if argument.startswith("--"):
                name = head.removeprefix("--")
                head = self.flags.get(f"{entry} {head}", self.flags.get(head, head))
                found.append(head + equals + self._listed(name, text))
            else:
                found.append(self._listed(name, argument))
        return found

    def _listed(self, name: str, text: str) -> str:
        """The values of a flag, comma-separated, or ``KEY=VALUE,VALUE`` of ``--only``."""
        if name == "only" and text:
            key, _, rest = text.partition("=")
            return f"{self.keys.get(key, key)}={self._listed(key, rest)}"
        words = self.values.get(name, {})
        text = ",".join(words.get(part, part) for part in text.split(",")) if words else text
        for new, old in self.paths.items():
            text = text.replace(new, old)
        return text

    def read(self, content: Any) -> Any:
        """A document that was written in the old words, in the new ones."""
        keys = {old: new for new, old in self.keys.items()}
        values = {name: {o: n for n, o in words.items()} for name, words in self.values.items()}

        def new(content: Any, name: str = "") -> Any:
            if isinstance(content, dict):
                named = ((keys.get(key, key), value) for key, value in content.items())
                return {key: new(value, str(key)) for key, value in named}
            if isinstance(content, list):
                return [new(value, name) for value in content]
            return (
                values.get(name, {}).get(content, content) if isinstance(content, str) else content
            )

        return new(content)

    def file_name(self, name: str) -> str:
        """The name of a written file in the new words."""
        for new, old in self.paths.items():
            name = name.replace(old, new)
        return name


RENAMES: tuple[Rename, ...] = (
    Rename("gcl_hard/runs/choice.py", ignored=frozenset({"domain", "metric"})),
    Rename(
        "gcl_hard/runs/record.py",
        ignored=frozenset(
            {"domain", "metric", "test", "predicted", "threads", "digest", "migrated"}
        ),
        texts={"r['scores']['accuracy']": "r['fold_accuracies']"},
    ),
    Rename(
        "gcl_hard/commands/bench.py",
        options=dict.fromkeys(("search", "best", "datasets")),
        gone=frozenset({"--search", "--best", "recipe"}),
        parsers={
            "bench": "gcl_hard.cli:parse_bench",
            "tune": "gcl_hard.cli:parse_tune",
            "figures": "gcl_hard.figures:parse_figures",
            "pretrain": "gcl_hard.cli:parse_pretrain",
        },
    ),
)
"""Newest first. An entry is added by the commit that renames, and goes when no one compares with
what is older."""
PARSERS = {
    "bench": "gcl_hard.commands.bench:parse_bench",
    "tune": "gcl_hard.commands.tune:parse_tune",
    "figures": "gcl_hard.commands.figures:parse_figures",
    "pretrain": "gcl_hard.commands.pretrain:parse_pretrain",
}
"""What parses the command line of an entry point."""


@dataclass(frozen=True)
class Words:
    """The words of one tree: those of this commit, through every rename that it lacks."""

    renames: tuple[Rename, ...] = ()

    @classmethod
    def of(cls, tree: Path, renames: Sequence[Rename] = RENAMES) -> Words:
        """Of a checkout."""
        return cls(tuple(r for r in renames if not r.known_to(tree)))

    def arguments(self, entry: str, arguments: Sequence[str]) -> list[str]:
        """A command line of this commit, as the tree spells it."""
        found = list(arguments)
        for rename in self.renames:
            found = rename.arguments(entry, found)
        return found

    def script(self, text: str) -> str:
        """The text of a script of this commit, with the tree's names of modules."""
        for rename in self.renames:
            for new, old in rename.modules.items():
                text = re.sub(rf"\b{re.escape(new)}\b", old, text)
        for rename in RENAMES:
            for new, old in rename.texts.items():
                text = text.replace(*((new, old) if rename in self.renames else (old, new)))
        return text

    def modern(self, entry: str, arguments: Sequence[str]) -> list[str]:
        """A command line of the tree, as this commit spells it."""
        found = list(arguments)
        for rename in reversed(self.renames):
            found = rename.reversed().arguments(entry, found)
        return found

    def read(self, content: Any) -> Any:
        """A document of the tree, in the words of this commit."""
        for rename in reversed(self.renames):
            content = rename.read(content)
        return content

    def path(self, dotted: str) -> str:
        """A dotted path of the tree's parsed configuration."""
        for rename in reversed(self.renames):
            for new, old in rename.options.items():
                if old is not None and f"{dotted}.".startswith(f"{old}."):
                    dotted = new + dotted.removeprefix(old)
                    break
        return dotted

    @property
    def incomparable(self) -> frozenset[str]:
        """Options that one of the trees lacks, or keeps in another form."""
        return frozenset(
            name for rename in self.renames for name, old in rename.options.items() if old is None
        )

    def file_name(self, name: str) -> str:
        """The name of a file that the tree wrote, as this commit calls it."""
        for rename in reversed(self.renames):
            name = rename.file_name(name)
        return name

    @property
    def ignored(self) -> frozenset[str]:
        """Keys that only this commit has, or only the tree."""
        return frozenset().union(*(rename.ignored for rename in self.renames))

    @property
    def gone(self) -> frozenset[str]:
        """Words of command lines that only the tree has a command for."""
        return frozenset().union(*(rename.gone for rename in self.renames))

    @property
    def parsers(self) -> dict[str, str]:
        """What parses the tree's command lines."""
        found = dict(PARSERS)
        for rename in self.renames:
            found |= rename.parsers
        return found


HERE = "--device cpu --threads 1"
RUN = f"{HERE} --output results --json result.json"
ALONE = f"{RUN} --ensemble-size 1"
SMALL = f"{ALONE} --dim 8"
IMAGES = f"{RUN} --dataset digits --encoder resnet18 --subset 100 --batch-size 50"
SEARCH = f"{HERE} --output results --study-name search --dataset MUTAG --dim 8 --epochs 2 --batch 1"
COMMITTED = "--report-only --json result.json --report page.md"
STORE = "--output {tree}/benchmarks/results/tables"
METHODS = "ucl,hucl,scl,hscl,dcl,hcl,hscl-tau"
PRETRAINED = f"{HERE} --output encoder.pt --n 300 --epochs 2 --layers 2 --dim 8 --batch-size 64"


def _commands() -> Iterator[Command]:
    def bench(name: str, arguments: str, **other: Any) -> Command:
        return Command(name, "bench", arguments, **other)

    def figure(name: str, figure: str, of: str, more: str = "") -> Command:
        arguments = f"{figure} ../{of}/results -o . --name figure {more}"
        return Command(name, "figures", arguments, after=(of,))

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
    yield figure("fig3", "fig3", "diagnostics-two-view", "--only method=hscl")
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
        ("fig3", f"{drawn}two-view --only method=hscl"),
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
