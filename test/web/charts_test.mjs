// charts_test.mjs - the charts of a saved database: the figures under the cursor, gaps,
// axes, a range to compare with, a range chosen by keys, by a finger or typed in, a phone's
// cards, and the library's licence.
// usage: charts_test.mjs BUILD_DIR NODE_MODULES
import { join } from "node:path";
import { after, axe, close, launch, loaded, open } from "./page.mjs";
import { ask, build, check, dir, main, near, run, same, shots, sql, web } from "./world.mjs";

const ALL = "?range=all&live=0";
const HOLE = 5;			// the step that was not measured
const MARK = 1795255230;	// the window in which somebody marked a deploy
let browser, host, answer, series;	// the same, with times in s

async function begin() {
	const db = join(dir, "k.db");

	run(join(build, "test", "mkdb"), db);
	sql(db, `insert into event (run_id, node_id, at_ns, kind, text) select (select id from run), node_id, start_ns + 1000000000, 'mark', 'deploy of 1.4.2'
	    from time_window where start_ns = ${MARK}000000000 limit 1`);
	({ host } = await web(db));
	answer = (await ask(host, "/api/v1/series?step=10s")).json;
	series = { ...answer, t: answer.t.map((t) => Date.parse(t) / 1e3) };
	check("there are steps on both sides of the hole", series.t.length > HOLE + 3, series.t.length);
	browser = await launch();
}

// A page on which nothing was measured in one step.
async function openWithHole(options) {
	const page = await open(browser, host, "?range=1h&live=0", options);

	await page.route("**/api/v1/series?*", (r) => r.fulfill({ json: holed() }));
	await after(page, () => page.locator("#ranges button").filter({ hasText: "all" }).click());
	return page;
}

function holed() {
	const without = (v) => Array.isArray(v) && typeof v[0] !== "object" ? v.map((x, i) => i === HOLE ? null : x) : v;
	const s = Object.fromEntries(Object.entries(answer).map(([k, v]) => [k, k === "t" || k === "raised_seen" ? v : without(v)]));

	return { ...s, self: s.self.map((c) => ({ ...c, ms: without(c.ms) })) };
}

// [label, figure] of a legend.
const legend = (page, id) => page.locator(`#${id} .legend > span`).evaluateAll((all) =>
	all.map((s) => [s.querySelector(".label").textContent, s.querySelector("b").textContent]));

const hour = (t) => new Date(t * 1e3).toISOString().slice(11, 19);

const inMs = (text) => Number.parseFloat(text) * (/ s$/.test(text) ? 1e3 : /µs$/.test(text) ? 1e-3 : 1);

// Moves the mouse over a step.
async function point(page, id, i) {
	const all = await page.locator(`#${id} canvas`).first().boundingBox();
	const end = series.t.at(-1) + series.step_s;
	const left = 58;	// how wide the labels of the axis are

	await page.mouse.move(all.x + left + (all.width - left) * (series.t[i] + 1 - series.t[0]) / (end - series.t[0]), all.y + 60);
}

// All charts show the step under the cursor, with the API's figures.
async function cursor() {
	const page = await openWithHole();

	same("nothing is pointed at: the last values", [(await legend(page, "c-time"))[0], (await legend(page, "c-max"))[1]],
		[["time", `last, ${hour(series.t.at(-1))}`], ["max", await page.evaluate((v) => import("./format.js").then((f) => f.ms(v)), series.max_ms.at(-1))]]);
	await point(page, "c-time", HOLE + 2);
	const time = hour(series.t[HOLE + 2]);

	for (const id of ["c-rate", "c-time", "c-max", "c-heat", "c-self", "c-sample", "c-cost"])
		same(`${id} shows the time`, (await legend(page, id))[0], ["time", time]);
	for (const [label, text] of [...(await legend(page, "c-time")).slice(1, 4), ...(await legend(page, "c-max")).slice(1)])
		check(label, Math.abs(inMs(text) / series[`${label}_ms`][HOLE + 2] - 1) < 0.01, text);
	const rates = Object.fromEntries(await legend(page, "c-rate"));

	check("requests a second", Math.abs(rates.requests / (series.requests[HOLE + 2] / series.covered_s[HOLE + 2]) - 1) < 0.01, rates.requests);
	for (const { tier, ms } of series.self) {
		const [, text] = (await legend(page, "c-self")).find(([label]) => label === tier) ?? [];

		check(`self time of ${tier}, not a sum`, text === undefined || Math.abs(inMs(text) / (ms[HOLE + 2] / series.requests[HOLE + 2]) - 1) < 0.01, text);
	}
	await page.mouse.move(2, 2);
	check("nothing is pointed at any more", /^last, /.test((await legend(page, "c-heat"))[0][1]), (await legend(page, "c-heat"))[0]);
	await close(page, "cursor");
}

