"""The experiment interface, one implementation a domain: load data, train runs, score them."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar, get_args
from uuid import uuid4

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from gcl_hard.errors import (
    DivergenceError,
    InputError,
    check_at_least,
    check_option,
    check_processes,
)
from gcl_hard.experiments.domains import DOMAINS, namespace
from gcl_hard.experiments.settings import CONTROLS, RunConfig
from gcl_hard.losses.methods import METHODS

if TYPE_CHECKING:
    from gcl_hard.experiments.embedding import Items
    from gcl_hard.experiments.exporting import Exportable
    from gcl_hard.experiments.record import RunResult, Scored
    from gcl_hard.experiments.run import Run
    from gcl_hard.theory.diagnostics import DiagnosticsCallback
    from gcl_hard.theory.snapshots import Points, Snapshot

ENCODERS, EMBEDDINGS = ".pt", ".embeddings.npz"
"""Suffixes of the files of trained encoders and of embeddings."""

OPTIONS = {"diagnostics": "take no snapshots", "save_encoder": "save no encoders"}
"""Options that some experiments lack, and what runs do without them."""

Report = Callable[["Run", float, float], bool]
"""Called during training with a run, the share of its training that is done, and the latest mean
loss (NaN before the first). Returns whether to go on; on False training saves a checkpoint and
ends."""


def silent(run: Run, share: float, loss: float) -> bool:
    """A :data:`Report` that shows nothing and never stops."""
    return True


@dataclass(frozen=True)
class RunOptions:
    """Options of execution; only ``ensemble_size``, ``tf32`` and ``deterministic`` change any
    numbers, by rounding.

    Attributes:
        diagnostics: take a snapshot of the quantities of the theory every N epochs; 0: never.
        ensemble_size: graphs: encoders trained as one ensemble, a number or auto (default).
        loader_workers: images: processes that make views on the CPU; 0: on the device.
        monitor_every: images: epochs between points of the monitoring curve; 0: none.
        checkpoint_minutes: minutes between checkpoints of a run that keeps one; 0: after every
            step.
        save_encoder: save trained encoders next to results, as NAME.pt.
        save_embeddings: save embeddings next to results, as NAME.embeddings.npz.
        tf32: on a GPU: products of float32 in TF32, faster, to three digits; results say so.
        deterministic: on a GPU: the same bits for the same command, slower; results say so.
    """

    diagnostics: int = 0
    ensemble_size: int | None = None
    loader_workers: int = 0
    monitor_every: int = 10
    checkpoint_minutes: float = 10.0
    save_encoder: bool = False
    save_embeddings: bool = False
    tf32: bool = False
    deterministic: bool = False

    def __post_init__(self) -> None:
        check_processes(least=0, loader_workers=self.loader_workers)
        check_at_least("diagnostics", self.diagnostics, 0)
        check_at_least("monitor-every", self.monitor_every, 0)
        if not self.checkpoint_minutes >= 0:
            raise InputError(f"checkpoint-minutes must be ≥ 0, got {self.checkpoint_minutes}")
        if self.ensemble_size is not None:
            check_at_least("ensemble-size", self.ensemble_size, 1)


@dataclass(frozen=True)
class RunContext:
    """Where and how runs are executed; small and picklable.

    Attributes:
        output: folder of results, checkpoints and encoders.
        data_dir: an offline mirror of data sets, or None.
        device: name of a PyTorch device.
        threads: threads of one process, None to choose by the size of a run.
        cores: cores that one process may use.
        versions: versions that numbers depend on, read when the command starts.
        experiment_of: returns the experiment of a configuration, in any process.
        options: options of execution.
        digest: digest of the data of the run in training.
        parts: the user's own encoders and augmentations, by the names in configurations.
        processes: number of processes that train a run together, under torchrun.
        call: identifies one command or call, in all processes.
        interim: scores runs while they train; None for runs that are scored only at their end.
    """

    output: Path
    data_dir: Path | None
    device: str
    threads: int | None
    cores: int
    versions: dict[str, str]
    experiment_of: Callable[[RunConfig], Experiment[Any, Any]]
    options: RunOptions = RunOptions()
    digest: str = ""
    parts: Parts = field(default_factory=dict)
    processes: int = 1
    call: str = field(default_factory=lambda: uuid4().hex, compare=False)
    interim: Interim | None = None

    def file(self, run: Run, suffix: str) -> Path:
        """Path of a file next to the result of a run."""
        return self.output / f"{run.name(self.processes)}{suffix}"

    def checkpoint(self, run: Run, number: int = 0) -> Path:
        """Path of the checkpoint of one of a run's trainings, from 0.

        Its name does not depend on the number of processes: another number finds and refuses it.
        """
        suffix = f".{number}.ckpt" if number else ".ckpt"
        return self.output / f"{run.name(1)}{suffix}"

    def checkpoints(self, run: Run) -> list[Path]:
        """Paths of a run's checkpoints that exist."""
        paths = (self.checkpoint(run, number) for number in range(max(1, run.config.encoders)))
        return [path for path in paths if path.exists()]

    def forget(self, run: Run) -> None:
        """Remove the checkpoints of a run."""
        for path in self.checkpoints(run):
            path.unlink(missing_ok=True)

    def without_checkpoints(self) -> RunContext:
        """The same without checkpoints, for training that is never resumed."""
        return replace(self, options=replace(self.options, checkpoint_minutes=math.inf))

    def saves(self, run: Run) -> tuple[str, ...]:
        """Suffixes of the files that are saved with the result of a run."""
        options, config = self.options, run.config
        embedded = not run.inner and (not config.is_baseline or config.method == "untrained")
        asked = {
            ENCODERS: options.save_encoder and config.encoders > 0,
            EMBEDDINGS: options.save_embeddings and embedded,
        }
        return tuple(suffix for suffix, wanted in asked.items() if wanted)


