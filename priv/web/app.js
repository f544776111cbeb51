// app.js - loads the data that the state selects, shows them, and handles input.
import * as charts from "./charts.js";
import * as stacks from "./stacks.js";
import * as tables from "./tables.js";
import { ApiError, get, post, COMMAND_MS } from "./api.js";
import { WAY_OUT, clock, count, el, estimate, field, identityName, ms, percent, raised, raisedInside, rate, requestsOf, span, when, wholeTier } from "./format.js";
import { PAGE, PRESETS, range, readUrl, state, versus, writeUrl } from "./state.js";
import { waterfall } from "./waterfall.js";

const LIVE_MS = 5000;
const SILENT_MS = 8000;	// a server that says nothing for this time is not shown as one that does well
const $ = (id) => document.getElementById(id);
let about = null, tiers = [], loading = null, timer = 0, shownTree = null;
let statusAt = 0;	// time of the last status, in ms; 0: none yet
let askedAt = 0;	// of the first request for it since that is not answered; 0: all are
let inFlight = "–";	// number of requests in flight, as text
let updated = 0;	// when saved data were last shown, in ms
let command = null;	// of the pause button: path and nodes

const iso = (t) => new Date(t).toISOString();

// Leaves an equal text alone: a screen reader would read it again.
function setText(id, text) {
	if ($(id).textContent !== text)
		$(id).textContent = text;
}

// Each note is a text, and optionally a button that solves the problem.
function notify(...notes) {
	const text = notes.map((n) => n.text).join(" ");

	$("message").hidden = text === "";
	if ($("message").dataset.text === text)
		return;
	$("message").dataset.text = text;
	$("message").replaceChildren(...notes.map((n) => el("p", {}, n.text, n.out ? el("button", { type: "button", onclick: n.go }, n.out) : null)));
}

// What leaves the slow request that is open.
const KEEPING = ["request", "sort", "compare", "vsince", "vuntil", "view", "states", "lines", "find"];

function change(what, push = true) {
	Object.assign(state, KEEPING.some((key) => key in what) ? {} : { request: "", offset: 0 }, what);
	writeUrl(push);
	refresh();
}

// ---- choices

function showRanges() {
	const names = [...PRESETS.map(([n]) => n), "all"];

	$("ranges").replaceChildren(...names.map((name) => el("button", { type: "button",
		"aria-pressed": String(state.range === name), onclick: () => change({ range: name, since: "", until: "" }) }, name)),
	...state.range === "" ? [el("button", { type: "button", "aria-pressed": "true", title: "dragged; choose another to leave it" }, "chosen")] : []);
}

function showNodes(nodes) {
	const box = $("nodes").querySelector("div");
	const all = [...new Set([...nodes, ...state.node])].sort();

	$("nodes").querySelector("summary").textContent = state.node.length === 0 ? `all nodes (${nodes.length})` :
		state.node.length === 1 ? state.node[0] : `${state.node.length} nodes`;
	if (box.contains(document.activeElement) && box.childElementCount === all.length)
		return;
	box.replaceChildren(...all.map((name) => el("label", {}, el("input", { type: "checkbox", value: name,
		checked: state.node.includes(name), onchange: () => change({ node: [...box.querySelectorAll("input:checked")].map((i) => i.value) }) }), name)));
}

function options(id, names, chosen, first, name) {
	const select = $(id);
	const all = chosen && !names.includes(chosen) ? [...names, chosen] : names;

	if (document.activeElement !== select || select.options.length !== all.length + 1)
		select.replaceChildren(el("option", { value: "" }, first), ...all.map((n) => el("option", { value: n }, name(n))));
	select.value = chosen;
}

// ---- figures and charts

function tile(value, label, bad, title = "") {
	return el("div", { class: bad ? "tile bad" : "tile", title }, el("b", {}, value), el("span", {}, label),
		title ? el("small", {}, "the native probe sees them") : null);
}

const sum = (v) => v.reduce((a, b) => a + (b ?? 0), 0);

// The row of the chosen identity; undefined if the range has no figures of it.
const rowOf = (r) => r.rows.find((x) => x.identity === (state.identity || "_total"));

const hasNone = (r) => state.identity !== "" && rowOf(r) === undefined;

