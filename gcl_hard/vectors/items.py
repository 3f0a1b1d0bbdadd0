"""Experiments on labelled items: an encoder for each split, and the protocols that score it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gcl_hard.errors import DivergenceError, InputError, calling_own
from gcl_hard.evaluation.folds import ThreeWaySplit, stopping_holdout
from gcl_hard.evaluation.metrics import score_of_logits
from gcl_hard.evaluation.ood import NEIGHBOURS
from gcl_hard.evaluation.retrieval import KS, retrieve
from gcl_hard.evaluation.splits import class_draws, known_draws, random_splits
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
)
from gcl_hard.experiments.protocols import (
    BESIDE,
    LINEAR,
    MAJORITY,
    METRIC,
    OOD,
    SPLIT,
    UNSEEN,
    ProtocolScore,
    classified,
    linear_map,
    of_one_protocol,
    protocol_score,
)
from gcl_hard.experiments.record import Scored
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
from gcl_hard.vectors.settings import RAW, SUPERVISED, UNTRAINED, ItemConfig

LEAST = {
    (UNSEEN, "valid"): max(KS) + 1,
    (UNSEEN, "test"): max(KS) + 1,
    (OOD, "train"): NEIGHBOURS + 1,
}
"""The fewest items of parts, for R@k and for the neighbours of detectors."""
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

    Attributes:
        sets: the class of its sets.
    """

    sets: ClassVar[type[LabelledItems]] = LabelledItems
    scores_on_cpu: ClassVar[bool] = True
    has_validation: ClassVar[bool] = True
    beside: ClassVar[Mapping[str, tuple[str, ...]]] = BESIDE
    common_splits: ClassVar[bool] = True
    usual_baselines: ClassVar[tuple[str, ...]] = (MAJORITY, RAW, UNTRAINED, SUPERVISED)
    options: ClassVar[frozenset[str]] = frozenset({"save_encoder"})
    controls: ClassVar[Mapping[str, str]] = {"ucl": "ucl", "scl": "scl", RAW: RAW}
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": (0, 1), "epochs": (3,), "beta": (1.0,), "splits": 2
    }  # fmt: skip
    search_defaults: ClassVar[Mapping[str, Any]] = {"splits": 3}
    power: ClassVar[str] = "more --splits find smaller ones"

    def defaults_in_search(self, stated: Mapping[str, Any]) -> Mapping[str, Any]:
        """Several splits, unless the data come with one."""
        return {} if stated.get("split") == "given" else self.search_defaults

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

    def user_data(self, data: Any, name: str, settings: Mapping[str, Any]) -> Any:
        """A set of :attr:`sets` as it is."""
        if not isinstance(data, self.sets):
            raise InputError(
                f"{self.item}s are a {self.sets.__name__}, such as by its from_table, got "
                f"{type(data).__name__}"
            )
        return data

    def set_name(self, config: ItemConfig) -> str:
        """The name, of a table without its suffix."""
        return config.dataset.partition(".")[0] if is_table(config.dataset) else config.dataset

    def combined(self, configs: Sequence[ItemConfig]) -> Sequence[ItemConfig]:
        """Without the most frequent class where classes are not what is scored."""
        return of_one_protocol(configs)

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
        """n_test / n_train of the first of several splits, of items or under unseen of classes."""
        if config.n_scores == 1:
            return 0.0
        unit = "{}_classes" if config.protocol == UNSEEN else "n_{}"
        return float(facts[unit.format("test")] / facts[unit.format("train")])

    def is_control(self, config: ItemConfig, name: str, compared: ItemConfig) -> bool:
        """Whether it is another method on the same share of known classes."""
        return config.known == compared.known and super().is_control(config, name, compared)

    def search_caution(self, config: ItemConfig) -> str | None:
        """Also where validation and test rank among different numbers of classes."""
        if config.protocol == UNSEEN:
            return "rankings among other classes, of another number: the two scores do not compare"
        return super().search_caution(config)

    def metrics(self, config: ItemConfig, data: LabelledItems) -> tuple[str, ...]:
        """The accuracy, MAP@R, or the macro-F1 with an open class."""
        return (METRIC[config.protocol],)

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
            for name, ids in split._asdict().items():
                kinds, counts = np.unique(data.y[ids], return_counts=True)
                least = LEAST.get((config.protocol, name), 1)
                one_class = name == "train" and len(kinds) < 2
                all_alone = config.protocol == UNSEEN and counts.max(initial=0) < 2
                if len(ids) < least or one_class or all_alone:
                    raise InputError(
                        f"{config.dataset}: the {name} part of split {k} has {len(ids)} "
                        f"{data.item}s of {len(kinds)} classes, and {config.protocol} needs "
                        f"{least} or more, of two classes{', two of one' * all_alone}"
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
        unused = data.split is not None and config.split == "random"
        if not unused or (config.protocol == UNSEEN and not _has_disjoint_classes(data)):
            return None
        return f"{config.dataset} comes with a split, which is not used: --split given uses it"

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

    def score(self, trained: TrainedRun, data: LabelledItems, context: RunContext) -> Scored:
        """Predictions for the test items of each split."""
        hardware.use_threads(context.threads, math.inf, 1, context.cores)
        splits = splits_of(cast("ItemConfig", trained.run.config), data)
        scored = [self._score(trained, data, split, k, context) for k, split in enumerate(splits)]
        first, facts = splits[0], dict[str, Any]()
        for name, ids in first._asdict().items():
            facts[f"n_{name}"] = len(ids)
            facts[f"{name}_classes"] = len(np.unique(data.y[ids]))
        remarks = [
            f"{words}, all splits together: {n:,}"
            for words, n in (
                (f"{data.item}s alone in their class, which are ranked and are no queries",
                 sum(score.n_alone for score in scored)),
                ("places in rankings with a cosine that another has, too, where the earlier comes "
                 "first", sum(score.n_tied for score in scored)),
            ) if n
        ]  # fmt: skip
        return Scored(
            tuple(score.tested for score in scored),
            chosen=tuple(score.chosen for score in scored if score.chosen is not None),
            validation=() if trained.run.inner else tuple(score.validation for score in scored),
            facts={**facts, **trained.facts, **({"remarks": remarks} if remarks else {})},
        )

    def _score(
        self, trained: TrainedRun, data: Any, split: ThreeWaySplit, k: int, context: RunContext
    ) -> ProtocolScore:
        """The score of split k."""
        config, inner = trained.run.config, trained.run.inner
        if config.method == MAJORITY:
            most = np.bincount(data.y[split.train]).argmax()
            return classified(np.full(len(data), most), data.y, split, inner=inner)
        shrinkage, outputs = None, trained.embeddings or trained.scores
        if outputs is not None:
            z = outputs[k]
        else:
            z = self.raw(config, data, self.inputs(config, data, split.train, context))
        if config.method == SUPERVISED and config.protocol == SPLIT:
            return classified(z.argmax(1), data.y, split, inner=inner)
        if config.method in LINEAR:
            z, shrinkage = linear_map(config.method, z, data.y, split, config.protocol)
        score = protocol_score(config.protocol, z, data.y, split, inner=inner)
        return score if shrinkage is None else score._replace(chosen=shrinkage)

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
        if config.protocol == UNSEEN:
            return [given_classes(data)]
        splits = [given_split(data)] * config.n_scores
    else:
        assert config.shares is not None
        if config.protocol == UNSEEN:
            return class_draws(data.y, config.n_scores, shares=config.shares, least=max(KS) + 1)
        labelled, shares = data.labelled, (config.shares[0], config.shares[1])
        splits = random_splits(labelled, config.n_scores, shares=shares, labels=data.y[labelled])
    return known_draws(data.y, splits, config.known) if config.known else splits


def _has_disjoint_classes(data: LabelledItems) -> bool:
    """Whether no class is in two parts of the given split."""
    split = _given(data)
    seen = np.union1d(data.y[split.train], data.y[split.valid])
    return not len(np.intersect1d(seen, data.y[split.test]))


def given_split(data: LabelledItems) -> ThreeWaySplit:
    """The labelled items of the given parts; a tenth of training is drawn for validation if there
    is none.
    """
    split = _given(data)
    if len(split.valid):
        return split
    held_out = stopping_holdout(split.train, data.y, seed=0)
    return split._replace(train=held_out.train, valid=held_out.test)


def given_classes(data: LabelledItems) -> ThreeWaySplit:
    """The labelled items of the given parts, whose classes are disjoint; a fifth of the training
    classes is drawn for validation if there is none.

    Raises:
        InputError: for a class in two parts; names it.
    """
    split = _given(data)
    parts = [np.unique(data.y[ids]) for ids in split]
    kinds, counts = np.unique(np.concatenate(parts), return_counts=True)
    if (counts > 1).any():
        raise InputError(
            f"{data.name}: class {data.class_names[kinds[counts.argmax()]]} is in several parts of "
            f"the given split, and those of unseen have classes of their own"
        )
    if len(split.valid):
        return split
    order = np.random.default_rng(0).permutation(parts[0])
    is_valid = np.isin(data.y[split.train], order[: max(2, round(len(order) / 5))])
    return split._replace(train=split.train[~is_valid], valid=split.train[is_valid])


def _given(data: LabelledItems) -> ThreeWaySplit:
    if data.split is None:
        raise InputError(f"{data.name} comes without a split: leave out split given")
    parts = (np.flatnonzero((data.split == part) & (data.y >= 0)) for part in range(3))
    return ThreeWaySplit(*parts)


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
        y = self.data.y[valid]

        def score() -> float | tuple[float, float]:
            if self.config.protocol == UNSEEN:
                return retrieve(self._values(model, inputs, valid), y).map_at_r
            logits = torch.from_numpy(self._values(model, inputs, valid, logits=True))
            return score_of_logits(logits, torch.from_numpy(y))

        return EarlyStopping(model, score, patience=self.config.patience)

    def _outputs(
        self, model: ItemModel, inputs: Inputs, split: ThreeWaySplit
    ) -> NDArray[np.float32]:
        """Embeddings, under ``split`` logits of a classifier, of the items in the parts of a split;
        0 of all others.
        """
        used = np.concatenate(split)
        values = self._values(model, inputs, used, logits=self.config.protocol == SPLIT)
        check_finite(values, self.run)
        outputs = np.zeros((len(inputs), values.shape[1]), np.float32)
        outputs[used] = values
        return outputs

    def _values(
        self, model: ItemModel, inputs: Inputs, ids: NDArray[np.int64], *, logits: bool = False
    ) -> NDArray[np.float32]:
        """Embeddings of some items, or the logits of a classifier."""
        parts = []
        with evaluating(model):
            for start in range(0, len(ids), EMBEDDED):
                z = model.encode(inputs.batch(ids[start : start + EMBEDDED]))
                if logits and isinstance(model, ItemClassifier):
                    z = model.classifier(z)
                parts.append(z.float().cpu().numpy())
        return np.concatenate(parts)
