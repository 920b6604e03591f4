// ---- every client --------------------------------------------------------------------------
// Name, value, digits (false for words), and of which runs it is shown.
const ALL_COLUMNS = [
  ["client", (r, k) => r.names[k], false],
  ["satisfied", (r, k, o) => (r.byzantine.includes(k) ? "Byzantine" : flag(o, k, o.E - 1, SATISFIED) ? "yes" : "no"), false],
  ["satisfied in seeds", (r, k) => `${r.inSeeds[k][0]} of ${r.inSeeds[k][1]}`, false, (r) => r.inSeeds],
  ["model picked", (r, k) => (r.picked[k] < 0 ? "n/a" : `model ${r.picked[k]}`), false, (r) => r.models],
  ["gap", (r, k) => r.gap[k], "+3"], ["requirement", (r, k) => r.requirement[k], 3], [`test ${D.decides}`, (r, k) => r.value[k], 3],
  [D.metric.heading, (r, k) => r.metric[k], D.metric.digits, () => D.metric.heading !== `test ${D.decides}`], [D.metric.solo, (r, k) => r.solo[k], D.metric.digits, () => !D.real],
  ["training samples", (r, k) => r.samples[k], 0],
  ["group", (r, k) => (r.seen[k] ? "seen" : "unseen"), false, (r) => r.seen.includes(0)],
  ["flipped", (r, k) => (r.flipped.includes(k) ? "yes" : "no"), false, (r) => r.flipped.length],
  ["willing", (r, k, o) => (flag(o, k, o.E - 1, WILLING) ? "yes" : "no"), false, () => !D.nobodyLeaves],
  ["sampled", (r, k) => r.sampled[k], 0], ["participated", (r, k) => r.participated[k], 0],
];
const SOME = 20, FEW = 12;
let sorting = { name: "gap", down: true }, everything = false;
function everyone() {
  const run = state.run, trace = unpacked.get(run), table = $("table-everyone"), head = table.tHead, body = table.tBodies[0];
  head.textContent = ""; body.textContent = "";
  const columns = ALL_COLUMNS.filter(([, , , isShown]) => !isShown || isShown(run)), row = make(head, "tr");
  if (!columns.some(([name]) => name === sorting.name)) sorting = { name: "gap", down: true };
  columns.forEach(([name, , digits]) => {
    const th = make(row, "th", null, { scope: "col", class: digits === false ? "" : "number" });
    if (sorting.name === name) th.setAttribute("aria-sort", sorting.down ? "descending" : "ascending");
    make(th, "button", name, { type: "button" }).addEventListener("click", () => {
      sorting = { name, down: sorting.name === name ? !sorting.down : false }; everyone();
      head.querySelector("[aria-sort] button").focus();  // which was made anew
    });
  });
  const text = $("find").value.trim().toLowerCase(), which = $("which").value, value = columns.find(([name]) => name === sorting.name)[1];
  const clients = run.names.map((_, k) => k).filter((k) => run.names[k].toLowerCase().includes(text))
    .filter((k) => which === "all" || (flag(trace, k, trace.E - 1, SATISFIED) && !run.byzantine.includes(k)) === (which === "satisfied"));
  const natural = new Intl.Collator("en", { numeric: true });
  clients.sort((a, b) => {
    const x = value(run, a, trace), y = value(run, b, trace);
    if (x === null || y === null) return (x === null) - (y === null);
    const sign = typeof x === "number" ? x - y : natural.compare(x, y);
    return (sorting.down ? -sign : sign) || a - b;
  });
  for (const k of clients.slice(0, everything ? undefined : SOME)) {
    const tr = make(body, "tr", null, { "data-client": k });
    for (const [name, get, digits] of columns) {
      const v = get(run, k, trace);
      const text = v === null ? "n/a" : digits === false || digits === 0 ? v : digits === "+3" ? signed(v, 3) : v.toFixed(digits ?? significant(v));
      const td = make(tr, "td", name === "client" ? null : text, digits === false ? {} : { class: "number" });
      if (name === "client") make(td, "button", text, { type: "button", class: "link" });  // a click on it is one on the row
    }
    tr.addEventListener("click", () => choose(k));
  }
  if (!clients.length) make(make(body, "tr"), "td", "No client matches.", { colspan: columns.length });
  $("more").hidden = everything || clients.length <= SOME; $("more").textContent = `Show all ${clients.length}`;
  $("everyone-of").textContent = `${theCase().methods[run.method].name}${D.real ? "" : `, seed ${run.seed}`}: ${clients.length} clients`;
  markRows();
}
function markRows() {
  for (const tr of $("table-everyone").tBodies[0].rows) {
    const isChosen = Number(tr.dataset.client) === state.chosen && state.chosen !== null;
    tr.classList.toggle("chosen", isChosen); tr.querySelector("button.link")?.setAttribute("aria-pressed", String(isChosen));
  }
}

