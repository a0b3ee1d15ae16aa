// Made from src/accelscope/fleet/api by `make docs`. Do not edit.

export interface Absence {
  /** Name of the field, or of a part of it: `power_watts`, `sensors.memory`. */
  field: string;
  /** Why it is missing. */
  reason: AbsenceReason;
}

export type AbsenceReason = "deprecated" | "driver_error" | "lost" | "no_permission" | "no_sample" | "not_known" | "not_supported" | "reset_required" | "shared" | "suspended" | "timeout" | "unreadable";

export interface AgentState {
  /** Duration of this collection. Null: never. */
  collection_seconds: number | null;
  /** Collections since the agent started. */
  collections: number;
  /** Detected changes of the configuration file, by result. */
  config_reloads: ReasonCount[];
  /** CPU time used by the agent and by the tools that it ran. Null: never. */
  cpu_seconds: number | null;
  /** Resident memory of the agent. */
  memory_bytes: number | null;
  /** Open files and sockets of the agent. */
  open_files: number | null;
  /** Collections that started late because the previous one took longer than the interval. */
  overruns: number;
  /** Start time of the agent. */
  started_at: number;
  /** Number of threads of the agent. Null: never. */
  threads: number | null;
  /** Bearer tokens reviewed by the API server, by result. */
  token_reviews: ReasonCount[];
  /** Version of AccelScope. */
  version: string;
}

export interface Allocation {
  /** Namespace and name of the claim. Null: not a claim. */
  claim: string | null;
  /** Fraction of the device's compute capacity that the container may use. */
  compute_ratio: number | null;
  /** Name of the container. */
  container: string;
  /** `id` of the device. Null: it matches no device of this node. */
  device: string | null;
  /** Device id as the device plugin reports it; for a claim `driver/pool/device`. */
  device_id: string;
  /** Memory that the container may use. */
  memory_bytes: number | null;
  /** Namespace of the pod. */
  namespace: string;
  /** `id` of the partition. Null: not in a partition. */
  partition: string | null;
  /** Name of the pod. */
  pod: string;
  /** Uid of the pod. Null: no pod source reports it. */
  pod_uid: string | null;
  /** Resource name: `nvidia.com/gpu`. Null: a claim, or not reported. */
  resource: string | null;
  /** Source of the allocation: `kubelet`, a device plugin; `claim`, dynamic resource allocation; `annotation`, a scheduler that shares devices. */
  source: AllocationSource;
}

export type AllocationSource = "annotation" | "claim" | "kubelet";

export interface AttributionSourceState {
  /** Endpoint that is read: `api-server`, `kubelet`, `v1`, a path. */
  detail: string | null;
  /** Text of the last error; it stays after the source has recovered. Null: no error yet. */
  error: string | null;
  /** Failed requests, by reason. */
  errors: ReasonCount[];
  /** Time of the last successful request. Null: before the first success. */
  last_success: number | null;
  /** Why it is not up, as a keyword. Null: while it is up. */
  reason: string | null;
  /** Name of the source: `processes`, `pods`, `pod-resources` … */
  source: string;
  /** The last request succeeded. */
  up: boolean;
}

export interface Clock {
  /** The part: `graphics`, `sm`, `memory`, `video`, `aicore`, `npu` … */
  domain: string;
  /** Current frequency. */
  hertz: number | null;
  /** Maximum frequency. */
  max_hertz: number | null;
}

export interface ClusterView {
  /** Time since the last reading of any node. */
  age_seconds: number | null;
  /** Number of devices; null: nothing was read yet. */
  devices: number | null;
  /** True: it has accelerators; null: not known yet. */
  gpu: boolean | null;
  /** `capabilities.gpu`: `true`, `false` or `auto`. */
  gpu_setting: string;
  /** Id in the clusters file. */
  id: string;
  /** Display name. */
  name: string | null;
  /** Number of nodes; null: nothing was read yet. */
  nodes: number | null;
  /** True: its API server, or its Prometheus store if it has none, responds; null: not tried yet. */
  reachable: boolean | null;
  /** Why it is unreachable or partly failing, as a short identifier. */
  reason: string | null;
  /** True: some or all of the data comes from simulated devices. */
  simulated: boolean;
  /** Its sources. */
  sources: SourceView[];
  /** When it last responded, in seconds since the epoch; null: never. */
  succeeded_at: number | null;
  /** Why it is unreachable or partly failing, as a message. */
  text: string | null;
}

export interface Clusters {
  /** Time of the response, in seconds since the epoch. */
  at: number;
  /** Increases with every change that the caller can see. */
  generation: number;
  /** The clusters of the clusters file. */
  items: ClusterView[];
  /** Number of items. */
  total: number;
}

export interface Columns {
  /** Time of the response, in seconds since the epoch. */
  at: number;
  /** The requested columns. */
  fields: Record<string, TextColumn | NumberColumn | FlagColumn>;
  /** Increases with every change that the caller can see. */
  generation: number;
  /** Number of rows in every column. */
  rows: number;
}

export interface Core {
  /** Clock frequency of the core. */
  clock_hertz: number | null;
  /** Furiosa RNGD: cycles since the card started. */
  cycles_total: number | null;
  /** Number of the core on the device. */
  index: number;
  /** A process has opened the core, whether or not it is running. */
  occupied: boolean | null;
  /** Furiosa RNGD: cycles since the card started in which a task ran. */
  task_cycles_total: number | null;
  /** Fraction of the last sample period during which the core was running. */
  utilization_ratio: number | null;
}

