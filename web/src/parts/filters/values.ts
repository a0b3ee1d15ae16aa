// Multiple values of one parameter, as in the API: repeated, or separated by commas; `\,` is a comma within a value. The
// page's addresses use the same syntax.

export function splitValues(text: string): string[] {
  const words = [""];
  let escaped = false;
  for (const character of text) {
    if (escaped || (character !== "," && character !== "\\")) {
      words[words.length - 1] += character;
      escaped = false;
    } else if (character === ",") words.push("");
    else escaped = true;
  }
  if (escaped) words[words.length - 1] += "\\"; // a trailing backslash escapes nothing
  return words.filter((word) => word !== "");
}

export function escapeValue(value: string): string {
  return value.replace(/[\\,]/g, "\\$&");
}

export function valuesOf(parameters: URLSearchParams, name: string): string[] {
  return [...new Set(parameters.getAll(name).flatMap(splitValues))];
}
