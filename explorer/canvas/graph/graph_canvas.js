/* The placed graph: what is drawn in which order, what the pointer does, replays and drawings of others on top.

   World coordinates are those of the place (arrangement.js); what both canvases know is in the store: data, level,
   highlight, selection, search. */

import { areaOfText } from "../kit/areas.js";
import { LEVEL_DEVICES } from "../kit/contract.js";
import { LANES_LEFT, Morph, lanePlace } from "./arrangement.js";
import { COLOUR_MODES } from "./colour_modes.js";
import { BoxPainter } from "./graph_boxes.js";
import { GraphControls } from "./graph_controls.js";
import { Minimap } from "./minimap.js";
import { SpeakerNotes } from "./speaker_notes.js";
import { thingOfBox } from "../data/store.js";

const TRANSITION_MS = 280;
const ANCHOR_DELAY_MS = 160;
const LEGEND_HEIGHT = 42;

const CHIP_GAP = 2;

/** The size of the letters of a lane's label and the width of its chip, in pixels: never too small to be read. */
function laneChip(label, scale) {
  const size = Math.min(13, Math.max(8, 15 * scale));
  return { size, width: Math.max(size * (0.7 + 0.65 * label.length), Math.min(30, 28 * scale)) };
}

export class GraphPicture extends BoxPainter {
  constructor(store, actions) {
    super();
    this.store = store;
    this.laneChips = [];
    this.actions = { ...actions, viewChanged: () => { this.anchorSoon(); actions.viewChanged(); } };
    this.view = this.before = this.morph = this.marquee = this.replay = this.overlayDraw = this.marks = null;
    this.changedAt = -Infinity;
    this.arrangement = "network";
    this.keptViews = {};
    this.minimap = new Minimap(this);
    this.controls = new GraphControls(this, actions);
    this.notes = new SpeakerNotes(this, actions.notesChanged);
  }

  /** Put the controls beside the buttons of the levels, and legend and overview over the canvas. */
  attach(levels, area) {
    levels.after(this.controls.element);
    area.append(this.controls.legend, this.minimap.canvas, this.notes.input);
  }

  get level() {
    return this.store.level;
  }

  // What the user chose to see

  get userLook() {
    return { colour: this.mode.name, arrangement: this.arrangement };
  }

  /** Take over a look without any motion, before new data are shown. */
  set userLook({ colour, arrangement }) {
    this.mode = COLOUR_MODES.find((mode) => mode.name === colour) ?? COLOUR_MODES[0];
    this.arrangement = arrangement === "lanes" ? "lanes" : "network";
  }

  /** Change to the look of another picture. */
  setLook({ colour, arrangement }) {
    if (colour !== this.mode.name) this.setColour(colour);
    this.setArrangement(arrangement);
  }

  /** For tests: what is seen beside the boxes themselves. */
  probe() {
    return { ...this.userLook, isMoving: this.morph !== null, hasMinimap: !this.minimap.canvas.hidden,
      scale: this.mode.of && this.scale ? { low: this.scale.low, high: this.scale.high } : null };
  }

  // Places

  /** Where boxes and lines stand now. */
  get place() {
    return this.morph ?? this.placeOf(this.level);
  }

  placeOf(level) {
    return this.isInLanes(level) ? lanePlace(level) : level;
  }

  isInLanes(level = this.level) {
    // A lane of one box says no more than the box.
    return this.arrangement === "lanes" && level?.name !== LEVEL_DEVICES && Boolean(this.store.data?.graph?.placed);
  }

  /** Under which name the view of a level is kept. */
  viewKey(level) {
    return this.isInLanes(level) ? `${level.name} lanes` : level.name;
  }

  /** Change to "network" or "lanes"; boxes travel there, at once for readers who prefer less motion. */
  setArrangement(name) {
    if (name === this.arrangement || !this.level) return;
    const [from, viewFrom] = [this.place, { ...this.view }];
    this.keptViews[this.viewKey(this.level)] = viewFrom;
    this.morph = null;
    this.arrangement = name;
    const kept = this.keptViews[this.viewKey(this.level)];
    this.view = kept && !kept.fitted ? kept : this.fittedView();
    this.travel(from, viewFrom);
    this.actions.viewChanged();
  }

