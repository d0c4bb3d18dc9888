// Communication matrices (ComScribe): bytes and messages, all traffic and every kind of it.

function matrixOf(view, byNode) {
  const traffic = D.traffic;
  const keys = traffic.keys.map((key) => {
    const fields = { family: key[0], primitive: key[1], group: key[2], dtype: key[3], phase: key[4] };
    return Object.entries(view.wanted).every(([name, value]) => fields[name] === value);
  });
  const src = C["edge.src"], dst = C["edge.dst"], key = C["edge.key"], size = C["edge.bytes"], count = C["edge.count"];
  const isRolled = byNode || traffic.byNode;
  let labels, place;
  if (traffic.byNode) {
    labels = traffic.rows;
    place = (rank) => rank;
  } else if (byNode) {
    const names = [...new Set(traffic.nodes)].sort((a, b) => (a === null) - (b === null) || a - b);
    const row = new Map(names.map((name, at) => [name, at]));
    labels = names.map((name) => (name === null ? "node ?" : `node ${name}`));
    place = (rank) => (rank === D.world ? -1 : row.get(traffic.nodes[rank]));
  } else {
    let hasHost = false;
    for (let i = 0; i < src.length; i++) if (keys[key[i]] && (src[i] === D.world || dst[i] === D.world)) hasHost = true;
    labels = [...(hasHost ? ["H"] : []), ...Array.from({ length: D.world }, (_, rank) => `${rank}`)];
    place = (rank) => (rank === D.world ? 0 : rank + (hasHost ? 1 : 0));
  }
  const n = labels.length;
  const made = { n, labels, bytes: new Float64Array(n * n), counts: new Float64Array(n * n), isRolled };
  const step = chosenStep() ? S.iteration : null, steps = C["edge.step"];
  for (let i = 0; i < src.length; i++) {
    if (!keys[key[i]] || (step !== null && steps[i] !== step && !traffic.byNode)) continue;
    const a = place(src[i]), b = place(dst[i]);
    if (a < 0 || b < 0) continue;
    made.bytes[a * n + b] += size[i];
    made.counts[a * n + b] += count[i];
  }
  made.total = made.bytes.reduce((a, b) => a + b, 0);
  made.messages = made.counts.reduce((a, b) => a + b, 0);
  return made;
}

const LABEL = 46, TITLE = 4;

// A log scale begins at the smallest value that is there, a linear one at 0.
function scaleOf(values, isLog) {
  let least = Infinity, most = 0;
  for (const value of values) if (value > 0) { least = Math.min(least, value); most = Math.max(most, value); }
  const span = Math.log(most / least), isOne = isLog && least >= most;
  return {
    most, isOne,
    share: (value) => (isOne ? 1 : isLog ? Math.log(value / least) / span : value / most),
    value: (share) => (isOne ? most : isLog ? least * Math.exp(span * share) : most * share),
  };
}

function drawMatrix(canvas, matrix, field, side, options) {
  const { n } = matrix;
  const values = matrix[field];
  const cell = Math.max(1, Math.floor((side - LABEL) / n));
  const legend = 96, width = LABEL + n * cell + legend, height = TITLE + n * cell + 34;
  const context = sized(canvas, width, height);
  const scale = scaleOf(values, options.isLog);
  const gap = cell > 4 ? 1 : 0;
  const place = (src, dst) => (options.isRows ? [dst, src] : [src, dst]);
  for (let src = 0; src < n; src++) {
    for (let dst = 0; dst < n; dst++) {
      const value = values[src * n + dst], counted = matrix.counts[src * n + dst];
      const [col, row] = place(src, dst);
      const x = LABEL + col * cell, y = TITLE + row * cell;
      context.fillStyle = value > 0 ? ramp(scale.share(value)) : counted > 0 ? colors.line : colors.none;
      context.fillRect(x, y, cell - gap, cell - gap);
      if (src === dst && (n <= 64 || counted > 0)) {
        context.fillStyle = hatch(context, counted > 0 ? "#ffffff" : colors.line, 4, 1);
        context.fillRect(x, y, cell - gap, cell - gap);
      }
    }
  }
  context.font = FONT;
  context.fillStyle = colors.ink;
  context.textBaseline = "middle";
  const every = Math.max(1, Math.ceil(16 / cell));
  for (let at = 0; at < n; at += matrix.labels[0] === "H" && at === 0 ? 1 : every) {
    const middle = at * cell + cell / 2, text = matrix.labels[at];
    const isOn = (S.ranks || []).length < n && (S.ranks || []).includes(Number(text));
    context.fillStyle = isOn ? colors.accent : colors.ink;
    context.font = isOn ? `bold ${FONT}` : FONT;
    context.textAlign = "right";
    context.fillText(text.replace("node ", "n"), LABEL - 5, TITLE + middle);
    context.textAlign = "center";
    context.fillText(text.replace("node ", "n"), LABEL + middle, TITLE + n * cell + 9);
  }
  context.font = FONT;
  context.fillStyle = colors.soft;
  context.fillText(options.isRows ? "target" : "sender", LABEL + (n * cell) / 2, TITLE + n * cell + 26);
  context.save();
  context.translate(9, TITLE + (n * cell) / 2);
  context.rotate(-Math.PI / 2);
  context.fillText(options.isRows ? "source" : "receiver", 0, 0);
  context.restore();
  context.textAlign = "left";
  drawMatrixLegend(context, LABEL + n * cell + 14, TITLE, Math.min(140, n * cell - 30), scale, field);
  outlineRanks(context, matrix, cell, options);
  if (canvas.cursor) {
    const [col, row] = place(...canvas.cursor);
    context.strokeStyle = colors.ink;
    context.lineWidth = 2;
    context.strokeRect(LABEL + col * cell - 1, TITLE + row * cell - 1, cell + 1, cell + 1);
    context.lineWidth = 1;
  }
  canvas.geometry = { cell, n };
}

