// CSV export (RFC 4180).

export type CsvValue = string | number | boolean | null;

// A spreadsheet would run text that starts like a formula. Some programs skip blanks and invisible characters, accept
// full-width characters, or start a new cell at a control character.
const FORMULA = /^[\s\p{C}]*[=+\-@\u2212]/u;
const CONTROL = /^\p{Cc}/u;
const CHECKED_LENGTH = 64; // characters

export function csv(header: readonly string[], rows: readonly (readonly CsvValue[])[]): string {
  return [header, ...rows]
    .map((row) => row.map(field).join(","))
    .join("\r\n")
    .concat("\r\n");
}

function field(value: CsvValue): string {
  if (value === null) return "";
  if (typeof value !== "string") return String(value);
  const text = isFormula(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function isFormula(text: string): boolean {
  const start = text.trimStart().slice(0, CHECKED_LENGTH).normalize("NFKC");
  return CONTROL.test(text) || FORMULA.test(start);
}

export function download(name: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000); // the download may still be running
}
