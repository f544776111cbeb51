// format.js - formats figures for people, and makes elements of untrusted texts.
// Names come from targets: they reach the page as text nodes only.

export const el = (tag, props = {}, ...children) => {
	const e = document.createElement(tag);

	for (const [k, v] of Object.entries(props)) {
		if (v === undefined || v === null || v === false)
			continue;
		if (k === "class")
			e.className = v;
		else if (k.startsWith("on"))
			e.addEventListener(k.slice(2), v);
		else if (k === "style")
			Object.assign(e.style, v);
		else
			e.setAttribute(k, v === true ? "" : v);
	}
	e.append(...children.flat().filter((c) => c !== null && c !== undefined));
	return e;
};

const digits = (v) => v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2);

export const ms = (v) => {
	if (v === null || v === undefined)
		return "–";
	if (v === 0)
		return "0";
	if (v < 0.001)
		return `${(v * 1e6).toFixed(0)} ns`;
	if (v < 1)
		return `${(v * 1e3).toPrecision(v < 0.01 ? 2 : 3).replace(/\.0+$/, "")} µs`;
	return v < 10000 ? `${digits(v)} ms` : `${digits(v / 1e3)} s`;
};

export const count = (v) => v === null || v === undefined ? "–" :
	Math.round(v).toLocaleString("en-US").replaceAll(",", " ");

export const rate = (v) => v === null || v === undefined ? "–" :
	v === 0 ? "0" : v >= 1000 ? count(v) : v >= 0.01 ? digits(v) : v.toPrecision(2);

// How many raised: a share, "at least", or not seen. If requests were sampled it is
// an estimate, not a bound.
export const raised = (cell, share, of) => {
	const known = cell.calls === cell.sampled_calls;

	if (cell.raised_seen === "not_seen")
		return "–";
	if (cell.raised_seen === "at_least")
		return known ? `≥ ${count(cell.raised)}` : `~${count(cell.raised)} or more`;
	return share ? percent(of > 0 ? (cell.raised ?? 0) / of : 0) : estimate({ n: cell.raised ?? 0, known }, count);
};
// The tiers in which calls of a row raised, the one with the largest share first:
// what the request handles is not an error of its own.
export const raisedInside = (row) => (row?.tiers ?? []).filter((t) => t.tier !== "_total" && t.raised > 0)
	.map((t) => ({ tier: t.tier, raised: t.raised, share: t.raised / (t.calls + (t.async_calls ?? 0)) })).sort((a, b) => b.share - a.share);
export const WAY_OUT = "not seen how all of them ended: the native probe sees it (-probe auto, and -probe-library where a target could not load it), and the relay where the entry is in a tier that has [exact]";

export const percent = (v) => v === null || v === undefined || v < 0 ? "–" :
	v === 0 ? "0 %" : v < 0.001 ? "<0.1 %" : `${(v * 100).toFixed(v < 0.1 ? 1 : 0)} %`;

// The number of requests of a row; of all requests the VM's own count, if known.
export const requestsOf = (r, row) => row === undefined ? undefined :
	row === r.rows[0] ? { n: r.requests, known: r.requests_known } : { n: row.requests, known: row.requests_known };

// Marks an estimate with ~.
export const estimate = (of, text) => `${of.known ? "" : "~"}${text(of.n)}`;

// How near the true figure is in 95 of 100 cases, of a figure and its interval's ends: " ±3 %".
export function within(v, ends) {
	const far = ends && v > 0 ? Math.max(ends[1] / v, v / ends[0]) - 1 : 0;

	return far <= 0 ? "" : far > 1 ? " ±>100 %" : ` ±${percent(far)}`;
}

const PLAIN = /^(?!_$)(?:[a-z_]\w*[?!]?|[-+*\/!^~<>=&|@]+)$/;
const elixirName = (name) => PLAIN.test(name) ? name : JSON.stringify(name);

// A function as people write it: MyApp.Repo.all/2 for JSON's Elixir.MyApp.Repo:all/2, and
// anonymous fn/1 in MyApp.Repo.all/2 for Elixir.MyApp.Repo:-all/2-fun-0-/1, the label of a
// call behind it: MyApp.Repo.all/2 [users] (src/text/fn_name.c).
export function fnName(call) {
	const [, alias, name, arity, about = ""] = /^Elixir\.((?!Elixir\b)[A-Z]\w*(?:\.[A-Z]\w*)*)(?::(.+?)(\/\d+)( \[.*\])?)?$/s.exec(call) ?? [];
	const [, outer, outerArity, which] = /^-(.+)(\/\d+)-fun-(\d+)-$/s.exec(name ?? "") ?? [];

	if (alias === undefined || name === undefined)
		return alias ?? call;
	return outer === undefined ? `${alias}.${elixirName(name)}${arity}${about}` :
		`anonymous fn${arity}${which === "0" ? "" : ` (fun-${which})`} in ${alias}.${elixirName(outer)}${outerArity}${about}`;
}

const pad = (n) => String(n).padStart(2, "0");

export const clock = (date) => {
	const d = new Date(date);

	return `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
};

export const day = (date) => {
	const d = new Date(date);

	return `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())}`;
};

// Local time in the format of <input type="datetime-local">.
export const field = (date) => `${day(date)}T${clock(date)}`;

export const when = (date) => `${day(date)} ${clock(date)}`;

export const span = (s) => {
	const parts = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
	const out = [];

	for (const [n, unit] of parts) {
		if (s >= n && out.length < 2)
			out.push(`${Math.floor(s / n)} ${unit}`);
		s %= n;
	}
	return out.join(" ") || "0 s";
};

export const identityName = (name) => name === "_total" ? "all requests" :
	name === "_other" ? "other types" : name === "undefined" ? "unnamed" : name;

// The tier that a part of it belongs to, whose calls have a label: db for "db: users".
export const wholeTier = (name) => name.split(": ", 1)[0];

export const tierName = (name) => name === "_total" ? "no tier" : name;
