// charts.js - the charts over time.  They share a cursor, and dragging in one, or its
// keys, selects the range of all; in those of requests' times also how long these took.
import { clock, day, el, inUtc, ms, octave, octaveEnd, percent, rate, tierName, tookWords } from "./format.js";

const { Dygraph } = window;		// of dygraph.min.js
const plots = new Map();
let marks = { shades: [], events: [] };
let nodeMarks = new Map();
let extent = [0, 1];		// of the time axis, in ms
let at = null;			// the time under the cursor, in ms
let from = null;		// the other end of a range that keys select, in ms
let heat = null;		// the data of the heatmap
let level = null, base = null;	// likewise of durations: the ends of octaves
let whole = false;		// times are those of whole requests
let took = null;		// how long the chosen requests took: [over, up to] in ms
let logarithmic = false;
let ring = null;		// a request in it: start and length in ms; null: none
let onRange = () => {};

// Its legend has inline styles, which the page's Content-Security-Policy refuses: the
// legend is ours.
Dygraph.PLUGINS = [Dygraph.Plugins.Axes, Dygraph.Plugins.Grid];

export const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
export const tierColor = (i) => `c${i === 0 ? 0 : 1 + (i - 1) % 12}`;

// Black or white, whichever is easier to read on it.
export function ink(fill) {
	const [r, g, b] = [1, 3, 5].map((i) => (Number.parseInt(fill.slice(i, i + 2), 16) / 255) ** 2.2);

	return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000000" : "#ffffff";
}

export function onDrag(fn) {
	onRange = fn;
}

// shades: of each step, which part was not measured; the axis is as long as the range.
export function setMarks(m, r) {
	marks = m;
	extent = [r.since, r.until];
}

// Of charts of single nodes: [what their ids end with, marks].
export function setNodeMarks(each) {
	nodeMarks = new Map(each);
}

const marksAt = (id) => nodeMarks.get(/-\d+$/.exec(id)?.[0]) ?? marks;

export function setScale(isLog) {
	logarithmic = isLog;
}

// ofWhole: of whole requests, not of calls of a tier; ends: of the durations that are chosen, or null.
export function setDurations(ofWhole, ends) {
	whole = ofWhole;
	took = ends;
}

const MARK = 30;	// characters of a mark that stand in a chart

// Shades what was not measured, from the top down as far as its part of all; draws lines at
// overloads, reloads and reconnects.
function drawMarks(ctx, area, g, of) {
	ctx.save();
	ctx.fillStyle = color("shade");
	for (const s of of.shades) {
		const x = g.toDomXCoord(s.from * 1e3);

		ctx.fillRect(x, area.y, Math.max(2, g.toDomXCoord(s.to * 1e3) - x), Math.max(3, s.part * area.h));
	}
	ctx.strokeStyle = color("bad");
	ctx.setLineDash([4, 4]);
	ctx.fillStyle = color("soft");
	ctx.font = "11px system-ui, sans-serif";
	ctx.textBaseline = "top";
	let free = area.x;

	for (const e of of.events) {
		const x = Math.round(g.toDomXCoord(e.t * 1e3));

		ctx.beginPath();
		ctx.moveTo(x, area.y);
		ctx.lineTo(x, area.y + area.h);
		ctx.stroke();
		// its name, where there is room: the others show under the cursor
		const name = e.kind === "mark" ? e.text.slice(0, MARK) : e.kind;
		const wide = ctx.measureText(name).width + 6;

		if (x >= free && x + wide <= area.x + area.w) {
			ctx.fillText(name, x + 3, area.y + 1);
			free = x + wide;
		}
	}
	ctx.restore();
}

