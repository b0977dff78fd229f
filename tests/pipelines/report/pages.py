"""Reads a written report back."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

Cell = tuple[str, float | None]  # its text and the exact number behind it


@dataclass
class Section:
    """One task's part of the page."""

    pictures: list[str] = field(default_factory=list)
    text: str = ""


class Page(HTMLParser):
    """The tags, the cells of the summary and the sections of a report."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}  # rows of texts, by class
        self.summary: dict[str, dict[str, list[Cell]]] = {}
        self.points: dict[str, list[list[str]]] = {}  # rows of texts, by picture
        self.sections: dict[str, Section] = {}
        self.facts: dict[str, str] = {}
        self._row: list[Cell] = []
        self._class = ""
        self._task = self._title = self._fact = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)
        if tag == "table":
            self._class = dict(attrs).get("class") or ""
        if tag == "tr":
            self._row = []
        if tag in ("td", "th"):
            self._row.append(("", None))
        if tag == "data":
            self._row[-1] = (self._row[-1][0], float(dict(attrs)["value"] or ""))

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass
        if tag == "tr":
            texts = [" ".join(text.split()) for text, _ in self._row]
            self.tables.setdefault(self._class, []).append(texts)
            if self._class == "numbers":
                self.points.setdefault(self._title.strip(), []).append(texts)
        if tag == "tr" and "tbody" in self.open:
            label = self._row[0][0]
            if len(self._row) == 1:
                self._task = label.splitlines()[0].strip()
                self.summary[self._task] = {"about": self._row}
            else:
                self.summary[self._task][label.strip()] = self._row[1:]
        if tag == "h2":
            self.sections[self._title.strip()] = Section()
        if tag == "h3":
            list(self.sections.values())[-1].pictures.append(self._title.strip())

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        if "tr" in self.open and self._row:
            self._row[-1] = (self._row[-1][0] + data, self._row[-1][1])
        if inside in ("h2", "h3"):
            self._title = data
        elif inside == "dt":
            self._fact = data
        elif inside == "dd":
            self.facts[self._fact] = data
        if self.sections:
            list(self.sections.values())[-1].text += data
