// ---- two methods on all data ---------------------------------------------------------------
const WIDEST = .5;  // leads of so much or more have the darkest colour
function startPhases() {
  const has = D.phases !== null, link = document.querySelector('nav a[href="#phases"]');
  $("phases").hidden = link.hidden = !has;
  if (!has) return;
  const names = [...new Set(D.phases.leads.flatMap((lead) => [lead.a, lead.b]))].map((name) => [name, name]);
  const count = (name) => D.phases.leads.reduce((n, l) => n + (l.lead[0] > 0 ? l.a === name : l.b === name), 0);
  const ranked = names.map(([name]) => name).sort((p, q) => count(q) - count(p));  // who leads most often first
  options($("phase-a"), names, ranked[0]); options($("phase-b"), names, ranked[ranked.length - 1]);
  phaseDiagram();
}
function leadOf(cell, a, b) {
  const found = D.phases.leads.find((l) => l.case === cell && ((l.a === a && l.b === b) || (l.a === b && l.b === a)));
  if (!found || found.lead[0] === null) return null;
  const [m, low, high] = found.lead, [from, to] = found.levels;
  if (found.a === a) return { m, low, high, from, to };
  return { m: -m, low: high === null ? null : -high, high: low === null ? null : -low, from: to, to: from };
}
function phaseColour({ m, low, high }) {
  const depth = Math.min(1, Math.abs(m) / WIDEST), [r, g, b] = m >= 0 ? [8, 81, 156] : [166, 54, 3];
  const at = (v) => Math.round(255 + (v - 255) * .6 * depth), unsure = low === null || (low <= 0 && high >= 0);
  const paint = `rgb(${at(r)},${at(g)},${at(b)})`;
  const hatch = unsure ? `;background-image:repeating-linear-gradient(45deg,transparent 0 7px,rgba(86,97,110,.28) 7px 9px)` : "";
  return `background-color:${paint}${hatch};color:#1c2530`;
}
function phaseDiagram() {
  if (D.phases === null) return;
  const place = $("phase-result"), { axes, rows, columns, cases } = D.phases.grid, a = $("phase-a").value, b = $("phase-b").value;
  place.textContent = "";
  if (a === b) { make(place, "p", "Choose two methods.", { class: "empty" }); return; }
  const table = make(make(place, "div", null, { class: "scroll", tabindex: 0, role: "region", "aria-label": "phase diagram" }), "table", null, { class: "phases" });
  make(table, "caption", `Lead of ${a} over ${b} in GM-Appeal`);
  const head = make(table, "thead"), body = make(table, "tbody");
  if (axes[0]) { const top = make(head, "tr"); make(top, "th", ""); make(top, "th", axes[1], { colspan: columns.length, scope: "colgroup" }); }
  const names = make(head, "tr"); make(names, "th", axes[0]);
  for (const column of columns) make(names, "th", column, { scope: "col" });
  rows.forEach((row, i) => {
    const tr = make(body, "tr"); make(tr, "th", row || "lead", { scope: "row" });
    cases[i].forEach((cell) => {
      const lead = cell === null ? null : leadOf(cell, a, b);
      if (!lead) { make(tr, "td", "n/a"); return; }
      const td = make(tr, "td", null, { style: phaseColour(lead) });
      make(td, "b", signed(lead.m, 2));
      if (lead.low !== null) make(td, "small", `${signed(lead.low, 2)} to ${signed(lead.high, 2)}`);
      make(td, "small", `${lead.from.toFixed(2)} → ${lead.to.toFixed(2)}`);
    });
  });
}
