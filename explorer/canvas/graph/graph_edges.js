/* The edges of the graph: those within a device thin, cut ones in the colour of transfers, wide as they are dear, with
   what they cost beside them where there is room. */

import { formatBytes, formatMove } from "../kit/quantities.js";
import { MAX_FIT_SCALE, ZoomableGraph } from "./graph_view.js";

/** How strongly things out of focus are drawn. */
export const FADE = 0.22;
const STROKE_BATCH = 150;
const FEW_CUTS = 10;
const LINE_STEP = 12;

export class EdgePainter extends ZoomableGraph {
  /** The corner points of an edge; a straight line while boxes move from place to place. */
  routeOf(e) {
    const { place } = this;
    if (place.routes) return place.routes[e];
    const { source, target } = this.level.edges;
    return [place.x[source[e]], place.y[source[e]], place.x[target[e]], place.y[target[e]]];
  }

  isEdgeVisible(e) {
    const { left, top, right, bottom } = this.visible;
    const { bounds } = this.place;
    if (!bounds) return true;
    return bounds[4 * e] <= right && bounds[4 * e + 2] >= left && bounds[4 * e + 1] <= bottom && bounds[4 * e + 3] >= top;
  }

  drawUncut(ctx, scale, focus) {
    const { level, store } = this;
    ctx.save();
    this.useWorld(ctx);
    ctx.lineWidth = Math.min(1.3, Math.max(0.55, scale)) / scale;
    ctx.strokeStyle = focus.boxes === null ? store.theme.line : store.theme.faintLine;
    let inBatch = 0;
    ctx.beginPath();
    for (const e of level.uncut) {
      if (!this.isEdgeVisible(e)) continue;
      trace(ctx, this.routeOf(e), scale);
      // One giant path is far slower to stroke than many small ones.
      inBatch += 1;
      if (inBatch === STROKE_BATCH) {
        ctx.stroke();
        ctx.beginPath();
        inBatch = 0;
      }
    }
    ctx.stroke();
    if (scale > 0.6) {
      ctx.fillStyle = ctx.strokeStyle;
      for (const e of level.uncut) if (this.isEdgeVisible(e)) arrowHead(ctx, this.routeOf(e), 4.5, scale);
    }
    if (focus.box >= 0) {
      ctx.strokeStyle = ctx.fillStyle = store.theme.ink;
      ctx.lineWidth = 1.6 / scale;
      ctx.beginPath();
      const mine = level.uncut.filter((e) => focus.edges[e] === 1);
      for (const e of mine) trace(ctx, this.routeOf(e), scale);
      ctx.stroke();
      for (const e of mine) arrowHead(ctx, this.routeOf(e), 5, scale);
    }
    ctx.restore();
  }

  /** Pixels: wide enough to stand out, growing with the root of the cost so that small cuts do not vanish. */
  cutWidth(e, scale) {
    const share = this.level.maxCutMs > 0 ? this.level.edges.cutMs[e] / this.level.maxCutMs : 0;
    const zoom = Math.min(1.15, Math.max(0.5, scale));
    return (1.1 + 4.5 * Math.sqrt(share)) * zoom;
  }

  drawCut(ctx, scale, focus) {
    const { level, store } = this;
    const { background, palette } = store.theme;
    const halo = level.cut.length <= 250;
    ctx.save();
    this.useWorld(ctx);
    ctx.lineJoin = "round";
    for (const e of level.cut) {
      if (!this.isEdgeVisible(e)) continue;
      const width = this.cutWidth(e, scale);
      ctx.globalAlpha = this.isEdgeInFocus(e, focus) ? 1 : FADE;
      if (halo) {
        ctx.strokeStyle = background;
        ctx.lineWidth = (width + 2.4) / scale;
        ctx.beginPath();
        trace(ctx, this.routeOf(e), scale);
        ctx.stroke();
      }
      ctx.strokeStyle = ctx.fillStyle = palette.transfer;
      ctx.lineWidth = width / scale;
      ctx.beginPath();
      trace(ctx, this.routeOf(e), scale);
      ctx.stroke();
      if (scale > 0.35) arrowHead(ctx, this.routeOf(e), Math.max(5, width * 1.5), scale);
    }
    ctx.restore();
  }

