/* The timeline: a lane per device, compute in its colour, transfers as thin bars above and below the middle.

   The view is {from, to} in ms and a vertical offset in pixels for many lanes. Bars come as typed arrays, sorted by
   lane and start; only those on screen are drawn, and those thinner than a pixel are added up. What does not change
   from frame to frame is drawn once, into a bitmap: the playhead and the cursor move over it. */

import { BarIndex } from "../data/bar_index.js";
import { END_COLUMNS, barExtent, drawLane } from "./gantt_bars.js";
import {
  BOTTOM, TOP, drawBounds, drawColumnHeads, drawCriticalLinks, drawHiddenLanes, drawMoment, drawPeriod, drawPhases,
  drawRange, drawRunning, drawTimeAxis,
} from "./gantt_marks.js";
import { PixelRows } from "./pixel_rows.js";

const MIN_LANE = 13;
/** Lanes are at least so high where that shows all of them. */
const LEAST_LANE = 11;
const MAX_LANE = 24;
const MAX_GANTT_HEIGHT = 900;
/** Below this width there is room for the labels of devices, not for their names, and for one column at the end. */
const NARROW = 640;
const PLAYHEAD_GRIP = 7;
/** What is still to come shines through this much while the playhead runs. */
const FUTURE = 0.62;

/** Height in pixels that shows all lanes, comfortably where they are few; beyond MAX_GANTT_HEIGHT they are dragged. */
export function ganttHeight(gantt) {
  const lanes = Math.max(1, gantt.lanes.length);
  const lane = Math.min(MAX_LANE, Math.max(MIN_LANE, 168 / lanes));
  return Math.round(Math.min(MAX_GANTT_HEIGHT, TOP + BOTTOM + lanes * lane));
}

export class GanttPicture {
  /** `shared` is what the parts of the timeline have in common: {cursorMs, replay, range, showsCritical}. */
  constructor(store, actions, shared) {
    Object.assign(this, { store, actions, shared });
    this.view = null;
    this.bitmap = document.createElement("canvas");
    this.drawn = null;
  }

  get gantt() {
    return this.store.data?.gantt ?? null;
  }

  /** Take in the bars of a new message. */
  prepare() {
    const { arrays } = this.store.data;
    this.bars = { ...this.store.links.bars, pass: arrays["bar.pass"], critical: arrays["bar.critical"] };
    this.index = new BarIndex(this.bars, this.gantt.lanes.length);
    const { critical, start } = this.bars;
    this.critical = [];
    for (let i = 0; i < critical.length; i += 1) if (critical[i]) this.critical.push(i);
    this.critical.sort((a, b) => start[a] - start[b] || this.bars.end[a] - this.bars.end[b]);
    this.drawn = null;
  }

  // View

  resized() {
    if (!this.view) this.fit(false);
  }

  fit(remember = true) {
    if (!this.gantt) return;
    this.view = { from: 0, to: this.wholeMs, offset: 0, fitted: true };
    if (remember) this.actions.viewChanged();
    this.changed();
  }

  restore(view) {
    this.view = view;
    if (!view || view.fitted || view.from >= this.wholeMs) this.fit(false);
    this.changed();
  }

  /** Redraw this and what shares its time axis. */
  changed() {
    this.surface.invalidate();
    this.shared.axisChanged();
  }

  /** What the picture spans when all of it is shown: the run, or as much as the pictures it is compared with; where no
      time passes, a plain axis from 0 to 1. */
  get wholeMs() {
    return Math.max(this.gantt.makespanMs, this.store.data.timeMaxMs ?? 0) || 1;
  }

  get isNarrow() {
    return this.surface.width < NARROW;
  }

  get endColumns() {
    return this.isNarrow ? END_COLUMNS.slice(0, 1) : END_COLUMNS;
  }

  get plotLeft() {
    return this.isNarrow ? 34 : 124;
  }

  get plotRight() {
    return this.plotLeft + this.plotWidth;
  }

