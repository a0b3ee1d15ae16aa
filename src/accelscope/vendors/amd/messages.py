"""What amd-smi and rocm-smi say instead of values.

Each has a reason that can be counted and that names a different thing to do. Warnings before good values are
not among them: they are skipped.
"""

import re
from dataclasses import replace

from accelscope.parsing.parsed import ParseError
from accelscope.vendors.common.values import strange_output

_LINE_LIMIT = 500
_MOST_LINES = 5000  # no message comes after that many lines

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), reason)
    for pattern, reason in (
        (r"driver not (?:initialized|loaded)|amdgpu not found in modules", "driver_not_loaded"),
        (r"data is inaccessible|in a low-power state", "suspended"),
        (r"no json data to report|no csv data to report", "nothing_to_report"),
        (r"cannot print json/csv|NOT_SUPPORTED|not supported", "not_supported"),
        (
            r"unrecogni[sz]ed arguments?|invalid (?:command|parameter|argument)|is not recogni[sz]ed",
            "unknown_option",
        ),
        (r"permission denied|requires? (?:sudo|root)|no_perm|elevated permission", "no_permission"),
        (
            r"cannot open shared object|lib(?:amd_smi|rocm_smi64|drm)\S* (?:not found|cannot|could not)"
            r"|unable to (?:find|load|import).{0,80}(?:lib|amdsmi)|no module named",
            "library_missing",
        ),
        (
            r"(?:amd-smi|rocm-smi).{0,40}(?:command )?not found|no such file or directory",
            "tool_missing",
        ),
        (
            r"no (?:amd )?(?:gpus?|devices?)(?: devices?)? (?:were |was )?"
            r"(?:found|detected|available|specified)|unable to detect any gpu|not_found",
            "no_devices",
        ),
        (r"traceback \(most recent call last\)|exception", "tool_failed"),
        (
            r"^(?:error|expected integer value from monitor)|unable to|failed to|amdsmi_status_",
            "driver_error",
        ),
        # A warning that mostly stands before good values: it explains only where there is nothing else.
        (r"missing the following required groups", "no_permission"),
    )
)
# Lines without one of these are not tried against the patterns: there may be a million of them.
_SIGN = re.compile(
    r"not|no |error|missing|unable|fail|invalid|permission|require|cannot|low-power|inaccessible|unrecogni"
    r"|traceback|exception|amdsmi_status_",
    re.IGNORECASE,
)

# A row of a table, or a key and its value below others: data, mostly of another tool.
_CELLS = re.compile(r"[|+]|[A-Za-z][\w ()/-]{0,60} {2,}: ")

_WARNING = re.compile(
    r"data is inaccessible|in a low-power state|missing the following required groups", re.IGNORECASE
)
_BANNER = re.compile(r"[\s\ufeff]*(?:=+[^=]*=*)?\s*")  # an empty line, or a title between rulers


def error_of(text: str) -> ParseError | None:
    """The message in the output that says why there are no values: of several the one that tells most."""
    best: tuple[int, ParseError] | None = None
    for number, line in enumerate(text.lstrip("\ufeff").split("\n")):
        if number >= _MOST_LINES:
            break
        bare = line.strip()[:_LINE_LIMIT]
        if not _SIGN.search(bare) or _CELLS.match(bare):
            continue
        for rank, (pattern, reason) in enumerate(_PATTERNS):
            if best is not None and rank >= best[0]:
                break
            if pattern.search(bare):
                best = rank, ParseError(reason, bare)
                break
    return best[1] if best else None


def no_reading(text: str, tool: str) -> ParseError:
    """Why an output without a single device is not a reading. A warning is the reason only where the tool
    printed nothing else: before a table or a CSV, the reason is that this is not what was expected."""
    error = error_of(text)
    if error is None:
        return strange_output(text, tool)
    if _WARNING.search(error.text):
        printed = next((line for line in text.split("\n")[:_MOST_LINES] if _is_payload(line)), None)
        if printed is not None:
            strange = strange_output(printed, tool)
            return replace(strange, text=f"{strange.text}; before it: {error.text}")
    return error


def _is_payload(line: str) -> bool:
    return _BANNER.fullmatch(line) is None and error_of(line) is None


def error_in_document(document: object) -> ParseError | None:
    """With --json amd-smi writes its complaints as JSON too: `{"error": "...", "code": -3}`."""
    if not isinstance(document, dict):
        return None
    text = document.get("error") or document.get("message")
    if not isinstance(text, str):
        return None
    known = error_of(text[:_LINE_LIMIT])
    return known or ParseError("driver_error", text.strip()[:_LINE_LIMIT])
