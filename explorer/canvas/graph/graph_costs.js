/* What transfers cost, written where it is seen which transfer is meant: beside its own line and on no other's, the most
   expensive first. Tensors cut inside a box on several devices are a seam in it, and their time stands in or beside the
   box. */

import { overlapsAny } from "../kit/areas.js";
import { formatBytes, formatMove } from "../kit/quantities.js";
import { EdgePainter } from "./graph_edges.js";
import { MAX_FIT_SCALE } from "./graph_view.js";

const FEW_CUTS = 10;
const MANY_CUTS = 1500;
const MOST_COSTS = 120;
const LINE_STEP = 12;
const CLEAR = 2;

export class CostPainter extends EdgePainter {
  /** Costs of cut edges and seams, the most expensive first, where they cover neither a name, another cost nor another line. */
  drawCosts(ctx, scale, focus) {
    const { level, store } = this;
    this.costs = [];
    const isAsked = focus.box >= 0 || focus.edge >= 0 || focus.kind === "tensor";
    const isFew = level.cut.length <= FEW_CUTS;
    if (this.morph || level.cut.length > MANY_CUTS) return;
    if (!isAsked && scale < (isFew ? 0.3 : 0.5)) return;
    ctx.font = `600 10.5px ${store.theme.font}`;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    const names = this.shownBoxes.map((box) => this.nameBand(box));
    for (const cost of this.costsToWrite(focus, isAsked, scale)) {
      if (this.costs.length >= MOST_COSTS) break;
      const place = this.placeOfCost(ctx, cost, names);
      if (place) this.costs.push({ ...cost, ...place });
    }
    for (const { area, lines } of this.costs) this.writeCost(ctx, area, lines);
  }

  /** Edges and seams whose costs are worth writing: {ms, edge} or {ms, seam}, the most expensive first. */
  costsToWrite(focus, isAsked, scale) {
    const { level } = this;
    const { cutMs, showsCost } = level.edges;
    // Costs that do not matter would only cover the picture; a question or a closer look brings them out.
    const least = isAsked || this.isCoarse() || scale > MAX_FIT_SCALE ? 0 : 0.02 * level.maxCutMs;
    const isShown = (e) => this.isEdgeVisible(e) && this.isEdgeInFocus(e, focus);
    const edges = level.cut.filter((e) => showsCost[e] && cutMs[e] >= least && isShown(e)).map((edge) => ({ ms: cutMs[edge], edge }));
    const seams = [...level.seams.values()].filter((seam) => seam.ms >= least && this.isBoxInFocus(seam.box, focus))
      .map((seam) => ({ ms: seam.ms, seam }));
    // What costs nothing more is said last, and only when asked.
    const others = isAsked ? level.cut.filter((e) => !showsCost[e] && isShown(e)).map((edge) => ({ ms: 0, edge })) : [];
    return [...edges, ...seams].sort((a, b) => b.ms - a.ms).concat(others);
  }

  /** The area and the lines of a cost: {area, lines}, null where there is no room for it. */
  placeOfCost(ctx, { edge, seam }, names) {
    const taken = this.costs.map((cost) => cost.area);
    const variants = seam ? [[formatMove(seam.sendMs, [seam.receiveMs])]] : this.costLines(edge);
    const measured = variants.map((lines) => {
      const halfWidth = Math.max(...lines.map((line) => ctx.measureText(line).width)) / 2 + 4;
      const height = lines.length * LINE_STEP + 2;
      return { lines, halfWidth, height, spots: seam ? this.seamSpots(ctx, seam, halfWidth, height) : this.costSpots(edge, halfWidth, height) };
    });
    // On its own line a cost hides a part of it: rather a shorter text beside it.
    for (const [obstacles, isOn] of [[this.shownBoxes, false], [this.shownBoxes, true], [names, false], [names, true]]) {
      for (const { lines, halfWidth, height, spots } of measured) {
        for (const [cx, cy, { isInside, liesOn } = {}] of spots) {
          if (Boolean(liesOn) !== isOn) continue;
          const area = [cx - halfWidth, cy - height / 2, cx + halfWidth, cy + height / 2];
          if (area[0] <= 0 || area[1] <= 0 || area[2] >= this.surface.width || area[3] >= this.surface.height) continue;
          if (overlapsAny(area, taken) || (!isInside && overlapsAny(area, obstacles))) continue;
          if (!isInside && this.liesOnAnother(area, edge)) continue;
          return { area, lines };
        }
      }
    }
    return null;
  }

  writeCost(ctx, [x0, y0, x1, y1], lines) {
    const { theme } = this.store;
    ctx.fillStyle = theme.background;
    ctx.globalAlpha = 0.92;
    ctx.beginPath();
    ctx.roundRect(x0, y0, x1 - x0, y1 - y0, 4);
    ctx.fill();
    ctx.globalAlpha = 1;
    ctx.fillStyle = theme.palette.transfer;
    lines.forEach((line, k) => ctx.fillText(line, (x0 + x1) / 2, y0 + 1 + (k + 0.5) * LINE_STEP + 0.5));
  }

