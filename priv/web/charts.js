// charts.js - the charts over time.  They share a cursor, and dragging in one
// selects the range of all.
import { clock, day, el, ms, rate, tierName } from "./format.js";

const { Dygraph } = window;		// of dygraph.min.js
const plots = new Map();
let marks = { shades: [], events: [] };
let extent = [0, 1];		// of the time axis, in ms
let at = null;			// the time under the cursor, in ms
let heat = null;		// the data of the heatmap
let onRange = () => {};

// Its legend has inline styles, which the page's Content-Security-Policy refuses: the
// legend is ours.
Dygraph.PLUGINS = [Dygraph.Plugins.Axes, Dygraph.Plugins.Grid];

export const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
export const tierColor = (i) => `c${i === 0 ? 0 : 1 + (i - 1) % 9}`;

export function onDrag(fn) {
	onRange = fn;
}

export function setMarks(m, from, to) {
	marks = m;
	extent = [from * 1e3, to * 1e3];
}

// Shades times with losses; draws lines at overloads, reloads and reconnects.
function drawMarks(ctx, area, g) {
	ctx.save();
	ctx.fillStyle = color("shade");
	for (const s of marks.shades) {
		const x = g.toDomXCoord(s.from * 1e3);

		ctx.fillRect(x, area.y, Math.max(2, g.toDomXCoord(s.to * 1e3) - x), area.h);
	}
	ctx.strokeStyle = color("bad");
	ctx.setLineDash([4, 4]);
	for (const e of marks.events) {
		const x = Math.round(g.toDomXCoord(e.t * 1e3));

		ctx.beginPath();
		ctx.moveTo(x, area.y);
		ctx.lineTo(x, area.y + area.h);
		ctx.stroke();
	}
	ctx.restore();
}

// ---- the cursor and the legend

// The row that is nearest to a time.
function rowAt(t, time) {
	const i = t.findIndex((v) => v >= time);

	if (i < 0)
		return t.length - 1;
	return i > 0 && time - t[i - 1] < t[i] - time ? i - 1 : i;
}

// With the date, if the charts show more than a day.
const moment = (v) => `${extent[1] - extent[0] > 864e5 ? `${day(v).slice(5)} ` : ""}${clock(v)}`;

function showCursor(p) {
	const row = at === null ? -1 : rowAt(p.t, at);

	p.cursor.hidden = row < 0;
	if (row < 0) {
		p.g.clearSelection();
	} else {
		p.g.setSelection(row);
		p.cursor.style.left = `${p.g.toDomXCoord(p.t[row])}px`;
	}
	p.time.textContent = row < 0 ? "–" : moment(p.t[row]);
	p.values.forEach((b, i) => { b.textContent = row < 0 ? "–" : p.series[i].value(row); });
}

function setCursor(time) {
	at = time;
	plots.forEach(showCursor);
}

function legend(p) {
	const key = (label, c, value) => el("span", {}, c ? el("i", { style: { background: c } }) : null,
		el("span", { class: "label" }, label), " ", value);

	return el("p", { class: "legend" }, key("time", "", p.time), ...p.series.map((s, i) => key(s.label, s.options.color, p.values[i])));
}

// Selects a range with a mouse, a pen or a finger, which still scrolls up and down.
function listen(p) {
	let from = null;
	const x = (e) => {
		const { x: left, w } = p.g.getArea();

		return Math.min(Math.max(e.clientX - p.graph.getBoundingClientRect().left, left), left + w);
	};
	const ended = () => {
		from = null;
		p.selected.hidden = true;
	};

	p.graph.addEventListener("pointerdown", (e) => {
		if (e.button !== 0)
			return;
		from = x(e);
		p.graph.setPointerCapture(e.pointerId);
	});
	p.graph.addEventListener("pointermove", (e) => {
		if (from === null)
			return;
		p.selected.hidden = false;
		p.selected.style.left = `${Math.min(from, x(e))}px`;
		p.selected.style.width = `${Math.abs(x(e) - from)}px`;
		setCursor(p.g.toDataXCoord(x(e)));
	});
	p.graph.addEventListener("pointerup", (e) => {
		const ends = [from, x(e)].sort((a, b) => a - b);
		const chosen = from !== null && ends[1] - ends[0] > 4;

		ended();
		if (chosen)
			onRange(...ends.map((v) => p.g.toDataXCoord(v)));
	});
	p.graph.addEventListener("pointercancel", ended);
}

// ---- axes and lines

