// stacks_test.mjs - the view of sampled stacks: its tree, figures and files as plain
// functions, then the page in headless Chromium.
// usage: stacks_test.mjs BUILD_DIR NODE_MODULES
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, axe, close, launch, open as openAt } from "./page.mjs";
import { ask, build, check, dir, main, near, run, same, shots, sql, web } from "./world.mjs";

// Node takes a .js file for a module only if a package.json says so.
writeFileSync(join(dir, "package.json"), "{\"type\": \"module\"}");
for (const file of ["flame.js", "format.js"])
	copyFileSync(join("priv", "web", file), join(dir, file));
const flame = await import(join(dir, "flame.js"));
const { fnName, ms, percent, wholeTier } = await import(join(dir, "format.js"));

const VIEW = "?range=all&live=0&view=stacks";
const SCRIPT = "<img src=x onerror=alert(1)>";
let browser, host, answer;

async function begin() {
	const db = join(dir, "k.db");

	run(join(build, "test", "mkdb"), db);
	({ host } = await web(db));
	answer = (await ask(host, "/api/v1/stacks")).json;
	browser = await launch();
}

const open = (path, options = {}) => openAt(browser, host, path, options);
const sum = (all, of = (v) => v) => all.reduce((a, v) => a + of(v), 0);
const stack = (identity, path, frames, time, more = {}) => ({ node: "web@a", identity, path: path.split(";").filter(Boolean), state: "running",
	frames: frames.split(";").filter(Boolean), samples: 1, ms: time, ...more });
const answerOf = (stacks, more = {}) => ({ from: "2026-11-21T10:00:00.000Z", to: "2026-11-21T10:02:00.000Z", samples: sum(stacks, (s) => s.samples),
	not_seen: 0, dropped: 0, depth: 8, left_out: { stacks: 0, samples: 0, ms: 0 }, why: null, stacks, ...more });

const nodesOf = (node) => [node, ...node.children.flatMap(nodesOf)];
const byName = (root, name) => nodesOf(root).filter((n) => n.name === name);

// ---- plain functions

// Every stack is in each node on its way, once.
function tree() {
	const root = flame.build(answer.stacks);

	check("there are stacks", answer.stacks.length > 10, answer.stacks.length);
	near("the root is all", root.ms, sum(answer.stacks, (s) => s.ms));
	same("with all samples", root.samples, sum(answer.stacks, (s) => s.samples));
	near("its parts are all", sum(root.children, (n) => n.ms), root.ms);
	for (const type of root.children)
		near(`time of ${type.name}`, type.ms, sum(answer.stacks.filter((s) => s.identity === type.name), (s) => s.ms));
	for (const node of nodesOf(root)) {
		check(`${node.name}: children are within`, sum(node.children, (n) => n.ms) <= node.ms * (1 + 1e-9));
		near(`${node.name}: its states are all`, sum(Object.values(node.states)), node.ms);
		check(`${node.name}: the widest first`, node.children.every((c, i, all) => i === 0 || all[i - 1].ms >= c.ms));
	}
	const lines = [stack("a", "web", "m:f/1:7;m:g/1:1", 2), stack("a", "web", "m:f/1:8;m:g/1:1", 3)];

	same("lines of a function are one", byName(flame.build(lines), "m:f/1").map((n) => n.ms), [5]);
	same("or not", nodesOf(flame.build(lines, { lines: true })).filter((n) => n.depth === 3).map((n) => n.name), ["m:f/1:8", "m:f/1:7"]);
	const odd = flame.build([stack("a", "", "m:f/1", 1), stack("a", "constructor;m:f/1", "m:f/1;m:f/1", 4), stack("a", "x", "", 2, { state: "not seen" })]);

	same("a tier is not a function of that name", odd.children[0].children.map((n) => [flame.label(n), n.ms]), [["constructor", 4], ["x", 2], ["no tier", 1]]);
	same("what was not seen is a box", byName(odd, "x")[0].children.map((n) => [n.kind, n.ms]), [["unseen", 2]]);
	const cut = flame.build([stack("a", "x", "m:f/0;m:g/0", 1), stack("a", "x", "m:h/0", 1)], { depth: 2 });

	same("stacks as deep as the VM shows are marked", byName(cut, "x")[0].children.map(flame.label), ["… m:f/0", "m:h/0"]);
	same("the same place in another tree", flame.counterpart(flame.build(lines), byName(flame.build(lines), "m:g/1")[0]).name, "m:g/1");
	same("or as far as it goes", flame.counterpart(cut, byName(odd, "constructor")[0]).name, "a");
}