// What the lines and the shade at the cursor are.
function namesAt(p, row) {
	const of = marksAt(p.id), shade = of.shades.find((x) => x.from * 1e3 <= p.t[row] && p.t[row] < x.to * 1e3);

	return [...shade ? [` ${percent(shade.part)} not measured`] : [],
		...of.events.filter((e) => rowAt(p.t, e.t * 1e3) === row).map((e) => ` ${e.kind}${e.node ? ` (${e.node})` : ""}${e.text ? `: ${e.text}` : ""}`)].join(";");
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

// The legend has the values at the cursor, else the last ones.
function showCursor(p) {
	const on = at !== null && p.t.length > 0;
	const row = on ? rowAt(p.t, at) : p.t.findLastIndex((t, i) => p.series.some((x) => !x.then && x.values[i] !== null && x.values[i] !== undefined));

	p.cursor.hidden = !on;
	if (on) {
		p.g.setSelection(row);
		p.cursor.style.left = `${p.g.toDomXCoord(p.t[row])}px`;
	} else {
		p.g.clearSelection();
	}
	p.time.textContent = row < 0 ? "–" : (on ? "" : "last, ") + moment(p.t[row]) + namesAt(p, row);
	p.values.forEach((b, i) => { b.textContent = row < 0 ? "–" : p.series[i].value(row); });
}

function setCursor(time) {
	at = time;
	plots.forEach(showCursor);
}

function legend(p) {
	const part = (label, c, value, then) => el("span", {}, c ? el("i", { style: then ? { border: `2px dashed ${c}` } : { background: c } }) : null,
		el("span", { class: "label" }, label), " ", value);

	return el("p", { class: "legend" }, part("time", "", p.time), ...p.series.map((s, i) => part(s.label, s.options.color, p.values[i], s.then)));
}

// ---- by mouse, finger and keys

const BAND_PX = 30;	// dragged so far up or down it is of durations, too

const hasDurations = (id) => whole && /^c-(time|heat)\b/.test(id);

// The octaves that the axis of a chart has: [from, to], ends of octaves.
function octaves(p) {
	const [lo, hi] = p.g.yAxisRange();

	return [octave(Math.max(lo, hi / 1024) * 1.001) - 1, octave(hi)];
}

// The nearest ends of octaves, of which there is one at least; past the axis there is none.
function band(p, a, b) {
	const [least, most] = octaves(p);
	const [from, to] = [a, b].sort((x, y) => x - y).map((v) => Math.min(Math.max(Math.round(v), least), most));

	return [from === least ? 0 : octaveEnd(Math.min(from, most - 1)), Math.max(to, from + 1) >= most ? Infinity : octaveEnd(Math.max(to, from + 1))];
}

// All durations are none: requests whose end was not seen are among them.
const known = (of) => of !== null && of[0] === 0 && of[1] === Infinity ? null : of;

// Selects a range with a mouse, a pen or a finger, which still scrolls up and down.
function listen(p) {
	let start = null;
	const x = (e) => {
		const { x: left, w } = p.g.getArea();

		return Math.min(Math.max(e.clientX - p.graph.getBoundingClientRect().left, left), left + w);
	};
	const y = (e) => e.clientY - p.graph.getBoundingClientRect().top;
	const log = (px) => Math.log2(Math.max(p.g.toDataYCoord(px), 1e-6) / 1e3);
	const durations = (e) => hasDurations(p.id) && Math.abs(y(e) - start.y) > BAND_PX ? band(p, log(start.y), log(y(e))) : null;
	const ended = () => {
		start = null;
		p.selected.hidden = true;
	};

	p.graph.addEventListener("pointerdown", (e) => {
		if (e.button !== 0)
			return;
		start = { x: x(e), y: y(e) };
		p.graph.setPointerCapture(e.pointerId);
	});
	p.graph.addEventListener("pointermove", (e) => {
		if (start === null)
			return;
		select(p, start.x, x(e), durations(e));
		setCursor(p.g.toDataXCoord(x(e)));
	});
	p.graph.addEventListener("pointerup", (e) => {
		if (start === null)
			return;
		const ends = [start.x, x(e)].sort((a, b) => a - b), of = known(durations(e));
		const wide = ends[1] - ends[0] > 4;

		ended();
		if (wide || of !== null)
			onRange(...wide ? ends.map((v) => p.g.toDataXCoord(v)) : extent, of);
	});
	p.graph.addEventListener("pointercancel", ended);
	p.graph.addEventListener("keydown", (e) => key(p, e));
	p.graph.addEventListener("blur", () => leave(p));
}

// of: durations, or null.
function select(p, a, b, of) {
	const { y: top, h } = p.g.getArea();
	const [high, low] = of === null ? [0, 0] : [of[1], of[0]].map((v) => Math.min(Math.max(v === Infinity ? top : v === 0 ? top + h : p.g.toDomYCoord(v), top), top + h));

	p.selected.hidden = false;
	p.selected.style.left = `${Math.min(a, b)}px`;
	p.selected.style.width = `${Math.abs(b - a)}px`;
	p.selected.style.top = of === null ? "" : `${high}px`;
	p.selected.style.bottom = of === null ? "" : "auto";
	p.selected.style.height = of === null ? "" : `${Math.max(low - high, 1)}px`;
}

function leave(p) {
	from = level = base = null;
	p.selected.hidden = true;
	setCursor(null);
}

// What a screen reader is to read.
function say(p) {
	const parts = [...from === null ? [] : [`from ${moment(Math.min(from, at))} to ${moment(Math.max(from, at))}`], ...base === null || base === level ? [] : [`requests that took ${tookWords(...band(p, base, level))}`]];
	const range = parts.length > 0 ? ` Selected ${parts.join(", ")}.` : level === null ? "" : ` At ${ms(octaveEnd(level))}.`;

	document.getElementById("chart-at").textContent = `${p.time.textContent}. ${p.series.map((s, i) => `${s.label} ${p.values[i].textContent}`).join(", ")}.${range}`;
}

// The time of the next event that the chart has, or the one before; where there is none the same.
function eventFrom(p, now, by) {
	const times = marksAt(p.id).events.map((e) => e.t * 1e3).filter((t) => by > 0 ? t > now : t < now);

	return times.length === 0 ? now : by > 0 ? times[0] : times.at(-1);
}

// Up and down move by octaves of durations, with shift they select these.
function moveLevel(p, by, selects) {
	const [least, most] = octaves(p);
	const old = level ?? (by > 0 ? least : most);

	base = selects ? base ?? old : null;
	level = Math.min(Math.max(level === null && !selects ? old : old + by, least), most);
}

// Left and right move the cursor, with shift they select a range, n and p go to events.
const STEPS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };

