"""Experiments on labelled items: an encoder for each split, and the protocols that score it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gcl_hard.errors import DivergenceError, InputError, calling_own
from gcl_hard.evaluation.folds import ThreeWaySplit, stopping_holdout
from gcl_hard.evaluation.metrics import metric
from gcl_hard.evaluation.splits import probe_splits, random_splits
from gcl_hard.experiments import hardware
from gcl_hard.experiments.custom import own_part
from gcl_hard.experiments.experiment import (
    Clock,
    Experiment,
    Report,
    RunContext,
    TrainedRun,
    check_finite,
    refuse_together,
    seeded_weights,
    silent,
)
from gcl_hard.experiments.record import Scored, Tested
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.training import TrainedEncoders, Training
from gcl_hard.files.tables import is_table
from gcl_hard.models import evaluating
from gcl_hard.training.stopping import EarlyStopping
from gcl_hard.vectors.data import LabelledItems, shuffled
from gcl_hard.vectors.models import (
    ItemClassifier,
    ItemContrast,
    ItemModel,
    View,
)
from gcl_hard.vectors.settings import (
    MAJORITY,
    RAW,
    SPLIT,
    SUPERVISED,
    UNTRAINED,
    ItemConfig,
)

EMBEDDED = 4096
"""Items that are embedded at a time."""
TRIED = 8
"""Items on which the user's own encoder is tried."""


class Inputs(Protocol):
    """What encoders read of the items of a set."""

    def __len__(self) -> int: ...

    def batch(self, ids: NDArray[np.int64]) -> Any:
        """Some items, as an encoder takes them, on its device."""


