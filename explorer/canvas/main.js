/* The component: one graph and one timeline that share what is highlighted and selected.

   Streamlit calls the default export at mount and again whenever the data or the theme change; the picture
   built at mount is kept on the parent element and updated in place. Selections go to Python only from clicks.

   For tests, the root element (class "placed-pipeline") carries a read-only `__placement`:
     nodes, bars     how many there are            level, view, ganttView   what is shown, and where
     selection       what Python was told          screenPositionOf(id)     page coordinates of a node's box
     boxColourOf(id) fill it should have           barPosition(i)           page coordinates of a bar's middle */

import { GanttPicture, TOP, ganttHeight } from "./gantt_canvas.js";
import { GraphPicture, MAX_FIT_SCALE } from "./graph_canvas.js";
import { Details, Legend, Toolbar, Tooltip, describeBar, describeBox, describeEdge, describeLane, make } from "./panel.js";
import { unpack } from "./payload.js";
import { Surface } from "./surface.js";
import { Patterns, readTheme } from "./theme.js";

const GRAPH_HEIGHT = 420;
const LEAST_GRAPH_HEIGHT = 240;
const SAVE_DELAY_MS = 200;
const PAN_STEP = 60;

class PlacedPipeline {
  constructor(parent) {
    this.data = this.level = this.theme = this.hovered = this.selection = this.search = null;
    // The level the user asked for; while there is none, the data say which one to show.
    this.chosenLevel = null;
    this.patterns = new Patterns();
    this.views = {};
    const actions = this.actions();
    this.legend = new Legend(actions);
    this.toolbar = new Toolbar(actions, this.legend.keys);
    this.details = new Details(actions);
    this.tooltip = new Tooltip();
    this.graphCanvas = make("canvas", { className: "graph", role: "img", tabindex: "0" });
    this.ganttCanvas = make("canvas", { className: "gantt", role: "img", tabindex: "0" });
    this.status = make("div", { className: "reader-only", role: "status", "aria-live": "polite" });
    this.graphArea = make("div", { className: "graph-area" }, [this.graphCanvas, this.details.element]);
    this.root = make("div", {
      className: "placed-pipeline", tabindex: "-1", role: "group",
      "aria-label": "Placed graph and timeline. Keys: F fit, slash search, Escape clears; plus and minus zoom and arrows pan "
        + "the one of the two that has the focus or the pointer.",
      onkeydown: (event) => this.key(event),
    }, [this.toolbar.element, this.legend.element, this.graphArea, this.ganttCanvas, this.tooltip.element, this.status]);
    parent.append(this.root);
    this.graph = new GraphPicture(this, actions);
    this.gantt = new GanttPicture(this, actions);
    this.graph.surface = new Surface(this.graphCanvas, this.graph);
    this.gantt.surface = new Surface(this.ganttCanvas, this.gantt);
    this.active = this.graph;
    this.observer = new ResizeObserver(() => this.setGraphHeight());
    this.observer.observe(this.root);
    for (const [canvas, picture] of [[this.graphCanvas, this.graph], [this.ganttCanvas, this.gantt]]) {
      for (const type of ["pointerenter", "focus"]) canvas.addEventListener(type, () => { this.active = picture; });
    }
    this.onPageKey = (event) => this.pageKey(event);
    document.addEventListener("keydown", this.onPageKey);
    Object.defineProperty(this.root, "__placement", { get: () => this.probe() });
  }

  /** What the pictures and panels may ask for. */
  actions() {
    return {
      hover: (what, event) => this.hover(what, event),
      clear: () => this.select(null),
      selectBox: (box) => this.selectBox(box),
      selectNode: (node) => this.selectNode(node),
      selectDevice: (device) => this.selectDevice(device),
      selectBar: (bar, device) => this.selectBar(bar, device),
      viewChanged: () => this.saveLater(),
      setLevel: (name) => this.setLevel(name),
      search: (text) => this.find(text),
      nextMatch: (step) => this.nextMatch(step),
      fit: () => this.fit(),
      zoom: (factor) => this.active.zoom(factor),
      focusPicture: () => this.root.focus({ preventScroll: true }),
    };
  }

  // Data

  update(component) {
    this.sendSelection = (value) => component.setStateValue("selection", value);
    const bytes = component.data;
    const incoming = bytes ? unpack(bytes) : null;
    if (incoming && incoming.digest !== this.data?.digest) this.show(incoming);
    if (this.data) this.refreshTheme();
  }

