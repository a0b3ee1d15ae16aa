// Made from src/accelscope/fleet/api by `make docs`; a test compares them.

export interface Absence {
  field: string;
  reason: AbsenceReason;
}

export type AbsenceReason = "deprecated" | "driver_error" | "lost" | "no_permission" | "no_sample" | "not_known" | "not_supported" | "reset_required" | "shared" | "suspended" | "timeout" | "unreadable";

export interface AgentState {
  collection_seconds: number | null;
  collections: number;
  config_reloads: Counted[];
  cpu_seconds: number | null;
  memory_bytes: number | null;
  open_files: number | null;
  overruns: number;
  started_at: number;
  threads: number | null;
  token_reviews: Counted[];
  version: string;
}

export interface Alive {
  status: string;
}

export interface Allocation {
  claim: string | null;
  compute_ratio: number | null;
  container: string;
  device: string | null;
  device_id: string;
  memory_bytes: number | null;
  namespace: string;
  partition: string | null;
  pod: string;
  pod_uid: string | null;
  resource: string | null;
  source: AllocationSource;
}

export type AllocationSource = "annotation" | "claim" | "kubelet";

export interface AttributionSourceState {
  detail: string | null;
  error: string | null;
  errors: Counted[];
  last_success: number | null;
  reason: string | null;
  source: string;
  up: boolean;
}

export interface Clock {
  domain: string;
  hertz: number | null;
  max_hertz: number | null;
}

export interface ClusterView {
  age_seconds: number | null;
  devices: number;
  /** whether it has accelerators; null: not known yet */
  gpu: boolean | null;
  /** true, false or auto */
  gpu_setting: string;
  id: string;
  name: string | null;
  nodes: number;
  /** null: not tried yet */
  reachable: boolean | null;
  reason: string | null;
  simulated: boolean;
  sources: SourceView[];
  /** null: it was never reached */
  succeeded_at: number | null;
  text: string | null;
}

export interface Clusters {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** grows with every change of what the fleet knows */
  generation: number;
  items: ClusterView[];
  total: number;
}

export interface Columns {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** those that were asked for */
  fields: Record<string, TextColumn | NumberColumn | FlagColumn>;
  /** grows with every change of what the fleet knows */
  generation: number;
  /** length of every column */
  rows: number;
}

export interface Core {
  clock_hertz: number | null;
  index: number;
  occupied: boolean | null;
  utilization_ratio: number | null;
}

export interface Counted {
  count: number;
  reason: string;
}

export interface Device {
  absent: Absence[];
  architecture: string | null;
  bar1_total_bytes: number | null;
  bar1_used_bytes: number | null;
  board_id: number | null;
  chip_id: number | null;
  clocks: Clock[];
  compute_partition: string | null;
  cores: Core[];
  decoder_utilization_ratio: number | null;
  device_name: string | null;
  dram_active_ratio: number | null;
  driver_version: string | null;
  ecc: EccCount[];
  ecc_enabled: boolean | null;
  encoder_utilization_ratio: number | null;
  energy_joules: number | null;
  errors: ErrorCount[];
  fans: Fan[];
  firmware_version: string | null;
  fp16_active_ratio: number | null;
  fp32_active_ratio: number | null;
  fp64_active_ratio: number | null;
  graphics_active_ratio: number | null;
  health: Health;
  id: string;
  index: number | null;
  jpeg_utilization_ratio: number | null;
  links: Link[];
  memory_free_bytes: number | null;
  memory_partition: string | null;
  memory_reserved_bytes: number | null;
  memory_total_bytes: number | null;
  memory_used_bytes: number | null;
  memory_utilization_ratio: number | null;
  mig_enabled: boolean | null;
  model: string | null;
  numa_node: number | null;
  optical_flow_utilization_ratio: number | null;
  partitions: Partition[];
  pci_address: string | null;
  pcie: Pcie | null;
  performance_state: number | null;
  persistence_mode: boolean | null;
  physical_id: number | null;
  power_limit_default_watts: number | null;
  power_limit_max_watts: number | null;
  power_limit_min_watts: number | null;
  power_limit_watts: number | null;
  power_watts: number | null;
  rails: Rail[];
  read_at: number | null;
  remapped_rows: RemappedRows | null;
  retired_pages: EccCount[];
  revision: string | null;
  sensors: Sensor[];
  serial: string | null;
  sm_active_ratio: number | null;
  sm_occupancy_ratio: number | null;
  stale: boolean;
  temperature_celsius: number | null;
  temperature_shutdown_celsius: number | null;
  temperature_slowdown_celsius: number | null;
  tensor_active_ratio: number | null;
  throttles: Throttle[];
  uptime_seconds: number | null;
  utilization_ratio: number | null;
  uuid: string | null;
  vector_utilization_ratio: number | null;
  vendor: Vendor;
}