  /** What may stand beside a cut edge, line by line, the fullest first; further edges of one tensor to one device cost nothing more. */
  costLines(e) {
    const { cutBytes, sendMs, receiveMs, showsCost } = this.level.edges;
    if (!showsCost[e]) return [["same tensor"]];
    const time = formatMove(sendMs[e], [receiveMs[e]]);
    // Between stages and devices there is room for the size as well.
    if (!this.isCoarse() || cutBytes[e] === null) return [[time]];
    const size = formatBytes(cutBytes[e]);
    return [[time, size], [`${time} · ${size}`], [time]];
  }

  /** Whether an area lies on a cut line other than that of `own`, or so near to it that it would seem to be its. */
  liesOnAnother([x0, y0, x1, y1], own) {
    const { level, place } = this;
    const [left, top] = this.toWorld(x0 - CLEAR, y0 - CLEAR);
    const [right, bottom] = this.toWorld(x1 + CLEAR, y1 + CLEAR);
    const { bounds } = place;
    for (const e of level.cut) {
      if (e === own || bounds[4 * e] > right || bounds[4 * e + 2] < left || bounds[4 * e + 1] > bottom || bounds[4 * e + 3] < top) continue;
      const route = this.routeOf(e);
      for (let i = 0; i + 3 < route.length; i += 2) {
        if (crosses(left, top, right, bottom, route[i], route[i + 1], route[i + 2], route[i + 3])) return true;
      }
    }
    return false;
  }

  /** The part of a box's area that its name takes. */
  nameBand([x0, y0, x1, y1, isMixed]) {
    if (isMixed || this.isCoarse()) return [x0, y0, x1, y1];
    const [middle, half] = [(y0 + y1) / 2, 0.58 * (this.textSize ?? 12)];
    return [x0, Math.max(y0, middle - half), x1, Math.min(y1, middle + half)];
  }

  /** Where the cost of an edge may stand, [x, y, {liesOn}], the best first: beside and on its longest piece, then at others. */
  costSpots(e, halfWidth, height) {
    const route = this.routeOf(e);
    const pieces = [];
    for (let i = 0; i + 3 < route.length; i += 2) {
      const [x0, y0] = this.toScreen(route[i], route[i + 1]);
      const [x1, y1] = this.toScreen(route[i + 2], route[i + 3]);
      pieces.push({ x0, y0, x1, y1, length: Math.hypot(x1 - x0, y1 - y0) });
    }
    pieces.sort((a, b) => b.length - a.length);
    const spots = [];
    const half = this.cutWidth(e, this.view.scale) / 2;
    for (const { x0, y0, x1, y1, length } of pieces) {
      const isFlat = Math.abs(y1 - y0) < 0.1 * Math.abs(x1 - x0);
      const isSteep = Math.abs(x1 - x0) < 0.5 * Math.abs(y1 - y0);
      // A short line would vanish under its label: put that beside it.
      const isShort = (isFlat && length < 2 * halfWidth + 40) || (isSteep && length < height + 42);
      // Between two neighbours there may be no room at their height, but in the gap above or below them.
      const gap = (this.level.boxHeight * this.view.scale) / 2 + height / 2 + 2;
      const off = height / 2 + half + 1;
      // Lines back have theirs below, so that a pair of lines has one on either side.
      const first = x1 < x0 ? off : -off;
      const away = halfWidth + half + 2;
      const beside = isFlat ? [[0, first], [0, -first]] : [[away, 0], [-away, 0]];
      const offsets = [...beside, ...(isShort && isFlat ? [[0, -gap], [0, gap]] : []), [0, 0, { liesOn: true }]];
      for (const share of length > 80 ? [0.5, 0.3, 0.7] : [0.5]) {
        for (const [dx, dy, how] of offsets) spots.push([x0 + share * (x1 - x0) + dx, y0 + share * (y1 - y0) + dy, how]);
      }
    }
    return spots;
  }

  /** Where the time of a seam may stand: [x, y, {isInside}], in the box behind the name, else around it. */
  seamSpots(ctx, { box }, halfWidth, height) {
    const { scale } = this.view;
    const [cx, cy] = this.toScreen(this.place.x[box], this.place.y[box]);
    const [width, tall] = [this.level.boxWidth * scale, this.level.boxHeight * scale];
    const room = tall - this.stripeHeight(tall);
    const { font } = ctx;
    ctx.font = `${this.nameSize(room)}px ${this.store.theme.font}`;
    const name = ctx.measureText(this.level.boxes.label[box]).width;
    ctx.font = font;
    const spots = [];
    if (room >= height - 2 && name + 2 * halfWidth + 14 < width) {
      spots.push([cx + width / 2 - halfWidth - 2, cy - tall / 2 + room / 2, { isInside: true }]);
    }
    const [beyond, beside] = [tall / 2 + height / 2 + 1, width / 2 + halfWidth + 2];
    return [...spots, [cx, cy + beyond], [cx, cy - beyond], [cx + beside, cy], [cx - beside, cy]];
  }
}

/** Whether a straight line passes through a rectangle. */
function crosses(left, top, right, bottom, x0, y0, x1, y1) {
  // Clip the line by the four sides in turn (Liang and Barsky, 1984).
  let [from, to] = [0, 1];
  for (const [start, change, low, high] of [[x0, x1 - x0, left, right], [y0, y1 - y0, top, bottom]]) {
    if (change === 0) {
      if (start < low || start > high) return false;
      continue;
    }
    const [a, b] = [(low - start) / change, (high - start) / change];
    from = Math.max(from, Math.min(a, b));
    to = Math.min(to, Math.max(a, b));
  }
  return from <= to;
}
