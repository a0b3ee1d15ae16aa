"""The Acme reader: one run of acme-smi for the list, then one for each card, so that a card hangs alone."""

from accelscope.model import Reading, Vendor
from accelscope.parsing import ParseResult
from accelscope.vendors.common.contract import DeviceLost, DriverAbsent, ReaderError, ReaderOptions, Survey
from accelscope.vendors.common.tool import Tool

from . import ACME_SMI
from .parse import parse


class AcmeReader:
    vendor = Vendor("acme")

    def __init__(self, options: ReaderOptions) -> None:
        self._tool = Tool(
            options.value(ACME_SMI),
            timeout_seconds=options.tool_timeout_seconds,
            environment=options.environment,
        )
        self._indexes: dict[str, int | None] = {}  # by Device.id

    def survey(self) -> Survey:
        if self._tool.find() is None:
            raise DriverAbsent("acme-smi is not on this node")
        parsed = self._query()
        self._indexes = {device.id: device.index for device in parsed.devices}
        return Survey(
            source="acme-smi",
            keys=tuple(self._indexes),
            driver_version=dict(parsed.versions).get("driver"),
            rejected=parsed.rejected,
        )

    def read(self, key: str) -> Reading:
        parsed = self._query("-i", str(self._indexes[key]))
        device = next((device for device in parsed.devices if device.id == key), None)
        if device is None:
            raise DeviceLost(f"acme-smi does not show {key}")
        return Reading(device, parsed.processes, parsed.rejected)

    def close(self) -> None:
        """There is nothing to release: each run of the tool ends by itself."""

    def _query(self, *arguments: str) -> ParseResult:
        parsed = parse(self._tool.run(("query", *arguments)).text)
        if parsed.error is not None:
            raise ReaderError(parsed.error.reason, parsed.error.text)
        return parsed
