"""``python -m gcl_hard.bench``: from a data set to an accuracy."""

import sys

from gcl_hard.commands.running import entry_point

main = entry_point("bench", "bench")

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
