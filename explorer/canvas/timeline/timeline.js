/* The timeline part of the picture: its head with the replay, the bars, memory below them, and the notes under both. */

import { formatCount } from "../kit/quantities.js";
import { GanttPicture, ganttHeight } from "./gantt_canvas.js";
import { PASS_LETTERS, PASS_NAMES, SLOT_COMPUTE } from "../kit/contract.js";
import { MemoryPicture, STRIP_HEIGHT } from "./memory_strip.js";
import { make } from "../kit/dom.js";
import { unbroken } from "../kit/names.js";
import { Replay, ReplayBar, prefersCalm } from "../replay/replay.js";
import { ReplayGraph } from "../replay/replay_graph.js";
import { ReplayState } from "../replay/replay_state.js";
import { Surface } from "../kit/surface.js";

const HEAD_HEIGHT = 72;
const NOTES_HEIGHT = 44;
const NO_ACTIVATIONS = "Memory over time is not drawn: this file does not say how much of the nodes' memory are activations, "
  + "which come and go with the micro-batches. The curves count the micro-batches in flight instead.";

export class TimelinePart {
  constructor(store, actions, graph) {
    Object.assign(this, { store, actions, graph });
    this.replay = new Replay();
    this.shared = {
      replay: this.replay, cursorMs: null, range: null, showsCritical: false, memoryMode: "memory",
      axisChanged: () => this.memory?.surface.invalidate(),
      setCursor: (ms) => { if (ms !== this.shared.cursorMs) { this.shared.cursorMs = ms; this.redraw(); } },
      setRange: (range) => { this.shared.range = range; this.redraw(); },
      microBatchFill: (m) => { const fills = store.data.gantt.microBatchFills; return fills[m % fills.length]; },
    };
    this.bar = new ReplayBar(this.replay, () => this.toggleReplay(), () => Boolean(store.data?.graph));
    this.title = make("h4");
    this.keys = make("div", { className: "keys" });
    this.criticalButton = make("button", { type: "button", text: "Critical path", "aria-pressed": "false",
      title: "Outline the chain of waits that makes the run as long as it is", onclick: () => this.toggleCritical() });
    this.orderButton = make("button", { type: "button", className: "lane-order", text: "By device", "aria-pressed": "false",
      title: "Lanes in the order of the devices' numbers, not of the pipeline", onclick: () => actions.orderLanes(!store.data.gantt.isByDevice) });
    this.modes = ["memory", "in flight"].map((mode) => make("button", { type: "button", text: mode === "memory" ? "Memory" : "In flight",
      onclick: () => this.setMode(mode) }));
    this.modeGroup = make("div", { className: "switch", role: "group", "aria-label": "Below the timeline" }, this.modes);
    this.canvas = make("canvas", { className: "gantt", role: "img", tabindex: "0" });
    this.memoryCanvas = make("canvas", { className: "memory", role: "img", tabindex: "0" });
    this.memoryNote = make("p", { className: "memory-note", text: NO_ACTIVATIONS });
    this.notes = make("p", { className: "notes" });
    this.element = make("section", { className: "timeline", "aria-label": "Timeline" }, [
      make("div", { className: "timeline-head" }, [this.title, this.keys, make("div", { className: "switches" },
        [this.modeGroup, make("div", { className: "switch" }, [this.orderButton, this.criticalButton])])]),
      this.bar.element, this.canvas, this.memoryCanvas, this.memoryNote, this.notes,
    ]);
    this.gantt = new GanttPicture(store, actions, this.shared);
    this.memory = new MemoryPicture(store, actions, this.gantt, this.shared);
    this.gantt.surface = new Surface(this.canvas, this.gantt);
    this.memory.surface = new Surface(this.memoryCanvas, this.memory);
    this.inGraph = new ReplayGraph(store, graph, this.shared);
    /** Told of the playhead's time, null without one, unless it follows another picture's. */
    this.onPlayhead = null;
    this.replay.subscribe(() => {
      this.inGraph.show();
      this.redraw();
      if (!this.follows) this.onPlayhead?.(this.replay.timeMs);
    });
  }

  /** Pixels that the whole part takes. */
  heightFor(gantt) {
    return gantt ? ganttHeight(gantt) + STRIP_HEIGHT + HEAD_HEIGHT + NOTES_HEIGHT : 0;
  }

  get surfaces() {
    return [this.gantt.surface, this.memory.surface];
  }

  /** Give the lanes their height, which is another one in a presentation. */
  setHeights(presentation) {
    this.presentation = presentation;
    const { gantt, lanesOnly } = this.store.data ?? {};
    const [lanes, memory] = presentation.heights(gantt ? ganttHeight(gantt) : 0, lanesOnly ? 0 : STRIP_HEIGHT);
    if (gantt) this.canvas.style.height = `${lanes}px`;
    this.memoryCanvas.style.height = `${memory}px`;
  }

