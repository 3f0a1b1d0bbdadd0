"""The documentation runs: Python blocks print what is shown, commands parse, names exist."""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import json
import pkgutil
import re
import shlex
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
import yaml

from benchmarks.paper.__main__ import paper_parser
from gcl_hard.commands.bench import bench_parser, parse_bench
from gcl_hard.commands.embed import embed_parser, parse_embed
from gcl_hard.commands.export import export_parser, parse_export
from gcl_hard.commands.figures import figures_parser, parse_figures
from gcl_hard.commands.predict import parse_predict, predict_parser
from gcl_hard.commands.pretrain import parse_pretrain, pretrain_parser
from gcl_hard.commands.tune import parse_tune, tune_parser
from gcl_hard.errors import InputError
from gcl_hard.experiments.domains import CONFIGS

ROOT = Path(__file__).parents[1]
MKDOCS = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
BUILT = [ROOT / "docs/settings.md", *(ROOT / "docs/research/pages").glob("*.md")]
PAGES = sorted({*(ROOT / "docs").rglob("*.md"), *ROOT.glob("README.md")}.difference(BUILT))
API = [page for page in PAGES if page.parent.name == "api"]
WRITTEN = [page for page in PAGES if page.name not in ("results.md", "recipe.md")]
PARSERS: dict[str, tuple[Callable[[list[str]], object], Callable[[], ArgumentParser]]] = {
    "bench": (parse_bench, bench_parser),
    "tune": (parse_tune, tune_parser),
    "figures": (parse_figures, figures_parser),
    "pretrain": (parse_pretrain, pretrain_parser),
    "embed": (parse_embed, embed_parser),
    "export": (parse_export, export_parser),
    "predict": (parse_predict, predict_parser),
}
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MODULE = re.compile(r'^```python title="(\w+)\.py"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
CALL = re.compile(r"(?:python -m gcl_hard\.|gcl-hard )(\w+)(.*)")
QUOTED = re.compile(r"`([^`\n]+)`")
OF_OTHERS = {
    "--estimator", "--dataset_name", "--gradient_imp", "--nthreads", "--nproc-per-node",
    "--embeddings", "--finetune",
}  # fmt: skip
"""Flags of published programs, of Dask, of torchrun, and of the former command for molecules."""


class Block(NamedTuple):
    language: str
    code: str
    line: int
    output: str | None = None  # of the text block right under it


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    page_blocks: list[Block] = []
    end = 0
    for match in FENCE.finditer(text):
        if match[1] == "text" and page_blocks and not text[end : match.start()].strip():
            page_blocks[-1] = page_blocks[-1]._replace(output=match[2])
        else:
            page_blocks.append(Block(match[1], match[2], text[: match.start(2)].count("\n")))
        end = match.end()
    return page_blocks


def commands() -> list[tuple[str, str, str]]:
    """Every line of a block that calls an entry point: page, entry point and arguments."""
    calls = []
    for page in PAGES:
        shown = [block.code for block in blocks(page) if block.language not in {"python", "yaml"}]
        for line in "".join(shown).replace("\\\n", " ").splitlines():
            if call := CALL.match(line.removeprefix("$ ").partition("#")[0].strip()):
                calls.append((page.name, call[1], call[2]))
    return calls


def quoted(pattern: str) -> Iterator[tuple[str, str]]:
    """Page and text of what stands in backticks and matches, in pages written by hand."""
    for page in WRITTEN:
        for text in QUOTED.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
            if match := re.match(pattern, text):
                yield page.name, match[0]


RUNNABLE = [page for page in PAGES if any(b.language == "python" for b in blocks(page))]


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.name)
def test_python_blocks_run_and_print_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "docs"}
    for block in blocks(page):
        if block.language != "python":
            continue
        printed = io.StringIO()
        padded = "\n" * block.line + block.code  # tracebacks then name the page's line
        with contextlib.redirect_stdout(printed):
            exec(compile(padded, str(page), "exec", dont_inherit=True), namespace)
        if block.output is not None:
            assert printed.getvalue() == block.output, f"{page.name}, block of line {block.line}"


def section(name: str) -> list[Path]:
    """Pages of a tab of the navigation."""
    (pages,) = (tab[name] for tab in yaml.safe_load(MKDOCS)["nav"] if name in tab)
    return [ROOT / "docs" / page for page in re.findall(r"[\w/.-]+\.md", str(pages))]


GUIDES = [page for name in ("Start", "How-to", "Concepts") for page in section(name)]


def test_every_guide_has_a_block_that_runs() -> None:
    assert set(GUIDES) <= set(RUNNABLE)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_guides_are_short(page: Path) -> None:
    """A guide holds a whole subject, such as images or your own parts, and no more."""
    assert len(page.read_text(encoding="utf-8").split()) <= 2300


