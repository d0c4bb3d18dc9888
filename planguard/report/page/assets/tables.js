// The twin of every chart: its numbers in a table, sortable, the selection marked.

const SHOWN = 500;

const TABLES = {
  findings: () => ({ heads: ["code", "severity", "ranks", "message", "what to change"],
    rows: D.verdict.findings.map((f) => [f.code, f.severity, rankSet(f.ranks), f.message, f.help]), ranks: D.verdict.findings.map((f) => f.ranks) }),
  waits: () => {
    const edges = D.verdict.findings.flatMap((f) => f.cycle.map((edge) => [f, edge]));
    return { heads: ["finding", "rank", "action", "what", "waits for", "why"], ranks: edges.map(([, e]) => [e.at.rank]),
      rows: edges.map(([f, e]) => [f.code, e.at.rank, e.at.action, e.at.text, e.for ? `rank ${e.for.rank} #${e.for.action} ${e.for.text}` : "nobody comes", e.sentence]) };
  },
  witness: () => {
    const steps = D.verdict.findings.flatMap((f) => (f.witness ? f.witness.steps.map((s, at) => [f.code, at + 1, ...s]) : []));
    return { heads: ["finding", "step", "rank", "action", "event"], rows: steps, ranks: steps.map((s) => [s[2]]) };
  },
  actions: () => ({ heads: ["rank", "action", "operation", "label", "group", "bytes", "stage", "microbatch", "start us", "end us"], count: T ? T.total : 0,
    row: (i) => { const o = operation(T, i); return [o.rank, o.action, o.name, o.label, o.group, o.size, o.stage, o.mb, +T.start[i].toFixed(3), T.end[i] === Infinity ? "never" : +T.end[i].toFixed(3)]; },
    pick: (i) => { const o = operation(T, i); put({ ranks: [o.rank], op: [o.rank, o.action, o.member || 0] }); },
    isOn: (i) => S.op && T.action[i] === S.op[1] && T.head.ranks[T.row[i]].rank === S.op[0],
    order: () => { const step = chosenStep(), ranks = S.ranks && S.ranks.length < D.world ? new Set(S.ranks) : null; const out = []; for (let i = 0; i < T.total; i++) if ((!ranks || ranks.has(T.head.ranks[T.row[i]].rank)) && (!step || isInStep(T, i, step))) out.push(i); return out; } }),
  // What takes the time: calls of one kind together, of the chosen ranks and step, in the visible range.
  totals: () => {
    const range = (S.range || [0, 1]).map((share) => share * fullTime(T)), found = new Map(), order = TABLES.actions().order();
    let sum = 0;
    for (const i of order) {
      if (T.end[i] === Infinity || T.end[i] < range[0] || T.start[i] > range[1]) continue;
      const o = operation(T, i), key = `${o.op}\0${o.name}\0${o.group}`;
      const one = found.get(key) || found.set(key, { o, times: [], size: 0 }).get(key);
      one.times.push(T.end[i] - T.start[i]);
      one.size += o.size || 0;
      sum += T.end[i] - T.start[i];
    }
    const us = (value) => +value.toFixed(3);
    const rows = [...found.values()].map(({ o, times, size }) => {
      times.sort((a, b) => a - b);
      const total = times.reduce((a, b) => a + b, 0);
      return [o.op, o.name === o.op ? "" : o.name, o.group, times.length, us(total), `${(sum ? (100 * total) / sum : 0).toFixed(1)}%`, us(total / times.length), us(times[0]), us(times[times.length >> 1]), us(times[times.length - 1]), size, T.head.basis];
    });
    rows.sort((a, b) => b[4] - a[4]);
    return { heads: ["operation", "name", "group", "calls", "total us", "share", "mean us", "least us", "median us", "most us", "bytes", "times"], rows };
  },
  // What the end of the run waits for: kinds and operations on the critical path.
  "critical path": () => {
    const found = new Map();
    let sum = 0;
    for (const piece of T ? T.path : []) {
      const i = piece.kind === "idle" ? -1 : findSpan(T, piece.rank, piece.action, piece.member);
      const o = i < 0 ? { op: piece.kind, name: piece.kind, group: "" } : operation(T, i), key = `${o.op}\0${o.name}\0${o.group}`;
      const one = found.get(key) || found.set(key, { o, n: 0, total: 0, most: piece, ranks: new Set() }).get(key);
      one.n++;
      one.total += piece.end - piece.start;
      one.ranks.add(piece.rank);
      if (piece.end - piece.start > one.most.end - one.most.start) one.most = piece;
      sum += piece.end - piece.start;
    }
    const rows = [...found.values()].sort((a, b) => b.total - a.total);
    return { heads: ["operation", "name", "group", "pieces", "total us", "share", "ranks", "longest us", "longest on rank", "times"], ranks: rows.map(({ most }) => [most.rank]),
      rows: rows.map(({ o, n, total, most, ranks }) => [o.op, o.name === o.op ? "" : o.name, o.group, n, +total.toFixed(3), `${((100 * total) / sum).toFixed(1)}%`, rankSet(ranks), +(most.end - most.start).toFixed(3), most.rank, T.head.basis]) };
  },
  devices: () => ({ heads: ["rank", "stage", "operations", "FLOPs", "working set", "compute us", "communication us", "waiting us", "end us"],
    rows: T ? T.head.ranks.map((r, row) => [r.rank, (T.head.tree.find((s) => s.rows.includes(row)) || {}).name, r.n, r.flops, r.memory, r.compute, r.communication, r.waiting, r.stuck ? "never" : r.end]) : [],
    ranks: T ? T.head.ranks.map((r) => [r.rank]) : [] }),
  steps: () => {
    const rows = (T ? stepsOf(T) : []).flatMap((step) => step.devices.map((d, row) => [step, T.head.ranks[row].rank, d])).filter(([, , d]) => d);
    return { heads: ["step", "rank", "total us", "interval us", "passes us", "tail us", "communication us", "waiting us", "times"], ranks: rows.map(([, rank]) => [rank]),
      rows: rows.map(([step, rank, d]) => [step.name, rank, d.total, d.interval, d.passes, d.tail, d.communication, d.waiting, T.head.basis]) };
  },
  pairs: () => {
    const view = D.traffic.views[Math.min(S.matrix || 0, D.traffic.views.length - 1)], m = matrixOf(view, Boolean(S.nodes));
    const out = [];
    for (let i = 0; i < m.n * m.n; i++) if (m.counts[i]) out.push([view.title, m.labels[Math.floor(i / m.n)], m.labels[i % m.n], m.bytes[i], m.counts[i]]);
    out.sort((a, b) => b[3] - a[3]);
    return { heads: ["traffic", "sender", "receiver", "bytes", "messages"], rows: out, ranks: out.map((r) => [Number(r[1]), Number(r[2])].filter(Number.isInteger)) };
  },
  operators: () => {
    const s = D.strategy;
    return { heads: ["ranks", "action", "operator", "kind", "namespace", "phase", "group", "times", "bytes", "FLOPs", "tensors"], ranks: s.nodes.map((n) => s.blocks[n[0]].ranks),
      rows: s.nodes.map((n) => [rankSet(s.blocks[n[0]].ranks), n[8], n[3], n[4], n[6], n[7], n[5], n[9], n[10], n[11], n[13].map(cutsText).join(", ")]) };
  },
  // Where a run ends: what a debugger of MPI shows as the message queues of a process.
  queues: () => ({ heads: ["rank", "queue", "place", "action", "call", "peer", "line"], rows: D.queues.rows, ranks: D.queues.rows.map((row) => [row[0]]), more: D.queues.more }),
  links: () => ({ heads: ["source", "target", "type", "bandwidth B/s", "latency us", "operators", "bytes", "least", "median", "most", "modeled us"],
    rows: D.topology.links.map((l) => [l.pair[0], l.pair[1], l.type || "unknown", l.bandwidth, l.latency, l.operators, l.bytes, l.sizes[0] ?? null, l.sizes[2] ?? null, l.sizes[4] ?? null, l.time]),
    ranks: D.topology.links.map((l) => l.pair) }),
};

