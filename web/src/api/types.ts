// Made from src/accelscope/fleet/api by `make docs`; a test compares them.

export interface Absence {
  /** Name of the field, or of a part of it: `power_watts`, `sensors.memory`. */
  field: string;
  /** Why it is missing. */
  reason: AbsenceReason;
}

export type AbsenceReason = "deprecated" | "driver_error" | "lost" | "no_permission" | "no_sample" | "not_known" | "not_supported" | "reset_required" | "shared" | "suspended" | "timeout" | "unreadable";

export interface AgentState {
  /** How long this collection took. */
  collection_seconds: number | null;
  /** Collections since the agent started. */
  collections: number;
  /** Changes of the settings file that were noticed, by what came of them. */
  config_reloads: Counted[];
  /** CPU time used by the agent and the tools that it ran. */
  cpu_seconds: number | null;
  /** Resident memory of the agent. */
  memory_bytes: number | null;
  /** Files and sockets that the agent has open. */
  open_files: number | null;
  /** Collections that began late because the one before took longer than the interval. */
  overruns: number;
  /** When the agent started. */
  started_at: number;
  /** Threads of the agent. */
  threads: number | null;
  /** Reviews of bearer tokens by the API server, by what came of them. */
  token_reviews: Counted[];
  /** Version of AccelScope. */
  version: string;
}

export interface Alive {
  /** `ok`; of `/readyz`: `ready` */
  status: string;
}

export interface Allocation {
  /** Namespace and name of the claim. */
  claim: string | null;
  /** Part of the device's computing that the share may use. */
  compute_ratio: number | null;
  /** Name of the container. */
  container: string;
  /** `id` of the device. */
  device: string | null;
  /** As the plugin names it; of a claim `driver/pool/device`. */
  device_id: string;
  /** Memory that the share may use. */
  memory_bytes: number | null;
  /** Namespace of the pod. */
  namespace: string;
  /** `id` of the partition. */
  partition: string | null;
  /** Name of the pod. */
  pod: string;
  /** Uid of the pod. */
  pod_uid: string | null;
  /** What was asked for: `nvidia.com/gpu`. */
  resource: string | null;
  /** Who says so: `kubelet`, a device plugin's; `claim`, dynamic resource allocation; `annotation`, a scheduler that shares devices. */
  source: AllocationSource;
}

export type AllocationSource = "annotation" | "claim" | "kubelet";

export interface AttributionSourceState {
  /** What exactly is asked: `api-server`, `kubelet`, `v1`, a path. */
  detail: string | null;
  /** The last error, for people; kept after the source is well again. */
  error: string | null;
  /** Times that it failed, by reason. */
  errors: Counted[];
  /** When it last answered. */
  last_success: number | null;
  /** A short word for why it is not up. */
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
  /** since anything of it was read */
  age_seconds: number | null;
  /** number of devices; null: nothing was read of the cluster yet */
  devices: number | null;
  /** whether it has accelerators; null: not known yet */
  gpu: boolean | null;
  /** `true`, `false` or `auto` */
  gpu_setting: string;
  /** as the clusters file has it */
  id: string;
  /** name, for people */
  name: string | null;
  /** number of nodes; null: nothing was read of the cluster yet */
  nodes: number | null;
  /** null: not tried yet */
  reachable: boolean | null;
  /** why it is not well, in a short word */
  reason: string | null;
  /** it comes from simulated devices, in whole or in part */
  simulated: boolean;
  /** what it is read from */
  sources: SourceView[];
  /** null: it was never reached */
  succeeded_at: number | null;
  /** why it is not well, for people */
  text: string | null;
}

export interface Clusters {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** grows with every change of what the caller can see */
  generation: number;
  /** one for each cluster of the clusters file */
  items: ClusterView[];
  /** how many there are in all */
  total: number;
}

