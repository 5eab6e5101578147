/* Bars thinner than a pixel: what falls into one pixel is added up, its share of the time becomes its opacity.

   One row of pixels per shape of bar, stretched to its height when drawn: a few pictures per lane, however many bars. */

const LEAST_OPACITY = 0.12;

export class PixelRows {
  /** `width` in pixels; `rows` is how many shapes there are. */
  constructor(width, rows) {
    this.width = Math.max(1, Math.ceil(width) + 1);
    this.rows = rows;
    const size = this.width * rows;
    this.share = new Float32Array(size);
    this.red = new Float32Array(size);
    this.green = new Float32Array(size);
    this.blue = new Float32Array(size);
    this.strength = new Float32Array(size);
    this.used = new Uint8Array(rows);
    this.canvas = document.createElement("canvas");
    [this.canvas.width, this.canvas.height] = [this.width, rows];
  }

  clear() {
    for (const array of [this.share, this.red, this.green, this.blue, this.strength, this.used]) array.fill(0);
  }

  /** Add a bar of `width` pixels at `x`, of a colour [r, g, b] and a strength from 0 (not there) to 1. */
  add(row, x, width, [red, green, blue], strength) {
    const at = row * this.width + Math.max(0, Math.min(this.width - 1, Math.floor(x)));
    this.share[at] += width;
    this.red[at] += width * red;
    this.green[at] += width * green;
    this.blue[at] += width * blue;
    // What stands out is not lost among what does not.
    if (strength > this.strength[at]) this.strength[at] = strength;
    this.used[row] = 1;
  }

  /** Draw a row from `left` on, stretched to [top, top + tall]; `render` comes before. */
  draw(ctx, row, left, top, tall) {
    if (!this.used[row]) return;
    ctx.imageSmoothingEnabled = false;
    ctx.drawImage(this.canvas, 0, row, this.width, 1, left, top, this.width, tall);
    ctx.imageSmoothingEnabled = true;
  }

  /** Turn what was added into pixels; false when there is nothing. */
  render() {
    if (!this.used.some(Boolean)) return false;
    const target = this.canvas.getContext("2d");
    const image = target.createImageData(this.width, this.rows);
    for (let at = 0; at < this.share.length; at += 1) {
      const share = this.share[at];
      if (share === 0) continue;
      image.data[4 * at] = this.red[at] / share;
      image.data[4 * at + 1] = this.green[at] / share;
      image.data[4 * at + 2] = this.blue[at] / share;
      image.data[4 * at + 3] = 255 * Math.min(1, Math.max(LEAST_OPACITY, share)) * this.strength[at];
    }
    target.putImageData(image, 0, 0);
    return true;
  }
}

const parsedColours = new Map();

/** [r, g, b] of "#rrggbb". */
export function rgbOf(hex) {
  if (!parsedColours.has(hex)) parsedColours.set(hex, [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)));
  return parsedColours.get(hex);
}
