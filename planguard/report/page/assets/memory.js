// Memory of devices: what was in use over time by call site, what was alive at a moment, and how the
// allocator's segments are filled. A state is what is in use after an entry of the history;
// state 0 is what was there before.

const TOP = ["collective", "forward", "send", "weight", "recv", "backward", "other", "copy"]; // of the largest sites
const REST = "wait", LARGEST = 200, NAMED = 20, SEGMENT = 16;
let devices = [];

// The indices that have each of n keys; larger keys are left out.
function grouped(keys, n) {
  const from = new Uint32Array(n + 1), order = new Uint32Array(keys.length);
  for (const key of keys) if (key < n) from[key + 1]++;
  for (let key = 0; key < n; key++) from[key + 1] += from[key];
  const next = from.slice();
  keys.forEach((key, i) => { if (key < n) order[next[key]++] = i; });
  return (key) => order.subarray(from[key], from[key + 1]);
}

function arrange() {
  D.devices.forEach((head, at) => {
    const cut = (name) => C[`${at}.${name}`];
    const made = { head, at, begin: cut("begin"), end: cut("end"), size: cut("size"), stack: cut("stack"), address: cut("address"), time: cut("time"), grown: new Map() };
    let mostReserved = 0;
    const n = head.entries + 1, used = new Float64Array(n), reserved = new Float64Array(n);
    made.starts = grouped(made.begin, n); // blocks by the state that they are first in
    made.stops = grouped(made.end, n); // and by the first that they are not in
    cut("grown.at").forEach((state, i) => made.grown.set(state, cut("grown.by")[i]));
    for (let s = 0, sum = 0, held = head.before; s < n; s++) {
      for (const i of made.starts(s)) sum += made.size[i];
      for (const i of made.stops(s)) sum -= made.size[i];
      held += made.grown.get(s) || 0;
      used[s] = sum;
      reserved[s] = held;
      mostReserved = Math.max(mostReserved, held);
    }
    devices.push(Object.assign(made, { n, used, reserved, mostReserved, mostUsed: used[head.peak] }));
  });
}

const siteOf = (one, i) => (one.stack[i] === ABSENT ? D.unknown : D.stackSites[one.stack[i]]);
const alive = (one, state) => [...one.size.keys()].filter((i) => one.begin[i] <= state && state < one.end[i]);
const placeOfSite = (site) => { const at = D.top.indexOf(site); return at < 0 ? TOP.length : at; };
const shadeOfSite = (site) => TOP[placeOfSite(site)] || REST;
const whereText = (one, state) => (state === 0 ? "before the history" : `after entry ${number(state)} of ${number(one.n - 1)}${one.time.length ? `, ${us(one.time[state])} from its begin` : ""}`);

// The moment that is chosen, or the one of the first device that was out of memory, or the peak.
function moment() {
  const [at, state] = S.moment || [];
  if (at !== undefined && devices[at] && state < devices[at].n) return [devices[at], state];
  const out = devices.find((one) => one.head.ooms.length) || devices[D.highest];
  return [out, out.head.ooms.length ? out.head.ooms[0] : out.head.peak];
}

// --- over time ----------------------------------------------------------------------------------

// The state that each column of pixels stands for: the one where most is in use, so no peak is lost.
function columnsOf(one, width) {
  const [low, high] = timeRange(), isTimed = S.axis === "time" && one.time.length > 0;
  const last = isTimed ? one.time[one.n - 1] || 1 : one.n, out = new Uint32Array(width);
  const upTo = (share) => {
    if (!isTimed) return Math.max(0, Math.min(one.n - 1, Math.ceil(share * last) - 1));
    let a = 0, b = one.n - 1; // the last state that begins no later
    while (a < b) { const middle = (a + b + 1) >> 1; if (one.time[middle] <= share * last) a = middle; else b = middle - 1; }
    return a;
  };
  for (let x = 0, before = upTo(low) - 1; x < width; x++) {
    const to = upTo(low + ((high - low) * (x + 1)) / width);
    let best = to;
    for (let s = before + 1; s < to; s++) if (one.used[s] > one.used[best]) best = s;
    out[x] = best;
    before = to;
  }
  return out;
}

