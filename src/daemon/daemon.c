/*
 * daemon.c - owns and wires everything: targets, store, control socket, timers
 * and signals.  The only file that knows all of them.
 *
 * One libevent loop; the store's writer thread comes back into it through
 * event_active().  kprofd ends the same way for every reason: stop the targets,
 * wait for their goodbyes, close the last windows, close the store.
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

#include "export/totals.h"
#include "stats/boundary.h"
#include "daemon/control/commands.h"
#include "daemon/conf_file.h"
#include "daemon/control/control.h"
#include "daemon/daemon.h"
#include "daemon/log.h"
#include "daemon/notify.h"
#include "daemon/otlp_health.h"
#include "daemon/deferred_free.h"
#include "daemon/print.h"
#include "daemon/control/reload.h"
#include "daemon/store_health.h"
#include "daemon/dump_file.h"
#include "daemon/target/targets.h"
#include "text/text.h"
#include "web/web.h"

struct daemon {
	const struct options *o;
	struct conf_file conf;
	struct event_base *base;
	struct kp_store *store;
	struct store_health watch;
	struct control *control;
	struct totals *totals;		/* of all windows, for exporters */
	struct web *web;		/* NULL: not asked for */
	struct otlp *otlp;		/* the same */
	struct otlp_health otlp_watch;
	struct targets *targets;
	struct deferred *past;		/* NULL, as reload: only a check */
	struct reload *reload;
	struct commands *commands;
	struct event *window, *end, *sigint, *sigterm, *sighup;
	char cookie[NODE_COOKIE_MAX + 1];
	struct print_limit printing;
	struct dump_file *tables;
	kp_mono_ns started;
	struct boundary boundary;	/* of windows */
	uint64_t requests;		/* of all targets */
	bool stopping, over;
	bool began;			/* it did not fail to start */
	bool tty;			/* stderr is a terminal */
	bool terminal;			/* there is one that can go */
	int status;
};

/* ---- ending ---- */

static void
daemon_stop(struct daemon *d)
{
	if (d->stopping) {
		/* Asked twice: the targets' agents clean up by themselves. */
		event_base_loopbreak(d->base);
		return;
	}
	d->stopping = true;
	notify_stopping();
	targets_stop(d->targets);
}

