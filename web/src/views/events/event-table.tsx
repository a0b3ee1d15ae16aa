import type { Event } from "../../api/types";
import { linkTo } from "../../app/routes";
import { fleetNow } from "../../live/fleet-clock";
import { eventPlace, eventTime, eventTone, kindName, textWithoutPlace } from "../../parts/events";
import { HealthIcon } from "../../parts/health";
import "./event-table.css";

export function EventTable({ events, more }: { events: readonly Event[]; more: boolean }) {
  return (
    <>
      <table class="plain event-table">
        <caption class="visually-hidden">Events, newest first</caption>
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col">Severity</th>
            <th scope="col">Kind</th>
            <th scope="col">Where</th>
            <th scope="col">Cluster</th>
            <th scope="col">What</th>
          </tr>
        </thead>
        <tbody>
          {events.map((event) => (
            <Row key={`${event.id} ${event.at}`} event={event} />
          ))}
        </tbody>
      </table>
      {more ? (
        <p class="event-table-more soft">
          Showing the newest {events.length}; use filters to find older events.
        </p>
      ) : null}
    </>
  );
}

function Row({ event }: { event: Event }) {
  const place = eventPlace(event);
  const at = new Date(event.at * 1000);
  const tone = eventTone(event);
  return (
    <tr>
      <td>
        <time dateTime={at.toISOString()} title={at.toLocaleString("en-GB")}>
          {eventTime(event.at, new Date(fleetNow()))}
        </time>
      </td>
      <td>
        <span class={`health health-${tone}`}>
          <HealthIcon tone={tone} /> {event.severity}
        </span>
      </td>
      <td>{kindName(event.kind)}</td>
      <td class="event-table-where">
        {event.node || event.pod ? (
          <a href={place.href} title={place.title}>
            {place.text}
          </a>
        ) : null}
      </td>
      <td>
        <a href={linkTo("cluster", { cluster: event.cluster })}>{event.cluster}</a>
      </td>
      <td class="wraps event-table-what">{textWithoutPlace(event)}</td>
    </tr>
  );
}