// Tiles of requests, or of the calls of the chosen tier.
function timeTiles(r) {
	const row = rowOf(r);
	const whole = row?.tiers.find((t) => t.tier === wholeTier(state.tier || "_total"));
	const cell = whole?.tier === (state.tier || "_total") ? whole : whole?.labels.find((l) => `${whole.tier}: ${l.label}` === state.tier);
	const n = state.tier ? { n: cell?.calls, known: row?.requests_known } : requestsOf(r, row);
	const what = state.tier ? `calls of ${state.tier}` : "requests";
	const named = state.tier ? `, ${state.tier}` : "";
	// most calls began after their request, and only these have many times
	const late = state.tier && cell?.async_calls > cell?.calls;
	const time = (p, label) => tile(ms(cell?.[`${late ? "async_" : ""}${p}_ms`]), `${label}${late ? " after a request's end" : ""}${named}`);
	const [worst] = state.tier ? [] : raisedInside(row);

	return [tile(n?.n === undefined || r.windows === 0 ? "–" : estimate(n, (v) => rate(v / (r.covered_ms / 1e3 || 1))), `${what} a second`),
		tile(n?.n > 0 && cell ? raised(cell, true, state.tier ? cell.calls + (cell.async_calls ?? 0) : row.requests) : "–",
			(cell?.raised_seen === "not_seen" ? "errors: not seen" : "errors") + named, cell?.raised > 0,
			(cell?.raised_seen ?? "known") === "known" ? "" : WAY_OUT),
		...worst ? [tile(percent(worst.share), `errors inside, ${worst.tier}`, true)] : [],
		...["p50", "p90", "p99"].map((p) => time(p, p)), time("max", "slowest"),
		...cell?.after_ms > 0 ? [tile(ms(cell.after_per_request_ms), `after a request's end${named}`)] : []];
}

// r, l: null if the server did not answer.
function showTiles(r, l) {
	const measured = r?.entry_calls > 0 ? Math.min(1, r.sampled / r.entry_calls) : -1;
	const now = tile(inFlight, state.identity || state.tier ? "in flight now, of all" : "in flight now");

	now.id = "in-flight";
	$("tiles").replaceChildren(
		...timeTiles(r ?? { rows: [] }), now,
		tile(percent(measured), "of requests measured"),
		tile(l ? `${(sum(l.cost_ms) / (sum(l.covered_s) || 1) / 10).toFixed(2)} %` : "–", "of a scheduler, cost"));
}

const LINES = ["attach", "detach", "trip", "rest", "resume", "sampling", "paused", "reload", "changed", "lost", "failed", "absent", "unclean_end"];

// Losses of names, or of nothing: the figures have all that they are about.
const MEASURED = ["sampled_out", "twice", "identity_cap", "label_cap"];

function marksOf(l, e) {
	const shades = [];

	for (const loss of l.losses) {
		if (MEASURED.includes(loss.cause))
			continue;
		loss.lost.forEach((n, i) => {
			if (n > 0)
				shades.push(l.t[i]);
		});
	}
	return { shades: [...new Set(shades)].sort((a, b) => a - b).map((t) => ({ from: t, to: t + l.step_s })),
		events: e.events.filter((x) => LINES.some((k) => x.kind.startsWith(k))).map((x) => ({ t: Date.parse(x.at) / 1e3, kind: x.kind })) };
}

const CHARTS = ["c-rate", "c-time", "c-heat", "c-self", "c-sample", "c-cost"];
const NOTHING = "Nothing was measured in this time. Choose a longer range, or all of it.";

// Why a chart cannot be drawn; "": it can.
function whyNot(s, r, ofTier) {
	if (!s.covered_s.some((v) => v !== null))
		return NOTHING;
	if (r && hasNone(r))
		return `No request of ${identityName(state.identity)} was measured in this time.`;
	return ofTier && !tierKnown() ? `There is no tier ${state.tier} in these data.` : "";
}

const tierKnown = () => state.tier === "" || tiers.includes(wholeTier(state.tier));

function draw(id, chart, data, why) {
	if (why)
		charts.empty(id, why);
	else
		chart(data);
}

function showSeries(s, r) {
	draw("c-rate", charts.rates, s, whyNot(s, r));
	draw("c-time", charts.times, s, whyNot(s, r, true));
	draw("c-self", charts.selves, s, whyNot(s, r));
	$("c-time").querySelector("small").textContent = state.tier ? `of one call of ${state.tier}` : "of one request";
}

function showLoad(l) {
	draw("c-sample", charts.sampling, l, whyNot(l));
	draw("c-cost", charts.cost, l, whyNot(l));
}

// Sets the shades and lines, if the load is known; call it before charts are drawn.
function showMarks(l, e) {
	if (l)
		charts.setMarks(marksOf(l, e ?? { events: [] }), l.t[0], l.t.at(-1) + l.step_s);
}

// ---- the state of kprofd

