// Two sizes in the same unit: "0.3 / 192 GiB".
import { ABSENT, bytes, SIZES } from "../../app/units";

const UNIT = 1024;

export function ofBytes(part: number | null | undefined, whole: number | null | undefined): string {
  if (part === null || part === undefined || whole === null || whole === undefined) return ABSENT;
  const text = bytes(whole);
  const [, unit = "B"] = text.split(" ");
  const power = SIZES.indexOf(unit);
  const value = part / UNIT ** power;
  return `${value >= 10 || value === 0 || power === 0 ? Math.round(value) : value.toFixed(1)} / ${text}`;
}