// What is stacked: the largest sites, or the largest blocks; all others together at the top.
function seriesOf(one) {
  if (S.by !== "block") return { count: TOP.length + 1, of: (i) => placeOfSite(siteOf(one, i)), shade: (k) => TOP[k] || REST };
  if (!one.largest) {
    one.largest = [...one.size.keys()].sort((a, b) => one.size[b] - one.size[a]).slice(0, LARGEST).sort((a, b) => one.begin[a] - one.begin[b]);
    one.place = new Map(one.largest.map((i, k) => [i, k]));
  }
  return { count: one.largest.length + 1, of: (i) => one.place.get(i) ?? one.largest.length, shade: (k) => (k < one.largest.length ? shadeOfSite(siteOf(one, one.largest[k])) : REST) };
}

// The sums of every series at each of some states, which do not go back.
function sumsAt(one, states, series) {
  const sums = new Float64Array(series.count), out = [];
  let state = -1, before = null;
  for (const wanted of states) {
    for (; state < wanted;) {
      state++;
      for (const i of one.starts(state)) sums[series.of(i)] += one.size[i];
      for (const i of one.stops(state)) sums[series.of(i)] -= one.size[i];
      before = null;
    }
    out.push(before || (before = sums.slice()));
  }
  return out;
}

function memoryChart(one, body) {
  const canvas = el("canvas", { tabindex: 0, role: "application", "data-device": one.at, "aria-label": `memory of ${one.head.name} over time: drag to zoom, plus and minus, arrow keys, a click chooses a moment, Home shows all` });
  const tall = 200, head = 22;
  let drawn = null;
  const size = () => Math.max(260, body.clientWidth - 30);
  const y = (value) => head + (tall - head) * (1 - value / D.most);
  function draw() {
    const width = Math.floor(size()), states = columnsOf(one, width), series = seriesOf(one), sums = sumsAt(one, states, series);
    const context = sized(canvas, width, tall + 18);
    drawn = { width, states, series, sums };
    context.font = FONT;
    context.textBaseline = "middle";
    context.fillStyle = colors.faint;
    context.fillRect(0, head, width, tall - head);
    drawStack(context, width);
    drawReserved(context, width, states);
    drawScale(context, width);
    drawMarks(context, width, states);
    context.fillStyle = colors.ink;
    context.textAlign = "left";
    context.fillText(`${one.head.name}: most in use ${bytes(one.mostUsed)}, at most ${bytes(one.mostReserved)} reserved${one.head.ooms.length ? `; out of memory ${one.head.ooms.length === 1 ? "once" : `${one.head.ooms.length} times`}` : ""}`.slice(0, Math.floor(width / 6)), 2, 10);
    context.fillStyle = colors.soft;
    context.textAlign = "center";
    const [low, high] = timeRange(), isTimed = S.axis === "time" && one.time.length > 0, last = isTimed ? one.time[one.n - 1] : one.n - 1;
    for (const t of ticks(low * last, high * last, width / 110)) {
      const x = ((t / (last || 1) - low) / (high - low)) * width;
      if (x > 24 && x < width - 24 && (isTimed || Number.isInteger(t))) context.fillText(isTimed ? us(t) : `entry ${number(t)}`, x, tall + 9);
    }
    context.textAlign = "left";
  }
  // Runs of columns where a series has one floor and one height are one box.
  function drawStack(context, width) {
    const { sums, series } = drawn, floors = new Float64Array(width), isBlocks = S.by === "block";
    for (let k = 0; k < series.count; k++) {
      const shade = series.shade(k);
      context.fillStyle = shade === REST ? hatch(context, colors[REST], 4, 1.4) : colors[shade];
      for (let x = 0; x < width;) {
        const value = sums[x][k], floor = floors[x];
        let to = x;
        while (to < width && sums[to][k] === value && floors[to] === floor) floors[to++] = floor + value;
        if (value > 0) {
          const top = y(floor + value), h = y(floor) - top;
          context.fillRect(x, top, to - x + 0.4, isBlocks && h > 2 ? h - 0.6 : h);
        }
        x = to;
      }
    }
  }
  function drawReserved(context, width, states) {
    context.strokeStyle = colors.ink;
    context.lineWidth = 1;
    context.setLineDash([4, 3]);
    context.beginPath();
    for (let x = 0; x < width; x++) {
      const level = y(one.reserved[states[x]]);
      if (x) context.lineTo(x, level); else context.moveTo(x, level);
      context.lineTo(x + 1, level);
    }
    context.stroke();
    context.setLineDash([]);
  }
  // Lines at round sizes: a power of two apart, two to four of them, with their names at the left.
  function drawScale(context, width) {
    const apart = 2 ** Math.floor(Math.log2(D.most / 2.5));
    context.textAlign = "left";
    for (let value = apart; value < D.most * 0.97; value += apart) {
      const text = bytes(value), level = Math.round(y(value));
      context.fillStyle = colors.line;
      context.fillRect(0, level, width, 1);
      context.fillStyle = colors.card;
      context.fillRect(0, level - 7, 6.4 * text.length + 6, 14);
      context.fillStyle = colors.ink;
      context.fillText(text, 3, level);
    }
  }
  // Where memory was out: what was asked for, on top of what was in use. And the chosen moment.
  function drawMarks(context, width, states) {
    const placeOf = (state) => { const x = states.findIndex((s) => s >= state); return x < 0 || states[0] > state ? -1 : x; };
    let free = -Infinity; // of words up to here
    one.head.ooms.forEach((state, k) => {
      const x = placeOf(state);
      if (x < 0) return;
      const floor = y(one.used[state]), top = Math.max(head, y(one.used[state] + one.head.asked[k]));
      context.fillStyle = hatch(context, colors.bad, 4, 1.5);
      context.fillRect(Math.min(x, width - 12), top, 12, floor - top);
      context.strokeStyle = colors.bad;
      context.strokeRect(Math.min(x, width - 12) + 0.5, top, 11, floor - top);
      context.fillStyle = colors.bad;
      context.textAlign = x > width - 60 ? "right" : "left";
      if (x < free) return;
      free = x + 60;
      context.fillText("OOM", x > width - 60 ? Math.min(x, width - 12) - 4 : x + 15, Math.max(head + 8, top + 6));
    });
    const [chosen, state] = moment();
    const x = chosen === one ? placeOf(state) : -1;
    if (x >= 0) { context.fillStyle = colors.accent; context.fillRect(Math.max(0, Math.min(width - 2, x)), head - 2, 2, tall - head + 2); }
  }
  const found = (at) => Math.max(0, Math.min(drawn.width - 1, Math.floor(at.x)));
  function tip(x) {
    const state = drawn.states[x], rows = [...drawn.sums[x].entries()].filter(([, value]) => value > 0);
    const named = (k) => (S.by === "block" ? (k < one.largest.length ? siteOf(one, one.largest[k]) : null) : D.top[k]);
    const said = rows.sort(([, a], [, b]) => b - a).slice(0, 6).map(([k, value]) => `${bytes(value)}  ${named(k) === null || named(k) === undefined ? "all others" : D.sites[named(k)]}`);
    return [`${one.head.name}, ${whereText(one, state)}`, `${bytes(one.used[state])} in use, ${bytes(one.reserved[state])} reserved`, ...said].join("\n");
  }
  const step = (by) => { const [chosen, state] = moment(); put({ moment: [one.at, Math.max(0, Math.min(one.n - 1, (chosen === one ? state : one.head.peak) + by))] }); };
  handleTime(canvas, { top: () => 0, draw, height: () => tall, hit: found, tip, choose: (x) => put({ moment: [one.at, drawn.states[x]] }), keys: { "[": () => step(-1), "]": () => step(1) } });
  return { canvas, draw, tip };
}