function key(p, e) {
	const by = STEPS[e.key], event = { n: 1, p: -1 }[e.key], up = hasDurations(p.id) ? { ArrowUp: 1, ArrowDown: -1 }[e.key] : undefined;

	if (e.ctrlKey || e.metaKey || e.altKey || p.t.length === 0)
		return;
	if (by !== undefined) {
		const last = p.t.length - 1;
		// the first arrow shows the last values
		const row = at === null && by > -Infinity ? last : Math.min(Math.max(rowAt(p.t, at) + by, 0), last);

		from = e.shiftKey ? from ?? at ?? p.t[row] : null;
		setCursor(p.t[row]);
	} else if (event !== undefined) {
		setCursor(eventFrom(p, at ?? (event > 0 ? -Infinity : Infinity), event));
	} else if (up !== undefined) {
		moveLevel(p, up, e.shiftKey);
	} else if (e.key === "Enter" && (from !== null && from !== at || base !== null && base !== level)) {
		const ends = from !== null && from !== at ? [from, at].sort((a, b) => a - b) : extent;
		const of = base !== null && base !== level ? known(band(p, base, level)) : null;

		leave(p);
		onRange(...ends, of);
		return e.preventDefault();
	} else if (e.key === "Escape") {
		return leave(p);
	} else {
		return;
	}
	e.preventDefault();
	if (from === null && level === null)
		p.selected.hidden = true;
	else
		select(p, ...[from ?? extent[0], from === null ? extent[1] : at].map((v) => p.g.toDomXCoord(v)),
			level === null ? null : base === null || base === level ? [octaveEnd(level), octaveEnd(level)] : band(p, base, level));
	if (at !== null || level !== null)
		say(p);
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
			y: { axisLabelFormatter: (v) => tick(unit(v)), axisLabelWidth: 54, pixelsPerLabel: 24, ...y },
		},
		labelsUTC: inUtc(),
		axisLabelFontSize: 12, axisLineColor: grid, axisLineWidth: 1, gridLineColor: grid, gridLineWidth: 1,
		highlightCircleSize: 3, interactionModel: {}, underlayCallback: (ctx, area, g) => drawMarks(ctx, area, g, marksAt(p.id)),
		highlightCallback: (e, x, points, row) => setCursor(p.t[row]),
		unhighlightCallback: () => setCursor(null),
		drawCallback: (g, first) => first || showCursor(p),
	};
}