function outlineRanks(context, matrix, cell, options) {
  const ranks = S.ranks || [];
  if (!ranks.length || ranks.length >= matrix.n || ranks.length > 32 || matrix.isRolled) return;
  context.strokeStyle = colors.accent;
  for (const rank of ranks) {
    const at = matrix.labels.indexOf(`${rank}`);
    if (at < 0) continue;
    context.strokeRect(LABEL + at * cell - 0.5, TITLE - 0.5, cell, matrix.n * cell);
    context.strokeRect(LABEL - 0.5, TITLE + at * cell - 0.5, matrix.n * cell, cell);
  }
}

function drawMatrixLegend(context, x, top, height, scale, field) {
  if (height < 30) return;
  if (!scale.most) {
    context.fillStyle = colors.soft;
    context.fillText(field === "bytes" ? "no sizes stated" : "nothing", x, top + 8);
    return;
  }
  for (let y = 0; y < height; y++) {
    context.fillStyle = ramp(scale.isOne ? 1 : 1 - y / height);
    context.fillRect(x, top + y, 12, 1);
  }
  context.fillStyle = colors.soft;
  for (const share of scale.isOne ? [1] : height > 80 ? [1, 0.75, 0.5, 0.25, 0] : [1, 0]) {
    const value = scale.value(share);
    context.fillText(field === "bytes" ? bytes(value) : number(Math.round(value)), x + 17, top + 5 + (1 - share) * (height - 10));
  }
  context.fillStyle = colors.none;
  context.fillRect(x, top + height + 8, 12, 12);
  context.strokeStyle = colors.line;
  context.strokeRect(x + 0.5, top + height + 8.5, 11, 11);
  context.fillStyle = colors.soft;
  context.fillText("no traffic", x + 17, top + height + 14);
}

// Unified Memory and zero-copy move data without a call of their own: bars of what every device
// takes and gives (ComScribe, figures 6.1e and 6.1f).
const IMPLICIT = ["unified", "zero-copy"];

function implicitOf(memory) {
  const wanted = new Set(D.traffic.keys.map((key, at) => (key[0] === "copy" && key[1].endsWith(`(${memory})`) ? at : -1)));
  const rows = new Map(), step = chosenStep() ? S.iteration : null;
  const of = (rank) => { if (!rows.has(rank)) rows.set(rank, [0, 0]); return rows.get(rank); };
  for (let i = 0; i < C["edge.src"].length; i++) {
    if (!wanted.has(C["edge.key"][i]) || (step !== null && C["edge.step"][i] !== step)) continue;
    of(C["edge.dst"][i])[0] += C["edge.bytes"][i];
    of(C["edge.src"][i])[1] += C["edge.bytes"][i];
  }
  return [...rows].sort(([a], [b]) => (b === D.world) - (a === D.world) || a - b); // the host first
}

