// History of the fleet or a cluster: use, memory, power.
import type { Parameters } from "../../api/client";
import type { HistorySeries } from "../../api/types";
import { type Scope, SPANS, useHistory } from "../../charts/history";
import { chosenSpan, SpanButtons } from "../../charts/span-buttons";
import { TimeChart } from "../../charts/time-chart";
import { Panel } from "../../parts/panel";
import { Loading, ResourceView } from "../../parts/states";
import "./history-panel.css";

export function HistoryPanel({ of }: { of: Parameters & { scope: Scope } }) {
  const span = SPANS[chosenSpan()];
  const history = useHistory(of, span);
  return (
    <Panel title="History" aside={<SpanButtons scope={of.scope} kept={history.data?.source === "ring"} />}>
      <div class="history">
        <ResourceView of={history} loading={<Loading rows={5} />}>
          {(series) => <Charts series={series} span={span} />}
        </ResourceView>
      </div>
    </Panel>
  );
}

function Charts({ series, span }: { series: HistorySeries; span: number }) {
  const { fields, start, step_seconds: step } = series;
  const of = (name: string) => fields[name] ?? [];
  const when = { start, step, spanSeconds: span, height: 130, syncKey: "overview" };
  return (
    <div class="history-charts">
      <TimeChart
        {...when}
        title="Use"
        series={[{ label: "Use", values: of("utilization_ratio"), unit: "ratio" }]}
      />
      <TimeChart
        {...when}
        title="Memory"
        series={[
          { label: "Used", values: of("memory_used_bytes"), unit: "bytes" },
          { label: "Total", values: of("memory_total_bytes"), unit: "bytes", colour: "ink-soft" },
        ]}
      />
      <TimeChart
        {...when}
        title="Power"
        series={[{ label: "Power", values: of("power_watts"), unit: "watts" }]}
      />
    </div>
  );
}
