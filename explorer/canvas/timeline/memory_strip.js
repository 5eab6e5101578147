/* Memory over time below the timeline, on the same time axis: a step curve per device, the limit as a line.

   Of many devices the fullest, those over their limit and those in focus are drawn one by one; the others lie in a
   band. The list at the right has each one's label and what it holds at the playhead, at the cursor, or at its peak. */

import { lastAtMost } from "../data/bar_index.js";
import { formatBytes, formatMs } from "../kit/quantities.js";
import { drawMoment, drawRange, drawTimeAxis } from "./gantt_marks.js";
import {
  ROW, STRIP_TOP, drawBand, drawCurve, drawDots, drawLimits, drawList, drawValueAxis,
} from "./memory_curves.js";

export const STRIP_HEIGHT = 148;
const STRIP_BOTTOM = 8;
const MOST_CURVES = 8;
const NEAR = 9;
const AREA = 0.14;
const FUTURE_CURVES = 0.35;
/** A limit that is further away than this many times the highest curve would press the curves flat. */
const FAR_LIMIT = 2.5;

export class MemoryPicture {
  constructor(store, actions, gantt, shared) {
    Object.assign(this, { store, actions, gantt, shared });
    this.still = document.createElement("canvas");
    this.areas = document.createElement("canvas");
    this.drawn = null;
    this.widths = new Map();
  }

  get lanes() {
    return this.store.data?.gantt?.lanes ?? [];
  }

  /** Whether bytes are shown, or else micro-batches in flight. */
  get showsBytes() {
    return this.store.data.gantt.tellsMemory && this.shared.memoryMode === "memory";
  }

  prepare() {
    const { arrays } = this.store.data;
    this.ends = arrays["memory.end"];
    this.time = arrays["memory.time"];
    this.bytes = arrays["memory.bytes"];
    this.inFlight = arrays["memory.in_flight"];
    this.drawn = null;
  }

  span(lane) {
    return [lane === 0 ? 0 : this.ends[lane - 1], this.ends[lane]];
  }

  values() {
    return this.showsBytes ? this.bytes : this.inFlight;
  }

  valueAt(lane, ms) {
    const [low, high] = this.span(lane);
    const at = lastAtMost(this.time, ms, low, high);
    return at < 0 ? 0 : this.values()[at];
  }

  peakOf(lane) {
    return this.showsBytes ? lane.peakMemoryBytes : lane.peakInFlight;
  }

  limitOf(lane) {
    return this.showsBytes ? lane.capacityBytes : null;
  }

  text(value) {
    return this.showsBytes ? this.size(value) : String(value);
  }

  /** A size in the unit of all memory on the page. */
  size(bytes) {
    return formatBytes(bytes, this.store.data.memoryUnit);
  }

  /** Numbers of the lanes drawn one by one, in order: those over their limit, in focus, and the fullest. */
  shownLanes(focus) {
    const all = this.lanes.map((lane, l) => l);
    if (all.length <= MOST_CURVES) return all;
    const rank = (l) => (focus.devices?.has(this.lanes[l].device) ? 2 : 0) + (this.lanes[l].isOverMemory && this.showsBytes ? 1 : 0);
    all.sort((a, b) => rank(b) - rank(a) || this.peakOf(this.lanes[b]) - this.peakOf(this.lanes[a]) || a - b);
    return all.slice(0, MOST_CURVES).sort((a, b) => a - b);
  }

  // Geometry: time is the timeline's

  get view() {
    return this.gantt.view;
  }

  get plotLeft() {
    return this.gantt.plotLeft;
  }

  get plotRight() {
    return this.gantt.plotRight;
  }

  get plotWidth() {
    return this.gantt.plotWidth;
  }

  toX(ms) {
    return this.gantt.toX(ms);
  }

  get bottom() {
    return this.surface.height - STRIP_BOTTOM;
  }

  toY(value) {
    return this.bottom - (value / this.top) * (this.bottom - STRIP_TOP);
  }

  /** The value at the upper edge: above every curve, and above the limit unless that is far away. */
  scaleTop() {
    const peak = Math.max(...this.lanes.map((lane) => this.peakOf(lane)), 0);
    const limits = this.lanes.map((lane) => this.limitOf(lane)).filter((limit) => limit !== null && limit <= FAR_LIMIT * peak);
    return Math.max(peak, ...limits) * 1.08 || 1;
  }

