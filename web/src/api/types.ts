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
  config_reloads: Counted[];
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
  token_reviews: Counted[];
  /** Version of AccelScope. */
  version: string;
}

export interface Allocation {
  /** Namespace and name of the claim. Null: not of a claim. */
  claim: string | null;
  /** Part of the device's computing that the share may use. */
  compute_ratio: number | null;
  /** Name of the container. */
  container: string;
  /** `id` of the device. Null: no device of this node is known by that id. */
  device: string | null;
  /** As the plugin names it; of a claim `driver/pool/device`. */
  device_id: string;
  /** Memory that the share may use. */
  memory_bytes: number | null;
  /** Namespace of the pod. */
  namespace: string;
  /** `id` of the partition. Null: not in a partition. */
  partition: string | null;
  /** Name of the pod. */
  pod: string;
  /** Uid of the pod. Null: while no source of pods tells it. */
  pod_uid: string | null;
  /** What was asked for: `nvidia.com/gpu`. Null: of a claim, or not told. */
  resource: string | null;
  /** Who says so: `kubelet`, a device plugin's; `claim`, dynamic resource allocation; `annotation`, a scheduler that shares devices. */
  source: AllocationSource;
}

export type AllocationSource = "annotation" | "claim" | "kubelet";

export interface AttributionSourceState {
  /** What exactly is asked: `api-server`, `kubelet`, `v1`, a path. */
  detail: string | null;
  /** The last error, for people; kept after the source is well again. Null: no error yet. */
  error: string | null;
  /** Times that it failed, by reason. */
  errors: Counted[];
  /** When it last answered. Null: before the first success. */
  last_success: number | null;
  /** A short word for why it is not up. Null: while it is up. */
  reason: string | null;
  /** `processes`, `pods`, `pod-resources` … */
  source: string;
  /** It answered when it was last asked. */
  up: boolean;
}

export interface Clock {
  /** The part: `graphics`, `sm`, `memory`, `video`, `aicore`, `npu` … */
  domain: string;
  /** Clock now. */
  hertz: number | null;
  /** Highest clock. */
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
  /** True: its API server, or its Prometheus store if it has none, answers; null: not tried yet. */
  reachable: boolean | null;
  /** What is wrong, as a short identifier. */
  reason: string | null;
  /** True: some or all of the data comes from simulated devices. */
  simulated: boolean;
  /** Its sources. */
  sources: SourceView[];
  /** When it last answered, in seconds since the epoch; null: never. */
  succeeded_at: number | null;
  /** What is wrong, as a message. */
  text: string | null;
}

export interface Clusters {
  /** Time of the answer, in seconds since the epoch. */
  at: number;
  /** Increases with every change that the caller can see. */
  generation: number;
  /** The clusters of the clusters file. */
  items: ClusterView[];
  /** Number of items. */
  total: number;
}

export interface Columns {
  /** Time of the answer, in seconds since the epoch. */
  at: number;
  /** The requested columns. */
  fields: Record<string, TextColumn | NumberColumn | FlagColumn>;
  /** Increases with every change that the caller can see. */
  generation: number;
  /** Number of rows in every column. */
  rows: number;
}

export interface Core {
  /** Its clock. */
  clock_hertz: number | null;
  /** Furiosa RNGD: cycles since the card was started. */
  cycles_total: number | null;
  /** Its number on the device. */
  index: number;
  /** Somebody holds it, whether or not it runs. */
  occupied: boolean | null;
  /** Furiosa RNGD: of these, the cycles in which a task ran. */
  task_cycles_total: number | null;
  /** Fraction of the period in which it ran. */
  utilization_ratio: number | null;
}

export interface Counted {
  /** Number of events. */
  count: number;
  /** Kind of the event, as a keyword. */
  reason: string;
}

