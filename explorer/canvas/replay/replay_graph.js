/* Replay in the graph: nodes of a running stage light up one after the other, tensors travel along the cut edges.

   A tensor goes half of its way while it is sent, waits in host memory in the middle, and goes the other half while it
   is received. Every mark has the colour and the number of its micro-batch. */

import { areaOfText, overlapsAny } from "../kit/areas.js";
import { SLOT_COMPUTE } from "../kit/contract.js";
import { edgesOfLevel } from "../data/links.js";
import { nodesReached } from "./replay_state.js";
import { prefersCalm } from "./replay.js";

const MOST_EDGES = 2;
/** Pixels: the radius of the number at a box, and of one on its way; a row of those that wait has steps of GAP. */
const BADGE = [10, 13];
const TOKEN = 8;
const GAP = 2 * TOKEN + 1;
/** Pixels: lower boxes have no frame round them but are filled; they bear no label. */
const SMALL_BOX = 8;
/** Pixels: the frames of lower boxes do not say how far they are. */
const ROOMY_BOX = 26;
/** Where tensors wait on more edges than this, only the first of each edge is drawn. */
const MANY_WAITING = 24;
/** How far along its edge a tensor may give way to a label, in shares of the edge's length. */
const GIVE_WAY = [0, ...[1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 26, 30].flatMap((k) => [-0.02 * k, 0.02 * k])];

export class ReplayGraph {
  constructor(store, graph, shared) {
    Object.assign(this, { store, graph, shared });
    this.isOn = false;
    this.edges = null;
    /** Areas of what was drawn last. */
    this.drawn = [];
  }

  /** The compute times of each stage's nodes, in their order. */
  prepare() {
    const { arrays } = this.store.data;
    const ends = arrays["stage.node_end"];
    this.nodeMs = this.store.links.stages.map((_, s) => arrays["stage.node_ms"].subarray(s === 0 ? 0 : ends[s - 1], ends[s]));
    this.edges = null;
  }

  /** Show the moment of the playhead, or nothing when there is none. */
  show() {
    const { replay } = this.shared;
    if (!this.store.data?.graph || !this.nodeMs) return;
    if (!replay.isOn) {
      if (this.isOn) {
        this.graph.setReplay(null);
        this.graph.overlay(null);
      }
      this.isOn = false;
      return;
    }
    this.isOn = true;
    this.graph.setReplay({ lit: this.litNodes(replay.state) });
    this.graph.overlay((ctx, place) => this.draw(ctx, place));
  }

  /** Node -> {colour} of all that are lit; `this.fronts` has the last one of each stage. */
  litNodes(state) {
    const lit = new Map();
    this.fronts = [];
    for (const { kind, stage, microBatch, share } of state.running) {
      if (kind !== SLOT_COMPUTE) continue;
      const nodes = this.store.links.nodesOfStage[stage];
      if (!nodes.length) continue;
      const reached = Math.max(1, nodesReached(this.nodeMs[stage], share));
      const { fill } = this.shared.microBatchFill(microBatch);
      for (let k = 0; k < reached; k += 1) lit.set(nodes[k], { colour: fill });
      this.fronts.push({ node: nodes[reached - 1], microBatch, stage, share, reached });
    }
    return lit;
  }

  /** Draw the moment over the boxes; nothing of it lies on a text that is written on them. */
  draw(ctx, { boxRect }) {
    this.drawn = [];
    this.drawGlow(ctx, boxRect);
    const frames = this.drawn;
    this.drawn = []; // a number may lie on the frame of another box
    for (const { node, microBatch } of this.fronts) this.badgeAtBox(ctx, boxRect(node), microBatch);
    this.numNumbers = this.drawn.length;
    this.drawn.push(...frames);
    this.drawTensors(ctx);
  }

