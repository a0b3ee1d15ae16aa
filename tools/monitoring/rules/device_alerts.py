"""Alerts about devices and their allocation."""

from accelscope.model import FAULT_THROTTLES, HOT_CELSIUS, HOT_MARGIN_CELSIUS, IDLE_SECONDS
from tools.monitoring.promql import OF_DEVICE, begun_within, with_model, with_node
from tools.monitoring.rules.rule import Alert, Group, Severity

_BAD_THROTTLES = "|".join(sorted(FAULT_THROTTLES))
# Furiosa also counts doorbells, which are not errors. PCIe replays are common.
_ERRORS = 'kind!="pcie", code!~".+_done"'
_XIDS = 'accelerator_errors_total{kind="xid"}'

# Devices that the agent reports, including lost and unresponsive ones. The recorded series is not used: for a
# new agent it does not exist yet.
_SHOWN = "count by (cluster, node, vendor) (max by (cluster, node, vendor, device) (accelerator_info))"
_DRIVERS = f"max by (cluster, node, vendor) ({with_node('accelscope_reader_found')})"
_LINKS = "cluster_node_vendor_model_device_index_kind:accelerator_link_up:sum"

_WHERE = "{{ $labels.node }} {{ $labels.vendor }} {{ $labels.index }}"
_WHICH = "{{ $labels.model }} {{ $labels.device }} on {{ $labels.node }}"


def _in_state(state: str) -> str:
    return with_model(f'(accelerator_health{{state="{state}"}} == 1)')


HEALTH = Group(
    "accelscope-health.alerts",
    (
        Alert(
            name="AcceleratorLost",
            severity=Severity.CRITICAL,
            lasting="1m",
            expression=_in_state("lost"),
            summary=f"{_WHERE} is lost",
            description=(
                f"{_WHICH} fell off the bus, or its driver cannot reach it. Workloads on it have failed."
            ),
        ),
        Alert(
            name="AcceleratorUnhealthy",
            severity=Severity.CRITICAL,
            lasting="1m",
            expression=_in_state("critical"),
            summary=f"{_WHERE} is in a critical state",
            description=(
                f"{_WHICH} has failed or is about to: it needs a reset, a memory row could not be remapped, "
                f"or it "
                "is at its shutdown temperature. The device's health has the reason."
            ),
        ),
        Alert(
            name="AcceleratorDegraded",
            severity=Severity.WARNING,
            lasting="15m",
            expression=_in_state("warning"),
            summary=f"{_WHERE} is degraded",
            description=(
                f"{_WHICH} works, but reports a problem: heat, memory errors or pending row remapping. The "
                "device's health has the reason."
            ),
        ),
        Alert(
            name="AcceleratorNotAnswering",
            severity=Severity.WARNING,
            lasting="5m",
            expression=with_model(
                f'((accelerator_up == 0) unless {OF_DEVICE} (accelerator_health{{state="lost"}} == 1))'
            ),
            summary=f"{_WHERE} does not respond",
            description=(
                f"{_WHICH} cannot be read, and the driver does not report it as lost: driver calls hang or "
                f"fail."
            ),
        ),
        Alert(
            name="AcceleratorVanished",
            severity=Severity.WARNING,
            lasting="10m",
            expression=(
                "max_over_time(cluster_node_vendor:accelscope_reader_devices_expected:max[1d]) "
                f"- ({_SHOWN} or 0 * {_DRIVERS}) > 0"
            ),
            summary="{{ $labels.node }} has fewer {{ $labels.vendor }} devices than before",
            description=(
                "{{ $value }} of the {{ $labels.vendor }} devices that {{ $labels.node }} had within the "
                "last day are no longer reported, not even as lost."
            ),
            thresholds=("1d",),
        ),
        Alert(
            name="AcceleratorCapacityDropped",
            severity=Severity.INFO,  # an autoscaler may do this every night
            lasting="15m",
            expression=(
                "(1 - cluster_vendor_model:accelerator_info:count "
                "/ max_over_time(cluster_vendor_model:accelerator_info:count[1d]) > 0.1)\n"
                "or\n"
                "(max_over_time(cluster_vendor_model:accelerator_info:count[1d]) "
                "unless cluster_vendor_model:accelerator_info:count) * 0 + 1"
            ),
            summary="{{ $labels.model }} devices are missing from the cluster",
            description=(
                "{{ $value | humanizePercentage }} of the {{ $labels.model }} devices of the last day are "
                "no longer reported: their nodes were removed, as by an autoscaler, or their agents are "
                "down."
            ),
            thresholds=("0.1",),
        ),
        Alert(
            name="AcceleratorHot",
            severity=Severity.WARNING,
            lasting="5m",
            expression=with_model(
                "(\n"
                f"  (accelerator_temperature_celsius >= ((accelerator_temperature_slowdown_celsius > 0) "
                f"- {HOT_MARGIN_CELSIUS}))\n"
                "  or\n"
                f"  ((accelerator_temperature_celsius >= {HOT_CELSIUS}) "
                f"unless {OF_DEVICE} (accelerator_temperature_slowdown_celsius > 0))\n"
                ")"
            ),
            summary=f"{_WHERE} is hot",
            description=f"{_WHICH} is at {{{{ $value }}}} °C, near or above its slowdown temperature.",
            thresholds=(str(HOT_MARGIN_CELSIUS), str(HOT_CELSIUS)),
        ),
        Alert(
            name="AcceleratorThrottled",
            severity=Severity.WARNING,
            lasting="5m",
            expression=with_model(
                f'(avg_over_time(accelerator_throttled{{reason=~"{_BAD_THROTTLES}"}}[15m]) > 0.5)'
            ),
            summary=f"{_WHERE} is throttled: {{{{ $labels.reason }}}}",
            description=f"{_WHICH} was throttled by heat or its power supply for "
            "{{ $value | humanizePercentage }} of the last 15 minutes.",
            thresholds=("0.5",),
        ),
    ),
)

