// missing_test.mjs - the dashboard where something is not there: an identity, a
// tier, an answer, a node, kprofd itself.  What it does not know it must not show
// as if it did, and what it does know stays.
// usage: missing_test.mjs BUILD_DIR NODE_MODULES
import { writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { after, close, launch, open as openAt } from "./page.mjs";
import { ask, build, check, dir, kprof, main, run, same, shots, sql, start, stop, until, web } from "./world.mjs";

const db = join(dir, "saved.db");
const live = join(dir, "live.db");
const cookie = `miss${process.pid}cookie`;
const nodes = [1, 2].map((i) => `webmiss${i}_${process.pid}@127.0.0.1`);
const ebin = join(build, "sample_app", "ebin");
const ALL = "?range=all&live=0";
let browser, saved, daemon, host;

async function begin() {
	run(join(build, "test", "mkdb"), db);
	saved = await web(db);
	browser = await launch();
}

const open = (path, at = saved.host) => openAt(browser, at, path);

const text = (page, id) => page.locator(`#${id}`).textContent();

// By what is written below them.
async function tiles(page) {
	const all = await page.locator(".tile").evaluateAll((v) => v.map((t) => [t.querySelector("span").textContent, t.querySelector("b").textContent]));

	return Object.fromEntries(all);
}

// The time that was measured, where that is not the one asked for.
async function whole() {
	const file = join(dir, "rolled.db");

	run(join(build, "test", "mkdb"), file, "1795255200", "/dev/null", "10s:20s,30s:1m,1m:9d", "150");
	const w = await web(file);
	const page = await open("?range=&since=2026-11-21T10:00:20Z&until=2026-11-21T10:00:40Z&live=0", w.host);

	check("what was measured stands beside what was asked for", /10:00:20 to .*10:00:40 .*, measured in windows from .*10:00:00 to .*10:01:00 UTC$/.test(await text(page, "period")),
		await text(page, "period"));
	check("and there are figures", number((await tiles(page))["requests a second"]) > 0);
	await close(page, "whole");
	const all = await open(ALL, w.host);

	check("nothing is said where they are the same", !/measured/.test(await text(all, "period")), await text(all, "period"));
	await close(all, "whole-all");
}

// Errors that requests handle, and the times of calls that began after them.
async function inside() {
	const file = join(dir, "inside.db");

	run(join(build, "test", "mkdb"), file);
	const w = await web(file);
	const page = await open(ALL, w.host);
	const [{ share, n }] = sql(file, `select 1.0 * sum(raised) / sum(calls + async_calls) share, sum(raised) n from tier_stats
	    where tier = 'database' and identity = '_total'`);
	const shown = (await tiles(page))["errors inside, database"];

	check("a tile has the tier with the largest share", Math.abs(number(shown ?? "") / 100 / share - 1) < 0.1, `${shown} ${share}`);
	const heads = await page.locator("#s-report thead th").evaluateAll((all) => all.map((th) => th.textContent));
	const all = page.locator("#s-report tbody tr").first().locator("td").nth(heads.indexOf("errors inside"));
	const [{ http }] = sql(file, "select sum(raised) http from tier_stats where tier = 'http' and identity = '_total'");

	same("a column has their number", (await all.textContent()).replaceAll(/[~\s]/g, ""), String(n + http));
	check("by tier", /database: .* of its calls/.test(await all.locator("span").getAttribute("title")));
	await close(page, "inside");
	sql(file, "update stat set w_calls = 6 where tier_id = (select id from tier where name = 'database')");
	const late = await open(`${ALL}&tier=database`, w.host);

	check("where most calls began after it, the percentiles are theirs", Math.abs(number((await tiles(late))["p99 after a request's end, database"] ?? "") - 3) < 0.1,
		JSON.stringify(await tiles(late)));
	await close(late, "after");
}

const number = (shown) => Number.parseFloat(shown.replaceAll(/\s/g, ""));

const like = (name, shown, value) => check(name, Math.abs(number(shown) / value - 1) < 0.01, `${shown}, expected ${value}`);

const estimated = (name, shown, value) => {
	check(`${name} looks like an estimate`, shown.startsWith("~"), shown);
	like(name, shown.slice(1), value);
};

// Estimates stand with their intervals: those of the report, in the table of nodes, too.
async function intervals() {
	const far = (v, ends) => Math.max(ends[1] / v, v / ends[0]) - 1;
	const page = await open(ALL);
	const cells = await page.locator("#s-nodes tbody tr").evaluateAll((all) => all.map((tr) => [...tr.cells].map((td) => td.textContent)));
	const heads = await page.locator("#s-nodes thead th").evaluateAll((all) => all.map((th) => th.textContent));
	const { rows, requests, requests_known } = JSON.parse(kprof("report", "-by", "node", "-json", "-db", db));

	same("all requests are as the VM counted them", [requests_known, number(cells[0][heads.indexOf("requests")])], [true, requests]);
	for (const row of rows) {
		const shown = cells.find((c) => c[0] === (row.identity === "_total" ? "all nodes" : row.identity));
		const [whole, , database] = row.tiers;

		for (const [head, cell, v, key] of [["requests", whole, row.requests, "requests"], ["a second", whole, row.requests, "requests"], ["mean", whole, whole.mean_ms, "mean_ms"],
			["database", database, database.self_ms / row.requests, "self_per_request_ms"]]) {
			const [, within] = shown[heads.indexOf(head)].split("±");

			if (row === rows[0] && key === "requests") {
				check(`${head} of all nodes is known`, !/[~±]/.test(shown[heads.indexOf(head)]), shown[heads.indexOf(head)]);
				continue;
			}
			check(`${head} of ${shown[0]} has its interval`, Math.abs(number(within ?? "") - 100 * far(v, cell.intervals[key])) < 0.5, `${shown[heads.indexOf(head)]}, ${JSON.stringify(cell.intervals)}`);
		}
	}
	const [{ tiers: [whole] }] = rows;

	check("so has a tile", Math.abs(number((await tiles(page)).p50.split("±")[1] ?? "") - 100 * far(whole.p50_ms, whole.intervals.p50_ms)) < 0.5, JSON.stringify(await tiles(page)));
	const lines = await page.locator("#s-labels tbody tr").evaluateAll((all) => all.map((tr) => [...tr.cells].map((td) => td.textContent)));
	const [all] = JSON.parse(kprof("report", "-json", "-db", db)).rows;
	const { labels } = all.tiers.find((t) => t.tier === "database");

	labels.forEach((l, i) => {
		for (const [at, v, key] of [[3, l.calls / all.requests, "calls_per_request"], [4, l.busy_per_request_ms, "busy_per_request_ms"], [5, l.mean_ms, "mean_ms"]])
			check(`${key} of ${l.label} has its interval`, Math.abs(number(lines[i][at].split("±")[1] ?? "") - 100 * far(v, l.intervals[key])) < 0.5,
				`${lines[i]}, ${JSON.stringify(l.intervals)}`);
	});
	await close(page, "intervals");
}

// It has no figures, and above all not those of all requests.
async function identity() {
	const page = await open(`${ALL}&identity=nobody`);
	const t = await tiles(page);

	for (const what of ["requests a second", "errors", "p50", "p90", "p99", "slowest"])
		same(`nobody's ${what}`, t[what], "–");
	check("it is said", /No request of nobody was measured/.test(await text(page, "message")));
	for (const id of ["c-rate", "c-time", "c-heat", "c-self"])
		check(`in ${id}, too`, /No request of nobody/.test(await text(page, id)));
	await page.screenshot({ path: join(shots, "identity-missing.png") });
	await after(page, () => page.getByRole("button", { name: "show all requests" }).click());
	check("and there is a way out", (await tiles(page))["requests a second"] !== "–" && !await page.locator("#message").isVisible());
	same("which the URL has", new URL(page.url()).searchParams.get("identity"), null);
	await close(page, "identity");
}

async function tier() {
	const page = await open(`${ALL}&tier=database&identity=create`);
	const report = JSON.parse(kprof("report", "-json", "-db", db));
	const row = report.rows.find((r) => r.identity === "create");
	const cell = row.tiers.find((c) => c.tier === "database"), whole = row.tiers.find((c) => c.tier === "_total");
	const t = await tiles(page);

	check("a test that can fail", cell.p99_ms < whole.p99_ms * 0.95, `${cell.p99_ms} ${whole.p99_ms}`);
	estimated("its calls", t["calls of database a second"], cell.calls / (report.covered_ms / 1e3));
	for (const p of ["p50", "p90", "p99"])
		like(p, t[`${p}, database`], cell[`${p}_ms`]);
	like("slowest", t["slowest, database"], cell.max_ms);
	await page.screenshot({ path: join(shots, "tier.png") });
	await close(page, "tier");
}

// What a report says of itself stands below its table, in place of one, too.
async function hints() {
	const then = "since=2001-01-01T00:00:00Z&until=2001-01-02T00:00:00Z";
	const { json } = await ask(saved.host, `/api/v1/report?${then}`);
	const page = await open(`?${then}&live=0`);

	check("a test that can fail", /nothing was measured in that time/.test(json.hints[0]), JSON.stringify(json.hints));
	same("hints", await page.locator("#s-report .hint").allTextContents(), json.hints);
	await close(page, "hints");
	const odd = await open(ALL);

	same("no hints where nothing is odd", await odd.locator("#s-report .hint").filter({ hasNotText: "one mailbox" }).count(), 0);
	await close(odd, "no hints");
}

// Errors of which a part is seen, all, or nothing; measured, or estimated.
async function seen() {
	const file = join(dir, "part.db");

	run(join(build, "test", "mkdb"), file);
	for (const table of ["stat", "level_stat"])
		sql(file, `update ${table} set unknown_outcomes = 1, w_unknown_outcomes = 1 where identity_id <> (select id from identity where name = 'update');
		    update ${table} set raised = 0, w_raised = 0 where identity_id = (select id from identity where name = 'undefined')`);
	const { host: at } = await web(file);
	const errors = (page) => page.locator("#s-report tbody tr").evaluateAll((all) =>
		Object.fromEntries(all.map((tr) => [tr.cells[0].textContent, tr.cells[4].textContent])));
	const raised = (identity, where) => sql(file, `select sum(s.w_raised) n from stat s join time_window w on w.id = s.window_id
	    join tier t on t.id = s.tier_id join identity i on i.id = s.identity_id
	    where t.name = '_total' and i.name = '${identity}' and ${where}`)[0].n;

	for (const [range, where, part, all] of [["range=all", "1", (n) => `~${n} or more`, (n) => `~${n}`],
		["since=2026-11-21T10:00:00Z&until=2026-11-21T10:01:00Z", "w.start_ns < 1795255260000000000", (n) => `≥ ${n}`, String]]) {
		const page = await open(`?${range}&live=0`, at);
		const cells = await errors(page);

		check(`${range}: a test that can fail`, raised("create", where) > 0, JSON.stringify(cells));
		same(`${range}: a part`, cells.create, part(raised("create", where)));
		same(`${range}: all`, cells.update, all(raised("update", where)));
		same(`${range}: nothing`, cells.unnamed, "–");
		same(`${range}: the tile`, (await tiles(page)).errors, part(raised("_total", where)));
		check(`${range}: the chart says which it draws`, /errors, at least/.test(await text(page, "c-rate")), await text(page, "c-rate"));
		await close(page, range);
	}
	for (const [identity, label] of [["update", "errors"], ["undefined", "errors: not seen"]]) {
		const page = await open(`${ALL}&identity=${identity}`, at);

		check(`the chart of ${identity}`, (await page.locator("#c-rate .label").allTextContents()).includes(label), await text(page, "c-rate"));
		await close(page, identity);
	}
}

// A call that ran on when its request was kept has not failed to end.
async function running() {
	const file = join(dir, "running.db");

	run(join(build, "test", "mkdb"), file);
	sql(file, "update call set outlasts = 1 where outcome = 3");
	const { host: at } = await web(file);
	const page = await open(ALL, at);

	await after(page, () => page.locator("#s-slow tbody button").first().click());
	same("it is said in its lane", (await page.locator(".fall .lane span").allTextContents()).at(-1), "still running");
	check("and of its figures", /self –, still running$/.test(await page.locator(".fall .call .unseen").last().textContent()), await page.locator(".fall .call .unseen").last().textContent());
	await close(page, "running");
}

// Of a database, or a configuration, that has it no more.
async function goneTier() {
	const page = await open(`${ALL}&tier=gone&slow=:gone`);

	check("the link says what it lacks", /no tier gone/.test(await text(page, "message")));
	check("a chart of it, too", /no tier gone/.test(await text(page, "c-time")) && /no tier gone/.test(await text(page, "c-heat")));
	same("others are there", await page.locator("#c-rate .graph, #c-self .graph, #c-sample .graph, #c-cost .graph").count(), 4);
	check("the report is there", await page.locator("#s-report tbody tr").count() > 1);
	same("no time of anything else", (await tiles(page))["p99, gone"], "–");
	await after(page, () => page.getByRole("button", { name: "show the whole request" }).click());
	same("and there is a way out", [await page.locator("#charts .graph").count(), await page.locator("#message").isVisible()], [7, false]);
	await after(page, () => page.locator("#slow-by").selectOption(""));
	check("of the slow requests, too", await page.locator("#s-slow tbody tr").count() > 0);
	await close(page, "gone tier", (f) => /404/.test(f));
}

// Seven charts hear of it: one range, one entry, one refresh.
async function drag() {
	const page = await open(ALL);
	const entries = () => page.evaluate(() => history.length);
	const before = await entries();
	const box = await page.locator("#c-time .graph").boundingBox();
	let asked = 0;

	page.on("request", (r) => { asked += /\/series\?/.test(r.url()); });
	await page.mouse.move(box.x + box.width * 0.3, box.y + 50);
	await page.mouse.down();
	await page.mouse.move(box.x + box.width * 0.7, box.y + 60, { steps: 5 });
	await after(page, () => page.mouse.up());
	same("one entry, one refresh", [await entries() - before, asked], [1, 1]);
	await after(page, () => page.goBack());
	check("one step back is before it", /range=all/.test(page.url()), page.url());
	await close(page, "drag");
}

const PARTS = { "c-rate": "series", "c-heat": "heatmap", "c-cost": "load", "s-report": "report", "s-slow": "slow", "s-losses": "losses", "s-events": "events", "s-flight": "status" };

// What a part is answered once, and what it says of it.
const ODD = {
	nonsense: ["series", { json: {} }, "could not be shown"],
	"half an answer": ["report", { contentType: "application/json", body: '{"rows":[' }, "the answer breaks off"],
};

// Each answer is refused once; one comes that makes no sense, and one breaks off.
async function alone() {
	for (const [part, what] of [...Object.entries(PARTS), ["c-rate", "nonsense"], ["s-report", "half an answer"]]) {
		const [of, answer, reason] = ODD[what] ?? [what, { status: 503, json: { detail: "the-reason" } }, "the-reason"];
		const page = await open(ALL);

		await page.route(of === "status" ? "**/api/v1/status" : `**/api/v1/${of}?*`, (r) => r.fulfill(answer));
		await after(page, () => page.locator("#ranges button").filter({ hasText: "all" }).click());
		check(`${what}: says why not`, (await text(page, part)).includes(reason), await text(page, part));
		for (const [other, asks] of Object.entries(PARTS))
			if (asks !== of && other !== part && of !== "status")
				check(`${what}: ${other} stays`, !/could not be shown|the-reason|breaks off/.test(await text(page, other)) && await page.locator(`#${other}`).locator("canvas, table, .empty").count() > 0);
		check(`${what}: and the tiles`, await page.locator(".tile").count() >= 9 && (of === "report" || (await tiles(page)).p99 !== "–"));
		check(`${what}: a choice is there`, of === "report" || await page.locator("#identity option").count() > 1);
		if (part === "s-report")
			await page.screenshot({ path: join(shots, "panel-alone.png"), fullPage: true });
		await close(page, what, (f) => /503/.test(f) || what === "nonsense");
	}
}

// ---- of a kprofd that runs

async function profile() {
	const file = join(dir, "cookie");

	writeFileSync(file, cookie, { mode: 0o600 });
	for (const name of nodes) {
		const app = await start("test/sample_app/run", [name, ebin, "0", "-setcookie", cookie, "-sample_app", "config", "#{db => #{work_us => 50, wait_ms => 200}}"], /ready \d+/);

		await start("test/sample_app/load", [ebin, /ready (\d+)/.exec(app.text)[1], "2", "600s", "5"], /answered/);
	}
	await first();
	daemon = await profiled("live.db", "2s");
	({ host } = daemon);
}

async function profiled(name, interval) {
	const d = await start(join(build, "kprofd"), [...nodes.flatMap((n) => ["-target", n]), "-tiers", "test/sample_app/tiers.conf",
		"-cookie-file", join(dir, "cookie"), "-db", join(dir, name), "-interval", interval, "-retain", `${interval}:1h`, "-probe", "relay", "-http", "127.0.0.1:0"], /profiling[^]*profiling/);

	d.host = /http:\/\/(\S+)\//.exec(d.text)[1];
	return d;
}

// Before the first window is stored the page has the running one, and says so.
async function first() {
	const d = await profiled("first.db", "1h"), page = await open("", d.host);

	await until("figures of the running window", async () => await page.locator("#s-report tbody tr").count() > 1);
	const { json } = await ask(d.host, "/api/v1/running");

	check("a report of it", json.running && json.left_ms > 0 && json.left_ms <= 3600e3 && json.requests > 0 && json.nodes.length > 0, JSON.stringify(json).slice(0, 300));
	check("nothing is stored", (await ask(d.host, "/api/v1/report")).json.windows === 0);
	check("it is said, and when it ends", /, the running window: \d+ m?.*s? so far; it is stored in \d+ [hm]/.test(await text(page, "period")), await text(page, "period"));
	check("there is a rate", number((await tiles(page))["requests a second"].replace("~", "")) > 0, JSON.stringify(await tiles(page)));
	check("charts say when they begin", /charts begin when it is stored/.test(await text(page, "c-rate")) && /charts begin/.test(await text(page, "c-cost")), await text(page, "c-rate"));
	check("nothing is said to be wrong", !await page.locator("#message").isVisible(), await text(page, "message"));
	await page.screenshot({ path: join(shots, "first-window.png"), fullPage: true });
	kprof("dump", "-db", join(dir, "first.db"));
	await until("charts of what is stored", async () => await page.locator("#charts .graph").count() === 7);
	check("nothing of a running window", !/running window/.test(await text(page, "period")), await text(page, "period"));
	same("nor from the API", (await ask(d.host, "/api/v1/running")).json, { running: false });
	await close(page, "first");
	await stop(d);
}

// A server that takes connections and says nothing.
async function hung() {
	const sockets = new Set();
	let frozen = false;
	const proxy = createServer((s) => {
		const to = connect(Number(saved.host.split(":")[1]), "127.0.0.1");

		for (const [a, b] of [[s, to], [to, s]]) {
			sockets.add(a);
			a.on("data", (d) => frozen || b.write(d));
			a.on("error", () => {});
			a.on("close", () => { sockets.delete(a); b.destroy(); });
		}
	}).listen(0, "127.0.0.1");

	await new Promise((resolve) => proxy.on("listening", resolve));
	for (const query of ["?range=1h", ALL]) {
		const page = await open(query, `127.0.0.1:${proxy.address().port}`);
		const times = [];

		// the machine may be short of processors for a moment
		while (times.length < 3 && !(times.at(-1) <= 10)) {
			frozen = true;
			const start = Date.now();

			await page.waitForFunction(() => /no answer/.test(document.getElementById("daemon").textContent));
			times.push((Date.now() - start) / 1e3);
			check("it looks bad", await page.locator("#daemon[data-state=bad]").count() === 1);
			frozen = false;
			for (const s of sockets)
				s.destroy();
			await page.waitForFunction(() => !/no answer/.test(document.getElementById("daemon").textContent));
		}
		check(`${query}: a server that hangs shows within 10 s`, times.at(-1) <= 10, times.join());
		await close(page, "hung", (f) => /ERR_|Failed to load/.test(f));
	}
	proxy.close();
}

// A window that was closed too early fell into the slot of the one before.
async function holes() {
	const series = await until("ten slots", async () => {
		const { json } = await ask(host, "/api/v1/series?step=2s");

		return json.t.length >= 10 && json;
	});
	const within = "start_ns > (select min(start_ns) from time_window where node_id = w.node_id)";

	check("no slot is empty", series.covered_s.every((s) => s > 0) && series.requests.every((n) => n !== null), JSON.stringify(series));
	same("for windows begin where slots do", sql(live, `select count(*) n from time_window w where ${within} and start_ns % 2000000000 <> 0`), [{ n: 0 }]);
}

const states = () => JSON.parse(kprof("status", "-json", "-db", live)).targets.map((t) => [t.target, t.state]);

async function pause() {
	const page = await open("", host);
	const button = page.locator("#pause");

	await until("both", async () => /2 armed/.test(await text(page, "daemon")));
	same("of all it is said", await button.textContent(), "pause all nodes");
	await page.locator("#nodes summary").click();
	await after(page, () => page.getByLabel(nodes[0]).check());
	await until("the button", async () => await button.textContent() === `pause ${nodes[0]}`);
	await page.setViewportSize({ width: 360, height: 740 });
	// charts follow the window's size a moment later
	await until("a long name that does not hang out of a phone", () => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
	await page.screenshot({ path: join(shots, "pause-phone.png") });
	await page.setViewportSize({ width: 1400, height: 900 });
	await button.click();
	check("the question names the node", (await text(page, "confirm-what")).includes(` in ${nodes[0]} until`));
	await page.locator("#confirm-do").click();
	await until("the pause", async () => await button.textContent() === `resume ${nodes[0]}`);
	same("the other one goes on", states(), [[nodes[0], "paused"], [nodes[1], "armed"]]);
	check("the page says so", /1 of 2 armed/.test(await text(page, "daemon")));
	await page.screenshot({ path: join(shots, "pause-one.png") });
	await button.click();
	await until("the resume", async () => await button.textContent() === `pause ${nodes[0]}`);
	same("both go on", states().map(([, s]) => s), ["armed", "armed"]);
	await close(page, "pause");
}

// Its own server goes with it; another one, of its database, does not.
async function ended() {
	const w = await web(live);
	const own = await open("", host), other = await open("", w.host);

	for (const page of [own, other])
		await until("it is armed, with something in flight", async () => await page.locator("#daemon[data-state=good]").count() === 1 && number((await tiles(page))["in flight now"]) > 0);
	process.kill(daemon.pid, "SIGSTOP");
	await until("no answer", async () => /no answer since \d\d:\d\d:\d\d/.test(await text(other, "daemon")));
	// its own server is stopped, too: the page says so before it gives up its questions
	await until("no answer of its own", async () => /no answer since .*It was asked at/s.test(await text(own, "s-now")));
	same("nor is it green", await own.locator("#daemon[data-state=good]").count(), 0);
	same("nothing is green", await other.locator("#daemon[data-state=good]").count(), 0);
	same("nothing is in flight", (await tiles(other))["in flight now"], "–");
	check("what is saved is there", await other.locator("#s-report tbody tr").count() > 1 && !await other.locator("#message").isVisible());
	process.kill(daemon.pid, "SIGCONT");
	await until("it is back", async () => await other.locator("#daemon[data-state=good]").count() === 1);
	await stop(daemon);
	for (const [page, words, name] of [[own, /^kprofd: no answer since \d\d:\d\d:\d\d UTC$/, "ended"], [other, /not running since 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC$/, "ended-saved"]]) {
		await until("that it has ended", async () => words.test(await text(page, "daemon")));
		same("it is not green", await page.locator("#daemon[data-state=good]").count(), 0);
		same("nothing is in flight", (await tiles(page))["in flight now"], "–");
		check("nor armed", !/armed/.test(await text(page, "s-flight")), await text(page, "s-flight"));
		same("nothing can be paused", await page.locator("#pause").isVisible(), false);
		await page.screenshot({ path: join(shots, `${name}.png`), fullPage: true });
	}
	const [{ at }] = sql(live, "select ended from runs order by run desc limit 1").map((r) => ({ at: r.ended ?? "" }));

	check("since it ended", at === "" || (await text(other, "daemon")).includes(at.slice(11, 19)), `${await text(other, "daemon")} ${at}`);
	await close(own, "ended", (f) => /ERR_|Failed to load/.test(f));
	await close(other, "ended", (f) => /503/.test(f));
	await browser.close();
}

await main("missing_test", [begin, identity, tier, whole, inside, intervals, hints, seen, running, goneTier, drag, alone, hung, profile, holes, pause, ended]);
