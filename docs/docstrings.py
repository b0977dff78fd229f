"""Prepares docstrings for the API pages: doctests become code, call arguments become a list."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_EXAMPLE = re.compile(r"^( *)Examples?:\n((?:\1    (?!>>> ).*\n|\n)+)", re.MULTILINE)
_CALL = re.compile(r"^( *)Call arguments:\n((?:\1    .*\n|\n)+)", re.MULTILINE)


class Docstrings(Extension):
    """Rewrites each docstring before it is parsed."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Rewrites the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            text = _with_code(_with_call_list(obj.docstring.value))
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


def _with_code(text: str) -> str:
    """Puts the indented code of a section `Example:` between fences."""

    def fenced(match: re.Match[str]) -> str:
        indent, body = match.groups()
        code = re.sub(rf"^{indent}    ", indent, body.rstrip(), flags=re.MULTILINE)
        return f"{indent}**Example:**\n\n{indent}```python\n{code}\n{indent}```\n\n"

    return _EXAMPLE.sub(lambda match: fenced(match) if match[2].strip() else match[0], text)


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
