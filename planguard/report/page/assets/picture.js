// Pictures of charts as files: the same drawing on another sheet, with title, scale and legend.

const PAD = 14, SWATCH = 14, BOLD = FONT.replace("11.5px", "14px").replace(/^/, "bold ");

// A sheet that writes what is drawn on it as SVG: the part of a canvas' context that charts use.
class Pen {
  constructor() {
    this.out = [];
    this.defs = [];
    this.known = new Map();
    this.saved = [];
    this.path = "";
    this.state = { fillStyle: "#000", strokeStyle: "#000", globalAlpha: 1, lineWidth: 1, font: FONT, textAlign: "left", textBaseline: "alphabetic", dash: [], matrix: [1, 0, 0, 1, 0, 0] };
    for (const name of ["fillStyle", "strokeStyle", "globalAlpha", "lineWidth", "font", "textAlign", "textBaseline"]) {
      Object.defineProperty(this, name, { get: () => this.state[name], set: (value) => { this.state[name] = value; } });
    }
  }
  save() { this.saved.push({ ...this.state }); }
  restore() { if (this.saved.length) this.state = this.saved.pop(); }
  by(m) {
    const [a, b, c, d, e, f] = this.state.matrix;
    this.state.matrix = [a * m[0] + c * m[1], b * m[0] + d * m[1], a * m[2] + c * m[3], b * m[2] + d * m[3], a * m[4] + c * m[5] + e, b * m[4] + d * m[5] + f];
  }
  translate(x, y) { this.by([1, 0, 0, 1, x, y]); }
  rotate(angle) { this.by([Math.cos(angle), Math.sin(angle), -Math.sin(angle), Math.cos(angle), 0, 0]); }
  setLineDash(dash) { this.state.dash = dash; }
  measureText(text) { ruler.font = this.state.font; return ruler.measureText(text); }
  clearRect() {}
  open(width, height) {
    const id = `clip${this.defs.length}`;
    this.defs.push(`<clipPath id="${id}"><rect width="${round(width)}" height="${round(height)}"/></clipPath>`);
    this.out.push(`<g${this.where()}><g clip-path="url(#${id})">`);
    this.save();
    this.state.matrix = [1, 0, 0, 1, 0, 0];
  }
  close() { this.restore(); this.out.push("</g></g>"); }
  createPattern(tile) {
    const [color, gap, weight] = tile.hatch;
    const key = `${color} ${gap} ${weight}`;
    if (!this.known.has(key)) {
      const id = `hatch${this.known.size}`, side = gap * 2;
      let lines = "";
      for (let x = -gap * 2; x <= gap * 4; x += gap) lines += `M${x} ${side}L${x + side} 0`;
      this.defs.push(`<pattern id="${id}" width="${side}" height="${side}" patternUnits="userSpaceOnUse"><path d="${lines}" stroke="${xml(color)}" stroke-width="${weight}" fill="none"/></pattern>`);
      this.known.set(key, `url(#${id})`);
    }
    return this.known.get(key);
  }
  createRadialGradient(x0, y0, r0, x, y, r) {
    const stops = [], id = `glow${this.defs.length}`, at = this.defs.length;
    this.defs.push("");
    return {
      addColorStop: (place, color) => {
        stops.push(`<stop offset="${place}" stop-color="${xml(color)}"/>`);
        this.defs[at] = `<radialGradient id="${id}" gradientUnits="userSpaceOnUse" cx="${round(x)}" cy="${round(y)}" r="${round(r)}">${stops.join("")}</radialGradient>`;
      },
      toString: () => `url(#${id})`,
    };
  }
  beginPath() { this.path = ""; }
  moveTo(x, y) { this.path += `M${round(x)} ${round(y)}`; }
  lineTo(x, y) { this.path += `${this.path ? "L" : "M"}${round(x)} ${round(y)}`; }
  quadraticCurveTo(a, b, x, y) { this.path += `Q${round(a)} ${round(b)} ${round(x)} ${round(y)}`; }
  bezierCurveTo(a, b, c, d, x, y) { this.path += `C${round(a)} ${round(b)} ${round(c)} ${round(d)} ${round(x)} ${round(y)}`; }
  closePath() { this.path += "Z"; }
  rect(x, y, w, h) { this.path += `M${round(x)} ${round(y)}h${round(w)}v${round(h)}h${round(-w)}Z`; }
  arc(x, y, radius, from, to) {
    if (to - from >= 6.28) { // a whole circle, as two halves
      this.path += `M${round(x - radius)} ${round(y)}a${round(radius)} ${round(radius)} 0 1 0 ${round(2 * radius)} 0a${round(radius)} ${round(radius)} 0 1 0 ${round(-2 * radius)} 0Z`;
      return;
    }
    const [x0, y0, x1, y1] = [x + radius * Math.cos(from), y + radius * Math.sin(from), x + radius * Math.cos(to), y + radius * Math.sin(to)];
    this.path += `${this.path ? "L" : "M"}${round(x0)} ${round(y0)}A${round(radius)} ${round(radius)} 0 ${to - from > Math.PI ? 1 : 0} 1 ${round(x1)} ${round(y1)}`;
  }
  where() {
    const m = this.state.matrix;
    return m.every((value, at) => value === [1, 0, 0, 1, 0, 0][at]) ? "" : ` transform="matrix(${m.map(round).join(" ")})"`;
  }
  look(isFill) {
    const s = this.state, alpha = s.globalAlpha === 1 ? "" : ` opacity="${round(s.globalAlpha)}"`;
    if (isFill) return ` fill="${xml(String(s.fillStyle))}"${alpha}${this.where()}`;
    const dash = s.dash.length ? ` stroke-dasharray="${s.dash.join(" ")}"` : "";
    return ` fill="none" stroke="${xml(String(s.strokeStyle))}" stroke-width="${round(s.lineWidth)}"${dash}${alpha}${this.where()}`;
  }
  fill() { this.out.push(`<path d="${this.path}"${this.look(true)}/>`); }
  stroke() { this.out.push(`<path d="${this.path}"${this.look(false)}/>`); }
  box(x, y, w, h) { return `x="${round(Math.min(x, x + w))}" y="${round(Math.min(y, y + h))}" width="${round(Math.abs(w))}" height="${round(Math.abs(h))}"`; }
  fillRect(x, y, w, h) { this.out.push(`<rect ${this.box(x, y, w, h)}${this.look(true)}/>`); }
  strokeRect(x, y, w, h) { this.out.push(`<rect ${this.box(x, y, w, h)}${this.look(false)}/>`); }
  fillText(text, x, y) {
    const found = /^(bold )?([\d.]+)px (.*)$/.exec(this.state.font) || ["", "", "11.5", "sans-serif"];
    const anchor = { center: "middle", right: "end" }[this.state.textAlign], low = this.state.textBaseline === "middle" ? "0.35em" : "";
    this.out.push(`<text x="${round(x)}" y="${round(y)}"${low ? ` dy="${low}"` : ""} font-size="${found[2]}"${found[1] ? ' font-weight="bold"' : ""}${anchor ? ` text-anchor="${anchor}"` : ""}${this.look(true)}>${xml(String(text))}</text>`);
  }
  text(width, height, title) {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${round(width)}" height="${round(height)}" viewBox="0 0 ${round(width)} ${round(height)}" font-family="system-ui, -apple-system, 'Segoe UI', sans-serif" role="img"><title>${xml(title)}</title><defs>${this.defs.join("")}</defs>\n${this.out.join("\n")}\n</svg>\n`;
  }
}

