// stacks.js - the view of sampled stacks: a flame graph, root at the top, and the same
// as a table.  The graph has one focus of its own, which keys move, and one zoom.
import { color, tierColor } from "./charts.js";
import { NOT_SEEN, STATES, build, choice, counterpart, family, folded, functions, interval, label, layout, lineage, search, speedscope } from "./flame.js";
import { count, el, identityName, ms, percent, wholeTier } from "./format.js";
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

const about = (v) => `~${ms(v)}`;
const shown = () => answer.stacks.filter((s) => state.states === "" || state.states.split(",").includes(s.state));

// ---- words

function range(figure) {
	const ends = interval(figure);

	return ends === null ? "–" : `${ms(ends[0])} to ${ms(ends[1])}`;
}

// "running 12 %, waiting 88 %": the largest first.
const statesOf = ({ states, ms: whole }) => Object.entries(states).sort((a, b) => b[1] - a[1])
	.map(([name, v]) => `${name} ${percent(v / whole)}`).join(", ");

const KINDS = { type: "request type", tier: "tier", frame: "function" };

function describe(node) {
	return [label(node), [KINDS[node.kind], `${about(node.ms)}, ${percent(node.ms / root.ms)} of what is shown`].filter(Boolean).join(": "),
		`95 %: ${range(node)}; ${count(node.samples)} ${node.samples === 1 ? "sample" : "samples"}`, statesOf(node),
		...node.cut ? ["It may have been called by others, which the VM did not show."] : []];
}

function summary() {
	const { left_out: left } = answer;
	const unseen = answer.not_seen / (answer.samples || 1);

	return [...reason(), `${about(root.ms)} of processes' time (95 %: ${range(root)}), estimated from ${count(root.samples)} of ${count(answer.samples)} samples.`,
		answer.not_seen > 0 ? `Not seen: ${count(answer.not_seen)} samples (${percent(unseen)}), whose process did not answer within 5 ms.` : "Every process that was asked was seen.",
		...answer.dropped > 0 ? [`Of ${count(answer.dropped)} samples the stack was not kept ("other stacks").`] : [],
		...left.stacks > 0 ? [`Left out: the ${count(left.stacks)} stacks with least time (${about(left.ms)}). Choose a shorter range or a request type to see them.`] : [],
		`A stack has at most ${answer.depth} frames here: the VM shows the innermost, as many as its backtrace_depth (8 unless the application sets it). … marks where there may be more.`].join(" ");
}

// ---- the graph

// Black or white, whichever is easier to read on it.
function ink(fill) {
	const [r, g, b] = [1, 3, 5].map((i) => (Number.parseInt(fill.slice(i, i + 2), 16) / 255) ** 2.2);

	return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000000" : "#ffffff";
}

const PLAIN = { all: "line", type: "grid", unseen: "grid" };

