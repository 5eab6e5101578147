/* What is known about the selected thing, complete, with links to what belongs to it.

   A fact is [name, value, ...]; values are texts or elements. Names from files are set as text, never as HTML. */

import { formatBytes, formatCount, formatFlops, formatMove, formatMs, formatPercent } from "../kit/quantities.js";
import { rangeTable } from "./gantt_range.js";
import { SLOT_COMPUTE, SLOT_RECEIVE, SLOT_SEND, SLOT_WORDS } from "../kit/contract.js";
import { make } from "../kit/dom.js";
import { deviceChip } from "./panel.js";
import { nodeName, stageName, tensorName } from "./tables.js";

const MANY_LINKS = 12;
const FEW_TIED = 2;
const EACH_WAY = " each way";

export class Details {
  constructor(actions) {
    this.actions = actions;
    this.element = make("aside", { className: "details", hidden: "", "aria-label": "Details" });
  }

  hide() {
    this.element.hidden = true;
  }

  /** Show what is known about a thing (see store.js); return it in one sentence, null where nothing is shown. */
  show(store, thing) {
    const write = DESCRIPTIONS[thing.kind];
    const facts = write?.(new Writer(store, this.actions), thing);
    if (!facts) {
      this.hide();
      return null;
    }
    this.fill(facts.title, facts.subtitle, facts.rows, facts.lists);
    return [facts.title, facts.subtitle].filter(Boolean).join(", ");
  }

  fill(title, subtitle, rows, lists = []) {
    const close = make("button", { type: "button", className: "close", text: "×", title: "Close ( Esc )",
      "aria-label": "Close details", onclick: () => this.actions.clear() });
    const facts = make("dl", {}, rows.flatMap(([name, ...values]) => [
      make("dt", { text: name }),
      make("dd", {}, values.map((value) => (typeof value === "string" ? make("span", { text: value }) : value))),
    ]));
    this.element.replaceChildren(
      make("header", {}, [make("h4", { text: title, title }), close]),
      ...(subtitle ? [make("p", { text: subtitle })] : []), facts, ...lists);
    this.element.hidden = false;
    this.element.scrollTop = 0;
  }
}

/** Makes the parts of a description: links to devices, stages, tensors and nodes, and sums. */
class Writer {
  constructor(store, actions) {
    Object.assign(this, { store, actions, data: store.data, links: store.links, nodes: store.data.graph?.nodes });
  }

  /** A button that selects what it names and points at it while the pointer is on it. */
  link(thing, parts, className = "to") {
    const { hover, select, selectNode } = this.actions;
    return make("button", { type: "button", className,
      onclick: () => (thing.kind === "node" ? selectNode(thing.nodes[0]) : select(thing)),
      onmouseenter: () => hover(thing), onmouseleave: () => hover(null), onfocus: () => hover(thing), onblur: () => hover(null),
    }, parts);
  }

  device(d) {
    const device = this.data.devices[d];
    return this.link({ kind: "device", device: d }, [deviceChip(device), make("span", { text: device.name })]);
  }

  stage(s) {
    return this.link({ kind: "stage", stage: s }, [make("span", { text: stageName(this.store, s) })]);
  }

  /** One row per device, the name on the first. */
  devices(name, list) {
    return list.map((d, k) => [k === 0 ? name : "", this.device(d)]);
  }

  stages(name, list) {
    if (!list.length) return [];
    const shown = list.slice(0, MANY_LINKS).map((s) => this.stage(s));
    return [[name, ...shown, ...(list.length > MANY_LINKS ? [`and ${list.length - MANY_LINKS} more`] : [])]];
  }

  total(members, values) {
    return Array.from(members).reduce((sum, i) => sum + values[i], 0);
  }

  /** Time of a node where it runs, on an accelerator while it is not placed. */
  timeOf(i) {
    const device = this.data.devices[this.nodes.device[i]];
    return device?.isCpu ? this.nodes.cpuMs[i] : this.nodes.acceleratorMs[i];
  }

