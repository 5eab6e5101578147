/* One lane of the timeline: its label, its bars, and the numbers at its end.

   Passes differ by more than colour: F is plain, B and I are hatched, W is paler, lower and ruled, and each has its letter
   where it fits. The pieces or chunks of a device carry a, b, c, and as many notches at the upper edge as come before them. */

import { formatBytes, formatPercent } from "../kit/quantities.js";
import { PASS_FORWARD, PASS_LETTERS, PASS_WEIGHT_GRADIENT, SLOT_COMPUTE, SLOT_RECEIVE, SLOT_SEND } from "../kit/contract.js";
import { drawRim } from "../kit/theme.js";
import { rgbOf } from "./pixel_rows.js";

/** Passes as numbered in the message: forward, whole backward, gradient of the input, gradient of the weights. */
const PASS_PATTERNS = ["none", "backward", "backward", "weight"];
const DIM_BAR = 0.2;
const NOTCH = 3;
const LABEL_MARGIN = 2;
const LEAST_TEXT = 8;
/** Width of a character, of which few differ, in sizes of the font. */
const CHARACTER = 0.6;
/** Where not all bars have room for their numbers, every so many micro-batches have theirs. */
const EVERY = [2, 5, 10, 20, 50, 100, 200, 500];
/** Bars narrower than so many pixels have none: it could not be seen whose a number is. */
const LEAST_LABELLED = 2.5;

/** The columns at the end of each lane, the first of them where there is little room. */
export const END_COLUMNS = [
  { title: "bubble", width: 56, text: (lane) => (lane.bubbleFraction === null ? "" : formatPercent(lane.bubbleFraction)) },
  { title: "busy", width: 50, text: (lane) => (lane.utilisation === null ? "" : formatPercent(lane.utilisation)) },
  { title: "peak memory", width: 84, text: (lane, unit) => (lane.peakMemoryBytes > 0 ? formatBytes(lane.peakMemoryBytes, unit) : "–") },
];

/** Draw lane number `lane` of `picture` (a GanttPicture) with its upper edge at y. */
export function drawLane(ctx, picture, lane, y, focus) {
  const { store, plotLeft, plotWidth, laneHeight: height } = picture;
  const { theme, data } = store;
  const { device, name } = data.gantt.lanes[lane];
  if (lane > 0) {
    ctx.fillStyle = theme.faintLine;
    ctx.fillRect(plotLeft, Math.round(y), plotWidth, 1);
  }
  const isStrong = focus.devices?.has(device) ?? false;
  ctx.globalAlpha = focus.devices === null || isStrong ? 1 : 0.5;
  drawLabel(ctx, picture, data.devices[device], name, y, height, isStrong);
  drawEnd(ctx, picture, data.gantt.lanes[lane], y + height / 2);
  ctx.globalAlpha = 1;
  ctx.save();
  ctx.beginPath();
  ctx.rect(plotLeft, y, plotWidth, height);
  ctx.clip();
  drawBars(ctx, picture, lane, y, height, data.devices[device].colour, focus);
  ctx.restore();
}

function drawLabel(ctx, picture, { colour, label }, name, y, height, isStrong) {
  const { store, plotLeft } = picture;
  const size = Math.min(20, height - 3);
  ctx.fillStyle = colour.forward.fill;
  ctx.beginPath();
  ctx.roundRect(2, y + (height - size) / 2, 24, size, 4);
  ctx.fill();
  if (colour.pattern !== "none") {
    ctx.fillStyle = store.patterns.get(ctx, colour.pattern, colour.forward.text);
    ctx.fill();
  }
  ctx.textBaseline = "middle";
  ctx.textAlign = "center";
  ctx.font = `700 ${Math.min(12, size - 1)}px ${store.theme.font}`;
  if (colour.pattern !== "none") drawRim(ctx, label, 14, y + height / 2 + 0.5, colour.forward.fill);
  ctx.fillStyle = colour.forward.text;
  ctx.fillText(label, 14, y + height / 2 + 0.5);
  if (plotLeft < 60) return;
  ctx.textAlign = "left";
  ctx.font = `${isStrong ? 700 : 400} ${Math.min(13, height - 1)}px ${store.theme.font}`;
  ctx.fillStyle = store.theme.ink;
  ctx.fillText(name, 32, y + height / 2 + 0.5, plotLeft - 38);
}

