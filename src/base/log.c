/* log.c - lines on stderr; see the header. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

static struct {
	const char *name;
	bool verbose;
} config = { "kprofd", false };

void
log_init(const char *name, bool verbose)
{
	config.name = name;
	config.verbose = verbose;
}

/*
 * Texts come from targets too: nothing but one line of them gets out, and
 * nothing that a terminal obeys (C0, DEL, and in UTF-8 C1).
 */
static void
log_line(const char *level, const char *fmt, va_list ap, const char *more)
{
	char text[2048];

	vsnprintf(text, sizeof(text), fmt, ap);
	for (unsigned char *p = (unsigned char *)text; *p != '\0'; p++)
		if (*p < 0x20 || *p == 0x7F)
			*p = ' ';
		else if (*p == 0xC2 && p[1] >= 0x80 && p[1] < 0xA0)
			p[0] = p[1] = ' ';
	fprintf(stderr, "%s: %s%s%s%s\n", config.name, level, text,
	    more != NULL ? ": " : "", more != NULL ? more : "");
}

void
log_info(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_line("", fmt, ap, NULL);
	va_end(ap);
}

void
log_warn(const char *fmt, ...)
{
	const char *why = strerror(errno);
	va_list ap;

	va_start(ap, fmt);
	log_line("warning: ", fmt, ap, why);
	va_end(ap);
}

void
log_warnx(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_line("warning: ", fmt, ap, NULL);
	va_end(ap);
}

void
log_debug(const char *fmt, ...)
{
	va_list ap;

	if (!config.verbose)
		return;
	va_start(ap, fmt);
	log_line("", fmt, ap, NULL);
	va_end(ap);
}
