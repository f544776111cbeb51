/*
 * fuzz_agent.c - the state machine of one target, with a target that says
 * anything at any time, and an owner who asks for anything.
 *
 * The input is a row of steps: a byte says which, the next one how many bytes
 * of what follows it takes. A first byte of 254 or 255 asks for the native
 * probe, whose library may be sent. Connections, sockets and timers are played
 * here; timers end when the input says so. Whatever happens, the machine is in
 * one of its states, asks for one connection at a time, says of its end once,
 * and after agent_stop() comes to it.
 */
#include <elf.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kprofd/etf.h"
#include "kprofd/trace.h"
#include "agent/agent_internal.h"
#include "fuzz.h"

static const char conf_text[] =
    "{tiers, [{web, {a, f, 1}, [exact]}, {db, [{b, g, '_'}, {c, '_', '_'}]}]}.\n";
static const char conf_other[] =
    "{tiers, [{web, {a, f, 1}}, {db, [{b, g, 2}]}]}.\n{sampling, {one_in, 3}}.\n";

/* ---- what libevent, connect.c and conn.c are elsewhere ---- */

struct event {
	event_callback_fn fn;
	void *ctx;
	bool pending;
};

struct event *
event_new(struct event_base *base, evutil_socket_t fd, short what,
    event_callback_fn fn, void *ctx)
{
	struct event *e = malloc(sizeof(*e));

	(void)base, (void)fd, (void)what;
	REQUIRE(e != NULL);
	*e = (struct event){ fn, ctx, false };
	return e;
}

int
event_add(struct event *e, const struct timeval *tv)
{
	REQUIRE(tv->tv_sec >= 0 && tv->tv_usec >= 0);
	e->pending = true;
	return 0;
}

int
event_del(struct event *e)
{
	e->pending = false;
	return 0;
}

void
event_free(struct event *e)
{
	free(e);
}

static void
fire(struct event *e, bool again)
{
	if (!e->pending)
		return;
	e->pending = again;
	e->fn(-1, EV_TIMEOUT, e->ctx);
}

struct connect {
	void (*done)(void *, enum kp_err, const struct node_conn *,
	    const char *);
	void *ctx;
};

static struct connect *connecting;

struct connect *
connect_start(struct event_base *base, const struct node_opts *o,
    void (*done)(void *, enum kp_err, const struct node_conn *, const char *),
    void *ctx)
{
	(void)base, (void)o;
	REQUIRE(connecting == NULL);
	connecting = malloc(sizeof(*connecting));
	REQUIRE(connecting != NULL);
	*connecting = (struct connect){ done, ctx };
	return connecting;
}

void
connect_free(struct connect *c)
{
	REQUIRE(c == NULL || c == connecting);
	free(c);
	if (c != NULL)
		connecting = NULL;
}

struct dist_conn {
	const struct dist_conn_ops *ops;
	void *ctx;
};

static struct dist_conn *attached;

struct dist_conn *
dist_conn_new(struct event_base *base, struct channel *channel,
    const struct dist_conn_ops *ops, void *ctx)
{
	(void)base, (void)channel;
	REQUIRE(attached == NULL);
	attached = malloc(sizeof(*attached));
	REQUIRE(attached != NULL);
	*attached = (struct dist_conn){ ops, ctx };
	return attached;
}

void
dist_conn_free(struct dist_conn *l)
{
	REQUIRE(l == NULL || l == attached);
	free(l);
	if (l != NULL)
		attached = NULL;
}

/* Each is a frame that the reader takes, and leaves nothing of. */
void
dist_conn_send(struct dist_conn *l, const struct kp_buf *frame)
{
	static struct kp_frames in;
	struct kp_frame f;

	REQUIRE(l == attached && frame->err == KP_OK);
	if (in.max == 0)
		kp_frames_init(&in, 0);
	REQUIRE(kp_frames_feed(&in, frame->p, frame->len) == KP_OK);
	REQUIRE(kp_frames_next(&in, &f) == KP_OK);
	REQUIRE(f.kind == KP_FRAME_SEND || f.kind == KP_FRAME_REG_SEND);
	REQUIRE(kp_frames_next(&in, &f) == KP_END);
}

/* ---- the owner ---- */