  /** A frame in the colour of the micro-batch round what it has reached, and in its lower side, where there is room, how
      far it is through that; boxes too small for a frame are filled. */
  drawGlow(ctx, boxRect) {
    const { theme } = this.store;
    for (const front of this.fronts) {
      const { fill } = this.shared.microBatchFill(front.microBatch);
      for (const [node, through] of this.progress(front)) {
        const { x, y, width, height } = boxRect(node);
        ctx.fillStyle = ctx.strokeStyle = fill;
        if (height < SMALL_BOX) {
          ctx.fillRect(x - 1, y - 1, Math.max(2, width) + 2, Math.max(2, height) + 2);
          continue;
        }
        ctx.lineWidth = Math.min(4, Math.max(2, 0.15 * height));
        const gap = 0.5 + ctx.lineWidth / 2;
        ctx.beginPath();
        ctx.roundRect(x - gap, y - gap, width + 2 * gap, height + 2 * gap, Math.min(8, height * 0.3));
        ctx.stroke();
        if (height < ROOMY_BOX) continue;
        this.drawn.push([x - 4.5, y + height + 0.5, x + width + 4.5, y + height + 9.5]);
        ctx.beginPath();
        ctx.roundRect(x - 4.5, y + height + 0.5, width + 9, 9, 4);
        ctx.fill();
        ctx.fillStyle = theme.background;
        ctx.fillRect(x + width * through, y + height + 2.5, width * (1 - through), 5);
      }
    }
  }

  /** For each box that a running stage has reached one of its nodes, and how much of the stage's work in it is done. */
  progress({ stage, share, reached }) {
    const nodes = this.store.links.nodesOfStage[stage];
    const times = this.nodeMs[stage];
    const { boxOfNode } = this.store.level;
    const whole = times.reduce((sum, ms) => sum + ms, 0);
    const work = (k) => (whole > 0 ? times[k] / whole : 1 / nodes.length);
    const boxes = new Map();
    let left = share;
    for (let k = 0; k < nodes.length; k += 1) {
      const box = boxOfNode[nodes[k]];
      if (k < reached && !boxes.has(box)) boxes.set(box, { node: nodes[k], all: 0, done: 0 });
      const entry = boxes.get(box);
      if (entry) {
        entry.all += work(k);
        entry.done += Math.max(0, Math.min(left, work(k)));
      }
      left -= work(k);
    }
    return [...boxes.values()].map(({ node, all, done }) => [node, all > 0 ? Math.min(1, done / all) : 1]);
  }

  /** The number of the micro-batch at a corner of its box, where it covers no text; the colour of the frame is enough
      where there is no such place. */
  badgeAtBox(ctx, { x, y, width, height }, microBatch) {
    const radius = Math.max(BADGE[0], Math.min(BADGE[1], 0.45 * height));
    const half = this.halfWidth(radius, microBatch);
    const across = [x + width + half - 0.55 * radius, x - half + 0.55 * radius];
    const up = [y - 0.3 * radius, y + height + 0.3 * radius];
    const corners = up.flatMap((cy) => across.map((cx) => [this.withinCanvas(cx, half), cy]));
    const place = corners.find(([cx, cy]) => this.isFree(this.areaOfBadge(cx, cy, radius, microBatch)));
    if (place) this.badge(ctx, ...place, radius, microBatch);
  }

  withinCanvas(x, half) {
    return Math.max(half + 1, Math.min(this.graph.surface.width - half - 1, x));
  }

  halfWidth(radius, microBatch) {
    return Math.max(radius, radius * (0.55 + 0.3 * String(microBatch).length));
  }

  areaOfBadge(x, y, radius, microBatch) {
    const half = this.halfWidth(radius, microBatch);
    return [x - half, y - radius, x + half, y + radius];
  }

  /** Whether an area covers no text of a box and no other mark. */
  isFree(area) {
    return !overlapsAny(area, this.graph.writtenAreas) && !overlapsAny(area, this.drawn);
  }

  badge(ctx, x, y, radius, microBatch) {
    const { fill, text } = this.shared.microBatchFill(microBatch);
    const half = this.halfWidth(radius, microBatch);
    this.drawn.push(this.areaOfBadge(x, y, radius, microBatch));
    ctx.beginPath();
    ctx.roundRect(x - half, y - radius, 2 * half, 2 * radius, radius);
    ctx.fillStyle = fill;
    ctx.fill();
    ctx.lineWidth = 2;
    ctx.strokeStyle = this.store.theme.background;
    ctx.stroke();
    ctx.font = `700 ${Math.round(radius * 1.15)}px ${this.store.theme.font}`;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    ctx.fillStyle = text;
    ctx.fillText(String(microBatch), x, y + 0.5);
  }

