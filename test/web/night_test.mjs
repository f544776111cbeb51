// night_test.mjs - the questions of somebody who is called at night, asked of the page: what
// is slower, since when, in which tier, on which node, after what; where are examples.
// usage: night_test.mjs BUILD_DIR NODE_MODULES
import { join } from "node:path";
import { after, axe, close, launch, open as openAt } from "./page.mjs";
import { ask, build, check, dir, main, run, same, shots, sql, web } from "./world.mjs";

const START = 1795255200;	// 2026-11-21T10:00:00Z; see test/support/night.h
const DEPLOY = "2026-11-21T11:23:20", FAULTS = "2026-11-21T11:33:20", FAULTS_END = "2026-11-21T11:43:20";
const QUIET = "since=2026-11-21T10:20:00Z&until=2026-11-21T10:50:00Z";
const db = join(dir, "night.db");
let browser, host;

const open = (path, options = {}) => openAt(browser, host, path, options);
const far = (a, b) => Math.abs(Date.parse(`${a.slice(0, 19)}Z`) - Date.parse(`${b}Z`)) / 1e3;
const words = (page) => page.locator("#s-changes").innerText();

async function begin() {
	run(join(build, "test", "mkdb"), db, String(START), "night");
	({ host } = await web(db));
	browser = await launch();
}

// The means of one type on one node, from the database.
function means(from, to, column, of) {
	const [row] = sql(db, `select sum(s.${column}) * 1.0 / sum(s.${of}) as v from stat s join time_window w on w.id = s.window_id` +
		" join node n on n.id = w.node_id join tier t on t.id = s.tier_id join identity i on i.id = s.identity_id" +
		` where n.name = 'web2@shop' and t.name = '_total' and i.name = 'update' and w.start_ns >= strftime('%s', '${from}') * 1000000000` +
		` and w.start_ns < strftime('%s', '${to}') * 1000000000`);

	return row.v;
}

async function answers() {
	const { json: all } = await ask(host, "/api/v1/changes");
	const [slow, fails] = all.changes;

	same("two things changed", all.changes.map((c) => [c.what, c.identity, c.nodes.join(), c.in.tier, c.in.node]),
		[["mean_ms", "update", "web2@shop", "formatter", "web2@shop"], ["raised_share", "POST /orders", "web3@shop", "db", "web3@shop"]]);
	check("since the deploy", far(slow.since, DEPLOY) <= 30 && slow.until === null, slow.since);
	check("from the faults on", far(fails.since, FAULTS) <= 30, fails.since);
	check("until they ended", far(fails.until, FAULTS_END) <= 60, fails.until);
	same("after the load there", [slow.event.kind, slow.event.node, fails.event, slow.mark], ["reloaded", "web2@shop", null, null]);
	for (const [name, from, to] of [["then", slow.base, slow.since], ["now", slow.since, all.end]])
		check(`what it was ${name} is as SQL says`, Math.abs(means(from.slice(0, 19), to.slice(0, 19), "w_total_ns", "w_timed") / 1e6 / slow[name] - 1) < 0.02, slow[name]);
	check("its interval holds it", slow.change_low < slow.change && slow.change < slow.change_high);
	check("near the truth", slow.change_low - 0.1 < 14 / 11 && 14 / 11 < slow.change_high + 0.1, `${slow.change_low} ${slow.change_high}`);
	same("a quiet time", (await ask(host, `/api/v1/changes?${QUIET}`)).json.changes, []);
}