export interface Columns {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** those that were asked for */
  fields: Record<string, TextColumn | NumberColumn | FlagColumn>;
  /** grows with every change of what the caller can see */
  generation: number;
  /** length of every column */
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
  /** How often. */
  count: number;
  /** A short word for what happened. */
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
  /** Ascend: the NPU id. */
  board_id: number | null;
  /** Ascend: how many chips the NPU has. */
  chip_count: number | null;
  /** Ascend: the chip of the NPU. */
  chip_id: number | null;
  /** Clocks of the device's parts. */
  clocks: Clock[];
  /** AMD: `SPX`, `DPX`, `CPX` … */
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
  /** Furiosa: major and minor number of its device file, `511:0` (PCI-DEV). */
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
  /** Furiosa RNGD: which clocks the driver chooses, `performance` or `powersave`. */
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
  /** AMD: `NPS1`, `NPS4` … */
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
  /** Ascend: the Phy-ID. */
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
  /** When it was last read. */
  read_at: number | null;
  /** Memory rows that were replaced by spare ones. */
  remapped_rows: RemappedRows | null;
  /** Memory pages taken out of use, by the severity of the errors that led to it. */
  retired_pages: EccCount[];
  /** Revision of the silicon: `B0`. */
  revision: string | null;
  /** Furiosa RNGD: version of the run-time of its cores (PERT). */
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
  /** Into how many shares the device is cut, by setting (2: each has half of it). */
  share_ratio: number | null;
  /** By how much the processes' memory together exceeds what is used. */
  surplus_memory_bytes: number | null;
}

export interface DeviceDetail {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** what makes the parts add up to the whole */
  balance: DeviceBalance | null;
  /** its row */
  device: DeviceRow;
  /** grows with every change of what the caller can see */
  generation: number;
  /** rows of the containers that hold or use it */
  pods: PodRow[];
  /** rows of the processes on it */
  processes: ProcessRow[];
  /** all that its driver gave, and why the rest is absent */
  reading: Device | null;
  /** what is in use on it and is no pod's */
  unattributed: Unattributed[];
}

export interface DeviceRow {
  /** seconds; null: not known */
  age_seconds: number | null;
  /** containers that hold it or a part of it */
  allocated: number;
  /** id of the cluster */
  cluster: string;
  /** version of the driver */
  driver_version: string | null;
  /** memory errors that were not corrected; null: not known */
  ecc_uncorrected: number | null;
  /** since the driver was loaded, joules; null: not known */
  energy_joules: number | null;
  /** errors with a code, of all codes */
  errors: number | null;
  /** 0 to 1; null: not known */
  fan_speed_ratio: number | null;
  /** version of the firmware */
  firmware_version: string | null;
  /** `ok`, `warning`, `critical`, `lost` or `unknown` */
  health: string;
  /** why it is not ok */
  health_reason: string | null;
  /** stable: vendor and uuid, serial number or PCI address */
  id: string;
  /** since any that holds it did anything; null: none holds it, or not known */
  idle_seconds: number | null;
  /** number on its node, as the driver counts */
  index: number | null;
  /** bytes; null: not known */
  memory_free_bytes: number | null;
  /** bytes; null: not known */
  memory_total_bytes: number | null;
  /** bytes; null: not known */
  memory_used_bytes: number | null;
  /** 0 to 1; null: not known */
  memory_utilization_ratio: number | null;
  /** model, as the driver names it */
  model: string | null;
  /** of the pods that hold or use it, by commas */
  namespaces: string | null;
  /** name of the node */
  node: string;
  /** number of partitions */
  partitions: number;
  /** `domain:bus:device.function` */
  pci_address: string | null;
  /** generation of the link now */
  pcie_generation: number | null;
  /** lanes of the link now */
  pcie_width: number | null;
  /** watts; null: not known */
  power_limit_watts: number | null;
  /** watts; null: not known */
  power_watts: number | null;
  /** number of processes */
  processes: number;
  /** serial number */
  serial: string | null;
  /** it comes from simulated devices, in whole or in part */
  simulated: boolean;
  /** the source that it was read from */
  source: string;
  /** `fresh` or `stale` */
  state: string;
  /** when it was read, seconds since the epoch; null: never by this agent, or not told */
  taken_at: number | null;
  /** °C; null: not known */
  temperature_celsius: number | null;
  /** °C left until the device slows itself down, negative beyond that; null: not known */
  temperature_margin_celsius: number | null;
  /** °C at which the device slows itself down; null: not known */
  temperature_slowdown_celsius: number | null;
  /** reasons that slow it down, separated by commas; being idle is none */
  throttled: string | null;
  /** what is out of the device's own habit */
  unusual: string | null;
  /** 0 to 1; null: not known */
  utilization_ratio: number | null;
  /** the vendor's unique id */
  uuid: string | null;
  /** `nvidia`, `amd`, `ascend` or `furiosa` */
  vendor: string;
}

