/* The placed graph: boxes in the colours of their devices, cut edges with what they cost.

   World coordinates are the layout's; the view is {scale, x, y}: magnification and the world point in the
   middle of the canvas. What both canvases know is in the store: data, level, highlight, selection, search. */

import { blend, fitText, formatMs } from "./format.js";
import { thingOfBox } from "./store.js";

export const MAX_FIT_SCALE = 1.6;
const MAX_SCALE = 6;
const FADE = 0.22;
const TRANSITION_MS = 280;
const STROKE_BATCH = 150;
const FEW_CUTS = 10;
const CLOSE_SCALE = 1;
const COST_HEIGHT = 14;

export class GraphPicture {
  constructor(store, actions) {
    this.store = store;
    this.actions = actions;
    this.view = null;
    this.widths = new Map();
    this.before = null;
    this.changedAt = -Infinity;
    this.replay = this.overlayDraw = this.marks = null;
  }

  get level() {
    return this.store.level;
  }

  // View

  resized() {
    if (!this.view || this.view.fitted) this.fit(false);
  }

  /** The magnification that shows everything. */
  fitScale() {
    const { width, height } = this.surface;
    return Math.min(MAX_FIT_SCALE, width / this.level.width, height / this.level.height);
  }

  fit(remember = true) {
    if (!(this.surface.width > 0) || !this.level) return;
    this.view = { scale: this.fitScale(), x: this.level.width / 2, y: this.level.height / 2, fitted: true };
    if (remember) this.actions.viewChanged();
    this.surface.invalidate();
  }

  restore(view) {
    this.view = view;
    if (!view || view.fitted) this.fit(false);
    this.surface.invalidate();
  }

  moved() {
    this.view.fitted = false;
    const { view, level } = this;
    view.x = Math.min(Math.max(view.x, 0), level.width);
    view.y = Math.min(Math.max(view.y, 0), level.height);
    this.actions.viewChanged();
    this.surface.invalidate();
  }

  pan(dx, dy) {
    if (!this.view) return;
    this.view.x -= dx / this.view.scale;
    this.view.y -= dy / this.view.scale;
    this.moved();
  }

  /** Zoom about a canvas point; false when there is nothing left to zoom out of. */
  zoom(factor, px = this.surface.width / 2, py = this.surface.height / 2) {
    const { view } = this;
    if (!view) return false;
    const least = Math.min(this.fitScale(), 1);
    const scale = Math.min(MAX_SCALE, view.scale * factor);
    if (scale <= least * 1.001) {
      if (view.fitted) return false;
      this.fit();
      return true;
    }
    const [wx, wy] = this.toWorld(px, py);
    view.scale = scale;
    view.x = wx - (px - this.surface.width / 2) / scale;
    view.y = wy - (py - this.surface.height / 2) / scale;
    this.moved();
    return true;
  }

  /** Bring a box to the middle, close enough to read it. */
  centreOn(box) {
    if (!this.view) return;
    this.view.scale = Math.max(this.view.scale, Math.min(1, MAX_SCALE));
    this.view.x = this.level.x[box];
    this.view.y = this.level.y[box];
    this.moved();
  }

  toWorld(px, py) {
    const { scale, x, y } = this.view;
    return [x + (px - this.surface.width / 2) / scale, y + (py - this.surface.height / 2) / scale];
  }

  toScreen(wx, wy) {
    const { scale, x, y } = this.view;
    return [(wx - x) * scale + this.surface.width / 2, (wy - y) * scale + this.surface.height / 2];
  }

  // Pointer

  boxAt(px, py) {
    if (!this.view) return -1;
    const [wx, wy] = this.toWorld(px, py);
    const slack = 2 / this.view.scale;
    const [halfWidth, halfHeight] = [this.level.boxWidth / 2 + slack, this.level.boxHeight / 2 + slack];
    for (let i = this.level.x.length - 1; i >= 0; i -= 1) {
      if (Math.abs(this.level.x[i] - wx) <= halfWidth && Math.abs(this.level.y[i] - wy) <= halfHeight) return i;
    }
    return -1;
  }

