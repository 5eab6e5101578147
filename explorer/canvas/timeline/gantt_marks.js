/* What surrounds the bars of the timeline: phases, period, time axis, bounds, critical path, playhead, cursor, range. */

import { niceStep } from "../kit/format.js";
import { AS_GIVEN, formatMs, formatNumber } from "../kit/quantities.js";
import { SLOT_COMPUTE } from "../kit/contract.js";

/** Pixels above the first lane: the phases, then the period's bracket and the heads of the columns. */
export const TOP = 32;
/** Pixels below the last lane: the names of the bounds, then the time axis. */
export const BOTTOM = 40;
const BOUND_ROW = 14;

/** Shade warm-up and cool-down, and name them and the steady state between them. */
export function drawPhases(ctx, picture) {
  const { theme } = picture.store;
  const { warmUpMs, drainStartMs, makespanMs, periodMs, periodText, periodMark } = picture.gantt;
  const [low, high] = [picture.plotLeft, picture.plotRight];
  const clamp = (x) => Math.max(low, Math.min(high, x));
  const y = 9;
  const taken = [];
  if (periodMark) {
    ctx.font = `700 12px ${theme.font}`;
    const middle = (clamp(picture.toX(periodMark.startMs)) + clamp(picture.toX(periodMark.endMs))) / 2;
    const half = ctx.measureText(periodLabel(picture)).width / 2 + 8;
    taken.push([middle - half, middle + half]);
  }
  ctx.font = `600 11px ${theme.font}`;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  const isFree = (x0, x1) => taken.every(([from, to]) => x1 < from || x0 > to);
  const write = (text, x0) => {
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
    const [x0, x1] = [clamp(picture.toX(from)), clamp(picture.toX(to))];
    if (!(x1 > x0)) return;
    ctx.fillStyle = theme.shade;
    ctx.fillRect(x0, TOP - 2, Math.max(1, x1 - x0), picture.plotHeight + 2);
    if (writeWithin(name, x0, x1)) return;
    // Too narrow for its name: that stands in the margin, with a line to the shade.
    const width = ctx.measureText(name).width;
    const end = side < 0 ? low - 10 : high + 10;
    const left = side < 0 ? end - width : end;
    if (left < 0 || left + width > picture.surface.width) return; // nor is there a margin for it, as on a phone
    write(name, left);
    const middle = Math.round((x0 + x1) / 2) + 0.5;
    // Below whatever is written over the lanes.
    const edge = side < 0 ? low : high;
    strokeLine(ctx, theme.mutedInk, 1, [[end - 3 * side, y + 0.5], [edge, TOP - 14.5], [middle, TOP - 14.5], [middle, TOP - 2]]);
  };
  if (warmUpMs > 0) shade("warm-up", 0, warmUpMs, -1);
  if (drainStartMs !== null) shade("cool-down", drainStartMs, makespanMs, 1);
  if (!(makespanMs > 0)) return;
  const between = [clamp(picture.toX(warmUpMs)), clamp(picture.toX(drainStartMs ?? makespanMs))];
  if (periodMark) {
    if (warmUpMs > 0 || drainStartMs !== null) writeWithin("steady state", ...between);
    return;
  }
  const text = periodMs === null ? periodText : `${periodText} ${formatMs(periodMs)}`;
  if (!writeWithin(text, ...between)) writeWithin(text, low, high);
}

/** The bracket over one steady interval. */
export function drawPeriod(ctx, picture) {
  const { periodMark } = picture.gantt;
  if (!periodMark) return;
  const { theme } = picture.store;
  const [x0, x1] = [picture.toX(periodMark.startMs), picture.toX(periodMark.endMs)];
  const [low, high] = [picture.plotLeft, picture.plotRight];
  if (x1 < low || x0 > high) return;
  ctx.save();
  ctx.beginPath();
  ctx.rect(low - 2, 0, high - low + 4, picture.surface.height);
  ctx.clip();
  const y = 20.5;
  strokeLine(ctx, theme.ink, 1.5, [[x0, y + 6], [x0, y], [x1, y], [x1, y + 6]]);
  const laneTop = TOP + periodMark.lane * picture.laneHeight - picture.view.offset;
  ctx.globalAlpha = 0.55;
  ctx.setLineDash([3, 3]);
  for (const x of [x0, x1]) {
    const end = Math.min(laneTop + picture.laneHeight, TOP + picture.plotHeight);
    for (const [from, to] of clearOfNumbers(picture, x, y + 6, end)) strokeLine(ctx, theme.ink, 1, [[x, from], [x, to]]);
  }
  ctx.restore();
  // The text of a bracket at the edge may reach into the margin.
  ctx.font = `700 12px ${theme.font}`;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  ctx.fillStyle = theme.ink;
  ctx.fillText(periodLabel(picture), (Math.max(low, x0) + Math.min(high, x1)) / 2, 9);
}

