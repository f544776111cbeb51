// flame.js - sampled stacks as a tree, its layout, and the functions in them.  Pure.
//
// Time is that of all requests; it is shown divided by their number (perRequest).
// Where stacks are compared, `then` has the figures of the other side.
// A stack is as in the API: {identity, path, state, frames, samples, ms}; frames are
// outermost first, each "module:function/arity:line".  All times are estimates: a
// sample stands for some ms.  `spread` is the sum of each sample's ms squared.
import { fnName, identityName } from "./format.js";

export const NOT_SEEN = "not seen";
export const STATES = ["running", "runnable", "collecting", "in a call", "on a port", "waiting", NOT_SEEN];
export const WAITS = ["in a call", "on a port", "waiting"];

// The states that are shown, by the text in the URL: "" is all but waits.
export const statesShown = (text) => text === "" ? STATES.filter((s) => !WAITS.includes(s)) : text === "all" ? STATES : text.split(",");
export const statesText = (shown) => ["", "all"].find((t) => statesShown(t).join() === shown.join()) ?? (shown.join() || "none");

const LEAST_PX = 0.5;		// narrower boxes are not drawn

// ---- names

// The line of "m:f/1:12" and "m:f/1 (fun):12" is the last number; "m:f/1" has none.
export const withoutLine = (frame) => frame.replace(/(\/\d+|\)):\d+$/, "$1");

// What modules of one application mostly share: MyApp of MyApp.Repo.all/2, cowboy of
// cowboy_stream_h:info/3.
export const family = (frame) => /^(?:anonymous fn\S* .*?\bin )?'?([A-Z]\w*(?=\.)|[^:_']*)/.exec(fnName(frame))[1];

// From 0 to n - 1, always the same for a name.
export function choice(name, n) {
	let sum = 7;

	for (let i = 0; i < name.length; i++)
		sum = (sum * 31 + name.charCodeAt(i)) >>> 0;
	return sum % n;
}

// In the place of stacks that are not known: too many, or of a process that had gone on.
const UNKNOWN = new Map([["_other", "other stacks"], ["_late", "had gone on when it was seen"]]);
const PLACES = new Map([["", "no tier"], ["_after", "after the request's end"], ["_other", "other tiers"]]);

// A node's name for people.
export function label(node) {
	if (node.kind === "frame")
		return `${node.cut ? "… " : ""}${UNKNOWN.get(node.name) ?? fnName(node.name)}`;
	return node.kind === "tier" ? PLACES.get(node.name) ?? node.name : node.kind === "type" ? identityName(node.name) : node.name;
}

// ---- the tree

// requests: those that its time is divided by, of its type; 0: not known.
const noFigures = (requests) => ({ requests, ms: 0, samples: 0, spread: 0, states: {} });

// lost: of a tier the time, on both sides, of stacks that were not kept.
const newNode = (kind, name, parent, requests, other) => ({ kind, name, parent, ...noFigures(requests), then: other === null ? null : noFigures(other),
	lost: kind === "tier" ? [0, 0] : parent?.lost, depth: parent ? parent.depth + 1 : 0, cut: false, children: new Map() });

// null: no request ended, or it is not known.
export const perRequest = (ms, requests) => requests > 0 ? ms / requests : null;

// How many requests of a type ended.
const requestsOf = (requests, identity) => requests.find((r) => r.identity === identity)?.requests ?? 0;

function add(to, stack) {
	to.ms += stack.ms;
	to.samples += stack.samples;
	to.spread += stack.ms ** 2 / (stack.samples || 1);
	to.states[stack.state] = (to.states[stack.state] ?? 0) + stack.ms;
}

// [kind, name] of each node from the request type down.  A function that calls itself is one.
function levels(stack, lines, types = true) {
	const tiers = stack.path.length > 0 ? stack.path : [""];
	const frames = stack.frames.filter((f, i, all) => i === 0 || withoutLine(f) !== withoutLine(all[i - 1])).map((f) => ["frame", lines ? f : withoutLine(f)]);

	return [...types ? [["type", stack.identity]] : [], ...tiers.map((t) => ["tier", t]), ...stack.state === NOT_SEEN ? [["unseen", NOT_SEEN]] : frames];
}

