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
  said.findings.forEach((finding, at) => add(body, findingBox(finding, at)));
  for (const [kind, direction, message] of said.approximations) {
    add(body, el("p", { class: "soft" }, `${kind} (${direction}): ${message}`));
  }
  add(body, el("details", {}, el("summary", {}, "full diagnostic"), el("pre", { tabindex: 0 }, said.text)));
}

// What an audit is asked first: who did not come, where it stopped, who waits, what is not known.
function auditBox(audit, findings) {
  const named = audit.culprit.length > 0, finding = audit.finding === null ? null : findings[audit.finding];
  const who = named ? `rank${audit.culprit.length === 1 ? "" : "s"} ${rankSet(audit.culprit)}` : "nobody can be named";
  const box = el("section", { class: "culprit", "data-certain": named && audit.certain ? "yes" : "no", "data-ranks": audit.culprit.join(",") },
    el("h3", {}, el("span", { class: "who" }, who), finding ? finding.message : "no rank was left in a communication"));
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

function findingBox(finding, at) {
  const box = el("section", { class: "finding", "data-severity": finding.severity },
    el("h3", {}, el("span", { class: "code" }, finding.code), finding.message));
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
