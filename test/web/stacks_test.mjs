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
let browser, host, answer, work;	// work: the stacks that are not waits

async function begin() {
	const db = join(dir, "k.db");

	run(join(build, "test", "mkdb"), db);
	({ host } = await web(db));
	answer = (await ask(host, "/api/v1/stacks")).json;
	work = answer.stacks.filter((s) => !flame.WAITS.includes(s.state));
	browser = await launch();
}

const open = (path, options = {}) => openAt(browser, host, path, options);
const sum = (all, of = (v) => v) => all.reduce((a, v) => a + of(v), 0);
const stack = (identity, path, frames, time, more = {}) => ({ node: "web@a", identity, path: path.split(";").filter(Boolean), state: "running",
	frames: frames.split(";").filter(Boolean), samples: 1, ms: time, ...more });
const answerOf = (stacks, more = {}) => ({ from: "2026-11-21T10:00:00.000Z", to: "2026-11-21T10:02:00.000Z", samples: sum(stacks, (s) => s.samples),
	not_seen: 0, dropped: 0, depth: 8, left_out: { stacks: 0, samples: 0, ms: 0 }, why: null,
	requests: [{ identity: "_total", requests: 10 }, ...[...new Set(stacks.map((s) => s.identity))].map((identity) => ({ identity, requests: 2 }))], stacks, versus: null, ...more });

const rootOf = (stacks, { requests } = answer, more = {}) => flame.build(stacks, { depth: answer.depth, requests, ...more });
const nodesOf = (node) => [node, ...node.children.flatMap(nodesOf)];
const byName = (root, name) => nodesOf(root).filter((n) => n.name === name);

// ---- plain functions

// Every stack is in each node on its way, once.
function tree() {
	const root = flame.build(answer.stacks);

	check("there are stacks", work.length > 10 && work.length < answer.stacks.length, answer.stacks.length);
	const ended = Object.fromEntries(sql(join(dir, "k.db"), "select identity, sum(requests) n from tier_stats where tier = '_total' group by 1").map((r) => [r.identity, r.n]));

	for (const { identity, requests } of answer.requests)
		same(`requests of ${identity}`, requests, ended[identity]);
	same("each box has those of its type", [...new Set(nodesOf(rootOf(answer.stacks)).map((n) => `${flame.lineage(n)[1]?.name ?? "_total"} ${n.requests}`))].sort(),
		answer.requests.filter((r) => r.identity === "_total" || answer.stacks.some((x) => x.identity === r.identity)).map((r) => `${r.identity} ${r.requests}`).sort());
	same("per request", [flame.perRequest(6, 4), flame.perRequest(6, 0), flame.perRequest(0, 3)], [1.5, null, 0]);
	same("waits are off, unless they are chosen", ["", "all", "none", "running,waiting"].map((t) => flame.statesShown(t).join()), [
		"running,runnable,collecting,not seen", flame.STATES.join(), "none", "running,waiting"]);
	same("and in the URL", ["", "all", "none", "running,waiting"].map((t) => flame.statesText(flame.STATES.filter((x) => flame.statesShown(t).includes(x)))), ["", "all", "none", "running,waiting"]);
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
	same("names without lines", ["m:f/1:12", "m:f/1", "m:f/1 (fun 2):12", "m:f/1 (fun)", "'m:1':f/2:3"].map(flame.withoutLine), ["m:f/1", "m:f/1", "m:f/1 (fun 2)", "m:f/1 (fun)", "'m:1':f/2"]);
	check("a comprehension has the name of its function", rows.some((r) => r.name === "db:rows/1 (list comprehension)"));
	same("by application", ["Elixir.MyApp.Repo:all/2", "MyApp.Web.index/2:3", "cowboy_stream_h:info/3", "'my-mod':f/1", "gen:call/3", "anonymous fn/1 in MyApp.Repo.all/2:3",
		"anonymous fn/1 (fun-2) in MyApp.all/2"].map(flame.family), ["MyApp", "MyApp", "cowboy", "my-mod", "gen", "MyApp", "MyApp"]);
	same("functions as people write them", ["lists:seq/2", "Elixir.MyApp.Repo:all/2", "Elixir.MyApp.Repo", "Elixir.A:ok?/1", "Elixir.A:odd name/1",
		"Elixir.Kernel:+/2", "Elixir.Kernel://2", "Elixir.A.B:-b/1-fun-0-/2", "Elixir.A:-odd name/1-fun-3-/2", "Elixir.A:-b/1-lc$^0/1-0-/1",
		"'Elixir.my-app':f/2", "Elixir.A.Repo:all/2 [users/3 [x]]", "db:query/2 [users]"].map(fnName), ["lists:seq/2", "MyApp.Repo.all/2", "MyApp.Repo", "A.ok?/1", "A.\"odd name\"/1",
		"Kernel.+/2", "Kernel.//2", "anonymous fn/2 in A.B.b/1", "anonymous fn/2 (fun-3) in A.\"odd name\"/1", "A.\"-b/1-lc$^0/1-0-\"/1",
		"'Elixir.my-app':f/2", "A.Repo.all/2 [users/3 [x]]", "db:query/2 [users]"]);
}

