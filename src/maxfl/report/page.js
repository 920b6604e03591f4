"use strict";
const D = JSON.parse(document.getElementById("data").textContent);
const DASHES = ["", "7 4", "9 3 2 3", "2 3", "12 2", "1 2", "6 2 1 2", "4 4"];
const SHAPES = ["circle", "square", "up", "diamond", "down", "plus", "cross", "circle"];
const $ = (id) => document.getElementById(id);
const state = { case: 0, group: "seen", run: null, at: 0, chosen: null };

// ---- small helpers -------------------------------------------------------------------------
const SVG = "http://www.w3.org/2000/svg";
function draw(parent, name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  parent.appendChild(node);
  return node;
}
function make(parent, name, text, attributes) {
  const node = document.createElement(name);
  if (text !== undefined && text !== null) node.textContent = text;
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  if (parent) parent.appendChild(node);
  return node;
}
const colour = (i) => D.colours[i % D.colours.length];
const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
function deviation(values) {
  if (values.length < 2) return 0;
  const m = mean(values);
  return Math.sqrt(values.reduce((s, v) => s + (v - m) * (v - m), 0) / (values.length - 1));
}
function printed(value, digits) {  // halves to even, as the tables have them
  const scaled = value * 10 ** digits, low = Math.floor(scaled);
  return scaled - low === .5 ? ((low % 2 ? low + 1 : low) / 10 ** digits).toFixed(digits) : value.toFixed(digits);
}
const theCase = () => D.cases[state.case];
const signed = (value, digits) => (value < 0 ? "" : "+") + value.toFixed(digits);
function ticks(low, high, count) {
  const raw = (high - low) / count, power = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw - 1e-12);
  const found = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + 1e-9; v += step) found.push(Math.abs(v) < 1e-9 ? 0 : v);
  return found;
}
const short = (value) => String(Number(value.toPrecision(6)));
function shape(parent, kind, x, y, r, attributes) {
  const p = (points) => "M" + points.map(([a, b]) => `${(x + a * r).toFixed(1)} ${(y + b * r).toFixed(1)}`).join("L") + "Z";
  const paths = {
    square: p([[-.9, -.9], [.9, -.9], [.9, .9], [-.9, .9]]), up: p([[0, -1.1], [1, .8], [-1, .8]]),
    down: p([[0, 1.1], [1, -.8], [-1, -.8]]), diamond: p([[0, -1.2], [1.2, 0], [0, 1.2], [-1.2, 0]]),
    plus: p([[-.35, -1], [.35, -1], [.35, -.35], [1, -.35], [1, .35], [.35, .35], [.35, 1], [-.35, 1], [-.35, .35], [-1, .35], [-1, -.35], [-.35, -.35]]),
    cross: p([[-1, -.6], [-.6, -1], [0, -.4], [.6, -1], [1, -.6], [.4, 0], [1, .6], [.6, 1], [0, .4], [-.6, 1], [-1, .6], [-.4, 0]]),
  };
  if (kind === "circle") return draw(parent, "circle", { cx: x.toFixed(1), cy: y.toFixed(1), r, ...attributes });
  return draw(parent, "path", { d: paths[kind], ...attributes });
}

