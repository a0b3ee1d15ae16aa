// The past of the fleet or of a cluster: use, memory, power, by the minute.
import { useState } from "preact/hooks";
import type { Parameters } from "../../api/client";
import type { HistorySeries } from "../../api/types";
import { SPANS, type Span, useHistory } from "../../charts/history";
import { TimeChart } from "../../charts/time-chart";
import { Panel } from "../../parts/panel";
import { Answer, Loading } from "../../parts/states";
import "./history-panel.css";

export function HistoryPanel({ of }: { of: Parameters }) {
  const [span, setSpan] = useState<Span>("1 h");
  const history = useHistory(of, SPANS[span]);
  return (
    <Panel
      title="History"
      aside={
        <span class="history-spans">
          {(Object.keys(SPANS) as Span[]).map((one) => (
            <button key={one} type="button" aria-pressed={one === span} onClick={() => setSpan(one)}>
              {one}
            </button>
          ))}
        </span>
      }
    >
      <Answer of={history} loading={<Loading rows={6} />}>
        {(series) => <Charts series={series} span={SPANS[span]} />}
      </Answer>
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
