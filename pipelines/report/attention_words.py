"""The attention section of the page: heads, interactions and experts in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape

from pipelines.report.numbers import ABSENT

Found = Mapping[str, Any]
HINTS = {
    "Interactions": "How much of the logit needs both features: its deviation, with the values of "
    "other rows. 0 if they only add up. The bars are 95% intervals.",
    "Attention of fields": "The darker, the larger the share of the attended field, averaged over "
    "rows.",
    "Events": "By age and by likeness to the candidate, in units of an average event; the bars "
    "are 95% intervals, grey ones hold 1.",
    "Experts": "The line is an equal share; the bars are 95% intervals.",
}


def heads_of(audit: Found) -> Iterator[tuple[str, Found]]:
    """The heads with their names, such as `interaction 1, head 2`; without those of gates."""
    for place in audit["places"]:
        if place["kind"] != "gate":
            for number, head in enumerate(place["heads"], 1):
                several = len(place["heads"]) > 1
                yield place["place"] + (f", head {number}" if several else ""), head


def sharpness(head: Found) -> str:
    """`0.39 of 0.14`, the largest share and that of equal ones, or a dash without weights."""
    if "confidence" not in head:
        return ABSENT
    return f"{head['confidence'][0]:.2f} of {head['uniform']:.2f}"


def looks_at(head: Found) -> str:
    """The learned functions of a head, those that an untrained model has too, or a dash."""
    if "functions" not in head:
        return "no weights"
    names = [function["name"] for function in head["functions"] if function["learned"]]
    names += [
        f"{function['name']} (as untrained)"
        for function in head["functions"]
        if not function["learned"]
    ]
    return ", ".join(names) or ABSENT


def likeness(head: Found) -> str:
    """The most similar head and its CKA."""
    if head["alike"] is None:
        return ABSENT
    other, value = head["alike"]
    return f"{value:.2f} (head {other + 1})" + (", redundant" if head["redundant"] else "")


def whole_percent(share: float) -> str:
    """A share without decimals."""
    return f"{100 * share:.0f}%"


def agreement_of_maps(audit: Found) -> list[str]:
    """Whether the maps of fields show the interactions, in a sentence for each layer and task."""
    return [
        f"{place['place'].capitalize()}: the mean attention between two features and their "
        f"interaction in {task} have the rank correlation {value:.2f}"
        + (
            "; the map shows which features interact."
            if value > 0.7
            else "; do not read interactions off the map."
        )
        for place in audit["places"]
        for task, value in place.get("agreement", {}).items()
        if value is not None
    ]


def gates_in_words(experts: Found) -> list[str]:
    """The sharpness of the gates, and the distances of tasks, in words."""
    words = [
        f"Task {task}: a row's shares have {whole_percent(gates['spread'])} of the entropy of "
        f"equal ones and differ from their mean by {whole_percent(gates['variation'])}."
        for task, gates in experts["tasks"].items()
    ]
    words += [
        f"The gates of {one} and {other} differ by {whole_percent(distance)} of their shares."
        for one, other, distance in experts["apart"]
    ]
    return words


def hint(title: str) -> str | None:
    """The line below a picture of attention; None for other pictures."""
    return next((text for name, text in HINTS.items() if title.startswith(name)), None)


def print_attention(console: Console, metrics: Found) -> None:
    """Prints warnings about experts, and heads that repeat others."""
    audit = metrics.get("attention")
    if not audit:
        return
    for warning in audit["experts"]["warnings"] if audit["experts"] else ():
        console.print(f"[yellow]experts[/yellow]: {escape(warning)}")
    repeated = [name for name, head in heads_of(audit) if head["redundant"]]
    if repeated:
        console.print(
            f"[yellow]heads[/yellow]: {escape(', '.join(repeated))}: outputs like those of another "
            "head, and nothing is lost without it; see `recsys-attn prune`."
        )