  isEdgeInFocus(e, focus) {
    return focus.edges === null || focus.edges[e] === 1;
  }

  /** Costs on cut edges, most expensive first, where they cover neither a name nor another cost. */
  drawCosts(ctx, scale, focus) {
    const { level, store } = this;
    const isAsked = focus.box >= 0 || focus.edge >= 0 || focus.kind === "tensor";
    const isFew = level.cut.length <= FEW_CUTS;
    if (this.morph) return;
    if (!isAsked && scale < (isFew ? 0.3 : 0.5)) return;
    // Costs that do not matter would only cover the picture; a question or a closer look brings them out.
    const least = isAsked || this.isCoarse() || scale > MAX_FIT_SCALE ? 0 : 0.02 * level.maxCutMs;
    ctx.font = `600 10.5px ${store.theme.font}`;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    const taken = [];
    const names = this.shownBoxes.map((box) => this.nameBand(box));
    const { cutMs, showsCost } = level.edges;
    // What costs nothing more is said last, and only when asked.
    const others = isAsked ? level.cut.filter((e) => !showsCost[e]) : [];
    for (const e of [...level.cut.filter((e) => showsCost[e] && cutMs[e] >= least).reverse(), ...others]) {
      if (taken.length >= 120) break;
      if (!this.isEdgeVisible(e) || !this.isEdgeInFocus(e, focus)) continue;
      const lines = this.costLines(e);
      const halfWidth = Math.max(...lines.map((line) => ctx.measureText(line).width)) / 2 + 4;
      const height = lines.length * LINE_STEP + 2;
      const fits = ([cx, cy], obstacles) => {
        const area = [cx - halfWidth, cy - height / 2, cx + halfWidth, cy + height / 2];
        const isInside = area[0] > 0 && area[1] > 0 && area[2] < this.surface.width && area[3] < this.surface.height;
        return isInside && !overlapsAny(area, taken) && !overlapsAny(area, obstacles) && area;
      };
      let place = null;
      const spots = this.costSpots(e, halfWidth, height);
      for (const obstacles of [this.shownBoxes, names]) {
        place ??= spots.map((spot) => fits(spot, obstacles)).find(Boolean) ?? null;
      }
      if (!place) continue;
      taken.push(place);
      ctx.fillStyle = store.theme.background;
      ctx.globalAlpha = 0.92;
      ctx.beginPath();
      ctx.roundRect(place[0], place[1], 2 * halfWidth, height, 4);
      ctx.fill();
      ctx.globalAlpha = 1;
      ctx.fillStyle = store.theme.palette.transfer;
      lines.forEach((line, k) => ctx.fillText(line, (place[0] + place[2]) / 2, place[1] + 1 + (k + 0.5) * LINE_STEP + 0.5));
    }
  }

  /** What stands on a cut edge, line by line; the further edges of one tensor to one device cost nothing more. */
  costLines(e) {
    const { cutBytes, sendMs, receiveMs, showsCost } = this.level.edges;
    if (!showsCost[e]) return ["same tensor"];
    const time = formatMove(sendMs[e], [receiveMs[e]]);
    // Between stages and devices there is room for the size as well.
    return this.isCoarse() && cutBytes[e] !== null ? [time, formatBytes(cutBytes[e])] : [time];
  }

  /** The part of a box's area that its name takes. */
  nameBand([x0, y0, x1, y1, isMixed]) {
    if (isMixed || this.isCoarse()) return [x0, y0, x1, y1];
    const [middle, half] = [(y0 + y1) / 2, 0.58 * (this.textSize ?? 12)];
    return [x0, Math.max(y0, middle - half), x1, Math.min(y1, middle + half)];
  }