export interface Device {
  /** Values that the device did not give, and why. */
  absent: Absence[];
  /** Name of the chip's generation. */
  architecture: string | null;
  /** Size of the PCIe BAR1 window. */
  bar1_total_bytes: number | null;
  /** Mapped part of the PCIe BAR1 window. */
  bar1_used_bytes: number | null;
  /** Ascend: the NPU id. Null: of other vendors. */
  board_id: number | null;
  /** Ascend: how many chips the NPU has. Null: of other vendors. */
  chip_count: number | null;
  /** Ascend: the chip of the NPU. Null: of other vendors. */
  chip_id: number | null;
  /** Clocks of the device's parts. */
  clocks: Clock[];
  /** AMD: `SPX`, `DPX`, `CPX` … Null: of other vendors. */
  compute_partition: string | null;
  /** Ascend: use of the CPUs on the chip that control it. */
  control_cpu_utilization_ratio: number | null;
  /** Cores, of a device that shows them singly. */
  cores: Core[];
  /** Use of the video decoders. */
  decoder_utilization_ratio: number | null;
  /** Furiosa: names of the files that open all of its cores or some of them. */
  device_files: string[];
  /** Name of its device file: `nvidia0`, `npu0`, `renderD128`. */
  device_name: string | null;
  /** Furiosa: major and minor number of its device file, `511:0` (PCI-DEV). Null: of other vendors. */
  device_number: string | null;
  /** Fraction of cycles in which device memory was sending or receiving. */
  dram_active_ratio: number | null;
  /** Version of the driver. */
  driver_version: string | null;
  /** Memory errors, by severity, span and part. */
  ecc: EccCount[];
  /** Error correction of memory is on. */
  ecc_enabled: boolean | null;
  /** Use of the video encoders. */
  encoder_utilization_ratio: number | null;
  /** Energy used since the driver was loaded. */
  energy_joules: number | null;
  /** Errors that the driver reported by code. */
  errors: ErrorCount[];
  /** Fans. */
  fans: Fan[];
  /** Version of the firmware or VBIOS. AMD: the part number of the VBIOS. */
  firmware_version: string | null;
  /** Fraction of cycles in which the pipe for 16-bit floats was active. */
  fp16_active_ratio: number | null;
  /** Fraction of cycles in which the pipe for 32-bit floats was active. */
  fp32_active_ratio: number | null;
  /** Fraction of cycles in which the pipe for 64-bit floats was active. */
  fp64_active_ratio: number | null;
  /** Furiosa RNGD: which clocks the driver chooses, `performance` or `powersave`. Null: of other vendors. */
  governor: string | null;
  /** Fraction of time in which the graphics or compute engine was active. */
  graphics_active_ratio: number | null;
  /** One scale for all vendors. */
  health: Health;
  /** Vendor and uuid, else serial number or PCI address (the order depends on the vendor): the same over reboots, and the label `device` of every series. */
  id: string;
  /** The number that the vendor's tools count with. It changes at a reboot: for people, not for keys. */
  index: number | null;
  /** Use of the JPEG engines. */
  jpeg_utilization_ratio: number | null;
  /** Links to other devices. */
  links: Link[];
  /** Memory not in use. */
  memory_free_bytes: number | null;
  /** AMD: `NPS1`, `NPS4` … Null: of other vendors. */
  memory_partition: string | null;
  /** Memory that the driver or firmware keeps for itself. */
  memory_reserved_bytes: number | null;
  /** Memory of the device. */
  memory_total_bytes: number | null;
  /** Memory in use, without what the driver reserves where it tells that apart. */
  memory_used_bytes: number | null;
  /** How full the memory is, in outputs without sizes (`accelscope parse`). An agent reports sizes instead. */
  memory_used_ratio: number | null;
  /** Fraction of the driver's last sample period in which memory was read or written, not how full it is. */
  memory_utilization_ratio: number | null;
  /** It is cut into MIG instances. */
  mig_enabled: boolean | null;
  /** Name of the product. */
  model: string | null;
  /** NUMA node that it is attached to. */
  numa_node: number | null;
  /** Use of the optical flow engine. */
  optical_flow_utilization_ratio: number | null;
  /** Ascend: use of the chip as a whole, where the driver reports it beside that of the AI cores. */
  overall_utilization_ratio: number | null;
  /** AMD: part number of the board: `102-G30211-0C`. */
  part_number: string | null;
  /** Parts that are handed out by themselves. */
  partitions: Partition[];
  /** Such as `0000:0c:00.0`, in lower case. */
  pci_address: string | null;
  /** AMD and Ascend: number of the chip in the PCI list: `0x74a1`. */
  pci_device_id: string | null;
  /** The link to the host. */
  pcie: Pcie | null;
  /** 0 is the fastest. */
  performance_state: number | null;
  /** The driver stays loaded without clients. */
  persistence_mode: boolean | null;
  /** Ascend: the Phy-ID. Null: of other vendors. */
  physical_id: number | null;
  /** Power limit of the board as it is delivered. */
  power_limit_default_watts: number | null;
  /** Highest limit that can be set. */
  power_limit_max_watts: number | null;
  /** Lowest limit that can be set. */
  power_limit_min_watts: number | null;
  /** Power limit that is enforced now. */
  power_limit_watts: number | null;
  /** Power drawn. */
  power_watts: number | null;
  /** Supply rails. They may contain one another: not for sums. */
  rails: Rail[];
  /** When it was last read. Null: never read. */
  read_at: number | null;
  /** Memory rows that were replaced by spare ones. */
  remapped_rows: RemappedRows | null;
  /** Memory pages taken out of use, by the severity of the errors that led to it. */
  retired_pages: EccCount[];
  /** Revision of the silicon: `B0`. */
  revision: string | null;
  /** Furiosa RNGD: version of the run-time of its cores (PERT). Null: of other vendors. */
  runtime_version: string | null;
  /** All temperature sensors, the main one included. */
  sensors: Sensor[];
  /** Serial number of the board. */
  serial: string | null;
  /** Fraction of time in which at least one warp was on a multiprocessor, averaged over all of them. */
  sm_active_ratio: number | null;
  /** Resident warps as a share of what the multiprocessors could hold. */
  sm_occupancy_ratio: number | null;
  /** It did not answer the last attempt to read it. */
  stale: boolean;
  /** Temperature at the main sensor. */
  temperature_celsius: number | null;
  /** At which the device shuts itself down. */
  temperature_shutdown_celsius: number | null;
  /** At which the device slows itself down. */
  temperature_slowdown_celsius: number | null;
  /** Fraction of cycles in which a tensor pipe was active. */
  tensor_active_ratio: number | null;
  /** Every reason to slow down that this driver knows. */
  throttles: Throttle[];
  /** Time since the device was started. */
  uptime_seconds: number | null;
  /** Fraction of the driver's last sample period in which something ran. */
  utilization_ratio: number | null;
  /** As the driver writes it. */
  uuid: string | null;
  /** AMD: version of the VBIOS. Only `amd-smi` reports it. */
  vbios_version: string | null;
  /** Use of the vector cores. */
  vector_utilization_ratio: number | null;
  /** Who made it. */
  vendor: Vendor;
}

