"""What each object and field of a snapshot means, for the page that is made from it (docs/snapshot.md).

Apart from the dataclasses, so that an agent does not carry the words about: nothing that runs imports this.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from accelscope.model.counted import Counted
from accelscope.model.device import (
    Clock,
    Core,
    Device,
    EccCount,
    ErrorCount,
    Fan,
    Link,
    LinkErrors,
    Partition,
    Pcie,
    Rail,
    RemappedRows,
    Sensor,
    Throttle,
)
from accelscope.model.health import Absence, Health
from accelscope.model.process import Process
from accelscope.model.sink import SinkState
from accelscope.model.snapshot import AgentState, ReaderState, Snapshot
from accelscope.model.workload import (
    Allocation,
    AttributionSourceState,
    DeviceBalance,
    Owner,
    Pod,
    PodUsage,
    Unattributed,
)


@dataclass(frozen=True, slots=True)
class Words:
    about: str
    fields: Mapping[str, str]
    absent: Mapping[str, str] = field(default_factory=dict)  # when, where the usual rule does not say enough


_NEVER = "never"  # of what an agent writes
_OTHER_VENDORS = "of other vendors"
_NOT_OF_MIG = "not of MIG"
_FIRST = "before the first success"
_UP = "while it is up"
_NO_ERROR = "no error yet"
_NOT_PARTITIONED = "not in a partition"

# In the order of the page.
WORDS: Mapping[type[Any], Words] = {
    Snapshot: Words(
        "The document: the whole node at one instant.",
        {
            "node": "Name of the node, as Kubernetes or the machine itself has it.",
            "taken_at": "When the collection was made, by the node's clock.",
            "agent": "The agent itself.",
            "interval_seconds": "Time from one collection to the next.",
            "labels": "Static labels of the node (`LABELS`).",
            "readers": "One for each vendor that is looked for.",
            "devices": "All that were found, those that do not answer included.",
            "processes": "One for each process and device.",
            "node_labels": "Labels of the Node object, those that `NODE_LABELS` names.",
            "attribution": "The sources that tell whose what is, those that are asked.",
            "pods": "Pods of this node that hold or use a device.",
            "allocations": "Device ids that containers were given.",
            "pod_usages": "What containers use and hold, by device.",
            "unattributed": "What is in use and is no pod's, by device and owner.",
            "balances": "What makes the parts of a device add up to the whole.",
            "sinks": "What carries readings into the Node object, as it was when the collection was made.",
        },
        {"interval_seconds": _NEVER},
    ),
    AgentState: Words(
        "The agent itself.",
        {
            "version": "Version of AccelScope.",
            "started_at": "When the agent started.",
            "collections": "Collections since the agent started.",
            "overruns": "Collections that began late because the one before took longer than the interval.",
            "collection_seconds": "How long this collection took.",
            "cpu_seconds": "CPU time used by the agent and the tools that it ran.",
            "memory_bytes": "Resident memory of the agent.",
            "threads": "Threads of the agent.",
            "open_files": "Files and sockets that the agent has open.",
            "config_reloads": "Changes of the settings file that were noticed, by what came of them.",
            "token_reviews": "Reviews of bearer tokens by the API server, by what came of them.",
        },
        {
            "collection_seconds": _NEVER,
            "cpu_seconds": _NEVER,
            "threads": _NEVER,
            "token_reviews": "none, or tokens are not reviewed",
        },
    ),
    ReaderState: Words(
        "The reader of one vendor's driver.",
        {
            "vendor": "Whose driver it reads.",
            "found": "The driver or its tool is on this node.",
            "up": "The last pass brought something back.",
            "source": "Where it reads: `nvml`, `nvidia-smi`, `sysfs` …",
            "driver_version": "Version of the driver.",
            "reason": "Why it is not up, for people.",
            "duration_seconds": "How long the last pass took.",
            "last_success": "When a pass last succeeded.",
            "devices_expected": "Devices that should be there: by setting, else all that were seen since the "
            "agent started.",
            "devices_seen": "Devices that answered at the last pass.",
            "abandoned_calls": "Calls into the driver that were given up and have not come back.",
            "errors": "Failed reads, by reason.",
            "rejected": "Lines or cells of its answer that could not be taken as a value, by reason.",
        },
        {"reason": _UP, "last_success": _FIRST, "duration_seconds": "before the first pass"},
    ),
    Counted: Words(
        "How often something happened since the agent started.",
        {"reason": "A short word for what happened.", "count": "How often."},
    ),
    Device: Words(
        "One device. Of one that is `stale` there are its identity (down to `physical_id`), `health`, "
        "`stale`, `read_at` and `errors`, and nothing else.",
        {
            "vendor": "Who made it.",
            "id": "Vendor and uuid, else serial number or PCI address (the order depends on the vendor): "
            "the same over reboots, and the "
            "label `device` of every series.",
            "index": "The number that the vendor's tools count with. It changes at a reboot: for people, not "
            "for keys.",
            "model": "Name of the product.",
            "architecture": "Name of the chip's generation.",
            "uuid": "As the driver writes it.",
            "serial": "Serial number of the board.",
            "pci_address": "Such as `0000:0c:00.0`, in lower case.",
            "numa_node": "NUMA node that it is attached to.",
            "device_name": "Name of its device file: `nvidia0`, `npu0`, `renderD128`.",
            "device_number": "Furiosa: major and minor number of its device file, `511:0` (PCI-DEV).",
            "device_files": "Furiosa: names of the files that open all of its cores or some of them.",
            "driver_version": "Version of the driver.",
            "firmware_version": "Version of the firmware or VBIOS. AMD: the part number of the VBIOS.",
            "vbios_version": "AMD: version of the VBIOS. Only `amd-smi` reports it.",
            "part_number": "AMD: part number of the board: `102-G30211-0C`.",
            "pci_device_id": "AMD and Ascend: number of the chip in the PCI list: `0x74a1`.",
            "runtime_version": "Furiosa RNGD: version of the run-time of its cores (PERT).",
            "revision": "Revision of the silicon: `B0`.",
            "board_id": "Ascend: the NPU id.",
            "chip_id": "Ascend: the chip of the NPU.",
            "chip_count": "Ascend: how many chips the NPU has.",
            "physical_id": "Ascend: the Phy-ID.",
            "health": "One scale for all vendors.",
            "stale": "It did not answer the last attempt to read it.",
            "read_at": "When it was last read.",
            "uptime_seconds": "Time since the device was started.",
            "performance_state": "0 is the fastest.",
            "governor": "Furiosa RNGD: which clocks the driver chooses, `performance` or `powersave`.",
            "persistence_mode": "The driver stays loaded without clients.",
            "ecc_enabled": "Error correction of memory is on.",
            "mig_enabled": "It is cut into MIG instances.",
            "compute_partition": "AMD: `SPX`, `DPX`, `CPX` …",
            "memory_partition": "AMD: `NPS1`, `NPS4` …",
            "utilization_ratio": "Share of the driver's last sample period in which anything ran.",
            "memory_utilization_ratio": "Share of the driver's last sample period in which memory was read "
            "or written, not how full it is.",
            "encoder_utilization_ratio": "Use of the video encoders.",
            "decoder_utilization_ratio": "Use of the video decoders.",
            "jpeg_utilization_ratio": "Use of the JPEG engines.",
            "optical_flow_utilization_ratio": "Use of the optical flow engine.",
            "vector_utilization_ratio": "Use of the vector cores.",
            "control_cpu_utilization_ratio": "Ascend: use of the CPUs on the chip that control it.",
            "overall_utilization_ratio": "Ascend: use of the chip as a whole, where the driver reports it "
            "beside that of the AI cores.",
            "graphics_active_ratio": "Share of time in which the graphics or compute engine was active.",
            "sm_active_ratio": "Share of time in which at least one warp was on a multiprocessor, averaged "
            "over all of them.",
            "sm_occupancy_ratio": "Resident warps as a share of what the multiprocessors could hold.",
            "tensor_active_ratio": "Share of cycles in which a tensor pipe was active.",
            "dram_active_ratio": "Share of cycles in which device memory was sending or receiving.",
            "fp64_active_ratio": "Share of cycles in which the pipe for 64-bit floats was active.",
            "fp32_active_ratio": "Share of cycles in which the pipe for 32-bit floats was active.",
            "fp16_active_ratio": "Share of cycles in which the pipe for 16-bit floats was active.",
            "cores": "Cores, of a device that shows them singly.",
            "memory_total_bytes": "Memory of the device.",
            "memory_used_bytes": "Memory in use, without what the driver reserves where it tells that apart.",
            "memory_used_ratio": "How full the memory is, in outputs without sizes (`accelscope parse`). "
            "An agent reports sizes instead.",
            "memory_free_bytes": "Memory not in use.",
            "memory_reserved_bytes": "Memory that the driver or firmware keeps for itself.",
            "bar1_total_bytes": "Size of the PCIe BAR1 window.",
            "bar1_used_bytes": "Mapped part of the PCIe BAR1 window.",
            "temperature_celsius": "Temperature at the main sensor.",
            "sensors": "All temperature sensors, the main one included.",
            "temperature_slowdown_celsius": "At which the device slows itself down.",
            "temperature_shutdown_celsius": "At which the device shuts itself down.",
            "power_watts": "Power drawn.",
            "power_limit_watts": "Power limit that is enforced now.",
            "power_limit_default_watts": "Power limit of the board as it is delivered.",
            "power_limit_min_watts": "Lowest limit that can be set.",
            "power_limit_max_watts": "Highest limit that can be set.",
            "energy_joules": "Energy used since the driver was loaded.",
            "rails": "Supply rails. They may contain one another: not for sums.",
            "fans": "Fans.",
            "clocks": "Clocks of the device's parts.",
            "throttles": "Every reason to slow down that this driver knows.",
            "pcie": "The link to the host.",
            "links": "Links to other devices.",
            "ecc": "Memory errors, by severity, span and part.",
            "remapped_rows": "Memory rows that were replaced by spare ones.",
            "retired_pages": "Memory pages taken out of use, by the severity of the errors that led to it.",
            "errors": "Errors that the driver reported by code.",
            "partitions": "Parts that are handed out by themselves.",
            "absent": "Values that the device did not give, and why.",
        },
        {
            "board_id": _OTHER_VENDORS,
            "chip_id": _OTHER_VENDORS,
            "chip_count": _OTHER_VENDORS,
            "physical_id": _OTHER_VENDORS,
            "compute_partition": _OTHER_VENDORS,
            "memory_partition": _OTHER_VENDORS,
            "device_number": _OTHER_VENDORS,
            "governor": _OTHER_VENDORS,
            "runtime_version": _OTHER_VENDORS,
            "read_at": "never read",
        },
    ),
    Health: Words(
        "How a device is. `unknown` is not `ok`: it says that nobody could tell.",
        {
            "state": "The state on the scale of all vendors.",
            "reason": "What led to the state, for people.",
            "vendor_word": "The driver's own word, with its case: `OK`, `Alarm`.",
        },
    ),
    Absence: Words(
        "Why a value is missing. [Concepts](concepts.md#absence) says what each reason means.",
        {
            "field": "Name of the field, or of a part of it: `power_watts`, `sensors.memory`.",
            "reason": "Why it is missing.",
        },
    ),
    Core: Words(
        "One core: a PE of an NPU, an XCC of a GPU.",
        {
            "index": "Its number on the device.",
            "utilization_ratio": "Share of the period in which it ran.",
            "clock_hertz": "Its clock.",
            "occupied": "Somebody holds it, whether or not it runs.",
            "cycles_total": "Furiosa RNGD: cycles since the card was started.",
            "task_cycles_total": "Furiosa RNGD: of these, the cycles in which a task ran.",
        },
    ),
    Sensor: Words(
        "One temperature sensor.",
        {"name": "As the driver names it: `gpu`, `memory`, `hbm` …", "celsius": "Its temperature."},
    ),
    Rail: Words(
        "One supply rail.",
        {
            "name": "As the board names it.",
            "volts": "Voltage.",
            "amperes": "Current.",
            "watts": "Power.",
        },
    ),
    Fan: Words(
        "One fan.",
        {
            "index": "Its number on the device.",
            "speed_ratio": "Speed as a share of the fastest that it is meant to turn.",
            "speed_rpm": "Speed as measured.",
        },
    ),
    Clock: Words(
        "The clock of one part.",
        {
            "domain": "The part: `graphics`, `sm`, `memory`, `video`, `aicore`, `npu` …",
            "hertz": "Clock now.",
            "max_hertz": "Highest clock.",
        },
    ),
    Throttle: Words(
        "A reason to slow down that this driver knows. One that it does not know is not listed.",
        {
            "reason": "As the driver names it: `sw_power_cap`, `socket_thermal` …",
            "active": "It is at work now.",
        },
    ),
    Pcie: Words(
        "The link to the host. Transmit is from the device to the host.",
        {
            "generation": "PCIe generation now.",
            "max_generation": "Highest that device and slot allow.",
            "width": "Lanes in use now.",
            "max_width": "Lanes that device and slot allow.",
            "replays_total": "Packets that had to be sent again.",
            "transmit_bytes_total": "Sent so far.",
            "receive_bytes_total": "Received so far.",
            "transmit_bytes_per_second": "Sent, over the driver's own short window.",
            "receive_bytes_per_second": "Received, over the driver's own short window.",
            "bytes_per_second": "AMD: both directions together, where `amd-smi` reports only that.",
        },
        {
            "transmit_bytes_per_second": "not told, or there is a counter",
            "receive_bytes_per_second": "not told, or there is a counter",
        },
    ),
    Link: Words(
        "One link between devices.",
        {
            "kind": "`nvlink`, `xgmi` or `hccs`.",
            "index": "Its number on the device.",
            "active": "It is up.",
            "remote": "PCI address of the other end.",
            "bytes_per_second": "What it can carry in one direction.",
            "transmit_bytes_total": "Sent so far.",
            "receive_bytes_total": "Received so far.",
            "errors": "Errors, by what went wrong.",
        },
    ),
    LinkErrors: Words(
        "Errors of one kind on one link.",
        {"kind": "`crc`, `replay`, `recovery`, `ecc` …", "count": "How many so far."},
    ),
    EccCount: Words(
        "Memory errors of one severity, or pages retired for them.",
        {
            "severity": "`corrected`, `uncorrected` or `deferred`.",
            "lifetime": "True: over the life of the board; false: since the driver was loaded.",
            "count": "How many.",
            "block": "Part of the device: `dram`, `sram`, `l2`, `gfx`, `umc` …",
            "last_seen": "When the count last grew, in seconds since the epoch.",
        },
        {"block": "of the device's total", "last_seen": "it has not grown since the agent started"},
    ),
    RemappedRows: Words(
        "Memory rows that were replaced by spare ones.",
        {
            "correctable": "Rows replaced for errors that were corrected.",
            "uncorrectable": "Rows replaced for errors that were not corrected.",
            "pending": "Rows wait for a reset of the device to be replaced.",
            "failed": "A row could not be replaced: the board is worn out.",
        },
    ),
    ErrorCount: Words(
        "Errors of one code. Where a driver only tells of events, they are counted from the start of the "
        "agent.",
        {
            "kind": "`xid`, `ras`, `axi`, `pcie` …",
            "code": "The driver's code.",
            "count": "How many.",
            "last_seen": "When one was last seen.",
        },
    ),
    Partition: Words(
        "A part of a device that is handed out by itself: a MIG instance, a partition of an MI300 or RNGD. "
        "Memory that several partitions share stands at the first of them only, so that sums are right.",
        {
            "id": "Unique on the node, and the label `partition` of its series.",
            "uuid": "As the driver writes it.",
            "index": "Its number on the device.",
            "device_name": "AMD: the platform device that holds its render node, `amdgpu_xcp_1`.",
            "profile": "Its size, in the vendor's words: `1g.10gb`.",
            "gpu_instance_id": "MIG: the GPU instance.",
            "compute_instance_id": "MIG: the compute instance.",
            "utilization_ratio": "Share of time in which anything ran on it.",
            "sm_active_ratio": "As of the device.",
            "tensor_active_ratio": "As of the device.",
            "dram_active_ratio": "As of the device.",
            "memory_total_bytes": "Memory of the partition.",
            "memory_used_bytes": "Memory in use.",
            "memory_free_bytes": "Memory not in use.",
            "multiprocessors": "Multiprocessors that it has.",
        },
        {
            "device_name": _OTHER_VENDORS,
            "gpu_instance_id": _NOT_OF_MIG,
            "compute_instance_id": _NOT_OF_MIG,
        },
    ),
    Process: Words(
        "One process on one device: one that uses two devices is there twice. Arguments are never read.",
        {
            "pid": "Process id, as the node counts.",
            "device": "`id` of the device.",
            "device_index": "`index` of the device.",
            "partition": "`id` of the partition.",
            "gpu_instance_id": "MIG: the GPU instance.",
            "compute_instance_id": "MIG: the compute instance.",
            "name": "Name of the program.",
            "user": "Who runs it: a name, or a number where none is known.",
            "type": "What it does on the device.",
            "mps": "It is a client of NVIDIA's Multi-Process Service.",
            "memory_bytes": "Device memory that it holds.",
            "utilization_ratio": "Share of the driver's last sample period in which it ran on the device.",
            "memory_utilization_ratio": "Share of the period in which it read or wrote device memory.",
            "encoder_utilization_ratio": "Its use of the video encoders.",
            "decoder_utilization_ratio": "Its use of the video decoders.",
            "cpu_ratio": "CPU time of the whole process on the node, the same in all of its entries. 1 is "
            "one CPU.",
            "resident_memory_bytes": "Memory of the whole process on the node.",
            "started_at": "When it started, by the node's clock.",
            "owner": "Whose it is.",
            "cores": "Numbers of the device's cores that it holds.",
        },
        {
            "partition": _NOT_PARTITIONED,
            "gpu_instance_id": _NOT_OF_MIG,
            "compute_instance_id": _NOT_OF_MIG,
            "cpu_ratio": "not told, or in the first collection that sees the process",
            "owner": "nobody looked",
        },
    ),
    Owner: Words(
        "Whose a process is.",
        {
            "kind": "What the owner is. `none`: no process accounts for it; `unknown`: nothing could be "
            "found out.",
            "name": "Within the kind: the container's id, the job, the unit, the user; of a pod whose name "
            "is not known, its uid.",
            "namespace": "Namespace of the pod.",
            "pod": "Name of the pod.",
            "container": "Name of the container.",
            "pod_uid": "Uid of the pod.",
            "container_id": "Id of the container.",
            "reason": "Why it is not put down to a pod.",
        },
        {
            "namespace": "no pod is known",
            "pod": "no pod is known",
            "container": "no pod is known",
            "pod_uid": "not in a pod",
            "container_id": "not in a container",
            "reason": "it is put down to a pod",
        },
    ),
    Pod: Words(
        "A pod of this node that holds or uses a device.",
        {
            "uid": "Its uid.",
            "namespace": "Its namespace.",
            "name": "Its name.",
            "owner_kind": "What it belongs to: `Deployment`, `StatefulSet`, `Job` …",
            "owner_name": "Name of what it belongs to.",
            "labels": "Its labels, those that `POD_LABELS` names.",
        },
        {"owner_kind": "it belongs to nothing", "owner_name": "it belongs to nothing"},
    ),
    Allocation: Words(
        "One device id that a container was given.",
        {
            "namespace": "Namespace of the pod.",
            "pod": "Name of the pod.",
            "container": "Name of the container.",
            "source": "Who says so: `kubelet`, a device plugin's; `claim`, dynamic resource allocation; "
            "`annotation`, a scheduler that shares devices.",
            "device_id": "As the plugin names it; of a claim `driver/pool/device`.",
            "pod_uid": "Uid of the pod.",
            "resource": "What was asked for: `nvidia.com/gpu`.",
            "claim": "Namespace and name of the claim.",
            "device": "`id` of the device.",
            "partition": "`id` of the partition.",
            "memory_bytes": "Memory that the share may use.",
            "compute_ratio": "Part of the device's computing that the share may use.",
        },
        {
            "pod_uid": "while no source of pods tells it",
            "resource": "of a claim, or not told",
            "claim": "not of a claim",
            "device": "no device of this node is known by that id",
            "partition": _NOT_PARTITIONED,
        },
    ),
    PodUsage: Words(
        "One container of a pod on one device or partition. Numbers are "
        "[measured, allocated or apportioned](concepts.md#measured-allocated-apportioned).",
        {
            "device": "`id` of the device.",
            "namespace": "Namespace of the pod.",
            "pod": "Name of the pod.",
            "container": "Name of the container.",
            "partition": "`id` of the partition.",
            "pod_uid": "Uid of the pod.",
            "processes": "Measured: processes of the container on the device.",
            "memory_used_bytes": "Measured: device memory that its processes hold.",
            "utilization_ratio": "Measured: shares of the period in which its processes ran, added up.",
            "memory_utilization_ratio": "Measured: shares of the period in which its processes read or wrote "
            "device memory, added up.",
            "encoder_utilization_ratio": "Measured: its processes' use of the video encoders, added up.",
            "decoder_utilization_ratio": "Measured: its processes' use of the video decoders, added up.",
            "allocated": "Allocated: ids of the device that it holds. 0: it only uses it.",
            "resources": "Allocated: resource names under which it holds them.",
            "idle_seconds": "Allocated: time since it last did anything with what it holds.",
            "memory_share_bytes": "Apportioned: its share of the memory of a device that is cut into shares.",
            "compute_share_ratio": "Apportioned: its share of the device's computing.",
            "device_share_ratio": "Apportioned: fraction of the device that it holds. Those of one device "
            "add up to 1 at most. [Idle](concepts.md#idle) devices are sums of it.",
            "energy_joules": "Apportioned: energy of the device, split by use among the pods on it.",
        },
        {
            "partition": _NOT_PARTITIONED,
            "pod_uid": "while no source of pods tells it",
            "idle_seconds": "it holds nothing, or nobody can tell",
            "memory_share_bytes": "the device is not shared",
            "compute_share_ratio": "the device is not shared",
            "device_share_ratio": "it holds nothing, it only uses the device",
        },
    ),
    Unattributed: Words(
        "What is in use on one device and is no pod's, by owner.",
        {
            "device": "`id` of the device.",
            "kind": "What the owner is.",
            "reason": "Why it is not put down to a pod.",
            "name": "Which owner, within the kind.",
            "processes": "Processes of the owner.",
            "memory_used_bytes": "Device memory that the owner's processes hold.",
            "utilization_ratio": "The use of the owner's processes together.",
        },
        {"name": "of `none` and `unknown`", "utilization_ratio": "the driver does not tell it by process"},
    ),
    DeviceBalance: Words(
        "What makes the parts of one device add up: memory of pods + unattributed - surplus = used; energy "
        "of pods + idle energy = energy of the device.",
        {
            "device": "`id` of the device.",
            "surplus_memory_bytes": "By how much the processes' memory together exceeds what is used.",
            "idle_energy_joules": "Energy that no pod's use accounts for.",
            "share_ratio": "Into how many shares the device is cut, by setting (2: each has half of it).",
            "jobs": "Batch jobs that the job-mapping folder names for the device.",
        },
        {"share_ratio": "no setting cuts it"},
    ),
    AttributionSourceState: Words(
        "One of the places that tell whose what is. [Which pod](attribution.md#sources-and-what-each-needs) "
        "lists them.",
        {
            "source": "`processes`, `pods`, `pod-resources` …",
            "up": "It answered when it was last asked.",
            "detail": "What exactly is asked: `api-server`, `kubelet`, `v1`, a path.",
            "reason": "A short word for why it is not up.",
            "error": "The last error, for people; kept after the source is well again.",
            "last_success": "When it last answered.",
            "errors": "Times that it failed, by reason.",
        },
        {"reason": _UP, "error": _NO_ERROR, "last_success": _FIRST},
    ),
    SinkState: Words(
        "What carries readings [into the Node object](node-object.md).",
        {
            "sink": "`annotation`, `labels`, `feature-file` or `idle-state`.",
            "up": "What it carries was written when it last tried.",
            "reason": "A short word for why it is not up; `too_large` also for what was left out.",
            "error": "The last error, for people; kept after the sink is well again.",
            "last_success": "When it last wrote.",
            "writes": "Writes that succeeded.",
            "skips": "Collections that had nothing new to write.",
            "errors": "Writes that failed or had to leave something out, by reason.",
        },
        {"reason": "nothing is wrong", "error": _NO_ERROR, "last_success": _FIRST},
    ),
}
