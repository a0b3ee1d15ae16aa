// Compares two rows by value. Every response contains new row objects, and most have not changed.

export const AGE_FIELDS: ReadonlySet<string> = new Set(["age_seconds", "taken_at", "ageSeconds"]);

export function isSameRow(one: unknown, other: unknown, ignored: ReadonlySet<string>): boolean {
  if (one === other) return true;
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return false;
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const names = Object.keys(one);
  if (names.length !== Object.keys(other).length) return false;
  const [before, after] = [one as Record<string, unknown>, other as Record<string, unknown>];
  return names.every((name) => ignored.has(name) || isSameRow(before[name], after[name], ignored));
}
