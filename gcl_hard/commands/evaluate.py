"""Evaluation of your own encoders and graphs from Python."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from gcl_hard.commands.datasets import (
    DEFAULT,
    domain_of,
    domains_of_objects,
    named_paths,
    naming,
    with_domain,
)
from gcl_hard.commands.encoders import encoders_of, read_encoders
from gcl_hard.commands.execute import execute
from gcl_hard.commands.options import BenchOptions, all_values, bench_configs
from gcl_hard.errors import GclHardError, InputError, check_option
from gcl_hard.experiments.custom import EncoderMaker, UserParts, check_maker, is_one_graph
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.experiment import EMBEDDINGS, ENCODERS, OPTIONS, Experiment, RunOptions
from gcl_hard.experiments.logs import Logger
from gcl_hard.experiments.options import as_path
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import RunConfig, defaults, encoder_name, known
from gcl_hard.experiments.store import Store
from gcl_hard.experiments.values import as_seeds, unknown_setting, warn_of_unread

if TYPE_CHECKING:
    from gcl_hard.evaluation.significance import PairedTest
    from gcl_hard.graphs import GraphSet
    from gcl_hard.images import ImageSet
    from gcl_hard.links import LinkSet
    from gcl_hard.nodes import NodeSet
    from gcl_hard.reports.frame import Results
    from gcl_hard.texts import TextSet
    from gcl_hard.vectors import VectorSet


def evaluate(
    encoder: EncoderMaker | str | Sequence[EncoderMaker | str],
    data: str
    | Path
    | GraphSet
    | NodeSet
    | LinkSet
    | ImageSet
    | VectorSet
    | TextSet
    | Iterable[Any],
    method: str | Sequence[str] = "hscl",
    *,
    protocol: str | Sequence[str] | None = None,
    seeds: int | Sequence[int] = 5,
    baselines: Sequence[str] | None = None,
    select: bool = False,
    metric: str | Sequence[str] | None = None,
    control: str | Sequence[str] | None = None,
    name: str = "custom",
    output: str | Path = "results",
    report: str | Path | None = None,
    save_encoder: bool | None = None,
    save_embeddings: bool = True,
    force: bool = False,
    jobs: int = 1,
    scheduler: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    data_dir: str | Path | None = None,
    progress: bool = True,
    logger: Logger | None = None,
    **settings: Any,
) -> Evaluation:
    """Evaluate encoders on data, both perhaps your own, as the command ``bench`` does.

    For every encoder, method and seed, encoders are trained from new weights and scored as the
    domain is: embeddings of graphs by the nested SVM, those of nodes and images by a linear probe,
    links by ranks, on the folds, splits or facts that baselines are scored on. Finished seeds are
    kept in ``output``: the same call loads them, and one with changed code, data or settings trains
    again.

    Args:
        encoder: called as ``encoder(n_features)`` for every training, with ``edge_dim=K`` too if it
            has such a parameter; returns a module ``(x, edge_index, batch) -> (nodes [N, d],
            graphs [G, d])``, or of nodes ``(x, edge_index) -> [N, d]``, with an ``out_dim`` (docs:
            bring your own); of images called as ``encoder()``; of links as ``bench --encoder``
            says. Or a name, such as ``"gin"``, ``"sage"``, ``"resnet18"`` or ``"module:Name"``; or
            several of these, which are compared in one table.
        data: a set of graphs, of nodes, links, images, vectors or texts; graphs that
            :meth:`GraphSet.from_graphs` takes; name or path of a set that ``bench`` takes, of
            molecules too; or ``"module:name"`` of graphs or of a function that returns some.
        method: one or several of ``METHODS``.
        protocol: ``"inductive"`` (default): an encoder for each fold, trained on its training
            graphs; ``"transductive"``: the paper's, one encoder trained on all graphs; of nodes
            transductive alone.
        seeds: a count, or a list of whole numbers.
        baselines: ``"majority"``, ``"graph-size"``, ``"label-histogram"``, ``"wl"``, ``"wl-oa"``,
            ``"untrained"`` or ``"supervised"``, of nodes also ``"raw"`` and ``"sgc"``; the
            untrained and the supervised one use your encoder. Majority and untrained if None, of
            nodes all, of links frequency and untrained.
        select: whether settings with several values are chosen inside training folds.
        metric: one or several scores that are shown, such as ``"balanced_accuracy"`` or
            ``"f1_macro"``, computed from predictions; tests and ``select`` use the first. The
            usual one if None.
        control: methods or labels of the rows that the others are compared with, such as ``"raw"``
            or the name of an encoder; ``ucl`` and ``scl``, or the first row, if None.
        name: name of your graphs in results, unless they are a set, which has one.
        output: folder of the results.
        report: page to write, NAME.md with figures next to it, or NAME.html, one file.
        save_encoder: whether trained encoders are kept in ``output``; if None, of domains whose
            runs do so, which are all of this package.
        save_embeddings: whether embeddings are.
        force: whether finished runs are repeated.
        jobs: ≥ 1 processes; more than one needs ``if __name__ == "__main__"`` in a script.
        scheduler: address of a Dask scheduler that has workers, or None.
        device: ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
        threads: CPU threads, None to choose.
        data_dir: folder with your sets.
        progress: whether progress is shown.
        logger: takes losses and scores as they come, by ``log_metrics(metrics, step)``, as the
            loggers of Lightning do.
        **settings: of :class:`GraphConfig` or :class:`NodeConfig`: ``epochs``, ``batch_size``,
            ``contrast``, …; of ``beta``, ``threshold_start``, ``threshold_end``, ``lr`` and
            ``epochs`` a list gives every combination. ``augmentations`` may be functions, as of
            :class:`TwoView`.

    Returns:
        The table, and the embeddings and encoders behind it.

    Raises:
        InputError: for anything that cannot be run, before training; says what would be.
        GclHardError: if no run was finished; says why. A single failure is a warning.

    Source:
        The protocols are those of docs: protocols; a fold's encoder never sees the graphs that it
        is tested on (``inductive``).

    Example:
        >>> import tempfile
        >>> from gcl_hard.graphs import GIN, load_graphs
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     evaluation = evaluate(GIN, load_graphs("MUTAG"), "hscl", seeds=1, folds=2, epochs=1,
        ...                           output=folder, progress=False)
        ...     evaluation.embeddings("hscl").shape, len(evaluation.encoders("hscl"))
        ((2, 188, 96), 2)
        >>> evaluation.table["method"].tolist()
        ['hscl', 'majority', 'untrained']
    """
    from rich.console import Console

    user_parts = UserParts()
    data = str(data) if isinstance(data, Path) else data
    if not isinstance(name, str):
        raise InputError(f"name must be a word, got {name!r}")
    config_class = config_class_of(data, data_dir, settings)
    experiment = experiment_of(config_class)
    beside = experiment.usual_baselines if baselines is None else baselines
    for setting in settings:
        if setting == "dataset" or setting not in defaults(config_class):
            raise unknown_setting(setting, config_class)
    values = {"table": None, "recipe": "paper"} | all_values(config_class, settings)
    values["method"] = (*_as_tuple(method), *_as_tuple(beside))
    estimates = known(config_class)["protocol"].usual({"method": config_class.baselines[0]})
    values["protocol"] = _as_tuple(estimates if protocol is None else protocol)
    if not values["method"]:
        raise InputError("method and baselines are empty: give at least one")
    values["encoder"] = _encoder_names(encoder, user_parts)
    if values.get("augmentations"):
        values["augmentations"] = tuple(
            user_parts.add(augmentation) if callable(augmentation) else augmentation
            for augmentation in _as_tuple(values["augmentations"])
        )
    if isinstance(data, str):
        where = _where(data, data_dir, settings)
        data_dir = where.get("data_dir")
        values |= {key: where[key] for key in ("dataset", *naming("files_beside")) if key in where}
    else:
        user_set, fixed = user_set_of(experiment, data, name, values, settings)
        values |= fixed
        values["dataset"], user_parts.graphs[user_set.name] = (user_set.name,), user_set
    configs = bench_configs(config_class, values, None, {*values})
    warn_of_unread(configs, {name: values[name] for name in settings})
    if save_encoder is None:
        save_encoder = "save_encoder" in experiment.options
    metrics = (metric,) if isinstance(metric, str) else tuple(metric or ())
    options = BenchOptions(
        configs=tuple(dict.fromkeys(configs)),
        run=RunOptions(save_encoder=save_encoder, save_embeddings=save_embeddings),
        select=select, metric=metrics or None, seeds=as_seeds(seeds), output=Path(output),
        force=force, jobs=jobs, scheduler=scheduler, device=device, threads=threads,
        data_dir=as_path(data_dir), report=as_path(report),
        control=None if control is None else _as_tuple(control),
    )  # fmt: skip
    results, failures = execute(options, user_parts, Console(quiet=not progress), logger)
    if not results.records:
        raise GclHardError("\n".join(failures))
    for failure in failures:
        warnings.warn(failure, stacklevel=2)
    if options.report is not None:
        from gcl_hard.reports.page import write

        write(results, options.report, command="gcl_hard.evaluate(…)", quick=False)
    return Evaluation(results, options.output, user_parts)


def _encoder_names(encoder: Any, user_parts: UserParts) -> tuple[str, ...]:
    """Names of encoders in configurations; the user's own are added to the parts."""
    makers = _as_tuple(encoder)
    if not makers:
        raise InputError("encoder is empty: give at least one")
    for maker in makers:
        if not isinstance(maker, str):
            check_maker(maker)
    return tuple(maker if isinstance(maker, str) else user_parts.add(maker) for maker in makers)


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def user_set_of(
    experiment: Experiment[Any, Any], data: Any, name: str, values: Mapping[str, Any],
    stated: Mapping[str, Any],
) -> tuple[Any, dict[str, Any]]:  # fmt: skip
    """A set of the user's own data, and the settings that it fixes.

    Args:
        experiment: of its domain.
        data: the data.
        name: name of a set that has none.
        values: settings by which it is read.
        stated: those that the user states.
    """
    user_set = experiment.user_data(data, name, values)
    if not hasattr(user_set, "name"):
        raise InputError(f"{type(user_set).__name__} is no set of {experiment.item}s")
    return user_set, experiment.data_settings(user_set, stated)