export interface DeviceBalance {
  device: string;
  idle_energy_joules: number | null;
  jobs: string[];
  share_ratio: number | null;
  surplus_memory_bytes: number | null;
}

export interface DeviceDetail {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** what makes the parts add up to the whole */
  balance: DeviceBalance | null;
  device: DeviceRow;
  /** grows with every change of what the fleet knows */
  generation: number;
  pods: PodRow[];
  processes: ProcessRow[];
  /** all that its driver gave, and why the rest is absent */
  reading: Device | null;
  unattributed: Unattributed[];
}

export interface DeviceRow {
  /** seconds; null: not known */
  age_seconds: number | null;
  /** containers that hold it or a part of it */
  allocated: number;
  cluster: string;
  driver_version: string | null;
  ecc_uncorrected: number | null;
  energy_joules: number | null;
  /** errors with a code, of all codes */
  errors: number | null;
  /** 0 to 1; null: not known */
  fan_speed_ratio: number | null;
  firmware_version: string | null;
  /** ok, warning, critical, lost or unknown */
  health: string;
  health_reason: string | null;
  /** stable: vendor and uuid, serial number or PCI address */
  id: string;
  /** since any that holds it did anything; null: none holds it, or not known */
  idle_seconds: number | null;
  index: number | null;
  /** bytes; null: not known */
  memory_free_bytes: number | null;
  /** bytes; null: not known */
  memory_total_bytes: number | null;
  /** bytes; null: not known */
  memory_used_bytes: number | null;
  /** 0 to 1; null: not known */
  memory_utilization_ratio: number | null;
  model: string | null;
  /** of the pods that hold or use it, by commas */
  namespaces: string | null;
  node: string;
  partitions: number;
  pci_address: string | null;
  pcie_generation: number | null;
  pcie_width: number | null;
  power_limit_watts: number | null;
  power_watts: number | null;
  processes: number;
  serial: string | null;
  simulated: boolean;
  source: string;
  /** fresh or stale */
  state: string;
  taken_at: number;
  temperature_celsius: number | null;
  temperature_slowdown_celsius: number | null;
  /** reasons at work, separated by commas */
  throttled: string | null;
  /** what is out of the device's own habit */
  unusual: string | null;
  /** 0 to 1; null: not known */
  utilization_ratio: number | null;
  uuid: string | null;
  vendor: string;
}

export interface EccCount {
  block: string | null;
  count: number;
  lifetime: boolean;
  severity: string;
}

export interface ErrorCount {
  code: string;
  count: number;
  kind: string;
  last_seen: number | null;
}

export interface Event {
  /** seconds since the epoch */
  at: number;
  cluster: string;
  /** id of the device */
  device: string | null;
  /** increases by one with each event of this process */
  id: number;
  kind: EventKind;
  namespace: string | null;
  node: string | null;
  pod: string | null;
  severity: Severity;
  /** for people */
  text: string;
}

export type EventKind = "cluster_back" | "cluster_left" | "cluster_unreachable" | "device_back" | "device_better" | "device_gone" | "device_lost" | "device_new" | "device_worse" | "node_back" | "node_forgotten" | "node_incompatible" | "node_stale" | "unusual_began" | "unusual_ended";

