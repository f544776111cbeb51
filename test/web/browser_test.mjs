// browser_test.mjs - the dashboard in headless Chromium, of a real kprofd on
// two real nodes.  Screenshots go to BUILD_DIR/web/.
// usage: browser_test.mjs BUILD_DIR NODE_MODULES
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, axe, close, launch, loaded, moment, open as openAt } from "./page.mjs";
import { neverSeen } from "./openapi.mjs";
import { ask, build, check, dir, kprof, main, run, same, shots, sql, start, stop, until, web } from "./world.mjs";

const db = join(dir, "k.db");
const cookie = `web${process.pid}cookie`;
const nodes = [1, 2].map((i) => `webtest${i}_${process.pid}@127.0.0.1`);
const SCRIPT = "<img src=x onerror=alert(1)><script>alert(2)</script>";
const ebin = join(build, "sample_app", "ebin");
let browser, host, daemon, loads, port;

async function begin() {
	const file = join(dir, "cookie");

	writeFileSync(file, cookie, { mode: 0o600 });
	loads = [];
	for (const name of nodes) {
		const app = await start("test/sample_app/run", [name, ebin, "0", "-setcookie", cookie, "-sample_app", "config",
			"#{db => #{work_us => 50, wait_ms => 20}, faults => #{raise => 0.02, slow => 0.01}}"], /ready \d+/);

		[, port] = /ready (\d+)/.exec(app.text);
		loads.push(await start("test/sample_app/load", [ebin, port, "2", "600s", "5"], /answered/));
	}
	const tiers = join(dir, "tiers.conf");

	writeFileSync(tiers, `${readFileSync("test/sample_app/tiers.conf", "utf8")}
{label, fun ({db, _, [#{op := Op} | _]}) when is_atom(Op) -> {Op, <<"${SCRIPT}">>} end}.\n`);
	await profile(db);
	browser = await launch();
}