export interface EccCount {
  /** Part of the device: `dram`, `sram`, `l2`, `gfx`, `umc` … */
  block: string | null;
  /** How many. */
  count: number;
  /** When the count last grew, in seconds since the epoch. */
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
  /** seconds since the epoch */
  at: number;
  /** id of the cluster */
  cluster: string;
  /** id of the device */
  device: string | null;
  /** increases with each event of this process */
  id: number;
  /** what happened */
  kind: EventKind;
  /** of the pod that it is about */
  namespace: string | null;
  /** name of the node; null: of the whole cluster */
  node: string | null;
  /** that it is about */
  pod: string | null;
  /** how much it matters */
  severity: Severity;
  /** for people */
  text: string;
}

export type EventKind = "cluster_back" | "cluster_left" | "cluster_unreachable" | "device_back" | "device_better" | "device_gone" | "device_lost" | "device_new" | "device_worse" | "node_back" | "node_forgotten" | "node_incompatible" | "node_stale" | "unusual_began" | "unusual_ended";

export interface Events {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** from this number on none is missing; of older ones, not all are held */
  first: number;
  /** grows with every change of what the caller can see */
  generation: number;
  /** oldest first */
  items: Event[];
  /** number of the newest that the caller can see; 0: none yet */
  last: number;
  /** `after` of the next question */
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
  /** which kind of column it is */
  kind: "flag";
  /** by row; null: not known */
  values: (boolean | null)[];
}

export interface Gpu {
  /** version of the driver */
  driver_version: string | null;
  /** 0 to 100; null: not known */
  fan_speed_percent: number | null;
  /** `ok`, `warning`, `critical`, `lost` or `unknown` */
  health: string;
  /** as the vendor-neutral API names it */
  id: string;
  /** number on its node, as the driver counts */
  index: number | null;
  /** bytes / 2^20; null: not known */
  memory_free_mb: number | null;
  /** bytes / 2^20; null: not known */
  memory_total_mb: number | null;
  /** bytes / 2^20; null: not known */
  memory_used_mb: number | null;
  /** model, as the driver names it */
  name: string | null;
  /** generation of the link now */
  pcie_generation: number | null;
  /** lanes of the link now */
  pcie_link_width: number | null;
  /** watts; null: not known */
  power_draw_watts: number | null;
  /** watts; null: not known */
  power_limit_watts: number | null;
  /** °C; null: not known */
  temperature_celsius: number | null;
  /** 0 to 100; null: not known */
  utilization_gpu_percent: number | null;
  /** 0 to 100; null: not known */
  utilization_memory_percent: number | null;
  /** the vendor's unique id */
  uuid: string | null;
  /** `nvidia`, `amd`, `ascend` or `furiosa` */
  vendor: string;
}

export interface GpuNode {
  /** seconds since it was read */
  age_seconds: number | null;
  /** id of the cluster */
  cluster_id: string;
  /** number of GPUs */
  gpu_count: number;
  /** its GPUs */
  gpus: Gpu[];
  /** of the Node object */
  labels: Record<string, string>;
  /** name of the node */
  node_name: string;
  /** it comes from simulated devices, in whole or in part */
  simulated: boolean;
  /** the source that it was read from */
  source: string | null;
  /** nothing newer came for longer than it should take */
  stale: boolean;
  /** of those GPUs of which it is known */
  total_memory_mb: number;
}

