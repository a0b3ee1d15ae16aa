// An unknown value, with the reason if the API gives one. Never 0, never empty.
import { ABSENT } from "../app/units";
import { words } from "./health";

export function Absent({ reason }: { reason?: string | null | undefined }) {
  const text = reason ? `not known: ${words(reason)}` : "not known";
  return (
    <span class="absent" title={text}>
      <span aria-hidden="true">{ABSENT}</span>
      <span class="visually-hidden">{text}</span>
    </span>
  );
}

// A text from app/units, or a text of the API that may be null.
export function Value({
  text,
  reason,
}: {
  text: string | null | undefined;
  reason?: string | null | undefined;
}) {
  return text === null || text === undefined || text === "" || text === ABSENT ? (
    <Absent reason={reason} />
  ) : (
    text
  );
}
