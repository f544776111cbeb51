// export_test.mjs - what Prometheus scrapes of two kprofds over two nodes, and
// what a collector gets, are what the databases say.
// usage: export_test.mjs BUILD_DIR NODE_MODULES PROMETHEUS_BIN_DIR
import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { join } from "node:path";
import { ask, build, check, dir, kprof, main, near, run, same, sql, start, stop, until, web } from "./world.mjs";

const [modules, bin] = process.argv.slice(3);
const cookie = `export${process.pid}cookie`;
const cookieFile = join(dir, "cookie");
const nodes = [1, 2].map((i) => `exporttest${i}_${process.pid}@127.0.0.1`);
const dbs = nodes.map((_, i) => join(dir, `k${i}.db`));
const ebin = join(build, "sample_app", "ebin");
const token = "0123456789abcdef-token";
const tokenFile = join(dir, "token");
const daemons = [], ports = [], loads = [], proms = {};

// ---- a collector

const collectors = [];

// Answers `codes` one after the other, then 200; keeps what it took.
async function collector(make, codes = []) {
	const c = { taken: [], headers: [], attempts: 0, server: null };

	c.server = make((req, res) => {
		const parts = [];

		req.on("data", (d) => parts.push(d));
		req.on("end", () => {
			const code = codes[c.attempts++] ?? 200;

			c.headers.push(req.headers);
			if (code === 200)
				c.taken.push({ path: req.url, body: JSON.parse(Buffer.concat(parts).toString()) });
			res.writeHead(code, { "Content-Type": "application/json" });
			res.end("{}");
		});
	});
	await new Promise((ready) => c.server.listen(0, "127.0.0.1", ready));
	c.port = c.server.address().port;
	collectors.push(c);
	return c;
}

// ---- the world

const freePort = () => new Promise((resolve) => {
	const s = createServer();

	s.listen(0, "127.0.0.1", () => {
		const { port } = s.address();

		s.close(() => resolve(port));
	});
});

const kprofd = (i, args, env) => start(join(build, "kprofd"), ["-target", nodes[i], "-tiers", tiers, "-cookie-file", cookieFile,
	"-db", dbs[i], ...(args.includes("-interval") ? [] : ["-interval", "2s"]), "-probe", "relay", "-http", "127.0.0.1:0", ...args], /profiling/, env);
const load = (port, time) => start("test/sample_app/load", [ebin, port, "2", time, "5"], /answered/);
const tiers = join(dir, "tiers.conf");
const host = (i) => /http:\/\/(\S+)\//.exec(daemons[i].text)[1];
let plain, secret;

async function begin() {
	writeFileSync(cookieFile, cookie, { mode: 0o600 });
	writeFileSync(tokenFile, `${token}\n`, { mode: 0o600 });
	writeFileSync(join(dir, "header"), "Authorization: Bearer collect\n", { mode: 0o600 });
	// all is slow: the trees of all requests are kept, as far as there is room
	writeFileSync(tiers, `${readFileSync("test/sample_app/tiers.conf", "utf8").replace(/\{slow_ms[^}]*\}\./g, "")}\n{slow_ms, 30}.\n`);
	execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=collector",
		"-addext", "subjectAltName=IP:127.0.0.1", "-keyout", join(dir, "key.pem"), "-out", join(dir, "cert.pem")], { stdio: "ignore" });
	plain = await collector(http.createServer, [503, 429]);
	secret = await collector((f) => https.createServer({ key: readFileSync(join(dir, "key.pem")), cert: readFileSync(join(dir, "cert.pem")) }, f));
	for (const name of nodes) {
		const app = await start("test/sample_app/run", [name, ebin, "0", "-setcookie", cookie, "-sample_app", "config",
			"#{db => #{work_us => 50, wait_ms => 20}, faults => #{raise => 0.02, slow => 0.01}}"], /ready \d+/);

		ports.push(/ready (\d+)/.exec(app.text)[1]);
		loads.push(await load(ports.at(-1), "600s"));
	}
	daemons.push(await kprofd(0, ["-otlp", `http://127.0.0.1:${plain.port}`, "-otlp-header-file", join(dir, "header")]));
	daemons.push(await kprofd(1, ["-otlp", `https://127.0.0.1:${secret.port}/base/`, "-http-token-file", tokenFile],
		{ SSL_CERT_FILE: join(dir, "cert.pem") }));
}