static void
on_signal(evutil_socket_t sig, short what, void *ctx)
{
	struct daemon *d = ctx;

	(void)sig, (void)what;
	log_debug("end", NULL, "asked to end");
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

void
daemon_on_over(struct daemon *d, int status)
{
	d->over = true;
	d->status = status;
	event_base_loopbreak(d->base);
}

/* ---- what the targets report ---- */

/* For texts that are about one of several. */
static const char *
node_name(const struct daemon *d, const struct target *t)
{
	return targets_several(d->targets) ? t->node : NULL;
}

void
daemon_on_request(struct target *t, const struct kp_request *rq)
{
	struct daemon *d = t->p.daemon;

	if (d->o->print_calls)
		print_request(&d->printing, t->part.in->rs, rq,
		    t->hello.time_offset, targets_several(d->targets) ?
		    t->part.in->names : NULL, kp_mono_now());
	if (++d->requests == d->o->requests)
		event_active(d->end, EV_TIMEOUT, 0);
}

void
daemon_on_plan(struct target *t, const struct kp_plan *plan)
{
	struct daemon *d = t->p.daemon;

	if (d->o->check)
		print_plan(t->part.in->conf, plan, node_name(d, t));
	else
		log_debug("plan", t->node, "arming %zu functions", plan->n);
}

void
daemon_on_diags(struct target *t, const struct kp_diags *diags)
{
	struct daemon *d = t->p.daemon;

	conf_file_diags(&d->conf, diags, node_name(d, t), NULL);
}

void
daemon_on_state(struct target *t, enum agent_state s, const char *text)
{
	struct daemon *d = t->p.daemon;
	char armed[64];

	if (s == AGENT_ARMED)
		notify_ready();
	if (targets_several(d->targets)) {
		snprintf(armed, sizeof(armed), "%u of %u armed",
		    targets_armed(d->targets), targets_count(d->targets));
		notify_status(armed, "");
	} else {
		notify_status(agent_state_name(s), text);
	}
	if (d->commands != NULL)
		commands_state(d->commands, t, s, text);
}

static void
log_window(const struct daemon *d, const struct target *t,
    const struct kp_window *w)
{
	int64_t requests = (int64_t)w->sampled;
	int64_t in_flight = (int64_t)kp_requests_running(t->part.in->rs,
	    t->part.index);
	int64_t ms = (w->end - w->start) / KP_NS_PER_MS;
	const struct log_entry e = { .event = "window",
		.target = t->node,
		.level = d->tty ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG,
		.fields = { { .key = "requests", .number = requests },
			{ .key = "ms", .number = ms },
			{ .key = "in_flight", .number = in_flight } } };

	log_put(&e, "%s%s%" PRId64 " requests in the last %.0f s, %" PRId64
	    " in flight", targets_several(d->targets) ? t->node : "",
	    targets_several(d->targets) ? ": " : "", requests,
	    (double)ms / 1e3, in_flight);
}

void
daemon_on_window(struct target *t, const struct kp_window *w)
{
	struct daemon *d = t->p.daemon;

	if (d->tables != NULL)
		dump_file_window(d->tables, w, t->part.in->conf);
	/* Where somebody is looking: show that it goes on. */
	if (agent_state(t->agent) == AGENT_ARMED)
		log_window(d, t, w);
}

/* ---- windows ---- */

/* Its timer may fire early: what is left is waited for then. */
static void
window_schedule(struct daemon *d)
{
	kp_dur_ns left = boundary_left(&d->boundary, kp_moment_now()) +
	    KP_NS_PER_US - 1;
	struct timeval tv = { left / KP_NS_PER_S,
		left % KP_NS_PER_S / KP_NS_PER_US };

	event_add(d->window, &tv);
}

/* Windows of before and after are by two clocks, which their reader must know. */
static void
clock_was_set(struct daemon *d, kp_dur_ns by)
{
	char text[200];

	snprintf(text, sizeof(text), "the clock was set %s by %.0f s: "
	    "windows that had begun end by the old time",
	    by < 0 ? "back" : "forward", (double)(by < 0 ? -by : by) / 1e9);
	log_warn("clock", NULL, "%s", text);
	targets_record(d->targets, "clock", text);
}

static void
windows_end(struct daemon *d, struct kp_moment end, kp_dur_ns set)
{
	/* before it has this window: what became of the last one */
	store_health_watch(&d->watch, d->store);
	otlp_health_watch(&d->otlp_watch, d->otlp);
	if (set != 0)
		clock_was_set(d, set);
	targets_rotate(d->targets, end);
	deferred_tick(d->past);
}

static void
on_window_end(evutil_socket_t fd, short what, void *ctx)
{
	struct daemon *d = ctx;
	struct kp_moment end;
	kp_dur_ns set;

	(void)fd, (void)what;
	if (boundary_reached(&d->boundary, kp_moment_now(), &end, &set))
		windows_end(d, end, set);
	window_schedule(d);
}

static void
on_control(void *ctx, struct control_client *c, const char *line)
{
	struct daemon *d = ctx;

	commands_take(d->commands, c, line);
}

/* ---- beginning ---- */

static int
complain(const char *why)
{
	log_error("start", NULL, "%s", why);
	return 1;
}

/* On the writer's thread. */
static void
on_written(void *ctx, const struct kp_window *w)
{
	totals_add(ctx, w);
}

static int
open_store(struct daemon *d)
{
	struct kp_store_opts so = { .path = d->o->db, .version = KP_VERSION,
		.tiers_text = d->conf.text, .conf = d->conf.conf,
		.interval = d->o->interval, .retain = d->o->retain,
		.max_bytes = d->o->max_db, .on_written = on_written };
	char *why = NULL;

	if (d->o->http == NULL && d->o->otlp == NULL)
		so.on_written = NULL;
	else if ((d->totals = totals_new()) == NULL)
		return complain("out of memory");
	so.written_ctx = d->totals;
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
open_web(struct daemon *d)
{
	const struct web_opts wo = { .addr = d->o->http,
		.token_file = d->o->http_token_file, .dbs = { &d->o->db, 1 },
		.control = d->o->control_path, .totals = d->totals };
	char why[512];

	if (wo.addr == NULL)
		return 0;
	if (web_start(&d->web, &wo, why, sizeof(why)) != KP_OK)
		return complain(why);
	log_info("http", NULL, "dashboard at http://%s/", web_addr(d->web));
	return 0;
}

static int
open_otlp(struct daemon *d)
{
	const struct otlp_opts oo = { .url = d->o->otlp,
		.header_file = d->o->otlp_header_file, .db = d->o->db,
		.totals = d->totals };
	char why[512];

	if (oo.url == NULL)
		return 0;
	if (otlp_start(&d->otlp, &oo, why, sizeof(why)) != KP_OK)
		return complain(why);
	log_info("otlp", NULL, "slow requests and figures go to %s", oo.url);
	return 0;
}

static int
open_outputs(struct daemon *d)
{
	char why[512];

	if (d->o->check)
		return 0;
	/*
	 * The lock of the database first: whoever has that is the only one
	 * that may take a socket beside it for left over.
	 */
	if (open_store(d) != 0)
		return 1;
	if (control_open(&d->control, d->base, d->o->control_path, on_control,
	    d, why, sizeof(why)) != KP_OK)
		return complain(why);
	if (d->o->dump_file != NULL &&
	    (d->tables = dump_file_open(d->o->dump_file, d->o->dump_json)) == NULL)
		return 1;
	d->past = deferred_new(d->base, d->store);
	if (d->past == NULL)
		return complain("out of memory");
	boundary_begin(&d->boundary, d->o->interval, kp_moment_now());
	window_schedule(d);
	return open_web(d) != 0 ? 1 : open_otlp(d);
}

static int
open_targets(struct daemon *d)
{
	const struct targets_parts parts = { .o = d->o, .conf = &d->conf,
		.cookie = d->cookie, .store = d->store, .daemon = d };
	char why[512];

	if (node_cookie(d->o->cookie_file, d->cookie, why, sizeof(why)) !=
	    KP_OK)
		return complain(why);
	d->targets = targets_new(d->base, &parts);
	return d->targets != NULL ? 0 : complain("out of memory");
}

static int
open_commands(struct daemon *d)
{
	const struct reload_parts rp = { .conf = &d->conf,
		.relay = d->o->probe == AGENT_RELAY,
		.control = d->control, .targets = d->targets,
		.store = d->store, .past = d->past };
	struct commands_parts cp = { .o = d->o, .control = d->control,
		.targets = d->targets, .store = d->store,
		.otlp = d->otlp, .started = d->started };

	if (d->o->check)
		return 0;
	cp.reload = d->reload = reload_new(&rp);
	d->commands = d->reload != NULL ? commands_new(d->base, &cp) : NULL;
	return d->commands != NULL ? 0 : complain("out of memory");
}

/*
 * A start that fails says why to whoever started it, and leaves nothing behind.
 * A service's words nobody may have read: its database stays, and has them.
 */
static void
tell_failed(struct daemon *d)
{
	char why[512];
	struct kp_buf clean;

	log_last_error(why, sizeof(why));
	kp_buf_init(&clean, 16 * sizeof(why));
	text_put(&clean, why);
	kp_store_failed(d->store, kp_buf_cstr(&clean), notify_is_wanted());
	kp_buf_free(&clean);
}

/* What the database could not take, it cannot tell of either. */
static void
close_store(struct daemon *d)
{
	uint64_t lost;

	if (d->store == NULL)
		return;
	if (!d->began)
		tell_failed(d);
	/* what its last batches came upon is logged too */
	kp_store_stop(d->store);
	store_health_watch(&d->watch, d->store);
	lost = kp_store_close(d->store);
	if (lost > 0)
		log_warn("store", NULL, "the database has not got the last %"
		    PRIu64 " rows of this run: they could not be written",
		    lost);
}

/* All is in the database. */
static void
close_otlp(struct daemon *d)
{
	uint64_t left = otlp_finish(d->otlp);

	if (left > 0)
		log_warn("otlp", NULL, "the last %" PRIu64 " slow requests "
		    "were not sent to the collector", left);
}

static void
daemon_close(struct daemon *d)
{
	d->began |= d->targets != NULL && targets_began(d->targets);
	/* they read the store, and ask the control socket */
	web_stop(d->web);
	otlp_stop(d->otlp);
	if (d->targets != NULL)
		targets_drain(d->targets);
	control_close(d->control);
	close_store(d);
	close_otlp(d);
	totals_free(d->totals);
	dump_file_close(d->tables, d->began);
	deferred_free(d->past);
	targets_free(d->targets);
	reload_free(d->reload);
	commands_free(d->commands);
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
	if (o->check && o->ntargets == 0 && o->target_file == NULL &&
	    o->seed == NULL) {
		conf_file_summary(&d.conf);
		conf_file_free(&d.conf);
		return 0;
	}
	if (d.conf.conf->messages && o->probe == AGENT_RELAY) {
		conf_file_free(&d.conf);
		return complain(conf_file_messages);
	}
	if (open_events(&d) != 0 || open_outputs(&d) != 0 ||
	    open_targets(&d) != 0 || open_commands(&d) != 0 ||
	    !targets_start(d.targets, d.commands, d.reload)) {
		daemon_close(&d);
		return 1;
	}
	/* Targets that failed at once have asked for the end already. */
	if (!d.over)
		event_base_dispatch(d.base);
	d.began = d.status == 0;	/* told to end before: no failure */
	daemon_close(&d);
	return d.status;
}
