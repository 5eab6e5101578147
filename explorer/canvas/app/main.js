/* The component: one graph and one timeline that share what is highlighted and selected.

   Streamlit calls the default export at mount and again whenever the data or the theme change; the picture
   built at mount is kept on the parent element and updated in place. Selections go to Python only from clicks.

   For tests, the root element carries a read-only `__placement` (probe.js). */

import { Details } from "../panels/details.js";
import { make } from "../kit/dom.js";
import { inOrder } from "../kit/names.js";
import { EditBar } from "../panels/edit_bar.js";
import { GraphPicture } from "../graph/graph_canvas.js";
import { formatCount } from "../kit/quantities.js";
import { MAX_FIT_SCALE } from "../graph/graph_view.js";
import { Presentation } from "./presentation.js";
import { KeySheet, pressInside, pressOnPage } from "./keys.js";
import { Legend } from "../panels/legend.js";
import { Toolbar, Tooltip, describeThing } from "../panels/panel.js";
import { unpack } from "../data/payload.js";
import { probe } from "./probe.js";
import { parseSearch, searchable } from "../data/search.js";
import { selectionForPython } from "../data/selection.js";
import { neighbourOf } from "../data/stepping.js";
import { Store, thingOfBox } from "../data/store.js";
import { Surface } from "../kit/surface.js";
import { Sync, portableThing, thingFromPortable } from "./sync.js";
import { Tables } from "../panels/tables.js";
import { Patterns, readTheme } from "../kit/theme.js";
import { TimelinePart } from "../timeline/timeline.js";

/** The graph takes this share of the window, within these pixels: below it the lanes of the timeline must be seen too. */
const GRAPH_SHARE = 0.38;
const USUAL_HEIGHTS = [260, 420];
const LEAST_GRAPH_HEIGHT = 240;
const COMPACT_GRAPH_HEIGHT = 300;
const NARROW_PIXELS = 640;
const DETAILS_MARGIN = 24;
const SAVE_DELAY_MS = 200;
const TELL_DELAY_MS = 700;

export class PlacedPipeline {
  constructor(parent) {
    this.store = new Store();
    this.store.patterns = new Patterns();
    this.store.subscribe((what) => this.changed(what));
    // The level the user asked for; while there is none, the data say which one to show.
    this.chosenLevel = null;
    this.views = {};
    this.sync = new Sync((topic, value) => this.follow(topic, value));
    const actions = this.actions();
    this.legend = new Legend(actions);
    this.toolbar = new Toolbar(actions);
    this.details = new Details(actions);
    this.tooltip = new Tooltip();
    this.keySheet = new KeySheet();
    this.presentation = new Presentation(null, { changed: () => this.presentationChanged(), told: () => this.tellLook(),
      placeNote: () => this.placeNote(), clearNotes: () => this.graph.notes.clear() });
    this.tables = new Tables(this.store, actions);
    this.editBar = new EditBar(this.store, actions);
    this.editBar.acceptDropsOn(this.legend.element);
    this.graphCanvas = make("canvas", { className: "graph", role: "img", tabindex: "0" });
    this.status = make("div", { className: "reader-only", role: "status", "aria-live": "polite" });
    this.graphArea = make("div", { className: "graph-area" }, [this.graphCanvas]);
    this.graphPart = make("div", { className: "graph-part" }, [this.graphArea, this.details.element]);
    this.graph = new GraphPicture(this.store, actions);
    this.graph.surface = new Surface(this.graphCanvas, this.graph);
    this.graph.attach(this.toolbar.levels, this.graphArea);
    this.timeline = new TimelinePart(this.store, actions, this.graph);
    this.timeline.presentation = this.presentation;
    this.timeline.onPlayhead = (ms) => this.sync.send("playhead", ms);
    this.gantt = this.timeline.gantt;
    this.root = make("div", {
      className: "placed-pipeline", tabindex: "-1", role: "group",
      "aria-label": "Placed graph and timeline. Press the question mark for the keys.",
      onkeydown: (event) => pressInside(this, event),
    }, [this.presentation.element, make("div", { className: "toolbar-place" }, [this.toolbar.element]), make("div", { className: "legend-row" }, [this.legend.element]),
      make("div", { className: "keys-row" }, [this.editBar.element, this.legend.keys]),
      this.graphPart, this.timeline.element, this.tables.element, this.tooltip.element, this.keySheet.element, this.status]);
    this.presentation.root = this.root;
    parent.append(this.root);
    this.graph.marks = (ctx, place) => this.editBar.drawMarks(ctx, place);
    this.active = this.graph;
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(this.root);
    const { canvas: bars, memoryCanvas: memory } = this.timeline;
    for (const [canvas, picture] of [[this.graphCanvas, this.graph], [bars, this.gantt], [memory, this.gantt]]) {
      for (const type of ["pointerenter", "focus"]) canvas.addEventListener(type, () => { this.active = picture; });
    }
    this.onWindowResize = () => this.resized();
    window.addEventListener("resize", this.onWindowResize);
    this.onPageKey = (event) => pressOnPage(this, event);
    document.addEventListener("keydown", this.onPageKey);
    Object.defineProperty(this.root, "__placement", { get: () => probe(this) });
  }

