// The inside of a rank, as a trace shows it: slices of threads and streams, counters, memory, and the
// path through them that the end waited for.

// The inside of all ranks as arrays, made when it is first looked at.
let arrays = null;
const insides = () => arrays || (arrays = insideArrays());
let insideProbe = null; // what tests may ask

const INSIDE_SHADES = { operator: "forward", annotation: "other", python: "weight", runtime: "send", kernel: "backward", collective: "collective", copy: "copy", set: "recv", sync: "wait" };
const PATH_WORDS = { host: "the host runs", kernel: "a kernel runs", collective: "a collective runs", copy: "a copy runs", launch: "from a call until its work begins", gap: "from one work to the next", return: "from the end of work until the call that waits returns", idle: "nothing that is recorded runs" };
const LEVELS = 8, LEVEL = 15, COUNTER = 44, BLOCK = 150;

// Times from the steps between them, in ticks.
function stepped(gaps, from, to) {
  const out = new Float64Array(to - from);
  let tick = 0;
  for (let i = from; i < to; i++) { tick += gaps[i] | 0; out[i - from] = tick * D.inside.tick; }
  return out;
}

function insideArrays() {
  const tick = D.inside.tick;
  let at = 0, step = 0, point = 0, block = 0;
  return D.inside.ranks.map((head) => {
    const cut = (name) => C[`in.${name}`].subarray(at, at + head.n);
    const own = { head, start: stepped(C["in.gap"], at, at + head.n), name: cut("name"), lane: cut("lane"), depth: cut("depth"), kind: cut("kind"), mate: cut("mate") };
    own.end = own.start.map((start, i) => start + C["in.dur"][at + i] * tick);
    at += head.n;
    own.path = [...stepped(C["path.gap"], step, step + head.path)].map((start, i) => ({ start, end: start + C["path.dur"][step + i] * tick, why: D.inside.path[C["path.why"][step + i]], place: C["path.place"][step + i] }));
    step += head.path;
    own.series = head.series.map(([name, unit, n, most]) => { const made = { name, unit, most, times: stepped(C["series.gap"], point, point + n), values: C["series.value"].subarray(point, point + n) }; point += n; return made; });
    own.blocks = head.blocks.map(([name, n, left]) => {
      const made = { name, left, n, start: stepped(C["alloc.gap"], block, block + n), floor: C["alloc.floor"].subarray(block, block + n), size: C["alloc.size"].subarray(block, block + n), by: C["alloc.by"].subarray(block, block + n) };
      made.end = made.start.map((start, i) => (C["alloc.dur"][block + i] === ABSENT ? Infinity : start + C["alloc.dur"][block + i] * tick));
      made.most = made.floor.reduce((most, floor, i) => Math.max(most, floor + made.size[i]), 0);
      block += n;
      return made;
    });
    return own;
  });
}

// Every slice with the time of what it called inside taken off.
function selfTimes(own) {
  const self = own.start.map((start, i) => own.end[i] - start), around = [];
  for (let i = 0; i < own.start.length; i++) {
    const stack = around[own.lane[i]] || (around[own.lane[i]] = []);
    stack.length = Math.min(stack.length, own.depth[i]);
    while (stack.length && own.end[stack[stack.length - 1]] < own.end[i]) stack.pop();
    if (stack.length) self[stack[stack.length - 1]] -= own.end[i] - own.start[i];
    stack.push(i);
  }
  return self;
}

const amount = (value, unit) => (unit === "B" ? bytes(value) : unit === "B/s" ? `${bytes(value)}/s` : number(+value.toPrecision(4)));
const sliceText = (own, i) => {
  const lane = own.head.lanes[own.lane[i]], kind = D.inside.kinds[own.kind[i]];
  const said = [D.names[own.name[i]], `${kind}, ${lane[0]}`, `${us(own.start[i])} to ${us(own.end[i])}, ${us(own.end[i] - own.start[i])} (${T.head.basis})`];
  if (own.mate[i] !== ABSENT) said.push(`launched by ${D.names[own.name[own.mate[i]]]}, which returned ${us(own.start[i] - own.end[own.mate[i]])} before it began`);
  return said.join("\n");
};