export interface Device {
  /** Values that the device did not report, with the reason. */
  absent: Absence[];
  /** Name of the chip's generation. */
  architecture: string | null;
  /** Size of the PCIe BAR1 window. */
  bar1_total_bytes: number | null;
  /** Mapped bytes of the PCIe BAR1 window. */
  bar1_used_bytes: number | null;
  /** Ascend: the NPU id. Null: other vendors. */
  board_id: number | null;
  /** Ascend: number of chips of the NPU. Null: other vendors. */
  chip_count: number | null;
  /** Ascend: id of the chip within the NPU. Null: other vendors. */
  chip_id: number | null;
  /** Clocks of the device. */
  clocks: Clock[];
  /** AMD: compute partition mode: `SPX`, `DPX`, `CPX` … Null: other vendors. */
  compute_partition: string | null;
  /** Ascend: utilisation of the control CPUs on the chip. */
  control_cpu_utilization_ratio: number | null;
  /** Cores, on devices that report each core. */
  cores: Core[];
  /** Utilisation of the video decoders. */
  decoder_utilization_ratio: number | null;
  /** Furiosa: names of the files that open all cores of the card or some of them. */
  device_files: string[];
  /** Name of the device file: `nvidia0`, `npu0`, `renderD128`. */
  device_name: string | null;
  /** Furiosa: major and minor number of the device file, `511:0` (PCI-DEV). Null: other vendors. */
  device_number: string | null;
  /** Fraction of cycles the device memory interface was transferring data. */
  dram_active_ratio: number | null;
  /** Version of the driver. */
  driver_version: string | null;
  /** ECC memory errors, by severity, period and block. */
  ecc: EccCount[];
  /** ECC is enabled. */
  ecc_enabled: boolean | null;
  /** Utilisation of the video encoders. */
  encoder_utilization_ratio: number | null;
  /** Energy used since the driver was loaded. */
  energy_joules: number | null;
  /** Errors reported by the driver, by code. */
  errors: ErrorCount[];
  /** Fans. */
  fans: Fan[];
  /** Version of the firmware or VBIOS. AMD: the part number of the VBIOS. */
  firmware_version: string | null;
  /** Fraction of cycles the pipe for 16-bit floating-point numbers was active. */
  fp16_active_ratio: number | null;
  /** Fraction of cycles the pipe for 32-bit floating-point numbers was active. */
  fp32_active_ratio: number | null;
  /** Fraction of cycles the pipe for 64-bit floating-point numbers was active. */
  fp64_active_ratio: number | null;
  /** Furiosa RNGD: governor of the clocks, `performance` or `powersave`. Null: other vendors. */
  governor: string | null;
  /** Fraction of time the graphics or compute engine was active, from profiling counters. */
  graphics_active_ratio: number | null;
  /** Health, on one scale for all vendors. */
  health: Health;
  /** Vendor and uuid, else serial number or PCI address (the order depends on the vendor); it survives reboots and is the label `device` of every series. */
  id: string;
  /** Index of the device in the vendor's tools. It can change at a reboot. */
  index: number | null;
  /** Utilisation of the JPEG engines. */
  jpeg_utilization_ratio: number | null;
  /** Links to other devices. */
  links: Link[];
  /** Free memory of the device. */
  memory_free_bytes: number | null;
  /** AMD: memory partition mode: `NPS1`, `NPS4` … Null: other vendors. */
  memory_partition: string | null;
  /** Memory reserved by the driver or firmware. */
  memory_reserved_bytes: number | null;
  /** Total memory of the device. */
  memory_total_bytes: number | null;
  /** Memory in use, without memory reserved by the driver where the driver reports it separately. */
  memory_used_bytes: number | null;
  /** Memory in use as a fraction of the total, from outputs without sizes (`accelscope parse`). An agent reports sizes instead. */
  memory_used_ratio: number | null;
  /** Fraction of the last sample period during which device memory was read or written. */
  memory_utilization_ratio: number | null;
  /** MIG mode is enabled. */
  mig_enabled: boolean | null;
  /** Product name. */
  model: string | null;
  /** NUMA node of the device. */
  numa_node: number | null;
  /** Utilisation of the optical flow engine. */
  optical_flow_utilization_ratio: number | null;
  /** Ascend: utilisation of the whole chip, where the driver reports it beside that of the AI cores. */
  overall_utilization_ratio: number | null;
  /** AMD: part number of the board: `102-G30211-0C`. */
  part_number: string | null;
  /** Parts that are allocated separately. */
  partitions: Partition[];
  /** PCI address: `0000:0c:00.0`, in lower case. */
  pci_address: string | null;
  /** AMD and Ascend: PCI device id of the chip: `0x74a1`. */
  pci_device_id: string | null;
  /** The PCIe link to the host. */
  pcie: Pcie | null;
  /** Performance state; 0 is the fastest. */
  performance_state: number | null;
  /** Persistence mode is on: the driver stays loaded when no process uses the device. */
  persistence_mode: boolean | null;
  /** Ascend: the Phy-ID. Null: other vendors. */
  physical_id: number | null;
  /** Default power limit of the board. */
  power_limit_default_watts: number | null;
  /** Highest power limit that can be set. */
  power_limit_max_watts: number | null;
  /** Lowest power limit that can be set. */
  power_limit_min_watts: number | null;
  /** Power limit currently enforced. */
  power_limit_watts: number | null;
  /** Power draw of the device. */
  power_watts: number | null;
  /** Supply rails. Rails can include each other, so do not add them up. */
  rails: Rail[];
  /** Unix time of the last successful read of the device. Null: never read. */
  read_at: number | null;
  /** Memory rows replaced by spare rows. */
  remapped_rows: RemappedRows | null;
  /** Retired memory pages, by severity of the errors that caused it. */
  retired_pages: EccCount[];
  /** Revision of the silicon: `B0`. */
  revision: string | null;
  /** Furiosa RNGD: version of the runtime on its cores (PERT). Null: other vendors. */
  runtime_version: string | null;
  /** All temperature sensors, including the main one. */
  sensors: Sensor[];
  /** Serial number of the board. */
  serial: string | null;
  /** Fraction of time a multiprocessor had at least one warp, averaged over all multiprocessors. */
  sm_active_ratio: number | null;
  /** Resident warps as a fraction of the maximum that the multiprocessors support. */
  sm_occupancy_ratio: number | null;
  /** The device was not read in the last collection. */
  stale: boolean;
  /** Temperature of the device's main sensor. */
  temperature_celsius: number | null;
  /** Temperature at which the device shuts down. */
  temperature_shutdown_celsius: number | null;
  /** Temperature at which the device reduces its clocks. */
  temperature_slowdown_celsius: number | null;
  /** Fraction of cycles the tensor pipe was active. */
  tensor_active_ratio: number | null;
  /** Reasons for reduced clocks that the driver reports. */
  throttles: Throttle[];
  /** Time since the device started. */
  uptime_seconds: number | null;
  /** Fraction of the last sample period during which a kernel was running. */
  utilization_ratio: number | null;
  /** Uuid as the driver reports it. */
  uuid: string | null;
  /** AMD: version of the VBIOS. Only `amd-smi` reports it. */
  vbios_version: string | null;
  /** Utilisation of the vector cores. */
  vector_utilization_ratio: number | null;
  /** Vendor of the device. */
  vendor: Vendor;
}

export interface DeviceBalance {
  /** `id` of the device. */
  device: string;
  /** Apportioned: energy of the device that is not attributed to a pod. */
  idle_energy_joules: number | null;
  /** Allocated: batch jobs that the job-mapping folder assigns to the device. */
  jobs: string[];
  /** Apportioned: number of shares that the device is divided into by a setting. Null: no setting divides it. */
  share_ratio: number | null;
  /** Measured: by how much the memory of all processes exceeds the used memory that the device reports. */
  surplus_memory_bytes: number | null;
}

