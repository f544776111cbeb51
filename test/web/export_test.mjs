// export_test.mjs - what Prometheus scrapes of two kprofds over two nodes, what
// a collector gets, and what Go's pprof shows, are what the databases say.
// usage: export_test.mjs BUILD_DIR NODE_MODULES PROMETHEUS_BIN_DIR GO_DIR
import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { gunzipSync } from "node:zlib";
import { join } from "node:path";
import { ask, build, check, dir, kprof, main, near, run, same, sql, start, stop, until, web } from "./world.mjs";

const [modules, bin, go] = process.argv.slice(3);
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
	const c = { taken: [], headers: [], attempts: 0, sockets: 0, server: null, codes };

	c.server = make((req, res) => {
		const parts = [];

		req.on("data", (d) => parts.push(d));
		req.on("end", () => {
			const code = codes[c.attempts++] ?? 200;

			c.headers.push(req.headers);
			const bytes = gunzipSync(Buffer.concat(parts)), json = req.headers["content-type"] === "application/json";

			if (code === 200)
				c.taken.push({ path: req.url, body: json ? JSON.parse(bytes.toString()) : bytes });
			// it may close a connection whenever it likes
			if (c.attempts % 5 === 0)
				res.on("finish", () => req.socket.destroy());
			res.writeHead(code, { "Content-Type": "application/json" });
			res.end("{}");
		});
	});
	c.server.on("connection", () => c.sockets++);
	c.server.keepAliveTimeout = 60e3;
	await new Promise((ready) => c.server.listen(0, "127.0.0.1", ready));
	c.port = c.server.address().port;
	collectors.push(c);
	return c;
}

// 31.25 ms is 2^-5 s, the edge of a bucket: none is estimated
const SLO = "{slo, [{create, 31.25, 99.9}, {db, 5, 99}, {'_total', 1000, 50}, {\"it's {{x}} \\\"a\\\\b: #\", 200, 99}]}.";

// ---- the world

const freePort = () => new Promise((resolve) => {
	const s = createServer();

	s.listen(0, "127.0.0.1", () => {
		const { port } = s.address();

		s.close(() => resolve(port));
	});
});

// Windows stay as they were measured, and are not joined meanwhile.
const kprofd = (i, args, env) => start(join(build, "kprofd"), ["-target", nodes[i], "-tiers", tiers, "-cookie-file", cookieFile,
	"-db", dbs[i], ...(args.includes("-interval") ? [] : ["-interval", "2s"]), "-retain", "1s:1h", "-probe", "relay", "-http", "127.0.0.1:0", ...args], /profiling/, env);
const load = (port, time) => start("test/sample_app/load", [ebin, port, "2", time, "5"], /answered/);
const NAMED = ["-otlp-attributes", "service.name=the%20shop,service.version=1.2"];
const tiers = join(dir, "tiers.conf");
const host = (i) => /http:\/\/(\S+)\//.exec(daemons[i].text)[1];
let plain, secret, pyroscope, otlpProfiles;

async function begin() {
	writeFileSync(cookieFile, cookie, { mode: 0o600 });
	writeFileSync(tokenFile, `${token}\n`, { mode: 0o600 });
	writeFileSync(join(dir, "header"), "Authorization: Bearer collect\n", { mode: 0o600 });
	// all is slow: the trees of all requests are kept, as far as there is room
	writeFileSync(tiers, `${readFileSync("test/sample_app/tiers.conf", "utf8").replace(/\{slow_ms[^}]*\}\./g, "")}\n{slow_ms, 30}.\n${SLO}\n`);
	execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=collector",
		"-addext", "subjectAltName=IP:127.0.0.1", "-keyout", join(dir, "key.pem"), "-out", join(dir, "cert.pem")], { stdio: "ignore" });
	plain = await collector(http.createServer, [503, 429]);
	secret = await collector((f) => https.createServer({ key: readFileSync(join(dir, "key.pem")), cert: readFileSync(join(dir, "cert.pem")) }, f));
	pyroscope = await collector(http.createServer, [503]);
	otlpProfiles = await collector(http.createServer, [503]);
	for (const name of nodes) {
		const app = await start("test/sample_app/run", [name, ebin, "0", "-setcookie", cookie, "-sample_app", "config",
			"#{db => #{work_us => 50, wait_ms => 20}, faults => #{raise => 0.02, slow => 0.01}}"], /ready \d+/);

		ports.push(/ready (\d+)/.exec(app.text)[1]);
		loads.push(await load(ports.at(-1), "600s"));
	}
	daemons.push(await kprofd(0, ["-otlp", `http://127.0.0.1:${plain.port}`, "-otlp-header-file", join(dir, "header"), ...NAMED,
		"-otlp-profiles", `http://127.0.0.1:${otlpProfiles.port}/tenant`, "-otlp-profiles-header-file", join(dir, "header"), "-pyroscope", `http://127.0.0.1:${pyroscope.port}/tenant`, "-pyroscope-header-file", join(dir, "header")]));
	daemons.push(await kprofd(1, ["-otlp", `https://127.0.0.1:${secret.port}/base/`, "-http-token-file", tokenFile],
		{ SSL_CERT_FILE: join(dir, "cert.pem") }));
}

