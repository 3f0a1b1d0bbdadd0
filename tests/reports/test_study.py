"""The page of a search and what is written beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from gcl_hard.experiments.options import parse_bench

from gcl_hard.errors import InputError
from gcl_hard.reports.study_page import (
    check_target,
    page,
    write,
)
from gcl_hard.tuning.api import SearchResult as Outcome
from tests.tuning.reporting.made import finding, outcome, searched, study, trial

COMMAND = "python -m gcl_hard.tune --dataset PTC --method hscl --trials 7"


def text(made: Outcome, path: Path = Path("search.md")) -> str:
    """The page, tables without padding."""
    found = page(made, path, command=COMMAND, figures=[[] for _ in made.findings])
    return re.sub(r"(?<=\|) +| +(?=\|)", " ", found)


def test_everything_is_written_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    path = tmp_path / "new" / "my.search.md"
    written = write(outcome(), path, command=COMMAND)
    assert written[0] == path
    assert sorted(path.parent.iterdir()) == sorted(written)
    kinds = ["history", "importances", "slices", "contour", "intermediate"]
    names = [f"my.search{end}" for end in (".md", ".html", "-best.yaml")]
    assert [p.name for p in written] == names + [f"my.search-{kind}.png" for kind in kinds]
    links = re.findall(r"(!?)\[([^\]]+)\]\(([^)]+)\)", path.read_text(encoding="utf-8"))
    assert {name for _, _, name in links} == {p.name for p in written[1:]} - {"my.search.html"}
    assert "`my.search.html`" in path.read_text(encoding="utf-8")  # large, and often not kept
    assert all(len(alt) > 20 for image, alt, _ in links if image)
    assert len([1 for image, _, _ in links if image]) == len(kinds)


def test_several_studies_have_files_of_their_own(tmp_path: Path) -> None:
    first = study(trial(70.0, {"beta": 5.0, "lr": 0.02, "temperature": 0.4}))
    made = outcome(finding(first, outer=60.0), finding(study(trial(50.0, {"beta": 3.0}))))
    written = {p.name for p in write(made, tmp_path / "s.md", command=COMMAND)}
    assert {"s.md", "s.html", "s-outer1-best.yaml", "s-outer2-best.yaml"} < written
    assert {"s-outer1-history.png", "s-outer2-history.png"} < written
    assert not any(name.startswith("s-best") for name in written)
    said = re.sub(" +", " ", (tmp_path / "s.md").read_text(encoding="utf-8"))
    assert "| 1 | 70.0 % | 60.0 % | +10.0 | β 5, learning rate 0.02, temperature γ 0.4 |" in said
    assert "| 2 | 50.0 % | 61.0 % | -11.0 | β 3 |" in said
    assert (
        said.index("## Outer part 1") < said.index("s-outer1-best") < said.index("## Outer part 2")
    )


def test_the_config_beside_the_page_is_the_best_config(tmp_path: Path) -> None:
    made = outcome(finding(study(trial(70.0, {"beta": 5.0, "lr": 0.02}))))
    write(made, tmp_path / "s.md", command=COMMAND)
    config = tmp_path / "s-best.yaml"
    assert parse_bench(["--config", str(config)]).configs == (made.findings[0].config,)
    head = config.read_text(encoding="utf-8").split("\n\n")[0]
    assert f"#   python -m gcl_hard.bench --config {config.as_posix()}" in head
    assert f"#   {COMMAND}" in head
    assert "β 5, learning rate 0.02" in head


def test_a_page_is_written_again_but_over_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "s.md"
    made = finding(study(trial(50.0, {"beta": 1.0})))
    write(outcome(made), path, command=COMMAND)
    write(outcome(made, asked=99), path, command=COMMAND)
    assert "1 of 99 trials" in path.read_text(encoding="utf-8")
    path.write_text("# Results\n", encoding="utf-8")
    with pytest.raises(InputError, match="not a search report"):
        write(outcome(made), path, command=COMMAND)
    assert path.read_text(encoding="utf-8") == "# Results\n"


@pytest.mark.parametrize("name", ["s", "s.html", ".md", "folder.md", "file.txt/s.md"])
def test_a_place_that_is_no_page_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "file.txt").touch()
    with pytest.raises(InputError, match=re.escape(name)):
        check_target(tmp_path / name)


def test_an_empty_or_missing_file_is_taken(tmp_path: Path) -> None:
    (tmp_path / "empty.md").touch()
    check_target(tmp_path / "empty.md")
    check_target(tmp_path / "a" / "b" / "s.md")
    check_target(Path("s.md"))
    assert not (tmp_path / "a").exists()


def test_the_page_begins_with_the_numbers_and_the_command() -> None:
    said = text(outcome())
    assert said.startswith("# Search: hscl on PTC_MR, protocol inductive\n\n7 trials, complete or ")
    order = [f"```bash\n{COMMAND}\n```", "**Inner score: 70.0 %", "**Outer score: 61.0 %",
             "**Optimism: +9.0 points", "## What was searched", "## The best settings",
             "## The paper's grid", "## Trials", "## How it was searched"]  # fmt: skip
    where = [said.index(one) for one in order]
    assert where == sorted(where)
    assert "| β | logarithmic | 0.1 | 20 |" in said
    assert "| failed | diverged: 2 | 2 |" in said
    assert "- held-out items of an inner score: 48" in said
    assert "pruner" not in said  # there was none


def test_facts_are_told_in_words() -> None:
    said = text(outcome(settings={"batch_size": 64, "lr": 1e-4}, dimensions={"beta": "{"}, none={}))
    assert said.endswith("- settings: batch size 64, lr 0.0001\n")


def test_a_search_that_is_not_at_its_end_says_so() -> None:
    assert "7 of 64 trials are complete or pruned." in text(outcome(asked=64))
    several = outcome(finding(searched()), finding(study(trial(50.0, {"beta": 1.0}))), asked=7)
    assert "7, 1 of 7 trials in each of 2 studies are complete or pruned." in text(several)


def test_the_paper_s_protocol_is_labelled_before_its_number() -> None:
    said = text(outcome(finding(searched(), outer=None), protocol="paper"))
    label = "> **No estimate.** Settings were chosen on the test folds, as the paper does"
    assert said.index(label) < said.index("**Score on the test folds: 70.0 %")
    assert "Outer score" not in said
    assert "Inner score" not in said
    assert "No estimate" not in text(outcome())


def test_without_a_grid_there_is_no_word_of_it() -> None:
    said = text(outcome(finding(study(trial(50.0, {"beta": 1.0}), trial(51.0, {"beta": 2.0})))))
    assert "grid" not in said


OWN = {"encoder_own": True, "encoder": "Mine"}
GRAPHS = {"graphs_own": True, "dataset": "mine"}


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (OWN, "your own encoder Mine(hidden=16)"),
        (GRAPHS, "the graphs of mine, which are your own"),
        (OWN | GRAPHS, "the graphs of mine, which are your own and your own encoder Mine(hid"),
    ],
)
def test_what_no_config_has_is_told_and_not_run(
    facts: dict[str, object], told: str, tmp_path: Path
) -> None:
    made = outcome(finding(study(trial(50.0, {"beta": 1.0, "encoder.hidden": 16}))), **facts)
    said = text(made)
    assert f"Not in it, as no config has them: {told}" in said
    assert "gcl_hard.bench" not in said
    write(made, tmp_path / "s.md", command=COMMAND)
    config = (tmp_path / "s-best.yaml").read_text(encoding="utf-8")
    assert f"# Not in it, as no config has them: {told}" in config
    assert "hidden" not in yaml.safe_load(config)


def test_what_a_config_has_is_run() -> None:
    said = text(outcome())
    assert "Not in it" not in said
    assert "```bash\npython -m gcl_hard.bench --config search-best.yaml\n```" in said


def test_a_grid_of_one_s_own_is_not_the_paper_s() -> None:
    said = text(outcome(grid="the grid"))
    assert "## The grid\n\nThe best of the 2 trials of the grid has 65.0 %" in said
    assert "paper" not in said


def test_how_things_are_stored_is_no_fact_for_people() -> None:
    said = text(outcome())
    for fact in ("encoder_own", "encoder own", "graphs own", "grid: ", "dimensions"):
        assert fact not in said


def test_an_outer_score_that_is_missing_says_why() -> None:
    one = finding(searched(), outer=None, why="the search is not over")
    said = text(outcome(one, asked=64))
    assert "- **Outer score: none yet.** There is none: the search is not over." in said
    assert "Optimism" not in said
    both = text(outcome(finding(searched()), one, asked=64))
    assert "| 1 | 70.0 % | 61.0 % | +9.0 | β 5" in both
    assert "| 2 | 70.0 % | – | – | β 5" in both
    assert "- **Outer score: none yet.**" in both


def test_words_of_users_break_no_table() -> None:
    made = study(trial(50.0, {"beta": 1.0}), trial("a|b <i>", {"beta": 1.0}))
    assert "| failed | a\\|b &lt;i&gt;: 1 | 1 |" in text(outcome(finding(made)))
