"""The past of a cluster, a vendor, a model, a namespace, a device or a pod, in PromQL.

What is counted twice, since two replicas of a store scraped it or two families are joined, is made one first.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from accelscope.fleet.history.series import Scope
from accelscope.fleet.sources.prometheus import families
from accelscope.fleet.sources.prometheus.promql import equal, once, one_of, series
from accelscope.fleet.sources.prometheus.target import TARGET_LABELS

DEVICE = (*TARGET_LABELS, "device")  # what tells devices apart
_ON_DEVICE = f"on ({', '.join(DEVICE)})"
_WORKLOAD = ("namespace", "pod", "container")
_USE = (*DEVICE, "partition", *_WORKLOAD, *(f"exported_{name}" for name in _WORKLOAD))
_UNHEALTHY = ("warning", "critical", "lost")

DEVICE_FIELDS = {
    "utilization_ratio": "accelerator_utilization_ratio",
    "memory_used_bytes": "accelerator_memory_used_bytes",
    "power_watts": "accelerator_power_watts",
    "temperature_celsius": "accelerator_temperature_celsius",
}


class HistoryQueries:
    """`matchers`: of all series of the cluster."""

    def __init__(self, matchers: Sequence[str]) -> None:
        self._matchers = tuple(matchers)

    def of(self, scope: Scope, key: str | None, node: str | None, namespace: str | None) -> Mapping[str, str]:
        """By field. Means come as a sum and how many are in it: those of several clusters are added up."""
        match scope:
            case "device":
                return self._device(key or "", node or "")
            case "pod":
                return self._pod(namespace or "", key or "")
            case "namespace":
                return self._namespace(key or "")
            case "vendor":
                return self._kind((equal("vendor", key or ""),), None)
            case "model":
                return self._kind((), once(self._series(families.INFO, equal("model", key or "")), DEVICE))
        return self._kind((), None)

    def devices(self, instances: Iterable[str]) -> Mapping[str, str]:
        """By field, of all devices at these addresses."""
        there = one_of("instance", instances)
        return {field: once(self._series(name, there), DEVICE) for field, name in DEVICE_FIELDS.items()}

    def _kind(self, matchers: tuple[str, ...], chosen: str | None) -> dict[str, str]:
        """Of devices with these labels, or of those chosen: an expression that is 1 for each."""

        def of_devices(name: str, *more: str) -> str:
            found = once(self._series(name, *matchers, *more), DEVICE)
            return found if chosen is None else f"({found} * {_ON_DEVICE} {chosen})"

        devices = of_devices(families.INFO)
        return {
            **_summary(devices, of_devices),
            "devices_allocated": _or_none(of_devices(families.POD_ALLOCATED), devices),
            **_mean(of_devices("accelerator_utilization_ratio")),
            **_memory(
                of_devices("accelerator_memory_used_bytes"), of_devices("accelerator_memory_total_bytes")
            ),
        }

    def _namespace(self, namespace: str) -> dict[str, str]:
        """Utilisation and used memory are its own; the rest is of the devices that it holds or uses."""

        def of_use(name: str) -> str:
            return once(self._workload(name, namespace), _USE)

        used = once(self._workload("accelerator_pod_processes", namespace), DEVICE)

        def of_devices(name: str, *more: str) -> str:
            return f"({once(self._series(name, *more), DEVICE)} and {_ON_DEVICE} {used})"

        allocated = once(self._workload(families.POD_ALLOCATED, namespace), DEVICE)
        return {
            **_summary(used, of_devices),
            "devices_allocated": _or_none(allocated, used),
            **_mean(_by_device(of_use("accelerator_pod_utilization_ratio"))),
            **_memory(
                of_use("accelerator_pod_memory_used_bytes"), of_devices("accelerator_memory_total_bytes")
            ),
        }

    def _device(self, device: str, node: str) -> dict[str, str]:
        this = equal("device", device)
        chosen = once(self._series(families.INFO, this, equal("node", node)), DEVICE)
        return {
            field: f"max({once(self._series(name, this), DEVICE)} * {_ON_DEVICE} {chosen})"
            for field, name in DEVICE_FIELDS.items()
        }

    def _pod(self, namespace: str, pod: str) -> dict[str, str]:
        def of_use(name: str) -> str:
            return once(self._workload(name, namespace, pod), _USE)

        return {
            "utilization_ratio": f"avg({_by_device(of_use('accelerator_pod_utilization_ratio'))})",
            "memory_used_bytes": f"sum({of_use('accelerator_pod_memory_used_bytes')})",
        }

    def _series(self, name: str, *matchers: str) -> str:
        return series((name,), *self._matchers, *matchers)

    def _workload(self, name: str, namespace: str, pod: str | None = None) -> str:
        """Under the names that a scrape with or without `honor_labels` gives."""
        wanted = {"namespace": namespace} if pod is None else {"namespace": namespace, "pod": pod}
        own = [matcher for label, value in wanted.items() for matcher in _own(label, value)]
        exported = [equal(f"exported_{label}", value) for label, value in wanted.items()]
        return f"{self._series(name, *own)} or {self._series(name, *exported)}"


def _own(label: str, value: str) -> tuple[str, str]:
    return equal(label, value), equal(f"exported_{label}", "")


def _summary(devices: str, of_devices: Callable[..., str]) -> dict[str, str]:
    return {
        "devices": f"count({devices})",
        "devices_unhealthy": f"sum({of_devices('accelerator_health', one_of('state', _UNHEALTHY))})",
        "power_watts": f"sum({of_devices('accelerator_power_watts')})",
        "temperature_max_celsius": f"max({of_devices('accelerator_temperature_celsius')})",
    }


def _memory(used: str, total: str) -> dict[str, str]:
    """Over devices that report both, so that one can be set beside the other."""
    return {
        "memory_used_bytes": f"sum({used} and {_ON_DEVICE} {total})",
        "memory_total_bytes": f"sum({total} and {_ON_DEVICE} {used})",
    }


def _mean(values: str) -> dict[str, str]:
    return {"utilization_sum": f"sum({values})", "utilization_count": f"count({values})"}


def _by_device(values: str) -> str:
    return f"sum by ({', '.join(DEVICE)}) ({values})"


def _or_none(counted: str, among: str) -> str:
    """A count that is 0, and not absent, where there are devices and none of them counts."""
    return f"count({counted}) or 0 * count({among})"