const nodesOf = (status) => status.targets.filter((t) => state.node.length === 0 || state.node.includes(t.target));

// Sets up the pause button for the chosen nodes.
function showCommand(status) {
	const chosen = nodesOf(status);
	const paused = chosen.length > 0 && chosen.every((t) => t.state === "paused");
	const whom = state.node.length === 0 ? status.targets.length > 1 ? " all nodes" : "" :
		chosen.length === 1 ? ` ${chosen[0].target}` : ` ${chosen.length} nodes`;

	command = { path: paused ? "resume" : "pause", nodes: state.node.length === 0 ? [""] : chosen.map((t) => t.target) };
	$("pause").textContent = command.path + whom;
	$("pause").title = state.node.length === 0 ? "measuring, in every node" : command.nodes.join(", ");
	$("pause").hidden = state.node.length > 0 && chosen.length === 0;
	$("dump").hidden = false;
}

function showInFlight(text) {
	inFlight = text;
	$("in-flight")?.querySelector("b").replaceChildren(text);
}

function showStatus(status) {
	const bad = status.targets.filter((t) => t.state !== "armed").length;

	statusAt = Date.now();
	$("daemon").dataset.state = bad > 0 ? "bad" : "good";
	setText("daemon", bad > 0 ? `${status.armed} of ${status.targets.length} armed` : `${status.armed} armed`);
	showCommand(status);
	showInFlight(count(sum(nodesOf(status).map((t) => t.in_flight))));
	tables.flight(status);
}

// Removes everything from an earlier status.
function showUnknown(state, words, why) {
	$("daemon").dataset.state = state;
	setText("daemon", words);
	$("pause").hidden = $("dump").hidden = true;
	showInFlight("–");
	tables.empty("s-flight", why);
	tables.empty("s-now", why);
}

// For kprof web, or after the end of kprofd.
function showEnded(a) {
	const ended = Date.parse(a.runs[0]?.ended ?? a.last ?? a.now);

	showUnknown("", `saved data: kprofd not running since ${when(ended)}`,
		"No kprofd answers: these are saved data. What runs now is here when kprofd runs with the same -db.");
}

function showSilent(e) {
	const since = statusAt > 0 ? ` since ${clock(statusAt)}` : "";

	showUnknown("bad", `kprofd: no answer${since}`, `How kprofd does now is not known: no answer${since}. ${e.message}`);
}

// Figures are of whole windows: they are of a longer time than was asked for where
// the windows are old, and long.
const BEYOND = 0.05;
const beyond = (r, start, end) => start && Math.max(r.since - Date.parse(start), 0) + Math.max(Date.parse(end) - r.until, 0) > BEYOND * (r.until - r.since);

function showPeriod(r, report) {
	const measured = report && beyond(r, report.start, report.end) ?
		`, measured in windows from ${when(Date.parse(report.start))} to ${when(Date.parse(report.end))}` : "";

	setText("period", `${when(r.since)} to ${when(r.until)} (${span((r.until - r.since) / 1e3)})${measured}` +
		`${state.identity ? `, ${identityName(state.identity)}` : ""}${state.tier ? `, tier ${state.tier}` : ""}`);
	updated = Date.now();
	$("footer").replaceChildren(`kprofd ${about.version}; updated ${clock(updated)}. Shaded: something was not measured. Dashed: an overload, reload or reconnect. `,
		el("a", { href: "openapi.json" }, "HTTP API"), ". Charts: ", el("a", { href: "dygraphs-license.txt" }, "dygraphs"));
}

// ---- loading

// Keeps the tree as it is: a stored request does not change.
async function showTree(signal) {
	if (state.request === shownTree)
		return;
	shownTree = null;
	if (!state.request) {
		shownTree = "";
		$("tree").replaceChildren(el("p", { class: "empty" }, "Choose a request to see where its time went, across processes and nodes."));
		return;
	}
	try {
		const id = state.request;

		waterfall($("tree"), await get(`requests/${id}`, {}, signal), tiers, () => change({ request: "" }));
		shownTree = id;
	} catch (e) {
		if (e.name === "AbortError")
			throw e;
		$("tree").replaceChildren(el("p", { class: "empty" }, e.status === 404 ? "That request is no longer kept." : e.message));
	}
}

const slowBy = () => state.slow === "" ? {} : state.slow === "self" ? { sort: "self" } : { tier: state.slow.slice(1) };

// The inputs for the range to compare with, such as one before a deploy.
function showVersus() {
	$("s-compare").hidden = !state.compare;
	$("versus").hidden = state.compare !== "chosen";
	for (const id of ["vsince", "vuntil"])
		if (document.activeElement !== $(id))
			$(id).value = state[id] ? field(state[id]) : "";
}

