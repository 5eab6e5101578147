/* The timeline: a lane per device, compute in its colour, transfers as thin bars above and below the middle.

   The view is {from, to} in ms and a vertical offset in pixels for many lanes. Bars come as typed arrays,
   sorted by lane and start; only those on screen are drawn, and those thinner than a pixel are added up. */

import { formatMs, formatPercent, niceStep } from "./format.js";

const LABEL_WIDTH = 128;
const BUBBLE_WIDTH = 88;
/** Pixels above the first lane. */
export const TOP = 30;
const BOTTOM = 46;
const MIN_LANE = 16;
const MAX_LANE = 28;
const MAX_HEIGHT = 900;
const DIM = 0.22;
const [RECEIVE, COMPUTE] = [0, 1];

/** Height in pixels that shows all lanes, comfortably where they are few; beyond MAX_HEIGHT they are dragged. */
export function ganttHeight(gantt) {
  const lanes = Math.max(1, gantt.lanes.length);
  const lane = Math.min(MAX_LANE, Math.max(MIN_LANE, 168 / lanes));
  return Math.round(Math.min(MAX_HEIGHT, TOP + BOTTOM + lanes * lane + (gantt.idle ? 18 : 0)));
}

export class GanttPicture {
  constructor(store, actions) {
    this.store = store;
    this.actions = actions;
    this.view = null;
  }

  get gantt() {
    return this.store.data?.gantt ?? null;
  }

  /** Where each lane's bars begin and end in the arrays, and how long its longest bar is. */
  prepare() {
    const { arrays } = this.store.data;
    const bars = { lane: arrays["bar.lane"], start: arrays["bar.start"], end: arrays["bar.end"],
      stage: arrays["bar.stage"], microBatch: arrays["bar.micro_batch"], kind: arrays["bar.kind"],
      backward: arrays["bar.backward"] };
    this.bars = bars;
    this.laneBegin = new Int32Array(this.gantt.lanes.length + 1);
    this.longest = new Float64Array(this.gantt.lanes.length);
    for (let i = 0; i < bars.lane.length; i += 1) {
      this.laneBegin[bars.lane[i] + 1] = i + 1;
      this.longest[bars.lane[i]] = Math.max(this.longest[bars.lane[i]], bars.end[i] - bars.start[i]);
    }
    for (let l = 1; l < this.laneBegin.length; l += 1) this.laneBegin[l] = Math.max(this.laneBegin[l], this.laneBegin[l - 1]);
  }

  // View

  resized() {
    if (!this.view) this.fit(false);
  }

  fit(remember = true) {
    if (!this.gantt) return;
    this.view = { from: 0, to: this.wholeMs, offset: 0, fitted: true };
    if (remember) this.actions.viewChanged();
    this.surface.invalidate();
  }

  restore(view) {
    this.view = view;
    if (!view || view.fitted || view.from >= this.wholeMs) this.fit(false);
    this.surface.invalidate();
  }

  /** What the picture spans when all of it is shown, on a page that compares the longest of all; where no time passes, 0 to 1. */
  get wholeMs() {
    return Math.max(this.gantt.makespanMs, this.store.data.timeMaxMs ?? 0) || 1;
  }

  get plotWidth() {
    return Math.max(10, this.surface.width - LABEL_WIDTH - BUBBLE_WIDTH);
  }

  get plotHeight() {
    return Math.max(10, this.surface.height - TOP - BOTTOM - (this.gantt.idle ? 18 : 0));
  }

  get laneHeight() {
    return Math.min(MAX_LANE, Math.max(MIN_LANE, this.plotHeight / Math.max(1, this.gantt.lanes.length)));
  }

  toX(ms) {
    return LABEL_WIDTH + ((ms - this.view.from) / (this.view.to - this.view.from)) * this.plotWidth;
  }

  toMs(x) {
    return this.view.from + ((x - LABEL_WIDTH) / this.plotWidth) * (this.view.to - this.view.from);
  }

  moved(from, to) {
    const whole = this.wholeMs;
    const span = Math.min(to - from, whole);
    from = Math.max(0, Math.min(from, whole - span));
    Object.assign(this.view, { from, to: from + span, fitted: span >= whole * 0.9999 });
    this.actions.viewChanged();
    this.surface.invalidate();
  }

  pan(dx, dy = 0) {
    if (!this.view) return;
    const shift = (dx / this.plotWidth) * (this.view.to - this.view.from);
    const overflow = Math.max(0, this.laneHeight * this.gantt.lanes.length - this.plotHeight);
    this.view.offset = Math.max(0, Math.min(overflow, this.view.offset - dy));
    this.moved(this.view.from - shift, this.view.to - shift);
  }

