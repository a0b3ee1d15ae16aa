"""A stretch of the past as answers show it, and where a longer one may come from."""

from collections.abc import Iterable
from typing import Annotated, Literal, Protocol, TypeAlias

from msgspec import Meta, Struct

SummaryScope: TypeAlias = Literal["fleet", "cluster", "vendor", "model", "namespace"]
Scope: TypeAlias = Literal["fleet", "cluster", "vendor", "model", "namespace", "device", "pod"]

SUMMARY_FIELDS = (
    "devices",
    "devices_unhealthy",
    "devices_allocated",
    "utilization_ratio",
    "memory_used_bytes",
    "memory_total_bytes",
    "power_watts",
    "temperature_max_celsius",
)
DEVICE_FIELDS = ("utilization_ratio", "memory_used_bytes", "power_watts", "temperature_celsius")
POD_FIELDS = ("utilization_ratio", "memory_used_bytes")

MINUTE = 60.0  # seconds


class HistorySeries(Struct, frozen=True, kw_only=True, gc=False):
    """Value i of each field is of `start` + i * `step_seconds`."""

    scope: Annotated[Scope, Meta(description="what it is of")]
    key: Annotated[
        str | None,
        Meta(description="the cluster, vendor, model, namespace, device id or pod; null: the fleet"),
    ]
    cluster: Annotated[str | None, Meta(description="of the device or pod")] = None
    node: Annotated[str | None, Meta(description="of the device")] = None
    namespace: Annotated[str | None, Meta(description="of the pod")] = None
    start: Annotated[float, Meta(description="of the first value, seconds since the epoch")]
    step_seconds: Annotated[float, Meta(description="time from one point to the next")]
    fields: Annotated[
        dict[str, list[float | None]],
        Meta(description="by name, all of one length; null: nothing was read then"),
    ]
    simulated: Annotated[bool, Meta(description="all of it or a part, by clusters as they are now")] = False
    source: Annotated[
        Literal["ring", "prometheus"], Meta(description="`ring`: what this process saw by the minute")
    ]


class Past(Protocol):
    """A store that remembers longer than this process. Answers None where it knows nothing of what is asked;
    never raises for what the store does."""

    async def series(
        self,
        scope: Scope,
        key: str | None,
        *,
        cluster: str | None = None,
        node: str | None = None,
        namespace: str | None = None,
        since: float,
        until: float,
    ) -> HistorySeries | None: ...

    async def devices(self, since: float, until: float) -> Iterable[HistorySeries]:
        """By the minute, all devices that it knows of: what a ring is filled up from after a start."""
        ...
