// Formats numbers. Unknown values are a dash, never 0.

export const ABSENT = "–";

type Maybe = number | null | undefined;

export function percent(ratio: Maybe): string {
  if (ratio === null || ratio === undefined) return ABSENT;
  const value = ratio * 100;
  return `${value > 0 && value < 1 ? "<1" : Math.round(value)} %`;
}

export const SIZES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

export function bytes(count: Maybe): string {
  if (count === null || count === undefined) return ABSENT;
  let value = count;
  let size = 0;
  while (Math.round(Math.abs(value)) >= 1024 && size < SIZES.length - 1) {
    value /= 1024;
    size += 1;
  }
  return `${value < 10 && size > 0 ? value.toFixed(1) : Math.round(value)} ${SIZES[size]}`;
}

export function watts(value: Maybe): string {
  if (value === null || value === undefined) return ABSENT;
  if (Math.round(Math.abs(value) / 1e3) >= 1e3) return `${(value / 1e6).toFixed(2)} MW`;
  if (Math.round(Math.abs(value)) >= 1e3) return `${(value / 1e3).toFixed(Math.abs(value) < 1e5 ? 1 : 0)} kW`;
  return `${Math.round(value)} W`;
}

export function energy(joules: Maybe): string {
  if (joules === null || joules === undefined) return ABSENT;
  const hours = joules / 3600; // Wh
  if (hours >= 1e6) return `${(hours / 1e6).toFixed(2)} MWh`;
  if (Math.round(hours) >= 1e3) return `${(hours / 1e3).toFixed(1)} kWh`;
  return `${hours < 10 ? hours.toFixed(1) : Math.round(hours)} Wh`;
}

export function celsius(value: Maybe): string {
  return value === null || value === undefined ? ABSENT : `${Math.round(value)} °C`;
}

// 1 440, with a narrow no-break space.
const DECIMAL = { minimumFractionDigits: 1, maximumFractionDigits: 1 };

export function count(value: Maybe): string {
  return value === null || value === undefined
    ? ABSENT
    : value.toLocaleString("en-GB").replaceAll(",", "\u202f");
}

// For sums of shares: 0, 0.3, 12.0.
export function fraction(value: Maybe): string {
  if (value === null || value === undefined || value === 0) return count(value);
  return value.toLocaleString("en-GB", DECIMAL).replaceAll(",", "\u202f");
}

// 1 pod, 12 pods.
export function plural(value: number, one: string, several = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : several}`;
}

// 12 s, 4 min, 3 h 20 min, 5 d 2 h: at most two parts.
export function duration(seconds: Maybe): string {
  if (seconds === null || seconds === undefined) return ABSENT;
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  return hours % 24 ? `${days} d ${hours % 24} h` : `${days} d`;
}

// 12 ms, 1.4 s, 2 min.
export function shortDuration(seconds: Maybe): string {
  if (seconds === null || seconds === undefined) return ABSENT;
  if (seconds < 1) return `${seconds > 0 ? Math.max(1, Math.round(seconds * 1000)) : 0} ms`;
  return seconds < 60 ? `${seconds.toFixed(1)} s` : duration(seconds);
}

export function clock(secondsSinceEpoch: Maybe): string {
  if (secondsSinceEpoch === null || secondsSinceEpoch === undefined) return ABSENT;
  return new Date(secondsSinceEpoch * 1000).toLocaleTimeString("en-GB");
}
