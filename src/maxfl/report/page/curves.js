// ---- curves over rounds --------------------------------------------------------------------
function curve(id, metric, percent, digits) {
  const place = $(id);
  const found = theCase().curves.find((c) => c.metric === metric && c.clients === state.group);
  if (!found) { place.textContent = ""; make(place, "p", `These runs have no such values for ${state.group} clients.`, { class: "empty" }); return; }
  const last = Math.max(...found.lines.map((l) => l.rounds[l.rounds.length - 1]));
  const format = percent ? (v) => `${Math.round(v * 100)} %` : short;
  const [low, high] = found.range, clip = (v) => Math.min(high, Math.max(low, v));
  const f = frame(place, { x: [0, last || 1], y: [low, high], xLabel: "communication rounds", label: `${metric} over rounds`, format });
  if (theCase().startRound) {
    draw(f.svg, "line", { x1: f.x(theCase().startRound), x2: f.x(theCase().startRound), y1: f.top, y2: f.height - f.bottom, stroke: "#56616e", "stroke-dasharray": "2 3" });
    const late = theCase().startRound > last / 2;
    draw(f.svg, "text", { x: f.x(theCase().startRound) + (late ? -4 : 4), y: f.top + 10, "text-anchor": late ? "end" : "start" }, "clients may leave from here");
  }
  const lines = found.lines.map((line) => {
    const columns = line.rounds.map((_, e) => line.values.map((s) => s[e]));
    const known = (of) => (c) => (c.includes(null) ? null : of(c));
    return { ...line, mean: columns.map(known(mean)), spread: columns.map(known(std)) };
  });
  for (const line of lines) {
    const points = line.rounds.map((r, e) => [r, line.mean[e], line.spread[e]]).filter((p) => p[1] !== null);
    const thin = isThin(line);
    if (line.values.length > 1 && !thin) {
      const up = points.map(([r, m, s]) => `${f.x(r)} ${f.y(clip(m + s))}`), down = points.map(([r, m, s]) => `${f.x(r)} ${f.y(clip(m - s))}`).reverse();
      draw(f.svg, "path", { d: `M${up.concat(down).join("L")}Z`, fill: colour(line.method), opacity: .14 });
    }
    draw(f.svg, "path", { d: "M" + points.map(([r, m]) => `${f.x(r).toFixed(1)} ${f.y(clip(m)).toFixed(1)}`).join("L"), fill: "none",
      stroke: colour(line.method), "stroke-width": thin ? 1 : 2.2, "stroke-dasharray": DASHES[line.method % 8], "stroke-linejoin": "round" });
    const every = Math.max(1, Math.floor(points.length / 6));
    if (!thin) points.forEach(([r, m], e) => { if ((e + line.method) % every === 0) shape(f.svg, SHAPES[line.method % 8], f.x(r), f.y(clip(m)), 4, { fill: colour(line.method) }); });
  }
  const every = [...new Set(lines.flatMap((l) => l.rounds))].sort((a, b) => a - b);
  const cursor = draw(f.svg, "line", { y1: f.top, y2: f.height - f.bottom, stroke: "#1c2530", "stroke-width": 1, visibility: "hidden" });
  const box = make(place, "p", "", { class: "readout" });
  const tellAt = (near) => {
    box.textContent = `Round ${near}: ` + lines.map((l) => {
      const e = l.rounds.indexOf(near);
      if (e < 0 || l.mean[e] === null) return null;
      const n = (v) => printed(percent ? 100 * v : v, digits ?? significant(Math.max(Math.abs(l.mean[e]), l.spread[e])));
      return `${lineName(l)} ${n(l.mean[e])}${l.values.length > 1 ? " ± " + n(l.spread[e]) : ""}${percent ? " %" : ""}`;
    }).filter(Boolean).join("; ");
  };
  let shown = last;
  const moveTo = (round) => {
    shown = round;
    cursor.setAttribute("x1", f.x(round)); cursor.setAttribute("x2", f.x(round)); cursor.setAttribute("visibility", "visible");
    tellAt(round);
  };
  const show = (event) => {
    const rect = f.svg.getBoundingClientRect(), at = (event.clientX - rect.left) / rect.width * f.width;
    const round = Math.max(0, Math.min(last, (at - f.left) / (f.width - f.left - f.right) * last));
    moveTo(every.reduce((a, b) => (Math.abs(b - round) < Math.abs(a - round) ? b : a)));
  };
  tellAt(last);
  f.svg.addEventListener("pointermove", show); f.svg.addEventListener("pointerdown", show);
  f.svg.setAttribute("tabindex", "0"); box.setAttribute("aria-live", "polite");
  f.svg.addEventListener("keydown", (event) => {
    const at = every.indexOf(shown), to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: every.length - 1 }[event.key];
    if (to === undefined) return;
    moveTo(every[Math.max(0, Math.min(every.length - 1, to))]); event.preventDefault();
  });
}
const isThin = (line) => line.model !== theCase().methods[line.method].model;
const lineName = (line) => { const m = theCase().methods[line.method]; return isThin(line) ? `${m.short}, global model` : m.name; };
function legend() {
  const place = $("legend"); place.textContent = "";
  theCase().methods.forEach((m, i) => {
    const entry = make(place, "span"), svg = draw(entry, "svg", { viewBox: "0 0 40 14", "aria-hidden": "true" });
    draw(svg, "line", { x1: 0, x2: 40, y1: 7, y2: 7, stroke: colour(i), "stroke-width": 2.4, "stroke-dasharray": DASHES[i % 8] });
    shape(svg, SHAPES[i % 8], 20, 7, 4.5, { fill: colour(i) });
    make(entry, "span", m.name);
    if (m.model === "global") return;
    const other = make(place, "span"), thin = draw(other, "svg", { viewBox: "0 0 40 14", "aria-hidden": "true" });
    draw(thin, "line", { x1: 0, x2: 40, y1: 7, y2: 7, stroke: colour(i), "stroke-width": 1, "stroke-dasharray": DASHES[i % 8] });
    make(other, "span", `${m.short}, global model`);
  });
}
function curves() {
  $("about-data").textContent = theCase().data;
  legend(); curve("chart-appeal", "gm_appeal", false, 2); curve("chart-metric", D.metric.key, D.metric.percent, D.metric.digits);
}
