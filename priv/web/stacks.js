// stacks.js - the view of sampled stacks: a flame graph, root at the top, and the same
// as a table.  The graph has one focus of its own, which keys move, and one zoom.
// Compared with others (root.then), both show by how much a request differs.  A request that
// was traced whole is shown, too: its answer is `exact`, and has calls for samples.
import { color, ink, tierColor } from "./charts.js";
import { STATES, WAITS, build, choice, counterpart, difference, differing, family, folded, functions, interval, label, layout, lineage, perRequest, search, speedscope, statesShown, statesText } from "./flame.js";
import { between, count, el, identityName, ms, percent, save, tookWords, wholeTier, zoned } from "./format.js";
import { state } from "./state.js";

const ROW = 20;			// height of a box, in px
const TEXT_PX = 26;		// narrower boxes have no text
const FAMILIES = 6;		// colours --f0 to --f5
const TOP = 25;			// functions in the table, before the button for all
const $ = (id) => document.getElementById(id);

let answer = null, tiers = [];
let root = null, zoom = null, focus = null;
let boxes = [], hits = null;
let all = false;		// the table has all functions
let change = () => {};

// Per request of what has this time: all, or a type.
function about(v, requests = root.requests) {
	const each = perRequest(v, requests);

	return each === null ? ms(null) : `${answer.exact ? "" : "~"}${ms(each)}`;
}

function shown({ stacks } = answer) {
	const states = statesShown(state.states);

	return stacks.filter((s) => states.includes(s.state));
}

// The sides of a comparison.
const SIDES = { nodes: ["here", "on the other nodes"], types: ["in these", "in the other types"], durations: ["in these", "in the others"] };
const sides = () => SIDES[state.compare] ?? ["now", "then"];
const signed = (v) => `${v < 0 ? "−" : "+"}${ms(Math.abs(v))}`;
const differs = (node) => node.differs ??= difference(node, root);

// ---- words

function range(figure, requests = root.requests) {
	const ends = requests > 0 ? interval(figure) : null;

	return ends === null ? "–" : ends.map((v) => ms(v / requests)).join(" to ");
}

// "running 12 %, waiting 88 %": the largest first.
const statesOf = ({ states, ms: whole }) => Object.entries(states).sort((a, b) => b[1] - a[1])
	.map(([name, v]) => `${name} ${percent(v / whole)}`).join(", ");

const KINDS = { type: "request type", tier: "tier", frame: "function" };

function compared(node) {
	const d = differs(node), [now, then] = sides();

	return [label(node), d === null ? "no request ended on one side" : [KINDS[node.kind],
		`~${ms(d.now)} a request ${now}, ~${ms(d.then)} ${then}: ${d.sure ? signed(d.by) : "no more than chance"} (99.9 %: ${signed(d.low)} to ${signed(d.high)})`].filter(Boolean).join(": "),
	`samples: ${count(node.samples)} ${now}, ${count(node.then.samples)} ${then}`, ...node.samples > 0 ? [`${now}: ${statesOf(node)}`] : []];
}

// Of a trace each node has the samples of one stack, which are its calls.
const callsOf = (node) => node.samples - node.children.reduce((n, c) => n + c.samples, 0);

function exactly(node) {
	const kind = node.kind === "tier" ? "process" : KINDS[node.kind];

	return [label(node), `${[kind, about(node.ms)].filter(Boolean).join(": ")}, ${percent(node.ms / (root.ms || 1))} of what is shown`,
		...node.kind === "frame" ? [`${count(callsOf(node))} ${callsOf(node) === 1 ? "call" : "calls"}`] : [], statesOf(node)];
}

function describe(node) {
	if (answer.exact)
		return exactly(node);
	if (root.then !== null)
		return compared(node);
	return [label(node), [KINDS[node.kind], `${about(node.ms, node.requests)} a request, ${percent(node.ms / root.ms)} of what is shown`].filter(Boolean).join(": "),
		`95 %: ${range(node, node.requests)}; ${count(node.samples)} ${node.samples === 1 ? "sample" : "samples"}, ~${count(node.requests)} requests`, statesOf(node),
		...node.cut ? ["It may have been called by others, which the VM did not show."] : []];
}

