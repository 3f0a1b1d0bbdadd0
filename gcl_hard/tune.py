"""``python -m gcl_hard.tune``: from a data set to the best settings of a method."""

import sys

from gcl_hard.commands.running import entry_point

main = entry_point("tune", "tune")

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
