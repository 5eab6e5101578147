/* The picture for a room: alone on the screen, with larger type and lines, its controls out of the way.

   It lies in the browser's top layer (a popover), above whatever the page shows. Canvases are drawn as if they were
   smaller and the screen denser (`Surface.zoom`), so that everything on them grows alike. */

import { inOrder, unbroken } from "../kit/names.js";
import { make } from "../kit/dom.js";

/** A window of this size is drawn at its natural size; larger ones are magnified. */
const NATURAL = [1240, 720];
const MAGNIFIED = [1, 2.6];
const MOST_OF_TIMELINE = 0.5;
/** Above and between what is drawn on canvases, in pixels at the natural size. */
const HEAD_PIXELS = 34, REPLAY_PIXELS = 36;
/** Drawn smaller than this, letters would no longer be read. */
const LEAST_FITTING = 0.6;

export class Presentation {
  /** `actions` are {changed(), fit(), toggleNotes(), clearNotes()}. */
  constructor(root, actions) {
    Object.assign(this, { root, actions });
    this.isOn = false;
    /** Whether the page itself is presented, and this picture in its place on it. */
    this.isLarge = false;
    this.windowShare = 1;
    this.title = make("h3");
    this.facts = make("span", { className: "facts" });
    const button = (text, label, onclick) => make("button", { type: "button", text, title: label, "aria-label": label, onclick });
    this.noteButton = button("Note", "Put a note on the graph: press where it shall stand and drag to what it is about ( N )", () => actions.placeNote());
    this.clearButton = button("Clear notes", "Take all notes off the graph", () => actions.clearNotes());
    this.element = make("header", { className: "talk", hidden: "" }, [this.title, this.facts, make("span", { className: "space" }),
      this.noteButton, this.clearButton, button("×", "End the presentation ( P )", () => this.set(false))]);
  }

  /** Say what is shown; in a presentation only, since the page says it otherwise. */
  show({ title, facts }) {
    this.said = { title, facts };
    this.title.textContent = this.isOn ? inOrder(title) : "";
    this.facts.textContent = this.isOn ? unbroken(facts).replace(" (proven)", "\u00a0(proven)") : "";
  }

  /** How much larger than in the page everything is drawn. */
  get zoom() {
    if (!this.isOn && !this.isLarge) return 1;
    const fits = Math.min(window.innerWidth / NATURAL[0], window.innerHeight / NATURAL[1]);
    return Math.min(MAGNIFIED[1], Math.max(MAGNIFIED[0], fits));
  }

  /** The heights of the timeline's lanes and of the curves of memory below them, 0 for none, by those in the page. */
  heights(lanes, memory) {
    if (this.isOn) return [Math.round(Math.min(lanes * this.zoom, MOST_OF_TIMELINE * window.innerHeight)), Math.round(memory * this.zoom)];
    const scale = this.isLarge ? this.zoom * this.fitting(lanes + memory, HEAD_PIXELS + (memory ? REPLAY_PIXELS : 0)) : 1;
    return [Math.round(lanes * scale), Math.round(memory * scale)];
  }

  /** How much lower canvases are drawn so that all pictures of a presented page are seen at once, 1 for no lower. */
  fitting(pixels, head) {
    const room = (this.windowShare * window.innerHeight) / this.zoom - head;
    return Math.min(1, Math.max(LEAST_FITTING, room / pixels));
  }

  /** Begin or end; tells nobody. */
  put(isOn) {
    if (isOn === this.isOn) return;
    this.isOn = isOn;
    this.element.hidden = !isOn;
    if (this.said) this.show(this.said);
    this.root.classList.toggle("presenting", isOn);
    if (isOn) {
      this.root.setAttribute("popover", "manual");
      this.root.showPopover();
      this.root.focus({ preventScroll: true });
    } else {
      this.root.hidePopover();
      this.root.removeAttribute("popover");
    }
    this.root.style.setProperty("--zoom", String(this.zoom));
    this.actions.changed();
  }

  /** Begin or end by the reader's wish. */
  set(isOn) {
    this.put(isOn);
    this.actions.told();
  }
}
