/* Buttons for the levels of detail. Layers and joined repeats ("blocks") are one level that can be folded. */

import { LEVEL_BLOCKS, LEVEL_LAYERS } from "../kit/contract.js";
import { make } from "../kit/dom.js";
import { formatCount } from "../kit/quantities.js";

const LEVEL_TITLES = { operators: "Nodes", parts: "Parts", layers: "Layers", blocks: "Layers", stages: "Stages", devices: "Devices" };
const HINTS = {
  operators: "Every node of the graph", parts: "Consecutive nodes are one box",
  layers: "A box per layer", blocks: "Repeated layers on one device are one box",
  stages: "What each device runs in one go", devices: "What passes between the devices",
};

/** The level that shows the same with repeats joined, or not joined; undefined where there is none. */
export function foldedTwin(levels, name) {
  const other = { [LEVEL_LAYERS]: LEVEL_BLOCKS, [LEVEL_BLOCKS]: LEVEL_LAYERS }[name];
  return levels.find((level) => level.name === other);
}

/** One button per level, the coarsest first; `folds` says which of layers and joined layers stands for both. */
export function levelButtons(levels, current, folds, choose) {
  const hidden = folds ? LEVEL_LAYERS : LEVEL_BLOCKS;
  const shown = levels.filter((level) => level.name !== hidden || !foldedTwin(levels, hidden)).reverse();
  return shown.map((level) => make("button", {
    type: "button", className: level.name === current ? "on" : "", title: HINTS[level.name] ?? "",
    "aria-pressed": String(level.name === current), onclick: () => choose(level.name),
  }, [
    make("span", { text: LEVEL_TITLES[level.name] ?? level.name }),
    make("small", { text: formatCount(level.boxes.label.length) }),
  ]));
}
