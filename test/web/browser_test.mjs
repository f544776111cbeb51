// browser_test.mjs - the dashboard in headless Chromium, of a real kprofd on
// two real nodes.  Screenshots go to BUILD_DIR/web/.
// usage: browser_test.mjs BUILD_DIR NODE_MODULES
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, axe, close, launch, loaded, moment, open as openAt } from "./page.mjs";
import { build, check, dir, kprof, main, run, same, shots, sql, start, stop, until, web } from "./world.mjs";

const db = join(dir, "k.db");
const cookie = `web${process.pid}cookie`;
const nodes = [1, 2].map((i) => `webtest${i}_${process.pid}@127.0.0.1`);
const SCRIPT = "<img src=x onerror=alert(1)><script>alert(2)</script>";
const ebin = join(build, "sample_app", "ebin");
let browser, host, daemon, loads;

async function begin() {
	const file = join(dir, "cookie");

	writeFileSync(file, cookie, { mode: 0o600 });
	loads = [];
	for (const name of nodes) {
		const app = await start("test/sample_app/run", [name, ebin, "0", "-setcookie", cookie, "-sample_app", "config",
			"#{db => #{work_us => 50, wait_ms => 20}, faults => #{raise => 0.02, slow => 0.01}}"], /ready \d+/);

		loads.push(await start("test/sample_app/load", [ebin, /ready (\d+)/.exec(app.text)[1], "2", "600s", "5"], /answered/));
	}
	const tiers = join(dir, "tiers.conf");

	writeFileSync(tiers, `${readFileSync("test/sample_app/tiers.conf", "utf8")}
{label, fun ({db, _, [#{op := Op} | _]}) when is_atom(Op) -> {Op, <<"${SCRIPT}">>} end}.\n`);
	daemon = await start(join(build, "kprofd"), [...nodes.flatMap((n) => ["-target", n]), "-tiers", tiers,
		"-cookie-file", file, "-db", db, "-interval", "10s", "-probe", "relay", "-http", "127.0.0.1:0"], /profiling[^]*profiling/);
	host = /http:\/\/(\S+)\//.exec(daemon.text)[1];
	browser = await launch();
}

const open = (path, options = {}, at = host) => openAt(browser, at, path, options);

// A figure, without its interval.
const plain = (text) => text.replace(/±.*/, "").replaceAll(/\s/g, "");

const digits = (text) => text === "–" ? null : Number(plain(text).replace("~", ""));

const rows = (page) => page.locator("#s-report tbody tr").evaluateAll((all) =>
	all.map((tr) => [...tr.cells].map((td) => td.textContent)));

// All requests are as many as the target counted, of whose others there are no
// figures.  Errors that are not seen are no 0, and marks are part of a figure.
const ERRORS = `json_array(sum(raised), sum(calls) = sum(sampled_calls), sum(unknown_outcomes + ambiguous) +
    iif(sum(calls) > sum(unknown_outcomes + ambiguous + unfinished), 0, sum(unfinished)))`;
const estimate = (n, known) => known ? `${n}` : `~${n}`;

function errors([raised, known, unseen]) {
	if (unseen === 0)
		return estimate(raised ?? 0, known);
	return !raised ? "–" : known ? `≥${raised}` : `~${raised}ormore`;
}

const counts = (where) => sql(db, `select 'all requests' i, sum(w.entry_calls) n, 1 k, (select ${ERRORS} from tier_stats
    where tier = '_total' and identity = '_total' and ${where}) e from (select n.name node, strftime('%Y-%m-%dT%H:%M:%S', start_ns / 1000000000, 'unixepoch') || printf('.%03dZ', start_ns / 1000000 % 1000) start,
    strftime('%Y-%m-%dT%H:%M:%S', end_ns / 1000000000, 'unixepoch') || printf('.%03dZ', end_ns / 1000000 % 1000) end, entry_calls from time_window w join node n on n.id = w.node_id) w where ${where}
    union all select identity, sum(requests), sum(requests) = sum(sampled_requests), ${ERRORS} from tier_stats
    where tier = '_total' and identity <> '_total' and ${where} group by 1 order by 1`);