export interface DeviceBalance {
  /** `id` of the device. */
  device: string;
  /** Energy that no pod's use accounts for. */
  idle_energy_joules: number | null;
  /** Batch jobs that the job-mapping folder names for the device. */
  jobs: string[];
  /** Into how many shares the device is cut, by setting (2: each has half of it). Null: no setting cuts it. */
  share_ratio: number | null;
  /** By how much the processes' memory together exceeds what is used. */
  surplus_memory_bytes: number | null;
}

export interface DeviceDetail {
  /** Time of the answer, in seconds since the epoch. */
  at: number;
  /** What makes the use by pods add up to that of the device. */
  balance: DeviceBalance | null;
  /** Row of the device. */
  device: DeviceRow;
  /** Increases with every change that the caller can see. */
  generation: number;
  /** Rows of the containers that hold or use it. */
  pods: PodRow[];
  /** Rows of the processes on it. */
  processes: ProcessRow[];
  /** All values of the device, and why others are absent. */
  reading: Device | null;
  /** Use of the device that is attributed to no pod. */
  unattributed: Unattributed[];
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
  /** Why the health is not `ok`. */
  health_reason: string | null;
  /** Vendor and uuid, else serial number or PCI address (the order depends on the vendor): the same over reboots, and the label `device` of every series. */
  id: string;
  /** Time since any of these containers used it; null: not allocated, or not known. */
  idle_seconds: number | null;
  /** The number that the vendor's tools count with. It changes at a reboot: for people, not for keys. */
  index: number | null;
  /** Memory not in use. */
  memory_free_bytes: number | null;
  /** Memory of the device. */
  memory_total_bytes: number | null;
  /** Memory in use, without what the driver reserves where it tells that apart. */
  memory_used_bytes: number | null;
  /** Fraction of the driver's last sample period in which memory was read or written, not how full it is. */
  memory_utilization_ratio: number | null;
  /** Name of the product. */
  model: string | null;
  /** Namespaces of the pods that hold or use it, separated by commas. */
  namespaces: string | null;
  /** Name of the node. */
  node: string;
  /** Number of partitions. */
  partitions: number;
  /** Such as `0000:0c:00.0`, in lower case. */
  pci_address: string | null;
  /** Current PCIe generation. */
  pcie_generation: number | null;
  /** Current number of PCIe lanes. */
  pcie_width: number | null;
  /** Power limit that is enforced now. */
  power_limit_watts: number | null;
  /** Power drawn. */
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
  /** Temperature at the main sensor. */
  temperature_celsius: number | null;
  /** Degrees below the slowdown temperature; negative above it. */
  temperature_margin_celsius: number | null;
  /** At which the device slows itself down. */
  temperature_slowdown_celsius: number | null;
  /** Active throttle reasons, separated by commas; idle clocks do not count. */
  throttled: string | null;
  /** What differs from the usual behaviour; null: nothing does. */
  unusual: string | null;
  /** Fraction of the driver's last sample period in which something ran. */
  utilization_ratio: number | null;
  /** As the driver writes it. */
  uuid: string | null;
  /** `nvidia`, `amd`, `ascend`, `furiosa`. */
  vendor: string;
}