export interface Events {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** number of the oldest event that is still held, of any cluster */
  first: number;
  /** grows with every change of what the fleet knows */
  generation: number;
  /** oldest first */
  items: Event[];
  /** number of the newest; 0: none yet */
  last: number;
  /** `after` of the next question */
  next: number;
}

export interface Fan {
  index: number;
  speed_ratio: number | null;
  speed_rpm: number | null;
}

export interface FlagColumn {
  kind: "flag";
  /** by row; null: not known */
  values: (boolean | null)[];
}

export interface Gpu {
  driver_version: string | null;
  /** 0 to 100; null: not known */
  fan_speed_percent: number | null;
  health: string;
  /** as the vendor-neutral API names it */
  id: string;
  index: number | null;
  /** bytes / 2^20; null: not known */
  memory_free_mb: number | null;
  /** bytes / 2^20; null: not known */
  memory_total_mb: number | null;
  /** bytes / 2^20; null: not known */
  memory_used_mb: number | null;
  name: string | null;
  pcie_generation: number | null;
  pcie_link_width: number | null;
  power_draw_watts: number | null;
  power_limit_watts: number | null;
  temperature_celsius: number | null;
  /** 0 to 100; null: not known */
  utilization_gpu_percent: number | null;
  /** 0 to 100; null: not known */
  utilization_memory_percent: number | null;
  uuid: string | null;
  vendor: string;
}

export interface GpuNode {
  /** seconds since it was read */
  age_seconds: number | null;
  cluster_id: string;
  gpu_count: number;
  gpus: Gpu[];
  /** of the Node object */
  labels: Record<string, string>;
  node_name: string;
  simulated: boolean;
  source: string | null;
  /** nothing newer came for longer than it should take */
  stale: boolean;
  /** of those GPUs of which it is known */
  total_memory_mb: number;
}

export interface GpuProcess {
  /** seconds since it was read */
  age_seconds: number | null;
  cluster_id: string;
  /** the program's name, never its arguments */
  command: string | null;
  container: string | null;
  /** 0 to 100; null: not known */
  decoder_utilization: number | null;
  /** 0 to 100; null: not known */
  encoder_utilization: number | null;
  /** bytes / 2^20; null: not known */
  fb_memory_mb: number | null;
  gpu_id: string;
  gpu_index: number | null;
  /** 0 to 100; null: not known */
  memory_utilization: number | null;
  namespace: string | null;
  node_name: string;
  pid: number;
  pod: string | null;
  /** compute (also where it is both), graphics or unknown */
  process_type: string;
  simulated: boolean;
  /** 0 to 100; null: not known */
  sm_utilization: number | null;
  /** nothing newer came for longer than it should take */
  stale: boolean;
}

export interface GpuSummary {
  /** since the cluster last answered */
  age_seconds: number | null;
  average_gpu_utilization_percent: number | null;
  average_temperature_celsius: number | null;
  cluster_id: string;
  gpu_count: number;
  /** used of total, of GPUs of which both are known */
  memory_utilization_percent: number | null;
  /** nodes with GPUs */
  node_count: number;
  simulated: boolean;
  /** the cluster is out of reach, or all its GPUs are stale: the last that is known */
  stale: boolean;
  total_memory_mb: number;
  used_memory_mb: number;
}

export interface Health {
  reason: string | null;
  state: HealthState;
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
  /** grows with every change of what the fleet knows */
  generation: number;
  /** incompatible, stale, then unread; `limit` at most */
  nodes: NodeRow[];
  /** all nodes, by their state */
  nodes_by_state: Record<string, number>;
  /** nothing of all this */
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
  scope: "cluster" | "device" | "fleet" | "model" | "namespace" | "pod" | "vendor";
  /** all of it or a part, by clusters as they are now */
  simulated: boolean;
  /** ring: what this process saw by the minute */
  source: "prometheus" | "ring";
  /** of the first value, seconds since the epoch */
  start: number;
  step_seconds: number;
}

