// Skeleton of a table with the same columns, so that nothing moves when the rows arrive.
import type { Column } from "./columns";
import { DataTable } from "./data-table";

const ROWS = Array.from({ length: 14 }, (_, row) => String(row));

export function WaitingTable<R>({ columns, expands }: { columns: readonly Column<R>[]; expands: boolean }) {
  const empty: Column<string>[] = columns.map(
    ({ key, title, width, grow = false, align = "start", priority = 1 }) => ({
      key,
      title,
      width,
      grow,
      align,
      priority,
      cell: () => <span class="table-waiting-cell" />,
    }),
  );
  return (
    <div class="table-waiting" role="status" aria-label="Loading">
      <div aria-hidden="true">
        <DataTable
          caption="Loading"
          columns={empty}
          rows={ROWS}
          rowKey={(row) => row}
          {...(expands ? { expand: () => null } : {})}
        />
      </div>
    </div>
  );
}