export interface GpuProcess {
  /** seconds since it was read */
  age_seconds: number | null;
  /** id of the cluster */
  cluster_id: string;
  /** the program's name, never its arguments */
  command: string | null;
  /** null: in none, or not known */
  container: string | null;
  /** 0 to 100; null: not known */
  decoder_utilization: number | null;
  /** 0 to 100; null: not known */
  encoder_utilization: number | null;
  /** bytes / 2^20; null: not known */
  fb_memory_mb: number | null;
  /** id of the device, as in the tables */
  gpu_id: string;
  /** number of the GPU on its node */
  gpu_index: number | null;
  /** 0 to 100; null: not known */
  memory_utilization: number | null;
  /** of its pod; null: in none, or not known */
  namespace: string | null;
  /** name of the node */
  node_name: string;
  /** process id on the node */
  pid: number;
  /** null: in none, or not known */
  pod: string | null;
  /** `compute` (also where it is both), `graphics` or `unknown` */
  process_type: string;
  /** it comes from simulated devices, in whole or in part */
  simulated: boolean;
  /** 0 to 100; null: not known */
  sm_utilization: number | null;
  /** nothing newer came for longer than it should take */
  stale: boolean;
}

export interface GpuSummary {
  /** since the cluster last answered */
  age_seconds: number | null;
  /** mean of the GPUs of which it is known */
  average_gpu_utilization_percent: number | null;
  /** mean of the GPUs of which it is known, °C */
  average_temperature_celsius: number | null;
  /** id of the cluster */
  cluster_id: string;
  /** null: its GPUs were not read yet */
  gpu_count: number | null;
  /** used of total, of GPUs of which both are known */
  memory_utilization_percent: number | null;
  /** nodes with GPUs; null: its GPUs were not read yet */
  node_count: number | null;
  /** it comes from simulated devices, in whole or in part */
  simulated: boolean;
  /** the cluster is out of reach, or all its GPUs are stale: the last that is known */
  stale: boolean;
  /** of all GPUs, MB; null: its GPUs were not read yet */
  total_memory_mb: number | null;
  /** of all GPUs, MB; null: its GPUs were not read yet */
  used_memory_mb: number | null;
}

export interface Health {
  /** What led to the state, for people. */
  reason: string | null;
  /** The state on the scale of all vendors. */
  state: HealthState;
  /** The driver's own word, with its case: `OK`, `Alarm`. */
  vendor_word: string | null;
}

export interface HealthReport {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** out of reach, or with a source that is not up */
  clusters: ClusterView[];
  /** lost, critical, then warning; `limit` at most */
  devices: DeviceRow[];
  /** all devices, by their health */
  devices_by_health: Record<string, number>;
  /** grows with every change of what the caller can see */
  generation: number;
  /** incompatible, stale, then unread; `limit` at most */
  nodes: NodeRow[];
  /** all nodes, by their state */
  nodes_by_state: Record<string, number>;
  /** no device, node or cluster that is meant is unwell */
  ok: boolean;
}

export type HealthState = "critical" | "lost" | "ok" | "unknown" | "warning";

export interface HistorySeries {
  /** of the device or pod */
  cluster: string | null;
  /** by name, all of one length; null: nothing was read then */
  fields: Record<string, (number | null)[]>;
  /** the cluster, vendor, model, namespace, device id or pod; null: the fleet */
  key: string | null;
  /** of the pod */
  namespace: string | null;
  /** of the device */
  node: string | null;
  /** what it is of */
  scope: "cluster" | "device" | "fleet" | "model" | "namespace" | "pod" | "vendor";
  /** all of it or a part, by clusters as they are now */
  simulated: boolean;
  /** `ring`: what this process saw by the minute */
  source: "prometheus" | "ring";
  /** of the first value, seconds since the epoch */
  start: number;
  /** time from one point to the next */
  step_seconds: number;
}

export interface IdlePod {
  /** how old it is */
  age_seconds: number | null;
  /** id of the cluster */
  cluster: string;
  /** idle time of each times its share of the device, added up */
  device_hours: number;
  /** devices or partitions that it holds and does not use */
  devices: number;
  /** sum of its shares of them; 0.5: half of a device */
  devices_idle: number;
  /** all of them are idle for at least so long */
  idle_seconds: number;
  /** that it still holds there; null: not known */
  memory_used_bytes: number | null;
  /** of those devices */
  models: string[];
  /** namespace of the pod */
  namespace: string;
  /** name of the node */
  node: string;
  /** what the pod belongs to: Deployment, StatefulSet, Job … */
  owner_kind: string | null;
  /** name of what the pod belongs to */
  owner_name: string | null;
  /** name of the pod */
  pod: string;
  /** it comes from simulated devices, in whole or in part */
  simulated: boolean;
  /** `fresh` or `stale` */
  state: string;
}

