/* Replay in the graph: nodes of a running stage light up one after the other, tensors travel along the cut edges.

   A tensor goes half of its way while it is sent, waits in host memory in the middle, and goes the other half while it
   is received. Every mark has the colour and the number of its micro-batch. */

import { SLOT_COMPUTE } from "../kit/contract.js";
import { edgesOfLevel } from "../data/links.js";
import { nodesReached } from "./replay_state.js";
import { prefersCalm } from "./replay.js";

const MOST_EDGES = 2;
const BADGE = 10;
const TOKEN = 8;
/** Pixels: lower boxes have no room for a frame round them. */
const SMALL_BOX = 16;
/** Pixels: lower boxes have no room below their name. */
const ROOMY_BOX = 26;
/** Where tensors wait on more edges than this, only the first of each edge is drawn. */
const MANY_WAITING = 24;

export class ReplayGraph {
  constructor(store, graph, shared) {
    Object.assign(this, { store, graph, shared });
    this.isOn = false;
    this.edges = null;
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

  draw(ctx, { boxRect }) {
    this.drawGlow(ctx, boxRect);
    this.drawTensors(ctx);
    for (const { node, microBatch } of this.fronts) {
      const { x, y, width, height } = boxRect(node);
      this.badge(ctx, x + width, y, Math.max(BADGE, Math.min(13, height * 0.45)), microBatch);
    }
  }

  /** A frame in the colour of the micro-batch round what it has reached, and at its foot, where there is room, how far
      it is through that; boxes too small for a frame are filled. */
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
        ctx.lineWidth = 4;
        ctx.beginPath();
        ctx.roundRect(x - 3, y - 3, width + 6, height + 6, Math.min(8, height * 0.3));
        ctx.stroke();
        if (height < ROOMY_BOX) continue;
        const tall = Math.max(3, Math.min(8, height * 0.12));
        ctx.fillStyle = theme.background;
        ctx.fillRect(x, y + height - tall - 1, width, tall + 1);
        ctx.fillStyle = fill;
        ctx.fillRect(x, y + height - tall, width * through, tall);
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

  badge(ctx, x, y, radius, microBatch) {
    const { fill, text } = this.shared.microBatchFill(microBatch);
    const label = String(microBatch);
    const half = Math.max(radius, radius * 0.55 + label.length * radius * 0.3);
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
    ctx.fillText(label, x, y + 0.5);
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
        const [x, y] = this.pointOn(edge, position);
        this.badge(ctx, x, y, TOKEN, tensor.microBatch);
      }
    }
    for (const [edge, microBatches] of waiting) {
      const [x, y] = this.pointOn(edge, 0.5);
      microBatches.sort((a, b) => a - b);
      const shown = microBatches.slice(0, waiting.size > MANY_WAITING ? 1 : 3);
      shown.forEach((m, k) => this.badge(ctx, x + (k - (shown.length - 1) / 2) * (TOKEN * 2 + 1), y, TOKEN - 1, m));
      if (microBatches.length <= shown.length) continue;
      ctx.fillStyle = this.store.theme.ink;
      ctx.font = `600 10px ${this.store.theme.font}`;
      ctx.textAlign = "left";
      ctx.fillText(`+${microBatches.length - shown.length}`, x + (shown.length / 2) * (TOKEN * 2 + 4) + 4, y);
    }
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
