// app.js - asks for what the state says, shows it, and follows what is chosen.
import * as charts from "./charts.js";
import * as tables from "./tables.js";
import { ApiError, get, post } from "./api.js";
import { clock, count, el, identityName, ms, percent, rate, span, when } from "./format.js";
import { PAGE, PRESETS, range, readUrl, state, versus, writeUrl } from "./state.js";
import { waterfall } from "./waterfall.js";

const LIVE_MS = 5000;
const $ = (id) => document.getElementById(id);
let about = null, tiers = [], loading = null, timer = 0, paused = false, shownTree = null;

const iso = (t) => new Date(t).toISOString();

// What is read aloud when it changes is not set to what it is already.
function setText(id, text) {
	if ($(id).textContent !== text)
		$(id).textContent = text;
}

function say(text) {
	$("message").hidden = text === "";
	setText("message", text);
}

function change(what, push = true) {
	Object.assign(state, "request" in what || "sort" in what ? {} : { request: "", offset: 0 }, what);
	writeUrl(push);
	refresh();
}

// ---- choosing

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

// ---- showing

function tile(value, label, bad) {
	return el("div", { class: bad ? "tile bad" : "tile" }, el("b", {}, value), el("span", {}, label));
}

function showTiles(r, l, status) {
	const row = r.rows.find((x) => x.identity === (state.identity || "_total")) ?? r.rows[0];
	const total = row.tiers.find((t) => t.tier === "_total") ?? {};
	const seconds = r.covered_ms / 1e3 || 1;
	const sum = (v) => v.reduce((a, b) => a + (b ?? 0), 0);
	const cost = sum(l.cost_ms) / (sum(l.covered_s) || 1) / 10;
	const measured = r.entry_calls > 0 ? Math.min(1, r.sampled / r.entry_calls) : -1;

	$("tiles").replaceChildren(
		tile(rate(row.requests / seconds), "requests a second"),
		tile(percent(row.requests > 0 ? (total.raised ?? 0) / row.requests : 0), "errors", total.raised > 0),
		tile(ms(total.p50_ms), "p50"), tile(ms(total.p90_ms), "p90"), tile(ms(total.p99_ms), "p99"), tile(ms(total.max_ms), "slowest"),
		tile(status ? count(status.targets.reduce((n, t) => n + t.in_flight, 0)) : "–", "in flight now"),
		tile(percent(measured), "of requests measured"),
		tile(`${cost.toFixed(2)} %`, "of a scheduler, cost"));
}

const LINES = ["attach", "detach", "trip", "rest", "resume", "paused", "reload", "lost", "failed", "absent", "unclean_end"];

