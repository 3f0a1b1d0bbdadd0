"""A command of which one process cannot read its images."""

from __future__ import annotations

import os
import sys

from gcl_hard import InputError
from gcl_hard.bench import main
from gcl_hard.images import training as image_training


def fail(*arguments: object, **options: object) -> None:
    raise InputError("no space left for it")


if __name__ == "__main__":
    if os.environ["RANK"] == sys.argv[1]:
        image_training.train_run = fail  # type: ignore[assignment]
    command = "--dataset=digits --encoder=resnet18 --subset=128 --batch-size=32 --epochs=2"
    sys.exit(main([*command.split(), "--seeds=2", "--monitor-every=0"]))