// Where nothing was measured nothing is drawn.
async function gap() {
	const page = await openWithHole();

	await point(page, "c-time", HOLE);
	same("no figure", (await legend(page, "c-time")).slice(1, 4).map(([, text]) => text), ["–", "–", "–"]);
	const painted = (i) => page.locator("#c-self canvas").first().evaluate((c, part) => {
		const scale = c.width / c.clientWidth, left = 58 * scale;
		const x = Math.round(left + (c.width - left) * part);
		const { data } = c.getContext("2d").getImageData(x, 0, 1, c.height);
		let n = 0;

		for (let k = 0; k < data.length; k += 4)
			n += data[k + 3] > 200 && Math.max(...data.slice(k, k + 3)) - Math.min(...data.slice(k, k + 3)) > 60;
		return n / c.height;
	}, (i + 0.1) / series.t.length);

	check("a step that was measured", await painted(HOLE + 2) > 0.3, await painted(HOLE + 2));
	near("one that was not", await painted(HOLE), 0);
	await close(page, "gap");
}

const ticks = (page, id, axis) => page.locator(`#${id} .dygraph-axis-label-${axis}`).allTextContents();

// The axis is as long as the range; one slow request flattens nothing; a logarithm on demand.
async function axes() {
	const wide = await open(browser, host, "?since=2026-11-21T09:30:00Z&until=2026-11-21T10:30:00Z&live=0");
	const hours = await ticks(wide, "c-time", "x");

	check("all of the range", hours.some((t) => t < "09:45") && hours.some((t) => t > "10:15"), hours.join());
	await close(wide, "wide");

	const page = await open(browser, host, "?range=1h&live=0");

	await page.route("**/api/v1/series?*", (r) => r.fulfill({ json: { ...answer, max_ms: series.max_ms.map((v, i) => i === HOLE ? 9e6 : v) } }));
	await after(page, () => page.locator("#ranges button").filter({ hasText: "all" }).click());
	const most = async () => Math.max(...(await ticks(page, "c-time", "y")).map(inMs));

	check("an outlier does not flatten percentiles", await most() < 2 * Math.max(...series.p99_ms), await most());
	check("it is in a chart of its own", (await ticks(page, "c-max", "y")).some((t) => inMs(t) > 1e6), (await ticks(page, "c-max", "y")).join());
	const linear = await ticks(page, "c-time", "y");

	await after(page, () => page.locator("#log").click());
	check("a logarithmic axis begins above 0", linear.includes("0") && !(await ticks(page, "c-time", "y")).includes("0"), (await ticks(page, "c-time", "y")).join());
	same("the URL has it, and the button", [new URL(page.url()).searchParams.get("log"), await page.locator("#log").getAttribute("aria-pressed")], ["1", "true"]);
	await page.locator("#charts").screenshot({ path: join(shots, "log.png") });
	await close(page, "axes");
}