async function prometheus(name, ...args) {
	const home = join(dir, name), port = await freePort();

	mkdirSync(home);
	writeFileSync(join(home, "p.yml"), JSON.stringify({ scrape_configs: [
		{ job_name: "kprofd", scrape_interval: "1s", static_configs: [{ targets: [host(0)] }] },
		{ job_name: "kprofd_token", scrape_interval: "1s", authorization: { credentials_file: tokenFile }, static_configs: [{ targets: [host(1)] }] },
	] }));
	await start(join(bin, "prometheus"), [`--config.file=${join(home, "p.yml")}`, `--storage.tsdb.path=${join(home, "data")}`,
		`--web.listen-address=127.0.0.1:${port}`, ...args], /ready to receive web requests/);
	proms[name] = `127.0.0.1:${port}`;
}

const query = async (name, text) => (await ask(proms[name], `/api/v1/query?query=${encodeURIComponent(text)}`)).json.data.result;
const value = async (name, text) => Number((await query(name, text))[0]?.value[1]);
const one = (db, text) => Object.values(sql(db, text)[0])[0] ?? 0;

const cells = (figure, tier, identity) => `select sum(s.${figure}) from stat s join tier t on t.id = s.tier_id
    join identity i on i.id = s.identity_id where t.name = '${tier}' and i.name = '${identity}'`;

// ---- Prometheus

function promtool() {
	run(join(bin, "promtool"), "check", "rules", "priv/prometheus/kprofd.rules.yml");
	run(join(bin, "promtool"), "check", "config", "priv/prometheus/prometheus.yml");
}

// Requests that are over, and in the databases, and seen by all.
async function settle() {
	await Promise.all(Object.entries({ classic: [], native: ["--enable-feature=native-histograms"] }).map(([name, args]) => prometheus(name, ...args)));
	await until("requests", () => dbs.every((db) => one(db, cells("w_timed", "_total", "_total")) > 300));
	for (const load of loads)
		await stop(load);
	await new Promise((r) => setTimeout(r, 6000));
	for (const name of Object.keys(proms))
		same(`${name} reads what it gets`, (await ask(proms[name], "/api/v1/targets")).json.data.activeTargets.map((t) => t.lastError), ["", ""]);
	for (const name of Object.keys(proms))
		for (const i of [0, 1])
			await until(`${name} to have all of ${nodes[i]}`, async () =>
				await value(name, `sum(kprof_requests_total{node="${nodes[i]}"})`) === one(dbs[i], cells("w_calls", "_total", "_total")), 60);
}