function memoryPanel(body) {
  const pick = (name, id, label, options) => {
    const made = el("select", { id, onchange: () => put({ [name]: made.value || null }) }, options.map(([value, text]) => el("option", { value }, text)));
    made.value = S[name] || "";
    follow((change) => { if (name in change) made.value = S[name] || ""; });
    return el("label", {}, label, made);
  };
  const isTimed = devices.some((one) => one.time.length);
  add(body, el("div", { class: "bar" }, pick("by", "stacked", "stacked by", [["", "call site"], ["block", "block"]]),
    isTimed ? pick("axis", "axis", "along", [["", "entries of the history"], ["time", "time"]]) : null,
    el("button", { onclick: () => put({ range: null }) }, "all of it"), el("span", { class: "soft" }, devices.length > 1 ? "All on one scale of bytes." : "")));
  const charts = devices.filter((one) => one.head.entries).map((one) => {
    const chart = memoryChart(one, body);
    body.append(el("div", { class: "chart" }, chart.canvas, pictures(() => body, { name: `memory-${one.head.name}`, title: `memory of ${one.head.name}`, canvas: chart.canvas, draw: chart.draw, note: () => "bytes that tensors asked for" })));
    return chart;
  });
  const swatch = (kind, text) => el("span", {}, el("i", { class: `k-${kind}` }), text);
  add(body, el("div", { class: "legend" }, D.top.map((site, at) => swatch(TOP[at], D.sites[site])), D.sites.length > D.top.length ? swatch(REST, "all other call sites") : null,
    devices.some((one) => one.head.ooms.length) ? swatch("stuck", "asked for when memory was out") : null, el("span", {}, "dashed: reserved")));
  const draw = () => { for (const chart of charts) chart.draw(); };
  requestAnimationFrame(draw);
  follow((change) => { if (["range", "by", "axis", "moment", "theme"].some((name) => name in change)) redraw(draw); });
  addEventListener("resize", () => redraw(draw));
}

