// api_test.mjs - the HTTP API says what sqlite3 and kprof -json say of the same
// database, and refuses what it has to.  usage: api_test.mjs BUILD_DIR
import { chmodSync, chownSync, readFileSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { connect, createServer } from "node:net";
import { networkInterfaces } from "node:os";
import { spawn, spawnSync } from "node:child_process";
import { join } from "node:path";
import { ask, build, check, dir, kprof, main, near, run, same, sql, start, until, web } from "./world.mjs";

const db = join(dir, "k.db");
const SCRIPT = "<img src=x onerror=alert(1)>";
const PART = "database: users";
const PATIENCE = 120e3;		// ms, for a program that is to end by itself
let w;

const api = async (path) => {
	const a = await ask(w.host, `/api/v1/${path}`);

	check(`${path} is answered`, a.status === 200, `${a.status} ${a.text}`);
	return a;
};
const sum = (v) => v.reduce((a, b) => a + (b ?? 0), 0);
const one = (text) => Object.values(sql(db, text)[0])[0];

async function begin() {
	run(join(build, "test", "mkdb"), db);
	sql(db, `update identity set name = '${SCRIPT}' where name = 'update';
	    insert into cost (window_id, events, armed_calls, agent_ns, cost_ns, scheduled, sampled)
	    select id, 10 * id, 20, 1000 * id, 3000 * id, 0, 0 from time_window`);
	w = await web(db);
}

// What kprof prints, byte by byte.
async function asKprof() {
	const until = "2026-11-21T10:01:00Z", since = "2026-11-21T10:00:20Z";

	for (const [path, args] of [
		["report", ["report"]],
		["report?node=web@a", ["report", "-node", "web@a"]],
		["report?node=web@*&sort=cost", ["report", "-node", "web@*", "-sort", "cost"]],
		[`report?since=${since}&until=${until}`, ["report", "-since", since, "-until", until]],
		["report?identity=create", ["report", "-identity", "create"]],
		[`report?identity=${encodeURIComponent("=cmd|'/c calc'!A1")}`, ["report", "-identity", "=cmd|'/c calc'!A1"]],
		[`compare?since=${until}&versus=${since},${until}`, ["report", "-since", until, "-versus", `${since},${until}`, "-sort", "change"]],
		[`compare?what=self&since=${until}&versus=${since},${until}`, ["report", "-what", "self", "-since", until, "-versus", `${since},${until}`, "-sort", "change"]],
		["slow", ["slow", "-n", "100"]],
		["slow?limit=2&node=web@b", ["slow", "-n", "2", "-node", "web@b"]],
		["slow?identity=create", ["slow", "-identity", "create"]],
		["slow?outcome=raised-inside&limit=3", ["slow", "-outcome", "raised-inside", "-n", "3"]],
		["slow?outcome=unfinished", ["slow", "-n", "100", "-outcome", "unfinished"]],
		["stacks", ["report", "-stacks"]],
		[`stacks?node=web@a&since=${since}&until=${until}`, ["report", "-stacks", "-node", "web@a", "-since", since, "-until", until]],
		["stacks?identity=create", ["report", "-stacks", "-identity", "create"]],
		["memory", ["report", "-memory"]],
		[`memory?node=web@a&since=${since}&until=${until}`, ["report", "-memory", "-node", "web@a", "-since", since, "-until", until]],
	])
		same(`${path} is as kprof says`, (await api(path)).text, kprof(...args, "-json", "-db", db));
	for (const { id } of sql(db, "select id from request"))
		same(`request ${id} is as kprof says`, (await api(`requests/${id}`)).text, kprof("tree", String(id), "-json", "-db", db));
}

async function pages() {
	const all = (await api("slow")).json.requests;
	const pieces = [];

	for (let offset = 0; offset < all.length; offset += 2)
		pieces.push(...(await api(`slow?limit=2&offset=${offset}`)).json.requests);
	same("pages add up to the list", pieces, all);
	same("there is no page after the last", (await api(`slow?offset=${all.length}`)).json.requests, []);
}

// By self time, and by tiers.
async function slowest() {
	const tops = async (query) => (await api(`slow?${query}`)).json.requests.map((q) => [q.request, q.by_ms ?? q.total_ms]);
	const times = (what) => sql(db, `select request_id r, sum(self_ns) / 1e6 ms from call c left join tier t on t.id = c.tier_id
	    where self_ns is not null and ${what} group by 1 order by 2 desc, 1`).map((x) => [x.r, x.ms]);

	same("by total", await tops("sort=total"), sql(db, "select id, total_ns / 1e6 ms from request order by 2 desc, 1").map((x) => [x.id, x.ms]));
	same("by self", await tops("sort=self"), times("c.seq = 0"));
	for (const { name } of sql(db, "select name from tier where name <> '_total' and name not like '%: %'"))
		same(`by ${name}`, await tops(`tier=${name}`), times(`c.async = 0 and t.name = '${name}'`));
	same("a page of it", await tops("sort=self&limit=2&offset=1"), times("c.seq = 0").slice(1, 3));
	same("of an identity", [...new Set((await api("slow?sort=self&identity=create")).json.requests.map((q) => q.identity))], ["create"]);
}

const cell = (figure, tier, identity, where = "1") => one(`select sum(s.${figure}) from stat s
    join time_window w on w.id = s.window_id join node n on n.id = w.node_id
    where s.tier_id = (select id from tier where name = '${tier}')
    and s.identity_id = (select id from identity where name = '${identity}') and ${where}`);

async function series() {
	for (const [query, identity, where] of [["", "_total", "1"], ["?identity=create", "create", "1"],
		[`?identity=${encodeURIComponent(SCRIPT)}&node=web@a`, SCRIPT, "n.name = 'web@a'"]]) {
		const s = (await api(`series${query}`)).json;

		same(`requests${query}`, sum(s.requests), cell("w_requests", "_total", identity, where));
		same(`errors${query}`, sum(s.errors), cell("w_raised", "_total", identity, where));
		same(`their other name${query}`, s.raised, s.errors);
		for (const t of s.self)
			near(`self time of ${t.tier}${query}`, sum(t.ms), cell("w_self_ns", t.tier, identity, where) / 1e6 || 0);
	}
	const s = (await api("series?step=10s")).json;
	const steps = sql(db, `select w.start_ns / 10000000000 * 10 t, sum(s.w_requests) n, max(s.max_ns) / 1e6 max
	    from stat s join time_window w on w.id = s.window_id join tier t on t.id = s.tier_id
	    join identity i on i.id = s.identity_id where t.name = '_total' and i.name = '_total' group by 1 order by 1`);
	same("times of steps", s.t, steps.map((x) => x.t));
	same("requests of each step", s.requests, steps.map((x) => x.n));
	steps.forEach((x, i) => near("the slowest of each step", s.max_ms[i], x.max));
	// of a part of a tier, which the report has as the calls with a label
	const part = (await api(`series?identity=create&tier=${encodeURIComponent(PART)}`)).json;

	same("calls of a label", sum(part.calls), cell("w_calls", PART, "create"));
	same("it is no tier of its own", part.self.map((t) => t.tier), ["_total", ...(await api("tiers")).json.tiers]);
	const heat = (await api(`heatmap?tier=${encodeURIComponent(PART)}`)).json;

	same("its heatmap", sum(heat.buckets.flatMap((c) => c?.filter((x, i) => i % 2 === 1) ?? [])), cell("w_timed", PART, "_total"));
	same("how much of errors is seen", [...new Set(s.raised_seen)], ["known"]);
	// one step that holds everything has the report's percentiles
	const tier = (await api("series?step=1h&identity=create&tier=database")).json;
	const report = (await api("report")).json.rows.find((r) => r.identity === "create").tiers.find((t) => t.tier === "database");
	for (const k of ["p50_ms", "p90_ms", "p99_ms", "max_ms", "mean_ms"])
		same(`${k} is the report's`, tier[k], [report[k]]);
	same("several nodes are all", (await api("series?node=web@a&node=web@b")).json, (await api("series")).json);
}

// The calls of a tier by label are SQL's of its parts.
async function labels() {
	for (const row of (await api("report")).json.rows.filter((x) => !x.identity.includes("\ufffd")))
		for (const tier of row.tiers) {
			const parts = sql(db, `select substr(tier, length('${tier.tier}: ') + 1) label, sum(calls) calls from tier_stats
			    where tier like '${tier.tier}: %' and identity = '${row.identity.replaceAll("'", "''")}' group by tier`);

			same(`labels of ${tier.tier}, ${row.identity}`, tier.labels.map((l) => [l.calls, l.label]).sort(), parts.map((p) => [p.calls, p.label]).sort());
			check("most calls first", tier.labels.every((l, i) => i === 0 || tier.labels[i - 1].calls >= l.calls));
		}
	check("there are some", (await api("report")).json.rows[0].tiers.find((t) => t.tier === "database").labels.some((l) => l.label === "users"));
}

async function heatmap() {
	const h = (await api("heatmap?tier=http")).json;
	const counts = h.buckets.flatMap((c) => c?.filter((x, i) => i % 2 === 1) ?? []);
	const [{ least, most }] = sql(db, "select min(min_ns) / 1e9 least, max(max_ns) / 1e9 most from stat");
	const rows = h.buckets.flatMap((c) => c?.filter((x, i) => i % 2 === 0) ?? []);

	same("it holds every time", sum(counts), cell("w_timed", "http", "_total"));
	check("its bounds hold all", 2 ** (Math.min(...rows) / h.per_octave) >= least / 1.2 &&
	    2 ** ((Math.max(...rows) + 1) / h.per_octave) <= most * 1.2);
}

async function load() {
	const l = (await api("load")).json;

	for (const [key, text] of [["entry_calls", "sum(entry_calls) from time_window"], ["sampled", "sum(sampled) from time_window"], ["events", "sum(events) from cost"]])
		same(key, sum(l[key]), one(`select ${text}`));
	near("cost", sum(l.cost_ms), one("select sum(cost_ns) / 1e6 from cost"));
	near("the agent's", sum(l.agent_ms), one("select sum(agent_ns) / 1e6 from cost"));
	same("losses over time", l.losses.map((x) => [x.cause, sum(x.lost)]),
		sql(db, "select cause, sum(lost) n from losses group by cause").map((x) => [x.cause, x.n]));
}

const total = (stacks, of = (s) => s.ms) => sum(stacks.map(of));

// Stacks are SQL's; those of a tier are some of them.
async function stacks() {
	const all = (await api("stacks")).json;
	const key = (s) => [s.node, s.identity, [s.path].flat().join(";"), s.state, [s.frames].flat().join(";")].join("|");
	const rows = new Map(sql(db, "select node, identity, path, state, frames, sum(samples) samples, sum(ms) ms from tier_stacks group by 1, 2, 3, 4, 5").map((s) => [key(s), s]));

	same("stacks are those of SQL", all.stacks.map(key).sort(), [...rows.keys()].sort());
	for (const s of all.stacks)
		check(`${key(s)} is as SQL says`, s.samples === rows.get(key(s)).samples && Math.abs(s.ms - rows.get(key(s)).ms) < 0.1, `${s.samples} ${s.ms}`);
	same("so are the samples", [all.samples, all.not_seen], [one("select sum(samples) n from tier_stacks"), one("select sum(samples) n from tier_stacks where state = 'not seen'")]);
	check("the longest first", all.stacks.every((s, i) => i === 0 || all.stacks[i - 1].ms >= s.ms));
	for (const tier of [...(await api("tiers")).json.tiers, PART]) {
		const some = (await api(`stacks?tier=${encodeURIComponent(tier)}`)).json;
		const expected = all.stacks.filter((s) => s.path.some((t) => t === tier || t.startsWith(`${tier}: `)));

		same(`those of ${tier}`, some.stacks, expected);
		same(`samples of ${tier}`, [some.samples, some.not_seen], [total(expected, (s) => s.samples), total(expected, (s) => s.state === "not seen" ? s.samples : 0)]);
	}
}

// What is too much is left out, the least first, and its sums are told.
async function manyStacks() {
	const file = join(dir, "many.db");

	run(join(build, "test", "mkdb"), file);
	sql(file, `with recursive n(i) as (select 1 union all select i + 1 from n where i < 6000)
	    insert into stack (frames) select 'm:f' || i || '/1:3' from n;
	    insert or ignore into stack_path (path) values ('http');
	    insert into stack_stat (window_id, identity_id, path_id, stack_id, state, samples, time_ns, w_time_ns)
	    select (select min(id) from time_window), (select id from identity where name = 'create'), (select id from stack_path where path = 'http'), id, 0, 1, 2000000 + id, 2000000 + id from stack where frames like 'm:f%'`);
	const { host } = await web(file);

	for (const [query, where] of [["", "1"], ["?tier=http", "';' || path || ';' like '%;http;%'"]]) {
		const [{ n, ms }] = sql(file, `select sum(samples) n, sum(w_time_ns) / 1e6 ms from stack_stat join stack_path p on p.id = path_id where ${where}`);
		const s = (await ask(host, `/api/v1/stacks${query}`)).json;

		same(`at most 5000${query}`, s.stacks.length, 5000);
		check(`it says what is left out${query}`, s.left_out.stacks >= 1000 && s.left_out.samples >= s.left_out.stacks);
		check(`the least${query}`, s.left_out.ms / s.left_out.stacks <= s.stacks.at(-1).ms);
		same(`samples are all${query}`, [s.samples, total(s.stacks, (x) => x.samples) + s.left_out.samples], [n, n]);
		near(`time is all${query}`, total(s.stacks) + s.left_out.ms, ms);
	}
}

async function rest() {
	const lost = (await api("losses")).json;
	const about = (await api("about")).json;

	same("losses", lost.losses.map((x) => [x.cause, x.lost, x.unit]),
		sql(db, "select cause, sum(lost) n, unit from losses group by cause").map((x) => [x.cause, x.n, x.unit]));
	same("losses' entry calls", lost.entry_calls, one("select sum(entry_calls) from time_window"));
	same("nodes", (await api("nodes")).json.nodes, sql(db, "select name from node where name <> '' order by name").map((x) => x.name));
	same("nodes of a range", (await api("nodes?until=2026-11-21T09:00:00Z")).json.nodes, []);
	same("tiers", (await api("tiers")).json, { tiers: sql(db, "select name from tier where position > 0 order by position").map((x) => x.name), former: [] });
	same("events", (await api("events")).json.events.map((e) => [e.kind, e.node]), sql(db, "select kind, node from events").map((e) => [e.kind, e.node]));
	same("the span", [about.first, about.last], [sql(db, "select min(start) t from tier_stats")[0].t, sql(db, "select max(end) t from tier_stats")[0].t]);
	check("a name with a script in it is one of many", (await api("identities")).json.identities.includes(SCRIPT));
	same("healthz", (await ask(w.host, "/healthz")).text, "{\"ok\":true}\n");
}

// Every path of openapi.json is there, with these parameters and no others.
async function openapi() {
	const doc = JSON.parse(readFileSync("priv/openapi.json", "utf8"));
	const values = { since: "1h", until: "2026-11-21T10:01:00Z", node: "web@a", identity: "create", tier: "http", step: "1m", limit: "5", offset: "0", sort: "cost", what: "busy", versus: "2h,1h", id: "1" };

	same("it is served", (await ask(w.host, "/openapi.json")).json, doc);
	for (const [path, methods] of Object.entries(doc.paths))
		for (const [method, { parameters = [], responses }] of Object.entries(methods)) {
			const q = parameters.map((p) => p.$ref ? doc.components.parameters[p.$ref.split("/").at(-1)] : p)
				.filter((p) => p.in === "query" && p.name !== "since").map((p) => `${p.name}=${encodeURIComponent(p.schema?.enum?.at(-1) ?? values[p.name])}`).join("&");
			const a = await ask(w.host, `${path.replace("{id}", values.id)}?${q}`, { method: method.toUpperCase(),
				headers: { Origin: `http://${w.host}`, "X-Kprofd": "1" } });

			check(`${method} ${path} answers what it promises`, responses[a.status] !== undefined, `${a.status} ${a.text}`);
			// of a saved database there are no metrics, and it says so
			check(`${method} ${path} is found`, path === "/metrics" ? /a kprofd that runs/.test(a.json.error) : a.status !== 404 && a.status !== 400, a.text);
			check(`${method} ${path} knows no others`, !path.startsWith("/api") || (await ask(w.host, `${path.replace("{id}", "1")}?zz=1`, { method: method.toUpperCase(), headers: { Origin: `http://${w.host}`, "X-Kprofd": "1" } })).status === 400);
		}
}

async function refused() {
	for (const [path, status] of [["/api/v1/report?since=never", 400], ["/api/v1/report?since=1h&since=2h", 400],
		["/api/v1/slow?limit=0", 400], ["/api/v1/slow?limit=1001", 400], ["/api/v1/slow?offset=-1", 400],
		["/api/v1/report?identity=%zz", 400], ["/api/v1/report?identity=%00", 400], ["/api/v1/report?identity", 400],
		["/api/v1/report?since=2026-11-21T10:01:00Z&until=2026-11-21T10:00:00Z", 400], ["/api/v1/compare", 400],
		["/api/v1/series?tier=nosuch", 404], ["/api/v1/report?sort=nosuch", 404], ["/api/v1/requests/999", 404],
		["/api/v1/requests/1x", 404], ["/api/v1/requests/", 404], ["/api/v1/requests/9999999999999999999999", 404],
		["/api/v1/stacks?tier=nosuch", 404], ["/api/v1/stacks?tier=", 400], ["/api/v1/stacks?limit=5", 400],
		["/api/v1/slow?tier=nosuch", 404], ["/api/v1/slow?tier=database:%20users", 404], ["/api/v1/slow?sort=nosuch", 404],
		["/api/v1/nosuch", 404], ["/api/v1/", 404], ["/nosuch", 404], ["/../../../../etc/passwd", 404],
		["/%2e%2e/%2e%2e/etc/passwd", 404], ["/..%2f..%2fetc/passwd", 404], ["//etc/passwd", 404], ["/app.js/", 404], ["/./app.js", 404]]) {
		const a = await ask(w.host, path);

		check(`${path} is refused`, a.status === status && typeof a.json?.error === "string", `${a.status} ${a.text.slice(0, 100)}`);
		check(`${path} gives nothing away`, !a.text.includes("root:"));
	}
	same("a reading path is not written to", (await ask(w.host, "/api/v1/report", { method: "POST" })).status, 403);
	same("nor by our page", (await ask(w.host, "/api/v1/report", { method: "POST", headers: { Origin: `http://${w.host}`, "X-Kprofd": "1" } })).status, 405);
	same("what changes is not read", (await ask(w.host, "/api/v1/pause")).status, 405);
	check("no other methods", (await ask(w.host, "/", { method: "PUT" })).status >= 400);
	check("nor PATCH", (await ask(w.host, "/api/v1/pause", { method: "PATCH" })).status >= 400);
	same("HEAD has no body", (await ask(w.host, "/", { method: "HEAD" })).text, "");
}

async function origins() {
	const ours = { Origin: `http://${w.host}`, "X-Kprofd": "1" };
	const post = async (headers) => (await ask(w.host, "/api/v1/pause", { method: "POST", headers })).status;

	for (const host of ["evil.example", "evil.example:4711", "127.0.0.1.evil.example", "localhost.evil.example", "127.0.0.1:80:80", "127.0.0.1@evil.example", "[::1].evil.example", "10.0.0.1", "0x7f.1"])
		for (const path of ["/", "/healthz", "/api/v1/report"])
			same(`Host '${host}' at ${path}`, (await ask(w.host, path, { headers: { Host: host } })).status, 403);
	for (const host of ["localhost", "LocalHost:4711", "127.0.0.1", "127.1.2.3:1", "[::1]:4711"])
		same(`Host '${host}'`, (await ask(w.host, "/healthz", { headers: { Host: host } })).status, 200);
	for (const [site, status] of [["cross-site", 403], ["same-site", 403], ["same-origin", 200], ["none", 200]]) {
		same(`a question ${site}`, (await ask(w.host, "/api/v1/nodes", { headers: { "Sec-Fetch-Site": site } })).status, status);
		same(`the page by a link, ${site}`, (await ask(w.host, "/", { headers: { "Sec-Fetch-Site": site } })).status, 200);
	}
	same("our page may (and there is no kprofd)", await post(ours), 503);
	same("with the browser's word", await post({ ...ours, "Sec-Fetch-Site": "same-origin" }), 503);
	for (const [name, headers] of [["nothing", {}], ["no header of ours", { Origin: ours.Origin }], ["no origin", { "X-Kprofd": "1" }],
		["another origin", { ...ours, Origin: "http://evil.example" }], ["origin null", { ...ours, Origin: "null" }],
		["another port", { ...ours, Origin: "http://127.0.0.1:1" }], ["https", { ...ours, Origin: `https://${w.host}` }],
		["another site", { ...ours, "Sec-Fetch-Site": "cross-site" }], ["the same site only", { ...ours, "Sec-Fetch-Site": "same-site" }],
		["a forged host", { ...ours, Host: "evil.example", Origin: "http://evil.example" }]])
		same(`POST with ${name}`, await post(headers), 403);
}

// Any program of the machine can send the headers of our page.
async function users() {
	// with bash, which others can run wherever our node is
	const forged = `exec 3<>/dev/tcp/${w.host.replace(":", "/")} && printf '%s /api/v1/%s HTTP/1.1\\r\\n%s\\r\\n\\r\\n' "$1" "$0" "$2" >&3 && read -r _ status _ <&3 && echo "$status"`;
	const headers = `Host: ${w.host}\r\nOrigin: http://${w.host}\r\nX-Kprofd: 1\r\nContent-Length: 0`;
	const as = (uid, ...args) => spawnSync("bash", ["-c", forged, ...args, headers], { uid, gid: uid, cwd: "/", encoding: "utf8", timeout: PATIENCE }).stdout.trim();

	if (process.getuid() !== 0) {
		console.log("api_test: not root, so no other user's requests are tried");
		return;
	}
	same("another user may read", as(65534, "nodes", "GET"), "200");
	same("and not pause", as(65534, "pause", "POST"), "403");
	same("as we may (and there is no kprofd)", as(0, "pause", "POST"), "503");
	if (!Object.values(networkInterfaces()).flat().some((a) => a.address === "::1"))
		return;
	const six = await start(join(build, "kprof"), ["web", "-db", db, "-http", "[::1]:0"], /http:\S+\n/);
	const host = `[::1]:${/:(\d+)\/\n/.exec(six.text)[1]}`;

	same("by IPv6, too", await new Promise((resolve, reject) => request(`http://${host}/api/v1/pause`, { method: "POST",
		headers: { Origin: `http://${host}`, "X-Kprofd": "1" } }, (a) => resolve(a.resume().statusCode)).on("error", reject).end()), 503);
}

// One that is asked too much is there all the same.
async function busy() {
	const path = join(dir, "busy.sock"), asked = [];
	const server = createServer((s) => { asked.push(s); s.on("error", () => {}); }).listen(path);
	const b = await web(db, "-control", path);
	const waiting = Array.from({ length: 8 }, () => ask(b.host, "/api/v1/status"));

	await until("all to wait", () => asked.length === 8);
	const more = await ask(b.host, "/api/v1/status");

	check("one more is told so", more.status === 503 && /too many/.test(more.json.error), more.text);
	for (const s of asked)
		s.destroy();
	for (const a of await Promise.all(waiting))
		check("one that ends before it answers is said to", a.status === 503 && /is it ending/.test(a.json.error), a.text);
	server.close();
}

async function headers() {
	for (const path of ["/", "/app.js", "/api/v1/report", "/nosuch", "/api/v1/report?zz=1"]) {
		const h = (await ask(w.host, path)).headers;

		check(`${path} has a policy`, /default-src 'none'/.test(h["content-security-policy"]) && /frame-ancestors 'none'/.test(h["content-security-policy"]) && !/unsafe/.test(h["content-security-policy"]));
		same(`${path} is not sniffed`, h["x-content-type-options"], "nosniff");
		check(`${path} may be read by no other origin`, h["access-control-allow-origin"] === undefined);
	}
	check("API answers are JSON", /^application\/json/.test((await api("identities")).headers["content-type"]));
}

async function tokens() {
	const file = join(dir, "token");
	const fails = (...args) => spawnSync(join(build, "kprof"), ["web", "-db", db, ...args], { encoding: "utf8", timeout: PATIENCE });

	writeFileSync(file, "0123456789abcdef\n", { mode: 0o600 });
	const t = await web(db, "-http-token-file", file);
	const status = async (authorization, more = {}) => (await ask(t.host, "/api/v1/report", { headers: authorization ? { Authorization: authorization } : {}, ...more })).status;

	same("no token", await status(), 401);
	for (const wrong of ["Bearer 0123456789abcdeg", "Bearer 0123456789abcde", "Bearer 0123456789abcdef0", "Bearer ", "Basic 0123456789abcdef", "0123456789abcdef", "Bearer 0123456789abcdef0123456789abcdef"])
		same(`'${wrong}'`, await status(wrong), 401);
	same("the token", await status("Bearer 0123456789abcdef"), 200);
	same("POST with the token", (await ask(t.host, "/api/v1/pause", { method: "POST", headers: { Authorization: "Bearer 0123456789abcdef" } })).status, 503);
	same("POST of our page without", (await ask(t.host, "/api/v1/pause", { method: "POST", headers: { Origin: `http://${t.host}`, "X-Kprofd": "1" } })).status, 401);
	same("health needs none", (await ask(t.host, "/healthz")).status, 200);
	const all = await start(join(build, "kprof"), ["web", "-db", db, "-http", "0.0.0.0:0", "-http-token-file", file], /http:\S+\n/);
	same("by any name then", (await ask(`127.0.0.1:${/:(\d+)\/\n/.exec(all.text)[1]}`, "/api/v1/nodes", { headers: { Host: "db.example", Authorization: "Bearer 0123456789abcdef" } })).status, 200);
	for (const args of [["-http", "0.0.0.0:0"], ["-http", "[::]:0"], ["-http", "nosuch"], ["-http", "nosuch:0"]]) {
		const p = fails(...args);

		check(`${args.join(" ")} is refused`, p.status === 1 && /-http/.test(p.stderr), p.stderr);
	}
	chmodSync(file, 0o440);
	/* a group that is not ours, which only root can give it */
	const theirs = process.getuid() === 0;
	if (theirs)
		chownSync(file, 0, 12345);
	await start(join(build, "kprof"), ["web", "-db", db, "-http", "127.0.0.1:0", "-http-token-file", file], /http:\S+\n/, { CREDENTIALS_DIRECTORY: dir });
	check("the same is no credential of systemd's", !theirs || /group/.test(fails("-http-token-file", file).stderr));
	chmodSync(file, 0o644);
	check("a token that others may read", /chmod 600/.test(fails("-http-token-file", file).stderr));
	chmodSync(file, 0o600);
	writeFileSync(file, "short\n");
	check("a short one", /no token/.test(fails("-http-token-file", file).stderr));
}

// A socket of our own: what it got, until it was closed.
function raw(text, host = w.host) {
	const [name, port] = host.split(":");
	const s = connect(port, name);

	s.got = "";
	s.ended = new Promise((resolve) => s.on("close", resolve));
	s.on("data", (d) => { s.got += d; });
	s.on("error", () => {});
	s.write(text);
	return s;
}

async function bounds() {
	const big = raw(`GET /healthz HTTP/1.1\r\nHost: ${w.host}\r\nX: ${"x".repeat(20000)}\r\n\r\n`);
	const body = raw(`POST /api/v1/pause HTTP/1.1\r\nHost: ${w.host}\r\nContent-Length: 100000000\r\n\r\n`);
	const nameless = raw("GET /healthz HTTP/1.0\r\n\r\n");
	const junk = raw("\x00\xff\x16\x03\x01 nonsense\r\n\r\n");

	await Promise.all([big.ended, body.ended, junk.ended, nameless.ended]);
	check("who names no host is refused", / 403 /.test(nameless.got), nameless.got.slice(0, 80));
	// headers in several reads, one connection after the other
	for (const n of [10, 5000, 7000, 5000])
		same(`${n} bytes of header`, (await ask(w.host, "/healthz", { headers: { "X-Long": "x".repeat(n) } })).status, 200);
	check("headers are bounded", !/ 200 /.test(big.got), big.got.slice(0, 80));
	check("bodies are bounded", !/ 200 /.test(body.got), body.got.slice(0, 80));
	check("what is no HTTP gets nothing", !/ 200 /.test(junk.got), junk.got.slice(0, 80));
	same("a query is bounded", (await ask(w.host, `/api/v1/report?identity=${"x".repeat(5000)}`)).status, 400);

	// those that keep their places and ask nothing more give way, one by one
	const keep = Array.from({ length: 64 }, () => raw(`GET /healthz HTTP/1.1\r\nHost: ${w.host}\r\n\r\n`));

	await until("all to be answered", () => keep.every((s) => / 200 /.test(s.got)));
	same("one more is served", (await ask(w.host, "/healthz")).status, 200);
	check("and most have kept theirs", keep.filter((s) => s.closed).length < 32, keep.filter((s) => s.closed).length);
	for (const s of keep)
		s.destroy();

	// one that sends a byte now and then, and more that send nothing than there are places
	const slow = raw(`GET /healthz HTTP/1.1\r\nHost: ${w.host}\r\nX: `);
	const drip = setInterval(() => slow.write("x"), 1000);
	const crowd = Array.from({ length: 100 }, () => raw("GET /he"));

	same("others are served all the same", (await ask(w.host, "/healthz")).status, 200);
	await until("the slow one to be cut", async () => slow.destroyed || slow.closed);
	clearInterval(drip);
	await Promise.all(crowd.map((s) => s.ended));
	check("a slow request is cut", !/ 200 /.test(slow.got));
	same("and all is well", (await ask(w.host, "/healthz")).status, 200);
	await halves();
}

// More that ask half a request than there are places, and than the kernel would keep;
// who closes one makes the next. One at a time, they gave way once a second.
async function halves() {
	const all = new Set();
	let more = true;
	const open = () => {
		const s = raw("GET /he");

		all.add(s);
		/* at once they would also push out who has just come, and has not asked yet */
		s.ended.then(() => { all.delete(s); if (more) setTimeout(() => more && open(), 500); });
	};

	for (let i = 0; i < 300; i++)
		open();
	for (let i = 0; i < 20; i++)
		same("others are served amid them", (await ask(w.host, "/healthz")).status, 200);
	more = false;
	for (const s of all)
		s.destroy();
	await until("places", async () => (await ask(w.host, "/healthz")).status === 200);
}

// What follows a body is no request of that connection: a proxy may see it
// otherwise, and hand its answer to somebody else.
async function bodies() {
	const next = `GET /healthz HTTP/1.1\r\nHost: ${w.host}\r\n\r\n`;

	for (const [first, body] of [["HEAD /healthz HTTP/1.1\r\nContent-Length: 60", ""], ["GET /healthz HTTP/1.1\r\nTransfer-Encoding: gzip", ""],
		["HEAD /healthz HTTP/1.1\r\nTransfer-Encoding: chunked", ""], ["GET /healthz HTTP/1.1\r\nContent-Length : 60", ""],
		["GET /healthz HTTP/1.1\r\nContent-Length: 2", "{}"]]) {
		const s = raw(`${first}\r\nHost: ${w.host}\r\n\r\n${body}${next}`);

		await s.ended;
		same(`one answer to '${first.replace("\r\n", " ")}'`, s.got.match(/HTTP\/1\.1 \d/g)?.length, 1);
	}
	for (const second of ["0", "5"]) {
		const two = raw(`GET /healthz HTTP/1.1\r\nHost: ${w.host}\r\nContent-Length: 0\r\nContent-Length: ${second}\r\n\r\n${next}`);

		await two.ended;
		same(`answers to two lengths, 0 and ${second}`, two.got.match(/HTTP\/1\.1 \d+/g)?.join(), "HTTP/1.1 400");
	}
	const s = raw(`POST /healthz HTTP/1.1\r\nHost: ${w.host}\r\nContent-Length: 0\r\n\r\n${next.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")}`);

	await s.ended;
	same("what has none goes on", s.got.match(/HTTP\/1\.1 \d/g)?.length, 2);
}

// Old windows are long: a range is measured from the first that it cuts to the last.
async function whole() {
	const file = join(dir, "rolled.db");
	const cut = "since=2026-11-21T10:00:20Z&until=2026-11-21T10:00:40Z";

	run(join(build, "test", "mkdb"), file, "1795255200", "/dev/null", "10s:20s,30s:1m,1m:9d", "150");
	const { host } = await web(file);
	const get = async (path) => (await ask(host, `/api/v1/${path}`)).json;
	const [{ n }] = sql(file, `select sum(w_requests) n from stat join time_window on id = window_id where start_ns = 1795255200000000000
	    and tier_id = (select id from tier where name = '_total') and identity_id = (select id from identity where name = '_total')`);
	const minute = ["2026-11-21T10:00:00.000Z", "2026-11-21T10:01:00.000Z"];

	for (const what of ["report", "losses"]) {
		const r = await get(`${what}?${cut}`);

		same(`${what} of a part of a window is of the whole`, [r.windows, r.start, r.end], [2, ...minute]);
	}
	same("with its requests", (await get(`report?${cut}`)).rows[0]?.requests, n);
	same("and its nodes", (await get(`nodes?${cut}`)).nodes, ["web@a", "web@b"]);
	same("a series has them, too", sum((await get(`series?${cut}`)).requests), n);
	same("and the stacks", (await get(`stacks?${cut}`)).from, minute[0]);
	const c = await get(`compare?since=2026-11-21T10:00:50Z&until=2026-11-21T10:01:10Z&versus=2026-11-21T10:01:15Z,2026-11-21T10:01:50Z`);

	same("ranges that do not overlap share no window", [c.now.start, c.now.end, c.then.start, c.then.end],
		[minute[0], "2026-11-21T10:01:30.000Z", "2026-11-21T10:01:30.000Z", "2026-11-21T10:02:00.000Z"]);
}

// A database whose events are 30 MB.
async function big() {
	const file = join(dir, "big.db");

	run(join(build, "test", "mkdb"), file);
	sql(file, `with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000)
	    insert into event (run_id, node_id, at_ns, kind, text)
	    select (select id from run), (select min(id) from node), (select max(start_ns) from time_window), 'trip', hex(zeroblob(15000)) from n`);
	return [file, await web(file)];
}

// What nobody waits for is not asked; what nobody takes is bounded.
async function crowd() {
	const [file, b] = await big();
	const get = (path) => `GET /api/v1/${path} HTTP/1.1\r\nHost: ${b.host}\r\n\r\n`;
	const lock = spawn("sqlite3", [file]);

	// the first ones wait for the lock, two seconds each; another ends meanwhile
	lock.stdin.write("begin exclusive;\nselect 'locked';\n");
	await new Promise((resolve) => lock.stdout.once("data", resolve));
	const first = Array.from({ length: 3 }, () => raw(get("about"), b.host));

	await new Promise((resolve) => setTimeout(resolve, 300));
	const gone = raw(get("nodes"), b.host);

	gone.end();
	await gone.ended;
	check("who has gone is not answered", / 503 /.test(gone.got) && /has gone/.test(gone.got), gone.got.slice(-200));
	lock.stdin.end();
	for (const s of first)
		s.destroy();
	const idle = [];

	// each is cut after half a minute, in which a machine may not make all of them
	await until("what nobody takes to be too much", async () => {
		const a = await ask(b.host, "/api/v1/events?limit=1");

		if (a.status === 503 && /wait to be read/.test(a.text))
			return true;
		if (idle.length < 48)
			idle.push(raw(get("events?limit=1000"), b.host).pause());
		return false;
	});
	for (const s of idle)
		s.destroy();
	await until("room", async () => (await ask(b.host, "/api/v1/events?limit=1")).status === 200);
}

await main("api_test", [begin, asKprof, pages, slowest, series, labels, heatmap, load, stacks, manyStacks, rest, whole, openapi, refused, origins, users, busy, headers, tokens, bodies, crowd, bounds]);
