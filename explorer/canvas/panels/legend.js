/* The legend: every device with its load and memory on one line, and what the lines of the graph mean. */

import { make } from "../kit/dom.js";
import { formatBytes, formatCount, formatMs, formatNumber } from "../kit/quantities.js";
import { counted, deviceChip } from "./panel.js";

/** A phone has so many lines for the devices, and wider windows one or, for very many, two. */
const LINES_OF_PHONE = 3;
const PHONE_WIDTH = 640;

/** How devices are listed, the fullest first, of which the first is taken that there is room for: all of each device;
    what several in a row have in common once; their loads alone; these with their unit said once; with the name of a
    device type once, before all of its devices; on two lines; and at last a line to be scrolled. */
const FORMS = [
  { isJoined: false, hasMemory: true },
  { isJoined: true, hasMemory: true },
  { isJoined: true },
  { isJoined: true, hasUnitOnce: true },
  { isJoined: true, hasTypeOnce: true },
  { isJoined: true, lines: 2 },
  { isJoined: true, hasTypeOnce: true, lines: 2 },
  { isJoined: true, hasUnitOnce: true, hasTypeOnce: true, lines: 2 },
  { isJoined: true, isScrolled: true },
];

/** Devices with their load and memory; a click highlights one until the next click. */
export class Legend {
  constructor(actions) {
    this.actions = actions;
    this.data = null;
    this.element = make("div", { className: "legend", role: "group", "aria-label": "Devices" });
    this.keys = make("div", { className: "keys" });
  }

  show(data) {
    this.data = data;
    this.fittedWidth = null;
    this.fit();
  }

  /** List the devices in the fullest form that there is room for; to be called when there may be more or less of it. */
  fit() {
    const width = this.element.parentElement?.clientWidth ?? 0;
    if (!this.data || width === this.fittedWidth) return;
    this.fittedWidth = width;
    const marked = [...this.element.querySelectorAll("button.device")].map(({ dataset, classList, ariaPressed }) =>
      [dataset.device, classList.contains("on"), ariaPressed]);
    for (const form of FORMS) {
      this.draw(form);
      if (this.hasRoom(form)) break;
    }
    for (const [device, isOn, isPressed] of marked) {
      const entry = this.element.querySelector(`[data-device="${device}"]`);
      entry?.classList.toggle("on", isOn);
      if (entry && isPressed !== null) entry.setAttribute("aria-pressed", isPressed);
    }
  }

  draw(form) {
    const { data } = this;
    const placed = data.graph?.placed ?? true;
    const used = placed ? data.devices.filter((d) => d.numNodes > 0) : data.devices;
    const idle = placed ? data.devices.filter((d) => d.numNodes === 0) : [];
    const parts = runs(used, (device) => (form.isJoined ? this.commonTo(device, placed, form) : device.device))
      .flatMap((run) => run.map((device, k) => {
        const entry = this.entry(device, placed, form, run.length, k === run.length - 1);
        if (!form.hasTypeOnce || !device.type || device.type === typeBefore(used, device)) return entry;
        return make("span", { className: "first-of-type" }, [make("span", { className: "type", text: device.type }), entry]);
      }));
    if (form.hasUnitOnce && placed) parts.unshift(make("span", { className: "idle", text: "load in ms:" }));
    if (idle.length) parts.push(make("span", { className: "idle", text: `idle: ${listNames(idle)}` }));
    this.element.classList.toggle("scrolled", Boolean(form.isScrolled));
    this.element.replaceChildren(...parts);
  }

  hasRoom({ lines: most = 1 }) {
    const button = this.element.querySelector("button");
    const parts = [...this.element.querySelectorAll("button, .first-of-type > .type, .idle")];
    const lines = window.innerWidth < PHONE_WIDTH ? LINES_OF_PHONE : most;
    return !button || parts.at(-1).offsetTop < parts[0].offsetTop + (lines - 0.5) * button.offsetHeight;
  }

  /** What devices that are listed as one have in common. */
  commonTo(device, placed, form) {
    return [device.type, this.isFull(device), placed ? this.facts(device, placed, form) : ""].join();
  }

