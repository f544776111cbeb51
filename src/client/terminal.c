/*
 * terminal.c - takes the terminal and restores it, draws frames, and turns keys
 * and signals into events.
 *
 * A signal handler writes a byte into a pipe, so that no signal between a check
 * and a wait is missed.  The second signal to end is obeyed in the handler: by
 * then the program hangs in something else.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "client/terminal.h"
#include "text/keys.h"

#define WIDTH_MIN 20u
#define WIDTH_DEFAULT 80u
#define HEIGHT_DEFAULT 24u
#define FRAME_BYTES_MAX (8u << 20)
#define QUIET_MS 50		/* after an ESC: no terminal is that slow */

/* Alternate screen; then no cursor, no wrapping at the right margin. */
#define ALTERNATE "\x1b[?1049h"
#define ENTER "\x1b[?25l\x1b[?7l\x1b[H\x1b[2J"
#define LEAVE "\x1b[m\x1b[?7h\x1b[?25h\x1b[?1049l"
#define HOME "\x1b[H"
#define CLEAR_LINE "\x1b[K"
#define REVERSE "\x1b[7m"
#define NORMAL "\x1b[m"

static const int signals[] = { SIGWINCH, SIGTSTP, SIGCONT, SIGINT, SIGTERM,
	SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU };
#define NSIGNALS (sizeof(signals) / sizeof(signals[0]))

static struct {
	bool open, taken;
	struct termios before;
	int pipe[2];			/* numbers of signals */
	uint8_t typed[KEY_BYTES_MAX];	/* not decoded yet */
	size_t ntyped;
} screen = { .pipe = { -1, -1 } };

static volatile sig_atomic_t ended;	/* signals to end, so far */

/* ---- for all commands ---- */

unsigned
screen_width(void)
{
	const char *columns = getenv("COLUMNS");
	unsigned long n = columns != NULL ? strtoul(columns, NULL, 10) : 0;
	struct winsize ws;

	if (n == 0 && isatty(STDOUT_FILENO) &&
	    ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0)
		n = ws.ws_col;
	if (n == 0 || n > 100000)
		return 0;
	return n < WIDTH_MIN ? WIDTH_MIN : (unsigned)n;
}

static int when;	/* to set the terminal: whether to forget what was typed */

void
terminal_give_back(void)
{
	tcsetattr(STDIN_FILENO, when, &screen.before);
}

bool
terminal_take(enum terminal_use use)
{
	struct termios raw;

	if (tcgetattr(STDIN_FILENO, &screen.before) != 0)
		return false;
	raw = screen.before;
	raw.c_lflag &= (tcflag_t)~(ICANON | ECHO);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	if (use == TERMINAL_QUESTION) {
		when = TCSAFLUSH;
		raw.c_lflag &= (tcflag_t)~ISIG;
	} else {
		when = TCSANOW;
		raw.c_cc[VSUSP] = raw.c_cc[VQUIT] = _POSIX_VDISABLE;
		atexit(terminal_give_back);
	}
	return tcsetattr(STDIN_FILENO, when, &raw) == 0;
}

char
terminal_key(const char *keys, int wake)
{
	struct pollfd v[2] = { { .fd = STDIN_FILENO, .events = POLLIN },
		{ .fd = wake, .events = POLLIN } };
	char key;

	do {
		while (poll(v, 2, -1) < 0)
			;
		if (v[1].revents != 0 || read(STDIN_FILENO, &key, 1) != 1)
			return '\0';
	} while (keys != NULL && (key == '\0' || strchr(keys, key) == NULL));
	return key;
}

/* ---- the screen ---- */

bool
screen_possible(void)
{
	const char *term = getenv("TERM");

	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) &&
	    term != NULL && term[0] != '\0' && strcmp(term, "dumb") != 0;
}

/* Does another job of the shell have the terminal? */
static bool
in_background(void)
{
	pid_t group = tcgetpgrp(STDIN_FILENO);

	return group >= 0 && group != getpgrp();
}

/* Called from a handler: writes only if the terminal takes it at once. */
static void
end_now(int sig)
{
	struct pollfd pfd = { .fd = STDOUT_FILENO, .events = POLLOUT };

	if (screen.taken && !in_background()) {
		tcsetattr(STDIN_FILENO, TCSANOW, &screen.before);
		if (poll(&pfd, 1, 0) == 1 &&
		    write(STDOUT_FILENO, LEAVE, strlen(LEAVE)) > 0)
			screen.taken = false;
	}
	signal(sig, SIG_DFL);
	raise(sig);		/* once the handler has returned */
}

static void
on_signal(int sig)
{
	int e = errno;
	uint8_t byte = (uint8_t)sig;

	if (sig != SIGWINCH && sig != SIGTSTP && sig != SIGCONT &&
	    ended++ > 0)
		end_now(sig);
	/* if the pipe is full, the bytes in it are enough */
	if (write(screen.pipe[1], &byte, 1) < 0)
		errno = e;
	errno = e;
}

static bool
write_all(const void *p, size_t n)
{
	struct pollfd pfd = { .fd = STDOUT_FILENO, .events = POLLOUT };
	const char *s = p;
	ssize_t w;

	while (n > 0) {
		w = write(STDOUT_FILENO, s, n);
		if (w < 0 && errno != EINTR && errno != EAGAIN)
			return false;
		if (w < 0) {
			poll(&pfd, 1, -1);
			continue;
		}
		s += w;
		n -= (size_t)w;
	}
	return true;
}

