// Marey's graph with bands: the n-th operations of two neighbors span an area between their start
// lines and their end lines. Bands exist inside a class of equal ranks only; messages are ribbons.

const BINS = 100; // the visible range is cut into this many; dense ones are merged (VD-58)
const NEAR = 2; // px; closer bands of one color are merged, communication too
const DENSE = 0.5; // operations per px; above it a row is a strip of what fills each column most,
const WIDE = 3; // px; but what is wider is a box
const RIBBONS = 4000;
const drawn = { quads: 0, merged: 0, strips: 0, ribbons: 0, visible: 0, bins: 0 };

function drawTimeline(context, time, items, view) {
  Object.assign(drawn, { quads: 0, merged: 0, strips: 0, ribbons: 0, visible: 0, bins: 0 });
  const { low, high, width, height, isMarey } = view;
  const scale = width / (high - low);
  const x = (t) => (t === Infinity ? width + 4 : (t - low) * scale);
  context.font = FONT;
  context.textBaseline = "middle";
  drawAxis(context, view, x);
  const rows = items.filter((item) => item.row !== undefined);
  for (const item of items) drawRule(context, item, width);
  if (isMarey) {
    for (let i = 1; i < rows.length; i++) {
      const [a, b] = [rows[i - 1], rows[i]];
      if (a.alike === b.alike && b.place === a.place + 1) drawBands(context, time, a, b, view, x);
    }
  }
  for (const item of items) {
    if (item.row !== undefined) drawRow(context, time, item, view, x);
    else if (item.isFolded) drawFold(context, time, item, view, x);
  }
  drawRibbons(context, time, rows, view, x);
  if (view.path) drawCritical(context, time, rows, view, x);
  for (const item of rows) if (view.lines && isMarey) drawLines(context, time, item, view, x);
  context.clearRect(0, height, width, 1);
}

function drawAxis(context, view, x) {
  const { low, high, width, height } = view;
  context.fillStyle = colors.soft;
  context.strokeStyle = colors.line;
  context.lineWidth = 1;
  context.textAlign = "center";
  const span = high - low;
  const unit = high >= 2e6 ? [1e6, "s"] : high >= 2e3 ? [1e3, "ms"] : [1, "us"];
  for (const t of ticks(low, high, width / 110)) {
    const at = Math.round(x(t)) + 0.5;
    const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(span / unit[0] / 10))));
    if (at > 14 && at < width - 24) context.fillText(`${(t / unit[0]).toFixed(digits)} ${unit[1]}`, at, 10);
    context.globalAlpha = 0.6;
    context.beginPath();
    context.moveTo(at, 20);
    context.lineTo(at, height);
    context.stroke();
    context.globalAlpha = 1;
  }
  context.textAlign = "left";
}

// Where the steps of training begin, as the trace marks them.
function drawStepMarks(context, time, view) {
  const scale = view.width / (view.high - view.low);
  context.font = FONT;
  context.textBaseline = "middle";
  let before = -Infinity;
  for (const step of time.head.steps) {
    const x = (step.start - view.low) * scale;
    if (x < -200 || x > view.width) continue;
    context.strokeStyle = colors.accent;
    context.setLineDash([5, 4]);
    context.beginPath();
    context.moveTo(x, 18);
    context.lineTo(x, view.height);
    context.stroke();
    context.setLineDash([]);
    if (x - before < 84) continue;
    before = x;
    const wide = context.measureText(step.name).width;
    context.fillStyle = colors.card;
    context.fillRect(Math.max(0, x) + 3, 20, wide + 6, 13);
    context.fillStyle = colors.accent;
    context.fillText(step.name, Math.max(0, x) + 6, 27);
  }
}

function drawRule(context, item, width) {
  if (item.isOn) {
    context.fillStyle = colors.mark;
    context.fillRect(0, item.y, width, item.height);
  }
  if (item.row === undefined && !item.isFolded) {
    context.fillStyle = colors.faint;
    context.fillRect(0, item.y, width, item.height);
    return;
  }
  context.strokeStyle = colors.line;
  context.beginPath();
  context.moveTo(0, Math.round(item.middle) + 0.5);
  context.lineTo(width, Math.round(item.middle) + 0.5);
  context.stroke();
}