// n samples of 1 ms each.
const of = (identity, path, frames, n, more = {}) => stack(identity, path, frames, n, { samples: n, ...more });
const both = (now, then, requests, more = {}) => flame.build(now, { requests, then: { stacks: then, requests }, ...more });
const ENDED = [{ identity: "_total", requests: 100 }, { identity: "a", requests: 100 }];
const rounded = (d) => [d.by, d.low, d.high].map((v) => Number(v.toFixed(3)));

function differences() {
	const root = both([of("a", "web", "m:f/1", 100), of("a", "web", "m:same/0", 9), of("a", "db", "m:new/0", 50)],
		[of("a", "web", "m:f/1", 10), of("a", "web", "m:same/0", 5), of("a", "db", "m:gone/0", 60)], ENDED);
	const at = (name, tree = root) => flame.difference(byName(tree, name)[0], tree);

	// as kprof report -stacks -versus has them (test_report_stacks.c)
	same("of 100 and 10 samples", rounded(at("m:f/1")), [0.9, 0.566, 1.281]);
	same("of none on one side", rounded(at("m:new/0")), [0.5, 0.284, 0.779]);
	same("sure, or chance", ["m:f/1", "m:same/0", "m:new/0", "m:gone/0", "web"].map((n) => at(n).sure), [true, false, true, true, true]);
	same("the other way round", rounded(at("m:gone/0")).map((v) => v < 0), [true, true, true]);
	for (const node of nodesOf(root)) {
		near(`${node.name} is as wide as the mean`, node.width, (node.ms + node.then.ms) / 200);
		check(`${node.name}: the interval has the difference`, flame.difference(node, root).low <= flame.difference(node, root).by && flame.difference(node, root).by <= flame.difference(node, root).high);
		check(`${node.name}: the widest first`, node.children.every((c, i, v) => i === 0 || v[i - 1].width >= c.width));
	}
	const lost = both([of("a", "web", "m:f/1", 100)], [of("a", "web", "m:f/1", 10), of("a", "web", "_other", 200)], ENDED);

	check("what was not kept of the tier may be of a function", !at("m:f/1", lost).sure && at("m:f/1", lost).low < -1 && at("_other", lost).sure);
	check("but not of another tier", at("m:f/1", both([of("a", "web", "m:f/1", 100)], [of("a", "web", "m:f/1", 10), of("a", "db", "_other", 200)], ENDED)).sure);
	same("the table, those that differ most first", flame.differing([of("a", "web", "m:f/1", 100), of("a", "web", "m:same/0", 9)],
		[of("a", "web", "m:f/1", 10), of("a", "web", "m:same/0", 5), of("b", "db", "m:f/1", 60)], root).map((r) => [r.name, r.tier, r.differs.sure, r.samples, r.then.samples]),
	[["m:f/1", "web", true, 100, 10], ["m:f/1", "db", true, 0, 60], ["m:same/0", "web", false, 9, 5]]);
	same("per request of each side", rounded(flame.difference(flame.build([of("a", "", "m:f/1", 100)], { requests: ENDED, then:
		{ stacks: [of("a", "", "m:f/1", 50)], requests: ENDED.map((r) => ({ ...r, requests: 50 })) } }), root)).slice(0, 1), [0]);
	same("without requests there is none", at("m:f/1", both([of("b", "", "m:f/1", 9)], [], ENDED)), null);
	same("of other types without theirs", nodesOf(both([of("a", "x", "m:f/1", 1)], [of("b", "x", "m:f/1", 1)], ENDED, { types: false })).map((n) => n.name), ["all that was sampled", "x", "m:f/1"]);
	// two random sides of one rate: one in 1000 may differ
	let seed = 1, sure = 0;
	const random = () => (seed = seed * 48271 % 2147483647) / 2147483647;
	const poisson = (mean) => { let n = -1; for (let p = 1; p > Math.exp(-mean); n++) p *= random(); return n; };
	const figure = (n) => ({ ms: n, samples: n, spread: n, requests: 100 });

	for (let i = 0; i < 20000; i++)
		sure += flame.difference({ ...figure(poisson(1 + i % 40)), then: figure(poisson(1 + i % 40)) }, { ms: 1, samples: 1, then: { ms: 1, samples: 1 } }).sure;
	check("chance alone is hardly ever taken for a difference", sure <= 40, sure);
}

