/*
 * pty_run.c - runs a program on a pseudo-terminal and looks at its screen.
 *
 *	pty_run WIDTH HEIGHT PROGRAM ARGS... <script
 *
 * The script, a line each:
 *	see TEXT	wait till it stands on the screen
 *	gone TEXT	till it does not
 *	key KEYS	press them; \e is ESC, \t tab
 *	size W H	another size
 *	signal N	send it
 *	print		the screen, on standard output
 *	stopped		wait till it has stopped itself, as at ^Z; the terminal has
 *			to be as it was
 *	exit N...	wait till it has ended, with one of these (128 and the
 *			signal's number); and the terminal has to be as it was:
 *			its modes, the cursor, the other screen, on which
 *			nothing may be drawn once it was left
 *
 * Of ECMA-48 it knows what kprof top may send, and fails on anything else;
 * and on a line that is longer than the screen is wide, or one too many.  After `size`
 * the frame that is being written, and the next, may be of a size before.
 * What is waited for has 60 s to come.
 */
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <utmp.h>

#define ROWS_MAX 300
#define BYTES_MAX 4096		/* of a row */
#define WAIT_S 60

static struct {
	char row[ROWS_MAX][BYTES_MAX];
	unsigned width, height, y;
	unsigned widest, highest;	/* that a frame may be */
	unsigned late;		/* frames that may be of a size before */
	size_t x;		/* bytes */
	bool alternate, hidden, nowrap;
	bool entered;		/* the alternate screen, once */
	char esc[32];		/* a sequence that is not whole yet */
	size_t nesc;
} screen;

static int master = -1;
static pid_t child;
static unsigned line;		/* of the script */
static struct termios before;

static void show(FILE *to);

static void
die(const char *why, const char *what)
{
	fprintf(stderr, "pty_run: line %u: %s %s\n", line, why, what);
	show(stderr);
	if (child > 0)
		kill(child, SIGKILL);
	exit(1);
}

static void
show(FILE *to)
{
	for (unsigned y = 0; y < screen.height; y++)
		fprintf(to, "|%s\n", screen.row[y]);
}