// What the types do not have has a row.
function counted(where) {
	const all = counts(where);
	const rest = 2 * all[0].n - all.reduce((n, x) => n + x.n, 0);
	const found = all.map((x) => [x.i, estimate(x.n, x.k), errors(JSON.parse(x.e))]);

	if (rest > 0)
		found.push([REST, `${rest}`, "–"]);
	return found.sort(byName);
}

const REST = "not measured";
const byName = (a, b) => a[0] < b[0] ? -1 : 1;

const shown = async (page) => (await rows(page)).map((r) => [r[0], plain(r[2]), plain(r[4])]).sort(byName);

async function live() {
	const page = await open("");
	const requests = async () => digits((await rows(page).catch(() => []))[0]?.[2] ?? "0");
	const first = await until("requests on the page", requests);

	await page.evaluate(() => { window.stays = true; });
	await until("more of them, without a reload", async () => await requests() > first);
	same("it was not loaded anew", await page.evaluate(() => window.stays), true);
	check("both nodes are armed", /2 armed/.test(await page.locator("#daemon").textContent()));
	await until("something in flight", async () => Number(await page.locator("#in-flight b").textContent()) > 0);
	await until("them in the list", async () => await page.locator("#s-now tbody tr").count() > 0);
	const flying = (await page.locator("#s-now tbody tr").first().locator("td").allTextContents());

	check("each with its node and where it is", nodes.includes(flying[2]) && /^(\w+:\w+\/\d|no call of a tier)/.test(flying[3]), flying.join(" | "));
	await page.screenshot({ path: join(shots, "live.png"), fullPage: true });
	await page.locator("#pause").click();
	await until("the pause", async () => /resume/.test(await page.locator("#pause").textContent()));
	check("kprofd is paused", /paused/.test(kprof("status", "-db", db)));
	await page.locator("#pause").click();
	await until("the resume", async () => /pause/.test(await page.locator("#pause").textContent()));
	await close(page, "live");
	await Promise.all(loads.map(stop));
	// what is under way would be in a window that is written behind a page's back
	await until("nothing in flight", () => kprof("status", "-db", db).match(/\d+(?= in flight)/g).every((n) => n === "0"));
	kprof("pause", "-db", db);
	kprof("dump", "-db", db);
}

// What is chosen changes the figures to what SQL says.
async function choosing() {
	const page = await open("?range=all&live=0");

	same("all nodes", await shown(page), counted("1"));
	await page.locator("#nodes summary").click();
	await after(page, () => page.getByLabel(nodes[0]).check());
	same("one node", await shown(page), counted(`node = '${nodes[0]}'`));
	await after(page, () => page.getByLabel(nodes[1]).check());
	same("both", await shown(page), counted("1"));
	await page.keyboard.press("Escape");
	await after(page, () => page.locator("#identity").selectOption("read"));
	check("the URL has it", /identity=read/.test(page.url()) && /node=/.test(page.url()));
	const total = sql(db, "select sum(requests) n, max(max_ms) max from request_stats where identity = 'read'")[0];
	const tile = await page.locator(".tile b").nth(5).textContent();

	check("the tiles follow", Math.abs(Number.parseFloat(tile) * (/ s$/.test(tile) ? 1000 : 1) / total.max - 1) < 0.01, `${tile}, ${total.max}`);
	same("slow requests follow", [...new Set(await page.locator("#s-slow tbody td:nth-child(2)").allTextContents())], ["read"]);
	await after(page, () => page.locator("#tier").selectOption("db"));
	check("of a tier", /call of db/.test(await page.locator("#c-time h2").textContent()));
	await page.goBack();
	await page.waitForFunction(() => document.getElementById("tier").value === "");
	const again = await open(new URL(page.url()).search);

	same("a shared URL shows the same", await shown(again), await shown(page));
	await close(again, "shared");

	// by keyboard: sort by requests, ascending
	await after(page, async () => { await page.locator("#s-report th button", { hasText: "requests" }).focus(); await page.keyboard.press("Enter"); });
	await after(page, () => page.keyboard.press("Enter"));
	const sorted = (await rows(page)).slice(1).filter((r) => r[0] !== REST).map((r) => digits(r[2]));

	same("sorted", sorted, [...sorted].sort((a, b) => a - b));
	same("and said so", await page.locator("#s-report th[aria-sort]").getAttribute("aria-sort"), "ascending");

	// by dragging
	await page.evaluate(() => scrollTo(0, 0));
	const box = await page.locator("#c-rate .graph").boundingBox();

	await page.mouse.move(box.x + box.width * 0.2, box.y + 50);
	await page.mouse.down();
	await page.mouse.move(box.x + box.width * 0.8, box.y + 60, { steps: 5 });
	await after(page, () => page.mouse.up());
	const q = new URL(page.url()).searchParams;

	check("a drag chooses a range", Date.parse(q.get("since")) < Date.parse(q.get("until")), page.url());
	same("whose figures are shown", (await shown(page)), counted(`end > '${q.get("since")}' and start < '${q.get("until")}'`));
	await close(page, "choosing");
}

