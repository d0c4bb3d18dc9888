// Put the page together: the header, the panels in their order, what the address asks for.

function header() {
  document.getElementById("head").append(
    el("h1", {}, D.title),
    el("span", { class: "outcome", "data-is": D.verdict.outcome }, D.verdict.outcome.replace("_", " ")),
    el("span", { class: "grow" }, `${plural(D.world, "rank")}, ${plural(D.left.actions, "action")} · PlanGuard ${D.version}`),
    ...dressing());
}

// What is chosen, at the foot of the page, with the way into the other views.
function selectionBar() {
  const bar = document.getElementById("selection");
  const draw = () => {
    const parts = [];
    const i = S.op && T ? findSpan(T, S.op[0], S.op[1], S.op[2]) : -1;
    if (i >= 0) {
      const o = operation(T, i);
      const facts = [["label", o.label], ["group", o.group], ["size", o.size === null ? "" : bytes(o.size)], ["peer", o.peer === null ? "" : `rank ${o.peer}`],
        ["stage", o.stage === null ? "" : `${o.stage}`], ["microbatch", o.mb === null ? "" : `${o.mb}`], ["FLOPs", o.flops ? flops(o.flops) : ""],
        ["namespace", o.ns], ["phase", o.phase], ["shape", o.shape], ["time", timesText(T, i)], ["source", o.source]];
      parts.push(el("b", {}, `rank ${o.rank} #${o.action}  ${o.name === o.op ? o.op : `${o.op} ${o.name}`}`),
        el("dl", {}, facts.filter(([, value]) => value).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))));
    } else if (S.op) parts.push(el("b", {}, `rank ${S.op[0]} #${S.op[1]}`));
    else if (S.ranks && S.ranks.length && S.ranks.length < D.world) parts.push(el("b", {}, `rank${S.ranks.length === 1 ? "" : "s"} ${rankSet(S.ranks)}`), el("span", { class: "soft" }, "chosen in every view"));
    if (parts.length) {
      const go = [["timeline", "timeline"], ["matrices", "matrices"], ["strategy", "strategy"], ["topology", "topology"], ["tables", "tables"]];
      parts.push(el("span", {}, go.filter(([id]) => panels[id]).map(([id, text]) => el("button", { onclick: () => show(id) }, text))),
        el("button", { id: "clear", "aria-label": "clear the selection", onclick: () => put({ ranks: null, op: null, group: null, stage: null }) }, "✕"));
    }
    bar.replaceChildren(...parts);
    bar.classList.toggle("on", parts.length > 0);
  };
  follow((change) => { if ("ranks" in change || "op" in change) draw(); });
  draw();
}

async function start() {
  await load(document.getElementById("data").textContent);
  performance.mark("decoded");
  document.getElementById("main").replaceChildren();
  document.title = `${D.verdict.outcome.replace("_", " ")}: ${D.title}`;
  Object.assign(S, recall());
  const asked = S.open;
  T = D.time ? timeline(D.time, "") : null;
  const isTimeless = T !== null && T.head.basis === "measured" && !(T.head.makespan > 0);
  if (isTimeless) T = null; // logs and stacks: what stands there has no times
  performance.mark("arranged");
  header();
  const said = D.verdict;
  const waiting = shownWaits();
  if (said.cause) document.getElementById("main").append(el("div", { id: "first" }));
  if (waiting.length) panel("waits", "Who waits for whom", waiting.some((one) => one.witness) ? "the witness, step by step" : "where the run ends", waitsPanel);
  panel("verdict", "Verdict and findings", plural(said.findings.length, "finding"), verdictPanel);
  if (T && T.total) panel("timeline", "Timeline", `${us(T.head.makespan)} ${T.head.basis}${T.head.complete ? "" : "; some ranks never end"}`, timelinePanel);
  if (T && D.inside) panel("inside", "Inside a rank", "threads, streams, counters, memory", insidePanel);
  if (T && T.last > 0) panel("overview", "Training overview", T.head.steps.length ? `${plural(T.head.steps.length, "step")}, ${T.head.basis}` : `one ${T.head.basis} step per device`, overviewPanel);
  if (C["edge.src"].length) panel("matrices", "Communication matrices", patternText(D.traffic.views[0]), matricesPanel);
  if (D.strategy.nodes.length) panel("strategy", "Parallelism strategy", `${plural(D.strategy.nodes.length, "operator")} in ${plural(D.strategy.blocks.length, "program")}`, strategyPanel);
  if (D.topology.links.length) panel("topology", "Devices and links", D.topology.stated ? "from the plan's topology" : "the plan states no topology: link types are unknown", topologyPanel);
  panel("tables", "Tables", "the numbers behind every chart", tablesPanel);
  if (D.numbers.length) {
    const verdict = document.getElementById("panel-verdict");
    if (said.audit) verdict.after(numbersBox()); else verdict.before(numbersBox()); // of an audit, the culprit first
  }
  if (said.cause) document.getElementById("first").replaceWith(causeBox(said.cause));
  if (D.left.drawn !== "all" || !T) notice(isTimeless);
  // The culprit of an audit is marked in every view from the start.
  const culprit = said.audit && !S.ranks ? said.audit.culprit : [];
  if (culprit.length && culprit.length < D.world) S.ranks = culprit.slice(0, 4096);
  selectionBar();
  const first = asked || (waiting.length ? ["waits", "verdict", "timeline"] : ["verdict", "timeline"]);
  for (const id of first) {
    if (!panels[id]) continue;
    panels[id].made.open = true;
    panels[id].fill();
  }
  addEventListener("hashchange", () => {
    const found = recall();
    const change = {};
    for (const name of Object.keys(FIELDS)) if (name !== "open" && name !== "fold") change[name] = found[name] === undefined ? null : found[name];
    put(change);
  });
  requestAnimationFrame(() => setTimeout(() => {
    performance.mark("drawn");
    document.documentElement.dataset.drawn = Math.round(performance.now());
  }));
}

function notice(isTimeless) {
  const text = isTimeless
    ? "The files say no times: the timeline is left out."
    : D.left.drawn === "all"
    ? `${number(D.left.actions)} actions are too many to simulate: the timeline is left out.`
    : D.left.drawn === "folded"
    ? `The timeline shows ${number(D.left.ranks)} of ${number(D.world)} ranks: the others run as they do, at the same times.`
    : D.left.drawn === "classes"
    ? `The whole plan would pass 5 MB: the timeline shows one rank of every class of equal ranks, ${number(D.left.ranks)} of ${number(D.world)}.`
    : "The whole plan would pass 5 MB: the timeline is left out.";
  document.getElementById("head").append(el("p", { class: "soft" }, text));
}

start().catch((error) => {
  document.getElementById("main").textContent = `This page could not be drawn: ${error.message}. It needs a browser with DecompressionStream (since 2023); planguard check says the same in text.`;
});

// For tests and for the curious: what is drawn, and the state.
globalThis.planguard = {
  get data() { return D; }, get state() { return S; }, get inks() { return inks; }, get time() { return T; }, get plot() { return plot; }, get strategy() { return strategyProbe; }, get topology() { return topologyProbe; }, get inside() { return insideProbe; },
  put, show, recall, matrixOf, within: (row, low, high) => within(T, row, low, high), span: (rank, action) => findSpan(T, rank, action), text: (i) => spanText(T, i),
};