  cutEdgeAt(px, py) {
    const { level, view } = this;
    if (!view || level.cut.length > 1500) return -1;
    const [wx, wy] = this.toWorld(px, py);
    const reach = 5 / view.scale;
    for (let k = level.cut.length - 1; k >= 0; k -= 1) {
      const e = level.cut[k];
      const [x0, y0, x1, y1] = level.bounds.subarray(4 * e, 4 * e + 4);
      if (wx < x0 - reach || wx > x1 + reach || wy < y0 - reach || wy > y1 + reach) continue;
      const route = level.routes[e];
      for (let i = 0; i + 3 < route.length; i += 2) {
        if (distanceToSegment(wx, wy, route[i], route[i + 1], route[i + 2], route[i + 3]) < reach) return e;
      }
    }
    return -1;
  }

  hover(px, py, event) {
    const box = this.boxAt(px, py);
    const edge = box < 0 ? this.cutEdgeAt(px, py) : -1;
    this.surface.canvas.style.cursor = box >= 0 || edge >= 0 ? "pointer" : "grab";
    if (box >= 0) this.actions.hover(thingOfBox(this.level, box), event);
    else if (edge >= 0) this.actions.hover({ kind: "edge", edge }, event);
    else this.actions.hover(null, event);
  }

  leave() {
    this.actions.hover(null);
  }

  click(px, py, event) {
    const box = this.boxAt(px, py);
    const edge = box < 0 ? this.cutEdgeAt(px, py) : -1;
    if (box >= 0 && (event.shiftKey || event.ctrlKey || event.metaKey)) this.actions.extend(this.level.boxes.nodes[box]);
    else if (box >= 0) this.actions.selectBox(box);
    else if (edge >= 0) this.actions.selectEdge(edge);
    else this.actions.clear();
  }

  doubleClick() {
    this.fit();
  }

  drag(dx, dy) {
    this.pan(dx, dy);
  }

  wheel(px, py, dx, dy) {
    return this.zoom(Math.exp(-dy * 0.0016), px, py);
  }

  // Drawing

  /** Remember the colours on screen, so that the next data fade in over them. */
  startTransition() {
    this.before = this.level ? this.colours() : null;
    this.beforeLevel = this.level?.name;
    this.changedAt = performance.now();
  }

  /** The plain fill of every box, null for one on several devices. */
  colours() {
    const { boxes } = this.level;
    return boxes.shares.map((shares, i) => (shares.length > 1 ? null : this.fillOf(shares[0]?.[0], boxes.backward[i]).fill));
  }

  fillOf(device, isBackward) {
    if (device === undefined || device === null) return this.store.theme.palette.unplaced;
    const colour = this.store.data.devices[device].colour;
    return isBackward ? colour.backward : colour.forward;
  }

  draw(ctx, width, height) {
    const { level, store } = this;
    if (!level || !level.x.length) return;
    if (!this.view) this.fit(false);
    const { scale } = this.view;
    const [left, top] = this.toWorld(0, 0);
    const [right, bottom] = this.toWorld(width, height);
    this.visible = { left, top, right, bottom };
    const share = Math.min(1, (performance.now() - this.changedAt) / TRANSITION_MS);
    this.blending = share < 1 && this.before?.length === level.x.length && this.beforeLevel === level.name ? share : 1;
    if (this.blending < 1) this.surface.invalidate();
    const focus = store.focus();
    this.drawUncut(ctx, scale, focus);
    this.drawCut(ctx, scale, focus);
    this.drawBoxes(ctx, scale, focus);
    // In a replay the tensors on their way stand where the costs would.
    if (!this.replay) this.drawCosts(ctx, scale, focus);
    if (this.replay) this.drawReplay(ctx, scale);
    this.marks?.(ctx, { boxRect: (node) => this.boxRect(node) });
    this.overlayDraw?.(ctx, { scale, width, height, boxRect: (node) => this.boxRect(node) });
  }

  /** Whether boxes stand for whole stages or devices, with room for what they take and send. */
  isCoarse() {
    return this.level.name === "stages" || this.level.name === "devices";
  }

  // Replay and overlays

  /** Draw something of one's own after the boxes in every frame: draw(ctx, {scale, width, height, boxRect}), null for nothing. */
  overlay(draw) {
    this.overlayDraw = draw;
    this.surface.invalidate();
  }

