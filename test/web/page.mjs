// page.mjs - the dashboard in headless Chromium, as tests use it.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { undescribed, wrong } from "./openapi.mjs";
import { check, same } from "./world.mjs";

const PATIENCE = 120e3;		// ms, for what a page does on a machine that is busy
const modules = process.argv[3];
const { chromium } = await import(pathToFileURL(join(modules, "playwright-core", "index.mjs")));

export const axe = readFileSync(join(modules, "axe-core", "axe.min.js"), "utf8");
export const launch = () => chromium.launch({ timeout: PATIENCE, executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });

// What the page asks, and gets, is described in openapi.json; but not what a test put there
// in place of the server, which has no policy.
async function hold(page, request) {
	const response = await request.response();
	const { pathname, search } = new URL(response.url()), headers = response.headers();

	if (!/^\/(api\/|healthz|openapi)/.test(pathname) || !headers["content-security-policy"])
		return;
	// the page may have given it up
	const json = response.status() === 304 ? null : await response.json().catch(() => null);

	page.held += json !== null;
	page.faults.push(...wrong(request.method(), pathname + search, { status: response.status(), type: headers["content-type"], json }).slice(0, 5));
}

function asks(page, at, url, method) {
	const { host, pathname, search } = new URL(url);

	if (host !== at && !url.startsWith("data:"))
		page.faults.push(`asks ${url}`);
	else if (/^\/(api\/|healthz)/.test(pathname))
		page.faults.push(...undescribed(method, pathname + search).map((what) => `not described: ${what}`));
}

// A page whose faults are counted: console errors, requests to other hosts, and those that
// openapi.json does not describe.
export async function open(browser, at, path, options = {}) {
	const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, timezoneId: "UTC", ...options });
	const page = await context.newPage();

	page.setDefaultTimeout(PATIENCE);
	page.faults = [];
	page.held = 0;
	page.answers = [];
	page.on("console", (m) => m.type() === "error" && page.faults.push(m.text()));
	page.on("pageerror", (e) => page.faults.push(e.stack));
	page.on("dialog", (d) => { page.faults.push(`dialog: ${d.message()}`); d.dismiss(); });
	page.on("request", (r) => asks(page, at, r.url(), r.method()));
	// what comes while the page is closed is nobody's answer any more
	page.on("requestfinished", (r) => page.answers.push(hold(page, r).catch((e) => {
		if (!/has been closed/.test(e.message))
			throw e;
	})));
	await page.goto(`http://${at}/${path}`);
	await loaded(page, 1);
	return page;
}

const times = (page) => page.evaluate(() => Number(document.body.dataset.loaded ?? 0));
export const loaded = (page, n) => page.waitForFunction((x) => Number(document.body.dataset.loaded ?? 0) >= x, n).catch(async (e) => {
	throw new Error(`${e.message} ${page.url()} ${await page.locator("#message").textContent()} ${page.faults}`);
});

// A time as <input type="datetime-local"> gives it back: without seconds where
// they are 0.  Playwright refuses to fill in what is not given back as it was.
export const moment = (iso) => iso.slice(0, 19).replace(/:00$/, "");

// Does it, and waits until what it chose is shown.
export async function after(page, fn) {
	const n = await times(page);

	await fn();
	await loaded(page, n + 1);
}

export async function close(page, name, allowed = () => false) {
	await Promise.all(page.answers);
	check(`${name}: its answers were held against openapi.json`, page.held > 0);
	same(`${name}: no fault`, page.faults.filter((f) => !allowed(f)), []);
	await page.context().close();
}