function insidePanel(body) {
  const canvas = el("canvas", { tabindex: 0, role: "application", "aria-label": "threads, streams and counters of a rank: drag to zoom, plus and minus, arrow keys, Home shows all" });
  const all = insides(), options = { path: all.some((own) => own.path.length > 0), levels: false };
  let own = all[0], rows = [], tall = 0, chosen = -1;
  const pick = el("select", { id: "inside-rank", "aria-label": "rank", onchange: () => put({ ranks: [Number(pick.value)], op: null }) }, all.map(({ head }) => el("option", { value: head.rank }, `rank ${head.rank}`)));
  const handles = el("div", { class: "pins" });
  const note = el("p", { class: "soft" }), told = el("p", { class: "mono", "aria-live": "polite" });

  function arrange() {
    rows = [];
    let y = 22;
    const order = own.head.lanes.map(([name, isDevice, deep], lane) => ({ name, isDevice, deep, lane })).filter(({ deep }) => deep);
    order.sort((a, b) => a.isDevice - b.isDevice || (a.isDevice ? a.name.localeCompare(b.name, "en", { numeric: true }) : a.lane - b.lane));
    order.forEach(({ name, deep, lane }) => {
      const levels = options.levels ? deep : Math.min(deep, LEVELS);
      rows.push({ y, lane, levels, title: name, name: `${name}${levels < deep ? ` (${plural(deep - levels, "deeper level")} not drawn)` : ""}`, height: 15 + levels * LEVEL + 5 });
      y += rows.at(-1).height;
    });
    for (const series of own.series) { rows.push({ y, series, title: series.name, name: `${series.name}, at most ${amount(series.most, series.unit)}`, height: 15 + COUNTER + 5 }); y += rows.at(-1).height; }
    for (const memory of own.blocks) { rows.push({ y, memory, title: `allocations on ${memory.name}`, name: `allocations on ${memory.name}, ${plural(memory.n, "block")}, together at most ${bytes(memory.most)}${memory.left ? `; ${number(memory.left)} smaller ones are left out` : ""}`, height: 15 + BLOCK + 5 }); y += rows.at(-1).height; }
    const pins = S.pinned || [];
    rows.forEach((row) => { row.key = encodeURIComponent(row.title); row.pin = pins.indexOf(row.key); });
    rows.sort((a, b) => (a.pin < 0 ? pins.length : a.pin) - (b.pin < 0 ? pins.length : b.pin));
    y = 22;
    for (const row of rows) { row.y = y; y += row.height; }
    tall = y + 4;
    handles.replaceChildren(...rows.map((row) => { const made = pinButton("pinned", row.key, row.title, handles, pinPlace); made.style.top = `${row.y}px`; return made; }));
  }

  function pinPlace(clientY) {
    const y = clientY - canvas.getBoundingClientRect().top;
    return rows.filter((row) => row.pin >= 0 && y > row.y + row.height).length;
  }

  function draw() {
    const width = Math.max(260, body.clientWidth - 30), [low, high] = timeRange();
    const context = sized(canvas, width, tall), scale = width / (high - low), x = (t) => (t - low) * scale;
    context.font = FONT;
    context.textBaseline = "middle";
    drawAxis(context, { low, high, width, height: tall }, x);
    const view = { low, high, width, x };
    for (const row of rows) {
      context.fillStyle = colors.faint;
      context.fillRect(0, row.y, width, 14);
      context.fillStyle = colors.ink;
      context.fillText(row.name, 6, row.y + 7.5);
      if (row.series) drawCounter(context, row, view);
      else if (row.memory) drawBlocks(context, row, view);
    }
    drawSlices(context, view);
    if (options.path) drawPath(context, view);
    if (chosen >= 0) mark(context, view, chosen);
  }

  const place = (i) => { const row = rows.find((one) => one.lane === own.lane[i]); return row && own.depth[i] < row.levels ? row.y + 15 + own.depth[i] * LEVEL : null; };

  function drawSlices(context, { low, high, width, x }) {
    const tops = new Map(rows.filter((row) => row.lane !== undefined).map((row) => [row.lane, row])), last = new Map();
    for (let i = 0; i < own.start.length; i++) {
      if (own.start[i] > high) break;
      const row = tops.get(own.lane[i]);
      if (own.end[i] < low || own.depth[i] >= row.levels) continue;
      const x0 = Math.max(-2, x(own.start[i])), x1 = Math.min(width + 2, x(own.end[i])), key = own.lane[i] * 256 + own.depth[i];
      if (x1 - (last.get(key) ?? -9) < 0.5) continue; // nothing of it would be seen
      last.set(key, x1);
      const shade = INSIDE_SHADES[D.inside.kinds[own.kind[i]]], y = row.y + 15 + own.depth[i] * LEVEL;
      context.fillStyle = shade === "wait" ? hatch(context, colors.wait, 4, 1.4) : colors[shade];
      context.fillRect(x0, y, Math.max(0.8, x1 - x0 - (x1 - x0 > 3 ? 0.6 : 0)), LEVEL - 1);
      if (x1 - x0 > 24) {
        const room = Math.floor((x1 - x0 - 6) / 6.2), text = D.names[own.name[i]];
        context.fillStyle = shade === "wait" ? colors.ink : inks[shade];
        context.fillText(text.length > room ? `${text.slice(0, Math.max(1, room - 1))}…` : text, x0 + 3, y + LEVEL / 2);
      }
    }
  }

  function drawCounter(context, { y, series }, { low, high, width, x }) {
    const floor = y + 15 + COUNTER, level = (value) => floor - (Math.max(0, value) / series.most) * (COUNTER - 3);
    const { times, values } = series;
    context.fillStyle = context.strokeStyle = colors.accent;
    context.beginPath();
    context.moveTo(0, floor);
    let before = 0, at = 0;
    for (; at < times.length && times[at] <= low; at++) before = values[at];
    context.lineTo(0, level(before));
    for (; at < times.length && times[at] <= high; at++) {
      context.lineTo(x(times[at]), level(before));
      context.lineTo(x(times[at]), level(values[at]));
      before = values[at];
    }
    const end = at < times.length ? width : Math.min(width, Math.max(0, x(times[times.length - 1] ?? 0)));
    context.lineTo(end, level(before));
    context.stroke();
    context.lineTo(end, floor);
    context.globalAlpha = 0.25;
    context.fill();
    context.globalAlpha = 1;
    context.strokeStyle = colors.line;
    context.strokeRect(0.5, floor + 0.5, width, 0);
  }

  function drawBlocks(context, { y, memory }, { low, high, width, x }) {
    const floor = y + 15 + BLOCK, scale = (BLOCK - 2) / memory.most;
    for (let i = 0; i < memory.n; i++) {
      if (memory.end[i] < low || memory.start[i] > high) continue;
      const x0 = Math.max(0, x(memory.start[i])), x1 = memory.end[i] === Infinity ? width : Math.min(width, x(memory.end[i]));
      const h = memory.size[i] * scale, top = floor - (memory.floor[i] + memory.size[i]) * scale;
      context.fillStyle = SPACE_COLORS[i % SPACE_COLORS.length];
      context.fillRect(x0, top, Math.max(0.6, x1 - x0), Math.max(0.4, h > 2 ? h - 0.5 : h));
    }
  }

  // The path: its pieces in frames, underlined where they are narrow, and the steps between lanes.
  function drawPath(context, { low, high, width, x }) {
    context.strokeStyle = context.fillStyle = colors.bad;
    context.lineWidth = 1.6;
    let before = null;
    context.beginPath();
    for (const piece of own.path) {
      if (piece.place === ABSENT) continue;
      const y = place(piece.place), lane = own.lane[piece.place];
      if (y === null) continue;
      if (before !== null && before.lane !== lane && piece.start >= low && before.end <= high) {
        context.moveTo(Math.max(-5, x(before.end)), before.y + LEVEL / 2);
        context.lineTo(Math.min(width + 5, x(piece.start)), y + LEVEL / 2);
      }
      before = { end: piece.end, y, lane };
      if (piece.end < low || piece.start > high) continue;
      const x0 = Math.max(-5, x(piece.start)), x1 = Math.min(width + 5, x(piece.end));
      if (piece.why === "launch" || piece.why === "gap") { context.moveTo(x0, y + LEVEL / 2); context.lineTo(x1, y + LEVEL / 2); }
      else if (x1 - x0 >= 6) context.rect(x0, y + 0.5, x1 - x0, LEVEL - 2);
      else context.fillRect(x0, y + LEVEL - 3, Math.max(0.5, x1 - x0), 2);
    }
    context.stroke();
    context.lineWidth = 1;
  }

  // The chosen slice, and the call or the work that belongs to it.
  function mark(context, { x }, i) {
    const others = own.mate[i] !== ABSENT ? [own.mate[i]] : D.inside.kinds[own.kind[i]] === "runtime" ? [own.mate.indexOf(i)] : [];
    context.strokeStyle = colors.ink;
    context.lineWidth = 2;
    for (const one of [i, ...others]) {
      const y = one < 0 ? null : place(one);
      if (y !== null) context.strokeRect(x(own.start[one]) - 1, y - 1, Math.max(3, x(own.end[one]) - x(own.start[one]) + 2), LEVEL + 1);
    }
    context.lineWidth = 1;
  }

  function hit(at) {
    const row = rows.find((one) => at.y >= one.y && at.y < one.y + one.height);
    if (!row) return -1;
    const [low, high] = timeRange(), slack = ((high - low) / at.width) * 2.5;
    if (row.lane !== undefined) {
      const depth = Math.floor((at.y - row.y - 15) / LEVEL);
      let best = -1;
      for (let i = 0; i < own.start.length && own.start[i] <= at.t + slack; i++) {
        if (own.lane[i] === row.lane && own.depth[i] === depth && own.end[i] >= at.t - slack && (best < 0 || own.start[i] <= at.t)) best = i;
      }
      return best < 0 ? -1 : { slice: best };
    }
    if (row.series) {
      let i = row.series.times.findIndex((time) => time > at.t);
      if (i < 0) i = row.series.times.length;
      return { text: `${row.series.name}\n${i ? amount(row.series.values[i - 1], row.series.unit) : "not known yet"} at ${us(at.t)}` };
    }
    const memory = row.memory, byte = ((row.y + 15 + BLOCK - at.y) / (BLOCK - 2)) * memory.most;
    for (let i = 0; i < memory.n; i++) {
      if (memory.start[i] <= at.t && memory.end[i] >= at.t && byte >= memory.floor[i] && byte <= memory.floor[i] + memory.size[i]) {
        return { text: `${bytes(memory.size[i])} on ${memory.name}\n${us(memory.start[i])} to ${memory.end[i] === Infinity ? "behind the end" : us(memory.end[i])}${memory.by[i] === ABSENT ? "" : `\nin ${D.names[own.name[memory.by[i]]]}`}` };
      }
    }
    return -1;
  }

  handleTime(canvas, {
    top: () => 0, height: () => tall, draw, hit, tip: (found) => found.text || sliceText(own, found.slice),
    choose: (found) => { chosen = found !== -1 && found.slice !== undefined ? found.slice : -1; told.textContent = chosen < 0 ? "" : sliceText(own, chosen).replaceAll("\n", "; "); redraw(draw); },
    keys: { Escape: () => { chosen = -1; told.textContent = ""; redraw(draw); }, "]": () => step(1), "[": () => step(-1) },
  });
  function step(by) {
    const lane = chosen < 0 ? rows.find((row) => row.lane !== undefined).lane : own.lane[chosen];
    let i = chosen < 0 && by < 0 ? own.start.length : chosen;
    do i += by; while (i >= 0 && i < own.start.length && own.lane[i] !== lane);
    if (i < 0 || i >= own.start.length) return;
    chosen = i;
    told.textContent = sliceText(own, i).replaceAll("\n", "; ");
    const [low, high] = timeRange();
    if (own.end[i] < low || own.start[i] > high) zoomTime(own.start[i] - (high - low) / 2, own.start[i] + (high - low) / 2);
    redraw(draw);
  }

  const legend = el("div", { class: "legend" });
  function again() {
    const rank = (S.ranks || [])[0];
    const next = all.find(({ head }) => head.rank === rank) || own;
    if (next !== own) { chosen = -1; told.textContent = ""; }
    own = next;
    pick.value = own.head.rank;
    note.textContent = own.head.left ? `${number(own.head.left)} of the shortest slices are left out.` : "";
    const found = new Set([...new Set(own.kind)].map((kind) => D.inside.kinds[kind]));
    legend.replaceChildren(...Object.entries(INSIDE_SHADES).filter(([kind]) => found.has(kind)).map(([kind, shade]) => el("span", {}, el("i", { class: `k-${shade}` }), kind === "sync" ? "hatched: a stream or the host waits" : kind)),
      ...(options.path ? [el("span", {}, "red frames and lines: the critical path of the rank")] : []));
    arrange();
    draw();
  }
  const toggle = (key, text) => { const made = el("button", { id: `inside-${key}`, "aria-pressed": String(options[key]), onclick: () => { options[key] = !options[key]; made.setAttribute("aria-pressed", String(options[key])); again(); } }, text); return made; };
  const saves = pictures(() => body, { name: "inside", title: "threads, streams and counters", canvas, draw, note: () => `rank ${own.head.rank}; times are ${T.head.basis}${S.range ? "; a part of the run" : ""}` });
  add(body,
    el("div", { class: "bar" }, el("label", {}, "of", pick), el("button", { onclick: () => scaleTime(0.5), "aria-label": "zoom in" }, "+"), el("button", { onclick: () => scaleTime(2), "aria-label": "zoom out" }, "−"),
      el("button", { onclick: () => zoomTime(0, fullTime(T)) }, "whole run"), options.path ? toggle("path", "critical path") : null,
      all.some(({ head }) => head.lanes.some(([, , deep]) => deep > LEVELS)) ? toggle("levels", "all levels") : null,
      el("span", { class: "grow" }), saves, insideTables().map(tableButton)),
    el("div", { class: "held" }, canvas, handles), told, legend, note,
    el("p", { class: "soft" }, "The range is that of the timeline. A chosen work is framed with the call that launched it; [ and ] go along a thread or stream."));
  again();
  follow((change) => {
    if ("pinned" in change) again();
    else if ("ranks" in change && (S.ranks || []).length) redraw(again);
    else if ("theme" in change || "range" in change) redraw(draw);
  });
  new ResizeObserver(() => redraw(draw)).observe(body);
  insideProbe = { own: () => own, rows: () => rows, canvas, hit };
}

