/* The whole graph in a corner, while only a part of it is in view; a press or drag there moves the view. */

import { make } from "../kit/dom.js";

const WIDTH = 168;
const MOST_HEIGHT = 104;

export class Minimap {
  constructor(picture) {
    this.picture = picture;
    this.canvas = make("canvas", { className: "minimap", hidden: "", role: "img", "aria-label": "Overview: the frame is the part in view" });
    this.bitmap = document.createElement("canvas");
    this.made = null;
    this.listen();
  }

  /** Bring it up to date with what the picture shows; hidden where the picture shows everything. */
  draw() {
    const { picture } = this;
    const { place, view, visible } = picture;
    const isWhole = visible.left <= 0.5 && visible.top <= 0.5 && visible.right >= place.width - 0.5 && visible.bottom >= place.height - 0.5;
    this.canvas.hidden = isWhole || Boolean(picture.morph) || picture.surface.width < 2.5 * WIDTH || !view;
    if (this.canvas.hidden) return;
    this.scale = Math.min(WIDTH / place.width, MOST_HEIGHT / place.height);
    const [width, height] = [Math.ceil(place.width * this.scale), Math.ceil(place.height * this.scale)];
    const ratio = window.devicePixelRatio || 1;
    this.paintBitmap(place, width, height, ratio);
    const ctx = this.canvas.getContext("2d");
    if (this.canvas.width !== this.bitmap.width || this.canvas.height !== this.bitmap.height) {
      [this.canvas.width, this.canvas.height] = [this.bitmap.width, this.bitmap.height];
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.clearRect(0, 0, this.canvas.width, this.canvas.height);
    ctx.drawImage(this.bitmap, 0, 0);
    ctx.setTransform(ratio * this.scale, 0, 0, ratio * this.scale, 0, 0);
    const [x0, y0] = [Math.max(0, visible.left), Math.max(0, visible.top)];
    const [x1, y1] = [Math.min(place.width, visible.right), Math.min(place.height, visible.bottom)];
    ctx.fillStyle = picture.store.theme.shade;
    ctx.fillRect(x0, y0, x1 - x0, y1 - y0);
    ctx.strokeStyle = picture.store.theme.primary;
    ctx.lineWidth = 2 / this.scale;
    ctx.strokeRect(x0, y0, x1 - x0, y1 - y0);
  }

  /** The boxes in their colours; painted anew only when they, their colours or the size change. */
  paintBitmap(place, width, height, ratio) {
    const fills = this.picture.fills();
    const { made } = this;
    if (made && made.place === place && made.fills === fills && made.width === width && made.ratio === ratio) return;
    this.made = { place, fills, width, ratio };
    [this.bitmap.width, this.bitmap.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    const ctx = this.bitmap.getContext("2d");
    ctx.setTransform(ratio * this.scale, 0, 0, ratio * this.scale, 0, 0);
    const { level, store } = this.picture;
    const least = 1.6 / this.scale;
    const [boxWidth, boxHeight] = [Math.max(least, level.boxWidth), Math.max(least, level.boxHeight)];
    for (let i = 0; i < place.x.length; i += 1) {
      ctx.fillStyle = fills[i] ?? this.picture.mainFill(i) ?? store.theme.palette.unplaced.fill;
      ctx.fillRect(place.x[i] - boxWidth / 2, place.y[i] - boxHeight / 2, boxWidth, boxHeight);
    }
  }

  listen() {
    const move = (event) => {
      const box = this.canvas.getBoundingClientRect();
      this.picture.moveTo((event.clientX - box.left) / this.scale, (event.clientY - box.top) / this.scale);
      event.preventDefault();
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      move(event);
    });
    this.canvas.addEventListener("pointermove", (event) => { if (event.buttons & 1) move(event); });
  }
}
