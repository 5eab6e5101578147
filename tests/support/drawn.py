"""What a canvas has drawn since it was cleared: texts with their areas, and lines, to see which cross."""

from typing import Any

RECORD = """
(() => {
  const of = CanvasRenderingContext2D.prototype;
  const wrap = (name, note) => {
    const own = of[name];
    of[name] = function (...args) { note.call(this, ...args); return own.apply(this, args); };
  };
  // What is drawn for later, on a canvas beside the page, belongs to the page's canvas that it is copied to.
  const clear = (canvas) => { canvas.__drawn = { texts: [], lines: [] }; };
  wrap("clearRect", function () { clear(this.canvas); });
  const width = Object.getOwnPropertyDescriptor(HTMLCanvasElement.prototype, "width");
  Object.defineProperty(HTMLCanvasElement.prototype, "width", {
    ...width,
    set(value) { clear(this); width.set.call(this, value); },
  });
  wrap("drawImage", function (image) {
    for (const kind of ["texts", "lines"]) this.canvas.__drawn?.[kind].push(...(image.__drawn?.[kind] ?? []));
  });
  wrap("beginPath", function () { this.__path = []; });
  wrap("moveTo", function (x, y) { this.__at = [x, y]; });
  wrap("lineTo", function (x, y) { this.__path?.push([this.__at ?? [x, y], [x, y]]); this.__at = [x, y]; });
  wrap("quadraticCurveTo", function (bx, by, x, y) {
    const [x0, y0] = this.__at;
    for (let i = 1; i <= 40; i += 1) {
      const t = i / 40;
      const mix = (from, bend, to) => (1 - t) ** 2 * from + 2 * t * (1 - t) * bend + t * t * to;
      const at = [mix(x0, bx, x), mix(y0, by, y)];
      this.__path?.push([this.__at, at]);
      this.__at = at;
    }
  });
  wrap("stroke", function () { this.canvas.__drawn?.lines.push(...(this.__path ?? [])); });
  wrap("fillText", function (text, x, y) {
    const { width } = this.measureText(text);
    const left = x - { left: 0, start: 0, center: width / 2, right: width, end: width }[this.textAlign];
    const high = 0.3 * parseFloat(/([\\d.]+)px/.exec(this.font)[1]);
    this.canvas.__drawn?.texts.push([text, left, y - high, left + width, y + high]);
  });
})();
"""
"""A script for a page to run before its own: canvases then have `__drawn`."""

CROSSED = """canvas => {
  const { texts, lines } = canvas.__drawn;
  const crosses = ([, left, top, right, bottom], [[x0, y0], [x1, y1]]) => {
    for (let i = 0; i <= 60; i += 1) {
      const [x, y] = [x0 + (x1 - x0) * i / 60, y0 + (y1 - y0) * i / 60];
      if (x > left && x < right && y > top && y < bottom) return true;
    }
    return false;
  };
  return texts.filter((text) => text[4] < BELOW && lines.some((line) => crosses(text, line))).map(([text]) => text);
}"""


def crossed(canvas: Any, below: float = 1e9) -> list[str]:
    """Return the texts of a canvas that a line goes through; those that end above `below`."""
    found: list[str] = canvas.evaluate(CROSSED.replace("BELOW", str(below)))
    return found
