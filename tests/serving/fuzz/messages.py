"""Mutations of a message's fields by its descriptor."""

from __future__ import annotations

from typing import Any

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

TEXTS = (
    "", "tiny", "click", "rank", "rank_explained", "classify", "regress", "double", "fail", "price",
    "user", "inputs", "a" * 5000, "\x00", "\u202e\U0001f600", "%s%n{0}", "signature_def",
)  # fmt: skip
_INTS = (0, 1, -1, 2, 7, 127, 2**15, 2**31 - 1, -(2**31), 2**31, 2**32 - 1, 2**63 - 1, -(2**63))
_FLOATS = (0.0, -0.0, 1.5, -1.0, float("nan"), float("inf"), float("-inf"), 3e38, 1e-45, 1e300)
_LIMITS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_ENUM: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}


def pick(rng: np.random.Generator, choices: Any) -> Any:
    """Returns one of the choices."""
    return choices[int(rng.integers(len(choices)))]


def mutate_fields(rng: np.random.Generator, message: Message) -> None:
    """Changes one to three fields anywhere in a message."""
    for _ in range(int(rng.integers(1, 4))):
        _mutate_one(rng, pick(rng, _messages(message)))


def _messages(message: Message) -> list[Message]:
    """Returns the message and all messages in it."""
    found = [message]
    for field, value in message.ListFields():
        if field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
            continue
        if _is_map(field):
            values = [value[key] for key in sorted(value)]
            found += [one for v in values if isinstance(v, Message) for one in _messages(v)]
        elif field.is_repeated:
            found += [one for v in value for one in _messages(v)]
        else:
            found += _messages(value)
    return found


def _is_map(field: FieldDescriptor) -> bool:
    kind = field.message_type
    return kind is not None and kind.GetOptions().map_entry


def _mutate_one(rng: np.random.Generator, message: Message) -> None:
    fields = message.DESCRIPTOR.fields
    if not fields:
        return
    field = pick(rng, fields)
    if rng.random() < 0.2:
        message.ClearField(field.name)
    elif _is_map(field):
        _mutate_map(rng, getattr(message, field.name), field)
    elif field.is_repeated:
        _mutate_repeated(rng, getattr(message, field.name), field)
    elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        getattr(message, field.name).SetInParent()
    else:
        setattr(message, field.name, _value(rng, field))


def _mutate_map(rng: np.random.Generator, values: Any, field: FieldDescriptor) -> None:
    key_field, value_field = (field.message_type.fields_by_name[n] for n in ("key", "value"))
    keys = sorted(values)
    key = pick(rng, keys) if keys and rng.random() < 0.3 else _value(rng, key_field)
    if value_field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
        values[key] = _value(rng, value_field)
    elif keys and rng.random() < 0.7:
        values[key].CopyFrom(values[pick(rng, keys)])
    else:
        values[key].SetInParent()


def _mutate_repeated(rng: np.random.Generator, values: Any, field: FieldDescriptor) -> None:
    if len(values) and rng.random() < 0.3:
        del values[int(rng.integers(len(values))) :]
    elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        for _ in range(pick(rng, (1, 1, 2, 40))):
            added = values.add()
            if rng.random() < 0.8:
                added.CopyFrom(values[0])
    else:
        values.extend([_value(rng, field)] * pick(rng, (1, 1, 3, 300)))


def _value(rng: np.random.Generator, field: FieldDescriptor) -> Any:
    kind = field.cpp_type
    if kind in _LIMITS:
        low, high = _LIMITS[kind]
        return min(max(pick(rng, _INTS), low), high)
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return bool(rng.integers(2))
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return pick(rng, _FLOATS)
    text = pick(rng, TEXTS)
    if field.type != FieldDescriptor.TYPE_BYTES:
        return text
    return text.encode() if rng.random() < 0.5 else rng.bytes(int(rng.integers(64)))
