// Devices and links; chosen devices become a matrix of bars and boxplots in place (NodeTrix).

const LINK_COLORS = ["#6c00fc", "#904800", "#a8c0b4", "#90a8fc", "#6c6c78", "#e49000"];

function topologyPanel(body) {
  const links = D.topology.links;
  const types = [...new Set(links.map((link) => link.type || "unknown"))].sort();
  const color = (link) => (link.type ? LINK_COLORS[types.indexOf(link.type) % LINK_COLORS.length] : colors.soft);
  const canvas = el("canvas", { tabindex: 0, role: "application", "aria-label": "devices and links; draw a loop around devices or choose a link to see their matrix" });
  const matrix = el("canvas", { tabindex: 0, role: "img", "aria-label": "links of the chosen devices: rows are sources, columns are targets" });
  const said = el("p", { class: "soft" });
  const SIDE = 430, REACH = 152;
  const groups = [...new Set(D.topology.nodes)];
  const isMeasured = D.topology.measured; // durations and bandwidth are then a trace's, of links that have any
  const timeOf = (link) => (isMeasured ? (link.measured ? link.measured.time : 0) : link.time);
  const timesOf = (link) => (isMeasured ? (link.measured ? link.measured.times : []) : link.times);
  const widthOf = (link) => (isMeasured ? (link.measured ? link.measured.bandwidth : 0) : link.stated ? link.bandwidth : 0);
  const widthsOf = (link) => (link.measured ? link.measured.bandwidths : []);
  const basis = T ? T.head.basis : "modeled";
  let costs, mostCost, moved, mostBytes;
  // Costs of devices and bytes of links: of the whole run, or of the chosen step.
  function weigh() {
    const step = chosenStep(), ranks = T ? T.head.ranks : [];
    costs = new Map(ranks.map((r, row) => { const own = step ? step.devices[row] || { communication: 0, waiting: 0 } : r; return [r.rank, [own.communication, own.waiting]]; }));
    mostCost = Math.max(1e-9, ...[...costs.values()].map(([a, b]) => a + b));
    moved = new Map(links.map((link) => [link.pair.join(), step ? 0 : link.bytes]));
    for (let i = 0; step && i < C["edge.src"].length; i++) {
      const pair = `${C["edge.src"][i]},${C["edge.dst"][i]}`;
      if (C["edge.step"][i] === S.iteration && moved.has(pair)) moved.set(pair, moved.get(pair) + C["edge.bytes"][i]);
    }
    mostBytes = Math.max(1, ...moved.values());
  }
  weigh();
  const ordered = Array.from({ length: D.world }, (_, rank) => rank).sort((a, b) => groups.indexOf(D.topology.nodes[a]) - groups.indexOf(D.topology.nodes[b]) || a - b);
  const gaps = groups.length > 1 ? groups.length : 0;
  const where = new Map();
  let turn = 0;
  ordered.forEach((rank, i) => {
    if (i && D.topology.nodes[rank] !== D.topology.nodes[ordered[i - 1]]) turn += 1;
    const angle = ((i + turn) / (D.world + gaps)) * 2 * Math.PI - Math.PI / 2 + (D.world === 2 ? Math.PI / 2 : 0);
    where.set(rank, [SIDE / 2 + REACH * Math.cos(angle), SIDE / 2 + REACH * Math.sin(angle)]);
  });
  let lasso = null;
  const sizesSaid = "node size: communication and waiting; node color: share of communication in it (bright: all); line width: bytes";

  const bend = (link) => {
    const [x1, y1] = where.get(link.pair[0]), [x2, y2] = where.get(link.pair[1]);
    const far = Math.hypot(x2 - x1, y2 - y1) || 1;
    return [(x1 + x2) / 2 - ((y2 - y1) / far) * far * 0.1, (y1 + y2) / 2 + ((x2 - x1) / far) * far * 0.1];
  };
  function draw() {
    const context = sized(canvas, SIDE, SIDE);
    const chosen = new Set((S.ranks || []).length < D.world || D.world <= 12 ? S.ranks || [] : []);
    context.font = FONT;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (const link of links) {
      const [x1, y1] = where.get(link.pair[0]), [x2, y2] = where.get(link.pair[1]), [cx, cy] = bend(link);
      const isOn = chosen.has(link.pair[0]) && chosen.has(link.pair[1]);
      context.strokeStyle = color(link);
      context.globalAlpha = chosen.size && !isOn ? 0.2 : link.operators ? 0.85 : 0.3;
      context.lineWidth = 1 + (Math.log(1 + moved.get(link.pair.join())) / Math.log(1 + mostBytes)) * 3;
      context.setLineDash(link.operators ? [] : [3, 3]);
      context.beginPath();
      context.moveTo(x1, y1);
      context.quadraticCurveTo(cx, cy, x2, y2);
      context.stroke();
      const ax = (cx * 2 + x1 + x2) / 4, ay = (cy * 2 + y1 + y2) / 4, angle = Math.atan2(y2 - y1, x2 - x1); // a head in the middle
      if (links.length < 400) {
        context.setLineDash([]);
        context.fillStyle = color(link);
        context.beginPath();
        context.moveTo(ax + 6 * Math.cos(angle), ay + 6 * Math.sin(angle));
        context.lineTo(ax + 5 * Math.cos(angle + 2.5), ay + 5 * Math.sin(angle + 2.5));
        context.lineTo(ax + 5 * Math.cos(angle - 2.5), ay + 5 * Math.sin(angle - 2.5));
        context.fill();
      }
    }
    context.globalAlpha = 1;
    context.setLineDash([]);
    const least = D.world > 64 ? 3 : 9;
    for (const rank of ordered) {
      const [x, y] = where.get(rank), cost = costs.get(rank);
      const total = cost ? cost[0] + cost[1] : 0;
      const radius = least + (total / mostCost) * (D.world > 64 ? 4 : 9);
      context.fillStyle = total ? ramp(cost[0] / total) : colors.none;
      context.beginPath();
      context.arc(x, y, radius, 0, 7);
      context.fill();
      context.strokeStyle = chosen.has(rank) ? colors.bad : colors.ink;
      context.lineWidth = chosen.has(rank) ? 3 : 1;
      context.stroke();
      context.fillStyle = colors.ink;
      const away = 1 + (radius + 11) / REACH;
      if (D.world <= 64) context.fillText(`${rank}`, SIDE / 2 + (x - SIDE / 2) * away, SIDE / 2 + (y - SIDE / 2) * away);
    }
    if (groups.length > 1) {
      context.fillStyle = colors.soft;
      for (const group of groups) {
        const own = ordered.filter((rank) => D.topology.nodes[rank] === group).map((rank) => where.get(rank));
        const mx = own.reduce((sum, [x]) => sum + x, 0) / own.length - SIDE / 2, my = own.reduce((sum, [, y]) => sum + y, 0) / own.length - SIDE / 2;
        const far = Math.hypot(mx, my) || 1;
        context.fillText(group === null ? "node ?" : `node ${group}`, SIDE / 2 + (mx / far) * 193, SIDE / 2 + (my / far) * 200);
      }
    }
    context.lineWidth = 1;
    if (lasso) {
      context.strokeStyle = colors.accent;
      context.fillStyle = colors.accent;
      context.beginPath();
      lasso.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
      context.closePath();
      context.globalAlpha = 0.12;
      context.fill();
      context.globalAlpha = 1;
      context.stroke();
    }
    drawLinks();
  }

  let cells = { ranks: [], size: 1 }, scale = null;
  function drawLinks() {
    const picked = (S.ranks || []).filter((rank) => rank < D.world);
    const ranks = picked.length > 1 ? picked.slice(0, 12) : D.world <= 6 ? ordered : picked.length === 1 ? [picked[0], ...links.filter((l) => l.pair.includes(picked[0])).map((l) => l.pair.find((r) => r !== picked[0]))].filter((r, i, all) => all.indexOf(r) === i).slice(0, 8) : [];
    if (!ranks.length) { said.textContent = "Draw a loop around devices, or choose a link: their matrix appears here."; sized(matrix, 10, 10); return; }
    said.textContent = "";
    ranks.sort((a, b) => a - b);
    const size = Math.max(38, Math.min(150, 520 / ranks.length)), left = 54, top = 30;
    cells = { ranks, size, left, top };
    const context = sized(matrix, left + size * ranks.length + 8, top + size * ranks.length + 8);
    const inside = links.filter((l) => ranks.includes(l.pair[0]) && ranks.includes(l.pair[1]));
    const most = { time: Math.max(1e-9, ...inside.map(timeOf)), bytes: Math.max(1, ...inside.map((l) => l.bytes)), isWide: inside.some((l) => widthOf(l) > 0), width: Math.max(1, ...inside.map(widthOf)), oneWidth: Math.max(1, ...inside.flatMap(widthsOf)), one: Math.max(1, ...inside.flatMap((l) => l.sizes)), oneTime: Math.max(1e-9, ...inside.flatMap(timesOf)) };
    scale = most;
    context.font = FONT;
    context.textBaseline = "middle";
    context.textAlign = "center";
    ranks.forEach((rank, i) => {
      context.fillStyle = colors.ink;
      context.fillText(`${rank}`, left + (i + 0.5) * size, top - 8);
      context.fillText(`${rank}`, left - 10, top + (i + 0.5) * size);
    });
    context.fillStyle = colors.soft;
    context.fillText("target", left + (size * ranks.length) / 2, 8);
    context.save();
    context.translate(14, top + (size * ranks.length) / 2);
    context.rotate(-Math.PI / 2);
    context.fillText("source", 0, 0);
    context.restore();
    context.textAlign = "left";
    for (const [row, src] of ranks.entries()) {
      for (const [col, dst] of ranks.entries()) {
        const link = inside.find((l) => l.pair[0] === src && l.pair[1] === dst), x = left + col * size, y = top + row * size;
        context.fillStyle = colors.card;
        context.fillRect(x, y, size - 2, size - 2);
        if (link) drawLink(context, link, x, y, size - 2, most, color(link));
        context.strokeStyle = colors.line;
        context.strokeRect(x + 0.5, y + 0.5, size - 3, size - 3);
      }
    }
  }

  // What a bar, and a boxplot, is that fills its cell.
  const scaleSaid = () => (scale === null ? "no link chosen" : `bars: sums of a link, full at ${us(scale.time)}, ${bytes(scale.bytes)}${scale.isWide ? `, ${bytes(scale.width)}/s` : ""}; boxplots: its operators, full at ${us(scale.oneTime)}, ${bytes(scale.one)}${scale.isWide ? `, ${bytes(scale.oneWidth)}/s` : ""}`);

  // Bars: duration, bytes, bandwidth, of the run where it was measured; boxplots: per operator.
  function drawLink(context, link, x, y, size, most, tint) {
    context.fillStyle = tint;
    context.globalAlpha = 0.16;
    context.fillRect(x, y, size, size);
    context.globalAlpha = 1;
    const metrics = [[timeOf(link) / most.time, timesOf(link).map((t) => t / most.oneTime), colors.collective], [link.bytes / most.bytes, link.sizes.map((s) => s / most.one), colors.recv], [widthOf(link) / most.width, widthsOf(link).map((w) => w / most.oneWidth), colors.forward]];
    const step = (size - 8) / 3, bar = Math.max(3, step * 0.42);
    metrics.forEach(([share, box, shade], at) => {
      const top = y + 4 + at * step, wide = size - 8;
      context.fillStyle = shade;
      context.fillRect(x + 4, top, Math.max(share > 0 ? 1.5 : 0, wide * share), bar);
      if (!box.length || size < 60 || !(box[4] > 0)) return;
      const middle = top + bar + step * 0.24, [low, q1, q2, q3, high] = box.map((value) => x + 4 + value * wide);
      context.strokeStyle = colors.ink;
      context.beginPath();
      context.moveTo(low, middle); context.lineTo(high, middle);
      for (const end of [low, high]) { context.moveTo(end, middle - 3); context.lineTo(end, middle + 3); }
      context.stroke();
      context.fillStyle = shade;
      context.fillRect(q1, middle - 3, Math.max(1, q3 - q1), 6);
      context.strokeRect(q1, middle - 3, Math.max(1, q3 - q1), 6);
      context.beginPath();
      context.moveTo(q2, middle - 4); context.lineTo(q2, middle + 4);
      context.stroke();
    });
  }

  const measuredText = (l) => (l.measured ? `measured: ${us(l.measured.time)} for ${plural(l.measured.operators, "operator")}, ${bytes(l.measured.bandwidth)}/s${l.measured.rounds ? ", in rounds at the pace of their slowest link" : ""}\n` : isMeasured ? "measured: no duration of this link\n" : "");
  const linkText = (l) => `${l.pair[0]} → ${l.pair[1]}  ${l.type || "link type unknown"}\n${bytes(l.bytes)} by ${plural(l.operators, "operator")}, ${us(l.time)} (modeled)\n${measuredText(l)}${l.stated ? "stated" : "assumed"} bandwidth ${bytes(l.bandwidth)}/s, latency ${us(l.latency)}${l.sizes.length ? `\nbytes per operator: ${bytes(l.sizes[0])} to ${bytes(l.sizes[4])}, median ${bytes(l.sizes[2])}` : ""}`;
  const spot = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  const nodeAt = ([x, y]) => ordered.find((rank) => Math.hypot(where.get(rank)[0] - x, where.get(rank)[1] - y) < (D.world > 64 ? 7 : 16));
  const linkAt = ([x, y]) => {
    let best = null, near = 9;
    for (const link of links) {
      const [x1, y1] = where.get(link.pair[0]), [x2, y2] = where.get(link.pair[1]), [cx, cy] = bend(link);
      for (let k = 1; k < 20; k++) {
        const t = k / 20, px = (1 - t) ** 2 * x1 + 2 * t * (1 - t) * cx + t * t * x2, py = (1 - t) ** 2 * y1 + 2 * t * (1 - t) * cy + t * t * y2;
        const far = Math.hypot(px - x, py - y);
        if (far < near) { near = far; best = link; }
      }
    }
    return best;
  };
  canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); lasso = [spot(event)]; });
  canvas.addEventListener("pointermove", (event) => {
    const at = spot(event);
    if (lasso) { lasso.push(at); redraw(draw); return; }
    const rank = nodeAt(at), link = rank === undefined ? linkAt(at) : null;
    const cost = costs.get(rank);
    tell(event, rank !== undefined ? `rank ${rank}${cost ? `\ncommunication ${us(cost[0])}, waiting ${us(cost[1])} (${basis})` : ""}` : link ? linkText(link) : "");
  });
  canvas.addEventListener("pointerup", (event) => {
    const loop = lasso || [], at = spot(event);
    lasso = null;
    const reach = loop.reduce((most, [x, y]) => Math.max(most, Math.hypot(x - loop[0][0], y - loop[0][1])), 0);
    if (reach < 6) {
      const rank = nodeAt(at), link = rank === undefined ? linkAt(at) : null;
      put({ ranks: rank !== undefined ? [rank] : link ? [...link.pair] : null, op: null });
    } else {
      const inside = ordered.filter((rank) => isInside(where.get(rank), loop));
      put({ ranks: inside.length ? inside.sort((a, b) => a - b) : null, op: null });
    }
    redraw(draw);
  });
  canvas.addEventListener("pointerleave", (event) => tell(event, ""));
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const at = ordered.indexOf((S.ranks || [])[0]);
    const next = ordered[(at + by + ordered.length) % ordered.length];
    put({ ranks: event.shiftKey && S.ranks ? [...new Set([...S.ranks, next])] : [next], op: null });
  });
  const cellAt = (event) => {
    const box = matrix.getBoundingClientRect();
    const col = Math.floor((event.clientX - box.left - cells.left) / cells.size), row = Math.floor((event.clientY - box.top - cells.top) / cells.size);
    return links.find((l) => l.pair[0] === cells.ranks[row] && l.pair[1] === cells.ranks[col]);
  };
  matrix.addEventListener("pointermove", (event) => { const link = cellAt(event); tell(event, link ? linkText(link) : ""); });
  matrix.addEventListener("pointerleave", (event) => tell(event, ""));
  matrix.addEventListener("click", (event) => { const link = cellAt(event); if (link) largest(link); });

  // VD-44: the operator at the far end of the boxplot, in every view.
  function largest(link) {
    if (!T) return;
    const row = T.rowOf.get(link.pair[0]);
    if (row === undefined) return;
    let best = -1, most = -1;
    for (let i = T.from[row]; i < T.to[row]; i++) {
      const size = T.head.operations[T.op[i]][6] || 0;
      const isHere = (T.kind[i] === 2 && T.peer[i] === link.pair[1]) || T.kind[i] === 1;
      if (isHere && size > most) { most = size; best = i; }
    }
    if (best >= 0) put({ op: [link.pair[0], T.action[best], T.member[best] === ABSENT ? 0 : T.member[best]] });
  }

  add(body, el("div", { class: "bar" }, el("span", { class: "soft" }, sizesSaid), el("span", { class: "grow" }), tableButton("links")),
    el("div", { class: "flex" }, el("div", { class: "chart" }, canvas, pictures(() => body, { name: "topology", title: "devices and links", canvas, draw, note: () => `${sizesSaid}, at most ${bytes(mostBytes)} (logarithmic); largest node ${us(mostCost)}` })), el("div", { class: "chart" }, said, matrix, pictures(() => body, { name: "links", title: "links of the chosen devices", canvas: matrix, draw: drawLinks, note: scaleSaid }))),
    el("div", { class: "legend" }, types.map((type) => { const dot = el("i", {}); dot.style.background = type === "unknown" ? "var(--soft)" : LINK_COLORS[types.indexOf(type) % LINK_COLORS.length]; return el("span", {}, dot, type === "unknown" ? "link type unknown" : type); }),
      el("span", { "data-of": "links" }, el("i", { class: "k-collective" }), isMeasured ? "measured duration" : "modeled duration"), el("span", { "data-of": "links" }, el("i", { class: "k-recv" }), "bytes"), el("span", { "data-of": "links" }, el("i", { class: "k-forward" }), isMeasured ? "measured bandwidth" : "stated bandwidth")),
    el("p", { class: "soft" }, `${isMeasured ? "A duration is from when all members have come to when both ends have left; a round lasts as long as its slowest link." : "A recorded run gives measured durations and bandwidths of links."} A click on a cell chooses its largest operator in every view.`));
  draw();
  topologyProbe = { where, draw };
  follow((change) => {
    if ("iteration" in change) weigh();
    if (["ranks", "iteration", "theme"].some((field) => field in change)) redraw(draw);
  });
}
let topologyProbe = null;

function isInside([x, y], loop) {
  let odd = false;
  for (let i = 0, j = loop.length - 1; i < loop.length; j = i++) {
    const [xi, yi] = loop[i], [xj, yj] = loop[j];
    if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) odd = !odd;
  }
  return odd;
}