// Starts with the range before the one that is shown.
function chooseVersus(compare) {
	const r = range(about);

	change(compare === "chosen" && !state.vsince ? { compare, vsince: iso(2 * r.since - r.until), vuntil: iso(r.since) } : { compare });
}

function fail(id, text) {
	if (id.startsWith("c-"))
		charts.empty(id, text);
	else if (id === "s-stacks")
		stacks.empty(text);
	else
		tables.empty(id, text);
}

// Shows one part of the page, or in its place why it failed.
async function panel(ids, signal, show, ...asked) {
	try {
		const answers = await Promise.all(asked);

		signal.throwIfAborted();
		show(...answers);
	} catch (e) {
		if (signal.aborted)
			throw e;
		if (!(e instanceof ApiError))
			console.error(e);
		for (const id of ids)
			fail(id, `This could not be shown: ${e.message}`);
	}
}

// Turns a failure into null, for what a part can do without.
const orNull = (asked) => asked.catch((e) => {
	if (e instanceof ApiError)
		return null;
	throw e;
});

async function showNow(signal, asked) {
	try {
		askedAt ||= Date.now();
		const status = await get("status", {}, signal, COMMAND_MS);

		askedAt = 0;
		const flight = status.running === false ? null : await get("flight", {}, signal, COMMAND_MS);

		signal.throwIfAborted();
		if (flight === null || flight.running === false) {
			showEnded(await asked);
			return;
		}
		showStatus(status);
		tables.inFlight(flight, state);
	} catch (e) {
		if (signal.aborted || !(e instanceof ApiError))
			throw e;
		askedAt = 0;
		showSilent(e);
	}
}

// A server that was stopped neither answers nor closes the connection.
function watch() {
	if (askedAt > 0 && Date.now() - askedAt > SILENT_MS && $("daemon").dataset.state !== "bad")
		showSilent({ message: `It was asked at ${clock(askedAt)}.` });
}

function showChoices(nodes, r) {
	showNodes(nodes?.nodes ?? []);
	options("identity", r?.rows.slice(1).map((row) => row.identity) ?? [], state.identity, "all requests", identityName);
	options("tier", tiers, state.tier, "whole request", (n) => n);
	$("compare").value = state.compare;
}

// Explains why there is nothing to show, and offers a way back.
function showNotes(r) {
	const notes = [];

	if (about.last === null)
		notes.push({ text: "Nothing has been written yet: kprofd writes a window every ten seconds while it is attached to a node. Is the node's name right, is there load?" });
	if (about.last !== null && r && hasNone(r))
		notes.push({ text: `No request of ${identityName(state.identity)} was measured in this time.`, out: "show all requests", go: () => change({ identity: "" }) });
	if (!tierKnown())
		notes.push({ text: `There is no tier ${state.tier} in these data: it is of another configuration, or no longer kept.`, out: "show the whole request", go: () => change({ tier: "" }) });
	notify(...notes);
}

function showChosen(nodes, report, r) {
	showPeriod(r, report);
	showChoices(nodes, report);
	showNotes(report);
}

// The other view, which asks only when it is shown.
function showStacks(r, ask, nodes, signal) {
	const part = (ids, show, ...asked) => panel(ids, signal, show, ...asked);

	return [
		part([], (names, report) => showChosen(names, report, r), nodes, orNull(ask("report"))),
		part(["s-stacks"], (s) => stacks.show(s, tiers), ask("stacks", { identity: state.identity, tier: tierKnown() ? state.tier : "" })),
		part(["s-memory"], tables.memory, ask("memory"))];
}

function showSaved(signal) {
	const r = range(about);
	const of = { since: iso(r.since), until: iso(r.until), node: state.node };
	const ask = (what, more = {}) => get(what, { ...of, ...more }, signal);
	const nodes = orNull(get("nodes", { since: of.since, until: of.until }, signal));

	showPeriod(r);
	return state.view === "stacks" ? showStacks(r, ask, nodes, signal) : showFigures(r, ask, nodes, signal);
}