function fillOf(node) {
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
	const fill = palette[key] ??= fillOf(node);
	const dim = hits && !hits.found.has(node) ? 0.3 : node.depth < zoom.depth ? 0.6 : 1;

	ctx.globalAlpha = dim;
	ctx.fillStyle = fill;
	ctx.fillRect(x, y, Math.max(w - 1, 0.5), ROW - 1);
	if (node.kind === "unseen")
		stripe(ctx, x, y, w - 1);
	ctx.globalAlpha = 1;
	if (w > TEXT_PX) {
		ctx.fillStyle = dim < 1 ? palette.text : ink(fill);
		ctx.fillText(fit(ctx, label(node), w - 8), x + 4, y + ROW / 2);
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

const COLUMNS = [["function", "left"], ["tier", "left"], ["itself", "", "time that it was the innermost function"], ["95 %", "", "chance alone decides which moments are sampled"],
	["samples", ""], ["on the stack", "", "time that it was anywhere on a stack"], ["states, while innermost", "left"]];

function showTable(stacks) {
	const rows = functions(stacks, state.lines !== "");
	const host = document.querySelector("#s-stacks .scroll");

	host.replaceChildren(el("table", { "aria-label": "Functions" },
		el("thead", {}, el("tr", {}, COLUMNS.map(([name, side, title]) => el("th", { scope: "col", class: side, title }, name)))),
		el("tbody", {}, rows.slice(0, all ? rows.length : TOP).map((r) => el("tr", {},
			el("td", { class: "name" }, label({ kind: "frame", name: r.name })), el("td", { class: "left" }, label({ kind: "tier", name: r.tier })),
			el("td", {}, r.samples > 0 ? about(r.ms) : "–"), el("td", { class: "soft" }, range(r)), el("td", {}, count(r.samples)),
			el("td", {}, about(r.within)), el("td", { class: "left states" }, statesOf(r)))))));
	$("functions-all").hidden = all || rows.length <= TOP;
	$("functions-all").textContent = `all ${count(rows.length)} functions`;
}

// ---- choices

function showStates() {
	const times = build(answer.stacks).states;
	const whole = Object.values(times).reduce((a, b) => a + b, 0);

	for (const one of $("states").querySelectorAll("label")) {
		const input = one.querySelector("input");

		input.checked = state.states === "" || state.states.split(",").includes(input.value);
		one.querySelector("span").textContent = percent((times[input.value] ?? 0) / (whole || 1));
	}
}

function chooseStates() {
	const chosen = [...$("states").querySelectorAll("input:checked")].map((i) => i.value);

	choose({ states: chosen.length === STATES.length ? "" : chosen.join(",") || "none" });
}

// At once, though the page asks for newer data, too.
function choose(what) {
	change(what);
	if (answer !== null)
		showGraph();
}

function showSearch() {
	if (root === null)
		return;
	hits = state.find === "" ? null : search(root, state.find);
	$("found").textContent = hits === null ? "" : hits.found.size === 0 ? "nothing has that in its name" :
		`${about(hits.ms)}, ${percent(hits.ms / (root.ms || 1))} of what is shown`;
}

function save(name, text) {
	const url = URL.createObjectURL(new Blob([text]));

	el("a", { href: url, download: name }).click();
	URL.revokeObjectURL(url);
}

// ---- the view

const LINE = "{stacks, {per_second, 20}}.";

// The server's reason as a sentence, if it has one.
const reason = () => answer.why === null ? [] : [`${answer.why[0].toUpperCase()}${answer.why.slice(1)}.`];

function whyEmpty() {
	if (answer.stacks.length > 0)
		return ["No stack is in a state that is chosen above."];
	const of = [...state.identity ? [identityName(state.identity)] : [], ...state.tier ? [`tier ${state.tier}`] : []].join(", ");

	return [`No stack${of ? ` of ${of}` : ""} was sampled in this time. ${reason().join("")} kprofd samples stacks if tiers.conf has the line `, el("code", {}, LINE)];
}

function showGraph() {
	const stacks = shown();
	const old = [zoom, focus];

	root = stacks.length > 0 ? build(stacks, { lines: state.lines !== "", depth: answer.depth }) : null;
	$("stacks-empty").hidden = root !== null;
	$("stacks-shown").hidden = $("folded").disabled = $("speedscope").disabled = root === null;
	if (root === null) {
		$("stacks-empty").replaceChildren(...whyEmpty());
		return;
	}
	[zoom, focus] = old.map((node) => node === null ? root : counterpart(root, node));
	$("stacks-words").textContent = summary();
	showSearch();
	showCrumbs();
	showTable(stacks);
	// its figures are old; a screen reader would read newer ones every few seconds
	if (document.activeElement !== $("flame"))
		$("flame-at").textContent = "";
	draw();
}

// Shows an answer of the API, as the page's state says.
export function show(stacks, names) {
	[answer, tiers] = [stacks, names];
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
	$("lines").addEventListener("change", (e) => choose({ lines: e.target.value }));
	$("find").addEventListener("change", (e) => change({ find: e.target.value }));
	$("find").addEventListener("input", (e) => {
		state.find = e.target.value;
		showSearch();
		draw();
	});
	$("folded").addEventListener("click", () => save("kprofd.folded", folded(shown(), state.lines !== "")));
	$("speedscope").addEventListener("click", () => save("kprofd.speedscope.json", JSON.stringify(speedscope(shown(), "kprofd", state.lines !== ""))));
	$("functions-all").addEventListener("click", () => { all = true; showTable(shown()); });
	canvas.addEventListener("keydown", press);
	canvas.addEventListener("pointermove", showTip);
	canvas.addEventListener("pointerleave", () => { $("flame-tip").hidden = true; });
	canvas.addEventListener("click", (e) => { const box = boxAt(e); if (box) zoomTo(box.node); });
	canvas.addEventListener("focus", () => root && focusOn(focus));
	canvas.addEventListener("blur", draw);
	new ResizeObserver(draw).observe(canvas.parentElement);
}
