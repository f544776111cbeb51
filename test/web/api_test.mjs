// api_test.mjs - the HTTP API says what sqlite3 and kprof -json say of the same
// database, and refuses what it has to.  usage: api_test.mjs BUILD_DIR
import { chmodSync, chownSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { connect, createServer } from "node:net";
import { connect as connectTls } from "node:tls";
import { networkInterfaces } from "node:os";
import { spawn, spawnSync } from "node:child_process";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { ask as askPlainly, build, certificate, check, dir, kprof, main, near, run, same, sql, start, trusted, until, web } from "./world.mjs";

import { doc, neverSeen, parametersOf, undescribed, wrong } from "./openapi.mjs";

const db = join(dir, "k.db");
const SCRIPT = "<img src=x onerror=alert(1)>";
const PART = "database: users";
const HALF_HELLO = "\x16\x03\x01\x02\x00\x01\x00";	// the first message of TLS begins so
const PATIENCE = 120e3;		// ms, for a program that is to end by itself
let w;
let tls = [];		// options, once all is asked over TLS

// A database's path, another one each time.
const fresh = (name) => join(mkdtempSync(join(dir, "db.")), name);

// Every answer is as openapi.json describes it, unless it is compressed; and who gets one
// has asked what is described there.
async function ask(host, path, options = {}) {
	const { method = "GET" } = options;
	const a = await askPlainly(host, path, options);

	if (method !== "HEAD" && a.headers["content-encoding"] === undefined)
		same(`${method} ${path.slice(0, 100)} is as described`, [...wrong(method, path, { status: a.status, type: a.headers["content-type"], json: a.json }).slice(0, 5), ...path.startsWith("/api") && a.status < 300 ? undescribed(method, path) : []], []);
	return a;
}

const serve = (file, ...more) => web(file, ...tls, ...more);
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
	w = await serve(db);
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
		[`compare?by=node&since=${until}&versus=${since},${until}`, ["report", "-by", "node", "-since", until, "-versus", `${since},${until}`]],
		["report?by=node", ["report", "-by", "node"]],
		["report?by=node&identity=create", ["report", "-by", "node", "-identity", "create"]],
		["slo", ["report", "-slo"]],
		[`slo?by=node&node=web@*&since=${since}&until=${until}`, ["report", "-slo", "-by", "node", "-node", "web@*", "-since", since, "-until", until]],
		["changes", ["report", "-changed"]],
		[`changes?node=web@a&identity=create&since=${since}&until=${until}`, ["report", "-changed", "-node", "web@a", "-identity", "create", "-since", since, "-until", until]],
		["slow", ["slow", "-n", "100"]],
		["slow?limit=2&node=web@b", ["slow", "-n", "2", "-node", "web@b"]],
		["slow?identity=create", ["slow", "-identity", "create"]],
		["slow?outcome=raised-inside&limit=3", ["slow", "-outcome", "raised-inside", "-n", "3"]],
		["slow?trace=4bf92f3577b34da6a3ce929d0e0e4736", ["slow", "-n", "100", "-trace", "4bf92f3577b34da6a3ce929d0e0e4736"]],
		["slow?outcome=unfinished", ["slow", "-n", "100", "-outcome", "unfinished"]],
		["stacks", ["report", "-stacks"]],
		[`stacks?node=web@a&since=${since}&until=${until}`, ["report", "-stacks", "-node", "web@a", "-since", since, "-until", until]],
		["stacks?identity=create", ["report", "-stacks", "-identity", "create"]],
		["memory", ["report", "-memory"]],
		[`memory?node=web@a&since=${since}&until=${until}`, ["report", "-memory", "-node", "web@a", "-since", since, "-until", until]],
	])
		same(`${path} is as kprof says`, (await api(path)).text.replace(/,"next":(null|"[-.\d]+")}\n$/, "}\n"), kprof(...args, "-json", "-db", db));
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

// What is stored while a list is read neither shifts nor repeats its rows; of several files,
// too, and where rows are equal.
async function cursors() {
	const file = fresh("cursors.db"), other = fresh("cursors2.db");
	const add = (to, total, start = "start_ns") => sql(to, `insert into request select null, run_id, node_id, identity_id, ${start}, ${total}, label, parent_label, weight, outcome, traceparent from request where id = 1;
	    insert into request_time select (select max(id) from request), tier_id, ${total} / 10 from request_time where request_id = 1`);
	const happen = (to, at) => sql(to, `insert into event (run_id, node_id, at_ns, kind, text) select (select min(id) from run), (select min(id) from node), ${at}, 'mark', 'at ${at}'`);
	const AT = 1795255220000000000n;
	let slower = 9e9;

	run(join(build, "test", "mkdb"), file);
	run(join(build, "test", "mkdb"), other);
	sql(other, "update run set started_ns = started_ns + 1000000000");
	for (const to of [file, other])
		for (let i = 0; i < 4; i++) {
			add(to, 350000000);
			happen(to, AT);
			happen(to, AT + BigInt(i));
		}
	const { host } = await serve(file, "-db", other);
	const get = async (path) => (await ask(host, `/api/v1/${path}`)).json;
	const walk = async (path, key, meanwhile) => {
		const rows = [];
		let parts = 0;

		for (let cursor = ""; cursor !== null; parts++) {
			const a = await get(`${path}${cursor && `&cursor=${cursor}`}`);

			rows[key === "events" ? "unshift" : "push"](...a[key]);
			cursor = a.next;
			meanwhile(parts);
		}
		check(`${path} is read in parts`, parts > 4, parts);
		return rows;
	};

	for (const sort of ["sort=total", "sort=self", "tier=database"]) {
		const all = (await get(`slow?${sort}&limit=1000`)).requests;

		check("some are equal", new Set(all.map((q) => q.by_ms ?? q.total_ms)).size < all.length);
		same(`slow requests by ${sort}`, await walk(`slow?${sort}&limit=3`, "requests", () => add(file, slower += 1e6)), all);
	}
	const events = (await get("events?limit=1000")).events;

	same("events", await walk("events?limit=2", "events", (i) => happen(file, 2n * AT + BigInt(i))), events);
	same("an event's cursor is no request's", (await ask(host, `/api/v1/report?cursor=${(await get("events?limit=2")).next}`)).status, 400);
}

