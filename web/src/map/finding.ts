// Search over what the map already has: by node, cluster, model, vendor and health, as one types.
import { vendorName } from "../parts/vendor";
import type { Fleet, TextField } from "./fleet";

const SOUGHT: readonly TextField[] = ["node", "cluster", "model", "vendor", "health", "state"];

// By row: 1 where every word is found. null: nothing is sought.
export function found(fleet: Fleet, text: string): Uint8Array | null {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return null;
  const all = new Uint8Array(fleet.rows).fill(1);
  for (const word of words) {
    const tables = SOUGHT.map((field) => {
      const { texts, codes } = fleet.texts[field];
      return { codes, has: texts.map((one) => names(field, one).includes(word)) };
    }).filter((table) => table.has.includes(true));
    for (let row = 0; row < fleet.rows; row += 1) {
      if (!all[row]) continue;
      let has = false;
      for (const table of tables) has ||= table.has[table.codes[row] as number] as boolean;
      if (!has) all[row] = 0;
    }
  }
  return all;
}

function names(field: TextField, text: string): string {
  const small = text.toLowerCase();
  return field === "vendor" ? `${small} ${vendorName(text).toLowerCase()}` : small;
}
