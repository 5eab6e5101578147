/* Memory over time below the timeline, on the same time axis: a step curve per device, the limit as a line.

   Of many devices the fullest, those over their limit and those in focus are drawn one by one; the others lie in a
   band. The list at the right has each one's label and what it holds at the playhead, at the cursor, or at its peak. */

import { lastAtMost } from "./bar_index.js";
import { formatBytes, formatMs, niceStep } from "./format.js";
import { drawMoment, drawRange, drawTimeAxis } from "./gantt_marks.js";

export const STRIP_HEIGHT = 148;
const STRIP_TOP = 20;
const STRIP_BOTTOM = 8;
const MOST_CURVES = 8;
const ROW = 15;
const NEAR = 9;
const AREA = 0.14;
/** A limit that is further away than this many times the highest curve would press the curves flat. */
const FAR_LIMIT = 2.5;
const UNITS = [1024 ** 4, 1024 ** 3, 1024 ** 2, 1024];

export class MemoryPicture {
  constructor(store, actions, gantt, shared) {
    Object.assign(this, { store, actions, gantt, shared });
    this.still = document.createElement("canvas");
    this.areas = document.createElement("canvas");
    this.drawn = null;
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
    return this.showsBytes ? formatBytes(value) : String(value);
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
    const peaks = this.lanes.slice(0, 16).map((lane) => `${lane.name} ${formatBytes(lane.peakMemoryBytes)}, `
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
      const held = this.store.data.gantt.tellsMemory ? `${formatBytes(this.bytes[at])}, ` : "";
      lines.push(`at ${formatMs(ms)}: ${held}${this.inFlight[at]} in flight`);
    }
    const limit = capacityBytes === null ? "" : ` of ${formatBytes(capacityBytes)}`;
    lines.push(`peak ${formatBytes(peakMemoryBytes)}${limit}, ${peakInFlight} in flight`);
    if (this.lanes[lane].isOverMemory) lines.push(`over its memory by ${formatBytes(peakMemoryBytes - capacityBytes)}`);
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
      ctx.globalAlpha = 0.35;
      this.blit(ctx, this.still, x, this.plotRight);
      ctx.globalAlpha = 1;
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
    if (at !== null) this.drawDots(ctx, at);
    this.drawList(ctx, at, width);
  }

  blit(ctx, bitmap, x0, x1) {
    const { ratio, height } = this.surface;
    if (!(x1 > x0)) return;
    ctx.drawImage(bitmap, x0 * ratio, 0, (x1 - x0) * ratio, height * ratio, x0, 0, x1 - x0, height);
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
    this.drawValueAxis(ctx);
    for (const each of contexts) {
      each.save();
      each.beginPath();
      each.rect(this.plotLeft, STRIP_TOP - 6, this.plotWidth, this.bottom - STRIP_TOP + 8);
      each.clip();
    }
    if (this.shown.length < this.lanes.length) this.drawBand(ctx);
    for (const lane of this.shown) {
      const isPlain = focus.devices === null || focus.devices.has(this.lanes[lane].device);
      ctx.globalAlpha = isPlain ? 1 : 0.2;
      this.drawCurve(ctx, lane, isPlain && focus.devices !== null ? 3 : 2);
      if (isPlain) this.drawArea(areas, lane, focus.devices !== null);
    }
    ctx.globalAlpha = 1;
    for (const each of contexts) each.restore();
    this.drawLimits(ctx);
  }

  drawValueAxis(ctx) {
    const { theme } = this.store;
    const unit = this.showsBytes ? UNITS.find((one) => this.top >= one) ?? 1 : 1;
    const step = Math.max(this.showsBytes ? 0 : 1, niceStep(this.top / unit / 4)) * unit;
    ctx.font = `11px ${theme.font}`;
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    for (let k = 0; k * step <= this.top; k += 1) {
      const y = Math.round(this.toY(k * step)) + 0.5;
      ctx.fillStyle = theme.faintLine;
      ctx.fillRect(this.plotLeft, y - 0.5, this.plotWidth, 1);
      ctx.fillStyle = theme.mutedInk;
      ctx.fillText(k === 0 ? "0" : this.text(k * step), this.plotLeft - 6, y, this.plotLeft - 8);
    }
    ctx.font = `600 11px ${theme.font}`;
    ctx.textAlign = "left";
    ctx.fillText(this.showsBytes ? "memory" : "in flight", 2, 8, this.plotLeft - 6);
  }