function layout() {
	const root = flame.build(answer.stacks);
	const all = flame.layout(root, 1000);
	const at = new Map(all.map((b) => [b.node, b]));

	same("the root is as wide as all", [at.get(root).x, at.get(root).w], [0, 1000]);
	for (const { node, x, w } of all) {
		near(`${node.name} is as wide as its time`, w, 1000 * node.ms / root.ms);
		check(`${node.name} is below its parent`, node === root || at.get(node.parent).x <= x + 1e-6 && x + w <= at.get(node.parent).x + at.get(node.parent).w + 1e-6);
	}
	const deep = nodesOf(root).find((n) => n.depth === 3 && n.children.length > 0);
	const zoomed = flame.layout(deep, 1000);

	same("zoomed: it and those around it are as wide", zoomed.filter((b) => b.node.depth <= 3).map((b) => [b.node.name, Math.round(b.w)]), flame.lineage(deep).map((n) => [n.name, 1000]));
	check("and nothing beside it", zoomed.every((b) => b.node.depth <= 3 || flame.lineage(b.node).includes(deep)));
	same("what is too narrow is not drawn", flame.layout(flame.build([stack("a", "", "m:f/1", 1e6), stack("b", "", "m:f/1", 1)]), 100).map((b) => b.node.name), ["all that was sampled", "a", "", "m:f/1"]);
}

function figures() {
	const rows = flame.functions(answer.stacks);

	near("each seen sample is of one innermost function", sum(rows, (r) => r.ms), sum(answer.stacks.filter((s) => s.frames.length > 0), (s) => s.ms));
	const recursive = flame.functions([stack("a", "x", "m:f/1:1;m:f/1:2;m:g/1", 3), stack("a", "x", "m:f/1:1;m:f/1:2", 4)]);

	same("what calls itself is on the stack once", recursive.map((r) => [r.name, r.ms, r.within]), [["m:f/1", 4, 7], ["m:g/1", 3, 3]]);
	// limits of Poisson's distribution, as tables have them
	for (const [n, low, high] of [[5, 1.623, 11.668], [10, 4.795, 18.39], [100, 81.36, 121.63]]) {
		const ends = flame.interval({ ms: n * 7, spread: n * 49 });

		check(`95 % of ${n} samples`, Math.abs(ends[0] / 7 / low - 1) < 0.01 && Math.abs(ends[1] / 7 / high - 1) < 0.01, ends.map((v) => v / 7));
	}
	check("unequal samples say less", flame.interval({ ms: 100, spread: 2000 })[1] > flame.interval({ ms: 100, spread: 1000 })[1]);
	same("of nothing there is none", flame.interval({ ms: 0, spread: 0 }), null);
	const nested = flame.build([stack("a", "repo", "Elixir.A.Repo:all/2;Elixir.A.Repo:run/1", 3), stack("b", "x", "m:f/1", 1)]);

	same("what is found is counted once", [flame.search(nested, "rePo").ms, flame.search(nested, "a.repo.run").ms, flame.search(nested, "zz").ms], [3, 3, 0]);
	same("by application", ["Elixir.MyApp.Repo:all/2", "MyApp.Web.index/2:3", "cowboy_stream_h:info/3", "'my-mod':f/1", "gen:call/3", "anonymous fn/1 in MyApp.Repo.all/2:3",
		"anonymous fn/1 (fun-2) in MyApp.all/2"].map(flame.family), ["MyApp", "MyApp", "cowboy", "my-mod", "gen", "MyApp", "MyApp"]);
	same("functions as people write them", ["lists:seq/2", "Elixir.MyApp.Repo:all/2", "Elixir.MyApp.Repo", "Elixir.A:ok?/1", "Elixir.A:odd name/1",
		"Elixir.Kernel:+/2", "Elixir.Kernel://2", "Elixir.A.B:-b/1-fun-0-/2", "Elixir.A:-odd name/1-fun-3-/2", "Elixir.A:-b/1-lc$^0/1-0-/1",
		"'Elixir.my-app':f/2", "Elixir.A.Repo:all/2 [users/3 [x]]", "db:query/2 [users]"].map(fnName), ["lists:seq/2", "MyApp.Repo.all/2", "MyApp.Repo", "A.ok?/1", "A.\"odd name\"/1",
		"Kernel.+/2", "Kernel.//2", "anonymous fn/2 in A.B.b/1", "anonymous fn/2 (fun-3) in A.\"odd name\"/1", "A.\"-b/1-lc$^0/1-0-\"/1",
		"'Elixir.my-app':f/2", "A.Repo.all/2 [users/3 [x]]", "db:query/2 [users]"]);
}

