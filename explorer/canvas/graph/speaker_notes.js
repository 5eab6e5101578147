/* Notes of the speaker: a text beside a box and an arrow from it to the box. They are written on the canvas, so that a
   text from an address can be nothing but text; they belong to one graph and follow their node from level to level.

   A note is {graph, node, dx, dy, text}: the first digits of the graph's digest, the id of a node, and where the text
   stands, in widths and heights of boxes from the middle of that node's. */

import { make } from "../kit/dom.js";

const DIGEST_LENGTH = 8;
const MOST_NOTES = 12;
const MOST_TEXT = 120;
const NOTE_WIDTH = 200;
const NOTE_LINE = 1.3;
const NOTE_PADDING = 6;
const MARGIN_PX = 4;
/** Where the text of a note stands whose box was only clicked: above it, to the right. */
const USUAL_PLACE = [0.9, -1.6];

export class SpeakerNotes {
  /** `changed()` is told of every change by the speaker. */
  constructor(picture, changed) {
    Object.assign(this, { picture, changed });
    this.all = [];
    this.isPlacing = false;
    this.draft = null;
    this.areas = [];
    this.input = make("input", { type: "text", className: "speaker-input", maxlength: String(MOST_TEXT), hidden: "",
      "aria-label": "Text of the note", placeholder: "Text, or nothing for an arrow alone; Enter", onkeydown: (event) => this.key(event), onblur: () => this.commit() });
  }

  get graph() {
    return this.picture.store.data?.graph?.digest.slice(0, DIGEST_LENGTH) ?? null;
  }

  /** The notes on the graph that is shown. */
  get shown() {
    const { links } = this.picture.store;
    return this.all.filter((note) => note.graph === this.graph && links.indexOf(note.node) >= 0);
  }

  /** Have the next press on the graph begin a note, or not. */
  place(isPlacing) {
    this.isPlacing = isPlacing && this.all.length < MOST_NOTES;
    this.picture.surface.canvas.classList.toggle("placing", this.isPlacing);
  }

  // Pointer

  /** A press while a note is to be placed: it begins where the text shall stand and ends on what it points at. */
  press(px, py) {
    if (!this.isPlacing) return null;
    const from = [px, py];
    return {
      move: (x, y) => {
        this.line = [...from, x, y];
        this.picture.surface.invalidate();
      },
      end: (x, y) => {
        this.line = null;
        this.place(false);
        const box = this.nearestBox(x, y);
        if (box < 0) return;
        const { level, view } = this.picture;
        const [cx, cy] = this.picture.centreOf(box);
        const isClick = Math.hypot(x - px, y - py) < 8;
        const [dx, dy] = isClick ? USUAL_PLACE
          : [(px - cx) / (level.boxWidth * view.scale), (py - cy) / (level.boxHeight * view.scale)];
        const node = this.picture.store.data.graph.nodes.id[level.boxes.nodes[box][0]];
        this.open({ graph: this.graph, node, dx, dy, text: "" });
      },
    };
  }

  nearestBox(x, y) {
    const { place } = this.picture;
    let [best, nearest] = [-1, Infinity];
    for (let box = 0; box < place.x.length; box += 1) {
      const [cx, cy] = this.picture.centreOf(box);
      const distance = Math.hypot(cx - x, cy - y);
      if (distance < nearest) [best, nearest] = [box, distance];
    }
    return best;
  }

  /** Open the note at a point for writing; false where there is none. */
  click(px, py) {
    const hit = this.areas.find(({ area: [x0, y0, x1, y1] }) => px >= x0 && px <= x1 && py >= y0 && py <= y1);
    if (hit) this.open(hit.note);
    return Boolean(hit);
  }

  open(note) {
    this.draft = note;
    const { zoom } = this.picture.surface;
    const [x0, y0] = this.areaOf(this.picture.surface.ctx, note).area;
    Object.assign(this.input.style, { left: `${x0 * zoom}px`, top: `${y0 * zoom}px` });
    this.input.value = note.text;
    this.input.hidden = false;
    this.input.focus();
  }

  key(event) {
    if (event.key === "Escape") this.draft = null;
    if (event.key === "Enter" || event.key === "Escape") {
      this.commit();
      this.picture.surface.canvas.focus();
    }
    event.stopPropagation();
  }