@dataclass(eq=False)
class TrainedRun:
    """A trained run: the inputs of scoring, or the error.

    Attributes:
        run: the run.
        losses: mean loss of the last epoch of every encoder trained, nats.
        seconds_train: time of training, all encoders together.
        seconds_eval: time of embedding.
        embeddings: what is scored, as the experiment defines it.
        scores: of a run that needs no embeddings, as the experiment defines them.
        knn: accuracy of nearest neighbours in percent; None for graphs.
        curve: monitoring curve: epochs and accuracies in percent.
        snapshots: snapshots of the diagnostics.
        seconds_diagnostics: time that they took.
        points: arrays of the last snapshot.
        facts: facts for the record, beside those of the data.
        encoders: content of the encoder file, for ``torch.load(…, weights_only=True)``.
        error: why training failed, or None.
        device: name of the hardware that trained it.
    """

    run: Run
    losses: tuple[float, ...] = ()
    seconds_train: float = 0.0
    seconds_eval: float = 0.0
    embeddings: Any = None
    scores: Any = None
    knn: float | None = None
    curve: tuple[tuple[int, float], ...] = ()
    snapshots: Sequence[Snapshot] = field(default_factory=list)
    seconds_diagnostics: float = 0.0
    points: Points | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    encoders: dict[str, Any] | None = None
    error: DivergenceError | None = None
    device: str = ""

    def take_snapshots(self, diagnostics: DiagnosticsCallback[Any] | None) -> None:
        """Copy the snapshots of a callback, if there is one."""
        if diagnostics is not None:
            self.snapshots = tuple(diagnostics.snapshots)
            self.seconds_diagnostics = diagnostics.seconds
            self.points = diagnostics.points


@dataclass(frozen=True)
class Interim:
    """Scores trials of a search while they train, and prunes some of them.

    Attributes:
        epochs: maps the number of epochs of a run to the epochs after which it is scored.
        pruned: called with an epoch and the runs as trained by then; returns the runs to end.
    """

    epochs: Callable[[int], Sequence[int]]
    pruned: Callable[[int, Sequence[TrainedRun]], Collection[Run]]