// Hours and minutes, with seconds if ticks are close; the date if they are days apart.
function timeTicks(...range) {
	const ticks = Dygraph.dateTicker(...range);
	const step = ticks.length > 1 ? ticks[1].v - ticks[0].v : 0;

	return ticks.map(({ v }) => ({ v, label: step >= 72e6 ? day(v).slice(5) : clock(v).slice(0, step >= 6e4 ? 5 : 8) }));
}

// "50", not "50.0", if no tick needs decimals.
const tick = (text) => text.replace(/\.0+(?=\D|$)/, "");

function options(p, unit, y) {
	const grid = color("grid");

	return {
		labels: ["time", ...p.series.map((s, i) => `s${i}`)],
		series: Object.fromEntries(p.series.map((s, i) => [`s${i}`, s.options])),
		axes: {
			x: { ticker: timeTicks, axisLabelFormatter: String, pixelsPerLabel: 80, axisLabelWidth: 70, axisTickSize: 6 },
			y: { axisLabelFormatter: (v) => tick(unit(v)), axisLabelWidth: 54, ...y },
		},
		axisLabelFontSize: 12, axisLineColor: grid, axisLineWidth: 1, gridLineColor: grid, gridLineWidth: 1,
		highlightCircleSize: 3, interactionModel: {}, underlayCallback: drawMarks,
		highlightCallback: (e, x, points, row) => setCursor(p.t[row]),
		unhighlightCallback: () => setCursor(null),
		drawCallback: (g, first) => first || showCursor(p),
	};
}

// Shows a chart: new data only, unless its series have changed.  `columns` are the
// times, in s, and the values of each series.
function show(id, key, columns, series, unit, range, y = {}) {
	const t = columns[0].map((v) => v * 1e3);
	const few = t.length < 40;
	const now = `${key} ${few} ${matchMedia("(prefers-color-scheme: dark)").matches}`;
	const changing = { file: t.map((v, i) => [v, ...columns.slice(1).map((c) => c[i])]), dateWindow: extent };
	const old = plots.get(id);

	if (old?.key === now) {
		Object.assign(old, { t, series });
		old.g.updateOptions({ ...changing, axes: { y: { valueRange: range } } });
		return;
	}
	const b = () => el("b", {}, "–");
	const p = { key: now, t, series, time: b(), values: series.map(b), graph: el("div", { class: "graph" }),
		cursor: el("div", { class: "cursor", hidden: true }), selected: el("div", { class: "selected", hidden: true }) };

	remove(id, p.graph, legend(p));
	for (const s of series)
		s.options.drawPoints ??= few;
	p.g = new Dygraph(p.graph, changing.file, { ...changing, ...options(p, unit, { ...y, valueRange: range }) });
	p.graph.append(p.selected, p.cursor);
	plots.set(id, p);
	listen(p);
	showCursor(p);
}

// Takes a chart away, and shows something else in its place.
function remove(id, ...instead) {
	plots.get(id)?.g.destroy();
	plots.delete(id);
	document.querySelector(`#${id} .plot`).replaceChildren(...instead);
}

export const empty = (id, text) => remove(id, el("p", { class: "empty" }, text));

// From 0 to a little more than the largest value.
function upTo(columns) {
	const most = columns.flat().reduce((a, v) => Math.max(a, v ?? 0), 0);

	return [0, most > 0 ? most * 1.08 : 1];
}

const lines = (id, key, columns, series, unit) => show(id, key, columns, series, unit, upTo(columns.slice(1)));

const line = (label, c, unit, values, more = {}) => ({ label, value: (row) => unit(values[row]),
	options: { color: color(c), strokeWidth: 1.8, pointSize: 2, ...more } });

const FILLED = { fillGraph: true, fillAlpha: 0.12 };

const per = (v, by) => v.map((n, i) => n === null || !by[i] ? null : n / by[i]);

// The line is dashed if the ends of some requests were not seen, and missing if
// none was.
function errors(seen, values) {
	const part = seen.includes("at_least");
	const label = part ? "errors, at least" : seen.includes("not_seen") && !seen.includes("known") ? "errors: not seen" : "errors";

	return line(label, "c5", rate, values, part ? { strokePattern: [4, 4] } : {});
}

export function rates(s) {
	const [all, failed, unfinished] = [s.requests, s.errors, s.unfinished].map((v) => per(v, s.covered_s));
	const second = errors(s.raised_seen, failed);

	lines("c-rate", second.label, [s.t, all, failed, unfinished], [
		line("requests", "c1", rate, all, FILLED), second, line("no end seen", "c2", rate, unfinished)], rate);
}