export interface EccCount {
  /** Part of the device: `dram`, `sram`, `l2`, `gfx`, `umc` … Null: of the device's total. */
  block: string | null;
  /** How many. */
  count: number;
  /** When the count last grew, in seconds since the epoch. Null: it has not grown since the agent started. */
  last_seen: number | null;
  /** True: over the life of the board; false: since the driver was loaded. */
  lifetime: boolean;
  /** `corrected`, `uncorrected` or `deferred`. */
  severity: string;
}

export interface ErrorCount {
  /** The driver's code. */
  code: string;
  /** How many. */
  count: number;
  /** `xid`, `ras`, `axi`, `pcie` … */
  kind: string;
  /** When one was last seen. */
  last_seen: number | null;
}

export interface Event {
  /** Seconds since the epoch. */
  at: number;
  /** Id of the cluster. */
  cluster: string;
  /** Id of the device. */
  device: string | null;
  /** Increases with each event of this process. */
  id: number;
  /** What happened. */
  kind: EventKind;
  /** Of the pod that it is about. */
  namespace: string | null;
  /** Name of the node; null: of the whole cluster. */
  node: string | null;
  /** That it is about. */
  pod: string | null;
  /** How much it matters. */
  severity: Severity;
  /** For people. */
  text: string;
}

export type EventKind = "cluster_back" | "cluster_left" | "cluster_unreachable" | "device_back" | "device_better" | "device_gone" | "device_lost" | "device_new" | "device_worse" | "node_back" | "node_forgotten" | "node_incompatible" | "node_stale" | "unusual_began" | "unusual_ended";

export interface Events {
  /** Time of the answer, in seconds since the epoch. */
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
  /** Its number on the device. */
  index: number;
  /** Speed as a share of the fastest that it is meant to turn. */
  speed_ratio: number | null;
  /** Speed as measured. */
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
  /** Vendor and uuid, else serial number or PCI address (the order depends on the vendor): the same over reboots, and the label `device` of every series. */
  id: string;
  /** The number that the vendor's tools count with. It changes at a reboot: for people, not for keys. */
  index: number | null;
  /** Bytes / 2^20. */
  memory_free_mb: number | null;
  /** Bytes / 2^20. */
  memory_total_mb: number | null;
  /** Bytes / 2^20. */
  memory_used_mb: number | null;
  /** Name of the product. */
  name: string | null;
  /** Current PCIe generation. */
  pcie_generation: number | null;
  /** Current number of PCIe lanes. */
  pcie_link_width: number | null;
  /** Power drawn. */
  power_draw_watts: number | null;
  /** Power limit that is enforced now. */
  power_limit_watts: number | null;
  /** Temperature at the main sensor. */
  temperature_celsius: number | null;
  /** 0 to 100. */
  utilization_gpu_percent: number | null;
  /** 0 to 100. */
  utilization_memory_percent: number | null;
  /** As the driver writes it. */
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
  /** Name of the container. Null: no pod is known. */
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
  /** Namespace of the pod. Null: no pod is known. */
  namespace: string | null;
  /** Name of the node. */
  node_name: string;
  /** Process id, as the node counts. */
  pid: number;
  /** Name of the pod. Null: no pod is known. */
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
  /** Time since the cluster last answered. */
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
  /** Human-readable reason for the state. */
  reason: string | null;
  /** State, on one scale for all vendors. */
  state: HealthState;
  /** The state in the driver's own words: `OK`, `Alarm`. */
  vendor_word: string | null;
}

