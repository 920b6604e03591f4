// ---- how many models -----------------------------------------------------------------------
const GROUP_LINES = [["seen", "circle", ""], ["unseen", "square", "7 4"]];
function portfolioChart(place, family) {
  const most = Math.max(...family.models), least = Math.min(...family.models);
  const f = frame(place, { x: [least - .2, most + .2], y: [0, 1], xLabel: "global models", label: `GM-Appeal by number of models, ${family.method}`, whole: true });
  GROUP_LINES.forEach(([clients, mark, dash], g) => {
    const values = family.appeal[clients];
    if (!values || values.some(([m]) => m === null)) return;
    const shift = (g - .5) * 6, hue = colour(g);
    const points = values.map(([m], n) => `${(f.x(family.models[n]) + shift).toFixed(1)} ${f.y(m).toFixed(1)}`);
    draw(f.svg, "path", { d: `M${points.join("L")}`, fill: "none", stroke: hue, "stroke-width": 2, "stroke-dasharray": dash });
    values.forEach(([m, low, high], n) => {
      const x = f.x(family.models[n]) + shift;
      if (low !== null && high !== null) draw(f.svg, "line", { x1: x, x2: x, y1: f.y(low), y2: f.y(high), stroke: hue, "stroke-width": 1.4 });
      const spot = shape(f.svg, mark, x, f.y(m), 4.5, { fill: hue });
      draw(spot, "title", {}, `${family.models[n]} model${family.models[n] > 1 ? "s" : ""}, ${clients} clients: ${m.toFixed(2)}${low === null ? "" : ` (${low.toFixed(2)} to ${high.toFixed(2)})`}`);
    });
    draw(f.svg, "text", { x: f.left + 8 + 90 * g, y: f.top - 8, style: `fill:${hue};font-weight:600` }, `${mark === "circle" ? "●" : "■"} ${clients}`);
  });
}
function portfolios() {
  const place = $("portfolio-charts"), here = theCase().name;
  place.textContent = "";
  D.portfolio.filter((family) => family.case === here).forEach((family) => {
    const figure = make(place, "figure");
    make(figure, "figcaption", `GM-Appeal by number of models: ${family.method}`);
    portfolioChart(make(figure, "div"), family);
  });
  const has = $("portfolio").querySelector("table") !== null;
  $("portfolio").hidden = !has; document.querySelector('nav a[href="#portfolio"]').hidden = !has;
}