  /** What the pictures and panels may ask for; `thing` is one of those listed in store.js. */
  actions() {
    return {
      hover: (thing, event) => this.hover(thing, event),
      select: (thing) => this.select(thing),
      extend: (nodes) => this.select(this.store.extended(nodes)),
      clear: () => this.select(null),
      selectBox: (box) => this.select(thingOfBox(this.store.level, box)),
      selectNode: (node) => this.selectNode(node),
      selectEdge: (edge) => this.selectEdge(edge),
      selectDevice: (device) => this.selectDevice(device),
      edit: (event) => this.sendEdit(event),
      selectBar: (bar) => this.select({ kind: "bar", bar }),
      viewChanged: () => this.viewChanged(),
      lookChanged: (look) => this.lookChanged(look),
      orderLanes: (isByDevice) => this.orderLanes(isByDevice),
      notesChanged: () => this.notesChanged(),
      setLevel: (name) => this.setLevel(name),
      search: (text) => this.find(text),
      nextMatch: (step) => this.nextMatch(step),
      fit: () => this.fit(),
      showKeys: () => this.keySheet.open(),
      zoom: (factor) => this.active.zoom(factor),
      focusPicture: () => this.root.focus({ preventScroll: true }),
    };
  }

  // Data

  update(component) {
    this.sendSelection = (value) => component.setStateValue("selection", value);
    this.sendLook = (value) => component.setStateValue("look", value);
    this.sendEdit = (event) => component.setTriggerValue("edit", event);
    const bytes = component.data;
    const incoming = bytes ? unpack(bytes) : null;
    if (incoming && incoming.digest !== this.store.data?.digest) this.show(incoming);
    if (this.store.data) this.refreshTheme();
  }

