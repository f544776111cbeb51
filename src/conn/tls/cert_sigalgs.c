/*
 * cert_sigalgs.c - announces the signatures that certificates may have, and finds
 * certificates with others.
 *
 * Source: RFC 8446, 4.2.3.  A chain is checked with TLS 1.3 only, as OTP's ssl does; the
 * signature of the CA that is trusted does not matter.
 */
#include <stdlib.h>
#include <string.h>

#include "conn/tls/cert_sigalgs.h"

#define SIGALGS_CERT 50		/* the number of the extension */

/* A scheme, and the same as a pair of TLS 1.2. */
static const struct scheme {
	const char *name, *pair;
	uint16_t code;
	int hash, key;		/* as X509_get_signature_info() tells them */
} schemes[] = {
	{ "rsa_pkcs1_sha1", "RSA+SHA1", 0x0201, NID_sha1, NID_rsaEncryption },
	{ "ecdsa_sha1", "ECDSA+SHA1", 0x0203, NID_sha1,
	    NID_X9_62_id_ecPublicKey },
	{ "", "RSA+SHA224", 0x0301, NID_sha224, NID_rsaEncryption },
	{ "", "ECDSA+SHA224", 0x0303, NID_sha224, NID_X9_62_id_ecPublicKey },
	{ "rsa_pkcs1_sha256", "RSA+SHA256", 0x0401, NID_sha256,
	    NID_rsaEncryption },
	{ "ecdsa_secp256r1_sha256", "ECDSA+SHA256", 0x0403, NID_sha256,
	    NID_X9_62_id_ecPublicKey },
	{ "rsa_pkcs1_sha384", "RSA+SHA384", 0x0501, NID_sha384,
	    NID_rsaEncryption },
	{ "ecdsa_secp384r1_sha384", "ECDSA+SHA384", 0x0503, NID_sha384,
	    NID_X9_62_id_ecPublicKey },
	{ "rsa_pkcs1_sha512", "RSA+SHA512", 0x0601, NID_sha512,
	    NID_rsaEncryption },
	{ "ecdsa_secp521r1_sha512", "ECDSA+SHA512", 0x0603, NID_sha512,
	    NID_X9_62_id_ecPublicKey },
	{ "rsa_pss_rsae_sha256", "RSA-PSS+SHA256", 0x0804, NID_sha256,
	    NID_rsassaPss },
	{ "rsa_pss_rsae_sha384", "RSA-PSS+SHA384", 0x0805, NID_sha384,
	    NID_rsassaPss },
	{ "rsa_pss_rsae_sha512", "RSA-PSS+SHA512", 0x0806, NID_sha512,
	    NID_rsassaPss },
	{ "ed25519", "", 0x0807, NID_undef, NID_ED25519 },
	{ "ed448", "", 0x0808, NID_undef, NID_ED448 },
	{ "rsa_pss_pss_sha256", "", 0x0809, NID_sha256, NID_rsassaPss },
	{ "rsa_pss_pss_sha384", "", 0x080a, NID_sha384, NID_rsassaPss },
	{ "rsa_pss_pss_sha512", "", 0x080b, NID_sha512, NID_rsassaPss },
};

#define NSCHEMES (sizeof(schemes) / sizeof(schemes[0]))

_Static_assert(NSCHEMES <= 32, "a bit for each");

static uint32_t
bit_of(const char *name)
{
	for (size_t i = 0; i < NSCHEMES; i++)
		if (strcmp(name, schemes[i].name) == 0 ||
		    strcmp(name, schemes[i].pair) == 0)
			return UINT32_C(1) << i;
	return 0;
}

static uint32_t
announced(const SSL_CTX *ctx)
{
	return (uint32_t)(uintptr_t)SSL_CTX_get_app_data(ctx);
}

/* ---- the extension: a length, and the codes; two bytes each ---- */

static int
on_add(SSL *ssl, unsigned ext, unsigned context, const unsigned char **out,
    size_t *len, X509 *x, size_t at, int *alert, void *arg)
{
	uint32_t set = announced(SSL_get_SSL_CTX(ssl));
	unsigned char *to = malloc(2 + 2 * NSCHEMES);
	size_t n = 2;

	(void)ext, (void)context, (void)x, (void)at, (void)arg;
	if (to == NULL) {
		*alert = SSL_AD_INTERNAL_ERROR;
		return -1;
	}
	for (size_t i = 0; i < NSCHEMES; i++)
		if ((set >> i & 1) != 0) {
			to[n++] = (unsigned char)(schemes[i].code >> 8);
			to[n++] = (unsigned char)schemes[i].code;
		}
	to[0] = 0;
	to[1] = (unsigned char)(n - 2);
	*out = to;
	*len = n;
	return 1;
}

static void
on_added(SSL *ssl, unsigned ext, unsigned context, const unsigned char *out,
    void *arg)
{
	(void)ssl, (void)ext, (void)context, (void)arg;
	free((void *)(uintptr_t)out);
}

bool
cert_sigalgs_use(SSL_CTX *ctx, const char *names)
{
	char *list = strdup(names), *one, *rest = NULL;
	uint32_t set = 0;

	for (one = list != NULL ? strtok_r(list, ":", &rest) : NULL; one != NULL;
	    one = strtok_r(NULL, ":", &rest))
		set |= bit_of(one);
	free(list);
	return set != 0 &&
	    SSL_CTX_set_app_data(ctx, (void *)(uintptr_t)set) == 1 &&
	    SSL_CTX_add_custom_ext(ctx, SIGALGS_CERT, SSL_EXT_CLIENT_HELLO,
		on_add, on_added, NULL, NULL, NULL) == 1;
}

/* ---- the node's certificates ---- */

static bool
is_one_of(X509 *x, uint32_t set)
{
	int hash, key;

	if (X509_get_signature_info(x, &hash, &key, NULL, NULL) != 1)
		return false;
	for (size_t i = 0; i < NSCHEMES; i++)
		if ((set >> i & 1) != 0 && schemes[i].hash == hash &&
		    schemes[i].key == key)
			return true;
	return false;
}

X509 *
cert_sigalgs_other(SSL *ssl, int *depth)
{
	uint32_t set = announced(SSL_get_SSL_CTX(ssl));
	STACK_OF(X509) *chain = SSL_get0_verified_chain(ssl);

	if (set == 0 || SSL_version(ssl) < TLS1_3_VERSION)
		return NULL;
	for (*depth = 0; *depth + 1 < sk_X509_num(chain); ++*depth)
		if (!is_one_of(sk_X509_value(chain, *depth), set))
			return sk_X509_value(chain, *depth);
	return NULL;
}
