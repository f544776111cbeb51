/*
 * daemon.c - owns and wires the parts: targets, store, control socket, timers
 * and signals.
 *
 * There is one libevent loop; the store's writer thread reports to it through
 * event_active().  kprofd always ends the same way: stop the targets, wait until
 * they have, close the last windows, close the store.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <event2/event.h>
#include <event2/thread.h>

#include "daemon/check/check.h"
#include "daemon/conf_file.h"
#include "daemon/control/commands.h"
#include "daemon/control/control.h"
#include "daemon/control/in_flight.h"
#include "daemon/control/reload.h"
#include "daemon/control/traces.h"
#include "daemon/daemon.h"
#include "daemon/health.h"
#include "daemon/log.h"
#include "daemon/nodes/targets.h"
#include "daemon/progress.h"
#include "export/totals.h"
#include "kprofd/fn_name.h"
#include "report/report.h"
#include "stats/boundary.h"
#include "text/file_why.h"
#include "text/text.h"
#include "web/web.h"

#define TABLE_MAX (4u << 20)	/* bytes of one window's table */
#define CALL_BYTES 4096		/* names are bounded: longer ones are cut */
#define PRINT_CALLS_A_SECOND 100

/* Limits -print-calls to what a person can read. */
struct print_limit {
	kp_mono_ns second;	/* its start */
	unsigned printed;	/* in it */
	uint64_t left_out;
};

/* That of -dump-file, to which every closed window is appended. */
struct dump_file {
	const char *path;	/* borrowed */
	bool json, failed;
	bool made;		/* the file did not exist before */
};

struct daemon {
	struct parts p;
	struct event_base *base;
	struct store_health store_health;
	struct push_health push_health[PUSH_TO];
	struct dump_file *dump;		/* NULL: no -dump-file */
	struct event *window, *end, *signals[3];
	struct boundary boundary;	/* of windows */
	struct print_limit printing;
	struct progress progress;
	uint64_t requests;		/* of all targets */
	uint64_t warnings;		/* about tiers.conf and the targets */
	bool over;			/* the targets have ended */
	bool began;			/* the start did not fail */
	bool terminal;			/* SIGHUP may mean that it has gone */
	int status;
	bool unreached;		/* -duration ended before a target was attached */
};

/* ---- -dump-file ---- */

/* It is opened for every window, so that it may be rotated. */
static void
append(struct dump_file *t, const struct kp_buf *b)
{
	FILE *f = log_append_to(t->path, 0666);
	char why[FILE_WHY_MAX];
	bool ok = f != NULL;

	if (f != NULL) {
		ok = fwrite(b->p, 1, b->len, f) == b->len;
		ok = fclose(f) == 0 && ok;
	}
	if (!ok && !t->failed)
		log_warn("dump_file", NULL, "cannot write to '%s': %s",
		    t->path, file_why(why, t->path, errno));
	t->failed = !ok;
}

/* NULL: the reason was logged. */
static struct dump_file *
dump_file_open(const char *path, bool json)
{
	struct dump_file *t = calloc(1, sizeof(*t));
	char why[FILE_WHY_MAX];
	FILE *f;

	if (t == NULL)
		return NULL;
	*t = (struct dump_file){ .path = path, .json = json,
		.made = access(path, F_OK) != 0 };
	f = log_append_to(path, 0666);
	if (f == NULL) {
		log_error("dump_file", NULL, "cannot write to '%s': %s (see "
		    "-dump-file)", path, file_why(why, path, errno));
		free(t);
		return NULL;
	}
	fclose(f);
	return t;
}