  // Pointer

  nearestLane(px, py) {
    if (!this.view || !this.gantt.isInPlot(px)) return -1;
    const ms = this.gantt.toMs(px);
    let [nearest, least] = [-1, NEAR];
    for (const lane of this.shown ?? []) {
      const off = Math.abs(this.toY(this.valueAt(lane, ms)) - py);
      if (off < least) [nearest, least] = [lane, off];
    }
    return nearest;
  }

  rowAt(px, py) {
    if (px < this.plotRight + 8) return -1;
    return this.shown?.[Math.floor((py - STRIP_TOP + 2) / ROW)] ?? -1;
  }

  hover(px, py, event) {
    if (!this.view || !this.ends) return;
    const isInPlot = this.gantt.isInPlot(px);
    const lane = isInPlot ? this.nearestLane(px, py) : this.rowAt(px, py);
    this.surface.canvas.style.cursor = this.gantt.isAtPlayhead(px) ? "ew-resize" : lane >= 0 ? "pointer" : "grab";
    this.shared.setCursor(isInPlot ? this.gantt.toMs(px) : null);
    if (lane < 0) return void this.actions.hover(null, event);
    const { device } = this.lanes[lane];
    this.actions.hover({ kind: "device", device, note: this.describe(lane, isInPlot ? this.gantt.toMs(px) : null) }, event);
  }

  /** What the strip shows, for a reader who does not see it. */
  summary() {
    const what = this.store.data.gantt.tellsMemory ? "Memory over time" : "Micro-batches in flight over time";
    const peaks = this.lanes.slice(0, 16).map((lane) => `${lane.name} ${this.size(lane.peakMemoryBytes)}, `
      + `${lane.peakInFlight} in flight${lane.isOverMemory ? ", over its memory" : ""}`);
    return `${what}. Peaks: ${peaks.join("; ")}${this.lanes.length > 16 ? `; and ${this.lanes.length - 16} more` : ""}.`;
  }

  /** What a lane holds at a time, in lines. */
  describe(lane, ms) {
    const { name, peakMemoryBytes, peakInFlight, capacityBytes, weightVersions } = this.lanes[lane];
    const lines = [name];
    if (ms !== null) {
      const [low, high] = this.span(lane);
      const at = Math.max(low, lastAtMost(this.time, ms, low, high));
      const held = this.store.data.gantt.tellsMemory ? `${this.size(this.bytes[at])}, ` : "";
      lines.push(`at ${formatMs(ms)}: ${held}${this.inFlight[at]} in flight`);
    }
    const limit = capacityBytes === null ? "" : ` of ${this.size(capacityBytes)}`;
    lines.push(`peak ${this.size(peakMemoryBytes)}${limit}, ${peakInFlight} in flight`);
    if (this.lanes[lane].isOverMemory) lines.push(`over its memory by ${this.size(peakMemoryBytes - capacityBytes)}`);
    if (weightVersions > 1) lines.push(`${weightVersions} versions of its weights`);
    return lines;
  }

  press(px, py, event) {
    return this.gantt.press(px, -1, event);
  }

  leave() {
    this.gantt.leave();
  }

  click(px, py) {
    const lane = this.gantt.isInPlot(px) ? this.nearestLane(px, py) : this.rowAt(px, py);
    if (lane >= 0) this.actions.selectDevice(this.lanes[lane].device);
    else this.actions.clear();
  }

  doubleClick() {
    this.gantt.fit();
  }

  drag(dx) {
    this.gantt.pan(dx);
  }

  wheel(px, py, dx, dy, event) {
    return this.gantt.wheel(px, py, dx, dy, event);
  }

  // Drawing