  /** Animate from a place and a view to the current ones. */
  travel(from, viewFrom) {
    if (this.surface.width > 0 && from.x.length === this.level.x.length && !prefersLessMotion()) {
      this.morph = new Morph({ ...from, x: from.x.slice(), y: from.y.slice() }, this.placeOf(this.level), viewFrom, { ...this.view });
    }
    this.surface.invalidate();
  }

  /** Show new data or another level with a view kept for it, null for all of it. */
  restore(view) {
    const { before } = this;
    this.morph = null;
    this.view = view;
    if (!view || view.fitted) this.fit(false);
    if (this.beforePlace && before && this.beforeLevel === this.level.name && this.isInLanes()) this.travel(this.beforePlace, { ...this.view });
    this.beforePlace = null;
    this.anchorSoon();
    this.surface.invalidate();
  }

  // Colours

  /** Fill boxes by one of COLOUR_MODES. */
  setColour(name) {
    this.startTransition();
    this.mode = COLOUR_MODES.find((mode) => mode.name === name) ?? COLOUR_MODES[0];
    this.beforePlace = null;
    // The legend of the scale takes a strip at the bottom.
    if (this.view?.fitted) this.fit(false);
    this.anchorSoon();
    this.surface.invalidate();
  }

  /** Pixels at the bottom that the legend of the scale covers. */
  get inset() {
    return this.mode.of ? LEGEND_HEIGHT : 0;
  }

  get labelWidth() {
    return this.place.lanes ? LANES_LEFT : 0;
  }

  /** Pixels that the labels of lanes take at the left: they do not shrink with the boxes, and none may cover them. */
  labelRoom(scale) {
    const labels = (this.place.lanes ?? []).filter(({ device }) => device >= 0).map(({ device }) => this.store.data.devices[device].label);
    return labels.length ? Math.max(...labels.map((label) => laneChip(label, scale).width)) + 2 * CHIP_GAP : 0;
  }

  /** Anchor the colour scale to what is visible, once the view rests. */
  anchorSoon() {
    clearTimeout(this.anchoring);
    if (this.mode.of) this.anchoring = setTimeout(() => this.anchor(), ANCHOR_DELAY_MS);
  }

  anchor() {
    if (!this.mode.of || !this.inView?.length || this.look.level !== this.level) return;
    const scale = this.scaleFor(this.inView);
    if (scale.isEmpty || scale.sameAs(this.scale)) return;
    this.startTransition();
    this.scale = scale;
    this.surface.invalidate();
  }

  /** Remember the colours on screen, so that the next data fade in over them. */
  startTransition() {
    this.before = this.level ? this.fills() : null;
    this.beforeLevel = this.level?.name;
    this.beforePlace = this.level && this.isInLanes() ? this.placeOf(this.level) : null;
    this.changedAt = performance.now();
  }

  // Pointer

  boxAt(px, py) {
    if (!this.view) return -1;
    const { place, level } = this;
    const [wx, wy] = this.toWorld(px, py);
    const slack = 2 / this.view.scale;
    const [halfWidth, halfHeight] = [level.boxWidth / 2 + slack, level.boxHeight / 2 + slack];
    for (let i = place.x.length - 1; i >= 0; i -= 1) {
      if (Math.abs(place.x[i] - wx) <= halfWidth && Math.abs(place.y[i] - wy) <= halfHeight) return i;
    }
    return -1;
  }

  hover(px, py, event) {
    const box = this.boxAt(px, py);
    const edge = box < 0 ? this.cutEdgeAt(px, py) : -1;
    if (this.notes.isPlacing) return;
    this.surface.canvas.style.cursor = box >= 0 || edge >= 0 ? "pointer" : "grab";
    if (box >= 0) this.actions.hover(thingOfBox(this.level, box), event);
    else if (edge >= 0) this.actions.hover({ kind: "edge", edge }, event);
    else this.actions.hover(null, event);
  }

  leave() {
    this.actions.hover(null);
  }

  click(px, py, event) {
    if (this.notes.click(px, py)) return;
    const box = this.boxAt(px, py);
    const edge = box < 0 ? this.cutEdgeAt(px, py) : -1;
    if (box >= 0 && (event.shiftKey || event.ctrlKey || event.metaKey)) this.actions.extend(this.level.boxes.nodes[box]);
    else if (box >= 0) this.actions.selectBox(box);
    else if (edge >= 0) this.actions.selectEdge(edge);
    else this.actions.clear();
  }