  /** Where the box that shows a node (by index) stands on the canvas: {x, y, width, height} in pixels. */
  boxRect(node) {
    const box = this.level.boxOfNode[node];
    const [cx, cy] = this.toScreen(this.level.x[box], this.level.y[box]);
    const [width, height] = [this.level.boxWidth * this.view.scale, this.level.boxHeight * this.view.scale];
    return { x: cx - width / 2, y: cy - height / 2, width, height };
  }

  /** Light some nodes and dim the rest: `replay.lit` maps a node's index to {text, colour}, both optional; null ends it. */
  setReplay(replay) {
    this.replay = replay;
    this.litBoxes = null;
    this.surface.invalidate();
  }

  /** What is lit of each box: that of its first lit node. */
  lit() {
    if (!this.replay) return null;
    if (this.litBoxes?.level !== this.level) {
      this.litBoxes = { level: this.level, of: new Map() };
      for (const [node, mark] of this.replay.lit) {
        const box = this.level.boxOfNode[node];
        if (!this.litBoxes.of.has(box)) this.litBoxes.of.set(box, mark);
      }
    }
    return this.litBoxes.of;
  }

  /** A ring round every lit box, and its text at the upper right corner where there is room. */
  drawReplay(ctx, scale) {
    const { level, store } = this;
    const [width, height] = [level.boxWidth * scale, level.boxHeight * scale];
    ctx.font = `700 11px ${store.theme.font}`;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    for (const [box, { text, colour }] of this.lit()) {
      const [cx, cy] = this.toScreen(level.x[box], level.y[box]);
      this.ring(ctx, box, width, height, colour ?? store.theme.ink, 2, 1.5);
      if (text === undefined || height < 12) continue;
      const half = ctx.measureText(text).width / 2 + 4;
      const [x, y] = [cx + width / 2 - half + 3, cy - height / 2];
      ctx.fillStyle = store.theme.ink;
      ctx.beginPath();
      ctx.roundRect(x - half, y - 7, 2 * half, 14, 7);
      ctx.fill();
      ctx.fillStyle = store.theme.background;
      ctx.fillText(text, x, y + 0.5);
    }
  }

  isEdgeVisible(e) {
    const { left, top, right, bottom } = this.visible;
    const { bounds } = this.level;
    return bounds[4 * e] <= right && bounds[4 * e + 2] >= left && bounds[4 * e + 1] <= bottom && bounds[4 * e + 3] >= top;
  }

  drawUncut(ctx, scale, focus) {
    const { level, store } = this;
    ctx.save();
    this.useWorld(ctx);
    ctx.lineWidth = Math.min(1.3, Math.max(0.55, scale)) / scale;
    ctx.strokeStyle = focus.boxes === null ? store.theme.line : store.theme.faintLine;
    let inBatch = 0;
    ctx.beginPath();
    for (const e of level.uncut) {
      if (!this.isEdgeVisible(e)) continue;
      trace(ctx, level.routes[e], scale);
      // One giant path is far slower to stroke than many small ones.
      inBatch += 1;
      if (inBatch === STROKE_BATCH) {
        ctx.stroke();
        ctx.beginPath();
        inBatch = 0;
      }
    }
    ctx.stroke();
    if (scale > 0.6) {
      ctx.fillStyle = ctx.strokeStyle;
      for (const e of level.uncut) if (this.isEdgeVisible(e)) arrowHead(ctx, level.routes[e], 4.5, scale);
    }
    if (focus.box >= 0) {
      ctx.strokeStyle = ctx.fillStyle = store.theme.ink;
      ctx.lineWidth = 1.6 / scale;
      ctx.beginPath();
      const mine = level.uncut.filter((e) => focus.edges[e] === 1);
      for (const e of mine) trace(ctx, level.routes[e], scale);
      ctx.stroke();
      for (const e of mine) arrowHead(ctx, level.routes[e], 5, scale);
    }
    ctx.restore();
  }

  /** Pixels: wide enough to stand out, growing with the root of the cost so that small cuts do not vanish. */
  cutWidth(e, scale) {
    const share = this.level.maxCutMs > 0 ? this.level.edges.cutMs[e] / this.level.maxCutMs : 0;
    const zoom = Math.min(1.15, Math.max(0.5, scale));
    return (1.1 + 4.5 * Math.sqrt(share)) * zoom;
  }