  /** What a set of nodes receives from other devices and sends to them. */
  traffic(members) {
    const inside = new Set(members);
    let [receive, send] = [0, 0];
    for (const [t, { source, to, sendMs, receiveMs }] of this.links.tensors.entries()) {
      if (inside.has(source)) send += sendMs;
      const receivers = new Set(this.links.readersOf(t).filter((v) => inside.has(v) && to.includes(this.nodes.device[v])).map((v) => this.nodes.device[v]));
      to.forEach((d, k) => { receive += receivers.has(d) ? receiveMs[k] : 0; });
    }
    return this.data.graph.placed ? [["receives", formatMs(receive)], ["sends", formatMs(send)]] : [];
  }

  /** Known floating-point operations of some nodes. */
  flops(members) {
    const known = Array.from(members).filter((i) => this.nodes.flops[i] !== null);
    return known.length ? [["arithmetic", `${formatFlops(this.total(known, this.nodes.flops))}${known.length < members.length ? " of those that tell" : ""}`]] : [];
  }

  /** A list of nodes to go to; `noteOf(i)` says more about one, `isCut(i)` marks what comes from or goes to elsewhere. */
  nodeList(title, members, noteOf = null, isCut = () => false) {
    const list = Array.from(members);
    const items = list.slice(0, MANY_LINKS).map((i) => {
      const device = this.data.devices[this.nodes.device[i]];
      const parts = [make("span", { className: "name", text: nodeName(this.nodes, i), title: nodeName(this.nodes, i) })];
      if (noteOf) parts.push(make("small", { text: noteOf(i) }));
      return this.link({ kind: "node", nodes: [i] }, [...(device ? [deviceChip(device)] : []), make("span", { className: "what" }, parts)],
        isCut(i) ? "link cut" : "link");
    });
    return this.section(`${title} (${formatCount(list.length)})`, items, list.length - MANY_LINKS);
  }

  /** The other nodes that must be on the device of one of these. */
  tied(members) {
    const own = new Set(members);
    return this.links.tiesOf(members).flat().filter((j) => !own.has(j));
  }

  /** What a device cannot do without is said beside it; a long list of it stands below. */
  tieRow(others) {
    if (!others.length) return [];
    const named = others.slice(0, FEW_TIED).map((i) => this.link({ kind: "node", nodes: [i] }, [make("span", { text: nodeName(this.nodes, i) })]));
    const more = others.length > FEW_TIED ? [`and ${formatCount(others.length - FEW_TIED)} more:`] : [];
    return [["tied to", ...named, ...more, others.length > 1 ? "they must share its device" : "which must share its device"]];
  }

  tieList(others) {
    return others.length > FEW_TIED ? [this.nodeList("must share its device", others)] : [];
  }

  tensorList(title, list) {
    const items = list.slice(0, MANY_LINKS).map((t) => {
      const tensor = this.links.tensors[t];
      return this.link({ kind: "tensor", tensor: t }, [deviceChip(this.data.devices[tensor.from]), make("span", { className: "what" }, [
        make("span", { className: "name", text: tensorName(this.nodes, tensor), title: tensorName(this.nodes, tensor) }),
        make("small", { text: `${formatMove(tensor.sendMs, tensor.receiveMs)} · ${formatBytes(tensor.bytes)} · to ${tensor.to.map((d) => this.data.devices[d].label).join(", ")}` }),
      ])], "link");
    });
    return this.section(`${title} (${formatCount(list.length)})`, items, list.length - MANY_LINKS);
  }

  section(title, items, numMore) {
    if (numMore > 0) items.push(make("span", { className: "more", text: `and ${formatCount(numMore)} more` }));
    if (!items.length) items.push(make("span", { className: "more", text: "none" }));
    return make("section", {}, [make("h5", { text: title }), ...items]);
  }

