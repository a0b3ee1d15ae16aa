// Whether the page is as narrow as a phone, where wide tables become lists.
import { signal } from "@preact/signals";

const query = typeof matchMedia === "undefined" ? null : matchMedia("(max-width: 640px)");

export const narrow = signal(query?.matches ?? false);
query?.addEventListener("change", () => {
  narrow.value = query.matches;
});
