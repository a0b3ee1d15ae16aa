// The map of all devices.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Columns } from "../api/types";
import { go, search, withParameter } from "../app/location";
import { clock, count } from "../app/units";
import { colour, themeChanges } from "../charts/theme";
import { useResource } from "../live/resource";
import { summary } from "../live/stream";
import { type Filters, type Grouping, isGrouping } from "../map/arrangement";
import { Controls } from "../map/controls";
import { fleetOf, healthCodes, isStale } from "../map/fleet";
import { FleetMap } from "../map/fleet-map";
import { Legend } from "../map/legend";
import { hasMode, isMode, MODE_INFO, type Mode } from "../map/modes";
import { countCodes, paintCodes } from "../map/paint-codes";
import { paletteOf } from "../map/palette";
import { fieldsOf, filtersOf, isDeviceFilter, OWN, serverFilters, tableLink } from "../map/parameters";
import { findDevices } from "../map/search";
import { useArrangement, useSpare } from "../map/use-fleet";
import { Simulated } from "../parts/badge";
import { FACETS } from "../parts/filters/facets";
import { clearFilters, FilterBar, isFiltered } from "../parts/filters/filter-bar";
import { Empty, Loading, ProblemNote } from "../parts/states";
import { NoDevices } from "../parts/table/no-devices";
import { View } from "../parts/view";

const COLUMNS = "/api/v1/devices/columns";
const EVERY_SECONDS = 4;
const MANY = 20_000; // devices; larger responses are fetched less often
const EVERY_SECONDS_IF_MANY = 10;

export function MapView() {
  const address = search.value;
  const [askedMode, askedGroup] = [address.get("mode"), address.get("group")];
  const wanted: Mode = isMode(askedMode) ? askedMode : "use";
  const grouping: Grouping = isGrouping(askedGroup) ? askedGroup : "cluster";
  const pitch = Number(address.get("size")) || null;
  const filterText = JSON.stringify(filtersOf(address)); // a stable key: every address is a new object
  const filters = useMemo(() => JSON.parse(filterText) as Filters, [filterText]);
  const [many, setMany] = useState(false);
  const others = serverFilters(address);
  const { data, problem, loading, refetch } = useResource<Columns>(
    COLUMNS,
    { ...others, fields: fieldsOf(wanted) },
    { minIntervalSeconds: many ? EVERY_SECONDS_IF_MANY : EVERY_SECONDS, keepPreviousData: true },
  );
  if (data !== null && data.rows > MANY !== many) setMany(data.rows > MANY);
  const latest = useMemo(() => (data === null ? null : fleetOf(data)), [data]);
  const spare = useSpare(others, latest !== null);
  // Until the data of a new mode arrives, show prefetched data of that mode, or else the previous mode.
  const fleet = latest && !hasMode(latest, wanted) && spare ? spare : latest;
  const last = useRef(wanted);
  if (fleet && hasMode(fleet, wanted)) last.current = wanted;
  const mode = last.current;

  const [typed, setTyped] = useState<string | null>(null);
  const asked = address.get("q") ?? "";
  const sought = typed ?? asked;
  useEffect(() => setTyped(null), [asked]);
  const shownPitch = useRef(8);
  const acted = useRef<number | null>(null);
  const since = useCallback(() => {
    const at = acted.current;
    acted.current = null;
    return at;
  }, []);

  const arrangement = useArrangement(fleet, grouping, filters);
  const theme = themeChanges.value;
  // Colours change with the theme.
  const palette = useMemo(() => paletteOf(MODE_INFO[mode].scale, colour), [mode, theme]);
  // Separate memos, so that typing into the search does not recompute the codes of 80,000 devices.
  const shades = useMemo(() => {
    if (!fleet || !hasMode(fleet, mode)) return null;
    return { codes: paintCodes(fleet, mode), healths: healthCodes(fleet), stale: isStale(fleet) };
  }, [fleet, mode]);
  const finds = useMemo(() => (fleet ? findDevices(fleet, sought) : null), [fleet, sought]);
  const painting = useMemo(
    () => (shades ? { ...shades, found: finds, palette } : null),
    [shades, finds, palette],
  );
  const sums = useMemo(() => {
    if (!shades || !arrangement) return null;
    return {
      codes: countCodes(shades.codes, arrangement.rows),
      healths: countCodes(shades.healths, arrangement.rows),
      stale: countCodes(shades.stale, arrangement.rows)[1] ?? 0,
    };
  }, [shades, arrangement]);
  const matches = finds && arrangement ? (countCodes(finds, arrangement.rows)[1] ?? 0) : null;

  const nothing = arrangement !== null && arrangement.rows.length === 0;
  const act = (event: Event) => {
    acted.current = event.timeStamp;
  };
  return (
    <View
      title="Map"
      badges={(summary.value?.devices_simulated ?? 0) > 0 ? <Simulated /> : null}
      actions={<a href={tableLink(address)}>Show as table</a>}
    >
      <div
        class="map"
        onInputCapture={(event) => {
          act(event);
          const box = event.target as HTMLInputElement;
          if (box.classList.contains("filters-query")) setTyped(box.value);
        }}
      >
        <FilterBar
          what="devices"
          placeholder="Highlight: node, cluster, model"
          facets={[FACETS.cluster, FACETS.vendor, FACETS.model, FACETS.health, FACETS.namespace]}
          own={OWN}
          isFilter={isDeviceFilter}
        />
        <Controls mode={wanted} grouping={grouping} pitch={pitch} shownPitch={shownPitch} act={act} />
        {problem ? <ProblemNote problem={problem} retry={refetch} /> : null}
        {sums ? (
          <div class="map-below">
            <Legend
              mode={mode}
              palette={palette}
              counts={sums.codes}
              healths={sums.healths}
              stale={sums.stale}
              chosen={filters.health ?? []}
              onHealth={(health) => {
                const chosen = filters.health ?? [];
                const next = chosen.includes(health)
                  ? chosen.filter((one) => one !== health)
                  : [...chosen, health];
                go(withParameter("health", next));
              }}
            />
            <span class="map-count soft small" role="status">
              {problem && fleet ? `as of ${clock(fleet.at)} ` : ""}
              {matches === null ? "" : `${count(matches)} of ${count(arrangement?.rows.length ?? 0)} match`}
            </span>
          </div>
        ) : null}
        {nothing ? (
          <div class="map-frame map-none">
            {isFiltered(OWN, isDeviceFilter) ? (
              <Empty
                title="No device matches these filters"
                action={{ text: "Clear filters", run: () => clearFilters(OWN) }}
              />
            ) : (
              <NoDevices what="device" />
            )}
          </div>
        ) : fleet && arrangement && painting ? (
          <FleetMap
            fleet={fleet}
            mode={mode}
            arrangement={arrangement}
            painting={painting}
            grouping={grouping}
            pitch={pitch}
            shownPitch={shownPitch}
            since={since}
            onPitch={(next) =>
              go(withParameter("size", next === null ? [] : [String(next)]), { replace: true })
            }
          />
        ) : loading || !problem ? (
          <div class="map-frame map-wait">
            <Loading rows={14} label="Loading the map" />
          </div>
        ) : null}
      </div>
    </View>
  );
}
