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

/* Texts come from targets too: nothing but one line of them gets out. */
static void
log_line(const char *level, const char *fmt, va_list ap, const char *more)
{
	char text[2048];

	vsnprintf(text, sizeof(text), fmt, ap);
	for (char *p = text; *p != '\0'; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7F)
			*p = ' ';
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