// ---- a frame with axes ---------------------------------------------------------------------
function frame(place, options) {
  const width = Math.max(280, place.clientWidth || 520), height = options.height || Math.round(Math.min(300, width * .62));
  const left = 44, right = 12, top = 22, bottom = 38;
  place.textContent = "";
  const svg = draw(place, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": options.label });
  const x = (v) => left + (v - options.x[0]) / ((options.x[1] - options.x[0]) || 1) * (width - left - right);
  const y = (v) => height - bottom - (v - options.y[0]) / ((options.y[1] - options.y[0]) || 1) * (height - top - bottom);
  for (const v of ticks(options.y[0], options.y[1], 5)) {
    draw(svg, "line", { x1: left, x2: width - right, y1: y(v), y2: y(v), stroke: "#e6eaee" });
    draw(svg, "text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, (options.format || short)(v));
  }
  for (const v of ticks(options.x[0], options.x[1], width < 420 ? 4 : 7)) {
    draw(svg, "line", { x1: x(v), x2: x(v), y1: height - bottom, y2: height - bottom + 4, stroke: "#56616e" });
    draw(svg, "text", { x: x(v), y: height - bottom + 16, "text-anchor": "middle" }, short(v));
  }
  draw(svg, "line", { x1: left, x2: width - right, y1: height - bottom, y2: height - bottom, stroke: "#56616e" });
  draw(svg, "text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, options.xLabel);
  return { svg, x, y, width, height, left, right, top, bottom };
}

// ---- curves over rounds --------------------------------------------------------------------
function curve(id, metric, percent) {
  const place = $(id);
  const found = theCase().curves.find((c) => c.metric === metric && c.clients === state.group);
  if (!found) { place.textContent = ""; make(place, "p", `There are no ${state.group} clients in these runs.`, { class: "empty" }); return; }
  const last = Math.max(...found.lines.map((l) => l.rounds[l.rounds.length - 1]));
  const format = percent ? (v) => `${Math.round(v * 100)} %` : short;
  const f = frame(place, { x: [0, last || 1], y: [0, 1], xLabel: "communication rounds", label: `${metric} over rounds`, format });
  if (theCase().start) {
    draw(f.svg, "line", { x1: f.x(theCase().start), x2: f.x(theCase().start), y1: f.top, y2: f.height - f.bottom, stroke: "#56616e", "stroke-dasharray": "2 3" });
    const late = theCase().start > last / 2;
    draw(f.svg, "text", { x: f.x(theCase().start) + (late ? -4 : 4), y: f.top + 10, "text-anchor": late ? "end" : "start" }, "clients may leave from here");
  }
  const lines = found.lines.map((line) => {
    const columns = line.rounds.map((_, e) => line.values.map((s) => s[e]));
    const known = (of) => (c) => (c.includes(null) ? null : of(c));
    return { ...line, mean: columns.map(known(mean)), spread: columns.map(known(deviation)) };
  });
  for (const line of lines) {
    const there = line.rounds.map((r, e) => [r, line.mean[e], line.spread[e]]).filter((p) => p[1] !== null);
    if (line.values.length > 1) {
      const clip = (v) => Math.min(1, Math.max(0, v));
      const up = there.map(([r, m, s]) => `${f.x(r)} ${f.y(clip(m + s))}`), down = there.map(([r, m, s]) => `${f.x(r)} ${f.y(clip(m - s))}`).reverse();
      draw(f.svg, "path", { d: `M${up.concat(down).join("L")}Z`, fill: colour(line.method), opacity: .14 });
    }
    draw(f.svg, "path", { d: "M" + there.map(([r, m]) => `${f.x(r).toFixed(1)} ${f.y(m).toFixed(1)}`).join("L"), fill: "none",
      stroke: colour(line.method), "stroke-width": 2.2, "stroke-dasharray": DASHES[line.method % 8], "stroke-linejoin": "round" });
    const every = Math.max(1, Math.floor(there.length / 6));
    there.forEach(([r, m], e) => { if ((e + line.method) % every === 0) shape(f.svg, SHAPES[line.method % 8], f.x(r), f.y(m), 4, { fill: colour(line.method) }); });
  }
  const every = [...new Set(lines.flatMap((l) => l.rounds))];
  const cursor = draw(f.svg, "line", { y1: f.top, y2: f.height - f.bottom, stroke: "#1c2530", "stroke-width": 1, visibility: "hidden" });
  const box = make(place, "p", "", { class: "readout" });
  const tellAt = (near) => {
    box.textContent = `Round ${near}: ` + lines.map((l) => {
      const e = l.rounds.indexOf(near);
      if (e < 0 || l.mean[e] === null) return null;
      const n = (v) => (percent ? printed(100 * v, 1) : printed(v, 2));
      return `${theCase().methods[l.method].name} ${n(l.mean[e])}${l.values.length > 1 ? " ± " + n(l.spread[e]) : ""}${percent ? " %" : ""}`;
    }).filter(Boolean).join("; ");
  };
  const show = (event) => {
    const rect = f.svg.getBoundingClientRect(), at = (event.clientX - rect.left) / rect.width * f.width;
    const round = Math.max(0, Math.min(last, (at - f.left) / (f.width - f.left - f.right) * last));
    const near = every.reduce((a, b) => (Math.abs(b - round) < Math.abs(a - round) ? b : a));
    cursor.setAttribute("x1", f.x(near)); cursor.setAttribute("x2", f.x(near)); cursor.setAttribute("visibility", "visible");
    tellAt(near);
  };
  tellAt(last);
  f.svg.addEventListener("pointermove", show); f.svg.addEventListener("pointerdown", show);
}
function legend() {
  const place = $("legend"); place.textContent = "";
  theCase().methods.forEach((m, i) => {
    const entry = make(place, "span"), svg = draw(entry, "svg", { viewBox: "0 0 40 14", "aria-hidden": "true" });
    draw(svg, "line", { x1: 0, x2: 40, y1: 7, y2: 7, stroke: colour(i), "stroke-width": 2.4, "stroke-dasharray": DASHES[i % 8] });
    shape(svg, SHAPES[i % 8], 20, 7, 4.5, { fill: colour(i) });
    make(entry, "span", m.name);
  });
}
function curves() {
  $("about-data").textContent = theCase().data;
  legend(); curve("chart-appeal", "gm_appeal", false); curve("chart-accuracy", "test_accuracy", true);
}

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
  const own = { E, K, flags: whole.subarray(0, size), gap: gap(size), held: gap(3 * size) };
  unpacked.set(run, own);
  return own;
}
const MET = 1, WILLING = 2, ASKED = 4, JOINED = 8;
const flag = (own, k, e, bit) => (own.flags[k * own.E + e] & bit) !== 0;

// ---- heat map ------------------------------------------------------------------------------
const JOINING = [["not asked", "#ffffff"], ["asked, declined", "#f2b56b"], ["asked, took part", "#08306b"]];
const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
let heat = null;
function orderOf(run) {
  const by = $("order").value, index = run.names.map((_, k) => k);
  if (by === "served") return run.order;
  if (by === "samples") return index.sort((a, b) => run.samples[b] - run.samples[a] || a - b);
  if (by === "requirement") return index.sort((a, b) => (run.requirement[a] ?? 99) - (run.requirement[b] ?? 99) || a - b);
  return index;
}
function heatmap(own, run) {
  const order = orderOf(run), layer = $("layer").value, canvas = $("heat");
  const image = document.createElement("canvas"); image.width = own.E; image.height = own.K;
  const context = image.getContext("2d"), pixels = context.createImageData(own.E, own.K);
  const palette = layer === "state" ? D.states.map(rgb) : JOINING.map((j) => rgb(j[1]));
  order.forEach((k, row) => {
    for (let e = 0; e < own.E; e++) {
      const f = own.flags[k * own.E + e];
      const kind = layer === "state" ? (f & MET ? 0 : 2) + (f & WILLING ? 0 : 1) : f & JOINED ? 2 : f & ASKED ? 1 : 0;
      const at = 4 * (row * own.E + e); [pixels.data[at], pixels.data[at + 1], pixels.data[at + 2]] = palette[kind]; pixels.data[at + 3] = 255;
    }
  });
  context.putImageData(pixels, 0, 0);
  heat = { image, order, own, run };
  const place = $("heat-legend"); place.textContent = "";
  const entries = layer === "state" ? D.stateNames.map((name, i) => [name, D.states[i]]) : JOINING;
  for (const [name, hex] of entries) { const s = make(place, "span"); make(s, "i", "", { class: "swatch", style: `background:${hex}` }); make(s, "span", name); }
  if (layer === "state") make(place, "span", "• asked (where there is room)");
  const labels = $("heat-rounds"), every = Math.ceil(own.E / 8); labels.textContent = "";
  run.rounds.forEach((r, e) => { if (e % every === 0) make(labels, "span", r, { style: `left:${(100 * (e + .5) / own.E).toFixed(2)}%` }); });
  const tall = Math.max(140, Math.min(460, own.K * 4)), ratio = window.devicePixelRatio || 1;
  canvas.style.height = `${tall}px`; canvas.width = Math.round(canvas.clientWidth * ratio); canvas.height = Math.round(tall * ratio);
  paintHeat();
}
function paintHeat() {
  if (!heat) return;
  const canvas = $("heat"), context = canvas.getContext("2d"), { image, own, order, run } = heat;
  const w = canvas.width / own.E, h = canvas.height / own.K;
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
      for (let e = 0; e < own.E; e++) {
        if (!flag(own, k, e, ASKED)) continue;
        context.fillStyle = flag(own, k, e, MET) ? "#ffffff" : "#000000";
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
  const rect = $("heat").getBoundingClientRect(), own = heat.own;
  const e = Math.max(0, Math.min(own.E - 1, Math.floor((event.clientX - rect.left) / rect.width * own.E)));
  const row = Math.max(0, Math.min(own.K - 1, Math.floor((event.clientY - rect.top) / rect.height * own.K)));
  return [e, heat.order[row]];
}
function tell(e, k) {
  const { own, run } = heat, met = flag(own, k, e, MET), gap = own.held[k * own.E + e];
  const asked = flag(own, k, e, JOINED) ? ", was asked and took part" : flag(own, k, e, ASKED) ? ", was asked and declined" : "";
  return `Client ${run.names[k]}${run.seen[k] ? "" : " (unseen)"}${run.flipped.includes(k) ? ", with contradicting labels" : ""}, round ${run.rounds[e]}: requirement ${met ? "met" : "not met"} ` +
    `(held-out gap about ${signed(gap, 2)}), ${flag(own, k, e, WILLING) ? "willing" : "not willing"}${asked}; ${run.samples[k]} training samples.`;
}

// ---- weights and gaps ----------------------------------------------------------------------
const weight = (gap, T) => { const e = Math.exp(-Math.abs(gap) / T); return e / ((1 + e) * (1 + e)); };
let weights = null;
function rangeOf(values) {  // nearly all values, and a little on either side of 0
  const sorted = Float32Array.from(values).sort(), at = (share) => sorted[Math.floor((sorted.length - 1) * share)] || 0;
  return [Math.max(-12, Math.min(-1, at(.01))), Math.min(12, Math.max(1, at(.99)))];
}
const within = (value, [low, high]) => Math.max(low, Math.min(high, value));
function weightChart(own, run) {
  const method = theCase().methods[run.method];
  const range = rangeOf(own.gap);
  const f = frame($("chart-weights"), { x: range, y: [0, .26], xLabel: "gap on training data, F(w) − ρ", label: "weight over gap" });
  draw(f.svg, "line", { x1: f.x(0), x2: f.x(0), y1: f.top, y2: f.height - f.bottom, stroke: "#56616e", "stroke-dasharray": "2 3" });
  draw(f.svg, "text", { x: f.x(0) - 6, y: f.top - 8, "text-anchor": "end" }, "met");
  draw(f.svg, "text", { x: f.x(0) + 6, y: f.top - 8 }, "not met");
  const line = draw(f.svg, "path", { fill: "none", stroke: "#56616e", "stroke-width": 1.4 });
  const dots = [];
  for (let k = 0; k < own.K; k++) {
    if (!run.seen[k]) continue;
    const dot = draw(f.svg, "circle", { r: 4.5, "stroke-width": 1.4, class: "client", "data-client": k });
    draw(dot, "title", {}, `client ${run.names[k]}`);
    dot.addEventListener("click", () => choose(k));
    dots.push([k, dot]);
  }
  weights = { f, line, dots, range, own, run };
  $("weights-title").textContent = "Weight q over the gap, seen clients";
  $("weights-hint").textContent = (method.weighted ? "The weight that clients report to the server. " : `${method.name} does not use this weight; it is what MaxFL would give. `) +
    "Place and weight are by training data; filled: requirement met on held-out data, hollow: not met. Clients beyond an edge are shown at it.";
}
function moveClients() {
  const { f, line, dots, range, own, run } = weights, T = run.temperature[state.at];
  let path = "M";
  for (let i = 0; i <= 240; i++) { const g = range[0] + (range[1] - range[0]) * i / 240; path += `${i ? "L" : ""}${f.x(g).toFixed(1)} ${f.y(weight(g, T)).toFixed(1)}`; }
  line.setAttribute("d", path);
  for (const [k, dot] of dots) {
    const gap = within(own.gap[k * own.E + state.at], range), met = flag(own, k, state.at, MET);
    dot.setAttribute("cx", f.x(gap).toFixed(1)); dot.setAttribute("cy", f.y(weight(gap, T)).toFixed(1));
    dot.setAttribute("fill", met ? "#08306b" : "#ffffff"); dot.setAttribute("fill-opacity", met ? .75 : .4);
    dot.setAttribute("stroke", k === state.chosen ? "#e69f00" : met ? "#08306b" : "#b5561b"); dot.setAttribute("stroke-width", k === state.chosen ? 4 : 1.4);
  }
}
function gapChart() {
  // Bins that end at 0, so that none holds clients of both kinds.
  const { own, run } = weights, [low, high] = rangeOf(own.held), step = (high - low) / 24;
  const first = Math.ceil(-low / step), bins = first + Math.ceil(high / step), counts = new Array(bins).fill(0);
  for (let k = 0; k < own.K; k++) {
    if (!run.seen[k] || run.liars.includes(k)) continue;
    const bin = Math.floor(own.held[k * own.E + state.at] / step), met = flag(own, k, state.at, MET);
    counts[met ? within(first + bin, [0, first - 1]) : within(first + bin, [first, bins - 1])]++;
  }
  const most = Math.max(5, ...counts);
  const f = frame($("chart-gaps"), { x: [-first * step, (bins - first) * step], y: [0, most], xLabel: "gap on held-out data", label: "clients by gap" });
  const pattern = draw(draw(f.svg, "defs"), "pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
  draw(pattern, "rect", { width: 6, height: 6, fill: "#fdf1e0" }); draw(pattern, "line", { x1: 0, x2: 0, y1: 0, y2: 6, stroke: "#b5561b", "stroke-width": 3 });
  counts.forEach((count, i) => {
    const from = f.x((i - first) * step), to = f.x((i + 1 - first) * step), met = i < first;
    if (count) draw(draw(f.svg, "rect", { x: from + .5, width: to - from - 1, y: f.y(count), height: f.height - f.bottom - f.y(count),
      fill: met ? "#08306b" : "url(#hatch)", stroke: met ? "none" : "#b5561b" }), "title", {}, `${count} clients`);
  });
  draw(f.svg, "line", { x1: f.x(0), x2: f.x(0), y1: f.top, y2: f.height - f.bottom, stroke: "#1c2530", "stroke-dasharray": "2 3" });
  draw(f.svg, "text", { x: f.left - 36, y: f.top - 10 }, "clients");
}
function atRound() {
  const { own, run } = weights; let met = 0, willing = 0, count = 0;
  for (let k = 0; k < own.K; k++) {
    if (!run.seen[k] || run.liars.includes(k)) continue;
    count++; met += flag(own, k, state.at, MET); willing += flag(own, k, state.at, WILLING);
  }
  moveClients(); gapChart(); paintHeat();
  $("round-shown").textContent = run.rounds[state.at];
  $("round").value = state.at; $("round").setAttribute("aria-valuetext", `round ${run.rounds[state.at]}`);
  $("round-readout").textContent = `After round ${run.rounds[state.at]}: the model meets the requirement of ${met} of ${count} seen clients; ${willing} would take part in the next round.`;
}
function choose(k) {
  state.chosen = state.chosen === k ? null : k;
  if (state.chosen !== null) $("heat-readout").textContent = tell(state.at, k);
  atRound(); markRows(); partition();
}

// ---- every client --------------------------------------------------------------------------
const COLUMNS = [
  ["client", (r, k) => r.names[k], false], ["group", (r, k) => (r.seen[k] ? "seen" : "unseen"), false],
  ["training samples", (r, k) => r.samples[k], 0], ["flipped", (r, k) => (r.flipped.includes(k) ? "yes" : "no"), false], ["requirement", (r, k) => r.requirement[k], 3], ["held-out loss", (r, k) => r.loss[k], 3],
  ["gap", (r, k) => r.gap[k], "+3"], ["test accuracy, %", (r, k) => r.accuracy[k], 1], ["solo accuracy, %", (r, k) => r.solo[k], 1],
  ["keeps the model", (r, k, o) => (r.liars.includes(k) ? "lies" : flag(o, k, o.E - 1, MET) ? "yes" : "no"), false],
  ["willing", (r, k, o) => (flag(o, k, o.E - 1, WILLING) ? "yes" : "no"), false],
  ["asked", (r, k) => r.asked[k], 0], ["took part", (r, k) => r.joined[k], 0],
];
const SOME = 20, FEW = 12;
let sorting = { column: 6, down: true }, everything = false;
function everyone() {
  const run = state.run, own = unpacked.get(run), table = $("table-everyone"), head = table.tHead, body = table.tBodies[0];
  head.textContent = ""; body.textContent = "";
  const row = make(head, "tr");
  COLUMNS.forEach(([name, , digits], i) => {
    const th = make(row, "th", null, { scope: "col", class: digits === false ? "" : "number" });
    if (sorting.column === i) th.setAttribute("aria-sort", sorting.down ? "descending" : "ascending");
    make(th, "button", name, { type: "button" }).addEventListener("click", () => {
      sorting = { column: i, down: sorting.column === i ? !sorting.down : false }; everyone();
    });
  });
  const wanted = $("find").value.trim().toLowerCase(), which = $("which").value, value = COLUMNS[sorting.column][1];
  const clients = run.names.map((_, k) => k).filter((k) => run.names[k].toLowerCase().includes(wanted))
    .filter((k) => which === "all" || (flag(own, k, own.E - 1, MET) && !run.liars.includes(k)) === (which === "kept"));
  const natural = new Intl.Collator("en", { numeric: true });
  clients.sort((a, b) => {
    const x = value(run, a, own), y = value(run, b, own);
    if (x === null || y === null) return (x === null) - (y === null);
    const sign = typeof x === "number" ? x - y : natural.compare(x, y);
    return (sorting.down ? -sign : sign) || a - b;
  });
  for (const k of clients.slice(0, everything ? undefined : SOME)) {
    const tr = make(body, "tr", null, { "data-client": k });
    for (const [, get, digits] of COLUMNS) {
      const v = get(run, k, own);
      const text = v === null ? "n/a" : digits === false || digits === 0 ? v : digits === "+3" ? signed(v, 3) : v.toFixed(digits);
      make(tr, "td", text, digits === false ? {} : { class: "number" });
    }
    tr.addEventListener("click", () => choose(k));
  }
  if (!clients.length) make(make(body, "tr"), "td", "No client is like that.", { colspan: COLUMNS.length });
  $("more").hidden = everything || clients.length <= SOME; $("more").textContent = `Show all ${clients.length}`;
  $("everyone-of").textContent = `${theCase().methods[run.method].name}, seed ${run.seed}: ${clients.length} clients`;
  markRows();
}
function markRows() {
  for (const tr of $("table-everyone").tBodies[0].rows) tr.classList.toggle("chosen", Number(tr.dataset.client) === state.chosen && state.chosen !== null);
}

// ---- kept and lost -------------------------------------------------------------------------
async function keptAndLost() {
  const place = $("pair-result"), here = theCase(), a = Number($("pair-a").value), b = Number($("pair-b").value);
  place.textContent = "";
  const note = (text) => make(place, "p", text, { class: "empty" });
  $("pair-controls").hidden = here.methods.length < 2;
  if (here.methods.length < 2) return note("There is one method only: name several folders, or a sweep, to compare methods.");
  if (a === b) return note("Choose two methods.");
  const pair = here.pairs.find((p) => (p[0] === a && p[1] === b) || (p[0] === b && p[1] === a));
  if (!pair) return note("These two never met the same clients with the same seed, so they can't be paired.");
  const seed = $("pair-seed"), before = seed.value; seed.textContent = "";
  const runs = (s) => [a, b].map((m) => here.runs.find((r) => r.method === m && r.seed === s));
  const seeds = pair[2].filter((s) => runs(s).every(Boolean));
  if (!seeds.length) return note("Single clients of these runs are not in this page.");
  for (const s of seeds) make(seed, "option", s);
  if (seeds.includes(Number(before))) seed.value = before;
  const [first, second] = runs(Number(seed.value)), [x, y] = await Promise.all([unpack(first), unpack(second)]);
  const groups = { both: [], a: [], b: [], neither: [] };
  for (let k = 0; k < x.K; k++) {
    if (!first.seen[k] || first.liars.includes(k) || second.liars.includes(k)) continue;
    const p = flag(x, k, x.E - 1, MET), q = flag(y, k, y.E - 1, MET);
    groups[p && q ? "both" : p ? "a" : q ? "b" : "neither"].push(k);
  }
  place.textContent = "";
  const [m, n] = [here.methods[a].name, here.methods[b].name], counts = make(place, "div", null, { class: "counts" });
  const box = (list, text) => { const d = make(counts, "div"); make(d, "b", list.length); make(d, "span", text); };
  box(groups.both, "keep both models"); box(groups.a, `keep only that of ${m}`); box(groups.b, `keep only that of ${n}`); box(groups.neither, "keep neither");
  const wrap = make(place, "div", null, { class: "scroll" }), table = make(wrap, "table"), head = make(make(table, "thead"), "tr"), body = make(table, "tbody");
  make(table, "caption", `Seen clients that one keeps and the other loses, seed ${seed.value}`);
  for (const [h, num] of [["client", 0], ["kept by", 0], ["training samples", 1], ["requirement", 1], [`loss with ${m}`, 1], [`loss with ${n}`, 1]]) make(head, "th", h, { scope: "col", class: num ? "number" : "" });
  const list = groups.a.map((k) => [k, m]).concat(groups.b.map((k) => [k, n]));
  for (const [k, by] of list.slice(0, FEW)) {
    const tr = make(body, "tr"); make(tr, "td", first.names[k]); make(tr, "td", by);
    for (const v of [String(first.samples[k]), first.requirement[k]?.toFixed(3), first.loss[k]?.toFixed(3), second.loss[k]?.toFixed(3)]) make(tr, "td", v ?? "n/a", { class: "number" });
  }
  if (!list.length) make(make(body, "tr"), "td", "None: both satisfy the same clients.", { colspan: 6 });
  if (list.length > FEW) make(place, "p", `${list.length - FEW} more; tables/kept-and-lost.csv has all.`, { class: "hint" });
}

// ---- partition -----------------------------------------------------------------------------
function partition() {
  const place = $("partition-result"), run = state.run; place.textContent = "";
  if (!run.counts) { make(place, "p", "The folder does not say who has which labels.", { class: "empty" }); return; }
  const order = orderOf(run), L = run.labels.length, K = run.names.length, named = L <= 30;
  make(place, "p", "Share of each label in every client's samples; clients in the order chosen above. Darker is more." +
    (run.flipped.length ? " A triangle marks clients whose labels contradict the others'." : ""), { class: "hint" });
  const width = Math.max(280, place.clientWidth || 900), left = named ? Math.min(110, 14 + 7 * Math.max(...run.labels.map((l) => l.length))) : 34, row = named ? 20 : Math.max(3, 240 / L), marked = run.flipped.length ? 18 : 0, bar = 56 + marked, flipped = new Set(run.flipped);
  const svg = draw(place, "svg", { viewBox: `0 0 ${width} ${bar + L * row + 34}`, role: "img", "aria-label": "labels of every client" });
  const w = (width - left) / K, most = Math.max(...run.samples);
  order.forEach((k, i) => {
    const h = 44 * run.samples[k] / most;
    if (flipped.has(k)) shape(svg, "down", left + (i + .5) * w, bar - 11, Math.min(5, Math.max(1.5, w / 2)), { fill: "#b5561b" });
    draw(draw(svg, "rect", { x: left + i * w, width: Math.max(.4, w - (w > 3 ? .6 : 0)), y: bar - 4 - marked - h, height: h, fill: "#56616e" }), "title", {}, `client ${run.names[k]}: ${run.samples[k]} training samples`);
    const total = run.counts[k].reduce((a, b) => a + b, 0) || 1;
    run.counts[k].forEach((n, l) => {
      if (!n) return;
      const cell = draw(svg, "rect", { x: left + i * w, width: Math.max(.4, w), y: bar + l * row, height: row - (named ? 1 : 0), fill: "#08306b", "fill-opacity": Math.sqrt(n / total).toFixed(3) });
      if (K <= 200) draw(cell, "title", {}, `client ${run.names[k]}: ${n} of ${total} samples are ${run.labels[l]}`);
    });
    if (k === state.chosen) draw(svg, "rect", { x: left + i * w - 1, width: Math.max(w, 2) + 2, y: 0, height: bar + L * row, fill: "none", stroke: "#e69f00", "stroke-width": 3 });
  });
  if (named) run.labels.forEach((l, i) => draw(svg, "text", { x: left - 6, y: bar + i * row + 14, "text-anchor": "end" }, l));
  else draw(svg, "text", { x: 4, y: bar + 14 }, `${L} labels`);
  draw(svg, "text", { x: left - 6, y: bar - marked - 20, "text-anchor": "end" }, "samples");
  if (marked) draw(svg, "text", { x: left - 6, y: bar - 7, "text-anchor": "end" }, "flipped");
  draw(svg, "text", { x: (left + width) / 2, y: bar + L * row + 22, "text-anchor": "middle" }, `${K} clients`);
}

// ---- choosing ------------------------------------------------------------------------------
function options(select, entries, chosen) {
  select.textContent = "";
  for (const [value, name] of entries) make(select, "option", name, { value });
  if (chosen !== undefined) select.value = chosen;
}
async function chooseRun() {
  const here = theCase(), method = Number($("method").value), own = here.runs.filter((r) => r.method === method);
  const seed = own.find((r) => String(r.seed) === $("seed").value) || own[0];
  options($("seed"), own.map((r) => [r.seed, r.seed]), seed.seed);
  const before = state.run; state.run = seed;
  const data = await unpack(seed);
  if (state.run !== seed) return;
  if (!before || before.rounds.length !== seed.rounds.length) state.at = data.E - 1;
  if (!before || before.names.length !== seed.names.length || before.seed !== seed.seed) state.chosen = null;
  $("round").max = data.E - 1; everything = false;
  heatmap(data, seed); weightChart(data, seed); atRound(); everyone(); partition();
}
async function chooseCase() {
  state.case = Number($("case").value);
  const here = theCase(), shown = [...new Set(here.runs.map((r) => r.method))];
  state.run = null; curves();
  const entries = shown.map((i) => [i, here.methods[i].name]);
  for (const section of document.querySelectorAll(".needs-clients")) {
    let empty = section.querySelector(":scope > .none");
    if (!empty) { empty = make(section, "p", "Single clients of these results are not in this page.", { class: "empty none" }); }
    empty.hidden = shown.length > 0;
    for (const child of section.children) if (child !== empty && child.tagName !== "H2") child.hidden = !shown.length;
  }
  if (!shown.length) return;
  const best = shown.map((i) => [i, mean(here.curves[0].lines.find((l) => l.method === i).values.map((s) => s[s.length - 1] ?? 0))]).sort((p, q) => q[1] - p[1]);
  options($("method"), entries, best[0][0]); options($("pair-a"), entries, best[0][0]);
  options($("pair-b"), entries, shown.find((i) => i !== best[0][0]));
  options($("pair-seed"), here.runs.filter((r) => r.method === shown[0]).map((r) => [r.seed, r.seed]));
  await chooseRun(); await keptAndLost();
}

// ---- tables that sort ----------------------------------------------------------------------
function sortable(table) {
  [...table.tHead.rows[0].cells].forEach((th, column) => th.querySelector("button").addEventListener("click", () => {
    const down = th.getAttribute("aria-sort") === "ascending", natural = new Intl.Collator("en", { numeric: true });
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    th.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = (tr) => tr.cells[column].dataset.sort, numeric = th.classList.contains("number");
    const rows = [...table.tBodies[0].rows].sort((a, b) => {
      const x = key(a), y = key(b), sign = numeric ? (isNaN(x) - isNaN(y)) || x - y : natural.compare(x, y);
      return down ? -sign : sign;
    });
    table.tBodies[0].append(...rows);
  }));
}

// ---- start ---------------------------------------------------------------------------------
for (const table of document.querySelectorAll("#figures table.sortable")) sortable(table);
options($("case"), D.cases.map((c, i) => [i, c.name || c.data]));
document.querySelector(".cases").hidden = D.cases.length < 2;
$("case").addEventListener("change", chooseCase);
for (const radio of document.querySelectorAll("input[name=group]")) radio.addEventListener("change", () => { state.group = radio.value; curves(); });
$("method").addEventListener("change", chooseRun);
$("seed").addEventListener("change", chooseRun);
$("round").addEventListener("input", () => { state.at = Number($("round").value); atRound(); });
for (const id of ["layer", "order"]) $(id).addEventListener("change", () => { const own = unpacked.get(state.run); if (own) { heatmap(own, state.run); partition(); } });
for (const id of ["pair-a", "pair-b", "pair-seed"]) $(id).addEventListener("change", keptAndLost);
$("find").addEventListener("input", everyone);
$("which").addEventListener("change", everyone);
$("more").addEventListener("click", () => { everything = true; everyone(); });
$("heat").addEventListener("pointermove", (event) => { if (heat) $("heat-readout").textContent = tell(...pointAt(event)); });
$("heat").addEventListener("click", (event) => { const [e, k] = pointAt(event); state.at = e; state.chosen = null; choose(k); });
$("heat").addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (step) { state.at = Math.max(0, Math.min(heat.own.E - 1, state.at + step)); atRound(); event.preventDefault(); }
});
let playing = null;
function stop() { clearInterval(playing); playing = null; $("play").textContent = "Play"; $("play").setAttribute("aria-pressed", "false"); }
$("play").addEventListener("click", () => {
  if (playing) return stop();
  if (state.at >= weights.own.E - 1) state.at = 0;
  $("play").textContent = "Stop"; $("play").setAttribute("aria-pressed", "true");
  playing = setInterval(() => { if (state.at >= weights.own.E - 1) return stop(); state.at++; atRound(); }, Math.max(40, 6000 / weights.own.E));
});
let waiting = null, lastWidth = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === lastWidth) return;
  lastWidth = window.innerWidth; clearTimeout(waiting);
  waiting = setTimeout(() => { curves(); const own = unpacked.get(state.run); if (own) { heatmap(own, state.run); weightChart(own, state.run); atRound(); partition(); } }, 150);
});
chooseCase().then(() => document.body.setAttribute("data-ready", "yes")).catch((error) => {
  $("notes").appendChild(make(null, "li", `Charts of single clients can't be drawn in this browser (${error.message}): use a newer one. The tables are complete.`));
});
