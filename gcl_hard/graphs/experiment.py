"""Experiments on graphs: TU data sets, GIN or another encoder, the nested SVM."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gcl_hard.core.setting import declared
from gcl_hard.errors import DivergenceError
from gcl_hard.evaluation import FoldScore
from gcl_hard.evaluation.folds import inner_folds, stopping_holdout
from gcl_hard.evaluation.metrics import score_of_logits
from gcl_hard.experiments.custom import own_part
from gcl_hard.experiments.domains import lent_encoders
from gcl_hard.experiments.embedding import Items, Reading
from gcl_hard.experiments.experiment import (
    ENCODERS,
    Clock,
    Experiment,
    Parts,
    PretrainingData,
    Report,
    RunContext,
    TrainedRun,
    refuse_together,
)
from gcl_hard.experiments.exporting import Exportable
from gcl_hard.experiments.record import RunResult, Scored
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import OwnTraining, of_part
from gcl_hard.graphs import GraphSet, Supervised, tudataset
from gcl_hard.graphs.embedded import items_of_graphs, named_as, with_columns_of
from gcl_hard.graphs.features import CODES, KINDS
from gcl_hard.graphs.models import GraphContrast, GraphModel
from gcl_hard.graphs.own import graphs_named, named, own_graphs
from gcl_hard.graphs.protocols import (
    check_classes,
    check_encoder,
    embeddings,
    folds_of,
    new_encoder,
    score_baseline,
    score_embeddings,
)
from gcl_hard.graphs.refinement import FEATURES, wl_start
from gcl_hard.graphs.settings import KERNELS, NOT_OF_MOLECULES, GraphConfig, reads_wl
from gcl_hard.graphs.training import Encoder, Result, train_encoders, use_threads
from gcl_hard.theory.snapshots import snapshot_epochs
from gcl_hard.training.stopping import EarlyStopping

if TYPE_CHECKING:
    from gcl_hard.experiments.custom import UserParts
    from gcl_hard.theory.diagnostics import DiagnosticsCallback


class GraphExperiment(Experiment[GraphConfig, GraphSet]):
    """Experiments on graphs; methods as in ``Experiment``."""

    scores_on_cpu: ClassVar[bool] = True
    item: ClassVar[str] = "graph"
    dataset_hint: ClassVar[str] = "graphs as --dataset"
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
    )  # fmt: skip
    options: ClassVar[frozenset[str]] = frozenset({"diagnostics", "save_encoder"})
    shape: ClassVar[frozenset[str]] = frozenset({"n_features", "edge_dim"})

    def load(
        self, config: GraphConfig, context: RunContext, own: GraphSet | None = None
    ) -> GraphSet:
        """The set, on the device."""
        from gcl_hard.graphs.encodings import encoded  # it imports NetworkX

        if own is None:
            own = tudataset.load(
                config.dataset, data_dir=context.data_dir,
                features="labels" if config.of_molecules else config.features,
            )  # fmt: skip
            own = lent_encoders().coded(own) if config.of_molecules else own
        return encoded(own, config.encodings or ()).to(torch.device(context.device))

    def facts(self, data: GraphSet) -> dict[str, Any]:
        """Sizes, the resolved kind of features, what WL takes of them if it is not all, and a
        digest of the graphs themselves.
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

    def canonical_dataset(self, config: GraphConfig) -> str:
        """As :func:`gcl_hard.graphs.tudataset.canonical_name`."""
        return tudataset.canonical_name(config.dataset)

    def files(self, config: GraphConfig, data_dir: Path | None) -> list[Path]:
        """Files of a set of TUDataset."""
        return tudataset.paths(config.dataset, data_dir=data_dir)

    def is_blind(self, record: RunResult) -> bool:
        """Whether a kernel has chosen no C, since it cannot tell any two graphs apart."""
        return record.run.config.method in KERNELS and not record.fold_c

    def test_share(self, config: GraphConfig, facts: Mapping[str, Any]) -> float:
        """That of equal folds, of which ``train_share`` is trained on."""
        return super().test_share(config, facts) / config.train_share

    def user_names(self, config: GraphConfig, parts: UserParts) -> dict[str, Any]:
        """The name of the set, which is imported if it is a ``module:Name``."""
        return named(config, parts)

    def published(self, config: GraphConfig) -> float | None:
        """That of Table II."""
        from gcl_hard.graphs.presets import published

        return published(config)

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
        """Faster probes, where the nested SVM of a run takes long; an encoder for molecules; what
        WL reads of real-valued features.
        """
        if data.features == CODES and config.encoder == "gin" and not config.is_baseline:
            return (
                "the features of these molecules are codes, which gin reads as sizes: "
                "--encoder molecule-gin embeds them"
            )
        said = []
        if reads_wl(config) and (start := wl_start(data)[1]) != FEATURES:
            said.append(
                f"hardly two graphs of {data.name} share the features of a node: WL starts from "
                f"their {start}"
            )
        # The labels that TU sets have for edges are read by no encoder either, unless asked for.
        if reads_wl(config) and any(not one.startswith("label=") for one in data.edge_columns):
            said.append(
                f"WL reads the features of nodes and who is linked, not the {data.edge_dim} "
                f"features of the edges of {data.name}"
            )
        embedded = not config.is_baseline or config.method == "untrained"
        hours = SVM_HOURS * (len(data) / 8000) ** 1.9
        if config.probe == "svm" and embedded and hours >= LONG:
            said.append(
                f"the SVM of {len(data)} graphs takes about {hours:.2g} hours a run; --probe "
                f"nystroem approximates it and --probe logistic is linear: both are many times "
                f"faster"
            )
        return "\n".join(said) or None

    def train(
        self, runs: Sequence[Run], data: GraphSet, context: RunContext, report: Report
    ) -> Iterator[TrainedRun]:
        """Train the encoders of runs, together where there are several; embed the graphs."""
        config = cast("GraphConfig", runs[0].config)
        use_threads(context, data, config)
        if config.encoders:
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
        (result,) = train_encoders([encoder], data)
        if isinstance(result.trained, DivergenceError):
            raise result.trained
        return result.trained.model

    def score(self, trained: TrainedRun, data: GraphSet, context: RunContext) -> Scored:
        """What the nested SVM predicts of the outer folds."""
        found = Scored.of(fold_scores(trained, data, context), data.y.cpu().numpy())
        return replace(found, facts=trained.facts)

    def new_encoder(
        self, config: GraphConfig, saved: Mapping[str, Any], parts: Parts | None
    ) -> nn.Module:
        """A GIN, or another encoder that the configuration names."""
        return new_encoder(config, saved["n_features"], saved["edge_dim"], parts)

    def items(
        self,
        encoder: nn.Module,
        saved: Mapping[str, Any],
        data: Any,
        context: RunContext,
        reading: Reading,
    ) -> Items:
        """Graphs, or all of their nodes, with the features that the encoder was trained on."""
        config, kind = saved["config"], saved.get("features")
        if kind in KINDS:
            config = replace(config, features=kind)
        if isinstance(data, str | Path):
            config, context = named_as(data, config, context)
            name = config.dataset
            own = graphs_named(name, config.features) if ":" in name else None
        else:
            own = own_graphs(data, name="custom", features=config.features)
        graphs = self.load(config, context, own)
        graphs, notes = with_columns_of(encoder, saved, graphs)
        _, digest = _digests(graphs)  # of the columns that the encoder reads
        device = torch.device(context.device)
        return items_of_graphs(encoder, graphs, digest, reading, device=device, notes=notes)

    def exportable(self, encoder: nn.Module, saved: Mapping[str, Any]) -> Exportable:
        """Nodes and graphs, of features, edges and pointers."""
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
    trained: TrainedRun, graphs: GraphSet, context: RunContext
) -> tuple[FoldScore, ...]:
    """The scores of the outer folds by the nested SVM, if training did not score them."""
    if trained.scores is not None:
        found: tuple[FoldScore, ...] = trained.scores
        return found
    run, config = trained.run, cast("GraphConfig", trained.run.config)
    folds = folds_of(config, graphs.y.cpu().numpy(), run.seed, inner=run.inner)
    own = len(trained.embeddings) > 1 or config.train_share < 1 or run.inner
    return score_embeddings(
        config, graphs, trained.embeddings, folds if own else None,
        seed=run.seed, n_jobs=context.threads or context.cores,
    )  # fmt: skip


