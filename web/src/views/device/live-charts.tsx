// Charts of the device: history by the minute, and every reading since the page was opened.
import { useMemo, useRef } from "preact/hooks";
import type { DeviceDetail, DeviceRow, HistorySeries } from "../../api/types";
import { bytes, celsius, watts } from "../../app/units";
import { SPANS, useHistory } from "../../charts/history";
import { LiveSeries } from "../../charts/live-series";
import type { Points } from "../../charts/points";
import { chosenSpan, SpanButtons } from "../../charts/span-buttons";
import { type Limit, TimeChart } from "../../charts/time-chart";
import type { Unit } from "../../charts/units";
import { words } from "../../parts/health";
import { Panel } from "../../parts/panel";
import { ProblemNote } from "../../parts/states";

const FIELDS = ["utilization_ratio", "memory_used_bytes", "power_watts", "temperature_celsius"] as const;
type Field = (typeof FIELDS)[number];

export function LiveCharts({ detail }: { detail: DeviceDetail }) {
  const { device } = detail;
  const span = chosenSpan();
  const past = useHistory(
    { scope: "device", cluster: device.cluster, node: device.node, key: device.id },
    SPANS[span],
  );
  const points = useLive(device, past.data);
  const reasons = new Map(detail.reading?.absent.map(({ field, reason }) => [field, reason]));
  const chart = (field: Field, title: string, unit: Unit, colour: string) => ({
    title,
    times: points.times,
    series: [{ label: title, values: points.fields[field] ?? [], unit, colour }],
    syncKey: "device",
    spanSeconds: SPANS[span],
    empty: reasons.has(field) ? `Not known: ${words(reasons.get(field) ?? "")}` : undefined,
  });
  return (
    <Panel title="Live" aside={<SpanButtons scope="device" kept={past.data?.source === "ring"} />}>
      {past.problem && past.problem.status !== 404 ? (
        <ProblemNote problem={past.problem} retry={past.refetch} />
      ) : null}
      <div class="device-charts">
        <TimeChart {...chart("utilization_ratio", "Use", "ratio", "series-1")} />
        <TimeChart
          {...chart("memory_used_bytes", "Memory", "bytes", "series-2")}
          limits={limit(device.memory_total_bytes, (total) => `total ${bytes(total)}`, "unknown")}
        />
        <TimeChart
          {...chart("power_watts", "Power", "watts", "series-3")}
          limits={limit(device.power_limit_watts, (most) => `limit ${watts(most)}`, "warning")}
        />
        <TimeChart
          {...chart("temperature_celsius", "Temperature", "celsius", "series-5")}
          limits={[
            ...limit(device.temperature_slowdown_celsius, (at) => `slows down at ${celsius(at)}`, "warning"),
            ...limit(
              detail.reading?.temperature_shutdown_celsius ?? null,
              (at) => `shuts down at ${celsius(at)}`,
              "critical",
            ),
          ]}
        />
      </div>
    </Panel>
  );
}

function limit(value: number | null, label: (value: number) => string, tone: Limit["tone"]): Limit[] {
  return value === null ? [] : [{ value, label: label(value), tone }];
}

function useLive(device: DeviceRow, past: HistorySeries | null): Points {
  const live = useRef<LiveSeries>(undefined);
  live.current ??= new LiveSeries();
  const series = live.current;
  return useMemo(() => {
    if (device.taken_at !== null)
      series.push(device.taken_at, Object.fromEntries(FIELDS.map((field) => [field, device[field]])));
    return series.merge(past, FIELDS);
  }, [series, device, past]);
}