function drawEnd(ctx, picture, lane, y) {
  const { theme } = picture.store;
  let x = picture.plotRight + 8;
  ctx.textAlign = "right";
  ctx.textBaseline = "middle";
  for (const [k, column] of picture.endColumns.entries()) {
    x += column.width;
    const isOver = column.title === "peak memory" && lane.isOverMemory;
    ctx.font = `${isOver ? "700 " : ""}${Math.min(12, picture.laneHeight - 1)}px ${theme.font}`;
    ctx.fillStyle = isOver ? theme.palette.alarm : k === 0 ? theme.ink : theme.mutedInk;
    ctx.fillText(`${isOver ? "▲ " : ""}${column.text(lane, picture.store.data.memoryUnit)}`, x, y + 0.5, column.width - 4);
  }
}

function drawBars(ctx, picture, lane, y, height, colour, focus) {
  const { bars, index, store, plotLeft, view } = picture;
  const { start, end, kind, pass } = bars;
  const { theme } = store;
  const { stages } = store.data.gantt;
  const perMs = picture.plotWidth / (view.to - view.from);
  const pad = Math.max(1, height * 0.1);
  const thin = Math.max(2, height * 0.26);
  const showsText = height >= 12;
  const marked = [store.selection, store.hovered].filter((thing) => thing?.kind === "bar").map((thing) => thing.bar);
  const rows = picture.pixelRows();
  const labels = [];
  const last = index.begin[lane + 1];
  for (let i = index.first(lane, view.from); i < last; i += 1) {
    if (start[i] > view.to) break;
    const width = (end[i] - start[i]) * perMs;
    const isPlain = picture.isPlain(i, focus);
    if (width < 1) {
      const isWork = kind[i] === SLOT_COMPUTE;
      const row = isWork ? (pass[i] === PASS_WEIGHT_GRADIENT ? 1 : 0) : kind[i] === SLOT_RECEIVE ? 2 : 3;
      const rgb = rgbOf(isWork ? fillOfBar(bars, i, colour).fill : theme.palette.transfer);
      rows.add(row, (start[i] - view.from) * perMs, width, rgb, isPlain ? 1 : DIM_BAR);
      continue;
    }
    const x = plotLeft + (start[i] - view.from) * perMs;
    const isCompute = kind[i] === SLOT_COMPUTE;
    ctx.globalAlpha = isPlain ? 1 : DIM_BAR;
    if (!isCompute) {
      ctx.fillStyle = theme.palette.transfer;
      ctx.fillRect(x, transferTop(kind[i], y, height, thin), Math.max(1, width - 0.6), thin);
      continue;
    }
    const fill = fillOfBar(bars, i, colour);
    const inner = Math.max(1, width - (width > 3 ? 1 : 0.3));
    const [top, tall] = barExtent(pass[i], y, height, pad);
    ctx.fillStyle = fill.fill;
    ctx.fillRect(x, top, inner, tall);
    if (width > 5) {
      for (const name of [PASS_PATTERNS[pass[i]], colour.pattern]) {
        if (name === "none") continue;
        ctx.fillStyle = store.patterns.get(ctx, name, fill.text);
        ctx.fillRect(x, top, inner, tall);
      }
    }
    const { piece } = stages[bars.stage[i]];
    if (piece > 0 && width > 4) {
      ctx.fillStyle = fill.text;
      for (let k = 0; k < piece && (k + 1) * (NOTCH + 1) < inner; k += 1) ctx.fillRect(x + 1 + k * (NOTCH + 1), top, NOTCH, 3);
    }
    if (showsText) labels.push([i, x, inner, top + tall / 2, fill.text, isPlain]);
    if (picture.outlines(i)) outline(ctx, x, top, inner, tall, theme.ink, 1.5);
    if (marked.includes(i)) outline(ctx, x, top, inner, tall, theme.ink, 2.5);
  }
  ctx.globalAlpha = 1;
  if (rows.render()) {
    rows.draw(ctx, 0, plotLeft, ...barExtent(PASS_FORWARD, y, height, pad));
    rows.draw(ctx, 1, plotLeft, ...barExtent(PASS_WEIGHT_GRADIENT, y, height, pad));
    rows.draw(ctx, 2, plotLeft, transferTop(SLOT_RECEIVE, y, height, thin), thin);
    rows.draw(ctx, 3, plotLeft, transferTop(SLOT_SEND, y, height, thin), thin);
  }
  picture.labelsOfLanes[lane] = drawTexts(ctx, picture, labels, Math.min(12, height * 0.56));
  ctx.globalAlpha = 1;
}

