// Measures the time from input to paint (performance.getEntriesByName).
const INPUT_TO_PAINT = "map-input-to-paint";
const KEPT = 500;

const soon = typeof MessageChannel === "undefined" ? null : new MessageChannel();
let open: number[] = [];

if (soon) {
  // A message sent while a frame is prepared arrives after the frame was submitted.
  soon.port1.onmessage = () => {
    const end = performance.now();
    if (performance.getEntriesByName(INPUT_TO_PAINT).length > KEPT) performance.clearMeasures(INPUT_TO_PAINT);
    for (const start of open) performance.measure(INPUT_TO_PAINT, { start, end });
    open = [];
  };
}

// Called within the frame that shows the result; `since` is a time of performance.now().
export function shownSince(since: number): void {
  open.push(since);
  soon?.port2.postMessage(null);
}
