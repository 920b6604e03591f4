// ---- unpacking clients ---------------------------------------------------------------------
const unpacked = new Map();
async function unpack(run) {
  if (unpacked.has(run)) return unpacked.get(run);
  const letters = atob(run.packed), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const whole = new Uint8Array(await new Response(stream).arrayBuffer());
  const E = run.rounds.length, K = run.names.length, size = E * K;
  const gap = (start) => {
    const found = new Float32Array(size);
    for (let k = 0; k < K; k++) {
      let at = 0;
      for (let e = 0; e < E; e++) {
        const i = k * E + e, step = whole[start + i] | (whole[start + size + i] << 8);
        at = (at + step) & 65535;
        found[i] = (at > 32767 ? at - 65536 : at) * run.scale;
      }
    }
    return found;
  };
  const trace = { E, K, flags: whole.subarray(0, size), gap: gap(size), held: gap(3 * size) };
  if (run.models) trace.picked = whole.subarray(5 * size, 6 * size);
  unpacked.set(run, trace);
  return trace;
}
const SATISFIED = 1, WILLING = 2, SAMPLED = 4, PARTICIPATED = 8;
const flag = (trace, k, e, bit) => (trace.flags[k * trace.E + e] & bit) !== 0;

// ---- heat map ------------------------------------------------------------------------------
const COHORT_STATES = [["not sampled", "#ffffff"], ["sampled, declined", "#f2b56b"], ["sampled, participated", "#08306b"]];
const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
let heat = null;
function orderOf(run) {
  const by = $("order").value, index = run.names.map((_, k) => k);
  if (by === "served") return run.order;
  if (by === "model" && run.picked) return run.order.slice().sort((a, b) => run.picked[a] - run.picked[b]);
  if (by === "samples") return index.sort((a, b) => run.samples[b] - run.samples[a] || a - b);
  if (by === "requirement") return index.sort((a, b) => (run.requirement[a] ?? 99) - (run.requirement[b] ?? 99) || a - b);
  return index;
}
function heatmap(trace, run) {
  const choice = $("layer").querySelector("option[value=picked]");
  for (const option of [choice, $("order").querySelector("option[value=model]")]) option.hidden = option.disabled = !run.models;
  if (!run.models && $("layer").value === "picked") $("layer").value = "state";
  if (!run.models && $("order").value === "model") $("order").value = "served";
  const order = orderOf(run), layer = $("layer").value, canvas = $("heat");
  const models = [...Array(run.models || 0)].map((_, j) => [`model ${j}`, colour(j)]);
  const image = document.createElement("canvas"); image.width = trace.E; image.height = trace.K;
  const context = image.getContext("2d"), pixels = context.createImageData(trace.E, trace.K);
  const kinds = { state: D.stateNames.map((name, i) => [name, D.states[i]]), sampled: COHORT_STATES, picked: models }[layer];
  const palette = kinds.map((kind) => rgb(kind[1]));
  order.forEach((k, row) => {
    for (let e = 0; e < trace.E; e++) {
      const f = trace.flags[k * trace.E + e];
      const kind = layer === "picked" ? trace.picked[k * trace.E + e] : layer === "state" ? (f & SATISFIED ? 0 : 2) + (f & WILLING ? 0 : 1) : f & PARTICIPATED ? 2 : f & SAMPLED ? 1 : 0;
      const at = 4 * (row * trace.E + e); [pixels.data[at], pixels.data[at + 1], pixels.data[at + 2]] = palette[kind] || [255, 255, 255]; pixels.data[at + 3] = 255;
    }
  });
  context.putImageData(pixels, 0, 0);
  heat = { image, order, trace, run };
  const place = $("heat-legend"); place.textContent = "";
  for (const [name, hex] of kinds) { const s = make(place, "span"); make(s, "i", "", { class: "swatch", style: `background:${hex}` }); make(s, "span", name); }
  if (layer === "state") make(place, "span", "• sampled (where there is room)");
  const labels = $("heat-rounds"), every = Math.ceil(trace.E / 8); labels.textContent = "";
  run.rounds.forEach((r, e) => { if (e % every === 0) make(labels, "span", r, { style: `left:${(100 * (e + .5) / trace.E).toFixed(2)}%` }); });
  const tall = Math.max(140, Math.min(460, trace.K * 4)), ratio = window.devicePixelRatio || 1;
  canvas.style.height = `${tall}px`; canvas.width = Math.round(canvas.clientWidth * ratio); canvas.height = Math.round(tall * ratio);
  paintHeat();
}
function paintHeat() {
  if (!heat) return;
  const canvas = $("heat"), context = canvas.getContext("2d"), { image, trace, order, run } = heat;
  const w = canvas.width / trace.E, h = canvas.height / trace.K;
  context.imageSmoothingEnabled = h < 1 || w < 1;
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  const unseen = order.findIndex((k) => !run.seen[k]);
  if ($("order").value === "served" && unseen > 0) {
    context.strokeStyle = "#d55e00"; context.setLineDash([6, 4]); context.lineWidth = 2; context.beginPath();
    context.moveTo(0, unseen * h); context.lineTo(canvas.width, unseen * h); context.stroke(); context.setLineDash([]);
    context.font = `${Math.round(12 * (window.devicePixelRatio || 1))}px system-ui, sans-serif`;
    const words = "unseen clients below", width = context.measureText(words).width;
    context.fillStyle = "rgba(255,255,255,.85)"; context.fillRect(4, unseen * h + 3, width + 8, 18 * (window.devicePixelRatio || 1));
    context.fillStyle = "#1c2530"; context.fillText(words, 8, unseen * h + 16 * (window.devicePixelRatio || 1));
  }
  context.strokeStyle = "#000"; context.lineWidth = 3; context.strokeRect(state.at * w - 1, 0, w + 2, canvas.height);
  context.strokeStyle = "#fff"; context.lineWidth = 1; context.strokeRect(state.at * w - 1, 0, w + 2, canvas.height);
  if ($("layer").value === "state" && w >= 4 && h >= 3) {  // dots where there is room for them
    order.forEach((k, row) => {
      for (let e = 0; e < trace.E; e++) {
        if (!flag(trace, k, e, SAMPLED)) continue;
        context.fillStyle = flag(trace, k, e, SATISFIED) ? "#ffffff" : "#000000";
        context.beginPath(); context.arc((e + .5) * w, (row + .5) * h, Math.min(w, h, 8) / 3.2, 0, 7); context.fill();
      }
    });
  }
  if (state.chosen !== null) {
    const row = order.indexOf(state.chosen);
    context.strokeStyle = "#e69f00"; context.lineWidth = 3; context.strokeRect(0, row * h - 1, canvas.width, h + 2);
  }
}
function pointAt(event) {
  const rect = $("heat").getBoundingClientRect(), trace = heat.trace;
  const e = Math.max(0, Math.min(trace.E - 1, Math.floor((event.clientX - rect.left) / rect.width * trace.E)));
  const row = Math.max(0, Math.min(trace.K - 1, Math.floor((event.clientY - rect.top) / rect.height * trace.K)));
  return [e, heat.order[row]];
}
function describe(e, k) {
  const { trace, run } = heat, satisfied = flag(trace, k, e, SATISFIED), gap = trace.held[k * trace.E + e];
  const sampled = flag(trace, k, e, PARTICIPATED) ? ", was sampled and participated" : flag(trace, k, e, SAMPLED) ? ", was sampled and declined" : "";
  const picked = trace.picked ? trace.picked[k * trace.E + e] : 255;
  const model = picked === 255 ? "" : `, picked model ${picked}`;
  return `Client ${run.names[k]}${run.seen[k] ? "" : " (unseen)"}${run.flipped.includes(k) ? ", with contradicting labels" : ""}, round ${run.rounds[e]}: ${satisfied ? "satisfied" : "not satisfied"} ` +
    `(test gap about ${signed(gap, 2)}), ${flag(trace, k, e, WILLING) ? "willing" : "not willing"}${model}${sampled}; ${run.samples[k]} training samples.`;
}

