// A result store: what many trials came to, which of them communicate alike, and the witness of one.

let T = null; // a store has no timeline; what verdict.js and waits.js share asks for it
const OUTCOMES = ["DEADLOCK", "MISMATCH", "POTENTIAL_DEADLOCK", "UNKNOWN", "SAFE"];
const TINTS = { DEADLOCK: "--bad", MISMATCH: "--bad", POTENTIAL_DEADLOCK: "--warn", UNKNOWN: "--unsure", SAFE: "--good" };
const PAGE = 200;
const [NAME, OUTCOME, CODE, FAMILY, REASON, PARAMS, LINK] = [0, 1, 2, 3, 4, 5, 6];

function familyOf(number) { return D.families.find((family) => family[0] === number); }

function outcomesPanel(body) {
  const counts = new Map(OUTCOMES.map((outcome) => [outcome, D.trials.filter((trial) => trial[OUTCOME] === outcome).length]));
  const most = Math.max(1, ...counts.values());
  const rows = OUTCOMES.filter((outcome) => counts.get(outcome)).map((outcome) => {
    const bar = el("i", { class: "share" });
    bar.style.width = `${Math.max(0.5, (counts.get(outcome) / most) * 100)}%`;
    bar.style.background = `var(${TINTS[outcome]})`;
    const kinds = D.families.filter((family) => family[1] === outcome).length;
    return el("tr", { tabindex: 0, "data-outcome": outcome, onclick: () => choose(outcome), onkeydown: (event) => { if (event.key === "Enter") choose(outcome); } },
      el("td", {}, el("span", { class: "outcome", "data-is": outcome }, outcome.replace("_", " "))), el("td", { class: "num" }, number(counts.get(outcome))),
      el("td", { class: "num" }, kinds ? number(kinds) : ""), el("td", { class: "wide" }, bar));
  });
  const choose = (outcome) => { put({ outcome: S.outcome === outcome ? null : outcome, family: null }); show("trials"); };
  add(body, el("table", {}, el("thead", {}, el("tr", {}, ["outcome", "trials", "skeletons", ""].map((text) => el("th", {}, text)))), el("tbody", {}, rows)),
    D.rules.map(([code, trials, text]) => el("p", {}, el("b", {}, code), ` in ${plural(trials, "trial")}: ${text}`)),
    el("p", { class: "soft" }, "A click on an outcome lists its trials."));
  const mark = () => rows.forEach((row) => row.classList.toggle("on", row.dataset.outcome === S.outcome));
  follow((change) => { if ("outcome" in change) mark(); });
  mark();
}

