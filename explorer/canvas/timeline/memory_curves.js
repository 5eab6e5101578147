/* The drawing of the memory strip: value axis, curves, band, limits, and the list at the right.

   `strip` is a MemoryPicture: it knows the lanes, their values and where they stand. */

import { firstThatFits, niceStep } from "../kit/format.js";
import { bytesIn, formatMs } from "../kit/quantities.js";

/** Pixels above the curves, for what is written there. */
export const STRIP_TOP = 20;
/** Pixels of a line of the list. */
export const ROW = 15;

/** What is measured, and lines at round values with their numbers. */
export function drawValueAxis(ctx, strip) {
  const { theme } = strip.store;
  // Round in the unit that is written: half a GiB is 0.5 there, 500 MiB are not.
  const unit = strip.showsBytes ? bytesIn(strip.store.data.memoryUnit) : 1;
  const step = Math.max(strip.showsBytes ? 0 : 1, niceStep(strip.top / unit / 4)) * unit;
  ctx.font = `11px ${theme.font}`;
  ctx.textAlign = "right";
  ctx.textBaseline = "middle";
  const values = Array.from({ length: Math.floor(strip.top / step) + 1 }, (_, k) => k * step);
  strip.ticks = textsThatFit(ctx, strip, values, strip.plotLeft - 8).map((text, k) => (k === 0 ? "0" : text));
  for (const [k, text] of strip.ticks.entries()) {
    const y = Math.round(strip.toY(values[k])) + 0.5;
    ctx.fillStyle = theme.faintLine;
    ctx.fillRect(strip.plotLeft, y - 0.5, strip.plotWidth, 1);
    ctx.fillStyle = theme.mutedInk;
    ctx.fillText(text, strip.plotLeft - 6, y);
  }
  ctx.font = `600 11px ${theme.font}`;
  ctx.textAlign = "left";
  const { memoryUnit } = strip.store.data;
  strip.heading = !strip.showsBytes ? "in flight" : strip.ticks.at(-1).endsWith(memoryUnit) ? "memory" : memoryUnit;
  ctx.fillText(strip.heading, 2, 8, strip.plotLeft - 6);
}

/** Values with their unit, or all without it where one of them would not fit into `width` pixels: as on a phone, where the
    unit stands above the axis. */
function textsThatFit(ctx, strip, values, width) {
  const texts = values.map((value) => strip.text(value));
  const areWide = texts.some((text) => ctx.measureText(text).width > width);
  return areWide ? texts.map((text) => text.split(" ")[0]) : texts;
}

/** A step curve, hatched where it is over its limit, and what lies under it: in its colour when it is asked for, else
    in one colour for all, so that none mix. Of rectangles, since one long path is far slower to stroke. */
export function drawCurve(ctx, areas, strip, lane, isPlain, isAsked) {
  const { theme, patterns, data } = strip.store;
  const { colour } = data.devices[strip.lanes[lane].device];
  const limit = strip.lanes[lane].isOverMemory ? strip.limitOf(strip.lanes[lane]) : null;
  const line = isPlain && isAsked ? 3 : 2;
  const edge = limit === null ? null : strip.toY(limit);
  const hatch = limit === null ? null : patterns.get(ctx, "over", theme.palette.alarm);
  areas.fillStyle = isAsked ? colour.forward.fill : theme.ink;
  let before = null;
  const piece = (x, width, least, most) => {
    const [low, high] = [strip.toY(least), strip.toY(most)];
    if (isPlain) areas.fillRect(x, high, width, strip.bottom - high);
    const isOver = limit !== null && most > limit;
    if (isOver) {
      ctx.fillStyle = hatch;
      ctx.fillRect(x, high, width, edge - high);
    }
    ctx.fillStyle = colour.forward.fill;
    if (before !== null) ctx.fillRect(x - line / 2, Math.min(before, high) - line / 2, line, Math.abs(before - high) + line);
    ctx.fillStyle = isOver ? theme.palette.alarm : colour.forward.fill;
    ctx.fillRect(x, high - line / 2, Math.max(1, width), low - high + line);
    before = low;
  };
  if (strip.numStepsInView(lane) > strip.plotWidth) new Columns(strip, 1).add(lane).each(piece);
  else strip.eachStep(lane, (x0, x1, value) => piece(x0, x1 - x0, value, value));
}

