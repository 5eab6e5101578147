/* A selection as Python hears of it: by ids, device numbers and times in ms (see `Selection` in explorer/picture/component.py). */

/** What Python hears of a selection. With the graph it was made in: it must not be taken for one in another. */
export function selectionForPython(store, thing) {
  if (!thing) return null;
  const { data, links, level } = store;
  const ids = (nodes) => nodes.map((i) => data.graph.nodes.id[i]);
  const value = {
    node: () => ({ node: ids(thing.nodes)[0] }),
    nodes: () => ({ nodes: ids(thing.nodes) }),
    group: () => ({ group: level.boxes.title[thing.box], nodes: ids(thing.nodes) }),
    device: () => ({ device: thing.device }),
    stage: () => ({ device: links.stages[thing.stage].device, stage: thing.stage }),
    tensor: () => ({ tensor: ids([links.tensors[thing.tensor].source])[0] }),
    bar: () => {
      const { stage, microBatch, lane } = links.bars;
      return { device: links.deviceOfLane[lane[thing.bar]], stage: stage[thing.bar], micro_batch: microBatch[thing.bar] };
    },
    microBatch: () => ({ micro_batch: thing.microBatch }),
    range: () => ({ from_ms: thing.fromMs, to_ms: thing.toMs }),
  }[thing.kind]();
  return { ...value, graph: data.graph?.digest ?? null };
}