  show(data) {
    const { store } = this;
    const old = store.data;
    forgetMarks();
    const sameGraph = Boolean(old?.graph && data.graph && old.graph.digest === data.graph.digest);
    this.rememberView();
    this.sync.join(data.syncGroup);
    this.root.classList.toggle("compact", Boolean(data.compact));
    const isOtherSize = this.presentation.isLarge !== data.large;
    this.presentation.isLarge = data.large;
    this.presentation.windowShare = data.windowShare;
    this.root.classList.toggle("large", data.large);
    this.root.classList.toggle("without-graph", !data.graph);
    if (sameGraph) this.graph.startTransition();
    this.storageKey = `placement-view ${data.key}`;
    if (!sameGraph) {
      const saved = this.loadView(data.graph?.digest);
      this.views = saved?.views ?? {};
      this.chosenLevel = saved?.chosenLevel ?? null;
      if (saved?.look) this.graph.userLook = saved.look;
    }
    // A look from the page's address goes before what the user last chose here, once.
    if (data.look && data.look.serial !== this.lookSerial) {
      this.lookSerial = data.look.serial;
      this.chosenLevel = data.look.level;
      this.graph.userLook = data.look;
      this.graph.notes.all = data.look.notes;
      this.isByDevice = data.look.by_device;
      this.presentation.put(data.look.present);
    }
    this.presentation.show(data);
    this.presentation.clearButton.hidden = !this.graph.notes.all.length;
    const levels = data.graph?.levels ?? [];
    const before = store.level?.name;
    const level = levels.find((one) => one.name === this.chosenLevel)
      ?? levels.find((one) => one.name === data.graph.opening) ?? null;
    store.show(data, level, sameGraph);
    if (level?.name !== before) this.graph.widths.clear();
    this.toolbar.element.hidden = this.graphArea.hidden = !data.graph;
    this.ganttPixels = this.timeline.heightFor(data.gantt);
    this.setGraphHeight();
    store.theme = readTheme(this.root, data.themes);
    this.graphCanvas.setAttribute("aria-label", data.graph?.summary ?? "");
    if (data.graph) {
      this.toolbar.showLevels(levels, level.name);
      if (store.search) this.find(this.toolbar.input.value);
      this.graph.restore(this.views[this.graph.viewKey(level)] ?? null);
    }
    this.timeline.show(this.views.gantt);
    this.tables.element.hidden = Boolean(data.compact);
    if (!data.compact) this.tables.showSoon();
    this.editBar.show();
    this.showDetails();
    if (isOtherSize) this.presentationChanged();
    this.graph.surface.resize();
  }

  /** On a narrow screen details stand below the graph, elsewhere beside what they describe. */
  resized() {
    const width = this.root.clientWidth;
    if (this.presentation.isOn || this.presentation.isLarge) this.presentationChanged();
    const isNarrow = width < NARROW_PIXELS;
    this.root.classList.toggle("narrow", isNarrow);
    // A phone's window grows and shrinks with its bars while the page is scrolled: the picture must not jump with it.
    if (!isNarrow || width !== this.measuredWidth) this.windowHeight = window.innerHeight;
    this.measuredWidth = width;
    this.legend.fit();
    this.setGraphHeight();
    this.placeDetails();
  }

  /** The height of the graph's area. A small graph takes a lower one, so that the picture has no large empty half. */
  setGraphHeight() {
    const { ganttPixels, store: { data } } = this;
    if (!data?.graph) return;
    if (this.presentation.isOn) {
      // It takes what the others leave.
      this.graphArea.style.height = "";
      this.graphPart.style.setProperty("--graph-height", "100%");
      return;
    }
    const [low, high] = USUAL_HEIGHTS;
    const share = Math.min(high, Math.max(low, GRAPH_SHARE * (this.windowHeight ?? window.innerHeight)));
    const usual = data.compact ? COMPACT_GRAPH_HEIGHT : share;
    const most = data.height ? Math.max(200, data.height - ganttPixels - 78) : usual;
    const { zoom } = this.presentation;
    const width = (this.root.clientWidth || 1000) / zoom;
    const wanted = data.graph.levels.map((level) => level.height * Math.min(MAX_FIT_SCALE, width / level.width) + 40);
    const height = Math.round(zoom * Math.min(most, Math.max(LEAST_GRAPH_HEIGHT, ...wanted)));
    this.graphArea.style.height = `${height}px`;
    this.graphPart.style.setProperty("--graph-height", `${height}px`);
  }

  refreshTheme() {
    const { store } = this;
    store.theme = readTheme(this.root, store.data.themes);
    this.root.classList.toggle("dark", store.theme.dark);
    this.root.style.setProperty("--transfer", store.theme.palette.transfer);
    this.legend.show(store.data);
    this.showKeys();
    this.changed("theme");
  }

  /** Say what the lines of the level mean and how many there are. */
  showKeys() {
    const { store, graph } = this;
    const ties = store.level ? graph.shownTies({ box: -1 }).length : 0;
    this.legend.showKeys(store.data, store.level, ties);
  }

