/* main.c - kprofd: parses the options, proposes tiers, runs the daemon. */
#include <signal.h>

#include <openssl/ssl.h>

#include "daemon/daemon.h"
#include "daemon/log.h"
#include "daemon/propose/propose.h"

int
main(int argc, char **argv)
{
	struct log_opts log = { .name = "kprofd" };
	struct options o;
	int status;

	/*
	 * Before libcurl starts it, and without its handler at exit: a thread may be
	 * connecting to a node then, and would use what that frees.
	 */
	OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL);
	switch (options_parse(&o, argc, argv)) {
	case 0:
		break;
	case 1:
		return 0;
	default:
		return 2;
	}
	if (o.propose && !propose(&o, &status))
		return status;
	log.file = o.log_file;
	log.json = o.log_json;
	log.least = o.quiet ? LOG_LEVEL_WARNING : o.verbose ?
	    LOG_LEVEL_DEBUG : LOG_LEVEL_INFO;
	if (!log_open(&log))
		return 1;
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);	/* write(2) fails with EFBIG instead */
	log_libevent();
	status = daemon_run(&o);
	log_close();
	return status;
}