// The bins of the visible range whose share of compute bands is above the mean (VD-58).
function denseBins(time, row, view) {
  const { low, high } = view;
  const counts = new Uint32Array(BINS);
  let total = 0;
  const [first, stop] = within(time, row, low, high);
  for (let i = first; i < stop; i++) {
    if (time.kind[i] !== 0) continue;
    const bin = Math.floor(((time.start[i] - low) / (high - low)) * BINS);
    if (bin >= 0 && bin < BINS) { counts[bin]++; total++; }
  }
  const mean = total / BINS;
  return counts.map((count) => (count > mean && count > 1 ? 1 : 0));
}

function drawBands(context, time, a, b, view, x) {
  const { low, high, width } = view;
  const shift = time.from[b.row] - time.from[a.row];
  const top = a.middle + a.half, bottom = b.middle - b.half;
  const count = countVisible(time, a.row, view);
  const isCrowded = count > width / 6;
  const dense = isCrowded ? denseBins(time, a.row, view) : null;
  const open = new Map(); // color -> [x0a, x1a, x0b, x1b, bin]
  const flush = (shade, q) => {
    quad(context, shade, q, top, bottom);
    open.delete(shade);
  };
  const [ofA, ofB] = [within(time, a.row, low, high), within(time, b.row, low, high)];
  const first = Math.max(time.from[a.row], Math.min(ofA[0], ofB[0] - shift));
  for (let i = first, stop = Math.min(time.to[a.row], Math.max(ofA[1], ofB[1] - shift)); i < stop; i++) {
    const j = i + shift;
    if (time.kind[i] === 4) continue;
    const endA = time.end[i], endB = time.end[j];
    if (Math.max(endA, endB) < low || Math.min(time.start[i], time.start[j]) > high) continue;
    const isStuck = endA === Infinity || endB === Infinity;
    const q = [x(time.start[i]), x(endA), x(time.start[j]), x(endB), -1];
    const shade = isStuck ? -1 : time.shade[i];
    if (time.kind[i] === 0 && dense) {
      const bin = Math.floor(((time.start[i] - low) / (high - low)) * BINS);
      if (bin >= 0 && bin < BINS && dense[bin]) q[4] = bin;
    }
    const last = open.get(shade);
    if (last !== undefined) {
      const isSameBin = q[4] >= 0 && q[4] === last[4];
      const isNear = isCrowded && q[0] - last[1] < NEAR && q[2] - last[3] < NEAR && q[0] >= last[0] && q[2] >= last[2] &&
        (q[1] - q[0] < NEAR || last[1] - last[0] < NEAR * 2);
      if (isSameBin || isNear) {
        last[0] = Math.min(last[0], q[0]); last[1] = Math.max(last[1], q[1]);
        last[2] = Math.min(last[2], q[2]); last[3] = Math.max(last[3], q[3]);
        drawn.merged++;
        continue;
      }
      flush(shade, last);
    }
    open.set(shade, q);
  }
  for (const [shade, q] of open) flush(shade, q);
  if (dense) drawn.bins += dense.reduce((sum, one) => sum + one, 0);
}

// One convex area each: a fill per area is faster than one large path (measured).
function quad(context, shade, q, top, bottom) {
  drawn.quads++;
  context.globalAlpha = shade >= 4 || shade === -1 ? 0.62 : 0.36;
  context.fillStyle = shade === -1 ? hatch(context, colors.bad, 5, 1.6) : colors[SHADES[shade]];
  const thin = Math.max(0, 0.7 - (q[1] - q[0])) / 2;
  if (Math.abs(q[0] - q[2]) < 0.5 && Math.abs(q[1] - q[3]) < 0.5) { // upright: a rectangle is cheaper
    context.fillRect(q[0] - thin, top, q[1] - q[0] + 2 * thin, bottom - top);
    context.globalAlpha = 1;
    return;
  }
  context.beginPath();
  context.moveTo(q[0] - thin, top);
  context.lineTo(q[1] + thin, top);
  context.lineTo(q[3] + thin, bottom);
  context.lineTo(q[2] - thin, bottom);
  context.fill();
  context.globalAlpha = 1;
}