export interface IdlePods {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** of all pages together */
  device_hours: number;
  /** of all pages together; as the summary has it for the same pods */
  devices_idle: number;
  /** grows with every change of what the caller can see */
  generation: number;
  /** the rows */
  items: IdlePod[];
  /** cursor of the next page; null: this is the last */
  next: string | null;
  /** how many there are in all */
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
  /** id of the cluster */
  cluster: string;
  /** containers that hold or use a device */
  containers: number;
  /** that its pods hold or use */
  devices: number;
  /** devices that its pods hold */
  devices_allocated: number;
  /** sum of the shares of devices that are held and were not used for an hour or more */
  devices_idle: number;
  /** of clusters that are simulated */
  devices_simulated: number;
  /** devices whose last reading is old */
  devices_stale: number;
  /** null: not known of any of its devices */
  energy_joules: number | null;
  /** null: not known of any of its devices */
  memory_used_bytes: number | null;
  /** namespace of the pod */
  namespace: string;
  /** number of nodes */
  nodes: number;
  /** number of pods */
  pods: number;
  /** number of processes */
  processes: number;
  /** 0 to 1; null: not known */
  utilization_ratio: number | null;
}

export interface Namespaces {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** grows with every change of what the caller can see */
  generation: number;
  /** the rows */
  items: NamespaceRow[];
  /** cursor of the next page; null: this is the last */
  next: string | null;
  /** namespaces on all pages together */
  total: number;
}

export interface NodeDetail {
  /** null: no agent, or it was never heard */
  agent: AgentState | null;
  /** when this was answered, seconds since the epoch */
  at: number;
  /** of the agent: the sources that tell whose what is */
  attribution: AttributionSourceState[];
  /** rows of its devices */
  devices: DeviceRow[];
  /** grows with every change of what the caller can see */
  generation: number;
  /** between two readings there */
  interval_seconds: number | null;
  /** of the Node object */
  labels: Record<string, string>;
  /** its row */
  node: NodeRow;
  /** rows of its containers */
  pods: PodRow[];
  /** rows of its processes */
  processes: ProcessRow[];
  /** of the agent: one for each vendor that is looked for */
  readers: ReaderState[];
  /** of the agent: what carries readings into the Node object */
  sinks: SinkState[];
  /** what is in use and no pod's */
  unattributed: Unattributed[];
}

export interface NodeRow {
  /** seconds; null: not known */
  age_seconds: number | null;
  /** version of the agent that read it; null: no agent did */
  agent_version: string | null;
  /** id of the cluster */
  cluster: string;
  /** number of devices */
  devices: number;
  /** devices that fell off the bus or no longer answer */
  devices_lost: number;
  /** warning, critical or lost */
  devices_unhealthy: number;
  /** bytes; null: not known */
  memory_total_bytes: number | null;
  /** bytes; null: not known */
  memory_used_bytes: number | null;
  /** used of total, over devices that report both; null: none does */
  memory_used_ratio: number | null;
  /** models of its devices, separated by commas */
  models: string | null;
  /** name of the node */
  node: string;
  /** number of pods */
  pods: number;
  /** watts; null: not known */
  power_watts: number | null;
  /** number of processes */
  processes: number;
  /** why it is not fresh, or was not read the last time */
  reason: string | null;
  /** it comes from simulated devices, in whole or in part */
  simulated: boolean;
  /** the sources that it was read from, by precedence */
  source: string | null;
  /** `fresh`, `stale`, `incompatible` or `unread` */
  state: string;
  /** when it was read, seconds since the epoch */
  taken_at: number | null;
  /** °C, of the hottest; null: not known */
  temperature_max_celsius: number | null;
  /** mean of its devices, 0 to 1 */
  utilization_ratio: number | null;
  /** vendors of its devices, separated by commas */
  vendors: string | null;
}

export interface NumberColumn {
  /** which kind of column it is */
  kind: "number";
  /** by row; null: not known */
  values: (number | null)[];
}

export type OwnerKind = "container" | "none" | "pod" | "slurm_job" | "systemd_unit" | "unknown" | "user";