// Calls by label, as SQL has them: of all types the most, of one all.
async function labels() {
	const page = await open("?range=all&live=0");
	const lines = async () => (await page.locator("#s-labels tbody tr").evaluateAll((all) => all.map((tr) => [...tr.cells].map((td) => td.textContent))));
	const parts = (identity) => sql(db, `select substr(p.tier, 5) label, 1.0 * sum(p.calls) / (select sum(requests) from request_stats where identity = '${identity}') each
	    from tier_stats p where p.tier like 'db: %' and p.identity = '${identity}' group by 1 order by sum(p.calls) desc, 1`);
	const like = (shown, part) => shown[2] === part.label && Math.abs(Number(shown[3]) - part.each) <= Math.max(0.01, part.each / 100);
	const all = parts("_total");
	const head = (await lines()).slice(0, 3);

	check("labels of all requests, those with most calls", all.length >= 3 && head.every((l, i) => like(l, all[i])), JSON.stringify([head, all]));
	same("the others are added up", (await lines())[3]?.[2], all.length > 3 ? `${all.length - 3} other${all.length > 4 ? "s" : ""}` : undefined);
	check("at most five types beside them", new Set((await lines()).map((l) => l[0]).filter((name) => name)).size <= 6);
	check("a label is text", head[0][2].includes(SCRIPT));
	await page.locator("#s-labels").screenshot({ path: join(shots, "labels.png") });
	for (const [picker, first] of [["#tier", "whole request"], ["#slow-by", "total time"]]) {
		const names = await page.locator(`${picker} option`).allTextContents();

		check(`${picker} has tiers and no parts of them`, names[0] === first && names.some((n) => /\bdb$/.test(n)) && !names.some((n) => n.includes(": ")), names.join());
	}
	check("nor have legends", !(await page.locator("#c-self .legend").textContent()).includes(SCRIPT) && !(await page.locator("#s-report .keys").textContent()).includes(SCRIPT));
	await after(page, () => page.locator("#s-labels button", { hasText: /^update$/ }).click());
	const one = await lines();

	check("of one type all labels", one.length === parts("update").length && one[0][0] === "update" && one.every((l, i) => like(l, parts("update")[i])), JSON.stringify([one, parts("update")]));
	// its charts are of the calls with that label
	await after(page, () => page.locator("#s-labels tbody button", { hasText: /^read / }).click());
	const label = `db: ${one.find((l) => l[2].startsWith("read "))[2]}`;
	const [part] = sql(db, `select max(max_ms) max from tier_stats where tier = '${label}' and identity = 'update'`);
	const slowest = await page.locator(".tile b").nth(5).textContent();

	same("a label is chosen", [new URL(page.url()).searchParams.get("tier"), await page.locator("#tier").inputValue()], [label, label]);
	check("charts are of its calls", (await page.locator("#c-time h2").textContent()).includes(`of one call of ${label}`) && await page.locator("#charts .graph").count() === 6);
	check("tiles are its figures", Math.abs(Number.parseFloat(slowest) * (/ s$/.test(slowest) ? 1000 : 1) / part.max - 1) < 0.01, `${slowest}, ${part.max}`);
	same("the table stays", await lines(), one);
	await after(page, () => page.locator("#tier").selectOption("formatter"));
	check("of a tier without labels none", await page.locator("#s-labels").isHidden());
	await close(page, "labels");
}

