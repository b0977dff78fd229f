"""How numbers are written, on the screen and in the report alike."""

ABSENT = "—"


def decimal(value: float | None, places: int = 4) -> str:
    """A metric with a fixed number of places, a dash where it is not defined."""
    return ABSENT if value is None else f"{value:.{places}f}"


def count(value: int | None) -> str:
    """A number of things with its thousands apart."""
    return ABSENT if value is None else f"{value:,}"


def percent(share: float | None) -> str:
    """A share in percent with four significant digits."""
    return ABSENT if share is None else f"{100 * share:.4g}%"


def below(best: float | None, reached: float | None) -> float | None:
    """How far `reached` lies below `best`, where both are known."""
    return None if best is None or reached is None else best - reached


def ratio(part: int, whole: int) -> float | None:
    """`part / whole`, where there is a whole."""
    return part / whole if whole else None