  show(data) {
    const old = this.data;
    const sameGraph = Boolean(old?.graph && data.graph && old.graph.digest === data.graph.digest);
    this.rememberView();
    if (sameGraph) this.graph.startTransition();
    this.data = data;
    this.storageKey = `placement-view ${data.key}`;
    const saved = sameGraph ? null : this.loadView();
    if (!sameGraph) {
      const isSaved = Boolean(saved) && saved.digest === data.graph?.digest;
      this.views = isSaved ? saved.views : {};
      this.chosenLevel = isSaved ? saved.chosenLevel ?? null : null;
      this.selection = this.hovered = null;
    }
    const levels = data.graph?.levels ?? [];
    const before = this.level?.name;
    this.level = levels.find((level) => level.name === this.chosenLevel)
      ?? levels.find((level) => level.name === data.graph.opening) ?? null;
    if (this.level?.name !== before) this.graph.widths.clear();
    this.toolbar.element.hidden = this.graphArea.hidden = !data.graph;
    this.ganttCanvas.hidden = !data.gantt;
    const ganttPixels = data.gantt ? ganttHeight(data.gantt) : 0;
    this.ganttPixels = ganttPixels;
    this.setGraphHeight();
    this.ganttCanvas.style.height = `${ganttPixels}px`;
    this.hovered = null;
    if (this.selection?.kind === "bar") this.selection = null;
    this.theme = readTheme(this.root, data.themes);
    this.graphCanvas.setAttribute("aria-label", data.graph?.summary ?? "");
    this.ganttCanvas.setAttribute("aria-label", data.gantt?.summary ?? "");
    if (data.graph) {
      this.toolbar.showLevels(levels, this.level.name);
      if (this.search) this.find(this.toolbar.input.value);
      this.graph.restore(this.views[this.level.name] ?? null);
    }
    if (data.gantt) {
      this.gantt.prepare();
      this.gantt.restore(this.views.gantt ?? null);
    }
    this.showDetails();
    this.graph.surface.resize();
    this.gantt.surface.resize();
  }

  /** A small graph takes a lower area, so that the picture has no large empty half; the rest get all there is. */
  setGraphHeight() {
    const { data, ganttPixels } = this;
    if (!data?.graph) return;
    const most = data.height ? Math.max(200, data.height - ganttPixels - 78) : GRAPH_HEIGHT;
    const width = this.root.clientWidth || 1000;
    const wanted = data.graph.levels.map((level) => level.height * Math.min(MAX_FIT_SCALE, width / level.width) + 40);
    this.graphArea.style.height = `${Math.round(Math.min(most, Math.max(LEAST_GRAPH_HEIGHT, ...wanted)))}px`;
  }

  refreshTheme() {
    this.theme = readTheme(this.root, this.data.themes);
    this.root.classList.toggle("dark", this.theme.dark);
    this.root.style.setProperty("--transfer", this.theme.palette.transfer);
    this.legend.show(this.data, this.theme);
    this.legend.mark(this.selection?.device ?? null);
    this.redraw();
  }

  redraw() {
    this.graph.surface.invalidate();
    this.gantt.surface.invalidate();
  }

  setLevel(name) {
    if (!this.data?.graph) return;
    this.chosenLevel = name;
    if (name === this.level.name) return;
    this.rememberView();
    this.level = this.data.graph.levels.find((level) => level.name === name);
    this.hovered = null;
    if (this.search) this.find(this.toolbar.input.value);
    this.toolbar.showLevels(this.data.graph.levels, name);
    this.graph.widths.clear();
    this.graph.restore(this.views[name] ?? null);
    this.status.textContent = `${this.level.boxes.label.length} boxes shown`;
    this.saveLater();
  }

  // The view survives new data for the same graph, and a change of page

  rememberView() {
    if (this.level && this.graph.view) this.views[this.level.name] = { ...this.graph.view };
    if (this.data?.gantt && this.gantt.view) this.views.gantt = { ...this.gantt.view };
  }

  saveLater() {
    clearTimeout(this.saving);
    this.saving = setTimeout(() => this.save(), SAVE_DELAY_MS);
  }

  save() {
    this.rememberView();
    const value = { digest: this.data?.graph?.digest, chosenLevel: this.chosenLevel, views: this.views };
    try {
      sessionStorage.setItem(this.storageKey, JSON.stringify(value));
    } catch {
      // Storage may be full or forbidden; the view is then kept on this page only.
    }
  }

  loadView() {
    try {
      return JSON.parse(sessionStorage.getItem(this.storageKey));
    } catch {
      return null;
    }
  }

  // Highlight and selection

