/* keys.c - see the header. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <termios.h>
#include <unistd.h>

#include "keys.h"
#include "kprof.h"

#define LINE_MAX_BYTES 64u

static const char *const words[] = { [KEYS_PAUSE] = "pause",
	[KEYS_CONTINUE] = "continue", [KEYS_RESTART] = "restart",
	[KEYS_SHOW] = "show", [KEYS_END] = "end" };

static struct {
	int poll;		/* of `wake` and standard input */
	bool lines, listens;
	bool too_long;		/* the line that is read */
	bool ended, told;	/* standard input; and it was said */
	char typed[LINE_MAX_BYTES];
	size_t n;
	struct termios before;
} keys = { .poll = -1 };

bool
keys_possible(void)
{
	return isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static void
give_back(void)
{
	tcsetattr(STDIN_FILENO, TCSANOW, &keys.before);
}

/*
 * Keys as they are pressed, unseen; ^C stays a signal.  One that was stopped
 * or left a core behind would leave the terminal like that.
 */
static bool
take_terminal(void)
{
	struct termios raw;

	if (tcgetattr(STDIN_FILENO, &keys.before) != 0)
		return false;
	raw = keys.before;
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

	return epoll_ctl(keys.poll, EPOLL_CTL_ADD, fd, &ev) == 0;
}

int
keys_open(int wake, bool lines)
{
	keys.lines = lines;
	keys.poll = epoll_create1(EPOLL_CLOEXEC);
	if (keys.poll < 0 || !listen_to(wake)) {
		say("cannot wait for signals: %s", strerror(errno));
		return -1;
	}
	if (!listen_to(STDIN_FILENO)) {
		say("standard input cannot be waited for (a file?): give a "
		    "pipe or a terminal");
		return -1;
	}
	keys.listens = true;
	if (!lines && !take_terminal()) {
		say("the terminal does not let us: %s", strerror(errno));
		return -1;
	}
	return keys.poll;
}

void
keys_listen(bool yes)
{
	if (keys.poll < 0 || keys.ended || keys.listens == yes)
		return;
	if (yes)
		listen_to(STDIN_FILENO);
	else
		epoll_ctl(keys.poll, EPOLL_CTL_DEL, STDIN_FILENO, NULL);
	keys.listens = yes;
}

/* The line without its end; KEYS_NONE: it is no word, which was said. */
static enum keys_word
word_of(const char *line)
{
	for (int i = 0; i < KEYS_NONE; i++)
		if (strcmp(line, words[i]) == 0)
			return (enum keys_word)i;
	say("'%s' is none of pause, continue, restart, show, end", line);
	return KEYS_NONE;
}

/* The next one that we know; KEYS_NONE: none is whole. */
static enum keys_word
take_line(void)
{
	enum keys_word word = KEYS_NONE;
	char *end;

	while (word == KEYS_NONE &&
	    (end = memchr(keys.typed, '\n', keys.n)) != NULL) {
		*end++ = '\0';
		if (!keys.too_long)
			word = word_of(keys.typed);
		keys.too_long = false;
		keys.n -= (size_t)(end - keys.typed);
		memmove(keys.typed, end, keys.n);
	}
	if (keys.n == sizeof(keys.typed)) {
		keys.too_long = true;
		keys.n = 0;
	}
	return word;
}

static enum keys_word
take_key(void)
{
	enum keys_word word = KEYS_NONE;

	for (; keys.n > 0 && word == KEYS_NONE; keys.n--) {
		for (int i = 0; i < KEYS_NONE; i++)
			if (keys.typed[0] == words[i][0])
				word = (enum keys_word)i;
		if (keys.typed[0] == 'q')
			word = KEYS_END;
		memmove(keys.typed, keys.typed + 1, keys.n - 1);
	}
	return word;
}

/* False: nothing has come. */
static bool
fill(void)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	ssize_t n;

	if (keys.ended || poll(&p, 1, 0) <= 0)
		return false;
	n = read(STDIN_FILENO, keys.typed + keys.n,
	    sizeof(keys.typed) - keys.n);
	if (n > 0) {
		keys.n += (size_t)n;
		return true;
	}
	if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
		keys_listen(false);
		keys.ended = true;
	}
	return n < 0 && !keys.ended;
}

enum keys_word
keys_next(void)
{
	enum keys_word word;

	if (keys.poll < 0 || keys.told)
		return KEYS_NONE;
	do {
		word = keys.lines ? take_line() : take_key();
	} while (word == KEYS_NONE && fill());
	if (word == KEYS_NONE && keys.ended) {
		keys.told = true;
		word = KEYS_END;
	}
	return word;
}
