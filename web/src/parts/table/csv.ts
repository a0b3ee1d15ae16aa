// Rows for a spreadsheet (RFC 4180), made here: nobody else is asked.

export type CsvValue = string | number | boolean | null;

// A text that begins like a formula would be run by a spreadsheet. Some of them skip blanks and invisible
// characters before it, some read the wide forms of East Asian keyboards, and some begin a new cell at a
// control character.
const FORMULA = /^[\s\p{C}]*[=+\-@\u2212]/u;
const CONTROL = /^\p{Cc}/u;
const LOOKED_AT = 64; // characters

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
  const start = text.trimStart().slice(0, LOOKED_AT).normalize("NFKC");
  return CONTROL.test(text) || FORMULA.test(start);
}

export function download(name: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000); // the browser may still be reading it
}