async function profile(to) {
	daemon = await start(join(build, "kprofd"), [...nodes.flatMap((n) => ["-target", n]), "-tiers", join(dir, "tiers.conf"),
		"-cookie-file", join(dir, "cookie"), "-db", to, "-interval", "10s", "-probe", "relay", "-http", "127.0.0.1:0"], /profiling[^]*profiling/);
	host = /http:\/\/(\S+)\//.exec(daemon.text)[1];
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
	// it asks before it acts, and Enter on what has the focus then does nothing
	const posts = [];

	page.on("request", (r) => r.method() === "POST" && posts.push(new URL(r.url()).pathname));
	for (const end of ["Enter", "Escape"]) {
		await page.locator("#pause").focus();
		await page.keyboard.press("Enter");
		same("what would be done is asked", await page.locator("#confirm-title").textContent(), "pause all nodes?");
		same("to do nothing has the focus", await page.evaluate(() => document.activeElement.textContent), "cancel");
		await page.keyboard.press(end);
		await page.locator("#confirm").waitFor({ state: "hidden" });
		same("the button has it again", await page.evaluate(() => document.activeElement.id), "pause");
	}
	await page.locator("#dump").click();
	check("the same of a dump", /dump\?/.test(await page.locator("#confirm-title").textContent()));
	await page.evaluate(axe);
	same("accessible", await page.evaluate(() => window.axe.run("#confirm").then((r) => r.violations.map((v) => v.id))), []);
	await page.screenshot({ path: join(shots, "confirm.png") });
	await page.getByRole("button", { name: "cancel" }).click();
	await page.waitForTimeout(500);
	same("nothing was done", posts, []);
	await page.locator("#dump").click();
	await page.locator("#confirm-do").click();
	await until("the dump", () => posts.length > 0);
	await page.locator("#pause").click();
	await page.keyboard.press("Tab");
	await page.keyboard.press("Enter");
	await until("the pause", async () => /resume/.test(await page.locator("#pause").textContent()));
	same("each once", posts, ["/api/v1/dump", "/api/v1/pause"]);
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

// With a token that may only read the page says what it may not do, and takes another.
async function reading() {
	const files = ["the-token-that-may-all", "the-token-that-reads"].map((text) => {
		const file = join(dir, text);

		writeFileSync(file, `${text}\n`, { mode: 0o600 });
		return file;
	});
	const w = await web(db, "-http-token-file", files[0], "-http-read-token-file", files[1]);
	const context = await browser.newContext();
	const page = await context.newPage();
	const off = () => page.evaluate(() => ["pause", "dump"].map((id) => document.getElementById(id).disabled));
	const give = async (token) => {
		await page.locator("#token").fill(token);
		await page.getByRole("button", { name: "use it" }).click();
	};

	await page.goto(`http://${w.host}/?range=all&live=0`);
	await give("the-token-that-reads");
	await loaded(page, 1);
	same("what it shows is all", await shown(page), counted("1"));
	same("what may not be done is off", await off(), [true, true]);
	check("with the reason", /may only read/.test(await page.locator("#read-only").textContent()) && await page.locator("#read-only").isVisible());
	await page.evaluate(axe);
	same("accessible", await page.evaluate(() => window.axe.run("header").then((r) => r.violations.map((v) => v.id))), []);
	await page.getByRole("button", { name: "use another" }).click();
	await page.keyboard.press("Escape");
	await page.locator("#ask-token").waitFor({ state: "hidden" });
	same("who gives none keeps it", await off(), [true, true]);
	await page.getByRole("button", { name: "use another" }).click();
	await give("the-token-that-may-all");
	// not by the count of loads: one by the other token may just be over
	await page.locator("#pause:enabled").waitFor();
	same("with the other one it may be done", await off(), [false, false]);
	same("and nothing is said", await page.locator("#read-only").isVisible(), false);
	await context.close();
	await stop(w);
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
	same("the title says what is shown", await page.title(), "read, db, 2 nodes, all times - kprofd");
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
	// the window that its end cuts may be stored only now: then another page has it, too
	await until("the windows of the range", () => sql(db, `select n.name from node n where (select max(end_ns) from time_window where node_id = n.id) < ${Date.parse(q.get("until"))} * 1000000 and n.id in (select node_id from time_window)`).length === 0, 60);
	const later = await open(new URL(page.url()).search);

	same("whose figures are shown", (await shown(later)), counted(`end > '${q.get("since")}' and start < '${q.get("until")}'`));
	await close(later, "of the range");
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
	check("charts are of its calls", (await page.locator("#c-time h2").textContent()).includes(`of one call of ${label}`) && await page.locator("#charts .graph").count() === 7);
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

// Of a chosen type, by the button: waiting is shown, then exactly what was called.
async function traced() {
	await profile(join(dir, "traced.db"));
	const load = await start("test/sample_app/load", [ebin, port, "2", "600s", "5"], /answered/);
	const page = await open("?range=all&live=0&identity=update");

	await page.evaluate(() => {
		const place = document.getElementById("stacks-empty");

		globalThis.waits = [];
		new MutationObserver(() => globalThis.waits.push(place.textContent)).observe(place, { childList: true });
	});
	await page.locator("#trace-next").click();
	await page.waitForURL(/trace=\d+/);
	const [id, began] = new URL(page.url()).searchParams.get("trace").split("-");
	const busy = await ask(host, `/api/v1/traces?identity=create`, { method: "POST", headers: { Origin: `http://${host}`, "X-Kprofd": "1" } });

	same("one at a time", busy.status, 409);
	check("who, and until when", /a request of type 'update' is being traced .*until .* at the latest/.test(busy.json.detail), busy.text);
	await page.waitForFunction(() => /traced whole/.test(document.getElementById("stacks-words").textContent));
	check("it says that it waits", (await page.evaluate(() => globalThis.waits)).some((text) => /The next request of type update on .* is traced: .* at the latest/.test(text)));
	const { json } = await ask(host, `/api/v1/traces/${id}`);

	same("it is done", [json.state, json.result?.begun, json.result?.ended], ["done", 1, 1]);
	const calls = (name) => json.result.functions.find((f) => f.function === name)?.calls;

	same("calls", ["requests:handle_request/2", "formatter:format_response/1", "db:network_request/1"].map(calls).map((n) => n >= 1), [true, true, true]);
	same("the request is one", calls("requests:handle_request/2"), 1);
	const words = await page.locator("#stacks-words").textContent();

	check("it says what it is", /One request of type update on .*, traced whole at .* Times are exact.*“waits” shows/.test(words) && !words.includes("~"), words);
	check("and that it was paused", /kprofd's own tracing paused for/.test(words), words);
	same("columns", await page.locator("#s-stacks thead th").allTextContents(), ["function", "process", "own", "calls", "accumulated", "states, by own time"]);
	await page.locator("#find").fill("handle_request");
	const row = await page.locator("#s-stacks tbody tr").evaluateAll((all) => all.map((tr) => [...tr.cells].map((td) => td.textContent)).find((r) => r[0] === "requests:handle_request/2"));

	check("its row", row === undefined || row[3] === "1", row);
	await page.locator("#s-stacks").screenshot({ path: join(shots, "traced.png") });
	await page.evaluate(axe);
	same("nothing keeps anybody out", (await page.evaluate(() => globalThis.axe.run("#s-stacks"))).violations.map((v) => v.id), []);
	let again = 0;

	page.on("request", (r) => { again += r.url().includes("/traces/"); });
	await after(page, () => page.locator("#live").click());
	await after(page, () => {});
	same("what has ended is not asked for again", again, 0);
	await after(page, () => page.locator("#live").click());
	await after(page, () => page.locator("#trace-over").click());
	check("back to samples, of which there are none", /was sampled in this time/.test(await page.locator("#stacks-empty").textContent()) && !page.url().includes("trace="));
	await close(page, "traced");
	const other = await open(`?range=all&live=0&view=stacks&trace=77`);

	check("one that is not kept", /^There is no trace 77: kprofd keeps the last 4, until it ends. The link is of an earlier kprofd/.test(await other.locator("#stacks-empty").textContent()));
	await close(other, "no trace", (f) => /404/.test(f));
	const earlier = await open(`?range=all&live=0&view=stacks&identity=update&trace=${id}-${began - 60}`);

	check("one of an earlier kprofd", /^Trace \d+ is another one now, of type update: kprofd was started again/.test(await earlier.locator("#stacks-empty").textContent()));
	await after(earlier, () => earlier.locator("#trace-over").click());
	check("the way out", !earlier.url().includes("trace="), earlier.url());
	await close(earlier, "another trace");
	await stop(load);
	await until("kprofd to be back", async () => (await ask(host, "/api/v1/status")).json.armed === 2);
	await stop(daemon);
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
		check(`${name}: what a request has not is left out`, !/\bnull\b/.test(await page.locator("#tree").innerText()));
		await page.evaluate(() => scrollTo(0, 0));
		await page.screenshot({ path: join(shots, `${name}.png`), fullPage: true });
		check(`${name}: nothing hangs out`, await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
		check(`${name}: seven charts are drawn`, await page.locator("#charts .graph").count() === 7);
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
	const total = await page.locator("#s-compare tbody tr").first().evaluate((tr) => [tr.cells[0].textContent, tr.cells[1].querySelector(".soft").textContent]);
	// the VM's own count: those that could not be measured are among all requests, too
	const [{ n, ns }] = sql(db, `select sum(entry_calls) n, (max(end_ns) - min(start_ns)) / 1e9 ns from time_window where start_ns >= ${a} * 1000000000 and start_ns < ${Date.parse(half)} * 1000000`);

	check("and its figures are SQL's", total[0] === "all requests" && Math.abs(digits(total[1]) / (n / ns) - 1) < 0.01, `${total}, ${n / ns}`);
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
	for (const [link, text, out, left] of [
		["range=7d", "The page cannot show range=7d, which this link asks for. It shows: all requests, last 30m.", "go on with that", ""],
		["range=all&since=9999-01-01T00:00:00Z", "The page cannot show since=9999-01-01T00:00:00Z, which this link asks for. It shows: all requests, all times.", "go on with that", "range=all&"],
		["since=2026-11-21T11:00:00Z&until=2026-11-21T10:00:00Z", "The page cannot show since=2026-11-21T11:00:00Z, until=2026-11-21T10:00:00Z, which this link asks for. It shows: all requests, last 30m.", "go on with that", ""],
		["range=all&node=nobody", "Nothing of nobody is stored in this time.", "leave it out", "range=all&"],
		[`range=all&node=nobody&node=${encodeURIComponent(nodes[0])}`, "Nothing of nobody is stored in this time.", "leave it out", `range=all&node=${encodeURIComponent(nodes[0])}&`],
	]) {
		const lost = await open(`?${link}&live=0`);

		same(`${link}: it says so`, await lost.locator("#message p").evaluateAll((all) => all.map((p) => p.firstChild.data)), [text]);
		await after(lost, () => lost.locator("#message").getByRole("button", { name: out }).click());
		same(`${link}: it leads out`, [new URL(lost.url()).search, await lost.locator("#message").isVisible()], [`?${left}live=0`, false]);
		await close(lost, link);
	}
	const cut = await open("?live=0");
	let asked = 0;

	// the first question for the report, not that by node
	await cut.route("**/api/v1/report?*", (r) => r.request().url().includes("by=node") || asked++ > 0 ? r.continue() : r.abort("connectionreset"));
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
	// one sign-in is enough for a browser, also for a page that asks for the token already
	const other = await browser.newContext();
	const stranger = await other.newPage(), second = await context.newPage();

	await second.goto(`http://${w.host}/?range=all&live=0`);
	await loaded(second, 1);
	same("another tab needs none", [await shown(second), await second.locator("#ask-token").isVisible()], [counted("1"), false]);
	await stranger.goto(`http://${w.host}/?range=all&live=0`);
	await stranger.locator("#token").waitFor();
	const third = await other.newPage();

	await third.goto(`http://${w.host}/?range=all&live=0`);
	await third.locator("#token").fill("a-token-of-the-test");
	await third.getByRole("button", { name: "use it" }).click();
	await loaded(stranger, 1);
	same("one that asked is answered", [await shown(stranger), await stranger.locator("#ask-token").isVisible()], [counted("1"), false]);
	same("nothing outlives the tabs", [await other.cookies(), await third.evaluate(() => localStorage.length), third.url().includes("token")], [[], 0, false]);
	// after the last of them it is asked again
	await stranger.close();
	await third.close();
	const later = await other.newPage();

	await later.goto(`http://${w.host}/?range=all&live=0`);
	await later.locator("#token").waitFor();
	await other.close();
	await context.close();
	await browser.close();
}

// What openapi.json says of kprofd's own state is in some answer that the pages got; but long
// mailboxes, and servers that wait, are rare.
function described() {
	same("what is described is answered", neverSeen(["getStatus", "listInFlight", "startTrace", "getTrace"]).filter((at) => !/\.(mailboxes|waits)\./.test(at)), []);
}

await main("browser_test", [begin, live, reading, choosing, labels, tree, comparing, looks, hostile, troubles, traced, token, described]);
