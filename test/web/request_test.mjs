// request_test.mjs - one slow request on the page: open at the start, where it stands among
// its type, what it waited for, who was there; its calls zoom, are searched and exported.
// usage: request_test.mjs BUILD_DIR NODE_MODULES
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, axe, close, launch, open as openAt } from "./page.mjs";
import { ask, build, check, dir, kprof, main, run, same, shots, sql, web } from "./world.mjs";

const START = "1795255200";	// see test/support/night.h, which has the requests
const db = join(dir, "night.db");
let browser, host;

const open = (path, options = {}) => openAt(browser, host, path, options);
const shown = async (page) => /request (\d+),/.exec(await page.locator("#tree").textContent())?.[1];
const view = (page) => page.locator(".calls").evaluate((box) => [Number(box.dataset.from), Number(box.dataset.to)]);

async function begin() {
	run(join(build, "test", "mkdb"), db, START, "night");
	({ host } = await web(db));
	browser = await launch();
}

async function atStart() {
	const page = await open("?range=all&live=0");

	same("the slowest is open", await shown(page), "1");
	same("its row shows it", await page.locator("#s-slow tr[aria-current=true] td:nth-child(3)").textContent(), "260 ms");
	same("it takes no focus, nor scrolls, nor is in the URL", await page.evaluate(() => [document.activeElement.tagName, scrollY, location.search]), ["BODY", 0, "?range=all&live=0"]);
	check("it is ringed in the heatmap", /○ request 1$/.test(await page.locator("#c-heat h2").textContent()), await page.locator("#c-heat h2").textContent());
	await after(page, () => page.locator("#identity").selectOption("POST /orders"));
	same("of another choice it is the slowest", await shown(page), "10");
	await page.locator(".calls").focus();
	await page.keyboard.press("+");
	same("who uses it has chosen it", new URL(page.url()).searchParams.get("request"), "10");
	await after(page, () => page.locator("#tree").getByRole("button", { name: "close" }).click());
	same("it can be closed", [new URL(page.url()).searchParams.get("request"), await page.locator("#tree").textContent()],
		["none", "Choose a request to see where its time went, across processes and nodes."]);
	await after(page, () => page.goBack());
	same("and be back", await shown(page), "10");
	await close(page, "at the start");
}

// Its place among all of its type is what SQL says of their histograms.
async function place() {
	const load = ["-json", "-cmd", `.load ${join(build, "kprof_sqlite")}`, db];
	const q = (text) => JSON.parse(run("sqlite3", ...load, text))[0];
	const of = "from stat s join tier t on t.id = s.tier_id join identity i on i.id = s.identity_id where t.name = '_total' and i.name = 'update'";

	for (const id of [3, 4, 8, 1]) {
		const { json } = await ask(host, `/api/v1/requests/${id}?since=2026-11-21T10:00:00Z`);
		const { requests, faster, slowest } = json.place;
		const { n, max, at } = q(`select sum(s.w_timed) n, max(s.max_ns) / 1e6 max, kprof_quantile(kprof_merge(s.hist), ${Math.min(1, faster / requests)}) / 1e6 at ${of}`);

		same(`request ${id}: of all`, requests, n);
		same(`request ${id}: the slowest`, slowest, json.total_ms >= max);
		check(`request ${id}: its place`, slowest || Math.abs(at / json.total_ms - 1) < 0.06, `${at} ${json.total_ms}`);
	}
	const [kept] = sql(db, "select total_ns / 1e6 ms from request where id = 3");
	const page = await open("?range=all&live=0&request=3");
	const [, share, n] = /^slower than (\d+\.\d) % of ([\d ]+) update requests, 2026-11-21 10:00:00 to 2026-11-21 12:00:00$/.exec((await page.locator("#tree-place").textContent()).replaceAll("\u00a0", " ")) ?? [];
	const { json: { place: p } } = await ask(host, "/api/v1/requests/3?since=2026-11-21T10:00:00Z");

	same("the page says it", [share, n?.replaceAll(" ", "")], [(100 * p.faster / p.requests).toFixed(1), String(p.requests)]);
	const here = await page.locator(".times .here").getAttribute("title");
	const [, low, high] = /: ([\d.]+) ms to ([\d.]+) ms/.exec(here) ?? [];

	check("and draws it", low < kept.ms && kept.ms <= high, here);
	await close(page, "place");
	// where some were not measured it is an estimate; and of its own windows without a range
	const some = join(dir, "some.db");

	run(join(build, "test", "mkdb"), some);
	same("an estimate is one", JSON.parse(kprof("tree", "3", "-json", "-db", some)).place.requests_known, true);
	sql(some, "update stat set w_timed = 10 * w_timed");
	same("of samples", JSON.parse(kprof("tree", "3", "-json", "-db", some)).place.requests_known, false);
	check("and kprof tree says so", /^the slowest of ~\d+ requests of its type in its window$/m.test(kprof("tree", "3", "-db", some)), kprof("tree", "3", "-db", some));
}