function files() {
	const odd = [stack("a;b\nc", "x;y", "m:f/1:3;Elixir.A.B:g/2", 1.5), stack("a", "", "", 2, { state: "not seen" })];

	same("folded", flame.folded(odd), "a,b c;x;y;m:f/1;A.B.g/2 1500\na;no tier;not seen 2000\n");
	same("line by line", flame.folded(odd, true).split(" 1500")[0], "a,b c;x;y;m:f/1:3;A.B.g/2");
	// a function that calls itself is one box, and one name
	same("recursion", flame.folded([stack("a", "x", "m:f/1:3;m:f/1:4;m:g/1;m:f/1:4;m:f/1:4", 1)]), "a;x;m:f/1;m:g/1;m:f/1 1000\n");
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
const says = (name, at, node, root) => check(name, at.startsWith(`${flame.label(node)}; `) && at.includes(`~${ms(node.ms / node.requests)} a request, ${percent(node.ms / root.ms)} of what is shown`), `${at}, expected ${flame.label(node)} ~${ms(node.ms / node.requests)}`);

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
	const root = rootOf(work);

	says("all", await press(page, "Home"), root, root);
	check("in words", (await text(page, "stacks-words")).includes(`~${ms(root.ms / root.requests)} of processes' time a request`));
	let at = await press(page, "ArrowDown");

	for (const type of root.children) {
		says(`type ${type.name}`, at, type, root);
		at = await press(page, "ArrowRight");
	}
	const states = await page.locator("#states label").evaluateAll((all) => all.map((l) => [l.querySelector("input").value, l.querySelector("span").textContent]));

	same("time by state", states, flame.STATES.map((s) => [s, percent((rootOf(answer.stacks).states[s] ?? 0) / rootOf(answer.stacks).ms)]));
	const each = (v) => `~${ms(v / root.requests)}`;

	const rows = await page.locator("#s-stacks tbody tr").evaluateAll((all) => all.map((tr) => [...tr.cells].map((td) => td.textContent)));

	same("the table", rows.map((r) => [r[0], r[2], r[4], r[5]]), flame.functions(work).slice(0, 25).map((r) =>
		[flame.label({ kind: "frame", name: r.name }), r.samples > 0 ? each(r.ms) : "–", `${r.samples}`, each(r.within)]));
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
	const root = rootOf(work);
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
	const only = answer.stacks.filter((s) => s.state === "running");

	await after(page, () => page.locator("#waits").check());
	says("waits on demand", await press(page, "Home"), rootOf(answer.stacks), rootOf(answer.stacks));
	same("the URL has that", new URL(page.url()).searchParams.get("states"), "all");
	await after(page, () => page.locator("#waits").uncheck());
	same("or not", new URL(page.url()).searchParams.get("states"), null);
	for (const state of flame.STATES.filter((s) => s !== "running" && !flame.WAITS.includes(s)))
		await after(page, () => page.locator(`#states input[value="${state}"]`).uncheck());
	same("the URL has it", new URL(page.url()).searchParams.get("states"), "running");
	says("one state", await press(page, "Home"), rootOf(only), rootOf(only));
	await after(page, () => page.locator("#lines").selectOption("each"));
	const wide = rootOf(only, answer, { lines: true });
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
	const root = rootOf(work.filter((s) => s.identity === identity && s.path.map(wholeTier).includes(tier)),
		(await ask(host, `/api/v1/stacks?identity=${encodeURIComponent(identity)}`)).json);

	says("its stacks", await press(page, "Home"), root, root);
	await after(page, () => page.locator("#tier").selectOption(""));
	await after(page, () => page.locator("#identity").selectOption(""));
	same("and all again", (await press(page, "Home")).split("; ")[1], `~${ms(sum(work, (s) => s.ms) / answer.requests[0].requests)} a request, 100 % of what is shown`);
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

	same("folded", await got("folded"), ["kprofd.folded", flame.folded(work)]);
	const [name, json] = await got("speedscope");

	same("speedscope", [name, JSON.parse(json)], ["kprofd.speedscope.json", flame.speedscope(work, "kprofd")]);
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

	for (const what of ["Of 2 samples the stack was not kept", "Left out: the 7 stacks", "(~150 µs)", "~500 µs of processes' time a request", "~10 requests", "at most 8 frames here", "Every process that was asked was seen"])
		check(`it says: ${what}`, (await text(part, "stacks-words")).includes(what), await text(part, "stacks-words"));
	await close(part, "part");
	const ongoing = await answered([stack("a", "x", "m:f/1", 5)], { requests: [{ identity: "_total", requests: 0 }] });

	check("no request ended", (await text(ongoing, "stacks-words")).includes("No request ended here in this time") && (await press(ongoing, "ArrowDown")).includes("request type: – a request, 100 %"), await text(ongoing, "flame-at"));
	await close(ongoing, "ongoing");
	const broken = await open("?range=all&live=0");

	await broken.route("**/api/v1/stacks?*", (r) => r.fulfill({ status: 500, json: { detail: "no such table" } }));
	await after(broken, () => broken.locator("#views button", { hasText: "stacks" }).click());
	check("an error", (await text(broken, "stacks-empty")).includes("This could not be shown: no such table"));
	await close(broken, "broken", (f) => /500/.test(f));
}