export interface HealthReport {
  /** Time of the answer, in seconds since the epoch. */
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
  /** Of the device or pod. */
  cluster: string | null;
  /** By name, all of one length; null: nothing was read then. */
  fields: Record<string, (number | null)[]>;
  /** The cluster, vendor, model, namespace, device id or pod; null: the fleet. */
  key: string | null;
  /** Of the pod. */
  namespace: string | null;
  /** Of the device. */
  node: string | null;
  /** What it is of. */
  scope: "cluster" | "device" | "fleet" | "model" | "namespace" | "pod" | "vendor";
  /** All of it or a part, by clusters as they are now. */
  simulated: boolean;
  /** `ring`: what this process saw by the minute. */
  source: "prometheus" | "ring";
  /** Of the first value, seconds since the epoch. */
  start: number;
  /** Time from one point to the next. */
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
  /** What it belongs to: `Deployment`, `StatefulSet`, `Job` … Null: it belongs to nothing. */
  owner_kind: string | null;
  /** Name of what it belongs to. Null: it belongs to nothing. */
  owner_name: string | null;
  /** Name of the pod. */
  pod: string;
  /** True: some or all of the data comes from simulated devices. */
  simulated: boolean;
  /** `fresh` or `stale`. */
  state: string;
}

export interface IdlePods {
  /** Time of the answer, in seconds since the epoch. */
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
  /** It is up. */
  active: boolean | null;
  /** What it can carry in one direction. */
  bytes_per_second: number | null;
  /** Errors, by what went wrong. */
  errors: LinkErrors[];
  /** Its number on the device. */
  index: number;
  /** `nvlink`, `xgmi` or `hccs`. */
  kind: string;
  /** Received so far. */
  receive_bytes_total: number | null;
  /** PCI address of the other end. */
  remote: string | null;
  /** Sent so far. */
  transmit_bytes_total: number | null;
}

export interface LinkErrors {
  /** How many so far. */
  count: number;
  /** `crc`, `replay`, `recovery`, `ecc` … */
  kind: string;
}

export interface NamespaceRow {
  /** Id of the cluster. */
  cluster: string;
  /** Number of containers that hold or use a device. */
  containers: number;
  /** That its pods hold or use. */
  devices: number;
  /** Number of devices allocated to its pods. */
  devices_allocated: number;
  /** Allocated devices that were not used for an hour or more, as a sum of device shares. */
  devices_idle: number;
  /** Of clusters that are simulated. */
  devices_simulated: number;
  /** Number of devices whose last reading is old. */
  devices_stale: number;
  /** null: not known of any of its devices. */
  energy_joules: number | null;
  /** null: not known of any of its devices. */
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
  /** Time of the answer, in seconds since the epoch. */
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
  /** Time of the answer, in seconds since the epoch. */
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
  /** Version of the agent that read the node; null: not read by an agent. */
  agent_version: string | null;
  /** Id of the cluster. */
  cluster: string;
  /** Number of devices. */
  devices: number;
  /** Number of devices that fell off the bus or do not answer. */
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
  /** Time of the reading, in seconds since the epoch. */
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
  /** Time of the answer, in seconds since the epoch. */
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
  /** Time of the answer, in seconds since the epoch. */
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
  /** Time of the answer, in seconds since the epoch. */
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
  /** Time of the answer, in seconds since the epoch. */
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
  /** MIG: the compute instance. Null: not of MIG. */
  compute_instance_id: number | null;
  /** AMD: the platform device that holds its render node, `amdgpu_xcp_1`. Null: of other vendors. */
  device_name: string | null;
  /** As of the device. */
  dram_active_ratio: number | null;
  /** MIG: the GPU instance. Null: not of MIG. */
  gpu_instance_id: number | null;
  /** Unique on the node, and the label `partition` of its series. */
  id: string;
  /** Its number on the device. */
  index: number | null;
  /** Memory not in use. */
  memory_free_bytes: number | null;
  /** Memory of the partition. */
  memory_total_bytes: number | null;
  /** Memory in use. */
  memory_used_bytes: number | null;
  /** Multiprocessors that it has. */
  multiprocessors: number | null;
  /** Its size, in the vendor's words: `1g.10gb`. */
  profile: string | null;
  /** As of the device. */
  sm_active_ratio: number | null;
  /** As of the device. */
  tensor_active_ratio: number | null;
  /** Fraction of time in which anything ran on it. */
  utilization_ratio: number | null;
  /** As the driver writes it. */
  uuid: string | null;
}

