"""The page of a search, its best settings as a config, and the terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from gcl_hard.commands.bench import parse_bench
from gcl_hard.errors import InputError
from gcl_hard.experiments.settings import RunConfig
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.images.settings import ImageConfig
from gcl_hard.losses.methods import METHODS
from gcl_hard.reports.study import best_yaml, check_target, page, terminal, write
from gcl_hard.tuning.result import SearchResult
from tests.reports.made_study import PAPER, finding, result_of, searched, study, trial
from tests.said import says

COMMAND = "python -m gcl_hard.tune --dataset PTC --method hscl --trials 7"


def text(result: SearchResult, path: Path = Path("search.md")) -> str:
    """The page, tables without padding."""
    lines = page(result, path, command=COMMAND, figures=[[] for _ in result.findings])
    return re.sub(r"(?<=\|) +| +(?=\|)", " ", lines)


def in_order(text: str, patterns: Sequence[str]) -> bool:
    """Whether a text has all the patterns, the first of each behind that of the one before."""
    where = [match.start() for pattern in patterns if (match := re.search(pattern, text))]
    return len(where) == len(patterns) and where == sorted(where)


def test_everything_is_written_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    path = tmp_path / "new" / "my.search.md"
    written = write(result_of(), path, command=COMMAND)
    assert written[0] == path
    assert sorted(path.parent.iterdir()) == sorted(written)
    kinds = ["history", "slices", "importances", "contour", "intermediate"]
    names = [f"my.search{end}" for end in (".md", "-best.yaml")]
    assert [p.name for p in written] == names + [f"my.search-{kind}.png" for kind in kinds]
    links = re.findall(r"(!?)\[([^\]]+)\]\(([^)]+)\)", path.read_text(encoding="utf-8"))
    assert {name for _, _, name in links} == {p.name for p in written[1:]}
    assert all(len(alt) > 20 for image, alt, _ in links if image)
    assert len([1 for image, _, _ in links if image]) == len(kinds)


def test_several_studies_have_files_of_their_own(tmp_path: Path) -> None:
    first = study(trial(70.0, {"beta": 5.0, "lr": 0.02, "temperature": 0.4}))
    result = result_of(finding(first, outer=60.0), finding(study(trial(50.0, {"beta": 3.0}))))
    written = {p.name for p in write(result, tmp_path / "s.md", command=COMMAND)}
    assert {"s.md", "s-outer1-best.yaml", "s-outer2-best.yaml"} < written
    assert {"s-outer1-history.png", "s-outer2-history.png"} < written
    assert not any(name.startswith("s-best") for name in written)
    content = re.sub(" +", " ", (tmp_path / "s.md").read_text(encoding="utf-8"))
    assert "| 1 | 70.0 % | 60.0 % | +10.0 | β 5, learning rate 0.02, temperature γ 0.4 |" in content
    assert "| 2 | 50.0 % | 61.0 % | -11.0 | β 3 |" in content
    assert (
        content.index("## Outer part 1")
        < content.index("s-outer1-best")
        < content.index("## Outer part 2")
    )


def test_the_config_beside_the_page_is_the_best_config(tmp_path: Path) -> None:
    result = result_of(finding(study(trial(70.0, {"beta": 5.0, "lr": 0.02}))))
    write(result, tmp_path / "s.md", command=COMMAND)
    config = tmp_path / "s-best.yaml"
    assert parse_bench(["--config", str(config)]).configs == (result.findings[0].config,)
    head = config.read_text(encoding="utf-8").split("\n\n")[0]
    assert f"#   python -m gcl_hard.bench --config {config.name}" in head
    assert f"#   {COMMAND}" in head
    assert "β 5, learning rate 0.02" in head


def test_a_page_is_written_again_but_over_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "s.md"
    best_finding = finding(study(trial(50.0, {"beta": 1.0})))
    write(result_of(best_finding), path, command=COMMAND)
    write(result_of(best_finding, asked=99), path, command=COMMAND)
    assert says(path.read_text(encoding="utf-8"), 1, 99, "trials")
    path.write_text("# Results\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"/s\.md\b.*\bsearch report\b.*\bname\b"):
        write(result_of(best_finding), path, command=COMMAND)
    assert path.read_text(encoding="utf-8") == "# Results\n"


def test_a_folder_is_refused_and_an_empty_or_missing_file_is_taken(tmp_path: Path) -> None:
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "empty.md").touch()
    with pytest.raises(InputError, match=r"folder\.md"):
        check_target(tmp_path / "folder.md")
    check_target(tmp_path / "empty.md")
    check_target(tmp_path / "a" / "b" / "s.md")
    assert not (tmp_path / "a").exists()


def test_the_page_begins_with_the_numbers_and_the_command() -> None:
    content = text(result_of())
    first, second, *_ = content.split("\n\n")
    assert says(first, "search", "hscl", "PTC_MR", "inductive")
    assert says(second, 7, "trials")
    order = [rf"```bash\n{re.escape(COMMAND)}\n```", r"inner.*\b70\.0 %", r"outer.*\b61\.0 %",
             r"optimism.*\+9\.0", r"\n## .*\bsearched\b"]  # fmt: skip
    assert in_order(content, order)
    heads = re.findall(r"^## .*", content, flags=re.M)
    words = ("found", "searched", "best", "trials", "searched")
    for head, word in zip(heads, words, strict=True):
        assert says(head, word)
    assert "| β | 0.1 to 20, logarithmic |" in content
    assert "| failed | diverged: 2 | 2 |" in content
    assert says(content, "inner score", 48)
    assert "pruner" not in content  # there was none


def test_a_search_that_is_not_at_its_end_says_so() -> None:
    assert says(text(result_of(asked=64)), 7, 64, "trials", "complete", "pruned")
    several = result_of(finding(searched()), finding(study(trial(50.0, {"beta": 1.0}))), asked=7)
    assert says(text(several), "7, 1", 7, 7, 2, "studies", "complete", "pruned")


def test_the_paper_s_protocol_is_labelled_before_its_number() -> None:
    content = text(
        result_of(finding(searched(), outer=None, config=PAPER), protocol="transductive")
    )
    _, _, rest = content.partition("\n> ")
    warning, _, rest = rest.partition("\n\n")
    assert says(warning, "no estimate", "test folds")
    assert says(rest, "test folds", "70.0 %")
    assert re.findall(r"^\| (inner|outer)\b", content, flags=re.M) == []
    plain = text(result_of())
    assert re.findall(r"^\| (inner|outer)\b", plain, flags=re.M) == ["inner", "outer"]
    assert not says(plain, "no estimate")
    assert "\n> " not in plain


OWN = {"encoder_own": True, "encoder": "Mine"}
GRAPHS = {"graphs_own": True, "dataset": "mine"}


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (OWN, ["own", "encoder", "Mine(hidden=16)"]),
        (GRAPHS, ["own", "graphs", "mine"]),
        (OWN | GRAPHS, ["own", "graphs", "mine", "mine", "own", "encoder", "Mine(hidden=16)"]),
    ],
)
def test_what_no_config_has_is_told_and_not_run(
    facts: dict[str, object], words: list[str], tmp_path: Path
) -> None:
    result = result_of(finding(study(trial(50.0, {"beta": 1.0, "encoder.hidden": 16}))), **facts)
    content = text(result)
    assert says(content, "config", *words)
    assert "gcl_hard.bench" not in content
    write(result, tmp_path / "s.md", command=COMMAND)
    config = (tmp_path / "s-best.yaml").read_text(encoding="utf-8")
    assert says("\n\n".join(re.findall(r"^# (.*)", config, flags=re.M)), "config", *words)
    assert "hidden" not in yaml.safe_load(config)


def test_what_a_config_has_is_run() -> None:
    content = text(result_of())
    assert not says(content, "own")
    assert "```bash\npython -m gcl_hard.bench --config search-best.yaml\n```" in content


def test_an_outer_score_that_is_missing_says_why() -> None:
    why = "the search is not over"
    unscored = finding(searched(), outer=None, why=why)
    content = text(result_of(unscored, asked=64))
    assert says(content, "outer", "none", why)
    assert "optimism" not in content
    both = text(result_of(finding(searched()), unscored, asked=64))
    assert "| 1 | 70.0 % | 61.0 % | +9.0 | β 5" in both
    assert "| 2 | 70.0 % | – | – | β 5" in both
    assert says(both, "outer", "none", why)


def test_words_of_users_break_no_table() -> None:
    searches = study(trial(50.0, {"beta": 1.0}), trial("a|b <i>", {"beta": 1.0}))
    assert "| failed | a\\|b &lt;i>: 1 | 1 |" in text(result_of(finding(searches)))


# The best settings as a config


ODD: dict[str, Any] = {"lr": 1e-05, "weight_decay": 1e-06, "batch_size": 17}
SETTINGS: list[tuple[type[RunConfig], dict[str, Any]]] = [
    (GraphConfig, {**ODD, "protocol": "inductive", "beta": math.pi}),
    (GraphConfig, {"contrast": "two-view", "strength": 0.1 + 0.2, "temperature": 1e-05}),
    (GraphConfig, {"objective": "infonce", "epochs": 3, "dim": 5}),
    (
        ImageConfig,
        {**ODD, "dataset": "CIFAR10", "beta": 1e22, "probe_lr": (1e-05, 0.2), "flip": 0.1},
    ),
    (ImageConfig, {"positives": "class", "subset": 100, "size": 16, "probe": "logistic"}),
]


@pytest.mark.parametrize(
    ("kind", "settings", "method"),
    [
        *((kind, {}, method) for kind in (GraphConfig, ImageConfig) for method in METHODS),
        *((kind, settings, "hscl") for kind, settings in SETTINGS),
        (GraphConfig, {**ODD, "threshold_start": -1 / 3}, "hscl-tau"),
    ],
)
def test_bench_reads_exactly_this_config(
    kind: type[RunConfig], settings: dict[str, Any], method: str, tmp_path: Path
) -> None:
    config = kind(method=method, **settings)  # type: ignore[call-arg]
    file = tmp_path / "best.yaml"
    file.write_text(best_yaml(config, "head"), encoding="utf-8")
    assert parse_bench(["--config", str(file)]).configs == (config,)


# The terminal


def shown(result: SearchResult) -> str:
    """The text, each row in a line."""
    console = Console(width=500, color_system=None)
    with console.capture() as seen:
        console.print(terminal(result), highlight=False)
    return seen.get()


def test_the_best_settings_and_the_three_numbers() -> None:
    trials_line, inner, outer, optimism, *_ = shown(result_of()).splitlines()
    settings = "β 5, learning rate 0.02, temperature γ 0.4"
    assert trials_line.split("  ")[0] == "made"
    assert says(
        trials_line, "6 complete", "1 pruned", "2 failed (2 x diverged)", "trial 3", settings
    )
    for line, facts in (
        (inner, ["inner", "70.0 %"]), (outer, ["outer", "61.0 %"]), (optimism, ["optimism", "+9.0"])
    ):  # fmt: skip
        assert says(line.partition("  ")[0], *facts)


def test_the_paper_s_protocol_is_labelled() -> None:
    result = result_of(finding(searched(), outer=None, config=PAPER), protocol="transductive")
    *_, score, warning = shown(result).splitlines()
    assert says(score.partition("  ")[0], "test folds", "70.0 %")
    assert says(warning, "chosen", "test folds", "estimate")


@pytest.mark.parametrize("reason", ["RuntimeError: no file [/data/x]", "expected [batch, d]"])
def test_reasons_are_shown_as_they_are(reason: str) -> None:
    searches = study(trial(50.0, {"beta": 1.0}), trial(reason, {"beta": 2.0}))
    assert f"1 failed (1 x {reason})" in shown(result_of(finding(searches)))


@pytest.mark.parametrize(
    ("name", "inside", "at_end"),
    [
        ("beta", (0.2, 15.0), (0.1, 0.11, 19.0)),  # 0.1 to 20, logarithmic: 5 % is a factor of 1.3
        ("temperature", (0.3, 1.8), (0.1, 0.15, 1.95, 2.0)),
        ("layers", (1, 2, 4), (5,)),  # there is no less than 1 layer
        ("encoder.hidden", (), (16, 32)),
        ("readout", ("sum", "mean"), ()),
    ],
)
def test_a_best_value_at_an_end_of_its_range_is_marked(
    name: str, inside: tuple[Any, ...], at_end: tuple[Any, ...]
) -> None:
    for best in (*inside, *at_end):
        result = result_of(finding(study(trial(60.0, {name: best}))))
        marked = best in at_end
        assert ("‡" in shown(result)) == marked
        pages = page(result, Path("search.md"), command="tune", figures=[[]])
        assert pages.count("‡") == 2 * marked  # the value, and what the sign means