/** From the least to the most that any of the other lanes holds. */
export function drawBand(ctx, strip) {
  const isShown = new Set(strip.shown);
  const columns = new Columns(strip, 2);
  for (let lane = 0; lane < strip.lanes.length; lane += 1) if (!isShown.has(lane)) columns.add(lane);
  ctx.fillStyle = strip.store.theme.line;
  ctx.globalAlpha = 0.6;
  columns.each((x, width, least, most) => {
    const y = strip.toY(most);
    ctx.fillRect(x, y, width, Math.max(1, strip.toY(least) - y));
  });
  ctx.globalAlpha = 1;
}

/** The least and the most that lanes hold within each column of `width` pixels. */
class Columns {
  constructor(strip, width) {
    Object.assign(this, { strip, width });
    const number = Math.ceil(strip.plotWidth / width) + 1;
    this.least = new Float64Array(number).fill(Infinity);
    this.most = new Float64Array(number).fill(-Infinity);
  }

  add(lane) {
    const { strip, width, least, most } = this;
    strip.eachStep(lane, (x0, x1, value) => {
      const last = Math.min(least.length - 1, Math.floor((x1 - strip.plotLeft) / width));
      for (let c = Math.max(0, Math.floor((x0 - strip.plotLeft) / width)); c <= last; c += 1) {
        if (value < least[c]) least[c] = value;
        if (value > most[c]) most[c] = value;
      }
    });
    return this;
  }

  each(visit) {
    const { strip, width, least, most } = this;
    for (let c = 0; c < least.length; c += 1) {
      if (most[c] >= least[c]) visit(strip.plotLeft + c * width, width, least[c], most[c]);
    }
  }
}

/** The limits, and by how much the worst devices are over them. */
export function drawLimits(ctx, strip) {
  const { theme } = strip.store;
  const limits = new Set(strip.lanes.map((lane) => strip.limitOf(lane)).filter((limit) => limit !== null));
  ctx.font = `600 11px ${theme.font}`;
  ctx.textBaseline = "middle";
  ctx.textAlign = "right";
  const far = [...limits].filter((limit) => limit > strip.top).sort((a, b) => a - b);
  for (const limit of limits) {
    if (far.includes(limit)) continue;
    const y = Math.round(strip.toY(limit)) + 0.5;
    ctx.strokeStyle = theme.ink;
    ctx.lineWidth = 1.5;
    ctx.setLineDash([8, 4]);
    ctx.beginPath();
    ctx.moveTo(strip.plotLeft, y);
    ctx.lineTo(strip.plotRight, y);
    ctx.stroke();
    ctx.setLineDash([]);
    writeOn(ctx, strip, `limit ${strip.size(limit)}`, strip.plotRight - 4, y - 8 < 7 ? y + 9 : y - 8, theme.ink);
  }
  if (far.length) {  // one above the other they would hide each other
    const noun = `limit${far.length > 1 ? "s" : ""}`;
    const words = `${noun} ${far.map((size) => strip.size(size)).join(" and ")}`;
    const least = `${noun} from ${strip.size(Math.min(...far))}`;
    const texts = [`↑ ${words}, above this scale`, `↑ ${words}`, ...(far.length > 1 ? [`↑ ${least}`] : []), `↑ ${noun}`];
    strip.limitsAbove = firstThatFits(ctx, texts, strip.plotWidth - 8, strip.widths);
    strip.limitsWidth = ctx.measureText(strip.limitsAbove).width;
    writeOn(ctx, strip, strip.limitsAbove, strip.plotRight - 4, 8, theme.ink);
  }
  const over = strip.showsBytes ? strip.lanes.filter((lane) => lane.isOverMemory) : [];
  if (!over.length) return;
  over.sort((a, b) => b.peakMemoryBytes - b.capacityBytes - (a.peakMemoryBytes - a.capacityBytes));
  const naming = (number) => {
    const named = over.slice(0, number);
    const words = named.map((lane) => `${lane.name} over by ${strip.size(lane.peakMemoryBytes - lane.capacityBytes)}`);
    return `▲ ${words.join(", ")}${over.length > number ? `, and ${over.length - number} more` : ""}`;
  };
  ctx.textAlign = "left";
  const texts = [naming(2), naming(1), `▲ ${over.length} over the limit`];
  strip.warning = firstThatFits(ctx, texts, strip.plotWidth - 8, strip.widths);
  strip.warningWidth = ctx.measureText(strip.warning).width;
  writeOn(ctx, strip, strip.warning, strip.plotLeft + 4, 8, theme.palette.alarm);
}

