// tables.js - the report, comparison, slow requests, nodes, losses, memory, events.
import { color, tierColor } from "./charts.js";
import { WAY_OUT, between, count, el, estimate, fnName, identityName, matches, ms, near, percent, raised, raisedInside, rate, rateOf, requestsOf, slower, span, tierName, when, wholeTier, zoned } from "./format.js";
import { PAGE } from "./state.js";

const hosts = (id) => document.querySelector(`#${id} .scroll`);

const STACKS = "stacks of ";
const MEMORY = 40;		// rows
export const TOP = 20;		// request types
const MORE = 50;		// request types or labels that a button adds

let most = TOP;			// request types that are shown
let mostLabels = MORE;		// of the chosen type
const sections = new Map();	// those with request types, by id: shows one again

// Restores the focus, as tables are replaced every few seconds.
function put(host, ...children) {
	const name = (b) => b.title || b.textContent;
	const focused = host.contains(document.activeElement) ? name(document.activeElement) : null;

	host.replaceChildren(...children.filter((c) => c !== null));
	if (focused !== null)
		([...host.querySelectorAll("button")].find((b) => name(b) === focused) ?? host).focus();
}

// Each cell has its head: on a phone a row is a card.
function table(heads, rows, caption) {
	const names = heads.map((h) => h instanceof Node ? h.textContent : h.replace("<", ""));

	for (const row of rows)
		[...row.cells].forEach((td, i) => { td.dataset.head = names[i]; });
	return el("table", { "aria-label": caption },
		el("thead", {}, el("tr", {}, heads.map((h) => h instanceof Node ? h : el("th", { scope: "col", class: h.startsWith("<") ? "left" : "" }, h.replace("<", ""))))),
		el("tbody", {}, rows));
}

const nothing = (host, text) => host.replaceChildren(el("p", { class: "empty" }, text));

// Shows a text in place of a table.
export function empty(id, text) {
	sections.delete(id);
	nothing(hosts(id), text);
}

// Shows a section, and again when another part of its types is chosen.
function showTypes(id, show) {
	sections.set(id, show);
	show();
}

const showAgain = () => sections.forEach((show) => show());

export function searched() {
	most = TOP;
	showAgain();
}

// The first of those rows that have the searched text in their name, and the chosen
// type wherever it is; `rest` has the text, too, and is not shown.
function pick(rows, state) {
	const wanted = state.types.toLowerCase();
	const found = rows.filter((row) => identityName(row.identity).toLowerCase().includes(wanted));
	const first = new Set(found.slice(0, most));
	const is = (row) => first.has(row) || row.identity === state.identity;

	return { found, shown: rows.filter(is), rest: found.filter((row) => !is(row)) };
}

const sum = (v) => v.reduce((a, b) => a + (b ?? 0), 0);

const totalOf = (row) => row.tiers.find((t) => t.tier === "_total") ?? row.tiers[0] ?? {};

// A bar of the self times of one request's tiers.
function stack(row, tiers) {
	const parts = row.tiers.map((t) => ({ name: t.tier, i: tiers.indexOf(t.tier) + 1, v: (t.self_ms ?? 0) / row.requests })).filter((p) => p.v > 0);
	const whole = sum(parts.map((p) => p.v));
	const text = parts.map((p) => `${tierName(p.name)} ${ms(p.v)}`).join(", ");

	parts.sort((a, b) => (a.i === 0) - (b.i === 0) || a.i - b.i);
	return el("div", { class: "stack", role: "img", title: text, "aria-label": text || "nothing" }, parts.map((p) =>
		el("span", { style: { width: `${100 * p.v / whole}%`, backgroundColor: color(tierColor(p.i)) } })));
}

// A tier's self time in one request of the row; undefined: it has none.
const selfOf = (row, name) => {
	const t = row.tiers.find((x) => x.tier === name);

	return t?.busy_per_request_ms == null ? undefined : t.self_ms / row.requests;
};

// Self time within the request, how near that is, and after its end if that is large enough:
// 6.3 ms +18 ms.
function selfAndAfter(row, name) {
	const self = selfOf(row, name), t = row.tiers.find((x) => x.tier === name), ends = near(self, t, "self_per_request_ms");
	const after = t?.after_per_request_ms > 0.1 * (self ?? 0) ? [` +${ms(t.after_per_request_ms)}`] : [];

	return after.length > 0 && t.calls === 0 ? after[0].trim() : after.length + ends.length > 0 ? [ms(self), ...ends, ...after] : ms(self);
}

// A time of the row's requests, and their number or rate, with their intervals.
const timeOf = (row, key) => [ms(totalOf(row)[key]), ...near(totalOf(row)[key], totalOf(row), key)];
const numberOf = (row, of, text) => [estimate(of, text), ...of.known ? [] : near(row.requests, totalOf(row), "requests")];

// Shows what a request type does in a tier; "": in all of them.
function toStacks(row, tier, shown, change) {
	return shown === "–" ? shown : el("button", { type: "button", class: "link figure", title: `${STACKS}${identityName(row.identity)}${tier ? ` in ${tier}` : ""}`,
		onclick: () => change({ view: "stacks", identity: row.identity === "_total" ? "" : row.identity, tier }) }, shown);
}

