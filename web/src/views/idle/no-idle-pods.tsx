// Shown if no pod is idle for the selected time. Links to shorter times, since a new fleet has no longer history.
import type { IdlePods } from "../../api/types";
import { search, withParameter } from "../../app/location";
import { duration, plural } from "../../app/units";
import { useResource } from "../../live/resource";
import { Empty } from "../../parts/states";
import { POD_FIELDS } from "../../parts/table/fields";
import { tableParameters } from "../../parts/table/parameters";
import { SHORTEST_SECONDS } from "./idle-threshold";

export function NoIdlePods({ since }: { since: number }) {
  const shorter = useResource<IdlePods>(
    since > SHORTEST_SECONDS ? "/api/v1/idle" : null,
    { ...tableParameters(search.value, { fields: POD_FIELDS }), min_seconds: SHORTEST_SECONDS, limit: 1 },
    { minIntervalSeconds: 10, keepPreviousData: true },
  );
  const some = shorter.data?.total ?? 0;
  return (
    <Empty title={`No pods idle for ${duration(since)}`}>
      {some > 0 ? (
        <a href={withParameter("min_seconds", [String(SHORTEST_SECONDS)])}>
          {plural(some, "pod")} {some === 1 ? "is" : "are"} idle for at least {duration(SHORTEST_SECONDS)}
        </a>
      ) : null}
    </Empty>
  );
}