function files() {
	const odd = [stack("a;b\nc", "x;y", "m:f/1:3;Elixir.A.B:g/2", 1.5), stack("a", "", "", 2, { state: "not seen" })];

	same("folded", flame.folded(odd), "a,b c;x;y;m:f/1;A.B.g/2 1500\na;no tier;not seen 2000\n");
	same("line by line", flame.folded(odd, true).split(" 1500")[0], "a,b c;x;y;m:f/1:3;A.B.g/2");
	const { shared, profiles: [p] } = flame.speedscope(answer.stacks, "t");

	near("speedscope has all the time", sum(p.weights), sum(answer.stacks, (s) => s.ms));
	near("and says so", p.endValue, sum(p.weights));
	check("its frames are there", p.samples.every((s) => s.length > 1 && s.every((i) => i in shared.frames)));
	same("each once", new Set(shared.frames.map((f) => f.name)).size, shared.frames.length);
}

// ---- the page

const text = (page, id) => page.locator(`#${id}`).textContent();
const press = async (page, ...keys) => {
	await page.locator("#flame").focus();
	for (const key of keys)
		await page.keyboard.press(key);
	return text(page, "flame-at");
};
const crumbs = (page) => page.locator("#crumbs button").allTextContents();
const says = (name, at, node, root) => check(name, at.startsWith(`${flame.label(node)}; `) && at.includes(`~${ms(node.ms)}, ${percent(node.ms / root.ms)} of what is shown`), `${at}, expected ${flame.label(node)} ~${ms(node.ms)}`);

// It is asked for only where it is shown, and then nothing else is.
async function asking() {
	const page = await open("?range=all&live=0");
	const asked = [];

	page.on("request", (r) => asked.push(/api\/v1\/(\w+)/.exec(r.url())?.[1]));
	await after(page, () => page.locator("#live").click());
	await after(page, () => page.locator("#live").click());
	check("figures ask for no stacks", asked.length > 0 && !asked.includes("stacks"), asked.join(" "));
	asked.length = 0;
	await after(page, () => page.locator("#views button", { hasText: "stacks" }).click());
	check("stacks ask for themselves", asked.includes("stacks") && !asked.includes("series") && !asked.includes("slow"), asked.join(" "));
	same("the URL has it", new URL(page.url()).searchParams.get("view"), "stacks");
	check("nothing else is there", await page.locator("#flame").isVisible() && !await page.locator("#charts").isVisible() && !await page.locator("#s-report").isVisible());
	await page.setViewportSize({ width: 1000, height: 800 });
	await after(page, () => page.goBack());
	check("and back", await page.locator("#charts").isVisible() && !await page.locator("#flame").isVisible());
	const [plot, chart] = await page.locator("#c-rate .plot, #c-rate .graph > div").evaluateAll((all) => all.map((x) => x.clientWidth));

	check("charts are as wide as there is room now", Math.abs(plot - chart) < 3, `${plot} ${chart}`);
	await close(page, "asking");
}