static struct agent *agent;
static struct kp_conf *confs[2];
static struct label_epochs labels, labels_new;
static unsigned ended, unreached;
static unsigned reloads;	/* 1: asked for, 2: checked, 3: applied */
static unsigned open_questions;	/* of the owner */
static unsigned checks;		/* 1: asked, 2: looked, 3: counts, 4: over */
static unsigned counted;	/* checks that came to their end, ever */
static unsigned states;		/* that were come to, ever: a bit each */
static unsigned probes;		/* that were taken, ever: a bit each */
static enum agent_slice slice;	/* the last step that was taken */
static bool slicing;		/* and its answer has not come */
static unsigned slices;		/* steps that were answered, ever: a bit each */
static char library[64];	/* a file that can be sent */

/* The corpus comes to all of them; if not, it tests next to nothing. */
void
fuzz_replayed(void)
{
	REQUIRE(states == (2u << AGENT_ENDED) - 1);
	REQUIRE(counted > 0);
	REQUIRE(probes == 7);
	REQUIRE(slices == (2u << AGENT_SLICE_REST) - 1);
}

/* Once for each question, and none after the end. */
static void
on_cleared(void *ctx, uint64_t number, struct kp_term *r)
{
	REQUIRE(ctx == NULL && number > 0 && open_questions > 0);
	open_questions--;
	if (r != NULL)
		kp_term_skip(r);
}

/* What was checked may be applied, if nobody thought better of it. */
static void
on_checked(struct target *t, const struct agent_checked *c)
{
	(void)t;
	REQUIRE(reloads == 1 && c->how <= AGENT_CHECKED_REFUSED);
	reloads = 2;
}

static void
on_looked(struct target *t, const struct agent_checked *c)
{
	(void)t;
	REQUIRE(checks == 1 && c->how <= AGENT_CHECKED_REFUSED);
	REQUIRE(c->plan->n <= KP_PLAN_MAX + 2 && c->diags != NULL);
	checks = c->how == AGENT_CHECKED_DONE ? 2 : 4;
}

static void
on_counted(struct target *t, const struct agent_checked *c)
{
	(void)t;
	REQUIRE(checks == 3 && c->how <= AGENT_CHECKED_REFUSED);
	REQUIRE(c->plan->n <= KP_PLAN_MAX + 2 && c->diags != NULL);
	checks = 4;
	counted += c->how == AGENT_CHECKED_DONE;
}

static void
on_state(enum agent_state s, enum agent_end end, const char *text)
{
	REQUIRE(s <= AGENT_ENDED && text != NULL && ended == 0);
	REQUIRE(agent_state_name(s)[0] != '\0');
	states |= 1u << s;
	if (s != AGENT_ENDED)
		return;
	REQUIRE(end == AGENT_STOPPED || text[0] != '\0');
	ended++;
}

/* All that it reports can be read. */
static int64_t
on_agent_event(struct target *t, const struct agent_event *e)
{
	static unsigned rests;
	volatile uint64_t sum;

	(void)t;
	switch (e->kind) {
	case AGENT_ON_STATE:
		on_state(e->state, e->end, e->text);
		break;
	case AGENT_ON_HELLO:
		REQUIRE(e->hello->protocol == AGENT_PROTOCOL &&
		    e->hello->node[0] != '\0');
		break;
	case AGENT_ON_PROBE:
		/* The relay has a reason, and so has a library that was sent. */
		REQUIRE(e->native || e->text != NULL);
		probes |= !e->native ? 1 : e->text != NULL ? 2 : 4;
		break;
	case AGENT_ON_UNREACHED:
		return unreached++ % 2 == 0;
	case AGENT_ON_MISSING:
		return e->diags->errors == 0 ? AGENT_GO_ON : unreached++ % 3;
	case AGENT_ON_DIAGS:
		REQUIRE(e->diags->n > 0);
		break;
	case AGENT_ON_PLAN:
	case AGENT_ON_REPLANNED:
		REQUIRE(agent_plan(agent)->n <= KP_PLAN_MAX + 2);
		break;
	case AGENT_ON_RELOADED:
		REQUIRE(reloads == 3 && e->reloaded->how <= AGENT_RELOAD_KEPT);
		reloads = 0;
		break;
	case AGENT_ON_BATCH:
	case AGENT_ON_STACKS:
		REQUIRE(e->message.n > 0);
		break;
	case AGENT_ON_CLOCK:
		REQUIRE(e->sent > 0 && e->sent <= e->received);
		REQUIRE(e->there < KP_TARGET_TIME_MAX &&
		    e->there > -KP_TARGET_TIME_MAX);
		break;
	case AGENT_ON_STATUS:
		REQUIRE(e->status->busy >= 0);
		break;
	case AGENT_ON_CALLS:
		sum = e->entries;
		for (int i = 0; i < KP_TIER_MAX; i++)
			sum += e->tiers[i];
		break;
	case AGENT_ON_MESSAGES:
		REQUIRE(e->text != NULL);
		break;
	case AGENT_ON_REPORT:
		REQUIRE(e->word[0] != '\0' && e->text != NULL && e->gap >= 0);
		break;
	case AGENT_ON_CONNECTED:
		REQUIRE(e->text[0] != '\0');
		break;
	case AGENT_ON_TRIP:
		REQUIRE(e->text[0] != '\0');
		return KP_NS_PER_S;
	case AGENT_ON_SLICE:
		/* It answers the last step that was taken, once. */
		REQUIRE(slicing && e->slice == slice);
		slicing = false;
		slices |= 1u << slice;
		break;
	case AGENT_ON_PAUSE_OVER:
		return rests++ % 2 * KP_NS_PER_S;
	}
	return 0;
}

