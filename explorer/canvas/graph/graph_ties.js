/* Nodes that must share a device without one feeding the other, such as tied embeddings: joined by a thin dashed line,
   always where such ties are few, else for the box in focus. */

import { CostPainter } from "./graph_costs.js";

const FEW_TIES = 24;
const LEAST_BOW = 16;
const MOST_BOW = 44;
const CURVE_STEP = 1 / 256;

export class TiePainter extends CostPainter {
  /** The ties to be seen at this level: pairs of boxes; all where they are few, else those of the box in focus. */
  shownTies(focus) {
    const { level } = this;
    level.ties ??= tiesOf(level, this.store.data.graph.ties);
    if (level.ties.length <= FEW_TIES) return level.ties;
    return focus.box < 0 ? [] : level.ties.filter((pair) => pair.includes(focus.box)).slice(0, FEW_TIES);
  }

  drawTies(ctx, scale, focus) {
    const ties = this.morph ? [] : this.shownTies(focus);
    if (!ties.length) return;
    const { theme } = this.store;
    ctx.save();
    ctx.setLineDash([5, 4]);
    ctx.lineWidth = 1.4;
    for (const [a, b] of ties) {
      const isMine = focus.box === a || focus.box === b;
      ctx.strokeStyle = isMine || focus.boxes === null ? theme.mutedInk : theme.line;
      const [x0, y0] = this.centreOf(a);
      const [x1, y1] = this.centreOf(b);
      const length = Math.hypot(x1 - x0, y1 - y0) || 1;
      // Bowed, so that it does not hide behind the boxes between the two.
      const half = ((Math.abs(x1 - x0) > Math.abs(y1 - y0) ? this.level.boxHeight : this.level.boxWidth) * scale) / 2;
      const bow = 2 * (half + Math.min(MOST_BOW, Math.max(LEAST_BOW, 0.12 * length)));
      const bend = [(x0 + x1) / 2 + ((y1 - y0) / length) * bow, (y0 + y1) / 2 - ((x1 - x0) / length) * bow];
      const between = outside([[x0, y0], bend, [x1, y1]], (this.level.boxWidth * scale) / 2, (this.level.boxHeight * scale) / 2);
      if (!between) continue;
      ctx.beginPath();
      ctx.moveTo(...between[0]);
      ctx.quadraticCurveTo(...between[1], ...between[2]);
      ctx.stroke();
    }
    ctx.restore();
  }
}

/** The part of a quadratic curve between two boxes, which it must not cross: faded, they let it show through their names. */
function outside([begin, bend, end], halfWidth, halfHeight) {
  const blossom = (s, t) => [0, 1].map((k) => (1 - s) * (1 - t) * begin[k] + (s + t - 2 * s * t) * bend[k] + s * t * end[k]);
  const isIn = (t, centre) => {
    const [x, y] = blossom(t, t);
    return Math.abs(x - centre[0]) < halfWidth && Math.abs(y - centre[1]) < halfHeight;
  };
  let [from, to] = [0, 1];
  while (from < 1 && isIn(from, begin)) from += CURVE_STEP;
  while (to > from && isIn(to, end)) to -= CURVE_STEP;
  return from < to ? [blossom(from, from), blossom(from, to), blossom(to, to)] : null;
}

/** Pairs of different boxes that hold neighbours of a tie, each pair once. */
function tiesOf(level, ties) {
  const pairs = new Map();
  for (const members of ties) {
    const boxes = [...new Set(members.map((i) => level.boxOfNode[i]))];
    for (let k = 1; k < boxes.length; k += 1) pairs.set(`${boxes[k - 1]} ${boxes[k]}`, [boxes[k - 1], boxes[k]]);
  }
  return [...pairs.values()];
}
