"""Searches from Python, with the user's own encoder or graphs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gcl_hard.errors import unknown
from gcl_hard.experiments.choose import backend_for
from gcl_hard.experiments.config import CONFIGS, defaults
from gcl_hard.graphs import GraphSet
from gcl_hard.tuning import files
from gcl_hard.tuning.options import OWN, TuneOptions, check_given
from gcl_hard.tuning.outcome import Outcome
from gcl_hard.tuning.part import Maker
from gcl_hard.tuning.samplers import PrunerName, SamplerName
from gcl_hard.tuning.space import Base, Space


def study(
    dataset: str | GraphSet = "MUTAG",
    method: str = "hscl",
    *,
    space: str | Path | Mapping[str, Any] | None = None,
    encoder: Maker | str | None = None,
    trials: int = 64,
    sampler: SamplerName = "tpe",
    pruner: PrunerName = "none",
    inner_folds: int = 1,
    outer_folds: int = 1,
    batch: int | None = None,
    workers: int = 1,
    seed: int = 0,
    storage: str | None = None,
    study_name: str | None = None,
    output: str | Path = "results",
    report: str | Path | None = None,
    device: str = "auto",
    data_dir: str | Path | None = None,
    threads: int | None = None,
    progress: bool = True,
    **settings: Any,
) -> Outcome:
    r"""Search settings of a method; score the best ones once on data that the search never saw.

    A trial's inner score is the accuracy of an SVM (graphs) or a linear probe (images) on samples
    held out of the encoder's training inside the outer-training part. The best trial of N,

    .. math:: \hat\theta = \arg\max_\theta \widehat{\mathrm{acc}}_{\mathrm{inner}}(\theta)

    is trained on the whole part and scored on the outer test part;
    ``optimism = inner - outer``. Called again with the same arguments it goes on with the study.

    Args:
        dataset: a name, or your own graphs.
        method: a name of ``METHODS``.
        space: a mapping of settings to dimensions (:meth:`Space.of`), a YAML file, or a name of
            those shipped; None for the one of the method. Names ``encoder.NAME`` go to your
            encoder.
        encoder: makes your own: called as ``encoder(n_features, **searched)`` it returns a module
            ``(x, edge_index, batch) -> (nodes [N, d], graphs [G, d])`` with an ``out_dim``. Of
            images the name of a network, ``"resnet50"`` or ``"resnet18"``.
        trials: of each study, ≥ 1.
        sampler: ``"tpe"``, ``"cmaes"`` or ``"random"``.
        pruner: ``"none"``, ``"median"`` or ``"hyperband"`` (by epochs), ``"wilcoxon"`` (by folds).
        inner_folds: ≥ 1 that score a trial; 1 is a stratified hold-out of 20 %.
        outer_folds: ≥ 1 studies; 1 is a stratified hold-out of 30 %.
        batch: trials trained side by side, None to choose.
        workers: ≥ 1 processes; more than one needs ``if __name__ == "__main__"`` in a script, and
            an encoder that can be imported.
        seed: of splits, encoders and sampler.
        storage: a file or a database URL; None for a SQLite file in ``output``.
        study_name: None for one made of data set, method and protocol.
        output: folder of storage and result.
        report: page of Markdown to write, figures beside it.
        device: ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
        data_dir: folder with your copies of data sets.
        threads: of the CPU, None to choose.
        progress: whether it is shown.
        **settings: of the cell that are not searched: ``epochs``, ``lr``, ``layers``, ….

    Returns:
        What was found: ``outcome.best``, ``outcome.inner``, ``outcome.outer``,
        ``outcome.findings[0].study`` (Optuna's).

    Raises:
        InputError: for anything that cannot be run; says what would be.
        AllFailed: if no trial has a score.

    Source:
        Akiba et al. (2019), *Optuna*; scoring chosen settings outside of what they were chosen on:
        Cawley and Talbot (2010), *On Over-fitting in Model Selection*.

    Example:
        >>> import tempfile
        >>> lr = {"lr": {"type": "float", "low": 1e-3, "high": 1e-1, "log": True}}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found = study("MUTAG", "ucl", space=lr, trials=2, epochs=1, output=folder,
        ...                   progress=False)
        >>> 0.001 <= found.best.lr <= 0.1, round(found.inner - found.outer - found.optimism, 9)
        (True, 0.0)
    """
    from rich.console import Console

    from gcl_hard.reports.study_page import (
        write,
    )
    from gcl_hard.tuning.run import run

    graphs = dataset if isinstance(dataset, GraphSet) else None
    name = graphs.name if graphs is not None else str(dataset)
    if isinstance(encoder, str):
        settings, encoder = {**settings, "encoder": encoder}, None
    backend = "graphs" if graphs is not None else backend_for(_named(name, data_dir))
    kind = CONFIGS[backend]
    for key in settings:
        if key not in defaults(kind):
            raise unknown("setting", key, defaults(kind))
    base = Base(kind, {**OWN[backend], **settings, "dataset": name, "method": method})
    if isinstance(space, Mapping):
        chosen, called = Space.of(space), "given"
    else:
        called = str(space or files.usual(base.alone))
        chosen = files.read(called)
    fitted = chosen.fitted(base, encoder=encoder is not None)
    check_given(settings, fitted, base)
    options = TuneOptions(
        base, fitted, called,
        trials=trials, sampler=sampler, pruner=pruner, inner_folds=inner_folds,
        outer_folds=outer_folds, batch=batch, workers=workers, seed=seed, storage=storage,
        study_name=study_name, output=Path(output),
        report=None if report is None else Path(report), device=device,
        data_dir=None if data_dir is None else Path(data_dir), threads=threads, graphs=graphs,
        encoder=encoder,
    )  # fmt: skip
    outcome, _ = run(options, Console(quiet=not progress))
    if options.report is not None:
        write(outcome, options.report, command="gcl_hard.tuning.study(…)")
    return outcome


def _named(name: str, data_dir: str | Path | None) -> list[str]:
    given = [f"--dataset={name}"]
    return given if data_dir is None else [*given, f"--data-dir={data_dir}"]
