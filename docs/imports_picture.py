"""Draws which folder of a package imports which: `python -m docs.imports_picture`.

Folders stand below each other, those that import others above them. Each arc on the right is an
import of a folder further down; an import of a folder further up would be an arc on the left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from html import escape
from pathlib import Path

from tests.support.sources import Source

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs/imports.svg"
PACKAGES = {
    "recsys_attn": ("#1d6f5b", "#eef8f4"),
    "pipelines": ("#2b5c9e", "#eff5fc"),
    "serving": ("#8a4b12", "#fdf5ec"),
}
_LINE, _WIDTH, _TOP = 26, 330, 64
_NAMES, _LABEL = 34, 128  # where the names begin, and their width
_STYLE = """
    text { font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif }
    .package { font-size: 15px; font-weight: 600 }
    .folder { font-size: 13px; fill: #1f2933 }
    .arc { fill: none; stroke-opacity: .45; stroke-width: 1.3 }
    .up { fill: none; stroke: #c22; stroke-width: 2 }
"""

Graph = dict[str, set[str]]


def imports(package: str) -> Graph:
    """By folder (or module at the top of the package) the others that it imports."""
    graph: Graph = defaultdict(set)
    for path in sorted((ROOT / package).rglob("*.py")):
        source = Source.read(ROOT, path)
        part = _part(source.module, package)
        if not part or part == "__main__":
            continue
        graph[part] |= set()
        for imported in source.imports:
            other = _part(imported.target, package)
            if other != part and _exists(other, package):
                graph[part].add(other)
    return graph


def _part(module: str, package: str) -> str:
    names = module.split(".")
    return names[1] if names[0] == package and len(names) > 1 else ""


def _exists(part: str, package: str) -> bool:
    """Whether it is a folder or a module, and not a name in the package's `__init__`."""
    path = ROOT / package / part
    return bool(part) and (path.is_dir() or path.with_suffix(".py").exists())


def ordered(graph: Mapping[str, set[str]]) -> list[str]:
    """Returns the folders in the order of their imports, importers first."""
    order: list[str] = []
    rest = dict(sorted(graph.items()))
    while rest:
        used = {other for name, others in rest.items() for other in others if other in rest}
        free = [name for name in rest if name not in used] or list(rest)[:1]  # a circle is cut
        order += free
        for name in free:
            del rest[name]
    return order


def draw() -> str:
    """The picture of all packages, side by side."""
    panels = [(package, imports(package)) for package in PACKAGES]
    height = _TOP + _LINE * max(len(graph) for _, graph in panels) + 16
    width = _WIDTH * len(panels) + 16 * (len(panels) + 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img">',
        "<title>Which folder of each package imports which.</title>",
        f"<style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}" rx="12" fill="#fff"/>',
    ]
    for index, (package, graph) in enumerate(panels):
        parts += _panel(package, graph, 16 + index * (_WIDTH + 16), height)
    return "\n".join([*parts, "</svg>", ""])


def _panel(package: str, graph: Graph, left: int, height: int) -> list[str]:
    color, background = PACKAGES[package]
    order = ordered(graph)
    place = {name: _TOP + _LINE * row for row, name in enumerate(order)}
    x = left + _NAMES + _LABEL
    parts = [
        f'<rect x="{left}" y="12" width="{_WIDTH}" height="{height - 24}" rx="10" '
        f'fill="{background}"/>',
        f'<text class="package" x="{left + 16}" y="38" fill="{color}">{package}</text>',
    ]
    longest = max(len(order) - 1, 1)
    for name in order:
        parts.append(
            f'<text class="folder" x="{x - 8}" y="{place[name] + 4}" text-anchor="end">'
            f"{escape(name)}</text>"
        )
        for other in sorted(graph[name], key=place.__getitem__):
            start, end = place[name], place[other]
            if start < end:
                reach = 20 + (_WIDTH - _NAMES - _LABEL - 40) * 1.3 * (end - start) / _LINE / longest
                kind, at = "arc", x
            else:
                reach, kind, at = -40.0, "up", left + 24
            parts.append(
                f'<path class="{kind}" stroke="{color}" d="M{at} {start} '
                f'C{at + reach:.0f} {start} {at + reach:.0f} {end} {at} {end}"/>'
            )
        parts.append(f'<circle cx="{x}" cy="{place[name]}" r="3" fill="{color}"/>')
    return parts


if __name__ == "__main__":
    PICTURE.write_text(draw(), "utf-8")