function countVisible(time, row, view) {
  const known = view.counts.get(row);
  if (known !== undefined) return known;
  let count = 0;
  const [first, stop] = within(time, row, view.low, view.high);
  for (let i = first; i < stop; i++) {
    if (time.start[i] <= view.high && time.end[i] >= view.low && time.kind[i] !== 4) count++;
  }
  drawn.visible += count;
  view.counts.set(row, count);
  return count;
}

function drawRow(context, time, item, view, x) {
  if (countVisible(time, item.row, view) > view.width * DENSE) drawStrip(context, time, item, view, x);
  else drawSpans(context, time, item, view, x);
  if (time.head.ranks[item.row].stuck) drawStuck(context, time, item, view, x);
}

// Where computations and communication of a row are drawn: top and height of each.
function lanesOf(time, item, view) {
  const full = item.half * 2, y = item.middle - item.half;
  const isSplit = !view.isSmall && (!view.isMarey || item.isSplit || time.overlaps);
  return isSplit ? [[y, full * 0.58], [y + full * 0.62, full * 0.38]] : [[y, full], [y, full]];
}

// What fills every column of a row for longest, of what is too narrow for a box; of all, if it is small.
function drawStrip(context, time, item, view, x) {
  const { low, high, width } = view;
  const scale = width / (high - low), columns = Math.floor(width), least = view.isSmall ? Infinity : WIDE / scale;
  const lanes = lanesOf(time, item, view), isOne = lanes[0][0] === lanes[1][0];
  const [first, stop] = within(time, item.row, low, high), wide = [];
  for (const lane of isOne ? [0] : [0, 1]) {
    const sums = new Float32Array(columns * SHADES.length);
    for (let i = first; i < stop; i++) {
      if (time.kind[i] === 4 || time.end[i] < low || time.start[i] > high || time.end[i] === Infinity) continue;
      if (!isOne && (time.kind[i] === 0) !== (lane === 0)) continue;
      if (time.end[i] - time.start[i] >= least) { wide.push(i); continue; }
      const x0 = Math.max(0, (time.start[i] - low) * scale), x1 = Math.min(columns, (time.end[i] - low) * scale);
      for (let c = Math.floor(x0); c < x1; c++) sums[c * SHADES.length + time.shade[i]] += Math.min(x1, c + 1) - Math.max(x0, c);
    }
    fillStrip(context, sums, columns, ...lanes[lane]);
  }
  for (const i of wide) box(context, time, i, x(time.start[i]), x(time.end[i]), ...lanes[time.kind[i] === 0 ? 0 : 1], x);
  drawn.strips++;
}

function fillStrip(context, sums, columns, y, height) {
  let from = 0, before = -1;
  for (let c = 0; c <= columns; c++) {
    let best = -1, most = 0;
    for (let s = 0; c < columns && s < SHADES.length; s++) {
      if (sums[c * SHADES.length + s] > most) { most = sums[c * SHADES.length + s]; best = s; }
    }
    if (best === before && c < columns) continue;
    if (before >= 0) {
      context.fillStyle = colors[SHADES[before]];
      context.fillRect(from, y, c - from, height);
    }
    from = c;
    before = best;
  }
}

function drawSpans(context, time, item, view, x) {
  const { low, high } = view;
  const lanes = lanesOf(time, item, view), [first, stop] = within(time, item.row, low, high);
  const last = new Float64Array(SHADES.length).fill(-Infinity);
  for (const pass of [0, 1]) {
    for (let i = first; i < stop; i++) {
      const isComputing = time.kind[i] === 0;
      if (time.kind[i] === 4 || isComputing === Boolean(pass) || time.start[i] > high || time.end[i] < low || time.end[i] === Infinity) continue;
      const x0 = x(time.start[i]), x1 = x(time.end[i]);
      const shade = time.shade[i];
      if (x1 - last[shade] < 0.5) continue; // nothing of it would be seen
      last[shade] = x1;
      box(context, time, i, x0, x1, ...lanes[pass], x);
    }
  }
}