/* conf: the configuration by which the window was measured. */
static void
dump_file_window(struct dump_file *t, const struct kp_window *w,
    const struct kp_conf *conf)
{
	struct report_opts opts = { .what = REPORT_SELF };
	struct report *r;
	struct kp_buf b;

	if (report_from_window(w, conf, &r) != KP_OK)
		return;
	kp_buf_init(&b, TABLE_MAX);
	if (t->json) {
		report_json(&b, r);
	} else {
		report_sort(r, NULL, opts.what);
		report_table(&b, r, &opts);
		kp_buf_u8(&b, '\n');
	}
	if (b.err == KP_OK)
		append(t, &b);
	kp_buf_free(&b);
	report_free(r);
}

/* ---- -print-calls ---- */

/* Appends a name that comes from a target, padded to the width. */
static void
put_name(struct kp_buf *b, const char *name, size_t width)
{
	size_t start = b->len, w;

	text_put(b, name);
	kp_buf_cstr(b);
	w = b->err == KP_OK ? text_width((const char *)b->p + start) : 0;
	for (; w < width; w++)
		kp_buf_u8(b, ' ');
	kp_buf_u8(b, ' ');
}

static void
print_call(const struct kp_requests *rs, const struct kp_request *rq,
    const struct kp_call *c, kp_dur_ns offset, const char *const *nodes)
{
	kp_wall_ns start = c->start + offset;
	time_t s = (time_t)(start / KP_NS_PER_S);
	char pid[48], fn[FN_NAME_MAX], clock[32];
	struct kp_buf b;
	struct tm tm;

	kp_buf_init(&b, CALL_BYTES);
	localtime_r(&s, &tm);
	strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	kp_buf_printf(&b, "%s.%06d  ", clock,
	    (int)(start % KP_NS_PER_S / 1000));
	put_name(&b, kp_requests_identity(rs, rq->identity), 16);
	put_name(&b, fn_shown(fn, sizeof(fn),
	    kp_requests_fn(rs, c->fn)->text), 32);
	if (kp_outcome_timed(c->outcome))
		kp_buf_printf(&b, "%11.3f ms",
		    (double)(c->end - c->start) / 1e6);
	else
		kp_buf_printf(&b, "%14s", "-");
	kp_buf_printf(&b, "  %-12s %s%s",
	    kp_proc_text(c->proc, pid, sizeof(pid)),
	    kp_outcome_name(c->outcome), c->async ? " async" : "");
	if (nodes != NULL)
		kp_buf_printf(&b, "  %s", nodes[c->node]);
	kp_buf_u8(&b, '\n');
	fputs(kp_buf_cstr(&b), stdout);
	kp_buf_free(&b);
}

/*
 * Prints a line for each call; offset: target time + offset = wall time.  nodes:
 * their names, to be shown; NULL: there is only one.
 */
static void
print_request(struct print_limit *l, const struct kp_requests *rs,
    const struct kp_request *rq, kp_dur_ns offset, const char *const *nodes,
    kp_mono_ns now)
{
	if (now - l->second >= KP_NS_PER_S) {
		if (l->left_out > 0)
			printf("... %llu calls not printed\n",
			    (unsigned long long)l->left_out);
		*l = (struct print_limit){ .second = now };
		fflush(stdout);
	}
	for (uint32_t i = 0; i < rq->ncalls; i++) {
		if (l->printed == PRINT_CALLS_A_SECOND) {
			l->left_out += rq->ncalls - i;
			return;
		}
		l->printed++;
		print_call(rs, rq, &rq->calls[i], offset, nodes);
	}
}

/* ---- ending ---- */

static void
daemon_stop(struct daemon *d)
{
	if (targets_stopping(d->p.targets)) {
		/* asked twice: the agents clean up without kprofd */
		event_base_loopbreak(d->base);
		return;
	}
	notify_stopping();
	targets_stop(d->p.targets);
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
 * Reopens the log file and reloads tiers.conf.  Without a log file it ends
 * kprofd, if there is a terminal, which has gone then.
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
	if (d->p.reload != NULL && !targets_stopping(d->p.targets))
		reload_ask(d->p.reload, NULL);
}

