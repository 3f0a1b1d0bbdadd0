"""Experiments on graphs: TU data sets, GIN or another encoder, the nested SVM."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from gcl_hard.core.setting import declared
from gcl_hard.errors import DivergenceError, InputError
from gcl_hard.evaluation.folds import FoldScore, inner_folds, stopping_holdout
from gcl_hard.evaluation.metrics import score_of_logits
from gcl_hard.experiments.custom import own_part
from gcl_hard.experiments.domains import lent_encoders
from gcl_hard.experiments.embedding import Items
from gcl_hard.experiments.experiment import (
    Clock,
    Experiment,
    Parts,
    PretrainingData,
    Reading,
    Report,
    RunContext,
    TrainedRun,
    refuse_together,
)
from gcl_hard.experiments.exporting import Exportable
from gcl_hard.experiments.record import RunResult, Scored
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import OwnTraining, of_part
from gcl_hard.experiments.training import TrainedEncoders
from gcl_hard.graphs import protocols, training, tudataset
from gcl_hard.graphs.data import GraphSet
from gcl_hard.graphs.embedded import items_of_graphs, named_as, with_columns_of
from gcl_hard.graphs.features import CODES, KINDS
from gcl_hard.graphs.models import GraphClassifier, GraphContrast, GraphModel
from gcl_hard.graphs.own import graphs_named, own_graphs
from gcl_hard.graphs.protocols import (
    check_classes,
    check_encoder,
    folds_of,
    new_encoder,
    score_baseline,
)
from gcl_hard.graphs.refinement import FEATURES, wl_start
from gcl_hard.graphs.settings import KERNELS, MOLECULE_GIN, NOT_OF_MOLECULES, GraphConfig, reads_wl
from gcl_hard.graphs.training import Encoder, GivenFold, Result, use_threads
from gcl_hard.theory.snapshots import snapshot_epochs
from gcl_hard.training.stopping import EarlyStopping

if TYPE_CHECKING:
    from gcl_hard.experiments.custom import EncoderMaker, UserParts
    from gcl_hard.theory.diagnostics import Sampler


class GraphExperiment(Experiment[GraphConfig, GraphSet]):
    """Experiments on graphs; methods as in ``Experiment``."""

    scores_on_cpu: ClassVar[bool] = True
    item: ClassVar[str] = "graph"
    power: ClassVar[str] = "larger training parts (--folds) and more --seeds find smaller ones"
    search_defaults: ClassVar[Mapping[str, Any]] = {"protocol": "inductive"}
    protocol_notes: ClassVar[Mapping[str, str]] = {
        "transductive": (
            "protocol transductive, the paper's: encoders see all graphs, so accuracies compare "
            "with the paper's; --protocol inductive estimates the accuracy on new graphs"
        ),
        "inductive": (
            "protocol inductive: encoders see training graphs alone, which estimates the accuracy "
            "on new graphs; --protocol transductive is the paper's"
        ),
    }
    pretraining: ClassVar[PretrainingData] = PretrainingData(
        "molecules",
        (*of_part(GraphConfig, "split"), *of_part(GraphConfig, "probe"), *NOT_OF_MOLECULES,
         "encoder", *declared(OwnTraining)),
        ("labels", "loader_workers"),
        {"dataset": "MOSES", "method": "hucl", "contrast": "two-view", "encoder": MOLECULE_GIN,
         "augmentations": ("mask-attributes", "mask-columns", "drop-nodes"), "layers": 4, "dim": 64,
         "epochs": 1, "batch_size": 256, "lr": 0.001},
    )  # fmt: skip
    reading: ClassVar[frozenset[str]] = frozenset({"level"})
    options: ClassVar[frozenset[str]] = frozenset({"diagnostics", "save_encoder"})
    shape: ClassVar[frozenset[str]] = frozenset({"n_features", "edge_dim"})
    searches_user_parts: ClassVar[bool] = True
    paper_values: ClassVar[Mapping[str, tuple[float, ...]]] = {"beta": (1.0, 2.0, 10.0)}

    def load(
        self, config: GraphConfig, context: RunContext, user_data: GraphSet | None = None
    ) -> GraphSet:
        """The set, on the device."""
        from gcl_hard.graphs.encodings import encoded  # it imports NetworkX

        graphs = user_data
        if graphs is None:
            graphs = tudataset.load_graphs(
                config.dataset, data_dir=context.data_dir,
                features="labels" if config.of_molecules else config.features,
            )  # fmt: skip
            graphs = lent_encoders().coded(graphs) if config.of_molecules else graphs
        return encoded(graphs, config.encodings or ()).to(torch.device(context.device))

    def facts(self, data: GraphSet) -> dict[str, Any]:
        """Sizes, the resolved kind of features, what WL starts from if not from all of them, and
        digests of the graphs.
        """
        digest, edge_digest = _digests(data)
        start = wl_start(data)[1]
        return {
            "n_graphs": data.n_graphs,
            "n_classes": data.n_classes,
            "n_features": data.n_features,
            "features": data.features,
            "digest": digest,
            "edge_digest": edge_digest,
            **({} if start == FEATURES else {"wl_start": start}),
            **({"class_names": list(data.class_names)} if data.class_names else {}),
        }

    def files(self, config: GraphConfig, data_dir: Path | None) -> list[Path]:
        """Files of a set of TUDataset."""
        return tudataset.paths(config.dataset, data_dir=data_dir)

    def is_blind(self, record: RunResult) -> bool:
        """Whether a kernel chose no C, because it distinguishes no two graphs."""
        return record.run.config.method in KERNELS and not record.fold_c

    def test_share(self, config: GraphConfig, facts: Mapping[str, Any]) -> float:
        """That of equal folds, of whose training part ``train_share`` is used."""
        return super().test_share(config, facts) / config.train_share

    def user_names(self, config: GraphConfig, parts: UserParts) -> dict[str, Any]:
        """The name of the set; a ``module:Name`` is imported."""
        dataset, names = config.dataset, parts.names
        if ":" in dataset and dataset not in names:
            graphs = graphs_named(dataset, config.features)
            if parts.graphs.setdefault(graphs.name, graphs) is not graphs:
                raise InputError(f"two sets are named {graphs.name}: give each a name of its own")
            names[dataset] = graphs.name
        return {"dataset": names.get(dataset, dataset)}

    def recipe(self, dataset: str) -> dict[str, Any]:
        """Our recipe for a data set."""
        from gcl_hard.graphs.presets import recipe

        return recipe(dataset)

    def size(self, data: GraphSet) -> tuple[int, int]:
        """Nodes and graphs."""
        return data.n_nodes, data.n_graphs

    def check(
        self, config: GraphConfig, data: GraphSet, context: RunContext, *, inner: bool
    ) -> None:
        """Refuse a set without classes or with one too small, and an encoder that does not fit."""
        refuse_together(context, "graphs")
        check_classes(data)
        if (make := own_part(config.encoder, context.parts)) is not None:
            check_encoder(make, data)
        labels = data.y.cpu().numpy()
        for fold in folds_of(config, labels, seed=0, inner=inner):
            inner_folds(labels[fold.train], n_inner=5, seed=0)

    def advice(self, config: GraphConfig, data: GraphSet) -> str | None:
        """Suggests a faster probe if the nested SVM takes long, and an encoder for molecules; says
        what WL reads of real-valued features.
        """
        if data.features == CODES and config.encoder == "gin" and not config.is_baseline:
            return (
                "the features of these molecules are codes, which gin reads as sizes: "
                "--encoder molecule-gin embeds them"
            )
        remarks = []
        if reads_wl(config) and (start := wl_start(data)[1]) != FEATURES:
            remarks.append(
                f"hardly two graphs of {data.name} share the features of a node: WL starts from "
                f"their {start}"
            )
        # Edge labels of TU sets are read by no encoder either, unless requested.
        if reads_wl(config) and any(not name.startswith("label=") for name in data.edge_columns):
            remarks.append(
                f"WL reads the features of nodes and who is linked, not the {data.edge_dim} "
                f"features of the edges of {data.name}"
            )
        embedded = not config.is_baseline or config.method == "untrained"
        hours = SVM_HOURS * (len(data) / 8000) ** 1.9
        if config.probe == "svm" and embedded and hours >= LONG:
            remarks.append(
                f"the SVM of {len(data)} graphs takes about {hours:.2g} hours a run; --probe "
                f"nystroem approximates it and --probe logistic is linear: both are many times "
                f"faster"
            )
        return "\n".join(remarks) or None

    def train(
        self, runs: Sequence[Run], data: GraphSet | GivenFold, context: RunContext, report: Report
    ) -> Iterator[TrainedRun]:
        """Train the encoders of runs, several of them together, and embed the graphs."""
        config = cast("GraphConfig", runs[0].config)
        use_threads(context, data if isinstance(data, GraphSet) else data.graphs, config)
        if config.encoders or isinstance(data, GivenFold):
            yield from _train_encoders(runs, data, context, report)
            return
        for run in runs:
            yield _untrained(run, data, context)

    def fit(
        self, config: GraphConfig, data: GraphSet, context: RunContext, seed: int
    ) -> GraphModel:
        """A model trained on all graphs."""
        use_threads(context, data, config)
        encoder = Encoder(config, data, seed, parts=context.parts)
        (result,) = training.train_encoders([encoder], data)
        if isinstance(result.loss, DivergenceError):
            raise result.loss
        return result.model

    def score(self, trained: TrainedRun, data: GraphSet | GivenFold, context: RunContext) -> Scored:
        """The predictions of the nested SVM for the outer folds."""
        graphs = data if isinstance(data, GraphSet) else data.embedded
        scored = Scored.of(fold_scores(trained, data, context), graphs.y.cpu().numpy())
        return replace(scored, facts=trained.facts)

    def new_encoder(
        self, config: GraphConfig, saved: Mapping[str, Any], parts: Parts | None
    ) -> nn.Module:
        """A GIN, or another encoder that the configuration names."""
        return new_encoder(config, saved["n_features"], saved["edge_dim"], parts)

    def items(
        self, encoder: nn.Module, saved: Mapping[str, Any], data: Any, reading: Reading
    ) -> Items:
        """Graphs, or all of their nodes, with the features that the encoder was trained on."""
        config, kind = saved["config"], saved.get("features")
        if kind in KINDS:
            config = replace(config, features=kind)
        if isinstance(data, str | Path):
            config, context = named_as(data, config, reading.context)
            name = config.dataset
            loaded = graphs_named(name, config.features) if ":" in name else None
        else:
            context = reading.context
            loaded = own_graphs(data, name="custom", features=config.features)
        graphs = self.load(config, context, loaded)
        graphs, notes = with_columns_of(encoder, saved, graphs)
        _, digest = _digests(graphs)  # of the columns that the encoder reads
        return items_of_graphs(encoder, graphs, digest, reading, notes=notes)

    def exportable(self, encoder: nn.Module, saved: Mapping[str, Any]) -> Exportable:
        """Embeddings of nodes and graphs, from features, edges and pointers."""
        from gcl_hard.graphs.exported import graphs_exportable

        return graphs_exportable(encoder, saved)

    def arrays(self, trained: TrainedRun, data: GraphSet) -> dict[str, NDArray[Any]]:
        """``embeddings`` float32 [encoders, G, d], ``ids`` [G], ``labels`` [G], and ``fold`` [G].

        ``fold`` is the number of the fold that a graph is tested in: under the protocol
        ``inductive`` encoder k has not seen the graphs of fold k.
        """
        run, labels = trained.run, data.y.cpu().numpy()
        number = np.empty(len(labels), np.int64)
        folds = folds_of(cast("GraphConfig", run.config), labels, run.seed)
        for k, fold in enumerate(folds):
            number[fold.test] = k
        z = np.stack(trained.embeddings).astype(np.float32)
        return {"embeddings": z, "ids": data.names, "labels": labels, "fold": number}

    def check_encoder(self, make: EncoderMaker, data: GraphSet) -> None:
        """Embed two graphs with it."""
        check_encoder(make, data)

    def user_data(self, data: Any, name: str, settings: Mapping[str, Any]) -> GraphSet:
        """As :func:`gcl_hard.graphs.own.own_graphs`."""
        return own_graphs(data, name=name, features=settings.get("features", "auto"))

    def data_settings(self, data: GraphSet, stated: Mapping[str, Any]) -> dict[str, Any]:
        """The kind of features, except for codes of molecules, which no setting chooses."""
        if stated.get("features", data.features) != data.features:
            raise InputError(
                f"these graphs have the features {data.features} already, not "
                f"{stated['features']}: leave features out"
            )
        return {} if data.features == CODES else {"features": data.features}

    def file_facts(self, data: Any) -> dict[str, Any]:
        """Graphs have the features that the encoder reads."""
        if isinstance(data, str | Path | torch.Tensor) or not isinstance(data, Iterable):
            return super().file_facts(data)
        return {"features": "stored"}

    def notes(self, result: RunResult) -> tuple[str, ...]:
        """Also the labels that WL starts from, where they are not the features."""
        start = result.data.get("wl_start")
        read = start and reads_wl(cast("GraphConfig", result.run.config))
        return (*super().notes(result), *[f"WL starts from {start}"] * bool(read))


def _digests(data: GraphSet) -> tuple[str, str]:
    """Digests of graphs, without and with edge features."""
    digest = hashlib.sha256()
    for tensor in (data.x, data.edge_index, data.y, data.node_ptr):
        digest.update(tensor.cpu().contiguous().numpy().tobytes())
    edges = digest.copy()
    if data.edge_attr is not None:
        edges.update(data.edge_attr.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16], edges.hexdigest()[:16]


def fold_scores(
    trained: TrainedRun, data: GraphSet | GivenFold, context: RunContext
) -> tuple[FoldScore, ...]:
    """The scores of the outer folds by the nested SVM, if training did not score them."""
    if trained.scores is not None:
        return trained.scores
    run, config = trained.run, cast("GraphConfig", trained.run.config)
    if isinstance(data, GivenFold):
        graphs, folds, of_encoders = data.embedded, [data.fold], True
    else:
        graphs, folds = data, folds_of(config, data.y.cpu().numpy(), run.seed, inner=run.inner)
        of_encoders = len(trained.embeddings) > 1 or config.train_share < 1 or run.inner
    return protocols.score_embeddings(
        config, graphs, trained.embeddings, folds if of_encoders else None,
        seed=run.seed, n_jobs=context.threads or context.cores,
    )  # fmt: skip


SVM_HOURS, LONG = 205 / 3600, 0.2
"""Measured hours of the nested SVM for 8,000 graphs on two cores, and hours worth a remark."""


def _untrained(run: Run, graphs: GraphSet, context: RunContext) -> TrainedRun:
    """A run of a baseline without an encoder."""
    config = cast("GraphConfig", run.config)
    clock = Clock()
    if config.method == "untrained":
        model = Encoder(config, graphs, run.seed, parts=context.parts).build()
        clock.train()
        z = protocols.embeddings(model, graphs, config, run.seed)
        clock.evaluate()
        return TrainedRun(run, (), *clock.seconds, embeddings=(z,))
    folds = folds_of(config, graphs.y.cpu().numpy(), run.seed, inner=run.inner)
    n_jobs = context.threads or context.cores
    scores = score_baseline(config, graphs, folds, seed=run.seed, n_jobs=n_jobs)
    clock.evaluate()
    return TrainedRun(run, (), *clock.seconds, scores=scores)


class _SharedEncoders(TrainedEncoders):
    """The encoders of runs that differ only in scoring.

    Args:
        run: the first of them.
        data: the set, or a fold that runs are trained and scored on.
        context: names the encoder, and the epochs between two snapshots of the first one.
    """

    def __init__(self, run: Run, data: GraphSet | GivenFold, context: RunContext) -> None:
        super().__init__(run, context, self._sampler)
        config, seed, parts = cast("GraphConfig", run.config), run.seed, context.parts
        self.config, self.runs = config, [run]
        epochs: Sequence[int] = ()
        if self.diagnostics is not None:
            epochs = snapshot_epochs(context.options.diagnostics, config.epochs)
        if context.interim is not None:
            epochs = context.interim.epochs(config.epochs)
        self.validation: list[NDArray[np.int64]] = []
        if isinstance(data, GivenFold):
            self.folds, self.embedded = [data.fold], [data.embedded]
            self.encoders = [data.encoder(config, data.graphs, seed, parts=parts, snapshots=epochs)]
        else:
            labels = data.y.cpu().numpy()
            trained_on = self.folds = folds_of(config, labels, seed, inner=run.inner)
            epochs_of_others: Sequence[int] = ()
            if config.patience:
                trained_on = [
                    stopping_holdout(fold.train, labels, seed=seed) for fold in trained_on
                ]
                self.validation = [fold.test for fold in trained_on]
                epochs = epochs_of_others = range(1, config.most_epochs + 1)
            if config.encoders == config.folds:
                self.encoders = [
                    Encoder.of_fold(
                        config, data, seed, k, fold, parts=parts,
                        snapshots=epochs_of_others if k else epochs,
                    )
                    for k, fold in enumerate(trained_on)
                ]  # fmt: skip
            else:
                self.encoders = [Encoder(config, data, seed, parts=parts, snapshots=epochs)]
            self.embedded = [encoder.graphs for encoder in self.encoders]
        self.stopping: dict[int, EarlyStopping] = {}
        self.shares = [0.0] * len(self.encoders)
        self.left = len(self.encoders)
        self.error: DivergenceError | None = None

    def _sampler(self) -> Sampler[GraphModel]:
        from gcl_hard.graphs.snapshots import graph_sampler

        first = self.encoders[0]
        return graph_sampler(self.config, first.graphs, first.held_out)

    def ends(self, k: int, epoch: int, model: GraphModel) -> bool:
        """Whether a supervised encoder stops, by the graphs that its fold holds out for this."""
        start = time.perf_counter()
        if k not in self.stopping:
            assert isinstance(model, GraphClassifier)
            graphs, valid = self.encoders[k].graphs, torch.from_numpy(self.validation[k])
            held, y = graphs.batch(valid), graphs.y[valid]
            self.stopping[k] = EarlyStopping(
                model, lambda: score_of_logits(model.scores(held), y), patience=self.config.patience
            )
        goes_on = self.stopping[k](epoch)
        self.seconds_train += time.perf_counter() - start
        return not goes_on

    def trained_so_far(self, k: int, model: GraphModel) -> list[TrainedRun]:
        """The runs with their only encoder as trained by now."""
        try:
            z = self._embeddings(k, model)
        except DivergenceError as error:
            return [TrainedRun(run, error=error) for run in self.runs]
        return [TrainedRun(run, embeddings=(z,)) for run in self.runs]

    def end(self, k: int, result: Result) -> None:
        """Keep the embeddings of a trained encoder; a supervised one is scored at once."""
        self.left -= 1
        self.seconds_train += result.seconds
        model, stopping, start = result.model, self.stopping.get(k), time.perf_counter()
        if isinstance(result.loss, DivergenceError):
            self.error = self.error or result.loss
            return
        if stopping is not None:
            stopping.restore()
        try:
            output = (
                self._score(k, model)
                if isinstance(model, GraphClassifier)
                else self._embeddings(k, model)
            )
        except DivergenceError as error:
            self.error = self.error or error
            return
        self.add(k, model.encoder, result.loss, output, stopping)
        self.seconds_eval += time.perf_counter() - start

    def _embeddings(self, k: int, model: GraphModel) -> NDArray[np.float64]:
        return protocols.embeddings(model, self.embedded[k], self.config, self.encoders[k].seed)

    def _score(self, k: int, model: GraphClassifier) -> FoldScore:
        fold, graphs = self.folds[k], self.embedded[k]
        predicted = model.predict(graphs.all()).cpu().numpy()[fold.test]
        accuracy = float((predicted == graphs.y.cpu().numpy()[fold.test]).mean())
        return FoldScore(
            accuracy, None, len(fold.train), len(fold.test), None,
            test=fold.test, predicted=predicted,
        )  # fmt: skip

    def ended(self) -> Iterator[TrainedRun]:
        """The runs, once all encoders are trained."""
        for run in self.runs:
            if self.error is not None:
                yield TrainedRun(run, error=self.error)
            else:
                yield self.trained(run, self._saved())

    def _saved(self) -> dict[str, Any]:
        """Content of the encoder file beside the weights."""
        graphs = self.encoders[0].graphs
        held_out = [encoder.held_out for encoder in self.encoders]
        chosen_on = [torch.from_numpy(ids) for ids in self.validation]
        if chosen_on:  # to choose the epoch, so the encoder is not tested on them
            held_out = [
                None if ids is None else ids[~torch.isin(ids, valid)]
                for ids, valid in zip(held_out, chosen_on, strict=True)
            ]
        return {
            **({"validation": chosen_on} if chosen_on else {}),
            "held_out": held_out,
            "n_features": graphs.n_features,
            "edge_dim": graphs.edge_dim,
            "features": graphs.features,
            "columns": list(graphs.columns),
            "edge_columns": list(graphs.edge_columns),
        }


def _train_encoders(
    runs: Sequence[Run], data: GraphSet | GivenFold, context: RunContext, report: Report
) -> Iterator[TrainedRun]:
    """Train the encoders of several runs; yields a run when its last encoder ends."""
    alike: dict[Run, _SharedEncoders] = {}
    for run in runs:
        if run.training in alike:
            alike[run.training].runs.append(run)
        else:
            alike[run.training] = _SharedEncoders(run, data, context)
    owner = [(shared, k) for shared in alike.values() for k in range(len(shared.encoders))]

    def on_epoch(numbers: Sequence[int], epoch: int, losses: Sequence[float]) -> None:
        means: dict[_SharedEncoders, list[float]] = {}
        for number, loss in zip(numbers, losses, strict=True):
            shared, k = owner[number]
            shared.shares[k] = epoch / shared.config.most_epochs
            means.setdefault(shared, []).append(loss)
        for shared, several in means.items():
            share = sum(shared.shares) / len(shared.shares)
            for run in shared.runs:
                if not report(run, share, sum(several) / len(several)):
                    raise KeyboardInterrupt

    def on_snapshot(epoch: int, models: Mapping[int, GraphModel]) -> list[int]:
        if context.interim is not None:
            trained = [
                run
                for number, model in models.items()
                for shared, k in [owner[number]]
                for run in shared.trained_so_far(k, model)
            ]
            pruned = context.interim.pruned(epoch, trained)
            return [n for n in models if all(run in pruned for run in owner[n][0].runs)]
        ending = []
        for number, model in models.items():
            shared, k = owner[number]
            if shared.validation:
                ending += [number] if shared.ends(k, epoch, model) else []
                continue
            assert shared.diagnostics is not None
            assert isinstance(model, GraphContrast)
            shared.diagnostics(epoch, model, model.loss.sampler.current)
        return ending

    encoders = [shared.encoders[k] for shared, k in owner]
    graphs = data.graphs if isinstance(data, GivenFold) else data
    size = context.options.ensemble_size
    for result in training.train_encoders(
        encoders, graphs, size=size, on_epoch=on_epoch, see=on_snapshot
    ):
        shared, k = owner[result.number]
        shared.end(k, result)
        if not shared.left:
            yield from shared.ended()


EXPERIMENT = GraphExperiment
