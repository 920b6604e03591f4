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
function std(values) {
  if (values.length < 2) return 0;
  const m = mean(values);
  return Math.sqrt(values.reduce((s, v) => s + (v - m) * (v - m), 0) / (values.length - 1));
}
function printed(value, digits) {  // halves to even, as the tables have them
  const scaled = value * 10 ** digits, low = Math.floor(scaled);
  return scaled - low === .5 ? ((low % 2 ? low + 1 : low) / 10 ** digits).toFixed(digits) : value.toFixed(digits);
}
function significant(value) {  // digits after the point that show three significant ones
  return value === 0 || !isFinite(value) ? 3 : Math.max(0, 2 - Number(Math.abs(value).toExponential(2).split("e")[1]));
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
  const marks = ticks(options.x[0], options.x[1], width < 420 ? 4 : 7);
  for (const v of options.whole ? marks.filter(Number.isInteger) : marks) {
    draw(svg, "line", { x1: x(v), x2: x(v), y1: height - bottom, y2: height - bottom + 4, stroke: "#56616e" });
    draw(svg, "text", { x: x(v), y: height - bottom + 16, "text-anchor": "middle" }, short(v));
  }
  draw(svg, "line", { x1: left, x2: width - right, y1: height - bottom, y2: height - bottom, stroke: "#56616e" });
  draw(svg, "text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, options.xLabel);
  return { svg, x, y, width, height, left, right, top, bottom };
}