// Each question is answered in the first sentence, or by one click from there.
async function night() {
	const page = await open("?range=all&live=0");
	const first = page.locator("#s-changes li").first();
	const click = async (name, want) => {
		await after(page, () => first.getByRole("button", { name, exact: true }).click());
		for (const [key, value] of Object.entries(want))
			same(`${name}: ${key}`, new URL(page.url()).searchParams.get(key), value);
		await after(page, () => page.goBack());
	};

	check("what, since when, in what, where, after what", /^update: \+1[123]\d %, 11\.\d ms to 25\.\d ms since 2026-11-21 11:23:\d\d, in formatter \(3\.\d+ ms to 1[67]\.\d ms a request\) on web2@shop; .* before: module formatter was loaded again \(web2@shop\)\./.test(await first.innerText()), await first.innerText());
	check("the faults come next", /^POST \/orders: 1\d % of the requests fail, 0\.\d % before from 2026-11-21 11:3\d:\d\d to 2026-11-21 11:4\d:\d\d, in db .* on web3@shop\./.test(await page.locator("#s-changes li").nth(1).innerText()), await words(page));
	await page.evaluate(axe);
	same("accessible", await page.evaluate(() => window.axe.run("#s-changes").then((r) => r.violations.map((v) => v.id))), []);
	await page.locator("#s-changes").screenshot({ path: join(shots, "changes.png") });
	await click("update", { identity: "update", node: "web2@shop", tier: null });
	await click("formatter", { identity: "update", tier: "formatter" });
	await click("web2@shop", { node: "web2@shop", identity: null });
	await click("slow ones", { identity: "update", slow: ":formatter" });
	same("three examples", (await first.locator("button[title^=request]").allTextContents()), ["180 ms", "160 ms", "150 ms"]);
	await click("180 ms", { identity: "update", request: "5", since: "2026-11-21T11:23:20.000Z" });
	same("of those that fail", (await page.locator("#s-changes li").nth(1).locator("button[title^=request]").allTextContents()), ["30.0 ms"]);
	await after(page, () => first.getByRole("button", { name: "compare", exact: true }).click());
	same("compared with the time before", new URL(page.url()).searchParams.get("compare"), "chosen");
	check("by tier", /formatter/.test(await page.locator("#s-compare").innerText()));
	await close(page, "night");
}

// What changed, by type and by node: errors and rates are SQL's, and what is no more than
// chance looks so.
async function compared() {
	const now = ["2026-11-21T11:30:00", "2026-11-21T12:00:00"], then = ["2026-11-21T10:20:00", "2026-11-21T10:50:00"];
	const page = await open(`?since=${now[0]}Z&until=${now[1]}Z&compare=chosen&vsince=${then[0]}Z&vuntil=${then[1]}Z&live=0`);
	const cells = (caption, name) => page.locator(`#s-compare table[aria-label="${caption}"] tbody tr`).filter({ has: page.locator(`td:first-child:text-is("${name}"), td:first-child :text-is("${name}")`) })
		.evaluate((tr) => [...tr.cells].map((td) => [td.firstChild.data, ...[...td.querySelectorAll("span, div")].map((e) => e.textContent)]));
	const [rate, errors, mean] = (await cells("Comparison by node", "web2@shop")).slice(1);
	const [{ n, fail }] = sql(db, `select sum(s.w_requests) / 1800.0 n, 100.0 * sum(s.w_raised) / sum(s.w_calls) fail from stat s join time_window w on w.id = s.window_id join node n on n.id = w.node_id
	    join tier t on t.id = s.tier_id join identity i on i.id = s.identity_id where n.name = 'web2@shop' and t.name = '_total' and i.name = '_total'
	    and w.start_ns >= strftime('%s', '${now[0]}') * 1000000000 and w.start_ns < strftime('%s', '${now[1]}') * 1000000000`);

	check("requests a second", Math.abs(Number(rate[0]) / n - 1) < 0.01, `${rate} ${n}`);
	check("errors", Math.abs(Number.parseFloat(errors[0]) - fail) <= 0.051, `${errors} ${fail}`);
	check("by how much, in both ways, with intervals", /^\+3\.\d+ ms \+[23]\.\d+ ms to \+[34]\.\d+ ms$/.test(mean[2]) && /^\+4\d % \+[34]\d % to \+[45]\d %$/.test(mean[3]), mean.join(" | "));
	check("it grew, and looks so", await page.locator("#s-compare .up", { hasText: "pp" }).count() >= 2);
	const quiet = await cells("Comparison", "GET /orders");

	check("what is by chance is marked", quiet.slice(1, 6).every((c) => c.slice(2).every((text) => /^(~|0)/.test(text))), JSON.stringify(quiet));
	check("and has no colour", await page.locator("#s-compare tr", { hasText: "GET /orders" }).first().locator("td:nth-child(-n+7) :is(.up, .down)").count() === 0);
	await page.evaluate(axe);
	same("accessible", await page.evaluate(() => window.axe.run("#s-compare").then((r) => r.violations.map((v) => v.id))), []);
	await page.locator("#s-compare").screenshot({ path: join(shots, "compared.png") });
	await after(page, () => page.locator("#s-compare").getByRole("button", { name: "web2@shop" }).click());
	same("a node leads to it", new URL(page.url()).searchParams.getAll("node"), ["web2@shop"]);
	await close(page, "compared");
}