// --- at a moment --------------------------------------------------------------------------------

function alivePanel(body) {
  const choose = el("select", { id: "moment", "aria-label": "moment", onchange: () => put({ moment: choose.value.split(",").map(Number), site: null, stack: null }) });
  const note = el("p", { "aria-live": "polite" }), sites = el("div", { class: "chart" }), blocks = el("div", { class: "chart" }), stack = el("pre", { tabindex: 0, hidden: true });
  function draw() {
    const [one, state] = moment();
    const named = devices.flatMap((each) => [...each.head.ooms.slice(0, NAMED).map((s, k) => [each, s, `out of memory${each.head.ooms.length > 1 ? ` ${k + 1}` : ""}`]), [each, each.head.peak, "peak"], [each, each.n - 1, "end"]]);
    if (!named.some(([each, s]) => each === one && s === state)) named.push([one, state, "chosen"]);
    choose.replaceChildren(...named.map(([each, s, word]) => el("option", { value: `${each.at},${s}` }, `${each.head.name}: ${word}`)));
    choose.selectedIndex = named.findIndex(([each, s]) => each === one && s === state);
    const found = alive(one, state), sums = new Map();
    for (const i of found) { const row = sums.get(siteOf(one, i)) || sums.set(siteOf(one, i), [0, 0, 0]).get(siteOf(one, i)); row[0] += one.size[i]; row[1]++; row[2] = Math.max(row[2], one.size[i]); }
    note.textContent = `${one.head.name}, ${whereText(one, state)}: ${bytes(one.used[state])} in use (${number(one.used[state])} B) by ${plural(found.length, "block")}, ${bytes(one.reserved[state])} reserved.`;
    const row = (attributes, act, values) => el("tr", { tabindex: 0, onclick: act, onkeydown: (event) => { if (event.key === "Enter") act(); }, ...attributes }, values.map((value) => el("td", { class: typeof value === "string" && /^[\d.,]+( [KMGTP]iB| B|%)?$/.test(value) ? "num" : null }, value)));
    const rows = [...sums].sort(([, a], [, b]) => b[0] - a[0]).slice(0, 60);
    sites.replaceChildren(el("h3", {}, "Call sites"), table(["call site", "in use", "share", "blocks", "largest"], rows.map(([site, [sum, count, most]]) =>
      row({ class: S.site === site ? "on" : null }, () => put({ site: S.site === site ? null : site, stack: null }), [D.sites[site], bytes(sum), `${((100 * sum) / (one.used[state] || 1)).toFixed(1)}%`, number(count), bytes(most)]))),
    sums.size > rows.length ? el("p", { class: "soft" }, `and ${plural(sums.size - rows.length, "more site")}`) : "");
    const some = found.filter((i) => S.site === undefined || siteOf(one, i) === S.site).sort((a, b) => one.size[b] - one.size[a]);
    const heads = ["block", "bytes", "call site", "given", "taken back"];
    blocks.replaceChildren(el("h3", {}, S.site === undefined ? "Largest blocks" : `Blocks of ${D.sites[S.site]}`), table(heads, some.slice(0, 40).map((i) =>
      row({ class: S.stack === one.stack[i] ? "on" : null }, () => put({ stack: one.stack[i] === ABSENT ? null : one.stack[i] }), [`0x${one.address[i].toString(16)}`, bytes(one.size[i]), D.sites[siteOf(one, i)], one.begin[i] ? `entry ${number(one.begin[i])}` : "before", one.end[i] < one.n ? `entry ${number(one.end[i])}` : "alive at the end"]))),
    some.length > 40 ? el("p", { class: "soft" }, `and ${plural(some.length - 40, "smaller block")}`) : "");
    const frames = S.stack === undefined ? undefined : D.stacks[S.stack];
    stack.hidden = frames === undefined;
    stack.textContent = frames === undefined ? "" : frames.length ? frames.map((f) => D.names[f]).join("\n") : D.stacks.length ? "no stack was recorded" : "stacks are left out: the page would pass 5 MB";
  }
  add(body, el("div", { class: "bar" }, el("label", {}, "moment", choose)), note, el("div", { class: "flex" }, sites, blocks), stack, el("p", { class: "soft" }, "A click on a call site lists its blocks, one on a block shows its stack, innermost frame first."));
  draw();
  follow((change) => { if (["moment", "site", "stack"].some((name) => name in change)) draw(); });
}

