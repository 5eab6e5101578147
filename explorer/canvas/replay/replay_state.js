/* What happens at a moment of a schedule. Pure: built once from a message's bars and stages, then asked stateAt(ms).

   A bar runs from its start up to, not including, its end. A tensor between two stages is on its way to host memory
   while its sender sends, waits there until its reader receives, and is on its way down while the reader does. */

import { lastAtMost } from "../data/bar_index.js";
import { SLOT_COMPUTE, SLOT_RECEIVE, SLOT_SEND } from "../kit/contract.js";

/** Events closer together than this share of the whole are one. */
const SAME_EVENT = 1e-9;

export class ReplayState {
  /** `index` is the BarIndex of `bars`; `stages` say which others they `receivesFrom`. */
  constructor(bars, index, stages, numMicroBatches) {
    Object.assign(this, { bars, index, stages, numMicroBatches });
    const numBars = bars.lane.length;
    const [first, last] = [new Float64Array(numMicroBatches).fill(Infinity), new Float64Array(numMicroBatches).fill(-Infinity)];
    const size = stages.length * numMicroBatches;
    // When each stage starts to receive, starts to compute, has computed, and has sent, for each micro-batch.
    this.receives = new Float64Array(size).fill(NaN);
    this.computes = new Float64Array(size).fill(NaN);
    this.computed = new Float64Array(size).fill(NaN);
    this.sent = new Float64Array(size).fill(NaN);
    for (let i = 0; i < numBars; i += 1) {
      const m = bars.microBatch[i];
      const at = bars.stage[i] * numMicroBatches + m;
      first[m] = Math.min(first[m], bars.start[i]);
      last[m] = Math.max(last[m], bars.end[i]);
      if (bars.kind[i] === SLOT_RECEIVE) this.receives[at] = bars.start[i];
      else if (bars.kind[i] === SLOT_SEND) this.sent[at] = bars.end[i];
      else if (bars.kind[i] === SLOT_COMPUTE) [this.computes[at], this.computed[at]] = [bars.start[i], bars.end[i]];
    }
    for (let at = 0; at < size; at += 1) {
      if (Number.isNaN(this.receives[at])) this.receives[at] = this.computes[at];
      if (Number.isNaN(this.sent[at])) this.sent[at] = this.computed[at];
    }
    this.began = first.filter(Number.isFinite).sort();
    this.finished = last.filter(Number.isFinite).sort();
    this.wholeMs = this.finished.length ? this.finished.at(-1) : 0;
    this.pairs = stages.flatMap((stage, to) => stage.receivesFrom.map((from) => [from, to]));
  }

  /** The distinct times at which something starts or ends, in order. */
  get events() {
    if (!this.sortedEvents) {
      const { start, end } = this.bars;
      const all = new Float64Array(start.length + end.length);
      all.set(start);
      all.set(end, start.length);
      all.sort();
      const least = SAME_EVENT * Math.max(this.wholeMs, 1e-9);
      let kept = 0;
      for (const time of all) if (kept === 0 || time - all[kept - 1] > least) all[kept++] = time;
      this.sortedEvents = all.slice(0, kept);
    }
    return this.sortedEvents;
  }

  /** The time of the next event after `ms` (step 1) or the last before it (-1); the end or the beginning where there is none. */
  eventFrom(ms, step) {
    const { events } = this;
    if (!events.length) return 0;
    const least = SAME_EVENT * Math.max(this.wholeMs, 1e-9);
    if (step > 0) return events[Math.min(events.length - 1, lastAtMost(events, ms + least) + 1)];
    return events[Math.max(0, lastAtMost(events, ms - least))];
  }

  /** Which bars run at `ms`, how far each is (0 to 1), and how many micro-batches are done and in flight:
      {timeMs, running: [{bar, lane, stage, kind, microBatch, share}], numBusy, numFinished, numInFlight}. */
  stateAt(ms) {
    const { bars, index } = this;
    const running = [];
    let numBusy = 0;
    for (let lane = 0; lane < index.numLanes; lane += 1) {
      const here = index.running(lane, ms);
      if (here.length) numBusy += 1;
      for (const bar of here) {
        const share = (ms - bars.start[bar]) / (bars.end[bar] - bars.start[bar]);
        running.push({ bar, lane, stage: bars.stage[bar], kind: bars.kind[bar], microBatch: bars.microBatch[bar], share });
      }
    }
    const numFinished = lastAtMost(this.finished, ms) + 1;
    return { timeMs: ms, running, numBusy, numFinished, numInFlight: lastAtMost(this.began, ms) + 1 - numFinished };
  }

  /** Where tensors between stages are at `ms`: [{from, to, microBatch, phase, position}] with phase "send", "wait" or
      "receive" and the position on the way from sender (0) through host memory (1/2) to reader (1). */
  tensorsAt(ms) {
    const found = [];
    const count = this.numMicroBatches;
    const { receives, computes, computed, sent } = this;
    for (const [from, to] of this.pairs) {
      for (let m = 0; m < count; m += 1) {
        const [s, r] = [from * count + m, to * count + m];
        if (!(computed[s] <= ms && ms < computes[r])) continue;
        let [phase, position] = ["wait", 0.5];
        if (ms < sent[s]) [phase, position] = ["send", 0.5 * ((ms - computed[s]) / (sent[s] - computed[s]))];
        else if (ms >= receives[r]) {
          [phase, position] = ["receive", 0.5 + 0.5 * ((ms - receives[r]) / (computes[r] - receives[r]))];
        }
        found.push({ from, to, microBatch: m, phase, position });
      }
    }
    return found;
  }
}

/** How many of a stage's nodes are reached once it is through `share` of its compute time; `nodeMs` are their times. */
export function nodesReached(nodeMs, share) {
  let total = 0;
  for (const ms of nodeMs) total += ms;
  let reached = 0;
  let before = 0;
  // A node lights up when its turn begins; where no time is known all nodes take turns of equal length.
  while (reached < nodeMs.length && (total > 0 ? before / total : reached / nodeMs.length) <= share) {
    before += nodeMs[reached];
    reached += 1;
  }
  return reached;
}
