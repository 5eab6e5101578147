/* Around the canvases: toolbar, tooltip. Names are set as text, never as HTML. */

import { LEVEL_BLOCKS, LEVEL_LAYERS, PASS_NAMES, SLOT_WORDS } from "../kit/contract.js";
import { make } from "../kit/dom.js";
import { formatBytes, formatCount, formatMove, formatMs, formatPercent } from "../kit/quantities.js";
import { pieceLetter } from "../timeline/gantt_bars.js";
import { levelButtons } from "../graph/level_buttons.js";

/** Pixels of what is said under the search box, where there is room for so many. */
const MOST_SAID = 420;
const SEARCH_HINT = "Words or regular expressions in names and layers, and conditions such as\n"
  + "time>1ms   memory>100MB   output>1MiB   transfer>0.1\ndevice:2   layer:attention   id:17   cut   backward   -cut\n"
  + "All must hold. In quotes a text stands for itself. Enter goes to the next match.";

/** The device's short label on its colour, as on its boxes and bars. */
export function deviceChip(device) {
  const { forward, pattern } = device.colour;
  const chip = make("span", { className: `chip pattern-${pattern}`, text: device.label });
  chip.style.setProperty("--fill", forward.fill);
  chip.style.setProperty("--on-fill", forward.text);
  return chip;
}

/** Pixels on either side of a count in the search box, behind the cross that empties it. */
const BESIDE_COUNT = 8;

/** Levels of detail, search, zoom. */
export class Toolbar {
  constructor(actions) {
    this.actions = actions;
    this.levels = make("div", { className: "levels", role: "group", "aria-label": "Level of detail" });
    this.input = make("input", {
      type: "search", placeholder: "Find a node  ( / )", "aria-label": "Find nodes by name, id or attribute", title: SEARCH_HINT,
      spellcheck: "false", oninput: () => actions.search(this.input.value), onkeydown: (event) => this.key(event),
    });
    this.count = make("span", { className: "count", role: "status", "aria-live": "polite" });
    const button = (text, label, onclick) => make("button", { text, title: label, "aria-label": label, onclick, type: "button" });
    this.element = make("div", { className: "toolbar" }, [
      this.levels,
      make("div", { className: "search-and-zoom" }, [
        make("div", { className: "search" }, [this.input, this.count]),
        make("div", { className: "zoom", role: "group", "aria-label": "View" }, [
          button("−", "Zoom out ( - )", () => actions.zoom(1 / 1.4)),
          button("+", "Zoom in ( + )", () => actions.zoom(1.4)),
          button("Fit", "Fit: show everything ( F )", () => actions.fit()),
          button("?", "Keys ( ? )", () => actions.showKeys()),
        ]),
      ]),
    ]);
  }