function columns(r, change) {
	const { tiers } = r;
	const one = (key, title, value, show) => ({ key, title, value, show: show ?? value });
	const time = (key, title) => one(key, title, (row) => totalOf(row)[`${key}_ms`] ?? -1, (row) => timeOf(row, `${key}_ms`));
	const mark = (name) => (r.missing ?? []).some((m) => m.tier === name && m.missed_calls !== null) ? " !" : "";
	const tier = (name) => one(`tier ${name}`, name + mark(name), (row) => selfOf(row, name) ?? -1, (row) =>
		toStacks(row, name, selfAndAfter(row, name), change));

	return [
		one("name", "request type", (row) => row.identity),
		one("impact", "impact", (row) => row.share ?? -1),
		one("requests", "requests", (row) => row.requests, (row) => numberOf(row, requestsOf(r, row), count)),
		one("rate", "a second", (row) => row.requests, (row) => numberOf(row, requestsOf(r, row), (n) => rateOf(n, r))),
		one("errors", "errors", (row) => totalOf(row).raised ?? -1, (row) => el("span",
			(totalOf(row).raised_seen ?? "known") === "known" ? {} : { title: WAY_OUT }, raised(totalOf(row)))),
		...r.rows.some((row) => raisedInside(row).length > 0) ? [one("inside", "errors inside", (row) => raisedInside(row).reduce((n, t) => n + t.raised, 0),
			(row) => el("span", { title: raisedInside(row).map((t) => `${t.tier}: ${percent(t.share)} of its calls`).join(", ") },
				`${raisedInside(row).some((t) => t.raised_seen === "at_least") ? "≥ " : ""}${estimate({ n: raisedInside(row).reduce((n, t) => n + t.raised, 0), known: row.requests_known }, count)}`))] : [],
		time("mean", "mean"), time("p50", "p50"), time("p90", "p90"), time("p99", "p99"), time("max", "max"),
		...r.rows.some((row) => totalOf(row).after_ms > 0) ? [time("after_per_request", "after")] : [],
		{ key: "", title: "self time by tier", show: (row) => toStacks(row, "", stack(row, tiers), change) },
		...tiers.map(tier),
		...r.rows.some((row) => totalOf(row).self_ms > 0) ? [one("tier _total", tierName("_total"), (row) => selfOf(row, "_total") ?? -1,
			(row) => ms(selfOf(row, "_total")))] : [],
	];
}

function header(c, state, change) {
	const sorted = state.sort === c.key;

	if (c.key === "")
		return el("th", { scope: "col", class: "left" }, c.title);
	return el("th", { scope: "col", "aria-sort": sorted ? state.order : undefined },
		el("button", { type: "button", title: { impact: "time of all its requests: time x rate", after_per_request: "time after the request's end; in a tier's column: +" }[c.key], onclick: () => change({ sort: c.key, request: state.request,
			order: sorted && state.order === "descending" ? "ascending" : "descending" }) }, c.title));
}

// The request types in the chosen order.
export function typesOf(r, state) {
	const cols = columns(r);
	const by = cols.find((c) => c.key === state.sort) ?? cols[1];
	const sign = state.order === "ascending" ? 1 : -1;

	return pick(r.rows.slice(1).sort((a, b) => {
		const x = by.value(a), y = by.value(b);

		return sign * (typeof x === "string" ? x.localeCompare(y) : x - y);
	}), state);
}

// Names tiers with calls so short that tracing is a large part of their time.
function tracing(r) {
	const small = (r.rows[0]?.tiers ?? []).filter((t) => t.tier !== "_total" && t.tracing_ms != null && t.mean_ms < 10 * t.tracing_ms);

	return small.length === 0 ? [] : [el("span", {}, "tracing adds to each call of " +
		small.map((t) => `${t.tier} about ${ms(t.tracing_ms)} of its ${ms(t.mean_ms)}`).join(", "))];
}

// Tiers with calls that requests lost, or of which requests have hardly any.
function missing(r) {
	const each = (n, of) => { const v = n / (of || 1); return v >= 10 ? v.toFixed(0) : v.toFixed(2); };
	const requests = r.rows[0]?.requests;
	const counted = (m) => `${count(m.counted_calls)} calls, ${each(m.counted_calls, m.counted_requests)} per request`;
	const [sure, absent] = [true, false].map((is) => (r.missing ?? []).filter((m) => (m.missed_calls !== null) === is));

	return [...sure.length === 0 ? [] : [el("p", { class: "hint" }, "! " + sure.map((m) => `${m.tier}: ${each(m.calls, requests)} calls per request` +
		(m.async_calls > 0 ? ` and ${each(m.async_calls, requests)} after it` : "") + (m.counted_calls === null ? "" : `, where the VM counted ${counted(m)}`) +
		`; about ${each(m.missed_calls, requests)} per request are missing`).join("; ") +
		": a process was answered because of another request (a pool's worker was given back, a reply deferred, an event postponed). " +
		"Where sampling had passed that over, what the process did then is not seen, or counts after another ({sampling, all} sees it); " +
		"else nobody can tell whose it is. Times of these tiers are too small.")],
	...absent.length === 0 ? [] : [el("p", { class: "hint" }, `Not in requests: ${absent.map((m) => `${m.tier}, ${counted(m)}`).join("; ")}: ` +
		"the VM counted them, and measured requests have hardly any; they are made outside of requests, or tokens are lost before them, " +
		"as where all workers of a pool are taken, and a request gets its worker from one that is not measured.")]];
}

