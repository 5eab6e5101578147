/* Two fingers zoom and pan a picture; one finger scrolls the page past it, or pans sideways (`touch-action` in the CSS). */

/** Have pinches on a canvas answered by picture.zoom(factor, x, y) and picture.pan(dx, dy). */
export function listenToPinch(canvas, picture, options) {
  let last = null;
  const read = (touches) => {
    const box = canvas.getBoundingClientRect();
    const [a, b] = touches;
    return { x: (a.clientX + b.clientX) / 2 - box.left, y: (a.clientY + b.clientY) / 2 - box.top,
      spread: Math.max(10, Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY)) };
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
