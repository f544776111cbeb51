/* main.c - kprofd: parses the options, proposes tiers, runs the daemon. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "client/terminal.h"
#include "daemon/daemon.h"
#include "daemon/log.h"
#include "kprofd/nodes.h"
#include "text/file_why.h"

/*
 * In the child.  It ends with us: a kprofd that is killed leaves nothing.  It asks
 * nothing, since we do.
 */
static void
run_suggest(const struct options *o, const char *file)
{
	char path[4096];
	struct reach_args reach;
	const char *argv[16 + REACH_ARGS_MAX] = { "kprof", "suggest",
		"-target", o->targets[0], "-o", file };
	size_t n = 6;
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (null >= 0)
		dup2(null, STDIN_FILENO);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	signal(SIGINT, SIG_DFL);
	reach_args(&reach, &o->reach);
	memcpy(argv + n, reach.v, reach.n * sizeof(*argv));
	n += reach.n;
	if (o->library_given) {
		argv[n++] = "-probe-library";
		argv[n++] = o->probe_library;
	}
	if (o->probe_send)
		argv[n++] = "-probe-send";
	if (o->quiet)
		argv[n++] = "-quiet";
	execvp(self_program(path, sizeof(path), "kprof"), (char **)(uintptr_t)argv);
	fprintf(stderr, "kprofd: cannot run kprof, which proposes tiers: %s\n",
	    strerror(errno));
	_exit(1);
}

/* Ctrl-C is the child's, which takes back what it has set. */
static int
suggest(const struct options *o, const char *file)
{
	pid_t pid;
	int st = 0;

	signal(SIGINT, SIG_IGN);
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		run_suggest(o, file);
	while (pid > 0 && waitpid(pid, &st, 0) < 0 && errno == EINTR)
		;
	signal(SIGINT, SIG_DFL);
	return pid > 0 && WIFEXITED(st) ? WEXITSTATUS(st) : 1;
}

static void
show(const char *file)
{
	char bytes[4096];
	size_t n;
	FILE *f = fopen(file, "re");

	if (f == NULL)
		return;
	while ((n = fread(bytes, 1, sizeof(bytes), f)) > 0)
		fwrite(bytes, 1, n, stdout);
	fclose(f);
	fflush(stdout);
}

/* One key answers; Ctrl-C is a no. */
static bool
answer_is_yes(void)
{
	char key;

	if (!terminal_take(TERMINAL_QUESTION))
		return false;
	fprintf(stderr, "kprofd: profile with these tiers? [y/N] ");
	key = terminal_key(NULL, -1);
	terminal_give_back();
	fputc('\n', stderr);
	return key == 'y' || key == 'Y';
}

/*
 * Without -tiers: has kprof suggest write NODE.tiers.conf, shows it, and asks whether to
 * profile with it.  True: o->tiers is that file, and kprofd goes on.  Else *status is
 * what to exit with; why was printed.
 */
static bool
propose(struct options *o, int *status)
{
	static char file[KP_NODE_NAME_MAX + 16];
	char node[KP_NODE_NAME_MAX + 1];

	snprintf(file, sizeof(file), "%s.tiers.conf",
	    kp_node_bare(o->targets[0], node));
	*status = 1;
	if (access(file, F_OK) == 0) {
		fprintf(stderr, "kprofd: no -tiers given, and '%s' is there "
		    "already: use it (-tiers %s), or have another one written "
		    "(kprof suggest -target %s -o FILE)\n", file, file,
		    o->targets[0]);
		return false;
	}
	*status = suggest(o, file);
	if (*status != 0)
		return false;
	show(file);
	o->tiers = file;
	if (o->proposed || answer_is_yes())
		return true;
	fprintf(stderr, "kprofd: nothing is profiled; later: kprofd -tiers %s "
	    "-target %s\n", file, o->targets[0]);
	return false;
}

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
