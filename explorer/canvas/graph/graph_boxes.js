/* The boxes of the graph: filled by device or by how much they take, with the device's label, a name, and what a
   folded box stands for. */

import { areaOfText } from "../kit/areas.js";
import { inOrder } from "../kit/names.js";
import { LEVEL_DEVICES, LEVEL_STAGES } from "../kit/contract.js";
import { COLOUR_MODES, ColourScale } from "./colour_modes.js";
import { blend, firstThatFits, sizeThatFits } from "../kit/format.js";
import { formatBytes, formatCount, formatMs } from "../kit/quantities.js";
import { drawRim } from "../kit/theme.js";
import { FADE } from "./graph_edges.js";
import { TiePainter } from "./graph_ties.js";

const DEVICE_MODE = COLOUR_MODES[0];
const LINE_HEIGHT = 1.32;
const TEXT_STEP = 4;
/** What is said of a stage has at least this size where its box is small; fewer facts are said then. */
const LEAST_FACT = 10;

/** The device of a box that is on one alone. */
const onlyOne = (shares) => (shares.length === 1 ? shares[0][0] : undefined);

export class BoxPainter extends TiePainter {
  constructor() {
    super();
    this.mode = DEVICE_MODE;
    this.widths = new Map();
    this.look = { level: null };
  }

  /** Whether boxes stand for whole stages or devices, with room for what they take and send. */
  isCoarse() {
    return this.level.name === LEVEL_STAGES || this.level.name === LEVEL_DEVICES;
  }

  // Colours

  /** The colour scale for boxes i1, i2, ... of the level; null where fills say the device. */
  scaleFor(boxes) {
    const { mode, level, store } = this;
    if (!mode.of) return null;
    return new ColourScale(mode, boxes.map((i) => mode.of(level.boxes, i)), store.theme.palette.ramp);
  }

  /** Every box's {fill, text}, or null for one on several devices; made anew only when something about it changes. */
  looks() {
    const { level, mode, store, look } = this;
    const { palette } = store.theme;
    if (look.level === level && look.mode === mode && look.palette === palette && look.scale === this.scale) return look.of;
    const { boxes } = level;
    if (mode.of && (look.level !== level || look.mode !== mode || look.palette !== palette)) {
      this.scale = this.scaleFor([...boxes.label.keys()]);
    }
    const plain = { fill: store.theme.surface, text: store.theme.ink };
    const of = boxes.shares.map((shares, i) => {
      if (!mode.of) return shares.length > 1 ? null : this.fillOf(shares[0]?.[0], boxes.backward[i]);
      const value = mode.of(boxes, i);
      return value > 0 ? this.scale.look(value) : { ...plain, isPlain: true, isUnknown: value === null };
    });
    this.look = { level, mode, palette, scale: this.scale, of, fills: of.map((one) => one?.fill ?? null) };
    return of;
  }

  /** The plain fill of every box, null for one on several devices. */
  fills() {
    this.looks();
    return this.look.fills;
  }

  /** The fill of the device that takes most of a box. */
  mainFill(i) {
    const most = this.level.boxes.shares[i].reduce((best, own) => (best && best[1] >= own[1] ? best : own), null);
    return most && this.fillOf(most[0], this.level.boxes.backward[i]).fill;
  }

  fillOf(device, isBackward) {
    if (device === undefined || device === null) return this.store.theme.palette.unplaced;
    const { colour } = this.store.data.devices[device];
    return isBackward ? colour.backward : colour.forward;
  }

  // Boxes