export interface Pcie {
  /** AMD: both directions together; its driver reports only that. */
  bytes_per_second: number | null;
  /** PCIe generation now. */
  generation: number | null;
  /** Highest that device and slot allow. */
  max_generation: number | null;
  /** Lanes that device and slot allow. */
  max_width: number | null;
  /** Received, over the driver's own short window. Null: not told, or there is a counter. */
  receive_bytes_per_second: number | null;
  /** Received so far. */
  receive_bytes_total: number | null;
  /** Packets that had to be sent again. */
  replays_total: number | null;
  /** Sent, over the driver's own short window. Null: not told, or there is a counter. */
  transmit_bytes_per_second: number | null;
  /** Sent so far. */
  transmit_bytes_total: number | null;
  /** Lanes in use now. */
  width: number | null;
}

export interface Pod {
  /** Its labels, those that `POD_LABELS` names. */
  labels: [string, string][];
  /** Its name. */
  name: string;
  /** Its namespace. */
  namespace: string;
  /** What it belongs to: `Deployment`, `StatefulSet`, `Job` … Null: it belongs to nothing. */
  owner_kind: string | null;
  /** Name of what it belongs to. Null: it belongs to nothing. */
  owner_name: string | null;
  /** Its uid. */
  uid: string;
}

export interface PodDetail {
  /** Device ids allocated to it. */
  allocations: Allocation[];
  /** Time of the answer, in seconds since the epoch. */
  at: number;
  /** Id of the cluster. */
  cluster: string;
  /** Rows of its containers, one for each container and device. */
  containers: PodRow[];
  /** Rows of the devices that it holds or uses. */
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
  /** Allocated: ids of the device that it holds. 0: it only uses it. */
  allocated: number;
  /** Id of the cluster. */
  cluster: string;
  /** Apportioned: its share of the device's computing. Null: the device is not shared. */
  compute_share_ratio: number | null;
  /** Name of the container. */
  container: string;
  /** `id` of the device. */
  device: string;
  /** Apportioned: fraction of the device that it holds. Those of one device add up to 1 at most. Idle devices are sums of it. Null: it holds nothing, it only uses the device. */
  device_share_ratio: number | null;
  /** Apportioned: energy of the device, split by use among the pods on it. */
  energy_joules: number | null;
  /** Allocated: time since it last did anything with what it holds. Null: it holds nothing, or nobody can tell. */
  idle_seconds: number | null;
  /** Apportioned: its share of the memory of a device that is cut into shares. Null: the device is not shared. */
  memory_share_bytes: number | null;
  /** Measured: device memory that its processes hold. */
  memory_used_bytes: number | null;
  /** Name of the product. */
  model: string | null;
  /** Namespace of the pod. */
  namespace: string;
  /** Name of the node. */
  node: string;
  /** What it belongs to: `Deployment`, `StatefulSet`, `Job` … Null: it belongs to nothing. */
  owner_kind: string | null;
  /** Name of what it belongs to. Null: it belongs to nothing. */
  owner_name: string | null;
  /** `id` of the partition. Null: not in a partition. */
  partition: string | null;
  /** Name of the pod. */
  pod: string;
  /** Uid of the pod. Null: while no source of pods tells it. */
  pod_uid: string | null;
  /** Measured: processes of the container on the device. */
  processes: number;
  /** Names of the allocated resources, separated by commas. */
  resources: string | null;
  /** True: some or all of the data comes from simulated devices. */
  simulated: boolean;
  /** Where the data comes from: `agents`, `exec`, `annotations` or `prometheus`. */
  source: string;
  /** `fresh` or `stale`. */
  state: string;
  /** Time of the reading, in seconds since the epoch. */
  taken_at: number;
  /** What differs from the usual behaviour; null: nothing does. */
  unusual: string | null;
  /** Measured: shares of the period in which its processes ran, added up. */
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
  /** Name of the container. Null: no pod is known. */
  container: string | null;
  /** CPU time of the whole process on the node, the same in all of its entries. 1 is one CPU. Null: not told, or in the first collection that sees the process. */
  cpu_ratio: number | null;
  /** Its use of the video decoders. */
  decoder_utilization_ratio: number | null;
  /** `id` of the device. */
  device: string;
  /** `index` of the device. */
  device_index: number | null;
  /** Its use of the video encoders. */
  encoder_utilization_ratio: number | null;
  /** Device memory that it holds. */
  memory_bytes: number | null;
  /** Fraction of the period in which it read or wrote device memory. */
  memory_utilization_ratio: number | null;
  /** Name of the program. */
  name: string | null;
  /** Namespace of the pod. Null: no pod is known. */
  namespace: string | null;
  /** Name of the node. */
  node: string;
  /** Container, job, unit or user of a process that is in no pod. */
  owner: string | null;
  /** `pod`, `container`, `slurm_job`, `systemd_unit`, `user`, `none` or `unknown`. */
  owner_kind: string | null;
  /** `id` of the partition. Null: not in a partition. */
  partition: string | null;
  /** Process id, as the node counts. */
  pid: number;
  /** Name of the pod. Null: no pod is known. */
  pod: string | null;
  /** Memory of the whole process on the node. */
  resident_memory_bytes: number | null;
  /** True: some or all of the data comes from simulated devices. */
  simulated: boolean;
  /** Where the data comes from: `agents`, `exec`, `annotations` or `prometheus`. */
  source: string;
  /** When it started, by the node's clock. */
  started_at: number | null;
  /** `fresh` or `stale`. */
  state: string;
  /** Time of the reading, in seconds since the epoch. */
  taken_at: number;
  /** `compute`, `graphics` or `both`. */
  type: string | null;
  /** Who runs it: a name, or a number where none is known. */
  user: string | null;
  /** Fraction of the driver's last sample period in which it ran on the device. */
  utilization_ratio: number | null;
  /** `nvidia`, `amd`, `ascend`, `furiosa`. */
  vendor: string;
}

