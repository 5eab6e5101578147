/* The window onto the graph: which part of the world is shown, and how large.

   The view is {scale, x, y, fitted}: magnification, the world point in the middle of the canvas, and whether it shows
   everything. Heirs give `level` and `place` (see arrangement.js), `surface`, `actions`, `morph`, and
   `inset`, the pixels at the bottom that something else covers; `labelRoom(scale)`, those that labels need at the left
   of the world's `labelWidth`. */

export const MAX_FIT_SCALE = 1.6;
const MAX_SCALE = 6;

export class ZoomableGraph {
  resized() {
    if (!this.view || this.view.fitted) this.fit(false);
  }

  /** The magnification that shows everything. */
  fitScale() {
    const { width, height } = this.surface;
    const scale = Math.min(MAX_FIT_SCALE, width / this.place.width, (height - this.inset) / this.place.height);
    return Math.min(scale, (width - this.labelRoom(scale)) / (this.place.width - this.labelWidth));
  }

  /** The view that shows everything. */
  fittedView() {
    const scale = this.fitScale();
    const more = Math.max(0, this.labelRoom(scale) / scale - this.labelWidth);
    return { scale, x: (this.place.width - more) / 2, y: this.place.height / 2 + this.inset / 2 / scale, fitted: true };
  }

  fit(remember = true) {
    if (!(this.surface.width > 0) || !this.level) return;
    this.view = this.fittedView();
    if (remember) this.actions.viewChanged();
    this.surface.invalidate();
  }

  moved() {
    this.morph = null;
    this.view.fitted = false;
    const { view } = this;
    view.x = Math.min(Math.max(view.x, 0), this.place.width);
    view.y = Math.min(Math.max(view.y, 0), this.place.height);
    this.actions.viewChanged();
    this.surface.invalidate();
  }

  pan(dx, dy) {
    if (!this.view) return;
    this.view.x -= dx / this.view.scale;
    this.view.y -= dy / this.view.scale;
    this.moved();
  }

  /** Zoom about a canvas point; false when there is nothing left to zoom out of. */
  zoom(factor, px = this.surface.width / 2, py = this.surface.height / 2) {
    const { view } = this;
    if (!view) return false;
    const least = Math.min(this.fitScale(), 1);
    const scale = Math.min(MAX_SCALE, view.scale * factor);
    if (scale <= least * 1.001) {
      if (view.fitted) return false;
      this.fit();
      return true;
    }
    const [wx, wy] = this.toWorld(px, py);
    view.scale = scale;
    view.x = wx - (px - this.surface.width / 2) / scale;
    view.y = wy - (py - this.surface.height / 2) / scale;
    this.moved();
    return true;
  }

  /** Bring a point of the world to the middle. */
  moveTo(wx, wy) {
    if (!this.view) return;
    [this.view.x, this.view.y] = [wx, wy];
    this.moved();
  }

  /** Bring a box to the middle, close enough to read it. */
  centreOn(box) {
    if (!this.view) return;
    this.view.scale = Math.max(this.view.scale, Math.min(1, MAX_SCALE));
    this.view.x = this.place.x[box];
    this.view.y = this.place.y[box];
    this.moved();
  }

  toWorld(px, py) {
    const { scale, x, y } = this.view;
    return [x + (px - this.surface.width / 2) / scale, y + (py - this.surface.height / 2) / scale];
  }

  toScreen(wx, wy) {
    const { scale, x, y } = this.view;
    return [(wx - x) * scale + this.surface.width / 2, (wy - y) * scale + this.surface.height / 2];
  }

  useWorld(ctx) {
    const { scale, x, y } = this.view;
    const { width, height, ratio } = this.surface;
    ctx.setTransform(ratio * scale, 0, 0, ratio * scale, ratio * (width / 2 - x * scale), ratio * (height / 2 - y * scale));
  }
}
