// Identity and configuration of a device.
import type { DeviceDetail } from "../../api/types";
import { linkTo } from "../../app/routes";
import { count, duration, energy } from "../../app/units";
import type { Fact } from "../../parts/facts";
import { Health, words } from "../../parts/health";
import { vendorName } from "../../parts/vendor";
import { yesNo } from "./units";

export function identityOf({ device, reading }: DeviceDetail): Fact[] {
  const { cluster, node } = device;
  const why = new Map(reading?.absent.map(({ field, reason }) => [field, reason]));
  const always: Fact[] = [
    ["Health", <Health key="health" state={device.health} />],
    ...(device.unusual === null ? [] : ([["Anomaly", words(device.unusual)]] as const)),
    ["Vendor", vendorName(device.vendor)],
    ["Model", device.model, why.get("model") ?? null],
    ["Index", device.index === null ? null : String(device.index), why.get("index") ?? null],
    [
      "Node",
      <a key="node" href={linkTo("node", { cluster, node })}>
        {node}
      </a>,
    ],
    ...(device.uuid !== null && device.id.endsWith(device.uuid) ? [] : ([["Id", device.id]] as const)),
    ["UUID", device.uuid, why.get("uuid") ?? null],
    ["Serial number", device.serial, why.get("serial") ?? null],
    ["PCI address", device.pci_address, why.get("pci_address") ?? null],
    ["Driver", device.driver_version, why.get("driver_version") ?? null],
    ["Firmware", device.firmware_version, why.get("firmware_version") ?? null],
    ["Energy", energy(device.energy_joules), why.get("energy_joules") ?? null],
    ["Source", device.source],
  ];
  return [...always, ...known(optionsOf(reading))];
}

function optionsOf(reading: DeviceDetail["reading"]): Fact[] {
  if (!reading) return [];
  const whole = (value: number | null) => (value === null ? null : String(value));
  return [
    ["Vendor health status", reading.health.vendor_word],
    ["Architecture", reading.architecture],
    ["Device file", reading.device_name],
    ["NUMA node", whole(reading.numa_node)],
    ["Revision", reading.revision],
    ["Board", whole(reading.board_id)],
    ["Chip", whole(reading.chip_id)],
    ["Physical id", whole(reading.physical_id)],
    ["ECC", yesNo(reading.ecc_enabled)],
    ["MIG", yesNo(reading.mig_enabled)],
    ["Persistence mode", yesNo(reading.persistence_mode)],
    ["Performance state", reading.performance_state === null ? null : `P${reading.performance_state}`],
    ["Compute partition", reading.compute_partition],
    ["Memory partition", reading.memory_partition],
    ["Uptime", reading.uptime_seconds === null ? null : duration(reading.uptime_seconds)],
    ["Remapped rows", remapped(reading.remapped_rows)],
  ];
}

function remapped(rows: NonNullable<DeviceDetail["reading"]>["remapped_rows"]): string | null {
  if (rows === null) return null;
  const parts = [`${count(rows.correctable)} correctable`, `${count(rows.uncorrectable)} uncorrectable`];
  if (rows.pending) parts.push("one pending (reset required)");
  if (rows.failed) parts.push("failed");
  return parts.join(", ");
}

// Only known facts. Missing values are listed with their reason elsewhere.
function known(facts: readonly Fact[]): Fact[] {
  return facts.filter(([, value]) => value !== null && value !== undefined);
}