// The calls of tiers by label, as kprof report has them: of all requests and of the types
// that make most, the labels with most calls; more of those of a type that is chosen.
const LABELS = 3, LABEL_TYPES = 5;

function labelRows(r, row, tier, one, change) {
	const n = one ? mostLabels : LABELS;
	const time = (l, key) => [ms(l[key]), ...near(l[key], l, key)];
	const calls = (l) => l.calls > 0 ? l.calls / row.requests : null;
	const each = (l) => [[rate(calls(l)), ...near(calls(l), l, "calls_per_request")], time(l, "busy_per_request_ms"), time(l, "mean_ms"), time(l, "p99_ms")];
	const rest = tier.labels.slice(n);
	const others = `${count(rest.length)} other${rest.length > 1 ? "s" : ""}`;
	const more = () => { mostLabels += MORE; showAgain(); };
	const identity = row.identity === "_total" ? "" : row.identity;
	const name = el("button", { type: "button", class: "link", onclick: () => change({ identity }) }, identityName(row.identity));
	const link = (label) => el("button", { type: "button", class: "link", title: `charts of ${tier.tier}: ${label} in ${identityName(row.identity)}`,
		onclick: () => change({ identity, tier: `${tier.tier}: ${label}` }) }, label);
	const line = (first, label, figures) => el("tr", {}, el("td", { class: "name" }, first), el("td", { class: "left" },
		el("i", { class: "key", style: { backgroundColor: color(tierColor(r.tiers.indexOf(tier.tier) + 1)) } }), tier.tier), el("td", { class: "left name" }, label), figures.map((f) => el("td", {}, f)));

	return [...tier.labels.slice(0, n).map((l, i) => line(i === 0 ? name : "", link(l.label), each(l))),
		...rest.length > 0 ? [line("", one ? el("button", { type: "button", class: "link", onclick: more }, `${others}: show more`) : el("span", { class: "soft" }, others),
			each({ calls: sum(rest.map((l) => l.calls)), busy_per_request_ms: sum(rest.map((l) => l.busy_per_request_ms)) }))] : []];
}

function labels(r, state, change) {
	const section = document.getElementById("s-labels");
	const of = (row, name) => row.tiers.find((t) => t.tier === name && t.labels.length > 0);
	const calls = (row, name) => { const t = of(row, name); return t ? t.calls + t.async_calls : 0; };
	const [all, ...types] = r.rows;
	const lines = [], left = [];

	for (const name of r.tiers.filter((t) => state.tier === "" || wholeTier(state.tier) === t)) {
		const made = types.filter((row) => calls(row, name) > 0).sort((a, b) => calls(b, name) - calls(a, name));
		const some = state.identity ? types.filter((row) => row.identity === state.identity) : [all, ...made.slice(0, LABEL_TYPES)];

		for (const row of some.filter((x) => x && of(x, name)))
			lines.push(...labelRows(r, row, of(row, name), state.identity !== "" || types.length === 1, change));
		left.push(...state.identity ? [] : made.slice(LABEL_TYPES));
	}
	section.hidden = lines.length === 0;
	put(hosts("s-labels"), table(["<request type", "<tier", "<label", "calls per request", "time per request", "mean", "p99"], lines, "Calls by label"),
		...left.length > 0 ? [el("p", { class: "hint" }, `${count(new Set(left).size)} more request types have such calls: choose one to see its own.`)] : []);
}

// What is known of several types, or of requests without one: no times, as they do not add up.
const sumRow = (cols, of) => el("tr", {}, cols.map((c) => el("td", { class: c.key === "name" ? "name soft" : "" }, of[c.key] ?? "–")));

const moreTypes = (rest, state) => `${count(rest.length)} more request types${state.types ? " with that name" : ""}`;

function others(r, rest, state) {
	const requests = { n: sum(rest.map((row) => row.requests)), known: rest.every((row) => row.requests_known) };

	return { name: moreTypes(rest, state), impact: percent(sum(rest.map((row) => row.share))),
		requests: estimate(requests, count), rate: estimate(requests, (n) => rateOf(n, r)) };
}

export const report = (r, state, change) => showTypes("s-report", () => showReport(r, state, change));