function drawImplicit(canvas, memory) {
  const rows = implicitOf(memory), left = 78, right = 20, tall = 170, top = 14;
  const step = Math.max(14, Math.min(60, 460 / Math.max(1, rows.length))), wide = left + rows.length * step + right;
  const context = sized(canvas, Math.max(200, wide), top + tall + 38);
  const most = Math.max(1, ...rows.flatMap(([, moved]) => moved)), high = (value) => top + tall - (value / most) * tall;
  context.font = FONT;
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (const share of [0, 0.5, 1]) {
    context.fillStyle = colors.soft;
    context.fillText(bytes(most * share), left - 6, high(most * share));
    context.fillStyle = colors.line;
    context.fillRect(left, Math.round(high(most * share)), rows.length * step, 1);
  }
  context.textAlign = "center";
  rows.forEach(([rank, [taken, given]], at) => {
    const x = left + at * step, bar = step * 0.36;
    context.fillStyle = colors.recv;
    context.fillRect(x + step * 0.12, high(taken), bar, top + tall - high(taken));
    context.fillStyle = colors.send;
    context.fillRect(x + step * 0.52, high(given), bar, top + tall - high(given));
    context.fillStyle = colors.ink;
    if (at % Math.ceil(26 / step) === 0 || rank === D.world) context.fillText(rank === D.world ? "H" : `${rank}`, x + step / 2, top + tall + 11);
  });
  context.fillStyle = colors.soft;
  context.fillText("device; H: host", left + (rows.length * step) / 2, top + tall + 28);
  context.save();
  context.translate(9, top + tall / 2);
  context.rotate(-Math.PI / 2);
  context.fillText("bytes", 0, 0);
  context.restore();
  context.textAlign = "left";
}

// The bars of each kind of memory that has copies; none by node, where ranks are not told apart.
function implicitCharts() {
  return IMPLICIT.filter((memory) => !D.traffic.byNode && implicitOf(memory).length).map((memory) => {
    const title = memory === "unified" ? "Unified Memory, by device" : "Zero-copy memory, by device";
    const legend = el("div", { class: "legend" }, el("span", {}, el("i", { class: "k-recv" }), "received"), el("span", {}, el("i", { class: "k-send" }), "transmitted"));
    const canvas = el("canvas", { role: "img", "aria-label": `${title}: bytes received and transmitted`, "data-memory": memory }), holder = el("div", {}, legend);
    const draw = () => drawImplicit(canvas, memory);
    draw();
    follow((change) => { if (["iteration", "theme"].some((field) => field in change)) redraw(draw); });
    return el("div", { class: "chart" }, el("h3", {}, title), canvas, holder, pictures(() => holder, { name: `${memory}-memory`, title, canvas, draw, note: () => `bytes, linear scale, ${D.traffic.basis}${chosenStep() ? `; ${chosenStep().name}` : ""}` }));
  });
}

function patternText(view) {
  return view.patterns.length ? view.patterns.map(([name, sure, count]) => `${name}${count > 1 ? ` in each of ${number(count)} groups` : ""} (${Math.round(sure * 100)} %)`).join(", ") : "no named pattern";
}