function periodLabel(picture) {
  return `period ${formatMs(picture.gantt.periodMs)}`;
}

/** Vertical lines through [top, bottom] at round times; with `y` their numbers below. */
export function drawTimeAxis(ctx, picture, top, bottom, y = null) {
  const { theme } = picture.store;
  const { from, to } = picture.view;
  const step = niceStep(((to - from) * 80) / picture.plotWidth);
  ctx.font = `11px ${theme.font}`;
  ctx.textBaseline = "top";
  ctx.textAlign = "center";
  for (let k = Math.ceil(from / step - 1e-9); k * step <= to + 1e-9 * (to - from); k += 1) {
    const x = Math.round(picture.toX(k * step)) + 0.5;
    strokeLine(ctx, theme.faintLine, 1, [[x, top], [x, bottom]]);
    if (y === null) continue;
    ctx.fillStyle = theme.mutedInk;
    ctx.fillText(formatNumber(k * step, AS_GIVEN), x, y);
  }
  if (y === null) return;
  ctx.textAlign = "left";
  ctx.fillText("time, ms", picture.plotRight + 14, y);
}

/** Heads of the columns at the end of the lanes. */
export function drawColumnHeads(ctx, picture) {
  const { theme } = picture.store;
  let x = picture.plotRight + 8;
  ctx.font = `600 11px ${theme.font}`;
  ctx.fillStyle = theme.mutedInk;
  ctx.textAlign = "right";
  ctx.textBaseline = "middle";
  for (const column of picture.endColumns) {
    x += column.width;
    ctx.fillText(column.title, x, TOP - 9, column.width - 4);
  }
}

/** What no order of these micro-batches can beat, and when this one ends: lines with their names in a row of their own. */
export function drawBounds(ctx, picture) {
  const { theme } = picture.store;
  const { hasBounds, loadBoundMs, criticalPathBoundMs, lowerBoundMs, makespanMs } = picture.gantt;
  if (!(makespanMs > 0)) return;
  const [low, high] = [picture.plotLeft, picture.plotRight];
  const bottom = TOP + picture.plotHeight;
  const near = (a, b) => Math.abs(a - b) <= 1e-9 * makespanMs;
  const marks = [{ ms: makespanMs, name: "end", dash: [] }];
  const bounds = hasBounds ? [["load bound", loadBoundMs, [7, 3]], ["critical-path bound", criticalPathBoundMs, [2, 3]]] : [];
  // What is proven is one of the two, or more than both.
  if (hasBounds && !bounds.some(([, ms]) => near(ms, lowerBoundMs))) bounds.unshift(["proven bound", lowerBoundMs, [9, 3, 2, 3]]);
  for (const [name, ms, dash] of bounds) {
    if (near(ms, makespanMs)) marks[0].name += ` = ${name}`;
    else marks.push({ ms, name, dash });
  }
  ctx.font = `600 11px ${theme.font}`;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  const shown = marks.map((mark) => ({ ...mark, x: Math.round(picture.toX(mark.ms)) + 0.5 }))
    .filter(({ x }) => x >= low - 1 && x <= high + 1);
  const names = placeNames(ctx, shown, Math.max(0, low - 40), picture.surface.width);
  ctx.fillStyle = theme.ink;
  for (const { text, from } of names) ctx.fillText(text, from, bottom + BOUND_ROW / 2 + 1.5);
  picture.boundNames = names;
  picture.boundLines = [];
  for (const { x, dash } of shown) {
    const isOverText = names.some(({ from, to }) => from - 2 < x && x < to + 2);
    ctx.setLineDash(dash);
    for (const [top, end] of clearOfNumbers(picture, x, TOP - 2, isOverText ? bottom : bottom + BOUND_ROW)) {
      strokeLine(ctx, theme.ink, 1.25, [[x, top], [x, end]]);
      picture.boundLines.push([x, top, end]);
    }
    ctx.setLineDash([]);
  }
}

/** Where the names of lines at x stand in one row, {names, text, from, to}, that of the solid line behind it where that goes.
    They are shortened as little as gives each line a name: an axis tells a time too, a line without a name says nothing.
    Lines that stand too close for that share a text beside them, which names them from left to right. */
function placeNames(ctx, lines, left, right) {
  let best = [];
  for (const groups of groupings([...lines].sort((a, b) => a.x - b.x))) {
    const placed = placeGroups(ctx, groups, left, right);
    const named = (names) => names.flatMap((one) => one.names).length;
    if (named(placed) > named(best)) best = placed;
    if (named(best) === lines.length) break;
  }
  return best;
}

