"""Predictions by a saved model of links: the command ``predict``, and :func:`load_links_model`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gcl_hard.commands.encoders import encoder_in, read_encoders
from gcl_hard.commands.parser import Parser
from gcl_hard.errors import InputError, check_at_least
from gcl_hard.experiments import hardware
from gcl_hard.experiments.custom import EncoderMaker, named_object
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.progress import bar_of
from gcl_hard.experiments.registry import runnable
from gcl_hard.files.io import atomic_write, check_new, check_writable
from gcl_hard.files.tables import check_output, write_tables

if TYPE_CHECKING:
    from gcl_hard.links import LinkContrast, LinkSet

OUTPUT = "predictions.csv"
"""The file that the command writes if none is named."""
SUFFIXES = (".csv", ".parquet")


def load_links_model(
    path: str | Path,
    encoder: EncoderMaker | None = None,
    *,
    links: LinkSet | None = None,
    trust: bool = False,
) -> LinkContrast:
    """A trained model of links that ``bench --save-encoder`` or :func:`evaluate` saved.

    ``model.predict("ann", "parent")`` answers a question, and ``fit(model, model.links)``
    continues training: with its weights, loss and candidates, and a new state of the optimiser.

    Args:
        path: NAME.pt, or NAME.safetensors as ``gcl-hard export`` writes it; read as data.
        encoder: your own scorer, as it was given when it was trained; not needed for ours.
        links: facts of the same names in the same order, which are then those that are known, and
            of an R-GCN its graph; those that it was trained with if None.
        trust: as of :func:`load_encoder`.

    Returns:
        The model, on the CPU; ``model.links`` has its facts and names.

    Raises:
        InputError: for a file of something else, a scorer that does not fit it, or facts of other
            names.

    Example:
        >>> import tempfile
        >>> from gcl_hard import evaluate
        >>> from gcl_hard.links import LinkSet
        >>> facts = [(f"p{i}", "next", f"p{(i + 1) % 9}") for i in range(9)]
        >>> links = LinkSet.from_triples(facts[:7], facts[7:8], facts[8:])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     evaluation = evaluate("distmult", links, "ucl", seeds=1, epochs=1, baselines=(),
        ...                           output=folder, progress=False)
        ...     model = load_links_model(next(evaluation.folder.glob("*.pt")))
        >>> len(model.predict("p0", "next", k=3))
        3
    """
    path = Path(path)
    saved = read_encoders(path)
    experiment = runnable(saved["config"])

    def model() -> LinkContrast:
        scorer = encoder_in(path, saved, encoder, fold=None, trust=trust)
        return experiment.kept_model(scorer, saved)

    kept = model()
    if links is not None:
        kept.check_data(links)
        saved |= experiment.file_facts(links)
        kept = model()
    return kept


def save_links_model(model: LinkContrast, path: str | Path, *, like: str | Path) -> Path:
    """Save a model of links whose training went on, for :func:`load_links_model` and ``predict``.

    Args:
        model: the model, whose ``links`` are the facts that are known from then on.
        path: NAME.pt, which may be the file that it was loaded from.
        like: the file that it was loaded from; its settings are written again.

    Returns:
        The path.

    Raises:
        InputError: for a file of another model.

    Example:
        >>> model = load_links_model("model.pt", links=more)  # doctest: +SKIP
        >>> losses = fit(model, more)  # doctest: +SKIP
        >>> save_links_model(model, "next.pt", like="model.pt")  # doctest: +SKIP
    """
    saved = read_encoders(Path(like))
    weights = {name: weight.detach().cpu() for name, weight in model.scorer.state_dict().items()}
    shapes = [{name: of.shape for name, of in each.items()} for each in saved["encoders"]]
    if [{name: of.shape for name, of in weights.items()}] != shapes:
        raise InputError(f"{like} has another model: name the file that this was loaded from")
    facts = runnable(saved["config"]).file_facts(model.links)
    content = saved | facts | {"encoders": [weights], "config": asdict(saved["config"])}
    with atomic_write(Path(path)) as file:
        torch.save(content, file)
    return Path(path)


def predict(
    model: str | Path,
    queries: str | Path | Any,
    *,
    output: str | Path = OUTPUT,
    k: int = 10,
    known: bool = False,
    columns: tuple[str, ...] | None = None,
    encoder: EncoderMaker | str | None = None,
    trust: bool = False,
    device: str = "auto",
    force: bool = False,
) -> Path:
    """Write the best answers to many questions, of which each lacks a head, relation or tail.

    The columns are ``query``, the number of the question from 1, ``head``, ``relation`` and
    ``tail`` with the answer in its place, ``missing``, ``rank``, ``score``, which compares the
    answers to one question, and ``known``.

    Args:
        model: NAME.pt or NAME.safetensors, as of :func:`gcl_hard.load_links_model`.
        queries: a table, as of :meth:`gcl_hard.links.LinkSet.from_table`, in which one cell of each
            row is empty, or which lacks one of the three columns.
        output: NAME.csv, or NAME.parquet (extra parquet).
        k: answers to each question.
        known: whether facts that are known, of any part, are among the answers.
        columns: columns of heads, relations and tails, if they are not called so.
        encoder: your own scorer, as it was given when it was trained, or ``module:Name`` of it; not
            needed for ours.
        trust: as of :func:`gcl_hard.load_encoder`.
        device: auto, cpu, cuda or cuda:N.
        force: whether a file that is there is replaced.

    Returns:
        The path.

    Raises:
        InputError: for a name that the model does not have, with the nearest ones, or a row in
            which not one cell is empty.
    """
    path = Path(output)
    check_output(path, "predictions", SUFFIXES)
    check_new(path, force=force)
    check_writable(path.absolute().parent)
    check_at_least("k", k, 1)
    made_by = named_object(encoder, "encoder") if isinstance(encoder, str) else encoder
    trained = load_links_model(model, made_by, trust=trust)
    trained.to(hardware.choose_device(device))
    print(f"{model}: {type(trained.scorer).__name__} of {trained.links}", file=sys.stderr)
    experiment = runnable(CONFIGS["links"])
    answers = experiment.answers(trained, queries, columns=columns, k=k, known=known)
    with bar_of("predicting", " answers") as bar, atomic_write(path) as file:

        def counted() -> Iterator[Any]:
            for table in answers:
                yield table
                bar.update(len(table["query"]))

        write_tables(counted(), file, path.suffix)
    return path


def predict_parser() -> Parser:
    """The parser of ``gcl-hard predict``."""
    parser = Parser(
        "gcl_hard predict",
        "Answer questions by a saved model of links: which tail, head or relation a fact has.",
        "model.pt queries.csv -k 10 -o top.csv",
        usage="MODEL QUERIES [-o FILE] [...]",
    )
    parser.add_argument("model", metavar="MODEL", help="of bench --save-encoder on links")
    parser.add_argument(
        "queries", metavar="QUERIES",
        help="a table with columns head, relation and tail, of which one cell a row is empty",
    )  # fmt: skip
    parser.add_options("predictions", predict, {"model", "queries", "trust"}, output=OUTPUT)
    return parser


def parse_predict(arguments: Sequence[str]) -> dict[str, Any]:
    """The arguments of :func:`predict` in a command line."""
    return {"output": OUTPUT} | predict_parser().parse(arguments)[0]


STOPPED = "stopped; nothing was written"


def command(arguments: Sequence[str]) -> int:
    """Run the command line, and return its exit status."""
    print(f"predictions: {predict(**parse_predict(arguments))}")
    return 0
