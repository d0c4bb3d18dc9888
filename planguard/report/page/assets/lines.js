// The flat charts on the axes of the devices (VD-54).

// FLOPs (dark) and memory (accent) of every computation, as a flat chart on the device's axis.
function drawLines(context, time, item, view, x) {
  const room = Math.max(4, item.height / 2 - item.half - 3);
  for (const [field, color, most] of [[7, colors.ink, view.most[0]], [6, colors.accent, view.most[1]]]) {
    if (!most) continue;
    context.strokeStyle = color;
    context.globalAlpha = 0.8;
    context.beginPath();
    let before = -Infinity;
    const floor = item.middle - item.half - 1;
    if (countVisible(time, item.row, view) > view.width / 3) {
      drawEnvelope(context, time, item.row, view, { field, most, room, floor });
      context.globalAlpha = 1;
      continue;
    }
    const [first, stop] = within(time, item.row, view.low, view.high);
    for (let i = first; i < stop; i++) {
      if (time.kind[i] !== 0 || time.end[i] < view.low || time.start[i] > view.high) continue;
      const value = time.head.operations[time.op[i]][field];
      if (value === null) continue;
      const y = floor - (room * value) / most, x0 = x(time.start[i]);
      if (x0 - before > 1.5) { // nothing is computed in between
        if (before > -Infinity) context.lineTo(before, floor);
        context.moveTo(x0, floor);
      }
      context.lineTo(x0, y);
      before = x(time.end[i]);
      context.lineTo(before, y);
    }
    context.stroke();
    context.globalAlpha = 1;
  }
}

// Where computations are narrower than the eye can part: the most of every few pixels.
function drawEnvelope(context, time, row, view, { field, most, room, floor }) {
  const step = 4, columns = Math.ceil(view.width / step), tops = new Float64Array(columns);
  const [first, stop] = within(time, row, view.low, view.high);
  for (let i = first; i < stop; i++) {
    if (time.kind[i] !== 0 || time.end[i] < view.low || time.start[i] > view.high) continue;
    const value = time.head.operations[time.op[i]][field] || 0;
    const at = Math.floor((((time.start[i] + time.end[i]) / 2 - view.low) / (view.high - view.low)) * columns);
    if (at >= 0 && at < columns && value > tops[at]) tops[at] = value;
  }
  tops.forEach((value, at) => {
    const y = floor - (room * value) / most;
    if (at) context.lineTo(at * step, y);
    else context.moveTo(0, y);
    context.lineTo((at + 1) * step, y);
  });
  context.stroke();
}