ERRORS = Group(
    "accelscope-errors.alerts",
    (
        Alert(
            name="AcceleratorEccUncorrected",
            severity=Severity.WARNING,
            lasting="0m",
            expression=with_model('(increase(accelerator_ecc_errors_total{severity="uncorrected"}[1h]) > 0)'),
            summary=f"{_WHERE} has uncorrected memory errors",
            description=(
                f"{_WHICH} had uncorrectable memory errors in the last hour. Workloads that used that "
                f"memory have "
                "failed or computed wrong results."
            ),
        ),
        Alert(
            name="AcceleratorEccStorm",
            severity=Severity.WARNING,
            lasting="5m",
            expression=with_model('(increase(accelerator_ecc_errors_total{severity="corrected"}[1h]) > 100)'),
            summary=f"{_WHERE} corrects many memory errors",
            description=(
                f"{_WHICH} corrected {{{{ $value | humanize }}}} memory errors in the last hour. Part of "
                f"its memory is "
                "failing."
            ),
            thresholds=("100",),
        ),
        Alert(
            name="AcceleratorErrorReported",
            severity=Severity.INFO,
            lasting="0m",
            expression=with_model(
                f"((time() - accelerator_error_last_seen_timestamp_seconds{{{_ERRORS}}}) < 900)"
            ),
            summary=f"{_WHERE} reported {{{{ $labels.kind }}}} {{{{ $labels.code }}}}",
            description=(
                f"The driver reported {{{{ $labels.kind }}}} {{{{ $labels.code }}}} for {_WHICH} "
                "{{ $value | humanizeDuration }} ago."
            ),
            thresholds=("900",),
        ),
        Alert(
            name="AcceleratorErrorStorm",
            severity=Severity.WARNING,
            lasting="0m",
            # The series of a code appears with its first error, so increase() misses the first count. XIDs
            # are counted from the start of the agent, so their first count is new.
            expression=with_model(
                "(\n"
                f"  (increase(accelerator_errors_total{{{_ERRORS}}}[15m]) > 10)\n"
                "  or\n"
                f"  ({begun_within(_XIDS, '15m')} > 10)\n"
                ")"
            ),
            summary=f"{_WHERE} reports {{{{ $labels.kind }}}} {{{{ $labels.code }}}} repeatedly",
            description=(
                f"{_WHICH} reported {{{{ $labels.kind }}}} {{{{ $labels.code }}}} {{{{ $value | humanize "
                f"}}}} times in "
                "the last 15 minutes."
            ),
            thresholds=("10",),
        ),
        Alert(
            name="AcceleratorRowRemapPending",
            severity=Severity.WARNING,
            lasting="10m",
            expression=with_model("(accelerator_row_remap_pending == 1)"),
            summary=f"{_WHERE} needs a reset to remap memory rows",
            description=f"Memory rows of {_WHICH} failed. They are remapped at the next reset of the device.",
        ),
        Alert(
            name="AcceleratorRowRemapFailed",
            severity=Severity.CRITICAL,
            lasting="0m",
            expression=with_model("(accelerator_row_remap_failed == 1)"),
            summary=f"{_WHERE} has no spare memory rows left",
            description=(f"A memory row of {_WHICH} failed and could not be remapped. Replace the board."),
        ),
        Alert(
            name="AcceleratorLinkDown",
            severity=Severity.WARNING,
            lasting="5m",
            # Uses a recorded sum: eight devices have up to 144 links, and reading a day of each is expensive.
            expression=f"max_over_time({_LINKS}[1d]) - {_LINKS} > 0",
            summary=f"{_WHERE} has lost {{{{ $labels.kind }}}} links: {{{{ $value }}}}",
            description=(
                f"{_WHICH} had more active {{{{ $labels.kind }}}} links within the last day. Multi-device "
                f"workloads "
                "are slower or fail."
            ),
            thresholds=("1d",),
        ),
        Alert(
            name="AcceleratorPcieDegraded",
            severity=Severity.WARNING,
            lasting="15m",
            expression=with_model("(accelerator_pcie_link_width < accelerator_pcie_max_link_width)"),
            summary=f"{_WHERE} uses only {{{{ $value }}}} PCIe lanes",
            description=(
                f"{_WHICH} and its slot support more PCIe lanes than are in use. Typical causes: a bad "
                f"contact, "
                "riser or switch."
            ),
        ),
    ),
)