// Peers, waits, what happened, and what its time was made of.
async function around() {
	const page = await open("?range=all&live=0&request=1");
	const text = await page.locator("#tree").innerText();

	check("the path", text.includes("critical path: formatter:format/1 185 ms (71 %), db:query/2 [orders] 65.0 ms (25 %), web:handle/2 10.0 ms (4 %)"), text);
	check("its pauses", text.includes("of its calls' self times: 18.0 ms in garbage collection, 3.00 ms scheduled out"), text);
	same("those of a call", await page.locator(".fall .call").nth(2).getAttribute("title").then((title) => /self .*?(?=, returned)/.exec(title)?.[0].replaceAll("\u00a0", " ")),
		"self 185 ms (6.00 ms in garbage collection, 1.00 ms scheduled out)");
	check("peers on its node", text.includes("at the same time on this node: GET /orders 90.0 ms, 100 ms later, update 40.0 ms, 250 ms later"), text);
	check("what happened meanwhile", text.includes("100 ms in: reloaded (web2@shop): module formatter was loaded again"), text);
	same("it is a line, too", await page.locator(".calls .event").evaluateAll((all) => all.map((e) => Number.parseFloat(e.style.left).toFixed(1))), ["38.5"]);
	check("mailboxes", /db_server\s+<0.77.0>\s+1\s+3.00 ms\s+3.00 ms\s+web2@shop/.test(text), text);
	await after(page, () => page.locator("#tree").getByRole("button", { name: "GET /orders" }).click());
	same("a peer is a link", [await shown(page), new URL(page.url()).searchParams.get("request")], ["2", "2"]);
	check("and has its own", /update 260 ms, 100 ms earlier/.test(await page.locator("#tree").innerText()), await page.locator("#tree").innerText());
	await after(page, () => page.locator("#tree").getByRole("button", { name: "stacks" }).click());
	same("stacks of its type", new URL(page.url()).search, "?range=all&identity=GET+%2Forders&request=2&view=stacks&live=0");
	await close(page, "around");
}

// No text lies on a bar that does not hold all of it, nor is cut off.
const hidden = (page) => page.locator(".fall .lane").evaluateAll((all) => all.flatMap((lane) => {
	const [bar, text, room] = [lane.querySelector("i"), lane.querySelector("span"), lane].map((e) => e.getBoundingClientRect());

	if (lane.querySelector("i").hidden)
		return [];
	const apart = text.left >= bar.right || text.right <= bar.left || text.top >= bar.bottom || text.bottom <= bar.top;
	const within = text.left >= bar.left && text.right <= bar.right;

	return (apart || within) && text.right <= room.right + 1 && text.left >= room.left - 1 ? [] : [`${text.left}-${text.right}, ${bar.left}-${bar.right}`];
}));

// Steps between ticks are equal, and 1, 2 or 5 times a power of ten.
async function round(page, what) {
	const texts = await page.locator(".fall .axis span").allTextContents();
	const units = { s: 1e3, ms: 1, "µs": 1e-3, ns: 1e-6 };
	const v = texts.map((t) => t === "0" ? 0 : Number.parseFloat(t) * units[t.split(" ")[1]]);
	const steps = v.slice(1).map((x, i) => x - v[i]);

	check(`${what}: ticks`, v.length >= 2 && steps.every((s) => Math.abs(s / steps[0] - 1) < 1e-6) && [1, 2, 5].some((n) => Math.abs(Math.log10(steps[0] / n) % 1) < 1e-6 || Math.abs(Math.abs(Math.log10(steps[0] / n) % 1) - 1) < 1e-6), texts.join());
}

