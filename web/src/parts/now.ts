// The time, for ages that grow while one looks. The clock runs only while something shows it.
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