  /** Where the cost of an edge may stand, the best first: on its longest piece, then on others and beside them. */
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
    for (const { x0, y0, x1, y1, length } of pieces) {
      const isFlat = Math.abs(y1 - y0) < 0.1 * Math.abs(x1 - x0);
      const isSteep = Math.abs(x1 - x0) < 0.5 * Math.abs(y1 - y0);
      // A short line would vanish under its label: put that beside it.
      const isShort = (isFlat && length < 2 * halfWidth + 40) || (isSteep && length < height + 42);
      // Between two neighbours there may be no room at their height, but in the gap above or below them.
      const gap = (this.level.boxHeight * this.view.scale) / 2 + height / 2 + 2;
      const off = height / 2 + 6;
      // Lines back have theirs below, so that a pair of lines has one on either side.
      const first = x1 < x0 ? off : -off;
      const beside = isFlat ? [[0, first], [0, -first]] : [[halfWidth + 6, 0], [-halfWidth - 6, 0]];
      const offsets = isShort ? [...beside, ...(isFlat ? [[0, -gap], [0, gap]] : []), [0, 0]] : [[0, 0], ...beside];
      for (const share of length > 80 ? [0.5, 0.3, 0.7] : [0.5]) {
        for (const [dx, dy] of offsets) spots.push([x0 + share * (x1 - x0) + dx, y0 + share * (y1 - y0) + dy]);
      }
    }
    return spots;
  }

  cutEdgeAt(px, py) {
    const { level, view } = this;
    if (!view || this.morph || level.cut.length > 1500) return -1;
    const [wx, wy] = this.toWorld(px, py);
    const reach = 5 / view.scale;
    for (let k = level.cut.length - 1; k >= 0; k -= 1) {
      const e = level.cut[k];
      const [x0, y0, x1, y1] = this.place.bounds.subarray(4 * e, 4 * e + 4);
      if (wx < x0 - reach || wx > x1 + reach || wy < y0 - reach || wy > y1 + reach) continue;
      const route = this.routeOf(e);
      for (let i = 0; i + 3 < route.length; i += 2) {
        if (distanceToSegment(wx, wy, route[i], route[i + 1], route[i + 2], route[i + 3]) < reach) return e;
      }
    }
    return -1;
  }
}

/** Add a route to the path, with round corners where they can be seen. */
function trace(ctx, route, scale) {
  ctx.moveTo(route[0], route[1]);
  const n = route.length;
  if (n > 4 && scale > 0.4) {
    for (let i = 2; i < n - 2; i += 2) {
      const before = Math.hypot(route[i] - route[i - 2], route[i + 1] - route[i - 1]);
      const after = Math.hypot(route[i + 2] - route[i], route[i + 3] - route[i + 1]);
      ctx.arcTo(route[i], route[i + 1], route[i + 2], route[i + 3], Math.min(7, before / 2, after / 2));
    }
  } else {
    for (let i = 2; i < n - 2; i += 2) ctx.lineTo(route[i], route[i + 1]);
  }
  ctx.lineTo(route[n - 2], route[n - 1]);
}

/** Fill a triangle of `size` pixels at the end of a route. */
function arrowHead(ctx, route, size, scale) {
  const n = route.length;
  const [x, y] = [route[n - 2], route[n - 1]];
  const length = Math.hypot(x - route[n - 4], y - route[n - 3]) || 1;
  const [dx, dy] = [(x - route[n - 4]) / length, (y - route[n - 3]) / length];
  const s = Math.min(size / scale, 9);
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(x - dx * s - dy * s * 0.5, y - dy * s + dx * s * 0.5);
  ctx.lineTo(x - dx * s + dy * s * 0.5, y - dy * s - dx * s * 0.5);
  ctx.fill();
}

function overlapsAny(area, others) {
  return others.some((other) => area[0] < other[2] && area[2] > other[0] && area[1] < other[3] && area[3] > other[1]);
}

function distanceToSegment(px, py, x1, y1, x2, y2) {
  const [dx, dy] = [x2 - x1, y2 - y1];
  const t = Math.max(0, Math.min(1, ((px - x1) * dx + (py - y1) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(px - x1 - t * dx, py - y1 - t * dy);
}
