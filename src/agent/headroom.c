/* headroom.c - asks a node what it has left, and says when that is too little. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/etf.h"
#include "agent/headroom.h"
#include "text/text.h"

#define LEVELS 4		/* of a hierarchy, below its root */
#define NO_LIMIT (UINT64_C(1) << 60)	/* more is how a kernel says "none" */
#define ANSWER_MAX 64		/* numbers of a file, as text */

static const struct {
	const char *root, *limit, *usage, *cache;
} groups[] = {
	{ "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file" },
	{ "/sys/fs/cgroup/memory", "memory.limit_in_bytes",
	    "memory.usage_in_bytes", "total_inactive_file" },
};

/* ---- questions ---- */

/* fun Mod:Fun/1 */
static void
put_fun(struct kp_buf *b, const char *mod, const char *fun)
{
	const uint8_t tag = ETF_EXPORT;

	kp_buf_put(b, &tag, 1);
	kp_etf_atom(b, mod);
	kp_etf_atom(b, fun);
	kp_etf_int(b, 1);
}

static void
put_file(struct kp_buf *b, const struct headroom_dir *d, const char *file)
{
	char name[HEADROOM_DIR_MAX + 64];

	snprintf(name, sizeof(name), "%s/%s", d->name, file);
	kp_etf_binary(b, name, strlen(name));
}

/* lists:map(fun erlang:system_info/1, [atom_limit, ...]) */
static void
ask_counts(struct kp_buf *b)
{
	static const char *const what[] = { "atom_limit", "atom_count",
		"process_limit", "process_count" };

	kp_etf_list(b, 2);
	put_fun(b, "erlang", "system_info");
	kp_etf_list(b, 4);
	for (size_t i = 0; i < 4; i++)
		kp_etf_atom(b, what[i]);
	kp_etf_nil(b);
	kp_etf_nil(b);
}

/* lists:map(fun prim_file:read_file/1, [File, ...]) */
static void
ask_files(const struct headroom *h, struct kp_buf *b)
{
	static const char own[] = "/proc/self/cgroup";

	kp_etf_list(b, 2);
	put_fun(b, "prim_file", "read_file");
	if (h->step == HEADROOM_GROUPS) {
		kp_etf_list(b, 1);
		kp_etf_binary(b, own, sizeof(own) - 1);
	} else {
		kp_etf_list(b, h->ndirs * 3);
	}
	for (unsigned i = 0; h->step == HEADROOM_LIMITS && i < h->ndirs; i++) {
		put_file(b, &h->dirs[i], groups[h->dirs[i].v1].limit);
		put_file(b, &h->dirs[i], groups[h->dirs[i].v1].usage);
		put_file(b, &h->dirs[i], "memory.stat");
	}
	kp_etf_nil(b);
	kp_etf_nil(b);
}

bool
headroom_ask(struct headroom *h, struct kp_buf *b, const struct dist_ids *ids)
{
	if (h->step == HEADROOM_DONE)
		return false;
	rpc_begin(b, ids, "lists", "map");
	if (h->step == HEADROOM_COUNTS)
		ask_counts(b);
	else
		ask_files(h, b);
	rpc_end(b);
	return true;
}

/* ---- answers ---- */

static void
read_counts(struct headroom *h, struct kp_term *r)
{
	int64_t *const v[] = { &h->atom_limit, &h->atoms, &h->process_limit,
		&h->processes };

	if (kp_term_list(r) != 4)
		return;
	for (size_t i = 0; i < 4; i++)
		*v[i] = kp_term_int(r);
	h->counted = r->err == KP_OK;
}

/* {ok, Bytes}; an empty span for {error, _}. */
static struct kp_span
read_file(struct kp_term *r)
{
	struct kp_span none = { NULL, 0 }, bytes;
	bool ok;

	kp_term_tuple_n(r, 2);
	ok = kp_span_is(kp_term_atom(r), "ok");
	if (!ok) {
		kp_term_skip(r);
		return none;
	}
	bytes = kp_term_binary(r);
	return r->err == KP_OK ? bytes : none;
}

static void
dir_add(struct headroom *h, bool v1, const char *path, size_t n)
{
	struct headroom_dir *d = &h->dirs[h->ndirs];
	size_t room = sizeof(d->name) - strlen(groups[v1].root) - 1;

	if (h->ndirs == HEADROOM_DIRS || n > room)
		return;
	snprintf(d->name, sizeof(d->name), "%s%.*s", groups[v1].root, (int)n,
	    path);
	d->v1 = v1;
	h->ndirs++;
}

/* A group's limit is that of all groups around it, too. */
static void
dirs_of(struct headroom *h, bool v1, const char *path, size_t n)
{
	for (int i = 0; i < LEVELS && n > 1; i++) {
		dir_add(h, v1, path, n);
		while (n > 0 && path[--n] != '/')
			;
	}
	dir_add(h, v1, "", 0);
}

/* True: "memory" is in this list of names with commas. */
static bool
has_memory(const char *list, size_t n)
{
	static const char memory[] = "memory";
	size_t len = sizeof(memory) - 1;

	for (size_t i = 0; i + len <= n; i++)
		if (memcmp(list + i, memory, len) == 0 &&
		    (i == 0 || list[i - 1] == ',') &&
		    (i + len == n || list[i + len] == ','))
			return true;
	return false;
}

