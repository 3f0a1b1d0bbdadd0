"""Predictions by a saved model of links: the command ``predict``, and :func:`load_links_model`."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import torch

from gcl_hard.commands.encoders import encoder_in, read_encoders
from gcl_hard.commands.parser import Parser
from gcl_hard.core.extras import check_extra
from gcl_hard.errors import InputError, check_at_least
from gcl_hard.experiments import hardware
from gcl_hard.experiments.custom import EncoderMaker, named_object
from gcl_hard.experiments.progress import bar_of
from gcl_hard.files.io import atomic_write, check_writable

if TYPE_CHECKING:
    from gcl_hard.links import LinkContrast, LinkSet

OUTPUT = "predictions.csv"
"""The file that the command writes if none is named."""
SUFFIXES = (".csv", ".parquet")
COLUMNS = ("head", "relation", "tail")
FIELDS = ("query", *COLUMNS, "missing", "rank", "score")
QUESTIONS = 4096
"""Questions whose answers are held and written at a time."""
Rows = list[tuple[Any, ...]]


def load_links_model(
    path: str | Path,
    scorer: EncoderMaker | None = None,
    *,
    links: LinkSet | None = None,
    trust: bool = False,
) -> LinkContrast:
    """A trained model of links that ``bench --save-encoder`` or :func:`evaluate` saved.

    ``model.predict(None, "ann", "parent")`` answers a question, and ``fit(model, model.links)``
    continues training: with its weights, loss and candidates, and a new state of the optimiser.

    Args:
        path: NAME.pt, or NAME.safetensors as ``gcl-hard export`` writes it; read as data.
        scorer: your own, as it was given when it was trained; not needed for ours.
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
        >>> len(model.predict(None, "p0", "next", k=3))
        3
    """
    from gcl_hard.links.experiment import links_of, new_model, saved_links

    path = Path(path)
    saved = read_encoders(path)
    config = saved["config"]
    if config.domain != "links":
        raise InputError(f"{path} has an encoder of {config.domain}: load_encoder reads it")
    if links is not None:
        saved |= saved_links(links)
    scorer_in_file = encoder_in(path, saved, scorer, fold=None, trust=trust)
    return new_model(config, links or links_of(saved), scorer_in_file, int(saved.get("seed", 0)))


def predict(
    model: str | Path,
    queries: str | Path | Any,
    *,
    output: str | Path = OUTPUT,
    k: int = 10,
    known: bool = False,
    columns: tuple[str, ...] | None = None,
    scorer: EncoderMaker | str | None = None,
    trust: bool = False,
    device: str = "auto",
    threads: int | None = None,
    force: bool = False,
) -> Path:
    """Write the best answers to many questions, of which each lacks a head, relation or tail.

    The columns are ``query``, the number of the question from 1, ``head``, ``relation`` and
    ``tail`` with the answer in its place, ``missing``, ``rank`` and ``score``; with ``known`` also
    whether the fact is known. Scores compare the answers to one question.

    Args:
        model: NAME.pt or NAME.safetensors, as of :func:`gcl_hard.load_links_model`.
        queries: a table, as of :meth:`gcl_hard.links.LinkSet.from_table`, in which one cell of each
            row is empty, or which lacks one of the three columns.
        output: NAME.csv, or NAME.parquet (extra parquet).
        k: answers to each question.
        known: whether known facts, those of all parts, are among the answers, marked.
        columns: columns of heads, relations and tails; those called so if None.
        scorer: your own, as it was given when it was trained, or ``module:Name`` of it; not needed
            for ours.
        trust: as of :func:`gcl_hard.load_encoder`.
        device: auto, cpu, cuda or cuda:N.
        threads: CPU threads; those of PyTorch if None.
        force: whether a file that is there is replaced.

    Returns:
        The path.

    Raises:
        InputError: for a name that the model does not have, with the nearest ones, or a row in
            which not one cell is empty.
    """
    from gcl_hard.links.tables import read_questions

    path = Path(output)
    if path.suffix not in SUFFIXES:
        raise InputError(f"predictions are written to {', '.join(SUFFIXES)}, got {path}")
    if path.suffix == ".parquet":
        check_extra("parquet", f"writing {path.name}")
    if path.exists() and not force:
        raise InputError(f"{path} is there: give another name, or force=True (--force)")
    check_writable(path.absolute().parent)
    check_at_least("k", k, 1)
    if threads is not None:
        torch.set_num_threads(threads)
    made_by = named_object(scorer, "scorer") if isinstance(scorer, str) else scorer
    trained = load_links_model(model, made_by, trust=trust)
    asked = read_questions(queries, columns)
    trained.to(hardware.choose_device(device))
    with (
        bar_of("predicting", " questions", len(asked)) as bar,
        atomic_write(path) as file,
        _WRITERS[path.suffix](file, [*FIELDS, *["known"] * known]) as write,
    ):
        for rows in _answered(trained, asked, k, known):
            write(rows)
            bar.update(min(QUESTIONS, len(asked) - bar.n))
    return path


def _answered(
    model: LinkContrast, asked: Sequence[tuple[str, ...]], k: int, known: bool
) -> Iterator[Rows]:
    """Rows of the answers to some questions at a time, in their order."""
    from gcl_hard.links import PARTS

    links = model.links
    missing = [COLUMNS[question.index("")] for question in asked]
    facts = torch.zeros(len(asked), 3, dtype=torch.int64)
    for column, kind in enumerate(("entities", "relations", "entities")):
        stated = [i for i, question in enumerate(asked) if question[column]]
        facts[stated, column] = links.numbers(kind, [asked[i][column] for i in stated])
    left_out: dict[Any, Any] = {
        name: None if known else links.known(name, PARTS) for name in dict.fromkeys(missing)
    }
    for begin in range(0, len(asked), QUESTIONS):
        rows: Rows = []
        for name, answers in left_out.items():
            column, here = COLUMNS.index(name), range(begin, min(begin + QUESTIONS, len(asked)))
            number = [i for i in here if missing[i] == name]
            ids, scores = (
                found.cpu() for found in model.best(facts[number], name, k=k, known=answers)
            )
            names = links.relations if name == "relation" else links.entities
            given = facts[number].repeat_interleave(ids.shape[1], 0)
            given[:, column] = ids.reshape(-1)
            marks = links.has(given).view_as(ids).tolist() if known else ids.tolist()
            for i, *answered in zip(number, ids.tolist(), scores.tolist(), marks, strict=True):
                for rank, (answer, score, mark) in enumerate(zip(*answered, strict=True), 1):
                    if score > -math.inf:
                        fact = [*asked[i]]
                        fact[column] = names[answer]
                        rows.append((i + 1, *fact, name, rank, score, *[mark] * known))
        yield sorted(rows, key=itemgetter(0))


@contextmanager
def _csv(file: BinaryIO, columns: Sequence[str]) -> Iterator[Callable[[Rows], Any]]:
    text = io.TextIOWrapper(
        file, encoding="utf-8", errors="backslashreplace", newline="", write_through=True
    )
    lines = csv.writer(text)
    lines.writerow(columns)
    at = columns.index("score")
    yield lambda rows: lines.writerows(
        [*row[:at], f"{row[at]:.7g}", *row[at + 1 :]] for row in rows
    )
    text.detach()


@contextmanager
def _parquet(file: BinaryIO, columns: Sequence[str]) -> Iterator[Callable[[Rows], Any]]:
    import pyarrow as pa
    from pyarrow import parquet

    kinds = {"query": pa.int64(), "rank": pa.int64(), "score": pa.float32(), "known": pa.bool_()}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in columns])
    with parquet.ParquetWriter(file, schema) as writer:
        yield lambda rows: writer.write_table(
            pa.table([*zip(*rows, strict=True)] if rows else [[]] * len(columns), schema=schema)
        )


_WRITERS = {".csv": _csv, ".parquet": _parquet}


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