/** Upper edge and height of a compute bar: that of a weight gradient is lower. */
export function barExtent(pass, y, height, pad = Math.max(1, height * 0.1)) {
  const whole = height - 2 * pad;
  return pass === PASS_WEIGHT_GRADIENT ? [y + pad + 0.36 * whole, 0.64 * whole] : [y + pad, whole];
}

/** What is received comes in above the middle, what is sent goes out below it. */
function transferTop(kind, y, height, thin) {
  return kind === SLOT_RECEIVE ? y + height / 2 - thin - 0.5 : y + height / 2 + 0.5;
}

function outline(ctx, x, top, width, tall, colour, line) {
  ctx.globalAlpha = 1;
  ctx.strokeStyle = colour;
  ctx.lineWidth = line;
  ctx.strokeRect(x + line / 2, top + line / 2, Math.max(1, width - line), tall - line);
}

/** Micro-batch numbers, with the pass in training and the piece where a device has several: on all bars of a pass in the
    fullest form that fits on each of them, else on those of every n-th micro-batch, on a ground of their own. */
function drawTexts(ctx, picture, labels, usualSize) {
  const { store, view } = picture;
  const [low, high] = [picture.toX(view.from), picture.toX(view.to)];
  const character = shareOfCharacter(ctx, store.theme.font);
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  ctx.globalAlpha = 1;
  const bars = labels.filter((label) => label[5]).map(([i, x, width, y, colour]) => {
    const [x0, x1] = [Math.max(low, x), Math.min(high, x + width)];
    return { x: (x0 + x1) / 2, y, width: x1 - x0, isWhole: x0 === x && x1 === x + width, colour, microBatch: picture.bars.microBatch[i],
      pass: picture.bars.pass[i], texts: textsOf(picture, i), fill: fillOfBar(picture.bars, i, picture.colourOf(i)).fill };
  });
  const written = [];
  for (const { members, form, every, shrink } of labelledPasses(bars, usualSize, [low, high], character)) {
    const size = usualSize * shrink;
    ctx.font = `600 ${size}px ${store.theme.font}`;
    const shown = [];
    for (const bar of members) {
      const text = bar.texts[form];
      const wide = text.length * size * character;
      // At the edge of the view only a part of a bar may be left.
      if (every === 1 && wide + LABEL_MARGIN > bar.width) continue;
      const x = within(bar.x, wide / 2 + 1, low, high);
      if (every > 1) {
        ctx.fillStyle = bar.fill;
        ctx.fillRect(x - wide / 2 - 1, bar.y - size * 0.55, wide + 2, size * 1.1);
      }
      ctx.fillStyle = bar.colour;
      ctx.fillText(text, x, bar.y + 0.5);
      shown.push({ microBatch: bar.microBatch, from: x - wide / 2, to: x + wide / 2 });
    }
    written.push({ every, bars: bars.filter((bar) => bar.pass === members[0].pass).length, labels: shown });
  }
  return written;
}