export interface DeviceDetail {
  /** Time of the response, in seconds since the epoch. */
  at: number;
  /** Memory, energy and shares of the device beyond the use by its pods. */
  balance: DeviceBalance | null;
  /** Row of the device. */
  device: DeviceRow;
  /** Errors with a code that occurred, with their meaning, the most severe first. */
  errors: DeviceError[];
  /** Increases with every change that the caller can see. */
  generation: number;
  /** Rows of the containers that it is allocated to or that use it. */
  pods: PodRow[];
  /** Rows of the processes on it. */
  processes: ProcessRow[];
  /** All values of the device, and why others are absent. */
  reading: Device | null;
  /** Use of the device that is attributed to no pod. */
  unattributed: Unattributed[];
}

export interface DeviceError {
  /** What to do first. */
  action: string | null;
  /** Code that the driver reports. */
  code: string;
  /** Number of errors, at least 1. */
  count: number;
  /** Type of error: `xid`, `ras`, `axi`, `pcie` … */
  kind: string;
  /** Unix time of the last error with this code. */
  last_seen: number | null;
  /** What the code means; null: nothing is known about it. */
  meaning: string | null;
  /** Usual cause: `hardware`, `driver`, `application` or `environment`; null: not stated. */
  origin: string | null;
  /** `critical` or `warning`: it decides the health; `info`: it does not affect it. */
  severity: string | null;
  /** URL of the public document about the code. */
  source: string | null;
  /** What ends the error: `reset`, `driver_reload`, `reboot` or `replacement`; null: it is over when it has happened. */
  until: string | null;
}

export interface DeviceRow {
  /** Time since the data was read. */
  age_seconds: number | null;
  /** Number of containers that the device, or a part, is allocated to. */
  allocated: number;
  /** Id of the cluster. */
  cluster: string;
  /** Version of the driver. */
  driver_version: string | null;
  /** Number of uncorrected memory errors. */
  ecc_uncorrected: number | null;
  /** Energy used since the driver was loaded. */
  energy_joules: number | null;
  /** Number of errors reported with a code, over all codes. */
  errors: number | null;
  /** Speed of the fastest fan. */
  fan_speed_ratio: number | null;
  /** Version of the firmware or VBIOS. AMD: the part number of the VBIOS. */
  firmware_version: string | null;
  /** `ok`, `warning`, `critical`, `lost` or `unknown`. */
  health: string;
  /** What to do first if the health is not `ok`. */
  health_action: string | null;
  /** Why the health is not `ok`. */
  health_reason: string | null;
  /** Vendor and uuid, else serial number or PCI address (the order depends on the vendor); it survives reboots and is the label `device` of every series. */
  id: string;
  /** Time since any of these containers used it; null: not allocated, or not known. */
  idle_seconds: number | null;
  /** Index of the device in the vendor's tools. It can change at a reboot. */
  index: number | null;
  /** Free memory of the device. */
  memory_free_bytes: number | null;
  /** Total memory of the device. */
  memory_total_bytes: number | null;
  /** Memory in use, without memory reserved by the driver where the driver reports it separately. */
  memory_used_bytes: number | null;
  /** Fraction of the last sample period during which device memory was read or written. */
  memory_utilization_ratio: number | null;
  /** Product name. */
  model: string | null;
  /** Namespaces of the pods that it is allocated to or that use it, separated by commas. */
  namespaces: string | null;
  /** Name of the node. */
  node: string;
  /** Number of partitions. */
  partitions: number;
  /** PCI address: `0000:0c:00.0`, in lower case. */
  pci_address: string | null;
  /** Current PCIe generation of the link. */
  pcie_generation: number | null;
  /** PCIe lanes currently in use. */
  pcie_width: number | null;
  /** Power limit currently enforced. */
  power_limit_watts: number | null;
  /** Power draw of the device. */
  power_watts: number | null;
  /** Number of processes. */
  processes: number;
  /** Serial number of the board. */
  serial: string | null;
  /** True: some or all of the data comes from simulated devices. */
  simulated: boolean;
  /** Where the data comes from: `agents`, `exec`, `annotations` or `prometheus`. */
  source: string;
  /** `fresh` or `stale`. */
  state: string;
  /** Time of the reading, in seconds since the epoch; null: never read, or not reported. */
  taken_at: number | null;
  /** Temperature of the device's main sensor. */
  temperature_celsius: number | null;
  /** Degrees below the slowdown temperature; negative above it. */
  temperature_margin_celsius: number | null;
  /** Temperature at which the device reduces its clocks. */
  temperature_slowdown_celsius: number | null;
  /** Active throttle reasons, separated by commas; idle clocks do not count. */
  throttled: string | null;
  /** What differs from the usual behaviour; null: nothing does. */
  unusual: string | null;
  /** Fraction of the last sample period during which a kernel was running. */
  utilization_ratio: number | null;
  /** Uuid as the driver reports it. */
  uuid: string | null;
  /** `nvidia`, `amd`, `ascend`, `furiosa`. */
  vendor: string;
}

export interface EccCount {
  /** Block of the device: `dram`, `sram`, `l2`, `gfx`, `umc` … Null: total of the device. */
  block: string | null;
  /** Number of errors or pages. */
  count: number;
  /** Unix time at which the count last increased. Null: it has not increased since the agent started. */
  last_seen: number | null;
  /** True: over the lifetime of the board; false: since the driver was loaded. */
  lifetime: boolean;
  /** `corrected`, `uncorrected` or `deferred`. */
  severity: string;
}

export interface ErrorCount {
  /** Code that the driver reports. */
  code: string;
  /** Number of errors. */
  count: number;
  /** Type of error: `xid`, `ras`, `axi`, `pcie` … */
  kind: string;
  /** Unix time of the last error with this code. */
  last_seen: number | null;
}

export interface Event {
  /** Time of the event, in seconds since the epoch. */
  at: number;
  /** Id of the cluster. */
  cluster: string;
  /** Id of the device. */
  device: string | null;
  /** Increases with each event of this process. */
  id: number;
  /** Type of the event. */
  kind: EventKind;
  /** Namespace of the pod. */
  namespace: string | null;
  /** Name of the node; null: the event is about the whole cluster. */
  node: string | null;
  /** Name of the pod. */
  pod: string | null;
  /** Severity of the event. */
  severity: Severity;
  /** Message of the event. */
  text: string;
}

