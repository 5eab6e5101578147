/* Bars by lane, for questions about a moment: each lane's bars are sorted by start. Pure. */

export class BarIndex {
  /** `bars` holds the arrays lane, start and end, sorted by lane, then by start. */
  constructor(bars, numLanes) {
    this.bars = bars;
    /** Lane l has the bars from begin[l] to begin[l + 1]. */
    this.begin = new Int32Array(numLanes + 1);
    this.longest = new Float64Array(numLanes);
    for (let i = 0; i < bars.lane.length; i += 1) {
      const lane = bars.lane[i];
      this.begin[lane + 1] = i + 1;
      this.longest[lane] = Math.max(this.longest[lane], bars.end[i] - bars.start[i]);
    }
    for (let l = 1; l <= numLanes; l += 1) this.begin[l] = Math.max(this.begin[l], this.begin[l - 1]);
  }

  get numLanes() {
    return this.begin.length - 1;
  }

  /** The first bar of a lane that can reach `ms` or later. */
  first(lane, ms) {
    const from = ms - this.longest[lane];
    let [low, high] = [this.begin[lane], this.begin[lane + 1]];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.bars.start[middle] < from) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The bars of a lane that have begun at `ms` and not ended. */
  running(lane, ms) {
    const { start, end } = this.bars;
    const found = [];
    for (let i = this.first(lane, ms); i < this.begin[lane + 1] && start[i] <= ms; i += 1) if (ms < end[i]) found.push(i);
    return found;
  }

  /** The bar of a lane nearest to `ms`, no further away than `reach`; -1 for none. */
  nearest(lane, ms, reach) {
    const { start, end } = this.bars;
    let nearest = -1;
    let least = reach;
    for (let i = this.first(lane, ms - reach); i < this.begin[lane + 1] && start[i] <= ms + reach; i += 1) {
      const off = Math.max(start[i] - ms, ms - end[i], 0);
      if (off < least || (off === 0 && least === 0)) [nearest, least] = [i, off];
    }
    return nearest;
  }
}

/** The largest index at which sorted numbers are at most `value`, -1 where all are larger. */
export function lastAtMost(numbers, value, low = 0, high = numbers.length) {
  const first = low;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low > first ? low - 1 : -1;
}
