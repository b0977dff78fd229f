"""Gates and penalties on similar heads, by their place in a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recsys_attn.attention.disagreement import get_disagreement
from recsys_attn.attention.gates import GATES
from recsys_attn.checks import unknown_name
from recsys_attn.multitask.experts import hard_concrete
from recsys_attn.schema import Schema
from recsys_attn.serialization import nameless, serialize

_ALL = ""
_FACTORS = {"subspace", "positions", "outputs"}
_HEADS = ("encoder", "target_attention", "interaction")
_PLACES = {"gates": ("fields", *_HEADS, "experts"), "disagreement": (*_HEADS, "experts")}


def check_gates(given: Any) -> None:
    """Raises unless these are a gate for all places, or gates by place."""
    for place, gate in _by_place("gates", given).items():
        if place in ("fields", "experts"):
            hard_concrete(f"gates.{place}", gate)
        else:
            GATES.get(gate)


def check_disagreement(given: Any) -> None:
    """Raises unless these are factors for all places, or factors by place."""
    for factors in _by_place("disagreement", given).values():
        get_disagreement(factors)


def placed(gates: Any, disagreement: Any, **places: str) -> dict[str, dict[str, Any]]:
    """Returns `gate` and `disagreement` of each place of a model, None by default.

    Args:
        gates: One gate for all places of the model, or gates by place. None for none.
        disagreement: Factors for all places but `fields`, or by place. None for none.
        places: By place, the option without which this model does not have it, or "" where it has
            it.

    Raises:
        ValueError: The model does not have one of the places, or none at all.

    Example:

    >>> from recsys_attn.models.placements import placed
    >>> by_place = placed({"experts": "hard_concrete"}, None, encoder="encoder", experts="")
    >>> by_place["encoder"], by_place["experts"]["gate"]["class_name"]
    ({'gate': None, 'disagreement': None}, 'HardConcrete')
    """
    by_place: dict[str, dict[str, Any]] = {
        place: {"gate": _gate_of(value)}
        for place, value in _in_places("gates", gates, places).items()
    }
    heads = {place: missing for place, missing in places.items() if place != "fields"}
    for place, value in _in_places("disagreement", disagreement, heads).items():
        by_place[place]["disagreement"] = nameless(serialize(get_disagreement(value)))
    return by_place


def _gate_of(gate: Any) -> Any:
    return None if gate is None else nameless(serialize(GATES.get(gate)))


def _in_places(name: str, value: Any, places: Mapping[str, str]) -> dict[str, Any]:
    """Returns the value of an option for each place of a model."""
    here = [place for place, missing in places.items() if not missing]
    by_place = {} if value is None else _by_place(name, value)
    if _ALL in by_place:
        if not here:
            raise ValueError(
                f"`{name}` has no effect, since this model has no heads without "
                f"{' or '.join(f'`{missing}`' for missing in places.values())}. "
                f"Received: {name}={value!r}"
            )
        by_place = dict.fromkeys(here, value)
    for place in by_place:
        if place not in places:
            raise ValueError(
                f"`{name}.{place}`: this model has no such place. {unknown_name(place, places)}"
            )
        if places[place]:
            raise ValueError(
                f"`{name}.{place}` has no effect without `{places[place]}`; give both or neither. "
                f"Received: {name}.{place}={by_place[place]!r}"
            )
    return {place: by_place.get(place) for place in places}


def places_of_history(schema: Schema, encoder: Any, target_heads: int | None) -> dict[str, str]:
    """Returns the places of `placed` in histories, which a model may not have."""
    history = "" if schema.histories else "a Sequence feature"
    return {
        "encoder": history or ("encoder" if encoder is None else ""),
        "target_attention": history or ("" if target_heads else "target_attention.num_heads"),
    }


def _by_place(name: str, value: Any) -> dict[str, Any]:
    """Returns a table by place; with the key `_ALL` for all places."""
    known = _PLACES[name]
    of_one = {"class_name", "registered_name"} | (_FACTORS if name == "disagreement" else set())
    if isinstance(value, Mapping) and not of_one & set(value):
        for place in value.keys() - set(known):
            raise ValueError(f"`{name}` is a table by place. {unknown_name(place, known)}")
        return dict(value)
    return {_ALL: value}
