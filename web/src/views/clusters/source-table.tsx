import type { SourceView } from "../../api/types";
import { count, shortDuration } from "../../app/units";
import { Absent, Value } from "../../parts/absent";
import { Age } from "../../parts/age";
import { Empty } from "../../parts/states";
import { sourceStatus } from "./status";
import { StatusLabel } from "./status-label";

export function SourceTable({ sources }: { sources: readonly SourceView[] }) {
  if (sources.length === 0)
    return <Empty title="No active sources">Sources are retried when the cluster is reachable.</Empty>;
  return (
    <table class="plain">
      <caption class="visually-hidden">Sources of this cluster</caption>
      <thead>
        <tr>
          <th scope="col">Source</th>
          <th scope="col">State</th>
          <th scope="col" class="number">
            Nodes read
          </th>
          <th scope="col" class="number">
            Errors
          </th>
          <th scope="col" class="number">
            Duration
          </th>
          <th scope="col" class="number">
            Last success
          </th>
          <th scope="col">Reason</th>
        </tr>
      </thead>
      <tbody>
        {sources.map((source) => {
          const status = sourceStatus(source);
          return (
            <tr key={source.kind}>
              <th scope="row">{source.kind}</th>
              <td>
                <StatusLabel status={status} />
              </td>
              <td class="number">
                {source.up === null ? <Absent /> : `${count(source.answered)} of ${count(source.expected)}`}
              </td>
              <td class="number">{count(source.errors)}</td>
              <td class="number">
                <Value text={shortDuration(source.duration_seconds)} />
              </td>
              <td class="number">
                <Age at={source.succeeded_at} reason="none yet" />
              </td>
              <td class="wraps">{status.why ?? ""}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
