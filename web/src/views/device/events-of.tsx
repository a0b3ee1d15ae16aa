// What happened to one node or one device: from the log, and as it happens.
import type { Events } from "../../api/types";
import { linkTo } from "../../app/routes";
import { useResource } from "../../live/resource";
import { shownEvents } from "../../live/stream";
import { EventList } from "../../parts/event-list";
import { joined, meant } from "../../parts/events";
import { Panel } from "../../parts/panel";
import { Answer, Empty } from "../../parts/states";

const SHOWN = 12;

export function EventsOf({ cluster, node, device }: { cluster: string; node: string; device?: string }) {
  const of = device === undefined ? { cluster, node } : { cluster, node, device };
  const asked = useResource<Events>("/api/v1/events", { ...of, limit: SHOWN }, { concerns: () => false });
  const filters = { cluster: [cluster], node: [node], ...(device === undefined ? {} : { device: [device] }) };
  const since = shownEvents.value.filter((event) => meant(event, filters));
  return (
    <Panel title="Events" flush aside={<a href={linkTo("events", {}, of)}>Show in log</a>}>
      <Answer of={asked}>
        {({ items }) => {
          const events = joined(items, since, SHOWN);
          return events.length > 0 ? (
            <EventList events={events} withPlace={device === undefined} />
          ) : (
            <Empty title="No events since the fleet was started" />
          );
        }}
      </Answer>
    </Panel>
  );
}
