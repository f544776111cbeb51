/* main.c - kprof: the table of commands; runs one, and exits with its status. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "client.h"
#include "conn/reach.h"

#define FUNCTIONS_MORE "FUNCTION is mod:fun/2, mod:fun/_, mod, " \
	"MyApp.Repo.all/2, or _ for all modules; several add up.  Ends " \
	"after -for, with Ctrl-C, or when the call of -apply has returned, " \
	"and takes everything back."
/* One of three commands that share their options. */
#define COUNT(name, help) \
	{ name, "FUNCTION", help, "count, time and memory have the same " \
	    "options: count shows how often each function is called, time also " \
	    "the time in it, memory also the words that it allocates (not by " \
	    "request).\n" FUNCTIONS_MORE "\nKeys, with -every on a terminal: p " \
	    "pause, c continue, r restart, s show, q end.", \
	    "kprof " name " -target app@host -for 2s -by process lists", \
	    cmd_count }

/* A heading of -h. */
#define CMD_GROUP(title) { .name = "", .help = title }

static const struct cmd cmds[] = {
	CMD_GROUP("The time of requests"),
	{ "report", NULL, "show where the time of requests goes, by type and "
	    "tier", "A range is made of whole windows: those that "
	    "start in it.\nkprof report -since 1h -versus -2h,-1h compares the "
	    "last hour with the one before.",
	    "kprof report -since 30m -identity 'GET *' -percentiles",
	    cmd_report },
	{ "top", NULL, "watch where the time goes, live", "On a terminal: h "
	    "lists its keys, q ends it.  Elsewhere the same as text, once.",
	    "kprof top -db /var/lib/kprofd/kprofd.db", cmd_top },
	{ "slow", NULL, "list slow requests", "",
	    "kprof slow -since 2026-11-21T10:00 -n 5", cmd_slow },
	{ "tree", "ID", "show the trace of one slow request, call by call",
	    "kprof slow lists the IDs.\nkprof tree new -json | PROGRAM has PROGRAM "
	    "read each one that is stored from now on, in a line.", "kprof tree 42",
	    cmd_tree },
	{ "web", NULL, "serve the dashboard of a database", "It serves "
	    "until Ctrl-C, and asks a running daemon for what it does now.  "
	    "kprofd -http serves the same.",
	    "kprof web -db /var/lib/kprofd/kprofd.db", cmd_web },
	CMD_GROUP("The daemon"),
	{ "status", NULL, "show how the daemon is doing",
	    "It shows every target.  When no daemon answers, it shows what is in "
	    "its database, and ends with 1.",
	    "kprof status -db /var/lib/kprofd/kprofd.db", cmd_status },
	{ "flight", NULL, "list the oldest requests in flight, and where they "
	    "are", "", "kprof flight -node 'app@*' -stacks", cmd_ctl },
	{ "mark", "TEXT", "write an event with this text, such as a deploy", "The "
	    "event is kprofd's own, or with -node one of each of these targets; "
	    "the page draws it in the charts.  It is in the database when the "
	    "command ends.",
	    "kprof mark 'deploy of 1.4.2'", cmd_ctl },
	{ "pause", NULL, "stop measuring; the daemon stays attached", "",
	    "kprof pause -node 'app@*'", cmd_ctl },
	{ "resume", NULL, "measure again after a pause or an overload", "",
	    "kprof resume", cmd_ctl },
	{ "reload", NULL, "have the daemon read tiers.conf and its file of "
	    "targets again",
	    "If the file has a mistake, it is shown, and nothing changes.",
	    "kprof check tiers.conf && kprof reload", cmd_ctl },
	{ "dump", NULL, "write the running window to the database now", "",
	    "kprof dump && kprof report -since 1m", cmd_ctl },
	CMD_GROUP("A first tiers.conf"),
	{ "suggest", NULL, "propose a tiers.conf for a node", "In the node, for "
	    "about 30 s while it has requests to do, it samples stacks "
	    "(1 % of a scheduler), counts calls of at most some 8 000 functions, "
	    "and traces 500 requests twice.\nThe file says what it is made of, and has "
	    "passed kprof check.",
	    "kprof suggest -target app@host -o app.conf", cmd_suggest },
	CMD_GROUP("Functions of a node, without kprofd"),
	{ "stacks", NULL, "sample where a node's processes work and wait, with no "
	    "trace", "It takes at most 0.5 % of one scheduler (-share), and "
	    "goes with any kprofd or tracer there.  States are average numbers "
	    "of processes.",
	    "kprof stacks -target app@host -for 2s", cmd_stacks },
	COUNT("count", "count a node's calls of functions"),
	COUNT("time", "measure a node's time in functions, callees not included"),
	COUNT("memory", "count the words that functions allocate (OTP 26 or later)"),
	{ "trace", "FUNCTION", "trace a node's calls of functions, as fprof "
	    "does", FUNCTIONS_MORE "\nWith -entry it ends after -requests N, "
	    "which may cross several -target.\n"
	    "No argument and no value leaves the node, except the value of "
	    "-apply, and arguments with -args.",
	    "kprof trace -target app@host -apply 'lists:seq(1, 9)' "
	    "lists", cmd_trace },
	{ "analyse", "FILE", "show a trace that was kept",
	    "FILE is that of kprof trace -o.",
	    "kprof trace -target app@host -apply 'lists:seq(1, 9)' \\\n"
	    "    -o a.trace -quiet lists && \\\n"
	    "    kprof analyse -form analysis a.trace",
	    cmd_analyse },
	{ "diff", "BEFORE NOW", "compare what count, time or memory kept",
	    "The files are those of -o, what -csv printed, or databases of "
	    "-db: the last profile in it, or with FILE#3 the third.  Of one "
	    "database alone: the last two of a kind.",
	    "kprof time -target app@host -for 2s -o a.csv lists && \\\n"
	    "    kprof diff a.csv a.csv", cmd_diff },
	CMD_GROUP("Files and clean-up"),
	{ "check", "FILE", "check a tiers.conf, alone or against a node", "FILE - is "
	    "standard input.",
	    "kprof check tiers.conf && kprof check tiers.conf -target app@host",
	    cmd_check },
	{ "merge", "OUT IN...", "put databases of many machines into one",
	    "OUT is created, or added to; what it has of them already is not "
	    "taken again.\nIf the merge fails, OUT is as it was.",
	    "kprof merge all.db kprofd.db && kprof report -db all.db",
	    cmd_merge },
	{ "clear-tokens", NULL, "take all sequential trace tokens on the "
	    "targets away", "Also those of an application's own seq_trace.  "
	    "It stops the whole node: 212 to 281 ms with 300,000 processes.  "
	    "Tokens that are too old are taken without this.",
	    "kprof clear-tokens -target app@host", cmd_clear_tokens },
};
#define NCMDS (sizeof(cmds) / sizeof(cmds[0]))