// What it shows are the API's sums.
async function sums() {
	const page = await open(VIEW);
	const root = flame.build(answer.stacks, { depth: answer.depth });

	says("all", await press(page, "Home"), root, root);
	check("in words", (await text(page, "stacks-words")).includes(`~${ms(root.ms)} of processes' time`));
	let at = await press(page, "ArrowDown");

	for (const type of root.children) {
		says(`type ${type.name}`, at, type, root);
		at = await press(page, "ArrowRight");
	}
	const states = await page.locator("#states label").evaluateAll((all) => all.map((l) => [l.querySelector("input").value, l.querySelector("span").textContent]));

	same("time by state", states, flame.STATES.map((s) => [s, percent((root.states[s] ?? 0) / root.ms)]));
	const rows = await page.locator("#s-stacks tbody tr").evaluateAll((all) => all.map((tr) => [...tr.cells].map((td) => td.textContent)));

	same("the table", rows.map((r) => [r[0], r[2], r[4], r[5]]), flame.functions(answer.stacks).slice(0, 25).map((r) =>
		[flame.label({ kind: "frame", name: r.name }), r.samples > 0 ? `~${ms(r.ms)}` : "–", `${r.samples}`, `~${ms(r.within)}`]));
	const { usage } = (await ask(host, "/api/v1/memory")).json;
	const used = await page.locator("#s-memory tbody tr").evaluateAll((all) => all.map((tr) => [...tr.cells].map((td) => td.textContent)));
	const longest = [...usage].sort((a, b) => (b.longest ?? 0) - (a.longest ?? 0))[0];

	same("mailboxes and memory: a row each", used.map((r) => `${r[1]} ${r[3]}`).sort(), usage.map((u) => `${u.name} ${u.node}`).sort());
	same("the longest queue first", [used[0][1], used[0][3], used[0][6].replace(/\D/g, "")], [longest.name, longest.node, `${longest.longest}`]);
	check("and what has grown", used.some((r) => r[1] === "shop_cache" && /^\+\d+\.\d MB$/.test(r[9])), used.map((r) => r[9]).join(" "));
	check("not seen is said", answer.not_seen > 0 && (await text(page, "stacks-words")).includes(`Not seen: ${answer.not_seen} samples`), answer.not_seen);
	await page.screenshot({ path: join(shots, "stacks.png"), fullPage: true });
	await close(page, "sums");
}

// By keys and by mouse: the same places.
async function zoom() {
	const page = await open(VIEW);
	const root = flame.build(answer.stacks, { depth: answer.depth });
	const type = root.children[1], tier = type.children[0];

	says("keys move", await press(page, "ArrowDown", "ArrowRight", "ArrowDown"), tier, root);
	await press(page, "Enter");
	same("Enter zooms in", await crumbs(page), flame.lineage(tier).map(flame.label));
	says("to what is in it", await press(page, "ArrowDown"), tier.children[0], root);
	await press(page, "Escape");
	same("Escape out", await crumbs(page), flame.lineage(type).map(flame.label));
	await page.locator("#crumbs button").first().click();
	check("a crumb leads back", await page.locator("#crumbs").isHidden());
	const { x, y, width } = await page.locator("#flame").boundingBox();
	const box = flame.layout(root, width).find((b) => b.node === tier);
	const over = async () => page.mouse.move(x + box.x + box.w / 2, y + 2.5 * 20);

	await over();
	check("a tip tells", (await text(page, "flame-tip")).startsWith(flame.label(tier)));
	await page.mouse.click(x + box.x + box.w / 2, y + 2.5 * 20);
	same("a click zooms", await crumbs(page), flame.lineage(tier).map(flame.label));
	await page.mouse.click(x + 10, y + 10);
	check("and out at the top", await page.locator("#crumbs").isHidden());
	await page.keyboard.press("Tab");
	check("Tab leaves the graph", !await page.locator("#flame").evaluate((c) => c === document.activeElement));
	await close(page, "zoom");
}

async function choices() {
	const page = await open(VIEW);
	const rootOf = (stacks, more = {}) => flame.build(stacks, { depth: answer.depth, ...more });
	const only = answer.stacks.filter((s) => s.state === "running");

	for (const state of flame.STATES.filter((s) => s !== "running"))
		await after(page, () => page.locator(`#states input[value="${state}"]`).uncheck());
	same("the URL has it", new URL(page.url()).searchParams.get("states"), "running");
	says("one state", await press(page, "Home"), rootOf(only), rootOf(only));
	await after(page, () => page.locator("#lines").selectOption("each"));
	const wide = rootOf(only, { lines: true });
	const way = [wide];

	while (way.at(-1).children.length > 0)
		way.push(way.at(-1).children[0]);
	says("line by line", await press(page, "Home", ...way.slice(1).map(() => "ArrowDown")), way.at(-1), wide);
	check("a line is shown", /:\d+; /.test(await text(page, "flame-at")));
	const name = flame.label(way.at(-1)).replace(/:\d+$/, "").toUpperCase();

	await page.locator("#find").fill(name);
	await page.waitForFunction(() => document.getElementById("found").textContent !== "");
	check("a search tells the share", (await text(page, "found")).includes(percent(flame.search(wide, name).ms / wide.ms)), await text(page, "found"));
	await after(page, () => page.keyboard.press("Enter"));
	const again = await open(new URL(page.url()).search);

	same("a shared URL shows the same", [await text(again, "found"), await text(again, "stacks-words")], [await text(page, "found"), await text(page, "stacks-words")]);
	await close(again, "shared");
	await after(page, () => page.locator("#states input[value=running]").uncheck());
	check("no state at all", /in a state that is chosen/.test(await text(page, "stacks-empty")) && await page.locator("#flame").isHidden());
	await close(page, "choices");
}

