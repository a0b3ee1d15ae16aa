// Units of device values.
import { ABSENT, bytes, percent } from "../../app/units";

type Maybe = number | null | undefined;

export function hertz(value: Maybe): string {
  if (value === null || value === undefined) return ABSENT;
  return value >= 1e9 ? `${(value / 1e9).toFixed(2)} GHz` : `${Math.round(value / 1e6)} MHz`;
}

export function perSecond(bytesPerSecond: Maybe): string {
  return bytesPerSecond === null || bytesPerSecond === undefined ? ABSENT : `${bytes(bytesPerSecond)}/s`;
}

export function volts(value: Maybe): string {
  return value === null || value === undefined ? ABSENT : `${value.toFixed(2)} V`;
}

export function amperes(value: Maybe): string {
  return value === null || value === undefined ? ABSENT : `${value.toFixed(1)} A`;
}

// Size of one of `shares` equal shares of a device.
export function oneShare(shares: number | null): string {
  return shares === null ? "the whole device" : percent(1 / shares);
}

export function yesNo(value: boolean | null | undefined): string | null {
  return value === null || value === undefined ? null : value ? "yes" : "no";
}
