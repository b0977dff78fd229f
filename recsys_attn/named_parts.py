"""Parts of one kind by name. It takes no Keras, so that files of options are checked at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Part = TypeVar("Part")
Own = TypeVar("Own", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class NamedParts(Mapping[str, Part], Generic[Part]):
    """Functions or classes of one kind by name, such as the models.

    Args:
        kind: The name of a part in an error, such as `"model"`.
        members: The parts by name; `register` fills it.

    Example:

    >>> from recsys_attn.named_parts import NamedParts
    >>> SHAPES = NamedParts("shape")
    >>> @SHAPES.register("square")
    ... def square(side):
    ...     return side**2
    >>> SHAPES["square"](3)
    9
    """

    kind: str
    members: dict[str, Part] = field(default_factory=dict)

    def register(self, name: str) -> Callable[[Own], Own]:
        """Returns the decorator that enters a function or a class under a name.

        Raises:
            ValueError: Another part has this name.
        """

        def enter(part: Any) -> Any:
            require_free(self.kind, name, part, self.members)
            self.members[name] = part
            return part

        return enter

    def __getitem__(self, name: str) -> Part:
        return self.members[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)


def require_free(kind: str, name: str, part: Any, parts: Mapping[str, Any]) -> None:
    """Raises if another part has the name; a module that runs again may enter its part again."""
    member = parts.get(name)
    member = getattr(member, "func", member)
    if member is not None and _place(member) != _place(part):
        raise ValueError(
            f"The name {name!r} belongs to another {kind}, {_place(member)}; choose another. "
            f"Received: {_place(part)}"
        )


def _place(part: Any) -> str:
    return f"{part.__module__}.{part.__qualname__}"
