/* Which key does what, and the sheet that says so. A key is taken from the page only where the picture has the focus;
   those marked `everywhere` also work from the rest of the page, except where one types. Keys without `run` belong to
   another part of the picture and stand here for the sheet. */

import { make } from "../kit/dom.js";

const PAN_STEP = 60;
const ON_MOVING = "Move about";
const ON_FINDING = "Find and choose";
const ON_TIME = "Timeline";
const ON_EDITS = "Change the plan";

/** `shown` is what the sheet calls the keys; `picture` is the component. */
export const KEYS = [
  { group: ON_MOVING, shown: "W A S D, arrows", text: "pan graph or timeline, whichever is under the pointer or has the focus" },
  { keys: ["a", "ArrowLeft"], run: (picture) => picture.active.pan(PAN_STEP, 0) },
  { keys: ["d", "ArrowRight"], run: (picture) => picture.active.pan(-PAN_STEP, 0) },
  { keys: ["w", "ArrowUp"], run: (picture) => picture.active.pan(0, PAN_STEP) },
  { keys: ["s", "ArrowDown"], run: (picture) => picture.active.pan(0, -PAN_STEP) },
  { group: ON_MOVING, shown: "+  −", text: "zoom in and out; so does the wheel" },
  { keys: ["+", "="], run: (picture) => picture.active.zoom(1.3) },
  { keys: ["-", "_"], run: (picture) => picture.active.zoom(1 / 1.3) },
  { group: ON_MOVING, shown: "F", text: "fit: show everything", keys: ["f"], everywhere: true, run: (picture) => picture.fit() },
  { group: ON_MOVING, shown: "P", text: "presentation: the picture alone and larger; P or Esc ends it, F11 takes the whole screen", keys: ["p"],
    everywhere: true, run: (picture) => picture.presentation.set(!picture.presentation.isOn) },
  { group: ON_MOVING, shown: "N", text: "in a presentation: put a note on the graph, dragging to what it is about", keys: ["n"],
    run: (picture) => picture.placeNote() },
  { group: ON_MOVING, shown: "1 – 5", text: "level of detail, from devices to nodes" },
  ...[1, 2, 3, 4, 5].map((place) => ({ keys: [String(place)],
    // After M a number names a device.
    unless: (picture) => picture.editBar.awaitsDevice, run: (picture) => picture.toolbar.pressLevel(place - 1) })),
  { group: ON_FINDING, shown: "/", text: "search by name, id, layer or regular expression", keys: ["/"], everywhere: true,
    run: (picture) => picture.toolbar.input.focus() },
  { group: ON_FINDING, shown: "Enter, Shift+Enter", text: "in the search: next and previous match" },
  { group: ON_FINDING, shown: ".  ,", text: "next and previous of what is selected: node, layer, device, stage, tensor, bar" },
  { keys: ["."], everywhere: true, run: (picture) => picture.step(1) },
  { keys: [","], everywhere: true, run: (picture) => picture.step(-1) },
  { group: ON_FINDING, shown: "Shift+click", text: "add a box to the selection, or take it out" },
  { group: ON_FINDING, shown: "Esc", text: "clear the search, then end the replay, then clear the selection, then end the presentation", keys: ["Escape"],
    everywhere: true, run: (picture) => picture.clear() },
  // On a button, Space presses that.
  { group: ON_TIME, shown: "Space, K", text: "play and pause the run", keys: [" "], sparesControls: true, run: (picture) => picture.timeline.toggleReplay() },
  { keys: ["k"], everywhere: true, run: (picture) => picture.timeline.toggleReplay() },
  { group: ON_MOVING, shown: "L", text: "network order or one lane per device", keys: ["l"], run: (picture) => picture.graph.controls.toggleLanes() },
  { group: ON_TIME, shown: ".  ,", text: "in the replay: to the next and the previous event" },
  { group: ON_TIME, shown: "Shift+drag", text: "mark a part of the time axis" },
  { group: ON_EDITS, shown: "M, then 1 – 9", text: "move the selection to that device" },
  { group: ON_EDITS, shown: "Ctrl+Z, Ctrl+Shift+Z", text: "undo and redo" },
  { group: ON_EDITS, shown: "?", text: "this sheet", keys: ["?"], everywhere: true, run: (picture) => picture.keySheet.open() },
];

const KEY_OF = new Map(KEYS.filter((entry) => entry.keys).flatMap((entry) => entry.keys.map((key) => [key, entry])));
const CONTROLS = "button, select, summary, a, [role=row]";

/** Do what a key pressed inside the picture stands for. */
export function pressInside(picture, event) {
  if (event.target.closest?.("input, textarea, select, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
  const entry = KEY_OF.get(nameOfKey(event));
  if (!entry?.run || entry.unless?.(picture) || (entry.sparesControls && event.target.closest?.(CONTROLS))) return;
  entry.run(picture);
  event.preventDefault();
  event.stopPropagation();
}

/** Do what a key pressed elsewhere on the page stands for, where nobody types. */
export function pressOnPage(picture, event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (picture.root.clientWidth === 0 || !picture.store.data?.graph || picture.isCovered()) return;
  const target = event.composedPath()[0];
  if (target.isContentEditable || target.closest?.("input, textarea, select, dialog, [role=dialog]")) return;
  const entry = KEY_OF.get(nameOfKey(event));
  if (!entry?.everywhere) return;
  entry.run(picture);
  event.preventDefault();
}

/** Letters count the same in capitals. */
function nameOfKey(event) {
  return event.key.length === 1 ? event.key.toLowerCase() : event.key;
}

/** The sheet of keys, as a dialog over the page. */
export class KeySheet {
  constructor() {
    const groups = [...new Set(KEYS.map((entry) => entry.group))].filter(Boolean);
    const close = make("button", { type: "button", className: "close", text: "×", title: "Close ( Esc )", "aria-label": "Close the sheet of keys",
      onclick: () => this.element.close() });
    this.element = make("dialog", { className: "key-sheet", "aria-label": "Keys", onclick: (event) => this.click(event) }, [
      make("div", { className: "sheet-body" }, [
        make("header", {}, [make("h4", { text: "Keys" }), close]),
        make("div", { className: "groups" }, groups.map((group) => make("section", {}, [
          make("h5", { text: group }),
          make("dl", {}, KEYS.filter((entry) => entry.group === group).flatMap((entry) => [
            make("dt", { text: entry.shown }), make("dd", { text: entry.text }),
          ])),
        ]))),
      ]),
    ]);
  }

  open() {
    if (!this.element.open) this.element.showModal();
  }

  /** A click beside the sheet closes it. */
  click(event) {
    if (event.target === this.element) this.element.close();
  }
}
