"""Experiments on labelled molecules: encoders, fine-tuned or frozen, and probes."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from torch import nn

from gcl_hard.errors import DivergenceError, InputError, OutOfMemory
from gcl_hard.evaluation.transfer import (
    GAMMAS,
    Probed,
    kernel_predictions,
    linear_predictions,
    nystroem_features,
    rbf_kernels,
    roc_auc,
    standardised,
)
from gcl_hard.experiments import hardware
from gcl_hard.experiments.custom import UserParts
from gcl_hard.experiments.domains import lent_encoders
from gcl_hard.experiments.embedding import Items
from gcl_hard.experiments.engine import on_interrupt
from gcl_hard.experiments.experiment import (
    ENCODERS,
    Clock,
    Experiment,
    Parts,
    Reading,
    Report,
    RunContext,
    TrainedRun,
    check_finite,
    refuse_together,
)
from gcl_hard.experiments.exporting import Exportable
from gcl_hard.experiments.record import RunResult, Scored, Tested
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import RunConfig, as_json
from gcl_hard.files.io import digest_of_arrays, file_digest
from gcl_hard.graphs.embedded import items_of_graphs
from gcl_hard.graphs.models import embed_graphs
from gcl_hard.molecules import canonical
from gcl_hard.molecules.data import Molecules
from gcl_hard.molecules.files import load_molecules, locate
from gcl_hard.molecules.finetuning import finetune, new_encoder, train_head
from gcl_hard.molecules.labelled import Labelled, kernels_of
from gcl_hard.molecules.pretraining import FileEncoder, digest_of_smiles, loaded
from gcl_hard.molecules.settings import (
    AWARE,
    CHIRALITY,
    PROBED,
    SEED,
    SUPERVISED,
    UNTRAINED,
    MoleculeConfig,
    is_new,
    is_table,
    representation,
    set_name,
)
from gcl_hard.training.loop import OnEpoch

OF_PAIRS = {"ecfp": "tanimoto", "wl": "wl"}
"""Kernels of the parts of a representation that are kernels."""
FACTS = {
    "tasks": "targets",
    "one_class": "left out of the mean, with one class alone, or none, in the training or the test "
    "part",
    "few": "tasks whose rarer class has fewer than ten test molecules",
    "invalid": "SMILES that are no molecules",
}
"""Facts of results in remarks on pages."""
SPLIT_FACTS = ("one_class", "few")
"""Those that depend on the split."""
CLIFF_SOURCE = (
    "Published means over the same twenty sets and splits, from the results of van Tilborg, "
    "Alenicheva & Grisoni (2022), *Exposing the Limitations of Molecular Machine Learning with "
    "Activity Cliffs*; settings were searched there for each set, and graph networks were trained "
    "from scratch"
)
CLIFF_MEANS = {
    "rmse": {
        "SVM, ECFP": 0.669, "LSTM, SMILES": 0.738, "GCN": 0.909, "GAT": 0.942, "MPNN": 1.118,
    },
    "cliff_rmse": {
        "SVM, ECFP": 0.758, "LSTM, SMILES": 0.882, "GCN": 0.983, "GAT": 1.011, "MPNN": 1.145,
    },
}  # fmt: skip


class MoleculeExperiment(Experiment[MoleculeConfig, Any]):
    """Experiments on labelled molecules; methods as in ``Experiment``."""

    item: ClassVar[str] = "molecule"
    unit: ClassVar[str] = "molecule"
    methods: ClassVar[tuple[str, ...]] = AWARE
    usual_baselines: ClassVar[tuple[str, ...]] = (UNTRAINED, "ecfp")
    has_validation: ClassVar[bool] = True
    further_metrics: ClassVar[tuple[str, ...]] = ("cliff_rmse",)
    controls: ClassVar[Mapping[str, str]] = {
        "scl": "scl", "ecfp": "ecfp", UNTRAINED: UNTRAINED, "frozen": UNTRAINED,
        SUPERVISED: SUPERVISED,
    }  # fmt: skip
    averages_sets: ClassVar[bool] = True
    reading: ClassVar[frozenset[str]] = frozenset({"level", "smiles", "id"})
    options: ClassVar[frozenset[str]] = frozenset({"save_encoder"})

    def load(self, config: MoleculeConfig, context: RunContext, user_data: Any = None) -> Labelled:
        """The set; the user's own is the path of a table."""
        return Labelled(load_molecules(
            user_data or config.dataset, data_dir=context.data_dir, smiles=config.smiles,
            targets=config.targets,
        ))  # fmt: skip

    def facts(self, data: Labelled) -> dict[str, Any]:
        """Sizes, the kind of targets, the number of SMILES left out, and a digest."""
        molecules = data.molecules
        arrays = (molecules.x, molecules.edge_index, molecules.edge_attr, molecules.node_ptr)
        return {
            "n_graphs": len(molecules),
            "kind": data.data.kind,
            "tasks": list(molecules.tasks),
            "invalid": len(molecules.invalid),
            "digest": digest_of_arrays(*arrays, data.y),
        }

    def canonical_dataset(self, config: MoleculeConfig) -> str:
        """As :func:`gcl_hard.molecules.canonical`."""
        return config.dataset if is_table(config.dataset) else canonical(config.dataset)

    def files(self, config: MoleculeConfig, data_dir: Path | None) -> list[Path]:
        """The file of a known set; a table's name has the digest of its content."""
        if is_table(config.dataset):
            return []
        return [locate(self.canonical_dataset(config), data_dir=data_dir)]

    def set_name(self, config: MoleculeConfig) -> str:
        """Name of the set; for a table without folder, suffix and digest."""
        return set_name(config.dataset)

    def row_name(self, config: MoleculeConfig) -> str:
        """The representation, and how its encoder is trained, if it is."""
        trained = "" if config.method in PROBED else config.method
        return f"{representation(config)} {trained}".rstrip()

    def row_fields(self, config: MoleculeConfig) -> dict[str, Any]:
        """The representation, the share of the training part, and the split."""
        return {
            "representation": representation(config), "share": config.train_share,
            "split": config.split or "",
        }  # fmt: skip

    def is_control(self, config: MoleculeConfig, name: str, compared: MoleculeConfig) -> bool:
        """Whether it is a control of the same training share: ECFP, an untrained encoder (for an
        encoder with new weights its own), the frozen or supervised encoder of the same
        representation, or scl with all other settings equal.
        """
        if config.train_share != compared.train_share:
            return False
        if name == "scl":
            return not compared.is_baseline and replace(compared, method=name) == config
        if name in (SUPERVISED, "frozen"):
            return representation(config) == representation(compared)
        alike = is_new(config) and (not is_new(compared) or config.encoder == compared.encoder)
        return bool((alike or name == "ecfp") and not config.joined)

    def combined(self, configs: Sequence[MoleculeConfig]) -> Sequence[MoleculeConfig]:
        """Nothing is joined with fingerprints if there are encoders, and none with itself."""
        encoded = any(config.has_encoder for config in configs)
        return [
            replace(config, joined=None)
            if not config.has_encoder and (encoded or config.method in (config.joined or ()))
            else config
            for config in configs
        ]

    def of_seed(self, config: MoleculeConfig, seed: int) -> MoleculeConfig:
        """The configuration for a seed, with its encoder file."""
        if SEED not in config.encoder:
            return config
        return replace(config, encoder=config.encoder.replace(SEED, str(seed)))

    def user_names(self, config: MoleculeConfig, parts: UserParts) -> dict[str, Any]:
        """The names of the set and of the encoder, with digests of their files."""
        return {"dataset": _table(config.dataset, parts), "encoder": _file(config, parts)}

    def metrics(self, config: MoleculeConfig, data: Labelled) -> tuple[str, ...]:
        """ROC-AUC for classes; for numbers the RMSE, also that of molecules with a cliff."""
        if data.classes:
            return ("auc",)
        return ("rmse",) if data.data.cliffs is None else ("rmse", "cliff_rmse")

    def size(self, data: Labelled) -> tuple[int, int]:
        """Numbers of molecules for training and for a probe."""
        return len(data.y), len(data.y)

    def check(
        self, config: MoleculeConfig, data: Labelled, context: RunContext, *, inner: bool
    ) -> None:
        """Refuse a given split that cannot be used, and a set too large for a kernel."""
        refuse_together(context, "molecules")
        data.split(data.split_name(config))
        if "wl" in config.parts and data.probe_of(config) != "kernel":
            raise InputError(
                f"{self.set_name(config)} is too large for the kernel of wl: leave wl out, or give "
                f"--probe kernel, which computes it anyway"
            )

    def advice(self, config: MoleculeConfig, data: Labelled) -> str | None:
        """Warns of SMILES that are left out, and of test molecules that are in training as well."""
        remarks = [data.molecules.left_out(self.set_name(config))]
        if data.split_name(config) == "given" and (seen := data.seen_tests):
            remarks.append(
                f"{self.set_name(config)}: {seen} of {len(data.split('given').test)} test "
                f"molecules are in the training or validation part, too"
            )
        return "\n".join(filter(None, remarks)) or None

    def train(
        self, runs: Sequence[Run], data: Labelled, context: RunContext, report: Report
    ) -> Iterator[TrainedRun]:
        """Train the encoder that the runs share, and embed all molecules."""
        hardware.use_threads(context.threads, 0, 0)
        run, config, clock = runs[0], _config(runs[0]), Clock()

        def on_epoch(epoch: int, loss: float) -> None:
            going = [report(shared, epoch / run.epochs, loss) for shared in runs]
            if not all(going):
                raise KeyboardInterrupt

        outputs: dict[str, Any] = {}
        loss: tuple[float, ...] = ()
        try:
            if config.method == SUPERVISED:
                outputs["scores"], last, epoch = train_head(run, data, context.parts, on_epoch)
                loss, outputs["facts"] = (last,), {"best_epoch": epoch}
            elif config.has_encoder:
                outputs["embeddings"], loss, state = embeddings_of(
                    run, data, context.parts, on_epoch
                )
                if ENCODERS in context.saves(run):
                    outputs["encoders"] = {"encoders": [state], "config": as_json(config)}
        except DivergenceError as error:
            yield from (TrainedRun(shared, error=error) for shared in runs)
            return
        clock.train()
        yield from (TrainedRun(shared, loss, *clock.seconds, **outputs) for shared in runs)

    def score(self, trained: TrainedRun, data: Labelled, context: RunContext) -> Scored:
        """Predictions for the test part by a probe or a supervised head."""
        run, config = trained.run, _config(trained.run)
        hardware.use_threads(context.threads, 0, 0)
        _check_memory(run, data)
        with on_interrupt(signal.default_int_handler):  # a probe has nothing to save
            probed = trained.scores
            if probed is None:
                probed = predict(run, data, trained.embeddings)
        split, molecules, cliffs = data.split_of(run), data.molecules, data.data.cliffs
        masks = {} if cliffs is None else {"cliffs": cliffs[split.test]}
        fold = Tested(molecules.rows[split.test], data.y[split.test], probed.test, masks)
        validation = probed.validation * (100 if data.classes else 1)
        facts: dict[str, Any] = {"split": data.split_name(config), "sizes": [*map(len, split)]}
        facts |= trained.facts
        if config.method != SUPERVISED:
            facts["probe"] = data.probe_of(config)
        if config.has_encoder:
            make = context.parts.get(config.encoder)
            facts["pretrained"] = make.n if isinstance(make, FileEncoder) else 0
        if data.classes:
            left_out, names = roc_auc(fold.targets, fold.predicted), molecules.tasks
            facts["one_class"] = [names[task] for task in left_out.one_class]
            facts["few"] = [names[task] for task in left_out.few]
        return Scored((fold,), validation=(validation,), facts=facts)

    def remark(self, result: RunResult) -> str:
        """The tasks that are left out of the mean."""
        names = result.data.get("one_class")
        if not names:
            return ""
        return (
            f"one class alone, or none, in the training or the test part, left out of the "
            f"{result.metric}: {', '.join(names)}"
        )

    def items(
        self, encoder: nn.Module, saved: Mapping[str, Any], data: Any, reading: Reading
    ) -> Items:
        """Molecules of a CSV file or a known set, or their atoms."""
        if not isinstance(data, Molecules):
            context = reading.context
            data = loaded(
                str(data), data_dir=context.data_dir, jobs=context.cores, smiles=reading.smiles,
                id=reading.id, unlabelled=True,
            ).molecules  # fmt: skip
        digest = digest_of_smiles(data.smiles)
        return items_of_graphs(encoder, data, digest, reading)

    def exportable(self, encoder: nn.Module, saved: Mapping[str, Any]) -> Exportable:
        """Embeddings of atoms and molecules, from codes, bonds and pointers."""
        from gcl_hard.graphs.exported import molecules_exportable

        return molecules_exportable(encoder)

    def arrays(self, trained: TrainedRun, data: Labelled) -> dict[str, NDArray[Any]]:
        """``embeddings`` float [G, d], ``ids`` [G], ``labels`` [G] or [G, T], and ``part`` [G]:
        train, valid or test; empty for molecules that ``train_share`` leaves out.
        """
        part = np.full(len(data.molecules), "", "<U5")
        for name, rows in data.split_of(trained.run)._asdict().items():
            part[rows] = name
        return {
            "embeddings": np.asarray(trained.embeddings), "ids": data.molecules.names,
            "labels": data.y, "part": part,
        }  # fmt: skip

    def file_facts(self, data: Any) -> dict[str, Any]:
        """Molecules have the features that the encoder reads."""
        return {"features": "stored"}

    def page_remarks(self, results: Sequence[RunResult]) -> list[str]:
        """Targets, splits, and what is left out of scores and data."""
        facts: dict[str, dict[str, None]] = {}
        for result in results:
            for name, words in FACTS.items():
                if fact := result.data.get(name):
                    where = self.set_name(_config(result.run))
                    where += f" ({result.data.get('split')})" if name in SPLIT_FACTS else ""
                    text = _listed(fact) if isinstance(fact, list) else str(fact)
                    facts.setdefault(words, {})[f"{where}: {text}"] = None
        lines = [f"{words[0].upper()}{words[1:]}: {'; '.join(by_set)}."
                 for words, by_set in facts.items()]  # fmt: skip
        splits = dict.fromkeys(str(result.data.get("split")) for result in results)
        if len(splits) > 1:
            lines.append(f"Splits ({', '.join(splits)}) overlap, so that intervals are too narrow.")
        if any(split.endswith(CHIRALITY) for split in splits):
            lines.append(
                f"Splits whose name ends with {CHIRALITY} take mirror images for different "
                f"scaffolds, as DeepChem and MoleculeNet do not."
            )
        return lines

    def published_means(self, metric: str, n_sets: int) -> tuple[str, Mapping[str, float]]:
        """Those over twenty sets of activity cliffs."""
        return (CLIFF_SOURCE, CLIFF_MEANS.get(metric, {})) if n_sets == 20 else ("", {})