// --- stacks at a moment -------------------------------------------------------------------------

// What is in use after an entry by stack, the outermost frame first: a tree of names with their bytes.
function stacksAt(one, state) {
  const root = { name: "all", size: 0, inner: new Map() };
  for (const i of alive(one, state)) {
    const known = one.stack[i] === ABSENT ? [] : D.stacks[one.stack[i]];
    const names = known.length ? known.map((f) => D.names[f]).reverse() : [D.sites[siteOf(one, i)]];
    let node = root;
    node.size += one.size[i];
    for (const name of names) {
      if (!node.inner.has(name)) node.inner.set(name, { name, size: 0, inner: new Map() });
      node = node.inner.get(name);
      node.size += one.size[i];
    }
    node.site = siteOf(one, i);
  }
  return root;
}

function stacksPanel(body) {
  const canvas = el("canvas", { role: "img", tabindex: 0, "aria-label": "bytes in use by stack, the outermost frame above; a click on a frame makes it as wide as the chart, Escape shows all" });
  const note = el("p", { class: "soft" });
  let chosen = [], boxes = []; // the names down to the frame that is as wide as the chart
  function draw() {
    const [one, state] = moment(), width = Math.max(260, body.clientWidth - 30);
    let node = stacksAt(one, state);
    const above = [node];
    for (const name of chosen) { if (!node.inner.has(name)) break; node = node.inner.get(name); above.push(node); }
    chosen = above.slice(1).map((each) => each.name);
    boxes = above.map((each, at) => ({ x: 0, w: width, at, node: each, path: chosen.slice(0, at) }));
    const place = (each, x, w, at, path) => {
      for (const inner of [...each.inner.values()].sort((a, b) => b.size - a.size || a.name.localeCompare(b.name))) {
        const wide = (w * inner.size) / each.size, own = [...path, inner.name];
        if (wide < 0.7) continue; // nothing of it would be seen
        boxes.push({ x, w: wide, at, node: inner, path: own });
        place(inner, x, wide, at + 1, own);
        x += wide;
      }
    };
    if (node.size) place(node, 0, width, above.length, chosen);
    const context = sized(canvas, width, (1 + boxes.reduce((most, box) => Math.max(most, box.at), 0)) * SEGMENT + 4);
    context.font = FONT;
    context.textBaseline = "middle";
    for (const { x, w, at, node: each } of boxes) {
      const shade = each.site === undefined ? "none" : shadeOfSite(each.site);
      context.fillStyle = shade === REST ? hatch(context, colors[REST], 4, 1.4) : colors[shade];
      context.fillRect(x, at * SEGMENT, Math.max(0.5, w > 3 ? w - 0.8 : w), SEGMENT - 1);
      const text = `${each.name}  ${bytes(each.size)}`;
      if (w > 40) {
        context.fillStyle = shade === REST ? colors.ink : inks[shade];
        context.fillText(text.slice(0, Math.floor((w - 6) / 6.4)), x + 4, at * SEGMENT + SEGMENT / 2);
      }
    }
    note.textContent = D.stacks.length ? `${one.head.name}, ${whereText(one, state)}; the color is that of the call site.` : "Stacks are left out: the page would pass 5 MB.";
  }
  const find = (event) => { const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, at = Math.floor((event.clientY - box.top) / SEGMENT); return boxes.find((each) => each.at === at && x >= each.x && x < each.x + each.w); };
  canvas.addEventListener("pointermove", (event) => { const hit = find(event); tell(event, hit ? `${hit.node.name}\n${bytes(hit.node.size)} in use` : ""); });
  canvas.addEventListener("pointerleave", (event) => tell(event, ""));
  canvas.addEventListener("click", (event) => { const hit = find(event); if (hit) { chosen = hit.path; draw(); } });
  canvas.addEventListener("keydown", (event) => { if (event.key === "Escape") { chosen = []; draw(); } });
  add(body, el("div", { class: "chart" }, canvas, pictures(() => body, { name: "stacks", title: "bytes in use by stack", canvas, draw, note: () => { const [one, state] = moment(); return `${one.head.name}, ${whereText(one, state)}`; } })), note);
  requestAnimationFrame(draw);
  follow((change) => { if ("moment" in change || "theme" in change) redraw(draw); });
  addEventListener("resize", () => redraw(draw));
}

