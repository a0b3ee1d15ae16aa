// Why a device is slowed down. Some drivers call it throttling when there is nothing to do.

export function isRest(reason: string): boolean {
  return reason.includes("idle");
}

// Of the reasons that the API has, with commas between, those that slow work down; null: there is none.
export function slowedBy(throttled: string | null): string | null {
  const reasons = throttled?.split(",").filter((reason) => !isRest(reason)) ?? [];
  return reasons.length > 0 ? reasons.join(",") : null;
}