export interface IdlePod {
  age_seconds: number | null;
  cluster: string;
  /** idle time of all of them together; a share of a device counts as its share */
  device_hours: number;
  /** devices or partitions that it holds and does not use */
  devices: number;
  /** all of them are idle for at least so long */
  idle_seconds: number;
  /** that it still holds there; null: not known */
  memory_used_bytes: number | null;
  /** of those devices */
  models: string[];
  namespace: string;
  node: string;
  owner_kind: string | null;
  owner_name: string | null;
  pod: string;
  simulated: boolean;
  /** fresh or stale */
  state: string;
}

export interface IdlePods {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** of all pages together */
  device_hours: number;
  /** grows with every change of what the fleet knows */
  generation: number;
  items: IdlePod[];
  /** cursor of the next page; null: this is the last */
  next: string | null;
  total: number;
}

export interface Link {
  active: boolean | null;
  bytes_per_second: number | null;
  errors: LinkErrors[];
  index: number;
  kind: string;
  receive_bytes_total: number | null;
  remote: string | null;
  transmit_bytes_total: number | null;
}

export interface LinkErrors {
  count: number;
  kind: string;
}

export interface NamespaceRow {
  cluster: string;
  containers: number;
  /** that its pods hold or use */
  devices: number;
  devices_allocated: number;
  devices_idle: number;
  /** of clusters that are simulated */
  devices_simulated: number;
  devices_stale: number;
  /** null: not known of any of its devices */
  energy_joules: number | null;
  /** null: not known of any of its devices */
  memory_used_bytes: number | null;
  namespace: string;
  nodes: number;
  pods: number;
  processes: number;
  utilization_ratio: number | null;
}

export interface Namespaces {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** grows with every change of what the fleet knows */
  generation: number;
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
  attribution: AttributionSourceState[];
  devices: DeviceRow[];
  /** grows with every change of what the fleet knows */
  generation: number;
  /** between two readings there */
  interval_seconds: number | null;
  /** of the Node object */
  labels: Record<string, string>;
  node: NodeRow;
  pods: PodRow[];
  processes: ProcessRow[];
  readers: ReaderState[];
  sinks: SinkState[];
  /** what is in use and no pod's */
  unattributed: Unattributed[];
}

export interface NodeRow {
  /** seconds; null: not known */
  age_seconds: number | null;
  agent_version: string | null;
  cluster: string;
  devices: number;
  devices_lost: number;
  /** warning, critical or lost */
  devices_unhealthy: number;
  /** bytes; null: not known */
  memory_total_bytes: number | null;
  /** bytes; null: not known */
  memory_used_bytes: number | null;
  /** models of its devices, separated by commas */
  models: string | null;
  node: string;
  pods: number;
  power_watts: number | null;
  processes: number;
  /** why it is not fresh, or was not read the last time */
  reason: string | null;
  simulated: boolean;
  /** the sources that it was read from, by precedence */
  source: string | null;
  /** fresh, stale, incompatible or unread */
  state: string;
  /** when it was read, seconds since the epoch */
  taken_at: number | null;
  temperature_max_celsius: number | null;
  /** mean of its devices, 0 to 1 */
  utilization_ratio: number | null;
  /** vendors of its devices, separated by commas */
  vendors: string | null;
}

export interface NumberColumn {
  kind: "number";
  /** by row; null: not known */
  values: (number | null)[];
}

export type OwnerKind = "container" | "none" | "pod" | "slurm_job" | "systemd_unit" | "unknown" | "user";

export interface DeviceRowPage {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** grows with every change of what the fleet knows */
  generation: number;
  items: DeviceRow[];
  /** cursor of the next page; null: this is the last */
  next: string | null;
  /** rows on all pages together */
  total: number;
}

export interface NodeRowPage {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** grows with every change of what the fleet knows */
  generation: number;
  items: NodeRow[];
  /** cursor of the next page; null: this is the last */
  next: string | null;
  /** rows on all pages together */
  total: number;
}

export interface PodRowPage {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** grows with every change of what the fleet knows */
  generation: number;
  items: PodRow[];
  /** cursor of the next page; null: this is the last */
  next: string | null;
  /** rows on all pages together */
  total: number;
}

