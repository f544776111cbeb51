// tables.js - the report, comparison, slow requests, nodes, losses, memory, events.
import { color, tierColor } from "./charts.js";
import { WAY_OUT, count, el, estimate, fnName, identityName, ms, percent, raised, raisedInside, rate, requestsOf, span, tierName, when, wholeTier, within } from "./format.js";
import { PAGE } from "./state.js";

const hosts = (id) => document.querySelector(`#${id} .scroll`);

const STACKS = "stacks of ";
const MEMORY = 40;		// rows

// Restores the focus, as tables are replaced every few seconds.
function put(host, ...children) {
	const name = (b) => b.title || b.textContent;
	const focused = host.contains(document.activeElement) ? name(document.activeElement) : null;

	host.replaceChildren(...children);
	if (focused !== null)
		[...host.querySelectorAll("button")].find((b) => name(b) === focused)?.focus();
}

function table(heads, rows, caption) {
	return el("table", { "aria-label": caption },
		el("thead", {}, el("tr", {}, heads.map((h) => h instanceof Node ? h : el("th", { scope: "col", class: h.startsWith("<") ? "left" : "" }, h.replace("<", ""))))),
		el("tbody", {}, rows));
}

const nothing = (host, text) => host.replaceChildren(el("p", { class: "empty" }, text));

// Shows a text in place of a table.
export const empty = (id, text) => nothing(hosts(id), text);

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
function selfAndAfter(row, name, near) {
	const self = selfOf(row, name), t = row.tiers.find((x) => x.tier === name);
	const after = t?.after_per_request_ms > 0.1 * (self ?? 0) ? [` +${ms(t.after_per_request_ms)}`] : [];

	return after.length > 0 && t.calls === 0 ? after[0].trim() : after.length + near.length > 0 ? [ms(self), ...near, ...after] : ms(self);
}

// Shows what a request type does in a tier; "": in all of them.
function toStacks(row, tier, shown, change) {
	return shown === "–" ? shown : el("button", { type: "button", class: "link figure", title: `${STACKS}${identityName(row.identity)}${tier ? ` in ${tier}` : ""}`,
		onclick: () => change({ view: "stacks", identity: row.identity === "_total" ? "" : row.identity, tier }) }, shown);
}

