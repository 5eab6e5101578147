/* A table of any length as a real <table>: only the rows in sight exist, between two empty rows of the missing height.

   A column is {name, title?, isNumber?, value(i), text?(i), cell?(i), minor?, chips?(i)}: `value` sorts and goes to CSV (null is
   unknown and sorts last), `text` is shown, `cell` makes the nodes of a cell that is more than text. Where there is no
   room for all, columns with a `minor` are left out, the least first and those of one rank together, and named below.
   A cell of devices begins with so many `chips`. Rows are known by number. */

import { formatNumber } from "../kit/quantities.js";
import { make } from "../kit/dom.js";

const ROW_HEIGHT = 26;
const SPARE_ROWS = 6;
const SAMPLE_ROWS = 250;
const MOST_CHARACTERS = 38;
/** Room of a device's chip, and how many are shown where there is no room for names. */
const CHIP_CHARACTERS = 5;
const MOST_CHIPS_ALONE = 2;

export class VirtualTable {
  /** `events` answers point(row | null), choose(row, event), and the tests isLit(row) and isChosen(row). */
  constructor(caption, events) {
    this.events = events;
    this.caption = caption;
    this.all = [];
    this.columns = [];
    this.rows = [];
    this.order = new Int32Array(0);
    this.sort = null;
    this.at = 0;
    this.head = make("thead");
    this.body = make("tbody", { onmouseleave: () => events.point(null), onmouseover: (event) => events.point(this.rowOf(event)),
      onclick: (event) => this.click(event), onkeydown: (event) => this.key(event) });
    this.sizes = make("colgroup");
    this.table = make("table", { role: "grid" }, [make("caption", { className: "reader-only", text: caption }), this.sizes, this.head, this.body]);
    this.empty = make("p", { className: "empty", hidden: "" });
    this.leftOut = make("p", { className: "left-out", hidden: "" });
    this.element = make("div", { className: "table-scroll", onscroll: () => this.render() }, [this.table, this.leftOut, this.empty]);
    this.observer = new ResizeObserver(() => {
      // Columns become wider when the font of the page has come, in a place as wide as before.
      if (this.table.scrollWidth > this.element.clientWidth) this.fittedWidth = null;
      this.fit();
    });
    this.observer.observe(this.element);
    this.observer.observe(this.table);
  }

  /** Show rows by these columns; the sorting stays where its column does. */
  show(columns, rows, empty) {
    const isSame = namesOf(columns) === namesOf(this.all);
    this.all = columns;
    this.rows = rows;
    if (!isSame) this.sort = null;
    this.table.hidden = rows.length === 0;
    this.empty.hidden = rows.length > 0;
    this.empty.textContent = empty;
    this.table.setAttribute("aria-rowcount", String(rows.length + 1));
    this.fittedWidth = null;
    this.fit();
  }

  /** Show the columns that there is room for. */
  fit() {
    const width = this.element.clientWidth;
    if (width === this.fittedWidth || !this.rows.length) return;
    this.fittedWidth = width;
    const sorted = this.sort && this.columns[this.sort.column];
    this.columns = this.all;
    this.setWidths();
    const minor = this.all.filter((column) => column.minor).sort((a, b) => a.minor - b.minor);
    while (minor.length && width > 0 && this.table.scrollWidth > width) {
      const least = minor.shift().minor;
      this.columns = this.columns.filter((column) => column.minor !== least);
      while (minor[0]?.minor === least) minor.shift();
      this.setWidths();
    }
    const isShared = width > 0 && this.table.scrollWidth > width;
    if (isShared) this.setWidths(true);
    const at = sorted ? this.columns.findIndex((column) => column.name === sorted.name) : -1;
    this.sort = at < 0 ? null : { ...this.sort, column: at };
    const missing = this.all.filter((column) => !this.columns.includes(column)).map((column) => column.name);
    this.leftOut.hidden = !missing.length;
    this.leftOut.textContent = `No room here for ${missing.join(", ")}; a copy as CSV has all.`;
    this.arrange();
    if (isShared && this.isAnyTextCut()) this.setWidths(true, true);
  }

  /** Whether a cell among the rows in sight has less room than its text. */
  isAnyTextCut() {
    return [...this.body.querySelectorAll("td, .name")].some((cell) => cell.scrollWidth > cell.clientWidth && cell.clientWidth > 0);
  }

