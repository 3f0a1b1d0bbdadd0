"""Transfer: encoders of molecules scored on labelled sets, against fingerprints."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from itertools import groupby, product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import torch
from scipy.sparse import hstack

from gcl_hard.errors import InputError, check_number, check_option
from gcl_hard.evaluation.folds import ScaffoldSplit
from gcl_hard.evaluation.transfer import (
    Probed,
    kernel_predictions,
    linear_predictions,
    nystroem_features,
    rbf_kernels,
    rmse,
    roc_auc,
    standardised,
)
from gcl_hard.experiments import hardware
from gcl_hard.experiments.finetuning import finetune, new_encoder, train_head
from gcl_hard.experiments.labelled import Labelled
from gcl_hard.experiments.pretraining import loaded
from gcl_hard.experiments.runner import progress
from gcl_hard.experiments.store import check_writable, locked, write_json
from gcl_hard.experiments.transfer_runs import (
    LISTS,
    NONE,
    PROBES,
    SUPERVISED,
    Finetuning,
    TransferRun,
    runs_of,
)
from gcl_hard.experiments.transfer_store import (
    COMPACT,
    SCHEMA_VERSION,
    compact,
    finished_results,
    result_in,
)
from gcl_hard.graphs import embed
from gcl_hard.graphs.moleculenet import SOURCES, is_file
from gcl_hard.graphs.pretrained import load_pretrained
from gcl_hard.methods import METHODS
from gcl_hard.training.loop import OnEpoch

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

NINE = ("BACE", "BBBP", "ClinTox", "SIDER", "Tox21", "ToxCast", "ESOL", "FreeSolv", "Lipo")
CLIFFS = tuple(name for name in SOURCES if name.startswith("CHEMBL"))


def embedded(
    run: TransferRun, labelled: Labelled, on_epoch: OnEpoch | None = None
) -> np.ndarray[Any, Any]:
    """Embeddings of all molecules by a run's encoder, [n, d], after its fine-tuning; what joins
    others with them trains no second encoder.
    """
    alone = replace(run, embedding=str(run.encoder), probe=None)
    if alone not in labelled.embeddings:
        frozen = run.finetuning is None
        encoder = new_encoder(run, labelled) if frozen else finetune(run, labelled, on_epoch)
        labelled.embeddings[alone] = np.asarray(embed(encoder, labelled.molecules))
    return labelled.embeddings[alone]


def predict(run: TransferRun, labelled: Labelled, on_epoch: OnEpoch | None = None) -> Probed:
    """What a run predicts of the test part, with its score on the validation part."""
    if run.finetuning is not None and run.finetuning.method == SUPERVISED:
        return train_head(run, labelled, on_epoch)
    split, y, classes = labelled.split_of(run), labelled.y, labelled.classes
    blocks = [embedded(run, labelled, on_epoch)] if run.encoder is not None else []
    blocks += [labelled.counts] * ("counts" in run.parts)
    probe = labelled.probe_of(run)
    if probe != "kernel":
        return linear_predictions(
            _columns(run, labelled, blocks, probe), y, split, classes=classes
        )  # fmt: skip
    of_pairs = {"ecfp": "tanimoto", "wl": "wl"}
    fixed: Any = sum(getattr(labelled, of_pairs[part]) for part in run.parts if part in of_pairs)
    of_blocks = [rbf_kernels(block, split.train) for block in blocks]
    kernels = [fixed + sum(same_width) for same_width in zip(*of_blocks, strict=True)] or [fixed]
    return kernel_predictions(kernels, y, split, classes=classes)


def _columns(run: TransferRun, labelled: Labelled, blocks: Sequence[Any], probe: str) -> list[Any]:
    """The candidates of a linear probe: joined columns, of Nyström's features one for each width.

    Fingerprints stay bits.
    """
    train = labelled.split_of(run).train
    bits = standardised(labelled.fingerprints, train, sparse=True) if "ecfp" in run.parts else None
    if bits is not None and not blocks:
        return [bits]
    of_blocks = [
        nystroem_features(block, train) if probe == "nystroem" else [standardised(block, train)]
        for block in blocks
    ]
    joined = [np.concatenate(same_width, 1) for same_width in zip(*of_blocks, strict=True)]
    return joined if bits is None else [hstack([one, bits], format="csr") for one in joined]


def scored(labelled: Labelled, split: ScaffoldSplit, found: np.ndarray[Any, Any]) -> dict[str, Any]:
    """The scores of predictions of the test part, None where undefined, and what was left out."""
    y = labelled.y[split.test]
    if labelled.classes:
        auc, names = roc_auc(y, found), labelled.molecules.tasks
        return {
            "auc": _known(100 * auc.mean),
            "one_class": [names[task] for task in auc.one_class],
            "few": [names[task] for task in auc.few],
        }
    score = {"rmse": _known(rmse(y, found))}
    if labelled.data.cliffs is not None:
        score["cliff_rmse"] = _known(rmse(y, found, labelled.data.cliffs[split.test]))
    return score


def _said(result: dict[str, Any]) -> str:
    """A result in a line: its scores, what has none, and its seconds."""
    score = result["score"]
    said = [f"{k} {v:.3f}" for k, v in score.items() if isinstance(v, float)]
    if score.get("one_class"):
        said.append(
            f"one class alone in the training or the test part, left out: "
            f"{', '.join(score['one_class'])}"
        )
    return f"{'; '.join(said)} ({result['seconds']:.0f} s)"


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


@dataclass(frozen=True)
class TransferOptions:
    """The options of ``python -m gcl_hard.transfer``."""

    dataset: Annotated[tuple[str, ...], "sets of molecules, or files NAME.csv"] = ("BACE",)
    targets: Annotated[
        tuple[str, ...] | None,
        "columns of targets of a file; all others that are numbers if not given",
    ] = None
    embeddings: Annotated[
        tuple[str, ...],
        "untrained, ecfp, wl, counts (of atoms and bonds), or a file of gcl_hard.pretrain; a+b "
        "joins kernels; {seed} in a file's name is the seed",
    ] = ("untrained", "ecfp")
    finetune: Annotated[
        tuple[str, ...], "none, a method that reads labels, or supervised, of encoders"
    ] = (NONE,)
    split: Annotated[
        tuple[str, ...] | None,
        "given, scaffold, random-0 to random-2, random orders of scaffolds (given where there is "
        "one, else scaffold)",
    ] = None
    seeds: Annotated[tuple[int, ...], "a count (3 is 0…2) or a list (0,1,2)"] = (0, 1, 2)
    train_share: Annotated[
        tuple[float, ...], "shares of the training part that are used, a learning curve if several"
    ] = (1.0,)
    beta: Annotated[
        tuple[float, ...], "β of fine-tuning by hscl; of several, validation chooses"
    ] = (1.0,)
    similarity: Annotated[
        tuple[float, ...],
        "κ of fine-tuning: pairs weigh e^(κ·Tanimoto), so that similar molecules are harder; of "
        "several, validation chooses",
    ] = (0.0,)
    neighbours: Annotated[
        tuple[int, ...],
        "of fine-tuning: how many of its most similar molecules follow each drawn one in its "
        "batch; of several, validation chooses",
    ] = (0,)
    probe: Annotated[
        str | None,
        "kernel (SVM, SVR), linear (logistic, ridge) or nystroem, linear on features that stand "
        "for an RBF kernel; for large sets linear, else kernel, if not given",
    ] = None
    table: Annotated[
        str | None, "transfer: the nine sets of MoleculeNet; cliffs: the twenty of MoleculeACE"
    ] = None
    output: Annotated[Path, "folder of the results, which are saved as runs finish"] = Path(
        "transfer"
    )
    report: Annotated[Path | None, "page.md to write"] = None
    report_only: Annotated[bool, "run nothing: show what is finished"] = False
    compact: Annotated[Path | None, "move a folder's result files into one file, and exit"] = None
    data_dir: Annotated[Path | None, "folder with the molecules (or set GCL_HARD_DATA)"] = None
    threads: Annotated[int | None, "CPU threads"] = None
    finetuning: Mapping[str, Any] | None = None

    def runs(self) -> list[TransferRun]:
        """All runs."""
        datasets = self.dataset
        if self.table is not None:
            check_option("table", self.table, ("transfer", "cliffs"))
            datasets = NINE if self.table == "transfer" else CLIFFS
        how = [one for name in self.finetune for one in self._settings_of(name)]
        for share in self.train_share:
            check_number("train-share", share, above=0, most=1)
        runs = runs_of(
            datasets, self.embeddings, how, self.split, self.seeds, train_shares=self.train_share
        )
        if any(how) and all(run.finetuning is None for run in runs):
            raise InputError(
                f"fine-tuning trains encoders, and {', '.join(self.embeddings)} is none: give "
                f"untrained, or a file of python -m gcl_hard.pretrain"
            )
        check_option("probe", self.probe or PROBES[0], PROBES)
        if self.probe not in (None, "kernel") and any("wl" in run.parts for run in runs):
            raise InputError(
                f"wl is a kernel, which no {self.probe} probe reads: leave wl out of "
                f"embeddings, or give --probe kernel"
            )
        runs = [replace(run, probe=self.probe) for run in runs]
        if self.targets is None:
            return runs
        if named := [one for one in datasets if not is_file(one)]:
            raise InputError(f"targets are columns of files of yours, and {named[0]} has its own")
        return [replace(run, targets=self.targets) for run in runs]

    def _settings_of(self, name: str) -> list[Finetuning | None]:
        """Fine-tuning by a name, once for each combination of what it reads."""
        if name == NONE:
            return [None]
        hardened = name in METHODS and METHODS[name].hardening == "exponential"
        betas = self.beta if hardened else (Finetuning.beta,)
        supervised = name == SUPERVISED
        kappas = (Finetuning.similarity,) if supervised else self.similarity
        counts = (Finetuning.neighbours,) if supervised else self.neighbours
        return [
            Finetuning(
                name, beta=beta, similarity=kappa, neighbours=count, **(self.finetuning or {})
            )
            for beta, kappa, count in product(betas, kappas, counts)
        ]


def transfer(options: TransferOptions, command: str = "") -> list[dict[str, Any]]:
    """Run what is not finished, write the page, and return all results.

    Args:
        options: what to run.
        command: the command line, for the page.

    Raises:
        InputError: for anything that cannot be run.
    """
    if options.compact is not None:
        print(f"{compact(options.compact)} results in {options.compact / COMPACT}")
        return []
    runs = options.runs()
    known = finished_results(options.output)
    if options.report is not None and options.report.suffix != ".md":
        raise InputError(f"report is a page of Markdown, NAME.md, got {options.report}")
    if options.report is not None:
        check_writable(options.report.absolute().parent)
    hardware.use_threads(options.threads or 1, 0, 0)
    numbered = [*enumerate(runs, 1)]
    results = {i: one for i, run in numbered if (one := _stored(options.output, run, known))}
    too_large: list[str] = []
    if not options.report_only and len(results) < len(runs):
        check_writable(options.output)
        _run_others(options, runs, results, too_large)
    found = [results[number] for number in sorted(results)]
    n_open = len(runs) - len(found) - len(too_large)
    if not found:
        raise InputError(f"none of {len(runs)} runs is finished in {options.output}")
    from gcl_hard.reports import transfer as page

    found += chosen(found)
    data = page.frame(found)
    for metric in data["metric"].drop_duplicates():
        print(f"\n{page.METRICS[metric]}\n{page.table(data, metric).to_string()}")
    if options.report is not None:
        page.write_page(options.report, found, command, n_open, too_large=too_large)
    return found


def _stored(
    folder: Path, run: TransferRun, known: Mapping[str, dict[str, Any]]
) -> dict[str, Any] | None:
    """The result of a finished run, in the row that it is asked for."""
    path = folder / f"{run.key}.json"
    finished = result_in(path) if path.exists() else known.get(run.key)
    return finished and finished | {"row": run.row, "choice": run.choice}


def _run_others(
    options: TransferOptions,
    runs: Sequence[TransferRun],
    results: dict[int, dict[str, Any]],
    too_large: list[str],
) -> None:
    """Add the missing results, by number, and wait for those that another command is at."""
    todo = [(number, run) for number, run in enumerate(runs, 1) if number not in results]
    sets: dict[str, Labelled] = {}
    while todo:
        elsewhere: list[tuple[int, TransferRun]] = []
        for dataset, of_set in groupby(todo, key=lambda numbered: numbered[1].dataset):
            mine = [*of_set]
            if dataset not in sets:
                sets.clear()
                sets[dataset] = Labelled(
                    loaded(dataset, data_dir=options.data_dir, targets=mine[0][1].targets)
                )
            labelled = sets[dataset]
            large = [
                one for one in mine
                if "wl" in one[1].parts and labelled.probe_of(one[1]) != "kernel"
            ]  # fmt: skip
            if large:
                too_large += [f"{run.dataset} ({run.split}), {run.row}" for _, run in large]
                print(
                    f"{dataset} is too large for the kernel of wl: left out; --probe kernel "
                    f"computes it anyway",
                    file=sys.stderr,
                )
            mine = [one for one in mine if one not in large]
            elsewhere += _run_set(options.output, mine, labelled, results, len(runs))
        todo = elsewhere
        if todo:
            print(f"waiting for another command to end {len(todo)} runs", file=sys.stderr)
            time.sleep(5.0)


def _run_set(
    folder: Path,
    numbered: Sequence[tuple[int, TransferRun]],
    labelled: Labelled,
    results: dict[int, dict[str, Any]],
    total: int,
) -> list[tuple[int, TransferRun]]:
    """Add the results of runs on one set, with progress; returns those that another command is at.

    Args:
        folder: folder of the results.
        numbered: the runs, with their numbers among all.
        labelled: the set.
        results: of all sets, by number; extended in place.
        total: number of runs of all sets.
    """
    from rich.console import Console

    elsewhere, versions = [], hardware.versions()
    with progress(Console(stderr=True)) as bars:
        bar = bars.add_task("", total=len(numbered))
        for number, run in numbered:
            name = f"{run.set_name} {run.row}, seed {run.seed}"
            bars.update(bar, description=name)
            path = folder / f"{run.key}.json"
            with locked(path.with_name(f".{path.name}.lock")) as mine:
                if not mine:
                    elsewhere.append((number, run))
                    continue
                if (result := _stored(folder, run, {})) is None:
                    show = partial(_show_epoch, bars, bar, name)
                    result = _result(run, labelled, versions, show)
                    write_json({"schema_version": SCHEMA_VERSION, **result}, path)
            results[number] = result
            line = f"{number}/{total} {run.key}: {_said(result)}"
            bars.console.print(line, highlight=False, markup=False, soft_wrap=True)
            bars.advance(bar)
    return elsewhere


def _show_epoch(bars: Progress, bar: TaskID, name: str, epoch: int, loss: float) -> None:
    bars.update(bar, description=f"epoch {epoch}, loss {loss:.3f}: {name}")


def chosen(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of every choice the result that is best on the validation part, by set, split and seed.

    A choice without the validation score of one of its results is not made.
    """
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for one in results:
        if one["choice"]:
            key = one["choice"], one["dataset"], one["split"], one["seed"]
            groups.setdefault(key, []).append(one)
    found = []
    for (row, *_), mine in groups.items():
        if all(one.get("validation") is not None for one in mine):
            best = max if "auc" in mine[0]["score"] else min
            found.append(best(mine, key=lambda one: one["validation"]) | {"row": row})
    return found


