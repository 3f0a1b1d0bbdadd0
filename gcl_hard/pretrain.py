"""``python -m gcl_hard.pretrain``: from a large set of molecules to an encoder."""

import sys

from gcl_hard.commands.pretrain import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
