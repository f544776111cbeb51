// types_test.mjs - a database with thousands of request types, as of URLs that nobody grouped:
// the page stays light, and all of them can be found.
// usage: types_test.mjs BUILD_DIR NODE_MODULES
import { join } from "node:path";
import { after, axe, close, launch, open as openAt } from "./page.mjs";
import { ask, build, check, dir, main, run, same, shots, sql, web } from "./world.mjs";

const TYPES = 3000, ELEMENTS = 2500;
const ALL = "?range=all&live=0";
const db = join(dir, "types.db");
let browser, host, report;

const open = (path, options = {}) => openAt(browser, host, path, options);
const elements = (page) => page.evaluate(() => document.querySelectorAll("*").length);
const rows = (page, id = "s-report") => page.locator(`#${id} tbody tr`).evaluateAll((all) => all.map((tr) => [...tr.cells].map((td) => td.textContent)));
const sum = (all) => all.reduce((a, b) => a + b, 0);
const number = (text) => Number(text.replaceAll(/[\s~]/g, ""));

// In one window there are 3,000 types more, like one that is there; the first has most time.
async function begin() {
	run(join(build, "test", "mkdb"), db);
	const columns = sql(db, "select name from pragma_table_info('stat')").map((c) => c.name);
	const values = (of) => columns.map((name) => of[name] ?? `s.${name}`);
	const types = values({ identity_id: "n.id", w_total_ns: `w_total_ns * (1 + ${TYPES} - n.k) / (${TYPES} * 400)` });

	sql(db, `with recursive n(k) as (values(1) union all select k + 1 from n where k < ${TYPES}) insert into identity (name) select 'GET /users/' || k from n;
	    insert into stat (${columns}) select ${types} from stat s, (select id, 0 + substr(name, 12) k from identity where name like 'GET /users/%') n
	    where s.window_id = (select min(window_id) from stat) and s.identity_id = (select id from identity where name = 'update');
	    with recursive n(k) as (values(1) union all select k + 1 from n where k < 60) insert into tier (name) select 'database: label ' || k from n;
	    insert into stat (${columns}) select ${values({ tier_id: "n.id" })} from stat s, (select id from tier where name like 'database: label %') n
	    where s.window_id = (select min(window_id) from stat where tier_id = s.tier_id and identity_id = s.identity_id)
	    and s.tier_id = (select id from tier where name = 'database: users') and s.identity_id = (select id from identity where name = 'update')`);
	({ host } = await web(db));
	report = (await ask(host, "/api/v1/report?since=2026-11-21T10:00:00Z&until=2026-11-21T10:02:00Z&limit=5000")).json.rows.slice(1).map((r) => ({ ...r, identity: r.identity === "undefined" ? "unnamed" : r.identity }));
	browser = await launch();
}

async function light() {
	const page = await open(`${ALL}&compare=before`);
	const [, ...types] = await rows(page);
	const first = types.slice(0, 20), others = types[20];
	const rest = report.filter((r) => !first.some((t) => t[0] === r.identity));

	check("the page is light", await elements(page) < ELEMENTS, await elements(page));
	same("the first twenty, by impact", first.map((t) => t[0]), [...report].sort((a, b) => b.share - a.share).slice(0, 20).map((r) => r.identity));
	same("the others are one row", [others[0], types.length], [`${(report.length - 20).toLocaleString("en-US").replace(",", " ")} more request types`, 21]);
	same("with the sum of their requests", number(others[2]), Math.round(sum(rest.map((r) => r.requests))));
	check("and share", Math.abs(Number.parseFloat(others[1]) - 100 * sum(rest.map((r) => r.share))) <= 0.5, others[1]);
	same("but no time", [...new Set(others.slice(4))], ["–"]);
	await page.evaluate(axe);
	same("accessible", await page.evaluate(() => window.axe.run("#s-report").then((r) => r.violations.map((v) => v.id))), []);

	await page.locator("#types-more").focus();
	await page.keyboard.press("Enter");
	same("fifty more", [(await rows(page)).length, await page.locator("#types-more").evaluate((e) => document.activeElement === e)], [72, true]);
	await after(page, () => page.locator("#s-report th button", { hasText: "request type" }).click());
	await after(page, () => page.locator("#s-report th button", { hasText: "request type" }).click());
	const names = (await rows(page)).slice(1, 71).map((t) => t[0]);

	same("in the chosen order", names, report.map((r) => r.identity).sort((a, b) => a.localeCompare(b)).slice(0, 70));
	await close(page, "light");
}

// All types can be searched, and what is chosen is shown.
async function searching() {
	const page = await open(ALL);

	same("the choice has those of the table, and leads to the search", [await page.locator("#identity option").count(), await page.locator("#identity option").last().textContent()],
		[22, "search the other 2 986 …"]);
	await page.locator("#identity").selectOption({ index: 21 });
	check("which has the focus", await page.locator("#types").evaluate((e) => document.activeElement === e));
	await page.keyboard.type("USERS/299");
	same("the types with that name", (await rows(page)).slice(1).map((t) => t[0]).sort(), report.map((r) => r.identity).filter((n) => n.includes("users/299")).sort());
	same("and how many", await page.locator("#types-found").textContent(), "11 of 3 006 types");
	await page.locator("#s-report").screenshot({ path: join(shots, "types_search.png") });
	await after(page, () => page.keyboard.press("Enter"));
	same("the URL has it", new URL(page.url()).searchParams.get("types"), "USERS/299");
	await after(page, () => page.locator("#s-report tbody button", { hasText: /^GET .users.2999$/ }).click());
	await after(page, async () => { await page.locator("#types").fill("users/1"); await page.keyboard.press("Enter"); });
	const found = await rows(page);

	same("the chosen type stays", [found.filter((t) => t[0] === "GET /users/2999").length, await page.locator("#identity").inputValue(), found.length], [1, "GET /users/2999", 23]);
	same("of those with that name the others are one row", found.at(-1)[0], "1 091 more request types with that name");
	await after(page, async () => { await page.locator("#types").fill("<nothing>"); await page.keyboard.press("Enter"); });
	same("none", [(await rows(page)).length, await page.locator("#types-found").textContent()], [2, "0 of 3 006 types"]);
	await close(page, "searching");
	const labels = await open(`${ALL}&identity=update`);

	same("fifty labels, and the others as one", [(await rows(labels, "s-labels")).length, (await rows(labels, "s-labels")).at(-1)[2]], [51, "12 others: show more"]);
	await labels.locator("#s-labels button", { hasText: "show more" }).click();
	same("all of them", (await rows(labels, "s-labels")).length, 62);
	await close(labels, "labels");

	const stacks = await open(`${ALL}&view=stacks`);

	await after(stacks, () => stacks.locator("#identity").selectOption({ index: 21 }));
	check("from the stacks, too", await stacks.locator("#types").evaluate((e) => document.activeElement === e && e.getClientRects().length > 0));
	await close(stacks, "stacks");
	const phone = await open(ALL, { viewport: { width: 390, height: 844 } });

	check("nothing hangs out of a phone", await phone.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
	await phone.locator("#s-report").screenshot({ path: join(shots, "types_phone.png") });
	await close(phone, "phone");
	await browser.close();
}

await main("types_test", [begin, light, searching]);
