// crossing_test.mjs - requests that cross nodes, on the dashboard: one that is
// in flight, and the waterfall of one that is over, of two real nodes.
// usage: crossing_test.mjs BUILD_DIR NODE_MODULES
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, close, launch, open } from "./page.mjs";
import { build, check, dir, main, same, shots, sql, start, until } from "./world.mjs";

const db = join(dir, "k.db");
const cookie = `cross${process.pid}cookie`;
const [near, far] = ["near", "far"].map((name) => `webcross${name}_${process.pid}@127.0.0.1`);
let browser, host;

const TIERS = `{tiers, [{here, {it_cross, here, 1}}, {query, {it_cross, query, 1}}, {index, {it_cross, index, 1}},
    {task, {it_cross, child, 1}}, {later, {it_cross, later, 1}}, {wait, {it_cross, wait, 1}}]}.
{entry, {it_cross, request, 3}}.
{identity, fun({it_cross, request, [Kind, _, _]}) -> Kind; (_) -> undefined end}.
{slow_ms, 1}.
`;

const node = (name, what) => start("erl", ["-noinput", "-name", name, "-setcookie", cookie, "-pa", join(build, "integration", "ebin"),
	"-eval", `true = it_cross:start(), ${what} io:put_chars("ready\\n").`], /ready/);

async function begin() {
	const cookieFile = join(dir, "cookie"), tiers = join(dir, "tiers.conf");

	writeFileSync(cookieFile, cookie, { mode: 0o600 });
	writeFileSync(tiers, TIERS);
	await node(far, "");
	await node(near, `pong = net_adm:ping('${far}'), spawn(it_cross, run_till, [read, '${far}', '${far}', it_reads]),`);
	const daemon = await start(join(build, "kprofd"), ["-target", near, "-target", far, "-tiers", tiers, "-cookie-file", cookieFile,
		"-db", db, "-interval", "2s", "-probe", "relay", "-http", "127.0.0.1:0"], /profiling[^]*profiling/);

	host = /http:\/\/(\S+)\//.exec(daemon.text)[1];
	browser = await launch();
}

const crossed = `select c.request id from slow_calls c join slow_requests r on r.request = c.request
    where r.identity = 'read' and r.node = '${near}' group by 1
    having sum(c.node = '${far}' and c.call like '%it_cross:index/1') > 0 and sum(c.node = '${far}' and c.call like '%it_cross:child/1') > 0`;

async function waterfall() {
	const { id } = await until("a request that crossed", async () => sql(db, `${crossed} order by 1 desc limit 1`)[0]);
	const page = await open(browser, host, `?range=all&live=0&request=${id}`);
	const calls = sql(db, `select trim(call) call, node, pid, start_ms s, total_ms t, coalesce(tier, '') tier from slow_calls where request = ${id} order by seq`);
	const shown = await page.locator(".fall .call").evaluateAll((all) => all.map((c) => [c.firstChild.textContent, c.querySelector(".where")?.textContent ?? ""]));

	same("all its calls, of both nodes", shown.map(([call]) => call), calls.map((c) => c.call));
	check("calls on the other node say so", calls.every((c, i) => c.node === "" || !shown[i][1] || shown[i][1].includes(` on ${far}`)), JSON.stringify(shown));
	check("and that it went there and back", shown.filter(([, where]) => where.includes(` on ${far}`)).length >= 2, JSON.stringify(shown));
	const lanes = await page.locator(".fall .lane i").evaluateAll((all) => all.map((i) => [Number.parseFloat(i.style.left), Number.parseFloat(i.style.width)]));
	const end = Math.max(...calls.map((c) => c.s + (c.t ?? 0)));

	check("where they were", calls.every((c, i) => Math.abs(lanes[i][0] - Math.min(99.5, 100 * c.s / end)) < 0.1 && Math.abs(lanes[i][1] - 100 * (c.t ?? 0) / end) < 0.6), JSON.stringify([lanes, calls]));
	const query = calls.find((c) => c.call === "it_cross:query/1"), entry = calls[0];

	check("the call there lies within the request here", query.s >= entry.s && query.s + query.t <= entry.s + entry.t + 1, JSON.stringify([entry, query]));
	await page.evaluate(() => { document.querySelector("header").style.position = "static"; });
	await page.locator("#tree").screenshot({ path: join(shots, "crossing.png") });
	await close(page, "waterfall");
}

// Its entry is here, and what it waits for is there.
async function inFlight() {
	const page = await open(browser, host, "");
	const p = await start("erl", ["-noinput", "-hidden", "-name", `webcrossask_${process.pid}@127.0.0.1`, "-setcookie", cookie,
		"-eval", `P = rpc:call('${near}', erlang, spawn, [it_cross, run, [1, wait, '${far}', '${far}']]), true = is_pid(P), io:put_chars("ready\\n").`], /ready/);
	const row = await until("it on the page", async () => (await page.locator("#s-now tbody tr").evaluateAll((all) =>
		all.map((tr) => [...tr.cells].map((td) => td.textContent)))).find((r) => r[1] === "wait" && /it_cross:wait\/1/.test(r[3])));

	same("began here", row[2], near);
	check("is there now", row[5].includes(` on ${far}`), row.join(" | "));
	await page.locator("#s-now").screenshot({ path: join(shots, "flight.png") });
	await after(page, () => page.locator("#identity").selectOption("read"));
	check("of one identity only that is listed", (await page.locator("#s-now tbody td:nth-child(2)").allTextContents()).every((i) => i === "read"));
	await close(page, "in flight");
	p.kill();
	await browser.close();
}

await main("crossing_test", [begin, waterfall, inFlight]);
