// A button with a panel. Escape, or a click or focus elsewhere, closes it.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";

interface Props {
  title: string;
  chosen?: number; // number of selected items
  atEnd?: boolean; // align the panel with the end of the button
  children: () => ComponentChildren; // rendered only while open
}

export function Menu({ title, chosen = 0, atEnd = false, children }: Props) {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const panel = useId();

  useEffect(() => {
    if (!open) return;
    const elsewhere = (event: Event) => {
      if (!root.current?.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", elsewhere);
    document.addEventListener("focusin", elsewhere);
    return () => {
      document.removeEventListener("pointerdown", elsewhere);
      document.removeEventListener("focusin", elsewhere);
    };
  }, [open]);

  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: Escape closes it wherever the focus is
    <div
      class="menu"
      ref={root}
      onKeyDown={(event) => {
        if (event.key !== "Escape" || !open) return;
        event.stopPropagation();
        setOpen(false);
        button.current?.focus();
      }}
    >
      <button
        type="button"
        ref={button}
        class={chosen > 0 ? "menu-button menu-button-chosen" : "menu-button"}
        aria-expanded={open}
        aria-controls={panel}
        onClick={() => setOpen(!open)}
      >
        {title}
        {chosen > 0 && (
          <span class="menu-chosen">
            {chosen}
            <span class="visually-hidden"> selected</span>
          </span>
        )}
        <svg viewBox="0 0 12 12" width="10" height="10" aria-hidden="true">
          <path d="M2.5 4.5 6 8l3.5-3.5" fill="none" stroke="currentColor" stroke-width="1.5" />
        </svg>
      </button>
      {/* always rendered, since aria-controls refers to it */}
      <div class={atEnd ? "menu-panel menu-panel-end" : "menu-panel"} id={panel} hidden={!open}>
        {open && children()}
      </div>
    </div>
  );
}