// Lost requests and times are shaded, as much as they are; other losses are not.
async function shades() {
	const { json: load } = await ask(host, "/api/v1/load?step=10s");
	const at = (i, n) => load.t.map((t, k) => k === i ? n : 0);
	const page = await open(browser, host, "?range=1h&live=0");
	const losses = [{ cause: "unseen", unit: "requests", lost: at(3, 50) }, { cause: "unarmed", unit: "ms", lost: at(4, 20e3 * 0.25) },
		{ cause: "uncounted", unit: "ms", lost: at(4, 20e3 * 0.25) }, { cause: "stale", unit: "calls", lost: at(6, 99) },
		{ cause: "sampled_out", unit: "requests", lost: at(7, 99) }, { cause: "timed", unit: "requests", lost: at(8, 99) }];

	await page.route("**/api/v1/load?*", (r) => r.fulfill({ json: { ...load, entry_calls: at(3, 100), losses } }));
	await after(page, () => page.locator("#ranges button").filter({ hasText: "all" }).click());
	const shaded = (i) => page.locator("#c-time canvas").first().evaluate((c, part) => {
		const scale = c.width / c.clientWidth, left = 58 * scale, bottom = 24 * scale;
		const x = Math.round(left + (c.width - left) * part), h = Math.round(c.height - bottom);
		const { data } = c.getContext("2d").getImageData(x, 0, 1, h);
		let n = 0;

		for (let k = 0; k < data.length; k += 4)
			n += data[k + 3] > 0 && data[k] > data[k + 2] + 60;
		return n / h;
	}, (i + 0.6) / load.t.length);

	for (const [i, part] of [[3, 0.5], [4, 0.25], [6, 0], [7, 0], [8, 0]]) {
		await point(page, "c-time", i);
		check(`step ${i} is shaded by ${part}`, Math.abs(await shaded(i) - part) < 0.08, await shaded(i));
		const [, text] = (await legend(page, "c-time"))[0];

		check(`and it is said of step ${i}`, part > 0 ? text.includes(` ${part * 100} % not measured`) : !/not measured/.test(text), text);
	}
	await after(page, () => page.locator("#s-nodes").getByRole("button", { name: "web@a" }).click());
	await page.locator("#c-time").scrollIntoViewIfNeeded();
	await point(page, "c-time", 4);
	check("of one node it is twice as much", / 50 % not measured/.test((await legend(page, "c-time"))[0][1]), (await legend(page, "c-time"))[0][1]);
	await close(page, "shades");
}

// An earlier range over the present one, moment by moment.
async function overlay() {
	const page = await open(browser, host, "?since=2026-11-21T10:01:00Z&until=2026-11-21T10:02:00Z&compare=before&live=0");
	const row = (t, s) => s.t.indexOf(t);
	const box = await page.locator("#c-time .graph").boundingBox();

	await page.mouse.move(box.x + 58 + (box.width - 58) * 0.52, box.y + 60);
	const values = Object.fromEntries(await legend(page, "c-time"));
	const now = series.t.find((t) => hour(t) === values.time.slice(0, 8)), then = row(now - 60, series);

	check("a test that can fail", then >= 0 && series.p99_ms[then] !== series.p99_ms[row(now, series)], values.time);
	for (const p of ["p50", "p90", "p99"]) {
		check(`${p} now`, Math.abs(inMs(values[p]) / series[`${p}_ms`][row(now, series)] - 1) < 0.01, values[p]);
		check(`${p} then`, Math.abs(inMs(values[`${p}, then`]) / series[`${p}_ms`][then] - 1) < 0.01, values[`${p}, then`]);
	}
	const rates = Object.fromEntries(await legend(page, "c-rate")), self = Object.fromEntries(await legend(page, "c-self"));

	check("requests then", Math.abs(rates["requests, then"] / (series.requests[then] / series.covered_s[then]) - 1) < 0.01, rates["requests, then"]);
	check("self times then, added up", Math.abs(inMs(self["all, then"]) / (series.self.reduce((n, c) => n + c.ms[then], 0) / series.requests[then]) - 1) < 0.01, self["all, then"]);
	same("its keys are dashed", await page.locator("#c-time .legend i").evaluateAll((all) => all.map((i) => i.style.borderStyle).slice(0, 6)), ["", "", "", "dashed", "dashed", "dashed"]);
	await page.locator("#charts").screenshot({ path: join(shots, "overlay.png") });
	await after(page, () => page.locator("#compare").selectOption(""));
	check("it goes with the comparison", !(await legend(page, "c-time")).some(([label]) => /then/.test(label)));
	await close(page, "overlay");
}

// Twelve tiers have twelve colours, in light and dark.
async function colours() {
	for (const colorScheme of ["light", "dark"]) {
		const page = await open(browser, host, ALL, { colorScheme });
		const all = await page.evaluate(() => import("./charts.js").then((c) => Array.from({ length: 13 }, (x, i) => c.color(c.tierColor(i)))));
		const rgb = all.map((c) => [1, 3, 5].map((i) => Number.parseInt(c.slice(i, i + 2), 16)));
		const apart = rgb.flatMap((a, i) => rgb.slice(0, i).map((b) => Math.hypot(...a.map((v, k) => v - b[k]))));

		check(`${colorScheme}: apart`, Math.min(...apart) > 30, `${Math.min(...apart)} ${all}`);
		await close(page, colorScheme);
	}
}

