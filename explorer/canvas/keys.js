/* Which key does what. A key that is given away here is taken from the page only where the picture has the focus;
   those marked `everywhere` also work from the rest of the page, except where one types. */

const PAN_STEP = 60;

/** What to press, what the sheet says, what happens; `picture` is the component. */
export const KEYS = [
  { keys: ["a", "ArrowLeft"], run: (picture) => picture.active.pan(PAN_STEP, 0) },
  { keys: ["d", "ArrowRight"], run: (picture) => picture.active.pan(-PAN_STEP, 0) },
  { keys: ["w", "ArrowUp"], run: (picture) => picture.active.pan(0, PAN_STEP) },
  { keys: ["s", "ArrowDown"], run: (picture) => picture.active.pan(0, -PAN_STEP) },
  { keys: ["+", "="], run: (picture) => picture.active.zoom(1.3) },
  { keys: ["-", "_"], run: (picture) => picture.active.zoom(1 / 1.3) },
  { keys: ["f"], everywhere: true, run: (picture) => picture.fit() },
  { keys: ["/"], everywhere: true, run: (picture) => picture.toolbar.input.focus() },
  // On a button, Space presses that.
  { keys: [" "], sparesControls: true, run: (picture) => picture.timeline.toggleReplay() },
  { keys: ["k"], everywhere: true, run: (picture) => picture.timeline.toggleReplay() },
  { keys: ["."], everywhere: true, run: (picture) => picture.timeline.step(1) },
  { keys: [","], everywhere: true, run: (picture) => picture.timeline.step(-1) },
  { keys: ["l"], run: (picture) => picture.graph.controls.toggleLanes() },
  { keys: ["Escape"], everywhere: true, run: (picture) => picture.clear() },
];

const KEY_OF = new Map(KEYS.flatMap((entry) => entry.keys.map((key) => [key, entry])));

/** Do what a key pressed inside the picture stands for. */
export function pressInside(picture, event) {
  if (event.target.closest?.("input, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  const entry = KEY_OF.get(nameOfKey(event));
  if (!entry || (entry.sparesControls && event.target.closest?.("button, select, summary, a"))) return;
  entry.run(picture);
  event.preventDefault();
  event.stopPropagation();
}

/** Do what a key pressed elsewhere on the page stands for, where nobody types. */
export function pressOnPage(picture, event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (picture.root.clientWidth === 0 || !picture.store.data?.graph) return;
  const target = event.composedPath()[0];
  if (target.isContentEditable || target.closest?.("input, textarea, select, [role=dialog]")) return;
  const entry = KEY_OF.get(nameOfKey(event));
  if (!entry?.everywhere) return;
  entry.run(picture);
  event.preventDefault();
}

/** Letters count the same in capitals. */
function nameOfKey(event) {
  return event.key.length === 1 ? event.key.toLowerCase() : event.key;
}