// Request types are in the order of a range's windows: the cursor keeps to these, and says
// so when they are no longer there.
async function types() {
	const file = fresh("types.db");

	run(join(build, "test", "mkdb"), file);
	const { host } = await serve(file);
	const get = async (path) => (await ask(host, `/api/v1/${path}`)).json;
	const [{ last }] = sql(file, "select max(end_ns) last from time_window");
	let added = BigInt(last);
	const more = () => { added += 5000000000n; sql(file, `insert into time_window select null, run_id, node_id, level, ${added}, ${added} + 5000000000, 0, 0 from time_window where id = 1;
	    insert into stat (${columns}) select ${columns.map((c) => c === "window_id" ? "(select max(id) from time_window)" : c === "identity_id" ? `(select min(id) from identity where name <> '_total')` : c)} from stat where window_id = 1 and identity_id = (select max(identity_id) from stat where window_id = 1)`); };
	const columns = sql(file, "select name from pragma_table_info('stat')").map((c) => c.name);
	const middle = "2026-11-21T10:01:00Z", until = "2026-11-21T10:02:00Z";

	for (const [path, key] of [["report?sort=cost", "rows"], ["report?by=node&sort=name", "rows"], ["identities?", "identities"],
		[`compare?since=${middle}&versus=2026-11-21T10:00:00Z,${middle}`, "changes"]]) {
		const whole = await get(`${path}&limit=1000`);
		const parts = [];
		let part = await get(`${path}&limit=1`);

		for (;; part = await get(`${path}&limit=1&cursor=${part.next}`)) {
			parts.push(part);
			if (part.next === null)
				break;
			more();
		}
		const total = key === "identities" ? 0 : 1;

		check(`${path} has a row in each part`, parts.every((p) => p[key].length === total + 1) && parts.length > 1, parts.map((p) => p[key].length));
		const { [key]: none, next: last, ...rest } = whole;

		if (key !== "changes")
			for (const { [key]: some, next: more, ...sums } of parts)
				same(`sums of each part of ${path} are of all`, sums, rest);
		same(`the parts of ${path} make the whole`, parts.flatMap((p, i) => p[key].slice(i === 0 ? 0 : total)), whole[key]);
		if (key === "changes")
			same("with both sides of the same types", parts.map((p) => [p.now, p.then].flatMap((side) => side.rows.map((r) => r.identity)).sort()),
				parts.map((p) => p.changes.flatMap((c) => ["now", "then"].filter((side) => whole[side].rows.some((r) => r.identity === c.identity)).map(() => c.identity)).sort()));
	}
	const { next } = await get(`report?until=${until}&limit=1`);

	sql(file, "delete from time_window where id = 1");
	for (const path of ["report", "identities"])
		same(`${path}: another list`, (await ask(host, `/api/v1/${path}?limit=1&cursor=${next}`)).json.code, "cursor-expired");
	for (const cursor of ["1", "x", "1.2", "1.2.3.4.5.6.7", "1..2", ".", "1.", "-", "99999999999999999999.1", "1.2.3.4.-5.6", "1.2.3.4.5.0", "2.1.3.4.5.1", "1.2.4.3.5.1", "-9223372036854775808.9223372036854775807.0.0.0.1", next.replace(/\d+$/, "99999999")])
		same(`cursor ${cursor}`, (await ask(host, `/api/v1/report?cursor=${cursor}`)).json.code, "bad-parameter");
	same("an id below all", (await ask(host, "/api/v1/slow?cursor=1.-9223372036854775808")).status, 400);
}

