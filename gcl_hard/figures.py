"""``python -m gcl_hard.figures``: from results to a figure of the papers."""

import sys

from gcl_hard.commands.running import entry_point

main = entry_point("figures", "bench")

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