function tableButton(name) {
  return el("button", { "data-table": name, onclick: () => { put({ table: name }); show("tables"); } }, `table of ${name}`);
}

function tablesPanel(body) {
  const pick = el("select", { id: "table", "aria-label": "table", onchange: () => { sorted = null; put({ table: pick.value }); draw(); } },
    Object.keys(TABLES).filter((name) => (T || !["actions", "totals", "devices", "steps"].includes(name)) && (name !== "critical path" || (T && T.path.length > 0)) && (name !== "queues" || D.queues.rows.length) && (!INSIDE_TABLES.includes(name) || insideTables().includes(name))).map((name) => el("option", { value: name }, name)));
  const holder = el("div", { class: "scroll", tabindex: 0 }), note = el("p", { class: "soft" });
  const find = el("input", { type: "search", id: "find", placeholder: "find in this table", "aria-label": "find in this table", maxlength: 200, oninput: () => put({ find: find.value || null }) });
  let sorted = null;

  function draw() {
    const name = S.table || (T ? "actions" : "pairs");
    pick.value = name;
    if (find.value !== (S.find || "")) find.value = S.find || "";
    const made = TABLES[name]();
    const lazy = made.row !== undefined;
    let order = lazy ? made.order() : made.rows.map((_, i) => i);
    const cells = lazy ? made.row : (i) => made.rows[i];
    const words = (S.find || "").toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length) order = order.filter((i) => { const text = cells(i).join(" ").toLowerCase(); return words.every((word) => text.includes(word)); });
    if (sorted) {
      const value = (i) => cells(i)[sorted.at];
      const keyed = order.map((i) => [value(i), i]);
      keyed.sort(([a], [b]) => (typeof a === "number" && typeof b === "number" ? a - b : String(a ?? "").localeCompare(String(b ?? ""))) * sorted.way);
      order = keyed.map(([, i]) => i);
    }
    const head = el("tr", {}, made.heads.map((text, at) => el("th", { scope: "col", "aria-sort": sorted && sorted.at === at ? (sorted.way > 0 ? "ascending" : "descending") : null },
      el("button", { onclick: () => { sorted = { at, way: sorted && sorted.at === at ? -sorted.way : 1 }; draw(); } }, text))));
    const rows = order.slice(0, SHOWN).map((i) => {
      const pickRow = () => (lazy ? made.pick(i) : made.ranks && made.ranks[i].length && put({ ranks: made.ranks[i].slice(0, 4096) }));
      const isOn = lazy ? made.isOn(i) : made.ranks && S.ranks && S.ranks.length < D.world && made.ranks[i].length > 0 && made.ranks[i].every((r) => S.ranks.includes(r));
      return el("tr", { tabindex: 0, class: isOn ? "on" : null, onclick: pickRow, onkeydown: (event) => { if (event.key === "Enter") pickRow(); } },
        cells(i).map((value) => el("td", { class: typeof value === "number" ? "num" : null }, value === null || value === undefined ? "" : typeof value === "number" ? number(value) : String(value))));
    });
    holder.replaceChildren(el("table", {}, el("thead", {}, head), el("tbody", {}, rows)));
    note.textContent = order.length > SHOWN ? `the first ${number(SHOWN)} of ${number(order.length)} rows; choose ranks to narrow it` : plural(order.length, "row") + (made.more ? `; ${number(made.more)} more are left out` : "");
  }
  add(body, el("div", { class: "bar" }, el("label", {}, "table", pick), find, note), holder);
  draw();
  follow((change) => { if (["table", "ranks", "op", "matrix", "nodes", "iteration", "find", "range", "step"].some((field) => field in change)) redraw(draw); });
}