// --- segments, at the end or at a moment --------------------------------------------------------

// Segments after an entry: those of the end, with every later change of them taken back.
function segmentsAt(one, state) {
  const own = one.head.segments.map(([size, stream, kind, , address]) => ({ address, size, stream, kind }));
  const [at, by, place, part] = ["at", "by", "address", "part"].map((name) => C[`${one.at}.grown.${name}`]);
  for (let k = at.length - 1; k >= 0 && at[k] > state; k--) {
    const start = place[k], size = Math.abs(by[k]), end = start + size;
    if (by[k] > 0) { // what it gave is taken away
      const found = own.findIndex((s) => s.address <= start && end <= s.address + s.size);
      if (found < 0) continue; // not drawn, or not known
      const [whole] = own.splice(found, 1);
      if (whole.address < start) own.push({ ...whole, size: start - whole.address });
      if (end < whole.address + whole.size) own.push({ ...whole, address: end, size: whole.address + whole.size - end });
    } else {
      const before = part[k] ? own.find((s) => s.address + s.size === start) : undefined, behind = part[k] ? own.find((s) => s.address === end) : undefined;
      if (before) {
        before.size += size + (behind ? behind.size : 0);
        if (behind) own.splice(own.indexOf(behind), 1);
      } else if (behind) { behind.address = start; behind.size += size; } else own.push({ address: start, size, stream: null, kind: "" });
    }
  }
  own.sort((a, b) => b.size - a.size || a.address - b.address);
  for (const segment of own) segment.blocks = [];
  const sorted = [...own].sort((a, b) => a.address - b.address);
  for (const i of alive(one, state).sort((a, b) => one.address[a] - one.address[b])) {
    let low = 0, high = sorted.length; // the last segment that begins no later
    while (low < high) { const middle = (low + high) >> 1; if (sorted[middle].address <= one.address[i]) low = middle + 1; else high = middle; }
    const segment = sorted[low - 1];
    if (segment && one.address[i] < segment.address + segment.size) segment.blocks.push(i);
  }
  return own;
}

// The same in the form of the end: parts with their length, state and stack.
function partsAt(one, state) {
  return segmentsAt(one, state).map((segment) => {
    const parts = [];
    let at = segment.address;
    for (const i of segment.blocks) {
      if (one.address[i] > at) parts.push([one.address[i] - at, 0, 0]);
      parts.push([one.size[i], 1, one.stack[i]]);
      at = one.address[i] + one.size[i];
    }
    if (at < segment.address + segment.size) parts.push([segment.address + segment.size - at, 0, 0]);
    return [segment.size, segment.stream, segment.kind, parts];
  });
}

