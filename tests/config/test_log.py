"""One event is one line, whatever is in it."""

import io
import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest

from accelscope.config import log as logs
from accelscope.config.log import configure, fields


@pytest.fixture(autouse=True)
def _root_logger_is_put_back() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def agent() -> logging.Logger:
    return logging.getLogger("accelscope.agent")


def record(message: str, created: float = 1767323045.678, **extra: Any) -> logging.LogRecord:
    made = logging.LogRecord("accelscope.agent", logging.INFO, "x.py", 1, message, None, None)
    made.created = created
    for name, value in extra.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("made", "line"),
    [
        (record("started"), "2026-01-02T03:04:05.678Z INFO  accelscope.agent started"),
        (record("x", created=1767323045.9999), "2026-01-02T03:04:05.999Z INFO  accelscope.agent x"),
        (record("x", created=1767323045.0), "2026-01-02T03:04:05.000Z INFO  accelscope.agent x"),
        (
            record("read", fields={"devices": 8, "seconds": 0.5, "reader": None}),
            "2026-01-02T03:04:05.678Z INFO  accelscope.agent read devices=8 seconds=0.5 reader=None",
        ),
        (
            record("read", fields={"text": 'a "b" c', "path": "a=b", "empty": "", "back": "a\\b"}),
            "2026-01-02T03:04:05.678Z INFO  accelscope.agent read "
            r'text="a \"b\" c" path="a=b" empty="" back="a\\b"',
        ),
        (
            record("two\nlines\x1b[31m\u2028", fields={"more": "a\r\nb"}),
            r"2026-01-02T03:04:05.678Z INFO  accelscope.agent two\nlines\x1b[31m\u2028 "
            r'more="a\r\nb"',
        ),
    ],
)
def test_text_lines(made: logging.LogRecord, line: str) -> None:
    assert logs.TextLines().format(made) == line


def test_json_lines() -> None:
    made = record("two\nlines", fields={"devices": 8, "path": io, "level": "not this"})
    line = logs.JsonLines().format(made)
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2026-01-02T03:04:05.678Z",
        "level": "info",
        "logger": "accelscope.agent",
        "message": "two\nlines",
        "devices": 8,
        "path": str(io),
    }


def _fail() -> None:
    raise ValueError("first\nsecond")


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_exception_stays_on_its_line(agent: logging.Logger, form: str) -> None:
    stream = io.StringIO()
    configure("info", form, stream)
    try:
        _fail()
    except ValueError:
        agent.exception("cannot read", extra=fields(device="nvidia-1"))
    (line,) = stream.getvalue().splitlines()
    assert "cannot read" in line
    assert "nvidia-1" in line
    assert r"ValueError: first\nsecond" in line
    assert "Traceback" in line
    if form == "json":
        assert json.loads(line)["error"] == "ValueError: first\nsecond"


def test_levels_and_calling_again(agent: logging.Logger) -> None:
    first, second = io.StringIO(), io.StringIO()
    configure("warning", "text", first)
    agent.info("not this")
    agent.warning("this")
    configure("debug", "text", second)
    agent.debug("and %s", "this")
    assert re.fullmatch(r"\S+Z WARNING accelscope.agent this\n", first.getvalue())
    assert re.fullmatch(r"\S+Z DEBUG accelscope.agent and this\n", second.getvalue())


def test_standard_error_is_where_it_goes(agent: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    configure()
    agent.info("started", extra=fields(port=9400))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith(" INFO  accelscope.agent started port=9400\n")