/* ---- the target ---- */

/* A message is put together in these, made once; a copy of it is delivered. */
static struct kp_buf message, said;

static struct kp_buf *
empty(struct kp_buf *b)
{
	if (b->max == 0)
		kp_buf_init(b, 1 << 16);
	kp_buf_reset(b);
	return b;
}

static void
deliver(const struct kp_buf *b)
{
	struct kp_frame f = { .kind = KP_FRAME_SEND, .op = KP_OP_SEND,
		.to = { agent->ids.self.p, (uint32_t)agent->ids.self.len },
		.payload = { b->p, (uint32_t)b->len } };
	/* exactly its size, so that a sanitizer sees a step beyond */
	uint8_t *copy = malloc(b->len > 0 ? b->len : 1);

	REQUIRE(copy != NULL && b->err == KP_OK);
	if (b->len > 0)
		memcpy(copy, b->p, b->len);
	f.payload.p = copy;
	if (attached != NULL)
		attached->ops->on_frame(attached->ctx, &f);
	free(copy);
}

/* {Tag, Bytes} or {kprof_reply, Ref, Bytes} */
static void
answer(const char *tag, const uint64_t *ref, const uint8_t *p, size_t n)
{
	struct kp_buf *b = empty(&message);

	kp_etf_version(b);
	kp_etf_tuple(b, ref != NULL ? 3 : 2);
	kp_etf_atom(b, tag);
	if (ref != NULL)
		kp_etf_int(b, (int64_t)*ref);
	kp_buf_put(b, p, n);
	deliver(b);
	/* It does not tell what it has left. */
	while (attached != NULL && agent->asking_room &&
	    agent->room.step != HEADROOM_DONE) {
		kp_buf_reset(b);
		kp_etf_version(b);
		kp_etf_tuple(b, 2);
		kp_etf_atom(b, "rex");
		kp_etf_atom(b, "unknown");
		deliver(b);
	}
}

static void
put_no_module(struct kp_buf *b, const char *mod)
{
	kp_etf_tuple(b, 4);
	kp_etf_atom(b, mod);
	kp_etf_atom(b, "error");
	kp_etf_atom(b, "nofile");
	kp_etf_nil(b);
}

static void
put_module(struct kp_buf *b, const char *mod, const char *fun, int arity)
{
	kp_etf_tuple(b, 5);
	kp_etf_atom(b, mod);
	kp_etf_atom(b, "ok");
	for (int i = 0; i < 2; i++) {
		kp_etf_list(b, 1);
		kp_etf_tuple(b, 2);
		kp_etf_atom(b, fun);
		kp_etf_int(b, arity);
		kp_etf_nil(b);
	}
	kp_etf_nil(b);
}

static void
put_hello(struct kp_buf *b)
{
	kp_etf_tuple(b, 3);
	kp_etf_atom(b, "ok");
	kp_etf_pid(b, "x@h", 77, 0, 1);
	kp_etf_map(b, 4);
	kp_etf_atom(b, "protocol");
	kp_etf_int(b, AGENT_PROTOCOL);
	kp_etf_atom(b, "node");
	kp_etf_atom(b, "x@h");
	kp_etf_atom(b, "otp");
	kp_etf_string(b, "25", 2);
	kp_etf_atom(b, "time_offset");
	kp_etf_int(b, 1);
}

