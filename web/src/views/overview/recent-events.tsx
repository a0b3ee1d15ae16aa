import type { Events } from "../../api/types";
import { linkTo } from "../../app/routes";
import { useResource } from "../../live/resource";
import { shownEvents } from "../../live/stream";
import { EventList } from "../../parts/event-list";
import { joined, meant } from "../../parts/events";
import { Panel } from "../../parts/panel";
import { Answer, Empty } from "../../parts/states";

const SHOWN = 10;

export function RecentEvents({ cluster }: { cluster?: string | undefined }) {
  // What comes later, the stream brings: asked for anew only when something was missed.
  const asked = useResource<Events>("/api/v1/events", { limit: SHOWN, cluster }, { concerns: () => false });
  const filters = cluster ? { cluster: [cluster] } : {};
  const since = shownEvents.value.filter((event) => meant(event, filters));
  return (
    <Panel
      title="Recent events"
      flush
      aside={<a href={linkTo("events", {}, cluster ? { cluster } : {})}>All events</a>}
    >
      <Answer of={asked}>
        {({ items }) => {
          const events = joined(items, since, SHOWN);
          return events.length > 0 ? (
            <EventList events={events} />
          ) : (
            <Empty title="No events yet">
              Events appear here when a device degrades or is lost, a node stops responding, or a cluster
              becomes unreachable.
            </Empty>
          );
        }}
      </Answer>
    </Panel>
  );
}