async function prometheus(name, ...args) {
	const home = join(dir, name), port = await freePort();

	mkdirSync(home);
	writeFileSync(join(home, "p.yml"), JSON.stringify({ global: { evaluation_interval: "1s" }, rule_files: [join(process.cwd(), "priv/prometheus/kprofd.rules.yml")], scrape_configs: [
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

// Ten steps of three minutes in which a tier takes so many ms of each request; one request in
// eight is measured.  Counters move each minute.
function intervalRule() {
	const ms = [0, 4, 5, 3, 6, 4, 7, 2, 5, 4, 6];	// the first step has no rate yet
	const steps = ms.slice(1), mean = steps.reduce((a, b) => a + b) / 10;
	const sd = Math.sqrt(steps.reduce((a, v) => a + (v - mean) ** 2, 0) / 9);
	const within = 2.26 * sd / Math.sqrt(10) / 1e3 * Math.sqrt(7 / 8);
	let at = 0;
	const self = ms.flatMap((v, i) => i === 0 ? [0] : [1, 2, 3].map(() => at += v * 80 / 1e3));
	const series = (name, labels, values) => ({ series: `${name}{node="a@h"${labels}}`, values: values.join(" ") });
	const each = (n) => self.map((_, i) => i * n);
	const file = join(dir, "rule_test.yml"), name = "tier_identity:kprof_tier_self_seconds_per_request:within30m";

	writeFileSync(file, JSON.stringify({ rule_files: [join(process.cwd(), "priv/prometheus/kprofd.rules.yml")], evaluation_interval: "1m", tests: [{ interval: "1m",
		input_series: [series("kprof_tier_self_seconds_total", ',tier="db",identity="read"', self), series("kprof_requests_total", ',identity="read",outcome="returned"', each(60)),
			series("kprof_requests_total", ',identity="read",outcome="raised"', each(20)), series("kprof_sampled_requests_total", "", each(10)), series("kprof_entry_calls_total", "", each(80))],
		promql_expr_test: [{ expr: `abs(${name} - ${within}) < bool 1e-9`, eval_time: "31m", exp_samples: [{ labels: '{tier="db",identity="read"}', value: 1 }] }] }] }));
	run(join(bin, "promtool"), "test", "rules", file);
}

// A percentile of two nodes of two kprofds is that of all their requests: of two a second half
// take no longer than 0.1 s on one node, none on the other, which has one a second.
function fleetRules() {
	const file = join(dir, "fleet_test.yml"), each = (n) => Array.from({ length: 16 }, (_, i) => 60 * n * i).join(" ");
	const series = ["request", "call"].flatMap((what) => [["a", "0.1", 1], ["a", "+Inf", 2], ["a", "1", 2], ["b", "0.1", 0], ["b", "1", 1], ["b", "+Inf", 1]].map(([node, le, n]) => ({
		series: `kprof_${what}_duration_seconds_bucket{node="${node}@h",instance="kprofd-${node}",${what === "call" ? "tier" : "identity"}="x",le="${le}"}`, values: each(n) })));
	const samples = (of) => [["0.1", 1], ["1", 3], ["+Inf", 3]].map(([le, value]) => ({ labels: `${of.record}{${of.by}="x",le="${le}"}`, value }));

	writeFileSync(file, JSON.stringify({ rule_files: [join(process.cwd(), "priv/prometheus/kprofd.rules.yml")], evaluation_interval: "1m", tests: [{ interval: "1m", input_series: series,
		promql_expr_test: [...[{ by: "identity", record: "identity_le:kprof_request_duration_seconds_bucket:rate5m" }, { by: "tier", record: "tier_le:kprof_call_duration_seconds_bucket:rate5m" }]
			.map((of) => ({ expr: of.record, eval_time: "12m", exp_samples: samples(of) })),
		{ expr: "histogram_quantile(2 / 3, identity_le:kprof_request_duration_seconds_bucket:rate5m)", eval_time: "12m", exp_samples: [{ labels: '{identity="x"}', value: 0.1 + 0.9 / 2 }] }] }] }));
	run(join(bin, "promtool"), "test", "rules", file);
}

// Those whose budget can burn so fast.
const OBJECTIVES = ["create within 31.25 ms", "tier db within 5 ms", "it's {{x}} \"a\\b: # within 200 ms"];

function promtool() {
	run(join(bin, "promtool"), "check", "rules", "priv/prometheus/kprofd.rules.yml");
	intervalRule();
	fleetRules();
	run(join(bin, "promtool"), "check", "config", "priv/prometheus/prometheus.yml");
}

function rules() {
	writeFileSync(join(dir, "slo.rules.yml"), kprof("check", tiers, "-rules"));
	check("rules of objectives", / 6 rules found/.test(run(join(bin, "promtool"), "check", "rules", "--lint-fatal", join(dir, "slo.rules.yml"))));
	// when all have missed for six hours, each alert goes off, with its words
	writeFileSync(join(dir, "slo.test.yml"), JSON.stringify({ rule_files: ["slo.rules.yml"], evaluation_interval: "1m", tests: [{ interval: "1m",
		input_series: [["requests", ""], ["missed", ',cause="slow"']].flatMap(([what, cause]) => [...OBJECTIVES].map((o) => ({
			series: `kprof_slo_${what}_total{node="a@h",objective=${JSON.stringify(o)}${cause}}`, values: "0+60x400" }))),
		alert_rule_test: [["SloBurnsFast", "critical", "1h", "2.1"], ["SloBurns", "warning", "6h", "5"]].map(([alertname, severity, over, days]) => ({ eval_time: "390m", alertname,
			exp_alerts: OBJECTIVES.map((o, i) => ({ exp_labels: { severity, objective: o },
				exp_annotations: { summary: `100% of the last ${over} missed: ${o} (${[99.9, 99, 99][i]} %); at this rate the budget of 30 days lasts ${days} days (kprof report -slo)` } })) })) }] }));
	run(join(bin, "promtool"), "test", "rules", join(dir, "slo.test.yml"));
}

// Requests that are over, and in the databases, and seen by all.
async function settle() {
	await Promise.all(Object.entries({ classic: ["exemplar-storage"], native: ["exemplar-storage,native-histograms"] }).map(([name, features]) => prometheus(name, `--enable-feature=${features}`)));
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
	const slow = /alert: RequestsSlow\n +expr: \|\n([^]*?)> 1\n/.exec(readFileSync("priv/prometheus/kprofd.rules.yml", "utf8"))[1];

	for (const name of Object.keys(proms))
		await until(`RequestsSlow to see what ${name} histograms say`, async () => await value(name, `count(${slow} > 0)`) > 1, 30);
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
				// ... or a half
				check(`${identity} ${key} of buckets`, classic / ms < 1.53 && ms / classic < 1.53, `${classic}, report ${ms}`);
			}
	}
}

// Every query of the dashboards has figures, by classic histograms and by native ones, but
// where the panel says what may be missing.
async function dashboards() {
	for (const file of readdirSync("priv/grafana")) {
		const board = JSON.parse(readFileSync(join("priv/grafana", file), "utf8"));
		const cells = new Set();

		same(`${file} is named as its uid`, `${board.uid}.json`, file);
		same(`${file}: panels have ids of their own`, new Set(board.panels.map((p) => p.id)).size, board.panels.length);
		for (const { title, gridPos: at, targets, description = "", datasource } of board.panels) {
			for (let x = at.x; x < at.x + at.w; x++)
				for (let y = at.y; y < at.y + at.h; y++) {
					check(`${file}, ${title}: no other panel is there`, x < 24 && !cells.has(`${x},${y}`));
					cells.add(`${x},${y}`);
				}
			for (const { expr, datasource: of } of targets) {
				const text = expr.replaceAll("$__rate_interval", "1h").replaceAll('="$node"', `="${nodes[0]}"`).replace(/=~"\$\w+"/g, '=~".*"');

				same(`${file}, ${title}: the data source is chosen above`, [of.uid, datasource.uid], ["${datasource}", "${datasource}"]);
				for (const name of Object.keys(proms)) {
					const found = await query(name, text);
					const may = /^No data|Where stacks/.test(description) || (name === "native" && /classic/.test(description));

					check(`${file}, ${title}: ${name} has figures`, may || (found.length > 0 && found.every((f) => Number.isFinite(Number(f.value[1])))), `${text}: ${JSON.stringify(found).slice(0, 200)}`);
				}
			}
		}
	}
}

const find = (report, identity) => report.rows.find((x) => x.identity === identity).tiers.find((x) => x.tier === "_total");

// An exemplar is a kept request, which the page shows at /?request=ID.
async function exemplars() {
	for (const name of Object.keys(proms)) {
		const now = Date.now() / 1e3;
		const found = (await ask(proms[name], `/api/v1/query_exemplars?query=${encodeURIComponent('{__name__=~"kprof_request_duration_seconds(_bucket)?"}')}&start=${now - 600}&end=${now + 60}`)).json.data;
		const rows = found.flatMap(({ seriesLabels, exemplars: e }) => e.map((x) => ({ ...x, of: seriesLabels })));

		check(`${name} has exemplars of both nodes`, nodes.every((n) => rows.some((x) => x.of.node === n)), JSON.stringify(found).slice(0, 300));
		for (const { labels, value: v, timestamp, of } of rows) {
			const [kept] = sql(dbs[nodes.indexOf(of.node)], `select total_ns, start_ns, i.name from request q join identity i on i.id = q.identity_id where q.id = ${labels.request}`);

			same("an exemplar's request", [kept?.name, Number(v), Math.abs(timestamp - (kept?.start_ns + kept?.total_ns) / 1e9) < 0.002], [of.identity, kept?.total_ns / 1e9, true]);
			if (of.le)
				check("is in its bucket", Number(v) <= Number(of.le.replace("+Inf", "Infinity")), `${v} in ${of.le}`);
		}
	}
}

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

// Objectives are met as kprof report -slo says, and as the alerts that come of it ask for.
async function objectives() {
	for (const i of [0, 1]) {
		const report = JSON.parse(kprof("report", "-slo", "-json", "-db", dbs[i]));

		same("objectives", report.objectives.map((o) => o.requests > 0), [true, true, true, false]);
		for (const o of report.objectives) {
			const where = `node="${nodes[i]}",objective=${JSON.stringify(o.objective)}`;
			const got = async (name, more = "") => await value("native", `kprof_slo_${name}_total{${where}${more}}`);

			same(`requests: ${o.objective}`, String(await got("requests")), String(o.requests || NaN));
			if (o.requests === 0)
				continue;
			// the report looks at the longest and shortest, too
			check(`slow: ${o.objective}`, Math.abs(await got("missed", ',cause="slow"') - o.slow) < 1 + 0.03 * o.requests, `${o.slow}`);
			same(`failed: ${o.objective}`, String(await got("missed", ',cause="failed"')), String(o.failed ?? NaN));
		}
		near("slow at the edge of a bucket", await value("native", `kprof_slo_missed_total{node="${nodes[i]}",objective="create within 31.25 ms",cause="slow"}`), report.objectives[0].slow);
	}
}

// After a reload others are in force, of what was measured before, too.
async function reloaded() {
	writeFileSync(tiers, readFileSync(tiers, "utf8").replace(SLO, "{slo, [{read, 1000, 99}]}."));
	kprof("reload", "-db", dbs[0]);
	const { text } = await ask(host(0), "/metrics");

	check("another objective after a reload", /kprof_slo_requests_total\{node="[^"]*",objective="read within 1000 ms"\} [1-9]/.test(text) && !text.includes("create within"),
		text.split("\n").filter((l) => l.includes("_slo_")).join(" "));
	await until("it to be in the database", () => JSON.parse(kprof("report", "-slo", "-json", "-db", dbs[0])).objectives.map((o) => o.objective).join() === "read within 1000 ms", 30);
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
	check("connections are kept", [plain, secret].every((c) => c.attempts > 5 && c.sockets < c.attempts / 2), [plain, secret].map((c) => `${c.sockets} for ${c.attempts}`).join(", "));
	check("a kept one that the collector closes is no failure", JSON.parse(kprof("status", "-json", "-db", dbs[1])).otlp.failures === 0);
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
		    from call c join function f on f.id = c.function_id join request q on q.id = c.request_id where c.request_id = ${root.attributes["kprof.request"]} order by c.seq`);
		const [entry] = calls.splice(0, 1);
		const below = spans.filter((s) => s.traceId === root.traceId && s !== root);
		const order = (a, b) => (a[1] < b[1] ? -1 : a[1] > b[1] ? 1 : a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : a[2] < b[2] ? -1 : 1);

		const again = JSON.parse(kprof("tree", String(root.attributes["kprof.request"]), "-form", "otlp", "-db", dbs[i])).resourceSpans.flatMap((r) => r.scopeSpans.flatMap((s) => s.spans.map((x) => x.traceId + x.spanId)));

		same("kprof tree has the same trace", again.sort(), [root, ...below].map((s) => s.traceId + s.spanId).sort());
		same("its entry's call is the request's span", [root.startTimeUnixNano, root.attributes["code.function.name"]], [entry.start, entry.name.replace(/\/\d+( \[.*\])?$/s, "")]);
		same("a request's name and times", [root.name, root.startTimeUnixNano, root.endTimeUnixNano], [rq.name, rq.start, rq.stop]);
		same("its calls", below.map((s) => [s.name, s.startTimeUnixNano, s.endTimeUnixNano]).sort(order), calls.map((x) => [x.name, x.start, x.stop]).sort(order));
	}
	same("the node is a resource", [...new Set(spans.map((s) => s.resource["service.instance.id"]))], [nodes[i]]);
	same("and a service, by its name or as the user says", [...new Set(spans.map((s) => s.resource["service.name"]))], [i === 0 ? "the shop" : nodes[i].replace(/_\d+@.*/, "")]);
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

// ---- pprof

const pprofProgram = readdirSync(go, { recursive: true }).map((f) => join(go, f)).find((f) => /\/tool\/[^/]+\/pprof$/.test(f));

// What it prints; it has nothing to say but that there is no binary.
function pprof(...args) {
	const { status, stdout, stderr } = spawnSync(pprofProgram, args, { encoding: "utf8", maxBuffer: 1 << 26,
		env: { ...process.env, TZ: "UTC", HOME: dir, PPROF_TMPDIR: dir } });

	same(`pprof ${args.join(" ")}`, [status, stderr.split("\n").filter((l) => l !== "" && !/^(Main binary|Fetching|Saved|Generating)/.test(l))], [0, []]);
	return stdout;
}

const ns = (text) => Number(/^(\d+)(?:\.0)?(?:ns)?$/.exec(text)[1]);
const sorted = (map) => [...map].filter(([, v]) => v[0] > 0 || v[1] > 0).sort(([a], [b]) => (a < b ? -1 : 1));

// A row for each function: what is its own, and with what it calls.
const top = (file, index, ...more) => sorted(new Map(pprof("-top", "-unit=ns", "-nodecount=1000000", "-nodefraction=0", `-sample_index=${index}`, ...more, file).split("\n")
	.map((l) => /^ *(\d+(?:ns)?) +\S+ +\S+ +(\d+(?:ns)?) +\S+ {2}(.*)$/.exec(l)).filter(Boolean).map(([, own, all, name]) => [name.replace(/ \(inline\)$/, ""), [ns(own), ns(all)]])));

// Of a label its values, with the sum of each.
const tags = (file, index, label) => Object.fromEntries((pprof("-tags", "-unit=ns", `-sample_index=${index}`, `-tagshow=^${label}$`, file).split(/^ *\S+: Total .*$/m)[1] ?? "")
	.split("\n").map((l) => /^ *(\d+(?:\.0)?(?:ns)?) \(.*?\): (.*)$/.exec(l)).filter(Boolean).map(([, v, name]) => [name, ns(v)]).filter(([, v]) => v > 0).sort());

const noLine = (f) => f.replace(/(?<=[0-9)]):\d+$/, "");
const WORKS = ["running", "runnable", "collecting"];

// The same of an answer of the API.
function topOf({ stacks, depth }, value) {
	const rows = new Map();
	const put = (name, k, v) => { rows.set(name, rows.get(name) ?? [0, 0]); rows.get(name)[k] += v; };

	for (const s of stacks) {
		const frames = s.frames.length === 0 ? ["(not seen)"] : s.frames[0] === "_late" ? ["(had gone on)"] : s.frames[0] === "_other" ? ["(other stacks)"] : s.frames.map(noLine);

		put(frames.at(-1), 0, value(s));
		for (const f of new Set([...frames, ...depth >= 8 && s.frames.length === depth ? ["..."] : []]))
			put(f, 1, value(s));
	}
	return sorted(rows);
}

function tagsOf(stacks, label, value) {
	const sums = {};

	for (const s of stacks)
		sums[label(s)] = (sums[label(s)] ?? 0) + value(s);
	return Object.fromEntries(Object.entries(sums).filter(([, v]) => v > 0).sort());
}

const VALUES = { samples: (s) => s.samples, wall: (s) => Math.round(s.ms * 1e6), running: (s) => WORKS.includes(s.state) ? Math.round(s.ms * 1e6) : 0 };

function sameProfile(name, file, answer) {
	for (const [index, value] of Object.entries(VALUES)) {
		same(`${name}: ${index} of functions`, top(file, index), topOf(answer, value));
		for (const [label, of] of [["node", (s) => s.node], ["request_type", (s) => s.identity], ["state", (s) => s.state]])
			same(`${name}: ${index} by ${label}`, tags(file, index, label), tagsOf(answer.stacks, of, value));
	}
	same(`${name}: tiers are labels`, tags(file, "wall", "tiers"), tagsOf(answer.stacks.filter((s) => s.path.length > 0), (s) => s.path.map((t) => (t === "_after" ? "(after the request)" : t)).join(" > "), VALUES.wall));
	check(`${name}: with lines`, answer.stacks.some((s) => /:\d+$/.test(s.frames.at(-1))) && / \S+:[1-9]\d* s=0\(\)/.test(pprof("-raw", file)));
}

// Its pages, which have no sums of their own, have the functions.
async function pages(file, name) {
	const port = await freePort();
	const p = await start(pprofProgram, [`-http=127.0.0.1:${port}`, "-no_browser", file], /Serving web UI/, { HOME: dir, PPROF_TMPDIR: dir });

	// it says so before it listens
	await until("pprof to serve", () => ask(`127.0.0.1:${port}`, "/").then(() => true, () => false));
	for (const path of ["/ui/top", "/ui/flamegraph"])
		check(`pprof's ${path} has it`, (await ask(`127.0.0.1:${port}`, path, { headers: { Host: `localhost:${port}` } })).text.includes(name));
	await stop(p);
}

async function profiles() {
	if (!pprofProgram) {
		check("Go's pprof is there", !process.env.CI);
		console.error("export_test: without Go's pprof, which could not be downloaded");
		return;
	}
	const url = `http://${host(0)}/debug/pprof/profile`, file = join(dir, "live.pb.gz");
	const none = await ask(host(0), "/debug/pprof/profile?seconds=1");

	check("no stacks, no profile", none.status === 409 && none.json.detail.includes("add {stacks, {per_second, 20}} to tiers.conf"), none.text);
	check("nor of what is stored", (await ask(host(0), "/api/v1/stacks?form=pprof")).status === 409);
	same("without the token there is no profile", (await ask(host(1), "/debug/pprof/profile")).status, 401);
	writeFileSync(tiers, `${readFileSync(tiers, "utf8")}{stacks, {per_second, 100}}.\n`);
	kprof("reload", "-db", dbs[0]);
	const some = await load(ports[0], "600s");

	await until("stacks", async () => (await ask(host(0), "/api/v1/stacks")).json.samples > 20);
	// the application waits more than it works: in some seconds no sample is of work
	for (let i = 0; i === 0 || (i < 5 && top(file, "running").length === 0); i++)
		pprof("-proto", `-output=${file}`, `${url}?seconds=4`);
	// those who go away do not keep others from it
	for (let i = 0; i < 6; i++)
		await new Promise((resolve) => {
			const req = http.get(`${url}?seconds=600`).on("error", resolve);

			setTimeout(() => req.destroy(new Error("gone")), 500);
		});
	same("after profiles that were given up", (await ask(host(0), "/debug/pprof/profile?seconds=1")).status, 200);
	await stop(some);
	const [, time, duration] = /^Time: (.*?) \+0000 UTC\nDuration: (\S+)$/m.exec(pprof("-raw", file));
	// it shows four characters: "4.13", of 4.132 s
	const begin = Date.parse(`${time.replace(" ", "T")}Z`), length = Number(/^[\d.]+$/.exec(duration)?.[0]);

	check("it is of the next seconds", length >= 4 && length < 30, duration);
	// the windows of those seconds, and no other
	const range = [begin + 5, begin + length * 1e3 - 5].map((t) => new Date(t).toISOString());
	const stored = (await ask(host(0), `/api/v1/stacks?since=${range[0]}&until=${range[1]}`)).json;

	check("there are stacks", stored.samples > 20 && stored.left_out.stacks === 0, `${stored.samples}`);
	sameProfile("live", file, stored);
	writeFileSync(join(dir, "api.pb.gz"), (await ask(host(0), `/api/v1/stacks?form=pprof&since=${range[0]}&until=${range[1]}`)).bytes);
	sameProfile("stored", join(dir, "api.pb.gz"), stored);
	writeFileSync(join(dir, "cli.pb.gz"), execFileSync(join(build, "kprof"), ["report", "-stacks", "-form", "pprof", "-since", range[0], "-until", range[1], "-db", dbs[0]]));
	sameProfile("of kprof report", join(dir, "cli.pb.gz"), stored);
	// as the documents say: types and tiers above functions, and a difference, here of none
	const roots = new Map(top(file, "wall", "-tagroot=request_type,tiers"));

	for (const [type, time] of Object.entries(tagsOf(stored.stacks, (s) => s.identity, VALUES.wall)))
		same(`${type} is a root`, roots.get(type)?.[1], time);
	same("a difference", top(file, "wall", `-diff_base=${file}`), []);
	// of the values that it shows first; with the slash of its arity as the page writes it
	await pages(file, top(file, "running")[0][0].split("/")[0]);

	const whole = join(dir, "whole.pb.gz");

	writeFileSync(whole, execFileSync(join(build, "kprof"), ["stacks", "-target", nodes[1], "-cookie-file", cookieFile, "-for", "2s", "-form", "pprof", "-quiet"]));
	same("kprof stacks has the node", Object.keys(tags(whole, "wall", "node")), [nodes[1]]);
	for (const label of ["group", "application", "state"])
		check(`kprof stacks has the ${label}`, Object.keys(tags(whole, "wall", label)).length > 1);
}

// What Pyroscope got is all that is stored, each sample once.
async function pushed() {
	const files = () => pyroscope.taken.flatMap((t) => t.body.series.flatMap((s) => s.samples));

	if (!pprofProgram)
		return;
	const some = await load(ports[0], "600s");

	await until("some profiles", () => files().length > 2, 90);
	const told = () => JSON.parse(kprof("status", "-json", "-db", dbs[0])).pyroscope;

	for (let i = 0; i < 3; i++)
		pyroscope.codes[pyroscope.attempts + i] = 503;
	await until("windows that wait for it", () => told().failing && told().seconds_waiting > 0, 60);
	await until("that it takes them again", () => !told().failing, 60);
	await stop(some);
	const sent = files(), names = sent.map((_, i) => join(dir, `pushed${i}.pb.gz`)), merged = join(dir, "pushed.pb.gz");

	sent.forEach((x, i) => writeFileSync(names[i], Buffer.from(x.rawProfile, "base64")));
	pprof("-proto", `-output=${merged}`, ...names);
	// up to the end of the last one, of which pprof shows four characters: the next window may be there
	const type = createRequire(join(modules, "x.js"))("protobufjs").parse("syntax = \"proto3\"; message P { int64 time = 9; int64 duration = 10; }").root.lookupType("P");
	const last = type.toObject(type.decode(gunzipSync(readFileSync(names.at(-1)))), { longs: Number });
	const stored = (await ask(host(0), `/api/v1/stacks?until=${new Date((last.time + last.duration) / 1e6 - 5).toISOString()}`)).json;

	sameProfile("pushed", merged, stored);
	same("each once", new Set(sent.map((x) => x.ID)).size, sent.length);
	check("its id is a UUID", sent.every((x) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(x.ID)), sent[0].ID);
	same("labels", [...new Set(pyroscope.taken.flatMap((t) => t.body.series.map((s) => JSON.stringify(s.labels))))], [JSON.stringify([{ name: "__name__", value: "wall" },
		{ name: "service_name", value: "the shop" }, { name: "node", value: nodes[0] }])]);
	check("below the URL's path", pyroscope.taken.every((t) => t.path === "/tenant/push.v1.PusherService/Push"), pyroscope.taken[0].path);
	check("with its header", pyroscope.headers.every((h) => h.authorization === "Bearer collect"));
	check("again after 503", pyroscope.attempts > pyroscope.taken.length);
	const state = told();

	check("the state says so", state.profiles >= sent.length && !state.failing, JSON.stringify(state));
	same("none was refused, or lost", [state.profiles_refused, state.seconds_lost], [0, 0]);
	check("at most the last minutes wait", state.seconds_waiting >= 0 && state.seconds_waiting <= 120, JSON.stringify(state));
	check("and metrics", /\nkprof_pyroscope_profiles_total [1-9]\d*\n/.test((await ask(host(0), "/metrics")).text));
}

// Of bytes, in base64, zeros.
const isEmpty = (x) => typeof x === "object" ? x === null || Object.values(x).every(isEmpty) : !x || /^A+=*$/.test(x);

// Each index leads to something, and the first of each table to nothing.
function whole({ dictionary: d, resourceProfiles }) {
	const at = (table, i) => check("an index is one of its table", i >= 0 && i < table.length, String(i));

	for (const [name, table] of Object.entries(d))
		check(`the first of ${name} is empty`, isEmpty(table[0]), JSON.stringify(table[0]));
	d.locationTable.forEach((l) => l.lines.forEach((x) => at(d.functionTable, x.functionIndex)));
	d.stackTable.forEach((s) => s.locationIndices.forEach((i) => at(d.locationTable, i)));
	d.functionTable.forEach((f) => [f.nameStrindex, f.filenameStrindex].forEach((i) => at(d.stringTable, i)));
	same("a string is there once", new Set(d.stringTable).size, d.stringTable.length);
	same("a stack is there once", new Set(d.stackTable.map((s) => s.locationIndices.join())).size, d.stackTable.length);
	for (const p of resourceProfiles[0].scopeProfiles[0].profiles)
		same("no two samples are of the same", new Set(p.samples.map((s) => JSON.stringify([s.stackIndex, s.attributeIndices]))).size, p.samples.length);
}

// What the collector of profiles got is the same.
async function pushedOtlp() {
	const protobuf = createRequire(join(modules, "x.js"))("protobufjs");
	const type = protobuf.parse(readFileSync("test/web/otlp_profiles.proto", "utf8")).root.lookupType("Request");
	const sent = otlpProfiles.taken.map(({ body }) => type.toObject(type.decode(body), { longs: Number, bytes: String, defaults: true, arrays: true }));
	const state = JSON.parse(kprof("status", "-json", "-db", dbs[0])).otlp_profiles;
	const sums = {}, ids = [];
	let until = 0;

	check("some are sent", sent.length > 2, String(sent.length));
	for (const request of sent) {
		const [{ resource, scopeProfiles: [{ scope, profiles }] }] = request.resourceProfiles, d = request.dictionary;
		const of = Object.fromEntries(resource.attributes.map(({ key, value }) => [key, value.stringValue]));

		whole(request);
		same("its resource", [of["service.name"], of["service.version"], of["service.instance.id"], of["host.name"], of["process.runtime.name"], of["process.runtime.version"]],
			["the shop", "1.2", nodes[0], "127.0.0.1", "BEAM", execFileSync("erl", ["-noinput", "-eval", "io:put_chars(erlang:system_info(otp_release)), halt()."]).toString()]);
		same("its scope", scope.name, "kprofd");
		same("types", profiles.map((p) => [d.stringTable[p.sampleType.typeStrindex], d.stringTable[p.sampleType.unitStrindex]]), [["running", "nanoseconds"], ["samples", "count"], ["wall", "nanoseconds"]]);
		for (const p of profiles) {
			const name = d.stringTable[p.sampleType.typeStrindex], sum = sums[name] ??= { top: new Map(), labels: {} };

			ids.push(p.profileId);
			until = Math.max(until, Math.round((p.timeUnixNano + p.durationNano) / 1e6));
			same("of the time between two", [d.stringTable[p.periodType.typeStrindex], p.period > 0], ["wall", true]);
			for (const s of p.samples) {
				const frames = d.stackTable[s.stackIndex].locationIndices.map((i) => d.stringTable[d.functionTable[d.locationTable[i].lines[0].functionIndex].nameStrindex]);

				frames.forEach((f, i) => {
					if (!sum.top.has(f))
						sum.top.set(f, [0, 0]);
					sum.top.get(f)[0] += i === 0 ? s.values[0] : 0;
					sum.top.get(f)[1] += frames.indexOf(f) === i ? s.values[0] : 0;
				});
				for (const a of s.attributeIndices.map((i) => d.attributeTable[i])) {
					const label = sum.labels[d.stringTable[a.keyStrindex]] ??= {};

					label[a.value.stringValue] = (label[a.value.stringValue] ?? 0) + s.values[0];
				}
			}
		}
		check("places are of the BEAM", d.locationTable.slice(1).every((l) => {
			const a = d.attributeTable[l.attributeIndices[0]];

			return d.stringTable[a.keyStrindex] === "profile.frame.type" && a.value.stringValue === "beam";
		}));
		check("with lines", d.locationTable.some((l) => l.lines[0]?.line > 0));
	}
	const stored = (await ask(host(0), `/api/v1/stacks?until=${new Date(until - 5).toISOString()}`)).json;

	for (const [index, value] of Object.entries(VALUES)) {
		same(`${index} of functions`, sorted(sums[index].top), topOf(stored, value));
		for (const [label, of] of [["node", (s) => s.node], ["request_type", (s) => s.identity], ["state", (s) => s.state]])
			same(`${index} by ${label}`, Object.fromEntries(Object.entries(sums[index].labels[label] ?? {}).sort()), tagsOf(stored.stacks, of, value));
	}
	same("each once", new Set(ids).size, ids.length);
	check("its id has 16 bytes", ids.every((id) => Buffer.from(id, "base64").length === 16));
	check("below the URL's path", otlpProfiles.taken.every((t) => t.path === "/tenant/v1development/profiles"), otlpProfiles.taken[0].path);
	check("with its header", otlpProfiles.headers.every((h) => h.authorization === "Bearer collect" && h["content-type"] === "application/x-protobuf"));
	check("again after 503", otlpProfiles.attempts > otlpProfiles.taken.length);
	check("the state says so", state.profiles >= sent.length && !state.failing, JSON.stringify(state));
	same("none was refused, or lost", [state.profiles_refused, state.seconds_lost], [0, 0]);
	check("at most the last minutes wait", state.seconds_waiting >= 0 && state.seconds_waiting <= 120, JSON.stringify(state));
	check("and metrics", /\nkprof_otlp_profiles_total [1-9]\d*\n/.test((await ask(host(0), "/metrics")).text));
}

// A trace of a node of its own, where every call counts.
async function traced() {
	const name = `exporttest3_${process.pid}@127.0.0.1`, trace = join(dir, "a.trace"), file = join(dir, "trace.pb.gz");

	if (!pprofProgram)
		return;
	const app = await start("test/sample_app/run", [name, ebin, "0", "-setcookie", cookie], /ready \d+/);
	const analyse = (form) => execFileSync(join(build, "kprof"), ["analyse", "-form", form, trace], { maxBuffer: 1 << 28 });

	kprof("trace", "-target", name, "-cookie-file", cookieFile, "-apply", "io_lib:format(\"~p\", [[{a, [1, 2, 3]}, #{b => \"text\"}]])", "-o", trace, "-quiet", "io_lib", "io_lib_format", "io_lib_pretty", "lists");
	writeFileSync(file, analyse("pprof"));
	const { functions, nodes: tree } = JSON.parse(analyse("json"));
	const sums = functions.map(() => [0, 0]);

	for (const [parent, fn, calls, own] of tree)
		if (parent >= 0) {
			sums[fn][0] += calls;
			sums[fn][1] += own;
		}
	for (const [k, index] of ["calls", "own"].entries())
		same(`${index} of a trace`, top(file, index).filter(([, [own]]) => own > 0).map(([f, [own]]) => [f, own]),
			sorted(new Map(functions.map((f, i) => [f.function, [sums[i][k], 0]]))).map(([f, [own]]) => [f, own]));
	// what the same trace is for speedscope and Perfetto: all own time, once
	const scope = JSON.parse(analyse("speedscope")), chrome = JSON.parse(analyse("chrome")).traceEvents;
	const own = new Map();
	const measure = (edges) => {
		const open = [];
		let last = 0;

		for (const { begins, fn, at } of edges) {
			if (open.length > 0)
				own.set(open.at(-1), (own.get(open.at(-1)) ?? 0) + at - last);
			last = at;
			if (begins)
				open.push(fn);
			else
				open.pop();
		}
		same("what begins ends", open, []);
	};
	const wanted = functions.map((f, i) => [f.function, sums[i][1]]).filter(([, v]) => v > 0).sort();
	const measured = () => { const all = [...own].map(([f, v]) => [f, Math.round(v)]).filter(([, v]) => v > 0).sort(); own.clear(); return all; };

	for (const { events } of scope.profiles)
		measure(events.map((e) => ({ begins: e.type === "O", fn: scope.shared.frames[e.frame].name, at: e.at })));
	same("own times for speedscope", measured(), wanted);
	for (const tid of new Set(chrome.map((e) => e.tid)))
		measure(chrome.filter((e) => e.tid === tid && e.ph !== "M").map((e) => ({ begins: e.ph === "B", fn: e.name, at: Math.round(e.ts * 1e3) })));
	same("own times for Perfetto", measured(), wanted);
	await stop(app);
}

// Traces and figures of a run that is over before it was time to send any.
async function lastWords() {
	// it sends what is left of the profiles' requests, which its database has
	await stop(daemons[0]);
	const before = plain.taken.length;

	rmSync(dbs[0]);
	daemons[0] = await kprofd(0, ["-otlp", `http://127.0.0.1:${plain.port}`, ...NAMED, "-interval", "1h"]);
	const some = await load(ports[0], "600s");

	await until("a slow request", () => one(dbs[0], "select count(*) from request") > 0);
	await stop(some);
	await stop(daemons[0]);
	const sent = { ...plain, taken: plain.taken.slice(before) };

	check("traces are sent at the end", spansOf(sent).length > 0);
	traces(sent, 0);
	metrics(sent, 0);
	check("nothing is left", !/not sent at the end/.test(daemons[0].text), daemons[0].text);
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

await main("export_test", [promtool, begin, rules, settle, lint, quantiles, exemplars, dashboards, counters, objectives, access, otlp, reloaded, profiles, pushed, pushedOtlp, traced, lastWords, untrusted, stuck, () => { collectors.forEach((c) => { c.server.closeAllConnections(); c.server.close(); }); }]);
