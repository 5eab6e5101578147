/* One figure of a lesson: marks as SVG, frames to step through in the browser, marks that light others or are picked.

   Streamlit calls the default export at mount and again whenever the data change. A frame says what changes from the
   one before, so a step touches only that. Text is set as text, never as markup. For tests the root has `__figure`. */

import { LEAST_SCALE, arranged } from "./figure_layout.js";

const SVG = "http://www.w3.org/2000/svg";
/** Pixels of a page's letters, which are larger where it is presented; figures grow with them. */
const ROOT_FONT = 16;
/** What of a page's height a figure leaves free: the bar at the top, under which it scrolls, unless the page says. */
const ABOVE = "var(--lesson-above, 3.75rem)";
/** Pixels of the screen. */
const LEAST_LETTERS = 11;
const FIELDS = ["look", "text", "sub", "fill", "ink", "tip", "x", "w"];

function make(tag, className = "", attributes = {}) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function makeSvg(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

class Figure {
  constructor(parent) {
    this.root = make("div", "lesson-figure");
    this.root.__figure = this;
    this.say = make("div", "say", { role: "status", "aria-live": "polite" });
    // With the keys, too, a figure wider than the phone can be moved.
    this.scroll = make("div", "scroll", { tabindex: "0", role: "group", "aria-label": "Figure" });
    this.controls = make("div", "controls", { role: "group", "aria-label": "Steps of the figure" });
    this.root.append(this.controls, this.say, this.scroll);
    parent.append(this.root);
    this.frame = 0;
    this.playing = false;
    this.painted = [];
    this.makeControls();
    this.onUp = () => this.endPaint();
    this.onCancel = () => this.endDrag();
    document.addEventListener("pointerup", this.onUp);
    document.addEventListener("pointercancel", this.onCancel);
    this.onMove = (event) => this.follow(event);
    document.addEventListener("pointermove", this.onMove);
    this.watch = new ResizeObserver(() => this.resized());
    this.watch.observe(this.root);
  }

  /** Whether it is laid out otherwise than on a wide page. */
  get isFolded() {
    return this.shown !== this.scene;
  }

  /** Draw the figure anew where its page has become too narrow for it, or wide enough. */
  resized() {
    if (!this.scene) return;
    const now = arranged(this.scene, this.root.clientWidth);
    if (now.width !== this.shown.width || now.height !== this.shown.height) this.show(this.frame);
    else this.keepLetters();
  }

  /** Have no letters smaller on the screen than can be read, where the figure is drawn smaller than it is. */
  keepLetters() {
    const scale = this.scroll.firstElementChild.getBoundingClientRect().width / this.shown.width;
    this.root.style.setProperty("--least", scale > 0 ? `${LEAST_LETTERS / scale}px` : "0px");
  }

  /** Draw the figure anew, at a frame. */
  show(frame) {
    this.shown = arranged(this.scene, this.root.clientWidth);
    this.draw(this.shown);
    this.keepLetters();
    this.frame = -1;
    this.go(frame, false);
  }

  destroy() {
    this.pause();
    document.removeEventListener("pointerup", this.onUp);
    document.removeEventListener("pointercancel", this.onCancel);
    document.removeEventListener("pointermove", this.onMove);
    this.watch.disconnect();
    this.root.remove();
  }

  makeControls() {
    const button = (label, sign, action) => {
      const element = make("button", "", { type: "button", "aria-label": label, title: label });
      element.textContent = sign;
      element.addEventListener("click", action);
      this.controls.append(element);
      return element;
    };
    button("First step", "|◀", () => this.go(0));
    button("One step back", "◀", () => this.go(this.frame - 1));
    this.playButton = button("Play", "▶ Play", () => (this.playing ? this.pause() : this.play()));
    button("One step on", "▶", () => this.go(this.frame + 1));
    button("Last step", "▶|", () => this.go(Infinity));
    this.slider = make("input", "", { type: "range", min: "0", value: "0", "aria-label": "Step" });
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    // Keys of the page are letters; Streamlit takes none while a box for input has the focus, which a slider is to it.
    this.slider.addEventListener("keydown", (event) => {
      if (!/^[a-z]$/i.test(event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
      this.slider.blur();
      const { key, code, keyCode } = event;
      document.body.dispatchEvent(new KeyboardEvent("keydown", { key, code, keyCode, bubbles: true }));
    });
    this.counter = make("span", "counter");
    this.controls.append(this.slider, this.counter);
  }

  update(component) {
    this.pick = (ids, digit) => component.setTriggerValue("pick", { ids, digit, serial: Date.now() });
    const { scene, digest } = component.data;
    if (digest === this.digest) return;
    const focused = this.root.getRootNode().activeElement?.dataset?.mark;
    const isSameFilm = this.film === scene.film && this.frames?.length === scene.frames.length;
    this.digest = digest;
    this.film = scene.film;
    this.frames = scene.frames;
    this.pace = scene.pace;
    this.scene = scene;
    this.controls.hidden = this.frames.length < 2;
    const lines = Math.max(...this.frames.map((frame) => frame.say.length));
    this.say.hidden = lines === 0;
    // What is below stays in its place while the lines change.
    this.say.style.minHeight = `${lines * 1.6}em`;
    this.above = (this.controls.hidden ? 0 : 2.5) + lines * 1.4 + 1;
    this.slider.max = String(Math.max(0, this.frames.length - 1));
    this.show(isSameFilm ? this.frame : 0);
    if (focused) this.marks.get(focused)?.group.focus({ preventScroll: true });
  }

  draw(scene) {
    const { width, height } = scene;
    this.root.style.setProperty("--transfer", scene.transfer || "var(--quiet)");
    const role = scene.picks.length || scene.marks.some((mark) => mark.focusable) ? "group" : "img";
    const svg = makeSvg("svg", { viewBox: `0 0 ${width} ${height}`, role });
    svg.setAttribute("aria-label", scene.alt);
    // All of it, with its controls and what is said above, stays within the window where letters stay readable.
    svg.style.maxWidth = `min(${(width * 1.35) / ROOT_FONT}rem, (100vh - ${ABOVE} - ${this.above}rem) * ${width / height})`;
    svg.style.minWidth = `${Math.round(width * LEAST_SCALE)}px`;
    const defs = makeSvg("defs", {});
    const head = makeSvg("marker", { id: "head", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto-start-reverse" });
    head.append(makeSvg("path", { d: "M0 0.8 L7.5 4 L0 7.2 z", class: "head" }));
    defs.append(head, this.hatch("receive", -45), this.hatch("send", 45));
    svg.append(defs);
    this.marks = new Map();
    this.picks = new Set(scene.picks);
    this.links = scene.links;
    // What was begun on marks that are no more.
    this.painted = [];
    this.drag = this.previewed = null;
    this.middles = new Map(scene.marks.map((mark) => [mark.id, [mark.x + mark.w / 2, mark.y + mark.h / 2]]));
    for (const mark of scene.marks) this.drawMark(svg, mark);
    this.scroll.replaceChildren(svg);
  }

  /** A pattern of thin lines, as transfers have in the load bars of the app (`explorer/elements/load_bars.py`). */
  hatch(id, angle) {
    const pattern = makeSvg("pattern", { id, width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: `rotate(${angle})` });
    pattern.append(makeSvg("path", { d: "M0 0 V5", class: "hatch" }));
    return pattern;
  }

  drawMark(svg, mark) {
    const group = makeSvg("g", { "data-mark": mark.id });
    const { x, y, w, h } = mark;
    let shape;
    if (mark.shape === "line" || mark.shape === "arrow") {
      const [cx, cy] = [mark.cx ?? (x + mark.x2) / 2, mark.cy ?? (y + mark.y2) / 2];
      shape = makeSvg("path", { d: `M${x} ${y} Q${cx} ${cy} ${mark.x2} ${mark.y2}`, fill: "none" });
      if (mark.shape === "arrow") shape.setAttribute("marker-end", "url(#head)");
    } else if (mark.shape === "round") {
      shape = makeSvg("ellipse", { cx: x + w / 2, cy: y + h / 2, rx: w / 2, ry: h / 2 });
    } else if (mark.shape === "box") {
      shape = makeSvg("rect", { x, y, width: w, height: h, rx: mark.r ?? 4 });
    }
    if (shape) {
      shape.classList.add("shape");
      group.append(shape);
    }
    const texts = {};
    const middle = { left: x, middle: x + w / 2, right: x + w }[mark.anchor];
    const anchor = { left: "start", middle: "middle", right: "end" }[mark.anchor];
    for (const [name, shift] of [["text", 0], ["sub", 1]]) {
      const text = makeSvg("text", { x: middle, y: y + h / 2, class: name, "text-anchor": anchor, "dominant-baseline": "central" });
      if (name === "text" && mark.size) text.style.fontSize = `max(${mark.size}px, var(--least, 0px))`;
      text.dataset.shift = shift;
      group.append(text);
      texts[name] = text;
    }
    const title = makeSvg("title", {});
    group.append(title);
    const known = { group, shape, texts, title, y: y + h / 2, state: { look: "", text: "", sub: "", fill: null, ink: null, tip: "", x, w }, kind: mark.shape };
    this.marks.set(mark.id, known);
    svg.append(group);
    if (this.picks.has(mark.id)) this.makePickable(group, mark.id);
    else if (this.links[mark.id] && mark.focusable) {
      group.setAttribute("tabindex", "0");
      group.setAttribute("role", "img");
    }
    if (this.links[mark.id]) {
      const lit = (on) => () => this.light(mark.id, on);
      for (const event of ["pointerenter", "focusin"]) group.addEventListener(event, lit(true));
      for (const event of ["pointerleave", "focusout"]) group.addEventListener(event, lit(false));
    }
    this.apply(mark.id, mark);
  }

  makePickable(group, id) {
    group.classList.add("pickable");
    group.setAttribute("tabindex", "0");
    group.setAttribute("role", "button");
    group.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      this.painted = [id];
      this.drag = this.shown.drags[id];
      group.classList.add("held");
      group.focus({ preventScroll: true });
    });
    // Else a finger scrolls the page: browsers overlook `touch-action` of marks within a drawing.
    group.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false });
    group.addEventListener("pointermove", (event) => this.paintOver(event));
    group.addEventListener("pointerenter", (event) => this.paintOver(event));
    group.addEventListener("keydown", (event) => {
      if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
        if (!this.shown.drags[id]) return;
        this.stepDrag(id, event.key === "ArrowLeft" ? -1 : 1);
      } else if (event.key === "Enter" || event.key === " ") this.pick([id], null);
      else if (/^[1-9]$/.test(event.key) && !event.ctrlKey && !event.metaKey && !event.altKey) this.pick([id], Number(event.key));
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  paintOver(event) {
    if (!this.painted.length || this.drag) return;
    const under = this.root.getRootNode().elementFromPoint(event.clientX, event.clientY)?.closest?.(".pickable");
    const id = under?.dataset.mark;
    if (!id || this.painted.includes(id)) return;
    this.painted.push(id);
    under.classList.add("held");
  }

  /** Have the line that is dragged go with the pointer, and show what the nearest place would give. */
  follow(event) {
    if (!this.painted.length || !this.drag) return;
    const middle = (id) => this.middles.get(id);
    const [origin] = this.painted;
    const places = [origin, ...Object.keys(this.drag.over)];
    const toFigure = this.scroll.firstChild.getScreenCTM().inverse();
    const pointed = new DOMPoint(event.clientX, event.clientY).matrixTransform(toFigure);
    const away = (id) => Math.hypot(middle(id)[0] - pointed.x, middle(id)[1] - pointed.y);
    const nearest = places.reduce((best, id) => (away(id) < away(best) ? id : best));
    const xs = places.map((id) => middle(id)[0]);
    const isOneRow = places.every((id) => middle(id)[1] === middle(origin)[1]);
    // Along one row the line goes with the pointer, else from place to place.
    if (isOneRow) this.moveLine(Math.max(Math.min(...xs), Math.min(Math.max(...xs), pointed.x)) - middle(origin)[0], 0);
    else this.moveLine(middle(nearest)[0] - middle(origin)[0], middle(nearest)[1] - middle(origin)[1]);
    if (nearest === (this.painted[1] ?? origin)) return;
    this.endPreview();
    this.painted = nearest === origin ? [origin] : [origin, nearest];
    const preview = this.drag.over[nearest];
    if (!preview) return;
    this.previewed = Object.entries(preview.set).map(([id, change]) => [id, this.apply(id, change)]);
    this.tell(preview.say);
  }

  /** Move what can be dragged to the next place on that side, by a key. */
  stepDrag(id, side) {
    const along = (other) => 1e4 * this.middles.get(other)[1] + this.middles.get(other)[0];  // row by row
    const away = (other) => side * (along(other) - along(id));
    const [next] = Object.keys(this.shown.drags[id].over).filter((other) => away(other) > 0).sort((a, b) => away(a) - away(b));
    if (!next) return;
    this.marks.get(next).group.focus({ preventScroll: true });
    this.pick([id, next], null);
  }

  /** Put back what was dragged: the browser has taken the pointer for something else. */
  endDrag() {
    if (this.drag) this.moveLine(0, 0);
    this.endPreview();
    this.painted = [];
    this.drag = null;
    for (const known of this.marks.values()) known.group.classList.remove("held");
  }

  moveLine(dx, dy) {
    this.marks.get(this.drag.line).group.setAttribute("transform", `translate(${dx} ${dy})`);
  }

  endPreview() {
    if (!this.previewed) return;
    for (const [id, before] of this.previewed) this.apply(id, before);
    this.previewed = null;
    this.tell(this.frames[this.frame].say);
  }

  endPaint() {
    if (!this.painted.length) return;
    const ids = this.painted;
    this.painted = [];
    // What is shown stays until the answer comes, which draws the figure anew.
    if (this.drag) {
      const [[x, y], [x2, y2]] = [ids[0], ids.at(-1)].map((id) => this.middles.get(id));
      this.moveLine(x2 - x, y2 - y);
    }
    this.drag = null;
    for (const known of this.marks.values()) known.group.classList.remove("held");
    this.pick(ids, null);
  }

  light(id, on) {
    this.marks.get(id)?.group.classList.toggle("lit", on);
    for (const other of this.links[id]) this.marks.get(other)?.group.classList.toggle("lit", on);
  }

  /** Change what a mark shows; returns what it showed before, for the way back. */
  apply(id, change) {
    const known = this.marks.get(id);
    const before = {};
    // Places of other shapes, and of texts, do not change.
    for (const field of FIELDS) {
      if (change[field] === undefined) continue;
      before[field] = known.state[field];
      known.state[field] = change[field];
    }
    const { look, text, sub, fill, ink, tip } = known.state;
    if (known.kind === "box" && (change.x !== undefined || change.w !== undefined)) {
      known.shape.setAttribute("x", known.state.x);
      known.shape.setAttribute("width", known.state.w);
    }
    const keep = ["pickable", "lit", "held"].filter((name) => known.group.classList.contains(name));
    known.group.setAttribute("class", ["mark", known.kind, look ?? "", ...keep].join(" ").trim());
    known.texts.text.textContent = text ?? "";
    known.texts.sub.textContent = sub ?? "";
    known.texts.text.setAttribute("y", known.y + (sub ? -7 : 0));
    known.texts.sub.setAttribute("y", known.y + 9);
    if (known.shape) known.shape.style.fill = fill ?? "";
    for (const name of ["text", "sub"]) known.texts[name].style.fill = ink ?? "";
    known.title.textContent = tip ?? "";
    if (tip && (this.picks.has(id) || known.group.hasAttribute("tabindex"))) known.group.setAttribute("aria-label", tip);
    return before;
  }

  go(target, byHand = true) {
    if (byHand) this.pause();
    const last = this.frames.length - 1;
    const to = Math.max(0, Math.min(last, target));
    this.undo ??= [];
    if (this.frame === -1) this.undo = [];
    while (this.frame < to) {
      this.frame += 1;
      const changes = this.frames[this.frame]?.set ?? {};
      this.undo[this.frame] = Object.entries(changes).map(([id, change]) => [id, this.apply(id, change)]);
    }
    while (this.frame > to) {
      for (const [id, before] of this.undo[this.frame].reverse()) this.apply(id, before);
      this.frame -= 1;
    }
    this.slider.value = String(this.frame);
    this.counter.textContent = `${this.frame + 1} of ${this.frames.length}`;
    this.tell(this.frames[this.frame]?.say ?? []);
  }

  tell(lines) {
    this.say.replaceChildren(
      ...lines.map((line) => {
        const p = make("p", Array.isArray(line) ? line[1] : "");
        p.textContent = Array.isArray(line) ? line[0] : line;
        return p;
      }),
    );
  }

  play() {
    this.root.scrollIntoView({ block: "nearest" });
    if (this.frame >= this.frames.length - 1) this.go(0);
    this.playing = true;
    this.showPlay();
    this.say.setAttribute("aria-live", "off");
    let due = performance.now() + this.pace;
    const tick = (now) => {
      if (!this.playing) return;
      if (now >= due) {
        this.go(this.frame + 1, false);
        due = Math.max(due + this.pace, now);
      }
      if (this.frame >= this.frames.length - 1) this.pause();
      else requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  pause() {
    this.playing = false;
    this.say.setAttribute("aria-live", "polite");
    this.showPlay();
  }

  showPlay() {
    this.playButton.textContent = this.playing ? "❚❚ Pause" : "▶ Play";
    this.playButton.setAttribute("aria-label", this.playing ? "Pause" : "Play");
  }
}

export default function mount(component) {
  const { parentElement } = component;
  parentElement.lessonFigure ??= new Figure(parentElement);
  const figure = parentElement.lessonFigure;
  figure.update(component);
  // Streamlit may clean up an outdated call after a newer one took over; only the newest may take the figure down.
  const call = Symbol("call");
  figure.call = call;
  return () => {
    if (figure.call !== call) return;
    figure.destroy();
    if (parentElement.lessonFigure === figure) delete parentElement.lessonFigure;
  };
}
