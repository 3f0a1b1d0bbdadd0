"""``python -m gcl_hard.bench``: from a data set to an accuracy."""

import sys

from gcl_hard.commands.bench import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
