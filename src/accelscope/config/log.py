"""Logging: one line per event, as text for eyes or as JSON for machines, times in UTC.

    2026-01-02T03:04:05.678Z INFO  accelscope.agent first collection done devices=8 seconds=0.12

Fields come from `extra={"fields": {...}}`; `fields()` makes that.
"""

import json
import logging
import re
import time
from collections.abc import Mapping
from typing import TextIO

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")

_BARE = re.compile(r"[^\s\"=\\]+")


def configure(level: str = "info", format: str = "text", stream: TextIO | None = None) -> None:  # noqa: A002
    """Send everything that is logged to `stream` (standard error), in place of where it went before; may be
    called again when settings change."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if format == "json" else TextLines())
    root = logging.getLogger()
    for previous in root.handlers[:]:
        root.removeHandler(previous)
    root.addHandler(handler)
    root.setLevel(level.upper())


def fields(**values: object) -> dict[str, dict[str, object]]:
    """For `log.info("listening", extra=fields(port=9400))`."""
    return {"fields": values}


class TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        parts = [f"{_time(record)} {record.levelname:<5} {record.name} {_escaped(record.getMessage())}"]
        parts += [f"{name}={_value(value)}" for name, value in _fields(self, record).items()]
        return " ".join(parts)


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in _fields(self, record).items():
            event.setdefault(name, value)
        return json.dumps(event, ensure_ascii=False, default=str, separators=(",", ":"))


def _time(record: logging.LogRecord) -> str:
    # Whole milliseconds first: rounding the fraction alone could print 1000.
    seconds, milliseconds = divmod(int(record.created * 1000), 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{milliseconds:03d}Z"


def _fields(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, object]:
    given = getattr(record, "fields", None)
    found = dict(given) if isinstance(given, Mapping) else {}
    if record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        found.setdefault("error", f"{type(error).__name__}: {error}")
        found["traceback"] = formatter.formatException(record.exc_info)
    return found


def _value(value: object) -> str:
    text = str(value)
    if _BARE.fullmatch(text) and text.isprintable():
        return text
    return '"' + _escaped(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )
