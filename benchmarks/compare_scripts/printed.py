"""What scripts of a folder, or of one shell script, print: ``printed.py WHAT [ARGUMENT ...]``.

Every line goes to ``NAME.printed`` in this folder, without what varies between two runs: times,
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
"""What runs in a folder; other files are imported by these."""
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
"""The variables of ``gpu/try.sh`` for a machine without a GPU."""


def masked(text: str, tree: str, scratch: str) -> list[str]:
    """Lines without what varies; paths begin in the tree, or below a temporary folder."""
    text = re.sub(rf"{re.escape(scratch)}(/[\w.-]+)?", "FOLDER", text.replace(f"{tree}/", ""))
    text = text.replace(str(Path.cwd()), ".")
    for pattern, name in MASKS:
        text = re.sub(pattern, name, text)
    return text.splitlines()


def seeded(script: str, *arguments: str) -> None:
    """Run a script as its own command would, from one state of all generators."""
    import random

    import numpy as np
    import torch

    random.seed(0)
    np.random.seed(0)  # noqa: NPY002, the generator of scripts that use none of their own
    torch.manual_seed(0)
    sys.argv[:] = [script, *arguments]
    sys.path[0] = str(Path(script).parent)
    runpy.run_path(script, run_name="__main__")


def copied(what: Path, folder: Path) -> Path:
    """A copy of a folder or a script."""
    copy = folder / what.name
    if what.is_dir():
        shutil.copytree(what, copy, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(what, copy)
    return copy


def call(script: Path, arguments: Sequence[str]) -> list[str]:
    """The command line of a script."""
    if script.suffix == ".sh":
        return ["bash", str(script), *arguments]
    own = [str(Path(__file__).resolve()), "--seeded", script.name]
    if script.name not in DISTRIBUTED:
        return [sys.executable, "-W", "ignore", *own]
    run = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return [sys.executable, *run, "--local-ranks-filter", "0", *own, *DISTRIBUTED[script.name]]


def main(what: Path, *arguments: str) -> None:
    """Run what is named, and write what it prints."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        Path(scratch).chmod(0o755)  # a script gives up its rights
        copy = copied(what, Path(scratch))
        scripts = sorted(copy.glob(SCRIPTS)) if copy.is_dir() else [copy]
        own = {"TMPDIR": scratch, "WORK": str(Path.cwd()), "PYTHON": sys.executable}
        if copy.suffix == ".sh":
            data = str(what.resolve().parents[1] / "data" / "tu")
            own |= QUICK | {"EXTRA_SITE": os.environ["PYTHONPATH"], "DATA": data}
        for script in scripts:
            done = subprocess.run(
                call(script, arguments),
                cwd=script.parent if copy.is_dir() else None,
                env=os.environ | {"PYTHONHASHSEED": "0"} | own,
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