// ---- two methods compared ------------------------------------------------------------------
async function comparePair() {
  const place = $("pair-result"), here = theCase(), a = Number($("pair-a").value), b = Number($("pair-b").value);
  place.textContent = "";
  const note = (text) => make(place, "p", text, { class: "empty" });
  $("pair-controls").hidden = here.methods.length < 2;
  if (here.methods.length < 2) return note("There is only one method. To compare it with others: maxfl report FOLDER OTHER, or the folder of a sweep over algorithm.name.");
  if (a === b) return note("Choose two methods.");
  const pair = here.pairs.find((p) => (p[0] === a && p[1] === b) || (p[0] === b && p[1] === a));
  if (!pair) return note("These two never had the same clients with the same seed, so they can't be paired.");
  const seed = $("pair-seed"), before = seed.value; seed.textContent = "";
  const runs = (s) => [a, b].map((m) => here.runs.find((r) => r.method === m && r.seed === s));
  const seeds = pair[2].filter((s) => runs(s).every(Boolean));
  if (!seeds.length) return note("Data on single clients of these runs are not in this page.");
  for (const s of seeds) make(seed, "option", s);
  if (seeds.includes(Number(before))) seed.value = before;
  const [first, second] = runs(Number(seed.value)), [x, y] = await Promise.all([unpack(first), unpack(second)]);
  const groups = { both: [], a: [], b: [], neither: [] };
  for (let k = 0; k < x.K; k++) {
    if (!first.seen[k] || first.byzantine.includes(k) || second.byzantine.includes(k)) continue;
    const p = flag(x, k, x.E - 1, SATISFIED), q = flag(y, k, y.E - 1, SATISFIED);
    groups[p && q ? "both" : p ? "a" : q ? "b" : "neither"].push(k);
  }
  place.textContent = "";
  const [m, n] = [here.methods[a].name, here.methods[b].name], counts = make(place, "div", null, { class: "counts" });
  const box = (list, text) => { const d = make(counts, "div"); make(d, "b", list.length); make(d, "span", text); };
  box(groups.both, "satisfied by both"); box(groups.a, `satisfied only by ${m}`); box(groups.b, `satisfied only by ${n}`); box(groups.neither, "satisfied by neither");
  const wrap = make(place, "div", null, { class: "scroll" }), table = make(wrap, "table"), head = make(make(table, "thead"), "tr"), body = make(table, "tbody");
  make(table, "caption", `Seen clients that only one of them satisfies, seed ${seed.value}`);
  for (const [h, num] of [["client", 0], ["satisfied by", 0], ["training samples", 1], ["requirement", 1], [`${D.decides} with ${m}`, 1], [`${D.decides} with ${n}`, 1]]) make(head, "th", h, { scope: "col", class: num ? "number" : "" });
  const list = groups.a.map((k) => [k, m]).concat(groups.b.map((k) => [k, n]));
  for (const [k, by] of list.slice(0, FEW)) {
    const tr = make(body, "tr"); make(tr, "td", first.names[k]); make(tr, "td", by);
    for (const v of [String(first.samples[k]), first.requirement[k]?.toFixed(3), first.value[k]?.toFixed(3), second.value[k]?.toFixed(3)]) make(tr, "td", v ?? "n/a", { class: "number" });
  }
  if (!list.length) make(make(body, "tr"), "td", "None: both satisfy the same clients.", { colspan: 6 });
  if (list.length > FEW) make(place, "p", `${list.length - FEW} more; tables/satisfied-by-one.csv lists all.`, { class: "hint" });
}

