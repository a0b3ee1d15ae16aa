// Status of a cluster and its sources: a word, a tone and the reason.
import type { ClusterView, SourceView } from "../../api/types";
import { type Tone, words } from "../../parts/health";

export interface Status {
  tone: Tone;
  word: string;
  why: string | null;
}

export function clusterStatus({ reachable, succeeded_at, text, reason, sources, gpu }: ClusterView): Status {
  const why = text ?? (reason ? words(reason) : null);
  if (reachable === null) return { tone: "unknown", word: "not contacted yet", why };
  if (!reachable)
    return {
      tone: succeeded_at === null ? "lost" : "critical",
      word: succeeded_at === null ? "never reached" : "unreachable",
      why,
    };
  const down = sources.filter((source) => source.up === false);
  if (down.length > 0) {
    const all = down.length === sources.length;
    return {
      tone: all ? "critical" : "warning",
      word: all ? "no source responds" : "source down",
      why: down.map(whyDown).join("; "),
    };
  }
  if (gpu === false) return { tone: "unknown", word: "no accelerators", why };
  return { tone: "ok", word: "reachable", why };
}

function whyDown(source: SourceView): string {
  return `${source.kind}: ${source.text ?? words(source.reason ?? "down")}`;
}

export function sourceStatus({ up, text, reason }: SourceView): Status {
  const why = text ?? (reason ? words(reason) : null);
  if (up === null) return { tone: "unknown", word: "not queried yet", why };
  return up ? { tone: "ok", word: "up", why } : { tone: "critical", word: "down", why };
}
