// The training overview: one modeled step; what a trace would add is said (VD-30, VD-31).

function overviewPanel(body) {
  const ranks = T.head.ranks, canvas = el("canvas", { role: "img", tabindex: 0, "aria-label": "time of every device in the step; arrow keys choose a device" });
  const left = el("canvas", { role: "img", "aria-label": "total time and communication cost of the step" });
  const parts = [["copy", "step interval: data preparation", "copy"], ["compute", "forward and backward", "forward"], ["tail", "step tail: communication after the last computation", "collective"]];
  const most = Math.max(1e-9, ...ranks.map((r) => Math.max(r.end, parts.reduce((sum, [key]) => sum + r[key], 0))));
  const cost = Math.max(...ranks.map((r) => Math.max(r.communication, r.waiting))) || 1;
  const TOP = 14, TALL = 210, LEFT = 58;
  let step = 10;

  function axis(context, x, most, align) {
    context.fillStyle = colors.soft;
    context.textAlign = align;
    for (const t of ticks(0, most, 4)) {
      const y = TOP + TALL - (t / most) * TALL;
      context.fillText(us(t), x, y);
      context.strokeStyle = colors.faint;
    }
    context.textAlign = "left";
  }
  function draw() {
    const wide = Math.max(260, Math.min(980, body.clientWidth - 330));
    step = (wide - LEFT - 70) / ranks.length;
    const context = sized(canvas, wide, TOP + TALL + 34);
    context.font = FONT;
    context.textBaseline = "middle";
    axis(context, LEFT - 6, most, "right");
    axis(context, wide - 64, cost, "left");
    ranks.forEach((rank, i) => {
      let y = TOP + TALL;
      const x = LEFT + i * step, isOn = (S.ranks || []).length < D.world && (S.ranks || []).includes(rank.rank);
      if (isOn) { context.fillStyle = colors.mark; context.fillRect(x, TOP, step, TALL); }
      for (const [key, , shade] of parts) {
        const tall = (rank[key] / most) * TALL;
        context.fillStyle = colors[shade];
        context.fillRect(x + step * 0.15, y - tall, Math.max(1, step * 0.7), tall);
        y -= tall;
      }
      context.fillStyle = rank.stuck ? colors.bad : colors.ink;
      context.textAlign = "center";
      if (i % Math.ceil(22 / step) === 0) context.fillText(`${rank.rank}${rank.stuck ? "✕" : ""}`, x + step / 2, TOP + TALL + 10);
    });
    for (const [key, color, dash] of [["communication", colors.send, []], ["waiting", colors.bad, [4, 3]]]) {
      context.strokeStyle = color;
      context.fillStyle = color;
      context.lineWidth = 2;
      context.setLineDash(dash);
      context.beginPath();
      ranks.forEach((rank, i) => { const at = [LEFT + (i + 0.5) * step, TOP + TALL - (rank[key] / cost) * TALL]; if (i) context.lineTo(...at); else context.moveTo(...at); });
      context.stroke();
      context.setLineDash([]);
      if (step > 9) ranks.forEach((rank, i) => { context.beginPath(); context.arc(LEFT + (i + 0.5) * step, TOP + TALL - (rank[key] / cost) * TALL, 3, 0, 7); context.fill(); });
    }
    context.lineWidth = 1;
    context.fillStyle = colors.soft;
    context.textAlign = "center";
    context.fillText("rank", LEFT + (ranks.length * step) / 2, TOP + TALL + 26);
    context.textAlign = "left";
    drawSteps();
  }
  function drawSteps() {
    const context = sized(left, 250, TOP + TALL + 34);
    context.font = FONT;
    context.textBaseline = "middle";
    axis(context, LEFT - 6, most, "right");
    const mean = ranks.reduce((sum, r) => sum + r.communication + r.waiting, 0) / ranks.length, top = Math.max(most, mean);
    const x = 118;
    context.strokeStyle = colors.line;
    context.strokeRect(LEFT + 0.5, TOP + 0.5, 130, TALL);
    ranks.forEach((rank, i) => {
      const on = (S.ranks || []).includes(rank.rank) && S.ranks.length < D.world;
      context.fillStyle = on ? colors.bad : SPACE_COLORS[i % SPACE_COLORS.length];
      context.beginPath();
      context.arc(x + ((i % 9) - 4) * 5, TOP + TALL - (rank.end / top) * TALL, on ? 5 : 3.5, 0, 7);
      context.fill();
    });
    context.strokeStyle = colors.ink;
    context.setLineDash([5, 3]);
    const y = TOP + TALL - (mean / top) * TALL;
    context.beginPath();
    context.moveTo(LEFT, y);
    context.lineTo(LEFT + 130, y);
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = colors.soft;
    context.fillText(us(mean), LEFT + 135, y);
    context.textAlign = "center";
    context.fillText("step 1 (modeled)", x + 4, TOP + TALL + 10);
    context.textAlign = "left";
  }
  const at = (event) => { const i = Math.floor((event.clientX - canvas.getBoundingClientRect().left - LEFT) / step); return ranks[i]; };
  canvas.addEventListener("pointermove", (event) => {
    const rank = at(event);
    tell(event, rank ? `rank ${rank.rank}${rank.stuck ? ", never ends" : ""}\n${parts.map(([key, word]) => `${word}: ${us(rank[key])}`).join("\n")}\ncommunication ${us(rank.communication)}, waiting ${us(rank.waiting)}\n(modeled)` : "");
  });
  canvas.addEventListener("pointerleave", (event) => tell(event, ""));
  canvas.addEventListener("click", (event) => { const rank = at(event); if (rank) put({ ranks: [rank.rank], op: null }); });
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const now = ranks.findIndex((r) => r.rank === (S.ranks || [])[0]);
    put({ ranks: [ranks[(now + by + ranks.length) % ranks.length].rank], op: null });
  });
  add(body, el("div", { class: "bar" }, el("span", { class: "grow" }), tableButton("devices")),
    el("div", { class: "flex" }, el("div", { class: "chart" }, el("h4", {}, "Total time, mean communication cost"), left), el("div", { class: "chart" }, el("h4", {}, "One step, by device"), canvas)),
    el("div", { class: "legend" }, parts.map(([, word, shade]) => el("span", {}, el("i", { class: `k-${shade}` }), word)), el("span", {}, el("i", { class: "k-send" }), "line: communication"), el("span", {}, el("i", { class: "k-stuck" }), "dashed line: waiting")),
    el("p", { class: "soft" }, `More steps, and measured times of any: ${NEEDS}.`));
  draw();
  follow((change) => { if (["ranks", "theme", "palette"].some((field) => field in change)) redraw(draw); });
  addEventListener("resize", () => redraw(draw));
}