def _result(
    run: TransferRun, labelled: Labelled, versions: dict[str, str], on_epoch: OnEpoch
) -> dict[str, Any]:
    start = time.perf_counter()
    split = labelled.split_of(run)
    predictions, validation = predict(run, labelled, on_epoch)
    y = np.ravel(labelled.y[split.test])
    return {
        **asdict(run),
        "dataset": run.set_name,
        "identity": run.identity,
        "kind": labelled.data.kind,
        "score": scored(labelled, split, predictions),
        "validation": _known(validation),
        "sizes": [len(part) for part in split],
        "test": labelled.molecules.rows[split.test].tolist(),
        "y": [_known(one) for one in y],
        "cliffs": None if labelled.data.cliffs is None
        else labelled.data.cliffs[split.test].tolist(),
        # Of known targets alone: three of four of ToxCast are not.
        "predictions": [_known(float(f"{x:.6g}")) for x in np.ravel(predictions)[np.isfinite(y)]],
        "invalid": len(labelled.molecules.invalid),
        "pretrained": _pretrained_on(run),
        "seconds": time.perf_counter() - start,
        "device": hardware.device_name(torch.device("cpu")),
        "versions": versions,
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }  # fmt: skip


def _pretrained_on(run: TransferRun) -> int | None:
    """Molecules that the encoder of a run was pre-trained on."""
    if run.encoder in (None, "untrained"):
        return 0 if run.encoder else None
    return int(load_pretrained(str(run.encoder)).about["n"])


SETTINGS = tuple(one.name for one in fields(Finetuning) if one.name not in ("method", *LISTS))
"""Settings of fine-tuning of which a command takes one."""