  isFull({ capacityBytes, memoryBytes }) {
    return capacityBytes !== null && memoryBytes > capacityBytes * (1 + 1e-9);
  }

  facts(device, placed, { hasMemory, hasUnitOnce }) {
    const facts = [];
    if (device.replicas > 1) facts.push(`${device.replicas} replicas`);
    if (placed && device.loadMs !== null) facts.push(hasUnitOnce ? formatNumber(device.loadMs) : formatMs(device.loadMs));
    if (hasMemory && placed && device.memoryBytes > 0) facts.push(formatBytes(device.memoryBytes, this.data.memoryUnit));
    return facts.join(" · ");
  }

  /** The button of a device; of several in a row with the same facts the last has them. */
  entry(device, placed, form, numAlike, isLast) {
    const isFull = this.isFull(device);
    const marks = [device.isBottleneck ? "the slowest" : "", isFull ? "over its memory" : ""];
    const every = this.facts(device, placed, FORMS[0]);
    const isWhole = numAlike === 1 && form.hasMemory;
    const told = [device.name, isWhole ? "" : every, ...marks].filter(Boolean).join(", ");
    const entry = make("button", {
      type: "button", className: `device${device.isBottleneck ? " slowest" : ""}${isLast ? "" : " alike"}`, "data-device": device.device,
      title: told, "aria-label": isWhole ? null : told,
      onclick: () => this.actions.selectDevice(device.device),
      onmouseenter: () => this.actions.hover({ kind: "device", device: device.device }),
      onmouseleave: () => this.actions.hover(null),
    }, [deviceChip(device)]);
    const text = this.facts(device, placed, form);
    if (isLast) {
      if (device.type && !form.hasTypeOnce) entry.append(make("span", { className: "type", text: device.type }));
      if (text) entry.append(make("span", { className: "facts", text: numAlike > 1 ? `${text} each` : text }));
      else if (!form.isJoined) entry.append(make("span", { className: "facts", text: device.name }));
      if (isFull) entry.append(make("em", { className: "over", text: "over memory" }));
    }
    if (device.isBottleneck) entry.append(make("em", { text: "slowest" }));
    return entry;
  }

  /** What the lines of a level mean, with how many of them are drawn there. */
  showKeys(data, level, numTies) {
    const keys = [];
    const key = (className, text, title) => keys.push(make("span", { className: "key", title }, [make("span", { className }), make("span", { text })]));
    if (level?.cut.length) {
      key("line", counted(level.cut.length, "transfer"), `${counted(data.graph.numCutTensors, "tensor")} moved between devices. A line stands for `
        + "all that pass between two boxes and is the wider the longer they take; a tensor that several boxes read has several lines.");
    }
    if (level?.seams.size) {
      key("seam", `${formatCount(level.seams.size)} inside boxes`, "A box on several devices: what passes between them inside it");
    }
    if (numTies) key("tie", counted(numTies, "tie"), "Nodes that must share a device");
    if (data.graph?.training) key("hatched", "backward");
    this.keys.replaceChildren(...keys);
  }

  /** Mark the devices in focus, and the selected one as pressed. */
  mark(devices, selected) {
    for (const entry of this.element.querySelectorAll("button.device")) {
      const device = Number(entry.dataset.device);
      entry.classList.toggle("on", Boolean(devices?.has(device)));
      entry.setAttribute("aria-pressed", String(device === selected));
    }
  }
}

/** The type of the device listed before one. */
function typeBefore(devices, device) {
  return devices[devices.indexOf(device) - 1]?.type;
}

/** Things in a row of which `of` says the same, together. */
function runs(things, of) {
  const found = [];
  for (const thing of things) {
    const last = found.at(-1);
    if (last && of(last[0]) === of(thing)) last.push(thing);
    else found.push([thing]);
  }
  return found;
}

function listNames(devices) {
  const names = devices.map((d) => d.name);
  return names.length > 6 ? `${names.slice(0, 5).join(", ")} and ${names.length - 5} more` : names.join(", ");
}
