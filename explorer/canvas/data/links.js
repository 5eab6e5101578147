/* How nodes, devices, stages, tensors, bars and the boxes of a level belong together; built once per message.

   Nodes, tensors, stages and bars are known by their index in the message. Outputs are all tensors that are read, moved
   or not: where no node has several they are the nodes, else they are listed in the message. A mask is a Uint8Array with an entry per
   node, edge, box or bar: 1 for those meant, and 2 for the neighbours of the boxes meant. */

import { SLOT_RECEIVE, SLOT_SEND } from "../kit/contract.js";

export class Links {
  constructor(data) {
    const { graph, gantt, arrays } = data;
    this.numNodes = graph?.nodes.id.length ?? 0;
    this.deviceOf = graph?.nodes.device ?? [];
    this.indexOfId = new Map((graph?.nodes.id ?? []).map((id, i) => [id, i]));
    // The boxes of the first level are the nodes, unless there are too many to draw.
    const source = arrays["edge.source"] ?? graph?.levels[0].edges.source ?? [];
    const target = arrays["edge.target"] ?? graph?.levels[0].edges.target ?? [];
    this.edgeSource = source;
    this.edgeTarget = target;
    this.inputs = Array.from({ length: this.numNodes }, () => []);
    this.readers = Array.from({ length: this.numNodes }, () => []);
    this.outputs = graph?.outputs ?? null;
    this.ties = graph?.ties ?? [];
    this.outputOfEdge = this.outputs ? arrays["edge.output"] : source;
    this.readersOfOutput = this.outputs ? this.outputs.source.map(() => []) : this.readers;
    this.outputsOfNode = Array.from({ length: this.outputs ? this.numNodes : 0 }, () => []);
    this.outputs?.source.forEach((u, o) => this.outputsOfNode[u].push(o));
    for (let e = 0; e < source.length; e += 1) {
      if (this.outputs) this.readersOfOutput[this.outputOfEdge[e]].push(target[e]);
      // A node that reads two tensors of another is one reader of it.
      if (this.outputs && this.inputs[target[e]].includes(source[e])) continue;
      this.inputs[target[e]].push(source[e]);
      this.readers[source[e]].push(target[e]);
    }
    this.stages = gantt?.stages ?? [];
    this.stagesOfNode = Array.from({ length: this.numNodes }, () => []);
    const [members, ends] = [arrays["stage.node"], arrays["stage.node_end"]];
    this.nodesOfStage = this.stages.map((_, s) => members.subarray(s === 0 ? 0 : ends[s - 1], ends[s]));
    this.nodesOfStage.forEach((nodes, s) => { for (const i of nodes) this.stagesOfNode[i].push(s); });
    this.bars = gantt ? { stage: arrays["bar.stage"], microBatch: arrays["bar.micro_batch"], kind: arrays["bar.kind"],
      start: arrays["bar.start"], end: arrays["bar.end"], lane: arrays["bar.lane"] } : null;
    this.deviceOfLane = gantt?.lanes.map((lane) => lane.device) ?? [];
    this.tensors = graph?.tensors ?? [];
    this.tensorOfOutput = new Map(this.tensors.map((tensor, t) => [tensor.output ?? tensor.source, t]));
  }

  /** The cut tensor that passes along an edge, whether it is moved along this one or not; undefined for none. */
  tensorOfEdge(e) {
    return this.tensorOfOutput.get(this.outputOfEdge[e]);
  }

  /** Nodes that read a tensor. */
  readersOf(tensor) {
    const { source, output } = this.tensors[tensor];
    return this.readersOfOutput[output ?? source];
  }

  /** Outputs of a node; with `reader` those that this one reads. */
  outputsOf(node, reader = null) {
    if (!this.outputs) return [node];
    return this.outputsOfNode[node].filter((o) => reader === null || this.readersOfOutput[o].includes(reader));
  }

  /** The first cut tensor of a node, or the one of this name; undefined for none. */
  tensorOfNode(node, name = null) {
    const t = this.tensors.findIndex((tensor) => tensor.source === node && (name === null || tensor.name === name));
    return t < 0 ? undefined : t;
  }

  /** The index of a node by its id; -1 when there is none. */
  indexOf(id) {
    return this.indexOfId.get(id) ?? -1;
  }

  get numBars() {
    return this.bars?.lane.length ?? 0;
  }

  /** Mask of the nodes for which `test` holds. */
  nodesWhere(test) {
    const mask = new Uint8Array(this.numNodes);
    for (let i = 0; i < mask.length; i += 1) mask[i] = test(i) ? 1 : 0;
    return mask;
  }

  nodeMask(nodes) {
    const mask = new Uint8Array(this.numNodes);
    for (const i of nodes) mask[i] = 1;
    return mask;
  }

  /** Mask of the bars for which `test` holds; null where there is no timeline. */
  barsWhere(test) {
    if (!this.bars) return null;
    const mask = new Uint8Array(this.numBars);
    for (let i = 0; i < mask.length; i += 1) mask[i] = test(i) ? 1 : 0;
    return mask;
  }

