/* Two fingers zoom and pan a picture; one finger scrolls the page past it, or pans sideways (`touch-action` in the CSS). */

/** Have pinches on a canvas answered by picture.zoom(factor, x, y) and picture.pan(dx, dy); `place(touch)` is where one is. */
export function listenToPinch(canvas, picture, place, options) {
  let last = null;
  const read = ([first, second]) => {
    const [[ax, ay], [bx, by]] = [place(first), place(second)];
    return { x: (ax + bx) / 2, y: (ay + by) / 2, spread: Math.max(10, Math.hypot(ax - bx, ay - by)) };
  };
  const active = { ...options, passive: false };
  canvas.addEventListener("touchstart", (event) => {
    if (event.touches.length !== 2) return;
    last = read(event.touches);
    event.preventDefault();
  }, active);
  canvas.addEventListener("touchmove", (event) => {
    if (!last || event.touches.length !== 2) return;
    const now = read(event.touches);
    picture.zoom?.(now.spread / last.spread, now.x, now.y);
    picture.pan?.(now.x - last.x, now.y - last.y);
    last = now;
    event.preventDefault();
  }, active);
  for (const type of ["touchend", "touchcancel"]) {
    canvas.addEventListener(type, (event) => { if (event.touches.length < 2) last = null; }, options);
  }
}