// Without a mouse: values, events, a range.
async function keys() {
	const page = await open(browser, host, ALL);
	const graph = page.locator("#c-time .graph"), said = () => page.locator("#chart-at").textContent();
	const press = async (...all) => {
		for (const k of all)
			await page.keyboard.press(k);
	};

	await graph.focus();
	same("it says what it is and how to use it", [await graph.getAttribute("aria-label"), /Left and right/.test(await page.locator(`#${await graph.getAttribute("aria-describedby")}`).textContent())], ["Time of one request, ms", true]);
	await press("Home", "ArrowRight", "ArrowRight");
	check("the third step is read", (await said()).startsWith(`${hour(series.t[2])}. p99 `), await said());
	for (const p of ["p50", "p90", "p99"])
		check(p, Math.abs(inMs(new RegExp(`${p} ([^,.]*(\\.\\d+)?[^,.]*)`).exec(await said())[1]) / series[`${p}_ms`][2] - 1) < 0.01, await said());
	same("all charts follow", (await legend(page, "c-cost"))[0][1], hour(series.t[2]));
	await press("Home", "n");
	check("the next event", new RegExp(`^${hour(MARK)} mark \\(web@.\\): deploy of 1.4.2`).test(await said()), await said());
	await press("End", "p", "p");
	check("the one before the last", (await said()).includes("deploy of 1.4.2"), await said());
	await press("Home", "ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight");
	check("a range is said", (await said()).endsWith(` Selected from ${hour(series.t[1])} to ${hour(series.t[4])}.`), await said());
	check("and shown", await page.locator("#c-time .selected").isVisible());
	await press("Escape");
	check("it can be given up", await page.locator("#c-time .selected").isHidden());
	await press("Home", "ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight");
	await after(page, () => press("Enter"));
	const q = new URL(page.url()).searchParams;

	same("Enter shows it", [q.get("since"), q.get("until")].map((t) => Date.parse(t) / 1e3), [series.t[1], series.t[4]]);
	check("the focus stays", await graph.evaluate((e) => e === document.activeElement));
	await page.evaluate(axe);
	same("accessible, with targets of 24 px", await page.evaluate(() => window.axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"], rules: { "target-size": { enabled: true } } })
		.then((r) => r.violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target)}`))), []);
	await close(page, "keys");
}

// A region of the heatmap, or of the percentiles: by mouse, and by keys.
async function regions() {
	const page = await open(browser, host, ALL);
	const params = () => { const q = new URL(page.url()).searchParams; return ["since", "until", "took"].map((k) => q.get(k)); };
	const drag = async (chart, from, to) => {
		await page.locator(`#${chart} .graph`).scrollIntoViewIfNeeded();
		const box = await page.locator(`#${chart} .graph`).boundingBox();
		const at = ([x, y]) => [box.x + 60 + x * (box.width - 66), box.y + y * (box.height - 24)];

		await page.mouse.move(...at(from));
		await page.mouse.down();
		await page.mouse.move(...at(to), { steps: 4 });
	};
	const drop = () => after(page, () => page.mouse.up());
	const words = () => page.locator("#took-words").textContent();
	const again = async () => {
		await page.goto(`http://${host}/${ALL}`);
		await loaded(page, 1);
	};

	check("none is chosen", await page.locator("#took").isHidden());
	await drag("c-heat", [0.2, 0.5], [0.7, 0.05]);
	const px = await page.locator("#c-heat .selected").boundingBox(), whole = await page.locator("#c-heat .graph").boundingBox();

	check("the region is shown", px.height < 0.7 * whole.height && px.height > 20, JSON.stringify(px));
	await drop();
	const [since, until, took] = params();
	const [, over, most] = /^(\d+)us,?(\d+)?|^\d+ms/.exec(took) ?? [];

	check("time and durations", Date.parse(since) < Date.parse(until) && Date.parse(until) - Date.parse(since) < 100e3, `${since} ${until}`);
	check("octaves", took !== null && [over, most].filter(Boolean).every((v) => Math.abs(Math.log2(v / 1e6) % 1) < 1e-3 || Math.abs(Math.abs(Math.log2(v / 1e6) % 1) - 1) < 1e-3), took);
	check("it is said", /^slow requests and stacks: of those that took over [\d.]+ ms/.test(await words()), await words());
	check("the list has it", await page.evaluate(() => performance.getEntriesByType("resource").some((e) => /api\/v1\/slow\?.*took=/.test(e.name))));
	await after(page, () => page.goBack());
	same("back", [...params(), await page.locator("#took").isHidden()], [null, null, null, true]);
	await after(page, () => page.goForward());
	same("and forth", params(), [since, until, took]);
	await after(page, () => page.locator("#took-out").click());
	same("the way out", params(), [since, until, null]);
	await drag("c-time", [0.3, 0.5], [0.8, 0.52]);
	await drop();
	same("across alone it is a time", params()[2], null);
	await again();
	await drag("c-time", [0.5, 0.6], [0.502, 0.05]);
	await drop();
	check("upwards alone, durations of all the time", params()[2] !== null && Date.parse(params()[1]) - Date.parse(params()[0]) > 100e3, params().join());
	await again();
	await page.locator("#c-heat .graph").focus();
	await page.keyboard.press("Shift+ArrowDown");
	await page.keyboard.press("Shift+ArrowDown");
	check("keys say the durations", /Selected requests that took over [\d.]+ ms\.$/.test(await page.locator("#chart-at").textContent()), await page.locator("#chart-at").textContent());
	await page.keyboard.press("Escape");
	check("they can be given up", await page.locator("#c-heat .selected").isHidden());
	for (const k of ["Home", "Shift+ArrowRight", "Shift+ArrowRight", "Shift+ArrowDown"])
		await page.keyboard.press(k);
	await after(page, () => page.keyboard.press("Enter"));
	check("Enter shows both", params().every((v) => v !== null) && !params()[2].includes(","), params().join());
	await close(page, "regions");
	const tier = await open(browser, host, `${ALL}&tier=http`);

	await tier.locator("#c-heat .graph").focus();
	await tier.keyboard.press("Shift+ArrowDown");
	check("calls of a tier are no requests", await tier.locator("#c-heat .selected").isHidden());
	await close(tier, "tier");
}