// Shows a chart: new data only, unless its series have changed.  Times are in s.
function show(id, key, times, series, unit, range, y = {}) {
	const t = times.map((v) => v * 1e3);
	const few = t.length < 40;
	const now = `${key} ${logarithmic} ${series.length} ${few} ${matchMedia("(prefers-color-scheme: dark)").matches} ${inUtc()}`;
	const changing = { file: t.map((v, i) => [v, ...series.map((x) => (x.drawn ?? x.values)[i] ?? null)]), dateWindow: extent };
	const old = plots.get(id);

	if (old?.key === now) {
		Object.assign(old, { t, series });
		old.g.updateOptions({ ...changing, axes: { y: { valueRange: range } } });
		return;
	}
	const b = () => el("b", {}, "–");
	const host = document.getElementById(id);
	const focused = old?.graph.contains(document.activeElement);
	const p = { id, key: now, t, series, time: b(), values: series.map(b), graph: el("div", { class: "graph", tabindex: "0", role: "application",
		"aria-roledescription": "chart", "aria-label": host.querySelector("h2, h3").textContent, "aria-describedby": "chart-keys" }),
		cursor: el("div", { class: "cursor", hidden: true }), selected: el("div", { class: "selected", hidden: true }) };

	remove(id, p.graph, legend(p));
	for (const s of series)
		s.options.drawPoints ??= few;
	p.g = new Dygraph(p.graph, changing.file, { ...changing, ...options(p, unit, { ...y, valueRange: range }) });
	p.graph.append(p.selected, p.cursor);
	plots.set(id, p);
	listen(p);
	showCursor(p);
	if (focused)
		p.graph.focus();
}

// Takes a chart away, or those of its nodes, and shows something else in its place.
function remove(id, ...instead) {
	for (const [key, p] of plots)
		if (key === id || key.startsWith(`${id}-`)) {
			p.g.destroy();
			plots.delete(key);
		}
	document.querySelector(`#${id} .plot`).replaceChildren(...instead);
}

export const empty = (id, text) => remove(id, el("p", { class: "empty" }, text));

// Makes room for a chart of each node in place of one.  Where the same nodes have it they
// stay as they are: somebody may read them.
export function split(id, each, choose) {
	const host = document.getElementById(id), title = host.querySelector("h2").textContent;
	const key = JSON.stringify([title, each.map((x) => x.node).sort()]);

	if (host.querySelector(".nodes")?.dataset.key !== key)
		remove(id, el("div", { class: "nodes", "data-key": key }, each.map((x) => el("div", { id: id + x.at }, el("h3", {}, el("span", { class: "unseen" }, `${title}, `),
			el("button", { type: "button", class: "link", onclick: () => choose(x.node) }, x.node)), el("div", { class: "plot" })))));
}

// From 0, or the least that a logarithm has, to a little more than the largest value.
function span(columns, isLog) {
	const all = columns.flat().filter((v) => v > 0);
	const most = all.reduce((a, v) => Math.max(a, v), 0);

	if (isLog)
		return most > 0 ? [all.reduce((a, v) => Math.min(a, v), most) / 1.3, most * 1.3] : [0.1, 10];
	return [0, most > 0 ? most * 1.08 : 1];
}

