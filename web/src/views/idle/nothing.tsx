// No pod is idle for so long. A fleet that was started a moment ago has not watched for longer than that.
import type { IdlePods } from "../../api/types";
import { search, withParameter } from "../../app/location";
import { duration, howMany } from "../../app/units";
import { useResource } from "../../live/resource";
import { Empty } from "../../parts/states";
import { POD_FIELDS } from "../../parts/table/fields";
import { questionOf } from "../../parts/table/question";
import { SHORTEST_SECONDS } from "./since";

export function NothingIdle({ since }: { since: number }) {
  const shorter = useResource<IdlePods>(
    since > SHORTEST_SECONDS ? "/api/v1/idle" : null,
    { ...questionOf(search.value, { fields: POD_FIELDS }), min_seconds: SHORTEST_SECONDS, limit: 1 },
    { atMostEverySeconds: 10, keepWhileAsking: true },
  );
  const some = shorter.data?.total ?? 0;
  return (
    <Empty title={`No pods idle for ${duration(since)}`}>
      {some > 0 ? (
        <a href={withParameter("min_seconds", [String(SHORTEST_SECONDS)])}>
          {howMany(some, "pod")} {some === 1 ? "is" : "are"} idle for at least {duration(SHORTEST_SECONDS)}
        </a>
      ) : null}
    </Empty>
  );
}