  /** Constant pieces of a lane's curve within the view: visit(x0, x1, value). */
  eachStep(lane, visit) {
    const { from, to } = this.view;
    const [low, high] = this.span(lane);
    const values = this.values();
    const end = Math.min(to, this.store.data.gantt.makespanMs);
    for (let i = Math.max(low, lastAtMost(this.time, from, low, high)); i < high && this.time[i] <= end; i += 1) {
      const until = Math.min(end, i + 1 < high ? this.time[i + 1] : end);
      visit(this.toX(Math.max(from, this.time[i])), this.toX(until), values[i]);
    }
  }

  /** Rectangles, not one long path: that is far slower to stroke. */
  drawCurve(ctx, lane, line) {
    const { colour } = this.store.data.devices[this.lanes[lane].device];
    const limit = this.limitOf(this.lanes[lane]);
    ctx.fillStyle = colour.forward.fill;
    let before = null;
    this.eachStep(lane, (x0, x1, value) => {
      const y = this.toY(value);
      if (before !== null) ctx.fillRect(x0 - line / 2, Math.min(before, y) - line / 2, line, Math.abs(before - y) + line);
      ctx.fillRect(x0, y - line / 2, Math.max(1, x1 - x0), line);
      before = y;
    });
    if (limit === null || !this.lanes[lane].isOverMemory) return;
    const { theme, patterns } = this.store;
    const hatch = patterns.get(ctx, "over", theme.palette.alarm);
    const edge = this.toY(limit);
    this.eachStep(lane, (x0, x1, value) => {
      if (value <= limit) return;
      ctx.fillStyle = hatch;
      ctx.fillRect(x0, this.toY(value), x1 - x0, edge - this.toY(value));
      ctx.fillStyle = theme.palette.alarm;
      ctx.fillRect(x0, this.toY(value) - line / 2, x1 - x0, line);
    });
  }

  /** What lies under a curve: in its colour when it is asked for, else in one colour for all, so that none mix. */
  drawArea(areas, lane, isAsked) {
    const { theme, data } = this.store;
    areas.fillStyle = isAsked ? data.devices[this.lanes[lane].device].colour.forward.fill : theme.ink;
    this.eachStep(lane, (x0, x1, value) => areas.fillRect(x0, this.toY(value), x1 - x0, this.bottom - this.toY(value)));
  }

  /** From the least to the most that any of the other lanes holds. */
  drawBand(ctx) {
    const columns = Math.ceil(this.plotWidth / 2) + 1;
    const [least, most] = [new Float64Array(columns).fill(Infinity), new Float64Array(columns).fill(-Infinity)];
    const isShown = new Set(this.shown);
    for (let lane = 0; lane < this.lanes.length; lane += 1) {
      if (isShown.has(lane)) continue;
      this.eachStep(lane, (x0, x1, value) => {
        const last = Math.min(columns - 1, Math.floor((x1 - this.plotLeft) / 2));
        for (let c = Math.max(0, Math.floor((x0 - this.plotLeft) / 2)); c <= last; c += 1) {
          if (value < least[c]) least[c] = value;
          if (value > most[c]) most[c] = value;
        }
      });
    }
    ctx.fillStyle = this.store.theme.line;
    ctx.globalAlpha = 0.6;
    for (let c = 0; c < columns; c += 1) {
      if (most[c] < least[c]) continue;
      const y = this.toY(most[c]);
      ctx.fillRect(this.plotLeft + 2 * c, y, 2, Math.max(1, this.toY(least[c]) - y));
    }
    ctx.globalAlpha = 1;
  }

