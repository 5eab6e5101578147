/* The edges of the graph: those within a device thin, cut ones in the colour of transfers, the wider the more they cost.
   What they cost is written by graph_costs.js. */

import { ZoomableGraph } from "./graph_view.js";

/** How strongly things out of focus are drawn. */
export const FADE = 0.22;
const STROKE_BATCH = 150;

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

function distanceToSegment(px, py, x1, y1, x2, y2) {
  const [dx, dy] = [x2 - x1, y2 - y1];
  const t = Math.max(0, Math.min(1, ((px - x1) * dx + (py - y1) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(px - x1 - t * dx, py - y1 - t * dy);
}
