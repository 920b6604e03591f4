// ---- choosing ------------------------------------------------------------------------------
function options(select, entries, chosen) {
  select.textContent = "";
  for (const [value, name] of entries) make(select, "option", name, { value });
  if (chosen !== undefined) select.value = chosen;
}
async function chooseRun() {
  const here = theCase(), method = Number($("method").value), runs = here.runs.filter((r) => r.method === method);
  const seed = runs.find((r) => String(r.seed) === $("seed").value) || runs[0];
  options($("seed"), runs.map((r) => [r.seed, r.seed]), seed.seed);
  const before = state.run; state.run = seed;
  const data = await unpack(seed);
  if (state.run !== seed) return;
  if (!before || before.rounds.length !== seed.rounds.length) state.at = data.E - 1;
  if (!before || before.names.length !== seed.names.length || before.seed !== seed.seed) state.chosen = null;
  $("round").max = data.E - 1; everything = false;
  heatmap(data, seed); weightChart(data, seed); atRound(); everyone(); partition();
}
// A real federation has no seeds, partitions and unseen clients, and often nobody's losses.
function hideWhatIsNot(here, shown) {
  const gone = { clients: !shown.length, everyone: !shown.length, partition: true, pairs: here.methods.length < 2 };
  for (const [id, isGone] of Object.entries(gone)) {
    $(id).hidden = isGone; document.querySelector(`nav a[href="#${id}"]`).hidden = isGone;
  }
}
async function chooseCase() {
  state.case = Number($("case").value);
  const here = theCase(), shown = [...new Set(here.runs.map((r) => r.method))];
  $("groups").hidden = !here.curves.some((c) => c.clients === "unseen");
  if ($("groups").hidden) { state.group = "seen"; document.querySelector("input[name=group][value=seen]").checked = true; }
  state.run = null; curves(); portfolios();
  const entries = shown.map((i) => [i, here.methods[i].name]);
  for (const section of document.querySelectorAll(".needs-clients")) {
    let empty = section.querySelector(":scope > .none");
    if (!empty) { empty = make(section, "p", "Data on single clients of these results are not in this page.", { class: "empty none" }); }
    empty.hidden = shown.length > 0;
    for (const child of section.children) if (child !== empty && child.tagName !== "H2") child.hidden = !shown.length;
  }
  if (D.real) hideWhatIsNot(here, shown);
  if (!shown.length) return;
  const ranked = shown.map((i) => [i, mean(here.curves[0].lines.find((l) => l.method === i).values.map((s) => s[s.length - 1] ?? 0))]).sort((p, q) => q[1] - p[1]);
  options($("method"), entries, ranked[0][0]); options($("pair-a"), entries, ranked[0][0]);
  options($("pair-b"), entries, (ranked[1] || ranked[0])[0]);
  options($("pair-seed"), here.runs.filter((r) => r.method === shown[0]).map((r) => [r.seed, r.seed]));
  await chooseRun(); await comparePair();
}

// ---- start ---------------------------------------------------------------------------------
$("notes-fold").hidden = !$("notes").children.length;
const folds = document.querySelectorAll("details.fold");
if (window.innerWidth <= 760) for (const fold of folds) fold.open = false;  // so that the first figure is in view
window.addEventListener("beforeprint", () => { for (const fold of document.querySelectorAll("details")) fold.open = true; });
for (const table of document.querySelectorAll("#figures table.sortable, #pairs table.sortable")) sortable(table);
options($("case"), D.cases.map((c, i) => [i, c.name || c.data]));
document.querySelector(".cases").hidden = D.cases.length < 2;
$("case").addEventListener("change", chooseCase);
startPhases();
for (const radio of document.querySelectorAll("input[name=group]")) radio.addEventListener("change", () => { state.group = radio.value; curves(); });
$("method").addEventListener("change", chooseRun);
$("seed").addEventListener("change", chooseRun);
$("round").addEventListener("input", () => { state.at = Number($("round").value); atRound(); });
for (const id of ["layer", "order"]) $(id).addEventListener("change", () => { const trace = unpacked.get(state.run); if (trace) { heatmap(trace, state.run); partition(); } });
for (const id of ["phase-a", "phase-b"]) $(id).addEventListener("change", phaseDiagram);
for (const id of ["pair-a", "pair-b", "pair-seed"]) $(id).addEventListener("change", comparePair);
$("find").addEventListener("input", everyone);
$("which").addEventListener("change", everyone);
$("more").addEventListener("click", () => { everything = true; everyone(); $("table-everyone").querySelector(`tbody tr:nth-child(${SOME + 1}) button`)?.focus(); });
$("heat").addEventListener("pointermove", (event) => { if (heat) $("heat-readout").textContent = describe(...pointAt(event)); });
$("heat").addEventListener("click", (event) => { const [e, k] = pointAt(event); state.at = e; state.chosen = null; choose(k); });
$("heat").addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key], down = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (!heat || (!step && !down)) return;
  event.preventDefault();
  if (step) { state.at = Math.max(0, Math.min(heat.trace.E - 1, state.at + step)); atRound(); if (state.chosen !== null) $("heat-readout").textContent = describe(state.at, state.chosen); return; }
  const row = state.chosen === null ? (down > 0 ? -1 : heat.order.length) : heat.order.indexOf(state.chosen);
  const k = heat.order[Math.max(0, Math.min(heat.order.length - 1, row + down))];
  if (k !== state.chosen) choose(k);
});
let playing = null;
function stop() { clearInterval(playing); playing = null; $("play").textContent = "Play"; $("play").setAttribute("aria-pressed", "false"); }
$("play").addEventListener("click", () => {
  if (playing) return stop();
  if (state.at >= weights.trace.E - 1) state.at = 0;
  $("play").textContent = "Stop"; $("play").setAttribute("aria-pressed", "true");
  playing = setInterval(() => { if (state.at >= weights.trace.E - 1) return stop(); state.at++; atRound(); }, Math.max(40, 6000 / weights.trace.E));
});
let waiting = null, lastWidth = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === lastWidth) return;
  lastWidth = window.innerWidth; clearTimeout(waiting);
  if (lastWidth > 760) for (const fold of folds) fold.open = true;  // there nothing would open them
  waiting = setTimeout(() => { curves(); portfolios(); phaseDiagram(); const trace = unpacked.get(state.run); if (trace) { heatmap(trace, state.run); weightChart(trace, state.run); atRound(); partition(); } }, 150);
});
chooseCase().then(() => document.body.setAttribute("data-ready", "yes")).catch((error) => {
  $("notes-fold").hidden = false; $("notes-fold").open = true;
  $("notes").appendChild(make(null, "li", `Charts of single clients can't be drawn in this browser (${error.message}): use a newer one. The tables are complete.`));
});