export interface Rail {
  /** Current. */
  amperes: number | null;
  /** As the board names it. */
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
  errors: Counted[];
  /** The driver or its tool was found on this node. */
  found: boolean;
  /** Time of the last successful read. Null: before the first success. */
  last_success: number | null;
  /** Human-readable reason why it is not up. Null: while it is up. */
  reason: string | null;
  /** Lines or values of the driver's output that could not be parsed, by reason. */
  rejected: Counted[];
  /** Source of the readings: `nvml`, `nvidia-smi`, `sysfs` … */
  source: string | null;
  /** The last read succeeded. */
  up: boolean;
  /** Vendor of the driver. */
  vendor: Vendor;
}

export interface Refreshed {
  /** Time of the answer, in seconds since the epoch. */
  at: number;
  /** The cluster after the refresh. */
  cluster: ClusterView;
  /** Increases with every change that the caller can see. */
  generation: number;
}

export interface RemappedRows {
  /** Rows replaced for errors that were corrected. */
  correctable: number | null;
  /** A row could not be replaced: the board is worn out. */
  failed: boolean | null;
  /** Rows wait for a reset of the device to be replaced. */
  pending: boolean | null;
  /** Rows replaced for errors that were not corrected. */
  uncorrectable: number | null;
}

export interface Sensor {
  /** Its temperature. */
  celsius: number;
  /** As the driver names it: `gpu`, `memory`, `hbm` … */
  name: string;
}

