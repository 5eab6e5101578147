/* Several pictures on one page that follow each other: those whose message names the same `syncGroup`.

   What is sent must make sense for another plan of the same graph: nodes go by id, tensors by the node that makes them and their name,
   bars and stages by what they have in common, and views only where the other picture has the same drawing. */

import { thingOfNodes } from "../data/store.js";

const SYNC_EVENT = "placement-sync";

export class Sync {
  /** `receive(topic, value)` hears what the others of the group send. */
  constructor(receive) {
    this.group = null;
    this.receive = receive;
    this.listener = ({ detail }) => {
      if (this.group !== null && detail.group === this.group && detail.sender !== this) this.receive(detail.topic, detail.value);
    };
    window.addEventListener(SYNC_EVENT, this.listener);
  }

  join(group) {
    this.group = group ?? null;
  }

  /** Tell the others; topics are "hover", "select", "level", "graphView", "ganttView" and "playhead". */
  send(topic, value) {
    if (this.group === null) return;
    window.dispatchEvent(new CustomEvent(SYNC_EVENT, { detail: { group: this.group, sender: this, topic, value } }));
  }

  destroy() {
    window.removeEventListener(SYNC_EVENT, this.listener);
  }
}

/** A thing (see store.js) in words that hold for every plan of a graph; null for none. */
export function portableThing(store, thing) {
  if (!thing) return null;
  const { links, level, data } = store;
  const ids = (nodes) => Array.from(nodes, (i) => data.graph.nodes.id[i]);
  switch (thing.kind) {
    case "node": case "nodes": case "group": return { kind: "nodes", ids: ids(thing.nodes) };
    case "stage": return { kind: "nodes", ids: ids(links.nodesOfStage[thing.stage]) };
    case "tensor": return { kind: "tensor", id: ids([links.tensors[thing.tensor].source])[0], name: links.tensors[thing.tensor].name };
    case "edge": {
      const [move] = links.movesOfEdge(level, thing.edge);
      return move ? { kind: "tensor", id: ids([links.tensors[move.tensor].source])[0], name: links.tensors[move.tensor].name } : null;
    }
    case "bar": return { kind: "microBatch", microBatch: links.bars.microBatch[thing.bar] };
    case "device": return { kind: "device", device: thing.device };
    default: return thing;
  }
}

/** The thing that portable words stand for in this picture; null where it has no such thing. */
export function thingFromPortable(store, portable) {
  if (!portable || !store.data) return null;
  const { links, data } = store;
  const nodes = (ids) => ids.map((id) => links.indexOf(id)).filter((i) => i >= 0);
  switch (portable.kind) {
    case "nodes": return thingOfNodes(nodes(portable.ids));
    case "tensor": {
      const [source] = nodes([portable.id]);
      const tensor = links.tensorOfNode(source, portable.name);
      // Where it is not cut, the node that makes it.
      return tensor === undefined ? thingOfNodes(source === undefined ? [] : [source]) : { kind: "tensor", tensor };
    }
    case "device": return data.devices[portable.device] ? { kind: "device", device: portable.device } : null;
    case "microBatch": case "range": return data.gantt ? portable : null;
    default: return null;
  }
}
