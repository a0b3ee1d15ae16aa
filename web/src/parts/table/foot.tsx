import { count } from "../../app/units";

interface Props {
  shown: number;
  total: number;
  what: string; // plural: "devices"
  more: (() => void) | null;
  asking: boolean;
}

export function TableFoot({ shown, total, what, more, asking }: Props) {
  if (shown >= total) return null; // the filter bar shows the total
  return (
    <div class="table-foot">
      <span>
        {count(shown)} of {count(total)} {what}
      </span>
      {more && (
        <button type="button" onClick={more} disabled={asking}>
          Show more
        </button>
      )}
      {!more && <span>Row limit reached: sort or filter to see other rows.</span>}
    </div>
  );
}
