"""Fail when a built site would load a script, style, font, image or frame from another host.

Run as ``python docs/check_external.py site``. Links that a reader may click are left alone.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

# `link` elements that only name a page; every other kind makes the browser fetch or connect.
NAMED_ONLY = {"canonical", "alternate", "author", "license", "next", "prev", "edit", "me"}
CSS_TARGET = re.compile(r"""(?:url\(|@import\s)\s*["']?(?!url\()([^"')\s;]+)""", re.IGNORECASE)


def is_external(target: str) -> bool:
    """Whether a browser would leave the site to load this address."""
    return re.match(r"\s*(https?:)?//", target, re.IGNORECASE) is not None


class Loads(HTMLParser):
    """Collects the external addresses that a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.in_style = tag == "style"
        targets = [values.get("src", ""), values.get("poster", "")]
        targets += [part.strip().split(" ")[0] for part in values.get("srcset", "").split(",")]
        targets += CSS_TARGET.findall(values.get("style", ""))
        if tag == "object":
            targets.append(values.get("data", ""))
        if tag in {"image", "use"}:
            targets += [values.get("href", ""), values.get("xlink:href", "")]
        if tag == "link" and not set(values.get("rel", "").lower().split()) & NAMED_ONLY:
            targets.append(values.get("href", ""))
        self.found += filter(is_external, targets)

    def handle_data(self, data: str) -> None:
        if self.in_style:
            self.found += filter(is_external, CSS_TARGET.findall(data))

    def handle_endtag(self, tag: str) -> None:
        self.in_style = False


def external_loads(text: str, suffix: str) -> list[str]:
    """External addresses that one file of the site (``.html``, ``.css`` or ``.svg``) loads.

    Example:
        >>> external_loads('<script src="//a.b/c.js"></script> <a href="https://d">d</a>', ".html")
        ['//a.b/c.js']
        >>> external_loads('<link rel="stylesheet" href="https://e/f"><img src="g">', ".html")
        ['https://e/f']
        >>> external_loads('@import url(//h/i); p { background: url("https://j/k") }', ".css")
        ['//h/i', 'https://j/k']
    """
    if suffix == ".css":
        return list(filter(is_external, CSS_TARGET.findall(text)))
    page = Loads()
    page.feed(text)
    return page.found


def main(site: Path) -> int:
    files = [path for path in site.rglob("*") if path.suffix in {".html", ".css", ".svg"}]
    if not files:
        print(f"{site}: no built site here", file=sys.stderr)
        return 1
    found = [
        f"{path}: loads {target}"
        for path in sorted(files)
        for target in external_loads(path.read_text(encoding="utf-8"), path.suffix)
    ]
    print("\n".join(found) or f"{site}: {len(files)} files, nothing loaded from elsewhere")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