async function tree() {
	const [worst] = sql(db, "select request, identity, calls from slow_requests order by total_ms desc, request limit 1");
	const page = await open("?range=all&live=0");

	await after(page, () => page.locator("#s-slow tbody button").first().click());
	check("the slowest is opened", (await page.locator("#tree").textContent()).includes(`request ${worst.request},`));
	same("with all its calls", await page.locator(".fall .call").count(), worst.calls);
	same("in order", (await page.locator(".fall .call").evaluateAll((all) => all.map((c) => c.firstChild.textContent))),
		sql(db, `select trim(call) c from slow_calls where request = ${worst.request} order by seq`).map((x) => x.c));
	const lanes = await page.locator(".fall .lane i").evaluateAll((all) => all.map((i) => [Number.parseFloat(i.style.left), Number.parseFloat(i.style.width)]));
	const calls = sql(db, `select start_ms s, total_ms t from slow_calls where request = ${worst.request} order by seq`);
	const end = Math.max(...calls.map((c) => c.s + c.t));

	check("where they were", calls.every((c, i) => Math.abs(lanes[i][0] - Math.min(99.5, 100 * c.s / end)) < 0.1 && Math.abs(lanes[i][1] - 100 * c.t / end) < 0.6), JSON.stringify([lanes, calls]));
	await page.locator("#s-slow").screenshot({ path: join(shots, "waterfall.png") });

	// the page is made anew every few seconds, under the hands of who uses it
	const toggle = () => after(page, () => page.evaluate(() => document.getElementById("live").click()));

	await page.evaluate(() => { document.querySelector(".fall").marked = true; });
	await page.locator("#s-slow tbody button").first().focus();
	await toggle();
	check("what has the focus keeps it", await page.evaluate(() => document.activeElement.closest("#s-slow tbody button") !== null));
	check("an open request stays as it is", await page.evaluate(() => document.querySelector(".fall").marked === true));
	await toggle();

	for (const [by, what] of [["self", "c.seq = 0"], [":db", "t.name = 'db' and c.async = 0"]]) {
		const [first] = sql(db, `select q.identity_id, i.name, sum(c.self_ns) / 1e6 ms from call c join request q on q.id = c.request_id
		    join identity i on i.id = q.identity_id left join tier t on t.id = c.tier_id where ${what} group by q.id order by 3 desc, q.id limit 1`);

		await after(page, () => page.locator("#slow-by").selectOption(by));
		const row = await page.locator("#s-slow tbody tr").first().locator("td").allTextContents();

		check(`the first by ${by}`, row[1] === first.name && Math.abs(Number.parseFloat(row[2]) * (/ s$/.test(row[2]) ? 1e3 : /µs$/.test(row[2]) ? 1e-3 : 1) / first.ms - 1) < 0.01, `${row} ${JSON.stringify(first)}`);
	}
	await after(page, () => page.locator("#slow-by").selectOption(""));
	await after(page, () => page.locator("#next").click());
	check("there is a second page", /offset=15/.test(page.url()));
	await close(page, "tree");
}

