/* What the devices do within a range of time. */

import { formatMs, formatPercent } from "../kit/quantities.js";
import { SLOT_COMPUTE, SLOT_RECEIVE } from "../kit/contract.js";
import { make } from "../kit/dom.js";
import { deviceChip } from "./panel.js";

/** For each lane {computeMs, receiveMs, sendMs, idleMs} of the time from `fromMs` to `toMs`. Pure. */
export function rangeSummary(bars, numLanes, fromMs, toMs) {
  const lanes = Array.from({ length: numLanes }, () => ({ computeMs: 0, receiveMs: 0, sendMs: 0, idleMs: toMs - fromMs }));
  for (let i = 0; i < bars.lane.length; i += 1) {
    const ms = Math.min(toMs, bars.end[i]) - Math.max(fromMs, bars.start[i]);
    if (!(ms > 0)) continue;
    const lane = lanes[bars.lane[i]];
    if (bars.kind[i] === SLOT_COMPUTE) lane.computeMs += ms;
    else if (bars.kind[i] === SLOT_RECEIVE) lane.receiveMs += ms;
    else lane.sendMs += ms;
    lane.idleMs = Math.max(0, lane.idleMs - ms);
  }
  return lanes;
}

/** The summary as a table: a row per device, its busy, transfer and idle time, and the share it idles. */
export function rangeTable({ data, links }, { fromMs, toMs }) {
  const lanes = rangeSummary(links.bars, links.deviceOfLane.length, fromMs, toMs);
  const row = (tag, cells) => make("tr", {}, cells.map((cell, k) =>
    make(k === 0 && tag === "td" ? "th" : tag, k === 0 ? { scope: tag === "th" ? "col" : "row" } : {}, [cell])));
  const plain = (ms) => formatMs(ms).replace(" ms", "");
  const body = lanes.map((lane, l) => {
    const device = data.devices[links.deviceOfLane[l]];
    const chip = deviceChip(device);
    chip.title = device.name;
    return row("td", [chip, plain(lane.computeMs), plain(lane.receiveMs + lane.sendMs), plain(lane.idleMs),
      formatPercent(lane.idleMs / (toMs - fromMs))]);
  });
  return make("table", { className: "range" }, [
    make("caption", { text: "ms in this range, and the share of it that a device idles" }),
    make("thead", {}, [row("th", ["", "compute", "transfers", "idle", "%"])]),
    make("tbody", {}, body),
  ]);
}
