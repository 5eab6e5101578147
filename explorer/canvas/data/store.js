/* What the picture knows, and the one model of what is hovered and selected in it.

   A thing that can be hovered or selected is one of
     {kind: "device", device}            {kind: "stage", stage}               {kind: "node", nodes: [i]}
     {kind: "nodes", nodes: [i, ...]}    {kind: "group", nodes, level, box}   a box that folds several nodes
     {kind: "tensor", tensor}            {kind: "edge", edge}                 an edge drawn at the current level
     {kind: "bar", bar}                  {kind: "microBatch", microBatch}     {kind: "range", fromMs, toMs}
   with numbers as in the message (see links.js). Whatever is hovered stands out, and when nothing is, the selection.
   Views draw what `focus()` says and are told of changes through `subscribe`. */

import { SLOT_RECEIVE, SLOT_SEND } from "../kit/contract.js";
import { Links } from "./links.js";

/** What is in focus while nothing is: everything plain. */
const NOTHING = Object.freeze({ kind: null, device: null, devices: null, stages: null, nodes: null, boxes: null,
  edges: null, tensors: null, bars: null, microBatch: null, box: -1, edge: -1 });

export class Store {
  constructor() {
    this.data = this.level = this.theme = this.search = this.hovered = this.selection = this.links = null;
    this.listeners = [];
    this.computed = null;
    this.computedKey = "";
  }

  /** Have `listener("hover" | "selection")` called after each change. */
  subscribe(listener) {
    this.listeners.push(listener);
  }

  /** Show a message at one of its levels; what was hovered is gone, what was selected stays where it still exists. */
  show(data, level, isSameGraph) {
    this.data = data;
    this.level = level;
    this.links = new Links(data);
    this.hovered = this.computed = null;
    const kept = this.selection;
    // Bars, stages and tensors are those of one plan.
    if (!isSameGraph || !kept || !["node", "nodes", "group", "device"].includes(kept.kind)) this.selection = null;
    else if (kept.kind === "device" && !data.devices[kept.device]) this.selection = null;
    else if (kept.kind === "group") {
      const itsLevel = data.graph.levels.find((one) => one.name === kept.level);
      this.selection = itsLevel ? thingOfBox(itsLevel, itsLevel.boxOfNode[kept.nodes[0]]) : null;
    }
  }

  setLevel(level) {
    this.level = level;
    this.hovered = this.computed = null;
    if (this.selection?.kind === "edge") this.selection = null;
  }

  /** Point at a thing, or at none. Cheap while it stays the same. */
  hover(thing) {
    if (thingKey(thing) === thingKey(this.hovered)) return;
    this.hovered = thing;
    this.changed("hover");
  }

  /** Select a thing, or none. */
  select(thing) {
    this.selection = thing;
    this.changed("selection");
  }

  /** What is selected once `nodes` are added to the selected ones, or taken out where all of them are. */
  extended(nodes) {
    const old = new Set(this.selection?.nodes ?? []);
    const isIn = nodes.every((i) => old.has(i));
    for (const i of nodes) if (isIn) old.delete(i); else old.add(i);
    return thingOfNodes([...old]);
  }

  changed(what) {
    for (const listener of this.listeners) listener(what);
  }

  /** The selected boxes at this level. */
  selectedBoxes() {
    if (!this.level || !this.selection?.nodes) return [];
    return [...new Set(this.selection.nodes.map((i) => this.level.boxOfNode[i]))];
  }

  /** What stands out now. In each part null means that all is plain there:
        devices, stages, tensors   sets of numbers        nodes, edges, boxes, bars   masks (see links.js)
        kind                       of the thing           microBatch                  the one it is about
        device, box, edge          the only one meant, else null, -1 and -1 */
  focus() {
    const thing = this.hovered ?? this.selection;
    const key = `${this.level?.name} ${thingKey(thing)}`;
    if (!this.computed || key !== this.computedKey) {
      this.computed = thing && this.data ? this.focusOn(thing) : NOTHING;
      this.computedKey = key;
    }
    return this.computed;
  }

  focusOn(thing) {
    const { links, level } = this;
    const { deviceOf, bars } = links;
    switch (thing.kind) {
      case "device": {
        const { device } = thing;
        const own = (u, v) => deviceOf[u] === device || deviceOf[v] === device;
        return this.assemble(thing, { devices: new Set([device]), nodes: links.nodesWhere((i) => deviceOf[i] === device),
          bars: links.barsWhere((i) => links.deviceOfLane[bars.lane[i]] === device), link: own });
      }
      case "stage": {
        const nodes = links.nodeMask(links.nodesOfStage[thing.stage]);
        return this.assemble(thing, { devices: new Set([links.stages[thing.stage].device]), nodes, stages: new Set([thing.stage]),
          bars: links.barsWhere((i) => bars.stage[i] === thing.stage), link: (u, v) => nodes[u] || nodes[v] });
      }
      case "node": case "nodes": case "group": {
        const nodes = links.nodeMask(thing.nodes);
        const stages = links.stagesOf(nodes);
        const focus = this.assemble(thing, { nodes, stages, bars: links.barsWhere((i) => stages.has(bars.stage[i])),
          link: (u, v) => nodes[u] !== nodes[v] });
        if (focus.boxes) {
          markNeighbours(level, focus.boxes, focus.edges);
          for (const tie of links.tiesOf(thing.nodes)) for (const i of tie) focus.boxes[level.boxOfNode[i]] ||= 2;
        }
        return Object.assign(focus, { box: thing.nodes.length ? level?.boxOfNode[thing.nodes[0]] ?? -1 : -1 });
      }
      case "edge": return this.focusOnMoves(thing, links.movesOfEdge(level, thing.edge));
      case "tensor": {
        const { to } = links.tensors[thing.tensor];
        return this.focusOnMoves(thing, [{ tensor: thing.tensor, devices: new Set(to) }]);
      }
      case "bar": return this.focusOnBar(thing);
      case "microBatch":
        return { ...NOTHING, kind: thing.kind, microBatch: thing.microBatch,
          bars: links.barsWhere((i) => bars.microBatch[i] === thing.microBatch) };
      case "range":
        return { ...NOTHING, kind: thing.kind,
          bars: links.barsWhere((i) => bars.start[i] < thing.toMs && bars.end[i] > thing.fromMs) };
      default: throw new Error(`unknown kind of thing: ${thing.kind}`);
    }
  }