function box(context, time, i, x0, x1, y, h, x) {
  const color = colors[SHADES[time.shade[i]]];
  const wide = Math.max(0.8, x1 - x0 - (x1 - x0 > 3 ? 0.6 : 0));
  const ready = time.kind[i] === 0 ? x0 : Math.min(x1, Math.max(x0, x(time.ready[i])));
  if (ready - x0 > 2) { // its own waiting, before the last member is there
    context.fillStyle = hatch(context, color, 4, 1.2);
    context.fillRect(x0, y, ready - x0, h);
    context.strokeStyle = color;
    context.strokeRect(x0 + 0.5, y + 0.5, wide - 1, h - 1);
    context.fillStyle = color;
    context.fillRect(ready, y, Math.max(0.8, x1 - ready), h);
  } else {
    context.fillStyle = color;
    context.fillRect(x0, y, wide, h);
  }
  const inside = x1 - Math.max(0, ready > x0 + 2 && x1 - ready > 20 ? ready : x0);
  if (inside > 13 && h >= 11) {
    const text = short(time, i);
    if (text.length * 6.3 + 1 < inside) {
      context.fillStyle = inks[SHADES[time.shade[i]]];
      context.textAlign = "center";
      const at = Math.max(x0, 0) + (Math.min(x1, x0 + wide) - Math.max(x0, 0)) / 2;
      if (ready - x0 <= 2) context.fillText(text, at, y + h / 2 + 0.5);
      context.textAlign = "left";
    }
  }
}

// What never completes reaches the right edge, hatched; a cross stands at the front of its row.
function drawStuck(context, time, item, view, x) {
  let first = Infinity;
  for (let i = time.from[item.row]; i < time.to[item.row]; i++) {
    if (time.end[i] !== Infinity) continue;
    first = Math.min(first, time.start[i]);
  }
  const x0 = Math.max(0, x(first));
  if (x0 > view.width) return;
  const full = item.half * 2, isSplit = !view.isMarey || item.isSplit || time.overlaps;
  const y = item.middle - item.half + (isSplit ? full * 0.6 : 0), h = isSplit ? full * 0.4 : full;
  context.fillStyle = hatch(context, colors.bad, 5, 1.6);
  context.globalAlpha = 0.8;
  context.fillRect(x0, y, view.width - x0, h);
  context.globalAlpha = 1;
  context.strokeStyle = colors.bad;
  context.lineWidth = 1.5;
  context.strokeRect(x0 + 0.5, y + 0.5, view.width - x0, h - 1);
  context.lineWidth = 1;
  const said = "never completes", wide = context.measureText(said).width;
  if (view.width - x0 > wide + 14 && h > 11) {
    context.fillStyle = colors.card;
    context.fillRect(x0 + 5, y + h / 2 - 6, wide + 8, 12);
    context.fillStyle = colors.bad;
    context.fillText(said, x0 + 9, y + h / 2 + 0.5);
  }
}

// Average, least and most of start and end over the devices of a stage (VD-59).
function foldOf(time, rows) {
  const classes = new Map();
  for (const row of rows) {
    const key = time.head.ranks[row].alike;
    if (!classes.has(key)) classes.set(key, []);
    classes.get(key).push(row);
  }
  return [...classes.values()].map((own) => {
    const n = time.to[own[0]] - time.from[own[0]], first = time.from[own[0]];
    const made = { first, n };
    for (const name of ["start", "end"]) {
      const low = new Float64Array(n).fill(Infinity), high = new Float64Array(n).fill(-Infinity), mean = new Float64Array(n);
      for (const row of own) {
        for (let i = 0; i < n; i++) {
          const value = time[name][time.from[row] + i];
          if (value < low[i]) low[i] = value;
          if (value > high[i]) high[i] = value;
          mean[i] += value / own.length;
        }
      }
      made[name] = { low, high, mean };
    }
    return made;
  });
}