/* It is called more often than exact outcomes are to be had. */
static void
put_rates(struct kp_buf *b)
{
	kp_etf_list(b, 1);
	kp_etf_tuple(b, 4);
	kp_etf_tuple(b, 3);
	kp_etf_atom(b, "a");
	kp_etf_atom(b, "f");
	kp_etf_int(b, 1);
	kp_etf_int(b, 1000000);
	kp_etf_atom(b, "true");
	kp_etf_atom(b, "false");
	kp_etf_nil(b);
}

/* The number of a question that is open; 0: none is. */
static uint64_t
last_asked(void)
{
	return agent->nasked > 0 ? agent->asked[agent->nasked - 1].number : 0;
}

/*
 * What a target would say to the question that is open, one that has not all
 * that is asked for or is busy, too.
 */
static void
say_right(bool aside, bool lacks)
{
	bool to_check = aside && agent->trial.step != RUN_NONE;
	bool to_reload = aside && !to_check;
	bool to_probe = !aside && agent->state == AGENT_CHECKING &&
	    agent->now.asked == 0;
	uint64_t ref = to_check ? agent->trial.asked : to_reload ?
	    agent->next.asked : to_probe ? last_asked() : agent->now.asked;
	bool rex = agent->state < AGENT_CHECKING;
	struct kp_buf *b = empty(&said);

	if (agent->state == AGENT_STARTING) {
		put_hello(b);
	} else if (to_probe) {
		kp_etf_tuple(b, 2);
		kp_etf_atom(b, lacks ? "error" : "ok");
		kp_etf_binary(b, "none", 4);
	} else if (agent->state == AGENT_CHECKING ||
	    (to_check && agent->trial.step == RUN_LOOKING) ||
	    (to_reload && agent->next.step == RUN_LOOKING)) {
		kp_etf_list(b, 3);
		put_module(b, "a", "f", 1);
		if (lacks)
			put_no_module(b, "b");
		else
			put_module(b, "b", "g", 2);
		put_module(b, "c", "h", 3);
		kp_etf_nil(b);
	} else if (lacks && (agent->state == AGENT_RATING ||
	    (to_check && agent->trial.step == RUN_RATING) ||
	    (to_reload && agent->next.step == RUN_RATING))) {
		put_rates(b);
	} else if (agent->state == AGENT_RATING || to_check) {
		kp_etf_nil(b);
	} else {
		kp_etf_atom(b, rex ? "false" : "ok");
	}
	answer(rex ? "rex" : "kprof_reply", rex ? NULL : &ref, b->p, b->len);
}

static void
connected(bool well)
{
	struct node_conn conn = { .name = "kprofd1@h", .creation = 7 };

	if (connecting != NULL)
		connecting->done(connecting->ctx, well ? KP_OK : KP_EIO, &conn,
		    "no such node");
}

static void
raw(const uint8_t *p, size_t n)
{
	struct kp_buf *b = empty(&message);

	kp_etf_version(b);
	kp_buf_put(b, p, n);
	deliver(b);
}

static void
reload(unsigned which)
{
	if (reloads == 0) {
		reloads = 1;
		agent_reload(agent, confs[which % 2], on_checked);
	} else if (reloads == 2 && which < 8) {
		reloads = 3;
		agent_reload_apply(agent);
	} else if (reloads < 3) {
		agent_reload_cancel(agent);
		reloads = 0;
	}
}

static void
check(unsigned which)
{
	if (checks == 0) {
		checks = 1;
		agent_check(agent, confs[which % 2], on_looked);
	} else if (checks == 2 && which < 8) {
		checks = 3;
		agent_check_count(agent, KP_NS_PER_S, on_counted);
	} else {
		agent_check_end(agent);
		checks = 0;
	}
}

static void
take_slice(enum agent_slice which)
{
	agent_sliced(agent, true);
	if (!agent_slice(agent, which % (AGENT_SLICE_REST + 1), 1 + which))
		return;
	slice = which % (AGENT_SLICE_REST + 1);
	slicing = true;
}

static void
ask(void)
{
	struct kp_buf b;

	agent_ask_begin(agent, &b);
	kp_etf_atom(&b, "clear_tokens");
	open_questions += agent_ask(agent, &b, on_cleared, NULL, 2) != 0;
}