  /** Bring all views up to date with what is hovered and selected. */
  changed(what) {
    const { store } = this;
    this.legend.mark(store.focus().devices, store.selection?.kind === "device" ? store.selection.device : null);
    if (what === "selection") this.showDetails();
    if (what !== "hover") this.editBar.draw();
    if (!store.data?.compact) this.tables.changed(what);
    this.redraw();
  }

  redraw() {
    this.graph.surface.invalidate();
    this.timeline.redraw();
  }

  /** Show another level, here and in the pictures that follow this one. */
  setLevel(name) {
    this.showLevel(name);
    this.sync.send("level", name);
    this.tellLook();
  }

  showLevel(name) {
    const { store } = this;
    const levels = store.data?.graph?.levels;
    if (!levels?.some((level) => level.name === name)) return;
    this.chosenLevel = name;
    if (name === store.level.name) return;
    this.rememberView();
    store.setLevel(levels.find((level) => level.name === name));
    if (store.search) this.find(this.toolbar.input.value);
    this.toolbar.showLevels(levels, name);
    this.graph.widths.clear();
    this.showKeys();
    this.graph.restore(this.views[this.graph.viewKey(store.level)] ?? null);
    this.status.textContent = `${formatCount(store.level.boxes.label.length)} boxes shown`;
    this.saveLater();
  }

  // The view survives new data for the same graph, and a change of page

  rememberView() {
    const { data, level } = this.store;
    if (level && this.graph.view) this.views[this.graph.viewKey(level)] = { ...this.graph.view };
    if (data?.gantt && this.gantt.view) this.views.gantt = { ...this.gantt.view };
  }

  /** A view was moved by the user. */
  viewChanged() {
    this.saveLater();
    const { level, data } = this.store;
    if (level) {
      const { width, height } = this.graph.place;
      this.sync.send("graphView", { level: this.graph.viewKey(level), width, height, view: { ...this.graph.view } });
    }
    if (data?.gantt && this.gantt.view) this.sync.send("ganttView", { from: this.gantt.view.from, to: this.gantt.view.to });
  }

  /** Tell Python what is looked at, for the page's address; when the user pauses, since each time costs a run. */
  tellLook(delay = TELL_DELAY_MS) {
    clearTimeout(this.telling);
    this.telling = setTimeout(() => {
      this.sendLook({ level: this.chosenLevel, ...this.graph.userLook, serial: this.lookSerial ?? 0,
        present: this.presentation.isOn, notes: this.graph.notes.all, by_device: this.isByDevice ?? false });
    }, delay);
  }

  /** Colours or order of the graph were changed by the user. */
  lookChanged(look) {
    this.saveLater();
    this.sync.send("graphLook", look);
    this.tellLook();
  }

  /** Ask Python for the lanes in another order. */
  orderLanes(isByDevice) {
    this.isByDevice = isByDevice;
    this.tellLook(0);
  }

  // Presentation

  /** Draw everything at the size of the page or of the room. */
  presentationChanged() {
    const { zoom } = this.presentation;
    this.root.style.setProperty("--zoom", String(zoom));
    for (const surface of [this.graph.surface, ...this.timeline.surfaces]) surface.zoom = zoom;
    this.timeline.setHeights(this.presentation);
    this.setGraphHeight();
    this.graph.notes.place(false);
    for (const surface of [this.graph.surface, ...this.timeline.surfaces]) surface.resize();
    this.placeDetails();
    this.redraw();
  }

  /** Have the next press on the graph begin a note, in a presentation only. */
  placeNote() {
    if (this.presentation.isOn) this.graph.notes.place(!this.graph.notes.isPlacing);
  }

  notesChanged() {
    this.presentation.clearButton.hidden = !this.graph.notes.all.length;
    this.tellLook();
  }

  /** Whether another picture of the page is presented, or this is one of several that follow each other. */
  isCovered() {
    return !this.presentation.isOn && (this.store.data.compact || Boolean(document.querySelector(":popover-open .placed-pipeline")));
  }

