/*
 * daemon.c - owns and wires everything: target, store, control socket,
 * timers and signals.  The only file that knows all of them.
 *
 * One libevent loop; the store's writer thread comes back into it through
 * event_active().  Ending is one path for every reason: stop the target, take
 * its goodbye, close the last window, close the store.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>
#include <event2/thread.h>

#include "kprofd/conf_file.h"
#include "kprofd/control.h"
#include "kprofd/daemon.h"
#include "kprofd/log.h"
#include "kprofd/notify.h"
#include "kprofd/print.h"
#include "kprofd/reload.h"
#include "kprofd/status.h"
#include "kprofd/store_watch.h"
#include "kprofd/target.h"
#include "kprofd/tables.h"
#include "kprofd/wait.h"

#define EXIT_KEPT_OUT 3		/* and not to be started again by itself */
#define CONNECT_LIMIT (7 * KP_NS_PER_S)
#define SYNCS_MAX 16	/* `kprof dump` at once: as many as clients */

/* A `kprof dump` that waits for the disk. */
struct sync {
	struct daemon *d;
	struct event *done;
	uint64_t client;
	bool ok, busy;
};

struct daemon {
	const struct options *o;
	struct conf_file conf;
	struct event_base *base;
	struct kp_store *store;
	struct store_watch watch;
	struct control *control;
	struct target *target;
	struct event *window, *end, *sigint, *sigterm, *sighup;
	struct sync syncs[SYNCS_MAX];
	struct waits waits;
	struct reload *reload;		/* NULL: only a check */
	char cookie[NODE_COOKIE_MAX + 1];
	struct print_limit printing;
	struct tables *tables;
	kp_mono_ns started;
	bool stopping;
	bool tty;			/* stderr is a terminal */
	bool terminal;			/* there is one that can go */
	int status;
};

/* ---- ending ---- */

static void
daemon_stop(struct daemon *d)
{
	if (d->stopping) {
		/* Asked twice: the target's agent cleans up by itself. */
		event_base_loopbreak(d->base);
		return;
	}
	d->stopping = true;
	notify_stopping();
	target_stop(d->target);
}

static void
on_signal(evutil_socket_t sig, short what, void *ctx)
{
	struct daemon *d = ctx;

	(void)sig, (void)what;
	log_debug("end", NULL, "told to end");
	daemon_stop(d);
}

/*
 * The log was moved away, or tiers.conf is another one; or there is no log,
 * and the terminal has gone.
 */
static void
on_hangup(evutil_socket_t sig, short what, void *ctx)
{
	struct daemon *d = ctx;

	if (!log_has_file() && d->terminal) {
		on_signal(sig, what, ctx);
		return;
	}
	if (log_has_file())
		log_reopen();
	if (d->reload != NULL && !d->stopping)
		reload_ask(d->reload, NULL);
}

