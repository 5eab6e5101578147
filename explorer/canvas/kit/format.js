/* Numbers with units, and text that fits. Nothing here touches the page. */

/** Write a time: 3 significant digits, seconds from 10,000 ms on. */
export function formatMs(ms) {
  if (ms === null || ms === undefined) return "unknown";
  if (ms >= 10000) return `${trimZeros((ms / 1000).toPrecision(4))} s`;
  if (ms >= 100) return `${trimZeros(ms.toFixed(1))} ms`;
  if (ms > 0 && ms < 0.001) return "< 0.001 ms";
  return `${trimZeros(ms.toFixed(ms >= 10 ? 2 : 3))} ms`;
}

/** Write what a transfer takes at its ends: once, with `evenly` behind it, where all take as long, else out and in.

    CPUs take no time and are not named. */
export function formatMove(sendMs, receiveMs, evenly = "", write = formatMs) {
  const sent = sendMs > 0 ? [write(sendMs)] : [];
  const received = [...new Set(receiveMs.filter((ms) => ms > 0).sort((a, b) => a - b).map((ms) => write(ms)))];
  const [first] = [...sent, ...received, write(0)];
  if (new Set([...sent, ...received]).size <= 1) return first + evenly;
  const into = received.length === 1 ? received[0] : `${received[0]} to ${received.at(-1)}`;
  return sent.length ? `${sent[0]} out, ${into} in` : `${into} in`;
}

/** Write a size in binary units, as the rest of the app does. */
export function formatBytes(bytes) {
  if (bytes === null || bytes === undefined) return "unknown";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (bytes >= 1024 && i < units.length - 1) {
    bytes /= 1024;
    i += 1;
  }
  return `${i === 0 ? Math.round(bytes) : trimZeros(bytes.toPrecision(bytes >= 1000 ? 4 : 3))} ${units[i]}`;
}

/** Write a number of floating-point operations. */
export function formatFlops(flops) {
  const units = ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"];
  const i = Math.max(0, Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, flops)) / 3)));
  return `${trimZeros((flops / 1000 ** i).toPrecision(3))} ${units[i]}`;
}

const FOUR_DIGITS = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 4 });

/** Write a number for a column whose head names the unit; "–" for an unknown one. */
export function formatNumber(value) {
  return value === null || value === undefined ? "–" : FOUR_DIGITS.format(value);
}

export function formatPercent(share) {
  const percent = 100 * share;
  return `${percent > 0 && percent < 10 ? percent.toFixed(1) : Math.round(percent)} %`;
}

function trimZeros(text) {
  return text.includes(".") && !text.includes("e") ? text.replace(/\.?0+$/, "") : text;
}

/** Shorten a label in the middle to `width` pixels in the context's font; "" when nothing useful fits. */
export function fitText(ctx, text, width, cache) {
  const key = `${Math.round(width)} ${text}`;
  if (!cache.has(key)) cache.set(key, shorten(ctx, text, width));
  return cache.get(key);
}

function shorten(ctx, text, width) {
  const full = ctx.measureText(text).width;
  if (full <= width) return text;
  for (let keep = Math.floor((width / full) * text.length); keep >= 3; keep -= 1) {
    // The end tells more: numbers stand there.
    const head = Math.floor(keep / 2);
    const short = `${text.slice(0, head)}…${text.slice(text.length - (keep - head))}`;
    if (ctx.measureText(short).width <= width) return short;
  }
  return "";
}

/** Steps 1, 2, 5 x 10^n: the smallest of at least `minimum`. */
export function niceStep(minimum) {
  const power = 10 ** Math.floor(Math.log10(minimum));
  for (const factor of [1, 2, 5, 10]) {
    if (factor * power >= minimum * 0.999) return factor * power;
  }
  return 10 * power;
}

/** The colour between two hex colours. */
export function blend(from, to, share) {
  const part = (colour, i) => parseInt(colour.slice(1 + 2 * i, 3 + 2 * i), 16);
  const channel = (i) => Math.round(part(from, i) + (part(to, i) - part(from, i)) * share);
  return `rgb(${channel(0)},${channel(1)},${channel(2)})`;
}