// Against another time, the other nodes, the other types: colours, words and the table.
async function comparing() {
	const now = [of("a", "x", "m:f/1", 100), of("a", "x", "m:same/0", 9)];
	const then = answerOf([of("a", "x", "m:f/1", 10), of("a", "x", "m:same/0", 5), of("a", "x", "m:gone/0", 30)]);
	const page = await answered(now, { versus: then });
	const root = flame.build(now, { depth: 8, requests: then.requests, then });
	const at = async (name) => {
		const { x, w } = flame.layout(root, await page.locator("#flame").evaluate((c) => c.clientWidth)).find((b) => b.node.name === name);

		return page.locator("#flame").evaluate((c, px) => [...c.getContext("2d").getImageData(px * devicePixelRatio, 62 * devicePixelRatio, 1, 1).data.slice(0, 3)], x + w - 4);
	};
	const [more, less, same_] = [await at("m:f/1"), await at("m:gone/0"), await at("m:same/0")];

	check("red takes longer, blue less, grey is chance", more[0] > more[2] && less[2] > less[0] && new Set(same_).size === 1, [more, less, same_].join(" "));
	check("it is said", (await text(page, "stacks-words")).includes("a request takes ~10.9 ms now and ~4.50 ms then: +6.40 ms (99.9 %: "), await text(page, "stacks-words"));
	check("of a box", (await press(page, "ArrowDown", "ArrowDown", "ArrowDown")).startsWith("m:f/1; function: ~50.0 ms a request now, ~5.00 ms then: +45.0 ms (99.9 %: +28.3 ms to +64.1 ms); samples: 100 now, 10 then"), await text(page, "flame-at"));
	check("of one that chance explains", (await press(page, "ArrowRight", "ArrowRight")).includes("~4.50 ms a request now, ~2.50 ms then: no more than chance"), await text(page, "flame-at"));
	const rows = await page.locator("#s-stacks tbody tr").evaluateAll((all) => all.map((tr) => [...tr.cells].slice(0, 5).map((td) => td.textContent)));

	same("the table says it without colours", rows, [["m:f/1", "x", "~10.0 ms", "~1.00 ms", "+9.00 ms"], ["m:gone/0", "x", "~0", "~3.00 ms", "−3.00 ms"],
		["m:same/0", "x", "~900 µs", "~500 µs", "no more than chance"]]);
	await page.locator("#s-stacks").screenshot({ path: join(shots, "stacks-versus.png") });
	await close(page, "comparing");
	const real = await open("?range=all&live=0&view=stacks&node=web@a&compare=nodes");
	const [here, there] = await Promise.all(["web@a", "web@b"].map((n) => ask(host, `/api/v1/stacks?node=${n}`).then((a) => a.json)));
	const nodes = flame.build(here.stacks.filter((s) => work.some((w) => w.state === s.state)), { requests: here.requests, then: { stacks: there.stacks.filter((s) => work.some((w) => w.state === s.state)), requests: there.requests } });

	check("nodes", (await text(real, "stacks-words")).includes(`a request takes ~${ms(nodes.ms / nodes.requests)} here and ~${ms(nodes.then.ms / nodes.then.requests)} on the other nodes`), await text(real, "stacks-words"));
	await real.evaluate(axe);
	same("accessible", (await real.evaluate(() => window.axe.run().then((r) => r.violations.map((v) => `${v.impact} ${v.id}: ${v.nodes.map((n) => n.target).join(" ")}`)))).filter((f) => /^(serious|critical)/.test(f)), []);
	await after(real, () => real.locator("#identity").selectOption("create"));
	await after(real, () => real.locator("#compare").selectOption("types"));
	check("types", (await text(real, "stacks-words")).includes("in the other types") && await real.locator("#flame").isVisible(), await text(real, "stacks-words"));
	await after(real, () => real.locator("#compare").selectOption("chosen"));
	check("another time is chosen there", await real.locator("#vsince").isVisible());
	await after(real, () => real.locator("#compare").selectOption(""));
	check("or nothing", await real.locator("#flame-colors").isHidden());
	await close(real, "real");
	const types = await open("?range=all&live=0&view=stacks&compare=types");

	check("what is missing is said", (await text(types, "stacks-empty")).includes("'against' goes with 'node', 'identity' or 'took'"), await text(types, "stacks-empty"));
	await close(types, "types", (f) => /400/.test(f));
}

