/* The tables under the picture: devices, tensors, nodes and slots, linked to graph and timeline both ways.

   They say in numbers what the canvases draw, for whoever reads better than sees, sorts or copies. */

import { SLOT_WORDS } from "../kit/contract.js";
import { bytesIn, formatCount, formatPercent } from "../kit/quantities.js";
import { make } from "../kit/dom.js";
import { deviceChip } from "./panel.js";
import { VirtualTable } from "./virtual_table.js";

const TABLES_KEY = "placement-tables";
const MIB = 2 ** 20;
/** Devices of a cell that have a chip. */
const MOST_CHIPS = 6;

export class Tables {
  constructor(store, actions) {
    this.store = store;
    this.actions = actions;
    this.kept = { tab: "devices", isOpen: true, ...recallTables() };
    this.sheets = SHEETS.map((sheet) => ({ ...sheet, table: this.makeTable(sheet) }));
    // Until `show` has rows for one of them, no table stands there empty.
    for (const sheet of this.sheets) sheet.table.element.hidden = true;
    this.tabs = make("div", { className: "tabs", role: "tablist", "aria-label": "Tables" }, this.sheets.map((sheet) => {
      sheet.count = make("small");
      sheet.tab = make("button", { type: "button", role: "tab", onclick: () => this.open(sheet.name), onkeydown: (event) => this.tabKey(event) },
        [make("span", { text: sheet.title }), sheet.count]);
      return sheet.tab;
    }));
    this.only = make("input", { type: "checkbox", onchange: () => this.showRows() });
    this.onlyLabel = make("label", { className: "only", title: "Leave out the rows that do not belong to what is selected" },
      [this.only, make("span", { text: "only the selected" })]);
    this.note = make("span", { className: "note", role: "status", "aria-live": "polite" });
    this.copy = make("button", { type: "button", className: "plain", text: "Copy as CSV", onclick: () => this.copyTable() });
    this.fold = make("button", { type: "button", className: "plain", onclick: () => this.setOpen(!this.kept.isOpen) });
    this.sheetArea = make("div", { className: "sheet", role: "tabpanel" }, this.sheets.map((sheet) => sheet.table.element));
    this.element = make("section", { className: "tables", "aria-label": "Tables of the picture" }, [
      make("header", {}, [this.tabs, make("span", { className: "space" }), this.note, this.onlyLabel, this.copy, this.fold]), this.sheetArea]);
  }

  makeTable(sheet) {
    const { store, actions } = this;
    return new VirtualTable(sheet.caption, {
      point: (row) => actions.hover(row === null ? null : sheet.thing(store, row)),
      choose: (row, event) => this.choose(sheet, row, event),
      isLit: (row) => sheet.isLit(store.focus(), row),
      isChosen: (row) => isThing(store.selection, sheet.thing(store, row)),
    });
  }

  get sheet() {
    return this.sheets.find((sheet) => sheet.name === this.kept.tab) ?? this.sheets[0];
  }

