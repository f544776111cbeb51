/*
 * tiers_file.c - reads the file or standard input, refuses what cannot be a
 * tiers.conf, and writes the summary.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/file_why.h"
#include "text/text.h"
#include "config/tiers_file.h"

/* Reads one byte more than allowed, to detect larger files, or for the NUL. */
static char *
read_all(FILE *f, const char *path, size_t *n, char *why, size_t whylen)
{
	char *p = malloc(KP_CONF_SIZE_MAX + 1), *nul;

	if (p == NULL) {
		snprintf(why, whylen, "out of memory");
		return NULL;
	}
	*n = fread(p, 1, KP_CONF_SIZE_MAX + 1, f);
	if (ferror(f)) {
		snprintf(why, whylen, "cannot read '%s': %s", path,
		    strerror(errno));
	} else if (*n > KP_CONF_SIZE_MAX) {
		snprintf(why, whylen, "'%s' is larger than %u bytes: it cannot "
		    "be a tiers.conf", path, KP_CONF_SIZE_MAX);
	} else if ((nul = memchr(p, '\0', *n)) != NULL) {
		/* Without this, a binary file would give a thousand errors. */
		snprintf(why, whylen, "'%s' is not text (byte %zu is 0): it "
		    "cannot be a tiers.conf", path, (size_t)(nul - p) + 1);
	} else {
		p[*n] = '\0';
		return p;
	}
	free(p);
	return NULL;
}

char *
tiers_file_read(const char *path, size_t *n, char *why, size_t whylen)
{
	char reason[FILE_WHY_MAX];
	bool in = strcmp(path, "-") == 0;
	FILE *f = in ? stdin : fopen(path, "re");
	char *p;

	if (f == NULL) {
		snprintf(why, whylen, "cannot open '%s': %s (name the "
		    "tiers.conf that is meant)", path,
		    file_why(reason, path, errno));
		return NULL;
	}
	p = read_all(f, path, n, why, whylen);
	if (!in)
		fclose(f);
	return p;
}

const char *
tiers_file_sampling(char *buf, size_t n, const struct kp_sampling *s)
{
	if (s->kind == KP_SAMPLE_ALL)
		snprintf(buf, n, "every request");
	else if (s->kind == KP_SAMPLE_ONE_IN)
		snprintf(buf, n, "one request in %" PRIu32, s->n);
	else
		snprintf(buf, n, "%" PRIu32 " request%s a second at most",
		    s->n, s->n == 1 ? "" : "s");
	return buf;
}

void
tiers_file_summary(struct kp_buf *b, const char *path, const struct kp_conf *c)
{
	size_t fns = kp_conf_functions(c), entries = c->nentries;
	char text[64];

	text_put(b, path);
	kp_buf_printf(b, ": ok: %zu tier%s, %zu function pattern%s, ",
	    c->ntiers, c->ntiers == 1 ? "" : "s", fns, fns == 1 ? "" : "s");
	if (entries > 0)
		kp_buf_printf(b, "%zu %s", entries,
		    entries == 1 ? "entry" : "entries");
	else
		kp_buf_str(b, "entries are the first tier's");
	kp_buf_printf(b, "; sampling: %s\n",
	    tiers_file_sampling(text, sizeof(text), &c->sampling));
}
