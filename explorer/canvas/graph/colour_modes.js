/* What the fill of a box says: its device, or how much of something it takes, on a logarithmic scale.

   The scale is anchored to the boxes that are visible, so that differences show wherever one looks. What is zero, and
   what the file does not say, have looks of their own. */

import { formatBytes, formatMs } from "../kit/quantities.js";

const MOST_DECADES = 4;
const MOST_TICKS = 5;

/** By name: title, unit, value of a box (null for unknown), how it is written, what it is said to be where it is zero. */
export const COLOUR_MODES = [
  { name: "device", title: "Device" },
  { name: "time", title: "Time", caption: "time per micro-batch", of: (boxes, i) => boxes.timeMs[i], format: formatMs, zero: "no time" },
  { name: "memory", title: "Memory", caption: "memory kept", of: (boxes, i) => boxes.memoryBytes[i], format: formatBytes, zero: "none" },
  { name: "sent", title: "Sent, time", caption: "time to send cut tensors", of: (boxes, i) => boxes.sentMs[i], format: formatMs, zero: "no time to send" },
  { name: "sentBytes", title: "Sent, size", caption: "size of cut tensors sent", of: (boxes, i) => boxes.sentBytes[i], format: formatBytes, zero: "sends nothing" },
];

/** A logarithmic scale from the least to the most of some positive values, over at most four decades. */
export class ColourScale {
  constructor(mode, values, ramp) {
    this.mode = mode;
    this.ramp = ramp.map((fill) => ({ ...fill, isUnknown: false }));
    let [low, high] = [Infinity, 0];
    for (const value of values) {
      if (!(value > 0)) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
    this.isEmpty = high === 0;
    this.isCut = low < high / 10 ** MOST_DECADES;
    this.high = high;
    this.low = this.isCut ? high / 10 ** MOST_DECADES : low;
  }

  /** Where a positive value stands on the scale, 0 to 1. */
  position(value) {
    if (this.high <= this.low) return 1;
    return Math.min(1, Math.max(0, Math.log(value / this.low) / Math.log(this.high / this.low)));
  }

  /** The fill and text colour of a positive value. */
  look(value) {
    return this.ramp[Math.round(this.position(value) * (this.ramp.length - 1))];
  }

  /** Values to write at the scale, with their positions: the ends, and powers of ten or halves and fifths of them between. */
  ticks() {
    if (this.isEmpty) return [];
    const ends = this.high > this.low ? [this.low, this.high] : [this.high];
    const between = [];
    for (let power = Math.floor(Math.log10(this.low)); power <= Math.log10(this.high); power += 1) between.push(10 ** power);
    const inside = between.filter((value) => this.position(value) > 0.17 && this.position(value) < 0.83 && this.high > this.low);
    const step = Math.ceil(inside.length / (MOST_TICKS - 2));
    return [...ends, ...inside.filter((_, i) => i % Math.max(1, step) === 0)].sort((a, b) => a - b)
      .map((value) => ({ value, position: this.position(value), text: this.mode.format(value) }));
  }

  sameAs(other) {
    return Boolean(other) && other.mode === this.mode && other.low === this.low && other.high === this.high && other.ramp === this.ramp;
  }
}
