// Parameters of an address that filter a table: the fields of its rows and their bounds. Other parameters, such as those
// added by mail programs, are ignored.
import type { DeviceRow, NodeRow, PodRow, ProcessRow } from "../../api/types";

// The compiler checks that all fields of the API's row are listed.
function fieldsOf<R>(fields: Record<keyof R, true>): readonly string[] {
  return Object.keys(fields);
}

export const DEVICE_FIELDS = fieldsOf<DeviceRow>({
  age_seconds: true,
  allocated: true,
  cluster: true,
  driver_version: true,
  ecc_uncorrected: true,
  energy_joules: true,
  errors: true,
  fan_speed_ratio: true,
  firmware_version: true,
  health: true,
  health_action: true,
  health_reason: true,
  id: true,
  idle_seconds: true,
  index: true,
  memory_free_bytes: true,
  memory_total_bytes: true,
  memory_used_bytes: true,
  memory_utilization_ratio: true,
  model: true,
  namespaces: true,
  node: true,
  partitions: true,
  pci_address: true,
  pcie_generation: true,
  pcie_width: true,
  power_limit_watts: true,
  power_watts: true,
  processes: true,
  serial: true,
  simulated: true,
  source: true,
  state: true,
  taken_at: true,
  temperature_celsius: true,
  temperature_margin_celsius: true,
  temperature_slowdown_celsius: true,
  throttled: true,
  unusual: true,
  utilization_ratio: true,
  uuid: true,
  vendor: true,
});

export const NODE_FIELDS = fieldsOf<NodeRow>({
  age_seconds: true,
  agent_version: true,
  cluster: true,
  devices: true,
  devices_lost: true,
  devices_unhealthy: true,
  memory_total_bytes: true,
  memory_used_bytes: true,
  memory_used_ratio: true,
  models: true,
  node: true,
  pods: true,
  power_watts: true,
  processes: true,
  reason: true,
  simulated: true,
  source: true,
  state: true,
  taken_at: true,
  temperature_max_celsius: true,
  utilization_ratio: true,
  vendors: true,
});

export const POD_FIELDS = fieldsOf<PodRow>({
  age_seconds: true,
  allocated: true,
  cluster: true,
  compute_share_ratio: true,
  device_share_ratio: true,
  container: true,
  device: true,
  energy_joules: true,
  idle_seconds: true,
  memory_share_bytes: true,
  memory_used_bytes: true,
  model: true,
  namespace: true,
  node: true,
  owner_kind: true,
  owner_name: true,
  partition: true,
  pod: true,
  pod_uid: true,
  processes: true,
  resources: true,
  simulated: true,
  source: true,
  state: true,
  taken_at: true,
  unusual: true,
  utilization_ratio: true,
  vendor: true,
});

export const PROCESS_FIELDS = fieldsOf<ProcessRow>({
  age_seconds: true,
  cluster: true,
  container: true,
  cpu_ratio: true,
  decoder_utilization_ratio: true,
  device: true,
  device_index: true,
  encoder_utilization_ratio: true,
  memory_bytes: true,
  memory_utilization_ratio: true,
  name: true,
  namespace: true,
  node: true,
  owner: true,
  owner_kind: true,
  partition: true,
  pid: true,
  pod: true,
  resident_memory_bytes: true,
  simulated: true,
  source: true,
  started_at: true,
  state: true,
  taken_at: true,
  type: true,
  user: true,
  utilization_ratio: true,
  vendor: true,
});

export const NAMESPACE_FIELDS: readonly string[] = ["cluster", "namespace", "vendor", "model"];

const COMMON_FILTERS = ["q", "present", "absent"]; // supported by every table

// name: parameter of the API.
export function isFilter(name: string, fields: readonly string[]): boolean {
  return (
    COMMON_FILTERS.includes(name) || fields.includes(name.replace(/_(min|max)$/, "")) || fields.includes(name)
  );
}