export type EventKind = "cluster_back" | "cluster_left" | "cluster_unreachable" | "device_back" | "device_better" | "device_gone" | "device_lost" | "device_new" | "device_worse" | "node_back" | "node_forgotten" | "node_incompatible" | "node_stale" | "unusual_began" | "unusual_ended";

export interface Events {
  /** Time of the response, in seconds since the epoch. */
  at: number;
  /** No event with this id or a later one is missing; older ones may be. */
  first: number;
  /** Increases with every change that the caller can see. */
  generation: number;
  /** Oldest first. */
  items: Event[];
  /** Id of the newest event that the caller can see; 0: none yet. */
  last: number;
  /** `after` of the next request. */
  next: number;
}

export interface Fan {
  /** Number of the fan on the device. */
  index: number;
  /** Fan speed as a fraction of its maximum. */
  speed_ratio: number | null;
  /** Fan speed in revolutions per minute. */
  speed_rpm: number | null;
}

export interface FlagColumn {
  /** Type of the column. */
  kind: "flag";
  /** One value for each row. */
  values: (boolean | null)[];
}

export interface Gpu {
  /** Version of the driver. */
  driver_version: string | null;
  /** 0 to 100. */
  fan_speed_percent: number | null;
  /** `ok`, `warning`, `critical`, `lost` or `unknown`. */
  health: string;
  /** Vendor and uuid, else serial number or PCI address (the order depends on the vendor); it survives reboots and is the label `device` of every series. */
  id: string;
  /** Index of the device in the vendor's tools. It can change at a reboot. */
  index: number | null;
  /** Bytes / 2^20. */
  memory_free_mb: number | null;
  /** Bytes / 2^20. */
  memory_total_mb: number | null;
  /** Bytes / 2^20. */
  memory_used_mb: number | null;
  /** Name of the product. */
  name: string | null;
  /** Current PCIe generation of the link. */
  pcie_generation: number | null;
  /** PCIe lanes currently in use. */
  pcie_link_width: number | null;
  /** Power draw of the device. */
  power_draw_watts: number | null;
  /** Power limit currently enforced. */
  power_limit_watts: number | null;
  /** Temperature of the device's main sensor. */
  temperature_celsius: number | null;
  /** 0 to 100. */
  utilization_gpu_percent: number | null;
  /** 0 to 100. */
  utilization_memory_percent: number | null;
  /** Uuid as the driver reports it. */
  uuid: string | null;
  /** `nvidia`, `amd`, `ascend`, `furiosa`. */
  vendor: string;
}

export interface GpuNode {
  /** Time since the data was read. */
  age_seconds: number | null;
  /** Id of the cluster. */
  cluster_id: string;
  /** Number of GPUs. */
  gpu_count: number;
  /** GPUs of the node. */
  gpus: Gpu[];
  /** Labels of the Node object. */
  labels: Record<string, string>;
  /** Name of the node. */
  node_name: string;
  /** True: some or all of the data comes from simulated devices. */
  simulated: boolean;
  /** Where the data comes from: `agents`, `exec`, `annotations` or `prometheus`. */
  source: string | null;
  /** True: no newer reading came in time. */
  stale: boolean;
  /** Sum over GPUs that report it. */
  total_memory_mb: number;
}

export interface GpuProcess {
  /** Time since the data was read. */
  age_seconds: number | null;
  /** Id of the cluster. */
  cluster_id: string;
  /** Name of the program, without arguments. */
  command: string | null;
  /** Name of the container. Null: the pod is unknown, or there is none. */
  container: string | null;
  /** 0 to 100. */
  decoder_utilization: number | null;
  /** 0 to 100. */
  encoder_utilization: number | null;
  /** Bytes / 2^20. */
  fb_memory_mb: number | null;
  /** `id` of the device. */
  gpu_id: string;
  /** Index of the GPU on its node. */
  gpu_index: number | null;
  /** 0 to 100. */
  memory_utilization: number | null;
  /** Namespace of the pod. Null: the pod is unknown, or there is none. */
  namespace: string | null;
  /** Name of the node. */
  node_name: string;
  /** Process id in the node's pid namespace. */
  pid: number;
  /** Name of the pod. Null: the pod is unknown, or there is none. */
  pod: string | null;
  /** `compute` (also for processes that do both), `graphics` or `unknown`. */
  process_type: string;
  /** True: some or all of the data comes from simulated devices. */
  simulated: boolean;
  /** 0 to 100. */
  sm_utilization: number | null;
  /** True: no newer reading came in time. */
  stale: boolean;
}

export interface GpuSummary {
  /** Time since the cluster last responded. */
  age_seconds: number | null;
  /** Mean over GPUs that report it. */
  average_gpu_utilization_percent: number | null;
  /** Mean over GPUs that report it. */
  average_temperature_celsius: number | null;
  /** Id of the cluster. */
  cluster_id: string;
  /** Number of GPUs; null: GPUs not read yet. */
  gpu_count: number | null;
  /** Used memory divided by total memory, over GPUs that report both. */
  memory_utilization_percent: number | null;
  /** Number of nodes with GPUs; null: GPUs not read yet. */
  node_count: number | null;
  /** True: some or all of the data comes from simulated devices. */
  simulated: boolean;
  /** True: the cluster is unreachable, or all its GPUs are stale. */
  stale: boolean;
  /** Sum over all GPUs; null: GPUs not read yet. */
  total_memory_mb: number | null;
  /** Sum over all GPUs; null: GPUs not read yet. */
  used_memory_mb: number | null;
}

export interface Health {
  /** What to do first. */
  action: string | null;
  /** The one cause of the state, as a keyword: `xid_48`, `row_remap_failed`, `lost`. */
  cause: string | null;
  /** Where the cause is: `hardware`, `driver`, `application` or `environment`. Null: not known. */
  origin: string | null;
  /** Human-readable reason for the state. */
  reason: string | null;
  /** Unix time at which this state with this cause began. */
  since: number | null;
  /** State, on one scale for all vendors. */
  state: HealthState;
  /** What ends the state: `reset`, `driver_reload`, `reboot`, `replacement`, or `condition`: the end of the condition itself. */
  until: string | null;
  /** The state in the driver's own words: `OK`, `Alarm`. */
  vendor_word: string | null;
}