  /** Tokens on the cut edges; those that wait at the same place are counted. */
  drawTensors(ctx) {
    const edgesOf = this.edgesOfPairs();
    const { moments, timeMs } = this.shared.replay;
    const waiting = new Map();
    for (const tensor of moments.tensorsAt(timeMs)) {
      for (const edge of edgesOf.get(tensor.from * moments.stages.length + tensor.to) ?? []) {
        if (tensor.phase === "wait") {
          waiting.set(edge, [...(waiting.get(edge) ?? []), tensor.microBatch]);
          continue;
        }
        const position = prefersCalm() ? (tensor.phase === "send" ? 0.25 : 0.75) : tensor.position;
        this.row(ctx, edge, position, [tensor.microBatch], 0);
      }
    }
    for (const [edge, microBatches] of waiting) {
      microBatches.sort((a, b) => a - b);
      const most = waiting.size > MANY_WAITING ? 1 : 3;
      // A shorter row has room where a longer one would lie on a name.
      for (let count = Math.min(most, microBatches.length); count > 0; count -= 1) {
        if (this.row(ctx, edge, 0.5, microBatches.slice(0, count), microBatches.length - count)) break;
      }
    }
  }

  /** Draw tokens side by side on an edge, and how many more there are, as near to a share of its length as they cover no
      text and no other mark; tell whether there was such a place. */
  row(ctx, edge, position, microBatches, more) {
    ctx.font = `600 10px ${this.store.theme.font}`;
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    const note = more ? `+${more}` : "";
    const [first, last] = [microBatches[0], microBatches.at(-1)];
    const reach = (GAP * (microBatches.length - 1)) / 2;
    for (const shift of GIVE_WAY) {
      if (position + shift < 0 || position + shift > 1) continue;
      const [x, y] = this.pointOn(edge, position + shift);
      const area = [x - reach - this.halfWidth(TOKEN, first), y - TOKEN, x + reach + this.halfWidth(TOKEN, last), y + TOKEN];
      const noteAt = [area[2] + 2, y];
      if (note) area[2] = areaOfText(ctx, note, ...noteAt)[2];
      if (!this.isFree(area)) continue;
      if (note) {
        ctx.fillStyle = this.store.theme.ink;
        ctx.fillText(note, ...noteAt);
      }
      microBatches.forEach((m, k) => this.badge(ctx, x - reach + k * GAP, y, TOKEN - (microBatches.length > 1 || more ? 1 : 0), m));
      this.drawn.push(area);
      return true;
    }
    return false;
  }

  /** For each pair of stages (from x number of stages + to) the edges of the level that stand for it, the dearest. */
  edgesOfPairs() {
    const { level, links } = this.store;
    if (this.edges?.level === level) return this.edges.of;
    const drawn = edgesOfLevel(level, links.edgeSource, links.edgeTarget);
    const of = new Map();
    for (let e = 0; e < drawn.length; e += 1) {
      if (drawn[e] < 0 || !links.isCut(e)) continue;
      for (const from of links.stagesOfNode[links.edgeSource[e]]) {
        for (const to of links.stagesOfNode[links.edgeTarget[e]]) {
          const key = from * links.stages.length + to;
          if (!of.has(key)) of.set(key, new Set());
          of.get(key).add(drawn[e]);
        }
      }
    }
    const cost = (edge) => level.edges.cutMs[edge] ?? 0;
    for (const [key, edges] of of) of.set(key, [...edges].sort((a, b) => cost(b) - cost(a)).slice(0, MOST_EDGES));
    this.edges = { level, of };
    return of;
  }

  /** The point on the canvas at a share of the length of an edge. */
  pointOn(edge, share) {
    const route = this.graph.routeOf(edge);
    let length = 0;
    for (let i = 0; i + 3 < route.length; i += 2) length += Math.hypot(route[i + 2] - route[i], route[i + 3] - route[i + 1]);
    let left = share * length;
    for (let i = 0; i + 3 < route.length; i += 2) {
      const piece = Math.hypot(route[i + 2] - route[i], route[i + 3] - route[i + 1]);
      if (left <= piece && piece > 0) {
        const part = left / piece;
        return this.graph.toScreen(route[i] + part * (route[i + 2] - route[i]), route[i + 1] + part * (route[i + 3] - route[i + 1]));
      }
      left -= piece;
    }
    return this.graph.toScreen(route.at(-2), route.at(-1));
  }
}
