/* Hand edits: what is selected can be moved, pinned and kept together; steps can be taken back. Python does all of it
   and answers with a new message to the picture, whose `edits` say what is pinned and what came of the last edit. */

import { EDIT_MOVE, EDIT_PIN, EDIT_REDO, EDIT_REPAIR, EDIT_RESET, EDIT_RESOLVE, EDIT_TOGETHER, EDIT_UNDO, EDIT_UNPIN } from "../kit/contract.js";
import { make } from "../kit/dom.js";
import { formatBytes, formatCount, formatMs } from "../kit/quantities.js";
import { deviceChip } from "./panel.js";

const EDIT_WORDS = { [EDIT_MOVE]: "Moving", [EDIT_PIN]: "Pinning", [EDIT_UNPIN]: "Unpinning", [EDIT_TOGETHER]: "Tying", [EDIT_UNDO]: "Undoing", [EDIT_REDO]: "Redoing",
  [EDIT_REPAIR]: "Looking for the least change that mends it", [EDIT_RESOLVE]: "Solving the rest", [EDIT_RESET]: "Dropping the edits" };
const PATIENCE_MS = 20000;
const DRAG_TYPE = "application/x-placement-selection";

export class EditBar {
  /** `actions.edit(event)` sends an edit to Python. */
  constructor(store, actions) {
    this.store = store;
    this.actions = actions;
    this.pendingOp = null;
    this.serial = null;
    this.awaitsDevice = false;
    this.row = make("div", { className: "edit-row" });
    this.message = make("p", { className: "edit-message", role: "status", "aria-live": "polite" });
    this.element = make("div", { className: "edit-bar", role: "group", "aria-label": "Edit the plan", hidden: "" },
      [this.row, this.message]);
    this.onKey = (event) => this.key(event);
    document.addEventListener("keydown", this.onKey);
  }

  destroy() {
    clearTimeout(this.patience);
    document.removeEventListener("keydown", this.onKey);
  }

  /** The edits of the message that is shown; null where the picture is only to look at. */
  get edits() {
    return this.store.data?.edits ?? null;
  }

  /** Nodes that an edit would be about: what is selected, or what a selected stage, bar or device holds. */
  selectedNodes() {
    const { selection, links, data } = this.store;
    if (!selection || !data?.graph || !links) return [];
    if (selection.nodes) return Array.from(selection.nodes);
    if (selection.kind === "device") return nodesOn(links.deviceOf, selection.device);
    const stage = selection.kind === "stage" ? selection.stage : selection.kind === "bar" ? links.bars.stage[selection.bar] : null;
    return stage === null ? [] : Array.from(links.nodesOfStage[stage] ?? []);
  }

  /** Take in a new message to the picture. */
  show() {
    const { edits } = this;
    this.element.hidden = !edits || !this.store.data.graph;
    if (!edits) return;
    if (edits.serial !== this.serial) {
      this.serial = edits.serial;
      this.settle();
    }
    this.draw();
  }

  settle() {
    clearTimeout(this.patience);
    this.pendingOp = null;
  }

  /** Ask Python for an edit. */
  send(op, more = {}) {
    if (this.pendingOp || !this.edits) return;
    const { id } = this.store.data.graph.nodes;
    this.pendingOp = op;
    this.awaitsDevice = false;
    clearTimeout(this.patience);
    this.patience = setTimeout(() => { this.settle(); this.draw(); }, PATIENCE_MS);
    this.draw();
    this.actions.edit({ op, nodes: this.selectedNodes().map((i) => id[i]), graph: this.store.data.graph.digest, ...more });
  }

  draw() {
    const { edits } = this;
    if (!edits || this.element.hidden) return;
    const focused = this.row.getRootNode().activeElement?.closest?.(".edit-row") ? this.row.getRootNode().activeElement.dataset.op : null;
    const nodes = this.selectedNodes();
    const parts = [];
    if (edits.whyNot) parts.push(make("span", { className: "edit-hint", text: edits.whyNot }));
    else if (nodes.length) parts.push(...this.selectionParts(nodes));
    else parts.push(make("span", { className: "edit-hint", text: "Select a box to move or pin it; Ctrl-click or Shift-click for several." }));
    parts.push(make("span", { className: "space" }));
    if (!edits.whyNot) parts.push(...this.historyParts());
    this.row.replaceChildren(...parts);
    if (focused) this.row.querySelector(`[data-op="${focused}"]`)?.focus({ preventScroll: true });
    this.drawMessage();
  }

