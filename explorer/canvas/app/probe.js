/* What tests and benchmarks may ask the picture, read-only, on its root element (class "placed-pipeline") as `__placement`:

     nodes, bars     how many there are            level, view, ganttView   what is shown, and where
     focus           what stands out (store.js)    barFacts(i), tensorFacts(t)   what is known of one
     selection, selectedIds   what is selected     screenPositionOf(id)     page coordinates of a node's box
     graphLook       colours, order, minimap       search(text)             ids of the nodes that are found, or the error
     costs, cutLines()   what transfers are said to cost, and where they run    names()   what is written on the boxes
     boundLines()    the drawn parts of the lines of bounds, each [x, top, end]   laneMiddle(lane)   where a lane is
     boxColourOf(id) fill it should have           barPosition(i)           page coordinates of a bar's middle */

import { TOP } from "../timeline/gantt_marks.js";
import { parseSearch, searchable } from "../data/search.js";

/** Everything there is to ask of a picture now. */
export function probe(picture) {
  const { zoom } = picture.graph.surface;
  const onPage = (canvas, [x, y]) => {
    const box = canvas.getBoundingClientRect();
    return { x: box.left + x * zoom, y: box.top + y * zoom };
  };
  const { store } = picture;
  const indexOf = (id) => store.data.graph.nodes.id.indexOf(id);
  return Object.freeze({
    nodes: store.data?.graph?.nodes.id.length ?? 0,
    bars: store.data?.gantt ? picture.gantt.bars.lane.length : 0,
    level: store.level?.name ?? null,
    graphLook: picture.graph.probe(),
    view: picture.graph.view && { ...picture.graph.view },
    ganttView: picture.gantt.view && { ...picture.gantt.view },
    selection: store.selection && { ...store.selection },
    selectedIds: Array.from(store.selection?.nodes ?? [], (i) => store.data.graph.nodes.id[i]),
    focus: store.focus(),
    digest: store.data?.digest ?? null,
    ...picture.timeline.probe(),
    search: (text) => {
      const { test, error } = parseSearch(text);
      return error ?? searchable(store.data).filter((node) => test?.(node)).map((node) => node.id);
    },
    barFacts: (i) => Object.fromEntries(Object.entries(store.links.bars).map(([name, values]) => [name, values[i]])),
    tensorFacts: (t) => ({ ...store.links.tensors[t], source: store.data.graph.nodes.id[store.links.tensors[t].source] }),
    screenPositionOf: (id) => {
      const box = store.level.boxOfNode[indexOf(id)];
      return onPage(picture.graphCanvas, picture.graph.centreOf(box));
    },
    costs: (picture.graph.costs ?? []).map(({ ms, edge, seam, area, lines }) => ({ ms, edge: edge ?? null, box: seam?.box ?? null, area, lines })),
    cutLines: () => store.level.cut.map((e) => ({ edge: e, ms: store.level.edges.cutMs[e],
      points: Array.from({ length: picture.graph.routeOf(e).length / 2 }, (_, k) => picture.graph.toScreen(...picture.graph.routeOf(e).slice(2 * k, 2 * k + 2))) })),
    seams: [...(store.level?.seams.values() ?? [])],
    ties: store.level ? picture.graph.shownTies(store.focus()).length : 0,
    presenting: picture.presentation.isOn,
    zoom,
    notes: picture.graph.notes.shown.map((note) => ({ ...note, area: picture.graph.notes.areaOf(picture.graph.surface.ctx, note).area })),
    boxArea: (id) => { const r = picture.graph.boxRect(indexOf(id)); return { ...onPage(picture.graphCanvas, [r.x, r.y]), width: r.width * zoom, height: r.height * zoom }; },
    laneChips: () => picture.graph.laneChips,
    labelsOfLanes: () => picture.gantt.labelsOfLanes, boundLines: () => picture.gantt.boundLines, boundNames: () => picture.gantt.boundNames, plot: () => [picture.gantt.plotLeft, picture.gantt.plotRight],
    laneMiddle: (lane) => TOP + (lane + 0.5) * picture.gantt.laneHeight - picture.gantt.view.offset,
    lanes: () => ({ all: picture.gantt.gantt.lanes.length, seen: picture.gantt.plotHeight / picture.gantt.laneHeight }),
    names: () => picture.graph.names, writtenAreas: () => picture.graph.writtenAreas,
    deviceOf: (id) => store.data.graph.nodes.device[indexOf(id)],
    pinned: (store.data?.edits?.pinned ?? []).map((i) => store.data.graph.nodes.id[i]),
    boxColourOf: (id) => picture.graph.fills()[store.level.boxOfNode[indexOf(id)]],
    barPosition: (i) => {
      const { bars, laneHeight } = picture.gantt;
      const x = picture.gantt.toX((bars.start[i] + bars.end[i]) / 2);
      return onPage(picture.timeline.canvas, [x, TOP + (bars.lane[i] + 0.5) * laneHeight - picture.gantt.view.offset]);
    },
  });
}
