"""A chip while its values are read: what each gave, and why others gave nothing."""

from dataclasses import dataclass, field
from typing import Any

from accelscope.model import Absence, AbsenceReason, Device, Rejection, Sensor, Vendor
from accelscope.readers.ascend import cells
from accelscope.readers.ascend.identity import chip_device_id

_TEXT_LIMIT = 200  # characters of a rejected value that are kept


@dataclass(slots=True)
class Draft:
    """`values` by the names of the fields of Device."""

    board: int | None
    chip: int | None = None
    values: dict[str, Any] = field(default_factory=dict)
    absences: dict[str, AbsenceReason] = field(default_factory=dict)
    sensors: list[Sensor] = field(default_factory=list)  # beside the chip's own
    rejected: list[Rejection] = field(default_factory=list)

    def take(self, place: str, text: str | None, read: cells.Read, source: str) -> None:
        """Read a value into its place, unless a preferred one is there. None: the output has it not."""
        if text is None or place in self.values:
            return
        reason = cells.absence(text)
        if reason is None:
            value = read(text)
            if value is not None:
                self.values[place] = value
                self.absences.pop(place, None)
                return
            self.reject(f"{source}: {text.strip()}")
            reason = AbsenceReason.UNREADABLE
        self.absences.setdefault(place, reason)

    def take_power(self, text: str | None, source: str) -> None:
        """No running chip draws 0.0 W: the 310B prints that where it does not measure."""
        self.take("power_watts", text, cells.watts, source)
        if self.values.get("power_watts") == 0:
            del self.values["power_watts"]
            self.absences["power_watts"] = AbsenceReason.NOT_SUPPORTED

    def reject(self, line: str) -> None:
        self.rejected.append(Rejection(line[:_TEXT_LIMIT], "unreadable"))

    def device(self) -> Device:
        told = self.values
        own = (Sensor("npu", told["temperature_celsius"]),) if "temperature_celsius" in told else ()
        return Device(
            vendor=Vendor.ASCEND,
            id=self.id,
            board_id=self.board,
            chip_id=self.chip,
            sensors=(*own, *self.sensors),
            absent=tuple(Absence(place, reason) for place, reason in self.absences.items()),
            **told,
        )

    @property
    def id(self) -> str:
        return chip_device_id(
            die=self.values.get("uuid"),
            serial=self.values.get("serial"),
            pci=self.values.get("pci_address"),
            board=self.board,
            chip=self.chip,
        )
