// Rows that are pinned to the top of a chart: their keys stand in the address, in their order.

// Put a row to a place among the pinned ones; null: back to where it was.
function pinTo(field, key, place) {
  const pinned = (S[field] || []).filter((one) => one !== key);
  if (place !== null) pinned.splice(Math.max(0, Math.min(pinned.length, place)), 0, key);
  put({ [field]: pinned.length ? pinned : null });
}

// The button of a row. A click or Enter pins it and takes it back; up and down, or dragging, move a
// pinned one. ``placeAt`` says which place among the pinned rows a height on the screen has.
function pinButton(field, key, name, holder, placeAt) {
  const place = (S[field] || []).indexOf(key), count = (S[field] || []).length;
  const title = place < 0 ? `pin ${name} to the top` : `${name} is pinned, place ${place + 1} of ${count}: press to unpin, arrow keys or dragging move it`;
  let from = null, moved = false;
  const go = (to) => {
    pinTo(field, key, to);
    const next = [...holder.querySelectorAll(".pin")].find((one) => one.dataset.pin === String(key));
    if (next) next.focus({ preventScroll: true });
  };
  return el("button", { class: "pin", "data-pin": key, "aria-pressed": String(place >= 0), "aria-label": title, title,
    onclick: () => { if (!moved) go(place < 0 ? count : null); },
    onkeydown: (event) => {
      const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (by === undefined || place < 0) return;
      event.preventDefault();
      if (place + by >= 0 && place + by < count) go(place + by);
    },
    onpointerdown: (event) => { from = event.clientY; moved = false; event.currentTarget.setPointerCapture(event.pointerId); },
    onpointermove: (event) => { if (from !== null && Math.abs(event.clientY - from) > 5) moved = true; },
    onpointerup: (event) => { from = null; if (moved) go(placeAt(event.clientY)); } }, "\u2912");
}
