"""What a text states, however it words it."""

from __future__ import annotations

import re
from collections import Counter

BLOCKS = re.compile(r"\n\s*\n|\n(?=\s*(?:[|#]|[-*] ))|(?<=\|)\n")


def says(text: str, *facts: object) -> bool:
    """Whether one paragraph, list item, heading or table row of a text states all the facts.

    A fact is a number, a name, a flag, a file or a key word. It stands as a whole word, whatever
    the case, as often as it is given; numbers may have commas between thousands. So a test holds
    what a message must name, and none of the words around it.

    >>> out = "| 4.5 |\\n4 of 4 runs were finished before,\\nso that 1,000 are left"
    >>> says(out, 4, 4, "runs"), says(out, 1000, "left")
    (True, True)
    >>> says(out, 4, 4, 4), says(out, 4.5, "runs"), says(out, 100)
    (False, False, False)
    """
    counted = Counter(fact if isinstance(fact, str) else f"{fact:,}" for fact in facts)
    return any(
        all(len(re.findall(_whole(fact), block)) >= n for fact, n in counted.items())
        for block in (" ".join(part.split()) for part in BLOCKS.split(text))
    )


def _whole(fact: str) -> str:
    """A pattern of a fact as a whole word or number."""
    number = fact[:1].isdigit()
    before = r"(?<![\w.,-])" if number else r"(?<!\w)" if re.match(r"\w", fact) else ""
    after = r"(?!\w|[.,]\d)" if re.search(r"\w$", fact) else ""
    body = re.escape(" ".join(fact.split()))
    return f"(?i){before}{body.replace(',', ',?') if number else body}{after}"