  /** Give each column the room that it needs. `isShared` has texts share what numbers leave, since half a number misleads;
      `byChips` has devices be told by their chips alone, so that other texts have the room of their names. */
  setWidths(isShared = false, byChips = false) {
    this.sizes.replaceChildren(...this.columns.map((column) => {
      const col = make("col");
      if (!isShared || column.isNumber) col.style.width = `${this.widthOf(column)}ch`;
      else if (byChips && column.chips) col.style.width = `${this.widthOfChips(column)}ch`;
      return col;
    }));
    this.table.style.width = isShared ? "100%" : "";
    this.table.classList.toggle("tight", byChips);
    this.showHead();
  }

  /** Characters a column needs, by a sample of its rows; its name may take several lines. */
  widthOf(column) {
    const texts = this.most((row) => this.textOf(column, row).length + (column.padding ?? 0));
    return Math.min(MOST_CHARACTERS, Math.max(widthOfName(column), texts)) + 2;
  }

  widthOfChips(column) {
    const most = this.most(column.chips);
    const more = most > MOST_CHIPS_ALONE ? 1 : 0;
    return Math.max(widthOfName(column), CHIP_CHARACTERS * Math.min(MOST_CHIPS_ALONE, most) + more) + 2;
  }

  /** The largest of a number that rows have, by a sample of them. */
  most(ofRow) {
    const step = Math.max(1, Math.floor(this.rows.length / SAMPLE_ROWS));
    let most = 0;
    for (let k = 0; k < this.rows.length; k += step) most = Math.max(most, ofRow(this.rows[k]));
    return most;
  }

  textOf(column, row) {
    if (column.text) return column.text(row);
    const value = column.value(row);
    return column.isNumber ? formatNumber(value) : String(value ?? "–");
  }

  showHead() {
    this.head.replaceChildren(make("tr", { "aria-rowindex": "1" }, this.columns.map((column, k) => {
      const isSorted = this.sort?.column === k;
      const sorting = isSorted ? (this.sort.isDown ? "descending" : "ascending") : null;
      const arrow = make("span", { className: "arrow", "aria-hidden": "true", text: isSorted ? (this.sort.isDown ? "▼" : "▲") : "" });
      return make("th", { scope: "col", className: column.isNumber ? "number" : "", "aria-sort": sorting },
        [make("button", { type: "button", title: column.title ?? null, onclick: () => this.sortBy(k) }, [make("span", { text: column.name }), arrow])]);
    })));
  }

  /** Sort by a column: numbers the largest first, text from A; a second time the other way, a third time as it was. */
  sortBy(k) {
    const firstDown = Boolean(this.columns[k].isNumber);
    if (this.sort?.column !== k) this.sort = { column: k, isDown: firstDown };
    else if (this.sort.isDown === firstDown) this.sort.isDown = !firstDown;
    else this.sort = null;
    this.showHead();
    this.arrange();
    this.head.querySelectorAll("button")[k].focus();
  }

  arrange() {
    this.order = Int32Array.from(this.rows);
    if (this.sort) {
      const { value } = this.columns[this.sort.column];
      const keys = new Map(Array.from(this.order, (row) => [row, value(row)]));
      const sign = this.sort.isDown ? -1 : 1;
      const compare = (a, b) => {
        const [x, y] = [keys.get(a), keys.get(b)];
        if (x === null || y === null) return (x === null) - (y === null);
        return sign * (typeof x === "string" ? COLLATOR.compare(x, y) : x - y);
      };
      this.order.sort((a, b) => compare(a, b) || a - b);
    }
    this.at = Math.min(this.at, Math.max(0, this.order.length - 1));
    this.drawn = null;
    this.render();
  }