// From the report's rows: of a type, of a tier of it.
async function links() {
	const page = await open("?range=all&live=0");
	const { identity, path } = answer.stacks.find((s) => s.path.length > 0 && s.identity !== "undefined");
	const tier = wholeTier(path.at(-1));

	await after(page, () => page.locator(`#s-report button[title="stacks of ${identity} in ${tier}"]`).click());
	const q = new URL(page.url()).searchParams;

	same("it is chosen", [q.get("view"), q.get("identity"), q.get("tier")], ["stacks", identity, tier]);
	const root = flame.build(answer.stacks.filter((s) => s.identity === identity && s.path.map(wholeTier).includes(tier)));

	says("its stacks", await press(page, "Home"), root, root);
	await after(page, () => page.locator("#tier").selectOption(""));
	await after(page, () => page.locator("#identity").selectOption(""));
	same("and all again", (await press(page, "Home")).split("; ")[1], `~${ms(sum(answer.stacks, (s) => s.ms))}, 100 % of what is shown`);
	await close(page, "links");
}

// A page that is answered with these stacks.
async function answered(stacks, more, options) {
	const page = await open("?range=all&live=0", options);

	await page.route("**/api/v1/stacks?*", (r) => r.fulfill({ json: answerOf(stacks, more) }));
	await after(page, () => page.locator("#views button", { hasText: "stacks" }).click());
	return page;
}

// Names are text, wherever they stand.
async function hostile() {
	const page = await answered([stack(SCRIPT, `${SCRIPT};__proto__`, `${SCRIPT}:f/1;constructor:${SCRIPT}/2`, 5), stack("b", "x", "m:\u202e\"'&/1", 1)]);

	for (let i = 0; i < 4; i++)
		check(`box ${i}`, (await press(page, "ArrowDown")).includes(i === 2 ? "__proto__" : SCRIPT), await text(page, "flame-at"));
	await press(page, "Enter");
	const { x, y } = await page.locator("#flame").boundingBox();

	await page.mouse.move(x + 50, y + 30);
	for (const id of ["crumbs", "flame-tip", "s-stacks"])
		check(`#${id} has it as text`, (await text(page, id)).includes(SCRIPT));
	same("it made no element", await page.locator("main img").count(), 0);
	const [save] = await Promise.all([page.waitForEvent("download"), page.locator("#folded").click()]);

	check("a file has it, too", readFileSync(await save.path(), "utf8").includes(`${SCRIPT.replaceAll(" ", " ")};__proto__`));
	await close(page, "hostile");
}

async function downloads() {
	const page = await open(VIEW);
	const got = async (id) => {
		const [save] = await Promise.all([page.waitForEvent("download"), page.locator(`#${id}`).click()]);

		return [save.suggestedFilename(), readFileSync(await save.path(), "utf8")];
	};

	same("folded", await got("folded"), ["kprofd.folded", flame.folded(answer.stacks)]);
	const [name, json] = await got("speedscope");

	same("speedscope", [name, JSON.parse(json)], ["kprofd.speedscope.json", flame.speedscope(answer.stacks, "kprofd")]);
	await close(page, "downloads");
}

