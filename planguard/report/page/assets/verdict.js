// The verdict, and every finding with where to look next.

function verdictPanel(body) {
  const said = D.verdict;
  const line = el("div", { class: "bar" },
    el("span", { class: "outcome", "data-is": said.outcome }, said.outcome.replace("_", " ")),
    el("span", {}, `under model ${said.model}`),
    el("span", { class: "soft" }, said.sizes));
  add(body, line);
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
