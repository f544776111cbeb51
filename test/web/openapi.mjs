// openapi.mjs - holds questions and answers of the HTTP API against priv/openapi.json: what is
// not described there is a fault, and so is what is described and in no answer.
import { readFileSync } from "node:fs";

export const doc = JSON.parse(readFileSync("priv/openapi.json", "utf8"));
const resolve = (x) => x.$ref ? x.$ref.slice(2).split("/").reduce((d, key) => d[key], doc) : x;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/, LIKE_TIME = /^\d{4}-\d\d-\d\d[T ]\d\d:/;
const seen = new Set();		// schemas of members that some answer had

const typeOf = (v) => v === null ? "null" : Array.isArray(v) ? "array" : Number.isInteger(v) ? "integer" : typeof v;

// One object's schema, of those that make it.
function whole(schema) {
	const parts = (schema.allOf ?? []).map((s) => whole(resolve(s)));

	return parts.length === 0 ? schema : { ...schema, type: "object", required: parts.flatMap((p) => p.required), properties: Object.assign({}, ...parts.map((p) => p.properties)) };
}

// What is wrong with a value, as texts; members that are right are added to `had`.
function faults(v, given, at, had) {
	const schema = whole(resolve(given)), type = typeOf(v);

	if (schema.anyOf) {
		const tried = schema.anyOf.map((s) => { const mine = new Set(); return { wrong: faults(v, s, at, mine), mine }; });
		const best = tried.reduce((a, b) => b.wrong.length < a.wrong.length ? b : a);

		best.mine.forEach((s) => had.add(s));
		return best.wrong;
	}
	if ("const" in schema || schema.enum)
		return [schema.const, ...schema.enum ?? []].includes(v) ? [] : [`${at} is ${JSON.stringify(v)}`];
	if (![schema.type].flat().some((t) => t === type || t === "number" && type === "integer"))
		return [`${at} is of type ${type}, not ${schema.type}`];
	if (type === "string")
		return (schema.format === "date-time" ? TIME.test(v) : !LIKE_TIME.test(v)) ? [] : [`${at} is ${v}: times are RFC 3339 in UTC, and described as such`];
	if (type === "array")
		return v.flatMap((one, i) => faults(one, schema.items, `${at}[${i}]`, had));
	if (type !== "object")
		return [];
	const missing = (schema.required ?? []).filter((key) => !(key in v)).map((key) => `${at}.${key} is missing`);

	return missing.concat(Object.entries(v).flatMap(([key, one]) => {
		const member = schema.properties?.[key] ?? schema.additionalProperties;

		if (member === undefined)
			return [`${at}.${key} is not described`];
		had.add(member);
		return member === true ? [] : faults(one, member, `${at}.${key}`, had);
	}));
}

const templates = Object.keys(doc.paths).map((path) => [path, new RegExp(`^${path.replaceAll(".", "\\.").replace(/\{\w+\}/, "[^/]*")}$`)]);

export const pathOf = (url) => templates.find(([, is]) => is.test(url.split("?")[0]))?.[0];
export const parametersOf = (operation) => (operation.parameters ?? []).map(resolve);

function operationOf(method, url) {
	const path = pathOf(url);

	return path && doc.paths[path][method === "HEAD" ? "get" : method.toLowerCase()];
}

// What of a question is not described.
export function undescribed(method, url) {
	const operation = operationOf(method, url);
	const known = operation ? parametersOf(operation).filter((p) => p.in === "query").map((p) => p.name) : [];

	return operation ? [...new URLSearchParams(url.split("?")[1] ?? "").keys()].filter((name) => !known.includes(name)).map((name) => `${method} ${url}: parameter ${name}`) : [`${method} ${url}`];
}

// What is wrong with an answer: type is its Content-Type.  json: null of what has no body.
export function wrong(method, url, { status, type, json }) {
	const at = `${method} ${url.slice(0, 200)}, ${status}: `;
	const error = status >= 400, operation = operationOf(method, url);
	const expected = error ? "application/problem+json" : "application/json";

	if (error && type !== expected)
		return [`${at}it is ${type}`];
	if (type !== expected || json === null || json === undefined)
		return [];
	const answer = error ? { content: { [expected]: { schema: { $ref: "#/components/schemas/Problem" } } } } : operation?.responses[status];

	if (answer === undefined)
		return [`${at}it is not described`];
	const found = faults(json, resolve(answer).content[expected].schema, "answer", seen);

	return (error && json.status !== status ? [...found, "status is another one"] : found).map((f) => at + f);
}

// Members that are described, and were in no answer to these operations.  Those may be
// that are only there at times: they say when.
export function neverSeen(ids) {
	const done = new Set();
	const walk = (given, at) => {
		const schema = resolve(given);

		if (done.has(schema))
			return [];
		done.add(schema);
		return [...schema.anyOf ?? [], ...schema.allOf ?? [], ...schema.items ? [schema.items] : []].flatMap((s) => walk(s, at)).concat(Object.entries(schema.properties ?? {}).flatMap(([key, s]) =>
			seen.has(s) ? walk(s, `${at}.${key}`) : !(schema.required ?? []).includes(key) && /^Only /.test(s.description) ? [] : [`${at}.${key}`]));
	};

	return Object.values(doc.paths).flatMap((methods) => Object.values(methods)).filter((o) => ids.includes(o.operationId))
		.flatMap((o) => Object.entries(o.responses).filter(([status]) => status < 300).flatMap(([, r]) => Object.values(resolve(r).content).flatMap((c) => walk(c.schema, o.operationId))));
}
