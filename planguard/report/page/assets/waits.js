// The wait-for graph of a finding, and its witness step by step.

// Findings with something to show here, the cause first.
function shownWaits() {
  const order = D.verdict.order || D.verdict.findings.map((_, at) => at);
  return order.map((at) => D.verdict.findings[at]).filter((finding) => finding.cycle.length || (finding.witness && finding.witness.steps.length));
}

function waitsPanel(body) {
  const chosen = shownWaits();
  let finding = chosen[0], playing = null;
  const graph = el("div", {}), lanes = el("div", { class: "lanes" }), said = el("p", { class: "soft", "aria-live": "polite" });
  const slider = el("input", { type: "range", min: 0, step: 1, "aria-label": "step of the witness",
    oninput: () => { stop(); put({ step: Number(slider.value) }); } });
  const play = el("button", { id: "play", onclick: () => (playing === null ? begin() : stop()) }, "play");
  const before = el("div", {});
  const pick = el("select", { "aria-label": "finding", onchange: () => { stop(); finding = chosen[pick.value]; put({ step: null }); draw(); } },
    chosen.map((f, at) => el("option", { value: at }, `${f.code} ${f.name}`)));
  const begin = () => {
    play.textContent = "stop";
    if (step() >= Number(slider.max)) put({ step: 0 });
    // A long witness is over within twelve seconds.
    playing = setInterval(() => (!body.isConnected || step() >= Number(slider.max) ? stop() : put({ step: step() + 1 })), Math.max(40, Math.min(600, 12000 / Number(slider.max))));
  };
  const stop = () => { clearInterval(playing); playing = null; play.textContent = "play"; };
  const step = () => Math.min(S.step === undefined ? Number(slider.max) : S.step, Number(slider.max));

  function draw() {
    const steps = finding.witness ? finding.witness.steps : [];
    slider.max = steps.length;
    for (const control of controls) control.hidden = steps.length === 0;
    graph.replaceChildren(finding.cycle.length ? waitGraph(finding) : el("p", { class: "soft" }, finding.witness && finding.witness.end === "mismatch" ? "These actions meet and do not agree." : "Nobody waits in a circle here: the actions that are stuck have no partner."));
    if (finding.cycle.length) graph.append(pictures(() => graph, { name: "waits", title: "who waits for whom", picture: () => graph.querySelector("svg"), note: () => `${finding.code}: ${finding.message}` }));
    move();
  }

  function move() {
    const at = step();
    slider.value = at;
    const witness = finding.witness;
    if (!witness) {
      lanes.replaceChildren();
      said.textContent = "No witness of this finding was kept.";
      return;
    }
    const last = witness.steps[at - 1];
    said.textContent = at === 0 ? `step 0 of ${witness.steps.length}: nothing has run`
      : `step ${at} of ${witness.steps.length}: rank ${last[0]} ${eventWord(last[2])} #${last[1]}` +
        (at === witness.steps.length ? (witness.end === "stuck" ? "; now nothing can go on" : "; what meets here does not agree") : "");
    lanes.replaceChildren(...witnessLanes(witness, at));
  }

  const controls = [el("label", {}, "step", slider), play,
    el("button", { onclick: () => { stop(); put({ step: Math.max(0, step() - 1) }); }, "aria-label": "one step back" }, "◀"),
    el("button", { onclick: () => { stop(); put({ step: Math.min(Number(slider.max), step() + 1) }); }, "aria-label": "one step on" }, "▶")];
  add(body,
    el("div", { class: "bar" }, chosen.length > 1 ? el("label", {}, "finding", pick) : null, controls, D.queues && D.queues.rows.length ? tableButton("queues") : null),
    said, el("div", { class: "waits" }, graph, lanes), before);
  if (D.repaired) before.append(beside());
  follow((change) => { if ("step" in change) move(); });
  draw();
  // The witness plays by itself, once; who asked for less motion, or for a step, sees its end.
  if (Number(slider.max) && S.step === undefined && !matchMedia("(prefers-reduced-motion: reduce)").matches) begin();
  addEventListener("beforeprint", () => { if (playing !== null) { stop(); put({ step: null }); } });
}