static void
help(FILE *to)
{
	fprintf(to, "usage: kprof COMMAND [options]\n");
	for (size_t i = 0; i < NCMDS; i++)
		if (cmds[i].run == NULL)
			fprintf(to, "\n%s:\n", cmds[i].help);
		else
			fprintf(to, "  %s%s%-*s %s\n", cmds[i].name,
			    cmds[i].arg != NULL ? " " : "",
			    (int)(16 - strlen(cmds[i].name) -
			    (cmds[i].arg != NULL)),
			    cmds[i].arg != NULL ? cmds[i].arg : "",
			    cmds[i].help);
	fprintf(to, "\nkprof help COMMAND, or kprof COMMAND -h, shows its "
	    "options and an example;\nkprof help connection, how a node is "
	    "reached; kprof -version, the version.\n");
}

static int
unknown(const char *name)
{
	const char *near = near_name(name, &cmds[0].name, NCMDS,
	    sizeof(cmds[0]), NEAR_RULE);

	if (name[0] == '-')
		say("the command comes first, and options behind it: kprof COMMAND "
		    "%s ... (see kprof -h)", name);
	else if (near != NULL)
		say("unknown command '%s': did you mean '%s'? (see kprof -h)",
		    name, near);
	else
		say("unknown command '%s' (see kprof -h)", name);
	return EXIT_USAGE;
}

static int
run(int argc, char **argv)
{
	for (size_t i = 0; i < NCMDS; i++)
		if (cmds[i].run != NULL && strcmp(argv[0], cmds[i].name) == 0)
			return cmds[i].run(&cmds[i], argc, argv);
	return unknown(argv[0]);
}

static int
help_connection(void)
{
	static struct reach unused;
	static const struct opt table[] = { REACH_OPTIONS(unused) };
	struct kp_buf b;

	kp_buf_init(&b, OUTPUT_MAX);
	kp_buf_str(&b, "How kprofd, and the commands of kprof that take "
	    "-target, reach a node.\n\n");
	opt_help(&b, table, sizeof(table) / sizeof(table[0]));
	kp_buf_str(&b, "\nREACHING A NODE in kprofd(8) has which of them goes "
	    "before which.\n\n"
	    "example: kprof stacks -target app@host:4370 -cookie-file cookie "
	    "-for 2s\n");
	return show(&b);
}

/* kprof help, kprof help COMMAND, or kprof help connection. */
static int
help_about(int argc, char **argv)
{
	char *with_h[] = { argv[1], (char *)"-h", NULL };

	if (argc > 1 && strcmp(argv[1], "connection") == 0)
		return help_connection();
	if (argc > 1)
		return run(2, with_h);
	help(stdout);
	return EXIT_DONE;
}

int
main(int argc, char **argv)
{
	/* so that a file at its size limit fails write(2) instead */
	signal(SIGXFSZ, SIG_IGN);
	if (argc < 2) {
		help(stderr);
		return EXIT_USAGE;
	}
	if (opt_is(argv[1], "h") || opt_is(argv[1], "help") ||
	    strcmp(argv[1], "help") == 0)
		return help_about(argc - 1, argv + 1);
	if (opt_is(argv[1], "version")) {
		printf("kprof %s\n", KP_VERSION);
		return EXIT_DONE;
	}
	return run(argc - 1, argv + 1);
}