// Requests of more than 2^-6 s against the others: figures are SQL's, numbers of requests those of their times.
async function slowFast() {
	const [db, raw] = ["slow.db", "slow.csv"].map((f) => join(dir, f));

	run(join(build, "test", "mkdb"), db, "1795255200", raw);
	const times = readFileSync(raw, "utf8").trim().split("\n").map((l) => l.split(",")).filter(([tier]) => tier === "_total");
	const requests = (is) => sum(times.filter(([, , ns]) => is(Number(ns))), ([, , , weight]) => Number(weight));
	const { host: at } = await web(db);
	const get = async (query) => (await ask(at, `/api/v1/stacks?${query}`)).json;
	const one = (text) => sql(db, text)[0].n;
	const { versus, ...now } = await get("took=15625us&against=durations");
	const all = await get("");

	same("the ends are those of octaves", [now.took, versus.took, all.took], [{ over_ms: 15.625, to_ms: null, other: false }, { over_ms: 15.625, to_ms: null, other: true }, null]);
	same("rounded outwards", (await get("took=16ms,17ms")).took, { over_ms: 15.625, to_ms: 31.25, other: false });
	same("requests of both sides", [now.requests[0].requests, versus.requests[0].requests], [requests((ns) => ns > 15625000), requests((ns) => ns <= 15625000)]);
	same("samples", [now.samples, versus.samples, now.untimed, versus.untimed], [...["over_ms >= 15.625", "over_ms < 15.625", "over_ms is null", "over_ms is null"].map((w) => one(`select sum(samples) n from tier_stacks where ${w}`))]);
	check("there are some of each", now.untimed > 0 && versus.samples > now.samples && now.samples > 20, `${now.samples} ${versus.samples}`);
	for (const [side, is] of [[now, ">="], [versus, "<"]])
		check(`times: ${is}`, Math.abs(sum(side.stacks, (s) => s.ms) - one(`select sum(ms) n from tier_stacks where over_ms ${is} 15.625`)) < 0.1, sum(side.stacks, (s) => s.ms));
	same("what slow ones alone do", [now, versus].map((side) => side.stacks.some((s) => s.frames.at(-1) === "db:rows/1 (list comprehension):31")), [true, false]);
	const page = await openAt(browser, at, "?range=all&live=0&took=15625us&request=1");

	check("it is said", (await text(page, "took-words")).includes("of those that took over 15.6 ms"), await text(page, "took-words"));
	same("slow requests are of it", await page.locator("#s-slow tbody tr").count(), one("select count(*) n from request where total_ns > 15625000"));
	await after(page, () => page.locator("#took-versus").click());
	same("one click", ["view", "compare", "took"].map((k) => new URL(page.url()).searchParams.get(k)), ["stacks", "durations", "15625us"]);
	const shown = (side) => side.stacks.filter((s) => !flame.WAITS.includes(s.state));
	const root = flame.build(shown(now), { requests: now.requests, then: { stacks: shown(versus), requests: versus.requests } });
	const [slow] = flame.differing(shown(now), shown(versus), root).filter((r) => r.differs.sure);

	check("its words", (await text(page, "stacks-words")).includes(`Requests that took over 15.6 ms, against those that took another time. Left out: ${now.untimed} samples`) &&
		(await text(page, "stacks-words")).includes(`a request takes ~${ms(root.ms / root.requests)} in these and ~${ms(root.then.ms / root.then.requests)} in the others`), await text(page, "stacks-words"));
	check("waits are off", !await page.locator("#waits").isChecked());
	const first = await page.locator("#s-stacks tbody tr").first().evaluate((tr) => [...tr.cells].map((td) => td.textContent));

	same("the function that is slow is first", [first[0], first[2], first[3]], [flame.label({ kind: "frame", name: slow.name }), `~${ms(slow.differs.now)}`, `~${ms(slow.differs.then)}`]);
	same("which is that of slow ones", [slow.name, slow.differs.then], ["db:rows/1 (list comprehension)", 0]);
	await page.locator("#s-stacks").screenshot({ path: join(shots, "stacks-slow-fast.png") });
	await page.evaluate(axe);
	same("accessible", (await page.evaluate(() => window.axe.run().then((r) => r.violations.map((v) => `${v.impact} ${v.id}: ${v.nodes.map((n) => n.target).join(" ")}`)))).filter((f) => /^(serious|critical)/.test(f)), []);
	await after(page, () => page.goBack());
	same("back", [await page.locator("#s-slow").isVisible(), new URL(page.url()).searchParams.get("took")], [true, "15625us"]);
	await after(page, () => page.locator("#tree button", { hasText: "slow against fast" }).click());
	same("from a slow request", ["view", "compare", "took", "identity"].map((k) => new URL(page.url()).searchParams.get(k)), ["stacks", "durations", "250ms", one("select i.name n from request r join identity i on i.id = r.identity_id where r.id = 1")]);
	await after(page, () => page.locator("#took-out").click());
	same("the way out", [...["compare", "took"].map((k) => new URL(page.url()).searchParams.get(k)), await page.locator("#took").isHidden()], [null, null, true]);
	await close(page, "slowFast");
	const wrong = await openAt(browser, at, "?range=all&live=0&took=1s,250ms");

	check("a link that cannot be", (await text(wrong, "message")).includes("took=1s,250ms"), await text(wrong, "message"));
	await close(wrong, "wrong");
}