function columns(r, seconds, tiers, change) {
	const one = (key, title, value, show) => ({ key, title, value, show: show ?? value });
	const near = (v, cell, key) => { const text = within(v, cell?.intervals?.[key]); return text === "" ? [] : [el("small", { class: "soft" }, text)]; };
	const time = (key, title) => one(key, title, (row) => totalOf(row)[`${key}_ms`] ?? -1, (row) =>
		[ms(totalOf(row)[`${key}_ms`]), ...near(totalOf(row)[`${key}_ms`], totalOf(row), `${key}_ms`)]);
	const mark = (name) => (r.missing ?? []).some((m) => m.tier === name && m.missed_calls !== null) ? " !" : "";
	const tier = (name) => one(`tier ${name}`, name + mark(name), (row) => selfOf(row, name) ?? -1, (row) =>
		toStacks(row, name, selfAndAfter(row, name, near(selfOf(row, name), row.tiers.find((t) => t.tier === name), "self_per_request_ms")), change));

	return [
		one("name", "request type", (row) => row.identity),
		one("impact", "impact", (row) => row.share ?? -1),
		one("requests", "requests", (row) => row.requests, (row) => requestsOf(r, row).known ? count(requestsOf(r, row).n) :
			[estimate(requestsOf(r, row), count), ...near(row.requests, totalOf(row), "requests")]),
		one("rate", "a second", (row) => row.requests / seconds, (row) => estimate(requestsOf(r, row), (n) => rate(n / seconds))),
		one("errors", "errors", (row) => totalOf(row).raised ?? -1, (row) => el("span",
			(totalOf(row).raised_seen ?? "known") === "known" ? {} : { title: WAY_OUT }, raised(totalOf(row)))),
		...r.rows.some((row) => raisedInside(row).length > 0) ? [one("inside", "errors inside", (row) => raisedInside(row).reduce((n, t) => n + t.raised, 0),
			(row) => el("span", { title: raisedInside(row).map((t) => `${t.tier}: ${percent(t.share)} of its calls`).join(", ") },
				estimate({ n: raisedInside(row).reduce((n, t) => n + t.raised, 0), known: row.requests_known }, count)))] : [],
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

// Names tiers with calls so short that tracing is a large part of their time.
function tracing(r) {
	const small = (r.rows[0]?.tiers ?? []).filter((t) => t.tier !== "_total" && t.tracing_ms != null && t.mean_ms < 10 * t.tracing_ms);

	return small.length === 0 ? [] : [el("span", {}, "tracing adds to each call of " +
		small.map((t) => `${t.tier} about ${ms(t.tracing_ms)} of its ${ms(t.mean_ms)}`).join(", "))];
}

// Tiers whose calls lost their tokens, or of which requests have hardly any.
function missing(r) {
	const each = (n, of) => { const v = n / (of || 1); return v >= 10 ? v.toFixed(0) : v.toFixed(2); };
	const requests = r.rows[0]?.requests;
	const counted = (m) => `${count(m.counted_calls)} calls, ${each(m.counted_calls, m.counted_requests)} per request`;
	const [sure, absent] = [true, false].map((is) => (r.missing ?? []).filter((m) => (m.missed_calls !== null) === is));

	return [...sure.length === 0 ? [] : [el("p", { class: "hint" }, "! " + sure.map((m) => `${m.tier}: ${each(m.calls, requests)} calls per request` +
		(m.async_calls > 0 ? ` and ${each(m.async_calls, requests)} after it` : "") + (m.counted_calls === null ? "" : `, where the VM counted ${counted(m)}`) +
		`; about ${each(m.missed_calls, requests)} per request lost their token`).join("; ") +
		": a process was answered because of another request (a pool's worker was given back, a reply deferred, an event postponed), which sampling had passed over; " +
		"what it did then is not seen, or counts after another request, and times of these tiers are too small ({sampling, all} sees it).")],
	...absent.length === 0 ? [] : [el("p", { class: "hint" }, `Not in requests: ${absent.map((m) => `${m.tier}, ${counted(m)}`).join("; ")}: ` +
		"the VM counted them, and measured requests have hardly any; they are made outside of requests, or tokens are lost before them, " +
		"as where all workers of a pool are taken, and a request gets its worker from one that is not measured.")]];
}

// The calls of tiers by label, as kprof report has them: of all requests and of the types
// that make most, the labels with most calls; all of those of a type that is chosen.
const LABELS = 3, LABEL_TYPES = 5;

function labelRows(r, row, tier, most, change) {
	const each = (l) => [rate(l.calls > 0 ? l.calls / row.requests : null), ms(l.busy_per_request_ms), ms(l.mean_ms), ms(l.p99_ms)];
	const rest = tier.labels.slice(most);
	const identity = row.identity === "_total" ? "" : row.identity;
	const name = el("button", { type: "button", class: "link", onclick: () => change({ identity }) }, identityName(row.identity));
	const link = (label) => el("button", { type: "button", class: "link", title: `charts of ${tier.tier}: ${label} in ${identityName(row.identity)}`,
		onclick: () => change({ identity, tier: `${tier.tier}: ${label}` }) }, label);
	const line = (first, label, figures) => el("tr", {}, el("td", { class: "name" }, first), el("td", { class: "left" },
		el("i", { class: "key", style: { backgroundColor: color(tierColor(r.tiers.indexOf(tier.tier) + 1)) } }), tier.tier), el("td", { class: "left name" }, label), figures.map((f) => el("td", {}, f)));

	return [...tier.labels.slice(0, most).map((l, i) => line(i === 0 ? name : "", link(l.label), each(l))),
		...rest.length > 0 ? [line("", el("span", { class: "soft" }, `${rest.length} other${rest.length > 1 ? "s" : ""}`),
			each({ calls: sum(rest.map((l) => l.calls)), busy_per_request_ms: sum(rest.map((l) => l.busy_per_request_ms)) }))] : []];
}

function labels(r, state, change) {
	const section = document.getElementById("s-labels");
	const of = (row, name) => row.tiers.find((t) => t.tier === name && t.labels.length > 0);
	const calls = (row, name) => { const t = of(row, name); return t ? t.calls + t.async_calls : 0; };
	const [all, ...types] = r.rows;
	const lines = [], left = [];

	for (const name of r.tiers.filter((t) => state.tier === "" || wholeTier(state.tier) === t)) {
		const made = types.map((row) => calls(row, name)).filter((n) => n > 0).sort((a, b) => b - a);
		const least = made[LABEL_TYPES - 1] ?? 1;
		const shown = state.identity ? types.filter((row) => row.identity === state.identity) : [all, ...types.filter((row) => calls(row, name) >= least)];

		for (const row of shown.filter((x) => x && of(x, name)))
			lines.push(...labelRows(r, row, of(row, name), state.identity || types.length === 1 ? Infinity : LABELS, change));
		left.push(...state.identity ? [] : types.filter((row) => calls(row, name) > 0 && calls(row, name) < least));
	}
	section.hidden = lines.length === 0;
	put(hosts("s-labels"), table(["<request type", "<tier", "<label", "calls per request", "time per request", "mean", "p99"], lines, "Calls by label"),
		...left.length > 0 ? [el("p", { class: "hint" }, `${count(new Set(left).size)} more request types have such calls: choose one to see its own.`)] : []);
}

export function report(r, state, change) {
	const host = hosts("s-report");
	const seconds = r.covered_ms / 1e3 || 1;
	const cols = columns(r, seconds, r.tiers, change);
	const by = cols.find((c) => c.key === state.sort) ?? cols[1];
	const sign = state.order === "ascending" ? 1 : -1;
	const [all, ...rest] = r.rows;

	labels(r, state, change);
	// What is wrong with a report that is empty or odd.
	const hints = [...missing(r), ...(r.hints ?? []).map((text) => el("p", { class: "hint" }, text))];

	if (!all || all.requests === 0 && rest.length === 0) {
		nothing(host, "No request was measured here. Choose a longer range, or see below whether measuring is paused and what was lost.");
		host.append(...hints);
		return;
	}
	rest.sort((a, b) => {
		const x = by.value(a), y = by.value(b);

		return sign * (typeof x === "string" ? x.localeCompare(y) : x - y);
	});
	// With the types this makes up all requests.
	const unmeasured = r.unmeasured_requests > 0 ? [el("tr", {}, cols.map((c) => el("td", { class: c.key === "name" ? "name" : "" },
		c.key === "name" ? "not measured" : c.key === "requests" ? estimate({ n: r.unmeasured_requests, known: all.requests_known }, count) : "–")))] : [];
	const counts = r.requests_known && r.requests !== all.requests ? [el("span", {}, "requests: the VM counted all; each type has those that were measured" +
		(all.requests_known ? "" : `, for which the sampled ones stand: ~${count(all.requests)} in all`) +
		(unmeasured.length > 0 ? "; the others are “not measured”, and times are of those measured" : ""))] : [];

	put(host, table(cols.map((c) => header(c, state, change)), [...[all, ...rest].map((row) =>
		el("tr", { "aria-current": row.identity === (state.identity || "_total") ? "true" : undefined }, cols.map((c) => {
			if (c.key === "name")
				return el("td", { class: "name" }, el("button", { type: "button", class: "link", onclick: () =>
					change({ identity: row.identity === "_total" ? "" : row.identity }) }, identityName(row.identity)));
			if (c.key === "impact")
				return el("td", {}, el("span", { class: "bar", style: { width: `${Math.max(0, row.share ?? 0) * 70}px` } }), percent(row.share));
			return el("td", {}, c.show(row));
		}))), ...unmeasured], "Report by request type"),
	el("div", { class: "keys" }, r.tiers.map((name, i) => el("span", {}, el("i", { style: { backgroundColor: color(tierColor(i + 1)) } }), name)),
		el("span", {}, el("i", { style: { backgroundColor: color("c0") } }), "no tier"),
		el("span", {}, "columns of tiers: self (exclusive) time of one request; a row's add up to mean (inclusive), but for calls at the same time" +
			(r.rows.some((row) => totalOf(row).intervals) ? "; ±: of that figure; in 95 of 100 cases the true one is no farther, but for what was lost" : "")), ...counts, ...tracing(r)), ...hints);
}

function change(f, up) {
	if (f.change_percent === null)
		return el("span", { class: "soft" }, "–");
	const sign = f.change_percent > 0 ? "+" : "";
	const text = `${f.uncertain ? "~" : ""}${sign}${f.change_percent.toFixed(Math.abs(f.change_percent) < 10 ? 1 : 0)} %`;

	return el("span", { class: f.uncertain || f.change_percent === 0 || up === undefined ? "soft" : f.change_percent > 0 === up ? "up" : "down",
		title: f.uncertain ? "uncertain: too few were measured, or chance alone may make it" : undefined }, text);
}

const perSecond = (q, side) => estimate({ n: q[`${side}_per_s`], known: q[`${side}_known`] ?? true }, rate);

export function compare(c, r, then) {
	const section = document.getElementById("s-compare");
	const host = hosts("s-compare");

	if (!then) {
		section.querySelector("h2").textContent = "Compared with another time";
		nothing(host, "Choose above when the other range begins and ends.");
		return;
	}
	const figures = [["_total", "mean_ms", "mean"], ...c.now.tiers.map((t) => [t, "self_per_request_ms", t])];

	section.querySelector("h2").textContent = `Compared with ${when(Date.parse(c.then.start) || then.since)} to ${when(Date.parse(c.then.end) || then.until)}`;
	if (c.changes.length === 0 || c.then.windows === 0) {
		nothing(host, "Nothing was measured in the time to compare with: choose another above.");
		return;
	}
	host.replaceChildren(table(["<request type", "requests/s", "then", "change",
		...figures.flatMap(([, , title]) => [title, "then", "change"])], c.changes.map((row) =>
		el("tr", {}, el("td", { class: "name" }, identityName(row.identity), row.state === "both" ? null : el("span", { class: "soft" }, ` (${row.state})`)),
			el("td", {}, perSecond(row.requests, "now")), el("td", { class: "soft" }, perSecond(row.requests, "then")), el("td", {}, change(row.requests)),
			figures.flatMap(([tier, figure]) => {
				const f = row.figures.find((x) => x.tier === tier && x.figure === figure);

				return f ? [el("td", {}, ms(f.now)), el("td", { class: "soft" }, ms(f.then)), el("td", {}, change(f, true))] :
					[el("td", {}, "–"), el("td", {}, "–"), el("td", {}, "–")];
			}))), "Comparison"));
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
		nothing(host, state.offset > 0 ? "There are no more." : state.slow ? "None of the slow requests of this time has any such time: choose another above." :
			"No slow request was kept here. Those slower than {slow_ms, N} of tiers.conf are (250 ms unless it has another), and the slowest of each type and window.");
		return;
	}
	put(host, table(["<time", "<request type", ...by ? [by] : [], "total", "outcome", "calls", "<node"], s.requests.map((q) =>
		el("tr", { "aria-current": String(q.request) === state.request ? "true" : undefined },
			el("td", {}, el("button", { type: "button", class: "link", onclick: () => change({ request: String(q.request) }) }, when(q.start).slice(5))),
			el("td", { class: "left name" }, identityName(q.identity)), by ? el("td", {}, ms(q.by_ms)) : null, el("td", {}, ms(q.total_ms)),
			el("td", {}, q.outcome, q.raised_calls > 0 ? el("span", { class: "soft" }, ` ${count(q.raised_calls)} raised`) : null), el("td", {}, count(q.calls)), el("td", { class: "left node", title: q.node }, q.node))), "Slow requests"));
}

export function inFlight(f, state) {
	const host = hosts("s-now");
	const shown = f.requests.filter((q) => (!state.identity || q.identity === state.identity) && (state.node.length === 0 || state.node.includes(q.node)));

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
		el("td", { title: x.process && `process ${x.process}${x.longest_since ? `, long since ${when(x.longest_since)}` : ""}` }, x.longest > 0 ? count(x.longest) : ""),
		el("td", {}, x.memory_bytes === null ? "–" : about(x, bytes(x.memory_bytes))), el("td", {}, x.binary_bytes > 0 ? about(x, bytes(x.binary_bytes)) : ""),
		el("td", { title: x.then && `since ${when(x.then)}; binaries included` }, grown(x)))), "Mailboxes and memory"));
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
