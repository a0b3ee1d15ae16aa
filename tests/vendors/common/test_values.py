import pytest

from accelscope.vendors.common.values import after_blanks, decode_json, identifier, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" 0324217145110 ", "0324217145110"),
        ("RNGD000002\n", "RNGD000002"),
        ("two words", None),
        ("03242\ufffd7145110", None),  # damaged: it could be that of another device
        ("x" * 129, None),
        ("", None),
    ],
)
def test_an_identifier_is_one_undamaged_word(text: str, expected: str | None) -> None:
    assert identifier(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [(" NVIDIA X ", "NVIDIA X"), ("1.6.0, 3c10fd3", "1.6.0, 3c10fd3"), ("1.6\ufffd", None), (" ", None)],
)
def test_words_are_undamaged_text_without_outer_blanks(text: str, expected: str | None) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('log: {"a": [1]} more', ({"a": [1]}, 15)),
        ("log: {", None),
        ("log: 12,", (12, 7)),
        ("log: " + "9" * 5000, None),  # more digits than Python converts
        ("log: " + "[" * 100_000, None),
    ],
)
def test_json_within_an_output_is_decoded_if_it_is_complete(
    text: str, expected: tuple[object, int] | None
) -> None:
    assert decode_json(text, 5) == expected


def test_blanks_are_skipped_and_commas_on_request() -> None:
    assert after_blanks("a \n,b", 1) == 3
    assert after_blanks("a \n,b", 1, commas=True) == 4
