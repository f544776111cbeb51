// bench_fleet.mjs - what a Prometheus needs for many kprofds: series, bytes and time of a
// scrape, memory, and the time of the shipped rules.
// usage: bench_fleet.mjs METRICS KPROFDS PROMETHEUS_BIN_DIR [SECONDS]
// METRICS is what bench_fleet has written; each kprofd has nodes of its own.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [metrics, kprofds, bin, seconds = "120"] = process.argv.slice(2);
const lines = readFileSync(metrics, "utf8").split(/(?<=\n)/);
const dir = mkdtempSync(join(tmpdir(), "fleet."));
const grown = /^(\S+?_(?:total|count|sum|bucket)(?:\{.*\})?) (\S+)\n/;
let scrapes = 0;

// Counters grow from scrape to scrape, as in life.
const servers = await Promise.all([...Array(Number(kprofds)).keys()].map((i) => new Promise((ready) => {
	const server = http.createServer((req, res) => {
		const step = 1 + ++scrapes / Number(kprofds) / 100;

		res.setHeader("Content-Type", "text/plain; version=0.0.4");
		res.end(lines.map((l) => l.replaceAll("@web-", `@k${i}-web-`).replace(grown, (_, name, v) => `${name} ${Number(v) * step}\n`)).join(""));
	}).listen(0, "127.0.0.1", () => ready(server));
})));
const port = 39090 + process.pid % 1000;

writeFileSync(join(dir, "p.yml"), JSON.stringify({
	global: { scrape_interval: "30s", scrape_timeout: "29s", evaluation_interval: "60s" },
	rule_files: [join(process.cwd(), "priv/prometheus/kprofd.rules.yml")],
	scrape_configs: [{ job_name: "kprofd", static_configs: [{ targets: servers.map((s) => `127.0.0.1:${s.address().port}`) }] }] }));
const prometheus = spawn(join(bin, "prometheus"), [`--config.file=${join(dir, "p.yml")}`, `--storage.tsdb.path=${join(dir, "data")}`,
	`--web.listen-address=127.0.0.1:${port}`], { stdio: "ignore" });
const get = async (path) => (await (await fetch(`http://127.0.0.1:${port}${path}`)).json()).data;
const value = async (q) => Number((await get(`/api/v1/query?query=${encodeURIComponent(q)}`)).result[0]?.value[1]);

await new Promise((r) => setTimeout(r, Number(seconds) * 1e3));
const { activeTargets } = await get("/api/v1/targets");
const { groups } = await get("/api/v1/rules");
const memory = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${prometheus.pid}/status`, "utf8"))[1] / 1024;

console.log(`${kprofds} kprofds: ${await value("sum(scrape_samples_scraped)")} series, ${(lines.join("").length * Number(kprofds) / 1e6).toFixed(0)} MB a scrape of all`);
console.log(`a scrape takes ${(1e3 * await value("avg(scrape_duration_seconds)")).toFixed(0)} ms; ${activeTargets.filter((t) => t.health !== "up").length} of ${activeTargets.length} are not up`);
console.log(`Prometheus has ${memory.toFixed(0)} MiB after ${seconds} s`);
for (const g of groups) {
	console.log(`rules ${g.name}: ${(1e3 * g.evaluationTime).toFixed(0)} ms, ${g.rules.filter((r) => r.lastError).length} fail`);
	for (const r of g.rules.toSorted((a, b) => b.evaluationTime - a.evaluationTime).slice(0, 8))
		console.log(`    ${(1e3 * r.evaluationTime).toFixed(0)} ms ${r.name}`);
}
prometheus.kill();
servers.forEach((s) => { s.closeAllConnections(); s.close(); });
prometheus.on("exit", () => rmSync(dir, { recursive: true }));