export interface HealthReport {
  /** Time of the response, in seconds since the epoch. */
  at: number;
  /** Unreachable clusters, and clusters with a source that is down. */
  clusters: ClusterView[];
  /** Lost, critical, then warning devices; at most `limit`. */
  devices: DeviceRow[];
  /** Number of devices by health. */
  devices_by_health: Record<string, number>;
  /** Increases with every change that the caller can see. */
  generation: number;
  /** Incompatible, stale, then unread nodes; at most `limit`. */
  nodes: NodeRow[];
  /** Number of nodes by state. */
  nodes_by_state: Record<string, number>;
  /** True: no problem with any of these devices, nodes and clusters. */
  ok: boolean;
}

export type HealthState = "critical" | "lost" | "ok" | "unknown" | "warning";

export interface HistorySeries {
  /** Id of the cluster of the device or pod. */
  cluster: string | null;
  /** Values by name, in lists of equal length; null: not read at that time. */
  fields: Record<string, (number | null)[]>;
  /** The cluster, vendor, model, namespace, device id or pod; null: the fleet. */
  key: string | null;
  /** Namespace of the pod. */
  namespace: string | null;
  /** Name of the node of the device. */
  node: string | null;
  /** What the history is about. */
  scope: "cluster" | "device" | "fleet" | "model" | "namespace" | "pod" | "vendor";
  /** True: some or all of the clusters are simulated now. */
  simulated: boolean;
  /** `ring`: recorded by this process; `prometheus`: read from a store. */
  source: "prometheus" | "ring";
  /** Time of the first value, in seconds since the epoch. */
  start: number;
  /** Time between two values. */
  step_seconds: number;
}

export interface IdlePod {
  /** Time since the data was read. */
  age_seconds: number | null;
  /** Id of the cluster. */
  cluster: string;
  /** Sum of the idle time of each device times the share of the pod. */
  device_hours: number;
  /** Number of idle devices or partitions allocated to the pod. */
  devices: number;
  /** Sum of its shares of them; 0.5 is half a device. */
  devices_idle: number;
  /** All of them have been idle for at least this time. */
  idle_seconds: number;
  /** Memory that the pod still uses on them. */
  memory_used_bytes: number | null;
  /** Models of those devices. */
  models: string[];
  /** Namespace of the pod. */
  namespace: string;
  /** Name of the node. */
  node: string;
  /** Kind of the pod's owner: `Deployment`, `StatefulSet`, `Job` … Null: it has no owner. */
  owner_kind: string | null;
  /** Name of the pod's owner. Null: it has no owner. */
  owner_name: string | null;
  /** Name of the pod. */
  pod: string;
  /** True: some or all of the data comes from simulated devices. */
  simulated: boolean;
  /** `fresh` or `stale`. */
  state: string;
}

export interface IdlePods {
  /** Time of the response, in seconds since the epoch. */
  at: number;
  /** Sum over all pages. */
  device_hours: number;
  /** Sum over all pages. */
  devices_idle: number;
  /** Increases with every change that the caller can see. */
  generation: number;
  /** The rows of this page. */
  items: IdlePod[];
  /** Cursor of the next page; null: this is the last page. */
  next: string | null;
  /** Number of items. */
  total: number;
}

export interface Link {
  /** The link is active. */
  active: boolean | null;
  /** Bandwidth in one direction. */
  bytes_per_second: number | null;
  /** Errors, by type of error. */
  errors: LinkErrors[];
  /** Number of the link on the device. */
  index: number;
  /** `nvlink`, `xgmi` or `hccs`. */
  kind: string;
  /** Bytes received over the link. */
  receive_bytes_total: number | null;
  /** PCI address of the other end. */
  remote: string | null;
  /** Bytes sent over the link. */
  transmit_bytes_total: number | null;
}

export interface LinkErrors {
  /** Number of errors. */
  count: number;
  /** Type of error: `crc`, `replay`, `recovery`, `ecc` … */
  kind: string;
}

export interface NamespaceRow {
  /** Id of the cluster. */
  cluster: string;
  /** Number of containers that use a device or have one allocated. */
  containers: number;
  /** Number of devices that are allocated to its pods or used by them. */
  devices: number;
  /** Number of devices allocated to its pods. */
  devices_allocated: number;
  /** Allocated devices that were not used for an hour or more, as a sum of device shares. */
  devices_idle: number;
  /** Number of devices of simulated clusters. */
  devices_simulated: number;
  /** Number of devices whose last reading is old. */
  devices_stale: number;
  /** Sum; null: no device reports it. */
  energy_joules: number | null;
  /** Sum; null: no device reports it. */
  memory_used_bytes: number | null;
  /** Name of the namespace. */
  namespace: string;
  /** Number of nodes. */
  nodes: number;
  /** Number of pods. */
  pods: number;
  /** Number of processes. */
  processes: number;
  /** Mean over its devices. */
  utilization_ratio: number | null;
}

export interface Namespaces {
  /** Time of the response, in seconds since the epoch. */
  at: number;
  /** Increases with every change that the caller can see. */
  generation: number;
  /** The rows of this page. */
  items: NamespaceRow[];
  /** Cursor of the next page; null: this is the last page. */
  next: string | null;
  /** Number of namespaces on all pages. */
  total: number;
}

export interface NodeDetail {
  /** State of the agent; null: no agent, or not read yet. */
  agent: AgentState | null;
  /** Time of the response, in seconds since the epoch. */
  at: number;
  /** Attribution sources of the agent. */
  attribution: AttributionSourceState[];
  /** Rows of its devices. */
  devices: DeviceRow[];
  /** Increases with every change that the caller can see. */
  generation: number;
  /** Time from one collection of the agent to the next. */
  interval_seconds: number | null;
  /** Labels of the Node object. */
  labels: Record<string, string>;
  /** Row of the node. */
  node: NodeRow;
  /** Rows of its containers. */
  pods: PodRow[];
  /** Rows of its processes. */
  processes: ProcessRow[];
  /** Readers of the agent, one for each vendor. */
  readers: ReaderState[];
  /** Writers of the agent into the Node object. */
  sinks: SinkState[];
  /** Use that is attributed to no pod. */
  unattributed: Unattributed[];
}