  draw(ctx, width, height) {
    if (!this.ends || !this.view || !this.lanes.length) return;
    this.drawStill(width, height);
    const { shared, store: { theme, selection } } = this;
    const { timeMs } = shared.replay;
    if (timeMs !== null) {
      // The strip fills up to the playhead; what is to come is faint.
      const x = Math.max(this.plotLeft, Math.min(this.plotRight, this.toX(timeMs)));
      ctx.globalAlpha = AREA;
      this.blit(ctx, this.areas, 0, x);
      ctx.globalAlpha = 1;
      this.blit(ctx, this.still, 0, x);
      ctx.globalAlpha = FUTURE_CURVES;
      this.blit(ctx, this.still, x, this.plotRight, STRIP_TOP - 6);
      ctx.globalAlpha = 1;
      // What is written above the curves stays, and so does the margin.
      this.blit(ctx, this.still, x, this.plotRight, 0, STRIP_TOP - 6);
      this.blit(ctx, this.still, this.plotRight, width);
    } else {
      this.blit(ctx, this.still, 0, width);
    }
    const range = shared.range ?? (selection?.kind === "range" ? selection : null);
    if (range) drawRange(ctx, this, range, 0, this.bottom);
    if (timeMs !== null) drawMoment(ctx, this, timeMs, { colour: theme.ink, line: 2, top: 0, bottom: this.bottom });
    if (shared.cursorMs !== null) {
      drawMoment(ctx, this, shared.cursorMs, { colour: theme.mutedInk, line: 1, dash: [1, 2], top: 0, bottom: this.bottom });
    }
    const at = shared.cursorMs ?? timeMs;
    if (at !== null) drawDots(ctx, this, at);
    drawList(ctx, this, at, width);
  }

  /** Copy a part of a bitmap of the whole strip. */
  blit(ctx, bitmap, x0, x1, y0 = 0, y1 = this.surface.height) {
    const { ratio } = this.surface;
    if (!(x1 > x0)) return;
    ctx.drawImage(bitmap, x0 * ratio, y0 * ratio, (x1 - x0) * ratio, (y1 - y0) * ratio, x0, y0, x1 - x0, y1 - y0);
  }

  drawStill(width, height) {
    const { store, surface, view } = this;
    const focus = store.focus();
    const state = [store.data, store.theme, focus, this.showsBytes, width, height, surface.ratio, view.from, view.to];
    if (this.drawn?.every((part, k) => part === state[k])) return;
    this.drawn = state;
    this.shown = this.shownLanes(focus);
    this.top = this.scaleTop();
    const contexts = [this.still, this.areas].map((bitmap) => {
      [bitmap.width, bitmap.height] = [Math.round(width * surface.ratio), Math.round(height * surface.ratio)];
      const ctx = bitmap.getContext("2d");
      ctx.setTransform(surface.ratio, 0, 0, surface.ratio, 0, 0);
      return ctx;
    });
    const [ctx, areas] = contexts;
    drawTimeAxis(ctx, this, STRIP_TOP - 6, this.bottom);
    drawValueAxis(ctx, this);
    for (const each of contexts) {
      each.save();
      each.beginPath();
      each.rect(this.plotLeft, STRIP_TOP - 6, this.plotWidth, this.bottom - STRIP_TOP + 8);
      each.clip();
    }
    if (this.shown.length < this.lanes.length) drawBand(ctx, this);
    for (const lane of this.shown) {
      const isPlain = focus.devices === null || focus.devices.has(this.lanes[lane].device);
      ctx.globalAlpha = isPlain ? 1 : 0.2;
      drawCurve(ctx, areas, this, lane, isPlain, focus.devices !== null);
    }
    ctx.globalAlpha = 1;
    for (const each of contexts) each.restore();
    drawLimits(ctx, this);
  }

  numStepsInView(lane) {
    const [low, high] = this.span(lane);
    return lastAtMost(this.time, this.view.to, low, high) - lastAtMost(this.time, this.view.from, low, high);
  }

  /** Constant pieces of a lane's curve within the view: visit(x0, x1, value). */
  eachStep(lane, visit) {
    const { from, to } = this.view;
    const [low, high] = this.span(lane);
    const values = this.values();
    const end = Math.min(to, this.store.data.gantt.makespanMs);
    for (let i = Math.max(low, lastAtMost(this.time, from, low, high)); i < high && this.time[i] <= end; i += 1) {
      const until = Math.min(end, i + 1 < high ? this.time[i + 1] : end);
      const start = Math.max(from, this.time[i]);
      if (until >= start) visit(this.toX(start), this.toX(until), values[i]);
    }
  }
}
