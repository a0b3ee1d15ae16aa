"""What attribution is told by the settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from accelscope.kube.endpoint import Endpoint


class PodSource(StrEnum):
    AUTO = "auto"  # the API server where the agent runs in a pod or is told its address, else none
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