const ruler = document.createElement("canvas").getContext("2d");
const round = (value) => Math.round(value * 100) / 100;
const xml = (text) => text.replace(/[&<>"]/g, (found) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[found]);

// What the legends of a panel say of one of its charts: the color of each swatch and its words.
function legendWords(body, chart) {
  const isOf = (one) => !one.dataset.of || one.dataset.of === chart;
  return [...body.querySelectorAll(".legend > span:not([hidden])")].filter((span) => isOf(span) && isOf(span.parentElement)).map((span) => {
    const dot = span.querySelector("i"), style = dot ? getComputedStyle(dot) : null;
    const isHatched = style !== null && style.backgroundImage !== "none";
    return { color: style === null ? null : isHatched ? style.borderTopColor : style.backgroundColor, isHatched, text: span.textContent.trim() };
  }).filter((word) => word.text);
}

// The lines of a text that fit a width.
function lines(text, font, width) {
  ruler.font = font;
  const found = [""];
  for (const word of text.split(" ")) {
    const longer = found.at(-1) ? `${found.at(-1)} ${word}` : word;
    if (found.at(-1) && ruler.measureText(longer).width > width) found.push(word);
    else found[found.length - 1] = longer;
  }
  return found;
}

// Draw a chart with what surrounds it; returns the size it takes. Without a sheet it is measured only.
function compose(chart, sheet) {
  const [wide, tall] = chart.size(), margin = chart.margin || 0;
  const words = chart.legend(), rows = [[]];
  ruler.font = FONT;
  const spaces = words.map((word) => (word.color ? SWATCH + 5 : 0) + ruler.measureText(word.text).width + 16);
  const width = Math.max(360, PAD * 2 + margin + wide, PAD * 2 + Math.max(0, ...spaces));
  let used = 0;
  for (const [at, word] of words.entries()) {
    const space = spaces[at];
    if (used + space > width - 2 * PAD && rows.at(-1).length) { rows.push([]); used = 0; }
    rows.at(-1).push([used, word]);
    used += space;
  }
  const told = [D.verdict ? D.verdict.outcome.replace("_", " ") : "", D.world ? plural(D.world, "rank") : "", chart.note ? chart.note() : ""].filter(Boolean).join("; ");
  const titles = lines(`${D.title}: ${chart.title}`, BOLD, width - 2 * PAD), notes = lines(told, FONT, width - 2 * PAD);
  const head = titles.length * 18 + notes.length * 16 + 8;
  const foot = PAD + head + tall + 14, height = foot + (words.length ? rows.length * 19 : 0) + PAD;
  if (!sheet) return [width, height];
  sheet.fillStyle = colors.card;
  sheet.fillRect(0, 0, width, height);
  sheet.textBaseline = "middle";
  sheet.textAlign = "left";
  sheet.fillStyle = colors.ink;
  sheet.font = BOLD;
  titles.forEach((text, at) => sheet.fillText(text, PAD, PAD + 8 + at * 18));
  sheet.font = FONT;
  sheet.fillStyle = colors.soft;
  notes.forEach((text, at) => sheet.fillText(text, PAD, PAD + titles.length * 18 + 8 + at * 16));
  sheet.save();
  sheet.translate(PAD, PAD + head);
  if (chart.beside) chart.beside(sheet);
  sheet.translate(margin, 0);
  clipped(sheet, wide, tall, () => chart.paint(sheet));
  sheet.restore();
  sheet.font = FONT;
  sheet.textBaseline = "middle";
  sheet.textAlign = "left";
  sheet.globalAlpha = 1;
  rows.forEach((row, line) => row.forEach(([x, word]) => {
    const y = foot + 9 + line * 19;
    if (word.color) {
      sheet.fillStyle = word.isHatched ? hatch(sheet, word.color, 4, 1.4) : word.color;
      sheet.fillRect(PAD + x, y - 5, SWATCH, 10);
    }
    sheet.fillStyle = colors.soft;
    sheet.fillText(word.text, PAD + x + (word.color ? SWATCH + 5 : 0), y);
  }));
  return [width, height];
}

function clipped(sheet, width, height, paint) {
  if (sheet instanceof Pen) { sheet.open(width, height); paint(); sheet.close(); return; }
  sheet.save();
  sheet.beginPath();
  sheet.rect(0, 0, width, height);
  sheet.clip();
  paint();
  sheet.restore();
}

function svgOf(chart) {
  const pen = new Pen();
  const [width, height] = compose(chart, pen);
  return pen.text(width, height, `${D.title}: ${chart.title}`);
}

// Draw an SVG element of this page: its paths, boxes and texts.
function replay(sheet, picture) {
  const color = (value) => (value.startsWith("var(--") ? colors[value.slice(6, -1)] : value);
  for (const one of picture.querySelectorAll("path, rect, text")) {
    if (one.closest("defs")) continue;
    const read = (name) => one.getAttribute(name) || "", number = (name) => Number(read(name));
    sheet.lineWidth = number("stroke-width") || 1;
    sheet.setLineDash(/^\d/.test(read("stroke-dasharray")) ? read("stroke-dasharray").split(" ").map(Number) : []);
    if (one.tagName === "rect") {
      sheet.fillStyle = color(read("fill"));
      sheet.fillRect(number("x"), number("y"), number("width"), number("height"));
      if (read("stroke")) { sheet.strokeStyle = color(read("stroke")); sheet.strokeRect(number("x"), number("y"), number("width"), number("height")); }
    } else if (one.tagName === "text") {
      sheet.fillStyle = read("fill") ? color(read("fill")) : read("class") === "why" ? colors.soft : colors.ink;
      sheet.textAlign = read("text-anchor") === "middle" ? "center" : "left";
      sheet.textBaseline = "alphabetic";
      sheet.font = FONT;
      sheet.fillText(one.textContent, number("x"), number("y"));
    } else {
      sheet.strokeStyle = color(read("stroke"));
      const parts = read("d").match(/[A-Za-z]|-?[\d.]+/g);
      let x = 0, y = 0, before = [0, 0];
      const next = () => Number(parts.shift());
      sheet.beginPath();
      while (parts.length) {
        const kind = parts.shift(), isRelative = kind === kind.toLowerCase(), [x0, y0] = isRelative ? [x, y] : [0, 0];
        if (kind.toUpperCase() === "Q") {
          const bend = [x0 + next(), y0 + next()];
          before = bend;
          [x, y] = [x0 + next(), y0 + next()];
          sheet.quadraticCurveTo(...bend, x, y);
        } else {
          before = [x, y];
          [x, y] = [x0 + next(), y0 + next()];
          if (kind.toUpperCase() === "M") sheet.moveTo(x, y); else sheet.lineTo(x, y);
        }
      }
      sheet.stroke();
      if (read("marker-end")) { // its head
        const angle = Math.atan2(y - before[1], x - before[0]);
        sheet.fillStyle = sheet.strokeStyle;
        sheet.beginPath();
        sheet.moveTo(x, y);
        for (const turn of [2.7, -2.7]) sheet.lineTo(x + 9 * Math.cos(angle + turn), y + 9 * Math.sin(angle + turn));
        sheet.fill();
      }
    }
  }
  sheet.setLineDash([]);
}

function save(name, blob) {
  const link = el("a", { href: URL.createObjectURL(blob), download: `${D.title}-${name}`.replace(/[^\w.-]+/g, "-") });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// The two buttons of a chart. ``canvas`` and ``draw`` are what it is drawn on and by; ``picture`` is an SVG element in their place.
function pictures(body, { name, title, canvas, draw, picture, note, margin, beside }) {
  const chart = {
    title, note, margin, beside,
    legend: () => legendWords(body(), name),
    size: () => (picture ? picture().viewBox.baseVal.width ? [picture().viewBox.baseVal.width, picture().viewBox.baseVal.height] : [picture().width.baseVal.value, picture().height.baseVal.value] : [parseFloat(canvas.style.width), parseFloat(canvas.style.height)]),
    paint: (sheet) => {
      if (picture) { replay(sheet, picture()); return; }
      lent = { canvas, context: sheet };
      try { draw(); } finally { lent = null; }
    },
  };
  const asSvg = () => save(`${name}.svg`, new Blob([svgOf(chart)], { type: "image/svg+xml" }));
  const asPng = () => {
    const [width, height] = compose(chart, null), scale = Math.max(1, Math.min(2, 16_000 / Math.max(width, height)));
    const sheet = el("canvas", { width: Math.round(width * scale), height: Math.round(height * scale) });
    const context = sheet.getContext("2d");
    context.scale(scale, scale);
    compose(chart, context);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.globalCompositeOperation = "destination-over"; // what a chart cleared
    context.fillStyle = colors.card;
    context.fillRect(0, 0, sheet.width, sheet.height);
    sheet.toBlob((blob) => save(`${name}.png`, blob), "image/png");
  };
  return el("span", { class: "save", "data-chart": name },
    el("button", { onclick: asSvg, title: `save as SVG: ${title}`, "aria-label": `save as SVG: ${title}` }, "SVG"),
    el("button", { onclick: asPng, title: `save as PNG: ${title}`, "aria-label": `save as PNG: ${title}` }, "PNG"));
}