/** Lines in groups of neighbours, each dashed line alone first; the solid line, which ends the run, is always alone. */
function groupings(lines) {
  const solid = lines.filter(({ dash }) => dash.length === 0).map((line) => [line]);
  const dashed = lines.filter(({ dash }) => dash.length > 0);
  let all = [[]];
  for (const line of dashed) {
    all = all.flatMap((groups) => [[...groups, [line]], ...(groups.length ? [[...groups.slice(0, -1), [...groups.at(-1), line]]] : [])]);
  }
  const widest = (groups) => Math.max(0, ...groups.map((group) => group.at(-1).x - group[0].x));
  return all.sort((a, b) => b.length - a.length || widest(a) - widest(b)).map((groups) => [...solid, ...groups]);
}

/** The most of the groups that have room for a text, each shortened as little as that takes, and more where it then stands
    on its own side of the line: on the other it reads as the name of the next line. */
function placeGroups(ctx, groups, left, right) {
  let [best, most] = [[], -1];
  const forms = groups.map((group) => formsOf(group).map((text) => ({ text, width: ctx.measureText(text).width })));
  for (const choice of shortenings(forms)) {
    const placed = [];
    let onOwnSide = 0;
    groups.forEach((group, k) => {
      const { text, width } = forms[k][choice[k]];
      const [before, behind] = [group[0].x - width - 5, group.at(-1).x + 5];
      // There is room in the margin behind the end.
      const sides = group[0].dash.length === 0 ? [behind, before] : [before, behind];
      const from = sides.find((at) => at >= left && at + width <= right && placed.every((other) => at + width + 6 < other.from || at > other.to + 6));
      if (from === undefined) return;
      placed.push({ names: group.map(({ name }) => name), text, from, to: from + width });
      onOwnSide += from === sides[0];
    });
    const score = placed.length * (groups.length + 1) + onOwnSide;
    if (score > most) [best, most] = [placed, score];
    if (onOwnSide === groups.length) break;
  }
  return best;
}

/** What may stand at a group of lines, the longest first. */
function formsOf(group) {
  const short = (name) => name.replace(/ bound$/, "");
  if (group.length === 1) {
    const [{ ms, name }] = group;
    return [`${name} ${formatMs(ms)}`, name, short(name), ...(name.includes(" = ") ? [name.replace(/ = .*/, "")] : [])];
  }
  const names = group.map(({ name }) => short(name)).join(", ");
  return [group.map(({ ms, name }) => `${short(name)} ${formatMs(ms)}`).join(", "), `${names} bounds`, names];
}

/** For each of some names which of its forms stands there: all combinations, those that shorten least first. */
function shortenings(forms) {
  let all = [[]];
  for (const texts of forms) all = all.flatMap((before) => texts.map((_, often) => [...before, often]));
  const sum = (often) => often.reduce((total, one) => total + one, 0);
  return all.sort((a, b) => sum(a) - sum(b));
}

/** The parts from `top` to `end` of a vertical line at x that cross no number of a micro-batch. */
function clearOfNumbers(picture, x, top, end) {
  const parts = [];
  let from = top;
  picture.labelsOfLanes.forEach((passes, lane) => {
    if (!passes.some(({ labels }) => labels.some((label) => label.from - 2 < x && x < label.to + 2))) return;
    const laneTop = TOP + lane * picture.laneHeight - picture.view.offset;
    if (laneTop > from) parts.push([from, Math.min(end, laneTop)]);
    from = Math.max(from, laneTop + picture.laneHeight);
  });
  if (from < end) parts.push([from, end]);
  return parts;
}

/** Lines from one critical slot to the next where the chain of waits goes over to another lane. */
export function drawCriticalLinks(ctx, picture) {
  const { bars, critical, store } = picture;
  const middle = (i) => TOP + (bars.lane[i] + 0.5) * picture.laneHeight - picture.view.offset;
  for (let k = 1; k < critical.length; k += 1) {
    const [before, after] = [critical[k - 1], critical[k]];
    if (bars.lane[before] === bars.lane[after]) continue;
    const x = picture.toX(bars.start[after]);
    if (x < picture.plotLeft || x > picture.plotRight) continue;
    strokeLine(ctx, store.theme.ink, 1.5, [[x, middle(before)], [x, middle(after)]]);
  }
}

