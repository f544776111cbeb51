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

// Saves a text as a file of the user's.
export function save(name, text) {
	const url = URL.createObjectURL(new Blob([text]));

	el("a", { href: url, download: name }).click();
	URL.revokeObjectURL(url);
}

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

// How long requests took, by powers of two of a second: `octave` is that of the end of the
// one that a time is in.  "250ms,1000ms", as the API has it, up to Infinity: "250ms".
export const octave = (time) => Math.ceil(Math.log2(time / 1e3) - 1e-9);
export const octaveEnd = (n) => 2 ** n * 1e3;
const whole = (v, round) => v % 1 === 0 ? `${v}ms` : `${round(v * 1e3)}us`;
export const tookParam = (over, most) => `${whole(over, Math.ceil)}${most < Infinity ? `,${whole(Math.max(most, 1e-3), Math.floor)}` : ""}`;
export const slower = (time) => tookParam(octaveEnd(octave(time) - 1), Infinity);

// Its ends, rounded outwards as the server does; null: it is malformed.
export function tookEnds(text) {
	const parts = /^(\d{1,9})(us|ms|s)(?:,(\d{1,9})(us|ms|s))?$/.exec(text);
	const inMs = (n, unit) => n * { us: 1e-3, ms: 1, s: 1e3 }[unit];
	const [over, most] = parts === null ? [0, 0] : [inMs(parts[1], parts[2]), parts[3] ? inMs(parts[3], parts[4]) : Infinity];

	return over < most ? [over > 0 ? octaveEnd(Math.floor(Math.log2(over / 1e3) + 1e-9)) : 0, most < Infinity ? octaveEnd(octave(most)) : most] : null;
}

// Of an answer of the API, whose ends may be null.
export const tookWords = (over, most) => [...over > 0 ? [`over ${ms(over)}`] : [], ...most !== null && most < Infinity ? [`up to ${ms(most)}`] : []].join(", ") || "any time";

export const count = (v) => v === null || v === undefined ? "–" :
	Math.round(v).toLocaleString("en-US").replaceAll(",", " ");

export const rate = (v) => v === null || v === undefined ? "–" :
	v === 0 ? "0" : v >= 1000 ? count(v) : v >= 0.01 ? digits(v) : v.toPrecision(2);

// A second of the time in which an answer's requests were counted.
export const rateOf = (n, answer) => answer.counted_ms > 0 ? rate(n / (answer.counted_ms / 1e3)) : "–";

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
	.map((t) => ({ ...t, share: t.raised / (t.calls + (t.async_calls ?? 0)) })).sort((a, b) => b.share - a.share);
export const WAY_OUT = "not seen how all of them ended: the native probe sees it (-probe auto, and -probe-library where a target could not load it), and the relay where the entry is in a tier that has [exact]";

// Is the name one of these, which may be globs as the server has them: *, ? and [a-c], [!a-c]?
export const matches = (name, globs) => globs.some((glob) => {
	const text = glob.replace(/\[(!?)([^\]]+)\]|[\\^$.*+?()[\]{}|\/]/g, (c, not, set) => set ? `[${not ? "^" : ""}${set.replace(/[\\^]/g, "\\$&")}]` :
		c === "*" ? ".*" : c === "?" ? "." : `\\${c}`);

	try {
		return new RegExp(`^${text}$`, "s").test(name);
	} catch {
		return name === glob;
	}
});

export const percent = (v) => v === null || v === undefined || v < 0 ? "–" :
	v === 0 ? "0 %" : v < 0.001 ? "<0.1 %" : `${(v * 100).toFixed(v < 0.1 ? 1 : 0)} %`;

// The number of requests of a row; of all requests the VM's own count, if known.
export const requestsOf = (r, row) => row === undefined ? undefined :
	row === r.rows[0] ? { n: r.requests, known: r.requests_known } : { n: row.requests, known: row.requests_known };

// Marks an estimate with ~.
export const estimate = (of, text) => `${of.known ? "" : "~"}${text(of.n)}`;

// How near the true figure is in 95 of 100 cases, of a figure and a cell's interval of this
// name, to stand behind it: ±3 %; []: nothing was estimated, or it is not known.
export function near(v, cell, key) {
	const ends = cell?.intervals?.[key];
	const far = ends && v > 0 ? Math.max(ends[1] / v, v / ends[0]) - 1 : 0;

	return far <= 0 ? [] : [el("small", { class: "soft" }, far > 1 ? " ±>100 %" : ` ±${percent(far)}`)];
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

// Times are in the browser's zone, or in UTC.
let utc = false;

export function useUtc(on) {
	utc = on;
}

export const inUtc = () => utc;

// Ahead of UTC, in minutes.
const ahead = (date) => utc ? 0 : -new Date(date).getTimezoneOffset();

// A date whose parts in UTC are those to show.
const moved = (date) => new Date(new Date(date).getTime() + ahead(date) * 60e3);

export const clock = (date) => {
	const d = moved(date);

	return `${pad(d.getUTCHours())}:${pad(d.getUTCMinutes())}:${pad(d.getUTCSeconds())}`;
};

export const day = (date) => {
	const d = moved(date);

	return `${d.getUTCFullYear()}-${pad(d.getUTCMonth() + 1)}-${pad(d.getUTCDate())}`;
};

// A time as <input type="datetime-local"> has it, and back; without a time NaN.
export const field = (date) => `${day(date)}T${clock(date)}`;
export const fromField = (text) => Date.parse(utc ? `${text}Z` : text);

export const when = (date) => `${day(date)} ${clock(date)}`;

// The zone of a time that stands alone: "UTC", "UTC+02:00".
export const zone = (date) => {
	const m = ahead(date);

	return m === 0 ? "UTC" : `UTC${m > 0 ? "+" : "-"}${pad(Math.floor(Math.abs(m) / 60))}:${pad(Math.abs(m) % 60)}`;
};

export const zoned = (date) => `${when(date)} ${zone(date)}`;

// The clocks may have been changed between the two.
export const between = (from, to) => `${zone(from) === zone(to) ? when(from) : zoned(from)} to ${zoned(to)}`;

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