  get plotWidth() {
    const ends = this.endColumns.reduce((sum, column) => sum + column.width, 12);
    return Math.max(10, this.surface.width - this.plotLeft - ends);
  }

  get plotHeight() {
    return Math.max(10, this.surface.height - TOP - BOTTOM);
  }

  /** The height of a lane; where there is no room for all of them a number of whole ones is seen. */
  get laneHeight() {
    const fitting = this.plotHeight / Math.max(1, this.gantt.lanes.length);
    if (fitting >= LEAST_LANE) return Math.min(MAX_LANE, fitting);
    return this.plotHeight / Math.max(1, Math.floor(this.plotHeight / MIN_LANE));
  }

  toX(ms) {
    return this.plotLeft + ((ms - this.view.from) / (this.view.to - this.view.from)) * this.plotWidth;
  }

  /** The time at a canvas x, kept within what is shown. */
  toMs(x) {
    const share = Math.max(0, Math.min(1, (x - this.plotLeft) / this.plotWidth));
    return this.view.from + share * (this.view.to - this.view.from);
  }

  moved(from, to) {
    const whole = this.wholeMs;
    const span = Math.min(to - from, whole);
    from = Math.max(0, Math.min(from, whole - span));
    Object.assign(this.view, { from, to: from + span, fitted: span >= whole * 0.9999 });
    this.actions.viewChanged();
    this.changed();
  }

  pan(dx, dy = 0) {
    if (!this.view) return;
    const shift = (dx / this.plotWidth) * (this.view.to - this.view.from);
    this.scrollTo(this.view.offset - dy);
    this.moved(this.view.from - shift, this.view.to - shift);
  }

  scrollTo(offset) {
    const overflow = Math.max(0, this.laneHeight * this.gantt.lanes.length - this.plotHeight);
    this.view.offset = Math.max(0, Math.min(overflow, offset));
  }

  /** Zoom in time about a canvas point; false when there is nothing left to zoom out of. */
  zoom(factor, px = this.plotLeft + this.plotWidth / 2) {
    if (!this.view || (factor < 1 && this.view.fitted)) return false;
    const at = this.toMs(px);
    const span = Math.max(this.wholeMs / 20000, (this.view.to - this.view.from) / factor);
    const share = (at - this.view.from) / (this.view.to - this.view.from);
    this.moved(at - share * span, at + (1 - share) * span);
    return true;
  }

  /** Move the view, if need be, so that a time and a lane can be seen. */
  reveal(ms, lane = null) {
    if (!this.view) return;
    const { from, to } = this.view;
    if (lane !== null) {
      const y = lane * this.laneHeight;
      if (y < this.view.offset || y + this.laneHeight > this.view.offset + this.plotHeight) {
        this.scrollTo(y - this.plotHeight / 2);
        this.changed();
      }
    }
    if (ms < from || ms > to) this.moved(ms - 0.25 * (to - from), ms + 0.75 * (to - from));
  }

  // Pointer

  laneAt(py) {
    if (!this.view || py < TOP || py > TOP + this.plotHeight) return -1;
    const lane = Math.floor((py - TOP + this.view.offset) / this.laneHeight);
    return lane < this.gantt.lanes.length ? lane : -1;
  }

  isInPlot(px) {
    return px >= this.plotLeft && px <= this.plotRight;
  }

  barAt(px, py) {
    const lane = this.laneAt(py);
    if (lane < 0 || !this.isInPlot(px)) return -1;
    return this.index.nearest(lane, this.toMs(px), (1.5 / this.plotWidth) * (this.view.to - this.view.from));
  }

  isAtPlayhead(px) {
    const { timeMs } = this.shared.replay;
    return timeMs !== null && Math.abs(this.toX(timeMs) - px) < PLAYHEAD_GRIP;
  }

