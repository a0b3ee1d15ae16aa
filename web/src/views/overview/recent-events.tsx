import type { Events } from "../../api/types";
import { linkTo } from "../../app/routes";
import { useResource } from "../../live/resource";
import { shownEvents } from "../../live/stream";
import { EventList } from "../../parts/event-list";
import { matchesFilters, mergeEvents } from "../../parts/events";
import { Panel } from "../../parts/panel";
import { Empty, ResourceView } from "../../parts/states";

const SHOWN = 10;

export function RecentEvents({ cluster }: { cluster?: string | undefined }) {
  // The stream delivers later events, so this is fetched again only if some were missed.
  const resource = useResource<Events>("/api/v1/events", { limit: SHOWN, cluster }, { affects: () => false });
  const filters = cluster ? { cluster: [cluster] } : {};
  const since = shownEvents.value.filter((event) => matchesFilters(event, filters));
  return (
    <Panel
      title="Recent events"
      flush
      aside={<a href={linkTo("events", {}, cluster ? { cluster } : {})}>All events</a>}
    >
      <ResourceView of={resource}>
        {({ items }) => {
          const events = mergeEvents(items, since, SHOWN);
          return events.length > 0 ? (
            <EventList events={events} />
          ) : (
            <Empty title="No events yet">
              Events appear here when a device degrades or is lost, a node stops responding, or a cluster
              becomes unreachable.
            </Empty>
          );
        }}
      </ResourceView>
    </Panel>
  );
}