def test_every_page_is_in_the_navigation() -> None:
    tabs = [next(iter(tab)) for tab in yaml.safe_load(MKDOCS)["nav"]]
    assert tabs == ["Start", "How-to", "Concepts", "Reference", "Research"]
    listed = [page for name in tabs for page in section(name)]
    written = [page for page in PAGES if page.name != "README.md"]
    assert sorted(listed) == sorted([*written, ROOT / "docs/settings.md"])


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((ROOT / "docs/quickstart.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for cell in cells:
            exec(compile(cell, "quickstart.ipynb", "exec"), namespace)
    assert "hscl" in printed.getvalue()
    assert all(not c.get("outputs") for c in notebook["cells"]), "it is stored without outputs"


SOUGHT = ("networkx", "DataLoader", "GAT", "tensorboard", "wandb", "num_workers", "quickstart")


@pytest.mark.parametrize("word", SOUGHT)
def test_guides_have_the_words_that_users_search_for(word: str) -> None:
    whole = re.compile(rf"\b{word}\b", re.IGNORECASE)
    pages = [page for page in GUIDES if whole.search(FENCE.sub("", page.read_text("utf-8")))]
    assert pages


def test_output_in_the_docs_stands_right_under_what_prints_it() -> None:
    shown = [block for page in PAGES if page.name != "README.md" for block in blocks(page)]
    assert all(block.language != "text" for block in shown)
    assert sum(block.output is not None for block in shown) >= 10


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The modules that pages show whole."""
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    modules = MODULE.findall(text)
    assert modules
    for name, code in modules:
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name, _ in modules:
        sys.modules.pop(name, None)


@pytest.mark.parametrize(("page", "entry_point", "arguments"), commands())
def test_shown_commands_parse(
    page: str, entry_point: str, arguments: str, monkeypatch: pytest.MonkeyPatch, modules: None
) -> None:
    monkeypatch.chdir(ROOT)  # where configs/ is
    parse, _ = PARSERS[entry_point]
    assert parse(shlex.split(arguments))


def test_there_are_commands_and_a_wrong_flag_would_fail() -> None:
    assert {entry_point for _, entry_point, _ in commands()} == set(PARSERS)
    with pytest.raises(InputError):
        parse_bench(["--protocl", "transductive"])


def test_flags_that_pages_name_exist() -> None:
    parsers: list[ArgumentParser] = [paper_parser(), *(make() for _, make in PARSERS.values())]
    parsers += [make(domain) for make in (bench_parser, tune_parser) for domain in CONFIGS]
    parsers += [pretrain_parser(CONFIGS["images"])]
    known = {option for parser in parsers for a in parser._actions for option in a.option_strings}
    named = set(quoted(r"--[\w-]+"))
    assert len(named) > 50
    assert {(page, flag) for page, flag in named if flag not in known | OF_OTHERS} == set()


def test_files_that_pages_name_exist() -> None:
    named = set(quoted(r"(benchmarks|configs|docs|gcl_hard|tests)/[\w./-]+$"))
    assert len(named) > 10
    missing = {(page, path) for page, path in named if not (ROOT / path).exists()}
    assert {(page, path) for page, path in missing if "NAME" not in path} == set()


def test_tests_that_pages_name_exist() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    named = set(quoted(r"test_\w+$"))
    assert len(named) > 20
    assert {(page, test) for page, test in named if f"def {test}(" not in sources} == set()


def documented() -> set[str]:
    """Names that the pages of the API show."""
    return {
        name
        for page in API
        for name in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    }


def test_names_of_the_package_that_pages_name_exist() -> None:
    for page, name in {*quoted(r"gcl_hard(\.\w+)+$"), *(("api", name) for name in documented())}:
        assert pkgutil.resolve_name(name) is not None, page


def test_every_public_name_stands_in_the_api_pages() -> None:
    import gcl_hard
    from gcl_hard import evaluation, graphs, images, links, molecules, nodes, tuning

    shown = documented()
    constants = {"C_GRID", "K_GRID", "SHRINKAGES", "check_labels"}
    for module in (gcl_hard, graphs, nodes, links, molecules, images, evaluation, tuning):
        names = {f"{module.__name__}.{name}" for name in set(module.__all__) - constants}
        assert names <= shown, sorted(names - shown)


def test_the_overview_of_the_api_links_to_every_name() -> None:
    overview = (ROOT / "docs/api/index.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\]\[([\w.]+)\]", overview)) == documented()


def docstrings_extension() -> ModuleType:
    pytest.importorskip("griffe", reason="needs the docs extra")
    spec = importlib.util.spec_from_file_location("docstrings", ROOT / "docs/docstrings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_docstrings_become_markdown() -> None:
    result = doctest.testmod(docstrings_extension())
    assert result.attempted > 0
    assert result.failed == 0


def test_signatures_show_values() -> None:
    module = docstrings_extension()
    extensions = module.griffe.load_extensions(module.Docstrings)
    loaded = module.griffe.load("gcl_hard", search_paths=[ROOT], extensions=extensions)
    parameters = loaded["losses.methods.contrastive_loss"].parameters
    assert parameters["beta"].default == "1.0"
    assert str(parameters["options"].annotation) == "Any"
    assert parameters["name"].annotation is not None


def test_the_page_of_tables_shows_the_values_of_table_2() -> None:
    page = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^\| `--([\w-]+)` \| (.+) \|$", page, re.MULTILINE))
    for column, quick in enumerate(([], ["--quick"])):
        options = parse_bench(["--table", "2", *quick])
        trained = [config for config in options.configs if not config.is_baseline]
        values = {
            name: dict.fromkeys(getattr(config, name) for config in options.configs)
            for name in ("dataset", "protocol", "beta")
        } | {"seeds": options.seeds, "select": [str(options.select).lower()]}
        values["epochs"] = dict.fromkeys(config.epochs for config in trained)
        for name, set_values in values.items():
            cells = shown[name].split(" | ")
            stated = cells[0] if cells[column] == "the same" else cells[column]
            texts = (
                f"{v:g}" if isinstance(v, float) else str(v) for v in set_values if v is not None
            )
            assert stated == ",".join(texts), name
