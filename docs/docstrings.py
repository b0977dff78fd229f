"""Prepares docstrings for the API pages: doctests become code, call arguments become a list."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_SECTION = re.compile(r"^( *)(Examples?|Sources?):\n((?:\1    .*\n|\n)+)", re.MULTILINE)
_CALL = re.compile(r"^( *)Call arguments:\n((?:\1    .*\n|\n)+)", re.MULTILINE)


class Docstrings(Extension):
    """Rewrites each docstring before it is parsed."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Rewrites the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            text = _with_plain_sections(_with_call_list(obj.docstring.value))
            obj.docstring.value = _with_fences(text)


def _with_call_list(text: str) -> str:
    """Makes a bullet of each entry of a section `Call arguments:`."""

    def bullets(match: re.Match[str]) -> str:
        indent, body = match.groups()
        entry = re.compile(rf"^{indent}    ([\w, ]+): ", re.MULTILINE)
        items = entry.sub(rf"{indent}- **`\1`**: ", body)
        continued = re.sub(rf"^{indent}        (?=\S)", f"{indent}  ", items, flags=re.MULTILINE)
        return f"{indent}**Call arguments:**\n\n{continued.rstrip()}\n\n"

    return _CALL.sub(bullets, f"{text}\n")


def _with_plain_sections(text: str) -> str:
    """Gives examples and sources a bold heading, and examples that are no doctests a fence."""

    def plain(match: re.Match[str]) -> str:
        indent, title, body = match.groups()
        body = re.sub(rf"^{indent}    ", indent, body.strip("\n").rstrip(), flags=re.MULTILINE)
        if not body.strip():
            return match[0]
        if title.startswith("Source"):
            return f"{indent}**{title}:** {body.strip()}\n\n"
        if not body.lstrip().startswith(">>>"):
            body = f"{indent}```python\n{body}\n{indent}```"
        return f"{indent}**{title}:**\n\n{body}\n\n"

    return re.sub(r"^( *)(Example):$", r"\1**\2:**", _SECTION.sub(plain, text), flags=re.MULTILINE)


def _with_fences(text: str) -> str:
    """Puts doctests between fences."""
    lines: list[str] = []
    inside = False
    for line in [*text.splitlines(), ""]:
        indent = line[: len(line) - len(line.lstrip())]
        if line.lstrip().startswith(">>> ") and not inside:
            lines.append(f"{indent}```pycon")
            inside, fence = True, indent
        elif inside and not line.strip():
            lines.append(f"{fence}```")
            inside = False
        lines.append(line)
    return "\n".join(lines)
