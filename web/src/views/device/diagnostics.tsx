// Error counters, links and unavailable values.
import type { Device, DeviceError, EccCount } from "../../api/types";
import { bytes, count, plural } from "../../app/units";
import { Value } from "../../parts/absent";
import { Age } from "../../parts/age";
import { Badge } from "../../parts/badge";
import { Health, words } from "../../parts/health";
import { Panel } from "../../parts/panel";
import { type Row, SmallTable } from "../../parts/small-table";
import { Empty } from "../../parts/states";
import { nameOf, toneOf, whatToDo } from "./errors";
import { perSecond } from "./units";

// Errors with a code and counters of memory errors. What a code means is in the fleet's response.
export function Errors({ errors, reading }: { errors: readonly DeviceError[]; reading: Device }) {
  const rows = [
    ...errors.map((error) => ({ key: `${error.kind} ${error.code}`, cells: errorCells(error) })),
    ...counted("ECC", reading.ecc),
    ...counted("Retired pages", reading.retired_pages),
  ];
  const looked = reading.errors.length + reading.ecc.length + reading.retired_pages.length;
  return (
    <Panel title="Errors" aside={looked > 0 ? plural(looked, "counter") : undefined} flush>
      {rows.length > 0 ? (
        <SmallTable
          caption="Error counters"
          columns={["Error", "Meaning", "#Count", "Last seen", "What to do"]}
          rows={rows}
        />
      ) : (
        <Empty title={looked > 0 ? "All error counters are 0" : "The driver reports no error counters"} />
      )}
    </Panel>
  );
}

function errorCells(error: DeviceError): Row["cells"] {
  const tone = toneOf(error);
  return [
    <span key="code">
      {nameOf(error)} {tone ? <Badge tone={tone}>{error.severity}</Badge> : null}
    </span>,
    error.meaning === null ? null : (
      <div key="meaning" class="wraps">
        {error.meaning}
        {error.source ? (
          <>
            {" "}
            <a href={error.source} target="_blank" rel="noreferrer" aria-label={`source of ${error.code}`}>
              source
            </a>
          </>
        ) : null}
      </div>
    ),
    count(error.count),
    error.last_seen === null ? "" : <Age key="age" at={error.last_seen} />,
    <div key="action" class="wraps">
      {whatToDo(error)}
    </div>,
  ];
}

function counted(what: string, counts: readonly EccCount[]): Row[] {
  return counts
    .filter((one) => one.count > 0)
    .map((one) => ({
      key: `${what} ${one.severity} ${one.lifetime} ${one.block}`,
      cells: [
        `${what}, ${words(one.severity)}${one.block ? `, ${words(one.block)}` : ""}`,
        null,
        count(one.count),
        one.last_seen !== null ? <Age key="age" at={one.last_seen} /> : since(one),
        null,
      ],
    }));
}

// For errors from before the agent started, when the counter began.
function since({ lifetime }: EccCount): string {
  return lifetime ? "device lifetime" : "since the driver was loaded";
}

// A summary of the links, with a table of all links.
export function Links({ reading: { links } }: { reading: Device }) {
  if (links.length === 0) return null;
  const kinds = [...new Set(links.map((link) => link.kind))].join(", ");
  const down = links.filter((link) => link.active === false).length;
  const errors = links.reduce(
    (sum, link) => sum + link.errors.reduce((all, error) => all + error.count, 0),
    0,
  );
  return (
    <Panel title="Links" aside={kinds} flush>
      <details class="device-more" open={down > 0}>
        <summary>
          {down > 0 ? `${down} of ${links.length} down` : `${plural(links.length, "link")}, none down`},{" "}
          {errors === 0 ? "no errors" : plural(errors, "error")}
        </summary>
        <SmallTable
          caption="Links to other devices"
          columns={["Link", "State", "To", "#Speed", "#Sent", "#Received", "Errors"]}
          rows={links.map((link) => ({ key: `${link.kind} ${link.index}`, cells: linkCells(link) }))}
        />
      </details>
    </Panel>
  );
}

function linkCells(link: Device["links"][number]): Row["cells"] {
  return [
    `${link.kind} ${link.index}`,
    link.active === null ? (
      <Value key="state" text={null} />
    ) : (
      <Health key="state" state={link.active ? "ok" : "critical"} reason={link.active ? null : "down"} />
    ),
    <span key="to" class="mono">
      <Value text={link.remote} />
    </span>,
    <Value key="speed" text={perSecond(link.bytes_per_second)} />,
    <Value key="sent" text={bytes(link.transmit_bytes_total)} />,
    <Value key="received" text={bytes(link.receive_bytes_total)} />,
    link.errors
      .filter((error) => error.count > 0)
      .map((error) => `${words(error.kind)} ${count(error.count)}`)
      .join(", ") || "none",
  ];
}

// Texts for the reasons of absent values.
const WHY: Record<string, string> = {
  not_supported: "not supported by this device or driver",
  no_permission: "the agent lacks permission",
  no_sample: "the driver had no sample",
  not_known: "the driver reports it as unknown",
  deprecated: "no longer provided by the driver",
  driver_error: "the driver returned an error",
  lost: "the device is lost",
  reset_required: "the device must be reset first",
  shared: "reported only for several devices together",
  suspended: "the device is suspended",
  timeout: "the driver did not respond in time",
  unreadable: "the driver's response could not be parsed",
};

export function UnavailableValues({ reading }: { reading: Device }) {
  if (reading.absent.length === 0) return null;
  return (
    <Panel title="Unavailable values" aside={count(reading.absent.length)} flush>
      <details class="device-more">
        <summary>{plural(reading.absent.length, "value")} not available</summary>
        <SmallTable
          caption="Unavailable values with the reason"
          columns={["Value", "Reason"]}
          rows={reading.absent.map(({ field, reason }) => ({
            key: field,
            cells: [
              <span key="field" class="mono">
                {field}
              </span>,
              WHY[reason] ?? words(reason),
            ],
          }))}
        />
      </details>
    </Panel>
  );
}
