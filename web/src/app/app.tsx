// The page: one stream, one keyboard, one shell, and in it the view of the present place.
import { useEffect, useState } from "preact/hooks";
import { token, tokenWanted } from "../api/client";
import { follow, heardAt } from "../live/stream";
import { Help } from "./help";
import { helpOpen, startKeyboard } from "./keyboard";
import { followLink } from "./location";
import { MAIN, Shell } from "./shell";
import { startTheme } from "./theme";
import { NeedsToken, TokenDialog } from "./token-dialog";
import { ViewHost } from "./view-host";

startTheme();

export function App() {
  const [declined, setDeclined] = useState<string | null | undefined>(undefined); // the token in use when the dialog was closed
  useEffect(() => {
    const abort = new AbortController();
    void follow(abort.signal);
    const stopKeys = startKeyboard();
    document.addEventListener("click", followLink);
    return () => {
      abort.abort();
      stopKeys();
      document.removeEventListener("click", followLink);
    };
  }, []);
  const asked = tokenWanted.value;
  const asking = asked && declined !== token.value;
  const nothingToShow = asked && heardAt.value === null;
  const ask = () => setDeclined(undefined);
  return (
    <>
      <Shell needsToken={asked && !asking && !nothingToShow ? ask : null}>
        {nothingToShow ? (
          <NeedsToken ask={ask} />
        ) : (
          // With another token everything is asked for anew.
          <ViewHost key={token.value ?? ""} onShown={focusMain} />
        )}
      </Shell>
      {helpOpen.value ? <Help /> : null}
      {asking ? <TokenDialog key={token.value ?? ""} close={() => setDeclined(token.value)} /> : null}
    </>
  );
}

// Who moves by keyboard or listens is put where the new view begins; who just opened the page is left alone.
function focusMain(first: boolean): void {
  if (!first) document.getElementById(MAIN)?.focus({ preventScroll: true });
}