/** Say that there are lanes above or below the ones on screen. */
export function drawHiddenLanes(ctx, picture) {
  const { theme } = picture.store;
  const hidden = picture.laneHeight * picture.gantt.lanes.length - picture.plotHeight;
  if (hidden < 1) return;
  const above = Math.round(picture.view.offset / picture.laneHeight);
  const below = Math.round((hidden - picture.view.offset) / picture.laneHeight);
  ctx.font = `600 11px ${theme.font}`;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  ctx.fillStyle = theme.ink;
  const width = picture.plotLeft - 4;
  if (above > 0) ctx.fillText(`↑ ${above} more lanes`, 2, TOP - 9, width);
  if (below > 0) ctx.fillText(`↓ ${below} more, drag`, 2, TOP + picture.plotHeight + 12, width);
}

/** A moment: a line through [top, bottom], and with `y` its time in a small box there. */
export function drawMoment(ctx, picture, ms, { colour, onColour, line, dash = [], top, bottom, y = null }) {
  const x = picture.toX(ms);
  if (x < picture.plotLeft - 0.5 || x > picture.plotRight + 0.5) return;
  ctx.setLineDash(dash);
  strokeLine(ctx, colour, line, [[x, top], [x, bottom]]);
  ctx.setLineDash([]);
  if (y === null) return;
  const text = formatMs(ms);
  ctx.font = `700 11px ${picture.store.theme.font}`;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  const half = ctx.measureText(text).width / 2 + 5;
  const at = Math.max(half, Math.min(picture.surface.width - half, x));
  ctx.fillStyle = colour;
  ctx.beginPath();
  ctx.roundRect(at - half, y - 8, 2 * half, 16, 4);
  ctx.fill();
  ctx.fillStyle = onColour;
  ctx.fillText(text, at, y + 0.5);
}

/** The selected range of time. */
export function drawRange(ctx, picture, { fromMs, toMs }, top, bottom, y = null) {
  const { theme } = picture.store;
  const [low, high] = [picture.plotLeft, picture.plotRight];
  const [x0, x1] = [fromMs, toMs].map((ms) => Math.max(low, Math.min(high, picture.toX(ms))));
  if (!(x1 > x0)) return;
  ctx.globalAlpha = 0.13;
  ctx.fillStyle = theme.primary;
  ctx.fillRect(x0, top, x1 - x0, bottom - top);
  ctx.globalAlpha = 1;
  for (const x of [x0, x1]) strokeLine(ctx, theme.primary, 1.5, [[x, top], [x, bottom]]);
  if (y === null) return;
  ctx.font = `700 11px ${theme.font}`;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  const text = `${formatMs(toMs - fromMs)} selected`;
  const half = ctx.measureText(text).width / 2 + 5;
  const at = Math.max(low + half, Math.min(high - half, (x0 + x1) / 2));
  ctx.fillStyle = theme.background;
  ctx.fillRect(at - half, y - 8, 2 * half, 16);
  ctx.fillStyle = theme.ink;
  ctx.fillText(text, at, y + 0.5);
}

/** The bars that run at the playhead, in the colour and with the number of their micro-batch. */
export function drawRunning(ctx, picture, running, microBatchColour, extentOf) {
  const { bars, store } = picture;
  const { theme } = store;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  for (const { bar, lane, microBatch } of running) {
    const y = TOP + lane * picture.laneHeight - picture.view.offset;
    if (y + picture.laneHeight < TOP || y > TOP + picture.plotHeight) continue;
    const [x0, x1] = [bars.start[bar], bars.end[bar]].map((ms) =>
      Math.max(picture.plotLeft, Math.min(picture.plotRight, picture.toX(ms))));
    if (!(x1 > x0)) continue;
    const { fill, text } = microBatchColour(microBatch);
    const isCompute = bars.kind[bar] === SLOT_COMPUTE;
    const [top, tall] = extentOf(bars.pass[bar], y, picture.laneHeight);
    ctx.fillStyle = isCompute ? fill : theme.palette.transfer;
    ctx.fillRect(x0, top, Math.max(3, x1 - x0), tall);
    ctx.strokeStyle = theme.ink;
    ctx.lineWidth = 1.5;
    ctx.strokeRect(x0 + 0.5, top + 0.5, Math.max(3, x1 - x0) - 1, tall - 1);
    const size = Math.min(12, picture.laneHeight * 0.56);
    if (String(microBatch).length * size * 0.6 + 3 > x1 - x0 || !isCompute) continue;
    ctx.font = `700 ${size}px ${theme.font}`;
    ctx.fillStyle = text;
    ctx.fillText(String(microBatch), (x0 + x1) / 2, top + tall / 2 + 0.5);
  }
}

function strokeLine(ctx, colour, width, points) {
  ctx.strokeStyle = colour;
  ctx.lineWidth = width;
  ctx.beginPath();
  ctx.moveTo(...points[0]);
  for (const point of points.slice(1)) ctx.lineTo(...point);
  ctx.stroke();
}
