// state.js - the state of the page, kept in the URL so that a view can be shared.

import { STATES } from "./flame.js";

export const PAGE = 15;		// slow requests on a page
export const PRESETS = [["30m", 1800], ["1h", 3600], ["3h", 10800], ["12h", 43200], ["1d", 86400]];

// All are strings, and in the URL if not the default.
const TEXTS = ["range", "since", "until", "identity", "tier", "compare", "vsince", "vuntil", "slow", "sort", "order", "request",
	"view", "states", "lines", "find"];

const DEFAULTS = { range: "30m", since: "", until: "", node: [], identity: "",
	tier: "", compare: "", vsince: "", vuntil: "", slow: "", sort: "impact", order: "descending", request: "",
	view: "", states: "", lines: "", find: "", offset: 0, live: true };

export const state = { ...DEFAULTS };

// The values that a URL may have; others are ignored.
const isTime = (v) => !Number.isNaN(Date.parse(v));
const FORMS = {
	range: (v) => v === "all" || PRESETS.some(([name]) => name === v),
	since: isTime, until: isTime, vsince: isTime, vuntil: isTime,
	compare: (v) => ["before", "hour", "day", "week", "chosen"].includes(v),
	slow: (v) => v === "self" || v.startsWith(":"),
	order: (v) => ["ascending", "descending"].includes(v),
	view: (v) => v === "stacks", lines: (v) => v === "each",
	states: (v) => v === "none" || v.split(",").every((name) => STATES.includes(name)),
	request: (v) => /^\d+$/.test(v), offset: (v) => /^\d{1,6}$/.test(v),
};

export function readUrl() {
	const q = new URLSearchParams(location.search);

	Object.assign(state, DEFAULTS, { node: q.getAll("node") });
	for (const key of [...TEXTS, "offset"]) {
		const v = q.get(key);

		if (v && (!FORMS[key] || FORMS[key](v)))
			state[key] = v;
	}
	if (Date.parse(state.since) < Date.parse(state.until))
		state.range = "";
	else
		state.since = state.until = "";
	state.offset = Number(state.offset);
	state.live = q.get("live") !== "0";
}

export function writeUrl(push) {
	const q = new URLSearchParams();

	for (const key of [...TEXTS, "offset"])
		if (state[key] && state[key] !== DEFAULTS[key])
			q.set(key, state[key]);
	for (const node of state.node)
		q.append("node", node);
	if (!state.live)
		q.set("live", "0");
	const url = `${location.pathname}${q.size > 0 ? `?${q}` : ""}`;

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