class ItemExperiment(Experiment[Any, Any]):
    """Experiments on items of any kind, embedded one by one; methods as in ``Experiment``.

    A kind of items defines :meth:`load`, :meth:`inputs`, :meth:`shape_of`, :meth:`new_encoder` and
    :meth:`raw`, and where it has some :meth:`views`, :meth:`fit_encoder` and :meth:`files`.
    """

    scores_on_cpu: ClassVar[bool] = True
    has_validation: ClassVar[bool] = True
    common_splits: ClassVar[bool] = True
    usual_baselines: ClassVar[tuple[str, ...]] = (MAJORITY, RAW, UNTRAINED, SUPERVISED)
    options: ClassVar[frozenset[str]] = frozenset({"save_encoder"})
    controls: ClassVar[Mapping[str, str]] = {"ucl": "ucl", "scl": "scl", RAW: RAW}
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": (0, 1), "epochs": (3,), "beta": (1.0,), "splits": 2
    }  # fmt: skip
    search_defaults: ClassVar[Mapping[str, Any]] = {"splits": 3}
    power: ClassVar[str] = "more --splits find smaller ones"

    def inputs(
        self, config: Any, data: Any, train: NDArray[np.int64], context: RunContext
    ) -> Inputs:
        """What encoders read of the items.

        Args:
            config: the configuration.
            data: the set.
            train: ids of the training part, the only items that anything is fitted to.
            context: has the device.
        """
        raise NotImplementedError

    def shape_of(self, config: Any, data: Any, inputs: Any) -> dict[str, Any]:
        """Fields of an encoder's file that :meth:`new_encoder` and :meth:`items` read."""
        raise NotImplementedError

    def fit_encoder(self, encoder: nn.Module, inputs: Any) -> None:
        """Fit to the training part what a new encoder has of it, such as means of columns."""
        return

    def views(self, config: Any, inputs: Any) -> View | None:
        """Makes a view of a batch by a generator; None if dropout in the encoder makes them."""
        return None

    def raw(self, config: Any, data: Any, inputs: Any) -> NDArray[np.float32]:
        """The embeddings that training begins at, [n, d]."""
        raise NotImplementedError

    def facts(self, data: LabelledItems) -> dict[str, Any]:
        """Sizes, classes, and a digest."""
        given = None if data.split is None else np.bincount(data.split[data.split >= 0])
        return {
            "n_items": len(data),
            "n_classes": data.n_classes,
            "class_names": list(data.class_names),
            "n_labelled": len(data.labelled),
            "digest": cast("Any", data).digest,
            **({} if given is None else {"given_split": given.tolist()}),
            **({"notes": list(data.notes)} if data.notes else {}),
        }

    def set_name(self, config: ItemConfig) -> str:
        """The name, of a table without its suffix."""
        return config.dataset.partition(".")[0] if is_table(config.dataset) else config.dataset

    def combined(self, configs: Sequence[ItemConfig]) -> Sequence[ItemConfig]:
        """Without the most frequent class where classes are not what is scored."""
        some = [c for c in configs if c.method != MAJORITY or c.protocol == SPLIT]
        return some or configs

    def reads_some_labels(self, config: ItemConfig) -> bool:
        """Label-aware training reads the labels of training items."""
        return config.reads_labels

    def sees_test_labels(self, config: ItemConfig) -> bool:
        """Never: encoders are trained on training items."""
        return False

    def searches_on_test(self, config: ItemConfig) -> bool:
        """Never: the trials of a search are scored on validation items."""
        return False

    def test_share(self, config: ItemConfig, facts: Mapping[str, Any]) -> float:
        """n_test / n_train of the first split; 0 for a single one."""
        return float(facts["n_test"] / facts["n_train"]) if config.n_scores > 1 else 0.0

    def size(self, data: LabelledItems) -> tuple[int, int]:
        """The number of items, twice."""
        return len(data), len(data)

    def check(
        self, config: ItemConfig, data: LabelledItems, context: RunContext, *, inner: bool
    ) -> None:
        """Refuse splits that cannot be used, and an encoder that does not fit."""
        refuse_together(context, f"{data.item}s")
        if data.n_classes < 2:
            raise InputError(
                f"{config.dataset}: labels of {data.item}s have {data.n_classes} classes, and "
                f"scores need at least two: name their column by --label"
            )
        splits = splits_of(config, data)
        for k, split in enumerate(splits):
            if len(np.unique(data.y[split.train])) < 2:
                raise InputError(
                    f"{config.dataset}: the training part of split {k} has {len(split.train)} "
                    f"{data.item}s of one class alone"
                )
        if own_part(getattr(config, "encoder", ""), context.parts) is not None:
            ids = splits[0].train[:TRIED]
            call = f"the encoder {config.encoder} fails on {len(ids)} {data.item}s"
            inputs = self.inputs(config, data, splits[0].train, context)
            with torch.random.fork_rng(devices=[]), calling_own(call):
                encoder = self.made_encoder(config, data, inputs, context)
                ItemModel(encoder).to(context.device).embed(inputs.batch(ids))

    def advice(self, config: ItemConfig, data: LabelledItems) -> str | None:
        """Warns of a given split that is not used."""
        if data.split is None or config.split != "random":
            return None
        return f"{config.dataset} comes with a split, which is not used: --split given uses it"

    def train(
        self, runs: Sequence[Run], data: LabelledItems, context: RunContext, report: Report
    ) -> Iterator[TrainedRun]:
        """Train the encoders that the runs share."""

        def shared(_: Run, share: float, loss: float) -> bool:
            answers = [report(run, share, loss) for run in runs]
            return all(answers)

        (trained,) = super().train(runs[:1], data, context, shared)
        for run in runs:
            encoders = trained.encoders and {**trained.encoders, "config": asdict(run.config)}
            yield replace(trained, run=run, encoders=encoders)

    def train_run(
        self, run: Run, data: LabelledItems, context: RunContext, report: Report
    ) -> TrainedRun:
        """Train an encoder for each split, and embed the items of its parts."""
        hardware.use_threads(context.threads, math.inf, 1, context.cores)
        config = cast("ItemConfig", run.config)
        if config.is_deterministic:
            return TrainedRun(run)
        try:
            encoders = _Encoders(self, run, data, context, report)
            return encoders.train() if config.encoders else encoders.untrained()
        except DivergenceError as error:
            return TrainedRun(run, error=error)

    def fit(
        self, config: ItemConfig, data: LabelledItems, context: RunContext, seed: int
    ) -> ItemModel:
        """A model trained on the first split."""
        hardware.use_threads(context.threads, math.inf, 1, context.cores)
        run, context = Run(config, seed), context.without_checkpoints()
        return _Encoders(self, run, data, context, silent).train_encoder(0)[0]

    def score(self, trained: TrainedRun, data: LabelledItems, context: RunContext) -> Scored:
        """Predictions for the test items of each split."""
        hardware.use_threads(context.threads, math.inf, 1, context.cores)
        config, splits = (
            cast("ItemConfig", trained.run.config),
            splits_of(cast("ItemConfig", trained.run.config), data),
        )
        folds, validation, chosen = [], [], []
        for k, split in enumerate(splits):
            z = self._embedded(trained, data, split, k, context)
            predicted, value, choice = _classified(config, z, data, split)
            part = split.valid if trained.run.inner else split.test
            folds.append(Tested(part, data.y[part], predicted[part]))
            validation.append(value)
            chosen += [] if choice is None else [choice]
        facts = dict(zip(("n_train", "n_valid", "n_test"), map(len, splits[0]), strict=True))
        return Scored(
            tuple(folds), chosen=tuple(chosen),
            validation=() if trained.run.inner else tuple(validation),
            facts={**facts, **trained.facts},
        )  # fmt: skip

    def _embedded(
        self, trained: TrainedRun, data: Any, split: ThreeWaySplit, k: int, context: RunContext
    ) -> Any:
        """The embeddings of split k, or the outputs of its classifier."""
        config = trained.run.config
        if trained.scores is not None:
            return trained.scores[k]
        if trained.embeddings is not None:
            return trained.embeddings[k]
        if config.method == MAJORITY:
            return None
        return self.raw(config, data, self.inputs(config, data, split.train, context))

    def arrays(self, trained: TrainedRun, data: LabelledItems) -> dict[str, NDArray[Any]]:
        """``embeddings`` float32 [splits, n, d], of items in no part 0, ``items``, their names,
        ``labels`` [n], −1 where unknown, and ``split`` int8 [splits, n]: 0 train, 1 validation,
        2 test, −1 in none.
        """
        splits = splits_of(cast("ItemConfig", trained.run.config), data)
        parts = np.full((len(splits), len(data)), -1, np.int8)
        for row, split in zip(parts, splits, strict=True):
            for number, ids in enumerate(split):
                row[ids] = number
        return {
            "embeddings": np.stack(trained.embeddings), "items": data.names, "labels": data.y,
            "split": parts,
        }  # fmt: skip

    def made_encoder(self, config: Any, data: Any, inputs: Any, context: RunContext) -> nn.Module:
        """A new encoder, with what it has of the training part."""
        encoder = self.new_encoder(config, self.shape_of(config, data, inputs), context.parts)
        self.fit_encoder(encoder, inputs)
        return encoder.to(context.device)


