"""What fields of answers mean whose types do not say so themselves.

Fields of an agent's snapshot have their words from `model.words`; a name that means the same wherever it
stands has them once.
"""

from collections.abc import Mapping
from typing import Any

from accelscope.model.words import WORDS

_SNAPSHOT = {of.__name__: words.fields for of, words in WORDS.items()}

ANYWHERE: Mapping[str, str] = {
    "age_seconds": "how old it is",
    "agent_version": "version of the agent that read it; null: no agent did",
    "cluster": "id of the cluster",
    "cluster_id": "id of the cluster",
    "container": "name of the container",
    "containers": "containers that hold or use a device",
    "device": "id of the device",
    "device_index": "number of the device on its node",
    "devices": "number of devices",
    "devices_allocated": "devices that its pods hold",
    "devices_idle": "sum of the shares of devices that are held and were not used for an hour or more",
    "devices_lost": "devices that fell off the bus or no longer answer",
    "devices_stale": "devices whose last reading is old",
    "driver_version": "version of the driver",
    "ecc_uncorrected": "memory errors that were not corrected; null: not known",
    "firmware_version": "version of the firmware",
    "gpu_count": "number of GPUs",
    "health": "`ok`, `warning`, `critical`, `lost` or `unknown`",
    "health_reason": "why it is not ok",
    "index": "number on its node, as the driver counts",
    "items": "the rows",
    "kind": "which kind of column it is",
    "model": "model, as the driver names it",
    "name": "name, for people",
    "namespace": "namespace of the pod",
    "node": "name of the node",
    "node_name": "name of the node",
    "nodes": "number of nodes",
    "owner_kind": "what the pod belongs to: Deployment, StatefulSet, Job …",
    "owner_name": "name of what the pod belongs to",
    "partition": "id of the partition (MIG, core range); null: the whole device",
    "partitions": "number of partitions",
    "pci_address": "`domain:bus:device.function`",
    "pcie_generation": "generation of the link now",
    "pcie_link_width": "lanes of the link now",
    "pcie_width": "lanes of the link now",
    "pid": "process id on the node",
    "pod": "name of the pod",
    "pod_uid": "uid of the pod",
    "pods": "number of pods",
    "power_draw_watts": "watts; null: not known",
    "power_limit_watts": "watts; null: not known",
    "power_watts": "watts; null: not known",
    "processes": "number of processes",
    "serial": "serial number",
    "simulated": "it comes from simulated devices, in whole or in part",
    "source": "the source that it was read from",
    "state": "`fresh` or `stale`",
    "taken_at": "when it was read, seconds since the epoch",
    "temperature_celsius": "°C; null: not known",
    "temperature_max_celsius": "°C, of the hottest; null: not known",
    "temperature_slowdown_celsius": "°C at which the device slows itself down; null: not known",
    "total": "how many there are in all",
    "unusual": "what is out of its own habit",
    "user": "whose it is on the node",
    "utilization_ratio": "0 to 1; null: not known",
    "uuid": "the vendor's unique id",
    "vendor": "`nvidia`, `amd`, `ascend` or `furiosa`",
    "version": "version of AccelScope",
}

OF_TYPE: Mapping[str, Mapping[str, str]] = {
    "Alive": {"status": "`ok`; of `/readyz`: `ready`"},
    "ClusterView": {
        "id": "as the clusters file has it",
        "reason": "why it is not well, in a short word",
        "text": "why it is not well, for people",
        "age_seconds": "since anything of it was read",
        "sources": "what it is read from",
    },
    "Clusters": {"items": "one for each cluster of the clusters file"},
    "DeviceDetail": {
        "device": "its row",
        "pods": "rows of the containers that hold or use it",
        "processes": "rows of the processes on it",
        "unattributed": "what is in use on it and is no pod's",
    },
    "DeviceRow": {"energy_joules": "since the driver was loaded, joules; null: not known"},
    "Event": {
        "kind": "what happened",
        "severity": "how much it matters",
        "node": "name of the node; null: of the whole cluster",
        "namespace": "of the pod that it is about",
        "pod": "that it is about",
    },
    "Gpu": {"name": "model, as the driver names it"},
    "GpuNode": {"gpus": "its GPUs"},
    "GpuProcess": {
        "gpu_index": "number of the GPU on its node",
        "gpu_id": "id of the device, as in the tables",
        "namespace": "of its pod; null: in none, or not known",
        "pod": "null: in none, or not known",
        "container": "null: in none, or not known",
    },
    "GpuSummary": {
        "total_memory_mb": "of all GPUs, MB; null: its GPUs were not read yet",
        "used_memory_mb": "of all GPUs, MB; null: its GPUs were not read yet",
        "average_gpu_utilization_percent": "mean of the GPUs of which it is known",
        "average_temperature_celsius": "mean of the GPUs of which it is known, °C",
    },
    "HistorySeries": {"scope": "what it is of", "step_seconds": "time from one point to the next"},
    "NodeDetail": {
        "node": "its row",
        "devices": "rows of its devices",
        "pods": "rows of its containers",
        "processes": "rows of its processes",
        "readers": "of the agent: one for each vendor that is looked for",
        "attribution": "of the agent: the sources that tell whose what is",
        "sinks": "of the agent: what carries readings into the Node object",
    },
    "PodDetail": {
        "devices": "rows of the devices that it holds or uses",
        "processes": "rows of its processes",
    },
    "PodRow": {"energy_joules": "its part of the device's energy, joules; null: not known"},
    "ProcessRow": {
        "name": "of the program",
        "owner_kind": "whose it is: pod, container, slurm_job, systemd_unit, user, none or unknown",
    },
    "ProblemDocument": {"title": "what it is, in words", "status": "of the answer"},
    "SourceView": {
        "reason": "why it is not up, in a short word",
        "succeeded_at": "when it last did, seconds since the epoch",
        "duration_seconds": "how long the last reading took",
        "answered": "nodes that answered",
    },
    "SummaryRow": {
        "vendor": "where rows are by vendor; null: they are not, or it is not known",
        "model": "where rows are by model; null: they are not, or it is not known",
        "namespace": "where rows are by namespace; null: they are not, or it is not known",
        "node": "where rows are by node; null: they are not, or it is not known",
        "health": "where rows are by health; null: they are not, or it is not known",
        "memory_used_bytes": "bytes, of the devices of which it is known; null: of none",
    },
    "UnusualReport": {
        "devices_total": "how many devices are out of their habit",
        "pods_total": "how many containers are out of their habit",
    },
}


def describe(components: Mapping[str, dict[str, Any]]) -> None:
    """Gives each field of the schemas its words, where it has none."""
    for name, component in components.items():
        for field, schema in component.get("properties", {}).items():
            if "description" not in schema and (words := words_of(name, field)):
                schema["description"] = words


def words_of(type_name: str, field: str) -> str | None:
    if type_name in _SNAPSHOT:
        return _SNAPSHOT[type_name].get(field)
    return OF_TYPE.get(type_name, {}).get(field) or ANYWHERE.get(field)