function drawFold(context, time, item, view, x) {
  for (const fold of item.folds()) {
    const last = new Float64Array(SHADES.length).fill(-Infinity);
    for (let k = 0; k < fold.n; k++) {
      const i = fold.first + k;
      if (time.kind[i] === 4 || fold.start.low[k] > view.high || fold.end.high[k] < view.low) continue;
      const isStuck = fold.end.high[k] === Infinity;
      const color = isStuck ? hatch(context, colors.bad, 5, 1.6) : colors[SHADES[time.shade[i]]];
      const lane = time.kind[i] === 0 ? 0 : 1, full = item.half * 2;
      const y = item.middle - item.half + (lane ? full * 0.62 : 0), h = full * (lane ? 0.38 : 0.58);
      const [a, b, c, d] = [fold.start.low[k], fold.end.high[k], fold.start.mean[k], fold.end.mean[k]].map(x);
      if (b - last[time.shade[i]] < 0.5) continue;
      last[time.shade[i]] = b;
      context.fillStyle = color;
      context.globalAlpha = 0.3;
      context.fillRect(a, y + h * 0.3, Math.max(0.8, b - a), h * 0.4);
      context.globalAlpha = 1;
      context.fillRect(c, y, Math.max(0.8, d - c), h);
    }
  }
}

// The critical path: a thick line through its pieces, from rank to rank where it changes.
function drawCritical(context, time, rows, view, x) {
  const where = new Map(rows.map((item) => [time.head.ranks[item.row].rank, item]));
  context.strokeStyle = colors.bad;
  context.lineWidth = 3;
  context.beginPath();
  let before = null;
  for (const piece of time.path) {
    const item = where.get(piece.rank);
    if (!item) { before = null; continue; }
    const y = item.middle + item.half + 2;
    const isSeen = piece.end >= view.low && piece.start <= view.high;
    if (before && before[1] !== y && (isSeen || before[2])) { context.moveTo(x(before[0]), before[1]); context.lineTo(x(piece.start), y); }
    if (isSeen) {
      context.moveTo(Math.max(-4, x(piece.start)), y);
      context.lineTo(Math.max(x(piece.start) + 0.5, Math.min(view.width + 4, x(piece.end))), y);
    }
    before = [piece.end, y, isSeen];
  }
  context.stroke();
  context.lineWidth = 1;
}

function drawRibbons(context, time, rows, view, x) {
  if (!view.messages) return;
  const where = new Map(rows.map((item) => [item.row, item]));
  const seen = [];
  for (const [send, recv] of time.pairs) {
    if (time.start[send] > view.high || time.end[recv] < view.low) continue;
    const a = where.get(time.row[send]), b = where.get(time.row[recv]);
    if (a && b) seen.push([send, recv, a, b]);
  }
  if (seen.length > RIBBONS) return;
  context.lineWidth = 1;
  const isThick = seen.length < 600;
  for (const [send, recv, a, b] of seen) {
    const isStuck = time.end[send] === Infinity || time.end[recv] === Infinity;
    const down = b.middle > a.middle;
    const y0 = a.middle + (down ? a.half : -a.half), y1 = b.middle + (down ? -b.half : b.half);
    // From the moment both sides are there: how long either waited is hatched on its own row.
    const x0 = x(isStuck ? time.start[send] : Math.max(time.start[send], time.ready[send])), x1 = x(isStuck ? time.start[recv] : time.end[recv]);
    const out = isStuck ? x0 : x(time.end[send]);
    context.strokeStyle = isStuck ? colors.bad : colors.send;
    context.fillStyle = colors.send;
    if (isThick && !isStuck && out - x0 > 1.5) { // an area from sending to receiving
      context.globalAlpha = 0.2;
      context.beginPath();
      context.moveTo(x0, y0);
      context.lineTo(out, y0);
      context.lineTo(x1, y1);
      context.lineTo(Math.max(x0, x1 - (out - x0)), y1);
      context.fill();
    }
    context.globalAlpha = isThick ? 0.75 : 0.3;
    context.setLineDash(isStuck ? [4, 3] : []);
    context.beginPath();
    context.moveTo((x0 + out) / 2, y0);
    context.lineTo(x1, y1);
    context.stroke();
    if (isThick) {
      context.fillStyle = isStuck ? colors.bad : colors.recv;
      context.beginPath();
      context.arc(x1, y1, 1.8, 0, 7);
      context.fill();
    }
    drawn.ribbons++;
  }
  context.setLineDash([]);
  context.globalAlpha = 1;
}