  /** What stands out now: the thing under the pointer, else the selection. */
  focus() {
    const nothing = { device: null, box: -1, edge: -1, microBatch: null };
    if (this.hovered) return { ...nothing, ...this.hovered };
    if (this.selection?.kind === "device") return { ...nothing, device: this.selection.device };
    if (this.selection?.kind === "bar") {
      return { ...nothing, device: this.selection.device, microBatch: this.selection.microBatch };
    }
    return nothing;
  }

  /** The box that shows the selected node or group at this level; -1 when none does. */
  selectedBox() {
    if (!this.level || !this.selection?.nodes) return -1;
    return this.level.boxOfNode[this.selection.nodes[0]];
  }

  hover(what, event) {
    const key = what ? JSON.stringify(what) : "";
    if (key !== this.hoverKey) {
      this.hoverKey = key;
      this.hovered = what;
      this.legend.mark(what?.device ?? this.selection?.device ?? null);
      this.redraw();
    }
    if (!what || !event) return this.tooltip.hide();
    if (what.box >= 0) this.tooltip.show(describeBox(this.data, this.level, what.box), event, this.root);
    else if (what.edge >= 0) this.tooltip.show(describeEdge(this.data, this.level, what.edge), event, this.root);
    else if (what.bar >= 0) {
      const lane = this.gantt.bars.lane[what.bar];
      this.tooltip.show(describeBar(this.data, this.gantt.bars, what.bar, lane), event, this.root);
    } else if (what.lane >= 0) this.tooltip.show(describeLane(this.data, what.lane), event, this.root);
    else this.tooltip.hide();
    return undefined;
  }

  /** Change the selection; what Python hears is in `value`. */
  select(selection, value = null) {
    const hadOne = this.selection !== null;
    this.selection = selection;
    this.legend.mark(selection?.device ?? null);
    this.showDetails();
    this.redraw();
    // With the graph it was made in: Python must not take it for a node or device of another one.
    if (selection || hadOne) this.sendSelection(value && { ...value, graph: this.data.graph?.digest ?? null });
  }

  selectBox(box) {
    const nodes = this.level.boxes.nodes[box];
    if (nodes.length === 1) return this.selectNode(nodes[0]);
    const ids = nodes.map((i) => this.data.graph.nodes.id[i]);
    return this.select({ kind: "group", nodes, level: this.level.name, box },
      { group: this.level.boxes.title[box], nodes: ids });
  }

  selectNode(i) {
    this.select({ kind: "node", nodes: [i] }, { node: this.data.graph.nodes.id[i] });
    const [x, y] = this.graph.toScreen(this.level.x[this.level.boxOfNode[i]], this.level.y[this.level.boxOfNode[i]]);
    if (x < 0 || y < 0 || x > this.graph.surface.width || y > this.graph.surface.height) {
      this.graph.centreOn(this.level.boxOfNode[i]);
    }
  }

  selectDevice(device) {
    if (this.selection?.kind === "device" && this.selection.device === device) return this.select(null);
    return this.select({ kind: "device", device }, { device });
  }

  selectBar(bar, device) {
    const { stage, microBatch } = this.gantt.bars;
    this.select({ kind: "bar", bar, device, microBatch: microBatch[bar] },
      { device, stage: stage[bar], micro_batch: microBatch[bar] });
  }

  showDetails() {
    const { selection, data } = this;
    if (!selection || !data?.graph) this.details.hide();
    else if (selection.kind === "node") this.details.showNode(data, selection.nodes[0]);
    else if (selection.kind === "group") {
      const level = data.graph.levels.find((l) => l.name === selection.level);
      if (level) this.details.showGroup(data, level, level.boxOfNode[selection.nodes[0]]);
      else this.details.hide();
    } else if (selection.kind === "bar") this.details.showBar(data, this.gantt.bars, selection.bar);
    else this.details.showDevice(data, data.devices[selection.device]);
    if (selection && data?.graph) this.status.textContent = this.details.element.innerText;
  }

  // Search

  find(text) {
    text = text.trim();
    if (!text) {
      this.search = null;
    } else {
      const { nodes } = this.data.graph;
      const test = matcher(text);
      const matches = [];
      for (let i = 0; i < nodes.id.length; i += 1) {
        if (String(nodes.id[i]) === text || test(nodes.name[i]) || (nodes.layer[i] !== null && test(nodes.layer[i]))) matches.push(i);
      }
      // The node with exactly this id comes first.
      matches.sort((a, b) => (String(nodes.id[b]) === text) - (String(nodes.id[a]) === text) || a - b);
      this.search = { matches, at: -1, boxes: new Set(matches.map((i) => this.level.boxOfNode[i])) };
    }
    this.toolbar.showCount(this.search);
    this.graph.surface.invalidate();
  }

