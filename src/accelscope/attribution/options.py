"""The options of attribution, and the status of its sources."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from accelscope.kube.endpoint import Endpoint
from accelscope.model import AttributionSourceState, counted

log = logging.getLogger(__name__)


class PodSource(StrEnum):
    AUTO = "auto"  # the API server if the agent runs in a pod or its URL is set, otherwise off
    API_SERVER = "api-server"
    KUBELET = "kubelet"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionOptions:
    node: str
    proc: Path = Path("/proc")
    passwd: Path = Path("/etc/passwd")
    pods: PodSource = PodSource.OFF
    api_server: Endpoint | None = None
    kubelet: Endpoint | None = None
    pod_resources_socket: str | None = None
    resource_slices: bool = True
    pod_labels: tuple[str, ...] = ()
    node_labels: tuple[str, ...] = ()
    ratio_file: Path | None = None
    device_ratios: Mapping[str, float] = field(default_factory=dict)
    model_ratios: Mapping[str, float] = field(default_factory=dict)
    job_mapping_folder: Path | None = None


class SourceStatus:
    """State and error counts of a source. Changes of the state are logged once."""

    def __init__(self, source: str, clock: Callable[[], float], detail: str | None = None) -> None:
        self.source = source
        self.detail = detail
        self._clock = clock
        self._reason: str | None = "starting"
        self._error: str | None = None
        self._last_success: float | None = None
        self._errors: dict[str, int] = {}

    @property
    def was_used(self) -> bool:
        return self._last_success is not None or bool(self._errors)

    @property
    def up(self) -> bool:
        return self._reason is None

    def succeeded(self) -> "SourceStatus":
        if self._reason is not None and self._errors:
            log.info("attribution source %s works again", self.source)
        self._reason = None
        self._last_success = self._clock()
        return self

    def failed(self, reason: str, error: str, *, expected: bool = False) -> None:
        """`expected`: logged at level debug only, such as no kubelet on a machine without Kubernetes."""
        if (reason, error) != (self._reason, self._error):
            log.log(
                logging.DEBUG if expected else logging.WARNING,
                "attribution source %s: %s",
                self.source,
                error,
            )
        self._reason, self._error = reason, error
        self._errors[reason] = self._errors.get(reason, 0) + 1

    def state(self) -> AttributionSourceState:
        return AttributionSourceState(
            source=self.source,
            up=self.up,
            detail=self.detail,
            reason=self._reason,
            error=self._error,
            last_success=self._last_success,
            errors=counted(self._errors),
        )