// A name that nothing has is an error, or is told with the one that may be meant.
async function meant() {
	for (const [path, near] of [["report?node=web@aa", "web@a"], ["slow?node=web@*&node=wbe@b", "web@b"], ["series?identity=craete", "create"], ["stacks?identity=upadte2", null], ["events?node=nosuch@host", null]]) {
		const { unknown } = (await api(path)).json;

		same(`${path} names the near one`, unknown?.map((u) => u.near), [near]);
	}
	for (const path of ["report?node=web@a", "report?node=nosuch*", "series?identity=create", "slow?node=web@b&identity=_total"])
		same(`${path} is known`, (await api(path)).json.unknown, undefined);
	for (const [path, text] of [["series?tier=databsae", /no tier 'databsae': did you mean 'database'/], ["stacks?tier=zzzzzzzz", /no tier 'zzzzzzzz'$/], ["slow?tier=htpp", /did you mean 'http'/],
		["slow?tier=database:%20users", /have no times of/], ["report?sort=htpp", /requests, cost, name or a tier, not 'htpp': did you mean 'http'/], ["slow?sort=cost", /total or self/]]) {
		const { status, json } = await ask(w.host, `/api/v1/${path}`);

		check(`${path} says what may be meant`, status === 404 && json.code === "no-such-name" && text.test(json.detail), json.detail);
	}
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
	same("times of steps", s.t.map((t) => Date.parse(t) / 1e3), steps.map((x) => x.t));
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

// Two ranges: rates, errors, means and percentiles are SQL's and the report's, of types and
// of nodes; changes are made of these, and are uncertain where their interval holds 0.
async function compared() {
	const [from, middle, end] = ["10:00:00", "10:01:00", "10:02:00"].map((t) => `2026-11-21T${t}Z`);
	const sides = { now: [middle, end], then: [from, middle] };
	const like = (name, got, expected) => check(name, Math.abs(got / expected - 1) < 1e-5, `${got}, expected ${expected}`);
	const sums = (by, name, [a, b]) => sql(db, `select sum(s.w_requests) n, sum(s.w_raised) / 1.0 / sum(s.w_calls) raised, sum(s.w_total_ns) / 1e6 / sum(s.w_timed) mean
	    from stat s join time_window w on w.id = s.window_id join node n on n.id = w.node_id join identity i on i.id = s.identity_id
	    where s.tier_id = (select id from tier where name = '_total') and i.name = '${by === "node" ? "_total" : name}' and (n.name = '${name}' or '${by}' <> 'node')
	    and w.start_ns >= strftime('%s', '${a}') * 1000000000 and w.start_ns < strftime('%s', '${b}') * 1000000000`)[0];

	for (const [by, names] of [["identity", ["create", "undefined"]], ["node", ["web@a", "web@b"]]]) {
		const c = (await api(`compare?by=${by}&since=${middle}&versus=${from},${middle}`)).json;

		for (const name of names) {
			const row = c.changes.find((x) => x.identity === name);
			const figure = (f, tier = "_total") => row.figures.find((x) => x.figure === f && x.tier === tier);

			for (const [side, range] of Object.entries(sides)) {
				const x = sums(by, name, range);
				const report = (await api(`report?by=${by}&since=${range[0]}&until=${range[1]}`)).json.rows.find((r) => r.identity === name);

				like(`requests a second of ${name} ${side}`, row.requests[`${side}_per_s`], x.n / 60);
				like(`errors of ${name} ${side}`, figure("raised_share")[side], x.raised);
				like(`mean of ${name} ${side}`, figure("mean_ms")[side], x.mean);
				for (const tier of report.tiers.filter((t) => t.calls > 0))
					for (const p of ["p50_ms", "p90_ms", "p99_ms"])
						same(`${p} of ${tier.tier}, ${name} ${side}`, figure(p, tier.tier)[side], tier[p]);
			}
			for (const f of [row.requests, ...row.figures].filter((x) => x.difference_low !== null)) {
				const [now, then] = f.figure ? [f.now, f.then] : [f.now_per_s, f.then_per_s];

				check(`difference of ${f.figure}, ${name}`, Math.abs(f.difference - (now - then)) < 1e-4 && f.difference_low <= f.difference && f.difference <= f.difference_high, JSON.stringify(f));
				check(`uncertain where it may be none: ${f.figure}, ${name}`, f.uncertain === (now !== then && f.difference_low <= 0 && f.difference_high >= 0), JSON.stringify(f));
				check(`the same in per cent: ${f.figure}, ${name}`, then === 0 || f.change_percent_low <= f.change_percent && f.change_percent <= f.change_percent_high &&
				    (f.change_percent_low <= 0 && f.change_percent_high >= 0) === (f.difference_low <= 0 && f.difference_high >= 0), JSON.stringify(f));
			}
		}
	}
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
	// SQL has the compiler's name of a list comprehension
	const rows = new Map(sql(db, "select node, identity, path, state, replace(frames, 'db:''-rows/1-lc$^0/1-0-''/1', 'db:rows/1 (list comprehension)') frames, sum(samples) samples, sum(ms) ms from tier_stacks group by 1, 2, 3, 4, 5").map((s) => [key(s), s]));

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

// Of the other side it has what it has alone.
async function versusStacks() {
	const [early, late] = ["10:00:00", "10:01:00"].map((t) => `2026-11-21T${t}Z`);
	const last = "2026-11-21T10:02:00Z";
	const get = async (query) => (await api(`stacks?${query}`)).json;
	const alone = async (name, query, expected) => {
		const { versus, ...now } = await get(query);
		const { versus: none, ...of } = await get(expected);

		check(`${name}: it is there`, versus.stacks.length > 3 && versus.requests[0].requests > 0, versus.why);
		same(`${name}: the other side`, versus, of);
		same(`${name}: this side`, [now, none], [await get(query.replace(/&(versus|against)=[^&]*/g, "")).then(({ versus: x, ...rest }) => rest), null]);
	};

	await alone("time", `since=${late}&until=${last}&versus=${early},${late}`, `since=${early}&until=${late}`);
	await alone("time of a type and tier", `identity=create&tier=http&since=${late}&versus=${early},${late}`, `identity=create&tier=http&since=${early}&until=${late}`);
	await alone("nodes", "node=web@a&against=nodes", "node=web@b");
	await alone("nodes at another time", `node=web@a&since=${late}&against=nodes&versus=${early},${late}`, `node=web@b&since=${early}&until=${late}`);
	const { versus } = await get("identity=create&against=types");
	const all = await get("");

	same("types", versus.stacks, all.stacks.filter((s) => s.identity !== "create"));
	same("their requests", versus.requests.slice(1), all.requests.slice(1).filter((r) => r.identity !== "create"));
	same("and sums", [versus.requests[0].requests, versus.samples], [sum(versus.requests.slice(1).map((r) => r.requests)), total(versus.stacks, (s) => s.samples)]);
	const { versus: fast, ...slow } = await get("took=16ms&against=durations");

	same("durations: both sides and those not known are all", ["samples", "requests"].map((k) => k === "samples" ? slow.samples + fast.samples + slow.untimed : slow.requests[0].requests + fast.requests[0].requests),
		[all.samples, all.requests[0].requests]);
	same("a duration of two times", (await get(`took=16ms&since=${late}&versus=${early},${late}`)).versus.stacks, (await get(`took=16ms&since=${early}&until=${late}`)).stacks);
	const list = (await api("slow?took=260ms,270ms")).json.requests;

	same("slow requests, to the octave", list.map((q) => q.total_ms), sql(db, "select total_ns / 1e6 t from request where total_ns > 250e6 and total_ns <= 500e6 order by 1 desc").map((r) => r.t));
	check("which are some", list.length > 0);
	same("of others none", (await api("slow?took=1s")).json.requests, []);
	const none = await get("node=web@*&against=nodes");

	same("no other node", [none.versus.stacks, none.versus.from], [[], null]);
}

// What is too much is left out, the least first, and its sums are told.
async function manyStacks() {
	const file = join(dir, "many.db");

	run(join(build, "test", "mkdb"), file);
	sql(file, `with recursive n(i) as (select 1 union all select i + 1 from n where i < 6000)
	    insert into stack (frames) select 'm:f' || i || '/1:3' from n;
	    insert or ignore into stack_path (path) values ('http');
	    insert into stack_stat (window_id, identity_id, path_id, stack_id, state, octave, samples, time_ns, w_time_ns)
	    select (select min(id) from time_window), (select id from identity where name = 'create'), (select id from stack_path where path = 'http'), id, 0, 25, 1, 2000000 + id, 2000000 + id from stack where frames like 'm:f%'`);
	const { host } = await serve(file);

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
	same("a time with an offset is the same time", (await api("losses?since=2026-11-21T12:01:00%2B02:00&until=2026-11-21T05:01:20.5-05:00")).json, (await api("losses?since=2026-11-21T10:01:00Z&until=2026-11-21T10:01:20.5Z")).json);
	same("healthz", (await ask(w.host, "/healthz")).text, "{\"ok\":true}\n");
}

// What the document has, the server's table has, and nothing else: paths, methods, parameters.
async function openapi() {
	const values = { trace: "4bf92f3577b34da6a3ce929d0e0e4736", since: "1h", until: "2026-11-21T10:01:00Z", node: "web@a", identity: "create", tier: "http", step: "1m", limit: "5", offset: "0", sort: "cost", what: "busy", versus: "2h,1h", text: "deploy of 1.4.2", id: "1", against: "types", for: "10s", events: "1000", cursor: "", seconds: "1", took: "1ms" };
	const ours = { Origin: w.origin, "X-Kprofd": "1" };
	const names = [...new Set(Object.values(doc.paths).flatMap((m) => Object.values(m)).flatMap(parametersOf).filter((p) => p.in === "query").map((p) => p.name))];
	const ids = [];

	same("it is served", (await ask(w.host, "/openapi.json")).json, doc);
	const [table] = /operations\[\] = \{[^]*?\n\};/.exec(readFileSync("src/web/api.c", "utf8"));

	same("it has every operation of the server", [...table.matchAll(/\{ "([a-z/]+)",( true)?/g)].map(([, name, post]) => `${post ? "post" : "get"} /api/v1/${name.replace(/\/$/, "/{id}")}`).sort(),
		Object.entries(doc.paths).filter(([path]) => path.startsWith("/api")).flatMap(([path, methods]) => Object.keys(methods).map((m) => `${m} ${path}`)).sort());
	same("and every code", [...readFileSync("src/web/server.h", "utf8").matchAll(/PROBLEM\(\w+, \d+, "([a-z-]+)"\)/g)].map(([, code]) => code).sort(), [...doc.components.schemas.Problem.properties.code.enum].sort());
	for (const [path, methods] of Object.entries(doc.paths)) {
		const at = path.replace("{id}", values.id);
		const allowed = [...methods.get ? ["GET", "HEAD"] : [], ...methods.post ? ["POST"] : []];

		for (const method of ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"].filter((m) => !allowed.includes(m))) {
			const a = await ask(w.host, at, { method, headers: ours });

			same(`${method} ${path}`, [a.status, a.headers.allow], [405, allowed.join(", ")]);
		}
		for (const [method, operation] of Object.entries(methods)) {
			const { responses, security, operationId } = operation;
			const options = { method: method.toUpperCase(), headers: ours };
			const known = parametersOf(operation).filter((p) => p.in === "query");
			const q = known.filter((p) => !["since", "cursor"].includes(p.name)).map((p) => `${p.name}=${encodeURIComponent(p.schema?.enum?.at(-1) ?? values[p.name])}`).join("&");
			const a = await ask(w.host, `${at}?${q}`, options);

			check(`${method} ${path} has a name of its own`, /^[a-z]+[A-Za-z]*$/.test(operationId) && !ids.includes(operationId), operationId);
			ids.push(operationId);
			if (path !== "/openapi.json" && path !== "/healthz")
				same(`${method} ${path} says which tokens are enough`, (security ?? doc.security).some((s) => s.readToken), method === "get" && path !== "/debug/pprof/profile");
			check(`${method} ${path} answers what it promises`, responses[a.status] !== undefined, `${a.status} ${a.text}`);
			// of a saved database there are no metrics, and it says so
			check(`${method} ${path} is found`, path === "/metrics" ? /a kprofd that runs/.test(a.json.detail) : a.status !== 404 && a.status !== 400, a.text);
			for (const name of path.startsWith("/api") ? [...names, "zz"] : []) {
				const { status, json } = await ask(w.host, `${at}?${name}`, options);

				same(`${method} ${path} ${known.some((p) => p.name === name) ? "knows" : "refuses"} ${name}`, [status, /^unknown parameter/.test(json.detail)], [400, !known.some((p) => p.name === name)]);
			}
		}
	}
	for (const path of ["/nosuch", "/api/v1/nosuch", "/api/v2/about"])
		same(`${path} is not there`, (await ask(w.host, path)).json.code, "no-such-path");
}

// Answers with what few have: changes after a mark, calls that requests lost, a request inside
// another one, messages that waited.
async function rare() {
	const night = fresh("night.db"), file = fresh("rare.db");

	run(join(build, "test", "mkdb"), night, "1795255200", "night");
	sql(night, "insert into event (run_id, node_id, at_ns, kind, text) select run_id, node_id, at_ns - 1000000000, 'mark', 'deploy' from event where kind = 'reloaded'");
	const { changes } = (await ask((await serve(night)).host, "/api/v1/changes")).json;

	check("there are changes, one after a mark and an event", changes.some((c) => c.mark !== null && c.event !== null && c.in !== null), JSON.stringify(changes));
	run(join(build, "test", "mkdb"), file);
	sql(file, `update stat set strayed = 9, missed = calls where tier_id = (select id from tier where name = 'database');
	    update request set parent_label = (select label from request where id = 1), start_ns = (select start_ns + 1000000 from request where id = 1) where id = 3;
	    insert into receiver (name) values ('db_server'); insert into request_wait select 1, 0, id, '<0.1.0>', null, 3, 1, 2000000, 1000000 from receiver`);
	const { host } = await serve(file);

	same("calls are missing", (await ask(host, "/api/v1/report")).json.missing.map((m) => [m.tier, m.missed_calls > 0]), [["database", true]]);
	const outer = (await ask(host, "/api/v1/requests/1")).json, inner = (await ask(host, "/api/v1/requests/3")).json;

	same("one is inside the other, and messages waited", [outer.inner.map((q) => q.request), inner.outer?.request, outer.waits.map((x) => x.receiver)], [[3], 1, ["db_server"]]);
}

// After all that was asked: what is described is in some answer.  Of a saved database there
// is nothing of kprofd's own, which browser_test asks for.
async function described() {
	const ofKprofd = ["getStatus", "listInFlight", "getRunning", "startTrace", "getTrace", "pause", "resume", "dump", "addMark", "getMetrics"];

	same("what is described is answered", neverSeen(Object.values(doc.paths).flatMap((m) => Object.values(m)).map((o) => o.operationId).filter((id) => !ofKprofd.includes(id))), []);
}

async function refused() {
	for (const [path, status] of [["/api/v1/report?since=never", 400], ["/api/v1/report?since=1h&since=2h", 400],
		["/api/v1/slow?trace=4bf9", 400], ["/api/v1/slow?limit=0", 400], ["/api/v1/slow?limit=5001", 400], ["/api/v1/slow?offset=-1", 400],
		["/api/v1/report?identity=%zz", 400], ["/api/v1/report?identity=%00", 400], ["/api/v1/report?identity", 400],
		["/api/v1/report?since=2026-11-21T10:01:00Z&until=2026-11-21T10:00:00Z", 400], ["/api/v1/compare", 400],
		["/api/v1/series?tier=nosuch", 404], ["/api/v1/report?sort=nosuch", 404], ["/api/v1/requests/999", 404],
		["/api/v1/requests/1x", 404], ["/api/v1/requests/1?form=nosuch", 400], ["/api/v1/requests/999?form=otlp", 404], ["/api/v1/requests/1?since=never", 400], ["/api/v1/requests/", 404], ["/api/v1/requests/9999999999999999999999", 404],
		["/api/v1/stacks?tier=nosuch", 404], ["/api/v1/stacks?tier=", 400], ["/api/v1/stacks?limit=5", 400],
		["/api/v1/stacks?form=tree", 400], ["/api/v1/stacks?form=difffolded", 400], ["/api/v1/stacks?form=pprof&since=2000-01-01&until=2000-01-02", 409],
		["/debug/pprof/profile?seconds=0", 400], ["/debug/pprof/profile?seconds=601", 400], ["/debug/pprof/profile?since=1h", 400], ["/debug/pprof/profile", 503],
		["/api/v1/stacks?against=nodes", 400], ["/api/v1/stacks?against=types&node=web@a", 400], ["/api/v1/stacks?against=both&node=web@a", 400], ["/api/v1/stacks?against=durations&node=web@a", 400],
		...["", "1", "250", "1s,250ms", "250ms,", ",1s", "-1ms,1s", "250ms,1s,2s"].map((v) => [`/api/v1/stacks?took=${v}`, 400]), ["/api/v1/slow?took=x", 400], ["/api/v1/report?took=1s", 400], ["/api/v1/compare?versus=-2h,-1h&against=nodes&node=web@a", 400],
		["/api/v1/slow?tier=nosuch", 404], ["/api/v1/slow?tier=database:%20users", 404], ["/api/v1/slow?sort=nosuch", 404],
		["/api/v1/nosuch", 404], ["/api/v1/", 404], ["/nosuch", 404], ["/../../../../etc/passwd", 404],
		["/%2e%2e/%2e%2e/etc/passwd", 404], ["/..%2f..%2fetc/passwd", 404], ["//etc/passwd", 404], ["/app.js/", 404], ["/./app.js", 404]]) {
		const a = await ask(w.host, path);

		check(`${path} is refused`, a.status === status && typeof a.json?.detail === "string", `${a.status} ${a.text.slice(0, 100)}`);
		check(`${path} gives nothing away`, !a.text.includes("root:"));
	}
	same("a reading path is not written to", (await ask(w.host, "/api/v1/report", { method: "POST" })).status, 403);
	same("nor by our page", (await ask(w.host, "/api/v1/report", { method: "POST", headers: { Origin: w.origin, "X-Kprofd": "1" } })).status, 405);
	same("what changes is not read", (await ask(w.host, "/api/v1/pause")).status, 405);
	for (const [path, method, status, allow] of [["events", "POST", 400, undefined], ["events?text=", "POST", 400, undefined], ["events?text=%20", "POST", 400, undefined],
		["events?text=a%0Ab", "POST", 400, undefined], [`events?text=${"x".repeat(257)}`, "POST", 400, undefined], ["events?text=x&limit=1", "POST", 400, undefined],
		["events?text=x", "GET", 400, undefined], ["traces?identity=create&for=2m", "POST", 400, undefined], ["traces?identity=create&for=500ms", "POST", 400, undefined], ["traces?identity=create&for=60s", "POST", 503, undefined], ["traces?identity=create", "GET", 405, "POST"], ["events?text=deploy+of+1.4.2", "POST", 503, undefined], ["events", "PUT", 405, "GET, HEAD, POST"],
		["events", "DELETE", 405, "GET, HEAD, POST"], ["pause", "PATCH", 405, "POST"], ["report", "OPTIONS", 405, "GET, HEAD"], ["status", "POST", 405, "GET, HEAD"]]) {
		const a = await ask(w.host, `/api/v1/${path}`, { method, headers: { Origin: w.origin, "X-Kprofd": "1" } });

		same(`${method} ${path}`, [a.status, a.headers.allow], [status, allow]);
	}
	same("nobody else marks", (await ask(w.host, "/api/v1/events?text=x", { method: "POST" })).status, 403);
	check("no other methods", (await ask(w.host, "/", { method: "PUT" })).status >= 400);
	check("nor PATCH", (await ask(w.host, "/api/v1/pause", { method: "PATCH" })).status >= 400);
	same("HEAD has no body", (await ask(w.host, "/", { method: "HEAD" })).text, "");
}

async function origins() {
	const ours = { Origin: w.origin, "X-Kprofd": "1" };
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
		["another port", { ...ours, Origin: w.origin.replace(/\d+$/, "1") }], ["the other scheme", { ...ours, Origin: w.origin.replace(/^https?/, (x) => x === "http" ? "https" : "http") }],
		["another site", { ...ours, "Sec-Fetch-Site": "cross-site" }], ["the same site only", { ...ours, "Sec-Fetch-Site": "same-site" }],
		["a forged host", { ...ours, Host: "evil.example", Origin: w.origin.replace(w.host, "evil.example") }]])
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
	const four = await start(join(build, "kprof"), ["web", "-db", db, "-http", "[127.0.0.1]:0"], /http:\S+\n/);

	check("brackets may be there in any case", /http:..127.0.0.1:\d+/.test(four.text), four.text);
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
	const b = await serve(db, "-control", path);
	const waiting = Array.from({ length: 8 }, () => ask(b.host, "/api/v1/status"));

	await until("all to wait", () => asked.length === 8);
	const more = await ask(b.host, "/api/v1/status");

	check("one more is told so", more.status === 503 && /too many/.test(more.json.detail), more.text);
	for (const s of asked)
		s.destroy();
	for (const a of await Promise.all(waiting))
		check("one that ends before it answers is said to", a.status === 503 && /is it ending/.test(a.json.detail), a.text);
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

// The same bytes after gunzip, for whoever takes gzip, and for nobody else.
async function compressed() {
	const get = (path, coding, method = "GET") => ask(w.host, path, { method, headers: coding === undefined ? {} : { "Accept-Encoding": coding } });

	for (const path of ["/", "/app.js", "/app.css", "/dygraph.min.js", "/openapi.json", "/api/v1/report", "/api/v1/stacks"]) {
		const plain = await get(path), small = await get(path, "br;q=1.0, gzip;q=0.8"), head = await get(path, "gzip", "HEAD");

		same(`${path} is gzip`, [small.headers["content-encoding"], small.headers.vary, plain.headers.vary], ["gzip", "Accept-Encoding", "Accept-Encoding"]);
		check(`${path} is what it was`, gunzipSync(small.bytes).equals(plain.bytes));
		check(`${path} is less than half as long`, small.bytes.length < plain.bytes.length / 2, `${small.bytes.length} of ${plain.bytes.length}`);
		same(`HEAD of ${path} is the same without a body`, [head.headers["content-encoding"], Number(head.headers["content-length"]), head.text], ["gzip", small.bytes.length, ""]);
		for (const coding of [undefined, "", "identity", "br", "gzip;q=0", "*"])
			check(`${path} for '${coding}' is not compressed`, (await get(path, coding)).headers["content-encoding"] === undefined);
	}
	for (const path of ["/healthz", "/api/v1/tiers", "/nosuch"])
		same(`${path} is too short to be compressed`, (await get(path, "gzip")).headers["content-encoding"], undefined);
}

// Who has an answer gets it again only when it is another one.
async function unchanged() {
	const file = fresh("unchanged.db");

	run(join(build, "test", "mkdb"), file);
	const { host } = await serve(file);
	const get = (path, tag, more = {}, method = "GET") => ask(host, path, { method, headers: { ...tag ? { "If-None-Match": tag } : {}, ...more } });

	for (const path of ["/", "/app.js", "/dygraph.min.css", "/openapi.json", "/api/v1/report", "/api/v1/tiers", "/api/v1/series?step=10s"]) {
		const { headers: { etag, "cache-control": cache } } = await get(path);

		check(`${path} has a weak ETag`, /^W\/"[0-9a-f]{16}"$/.test(etag), etag);
		same(`${path} may be kept, and is asked for`, cache, "no-cache");
		same(`${path} compressed has the same`, (await get(path, "", { "Accept-Encoding": "gzip" })).headers.etag, etag);
		for (const tags of [etag, etag.slice(2), `"a", ${etag}, W/"b"`, "*"])
			for (const method of ["GET", "HEAD"]) {
				const a = await get(path, tags, { "Accept-Encoding": "gzip" }, method);

				same(`${method} ${path} for ${tags}`, [a.status, a.text, a.headers.etag, a.headers["cache-control"], a.headers.vary, a.headers["content-length"]], [304, "", etag, "no-cache", "Accept-Encoding", undefined]);
			}
		for (const tags of ['"a"', etag.slice(0, -2), etag.replace(/"/g, ""), ""])
			same(`${path} for ${tags}`, (await get(path, tags)).status, 200);
	}
	for (const path of ["/api/v1/about", "/api/v1/status", "/healthz", "/nosuch", "/api/v1/report?zz=1", "/api/v1/requests/999"]) {
		const a = await get(path, "*");

		same(`${path} is not kept`, [a.status === 304, a.headers.etag, a.headers["cache-control"]], [false, undefined, "no-store"]);
	}
	// the next answer of the connection is that of the next request
	const both = raw(`GET /app.js HTTP/1.1\r\nHost: ${host}\r\nIf-None-Match: *\r\n\r\nGET /healthz HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`, host);

	await both.ended;
	check("304 has no body", both.got.match(/HTTP\/1\.1 \d+/g)?.join() === "HTTP/1.1 304,HTTP/1.1 200" && both.got.endsWith("{\"ok\":true}\n"), both.got);
	const { headers: { etag } } = await get("/api/v1/report");

	sql(file, "update identity set name = 'created' where name = 'create'");
	const now = await get("/api/v1/report", etag);

	check("what has changed is sent", now.status === 200 && now.headers.etag !== etag && now.text.includes("created"));
}

const fails = (...args) => spawnSync(join(build, "kprof"), ["web", "-db", db, ...args], { encoding: "utf8", timeout: PATIENCE });

async function tokens() {
	const file = join(dir, "token");

	writeFileSync(file, "0123456789abcdef\n", { mode: 0o600 });
	const t = await serve(db, "-http-token-file", file);
	const status = async (authorization, more = {}) => (await ask(t.host, "/api/v1/report", { headers: authorization ? { Authorization: authorization } : {}, ...more })).status;

	same("no token", await status(), 401);
	for (const wrong of ["Bearer 0123456789abcdeg", "Bearer 0123456789abcde", "Bearer 0123456789abcdef0", "Bearer ", "Basic 0123456789abcdef", "0123456789abcdef", "Bearer 0123456789abcdef0123456789abcdef"])
		same(`'${wrong}'`, await status(wrong), 401);
	same("the token", await status("Bearer 0123456789abcdef"), 200);
	same("POST with the token", (await ask(t.host, "/api/v1/pause", { method: "POST", headers: { Authorization: "Bearer 0123456789abcdef" } })).status, 503);
	same("POST of our page without", (await ask(t.host, "/api/v1/pause", { method: "POST", headers: { Origin: t.origin, "X-Kprofd": "1" } })).status, 401);
	same("health needs none", (await ask(t.host, "/healthz")).status, 200);
	const all = await start(join(build, "kprof"), ["web", "-db", db, "-http", "0.0.0.0:0", "-http-token-file", file], /http:\S+\n/);
	same("by any name then", (await ask(`127.0.0.1:${/:(\d+)\/\n/.exec(all.text)[1]}`, "/api/v1/nodes", { headers: { Host: "db.example", Authorization: "Bearer 0123456789abcdef" } })).status, 200);
	for (const args of [["-http", "0.0.0.0:0"], ["-http", "[::]:0"], ["-http", "nosuch"], ["-http", "nosuch:0"]]) {
		const p = fails(...args);

		check(`${args.join(" ")} is refused`, p.status === 1 && /-http/.test(p.stderr), p.stderr);
	}
	// one that may only read
	const reading = join(dir, "reading");
	const as = (token, path, method = "GET", at = r) => ask(at.host, path, { method, headers: { Authorization: `Bearer ${token}` } });

	writeFileSync(reading, "fedcba9876543210\n", { mode: 0o600 });
	const r = await serve(db, "-http-token-file", file, "-http-read-token-file", reading);

	for (const path of ["about", "report", "slow?limit=1", "openapi.json"])
		for (const method of ["GET", "HEAD"])
			same(`${method} ${path} with it`, (await as("fedcba9876543210", path === "openapi.json" ? `/${path}` : `/api/v1/${path}`, method)).status, 200);
	same("metrics are read (and there is no kprofd)", (await as("fedcba9876543210", "/metrics")).status, 404);
	for (const path of ["pause", "resume", "dump", "events?text=x", "report"]) {
		const a = await as("fedcba9876543210", `/api/v1/${path}`, "POST");

		check(`POST ${path} with it`, a.status === 403 && /may only read/.test(a.json.detail) && /-http-token-file/.test(a.json.detail), `${a.status} ${a.text}`);
	}
	same("the full one may (and there is no kprofd)", (await as("0123456789abcdef", "/api/v1/pause", "POST")).status, 503);
	same("who may what", [(await as("fedcba9876543210", "/api/v1/about")).json.read_only, (await as("0123456789abcdef", "/api/v1/about")).json.read_only, (await api("about")).json.read_only], [true, false, false]);
	same("neither", (await as("fedcba9876543211", "/api/v1/about")).status, 401);
	same("none", (await as("", "/api/v1/about")).status, 401);
	const only = await serve(db, "-http-read-token-file", reading);

	same("it alone", [(await as("fedcba9876543210", "/api/v1/about", "GET", only)).status, (await as("fedcba9876543210", "/api/v1/pause", "POST", only)).status], [200, 403]);
	same("an empty one is not the full one", [(await as("", "/api/v1/pause", "POST", only)).status, (await ask(only.host, "/api/v1/pause", { method: "POST", headers: { Origin: only.origin, "X-Kprofd": "1" } })).status], [401, 401]);
	check("the same twice", /the same token/.test(fails("-http-token-file", file, "-http-read-token-file", file).stderr));
	check("it has its own option in messages", /see -http-read-token-file/.test(fails("-http-read-token-file", join(dir, "nosuch")).stderr));
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

// What is wrong with a certificate is said at the start; with a good one, all below is
// asked again over TLS.
async function certificates() {
	const { cert, key } = certificate("ours"), other = certificate("other"), locked = join(dir, "locked.key");

	run("openssl", "pkey", "-in", key, "-aes128", "-passout", "pass:secret", "-out", locked);
	chmodSync(other.key, 0o644);
	for (const [args, status, text] of [[["-http-tls-cert", cert], 2, "-http-tls-cert and -http-tls-key go together"], [["-http-tls-key", key], 2, "-http-tls-cert and -http-tls-key go together"],
		[["-http-tls-cert", "nosuch.pem", "-http-tls-key", key], 1, "nosuch.pem': No such file or directory (see -http-tls-cert)"],
		[["-http-tls-cert", key, "-http-tls-key", key], 1, `no certificate in PEM format in '${key}' (see -http-tls-cert)`],
		[["-http-tls-cert", cert, "-http-tls-key", cert], 1, "can be read by everybody (chmod o= it)"],
		[["-http-tls-cert", cert, "-http-tls-key", db], 1, `'${db}'`],
		[["-http-tls-cert", other.cert, "-http-tls-key", other.key], 1, `the key file '${other.key}' can be read by everybody`],
		[["-http-tls-cert", other.cert, "-http-tls-key", key], 1, `the key '${key}' does not belong to the certificate '${other.cert}' (see -http-tls-key)`],
		[["-http-tls-cert", cert, "-http-tls-key", locked], 1, `the key file '${locked}' is encrypted: write it without a password`]]) {
		const p = fails("-http", "127.0.0.1:0", ...args);

		check(`${args.join(" ")} is refused`, p.status === status && p.stderr.includes(text), `${p.status} ${p.stderr}`);
	}
	tls = ["-http-tls-cert", cert, "-http-tls-key", key];
	w = await serve(db);
	same("it is https", w.origin, `https://${w.host}`);
	for (const [version, well] of [["TLSv1.1", false], ["TLSv1.2", true], ["TLSv1.3", true]])
		same(`${version} is spoken`, await new Promise((resolve) => {
			const s = connectTls({ port: w.host.split(":")[1], host: "127.0.0.1", ca: trusted.get(w.host), minVersion: version, maxVersion: version, ciphers: "DEFAULT@SECLEVEL=0" },
				() => { s.destroy(); resolve(true); });

			s.on("error", () => resolve(false));
		}), well);
	const plain = bare(`GET /healthz HTTP/1.1\r\nHost: ${w.host}\r\n\r\n`);

	await plain.ended;
	check("what is not encrypted gets nothing", !/HTTP/.test(plain.got), plain.got);
}

// A socket of our own: what it got, until it was closed.
function raw(text, host = w.host) {
	const [name, port] = host.split(":");
	const ca = trusted.get(host);

	return watch(ca ? connectTls({ host: name, port, ca }) : connect(port, name), text);
}

// The same without TLS, whatever the server speaks.
const bare = (text) => watch(connect(w.host.split(":")[1], "127.0.0.1"), Buffer.from(text, "latin1"));

function watch(s, text) {
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
	// what libevent refuses by itself has the form of all errors
	const odd = ["FOO / HTTP/1.1", "PROPFIND /api/v1/report HTTP/1.1", "GET / HTTP/3.0", "GET http://[ HTTP/1.1", "GET / HTTP/1.1\r\nno header"].map((line) => raw(`${line}\r\nHost: ${w.host}\r\n\r\n`));

	await Promise.all(odd.map((s) => s.ended));
	for (const [s, code] of [[big, "bad-request"], [body, "body-too-large"], [nameless, "wrong-host"], [junk, "bad-request"], ...odd.map((s, i) => [s, i < 2 ? "unknown-method" : "bad-request"])]) {
		const [head, text] = s.got.split("\r\n\r\n"), status = Number(/^HTTP\/1\.\d (\d+)/.exec(head)?.[1]);

		same("an error is as described", wrong("GET", "/healthz", { status, type: /Content-Type: (\S+)/.exec(head)?.[1], json: JSON.parse(text) }), []);
		same("it has its code, and its length", [JSON.parse(text).code, Number(/Content-Length: (\d+)/.exec(head)?.[1] ?? text.length)], [code, text.length]);
	}
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
		// this process would spend its time on their handshakes, and none on that of others
		const s = tls.length > 0 ? bare(HALF_HELLO) : raw("GET /he");

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

// Connections that send nothing, half a request, or half a body, more of them than there
// are places, and than the kernel's queue had: kprofd is up, and says so.
async function halfOpen() {
	const slowest = async (n, text, open) => {
		const all = Array.from({ length: n }, () => open(text));
		let most = 0;

		for (let i = 0; i < 5; i++) {
			const start = performance.now();

			same(`/healthz beside ${n} of '${text.slice(0, 8)}'`, (await ask(w.host, "/healthz")).status, 200);
			most = Math.max(most, performance.now() - start);
		}
		for (const s of all)
			s.destroy();
		return most;
	};

	// over TLS also those that are silent, or send half of the handshake's first message
	for (const [n, text, open = raw] of [[200, ""], [200, "GET /he"], [200, `POST /api/v1/pause HTTP/1.1\r\nHost: ${w.host}\r\nContent-Length: 9\r\n\r\n`],
		...tls.length === 0 ? [[2000, "GET /he"]] : [[200, "", bare], [200, HALF_HELLO, bare], [2000, HALF_HELLO, bare]]]) {
		const times = [];

		// the machine may be short of processors for a moment
		while (times.length < 3 && !(times.at(-1) < 1000))
			times.push(Math.round(await slowest(n, text, open)));
		check(`it takes less than 1 s beside ${n} of '${text.slice(0, 8)}'`, times.at(-1) < 1000, times.join());
	}
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
	const { host } = await serve(file);
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
	const file = fresh("big.db");

	run(join(build, "test", "mkdb"), file);
	sql(file, `with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000)
	    insert into event (run_id, node_id, at_ns, kind, text)
	    select (select id from run), (select min(id) from node), (select max(start_ns) from time_window), 'trip', hex(zeroblob(15000)) from n`);
	return [file, await serve(file)];
}

// What nobody waits for is not asked; what nobody takes is bounded.
async function crowd() {
	const [file, b] = await big();
	const get = (path) => `GET /api/v1/${path} HTTP/1.1\r\nHost: ${b.host}\r\n\r\n`;
	const lock = spawn("sqlite3", [file]);

	// the first ones wait for the lock, two seconds each; another ends meanwhile
	lock.stdin.write("begin exclusive;\nselect 'locked';\n");
	await new Promise((resolve) => lock.stdout.once("data", resolve));
	// what needs no query is answered while one runs; the machine may be busy for a moment
	let meanwhile = false;

	for (let i = 0; i < 3 && !meanwhile; i++) {
		const slow = raw(get("about"), b.host);

		await new Promise((resolve) => setTimeout(resolve, 300));
		same("/healthz beside a query", (await ask(b.host, "/healthz")).status, 200);
		meanwhile = slow.got === "";
		slow.destroy();
	}
	check("it does not wait for it", meanwhile);
	const first = Array.from({ length: 3 }, () => raw(get("about"), b.host));

	await new Promise((resolve) => setTimeout(resolve, 300));
	const gone = raw(get("nodes"), b.host);

	gone.end();
	await gone.ended;
	// over TLS there is no half of a connection: who closes it reads nothing more
	check("who has gone is not answered", tls.length > 0 ? gone.got === "" : / 503 /.test(gone.got) && /has gone/.test(gone.got), gone.got.slice(-200));
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

await main("api_test", [begin, asKprof, pages, cursors, types, meant, slowest, series, compared, labels, heatmap, load, stacks, versusStacks, manyStacks, rare, rest, whole, openapi, refused, origins, users, busy, headers, compressed, unchanged, tokens, bodies, crowd, bounds, halfOpen,
	certificates, rest, openapi, refused, origins, busy, headers, compressed, unchanged, tokens, bodies, crowd, bounds, halfOpen, described]);
