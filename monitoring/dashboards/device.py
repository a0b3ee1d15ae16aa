"""One device: everything that its driver tells, and who is on it."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from monitoring.dashboards.device_hardware import errors, links, power
from monitoring.dashboards.device_series import HERE, POD, by, of
from monitoring.dashboards.frame import DEVICE, WORKLOADS, Section, made
from monitoring.dashboards.panels import BAD, WARN, Query, amount, lines, number, states
from monitoring.dashboards.tables import Column, rows
from monitoring.dashboards.variables import ONE_CLUSTER, SAME_CLUSTER, cell, instances, one, to
from monitoring.dashboards.vocabulary import (
    FULL,
    HEALTH_STATES,
    TROUBLING,
    WARM,
    YES_NO,
    health_number,
)

_NODE = 'cluster="$cluster", node="$node"'
_FACTS = {
    "vendor": "Vendor",
    "model": "Model",
    "index": "Index",
    "uuid": "UUID",
    "serial": "Serial",
    "pci_address": "PCI",
    "driver_version": "Driver",
    "firmware_version": "Firmware",
    "architecture": "Architecture",
    "device_name": "File",
    "numa_node": "NUMA",
}
_PROCESS = {"pid": "PID", "name": "Name"}


def now() -> Section:
    return Section(
        "Now",
        [
            rows(
                "Facts",
                "What the driver tells of the device's identity.",
                _FACTS,
                Column("Known", f"max by ({', '.join(_FACTS)}) ({of('accelerator_info')})", "short"),
                height=4,
            ),
            number(
                "Utilisation",
                "Share of the last sample period in which anything ran.",
                "percentunit",
                f"max({of('accelerator_utilization_ratio')})",
            ),
            number(
                "Memory in use",
                "Share of its memory.",
                "percentunit",
                f"max({of('accelerator_memory_used_bytes')}) / max({of('accelerator_memory_total_bytes')})",
                levels=FULL,
            ),
            number(
                "Temperature",
                "At the main sensor.",
                "celsius",
                f"max({of('accelerator_temperature_celsius')})",
                levels=WARM,
            ),
            number("Power", "Drawn now.", "watt", f"max({of('accelerator_power_watts')})"),
            amount(
                "Energy",
                "Used in the time that is looked at, by pods and by nobody.",
                "joule",
                f"sum(increase({of('accelerator_pod_energy_joules_total')}[$__range]) "
                f"or increase({of('accelerator_idle_energy_joules_total')}[$__range]))",
            ),
            number(
                "Last read",
                "Time since its driver last answered for it.",
                "s",
                f"time() - max({of('accelerator_last_read_timestamp_seconds')})",
                levels=((60, WARN), (300, BAD)),
            ),
            states(
                "Health",
                "The state that it was in.",
                HEALTH_STATES,
                Query(health_number(HERE), "health"),
            ),
            states(
                "Slowed down",
                "Why it did not run as fast as it could. Being idle is left out.",
                YES_NO,
                Query(of("accelerator_throttled", ", " + TROUBLING), "{{reason}}"),
            ),
        ],
    )


def compute() -> Section:
    return Section(
        "Computing",
        [
            lines(
                "Utilisation",
                "Shares of time: of anything, of memory traffic, of special engines.",
                "percentunit",
                Query(of("accelerator_utilization_ratio"), "compute"),
                Query(of("accelerator_memory_busy_ratio"), "memory traffic"),
                Query(of("accelerator_engine_utilization_ratio"), "{{engine}}"),
                most=1,
            ),
            lines(
                "Profiling counters",
                "How much of the device its work really uses, where the driver counts it.",
                "percentunit",
                Query(of("accelerator_sm_active_ratio"), "multiprocessors active"),
                Query(of("accelerator_sm_occupancy_ratio"), "occupancy"),
                Query(of("accelerator_tensor_active_ratio"), "tensor pipes"),
                Query(of("accelerator_dram_active_ratio"), "memory"),
                Query(of("accelerator_pipe_active_ratio"), "{{pipe}}"),
                most=1,
            ),
            lines(
                "Cores",
                "Of a device that shows its cores singly.",
                "percentunit",
                Query(of("accelerator_core_utilization_ratio"), "core {{core}}"),
                most=1,
            ),
            lines(
                "Clocks",
                "Now, and the highest of the part that computes.",
                "hertz",
                Query(of("accelerator_clock_hertz"), "{{clock}}"),
                Query(of("accelerator_core_clock_hertz"), "core {{core}}"),
                Query(of("accelerator_clock_max_hertz"), "{{clock}}, highest"),
            ),
        ],
    )


def memory() -> Section:
    return Section(
        "Memory",
        [
            lines(
                "Memory",
                "In use, kept by the driver, and all.",
                "bytes",
                Query(of("accelerator_memory_used_bytes"), "in use"),
                Query(of("accelerator_memory_reserved_bytes"), "kept by the driver"),
                Query(of("accelerator_memory_total_bytes"), "all"),
            ),
            lines(
                "Whose memory",
                "Of containers, measured from their processes, and of what is no pod's.",
                "bytes",
                Query(by(POD, "accelerator_pod_memory_used_bytes"), "{{namespace}}/{{pod}} {{container}}"),
                Query(
                    f"sum by (owner_kind, owner) ({of('accelerator_unattributed_memory_used_bytes')})",
                    "{{owner_kind}} {{owner}}",
                ),
                stacked=True,
            ),
        ],
    )


def users() -> Section:
    return Section(
        "Who is on it",
        [
            rows(
                "Pods",
                "Containers that hold or use it. Measured: from processes. Held, idle: from the kubelet.",
                POD,
                Column("Held", by(POD, "accelerator_pod_allocated"), "short"),
                Column("Utilisation", by(POD, "accelerator_pod_utilization_ratio"), "percentunit"),
                Column("Memory", by(POD, "accelerator_pod_memory_used_bytes"), "bytes"),
                Column(
                    "Idle",
                    f"min by (namespace, pod, container) ({of('accelerator_pod_idle_seconds')})",
                    "s",
                    levels=((3600, WARN),),
                ),
                links={"pod": to(WORKLOADS, "Pods", cluster=SAME_CLUSTER, namespace=cell("Namespace"))},
                width=12,
            ),
            rows(
                "Processes",
                "By pid, as the node sees them. A cap on their number is counted on the page of agents.",
                _PROCESS,
                Column("Utilisation", by(_PROCESS, "accelerator_process_utilization_ratio"), "percentunit"),
                Column("Memory", by(_PROCESS, "accelerator_process_memory_bytes"), "bytes"),
                sort="Memory",
                width=12,
            ),
            rows(
                "Partitions",
                "MIG instances and compute partitions.",
                {"partition": "Partition"},
                Column(
                    "Utilisation",
                    by(("partition",), "accelerator_partition_utilization_ratio"),
                    "percentunit",
                ),
                Column("In use", by(("partition",), "accelerator_partition_memory_used_bytes"), "bytes"),
                Column("Memory", by(("partition",), "accelerator_partition_memory_total_bytes"), "bytes"),
            ),
        ],
    )


def build() -> Dashboard:
    return made(
        DEVICE,
        "Device",
        "One device: everything that its driver tells, and who is on it.",
        [
            ONE_CLUSTER,
            one("node", "Node", "accelscope_node_info", 'cluster="$cluster"'),
            one("device", "Device", "accelerator_info", _NODE),
            instances(_NODE),
        ],
        [now(), compute(), memory(), power(), links(), errors(), users()],
    )
