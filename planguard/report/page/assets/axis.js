// The axis of time that charts share: its range stands in the address; drag, wheel and keys zoom it.

const timeRange = () => (S.range || [0, 1]).map((share) => share * fullTime(T));

function zoomTime(low, high) {
  const end = fullTime(T), least = Math.max(T.head.tick * 4, end * 1e-7), span = Math.min(end, Math.max(high - low, least));
  low = Math.max(0, Math.min(low, end - span));
  put({ range: span > end * 0.9999 ? null : [low / end, Math.min(1, (low + span) / end)] });
}

function scaleTime(factor, middle) {
  const [low, high] = timeRange();
  const at = middle === undefined ? (low + high) / 2 : middle;
  zoomTime(at - (at - low) * factor, at - (at - low) * factor + (high - low) * factor);
}

// Let a canvas be dragged, wheeled and driven by keys. ``hit`` finds what is under a spot (below 0:
// nothing), ``tip`` tells it, ``choose`` takes it; ``keys`` are those of the chart itself.
function handleTime(canvas, { top, draw, height, hit, tip, choose, keys }) {
  let dragging = null;
  const spot = (event) => {
    const box = canvas.getBoundingClientRect(), [low, high] = timeRange();
    const share = (event.clientX - box.left) / box.width;
    return { t: low + share * (high - low), x: event.clientX - box.left, y: event.clientY - box.top + top(), width: box.width };
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    canvas.setPointerCapture(event.pointerId);
    dragging = { ...spot(event), low: timeRange()[0], high: timeRange()[1], isPan: event.shiftKey, moved: 0 };
  });
  canvas.addEventListener("pointermove", (event) => {
    const at = spot(event);
    if (!dragging) {
      const i = hit(at);
      tell(event, i < 0 ? "" : tip(i));
      return;
    }
    dragging.moved = Math.max(dragging.moved, Math.abs(at.x - dragging.x));
    if (dragging.isPan) {
      const by = ((dragging.x - at.x) / at.width) * (dragging.high - dragging.low);
      zoomTime(dragging.low + by, dragging.high + by);
    } else if (dragging.moved > 4) {
      redraw(() => {
        draw();
        if (!dragging) return;
        const context = canvas.getContext("2d");
        context.fillStyle = colors.accent;
        context.globalAlpha = 0.18;
        context.fillRect(Math.min(dragging.x, at.x), 0, Math.abs(at.x - dragging.x), height());
        context.globalAlpha = 1;
      });
    }
  });
  canvas.addEventListener("pointerup", (event) => {
    if (!dragging) return;
    const was = dragging, at = spot(event);
    dragging = null;
    if (was.moved > 4 && !was.isPan) zoomTime(Math.min(was.t, at.t), Math.max(was.t, at.t));
    else if (was.moved <= 4) choose(hit(at));
    redraw(draw);
  });
  canvas.addEventListener("pointerleave", (event) => tell(event, ""));
  canvas.addEventListener("dblclick", () => zoomTime(0, fullTime(T)));
  canvas.addEventListener("wheel", (event) => {
    if (!(event.ctrlKey || event.metaKey || event.altKey || document.activeElement === canvas)) return;
    event.preventDefault();
    const [low, high] = timeRange();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) zoomTime(low + (event.deltaX / 800) * (high - low), high + (event.deltaX / 800) * (high - low));
    else scaleTime(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 250), spot(event).t);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const [low, high] = timeRange(), quarter = (high - low) / 4;
    const actions = {
      "+": () => scaleTime(0.6), "=": () => scaleTime(0.6), "-": () => scaleTime(1 / 0.6), Home: () => zoomTime(0, fullTime(T)),
      ArrowLeft: () => zoomTime(low - quarter, high - quarter), ArrowRight: () => zoomTime(low + quarter, high + quarter), ...keys,
    };
    if (actions[event.key]) { event.preventDefault(); actions[event.key](); }
  });
}