  /** What passes between a node and another: the tensors of `sender` that `reader` reads, and whether they are cut. */
  passing(sender, reader) {
    const { nodes, links } = this;
    const isPlaced = nodes.device[sender] >= 0;
    const isCut = isPlaced && nodes.device[sender] !== nodes.device[reader];
    return links.outputsOf(sender, reader).map((o) => {
      const [name, size] = [this.outputName(o), formatBytes(this.outputBytes(o))];
      if (!isCut) return `${name}${size} · ${formatMs(this.outputMs(o))}${isPlaced ? ", not cut" : ""}`;
      const { to, sendMs, receiveMs } = links.tensors[links.tensorOfOutput.get(o)];
      return `${name}${size} · ${formatMove(sendMs, [receiveMs[to.indexOf(nodes.device[reader])]])}, cut`;
    }).join("; ");
  }

  /** The name of a tensor before what is said of it; empty where it has none. */
  outputName(o) {
    const name = this.links.outputs?.name[o];
    return name ? `${name}: ` : "";
  }

  outputBytes(o) {
    return (this.links.outputs?.bytes ?? this.nodes.outputBytes)[o];
  }

  outputMs(o) {
    return (this.links.outputs?.transferMs ?? this.nodes.transferMs)[o];
  }

  /** What a node's tensor is and what moving it takes, in rows. */
  output(i, o) {
    const device = this.nodes.device[i];
    const rows = [["output", `${this.outputName(o)}${formatBytes(this.outputBytes(o))}`]];
    const tensor = this.links.tensors[this.links.tensorOfOutput.get(o)];
    if (tensor) {
      rows.push(["transfer", `${formatMove(tensor.sendMs, tensor.receiveMs, EACH_WAY)}, cut`], ...this.devices("sent to", tensor.to));
    } else {
      rows.push(["transfer", `${formatMs(this.outputMs(o))}${EACH_WAY}${device >= 0 ? ", not cut" : ""}`]);
    }
    return rows;
  }
}