// ---- partition -----------------------------------------------------------------------------
function partition() {
  const place = $("partition-result"), run = state.run; place.textContent = "";
  if (!run.counts) { make(place, "p", "The folder does not say which labels each client has.", { class: "empty" }); return; }
  const order = orderOf(run), L = run.labels.length, K = run.names.length, named = L <= 30;
  make(place, "p", (L > 1 ? "Share of each label in every client's samples; clients in the order chosen above. Darker is more." : "Training samples of every client. Labels are not shown, because they are not classes.") +
    (run.flipped.length ? " A triangle marks clients whose labels contradict the others'." : ""), { class: "hint" });
  const width = Math.max(280, place.clientWidth || 900), left = named ? Math.max(56, Math.min(110, 14 + 7 * Math.max(...run.labels.map((l) => l.length)))) : 56, row = named ? 20 : Math.max(3, 240 / L), marked = run.flipped.length ? 18 : 0, labelsTop = 56 + marked, flipped = new Set(run.flipped);
  const svg = draw(place, "svg", { viewBox: `0 0 ${width} ${labelsTop + L * row + 34}`, role: "img", "aria-label": "labels of every client" });
  const w = (width - left) / K, most = Math.max(...run.samples);
  order.forEach((k, i) => {
    const h = 44 * run.samples[k] / most;
    if (flipped.has(k)) shape(svg, "down", left + (i + .5) * w, labelsTop - 11, Math.min(5, Math.max(1.5, w / 2)), { fill: "#b5561b" });
    draw(draw(svg, "rect", { x: left + i * w, width: Math.max(.4, w - (w > 3 ? .6 : 0)), y: labelsTop - 4 - marked - h, height: h, fill: "#56616e" }), "title", {}, `client ${run.names[k]}: ${run.samples[k]} training samples`);
    const total = run.counts[k].reduce((a, b) => a + b, 0) || 1;
    run.counts[k].forEach((n, l) => {
      if (!n) return;
      const cell = draw(svg, "rect", { x: left + i * w, width: Math.max(.4, w), y: labelsTop + l * row, height: row - (named ? 1 : 0), fill: "#08306b", "fill-opacity": Math.sqrt(n / total).toFixed(3) });
      if (K <= 200) draw(cell, "title", {}, `client ${run.names[k]}: ${n} of ${total} samples are ${run.labels[l]}`);
    });
    if (k === state.chosen) draw(svg, "rect", { x: left + i * w - 1, width: Math.max(w, 2) + 2, y: 0, height: labelsTop + L * row, fill: "none", stroke: "#e69f00", "stroke-width": 3 });
  });
  if (named) run.labels.forEach((l, i) => draw(svg, "text", { x: left - 6, y: labelsTop + i * row + 14, "text-anchor": "end" }, l));
  else draw(svg, "text", { x: 4, y: labelsTop + 14 }, `${L} labels`);
  draw(svg, "text", { x: left - 6, y: labelsTop - marked - 20, "text-anchor": "end" }, "samples");
  if (marked) draw(svg, "text", { x: left - 6, y: labelsTop - 7, "text-anchor": "end" }, "flipped");
  draw(svg, "text", { x: (left + width) / 2, y: labelsTop + L * row + 22, "text-anchor": "middle" }, `${K} clients`);
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
