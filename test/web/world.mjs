// world.mjs - what the tests of the dashboard share: programs, questions,
// checks.  A check that fails is said, and the program ends with status 1.
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkServerIdentity } from "node:tls";

export const build = process.argv[2] ?? "build";
export const dir = mkdtempSync(join(tmpdir(), "web_test."));
export const shots = join(build, "web");
mkdirSync(shots, { recursive: true });

const running = [];
let passed = 0, failed = 0;

export function check(name, ok, more = "") {
	if (ok) {
		passed++;
		return;
	}
	failed++;
	console.error(`FAILED: ${name}${more ? `: ${more}` : ""}`);
}

export function same(name, got, expected) {
	const a = JSON.stringify(got), b = JSON.stringify(expected);

	check(name, a === b, `${a?.slice(0, 400)}, expected ${b?.slice(0, 400)}`);
}

// Sums of doubles may differ in their last digits.
export const near = (name, got, expected) =>
	check(name, Math.abs(got - expected) <= 1e-6 * Math.max(1, Math.abs(expected)), `${got}, expected ${expected}`);

export const run = (program, ...args) => execFileSync(program, args, { encoding: "utf8", maxBuffer: 1 << 26, env: { ...process.env, TZ: "UTC" } });

export function sql(db, text) {
	const out = run("sqlite3", "-json", "-cmd", ".timeout 5000", db, text);

	return out.trim() === "" ? [] : JSON.parse(out);
}

export const kprof = (...args) => run(join(build, "kprof"), ...args);

// Starts a program; resolves with what it printed when `ready` is in it.
export function start(program, args, ready, env = {}) {
	const p = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, TZ: "UTC", ...env } });

	p.text = "";
	running.push(p);
	return new Promise((resolve, reject) => {
		const take = (data) => {
			p.text += data;
			if (ready.test(p.text))
				resolve(p);
		};

		p.stdout.on("data", take);
		p.stderr.on("data", take);
		p.on("exit", (code) => reject(new Error(`${program} ended with ${code}: ${p.text}`)));
	});
}

export const stop = (p) => new Promise((resolve) => {
	if (p.exitCode !== null || p.signalCode !== null)
		return resolve();
	p.on("exit", resolve);
	p.kill("SIGTERM");
});

// The certificate and key of a server, whose clients trust nothing else.
export function certificate(name) {
	const [cert, key] = ["pem", "key"].map((end) => join(dir, `${name}.${end}`));

	execFileSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", `/CN=${name}`,
		"-addext", "subjectAltName=IP:127.0.0.1", "-days", "2", "-keyout", key, "-out", cert], { stdio: "ignore" });
	return { cert, key };
}

// Certificates of the servers of https, by host.
export const trusted = new Map();

export async function web(db, ...more) {
	const p = await start(join(build, "kprof"), ["web", "-db", db, "-http", "127.0.0.1:0", ...more], /https?:\/\/\S+\/\n/);
	const cert = more[more.indexOf("-http-tls-cert") + 1];

	[, p.origin, p.host] = /(https?:\/\/(\S+))\/\n/.exec(p.text);
	if (p.origin.startsWith("https"))
		trusted.set(p.host, readFileSync(cert));
	return p;
}

// One request, as it is written: no client's idea of a good path is in between.
export function ask(host, path, { method = "GET", headers = {}, body } = {}) {
	const [name, port] = host.split(":");
	const ca = trusted.get(host);

	return new Promise((resolve, reject) => {
		const req = (ca ? https : http).request({ host: name, port, path, method, ca, servername: "", checkServerIdentity: (_, cert) => checkServerIdentity(name, cert), agent: false, headers: { Host: host, ...headers } }, (res) => {
			const parts = [];

			res.on("data", (d) => parts.push(d));
			res.on("end", () => {
				const bytes = Buffer.concat(parts);
				const text = bytes.toString();
				let json = null;

				try {
					json = JSON.parse(text);
				} catch {
					// not all answers are
				}
				resolve({ status: res.statusCode, headers: res.headers, bytes, text, json });
			});
			res.on("error", reject);
		});

		req.on("error", reject);
		req.end(body);
	});
}

export async function until(what, fn, seconds = 120) {
	const end = Date.now() + seconds * 1e3;

	while (Date.now() < end) {
		const v = await fn();

		if (v)
			return v;
		await new Promise((r) => setTimeout(r, 200));
	}
	throw new Error(`waited ${seconds} s for ${what}`);
}

// Runs the tests, takes everything away again, ends.
export async function main(name, tests) {
	try {
		for (const test of tests)
			await test();
	} catch (e) {
		check(name, false, e.stack);
	}
	for (const p of running.reverse()) {
		p.removeAllListeners("exit");
		await stop(p);
	}
	rmSync(dir, { recursive: true, force: true });
	console.log(`${name}: ${passed} passed, ${failed} failed`);
	process.exit(failed > 0 ? 1 : 0);
}
