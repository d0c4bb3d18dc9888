// The timeline's panel: tree of stages with the pixel map, plot, brush, zoom, keys.

let plot = null; // what tests and other panels may ask of the timeline

function timelinePanel(body) {
  const folded = new Set(S.fold || (T.head.ranks.length > 64 ? T.head.tree.map((stage, at) => (stage.rows.length > 1 ? at : -1)).filter((at) => at >= 0) : []));
  const canvas = el("canvas", { tabindex: 0, role: "application", "aria-label": "timeline: drag to zoom, plus and minus, arrow keys, brackets step through operations, Home shows all" });
  const tree = el("div", { class: "tree" }), holder = el("div", { class: "plot" }, canvas), space = el("div", {});
  const frame = el("div", { class: "time" }, tree, el("div", {}, holder, space));
  const strip = el("canvas", { class: "strip", tabindex: -1, "aria-hidden": "true" });
  const options = { messages: true, lines: true };
  const stopped = new Set(D.verdict.cause && D.verdict.cause.missing ? D.verdict.cause.who : []);
  const end = fullTime(T);
  const most = [7, 6].map((field) => Math.max(0, ...T.head.operations.map((o) => (D.names[o[1]] === "compute" ? o[field] || 0 : 0))));
  let items = [], folds = new Map(), pinnedTo = 0; // pinned rows end there

  function arrange() {
    items = [];
    const nameOf = (row) => `rank ${T.head.ranks[row].rank}${T.head.ranks[row].for > 1 ? ` (${number(T.head.ranks[row].for)} alike)` : ""}`;
    const pins = [...new Set(S.pins || [])].filter((rank) => T.rowOf.has(rank)).map((rank) => T.rowOf.get(rank));
    for (const row of pins) items.push({ row, stage: T.head.tree.findIndex((stage) => stage.rows.includes(row)), isPinned: true, name: nameOf(row) });
    T.head.tree.forEach((stage, at) => {
      const rows = stage.rows.filter((row) => !pins.includes(row)); // a pinned row stands once, above
      if (!rows.length) return;
      if (stage.rows.length === 1) items.push({ row: stage.rows[0], stage: at, isSplit: true, name: stage.stages.length ? `${stage.name} · rank ${T.head.ranks[stage.rows[0]].rank}` : stage.name });
      else if (folded.has(at)) items.push({ stage: at, isFolded: true, name: stage.name, folds: () => { if (!folds.has(at)) folds.set(at, foldOf(T, stage.rows)); return folds.get(at); } });
      else {
        items.push({ stage: at, name: stage.name });
        for (const row of rows) items.push({ row, stage: at, name: nameOf(row) });
      }
    });
    const count = items.filter((item) => item.row !== undefined || item.isFolded).length;
    const tall = Math.max(17, Math.min(count <= 4 ? 72 : 54, (690 - 19 * (items.length - count)) / Math.max(1, count)));
    const marey = S.view !== "gantt";
    let y = 22;
    pinnedTo = 0;
    items.forEach((item, place) => {
      const isHead = item.row === undefined && !item.isFolded;
      item.place = place;
      item.y = y;
      item.height = isHead ? 19 : tall;
      item.middle = y + item.height * (isHead || !marey || item.isSplit ? 0.5 : 0.55);
      item.half = isHead ? 0 : tall * (item.isFolded || item.isSplit ? 0.34 : marey ? (T.overlaps ? 0.22 : 0.15) : 0.38);
      item.alike = item.row === undefined ? -1 : T.head.ranks[item.row].alike;
      y += item.height;
      if (item.isPinned) pinnedTo = y;
    });
    return y + 4;
  }

  const total = { height: 0 };
  function layout() {
    total.height = arrange();
    space.style.height = `${total.height}px`;
    drawTree();
    draw();
  }

  function drawTree() {
    const largest = { flops: Math.max(0, ...T.head.ranks.map((r) => r.flops || 0)), memory: Math.max(0, ...T.head.ranks.map((r) => r.memory || 0)), rate: Math.max(0, ...T.head.ranks.map((r) => r.rate || 0)) };
    const told = T.head.basis === "modeled" ? "modeled" : "as recorded";
    const heads = el("div", { class: "heads" }, largest.flops ? el("span", { title: `relative FLOPs of the device (${told})` }, "FLOPs") : null, largest.rate ? el("span", { title: "relative FLOPS of the device: FLOPs in measured time" }, "/s") : null, largest.memory ? el("span", { title: `largest working set (${told})` }, "mem") : null);
    const pixel = (value, most, text) => {
      const made = el("span", { class: `px${value ? "" : " na"}`, title: text });
      if (value) made.style.background = ramp(most ? value / most : 0);
      return made;
    };
    tree.replaceChildren(heads, ...items.map((item) => {
      const ranks = item.row === undefined ? T.head.tree[item.stage].rows.map((row) => T.head.ranks[row]) : [T.head.ranks[item.row]];
      const stuck = ranks.filter((rank) => rank.stuck);
      const mean = (field) => { const own = ranks.map((r) => r[field]).filter(Boolean); return own.length ? own.reduce((a, b) => a + b, 0) / own.length : null; };
      const isStage = item.row === undefined;
      const name = el("button", { class: "name", title: item.name, "aria-expanded": isStage ? String(!item.isFolded) : null,
        onclick: () => { if (isStage) { fold(item.stage); } else put({ ranks: [ranks[0].rank], stage: null }); },
        ondblclick: () => { if (isStage) put({ ranks: ranks.map((r) => r.rank) }); } },
      isStage ? `${item.isFolded ? "▸" : "▾"} ${item.name}  (${ranks.length})` : item.name);
      const pin = isStage ? null : pinButton("pins", ranks[0].rank, `rank ${ranks[0].rank}`, tree, pinPlace);
      const made = el("div", { class: `row ${isStage || item.isSplit ? "stage" : "rank"}${item.isPinned ? " pinned" : ""}`, "data-ranks": ranks.length > 64 ? "" : ranks.map((r) => r.rank).join(" ") },
        stuck.length ? el("span", { class: "cross", title: stuckText(stuck) }, "✕") : null, name,
        ranks.some((rank) => stopped.has(rank.rank)) ? el("span", { class: "stopped" }, "stopped here") : null,
        largest.flops ? pixel(mean("flops"), largest.flops, mean("flops") ? `${flops(mean("flops"))} (${told})` : "no FLOPs are known") : null,
        largest.rate ? pixel(mean("rate"), largest.rate, mean("rate") ? `${flops(mean("rate"))}/s (measured)` : "no FLOPS are known") : null,
        largest.memory ? pixel(mean("memory"), largest.memory, mean("memory") ? `${bytes(mean("memory"))} (${told})` : "no working set is known") : null, pin);
      made.style.height = `${item.height}px`;
      if (item.isPinned) made.style.top = `${item.y}px`;
      return made;
    }));
    markRows();
  }

  const stuckText = (ranks) => {
    const finding = D.verdict.findings.find((f) => f.ranks.some((rank) => ranks.some((r) => r.rank === rank)));
    return `${plural(ranks.length, "rank")} never end${ranks.length === 1 ? "s" : ""}${finding ? `: ${finding.message}` : ""}`;
  };

  function fold(stage) {
    if (folded.has(stage)) folded.delete(stage); else folded.add(stage);
    put({ fold: folded.size ? [...folded] : null });
    layout();
  }

  // The place among the pinned rows that a height on the screen has.
  function pinPlace(clientY) {
    const y = clientY - frame.getBoundingClientRect().top;
    return items.filter((item) => item.isPinned && y > item.y + item.height).length;
  }

  function markRows() {
    const on = new Set(S.ranks || []);
    for (const item of items) {
      const ranks = item.row === undefined ? (item.isFolded ? T.head.tree[item.stage].rows.map((row) => T.head.ranks[row].rank) : []) : [T.head.ranks[item.row].rank];
      item.isOn = on.size > 0 && on.size < T.head.ranks.length && ranks.some((rank) => on.has(rank));
    }
    [...tree.querySelectorAll(".row")].forEach((row, at) => row.classList.toggle("on", Boolean(items[at].isOn)));
  }

  function draw() {
    const width = Math.max(200, frame.clientWidth - tree.offsetWidth - 4);
    const height = Math.min(total.height, 740);
    const [low, high] = timeRange();
    const context = sized(canvas, width, height);
    context.save();
    context.translate(0, -frame.scrollTop);
    const view = { low, high, width, height: total.height, isMarey: S.view !== "gantt", most, path: S.path === "on", counts: new Map(), ...options };
    const top = frame.scrollTop, bottom = top + height;
    const seen = total.height > 740 ? items.filter((item) => item.y + item.height > top - 60 && item.y < bottom + 60) : items;
    drawTimeline(context, T, seen, view);
    drawStepMarks(context, T, view);
    outline(context, view, 0);
    context.restore();
    if (pinnedTo && top > 0) { // what is pinned stays above what is scrolled
      const told = { ...drawn };
      context.fillStyle = colors.card;
      context.fillRect(0, 0, width, pinnedTo);
      drawTimeline(context, T, items.filter((item) => item.isPinned), { ...view, height: pinnedTo });
      outline(context, view, 1);
      Object.assign(drawn, told);
    }
    drawStripBelow(width);
    const note = [];
    if (drawn.merged) note.push(`${number(drawn.merged)} narrow bands are merged into their neighbors; zoom in to part them`);
    if (drawn.strips) note.push("dense rows show what fills each pixel longest");
    density.textContent = note.join("; ");
  }

  function outline(context, view, pinned) {
    if (!S.op) return;
    const i = findSpan(T, S.op[0], S.op[1]);
    const item = i < 0 ? null : items.find((one) => one.row === T.row[i]);
    if (!item || (pinned && !item.isPinned)) return;
    const scale = view.width / (view.high - view.low);
    const x0 = (T.start[i] - view.low) * scale;
    const x1 = T.end[i] === Infinity ? view.width - 1 : (T.end[i] - view.low) * scale;
    context.strokeStyle = colors.ink;
    context.lineWidth = 2;
    context.strokeRect(x0 - 1.5, item.middle - item.half - 2.5, Math.max(4, x1 - x0 + 3), item.half * 2 + 5);
    context.lineWidth = 1;
  }

  function drawStripBelow(width) {
    const context = sized(strip, width, 24), scale = width / end;
    const rows = T.head.ranks.map((_, row) => row).filter((row, at, all) => at % Math.ceil(all.length / 8) === 0);
    if (!strip.base || strip.base.width !== Math.round(width) || strip.base.theme !== colors.paper + colors.forward) {
      const image = el("canvas", { width: Math.round(width), height: 24 });
      image.theme = colors.paper + colors.forward;
      const ink = image.getContext("2d");
      rows.forEach((row, line) => drawStrip(ink, T, { row, middle: 2 + (line + 0.5) * (20 / rows.length), half: 8 / rows.length }, { low: 0, high: end, width, isSmall: true }));
      strip.base = image;
    }
    context.drawImage(strip.base, 0, 0, Math.round(width), 24);
    const [low, high] = timeRange();
    context.fillStyle = colors.paper;
    context.globalAlpha = 0.62;
    context.fillRect(0, 0, low * scale, 24);
    context.fillRect(high * scale, 0, width, 24);
    context.globalAlpha = 1;
    context.strokeStyle = colors.accent;
    context.strokeRect(low * scale + 0.5, 0.5, Math.max(3, (high - low) * scale) - 1, 23);
  }

  // --- pointer and keys ---

  function hit(at) {
    const y = at.y - frame.scrollTop < pinnedTo ? at.y - frame.scrollTop : at.y;
    const item = items.find((one) => one.row !== undefined && y >= one.y && y < one.y + one.height);
    if (!item) return -1;
    const [low, high] = timeRange();
    const slack = ((high - low) / at.width) * 2.5;
    const lower = y > item.middle + item.half * 0.24;
    let best = -1, score = Infinity;
    for (let i = T.from[item.row]; i < T.to[item.row]; i++) {
      if (T.kind[i] === 4 || at.t < T.start[i] - slack || at.t > T.end[i] + slack) continue;
      const length = T.end[i] === Infinity ? 0 : T.end[i] - T.start[i];
      const isLower = T.kind[i] !== 0;
      const value = length + (isLower === lower ? 0 : end);
      if (value < score) { score = value; best = i; }
    }
    return best;
  }
  const select = (i) => {
    const o = operation(T, i);
    put({ ranks: [o.rank], op: [o.rank, o.action, o.member || 0], group: o.group || null, stage: o.stage });
  };
  handleTime(canvas, {
    top: () => frame.scrollTop, height: () => total.height, draw, hit, tip: (i) => spanText(T, i),
    choose: (i) => { if (i >= 0) select(i); else put({ op: null }); },
    keys: {
      ArrowUp: () => stepRow(-1), ArrowDown: () => stepRow(1), Escape: () => put({ op: null, ranks: null, group: null, stage: null }),
      "[": () => stepOp(-1), "]": () => stepOp(1),
    },
  });
  function stepOp(by) {
    const now = S.op ? findSpan(T, S.op[0], S.op[1], S.op[2]) : -1;
    let i = now < 0 ? T.from[T.rowOf.get((S.ranks || [])[0]) || 0] - (by > 0 ? 1 : 0) : now;
    do i += by; while (i >= 0 && i < T.total && T.kind[i] === 4);
    if (i < 0 || i >= T.total || (now >= 0 && T.row[i] !== T.row[now])) return;
    select(i);
    const [low, high] = timeRange();
    if (T.start[i] < low || T.start[i] > high) zoomTime(T.start[i] - (high - low) / 2, T.start[i] + (high - low) / 2);
  }
  function stepRow(by) {
    const rows = T.head.ranks.map((rank) => rank.rank);
    const at = rows.indexOf((S.ranks || [])[0]);
    put({ ranks: [rows[Math.max(0, Math.min(rows.length - 1, at + by))]], op: null });
  }
  let stripping = false;
  const stripTo = (event) => {
    const box = strip.getBoundingClientRect(), [low, high] = timeRange();
    const middle = ((event.clientX - box.left) / box.width) * end;
    zoomTime(middle - (high - low) / 2, middle + (high - low) / 2);
  };
  strip.addEventListener("pointerdown", (event) => { stripping = true; strip.setPointerCapture(event.pointerId); stripTo(event); });
  strip.addEventListener("pointermove", (event) => { if (stripping) stripTo(event); });
  strip.addEventListener("pointerup", () => { stripping = false; });
  frame.addEventListener("scroll", () => redraw(draw));

  // The range of the first hundred rounds of collectives (CS-16).
  function firstHundred() {
    const rounds = new Map();
    for (let i = 0; i < T.total; i++) {
      if (T.kind[i] !== 1 || T.match[i] === ABSENT) continue;
      const known = rounds.get(T.match[i]) || [Infinity, 0];
      rounds.set(T.match[i], [Math.min(known[0], T.start[i]), Math.max(known[1], T.end[i] === Infinity ? T.start[i] : T.end[i])]);
    }
    const first = [...rounds.values()].sort((a, b) => a[0] - b[0]).slice(0, 100);
    if (first.length) zoomTime(first[0][0], Math.max(...first.map(([, stop]) => stop)));
  }

  const hasCollectives = T.kind.includes(1);
  const onPath = el("span", {}, el("i", { class: "k-path" }), "the critical path: what the end waits for");
  const view = el("button", { id: "view", onclick: () => put({ view: S.view === "gantt" ? null : "gantt" }) }, "");
  const name = () => {
    view.textContent = S.view === "gantt" ? "Marey's graph" : "Gantt chart";
    path.setAttribute("aria-pressed", String(S.path === "on"));
    onPath.hidden = S.path !== "on";
  };
  const toggle = (key, text) => {
    const made = el("button", { "aria-pressed": "true", id: `toggle-${key}`, onclick: () => { options[key] = !options[key]; made.setAttribute("aria-pressed", String(options[key])); redraw(draw); } }, text);
    return made;
  };
  const path = el("button", { id: "toggle-path", onclick: () => put({ path: S.path ? null : "on" }) }, "critical path");
  const density = el("span", { class: "soft", id: "density" });
  const names = (sheet) => { // the names of the rows that are seen
    sheet.font = FONT;
    sheet.textBaseline = "middle";
    sheet.textAlign = "left";
    for (const item of items) {
      const y = item.y + item.height / 2 - (item.isPinned ? 0 : frame.scrollTop);
      if ((!item.isPinned && y < Math.max(20, pinnedTo)) || y > Math.min(total.height, 740)) continue;
      sheet.fillStyle = item.row === undefined ? colors.soft : colors.ink;
      sheet.fillText(item.name.length > 22 ? `${item.name.slice(0, 21)}…` : item.name, item.row === undefined ? 0 : 10, y);
    }
  };
  const saves = pictures(() => body, { name: "timeline", title: "timeline", canvas, draw, margin: 150, beside: names, note: () => `times are ${T.head.basis}${S.range ? "; a part of the run" : ""}` });
  add(body, 
    el("div", { class: "bar" },
      view, el("button", { onclick: () => scaleTime(0.5), "aria-label": "zoom in" }, "+"), el("button", { onclick: () => scaleTime(2), "aria-label": "zoom out" }, "−"),
      el("button", { id: "whole", onclick: () => zoomTime(0, end) }, "whole run"),
      hasCollectives ? el("button", { id: "hundred", onclick: firstHundred }, "first 100 collectives") : null,
      toggle("messages", "messages"), most[0] || most[1] ? toggle("lines", "FLOPs and memory lines") : null,
      T.path.length ? path : null,
      el("button", { onclick: () => { const all = T.head.tree.map((stage, at) => (stage.rows.length > 1 ? at : -1)).filter((at) => at >= 0); if (folded.size) folded.clear(); else all.forEach((at) => folded.add(at)); put({ fold: folded.size ? [...folded] : null }); layout(); }, id: "fold" }, "fold stages"),
      el("span", { class: "grow" }), saves, tableButton("actions"), tableButton("totals"), tableButton("devices"), T.path.length ? tableButton("critical path") : null),
    frame, strip, legendOf(most, onPath), el("div", { class: "legend" }, density),
    el("p", { class: "soft" }, `Times are ${T.head.basis}${T.head.basis === "modeled" ? `, model ${T.head.model}` : ""}. Drag to zoom, Shift-drag to pan, double-click for the whole run; click an operation to follow it in every view.`),
    el("p", { class: "soft" }, T.head.basis === "modeled" ? "FLOPS, measured memory and measured times of a device come from a recorded run." : T.head.ranks.some((r) => r.rate) ? "" : "The recording says no FLOPs; torch.profiler does with with_flops=True, and memory with profile_memory=True."),
    ...T.head.notes.map((note) => el("p", { class: "soft" }, note)));
  name();
  layout();
  const whenSized = new ResizeObserver(() => redraw(draw));
  whenSized.observe(frame);
  follow((change) => {
    if ("ranks" in change) markRows();
    if ("view" in change || "pins" in change) { name(); layout(); return; }
    if ("path" in change) { name(); redraw(draw); }
    if (["ranks", "op", "range", "theme"].some((field) => field in change)) redraw(draw);
  });
  plot = { draw, zoom: zoomTime, range: timeRange, end, drawn, canvas, items: () => items, hit, denseBins, foldOf };
}

function legendOf(most, onPath) {
  const words = [["forward", "compute, forward"], ["backward", "backward"], ["weight", "weight gradient"], ["other", "other compute"],
    ["collective", "collective"], ["send", "send"], ["recv", "receive"], ["copy", "copy"], ["wait", "hatched: waiting for the others"], ["stuck", "never completes"]];
  const found = new Set([...new Set(T.shade)].map((shade) => SHADES[shade]));
  found.add("wait");
  if (!T.head.complete) found.add("stuck");
  return el("div", { class: "legend" }, words.filter(([key]) => found.has(key)).map(([key, text]) => el("span", {}, el("i", { class: `k-${key}` }), text)),
    most[0] ? el("span", {}, "dark line: FLOPs of an operation") : null, most[1] ? el("span", {}, "blue line: its working set") : null, onPath);
}
