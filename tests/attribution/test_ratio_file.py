"""`gpu_allocation.txt`: one number above 0; anything else is an error of one line."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelscope.attribution.shares import RatioError, parse_gpu_allocation, parse_ratio


@pytest.mark.parametrize(
    ("text", "ratio"),
    [
        ("2", 2.0),
        ("2\n", 2.0),
        ("2.5\n", 2.5),
        ("\n\n 4 \t\r\n\r\n", 4.0),
        ("\ufeff2\r\n", 2.0),
        ("007", 7.0),
        ("0.5", 0.5),
        ("1", 1.0),
        ("1000000", 1e6),
        ("0.000001", 1e-6),
        ("2." + "0" * 30, 2.0),
    ],
)
def test_a_ratio(text: str, ratio: float) -> None:
    assert parse_ratio(text) == ratio
    parsed = parse_gpu_allocation(text)
    assert (parsed.ratio, parsed.error) == (ratio, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        (" \n\r\n", "empty"),
        ("\ufeff", "empty"),
        ("0", "0 is not above 0"),
        ("0.000", "0.000 is not above 0"),
        ("-1", "'-1'"),
        ("+2", "'+2'"),
        ("nan", "'nan'"),
        ("inf", "'inf'"),
        ("2 3", "'2 3'"),
        ("2\n3\n", r"'2\n3'"),
        ("2,5", "'2,5'"),
        ("1e3", "'1e3'"),
        ("1_000", "'1_000'"),
        ("0x2", "'0x2'"),
        ("2.", "'2.'"),
        (".5", "'.5'"),
        ("2x", "'2x'"),
        ("X0.5X", "'X0.5X'"),
        ("1/2", "'1/2'"),
        ("ratio=2", "'ratio=2'"),
        ("null", "'null'"),
        ("\u0662", r"'\u0662'"),
        ("\uff12", r"'\uff12'"),
        ("2\x00", r"'2\x00'"),
        ("2\u00a0", r"'2\xa0'"),
        ("1000001", "1000001 is out of range"),
        ("2." + "0" * 31, "a text of 33 characters"),
        ("x" * 16, f"'{'x' * 16}'"),
        ("x" * 17, "a text of 17 characters"),
        ("0.0000001", "0.0000001 is out of range"),
        ("9" * 5000, "5000 characters"),
    ],
)
def test_anything_else_is_an_error_of_one_line(text: str, said: str) -> None:
    with pytest.raises(RatioError, match=re.escape(said)) as raised:
        parse_ratio(text)
    line = str(raised.value)
    assert "such as 2 or 2.5" in line
    assert line.isprintable()
    assert len(line) < 300
    parsed = parse_gpu_allocation(text)
    assert parsed.ratio is None
    assert parsed.error is not None
    assert (parsed.error.reason, parsed.error.text) == ("bad_ratio", line)


@given(st.decimals(min_value="0.001", max_value=10**6, places=3))
def test_every_decimal_is_read_as_written(number: object) -> None:
    assert parse_ratio(f" {number}\n") == float(str(number))


@given(st.one_of(st.text(max_size=12), st.text(alphabet="0123456789.,-+e \n\r\t", max_size=12)))
def test_any_text_is_a_ratio_or_an_error(text: str) -> None:
    parsed = parse_gpu_allocation(text)
    if parsed.error is None:
        assert parsed.ratio is not None
        assert 0 < parsed.ratio <= 1e6
    else:
        assert parsed.error.text.isprintable()