/* Lines such as 0::/a/b, or 4:cpu,memory:/a/b of the first version. */
static void
read_groups(struct headroom *h, struct kp_term *r)
{
	struct kp_span file = { NULL, 0 };
	const char *at, *end, *line, *list, *path;

	if (kp_term_list(r) == 1)
		file = read_file(r);
	at = (const char *)file.p;
	end = file.n > 0 ? at + file.n : at;
	for (; at < end; at = line + 1) {
		line = memchr(at, '\n', (size_t)(end - at));
		line = line != NULL ? line : end;
		list = memchr(at, ':', (size_t)(line - at));
		path = list == NULL ? NULL :
		    memchr(list + 1, ':', (size_t)(line - list - 1));
		if (path == NULL)
			continue;
		if (path == list + 1)
			dirs_of(h, false, path + 1, (size_t)(line - path - 1));
		else if (has_memory(list + 1, (size_t)(path - list - 1)))
			dirs_of(h, true, path + 1, (size_t)(line - path - 1));
	}
}

/* The number that follows `name` and a blank at the begin of a line, or 0. */
static uint64_t
number_of(struct kp_span file, const char *name)
{
	size_t len = strlen(name);
	const char *at = (const char *)file.p;
	char text[ANSWER_MAX];

	for (size_t i = 0; i + len < file.n; i++) {
		if (memcmp(at + i, name, len) != 0 || (i > 0 && len > 0 &&
		    at[i - 1] != '\n') || (len > 0 && at[i + len] != ' '))
			continue;
		snprintf(text, sizeof(text), "%.*s", (int)(file.n - i - len),
		    at + i + len);
		return strtoull(text, NULL, 10);
	}
	return 0;
}

/* Pages of files that the kernel takes back first do not count as used. */
static void
read_limits(struct headroom *h, struct kp_term *r)
{
	struct kp_span limit, usage, stat;
	uint64_t most, used, cache;

	if (kp_term_list(r) != h->ndirs * 3)
		return;
	for (unsigned i = 0; i < h->ndirs && r->err == KP_OK; i++) {
		limit = read_file(r);
		usage = read_file(r);
		stat = read_file(r);
		most = number_of(limit, "");
		used = number_of(usage, "");
		cache = number_of(stat, groups[h->dirs[i].v1].cache);
		if (most == 0 || most >= NO_LIMIT || used == 0)
			continue;	/* "max", or not there */
		used -= cache < used ? cache : used;
		used = used < most ? most - used : 0;
		if (h->limited && used >= h->memory_left)
			continue;
		h->limited = true;
		h->memory_limit = most;
		h->memory_left = used;
	}
}

bool
headroom_is_full(const struct kp_term *answer, const char *target, char *why,
    size_t n)
{
	struct kp_term at = *answer;
	struct kp_buf b;
	bool full;

	if (kp_term_peek(&at) != KP_TERM_TUPLE)
		return false;
	kp_buf_init(&b, 1024);
	kp_term_print(&at, &b, 200);
	full = strstr(kp_buf_cstr(&b), "system_limit") != NULL;
	kp_buf_free(&b);
	if (full)
		snprintf(why, n, "'%s' cannot start a process: it is at its "
		    "limit of processes (+P of erl gives it more)", target);
	return full;
}

void
headroom_answer(struct headroom *h, struct kp_term *r)
{
	bool list = kp_term_peek(r) == KP_TERM_LIST;

	if (h->step == HEADROOM_COUNTS) {
		if (list)
			read_counts(h, r);
		h->step = HEADROOM_GROUPS;
	} else if (h->step == HEADROOM_GROUPS) {
		if (list)
			read_groups(h, r);
		h->step = h->ndirs > 0 ? HEADROOM_LIMITS : HEADROOM_DONE;
	} else {
		if (list)
			read_limits(h, r);
		h->step = HEADROOM_DONE;
	}
}

/* ---- judgement ---- */

static bool
is_short(const char *target, const char *of, int64_t limit, int64_t used,
    uint64_t need, const char *option, char *why, size_t n)
{
	char all[TEXT_MAX], left[TEXT_MAX], wanted[TEXT_MAX];
	int64_t rest = limit > used ? limit - used : 0;

	if (rest >= (int64_t)need)
		return false;
	snprintf(why, n, "'%s' has %s of its %s %s left, and %s are needed to be "
	    "safe: nothing was loaded (a node that has none left can end; %s of "
	    "erl gives it more)", target, text_count(left, (uint64_t)rest),
	    text_count(all, (uint64_t)limit), of, text_count(wanted, need),
	    option);
	return true;
}

bool
headroom_refuses(const struct headroom *h, const char *target, uint64_t memory,
    char *why, size_t n)
{
	uint64_t need = memory + HEADROOM_MEMORY;

	if (h->counted && h->atom_limit > 0 && h->process_limit > 0 &&
	    (is_short(target, "atoms", h->atom_limit, h->atoms, HEADROOM_ATOMS,
	    "+t", why, n) ||
	    is_short(target, "processes", h->process_limit, h->processes,
	    HEADROOM_PROCESSES, "+P", why, n)))
		return true;
	if (!h->limited || h->memory_left >= need)
		return false;
	snprintf(why, n, "'%s' has %" PRIu64 " MiB left of the %" PRIu64 " MiB "
	    "that its control group may have, and a profile may take %" PRIu64
	    " MiB: nothing was loaded (max_memory_mb in tiers.conf, or "
	    "-max-memory, makes that less)", target, h->memory_left >> 20,
	    h->memory_limit >> 20, need >> 20);
	return true;
}
