// app.js - loads the data that the state selects, shows them, and handles input.
import * as charts from "./charts.js";
import * as stacks from "./stacks.js";
import * as tables from "./tables.js";
import { ApiError, askToken, get, getAll, post, COMMAND_MS } from "./api.js";
import { WAY_OUT, between, clock, count, el, estimate, field, fromField, identityName, matches, ms, near, percent, raised, raisedInside, rateOf, requestsOf, save, slower, span, tookEnds, tookParam, tookWords, useUtc, wholeTier, zone, zoned } from "./format.js";
import { OTHERS, PAGE, PRESETS, range, readUrl, state, urlOf, versus, writeUrl } from "./state.js";
import { waterfall } from "./waterfall.js";

const LIVE_MS = 5000;
const TRACED_MS = 1000;
const WRITTEN_MS = 500;	// after its end a window is stored
// A kprofd that says nothing for SILENT_MS is not shown as one that does well, nor is a
// server that does not say that it is there: at most BEAT_MS + HUNG_MS and a second later.
const SILENT_MS = 8000, BEAT_MS = 3000, HUNG_MS = 5000;
const $ = (id) => document.getElementById(id);
let about = null, tiers = [], loading = null, timer = 0, shownTree = null;
let statusAt = 0;	// time of the last status, in ms; 0: none yet
let askedAt = 0;	// of the first request for it since that is not answered; 0: all are
let beatAt = 0;		// likewise, of the last beat
let hung = false;	// a beat was not answered, or late
let silent = false;	// it is shown that none answers
let left = Infinity;	// until the running window is stored, in ms, where that is shown
let inFlight = "–";	// number of requests in flight, as text
let updated = 0;	// when saved data were last shown, in ms
let command = null;	// of the pause button: path and nodes
let tracing = 0;	// timer: looks again at a trace that goes on
let tapped = "";	// the slow request that was just chosen
let traced = null;	// the last one that ended, and the link to it

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
const KEEPING = ["request", "sort", "compare", "vsince", "vuntil", "view", "trace", "states", "lines", "find", "types", "utc", "log", "by"];

// Other requests, also together with one of those.
const LEAVING = ["range", "since", "until", "node", "identity", "slow", "took"];

function change(what, push = true) {
	const stays = KEEPING.some((key) => key in what) && !LEAVING.some((key) => key in what);

	tapped = what.request ?? "";
	Object.assign(state, stays ? {} : { request: "", offset: 0 }, "identity" in what || "view" in what ? { trace: "" } : {}, { refused: [] }, what);
	writeUrl(push);
	refresh();
}

// ---- choices

function showRanges() {
	const names = [...PRESETS.map(([n]) => n), "all"];

	$("ranges").replaceChildren(...names.map((name) => el("button", { type: "button",
		"aria-pressed": String(state.range === name), onclick: () => change({ range: name, since: "", until: "" }) }, name)));
	$("picker").querySelector("summary").setAttribute("aria-current", String(state.range === ""));
}

// ---- the range from one time to another

function fillPicker(since, until) {
	$("since").value = field(since);
	$("until").value = field(until);
	$("zone").value = state.utc ? "1" : "";
	checkPicker();
}

function checkPicker() {
	const [since, until] = [$("since"), $("until")].map((i) => fromField(i.value));

	$("until").setCustomValidity(until <= since ? "“to” must be later than “from”" : "");
}

function openPicker() {
	if (!$("picker").open || about === null)
		return;
	const r = range(about);

	fillPicker(r.since, r.until);
}

function pick() {
	const [since, until] = [$("since"), $("until")].map((i) => iso(fromField(i.value)));

	closeMenus();
	change({ range: "", since, until });
}

// The fields keep their moments, in the other zone.
function chooseZone(utc) {
	const ends = [$("since"), $("until")].map((i) => fromField(i.value));

	change({ utc });
	fillPicker(...ends);
}

