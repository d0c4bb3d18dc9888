// Runs over each other on one scale of time, small: a title, a name for files and a timeline each.

function overEachOther(runs) {
  const box = el("div", {}), canvases = [];
  const end = Math.max(...runs.map(([, , time]) => (time ? time.last : 0)));
  for (const [title, name, time] of runs) {
    if (!time) continue;
    const canvas = el("canvas", { role: "img", "aria-label": title });
    canvases.push([canvas, time]);
    box.append(el("div", { class: "chart" }, el("h3", {}, title), canvas,
      pictures(() => box, { name, title, canvas, draw: () => small(canvas, time, end, S.ranks && S.ranks.length ? S.ranks : null, box.clientWidth || 900), note: () => `times are ${time.head.basis}` })));
  }
  const draw = () => {
    const ranks = S.ranks && S.ranks.length ? S.ranks : null;
    for (const [canvas, time] of canvases) small(canvas, time, end, ranks, box.clientWidth || 900);
  };
  requestAnimationFrame(draw);
  follow((change) => { if ("ranks" in change || "theme" in change) redraw(draw); });
  addEventListener("resize", () => redraw(draw));
  return box;
}

function small(canvas, time, end, ranks, width) {
  const rows = time.head.ranks.map((_, row) => row).slice(0, 32);
  const height = Math.max(12, Math.min(26, 300 / rows.length));
  const left = 62, wide = width - left - 8;
  const bottom = rows.length * height + 4;
  const context = sized(canvas, width, bottom + 18);
  const scale = wide / (end * 1.06);
  context.font = FONT;
  context.textBaseline = "middle";
  context.textAlign = "center";
  context.fillStyle = colors.soft;
  for (const t of ticks(0, end, wide / 110)) if (t * scale < wide - 24) context.fillText(us(t), left + t * scale, bottom + 9);
  context.textAlign = "left";
  rows.forEach((row, line) => {
    const y = 2 + line * height, rank = time.head.ranks[row].rank;
    context.fillStyle = ranks && ranks.includes(rank) ? colors.mark : colors.faint;
    context.fillRect(left, y, wide, height - 3);
    context.fillStyle = colors.ink;
    context.textBaseline = "middle";
    context.fillText(`rank ${rank}`, 4, y + (height - 3) / 2);
    for (let i = time.from[row]; i < time.to[row]; i++) {
      if (time.kind[i] === 4) continue;
      const isStuck = time.end[i] === Infinity;
      const x0 = left + time.start[i] * scale, x1 = isStuck ? left + wide : left + time.end[i] * scale;
      const isMessage = time.kind[i] > 0;
      context.fillStyle = isStuck ? hatch(context, colors.bad, 4, 1.5) : colors[SHADES[time.shade[i]]];
      context.fillRect(x0, y + (isMessage ? (height - 3) * 0.6 : 1), Math.max(0.8, x1 - x0 - 0.4), (height - 3) * (isMessage ? 0.36 : 0.56));
    }
  });
}
