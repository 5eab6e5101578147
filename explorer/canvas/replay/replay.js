/* The playhead: a clock over the schedule, and the row of controls for it. Nothing plays by itself. */

import { formatCount, formatMs } from "../kit/quantities.js";
import { make } from "../kit/dom.js";

/** At normal speed a whole run takes this long. */
const RUN_SECONDS = 12;
const SPEEDS = [0.25, 0.5, 1, 2, 4, 8];
/** A frame that took longer, because the page was hidden or busy, counts as this long. */
const LONGEST_FRAME_MS = 100;
/** With reduced motion the playhead jumps from event to event, no more often than this. */
const CALM_STEP_MS = 400;

export class Replay {
  constructor() {
    this.timeMs = null;
    this.playing = false;
    this.speed = 1;
    this.moments = null;
    this.listeners = [];
    this.cached = null;
  }

  /** Have `listener(replay)` called after each change. */
  subscribe(listener) {
    this.listeners.push(listener);
  }

  /** Take a new schedule: its ReplayState, or null; the playhead stays at its share of the run. */
  load(moments) {
    const share = this.timeMs === null || !this.wholeMs ? null : this.timeMs / this.wholeMs;
    this.moments = moments;
    this.wholeMs = moments?.wholeMs ?? 0;
    this.cached = null;
    if (!(this.wholeMs > 0) || share === null) return void this.stop();
    this.timeMs = share * this.wholeMs;
    this.changed();
  }

  get isOn() {
    return this.timeMs !== null;
  }

  /** What runs at the playhead (see replay_state.js); null without one. */
  get state() {
    if (this.timeMs === null) return null;
    if (this.cached?.timeMs !== this.timeMs) this.cached = this.moments.stateAt(this.timeMs);
    return this.cached;
  }