function showReport(r, state, change) {
	const host = hosts("s-report");
	const cols = columns(r, change);
	const [all] = r.rows;
	const { found, shown: some, rest } = typesOf(r, state);

	labels(r, state, change);
	document.getElementById("types-found").textContent = state.types === "" ? "" : `${count(found.length)} of ${count(r.rows.length - 1)} types`;
	// What is wrong with a report that is empty or odd.
	const hints = [...missing(r), ...(r.hints ?? []).map((text) => el("p", { class: "hint" }, text))];

	if (!all || all.requests === 0 && r.rows.length === 1) {
		nothing(host, "No request was measured here. Choose a longer range, or see below whether measuring is paused and what was lost.");
		host.append(...hints);
		return;
	}
	// With the types this makes up all requests.
	const unmeasured = r.unmeasured_requests > 0 ? [sumRow(cols, { name: "not measured", requests: estimate({ n: r.unmeasured_requests, known: all.requests_known }, count) })] : [];
	const counts = r.requests_known && r.requests !== all.requests ? [el("span", {}, "requests: the VM counted all; each type has those that were measured" +
		(all.requests_known ? "" : `, for which the sampled ones stand: ~${count(all.requests)} in all`) +
		(unmeasured.length > 0 ? "; the others are “not measured”, and times are of those measured" : ""))] : [];

	put(host, table(cols.map((c) => header(c, state, change)), [...[all, ...some].map((row) =>
		el("tr", { "aria-current": row.identity === (state.identity || "_total") ? "true" : undefined }, cols.map((c) => {
			if (c.key === "name")
				return el("td", { class: "name" }, el("button", { type: "button", class: "link", onclick: () =>
					change({ identity: row.identity === "_total" ? "" : row.identity }) }, identityName(row.identity)));
			if (c.key === "impact")
				return el("td", {}, el("span", { class: "bar", style: { width: `${Math.max(0, row.share ?? 0) * 70}px` } }), percent(row.share));
			return el("td", {}, c.show(row));
		}))), ...rest.length > 0 ? [sumRow(cols, others(r, rest, state))] : [], ...unmeasured], "Report by request type"),
	rest.length > 0 ? el("button", { id: "types-more", type: "button", title: "more request types", onclick: () => { most += MORE; showAgain(); } },
		`show ${count(Math.min(MORE, rest.length))} more`) : null,
	el("div", { class: "keys" }, r.tiers.map((name, i) => el("span", {}, el("i", { style: { backgroundColor: color(tierColor(i + 1)) } }), name)),
		el("span", {}, el("i", { style: { backgroundColor: color("c0") } }), "no tier"),
		el("span", {}, "columns of tiers: self (exclusive) time of one request; a row's add up to mean (inclusive), but for calls at the same time" +
			(r.rows.some((row) => totalOf(row).intervals) ? "; ±: of that figure; in 95 of 100 cases the true one is no farther, but for what was lost" : "")), ...counts, ...tracing(r)), ...hints);
}

const signed = (v, text) => v === null ? "–" : `${v > 0 ? "+" : v < 0 ? "\u2212" : ""}${text(Math.abs(v))}`;
const points = (v) => `${(100 * v).toFixed(v < 0.0995 ? 2 : 1)} pp`;
const relative = (v) => `${v.toFixed(v < 10 ? 1 : 0)} %`;

// A figure now, then, and how it changed, in its unit and in per cent, with intervals.
// up: growth is bad.
function changed(now, then, f, unit, up) {
	const grade = f.uncertain || !f.difference || up === undefined ? "soft" : f.difference > 0 === up ? "up" : "down";
	const line = (key, text) => f[key] === null ? null : el("div", { class: grade }, `${f.uncertain ? "~" : ""}${signed(f[key], text)}`,
		f[`${key}_low`] === null ? null : el("small", { class: "soft" }, ` ${signed(f[`${key}_low`], text)} to ${signed(f[`${key}_high`], text)}`));

	return el("td", { title: f.uncertain ? "~: uncertain: too few were measured, or chance alone may make it" : undefined },
		now, el("span", { class: "soft" }, ` ${then}`), line("difference", unit), line("change_percent", relative));
}

const perSecond = (q, side) => estimate({ n: q[`${side}_per_s`], known: q[`${side}_known`] ?? true }, rate);

export const compare = (c, nodes, then, state, choose) => showTypes("s-compare", () => showCompared(c, nodes, then, state, choose));

function comparison(c, rows, name, head) {
	const figures = [["_total", "raised_share", "errors", percent, points], ["_total", "mean_ms", "mean"], ...["p50", "p90", "p99"].map((p) => ["_total", `${p}_ms`, p]),
		...c.now.tiers.map((t) => [t, "self_per_request_ms", t])];

	return table([`<${head}`, "requests/s", ...figures.map(([, , title]) => title)], rows.map((row) =>
		el("tr", {}, el("td", { class: "name" }, name(row), row.state === "both" ? null : el("span", { class: "soft" }, ` (${row.state})`)),
			changed(perSecond(row.requests, "now"), perSecond(row.requests, "then"), row.requests, rate),
			figures.map(([tier, figure, , text = ms, unit = ms]) => {
				const f = row.figures.find((x) => x.tier === tier && x.figure === figure);

				return f ? changed(text(f.now), text(f.then), f, unit, true) : el("td", {}, "–");
			}))), head === "node" ? "Comparison by node" : "Comparison");
}