async function lint() {
	for (const i of [0, 1]) {
		const a = await ask(host(i), "/metrics", { headers: { Authorization: `Bearer ${token}` } });
		let said = "";

		same("the older text form", a.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
		try {
			said = execFileSync(join(bin, "promtool"), ["check", "metrics"], { input: a.text, encoding: "utf8", stdio: ["pipe", "pipe", "pipe"] });
		} catch (e) {
			said = `${e.stdout}${e.stderr}`;
		}
		same("promtool finds nothing", said, "");
	}
	const open = await ask(host(0), "/metrics", { headers: { Accept: "application/openmetrics-text;version=1.0.0" } });

	same("OpenMetrics", open.headers["content-type"], "application/openmetrics-text; version=1.0.0; charset=utf-8");
	check("OpenMetrics ends", open.text.endsWith("\n# EOF\n"));
}

async function quantiles() {
	for (const i of [0, 1]) {
		const where = `node="${nodes[i]}"`;
		const all = sql(dbs[i], "select distinct identity i from request_stats where identity <> '_total'").map((x) => x.i);

		check("there are identities", all.length > 1);
		for (const identity of all)
			for (const [q, key] of [[0.5, "p50_ms"], [0.9, "p90_ms"], [0.99, "p99_ms"]]) {
				const report = JSON.parse(kprof("report", "-json", "-identity", identity, "-db", dbs[i]));
				const ms = find(report, identity)[key];
				const native = 1e3 * await value("native", `histogram_quantile(${q}, kprof_request_duration_seconds{${where},identity="${identity}"})`);
				const classic = 1e3 * await value("classic", `histogram_quantile(${q}, kprof_request_duration_seconds_bucket{${where},identity="${identity}"})`);

				if (ms === null)
					continue;
				// a bucket is 2.2 % wide, and either may be at its edge
				check(`${identity} ${key} of native histograms`, Math.abs(native / ms - 1) < 0.025, `${native}, report ${ms}`);
				// ... or half an octave
				check(`${identity} ${key} of buckets`, classic / ms < 1.46 && ms / classic < 1.46, `${classic}, report ${ms}`);
			}
	}
}

const find = (report, identity) => report.rows.find((x) => x.identity === identity).tiers.find((x) => x.tier === "_total");

async function counters() {
	for (const name of Object.keys(proms))
		for (const i of [0, 1]) {
			const where = `node="${nodes[i]}"`;

			for (const tier of sql(dbs[i], "select name from tier where position > 0").map((x) => x.name)) {
				near(`busy time of ${tier}`, await value(name, `sum(kprof_tier_busy_seconds_total{${where},tier="${tier}"})`) || 0,
					one(dbs[i], cells("w_busy_ns", tier, "_total")) / 1e9);
				near(`calls of ${tier}`, await value(name, `sum(kprof_tier_calls_total{${where},tier="${tier}"})`) || 0,
					one(dbs[i], cells("w_calls", tier, "_total")));
			}
			const raised = one(dbs[i], cells("w_raised", "_total", "_total"));
			const told = await value(name, `sum(kprof_requests_total{${where},outcome="raised"})`);

			// no series says 0 where it cannot be seen
			if (raised === 0 && one(dbs[i], cells("w_unknown_outcomes + w_ambiguous", "_total", "_total")) > 0)
				check("raised is not told", Number.isNaN(told), `${told}`);
			else
				near("raised", told, raised);
			near("entry calls", await value(name, `kprof_entry_calls_total{${where}}`), one(dbs[i], "select sum(entry_calls) from time_window"));
			for (const { name: cause, unit } of sql(dbs[i], "select name, unit from cause")) {
				const n = one(dbs[i], `select sum(n) from loss l join cause c on c.id = l.cause_id where c.name = '${cause}'`);
				const got = await query(name, `{__name__=~"kprof_lost_.*_total",${where},cause="${cause}"}`);

				same(`${cause} is there once`, got.length, 1);
				// time without events goes on, and is in the next window
				if (cause !== "unarmed" && cause !== "uncounted")
					near(`lost: ${cause}`, Number(got[0]?.value[1]), unit === "ms" ? n / 1e3 : n);
			}
			same("the daemon is up", await value(name, `kprof_target_armed{${where}}`), 1);
		}
	same("both are seen as one", await value("native", "sum(kprof_requests_total)"),
		dbs.reduce((a, db) => a + one(db, cells("w_calls", "_total", "_total")), 0));
}

async function access() {
	const saved = await web(dbs[0]);

	same("another host's name is refused", (await ask(host(0), "/metrics", { headers: { Host: "evil.example" } })).status, 403);
	same("without the token there is nothing", (await ask(host(1), "/metrics")).status, 401);
	same("with another one neither", (await ask(host(1), "/metrics", { headers: { Authorization: "Bearer 0123456789abcdef" } })).status, 401);
	same("metrics take no POST", (await ask(host(0), "/metrics", { method: "POST", headers: { Origin: `http://${host(0)}`, "X-Kprofd": "1" } })).status, 405);
	same("a saved database has none", (await ask(saved.host, "/metrics")).status, 404);
	await stop(saved);
}

// ---- OTLP

const attributes = (list) => Object.fromEntries(list.map(({ key, value: v }) => [key, v.stringValue ?? (v.intValue !== undefined ? Number(v.intValue) : v.boolValue)]));

// Is all of what was sent in what came out?  Numbers of 64 bits are texts in
// JSON, ids are hex.
function covers(sent, got, path) {
	if (Array.isArray(sent))
		return sent.length === got?.length && sent.every((v, k) => covers(v, got[k], path)) ? true : fault(path, sent, got);
	if (sent !== null && typeof sent === "object")
		return Object.entries(sent).every(([k, v]) => covers(v, got?.[k], `${path}.${k}`));
	const text = got instanceof Uint8Array ? Buffer.from(got).toString("hex") : String(got);

	return text === String(sent) || fault(path, sent, got);
}

function fault(path, sent, got) {
	check("a field is as the definitions have it", false, `${path}: ${JSON.stringify(sent)?.slice(0, 80)}, came out as ${JSON.stringify(got)?.slice(0, 80)}`);
	return false;
}

// OpenTelemetry's own definitions: to their bytes, and back.
function decode(c) {
	const root = createRequire(join(modules, "x.js"))("@opentelemetry/otlp-transformer/build/src/generated/root.js").opentelemetry.proto.collector;

	for (const { path, body } of c.taken) {
		const type = path.endsWith("/v1/traces") ? root.trace.v1.ExportTraceServiceRequest : root.metrics.v1.ExportMetricsServiceRequest;
		const message = JSON.parse(JSON.stringify(body), (k, v) => /^(traceId|spanId|parentSpanId)$/.test(k) ? Buffer.from(v, "hex") : v);

		check("all is in the definitions", covers(body, type.decode(type.encode(message).finish()), path));
	}
}

async function otlp() {
	await until("all traces", async () => [0, 1].every((i) => {
		const st = JSON.parse(kprof("status", "-json", "-db", dbs[i])).otlp;

		return st.requests_waiting === 0 && st.spans > 0 && st.points > 0;
	}), 60);
	check("it came again after 503 and 429", plain.attempts > plain.taken.length + 1, `${plain.attempts}, taken ${plain.taken.length}`);
	check("the header is sent", plain.headers.every((h) => h.authorization === "Bearer collect"));
	check("below the URL's path", secret.taken.every((t) => t.path.startsWith("/base/v1/")));
	for (const c of [plain, secret])
		decode(c);
	traces(plain, 0);
	traces(secret, 1);
	metrics(plain, 0);
	metrics(secret, 1);
}

const spansOf = (c) => c.taken.filter((t) => t.path.endsWith("/v1/traces")).flatMap((t) => t.body.resourceSpans)
	.flatMap((r) => r.scopeSpans.flatMap((s) => s.spans.map((x) => ({ ...x, resource: attributes(r.resource.attributes), attributes: attributes(x.attributes) }))));

function traces(c, i) {
	const spans = spansOf(c), roots = spans.filter((s) => s.parentSpanId === undefined);
	const byId = new Map(spans.map((s) => [s.traceId + s.spanId, s]));

	same("no span twice", byId.size, spans.length);
	same("every slow request is a trace", roots.map((s) => s.attributes["kprof.request"]).sort((a, b) => a - b), sql(dbs[i], "select id from request order by id").map((x) => x.id));
	check("every parent is there", spans.every((s) => s.parentSpanId === undefined || byId.has(s.traceId + s.parentSpanId)));
	for (const root of roots) {
		const rq = sql(dbs[i], `select i.name, q.start_ns || '' start, (q.start_ns + coalesce(q.total_ns, 0)) || '' stop from request q join identity i on i.id = q.identity_id where q.id = ${root.attributes["kprof.request"]}`)[0];
		const calls = sql(dbs[i], `select f.name name, c.seq, (q.start_ns + c.start_ns) || '' start, (q.start_ns + c.start_ns + coalesce(c.total_ns, 0)) || '' stop
		    from call c join function f on f.id = c.function_id join request q on q.id = c.request_id where c.request_id = ${root.attributes["kprof.request"]} order by 3, 1, 2`);
		const below = spans.filter((s) => s.traceId === root.traceId && s !== root);
		const order = (a, b) => (a[1] < b[1] ? -1 : a[1] > b[1] ? 1 : a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : a[2] < b[2] ? -1 : 1);

		same("a request's name and times", [root.name, root.startTimeUnixNano, root.endTimeUnixNano], [rq.name, rq.start, rq.stop]);
		same("its calls", below.map((s) => [s.name, s.startTimeUnixNano, s.endTimeUnixNano]).sort(order), calls.map((x) => [x.name, x.start, x.stop]).sort(order));
	}
	same("the node is a resource", [...new Set(spans.map((s) => s.resource["service.instance.id"]))], [nodes[i]]);
}

// The stored form of a histogram (include/kprofd/hist.h), added to the sums.
function addHist(sums, hex) {
	const b = Buffer.from(hex, "hex");
	let at = 1;
	const varint = () => {
		let v = 0, scale = 1;

		for (;; scale *= 128) {
			v += (b[at] & 0x7f) * scale;
			if (b[at++] < 0x80)
				return v;
		}
	};
	const zigzag = varint(), n = varint();
	const lo = zigzag % 2 ? -(zigzag + 1) / 2 : zigzag / 2;

	for (let k = 0; k < n; k++)
		sums.set(lo + k, (sums.get(lo + k) ?? 0) + varint());
}

const filled = (m) => [...m].filter(([, n]) => n > 0).sort(([a], [b]) => a - b);

function metrics(c, i) {
	const last = c.taken.filter((t) => t.path.endsWith("/v1/metrics")).at(-1).body.resourceMetrics[0].scopeMetrics[0].metrics;
	const named = (name) => last.find((m) => m.name === name);

	for (const [name, key, tier] of [["kprof.request.duration", "kprof.identity", false], ["kprof.call.duration", "kprof.tier", true]])
		for (const p of named(name).exponentialHistogram.dataPoints) {
			const what = attributes(p.attributes)[key], sums = new Map();
			const where = tier ? `t.name = '${what}' and i.name = '_total'` : `t.name = '_total' and i.name = '${what.replaceAll("'", "''")}'`;

			for (const { h } of sql(dbs[i], `select hex(s.hist) h from stat s join tier t on t.id = s.tier_id
			    join identity i on i.id = s.identity_id where s.hist is not null and ${where}`))
				addHist(sums, h);
			same(`${name} of ${what}, bucket for bucket`, filled(p.positive.bucketCounts.map((n, k) => [p.positive.offset + k, Number(n)])), filled(sums));
			same(`${name} of ${what} is of scale 5`, p.scale, 5);
		}
	same("requests", named("kprof.requests").sum.dataPoints.reduce((a, p) => a + Number(p.asInt), 0), one(dbs[i], cells("w_calls", "_total", "_total")));
}

// Traces and figures of a run that is over before it was time to send any.
async function lastWords() {
	const before = { all: plain.taken.length, spans: spansOf(plain).length };

	await stop(daemons[0]);
	rmSync(dbs[0]);
	daemons[0] = await kprofd(0, ["-otlp", `http://127.0.0.1:${plain.port}`, "-interval", "1h"]);
	const some = await load(ports[0], "600s");

	await until("a slow request", () => one(dbs[0], "select count(*) from request") > 0);
	await stop(some);
	await stop(daemons[0]);
	const sent = { ...plain, taken: plain.taken.slice(before.all) };

	check("traces are sent at the end", spansOf(sent).length > 0);
	traces(sent, 0);
	metrics(sent, 0);
	check("nothing is left", !/were not sent/.test(daemons[0].text), daemons[0].text);
	same("it ends well", daemons[0].exitCode, 0);
}

// Whose certificate nobody vouches for, or is another host's, is refused, and
// it is said so.
async function untrusted() {
	await stop(daemons[1]);
	const before = secret.attempts;

	for (const [what, name, env] of [["verif|self-signed", "127.0.0.1", {}], ["does not match|no alternative", "localhost", { SSL_CERT_FILE: join(dir, "cert.pem") }]]) {
		daemons[1] = await kprofd(1, ["-otlp", `https://${name}:${secret.port}`], env);
		await until(`the refusal of ${name}`, () => new RegExp(`certificate is refused: .*(${what})`).test(kprof("status", "-db", dbs[1])), 60);
		await until("the log", () => /certificate is refused/.test(daemons[1].text), 30);
		check("and so do the metrics", /\nkprof_otlp_failing 1\n/.test((await ask(host(1), "/metrics")).text));
		// it does not wait for one that is away
		await stop(daemons[1]);
	}
	same("nothing was sent", secret.attempts, before);
	// whoever may read the header could be others
	chmodSync(join(dir, "header"), 0o644);
	const refused = await kprofd(1, ["-otlp", "http://127.0.0.1:1", "-otlp-header-file", join(dir, "header")]).then(() => "it started", (e) => e.message);

	check("a header that others may read is refused", /can be read by everybody/.test(refused), refused);
}

// A daemon that is stuck is told from one that is down: Prometheus waits 10 s.
async function stuck() {
	const socket = `${dbs[1]}.sock`, silent = createServer(() => {});

	daemons[1] = await kprofd(1, []);
	check("it is up", /\nkprof_daemon_up 1\n/.test((await ask(host(1), "/metrics")).text));
	rmSync(socket);
	await new Promise((ready) => silent.listen(socket, ready));
	const a = await ask(host(1), "/metrics", { headers: { Accept: "application/openmetrics-text" } });

	same("it answers", a.status, 200);
	check("and says that the daemon does not", /\nkprof_daemon_up 0\n/.test(a.text));
	check("the rest is there", /\nkprof_export_names_max/.test(a.text) && a.text.endsWith("\n# EOF\n"));
	silent.close();
}

await main("export_test", [promtool, begin, settle, lint, quantiles, counters, access, otlp, lastWords, untrusted, stuck, () => { collectors.forEach((c) => { c.server.closeAllConnections(); c.server.close(); }); }]);