// Each is of [id, key, times, series]; all have the same axis of figures.
function lines(each, unit, isLog = logarithmic) {
	const range = span(each.flatMap(([, , , series]) => series.map((x) => x.reach ?? x.drawn ?? x.values)), isLog);

	for (const one of each)
		show(...one, unit, range, isLog ? { logscale: true, ticker: logTicks(unit) } : {});
}

const line = (label, c, unit, values, more = {}) => ({ label, values, value: (row) => unit(values[row]),
	options: { color: color(c), strokeWidth: 1.8, pointSize: 2, ...more } });

const FILLED = { fillGraph: true, fillAlpha: 0.12 };

// Of the range to compare with, laid over the other one.
const earlier = (label, c, unit, values) => ({ ...line(`${label}, then`, c, unit, values, { strokeWidth: 1.3, strokePattern: [7, 4], drawPoints: false }), then: true });

const per = (v, by) => v.map((n, i) => n === null || !by[i] ? null : n / by[i]);

// The line is dashed if the ends of some requests were not seen, and missing if
// none was.
function errors(seen, values) {
	const part = seen.includes("at_least");
	const label = part ? "errors, at least" : seen.includes("not_seen") && !seen.includes("known") ? "errors: not seen" : "errors";

	return line(label, "c5", rate, values, part ? { strokePattern: [4, 4] } : {});
}

// Both on the times of either; those of `old` are so much later, in whole steps.
export function overlaid(s, old, by) {
	const step = s.step_s, later = Math.round(by / step) * step;
	const times = [...new Set([...s.t, ...old.t.map((t) => t + later)])].sort((a, b) => a - b).filter((t) => t * 1e3 < extent[1] && (t + step) * 1e3 > extent[0]);
	const on = (x, ahead) => {
		const rows = new Map(x.t.map((t, i) => [t + ahead, i]));
		const column = (v) => times.map((t) => v[rows.get(t)] ?? null);
		const columns = Object.entries(x).filter(([k, v]) => k !== "self" && Array.isArray(v));

		return { ...x, ...Object.fromEntries(columns.map(([k, v]) => [k, column(v)])), t: times, self: x.self.map((c) => ({ ...c, ms: column(c.ms) })) };
	};

	return [on(s, 0), on(old, later)];
}

// What these show is a list: all that is chosen, or single nodes.  at: what the id of its
// chart ends with; then: of the range to compare with, or null.
export function rates(each) {
	lines(each.map(({ at, s, then }) => {
		const [all, failed, unfinished] = [s.requests, s.errors, s.unfinished].map((v) => per(v, s.counted_s));
		const second = errors(s.raised_seen, failed);

		return [`c-rate${at}`, second.label, s.t, [line("requests", "c1", rate, all, logarithmic ? {} : FILLED), second, line("no end seen", "c2", rate, unfinished),
			...then ? [earlier("requests", "c1", rate, per(then.requests, then.counted_s)), earlier("errors", "c5", rate, per(then.errors, then.counted_s))] : []]];
	}), rate);
}

// limits: objectives of what is shown, a line each, as far as it is not far above the others.
export function times(each, limits) {
	const [, most] = span(each.map(({ s }) => s.p99_ms), false);

	lines(each.map(({ at, s, then }) => {
		const of = [["p99", "c5"], ...at === "" ? [["p90", "c2"]] : [], ["p50", "c1"]];
		const levels = limits.map((o) => s.t.map(() => o.limit_ms));

		return [`c-time${at}`, `time ${limits.map((o) => o.objective)}`, s.t, [...of.map(([p, c]) => line(p, c, ms, s[`${p}_ms`])), ...then ? of.map(([p, c]) => earlier(p, c, ms, then[`${p}_ms`])) : [],
			...limits.map((o, i) => ({ ...line(`objective ${o.percent} %`, "text", ms, levels[i], { strokeWidth: 1, strokePattern: [8, 3], drawPoints: false, highlightCircleSize: 0 }),
				reach: o.limit_ms <= 3 * most ? levels[i] : [] }))]];
	}), ms);
}

// In a chart of its own: it would flatten the others.
export function slowest({ s, then }) {
	lines([["c-max", "max", s.t, [line("max", "c0", ms, s.max_ms, { strokeWidth: 1 }), ...then ? [earlier("max", "c0", ms, then.max_ms)] : []]]], ms);
}