  /** Do as another picture of the group does. */
  follow(topic, value) {
    const { store } = this;
    if (!store.data) return;
    if (topic === "playhead") this.timeline.follow(value);
    else if (topic === "hover") store.hover(thingFromPortable(store, value));
    else if (topic === "select") store.select(thingFromPortable(store, value));
    else if (topic === "level") this.showLevel(value);
    else if (topic === "graphLook") this.graph.setLook(value);
    else if (topic === "graphView") {
      const { level } = store;
      // Another drawing, such as that of other stages, has other coordinates.
      const { graph } = this;
      if (!level || graph.viewKey(level) !== value.level) return;
      if (graph.place.width !== value.width || graph.place.height !== value.height) return;
      this.graph.restore({ ...value.view });
      this.saveLater();
    } else if (topic === "ganttView" && store.data.gantt && this.gantt.view) {
      const whole = this.gantt.wholeMs;
      const to = Math.min(value.to, whole);
      if (value.from >= to) return;
      Object.assign(this.gantt.view, { from: value.from, to, fitted: value.from <= 0 && to >= whole * 0.9999 });
      this.timeline.redraw();
      this.saveLater();
    }
  }

  saveLater() {
    clearTimeout(this.saving);
    this.saving = setTimeout(() => this.save(), SAVE_DELAY_MS);
  }

  save() {
    this.rememberView();
    const value = { digest: this.store.data?.graph?.digest, chosenLevel: this.chosenLevel, views: this.views, look: this.graph.userLook };
    try {
      sessionStorage.setItem(this.storageKey, JSON.stringify(value));
    } catch {
      // Storage may be full or forbidden; the view is then kept on this page only.
    }
  }

  /** What was kept for a graph, null if nothing was. */
  loadView(digest) {
    try {
      const saved = JSON.parse(sessionStorage.getItem(this.storageKey));
      return saved && saved.digest === digest ? saved : null;
    } catch {
      return null;
    }
  }

  // Highlight and selection

  /** Point at a thing; with the event of a pointer a note about it appears there. */
  hover(thing, event) {
    const before = this.store.hovered;
    this.store.hover(thing);
    if (this.store.hovered !== before) this.sync.send("hover", portableThing(this.store, thing));
    const lines = thing && event ? describeThing(this.store, thing) : null;
    if (lines) this.tooltip.show(lines, event, this.root, this.graph.areaOnPage(thing));
    else this.tooltip.hide();
  }

  /** Select a thing, or none, and tell Python. */
  select(thing) {
    const hadOne = this.store.selection !== null;
    this.store.select(thing);
    this.sync.send("select", portableThing(this.store, thing));
    if (thing || hadOne) this.sendSelection(selectionForPython(this.store, thing));
  }

  selectNode(i) {
    this.select({ kind: "node", nodes: [i] });
    const { level } = this.store;
    const box = level.boxOfNode[i];
    const [x, y] = this.graph.centreOf(box);
    if (x < 0 || y < 0 || x > this.graph.surface.width || y > this.graph.surface.height) this.graph.centreOn(box);
  }

  /** A drawn edge stands for the tensors it moves: select the one, or the box that sends them. */
  selectEdge(edge) {
    const { store } = this;
    const moves = store.links.movesOfEdge(store.level, edge);
    if (moves.length === 1) this.select({ kind: "tensor", tensor: moves[0].tensor });
    else this.select(thingOfBox(store.level, store.level.edges.source[edge]));
  }

  selectDevice(device) {
    const { selection } = this.store;
    this.select(selection?.kind === "device" && selection.device === device ? null : { kind: "device", device });
  }

  /** Take back the last question: the search, then the replay, then the selection. */
  clear() {
    if (this.store.search) this.toolbar.clearSearch();
    else if (this.graph.notes.isPlacing) this.graph.notes.place(false);
    else if (this.timeline.escape()) return;
    else if (this.store.selection || !this.presentation.isOn) this.select(null);
    else this.presentation.set(false);
  }

