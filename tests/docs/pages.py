"""The documents: their blocks of code, their tables, their headings and their links."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^( *)```(\w*)([^\n]*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#{1,6} +(.+?)(?: *\{ *#([\w-]+) *\})?$", re.MULTILINE)
_LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)")


@dataclass(frozen=True)
class Block:
    """A fenced block of code."""

    language: str
    title: str  # the file of the block, or empty
    text: str  # without the indentation of the fence
    line: int  # of the page, where the text begins


@dataclass(frozen=True)
class Page:
    """One Markdown file."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def text(self) -> str:
        return self.path.read_text("utf-8")

    @property
    def prose(self) -> str:
        """The text without blocks of code."""
        return _FENCE.sub("", self.text)

    def blocks(self, *languages: str) -> list[Block]:
        """The blocks in these languages, or all blocks."""
        found = []
        for match in _FENCE.finditer(self.text):
            indent, language, attributes, body = match.groups()
            if languages and language not in languages:
                continue
            title = re.search(r'title="([^"]+)"', attributes)
            lines = [line.removeprefix(indent) for line in body.splitlines()]
            line = self.text.count("\n", 0, match.start(4)) + 1
            found.append(Block(language, title[1] if title else "", "\n".join(lines) + "\n", line))
        return found

    def section(self, heading: str) -> str:
        """The text between a heading and the next one of any level."""
        _, found, rest = self.prose.partition(f"# {heading}\n")
        if not found:
            raise ValueError(f"{self.name} must have the heading {heading!r}.")
        return re.split(r"^#{1,6} ", rest, maxsplit=1, flags=re.MULTILINE)[0]

    def rows(self, heading: str) -> list[list[str]]:
        """The cells of the section's table, without its head."""
        lines = re.findall(r"^\|(.+)\|$", self.section(heading), re.MULTILINE)
        return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)] for line in lines[2:]]

    @property
    def anchors(self) -> set[str]:
        """The anchors of the headings, as the page's HTML has them."""
        found: list[str] = []
        for title, own in _HEADING.findall(self.prose):
            base = own or _slug(title)
            number = found.count(base)
            found += [base, f"{base}_{number}"] if number else [base]
        return set(found)

    @property
    def links(self) -> list[str]:
        return _LINK.findall(self.prose)


def _slug(title: str) -> str:
    """The anchor of a heading, as Python-Markdown makes it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
    text = unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())


SITE = [Page(path) for path in sorted(DOCS.rglob("*.md"))]
README = Page(ROOT / "README.md")
PAGES = [README, *SITE]
DOCUMENTS = [*PAGES, *(Page(ROOT / name) for name in ("CONTRIBUTING.md", "CHANGELOG.md"))]