export interface DeviceRowPage {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** grows with every change of what the caller can see */
  generation: number;
  /** the rows */
  items: DeviceRow[];
  /** cursor of the next page; null: this is the last */
  next: string | null;
  /** rows on all pages together */
  total: number;
}

export interface NodeRowPage {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** grows with every change of what the caller can see */
  generation: number;
  /** the rows */
  items: NodeRow[];
  /** cursor of the next page; null: this is the last */
  next: string | null;
  /** rows on all pages together */
  total: number;
}

export interface PodRowPage {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** grows with every change of what the caller can see */
  generation: number;
  /** the rows */
  items: PodRow[];
  /** cursor of the next page; null: this is the last */
  next: string | null;
  /** rows on all pages together */
  total: number;
}

export interface ProcessRowPage {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** grows with every change of what the caller can see */
  generation: number;
  /** the rows */
  items: ProcessRow[];
  /** cursor of the next page; null: this is the last */
  next: string | null;
  /** rows on all pages together */
  total: number;
}

export interface Partition {
  /** MIG: the compute instance. */
  compute_instance_id: number | null;
  /** AMD: the platform device that holds its render node, `amdgpu_xcp_1`. */
  device_name: string | null;
  /** As of the device. */
  dram_active_ratio: number | null;
  /** MIG: the GPU instance. */
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
  /** AMD: both directions together, where `amd-smi` reports only that. */
  bytes_per_second: number | null;
  /** PCIe generation now. */
  generation: number | null;
  /** Highest that device and slot allow. */
  max_generation: number | null;
  /** Lanes that device and slot allow. */
  max_width: number | null;
  /** Received, over the driver's own short window. */
  receive_bytes_per_second: number | null;
  /** Received so far. */
  receive_bytes_total: number | null;
  /** Packets that had to be sent again. */
  replays_total: number | null;
  /** Sent, over the driver's own short window. */
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
  /** What it belongs to: `Deployment`, `StatefulSet`, `Job` … */
  owner_kind: string | null;
  /** Name of what it belongs to. */
  owner_name: string | null;
  /** Its uid. */
  uid: string;
}

export interface PodDetail {
  /** device ids that it was given */
  allocations: Allocation[];
  /** when this was answered, seconds since the epoch */
  at: number;
  /** id of the cluster */
  cluster: string;
  /** one for each container and device */
  containers: PodRow[];
  /** rows of the devices that it holds or uses */
  devices: DeviceRow[];
  /** grows with every change of what the caller can see */
  generation: number;
  /** namespace of the pod */
  namespace: string;
  /** what is known of the pod as such */
  object: Pod | null;
  /** name of the pod */
  pod: string;
  /** rows of its processes */
  processes: ProcessRow[];
}

export interface PodRow {
  /** seconds; null: not known */
  age_seconds: number | null;
  /** device ids that it holds; 0: it only uses the device */
  allocated: number;
  /** id of the cluster */
  cluster: string;
  /** 0 to 1; null: not known */
  compute_share_ratio: number | null;
  /** name of the container */
  container: string;
  /** id of the device */
  device: string;
  /** fraction of the device that it holds; null: it only uses the device */
  device_share_ratio: number | null;
  /** its part of the device's energy, joules; null: not known */
  energy_joules: number | null;
  /** seconds; null: not known */
  idle_seconds: number | null;
  /** bytes; null: not known */
  memory_share_bytes: number | null;
  /** bytes; null: not known */
  memory_used_bytes: number | null;
  /** model, as the driver names it */
  model: string | null;
  /** namespace of the pod */
  namespace: string;
  /** name of the node */
  node: string;
  /** what the pod belongs to: Deployment, StatefulSet, Job … */
  owner_kind: string | null;
  /** name of what the pod belongs to */
  owner_name: string | null;
  /** id of the partition (MIG, core range); null: the whole device */
  partition: string | null;
  /** name of the pod */
  pod: string;
  /** uid of the pod */
  pod_uid: string | null;
  /** number of processes */
  processes: number;
  /** names of the resources it asked for, by commas */
  resources: string | null;
  /** it comes from simulated devices, in whole or in part */
  simulated: boolean;
  /** the source that it was read from */
  source: string;
  /** `fresh` or `stale` */
  state: string;
  /** when it was read, seconds since the epoch */
  taken_at: number;
  /** what is out of its own habit */
  unusual: string | null;
  /** 0 to 1; null: not known */
  utilization_ratio: number | null;
  /** `nvidia`, `amd`, `ascend` or `furiosa` */
  vendor: string;
}

