"""Alerts about devices: one per node and cause, with the devices and their pods in the text.

The duration of a cause is its share of the samples of a window. Unlike `for` alone, this does not begin again
when a scrape is missing, an agent pod is replaced or Prometheus restarts."""

from accelscope.model import IDLE_SECONDS
from tools.monitoring.promql import last, of_node
from tools.monitoring.rules.recording import CAUSES, OF_NODE, ON_DEVICE
from tools.monitoring.rules.rule import WHERE, Alert, Group, Severity

_ALERT = "cluster, node, vendor, cause"
_MOST_NAMED = 8  # devices and pods in a text

_LABELS = "$labels.cluster $labels.node $labels.vendor"


def _named(query: str, label: str, item: str) -> str:
    """The first results of a query, and how many more there are."""
    return (
        f'{{{{ range $i, $found := query {query} | sortByLabel "{label}" }}}}'
        f"{{{{ if lt $i {_MOST_NAMED} }}}}{{{{ if $i }}}}, {{{{ end }}}}{item}{{{{ end }}}}{{{{ end }}}}"
        f'{{{{ range query (printf "count(%s) - {_MOST_NAMED} > 0" {query}) }}}} and {{{{ .Value }}}} more'
        "{{ end }}"
    )


def _text_of(label: str, otherwise: str) -> str:
    """A label of the cause, which is the same for all its devices."""
    found = f'query (printf "group by ({label}) (%s)" $causes) | sortByLabel "{label}" | first'
    return f'{{{{ or ({found} | label "{label}") {otherwise} }}}}'


_REASON = _text_of("reason", "$labels.cause")
# By number: as text, 10 is before 2.
_ORDERED = 'label_replace(label_replace(%s, "order", "$1", "index", "(.+)"), "order", "0$1", "index", "(.)")'
_DEVICES = f"{{{{ $devices := printf `group by (index, device, order) ({_ORDERED})` $causes }}}}"
_PODS = (
    f"{{{{ $pods := printf `group by (namespace, pod) "
    f"(last_over_time({ON_DEVICE}{{cluster=%q, node=%q, vendor=%q}}[10m]) and on (device) %s)` "
    f"{_LABELS} $causes }}}}"
)
_INDEX = "{{ or $found.Labels.index $found.Labels.device }}"
_DEVICE = (
    "{{ with $found.Labels.index }}{{ . }} ({{ $found.Labels.device }})"
    "{{ else }}{{ $found.Labels.device }}{{ end }}"
)
_POD = "{{ $found.Labels.namespace }}/{{ $found.Labels.pod }}"


def _of_cause(
    name: str,
    severity: Severity,
    state: str,
    share: str,
    window: str,
    *,
    message: str,
    reason: str = _REASON,
    action: str,
) -> Alert:
    """For devices that have a cause for more than `share` of the window. `action`: for causes that have none
    of their own."""
    causes = f'{CAUSES}{{state="{state}"'
    of_alert = f"{causes}, cluster=%q, node=%q, vendor=%q, cause=%q}}[{window}]"
    chosen = f"{{{{ $causes := printf `last_over_time({of_alert})` {_LABELS} $labels.cause }}}}{_DEVICES}"
    pods = f"{{{{ if query $pods }}}}{_named('$pods', 'pod', _POD)}{{{{ else }}}}none{{{{ end }}}}"
    return Alert(
        name=name,
        severity=severity,
        lasting="1m",
        expression=(
            f"count by ({_ALERT}) (\n"
            f"  sum by ({_ALERT}, device, index) (count_over_time({causes}}}[{window}]))\n"
            f"  / on (cluster, node, vendor) group_left ()\n"
            f"  count_over_time({OF_NODE}[{window}]) > {share}\n"
            ")"
        ),
        summary=(
            f"{chosen}{WHERE}: {{{{ $labels.vendor }}}} {_named('$devices', 'order', _INDEX)}: {message}"
        ),
        description="\n".join(
            (
                f"{chosen}{_PODS}Reason: {reason}",
                f"Devices: {_named('$devices', 'order', _DEVICE)}",
                f"Pods: {pods}",
                f"First action: {_text_of('action', f'`{action}`')}",
            )
        ),
        thresholds=(share, window),
    )


_VENDOR_ON_NODE = "cluster, node, vendor"
_SHOWN = last(OF_NODE)
_DRIVERS = f"max by ({_VENDOR_ON_NODE}) ({of_node(last('accelscope_reader_found'))})"

HEALTH = Group(
    "accelscope-health.alerts",
    (
        _of_cause(
            "AcceleratorLost",
            Severity.CRITICAL,
            "lost",
            "0.1",
            "10m",
            message="lost",
            reason=f"the driver reports it as lost, or no longer lists it ({_REASON})",
            action="Drain the node and reboot it",
        ),
        _of_cause(
            "AcceleratorUnhealthy",
            Severity.CRITICAL,
            "critical",
            "0.1",
            "10m",
            message=_REASON,
            action="Cordon the node; accelscope doctor there names the next step",
        ),
        _of_cause(
            "AcceleratorDegraded",
            Severity.WARNING,
            "warning",
            "0.5",
            "15m",
            message=_REASON,
            action="Plan a reset of the device; accelscope doctor on the node has details",
        ),
        _of_cause(
            "AcceleratorNotAnswering",
            Severity.WARNING,
            "unknown",
            "0.5",
            "15m",
            message=f"cannot be read: {_REASON}",
            reason=f"driver calls fail or hang ({_REASON})",
            action="Look at the kernel log of the node; a device that hangs for long needs a reset",
        ),
        Alert(
            name="AcceleratorVanished",
            severity=Severity.WARNING,
            lasting="10m",
            expression=(
                "max_over_time(cluster_node_vendor:accelscope_reader_devices_expected:max[1d]) "
                f"- ({_SHOWN} or 0 * {_DRIVERS}) > 0"
            ),
            summary=f"{WHERE}: {{{{ $value }}}} {{{{ $labels.vendor }}}} missing",
            description=(
                "{{ $labels.node }} had {{ $value }} more {{ $labels.vendor }} devices within the last day. "
                "The driver no longer lists them, not even as lost.\n"
                "First action: Compare lspci with the devices of accelscope doctor on the node"
            ),
            thresholds=("1d",),
            labels=(("cause", "vanished"),),
        ),
    ),
)

USE = Group(
    "accelscope-use.alerts",
    (
        _of_cause(
            "AcceleratorErrorReported",
            Severity.INFO,
            "info",
            "0.1",
            "10m",
            message=f"{{{{ $labels.cause }}}} {_REASON}",
            action="Inform the owners of the pods",
        ),
        Alert(
            name="AcceleratorIdleAllocation",
            severity=Severity.INFO,
            lasting="10m",
            expression=(
                f"min by (cluster, namespace, pod) ({last('accelerator_pod_idle_seconds')}) "
                f">= {IDLE_SECONDS:g} "
                # Not if the idle time of one of its devices is unknown.
                "unless on (cluster, namespace, pod) "
                f"({last('accelerator_pod_device_share_ratio')} "
                f"unless {last('accelerator_pod_idle_seconds')})"
            ),
            summary="{{ $labels.namespace }}/{{ $labels.pod }} does not use its allocated devices",
            description=(
                "Pod {{ $labels.namespace }}/{{ $labels.pod }} has not used any of its devices for "
                "{{ $value | humanizeDuration }}.\n"
                "First action: Ask its owner whether it is still needed"
            ),
            thresholds=("3600",),
            labels=(("cause", "idle"),),
        ),
    ),
)