def _listed(names: Sequence[str], most: int = 12) -> str:
    """Names in a line; if there are many, the first and their number."""
    return ", ".join(names[:most]) + (f" … ({len(names)})" if len(names) > most else "")


def _config(run: Run) -> MoleculeConfig:
    return cast("MoleculeConfig", run.config)


def embeddings_of(
    run: Run, labelled: Labelled, parts: Parts | None = None, on_epoch: OnEpoch | None = None
) -> tuple[NDArray[Any], tuple[float, ...], dict[str, Any]]:
    """Embeddings of all molecules by a run's encoder, [n, d], its last loss, and its weights.

    Raises:
        DivergenceError: if a loss or an embedding is not finite.
    """
    loss: tuple[float, ...] = ()
    if run.config.method == UNTRAINED:
        encoder = new_encoder(run, labelled, parts)
    else:
        encoder, last = finetune(run, labelled, parts, on_epoch)
        loss = (last,)
    embedded = np.asarray(embed_graphs(encoder, labelled.molecules))
    check_finite(embedded, run.key)
    return embedded, loss, encoder.state_dict()


def predict(run: Run, labelled: Labelled, embedded: NDArray[Any] | None) -> Probed:
    """Predictions of a probe for the test part, with its score on the validation part.

    Args:
        run: a run without a supervised head.
        labelled: its data.
        embedded: embeddings by its encoder; None without one.
    """
    config = _config(run)
    split, y, classes = labelled.split_of(run), labelled.y, labelled.classes
    blocks = [] if embedded is None else [embedded]
    blocks += [labelled.counts] * ("counts" in config.parts)
    probe = labelled.probe_of(config)
    if probe != "kernel":
        return linear_predictions(
            _columns(run, labelled, blocks, probe), y, split, classes=classes
        )  # fmt: skip
    return kernel_predictions(_kernels(run, labelled, blocks), y, split, classes=classes)