// nodes: the same with a row for each node, or null.
function showCompared(c, nodes, then, state, choose) {
	const section = document.getElementById("s-compare");
	const host = hosts("s-compare");

	if (!then) {
		section.querySelector("h2").textContent = "Compared with another time";
		nothing(host, "Choose above when the other range begins and ends.");
		return;
	}
	section.querySelector("h2").textContent = `Compared with ${between(Date.parse(c.then.start) || then.since, Date.parse(c.then.end) || then.until)}`;
	if (c.changes.length === 0 || c.then.windows === 0) {
		nothing(host, "Nothing was measured in the time to compare with: choose another above.");
		return;
	}
	const { shown: some, rest } = pick(c.changes.filter((row) => row.identity !== "_total"), state);

	put(host, comparison(c, [...c.changes.filter((row) => row.identity === "_total"), ...some], (row) => row.identity === "_total" && state.identity ? "all of these" : identityName(row.identity), "request type"),
		...rest.length > 0 ? [el("p", { class: "hint" }, `${moreTypes(rest, state)}: search for them, or show more, in the table “By request type”.`)] : [],
		...nodes?.changes.length > 2 ? [comparison(nodes, nodes.changes, (row) => row.identity === "_total" ? "all nodes" :
			el("button", { type: "button", class: "link", onclick: () => choose({ node: [row.identity] }) }, row.identity), "node")] : [],
		el("p", { class: "hint" }, "Each figure now and, paler, then; below it by how much it changed, and between what this is in 95 of 100 cases. ~: no more than chance may make, or too few measured. pp: percentage points."));
}

// Orders of slow requests: "" by total, "self", or ":TIER".
export function slowBy(state, tiers) {
	const select = document.getElementById("slow-by");
	const gone = state.slow.startsWith(":") && !tiers.includes(state.slow.slice(1)) ? [state.slow.slice(1)] : [];
	const all = [["", "total time"], ["self", "own time"], ...[...tiers, ...gone].map((t) => [`:${t}`, `time in ${t}`])];

	if (document.activeElement !== select || select.options.length !== all.length)
		select.replaceChildren(...all.map(([value, text]) => el("option", { value }, text)));
	select.value = state.slow;
}

export function slow(s, state, change) {
	const host = hosts("s-slow");
	const by = state.slow === "self" ? "own" : state.slow.slice(1);

	document.getElementById("prev").disabled = state.offset === 0;
	document.getElementById("next").disabled = s.requests.length < PAGE;
	if (s.requests.length === 0) {
		nothing(host, state.offset > 0 ? "There are no more." : state.took ? "None of the slow requests that were kept took that long." : state.slow ? "None of the slow requests of this time has any such time: choose another above." :
			"No slow request was kept here. Those slower than {slow_ms, N} of tiers.conf are (250 ms unless it has another), and the slowest of each type and window.");
		return;
	}
	put(host, table(["<time", "<request type", ...by ? [by] : [], "total", "outcome", "calls", "<node"], s.requests.map((q) =>
		el("tr", { "aria-current": String(q.request) === state.request ? "true" : undefined },
			el("td", {}, el("button", { type: "button", class: "link", onclick: () => change({ request: String(q.request) }) }, when(q.start).slice(5))),
			el("td", { class: "left name" }, identityName(q.identity)), by ? el("td", {}, ms(q.by_ms)) : null, el("td", {}, ms(q.total_ms)),
			el("td", {}, q.outcome, q.raised_calls > 0 ? el("span", { class: "soft" }, ` ${count(q.raised_calls)} raised`) : null), el("td", q.weight > 0 ? {} : { title: "outside of slices of time: tiers were not traced" }, q.weight > 0 ? count(q.calls) : "–"), el("td", { class: "left node", title: q.node }, q.node))), "Slow requests"));
}

export function inFlight(f, state) {
	const host = hosts("s-now");
	const shown = f.requests.filter((q) => (!state.identity || q.identity === state.identity) && (state.node.length === 0 || matches(q.node, state.node)));

	if (shown.length === 0) {
		nothing(host, f.in_flight > 0 ? "None of those that are chosen above." : "No request is being served just now.");
		return;
	}
	host.replaceChildren(table(["age", "<request type", "<began on", "<is in", "for", "<process"], shown.slice(0, 20).map((q) =>
		el("tr", {}, el("td", {}, ms(q.age_ms)), el("td", { class: "left name" }, identityName(q.identity)), el("td", { class: "left" }, q.node),
			el("td", { class: "left name" }, q.call ? fnName(q.call) : "no call of a tier", q.tier ? el("span", { class: "soft" }, ` ${q.tier}`) : null),
			el("td", {}, ms(q.call_ms)), el("td", { class: "left" }, q.process || "–", q.at === q.node ? null : el("span", { class: "soft" }, ` on ${q.at}`)))), "Requests in flight"),
	...f.in_flight > Math.min(20, shown.length) ? [el("p", { class: "soft" }, `${count(f.in_flight)} in flight, of all nodes and types.`)] : []);
}

export function flight(status) {
	const host = hosts("s-flight");

	host.replaceChildren(table(["<node", "<state", "in flight", "sampling", "cost", "trips", "behind"], status.targets.map((t) =>
		el("tr", {}, el("td", {}, t.target), el("td", { class: "left name" }, t.state, t.state_text ? el("span", { class: "soft" }, ` ${t.state_text}`) : null),
			el("td", {}, count(t.in_flight)), el("td", {}, t.one_in === 1 ? "every request" : `one in ${t.one_in}`),
			el("td", { title: "of one scheduler" }, `${(t.cost.scheduler_percent ?? 0).toFixed(2)} %`),
			el("td", {}, count(t.overload.trips)), el("td", {}, ms(t.overload.lag_us / 1e3)))), "Nodes now"));
}

export function losses(l) {
	const host = hosts("s-losses");

	if (l.losses.length === 0) {
		nothing(host, l.windows > 0 ? "Nothing was lost: every request of this time is in the figures." : "Nothing was written in this time.");
		return;
	}
	host.replaceChildren(table(["lost", "<what"], l.losses.map((x) => el("tr", {},
		el("td", {}, x.unit === "ms" ? span(x.lost / 1e3) : `${count(x.lost)} ${x.lost === 1 ? x.unit.replace(/(?<=ch)es$|s$/, "") : x.unit}`),
		el("td", { class: "left name" }, `${x.help} `, el("span", { class: "soft" }, `(${x.cause})`)))), "Losses"));
}

// 340 B, 5.2 kB, 87.3 MB
function bytes(v) {
	const units = ["B", "kB", "MB", "GB", "TB"];
	let i = 0;

	for (; v >= 999.95 && i < units.length - 1; i++)
		v /= 1000;
	return `${v.toFixed(i > 0 ? 1 : 0)} ${units[i]}`;
}

const heldBy = (memory, binaries) => memory + (binaries ?? 0);

function grown(x) {
	if (x.memory_bytes === null || x.memory_bytes_then === null)
		return "";
	const by = heldBy(x.memory_bytes, x.binary_bytes) - heldBy(x.memory_bytes_then, x.binary_bytes_then);

	return `${by > 0 ? "+" : by < 0 ? "\u2212" : ""}${bytes(Math.abs(by))}`;
}

// Those for which most messages wait, then those that hold most.
export function memory(m) {
	const host = hosts("s-memory");
	const about = (x, text) => `${x.estimated ? "~" : ""}${text}`;

	if (m.usage.length === 0) {
		nothing(host, "None was seen in this time: kprofd looks at them where it samples stacks.");
		return;
	}
	const of = (x) => [(x.longest ?? 0) >= 100 ? x.longest : 0, heldBy(x.memory_bytes ?? 0, x.binary_bytes)];
	const rows = m.usage.map((x) => ({ x, of: of(x) })).sort((a, b) => b.of[0] - a.of[0] || b.of[1] - a.of[1]).slice(0, MEMORY).map((r) => r.x);

	host.replaceChildren(table(["<what", "<name", "<of", "<node", "count", "messages", "longest queue", "memory", "binaries", "grown"], rows.map((x) => el("tr", {},
		el("td", { class: "left" }, x.kind), el("td", { class: "left name" }, x.name), el("td", { class: "left" }, x.owner ?? ""), el("td", { class: "left" }, x.node),
		el("td", {}, x.count > 0 ? about(x, count(x.count)) : ""), el("td", {}, x.messages > 0 ? count(x.messages) : ""),
		el("td", { title: x.process && `process ${x.process}${x.longest_since ? `, long since ${zoned(x.longest_since)}` : ""}` }, x.longest > 0 ? count(x.longest) : ""),
		el("td", {}, x.memory_bytes === null ? "–" : about(x, bytes(x.memory_bytes))), el("td", {}, x.binary_bytes > 0 ? about(x, bytes(x.binary_bytes)) : ""),
		el("td", { title: x.then && `since ${zoned(x.then)}; binaries included` }, grown(x) && about(x, grown(x))))), "Mailboxes and memory"));
}

// The chosen type on each node.
export function byNode(r, change) {
	const section = document.getElementById("s-nodes");
	const line = (row, first) => {
		const of = requestsOf(r, row);

		return el("tr", {}, [first, el("span", {}, el("span", { class: "bar", style: { width: `${Math.max(0, row.share ?? 0) * 70}px` } }), percent(row.share)),
			numberOf(row, of, count), numberOf(row, of, (n) => rateOf(n, row)), raised(totalOf(row), true, row.requests),
			...["mean", "p50", "p90", "p99", "max"].map((key) => timeOf(row, `${key}_ms`)),
			...r.tiers.map((name) => [ms(selfOf(row, name)), ...near(selfOf(row, name), row.tiers.find((t) => t.tier === name), "self_per_request_ms")])]
			.map((v, i) => el("td", { class: i === 0 ? "name" : "" }, v)));
	};

	section.hidden = r.rows.length < 3;
	put(hosts("s-nodes"), table(["<node", "impact", "requests", "a second", "errors", "mean", "p50", "p90", "p99", "max", ...r.tiers], [line(r.rows[0], "all nodes"),
		...r.rows.slice(1).sort((a, b) => a.identity.localeCompare(b.identity)).map((row) => line(row, el("button", { type: "button", class: "link", onclick: () => change({ node: [row.identity] }) }, row.identity)))],
	"Report by node"));
}