// Closes all menus but the one in which something happens.
function closeMenus(inside = null) {
	for (const menu of document.querySelectorAll(".menu[open]")) {
		if (menu.contains(inside))
			continue;
		if (menu.contains(document.activeElement))
			menu.querySelector("summary").focus();
		menu.open = false;
	}
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

function options(id, names, chosen, first, name, last = []) {
	const select = $(id);
	const all = chosen && !names.includes(chosen) ? [...names, chosen] : names;

	if (document.activeElement !== select || select.options.length !== all.length + 1 + last.length)
		select.replaceChildren(el("option", { value: "" }, first), ...all.map((n) => el("option", { value: n }, name(n))), ...last);
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
	const time = (p, label) => tile(late ? ms(cell[`async_${p}_ms`]) : [ms(cell?.[`${p}_ms`]), ...near(cell?.[`${p}_ms`], cell, `${p}_ms`)], `${label}${late ? " after a request's end" : ""}${named}`);
	const [worst] = state.tier ? [] : raisedInside(row);

	return [tile(n?.n === undefined || r.windows === 0 ? "–" : [estimate(n, (v) => rateOf(v, r)),
		...state.tier || n.known ? [] : near(n.n, cell, "requests")], `${what} a second`),
		tile(n?.n > 0 && cell ? raised(cell, true, state.tier ? cell.calls + (cell.async_calls ?? 0) : row.requests) : "–",
			(cell?.raised_seen === "not_seen" ? "errors: not seen" : "errors") + named, cell?.raised > 0,
			(cell?.raised_seen ?? "known") === "known" ? "" : WAY_OUT),
		...worst ? [tile(raised(worst, true, worst.calls + (worst.async_calls ?? 0)), `errors inside, ${worst.tier}`, true)] : [],
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
		tile(sum(l?.covered_s ?? []) > 0 ? `${(sum(l.cost_ms) / sum(l.covered_s) / 10).toFixed(2)} %` : "–", "of a scheduler, cost"));
}

const LINES = ["attach", "detach", "trip", "rest", "resume", "sampling", "paused", "reload", "changed", "mark", "trace", "lost", "failed", "absent", "unclean_end"];

// Losses of names, of traces, or of nothing: the figures have all that they are about, or what
// stands for it. Uncounted time is a part of the unarmed.
const MEASURED = ["sampled_out", "timed", "connecting", "uncounted", "twice", "identity_cap", "tree"];

// Which part of a step's requests, or of the time of n nodes, was not measured.
function lostPart(l, i, n) {
	const lost = (unit) => sum(l.losses.filter((x) => x.unit === unit && !MEASURED.includes(x.cause)).map((x) => x.lost[i]));
	const requests = lost("requests"), time = lost("ms") / (1e3 * l.step_s * n);

	return Math.min(1, Math.max(time, requests > 0 ? requests / Math.max(l.entry_calls[i] ?? 0, requests) : 0));
}

// l: the load, or null.  n: nodes.
function marksOf(l, events, n) {
	return { shades: !l ? [] : l.t.map((t, i) => ({ from: t, to: t + l.step_s, part: lostPart(l, i, n) })).filter((x) => x.part > 0),
		events: events.filter((x) => LINES.some((k) => x.kind.startsWith(k))).map((x) => ({ t: Date.parse(x.at) / 1e3, kind: x.kind, node: x.node, text: x.text })).sort((a, b) => a.t - b.t) };
}

const NOTHING = "Nothing was measured in this time. Choose a longer range, or all of it.";

// Why a chart cannot be drawn; "": it can.
function whyNot(s, r, ofTier) {
	if (!s.covered_s.some((v) => v !== null))
		return r?.running ? `The first window still runs: charts begin when it is stored, in ${span(r.left_ms / 1e3)}. Its figures are in the tables.` : NOTHING;
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

// old: of the range to compare with; null: none.  by: how much earlier that is, in s.  o: the objectives, or null.
// each: the same of single nodes, and their marks, to show in place of all, where that is chosen.
function showSeries(s, r, old, o, each, by) {
	const limits = (o?.objectives ?? []).filter((x) => x.of === "tier" ? x.name === state.tier : state.tier === "" && x.name === (state.identity || "_total"));
	const [all, ...nodes] = [{ at: "", s, old }, ...each].map((x) => {
		const [now, then] = x.old ? charts.overlaid(x.s, x.old, by) : [x.s, null];

		return { ...x, s: now, then, why: whyNot(x.s, null) };
	});
	const times = whyNot(s, r, true), byNode = nodes.length > 0;
	const apart = (id, chart) => {
		if (byNode)
			charts.split(id, nodes, (node) => change({ node: [node] }));
		for (const x of nodes.filter((n) => n.why !== ""))
			charts.empty(id + x.at, x.why);
		chart(byNode ? nodes.filter((n) => n.why === "") : [all]);
	};

	charts.setNodeMarks(nodes.map((x) => [x.at, x.marks]));
	$("c-max").hidden = times !== "";
	$("c-time").querySelector("small").textContent = `of one ${state.tier ? `call of ${state.tier}` : "request"}, ms`;
	// the other charts are as wide as these
	if ($("charts").classList.contains("by-node") !== byNode) {
		$("charts").classList.toggle("by-node");
		dispatchEvent(new Event("resize"));
	}
	draw("c-rate", () => apart("c-rate", charts.rates), s, whyNot(s, r));
	draw("c-time", () => apart("c-time", (x) => charts.times(x, limits)), s, times);
	draw("c-max", charts.slowest, all, times);
	draw("c-self", () => apart("c-self", charts.selves), s, whyNot(s, r));
}

const NODES = 16;	// that have charts of their own

// names: of the report by node, which has those first in which most time was spent.
function showByNode(names) {
	const rest = state.by === "node" ? names.slice(NODES) : [];

	$("by-node").hidden = names.length < 2;
	$("by-node-rest").hidden = rest.length === 0;
	setText("by-node-rest", `Charts are of the ${NODES} busiest nodes. Without one: ${rest.join(", ")}.`);
}

function showLoad(l, r) {
	draw("c-sample", charts.sampling, l, whyNot(l, r));
	draw("c-cost", charts.cost, l, whyNot(l, r));
}

// Sets the axis, and the shades and lines if the load is known; call it before charts are
// drawn.
function showMarks(l, e, nodes, r) {
	charts.setScale(state.log);
	charts.setDurations(state.tier === "", state.took === "" ? null : tookEnds(state.took));
	charts.setMarks(marksOf(l, e?.events ?? [], (nodes?.nodes ?? []).filter(isChosen).length || 1), r);
}

// ---- the state of kprofd

const isChosen = (node) => state.node.length === 0 || matches(node, state.node);
const nodesOf = (status) => status.targets.filter((t) => isChosen(t.target));

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
	showAllowed();
}

// What the token may not do stays visible, and says why.
function showAllowed() {
	const refused = about?.read_only === true;

	$("pause").disabled = $("dump").disabled = $("trace-next").disabled = refused;
	$("read-only").hidden = !refused || $("dump").hidden;
}

function showInFlight(text) {
	inFlight = text;
	$("in-flight")?.querySelector("b").replaceChildren(text);
}

function showStatus(status) {
	const bad = status.targets.filter((t) => t.state !== "armed").length;

	statusAt = Date.now();
	silent = false;
	$("daemon").dataset.state = bad > 0 ? "bad" : "good";
	setText("daemon", bad > 0 ? `${status.armed} of ${status.targets.length} armed` : `${status.armed} armed`);
	showCommand(status);
	$("trace-next").hidden = state.identity === "" || state.trace !== "";
	showInFlight(count(sum(nodesOf(status).map((t) => t.in_flight))));
	tables.flight(status);
}

// Removes everything from an earlier status.
function showUnknown(state, words, why) {
	$("daemon").dataset.state = state;
	setText("daemon", words);
	$("pause").hidden = $("dump").hidden = $("trace-next").hidden = true;
	showAllowed();
	showInFlight("–");
	tables.empty("s-flight", why);
	tables.empty("s-now", why);
}

// For kprof web, or after the end of kprofd.
function showEnded(a) {
	const ended = Date.parse(a.runs[0]?.ended ?? a.last ?? a.now);

	silent = false;
	showUnknown("", `saved data: kprofd not running since ${zoned(ended)}`,
		"No kprofd answers: these are saved data. What runs now is here when kprofd runs with the same -db.");
}

function showSilent(e) {
	const since = statusAt > 0 ? ` since ${clock(statusAt)} ${zone(statusAt)}` : "";

	silent = true;
	showUnknown("bad", `kprofd: no answer${since}`, `How kprofd does now is not known: no answer${since}. ${e.message}`);
}

// Figures are of whole windows: they are of a longer time than was asked for where
// the windows are old, and long.
const BEYOND = 0.05;
const beyond = (r, start, end) => start && Math.max(r.since - Date.parse(start), 0) + Math.max(Date.parse(end) - r.until, 0) > BEYOND * (r.until - r.since);

function showPeriod(r, report) {
	const measured = report?.running ? `, the running window: ${span(report.covered_ms / 1e3)} so far; it is stored in ${span(report.left_ms / 1e3)}` :
		report && beyond(r, report.start, report.end) ? `, measured in windows from ${between(Date.parse(report.start), Date.parse(report.end))}` : "";

	setText("period", `${between(r.since, r.until)} (${span((r.until - r.since) / 1e3)})${measured}` +
		`${state.identity ? `, ${identityName(state.identity)}` : ""}${state.tier ? `, tier ${state.tier}` : ""}`);
	updated = Date.now();
	$("footer").replaceChildren(`kprofd ${about.version}; updated ${clock(updated)} ${zone(updated)}. Shaded: the part that was not measured, from the top. Dashed, red: an overload, reload or reconnect. `,
		el("a", { href: "openapi.json" }, "HTTP API"), ". Charts: ", el("a", { href: "dygraphs-license.txt" }, "dygraphs"));
}

// ---- loading

// The request that is open though nobody chose one: the first of those listed, until it is
// listed no longer.
let first = { key: "", id: "" };

const chosen = () => [state.range, state.since, state.until, state.node, state.identity, state.slow, state.took, state.offset];

function openId(slow) {
	const key = JSON.stringify(chosen()), listed = slow?.requests.map((q) => String(q.request)) ?? [];

	if (first.key !== key || slow !== null && !listed.includes(first.id))
		first = { key, id: listed[0] ?? "" };
	return state.request || first.id;
}

// Who uses the open request has chosen it: it stays.
function keepOpen() {
	if (state.request === "" && first.id !== "") {
		state.request = first.id;
		writeUrl(false);
	}
}

// The page's state with this request, in a range that does not move.
const toRequest = (id, r) => urlOf({ ...state, request: String(id), range: "", since: iso(r.since), until: iso(r.until), live: false });

async function copy(text) {
	try {
		await navigator.clipboard.writeText(text);
		setText("tree-said", "copied");
	} catch {
		// without https the browser lends no clipboard
		$("tree-said").replaceChildren(/^https?:/.test(text) ? el("a", { href: text }, "link to copy") : text);
	}
}

async function saveTrace(id, form) {
	const end = { chrome: "trace.json", speedscope: "speedscope.json", otlp: "otlp.json" }[form];

	try {
		save(`request-${id}.${end}`, JSON.stringify(await get(`requests/${id}`, { form })));
		setText("tree-said", "saved");
	} catch (e) {
		setText("tree-said", e.message);
	}
}

const actionsOf = (t, r) => ({
	trace: () => traceNext(t.identity),
	open: (id) => change({ request: String(id) }),
	copy: () => copy(new URL(toRequest(t.request, r), location.href).href),
	copyTrace: () => copy(t.trace_id),
	save: (form) => saveTrace(t.request, form),
	stacks: () => change({ request: String(t.request), view: "stacks", identity: t.identity }),
	slower: () => change({ request: String(t.request), view: "stacks", identity: t.identity, tier: "", compare: "durations", took: slower(t.total_ms) }),
	close: () => change({ request: "none" }),
});

// Keeps the tree as it is: a stored request does not change.
async function showTree(signal, r, of, slow) {
	const id = openId(await slow), wanted = JSON.stringify([id, state.utc, state.range, state.since, state.until, state.node, state.identity, state.tier]);

	signal.throwIfAborted();
	if (wanted === shownTree)
		return;
	shownTree = null;
	if (id === "" || id === "none") {
		shownTree = wanted;
		$("tree").replaceChildren(el("p", { class: "empty" }, "Choose a request to see where its time went, across processes and nodes."));
		charts.markRequest(null);
		return;
	}
	try {
		const t = await get(`requests/${id}`, of, signal);
		const start = Date.parse(t.start), last = Math.max(t.total_ms ?? 0, ...t.tree.map((c) => c.start_ms + (c.total_ms ?? 0)));
		const inside = await orNull(get("events", { since: t.start, until: iso(start + last + 1), node: t.node, limit: 50 }, signal));

		signal.throwIfAborted();
		waterfall($("tree"), t, { tiers, events: inside?.events ?? [], actions: actionsOf(t, r) });
		charts.markRequest(t.total_ms > 0 && state.tier === "" && ["", t.identity].includes(state.identity) ? { id: t.request, at: start, ms: t.total_ms } : null);
		shownTree = wanted;
	} catch (e) {
		if (!(e instanceof ApiError))
			throw e;
		charts.markRequest(null);
		$("tree").replaceChildren(el("p", { class: "empty" }, e.status === 404 ? "That request is no longer kept." : e.message));
	}
}

const slowBy = () => state.slow === "" ? {} : state.slow === "self" ? { sort: "self" } : { tier: state.slow.slice(1) };

// Is it compared with another time, and not with other nodes or types?
const timed = () => state.compare !== "" && !OTHERS.includes(state.compare);

// The inputs for the range to compare with, such as one before a deploy.
function showVersus() {
	$("s-compare").hidden = !timed();
	$("versus").hidden = state.compare !== "chosen";
	setText("versus-legend", `Compare with (${zone(state.vuntil || about.now)})`);
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
	hung ||= beatAt > 0 && Date.now() - beatAt > HUNG_MS;
	const [at] = [[askedAt, SILENT_MS], [beatAt, HUNG_MS]].find(([t, most]) => t > 0 && Date.now() - t > most) ?? [0];

	if (at > 0 && !silent)
		showSilent({ message: `It was asked at ${clock(at)} ${zone(at)}.` });
}

// Asks whether the server is there, also where nothing else is asked.
async function beat() {
	if (beatAt > 0 || document.hidden)
		return;
	beatAt = Date.now();
	const there = await fetch("healthz", { cache: "no-store" }).then(() => true, () => false);

	beatAt = 0;
	if (!there) {
		hung = true;
	} else if (hung && askedAt === 0) {
		hung = false;
		refresh();
	}
}

// Of many request types those that the table has; one more option leads to the search there.
function showIdentities(r) {
	const { shown } = tables.typesOf(r, state);
	const left = r.rows.length - 1 - shown.length;

	options("identity", shown.map((row) => row.identity), state.identity, "all requests", identityName,
		left > 0 ? [el("option", { value: "", "data-search": "true" }, `search the other ${count(left)} …`)] : []);
	$("types-search").hidden = r.rows.length - 1 <= tables.TOP && state.types === "";
	if (document.activeElement !== $("types"))
		$("types").value = state.types;
}

function chooseIdentity(select) {
	if (!select.selectedOptions[0].dataset.search) {
		change({ identity: select.value });
		return;
	}
	select.value = state.identity;
	if (state.view !== "")
		change({ view: "" });
	$("types").focus();
}

function showChoices(nodes, r) {
	showNodes((r?.running ? r : nodes)?.nodes ?? []);
	showIdentities(r ?? { rows: [], tiers: [] });
	options("tier", tiers, state.tier, "whole request", (n) => n);
	for (const one of $("compare").options)
		one.hidden = OTHERS.includes(one.value) && (state.view === "" || one.value === "durations" && state.took === "");
	$("compare").value = state.compare;
}

// The names that may be meant by those that nothing in the database has.
function meant(answer, parameter) {
	const near = (answer?.unknown ?? []).filter((x) => x.parameter === parameter && x.near !== null).map((x) => x.near);

	return near.length === 0 ? "" : ` Is ${near.join(", ")} meant?`;
}

// Explains why there is nothing to show, and offers a way back.
function showNotes(nodes, r, asked) {
	const notes = [];
	// a name with a wildcard may stand for any
	const gone = nodes?.nodes.length > 0 ? state.node.filter((name) => !nodes.nodes.includes(name) && !/[*?[]/.test(name)) : [];

	if (state.refused.length > 0)
		notes.push({ text: `The page cannot show ${state.refused.map((v) => v.slice(0, 60)).join(", ")}, which this link asks for. It shows: ${subject()}.`, out: "go on with that", go: () => change({ request: state.request }, false) });
	if (about.last === null && !r?.running)
		notes.push({ text: "Nothing has been written yet: kprofd writes a window every -interval (10 s) while it is attached to a node. Is the node's name right, is there load?" });
	else if (nodes?.nodes.length === 0 && !r?.running)
		notes.push({ text: `Nothing is stored of this time. What is stored is from ${between(Date.parse(about.first), Date.parse(about.last))}.`, out: "show all of it", go: () => change({ range: "all", since: "", until: "" }) });
	if (gone.length > 0)
		notes.push({ text: `Nothing of ${gone.join(", ")} is stored in this time.${meant(asked, "node")}`, out: "leave it out", go: () => change({ node: state.node.filter((name) => !gone.includes(name)) }) });
	if (nodes?.nodes.length !== 0 && r && hasNone(r))
		notes.push({ text: `No request of ${identityName(state.identity)} was measured in this time.${meant(asked, "identity")}`, out: "show all requests", go: () => change({ identity: "" }) });
	if (!tierKnown())
		notes.push({ text: `There is no tier ${state.tier} in these data: it is of another configuration, or no longer kept.`, out: "show the whole request", go: () => change({ tier: "" }) });
	notify(...notes);
}

// asked: an answer to all that is chosen, or null.
function showChosen(nodes, report, r, asked) {
	showPeriod(r, report);
	showChoices(nodes, report);
	showNotes(nodes, report, asked);
}

// A link has the number of a trace, which the next kprofd gives again, and when it began, in s.
const began = (since) => Math.floor(Date.parse(since) / 1e3);

// What has ended stays as it is; while it goes on it is asked for again.
async function traceOf(signal) {
	const [id, at] = state.trace.split("-");

	if (traced?.link === state.trace)
		return traced.trace;
	try {
		const t = await get(`traces/${id}`, {}, signal, COMMAND_MS);

		return at === undefined || Number(at) === began(t.since) ? t : { gone: `Trace ${id} is another one now, of type ${identityName(t.identity)}: kprofd was started again since this link was made` };
	} catch (e) {
		if (e instanceof ApiError && e.status === 404)
			return { gone: `${e.message}. The link is of an earlier kprofd, or others were traced since` };
		throw e;
	}
}

function showTraced(t) {
	traced = t.gone || runs(t) ? null : { link: state.trace, trace: t };
	stacks.showTrace(t, tiers);
	if (runs(t))
		tracing = setTimeout(refresh, TRACED_MS);
}

const runs = (t) => ["leaving", "tracing"].includes(t.state);

// The other view, which asks only when it is shown.
function showStacks(r, ask, report, nodes, signal) {
	const part = (ids, show, ...asked) => panel(ids, signal, show, ...asked);
	const then = timed() ? versus(r) : null;
	const others = then ? { versus: `${iso(then.since)},${iso(then.until)}` } : timed() ? {} : { against: state.compare };

	showVersus();
	$("s-stacks").dataset.exact = state.trace === "" ? "" : "yes";
	return [
		part([], (names, rep) => showChosen(names, rep, r, rep), nodes, orNull(report)),
		state.trace !== "" ? part(["s-stacks"], showTraced, traceOf(signal)) :
			part(["s-stacks"], (s) => stacks.show(s, tiers), ask("stacks", { identity: state.identity, tier: tierKnown() ? state.tier : "", took: state.took, ...others })),
		part(["s-memory"], tables.memory, ask("memory"))];
}

function showSaved(signal) {
	left = Infinity;
	const r = range(about);
	const of = { since: iso(r.since), until: iso(r.until), node: state.node };
	// a range that ends now is another one each time: the browser would keep all of them
	const cache = r.until === Date.parse(about.now) ? "no-store" : "default";
	const ask = (what, more = {}) => get(what, { ...of, ...more }, signal, undefined, cache);
	// the same of a list of request types, of which an answer has a part
	const askAll = (key, what, more = {}) => getAll(key, what, { ...of, ...more }, signal, cache);
	const nodes = orNull(get("nodes", { since: of.since, until: of.until }, signal, undefined, cache));

	showPeriod(r);
	return state.view === "stacks" ? showStacks(r, ask, askAll("rows", "report"), nodes, signal) : showFigures(r, of, ask, askAll, nodes, signal);
}

const CHANGES_MS = 20e3;	// they need more than a step of time, and more work than a report
let changed = { key: "", at: 0, answer: null };

// Adds to the first changes three of the slow requests since then.
const EXAMPLED = 3, EXAMPLES = 3;

async function withExamples(c, ask) {
	await Promise.all(c.changes.slice(0, EXAMPLED).map(async (x) => {
		const which = x.what === "raised_share" ? { outcome: "raised" } : x.in?.tier ? { tier: x.in.tier } : {};

		x.examples = (await orNull(ask("slow", { ...which, identity: x.identity, since: x.since, until: x.until ?? c.end, node: x.all_nodes ? state.node : x.nodes, limit: EXAMPLES })))?.requests ?? [];
	}));
	return c;
}

function changes(ask) {
	const key = JSON.stringify([state.range, state.since, state.until, state.node, state.identity]);

	if (changed.key !== key || Date.now() - changed.at > CHANGES_MS) {
		changed = { key, at: Date.now(), answer: ask("changes", { identity: state.identity }).then((c) => withExamples(c, ask)) };
		changed.answer.catch(() => { changed.key = ""; });
	}
	return changed.answer;
}

// Before the first window is stored: the running one, if kprofd runs.
async function orRunning(report, r, signal) {
	const none = report.windows === 0 && r.until === Date.parse(about.now);
	const now = none ? await orNull(get("running", { node: state.node }, signal, COMMAND_MS)) : null;

	left = now?.running ? now.left_ms : Infinity;
	return now?.running ? now : report;
}

// Times of steps are numbers here, in s, as charts want them.
const inSteps = (asked) => asked.then((a) => ({ ...a, t: a.t.map((t) => Date.parse(t) / 1e3) }));

function showFigures(r, of, ask, askAll, nodes, signal) {
	const chart = { identity: state.identity, tier: tierKnown() ? state.tier : "" };
	const rep = askAll("rows", "report").then((report) => orRunning(report, r, signal)), loads = inSteps(ask("load")), slo = ask("slo"), events = ask("events", { limit: 200 });
	const slow = ask("slow", { ...slowBy(), identity: state.identity, took: state.took, limit: PAGE, offset: state.offset });
	const then = timed() ? versus(r) : null;
	const part = (ids, show, ...asked) => panel(ids, signal, show, ...asked);
	const compared = (more) => askAll("changes", "compare", { what: "self", identity: state.identity, versus: `${iso(then.since)},${iso(then.until)}`, ...more });
	const drawn = Promise.all([orNull(loads), orNull(events), nodes]).then(([l, e, names]) => { signal.throwIfAborted(); showMarks(l, e, names, r); });
	const series = inSteps(ask("series", chart));
	// as long as what it is laid over, in the same steps
	const past = (node) => then && orNull(series.then((s) => inSteps(ask("series", { ...chart, node, since: iso(then.since), until: iso(Math.min(then.until, then.since + r.until - r.since)), step: `${s.step_s}s` }))));
	const byNode = askAll("rows", "report", { by: "node", identity: state.identity }), names = byNode.then((b) => b.rows.slice(1).map((row) => row.identity));
	const eachNode = async () => {
		const some = (await names).slice(0, NODES), { step_s } = await series;

		return some.length < 2 ? [] : Promise.all(some.map(async (node) => {
			const [s, old, l, e] = await Promise.all([inSteps(ask("series", { ...chart, node, step: `${step_s}s` })), past(node), orNull(inSteps(ask("load", { node }))), orNull(events)]);

			return { node, at: `-${[...some].sort().indexOf(node)}`, s, old, marks: marksOf(l, (e?.events ?? []).filter((x) => !x.node || x.node === node), 1) };
		}));
	};

	showVersus();
	return [
		part([], (names, report, asked) => showChosen(names, report, r, asked), nodes, orNull(rep), orNull(series)),
		part(["s-changes"], (c) => tables.changes(c, state, change), changes(ask)),
		part([], showTiles, orNull(rep), orNull(loads)),
		part(["c-rate", "c-time", "c-max", "c-self"], (s, report, old, o, each) => showSeries(s, report, old, o, each, then && (r.since - then.since) / 1e3), series, orNull(rep), past(state.node), orNull(slo), state.by === "node" ? eachNode() : [], drawn),
		part([], showByNode, names),
		part(["s-slo"], (o) => tables.objectives(o, state, change), state.by === "node" ? ask("slo", { by: "node" }) : slo),
		part(["c-heat"], (h, report) => draw("c-heat", charts.heatmap, h, whyNot(h, report, true)), inSteps(ask("heatmap", chart)), orNull(rep), drawn),
		part(["c-sample", "c-cost"], showLoad, loads, orNull(rep), drawn),
		part(["s-report", "s-labels"], (report) => tables.report(report, state, change), rep),
		part(["s-nodes"], (report) => tables.byNode(report, change), byNode),
		part(["s-slow"], (s) => tables.slow(s, { ...state, request: openId(s) }, change), slow),
		part(["s-losses"], tables.losses, ask("losses")),
		part(["s-events"], tables.events, events),
		...timed() ? [part(["s-compare"], (c, byNode) => tables.compare(c, byNode, then, state, change), then && compared({}), then && orNull(compared({ by: "node" })))] : [],
		showTree(signal, r, of, orNull(slow))];
}

async function load(signal) {
	const asked = get("about", {}, signal);
	const now = showNow(signal, asked);

	// the error is handled by the await below, unless another came first
	now.catch(() => {});
	try {
		about = await asked;
		showAllowed();
		const names = await get("tiers", {}, signal);

		tiers = [...names.tiers, ...names.former];
		tables.slowBy(state, tiers);
		await Promise.all(showSaved(signal));
		// where it is below the list, and all above it has its height
		if (tapped !== "" && matchMedia("(max-width: 900px)").matches)
			$("tree").scrollIntoView();
		tapped = "";
	} catch (e) {
		if (!(e instanceof ApiError))
			throw e;
		notify({ text: `${e.message}${updated > 0 ? `. What is below is of ${clock(updated)} ${zone(updated)}.` : ""}` });
	}
	await now;
	document.body.dataset.loaded = String(Number(document.body.dataset.loaded ?? 0) + 1);
}

// What the page shows, in a few words, those that differ first.
function subject() {
	const time = state.range === "" ? between(state.since, state.until) : state.range === "all" ? "all times" : `last ${state.range}`;

	return [...state.view ? [state.view] : [], identityName(state.identity || "_total"), ...state.tier ? [state.tier] : [],
		...state.node.length > 1 ? [`${state.node.length} nodes`] : state.node, time].join(", ");
}

// How long the requests of slow ones and stacks took, where that is chosen, and the ways on and out.
function showTook() {
	$("took").hidden = state.took === "";
	if (state.took === "")
		return;
	setText("took-words", `slow requests and stacks: of those that took ${tookWords(...tookEnds(state.took))}`);
	$("took-versus").hidden = state.view === "stacks" && state.compare === "durations";
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
	clearTimeout(tracing);
	const mine = loading = new AbortController();

	useUtc(state.utc);
	document.title = `${subject()} - kprofd`;
	showView();
	showTook();
	showRanges();
	$("live").setAttribute("aria-pressed", String(state.live));
	$("log").setAttribute("aria-pressed", String(state.log));
	$("by-node").setAttribute("aria-pressed", String(state.by === "node"));
	try {
		await load(mine.signal);
	} catch (e) {
		if (!mine.signal.aborted)
			throw e;
	} finally {
		if (mine === loading && state.live && state.range !== "")
			timer = setTimeout(() => document.hidden || refresh(), Math.min(LIVE_MS, left + WRITTEN_MS));
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

async function traceNext(identity) {
	try {
		const { id, since } = await post("traces", { identity, node: state.node });

		change({ view: "stacks", identity, tier: "", trace: `${id}-${began(since)}` });
	} catch (e) {
		notify({ text: e.message });
	}
}

// Resolves to true if the user wants it.
function confirmed(what, why) {
	const dialog = $("confirm");

	$("confirm-title").textContent = `${what}?`;
	$("confirm-what").textContent = why;
	$("confirm-do").textContent = what;
	return new Promise((resolve) => {
		dialog.addEventListener("close", () => resolve(dialog.returnValue === "do"), { once: true });
		dialog.returnValue = "";
		dialog.showModal();
	});
}

// To resume takes nothing away, so nobody is asked.
async function pause() {
	const { path, nodes } = command;
	const where = nodes[0] === "" ? "in all nodes" : `in ${nodes.join(", ")}`;

	if (path === "resume" || await confirmed($("pause").textContent, `Nothing is measured ${where} until somebody resumes it: charts have a gap, for all who look.`))
		send(path, nodes);
}

async function dump() {
	if (await confirmed("dump", "The running window of all nodes ends now, and is written: it and the next one are shorter than others."))
		send("dump");
}

// On a phone sections fold; elsewhere their buttons are hidden.
function makeFold(section) {
	const b = el("button", { type: "button", class: "fold", "aria-expanded": String(!section.hasAttribute("data-folded")),
		"aria-label": `${section.querySelector("h2").firstChild.data.trim()}: show or hide` });

	b.addEventListener("click", () => {
		b.setAttribute("aria-expanded", String(!section.toggleAttribute("data-folded")));
		// charts that were hidden do not know their width
		dispatchEvent(new Event("resize"));
	});
	section.prepend(b);
}

// ---- start

document.querySelectorAll("main > section:has(h2), .chart, .pair > section").forEach(makeFold);

for (const b of $("views").children)
	b.addEventListener("click", () => change({ view: b.value }));
stacks.start(change);
$("identity").addEventListener("change", (e) => chooseIdentity(e.target));
$("types").addEventListener("change", (e) => change({ types: e.target.value }));
$("types").addEventListener("input", (e) => {
	state.types = e.target.value;
	tables.searched();
});
$("tier").addEventListener("change", (e) => change({ tier: e.target.value }));
$("compare").addEventListener("change", (e) => chooseVersus(e.target.value));
for (const id of ["vsince", "vuntil"])
	$(id).addEventListener("change", (e) => e.target.value && e.target.checkValidity() && change({ [id]: iso(fromField(e.target.value)) }));
$("slow-by").addEventListener("change", (e) => change({ slow: e.target.value }));
$("choice").addEventListener("submit", (e) => e.preventDefault());
$("picker").addEventListener("toggle", openPicker);
for (const id of ["since", "until"])
	$(id).addEventListener("input", checkPicker);
$("pick").addEventListener("submit", (e) => { e.preventDefault(); pick(); });
$("zone").addEventListener("change", (e) => chooseZone(e.target.value !== ""));
$("live").addEventListener("click", () => change({ live: !state.live, request: state.request }));
$("took-versus").addEventListener("click", () => change({ view: "stacks", compare: "durations" }));
$("took-out").addEventListener("click", () => change({ took: "", request: "", offset: 0, compare: state.compare === "durations" ? "" : state.compare }));
$("log").addEventListener("click", () => change({ log: !state.log }));
$("by-node").addEventListener("click", () => change({ by: state.by === "" ? "node" : "" }));
$("pause").addEventListener("click", pause);
$("dump").addEventListener("click", dump);
$("trace-next").addEventListener("click", () => traceNext(state.identity));
$("sign-in").addEventListener("click", () => askToken().then(refresh));
for (const used of ["pointerdown", "keydown"])
	$("tree").addEventListener(used, keepOpen);
$("prev").addEventListener("click", () => change({ request: "", offset: Math.max(0, state.offset - PAGE) }));
$("next").addEventListener("click", () => change({ request: "", offset: state.offset + PAGE }));
document.addEventListener("click", (e) => {
	closeMenus(e.target);
});
document.addEventListener("keydown", (e) => {
	if (e.key === "Escape")
		closeMenus();
});
document.addEventListener("visibilitychange", () => document.hidden || state.live && refresh());
addEventListener("popstate", () => { readUrl(); refresh(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { shownTree = null; refresh(); });
charts.onDrag((from, to, took) => change({ range: "", since: iso(from), until: iso(to), ...took ? { took: tookParam(...took) } : {} }));
setInterval(watch, 1000);
setInterval(beat, BEAT_MS);
readUrl();
refresh();