const leftOut = ({ left_out: left }, where = "") => left.stacks > 0 ?
	[`Left out${where}: the ${count(left.stacks)} stacks with least time (${about(left.ms)}). Choose a shorter range or a request type to see them.`] : [];

// Which durations its requests had, if that was asked for.
const durations = ({ took, untimed }) => took === null || took === undefined ? [] : [`Requests that took ${tookWords(took.over_ms, took.to_ms)}${root.then !== null && state.compare === "durations" ? ", against those that took another time" : ""}.`,
	...untimed > 0 ? [`Left out: ${count(untimed)} samples of requests whose end was not seen, so that it is not known how long they took.`] : []];

function comparison() {
	const d = differs(root), all = [answer, answer.versus];

	return [...durations(answer), ...d === null ? ["No request ended on one side, so there is no time per request to compare."] :
		[`Of processes' time a request takes ~${ms(d.now)} ${sides()[0]} and ~${ms(d.then)} ${sides()[1]}: ${d.sure ? signed(d.by) : "no more of a difference than chance"} (99.9 %: ${signed(d.low)} to ${signed(d.high)}).`],
	...all.map((side, i) => `${sides()[i]}: ${side.from === null ? "nothing is stored" : `${between(Date.parse(side.from), Date.parse(side.to))}, ~${count([root, root.then][i].requests)} requests, ${count([root, root.then][i].samples)} samples`}.`),
	...all.flatMap((side, i) => leftOut(side, ` ${sides()[i]}`)),
	"Chance makes one of 1000 boxes differ; samples of one long request depend on each other, which makes it more."].join(" ");
}

// Of a request that was traced whole: its remarks say what is missing.
function exactSummary() {
	const { length_ms: length, events, left_out: left } = answer.exact;

	return [`One request of type ${identityName(answer.exact.identity)} on ${answer.exact.nodes.join(", ")}, traced whole at ${zoned(Date.parse(answer.exact.since))}: ` +
		`${count(events)} events in ${ms(length)}. Times are exact, with what tracing added to each call. Widths add up the time of all processes; ` +
		"waits, which “waits” shows, are those of callers and of servers, these also for 0.2 s after the request's end.",
	...left.nodes > 0 ? [`Left out: ${count(left.nodes)} boxes with least time, ${ms(left.ms)} in all, which is in those that called them.`] : [],
	`kprofd's own tracing paused for ${ms(answer.exact.away_ms)} meanwhile.`, ...answer.exact.remarks.map(sentence)].join(" ");
}

function summary() {
	if (answer.exact)
		return exactSummary();
	if (root.then !== null)
		return comparison();
	const unseen = answer.not_seen / (answer.samples || 1);

	return [...reason(), ...durations(answer), `${about(root.ms)} of processes' time a request (95 %: ${range(root)}), estimated from ${count(root.samples)} of ${count(answer.samples)} samples and ~${count(root.requests)} requests.`,
		...WAITS.some((s) => !statesShown(state.states).includes(s)) ? ["Not all waits are shown: a process that waits for another that works does not make the request longer by both."] : [],
		...root.requests > 0 ? [] : ["No request ended here in this time, so there is no time per request: choose a longer range, or the nodes where requests begin."],
		answer.not_seen > 0 ? `Not seen: ${count(answer.not_seen)} samples (${percent(unseen)}), whose process did not answer within 5 ms.` : "Every process that was asked was seen.",
		...answer.dropped > 0 ? [`Of ${count(answer.dropped)} samples the stack was not kept ("other stacks").`] : [],
		...leftOut(answer),
		`A stack has at most ${answer.depth} frames here: the VM shows the innermost, as many as its backtrace_depth (8 unless the application sets it). … marks where there may be more${answer.cut > 0 ? `: ${count(answer.cut)} samples (${percent(answer.cut / answer.samples)}) have as many` : ""}. A function that calls itself is one box.`].join(" ");
}

// ---- the graph

const PLAIN = { all: "line", type: "grid", unseen: "grid" };

