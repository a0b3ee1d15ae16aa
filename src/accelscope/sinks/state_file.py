"""A JSON file in the agent's state folder, which outlives the agent.

The file is replaced atomically and is readable by the agent's user only. Whoever can write to the folder can
write anything: a file that is damaged, too large or of another version is ignored, with one line in the log.
"""

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from accelscope.files import open_regular
from accelscope.sinks.sink import replace_file

log = logging.getLogger(__name__)

T = TypeVar("T")

VERSION = 1
_MOST_BYTES = 4 << 20
_LONGEST_TEXT = 512
_MOST_EPOCH_SECONDS = 1e11  # the year 5138


def write_state(path: Path, document: Mapping[str, Any]) -> None:
    """Raises SinkError."""
    replace_file(path, json.dumps({"version": VERSION, **document}).encode(), 0o600)


def read_state(path: Path, parse: Callable[[Mapping[str, Any]], T], consequence: str) -> T | None:
    """What `parse` makes of the document; it raises ValueError if it is invalid. None: there is no usable
    file; `consequence` begins the line in the log."""
    try:
        with open_regular(path) as file:
            content = file.read(_MOST_BYTES + 1)
        return parse(_document(content))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        log.warning("%s, cannot use %s: %s", consequence, path, error)
        return None


def _document(content: bytes) -> Mapping[str, Any]:
    if len(content) > _MOST_BYTES:
        raise ValueError(f"larger than {_MOST_BYTES} bytes")
    document = json.loads(content)
    if not isinstance(document, dict):
        raise ValueError("not an object")  # noqa: TRY004 - invalid content
    if document.get("version") != VERSION:
        raise ValueError(f"its version is not {VERSION}")
    return document


# Values of a document. Each raises ValueError.


def entries(document: Mapping[str, Any], name: str, most: int) -> list[Any]:
    found = document.get(name)
    if not isinstance(found, list) or len(found) > most:
        raise ValueError(f"{name} is not a list of up to {most} entries")
    return found


def text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise ValueError(f"a text of up to {_LONGEST_TEXT} characters is missing")
    return value


def seconds(value: Any, most: float = _MOST_EPOCH_SECONDS) -> float:
    """Compared before the conversion, because a JSON integer may be too large for a float."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise ValueError("a time is not a number of seconds or too large")
    return float(value)