def splits_of(config: ItemConfig, data: LabelledItems) -> list[ThreeWaySplit]:
    """The splits of a configuration, the same for all methods and seeds.

    Raises:
        InputError: for a given split that the data do not have, or a part without items.
    """
    if config.split == "given":
        return [given_split(data)]
    assert config.shares is not None
    labelled = data.labelled
    shares = config.shares[0], config.shares[1]
    return random_splits(labelled, config.n_scores, shares=shares, labels=data.y[labelled])


def given_split(data: LabelledItems) -> ThreeWaySplit:
    """The labelled items of the given parts; a tenth of training is drawn for validation if there
    is none.
    """
    if data.split is None:
        raise InputError(f"{data.name} comes without a split: leave out split given")
    train, valid, test = (np.flatnonzero((data.split == part) & (data.y >= 0)) for part in range(3))
    if not len(valid):
        held_out = stopping_holdout(train, data.y, seed=0)
        train, valid = held_out.train, held_out.test
    return ThreeWaySplit(train, valid, test)


def _classified(
    config: ItemConfig, z: Any, data: LabelledItems, split: ThreeWaySplit
) -> tuple[NDArray[Any], float, float | None]:
    """The class of every item, the accuracy on validation items, and the chosen penalty."""
    if config.method in (MAJORITY, SUPERVISED):
        known = np.bincount(data.y[split.train])
        predicted = np.full(len(data), known.argmax()) if z is None else z.argmax(1)
        score = metric("accuracy").score(data.y[split.valid], predicted[split.valid])
        return predicted, score, None
    (probed,) = probe_splits(z, data.y, [split])
    return probed.predicted, probed.validation, probed.chosen


class _Encoders(TrainedEncoders):
    """The encoders of a run, one a split, trained one after the other.

    Args:
        experiment: has what the kind of items decides.
        run: the run.
        data: the set.
        context: the device, and the user's own parts.
        report: called after every batch.
    """

    def __init__(
        self, experiment: ItemExperiment, run: Run, data: LabelledItems, context: RunContext,
        report: Report,
    ) -> None:  # fmt: skip
        super().__init__(run, context, lambda: lambda model: None)
        self.experiment, self.run, self.data = experiment, run, data
        self.config: Any = run.config
        self.context, self.report = context, report
        self.splits = splits_of(self.config, data)
        self.y = torch.from_numpy(data.y).to(context.device)

    def train(self) -> TrainedRun:
        """Train the encoders, and embed the items by each.

        Raises:
            DivergenceError: for a loss or embeddings that are not finite.
        """
        saved: dict[str, Any] = {}
        for k in range(self.config.encoders):
            model, loss, stopping, clock, inputs = self.train_encoder(k)
            output = self._outputs(model, inputs, self.splits[k])
            self.add(k, model.encoder, loss, output, stopping)
            saved = self.experiment.shape_of(self.config, self.data, inputs)
            clock.evaluate()
            self.seconds_train += clock.seconds[0]
            self.seconds_eval += clock.seconds[1]
        return self.trained(self.run, saved)

    def untrained(self) -> TrainedRun:
        """Embed the items by encoders with new weights."""
        clock, outputs = Clock(), []
        for k, split in enumerate(self.splits):
            inputs = self._inputs(k)
            with seeded_weights(self.run.seed, k):
                encoder = self.experiment.made_encoder(self.config, self.data, inputs, self.context)
            outputs.append(self._outputs(ItemModel(encoder), inputs, split))
        clock.evaluate()
        return TrainedRun(self.run, (), *clock.seconds, embeddings=tuple(outputs))

    def train_encoder(self, k: int) -> tuple[ItemModel, float, EarlyStopping | None, Clock, Inputs]:
        """The k-th encoder, trained, with its last loss, early stopping, time and inputs."""
        config, device = self.config, torch.device(self.context.device)
        inputs, ids = self._inputs(k), self._trained_on(k)
        with seeded_weights(self.run.seed, k) as seed:
            encoder = self.experiment.made_encoder(config, self.data, inputs, self.context)
            model: ItemModel = (
                ItemClassifier(encoder, self.data.n_classes)
                if config.method == SUPERVISED
                else ItemContrast(
                    encoder, loss=config.loss(seed), views=self.experiment.views(config, inputs),
                    n_views=config.views or 2, projection=getattr(config, "projection", None),
                    seed=seed,
                )
            )  # fmt: skip
        n_batches = math.ceil(len(ids) / config.batch_size)

        def batches(epoch: int) -> Iterator[tuple[Any, Tensor]]:
            for batch in shuffled(ids, config.batch_size, config.data_seed, k, epoch):
                yield inputs.batch(batch), self.y[torch.from_numpy(batch).to(device)]

        training = Training(
            self.run, self.context, self.report, n_batches=n_batches, number=k,
            total=config.encoders,
        )  # fmt: skip
        stopping = self._stopping(k, model, inputs)
        losses = training.train(
            model.to(device), batches, config.optimisation(), device=device, seed=seed,
            stopping=stopping,
        )  # fmt: skip
        return model, losses[-1], stopping, training.clock, inputs

    def _inputs(self, k: int) -> Inputs:
        train = self.splits[k].train
        return self.experiment.inputs(self.config, self.data, train, self.context)

    def _trained_on(self, k: int) -> NDArray[np.int64]:
        """The training items of split k; under ``split`` also those without a label that are in no
        other given part, unless training needs labels.
        """
        ids = self.splits[k].train
        if self.config.method == SUPERVISED or self.config.protocol != SPLIT:
            return ids
        without = self.data.y < 0
        if self.config.split == "given":
            assert self.data.split is not None
            without &= self.data.split <= 0
        return np.union1d(ids, np.flatnonzero(without))

    def _stopping(self, k: int, model: ItemModel, inputs: Inputs) -> EarlyStopping | None:
        """Stops supervised training by the validation items of split k."""
        if not self.config.patience or not isinstance(model, ItemClassifier):
            return None
        valid = self.splits[k].valid

        def score() -> tuple[float, float]:
            logits = torch.from_numpy(self._scores(model, inputs, valid))
            y = self.data.y[valid]
            likelihood = -float(nn.functional.cross_entropy(logits, torch.from_numpy(y)))
            return metric("accuracy").score(y, logits.argmax(1).numpy()), likelihood

        return EarlyStopping(model, score, patience=self.config.patience)

    def _outputs(
        self, model: ItemModel, inputs: Inputs, split: ThreeWaySplit
    ) -> NDArray[np.float32]:
        """Logits of a classifier, embeddings otherwise, of the items in the parts of a split; 0 of
        all others.
        """
        used = np.concatenate(split)
        values = self._scores(model, inputs, used)
        check_finite(values, self.run)
        outputs = np.zeros((len(inputs), values.shape[1]), np.float32)
        outputs[used] = values
        return outputs

    def _scores(
        self, model: ItemModel, inputs: Inputs, ids: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        parts = []
        for start in range(0, len(ids), EMBEDDED):
            batch = inputs.batch(ids[start : start + EMBEDDED])
            if isinstance(model, ItemClassifier):
                with evaluating(model):
                    parts.append(model.classifier(model.encode(batch)).float().cpu().numpy())
            else:
                parts.append(model.embed(batch))
        return np.concatenate(parts)