const eventWord = (event) => ({ issue: "issues", start: "starts", complete: "completes", flush: "flushes", wait: "waits in" }[event] || event);

// Nodes stand on a circle in the order of the cycle; an arrow says what its tail waits for.
function waitGraph(finding) {
  const nodes = [], at = new Map();
  const node = (place, isStuck) => {
    const key = `${place.rank} ${place.action}`;
    if (!at.has(key)) { at.set(key, nodes.length); nodes.push({ ...place, isStuck: false }); }
    if (isStuck) nodes[at.get(key)].isStuck = true;
    return at.get(key);
  };
  const edges = [];
  for (const edge of finding.cycle.slice(0, 24)) {
    const from = node(edge.at, true);
    if (!edge.for) continue;
    const to = node(edge.for, false);
    edges.push([from, to, edge.why, edge.sentence]);
    if (edge.behind && (edge.behind.rank !== edge.for.rank || edge.behind.action !== edge.for.action)) {
      edges.push([to, node(edge.behind, true), "after", `rank ${edge.for.rank} gets there only after this`]);
    }
  }
  const n = nodes.length, tall = n < 3 ? 70 : 60 + n * 17, wide = n < 3 ? 90 : 110 + n * 15;
  const middle = [wide + 84, tall + 30];
  const made = svg("svg", { viewBox: `0 0 ${middle[0] * 2} ${middle[1] * 2}`, role: "img", "aria-label": "wait-for graph" });
  const marker = svg("marker", { id: "tip-of-arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto" });
  marker.append(svg("path", { d: "M0 0L8 4L0 8z", fill: "context-stroke" }));
  const defs = svg("defs");
  defs.append(marker);
  made.append(defs);
  const where = nodes.map((_, i) => {
    const angle = (i / nodes.length) * 2 * Math.PI - Math.PI / 2;
    return [middle[0] + wide * Math.cos(angle), middle[1] + tall * Math.sin(angle)];
  });
  for (const [from, to, why, sentence] of edges) {
    const [x1, y1] = where[from], [x2, y2] = where[to];
    const dx = x2 - x1, dy = y2 - y1, far = Math.hypot(dx, dy) || 1;
    const bend = edges.some((e) => e[0] === to && e[1] === from) ? 34 : 16;
    const cx = (x1 + x2) / 2 - (dy / far) * bend, cy = (y1 + y2) / 2 + (dx / far) * bend;
    const cut = (ax, ay, bx, by) => { // stop at the border of a box of 2 x 78 by 2 x 21
      const k = Math.min(80 / Math.max(1e-6, Math.abs(bx - ax)), 23 / Math.max(1e-6, Math.abs(by - ay)), 1);
      return [ax + (bx - ax) * k, ay + (by - ay) * k];
    };
    const [sx, sy] = cut(x1, y1, cx, cy), [tx, ty] = cut(x2, y2, cx, cy);
    const isWait = why !== "after";
    const line = svg("path", { d: `M${sx.toFixed(1)} ${sy.toFixed(1)}Q${cx.toFixed(1)} ${cy.toFixed(1)} ${tx.toFixed(1)} ${ty.toFixed(1)}`, fill: "none", stroke: isWait ? "var(--bad)" : "var(--soft)", "stroke-width": isWait ? 2 : 1.3, "stroke-dasharray": isWait ? "none" : "4 3", "marker-end": "url(#tip-of-arrow)" });
    line.append(svg("title", {}, sentence));
    made.append(line);
    // Beside the middle of the curve, on the side away from the middle of the picture.
    const mx = (cx + (x1 + x2) / 2) / 2, my = (cy + (y1 + y2) / 2) / 2, out = Math.hypot(mx - middle[0], my - middle[1]);
    const [ox, oy] = out > 12 ? [(mx - middle[0]) / out, (my - middle[1]) / out] : [-dy / far, dx / far];
    const text = svg("text", { x: (mx + ox * 26).toFixed(1), y: (my + oy * 15 + 4).toFixed(1), "text-anchor": "middle", class: "why" }, isWait ? (far > 260 ? `waits: ${why}` : "waits") : "after");
    made.append(text);
  }
  nodes.forEach((node, i) => {
    const [x, y] = where[i];
    const box = svg("g", { tabindex: 0, role: "button", "aria-label": `rank ${node.rank} action ${node.action} ${node.text}` });
    box.append(svg("rect", { x: x - 78, y: y - 21, width: 156, height: 42, rx: 6, fill: "var(--card)", stroke: node.isStuck ? "var(--bad)" : "var(--line)", "stroke-width": node.isStuck ? 2 : 1.2 }));
    box.append(svg("text", { x, y: y - 4, "text-anchor": "middle", "font-weight": 600 }, `rank ${node.rank} #${node.action}`));
    box.append(svg("text", { x, y: y + 12, "text-anchor": "middle" }, node.text.length > 24 ? `${node.text.slice(0, 23)}…` : node.text));
    box.append(svg("title", {}, node.text));
    const choose = () => put({ ranks: [node.rank], op: [node.rank, node.action, 0] });
    box.addEventListener("click", choose);
    box.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(); });
    made.append(box);
  });
  return made;
}