  doubleClick() {
    this.fit();
  }

  drag(dx, dy) {
    this.pan(dx, dy);
  }

  /** With shift, a drag opens a frame; the boxes it touches are selected. A shift-click stays a click. */
  press(px, py, event) {
    const note = this.notes.press(px, py);
    if (note) return note;
    if (!event.shiftKey || !this.view) return null;
    const frame = { x0: px, y0: py, x1: px, y1: py };
    return {
      move: (x, y) => {
        [frame.x1, frame.y1] = [x, y];
        this.marquee = Math.hypot(x - px, y - py) > 4 ? frame : null;
        this.surface.invalidate();
      },
      end: (x, y, last) => {
        const framed = this.marquee;
        this.marquee = null;
        this.surface.invalidate();
        if (last.type !== "pointerup") return;
        if (!framed) this.click(x, y, last);
        else this.selectFrame(framed);
      },
    };
  }

  selectFrame({ x0, y0, x1, y1 }) {
    const { place, level } = this;
    const [left, top] = this.toWorld(Math.min(x0, x1), Math.min(y0, y1));
    const [right, bottom] = this.toWorld(Math.max(x0, x1), Math.max(y0, y1));
    const nodes = [];
    for (let i = 0; i < place.x.length; i += 1) {
      const [dx, dy] = [level.boxWidth / 2, level.boxHeight / 2];
      if (place.x[i] + dx < left || place.x[i] - dx > right || place.y[i] + dy < top || place.y[i] - dy > bottom) continue;
      for (const node of level.boxes.nodes[i]) nodes.push(node);
    }
    if (nodes.length) this.actions.extend(nodes);
  }

  wheel(px, py, dx, dy) {
    return this.zoom(Math.exp(-dy * 0.0016), px, py);
  }

  // Drawing

  draw(ctx, width, height) {
    const { level, store } = this;
    if (!level || !level.x.length) return;
    if (!this.view) this.fit(false);
    if (this.morph) this.stepMorph();
    const { scale } = this.view;
    const [left, top] = this.toWorld(0, 0);
    const [right, bottom] = this.toWorld(width, height);
    this.visible = { left, top, right, bottom };
    const share = Math.min(1, (performance.now() - this.changedAt) / TRANSITION_MS);
    this.blending = share < 1 && this.before?.length === level.x.length && this.beforeLevel === level.name ? share : 1;
    if (this.blending < 1) this.surface.invalidate();
    const focus = store.focus();
    this.writtenAreas = [];
    if (this.place.lanes) this.drawLanes(ctx, scale, width);
    this.drawTies(ctx, scale, focus);
    this.drawUncut(ctx, scale, focus);
    this.drawCut(ctx, scale, focus);
    this.drawBoxes(ctx, scale, focus);
    // In a replay the tensors on their way stand where the costs would.
    if (!this.replay) this.drawCosts(ctx, scale, focus);
    if (this.replay) this.drawReplay(ctx, scale);
    this.marks?.(ctx, { boxRect: (node) => this.boxRect(node) });
    this.overlayDraw?.(ctx, { scale, width, height, boxRect: (node) => this.boxRect(node) });
    if (this.marquee) this.drawMarquee(ctx);
    this.notes.draw(ctx);
    this.minimap.draw();
    this.controls.update();
  }

  stepMorph() {
    const isGoing = this.morph.step();
    this.view = this.morph.view;
    if (isGoing) return this.surface.invalidate();
    this.view = { ...this.morph.viewTo };
    this.morph = null;
    return this.actions.viewChanged();
  }

  /** Bands behind the boxes of each device, with its label at the left. */
  drawLanes(ctx, scale, width) {
    const { theme, data } = this.store;
    const [boxesLeft] = this.toScreen(LANES_LEFT, 0);
    this.laneChips = [];
    for (const { device, top, bottom } of this.place.lanes) {
      const [x, y] = this.toScreen(0, top);
      const [right, below] = this.toScreen(this.place.width, bottom);
      ctx.fillStyle = theme.shade;
      ctx.fillRect(Math.max(0, x), y, Math.min(width, right) - Math.max(0, x), below - y);
      if (device < 0) continue;
      const { label, colour } = data.devices[device];
      const { size, width: chip } = laneChip(label, scale);
      const at = Math.max(CHIP_GAP, Math.min(x + CHIP_GAP, boxesLeft - CHIP_GAP - chip));
      this.laneChips.push({ left: at, right: at + chip });
      ctx.fillStyle = colour.forward.fill;
      ctx.fillRect(at, y, chip, below - y);
      ctx.fillStyle = colour.forward.text;
      ctx.font = `700 ${size}px ${theme.font}`;
      ctx.textAlign = "center";
      ctx.textBaseline = "middle";
      const middle = (Math.max(0, y) + Math.min(this.surface.height, below)) / 2;
      ctx.fillText(label, at + chip / 2, middle);
      if (this.replay) this.writtenAreas.push(areaOfText(ctx, label, at + chip / 2, middle));
    }
  }

