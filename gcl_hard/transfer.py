"""``python -m gcl_hard.transfer``: from encoders of molecules to scores on labelled sets."""

import sys

from gcl_hard.commands.running import entry_point

main = entry_point("transfer", "bench")

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
