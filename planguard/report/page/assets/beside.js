// Two plans beside each other: the sentence, the numbers, both timelines on one scale, bytes, order.

const NAMES = ["A", "B"];
const change = (one, two) => (one === two ? "equal" : `${two > one ? "+" : "-"}${bytes(Math.abs(two - one))}`);

function numbersPanel(body) {
  add(body, table(["", "A", "B", "from A to B", "what it is"], D.numbers.map((row) => cells(row, [1, 2, 3]))));
  D.sides.forEach((side, at) => {
    for (const [code, message] of side.findings) add(body, el("p", {}, el("b", {}, `${NAMES[at]}: `), el("span", { class: "code" }, `${code} `), message));
  });
}

function timesPanel(body) {
  const runs = D.sides.map((side, at) => [side, at, side.time ? timeline(side.time, at ? "b." : "a.") : null]);
  add(body, overEachOther(runs.map(([side, at, time]) => [
    `${NAMES[at]}: ${side.name}, ${!time ? "" : time.head.complete ? us(time.head.makespan) : "never completes"} (${time ? time.head.basis : ""})`, `plan-${NAMES[at]}`, time])));
  runs.forEach(([side, at, time]) => {
    if (!time) add(body, el("p", { class: "soft" }, `${NAMES[at]}: too many actions to simulate; it has no times.`));
    else if (side.left > 0) add(body, el("p", { class: "soft" }, `${NAMES[at]}: ${plural(side.left, "rank")} not drawn.`));
    for (const note of time ? time.head.notes : []) add(body, el("p", { class: "soft" }, `${NAMES[at]}: ${note}`));
  });
}

function bytesPanel(body) {
  const sums = D.bytes.map((row) => [row[0], row[1], row[2], row[3], bytes(row[4]), bytes(row[6]), change(row[4], row[6]), number(row[5]), number(row[7])]);
  add(body, table(["call", "group", "type", "phase", "bytes in A", "bytes in B", "from A to B", "messages in A", "messages in B"], sums.map((row) => cells(row, [4, 5, 6, 7, 8]))));
  if (D.pairs.length) {
    const named = (rank) => (rank < 0 ? "host" : `rank ${rank}`);
    add(body, el("h3", {}, "Pairs whose bytes differ"), table(["sender", "receiver", "A", "B", "from A to B"], D.pairs.map(([src, dst, one, two]) => cells([named(src), named(dst), bytes(one), bytes(two), change(one, two)], [2, 3, 4]))));
    if (D.more_pairs) add(body, el("p", { class: "soft" }, `and ${plural(D.more_pairs, "more pair")}`));
  } else if (D.bytes.length) add(body, el("p", {}, "Every pair of ranks exchanges the same bytes in both plans."));
  for (const note of D.notes) add(body, el("p", { class: "soft" }, note));
}

function orderPanel(body) {
  const order = D.order;
  if (order.note) add(body, el("p", {}, `${order.note}.`));
  if (order.only.length) add(body, el("p", {}, `Only in one plan: ranks ${rankSet(order.only)}.`));
  if (order.equal) add(body, el("p", {}, `${plural(order.equal, "rank")} with the same program in both plans.`));
  for (const one of order.differs) {
    const rows = one.changes.map(([kind, a, b, text, other]) => el("tr", { "data-kind": kind }, el("td", { class: "kind" }, kind), el("td", { class: "num" }, a === null ? "" : `#${a}`), el("td", { class: "num" }, b === null ? "" : `#${b}`), el("td", { class: "mono" }, other ? `${text}  \u2192  ${other}` : text)));
    add(body, el("h3", {}, `rank${one.ranks.length === 1 ? "" : "s"} ${rankSet(one.ranks)}: ${plural(one.count, "difference")}`),
      one.ranks.length > 1 ? el("p", { class: "soft" }, `Peers and groups are those of rank ${one.ranks[0]}.`) : null,
      one.aligned ? null : el("p", {}, "Too long to be aligned: calls that both plans have may stand in both lists."),
      table(["", "in A", "in B", "call"], rows),
      one.count > one.changes.length ? el("p", { class: "soft" }, `and ${number(one.count - one.changes.length)} more`) : null);
  }
  if (D.more_sets) add(body, el("p", {}, `${plural(D.more_sets, "more set")} of ranks with differences of their own.`));
  add(body, el("p", { class: "soft" }, "Compared is what a rank calls, in the order of its program; how long a computation takes is in the times."));
}

async function start() {
  await load(document.getElementById("data").textContent);
  document.getElementById("main").replaceChildren();
  document.title = `A and B: ${D.title}`;
  Object.assign(S, recall());
  const asked = S.open;
  document.getElementById("head").append(el("h1", {}, D.title), el("span", { class: "grow" }, `PlanGuard ${D.version}`), ...dressing());
  document.getElementById("main").append(el("section", { id: "difference", class: "culprit cause", "aria-labelledby": "difference-title" },
    el("h2", { id: "difference-title" }, D.sentence),
    el("dl", {}, D.sides.map((side, at) => [el("dt", {}, NAMES[at]), el("dd", {}, `${side.name} `, el("span", { class: "outcome", "data-is": side.outcome }, side.outcome.replace("_", " ")))]).flat())));
  panel("numbers", "Numbers", "the plans' headline numbers", numbersPanel);
  if (D.sides.some((side) => side.time)) panel("times", "Times", "both plans on one scale", timesPanel);
  if (D.bytes.length) panel("bytes", "Bytes", D.basis, bytesPanel);
  panel("order", "Order", D.differ ? `${plural(D.differ, "rank")} with other programs` : "no difference", orderPanel);
  for (const id of asked || ["numbers", "times", "bytes", "order"]) if (panels[id]) { panels[id].made.open = true; panels[id].fill(); }
  requestAnimationFrame(() => setTimeout(() => { document.documentElement.dataset.drawn = Math.round(performance.now()); }));
}

start().catch((error) => {
  document.getElementById("main").textContent = `This page could not be drawn: ${error.message}. It needs a browser with DecompressionStream (since 2023); planguard report A B says the same in text.`;
});

globalThis.planguard = { get data() { return D; }, get state() { return S; }, get inks() { return inks; }, put, show };