async function looks() {
	for (const [name, options, path] of [
		["desktop", {}, "?range=all&live=0&compare=before"],
		["dark", { colorScheme: "dark" }, "?range=all&live=0"],
		["laptop", { viewport: { width: 1024, height: 768 } }, "?range=all&live=0"],
		["wide", { viewport: { width: 1440, height: 900 } }, "?range=all&live=0&identity=update"],
		["phone", { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true }, "?range=all&live=0"],
		["phone-dark", { viewport: { width: 360, height: 740 }, isMobile: true, colorScheme: "dark" }, "?range=all&live=0"]]) {
		const page = await open(path, options);

		await after(page, () => page.locator("#s-slow tbody button").first().click());
		await page.evaluate(() => scrollTo(0, 0));
		await page.screenshot({ path: join(shots, `${name}.png`), fullPage: true });
		check(`${name}: nothing hangs out`, await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
		check(`${name}: six charts are drawn`, await page.locator("#charts .graph").count() === 6);
		check(`${name}: the heatmap has something in it`, await page.locator("#c-heat canvas").first().evaluate((c) => {
			const { data } = c.getContext("2d").getImageData(c.width >> 2, 0, c.width >> 1, c.height);

			for (let i = 0; i < data.length; i += 4)
				if (data[i + 3] > 60 && data[i + 2] > data[i] + 40)
					return true;
			return false;
		}));
		await page.evaluate(axe);
		const found = await page.evaluate(() => window.axe.run().then((r) => r.violations.map((v) => `${v.impact} ${v.id}: ${v.nodes.map((n) => n.target).join(" ")}`)));

		same(`${name}: accessible`, found.filter((f) => /^(serious|critical)/.test(f)), []);
		await close(page, name);
	}
}

// Any two ranges: the second half of the time with the first.
async function comparing() {
	const page = await open("?range=all&live=0");
	const [{ a, b }] = sql(db, "select min(start_ns) / 1000000000 a, max(end_ns) / 1000000000 b from time_window");
	const [from, half] = [a, Math.floor((a + b) / 2)].map((s) => new Date(s * 1e3).toISOString());

	await after(page, () => page.locator("#compare").selectOption("chosen"));
	check("the other range is asked for", await page.locator("#versus").isVisible());
	await after(page, () => page.locator("#vuntil").fill(moment(half)));
	await after(page, () => page.locator("#vsince").fill(moment(from)));
	const q = new URL(page.url()).searchParams;

	same("the URL has it", [q.get("vsince"), q.get("vuntil")], [from, half]);
	const total = (await page.locator("#s-compare tbody tr").evaluateAll((all) => all.map((tr) => [...tr.cells].map((td) => td.textContent)))).find((r) => r[0] === "all requests");
	const [{ n }] = sql(db, `select sum(requests) n from request_stats where identity = '_total' and start >= '${from}' and start < '${half}'`);
	const [{ ns }] = sql(db, `select (max(end_ns) - min(start_ns)) / 1e9 ns from time_window where start_ns >= ${a} * 1000000000 and start_ns < ${Date.parse(half)} * 1000000`);

	check("and its figures are SQL's", total !== undefined && Math.abs(digits(total[2]) / (n / ns) - 1) < 0.05, `${total}, ${n / ns}`);
	await page.locator("#s-compare").screenshot({ path: join(shots, "compare.png") });
	await page.locator("#vuntil").fill(moment("2001-01-01T00:00:00"));
	await page.waitForFunction(() => /begins and ends/.test(document.getElementById("s-compare").textContent));
	await close(page, "comparing");
}

// What targets say is text, wherever it stands.
async function hostile() {
	const copy = join(dir, "hostile.db");

	run(join(build, "test", "mkdb"), copy);
	sql(copy, `update identity set name = '${SCRIPT}' where name = 'update'; update tier set name = '${SCRIPT}' where name = 'http';
	    update event set text = '${SCRIPT}'; update function set name = 'Elixir.MyApp.Repo:' || name || '${SCRIPT}/1'; update call set pid = '${SCRIPT}'`);
	const w = await web(copy);
	const page = await open("?range=all&compare=before&live=0", {}, w.host);

	await after(page, () => page.locator("#s-slow tbody button").first().click());
	check("a script is a name", (await page.locator("#s-report").textContent()).includes(SCRIPT));
	check("calls have labels", /users/.test(await page.locator("#s-labels").textContent()));
	check("in the waterfall, too", (await page.locator("#tree").textContent()).includes(SCRIPT));
	check("a function of Elixir's, too", (await page.locator("#tree").textContent()).includes("MyApp.Repo.") && !(await page.locator("#tree").textContent()).includes("Elixir."));
	check("and in events", (await page.locator("#s-events").textContent()).includes(SCRIPT));
	same("it made no element", await page.locator("main img").count(), 0);
	await after(page, () => page.locator("#identity").selectOption(SCRIPT));
	same("and can be chosen", new URL(page.url()).searchParams.get("identity"), SCRIPT);
	check("the losses are told", /sampled_out/.test(await page.locator("#s-losses").textContent()));
	check("saved data say so", /saved data/.test(await page.locator("#daemon").textContent()) && /No kprofd answers/.test(await page.locator("#s-flight").textContent()));
	await page.screenshot({ path: join(shots, "hostile.png"), fullPage: true });
	await close(page, "hostile");
	await stop(w);
}

// What is empty or wrong says what to do.
async function troubles() {
	const none = await open("?since=2020-01-01T00:00:00Z&until=2020-01-02T00:00:00Z");

	check("an empty range", /Nothing was measured in this time. Choose/.test(await none.locator("#c-rate").textContent()));
	check("its report", /No request was measured here/.test(await none.locator("#s-report").textContent()));
	await none.screenshot({ path: join(shots, "empty.png"), fullPage: true });
	await close(none, "empty");
	const gone = await open("?range=all&live=0&request=999999999");

	check("a request that is gone", /no longer kept/.test(await gone.locator("#tree").textContent()));
	await close(gone, "gone", (f) => /404/.test(f));
	const mangled = await open("?since=x&until=y&range=9y&compare=zz&sort=&order=up&offset=-1&request=../status&live=0");

	same("a URL that says nothing is as none", await mangled.locator("#ranges [aria-pressed=true]").allTextContents(), ["30m"]);
	await close(mangled, "mangled");
	const cut = await open("?live=0");
	let asked = 0;

	await cut.route("**/api/v1/report?*", (r) => asked++ === 0 ? r.abort("connectionreset") : r.continue());
	await after(cut, () => cut.locator("#ranges button").filter({ hasText: "1h" }).click());
	same("a connection that is cut once", [asked, await cut.locator("#message").isVisible()], [2, false]);
	await close(cut, "cut", (f) => /ERR_CONNECTION_RESET/.test(f));
	const page = await open("");

	await stop(daemon);
	await page.waitForFunction(() => /does not answer/.test(document.getElementById("message").textContent));
	check("a kprofd that has gone", /kprof web/.test(await page.locator("#message").textContent()));
	await page.screenshot({ path: join(shots, "gone.png") });
	await close(page, "gone", (f) => /ERR_|Failed to load/.test(f));
}

async function token() {
	const file = join(dir, "token");

	writeFileSync(file, "a-token-of-the-test\n", { mode: 0o600 });
	const w = await web(db, "-http-token-file", file);
	const context = await browser.newContext();
	const page = await context.newPage();

	await page.goto(`http://${w.host}/?range=all&live=0`);
	for (const wrong of ["another-token-of-the-test", "a–token–that–no–header–can–hold"]) {
		await page.locator("#token").fill(wrong);
		await page.getByRole("button", { name: "use it" }).click();
		await page.locator("#token-wrong").waitFor();
	}
	await page.locator("#token").fill("a-token-of-the-test");
	await page.getByRole("button", { name: "use it" }).click();
	await loaded(page, 1);
	same("with the token all is there", await shown(page), counted("1"));
	await context.close();
	await browser.close();
}

await main("browser_test", [begin, live, choosing, labels, tree, comparing, looks, hostile, troubles, token]);
