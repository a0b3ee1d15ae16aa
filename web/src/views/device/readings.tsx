// Further current values: activity, clocks, sensors, throttling, PCIe, rails, fans, cores.
import type { Device } from "../../api/types";
import { HARMLESS_THROTTLES } from "../../api/vendors";
import { ABSENT, celsius, percent, watts } from "../../app/units";
import { Value } from "../../parts/absent";
import { Badge } from "../../parts/badge";
import { Bar } from "../../parts/bar";
import { type Fact, Facts } from "../../parts/facts";
import { words } from "../../parts/health";
import { Panel } from "../../parts/panel";
import { SmallTable } from "../../parts/small-table";
import { amperes, hertz, perSecond, volts } from "./units";

const ACTIVITIES: readonly (readonly [keyof Device, string])[] = [
  ["memory_utilization_ratio", "Memory bus"],
  ["graphics_active_ratio", "Graphics active"],
  ["sm_active_ratio", "SM active"],
  ["sm_occupancy_ratio", "SM occupancy"],
  ["tensor_active_ratio", "Tensor active"],
  ["dram_active_ratio", "DRAM active"],
  ["fp64_active_ratio", "FP64 active"],
  ["fp32_active_ratio", "FP32 active"],
  ["fp16_active_ratio", "FP16 active"],
  ["vector_utilization_ratio", "Vector units"],
  ["encoder_utilization_ratio", "Encoder"],
  ["decoder_utilization_ratio", "Decoder"],
  ["jpeg_utilization_ratio", "JPEG"],
  ["optical_flow_utilization_ratio", "Optical flow"],
];

interface DeviceKey {
  name: string;
  ratio: number | null; // null: the maximum is unknown
  text?: string | undefined;
}

function Bars({ rows, wide = false }: { rows: readonly DeviceKey[]; wide?: boolean }) {
  return (
    <dl class={wide ? "device-bars device-bars-wide" : "device-bars"}>
      {rows.map(({ name, ratio, text }) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            <Bar ratio={ratio} label={name} text={text} wide />
          </dd>
        </div>
      ))}
    </dl>
  );
}

export function Activity({ reading }: { reading: Device }) {
  const rows = ACTIVITIES.flatMap(([field, name]) => {
    const ratio = reading[field];
    return typeof ratio === "number" ? [{ name, ratio }] : [];
  });
  if (rows.length === 0) return null;
  return (
    <Panel title="Activity" aside="by engine">
      <Bars rows={rows} />
    </Panel>
  );
}

export function Clocks({ reading }: { reading: Device }) {
  if (reading.clocks.length === 0) return null;
  return (
    <Panel title="Clocks">
      <Bars
        wide
        rows={reading.clocks.flatMap(({ domain, hertz: now, max_hertz: most }) =>
          now === null
            ? []
            : [
                {
                  name: domain,
                  ratio: most ? now / most : null,
                  text: most ? `${hertz(now)} of ${hertz(most)}` : hertz(now),
                },
              ],
        )}
      />
    </Panel>
  );
}

export function Cores({ reading }: { reading: Device }) {
  if (reading.cores.length === 0) return null;
  return (
    <Panel title="Cores" aside={String(reading.cores.length)}>
      <ul class="device-cores">
        {reading.cores.map((core) => (
          <li key={core.index}>
            <span class="soft">{core.index}</span>
            <Bar ratio={core.utilization_ratio} label={`core ${core.index}`} wide />
            <span class="soft small">
              {core.occupied === null ? "" : core.occupied ? "occupied" : "free"}
            </span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

export function State({ reading }: { reading: Device }) {
  const active = reading.throttles.filter((one) => one.active);
  const { pcie } = reading;
  const facts: Fact[] = [
    ["Throttled by", throttled(reading, active)],
    ...reading.sensors.map(({ name, celsius: at }): Fact => [`Sensor ${words(name)}`, celsius(at)]),
    ...reading.fans.map(
      ({ index, speed_ratio, speed_rpm }): Fact => [
        `Fan ${index}`,
        [speed_ratio === null ? null : percent(speed_ratio), speed_rpm === null ? null : `${speed_rpm} rpm`]
          .filter(Boolean)
          .join(", "),
      ],
    ),
    ["Power limits", limits(reading)],
  ];
  if (pcie) {
    facts.push(["PCIe", link(pcie)]);
    if (pcie.transmit_bytes_per_second !== null || pcie.receive_bytes_per_second !== null)
      facts.push([
        "PCIe traffic",
        `${perSecond(pcie.transmit_bytes_per_second)} out, ${perSecond(pcie.receive_bytes_per_second)} in`,
      ]);
    if (pcie.replays_total !== null) facts.push(["PCIe replays", String(pcie.replays_total)]);
  }
  return (
    <Panel title="State">
      <Facts facts={facts} />
    </Panel>
  );
}

function throttled(reading: Device, active: readonly { reason: string }[]) {
  if (reading.throttles.length === 0) return null;
  if (active.length === 0) return "none";
  return (
    <>
      {active.map(({ reason }) => (
        <Badge key={reason} tone={HARMLESS_THROTTLES.includes(reason) ? "plain" : "warning"}>
          {words(reason)}
        </Badge>
      ))}
    </>
  );
}

function limits({
  power_limit_min_watts: least,
  power_limit_default_watts: usual,
  power_limit_max_watts: most,
}: Device) {
  const parts = [
    least === null ? null : `min ${watts(least)}`,
    most === null ? null : `max ${watts(most)}`,
    usual === null ? null : `default ${watts(usual)}`,
  ].filter(Boolean);
  return parts.length > 0 ? parts.join(", ") : null;
}

// A degraded PCIe link is a common reason for slow workloads.
function link(pcie: NonNullable<Device["pcie"]>) {
  const { generation, width, max_generation, max_width } = pcie;
  if (generation === null && width === null) return null;
  const text = `generation ${generation ?? ABSENT}, ×${width ?? ABSENT}`;
  const less =
    (max_width !== null && width !== null && width < max_width) ||
    (max_generation !== null && generation !== null && generation < max_generation);
  return less ? (
    <>
      {text}{" "}
      <Badge tone="warning">
        supports {max_generation ?? ABSENT}, ×{max_width ?? ABSENT}
      </Badge>
    </>
  ) : (
    text
  );
}

export function Rails({ reading }: { reading: Device }) {
  if (reading.rails.length === 0) return null;
  return (
    <Panel title="Rails" flush>
      <SmallTable
        caption="Voltage, current and power by rail"
        columns={["Rail", "#Voltage", "#Current", "#Power"]}
        rows={reading.rails.map((rail) => ({
          key: rail.name,
          cells: [
            words(rail.name),
            <Value key="volts" text={volts(rail.volts)} />,
            <Value key="amperes" text={amperes(rail.amperes)} />,
            <Value key="watts" text={watts(rail.watts)} />,
          ],
        }))}
      />
    </Panel>
  );
}