// From grey to a colour, which is full where the time is twice or half of the other's.
function shade(d) {
	const channels = (name) => [1, 3, 5].map((i) => Number.parseInt(color(name).slice(i, i + 2), 16));
	const grey = channels("f5"), full = channels(d?.by > 0 ? "c5" : "c1");
	const part = d?.sure ? 0.4 + 0.6 * Math.min(1, Math.abs(Math.log2(d.now / d.then))) : 0;

	return `#${grey.map((g, i) => Math.round(g + part * (full[i] - g)).toString(16).padStart(2, "0")).join("")}`;
}

function fillOf(node) {
	if (root.then !== null)
		return shade(differs(node));
	if (node.kind === "tier")
		return color(tierColor(tiers.indexOf(wholeTier(node.name)) + 1));
	return color(node.kind === "frame" ? `f${choice(family(node.name), FAMILIES)}` : PLAIN[node.kind]);
}

// A text that fits into so many px.
function fit(ctx, text, px) {
	const width = (s) => ctx.measureText(s).width;
	let n = Math.floor(text.length * px / width(text));

	if (n >= text.length)
		return text;
	while (n > 0 && width(`${text.slice(0, n)}…`) > px)
		n--;
	return `${text.slice(0, n)}…`;
}

// Stripes over what was not seen.
function stripe(ctx, x, y, w) {
	ctx.save();
	ctx.beginPath();
	ctx.rect(x, y, w, ROW - 1);
	ctx.clip();
	ctx.strokeStyle = color("soft");
	ctx.globalAlpha = 0.5;
	for (let at = x - ROW; at < x + w; at += 8) {
		ctx.moveTo(at, y + ROW);
		ctx.lineTo(at + ROW, y);
	}
	ctx.stroke();
	ctx.restore();
}

// The palette holds the colours that were looked up, by kind and name.
function drawBox(ctx, { node, x, w }, palette) {
	const y = node.depth * ROW;
	const key = `${node.kind} ${node.kind === "frame" ? family(node.name) : node.name}`;
	const fill = root.then === null ? palette[key] ??= fillOf(node) : fillOf(node);
	const by = root.then !== null && differs(node)?.sure ? `${signed(node.differs.by)} ` : "";
	const dim = hits && !hits.found.has(node) ? 0.3 : node.depth < zoom.depth ? 0.6 : 1;

	ctx.globalAlpha = dim;
	ctx.fillStyle = fill;
	ctx.fillRect(x, y, Math.max(w - 1, 0.5), ROW - 1);
	if (node.kind === "unseen")
		stripe(ctx, x, y, w - 1);
	ctx.globalAlpha = 1;
	if (w > TEXT_PX) {
		ctx.fillStyle = dim < 1 ? palette.text : ink(fill);
		ctx.fillText(fit(ctx, by + label(node), w - 8), x + 4, y + ROW / 2);
	}
}

function draw() {
	const canvas = $("flame");
	const px = canvas.parentElement.clientWidth;

	if (root === null || px === 0)
		return;
	boxes = layout(zoom, px);
	const height = (1 + boxes.reduce((most, b) => Math.max(most, b.node.depth), 0)) * ROW;
	const ctx = canvas.getContext("2d");
	const palette = { text: color("text") };

	canvas.width = px * devicePixelRatio;
	canvas.height = height * devicePixelRatio;
	canvas.style.height = `${height}px`;
	ctx.scale(devicePixelRatio, devicePixelRatio);
	ctx.font = "12px system-ui, sans-serif";
	ctx.textBaseline = "middle";
	for (const box of boxes)
		drawBox(ctx, box, palette);
	const at = boxes.find((b) => b.node === focus);

	if (at && document.activeElement === canvas) {
		ctx.strokeStyle = palette.text;
		ctx.lineWidth = 2;
		ctx.strokeRect(at.x + 1, at.node.depth * ROW + 1, Math.max(at.w - 3, 1), ROW - 3);
	}
}

function showCrumbs() {
	const way = lineage(zoom);

	$("crumbs").replaceChildren(...way.map((node) => el("button", { type: "button", class: "link", "aria-current": node === zoom ? "true" : undefined,
		onclick: () => { zoomTo(node); $("flame").focus(); } }, label(node))));
	$("crumbs").hidden = way.length < 2;
}

