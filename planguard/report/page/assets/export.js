// Every chart as a picture file: the same drawing once more, on paper of its own, with title,
// scales and legend around it. SVG is written as text; PNG is drawn twice as large as on screen.

let paper = null; // the picture that is being drawn: what a chart asks for its canvas goes there

const MARGIN = 14, LINE = 17;

// The part of a canvas's context that the charts use, as elements of SVG.
class SvgPaper {
  constructor(width, height) {
    Object.assign(this, { width, height, out: [], defs: new Map(), moves: [], saved: [], path: "", dash: [],
      fillStyle: "#000000", strokeStyle: "#000000", lineWidth: 1, globalAlpha: 1, font: FONT, textAlign: "left", textBaseline: "alphabetic" });
  }
  save() { const { moves, fillStyle, strokeStyle, lineWidth, globalAlpha, font, textAlign, textBaseline, dash } = this; this.saved.push({ moves: [...moves], fillStyle, strokeStyle, lineWidth, globalAlpha, font, textAlign, textBaseline, dash }); }
  restore() { Object.assign(this, this.saved.pop() || {}); }
  translate(x, y) { this.moves.push(`translate(${digits(x)} ${digits(y)})`); }
  rotate(angle) { this.moves.push(`rotate(${digits((angle * 180) / Math.PI)})`); }
  setLineDash(dash) { this.dash = dash; }
  measureText(text) { return measured(text, this.font); }
  beginPath() { this.path = ""; }
  closePath() { this.path += "Z"; }
  moveTo(x, y) { this.path += `M${digits(x)} ${digits(y)}`; }
  lineTo(x, y) { this.path += `${this.path ? "L" : "M"}${digits(x)} ${digits(y)}`; }
  quadraticCurveTo(a, b, x, y) { this.path += `Q${[a, b, x, y].map(digits).join(" ")}`; }
  bezierCurveTo(a, b, c, d, x, y) { this.path += `C${[a, b, c, d, x, y].map(digits).join(" ")}`; }
  arc(x, y, radius) { const r = digits(radius); this.path += `M${digits(x - radius)} ${digits(y)}a${r} ${r} 0 1 0 ${digits(2 * radius)} 0a${r} ${r} 0 1 0 ${digits(-2 * radius)} 0`; } // whole circles
  fill() { this.put("path", { d: this.path, ...this.inked() }); }
  stroke() { this.put("path", { d: this.path, ...this.drawn() }); }
  fillRect(x, y, width, height) { this.put("rect", { ...rectangle(x, y, width, height), ...this.inked() }); }
  strokeRect(x, y, width, height) { this.put("rect", { ...rectangle(x, y, width, height), ...this.drawn() }); }
  clearRect() { /* the paper of a file is empty */ }
  fillText(text, x, y) {
    const anchor = { center: "middle", right: "end" }[this.textAlign];
    this.put("text", { x: digits(x), y: digits(y + (this.textBaseline === "middle" ? 4 : 0)), style: `font:${this.font}`, ...(anchor ? { "text-anchor": anchor } : {}), ...this.inked() }, text);
  }
  inked() { return { fill: this.color(this.fillStyle), ...this.faded() }; }
  drawn() { return { fill: "none", stroke: this.color(this.strokeStyle), "stroke-width": digits(this.lineWidth), ...(this.dash.length ? { "stroke-dasharray": this.dash.join(" ") } : {}), ...this.faded() }; }
  faded() { return this.globalAlpha < 1 ? { "fill-opacity": digits(this.globalAlpha), "stroke-opacity": digits(this.globalAlpha) } : {}; }
  color(style) { return typeof style === "string" ? style : this.define(style); }
  hatch(color, gap, weight) { return { tag: "pattern", attributes: { width: gap * 2, height: gap * 2, patternUnits: "userSpaceOnUse" }, inside: Array.from({ length: 6 }, (_, i) => (i - 2) * gap).map((x) => markup("path", { d: `M${x} ${gap * 2}l${gap * 2} ${-gap * 2}`, stroke: color, "stroke-width": weight })) }; }
  createRadialGradient(x, y, r0, x1, y1, radius) {
    const inside = [];
    return { tag: "radialGradient", inside, attributes: { cx: digits(x1), cy: digits(y1), r: digits(radius), gradientUnits: "userSpaceOnUse" },
      addColorStop: (at, color) => inside.push(markup("stop", { offset: at, "stop-color": color.slice(0, 7), "stop-opacity": digits(parseInt(color.slice(7) || "ff", 16) / 255) })) };
  }
  // Patterns and gradients are written once; charts inside a picture share the picture's.
  define({ tag, attributes, inside }) {
    const key = JSON.stringify([tag, attributes, inside]), home = this.home || this;
    if (!home.defs.has(key)) home.defs.set(key, markup(tag, { id: `d${home.defs.size}`, ...attributes }, null, inside));
    return `url(#d${[...home.defs.keys()].indexOf(key)})`;
  }
  put(tag, attributes, text = null) { this.out.push(markup(tag, this.moves.length ? { ...attributes, transform: this.moves.join(" ") } : attributes, text)); }
  part(width, height) { const made = new SvgPaper(width, height); made.home = this.home || this; return made; }
  place(part, x, y) { this.out.push(markup("svg", { x, y, width: part.width, height: part.height, overflow: "hidden" }, null, part.out)); }
  file(title, about) {
    const { width, height } = this;
    const inside = [markup("title", {}, title), markup("desc", {}, about), markup("defs", {}, null, [...this.defs.values()]), ...this.out];
    const text = markup("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, role: "img" }, null, inside);
    return new Blob([`<?xml version="1.0" encoding="UTF-8"?>\n${text}\n`], { type: "image/svg+xml" });
  }
}

// The same with pixels: a canvas of the browser, as fine as its largest size allows.
function pngPaper(width, height) {
  const canvas = el("canvas", {}), ratio = Math.min(2, 16000 / width, 16000 / height);
  canvas.width = Math.ceil(width * ratio);
  canvas.height = Math.ceil(height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return Object.assign(context, {
    part: pngPaper,
    size: [width, height],
    place: (part, x, y) => context.drawImage(part.canvas, x, y, ...part.size),
    file: () => new Promise((done) => { canvas.toBlob(done, "image/png"); }),
  });
}

const digits = (value) => `${Math.round(value * 100) / 100}`;
const rectangle = (x, y, width, height) => ({ x: digits(Math.min(x, x + width)), y: digits(Math.min(y, y + height)), width: digits(Math.abs(width)), height: digits(Math.abs(height)) });
// Names of a plan stay text here too; what XML cannot hold is left out.
const xml = (text) => String(text).replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "").replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const markup = (tag, attributes, text = null, inside = []) => `<${tag}${Object.entries(attributes).map(([name, value]) => ` ${name}="${xml(value)}"`).join("")}>${text === null ? "" : xml(text)}${inside.join("\n")}</${tag}>`;

let ruler = null;
function measured(text, font) {
  ruler = ruler || el("canvas", {}).getContext("2d");
  ruler.font = font;
  return ruler.measureText(text);
}

// --- a chart and what stands around it -------------------------------------------------------------

const spoken = (value) => (typeof value === "function" ? value() : value);

// Entries of the legends below a chart, as the page has them: [color, is hatched, text].
function legendsOf(holders) {
  return holders.flatMap((holder) => [...holder.querySelectorAll(".legend span")]).filter((entry) => entry.textContent.trim() && !entry.querySelector("span")).map((entry) => {
    const mark = entry.querySelector("i"), style = mark ? getComputedStyle(mark) : null;
    const isHatched = style !== null && style.backgroundImage !== "none";
    return [style === null ? null : isHatched ? style.borderTopColor : style.backgroundColor, isHatched, entry.textContent];
  });
}

function wrapped(text, font, width) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = lines[lines.length - 1] ? `${lines[lines.length - 1]} ${word}` : word;
    if (measured(longer, font).width <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines.filter(Boolean);
}

// The picture of a chart: title, what its scales are, the drawing with its axes, the legend.
function picture(chart, start) {
  paper = { canvas: chart.canvas, begin: (width, height) => { paper.part = start(Math.ceil(width), Math.ceil(height)); paper.wide = Math.ceil(width); paper.tall = Math.ceil(height); return paper.part; } };
  let body;
  try { chart.draw(); body = paper; } finally { paper = null; }
  const width = Math.max(420, body.wide + 2 * MARGIN), room = width - 2 * MARGIN, bold = FONT.replace("11.5px", "600 14px");
  const title = spoken(chart.title), heads = wrapped(`${title} · ${D.title}`, bold, room), notes = (spoken(chart.notes) || []).filter(Boolean).flatMap((note) => wrapped(note, FONT, room));
  const legend = legendsOf(chart.legends || []), rows = [[]];
  let x = 0;
  for (const entry of legend) {
    const wide = measured(entry[2], FONT).width + (entry[0] ? 20 : 0) + 16;
    if (x + wide > room && x) { rows.push([]); x = 0; }
    rows[rows.length - 1].push([x, entry]);
    x += wide;
  }
  const top = MARGIN + heads.length * 20 + notes.length * LINE + 8, foot = top + body.tall + 10;
  const whole = start(width, foot + (legend.length ? rows.length * LINE : 0) + MARGIN, body.part);
  whole.fillStyle = colors.card;
  whole.fillRect(0, 0, width, foot + rows.length * LINE + MARGIN);
  whole.textBaseline = "middle";
  whole.fillStyle = colors.ink;
  whole.font = bold;
  heads.forEach((line, at) => whole.fillText(line, MARGIN, MARGIN + at * 20 + 8));
  whole.font = FONT;
  whole.fillStyle = colors.soft;
  notes.forEach((line, at) => whole.fillText(line, MARGIN, MARGIN + heads.length * 20 + at * LINE + 8));
  whole.place(body.part, MARGIN, top);
  rows.forEach((row, at) => row.forEach(([left, [color, isHatched, text]]) => {
    const y = foot + at * LINE, start = MARGIN + left;
    if (color) {
      whole.fillStyle = isHatched ? hatch(whole, color, 4, 1.2) : color;
      whole.fillRect(start, y + 3, 14, 10);
    }
    whole.fillStyle = colors.soft;
    whole.fillText(text, start + (color ? 20 : 0), y + 8);
  }));
  return whole.file(title, [D.title, ...notes, ...legend.map((entry) => entry[2])].join("; "));
}

const PAPERS = {
  // Parts come before the whole: what they define is handed on to it.
  svg: (width, height, part) => { const made = new SvgPaper(width, height); if (part) made.defs = part.defs; return made; },
  png: pngPaper,
};

async function save(chart, kind) {
  const file = await picture(chart, PAPERS[kind]);
  if (!file) throw new Error(`the browser made no ${kind} of this size`);
  const name = `${D.title} ${spoken(chart.title)}`.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 80);
  const link = el("a", { href: URL.createObjectURL(file), download: `${name || "chart"}.${kind}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

// The buttons of a chart: {canvas, title, notes, legends, draw}. A hidden chart has none.
function saveButtons(chart) {
  const failed = el("span", { class: "soft", role: "status" });
  const button = (kind) => el("button", { "data-save": kind, "aria-label": `save this chart as ${kind.toUpperCase()}`,
    onclick: () => { failed.textContent = ""; save(chart, kind).catch((error) => { failed.textContent = `not saved: ${error.message}`; }); } }, kind.toUpperCase());
  return el("div", { class: "save" }, button("svg"), button("png"), failed);
}

// --- pictures that the page has as SVG ---------------------------------------------------------------

// Draw the few elements of which the page's own SVG is made: their colors are the page's.
function paintSvg(canvas, made) {
  const [, , width, height] = (made.getAttribute("viewBox") || `0 0 ${made.getAttribute("width")} ${made.getAttribute("height")}`).split(" ").map(Number);
  const context = sized(canvas, width, height);
  const ink = (value) => (value || "var(--ink)").replace(/var\(--(\w+)\)/, (_, name) => colors[name]);
  for (const one of made.querySelectorAll("path, rect, text")) {
    if (one.closest("defs")) continue;
    const read = (name) => one.getAttribute(name), at = (name) => Number(read(name));
    context.lineWidth = at("stroke-width") || 1;
    context.setLineDash(/\d/.test(read("stroke-dasharray") || "") ? read("stroke-dasharray").split(" ").map(Number) : []);
    context.strokeStyle = ink(read("stroke"));
    if (one.tagName === "text") {
      context.font = `${read("font-weight") ? `${read("font-weight")} ` : ""}${FONT}`;
      context.fillStyle = one.classList.contains("why") ? colors.soft : ink(read("fill"));
      context.textAlign = read("text-anchor") === "middle" ? "center" : "left";
      context.fillText(one.textContent, at("x"), at("y"));
    } else if (one.tagName === "rect") {
      context.fillStyle = ink(read("fill"));
      context.fillRect(at("x"), at("y"), at("width"), at("height"));
      context.strokeRect(at("x"), at("y"), at("width"), at("height"));
    } else tracePath(context, read("d"), Boolean(read("marker-end")));
  }
}

function tracePath(context, path, hasTip) {
  let x = 0, y = 0, from = [0, 0];
  context.beginPath();
  for (const [, step, rest] of path.matchAll(/([MQq])([^MQq]*)/g)) {
    const n = rest.trim().split(/\s+/).map(Number).map((value, at) => (step === "q" ? value + (at % 2 ? y : x) : value));
    if (step === "M") context.moveTo(...n);
    else { context.quadraticCurveTo(...n); from = n; }
    [x, y] = n.slice(-2);
  }
  context.stroke();
  if (!hasTip) return;
  const angle = Math.atan2(y - from[1], x - from[0]);
  context.setLineDash([]);
  context.fillStyle = context.strokeStyle;
  context.beginPath();
  context.moveTo(x, y);
  for (const off of [2.68, -2.68]) context.lineTo(x + 9 * Math.cos(angle + off), y + 9 * Math.sin(angle + off));
  context.closePath();
  context.fill();
}

function saveSvgButtons(made, title, notes) {
  const canvas = el("canvas", {});
  return saveButtons({ canvas, title, notes, draw: () => paintSvg(canvas, made) });
}