  /** To the next or previous: match of a search, event of a replay, thing like the selected one, bar. */
  step(step) {
    const next = this.timeline.replay.isOn ? null : neighbourOf(this.store, step);
    if (!this.timeline.replay.isOn && this.store.search) this.nextMatch(step);
    else if (next?.kind === "node") this.selectNode(next.nodes[0]);
    else if (next) this.select(next);
    else if (this.timeline.replay.isOn || [undefined, "bar"].includes(this.store.selection?.kind)) this.timeline.step(step);
  }

  showDetails() {
    const { selection, data } = this.store;
    if (!selection || !data) {
      this.details.hide();
      return void this.placeDetails();
    }
    const told = this.details.show(this.store, selection);
    this.tooltip.hide();  // they say all that it says, and the graph may move under it
    this.status.textContent = told === null ? "" : inOrder(`Selected: ${told}`);
    this.placeDetails();
  }

  /** Put the details over the side of the graph where they cover none of the boxes they are about or name; where there is
      no such side, and in a presentation, beside it. There they stay until they are closed, so that the graph moves once. */
  placeDetails() {
    const { level, selection } = this.store;
    const { element } = this.details;
    if (element.hidden) this.graphPart.classList.remove("beside");
    if (element.hidden || !level || !this.graph.view || !selection) return;
    if (this.presentation.isOn) this.graphPart.classList.add("beside");
    if (this.graphPart.classList.contains("beside")) return;
    const { boxes } = this.store.focusOn(selection);
    const width = element.offsetWidth + DETAILS_MARGIN;
    const covered = [0, 0];
    for (let b = 0; boxes && b < boxes.length; b += 1) {
      if (!boxes[b]) continue;
      const [x, y] = this.graph.centreOf(b);
      const half = (level.boxWidth * this.graph.view.scale) / 2;
      if (y < 0 || y > this.graph.surface.height) continue;
      if (x - half < width) covered[0] += 1;
      if (x + half > this.graph.surface.width - width) covered[1] += 1;
    }
    element.classList.toggle("left", covered[1] > covered[0]);
    if (Math.min(...covered) > 0) this.graphPart.classList.add("beside");
  }

  // Search

  find(text) {
    const { store } = this;
    text = text.trim();
    if (!text) {
      store.search = null;
    } else {
      const { test, error } = parseSearch(text);
      const nodes = searchable(store.data);
      const matches = test ? [...nodes.keys()].filter((i) => test(nodes[i])) : [];
      // The node with exactly this id comes first.
      matches.sort((a, b) => (String(nodes[b].id) === text) - (String(nodes[a].id) === text) || a - b);
      store.search = { matches, error, at: -1, boxes: new Set(matches.map((i) => store.level.boxOfNode[i])) };
    }
    this.toolbar.showCount(store.search);
    this.graph.surface.invalidate();
  }

  nextMatch(step) {
    const { search, level } = this.store;
    if (!search?.matches.length) return;
    const { boxOfNode } = level;
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
    // Going through matches is looking, not choosing: Python does not hear of it.
    this.store.select({ kind: "node", nodes: [node] });
    this.sync.send("select", portableThing(this.store, this.store.selection));
  }

  fit() {
    this.graph.fit();
    this.gantt.fit();
  }

  destroy() {
    clearTimeout(this.saving);
    clearTimeout(this.telling);
    this.editBar.destroy();
    if (this.store.data) this.save();
    document.removeEventListener("keydown", this.onPageKey);
    window.removeEventListener("resize", this.onWindowResize);
    this.observer.disconnect();
    this.sync.destroy();
    this.graph.surface.destroy();
    this.timeline.destroy();
    this.root.remove();
  }
}

/** Empty the browser's record of marks and measures. Streamlit adds three for each run and never removes one; by the hundred they
    keep pages of memory from being given back. It measures from the last marks, and does not mind if they are gone. */
function forgetMarks() {
  performance.clearMarks();
  performance.clearMeasures();
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
