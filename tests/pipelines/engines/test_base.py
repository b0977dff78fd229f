"""The tree in which every engine merges."""

import pytest

from pipelines.engines import tree
from tests.support.engines import joined


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 11, 64, 97])
def test_merge_tree_is_balanced(count: int) -> None:
    text = tree(map(str, range(count)), joined)
    assert sorted(text.replace("(", " ").replace(")", " ").split()) == sorted(
        map(str, range(count))
    )
    depths = [text[:place].count("(") - text[:place].count(")") for place in range(len(text))]
    assert max(depths) <= count.bit_length()


def test_nothing_to_merge_is_an_error() -> None:
    with pytest.raises(ValueError, match="`batches` must hold at least one batch"):
        tree([], joined)
