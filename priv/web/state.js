// state.js - the state of the page, kept in the URL so that a view can be shared.

import { STATES } from "./flame.js";
import { tookEnds } from "./format.js";

export const PAGE = 15;		// slow requests on a page
export const PRESETS = [["30m", 1800], ["1h", 3600], ["3h", 10800], ["12h", 43200], ["1d", 86400]];

export const OTHERS = ["nodes", "types", "durations"];	// what only stacks are compared with

// All are strings, and in the URL if not the default.
const TEXTS = ["range", "since", "until", "identity", "tier", "compare", "vsince", "vuntil", "slow", "took", "sort", "order", "request",
	"view", "trace", "states", "lines", "find", "types", "by"];

const DEFAULTS = { range: "30m", since: "", until: "", node: [], identity: "",
	tier: "", compare: "", vsince: "", vuntil: "", slow: "", took: "", sort: "impact", order: "descending", request: "",
	view: "", trace: "", states: "", lines: "", find: "", types: "", by: "", offset: 0, live: true, utc: false, log: false,
	refused: [] };		// of the URL, "key=value": nothing can be shown of it

export const state = { ...DEFAULTS };

// The values that a URL may have.  A time must fit into 64 bits of ns, with room.
const isTime = (v) => Date.parse(v) > 0 && Date.parse(v) < Date.UTC(2200);
const FORMS = {
	range: (v) => v === "all" || PRESETS.some(([name]) => name === v),
	since: isTime, until: isTime, vsince: isTime, vuntil: isTime,
	compare: (v) => ["before", "hour", "day", "week", "chosen", ...OTHERS].includes(v),
	slow: (v) => v === "self" || v.startsWith(":"),
	took: (v) => tookEnds(v) !== null,
	order: (v) => ["ascending", "descending"].includes(v),
	view: (v) => v === "stacks", lines: (v) => v === "each", by: (v) => v === "node",
	states: (v) => v === "none" || v === "all" || v.split(",").every((name) => STATES.includes(name)),
	request: (v) => v === "none" || /^\d+$/.test(v), trace: (v) => /^\d{1,9}(-\d{1,12})?$/.test(v), offset: (v) => /^\d{1,6}$/.test(v),
};

export function readUrl() {
	const q = new URLSearchParams(location.search);

	Object.assign(state, DEFAULTS, { node: q.getAll("node").filter((name) => name !== ""), refused: [] });
	for (const key of [...TEXTS, "offset"]) {
		const v = q.get(key);

		if (v && (!FORMS[key] || FORMS[key](v)))
			state[key] = v;
		else if (v)
			state.refused.push(`${key}=${v}`);
	}
	if (Date.parse(state.since) < Date.parse(state.until)) {
		state.range = "";
	} else {
		for (const key of ["since", "until"].filter((k) => state[k]))
			state.refused.push(`${key}=${state[key]}`);
		state.since = state.until = "";
	}
	state.offset = Number(state.offset);
	state.live = q.get("live") !== "0";
	state.utc = q.get("utc") === "1";
	state.log = q.get("log") === "1";
}

// The URL of a state of the page.
export function urlOf(s) {
	const q = new URLSearchParams();

	for (const key of [...TEXTS, "offset"])
		if (s[key] && s[key] !== DEFAULTS[key])
			q.set(key, s[key]);
	for (const node of s.node)
		q.append("node", node);
	if (!s.live)
		q.set("live", "0");
	for (const key of ["utc", "log"].filter((k) => s[k]))
		q.set(key, "1");
	return `${location.pathname}${q.size > 0 ? `?${q}` : ""}`;
}

export function writeUrl(push) {
	const url = urlOf(state);

	if (push)
		history.pushState(null, "", url);
	else
		history.replaceState(null, "", url);
}

// The range as two times in ms.  In saved data "now" is the end of the last window.
export function range(about) {
	const last = Date.parse(about.last ?? about.now);
	const now = Date.parse(about.now);
	const end = now - last < 300e3 ? now : last;

	if (state.since && state.until)
		return { since: Date.parse(state.since), until: Date.parse(state.until) };
	// without any window the range must not be empty
	if (state.range === "all")
		return { since: Math.min(Date.parse(about.first ?? about.now), end - 1e3), until: end };
	const seconds = PRESETS.find(([name]) => name === state.range)[1];

	return { since: end - seconds * 1e3, until: end };
}

// The range to compare with; null: none, or an invalid one, is chosen.
export function versus(r) {
	if (state.compare === "chosen") {
		const chosen = { since: Date.parse(state.vsince), until: Date.parse(state.vuntil) };

		return chosen.since < chosen.until ? chosen : null;
	}
	const length = r.until - r.since;
	const back = { before: length, hour: 3600e3, day: 86400e3, week: 604800e3 }[state.compare];

	return { since: r.since - back, until: r.until - back };
}
