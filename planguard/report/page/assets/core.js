// What everything shares: the data, one selection that every view follows, texts and sizes.

const ABSENT = 0xffffffff;
const KINDS = ["compute", "collective", "send", "recv", "wait", "copy"];
let D = null; // the document
let C = null; // its columns, typed arrays by name

async function load(text) {
  const packed = Uint8Array.fromBase64 ? Uint8Array.fromBase64(text.trim()) : Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const blob = new Uint8Array(await new Response(stream).arrayBuffer());
  const length = new DataView(blob.buffer).getUint32(0, true);
  D = JSON.parse(new TextDecoder().decode(blob.subarray(4, 4 + length)));
  C = {};
  for (const [name, [kind, offset, count]] of Object.entries(D.columns)) {
    C[name] = column(blob, 4 + length + offset, count, kind);
  }
}

// A column is written as planes of bytes of equal significance: put them together again.
function column(blob, offset, count, kind) {
  const width = { u8: 1, u32: 4, f64: 8 }[kind];
  const bytes = new Uint8Array(count * width);
  for (let plane = 0; plane < width; plane++) {
    for (let i = 0, at = offset + plane * count; i < count; i++) bytes[i * width + plane] = blob[at + i];
  }
  if (kind === "u8") return bytes;
  return kind === "u32" ? new Uint32Array(bytes.buffer) : new Float64Array(bytes.buffer);
}

// --- texts: never markup ------------------------------------------------------------------------

function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) made.append(child); // a string becomes a text node
  }
  return made;
}

function add(parent, ...children) {
  for (const child of children.flat()) if (child !== null && child !== undefined) parent.append(child);
}

// A table that does not sort: its heads, and rows made of the texts of their cells.
const table = (heads, rows) => el("div", { class: "scroll", tabindex: 0 }, el("table", {},
  el("thead", {}, el("tr", {}, heads.map((text) => el("th", { scope: "col" }, text)))),
  el("tbody", {}, rows)));
const cells = (values, numeric) => el("tr", {}, values.map((value, at) => el("td", { class: numeric.includes(at) ? "num" : null }, value)));

function svg(tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function bytes(count) {
  if (count === null || count === undefined) return "?";
  if (count < 1024) return `${Math.round(count)} B`;
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = -1;
  do { count /= 1024; unit++; } while (count >= 1024 && unit < units.length - 1);
  return `${count < 10 ? count.toFixed(2) : count < 100 ? count.toFixed(1) : Math.round(count)} ${units[unit]}`;
}

function flops(count) {
  if (!count) return "0";
  const units = ["", "k", "M", "G", "T", "P", "E"];
  const at = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(count) / 3)));
  return `${+(count / 1000 ** at).toPrecision(3)} ${units[at]}FLOP`;
}

function us(time) {
  if (time === null || time === undefined) return "never";
  if (Math.abs(time) < 1000) return `${+time.toPrecision(4)} us`;
  return Math.abs(time) < 1e6 ? `${+(time / 1e3).toPrecision(4)} ms` : `${+(time / 1e6).toPrecision(4)} s`;
}

// A number with a comma before every three digits; a browser's own takes 40 ms to be set up.
function number(count) {
  const [whole, part] = String(+count.toFixed(3)).split(".");
  return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (part === undefined ? "" : `.${part}`);
}
const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;

function rankSet(ranks) {
  const runs = [];
  for (const rank of [...ranks].sort((a, b) => a - b)) {
    const last = runs[runs.length - 1];
    if (last && last[1] === rank - 1) last[1] = rank;
    else if (!last || last[1] !== rank) runs.push([rank, rank]);
  }
  const shown = runs.slice(0, 8).map(([a, b]) => (a === b ? `${a}` : `${a}-${b}`));
  return shown.join(",") + (runs.length > 8 ? ",..." : "");
}

// --- one state, in the address ------------------------------------------------------------------