function allocatorPanel(body) {
  const when = el("select", { id: "when", onchange: () => put({ when: when.value || null }) }, [["", "at the end"], ["moment", "at the chosen moment"]].map(([value, text]) => el("option", { value }, text)));
  const said = el("span", { class: "soft" });
  if (devices.some((one) => one.head.entries)) add(body, el("div", { class: "bar" }, el("label", {}, "segments", when), said));
  const canvases = devices.map((one) => {
    const canvas = el("canvas", { role: "img", "aria-label": `segments of ${one.head.name}: what is in them at the end` });
    const shown = () => (S.when === "moment" && one.head.entries && moment()[0] === one ? partsAt(one, moment()[1]) : one.head.segments);
    const draw = () => drawSegments(canvas, shown(), Math.max(260, body.clientWidth - 30));
    const find = (event) => { const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top; return (canvas.boxes || []).find((one) => y >= one.y && y < one.y + SEGMENT && x >= one.x && x < one.x + one.w); };
    canvas.addEventListener("pointermove", (event) => { const hit = find(event); tell(event, hit ? hit.text : ""); });
    canvas.addEventListener("pointerleave", (event) => tell(event, ""));
    const rows = one.head.pools.map(([pool, stream, kind, use]) => el("tr", {}, [pool || "the allocator's own", number(stream), kind, number(use.segments), ...["reserved", "requested", "rounding", "pending", "idle", "holes", "largest"].map((name) => bytes(use[name]))].map((value, at) => el("td", { class: at && at !== 2 ? "num" : null }, value))));
    add(body, el("h3", {}, `${one.head.name}: ${plural(one.head.segments.length, "segment")}${one.head.more ? `, and ${number(one.head.more)} smaller ones in the table only` : ""}`), el("div", { class: "chart" }, canvas, pictures(() => body, { name: `segments-${one.head.name}`, title: `segments of ${one.head.name}`, canvas, draw, note: () => (shown() === one.head.segments ? "at the end of the snapshot" : whereText(...moment())) })),
      table(["pool", "stream", "kind", "segments", "reserved", "in use", "rounded up", "freed, still in use by a stream", "idle segments", "holes", "largest free"], rows));
    return draw;
  });
  const swatch = (kind, text) => el("span", {}, el("i", { class: `k-${kind}` }), text);
  add(body, el("div", { class: "legend" }, D.top.map((site, at) => swatch(TOP[at], D.sites[site])), swatch(REST, "other call sites, or freed and still in use"), el("span", {}, "empty: free")));
  const draw = () => {
    when.value = S.when || "";
    said.textContent = S.when === "moment" ? `${moment()[0].head.name}, ${whereText(...moment())}: blocks as they were asked for. Other devices, and the tables, are at the end.` : "";
    for (const each of canvases) each();
  };
  requestAnimationFrame(draw);
  follow((change) => { if (["theme", "when", "moment"].some((name) => name in change)) redraw(draw); });
  addEventListener("resize", () => redraw(draw));
}

// Segments by size, each as long as it has bytes; a line that is full is followed by the next.
function drawSegments(canvas, segments, width) {
  const most = Math.max(1, ...segments.map((segment) => segment[0])), left = 78, scale = (width - left - 2) / most;
  const context = sized(canvas, width, segments.length * (SEGMENT + 3) + 4), boxes = [];
  context.font = FONT;
  context.textBaseline = "middle";
  segments.forEach(([size, stream, kind, blocks], line) => {
    const y = 2 + line * (SEGMENT + 3);
    let x = left;
    context.textAlign = "right";
    context.fillStyle = colors.soft;
    context.fillText(bytes(size), left - 6, y + SEGMENT / 2);
    for (const [length, state, stack] of blocks) {
      const w = length * scale, site = stack === ABSENT ? D.unknown : D.stackSites[stack];
      if (state) {
        context.fillStyle = state === 2 || shadeOfSite(site) === REST ? hatch(context, colors[REST], 4, 1.4) : colors[shadeOfSite(site)];
        context.fillRect(x, y, Math.max(0.5, w > 3 ? w - 0.7 : w), SEGMENT);
      }
      boxes.push({ x, y, w, text: `${bytes(length)} ${state === 0 ? "free" : state === 1 ? `in use: ${D.sites[site]}` : "freed, still in use by a stream"}\nof a segment of ${bytes(size)}${kind ? ` (${kind})` : ""}${stream === null ? "" : `, stream ${stream}`}` });
      x += w;
    }
    context.strokeStyle = colors.line;
    context.strokeRect(left + 0.5, y + 0.5, size * scale, SEGMENT - 1);
  });
  context.textAlign = "left";
  canvas.boxes = boxes;
}

