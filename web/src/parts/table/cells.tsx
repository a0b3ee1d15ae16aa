// Cells that several tables share.
import type { DeviceRow, ProcessRow } from "../../api/types";
import { linkTo } from "../../app/routes";
import { bytes, celsius, duration, energy, percent, plural, watts } from "../../app/units";
import { Absent, Value } from "../absent";
import { Badge, Stale } from "../badge";
import { Bar } from "../bar";
import { words } from "../health";
import { heatTone } from "./heat";
import { ofBytes } from "./pair";
import "./cells.css";

type Maybe = number | null | undefined;

export function ClusterCell({ cluster }: { cluster: string }) {
  return <a href={linkTo("cluster", { cluster })}>{cluster}</a>;
}

const TAIL = 6; // characters

// Truncates a name in the middle, since similar names differ at their ends.
export function MiddleEllipsis({ text }: { text: string }) {
  if (text.length <= 2 * TAIL) return <>{text}</>;
  return (
    <span class="cell-name" title={text}>
      {/* Screen readers would read two pieces as two words. */}
      <span class="visually-hidden">{text}</span>
      <span class="cell-head" aria-hidden="true">
        {text.slice(0, -TAIL)}
      </span>
      <span aria-hidden="true">{text.slice(-TAIL)}</span>
    </span>
  );
}

export function NodeCell({ cluster, node }: { cluster: string; node: string }) {
  return (
    <a href={linkTo("node", { cluster, node })}>
      <MiddleEllipsis text={node} />
    </a>
  );
}

export function DeviceName({ node, index }: { node: string; index: number | null }) {
  return (
    <span class="cell-name">
      <MiddleEllipsis text={node} />
      <span>
        <span aria-hidden="true">/</span>
        <span class="visually-hidden"> device </span>
        <Value text={index === null ? null : String(index)} />
      </span>
    </span>
  );
}

export function PodCell({ cluster, namespace, pod }: { cluster: string; namespace: string; pod: string }) {
  return (
    <a href={linkTo("pod", { cluster, namespace, pod })}>
      <MiddleEllipsis text={pod} />
    </a>
  );
}

// The pod of a process, or else its owner.
export function ProcessOwnerCell({ row }: { row: ProcessRow }) {
  if (row.pod !== null && row.namespace !== null)
    return <PodCell cluster={row.cluster} namespace={row.namespace} pod={row.pod} />;
  if (row.owner === null) return <Value text={row.owner_kind === null ? null : words(row.owner_kind)} />;
  return (
    <span title={`${words(row.owner_kind ?? "")} ${row.owner}`}>
      {row.owner_kind && <span class="cell-soft">{words(row.owner_kind)} </span>}
      <MiddleEllipsis text={row.owner} />
    </span>
  );
}

export function TextCell({ text }: { text: string | null | undefined }) {
  return <span title={text ?? undefined}>{text ? text : <Absent />}</span>;
}

export function UseCell({ ratio }: { ratio: Maybe }) {
  return <Bar ratio={ratio} label="use" />;
}

export const NEARLY_FULL = 0.95;

// `ratio` may cover fewer devices than `used` and `total`; then only `used` is shown.
export function MemoryCell({
  used,
  total,
  ratio = ratioOf(used, total),
}: {
  used: Maybe;
  total: Maybe;
  ratio?: number | null;
}) {
  if (ratio === null) return <Value text={bytes(used)} />;
  return (
    <span class="cell-memory">
      <Bar
        ratio={ratio}
        label="memory"
        text={Math.abs(ratio - (ratioOf(used, total) ?? 0)) < 1e-6 ? ofBytes(used, total) : bytes(used)}
        tone={ratio >= NEARLY_FULL ? "warning" : "plain"}
      />
    </span>
  );
}

export function ratioOf(part: Maybe, whole: Maybe): number | null {
  if (part === null || part === undefined || !whole) return null;
  return part / whole;
}

export function TemperatureCell({ at, slowdown }: { at: Maybe; slowdown: Maybe }) {
  if (at === null || at === undefined) return <Absent />;
  const limit = slowdown ? `slows down at ${celsius(slowdown)}` : "hot; slowdown temperature not reported";
  const tone = heatTone(at, slowdown);
  if (tone !== "plain")
    return (
      <Badge tone={tone} title={limit}>
        {celsius(at)}
        <span class="visually-hidden">, {limit}</span>
      </Badge>
    );
  return <span title={slowdown ? limit : undefined}>{celsius(at)}</span>;
}

export function PowerCell({ drawn, limit }: { drawn: Maybe; limit?: Maybe }) {
  const title = limit ? `${percent(ratioOf(drawn, limit))} of the limit of ${watts(limit)}` : undefined;
  return (
    <span title={title}>
      <Value text={watts(drawn)} />
    </span>
  );
}

export function EnergyCell({ joules }: { joules: Maybe }) {
  return <Value text={energy(joules)} />;
}

export const IDLE_FROM = 60; // seconds; shorter pauses between batches count as busy
export const LONG_IDLE = 3600; // seconds; the API's threshold of idle devices

export function IdleCell({ seconds }: { seconds: Maybe }) {
  if (seconds === null || seconds === undefined) return <Absent />;
  if (seconds < IDLE_FROM) return <span class="cell-soft">busy</span>;
  return <Badge tone={seconds >= LONG_IDLE ? "warning" : "plain"}>{duration(seconds)}</Badge>;
}

export function AgeCell({
  seconds,
  stale,
  reason,
}: {
  seconds: Maybe;
  stale: boolean;
  reason?: string | null;
}) {
  return stale ? (
    <Stale ageSeconds={seconds} reason={reason} />
  ) : (
    <Value text={duration(seconds)} reason={reason} />
  );
}

// Badges of a device.
export function DeviceNotes({
  row,
}: {
  row: Pick<DeviceRow, "throttled" | "unusual" | "errors" | "partitions">;
}) {
  return (
    <span class="cell-notes">
      {row.throttled && (
        <Badge tone="warning" title={words(row.throttled)}>
          throttled
        </Badge>
      )}
      {row.unusual && (
        <Badge tone="warning" title={words(row.unusual)}>
          anomaly
        </Badge>
      )}
      {row.errors ? <Badge tone="critical">{plural(row.errors, "error")}</Badge> : null}
      {row.partitions > 0 && <Badge>{plural(row.partitions, "partition")}</Badge>}
    </span>
  );
}
