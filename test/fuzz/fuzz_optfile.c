/*
 * fuzz_optfile.c - the options file of a node's TLS distribution, which anybody who
 * may write it wrote: what is taken is bounded text, and what is not has a reason.
 */
#include <string.h>

#include "conn/tls_optfile.h"
#include "fuzz.h"

static unsigned taken, refused;

static void
is_text(const char *s)
{
	REQUIRE(s == NULL || (s[0] != '\0' && strlen(s) <= TLS_TEXT_MAX));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tls_settings s;
	char why[512] = "";
	enum kp_err e;

	tls_settings_init(&s);
	e = tls_optfile_parse(&s, (const char *)data, size, "/f", why,
	    sizeof(why));
	REQUIRE(e == KP_OK || e == KP_EFORMAT);
	REQUIRE(s.npairs <= TLS_PAIRS_MAX);
	for (size_t i = 0; i < s.npairs; i++) {
		REQUIRE(s.pairs[i].cert != NULL);
		is_text(s.pairs[i].cert);
		is_text(s.pairs[i].key);
		is_text(s.pairs[i].password);
	}
	is_text(s.ca);
	is_text(s.sni);
	is_text(s.ciphers);
	is_text(s.groups12);
	is_text(s.groups13);
	is_text(s.sigalgs);
	REQUIRE(s.depth >= -1 && s.depth <= 255);
	if (e == KP_OK)
		REQUIRE(!s.versions || s.v12 || s.v13);
	else
		REQUIRE(strncmp(why, "/f:", 3) == 0);
	taken += e == KP_OK;
	refused += e != KP_OK;
	tls_settings_free(&s);
	return 0;
}

void
fuzz_replayed(void)
{
	REQUIRE(taken >= 4 && refused >= 4);
}
