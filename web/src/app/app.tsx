// The page: stream, keyboard, shell and the current view.
import { useEffect, useState } from "preact/hooks";
import { token, tokenRequired } from "../api/client";
import { lastMessageAt, runStream } from "../live/stream";
import { Help } from "./help";
import { helpOpen, startKeyboard } from "./keyboard";
import { followLink } from "./location";
import { MAIN, Shell } from "./shell";
import { startTheme } from "./theme";
import { NeedsToken, TokenDialog } from "./token-dialog";
import { ViewHost } from "./view-host";

startTheme();

export function App() {
  const [declined, setDeclined] = useState<string | null | undefined>(undefined); // token at the time the dialog was closed
  useEffect(() => {
    const abort = new AbortController();
    void runStream(abort.signal);
    const stopKeys = startKeyboard();
    document.addEventListener("click", followLink);
    return () => {
      abort.abort();
      stopKeys();
      document.removeEventListener("click", followLink);
    };
  }, []);
  const required = tokenRequired.value;
  const asking = required && declined !== token.value;
  const nothingToShow = required && lastMessageAt.value === null;
  const ask = () => setDeclined(undefined);
  return (
    <>
      <Shell needsToken={required && !asking && !nothingToShow ? ask : null}>
        {nothingToShow ? (
          <NeedsToken ask={ask} />
        ) : (
          // A new token fetches everything again.
          <ViewHost key={token.value ?? ""} onShown={focusMain} />
        )}
      </Shell>
      {helpOpen.value ? <Help /> : null}
      {asking ? <TokenDialog key={token.value ?? ""} close={() => setDeclined(token.value)} /> : null}
    </>
  );
}

// Moves the focus to the new view for keyboard and screen reader users, but not on the first load.
function focusMain(first: boolean): void {
  if (!first) document.getElementById(MAIN)?.focus({ preventScroll: true });
}