// ---- weights and gaps ----------------------------------------------------------------------
const weight = (gap, T) => { const e = Math.exp(-Math.abs(gap) / T); return e / ((1 + e) * (1 + e)); };
let weights = null;
function rangeOf(values) {  // nearly all values, and a little on either side of 0
  const sorted = Float32Array.from(values).sort(), at = (share) => sorted[Math.floor((sorted.length - 1) * share)] || 0;
  return [Math.max(-12, Math.min(-1, at(.01))), Math.min(12, Math.max(1, at(.99)))];
}
const within = (value, [low, high]) => Math.max(low, Math.min(high, value));
function weightChart(trace, run) {
  const method = theCase().methods[run.method];
  const range = rangeOf(trace.gap);
  const f = frame($("chart-weights"), { x: range, y: [0, .26], xLabel: `gap of ${D.decides} on judging data`, label: "weight over gap" });
  draw(f.svg, "line", { x1: f.x(0), x2: f.x(0), y1: f.top, y2: f.height - f.bottom, stroke: "#56616e", "stroke-dasharray": "2 3" });
  draw(f.svg, "text", { x: f.x(0) - 6, y: f.top - 8, "text-anchor": "end" }, "satisfied");
  draw(f.svg, "text", { x: f.x(0) + 6, y: f.top - 8 }, "not satisfied");
  const line = draw(f.svg, "path", { fill: "none", stroke: "#56616e", "stroke-width": 1.4 });
  const dots = [];
  for (let k = 0; k < trace.K; k++) {
    if (!run.seen[k]) continue;
    const dot = draw(f.svg, "circle", { r: 4.5, "stroke-width": 1.4, class: "client", "data-client": k });
    draw(dot, "title", {}, `client ${run.names[k]}`);
    dot.addEventListener("click", () => choose(k));
    dots.push([k, dot]);
  }
  weights = { f, line, dots, range, trace, run };
  $("weights-title").textContent = `Weight q over the gap${D.real ? "" : ", seen clients"}`;
  $("weights-hint").textContent = (method.weighted ? "The weight that clients report to the server. " : `${method.name} does not use this weight; it is what MaxFL would give. `) +
    `Position and weight are computed on judging data${method.model === "personal" ? " with the global model" : ""}. Filled: satisfied on test data${method.model === "personal" ? " by their personal models" : ""}; hollow: not satisfied. Clients outside the chart are drawn at its edge.`;
}
function moveClients() {
  const { f, line, dots, range, trace, run } = weights, T = run.temperature[state.at];
  let path = "M";
  for (let i = 0; i <= 240; i++) { const g = range[0] + (range[1] - range[0]) * i / 240; path += `${i ? "L" : ""}${f.x(g).toFixed(1)} ${f.y(weight(g, T)).toFixed(1)}`; }
  line.setAttribute("d", path);
  for (const [k, dot] of dots) {
    const gap = within(trace.gap[k * trace.E + state.at], range), satisfied = flag(trace, k, state.at, SATISFIED);
    dot.setAttribute("cx", f.x(gap).toFixed(1)); dot.setAttribute("cy", f.y(weight(gap, T)).toFixed(1));
    dot.setAttribute("fill", satisfied ? "#08306b" : "#ffffff"); dot.setAttribute("fill-opacity", satisfied ? .75 : .4);
    dot.setAttribute("stroke", k === state.chosen ? "#e69f00" : satisfied ? "#08306b" : "#b5561b"); dot.setAttribute("stroke-width", k === state.chosen ? 4 : 1.4);
  }
}
function gapChart() {
  // Bins that end at 0, so that none holds clients of both kinds.
  const { trace, run } = weights, [low, high] = rangeOf(trace.held), step = (high - low) / 24;
  const first = Math.ceil(-low / step), bins = first + Math.ceil(high / step), counts = new Array(bins).fill(0);
  for (let k = 0; k < trace.K; k++) {
    if (!run.seen[k] || run.byzantine.includes(k)) continue;
    const bin = Math.floor(trace.held[k * trace.E + state.at] / step), satisfied = flag(trace, k, state.at, SATISFIED);
    counts[satisfied ? within(first + bin, [0, first - 1]) : within(first + bin, [first, bins - 1])]++;
  }
  const most = Math.max(5, ...counts);
  const f = frame($("chart-gaps"), { x: [-first * step, (bins - first) * step], y: [0, most], xLabel: `gap of ${D.decides} on test data`, label: "clients by gap" });
  const pattern = draw(draw(f.svg, "defs"), "pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
  draw(pattern, "rect", { width: 6, height: 6, fill: "#fdf1e0" }); draw(pattern, "line", { x1: 0, x2: 0, y1: 0, y2: 6, stroke: "#b5561b", "stroke-width": 3 });
  counts.forEach((count, i) => {
    const from = f.x((i - first) * step), to = f.x((i + 1 - first) * step), satisfied = i < first;
    if (count) draw(draw(f.svg, "rect", { x: from + .5, width: to - from - 1, y: f.y(count), height: f.height - f.bottom - f.y(count),
      fill: satisfied ? "#08306b" : "url(#hatch)", stroke: satisfied ? "none" : "#b5561b" }), "title", {}, `${count} clients`);
  });
  draw(f.svg, "line", { x1: f.x(0), x2: f.x(0), y1: f.top, y2: f.height - f.bottom, stroke: "#1c2530", "stroke-dasharray": "2 3" });
  draw(f.svg, "text", { x: f.left - 36, y: f.top - 10 }, "clients");
}
function atRound() {
  const { trace, run } = weights; let satisfied = 0, willing = 0, count = 0;
  for (let k = 0; k < trace.K; k++) {
    if (!run.seen[k] || run.byzantine.includes(k)) continue;
    count++; satisfied += flag(trace, k, state.at, SATISFIED); willing += flag(trace, k, state.at, WILLING);
  }
  moveClients(); gapChart(); paintHeat();
  $("round-shown").textContent = run.rounds[state.at];
  for (const place of document.querySelectorAll(".run-shown")) place.textContent = `${theCase().methods[run.method].name}${D.real ? "" : `, seed ${run.seed}`}, round ${run.rounds[state.at]}`;
  $("round").value = state.at; $("round").setAttribute("aria-valuetext", `round ${run.rounds[state.at]}`);
  $("round-readout").textContent = `After round ${run.rounds[state.at]}: ${theCase().methods[run.method].model === "personal" ? "personal models satisfy" : "the model satisfies"} ${satisfied} of ${count} ${D.real ? "" : "seen "}clients${D.nobodyLeaves ? "" : `; ${willing} would participate in the next round`}.`;
}
function choose(k) {
  state.chosen = state.chosen === k ? null : k;
  if (state.chosen !== null) $("heat-readout").textContent = describe(state.at, k);
  atRound(); markRows(); partition();
}