  drawCut(ctx, scale, focus) {
    const { level, store } = this;
    const { background, palette } = store.theme;
    const halo = level.cut.length <= 250;
    ctx.save();
    this.useWorld(ctx);
    ctx.lineJoin = "round";
    for (const e of level.cut) {
      if (!this.isEdgeVisible(e)) continue;
      const width = this.cutWidth(e, scale);
      ctx.globalAlpha = this.isEdgeInFocus(e, focus) ? 1 : FADE;
      if (halo) {
        ctx.strokeStyle = background;
        ctx.lineWidth = (width + 2.4) / scale;
        ctx.beginPath();
        trace(ctx, level.routes[e], scale);
        ctx.stroke();
      }
      ctx.strokeStyle = ctx.fillStyle = palette.transfer;
      ctx.lineWidth = width / scale;
      ctx.beginPath();
      trace(ctx, level.routes[e], scale);
      ctx.stroke();
      if (scale > 0.35) arrowHead(ctx, level.routes[e], Math.max(5, width * 1.5), scale);
    }
    ctx.restore();
  }

  isEdgeInFocus(e, focus) {
    return focus.edges === null || focus.edges[e] === 1;
  }

  drawBoxes(ctx, scale, focus) {
    const { level, store } = this;
    const { boxes } = level;
    const [width, height] = [level.boxWidth * scale, level.boxHeight * scale];
    const { left, top, right, bottom } = this.visible;
    const [marginX, marginY] = [level.boxWidth / 2, level.boxHeight / 2];
    const texts = [];
    this.shownBoxes = [];
    for (let i = 0; i < level.x.length; i += 1) {
      const [wx, wy] = [level.x[i], level.y[i]];
      if (wx < left - marginX || wx > right + marginX || wy < top - marginY || wy > bottom + marginY) continue;
      const [cx, cy] = this.toScreen(wx, wy);
      const [x, y] = height >= 9
        ? [Math.round(cx - width / 2), Math.round(cy - height / 2)]
        : [cx - width / 2, cy - height / 2];
      const inFocus = this.isBoxInFocus(i, focus);
      ctx.globalAlpha = inFocus ? 1 : FADE;
      this.drawBox(ctx, i, x, y, Math.max(2, width), Math.max(2, height));
      this.shownBoxes.push([x, y, x + width, y + height, boxes.shares[i].length > 1]);
      if (height >= 8 && inFocus) texts.push(i, x, y);
    }
    ctx.globalAlpha = 1;
    this.drawTexts(ctx, texts, width, height);
    if (store.search?.boxes.size) {
      for (const box of store.search.boxes) this.ring(ctx, box, width, height, store.theme.primary, 2, 2);
    }
    for (const box of store.selectedBoxes()) this.ring(ctx, box, width, height, store.theme.ink, 2.2, 3);
    if (store.hovered && focus.box >= 0) this.ring(ctx, focus.box, width, height, store.theme.ink, 1.4, 1.5);
  }

  isBoxInFocus(i, focus) {
    if (this.replay) return this.lit().has(i);
    return focus.boxes === null || focus.boxes[i] > 0;
  }

  drawBox(ctx, i, x, y, width, height) {
    const { boxes } = this.level;
    const shares = boxes.shares[i];
    const radius = Math.min(5, height * 0.22);
    const rounded = height >= 9;
    if (shares.length > 1) {
      // The name stands above the stripes where there is room for both.
      const stripe = this.stripeHeight(height);
      ctx.save();
      ctx.beginPath();
      ctx.roundRect(x, y, width, height, radius);
      ctx.clip();
      ctx.fillStyle = this.store.theme.surface;
      ctx.fillRect(x, y, width, height - stripe);
      let at = x;
      for (const [device, share] of shares) {
        this.fillArea(ctx, at, y + height - stripe, share * width + 1, stripe, device, boxes.backward[i], null);
        at += share * width;
      }
      ctx.restore();
    } else {
      const plain = this.fillOf(shares[0]?.[0], boxes.backward[i]).fill;
      const old = this.blending < 1 ? this.before[i] : null;
      const fill = old && old !== plain ? blend(old, plain, this.blending) : plain;
      if (!rounded) {
        ctx.fillStyle = fill;
        ctx.fillRect(x, y, width, height);
        return;
      }
      this.fillArea(ctx, x, y, width, height, shares[0]?.[0] ?? null, boxes.backward[i], radius, fill);
    }
    if (rounded && height >= 13) {
      ctx.strokeStyle = this.store.theme.dark ? "rgba(255,255,255,0.25)" : "rgba(0,0,0,0.22)";
      ctx.lineWidth = 1;
      ctx.beginPath();
      ctx.roundRect(x + 0.5, y + 0.5, width - 1, height - 1, radius);
      ctx.stroke();
    }
  }