async function zooming() {
	for (const [name, options] of [["desk", {}], ["dark", { colorScheme: "dark" }], ["phone", { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true }]]) {
		const page = await open("?range=all&live=0&request=1", options);
		const steps = async (what) => {
			same(`${name}, ${what}: no bar is hidden`, await hidden(page), []);
			await round(page, `${name}, ${what}`);
		};

		await steps("whole");
		await page.locator(".calls").focus();
		for (const [key, want] of [["+", [65, 195]], ["+", [97.5, 162.5]], ["ArrowRight", [113.75, 178.75]], ["ArrowLeft", [97.5, 162.5]], ["-", [65, 195]]]) {
			await page.keyboard.press(key);
			same(`${name}: ${key}`, await view(page), want);
			await steps(key);
		}
		await page.keyboard.press("0");
		same(`${name}: all`, await view(page), [0, 260]);
		await page.getByRole("button", { name: "zoom in" }).click();
		same(`${name}: button`, await view(page), [65, 195]);
		await page.getByRole("button", { name: "show the whole request" }).click();
		check(`${name}: nothing hangs out`, await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
		await page.evaluate(axe);
		same(`${name}: accessible`, await page.evaluate(() => window.axe.run("#s-slow").then((r) => r.violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target).join(" ")}`))), []);
		await page.locator("#s-slow").screenshot({ path: join(shots, `request_${name}.png`) });
		await close(page, name);
	}
	const page = await open("?range=all&live=0&request=1");
	const drag = async (what, from, to) => {
		await page.locator(what).first().scrollIntoViewIfNeeded();
		const box = await page.locator(what).first().boundingBox();
		const y = box.y + box.height / 2;

		await page.mouse.move(box.x + from * box.width, y);
		await page.mouse.down();
		await page.mouse.move(box.x + to * box.width, y, { steps: 4 });
		await page.mouse.up();
	};
	const near = async (name, want) => check(name, (await view(page)).every((v, i) => Math.abs(v - want[i]) < 3), `${await view(page)}`);

	await drag(".fall .lane", 0.5, 0.25);
	await near("dragging zooms in", [65, 130]);
	await drag(".map", 0.1, 0.9);
	await near("on the map, too", [26, 234]);
	const [before] = [await view(page)];
	const lane = await page.locator(".fall .lane").nth(1).boundingBox();

	await page.mouse.move(lane.x + lane.width, lane.y + 5);
	await page.mouse.wheel(0, 100);
	same("the wheel scrolls", await view(page), before);
	await page.locator(".fall .lane").nth(1).scrollIntoViewIfNeeded();
	const lane2 = await page.locator(".fall .lane").nth(1).boundingBox();

	await page.mouse.move(lane2.x + lane2.width - 1, lane2.y + 5);
	await page.keyboard.down("Control");
	await page.mouse.wheel(0, -100);
	await page.keyboard.up("Control");
	await page.waitForFunction((from) => Number(document.querySelector(".calls").dataset.from) > from + 1, before[0]);
	check("with Ctrl it zooms, where the pointer is", Math.abs((await view(page))[1] - before[1]) < 2, `${await view(page)}`);
	await close(page, "zooming");
}

async function searching() {
	const page = await open("?range=all&live=0&request=1");
	const find = page.locator("#tree input[type=search]");
	const found = async () => [await page.locator("#tree .choices [role=status]").last().textContent(), await page.locator(".fall .hit").evaluateAll((all) => all.map((e) => e.firstChild.data))];

	await find.fill("0.77");
	same("by process", await found(), ["1 of 3 calls", ["db:query/2 [orders]"]]);
	await find.fill("FORMAT");
	same("by function", await found(), ["1 of 3 calls", ["formatter:format/1"]]);
	await find.fill("/");
	await find.press("Enter");
	await find.press("Enter");
	same("from one to the next", [(await found())[0], await page.locator(".fall .at").evaluate((e) => e.firstChild.data)], ["3 of 3 calls, at 2", "db:query/2 [orders]"]);
	await find.fill("nosuch");
	same("none", await found(), ["0 of 3 calls", []]);
	await close(page, "searching");
}

async function leaving() {
	const page = await open("?range=all&live=0");

	await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
	await page.getByRole("button", { name: "copy link" }).click();
	await page.waitForFunction(() => document.getElementById("tree-said").textContent === "copied");
	const url = new URL(await page.evaluate(() => navigator.clipboard.readText()));

	same("a link names request and time", [url.host, url.search], [host, "?since=2026-11-21T10%3A00%3A00.000Z&until=2026-11-21T12%3A00%3A00.000Z&request=1&live=0"]);
	same("its trace", await page.locator("#tree-trace code").allTextContents(), ["4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"]);
	await page.getByRole("button", { name: "copy trace id" }).click();
	await page.waitForFunction(() => navigator.clipboard.readText().then((text) => text === "4bf92f3577b34da6a3ce929d0e0e4736"));
	const again = await open(url.search);

	same("which it opens", await shown(again), "1");
	await close(again, "link");
	for (const [button, form, file] of [["Perfetto", "chrome", "request-1.trace.json"], ["speedscope", "speedscope", "request-1.speedscope.json"], ["OTLP", "otlp", "request-1.otlp.json"]]) {
		const [saved] = await Promise.all([page.waitForEvent("download"), page.locator("#tree").getByRole("button", { name: button }).click()]);

		same(`${button}: its name`, saved.suggestedFilename(), file);
		same(`${button} is as kprof says`, JSON.parse(readFileSync(await saved.path(), "utf8")), JSON.parse(kprof("tree", "1", "-form", form, "-db", db)));
		same(`${button}, and as the API does`, (await ask(host, `/api/v1/requests/1?form=${form}`)).text, kprof("tree", "1", "-form", form, "-db", db));
	}
	await close(page, "leaving");
	await browser.close();
}

await main("request_test", [begin, atStart, place, around, zooming, searching, leaving]);
