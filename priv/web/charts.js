// charts.js - the charts over time.  They share a cursor, and dragging in one
// selects the range of all.
import uPlot from "./uPlot.esm.js";
import { clock, day, ms, rate, tierName } from "./format.js";

const HEIGHT = 190;
const sync = uPlot.sync("time");
const plots = new Map();
let marks = { shades: [], events: [] };
let extent = [0, 1];		// of the time axis, in s
let onRange = () => {};
let dragged = null;		// the chart in which a drag began: all get its end

export const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
export const tierColor = (i) => `c${i === 0 ? 0 : 1 + (i - 1) % 9}`;

export function onDrag(fn) {
	onRange = fn;
}

export function setMarks(m, from, to) {
	marks = m;
	extent = [from, to];
}

// Shades times with losses; draws lines at overloads, reloads and reconnects.
function drawMarks(u) {
	const { ctx, bbox } = u;

	ctx.save();
	ctx.beginPath();
	ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
	ctx.clip();
	ctx.fillStyle = color("shade");
	for (const s of marks.shades) {
		const x = u.valToPos(s.from, "x", true);

		ctx.fillRect(x, bbox.top, Math.max(2, u.valToPos(s.to, "x", true) - x), bbox.height);
	}
	ctx.strokeStyle = color("bad");
	ctx.setLineDash([4, 4]);
	for (const e of marks.events) {
		const x = Math.round(u.valToPos(e.t, "x", true));

		ctx.beginPath();
		ctx.moveTo(x, bbox.top);
		ctx.lineTo(x, bbox.top + bbox.height);
		ctx.stroke();
	}
	ctx.restore();
}

// Hours and minutes, with seconds if ticks are close; the date if they are days apart.
function tickTimes(u, splits, axis, space, step) {
	return splits.map((v) => step >= 86400 ? day(v * 1e3).slice(5) :
		clock(v * 1e3).slice(0, step >= 60 ? 5 : 8));
}

// "50", not "50.0", if no tick needs decimals.
const tick = (text) => text.replace(/\.0+(?=\D|$)/, "");

function axes(unit) {
	const common = { stroke: color("soft"), grid: { stroke: color("grid"), width: 1 }, ticks: { stroke: color("grid"), width: 1 }, font: "12px system-ui, sans-serif" };

	return [{ ...common, space: 80, values: tickTimes }, { ...common, size: 62, values: (u, v) => v.map((x) => x === null ? "" : tick(unit(x))) }];
}

const TIME = { time: true, range: () => extent };

