/* main.c - kprofd: options in, exit status out. */
#include <signal.h>

#include "base/log.h"
#include "kprofd/daemon.h"

int
main(int argc, char **argv)
{
	struct options o;

	switch (options_parse(&o, argc, argv)) {
	case 0:
		break;
	case 1:
		return 0;
	default:
		return 2;
	}
	log_init("kprofd", o.verbose);
	signal(SIGPIPE, SIG_IGN);
	return daemon_run(&o);
}