// What is chosen stays so, and what leads elsewhere leaves the request that was open.
async function chosen() {
	const only = "range=all&live=0&node=web2@shop", page = await open(`?${only}&offset=15&request=3`);
	const { json: c } = await ask(host, "/api/v1/changes?node=web2@shop");
	const query = () => new URL(page.url()).searchParams;

	same("its node's events", c.changes.map((x) => [x.identity, x.all_nodes, x.event?.node]), [["update", true, "web2@shop"]]);
	await after(page, () => page.locator("#s-changes li").first().getByRole("button", { name: "compare", exact: true }).click());
	same("the node, and no request of another time", [query().getAll("node"), query().get("offset"), query().get("request")], [["web2@shop"], null, null]);
	same("the sum is of the type", await page.locator("#s-compare tbody tr").first().locator("td").first().innerText(), "all of these");
	await page.goto(`http://${host}/?${only.replace("web2", "web%5B2-3%5D")}`);
	await page.waitForSelector("#s-nodes tbody tr");
	same("globs choose nodes", (await page.locator("#s-nodes tbody tr").evaluateAll((all) => all.map((tr) => tr.cells[0].textContent))), ["all nodes", "web2@shop", "web3@shop"]);
	await close(page, "chosen");
}

// Where: a table of nodes, of the type that is chosen.
async function nodes() {
	const page = await open("?since=2026-11-21T11:30:00Z&until=2026-11-21T11:59:00Z&identity=update&live=0");
	const rows = await page.locator("#s-nodes tbody tr").evaluateAll((all) => all.map((tr) => [...tr.cells].map((td) => td.textContent)));
	const mean = (row) => Number.parseFloat(row[5]);

	same("a row each", rows.map((r) => r[0]), ["all nodes", "web1@shop", "web2@shop", "web3@shop"]);
	check("one is slow", mean(rows[2]) > 2 * mean(rows[1]) && mean(rows[2]) > 2 * mean(rows[3]), rows.map((r) => r[5]));
	await after(page, () => page.locator("#s-nodes").getByRole("button", { name: "web2@shop" }).click());
	same("leads to it", new URL(page.url()).searchParams.getAll("node"), ["web2@shop"]);
	check("of one node there is no table", await page.locator("#s-nodes").isHidden());
	await close(page, "nodes");
}