/* -duration is over: a profile that measured nothing says what it waited for. */
static void
on_end(evutil_socket_t fd, short what, void *ctx)
{
	struct daemon *d = ctx;

	(void)fd, (void)what;
	if (targets_stopping(d->p.targets))
		return;		/* for another reason */
	d->unreached = !targets_reached(d->p.targets);
	daemon_stop(d);
}

void
daemon_on_over(struct daemon *d, int status)
{
	d->over = true;
	d->status = status;
	event_base_loopbreak(d->base);
}

/* ---- targets ---- */

void
daemon_on_request(struct target *t, const struct kp_request *rq)
{
	struct daemon *d = t->p->daemon;

	if (t->check != NULL)
		check_request(t->check, rq);
	if (d->p.o->print_calls)
		print_request(&d->printing, t->run.conf_run->rs, rq,
		    t->hello.time_offset, targets_several(d->p.targets) ?
		    t->run.conf_run->names : NULL, kp_mono_now());
	if (++d->requests == d->p.o->requests)
		event_active(d->end, EV_TIMEOUT, 0);
}

void
daemon_on_plan(struct target *t, const struct kp_plan *plan)
{
	if (t->check != NULL)
		check_counted(t->check, plan);
	else
		log_debug("plan", t->node, "arming %zu functions", plan->n);
}

void
daemon_on_warning(struct target *t)
{
	t->p->daemon->warnings++;
}

void
daemon_on_diags(struct target *t, const struct kp_diags *diags)
{
	struct daemon *d = t->p->daemon;

	d->warnings += kp_diags_warnings(diags);
	t->unfit |= d->p.o->check && diags->errors > 0;
	conf_file_diags(&d->p.conf, diags, targets_node_name(t), NULL);
}

void
daemon_on_state(struct target *t, enum agent_state s, const char *text)
{
	struct daemon *d = t->p->daemon;
	char armed[64];

	if (t->check != NULL) {
		check_state(t->check, s);
		return;
	}
	if (s == AGENT_ARMED) {
		notify_ready();
		progress_armed(&d->progress, t);
	}
	if (targets_several(d->p.targets)) {
		snprintf(armed, sizeof(armed), "%u of %u armed",
		    targets_armed(d->p.targets), targets_count(d->p.targets));
		notify_status(armed, "");
	} else {
		notify_status(agent_state_name(s), text);
	}
	if (d->p.traces != NULL)
		traces_on_state(d->p.traces, t, s);
	if (d->p.commands != NULL)
		commands_on_state(d->p.commands, t, s, text);
}

void
daemon_on_tick(struct daemon *d)
{
	if (!d->p.o->check)
		progress_tick(&d->progress, &d->p);
}

void
daemon_on_window(struct target *t, const struct kp_window *w)
{
	struct daemon *d = t->p->daemon;

	if (t->check == NULL)
		progress_window(&d->progress, t, w);
	if (d->dump != NULL)
		dump_file_window(d->dump, w, t->run.conf_run->conf);
}

/* ---- windows ---- */

kp_dur_ns
daemon_window_left(const struct daemon *d)
{
	return boundary_left(&d->boundary, kp_moment_now());
}

/* The timer may fire early: then it is set again for the rest. */
static void
window_schedule(struct daemon *d)
{
	kp_dur_ns left = boundary_left(&d->boundary, kp_moment_now()) +
	    KP_NS_PER_US - 1;
	struct timeval tv = { left / KP_NS_PER_S,
		left % KP_NS_PER_S / KP_NS_PER_US };

	event_add(d->window, &tv);
}