def _kernels(run: Run, labelled: Labelled, blocks: Sequence[Any]) -> list[Any]:
    """The kernels that a kernel probe chooses from, one per width if there are blocks."""
    train, kept = labelled.split_of(run).train, kernels_of(labelled)
    of_pairs = [getattr(kept, OF_PAIRS[part]) for part in _config(run).parts if part in OF_PAIRS]
    fixed = reduce(add, of_pairs) if of_pairs else 0.0
    if not blocks:
        return [fixed]
    kernels = rbf_kernels(blocks[0], train)
    for block in blocks[1:]:
        for kernel, added in zip(kernels, rbf_kernels(block, train), strict=True):
            np.add(kernel, added, out=kernel)  # in place: each takes gigabytes for a large set
    return [np.add(kernel, fixed, out=kernel) for kernel in kernels]


def _columns(run: Run, labelled: Labelled, blocks: Sequence[Any], probe: str) -> list[Any]:
    """The columns that a linear probe chooses from, joined; for Nyström one set per width.

    Fingerprints stay bits.
    """
    from scipy.sparse import hstack

    train, bits = labelled.split_of(run).train, None
    if "ecfp" in _config(run).parts:
        bits = standardised(labelled.fingerprints, train, sparse=True)
    if bits is not None and not blocks:
        return [bits]
    of_blocks = [
        nystroem_features(block, train) if probe == "nystroem" else [standardised(block, train)]
        for block in blocks
    ]
    joined = [np.concatenate(same_width, 1) for same_width in zip(*of_blocks, strict=True)]
    return joined if bits is None else [hstack([columns, bits], format="csr") for columns in joined]


