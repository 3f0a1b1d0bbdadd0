"""Output of the scripts of a folder, or of one shell script: ``printed.py WHAT [ARGUMENT ...]``.

Every line goes to ``NAME.printed`` in this folder, without parts that vary between two runs: times,
memory, addresses, temporary folders, frames of tracebacks. Scripts run as copies, with the package
of ``PYTHONPATH``, and their generators are seeded.
"""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

SCRIPTS = "*[0-9]_*.py"
"""Scripts that run in a folder; they import the other files."""
DISTRIBUTED = {"07_queue_ddp.py": [], "19_uneven.py": ["a"], "fine_04_gathered_torchrun.py": []}
"""Scripts that torchrun starts, with their arguments; rank 0 is read."""
SECONDS = 240
UNITS = "ms|s|MB|GB|MiB|GiB|TFLOP/s|images/s"
MASKS = (
    (r"(?m)^Traceback \(most recent call last\):\n(?:[ \t].*\n)+", ""),
    (r"(?m)^ERROR:.*DeviceProperties.*\n", ""),  # the profiler's, with date and process
    (r"(?m)^ *\d+s ", ""),
    (r"(?m)(^>> resnet.* losses )\[.*\]", r"\1#"),  # of images that are drawn without a seed
    (r"gcl_hard/[\w/]+\.py:\d+", "gcl_hard"),
    (r"\b0x[0-9a-f]+", "ADDRESS"),
    (r"127\.0\.0\.1:\d+", "PORT"),
    (rf"(?<![\w.])-?\d[\d.,]*(?= ?(?:{UNITS})\b)", "#"),
    (r"(?<=host )[\d.]+|[\d.]+(?= host)", "#"),
)
QUICK = {"DEVICE": "cpu", "QUICK": "1", "SCALE": "6", "SITE": "", "OUT": "logs", "SHOW": "1000"}
"""Variables of ``gpu/try.sh`` for a machine without a GPU."""


def masked(text: str, tree: str, scratch: str) -> list[str]:
    """Lines without varying parts; paths are relative to the tree or a temporary folder."""
    text = re.sub(rf"{re.escape(scratch)}(/[\w.-]+)?", "FOLDER", text.replace(f"{tree}/", ""))
    text = text.replace(str(Path.cwd()), ".")
    for pattern, name in MASKS:
        text = re.sub(pattern, name, text)
    return text.splitlines()


def seeded(script: str, *arguments: str) -> None:
    """Run a script as a command would, with all generators seeded."""
    import random

    import numpy as np
    import torch

    random.seed(0)
    np.random.seed(0)  # noqa: NPY002, the generator of scripts that use none of their own
    torch.manual_seed(0)
    sys.argv[:] = [script, *arguments]
    sys.path[0] = str(Path(script).parent)
    runpy.run_path(script, run_name="__main__")


def copied(source: Path, folder: Path) -> Path:
    """A copy of a folder or a script."""
    copy = folder / source.name
    if source.is_dir():
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, copy)
    return copy


def call(script: Path, arguments: Sequence[str]) -> list[str]:
    """The command line of a script."""
    if script.suffix == ".sh":
        return ["bash", str(script), *arguments]
    command = [str(Path(__file__).resolve()), "--seeded", script.name]
    if script.name not in DISTRIBUTED:
        return [sys.executable, "-W", "ignore", *command]
    run = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return [sys.executable, *run, "--local-ranks-filter", "0", *command, *DISTRIBUTED[script.name]]


def main(source: Path, *arguments: str) -> None:
    """Run scripts, and write their output."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        Path(scratch).chmod(0o755)  # a script gives up its rights
        copy = copied(source, Path(scratch))
        scripts = sorted(copy.glob(SCRIPTS)) if copy.is_dir() else [copy]
        variables = {"TMPDIR": scratch, "WORK": str(Path.cwd()), "PYTHON": sys.executable}
        if copy.suffix == ".sh":
            data = str(source.resolve().parents[1] / "data" / "tu")
            variables |= QUICK | {"EXTRA_SITE": os.environ["PYTHONPATH"], "DATA": data}
        for script in scripts:
            done = subprocess.run(
                call(script, arguments),
                cwd=script.parent if copy.is_dir() else None,
                env=os.environ | {"PYTHONHASHSEED": "0"} | variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=SECONDS * (1 if copy.is_dir() else 4),
                text=True,
                check=False,
            )
            lines = masked(done.stdout, os.environ["PYTHONPATH"], scratch)
            text = "\n".join([f"exit status {done.returncode}", *lines])
            Path(f"{script.stem}.printed").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1] == "--seeded":
        seeded(*sys.argv[2:])
    else:
        sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
        main(Path(sys.argv[1]), *sys.argv[2:])