function focusOn(node) {
	focus = node;
	$("flame-at").textContent = describe(node).join("; ");
	draw();
}

function zoomTo(node) {
	zoom = node;
	$("flame-tip").hidden = true;
	showCrumbs();
	focusOn(node);
}

function boxAt(e) {
	const { left, top } = $("flame").getBoundingClientRect();
	const x = e.clientX - left, depth = Math.floor((e.clientY - top) / ROW);

	return boxes.find((b) => b.node.depth === depth && b.x <= x && x < b.x + b.w);
}

function showTip(e) {
	const box = boxAt(e);
	const tip = $("flame-tip");

	tip.hidden = !box;
	if (!box)
		return;
	tip.replaceChildren(...describe(box.node).map((text, i) => el(i === 0 ? "b" : "div", {}, text)));
	const { left, width } = $("flame").getBoundingClientRect();
	const x = Math.min(e.clientX - left + 12, width - tip.offsetWidth);

	tip.style.left = `${Math.max(0, x)}px`;
	tip.style.top = `${(box.node.depth + 1) * ROW + 6}px`;
}

// The drawn neighbour on one side: -1 or 1.
function beside(node, by) {
	const drawn = boxes.filter((b) => b.node.depth === node.depth).sort((a, b) => a.x - b.x).map((b) => b.node);

	return drawn[drawn.indexOf(node) + by];
}

const KEYS = {
	ArrowUp: () => focus.parent,
	ArrowDown: () => boxes.find((b) => b.node.parent === focus)?.node,
	ArrowLeft: () => beside(focus, -1),
	ArrowRight: () => beside(focus, 1),
	Home: () => root,
};

function press(e) {
	if (root === null || e.ctrlKey || e.altKey || e.metaKey)
		return;
	if (KEYS[e.key])
		focusOn(KEYS[e.key]() ?? focus);
	else if (e.key === "Enter")
		zoomTo(focus);
	else if (e.key === "Escape" && zoom.parent !== null)
		zoomTo(zoom.parent);
	else
		return;
	e.preventDefault();
}

// ---- the table

const COLUMNS = [["function", "left"], ["tier", "left"], ["itself, a request", "", "time that it was the innermost function"], ["95 %", "", "chance alone decides which moments are sampled"],
	["samples", ""], ["on the stack, a request", "", "time that it was anywhere on a stack"], ["states, while innermost", "left"]];

const EXACT = [["function", "left"], ["process", "left"], ["own", "", "time in the function itself"], ["calls", ""], ["accumulated", "", "with what it called"], ["states, by own time", "left"]];

const figures = (r) => [el("td", {}, r.samples > 0 ? about(r.ms) : "–"), ...answer.exact ? [] : [el("td", { class: "soft" }, range(r))], el("td", {}, count(r.samples)),
	el("td", {}, about(r.within)), el("td", { class: "left states" }, statesOf(r))];

const differences = ({ differs: d, samples, then }) => [el("td", {}, `~${ms(d.now)}`), el("td", {}, `~${ms(d.then)}`),
	el("td", { class: d.sure ? d.by > 0 ? "up" : "down" : "soft" }, d.sure ? signed(d.by) : "no more than chance"),
	el("td", { class: "soft" }, `${signed(d.low)} to ${signed(d.high)}`), el("td", {}, `${count(samples)}, ${count(then.samples)}`)];

function showTable(stacks) {
	const lines = state.lines !== "", other = root.then !== null;
	const rows = other ? differing(stacks, shown(answer.versus), root, lines) : functions(stacks, lines);
	const columns = other ? [...COLUMNS.slice(0, 2), ...sides().map((s) => [`a request ${s}`, ""]), ["difference", ""],
		["99.9 %", "", "chance alone decides which moments are sampled"], ["samples", ""]] : answer.exact ? EXACT : COLUMNS;
	const host = document.querySelector("#s-stacks .scroll");

	$("functions-by").textContent = other ? "that differ most, by the time that they were innermost" : "by the time that they were innermost";
	host.replaceChildren(el("table", { "aria-label": "Functions" },
		el("thead", {}, el("tr", {}, columns.map(([name, side, title]) => el("th", { scope: "col", class: side, title }, name)))),
		el("tbody", {}, rows.slice(0, all ? rows.length : TOP).map((r) => el("tr", {},
			el("td", { class: "name" }, label({ kind: "frame", name: r.name })), el("td", { class: "left" }, label({ kind: "tier", name: r.tier })),
			...other ? differences(r) : figures(r))))));
	$("functions-all").hidden = all || rows.length <= TOP;
	$("functions-all").textContent = `all ${count(rows.length)} functions`;
}