// ---- objectives

// With a digit more than the objective has, cut and not rounded: 100 % is where nothing missed.
function attained(v, percentage) {
	const digits = Math.min(6, Math.max(1, 1 + Math.ceil(-Math.log10(100 - percentage) - 0.02)));

	return v === null ? "–" : `${(Math.floor(v * 10 ** digits + 1e-6) / 10 ** digits).toFixed(digits)} %`;
}

const burnRate = (v) => v === null ? "–" : v.toFixed(v >= 9.95 ? 0 : v >= 0.995 || v === 0 ? 1 : 2);

export function objectives(o, state, change) {
	const section = document.getElementById("s-slo");
	const rates = o.objectives[0]?.burn_rates.map((b) => b.over).filter((_, i) => o.objectives.some((x) => x.burn_rates[i].rate !== null)) ?? [];
	const shown = (x) => x.of === "tier" ? x.name === state.tier : state.tier === "" && x.name === (state.identity || "_total");
	const about = (x, text) => x.requests > 0 && !x.attained_known && text !== "–" ? `~${text}` : text;
	const name = (x) => x.of === "tier" ? `tier ${x.name}` : identityName(x.name);
	const failed = (x) => x.failed === null ? el("span", { title: WAY_OUT }, "–") :
		x.failed_seen === "at_least" ? `≥ ${count(x.failed)}` : estimate({ n: x.failed, known: x.requests_known }, count);
	const between = (x, percent) => x.attained_known || x.attained_interval === null || x.attained_interval[0] === x.attained_interval[1] ? [] :
		[el("small", { class: "soft" }, ` ${x.attained_interval.map((v) => attained(v, percent)).join(" to ")}`)];
	const link = (x) => el("button", { type: "button", class: "link", title: `charts of ${name(x)}`,
		onclick: () => change(x.of === "tier" ? { tier: x.name, identity: "" } : { identity: x.name === "_total" ? "" : x.name, tier: "" }) }, name(x));

	// x: all nodes, or one of them
	const burned = (v) => el("span", { class: v > 1 ? "up" : "" }, `${(100 * v).toFixed(v > 0 && v < 0.0995 ? 1 : 0)} %`);
	const met = (x, percent) => x.requests === 0 ? ["–", "–", "–", "–"] :
		[failed(x), about(x, count(x.missed)), [about(x, attained(x.attained_percent, percent)), ...between(x, percent)], [about(x, ""), burned(x.budget_burned)]];
	const figures = (x, percent) => [estimate({ n: x.requests, known: x.requests_known }, count), ...met(x, percent),
		...x.burn_rates.filter((b) => rates.includes(b.over)).map((b) => about(x, burnRate(b.rate)))].map((v) => el("td", {}, v));
	const nodes = o.objectives.some((x) => x.nodes.length > 1);

	section.hidden = o.objectives.length === 0;
	put(hosts("s-slo"), table(["<of", ...nodes ? ["<node"] : [], "at least", "within", "requests", "failed", "missed", "attained", "budget burned", ...rates.map((r) => `burn ${r}`)], o.objectives.flatMap((x) => [
		el("tr", { "aria-current": shown(x) ? "true" : undefined }, el("td", { class: "name" }, link(x)), nodes ? el("td", { class: "left" }, "all nodes") : null,
			el("td", {}, `${x.percent} %`), el("td", {}, ms(x.limit_ms)), figures(x, x.percent)),
		...nodes ? x.nodes.map((one) => el("tr", {}, el("td", { class: "name" }, el("span", { class: "repeated" }, name(x))), el("td", { class: "left" }, one.node), el("td", {}), el("td", {}), figures(one, x.percent))) : []]), "Objectives"),
	el("p", { class: "hint" }, "Missed: slower than that, or failed, whatever its time. Budget burned: 100 % is as many as may miss in this time; " +
		"burn: how many times as fast as that, lately. ~: estimated, as requests were sampled, the limit is inside a bucket of the histogram, or failed ones may have been slow, too."));
}

// ---- what changed

const BEFORE = 1800e3;		// shown before a change, in ms

const figure = (c) => c.what === "raised_share" ? percent : ms;

// The range around a change, and what it is compared with.
function around(c, end) {
	const at = Date.parse(c.since), until = c.until ? Date.parse(c.until) : Date.parse(end);
	const base = Math.max(Date.parse(c.base), at - BEFORE);
	const iso = (t) => new Date(t).toISOString();

	return { both: { since: iso(base), until: iso(until) }, now: { since: iso(at), until: iso(until) }, then: { vsince: iso(base), vuntil: iso(at) } };
}

