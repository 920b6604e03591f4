// ---- work in progress, asked for again and again ---------------------------------------------
const MOST_ROWS = 40;
function trail(place, work, measure, i) {
  const known = work.rounds.map((r, e) => [r, measure.values[e]]).filter(([, v]) => v !== null && v !== undefined);
  if (!known.length) { place.textContent = ""; make(place, "p", "Nothing has been measured yet.", { class: "empty" }); return; }
  const values = known.map(([, v]) => v), share = i === 0 || measure.percent;
  const low = Math.min(0, ...values), high = 1.05 * Math.max(0, ...values), range = share ? [0, 1] : [low, high > low ? high : low + 1];
  const format = measure.percent ? (v) => `${Math.round(v * 100)} %` : short;
  const f = frame(place, { x: [0, work.end || known[known.length - 1][0] || 1], y: range, xLabel: "communication rounds", label: `${measure.words} over rounds`, format });
  draw(f.svg, "path", { d: "M" + known.map(([r, v]) => `${f.x(r).toFixed(1)} ${f.y(v).toFixed(1)}`).join("L"), fill: "none", stroke: colour(i), "stroke-width": 2.2, "stroke-linejoin": "round" });
  const [round, last] = known[known.length - 1];
  shape(f.svg, "circle", f.x(round), f.y(last), 4, { fill: colour(i) });
}
function table(place, work) {
  const whole = make(make(place, "div", null, { class: "scroll", tabindex: 0, role: "region", "aria-label": "Latest" }), "table"), head = make(make(whole, "thead"), "tr"), body = make(whole, "tbody");
  make(whole, "caption", "Latest, seen clients");
  ["configuration", ...work.measures.map((m) => m.words)].forEach((words, i) => make(head, "th", words, { scope: "col", class: i ? "number" : "" }));
  for (const row of work.rows.slice(-MOST_ROWS)) { const tr = make(body, "tr"); row.forEach((cell, i) => make(tr, "td", cell, { class: i ? "number" : "" })); }
  if (work.rows.length > MOST_ROWS) make(place, "p", `and ${work.rows.length - MOST_ROWS} before these`, { class: "hint" });
}
function show(work) {
  const place = make($("work"), "section");
  make(place, "h2", work.name);
  make(place, "p", work.headline, { class: "headline" });
  if (work.trouble) make(place, "p", work.trouble, { class: "warning", role: "alert" });
  if (work.total) make(place, "progress", null, { max: work.total, value: work.done, "aria-label": "rounds done" });
  const charts = make(place, "div", null, { class: "trio" });
  const places = work.measures.map((measure) => {
    const figure = make(charts, "figure");
    make(figure, "figcaption", `${measure.words[0].toUpperCase()}${measure.words.slice(1)}, mean over seen clients${work.rows.length > 1 ? " and the configurations at work" : ""}`);
    return make(figure, "div");
  });
  places.forEach((chart, i) => trail(chart, work, work.measures[i], i));  // once all have their width
  if (work.rows.length) table(place, work);
  if (work.warnings.length) { const list = make(place, "ul", null, { class: "notes" }); for (const text of work.warnings) make(list, "li", text); }
}
let before = "", isOver = false;
async function ask() {
  try {
    const answer = await fetch("status.json", { cache: "no-store" }), text = await answer.text();
    $("failed").hidden = answer.ok; $("lost").hidden = true;
    if (!answer.ok) { $("failed").textContent = text; return; }
    if (text === before) return;
    const { finished, work } = JSON.parse(text);
    if (finished) { isOver = true; location.reload(); return; }
    before = text; $("work").textContent = "";
    work.forEach(show);
  } catch { $("lost").hidden = false; }
}
// One question after the other, and none while the report is on its way.
async function askOn() { await ask(); if (!isOver) setTimeout(askOn, D.every); }
ask().then(() => { document.body.setAttribute("data-ready", "yes"); if (!isOver) setTimeout(askOn, D.every); });
window.addEventListener("resize", () => { before = ""; });