// Why there is nothing, and what to do; what is left out.
async function words() {
	const none = await answered([], { from: null, to: null, depth: 0, why: "no window is stored" });

	same("nothing sampled", await text(none, "stacks-empty"), "No stack was sampled in this time. No window is stored. kprofd samples stacks if tiers.conf has the line {stacks, {per_second, 20}}.");
	check("no graph, no files", await none.locator("#folded").isDisabled() && await none.locator("#flame").isHidden());
	await none.locator("#s-stacks").screenshot({ path: join(shots, "stacks-empty.png") });
	await close(none, "none");
	const part = await answered([stack("a", "x", "m:f/1", 5)], { dropped: 2, left_out: { stacks: 7, samples: 9, ms: 1.5 } });

	for (const what of ["Of 2 samples the stack was not kept", "Left out: the 7 stacks", "(~1.50 ms)", "at most 8 frames here", "Every process that was asked was seen"])
		check(`it says: ${what}`, (await text(part, "stacks-words")).includes(what), await text(part, "stacks-words"));
	await close(part, "part");
	const broken = await open("?range=all&live=0");

	await broken.route("**/api/v1/stacks?*", (r) => r.fulfill({ status: 500, json: { error: "no such table" } }));
	await after(broken, () => broken.locator("#views button", { hasText: "stacks" }).click());
	check("an error", (await text(broken, "stacks-empty")).includes("This could not be shown: no such table"));
	await close(broken, "broken", (f) => /500/.test(f));
}

// Newer data do not move the reader elsewhere.
async function newer() {
	const page = await open("?range=all&live=0");
	let more = 0;

	await page.route("**/api/v1/stacks?*", (r) => r.fulfill({ json: answerOf([stack("a", "x", "m:f/1", 5), stack("a", "x", "m:g/1", 4 + more), stack("b", "y", "m:f/1", 1 + more)]) }));
	await after(page, () => page.locator("#views button", { hasText: "stacks" }).click());
	await press(page, "ArrowDown", "ArrowDown", "Enter", "ArrowDown", "ArrowRight");
	more = 20;
	await after(page, () => page.locator("#live").click());
	await page.locator("#live").click();
	same("the zoom stays", await crumbs(page), ["all that was sampled", "a", "x"]);
	check("the focus, too, with newer figures", (await press(page)).startsWith("m:g/1; function: ~24.0 ms"), await text(page, "flame-at"));
	await close(page, "newer");
}

// As many stacks as the server gives at most.
async function many() {
	const stacks = Array.from({ length: 5000 }, (_, i) => stack(`type ${i % 9}`, "http;db", Array.from({ length: 8 }, (_, k) => `m${(i * (k + 3)) % 97}_x:f/${k}:${i % 13}`).join(";"), 1 + i % 17));
	const page = await answered(stacks);
	const root = flame.build(stacks, { depth: 8 });

	says("all of them", await press(page, "Home"), root, root);
	await page.locator("#functions-all").click();
	same("all functions on demand", await page.locator("#s-stacks tbody tr").count(), flame.functions(stacks).length);
	await close(page, "many");
}

async function looks() {
	for (const [name, options] of [["stacks-light", {}], ["stacks-dark", { colorScheme: "dark" }],
		["stacks-phone", { viewport: { width: 400, height: 800 }, isMobile: true, hasTouch: true }]]) {
		const page = await open(VIEW, options);

		// a tier has the colour of the charts, the text of a function is easy to read
		const pixel = await page.locator("#flame").evaluate((c) => [...c.getContext("2d").getImageData(2 * devicePixelRatio, 50 * devicePixelRatio, 1, 1).data.slice(0, 3)]);
		const [type] = flame.build(answer.stacks).children;
		const known = (await ask(host, "/api/v1/tiers")).json.tiers;
		const expected = await page.evaluate((i) => getComputedStyle(document.documentElement).getPropertyValue(`--c${i}`).trim(), known.indexOf(type.children[0].name) + 1);

		same(`${name}: the tier's colour`, `#${pixel.map((v) => v.toString(16).padStart(2, "0")).join("")}`, expected);
		check(`${name}: nothing hangs out`, await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
		await page.evaluate(axe);
		const found = await page.evaluate(() => window.axe.run().then((r) => r.violations.map((v) => `${v.impact} ${v.id}: ${v.nodes.map((n) => n.target).join(" ")}`)));

		same(`${name}: accessible`, found.filter((f) => /^(serious|critical)/.test(f)), []);
		await page.screenshot({ path: join(shots, `${name}.png`), fullPage: true });
		await close(page, name);
	}
	await browser.close();
}

await main("stacks_test", [begin, tree, layout, figures, files, asking, sums, zoom, choices, links, hostile, downloads, words, newer, many, looks]);
