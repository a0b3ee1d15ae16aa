// Shows the current view. The previous view stays until the new one is loaded.
import { useEffect, useRef, useState } from "preact/hooks";
import { Loading } from "../parts/states";
import { Boundary, Broken } from "./boundary";
import { pathname } from "./location";
import { NotFound } from "./not-found";
import { placeOf } from "./routes";
import { load, loadAllSoon, ready, type ViewComponent } from "./views";

interface Shown {
  pathname: string;
  parts: Record<string, string>;
  component: ViewComponent | null; // null: not found
  error: Error | null;
}

export function ViewHost({ onShown }: { onShown: (first: boolean) => void }) {
  const wanted = pathname.value;
  const [shown, setShown] = useState<Shown | null>(null);
  const [attempt, setAttempt] = useState(0);
  const first = useRef(true);

  useEffect(() => {
    const place = placeOf(wanted);
    const component = place && ready(place.view);
    if (!place || component) {
      setShown({ pathname: wanted, parts: place?.parts ?? {}, component, error: null });
      return;
    }
    let left = false;
    load(place.view).then(
      (component) => {
        if (!left) setShown({ pathname: wanted, parts: place.parts, component, error: null });
      },
      (error) => {
        if (!left) setShown({ pathname: wanted, parts: place.parts, component: null, error });
      },
    );
    return () => {
      left = true;
    };
  }, [wanted, attempt]);

  const at = shown?.pathname;
  useEffect(() => {
    if (at === undefined) return;
    onShown(first.current);
    if (first.current) loadAllSoon();
    first.current = false;
  }, [at, onShown]);

  if (!shown) return <Loading rows={12} />;
  if (shown.error) return <Broken error={shown.error} retry={() => setAttempt(attempt + 1)} />;
  const Shown = shown.component;
  return <Boundary key={shown.pathname}>{Shown ? <Shown {...shown.parts} /> : <NotFound />}</Boundary>;
}