def _check_memory(run: Run, labelled: Labelled) -> None:
    """OutOfMemory if the memory holds no kernels of all pairs, if the probe reads some."""
    config = _config(run)
    if config.method == SUPERVISED or labelled.probe_of(config) != "kernel":
        return
    blocks = config.has_encoder + ("counts" in config.parts)
    n, free = len(labelled.y), hardware.available_memory()
    needed = 8 * n**2 * (len(GAMMAS) * blocks + 2)  # a kernel of every width, those that are kept
    if free is not None and needed > free:
        raise OutOfMemory(
            f"{run.key}: kernels of {n:,} molecules take up to {needed / 1e9:.3g} GB, and "
            f"{free / 1e9:.3g} GB are free: give --probe linear, or nystroem"
            f"{', and leave out wl' * ('wl' in config.parts)}"
        )


def _table(name: str, parts: UserParts) -> str:
    """The name of a set of molecules; ``NAME@digest`` for a table."""
    if not is_table(name) or name in parts.graphs or name in parts.names:
        return parts.names.get(name, name)
    stem = Path(name).name.partition(".")[0]
    key = f"{stem}@{file_digest(name)}"
    for other, path in parts.graphs.items():
        if isinstance(path, str) and other.partition("@")[0] == stem:
            raise InputError(
                f"{path} and {name} are both named {stem}, by which results are told apart: rename "
                f"one"
            )
    parts.graphs[key], parts.names[name] = name, key
    return key


def _file(config: RunConfig, parts: UserParts) -> str:
    """The name of an encoder of molecules; with its shape if its weights are new."""
    name: str = config.encoder
    if name in {UNTRAINED, *parts.parts, *parts.names} or config.shape or SEED in name:
        return parts.names.get(name, name)
    weights, _, path = name.rpartition(":")
    if not Path(path.partition("@")[0]).is_file():
        raise InputError(
            f"{path} is not there: an encoder is {UNTRAINED}, or a file of python -m "
            f"gcl_hard.pretrain"
        )
    if weights == UNTRAINED:
        parts.names[name] = lent_encoders().shape_of(path)
    else:
        parts.add_file(name, path, digits=16)
    return parts.names[name]


EXPERIMENT = MoleculeExperiment
