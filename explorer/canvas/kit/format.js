/* Text that fits, steps of axes and colours between colours. Nothing here touches the page. */

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