export interface ProcessRowPage {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** grows with every change of what the fleet knows */
  generation: number;
  items: ProcessRow[];
  /** cursor of the next page; null: this is the last */
  next: string | null;
  /** rows on all pages together */
  total: number;
}

export interface Partition {
  compute_instance_id: number | null;
  device_name: string | null;
  dram_active_ratio: number | null;
  gpu_instance_id: number | null;
  id: string;
  index: number | null;
  memory_free_bytes: number | null;
  memory_total_bytes: number | null;
  memory_used_bytes: number | null;
  multiprocessors: number | null;
  profile: string | null;
  sm_active_ratio: number | null;
  tensor_active_ratio: number | null;
  utilization_ratio: number | null;
  uuid: string | null;
}

export interface Pcie {
  generation: number | null;
  max_generation: number | null;
  max_width: number | null;
  receive_bytes_per_second: number | null;
  receive_bytes_total: number | null;
  replays_total: number | null;
  transmit_bytes_per_second: number | null;
  transmit_bytes_total: number | null;
  width: number | null;
}

export interface Pod {
  labels: [string, string][];
  name: string;
  namespace: string;
  owner_kind: string | null;
  owner_name: string | null;
  uid: string;
}

export interface PodDetail {
  /** device ids that it was given */
  allocations: Allocation[];
  /** when this was answered, seconds since the epoch */
  at: number;
  cluster: string;
  /** one for each container and device */
  containers: PodRow[];
  devices: DeviceRow[];
  /** grows with every change of what the fleet knows */
  generation: number;
  namespace: string;
  /** what is known of the pod as such */
  object: Pod | null;
  pod: string;
  processes: ProcessRow[];
}

export interface PodRow {
  /** seconds; null: not known */
  age_seconds: number | null;
  /** device ids that it holds; 0: it only uses the device */
  allocated: number;
  cluster: string;
  /** 0 to 1; null: not known */
  compute_share_ratio: number | null;
  container: string;
  /** id of the device */
  device: string;
  energy_joules: number | null;
  /** seconds; null: not known */
  idle_seconds: number | null;
  /** bytes; null: not known */
  memory_share_bytes: number | null;
  /** bytes; null: not known */
  memory_used_bytes: number | null;
  model: string | null;
  namespace: string;
  node: string;
  owner_kind: string | null;
  owner_name: string | null;
  partition: string | null;
  pod: string;
  pod_uid: string | null;
  processes: number;
  /** names of the resources it asked for, by commas */
  resources: string | null;
  simulated: boolean;
  source: string;
  state: string;
  taken_at: number;
  unusual: string | null;
  /** 0 to 1; null: not known */
  utilization_ratio: number | null;
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
  status: number;
  title: string;
  /** identifies the kind of problem; does not change with versions */
  type: string;
}

export interface ProcessRow {
  /** seconds; null: not known */
  age_seconds: number | null;
  cluster: string;
  container: string | null;
  /** of the node's CPUs, 1 is one; null: not known */
  cpu_ratio: number | null;
  /** 0 to 1; null: not known */
  decoder_utilization_ratio: number | null;
  device: string;
  device_index: number | null;
  /** 0 to 1; null: not known */
  encoder_utilization_ratio: number | null;
  /** bytes; null: not known */
  memory_bytes: number | null;
  /** 0 to 1; null: not known */
  memory_utilization_ratio: number | null;
  name: string | null;
  namespace: string | null;
  node: string;
  /** container, job, unit or user of a process in no pod */
  owner: string | null;
  owner_kind: string | null;
  partition: string | null;
  pid: number;
  pod: string | null;
  /** of the node's own memory, bytes; null: not known */
  resident_memory_bytes: number | null;
  simulated: boolean;
  source: string;
  /** by the node's clock, seconds since the epoch; null: not known */
  started_at: number | null;
  state: string;
  taken_at: number;
  /** compute, graphics or both */
  type: string | null;
  user: string | null;
  /** 0 to 1; null: not known */
  utilization_ratio: number | null;
  vendor: string;
}

