"""Runs a command again and again, and ends it by SIGKILL at random moments.

The commands are forks of this process, which imports once what they need: they are killed at work.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

Command = Callable[[Sequence[str]], int]

# Commands besides those of the package; the first argument is the folder that they write into.


def write_checkpoints(arguments: Sequence[str]) -> int:
    """Counts to 40 and keeps every number in the checkpoint, in many weights."""
    import torch

    from gcl_hard.training.checkpoint import Checkpoint

    checkpoint = Checkpoint(Path(arguments[0]) / "run.ckpt", {"lr": 1}, resume=True, every=0)
    state = checkpoint.load() or {"step": 0, "weights": torch.zeros(300_000)}
    for step in range(state["step"], 40):
        if not torch.equal(state["weights"], torch.full((300_000,), float(step))):
            return 1
        state = {"step": step + 1, "weights": state["weights"] + 1}
        checkpoint.save(state)
    return 0


def _digest(arguments: Sequence[str], *arrays: object) -> int:
    content = b"".join(bytes(memoryview(array).cast("B")) for array in arrays)  # type: ignore[arg-type]
    Path(arguments[0], "digest").write_text(hashlib.sha256(content).hexdigest())
    return 0


def download_graphs(arguments: Sequence[str]) -> int:
    """Reads a set that lies at the address in the second argument."""
    from gcl_hard.graphs import load_graphs, tudataset

    tudataset.SITE = arguments[1]
    graphs = load_graphs("RINGS", cache_dir=arguments[0])
    return _digest(arguments, graphs.edge_index.contiguous().numpy(), graphs.y.numpy())


def parse_molecules(arguments: Sequence[str]) -> int:
    """Reads the table in the second argument."""
    from gcl_hard.molecules import read_molecules

    molecules = read_molecules(arguments[1], cache_dir=arguments[0]).molecules
    return _digest(arguments, b"\n".join(molecules.smiles), molecules.node_ptr.numpy())


def decode_images(arguments: Sequence[str]) -> int:
    """Reads the folder ``pets`` inside the second argument."""
    from gcl_hard.images import load_images

    pets = load_images("pets", data_dir=arguments[1], cache_dir=arguments[0]).split("train")
    return _digest(arguments, pets.images.contiguous().numpy())


def started(command: Command, arguments: Sequence[str], modules: Path) -> int:
    """The id of a fork that executes a command, and lists the modules that it has imported."""
    pid = os.fork()
    if pid == 0:
        status = 70
        try:
            status = command(arguments)
            modules.write_text("\n".join(sys.modules))
        except BaseException:
            traceback.print_exc()
        os._exit(status)
    return pid


def ended(pid: int) -> None:
    """Wait for a fork; its status must be 0."""
    if (status := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])) != 0:
        sys.exit(f"the command has ended with status {status}")


def main(target: str, kills: int, folder: Path, *arguments: str) -> None:
    """Execute a command undisturbed, and then with kills.

    Results are in ``whole`` and, as many as there are, in ``ended-0``, ``ended-1`` and so on.

    Args:
        target: MODULE:FUNCTION.
        kills: how many.
        folder: of the folders that the command writes into.
        arguments: of the command, with OUT for that folder, and ROUND for a name that is another
            one whenever the command begins anew.
    """
    module, _, name = target.partition(":")
    command: Command = getattr(importlib.import_module(module), name)
    modules, rounds = folder / "modules", 0

    def start(to: str) -> int:
        (folder / to).mkdir(exist_ok=True)
        places = {"OUT": str(folder / to), "ROUND": f"{to}-{rounds}"}
        filled = list(arguments)
        for word, place in places.items():
            filled = [argument.replace(word, place) for argument in filled]
        return started(command, filled, modules)

    ended(start("whole"))
    for name in modules.read_text().split("\n"):
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    begin = time.monotonic()
    ended(start("timed"))
    duration = time.monotonic() - begin

    rng, done = random.Random(0), 0
    while True:
        pid = start("killed")
        until = time.monotonic() + rng.uniform(0, duration) if done < kills else float("inf")
        status = None
        while status is None and time.monotonic() < until:
            time.sleep(0.002)
            ended_pid, code = os.waitpid(pid, os.WNOHANG)
            status = os.waitstatus_to_exitcode(code) if ended_pid else None
        if status is None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            done += 1
            continue
        if status != 0:
            sys.exit(f"after {done} kills the command has ended with status {status}")
        (folder / "killed").rename(folder / f"ended-{rounds}")
        rounds += 1
        if done == kills:
            print(f"{duration:.2f} s undisturbed, {kills} kills, {rounds} rounds")
            return


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])