// The widest children first.  Of two sides the width is their mean, per request of all,
// so that what is on one alone has a place, and parts add up.
function sort(node, root) {
	node.width = node.then === null ? node.ms : (node.ms / (root.requests || 1) + node.then.ms / (root.then.requests || 1)) / 2;
	node.children = [...node.children.values()];
	for (const child of node.children)
		sort(child, root);
	node.children.sort((a, b) => b.width - a.width || (a.name < b.name ? -1 : 1));
}

// Request types, below them tiers, below them frames.  Stacks with as many frames as
// `depth` may be cut at their outer end: the VM shows no more.  then: the stacks and
// requests of the other side; types: false where they are not the same.
export function build(stacks, { lines = false, depth = Infinity, requests = [], then = null, types = true } = {}) {
	const ended = (name) => [requestsOf(requests, name), then === null ? null : requestsOf(then.requests, name)];
	const root = newNode("all", "all that was sampled", null, ...ended("_total"));
	const put = (stack, side) => {
		const figures = (node) => side === 0 ? node : node.then;
		let node = root;

		add(figures(root), stack);
		for (const [kind, name] of levels(stack, lines, types)) {
			const key = `${kind} ${name}`;
			const outermost = kind === "frame" && node.kind !== "frame";

			if (!node.children.has(key))
				node.children.set(key, newNode(kind, name, node, ...kind === "type" ? ended(name) : [node.requests, node.then?.requests ?? null]));
			node = node.children.get(key);
			node.cut ||= outermost && stack.frames.length >= depth;
			add(figures(node), stack);
			if (kind === "frame" && name === "_other")
				node.lost[side] += stack.ms;
		}
	};

	stacks.forEach((stack) => put(stack, 0));
	then?.stacks.forEach((stack) => put(stack, 1));
	sort(root, root);
	return root;
}

// A node and those around it, the root first.
export const lineage = (node) => node === null ? [] : [...lineage(node.parent), node];

// The node of another tree that is at the same place, or the last one on the way.
export function counterpart(root, node) {
	let at = root;

	for (const { kind, name } of lineage(node).slice(1)) {
		const next = at.children.find((c) => c.kind === kind && c.name === name);

		if (!next)
			break;
		at = next;
	}
	return at;
}

// Boxes of a graph that is so many px wide: `zoom` and those around it over all of it.
export function layout(zoom, px) {
	const boxes = lineage(zoom.parent).map((node) => ({ node, x: 0, w: px }));
	const put = (node, x) => {
		const w = px * node.width / zoom.width;

		if (!(w >= LEAST_PX))
			return;
		boxes.push({ node, x, w });
		for (const child of node.children) {
			put(child, x);
			x += px * child.width / zoom.width;
		}
	};

	put(zoom, 0);
	return boxes;
}

// The nodes whose name has the text in it, and their time, each sample once.
export function search(root, text) {
	const found = new Set();
	const wanted = text.toLowerCase();
	const walk = (node) => {
		const hit = node.kind !== "all" && label(node).toLowerCase().includes(wanted);
		const inside = node.children.reduce((ms, c) => ms + walk(c), 0);

		if (hit)
			found.add(node);
		return hit ? node.ms : inside;
	};

	return { ms: wanted === "" ? 0 : walk(root), found };
}

// ---- figures

// The range that holds the time with 95 % probability, if chance alone decided which
// moments were sampled: Byar's approximation of Poisson's limits, for as many samples
// of equal ms as vary like these.
export const interval = (figure) => figure.spread > 0 ? limits(figure, 1.96) : null;

// each: what one sample stands for, where there is none.
function limits({ ms, spread }, z, each = 0) {
	const n = spread > 0 ? ms ** 2 / spread : 0;
	const limit = (x, to) => x * Math.max(0, 1 - 1 / (9 * x) + to / (3 * Math.sqrt(x))) ** 3;

	return [n > 0 ? ms / n * limit(n, -z) : 0, (n > 0 ? ms / n : each) * limit(n + 1, z)];
}

const SURE = 3.2905;		// chance makes such a difference in one of 1000 boxes

