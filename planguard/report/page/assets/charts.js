// The run as arrays: one object per timeline (the plan's, and the repaired plan's).

let T = null;

function timeline(head, prefix) {
  const total = C[`${prefix}gap`].length;
  const made = {
    head, total,
    kind: C[`${prefix}kind`], op: C[`${prefix}op`], label: C[`${prefix}label`],
    action: C[`${prefix}action`], member: C[`${prefix}member`], mb: C[`${prefix}mb`],
    match: C[`${prefix}match`], peer: C[`${prefix}peer`],
    start: new Float64Array(total), ready: new Float64Array(total), end: new Float64Array(total),
    row: new Uint32Array(total), from: [], to: [], rowOf: new Map(),
    last: head.makespan || 100,
  };
  const gap = C[`${prefix}gap`], dur = C[`${prefix}dur`], own = C[`${prefix}own`];
  let at = 0;
  head.ranks.forEach((rank, row) => {
    made.from.push(at);
    made.rowOf.set(rank.rank, row);
    let tick = 0;
    for (const stop = at + rank.n; at < stop; at++) {
      tick += gap[at] | 0; // steps back are written modulo 2**32
      made.row[at] = row;
      made.start[at] = tick * head.tick;
      made.ready[at] = own[at] === ABSENT ? Infinity : (tick + own[at]) * head.tick;
      made.end[at] = dur[at] === ABSENT ? Infinity : (tick + dur[at]) * head.tick;
    }
    made.to.push(at);
  });
  bound(made);
  made.shade = new Uint8Array(total);
  const shades = head.operations.map(shadeOf);
  for (let i = 0; i < total; i++) made.shade[i] = made.kind[i] === 0 ? shades[made.op[i]] : 3 + made.kind[i];
  made.pairs = messages(made);
  made.path = pathOf(made, prefix);
  made.overlaps = runsBeside(made);
  return made;
}

// For every span the latest end up to it and the earliest start from it on, in its row: neither falls
// along a row, so what a range shows is found by halving.
function bound(time) {
  time.latest = new Float64Array(time.total);
  time.earliest = new Float64Array(time.total);
  for (let row = 0; row < time.from.length; row++) {
    for (let i = time.from[row], most = -Infinity; i < time.to[row]; i++) time.latest[i] = most = Math.max(most, time.end[i]);
    for (let i = time.to[row] - 1, least = Infinity; i >= time.from[row]; i--) time.earliest[i] = least = Math.min(least, time.start[i]);
  }
}

// The first span of a row that may be seen between two times, and the first behind the last of them.
function within(time, row, low, high) {
  const first = (from, isIn) => {
    let to = time.to[row];
    while (from < to) { const middle = (from + to) >> 1; if (isIn(middle)) to = middle; else from = middle + 1; }
    return from;
  };
  const from = first(time.from[row], (i) => time.latest[i] >= low);
  return [from, first(from, (i) => time.earliest[i] > high)];
}

// The critical path of the run: its pieces, each with the span that it is a part of (-1: not drawn).
function pathOf(time, prefix) {
  let tick = 0;
  const cut = (name) => C[`${prefix}critical.${name}`];
  return [...cut("gap")].map((gap, i) => {
    tick += gap;
    return { start: tick * time.head.tick, end: (tick + cut("dur")[i]) * time.head.tick, rank: cut("rank")[i], action: cut("action")[i], member: cut("member")[i], kind: KINDS[cut("kind")[i]] || "idle" };
  });
}

// Whether communication runs while its rank computes: then both need a lane of their own.
function runsBeside(time) {
  for (let row = 0; row < time.from.length; row++) {
    let until = -Infinity;
    for (let i = time.from[row]; i < time.to[row]; i++) {
      if (time.kind[i] === 0 && time.start[i] + time.head.tick * 4 < until && time.end[i] > time.start[i]) return true;
      if (time.kind[i] >= 1 && time.kind[i] <= 3 && time.end[i] !== Infinity) until = Math.max(until, time.end[i]);
    }
  }
  return false;
}

