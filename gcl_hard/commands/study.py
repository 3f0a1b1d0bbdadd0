"""Searches from Python and from the command line."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gcl_hard.commands.datasets import domain_of, with_domain
from gcl_hard.commands.evaluate import config_class_of, user_set_of
from gcl_hard.commands.execute import protocol_lines
from gcl_hard.experiments.custom import EncoderMaker
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.logs import Log, Logger, opened_log
from gcl_hard.experiments.options import as_path
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.searches import PrunerName, SamplerName
from gcl_hard.experiments.settings import defaults
from gcl_hard.experiments.values import unknown_setting
from gcl_hard.files.io import check_writable, write_json
from gcl_hard.tuning.options import Callback, TuneOptions, tune_options, warn_of_untried
from gcl_hard.tuning.result import Finding, SearchResult
from gcl_hard.tuning.search import PreparedSearch
from gcl_hard.tuning.storage import exclusive, opened, reachable

if TYPE_CHECKING:
    from optuna import Study
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial
    from rich.console import Console


def search(
    options: TuneOptions,
    console: Console,
    command: str = "gcl_hard.study(…)",
    logger: Logger | None = None,
) -> tuple[SearchResult, list[Path]]:
    """Run the remaining trials, score the best settings on the outer parts, save the result.

    Args:
        options: options of the search.
        console: console for progress.
        command: command that the page shows.
        logger: the user's own, which takes scores of trials as they end.

    Returns:
        The result, and the files written.

    Raises:
        InputError: for anything wrong with data, space, storage or folders, before training.
        AllFailed: if no trial has a score.
    """
    check_writable(options.output)
    if options.report is not None:
        from gcl_hard.reports.study import check_target, write

        check_writable(options.report.absolute().parent)
        check_target(options.report)
    prepared = PreparedSearch.of(options)
    lines = protocol_lines([prepared.config])
    console.print("\n".join(lines), style="dim", highlight=False)
    url, reading = prepared.url, options.report_only
    with reachable(url), nullcontext() if reading else exclusive(url):
        storage = opened(url, create=not reading)
        studies = prepared.studies(storage)
        if not reading:
            with opened_log(options.log or (), options.output, logger) as log:
                _logged(prepared, log).run(studies, storage, console)
        base, first = prepared.options.base, prepared.metric
        findings = tuple(Finding.of(study, base, first) for study in studies)
        result = SearchResult(findings, options.trials, prepared.facts(studies[0]), prepared)
        written = [options.output / f"{prepared.stem}_search.json"]
        write_json(result.as_json(), written[0])
    if options.report is not None:
        written += write(result, options.report, command=command)
    return result, written


def _logged(prepared: PreparedSearch, log: Log) -> PreparedSearch:
    """A search whose trials are logged as they end."""

    def ended(study: Study, trial: FrozenTrial) -> None:
        if trial.values is not None:
            log.numbers(study.study_name, {prepared.metric: trial.values[0]}, trial.number)

    options = prepared.options
    return replace(prepared, options=replace(options, callbacks=(*options.callbacks, ended)))


def study(
    data: Any = "MUTAG",
    method: str = "hscl",
    *,
    space: str | Path | Mapping[str, Any] | None = None,
    encoder: EncoderMaker | str | None = None,
    trials: int = 64,
    minutes: float | None = None,
    sampler: SamplerName | BaseSampler = "tpe",
    pruner: PrunerName | BasePruner = "none",
    callbacks: Sequence[Callback] = (),
    recipe: str = "paper",
    metric: str | None = None,
    inner_folds: int = 1,
    outer_folds: int = 1,
    ensemble_size: int | None = None,
    jobs: int = 1,
    scheduler: str | None = None,
    seed: int = 0,
    storage: str | None = None,
    study_name: str | None = None,
    output: str | Path = "results",
    report: str | Path | None = None,
    device: str = "auto",
    data_dir: str | Path | None = None,
    threads: int | None = None,
    progress: bool = True,
    logger: Logger | None = None,
    **settings: Any,
) -> SearchResult:
    r"""Search settings of a method; score the best ones once on data that the search never saw.

    A trial's inner score is the metric, accuracy if none is named, of an SVM (graphs) or a linear
    probe (images) on samples held out of the encoder's training inside the outer-training part.
    The best trial of N,

    .. math:: \hat\theta = \arg\max_\theta \widehat{\mathrm{score}}_{\mathrm{inner}}(\theta)

    is trained on the whole part and scored on the outer test part;
    ``optimism = inner - outer``. Called again with the same arguments it continues the study.

    Args:
        data: as of :func:`gcl_hard.evaluate`.
        method: a name of ``METHODS``.
        space: settings and what is searched of each: ``(low, high)``, a list of choices, a
            distribution of Optuna, or a mapping as in a file (:meth:`Dimension.of`); a YAML file;
            or a name of those shipped; None for the one of the method. Names ``encoder.NAME`` go
            to your encoder.
        encoder: your own, called as ``encoder(n_features, **searched)``; returns a module
            ``(x, edge_index, batch) -> (nodes [N, d], graphs [G, d])`` with an ``out_dim``; or
            ``"module:Name"`` of it. For images ``"resnet50"`` or ``"resnet18"``.
        trials: trials of each study, ≥ 1.
        minutes: > 0, after which no trial begins, counted anew by each call; the best trial so far
            is then scored on the outer part. None for no end.
        sampler: ``"tpe"``, ``"cmaes"``, ``"random"``, or a sampler of Optuna; one that has tried
            all ends the search.
        pruner: ``"none"``, ``"median"`` or ``"hyperband"`` (by epochs), ``"wilcoxon"`` (by folds),
            or a pruner of Optuna, which gets scores by epochs, with several inner folds by folds.
        callbacks: called with study and trial after each trial; ``study.stop()`` ends the search.
        recipe: ``"best"`` for our recipe of the data set, in place of the paper's settings.
        metric: what trials are scored by, such as ``"f1_macro"``; that of the data if None.
        inner_folds: ≥ 1 that score a trial; 1 is a stratified hold-out of 20 %.
        outer_folds: ≥ 1 studies; 1 is a stratified hold-out of 30 %.
        ensemble_size: trials trained as one ensemble, None to choose.
        jobs: ≥ 1 processes; more than one needs ``if __name__ == "__main__"`` in a script.
        scheduler: address of a Dask scheduler whose workers score the trials, or None.
        seed: seed of splits, encoders and sampler.
        storage: a file or a database URL; None for a SQLite file in ``output``.
        study_name: None for one made of data set, method and protocol; as the name of files, too,
            without any of ``/ \ : @ < >``.
        output: folder of storage and result.
        report: page of Markdown to write, figures next to it.
        device: ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
        data_dir: folder with your data sets.
        threads: CPU threads, None to choose.
        progress: whether progress is shown.
        logger: takes scores of trials as they end, by ``log_metrics(metrics, step)``, as the
            loggers of Lightning do.
        **settings: configuration settings that are not searched: ``epochs``, ``lr``, ``layers``, ….

    Returns:
        The result: ``result.best``, ``result.inner``, ``result.outer``, ``result.study``
        (Optuna's), ``result.retrain_best()``.

    Raises:
        InputError: for anything that cannot be run; says what would be. For a storage that is
            damaged elsewhere than in a torn last line, or cannot be written to; names it.
        AllFailed: if no trial has a score.

    Source:
        Akiba et al. (2019), *Optuna*; scoring settings on data that they were not chosen on:
        Cawley and Talbot (2010), *On Over-fitting in Model Selection*.

    Example:
        >>> import tempfile
        >>> lr = {"lr": {"type": "float", "low": 1e-3, "high": 1e-1, "log": True}}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result = study("MUTAG", "ucl", space=lr, trials=2, epochs=1, output=folder,
        ...                    progress=False)
        >>> 0.001 <= result.best.lr <= 0.1, round(result.inner - result.outer - result.optimism, 9)
        (True, 0.0)
    """
    from rich.console import Console

    user_set, stated = None, dict[str, Any](settings)
    if not isinstance(data, str | Path):
        config_class = config_class_of(data, data_dir, settings)
        experiment = experiment_of(config_class)
        user_set, fixed = user_set_of(experiment, data, "custom", stated, settings)
        stated |= fixed
    name = user_set.name if user_set is not None else str(data)
    if isinstance(encoder, str):
        stated["encoder"], encoder = encoder, None
    named = with_domain({**stated, "dataset": name, "data_dir": data_dir})
    domain = domain_of(named) if user_set is None else config_class.domain
    for key in stated:
        if key == "dataset" or key not in defaults(CONFIGS[domain]):
            raise unknown_setting(key, CONFIGS[domain], inspect.signature(study).parameters)
    options = tune_options(
        domain, stated, usual={"dataset": name, "method": method}, space=space, encoder=encoder,
        recipe=recipe, metric=metric, callbacks=tuple(callbacks), trials=trials, minutes=minutes,
        sampler=sampler, pruner=pruner, inner_folds=inner_folds, outer_folds=outer_folds,
        ensemble_size=ensemble_size, jobs=jobs, scheduler=scheduler, seed=seed, storage=storage,
        study_name=study_name, output=Path(output), report=as_path(report), device=device,
        data_dir=as_path(data_dir), threads=threads, graphs=user_set,
    )  # fmt: skip
    warn_of_untried(options, settings)
    return search(options, Console(quiet=not progress), logger=logger)[0]
