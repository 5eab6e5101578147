/* How a figure of a lesson is laid out in a page of some width: as it is, in its narrow layout, or folded. */

/** Below this share of their size letters are too small to read, and the figure scrolls. */
export const LEAST_SCALE = 0.8;

/** Whether a figure with another layout does not fit as it is. */
function isTooNarrow(scene, width) {
  return Boolean(scene.fold || scene.narrow) && width < LEAST_SCALE * scene.width;
}

/** Return the figure as it is shown in a page of this width. */
export function arranged(scene, width) {
  if (!isTooNarrow(scene, width)) return scene;
  const narrow = { ...scene };
  for (const [name, value] of Object.entries(scene.narrow ?? {})) if (value !== null || name === "fold") narrow[name] = value;
  return narrow.fold && width < LEAST_SCALE * narrow.width ? folded(narrow) : narrow;
}

/** Lay out what stands at the right of a figure's fold below what stands at its left, for a narrow page. */
function folded(scene) {
  const [x, y] = scene.fold;
  const end = (marks, at, size) => Math.max(0, ...marks.map((mark) => mark[at] + mark[size]));
  const isBelow = (mark) => mark.y >= y;
  const isRight = (mark) => mark.x >= x && !isBelow(mark);
  const [left, right, below] = [(mark) => !isRight(mark) && !isBelow(mark), isRight, isBelow].map((is) => scene.marks.filter(is));
  const down = end(left, "y", "h") + 16;
  // What stands at the right may begin lower than the figure does.
  const drop = down - Math.max(0, Math.min(...right.map((mark) => mark.y)) - 8);
  const lower = drop + end(right, "y", "h") + 16 - y;
  const moved = (mark, dx, dy) => ({ ...mark, x: mark.x - dx, x2: mark.x2 - dx, y: mark.y + dy, y2: mark.y2 + dy,
    cx: mark.cx === null ? null : mark.cx - dx, cy: mark.cy === null ? null : mark.cy + dy });
  const marks = [...left, ...right.map((mark) => moved(mark, x, drop)), ...below.map((mark) => moved(mark, 0, lower))];
  return { ...scene, marks, width: end(marks, "x", "w") + 10, height: scene.height + (below.length ? lower : drop + end(right, "y", "h") + 8 - scene.height) };
}
