"""The device dashboard: all values of one device and its workloads."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from tools.monitoring.dashboards.device_hardware import errors, links, power
from tools.monitoring.dashboards.device_series import HERE, POD, by, of
from tools.monitoring.dashboards.frame import DEVICE, WORKLOADS, Section, build_dashboard
from tools.monitoring.dashboards.panels import BAD, WARN, Query, amount, lines, number, states
from tools.monitoring.dashboards.tables import Column, rows
from tools.monitoring.dashboards.variables import ONE_CLUSTER, SAME_CLUSTER, cell, instances, one, to
from tools.monitoring.dashboards.vocabulary import (
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
                "Details",
                "Identity of the device as reported by the driver.",
                _FACTS,
                Column("Present", f"max by ({', '.join(_FACTS)}) ({of('accelerator_info')})", "short"),
                height=4,
            ),
            number(
                "Utilisation",
                "Fraction of the last sample period during which a kernel was running.",
                "percentunit",
                f"max({of('accelerator_utilization_ratio')})",
            ),
            number(
                "Memory in use",
                "Share of the device's memory.",
                "percentunit",
                f"max({of('accelerator_memory_used_bytes')}) / max({of('accelerator_memory_total_bytes')})",
                levels=FULL,
            ),
            number(
                "Temperature",
                "Main sensor.",
                "celsius",
                f"max({of('accelerator_temperature_celsius')})",
                levels=WARM,
            ),
            number("Power", "Current power.", "watt", f"max({of('accelerator_power_watts')})"),
            amount(
                "Energy",
                "Energy in the selected time range, by pods and idle.",
                "joule",
                f"sum(increase({of('accelerator_pod_energy_joules_total')}[$__range]) "
                f"or increase({of('accelerator_idle_energy_joules_total')}[$__range]))",
            ),
            number(
                "Last read",
                "Time since the last successful reading.",
                "s",
                f"time() - max({of('accelerator_last_read_timestamp_seconds')})",
                levels=((60, WARN), (300, BAD)),
            ),
            states(
                "Health",
                "Health over time.",
                HEALTH_STATES,
                Query(health_number(HERE), "health"),
            ),
            states(
                "Throttling",
                "Active throttle reasons, without idle clocks.",
                YES_NO,
                Query(of("accelerator_throttled", ", " + TROUBLING), "{{reason}}"),
            ),
        ],
    )


def compute() -> Section:
    return Section(
        "Compute",
        [
            lines(
                "Utilisation",
                "Fraction of time: compute, memory traffic, engines.",
                "percentunit",
                Query(of("accelerator_utilization_ratio"), "compute"),
                Query(of("accelerator_memory_busy_ratio"), "memory traffic"),
                Query(of("accelerator_engine_utilization_ratio"), "{{engine}}"),
                most=1,
            ),
            lines(
                "Profiling counters",
                "Activity of the device's units, where the driver provides profiling counters.",
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
                "Utilisation by core, where the driver reports it.",
                "percentunit",
                Query(of("accelerator_core_utilization_ratio"), "core {{core}}"),
                most=1,
            ),
            lines(
                "Clocks",
                "Current and maximum clocks.",
                "hertz",
                Query(of("accelerator_clock_hertz"), "{{clock}}"),
                Query(of("accelerator_core_clock_hertz"), "core {{core}}"),
                Query(of("accelerator_clock_max_hertz"), "{{clock}}, max"),
            ),
        ],
    )


def memory() -> Section:
    return Section(
        "Memory",
        [
            lines(
                "Memory",
                "In use, reserved by the driver, and total.",
                "bytes",
                Query(of("accelerator_memory_used_bytes"), "in use"),
                Query(of("accelerator_memory_reserved_bytes"), "reserved"),
                Query(of("accelerator_memory_total_bytes"), "total"),
            ),
            lines(
                "Memory by owner",
                "Memory of containers, measured from their processes, and unattributed memory.",
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
        "Workloads",
        [
            rows(
                "Pods",
                "Containers with this device allocated or in use. Use is measured from processes; "
                "allocation comes from the kubelet.",
                POD,
                Column("Allocated", by(POD, "accelerator_pod_allocated"), "short"),
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
                "By pid in the node's PID namespace. The agents dashboard counts series dropped by the "
                "limit.",
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
    return build_dashboard(
        DEVICE,
        "Device",
        "All values of one device, and the workloads on it.",
        [
            ONE_CLUSTER,
            one("node", "Node", "accelscope_node_info", 'cluster="$cluster"'),
            one("device", "Device", "accelerator_info", _NODE),
            instances(_NODE),
        ],
        [now(), compute(), memory(), power(), links(), errors(), users()],
    )