static void
on_window_end(evutil_socket_t fd, short what, void *ctx)
{
	struct daemon *d = ctx;
	struct kp_moment end;
	kp_dur_ns set;
	char text[200];

	(void)fd, (void)what;
	if (boundary_reached(&d->boundary, kp_moment_now(), &end, &set)) {
		/* first: what became of the last window */
		store_health_check(&d->store_health, d->p.store);
		push_health_check(d->push_health, d->p.push);
		/* recorded: windows before and after it have times of two clocks */
		if (set != 0) {
			snprintf(text, sizeof(text), "the clock was set %s by "
			    "%.0f s: windows that had begun end by the old "
			    "time", set < 0 ? "back" : "forward",
			    (double)(set < 0 ? -set : set) / 1e9);
			log_warn("clock", NULL, "%s", text);
			targets_record(d->p.targets, "clock", text);
		}
		for (unsigned i = 0; i < targets_count(d->p.targets); i++)
			target_rotate(targets_at(d->p.targets, i), end);
		deferred_tick(d->p.deferred);
	}
	window_schedule(d);
}

/* ---- starting ---- */

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

static void
on_kept(void *ctx, const struct kp_tree *t)
{
	totals_kept(ctx, t);
}

static int
open_store(struct daemon *d)
{
	const struct options *o = d->p.o;
	bool exported = o->web.addr != NULL || o->push_url[PUSH_OTLP] != NULL ||
	    o->push_url[PUSH_OTLP_PROFILES] != NULL;
	struct kp_store_opts so = { .path = o->db, .version = KP_VERSION,
		.tiers_text = d->p.conf.text, .conf = d->p.conf.conf,
		.interval = o->interval, .retain = o->retain,
		.max_bytes = o->max_db,
		.on_written = exported ? on_written : NULL,
		.on_kept = exported ? on_kept : NULL };
	const char *remote;
	char *why = NULL;

	if (exported && (d->p.totals = totals_new()) == NULL)
		return complain("out of memory");
	if (exported)
		totals_slo(d->p.totals, d->p.conf.conf->slo, d->p.conf.conf->nslo);
	so.written_ctx = d->p.totals;
	remote = file_remote(o->db);
	if (remote != NULL)
		log_warn("store", NULL, "'%s' is on %s: SQLite's log works on one host "
		    "alone, and locks may fail there; choose a local directory with "
		    "-db", o->db, remote);
	if (kp_store_open(&d->p.store, &so, &why) != KP_OK) {
		complain(why != NULL ? why : "out of memory");
		free(why);
		return 1;
	}
	return 0;
}

static int
open_signals(struct daemon *d)
{
	static const struct {
		int signal;
		event_callback_fn fn;
	} all[] = { { SIGINT, on_signal }, { SIGTERM, on_signal },
		{ SIGHUP, on_hangup } };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		d->signals[i] = evsignal_new(d->base, all[i].signal,
		    all[i].fn, d);
		if (d->signals[i] == NULL)
			return complain("out of memory");
		evsignal_add(d->signals[i], NULL);
	}
	return 0;
}

static int
open_events(struct daemon *d)
{
	kp_dur_ns duration = d->p.o->duration;
	struct timeval tv = { duration / KP_NS_PER_S,
		duration % KP_NS_PER_S / KP_NS_PER_US };

	if (evthread_use_pthreads() != 0 ||
	    (d->base = event_base_new()) == NULL)
		return complain("cannot start libevent");
	d->window = event_new(d->base, -1, 0, on_window_end, d);
	d->end = event_new(d->base, -1, 0, on_end, d);
	if (d->window == NULL || d->end == NULL)
		return complain("out of memory");
	if (duration > 0 && !d->p.o->check)
		event_add(d->end, &tv);
	return open_signals(d);
}

static int
open_web(struct daemon *d)
{
	struct web_opts wo = d->p.o->web;
	char why[512];

	if (wo.addr == NULL)
		return 0;
	wo.dbs = (struct kp_query_files){ &d->p.o->db, 1 };
	wo.control = d->p.o->control_path;
	wo.totals = d->p.totals;
	if (web_start(&d->p.web, &wo, why, sizeof(why)) != KP_OK)
		return complain(why);
	log_info("http", NULL, "dashboard at %s", web_url(d->p.web));
	return 0;
}