// Colors by what a span is: four greens of computation, then one color per kind.
const SHADES = ["forward", "backward", "weight", "other", "collective", "send", "recv", "wait", "copy"];
function shadeOf(operation) {
  const phase = D.names[operation[4]].toLowerCase(), name = D.names[operation[0]].toLowerCase();
  if (/^(w|weight)/.test(phase) || name === "w") return 2;
  if (/^(b|i$|full_b|bw)/.test(phase) || /^(b|i|bw|backward)$/.test(name)) return 1;
  if (/^f/.test(phase) || /^(f|fw|forward)$/.test(name)) return 0;
  return phase || name === "unshard" ? 3 : 0;
}

// Pairs of a send and its receive, by the match they share.
function messages(time) {
  const sends = new Map(), out = [];
  for (let i = 0; i < time.total; i++) if (time.kind[i] === 2 && time.match[i] !== ABSENT) sends.set(time.match[i], i);
  for (let i = 0; i < time.total; i++) {
    if (time.kind[i] === 3 && sends.has(time.match[i])) out.push([sends.get(time.match[i]), i]);
  }
  return out;
}

// The whole axis of time; what never completes needs room behind the last end.
const fullTime = (time) => time.last * (time.head.complete ? 1.01 : 1.12);

// The step of training that is chosen, or null: all of them.
const chosenStep = () => (T && S.iteration !== undefined ? T.head.steps[S.iteration] || null : null);
const isInStep = (time, i, step) => time.start[i] >= step.start && time.start[i] < step.end;

function operation(time, i) {
  const [name, op, group, ns, phase, stage, size, work, source, shape] = time.head.operations[time.op[i]];
  return {
    name: D.names[name], op: D.names[op], group: D.names[group], ns: D.names[ns], phase: D.names[phase],
    stage, size, flops: work, source: D.names[source], shape: D.names[shape],
    label: D.names[time.label[i]], rank: time.head.ranks[time.row[i]].rank, action: time.action[i],
    member: time.member[i] === ABSENT ? null : time.member[i],
    mb: time.mb[i] === ABSENT ? null : time.mb[i], peer: time.peer[i] === ABSENT ? null : time.peer[i],
  };
}

// What is written into a box: the operator, with stage and microbatch as schedules are written.
function short(time, i) {
  const found = time.head.operations[time.op[i]];
  const name = D.names[found[0]];
  if (time.mb[i] !== ABSENT && name.length <= 3) return `${name}${time.mb[i]}`;
  return time.kind[i] === 0 ? name : D.names[found[1]];
}

function spanText(time, i) {
  const o = operation(time, i);
  const lines = [`rank ${o.rank} #${o.action}${o.member === null ? "" : `.${o.member}`}  ${o.name === o.op ? o.op : `${o.op} ${o.name}`}`];
  if (o.label) lines.push(o.label);
  const facts = [];
  if (o.peer !== null) facts.push(time.kind[i] === 2 ? `to rank ${o.peer}` : `from rank ${o.peer}`);
  if (o.group) facts.push(`group ${o.group}`);
  if (o.size !== null) facts.push(bytes(o.size));
  if (o.flops) facts.push(flops(o.flops));
  if (o.mb !== null) facts.push(`microbatch ${o.mb}`);
  if (facts.length) lines.push(facts.join(", "));
  lines.push(timesText(time, i));
  return lines.join("\n");
}

function timesText(time, i) {
  if (time.end[i] === Infinity) return `starts at ${us(time.start[i])}, never completes`;
  const waits = time.ready[i] - time.start[i];
  return `${us(time.start[i])} to ${us(time.end[i])}, ${us(time.end[i] - time.start[i])}` +
    `${waits > time.head.tick && time.kind[i] !== 0 ? `, of it waiting ${us(waits)}` : ""} (${time.head.basis})`;
}

function findSpan(time, rank, action, member = null) {
  const row = time.rowOf.get(rank);
  if (row === undefined) return -1;
  let found = -1;
  for (let i = time.from[row]; i < time.to[row]; i++) {
    if (time.action[i] !== action) continue;
    if (member === null || time.member[i] === member || time.member[i] === ABSENT) return i;
    found = i;
  }
  return found;
}

// Round times for an axis.
function ticks(low, high, count) {
  const raw = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw) || raw;
  const out = [];
  for (let t = Math.ceil(low / step) * step; t <= high + step * 1e-6; t += step) out.push(t);
  return out;
}