  drawBoxes(ctx, scale, focus) {
    const { level, store, place } = this;
    const { boxes } = level;
    const [width, height] = [level.boxWidth * scale, level.boxHeight * scale];
    const { left, top, right, bottom } = this.visible;
    const [marginX, marginY] = [level.boxWidth / 2, level.boxHeight / 2];
    const looks = this.looks();
    const size = this.fitTextSize(height);
    const texts = [];
    this.shownBoxes = [];
    this.names = [];
    this.isDim = new Uint8Array(place.x.length);
    this.inView = [];
    for (let i = 0; i < place.x.length; i += 1) {
      const [wx, wy] = [place.x[i], place.y[i]];
      if (wx < left - marginX || wx > right + marginX || wy < top - marginY || wy > bottom + marginY) continue;
      const [cx, cy] = this.toScreen(wx, wy);
      const [x, y] = height >= 9 && !this.morph
        ? [Math.round(cx - width / 2), Math.round(cy - height / 2)]
        : [cx - width / 2, cy - height / 2];
      const inFocus = this.isBoxInFocus(i, focus);
      ctx.globalAlpha = inFocus ? 1 : FADE;
      this.drawBox(ctx, i, looks[i], x, y, Math.max(2, width), Math.max(2, height), size);
      this.inView.push(i);
      this.shownBoxes.push([x, y, x + width, y + height, boxes.shares[i].length > 1]);
      if (height >= 8) texts.push(i, x, y);
      this.isDim[i] = inFocus ? 0 : 1;
    }
    ctx.globalAlpha = 1;
    this.drawTexts(ctx, texts, width, height, size);
    if (store.search?.boxes.size) {
      for (const box of store.search.boxes) this.ring(ctx, box, width, height, store.theme.primary, 2, 2);
    }
    for (const box of store.selectedBoxes()) this.ring(ctx, box, width, height, store.theme.ink, 2.2, 3);
    if (store.hovered && focus.box >= 0) this.ring(ctx, focus.box, width, height, store.theme.ink, 1.4, 1.5);
  }

  drawBox(ctx, i, look, x, y, width, height, size) {
    const { boxes } = this.level;
    const shares = boxes.shares[i];
    const radius = Math.min(5, height * 0.22);
    const isMeasured = Boolean(this.mode.of);
    const old = this.blending < 1 ? this.before[i] : null;
    const fill = look && old && old !== look.fill ? blend(old, look.fill, this.blending) : look?.fill ?? this.store.theme.surface;
    if (height < 9 && (isMeasured || shares.length < 2)) {
      ctx.fillStyle = fill;
      ctx.fillRect(x, y, width, height);
      if (look?.isPlain) this.frame(ctx, x, y, width, height, 0);
      return;
    }
    if (shares.length > 1) {
      ctx.save();
      ctx.beginPath();
      ctx.roundRect(x, y, width, height, radius);
      ctx.clip();
      ctx.fillStyle = fill;
      ctx.fillRect(x, y, width, height);
      if (look?.isUnknown) this.fillPattern(ctx, x, y, width, height, "nodata", this.store.theme.ink);
      // The name stands above the stripes where there is room for both.
      const stripe = this.stripeHeight(height);
      let at = x;
      for (const [device, share] of shares) {
        this.fillArea(ctx, at, y + height - stripe, share * width + 1, stripe, device, boxes.backward[i], null);
        at += share * width;
      }
      ctx.restore();
      if (this.level.seams.has(i)) this.drawSeams(ctx, shares, x, y + height - stripe, width, stripe);
    } else if (isMeasured) {
      ctx.fillStyle = fill;
      ctx.beginPath();
      ctx.roundRect(x, y, width, height, radius);
      ctx.fill();
      if (look?.isUnknown) this.fillPattern(ctx, x, y, width, height, "nodata", this.store.theme.ink);
      if (shares.length) {
        // Round where the box is: cheaper than clipping hundreds of boxes.
        const badge = this.badgeWidth(shares, width, height, size) || Math.max(2, 0.14 * width);
        this.fillArea(ctx, x, y, badge, height, shares[0][0], boxes.backward[i], [radius, 0, 0, radius]);
      }
    } else {
      this.fillArea(ctx, x, y, width, height, shares[0]?.[0] ?? null, boxes.backward[i], radius, fill);
    }
    if (height >= 13 || look?.isPlain) this.frame(ctx, x, y, width, height, radius);
  }

  /** Where data pass from device to device inside a box. */
  drawSeams(ctx, shares, x, top, width, stripe) {
    const thick = Math.min(4, Math.max(2, 0.03 * width));
    ctx.fillStyle = this.store.theme.palette.transfer;
    let at = x;
    for (const [, share] of shares.slice(0, -1)) {
      at += share * width;
      const left = Math.min(x + width - thick - 1, Math.max(x + 1, at - thick / 2));
      ctx.fillRect(left, top - 1, thick, stripe + 2);
    }
  }

