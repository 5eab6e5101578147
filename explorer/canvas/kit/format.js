/* Texts that fit, steps of axes and colours between colours. Nothing here touches the page. */

const LEAST_TEXT_PX = 7;
const LEAST_TEXT_SHARE = 0.75;

/** The first of some texts that fits into `width` pixels in the context's font; "" when none does. */
export function firstThatFits(ctx, texts, width, cache) {
  for (const text of texts) {
    const key = `${ctx.font} ${text}`;
    if (!cache.has(key)) cache.set(key, ctx.measureText(text).width);
    if (cache.get(key) <= width) return text;
  }
  return "";
}

/** The size in pixels, no larger than `size` nor much smaller, at which a text fits into `width`; 0 when it is too long.
    The context's font has `size`. */
export function sizeThatFits(ctx, text, size, width, cache) {
  if (firstThatFits(ctx, [text], width, cache)) return size;
  const smaller = Math.floor((2 * size * width) / cache.get(`${ctx.font} ${text}`)) / 2;
  return smaller >= Math.max(LEAST_TEXT_PX, LEAST_TEXT_SHARE * size) ? smaller : 0;
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
