/* cmd_web.c - kprof web: serves the dashboard of a database. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <event2/event.h>

#include "client.h"
#include "web/web.h"

/* Gives libevent's messages the form of our own. */
static void
on_libevent(int severity, const char *text)
{
	if (severity != EVENT_LOG_DEBUG)
		say("libevent: %s", text);
}

/* A file that is not a database is reported now, not on the page. */
static int
serve(const struct place *p, struct web_opts *o)
{
	struct kp_query_files dbs = place_dbs(p);
	struct kp_query *q;
	char why[512], *path = NULL;
	struct web *w;
	sigset_t end;
	enum kp_err err;
	int sig;

	if (open_db(&q, p) != KP_OK)
		return EXIT_FAILED;
	kp_query_close(q);
	if (asprintf(&path, "%s.sock", dbs.v[0]) < 0)
		return EXIT_FAILED;
	o->dbs = dbs;
	/* several databases: there is no daemon that speaks for all */
	o->control = p->control != NULL ? p->control : dbs.n > 1 ? "" : path;
	signal(SIGPIPE, SIG_IGN);
	event_set_log_callback(on_libevent);
	sigemptyset(&end);
	sigaddset(&end, SIGINT);
	sigaddset(&end, SIGTERM);
	sigaddset(&end, SIGHUP);
	sigprocmask(SIG_BLOCK, &end, NULL);
	err = web_start(&w, o, why, sizeof(why));
	if (err == KP_OK) {
		printf("dashboard at %s\n", web_url(w));
		fflush(stdout);
		sigwait(&end, &sig);
		web_stop(w);
	} else {
		say("%s", why);
	}
	free(path);
	return err == KP_OK ? EXIT_DONE : EXIT_FAILED;
}

int
cmd_web(const struct cmd *cmd, int argc, char **argv)
{
	struct place p = { .control = NULL };
	struct web_opts o = { .addr = WEB_ADDR_DEFAULT };
	const struct opt opts[] = {
		{ "http", "ADDR:PORT", "where (default " WEB_ADDR_DEFAULT ")",
		    opt_text, &o.addr, NULL },
		WEB_OPTIONS(o),
		OPT_DB(p),
		OPT_CONTROL(p),
	};
	int st = opts_parse(cmd, OPTS(opts), argc, argv, NULL);
	const char *wrong = web_opts_wrong(&o);

	if (st != OPTS_GO_ON)
		return st;
	return wrong != NULL ? opts_wrong(cmd, "%s", wrong) : serve(&p, &o);
}