  frame(ctx, x, y, width, height, radius) {
    ctx.strokeStyle = this.store.theme.dark ? "rgba(255,255,255,0.25)" : "rgba(0,0,0,0.22)";
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.roundRect(x + 0.5, y + 0.5, width - 1, height - 1, radius);
    ctx.stroke();
  }

  /** The part of a box on several devices that shows them; the name stands above it. */
  stripeHeight(height) {
    if (height < 13) return this.mode.of ? Math.round(height * 0.4) : height;
    if (this.isCoarse()) return Math.min(20, Math.round(height * 0.3));
    return height >= 22 ? Math.round(height * 0.46) : Math.max(4, Math.round(height / 3));
  }

  fillArea(ctx, x, y, width, height, device, isBackward, radius, fill) {
    const own = this.fillOf(device, isBackward);
    const area = () => {
      if (radius === null) return ctx.fillRect(x, y, width, height);
      ctx.beginPath();
      ctx.roundRect(x, y, width, height, radius);
      return ctx.fill();
    };
    ctx.fillStyle = fill ?? own.fill;
    area();
    if (height < 9) return;
    const overlays = [isBackward ? "backward" : "none", device === null ? "none" : this.store.data.devices[device].colour.pattern];
    for (const name of overlays) {
      if (name === "none") continue;
      ctx.fillStyle = this.store.patterns.get(ctx, name, own.text);
      area();
    }
  }

  fillPattern(ctx, x, y, width, height, name, colour) {
    ctx.fillStyle = this.store.patterns.get(ctx, name, colour);
    ctx.fillRect(x, y, width, height);
  }

  // Texts

  /** The size of the texts on boxes of a height in pixels. */
  fitTextSize(height) {
    const wanted = this.isCoarse() ? Math.max(LEAST_FACT, 0.145 * height) : Math.min(0.62 * height, 5 + 0.28 * height);
    const size = Math.round(Math.min(15, Math.max(7, wanted)) * 2) / 2;
    if (this.textSize !== size) this.widths.clear();
    this.textSize = size;
    return size;
  }

  /** The size of a name above the stripes of a box, where it has so much room. */
  nameSize(room) {
    return Math.min(this.textSize, room * 0.82);
  }

  badgeWidth(shares, width, height, size) {
    const isWide = width >= 40 && height >= 13 && shares.length === 1;
    return isWide ? size * (1.0 + 0.62 * this.store.data.devices[shares[0][0]].label.length) : 0;
  }

  /** Device labels, then names with the number of repeats in a box. */
  drawTexts(ctx, texts, width, height, size) {
    const font = this.store.theme.font;
    ctx.textBaseline = "middle";
    ctx.textAlign = "center";
    for (let k = 0; k < texts.length; k += 3) this.drawLabels(ctx, texts[k], texts[k + 1], texts[k + 2], width, height, size, font);
    if (width < 40 || height < 13) return;
    ctx.textAlign = "left";
    for (let k = 0; k < texts.length; k += 3) {
      if (this.isCoarse() && height >= 30) this.drawFacts(ctx, texts[k], texts[k + 1], texts[k + 2], width, height, size, font);
      else this.drawName(ctx, texts[k], texts[k + 1], texts[k + 2], width, height, size, font);
    }
  }

  /** The colour of a text on a box; what is out of focus is faint, but its name stays readable. */
  textColour(i, usual) {
    return this.isDim[i] ? this.store.theme.mutedInk : usual;
  }

  /** Write on a device's fill, clear of the lines of its pattern. */
  write(ctx, i, text, x, y, device) {
    const isPatterned = device !== undefined && !this.mode.of && !this.isDim[i] && this.store.data.devices[device]?.colour.pattern !== "none";
    if (isPatterned) drawRim(ctx, text, x, y, this.fillOf(device, this.level.boxes.backward[i]).fill);
    ctx.fillText(text, x, y);
    // Measured only where something moves over the boxes that must not cover it.
    if (this.replay && text) this.writtenAreas.push(areaOfText(ctx, text, x, y));
  }

