"""JSON that is read and written in pieces is what `json` makes of it, to the word of each error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from serving.common.errors import InvalidArgument
from serving.rest.bodies import LARGE
from serving.rest.documents import parsed, written

FILLER = ["a" * 1000] * 80  # in any document with it, which then is a large one
VALUES = (
    "[]", "{}", " [ ] ", " { } ", "[[], {}, [[1, 2], {}]]", '{"a": {"b": []}, "a": 2, "": null}',
    "-0", "-0.0", "1e5", "1E-5", "123456789012345678901234567890", "0.1", "5e-324", "1e999",
    "NaN", "-Infinity", "Infinity", "true", "false", "null", '""', '"\\n\\u00e9\\ud83d\\ude00"',
    '"é, ] } : \\" ["', '"' + "x" * 20_000 + '"', "[" + "1.5 ,\r\n\t2, " * 3000 + "3]",
    '{"a": ' + "[" * 300 + '"' + "y" * 9000 + '"' + "]" * 300 + "}",
    '{ "key" :\n[ ' + '{"x": "]", "y": [1, 2]} , ' * 1000 + "4 ] }",
)  # fmt: skip
FAULTS = (
    "", "[", "{", "]", "1,", "tru", "-", "+1", "01", "1.", "1e", "'a'", '"a', '"\\x"', '"\t"',
    '"\\u12"', "[1 2]", "[,", '{"a"}', '{"a" 1}', '{"a": }', '{1: 2}', '{"a": 1 "b": 2}', "[1}",
    '{"a": 1]', "Nan", "\ufeff", "[" + "1, " * 5000 + "x]", '{"a": [' + '"b", ' * 5000 + "}",
    "1" * 5000,
)  # fmt: skip


def large(value: str) -> str:
    return json.dumps({"filler": FILLER})[:-1] + f' , "value" : {value} }}'


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value[:20])
def test_a_large_document_is_what_json_makes_of_it(value: str) -> None:
    text = large(value)
    assert len(text) > LARGE
    assert repr(parsed(text.encode())) == repr(json.loads(text)), "of which NaN is itself too"


def require_the_words_of_json(text: str) -> None:
    try:
        words = f"no fault: {json.loads(text)}"
    except ValueError as error:
        words = f"JSON Parse error: {error}"
    with pytest.raises(InvalidArgument) as found:
        parsed(text.encode())
    assert str(found.value) == words


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault[:20])
def test_what_is_wrong_with_a_large_document_has_the_words_of_json(fault: str) -> None:
    require_the_words_of_json(large(fault))


@pytest.mark.parametrize("end", ["", ",", "}}", "} 1", "]"])
def test_a_large_document_ends_where_json_says(end: str) -> None:
    require_the_words_of_json(large("1")[:-1] + end)


@pytest.mark.parametrize("nested", ["[" * 100_000, '{"a":' * 100_000], ids=["lists", "objects"])
def test_no_depth_is_too_much_to_be_refused(nested: str) -> None:
    with pytest.raises(InvalidArgument, match="JSON Parse error: maximum recursion depth"):
        parsed(nested.encode())


@pytest.mark.parametrize("filler", [[], FILLER], ids=["small", "large"])
@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        (r"\ud83d\ude00", True),
        (r"\uD83D\uDE00\ud83d\ude00", True),
        (r"\\ud83d", True),  # a backslash and letters
        (r"\\\\udc00", True),
        (r"\ud83d", False),
        (r"\ude00", False),
        (r"\ude00\ud83d", False),
        (r"\ud83d\ud83d\ude00", False),
        (r"\ud83d\ude00\ude00", False),
        (r"\ud83d\\ude00", False),
        (r"\\\ud83d", False),
        (r"\\ud83d\ude00", False),
        (r"\ud83d\n", False),
    ],
)
def test_half_a_pair_is_no_character(text: str, is_valid: bool, filler: list[str]) -> None:
    body = f'{{"filler": {json.dumps(filler)}, "value": "{text}"}}'.encode()
    if is_valid:
        json.dumps(parsed(body), ensure_ascii=False).encode()
    else:
        with pytest.raises(InvalidArgument, match="JSON Parse error: not valid UTF-8"):
            parsed(body)


@pytest.mark.parametrize("is_large", [False, True])
def test_a_document_is_written_as_json_writes_it(is_large: bool) -> None:
    document: dict[str, Any] = {
        "a": [1, -0.0, 0.1, float("nan"), "é\n", None, True, [], {}],
        "": {},
    }
    assert written(document, is_large=is_large) == json.dumps(document)
