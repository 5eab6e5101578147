/* Where the boxes of a level stand: in the order of the network, as laid out in Python, or in a lane per device.

   A place is {x, y, routes, bounds, width, height, lanes?}: centres of the boxes, lines of the edges and their extents,
   in world coordinates; `lanes` are {device, top, bottom}. A level is itself the place of the network's order. */

const LANE_GAP = 18;
const LANE_PADDING = 10;
const LANE_HEADER = 34;
/** Where the first boxes of lanes begin. */
export const LANES_LEFT = LANE_HEADER + LANE_PADDING;
const BOX_GAP_X = 14;
const BOX_GAP_Y = 12;
const PAGE_WIDTH = 1050;
const PAGE_HEIGHT = 456;
const MORPH_MS = 600;

/** The place of a level with a lane per device, from top to bottom; made once per level. */
export function lanePlace(level) {
  level.lanePlace ??= makeLanes(level);
  return level.lanePlace;
}

function makeLanes(level) {
  const members = new Map();
  level.boxes.shares.forEach((shares, box) => {
    const device = shares.reduce((most, own) => (most && most[1] >= own[1] ? most : own), null)?.[0] ?? -1;
    if (!members.has(device)) members.set(device, []);
    members.get(device).push(box);
  });
  const devices = [...members.keys()].sort((a, b) => a - b);
  const [pitchX, pitchY] = [level.boxWidth + BOX_GAP_X, level.boxHeight + BOX_GAP_Y];
  const longest = Math.max(...devices.map((d) => members.get(d).length), 1);
  const extent = (columns) => {
    const rows = devices.reduce((sum, d) => sum + Math.ceil(members.get(d).length / columns), 0);
    return [LANE_HEADER + columns * pitchX + 2 * LANE_PADDING,
      rows * pitchY + devices.length * (2 * LANE_PADDING + LANE_GAP - BOX_GAP_Y) + LANE_GAP];
  };
  // As many columns as fill a page best.
  let [best, columns] = [0, 1];
  for (let k = 1; k <= longest; k += 1) {
    const [width, height] = extent(k);
    const scale = Math.min(PAGE_WIDTH / width, PAGE_HEIGHT / height);
    if (scale > best * 1.001) [best, columns] = [scale, k];
  }
  const place = { x: new Float32Array(level.x.length), y: new Float32Array(level.y.length), lanes: [] };
  const row = new Int32Array(level.x.length);
  let top = LANE_GAP;
  let rowNumber = 0;
  for (const device of devices) {
    const boxes = members.get(device);
    const rows = Math.ceil(boxes.length / columns);
    boxes.forEach((box, i) => {
      place.x[box] = LANES_LEFT + (i % columns) * pitchX + level.boxWidth / 2;
      place.y[box] = top + LANE_PADDING + Math.floor(i / columns) * pitchY + level.boxHeight / 2;
      row[box] = rowNumber + Math.floor(i / columns);
    });
    const bottom = top + 2 * LANE_PADDING + rows * pitchY - BOX_GAP_Y;
    place.lanes.push({ device, top, bottom });
    top = bottom + LANE_GAP;
    rowNumber += rows;
  }
  [place.width, place.height] = extent(columns);
  addLines(place, level, row);
  return place;
}

/** Lines of the edges: straight to a neighbour in the row, through the gap above it to others, else from border to border. */
function addLines(place, level, row) {
  const { source, target } = level.edges;
  const [halfWidth, halfHeight] = [level.boxWidth / 2, level.boxHeight / 2];
  place.bounds = new Float32Array(4 * source.length);
  place.routes = [];
  for (let e = 0; e < source.length; e += 1) {
    const [u, v] = [source[e], target[e]];
    const [x0, y0, x1, y1] = [place.x[u], place.y[u], place.x[v], place.y[v]];
    let route;
    if (row[u] !== row[v]) {
      const side = y1 > y0 ? 1 : -1;
      route = [x0, y0 + side * halfHeight, x1, y1 - side * halfHeight];
    } else if (Math.abs(x1 - x0) < 1.5 * level.boxWidth) {
      const side = x1 > x0 ? 1 : -1;
      route = [x0 + side * halfWidth, y0, x1 - side * halfWidth, y1];
    } else {
      const above = y0 - halfHeight - BOX_GAP_Y / 2;
      route = [x0, y0 - halfHeight, x0, above, x1, above, x1, y1 - halfHeight];
    }
    place.routes.push(Float32Array.from(route));
    const xs = route.filter((_, i) => i % 2 === 0);
    const ys = route.filter((_, i) => i % 2 === 1);
    place.bounds.set([Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)], 4 * e);
  }
}

/** On the way from one place to another: coordinates and view in between, and straight lines. */
export class Morph {
  constructor(from, to, viewFrom, viewTo) {
    Object.assign(this, { from, to, viewFrom, viewTo });
    this.start = performance.now();
    this.x = new Float32Array(to.x.length);
    this.y = new Float32Array(to.y.length);
    this.width = Math.max(from.width, to.width);
    this.height = Math.max(from.height, to.height);
    this.step();
  }

  /** Move on to now; false once it has arrived. */
  step(now = performance.now()) {
    const linear = Math.min(1, (now - this.start) / MORPH_MS);
    const share = linear < 0.5 ? 4 * linear ** 3 : 1 - (2 - 2 * linear) ** 3 / 2;
    for (let i = 0; i < this.x.length; i += 1) {
      this.x[i] = this.from.x[i] + (this.to.x[i] - this.from.x[i]) * share;
      this.y[i] = this.from.y[i] + (this.to.y[i] - this.from.y[i]) * share;
    }
    const mix = (a, b) => a + (b - a) * share;
    this.view = {
      scale: Math.exp(mix(Math.log(this.viewFrom.scale), Math.log(this.viewTo.scale))),
      x: mix(this.viewFrom.x, this.viewTo.x), y: mix(this.viewFrom.y, this.viewTo.y), fitted: this.viewTo.fitted,
    };
    this.lanes = share > 0.5 ? this.to.lanes : this.from.lanes;
    return linear < 1;
  }
}