  nextMatch(step) {
    const { search } = this;
    if (!search?.matches.length) return;
    const { boxOfNode } = this.level;
    const last = search.at < 0 ? -1 : boxOfNode[search.matches[search.at]];
    const n = search.matches.length;
    for (let k = 0; k < n; k += 1) {
      search.at = (search.at + step + n) % n;
      if (search.at < 0) search.at = 0;
      if (boxOfNode[search.matches[search.at]] !== last) break;
    }
    const node = search.matches[search.at];
    this.toolbar.showCount(search);
    this.graph.centreOn(boxOfNode[node]);
    this.selection = { kind: "node", nodes: [node] };
    this.showDetails();
    this.redraw();
  }

  // Keyboard

  fit() {
    this.graph.fit();
    this.gantt.fit();
  }

  key(event) {
    if (event.target.closest?.("input") || event.ctrlKey || event.metaKey || event.altKey) return;
    const pans = { ArrowLeft: [1, 0], a: [1, 0], ArrowRight: [-1, 0], d: [-1, 0],
      ArrowUp: [0, 1], w: [0, 1], ArrowDown: [0, -1], s: [0, -1] };
    const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (name in pans) this.active.pan(pans[name][0] * PAN_STEP, pans[name][1] * PAN_STEP);
    else if (name === "f") this.fit();
    else if (name === "+" || name === "=") this.active.zoom(1.3);
    else if (name === "-" || name === "_") this.active.zoom(1 / 1.3);
    else if (name === "/") this.toolbar.input.focus();
    else if (name === "Escape") this.select(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Keys pressed elsewhere on the page: search and fit work from everywhere but where one types. */
  pageKey(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || this.root.clientWidth === 0) return;
    const target = event.composedPath()[0];
    if (target.isContentEditable || target.closest?.("input, textarea, select, [role=dialog]")) return;
    if (event.key === "/" && this.data?.graph) this.toolbar.input.focus();
    else if (event.key.toLowerCase() === "f") this.fit();
    else return;
    event.preventDefault();
  }

  // Tests

  probe() {
    const onPage = (canvas, [x, y]) => {
      const box = canvas.getBoundingClientRect();
      return { x: box.left + x, y: box.top + y };
    };
    const indexOf = (id) => this.data.graph.nodes.id.indexOf(id);
    return Object.freeze({
      nodes: this.data?.graph?.nodes.id.length ?? 0,
      bars: this.data?.gantt ? this.gantt.bars.lane.length : 0,
      level: this.level?.name ?? null,
      view: this.graph.view && { ...this.graph.view },
      ganttView: this.gantt.view && { ...this.gantt.view },
      selection: this.selection && { ...this.selection },
      focus: this.focus(),
      digest: this.data?.digest ?? null,
      screenPositionOf: (id) => {
        const box = this.level.boxOfNode[indexOf(id)];
        return onPage(this.graphCanvas, this.graph.toScreen(this.level.x[box], this.level.y[box]));
      },
      boxColourOf: (id) => this.graph.colours()[this.level.boxOfNode[indexOf(id)]],
      barPosition: (i) => {
        const { bars, laneHeight } = this.gantt;
        const x = this.gantt.toX((bars.start[i] + bars.end[i]) / 2);
        return onPage(this.ganttCanvas, [x, TOP + (bars.lane[i] + 0.5) * laneHeight - this.gantt.view.offset]);
      },
    });
  }

  destroy() {
    clearTimeout(this.saving);
    if (this.data) this.save();
    document.removeEventListener("keydown", this.onPageKey);
    this.observer.disconnect();
    this.graph.surface.destroy();
    this.gantt.surface.destroy();
    this.root.remove();
  }
}

/** A test for a search text: a regular expression if it is one, plain text otherwise; case does not matter. */
function matcher(text) {
  try {
    const pattern = new RegExp(text, "i");
    return (name) => pattern.test(name);
  } catch {
    const plain = text.toLowerCase();
    return (name) => name.toLowerCase().includes(plain);
  }
}

export default function mount(component) {
  const { parentElement } = component;
  parentElement.placedPipeline ??= new PlacedPipeline(parentElement);
  const picture = parentElement.placedPipeline;
  picture.update(component);
  // Streamlit may clean up an outdated call after a newer one took over; only the newest may take the picture down.
  const call = Symbol("call");
  picture.call = call;
  return () => {
    if (picture.call !== call) return;
    picture.destroy();
    if (parentElement.placedPipeline === picture) delete parentElement.placedPipeline;
  };
}