// Every field with the text it has in the address and the check that a text must pass.
const integers = (text) => text.split(",").map((part) => {
  if (!/^\d{1,7}$/.test(part)) throw new Error(part);
  return Number(part);
});
const oneOf = (...words) => (text) => {
  if (!words.includes(text)) throw new Error(text);
  return text;
};
const between = (low, high) => (text) => {
  const value = Number(text);
  if (!/^\d{1,9}$/.test(text) || value < low || value > high) throw new Error(text);
  return value;
};
const FIELDS = {
  ranks: integers,
  op: (text) => { const found = integers(text); if (found.length !== 3) throw new Error(text); return found; },
  stage: between(0, 1e6),
  group: (text) => { if (text.length > 200) throw new Error(text); return text; },
  step: between(0, 1e6),
  iteration: between(0, 9999),
  range: (text) => {
    const found = text.split(",").map(Number);
    if (found.length !== 2 || found.some((x) => !(x >= 0 && x <= 1)) || found[0] >= found[1]) throw new Error(text);
    return found;
  },
  view: oneOf("marey", "gantt"),
  path: oneOf("on"),
  moment: (text) => { const found = integers(text); if (found.length !== 2) throw new Error(text); return found; },
  by: oneOf("block"),
  axis: oneOf("time"),
  when: oneOf("moment"),
  site: between(0, 1e6),
  stack: between(0, 1e8),
  matrix: between(0, 9999),
  scale: oneOf("log", "linear"),
  axes: oneOf("x", "rows"),
  nodes: oneOf("on"),
  theme: oneOf("light", "dark"),
  table: oneOf("actions", "totals", "devices", "pairs", "operators", "links", "steps", "waits", "witness", "findings", "queues", "slices", "idle", "launches", "sequences", "counters", "allocations", "critical path", "path inside"),
  open: (text) => text.split(",").map(oneOf("verdict", "waits", "timeline", "inside", "overview", "matrices", "strategy", "topology", "tables", "outcomes", "families", "trials", "chosen", "numbers", "times", "bytes", "order", "memory", "alive", "stacks", "allocator", "")),
  outcome: oneOf("SAFE", "UNKNOWN", "POTENTIAL_DEADLOCK", "MISMATCH", "DEADLOCK"),
  family: between(0, 1e6),
  trial: between(0, 1e6),
  find: (text) => { if (text.length > 200) throw new Error(text); return text; },
  fold: integers,
  pins: integers,
  pinned: (text) => { // names of rows, escaped: they may hold a comma
    const found = text.split(",");
    if (found.length > 50 || found.some((name) => !decodeURIComponent(name) || name.length > 600)) throw new Error(text);
    return found;
  },
};
const S = {};
const followers = [];
const follow = (reaction) => followers.push(reaction);

function put(change) {
  let changed = false;
  for (const [name, value] of Object.entries(change)) {
    if (JSON.stringify(S[name]) === JSON.stringify(value === null ? undefined : value)) continue;
    changed = true;
    if (value === null || value === undefined) delete S[name];
    else S[name] = value;
  }
  if (!changed) return;
  for (const reaction of followers) reaction(change);
  remember();
}

let remembering = 0;
function remember() {
  clearTimeout(remembering);
  remembering = setTimeout(() => {
    const parts = Object.keys(FIELDS).filter((name) => S[name] !== undefined)
      .map((name) => `${name}=${encodeURIComponent([S[name]].flat().join(","))}`);
    try { history.replaceState(null, "", `#${parts.join("&")}`); } catch { /* a frame without origin */ }
  }, 120);
}

// What the address says and passes its check; the rest of it is ignored.
function recall() {
  const found = {};
  for (const part of location.hash.slice(1).split("&")) {
    const at = part.indexOf("=");
    const name = part.slice(0, at);
    if (at < 0 || !Object.hasOwn(FIELDS, name)) continue;
    try { found[name] = FIELDS[name](decodeURIComponent(part.slice(at + 1))); } catch { /* ignored */ }
  }
  return found;
}

// --- panels -------------------------------------------------------------------------------------

const panels = {};

function panel(id, title, gist, build) {
  const body = el("div", { class: "body" });
  const made = el("details", { class: "panel", id: `panel-${id}` },
    el("summary", {}, el("h2", {}, title), el("span", { class: "gist" }, gist)), body);
  let built = false;
  const fill = () => {
    if (made.open && !built) { built = true; build(body); }
  };
  made.addEventListener("toggle", () => {
    fill();
    put({ open: Object.keys(panels).filter((name) => panels[name].made.open) });
  });
  panels[id] = { made, fill };
  document.getElementById("main").append(made);
}