  /** The limits, and by how much the worst devices are over them. */
  drawLimits(ctx) {
    const { theme } = this.store;
    const limits = new Set(this.lanes.map((lane) => this.limitOf(lane)).filter((limit) => limit !== null));
    ctx.font = `600 11px ${theme.font}`;
    ctx.textBaseline = "middle";
    for (const limit of limits) {
      const isFar = limit > this.top;
      const y = isFar ? STRIP_TOP - 5 : Math.round(this.toY(limit)) + 0.5;
      if (!isFar) {
        ctx.strokeStyle = theme.ink;
        ctx.lineWidth = 1.5;
        ctx.setLineDash([8, 4]);
        ctx.beginPath();
        ctx.moveTo(this.plotLeft, y);
        ctx.lineTo(this.plotRight, y);
        ctx.stroke();
        ctx.setLineDash([]);
      }
      ctx.textAlign = "right";
      this.write(ctx, isFar ? `↑ limit ${formatBytes(limit)}, above this scale` : `limit ${formatBytes(limit)}`,
        this.plotRight - 4, isFar ? 8 : y - 8 < 7 ? y + 9 : y - 8, theme.ink);
    }
    const over = this.showsBytes ? this.lanes.filter((lane) => lane.isOverMemory) : [];
    if (!over.length) return;
    over.sort((a, b) => b.peakMemoryBytes - b.capacityBytes - (a.peakMemoryBytes - a.capacityBytes));
    const words = over.slice(0, 2).map((lane) => `${lane.name} over by ${formatBytes(lane.peakMemoryBytes - lane.capacityBytes)}`);
    const more = over.length > 2 ? `, and ${over.length - 2} more` : "";
    ctx.textAlign = "left";
    this.write(ctx, `▲ ${words.join(", ")}${more}`, this.plotLeft + 4, 8, theme.palette.alarm);
  }

  write(ctx, text, x, y, colour) {
    const width = ctx.measureText(text).width;
    ctx.fillStyle = this.store.theme.background;
    ctx.globalAlpha = 0.85;
    ctx.fillRect(ctx.textAlign === "right" ? x - width - 3 : x - 3, y - 7, width + 6, 14);
    ctx.globalAlpha = 1;
    ctx.fillStyle = colour;
    ctx.fillText(text, x, y);
  }

  drawDots(ctx, ms) {
    const x = this.toX(ms);
    if (x < this.plotLeft || x > this.plotRight) return;
    for (const lane of this.shown) {
      const { colour } = this.store.data.devices[this.lanes[lane].device];
      ctx.fillStyle = colour.forward.fill;
      ctx.strokeStyle = this.store.theme.ink;
      ctx.lineWidth = 1;
      ctx.beginPath();
      ctx.arc(x, this.toY(this.valueAt(lane, ms)), 3.5, 0, 7);
      ctx.fill();
      ctx.stroke();
    }
  }

  /** Each drawn device with what it holds at a time, its peak when there is none. */
  drawList(ctx, ms, width) {
    const { theme, data } = { theme: this.store.theme, data: this.store.data };
    const x = this.plotRight + 14;
    const focus = this.store.focus();
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    ctx.font = `600 11px ${theme.font}`;
    ctx.fillStyle = theme.mutedInk;
    const rest = this.lanes.length - this.shown.length;
    ctx.fillText(ms === null ? "at the peak" : `at ${formatMs(ms)}`, x, 8, width - x);
    for (const [k, lane] of this.shown.entries()) {
      const { device, isOverMemory } = this.lanes[lane];
      const { colour, label } = data.devices[device];
      const y = STRIP_TOP + k * ROW + 5;
      ctx.globalAlpha = focus.devices === null || focus.devices.has(device) ? 1 : 0.5;
      ctx.fillStyle = colour.forward.fill;
      ctx.beginPath();
      ctx.roundRect(x, y - 6, 22, 12, 3);
      ctx.fill();
      if (colour.pattern !== "none") {
        ctx.fillStyle = this.store.patterns.get(ctx, colour.pattern, colour.forward.text);
        ctx.fill();
      }
      ctx.font = `700 10px ${theme.font}`;
      ctx.textAlign = "center";
      ctx.fillStyle = colour.forward.text;
      ctx.fillText(label, x + 11, y + 0.5);
      ctx.textAlign = "left";
      const value = ms === null ? this.peakOf(this.lanes[lane]) : this.valueAt(lane, ms);
      const limit = this.limitOf(this.lanes[lane]);
      const isOver = isOverMemory && limit !== null && value > limit;
      ctx.font = `${isOver ? "700 " : ""}11px ${theme.font}`;
      ctx.fillStyle = isOver ? theme.palette.alarm : theme.ink;
      ctx.fillText(`${this.text(value)}${isOver ? " ▲" : ""}`, x + 28, y + 0.5, width - x - 28);
      ctx.globalAlpha = 1;
    }
    if (rest > 0) {
      ctx.font = `11px ${theme.font}`;
      ctx.fillStyle = theme.mutedInk;
      ctx.fillText(`band: ${rest} others`, x, STRIP_TOP + this.shown.length * ROW + 4, width - x);
    }
  }
}
