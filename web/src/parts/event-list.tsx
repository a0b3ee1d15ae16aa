// A short list of events, newest first.
import type { Event } from "../api/types";
import { fleetNow } from "../live/fleet-clock";
import "./event-list.css";
import { eventPlace, eventTime, eventTone, kindName, textWithoutPlace } from "./events";
import { HealthIcon } from "./health";

export function EventList({
  events,
  withPlace = true,
}: {
  events: readonly Event[];
  withPlace?: boolean | undefined;
}) {
  return (
    <ol class="event-list">
      {events.map((event) => {
        const place = eventPlace(event);
        return (
          <li key={`${event.id} ${event.at}`} class="event-list-event">
            <time
              class="event-list-time"
              dateTime={new Date(event.at * 1000).toISOString()}
              title={new Date(event.at * 1000).toLocaleString("en-GB")}
            >
              {eventTime(event.at, new Date(fleetNow()))}
            </time>
            <span class="event-list-kind">
              <HealthIcon tone={eventTone(event)} /> {kindName(event.kind)}
              <span class="visually-hidden">, {event.severity}</span>
            </span>
            <span class="event-list-text">
              {withPlace ? (
                <>
                  <a href={place.href} title={place.title}>
                    {place.text}
                  </a>{" "}
                  {event.node || event.pod ? <span class="event-list-cluster">{event.cluster} </span> : null}
                </>
              ) : null}
              <span class="event-list-description">{textWithoutPlace(event)}</span>
            </span>
          </li>
        );
      })}
    </ol>
  );
}