/* Has this process a terminal that can go? */
static bool
has_terminal(void)
{
	int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void
on_end(evutil_socket_t fd, short what, void *ctx)
{
	(void)fd, (void)what;
	daemon_stop(ctx);
}

static void
on_stopped(void *ctx, struct target *t)
{
	struct daemon *d = ctx;

	(void)t;
	event_base_loopbreak(d->base);
}

static void
on_failed(void *ctx, struct target *t, enum agent_failure f, const char *why)
{
	struct daemon *d = ctx;

	log_error("failed", t->opts.target, "%s", why);
	d->status = f == AGENT_KEPT_OUT ? EXIT_KEPT_OUT : 1;
	event_base_loopbreak(d->base);
}

/* ---- what the target has to say ---- */

static void
on_request(void *ctx, struct target *t, const struct kp_request *rq)
{
	struct daemon *d = ctx;

	if (d->o->print_calls)
		print_request(&d->printing, t->requests, rq,
		    t->hello.time_offset, kp_mono_now());
	if (d->o->requests > 0 && t->requests_ever == d->o->requests)
		event_active(d->end, EV_TIMEOUT, 0);
}

static void
on_plan(void *ctx, struct target *t, const struct kp_plan *plan)
{
	struct daemon *d = ctx;

	if (d->o->check)
		print_plan(t->conf, plan);
	else
		log_debug("plan", t->opts.target, "arming %zu functions",
		    plan->n);
}

static void
on_diags(void *ctx, const struct kp_diags *diags)
{
	struct daemon *d = ctx;

	conf_file_diags(&d->conf, diags, NULL);
}

static void
on_state(void *ctx, enum agent_state s, const char *text)
{
	struct daemon *d = ctx;

	if (s == AGENT_ARMED)
		notify_ready();
	notify_status(agent_state_name(s), text);
	waits_state(&d->waits, d->control, s, text);
}

static void
on_cleared(void *ctx, uint64_t number)
{
	struct daemon *d = ctx;

	waits_cleared(&d->waits, d->control, number);
}

static void
on_reloaded(void *ctx, struct target *t, const struct agent_reloaded *how)
{
	struct daemon *d = ctx;

	(void)t;
	reload_done(d->reload, how);
}

static void
log_window(const struct daemon *d, const struct target *t,
    const struct kp_window *w)
{
	int64_t requests = (int64_t)w->sampled;
	int64_t in_flight = (int64_t)kp_requests_in_flight(t->requests);
	int64_t ms = (w->end - w->start) / KP_NS_PER_MS;
	const struct log_entry e = { .event = "window",
		.target = t->opts.target,
		.level = d->tty ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG,
		.fields = { { .key = "requests", .number = requests },
			{ .key = "ms", .number = ms },
			{ .key = "in_flight", .number = in_flight } } };

	log_put(&e, "%" PRId64 " requests in the last %.0f s, %" PRId64
	    " in flight", requests, (double)ms / 1e3, in_flight);
}

static void
on_window(void *ctx, struct target *t, const struct kp_window *w)
{
	struct daemon *d = ctx;

	if (d->tables != NULL)
		tables_window(d->tables, w);
	/* Where somebody is looking: show that it goes on. */
	if (agent_state(t->agent) == AGENT_ARMED)
		log_window(d, t, w);
}

static const struct target_ops target_ops = {
	.on_request = on_request,
	.on_plan = on_plan,
	.on_diags = on_diags,
	.on_cleared = on_cleared,
	.on_reloaded = on_reloaded,
	.on_state = on_state,
	.on_failed = on_failed,
	.on_stopped = on_stopped,
	.on_window = on_window,
};

/* ---- windows ---- */

/* Windows end on multiples of the interval, so that targets' rows line up. */
static void
window_schedule(struct daemon *d)
{
	kp_dur_ns i = d->o->interval;
	kp_dur_ns left = i - kp_wall_now() % i;
	struct timeval tv = { left / KP_NS_PER_S,
		left % KP_NS_PER_S / KP_NS_PER_US };

	event_add(d->window, &tv);
}

static void
on_window_end(evutil_socket_t fd, short what, void *ctx)
{
	struct daemon *d = ctx;

	(void)fd, (void)what;
	/* before it has this window: what became of the last one */
	store_watch(&d->watch, d->store);
	target_rotate(d->target, kp_wall_now());
	reload_tick(d->reload);
	window_schedule(d);
}

/* ---- control ---- */

static void
do_clear_tokens(struct daemon *d, struct control_client *c)
{
	static const char no[] = "not attached to the target just now "
	    "(kprof status)";
	struct agent *a = d->target->agent;
	uint64_t number;

	if (agent_clear_tokens(a, &number) == KP_OK)
		waits_add(&d->waits, d->control, c, WAIT_CLEARED, number,
		    agent_state(a));
	else
		control_answer(c, false, no, strlen(no));
}

static void
do_pause(struct daemon *d, struct control_client *c, enum wait_for want)
{
	struct agent *a = d->target->agent;

	if (want == WAIT_PAUSED)
		agent_pause(a);
	else
		agent_resume(a);
	waits_add(&d->waits, d->control, c, want, 0, agent_state(a));
}

/* In the loop again, after the writer's thread said that it is on disk. */
static void
on_synced(evutil_socket_t fd, short what, void *ctx)
{
	static const char ok[] = "written\n";
	struct sync *s = ctx;
	struct kp_store_status st;
	struct control_client *c;

	(void)fd, (void)what;
	c = control_client_get(s->d->control, s->client);
	s->busy = false;
	if (c == NULL)
		return;
	if (s->ok) {
		control_answer(c, true, ok, strlen(ok));
		return;
	}
	kp_store_status(s->d->store, &st);
	control_answer(c, false, st.why, strlen(st.why));
}

/* On the writer's thread. */
static void
sync_done(void *ctx, bool ok)
{
	struct sync *s = ctx;

	s->ok = ok;
	event_active(s->done, EV_TIMEOUT, 0);
}

static void
do_dump(struct daemon *d, struct control_client *c)
{
	static const char busy[] = "too many dumps at once";

	for (int i = 0; i < SYNCS_MAX; i++)
		if (!d->syncs[i].busy) {
			d->syncs[i].busy = true;
			d->syncs[i].client = control_client_id(c);
			target_rotate(d->target, kp_wall_now());
			kp_store_sync(d->store, sync_done, &d->syncs[i]);
			return;
		}
	control_answer(c, false, busy, strlen(busy));
}

static void
do_status(struct daemon *d, struct control_client *c, bool json)
{
	struct kp_buf b;

	kp_buf_init(&b, 1u << 20);
	status_text(&b, d->target, d->store, d->o, d->started, json);
	control_answer(c, b.err == KP_OK, (const char *)b.p, b.len);
	kp_buf_free(&b);
}

static void
on_control(void *ctx, struct control_client *c, const char *line)
{
	struct daemon *d = ctx;
	char text[200];

	if (strcmp(line, "status") == 0 || strcmp(line, "status json") == 0) {
		do_status(d, c, line[6] != '\0');
	} else if (strcmp(line, "dump") == 0) {
		do_dump(d, c);
	} else if (strcmp(line, "pause") == 0) {
		do_pause(d, c, WAIT_PAUSED);
	} else if (strcmp(line, "resume") == 0) {
		do_pause(d, c, WAIT_RESUMED);
	} else if (strcmp(line, "reload") == 0) {
		reload_ask(d->reload, c);
	} else if (strcmp(line, "clear-tokens") == 0) {
		do_clear_tokens(d, c);
	} else {
		snprintf(text, sizeof(text), "unknown command '%.100s'", line);
		control_answer(c, false, text, strlen(text));
	}
}

/* ---- beginning ---- */

static int
complain(const char *why)
{
	log_error("start", NULL, "%s", why);
	return 1;
}

static int
open_store(struct daemon *d)
{
	struct kp_store_opts so = { .path = d->o->db, .version = KP_VERSION,
		.tiers_text = d->conf.text, .conf = d->conf.conf,
		.interval = d->o->interval, .retain = d->o->retain,
		.max_bytes = d->o->max_db };
	char *why = NULL;

	if (kp_store_open(&d->store, &so, &why) != KP_OK) {
		complain(why != NULL ? why : "out of memory");
		free(why);
		return 1;
	}
	return 0;
}

static int
open_events(struct daemon *d)
{
	struct timeval tv = { d->o->duration / KP_NS_PER_S,
		d->o->duration % KP_NS_PER_S / KP_NS_PER_US };

	if (evthread_use_pthreads() != 0 ||
	    (d->base = event_base_new()) == NULL)
		return complain("cannot start libevent");
	d->window = event_new(d->base, -1, 0, on_window_end, d);
	d->end = event_new(d->base, -1, 0, on_end, d);
	d->sigint = evsignal_new(d->base, SIGINT, on_signal, d);
	d->sigterm = evsignal_new(d->base, SIGTERM, on_signal, d);
	d->sighup = evsignal_new(d->base, SIGHUP, on_hangup, d);
	for (int i = 0; i < SYNCS_MAX; i++) {
		d->syncs[i].d = d;
		d->syncs[i].done = event_new(d->base, -1, 0, on_synced,
		    &d->syncs[i]);
		if (d->syncs[i].done == NULL)
			return complain("out of memory");
	}
	if (d->window == NULL || d->end == NULL || d->sigint == NULL ||
	    d->sigterm == NULL || d->sighup == NULL)
		return complain("out of memory");
	evsignal_add(d->sigint, NULL);
	evsignal_add(d->sighup, NULL);
	evsignal_add(d->sigterm, NULL);
	if (d->o->duration > 0)
		event_add(d->end, &tv);
	return 0;
}

static int
open_outputs(struct daemon *d)
{
	char why[512];

	if (d->o->check)
		return 0;
	if (control_open(&d->control, d->base, d->o->control_path, on_control,
	    d, why, sizeof(why)) != KP_OK)
		return complain(why);
	if (open_store(d) != 0)
		return 1;
	if (d->o->dump_file != NULL &&
	    (d->tables = tables_open(d->o->dump_file, d->o->dump_json,
	    d->conf.conf)) == NULL)
		return 1;
	window_schedule(d);
	return 0;
}

static int
open_target(struct daemon *d)
{
	struct agent_opts ao = { .target = d->o->targets[0],
		.name = d->o->name, .cookie = d->cookie,
		.conf = d->conf.conf, .check_only = d->o->check,
		.probe = d->o->probe, .probe_library = d->o->probe_library,
		.connect_limit = CONNECT_LIMIT };
	char why[512];

	if (node_cookie(d->o->cookie_file, d->cookie, why, sizeof(why)) !=
	    KP_OK)
		return complain(why);
	d->target = target_new(d->base, &ao, d->store, &target_ops, d);
	return d->target != NULL ? 0 : complain("out of memory");
}

static int
open_reload(struct daemon *d)
{
	const struct reload_parts parts = { .conf = &d->conf,
		.control = d->control, .target = d->target,
		.store = d->store, .tables = d->tables };

	if (d->o->check)
		return 0;
	d->reload = reload_new(d->base, &parts);
	return d->reload != NULL ? 0 : complain("out of memory");
}

static void
daemon_close(struct daemon *d)
{
	if (d->target != NULL) {
		target_drain(d->target, KP_LOSS_DISCONNECTED);
		target_rotate(d->target, kp_wall_now());
	}
	control_close(d->control);
	if (d->store != NULL)
		kp_store_close(d->store);
	tables_close(d->tables);
	target_free(d->target);
	reload_free(d->reload);
	for (int i = 0; i < SYNCS_MAX; i++)
		if (d->syncs[i].done != NULL)
			event_free(d->syncs[i].done);
	struct event *evs[] = { d->window, d->end, d->sigint, d->sigterm,
		d->sighup };
	for (size_t i = 0; i < sizeof(evs) / sizeof(evs[0]); i++)
		if (evs[i] != NULL)
			event_free(evs[i]);
	if (d->base != NULL)
		event_base_free(d->base);
	conf_file_free(&d->conf);
	explicit_bzero(d->cookie, sizeof(d->cookie));
}

int
daemon_run(const struct options *o)
{
	struct daemon d = { .o = o, .started = kp_mono_now(),
		.tty = isatty(STDERR_FILENO), .terminal = has_terminal() };

	if (conf_file_load(&d.conf, o->tiers, NULL) != KP_OK)
		return 1;
	if (o->check && o->ntargets == 0) {
		conf_file_summary(&d.conf);
		conf_file_free(&d.conf);
		return 0;
	}
	if (open_events(&d) != 0 || open_outputs(&d) != 0 ||
	    open_target(&d) != 0 || open_reload(&d) != 0) {
		daemon_close(&d);
		return 1;
	}
	/* A target that failed at once has asked for the end already. */
	if (d.status == 0)
		event_base_dispatch(d.base);
	daemon_close(&d);
	return d.status;
}