const earlier = (c, what, v, same) => v === null ? "" : `; ${what} before at that time ${figure(c)(v)}${same ? ", as now" : ""}`;

// Within the step that a change is dated by, what came first is not known.
function after(c, e) {
	const s = e ? (Date.parse(c.since) - Date.parse(e.at)) / 1e3 : 0;

	return e === null ? [] : [`; ${s >= 1 ? `${span(s)} before` : -s <= c.since_within_s ? "about then" : `${span(-s)} later`}: ${e.text || e.kind}`, e.node ? ` (${e.node})` : ""];
}

// One change as a sentence whose parts lead to what they name.
function sentence(c, end, state, change) {
	const link = (text, what, title) => el("button", { type: "button", class: "link", title, onclick: () => change({ range: "", ...what }) }, text);
	const { both, now, then } = around(c, end);
	const one = { ...both, identity: c.identity, node: c.all_nodes ? state.node : c.nodes };
	const f = figure(c), calls = c.in?.calls_differ ? `, ${rate(c.in.calls_now)} calls instead of ${rate(c.in.calls_then)}` : "";
	const whole = c.what === "raised_share" ? `${f(c.now)} of the requests fail, ${f(c.then)} before` :
		`${c.change > 0 ? "+" : "\u2212"}${percent(Math.abs(c.change))}, ${f(c.then)} to ${f(c.now)}`;

	return el("li", {}, link(identityName(c.identity), one, "charts around this change"), `: ${whole}`,
		c.gradual ? ` little by little from ${when(c.base)}${c.until ? ` to ${when(c.until)}` : " on"}` :
			c.until ? ` from ${when(c.since)} to ${when(c.until)}` : ` since ${when(c.since)}`,
		...c.in ? [", in ", c.in.tier === null ? "no tier" : link(c.in.tier, { ...one, tier: c.in.tier }, "charts of this tier"), ` (${f(c.in.then)} to ${f(c.in.now)} a request${calls})`] : [],
		...c.all_nodes ? [c.nodes.length > 1 ? ` on all ${c.nodes.length} nodes` : ""] : [" on ", ...c.nodes.flatMap((n, i) => [i > 0 ? ", " : "", link(n, { ...both, node: [n] }, "all of this node")])],
		...after(c, c.mark), ...after(c, c.event), earlier(c, "a day", c.a_day_before, c.as_a_day_before), earlier(c, "a week", c.a_week_before, c.as_a_week_before), ". ",
		link("compare", { ...one, ...now, compare: "chosen", ...then }, "by tier, with the time before"), " ",
		link("stacks", { ...one, ...now, view: "stacks", compare: "chosen", ...then }, "the functions that take longer, by sampled stacks, against the time before"), " ",
		...c.what === "raised_share" ? [] : [link("slow against fast", { ...one, ...now, view: "stacks", compare: "durations", took: slower(c.now) }, "the functions that take longer in slow requests than in fast ones, since then"), " "],
		...(c.examples ?? []).length > 0 ? ["for example ", ...c.examples.flatMap((q, i) => [i > 0 ? ", " : "", link(ms(q.total_ms), { ...one, ...now, request: String(q.request), offset: 0 }, `request ${q.request}`)]), " "] : [],
		link("slow ones", { ...one, ...now, slow: c.in?.tier ? `:${c.in.tier}` : "" }, "the slow requests since then"));
}

export function changes(c, state, change) {
	const host = hosts("s-changes");
	const seen = `${count(c.request_types)} request types on ${c.nodes === 1 ? "1 node" : `${c.nodes} nodes`}, ${between(c.start, c.end)}, in steps of ${span(c.step_s)}`;

	put(host, c.changes.length > 0 ? el("ul", {}, c.changes.map((x) => sentence(x, c.end, state, change))) : null,
		el("p", {}, c.start === null ? "What changed: nothing is stored of this time." :
			c.too_few ? "What changed: there is too little in this time to tell." :
				`${c.changes.length === 0 ? "Nothing changed" : c.left_out > 0 ? "More changed" : "Nothing else changed"} by more than chance: ${seen}${c.without_causes > 0 ? `; of ${c.without_causes} there was no time to look for tier and event` : ""}${
					c.rows_left_out > 0 ? "; some request types were too many to look at" : ""}.`));
}

export function events(e) {
	const host = hosts("s-events");

	if (e.events.length === 0) {
		nothing(host, "Nothing happened in this time: no trip, no reload, no reconnect.");
		return;
	}
	host.replaceChildren(table(["<time", "<what", "<node", "<details"], [...e.events].reverse().map((x) => el("tr", {},
		el("td", {}, when(x.at)), el("td", { class: "left" }, x.kind), el("td", { class: "left" }, x.node || "kprofd"),
		el("td", { class: "left name" }, x.text))), "Events"));
}