  /** Make the rows in sight. */
  render() {
    const height = this.element.clientHeight || 12 * ROW_HEIGHT;
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW_HEIGHT) - SPARE_ROWS);
    const last = Math.min(this.order.length, Math.ceil((this.element.scrollTop + height) / ROW_HEIGHT) + SPARE_ROWS);
    if (this.drawn?.first === first && this.drawn.last === last) return;
    const hadFocus = this.body.contains(this.body.getRootNode().activeElement);
    this.drawn = { first, last };
    const rows = [];
    for (let k = first; k < last; k += 1) rows.push(this.makeRow(k));
    this.body.replaceChildren(spacer(first, this.columns.length), ...rows, spacer(this.order.length - last, this.columns.length));
    if (hadFocus) this.rowElement(this.at)?.focus({ preventScroll: true });
    this.mark();
  }

  makeRow(k) {
    const row = this.order[k];
    return make("tr", { "data-at": k, "aria-rowindex": k + 2, tabindex: k === this.at ? "0" : "-1" }, this.columns.map((column) => {
      const text = this.textOf(column, row);
      if (column.cell) return make("td", { className: column.isNumber ? "number" : "" }, [make("div", { className: "cell" }, column.cell(row, text))]);
      return make("td", { className: column.isNumber ? "number" : "", text, title: column.isNumber ? null : text });
    }));
  }

  /** Bring the marks of the rows in sight up to date. */
  mark() {
    for (const element of this.body.children) {
      if (element.dataset.at === undefined) continue;
      const row = this.order[Number(element.dataset.at)];
      element.classList.toggle("lit", this.events.isLit(row));
      element.setAttribute("aria-selected", String(this.events.isChosen(row)));
    }
  }

  /** Scroll, within the table only, to the chosen row, or to the first lit one where none is chosen. */
  reveal() {
    let at = this.order.findIndex((row) => this.events.isChosen(row));
    if (at < 0) at = this.order.findIndex((row) => this.events.isLit(row));
    if (at >= 0) this.scrollTo(at);
  }

  scrollTo(at) {
    const { element } = this;
    // The head stays at the top and covers what scrolls below it, and what there is no room for stays at the bottom.
    const [top, bottom] = [at * ROW_HEIGHT, this.head.offsetHeight + (at + 1) * ROW_HEIGHT + this.leftOut.offsetHeight];
    if (top < element.scrollTop) element.scrollTop = top;
    else if (bottom > element.scrollTop + element.clientHeight) element.scrollTop = bottom - element.clientHeight;
    this.moveTo(at);
  }

  /** Make a row the one that Tab leads to. */
  moveTo(at) {
    this.rowElement(this.at)?.setAttribute("tabindex", "-1");
    this.at = at;
    this.render();
    this.rowElement(at)?.setAttribute("tabindex", "0");
  }

  rowElement(at) {
    return this.body.querySelector(`tr[data-at="${at}"]`);
  }

  rowOf(event) {
    const at = event.target.closest("tr")?.dataset.at;
    return at === undefined ? null : this.order[Number(at)];
  }

  click(event) {
    const row = this.rowOf(event);
    if (row === null) return;
    this.moveTo(Number(event.target.closest("tr").dataset.at));
    this.events.choose(row, event);
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW_HEIGHT) - 2);
    const last = this.order.length - 1;
    const to = { ArrowDown: this.at + 1, ArrowUp: this.at - 1, PageDown: this.at + page, PageUp: this.at - page, Home: 0, End: last }[event.key];
    if (event.key === "Enter" || event.key === " ") this.events.choose(this.order[this.at], event);
    else if (to !== undefined) {
      this.scrollTo(Math.max(0, Math.min(last, to)));
      this.rowElement(this.at)?.focus({ preventScroll: true });
      this.events.point(this.order[this.at]);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** All rows in their order, as comma-separated values. */
  csv() {
    const lines = [this.all.map((column) => csvCell(column.name))];
    for (const row of this.order) lines.push(this.all.map((column) => csvCell(column.value(row))));
    return lines.map((cells) => `${cells.join(",")}\r\n`).join("");
  }
}

const namesOf = (columns) => columns.map((column) => column.name).join();
/** Characters that a column's name needs, which may take two lines, and what shows its order. */
const widthOfName = ({ name }) => {
  const words = name.split(/(?<=[ -])/);
  const inTwo = words.map((_, k) => [words.slice(0, k), words.slice(k)].map((line) => line.join("").trimEnd().length));
  return Math.min(...inTwo.map((lines) => Math.max(...lines))) + 2;
};
const COLLATOR = new Intl.Collator("en", { numeric: true });

/** An empty row as high as the rows that are not there. */
function spacer(numRows, numColumns) {
  const cell = make("td", { colspan: numColumns });
  cell.style.height = `${numRows * ROW_HEIGHT}px`;
  const row = make("tr", { className: "spacer", "aria-hidden": "true" }, [cell]);
  row.hidden = numRows === 0;
  return row;
}

/** Quote a value for CSV; text that a spreadsheet would run as a formula gets an apostrophe before it. */
function csvCell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