  key(event) {
    if (event.key === "Enter") this.actions.nextMatch(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") {
      this.clearSearch();
      this.actions.focusPicture();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  clearSearch() {
    this.input.value = "";
    this.actions.search("");
  }

  /** Press the button of a level by its place, from 0. */
  pressLevel(place) {
    this.levels.children[place]?.click();
  }

  showLevels(levels, current) {
    if (current === LEVEL_LAYERS || current === LEVEL_BLOCKS) this.folds = current === LEVEL_BLOCKS;
    this.levels.replaceChildren(...levelButtons(levels, current, this.folds, (name) => this.actions.setLevel(name)));
    this.levels.hidden = levels.length < 2;
  }

  showCount(search) {
    this.count.classList.toggle("none", Boolean(search) && search.matches.length === 0);
    this.count.classList.toggle("wrong", Boolean(search?.error));
    this.input.setAttribute("aria-invalid", String(Boolean(search?.error)));
    if (search?.error) this.count.textContent = search.error;
    else if (!search) this.count.textContent = "";
    else if (!search.matches.length) this.count.textContent = "no match";
    else if (search.at < 0) this.count.textContent = `${formatCount(search.matches.length)} found`;
    else this.count.textContent = `${formatCount(search.at + 1)} of ${formatCount(search.matches.length)}`;
    this.placeCount();
  }

  /** Keep the count in the box, behind what is typed, and what is said under the box within the toolbar. */
  placeCount() {
    const { style } = this.count;
    const isInside = Boolean(this.count.textContent) && !this.count.classList.contains("wrong");
    this.input.style.paddingRight = isInside ? `${this.count.offsetWidth + 2 * BESIDE_COUNT}px` : "";
    if (isInside) {
      style.left = `${this.input.offsetLeft + this.input.offsetWidth - this.count.offsetWidth - BESIDE_COUNT}px`;
      return;
    }
    const [room, box] = [this.element, this.input].map((element) => element.getBoundingClientRect());
    style.maxWidth = `${Math.min(MOST_SAID, room.width)}px`;
    style.left = "0";
    style.left = `${Math.min(0, room.right - box.left - this.count.offsetWidth)}px`;
  }
}

/** Write how many things there are. */
export function counted(count, name) {
  return `${formatCount(count)} ${name}${count === 1 ? "" : "s"}`;
}

/** A note at the pointer. */
export class Tooltip {
  constructor() {
    this.element = make("div", { className: "tooltip", hidden: "", role: "tooltip" });
  }

  /** `kept` is the area in the window that it must leave free, {left, top, right, bottom}; null for none. */
  show(lines, event, root, kept = null) {
    const [title, ...rest] = lines;
    this.element.replaceChildren(make("b", { text: title }), ...rest.map((text) => make("div", { text })));
    this.element.hidden = false;
    const box = root.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const { offsetWidth, offsetHeight } = this.element;
    const left = x + 16 + offsetWidth > box.width ? x - 12 - offsetWidth : x + 16;
    const [above, below] = kept ? [kept.top - box.top - 6, kept.bottom - box.top + 6] : [y - 10, y + 14];
    const top = below + offsetHeight > box.height ? above - offsetHeight : below;
    this.element.style.transform = `translate(${Math.max(2, left)}px, ${Math.max(2, top)}px)`;
  }

  hide() {
    this.element.hidden = true;
  }
}

/** Lines of the note about a thing at the pointer; null where there is nothing to add. */
export function describeThing({ data, level, links }, thing) {
  if (thing.note) return thing.note;
  if (thing.kind === "node" || thing.kind === "group") return describeBox(data, links, level, level.boxOfNode[thing.nodes[0]]);
  if (thing.kind === "edge") return describeEdge(data, level, thing.edge);
  if (thing.kind === "bar") return describeBar(data, links.bars, thing.bar);
  if (thing.kind === "device" && thing.lane >= 0) return describeLane(data, thing.lane);
  return null;
}

function describeBox(data, links, level, box) {
  const { boxes } = level;
  const { nodes } = data.graph;
  const where = boxes.shares[box].map(([d]) => data.devices[d].name).join(", ") || "not placed";
  if (boxes.nodes[box].length > 1) {
    return [boxes.title[box], `${formatCount(boxes.nodes[box].length)} nodes${boxes.backward[box] ? ", backward" : ""} · ${where}`,
      `${formatMs(boxes.timeMs[box])} of compute`, ...describeSeam(level.seams.get(box))];
  }
  const i = boxes.nodes[box][0];
  const lines = [boxes.title[box], `id ${nodes.id[i]}${nodes.backward[i] ? ", backward" : ""} · ${where}`,
    `${formatMs(boxes.timeMs[box])} · ${formatBytes(nodes.memoryBytes[i])}`];
  for (const output of links.outputsOf(i)) {
    const tensor = links.tensors[links.tensorOfOutput.get(output)];
    if (tensor) lines.push(`${tensor.name || "output"} is cut: ${formatMove(tensor.sendMs, tensor.receiveMs, " to move")}`);
  }
  return lines;
}

function describeSeam(seam) {
  return seam ? [`${counted(seam.tensors, "tensor")} cut inside: ${formatMove(seam.sendMs, [seam.receiveMs], " to move")}`] : [];
}

function describeEdge(data, level, e) {
  const { boxes, edges } = level;
  const names = (box) => boxes.shares[box].map(([d]) => data.devices[d].name).join(", ");
  const tensors = edges.tensors[e] > 1 ? `${edges.tensors[e]} tensors, ` : "";
  return [`${boxes.title[edges.source[e]]} → ${boxes.title[edges.target[e]]}`,
    `${names(edges.source[e])} → ${names(edges.target[e])}`,
    `${tensors}${formatBytes(edges.cutBytes[e])}, ${formatMove(edges.sendMs[e], [edges.receiveMs[e]], " to move")}`,
    ...(edges.showsCost[e] ? [] : ["the same tensor as on another line to this device, moved once"])];
}

function describeLane(data, lane) {
  const { name, utilisation, bubbleFraction } = data.gantt.lanes[lane];
  if (utilisation === null) return [name];
  return [name, `busy ${formatPercent(utilisation)} of the time, idle ${formatPercent(bubbleFraction)}`];
}

function describeBar(data, bars, i) {
  const stage = data.gantt.stages[bars.stage[i]];
  const piece = stage.numPieces > 1 ? `, ${data.gantt.pieceName} ${pieceLetter(stage.piece)} of its device` : "";
  return [`${data.gantt.lanes[bars.lane[i]].name}, stage ${stage.number}${piece}`,
    `${SLOT_WORDS[bars.kind[i]]}, ${PASS_NAMES[stage.passIndex]}, micro-batch ${bars.microBatch[i]}`,
    `${formatMs(bars.start[i])} to ${formatMs(bars.end[i])}, takes ${formatMs(bars.end[i] - bars.start[i])}`];
}
