// State of a node's agent: readers, attribution sources and sinks.
import type { AgentState, NodeDetail, ReasonCount } from "../../api/types";
import { bytes, count, duration, shortDuration } from "../../app/units";
import { Value } from "../../parts/absent";
import { Age } from "../../parts/age";
import { type Fact, Facts } from "../../parts/facts";
import { Health, words } from "../../parts/health";
import { Panel } from "../../parts/panel";
import { SmallTable } from "../../parts/small-table";
import { Empty } from "../../parts/states";
import { vendorName } from "../../parts/vendor";

export function Agent({ detail }: { detail: NodeDetail }) {
  const { agent } = detail;
  return (
    <Panel title="Agent">
      {agent ? (
        <Facts facts={factsOf(agent, detail.interval_seconds)} />
      ) : (
        <Empty title="No agent on this node">
          Data source: {detail.node.source?.replaceAll(",", ", ") ?? "none yet"}.
        </Empty>
      )}
    </Panel>
  );
}

function factsOf(agent: AgentState, interval: number | null): Fact[] {
  return [
    ["Version", agent.version],
    ["Started", <Age key="started" at={agent.started_at} />],
    ["Collection interval", duration(interval)],
    ["Last collection took", shortDuration(agent.collection_seconds)],
    ["Collections", count(agent.collections)],
    ["Overruns", count(agent.overruns)],
    ["Agent memory", bytes(agent.memory_bytes)],
    ["Agent CPU time", shortDuration(agent.cpu_seconds)],
    ["Threads", count(agent.threads)],
    ["Open files", count(agent.open_files)],
    ...(agent.config_reloads.length > 0
      ? ([["Configuration reloads", counted(agent.config_reloads)]] as const)
      : []),
    ...(agent.token_reviews.length > 0 ? ([["Token reviews", counted(agent.token_reviews)]] as const) : []),
  ];
}

export function Readers({ readers }: { readers: NodeDetail["readers"] }) {
  const found = readers.filter(
    (reader) => reader.found || reader.reason !== null || reader.devices_expected > 0,
  );
  if (found.length === 0) return null;
  return (
    <Panel title="Readers" aside="one per vendor driver" flush>
      <SmallTable
        caption="Driver readers on this node"
        columns={[
          "Vendor",
          "State",
          "Source",
          "#Devices",
          "#Duration",
          "Last success",
          "Errors",
          "Rejected values",
        ]}
        rows={found.map((reader) => ({
          key: reader.vendor,
          cells: [
            vendorName(reader.vendor),
            <Up key="up" up={reader.up} reason={reader.reason} />,
            <Value key="source" text={reader.source} />,
            `${count(reader.devices_seen)} of ${count(reader.devices_expected)}`,
            <Value key="took" text={shortDuration(reader.duration_seconds)} />,
            <Age key="age" at={reader.last_success} />,
            <Value key="errors" text={withAbandoned(reader.errors, reader.abandoned_calls)} />,
            counted(reader.rejected),
          ],
        }))}
      />
    </Panel>
  );
}

export function Attribution({ sources }: { sources: NodeDetail["attribution"] }) {
  if (sources.length === 0) return null;
  return (
    <Panel title="Attribution" aside="how devices are matched to pods" flush>
      <SmallTable
        caption="Sources of attribution on this node"
        columns={["Source", "State", "Details", "Last success", "Errors"]}
        rows={sources.map((source) => ({
          key: source.source,
          cells: [
            words(source.source),
            <Up key="up" up={source.up} reason={source.error ?? source.reason} />,
            <Value key="detail" text={source.detail} />,
            <Age key="age" at={source.last_success} />,
            counted(source.errors),
          ],
        }))}
      />
    </Panel>
  );
}

export function Sinks({ sinks }: { sinks: NodeDetail["sinks"] }) {
  if (sinks.length === 0) return null;
  return (
    <Panel title="Sinks" aside="outputs of the agent" flush>
      <SmallTable
        caption="Sinks of the agent"
        columns={["Sink", "State", "#Writes", "#Skipped", "Last success", "Errors"]}
        rows={sinks.map((sink) => ({
          key: sink.sink,
          cells: [
            words(sink.sink),
            <Up key="up" up={sink.up} reason={sink.error ?? sink.reason} />,
            count(sink.writes),
            count(sink.skips),
            <Age key="age" at={sink.last_success} />,
            counted(sink.errors),
          ],
        }))}
      />
    </Panel>
  );
}

function Up({ up, reason }: { up: boolean; reason: string | null }) {
  return up ? <Health state="ok" /> : <Health state="critical" reason={reason ?? "no response"} showReason />;
}

function counted(of: readonly ReasonCount[]): string {
  return of.length === 0 ? "none" : of.map((one) => `${words(one.reason)} ${count(one.count)}`).join(", ");
}

function withAbandoned(errors: readonly ReasonCount[], abandoned: number): string {
  const calls = abandoned > 0 ? [{ reason: "hung calls", count: abandoned }] : [];
  return counted([...errors, ...calls]);
}
