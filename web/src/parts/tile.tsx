// A key figure with title and details.
import type { ComponentChildren } from "preact";
import { Value } from "./absent";
import "./tile.css";

interface Props {
  title: string;
  value: string | null | undefined; // from app/units; "–" or null: unknown
  of?: string | undefined; // after the value, smaller: "of 1 440"
  detail?: ComponentChildren;
  href?: string | undefined; // link of the whole tile
  tone?: "plain" | "warning" | "lost" | undefined;
  children?: ComponentChildren; // a bar, a sparkline
}

export function Tile({ title, value, of, detail, href, tone = "plain", children }: Props) {
  return (
    <div class={`tile tile-${tone}`}>
      <div class="tile-title">
        {href ? (
          <a class="tile-link" href={href}>
            {title}
          </a>
        ) : (
          title
        )}
      </div>
      <div class="tile-value">
        <Value text={value} />
        {of ? <span class="tile-of"> {of}</span> : null}
      </div>
      {children}
      {detail ? <div class="tile-detail">{detail}</div> : null}
    </div>
  );
}

export function Tiles({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    <section class="tiles" aria-label={label}>
      {children}
    </section>
  );
}
