// The strategy view: operators in execution order, strategy rectangles on the edges (VD-10 to 22).

const EDGE_CLASSES = ["data", "activation", "parameter", "gradient", "optimizer", "control", "communication"];
const EDGE_WORDS = ["data", "activation saved for backward", "parameter", "gradient", "optimizer", "order only", "message"];
const EDGE_COLORS = ["soft", "line", "soft", "backward", "copy", "line", "send"];
const SPACE_COLORS = ["#c0b4fc", "#b4b400", "#e4f0fc", "#9c8454", "#f0f0b4", "#7878fc", "#c0b4a8", "#e4fc00", "#90849c"];
const LANE = 40;

function localShape(tensor) {
  return tensor.shape.map((size, at) => Math.ceil(size / (tensor.cuts[at] || 1)));
}

function cutsText(name) {
  const tensor = D.strategy.tensors[name];
  if (!tensor) return name;
  const pieces = tensor.cuts.reduce((a, b) => a * b, 1);
  return `${name} [${tensor.shape.join(", ")}] cut [${tensor.cuts.join(", ")}]: local [${localShape(tensor).join(", ")}], ${bytes(Math.ceil(tensor.bytes / pieces))} a piece`;
}

// VD-18: partitioned output, redistribution, communication; everything else is plain.
function operatorKind(node) {
  if (node[4] !== "compute") return /^(all_gather|all_to_all|reduce_scatter|scatter|gather|d2d|coalesced)/.test(node[4]) && (node[13].length || node[7]) ? "redistribution" : "communication";
  if (/redistribut|reshard/i.test(node[3])) return "redistribution";
  return node[13].some((name) => D.strategy.tensors[name] && D.strategy.tensors[name].cuts.some((cut) => cut > 1)) ? "partitioned output" : "plain";
}

function nodeColor(node) {
  if (node[4] !== "compute") return /send/.test(node[4]) ? colors.send : /recv|probe/.test(node[4]) ? colors.recv : /^[hd]2[hd]$/.test(node[4]) ? colors.copy : colors.collective;
  const phase = node[7].toLowerCase(), name = node[3].toLowerCase();
  if (/^w/.test(phase) || name === "w") return colors.weight;
  if (/^(b|i$)/.test(phase)) return colors.backward;
  return phase && !/^f/.test(phase) ? colors.other : colors.forward;
}

