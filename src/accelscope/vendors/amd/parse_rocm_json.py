"""`rocm-smi … --json`: an object with `card0`, `card1` … and `system`."""

import re
from collections.abc import Mapping

from accelscope.parsing.parsed import Parsed, ParseError
from accelscope.parsing.rejections import Rejections
from accelscope.vendors.amd import json_text, messages, quantities, rocm_fields, trees
from accelscope.vendors.amd.draft import AmdDraft

ROCM_JSON = "rocm-smi --json"

CARD = re.compile(r"card([0-9]{1,6})", re.ASCII)


def parse_rocm_json(text: str) -> Parsed:
    rejected = Rejections()
    cards: dict[int, dict[str, str]] = {}
    system: dict[str, str] = {}
    error = None
    for document in json_text.documents(text):
        if not document.whole:
            rejected.add("the document is cut off", "truncated")
        error = error or messages.error_in_document(document.value)
        for key, member in document.value.items() if isinstance(document.value, dict) else ():
            match = CARD.fullmatch(key)
            if not isinstance(member, dict):
                continue
            if match is not None:
                cards.setdefault(int(match[1]), {}).update(_normal(member))
            elif key == "system":
                system.update(_words(member))
    parsed = devices_and_processes(cards, system, rejected)
    if parsed.devices or parsed.processes:
        return parsed
    return Parsed(error=error or _nothing(text, rejected), rejected=rejected.listed())


def devices_and_processes(
    cards: Mapping[int, Mapping[str, str]], system: Mapping[str, str], rejected: Rejections
) -> Parsed:
    """`cards` by their numbers, with normal keys; `system` as it is."""
    version = next(
        (value for key, value in system.items() if rocm_fields.normal(key) == "driver version"), ""
    )
    driver_version = None if quantities.absence(version) else quantities.driver_version(version)
    drafts: list[tuple[AmdDraft, bool]] = [
        (rocm_fields.draft_of(values, number, driver_version), rocm_fields.is_dual_die(values))
        for number, values in sorted(cards.items())
    ]
    rocm_fields.share_modules(drafts)
    for draft, _ in drafts:
        rejected.extend(draft.rejected)
    processes, strange = rocm_fields.processes_of(system)
    for line in strange:
        rejected.add(line, "not_a_process")
    return Parsed(
        devices=trees.devices_of([draft for draft, _ in drafts]),
        processes=tuple(processes),
        rejected=rejected.listed(),
    )


def _nothing(text: str, rejected: Rejections) -> ParseError:
    error = messages.no_reading(text, ROCM_JSON)
    if error.reason == "unrecognized" and rejected.listed():
        return ParseError("truncated", f"{ROCM_JSON}: the document is cut off")
    return error


def _words(member: Mapping[str, object]) -> dict[str, str]:
    """All values are words; a number is taken for its digits."""
    told = ((key, quantities.text_of(value)) for key, value in member.items())
    return {key: text for key, text in told if text is not None}


def _normal(member: Mapping[str, object]) -> dict[str, str]:
    return {rocm_fields.normal(key): text for key, text in _words(member).items()}