def config_class_of(
    data: Any, data_dir: str | Path | None, settings: Mapping[str, Any]
) -> type[RunConfig]:
    """The class of configurations for some data."""
    if isinstance(data, str):
        return CONFIGS[DEFAULT if ":" in data else domain_of(_where(data, data_dir, settings))]
    if is_one_graph(data):
        raise InputError(
            f"this is one graph, a {type(data).__name__}: for contrast between its nodes give "
            f"gcl_hard.nodes.NodeSet.from_graph(graph), and of several graphs a list"
        )
    return CONFIGS[domains_of_objects(data)[0]]


def _where(name: str, data_dir: str | Path | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Name and folder of a set given by name or path, with settings that go with them."""
    naming_data = (naming("marks") | naming("files_beside")).keys() & settings.keys()
    stated = with_domain({key: settings[key] for key in naming_data} | {"dataset": (name,)})
    if data_dir is not None:
        stated["data_dir"] = Path(data_dir)
    return stated | named_paths(stated)


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Results of :func:`evaluate`.

    Attributes:
        results: accuracies of all finished runs.
        folder: folder of the results.
        user_parts: your encoders and graphs.
    """

    results: Results
    folder: Path
    user_parts: UserParts

    @cached_property
    def table(self) -> Any:
        """A pandas ``DataFrame``, a row for each method and baseline.

        Columns: settings that are not the default, the score, its spread, and tests against the
        controls; of several metrics the rows of one after those of the other.
        """
        from gcl_hard.reports.rows import rows, rows_frame

        return rows_frame(rows(self.results))

    def __repr__(self) -> str:
        from rich.console import Console

        from gcl_hard.reports import tables
        from gcl_hard.reports.rows import rows

        console = Console(width=100, force_terminal=False)
        with console.capture() as captured:
            console.print(tables.terminal(rows(self.results)))
        return captured.get().rstrip()

    def plot(self, path: str | Path | None = None, *, protocol: str | None = None) -> Any:
        """Mean scores with 95 % intervals, as on a page.

        Args:
            path: file to write, NAME.pdf, NAME.svg or NAME.png; None for none.
            protocol: protocol of the rows to draw, if there are several.

        Returns:
            Matplotlib's figure.

        Raises:
            InputError: for several protocols without a choice, or without a finished run.
        """
        from gcl_hard.reports import theme
        from gcl_hard.reports.result_figures import score_figure
        from gcl_hard.reports.rows import rows

        shown = rows(self.results)
        protocols = [*dict.fromkeys(row.protocol for row in shown)]
        if protocol is None and len(protocols) > 1:
            raise InputError(f"there are runs of {' and '.join(protocols)}: say which by protocol")
        protocol = check_option("protocol", protocol or protocols[0], protocols)
        figure = score_figure([row for row in shown if row.protocol == protocol])
        if figure is None:
            raise InputError("no run is finished: there is nothing to draw")
        if path is not None:
            theme.save(figure, Path(path))
        return figure

    def embeddings(
        self, method: str | None = None, seed: int | None = None, **settings: Any
    ) -> NDArray[np.float32]:
        """Embeddings of all graphs by the encoders of one run, in the order of its folds.

        Args:
            method: a method, or ``"untrained"``; None for the first.
            seed: None for the first.
            **settings: those that tell it from other runs of the method, such as ``beta=2``.

        Returns:
            float32 [encoders, n, d]; under the protocol ``inductive`` encoder k has not seen the
            graphs of fold k. [n, d] where one encoder serves all splits, as of nodes.

        Raises:
            InputError: for a run that was not asked for, is not finished or was not saved.
        """
        run, path = self._file(method, seed, settings, EMBEDDINGS)
        with np.load(path) as saved:
            self._check_data(run, path, str(saved["data"]))
            embeddings: NDArray[np.float32] = saved["embeddings"]
        return embeddings

    def encoders(
        self, method: str | None = None, seed: int | None = None, **settings: Any
    ) -> list[nn.Module]:
        """Trained encoders of one run, one per fold or one; arguments as of :meth:`embeddings`."""
        run, path = self._file(method, seed, settings, ENCODERS)
        saved = read_encoders(path)
        self._check_data(run, path, saved["data"])
        return encoders_of(path, saved, self.user_parts.parts)

    def confusion(self, method: str | None = None, **settings: Any) -> Any:
        """Confusion matrix of the test items, over all folds and seeds.

        Args:
            method: a method or baseline; None for the first.
            **settings: those that tell it from other runs of the method, such as ``beta=2``.

        Returns:
            A pandas ``DataFrame`` of counts, true classes down and predicted ones across.

        Raises:
            InputError: for a run that was not asked for, or has no predictions of classes.
        """
        from gcl_hard.reports.rows import confusion

        config = self._config(method, settings)
        counts = confusion(self.results.of(config))
        if counts is None:
            raise InputError(f"{config} has no predicted classes")
        return counts

    def compare_items(
        self,
        ours: str | Mapping[str, Any],
        theirs: str | Mapping[str, Any] = "ucl",
        *,
        metric: str | None = None,
    ) -> PairedTest:
        """The paired test of two methods over test items, from the predictions of both.

        Tables test over folds, which asks how methods do on other training data. This asks how
        these encoders do on other items: seeds and items vary, the training data do not.

        Args:
            ours: a method or baseline; a row as the table prints it, such as ``"hscl β=2"``, which
                other methods here take, too; or settings that tell it, ``{"method": "hscl",
                "beta": 2}``.
            theirs: the row to compare with.
            metric: a mean over items, such as ``"accuracy"``; that of the table if None.

        Returns:
            Mean of ours less theirs in the unit of the metric, its 95 % interval, and p.

        Raises:
            InputError: for a row that was not asked for, results without predictions of the same
                items, or a metric that is no mean over items, such as macro-F1.
        """
        from gcl_hard.reports.frame import over_items

        configs = [
            self._config(row, {}) if isinstance(row, str) else self._config(None, {**row})
            for row in (ours, theirs)
        ]
        first, second = map(self.results.of, configs)
        if not first or not second:
            raise InputError(f"{configs[0 if not first else 1]} has no finished run")
        return over_items(first, second, metric)

    def _check_data(self, run: Run, path: Path, digest: str) -> None:
        """Refuse files that runs on other data have overwritten."""
        if digest != self.results.records[run].data["digest"]:
            raise InputError(
                f"{path} now belongs to other graphs named {run.config.dataset}: give every set "
                f"its own name, as in evaluate(…, name='mine')"
            )

    def _file(
        self, method: str | None, seed: int | None, settings: dict[str, Any], suffix: str
    ) -> tuple[Run, Path]:
        config = self._config(method, settings)
        run = Run(config, self.results.seeds[0] if seed is None else seed)
        if run not in self.results.records:
            raise InputError(f"{run} is not among the finished runs")
        path = Store(self.folder).file(self.results.records[run].run, suffix)
        if not path.exists():
            content = "encoders" if suffix == ENCODERS else "embeddings"
            if suffix == ENCODERS and "save_encoder" not in experiment_of(run.config).options:
                raise InputError(f"runs on {run.config.domain} {OPTIONS['save_encoder']}")
            raise InputError(
                f"{run} has no saved {content}: methods have, with save_{content}=True"
            )
        return run, path

    def _config(self, method: str | None, settings: dict[str, Any]) -> RunConfig:
        methods = {None, *(config.method for config in self.results.configs)}
        if method not in methods and (row := self._rows().get(str(method))) is not None:
            return row
        asked = {**settings, **({} if method is None else {"method": method})}
        configs = [
            config
            for config in self.results.configs
            if all(_matches(config, key, value) for key, value in asked.items())
        ]
        if not configs:
            wanted = ", ".join(f"{key} {value}" for key, value in asked.items())
            raise InputError(f"no run has {wanted}; there are: {'; '.join(self._rows())}")
        first = configs[0]
        alike = [config for config in configs if config.method == first.method]
        if len({encoder_name(config) for config in alike}) > 1:
            labels = "; ".join(label for label, row in self._rows().items() if row in alike)
            raise InputError(
                f"several encoders were run: say encoder=…, or name a row of the table: {labels}"
            )
        return first

    def _rows(self) -> dict[str, RunConfig]:
        """Configurations by the labels of their rows."""
        from gcl_hard.reports.rows import rows

        kinds = "fixed", "baseline"
        return {row.label: row.config for row in rows(self.results) if row.kind in kinds}


def _matches(config: RunConfig, name: str, value: Any) -> bool:
    """Whether a setting has a value; the user's own encoder goes by its name, too."""
    setting = getattr(config, name, None)
    if name == "encoder" and isinstance(setting, str):
        return value in (setting, setting.partition("@")[0])
    return bool(setting == value)
