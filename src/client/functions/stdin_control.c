/*
 * stdin_control.c - sets up the terminal, and reads keys or lines without
 * blocking.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <termios.h>
#include <unistd.h>

#include "client/client.h"
#include "stdin_control.h"

#define LINE_MAX_BYTES 64u

static const char *const texts[] = { [STDIN_PAUSE] = "pause",
	[STDIN_CONTINUE] = "continue", [STDIN_RESTART] = "restart",
	[STDIN_SHOW] = "show", [STDIN_END] = "end" };

static struct {
	int poll;		/* epoll of `wake` and standard input */
	bool lines, listens;
	bool too_long;		/* the current line */
	bool ended;		/* standard input has */
	bool reported;		/* that, as STDIN_END */
	char typed[LINE_MAX_BYTES];
	size_t n;
	struct termios before;
} input = { .poll = -1 };

bool
stdin_control_possible(void)
{
	return isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static void
give_back(void)
{
	tcsetattr(STDIN_FILENO, TCSANOW, &input.before);
}

/*
 * Gets keys as they are pressed, without echo.  Ctrl-C stays a signal; Ctrl-Z and
 * Ctrl-\ are off, since they would leave the terminal in this state.
 */
static bool
take_terminal(void)
{
	struct termios raw;

	if (tcgetattr(STDIN_FILENO, &input.before) != 0)
		return false;
	raw = input.before;
	raw.c_lflag &= (tcflag_t)~(ICANON | ECHO);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	raw.c_cc[VSUSP] = raw.c_cc[VQUIT] = _POSIX_VDISABLE;
	atexit(give_back);
	return tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

static bool
listen_to(int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return epoll_ctl(input.poll, EPOLL_CTL_ADD, fd, &ev) == 0;
}

int
stdin_control_open(int wake, bool lines)
{
	input.lines = lines;
	input.poll = epoll_create1(EPOLL_CLOEXEC);
	if (input.poll < 0 || !listen_to(wake)) {
		say("cannot wait for signals: %s", strerror(errno));
		return -1;
	}
	if (!listen_to(STDIN_FILENO)) {
		say("standard input cannot be waited for (a file?): give a "
		    "pipe or a terminal");
		return -1;
	}
	input.listens = true;
	if (!lines && !take_terminal()) {
		say("the terminal does not let us: %s", strerror(errno));
		return -1;
	}
	return input.poll;
}

void
stdin_control_listen(bool yes)
{
	if (input.poll < 0 || input.ended || input.listens == yes)
		return;
	if (yes)
		listen_to(STDIN_FILENO);
	else
		epoll_ctl(input.poll, EPOLL_CTL_DEL, STDIN_FILENO, NULL);
	input.listens = yes;
}

/* STDIN_NONE after printing that the line is not a command. */
static enum stdin_command
command_of(const char *line)
{
	for (int i = 0; i < STDIN_NONE; i++)
		if (strcmp(line, texts[i]) == 0)
			return (enum stdin_command)i;
	say("'%s' is none of pause, continue, restart, show, end", line);
	return STDIN_NONE;
}

/* The next command; STDIN_NONE: there is no complete line with one. */
static enum stdin_command
take_line(void)
{
	enum stdin_command command = STDIN_NONE;
	char *end;

	while (command == STDIN_NONE &&
	    (end = memchr(input.typed, '\n', input.n)) != NULL) {
		*end++ = '\0';
		if (!input.too_long)
			command = command_of(input.typed);
		input.too_long = false;
		input.n -= (size_t)(end - input.typed);
		memmove(input.typed, end, input.n);
	}
	if (input.n == sizeof(input.typed)) {
		input.too_long = true;
		input.n = 0;
	}
	return command;
}

static enum stdin_command
take_key(void)
{
	enum stdin_command command = STDIN_NONE;

	for (; input.n > 0 && command == STDIN_NONE; input.n--) {
		for (int i = 0; i < STDIN_NONE; i++)
			if (input.typed[0] == texts[i][0])
				command = (enum stdin_command)i;
		if (input.typed[0] == 'q')
			command = STDIN_END;
		memmove(input.typed, input.typed + 1, input.n - 1);
	}
	return command;
}

/* False if no input has come. */
static bool
fill(void)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	ssize_t n;

	if (input.ended || poll(&p, 1, 0) <= 0)
		return false;
	n = read(STDIN_FILENO, input.typed + input.n,
	    sizeof(input.typed) - input.n);
	if (n > 0) {
		input.n += (size_t)n;
		return true;
	}
	if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
		stdin_control_listen(false);
		input.ended = true;
	}
	return n < 0 && !input.ended;
}

enum stdin_command
stdin_control_next(void)
{
	enum stdin_command command;

	if (input.poll < 0 || input.reported)
		return STDIN_NONE;
	do {
		command = input.lines ? take_line() : take_key();
	} while (command == STDIN_NONE && fill());
	if (command == STDIN_NONE && input.ended) {
		input.reported = true;
		command = STDIN_END;
	}
	return command;
}
