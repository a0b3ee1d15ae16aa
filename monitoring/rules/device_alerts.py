"""Alerts about devices and about who holds them."""

from accelscope.model import FAULT_THROTTLES, HOT_CELSIUS, HOT_MARGIN_CELSIUS, IDLE_SECONDS
from monitoring.promql import OF_DEVICE, begun_within, with_model, with_node
from monitoring.rules.rule import Alert, Group, Severity

_BAD_THROTTLES = "|".join(sorted(FAULT_THROTTLES))
# Furiosa's counters also tell of doorbells, which are no errors; a PCIe link sends many packets again.
_ERRORS = 'kind!="pcie", code!~".+_done"'
_XIDS = 'accelerator_errors_total{kind="xid"}'

# As the agent shows them, lost ones and those that do not answer included; none where the driver shows none.
# Not the record of the same: of an agent that has just come that is not there yet, and its drivers are.
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
                f"{_WHICH} fell off the bus, or its driver no longer reaches it. What ran on it has failed."
            ),
        ),
        Alert(
            name="AcceleratorUnhealthy",
            severity=Severity.CRITICAL,
            lasting="1m",
            expression=_in_state("critical"),
            summary=f"{_WHERE} is in a critical state",
            description=(
                f"{_WHICH} is about to fail or already does: it must be reset, a part of it is worn out, or "
                "it is so hot that it shuts itself down. Its health has the reason."
            ),
        ),
        Alert(
            name="AcceleratorDegraded",
            severity=Severity.WARNING,
            lasting="15m",
            expression=_in_state("warning"),
            summary=f"{_WHERE} is degraded",
            description=(
                f"{_WHICH} works with something wrong: heat, memory errors, rows that wait for a reset."
            ),
        ),
        Alert(
            name="AcceleratorNotAnswering",
            severity=Severity.WARNING,
            lasting="5m",
            expression=with_model(
                f'((accelerator_up == 0) unless {OF_DEVICE} (accelerator_health{{state="lost"}} == 1))'
            ),
            summary=f"{_WHERE} does not answer",
            description=(
                f"{_WHICH} could not be read, and is not known to be lost: a call into its driver hangs or "
                "fails."
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
            summary="{{ $labels.node }} shows fewer {{ $labels.vendor }} devices than it had",
            description=(
                "Of the {{ $labels.vendor }} devices that {{ $labels.node }} had within the last day, "
                "{{ $value }} cannot be seen any more, not even as lost."
            ),
            thresholds=("1d",),
        ),
        Alert(
            name="AcceleratorCapacityDropped",
            severity=Severity.INFO,  # an autoscaler does this every night
            lasting="15m",
            expression=(
                "(1 - cluster_vendor_model:accelerator_info:count "
                "/ max_over_time(cluster_vendor_model:accelerator_info:count[1d]) > 0.1)\n"
                "or\n"
                "(max_over_time(cluster_vendor_model:accelerator_info:count[1d]) "
                "unless cluster_vendor_model:accelerator_info:count) * 0 + 1"
            ),
            summary="Devices {{ $labels.model }} are missing from the cluster",
            description=(
                "{{ $value | humanizePercentage }} of the {{ $labels.model }} that were there within the "
                "last day are not shown any more: nodes are gone, as with an autoscaler, or their agents."
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
            description=f"{_WHICH} is at {{{{ $value }}}} °C, where it slows itself down or soon will.",
            thresholds=(str(HOT_MARGIN_CELSIUS), str(HOT_CELSIUS)),
        ),
        Alert(
            name="AcceleratorThrottled",
            severity=Severity.WARNING,
            lasting="5m",
            expression=with_model(
                f'(avg_over_time(accelerator_throttled{{reason=~"{_BAD_THROTTLES}"}}[15m]) > 0.5)'
            ),
            summary=f"{_WHERE} is slowed down: {{{{ $labels.reason }}}}",
            description=f"{_WHICH} was slowed down by heat or its power supply for "
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
                f"{_WHICH} had memory errors in the last hour that could not be corrected. What used that "
                "memory has failed or computed with wrong values."
            ),
        ),
        Alert(
            name="AcceleratorEccStorm",
            severity=Severity.WARNING,
            lasting="5m",
            expression=with_model('(increase(accelerator_ecc_errors_total{severity="corrected"}[1h]) > 100)'),
            summary=f"{_WHERE} corrects many memory errors",
            description=(
                f"{_WHICH} corrected {{{{ $value | humanize }}}} memory errors in the last hour: a part of "
                "its memory is failing."
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
                f"The driver reported error {{{{ $labels.kind }}}} {{{{ $labels.code }}}} of {_WHICH} "
                "{{ $value | humanizeDuration }} ago."
            ),
            thresholds=("900",),
        ),
        Alert(
            name="AcceleratorErrorStorm",
            severity=Severity.WARNING,
            lasting="0m",
            # The series of a code appears with its first error, so that its first count is no increase. That
            # count is news where it is counted from the start of the agent, as XIDs are.
            expression=with_model(
                "(\n"
                f"  (increase(accelerator_errors_total{{{_ERRORS}}}[15m]) > 10)\n"
                "  or\n"
                f"  ({begun_within(_XIDS, '15m')} > 10)\n"
                ")"
            ),
            summary=f"{_WHERE} reports {{{{ $labels.kind }}}} {{{{ $labels.code }}}} again and again",
            description=(
                f"{_WHICH}: {{{{ $value | humanize }}}} errors {{{{ $labels.kind }}}} "
                "{{ $labels.code }} in the last 15 minutes."
            ),
            thresholds=("10",),
        ),
        Alert(
            name="AcceleratorRowRemapPending",
            severity=Severity.WARNING,
            lasting="10m",
            expression=with_model("(accelerator_row_remap_pending == 1)"),
            summary=f"{_WHERE} waits for a reset",
            description=f"Memory rows of {_WHICH} failed and are replaced at the next reset of the device.",
        ),
        Alert(
            name="AcceleratorRowRemapFailed",
            severity=Severity.CRITICAL,
            lasting="0m",
            expression=with_model("(accelerator_row_remap_failed == 1)"),
            summary=f"{_WHERE} is worn out",
            description=(
                f"{_WHICH} has no spare memory rows left where one failed: the board needs replacing."
            ),
        ),
        Alert(
            name="AcceleratorLinkDown",
            severity=Severity.WARNING,
            lasting="5m",
            # A day of every link would be much to read each time: eight devices have up to 144 of them.
            expression=f"max_over_time({_LINKS}[1d]) - {_LINKS} > 0",
            summary=f"{_WHERE} has lost {{{{ $labels.kind }}}} links: {{{{ $value }}}}",
            description=(
                f"{_WHICH} had more {{{{ $labels.kind }}}} links up within the last day: work on several "
                "devices is slower, or fails."
            ),
            thresholds=("1d",),
        ),
        Alert(
            name="AcceleratorPcieDegraded",
            severity=Severity.WARNING,
            lasting="15m",
            expression=with_model("(accelerator_pcie_link_width < accelerator_pcie_max_link_width)"),
            summary=f"{_WHERE} has {{{{ $value }}}} PCIe lanes, fewer than it could",
            description=(
                f"{_WHICH} and its slot allow more lanes than are in use: a bad contact, riser or switch."
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
            description=f"{{{{ $value | humanizePercentage }}}} of the memory of {_WHICH} are in use.",
            thresholds=("0.97",),
        ),
        Alert(
            name="AcceleratorIdleAllocation",
            severity=Severity.INFO,
            lasting="10m",
            expression=(
                f"min by (cluster, namespace, pod) (accelerator_pod_idle_seconds) >= {IDLE_SECONDS:g} "
                # Not if it is unknown of one of its devices whether it works.
                "unless on (cluster, namespace, pod) "
                "(accelerator_pod_device_share_ratio unless accelerator_pod_idle_seconds)"
            ),
            summary="{{ $labels.namespace }}/{{ $labels.pod }} holds devices and does not use them",
            description=(
                "Pod {{ $labels.namespace }}/{{ $labels.pod }} has done nothing with any of its devices "
                "for {{ $value | humanizeDuration }}."
            ),
            thresholds=("3600",),
        ),
    ),
)