static int
open_push(struct daemon *d, enum push_to to, kp_wall_ns since)
{
	const struct push_opts o = { .to = to, .url = d->p.o->push_url[to],
		.header_file = d->p.o->push_header_file[to],
		.attributes = d->p.o->otlp_attributes, .db = d->p.o->db,
		.totals = d->p.totals, .since = since,
		.interval = d->p.o->interval, .retain = &d->p.o->retain };
	char why[512];

	if (o.url == NULL)
		return 0;
	if (push_start(&d->p.push[to], &o, why, sizeof(why)) != KP_OK)
		return complain(why);
	log_info(push_name(to), NULL, "%s go to %s", to == PUSH_OTLP ?
	    "slow requests and figures" : to == PUSH_PYROSCOPE ?
	    "sampled stacks for Pyroscope" : "sampled stacks in OpenTelemetry's form", o.url);
	if (to != PUSH_OTLP && d->p.conf.conf->stacks.per_second == 0)
		log_warn(push_name(to), NULL, "no stacks are sampled: add "
		    "{stacks, {per_second, 20}} to tiers.conf");
	return 0;
}

static int
open_control(struct daemon *d)
{
	char why[512];

	d->p.deferred = deferred_new(d->base, d->p.store);
	d->p.reload = reload_new(&d->p);
	d->p.checks = checks_new(d->base, &d->p);
	d->p.flights = flight_asks_new(d->base, &d->p);
	d->p.traces = traces_new(d->base, &d->p);
	d->p.commands = commands_new(&d->p);
	if (d->p.deferred == NULL || d->p.reload == NULL || d->p.checks == NULL ||
	    d->p.flights == NULL || d->p.traces == NULL ||
	    d->p.commands == NULL)
		return complain("out of memory");
	return control_open(&d->p.control, d->base, d->p.o->control_path,
	    commands_take, d->p.commands, why, sizeof(why)) == KP_OK ? 0 :
	    complain(why);
}

static int
open_outputs(struct daemon *d)
{
	const struct options *o = d->p.o;
	struct kp_moment now;

	if (o->check)
		return 0;
	/*
	 * The store comes first: only the holder of the database's lock may remove
	 * a stale control socket beside the database.
	 */
	if (open_store(d) != 0 || open_control(d) != 0)
		return 1;
	if (o->dump_file != NULL &&
	    (d->dump = dump_file_open(o->dump_file, o->dump_json)) == NULL)
		return 1;
	now = kp_moment_now();
	boundary_begin(&d->boundary, o->interval, now);
	window_schedule(d);
	if (open_web(d) != 0)
		return 1;
	for (int to = 0; to < PUSH_TO; to++)
		if (open_push(d, (enum push_to)to, now.wall) != 0)
			return 1;
	return 0;
}

static int
open_targets(struct daemon *d)
{
	char why[512];

	if (node_cookie(d->p.o->reach.cookie_file, d->p.cookie, why, sizeof(why)) !=
	    KP_OK)
		return complain(why);
	d->p.targets = targets_new(d->base, &d->p);
	return d->p.targets != NULL ? 0 : complain("out of memory");
}

/* ---- closing ---- */

static void
close_store(struct daemon *d)
{
	char n[TEXT_MAX], why[512];
	struct kp_buf clean;
	uint64_t lost;

	if (d->p.store == NULL)
		return;
	/*
	 * A start that failed leaves nothing behind.  Under a service manager, where
	 * nobody may see the message, the database stays and has it.
	 */
	if (!d->began) {
		log_last_error(why, sizeof(why));
		kp_buf_init(&clean, 16 * sizeof(why));
		text_put(&clean, why);
		kp_store_failed(d->p.store, kp_buf_cstr(&clean),
		    notify_is_wanted());
		kp_buf_free(&clean);
	}
	/* stopped first, so that errors of its last batches are logged too */
	kp_store_stop(d->p.store);
	store_health_check(&d->store_health, d->p.store);
	kp_store_status(d->p.store, &d->progress.store);
	lost = kp_store_close(d->p.store);
	if (lost > 0)
		log_warn("store", NULL, "the last of this run is not in the "
		    "database: %s could not be written",
		    text_counted(n, lost, "row"));
}

