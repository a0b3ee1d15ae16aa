// The current time, updated every second while a component uses it.
import { signal } from "@preact/signals";

let timer: ReturnType<typeof setInterval> | undefined;

export const now = signal(Date.now(), {
  watched() {
    now.value = Date.now();
    timer = setInterval(() => {
      now.value = Date.now();
    }, 1000);
  },
  unwatched() {
    clearInterval(timer);
  },
});
