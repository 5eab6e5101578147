/* How every quantity is written for people: a copy of solvers/quantities.py, which says why; one test runs both. */

const UNKNOWN = "–";
const DIGITS = 4;
export const AS_GIVEN = 12;
const LEAST_FIXED = -6;
const MOST_FIXED = 15;
const LEAST_MS = 1e-6;
const LEAST_SHARE = 1e-6;
const BINARY_UNITS = [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]];
const LEAST_OF_A_UNIT = 1e-3;
const FLOP_UNITS = [["PFLOP", 1e15], ["TFLOP", 1e12], ["GFLOP", 1e9], ["MFLOP", 1e6], ["kFLOP", 1e3]];

const isUnknown = (value) => value === null || value === undefined;
const grouped = (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ",");
const trimmed = (text) => (text.includes(".") ? text.replace(/\.?0*$/, "") : text);

/** Write a number without a unit. */
export function formatNumber(value, digits = DIGITS) {
  if (isUnknown(value)) return UNKNOWN;
  if (Number.isNaN(value)) return "not a number";
  const magnitude = Number.isFinite(value) ? magnitudeText(Math.abs(value), digits) : "∞";
  return value < 0 ? `−${magnitude}` : magnitude;
}

function magnitudeText(value, digits) {
  if (value >= 10 ** digits - 0.5 && value < 10 ** MOST_FIXED) return grouped(value.toFixed(0));
  const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
  const power = Number(exponent);
  if (value !== 0 && (power < LEAST_FIXED || power >= MOST_FIXED)) return `${trimmed(mantissa)}e${power}`;
  const figures = mantissa.replace(".", "");
  if (power < 0) return trimmed(`0.${"0".repeat(-power - 1)}${figures}`);
  const whole = grouped(figures.slice(0, power + 1).padEnd(power + 1, "0"));
  return trimmed(`${whole}.${figures.slice(power + 1)}`);
}

/** Say that a value other than zero is nearer to it than `text`, the least that is written; null if it is not. */
function nearZero(value, least, text) {
  if (value === 0 || !(Math.abs(value) < least)) return null;
  return value > 0 ? `<${text}` : `>−${text}`;
}

/** Write a time of a plan. */
export function formatMs(ms) {
  if (isUnknown(ms)) return UNKNOWN;
  return `${nearZero(ms, LEAST_MS, "0.000001") ?? formatNumber(ms)} ms`;
}

/** Write what a transfer takes at its ends: once, with `evenly` behind it, where all take as long, else both times.

    CPUs take no time and are not named. */
export function formatMove(sendMs, receiveMs, evenly = "") {
  const sent = sendMs > 0 ? [formatMs(sendMs)] : [];
  const received = [...new Set(receiveMs.filter((ms) => ms > 0).sort((a, b) => a - b).map(formatMs))];
  const [first] = [...sent, ...received, formatMs(0)];
  if (new Set([...sent, ...received]).size <= 1) return first + evenly;
  const into = received.length === 1 ? received[0] : `${received[0]} to ${received.at(-1)}`;
  return sent.length ? `send ${sent[0]}, receive ${into}` : `receive ${into}`;
}

/** Write a share, none and all apart from nearly so. */
export function formatPercent(share) {
  if (isUnknown(share)) return UNKNOWN;
  if (Math.abs(share) <= LEAST_SHARE) return "0 %";
  if (Math.abs(share) >= 0.9995 && Math.abs(share) < 1) return share > 0 ? ">99.9 %" : "<−99.9 %";
  return `${nearZero(share, 5e-4, "0.05") ?? formatNumber(100 * share, 3)} %`;
}

/** Write a size in the unit that keeps it readable, or in a given one if it has a thousandth of it or is zero. */
export function formatBytes(bytes, unit = null) {
  if (isUnknown(bytes)) return UNKNOWN;
  const isTooSmall = bytes !== 0 && Math.abs(bytes) < LEAST_OF_A_UNIT * bytesIn(unit);
  const chosen = isTooSmall ? null : unit;
  for (const [name, factor] of BINARY_UNITS) {
    if (name === chosen || (chosen === null && Math.abs(bytes) >= factor)) return `${formatNumber(bytes / factor)} ${name}`;
  }
  return `${nearZero(bytes, 1, "1") ?? formatNumber(bytes)} B`;
}

/** The unit of sizes that are compared with each other: that of the largest. */
export function binaryUnit(sizes) {
  const largest = sizes.reduce((most, size) => (isUnknown(size) ? most : Math.max(most, Math.abs(size))), 0);
  return BINARY_UNITS.find(([, factor]) => largest >= factor)?.[0] ?? "B";
}

/** How many bytes a unit has. */
export function bytesIn(unit) {
  return BINARY_UNITS.find(([name]) => name === unit)?.[1] ?? 1;
}

/** Write a number of floating-point operations. */
export function formatFlops(flops) {
  if (isUnknown(flops)) return UNKNOWN;
  const [name, factor] = FLOP_UNITS.find(([, least]) => Math.abs(flops) >= least) ?? ["FLOP", 1];
  return `${formatNumber(flops / factor)} ${name}`;
}

/** Write a whole number of things, all of it. */
export function formatCount(value) {
  return value < 0 ? `−${grouped(String(-value))}` : grouped(String(value));
}
