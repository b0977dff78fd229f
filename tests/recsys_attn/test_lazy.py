"""Names that a package offers before they are imported."""

from importlib import import_module

import pytest


@pytest.mark.parametrize(
    "name", ["recsys_attn", "pipelines", "pipelines.feed", "pipelines.features"]
)
def test_every_public_name_is_there_and_is_listed(name: str) -> None:
    package = import_module(name)
    assert set(package.__all__) == set(dir(package))
    assert all(getattr(package, public) is not None for public in package.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = package.nothing
