"""Formats numbers for the console and the report."""

ABSENT = "—"


def decimal(value: float | None, places: int = 4) -> str:
    """A metric with a fixed number of places, a dash if it is undefined."""
    return ABSENT if value is None else f"{value:.{places}f}"


def count(value: int | None) -> str:
    """A count with thousands separators."""
    return ABSENT if value is None else f"{value:,}"


def percent(share: float | None) -> str:
    """A share in percent with four significant digits."""
    return ABSENT if share is None else f"{100 * share:.4g}%"


def below(best: float | None, reached: float | None) -> float | None:
    """The distance of `reached` below `best`, if both are known."""
    return None if best is None or reached is None else best - reached


def ratio(part: int, whole: int) -> float | None:
    """`part / whole`; None if `whole` is 0."""
    return part / whole if whole else None
