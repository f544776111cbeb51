// api.js - sends requests to kprofd.  A token is kept for this tab only.

const KEY = "kprofd-token";
const AGAIN_MS = 500;
// Timeouts: of queries, which the server queues, and of commands to the daemon, for
// which the server waits 15 s.
const QUERY_MS = 60000;
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

function askToken() {
	const dialog = document.getElementById("ask-token");

	document.getElementById("token-wrong").hidden = sessionStorage.getItem(KEY) === null;

	return new Promise((resolve) => {
		dialog.addEventListener("close", () => {
			const token = document.getElementById("token").value.trim();

			// other characters are not allowed in a header
			sessionStorage.setItem(KEY, /^[!-~]*$/.test(token) ? token : "");
			resolve();
		}, { once: true });
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

async function ask(path, params, { post, signal, timeout = QUERY_MS }) {
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
		answer = await send(url, { method: post ? "POST" : "GET", headers: headers(post), signal: signal ? AbortSignal.any([signal, limit]) : limit });
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
		if (sessionStorage.getItem(KEY) === token)
			await askToken();
		return ask(path, params, { post, signal, timeout });
	}
	// a kprofd that ends in the middle of an answer has already said 200
	if (!answer.ok || body === null)
		throw new ApiError(answer.status, body?.error ?? `the answer breaks off or is not kprofd's (status ${answer.status})`);
	return body;
}

export const get = (path, params = {}, signal, timeout) => ask(path, params, { signal, timeout });
export const post = (path, params = {}) => ask(path, params, { post: true });
