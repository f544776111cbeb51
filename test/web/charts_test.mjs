// charts_test.mjs - the charts of a saved database: the figures under the cursor,
// gaps, a range chosen by a finger, and the library's licence.
// usage: charts_test.mjs BUILD_DIR NODE_MODULES
import { join } from "node:path";
import { after, close, launch, open } from "./page.mjs";
import { ask, build, check, dir, main, near, run, same, web } from "./world.mjs";

const ALL = "?range=all&live=0";
const HOLE = 5;			// the step that was not measured
let browser, host, series;

async function begin() {
	const db = join(dir, "k.db");

	run(join(build, "test", "mkdb"), db);
	({ host } = await web(db));
	series = (await ask(host, "/api/v1/series?step=10s")).json;
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
	const s = Object.fromEntries(Object.entries(series).map(([k, v]) => [k, k === "t" || k === "raised_seen" ? v : without(v)]));

	return { ...s, self: s.self.map((c) => ({ ...c, ms: without(c.ms) })) };
}

// [label, figure] of a legend.
const legend = (page, id) => page.locator(`#${id} .legend > span`).evaluateAll((all) =>
	all.map((s) => [s.querySelector(".label").textContent, s.querySelector("b").textContent]));

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

	same("nothing is pointed at", (await legend(page, "c-time"))[0], ["time", "–"]);
	await point(page, "c-time", HOLE + 2);
	const time = new Date(series.t[HOLE + 2] * 1e3).toISOString().slice(11, 19);

	for (const id of ["c-rate", "c-time", "c-heat", "c-self", "c-sample", "c-cost"])
		same(`${id} shows the time`, (await legend(page, id))[0], ["time", time]);
	for (const [label, text] of (await legend(page, "c-time")).slice(1))
		check(label, Math.abs(inMs(text) / series[`${label}_ms`][HOLE + 2] - 1) < 0.01, text);
	const rates = Object.fromEntries(await legend(page, "c-rate"));

	check("requests a second", Math.abs(rates.requests / (series.requests[HOLE + 2] / series.covered_s[HOLE + 2]) - 1) < 0.01, rates.requests);
	for (const { tier, ms } of series.self) {
		const [, text] = (await legend(page, "c-self")).find(([label]) => label === tier) ?? [];

		check(`self time of ${tier}, not a sum`, text === undefined || Math.abs(inMs(text) / (ms[HOLE + 2] / series.requests[HOLE + 2]) - 1) < 0.01, text);
	}
	await page.mouse.move(2, 2);
	same("nothing is pointed at any more", (await legend(page, "c-heat"))[0], ["time", "–"]);
	await close(page, "cursor");
}

// Where nothing was measured nothing is drawn.
async function gap() {
	const page = await openWithHole();

	await point(page, "c-time", HOLE);
	same("no figure", (await legend(page, "c-time")).slice(1).map(([, text]) => text), ["–", "–", "–", "–"]);
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

async function licence() {
	const { status, headers, text } = await ask(host, "/dygraphs-license.txt");

	same("it is served as text", [status, headers["content-type"]], [200, "text/plain; charset=utf-8"]);
	check("with what it asks copies to hold", /Copyright \(c\)/.test(text) && /Permission is hereby granted/.test(text), text.slice(0, 200));
	await browser.close();
}

await main("charts_test", [begin, cursor, gap, finger, licence]);
