// The event log, newest first, updated live.
import type { Clusters, Event, Events } from "../api/types";
import { go, search } from "../app/location";
import { count } from "../app/units";
import { useResource } from "../live/resource";
import { recentEvents, resume, shownEvents } from "../live/stream";
import { EventList } from "../parts/event-list";
import {
  FILTERS,
  type Filters,
  filterParameters,
  filtersOf,
  matchesFilters,
  mergeEvents,
} from "../parts/events";
import { narrow } from "../parts/narrow";
import { Panel } from "../parts/panel";
import { Empty, Loading, ResourceView } from "../parts/states";
import { View } from "../parts/view";
import { EventFilters } from "./events/event-filters";
import { EventTable } from "./events/event-table";

const SHOWN = 500;

export function EventsView() {
  const filters = filtersOf(search.value);
  const narrowed = FILTERS.some((name) => (filters[name]?.length ?? 0) > 0);
  const resource = useResource<Events>(
    "/api/v1/events",
    { ...filterParameters(filters), limit: SHOWN },
    { affects: () => false, keepPreviousData: true },
  );
  const clusters = useResource<Clusters>("/api/v1/clusters", {}, { affects: () => false });
  const { since, waiting } = eventsSince(filters);
  return (
    <View title="Events">
      <EventFilters filters={filters} clusters={clusters.data?.items.map(({ id }) => id) ?? []} />
      <Panel
        title="Log"
        flush
        aside={
          waiting > 0 ? (
            <button type="button" onClick={resume}>
              {count(waiting)} new: resume
            </button>
          ) : (
            "newest first"
          )
        }
      >
        <ResourceView of={resource} loading={<Loading rows={12} />}>
          {({ items, first, last }) => {
            const events = mergeEvents(
              items.filter((event) => matchesFilters(event, filters)),
              since,
              SHOWN,
            );
            if (events.length > 0) {
              const more = last - first + 1 > SHOWN;
              return narrow.value ? (
                <EventList events={events} />
              ) : (
                <EventTable events={events} more={more} />
              );
            }
            return narrowed ? (
              <Empty
                title="No event matches these filters"
                action={{ text: "Clear filters", run: () => go("/events") }}
              />
            ) : (
              <Empty title="No events since the fleet was started">
                Events appear here when a device degrades or is lost, a node stops responding, or a cluster
                becomes unreachable.
              </Empty>
            );
          }}
        </ResourceView>
      </Panel>
    </View>
  );
}

// While paused, new events are counted but not shown.
function eventsSince(filters: Filters): { since: Event[]; waiting: number } {
  const since = shownEvents.value.filter((event) => matchesFilters(event, filters));
  return {
    since,
    waiting: recentEvents.value.filter((event) => matchesFilters(event, filters)).length - since.length,
  };
}