  drawMessage() {
    const { edits } = this;
    const { message } = this;
    const text = this.pendingOp ? `${EDIT_WORDS[this.pendingOp]} …` : this.awaitsDevice ? "Move to which device? Press its number." : edits.message ?? "";
    message.hidden = !text;
    message.className = `edit-message ${this.pendingOp || this.awaitsDevice ? "busy" : edits.applied ? "done" : "refused"}`;
    const mark = this.pendingOp || this.awaitsDevice ? "" : edits.applied ? "✓" : "Not applied:";
    message.replaceChildren(...(mark ? [make("b", { text: mark })] : []), make("span", { text }));
  }

  selectionParts(nodes) {
    const { edits, store: { data, links } } = this;
    const homes = new Set(nodes.map((i) => links.deviceOf[i]));
    const pinned = new Set(edits.pinned);
    const tied = new Set(edits.together.flat());
    const name = nodes.length === 1 ? data.graph.nodes.name[nodes[0]] || `node ${data.graph.nodes.id[nodes[0]]}` : `${formatCount(nodes.length)} nodes`;
    const what = make("span", { className: "edit-what", text: name, title: `${name}: drag onto a device of the legend to move`, draggable: "true",
      ondragstart: (event) => { event.dataTransfer.setData(DRAG_TYPE, "selection"); event.dataTransfer.effectAllowed = "move"; } });
    const targets = data.devices.map((device) => this.target(device, homes.size === 1 && homes.has(device.device)));
    const group = edits.together.find((ids) => nodes.every((i) => ids.includes(i)));
    const parts = [what, make("span", { className: "edit-label", text: "Move to" }),
      make("span", { className: "edit-targets", role: "group", "aria-label": "Move the selection to" }, targets)];
    if (nodes.some((i) => !pinned.has(i))) parts.push(this.button(EDIT_PIN, "Pin", "Keep the selection where it is when the rest is repaired or solved"));
    if (nodes.length > 1 && !group) parts.push(this.button(EDIT_TOGETHER, "Keep together", "Keep the selection on one device from now on"));
    if (nodes.some((i) => pinned.has(i) || tied.has(i))) parts.push(this.button(EDIT_UNPIN, "Unpin", "Let the selection go: neither pinned nor kept together"));
    return parts;
  }

  target(device, isHome) {
    const free = device.capacityBytes === null || device.memoryBytes === null ? ""
      : device.memoryBytes > device.capacityBytes ? ", over its memory" : `, ${formatBytes(device.capacityBytes - device.memoryBytes, this.store.data.memoryUnit)} free`;
    const load = device.loadMs === null ? "" : ` (${formatMs(device.loadMs)}${free})`;
    const label = isHome ? `${device.name}: the selection is here` : `Move to ${device.name}${load}`;
    const button = make("button", { type: "button", title: label, "aria-label": label, "data-op": `move-${device.device}`,
      onclick: () => this.send(EDIT_MOVE, { device: device.device }) }, [deviceChip(device)]);
    button.disabled = isHome || this.pendingOp !== null;
    return button;
  }

  historyParts() {
    const { edits } = this;
    const parts = [];
    if (edits.isEdited || edits.canRedo) {
      parts.push(this.button(EDIT_UNDO, "Undo", "Take the last edit back ( Ctrl+Z )", edits.canUndo));
      parts.push(this.button(EDIT_REDO, "Redo", "Make it again ( Ctrl+Shift+Z )", edits.canRedo));
    }
    if (edits.isEdited) {
      parts.push(this.button(EDIT_REPAIR, "Repair", "Move as few nodes as possible until no rule is broken; pinned ones stay"));
      parts.push(this.button(EDIT_RESOLVE, "Re-solve the rest", "Find the best plan in which all that is pinned stays"));
      parts.push(this.button(EDIT_RESET, "Reset", "Drop all edits and show the solver's plan"));
    }
    return parts;
  }

  button(op, text, title, enabled = true) {
    const button = make("button", { type: "button", className: `edit-${op}`, text, title, "data-op": op, onclick: () => this.send(op) });
    button.disabled = !enabled || this.pendingOp !== null;
    return button;
  }

  // Keyboard, and dropping on the legend

