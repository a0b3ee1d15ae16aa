// Several values of one parameter, as the API has them: given repeatedly or with commas between; `\,` is a comma
// that belongs to a value. The page's addresses speak the same language, so that either can be made from the other.

export function splitWords(text: string): string[] {
  const words = [""];
  let escaped = false;
  for (const character of text) {
    if (escaped || (character !== "," && character !== "\\")) {
      words[words.length - 1] += character;
      escaped = false;
    } else if (character === ",") words.push("");
    else escaped = true;
  }
  if (escaped) words[words.length - 1] += "\\"; // the last character: nothing that it could escape
  return words.filter((word) => word !== "");
}

export function asWord(value: string): string {
  return value.replace(/[\\,]/g, "\\$&");
}

export function wordsOf(parameters: URLSearchParams, name: string): string[] {
  return [...new Set(parameters.getAll(name).flatMap(splitWords))];
}
