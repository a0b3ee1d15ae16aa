"""Errors that the chip itself counts (RAS): the folder ras/ of a device, a file for each of its blocks."""

import re
from dataclasses import dataclass, field

from accelscope.model import AbsenceReason, ErrorCount
from accelscope.readers.amd.draft import Draft
from accelscope.readers.amd.file_errors import reason_of
from accelscope.readers.files import entries, read_text, read_whole
from accelscope.readers.growth import Growth

_FILE = re.compile(r"([a-z0-9_]{1,32})_err_count")
_LINE = re.compile(r"\s*(ue|ce|de)\s*:\s*([0-9]{1,18})\s*", re.IGNORECASE | re.ASCII)
_SEVERITIES = {"ue": "uncorrected", "ce": "corrected", "de": "deferred"}
_BAD_PAGES = "gpu_vram_bad_pages"
_BAD_PAGE = re.compile(r"\s*0x[0-9a-f]+\s*:\s*0x[0-9a-f]+\s*:\s*([RPF])\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class BadPages:
    """Memory that is no longer used: retired, still waiting for that, and such that could not be."""

    retired: int = 0
    pending: int = 0
    failed: int = 0


@dataclass(slots=True)
class ErrorCounters:
    """Of one GPU."""

    folder: str  # of the device
    _files: tuple[str, ...] | None = None
    _known: set[tuple[str, str]] = field(default_factory=set)  # what was counted at least once
    _growth: Growth = field(default_factory=Growth)
    bad_pages: BadPages | None = None

    def take(self, draft: Draft, now: float) -> tuple[ErrorCount, ...]:
        """Counts by block and in all into the draft; those that are not 0 with the time they last grew."""
        counts = self._counts(draft)
        silent = self._known - counts.keys()
        self._known.update(counts)
        if not counts:
            return ()
        totals: dict[str, int] = {}
        for (block, kind), count in counts.items():
            severity = _SEVERITIES[kind]
            totals[severity] = totals.get(severity, 0) + count
            draft.put(f"ecc.{severity}.{block}", count)
        for severity, count in totals.items():
            if any(_SEVERITIES[kind] == severity for _, kind in silent):
                # A sum without what a block has counted would fall, and rise again without an error.
                draft.miss(f"ecc.{severity}", AbsenceReason.NO_SAMPLE)
            else:
                draft.put(f"ecc.{severity}", count)
        self.bad_pages = self._read_bad_pages(draft)
        grew_at = {key: self._growth.last(key, count, now) for key, count in counts.items()}
        return tuple(
            ErrorCount("ras", f"{block}.{kind}", count, grew_at[block, kind])
            for (block, kind), count in counts.items()
            if count
        )

    def _counts(self, draft: Draft) -> dict[tuple[str, str], int]:
        if self._files is None:
            self._files = tuple(file for file in entries(f"{self.folder}/ras") if _FILE.fullmatch(file))
        counts: dict[tuple[str, str], int] = {}
        for file in self._files:
            match = _FILE.fullmatch(file)
            assert match is not None
            try:
                text = read_text(f"{self.folder}/ras/{file}")
            except OSError as error:
                draft.miss(f"ecc.uncorrected.{match[1]}", reason_of(error))
                continue
            lines = [told for told in map(_LINE.fullmatch, text.splitlines()) if told is not None]
            for told in lines:
                counts[match[1], told[1].lower()] = int(told[2])
            if not lines:  # while it resets the GPU, the driver has a sentence for each of these files
                draft.miss(f"ecc.uncorrected.{match[1]}", AbsenceReason.NO_SAMPLE)
        return counts

    def _read_bad_pages(self, draft: Draft) -> BadPages | None:
        try:
            text = read_whole(f"{self.folder}/ras/{_BAD_PAGES}").decode(errors="replace")
        except OSError:
            return None  # not every driver shows them, and not to everybody
        states = [match[1].upper() for match in map(_BAD_PAGE.fullmatch, text.splitlines()) if match]
        draft.put("retired_pages.uncorrected", len(states))
        return BadPages(states.count("R"), states.count("P"), states.count("F"))