  /** Undo and redo from anywhere on the page but where one types; M and a number move the selection. */
  key(event) {
    const { edits } = this;
    if (!edits || edits.whyNot || this.element.hidden || this.element.clientWidth === 0) return;
    const target = event.composedPath()[0];
    if (target.isContentEditable || target.closest?.("input, textarea, select, [role=dialog]")) return;
    const name = event.key.toLowerCase();
    if ((event.ctrlKey || event.metaKey) && !event.altKey && (name === "z" || name === "y")) {
      const op = name === "y" || event.shiftKey ? EDIT_REDO : EDIT_UNDO;
      if (op === EDIT_REDO ? edits.canRedo : edits.canUndo) this.send(op);
      else return;
    } else if (event.ctrlKey || event.metaKey || event.altKey) return;
    else if (this.awaitsDevice && name >= "1" && name <= "9") {
      const device = Number(name) - 1;
      if (device < this.store.data.devices.length) this.send(EDIT_MOVE, { device });
    } else if (name === "m" && this.selectedNodes().length) {
      this.awaitsDevice = true;
      this.drawMessage();
    } else {
      if (this.awaitsDevice && name !== "shift") {
        this.awaitsDevice = false;
        this.drawMessage();
      }
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  /** Let the selection be dropped on an entry of the legend. */
  acceptDropsOn(legend) {
    const deviceUnder = (event) => event.target.closest?.("[data-device]")?.dataset.device;
    legend.addEventListener("dragover", (event) => {
      if (!event.dataTransfer.types.includes(DRAG_TYPE) || deviceUnder(event) === undefined) return;
      event.preventDefault();
      event.dataTransfer.dropEffect = "move";
    });
    legend.addEventListener("drop", (event) => {
      const device = deviceUnder(event);
      if (!event.dataTransfer.types.includes(DRAG_TYPE) || device === undefined) return;
      event.preventDefault();
      this.send(EDIT_MOVE, { device: Number(device) });
    });
  }

  // Marks in the graph

  /** Draw a pin on every box that holds pinned nodes, and two rings where nodes are kept together. */
  drawMarks(ctx, { boxRect }) {
    const { edits, store: { level, theme } } = this;
    if (!edits || (!edits.pinned.length && !edits.together.length)) return;
    const boxes = new Map();
    const note = (i, kind) => {
      const box = level.boxOfNode[i];
      if (!boxes.has(box)) boxes.set(box, { node: i, pinned: 0, together: 0 });
      boxes.get(box)[kind] += 1;
    };
    for (const i of edits.pinned) note(i, "pinned");
    for (const ids of edits.together) for (const i of ids) note(i, "together");
    for (const [box, { node, pinned, together }] of boxes) {
      const { x, y, width, height } = boxRect(node);
      if (height < 6) continue;
      const size = Math.min(9, Math.max(5, height * 0.34));
      if (pinned) drawPin(ctx, x + size * 0.6, y, size, theme, pinned === level.boxes.nodes[box].length);
      if (together) drawTie(ctx, x + width - size * 0.8, y, size, theme);
    }
  }
}

function nodesOn(deviceOf, device) {
  const nodes = [];
  for (let i = 0; i < deviceOf.length; i += 1) if (deviceOf[i] === device) nodes.push(i);
  return nodes;
}

/** A pin stuck into the upper edge of a box, hollow where only some of its nodes are pinned. */
function drawPin(ctx, x, y, size, theme, isWhole) {
  ctx.save();
  ctx.lineWidth = 1.4;
  ctx.strokeStyle = theme.ink;
  ctx.beginPath();
  ctx.moveTo(x, y + size * 0.75);
  ctx.lineTo(x, y);
  ctx.stroke();
  ctx.beginPath();
  ctx.arc(x, y - size * 0.35, size * 0.48, 0, 2 * Math.PI);
  ctx.fillStyle = isWhole ? theme.ink : theme.background;
  ctx.fill();
  ctx.stroke();
  ctx.strokeStyle = theme.background;
  ctx.lineWidth = 1;
  ctx.beginPath();
  ctx.arc(x, y - size * 0.35, size * 0.48 + 1.3, 0, 2 * Math.PI);
  ctx.stroke();
  ctx.restore();
}

/** Two linked rings at the upper edge of a box. */
function drawTie(ctx, x, y, size, theme) {
  ctx.save();
  for (const [colour, width] of [[theme.background, 3.4], [theme.ink, 1.4]]) {
    ctx.strokeStyle = colour;
    ctx.lineWidth = width;
    for (const shift of [-0.32, 0.32]) {
      ctx.beginPath();
      ctx.arc(x + shift * size, y, size * 0.42, 0, 2 * Math.PI);
      ctx.stroke();
    }
  }
  ctx.restore();
}
