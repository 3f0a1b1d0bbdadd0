"""``gcl-hard COMMAND``, or ``python -m gcl_hard COMMAND``: the commands under one name."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gcl_hard.commands.running import entry_point, run_command
from gcl_hard.errors import unknown
from gcl_hard.version import __version__

COMMANDS = {
    "bench": "train encoders and score them: the tables",
    "tune": "search the settings of a method with Optuna",
    "figures": "draw what --diagnostics measured from results",
    "pretrain": "train an encoder of molecules or images without targets",
    "embed": "embed new data by a saved encoder, each row with its name",
    "predict": "answer questions by a saved model of links, such as which tail a fact has",
    "export": "write a saved encoder as ONNX, torch.export or safetensors",
}
USAGE = "\n".join([
    "usage: gcl-hard COMMAND [...]", "",
    *(f"  gcl-hard {name:8} {words}" for name, words in COMMANDS.items()), "",
    "gcl-hard COMMAND --help lists the flags; gcl-hard --version prints the version.",
])  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: a command and its arguments; ``sys.argv`` if None.

    Returns:
        Exit status of the command; 2 if there is none of its name.
    """
    name, *rest = (sys.argv[1:] if arguments is None else [*arguments]) or ["--help"]
    if name in ("--help", "-h", "--version"):
        print(f"gcl-hard {__version__}" if name == "--version" else USAGE)
        return 0

    def command() -> int:
        if name not in COMMANDS:
            raise unknown("command", name, COMMANDS)
        return entry_point(name, "tune" if name == "tune" else "bench")(rest)

    return run_command(command, stopped=lambda: "stopped")


if __name__ == "__main__":
    sys.exit(main())
