"""What is wrong with a command line, in its own words, with the nearest flags."""

from __future__ import annotations

import re

from jsonargparse import ArgumentParser

from gcl_hard.errors import nearest, unknown
from gcl_hard.experiments.cell import defaults, flag
from gcl_hard.experiments.cells import CELLS
from gcl_hard.experiments.running_flags import RUNNING, RUNNING_SWITCHES
from gcl_hard.experiments.values import SEEDS


def explain(message: str, parser: ArgumentParser) -> str:
    """The parser's message in the words of the command line, with the nearest flags."""
    flags = [o for a in parser._actions for o in a.option_strings if o.startswith("--")]
    if match := re.match(r"unrecognized arguments: (.*)", message, re.DOTALL):
        wrong = match[1].split()[0].split("=")[0]
        if not wrong.startswith("-"):
            return f"{wrong!r} belongs to no flag; several values are separated by commas (a,b)"
        return f"unknown flag {wrong}{_elsewhere(wrong, flags) or _hint(wrong, flags)}"
    if match := re.search(r"Option '(.*?)' is not accepted", message):
        keys = [flag.removeprefix("--").replace("-", "_") for flag in flags]
        return f"unknown key {match[1]!r} in the config file{_hint(match[1], keys)}"
    if match := re.match(r'Parser key "(\w+)":\s*(.*)', message, re.DOTALL):
        return _explain_value(match[1], " ".join(match[2].split()))
    return message


def _explain_value(key: str, message: str) -> str:
    """What is wrong with a value, without the parser's names of types."""
    flag, got = key.replace("_", "-"), message.rpartition("value: ")[2].strip()
    if words := re.search(r"Literal\[(.*?)\]", message):
        return str(unknown(flag, got, re.findall(r"'(.*?)'", words[1])))
    if "Expected a <class 'float'>" in message:  # on its own or in a union
        return f"--{flag} must be {PLAIN['float']}, got {got}"
    if expected := re.match(r"Expected a <class '(\w+)'>", message):
        return f"--{flag}: expected {PLAIN.get(expected[1], expected[1])}, got {got}"
    jargon = r"Not of type \w+: (could not convert string to float: |invalid literal for .*?: )?"
    if plain := re.search(jargon + r"(.*)", message):
        return f"--{flag}: {plain[2].strip()}{WANTED.get(key, '') if plain[1] else ''}"
    return f"--{flag}: {message}"


PLAIN = {"float": "a finite number", "int": "a whole number", "bool": "true or false"}
NUMBERS = "; expected numbers, separated by commas"
WANTED = {
    "beta": NUMBERS, "lr": NUMBERS, "threshold_start": NUMBERS, "threshold_end": NUMBERS,
    "probe_lr": NUMBERS, "seeds": f"; expected {SEEDS}",
}  # fmt: skip


def _elsewhere(wrong: str, flags: list[str]) -> str:
    """Where a flag is known that is not among those of this backend."""
    for backend, cell in CELLS.items():
        known = [f"--{flag(name)}" for name in defaults(cell)]
        known += [f"--{name}" for name, *_ in (*RUNNING[backend], *RUNNING_SWITCHES[backend])]
        if wrong in known and wrong not in flags:
            return WHERE[backend]
    return ""


WHERE = {
    "graphs": "; it is of graphs, and the data sets given are images",
    "images": "; it is of images: give their --dataset too (digits, CIFAR10, …, or NAME, with "
    "NAME.npz in --data-dir)",
}


def _hint(word: str, options: list[str]) -> str:
    close = nearest(word, options)
    return f"; did you mean {' or '.join(close)}?" if close else "; --help lists them"
