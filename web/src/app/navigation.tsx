import { count, fraction } from "../app/units";
import { summary } from "../live/stream";
import { destinationOf, GROUPS } from "./destinations";
import { pathname } from "./location";
import { linkTo, placeOf, type View } from "./routes";

export function Navigation({ open }: { open: boolean }) {
  const place = placeOf(pathname.value);
  const here = place && destinationOf(place.view);
  return (
    <nav id="navigation" class={`navigation${open ? " navigation-open" : ""}`} aria-label="Views">
      {GROUPS.map((group) => (
        <div key={group.title} class="navigation-group">
          <div class="navigation-title" id={`navigation-${group.title}`}>
            {group.title}
          </div>
          <ul aria-labelledby={`navigation-${group.title}`}>
            {group.places.map(({ view, title, key }) => (
              <li key={view}>
                <a
                  href={linkTo(view)}
                  aria-current={here === view ? "page" : undefined}
                  aria-keyshortcuts={`g ${key}`}
                >
                  {title}
                  <Count view={view} />
                </a>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </nav>
  );
}

// Number of items, as far as the stream's summary has it.
function Count({ view }: { view: View }) {
  const sums = summary.value;
  if (!sums) return null;
  const idle = sums.devices_idle;
  if (view === "idle")
    return idle > 0 ? (
      <span
        class="navigation-count navigation-some"
        title="Idle devices: sum of the allocated shares that were not used for an hour or more"
      >
        {fraction(idle)}
      </span>
    ) : null;
  const number = { devices: sums.devices, pods: sums.pods, processes: sums.processes };
  const value = number[view as keyof typeof number];
  return value === undefined ? null : <span class="navigation-count">{count(value)}</span>;
}