// Stacks the tiers: each is drawn from 0 to the sum of it and those below it, the
// topmost first.
export function selves(each) {
	lines(each.map(({ at, s, then }) => {
		const shown = s.self.map((c, i) => ({ ...c, c: tierColor(i), ms: per(c.ms, s.requests) })).filter((c) => c.ms.some((v) => v > 0));
		const sums = [];

		shown.forEach((c, k) => {
			sums.push(c.ms.map((x, i) => x === null ? null : x + (k > 0 ? sums[k - 1][i] ?? 0 : 0)));
		});
		return [`c-self${at}`, shown.map((c) => c.tier).join(" "), s.t, [...shown.map((c, k) => ({ ...line(tierName(c.tier), c.c, ms, c.ms,
			{ strokeWidth: 1, fillGraph: true, fillAlpha: 1, drawPoints: false }), drawn: sums[k] })),
		...then ? [earlier("all", "text", ms, per(then.t.map((t, i) => then.requests[i] === null ? null : then.self.reduce((n, c) => n + (c.ms[i] ?? 0), 0)), then.requests))] : []]];
	}), ms, false);
}

export function sampling(l) {
	const [all, measured] = [l.entry_calls, l.sampled].map((v) => per(v, l.counted_s));

	lines([["c-sample", "sample", l.t, [line("all, counted in the target", "c1", rate, all, FILLED), line("measured", "c3", rate, measured)]]], rate, false);
}

const share = (v) => v === null || v === undefined ? "–" : `${v < 1 ? v.toPrecision(2) : v.toFixed(1)} %`;

export function cost(l) {
	const [all, agent] = [l.cost_ms, l.agent_ms].map((v) => per(v, l.covered_s).map((n) => n === null ? null : n / 10));

	lines([["c-cost", "cost", l.t, [line("all of it", "c4", share, all, FILLED), line("of which the agent", "c8", share, agent)]]], share, false);
}

// ---- the heatmap: axes and cursor as in the others, with rectangles of our own

const low = (b, perOctave) => 2 ** (b / perOctave) * 1e3;

// A few of 1, 2, 5, 10, ... between the bounds.
const logTicks = (unit) => (lo, hi) => {
	const all = [];

	for (let e = Math.floor(Math.log10(lo)); e <= Math.ceil(Math.log10(hi)); e++)
		for (const n of hi / lo > 30 ? [1] : [1, 2, 5])
			if (n * 10 ** e >= lo && n * 10 ** e <= hi)
				all.push({ v: n * 10 ** e, label: tick(unit(n * 10 ** e)) });
	return all;
};

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
	ctx.strokeStyle = color("text");
	for (const end of whole && took !== null ? took.filter((v) => v > 0 && v < Infinity) : []) {
		ctx.lineWidth = 1;
		ctx.beginPath();
		ctx.moveTo(g.getArea().x, g.toDomYCoord(end));
		ctx.lineTo(g.getArea().x + g.getArea().w, g.toDomYCoord(end));
		ctx.stroke();
	}
	if (ring === null)
		return;
	ctx.lineWidth = 2;
	ctx.beginPath();
	ctx.arc(g.toDomXCoord(ring.at), g.toDomYCoord(ring.ms), 5, 0, 2 * Math.PI);
	ctx.stroke();
}

// Rings the open request in the heatmap.
export function markRequest(one) {
	ring = one;
	document.querySelector("#c-heat h2 small").textContent = `how many took how long${one ? `; ○ request ${one.id}` : ""}`;
	plots.get("c-heat")?.g.updateOptions({});
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

	show("c-heat", `heat ${h.tier}`, h.t, [{ ...line("measured times", "c1", rate, counts, { plotter: drawHeat }), drawn: h.t.map(() => null) }], ms,
		top >= least ? [low(least, h.per_octave), low(top + 1, h.per_octave)] : [0.1, 1000], { logscale: true, ticker: logTicks(ms) });
}
