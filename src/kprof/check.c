/* check.c - kprof check FILE: is this tiers.conf good?  Needs no target. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kprof.h"
#include "report/diag.h"
#include "report/json.h"
#include "report/text.h"

/* The whole file, or NULL; what is wrong with it has been said. */
static char *
read_file(const char *path, size_t *n)
{
	bool in = strcmp(path, "-") == 0;
	FILE *f = in ? stdin : fopen(path, "re");
	char *p = NULL;

	if (f == NULL) {
		say("cannot open '%s': %s", path, strerror(errno));
		return NULL;
	}
	/* one byte more than allowed tells a larger file */
	p = malloc(KP_CONF_SIZE_MAX + 1);
	if (p == NULL) {
		say("out of memory");
		goto out;
	}
	*n = fread(p, 1, KP_CONF_SIZE_MAX + 1, f);
	if (ferror(f))
		say("cannot read '%s': %s", path, strerror(errno));
	else if (*n > KP_CONF_SIZE_MAX)
		say("'%s' is larger than %u bytes: it cannot be a tiers.conf",
		    path, KP_CONF_SIZE_MAX);
	else
		goto out;
	free(p);
	p = NULL;
out:
	if (!in)
		fclose(f);
	return p;
}

static size_t
functions(const struct kp_conf *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->ntiers; i++)
		n += c->tiers[i].nfns;
	return n;
}

static const char *
sampling_text(char *buf, size_t n, const struct kp_sampling *s)
{
	if (s->kind == KP_SAMPLE_ALL)
		snprintf(buf, n, "every request");
	else if (s->kind == KP_SAMPLE_ONE_IN)
		snprintf(buf, n, "one request in %" PRIu32, s->n);
	else
		snprintf(buf, n, "%" PRIu32 " requests a second at most",
		    s->n);
	return buf;
}

static void
put_summary(struct kp_buf *b, const char *file, const struct kp_conf *c)
{
	size_t fns = functions(c), entries = c->nentries;
	char text[64];

	text_put(b, file);
	kp_buf_printf(b, ": ok: %zu tier%s, %zu function pattern%s, ",
	    c->ntiers, c->ntiers == 1 ? "" : "s", fns, fns == 1 ? "" : "s");
	if (entries > 0)
		kp_buf_printf(b, "%zu %s", entries,
		    entries == 1 ? "entry" : "entries");
	else
		kp_buf_str(b, "entries are the first tier's");
	kp_buf_printf(b, "; sampling: %s\n",
	    sampling_text(text, sizeof(text), &c->sampling));
}

static void
put_json(struct kp_buf *b, const char *file, const struct kp_conf *c,
    const struct kp_diags *diags)
{
	char text[64];
	struct json j;

	json_begin(&j, b);
	json_object(&j, NULL);
	json_string(&j, "file", file);
	json_bool(&j, "ok", c != NULL);
	json_uint(&j, "errors", diags->errors);
	json_array(&j, "diags");
	for (size_t i = 0; i < diags->n; i++) {
		json_object(&j, NULL);
		json_uint(&j, "line", diags->v[i].pos.line);
		json_uint(&j, "col", diags->v[i].pos.col);
		json_string(&j, "kind",
		    diags->v[i].warning ? "warning" : "error");
		json_string(&j, "text", diags->v[i].text);
		json_end(&j);
	}
	json_end(&j);
	if (c != NULL) {
		json_array(&j, "tiers");
		for (size_t i = 0; i < c->ntiers; i++)
			json_string(&j, NULL, c->tiers[i].name);
		json_end(&j);
		json_uint(&j, "functions", functions(c));
		json_uint(&j, "entries", c->nentries);
		json_string(&j, "sampling",
		    sampling_text(text, sizeof(text), &c->sampling));
	}
	json_end(&j);
	kp_buf_u8(b, '\n');
}

static int
check(const char *file, const char *src, size_t n, bool json)
{
	struct kp_conf *conf = NULL;
	struct kp_diags diags;
	struct kp_buf b;
	enum kp_err err;
	int st;

	err = kp_conf_parse(&conf, src, n, &diags);
	kp_buf_init(&b, OUTPUT_MAX);
	if (!json)
		diag_print(stderr, file, src, n, &diags);
	if (json)
		put_json(&b, file, err == KP_OK ? conf : NULL, &diags);
	else if (err == KP_OK)
		put_summary(&b, file, conf);
	else if (diags.n == 0)
		say("cannot check '%s': %s", file, kp_err_str(err));
	st = show(&b);
	kp_diags_free(&diags);
	if (err != KP_OK)
		return EXIT_FAILED;
	kp_conf_free(conf);
	return st;
}

int
cmd_check(const struct cmd *cmd, int argc, char **argv)
{
	bool json = false;
	const struct opt opts[] = { OPT_JSON(json) };
	const char *file;
	size_t n;
	char *src;
	int st;

	st = opts_parse(cmd, opts, 1, argc, argv, &file);
	if (st != OPTS_GO_ON)
		return st;
	src = read_file(file, &n);
	if (src == NULL)
		return EXIT_FAILED;
	st = check(file, src, n, json);
	free(src);
	return st;
}