class Pruned(Exception):  # noqa: N818
    """Ends the training of a run that :class:`Interim` has pruned, where it is trained alone."""


C = TypeVar("C", bound=RunConfig)
D = TypeVar("D")


class PretrainingData(NamedTuple):
    """What pre-training on a domain's data reads.

    Attributes:
        data: name, also in messages, of the domain whose module ``pretraining`` reads the data;
            empty without pre-training.
        unread: settings that it does not read.
        refused: options that apply only to other data.
        settings: defaults that differ from those of a run.
    """

    data: str = ""
    unread: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    settings: Mapping[str, Any] = {}


Level = Literal["graphs", "nodes"]
"""What of graphs is embedded."""


@dataclass(frozen=True)
class Reading:
    """How data to be embedded are read.

    Attributes:
        context: the device, an offline mirror of data, and the processes that parse SMILES.
        level: whether graphs are embedded, or all of their nodes.
        smiles: column of SMILES of a CSV; found by its name if None.
        id: column of a table with the names of its rows.
        batch_size: items embedded at a time; None for the domain's default.
        edges: table of edges beside a table of nodes.
        only: table of the ids of those nodes that are written, or their ids; None for all.
    """

    context: RunContext
    level: Level = "graphs"
    smiles: str | None = None
    id: str | None = None
    batch_size: int | None = None
    edges: Any = None
    only: Any = None

    def __post_init__(self) -> None:
        check_option("level", self.level, get_args(Level))
        if self.batch_size is not None:
            check_at_least("batch-size", self.batch_size, 1)