function familiesPanel(body) {
  const rows = D.families.slice(0, 500).map((family) => {
    const pick = () => { put({ family: S.family === family[0] ? null : family[0], outcome: null, trial: null }); show("chosen"); };
    return el("tr", { tabindex: 0, "data-family": family[0], onclick: pick, onkeydown: (event) => { if (event.key === "Enter") pick(); } },
      el("td", { class: "num" }, `${family[0]}`), el("td", {}, el("span", { class: "outcome", "data-is": family[1] }, family[1].replace("_", " "))), el("td", {}, family[2]),
      el("td", { class: "num" }, number(family[3])), el("td", { class: "num" }, number(family[6])), el("td", { class: "num" }, number(family[7])), el("td", {}, family[4]), el("td", {}, family[5]));
  });
  add(body, el("div", { class: "scroll", tabindex: 0 }, el("table", {}, el("thead", {}, el("tr", {}, ["skeleton", "outcome", "code", "trials", "ranks", "actions", "first trial", "what it says"].map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, rows))),
    D.families.length > 500 ? el("p", { class: "soft" }, `and ${number(D.families.length - 500)} more`) : null,
    el("p", { class: "soft" }, "Trials of one skeleton communicate alike and were decided once."));
  const mark = () => rows.forEach((row) => row.classList.toggle("on", Number(row.dataset.family) === S.family));
  follow((change) => { if ("family" in change) mark(); });
  mark();
}

function trialsPanel(body) {
  const outcome = el("select", { "aria-label": "outcome", id: "outcome", onchange: () => put({ outcome: outcome.value || null }) },
    [["", "every outcome"], ...OUTCOMES.map((one) => [one, one.replace("_", " ")])].map(([value, text]) => el("option", { value }, text)));
  const find = el("input", { type: "search", id: "find", placeholder: "part of a name", "aria-label": "part of a name", oninput: () => put({ find: find.value || null }) });
  const holder = el("div", { class: "scroll", tabindex: 0 }), note = el("span", { class: "soft grow" }), more = el("button", { onclick: () => { shown += PAGE; draw(); } }, "more");
  let shown = PAGE, sorted = null;
  const heads = ["trial", "outcome", "code", "skeleton", ...D.params, "why not", "plan file"];
  const value = (trial, at) => (at === 0 ? trial[NAME] : at === 1 ? trial[OUTCOME] : at === 2 ? trial[CODE] : at === 3 ? trial[FAMILY] : at < 4 + D.params.length ? trial[PARAMS][at - 4] : at === heads.length - 1 ? trial[LINK] : trial[REASON]);

  function draw() {
    outcome.value = S.outcome || "";
    if (find.value !== (S.find || "")) find.value = S.find || "";
    let order = D.trials.map((_, i) => i).filter((i) => {
      const trial = D.trials[i];
      return (!S.outcome || trial[OUTCOME] === S.outcome) && (S.family === undefined || trial[FAMILY] === S.family) && (!S.find || trial[NAME].includes(S.find));
    });
    if (sorted) {
      order.sort((a, b) => {
        const [x, y] = [value(D.trials[a], sorted.at), value(D.trials[b], sorted.at)];
        return (typeof x === "number" && typeof y === "number" ? x - y : String(x ?? "").localeCompare(String(y ?? ""))) * sorted.way;
      });
    }
    note.textContent = `${plural(order.length, "trial")}${D.trials.length < D.total ? `, of ${number(D.trials.length)} of ${number(D.total)} in the store, the unsafe ones first` : ""}`;
    more.hidden = order.length <= shown;
    const head = el("tr", {}, heads.map((text, at) => el("th", { scope: "col", "aria-sort": sorted && sorted.at === at ? (sorted.way > 0 ? "ascending" : "descending") : null },
      el("button", { onclick: () => { sorted = { at, way: sorted && sorted.at === at ? -sorted.way : 1 }; draw(); } }, text))));
    const rows = order.slice(0, shown).map((i) => {
      const trial = D.trials[i], pick = () => { put({ trial: i }); show("chosen"); };
      return el("tr", { tabindex: 0, class: S.trial === i ? "on" : null, onclick: pick, onkeydown: (event) => { if (event.key === "Enter") pick(); } },
        heads.map((_, at) => {
          const cell = value(trial, at);
          if (at === 1) return el("td", {}, el("span", { class: "outcome", "data-is": cell }, cell.replace("_", " ")));
          if (at === heads.length - 1) return el("td", {}, cell ? el("a", { href: cell, onclick: (event) => event.stopPropagation() }, "open") : "");
          return el("td", { class: typeof cell === "number" ? "num" : null }, cell === null || cell === undefined || (at === 3 && !cell) ? "" : String(cell));
        }));
    });
    holder.replaceChildren(el("table", {}, el("thead", {}, head), el("tbody", {}, rows)));
  }
  add(body, el("div", { class: "bar" }, outcome, find, el("button", { id: "all-trials", onclick: () => put({ outcome: null, family: null, find: null }) }, "all trials"), note, more), holder);
  draw();
  follow((change) => { if (["outcome", "family", "find", "trial"].some((field) => field in change)) { if (!("trial" in change)) shown = PAGE; redraw(draw); } });
}

// The trial that is chosen, or the first one of the chosen skeleton: findings, and its witness.
function chosenPanel(body) {
  function draw() {
    const trial = D.trials[S.trial], number = trial ? trial[FAMILY] : S.family;
    const family = familyOf(number), told = D.said[number];
    body.replaceChildren();
    delete panels.waits;
    if (!trial && !family) { add(body, el("p", { class: "soft" }, "Choose a trial or a skeleton above.")); return; }
    const name = trial ? trial[NAME] : family[4];
    add(body, el("div", { class: "bar" }, el("span", { class: "outcome", "data-is": trial ? trial[OUTCOME] : family[1] }, (trial ? trial[OUTCOME] : family[1]).replace("_", " ")),
      el("b", {}, name), trial && trial[LINK] ? el("a", { href: trial[LINK] }, "plan file") : null));
    if (trial && trial[REASON]) add(body, el("p", {}, trial[REASON]));
    if (trial && D.params.length) add(body, el("p", { class: "mono soft" }, D.params.map((param, at) => `${param}=${trial[PARAMS][at] ?? ""}`).join("  ")));
    add(body, el("p", { class: "mono" }, `planguard report ${JSON.stringify(name)} -o trial.html`));
    if (!told) {
      add(body, el("p", { class: "soft" }, family && ["SAFE", "UNKNOWN"].includes(family[1]) ? "No witness: nothing unsafe was found." : "The store keeps no witness, and the plan file of this skeleton's first trial is not at hand: the command above makes one."));
      return;
    }
    if (name !== family[4]) add(body, el("p", { class: "soft" }, `It communicates as ${family[4]}, whose witness this is.`));
    D.verdict = told;
    if (told.cause) add(body, causeBox(told.cause));
    for (const at of told.order) if (told.findings[at].severity === "error") add(body, findingBox(told.findings[at], at));
    if (shownWaits().length) {
      const made = el("div", {});
      panels.waits = { made, fill: () => {} };
      body.append(made);
      waitsPanel(made);
    }
    add(body, el("details", {}, el("summary", {}, "full diagnostic"), el("pre", { tabindex: 0 }, told.text)));
  }
  draw();
  follow((change) => { if ("trial" in change || "family" in change) { put({ step: null }); draw(); } });
}

async function start() {
  await load(document.getElementById("data").textContent);
  document.getElementById("main").replaceChildren();
  D.verdict = { findings: [] };
  D.repaired = null;
  D.world = 0;
  document.title = `${number(D.total)} trials: ${D.title}`;
  Object.assign(S, recall());
  const asked = S.open;
  document.getElementById("head").append(el("h1", {}, D.title), el("span", { class: "grow" }, `${plural(D.total, "trial")}, ${plural(D.kinds, "skeleton")}${D.question ? `, ${D.question}` : ""} · page by PlanGuard ${D.version}`), ...dressing());
  panel("outcomes", "Outcomes", plural(D.total, "trial"), outcomesPanel);
  panel("families", "Skeletons", "trials that communicate alike", familiesPanel);
  panel("trials", "Trials", "sortable; a click chooses one", trialsPanel);
  panel("chosen", "The chosen trial", "its findings and its witness", chosenPanel);
  for (const id of asked || ["outcomes", "families", "trials", "chosen"]) if (panels[id]) { panels[id].made.open = true; panels[id].fill(); }
  addEventListener("hashchange", () => {
    const found = recall(), change = {};
    for (const name of Object.keys(FIELDS)) if (name !== "open") change[name] = found[name] === undefined ? null : found[name];
    put(change);
  });
  requestAnimationFrame(() => { document.documentElement.dataset.drawn = Math.round(performance.now()); });
}

start().catch((error) => {
  document.getElementById("main").textContent = `This page could not be drawn: ${error.message}. It needs a browser with DecompressionStream (since 2023); planguard report says the same in text.`;
});

globalThis.planguard = { get data() { return D; }, get state() { return S; }, get inks() { return inks; }, put, show };
