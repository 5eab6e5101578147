/* Areas on a canvas, [left, top, right, bottom] in its pixels. */

/** The area of a text written at (x, y) in the context's font and alignment. */
export function areaOfText(ctx, text, x, y) {
  const m = ctx.measureText(text);
  return [x - m.actualBoundingBoxLeft, y - m.actualBoundingBoxAscent, x + m.actualBoundingBoxRight, y + m.actualBoundingBoxDescent];
}

export function overlapsAny(area, others) {
  return others.some((other) => area[0] < other[2] && area[2] > other[0] && area[1] < other[3] && area[3] > other[1]);
}