  /** Tensors on their way: the nodes that make and read them, and the bars that send and receive them. */
  focusOnMoves(thing, moves) {
    const { links } = this;
    const targets = new Map(moves.map(({ tensor, devices }) => [tensor, devices]));
    const link = (u, v, e) => Boolean(targets.get(links.tensorOfEdge(e))?.has(links.deviceOf[v]));
    const nodes = new Uint8Array(links.numNodes);
    for (const [t, devices] of targets) {
      nodes[links.tensors[t].source] = 1;
      for (const v of links.readersOf(t)) if (devices.has(links.deviceOf[v])) nodes[v] = 1;
    }
    const stages = new Set();
    for (const { tensor, devices } of moves) {
      const { send, receive } = links.transferStages(tensor, devices);
      for (const s of [...send, ...receive]) stages.add(s);
    }
    const focus = this.assemble(thing, { nodes, stages, bars: links.transferBars(moves), link });
    focus.tensors = new Set(moves.map((move) => move.tensor));
    if (thing.kind === "edge") {
      focus.edge = thing.edge;
      focus.edges.fill(0);
      focus.edges[thing.edge] = 1;
    }
    return focus;
  }

  /** A bar: the nodes of its stage, the tensors it moves if it is a transfer, and its micro-batch everywhere. */
  focusOnBar(thing) {
    const { links } = this;
    const { bars, deviceOf } = links;
    const stage = bars.stage[thing.bar];
    const members = links.nodeMask(links.nodesOfStage[stage] ?? []);
    const { device } = links.stages[stage];
    const kind = bars.kind[thing.bar];
    const link = (u, v) => deviceOf[u] !== deviceOf[v]
      && ((kind !== SLOT_RECEIVE && members[u] === 1) || (kind !== SLOT_SEND && members[v] === 1));
    return Object.assign(this.assemble(thing, { devices: new Set([device]), stages: new Set([stage]), nodes: members,
      bars: links.barsWhere((i) => bars.microBatch[i] === bars.microBatch[thing.bar]), link }),
    { microBatch: bars.microBatch[thing.bar] });
  }

  /** A focus from its nodes; `link(u, v)` says which edges between nodes belong to it. */
  assemble(thing, { nodes, link, bars, devices = this.links.devicesOf(nodes), stages = this.links.stagesOf(nodes) }) {
    const { links, level } = this;
    const hasGraph = Boolean(level);
    return { ...NOTHING, kind: thing.kind, devices, stages, nodes, bars,
      device: devices.size === 1 ? devices.values().next().value : null,
      boxes: hasGraph ? links.boxesOf(level, nodes) : null,
      edges: hasGraph ? links.edgesWhere(level, link) : null,
      tensors: links.tensorsWhere(link) };
  }
}

/** The thing a box of a level stands for. */
export function thingOfBox(level, box) {
  const nodes = level.boxes.nodes[box];
  return nodes.length === 1 ? { kind: "node", nodes } : { kind: "group", nodes, level: level.name, box };
}

/** One node, several, or none. */
export function thingOfNodes(nodes) {
  if (!nodes.length) return null;
  return nodes.length === 1 ? { kind: "node", nodes } : { kind: "nodes", nodes };
}

/** A text by which two things are told apart. */
function thingKey(thing) {
  if (!thing) return "";
  const { kind } = thing;
  if (kind === "range") return `range ${thing.fromMs} ${thing.toMs}`;
  if (kind === "group") return `group ${thing.level} ${thing.box}`;
  return `${kind} ${thing.nodes ? thing.nodes.join() : thing[kind]}`;
}

/** Give the value 2 to the boxes that an edge of a mask joins to those of value 1. */
function markNeighbours(level, boxes, edges) {
  const { source, target } = level.edges;
  for (let e = 0; e < source.length; e += 1) {
    if (edges[e] !== 1) continue;
    if (boxes[source[e]] === 1 && boxes[target[e]] === 0) boxes[target[e]] = 2;
    else if (boxes[target[e]] === 1 && boxes[source[e]] === 0) boxes[source[e]] = 2;
  }
}
