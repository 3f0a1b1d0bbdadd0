"""``python -m gcl_hard.tune``: from a data set to the best settings of a method."""

import sys

from gcl_hard.commands.tune import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