  commit() {
    const { draft } = this;
    // First of all: hiding the input takes its focus away, which ends up here again.
    this.draft = null;
    this.input.hidden = true;
    if (!draft) return;
    const rest = this.all.filter((note) => note !== draft);
    const text = this.input.value.trim().slice(0, MOST_TEXT);
    // Emptying a note takes it away; a new one without a text is an arrow.
    this.all = draft.text && !text ? rest : [...rest, { ...draft, text }];
    this.changed();
    this.picture.surface.invalidate();
  }

  clear() {
    this.all = this.all.filter((note) => note.graph !== this.graph);
    this.changed();
    this.picture.surface.invalidate();
  }

  // Drawing

  /** Where a note stands: {area, lines, size}, kept within the canvas. */
  areaOf(ctx, note) {
    const { picture } = this;
    const { level, view, store, surface } = picture;
    const size = 13;
    ctx.font = `600 ${size}px ${store.theme.font}`;
    const lines = wrapped(ctx, note.text, NOTE_WIDTH);
    const width = lines.length ? Math.max(...lines.map((line) => ctx.measureText(line).width)) + 2 * NOTE_PADDING : 2;
    const height = lines.length ? lines.length * size * NOTE_LINE + 2 * NOTE_PADDING - 4 : 2;
    const [cx, cy] = picture.centreOf(level.boxOfNode[store.links.indexOf(note.node)]);
    const within = (at, half, end) => Math.max(half + MARGIN_PX, Math.min(end - half - MARGIN_PX, at));
    const x = within(cx + note.dx * level.boxWidth * view.scale, width / 2, surface.width);
    const y = within(cy + note.dy * level.boxHeight * view.scale, height / 2, surface.height);
    return { area: [x - width / 2, y - height / 2, x + width / 2, y + height / 2], lines, size };
  }

  draw(ctx) {
    this.areas = [];
    const { picture } = this;
    if (picture.morph) return;
    for (const note of this.shown) {
      const { area, lines, size } = this.areaOf(ctx, note);
      this.areas.push({ note, area });
      this.drawArrow(ctx, area, picture.boxRect(picture.store.links.indexOf(note.node)));
      if (lines.length) this.drawText(ctx, area, lines, size);
    }
    if (this.line) strokeArrow(ctx, ...this.line, picture.store.theme.primary);
  }

  drawText(ctx, [x0, y0, x1, y1], lines, size) {
    const { theme } = this.picture.store;
    ctx.fillStyle = theme.background;
    ctx.strokeStyle = theme.ink;
    ctx.lineWidth = 1.4;
    ctx.beginPath();
    ctx.roundRect(x0, y0, x1 - x0, y1 - y0, 6);
    ctx.fill();
    ctx.stroke();
    ctx.fillStyle = theme.ink;
    ctx.font = `600 ${size}px ${theme.font}`;
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    lines.forEach((line, k) => ctx.fillText(line, x0 + NOTE_PADDING, y0 + NOTE_PADDING - 2 + (k + 0.5) * size * NOTE_LINE));
  }

  /** From the middle of the note to the border of the box. */
  drawArrow(ctx, [x0, y0, x1, y1], { x, y, width, height }) {
    const [fromX, fromY] = [(x0 + x1) / 2, (y0 + y1) / 2];
    const [cx, cy] = [x + width / 2, y + height / 2];
    const [dx, dy] = [fromX - cx, fromY - cy];
    const share = Math.min(1, width / 2 / Math.max(1e-9, Math.abs(dx)), height / 2 / Math.max(1e-9, Math.abs(dy)));
    if (share < 1) strokeArrow(ctx, fromX, fromY, cx + dx * share, cy + dy * share, this.picture.store.theme.ink);
  }
}

/** The lines of a text of at most `width` pixels in the context's font; a longer word has a line of its own. */
function wrapped(ctx, text, width) {
  const lines = [];
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
    if (lines.length && ctx.measureText(longer).width <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

function strokeArrow(ctx, x0, y0, x1, y1, colour) {
  const length = Math.hypot(x1 - x0, y1 - y0) || 1;
  const [ux, uy] = [(x1 - x0) / length, (y1 - y0) / length];
  ctx.strokeStyle = ctx.fillStyle = colour;
  ctx.lineWidth = 2;
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1 - 8 * ux, y1 - 8 * uy);
  ctx.stroke();
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x1 - 11 * ux - 5 * uy, y1 - 11 * uy + 5 * ux);
  ctx.lineTo(x1 - 11 * ux + 5 * uy, y1 - 11 * uy - 5 * ux);
  ctx.fill();
}
