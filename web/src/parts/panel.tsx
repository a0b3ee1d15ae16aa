// A section of a view with a heading.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import "./panel.css";

interface Props {
  title: string;
  aside?: ComponentChildren; // beside the heading: a count or a link
  level?: 2 | 3 | undefined;
  flush?: boolean | undefined; // no padding: for tables
  children: ComponentChildren;
}

export function Panel({ title, aside, level = 2, flush = false, children }: Props) {
  const id = useId();
  const body = useRef<HTMLDivElement>(null);
  const scrolls = useScrolls(body, flush);
  const Heading = `h${level}` as "h2" | "h3";
  return (
    <section class={`panel${flush ? " panel-flush" : ""}`} aria-labelledby={id}>
      <div class="panel-head">
        <Heading id={id} class="panel-title">
          {title}
        </Heading>
        {aside ? <div class="panel-aside">{aside}</div> : null}
      </div>
      {/* A scrollable body must be reachable by keyboard. */}
      <div
        ref={body}
        class="panel-body"
        {...(scrolls ? { tabIndex: 0, role: "group", "aria-labelledby": id } : {})}
      >
        {children}
      </div>
    </section>
  );
}

function useScrolls(of: { current: HTMLElement | null }, may: boolean): boolean {
  const [scrolls, setScrolls] = useState(false);
  const look = () => {
    const element = of.current;
    if (element && may)
      setScrolls(element.scrollWidth > element.clientWidth || element.scrollHeight > element.clientHeight);
  };
  useEffect(look); // the content may have changed
  useEffect(() => {
    const element = of.current;
    if (!element || !may) return;
    const watch = new ResizeObserver(look);
    watch.observe(element);
    for (const child of element.children) watch.observe(child);
    return () => watch.disconnect();
  }, [of, may]);
  return scrolls;
}