  /** Show the tables of the store's data once the pictures above them are on the screen. */
  showSoon() {
    clearTimeout(this.waiting);
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      this.waiting = setTimeout(() => this.show());
    });
  }

  show() {
    for (const sheet of this.sheets) {
      const numRows = sheet.numRows(this.store);
      sheet.count.textContent = formatCount(numRows);
    }
    this.showTab();
  }

  showTab() {
    const { isOpen } = this.kept;
    for (const sheet of this.sheets) {
      const isCurrent = sheet === this.sheet;
      sheet.tab.setAttribute("aria-selected", String(isCurrent && isOpen));
      sheet.tab.setAttribute("tabindex", isCurrent ? "0" : "-1");
      sheet.table.element.hidden = !isCurrent;
    }
    this.sheetArea.hidden = !isOpen;
    this.sheetArea.setAttribute("aria-label", this.sheet.title);
    this.copy.hidden = !isOpen;
    this.onlyLabel.hidden = !isOpen;
    this.fold.textContent = isOpen ? "Hide tables" : "Show tables";
    this.fold.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) this.showRows();
  }

  showRows() {
    const { store, sheet } = this;
    const isLimited = this.only.checked && store.selection !== null;
    const selected = isLimited ? store.focusOn(store.selection) : null;
    const rows = [];
    for (let i = 0, n = sheet.numRows(store); i < n; i += 1) if (!selected || sheet.isLit(selected, i)) rows.push(i);
    const empty = selected && sheet.numRows(store) ? "Nothing of this kind belongs to what is selected." : sheet.empty(store);
    sheet.table.show(sheet.columns(store), rows, empty);
    sheet.table.reveal();
  }

  open(name) {
    this.kept.tab = name;
    this.note.textContent = "";
    this.setOpen(true);
  }

  setOpen(isOpen) {
    this.kept.isOpen = isOpen;
    keepTables(this.kept);
    this.showTab();
  }

  tabKey(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const n = this.sheets.length;
    this.open(this.sheets[(this.sheets.indexOf(this.sheet) + step + n) % n].name);
    this.sheet.tab.focus();
    event.preventDefault();
    event.stopPropagation();
  }

  /** Follow what is hovered and selected elsewhere. */
  changed(what) {
    if (!this.kept.isOpen || !this.store.data) return;
    if (what === "selection" && this.only.checked) return void this.showRows();
    this.sheet.table.mark();
    if (what === "selection") this.sheet.table.reveal();
  }

  choose(sheet, row, event) {
    const thing = sheet.thing(this.store, row);
    if (thing.kind === "node" && (event.shiftKey || event.ctrlKey || event.metaKey)) this.actions.extend(thing.nodes);
    else if (isThing(this.store.selection, thing)) this.actions.clear();
    else if (thing.kind === "node") this.actions.selectNode(row);
    else this.actions.select(thing);
  }

  async copyTable() {
    const text = this.sheet.table.csv();
    const numRows = this.sheet.table.order.length;
    this.note.textContent = await copyText(text, this.element) ? `${formatCount(numRows)} rows copied` : "The browser does not let this page copy";
  }
}

function isThing(selection, thing) {
  if (!selection || selection.kind !== thing.kind) {
    return selection?.kind === "nodes" && thing.kind === "node" && selection.nodes.includes(thing.nodes[0]);
  }
  return thing.nodes ? selection.nodes[0] === thing.nodes[0] : selection[thing.kind] === thing[thing.kind];
}

const numberColumn = (name, value, title) => ({ name, value, title, isNumber: true });
/** A column that is left out where there is no room, those of lower rank before it and those of its own rank with it. */
const minor = (rank, column) => ({ ...column, minor: rank });
const idColumn = (name, value, title) => ({ ...numberColumn(name, value, title), text: (row) => String(value(row)) });
const scaledBytes = (bytes, unit) => (bytes === null || bytes === undefined ? null : bytes / unit);

/** A column of devices, with their chips; `of(row)` lists them. */
function deviceColumn(name, store, of, title) {
  const { devices } = store.data;
  const names = (row) => of(row).map((d) => devices[d].name).join(", ") || null;
  return { name, title, value: names, text: (row) => names(row) ?? "–", padding: 4, chips: (row) => Math.min(MOST_CHIPS, of(row).length),
    cell: (row, text) => [...of(row).slice(0, MOST_CHIPS).map((d) => deviceChip(devices[d])), make("span", { className: "name", text, title: text })] };
}