export interface ProblemDocument {
  /** what could have been said instead */
  allowed: string[] | null;
  /** the cluster that it is about */
  cluster: string | null;
  /** this very case, for people */
  detail: string | null;
  /** the path that was asked for */
  instance: string | null;
  /** the parameter that is to blame */
  parameter: string | null;
  /** a word for why, where a cluster is to blame */
  reason: string | null;
  /** of the answer */
  status: number;
  /** what it is, in words */
  title: string;
  /** identifies the kind of problem; does not change with versions */
  type: string;
}

export interface ProcessRow {
  /** seconds; null: not known */
  age_seconds: number | null;
  /** id of the cluster */
  cluster: string;
  /** name of the container */
  container: string | null;
  /** of the node's CPUs, 1 is one; null: not known */
  cpu_ratio: number | null;
  /** 0 to 1; null: not known */
  decoder_utilization_ratio: number | null;
  /** id of the device */
  device: string;
  /** number of the device on its node */
  device_index: number | null;
  /** 0 to 1; null: not known */
  encoder_utilization_ratio: number | null;
  /** bytes; null: not known */
  memory_bytes: number | null;
  /** 0 to 1; null: not known */
  memory_utilization_ratio: number | null;
  /** of the program */
  name: string | null;
  /** namespace of the pod */
  namespace: string | null;
  /** name of the node */
  node: string;
  /** container, job, unit or user of a process in no pod */
  owner: string | null;
  /** whose it is: pod, container, slurm_job, systemd_unit, user, none or unknown */
  owner_kind: string | null;
  /** id of the partition (MIG, core range); null: the whole device */
  partition: string | null;
  /** process id on the node */
  pid: number;
  /** name of the pod */
  pod: string | null;
  /** of the node's own memory, bytes; null: not known */
  resident_memory_bytes: number | null;
  /** it comes from simulated devices, in whole or in part */
  simulated: boolean;
  /** the source that it was read from */
  source: string;
  /** by the node's clock, seconds since the epoch; null: not known */
  started_at: number | null;
  /** `fresh` or `stale` */
  state: string;
  /** when it was read, seconds since the epoch */
  taken_at: number;
  /** `compute`, `graphics` or `both` */
  type: string | null;
  /** whose it is on the node */
  user: string | null;
  /** 0 to 1; null: not known */
  utilization_ratio: number | null;
  /** `nvidia`, `amd`, `ascend` or `furiosa` */
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
  /** Calls into the driver that were given up and have not come back. */
  abandoned_calls: number;
  /** Devices that should be there: by setting, else all that were seen since the agent started. */
  devices_expected: number;
  /** Devices that answered at the last pass. */
  devices_seen: number;
  /** Version of the driver. */
  driver_version: string | null;
  /** How long the last pass took. */
  duration_seconds: number | null;
  /** Failed reads, by reason. */
  errors: Counted[];
  /** The driver or its tool is on this node. */
  found: boolean;
  /** When a pass last succeeded. */
  last_success: number | null;
  /** Why it is not up, for people. */
  reason: string | null;
  /** Lines or cells of its answer that could not be taken as a value, by reason. */
  rejected: Counted[];
  /** Where it reads: `nvml`, `nvidia-smi`, `sysfs` … */
  source: string | null;
  /** The last pass brought something back. */
  up: boolean;
  /** Whose driver it reads. */
  vendor: Vendor;
}

export interface Refreshed {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** as it is after the refresh */
  cluster: ClusterView;
  /** grows with every change of what the caller can see */
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
  /** The last error, for people; kept after the sink is well again. */
  error: string | null;
  /** Writes that failed or had to leave something out, by reason. */
  errors: Counted[];
  /** When it last wrote. */
  last_success: number | null;
  /** A short word for why it is not up; `too_large` also for what was left out. */
  reason: string | null;
  /** `annotation`, `labels`, `feature-file` or `idle-state`. */
  sink: string;
  /** Collections that had nothing new to write. */
  skips: number;
  /** What it carries was written when it last tried. */
  up: boolean;
  /** Writes that succeeded. */
  writes: number;
}