  /** Devices that run the nodes of a mask. */
  devicesOf(mask) {
    const devices = new Set();
    for (let i = 0; i < mask.length; i += 1) if (mask[i] === 1 && this.deviceOf[i] >= 0) devices.add(this.deviceOf[i]);
    return devices;
  }

  stagesOf(mask) {
    const stages = new Set();
    for (let i = 0; i < mask.length; i += 1) if (mask[i] === 1) for (const s of this.stagesOfNode[i]) stages.add(s);
    return stages;
  }

  /** Stages that send a tensor, and those that receive it: on each device the first that reads it. */
  transferStages(tensor, devices = this.tensors[tensor].to) {
    const { source } = this.tensors[tensor];
    const send = new Set(this.stagesOfNode[source]);
    const receive = new Set();
    for (const device of devices) {
      const readers = new Set(this.readersOf(tensor).filter((v) => this.deviceOf[v] === device).flatMap((v) => this.stagesOfNode[v]));
      const sorted = [...readers].sort((a, b) => a - b);
      const first = sorted.find((s) => this.stages[s].receivesFrom.some((other) => send.has(other))) ?? sorted[0];
      if (first !== undefined) receive.add(first);
    }
    return { send, receive };
  }

  /** Mask of the bars that move tensors, each {tensor, devices}. */
  transferBars(moves) {
    const send = new Set();
    const receive = new Set();
    for (const { tensor, devices } of moves) {
      const stages = this.transferStages(tensor, devices);
      for (const s of stages.send) send.add(s);
      for (const s of stages.receive) receive.add(s);
    }
    return this.barsWhere((i) => {
      const stage = this.bars.stage[i];
      return (this.bars.kind[i] === SLOT_SEND && send.has(stage)) || (this.bars.kind[i] === SLOT_RECEIVE && receive.has(stage));
    });
  }

  isCut(e) {
    const [from, to] = [this.deviceOf[this.edgeSource[e]], this.deviceOf[this.edgeTarget[e]]];
    return from >= 0 && to >= 0 && from !== to;
  }

  /** Tensors of the cut edges between nodes for which `test(source, target, edge)` holds, as a set. */
  tensorsWhere(test) {
    const tensors = new Set();
    for (let e = 0; e < this.edgeSource.length; e += 1) {
      const u = this.edgeSource[e];
      if (this.isCut(e) && test(u, this.edgeTarget[e], e)) tensors.add(this.tensorOfEdge(e));
    }
    tensors.delete(undefined);
    return tensors;
  }

  /** Mask of a level's edges that stand for edges between nodes for which `test(source, target, edge)` holds. */
  edgesWhere(level, test) {
    const mask = new Uint8Array(level.edges.source.length);
    const edgeOf = edgesOfLevel(level, this.edgeSource, this.edgeTarget);
    for (let e = 0; e < edgeOf.length; e += 1) {
      if (edgeOf[e] >= 0 && test(this.edgeSource[e], this.edgeTarget[e], e)) mask[edgeOf[e]] = 1;
    }
    return mask;
  }

  /** The ties that one of some nodes belongs to: each the nodes that must share a device. */
  tiesOf(nodes) {
    const own = new Set(nodes);
    return this.ties.filter((tie) => tie.some((i) => own.has(i)));
  }

  /** Mask of a level's boxes that hold a node of a mask. */
  boxesOf(level, mask) {
    const boxes = new Uint8Array(level.boxes.label.length);
    for (let i = 0; i < mask.length; i += 1) if (mask[i] === 1) boxes[level.boxOfNode[i]] = 1;
    return boxes;
  }

  /** What a drawn edge moves between devices: each {tensor, devices}. */
  movesOfEdge(level, edge) {
    const edgeOf = edgesOfLevel(level, this.edgeSource, this.edgeTarget);
    const targets = new Map();
    for (let e = 0; e < edgeOf.length; e += 1) {
      if (edgeOf[e] !== edge || !this.isCut(e)) continue;
      const tensor = this.tensorOfEdge(e);
      if (tensor === undefined) continue;
      if (!targets.has(tensor)) targets.set(tensor, new Set());
      targets.get(tensor).add(this.deviceOf[this.edgeTarget[e]]);
    }
    return [...targets].map(([tensor, devices]) => ({ tensor, devices }));
  }
}

/** For each edge between nodes the edge of the level that stands for it, -1 inside a box; made once per level. */
export function edgesOfLevel(level, source, target) {
  if (level.edgeOfEdge) return level.edgeOfEdge;
  const number = new Map();
  const numBoxes = level.boxes.label.length;
  for (let e = 0; e < level.edges.source.length; e += 1) number.set(level.edges.source[e] * numBoxes + level.edges.target[e], e);
  level.edgeOfEdge = Int32Array.from(source, (u, e) =>
    number.get(level.boxOfNode[u] * numBoxes + level.boxOfNode[target[e]]) ?? -1);
  return level.edgeOfEdge;
}