  /** The part of a box on several devices that shows them; the name stands above it. */
  stripeHeight(height) {
    if (height < 13) return height;
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

  /** Device label at the left of each box, then its name, then the number of nodes folded into it. */
  drawTexts(ctx, texts, width, height) {
    const { boxes, maxTimeMs } = this.level;
    const { devices } = this.store.data;
    const line = this.isCoarse() ? height * 0.52 : height;
    const size = Math.round(Math.min(15, Math.max(7, Math.min(0.62 * line, 5 + 0.28 * line))) * 2) / 2;
    if (this.textSize !== size) this.widths.clear();
    this.textSize = size;
    const font = this.store.theme.font;
    const full = width >= 40 && height >= 13;
    const badgeWidth = (shares) => (full && shares.length ? size * (1.0 + 0.62 * devices[shares[0][0]].label.length) : 0);
    ctx.textBaseline = "middle";
    ctx.font = `700 ${size}px ${font}`;
    ctx.textAlign = "center";
    for (let k = 0; k < texts.length; k += 3) {
      const [i, x, y] = [texts[k], texts[k + 1], texts[k + 2]];
      const shares = boxes.shares[i];
      if (!shares.length) continue;
      const badge = badgeWidth(shares);
      if (shares.length > 1) {
        const stripe = this.stripeHeight(height);
        const small = Math.min(size, Math.max(7, stripe * 0.72));
        ctx.font = `700 ${small}px ${font}`;
        let at = x;
        for (const [device, share] of shares) {
          const label = devices[device].label;
          if (stripe >= 8 && share * width > small * label.length * 0.8) {
            ctx.fillStyle = this.fillOf(device, boxes.backward[i]).text;
            ctx.fillText(label, at + (share * width) / 2, y + height - stripe / 2 + 0.5);
          }
          at += share * width;
        }
        ctx.font = `700 ${size}px ${font}`;
      } else {
        const label = devices[shares[0][0]].label;
        ctx.fillStyle = this.fillOf(shares[0][0], boxes.backward[i]).text;
        if (full || width > size * label.length * 0.9) {
          ctx.fillText(label, full ? x + badge / 2 : x + width / 2, y + height / 2 + 0.5);
        }
      }
    }
    if (!full) return;
    const folded = this.level.name === "layers";
    const isTall = this.isCoarse() && height >= 30;
    ctx.textAlign = "left";
    for (let k = 0; k < texts.length; k += 3) {
      const [i, x, y] = [texts[k], texts[k + 1], texts[k + 2]];
      const shares = boxes.shares[i];
      const fill = this.fillOf(shares[0]?.[0], boxes.backward[i]);
      const isMixed = shares.length > 1;
      const indent = shares.length === 1 ? badgeWidth(shares) : 6;
      const room = width - indent - 4;
      const x0 = x + indent;
      ctx.fillStyle = isMixed ? this.store.theme.ink : fill.text;
      ctx.font = `${isMixed ? Math.min(size, (height - this.stripeHeight(height)) * 0.82) : size}px ${font}`;
      let count = folded && boxes.nodes[i].length > 1 ? `×${boxes.nodes[i].length}` : "";
      let countWidth = count ? count.length * size * 0.58 + 3 : 0;
      // The name matters more than how many nodes it stands for.
      if (count && fitText(ctx, boxes.label[i], room - countWidth, this.widths) !== boxes.label[i]) {
        [count, countWidth] = ["", 0];
      }
      const text = fitText(ctx, boxes.label[i], room - countWidth, this.widths);
      const middle = y + (isMixed ? height - this.stripeHeight(height) : height) / 2 + 0.5;
      if (isTall) {
        ctx.fillText(text, x0, y + height * 0.3);
        ctx.fillText(fitText(ctx, formatMs(boxes.timeMs[i]), room, this.widths), x0, y + height * 0.64);
      } else {
        ctx.fillText(text, x0, middle);
      }
      if (count) {
        ctx.globalAlpha = 0.8;
        ctx.fillText(count, x + width - countWidth - 1, middle);
        ctx.globalAlpha = 1;
      }
      if (height >= 20 && maxTimeMs > 0 && !isMixed) {
        // Running time as an inset bar, relative to the longest box: the fill belongs to the device.
        ctx.globalAlpha = 0.55;
        ctx.fillRect(x + 4, y + height - 4.5, (width - 8) * (boxes.timeMs[i] / maxTimeMs), isTall ? 3 : 2);
        ctx.globalAlpha = 1;
      }
    }
  }

  ring(ctx, box, width, height, colour, line, gap) {
    const [cx, cy] = this.toScreen(this.level.x[box], this.level.y[box]);
    const [w, h] = [Math.max(6, width) + 2 * gap, Math.max(6, height) + 2 * gap];
    ctx.strokeStyle = colour;
    ctx.lineWidth = line;
    ctx.beginPath();
    ctx.roundRect(cx - w / 2, cy - h / 2, w, h, Math.min(7, h * 0.25));
    ctx.stroke();
  }

  /** Costs on cut edges, the dearest first, where they cover neither a name nor another cost. */
  drawCosts(ctx, scale, focus) {
    const { level, store } = this;
    const isAsked = focus.box >= 0 || focus.edge >= 0 || focus.kind === "tensor";
    const isFew = level.cut.length <= FEW_CUTS;
    if (!isAsked && scale < (isFew ? 0.3 : 0.5)) return;
    // Far away, costs that do not matter would only cover the picture; a question or a closer look brings them out.
    const least = isAsked || isFew || scale >= CLOSE_SCALE ? 0 : 0.02 * level.maxCutMs;
    ctx.font = `600 10.5px ${store.theme.font}`;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    const taken = [];
    const names = this.shownBoxes.map((box) => this.nameBand(box));
    const { cutMs, showsCost } = level.edges;
    // What costs nothing more is said last, and only when asked.
    const others = isAsked ? level.cut.filter((e) => !showsCost[e]) : [];
    for (const e of [...level.cut.filter((e) => showsCost[e] && cutMs[e] >= least).reverse(), ...others]) {
      if (taken.length >= 120) break;
      if (!this.isEdgeVisible(e) || !this.isEdgeInFocus(e, focus)) continue;
      const text = this.costText(e);
      const halfWidth = ctx.measureText(text).width / 2 + 4;
      const fits = ([cx, cy], obstacles) => {
        const area = [cx - halfWidth, cy - COST_HEIGHT / 2, cx + halfWidth, cy + COST_HEIGHT / 2];
        const isInside = area[0] > 0 && area[1] > 0 && area[2] < this.surface.width && area[3] < this.surface.height;
        return isInside && !overlapsAny(area, taken) && !overlapsAny(area, obstacles) && area;
      };
      let place = null;
      const spots = this.costSpots(e, halfWidth);
      for (const obstacles of [this.shownBoxes, names]) {
        place ??= spots.map((spot) => fits(spot, obstacles)).find(Boolean) ?? null;
      }
      if (!place) continue;
      taken.push(place);
      ctx.fillStyle = store.theme.background;
      ctx.globalAlpha = 0.92;
      ctx.beginPath();
      ctx.roundRect(place[0], place[1], 2 * halfWidth, COST_HEIGHT, 4);
      ctx.fill();
      ctx.globalAlpha = 1;
      ctx.fillStyle = store.theme.palette.transfer;
      ctx.fillText(text, (place[0] + place[2]) / 2, (place[1] + place[3]) / 2 + 0.5);
    }
  }

  /** What stands on a cut edge; the further edges of one tensor to one device cost nothing more. */
  costText(e) {
    const { cutMs, showsCost } = this.level.edges;
    if (!showsCost[e]) return "same tensor";
    return cutMs[e] > 0 && cutMs[e] < 0.01 ? "< 0.01 ms" : formatMs(cutMs[e]);
  }

  /** The part of a box's area that its name takes. */
  nameBand([x0, y0, x1, y1, isMixed]) {
    if (isMixed || this.isCoarse()) return [x0, y0, x1, y1];
    const [middle, half] = [(y0 + y1) / 2, 0.58 * (this.textSize ?? 12)];
    return [x0, Math.max(y0, middle - half), x1, Math.min(y1, middle + half)];
  }

  /** Where the cost of an edge may stand, the best first: on its longest piece, then on others and beside them. */
  costSpots(e, halfWidth) {
    const route = this.level.routes[e];
    const pieces = [];
    for (let i = 0; i + 3 < route.length; i += 2) {
      const [x0, y0] = this.toScreen(route[i], route[i + 1]);
      const [x1, y1] = this.toScreen(route[i + 2], route[i + 3]);
      pieces.push({ x0, y0, x1, y1, length: Math.hypot(x1 - x0, y1 - y0) });
    }
    pieces.sort((a, b) => b.length - a.length);
    const spots = [];
    for (const { x0, y0, x1, y1, length } of pieces) {
      const isFlat = Math.abs(y1 - y0) < 0.1 * Math.abs(x1 - x0);
      const isSteep = Math.abs(x1 - x0) < 0.5 * Math.abs(y1 - y0);
      // A short line would vanish under its label: put that beside it.
      const isShort = (isFlat && length < 2 * halfWidth + 40) || (isSteep && length < 56);
      // Between two neighbours there may be no room at their height, but in the gap above or below them.
      const gap = (this.level.boxHeight * this.view.scale) / 2 + COST_HEIGHT / 2 + 2;
      const beside = isFlat ? [[0, -13], [0, 13], [0, -gap], [0, gap]] : [[halfWidth + 6, 0], [-halfWidth - 6, 0]];
      const offsets = isShort ? [...beside, [0, 0]] : [[0, 0], ...beside];
      for (const share of length > 80 ? [0.5, 0.3, 0.7] : [0.5]) {
        for (const [dx, dy] of offsets) spots.push([x0 + share * (x1 - x0) + dx, y0 + share * (y1 - y0) + dy]);
      }
    }
    return spots;
  }

  useWorld(ctx) {
    const { scale, x, y } = this.view;
    const { width, height, ratio } = this.surface;
    ctx.setTransform(ratio * scale, 0, 0, ratio * scale, ratio * (width / 2 - x * scale), ratio * (height / 2 - y * scale));
  }
}

/** Add a route to the path, with round corners where they can be seen. */
function trace(ctx, route, scale) {
  ctx.moveTo(route[0], route[1]);
  const n = route.length;
  if (n > 4 && scale > 0.4) {
    for (let i = 2; i < n - 2; i += 2) {
      const before = Math.hypot(route[i] - route[i - 2], route[i + 1] - route[i - 1]);
      const after = Math.hypot(route[i + 2] - route[i], route[i + 3] - route[i + 1]);
      ctx.arcTo(route[i], route[i + 1], route[i + 2], route[i + 3], Math.min(7, before / 2, after / 2));
    }
  } else {
    for (let i = 2; i < n - 2; i += 2) ctx.lineTo(route[i], route[i + 1]);
  }
  ctx.lineTo(route[n - 2], route[n - 1]);
}

/** Fill a triangle of `size` pixels at the end of a route. */
function arrowHead(ctx, route, size, scale) {
  const n = route.length;
  const [x, y] = [route[n - 2], route[n - 1]];
  const length = Math.hypot(x - route[n - 4], y - route[n - 3]) || 1;
  const [dx, dy] = [(x - route[n - 4]) / length, (y - route[n - 3]) / length];
  const s = Math.min(size / scale, 9);
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(x - dx * s - dy * s * 0.5, y - dy * s + dx * s * 0.5);
  ctx.lineTo(x - dx * s + dy * s * 0.5, y - dy * s - dx * s * 0.5);
  ctx.fill();
}

function overlapsAny(area, others) {
  return others.some((other) => area[0] < other[2] && area[2] > other[0] && area[1] < other[3] && area[3] > other[1]);
}

function distanceToSegment(px, py, x1, y1, x2, y2) {
  const [dx, dy] = [x2 - x1, y2 - y1];
  const t = Math.max(0, Math.min(1, ((px - x1) * dx + (py - y1) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(px - x1 - t * dx, py - y1 - t * dy);
}
