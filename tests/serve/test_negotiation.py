"""Clients get the form they like best among those there are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelscope.serve import accepts
from accelscope.serve.message import choose_encoding

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
    "text/plain;version=0.0.4;q=0.2,/;q=0.1"
)
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, TEXT),
        ("", TEXT),
        (" , ", TEXT),
        ("*/*", TEXT),
        (BROWSER, TEXT),
        (PROMETHEUS_2, OPENMETRICS),
        (PROMETHEUS_3, OPENMETRICS),
        ("application/openmetrics-text", OPENMETRICS),
        ("APPLICATION/OpenMetrics-Text; Version=1.0.0", OPENMETRICS),
        ('application/openmetrics-text; version="1.0.0"', OPENMETRICS),
        ("application/*", OPENMETRICS),
        ("text/plain;q=0.5, application/openmetrics-text;q=0.6", OPENMETRICS),
        ("text/plain;q=0.6, application/openmetrics-text;q=0.5", TEXT),
        ("text/*;q=0.5, application/openmetrics-text;q=0.5", TEXT),
        ("*/*;q=0.9, text/plain;q=0.1", OPENMETRICS),
        ("application/openmetrics-text;version=2.0.0", None),
        ("application/openmetrics-text;version=2.0.0, text/plain;q=0.1", TEXT),
        ("application/json", None),
        ("text/plain;q=0", None),
        ("text/plain;q=0, */*;q=0.1", OPENMETRICS),
        ("text/plain;q=rubbish", None),
        ("text/plain;q=nan", None),
        ("text/plain;q=7, application/openmetrics-text;q=1", TEXT),
    ],
)
def test_media_types(header: str | None, expected: str | None) -> None:
    assert accepts(header, [TEXT, OPENMETRICS]) == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, "identity"),
        ("", "identity"),
        ("gzip", "gzip"),
        ("GZIP", "gzip"),
        ("gzip, deflate, br", "gzip"),
        ("deflate, br", "identity"),
        ("*", "gzip"),
        ("*;q=0", "identity"),
        ("gzip;q=0", "identity"),
        ("gzip;q=0, *", "identity"),
        ("gzip;q=0.5, identity;q=1", "identity"),
        ("gzip;q=1, identity;q=0.5", "gzip"),
        ("identity, gzip", "gzip"),
        ("identity;q=0", "identity"),
        ("gzip;q=x", "identity"),
    ],
)
def test_encodings(header: str | None, expected: str) -> None:
    assert choose_encoding(header, {"identity": b"", "gzip": b""}) == expected


@given(st.text(alphabet='abz/*;,q=0.15 "\t\x80', max_size=60))
def test_any_header_gets_an_answer(header: str) -> None:
    assert accepts(header, [TEXT, OPENMETRICS]) in (TEXT, OPENMETRICS, None)
    assert choose_encoding(header, ["identity", "gzip"]) in ("identity", "gzip")
