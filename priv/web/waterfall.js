// waterfall.js - one slow request: its calls on the axis of its time, by
// process and node.
import { color, tierColor } from "./charts.js";
import { el, fnName, identityName, ms, when } from "./format.js";

const ROWS = 300;

// A call that was still running when its request was stored has no outcome.
const outcomeOf = (call) => call.outlasts ? "still running" : call.outcome;

function lane(call, whole, tiers) {
	const i = tiers.indexOf(call.tier) + 1;
	const left = 100 * call.start_ms / whole;
	const width = 100 * (call.total_ms ?? 0) / whole;
	const bar = el("i", { class: call.async ? "async" : "", style: {
		left: `${Math.min(left, 99.5)}%`, width: `${Math.min(width, 100 - left)}%`,
		backgroundColor: color(tierColor(i)) } });
	const text = call.total_ms === null ? outcomeOf(call) :
		`${ms(call.total_ms)}${call.outcome === "returned" || call.outcome === "unknown" ? "" : `, ${call.outcome}`}`;
	const room = 100 - left - width;
	// after the bar, before it, or inside it, whichever has most room
	const at = room > 28 ? { left: `calc(${left + width}% + 6px)` } : left > 28 ? { right: `calc(${100 - left}% + 6px)` } :
		{ left: `calc(${left}% + 6px)` };

	return el("div", { class: "lane" }, bar, el("span", { class: room > 28 || left > 28 ? "" : "in", style: at }, text));
}

// The time axis above the calls.
function axis(whole) {
	return [el("div", { class: "axis", "aria-hidden": "true" }), el("div", { class: "axis", "aria-hidden": "true" }, [0, 25, 50, 75].map((part) =>
		el("span", { style: { left: `${part}%` } }, part === 0 ? "0" : ms(whole * part / 100))))];
}

function callName(call, before, node) {
	const moved = !before || before.pid !== call.pid || before.node !== call.node;

	return el("div", { class: "call", style: { paddingLeft: `${Math.min(call.depth, 12) * 12}px` } },
		fnName(call.call), moved ? el("div", { class: "where" }, `${call.pid}${call.node === node ? "" : ` on ${call.node}`}${call.async ? ", after the end" : ""}`) : null,
		call.after_ms > 0 && !call.async ? el("div", { class: "where" }, `${ms(call.after_ms)} after the request's end`) : null);
}

export function waterfall(host, t, tiers, close) {
	const end = Math.max(t.total_ms ?? 0, ...t.tree.map((c) => c.start_ms + (c.total_ms ?? 0))) || 1;
	const fall = el("div", { class: "fall", role: "list", "aria-label": "Calls" });
	const add = (from, to) => {
		for (let i = from; i < Math.min(to, t.tree.length); i++) {
			const c = t.tree[i];
			const row = [callName(c, t.tree[i - 1], t.node), lane(c, end, tiers)];

			const figures = `starts at ${ms(c.start_ms)}, takes ${ms(c.total_ms)}${c.after_ms > 0 ? `, ${ms(c.after_ms)} of it after the request's end` : ""}, self ${ms(c.self_ms)}, ${outcomeOf(c)}`;

			row[0].setAttribute("role", "listitem");
			row[0].title = `${fnName(c.call)}: ${figures}`;
			row[0].append(el("span", { class: "unseen" }, figures));
			row[1].setAttribute("aria-hidden", "true");
			fall.append(...row);
		}
	};
	const more = el("button", { type: "button", hidden: t.tree.length <= ROWS,
		onclick: () => { add(ROWS, t.tree.length); more.hidden = true; } }, `all ${t.tree.length} calls`);

	fall.append(...axis(end));
	add(0, ROWS);
	host.replaceChildren(
		el("h3", { id: "tree-title" }, identityName(t.identity)),
		el("p", { class: "soft" }, `request ${t.request}, ${when(t.start)} on ${t.node}: ${ms(t.total_ms)}, ${t.outcome}, ${t.calls} calls`,
			t.weight > 1 ? `; stands for ${t.weight} requests` : "",
			t.parent_label ? "; started inside another request" : ""),
		el("div", { class: "keys" }, [...new Set(t.tree.map((c) => c.tier))].map((name) =>
			el("span", {}, el("i", { style: { backgroundColor: color(tierColor(tiers.indexOf(name) + 1)) } }), name ?? "in no tier"))),
		fall, more, el("p", {}, el("button", { type: "button", onclick: close }, "close")));
}