export interface NodeRow {
  /** Time since the data was read. */
  age_seconds: number | null;
  /** Version of AccelScope. Null: not read by an agent. */
  agent_version: string | null;
  /** Id of the cluster. */
  cluster: string;
  /** Number of devices. */
  devices: number;
  /** Number of devices that fell off the bus or do not respond. */
  devices_lost: number;
  /** Number of devices whose health is warning, critical or lost. */
  devices_unhealthy: number;
  /** Sum over its devices. */
  memory_total_bytes: number | null;
  /** Sum over its devices. */
  memory_used_bytes: number | null;
  /** Used memory divided by total memory, over devices that report both. */
  memory_used_ratio: number | null;
  /** Models of its devices, separated by commas. */
  models: string | null;
  /** Name of the node. */
  node: string;
  /** Number of pods. */
  pods: number;
  /** Sum over its devices. */
  power_watts: number | null;
  /** Number of processes. */
  processes: number;
  /** Why the node is not fresh, or why the last read failed. */
  reason: string | null;
  /** True: some or all of the data comes from simulated devices. */
  simulated: boolean;
  /** Sources of the data, by precedence, separated by commas. */
  source: string | null;
  /** `fresh`, `stale`, `incompatible` or `unread`. */
  state: string;
  /** Time of the collection, by the node's clock. */
  taken_at: number | null;
  /** Highest temperature of its devices. */
  temperature_max_celsius: number | null;
  /** Mean over its devices. */
  utilization_ratio: number | null;
  /** Vendors of its devices, separated by commas. */
  vendors: string | null;
}

export interface NumberColumn {
  /** Type of the column. */
  kind: "number";
  /** One value for each row. */
  values: (number | null)[];
}

export type OwnerKind = "container" | "none" | "pod" | "slurm_job" | "systemd_unit" | "unknown" | "user";

export interface DeviceRowPage {
  /** Time of the response, in seconds since the epoch. */
  at: number;
  /** Increases with every change that the caller can see. */
  generation: number;
  /** The rows of this page. */
  items: DeviceRow[];
  /** Cursor of the next page; null: this is the last page. */
  next: string | null;
  /** Number of rows on all pages. */
  total: number;
}

export interface NodeRowPage {
  /** Time of the response, in seconds since the epoch. */
  at: number;
  /** Increases with every change that the caller can see. */
  generation: number;
  /** The rows of this page. */
  items: NodeRow[];
  /** Cursor of the next page; null: this is the last page. */
  next: string | null;
  /** Number of rows on all pages. */
  total: number;
}

export interface PodRowPage {
  /** Time of the response, in seconds since the epoch. */
  at: number;
  /** Increases with every change that the caller can see. */
  generation: number;
  /** The rows of this page. */
  items: PodRow[];
  /** Cursor of the next page; null: this is the last page. */
  next: string | null;
  /** Number of rows on all pages. */
  total: number;
}

export interface ProcessRowPage {
  /** Time of the response, in seconds since the epoch. */
  at: number;
  /** Increases with every change that the caller can see. */
  generation: number;
  /** The rows of this page. */
  items: ProcessRow[];
  /** Cursor of the next page; null: this is the last page. */
  next: string | null;
  /** Number of rows on all pages. */
  total: number;
}

export interface Partition {
  /** MIG: id of the compute instance. Null: not a MIG instance. */
  compute_instance_id: number | null;
  /** AMD: the platform device of its render node, `amdgpu_xcp_1`. Null: other vendors. */
  device_name: string | null;
  /** Fraction of cycles the memory interface of the partition was transferring data. */
  dram_active_ratio: number | null;
  /** MIG: id of the GPU instance. Null: not a MIG instance. */
  gpu_instance_id: number | null;
  /** Id, unique on the node; the label `partition` of its series. */
  id: string;
  /** Number of the partition on the device. */
  index: number | null;
  /** Free memory of the partition. */
  memory_free_bytes: number | null;
  /** Total memory of the partition; memory shared by several partitions is counted at the first. */
  memory_total_bytes: number | null;
  /** Memory in use on the partition. */
  memory_used_bytes: number | null;
  /** Number of multiprocessors of the partition. */
  multiprocessors: number | null;
  /** Vendor's name of its size: `1g.10gb`. */
  profile: string | null;
  /** Fraction of time a multiprocessor of the partition had at least one warp. */
  sm_active_ratio: number | null;
  /** Fraction of cycles the tensor pipe of the partition was active. */
  tensor_active_ratio: number | null;
  /** Fraction of the last sample period during which a kernel was running on the partition. */
  utilization_ratio: number | null;
  /** Uuid as the driver reports it. */
  uuid: string | null;
}

export interface Pcie {
  /** AMD: throughput in both directions together. Its driver reports only the sum. */
  bytes_per_second: number | null;
  /** Current PCIe generation of the link. */
  generation: number | null;
  /** Highest PCIe generation that the device and the slot support. */
  max_generation: number | null;
  /** PCIe lanes that the device and the slot support. */
  max_width: number | null;
  /** Throughput from the host to the device. Null: not reported, or the driver reports a counter. */
  receive_bytes_per_second: number | null;
  /** Bytes sent from the host to the device. */
  receive_bytes_total: number | null;
  /** PCIe replays: packets that were sent again. */
  replays_total: number | null;
  /** Throughput from the device to the host. Null: not reported, or the driver reports a counter. */
  transmit_bytes_per_second: number | null;
  /** Bytes sent from the device to the host. */
  transmit_bytes_total: number | null;
  /** PCIe lanes currently in use. */
  width: number | null;
}

export interface Pod {
  /** Labels of the pod that `POD_LABELS` lists. */
  labels: [string, string][];
  /** Name of the pod. */
  name: string;
  /** Namespace of the pod. */
  namespace: string;
  /** Kind of the pod's owner: `Deployment`, `StatefulSet`, `Job` … Null: it has no owner. */
  owner_kind: string | null;
  /** Name of the pod's owner. Null: it has no owner. */
  owner_name: string | null;
  /** Uid of the pod. */
  uid: string;
}

export interface PodDetail {
  /** Device ids allocated to it. */
  allocations: Allocation[];
  /** Time of the response, in seconds since the epoch. */
  at: number;
  /** Id of the cluster. */
  cluster: string;
  /** Rows of its containers, one for each container and device. */
  containers: PodRow[];
  /** Rows of the devices that are allocated to it or used by it. */
  devices: DeviceRow[];
  /** Increases with every change that the caller can see. */
  generation: number;
  /** Name of the namespace. */
  namespace: string;
  /** The pod itself; null: not known. */
  object: Pod | null;
  /** Name of the pod. */
  pod: string;
  /** Rows of its processes. */
  processes: ProcessRow[];
}