  /** What a box may be called, the longest first, at last without a number at the beginning; beside its label the rest
      of a device's name says nothing more. */
  namesOf(i, name, hasBadge) {
    const { short, shares } = this.level.boxes;
    const isLabel = hasBadge && short[i] === this.store.data.devices[shares[i][0][0]].label;
    return (isLabel ? [name] : [name, short[i], short[i].replace(/^\d+ (?=\p{L}{2})/u, "")]).map(inOrder);
  }

  drawLabels(ctx, i, x, y, width, height, size, font) {
    const { boxes } = this.level;
    const { devices } = this.store.data;
    const shares = boxes.shares[i];
    if (!shares.length) return;
    if (shares.length > 1) {
      const stripe = this.stripeHeight(height);
      const small = Math.min(size, Math.max(7, stripe * 0.72));
      ctx.font = `700 ${small}px ${font}`;
      let at = x;
      for (const [device, share] of shares) {
        const { label } = devices[device];
        if (stripe >= 8 && share * width > small * label.length * 0.8) {
          ctx.fillStyle = this.textColour(i, this.fillOf(device, boxes.backward[i]).text);
          this.write(ctx, i, label, at + (share * width) / 2, y + height - stripe / 2 + 0.5, device);
        }
        at += share * width;
      }
      return;
    }
    const badge = this.badgeWidth(shares, width, height, size);
    const { label } = devices[shares[0][0]];
    // Without room for a badge the label stands on the fill only where that is the device's.
    if (!badge && (this.mode.of || width <= size * label.length * 0.9)) return;
    ctx.font = `700 ${size}px ${font}`;
    ctx.fillStyle = this.textColour(i, this.fillOf(shares[0][0], boxes.backward[i]).text);
    this.write(ctx, i, label, badge ? x + badge / 2 : x + width / 2, y + height / 2 + 0.5, shares[0][0]);
  }

  drawName(ctx, i, x, y, width, height, size, font) {
    const { boxes, maxTimeMs } = this.level;
    const shares = boxes.shares[i];
    const look = this.look.of[i];
    const isMixed = shares.length > 1;
    const room = isMixed ? height - this.stripeHeight(height) : height;
    if (room < 8) return;
    const badge = this.badgeWidth(shares, width, height, size);
    const x0 = x + (badge || 6) + (this.mode.of && shares.length === 1 ? 3 : 0);
    ctx.fillStyle = this.textColour(i, look?.text ?? this.store.theme.ink);
    const nameSize = isMixed ? this.nameSize(room) : size;
    const count = this.countText(i);
    // Measured: a report comes in whatever letters its reader has, some a third wider than others.
    ctx.font = `700 ${nameSize}px ${font}`;
    const countWidth = count ? ctx.measureText(count).width + 3 : 0;
    ctx.font = `${nameSize}px ${font}`;
    // In steps, so that what fits is worked out once for many magnifications.
    const space = Math.floor((x + width - x0 - 4) / TEXT_STEP) * TEXT_STEP;
    // Half a name misleads: what does not fit gives way to what stands for it (explorer/layout/names.py), then is written
    // a little smaller, then is left out.
    const names = this.namesOf(i, boxes.label[i], badge > 0);
    let name = firstThatFits(ctx, names, space - countWidth, this.widths);
    for (const candidate of name ? [] : names.filter(Boolean)) {
      const smaller = sizeThatFits(ctx, candidate, nameSize, space - countWidth, this.widths);
      if (smaller) {
        [name, ctx.font] = [candidate, `${smaller}px ${font}`];
        break;
      }
    }
    this.names.push([i, name]);
    this.write(ctx, i, name, x0, y + room / 2 + 0.5, onlyOne(shares));
    if (count) {
      ctx.font = `700 ${nameSize}px ${font}`;
      this.write(ctx, i, count, x + width - countWidth - 1, y + room / 2 + 0.5);
    }
    // Running time as an inset bar, relative to the longest box: the fill belongs to the device.
    if (!this.mode.of && !isMixed) this.drawTimeBar(ctx, x, y, width, height, maxTimeMs > 0 ? boxes.timeMs[i] / maxTimeMs : 0, 2);
  }