  /** Zoom in time about a canvas point; false when there is nothing left to zoom out of. */
  zoom(factor, px = LABEL_WIDTH + this.plotWidth / 2) {
    if (!this.view || (factor < 1 && this.view.fitted)) return false;
    const at = this.toMs(Math.max(LABEL_WIDTH, Math.min(px, LABEL_WIDTH + this.plotWidth)));
    const span = Math.max(this.wholeMs / 20000, (this.view.to - this.view.from) / factor);
    const share = (at - this.view.from) / (this.view.to - this.view.from);
    this.moved(at - share * span, at + (1 - share) * span);
    return true;
  }

  // Pointer

  laneAt(py) {
    if (!this.view || py < TOP || py > TOP + this.plotHeight) return -1;
    const lane = Math.floor((py - TOP + this.view.offset) / this.laneHeight);
    return lane < this.gantt.lanes.length ? lane : -1;
  }

  barAt(px, py) {
    const lane = this.laneAt(py);
    if (lane < 0 || px < LABEL_WIDTH || px > LABEL_WIDTH + this.plotWidth) return -1;
    const reach = (1.5 / this.plotWidth) * (this.view.to - this.view.from);
    const ms = this.toMs(px);
    let nearest = -1;
    let least = reach;
    for (let i = this.firstBar(lane, ms - reach); i < this.laneBegin[lane + 1] && this.bars.start[i] <= ms + reach; i += 1) {
      const off = Math.max(this.bars.start[i] - ms, ms - this.bars.end[i], 0);
      if (off < least || (off === 0 && least === 0)) [nearest, least] = [i, off];
    }
    return nearest;
  }

  /** The first bar of a lane that can reach `ms` or later. */
  firstBar(lane, ms) {
    const from = ms - this.longest[lane];
    let [low, high] = [this.laneBegin[lane], this.laneBegin[lane + 1]];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.bars.start[middle] < from) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  hover(px, py, event) {
    if (!this.gantt) return;
    const bar = this.barAt(px, py);
    const lane = this.laneAt(py);
    this.surface.canvas.style.cursor = bar >= 0 || (lane >= 0 && px < LABEL_WIDTH) ? "pointer" : "grab";
    if (bar >= 0) {
      this.actions.hover({ kind: "bar", bar }, event);
    } else if (lane >= 0 && (px < LABEL_WIDTH || px > LABEL_WIDTH + this.plotWidth)) {
      this.actions.hover({ kind: "device", device: this.gantt.lanes[lane].device, lane }, event);
    } else {
      this.actions.hover(null, event);
    }
  }

  leave() {
    this.actions.hover(null);
  }