function options(width, series, unit, { draw, ...extra }) {
	return {
		width, height: HEIGHT,
		cursor: { sync: { key: sync.key }, drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
		scales: { x: TIME, y: { range: (u, lo, hi) => [0, hi > 0 ? hi * 1.08 : 1] } },
		legend: { live: true },
		axes: axes(unit),
		series: [{ label: "time", value: (u, v) => v === null ? "" : clock(v * 1e3) }, ...series],
		hooks: { init: [(u) => u.over.addEventListener("mousedown", () => { dragged = u; })],
			drawClear: [drawMarks], draw: draw ? [draw] : [], setSelect: [(u) => {
				if (u.select.width <= 4)
					return;
				if (u === dragged)
					onRange(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x"));
				u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
			}] },
		...extra,
	};
}

// Shows a chart: new data only, unless its series have changed.
function show(id, key, data, series, unit, extra = {}) {
	const host = document.querySelector(`#${id} .plot`);
	const old = plots.get(id);
	const dark = matchMedia("(prefers-color-scheme: dark)").matches;
	const now = `${key} ${dark}`;

	if (old && old.key === now) {
		old.u.setData(data);
		return;
	}
	old?.u.destroy();
	host.replaceChildren();
	plots.set(id, { key: now, u: new uPlot(options(host.clientWidth, series, unit, extra), data, host) });
}

export function resize() {
	for (const [id, { u }] of plots)
		u.setSize({ width: document.querySelector(`#${id} .plot`).clientWidth, height: HEIGHT });
}

export function empty(id, text) {
	const p = document.createElement("p");

	plots.get(id)?.u.destroy();
	plots.delete(id);
	p.className = "empty";
	p.textContent = text;
	document.querySelector(`#${id} .plot`).replaceChildren(p);
}

const line = (label, c, unit, more = {}) => ({ label, stroke: color(c), width: 1.8, spanGaps: false,
	value: (u, v) => unit(v), points: { show: (u, i, i0, i1) => i1 - i0 < 40, size: 4 }, ...more });

const per = (v, by) => v.map((n, i) => n === null || !by[i] ? null : n / by[i]);

// The line is dashed if the ends of some requests were not seen, and missing if
// none was.
function errors(seen) {
	const part = seen.includes("at_least");
	const label = part ? "errors, at least" : seen.includes("not_seen") && !seen.includes("known") ? "errors: not seen" : "errors";

	return line(label, "c5", rate, part ? { dash: [4, 4] } : {});
}

export function rates(s) {
	const failed = errors(s.raised_seen);

	show("c-rate", failed.label, [s.t, per(s.requests, s.covered_s), per(s.errors, s.covered_s), per(s.unfinished, s.covered_s)], [
		line("requests", "c1", rate, { fill: `rgba(${color("heat")}, .12)` }),
		failed, line("no end seen", "c2", rate)], rate);
}

export function times(s) {
	show("c-time", "time", [s.t, s.max_ms, s.p99_ms, s.p90_ms, s.p50_ms], [
		line("max", "c0", ms, { width: 1, dash: [3, 3] }), line("p99", "c5", ms),
		line("p90", "c2", ms), line("p50", "c1", ms)], ms);
}

// Stacks the series: sums from the bottom up, drawn from the top down.
export function selves(s) {
	const shown = s.self.map((c, i) => ({ ...c, i })).filter((c) => c.ms.some((v) => v > 0));
	const values = shown.map((c) => per(c.ms, s.requests));
	const sums = [];

	values.forEach((v, k) => {
		sums.push(v.map((x, i) => x === null ? null : x + (k > 0 ? sums[k - 1][i] ?? 0 : 0)));
	});
	shown.reverse();
	values.reverse();
	sums.reverse();
	show("c-self", shown.map((c) => c.tier).join(" "), [s.t, ...sums], shown.map((c, k) =>
		line(tierName(c.tier), tierColor(c.i), ms, { width: 1, fill: color(tierColor(c.i)),
			points: { show: false },
			value: (u, v, si, i) => i === null ? "–" : ms(plots.get("c-self")?.values[k][i]) })), ms);
	plots.get("c-self").values = values;
}

export function sampling(l) {
	show("c-sample", "sample", [l.t, per(l.entry_calls, l.covered_s), per(l.sampled, l.covered_s)], [
		line("all, counted in the target", "c1", rate, { fill: `rgba(${color("heat")}, .12)` }),
		line("measured", "c3", rate)], rate);
}

const share = (v) => v === null || v === undefined ? "–" : `${v < 1 ? v.toPrecision(2) : v.toFixed(1)} %`;

export function cost(l) {
	const part = (v) => v.map((n, i) => n === null || !l.covered_s[i] ? null : n / l.covered_s[i] / 10);

	show("c-cost", "cost", [l.t, part(l.cost_ms), part(l.agent_ms)], [
		line("all of it", "c4", share, { fill: "rgba(176, 75, 192, .12)" }),
		line("of which the agent", "c8", share)], share);
}

// ---- the heatmap: uPlot's axes and cursor, with rectangles of our own

const low = (b, perOctave) => 2 ** (b / perOctave) * 1e3;

// A few of 1, 2, 5, 10, ... between the bounds.
function logTicks(lo, hi) {
	const all = [];

	for (let e = Math.floor(Math.log10(lo)); e <= Math.ceil(Math.log10(hi)); e++)
		for (const n of hi / lo > 30 ? [1] : [1, 2, 5])
			if (n * 10 ** e >= lo && n * 10 ** e <= hi)
				all.push(n * 10 ** e);
	return all;
}

function drawHeat(u) {
	const h = plots.get("c-heat")?.heat;

	if (!h)
		return;
	const { ctx } = u;

	ctx.save();
	for (let i = 0; i < h.t.length; i++) {
		const cells = h.buckets[i];

		for (let k = 0; cells && k < cells.length; k += 2) {
			const x = u.valToPos(h.t[i], "x", true);
			const w = u.valToPos(h.t[i] + h.step_s, "x", true) - x;
			const y = u.valToPos(low(cells[k] + 1, h.per_octave), "y", true);

			ctx.fillStyle = `rgba(${color("heat")}, ${0.1 + 0.9 * Math.sqrt(cells[k + 1] / h.most)})`;
			ctx.fillRect(x, y, Math.max(1, w - 0.5), u.valToPos(low(cells[k], h.per_octave), "y", true) - y - 0.5);
		}
	}
	ctx.restore();
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
	h.bounds = top >= least ? [low(least, h.per_octave), low(top + 1, h.per_octave)] : [0.1, 1000];
	if (plots.has("c-heat"))
		plots.get("c-heat").heat = h;
	const counts = h.buckets.map((c) => c === null ? null : c.reduce((sum, n, k) => sum + (k % 2 ? n : 0), 0));
	const bounds = () => (plots.get("c-heat")?.heat ?? h).bounds;

	show("c-heat", `heat ${h.tier}`, [h.t, counts], [
		{ label: "measured times", stroke: color("c1"), width: 0, points: { show: false }, paths: () => null, value: (u, v) => v === null ? "–" : rate(v) }],
	ms, { scales: { x: TIME, y: { distr: 3, log: 10, range: () => bounds() } },
		axes: [axes(ms)[0], { ...axes(ms)[1], splits: (u, axis, lo, hi) => logTicks(lo, hi) }],
		draw: drawHeat });
	plots.get("c-heat").heat = h;
}
