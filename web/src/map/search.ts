// Searches the loaded map data by node, cluster, model, vendor and health.
import { vendorName } from "../parts/vendor";
import type { Fleet, TextField } from "./fleet";

const SEARCHED_FIELDS: readonly TextField[] = ["node", "cluster", "model", "vendor", "health", "state"];

// By row: 1 if all words match. null: no search.
export function findDevices(fleet: Fleet, text: string): Uint8Array | null {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return null;
  const all = new Uint8Array(fleet.rows).fill(1);
  for (const word of words) {
    const tables = SEARCHED_FIELDS.map((field) => {
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