export interface SourceView {
  /** nodes that answered */
  answered: number;
  /** how long the last reading took */
  duration_seconds: number | null;
  /** refreshes that failed, and nodes that did not answer */
  errors: number;
  /** nodes that it should have heard of */
  expected: number;
  /** `agents`, `exec`, `annotations` or `prometheus` */
  kind: string;
  /** why it is not up, in a short word */
  reason: string | null;
  /** seconds since the epoch */
  refreshed_at: number | null;
  /** when it last did, seconds since the epoch */
  succeeded_at: number | null;
  /** why it is not up, for people */
  text: string | null;
  /** null: not asked yet */
  up: boolean | null;
}

export interface Summary {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** grows with every change of what the caller can see */
  generation: number;
  /** by `group_by`; empty without it */
  groups: SummaryRow[];
  /** groups on all pages together */
  groups_total: number;
  /** cursor of the next page; null: this is the last */
  next: string | null;
  /** over all that is meant */
  total: SummaryRow;
}

export interface SummaryRow {
  /** where rows are by cluster; null: they are not */
  cluster: string | null;
  /** containers that hold or use a device */
  containers: number;
  /** number of devices */
  devices: number;
  /** held by some container, whole or in part */
  devices_allocated: number;
  /** sum of the shares of devices that are held and were not used for an hour or more */
  devices_idle: number;
  /** devices that fell off the bus or no longer answer */
  devices_lost: number;
  /** of clusters that are simulated */
  devices_simulated: number;
  /** counted with their last values */
  devices_stale: number;
  /** warning, critical or lost */
  devices_unhealthy: number;
  /** where rows are grouped by it; null: they are not, or it is not known */
  health: string | null;
  /** null: none of its devices tells */
  memory_total_bytes: number | null;
  /** bytes, of the devices of which it is known; null: of none */
  memory_used_bytes: number | null;
  /** used of total, over devices that report both; null: none does */
  memory_used_ratio: number | null;
  /** where rows are grouped by it; null: they are not, or it is not known */
  model: string | null;
  /** where rows are grouped by it; null: they are not, or it is not known */
  namespace: string | null;
  /** where rows are grouped by it; null: they are not, or it is not known */
  node: string | null;
  /** nodes of its devices */
  nodes: number;
  /** number of pods */
  pods: number;
  /** power of limit, over the devices in `power_limit_watts` */
  power_limit_ratio: number | null;
  /** sum of the limits, over devices that report both power and limit */
  power_limit_watts: number | null;
  /** sum over devices that report it */
  power_watts: number | null;
  /** a process on two devices counts twice */
  processes: number;
  /** mean */
  temperature_celsius: number | null;
  /** °C, of the hottest; null: not known */
  temperature_max_celsius: number | null;
  /** mean, 0 to 1; null: not known */
  utilization_ratio: number | null;
  /** where rows are grouped by it; null: they are not, or it is not known */
  vendor: string | null;
}

export interface TextColumn {
  /** by row: a place in `texts`; null: not known */
  codes: (number | null)[];
  /** which kind of column it is */
  kind: "text";
  /** each text once */
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
  /** Which owner, within the kind. */
  name: string | null;
  /** Processes of the owner. */
  processes: number;
  /** Why it is not attributed to a pod. */
  reason: UnattributedReason;
  /** The use of the owner's processes together. */
  utilization_ratio: number | null;
}

export type UnattributedReason = "cgroup_hidden" | "no_permission" | "no_pod_source" | "no_process" | "not_in_a_pod" | "pod_unknown" | "process_gone";

export interface UnusualReport {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** `limit` at most */
  devices: DeviceRow[];
  /** how many devices are out of their habit */
  devices_total: number;
  /** grows with every change of what the caller can see */
  generation: number;
  /** `limit` at most */
  pods: PodRow[];
  /** how many containers are out of their habit */
  pods_total: number;
}

export type Vendor = "amd" | "ascend" | "furiosa" | "nvidia";

export interface Version {
  /** grows with every change of what the caller can see */
  generation: number;
  /** of agents that it understands: this major version */
  snapshot_schema: string;
  /** version of AccelScope */
  version: string;
}
