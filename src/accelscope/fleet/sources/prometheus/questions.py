"""What a store is asked about agents: few questions, each for all families whose labels are alike."""

from collections.abc import Iterable

from accelscope.fleet.sources.prometheus import families
from accelscope.fleet.sources.prometheus.promql import once, one_of, series
from accelscope.fleet.sources.prometheus.target import TARGET_LABELS
from accelscope.metrics.catalogue import INFO_LABELS

_COMMON = ("__name__", *TARGET_LABELS)
_WORKLOAD = ("namespace", "pod", "container")

IDENTITY = (families.INFO, families.PARTITION_INFO, *families.READERS)
IDENTITY_LABELS = (
    *("vendor", "device", "index", *INFO_LABELS),
    *("partition", "profile", "gpu_instance", "compute_instance"),
)

DEVICES = (
    *families.DEVICE_ROWS,
    *families.DEVICE_STATES,
    *families.DEVICE_DETAILS,
    *families.PARTITION_DETAILS,
)
DEVICE_LABELS = (
    *("device", "partition", "state", "reason", "engine", "pipe", "core", "sensor", "bound", "rail", "fan"),
    *("clock", "kind", "link", "severity", "block", "code"),
)
_ROW_LABELS = ("device", "fan", "severity", "block", "kind", "code")
_STATE_LABELS = ("device", "state", "reason")

WORKLOADS = (
    *(families.POD_INFO, families.POD_ALLOCATED, *families.POD_ROWS),
    *(families.PROCESS_INFO, *families.PROCESS_ROWS),
)
WORKLOAD_DETAILS = (*families.UNATTRIBUTED, *families.BALANCES, families.JOB_INFO)
WORKLOAD_LABELS = (
    *("device", "partition", "engine", "resource", "uid", "owner_kind", "owner_name"),
    *("pid", "name", "user", "type", "mps", "owner", "reason", "job_id"),
    *_WORKLOAD,
    *(f"exported_{name}" for name in _WORKLOAD),
)


def questions(matchers: Iterable[str], instances: Iterable[str], *, brief: bool) -> tuple[str, ...]:
    """About the agents at these addresses. Brief: what rows are made of, which is a third of it."""
    of_agents = (*matchers, one_of("instance", instances))
    identity = once(series(IDENTITY, *of_agents), (*_COMMON, *IDENTITY_LABELS))
    if brief:
        devices = _device_rows(of_agents)
        workloads = WORKLOADS
    else:
        devices = once(series(DEVICES, *of_agents), (*_COMMON, *DEVICE_LABELS))
        workloads = (*WORKLOADS, *WORKLOAD_DETAILS)
    return identity, devices, once(series(workloads, *of_agents), (*_COMMON, *WORKLOAD_LABELS))


def _device_rows(of_agents: tuple[str, ...]) -> str:
    # Cards count errors in dozens of parts; rows have the uncorrected. What has no such label passes.
    serious = one_of("severity", ("", "uncorrected"))
    values = once(series(families.DEVICE_ROWS, *of_agents, serious), (*_COMMON, *_ROW_LABELS))
    # Each state of which only one holds, and each reason of which mostly none does, is a series of its own.
    holding = f"{series(families.DEVICE_STATES, *of_agents)} == 1"
    return f"{values} or {once(holding, (*_COMMON, *_STATE_LABELS))}"
