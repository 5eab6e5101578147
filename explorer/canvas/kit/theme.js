/* Colours and fonts of the page's theme, and the hatches laid over fills. */

/** Read Streamlit's theme from the CSS variables it sets around the component. */
export function readTheme(root, palettes) {
  const style = getComputedStyle(root);
  const variable = (name, fallback) => {
    const value = style.getPropertyValue(name).trim();
    return value && value !== "unset" ? value : fallback;
  };
  const background = toRgb(variable("--st-background-color", "#ffffff"));
  const ink = toRgb(variable("--st-text-color", "#31333f"));
  const dark = 0.299 * background[0] + 0.587 * background[1] + 0.114 * background[2] < 128;
  const faded = (alpha) => `rgba(${ink[0]},${ink[1]},${ink[2]},${alpha})`;
  return {
    dark,
    background: `rgb(${background.join(",")})`,
    surface: variable("--st-secondary-background-color", dark ? "#262730" : "#f0f2f6"),
    ink: faded(1),
    mutedInk: faded(dark ? 0.72 : 0.7),
    line: faded(dark ? 0.34 : 0.3),
    faintLine: faded(0.12),
    shade: faded(dark ? 0.07 : 0.045),
    primary: variable("--st-primary-color", "#ff4b4b"),
    font: style.fontFamily || "sans-serif",
    palette: palettes[dark ? "dark" : "light"],
  };
}

/** Turn any CSS colour into [r, g, b]; the canvas does the parsing. */
function toRgb(colour) {
  const ctx = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  ctx.fillStyle = colour;
  ctx.fillRect(0, 0, 1, 1);
  return [...ctx.getImageData(0, 0, 1, 1).data.slice(0, 3)];
}

const RIM = 3;

/** A rim of the fill's colour around a text that is to stand on a pattern, whose lines would cross it. */
export function drawRim(ctx, text, x, y, fill) {
  ctx.strokeStyle = fill;
  ctx.lineWidth = RIM;
  ctx.lineJoin = "round";
  ctx.strokeText(text, x, y);
}

/** Overlays by name and colour, made once: those of devices, "backward" that leans the other way than their "hatch",
    "weight" for gradients of weights, "over" for what exceeds a limit. */
export class Patterns {
  constructor() {
    this.made = new Map();
  }

  get(ctx, name, colour) {
    const key = `${name} ${colour}`;
    if (!this.made.has(key)) this.made.set(key, makePattern(ctx, name, colour));
    return this.made.get(key);
  }
}

function makePattern(target, name, colour) {
  const size = 8;
  const ratio = Math.min(2, Math.ceil(window.devicePixelRatio || 1));
  const tile = document.createElement("canvas");
  tile.width = tile.height = size * ratio;
  const ctx = tile.getContext("2d");
  ctx.scale(ratio, ratio);
  ctx.strokeStyle = ctx.fillStyle = colour;
  ctx.globalAlpha = { backward: 0.2, weight: 0.3, over: 0.75 }[name] ?? 0.34;
  ctx.lineWidth = 1.2;
  ctx.beginPath();
  if (name === "dots") {
    ctx.arc(2, 2, 0.9, 0, 7);
    ctx.arc(6, 6, 0.9, 0, 7);
    ctx.fill();
  } else {
    const rising = name === "backward" || name === "cross" || name === "over";
    const falling = name === "hatch" || name === "cross" || name === "nodata";
    for (const shift of [-size, 0, size]) {
      if (rising) ctx.moveTo(shift, size), ctx.lineTo(shift + size, 0);
      if (falling) ctx.moveTo(shift, 0), ctx.lineTo(shift + size, size);
    }
    if (name === "bars") ctx.moveTo(4, 0), ctx.lineTo(4, size);
    if (name === "weight") for (const y of [2, 6]) ctx.moveTo(0, y), ctx.lineTo(size, y);
    ctx.stroke();
  }
  const pattern = target.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern;
}
