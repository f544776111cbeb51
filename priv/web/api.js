// api.js - sends requests to kprofd.  Each tab keeps the token for itself, in what ends
// with the tab; a new one gets it from those that are open, which no other site can hear.

const KEY = "kprofd-token";
const TABS_MS = 300;		// for an answer of another tab
const AGAIN_MS = 500;
// Timeouts: of queries, which the server queues and ends after 60 s, and of commands to
// the daemon, for which the server waits 15 s.
const QUERY_MS = 90000;
export const COMMAND_MS = 20000;

export class ApiError extends Error {
	constructor(status, text) {
		super(text);
		this.status = status;
	}
}

function headers(post) {
	const token = sessionStorage.getItem(KEY);
	const h = {};

	if (token)
		h.Authorization = `Bearer ${token}`;
	if (post)
		h["X-Kprofd"] = "1";
	return h;
}

const tabs = new BroadcastChannel(KEY);
let good = "";	// the token that was taken; only that goes to other tabs

// "": a new tab asks for the token; else it is one that was taken.
tabs.addEventListener("message", ({ data }) => {
	if (data === "") {
		if (good !== "" && good === sessionStorage.getItem(KEY))
			tabs.postMessage(good);
		return;
	}
	sessionStorage.setItem(KEY, data);
	document.getElementById("ask-token").close("given");
});

function taken(token) {
	if (token === null || token === good || token !== sessionStorage.getItem(KEY))
		return;
	good = token;
	tabs.postMessage(token);
}

// Waits for another tab's token; false: there is none, or it is the one that was refused.
async function fromTabs(refused) {
	const end = Date.now() + TABS_MS;

	good = "";
	tabs.postMessage("");
	while (Date.now() < end && sessionStorage.getItem(KEY) === refused)
		await new Promise((resolve) => setTimeout(resolve, TABS_MS / 10));
	return sessionStorage.getItem(KEY) !== refused;
}

// Who closes the dialog keeps the token.  wrong: the one there is was refused.
export function askToken(wrong = false) {
	const dialog = document.getElementById("ask-token");

	document.getElementById("token-wrong").hidden = !wrong;

	return new Promise((resolve) => {
		dialog.addEventListener("close", () => {
			const token = document.getElementById("token").value.trim();

			// other characters are not allowed in a header
			if (dialog.returnValue === "use")
				sessionStorage.setItem(KEY, /^[!-~]*$/.test(token) ? token : "");
			resolve();
		}, { once: true });
		dialog.returnValue = "";
		if (!dialog.open)
			dialog.showModal();
	});
}

// Browsers close all connections when any network of the machine changes, so a GET
// is sent once more. A POST is not, because it may have been carried out.
async function send(url, init) {
	try {
		return await fetch(url, init);
	} catch (e) {
		if (init.signal.aborted || init.method !== "GET")
			throw e;
		await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
		return fetch(url, init);
	}
}

async function ask(path, params, { post, signal, timeout = QUERY_MS, cache }) {
	const q = new URLSearchParams();

	for (const [k, v] of Object.entries(params))
		for (const one of Array.isArray(v) ? v : [v])
			if (one !== "" && one !== null && one !== undefined)
				q.append(k, one);
	const url = `api/v1/${path}${q.size > 0 ? `?${q}` : ""}`;
	const limit = AbortSignal.timeout(timeout);
	const token = sessionStorage.getItem(KEY);
	let answer;

	try {
		answer = await send(url, { method: post ? "POST" : "GET", headers: headers(post), cache, signal: signal ? AbortSignal.any([signal, limit]) : limit });
	} catch (e) {
		if (signal?.aborted)
			throw e;
		throw new ApiError(0, "kprofd does not answer: has it ended? Start it again with -http, or look at what it has written with: kprof web -db FILE");
	}
	const body = await answer.json().catch((e) => {
		if (signal?.aborted)
			throw e;
		return null;
	});

	if (answer.status === 401) {
		// another request may have asked the user meanwhile
		if (sessionStorage.getItem(KEY) === token && !await fromTabs(token))
			await askToken(token !== null);
		return ask(path, params, { post, signal, timeout, cache });
	}
	if (answer.ok)
		taken(token);
	// a kprofd that ends in the middle of an answer has already said 200
	if (!answer.ok || body === null)
		throw new ApiError(answer.status, body?.detail ?? `the answer breaks off or is not kprofd's (status ${answer.status})`);
	return body;
}

// cache: as fetch() has it; "no-store" where the same is never asked for again.
export const get = (path, params = {}, signal, timeout, cache) => ask(path, params, { signal, timeout, cache });

// A list of request types whole, of which an answer has a part: the first of each part
// is all requests.  Where it is another list by now, it begins again.
const PART = 5000;
const EXPIRED = 410;

export async function getAll(key, path, params, signal, cache) {
	const one = (cursor) => get(path, { ...params, limit: PART, cursor }, signal, undefined, cache);
	const all = await one("");

	try {
		for (let { next } = all; next !== null;) {
			const part = await one(next);

			all[key].push(...part[key].slice(1));
			next = part.next;
		}
	} catch (e) {
		if (e.status === EXPIRED)
			return getAll(key, path, params, signal, cache);
		throw e;
	}
	return all;
}
export const post = (path, params = {}) => ask(path, params, { post: true });
