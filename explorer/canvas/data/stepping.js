/* To the next and the previous of whatever is selected. */

import { thingOfBox } from "./store.js";

/** The thing `step` places after the selected one among its like; null where there is none, or nothing is selected. */
export function neighbourOf(store, step) {
  const { selection, links, data, level } = store;
  if (!selection) return null;
  const within = (at, length) => (at + step >= 0 && at + step < length ? at + step : -1);
  const numbered = (kind, length) => {
    const at = within(selection[kind], length);
    return at < 0 ? null : { kind, [kind]: at };
  };
  switch (selection.kind) {
    case "node": {
      const at = within(selection.nodes[0], links.numNodes);
      return at < 0 ? null : { kind: "node", nodes: [at] };
    }
    case "group": {
      if (level.name !== selection.level) return null;
      const at = within(selection.box, level.boxes.label.length);
      return at < 0 ? null : thingOfBox(level, at);
    }
    case "device": return numbered("device", data.devices.length);
    case "stage": return numbered("stage", links.stages.length);
    case "tensor": return numbered("tensor", links.tensors.length);
    case "microBatch": return numbered("microBatch", data.gantt.numMicroBatches);
    default: return null;
  }
}