  click(px, py) {
    if (!this.gantt) return;
    const bar = this.barAt(px, py);
    const lane = this.laneAt(py);
    if (bar >= 0) this.actions.selectBar(bar);
    else if (lane >= 0 && px < LABEL_WIDTH) this.actions.selectDevice(this.gantt.lanes[lane].device);
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

  // Drawing

  draw(ctx, width, height) {
    if (!this.gantt) return;
    if (!this.view) this.fit(false);
    const focus = this.store.focus();
    this.drawPhases(ctx);
    this.drawAxis(ctx);
    ctx.save();
    ctx.beginPath();
    ctx.rect(0, TOP, width, this.plotHeight + 1);
    ctx.clip();
    for (let lane = 0; lane < this.gantt.lanes.length; lane += 1) this.drawLane(ctx, lane, focus);
    ctx.restore();
    this.drawPeriod(ctx);
    this.drawHiddenLanes(ctx);
    this.drawFooter(ctx, width, height);
  }

  /** Warm-up and drain as a light shade with their names, what the period is between them. */
  drawPhases(ctx) {
    const { theme } = this.store;
    const { warmUpMs, drainStartMs, makespanMs, periodMs, periodText, periodMark } = this.gantt;
    const [low, high] = [LABEL_WIDTH, LABEL_WIDTH + this.plotWidth];
    const clamp = (x) => Math.max(low, Math.min(high, x));
    const y = 10;
    ctx.font = `700 12px ${theme.font}`;
    const taken = [];
    if (periodMark) {
      const middle = this.toX((periodMark.startMs + periodMark.endMs) / 2);
      const half = ctx.measureText(this.markText()).width / 2 + 8;
      taken.push([middle - half, middle + half]);
    }
    ctx.font = `600 11px ${theme.font}`;
    ctx.textBaseline = "middle";
    ctx.fillStyle = theme.mutedInk;
    const isFree = (x0, x1) => taken.every(([from, to]) => x1 < from || x0 > to);
    const write = (text, x0) => {
      ctx.textAlign = "left";
      ctx.fillStyle = theme.mutedInk;
      ctx.fillText(text, x0, y);
      taken.push([x0 - 6, x0 + ctx.measureText(text).width + 6]);
    };
    /** In the middle, or at an end of [x0, x1]; false where none of them is free. */
    const writeWithin = (text, x0, x1) => {
      const width = ctx.measureText(text).width;
      const spot = [(x0 + x1 - width) / 2, x0 + 4, x1 - width - 4]
        .find((x) => x >= x0 + 2 && x + width <= x1 - 2 && isFree(x, x + width));
      if (spot !== undefined) write(text, spot);
      return spot !== undefined;
    };
    const shade = (name, from, to, side) => {
      const [x0, x1] = [clamp(this.toX(from)), clamp(this.toX(to))];
      if (!(x1 > x0)) return;
      ctx.fillStyle = theme.shade;
      ctx.fillRect(x0, TOP - 2, Math.max(1, x1 - x0), this.plotHeight + 2);
      if (writeWithin(name, x0, x1)) return;
      // Too narrow for its name: that stands in the margin, with a line to the shade.
      const width = ctx.measureText(name).width;
      const end = side < 0 ? low - 10 : high + 10;
      write(name, side < 0 ? end - width : end);
      const middle = Math.round((x0 + x1) / 2) + 0.5;
      ctx.strokeStyle = theme.mutedInk;
      ctx.lineWidth = 1;
      ctx.beginPath();
      ctx.moveTo(end - 3 * side, y + 0.5);
      ctx.lineTo(middle, TOP - 13.5);
      ctx.lineTo(middle, TOP - 2);
      ctx.stroke();
    };
    if (warmUpMs > 0) shade("warm-up", 0, warmUpMs, -1);
    if (drainStartMs !== null) shade("drain", drainStartMs, makespanMs, 1);
    if (periodMark || !(makespanMs > 0)) return;
    const text = periodMs === null ? periodText : `${periodText} ${formatMs(periodMs)}`;
    const between = [clamp(this.toX(warmUpMs)), clamp(this.toX(drainStartMs ?? makespanMs))];
    if (!writeWithin(text, ...between)) writeWithin(text, low, high);
  }

  markText() {
    return `period ${formatMs(this.gantt.periodMs)}`;
  }

  drawAxis(ctx) {
    const { theme } = this.store;
    const bottom = TOP + this.plotHeight;
    const span = this.view.to - this.view.from;
    const step = niceStep((span * 80) / this.plotWidth);
    const digits = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
    ctx.font = `11px ${theme.font}`;
    ctx.textBaseline = "top";
    ctx.textAlign = "center";
    ctx.lineWidth = 1;
    for (let k = Math.ceil(this.view.from / step - 1e-9); k * step <= this.view.to + 1e-9 * span; k += 1) {
      const x = Math.round(this.toX(k * step)) + 0.5;
      ctx.strokeStyle = theme.faintLine;
      ctx.beginPath();
      ctx.moveTo(x, TOP);
      ctx.lineTo(x, bottom + 4);
      ctx.stroke();
      ctx.fillStyle = theme.mutedInk;
      ctx.fillText(digits > 6 ? String(Number((k * step).toPrecision(3))) : (k * step).toFixed(digits), x, bottom + 7);
    }
    ctx.textAlign = "left";
    ctx.fillText("time, ms", LABEL_WIDTH + this.plotWidth + 14, bottom + 7);
  }

  drawLane(ctx, lane, focus) {
    const { theme, data } = this.store;
    const { device, name, bubbleFraction } = this.gantt.lanes[lane];
    const height = this.laneHeight;
    const y = TOP + lane * height - this.view.offset;
    if (y + height < TOP || y > TOP + this.plotHeight) return;
    const isFocus = focus.devices === null || focus.devices.has(device);
    ctx.globalAlpha = isFocus ? 1 : 0.5;
    if (lane > 0) {
      ctx.fillStyle = theme.faintLine;
      ctx.fillRect(LABEL_WIDTH, Math.round(y), this.plotWidth, 1);
    }
    this.drawLaneLabel(ctx, device, name, y, height, focus.devices?.has(device) ?? false);
    ctx.font = `12px ${theme.font}`;
    ctx.fillStyle = theme.mutedInk;
    ctx.textAlign = "left";
    if (bubbleFraction !== null) {
      ctx.fillText(`bubble ${formatPercent(bubbleFraction)}`, LABEL_WIDTH + this.plotWidth + 14, y + height / 2);
    }
    ctx.save();
    ctx.beginPath();
    ctx.rect(LABEL_WIDTH, y, this.plotWidth, height);
    ctx.clip();
    this.drawBars(ctx, lane, y, height, data.devices[device].colour, focus);
    ctx.restore();
    ctx.globalAlpha = 1;
  }

  drawLaneLabel(ctx, device, name, y, height, isStrong) {
    const { theme, data } = this.store;
    const { colour, label } = data.devices[device];
    const size = Math.min(20, height - 4);
    ctx.fillStyle = colour.forward.fill;
    ctx.beginPath();
    ctx.roundRect(2, y + (height - size) / 2, 24, size, 4);
    ctx.fill();
    if (colour.pattern !== "none") {
      ctx.fillStyle = this.store.patterns.get(ctx, colour.pattern, colour.forward.text);
      ctx.fill();
    }
    ctx.textBaseline = "middle";
    ctx.textAlign = "center";
    ctx.font = `700 ${Math.min(12, size - 2)}px ${theme.font}`;
    ctx.fillStyle = colour.forward.text;
    ctx.fillText(label, 14, y + height / 2 + 0.5);
    ctx.textAlign = "left";
    ctx.font = `${isStrong ? 700 : 400} ${Math.min(13, height - 2)}px ${theme.font}`;
    ctx.fillStyle = theme.ink;
    ctx.fillText(name, 32, y + height / 2 + 0.5, LABEL_WIDTH - 38);
  }

  drawBars(ctx, lane, y, height, colour, focus) {
    const { bars } = this;
    const { theme, patterns } = this.store;
    const perMs = this.plotWidth / (this.view.to - this.view.from);
    const columns = new Map();
    const pad = Math.max(1, height * 0.1);
    const showsText = height >= 13;
    const thin = Math.max(2, height * 0.26);
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    ctx.font = `600 ${Math.min(12, height * 0.52)}px ${theme.font}`;
    const labels = [];
    for (let i = this.firstBar(lane, this.view.from); i < this.laneBegin[lane + 1]; i += 1) {
      const start = bars.start[i];
      if (start > this.view.to) break;
      const x = LABEL_WIDTH + (start - this.view.from) * perMs;
      const width = (bars.end[i] - start) * perMs;
      const isCompute = bars.kind[i] === COMPUTE;
      const fill = isCompute ? this.barFill(colour, i) : null;
      const alpha = focus.bars === null || focus.bars[i] === 1 ? 1 : DIM;
      if (width < 1) {
        // Add up what falls into one pixel: its share of busy time becomes its opacity.
        const column = Math.round(x);
        const key = column * 4 + (isCompute ? 1 + bars.backward[i] : 0);
        const sum = columns.get(key) ?? { width: 0, colour: isCompute ? fill.fill : theme.palette.transfer, isCompute, alpha, kind: bars.kind[i] };
        sum.width += width;
        columns.set(key, sum);
        continue;
      }
      ctx.globalAlpha = alpha;
      if (!isCompute) {
        ctx.fillStyle = theme.palette.transfer;
        const top = bars.kind[i] === RECEIVE ? y + height / 2 - thin - 0.5 : y + height / 2 + 0.5;
        ctx.fillRect(x, top, Math.max(1, width - 0.6), thin);
        continue;
      }
      const inner = Math.max(1, width - (width > 3 ? 1 : 0.3));
      ctx.fillStyle = fill.fill;
      ctx.fillRect(x, y + pad, inner, height - 2 * pad);
      if (width > 5) {
        for (const name of [bars.backward[i] ? "backward" : "none", colour.pattern]) {
          if (name === "none") continue;
          ctx.fillStyle = patterns.get(ctx, name, fill.text);
          ctx.fillRect(x, y + pad, inner, height - 2 * pad);
        }
      }
      if (showsText && width > 8) labels.push([i, x, inner, fill.text, alpha]);
      if (this.store.selection?.bar === i || this.store.hovered?.bar === i) {
        ctx.strokeStyle = theme.ink;
        ctx.lineWidth = 2;
        ctx.strokeRect(x + 1, y + pad + 0.5, Math.max(2, inner - 2), height - 2 * pad - 1);
      }
    }
    for (const [key, sum] of columns) {
      ctx.globalAlpha = Math.min(1, Math.max(0.12, sum.width)) * sum.alpha;
      ctx.fillStyle = sum.colour;
      const column = Math.floor(key / 4);
      if (sum.isCompute) ctx.fillRect(column, y + pad, 1, height - 2 * pad);
      else ctx.fillRect(column, sum.kind === RECEIVE ? y + height / 2 - thin - 0.5 : y + height / 2 + 0.5, 1, thin);
    }
    this.drawBarTexts(ctx, labels, y + height / 2 + 0.5, Math.min(12, height * 0.52) * 0.62);
    ctx.globalAlpha = 1;
  }

  drawBarTexts(ctx, labels, y, digit) {
    const training = this.gantt.hasBackward;
    const { from, to } = this.view;
    const [low, high] = [this.toX(from), this.toX(to)];
    for (const [i, x, width, colour, alpha] of labels) {
      const number = String(this.bars.microBatch[i]);
      const [x0, x1] = [Math.max(low, x), Math.min(high, x + width)];
      const full = training ? `${this.bars.backward[i] ? "B" : "F"}${number}` : number;
      const text = [full, number].find((t) => t.length * digit + 3 <= x1 - x0);
      if (!text || alpha < 0.5) continue;
      ctx.globalAlpha = 1;
      ctx.fillStyle = colour;
      ctx.fillText(text, (x0 + x1) / 2, y);
    }
  }

  barFill(colour, i) {
    const odd = this.bars.microBatch[i] % 2 === 1;
    if (this.bars.backward[i]) return odd ? colour.backwardOdd : colour.backward;
    return odd ? colour.forwardOdd : colour.forward;
  }

  drawPeriod(ctx) {
    const { periodMark } = this.gantt;
    if (!periodMark) return;
    const { theme } = this.store;
    const [x0, x1] = [this.toX(periodMark.startMs), this.toX(periodMark.endMs)];
    const [low, high] = [LABEL_WIDTH, LABEL_WIDTH + this.plotWidth];
    if (x1 < low || x0 > high) return;
    ctx.save();
    ctx.beginPath();
    ctx.rect(low - 60, 0, this.plotWidth + 120, this.surface.height);
    ctx.clip();
    const y = 22.5;
    ctx.strokeStyle = ctx.fillStyle = theme.ink;
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    ctx.moveTo(x0, y + 5);
    ctx.lineTo(x0, y);
    ctx.lineTo(x1, y);
    ctx.lineTo(x1, y + 5);
    ctx.stroke();
    const laneTop = TOP + periodMark.lane * this.laneHeight - this.view.offset;
    ctx.globalAlpha = 0.55;
    ctx.setLineDash([3, 3]);
    ctx.lineWidth = 1;
    ctx.beginPath();
    for (const x of [x0, x1]) {
      ctx.moveTo(x, y + 5);
      ctx.lineTo(x, Math.min(laneTop + this.laneHeight, TOP + this.plotHeight));
    }
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.globalAlpha = 1;
    ctx.font = `700 12px ${theme.font}`;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    ctx.fillText(this.markText(), (x0 + x1) / 2, 10);
    ctx.restore();
  }

  /** Say that there are lanes above or below the ones on screen. */
  drawHiddenLanes(ctx) {
    const { theme } = this.store;
    const hidden = this.laneHeight * this.gantt.lanes.length - this.plotHeight;
    if (hidden < 1) return;
    const above = Math.round(this.view.offset / this.laneHeight);
    const below = Math.round((hidden - this.view.offset) / this.laneHeight);
    ctx.font = `600 11px ${theme.font}`;
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    ctx.fillStyle = theme.ink;
    if (above > 0) ctx.fillText(`↑ ${above} more lanes`, 2, TOP - 8);
    if (below > 0) ctx.fillText(`↓ ${below} more lanes, drag`, 2, TOP + this.plotHeight + 12);
  }

  drawFooter(ctx, width, height) {
    const { theme } = this.store;
    let y = TOP + this.plotHeight + 30;
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    ctx.font = `12px ${theme.font}`;
    ctx.fillStyle = theme.mutedInk;
    if (this.gantt.idle) {
      ctx.fillText(this.gantt.idle, 2, y, width - 4);
      y += 18;
    }
    // Where it is narrow, the numbers at the end matter more than the rules at the beginning.
    const parts = this.gantt.assumptions.split(" · ");
    const texts = parts.map((_, k) => `${this.gantt.title}: ${parts.slice(k).join(" · ")}`);
    const text = texts.find((t) => ctx.measureText(t).width <= width - 4) ?? texts.at(-1);
    ctx.fillText(text, 2, Math.min(y, height - 8), width - 4);
  }
}