// ---- choices

function showStates() {
	const times = build(answer.stacks).states;
	const whole = Object.values(times).reduce((a, b) => a + b, 0);

	const chosen = statesShown(state.states);

	$("waits").checked = WAITS.every((s) => chosen.includes(s));
	$("waits").indeterminate = !$("waits").checked && WAITS.some((s) => chosen.includes(s));
	for (const one of $("states").querySelectorAll("label")) {
		const input = one.querySelector("input");

		input.checked = chosen.includes(input.value);
		one.querySelector("span").textContent = percent((times[input.value] ?? 0) / (whole || 1));
	}
}

function chooseStates() {
	choose({ states: statesText([...$("states").querySelectorAll("input:checked")].map((i) => i.value)) });
}

function chooseWaits() {
	const chosen = statesShown(state.states);

	choose({ states: statesText(STATES.filter((s) => WAITS.includes(s) ? $("waits").checked : chosen.includes(s))) });
}

// At once, though the page asks for newer data, too.
function choose(what) {
	change(what);
	if (answer === null)
		return;
	showStates();
	showGraph();
}

function showSearch() {
	if (root === null)
		return;
	hits = state.find === "" ? null : search(root, state.find);
	$("found").textContent = hits === null ? "" : hits.found.size === 0 ? "nothing has that in its name" :
		`${about(hits.ms)}${answer.exact ? "" : " a request"}, ${percent(hits.ms / (root.ms || 1))} of what is shown`;
}

// ---- the view

const LINE = "{stacks, {per_second, 20}}.";

// What the server says in words, as a sentence.
const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;
const reason = () => answer.why === null ? [] : [sentence(answer.why)];

function whyEmpty() {
	if (answer.stacks.length > 0)
		return ["No stack is in a state that is chosen above: “waits” shows those of processes that waited."];
	const of = [...state.identity ? [identityName(state.identity)] : [], ...state.tier ? [`tier ${state.tier}`] : [], ...answer.took ? [`those that took ${tookWords(answer.took.over_ms, answer.took.to_ms)}`] : []].join(", ");

	return [`No stack${of ? ` of ${of}` : ""} was sampled in this time. ${reason().join("")} kprofd samples stacks if tiers.conf has the line `, el("code", {}, LINE)];
}

function showKeys() {
	const key = (c, text) => el("span", {}, el("i", { style: { backgroundColor: color(c) } }), text);

	$("flame-colors").hidden = root.then === null;
	$("flame-colors").replaceChildren(key("c5", `more time a request ${sides()[0]}`), key("c1", "less"), key("f5", "no more than chance"),
		el("span", {}, "The width of a box is the mean of both sides."));
}

function showGraph() {
	const stacks = shown();
	const old = [zoom, focus];
	const then = answer.versus === null ? null : { stacks: shown(answer.versus), requests: answer.versus.requests };

	root = stacks.length + (then?.stacks.length ?? 0) > 0 ? build(stacks, { lines: state.lines !== "", depth: Math.max(answer.depth, answer.versus?.depth ?? 0),
		requests: answer.requests, then, types: state.compare !== "types" }) : null;
	$("stacks-empty").hidden = root !== null;
	$("stacks-shown").hidden = $("folded").disabled = $("speedscope").disabled = root === null;
	if (root === null) {
		$("stacks-empty").replaceChildren(...whyEmpty());
		return;
	}
	if (answer.exact)
		root.name = "all processes";
	[zoom, focus] = old.map((node) => node === null ? root : counterpart(root, node));
	$("stacks-words").textContent = summary();
	showKeys();
	showSearch();
	showCrumbs();
	showTable(stacks);
	// its figures are old; a screen reader would read newer ones every few seconds
	if (document.activeElement !== $("flame"))
		$("flame-at").textContent = "";
	draw();
}

