// The search field of a table. The text is stored in the address after a short delay.
import { useEffect, useRef, useState } from "preact/hooks";
import { go, search, withParameter } from "../../app/location";

const DELAY_MS = 120;

export function QueryBox({ label, placeholder }: { label: string; placeholder: string }) {
  const asked = search.value.get("q") ?? "";
  const [text, setText] = useState(asked);
  const sent = useRef(asked);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);

  // The address changed elsewhere: filters were cleared, or the user went back.
  useEffect(() => {
    if (asked !== sent.current) {
      sent.current = asked;
      setText(asked);
    }
  }, [asked]);
  useEffect(() => () => clearTimeout(timer.current), []);

  const ask = (next: string) => {
    clearTimeout(timer.current);
    sent.current = next.trim();
    go(withParameter("q", [sent.current]), { replace: true });
  };
  return (
    <input
      class="filters-query"
      type="search"
      aria-label={label}
      placeholder={placeholder}
      autocomplete="off"
      spellcheck={false}
      value={text}
      onInput={(event) => {
        const next = event.currentTarget.value;
        setText(next);
        clearTimeout(timer.current);
        timer.current = setTimeout(() => ask(next), DELAY_MS);
      }}
      onKeyDown={(event) => {
        if (event.key === "Enter") ask(text);
        else if (event.key === "Escape" && text !== "") {
          event.stopPropagation();
          setText("");
          ask("");
        }
      }}
    />
  );
}