SVM_HOURS, LONG = 205 / 3600, 0.2
"""Hours of the nested SVM for 8,000 graphs on two cores, measured, and those worth a remark."""


def _untrained(run: Run, graphs: GraphSet, context: RunContext) -> TrainedRun:
    """A run of a baseline without an encoder."""
    config = cast("GraphConfig", run.config)
    clock = Clock()
    if config.method == "untrained":
        model = Encoder(config, graphs, run.seed, parts=context.parts).build()
        clock.train()
        z = embeddings(model, graphs, config, run.seed)
        clock.evaluate()
        return TrainedRun(run, (), *clock.seconds, embeddings=(z,))
    folds = folds_of(config, graphs.y.cpu().numpy(), run.seed, inner=run.inner)
    n_jobs = context.threads or context.cores
    scores = score_baseline(config, graphs, folds, seed=run.seed, n_jobs=n_jobs)
    clock.evaluate()
    return TrainedRun(run, (), *clock.seconds, scores=scores)


class _InTraining:
    """Runs that share their encoders and differ in scoring.

    Args:
        run: the first of them.
        graphs: the set.
        context: names the encoder, and the epochs between two snapshots of the first one.
    """

    def __init__(self, run: Run, graphs: GraphSet, context: RunContext) -> None:
        config = cast("GraphConfig", run.config)
        every, own = context.options.diagnostics, context.parts
        self.config, self.runs = config, [run]
        self.labels = graphs.y.cpu().numpy()
        self.folds = folds_of(config, self.labels, run.seed, inner=run.inner)
        measured = bool(every) and not run.inner and not config.is_baseline
        epochs: Container[int] = snapshot_epochs(every, config.epochs) if measured else ()
        of_others: Container[int] = ()
        self.validation: list[NDArray[np.int64]] = []
        trained_on = self.folds
        if config.patience:
            trained_on = [
                stopping_holdout(fold.train, self.labels, seed=run.seed) for fold in self.folds
            ]
            self.validation = [one.test for one in trained_on]
            epochs = of_others = range(1, config.most_epochs + 1)
        if config.encoders == config.folds:
            self.encoders = [
                Encoder.of_fold(
                    config, graphs, run.seed, k, fold, parts=own,
                    snapshots=of_others if k else epochs,
                )
                for k, fold in enumerate(trained_on)
            ]  # fmt: skip
        else:
            self.encoders = [Encoder(config, graphs, run.seed, parts=own, snapshots=epochs)]
        self.states: dict[int, dict[str, Tensor]] | None = None
        if ENCODERS in context.saves(run):
            self.states = {}
        self.diagnostics: DiagnosticsCallback[GraphModel] | None = None
        if measured:
            from gcl_hard.graphs.snapshots import graph_sampler
            from gcl_hard.theory.diagnostics import DiagnosticsCallback

            first = self.encoders[0]
            make = partial(graph_sampler, config, first.graphs, first.held_out)
            self.diagnostics = DiagnosticsCallback(config.epochs, every, make)
        self.stopping: dict[int, EarlyStopping] = {}
        self.shares = [0.0] * config.encoders
        self.found: dict[int, tuple[float, Any]] = {}  # losses, and embeddings or scores
        self.left = config.encoders
        self.error: DivergenceError | None = None
        self.seconds_train = self.seconds_eval = 0.0

    def ends(self, k: int, epoch: int, model: GraphModel) -> bool:
        """Whether a supervised encoder ends, by the graphs that its fold holds out for this."""
        start = time.perf_counter()
        if k not in self.stopping:
            assert isinstance(model, Supervised)
            graphs, valid = self.encoders[k].graphs, torch.from_numpy(self.validation[k])
            held, y = graphs.batch(valid), graphs.y[valid]
            self.stopping[k] = EarlyStopping(
                model, lambda: score_of_logits(model.scores(held), y), patience=self.config.patience
            )
        goes_on = self.stopping[k](epoch)
        self.seconds_train += time.perf_counter() - start
        return not goes_on

    def embed(self, k: int, result: Result) -> None:
        """Keep the embeddings of a trained encoder; a supervised one is scored at once."""
        self.left -= 1
        self.seconds_train += result.seconds
        trained, encoder, start = result.trained, self.encoders[k], time.perf_counter()
        if isinstance(trained, DivergenceError):
            self.error = self.error or trained
            return
        if k in self.stopping:
            self.stopping[k].restore()
        if self.states is not None:
            state = trained.model.encoder.state_dict()
            self.states[k] = {name: value.detach().cpu().clone() for name, value in state.items()}
        if isinstance(trained.model, Supervised):
            fold = self.folds[k]
            predicted = trained.model.predict(encoder.graphs.all()).cpu().numpy()[fold.test]
            accuracy = float((predicted == self.labels[fold.test]).mean())
            score = FoldScore(
                accuracy, None, len(fold.train), len(fold.test), None,
                test=fold.test, predicted=predicted,
            )  # fmt: skip
            self.found[k] = trained.loss, score
        else:
            try:
                z = embeddings(trained.model, encoder.graphs, self.config, encoder.seed)
            except DivergenceError as error:
                self.error = self.error or error
                return
            self.found[k] = trained.loss, z
        self.seconds_eval += time.perf_counter() - start

    def trained(self) -> Iterator[TrainedRun]:
        """The runs, once all encoders are trained."""
        for run in self.runs:
            if self.error is not None:
                yield TrainedRun(run, error=self.error)
                continue
            losses, found = zip(*(self.found[k] for k in sorted(self.found)), strict=True)
            supervised = self.config.is_baseline
            one = TrainedRun(
                run, losses, self.seconds_train, self.seconds_eval,
                embeddings=() if supervised else found, scores=found if supervised else None,
            )  # fmt: skip
            if self.stopping:
                epochs = [self.stopping[k].best_epoch for k in sorted(self.stopping)]
                one.facts = {"best_epoch": epochs}
            if self.states is not None:
                one.encoders = self._saved(run)
            if (diagnostics := self.diagnostics) is not None:
                one.snapshots = tuple(diagnostics.snapshots)
                one.seconds_diagnostics = diagnostics.seconds
                one.points = diagnostics.points
            yield one

    def _saved(self, run: Run) -> dict[str, Any]:
        """What is saved of the encoders."""
        graphs = self.encoders[0].graphs
        assert self.states is not None
        held_out = [encoder.held_out for encoder in self.encoders]
        chosen_on = [torch.from_numpy(one) for one in self.validation]
        if chosen_on:  # the epoch, so that the encoder is not tested on them
            held_out = [
                None if one is None else one[~torch.isin(one, valid)]
                for one, valid in zip(held_out, chosen_on, strict=True)
            ]
        return {
            **({"validation": chosen_on} if chosen_on else {}),
            "encoders": [self.states[k] for k in sorted(self.states)],
            "held_out": held_out,
            "config": asdict(run.config),
            "seed": run.seed,
            "n_features": graphs.n_features,
            "edge_dim": graphs.edge_dim,
            "features": graphs.features,
            "columns": list(graphs.columns),
            "edge_columns": list(graphs.edge_columns),
        }