  drawMarquee(ctx) {
    const { x0, y0, x1, y1 } = this.marquee;
    ctx.fillStyle = this.store.theme.shade;
    ctx.strokeStyle = this.store.theme.primary;
    ctx.lineWidth = 1.5;
    ctx.setLineDash([5, 3]);
    ctx.fillRect(x0, y0, x1 - x0, y1 - y0);
    ctx.strokeRect(x0, y0, x1 - x0, y1 - y0);
    ctx.setLineDash([]);
  }

  isBoxInFocus(i, focus) {
    if (this.replay) return this.lit().has(i);
    return focus.boxes === null || focus.boxes[i] > 0;
  }

  // Replay and overlays

  /** Draw something of one's own after the boxes in every frame: draw(ctx, {scale, width, height, boxRect}), null for nothing. */
  overlay(draw) {
    this.overlayDraw = draw;
    this.surface.invalidate();
  }

  /** Where the box that shows a node (by index) stands on the canvas: {x, y, width, height} in pixels. */
  boxRect(node) {
    const box = this.level.boxOfNode[node];
    const [cx, cy] = this.centreOf(box);
    const [width, height] = [this.level.boxWidth * this.view.scale, this.level.boxHeight * this.view.scale];
    return { x: cx - width / 2, y: cy - height / 2, width, height };
  }

  /** The area in the window of the box of a node or group; null for other things. */
  areaOnPage(thing) {
    if (thing.kind !== "node" && thing.kind !== "group") return null;
    const { x, y, width, height } = this.boxRect(thing.nodes[0]);
    const { canvas, zoom } = this.surface;
    const { left, top } = canvas.getBoundingClientRect();
    return { left: left + x * zoom, top: top + y * zoom, right: left + (x + width) * zoom, bottom: top + (y + height) * zoom };
  }

  /** The middle of a box on the canvas. */
  centreOf(box) {
    return this.toScreen(this.place.x[box], this.place.y[box]);
  }

  /** Light some nodes and dim the rest: `replay.lit` maps a node's index to {text, colour}, both optional; null ends it. */
  setReplay(replay) {
    this.replay = replay;
    this.litBoxes = null;
    this.surface.invalidate();
  }

  /** What is lit of each box: that of its first lit node. */
  lit() {
    if (!this.replay) return null;
    if (this.litBoxes?.level !== this.level) {
      this.litBoxes = { level: this.level, of: new Map() };
      for (const [node, mark] of this.replay.lit) {
        const box = this.level.boxOfNode[node];
        if (!this.litBoxes.of.has(box)) this.litBoxes.of.set(box, mark);
      }
    }
    return this.litBoxes.of;
  }

  /** A ring round every lit box, and its text at the upper right corner where there is room. */
  drawReplay(ctx, scale) {
    const { level, store } = this;
    const [width, height] = [level.boxWidth * scale, level.boxHeight * scale];
    ctx.font = `700 11px ${store.theme.font}`;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    for (const [box, { text, colour }] of this.lit()) {
      const [cx, cy] = this.centreOf(box);
      this.ring(ctx, box, width, height, colour ?? store.theme.ink, 2, 1.5);
      if (text === undefined || height < 12) continue;
      const half = ctx.measureText(text).width / 2 + 4;
      const [x, y] = [cx + width / 2 - half + 3, cy - height / 2];
      ctx.fillStyle = store.theme.ink;
      ctx.beginPath();
      ctx.roundRect(x - half, y - 7, 2 * half, 14, 7);
      ctx.fill();
      ctx.fillStyle = store.theme.background;
      ctx.fillText(text, x, y + 0.5);
    }
  }
}

function prefersLessMotion() {
  return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
}
