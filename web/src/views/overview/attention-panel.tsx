import type { Problem } from "../../api/client";
import { count } from "../../app/units";
import { HealthIcon } from "../../parts/health";
import { Panel } from "../../parts/panel";
import { Empty, Loading, ProblemNote } from "../../parts/states";
import { attention, type OverviewData, tallies } from "./attention";
import "./attention.css";

const SHOWN = 12;

interface Props {
  known: OverviewData;
  problem: Problem | null;
  retry: () => void;
}

export function AttentionPanel({ known, problem, retry }: Props) {
  const counted = tallies(known);
  const items = attention(known).slice(0, SHOWN);
  return (
    <Panel title="Needs attention" flush>
      {problem ? <ProblemNote problem={problem} retry={retry} /> : null}
      {counted.length > 0 ? (
        <ul class="attention-tallies" aria-label="Problem counts">
          {counted.map((tally) => (
            <li key={tally.word}>
              <a class={`attention-tally health-${tally.tone}`} href={tally.href}>
                <HealthIcon tone={tally.tone} /> {count(tally.count)} {tally.word}
              </a>
            </li>
          ))}
        </ul>
      ) : null}
      {known.health === null && problem === null ? <Loading rows={8} /> : null}
      {known.health !== null && items.length === 0 ? (
        <Empty title="No problems">
          No device is lost, unhealthy, hot or throttled, no node is stale, and no pod has idle devices.
        </Empty>
      ) : null}
      <ul class="attention">
        {items.map((item) => (
          <li key={item.key} class="attention-item">
            <span class={`attention-word health-${item.tone}`}>
              <HealthIcon tone={item.tone} /> {item.word}
            </span>
            <span class="attention-what">
              <a href={item.href}>{item.title}</a> <span class="soft">{item.where}</span>
              {item.text ? <span class="attention-text">{item.text}</span> : null}
            </span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