/** Where the curves are at a time. */
export function drawDots(ctx, strip, ms) {
  const x = strip.toX(ms);
  if (x < strip.plotLeft || x > strip.plotRight) return;
  for (const lane of strip.shown) {
    const { colour } = strip.store.data.devices[strip.lanes[lane].device];
    ctx.fillStyle = colour.forward.fill;
    ctx.strokeStyle = strip.store.theme.ink;
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.arc(x, strip.toY(strip.valueAt(lane, ms)), 3.5, 0, 7);
    ctx.fill();
    ctx.stroke();
  }
}

/** Each drawn device with what it holds at a time, its peak when there is none. */
export function drawList(ctx, strip, ms, width) {
  const { theme, data } = strip.store;
  const x = strip.plotRight + 14;
  const focus = strip.store.focus();
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  ctx.font = `600 11px ${theme.font}`;
  ctx.fillStyle = theme.mutedInk;
  const rest = strip.lanes.length - strip.shown.length;
  const held = strip.shown.map((lane) => (ms === null ? strip.peakOf(strip.lanes[lane]) : strip.valueAt(lane, ms)));
  ctx.fillText(ms === null ? "at the peak" : `at ${formatMs(ms)}`, x, 8, width - x);
  ctx.font = `700 11px ${theme.font}`;
  const texts = textsThatFit(ctx, strip, held, width - x - 42);
  for (const [k, lane] of strip.shown.entries()) {
    const { device, isOverMemory } = strip.lanes[lane];
    const { colour, label } = data.devices[device];
    const y = STRIP_TOP + k * ROW + 5;
    ctx.globalAlpha = focus.devices === null || focus.devices.has(device) ? 1 : 0.5;
    ctx.fillStyle = colour.forward.fill;
    ctx.beginPath();
    ctx.roundRect(x, y - 6, 22, 12, 3);
    ctx.fill();
    if (colour.pattern !== "none") {
      ctx.fillStyle = strip.store.patterns.get(ctx, colour.pattern, colour.forward.text);
      ctx.fill();
    }
    ctx.font = `700 10px ${theme.font}`;
    ctx.textAlign = "center";
    ctx.fillStyle = colour.forward.text;
    ctx.fillText(label, x + 11, y + 0.5);
    ctx.textAlign = "left";
    const limit = strip.limitOf(strip.lanes[lane]);
    const isOver = isOverMemory && limit !== null && held[k] > limit;
    ctx.font = `${isOver ? "700 " : ""}11px ${theme.font}`;
    ctx.fillStyle = isOver ? theme.palette.alarm : theme.ink;
    ctx.fillText(`${texts[k]}${isOver ? " ▲" : ""}`, x + 28, y + 0.5, width - x - 28);
    ctx.globalAlpha = 1;
  }
  if (rest > 0) {
    ctx.font = `11px ${theme.font}`;
    ctx.fillStyle = theme.mutedInk;
    ctx.fillText(`band: ${rest} others`, x, STRIP_TOP + strip.shown.length * ROW + 4, width - x);
  }
}

/** Text on a patch of the background. */
function writeOn(ctx, strip, text, x, y, colour) {
  const width = ctx.measureText(text).width;
  ctx.fillStyle = strip.store.theme.background;
  ctx.globalAlpha = 0.85;
  ctx.fillRect(ctx.textAlign === "right" ? x - width - 3 : x - 3, y - 7, width + 6, 14);
  ctx.globalAlpha = 1;
  ctx.fillStyle = colour;
  ctx.fillText(text, x, y);
}