/* Keys come as they are pressed, without echo; ^C stays a signal. */
static bool
take_terminal(void)
{
	struct termios raw = screen.before;
	bool there = screen.taken;

	raw.c_lflag &= (tcflag_t)~(ICANON | ECHO | IEXTEN);
	raw.c_iflag &= (tcflag_t)~(IXON | ICRNL | INLCR | ISTRIP);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	screen.taken = true;
	/* Flushes what was typed before.  The alternate screen is entered
	   only once: entering it also saves the cursor's position. */
	return tcsetattr(STDIN_FILENO, there ? TCSADRAIN : TCSAFLUSH,
	    &raw) == 0 &&
	    (there || write_all(ALTERNATE, strlen(ALTERNATE))) &&
	    write_all(ENTER, strlen(ENTER));
}

/* Does nothing in the background: the shell has set the terminal up. */
static void
give_back(void)
{
	if (!screen.taken || in_background())
		return;
	screen.taken = false;
	write_all(LEAVE, strlen(LEAVE));
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &screen.before);
}

bool
screen_open(void)
{
	struct sigaction sa = { .sa_handler = on_signal,
		.sa_flags = SA_RESTART };

	if (tcgetattr(STDIN_FILENO, &screen.before) != 0 ||
	    pipe2(screen.pipe, O_CLOEXEC | O_NONBLOCK) != 0)
		return false;
	for (size_t i = 0; i < NSIGNALS; i++)
		sigaction(signals[i], &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
	if (!take_terminal()) {
		give_back();
		return false;
	}
	screen.open = true;
	atexit(screen_close);
	return true;
}

void
screen_close(void)
{
	if (!screen.open)
		return;
	screen.open = false;
	give_back();
}

static unsigned
bounded(unsigned n, unsigned otherwise)
{
	n = n == 0 ? otherwise : n;
	return n < SCREEN_MAX ? n : SCREEN_MAX;
}

void
screen_size(unsigned *width, unsigned *height)
{
	struct winsize ws = { 0 };

	ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws);
	*width = bounded(ws.ws_col, WIDTH_DEFAULT);
	*height = bounded(ws.ws_row, HEIGHT_DEFAULT);
}

bool
screen_draw(const char *lines)
{
	bool first = true, last, good;
	struct kp_buf b;
	size_t len;

	kp_buf_init(&b, FRAME_BYTES_MAX);
	kp_buf_str(&b, HOME);
	do {
		len = strcspn(lines, "\n");
		last = lines[len] == '\0';
		/* Clears before it writes: with the colours in force, and
		   without the last character of a line as wide as the screen. */
		kp_buf_str(&b, first || last ? REVERSE : NORMAL);
		kp_buf_str(&b, CLEAR_LINE);
		kp_buf_put(&b, lines, len);
		kp_buf_str(&b, last ? NORMAL : "\r\n");
		lines += len + !last;
		first = false;
	} while (!last);
	good = b.err == KP_OK && write_all(b.p, b.len);
	kp_buf_free(&b);
	return good;
}

/* Stops as for the shell's ^Z, also after `bg`: there is no screen then. */
static void
suspend(void)
{
	give_back();
	do
		raise(SIGSTOP);
	while (in_background() && ended == 0);
	if (ended == 0)
		take_terminal();
}

/* False: there was no signal. */
static bool
take_signal(enum screen_event *ev)
{
	uint8_t sig;

	if (read(screen.pipe[0], &sig, 1) != 1)
		return false;
	if (sig == SIGTSTP || (sig == SIGCONT && in_background()))
		suspend();
	else if (sig == SIGCONT)
		take_terminal();
	*ev = ended > 0 ? SCREEN_END : SCREEN_SIZE;
	return true;
}

/* Decodes the first key that was typed; KEY_NONE: none is complete. */
static int
take_key(bool quiet)
{
	size_t used;
	int key;

	if (screen.ntyped == 0)
		return KEY_NONE;
	key = key_decode(screen.typed, screen.ntyped, quiet, &used);
	screen.ntyped -= used;
	memmove(screen.typed, screen.typed + used, screen.ntyped);
	return key;
}

/* False: the terminal is gone. */
static bool
read_keys(short revents)
{
	ssize_t n = read(STDIN_FILENO, screen.typed + screen.ntyped,
	    sizeof(screen.typed) - screen.ntyped);

	if (n > 0)
		screen.ntyped += (size_t)n;
	if (n == 0)
		return (revents & (POLLHUP | POLLERR | POLLNVAL)) == 0;
	return n > 0 || errno == EINTR || errno == EAGAIN;
}

enum screen_event
screen_wait(kp_mono_ns deadline, int *key)
{
	struct pollfd pfd[] = {
		{ .fd = STDIN_FILENO, .events = POLLIN },
		{ .fd = screen.pipe[0], .events = POLLIN },
	};
	enum screen_event ev;
	kp_dur_ns wait;
	int ms, ready;

	for (;;) {
		*key = take_key(false);
		if (*key != KEY_NONE)
			return SCREEN_KEY;
		/* Polls even past the deadline: a refresh may take longer
		   than the interval. */
		wait = deadline - kp_mono_now();
		ms = wait > 0 ? (int)(wait / KP_NS_PER_MS) + 1 : 0;
		pfd[0].revents = 0;
		ready = poll(pfd, 2, screen.ntyped > 0 ? QUIET_MS : ms);
		if (take_signal(&ev))
			return ev;
		if (ready == 0 && screen.ntyped > 0) {
			*key = take_key(true);
			return SCREEN_KEY;
		}
		if (ready == 0 && wait <= 0)
			return SCREEN_TIME;
		if (pfd[0].revents != 0 && !read_keys(pfd[0].revents))
			return SCREEN_END;
	}
}
