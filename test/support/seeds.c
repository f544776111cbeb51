/*
 * seeds.c - unit tests feed the fuzzers: linked in front of what reads texts, events
 * and traces, it writes what a test hands over as a seed, below $KP_SEEDS/FUZZER/.
 * A seed is named by its bytes, so that there is one of each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "calls/call_sum.h"
#include "calls/trace_file.h"
#include "conn/tls_optfile.h"
#include "kprofd/config.h"
#include "kprofd/nodes.h"
#include "kprofd/request.h"

enum { SEED_MAX = 4096 };	/* fuzzers stop there, too: test/fuzz/run.sh */

static void
seed(const char *fuzzer, const char *head, size_t nhead, const void *p, size_t n)
{
	const char *dir = getenv("KP_SEEDS");
	char path[512];
	uint64_t h = UINT64_C(14695981039346656037);	/* FNV-1a */
	FILE *f;

	if (dir == NULL || n == 0 || n > SEED_MAX)
		return;
	for (size_t i = 0; i < n; i++)
		h = (h ^ ((const uint8_t *)p)[i]) * UINT64_C(1099511628211);
	snprintf(path, sizeof(path), "%s/%s", dir, fuzzer);
	mkdir(path, 0777);
	snprintf(path, sizeof(path), "%s/%s/%016llx", dir, fuzzer, (unsigned long long)h);
	f = fopen(path, "wb");
	if (f == NULL || fwrite(head, 1, nhead, f) != nhead || fwrite(p, 1, n, f) != n ||
	    fclose(f) != 0) {
		perror(path);
		exit(1);
	}
}

/* WRAP(type, name, (parameters), (arguments)) { what comes before the real one } */
#define WRAP(type, name, params, args, before)                       \
	type __real_##name params;                                   \
	type __wrap_##name params;                                   \
	type                                                         \
	__wrap_##name params                                         \
	{                                                            \
		before;                                              \
		return __real_##name args;                           \
	}

/* ---- texts ---- */

WRAP(enum kp_err, kp_conf_parse,
    (struct kp_conf **out, const char *src, size_t n, struct kp_diags *diags),
    (out, src, n, diags), seed("config", "", 0, src, n))
WRAP(enum kp_err, tls_optfile_parse, (struct tls_settings *s, const char *text, size_t n,
    const char *path, char *why, size_t whylen), (s, text, n, path, why, whylen),
    seed("optfile", "", 0, text, n))
/* Behind a first line, a glob. */
WRAP(enum kp_err, kp_node_list_parse, (struct kp_node_list *out, const char *text, size_t n,
    size_t max, uint32_t *line, const char **why), (out, text, n, max, line, why),
    seed("nodes", "a*@h\n", 5, text, n))

/* ---- events of requests, as fuzz_request.c has them: four bytes each ---- */

static uint8_t steps[SEED_MAX];
static size_t nsteps;
static kp_target_ns then;	/* of the last event, by the clock of its node */

/* Tests' milliseconds are its microseconds: most steps are small, and no clock runs back. */
static unsigned
later(kp_target_ns now)
{
	int64_t ms = (now - then) / KP_NS_PER_MS;

	then = now;
	return ms < 0 || ms > 3600000 ? 0 : ms < 199 ? (unsigned)ms :
	    ms < 5000 ? 199 + (unsigned)ms / 100 : 252;
}

static void
put_step(unsigned what, unsigned where, unsigned fn, unsigned by)
{
	const uint8_t step[4] = { (uint8_t)what, (uint8_t)where, (uint8_t)fn, (uint8_t)by };

	for (unsigned i = 0; i < 4 && nsteps < sizeof(steps); i++)
		steps[nsteps++] = step[i];
}

/* e is the entry; of others the first letter of the module tells, then kprof's own. */
static unsigned
fn_of(struct kp_span mfa)
{
	static const char names[] = "ebca";
	const char *c = mfa.n > 4 ? strchr(names, mfa.p[4]) : NULL;

	if (mfa.n > 10 && mfa.p[4] == 'k')
		return mfa.p[11] == 's' ? 5 : 6;
	return mfa.n == 0 ? 7 : c != NULL ? (unsigned)(c - names) : 4;
}

/* An identity, or as 3 a label. */
static unsigned
ident_of(const struct kp_event *ev)
{
	const char *tag = KP_LABEL_TAG;

	return ev->identity.n == 0 ? 0 : ev->kind == KP_EV_CALL &&
	    memmem(ev->identity.p, ev->identity.n, tag, strlen(tag)) != NULL ? 3 : 2;
}

static void
put_event(uint32_t node, const struct kp_event *ev)
{
	unsigned what = 5 * node + (unsigned)ev->kind % 5, by = later(ev->ts);

	if (ev->kind >= KP_EV_SEND)
		return;
	if (ev->kind == KP_EV_CLEAR)
		what = 5 * node + KP_EV_CALL;
	else if (ev->kind >= KP_EV_IN)
		by = 200 + (unsigned)(ev->kind - KP_EV_IN);
	put_step(what,
	    (ev->pid.id & 7) | (unsigned)(ev->label & 7) << 3 | (ev->from.id & 3) << 6,
	    fn_of(ev->mfa) | fn_of(ev->caller) << 3 | ident_of(ev) << 6, by);
}

WRAP(struct kp_requests *, kp_requests_new, (const struct kp_requests_opts *opts), (opts),
    (nsteps = 1, steps[0] = (uint8_t)(opts->chain_is_ambiguous << 1 |
    (opts->max_calls != 0) << 2 | 1 << 3)))
WRAP(void, kp_requests_events, (struct kp_requests *rs, uint32_t node,
    const struct kp_event *ev, size_t n), (rs, node, ev, n),
    for (size_t i = 0; i < n; i++) put_event(node & 3, &ev[i]))
WRAP(void, kp_requests_close_due, (struct kp_requests *rs, uint32_t node, kp_target_ns now),
    (rs, node, now), put_step(250, node & 3, 0, later(now)))
WRAP(void, kp_requests_abandon, (struct kp_requests *rs, uint32_t node, enum kp_loss cause),
    (rs, node, cause), put_step(255, node & 3, 0, 0))
WRAP(void, kp_requests_free, (struct kp_requests *rs), (rs),
    (nsteps > 1 ? seed("request", "", 0, steps, nsteps) : (void)0, nsteps = 0))

/* ---- full traces: how it is shown, and the file ---- */

static struct kp_call_names *names;
static struct kp_calls_writer writer;
static struct kp_buf file;

WRAP(enum kp_err, kp_calls_sum_add, (struct kp_calls_sum *s, const struct kp_call_event *ev),
    (s, ev), kp_calls_write(&writer, names, ev))

struct kp_call_names *__real_kp_call_names_new(void);
struct kp_call_names *__wrap_kp_call_names_new(void);
struct kp_call_names *
__wrap_kp_call_names_new(void)
{
	static const struct kp_calls_info info = { .target = "app@host", .otp = 27 };

	kp_buf_free(&file);
	kp_buf_init(&file, SEED_MAX);
	kp_calls_write_begin(&writer, &file, &info);
	return names = __real_kp_call_names_new();
}

WRAP(enum kp_err, kp_calls_sum_end, (struct kp_calls_sum *s), (s),
    (kp_calls_write_end(&writer, names, &(struct kp_calls_info){ 0 }),
    file.err == KP_OK ? seed("calls", "", 1, file.p, file.len) : (void)0))