export function times(s) {
	lines("c-time", "time", [s.t, s.max_ms, s.p99_ms, s.p90_ms, s.p50_ms], [
		line("max", "c0", ms, s.max_ms, { strokeWidth: 1, strokePattern: [3, 3] }), line("p99", "c5", ms, s.p99_ms),
		line("p90", "c2", ms, s.p90_ms), line("p50", "c1", ms, s.p50_ms)], ms);
}

// Stacks the tiers: each is drawn from 0 to the sum of it and those below it, the
// topmost first.
export function selves(s) {
	const shown = s.self.map((c, i) => ({ ...c, c: tierColor(i), ms: per(c.ms, s.requests) })).filter((c) => c.ms.some((v) => v > 0));
	const sums = [];

	shown.forEach((c, k) => {
		sums.push(c.ms.map((x, i) => x === null ? null : x + (k > 0 ? sums[k - 1][i] ?? 0 : 0)));
	});
	lines("c-self", shown.map((c) => c.tier).join(" "), [s.t, ...sums], shown.map((c) =>
		line(tierName(c.tier), c.c, ms, c.ms, { strokeWidth: 1, fillGraph: true, fillAlpha: 1, drawPoints: false })), ms);
}

export function sampling(l) {
	const [all, measured] = [l.entry_calls, l.sampled].map((v) => per(v, l.covered_s));

	lines("c-sample", "sample", [l.t, all, measured], [
		line("all, counted in the target", "c1", rate, all, FILLED), line("measured", "c3", rate, measured)], rate);
}

const share = (v) => v === null || v === undefined ? "–" : `${v < 1 ? v.toPrecision(2) : v.toFixed(1)} %`;

export function cost(l) {
	const [all, agent] = [l.cost_ms, l.agent_ms].map((v) => per(v, l.covered_s).map((n) => n === null ? null : n / 10));

	lines("c-cost", "cost", [l.t, all, agent], [
		line("all of it", "c4", share, all, FILLED), line("of which the agent", "c8", share, agent)], share);
}

// ---- the heatmap: axes and cursor as in the others, with rectangles of our own

const low = (b, perOctave) => 2 ** (b / perOctave) * 1e3;

// A few of 1, 2, 5, 10, ... between the bounds.
function logTicks(lo, hi) {
	const all = [];

	for (let e = Math.floor(Math.log10(lo)); e <= Math.ceil(Math.log10(hi)); e++)
		for (const n of hi / lo > 30 ? [1] : [1, 2, 5])
			if (n * 10 ** e >= lo && n * 10 ** e <= hi)
				all.push({ v: n * 10 ** e, label: tick(ms(n * 10 ** e)) });
	return all;
}

function drawHeat({ drawingContext: ctx, dygraph: g }) {
	const shade = color("heat");

	for (let i = 0; i < heat.t.length; i++) {
		const cells = heat.buckets[i];
		const x = g.toDomXCoord(heat.t[i] * 1e3);
		const w = g.toDomXCoord((heat.t[i] + heat.step_s) * 1e3) - x;

		for (let k = 0; cells && k < cells.length; k += 2) {
			const y = g.toDomYCoord(low(cells[k] + 1, heat.per_octave));

			ctx.fillStyle = `rgba(${shade}, ${0.1 + 0.9 * Math.sqrt(cells[k + 1] / heat.most)})`;
			ctx.fillRect(x, y, Math.max(1, w - 0.5), g.toDomYCoord(low(cells[k], heat.per_octave)) - y - 0.5);
		}
	}
}

export function heatmap(h) {
	let least = Infinity, top = -Infinity;

	h.most = 1;
	for (const cells of h.buckets)
		for (let k = 0; cells && k < cells.length; k += 2) {
			least = Math.min(least, cells[k]);
			top = Math.max(top, cells[k]);
			h.most = Math.max(h.most, cells[k + 1]);
		}
	heat = h;
	const counts = h.buckets.map((c) => c === null ? null : c.reduce((sum, n, k) => sum + (k % 2 ? n : 0), 0));

	show("c-heat", `heat ${h.tier}`, [h.t, h.t.map(() => null)], [
		line("measured times", "c1", rate, counts, { plotter: drawHeat })], ms,
	top >= least ? [low(least, h.per_octave), low(top + 1, h.per_octave)] : [0.1, 1000],
	{ logscale: true, ticker: logTicks });
}
