// request.mjs - the trace of one slow request, as speedscope itself reads it, in Chromium: its
// own file and Chrome's trace events have the processes, and the own times, of the database.
// usage: request.mjs BUILD_DIR NODE_MODULES VIEWERS_NODE_MODULES
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { extname, join } from "node:path";
import { launch } from "../web/page.mjs";
import { build, check, dir, kprof, main, run, same, sql } from "../web/world.mjs";

const modules = process.argv[4];
const release = join(modules, "speedscope", "dist", "release");
const db = join(dir, "k.db");
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm" };
const files = new Map();
let browser, at, server;

async function begin() {
	run(join(build, "test", "mkdb"), db);
	// beside the request's own process and node
	sql(db, "insert into node (name) values ('db@c'); update call set node_id = (select id from node where name = 'db@c') where request_id = 2 and seq = 1");
	server = createServer((req, res) => {
		const path = new URL(req.url, "http://x").pathname.replace(/\/$/, "/index.html");

		try {
			const body = files.get(path) ?? readFileSync(join(release, path));

			res.writeHead(200, { "Content-Type": TYPES[extname(path)] ?? "application/octet-stream" }).end(body);
		} catch {
			res.writeHead(404).end();
		}
	});
	await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
	at = `http://127.0.0.1:${server.address().port}`;
	browser = await launch();
}

// ns of "20.00ms" and the like.
const ns = (text) => { const [, v, unit] = /^([\d.]+)(ns|µs|ms|s)/.exec(text); return Number(v) * { ns: 1, "µs": 1e3, ms: 1e6, s: 1e9 }[unit]; };

// What its table of functions has of each profile: [name, [[function, own ns], ...]].
async function read(name, text) {
	const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
	const faults = [], all = [];
	const title = page.locator("span:has(> span)");

	page.on("pageerror", (e) => faults.push(e.stack));
	page.on("console", (m) => m.type() === "error" && faults.push(m.text()));
	files.set(`/${name}`, text);
	await page.goto(`${at}/#profileURL=${encodeURIComponent(`/${name}`)}`);
	await page.getByText("Sandwich").click();
	for (let n = 1, of = 1; n <= of; n++) {
		const shown = await title.filter({ hasText: `(${n}/` }).first().innerText();

		of = Number(/\/(\d+)\)/.exec(shown)[1]);
		all.push([/^(.*)\s\(\d+\//.exec(shown)[1], (await page.locator("table tr:has(td:nth-child(3)):visible").evaluateAll((rows) => rows.map((tr) => [...tr.cells].map((td) => td.innerText.trim()))))
			.map(([, self, fn]) => [fn, ns(self)])]);
		await page.keyboard.press("n");
	}
	same(`${name}: no fault`, faults.filter((f) => !/404/.test(f)), []);
	await page.close();
	return all;
}

const OWN = [["web:handle/2", 280e6], ["tpl:render/1", 20e6], ["web:done/1", 0]];
const QUERY = ["db:query/2 [users]", 240e6], AFTER = ["db:query/2", 4e6];

async function viewers() {
	const { default: Ajv } = createRequire(`${modules}/`)("ajv");
	const schema = new Ajv({ strict: false, allErrors: true }).compile(JSON.parse(readFileSync(join(release, "file-format-schema.json"), "utf8")));

	// of the second one a query ran on another node
	for (const [id, want] of [["1", [["<0.500.0>", "web@a", OWN], ["<0.77.0>", "web@a", [QUERY, AFTER]]]],
		["2", [["<0.500.0>", "web@b", OWN], ["<0.77.0>", "web@b", [AFTER]], ["<0.77.0>", "db@c", [QUERY]]]]]) {
		const own = kprof("tree", id, "-form", "speedscope", "-db", db);

		check(`request ${id}: speedscope's schema`, schema(JSON.parse(own)), JSON.stringify(schema.errors));
		same(`request ${id}: its own file`, await read(`own-${id}.json`, own), want.map(([pid, node, rows]) => [`${pid} on ${node}`, rows]));
		// its names of slices have their arguments
		same(`request ${id}: trace events`, (await read(`chrome-${id}.json`, kprof("tree", id, "-form", "chrome", "-db", db)))
			.map(([name, rows]) => [name.replace(/ \([pt]id \d+\)/g, ""), rows.map(([fn, v]) => [fn.split(" {")[0], v])]),
		want.map(([pid, node, rows]) => [`${node}, ${pid}`, rows]));
	}
	server.close();
	await browser.close();
}

await main("request", [begin, viewers]);