  /** Take in a message; `view` is what was last seen of the timeline of this graph. */
  show(view) {
    const { gantt } = this.store.data;
    this.element.hidden = !gantt;
    this.shared.cursorMs = this.shared.range = null;
    if (!gantt) return void this.replay.load(null);
    this.setHeights(this.presentation);
    this.gantt.prepare();
    this.memory.prepare();
    this.inGraph.prepare();
    this.gantt.restore(view ?? null);
    const { bars, index } = this.gantt;
    this.replay.load(gantt.makespanMs > 0 ? new ReplayState(bars, index, gantt.stages, gantt.numMicroBatches) : null);
    this.bar.show();
    this.orderButton.setAttribute("aria-pressed", String(gantt.isByDevice));
    this.orderButton.classList.toggle("on", gantt.isByDevice);
    const count = gantt.numMicroBatches;
    this.title.textContent = `${gantt.title}, ${formatCount(count)} micro-batch${count === 1 ? "" : "es"}`;
    // A page may hold several; a list of landmarks has to tell them apart.
    this.element.setAttribute("aria-label", `Timeline: ${this.title.textContent}`);
    this.keys.replaceChildren(...this.legend(gantt, bars));
    this.memoryNote.hidden = gantt.tellsMemory;
    this.modeGroup.hidden = !gantt.tellsMemory;
    this.notes.textContent = unbroken([...gantt.notes, ...(gantt.idle ? [gantt.idle] : [])].join(" "));
    this.canvas.setAttribute("aria-label", gantt.summary);
    this.memoryCanvas.setAttribute("aria-label", this.memory.summary());
    this.setMode(this.shared.memoryMode);
    this.element.classList.toggle("lanes-only", this.store.data.lanesOnly);
    this.gantt.surface.resize();
    this.memory.surface.resize();
  }

  redraw() {
    this.gantt.surface.invalidate();
    this.memory.surface.invalidate();
  }

  /** What the shapes of bars mean, of those that are there. */
  legend(gantt, bars) {
    const passes = new Set(gantt.stages.map((stage) => stage.passIndex));
    const names = gantt.hasBackward ? PASS_NAMES.map((name, i) => `${PASS_LETTERS[i]} ${name}`) : ["compute"];
    const entry = (shape, text, title = "") => make("span", { className: "key", title },
      [make("i", { className: `swatch ${shape}` }), make("span", { text })]);
    const keys = [...passes].sort().map((pass) => entry(`pass${pass}`, names[pass]));
    if (bars.kind.some((kind) => kind !== SLOT_COMPUTE)) {
      keys.push(entry("receive", "receive", "Upper half: from host memory"), entry("send", "send", "Lower half: to host memory"));
    }
    if (gantt.stages.some((stage) => stage.numPieces > 1)) {
      keys.push(entry("piece", `a, b, … ${gantt.pieceName}s`,
        `Of one device, each works on a different micro-batch; a notch for each ${gantt.pieceName} before it`));
    }
    return keys;
  }

  setMode(mode) {
    this.shared.memoryMode = mode;
    for (const [k, name] of ["memory", "in flight"].entries()) {
      this.modes[k].setAttribute("aria-pressed", String(name === mode));
      this.modes[k].classList.toggle("on", name === mode);
    }
    this.redraw();
  }

  toggleCritical() {
    this.shared.showsCritical = !this.shared.showsCritical;
    this.criticalButton.setAttribute("aria-pressed", String(this.shared.showsCritical));
    this.criticalButton.classList.toggle("on", this.shared.showsCritical);
    this.redraw();
  }

  /** Put the playhead where that of another picture is. */
  follow(ms) {
    this.follows = true;
    this.replay.pause();
    if (ms === null) this.replay.stop();
    else this.replay.seek(ms);
    this.follows = false;
  }

  // Keys

  toggleReplay() {
    if (!this.store.data?.gantt) return;
    if (!this.replay.playing) this.bringIntoSight();
    this.replay.toggle();
  }

  /** Graph and bars belong together: scroll, if they are not both to be seen, as little as shows them. */
  bringIntoSight() {
    const upper = this.graph.surface.canvas.getBoundingClientRect();
    const lower = this.canvas.getBoundingClientRect();
    const top = upper.height > 0 ? upper.top : lower.top;
    if (top >= 0 && lower.bottom <= window.innerHeight) return;
    this.element.previousElementSibling?.scrollIntoView({ block: "start", behavior: prefersCalm() ? "auto" : "smooth" });
  }

  /** `.` and `,`: events of the replay, without one the bars of the selected micro-batch. */
  step(step) {
    if (!this.store.data?.gantt) return;
    if (this.replay.isOn) this.replay.step(step);
    else this.gantt.stepBar(step);
  }

  /** Escape: end the replay; false when there is none. */
  escape() {
    if (!this.replay.isOn) return false;
    this.replay.stop();
    return true;
  }

  /** For tests: what stands at the playhead, and what the parts show. */
  probe() {
    const { replay, shared, memory } = this;
    return {
      replay: { timeMs: replay.timeMs, playing: replay.playing, speed: replay.speed, wholeMs: replay.wholeMs, state: replay.state },
      cursorMs: shared.cursorMs,
      showsCritical: shared.showsCritical,
      critical: this.gantt.critical?.length ?? 0,
      isCritical: (i) => this.gantt.bars.critical[i] === 1,
      memory: this.store.data?.gantt ? {
        showsBytes: memory.showsBytes,
        shown: [...(memory.shown ?? [])],
        ticks: [...(memory.ticks ?? [])],
        heading: memory.heading,
        warning: memory.warning,
        warningWidth: memory.warningWidth,
        limitsAbove: memory.limitsAbove,
        limitsWidth: memory.limitsWidth,
        plotWidth: memory.plotWidth,
      } : null,
      memoryAt: (lane, ms) => memory.valueAt(lane, ms),
      momentAt: (ms) => replay.moments.stateAt(ms),
      tensorsAt: (ms) => replay.moments.tensorsAt(ms),
      timeX: (ms) => this.canvas.getBoundingClientRect().left + this.gantt.toX(ms) * this.gantt.surface.zoom,
      eventsOfReplay: () => [...replay.moments.events],
      replayMarks: () => this.inGraph.drawn,
      replayNumbers: () => [this.inGraph.numNumbers, this.inGraph.fronts.length],
      lit: () => this.graph.replay && [...this.graph.replay.lit.keys()],
    };
  }

  destroy() {
    this.replay.stop();
    this.gantt.surface.destroy();
    this.memory.surface.destroy();
  }
}
