// waterfall.js - one slow request: where it stands among its type, what it waited for, and
// its calls on the axis of its time, by process and node, which zooms and is searched.
import { color, ink, tierColor } from "./charts.js";
import { count, el, estimate, fnName, identityName, ms, when, zoned } from "./format.js";

const ROWS = 300;		// before the button for all
const NEAREST = 1e-4;		// ms: no zoom shows less
const PATH = 4;			// calls of the critical path that are named
const TEXT_PX = 8;		// of room beside a text
const TICK_PX = 4;		// the same of a tick

// A call that was still running when its request was stored has no outcome.
const outcomeOf = (call) => call.outlasts ? "still running" : call.outcome;

// ---- the critical path

// What each call adds to the request's time, as spans of it: going back from the end, the
// call that ended last is what its caller waited for; before it began, the next one.
export function criticalPath(tree) {
	const below = tree.map(() => []), spans = [];
	const end = (i) => tree[i].start_ms + tree[i].total_ms;
	const todo = [];

	// as in self times, who made a call without a duration waited for what is inside it
	tree.forEach((c, i) => {
		let by = c.parent ?? 0;

		while (by > 0 && tree[by].total_ms === null)
			by = tree[by].parent ?? 0;
		if (i > 0 && c.total_ms !== null && !c.async)
			below[by].push(i);
	});
	if (tree.length > 0 && tree[0].total_ms !== null)
		todo.push([0, tree[0].start_ms, end(0)]);
	while (todo.length > 0) {
		const [i, from, to] = todo.pop();
		let at = to;

		for (const child of below[i].sort((a, b) => end(b) - end(a))) {
			const [began, ended] = [Math.max(tree[child].start_ms, from), Math.min(end(child), at)];

			if (ended <= began)
				continue;
			if (at > ended)
				spans.push({ call: i, from: ended, to: at });
			todo.push([child, began, ended]);
			at = began;
		}
		if (at > from)
			spans.push({ call: i, from, to: at });
	}
	return spans;
}

function pathWords(tree, spans) {
	const times = new Map();
	const whole = tree[0]?.total_ms || 1;

	for (const s of spans)
		times.set(fnName(tree[s.call].call), (times.get(fnName(tree[s.call].call)) ?? 0) + s.to - s.from);
	const all = [...times].sort((a, b) => b[1] - a[1]);

	return all.slice(0, PATH).map(([name, v]) => `${name} ${ms(v)} (${(100 * v / whole).toFixed(0)} %)`).join(", ") +
		(all.length > PATH ? `, ${count(all.length - PATH)} more` : "");
}

// ---- its type, and others

const low = (b, perOctave) => 2 ** (b / perOctave) * 1e3;

function histogram(p, total, text) {
	const rows = [];
	const at = Math.ceil(Math.log2(total / 1e3) * p.per_octave) - 1;

	for (let i = 0; i < p.buckets.length; i += 2)
		rows[p.buckets[i] - p.buckets[0]] = p.buckets[i + 1];
	const first = Math.min(p.buckets[0], at), last = Math.max(p.buckets.at(-2), at);
	const most = Math.max(...p.buckets.filter((v, i) => i % 2 === 1));

	return el("div", { class: "times", role: "img", "aria-label": text },
		el("div", { class: "bars" }, Array.from({ length: last - first + 1 }, (v, i) => {
			const n = rows[first + i - p.buckets[0]] ?? 0;

			return el("i", { class: first + i === at ? "here" : "", title: `${count(n)}: ${ms(low(first + i, p.per_octave))} to ${ms(low(first + i + 1, p.per_octave))}` },
				el("b", { style: { height: `${n > 0 ? Math.max(4, 100 * Math.sqrt(n / most)) : 0}%` } }));
		})),
		el("div", { class: "ends" }, el("span", {}, ms(low(first, p.per_octave))), el("span", {}, ms(low(last + 1, p.per_octave)))));
}

function place(t) {
	const p = t.place;

	if (p === null)
		return [el("p", { class: "soft" }, t.total_ms === null ? "Its end was not seen: it is not compared with its type." : "No times of its type are stored of this time.")];
	const of = `${estimate({ n: p.requests, known: p.requests_known }, count)} ${identityName(t.identity)} requests`;
	const share = Math.min(100 * p.faster / p.requests, 99.9).toFixed(1);
	const text = `${p.slowest ? `${t.weight === 0 ? "slower than all" : "the slowest"} of ${of}` : `slower than ${share} % of ${of}`}, ${when(p.start)} to ${when(p.end)}`;

	return [el("p", { id: "tree-place" }, text), histogram(p, t.total_ms, text)];
}