const SHEETS = [
  {
    name: "devices", title: "Devices", caption: "Compute, transfers, load and memory of every device",
    numRows: (store) => store.data.devices.length,
    empty: () => "There are no devices.",
    thing: (_, row) => ({ kind: "device", device: row }),
    isLit: (focus, row) => Boolean(focus.devices?.has(row)),
    columns: (store) => {
      const { devices, gantt, memoryUnit } = store.data;
      const most = devices.reduce((max, d) => Math.max(max, d.loadMs ?? 0), 0);
      const lanes = new Map((gantt?.lanes ?? []).map((lane) => [lane.device, lane]));
      const share = (row) => (devices[row].loadMs === null ? null : most > 0 ? devices[row].loadMs / most : 0);
      return [
        deviceColumn("Device", store, (row) => [row]),
        ...(devices.some((d) => d.replicas > 1) ? [numberColumn("Replicas", (row) => devices[row].replicas)] : []),
        minor(1, numberColumn("Nodes", (row) => devices[row].numNodes)),
        minor(5, numberColumn("Compute (ms)", (row) => devices[row].computeMs, "Per micro-batch")),
        minor(2, numberColumn("Receive (ms)", (row) => devices[row].receiveMs, "Per micro-batch")),
        minor(2, numberColumn("Send (ms)", (row) => devices[row].sendMs, "Per micro-batch")),
        numberColumn("Load (ms)", (row) => devices[row].loadMs, "Compute and transfers per micro-batch"),
        { ...numberColumn("Of max-load", share, "The device with 100 % is the bottleneck"), text: (row) => (share(row) === null ? "–" : formatPercent(share(row))),
          cell: (row, text) => [shareBar(share(row)), make("span", { text })], padding: 8 },
        minor(6, numberColumn(`Memory (${memoryUnit})`, (row) => scaledBytes(devices[row].memoryBytes, bytesIn(memoryUnit)), "Of one micro-batch at a time")),
        numberColumn(`Peak (${memoryUnit})`, (row) => scaledBytes(lanes.get(row)?.peakMemoryBytes, bytesIn(memoryUnit)),
          "With the activations of all micro-batches in flight, where the file knows them"),
        minor(4, numberColumn(`Capacity (${memoryUnit})`, (row) => scaledBytes(devices[row].capacityBytes, bytesIn(memoryUnit)), "No number where there is no limit")),
      ];
    },
  },
  {
    name: "tensors", title: "Cut tensors", caption: "Tensors that move between devices",
    numRows: (store) => store.data.graph?.tensors.length ?? 0,
    empty: (store) => (store.data.graph?.placed ? "No tensor moves between devices." : "There is no plan yet, so nothing is cut."),
    thing: (_, row) => ({ kind: "tensor", tensor: row }),
    isLit: (focus, row) => Boolean(focus.tensors?.has(row)),
    columns: (store) => {
      const { tensors, nodes } = store.data.graph;
      return [
        { name: "Output of", value: (row) => nodeName(nodes, tensors[row].source) },
        minor(1, idColumn("Node", (row) => nodes.id[tensors[row].source], "Id of the node")),
        ...(store.data.graph.outputs ? [{ name: "Tensor", value: (row) => tensors[row].name }] : []),
        deviceColumn("From", store, (row) => [tensors[row].from]),
        deviceColumn("To", store, (row) => tensors[row].to, "Devices that read it; each receives it once"),
        ...movingColumns(tensors),
        minor(2, numberColumn("Size (MiB)", (row) => scaledBytes(tensors[row].bytes, MIB))),
      ];
    },
  },
  {
    name: "nodes", title: "Nodes", caption: "Nodes of the graph, with what they take and where they run",
    numRows: (store) => store.data.graph?.nodes.id.length ?? 0,
    empty: () => "There is no graph.",
    thing: (_, row) => ({ kind: "node", nodes: [row] }),
    isLit: (focus, row) => focus.nodes !== null && focus.nodes[row] === 1,
    columns: (store) => {
      const { nodes, training, placed } = store.data.graph;
      const { devices } = store.data;
      const isOnCpu = (row) => nodes.device[row] >= 0 && devices[nodes.device[row]].isCpu;
      return [
        { name: "Node", value: (row) => nodeName(nodes, row) },
        minor(3, idColumn("Id", (row) => nodes.id[row])),
        ...(nodes.layer.some((layer) => layer !== null) ? [minor(7, { name: "Layer", value: (row) => nodes.layer[row] })] : []),
        ...(training ? [minor(6, { name: "Pass", value: (row) => (nodes.backward[row] ? "backward" : "forward") })] : []),
        ...(placed ? [deviceColumn("Device", store, (row) => (nodes.device[row] < 0 ? [] : [nodes.device[row]]))] : []),
        ...(store.links.stages.length ? [minor(5, { name: "Stage", value: (row) => store.links.stagesOfNode[row].map((s) => stageName(store, s)).join(", ") || null })] : []),
        numberColumn("Time (ms)", (row) => (isOnCpu(row) ? nodes.cpuMs[row] : nodes.acceleratorMs[row]), "On the device it runs on, else on an accelerator"),
        minor(4, numberColumn("Memory (MiB)", (row) => scaledBytes(nodes.memoryBytes[row], MIB))),
        minor(1, numberColumn("Output (MiB)", (row) => scaledBytes(nodes.outputBytes[row], MIB))),
        minor(2, numberColumn("Transfer (ms)", (row) => nodes.transferMs[row], "To move its output, at the end that takes longer")),
        ...(placed ? [minor(8, { name: "Cut", title: "Whether its output moves to another device", value: (row) => (nodes.cut[row] ? "cut" : "no") })] : []),
      ];
    },
  },
  {
    name: "slots", title: "Events", caption: "Timeline events: which device does what, when",
    numRows: (store) => store.links.numBars,
    empty: () => "No timeline is shown.",
    thing: (_, row) => ({ kind: "bar", bar: row }),
    isLit: (focus, row) => focus.bars !== null && focus.bars[row] === 1,
    columns: (store) => {
      const { bars, deviceOfLane, stages } = store.links;
      return [
        deviceColumn("Device", store, (row) => [deviceOfLane[bars.lane[row]]]),
        minor(2, { name: "Stage", value: (row) => stageName(store, bars.stage[row]) }),
        idColumn("Micro-batch", (row) => bars.microBatch[row]),
        ...(stages.some((stage) => stage.backward) ? [minor(3, { name: "Pass", value: (row) => stages[bars.stage[row]].pass })] : []),
        { name: "What", value: (row) => SLOT_WORDS[bars.kind[row]] },
        numberColumn("Start (ms)", (row) => bars.start[row]),
        minor(1, numberColumn("End (ms)", (row) => bars.end[row])),
        numberColumn("Duration (ms)", (row) => bars.end[row] - bars.start[row]),
      ];
    },
  },
];