const DESCRIPTIONS = {
  node(writer, { nodes: [i] }) {
    const { nodes, links } = writer;
    const device = nodes.device[i];
    const rows = [];
    if (nodes.layer[i] !== null) rows.push(["layer", nodes.layer[i]]);
    const tied = writer.tied([i]);
    rows.push(device < 0 ? ["device", "not placed"] : ["device", writer.device(device)], ...writer.tieRow(tied));
    rows.push(...writer.stages("stage", links.stagesOfNode[i]));
    if (device >= 0) rows.push(["time", formatMs(writer.timeOf(i))]);
    rows.push(["accelerator", nodes.onAccelerator[i] ? formatMs(nodes.acceleratorMs[i]) : "cannot run there"]);
    rows.push(["CPU", formatMs(nodes.cpuMs[i])], ["memory", formatBytes(nodes.memoryBytes[i])], ...writer.flops([i]));
    for (const o of links.outputsOf(i)) rows.push(...writer.output(i, o));
    const isElsewhere = (j) => device >= 0 && nodes.device[j] !== device;
    return {
      title: nodeName(nodes, i), subtitle: `id ${nodes.id[i]}, ${nodes.backward[i] ? "backward" : "forward"}`, rows,
      lists: [...writer.tieList(tied), writer.nodeList("inputs", links.inputs[i], (u) => writer.passing(u, i), isElsewhere),
        writer.nodeList("readers", links.readers[i], (v) => writer.passing(i, v), isElsewhere)],
    };
  },

  nodes(writer, { nodes: members }) {
    const { nodes } = writer;
    const devices = [...new Set(members.map((i) => nodes.device[i]))].filter((d) => d >= 0).sort((a, b) => a - b);
    return {
      title: `${formatCount(members.length)} nodes`, subtitle: "Shift and click adds one or takes it out",
      rows: [...writer.devices("on", devices), ["time", formatMs(members.reduce((sum, i) => sum + writer.timeOf(i), 0))],
        ["memory", formatBytes(writer.total(members, nodes.memoryBytes))], ...writer.flops(members), ...writer.traffic(members)],
      lists: [writer.nodeList("nodes", members)],
    };
  },

  group(writer, thing) {
    const { data, nodes, links } = writer;
    const level = data.graph.levels.find((one) => one.name === thing.level);
    if (!level) return null;
    const { boxes } = level;
    const { box } = thing;
    const members = boxes.nodes[box];
    const shares = boxes.shares[box].map(([d, share], k) => [k === 0 ? "device" : "", writer.device(d),
      ...(boxes.shares[box].length > 1 ? [`${formatPercent(share)} of the time`] : [])]);
    const tied = writer.tied(members);
    const stages = [...links.stagesOf(links.nodeMask(members))].sort((a, b) => a - b);
    const seam = level.seams.get(box);
    if (seam) shares.push(["cut inside", `${formatMove(seam.sendMs, [seam.receiveMs])}${seam.bytes === null ? "" : ` · ${formatBytes(seam.bytes)}`}`]);
    return {
      title: boxes.title[box], subtitle: `${formatCount(members.length)} nodes, ${boxes.backward[box] ? "backward" : "forward"}`,
      rows: [...shares, ...writer.tieRow(tied), ...writer.stages(stages.length > 1 ? "stages" : "stage", stages), ["time", formatMs(boxes.timeMs[box])],
        ["memory", formatBytes(writer.total(members, nodes.memoryBytes))], ...writer.flops(members), ...writer.traffic(members)],
      lists: [...writer.tieList(tied), writer.nodeList("nodes", members)],
    };
  },

  device(writer, { device: d }) {
    const { data, links } = writer;
    const device = data.devices[d];
    const most = data.devices.reduce((max, one) => Math.max(max, one.loadMs ?? 0), 0);
    const rows = [["nodes", String(device.numNodes)]];
    if (device.replicas > 1) rows.push(["replicas", String(device.replicas)]);
    if (device.loadMs !== null) {
      rows.push(["compute", formatMs(device.computeMs)], ["receive", formatMs(device.receiveMs)], ["send", formatMs(device.sendMs)]);
      rows.push(["load", `${formatMs(device.loadMs)} per micro-batch${most > 0 ? `, ${formatPercent(device.loadMs / most)} of the largest` : ""}`]);
    }
    const limit = device.capacityBytes === null ? "" : ` of ${formatBytes(device.capacityBytes, data.memoryUnit)}`;
    if (device.memoryBytes !== null) rows.push(["memory", formatBytes(device.memoryBytes, data.memoryUnit) + limit]);
    else if (limit) rows.push(["memory", formatBytes(device.capacityBytes, data.memoryUnit)]);
    const lane = data.gantt?.lanes.find((one) => one.device === d);
    if (lane && lane.peakMemoryBytes !== null && lane.peakMemoryBytes !== undefined) rows.push(["peak", `${formatBytes(lane.peakMemoryBytes, data.memoryUnit)} with micro-batches in flight`]);
    if (lane && lane.bubbleFraction !== null) rows.push(["bubble", `${formatPercent(lane.bubbleFraction)} of this run`]);
    rows.push(...writer.stages("stages", links.stages.flatMap((stage, s) => (stage.device === d ? [s] : []))));
    const touching = links.tensors.flatMap((tensor, t) => (tensor.from === d || tensor.to.includes(d) ? [t] : []));
    return {
      title: device.name, subtitle: device.isBottleneck ? "the bottleneck: no other device takes longer" : "", rows,
      lists: data.graph?.placed ? [writer.tensorList("tensors sent or received", touching)] : [],
    };
  },

  stage(writer, { stage: s }) {
    const { data, links } = writer;
    const stage = links.stages[s];
    const times = [0, 0, 0];
    const { bars } = links;
    const first = bars.stage.indexOf(s);
    for (let i = 0; i < bars.stage.length; i += 1) {
      if (bars.stage[i] === s && bars.microBatch[i] === bars.microBatch[first]) times[bars.kind[i]] += bars.end[i] - bars.start[i];
    }
    const readers = links.stages.flatMap((other, k) => (other.receivesFrom.includes(s) ? [k] : []));
    return {
      title: `Stage ${stageName(writer.store, s)}`, subtitle: `${formatCount(links.nodesOfStage[s].length)} nodes, ${stage.pass}`,
      rows: [["device", writer.device(stage.device)], ["receive", `${formatMs(times[SLOT_RECEIVE])} per micro-batch`],
        ["compute", `${formatMs(times[SLOT_COMPUTE])} per micro-batch`], ["send", `${formatMs(times[SLOT_SEND])} per micro-batch`],
        ...writer.stages("waits for", stage.receivesFrom), ...writer.stages("feeds", readers)],
      lists: data.graph ? [writer.nodeList("nodes", links.nodesOfStage[s])] : [],
    };
  },

  tensor(writer, { tensor: t }) {
    const { nodes, links } = writer;
    const { source, from, to, sendMs, receiveMs, bytes } = links.tensors[t];
    const { send, receive } = links.transferStages(t);
    const readers = links.readersOf(t).filter((v) => to.includes(nodes.device[v]));
    return {
      title: `${links.tensors[t].name ? `Tensor ${links.tensors[t].name}` : "Output"} of ${nodeName(nodes, source)}`, subtitle: to.length > 1 ? `moved to ${to.length} devices` : "moved between devices",
      rows: [["from", writer.device(from)], ...writer.devices("to", to), ["time", formatMove(sendMs, receiveMs, EACH_WAY)], ["size", formatBytes(bytes)],
        ...writer.stages("made by stage", [...send]), ...writer.stages("received by stage", [...receive])],
      lists: [writer.nodeList("made by", [source]), writer.nodeList("read there by", readers)],
    };
  },

  /** One stage's work on one micro-batch: its receive, compute and send. */
  bar(writer, { bar }) {
    const { links } = writer;
    const { bars, deviceOfLane } = links;
    const [s, m] = [bars.stage[bar], bars.microBatch[bar]];
    let [start, end] = [bars.start[bar], bars.end[bar]];
    const parts = [];
    for (let i = 0; i < bars.lane.length; i += 1) {
      if (bars.stage[i] !== s || bars.microBatch[i] !== m) continue;
      [start, end] = [Math.min(start, bars.start[i]), Math.max(end, bars.end[i])];
      parts.push([SLOT_WORDS[bars.kind[i]], `${formatMs(bars.end[i] - bars.start[i])}, from ${formatMs(bars.start[i])}`]);
    }
    const pass = links.stages.some((stage) => stage.backward) ? `${links.stages[s].pass}, ` : "";
    return {
      title: `Stage ${stageName(writer.store, s)}, micro-batch ${m}`, subtitle: `${pass}takes ${formatMs(end - start)}`,
      rows: [["device", writer.device(deviceOfLane[bars.lane[bar]])], ["start", formatMs(start)], ["end", formatMs(end)], ...parts,
        ["go to", writer.stage(s), writer.link({ kind: "microBatch", microBatch: m }, [make("span", { text: `micro-batch ${m}` })])]],
      lists: writer.nodes ? [writer.nodeList("nodes", links.nodesOfStage[s])] : [],
    };
  },

  microBatch(writer, { microBatch: m }) {
    const { bars, deviceOfLane } = writer.links;
    let [start, end, busy] = [Infinity, -Infinity, 0];
    const devices = new Set();
    for (let i = 0; i < bars.lane.length; i += 1) {
      if (bars.microBatch[i] !== m) continue;
      [start, end, busy] = [Math.min(start, bars.start[i]), Math.max(end, bars.end[i]), busy + bars.end[i] - bars.start[i]];
      devices.add(deviceOfLane[bars.lane[i]]);
    }
    return {
      title: `Micro-batch ${m}`, subtitle: `takes ${formatMs(end - start)} through the pipeline`,
      rows: [["enters", formatMs(start)], ["leaves", formatMs(end)], ["worked on", `${formatMs(busy)}, on all devices together`],
        ...writer.devices("on", [...devices].sort((a, b) => a - b))],
      lists: [],
    };
  },

  /** A part of the time axis: what each device does in it. */
  range({ store }, thing) {
    const { fromMs, toMs } = thing;
    return { title: `${formatMs(fromMs)} to ${formatMs(toMs)}`, subtitle: `${formatMs(toMs - fromMs)} selected`, rows: [],
      lists: [rangeTable(store, thing)] };
  },
};
