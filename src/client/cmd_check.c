/* cmd_check.c - kprof check FILE: checks a tiers.conf, without a target. */
#include <stdio.h>
#include <stdlib.h>

#include "client.h"
#include "config/tiers_file.h"
#include "text/json.h"

static void
put_json(struct kp_buf *b, const char *file, const struct kp_conf *c,
    const struct kp_diags *diags)
{
	char text[64];
	struct json j;

	json_open(&j, b);
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
		json_uint(&j, "functions", kp_conf_functions(c));
		json_uint(&j, "entries", c->nentries);
		json_string(&j, "sampling",
		    tiers_file_sampling(text, sizeof(text), &c->sampling));
	}
	json_close(&j);
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
		tiers_file_summary(&b, file, conf);
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
	char why[300], *src;
	const char *file;
	size_t n;
	int st;

	st = opts_parse(cmd, OPTS(opts), argc, argv, &file);
	if (st != OPTS_GO_ON)
		return st;
	src = tiers_file_read(file, &n, why, sizeof(why));
	if (src == NULL) {
		say("%s", why);
		return EXIT_FAILED;
	}
	st = check(file, src, n, json);
	free(src);
	return st;
}