// How much longer a request is at a box, or in a function, than on the other side: ms a
// request, with an interval that chance leaves in one of 1000 cases; sure: 0 is not in it.
// The method is that of src/stacks/stored/stored_versus.c.  What was not kept of its tier
// may be of this function.  null: no request ended on one side.
export function difference(of, root) {
	if (!(of.requests > 0 && of.then?.requests > 0))
		return null;
	const lost = of.kind === "frame" && of.name !== "_other" ? of.lost : [0, 0];
	const [now, then] = [[of, root], [of.then, root.then]].map(([f, all], i) => {
		const [low, high] = limits(f, SURE, all.ms / (all.samples || 1));

		return { ms: f.ms / f.requests, below: (f.ms - low) / f.requests, above: (high - f.ms) / f.requests, lost: lost[i] / f.requests };
	});
	const by = now.ms - then.ms;
	const low = by - Math.hypot(now.below, then.above) - then.lost;
	const high = by + Math.hypot(now.above, then.below) + now.lost;

	return { now: now.ms, then: then.ms, by, low, high, sure: low > 0 || high < 0 };
}

// The functions of each tier: what they did themselves (innermost), and `within`, the
// time they were anywhere on a stack.  Those that did most first.
export function functions(stacks, lines = false) {
	const rows = new Map();

	for (const stack of stacks) {
		const names = stack.frames.map((f) => lines ? f : withoutLine(f));
		const tier = stack.path.at(-1) ?? "";

		for (const name of new Set(names)) {
			const key = JSON.stringify([name, tier]);
			const row = rows.get(key) ?? { kind: "frame", name, tier, ...noFigures(0), within: 0 };

			row.within += stack.ms;
			if (name === names.at(-1))
				add(row, stack);
			rows.set(key, row);
		}
	}
	return [...rows.values()].sort((a, b) => b.ms - a.ms || b.within - a.within);
}

// Those of both sides, by what they did themselves: {..., differs}, the surest and largest
// difference first.
export function differing(stacks, then, root, lines = false) {
	const sides = [stacks, then].map((v) => functions(v, lines));
	const lost = new Map();
	const rows = new Map();

	sides.forEach((side, i) => side.forEach((row) => {
		const key = JSON.stringify([row.name, row.tier]);
		const both = rows.get(key) ?? { ...row, ...noFigures(root.requests), then: noFigures(root.then.requests) };

		if (!lost.has(row.tier))
			lost.set(row.tier, [0, 0]);
		if (row.name === "_other")
			lost.get(row.tier)[i] += row.ms;
		for (const figure of ["ms", "samples", "spread", "states"])
			(i === 0 ? both : both.then)[figure] = row[figure];
		rows.set(key, Object.assign(both, { lost: lost.get(row.tier) }));
	}));
	return [...rows.values()].filter((row) => row.samples + row.then.samples > 0).map((row) => ({ ...row, differs: difference(row, root) }))
		.filter((row) => row.differs !== null).sort((a, b) => b.differs.sure - a.differs.sure || Math.abs(b.differs.by) - Math.abs(a.differs.by));
}

// ---- files for other programs

const names = (stack, lines) => levels(stack, lines).map(([kind, name]) => label({ kind, name }));

// Brendan Gregg's format: names, ';' between them, and a number: here µs.
export const folded = (stacks, lines = false) => stacks.map((s) =>
	`${names(s, lines).map((n) => n.replaceAll(";", ",").replaceAll(/\s/g, " ")).join(";")} ${Math.round(s.ms * 1e3)}\n`).join("");

// https://www.speedscope.app/file-format-schema.json
export function speedscope(stacks, name, lines = false) {
	const numbers = new Map();
	const number = (n) => numbers.get(n) ?? numbers.set(n, numbers.size).get(n);
	const samples = stacks.map((s) => names(s, lines).map(number));

	return { $schema: "https://www.speedscope.app/file-format-schema.json", exporter: "kprofd", name,
		shared: { frames: [...numbers.keys()].map((n) => ({ name: n })) },
		profiles: [{ type: "sampled", name, unit: "milliseconds", startValue: 0,
			endValue: stacks.reduce((sum, s) => sum + s.ms, 0), samples, weights: stacks.map((s) => s.ms) }] };
}