/** How wide a character is by its size, in a font that may be wider than most, as those that stand in for others are. */
function shareOfCharacter(ctx, font) {
  ctx.font = `600 100px ${font}`;
  return Math.max(CHARACTER, ctx.measureText("B0").width / 200);
}

/** What may stand on a bar, the fullest first. */
function textsOf({ bars, store }, i) {
  const { stages, hasBackward } = store.data.gantt;
  const number = String(bars.microBatch[i]);
  const { piece, numPieces } = stages[bars.stage[i]];
  const letter = hasBackward ? PASS_LETTERS[bars.pass[i]] : "";
  const mark = numPieces > 1 ? pieceLetter(piece) : "";
  return [letter + number + mark, letter + number, number];
}

/** How the bars of a lane are labelled, pass by pass: {members, form, every, shrink}, which bars, with which of their
    texts, of how many micro-batches one, and how much smaller than `size`. Passes without room for any are left out. A
    number that is wider than its bar stays between `low` and `high`. */
export function labelledPasses(bars, size, [low, high], character = CHARACTER) {
  const passes = [...new Set(bars.map((bar) => bar.pass))].map((pass) => bars.filter((bar) => bar.pass === pass));
  const narrowest = (own) => own.reduce((least, bar) => (bar.isWhole ? Math.min(least, bar.width) : least), Infinity);
  const chosen = [];
  // The widest first: where they have all their numbers, those of narrower ones go between.
  for (const own of passes.sort((a, b) => narrowest(b) - narrowest(a))) {
    const choice = wholeChoice(own, size, character) ?? sparseChoice(own, size, chosen, narrowest(own), [low, high], character);
    if (choice) chosen.push(choice);
  }
  return chosen;
}

function wholeChoice(own, size, character) {
  for (const [form, shrink] of [[0, 1], [1, 1], [2, 1], [2, 0.85], [2, 0.72]]) {
    if (size * shrink < LEAST_TEXT && shrink < 1) continue;
    const fits = (bar) => !bar.isWhole || bar.texts[form].length * size * shrink * character + LABEL_MARGIN <= bar.width;
    if (own.some((bar) => bar.isWhole) && own.every(fits)) return { members: own, form, every: 1, shrink };
  }
  return null;
}

/** A middle moved so that `half` on either side of it is between two ends. */
function within(middle, half, low, high) {
  return Math.max(low + half, Math.min(high - half, middle));
}

function sparseChoice(own, size, chosen, narrowest, [low, high], character) {
  if (!(narrowest >= LEAST_LABELLED) || narrowest === Infinity) return null;
  const span = (bar, form, shrink) => {
    const half = (bar.texts[form].length * size * shrink * character) / 2 + 1;
    const x = within(bar.x, half, low, high);
    return [x - half, x + half];
  };
  const taken = chosen.flatMap(({ members, form, shrink }) => members.map((bar) => span(bar, form, shrink)));
  // One form in a lane: numbers alone beside letters would seem to be of another kind.
  const numbers = chosen.filter((choice) => choice.form === 2);
  const form = numbers.length ? 2 : 1;
  const shrink = Math.min(1, ...numbers.map((choice) => choice.shrink));
  for (const every of EVERY) {
    const members = own.filter((bar) => bar.microBatch % every === 0);
    const all = [...taken, ...members.map((bar) => span(bar, form, shrink))].sort((a, b) => a[0] - b[0]);
    if (members.length && all.every(([from], k) => k === 0 || from >= all[k - 1][1])) return { members, form, every, shrink };
  }
  return null;
}

/** a, b, ... z, then numbers. */
export function pieceLetter(piece) {
  return piece < 26 ? String.fromCharCode(97 + piece) : `·${piece + 1}`;
}

function fillOfBar(bars, i, colour) {
  const odd = bars.microBatch[i] % 2 === 1;
  if (bars.pass[i] === PASS_WEIGHT_GRADIENT) return odd ? colour.weightOdd : colour.weight;
  if (bars.pass[i] !== PASS_FORWARD) return odd ? colour.backwardOdd : colour.backward;
  return odd ? colour.forwardOdd : colour.forward;
}