function numbersPanel(body) {
  const heads = ["", "most in use", "in use at the end", "reserved at the end", "free in it", "of it in holes", "largest free", "rounded up", "out of memory"];
  const rows = devices.map((one) => { const use = one.head.use; return cells([one.head.name, bytes(one.mostUsed), bytes(one.used[one.n - 1]), bytes(use.reserved), bytes(use.idle + use.holes), bytes(use.holes), bytes(use.largest), bytes(use.rounding), one.head.ooms.length ? `${one.head.ooms.length}` : "no"], [1, 2, 3, 4, 5, 6, 7, 8]); });
  add(body, table(heads, rows), el("p", { class: "soft" }, "In use: bytes that tensors asked for. Free: reserved, and in no block; idle segments go back with empty_cache(), holes do not."));
  for (const one of devices) for (const note of one.head.notes) add(body, el("p", { class: "soft" }, `${one.head.name}: ${note}`));
}

async function start() {
  await load(document.getElementById("data").textContent);
  document.getElementById("main").replaceChildren();
  D.world = 0;
  T = { last: 1 / 1.01, head: { complete: true, tick: 0 } }; // the axis goes from 0 to 1: each device has its own history
  arrange();
  document.title = D.title;
  Object.assign(S, recall());
  const asked = S.open;
  document.getElementById("head").append(el("h1", {}, D.title), el("span", { class: "grow" }, `${plural(devices.length, "device")} · PlanGuard ${D.version}`), ...dressing());
  document.getElementById("main").append(el("section", { id: "cause", class: "culprit cause", "data-certain": D.isOut ? "yes" : "no", "aria-labelledby": "cause-title" },
    el("h2", { id: "cause-title" }, D.isOut ? el("span", { class: "who" }, "out of memory") : null, D.sentence),
    el("dl", {}, D.facts.map(([term, text]) => [el("dt", {}, term), el("dd", {}, text)]).flat())));
  const isTold = devices.some((one) => one.head.entries);
  if (isTold) panel("memory", "Memory over time", "bytes in use, by call site", memoryPanel);
  panel("alive", "What is alive", "at the peak, when memory was out, at the end, or where you click", alivePanel);
  panel("stacks", "Stacks", "bytes in use then, by stack", stacksPanel);
  panel("numbers", "Numbers", plural(devices.length, "device"), numbersPanel);
  panel("allocator", "The allocator", "segments and what is in them", allocatorPanel);
  for (const id of asked || ["memory", "alive", "stacks", "numbers", "allocator"]) if (panels[id]) { panels[id].made.open = true; panels[id].fill(); }
  addEventListener("hashchange", () => {
    const found = recall(), change = {};
    for (const name of Object.keys(FIELDS)) if (name !== "open") change[name] = found[name] === undefined ? null : found[name];
    put(change);
  });
  requestAnimationFrame(() => setTimeout(() => { document.documentElement.dataset.drawn = Math.round(performance.now()); }));
}

start().catch((error) => {
  document.getElementById("main").textContent = `This page could not be drawn: ${error.message}. It needs a browser with DecompressionStream (since 2023); planguard report --format text says the same in text.`;
});

globalThis.planguard = {
  get data() { return D; }, get state() { return S; }, get inks() { return inks; }, put, show,
  segments: (at, state) => segmentsAt(devices[at], state).map((s) => [s.address, s.size, s.blocks.map((i) => devices[at].address[i])]),
  stacks: (at, state) => { const flat = (node) => [node.name, node.size, [...node.inner.values()].map(flat)]; return flat(stacksAt(devices[at], state)); },
  used: (at) => [...devices[at].used], reserved: (at) => [...devices[at].reserved],
  alive: (at, state) => alive(devices[at], state).map((i) => [devices[at].size[i], D.sites[siteOf(devices[at], i)]]),
};