// A chart of each node: figures of its own on the same axis, the way to it and back.
async function apart() {
	const range = "since=2026-11-21T11:30:00Z&until=2026-11-21T12:00:00Z", charts = ["c-rate", "c-time", "c-self"];
	const page = await open(`?${range}&live=0`);
	const names = (id) => page.locator(`#${id} .nodes h3 button`).allTextContents();
	const ticks = (p, at) => p.locator(`${at} .dygraph-axis-label-y`).allTextContents();
	const at = (id, node) => page.locator(`#${id} .nodes > div`, { has: page.getByRole("button", { name: node }) });
	const legend = async (id, node) => Object.fromEntries(await at(id, node).locator(".legend > span").evaluateAll((all) => all.map((s) => [s.querySelector(".label").textContent, s.querySelector("b").textContent])));
	const asked = () => page.evaluate(() => performance.getEntriesByType("resource").filter((e) => /series\?.*node=/.test(e.name)).length);
	const busiest = (await ask(host, `/api/v1/report?by=node&${range}`)).json.rows.slice(1).map((r) => r.identity);

	same("none until they are wanted", [await names("c-rate"), await asked()], [[], 0]);
	await after(page, () => page.locator("#by-node").click());
	same("the URL has it, and the button", [new URL(page.url()).searchParams.get("by"), await page.locator("#by-node").getAttribute("aria-pressed"), await asked()], ["node", "true", 3]);
	for (const id of charts) {
		same(`${id}: each node, the busiest first`, await names(id), busiest);
		const [first, ...others] = await Promise.all(busiest.map((node) => at(id, node).locator(".dygraph-axis-label-y").allTextContents()));

		check(`${id}: the same axis`, first.length > 1 && others.every((o) => o.join() === first.join()), JSON.stringify([first, others]));
	}
	const alone = await open(`?${range}&live=0&by=node&node=web1@shop`);

	check("of one node there is one chart", await alone.locator("#by-node").isHidden() && await alone.locator(".nodes").count() === 0);
	check("which has another axis", (await ticks(alone, "#c-self")).join() !== (await at("c-self", "web1@shop").locator(".dygraph-axis-label-y").allTextContents()).join());
	await close(alone, "alone");

	// web1 measured nothing for half a minute
	await at("c-rate", "web1@shop").locator(".graph").focus();
	await page.keyboard.press("n");
	const time = (id, node) => at(id, node).locator(".legend > span").first().textContent();

	check("a node's chart has its own marks and shades", /11:50.* 100 % not measured; trip/.test(await time("c-rate", "web1@shop")), await time("c-rate", "web1@shop"));
	check("in each chart", /100 % not measured; trip/.test(await time("c-time", "web1@shop")), await time("c-time", "web1@shop"));
	check("and no other node's", !/measured|trip/.test(await time("c-rate", "web3@shop")), await time("c-rate", "web3@shop"));
	await page.keyboard.press("Escape");
	await at("c-rate", "web3@shop").locator(".graph").focus();
	same("it says what it is of", await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Requests and errors a second, web3@shop");
	await page.keyboard.press("Home");
	await page.keyboard.press("PageDown");
	for (const node of ["web2@shop", "web3@shop"]) {
		const { json: s } = await ask(host, `/api/v1/series?${range}&node=${node}`);
		const from = Date.parse(s.t[10]) / 1e3, values = { ...await legend("c-rate", node), ...await legend("c-time", node) };
		const [{ n, failed }] = sql(db, `select sum(s.w_requests) / ${s.step_s}.0 n, sum(s.w_raised) / ${s.step_s}.0 failed from stat s join time_window w on w.id = s.window_id join node n on n.id = w.node_id
		    join tier t on t.id = s.tier_id join identity i on i.id = s.identity_id where n.name = '${node}' and t.name = '_total' and i.name = '_total'
		    and w.start_ns >= ${from}000000000 and w.start_ns < ${from + s.step_s}000000000`);

		same(`${node}: the moment`, values.time, s.t[10].slice(11, 19));
		check(`${node}: requests and errors are SQL's`, Math.abs(values.requests - n) < 0.06 && Math.abs(values.errors - failed) < 0.006, `${values.requests} ${n} ${values.errors} ${failed}`);
		check(`${node}: times`, ["p50", "p99"].every((p) => Math.abs(Number.parseFloat(values[p]) / s[`${p}_ms`][10] - 1) < 0.01), JSON.stringify(values));
	}
	await after(page, () => page.evaluate(() => dispatchEvent(new PopStateEvent("popstate"))));
	same("another answer leaves the focus", await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Requests and errors a second, web3@shop");
	await at("c-time", "web2@shop").locator(".graph").focus();
	await page.keyboard.press("Shift+ArrowDown");
	await page.keyboard.press("Shift+ArrowDown");
	check("durations can be selected", /Selected requests that took over [\d.]+ ms\.$/.test(await page.locator("#chart-at").textContent()), await page.locator("#chart-at").textContent());
	await page.keyboard.press("Escape");
	await at("c-rate", "web3@shop").locator(".graph").focus();
	await page.keyboard.press("Home");
	await page.keyboard.press("PageDown");
	check("only one has faults", (await legend("c-rate", "web2@shop")).errors !== (await legend("c-rate", "web3@shop")).errors);
	await page.evaluate(axe);
	same("accessible", await page.evaluate(() => window.axe.run({ rules: { "target-size": { enabled: true } } }).then((r) => r.violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target)}`))), []);
	for (const [width, columns] of [[1440, 3], [1024, 3], [390, 1]]) {
		await page.setViewportSize({ width, height: 900 });
		// the charts hear of it in the next frame
		await page.evaluate(() => new Promise((resolve) => { requestAnimationFrame(() => requestAnimationFrame(resolve)); }));
		same(`${width}: nothing hangs out`, await page.evaluate(() => [...document.documentElement.scrollWidth <= innerWidth ? [] : ["page"], ...[...document.querySelectorAll("#charts .graph, #charts .graph canvas, .nodes > div, .nodes h3, .nodes .legend")]
			.filter((e) => e.getBoundingClientRect().right > e.closest(".chart").getBoundingClientRect().right + 0.5).map((e) => `${e.closest("[id]").id} ${e.className}`)]), []);
		same(`${width}: columns`, await page.evaluate(() => new Set([...document.querySelectorAll("#c-time .nodes > div")].map((e) => e.getBoundingClientRect().left)).size), columns);
		await page.locator("#charts").screenshot({ path: join(shots, `by_node_${width}.png`) });
	}
	await after(page, () => page.goBack());
	same("back", [await names("c-rate"), await page.locator("#c-rate .graph").count()], [[], 1]);
	await after(page, () => page.goForward());
	await after(page, () => at("c-time", "web2@shop").getByRole("button").click());
	same("leads to it", [new URL(page.url()).searchParams.getAll("node"), await names("c-time")], [["web2@shop"], []]);
	await after(page, () => page.goBack());
	same("and back", await names("c-time"), busiest);
	await close(page, "by node");
}

// More nodes than have charts of their own: the others are named.
async function many() {
	const file = join(dir, "many.db"), since = "2026-11-21T11:30:00", until = "2026-11-21T11:36:00";
	const columns = (table) => sql(db, `select name from pragma_table_info('${table}')`).map((c) => c.name);
	const copies = (table, own) => `insert into ${table} (${columns(table)}) select ${columns(table).map((c) => own[c] ?? `x.${c}`)} from ${table} x`;

	sql(db, `vacuum into '${file}'`);
	sql(file, `with recursive i (n) as (values (4) union all select n + 1 from i where n < 18) insert into node (id, name) select 1000 + n, 'web' || n || '@shop' from i;
	    ${copies("time_window", { id: "x.id + 100000 * n.id", node_id: "n.id" })} join node n on n.id > 1000 where x.node_id = (select id from node where name = 'web1@shop')
	    and x.start_ns >= strftime('%s', '${since}') * 1000000000 and x.start_ns < strftime('%s', '${until}') * 1000000000;
	    ${copies("stat", { window_id: "w.id" })} join time_window w on w.id > 100000000 and w.id % 100000 = x.window_id`);
	const more = await web(file);
	const page = await openAt(browser, more.host, `?since=${since}Z&until=${until}Z&live=0&by=node`);
	const all = (await ask(more.host, `/api/v1/report?by=node&since=${since}Z&until=${until}Z`)).json.rows.slice(1).map((r) => r.identity);

	same("a test that can fail", all.length, 18);
	same("the busiest ones", await page.locator("#c-self .nodes h3 button").allTextContents(), all.slice(0, 16));
	same("the others are named", await page.locator("#by-node-rest").textContent(), `Charts are of the 16 busiest nodes. Without one: ${all.slice(16).join(", ")}.`);
	await page.locator("#charts").screenshot({ path: join(shots, "by_node_many.png") });
	await close(page, "many");
}

async function nothing() {
	const page = await open(`?${QUIET}&live=0`);

	check("nothing changed", /^Nothing changed by more than chance: 4 request types on 3 nodes/.test(await words(page)), await words(page));
	await close(page, "quiet");
	const early = await open("?since=2026-11-21T10:00:00Z&until=2026-11-21T10:01:00Z&live=0");

	check("too little to tell", /there is too little in this time to tell/.test(await words(early)), await words(early));
	await close(early, "early");
	const phone = await open("?range=all&live=0", { viewport: { width: 390, height: 844 }, colorScheme: "dark" });

	check("a phone has all of it", await phone.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
	await phone.locator("#s-changes").screenshot({ path: join(shots, "changes_phone.png") });
	await close(phone, "phone");
	await browser.close();
}

await main("night_test", [begin, answers, night, compared, chosen, nodes, apart, many, nothing]);