function marksOf(l, e) {
	const shades = [];

	for (const loss of l.losses) {
		if (loss.cause === "sampled_out")
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

function showCharts(s, h, l, e) {
	const some = s.covered_s.some((v) => v !== null);

	charts.setMarks(marksOf(l, e), s.t[0], s.t.at(-1) + s.step_s);
	if (!some) {
		for (const id of CHARTS)
			charts.empty(id, "Nothing was measured in this time. Choose a longer range, or all of it.");
		return;
	}
	charts.rates(s);
	charts.times(s);
	charts.heatmap(h);
	charts.selves(s);
	charts.sampling(l);
	charts.cost(l);
	$("c-time").querySelector("small").textContent = state.tier ? `of one call of ${state.tier}` : "of one request";
}

function showDaemon(status) {
	const bad = status?.targets.filter((t) => t.state !== "armed").length ?? 0;

	$("daemon").dataset.state = !status ? "" : bad > 0 ? "bad" : "good";
	setText("daemon", !status ? "saved data" : bad > 0 ? `${status.armed} of ${status.targets.length} armed` :
		`${status.armed} armed`);
	paused = status !== null && status.targets.length > 0 && status.targets.every((t) => t.state === "paused");
	$("pause").hidden = $("dump").hidden = !status;
	$("pause").textContent = paused ? "resume" : "pause";
}

function showPeriod(r) {
	$("period").textContent = `${when(r.since)} to ${when(r.until)} (${span((r.until - r.since) / 1e3)})` +
		`${state.identity ? `, ${identityName(state.identity)}` : ""}${state.tier ? `, tier ${state.tier}` : ""}`;
	$("footer").replaceChildren(`kprofd ${about.version}; updated ${clock(Date.now())}. Shaded: something was not measured. Dashed: a trip, reload or reconnect. `,
		el("a", { href: "openapi.json" }, "HTTP API"));
}

// ---- asking

// A request that is kept does not change: what is open in it stays so.
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

// null: no kprofd runs.
async function statusNow(signal) {
	const status = await get("status", {}, signal);

	return status.targets ? status : null;
}

async function load(signal) {
	about = await get("about", {}, signal);
	const r = range(about);
	const time = { since: iso(r.since), until: iso(r.until) };
	const of = { ...time, node: state.node };
	const chart = { ...of, identity: state.identity, tier: state.tier };
	const names = await get("tiers", {}, signal);

	tiers = [...names.tiers, ...names.former];
	const [nodes, series, heat, loads, rep, lost, slow, events, status] = await Promise.all([
		get("nodes", time, signal), get("series", chart, signal), get("heatmap", chart, signal),
		get("load", of, signal), get("report", of, signal), get("losses", of, signal),
		get("slow", { ...of, identity: state.identity, limit: PAGE, offset: state.offset }, signal),
		get("events", { ...of, limit: 200 }, signal), statusNow(signal)]);

	showNodes(nodes.nodes);
	options("identity", rep.rows.slice(1).map((row) => row.identity), state.identity, "all requests", identityName);
	options("tier", tiers, state.tier, "whole request", (n) => n);
	$("compare").value = state.compare;
	showPeriod(r);
	showDaemon(status);
	showTiles(rep, loads, status);
	showCharts(series, heat, loads, events);
	tables.report(rep, state, change);
	tables.slow(slow, state, change);
	tables.flight(status, "No kprofd answers: these are saved data. What runs now is here when kprofd runs with the same -db.");
	tables.losses(lost);
	tables.events(events);
	$("s-compare").hidden = !state.compare;
	if (state.compare) {
		const then = versus(r);

		tables.compare(await get("compare", { ...of, identity: state.identity, versus: `${iso(then.since)},${iso(then.until)}` }, signal), r, then);
	}
	await showTree(signal);
	say(about.last === null ? "Nothing has been written yet: kprofd writes a window every ten seconds while it is attached to a node. Is the node's name right, is there load?" : "");
	document.body.dataset.loaded = String(Number(document.body.dataset.loaded ?? 0) + 1);
}

async function refresh() {
	loading?.abort();
	clearTimeout(timer);
	const mine = loading = new AbortController();

	showRanges();
	$("live").setAttribute("aria-pressed", String(state.live));
	try {
		await load(mine.signal);
	} catch (e) {
		if (e.name === "AbortError")
			return;
		if (!(e instanceof ApiError))
			throw e;
		say(e.message);
	} finally {
		if (mine === loading && state.live && state.range !== "")
			timer = setTimeout(() => document.hidden || refresh(), LIVE_MS);
	}
}

async function tell(path) {
	try {
		await post(path);
	} catch (e) {
		say(e.message);
		return;
	}
	refresh();
}

// ---- beginning

$("identity").addEventListener("change", (e) => change({ identity: e.target.value }));
$("tier").addEventListener("change", (e) => change({ tier: e.target.value }));
$("compare").addEventListener("change", (e) => change({ compare: e.target.value }));
$("choice").addEventListener("submit", (e) => e.preventDefault());
$("live").addEventListener("click", () => change({ live: !state.live, request: state.request }));
$("pause").addEventListener("click", () => tell(paused ? "resume" : "pause"));
$("dump").addEventListener("click", () => tell("dump"));
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
addEventListener("resize", charts.resize);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { shownTree = null; refresh(); });
charts.onDrag((from, to) => change({ range: "", since: iso(from * 1e3), until: iso(to * 1e3) }));
readUrl();
refresh();