// On a phone tables are cards, sections fold, and what was tapped comes into view.
async function phone() {
	for (const colorScheme of ["light", "dark"]) {
		const page = await open(browser, host, `${ALL}&compare=before`, { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, colorScheme });
		const report = page.locator("#s-report"), fold = report.locator(".fold");

		check("nothing hangs out", await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth && [...document.querySelectorAll(".scroll")].every((e) => e.scrollWidth <= e.clientWidth)));
		const [mean] = await report.locator("tbody tr").first().locator("td[data-head=mean]").evaluateAll((all) => all.map((td) => [getComputedStyle(td, "::before").content, td.textContent]));

		check("a cell has its head", mean[0] === '"mean"' && / ms/.test(mean[1]), mean.join());
		check("rows can be sorted", await report.locator("th button", { hasText: "p99" }).isVisible());
		await fold.tap();
		same("a section folds", [await report.locator("table").isVisible(), await fold.getAttribute("aria-expanded"), await report.locator("h2").isVisible()], [false, "false", true]);
		await fold.tap();
		check("and unfolds", await report.locator("table").isVisible() && await fold.getAttribute("aria-expanded") === "true");
		check("the last ones are folded", await page.locator("#s-events table").isHidden());
		await page.locator("#s-events .fold").tap();
		check("until they are wanted", await page.locator("#s-events table").isVisible());
		await after(page, () => page.locator("#s-slow tbody button").first().tap());
		const { top, shown } = await page.locator("#tree h3").evaluate((e) => ({ top: e.getBoundingClientRect().top, shown: innerHeight }));

		check("a tapped request is in view", top >= 0 && top < shown / 2, `${top} of ${shown}`);
		await page.evaluate(axe);
		same(`${colorScheme}: accessible`, await page.evaluate(() => window.axe.run({ rules: { "target-size": { enabled: true } } }).then((r) => r.violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target)}`))), []);
		await page.screenshot({ path: join(shots, `phone-${colorScheme}-cards.png`), fullPage: true });
		await close(page, "phone");
	}
	const desk = await open(browser, host, ALL);

	check("elsewhere nothing folds", await desk.locator(".fold:visible").count() === 0 && await desk.locator("#s-events table").isVisible());
	await close(desk, "desk");
}

// A finger chooses a range by moving sideways.
async function finger() {
	const page = await open(browser, host, ALL, { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true });
	const graph = page.locator("#c-rate .graph");

	await graph.scrollIntoViewIfNeeded();
	const box = await graph.boundingBox();
	const client = await page.context().newCDPSession(page);
	const touch = (type, part) => client.send("Input.dispatchTouchEvent", { type,
		touchPoints: part === undefined ? [] : [{ x: box.x + box.width * part, y: box.y + 80 }] });

	await touch("touchStart", 0.4);
	for (const part of [0.5, 0.6, 0.7])
		await touch("touchMove", part);
	await after(page, () => touch("touchEnd"));
	const q = new URL(page.url()).searchParams;
	const [since, until] = ["since", "until"].map((k) => Date.parse(q.get(k)) / 1e3);

	check("a range in the middle", series.t[0] < since && since < until && until < series.t.at(-1), page.url());
	await close(page, "finger");
}

// A range is typed in, in local time or UTC; the URL has its moments, and the page the zone.
async function picker() {
	const page = await open(browser, host, ALL, { timezoneId: "Asia/Kolkata" });
	const field = (id) => page.locator(`#${id}`);
	const fields = async () => [await field("since").inputValue(), await field("until").inputValue()];
	const words = (id) => page.locator(`#${id}`).textContent();

	same("the zone is said", await words("period"), "2026-11-21 15:30:00 to 2026-11-21 15:32:00 UTC+05:30 (2 m)");
	await page.locator("#picker summary").focus();
	await page.keyboard.press("Enter");
	await page.waitForFunction(() => document.getElementById("since").value !== "");
	same("it begins with what is shown", await fields(), ["2026-11-21T15:30", "2026-11-21T15:32"]);
	await field("since").fill("2026-11-21T15:30:20");
	await field("until").fill("2026-11-21T15:30:10");
	await page.getByRole("button", { name: "show", exact: true }).click();
	check("an end before the beginning is refused", /later than/.test(await field("until").evaluate((e) => e.validationMessage)) && /range=all/.test(page.url()));
	await field("until").fill("2026-11-21T15:31:10");
	await after(page, () => page.keyboard.press("Enter"));
	const q = new URL(page.url()).searchParams;

	same("the URL has it", [q.get("since"), q.get("until"), q.get("utc")], ["2026-11-21T10:00:20.000Z", "2026-11-21T10:01:10.000Z", null]);
	same("it is marked as chosen", [await page.locator("#picker summary").getAttribute("aria-current"), await page.locator("#ranges [aria-pressed=true]").count()], ["true", 0]);
	check("its picker is closed, and the focus stays", await page.locator("#picker summary").evaluate((e) => document.activeElement === e && !e.parentElement.open));

	await after(page, () => page.locator("#s-slow tbody button").first().click());
	await page.locator("#picker summary").click();
	await after(page, () => field("zone").selectOption("1"));
	same("its fields keep their moments", await fields(), ["2026-11-21T10:00:20", "2026-11-21T10:01:10"]);
	same("the URL has the zone", new URL(page.url()).searchParams.get("utc"), "1");
	await page.keyboard.press("Escape");
	same("the period follows", await words("period"), "2026-11-21 10:00:20 to 2026-11-21 10:01:10 UTC (50 s)");
	check("tables, too", /^11-21 10:0/.test(await page.locator("#s-slow tbody button").first().textContent()));
	check("the request that is open, too", / 2026-11-21 10:0\S+ UTC on /.test(await words("tree")), await words("tree"));
	const ticks = await page.locator("#c-time .dygraph-axis-label-x").allTextContents();

	check("charts, too", ticks.length > 1 && ticks.every((t) => /^10:0/.test(t)), ticks.join());
	await after(page, () => page.locator("#compare").selectOption("chosen"));
	same("the other range is asked for in it", [await words("versus-legend"), await field("vuntil").inputValue()], ["Compare with (UTC)", "2026-11-21T10:00:20"]);
	await close(page, "picker");

	const none = await open(browser, host, "?since=2026-11-20T10:00:00Z&until=2026-11-20T11:00:00Z&utc=1&live=0");

	same("nothing stored then", await none.locator("#message p").evaluate((p) => p.firstChild.data),
		"Nothing is stored of this time. What is stored is from 2026-11-21 10:00:00 to 2026-11-21 10:02:00 UTC.");
	await after(none, () => none.getByRole("button", { name: "show all of it" }).click());
	same("it leads out", [new URL(none.url()).search, await none.locator("#message").isVisible()], ["?range=all&live=0&utc=1", false]);
	await close(none, "none");
	const phone = await open(browser, host, ALL, { viewport: { width: 390, height: 844 }, colorScheme: "dark" });

	await phone.locator("#picker summary").click();
	check("nothing hangs out of a phone", await phone.evaluate(() => document.documentElement.scrollWidth <= innerWidth &&
		[...document.querySelectorAll("#picker *")].every((e) => e.getBoundingClientRect().right <= innerWidth)));
	await phone.evaluate(axe);
	same("accessible", await phone.evaluate(() => window.axe.run("header").then((r) => r.violations.map((v) => v.id))), []);
	await phone.screenshot({ path: join(shots, "picker_phone.png") });
	await close(phone, "picker on a phone");
}

async function licence() {
	const { status, headers, text } = await ask(host, "/dygraphs-license.txt");

	same("it is served as text", [status, headers["content-type"]], [200, "text/plain; charset=utf-8"]);
	check("with what it asks copies to hold", /Copyright \(c\)/.test(text) && /Permission is hereby granted/.test(text), text.slice(0, 200));
	await browser.close();
}

// Objectives: how they are met, and their limits in the chart of what they are of.
async function objectives() {
	const page = await open(browser, host, ALL);
	const rows = () => page.locator("#s-slo tbody tr").evaluateAll((all) => all.map((tr) => [...tr.cells].map((td) => td.textContent)));
	const limits = async () => (await legend(page, "c-time")).map(([name]) => name).filter((name) => name.startsWith("objective"));
	const all = (await ask(host, "/api/v1/slo")).json.objectives;

	same("each is there", (await rows()).map((r) => r.slice(0, 3)), [["create", "99 %", "15.0 ms"], ["tier database", "50 %", "7.81 ms"], ["all requests", "99.9 %", "250 ms"]]);
	check("with what was attained", (await rows()).every((r, i) => r[6].startsWith(`~${all[i].attained_percent.toFixed(9).slice(0, 4)}`)), JSON.stringify(await rows()));
	same("that of all requests is chosen, and in the chart", [await page.locator('#s-slo [aria-current="true"]').count(), await limits()], [1, ["objective 99.9 %"]]);
	await after(page, () => page.locator("#s-slo button", { hasText: "create" }).click());
	same("it leads to its type", [new URL(page.url()).searchParams.get("identity"), await limits()], ["create", ["objective 99 %"]]);
	await after(page, () => page.locator("#by-node").click());
	const byNode = (await ask(host, "/api/v1/slo?by=node")).json.objectives;

	same("by node each has its own", (await rows()).map((r) => [r[0], r[1], r[4].replace(/\D/g, "")]),
		byNode.flatMap((o) => [["all nodes", o], ...o.nodes.map((n) => [n.node, n])].map(([node, x]) => [{ tier: `tier ${o.name}`, identity: o.name === "_total" ? "all requests" : o.name }[o.of], node, String(x.requests)])));
	await after(page, () => page.locator("#by-node").click());
	await page.evaluate(() => scrollTo(0, 0));
	await point(page, "c-time", 3);
	same("the line says where it is", (await legend(page, "c-time")).at(-1), ["objective 99 %", "15.0 ms"]);
	await after(page, () => page.locator("#s-slo button", { hasText: "database" }).click());
	same("and to its tier", [new URL(page.url()).search.includes("tier=database"), await limits()], [true, ["objective 50 %"]]);
	await page.screenshot({ path: join(shots, "objectives.png"), fullPage: true });
	await page.evaluate(axe);
	same("accessible", await page.evaluate(() => window.axe.run("#s-slo").then((r) => r.violations.map((v) => v.id))), []);
	await after(page, () => page.locator("#tier").selectOption("http"));
	same("others have none", await limits(), []);
	await page.route("**/api/v1/slo?*", (r) => r.fulfill({ json: { objectives: [], windows: {} } }));
	await after(page, () => page.locator("#ranges button").filter({ hasText: "1h" }).click());
	same("without objectives there is nothing", await page.locator("#s-slo").isVisible(), false);
	await close(page, "objectives");
}

await main("charts_test", [begin, cursor, gap, axes, shades, overlay, colours, keys, regions, phone, finger, objectives, picker, licence]);