/** One column where every tensor takes as long at both ends, else one for sending and one for receiving. */
function movingColumns(tensors) {
  const paid = ({ sendMs, receiveMs }) => [sendMs, ...receiveMs].filter((ms) => ms > 0); // CPUs take no time
  if (tensors.every((tensor) => new Set(paid(tensor)).size <= 1)) {
    return [numberColumn("Time each way (ms)", (row) => paid(tensors[row])[0] ?? 0)];
  }
  return [
    numberColumn("Send (ms)", (row) => tensors[row].sendMs, "On the device it comes from"),
    numberColumn("Receive (ms)", (row) => Math.max(...tensors[row].receiveMs), "On the device that reads it, the slowest where several do"),
  ];
}

export function nodeName(nodes, i) {
  return nodes.name[i] || `node ${nodes.id[i]}`;
}

/** A cut tensor by the node that makes it, and its own name where it has one. */
export function tensorName(nodes, { source, name }) {
  return name ? `${nodeName(nodes, source)}: ${name}` : nodeName(nodes, source);
}

/** Stage number and pass as the field writes them: 2F, 2B; the number alone where there is one pass. */
export function stageName({ links }, s) {
  return links.stages.some((stage) => stage.backward) ? links.stages[s].notation : String(links.stages[s].number);
}

/** A bar as long as a share of 1. */
function shareBar(share) {
  const bar = make("span", { className: "share", "aria-hidden": "true" });
  bar.style.setProperty("--share", `${100 * (share ?? 0)}%`);
  return bar;
}

async function copyText(text, parent) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Pages that are not served securely have no clipboard; there the old way through a selected text works.
    const area = make("textarea", { className: "reader-only", "aria-hidden": "true" });
    area.value = text;
    parent.append(area);
    area.select();
    const isDone = document.execCommand("copy");
    area.remove();
    return isDone;
  }
}

function recallTables() {
  try {
    return JSON.parse(localStorage.getItem(TABLES_KEY)) ?? {};
  } catch {
    return {};
  }
}

function keepTables(value) {
  try {
    localStorage.setItem(TABLES_KEY, JSON.stringify(value));
  } catch {
    // Storage may be full or forbidden; the tables are then as they are by default on the next page.
  }
}