  drawTimeBar(ctx, x, y, width, height, share, thickness) {
    if (height < 20 || !(share > 0)) return;
    ctx.globalAlpha = 0.55;
    ctx.fillRect(x + 4, y + height - thickness - 2.5, (width - 8) * Math.min(1, share), thickness);
    ctx.globalAlpha = 1;
  }

  /** How many repeats a box stands for. */
  countText(i) {
    const { count } = this.level.boxes;
    return count[i] > 1 ? `×${count[i]}` : "";
  }

  /** A stage or device: its name, and under it as many facts as there is room for, those left out that are too wide. */
  drawFacts(ctx, i, x, y, width, height, size, font) {
    const { boxes, maxTimeMs } = this.level;
    const shares = boxes.shares[i];
    const badge = this.badgeWidth(shares, width, height, size);
    const x0 = x + (badge || 6) + 3;
    const space = Math.floor((x + width - x0 - 5) / TEXT_STEP) * TEXT_STEP;
    const step = size * LINE_HEIGHT;
    const bottom = shares.length > 1 ? this.stripeHeight(height) : 7;
    ctx.font = `${size}px ${font}`;
    const facts = this.facts(i).map((texts) => firstThatFits(ctx, texts, space, this.widths)).filter(Boolean);
    ctx.font = `600 ${size}px ${font}`;
    const name = firstThatFits(ctx, this.namesOf(i, boxes.title[i], badge > 0), space, this.widths);
    const lines = [...(name ? [name] : []), ...facts].slice(0, Math.max(1, Math.floor((height - bottom - 3) / step)));
    const top = y + (height - bottom - lines.length * step) / 2 + step / 2 + 1;
    ctx.fillStyle = this.textColour(i, this.look.of[i]?.text ?? this.store.theme.ink);
    lines.forEach((line, k) => {
      ctx.font = `${k === 0 && name ? "600 " : ""}${size}px ${font}`;
      this.write(ctx, i, line, x0, top + k * step, onlyOne(shares));
    });
    if (!this.mode.of && shares.length === 1) {
      this.drawTimeBar(ctx, x, y, width, height, maxTimeMs > 0 ? boxes.timeMs[i] / maxTimeMs : 0, 3);
    }
  }

  /** What is told of a stage or device, each as the texts that may stand for it, the fullest first. */
  facts(i) {
    const { boxes, name } = this.level;
    const { devices, memoryUnit } = this.store.data;
    const count = boxes.nodes[i].length;
    const size = count === 1 ? "1 node" : `${formatCount(count)} nodes`;
    if (name === LEVEL_DEVICES) {
      const device = devices[boxes.shares[i][0][0]];
      const limit = device.capacityBytes === null ? "" : ` of ${formatBytes(device.capacityBytes, memoryUnit)}`;
      const held = formatBytes(device.memoryBytes, memoryUnit);
      return [[`${formatMs(device.loadMs)} load`], device.memoryBytes > 0 ? [held + limit, held] : [],
        device.isBottleneck ? ["the slowest"] : [], [size]].filter((texts) => texts.length);
    }
    return [[formatMs(boxes.timeMs[i])],
      boxes.memoryBytes[i] > 0 ? [formatBytes(boxes.memoryBytes[i], memoryUnit)] : [],
      boxes.sentMs[i] > 0 ? [`sends ${formatMs(boxes.sentMs[i])}`] : [], [size]].filter((texts) => texts.length);
  }

  ring(ctx, box, width, height, colour, line, gap) {
    const [cx, cy] = this.toScreen(this.place.x[box], this.place.y[box]);
    const [w, h] = [Math.max(6, width) + 2 * gap, Math.max(6, height) + 2 * gap];
    ctx.strokeStyle = colour;
    ctx.lineWidth = line;
    ctx.beginPath();
    ctx.roundRect(cx - w / 2, cy - h / 2, w, h, Math.min(7, h * 0.25));
    ctx.stroke();
  }
}
