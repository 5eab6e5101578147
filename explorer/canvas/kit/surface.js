/* What both canvases share: size, sharpness, redraw once per frame, and telling clicks from drags. */

import { listenToPinch } from "./touch.js";

const DRAG_PIXELS = 4;
const SCROLL_REST_MS = 250;

export class Surface {
  /** `picture` answers draw(ctx, width, height), and the optional hover, leave, click, doubleClick, drag, wheel, and
      press(x, y, event): what it returns, {move(x, y, event), end(x, y, event)}, takes the drag from there. */
  constructor(canvas, picture) {
    this.canvas = canvas;
    this.ctx = canvas.getContext("2d");
    this.picture = picture;
    this.width = this.height = 0;
    /** Everything is drawn so many times as large: the picture sees a smaller canvas of a denser screen. */
    this.zoom = 1;
    this.pending = 0;
    this.lastScroll = -Infinity;
    this.abort = new AbortController();
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(canvas);
    this.listen();
  }

  resize() {
    const { zoom, canvas: { clientWidth, clientHeight } } = this;
    const ratio = (window.devicePixelRatio || 1) * zoom;
    const [width, height] = [clientWidth / zoom, clientHeight / zoom];
    if (width === this.width && height === this.height && ratio === this.ratio) return;
    [this.width, this.height, this.ratio] = [width, height, ratio];
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    // In a closed tab the width is 0; what depends on it waits for the observer's next call.
    if (clientWidth > 0 && clientHeight > 0) {
      this.picture.resized?.(width, height);
      this.paint();
    }
  }

  /** Ask for one redraw in the next frame, however often it is asked. */
  invalidate() {
    this.pending ||= requestAnimationFrame(() => this.paint());
  }

  paint() {
    cancelAnimationFrame(this.pending);
    this.pending = 0;
    if (!(this.width > 0 && this.height > 0)) return;
    this.ctx.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.ctx.clearRect(0, 0, this.width, this.height);
    this.picture.draw(this.ctx, this.width, this.height);
  }

  listen() {
    const { canvas, picture } = this;
    const options = { signal: this.abort.signal };
    const place = (event) => {
      const box = canvas.getBoundingClientRect();
      return [(event.clientX - box.left) / this.zoom, (event.clientY - box.top) / this.zoom];
    };
    listenToPinch(canvas, picture, place, options);
    let press = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      if (!event.isPrimary) {
        // A second finger makes it a pinch.
        press = null;
        return;
      }
      canvas.setPointerCapture(event.pointerId);
      const [x, y] = place(event);
      press = { startX: x, startY: y, x, y, dragged: false, grip: picture.press?.(x, y, event) ?? null };
      if (press.grip) picture.leave?.();
    }, options);
    canvas.addEventListener("pointermove", (event) => {
      if (!event.isPrimary || (!press && event.pointerType === "touch")) return;
      const [x, y] = place(event);
      if (!press) return void picture.hover?.(x, y, event);
      if (press.grip) return void press.grip.move(x, y, event);
      if (!press.dragged && Math.hypot(x - press.startX, y - press.startY) < DRAG_PIXELS) return;
      if (!press.dragged) picture.leave?.();
      press.dragged = true;
      canvas.style.cursor = "grabbing";
      // Up and down a finger scrolls the page.
      picture.drag?.(x - press.x, event.pointerType === "touch" ? 0 : y - press.y);
      [press.x, press.y] = [x, y];
    }, options);
    const release = (event) => {
      const finished = press;
      press = null;
      canvas.style.cursor = "";
      if (finished?.grip) return void finished.grip.end(...place(event), event);
      if (finished && !finished.dragged && event.type === "pointerup") picture.click?.(...place(event), event);
    };
    canvas.addEventListener("pointerup", release, options);
    canvas.addEventListener("pointercancel", release, options);
    canvas.addEventListener("pointerleave", () => !press && picture.leave?.(), options);
    canvas.addEventListener("dblclick", (event) => picture.doubleClick?.(...place(event)), options);
    // A page scrolled past the picture must not get stuck in it: the wheel zooms only when the page is at rest.
    document.addEventListener("scroll", () => { this.lastScroll = performance.now(); },
      { ...options, capture: true, passive: true });
    canvas.addEventListener("wheel", (event) => {
      if (performance.now() - this.lastScroll < SCROLL_REST_MS) return;
      const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
      if (picture.wheel?.(...place(event), event.deltaX * unit, event.deltaY * unit, event)) event.preventDefault();
    }, { ...options, passive: false });
  }

  destroy() {
    cancelAnimationFrame(this.pending);
    this.abort.abort();
    this.observer.disconnect();
  }
}