function showFigures(r, ask, nodes, signal) {
	const chart = { identity: state.identity, tier: tierKnown() ? state.tier : "" };
	const rep = ask("report"), loads = ask("load"), events = ask("events", { limit: 200 });
	const then = state.compare ? versus(r) : null;
	const part = (ids, show, ...asked) => panel(ids, signal, show, ...asked);
	const drawn = Promise.all([orNull(loads), orNull(events)]).then(([l, e]) => { signal.throwIfAborted(); showMarks(l, e); });

	showVersus();
	return [
		part([], (names, report) => showChosen(names, report, r), nodes, orNull(rep)),
		part([], showTiles, orNull(rep), orNull(loads)),
		part(["c-rate", "c-time", "c-self"], showSeries, ask("series", chart), orNull(rep), drawn),
		part(["c-heat"], (h, report) => draw("c-heat", charts.heatmap, h, whyNot(h, report, true)), ask("heatmap", chart), orNull(rep), drawn),
		part(["c-sample", "c-cost"], showLoad, loads, drawn),
		part(["s-report", "s-labels"], (report) => tables.report(report, state, change), rep),
		part(["s-slow"], (slow) => tables.slow(slow, state, change), ask("slow", { ...slowBy(), identity: state.identity, limit: PAGE, offset: state.offset })),
		part(["s-losses"], tables.losses, ask("losses")),
		part(["s-events"], tables.events, events),
		...state.compare ? [part(["s-compare"], (c) => tables.compare(c, r, then), then && ask("compare", { what: "self", identity: state.identity, versus: `${iso(then.since)},${iso(then.until)}` }))] : [],
		showTree(signal)];
}

async function load(signal) {
	const asked = get("about", {}, signal);
	const now = showNow(signal, asked);

	// the error is handled by the await below, unless another came first
	now.catch(() => {});
	try {
		about = await asked;
		const names = await get("tiers", {}, signal);

		tiers = [...names.tiers, ...names.former];
		tables.slowBy(state, tiers);
		await Promise.all(showSaved(signal));
	} catch (e) {
		if (!(e instanceof ApiError))
			throw e;
		notify({ text: `${e.message}${updated > 0 ? `. What is below is of ${clock(updated)}.` : ""}` });
	}
	await now;
	document.body.dataset.loaded = String(Number(document.body.dataset.loaded ?? 0) + 1);
}

function showView() {
	const other = (document.body.dataset.view ?? "") !== state.view;

	document.body.dataset.view = state.view;
	for (const b of $("views").children)
		b.setAttribute("aria-pressed", String(b.value === state.view));
	// charts that were hidden do not know their width
	if (other)
		dispatchEvent(new Event("resize"));
}

async function refresh() {
	loading?.abort();
	clearTimeout(timer);
	const mine = loading = new AbortController();

	showView();
	showRanges();
	$("live").setAttribute("aria-pressed", String(state.live));
	try {
		await load(mine.signal);
	} catch (e) {
		if (!mine.signal.aborted)
			throw e;
	} finally {
		if (mine === loading && state.live && state.range !== "")
			timer = setTimeout(() => document.hidden || refresh(), LIVE_MS);
	}
}

async function send(path, nodes = [""]) {
	try {
		await Promise.all(nodes.map((node) => post(path, { node })));
	} catch (e) {
		notify({ text: e.message });
		return;
	}
	refresh();
}

// ---- start

for (const b of $("views").children)
	b.addEventListener("click", () => change({ view: b.value }));
stacks.start(change);
$("identity").addEventListener("change", (e) => change({ identity: e.target.value }));
$("tier").addEventListener("change", (e) => change({ tier: e.target.value }));
$("compare").addEventListener("change", (e) => chooseVersus(e.target.value));
for (const id of ["vsince", "vuntil"])
	$(id).addEventListener("change", (e) => e.target.value && change({ [id]: iso(Date.parse(e.target.value)) }));
$("slow-by").addEventListener("change", (e) => change({ slow: e.target.value }));
$("choice").addEventListener("submit", (e) => e.preventDefault());
$("live").addEventListener("click", () => change({ live: !state.live, request: state.request }));
$("pause").addEventListener("click", () => send(command.path, command.nodes));
$("dump").addEventListener("click", () => send("dump"));
$("prev").addEventListener("click", () => change({ request: "", offset: Math.max(0, state.offset - PAGE) }));
$("next").addEventListener("click", () => change({ request: "", offset: state.offset + PAGE }));
document.addEventListener("click", (e) => {
	if (!$("nodes").contains(e.target))
		$("nodes").open = false;
});
document.addEventListener("keydown", (e) => {
	if (e.key === "Escape")
		$("nodes").open = false;
});
document.addEventListener("visibilitychange", () => document.hidden || state.live && refresh());
addEventListener("popstate", () => { readUrl(); refresh(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { shownTree = null; refresh(); });
charts.onDrag((from, to) => change({ range: "", since: iso(from), until: iso(to) }));
setInterval(watch, 1000);
readUrl();
refresh();
