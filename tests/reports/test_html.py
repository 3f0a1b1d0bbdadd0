"""Pages of results as one HTML file, as they are and in a browser."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest
from pandas import DataFrame

from gcl_hard.evaluation.metrics import metric
from gcl_hard.reports.html import write_html
from gcl_hard.reports.page import write
from gcl_hard.reports.rows import rows
from tests.reports.made import config, results

BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
CONFIGS = (
    config("ucl"), config("hscl", beta=1), config("hscl", beta=2), config("untrained"),
    config("ucl", dataset="PTC_MR"), config("hscl", dataset="PTC_MR", beta=1),
)  # fmt: skip
SHIFT = {cell: 2.0 * number for number, cell in enumerate(CONFIGS)}


class Tables(HTMLParser):
    """The texts of a page's tables by row, and what the page would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.hidden: list[list[bool]] = []
        self.loaded: list[str] = []
        self._cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.loaded += [attributes[name] or "" for name in ("src", "href") if name in attributes]
        if tag == "table":
            self.tables.append([])
            self.hidden.append([])
        elif tag == "tr":
            self.tables[-1].append([])
            self.hidden[-1].append("hidden" in attributes)
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self._cell = True

    def handle_endtag(self, tag: str) -> None:
        self._cell = self._cell and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self._cell:
            self.tables[-1][-1][-1] += data

    def column(self, name: str, table: int = 0) -> list[str]:
        """A column's cells that are not hidden."""
        head, *body = self.tables[table]
        where = [cell.strip() for cell in head].index(name)
        shown = zip(body, self.hidden[table][1:], strict=True)
        cells = [row[where] for row, hidden in shown if not hidden]
        return [cell.replace("\N{NO-BREAK SPACE}", " ") for cell in cells]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "a(b) β&50%.html"
    written = write(results(*CONFIGS, shift=SHIFT), path, command="python -m x <y>", quick=False)
    assert written == [path] == [*path.parent.iterdir()]
    return path


def test_one_file_has_all_rows_and_loads_nothing(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    written = Tables(text)
    shown = rows(results(*CONFIGS, shift=SHIFT))
    assert written.column("data set") == [row.dataset for row in shown]
    measure = metric("accuracy")
    means = [row.scores and measure.text(row.scores.mean) for row in shown]
    assert [cell.split(" ")[0] for cell in written.column("mean ± std")] == means
    assert len(written.tables) > 2
    assert written.loaded
    assert all(cell.startswith("data:image/") for cell in written.loaded)
    assert ".png" not in text
    assert "python -m x &lt;y&gt;" in text


def test_names_and_commands_are_texts(tmp_path: Path) -> None:
    path, name = tmp_path / "page.html", "a$b$<i>c"
    configs = config("ucl", dataset=name), config("hscl", dataset=name, beta=1)
    write(results(*configs), path, command=r"python --output 'o$\frac$' <b>", quick=False)
    text = path.read_text(encoding="utf-8")
    assert "<i>" not in text
    assert "<b>" not in text
    assert r"o$\frac$" in text
    written = Tables(text)
    assert {*written.column("data set")} == {name}
    assert "<summary>" in text


def test_a_smoke_run_says_so_first_and_never_replaces_results(tmp_path: Path) -> None:
    path, outcome = tmp_path / "page.html", results(CONFIGS[0])
    for quick in (True, True, False):  # a smoke run replaces a smoke run
        write(outcome, path, command="x", quick=quick)
    with pytest.raises(ValueError, match=r"page\.html\b.*\bsmoke\b"):
        write(outcome, path, command="x", quick=True)


def in_browser(page: Path, **state: str) -> Tables:
    """The page after its script has run, opened at an address with a state."""
    assert BROWSER is not None
    address = "&".join(f"{quote(name)}={quote(value)}" for name, value in state.items())
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
         "--disable-component-update", f"--user-data-dir={page.parent / 'profile'}",
         "--dump-dom", f"{page.as_uri()}#{address}"],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    return Tables(re.sub(r"(?s)<script.*?</script>", "", done.stdout))


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
def test_a_browser_sorts_and_filters_the_rows(page: Path) -> None:
    plain = Tables(page.read_text(encoding="utf-8"))
    every = plain.column("mean ± std")
    down = in_browser(page, sort="-mean ± std").column("mean ± std")
    assert down == sorted(every, key=lambda text: -float(text.split(" ")[0]))
    up = in_browser(page, sort="method").column("method")
    assert up == sorted(plain.column("method"))
    none = in_browser(page, choice="–")
    assert {*none.column("choice")} == {""}
    some = in_browser(page, **{"data set": "PTC_MR", "find": "HSCL"})
    assert {*zip(some.column("data set"), some.column("method"), strict=True)} == {
        ("PTC_MR", "hscl")
    }
    assert len(some.column("method")) == sum(
        name == "PTC_MR" and method == "hscl"
        for name, method in zip(plain.column("data set"), plain.column("method"), strict=True)
    )


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
def test_a_browser_tells_words_from_numbers(tmp_path: Path) -> None:
    names = ["20news", "9lives", "MUTAG", "abc"]
    values = ["<.001", ".001", "12,345", "−3.5 ± 1"]
    table = DataFrame({"data set": names, "p": values})
    path = tmp_path / "page.html"
    write_html(path, "# Page\n\ntext", {}, table)
    assert in_browser(path, sort="data set").column("data set") == [
        "9lives", "20news", "abc", "MUTAG"
    ]  # fmt: skip
    assert in_browser(path, sort="p").column("p") == ["−3.5 ± 1", "<.001", ".001", "12,345"]
    assert in_browser(path, **{"data set": "abc"}).column("p") == ["−3.5 ± 1"]
