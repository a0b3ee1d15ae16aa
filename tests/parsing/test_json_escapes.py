"""Text of JSON in which halves of characters are replaced, and nothing else is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelscope.parsing import without_halves


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"plain"', "plain"),
        (r'"a\ud800b"', "a\ufffdb"),
        (r'"a\udc80"', "a\ufffd"),
        (r'"\uD83D\uDE00"', "\U0001f600"),
        (r'"\ud83d\ud83d\ude00"', "\ufffd\U0001f600"),
        (r'"\ude00\ud83d"', "\ufffd\ufffd"),
        (r'"\\ud800"', r"\ud800"),  # a backslash, then letters
        (r'"\\\ud800"', "\\\ufffd"),
        (r'"\u0041"', "A"),
    ],
)
def test_halves_of_characters(text: str, value: str) -> None:
    assert json.loads(without_halves(text)) == value


@given(st.text(alphabet=st.characters(), max_size=30))
def test_what_is_decoded_can_be_written(value: str) -> None:
    decoded = json.loads(without_halves(json.dumps(value)))
    decoded.encode()


@given(st.text(max_size=30))
def test_whole_text_stays_as_it_is(value: str) -> None:
    assert json.loads(without_halves(json.dumps(value))) == value