// Tables of the inside that have rows.
const INSIDE_TABLES = ["slices", "path inside", "idle", "launches", "sequences", "counters", "allocations"];
const INSIDE_HEADS = { slices: "lanes", "path inside": "onPath", counters: "series", allocations: "blocks" };
const insideTables = () => (T && D.inside ? INSIDE_TABLES.filter((name) => D.inside.ranks.some((head) => head[INSIDE_HEADS[name] || name].length)) : []);

const ofChosen = () => { const ranks = S.ranks && S.ranks.length < D.world ? new Set(S.ranks) : null; return insides().filter(({ head }) => !ranks || ranks.has(head.rank)); };
function insideRows(heads, rowsOf) {
  const found = T && D.inside ? ofChosen().flatMap((own) => rowsOf(own).map((row) => [own.head.rank, ...row])) : [];
  return { heads: ["rank", ...heads], rows: found, ranks: found.map((row) => [row[0]]) };
}
Object.assign(TABLES, {
  // Slices by lane and name, in the visible range.
  slices: () => insideRows(["on", "kind", "name", "calls", "total us", "self us", "mean us", "most us"], (own) => {
    const [low, high] = timeRange(), self = selfTimes(own), sums = new Map();
    for (let i = 0; i < own.start.length; i++) {
      if (own.end[i] < low || own.start[i] > high) continue;
      const key = `${own.lane[i]} ${own.kind[i]} ${own.name[i]}`, one = sums.get(key) || sums.set(key, { i, n: 0, total: 0, self: 0, most: 0 }).get(key), long = own.end[i] - own.start[i];
      one.n++; one.total += long; one.self += self[i]; one.most = Math.max(one.most, long);
    }
    const near = (value) => +value.toFixed(3);
    return [...sums.values()].sort((a, b) => b.self - a.self).map((one) => [own.head.lanes[own.lane[one.i]][0], D.inside.kinds[own.kind[one.i]], D.names[own.name[one.i]], one.n, near(one.total), near(one.self), near(one.total / one.n), near(one.most)]);
  }),
  "path inside": () => insideRows(["why", "name", "pieces", "total us", "share"], (own) => own.head.onPath.map(([why, ...rest]) => [PATH_WORDS[why], ...rest])),
  idle: () => insideRows(["stream", "host us", "gaps", "launch us", "gaps", "other us", "gaps", "idle us"], (own) => own.head.idle),
  launches: () => insideRows(["work", "launches", "mean call us", "mean delay us", "median delay us", "most delay us", "mean work us", "total work us"], (own) => own.head.launches),
  sequences: () => insideRows(["operator", "times", "works", "works us", "operator us", "sequence"], (own) => own.head.sequences),
  counters: () => insideRows(["counter", "unit", "points", "least", "mean over time", "most"], (own) => own.series.map(({ name, unit, times, values, most }) => {
    let sum = 0;
    for (let i = 0; i + 1 < times.length; i++) sum += values[i] * (times[i + 1] - times[i]);
    const long = times.length > 1 ? times[times.length - 1] - times[0] : 0;
    return [name, unit, times.length, +Math.min(...values).toPrecision(6), long ? +(sum / long).toPrecision(6) : null, +most.toPrecision(6)];
  })),
  allocations: () => insideRows(["memory", "bytes", "from us", "to us", "in"], (own) => own.blocks.flatMap((memory) => [...memory.size].map((size, i) => [memory.name, size, +memory.start[i].toFixed(3), memory.end[i] === Infinity ? "behind the end" : +memory.end[i].toFixed(3), memory.by[i] === ABSENT ? "" : D.names[own.name[memory.by[i]]]])).sort((a, b) => b[1] - a[1])),
});