export interface PodRow {
  /** Time since the data was read. */
  age_seconds: number | null;
  /** Allocated: number of device ids of this device (more than one for a shared device) allocated to the container. */
  allocated: number;
  /** Id of the cluster. */
  cluster: string;
  /** Apportioned: the container's share of the compute capacity of a shared device. Null: the device is not shared. */
  compute_share_ratio: number | null;
  /** Name of the container. */
  container: string;
  /** `id` of the device. */
  device: string;
  /** Apportioned: fraction of the device allocated to the container; the fractions of one device add up to at most 1. Idle devices are sums of it. Null: nothing is allocated to it. */
  device_share_ratio: number | null;
  /** Apportioned: energy of the device, split among its pods by use. Null: the utilisation of the device and its processes is unknown, as with MIG, or the device reports neither energy nor power. */
  energy_joules: number | null;
  /** Allocated: time since the container last used the device allocated to it. Null: nothing is allocated to it, or its use is unknown. */
  idle_seconds: number | null;
  /** Apportioned: the container's share of the memory of a shared device. Null: the device is not shared. */
  memory_share_bytes: number | null;
  /** Measured: device memory used by the container's processes. */
  memory_used_bytes: number | null;
  /** Product name. */
  model: string | null;
  /** Namespace of the pod. */
  namespace: string;
  /** Name of the node. */
  node: string;
  /** Kind of the pod's owner: `Deployment`, `StatefulSet`, `Job` … Null: it has no owner. */
  owner_kind: string | null;
  /** Name of the pod's owner. Null: it has no owner. */
  owner_name: string | null;
  /** `id` of the partition. Null: not in a partition. */
  partition: string | null;
  /** Name of the pod. */
  pod: string;
  /** Uid of the pod. Null: no pod source reports it. */
  pod_uid: string | null;
  /** Measured: number of the container's processes on the device. */
  processes: number;
  /** Names of the allocated resources, separated by commas. */
  resources: string | null;
  /** True: some or all of the data comes from simulated devices. */
  simulated: boolean;
  /** Where the data comes from: `agents`, `exec`, `annotations` or `prometheus`. */
  source: string;
  /** `fresh` or `stale`. */
  state: string;
  /** Time of the collection, by the node's clock. */
  taken_at: number;
  /** What differs from the usual behaviour; null: nothing does. */
  unusual: string | null;
  /** Measured: sum over the container's processes of the fraction of the sample period they ran. */
  utilization_ratio: number | null;
  /** `nvidia`, `amd`, `ascend`, `furiosa`. */
  vendor: string;
}

export interface ProbeStatus {
  /** `ok`, or `ready` for `/readyz`. */
  status: string;
}

export interface ProblemDocument {
  /** Allowed values or names. */
  allowed: string[] | null;
  /** Id of the cluster concerned. */
  cluster: string | null;
  /** Description of this occurrence. */
  detail: string | null;
  /** Path of the request. */
  instance: string | null;
  /** Name of the invalid parameter. */
  parameter: string | null;
  /** Why the cluster failed, as a short identifier. */
  reason: string | null;
  /** HTTP status code. */
  status: number;
  /** The kind of problem in a few words. */
  title: string;
  /** Identifies the kind of problem; stable across versions. */
  type: string;
}

export interface ProcessRow {
  /** Time since the data was read. */
  age_seconds: number | null;
  /** Id of the cluster. */
  cluster: string;
  /** Name of the container. Null: the pod is unknown, or there is none. */
  container: string | null;
  /** CPU time of the whole process on the node, the same in all of its entries; 1 is one CPU. Null: not reported, or the first collection with this process. */
  cpu_ratio: number | null;
  /** Utilisation of the video decoders by the process. */
  decoder_utilization_ratio: number | null;
  /** `id` of the device. */
  device: string;
  /** `index` of the device. */
  device_index: number | null;
  /** Utilisation of the video encoders by the process. */
  encoder_utilization_ratio: number | null;
  /** Device memory used by the process. */
  memory_bytes: number | null;
  /** Fraction of the last sample period during which the process accessed device memory. */
  memory_utilization_ratio: number | null;
  /** Name of the program. */
  name: string | null;
  /** Namespace of the pod. Null: the pod is unknown, or there is none. */
  namespace: string | null;
  /** Name of the node. */
  node: string;
  /** Container, job, unit or user of a process that is in no pod. */
  owner: string | null;
  /** `pod`, `container`, `slurm_job`, `systemd_unit`, `user`, `none` or `unknown`. */
  owner_kind: string | null;
  /** `id` of the partition. Null: not in a partition. */
  partition: string | null;
  /** Process id in the node's pid namespace. */
  pid: number;
  /** Name of the pod. Null: the pod is unknown, or there is none. */
  pod: string | null;
  /** Resident memory of the whole process on the node. */
  resident_memory_bytes: number | null;
  /** True: some or all of the data comes from simulated devices. */
  simulated: boolean;
  /** Where the data comes from: `agents`, `exec`, `annotations` or `prometheus`. */
  source: string;
  /** Start time of the process, by the node's clock. */
  started_at: number | null;
  /** `fresh` or `stale`. */
  state: string;
  /** Time of the collection, by the node's clock. */
  taken_at: number;
  /** `compute`, `graphics` or `both`. */
  type: string | null;
  /** User of the process: a name, or a number if it has no name. */
  user: string | null;
  /** Fraction of the last sample period during which the process was running on the device. */
  utilization_ratio: number | null;
  /** `nvidia`, `amd`, `ascend`, `furiosa`. */
  vendor: string;
}

export interface Rail {
  /** Current. */
  amperes: number | null;
  /** Name that the driver reports. */
  name: string;
  /** Voltage. */
  volts: number | null;
  /** Power. */
  watts: number | null;
}

export interface ReaderState {
  /** Driver calls that missed their deadline and have not returned yet. */
  abandoned_calls: number;
  /** Number of expected devices: as configured, otherwise all devices seen since the agent started. */
  devices_expected: number;
  /** Number of devices that answered the last read. */
  devices_seen: number;
  /** Version of the driver. */
  driver_version: string | null;
  /** Duration of the last complete read. Null: before the first read. */
  duration_seconds: number | null;
  /** Failed reads, by reason. */
  errors: ReasonCount[];
  /** The driver or its tool was found on this node. */
  found: boolean;
  /** Time of the last successful read. Null: before the first success. */
  last_success: number | null;
  /** Human-readable reason why it is not up. Null: while it is up. */
  reason: string | null;
  /** Lines or values of the driver's output that could not be parsed, by reason. */
  rejected: ReasonCount[];
  /** Source of the readings: `nvml`, `nvidia-smi`, `sysfs` … */
  source: string | null;
  /** The last read succeeded. */
  up: boolean;
  /** Vendor of the driver. */
  vendor: Vendor;
}

export interface ReasonCount {
  /** Number of events. */
  count: number;
  /** Kind of the event, as a keyword. */
  reason: string;
}

export interface Refreshed {
  /** Time of the response, in seconds since the epoch. */
  at: number;
  /** The cluster after the refresh. */
  cluster: ClusterView;
  /** Increases with every change that the caller can see. */
  generation: number;
}

