"""What all figures share: a colour a method, and files that repeat to the byte."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as Xml

from gcl_hard.experiments.reporting.figures import FIGURES, save
from gcl_hard.experiments.reporting.figures.drawing import COLOURS, FLOOR
from gcl_hard.methods import METHODS
from tests.experiments.reporting.figures import SETS, line, made, ranked


def test_every_method_has_a_colour_of_its_own() -> None:
    assert set(COLOURS) == set(METHODS)
    assert len({*COLOURS.values(), FLOOR}) == len(METHODS) + 1


def test_the_same_lines_give_the_same_bytes(tmp_path: Path) -> None:
    shown = ranked([line("hucl", 70.0 + b, beta=b) for b in (2, 10)])
    shown = [x for x in shown if x.method != "hucl" or x.setting] + [
        line("hucl", 60.0, "inside", dataset=d) for d in SETS
    ]
    for name, draw in FIGURES.items():
        first, second = tmp_path / f"{name}1.svg", tmp_path / f"{name}2.svg"
        save(made(draw(shown, "paper")), first)
        save(made(draw(shown, "paper")), second)
        assert first.read_bytes() == second.read_bytes()
        root = Xml.parse(first).getroot()
        assert root.tag.endswith("svg")
        assert float(root.attrib["width"].removesuffix("pt")) == 648  # 864 px
        assert b"<text" not in first.read_bytes()
        assert b"dc:date" not in first.read_bytes()
