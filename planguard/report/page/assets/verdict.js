// The verdict, and every finding with where to look next.

function verdictPanel(body) {
  const said = D.verdict;
  const line = el("div", { class: "bar" },
    el("span", { class: "outcome", "data-is": said.outcome }, said.outcome.replace("_", " ")),
    el("span", {}, `under model ${said.model}`),
    el("span", { class: "soft" }, said.sizes));
  add(body, line);
  if (said.audit) add(body, auditBox(said.audit, said.findings));
  const others = Object.entries(said.models);
  if (others.length > 1) {
    add(body, el("p", { class: "soft" }, others.map(([name, outcome]) => `${name}: ${outcome}`).join("   ")));
  }
  for (const reason of said.reasons) add(body, el("p", {}, reason));
  if (!said.findings.length) add(body, el("p", {}, "No findings. Look here next: the timeline for idle time, the matrices for what moves."));
  for (const at of said.order) add(body, findingBox(said.findings[at], at));
  for (const [kind, direction, message] of said.approximations) {
    add(body, el("p", { class: "soft" }, `${kind} (${direction}): ${message}`));
  }
  add(body, el("details", {}, el("summary", {}, "full diagnostic"), el("pre", { tabindex: 0 }, said.text)));
}

// What an audit is asked first: who did not come, where it stopped, who waits, what is not known.
function auditBox(audit, findings) {
  const named = audit.culprit.length > 0, finding = audit.finding === null ? null : findings[audit.finding];
  const who = named ? `rank${audit.culprit.length === 1 ? "" : "s"} ${rankSet(audit.culprit)}` : "no certain culprit";
  const box = el("section", { class: "culprit", "data-certain": named && audit.certain ? "yes" : "no", "data-ranks": audit.culprit.join(",") },
    el("h3", {}, el("span", { class: "who" }, who), finding ? finding.message : D.left.actions ? "in what was recorded no rank is left in a communication" : "no communication was recorded"));
  const rows = [["where it stopped", "stopped"], ["its stack", "stack"], ["cause", "cause"], ["source", "source"], ["who waits", "waiting"], ["behind them", "then"], ["how sure", "evidence"], ["collect next", "next"]];
  const list = el("dl", {});
  for (const [title, name] of rows) {
    if (audit.notes[name].length) list.append(el("dt", {}, title), ...audit.notes[name].map((text) => el("dd", {}, text)));
  }
  list.append(el("dt", {}, "not known"));
  const open = audit.unknown.length ? audit.unknown : ["nothing that was recorded leaves this open"];
  list.append(...open.map((text) => el("dd", {}, text)));
  box.append(list);
  if (finding && finding.ranks.length) box.append(el("button", { onclick: () => look(finding) }, named ? "mark it in every view" : "mark who waits"));
  return box;
}

// What a plan is asked first; each number leads to the view that it comes from.
function numbersBox() {
  const box = el("section", { id: "numbers", "aria-label": "headline numbers" });
  for (const [name, value, what, target, chosen] of D.numbers) {
    const into = panels[target] ? target : "tables";
    box.append(el("button", { title: what, "data-panel": into, onclick: () => { show(into); put(chosen); } },
      el("span", { class: "soft" }, name), el("b", {}, value), el("span", { class: "soft what" }, what)));
  }
  return box;
}

// The cause: who, which call, which line; what every other rank waits for.
function causeBox(cause) {
  const finding = D.verdict.findings[cause.finding], others = cause.waits;
  const who = `rank${cause.who.length === 1 ? "" : "s"} ${rankSet(cause.who)}`;
  const row = (name, ...texts) => [el("dt", {}, name), ...texts.map((text) => el("dd", {}, text))];
  const at = (place) => (place ? ` at ${place}` : "");
  const facts = el("dl", {});
  add(facts, ...row("call", `${cause.missing ? "" : `#${cause.action} `}${cause.call}`), ...(cause.place ? row("line", cause.place) : []));
  if (cause.decided.length) add(facts, ...row("decided", ...cause.decided));
  if (cause.stopped.length) add(facts, ...row("stopped here", ...cause.stopped.map(([rank, how, action, text, place]) => `rank ${rank} ${how === "its program is empty" ? "has an empty program" : `${how} #${action} ${text}${at(place)}`}`)));
  if (cause.against.length) add(facts, ...row("against", ...cause.against.map(([rank, action, text, place]) => `rank ${rank} #${action} ${text}${at(place)}`)));
  const box = el("section", { id: "cause", class: "culprit cause", "data-certain": "yes", "data-ranks": cause.who.join(","), "aria-labelledby": "cause-title" },
    el("h2", { id: "cause-title" }, cause.who.length ? el("span", { class: "who" }, who) : null, el("span", { class: "code" }, finding.code), cause.sentence), facts);
  if (others.length) {
    box.append(el("h3", {}, "What the others wait for"), el("ul", {}, others.map(([ranks, text, place, why]) =>
      el("li", {}, el("b", {}, `rank${ranks.length === 1 ? "" : "s"} ${rankSet(ranks)}`), ` in ${text}${at(place)}: ${why}`)),
    cause.more ? el("li", {}, `and ${plural(cause.more, "more kind")} of waiting`) : null));
  }
  box.append(el("div", { class: "next" }, panels.waits ? el("button", { onclick: () => show("waits") }, finding.witness && finding.witness.steps.length ? "see the witness play" : "see who waits for whom") : null,
    el("button", { onclick: () => look(finding) }, "mark it in every view")));
  return box;
}

function findingBox(finding, at) {
  const box = el("section", { class: "finding", "data-severity": finding.severity },
    el("h3", {}, el("span", { class: "code" }, finding.code),
      D.verdict.follows.includes(at) ? el("span", { class: "soft" }, "follows from the cause: ") : null, finding.message));
  const place = finding.primary;
  if (place) {
    const where = `rank ${place.rank} #${place.action}  ${place.text}`;
    box.append(el("p", { class: "mono" }, where, place.source ? `   ${place.source}` : ""));
  }
  for (const edge of finding.cycle.slice(0, 8)) {
    box.append(el("p", { class: "mono soft" }, `r${edge.at.rank}#${edge.at.action} ${edge.at.text}  ${edge.sentence}`));
  }
  if (finding.help) box.append(el("p", {}, finding.help));
  for (const note of finding.notes) box.append(el("p", { class: "soft" }, note));
  for (const text of finding.consequences) box.append(el("p", { class: "soft" }, text));
  for (const [applicability, text] of finding.fixes) {
    box.append(el("p", { class: "fix" }, `${applicability} repair: ${text}`));
  }
  box.append(el("div", { class: "next" },
    el("button", { "data-next": finding.panel, onclick: () => look(finding, at) }, "look here next"),
    el("span", { class: "soft" }, finding.next)));
  return box;
}

function look(finding) {
  const change = {};
  if (finding.ranks.length) change.ranks = finding.ranks.slice(0, 4096);
  if (finding.primary) change.op = [finding.primary.rank, finding.primary.action, 0];
  const target = panels[finding.panel] ? finding.panel : "timeline";
  show(panels[target] ? target : "tables");
  put(change);
}
