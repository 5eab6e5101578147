/* Controls of the graph: fold repeats, what the fill says, order of the boxes; and the legend of the colour scale. */

import { LEVEL_DEVICES } from "../kit/contract.js";
import { COLOUR_MODES } from "./colour_modes.js";
import { make } from "../kit/dom.js";
import { foldedTwin } from "./level_buttons.js";

export class GraphControls {
  constructor(picture, actions) {
    this.picture = picture;
    this.actions = actions;
    this.fold = make("button", { type: "button", className: "toggle", text: "Fold repeats",
      title: "Draw repeated layers on one device as one box",
      onclick: () => actions.setLevel(foldedTwin(picture.store.data.graph.levels, picture.level.name).name) });
    this.colour = make("select", { "aria-label": "Colour of the boxes", onchange: () => this.chooseColour() },
      COLOUR_MODES.map((mode) => make("option", { value: mode.name, text: `Colour: ${mode.title.toLowerCase()}` })));
    this.lanes = make("button", { type: "button", className: "toggle", text: "Lanes", title: "A lane per device ( L )",
      onclick: () => this.toggleLanes() });
    this.element = make("div", { className: "graph-controls", role: "group", "aria-label": "Look of the graph" }, [
      this.fold, this.colour, this.lanes,
    ]);
    this.legend = make("div", { className: "scale-legend", hidden: "" });
    this.shown = null;
  }

  chooseColour() {
    this.picture.setColour(this.colour.value);
    this.actions.lookChanged(this.picture.userLook);
  }

  toggleLanes() {
    if (!this.picture.store.data?.graph?.placed) return;
    this.picture.setArrangement(this.picture.arrangement === "lanes" ? "network" : "lanes");
    this.actions.lookChanged(this.picture.userLook);
  }

  /** Bring everything up to date with the picture; cheap while nothing has changed. */
  update() {
    const { picture, shown } = this;
    const { level, mode, scale, arrangement, store } = picture;
    if (shown && shown.level === level && shown.mode === mode && shown.scale === scale && shown.arrangement === arrangement
      && shown.theme === store.theme) return;
    this.shown = { level, mode, scale, arrangement, theme: store.theme };
    const { levels, placed } = store.data.graph;
    this.fold.hidden = !foldedTwin(levels, level.name);
    this.fold.setAttribute("aria-pressed", String(level.name === "blocks"));
    this.lanes.disabled = !placed || level.name === LEVEL_DEVICES;
    this.lanes.setAttribute("aria-pressed", String(picture.isInLanes()));
    this.colour.value = mode.name;
    this.showScale(mode, scale, level);
  }

  /** The scale with its ticks, and the looks of zero and unknown where there are such boxes. */
  showScale(mode, scale, level) {
    this.legend.hidden = !mode.of;
    if (!mode.of) return;
    const values = level.boxes.label.map((_, i) => mode.of(level.boxes, i));
    const parts = [make("b", { text: mode.caption })];
    if (!scale.isEmpty) {
      const bar = make("div", { className: "ramp" });
      bar.style.background = `linear-gradient(to right, ${scale.ramp.map((step) => step.fill).join(", ")})`;
      const ticks = make("div", { className: "ticks" }, scale.ticks().map(({ position, text }, k) => {
        const tick = make("span", { text: (scale.isCut && k === 0 && !text.startsWith("<") ? "≤ " : "") + text, className: position < 0.05 ? "first" : position > 0.95 ? "last" : "" });
        tick.style.left = `${100 * position}%`;
        return tick;
      }));
      parts.push(make("div", { className: "scale" }, [bar, ticks]));
    }
    const key = (className, text) => parts.push(make("span", { className: "key" }, [make("span", { className }), make("span", { text })]));
    if (values.some((value) => value === 0)) key("swatch zero", mode.zero);
    if (values.some((value) => value === null)) key("swatch unknown", this.picture.store.data.graph.placed ? "no data" : "not placed");
    this.legend.replaceChildren(...parts);
  }
}