function strategyPanel(body) {
  const graph = D.strategy;
  if (!graph.nodes.length) { add(body, el("p", {}, "The plan has no operators to draw.")); return; }
  const shownEdges = new Set([0, 2, 3, 4, 5, 6]); // saved activations span the whole graph: hidden at first
  const spaces = [...new Set(graph.nodes.map((node) => node[6]).filter(Boolean))];
  const chosen = [];
  let isStacked = false, x0 = -1, unit = 0, hovered = null, dragging = null;
  const canvas = el("canvas", { tabindex: 0, role: "application", "aria-label": "operators in execution order; arrow keys pan, plus and minus zoom, brackets step through operators" });
  const map = el("canvas", { class: "minimap", "aria-hidden": "true" });
  const side = el("div", { class: "side" });
  const first = new Map(); // node -> [stack, is first]
  graph.stacks.forEach((stack, at) => stack.forEach((own, member) => own.forEach((node) => first.set(node, [at, member]))));

  let xs = [], width = 800, height = 200, longest = 1, tops = [];
  function place() {
    const isHidden = (at) => isStacked && first.has(at) && first.get(at)[1] > 0;
    const layers = [...new Set(graph.nodes.filter((_, at) => !isHidden(at)).map((node) => node[1]))].sort((a, b) => a - b);
    const rank = new Map(layers.map((layer, at) => [layer, at]));
    xs = graph.nodes.map((node, at) => (isHidden(at) ? -1 : rank.get(node[1])));
    longest = Math.max(1, layers.length);
    tops = [];
    let y = 18;
    graph.blocks.forEach((_, block) => {
      const own = graph.nodes.map((node, at) => [node, at]).filter(([node]) => node[0] === block);
      const has = new Set(own.map(([, at]) => at));
      const most = Math.min(3, Math.max(0, ...countBy(graph.parameters.filter(([at]) => has.has(at)).map(([at]) => at)).values()));
      const above = most * 26 + 14;
      const lanes = [...new Set(own.map(([node]) => node[2]))].sort((a, b) => a - b);
      tops.push({ y, middle: y + above + 20, lanes: new Map(lanes.map((lane, at) => [lane, at])), bottom: 0 });
      y += above + 20 + Math.max(1, lanes.length) * LANE;
      tops[block].bottom = y - 8;
    });
    height = Math.max(120, y + 4);
  }
  const least = () => Math.max(0.4, (width - 140) / (longest + 1));
  const px = (x) => 120 + (x - x0) * unit;
  const at = (i) => { const node = graph.nodes[i], top = tops[node[0]]; return [px(xs[i]), top.middle + top.lanes.get(node[2]) * LANE]; };

  function draw() {
    width = Math.max(320, Math.min(body.clientWidth - 28, 1320) - (body.clientWidth > 900 ? 300 : 0));
    if (!unit) { unit = Math.max(least(), Math.min(84, least() * 10)); if (longest < 16) unit = Math.min(110, least()); }
    unit = Math.min(140, Math.max(least(), unit));
    x0 = Math.max(-0.6, Math.min(x0, longest - (width - 130) / unit));
    if (x0 < 0) x0 = -0.6;
    const context = sized(canvas, width, height);
    context.font = FONT;
    context.textBaseline = "middle";
    drawBlocks(context);
    for (const [target, name] of shownEdges.has(2) ? parameterPlaces() : []) drawParameter(context, target, name);
    drawSpaces(context);
    for (const edge of graph.edges) if (shownEdges.has(edge[2])) drawEdge(context, edge);
    graph.nodes.forEach((_, i) => { if (xs[i] >= 0) drawNode(context, i); });
    if (isStacked) drawStacks(context);
    drawMap();
  }

  const inView = (x) => x > -80 && x < width + 80;

  function drawBlocks(context) {
    graph.blocks.forEach((block, i) => {
      const top = tops[i];
      context.fillStyle = colors.faint;
      context.globalAlpha = 0.55;
      context.fillRect(112, top.y, width - 112, top.bottom - top.y);
      context.globalAlpha = 1;
      context.fillStyle = colors.card;
      context.fillRect(0, top.y, 112, top.bottom - top.y);
      const isOn = (S.ranks || []).length < D.world && (S.ranks || []).some((rank) => block.ranks.includes(rank));
      context.fillStyle = isOn ? colors.accent : colors.ink;
      context.font = `600 ${FONT}`;
      const name = block.stages.length ? `stage${block.stages.length > 1 ? "s" : ""} ${block.stages.join(", ")}` : `program ${i + 1}`;
      context.fillText(name, 6, top.y + 14);
      context.font = FONT;
      context.fillStyle = colors.soft;
      context.fillText(`rank${block.ranks.length > 1 ? "s" : ""} ${rankSet(block.ranks)}`.slice(0, 18), 6, top.y + 30);
    });
  }

  function* parameterPlaces() {
    const seen = new Map();
    for (const [target, name] of graph.parameters) {
      const nth = seen.get(target) || 0;
      seen.set(target, nth + 1);
      if (nth < 3 && xs[target] >= 0) yield [[target, nth], name];
    }
  }
  const parameterAt = ([target, nth]) => { const [x, y] = at(target); return [x - Math.min(14, unit * 0.2), y - 30 - nth * 26]; };

  function drawParameter(context, target, name) {
    const [x, y] = parameterAt(target), [tx, ty] = at(target[0]);
    if (!inView(x)) return;
    context.strokeStyle = colors.soft;
    context.setLineDash([2, 2]);
    context.beginPath();
    context.moveTo(x, y + 4);
    context.lineTo(tx, ty - 8);
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = colors.soft;
    context.beginPath();
    context.arc(x, y, 3.5, 0, 7);
    context.fill();
    if (unit < 30) return;
    const end = drawCuts(context, name, x + 7, y - 7);
    if (unit > 46) { context.fillStyle = colors.soft; context.fillText(cutTo(name, Math.floor((unit - (end - x) - 6) / 6)), end + 4, y); }
  }

  // A row of rectangles, one per dimension; the number is the cuts, equal numbers have equal shades.
  function drawCuts(context, name, x, y) {
    const tensor = graph.tensors[name];
    if (!tensor || !tensor.known) return x;
    tensor.cuts.forEach((cut, at) => {
      context.fillStyle = cut === 1 ? colors.card : ramp(1 - Math.min(0.9, Math.log2(cut) / 6));
      context.fillRect(x + at * 15, y, 14, 14);
      context.strokeStyle = colors.soft;
      context.strokeRect(x + at * 15 + 0.5, y + 0.5, 13, 13);
      context.fillStyle = cut === 1 ? colors.ink : "#14171b";
      context.textAlign = "center";
      context.fillText(`${cut}`, x + at * 15 + 7, y + 7.5);
      context.textAlign = "left";
    });
    return x + tensor.cuts.length * 15;
  }

  function drawSpaces(context) {
    graph.nodes.forEach((node, i) => {
      const color = chosen.indexOf(node[6]);
      if (color < 0 || xs[i] < 0) return;
      const [x, y] = at(i), radius = Math.max(18, Math.min(34, unit * 0.7));
      if (!inView(x)) return;
      const glow = context.createRadialGradient(x, y, 3, x, y, radius);
      glow.addColorStop(0, `${SPACE_COLORS[color]}cc`);
      glow.addColorStop(1, `${SPACE_COLORS[color]}00`);
      context.fillStyle = glow;
      context.fillRect(x - radius, y - radius, radius * 2, radius * 2);
    });
  }

  function drawEdge(context, [source, target, kind, tensor]) {
    if (xs[source] < 0 || xs[target] < 0) return;
    const [sx, sy] = at(source), [tx, ty] = at(target);
    if (Math.max(sx, tx) < 100 || Math.min(sx, tx) > width + 40) return;
    const isMessage = kind === 6, isMinor = kind === 5 || kind === 1;
    context.strokeStyle = colors[EDGE_COLORS[kind]];
    context.globalAlpha = isMinor ? 0.9 : isMessage ? 0.6 : 0.85;
    context.lineWidth = isMinor || unit < 8 ? 1 : 1.5;
    context.setLineDash(kind === 1 ? [5, 4] : []);
    const reach = Math.abs(tx - sx);
    context.beginPath();
    context.moveTo(sx, sy);
    let my = (sy + ty) / 2;
    if (graph.nodes[source][0] === graph.nodes[target][0] && sy === ty && reach > unit * 1.5) {
      const lift = Math.min(26, 6 + reach * 0.05);
      context.quadraticCurveTo((sx + tx) / 2, sy - lift * 2, tx, ty);
      my = sy - lift;
    } else if (isMessage) context.bezierCurveTo(sx + 10, sy + (ty - sy) * 0.4, tx - 10, ty - (ty - sy) * 0.4, tx, ty);
    else context.lineTo(tx, ty);
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;
    context.lineWidth = 1;
    const cuts = graph.tensors[tensor];
    if (cuts && cuts.known && reach > cuts.cuts.length * 15 + 26) drawCuts(context, tensor, (sx + tx) / 2 - (cuts.cuts.length * 15) / 2, my - 7);
  }

  function drawNode(context, i) {
    const node = graph.nodes[i], [x, y] = at(i);
    if (!inView(x) || x < 104) return;
    const radius = Math.max(1.5, Math.min(9, unit * 0.34));
    const kind = operatorKind(node), isOn = isSelected(i);
    if (isFaint(i)) context.globalAlpha = 0.16;
    context.fillStyle = nodeColor(node);
    context.beginPath();
    if (node[4] === "compute") context.arc(x, y, radius, 0, 7);
    else { // communication is a diamond
      context.moveTo(x, y - radius * 1.2); context.lineTo(x + radius * 1.2, y);
      context.lineTo(x, y + radius * 1.2); context.lineTo(x - radius * 1.2, y);
      context.closePath();
    }
    context.fill();
    if (kind === "partitioned output" || kind === "redistribution") {
      context.strokeStyle = colors.ink;
      context.lineWidth = 1.4;
      if (kind === "redistribution") context.setLineDash([2, 2]);
      context.stroke();
      context.setLineDash([]);
    }
    if (isOn || hovered === i) {
      context.strokeStyle = isOn ? colors.bad : colors.accent;
      context.lineWidth = 2.5;
      context.beginPath();
      context.arc(x, y, radius + 4, 0, 7);
      context.stroke();
    }
    context.lineWidth = 1;
    if (unit > 26) {
      context.fillStyle = colors.ink;
      context.textAlign = "center";
      const text = node[12] !== null && node[3].length < 3 ? `${node[3]}${node[12]}` : node[3];
      context.fillText(cutTo(text, Math.max(3, Math.floor((unit - 4) / 6.2))), x, y + radius + 8);
      if (node[9] > 1 && unit > 40) { context.fillStyle = colors.soft; context.fillText(`× ${number(node[9])}`, x, y - radius - 7); }
      context.textAlign = "left";
    }
    context.globalAlpha = 1;
  }

  function drawStacks(context) {
    for (const stack of graph.stacks) {
      const places = stack[0].map(at), left = Math.min(...places.map(([x]) => x)), right = Math.max(...places.map(([x]) => x));
      if (right < 104 || left > width) continue;
      const top = Math.min(...places.map(([, y]) => y)) - 18, bottom = Math.max(...places.map(([, y]) => y)) + 20;
      context.strokeStyle = colors.accent;
      for (const off of [4, 2, 0]) context.strokeRect(Math.max(112, left - 14) + off, top - off, right - Math.max(112, left - 14) + 14, bottom - top);
      context.fillStyle = colors.accent;
      context.font = `bold ${FONT}`;
      context.fillText(`× ${stack.length}`, right + 2, top - 9);
      context.font = FONT;
    }
  }

  function drawMap() {
    const tall = Math.max(26, Math.min(64, graph.blocks.length * 12)), wide = width, context = sized(map, wide, tall);
    const scale = (wide - 2) / (longest + 1), line = tall / graph.blocks.length;
    context.fillStyle = colors.faint;
    context.fillRect(0, 0, wide, tall);
    graph.nodes.forEach((node, i) => {
      if (xs[i] < 0) return;
      const color = chosen.indexOf(node[6]);
      context.fillStyle = isSelected(i) ? colors.bad : color >= 0 ? SPACE_COLORS[color] : nodeColor(node);
      context.fillRect((xs[i] + 0.5) * scale, node[0] * line + 2 + (node[2] ? line / 2 : 0), Math.max(1, scale * 0.8), Math.max(1.5, line / 2 - 2));
    });
    context.strokeStyle = colors.accent;
    context.lineWidth = 2;
    context.strokeRect(Math.max(1, (x0 + 0.5) * scale), 1, Math.min(wide - 2, ((width - 120) / unit) * scale), tall - 2);
    context.lineWidth = 1;
  }

  // Operators of the chosen step of training; null: all.
  let inStep = null;
  function findStep() {
    const step = chosenStep();
    inStep = step ? new Set() : null;
    if (!step) return;
    graph.blocks.forEach((block, number) => {
      const row = T.rowOf.get(block.rank);
      for (let i = row === undefined ? 0 : T.from[row]; row !== undefined && i < T.to[row]; i++) if (isInStep(T, i, step)) inStep.add(`${number} ${T.action[i]}`);
    });
  }
  const isFaint = (i) => inStep !== null && !inStep.has(`${graph.nodes[i][0]} ${graph.nodes[i][8]}`);
  const isSelected = (i) => Boolean(S.op) && graph.nodes[i][8] === S.op[1] && graph.blocks[graph.nodes[i][0]].ranks.includes(S.op[0]);
  const nodeText = (i) => {
    const node = graph.nodes[i];
    const lines = [`${node[3]}${node[3] === node[4] ? "" : ` (${node[4]})`}  #${node[8]}${node[9] > 1 ? `, ${number(node[9])} times` : ""}`];
    if (node[6]) lines.push(node[6]);
    const facts = [node[7] && `phase ${node[7]}`, node[14] !== null && `stage ${node[14]}`, node[12] !== null && `microbatch ${node[12]}`, node[5] && `group ${node[5]}`, node[10] !== null && bytes(node[10]), node[11] && flops(node[11]), operatorKind(node)];
    lines.push(facts.filter(Boolean).join(", "));
    lines.push(...node[13].map(cutsText), ...graph.parameters.filter(([target]) => target === i).map(([, name]) => `reads ${cutsText(name)}`));
    return lines.join("\n");
  };

  function drawSide() {
    const kinds = ["partitioned output", "redistribution", "communication", "plain"];
    const rows = graph.blocks.map((block, i) => {
      const counts = countBy(graph.nodes.filter((node) => node[0] === i).map(operatorKind));
      return el("tr", {}, el("td", {}, block.stages.length ? `stage ${block.stages.join(", ")}` : `program ${i + 1}`), kinds.map((kind) => el("td", { class: "num" }, number(counts.get(kind) || 0))));
    });
    const groups = [...countBy(graph.nodes.map((node) => node[5]).filter(Boolean))].sort((a, b) => b[1] - a[1]).slice(0, 8);
    const picked = graph.nodes.findIndex((_, i) => isSelected(i));
    side.replaceChildren(el("h3", {}, "Operators by kind"),
      el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, ["", "cut", "redistr.", "comm.", "plain"].map((text) => el("th", {}, text)))), el("tbody", {}, rows))),
      ...(groups.length ? [el("p", { class: "soft" }, `by group: ${groups.map(([name, count]) => `${name} ${number(count)}`).join(", ")}`)] : []),
      ...(graph.blocks.some((block) => block.stages.length) && graph.blocks.length > 1 ? [stagePicture(graph)] : []),
      ...(picked >= 0 ? [el("h3", {}, "Attributes"), ...attributes(picked)] : []));
  }
  function attributes(i) {
    const small = D.verdict.findings.filter((f) => /^PG62/.test(f.code) && graph.nodes[i][13].concat(graph.parameters.filter(([t]) => t === i).map(([, n]) => n)).some((name) => f.message.includes(name)));
    return [...nodeText(i).split("\n").map((line) => el("div", { class: "soft" }, line)), ...small.map((f) => el("p", {}, `${f.code}: ${f.message}`))];
  }

  // --- pointer and keys ---
  const hit = (event) => {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    let best = null, near = Math.max(10, unit * 0.4) ** 2;
    graph.nodes.forEach((_, i) => {
      if (xs[i] < 0) return;
      const [nx, ny] = at(i), far = (nx - x) ** 2 + (ny - y) ** 2;
      if (far < near) { near = far; best = i; }
    });
    if (best !== null) return [best, nodeText(best)];
    for (const [target, name] of parameterPlaces()) {
      const [nx, ny] = parameterAt(target);
      if (Math.abs(nx + 14 - x) < 26 && Math.abs(ny - y) < 9) return [target[0], `parameter ${cutsText(name)}`];
    }
    return [null, ""];
  };
  const choose = (i) => { const node = graph.nodes[i], block = graph.blocks[node[0]]; put({ op: [block.ranks[0], node[8], 0], ranks: block.ranks.slice(0, 4096), stage: node[14], group: node[5] || null }); };
  const pan = (x) => { x0 = x; redraw(draw); };
  const scaleBy = (factor, middle = width / 2) => { const x = x0 + (middle - 120) / unit; unit = Math.min(140, Math.max(least(), unit * factor)); x0 = x - (middle - 120) / unit; redraw(draw); };
  const reveal = (i) => { if (xs[i] >= 0 && (px(xs[i]) < 130 || px(xs[i]) > width - 20)) pan(xs[i] - (width - 120) / unit / 2); };
  canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); dragging = { x: event.clientX, x0, moved: 0 }; });
  canvas.addEventListener("pointermove", (event) => {
    if (dragging) { dragging.moved = Math.max(dragging.moved, Math.abs(event.clientX - dragging.x)); pan(dragging.x0 - (event.clientX - dragging.x) / unit); return; }
    const [i, text] = hit(event);
    tell(event, text);
    if (i !== hovered) { hovered = i; redraw(draw); }
  });
  canvas.addEventListener("pointerup", (event) => { const was = dragging; dragging = null; if (was && was.moved < 4) { const [i] = hit(event); if (i !== null) choose(i); } });
  canvas.addEventListener("pointerleave", (event) => { tell(event, ""); hovered = null; redraw(draw); });
  canvas.addEventListener("wheel", (event) => {
    if (!(event.ctrlKey || event.metaKey || event.altKey || document.activeElement === canvas)) return;
    event.preventDefault();
    scaleBy(Math.exp(-Math.max(-60, Math.min(60, event.deltaY)) / 250), event.clientX - canvas.getBoundingClientRect().left);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const step = (by) => { let i = graph.nodes.findIndex((_, k) => isSelected(k)); do i += by; while (i >= 0 && i < graph.nodes.length && xs[i] < 0); if (graph.nodes[i]) { choose(i); reveal(i); } };
    const actions = { ArrowLeft: () => pan(x0 - 80 / unit), ArrowRight: () => pan(x0 + 80 / unit), "+": () => scaleBy(1.4), "=": () => scaleBy(1.4), "-": () => scaleBy(1 / 1.4), Home: () => { unit = least(); pan(0); }, "[": () => step(-1), "]": () => step(1) };
    if (actions[event.key]) { event.preventDefault(); actions[event.key](); }
  });
  let mapping = false;
  const toMap = (event) => { const box = map.getBoundingClientRect(); pan(((event.clientX - box.left) / box.width) * (longest + 1) - (width - 120) / unit / 2); };
  map.addEventListener("pointerdown", (event) => { mapping = true; map.setPointerCapture(event.pointerId); toMap(event); });
  map.addEventListener("pointermove", (event) => { if (mapping) toMap(event); });
  map.addEventListener("pointerup", () => { mapping = false; });

  const used = new Set(graph.edges.map((edge) => edge[2]));
  if (graph.parameters.length) used.add(2);
  const checks = EDGE_WORDS.map((word, kind) => (used.has(kind) ? el("label", { title: EDGE_CLASSES[kind] }, el("input", { type: "checkbox", "data-edge": EDGE_CLASSES[kind], checked: shownEdges.has(kind), onchange: (event) => { if (event.target.checked) shownEdges.add(kind); else shownEdges.delete(kind); redraw(draw); } }), word) : null));
  const stack = el("button", { id: "stack", "aria-pressed": "false", onclick: () => { isStacked = !isStacked; stack.setAttribute("aria-pressed", String(isStacked)); place(); unit = 0; x0 = -1; redraw(draw); } }, "stack equal parts");
  const names = el("div", { class: "bar names" });
  const drawNames = () => names.replaceChildren(el("span", { class: "soft" }, spaces.length ? "namespaces:" : ""), ...spaces.slice(0, 60).map((space) => {
    const color = chosen.indexOf(space), dot = el("i", {});
    const made = el("button", { "data-space": space, "aria-pressed": String(color >= 0), disabled: color < 0 && chosen.length >= SPACE_COLORS.length, onclick: () => {
      if (color >= 0) chosen.splice(color, 1); else { chosen.push(space); const i = graph.nodes.findIndex((node, k) => node[6] === space && xs[k] >= 0); if (i >= 0) reveal(i); }
      drawNames(); redraw(draw);
    } }, cutTo(space, 40));
    if (color >= 0) { made.style.background = SPACE_COLORS[color]; made.style.borderColor = SPACE_COLORS[color]; made.style.color = "#14171b"; }
    return dot && made;
  }), spaces.length > 60 ? el("span", { class: "soft" }, `and ${number(spaces.length - 60)} more`) : "");
  add(body, el("div", { class: "bar" }, checks, graph.stacks.length ? stack : null, el("button", { onclick: () => scaleBy(1.6), "aria-label": "zoom in" }, "+"), el("button", { onclick: () => scaleBy(1 / 1.6), "aria-label": "zoom out" }, "−"), el("span", { class: "grow" }), pictures(() => body, { name: "strategy", title: "operators in execution order", canvas, draw, note: () => "left to right: the order of execution" }), tableButton("operators")),
    spaces.length ? names : null, el("div", { class: "flex" }, el("div", { class: "chart" }, canvas, map), side),
    el("div", { class: "legend" }, el("span", {}, "● computation"), el("span", {}, "◆ communication"), el("span", {}, "solid rim: partitioned output"), el("span", {}, "dashed rim: redistribution"), el("span", {}, "boxed numbers: cuts of each dimension"), EDGE_WORDS.map((word, kind) => { if (!used.has(kind)) return null; const line = el("i", {}); line.style.background = `var(--${EDGE_COLORS[kind]})`; return el("span", {}, line, `edge: ${word}`); })),
    graph.cut ? el("p", { class: "soft" }, `${number(graph.cut)} more operators are in the tables of actions only.`) : null);
  drawNames();
  findStep();
  place();
  draw();
  drawSide();
  follow((change) => {
    if ("op" in change || "ranks" in change) { drawSide(); const i = graph.nodes.findIndex((_, k) => isSelected(k)); if (i >= 0) reveal(i); }
    if ("iteration" in change) { findStep(); const i = graph.nodes.findIndex((_, k) => xs[k] >= 0 && inStep && !isFaint(k)); if (i >= 0) pan(xs[i] - 0.6); }
    if (["op", "ranks", "iteration", "theme"].some((field) => field in change)) redraw(draw);
  });
  addEventListener("resize", () => redraw(draw));
  body.probe = { hit, at, choose, stacked: () => xs.filter((x) => x < 0).length, view: () => ({ x0, unit, longest }) };
  strategyProbe = body.probe;
}
let strategyProbe = null;