def _train_encoders(
    runs: Sequence[Run], graphs: GraphSet, context: RunContext, report: Report
) -> Iterator[TrainedRun]:
    """Train the encoders of several runs; yields a run as its last encoder ends."""
    alike: dict[Run, _InTraining] = {}
    for run in runs:
        if run.training in alike:
            alike[run.training].runs.append(run)
        else:
            alike[run.training] = _InTraining(run, graphs, context)
    owner = [(part, k) for part in alike.values() for k in range(part.config.encoders)]

    def on_epoch(of: Sequence[int], epoch: int, losses: Sequence[float]) -> None:
        means: dict[_InTraining, list[float]] = {}
        for number, loss in zip(of, losses, strict=True):
            part, k = owner[number]
            part.shares[k] = epoch / part.config.most_epochs
            means.setdefault(part, []).append(loss)
        for part, several in means.items():
            share = sum(part.shares) / len(part.shares)
            for run in part.runs:
                if not report(run, share, sum(several) / len(several)):
                    raise KeyboardInterrupt

    def on_snapshot(epoch: int, models: Mapping[int, GraphModel]) -> list[int]:
        ending = []
        for number, model in models.items():
            part, k = owner[number]
            if part.validation:
                ending += [number] if part.ends(k, epoch, model) else []
                continue
            assert part.diagnostics is not None
            assert isinstance(model, GraphContrast)
            part.diagnostics(epoch, model, model.loss.sampler.current)
        return ending

    encoders = [part.encoders[k] for part, k in owner]
    size = context.options.ensemble_size
    for result in train_encoders(encoders, graphs, size=size, on_epoch=on_epoch, see=on_snapshot):
        part, k = owner[result.number]
        part.embed(k, result)
        if not part.left:
            yield from part.trained()


EXPERIMENT = GraphExperiment
