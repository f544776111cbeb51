// flame.js - sampled stacks as a tree, its layout, and the functions in them.  Pure.
//
// A stack is as in the API: {identity, path, state, frames, samples, ms}; frames are
// outermost first, each "module:function/arity:line".  All times are estimates: a
// sample stands for some ms.  `spread` is the sum of each sample's ms squared.
import { fnName, identityName } from "./format.js";

export const NOT_SEEN = "not seen";
export const STATES = ["running", "runnable", "collecting", "in a call", "on a port", "waiting", NOT_SEEN];

const LEAST_PX = 0.5;		// narrower boxes are not drawn

// ---- names

// The line of "m:f/1:12" is its last number; "m:f/1" has none.
export const withoutLine = (frame) => frame.replace(/(\/\d+):\d+$/, "$1");

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

function newNode(kind, name, parent) {
	return { kind, name, parent, depth: parent ? parent.depth + 1 : 0, ms: 0, samples: 0, spread: 0, states: {}, cut: false, children: new Map() };
}

function add(to, stack) {
	to.ms += stack.ms;
	to.samples += stack.samples;
	to.spread += stack.ms ** 2 / (stack.samples || 1);
	to.states[stack.state] = (to.states[stack.state] ?? 0) + stack.ms;
}

// [kind, name] of each node from the request type down.
function levels(stack, lines) {
	const tiers = stack.path.length > 0 ? stack.path : [""];
	const frames = stack.frames.map((f) => ["frame", lines ? f : withoutLine(f)]);

	return [["type", stack.identity], ...tiers.map((t) => ["tier", t]), ...stack.state === NOT_SEEN ? [["unseen", NOT_SEEN]] : frames];
}

// The widest children first.
function sort(node) {
	node.children = [...node.children.values()].sort((a, b) => b.ms - a.ms || (a.name < b.name ? -1 : 1));
	node.children.forEach(sort);
}

// Request types, below them tiers, below them frames.  Stacks with as many frames as
// `depth` may be cut at their outer end: the VM shows no more.
export function build(stacks, { lines = false, depth = Infinity } = {}) {
	const root = newNode("all", "all that was sampled", null);

	for (const stack of stacks) {
		let node = root;

		add(root, stack);
		for (const [kind, name] of levels(stack, lines)) {
			const key = `${kind} ${name}`;
			const outermost = kind === "frame" && node.kind !== "frame";

			if (!node.children.has(key))
				node.children.set(key, newNode(kind, name, node));
			node = node.children.get(key);
			node.cut ||= outermost && stack.frames.length >= depth;
			add(node, stack);
		}
	}
	sort(root);
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
		const w = px * node.ms / zoom.ms;

		if (!(w >= LEAST_PX))
			return;
		boxes.push({ node, x, w });
		for (const child of node.children) {
			put(child, x);
			x += px * child.ms / zoom.ms;
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
export function interval({ ms, spread }) {
	if (!(spread > 0))
		return null;
	const n = ms ** 2 / spread;
	const limit = (x, z) => x * Math.max(0, 1 - 1 / (9 * x) + z / (3 * Math.sqrt(x))) ** 3;

	return [limit(n, -1.96), limit(n + 1, 1.96)].map((x) => ms * x / n);
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
			const row = rows.get(key) ?? { name, tier, ms: 0, samples: 0, spread: 0, states: {}, within: 0 };

			row.within += stack.ms;
			if (name === names.at(-1))
				add(row, stack);
			rows.set(key, row);
		}
	}
	return [...rows.values()].sort((a, b) => b.ms - a.ms || b.within - a.within);
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