/* Returns how many of the n bytes it took. */
static size_t
step(uint8_t what, const uint8_t *p, size_t n)
{
	uint64_t number;
	size_t len = n > 0 ? p[0] : 0;
	bool taken = what % 20 < 4;

	if (taken && n > 0) {
		p++;
		len = len < n - 1 ? len : n - 1;
	}
	switch (what % 20) {
	case 0:
		raw(p, len);
		break;
	case 1:
		answer("rex", NULL, p, len);
		break;
	case 2:
		number = agent->now.asked != 0 ? agent->now.asked : last_asked();
		answer("kprof_reply", &number, p, len);
		break;
	case 3:
		number = agent->next.asked != 0 ? agent->next.asked : last_asked();
		answer("kprof_reply", &number, p, len);
		break;
	case 4:
	case 5:
	case 6:
		say_right(false, what % 20 == 6);
		break;
	case 7:
		say_right(true, what >= 200);
		break;
	case 8:
	case 9:
		connected(true);
		break;
	case 10:
		connected(false);
		agent_judge(agent, (enum agent_verdict)(what / 20 % 2));
		break;
	case 11:
		fire(agent->timer, false);
		break;
	case 12:
		fire(agent->lease, true);
		break;
	case 13:
		if (attached != NULL)
			attached->ops->on_down(attached->ctx, "it closed");
		break;
	case 14:
		if (attached != NULL)
			attached->ops->on_bad_frame(attached->ctx);
		break;
	case 15:
		agent_pause(agent);
		break;
	case 16:
		if (what < 120)
			agent_resume(agent);
		else
			take_slice((enum agent_slice)(what / 20 - 6));
		break;
	case 17:
		agent_pause_for(agent, KP_NS_PER_S, "too much");
		agent_sample(agent, 1 + what / 20);
		break;
	case 18:
		reload(what / 20);
		ask();
		break;
	default:
		if (what > 200)
			agent_stop(agent);
		else if (what > 100)
			check(what / 20);
		else if (what < 50)
			agent_disarm(agent, "b:g/2");
		else if (agent_state(agent) == AGENT_AWAY)
			agent_come_back(agent);
		else
			agent_go_away(agent, "tracing");
	}
	return taken && n > 0 ? 1 + len : 0;
}

/* A header alone. */
static void
make_library(void)
{
	Elf64_Ehdr h = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3,
		ELFCLASS64, ELFDATA2LSB }, .e_machine = EM_X86_64 };
	int fd = memfd_create("library", 0);

	REQUIRE(fd >= 0);
	REQUIRE(write(fd, &h, sizeof(h)) == sizeof(h));
	snprintf(library, sizeof(library), "/proc/self/fd/%d", fd);
}

static void
setup(void)
{
	struct kp_diags d;

	REQUIRE(kp_conf_parse(&confs[0], conf_text, strlen(conf_text), &d) ==
	    KP_OK);
	REQUIRE(kp_conf_parse(&confs[1], conf_other, strlen(conf_other), &d) ==
	    KP_OK);
	label_epochs_init(&labels_new, 1, 0, 0);
	make_library();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct agent_opts o = { .target = "x@h", .cookie = "c",
		.conf_path = "tiers.conf",
		.labels = &labels };
	size_t n;

	if (confs[0] == NULL)
		setup();
	o.conf = confs[0];
	if (size > 0 && data[0] >= 254) {
		o.probe = data[0] == 254 ? AGENT_NATIVE : AGENT_AUTO;
		o.probe_library = "/x.so";
		o.probe_send = library;
		data++, size--;
	}
	labels = labels_new;
	ended = reloads = unreached = checks = open_questions = 0;
	agent = agent_new(NULL, &o, on_agent_event, NULL);
	REQUIRE(agent != NULL);
	agent_start(agent);
	for (; size > 0 && ended == 0; data += n, size -= n)
		n = 1 + step(data[0], data + 1, size - 1);
	if (ended == 0)
		agent_stop(agent);
	for (int i = 0; i < 3 && ended == 0; i++)
		fire(agent->timer, false);
	REQUIRE(ended == 1 && agent_state(agent) == AGENT_ENDED &&
	    open_questions == 0);
	agent_free(agent);
	REQUIRE(connecting == NULL && attached == NULL);
	return 0;
}
