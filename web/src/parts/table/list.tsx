// A list view: filters, the number of rows, and the table in any state.
import type { ComponentChildren } from "preact";
import type { Problem } from "../../api/client";
import { go, pathname, search } from "../../app/location";
import { plural } from "../../app/units";
import { Simulated } from "../badge";
import type { Facet } from "../filters/facets";
import { clearFilters, FilterBar, isFiltered } from "../filters/filter-bar";
import { Empty, ProblemNote } from "../states";
import { View } from "../view";
import type { Column } from "./columns";
import { ColumnsMenu, useHiddenColumns } from "./columns-menu";
import { DataTable, type RowAge } from "./data-table";
import { TableFoot } from "./foot";
import { WaitingTable } from "./skeleton";
import type { ListData } from "./use-table";

const BAD_REQUEST = 400; // retrying does not help

export interface ListProps<R> {
  title: string;
  what: string; // plural: "devices"
  one: string; // singular
  name: string; // key of the stored column selection
  table: ListData<R>;
  columns: readonly Column<R>[];
  rowKey: (row: R) => string;
  rowLink?: (row: R) => string;
  rowStale?: (row: R) => RowAge | null;
  expand?: (row: R) => ComponentChildren;
  simulated?: (row: R) => boolean;
  placeholder: string; // searched fields
  facets: readonly Facet[];
  own?: readonly string[]; // parameters of the address that are not filters
  controls?: ComponentChildren; // beside the filters
  actions?: ComponentChildren; // beside the title
  lead?: ComponentChildren; // between the filters and the table
  empty: ComponentChildren; // shown if there are no rows and no filters
  total?: string; // replaces the number of rows
}

export function ListView<R>(props: ListProps<R>) {
  const { title, what, one, table, columns, own = [], simulated = () => false } = props;
  const { rows, total, problem, asking } = table;
  const [hidden, setHidden] = useHiddenColumns(props.name);
  const countText = props.total ?? (total === null ? "" : plural(total, one, what));
  const allSimulated = rows !== null && rows.length > 0 && rows.every(simulated);
  return (
    <View title={title} badges={allSimulated ? <Simulated /> : null} actions={props.actions}>
      <FilterBar
        what={what}
        placeholder={props.placeholder}
        facets={props.facets}
        own={own}
        isFilter={table.isFilter}
      >
        {props.controls}
        <span class="filters-total" role="status">
          {countText}
        </span>
        <div class="menu-wide-screen">
          <ColumnsMenu columns={columns} hidden={hidden} onHide={setHidden} />
        </div>
      </FilterBar>
      {props.lead}
      {problem && problem.status !== BAD_REQUEST && <ProblemNote problem={problem} retry={table.refetch} />}
      {problem?.status === BAD_REQUEST && (
        <div class="table-frame" role="alert">
          <Empty
            title={refusedBecause(problem, what)}
            action={{ text: "Clear", run: () => go(pathname.value) }}
          />
        </div>
      )}
      {rows === null && !problem && <WaitingTable columns={columns} expands={props.expand !== undefined} />}
      {rows !== null && rows.length === 0 && !asking && !problem && (
        <div class="table-frame">
          {isFiltered(own, table.isFilter) ? (
            <Empty
              title={`No ${one} matches these filters`}
              action={{ text: "Clear filters", run: () => clearFilters(own) }}
            />
          ) : (
            props.empty
          )}
        </div>
      )}
      {rows !== null && rows.length > 0 && (
        <>
          <DataTable
            caption={title}
            columns={columns}
            rows={rows}
            rowKey={props.rowKey}
            orders={table.orders}
            sortBy={table.sortBy}
            hidden={hidden}
            busy={asking}
            {...(allSimulated ? {} : { rowSimulated: simulated })}
            {...(props.rowLink ? { rowLink: props.rowLink } : {})}
            {...(props.rowStale ? { rowStale: props.rowStale } : {})}
            {...(props.expand ? { expand: props.expand } : {})}
          />
          <TableFoot
            shown={rows.length}
            total={total ?? rows.length}
            what={what}
            more={table.more}
            asking={asking}
          />
        </>
      )}
    </View>
  );
}

// A readable message for a rejected parameter. The API's detail lists all valid values.
function refusedBecause({ parameter, detail }: Problem, what: string): string {
  if (parameter === "sort") return `${capital(what)} cannot be sorted by “${search.value.get("sort") ?? ""}”`;
  const value = parameter === null ? null : search.value.get(parameter);
  return parameter !== null && value !== null
    ? `${capital(what)} cannot be filtered by ${parameter} “${value}”`
    : detail;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