/* Characters, each taken for a column: wide ones are not in these tests. */
static size_t
columns(const char *s)
{
	size_t n = 0;

	for (; *s != '\0'; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static void
put_byte(char c)
{
	char *row = screen.row[screen.y];

	if (screen.entered && !screen.alternate)
		die("drawn on the screen of others", "");
	if (c == '\r') {
		screen.x = 0;
	} else if (c == '\n') {
		if (++screen.y >= screen.highest && screen.alternate)
			die("a line below the screen", "");
		screen.y %= ROWS_MAX;
	} else if (screen.x + 1 < BYTES_MAX) {
		if (strlen(row) <= screen.x)
			row[screen.x + 1] = '\0';
		row[screen.x++] = c;
		if (screen.alternate && columns(row) > screen.widest)
			die("too wide:", row);
	}
}

static void
clear(void)
{
	for (unsigned y = 0; y < ROWS_MAX; y++)
		screen.row[y][0] = '\0';
}

/* One whole sequence; its first two bytes are ESC [. */
static void
obey(const char *s)
{
	if (strcmp(s, "\x1b[H") == 0) {
		screen.x = screen.y = 0;
		if (screen.late > 0 && --screen.late == 0) {
			screen.widest = screen.width;
			screen.highest = screen.height;
		}
	} else if (strcmp(s, "\x1b[K") == 0) {
		screen.row[screen.y][screen.x] = '\0';
	} else if (strcmp(s, "\x1b[2J") == 0) {
		clear();
	} else if (strcmp(s, "\x1b[?1049h") == 0 ||
	    strcmp(s, "\x1b[?1049l") == 0) {
		if (screen.alternate == (s[strlen(s) - 1] == 'h'))
			die("entered or left twice", "");
		screen.alternate = !screen.alternate;
		screen.entered = true;
		clear();	/* what is on the other one is not known */
	} else if (strcmp(s, "\x1b[?25l") == 0 ||
	    strcmp(s, "\x1b[?25h") == 0) {
		screen.hidden = s[strlen(s) - 1] == 'l';
	} else if (strcmp(s, "\x1b[?7l") == 0 || strcmp(s, "\x1b[?7h") == 0) {
		screen.nowrap = s[strlen(s) - 1] == 'l';
	} else if (strcmp(s, "\x1b[m") != 0 && strcmp(s, "\x1b[7m") != 0) {
		die("a sequence that is not known:", s + 1);
	}
}

static void
take_byte(char c)
{
	if (screen.nesc == 0 && c != '\x1b') {
		put_byte(c);
		return;
	}
	if (screen.nesc + 1 >= sizeof(screen.esc))
		die("a sequence without an end", "");
	screen.esc[screen.nesc++] = c;
	screen.esc[screen.nesc] = '\0';
	if (screen.nesc > 2 && isalpha((unsigned char)c)) {
		screen.nesc = 0;
		obey(screen.esc);
	}
}

/* What has come within so many ms; false: no more will. */
static bool
take_output(int ms)
{
	struct pollfd pfd = { .fd = master, .events = POLLIN };
	char buf[4096];
	ssize_t n;

	if (poll(&pfd, 1, ms) <= 0)
		return true;
	n = read(master, buf, sizeof(buf));
	for (ssize_t i = 0; i < n; i++)
		take_byte(buf[i]);
	return n > 0;
}

static bool
on_screen(const char *text)
{
	for (unsigned y = 0; y < screen.height; y++) {
		if (strstr(screen.row[y], text) != NULL)
			return true;
	}
	return false;
}

static void
wait_for(const char *text, bool there)
{
	time_t end = time(NULL) + WAIT_S;

	while (on_screen(text) != there) {
		if (time(NULL) > end || (!take_output(100) &&
		    on_screen(text) != there))
			die(there ? "did not come:" : "did not go:", text);
	}
}

static void
press(const char *keys)
{
	char c;

	for (; *keys != '\0'; keys++) {
		c = *keys;
		if (c == '\\' && keys[1] == 'e')
			c = '\x1b';
		else if (c == '\\' && keys[1] == 't')
			c = '\t';
		keys += c != *keys;
		if (write(master, &c, 1) != 1)
			die("cannot press", keys);
	}
}

static void
resize(const char *size)
{
	struct winsize ws = { 0 };

	if (sscanf(size, "%u %u", &screen.width, &screen.height) != 2 ||
	    screen.height >= ROWS_MAX)
		die("no size:", size);
	screen.late = 2;
	if (screen.width > screen.widest)
		screen.widest = screen.width;
	if (screen.height > screen.highest)
		screen.highest = screen.height;
	ws.ws_col = (unsigned short)screen.width;
	ws.ws_row = (unsigned short)screen.height;
	ioctl(master, TIOCSWINSZ, &ws);
}

/* Till it has stopped or ended; the rest of what it has written is taken. */
static int
wait_status(int options, const char *why)
{
	time_t end = time(NULL) + WAIT_S;
	struct pollfd pfd = { .fd = master, .events = POLLIN };
	int st = 0;

	while (waitpid(child, &st, WNOHANG | options) == 0) {
		if (time(NULL) > end)
			die(why, "");
		take_output(100);
	}
	while (poll(&pfd, 1, 50) > 0 && take_output(0) && time(NULL) < end)
		;
	return st;
}

static void
check_left(void)
{
	struct termios now;

	if (screen.alternate || screen.hidden || screen.nowrap)
		die("left the screen", screen.alternate ? "changed" :
		    "without cursor or wrapping");
	if (tcgetattr(master, &now) != 0 || now.c_lflag != before.c_lflag ||
	    now.c_iflag != before.c_iflag)
		die("left the terminal's modes changed", "");
}

static void
wait_stopped(void)
{
	int st = wait_status(WUNTRACED, "does not stop");

	if (!WIFSTOPPED(st))
		die("did not stop, but ended", "");
	check_left();
}

static void
wait_exit(char *wanted)
{
	int st = wait_status(0, "does not end");
	char text[64], *save, *one;

	child = 0;
	snprintf(text, sizeof(text), "%d", WIFEXITED(st) ? WEXITSTATUS(st) :
	    128 + WTERMSIG(st));
	one = strtok_r(wanted, " ", &save);
	while (one != NULL && strcmp(one, text) != 0)
		one = strtok_r(NULL, " ", &save);
	if (one == NULL)
		die("ended with", text);
	check_left();
}

static void
step(char *text)
{
	char *arg = text + strcspn(text, " ");

	if (*arg == ' ')
		*arg++ = '\0';
	if (strcmp(text, "see") == 0)
		wait_for(arg, true);
	else if (strcmp(text, "gone") == 0)
		wait_for(arg, false);
	else if (strcmp(text, "key") == 0)
		press(arg);
	else if (strcmp(text, "size") == 0)
		resize(arg);
	else if (strcmp(text, "signal") == 0)
		kill(child, atoi(arg));
	else if (strcmp(text, "stopped") == 0)
		wait_stopped();
	else if (strcmp(text, "print") == 0)
		show(stdout);
	else if (strcmp(text, "exit") == 0)
		wait_exit(arg);
	else if (*text != '\0' && *text != '#')
		die("what is", text);
}

int
main(int argc, char **argv)
{
	struct winsize ws = { 0 };
	char text[1024];
	int slave;

	if (argc < 4) {
		fprintf(stderr, "usage: pty_run WIDTH HEIGHT PROGRAM ARGS...\n");
		return 2;
	}
	screen.width = (unsigned)atoi(argv[1]);
	screen.height = (unsigned)atoi(argv[2]);
	screen.widest = screen.width;
	screen.highest = screen.height;
	ws.ws_col = (unsigned short)screen.width;
	ws.ws_row = (unsigned short)screen.height;
	/* the other end stays open here: its modes can be read at the end */
	if (openpty(&master, &slave, NULL, NULL, &ws) != 0 ||
	    tcgetattr(slave, &before) != 0) {
		perror("openpty");
		return 1;
	}
	child = fork();
	if (child == 0) {
		close(master);
		login_tty(slave);
		setenv("TERM", "xterm", 1);
		execv(argv[3], argv + 3);
		_exit(127);
	}
	while (fgets(text, sizeof(text), stdin) != NULL) {
		line++;
		text[strcspn(text, "\n")] = '\0';
		step(text);
	}
	if (child > 0)
		die("the script has no exit", "");
	return 0;
}
