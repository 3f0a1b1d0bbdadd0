"""``python -m gcl_hard.pretrain``: from molecules or images to an encoder."""

import sys

from gcl_hard.commands.running import entry_point

main = entry_point("pretrain", "bench")

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