// One column per rank with the actions the witness keeps; their state after so many steps.
function witnessLanes(witness, step) {
  const state = new Map(), order = new Map();
  witness.steps.slice(0, step).forEach(([rank, action, event], at) => {
    state.set(`${rank} ${action}`, event === "complete" ? "done" : "open");
    order.set(`${rank} ${action}`, at + 1);
  });
  if (step === witness.steps.length && witness.end === "stuck") {
    for (const [rank, action] of witness.blocked) state.set(`${rank} ${action}`, "stuck");
  }
  const places = new Map();
  for (const finding of D.verdict.findings) {
    const found = [finding.primary, ...finding.related, ...finding.cycle.flatMap((e) => [e.at, e.for, e.behind])];
    for (const place of found) if (place) places.set(`${place.rank} ${place.action}`, place.text);
  }
  const ranks = [...new Set(witness.actions.map(([rank]) => rank))].sort((a, b) => a - b);
  const words = { open: "under way", done: "done", stuck: "stuck", later: "not reached" };
  const absent = new Map(((D.verdict.cause && D.verdict.cause.stopped) || []).map((row) => [row[0], row]));
  const lanes = [...absent.keys(), ...ranks.filter((rank) => !absent.has(rank))];
  return lanes.slice(0, 64).map((rank) => el("div", {}, el("h3", {}, `rank ${rank}`, absent.has(rank) ? el("span", { class: "stopped" }, "stopped here") : null),
    absent.has(rank) ? el("p", { class: "soft" }, absent.get(rank)[2] === null ? absent.get(rank)[1] : `${absent.get(rank)[1]} #${absent.get(rank)[2]} ${absent.get(rank)[3]}`) : null,
    witness.actions.filter(([r]) => r === rank).slice(0, 200).map(([, action]) => {
      const key = `${rank} ${action}`, is = state.get(key) || "later";
      const i = T ? findSpan(T, rank, action) : -1;
      const text = places.get(key) || (i < 0 ? "" : operation(T, i).op);
      return el("div", { class: "act", "data-state": is, onclick: () => put({ ranks: [rank], op: [rank, action, 0] }) },
        el("em", {}, order.has(key) ? `${words[is]}, step ${order.get(key)}` : words[is]), `#${action} ${text}`);
    })));
}

// The plan as it stands and repaired, over the same scale of time.
function beside() {
  const after = timeline(D.repaired, "repaired.");
  return el("div", {}, el("h3", {}, "The repaired plan beside it"), overEachOther([
    [T.head.complete ? `as planned, if it ran: ${us(T.head.makespan)} (${T.head.basis})` : "as planned: never completes", "as-planned", T],
    [`repaired: completes in ${us(after.head.makespan)} (${after.head.basis})`, "repaired", after]]));
}