  /** The time axis and the playhead are dragged to move the playhead, and with Shift a range of time is selected. */
  press(px, py, event) {
    if (!this.gantt || !this.view) return null;
    if (event.shiftKey && this.isInPlot(px)) return this.rangeGrip(this.toMs(px));
    const isOnAxis = this.isInPlot(px) && py > TOP + this.plotHeight;
    if (!isOnAxis && !this.isAtPlayhead(px)) return null;
    const { replay } = this.shared;
    replay.seek(this.toMs(px));
    return { move: (x) => replay.seek(this.toMs(x)), end: () => {} };
  }

  rangeGrip(startMs) {
    const { shared } = this;
    const range = (x) => {
      const ms = this.toMs(x);
      return { kind: "range", fromMs: Math.min(startMs, ms), toMs: Math.max(startMs, ms) };
    };
    return {
      move: (x) => shared.setRange(range(x)),
      end: (x) => {
        shared.setRange(null);
        const { kind, fromMs, toMs } = range(x);
        if (this.toX(toMs) - this.toX(fromMs) >= 3) this.actions.select({ kind, fromMs, toMs });
      },
    };
  }

  hover(px, py, event) {
    if (!this.gantt || !this.view) return;
    const bar = this.barAt(px, py);
    const lane = this.laneAt(py);
    const isOnAxis = this.isInPlot(px) && py > TOP + this.plotHeight;
    this.surface.canvas.style.cursor = isOnAxis || this.isAtPlayhead(px) ? "ew-resize"
      : bar >= 0 || (lane >= 0 && px < this.plotLeft) ? "pointer" : event.shiftKey ? "crosshair" : "grab";
    this.shared.setCursor(this.isInPlot(px) ? this.toMs(px) : null);
    if (bar >= 0) this.actions.hover({ kind: "bar", bar }, event);
    else if (lane >= 0 && !this.isInPlot(px)) this.actions.hover({ kind: "device", device: this.gantt.lanes[lane].device, lane }, event);
    else this.actions.hover(null, event);
  }

  leave() {
    this.shared.setCursor(null);
    this.actions.hover(null);
  }

  click(px, py) {
    if (!this.gantt) return;
    const bar = this.barAt(px, py);
    const lane = this.laneAt(py);
    if (bar >= 0) this.actions.selectBar(bar);
    else if (lane >= 0 && px < this.plotLeft) this.actions.selectDevice(this.gantt.lanes[lane].device);
    else this.actions.clear();
  }

  doubleClick() {
    this.fit();
  }

  drag(dx, dy) {
    this.pan(dx, dy);
  }

  wheel(px, py, dx, dy, event) {
    if (!this.view) return false;
    if (Math.abs(dx) > Math.abs(dy) || event.shiftKey) {
      if (this.view.fitted) return false;
      this.pan(-(dx || dy));
      return true;
    }
    return this.zoom(Math.exp(-dy * 0.0016), px);
  }

  /** Select the next (step 1) or previous bar of the selected bar's micro-batch, in the order of time. */
  stepBar(step) {
    if (!this.gantt) return;
    const { microBatch, start, end, lane } = this.bars;
    const { selection } = this.store;
    const isBar = selection?.kind === "bar";
    const wanted = isBar ? microBatch[selection.bar] : selection?.kind === "microBatch" ? selection.microBatch : 0;
    const own = [];
    for (let i = 0; i < microBatch.length; i += 1) if (microBatch[i] === wanted) own.push(i);
    own.sort((a, b) => start[a] - start[b] || end[a] - end[b] || a - b);
    const at = isBar ? own.indexOf(selection.bar) + step : step > 0 ? 0 : own.length - 1;
    const bar = own[Math.max(0, Math.min(own.length - 1, at))];
    if (bar === undefined) return;
    this.actions.selectBar(bar);
    this.reveal((start[bar] + end[bar]) / 2, lane[bar]);
  }

  // Drawing

  /** The colours of a bar's device. */
  colourOf(i) {
    return this.store.data.devices[this.gantt.lanes[this.bars.lane[i]].device].colour;
  }

  /** Whether a bar stands out, rather than being dimmed. */
  isPlain(i, focus) {
    if (focus.bars !== null) return focus.bars[i] === 1;
    return !this.shared.showsCritical || this.bars.critical[i] === 1;
  }

