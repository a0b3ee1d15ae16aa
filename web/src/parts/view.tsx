// The frame of a view: heading, breadcrumb and document title.
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import "./view.css";

export interface Crumb {
  text: string;
  href: string;
}

interface Props {
  title: string;
  kind?: string | undefined; // "Device", "Pod": before the title
  crumbs?: readonly Crumb[] | undefined;
  badges?: ComponentChildren; // beside the title: health, simulated, stale
  actions?: ComponentChildren; // at the right: buttons, a choice
  children: ComponentChildren;
}

export function View({ title, kind, crumbs, badges, actions, children }: Props) {
  useEffect(() => {
    document.title = `${title} · AccelScope`;
  }, [title]);
  return (
    <div class="view">
      <div class="view-head">
        <div class="view-names">
          {crumbs && crumbs.length > 0 ? (
            <nav class="view-crumbs" aria-label="Breadcrumb">
              <ol>
                {crumbs.map((crumb) => (
                  <li key={crumb.href}>
                    <a href={crumb.href}>{crumb.text}</a>
                  </li>
                ))}
              </ol>
            </nav>
          ) : null}
          <div class="view-title-line">
            <h1 class="view-title">
              {kind ? <span class="view-kind">{kind} </span> : null}
              {title}
            </h1>
            {badges ? <div class="view-badges">{badges}</div> : null}
          </div>
        </div>
        {actions ? <div class="view-actions">{actions}</div> : null}
      </div>
      {children}
    </div>
  );
}