export interface Rail {
  amperes: number | null;
  name: string;
  volts: number | null;
  watts: number | null;
}

export interface ReaderState {
  abandoned_calls: number;
  devices_expected: number;
  devices_seen: number;
  driver_version: string | null;
  duration_seconds: number | null;
  errors: Counted[];
  found: boolean;
  last_success: number | null;
  reason: string | null;
  rejected: Counted[];
  source: string | null;
  up: boolean;
  vendor: Vendor;
}

export interface Refreshed {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** as it is after the refresh */
  cluster: ClusterView;
  /** grows with every change of what the fleet knows */
  generation: number;
}

export interface RemappedRows {
  correctable: number | null;
  failed: boolean | null;
  pending: boolean | null;
  uncorrectable: number | null;
}

export interface Sensor {
  celsius: number;
  name: string;
}

export type Severity = "critical" | "info" | "warning";

export interface SinkState {
  error: string | null;
  errors: Counted[];
  last_success: number | null;
  reason: string | null;
  sink: string;
  skips: number;
  up: boolean;
  writes: number;
}

export interface SourceView {
  answered: number;
  duration_seconds: number | null;
  /** refreshes that failed, and nodes that did not answer */
  errors: number;
  /** nodes that it should have heard of */
  expected: number;
  /** agents, exec, annotations or prometheus */
  kind: string;
  reason: string | null;
  /** seconds since the epoch */
  refreshed_at: number | null;
  succeeded_at: number | null;
  /** why it is not up, for people */
  text: string | null;
  /** null: not asked yet */
  up: boolean | null;
}

export interface Summary {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** grows with every change of what the fleet knows */
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
  /** null here and below: not grouped by it, or not known */
  cluster: string | null;
  containers: number;
  devices: number;
  /** held by some container, whole or in part */
  devices_allocated: number;
  /** held, and nothing was done with them for long */
  devices_idle: number;
  devices_lost: number;
  /** of clusters that are simulated */
  devices_simulated: number;
  /** counted with their last values */
  devices_stale: number;
  /** warning, critical or lost */
  devices_unhealthy: number;
  /** sum */
  energy_joules: number | null;
  health: string | null;
  /** null: none of its devices tells */
  memory_total_bytes: number | null;
  memory_used_bytes: number | null;
  model: string | null;
  namespace: string | null;
  node: string | null;
  /** nodes of its devices */
  nodes: number;
  pods: number;
  /** sum */
  power_limit_watts: number | null;
  /** sum */
  power_watts: number | null;
  /** a process on two devices counts twice */
  processes: number;
  /** mean */
  temperature_celsius: number | null;
  temperature_max_celsius: number | null;
  /** mean, 0 to 1; null: not known */
  utilization_ratio: number | null;
  vendor: string | null;
}

export interface TextColumn {
  /** by row: a place in `texts`; null: not known */
  codes: (number | null)[];
  kind: "text";
  /** each text once */
  texts: string[];
}

export interface Throttle {
  active: boolean;
  reason: string;
}

export interface Unattributed {
  device: string;
  kind: OwnerKind;
  memory_used_bytes: number | null;
  name: string | null;
  processes: number;
  reason: UnattributedReason;
}

export type UnattributedReason = "cgroup_hidden" | "no_permission" | "no_pod_source" | "no_process" | "not_in_a_pod" | "pod_unknown" | "process_gone";

export interface UnusualReport {
  /** when this was answered, seconds since the epoch */
  at: number;
  /** `limit` at most */
  devices: DeviceRow[];
  devices_total: number;
  /** grows with every change of what the fleet knows */
  generation: number;
  /** `limit` at most */
  pods: PodRow[];
  pods_total: number;
}

export type Vendor = "amd" | "ascend" | "furiosa" | "nvidia";

export interface Version {
  /** grows with every change of what the fleet knows */
  generation: number;
  /** of agents that it understands: this major version */
  snapshot_schema: string;
  version: string;
}
