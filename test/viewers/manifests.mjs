// manifests.mjs - priv/deploy against the schemas of Kubernetes' API; and kprofd takes its
// options, as far as to look for a node.
// usage: manifests.mjs BUILD_DIR VIEWERS_NODE_MODULES
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { build, check, dir, main, same } from "../web/world.mjs";

const load = createRequire(join(process.argv[3], "x.js"));
const places = "priv/deploy";

// What the schema says against it; undefined: nothing.
function refused(object) {
	const { [object.kind]: Kind } = load(`kubernetes-models/${object.apiVersion}/${object.kind}`);

	try {
		new Kind(object).validate();
	} catch (e) {
		return e.message;
	}
}

// kprofd as the container has it, but for the host, and below another root; no node answers.
function started({ args, env }, files) {
	const here = (a) => a.startsWith("/") ? join(dir, a) : a.replace(/\$\(\w+\):\d+|0\.0\.0\.0:\d+/, "127.0.0.1:0").replace(/\$\(\w+\)/, "127.0.0.1");

	for (const [path, text] of Object.entries(files)) {
		mkdirSync(dirname(join(dir, path)), { recursive: true });
		writeFileSync(join(dir, path), text, { mode: 0o600 });
	}
	return spawnSync(join(build, "kprofd"), [...args.map(here), "-duration", "1s"], { encoding: "utf8", timeout: 60000,
		env: { PATH: process.env.PATH, HOME: dir, ...Object.fromEntries(env.filter((v) => v.value).map((v) => [v.name, here(v.value)])) } }).stderr;
}

const containers = (object) => object.spec?.template?.spec.containers ?? [];

function manifests() {
	const { parseAllDocuments } = load("yaml");
	const objects = readdirSync(places).filter((f) => f.endsWith(".yaml")).flatMap((f) => parseAllDocuments(readFileSync(join(places, f), "utf8"))
		.map((d) => ({ file: f, errors: d.errors, object: d.toJS() })));
	const ours = objects.flatMap(({ object }) => containers(object)).filter((c) => c.image.includes("/kprofd:"));

	for (const { file, errors, object } of objects) {
		same(`${file} is YAML`, errors, []);
		same(`${file}: ${object.kind} ${object.metadata.name}`, refused(object), undefined);
	}
	same("what kprofd runs in", objects.filter(({ object }) => containers(object).length > 0).map(({ object }) => object.kind).sort(), ["DaemonSet", "Deployment"]);
	same("each has one", ours.length, 2);
	const kind = (k) => objects.find(({ object }) => object.kind === k).object;

	for (const c of ours) {
		const said = started(c, { "/etc/kprofd/tiers.conf": kind("ConfigMap").data["tiers.conf"], "/run/secrets/kprofd/token": "a-token-for-people",
			"/run/secrets/kprofd/read": "one-for-Prometheus", "/run/secrets/erlang/cookie": "cookie", "/var/lib/kprofd/.made": "" });

		check("it waits for the node", /'shop@127\.0\.0\.1' was not reached in that time/.test(said), said);
	}
	// a schema that takes all would say nothing
	const wrong = structuredClone(kind("DaemonSet"));

	wrong.spec.template.spec.containers[0].resources.limits.memory = { of: "512Mi" };
	check("a wrong type is refused", refused(wrong)?.includes("memory"), refused(wrong));
	delete wrong.spec.selector;
	check("what is missing is refused", refused(wrong)?.includes("selector"), refused(wrong));
}

await main("manifests", [manifests]);