// A trace of one request as stacks, one for each node of its call tree: [parent, process or
// function, calls, own ns, total ns].  The time of nodes that are left out is their caller's.
const STATE_OF = { suspend: "waiting", garbage_collect: "collecting" };

function stacksOf({ processes, functions: fns, nodes }, identity) {
	const own = nodes.map((n) => n[4]);
	const made = [];

	for (const [i, [parent, name, calls]] of nodes.entries()) {
		const above = made[parent];

		made.push(above ? { ...above, frames: [...above.frames, fns[name].function], samples: calls } :
			{ identity, path: [processes[name]], frames: [], samples: calls });
		if (above)
			own[parent] -= own[i];
	}
	return made.map((s, i) => ({ ...s, state: STATE_OF[s.frames.at(-1)] ?? "running", ms: Math.max(0, own[i]) / 1e6 }));
}

const STEPS = { leaving: "kprofd's agents leave the targets", tracing: "waiting for the request, or tracing it" };

// Shows a trace of one request, as the API has it.
export function showTrace(t, names) {
	const { result } = t;
	const until = `since ${zoned(Date.parse(t.since))}, until ${zoned(Date.parse(t.until))} at the latest`;

	if (t.gone)
		empty(`${sentence(t.gone)} Samples have the button that traces the next one.`);
	else if (STEPS[t.state])
		empty(`The next request of type ${identityName(t.identity)} on ${t.nodes.join(", ")} is traced: ${STEPS[t.state]}, ${until}. kprofd's own tracing pauses meanwhile.`);
	else if (!result?.begun)
		empty([`No request of type ${identityName(t.identity)} was traced.`, ...t.remarks.map(sentence)].join(" "));
	else
		show({ stacks: stacksOf(result, t.identity), exact: { ...result, ...t }, versus: null, why: null, depth: Infinity,
			requests: ["_total", t.identity].map((identity) => ({ identity, requests: 1 })) }, names);
	$("trace-over").hidden = false;
}

// Shows an answer of the API, as the page's state says.
export function show(stacks, names) {
	[answer, tiers] = [stacks, names];
	$("trace-over").hidden = true;
	$("lines").value = state.lines;
	if (document.activeElement !== $("find"))
		$("find").value = state.find;
	showStates();
	showGraph();
}

// Shows why there is nothing, and forgets what there was.
export function empty(text) {
	root = null;
	$("stacks-shown").hidden = $("folded").disabled = $("speedscope").disabled = true;
	$("stacks-empty").hidden = false;
	$("stacks-empty").replaceChildren(text);
}

export function start(onChange) {
	const canvas = $("flame");

	change = onChange;
	$("states").append(...STATES.map((name) => el("label", {}, el("input", { type: "checkbox", value: name, checked: true, onchange: chooseStates }), name, " ", el("span", {}))));
	$("waits").addEventListener("change", chooseWaits);
	$("lines").addEventListener("change", (e) => choose({ lines: e.target.value }));
	$("find").addEventListener("change", (e) => change({ find: e.target.value }));
	$("find").addEventListener("input", (e) => {
		state.find = e.target.value;
		showSearch();
		draw();
	});
	$("folded").addEventListener("click", () => save("kprofd.folded", folded(shown(), state.lines !== "")));
	$("speedscope").addEventListener("click", () => save("kprofd.speedscope.json", JSON.stringify(speedscope(shown(), "kprofd", state.lines !== ""))));
	$("trace-over").addEventListener("click", () => change({ trace: "" }));
	$("functions-all").addEventListener("click", () => { all = true; showTable(shown()); });
	canvas.addEventListener("keydown", press);
	canvas.addEventListener("pointermove", showTip);
	canvas.addEventListener("pointerleave", () => { $("flame-tip").hidden = true; });
	canvas.addEventListener("click", (e) => { const box = boxAt(e); if (box) zoomTo(box.node); });
	canvas.addEventListener("focus", () => root && focusOn(focus));
	canvas.addEventListener("blur", draw);
	new ResizeObserver(draw).observe(canvas.parentElement);
}