  changed() {
    for (const listener of this.listeners) listener(this);
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  /** Run on from the playhead, from the beginning when there is none or it is at the end. */
  play() {
    if (this.playing || !(this.wholeMs > 0)) return;
    if (this.timeMs === null || this.timeMs >= this.wholeMs) this.timeMs = 0;
    this.playing = true;
    this.clock = this.timeMs;
    this.lastFrame = this.lastShown = performance.now();
    this.frame = requestAnimationFrame((now) => this.tick(now));
    this.changed();
  }

  tick(now) {
    if (!this.playing) return;
    const passed = Math.max(0, Math.min(LONGEST_FRAME_MS, now - this.lastFrame));
    this.lastFrame = now;
    this.clock = Math.min(this.wholeMs, this.clock + (passed / 1000) * this.speed * (this.wholeMs / RUN_SECONDS));
    const isOver = this.clock >= this.wholeMs;
    if (!prefersCalm()) {
      this.timeMs = this.clock;
    } else if (isOver || now - this.lastShown >= CALM_STEP_MS) {
      this.lastShown = now;
      this.timeMs = isOver ? this.wholeMs : this.moments.eventFrom(this.clock, -1);
    }
    if (isOver) this.playing = false;
    else this.frame = requestAnimationFrame((next) => this.tick(next));
    this.changed();
  }

  pause() {
    if (!this.playing) return;
    this.playing = false;
    cancelAnimationFrame(this.frame);
    this.changed();
  }

  /** Move the playhead to a time in ms. */
  seek(ms) {
    if (!(this.wholeMs > 0)) return;
    this.timeMs = this.clock = Math.max(0, Math.min(this.wholeMs, ms));
    this.changed();
  }

  /** Move the playhead to the next start or end of a bar (step 1) or the one before (-1), and pause there. */
  step(step) {
    if (!(this.wholeMs > 0)) return;
    this.pause();
    this.seek(this.moments.eventFrom(this.timeMs ?? 0, step));
  }

  setSpeed(speed) {
    this.speed = speed;
    this.changed();
  }

  /** Take the playhead away. */
  stop() {
    this.pause();
    if (this.timeMs === null) return;
    this.timeMs = null;
    this.changed();
  }
}

export function prefersCalm() {
  return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
}

const ICONS = {
  play: "M4 2.5 13 8 4 13.5Z",
  pause: "M4 2.5h3v11H4ZM9 2.5h3v11H9Z",
  back: "M12.5 2.5 5.5 8l7 5.5ZM3 2.5h2v11H3Z",
  forward: "M3.5 2.5 10.5 8l-7 5.5ZM11 2.5h2v11h-2Z",
  stop: "M4 4h8v8H4Z",
};

/** Buttons, slider, speed and the numbers at the playhead. */
export class ReplayBar {
  /** `toggle` plays and pauses; `hasGraph` says whether there is a graph that micro-batches can be seen in. */
  constructor(replay, toggle, hasGraph) {
    Object.assign(this, { replay, hasGraph });
    const button = (icon, label, onclick) => {
      const element = make("button", { type: "button", title: label, "aria-label": label, onclick });
      element.append(drawIcon(icon));
      return element;
    };
    this.playButton = button("play", "Play ( Space )", toggle);
    this.stopButton = button("stop", "End the replay ( Esc )", () => replay.stop());
    this.slider = make("input", { type: "range", min: "0", max: "1", step: "any", value: "0", "aria-label": "Playhead",
      oninput: () => replay.seek(Number(this.slider.value) * replay.wholeMs) });
    this.speed = make("select", { "aria-label": "Speed of the replay", title: "Speed; at 1× the whole run takes 12 seconds",
      onchange: () => replay.setSpeed(Number(this.speed.value)) },
    SPEEDS.map((speed) => make("option", { value: String(speed), text: `${speed}×`, ...(speed === 1 ? { selected: "" } : {}) })));
    this.readout = make("div", { className: "readout" });
    this.element = make("div", { className: "replay", role: "group", "aria-label": "Replay" }, [
      make("div", { className: "buttons" }, [
        button("back", "Back to the event before ( , )", () => replay.step(-1)), this.playButton,
        button("forward", "On to the next event ( . )", () => replay.step(1)), this.stopButton,
      ]),
      this.speed, this.slider, this.readout,
    ]);
    replay.subscribe(() => this.show());
  }

  show() {
    const { replay } = this;
    const name = replay.playing ? "pause" : "play";
    if (this.icon !== name) {
      this.icon = name;
      const label = replay.playing ? "Pause ( Space )" : "Play ( Space )";
      this.playButton.replaceChildren(drawIcon(name));
      this.playButton.title = label;
      this.playButton.setAttribute("aria-label", label);
    }
    this.stopButton.disabled = !replay.isOn;
    this.slider.value = String(replay.isOn ? replay.timeMs / replay.wholeMs : 0);
    this.slider.setAttribute("aria-valuetext", replay.isOn ? formatMs(replay.timeMs) : "not playing");
    this.readout.replaceChildren(...this.facts().map(([className, text]) => make("span", { className, text })));
  }

  facts() {
    const { replay } = this;
    const key = window.matchMedia("(pointer: coarse)").matches ? "Play shows the run" : "Space plays the run"; // no keys there
    if (!replay.isOn) return [["hint", `${key}${this.hasGraph() ? ": micro-batches travel through the graph" : ""}`]];
    const { numFinished, numInFlight, numBusy } = replay.state;
    const { numMicroBatches, index } = replay.moments;
    return [["clock", formatMs(replay.timeMs)], ["fact", `${formatCount(numFinished)} of ${formatCount(numMicroBatches)} done`],
      ["fact", `${formatCount(numInFlight)} in flight`], ["fact", `${numBusy} of ${index.numLanes} devices busy`]];
  }
}

function drawIcon(name) {
  const icon = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [key, value] of Object.entries({ viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" })) {
    icon.setAttribute(key, value);
  }
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", ICONS[name]);
  path.setAttribute("fill", "currentColor");
  icon.append(path);
  return icon;
}