// From what changed to the functions that changed it: one click.
async function why() {
	const at = (m) => `2026-11-21T10:0${m}:00.000Z`;
	const page = await open("?live=0");

	await page.route("**/api/v1/changes?*", (r) => r.fulfill({ json: { start: at(0), end: at(2), step_s: 10, nodes: 2, request_types: 3, too_few: false, left_out: 0, rows_left_out: 0, without_causes: 0,
		changes: [{ what: "mean_ms", identity: "create", nodes: ["web@a"], all_nodes: false, base: at(0), since: at(1), since_within_s: 10, until: null, then: 1, now: 2, change: 1,
			gradual: false, in: null, mark: null, event: null, a_day_before: null, a_week_before: null }] } }));
	await after(page, () => page.locator("#ranges button", { hasText: "all" }).click());
	const [asked] = await Promise.all([page.waitForRequest("**/api/v1/stacks?*"), after(page, () => page.locator("#s-changes button", { hasText: "stacks" }).click())]);
	const q = new URL(asked.url()).searchParams;

	same("after the change against before it", ["since", "until", "identity", "node", "versus"].map((k) => q.get(k)), [at(1), at(2), "create", "web@a", `${at(0)},${at(1)}`]);
	const d = (await ask(host, new URL(asked.url()).pathname + new URL(asked.url()).search)).json;

	same("both sides are there", [d.from, d.to, d.versus.from, d.versus.to].map((t) => t.slice(11, 19)), ["10:01:00", "10:02:00", "10:00:00", "10:01:00"]);
	check("and shown", await page.locator("#flame").isVisible() && (await text(page, "stacks-words")).includes(" now and "), await text(page, "stacks-words"));
	await after(page, () => page.goBack());
	const [slow] = await Promise.all([page.waitForRequest("**/api/v1/stacks?*"), after(page, () => page.locator("#s-changes button", { hasText: "slow against fast" }).click())]);
	const of = new URL(slow.url()).searchParams;

	same("or slow against fast, since then", ["since", "until", "identity", "node", "took", "against"].map((k) => of.get(k)), [at(1), at(2), "create", "web@a", "1954us", "durations"]);
	await close(page, "why");
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
	check("the focus, too, with newer figures", (await press(page)).startsWith("m:g/1; function: ~12.0 ms a request"), await text(page, "flame-at"));
	await close(page, "newer");
}

// As many stacks as the server gives at most.
async function many() {
	const stacks = Array.from({ length: 5000 }, (_, i) => stack(`type ${i % 9}`, "http;db", Array.from({ length: 8 }, (_, k) => `m${(i * (k + 3)) % 97}_x:f/${k}:${i % 13}`).join(";"), 1 + i % 17));
	const page = await answered(stacks);
	const root = rootOf(stacks, answerOf(stacks));

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
		const [type] = flame.build(work).children;
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

await main("stacks_test", [begin, tree, layout, figures, differences, files, asking, sums, zoom, choices, links, hostile, downloads, words, comparing, slowFast, why, newer, many, looks]);