class Experiment(ABC, Generic[C, D]):
    """One domain: how its data are loaded and described, how runs are trained and scored, what it
    can do, and how its tables are worded.

    A domain defines ``load``, ``facts``, ``train_run`` and ``score``; the other methods have
    defaults.

    Attributes:
        methods: its contrastive methods.
        options: which of ``diagnostics`` (:attr:`TrainedRun.snapshots`) and ``save_encoder``
            (:attr:`TrainedRun.encoders`) it supports; the others are refused.
        reading: fields of :class:`~gcl_hard.experiments.embedding.Reading` that apply to some
            domains alone and that :meth:`items` reads, such as ``smiles``.
        shape: fields of an encoder file that give the encoder's shape, for :meth:`new_encoder`.
        scores_on_cpu: whether :meth:`score` works on the CPU, so that other processes can score
            while a GPU trains.
        has_validation: whether every run is scored on a validation part as well, so that choosing
            settings needs no further runs.
        chooses_once: whether settings are chosen by one run of each candidate that reads no test
            items; candidates that are not chosen are never tested.
        common_splits: whether split k is the same for all configurations and seeds, so that rows
            with different numbers of splits are compared on the first ones, and ± is over splits
            as well.
        unit: what the test part is a sample of, if intervals are over seeds and these units; empty
            if they are over seeds alone.
        item: what one sample is called; the plural adds an s.
        further_metrics: metrics that tables show beside the first, for records that have them.
        beside: metrics with a column beside another one; macro-F1 where classes are uneven.
        power: what makes smaller differences significant, said where some are not.
        controls: methods whose rows the others are compared with, by names of columns;
            :meth:`is_control` says which of their rows.
        averages_sets: whether tables have a row with the mean over the data sets of a command.
        usual_baselines: baselines that :func:`gcl_hard.evaluate` runs if none are named.
        quick: values of a smoke run (``--quick``).
        search_defaults: defaults in a search that differ from those of a single run.
        protocol_notes: what commands print about a protocol before they train.
        pretraining: what pre-training reads.
        searches_user_parts: whether a search takes encoders and data of the user's own.
        paper_values: values of settings in the H-SCL paper's experiments on this domain, where they
            differ from those of Table I.
    """

    methods: ClassVar[tuple[str, ...]] = tuple(METHODS)
    reading: ClassVar[frozenset[str]] = frozenset()
    options: ClassVar[frozenset[str]] = frozenset()
    shape: ClassVar[frozenset[str]] = frozenset()
    scores_on_cpu: ClassVar[bool] = False
    has_validation: ClassVar[bool] = False
    chooses_once: ClassVar[bool] = False
    common_splits: ClassVar[bool] = False
    unit: ClassVar[str] = ""
    item: ClassVar[str] = "item"
    further_metrics: ClassVar[tuple[str, ...]] = ()
    beside: ClassVar[Mapping[str, tuple[str, ...]]] = {"accuracy": ("f1_macro",)}
    power: ClassVar[str] = "more --seeds find smaller ones"
    controls: ClassVar[Mapping[str, str]] = {name: name for name in CONTROLS}
    averages_sets: ClassVar[bool] = False
    usual_baselines: ClassVar[tuple[str, ...]] = ("majority", "untrained")
    quick: ClassVar[Mapping[str, Any]] = {"seeds": (0, 1), "epochs": (3,), "beta": (1.0, 10.0)}
    search_defaults: ClassVar[Mapping[str, Any]] = {}
    protocol_notes: ClassVar[Mapping[str, str]] = {}
    pretraining: ClassVar[PretrainingData] = PretrainingData()
    searches_user_parts: ClassVar[bool] = False
    paper_values: ClassVar[Mapping[str, tuple[float, ...]]] = {}

    @abstractmethod
    def load(self, config: C, context: RunContext, user_data: D | None = None) -> D:
        """The data of a configuration, on ``context.device``.

        Args:
            config: names the data.
            context: ``data_dir`` is an offline mirror.
            user_data: the user's own data, instead of a named set.

        Raises:
            InputError: if they are not available.
        """

    @abstractmethod
    def facts(self, data: D) -> dict[str, Any]:
        """Facts for the record: sizes, and a ``"digest"``
        (:func:`gcl_hard.files.io.digest_of_arrays`) that tells data sets of the same name
        apart. If all runs are tested on the same items, ``"n_test"`` is their number.
        """

    def train(
        self, runs: Sequence[Run], data: D, context: RunContext, report: Report
    ) -> Iterator[TrainedRun]:
        """Train runs that share ``RunConfig.group_key``, or one run of any kind: by default one
        after the other, by :meth:`train_run`.
        """
        answers: list[bool] = []

        def noted(run: Run, share: float, loss: float) -> bool:
            answers.append(report(run, share, loss))
            return answers[-1]

        for run in runs:
            trained = self.train_run(run, data, context, noted)
            if not all(answers):  # it was stopped, and is not finished
                raise KeyboardInterrupt
            yield trained

    def train_run(self, run: Run, data: D, context: RunContext, report: Report) -> TrainedRun:
        """Train a run.

        Args:
            run: if it is ``inner``, a part of the training data is held out of all training and
                replaces the test items.
            data: what :meth:`load` returned.
            context: where and how.
            report: called with the run, the share of its training that is done, and the latest
                loss; on False training ends.

        Returns:
            The trained run, with the ``embeddings`` that :meth:`score` reads.
        """
        raise NotImplementedError(f"{type(self).__name__} defines neither train nor train_run")

    @abstractmethod
    def score(self, trained: TrainedRun, data: D, context: RunContext) -> Scored:
        """The predictions of a trained run for the test items."""

    def metrics(self, config: C, data: D) -> tuple[str, ...]:
        """Names of the metrics (:mod:`gcl_hard.evaluation.metrics`) that runs are scored by: tables
        show the first, and settings are chosen by it.
        """
        return ("accuracy",)

    def canonical_dataset(self, config: C) -> str:
        """The name of the data set as ``canonical_name`` of the domain's package spells it."""
        return getattr(namespace(config.domain), "canonical_name", str)(config.dataset)

    def files(self, config: C, data_dir: Path | None) -> list[Path]:
        """Files of the data set, if it is a named one; InputError if they are not available."""
        return []

    def set_name(self, config: C) -> str:
        """Name of the data set in tables."""
        return config.dataset

    def row_name(self, config: C) -> str:
        """Name of a row in tables, before the settings in which rows differ."""
        return config.method

    def row_fields(self, config: C) -> dict[str, Any]:
        """The fields ``representation``, ``share`` and ``split`` of a row, if it has them."""
        return {}

    def is_control(self, config: C, name: str, compared: C) -> bool:
        """Whether ``config`` is the control ``name`` that ``compared`` is compared with."""
        return config.method != compared.method

    def combined(self, configs: Sequence[C]) -> Sequence[C]:
        """The configurations of a command, without meaningless combinations."""
        return configs

    def of_seed(self, config: C, seed: int) -> C:
        """The configuration for a seed, which replaces ``{seed}`` in file names."""
        return config

    def seeds_used(self, config: C, seeds: Sequence[int]) -> tuple[int, ...]:
        """The requested seeds that a configuration is run with."""
        return tuple(seeds[:1] if config.is_deterministic else seeds)

    def resolved(self, config: C, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Settings resolved from the facts of the data, for the record."""
        return {}

    def reads_some_labels(self, config: C) -> bool:
        """Whether training reads the labels of some items and treats the others as unknown."""
        return False

    def sees_test_labels(self, config: C) -> bool:
        """Whether the encoder is trained with labels of the items that it is tested on."""
        return config.reads_labels and config.protocol == "transductive"

    def searches_on_test(self, config: C) -> bool:
        """Whether the trials of a search are scored on the test folds, because an encoder trains on
        all data.
        """
        return config.protocol == "transductive"

    def can_select(self, config: C) -> bool:
        """Whether settings can be chosen on data held out of every encoder's training data."""
        return config.encoders > 0 and config.protocol != "transductive"

    def validates(self, config: C) -> bool:
        """Whether runs of a configuration are scored on a validation part as well."""
        return self.has_validation

    def is_blind(self, record: RunResult) -> bool:
        """Whether the baseline of a record turned out to distinguish no two samples."""
        return False

    def test_share(self, config: C, facts: Mapping[str, Any]) -> float:
        """n_test / n_train of the test scores, for the correction of tests of differences.

        Args:
            config: the configuration.
            facts: the facts of the data in its record.

        Returns:
            That of K equal folds, 1 / (K − 1); 0 for one split.
        """
        return 1 / (config.n_scores - 1) if config.n_scores > 1 else 0.0

    def search_caution(self, config: C) -> str | None:
        """What a search says where its outer score is no test of its choice, or not comparable."""
        if self.common_splits and config.n_scores > 1:
            return f"splits overlap: what one of the {config.n_scores} tests on, others choose by"
        return None

    def unit_values(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of the test units, from values of the test items; both have the same mean."""
        return values

    def size(self, data: D) -> tuple[int, int]:
        """The ``size`` argument of :meth:`RunConfig.cost`."""
        return 1, 1

    def check(self, config: C, data: D, context: RunContext, *, inner: bool) -> None:
        """Raise InputError, before training, for what cannot be trained or scored."""
        return

    def advice(self, config: C, data: D) -> str | None:
        """A warning before the runs of a configuration start, such as of hours of work."""
        return None

    def remark(self, result: RunResult) -> str:
        """What is printed beside the score of a finished run, such as what it leaves out."""
        return ""

    def published(self, config: C) -> float | None:
        """The accuracy in percent that the H-SCL paper reports for a configuration, if any."""
        package = DOMAINS.get(config.domain)
        if package is None or not package.tables:
            return None
        return package.module("presets").published(config)

    def recipe(self, dataset: str) -> dict[str, Any]:
        """Our recipe for a data set by any of its names."""
        raise InputError(f"recipes exist for graphs only, and {dataset} holds {self.item}s")

    def user_names(self, config: C, parts: Any) -> dict[str, Any]:
        """Settings that name the user's own data, with the names that the data turned out to have.

        Args:
            config: the settings of a command.
            parts: the :class:`~gcl_hard.experiments.custom.UserParts` of the command; the data are
                added to it.

        Raises:
            InputError: if there are no such data, or two sets have one name.
        """
        return {}

    def fit(self, config: C, data: D, context: RunContext, seed: int) -> nn.Module:
        """A model trained on all data."""
        raise InputError(f"encoders of {config.domain} are not trained outside of runs")

    def new_encoder(self, config: C, saved: Mapping[str, Any], parts: Parts | None) -> nn.Module:
        """A new encoder of the shape of one in a file, to load its weights into.

        Args:
            config: its configuration.
            saved: the content of the file, with :attr:`shape`.
            parts: the user's own parts, by their names in configurations.
        """
        raise InputError(f"encoders of {config.domain} are not made again from files")

    def kept_model(self, encoder: nn.Module, saved: Mapping[str, Any]) -> Any:
        """The model that trained the encoder of a file, and goes on training it.

        Args:
            encoder: on the CPU, in evaluation mode.
            saved: the content of its file, with ``config``.
        """
        domain = saved["config"].domain
        raise InputError(f"this is an encoder of {domain}, not of links: load_encoder reads it")

    def answers(
        self, model: Any, questions: Any, *, columns: Sequence[str] | None, k: int, known: bool
    ) -> Iterator[dict[str, NDArray[Any]]]:
        """Answers to questions by a kept model, columns of some rows at a time.

        Args:
            model: from :meth:`kept_model`.
            questions: a table.
            columns: its columns, if they are not called as usual.
            k: answers to each question.
            known: whether known ones are among them.
        """
        raise NotImplementedError(f"{type(self).__name__} answers no questions")

    def items(
        self, encoder: nn.Module, saved: Mapping[str, Any], data: Any, reading: Reading
    ) -> Items:
        """What a trained encoder embeds, for ``gcl-hard embed``.

        Args:
            encoder: on the device of ``reading.context``, in evaluation mode.
            saved: the content of its file, with ``config``.
            data: name or path of the data, or the user's own.
            reading: how the data are read.

        Raises:
            InputError: for data that are not available, or that the encoder does not take.
        """
        raise InputError(
            f"encoders of {saved['config'].domain} embed nothing but what they were trained on: "
            f"--save-embeddings of python -m gcl_hard.bench writes that"
        )

    def exportable(self, encoder: nn.Module, saved: Mapping[str, Any]) -> Exportable:
        """What ``gcl-hard export`` writes of a trained encoder.

        Args:
            encoder: on the CPU, in evaluation mode.
            saved: the content of its file, with ``config``.

        Raises:
            InputError: for an encoder that cannot be exported; says why.
        """
        raise InputError(
            f"encoders of {saved['config'].domain} are not exported: their domain says no inputs"
        )

    def write_folder(self, encoder: nn.Module, folder: Path) -> None:
        """Write a trained encoder as a folder of another library, for ``gcl-hard export``.

        Raises:
            InputError: for encoders that no library has folders of.
        """
        raise InputError(
            f"{type(encoder).__name__} is exported to a file, NAME.onnx, .pt2 or .safetensors, got "
            f"{folder}"
        )

    def arrays(self, trained: TrainedRun, data: D) -> dict[str, NDArray[Any]]:
        """The embeddings of a trained run, with labels and folds, as they are saved."""
        return {"embeddings": np.asarray(trained.embeddings)}

    def check_encoder(self, make: Callable[..., nn.Module], data: D) -> None:
        """Raise InputError for an encoder of the user's own with other outputs than are read."""
        return

    def user_data(self, data: Any, name: str, settings: Mapping[str, Any]) -> D:
        """A set of the user's own data.

        Args:
            data: a set, or the objects to make one of.
            name: name of a set made of objects.
            settings: of the configuration.

        Raises:
            InputError: for objects that make no set.
        """
        return data

    def defaults_in_search(self, stated: Mapping[str, Any]) -> Mapping[str, Any]:
        """``search_defaults`` that go with the stated settings."""
        return self.search_defaults

    def data_settings(self, data: D, stated: Mapping[str, Any]) -> dict[str, Any]:
        """Settings that a set of the user's own fixes; InputError if others are stated."""
        return {}

    def file_facts(self, data: Any) -> dict[str, Any]:
        """What the file of an encoder would say of data given with an encoder without a file.

        Raises:
            InputError: for data that do not say how they are read.
        """
        raise InputError(
            f"an encoder by itself embeds a set of graphs, molecules, nodes or vectors, got "
            f"{type(data).__name__}: give its file NAME.pt, which says how its data were read"
        )

    def pretrains_on(self, source: str, data_dir: Path | None) -> bool:
        """Whether pre-training reads the data of a name or path."""
        return bool(namespace(self.pretraining.data).has_dataset(source, data_dir))

    def notes(self, result: RunResult) -> tuple[str, ...]:
        """Notes below tables on the data of a result and on its training."""
        return (*result.data.get("notes", ()), *result.data.get("remarks", ()))

    def page_remarks(self, results: Sequence[RunResult]) -> list[str]:
        """Remarks below the tables of a page, on all results in them."""
        return []

    def published_means(self, metric: str, n_sets: int) -> tuple[str, Mapping[str, float]]:
        """Published means of a metric over that many data sets, by method, and their source."""
        return "", {}


def refuse_together(context: RunContext, items: str) -> None:
    """Refuse processes of torchrun where a run is trained by one; ``items`` such as ``graphs``."""
    if context.processes > 1:
        raise InputError(
            f"processes of torchrun train image encoders together: {items} are trained side by "
            f"side, with --jobs N or --scheduler"
        )


def check_finite(outputs: Any, run: object) -> None:
    """DivergenceError unless all embeddings or predictions of a run are finite."""
    if not np.isfinite(outputs).all():
        raise DivergenceError(
            f"the embeddings are not finite ({run}), and nothing of it is saved: lower lr or beta, "
            f"raise temperature, or look at the encoder and the data"
        )


@contextmanager
def seeded_weights(seed: int, encoder: int) -> Iterator[int]:
    """Seed the initial weights made inside the block; yields a seed for augmentations.

    The global random state is left as it was.

    Args:
        seed: seed of the run.
        encoder: index of the encoder in the run.
    """
    weights, views = np.random.SeedSequence([seed, encoder]).generate_state(2, np.uint64)
    with torch.random.fork_rng(devices=[]):
        # The CPU's generator alone: torch.manual_seed would reseed every GPU for good.
        torch.default_generator.manual_seed(int(weights))
        yield int(views) >> 1


class Clock:
    """Measures the time of training and of scoring.

    Args:
        notes: keeps both times, in seconds, under ``"seconds"``; None for new ones.
    """

    def __init__(self, notes: dict[str, Any] | None = None) -> None:
        self.notes: dict[str, Any] = {} if notes is None else notes
        self._last = time.perf_counter()

    @property
    def seconds(self) -> tuple[float, float]:
        """Time of training, and of scoring."""
        train, evaluate = self.notes.get("seconds", (0.0, 0.0))
        return train, evaluate

    def pause(self) -> float:
        """Discard the time since the last call; returns it."""
        now = time.perf_counter()
        elapsed, self._last = now - self._last, now
        return elapsed

    def train(self) -> None:
        """Count the time since the last call as training."""
        train, evaluate = self.seconds
        self.notes["seconds"] = [train + self.pause(), evaluate]

    def evaluate(self) -> None:
        """Count the time since the last call as scoring."""
        train, evaluate = self.seconds
        self.notes["seconds"] = [train, evaluate + self.pause()]


Parts = Mapping[str, Callable[..., Any]]
"""The user's own encoders and augmentations, by the names that configurations have for them."""