static void
daemon_close(struct daemon *d)
{
	struct event *evs[] = { d->window, d->end, d->signals[0],
		d->signals[1], d->signals[2] };
	char n[TEXT_MAX];
	uint64_t unsent;

	d->began |= d->p.targets != NULL && targets_began(d->p.targets);
	/* they read the database and use the control socket */
	web_stop(d->p.web);
	d->p.web = NULL;
	for (int to = 0; to < PUSH_TO; to++)
		push_stop(d->p.push[to]);
	if (d->p.targets != NULL)
		targets_drain(d->p.targets);
	control_close(d->p.control);
	d->p.control = NULL;
	close_store(d);
	/* all is in the database */
	for (int to = 0; to < PUSH_TO; to++) {
		unsent = push_finish(d->p.push[to]);
		if (unsent > 0)
			log_warn(push_name((enum push_to)to), NULL, "not sent at the end, and not "
			    "later: %s to %s", text_counted(n, unsent, to == PUSH_OTLP ?
			    "slow request" : "second"), d->p.o->push_url[to]);
	}
	if (d->began && !d->p.o->check)
		progress_done(&d->progress, &d->p);
	totals_free(d->p.totals);
	/* a start that failed leaves no file that it made */
	if (d->dump != NULL && d->dump->made && !d->began)
		unlink(d->dump->path);
	free(d->dump);
	deferred_free(d->p.deferred);
	targets_free(d->p.targets);
	reload_free(d->p.reload);
	checks_free(d->p.checks);
	traces_free(d->p.traces);
	commands_free(d->p.commands);
	flight_asks_free(d->p.flights);
	for (size_t i = 0; i < sizeof(evs) / sizeof(evs[0]); i++)
		if (evs[i] != NULL)
			event_free(evs[i]);
	if (d->base != NULL)
		event_base_free(d->base);
	conf_file_free(&d->p.conf);
	explicit_bzero(d->p.cookie, sizeof(d->p.cookie));
}

int
daemon_run(const struct options *o)
{
	struct daemon d = { .p = { .o = o, .daemon = &d,
		.started = kp_mono_now() },
		.progress = { .tty = isatty(STDERR_FILENO) } };
	int tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);

	d.terminal = tty >= 0;
	if (tty >= 0)
		close(tty);
	if (conf_file_load(&d.p.conf, o->tiers, NULL) != KP_OK)
		return 1;
	d.warnings = d.p.conf.warnings;
	/* a check that attaches to no target */
	if (o->check && (o->control != NULL || !options_targets(o))) {
		if (o->control != NULL) {
			d.status = check_ask(o, &d.p.conf);
		} else {
			conf_file_summary(&d.p.conf);
			check_passed(d.warnings, d.p.o->json);
		}
		conf_file_free(&d.p.conf);
		return d.status;
	}
	if (d.p.conf.conf->messages && o->probe == AGENT_RELAY) {
		conf_file_free(&d.p.conf);
		return complain(conf_file_messages);
	}
	if (open_events(&d) != 0 || open_outputs(&d) != 0 ||
	    open_targets(&d) != 0 ||
	    !targets_start(d.p.targets)) {
		daemon_close(&d);
		return 1;
	}
	/* targets that failed at once have set it already */
	if (!d.over)
		event_base_dispatch(d.base);
	d.began = d.status == 0;	/* also if it ended before it began */
	daemon_close(&d);
	if (o->check && d.status == 0)
		check_passed(d.warnings, d.p.o->json);
	/* what somebody truncated was written, and is not missing by our fault */
	return d.unreached || kp_store_dropped(&d.progress.store) >
	    d.progress.store.dropped[KP_STORE_TRUNCATED] ? 1 : d.status;
}
