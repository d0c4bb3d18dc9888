// The training overview: every step of a trace, and one of them by device (VD-30 to VD-32). A plan
// has one step, and its times are modeled.

const PARTS = [["interval", "step interval: data preparation", "copy"], ["passes", "forward and backward", "forward"], ["tail", "step tail: communication and update after the last computation", "collective"]];

// The steps of the run; of a plan the one that its model of time gives.
function stepsOf(time) {
  if (time.head.steps.length) return time.head.steps;
  const devices = time.head.ranks.map((r) => ({ interval: r.copy, passes: r.compute, tail: r.tail, total: r.end, communication: r.communication, waiting: r.waiting }));
  return [{ name: "step 1", start: 0, end: time.last, devices }];
}

// Choosing a step shows its time in the timeline, its traffic in the matrices, its operators alone.
function chooseStep(at) {
  const steps = T.head.steps;
  if (at === null || !steps[at]) { put({ iteration: null, range: null }); return; }
  const end = fullTime(T);
  put({ iteration: at, range: [Math.max(0, steps[at].start / end), Math.min(1, steps[at].end / end)] });
}

function overviewPanel(body) {
  const ranks = T.head.ranks, steps = stepsOf(T), basis = T.head.basis;
  const canvas = el("canvas", { role: "application", tabindex: 0, "aria-label": "time of every device in the step; arrow keys choose a device" });
  const left = el("canvas", { role: "application", tabindex: 0, "aria-label": "total time of every device and mean communication cost by step; arrow keys choose a step" });
  const title = el("h3", {}, "");
  const TOP = 16, TALL = 210, LEFT = 62, RIGHT = 66;
  let step = 10, span = 10;
  const chosen = () => Math.min(S.iteration || 0, steps.length - 1);
  const cost = (device) => device.communication + device.waiting;
  const mean = steps.map((one) => { const own = one.devices.filter(Boolean); return own.reduce((sum, d) => sum + cost(d), 0) / Math.max(1, own.length); });
  const longest = Math.max(1e-9, ...steps.flatMap((one) => one.devices.filter(Boolean).map((d) => d.total)));
  const dearest = Math.max(1e-9, ...mean);
  const isChosen = (rank) => (S.ranks || []).length < D.world && (S.ranks || []).includes(rank);

  function axis(context, x, most, align, title) {
    context.fillStyle = colors.soft;
    context.textAlign = align;
    for (const t of ticks(0, most, 4)) context.fillText(us(t), x, TOP + TALL - (t / most) * TALL);
    context.save();
    context.translate(align === "right" ? 9 : x + RIGHT - 12, TOP + TALL / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText(title, 0, 0);
    context.restore();
    context.textAlign = "left";
  }
  function frame(context, wide, most) {
    context.strokeStyle = colors.line;
    context.globalAlpha = 0.6;
    for (const t of ticks(0, most, 4)) {
      const y = Math.round(TOP + TALL - (t / most) * TALL) + 0.5;
      context.beginPath();
      context.moveTo(LEFT, y);
      context.lineTo(wide - RIGHT, y);
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  function drawSteps() {
    const wide = Math.max(300, Math.min(560, 190 + steps.length * 46));
    const context = sized(left, wide, TOP + TALL + 40);
    context.font = FONT;
    context.textBaseline = "middle";
    span = (wide - LEFT - RIGHT) / steps.length;
    const at = (i) => LEFT + (i + 0.5) * span, high = (t) => TOP + TALL - (t / longest) * TALL, low = (t) => TOP + TALL - (t / dearest) * TALL * 0.94;
    context.fillStyle = colors.mark;
    if (steps.length > 1) context.fillRect(LEFT + chosen() * span, TOP, span, TALL);
    frame(context, wide, longest);
    axis(context, LEFT - 5, longest, "right", "time of a device");
    axis(context, wide - RIGHT + 5, dearest / 0.94, "left", "mean communication cost");
    ranks.forEach((rank, row) => {
      const on = isChosen(rank.rank);
      context.strokeStyle = context.fillStyle = on ? colors.bad : SPACE_COLORS[row % SPACE_COLORS.length];
      context.lineWidth = on ? 3 : 1.5;
      context.beginPath();
      steps.forEach((one, i) => { const d = one.devices[row]; if (d) { if (i) context.lineTo(at(i), high(d.total)); else context.moveTo(at(i), high(d.total)); } });
      context.stroke();
      steps.forEach((one, i) => { const d = one.devices[row]; if (d) { context.beginPath(); context.arc(at(i) + (steps.length > 1 ? 0 : ((row % 9) - 4) * 5), high(d.total), on ? 4.5 : 3, 0, 7); context.fill(); } });
    });
    context.strokeStyle = colors.ink;
    context.lineWidth = 2;
    context.setLineDash([6, 4]);
    context.beginPath();
    if (steps.length > 1) mean.forEach((t, i) => { if (i) context.lineTo(at(i), low(t)); else context.moveTo(at(i), low(t)); });
    else { context.moveTo(LEFT, low(mean[0])); context.lineTo(wide - RIGHT, low(mean[0])); }
    context.stroke();
    context.setLineDash([]);
    context.lineWidth = 1;
    context.fillStyle = colors.soft;
    context.textAlign = "center";
    const every = Math.ceil(34 / span);
    steps.forEach((one, i) => { if (i % every === 0) context.fillText(one.name.replace("ProfilerStep#", ""), at(i), TOP + TALL + 12); });
    context.fillText(T.head.steps.length ? "step of the trace" : `the one step of the plan (${basis})`, LEFT + (wide - LEFT - RIGHT) / 2, TOP + TALL + 29);
    context.textAlign = "left";
  }

  function draw() {
    const one = steps[chosen()], parts = one.devices.map((d) => d || { interval: 0, passes: 0, tail: 0, total: 0, communication: 0, waiting: 0 });
    title.textContent = `${one.name}, by device`;
    const most = Math.max(1e-9, ...parts.map((d) => Math.max(d.total, d.interval + d.passes + d.tail)));
    const dear = Math.max(1e-9, ...parts.map((d) => Math.max(d.communication, d.waiting)));
    const wide = Math.max(300, Math.min(Math.max(360, 150 + ranks.length * 64), body.clientWidth - left.clientWidth - 60));
    step = (wide - LEFT - RIGHT) / ranks.length;
    const context = sized(canvas, wide, TOP + TALL + 40);
    context.font = FONT;
    context.textBaseline = "middle";
    frame(context, wide, most);
    axis(context, LEFT - 5, most, "right", "time of a device");
    axis(context, wide - RIGHT + 5, dear / 0.94, "left", "communication, waiting");
    ranks.forEach((rank, i) => {
      let y = TOP + TALL;
      const x = LEFT + i * step, d = parts[i];
      if (isChosen(rank.rank)) { context.fillStyle = colors.mark; context.fillRect(x, TOP, step, TALL); }
      for (const [key, , shade] of PARTS) {
        const tall = (d[key] / most) * TALL, thick = Math.min(46, Math.max(1, step * 0.7));
        context.fillStyle = colors[shade];
        context.fillRect(x + (step - thick) / 2, y - tall, thick, tall);
        y -= tall;
      }
      context.fillStyle = rank.stuck ? colors.bad : colors.ink;
      context.textAlign = "center";
      if (i % Math.ceil(22 / step) === 0) context.fillText(`${rank.rank}${rank.stuck ? "✕" : ""}`, x + step / 2, TOP + TALL + 12);
    });
    for (const [key, color, dash] of [["communication", colors.send, []], ["waiting", colors.bad, [4, 3]]]) {
      const at = (i) => [LEFT + (i + 0.5) * step, TOP + TALL - (parts[i][key] / dear) * TALL * 0.94];
      context.strokeStyle = context.fillStyle = color;
      context.lineWidth = 2;
      context.setLineDash(dash);
      context.beginPath();
      ranks.forEach((_, i) => (i ? context.lineTo(...at(i)) : context.moveTo(...at(i))));
      context.stroke();
      context.setLineDash([]);
      if (step > 9) ranks.forEach((_, i) => { context.beginPath(); context.arc(...at(i), 3, 0, 7); context.fill(); });
    }
    context.lineWidth = 1;
    context.fillStyle = colors.soft;
    context.textAlign = "center";
    context.fillText("rank", LEFT + (ranks.length * step) / 2, TOP + TALL + 29);
    context.textAlign = "left";
  }
  const all = () => { drawSteps(); draw(); };

  const deviceAt = (event) => { const i = Math.floor((event.clientX - canvas.getBoundingClientRect().left - LEFT) / step); return ranks[i] ? i : -1; };
  const stepAt = (event) => { const i = Math.floor((event.clientX - left.getBoundingClientRect().left - LEFT) / span); return steps[i] ? i : -1; };
  canvas.addEventListener("pointermove", (event) => {
    const i = deviceAt(event), d = i < 0 ? null : steps[chosen()].devices[i];
    tell(event, d ? `rank ${ranks[i].rank}${ranks[i].stuck ? ", never ends" : ""}\n${PARTS.map(([key, word]) => `${word}: ${us(d[key])}`).join("\n")}\ncommunication ${us(d.communication)}, waiting ${us(d.waiting)}\n(${basis})` : "");
  });
  canvas.addEventListener("pointerleave", (event) => tell(event, ""));
  canvas.addEventListener("click", (event) => { const i = deviceAt(event); if (i >= 0) put({ ranks: [ranks[i].rank], op: null }); });
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const now = ranks.findIndex((r) => r.rank === (S.ranks || [])[0]);
    put({ ranks: [ranks[(now + by + ranks.length) % ranks.length].rank], op: null });
  });
  left.addEventListener("pointermove", (event) => {
    const i = stepAt(event), own = i < 0 ? [] : steps[i].devices;
    const lines = own.slice(0, 12).map((d, row) => (d ? `rank ${ranks[row].rank}: ${us(d.total)}` : null)).filter(Boolean);
    tell(event, i < 0 ? "" : `${steps[i].name}\n${lines.join("\n")}${own.length > 12 ? "\n..." : ""}\nmean communication cost ${us(mean[i])} (${basis})`);
  });
  left.addEventListener("pointerleave", (event) => tell(event, ""));
  if (T.head.steps.length) {
    left.addEventListener("click", (event) => { const i = stepAt(event); if (i >= 0) chooseStep(i); });
    left.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (by) { event.preventDefault(); chooseStep(Math.max(0, Math.min(steps.length - 1, S.iteration === undefined ? 0 : S.iteration + by))); }
      if (event.key === "Escape") chooseStep(null);
    });
  }
  const whole = el("button", { id: "all-steps", onclick: () => chooseStep(null) }, "all steps");
  const shownRanks = ranks.slice(0, 16).map((rank, row) => { const dot = el("i", {}); dot.style.background = SPACE_COLORS[row % SPACE_COLORS.length]; return el("span", {}, dot, `rank ${rank.rank}`); });
  add(body, el("div", { class: "bar" }, T.head.steps.length ? whole : null, el("span", { class: "grow" }), tableButton("steps"), tableButton("devices")),
    el("div", { class: "flex" }, el("div", { class: "chart" }, el("h3", {}, "Time of every device, mean communication cost"), left, pictures(() => body, { name: "steps", title: "time of every device and mean communication cost by step", canvas: left, draw: drawSteps, note: () => `times are ${basis}` })), el("div", { class: "chart" }, title, canvas, pictures(() => body, { name: "devices", title: "time of every device in the step", canvas, draw, note: () => `${title.textContent}; times are ${basis}` }))),
    el("div", { class: "legend", "data-of": "steps" }, shownRanks, ranks.length > 16 ? el("span", {}, "...") : null, el("span", {}, "dashed black line: mean communication cost (right axis)")),
    el("div", { class: "legend", "data-of": "devices" }, PARTS.map(([, word, shade]) => el("span", {}, el("i", { class: `k-${shade}` }), word)), el("span", {}, el("i", { class: "k-send" }), "line: communication"), el("span", {}, el("i", { class: "k-stuck" }), "dashed line: waiting")),
    el("p", { class: "soft" }, T.head.steps.length ? `Times are ${basis}. A click on a step shows its time in the timeline, its traffic in the matrices and its operators alone.`
      : basis === "measured" ? "The recording marks no steps: the whole run counts as one." : "More steps, and measured times of any, come from a recorded run."));
  all();
  follow((change) => { if (["ranks", "iteration", "theme"].some((field) => field in change)) redraw(all); });
  addEventListener("resize", () => redraw(all));
}
