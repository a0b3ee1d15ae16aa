"""What to say of an output in which there is neither a value nor a message that is known."""

from accelscope.parsing.parsed import ParseError

_LINE_LIMIT = 200


def first_line(text: str) -> str:
    """That is not blank; empty where all are."""
    return next((line.strip() for line in text.split("\n") if line.strip("\ufeff \t\r")), "")[:_LINE_LIMIT]


def strange_output(text: str, tool: str) -> ParseError:
    first = first_line(text)
    if not first:
        return ParseError("empty", f"{tool} printed nothing")
    return ParseError("unrecognized", f"not the output of {tool}: {first}")
