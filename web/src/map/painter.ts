// Draws the visible part of the map, at most once per frame.
import { type Fleet, textOf } from "./fleet";
import { DEEP, HEADING, type Layout, lineAt, positionOf } from "./layout";
import { shownSince } from "./measure";
import { type Painting, paint } from "./raster";

const NAME_FONT = '11px system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif';

export interface Elements {
  canvas: HTMLCanvasElement;
  cursor: HTMLElement; // frame around the hovered device
  headings: () => ArrayLike<HTMLElement>; // one per group
}

export class Painter {
  private painting: (Painting & { fleet: Fleet }) | null = null;
  private size = { width: 0, height: 0 };
  private top = 0;
  private pointed: number | null = null;
  private image: ImageData | null = null;
  private frame = 0;
  private pixelsWanted = false;
  private since: number[] = [];

  constructor(private readonly elements: Elements) {}

  show(painting: Painting & { fleet: Fleet }, size: { width: number; height: number }): void {
    this.painting = painting;
    this.size = size;
    this.pixelsWanted = true;
    this.request();
  }

  scroll(top: number): void {
    if (top === this.top) return;
    this.top = top;
    this.pixelsWanted = true;
    this.request();
  }

  point(place: number | null): void {
    if (place === this.pointed) return;
    this.pointed = place;
    this.request();
  }

  // The next drawing is the response to an input at this time of performance.now().
  answer(since: number): void {
    this.since.push(since);
    this.request();
  }

  stop(): void {
    cancelAnimationFrame(this.frame);
  }

  private request(): void {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    this.frame = 0;
    const { painting } = this;
    if (!painting || this.size.width === 0) return;
    if (this.pixelsWanted) this.drawPixels(painting);
    this.pixelsWanted = false;
    this.placeHeadings(painting.layout);
    this.placeCursor(painting.layout);
    for (const since of this.since) shownSince(since);
    this.since = [];
  }

  private drawPixels(painting: Painting & { fleet: Fleet }): void {
    const { canvas } = this.elements;
    const ratio = window.devicePixelRatio || 1;
    const width = Math.max(1, Math.round(this.size.width * ratio));
    const height = Math.max(1, Math.round(this.size.height * ratio));
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
      this.image = null;
    }
    const context = canvas.getContext("2d", { alpha: false });
    if (!context) return;
    this.image ??= context.createImageData(width, height);
    const pixels = { data: new Uint32Array(this.image.data.buffer), width, height };
    paint(pixels, painting, this.top, ratio);
    context.putImageData(this.image, 0, 0);
    if (painting.layout.label > 0) drawNames(context, painting, this.top, this.size.height, ratio);
  }

  // The heading of a group is sticky while the group is visible.
  private placeHeadings(layout: Layout): void {
    const elements = this.elements.headings();
    for (const [group, y] of layout.headings.entries()) {
      const next = layout.headings[group + 1] ?? layout.height;
      const shown = Math.max(y - this.top, Math.min(0, next - HEADING - this.top));
      const element = elements[group];
      if (element) element.style.transform = `translateY(${shown}px)`;
    }
  }

  private placeCursor(layout: Layout): void {
    const { cursor } = this.elements;
    const there = this.pointed !== null && this.pointed < layout.arrangement.rows.length;
    cursor.hidden = !there;
    if (!there) return;
    const { x, y } = positionOf(layout, this.pointed as number);
    cursor.style.transform = `translate(${x}px, ${y - this.top}px)`;
    cursor.style.width = cursor.style.height = `${layout.size}px`;
  }
}

function drawNames(
  context: CanvasRenderingContext2D,
  { layout, fleet, palette }: Painting & { fleet: Fleet },
  top: number,
  height: number,
  ratio: number,
): void {
  context.save();
  context.scale(ratio, ratio);
  context.font = NAME_FONT;
  context.fillStyle = palette.ink;
  context.textBaseline = "alphabetic";
  for (let line = Math.max(0, lineAt(layout, top) - 1); line < layout.tops.length; line += 1) {
    const y = (layout.tops[line] as number) - top;
    if (y > height) break;
    if (y + layout.label + DEEP * layout.pitch < 0) continue;
    const end = layout.lineStarts[line + 1] as number;
    for (let block = layout.lineStarts[line] as number; block < end; block += 1) {
      const row = layout.arrangement.rows[layout.arrangement.starts[block] as number] as number;
      const wide = (layout.columns[block] as number) * layout.pitch - 2;
      const name = shortened(
        textOf(fleet, "node", row) ?? "",
        wide,
        (text) => context.measureText(text).width,
      );
      context.fillText(name, layout.lefts[block] as number, y + layout.label - 4);
    }
  }
  context.restore();
}

const LEAST_SHOWN = 5; // characters

// Shortens a node's name in the middle: start and end are the most useful parts.
export function shortened(name: string, room: number, widthOf: (text: string) => number): string {
  if (widthOf(name) <= room) return name;
  for (let shown = name.length - 1; shown >= LEAST_SHOWN; shown -= 1) {
    const before = Math.floor(shown * 0.4);
    const text = `${name.slice(0, before)}…${name.slice(name.length - shown + before)}`;
    if (widthOf(text) <= room) return text;
  }
  return "";
}