function matricesPanel(body) {
  const views = D.traffic.views;
  const hasNodes = !D.traffic.byNode && new Set(D.traffic.nodes).size > 1;
  const pick = el("select", { id: "matrix-view", "aria-label": "traffic", onchange: () => put({ matrix: Number(pick.value) || null }) },
    views.map((view, at) => el("option", { value: at }, view.title)));
  const scale = el("button", { id: "scale", onclick: () => put({ scale: S.scale === "linear" ? null : "linear" }) });
  const axes = el("button", { id: "axes", onclick: () => put({ axes: S.axes === "rows" ? null : "rows" }) });
  const nodes = el("button", { id: "by-node", onclick: () => put({ nodes: S.nodes ? null : "on" }) });
  const pattern = el("p", {}), thumbs = el("div", { class: "thumbs" });
  const made = ["bytes", "counts"].map((field) => {
    const canvas = el("canvas", { tabindex: 0, role: "application", "data-field": field, "aria-label": `matrix of ${field}; arrow keys move, Enter chooses` });
    return { field, canvas, title: el("h3", {}, field === "bytes" ? "Bytes" : "Messages") };
  });
  let shown = null;

  function draw() {
    const at = Math.min(S.matrix || 0, views.length - 1);
    const view = views[at];
    shown = matrixOf(view, Boolean(S.nodes) && hasNodes);
    pick.value = at;
    scale.textContent = S.scale === "linear" ? "log scale" : "linear scale";
    axes.textContent = S.axes === "rows" ? "sender on x" : "rows = source";
    nodes.textContent = S.nodes ? "by rank" : "by node";
    const rule = S.axes === "rows" ? "rows are sources, columns are targets" : "the sender is on x, the receiver on y";
    pattern.textContent = `${chosenStep() ? `${chosenStep().name}, ` : ""}${view.title}: ${bytes(shown.total)} in ${number(shown.messages)} messages; pattern: ${patternText(view)}; ${D.traffic.algorithm}, ${D.traffic.basis}; ${rule}`;
    const side = Math.max(180, Math.min(520, (body.clientWidth - 60) / 2 - 90, shown.n * 34 + LABEL));
    for (const one of made) {
      drawMatrix(one.canvas, shown, one.field, side, { isLog: S.scale !== "linear", isRows: S.axes === "rows" });
    }
  }
  const cellAt = (canvas, event) => {
    const box = canvas.getBoundingClientRect(), { cell, n } = canvas.geometry;
    const col = Math.floor((event.clientX - box.left - LABEL) / cell), row = Math.floor((event.clientY - box.top - TITLE) / cell);
    if (col < 0 || row < 0 || col >= n || row >= n) return null;
    return S.axes === "rows" ? [row, col] : [col, row];
  };
  const cellText = ([src, dst]) => `${shown.labels[src]} → ${shown.labels[dst]}: ${bytes(shown.bytes[src * shown.n + dst])} in ${number(shown.counts[src * shown.n + dst])} messages${src === dst ? (shown.isRolled ? " (inside the node)" : " (stays on the device)") : ""}`;
  const choose = ([src, dst]) => {
    const ranks = [...new Set([shown.labels[src], shown.labels[dst]])].map(Number).filter((rank) => Number.isInteger(rank)).sort((a, b) => a - b);
    if (ranks.length) put({ ranks, op: null });
  };
  for (const { canvas } of made) {
    canvas.addEventListener("pointermove", (event) => { const cell = cellAt(canvas, event); tell(event, cell ? cellText(cell) : ""); });
    canvas.addEventListener("pointerleave", (event) => tell(event, ""));
    canvas.addEventListener("click", (event) => { const cell = cellAt(canvas, event); if (cell) choose(cell); });
    canvas.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
      const now = canvas.cursor || [0, 0];
      if (event.key === "Enter") choose(now);
      if (!moves[event.key]) return;
      event.preventDefault();
      const [dx, dy] = S.axes === "rows" ? moves[event.key].slice().reverse() : moves[event.key];
      const clip = (value) => Math.max(0, Math.min(shown.n - 1, value));
      canvas.cursor = [clip(now[0] + dx), clip(now[1] + dy)];
      draw();
      const box = canvas.getBoundingClientRect();
      tell({ clientX: box.left + LABEL, clientY: box.bottom - 40 }, cellText(canvas.cursor));
    });
  }
  function drawThumbs() {
    const small = views.slice(0, 40).map((view, at) => {
      const matrix = matrixOf(view, false), n = matrix.n;
      const cell = Math.max(1, Math.floor(84 / n)), canvas = el("canvas", { "aria-hidden": "true" });
      if (n > 256) return null;
      const context = sized(canvas, n * cell, n * cell);
      const scale = scaleOf(matrix.bytes, true);
      for (let i = 0; i < n * n; i++) {
        const src = Math.floor(i / n), dst = i % n;
        context.fillStyle = matrix.bytes[i] ? ramp(scale.share(matrix.bytes[i])) : matrix.counts[i] ? colors.soft : colors.none;
        context.fillRect(src * cell, dst * cell, cell, cell);
      }
      return el("button", { title: `${view.title}: ${patternText(view)}`, onclick: () => put({ matrix: at || null }) }, canvas,
        el("span", {}, view.title), el("span", { class: "soft" }, bytes(matrix.total)));
    });
    thumbs.replaceChildren(...small.filter(Boolean));
  }
  const copies = D.traffic.keys.some((key) => key[0] === "copy");
  const lacks = IMPLICIT.filter((memory) => !D.traffic.keys.some((key) => key[1].endsWith(`(${memory})`)));
  add(body, el("div", { class: "bar" }, el("label", {}, "traffic", pick), scale, axes, hasNodes ? nodes : null, el("span", { class: "grow" }), tableButton("pairs")),
    pattern, el("div", { class: "flex" }, made.map((one) => el("div", { class: "chart" }, one.title, one.canvas, pictures(() => body, { name: `matrix-${one.field}`, title: one.field === "bytes" ? "bytes between ranks" : "messages between ranks", canvas: one.canvas, draw, note: () => pattern.textContent })))), views.length > 2 ? thumbs : null, el("div", { class: "flex" }, implicitCharts()),
    D.traffic.byNode ? el("p", { class: "soft" }, `Rolled up, ${plural(D.traffic.rows.length, "row")}: too many ranks or links for a cell each. Rows are the nodes of the plan's topology, else the coordinates of its mesh.`) : null,
    ...D.traffic.notes.map((note) => el("p", { class: "soft" }, note)),
    el("p", { class: "soft" }, `${copies ? "" : "Copies to and from the host (row H): the plan has none. "}${lacks.length ? `Of ${lacks.join(" and ")} memory the plan has no copies.` : ""}`));
  draw();
  if (views.length > 2) drawThumbs();
  follow((change) => {
    if (["matrix", "scale", "axes", "nodes", "ranks", "iteration", "theme"].some((field) => field in change)) redraw(draw);
    if (("theme" in change || "iteration" in change) && views.length > 2) drawThumbs();
  });
  addEventListener("resize", () => redraw(draw));
}