  /** Empty rows of pixels for the thin bars of a lane; the same ones for all lanes. */
  pixelRows() {
    if (this.rows?.plotWidth !== this.plotWidth) {
      this.rows = new PixelRows(this.plotWidth, 4);
      this.rows.plotWidth = this.plotWidth;
    } else {
      this.rows.clear();
    }
    return this.rows;
  }

  outlines(i) {
    return this.shared.showsCritical && this.bars.critical[i] === 1;
  }

  draw(ctx, width, height) {
    if (!this.gantt || !this.index) return;
    if (!this.view) this.fit(false);
    this.drawStill(width, height);
    ctx.save();
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.drawImage(this.bitmap, 0, 0);
    ctx.restore();
    this.drawMoving(ctx);
  }

  /** Draw the bitmap anew if anything in it has changed. */
  drawStill(width, height) {
    const { store, surface, view, shared } = this;
    const focus = store.focus();
    const state = [store.data, store.theme, focus, store.selection, store.hovered?.bar, shared.showsCritical,
      width, height, surface.ratio, view.from, view.to, view.offset];
    if (this.drawn?.every((part, k) => part === state[k])) return;
    this.drawn = state;
    const { bitmap } = this;
    [bitmap.width, bitmap.height] = [Math.round(width * surface.ratio), Math.round(height * surface.ratio)];
    const ctx = bitmap.getContext("2d");
    ctx.setTransform(surface.ratio, 0, 0, surface.ratio, 0, 0);
    const bottom = TOP + this.plotHeight;
    drawPhases(ctx, this);
    drawTimeAxis(ctx, this, TOP, bottom + 18, bottom + 21);
    drawColumnHeads(ctx, this);
    ctx.save();
    ctx.beginPath();
    ctx.rect(0, TOP, width, this.plotHeight + 1);
    ctx.clip();
    this.labelsOfLanes = [];
    const first = Math.floor(view.offset / this.laneHeight);
    const last = Math.min(this.gantt.lanes.length, Math.ceil((view.offset + this.plotHeight) / this.laneHeight));
    for (let lane = first; lane < last; lane += 1) drawLane(ctx, this, lane, TOP + lane * this.laneHeight - view.offset, focus);
    if (shared.showsCritical) drawCriticalLinks(ctx, this);
    ctx.restore();
    drawBounds(ctx, this);
    drawPeriod(ctx, this);
    drawHiddenLanes(ctx, this);
  }

  /** The playhead with what runs at it, the cursor, and the range of time. */
  drawMoving(ctx) {
    const { store: { theme, selection }, shared } = this;
    const bottom = TOP + this.plotHeight;
    const axis = bottom + 27;
    const range = shared.range ?? (selection?.kind === "range" ? selection : null);
    if (range) drawRange(ctx, this, range, TOP - 2, bottom, TOP - 9);
    const { timeMs, state } = shared.replay;
    if (timeMs !== null) {
      const x = Math.max(this.plotLeft, Math.min(this.plotRight, this.toX(timeMs)));
      ctx.save();
      ctx.beginPath();
      ctx.rect(this.plotLeft, TOP, this.plotWidth, this.plotHeight);
      ctx.clip();
      ctx.globalAlpha = FUTURE;
      ctx.fillStyle = theme.background;
      ctx.fillRect(x, TOP, this.plotRight - x, this.plotHeight);
      ctx.globalAlpha = 1;
      drawRunning(ctx, this, state.running, (m) => shared.microBatchFill(m), barExtent);
      ctx.restore();
      drawMoment(ctx, this, timeMs, { colour: theme.ink, onColour: theme.background, line: 2, top: TOP - 6, bottom, y: axis });
    }
    if (shared.cursorMs !== null) {
      drawMoment(ctx, this, shared.cursorMs, { colour: theme.mutedInk, onColour: theme.background, line: 1, dash: [1, 2],
        top: TOP, bottom, y: axis });
    }
  }
}
