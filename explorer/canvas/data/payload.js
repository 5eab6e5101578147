/* The one message from Python: a JSON header, then typed arrays.

   Bytes 0-3: length of the header; then the header, padded to 8 bytes; then the arrays. The header lists
   them as name -> [type, byte offset after the header, number of entries]. */

import { binaryUnit } from "../kit/quantities.js";

const ARRAY_TYPES = { f4: Float32Array, f8: Float64Array, i4: Int32Array, u1: Uint8Array };

/** Return the header with its arrays attached as `header.arrays[name]`, and the one unit that the memory of all devices is
    written in as `header.memoryUnit`: sizes in several units cannot be compared at a glance. */
export function unpack(bytes) {
  // A copy: the message may start at an odd address, where typed arrays cannot.
  const buffer = bytes.slice().buffer;
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const base = Math.ceil((4 + length) / 8) * 8;
  const arrays = {};
  for (const [name, [type, offset, count]] of Object.entries(header.arrays)) {
    arrays[name] = new ARRAY_TYPES[type](buffer, base + offset, count);
  }
  header.arrays = arrays;
  const { devices, gantt } = header;
  header.memoryUnit = binaryUnit([
    ...devices.flatMap((device) => [device.memoryBytes, device.capacityBytes]),
    ...(gantt?.lanes ?? []).map((lane) => lane.peakMemoryBytes),
  ]);
  if (header.graph) for (const level of header.graph.levels) prepareLevel(level, header);
  return header;
}

/** Add to a level what drawing asks for often: coordinates, routes, the box of each node, lines' extents. */
function prepareLevel(level, header) {
  level.lanes = null; // see arrangement.js
  level.x = header.arrays[`${level.name}.x`];
  level.y = header.arrays[`${level.name}.y`];
  const points = header.arrays[`${level.name}.route`];
  const ends = header.arrays[`${level.name}.route_end`];
  const numEdges = level.edges.source.length;
  level.routes = [];
  level.bounds = new Float32Array(4 * numEdges);
  for (let e = 0; e < numEdges; e += 1) {
    const route = points.subarray(e === 0 ? 0 : ends[e - 1], ends[e]);
    level.routes.push(route);
    let [x0, y0, x1, y1] = [Infinity, Infinity, -Infinity, -Infinity];
    for (let i = 0; i < route.length; i += 2) {
      x0 = Math.min(x0, route[i]);
      x1 = Math.max(x1, route[i]);
      y0 = Math.min(y0, route[i + 1]);
      y1 = Math.max(y1, route[i + 1]);
    }
    level.bounds.set([x0, y0, x1, y1], 4 * e);
  }
  level.boxOfNode = new Int32Array(header.graph.nodes.id.length);
  level.boxes.nodes.forEach((nodes, box) => {
    for (const node of nodes) level.boxOfNode[node] = box;
  });
  level.edgesOfBox = level.boxes.label.map(() => []);
  level.uncut = [];
  level.cut = [];
  for (let e = 0; e < numEdges; e += 1) {
    level.edgesOfBox[level.edges.source[e]].push(e);
    level.edgesOfBox[level.edges.target[e]].push(e);
    (level.edges.cutMs[e] === null ? level.uncut : level.cut).push(e);
  }
  level.seams = new Map(level.boxes.seams.map(([box, sendMs, receiveMs, bytes, tensors]) => (
    [box, { box, sendMs, receiveMs, bytes, tensors, ms: Math.max(sendMs, receiveMs) }])));
  // The most expensive last, so that it is drawn on top.
  level.cut.sort((a, b) => level.edges.cutMs[a] - level.edges.cutMs[b] || a - b);
  level.maxCutMs = level.cut.reduce((most, e) => Math.max(most, level.edges.cutMs[e]), 0);
  level.maxTimeMs = level.boxes.timeMs.reduce((most, t) => Math.max(most, t), 0);
}