function show(id) {
  const found = panels[id];
  if (!found) return;
  found.made.open = true;
  found.fill();
  found.made.scrollIntoView({ block: "start" });
}

const isOpen = (id) => panels[id] !== undefined && panels[id].made.open;

// The control of the theme; what draws with colors is told when they change.
function dressing() {
  const theme = el("select", { id: "theme", "aria-label": "theme", onchange: () => put({ theme: theme.value || null }) },
    [["", "system theme"], ["light", "light"], ["dark", "dark"]].map(([value, text]) => el("option", { value }, text)));
  const dress = () => {
    if (S.theme) document.documentElement.dataset.theme = S.theme;
    else delete document.documentElement.dataset.theme;
    theme.value = S.theme || "";
    readColors();
  };
  followers.unshift((change) => { if ("theme" in change) dress(); });
  const again = () => { dress(); for (const reaction of followers) reaction({ theme: S.theme }); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  matchMedia("print").addEventListener("change", () => { again(); drawNow(); }); // paper is white
  dress();
  return [theme];
}

// --- drawing ------------------------------------------------------------------------------------

let colors = {};
let inks = {}; // of text on each of them
function readColors() {
  const style = getComputedStyle(document.documentElement);
  const names = ["paper", "card", "ink", "soft", "line", "faint", "accent", "mark", "bad", "good", "warn",
    "forward", "backward", "weight", "other", "collective", "send", "recv", "wait", "copy", "none"];
  colors = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  inks = Object.fromEntries(names.map((name) => [name, inkOn(colors[name])]));
  patterns.clear();
}

// Black or white text, whichever has the larger contrast (relative luminance, WCAG 2.2).
function inkOn(color) {
  const parts = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16) / 255)
    .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] > 0.19 ? "#14171b" : "#ffffff";
}

// Hatching says what a color alone must not say: local copies, waiting, stuck.
const patterns = new Map();
function hatch(context, color, gap = 5, weight = 1) {
  const key = `${color} ${gap} ${weight}`;
  if (!patterns.has(key)) {
    const tile = el("canvas", { width: gap * 2, height: gap * 2 });
    const ink = tile.getContext("2d");
    ink.strokeStyle = color;
    ink.lineWidth = weight;
    ink.beginPath();
    for (let x = -gap * 2; x <= gap * 4; x += gap) { ink.moveTo(x, gap * 2); ink.lineTo(x + gap * 2, 0); }
    ink.stroke();
    tile.hatch = [color, gap, weight];
    patterns.set(key, tile);
  }
  return context.createPattern(patterns.get(key), "repeat");
}

// Give a canvas a size in CSS pixels and return its context, cleared.
let lent = null; // the sheet that a chart is drawn on in the place of its canvas

function sized(canvas, width, height) {
  if (lent && lent.canvas === canvas) return lent.context;
  const ratio = Math.min(2, window.devicePixelRatio || 1);
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

const FONT = '11.5px system-ui, -apple-system, "Segoe UI", sans-serif';

function tell(event, text) {
  const tip = document.getElementById("tip");
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 6))}px`;
  tip.style.top = `${event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 18}px`;
}

const VIRIDIS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
function ramp(share) {
  const place = Math.min(1, Math.max(0, share)) * 4;
  const low = Math.min(3, Math.floor(place));
  const mix = (i) => Math.round(VIRIDIS[low][i] + (VIRIDIS[low + 1][i] - VIRIDIS[low][i]) * (place - low));
  return `rgb(${mix(0)},${mix(1)},${mix(2)})`;
}

let pending = null;
const wanted = new Set();
function redraw(draw) {
  wanted.add(draw);
  if (pending === null) {
    pending = requestAnimationFrame(drawNow);
  }
}

function drawNow() {
  pending = null;
  const now = [...wanted];
  wanted.clear();
  for (const each of now) each();
}