const link = (q, text, open) => el("button", { type: "button", class: "link", onclick: () => open(q.request) }, text);

function others(t, open) {
	const list = (words, all, text) => all.length === 0 ? [] : [el("p", {}, words, all.flatMap((q, i) => [i > 0 ? ", " : "", link(q, text(q), open)]))];
	const from = (q) => Date.parse(q.start) - Date.parse(t.start);
	const name = (q) => `${identityName(q.identity)} ${ms(q.total_ms)}`;

	return [...list("started inside ", t.outer ? [t.outer] : [], name), ...list("began inside it: ", t.inner, name),
		...list("at the same time on this node: ", t.peers, (q) => `${name(q)}, ${from(q) === 0 ? "as it began" : `${ms(Math.abs(from(q)))} ${from(q) < 0 ? "earlier" : "later"}`}`)];
}

function waits(t) {
	const queued = t.waits.filter((w) => w.receiver === "_queue"), rest = t.waits.filter((w) => w.receiver !== "_queue");
	const left = (text) => el("td", { class: "left" }, text);

	return [...queued.map((w) => el("p", {}, `waited ${ms(w.total_ms)} in a queue before it began`)),
		...rest.length === 0 ? [] : [el("p", {}, "messages in mailboxes:"), el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Messages in mailboxes" }, el("table", { "aria-label": "Messages in mailboxes" },
			el("thead", {}, el("tr", {}, ["waited for", "process", "messages", "total", "max", "node"].map((h, i) => el("th", { scope: "col", class: [2, 3, 4].includes(i) ? "" : "left" }, h)))),
			el("tbody", {}, rest.map((w) => el("tr", {}, el("td", { class: "name" }, fnName(w.receiver)), left(w.pid), el("td", {}, count(w.messages)),
				el("td", {}, ms(w.total_ms)), el("td", {}, ms(w.max_ms)), left(w.node))))))]];
}

// ---- calls

const pen = document.createElement("canvas").getContext("2d");

function widthOf(text) {
	pen.font = "12px system-ui, \"Segoe UI\", Roboto, \"DejaVu Sans\", sans-serif";
	return pen.measureText(text).width;
}

// As many round steps, of 1, 2 or 5 and zeros, as px have room for the labels of.
function ticks(from, to, px) {
	const [unit, name] = to > 1000 ? [1000, "s"] : to > 1 ? [1, "ms"] : to > 1e-3 ? [1e-3, "µs"] : [1e-6, "ns"];

	for (let e = Math.floor(Math.log10((to - from) / px)); ; e++)
		for (const step of [1, 2, 5].map((n) => n * 10 ** e)) {
			if (step * px / (to - from) < 20)
				continue;
			const first = Math.ceil(from / step - 1e-9);
			const all = Array.from({ length: Math.floor(to / step + 1e-9) - first + 1 }, (v, i) => (first + i) * step)
				.map((v) => ({ v, text: v === 0 ? "0" : `${Number((v / unit).toPrecision(10))} ${name}` }));

			if (all.every((k) => widthOf(k.text) + TICK_PX <= step * px / (to - from)))
				return all;
		}
}

function callName(call, before, node) {
	const moved = !before || before.pid !== call.pid || before.node !== call.node;

	return el("div", { class: "call", style: { paddingLeft: `${Math.min(call.depth, 12) * 12}px` } },
		fnName(call.call), moved ? el("div", { class: "where" }, `${call.pid}${call.node === node ? "" : ` on ${call.node}`}${call.async ? ", after the end" : ""}`) : null,
		call.after_ms > 0 && !call.async ? el("div", { class: "where" }, `${ms(call.after_ms)} after the request's end`) : null);
}

// Parts of self time, as far as they were measured.
const pausesOf = (gc, out) => [[gc, "in garbage collection"], [out, "scheduled out"]]
	.filter(([v]) => v !== null).map(([v, where]) => `${ms(v)} ${where}`).join(", ");

function pausesOfAll(tree) {
	const sum = (key) => tree.reduce((all, c) => c[key] === null ? all : (all ?? 0) + c[key], null);

	return pausesOf(sum("gc_ms"), sum("out_ms"));
}

const textOf = (call) => call.total_ms === null ? outcomeOf(call) :
	`${ms(call.total_ms)}${call.outcome === "returned" || call.outcome === "unknown" ? "" : `, ${call.outcome}`}`;