export interface RemappedRows {
  /** Rows replaced because of corrected errors. */
  correctable: number | null;
  /** A row could not be remapped; the board should be replaced. */
  failed: boolean | null;
  /** A row remapping is pending until the next reset of the device. */
  pending: boolean | null;
  /** Rows replaced because of uncorrected errors. */
  uncorrectable: number | null;
}

export interface Sensor {
  /** Temperature of the sensor. */
  celsius: number;
  /** Name that the driver reports: `gpu`, `memory`, `hbm` … */
  name: string;
}

export type Severity = "critical" | "info" | "warning";

export interface SinkState {
  /** Text of the last error; it stays after the sink has recovered. Null: no error yet. */
  error: string | null;
  /** Writes that failed or left something out, by reason. */
  errors: ReasonCount[];
  /** Time of the last successful write. Null: before the first success. */
  last_success: number | null;
  /** Why it is not up, as a keyword; `too_large` also if something was left out. Null: no problem. */
  reason: string | null;
  /** `annotation`, `labels`, `feature-file`, `idle-state` or `health-state`. */
  sink: string;
  /** Collections with nothing new to write. */
  skips: number;
  /** The last write succeeded. */
  up: boolean;
  /** Successful writes. */
  writes: number;
}

export interface SourceView {
  /** Number of nodes that responded. */
  answered: number;
  /** Duration of the last refresh. */
  duration_seconds: number | null;
  /** Number of failed refreshes and of nodes that did not respond. */
  errors: number;
  /** Number of nodes that should have responded. */
  expected: number;
  /** `agents`, `exec`, `annotations` or `prometheus`. */
  kind: string;
  /** Why it is not up, as a short identifier. */
  reason: string | null;
  /** Time of the last refresh, in seconds since the epoch. */
  refreshed_at: number | null;
  /** Time of the last refresh that succeeded, in seconds since the epoch. */
  succeeded_at: number | null;
  /** Why it is not up, as a message. */
  text: string | null;
  /** True: the last refresh succeeded; null: not tried yet. */
  up: boolean | null;
}

export interface Summary {
  /** Time of the response, in seconds since the epoch. */
  at: number;
  /** Increases with every change that the caller can see. */
  generation: number;
  /** One row for each group; empty without `group_by`. */
  groups: SummaryRow[];
  /** Number of groups on all pages. */
  groups_total: number;
  /** Cursor of the next page; null: this is the last page. */
  next: string | null;
  /** Over all selected devices. */
  total: SummaryRow;
}

export interface SummaryRow {
  /** Id of the cluster; null: not grouped by cluster. */
  cluster: string | null;
  /** Number of containers that use a device or have one allocated. */
  containers: number;
  /** Number of devices. */
  devices: number;
  /** Number of devices that are allocated to a container, whole or in part. */
  devices_allocated: number;
  /** Allocated devices that were not used for an hour or more, as a sum of device shares. */
  devices_idle: number;
  /** Number of devices that fell off the bus or do not respond. */
  devices_lost: number;
  /** Number of devices of simulated clusters. */
  devices_simulated: number;
  /** Number of devices whose last reading is old; they count with their last values. */
  devices_stale: number;
  /** Number of devices whose health is warning, critical or lost. */
  devices_unhealthy: number;
  /** Value of the group; null: not grouped by this field, or unknown. */
  health: string | null;
  /** Sum; null: no device reports it. */
  memory_total_bytes: number | null;
  /** Sum over devices that report it; null: no device does. */
  memory_used_bytes: number | null;
  /** Used memory divided by total memory, over devices that report both; null: none does. */
  memory_used_ratio: number | null;
  /** Value of the group; null: not grouped by this field, or unknown. */
  model: string | null;
  /** Value of the group; null: not grouped by this field, or unknown. */
  namespace: string | null;
  /** Value of the group; null: not grouped by this field, or unknown. */
  node: string | null;
  /** Number of nodes with these devices. */
  nodes: number;
  /** Number of pods. */
  pods: number;
  /** Power divided by limit, over the devices in `power_limit_watts`. */
  power_limit_ratio: number | null;
  /** Sum of the limits over devices that report both power and limit. */
  power_limit_watts: number | null;
  /** Sum over devices that report it. */
  power_watts: number | null;
  /** A process on two devices counts twice. */
  processes: number;
  /** Mean. */
  temperature_celsius: number | null;
  /** Highest temperature of its devices. */
  temperature_max_celsius: number | null;
  /** Mean, 0 to 1; null: unknown. */
  utilization_ratio: number | null;
  /** Value of the group; null: not grouped by this field, or unknown. */
  vendor: string | null;
}

export interface TextColumn {
  /** For each row an index into `texts`. */
  codes: (number | null)[];
  /** Type of the column. */
  kind: "text";
  /** The distinct texts. */
  texts: string[];
}

export interface Throttle {
  /** Clocks are currently reduced for this reason. */
  active: boolean;
  /** Name that the driver reports: `sw_power_cap`, `socket_thermal` … */
  reason: string;
}

export interface Unattributed {
  /** `id` of the device. */
  device: string;
  /** Kind of owner. */
  kind: OwnerKind;
  /** Measured: device memory in use by the owner. */
  memory_used_bytes: number | null;
  /** Name of the owner. Null: for `none` and `unknown`. */
  name: string | null;
  /** Measured: number of the owner's processes on the device. */
  processes: number;
  /** Why it is not attributed to a pod. */
  reason: UnattributedReason;
  /** Measured: utilisation by the owner's processes. Null: the driver does not report it by process. */
  utilization_ratio: number | null;
}

export type UnattributedReason = "cgroup_hidden" | "no_permission" | "no_pod_source" | "no_process" | "not_in_a_pod" | "pod_unknown" | "process_gone";

export interface UnusualReport {
  /** Time of the response, in seconds since the epoch. */
  at: number;
  /** Unusual devices; at most `limit`. */
  devices: DeviceRow[];
  /** Number of unusual devices. */
  devices_total: number;
  /** Increases with every change that the caller can see. */
  generation: number;
  /** Unusual containers; at most `limit`. */
  pods: PodRow[];
  /** Number of unusual containers. */
  pods_total: number;
}

export type Vendor = "amd" | "ascend" | "furiosa" | "nvidia";

export interface Version {
  /** Increases with every change that the caller can see. */
  generation: number;
  /** Schema version of snapshots; agents with the same major version are supported. */
  snapshot_schema: string;
  /** Version of AccelScope. */
  version: string;
}
