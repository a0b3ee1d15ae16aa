// A modal dialog; the browser traps and restores the focus.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import "./dialog.css";

interface Props {
  title: string;
  close: () => void;
  children: ComponentChildren;
}

export function Dialog({ title, close, children }: Props) {
  const element = useRef<HTMLDialogElement>(null);
  const gone = useRef(false);
  const id = useId();
  useEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => {
      gone.current = true; // ignore the close event of the unmount
      dialog?.close();
    };
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes it, the click is on the backdrop
    <dialog
      ref={element}
      class="dialog"
      aria-labelledby={id}
      onClose={() => gone.current || close()}
      onClick={(event) => {
        if (event.target === element.current) close();
      }}
    >
      <div class="dialog-content">
        <div class="dialog-head">
          <h2 id={id}>{title}</h2>
          <button type="button" class="plain" onClick={close} aria-label="Close">
            ✕
          </button>
        </div>
        {children}
      </div>
    </dialog>
  );
}
