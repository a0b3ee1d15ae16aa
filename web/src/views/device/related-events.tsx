// Events of one node or device, updated live.
import type { Events } from "../../api/types";
import { linkTo } from "../../app/routes";
import { useResource } from "../../live/resource";
import { shownEvents } from "../../live/stream";
import { EventList } from "../../parts/event-list";
import { matchesFilters, mergeEvents } from "../../parts/events";
import { Panel } from "../../parts/panel";
import { Empty, ResourceView } from "../../parts/states";

const SHOWN = 12;

export function RelatedEvents({ cluster, node, device }: { cluster: string; node: string; device?: string }) {
  const of = device === undefined ? { cluster, node } : { cluster, node, device };
  const resource = useResource<Events>("/api/v1/events", { ...of, limit: SHOWN }, { affects: () => false });
  const filters = { cluster: [cluster], node: [node], ...(device === undefined ? {} : { device: [device] }) };
  const since = shownEvents.value.filter((event) => matchesFilters(event, filters));
  return (
    <Panel title="Events" flush aside={<a href={linkTo("events", {}, of)}>Show in log</a>}>
      <ResourceView of={resource}>
        {({ items }) => {
          const events = mergeEvents(items, since, SHOWN);
          return events.length > 0 ? (
            <EventList events={events} withPlace={device === undefined} />
          ) : (
            <Empty title="No events since the fleet was started" />
          );
        }}
      </ResourceView>
    </Panel>
  );
}