function countBy(values) {
  const out = new Map();
  for (const value of values) out.set(value, (out.get(value) || 0) + 1);
  return out;
}

const cutTo = (text, length) => (text.length <= length ? text : length < 2 ? "" : `${text.slice(0, Math.max(1, length - 1))}…`);

// The stages with their messages, small (VD-16).
function stagePicture(graph) {
  const counts = countBy(graph.edges.filter((edge) => edge[2] === 6).map(([s, t]) => `${graph.nodes[s][0]} ${graph.nodes[t][0]}`));
  const n = graph.blocks.length, step = 34, made = svg("svg", { width: 220, height: n * step + 8, role: "img", "aria-label": "stages and their messages" });
  for (const [key, count] of counts) {
    const [a, b] = key.split(" ").map(Number), down = b > a, far = Math.abs(b - a);
    const x = down ? 96 : 84, bow = 12 + far * 13, y0 = a * step + 16, y1 = b * step + 16;
    made.append(svg("path", { d: down ? `M${x + 4} ${y0}q${bow} ${(y1 - y0) / 2} 0 ${y1 - y0}` : `M6 ${y0}q${-Math.min(6, bow)} ${(y1 - y0) / 2} 0 ${y1 - y0}`, fill: "none", stroke: down ? "var(--send)" : "var(--recv)", "stroke-width": 1.5 }));
    if (down) made.append(svg("text", { x: x + 8 + bow / 2, y: (y0 + y1) / 2 + 4, "font-size": 11, fill: "var(--soft)" }, `${count} ↓`));
  }
  graph.blocks.forEach((block, i) => {
    made.append(svg("rect", { x: 6, y: i * step + 4, width: 94, height: 24, rx: 4, fill: "var(--faint)", stroke: "var(--line)" }));
    made.append(svg("text", { x: 53, y: i * step + 20, "text-anchor": "middle", "font-size": 11.5, fill: "var(--ink)" }, block.stages.length ? `stage ${block.stages.join(", ")}` : `program ${i + 1}`));
  });
  return made;
}
