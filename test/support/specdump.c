/*
 * specdump.c - writes one match spec that kprofd would arm, as an external
 * term, to standard output; for tests on real nodes (spec_check.erl).
 *
 *   specdump tier|untested|entry|clear FILE MODULE FUNCTION ARITY
 *       [ONE_IN [exact]]
 *
 * untested: a tier whose tokens are not tested, as for kprof trace.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/config.h"
#include "kprofd/etf.h"
#include "kprofd/label.h"

#define SPEC_BYTES_MAX (8u << 20)
#define LABEL_CONST (UINT64_C(0x2AB) << KP_LABEL_CONST_SHIFT)	/* any; the test knows it */

static char *
file_read(const char *path, size_t *n)
{
	char *s = malloc(KP_CONF_SIZE_MAX);
	FILE *f = fopen(path, "rb");

	if (s == NULL || f == NULL) {
		perror(path);
		exit(1);
	}
	*n = fread(s, 1, KP_CONF_SIZE_MAX, f);
	fclose(f);
	return s;
}

int
main(int argc, char **argv)
{
	struct kp_spec_params p = { .one_in = 1, .label_const = LABEL_CONST };
	struct kp_conf *c;
	struct kp_diags d;
	struct kp_buf out;
	struct kp_mfa f;
	enum kp_err err;
	size_t n;
	char *src;

	if (argc < 6) {
		fprintf(stderr, "usage: specdump tier|untested|entry|clear "
		    "FILE MODULE FUNCTION ARITY [ONE_IN [exact]]\n");
		return 2;
	}
	src = file_read(argv[2], &n);
	f = (struct kp_mfa){ argv[3], argv[4],
		(uint32_t)strtoul(argv[5], NULL, 10) };
	if (argc > 6)
		p.one_in = (uint32_t)strtoul(argv[6], NULL, 10);
	p.exact = argc > 7 && strcmp(argv[7], "exact") == 0;
	p.trace = strcmp(argv[1], "untested") == 0;
	err = kp_conf_parse(&c, src, n, &d);
	for (size_t i = 0; i < d.n; i++)
		fprintf(stderr, "%s:%u:%u: %s%s\n", argv[2], d.v[i].pos.line,
		    d.v[i].pos.col, d.v[i].warning ? "warning: " : "",
		    d.v[i].text);
	kp_diags_free(&d);
	free(src);
	if (err != KP_OK)
		return 1;
	kp_buf_init(&out, SPEC_BYTES_MAX);
	kp_etf_version(&out);
	if (strcmp(argv[1], "clear") == 0)
		err = kp_spec_clear(c, &out);
	else
		err = (strcmp(argv[1], "entry") == 0 ? kp_spec_entry :
		    kp_spec_tier)(c, &f, &p, &out);
	if (err == KP_OK)
		fwrite(out.p, 1, out.len, stdout);
	else
		fprintf(stderr, "specdump: %s\n", kp_err_str(err));
	kp_buf_free(&out);
	kp_conf_free(c);
	return err != KP_OK;
}