export type Severity = "critical" | "info" | "warning";

export interface SinkState {
  /** Text of the last error; it stays after the sink has recovered. Null: no error yet. */
  error: string | null;
  /** Writes that failed or left something out, by reason. */
  errors: Counted[];
  /** Time of the last successful write. Null: before the first success. */
  last_success: number | null;
  /** Why it is not up, as a keyword; `too_large` also if something was left out. Null: no problem. */
  reason: string | null;
  /** `annotation`, `labels`, `feature-file` or `idle-state`. */
  sink: string;
  /** Collections with nothing new to write. */
  skips: number;
  /** The last write succeeded. */
  up: boolean;
  /** Successful writes. */
  writes: number;
}

export interface SourceView {
  /** Number of nodes that answered. */
  answered: number;
  /** Duration of the last refresh. */
  duration_seconds: number | null;
  /** Number of failed refreshes and of nodes that did not answer. */
  errors: number;
  /** Number of nodes that should have answered. */
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
  /** Time of the answer, in seconds since the epoch. */
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
  /** Where rows are by cluster; null: they are not. */
  cluster: string | null;
  /** Number of containers that hold or use a device. */
  containers: number;
  /** Number of devices. */
  devices: number;
  /** Held by some container, whole or in part. */
  devices_allocated: number;
  /** Sum of the shares of devices that are held and were not used for an hour or more. */
  devices_idle: number;
  /** Number of devices that fell off the bus or do not answer. */
  devices_lost: number;
  /** Of clusters that are simulated. */
  devices_simulated: number;
  /** Counted with their last values. */
  devices_stale: number;
  /** Warning, critical or lost. */
  devices_unhealthy: number;
  /** Where rows are grouped by it; null: they are not, or it is not known. */
  health: string | null;
  /** null: none of its devices tells. */
  memory_total_bytes: number | null;
  /** Bytes, of the devices of which it is known; null: of none. */
  memory_used_bytes: number | null;
  /** Used of total, over devices that report both; null: none does. */
  memory_used_ratio: number | null;
  /** Where rows are grouped by it; null: they are not, or it is not known. */
  model: string | null;
  /** Where rows are grouped by it; null: they are not, or it is not known. */
  namespace: string | null;
  /** Where rows are grouped by it; null: they are not, or it is not known. */
  node: string | null;
  /** Nodes of its devices. */
  nodes: number;
  /** Number of pods. */
  pods: number;
  /** Power of limit, over the devices in `power_limit_watts`. */
  power_limit_ratio: number | null;
  /** Sum of the limits, over devices that report both power and limit. */
  power_limit_watts: number | null;
  /** Sum over devices that report it. */
  power_watts: number | null;
  /** A process on two devices counts twice. */
  processes: number;
  /** Mean. */
  temperature_celsius: number | null;
  /** Highest temperature of its devices. */
  temperature_max_celsius: number | null;
  /** Mean, 0 to 1; null: not known. */
  utilization_ratio: number | null;
  /** Where rows are grouped by it; null: they are not, or it is not known. */
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
  /** It is at work now. */
  active: boolean;
  /** As the driver names it: `sw_power_cap`, `socket_thermal` … */
  reason: string;
}

export interface Unattributed {
  /** `id` of the device. */
  device: string;
  /** What the owner is. */
  kind: OwnerKind;
  /** Device memory that the owner's processes hold. */
  memory_used_bytes: number | null;
  /** Which owner, within the kind. Null: of `none` and `unknown`. */
  name: string | null;
  /** Processes of the owner. */
  processes: number;
  /** Why it is not attributed to a pod. */
  reason: UnattributedReason;
  /** The use of the owner's processes together. Null: the driver does not tell it by process. */
  utilization_ratio: number | null;
}

export type UnattributedReason = "cgroup_hidden" | "no_permission" | "no_pod_source" | "no_process" | "not_in_a_pod" | "pod_unknown" | "process_gone";

export interface UnusualReport {
  /** Time of the answer, in seconds since the epoch. */
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