// A row: the name, and the lane with its bar, its part of the critical path, and its text.
function row(t, i, tiers, path) {
	const call = t.tree[i], pauses = pausesOf(call.gc_ms, call.out_ms);
	const fill = color(tierColor(tiers.indexOf(call.tier) + 1));
	const r = { call, path, text: textOf(call), name: callName(call, t.tree[i - 1], t.node),
		bar: el("i", { class: call.async ? "async" : "", style: { backgroundColor: fill } }), label: el("span", {}), ink: ink(fill),
		marks: path.map(() => el("b", { class: "path" })) };
	const figures = `starts at ${ms(call.start_ms)}, takes ${ms(call.total_ms)}${call.after_ms > 0 ? `, ${ms(call.after_ms)} of it after the request's end` : ""}, self ${ms(call.self_ms)}${pauses ? ` (${pauses})` : ""}, ${outcomeOf(call)}${
		path.length > 0 ? `, ${ms(path.reduce((sum, s) => sum + s.to - s.from, 0))} on the critical path` : ""}`;

	r.label.textContent = r.text;
	r.wide = widthOf(r.text) + TEXT_PX;
	r.lane = el("div", { class: "lane", "aria-hidden": "true" }, r.bar, r.marks, r.label);
	r.name.setAttribute("role", "listitem");
	r.name.title = `${fnName(call.call)}: ${figures}`;
	r.name.append(el("span", { class: "unseen" }, figures));
	return r;
}

// Beside the bar, after it or before it; inside, where the bar is long enough; else below it.
function putLabel(r, x, w, px) {
	const after = px - x - w >= r.wide, before = x >= r.wide, inside = w >= r.wide;
	const style = r.label.style;

	r.lane.className = after || before || inside ? "lane" : "lane under";
	style.left = after ? `${x + w + 6}px` : before ? "" : inside ? `${x + 4}px` : "0";
	style.right = !after && before ? `${px - x + 6}px` : "";
	style.color = !after && !before && inside ? r.ink : "";
}

// The calls, with what zooms and searches them.
function fall(t, tiers, events) {
	const begin = Math.min(0, ...t.tree.map((c) => c.start_ms));
	const end = Math.max(t.total_ms ?? 0, ...t.tree.map((c) => c.start_ms + (c.total_ms ?? 0))) || 1;
	const path = criticalPath(t.tree), paths = t.tree.map(() => []);
	let from = begin, to = end, rows = [], dragged = null, hit = -1;

	for (const s of path)
		paths[s.call].push(s);
	const list = el("div", { class: "fall", role: "list", "aria-label": "Calls" });
	const axis = el("div", { class: "axis", "aria-hidden": "true" });
	const over = el("div", { class: "over", "aria-hidden": "true" });
	const chosen = el("div", { class: "chosen", hidden: true });
	const canvas = el("canvas", {}), seen = el("div", { class: "seen" });
	const map = el("div", { class: "map", "aria-hidden": "true" }, canvas, seen);
	const found = el("span", { role: "status", class: "soft" });
	const box = el("div", { class: "calls", tabindex: "0", role: "group", "aria-label": "Calls over time. Keys: + and - zoom, left and right move, 0 shows all" }, over, list);

	over.append(...events.map((e) => el("i", { class: "event" })), chosen);

	function lay() {
		const px = axis.clientWidth, of = (v) => 100 * (v - from) / (to - from);
		const part = (a, b) => { const l = Math.min(Math.max(of(a), 0), 99.5), r = Math.min(Math.max(of(b), 0), 100); return [l, Math.max(r - l, 0)]; };

		if (px === 0)
			return;
		axis.replaceChildren(...ticks(from, to, px).filter((k) => of(k.v) / 100 * px + widthOf(k.text) + TICK_PX <= px).map((k) =>
			el("span", { style: { left: `${of(k.v)}%` } }, k.text)));
		for (const r of rows) {
			const last = r.call.start_ms + (r.call.total_ms ?? 0), [l, w] = part(r.call.start_ms, last);

			r.bar.hidden = r.label.hidden = r.call.start_ms > to || last < from;
			Object.assign(r.bar.style, { left: `${l}%`, width: `${w}%` });
			putLabel(r, l * px / 100, Math.max(w * px / 100, 2), px);
			r.path.forEach((s, i) => {
				const [a, b] = part(s.from, s.to);

				r.marks[i].hidden = s.from > to || s.to < from;
				Object.assign(r.marks[i].style, { left: `${a}%`, width: `${b}%` });
			});
		}
		Object.assign(over.style, { left: `${axis.offsetLeft}px`, width: `${px}px` });
		events.forEach((e, i) => {
			over.children[i].hidden = e.ms < from || e.ms > to;
			over.children[i].style.left = `${of(e.ms)}%`;
		});
		Object.assign(seen.style, { left: `${100 * (from - begin) / (end - begin)}%`, width: `${100 * (to - from) / (end - begin)}%` });
		box.dataset.from = from;
		box.dataset.to = to;
	}

	function drawMap() {
		const px = map.clientWidth, high = map.clientHeight, ctx = canvas.getContext("2d");

		canvas.width = px * devicePixelRatio;
		canvas.height = high * devicePixelRatio;
		ctx.scale(devicePixelRatio, devicePixelRatio);
		t.tree.forEach((c, i) => {
			ctx.fillStyle = color(tierColor(tiers.indexOf(c.tier) + 1));
			ctx.fillRect(px * (c.start_ms - begin) / (end - begin), (high - 2) * i / t.tree.length, Math.max(1, px * (c.total_ms ?? 0) / (end - begin)), Math.max(1, Math.min(5, high / t.tree.length - 1)));
		});
	}

	function show(a, b) {
		const length = Math.min(Math.max(b - a, NEAREST), end - begin);

		from = Math.min(Math.max(a, begin), end - length);
		to = from + length;
		lay();
	}
	const zoom = (by, at = (from + to) / 2) => show(at - (at - from) * by, at + (to - at) * by);
	const move = (by) => show(from + by * (to - from), to + by * (to - from));
	const all = () => show(begin, end);

	function add(until) {
		for (let i = rows.length; i < Math.min(until, t.tree.length); i++) {
			const r = row(t, i, tiers, paths[i]);

			rows.push(r);
			list.append(r.name, r.lane);
		}
		more.hidden = rows.length === t.tree.length;
	}

	// ---- search
	const is = (c, text) => [fnName(c.call), c.pid, c.node, c.tier ?? ""].some((s) => s.toLowerCase().includes(text));

	function search(next) {
		const text = find.value.trim().toLowerCase();
		const hits = text === "" ? [] : t.tree.flatMap((c, i) => is(c, text) ? [i] : []);

		if (hits.some((i) => i >= rows.length)) {
			add(t.tree.length);
			lay();
		}
		hit = !next || hits.length === 0 ? -1 : hits.find((i) => i > hit) ?? hits[0];
		rows.forEach((r, i) => {
			r.name.classList.toggle("hit", hits.includes(i));
			r.name.classList.toggle("at", i === hit);
			r.lane.classList.toggle("miss", text !== "" && !hits.includes(i));
		});
		rows[hit]?.name.scrollIntoView({ block: "nearest" });
		found.textContent = text === "" ? "" : `${count(hits.length)} of ${count(t.tree.length)} calls${hit >= 0 ? `, at ${hits.indexOf(hit) + 1}` : ""}`;
	}
	const find = el("input", { type: "search", maxlength: "200", oninput: () => search(false),
		onkeydown: (e) => { if (e.key === "Enter") search(true); } });
	const more = el("button", { type: "button", onclick: () => { add(t.tree.length); lay(); } }, `all ${count(t.tree.length)} calls`);

	// ---- mouse, pen, finger, keys
	const KEYS = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": all, Home: all, ArrowLeft: () => move(-0.25), ArrowRight: () => move(0.25) };

	box.addEventListener("keydown", (e) => {
		if (!KEYS[e.key] || e.ctrlKey || e.altKey || e.metaKey)
			return;
		KEYS[e.key]();
		e.preventDefault();
	});
	// The time under the pointer; of the map, where a whole request is.
	const timeAt = (e, host, a, b) => { const { left, width } = host.getBoundingClientRect(); return a + (b - a) * Math.min(Math.max((e.clientX - left) / width, 0), 1); };
	const inMap = (e) => map.contains(e.target);
	const at = (e) => inMap(e) ? timeAt(e, map, begin, end) : timeAt(e, axis, from, to);

	for (const host of [box, map]) {
		host.addEventListener("wheel", (e) => {
			if (!e.ctrlKey && !e.metaKey && host === box)
				return;
			zoom(e.deltaY > 0 ? 1.25 : 0.8, at(e));
			e.preventDefault();
		}, { passive: false });
		host.addEventListener("pointerdown", (e) => {
			if (e.button !== 0 || (host === box && e.clientX < axis.getBoundingClientRect().left))
				return;
			dragged = at(e);
			host.setPointerCapture(e.pointerId);
		});
		host.addEventListener("pointermove", (e) => {
			if (dragged === null || host === map)
				return;
			const ends = [dragged, at(e)].sort((a, b) => a - b);

			chosen.hidden = false;
			Object.assign(chosen.style, { left: `${100 * (ends[0] - from) / (to - from)}%`, width: `${100 * (ends[1] - ends[0]) / (to - from)}%` });
		});
		host.addEventListener("pointerup", (e) => {
			if (dragged === null)
				return;
			const ends = [dragged, at(e)].sort((a, b) => a - b);
			const whole = host === map ? end - begin : to - from;

			dragged = null;
			chosen.hidden = true;
			if (ends[1] - ends[0] > 0.01 * whole)
				show(...ends);
			else if (host === map)
				show(ends[0] - (to - from) / 2, ends[0] + (to - from) / 2);
		});
		host.addEventListener("pointercancel", () => { dragged = null; chosen.hidden = true; });
	}
	list.append(el("div", { class: "axis", "aria-hidden": "true" }), axis);
	add(ROWS);
	new ResizeObserver(() => { drawMap(); lay(); }).observe(axis);
	const button = (text, name, onclick) => el("button", { type: "button", "aria-label": name, title: name, onclick }, text);

	return { path, parts: [
		el("div", { class: "keys" }, [...new Set(t.tree.map((c) => c.tier))].map((name) =>
			el("span", {}, el("i", { style: { backgroundColor: color(tierColor(tiers.indexOf(name) + 1)) } }), name ?? "in no tier")),
		path.length > 0 ? el("span", {}, el("i", { class: "path" }), "critical path") : null),
		el("div", { class: "choices" }, el("span", { class: "segments" }, button("+", "zoom in", () => zoom(0.5)), button("−", "zoom out", () => zoom(2)), button("whole", "show the whole request", all)),
			el("label", {}, "search ", find), found),
		map, box, more] };
}

// Shows the answer t in host; actions: open, copy, copyTrace, save, trace and close.
export function waterfall(host, t, { tiers, events, actions }) {
	const inside = events.map((e) => ({ ...e, ms: Date.parse(e.at) - Date.parse(t.start) }));
	const calls = fall(t, tiers, inside), pauses = pausesOfAll(t.tree);
	const button = (text, title, onclick) => el("button", { type: "button", title, onclick }, text);

	host.replaceChildren(
		el("h3", { id: "tree-title" }, identityName(t.identity)),
		el("p", { class: "soft" }, `request ${t.request}, ${zoned(t.start)} on ${t.node}: ${ms(t.total_ms)}, ${t.outcome}, ${t.calls} calls`,
			t.weight > 1 ? `; stands for ${t.weight} requests` : t.weight === 0 ? "; outside of slices of time: tiers were not traced" : "",
			t.parent_label && !t.outer ? "; started inside another request" : ""),
		...t.trace_id ? [el("p", { id: "tree-trace" }, "trace ", el("code", {}, t.trace_id), " of the application, below its span ", el("code", {}, t.trace_span_id),
			t.trace_sampled ? " " : ", not sampled ", button("copy trace id", "it finds this request in the application's log and traces", actions.copyTrace))] : [],
		el("div", { class: "choices" }, button("copy link", "a link to this request and this time", actions.copy),
			button("Perfetto", "save it as Chrome's trace events, for ui.perfetto.dev and chrome://tracing", () => actions.save("chrome")),
			button("speedscope", "save it for speedscope.app", () => actions.save("speedscope")),
			button("OTLP", "save it as OpenTelemetry's JSON", () => actions.save("otlp")),
			button("stacks", "sampled stacks of its type in this time", actions.stacks),
			...t.total_ms > 0 ? [button("slow against fast", "the functions that take longer in requests of its type that took as long, by sampled stacks", actions.slower)] : [],
			button("trace the next one like this", "every function of the next request of its type; kprofd's own tracing pauses meanwhile", actions.trace),
			button("close", undefined, actions.close), el("span", { id: "tree-said", role: "status", class: "soft" })),
		...place(t),
		...calls.path.length > 0 ? [el("p", { id: "tree-path", title: "Going back from the end: the call that ended last, and before it began the next one." }, `critical path: ${pathWords(t.tree, calls.path)}`)] : [],
		...pauses ? [el("p", { id: "tree-pauses" }, `of its calls' self times: ${pauses}`)] : [],
		...others(t, actions.open),
		...inside.map((e) => el("p", { class: "happened" }, `${ms(Math.max(e.ms, 0))} in: ${e.kind}${e.node ? ` (${e.node})` : ""}${e.text ? `: ${e.text}` : ""}`)),
		...calls.parts, ...waits(t));
}