USE = Group(
    "accelscope-use.alerts",
    (
        Alert(
            name="AcceleratorMemoryNearlyFull",
            severity=Severity.INFO,
            lasting="15m",
            expression=with_model(
                "(accelerator_memory_used_bytes / (accelerator_memory_total_bytes > 0) > 0.97)"
            ),
            summary=f"{_WHERE} is nearly out of memory",
            description=f"{{{{ $value | humanizePercentage }}}} of the memory of {_WHICH} is in use.",
            thresholds=("0.97",),
        ),
        Alert(
            name="AcceleratorIdleAllocation",
            severity=Severity.INFO,
            lasting="10m",
            expression=(
                f"min by (cluster, namespace, pod) (accelerator_pod_idle_seconds) >= {IDLE_SECONDS:g} "
                # Not if the idle time of one of its devices is unknown.
                "unless on (cluster, namespace, pod) "
                "(accelerator_pod_device_share_ratio unless accelerator_pod_idle_seconds)"
            ),
            summary="{{ $labels.namespace }}/{{ $labels.pod }} does not use its allocated devices",
            description=(
                "Pod {{ $labels.namespace }}/{{ $labels.pod }} has not used any of its devices for "
                "{{ $value | humanizeDuration }}."
            ),
            thresholds=("3600",),
        ),
    ),
)
