"""The colours of the pages and their pictures, for a light and a dark screen.

Blue, green, orange and purple of one picture differ for colour-blind readers too, in lightness if
not in hue; a picture never tells two things apart by red against green.
"""

from __future__ import annotations

import re

LIGHT = {
    "paper": "#ffffff",
    "ink": "#22262c",
    "soft": "#5c636e",
    "line": "#dfe2e6",
    "faint": "#c3c7cd",
    "wash": "#f6f7f9",
    "alarm": "#b3261e",
    "caution": "#8a5a00",
    "good": "#2a7a3b",
    "model": "#1668a8",
    "ceiling": "#1f8a54",
    "baseline": "#7d838d",
    "label-0": "#6d5f9c",
    "label-1": "#cf5c26",
    "gradients": "#0d7c86",
    "attention": "#a3387f",
    "propagation": "#8a6a10",
}
DARK = {
    "paper": "#14171b",
    "ink": "#e4e7eb",
    "soft": "#a2a9b4",
    "line": "#31363e",
    "faint": "#565d68",
    "wash": "#1d2127",
    "alarm": "#ff8a80",
    "caution": "#e3b341",
    "good": "#7fd18c",
    "model": "#68b0ea",
    "ceiling": "#58c48f",
    "baseline": "#959ca7",
    "label-0": "#b0a1e6",
    "label-1": "#f3894f",
    "gradients": "#4fc3cd",
    "attention": "#e58ac4",
    "propagation": "#d9b64a",
}
_NAMES = {color: name for name, color in LIGHT.items()}


def by_name(svg: str) -> str:
    """Writes the light colours of a picture as CSS variables, so that the page can change them."""

    def named(match: re.Match[str]) -> str:
        return f"{match[1]}var(--{_NAMES[match[2]]})" if match[2] in _NAMES else match[0]

    return re.sub("((?:fill|stroke): )(#[0-9a-f]{6})", named, svg)
