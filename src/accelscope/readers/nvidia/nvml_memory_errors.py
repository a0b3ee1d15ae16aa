"""Errors of a GPU's memory through NVML: counts, rows that were remapped, pages that were retired."""

from typing import Any

from accelscope.model import EccCount, RemappedRows
from accelscope.readers.nvidia.nvml_ask import Ask

_SEVERITIES = {0: "corrected", 1: "uncorrected"}
_BLOCKS = {1: "l2_cache", 2: "dram", 3: "register_file", 7: "sram"}
_PAGE_CAUSES = {0: "corrected", 1: "uncorrected"}  # multiple single-bit errors, one double-bit error


class MemoryErrors:
    def __init__(self, handle: Any, ask: Ask) -> None:
        self._handle = handle
        self._ask = ask

    def ecc_mode(self) -> bool | None:
        mode = self._ask("ecc_enabled", "nvmlDeviceGetEccMode", self._handle)
        return None if mode is None else bool(mode[0])

    def ecc(self) -> tuple[EccCount, ...]:
        counts = []
        for lifetime in (False, True):
            for number, severity in _SEVERITIES.items():
                field = f"ecc.{severity}.{'lifetime' if lifetime else 'volatile'}"
                total = self._ask(field, "nvmlDeviceGetTotalEccErrors", self._handle, number, int(lifetime))
                if total is None:
                    continue
                counts.append(EccCount(severity, lifetime, total))
                for location, block in _BLOCKS.items():
                    part = self._ask(
                        f"{field}.{block}",
                        "nvmlDeviceGetMemoryErrorCounter",
                        self._handle,
                        number,
                        int(lifetime),
                        location,
                    )
                    if part is not None:
                        counts.append(EccCount(severity, lifetime, part, block))
        return tuple(counts)

    def remapped_rows(self) -> RemappedRows | None:
        rows = self._ask("remapped_rows", "nvmlDeviceGetRemappedRows", self._handle)
        if rows is None:
            return None
        correctable, uncorrectable, pending, failed = rows
        return RemappedRows(correctable, uncorrectable, bool(pending), bool(failed))

    def retired_pages(self) -> tuple[EccCount, ...]:
        counts = []
        for cause, severity in _PAGE_CAUSES.items():
            pages = self._ask(f"retired_pages.{severity}", "nvmlDeviceGetRetiredPages", self._handle, cause)
            if pages is not None:
                counts.append(EccCount(severity, lifetime=True, count=len(pages)))
        return tuple(counts)
