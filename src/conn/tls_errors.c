/*
 * tls_errors.c - a sentence for each way in which TLS fails, with the way out.
 *
 * A certificate that we do not accept is remembered by the callback of the
 * verification; what the node does not accept comes as an alert, of which OpenSSL
 * makes an error.
 */
#include <stdio.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "conn/tls_certs.h"
#include "conn/tls_errors.h"

/* ---- certificates that we do not accept ---- */

/*
 * OTP 25 looks for a host that is an address among the names of a certificate, and
 * not among its addresses, so that the certificates of its nodes have it there.
 */
static bool
is_named_by_address(const struct tls_errors *w, X509_STORE_CTX *ctx)
{
	return X509_STORE_CTX_get_error(ctx) ==
	    X509_V_ERR_IP_ADDRESS_MISMATCH &&
	    X509_check_host(X509_STORE_CTX_get_current_cert(ctx), w->host, 0,
	    X509_CHECK_FLAG_NEVER_CHECK_SUBJECT |
	    X509_CHECK_FLAG_NO_WILDCARDS, NULL) == 1;
}

static int
on_verify(int well, X509_STORE_CTX *ctx)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(ctx,
	    SSL_get_ex_data_X509_STORE_CTX_idx());
	struct tls_errors *w = SSL_get_app_data(ssl);

	if (well || w->code != 0)
		return well;
	if (is_named_by_address(w, ctx)) {
		X509_STORE_CTX_set_error(ctx, X509_V_OK);
		return 1;
	}
	w->code = X509_STORE_CTX_get_error(ctx);
	w->bad_depth = X509_STORE_CTX_get_error_depth(ctx);
	w->bad = X509_STORE_CTX_get_current_cert(ctx);
	if (w->bad != NULL)
		X509_up_ref(w->bad);
	return 0;
}

void
tls_errors_watch(struct tls_errors *w, SSL *ssl, bool verify)
{
	SSL_set_app_data(ssl, w);
	SSL_set_verify(ssl, verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE,
	    verify ? on_verify : NULL);
}

void
tls_errors_free(struct tls_errors *w)
{
	X509_free(w->bad);
	w->bad = NULL;
}

/* "the node's certificate", or one of those that vouch for it. */
static const char *
whose(const struct tls_errors *w, char buf[CERT_NAME_MAX + 80])
{
	char name[CERT_NAME_MAX];

	if (w->bad_depth == 0 || w->bad == NULL)
		return "the node's certificate";
	snprintf(buf, CERT_NAME_MAX + 80, "the certificate of '%s', which "
	    "vouches for the node's,", cert_name(name,
	    X509_get_subject_name(w->bad)));
	return buf;
}

#define SNI "{server_name_indication, Host} for the client in an options file"

static void
say_refused(const struct tls_errors *w, char *why, size_t n)
{
	char buf[CERT_NAME_MAX + 80], name[CERT_NAME_MAX], when[CERT_TIME_MAX];
	const char *error = X509_verify_cert_error_string(w->code);
	const char *cert = whose(w, buf);

	switch (w->bad != NULL ? w->code : 0) {
	case X509_V_ERR_CERT_NOT_YET_VALID:
		snprintf(why, n, "%s is not valid before %s (is the clock of "
		    "this machine right?)", cert,
		    cert_time(when, X509_get0_notBefore(w->bad)));
		return;
	case X509_V_ERR_CERT_HAS_EXPIRED:
		snprintf(why, n, "%s expired on %s: it has to be renewed there",
		    cert, cert_time(when, X509_get0_notAfter(w->bad)));
		return;
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
		snprintf(why, n, "%s is signed by '%s', which is not in '%s' (see "
		    "-tls-ca)", cert, cert_name(name,
		    X509_get_issuer_name(w->bad)), w->ca);
		return;
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
		snprintf(why, n, "the node's certificate is signed by itself, and "
		    "not in '%s' (see -tls-ca)", w->ca);
		return;
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
		snprintf(why, n, "the CA of the node's certificate, '%s', is not "
		    "in '%s' (see -tls-ca)", cert_name(name,
		    X509_get_subject_name(w->bad)), w->ca);
		return;
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		snprintf(why, n, "the node's certificate is for %s, not for '%s' "
		    "(is that the right node? if so, name the host of its "
		    "certificate with " SNI ")", cert_hosts(name, w->bad),
		    w->host);
		return;
	case X509_V_ERR_CERT_CHAIN_TOO_LONG:
		snprintf(why, n, "there are more than %d certificates between the "
		    "node's and its CA (depth in the options file)", w->depth);
		return;
	case X509_V_ERR_INVALID_PURPOSE:
	case X509_V_ERR_INVALID_CA:
		snprintf(why, n, "%s is not made for a %s (its key usage)", cert,
		    w->bad_depth == 0 ? "TLS server" : "CA");
		return;
	case X509_V_ERR_EE_KEY_TOO_SMALL:
	case X509_V_ERR_CA_KEY_TOO_SMALL:
	case X509_V_ERR_CA_MD_TOO_WEAK:
		snprintf(why, n, "%s is too weak for OpenSSL on this machine: %s",
		    cert, error);
		return;
	default:
		snprintf(why, n, "%s cannot be verified: %s", cert, error);
	}
}

/* ---- what the node does not accept, and what is no TLS ---- */

/* Alerts about our certificate. */
static const struct alert {
	int reason;	/* of an error of SSL */
	const char *text;
} alerts[] = {
	{ SSL_R_TLSV1_ALERT_UNKNOWN_CA, "it does not know its CA" },
	{ SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, "it does not like it" },
	{ SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE, "it is of a kind that it "
	    "does not take, or not made for a client" },
	{ SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED, "it is revoked" },
	{ SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, "it expired, by the node's "
	    "clock" },
	{ SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, "it cannot verify it" },
	{ SSL_R_TLSV1_ALERT_ACCESS_DENIED, "it gives it no access" },
};

static const char *
alert_text(const struct alert *v, size_t n, int reason)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].reason == reason)
			return v[i].text;
	return NULL;
}
#define ALERT_TEXT(v, reason) alert_text(v, sizeof(v) / sizeof((v)[0]), reason)

#define NO_TLS "what answers there does not speak TLS (is it a node with " \
	"-proto_dist inet_tls?)"
#define NO_VERSION "the node and we have no version of TLS in common: kprofd " \
	"speaks 1.2 and 1.3 (versions in the options file)"

/* Sentences that depend on nothing else. */
static const struct alert plain[] = {
	{ SSL_R_WRONG_VERSION_NUMBER, NO_TLS },
	/* OpenSSL 3.5 */
	{ SSL_R_BAD_RECORD_TYPE, NO_TLS },
	{ SSL_R_DATA_LENGTH_TOO_LONG, NO_TLS },
	{ SSL_R_HTTP_REQUEST, NO_TLS },
	{ SSL_R_PACKET_LENGTH_TOO_LONG, NO_TLS },
	{ SSL_R_UNSUPPORTED_PROTOCOL, NO_VERSION },
	{ SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, NO_VERSION },
	{ SSL_R_NO_PROTOCOLS_AVAILABLE, "OpenSSL on this machine allows none "
	    "of the versions of TLS that are to be used" },
	{ SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED, "the node requires a "
	    "certificate of us (see -tls-cert and -tls-optfile)" },
	/* OTP's for TLS 1.3, and for signatures. */
	{ SSL_R_TLSV1_ALERT_INSUFFICIENT_SECURITY, "the node and we have no "
	    "cipher, group or signature in common (ciphers, eccs, "
	    "supported_groups, signature_algs and signature_algs_cert in the "
	    "options file)" },
	{ SSL_R_DH_KEY_TOO_SMALL, "the node's Diffie-Hellman key is too small "
	    "for OpenSSL on this machine" },
	{ SSL_R_TLSV1_UNRECOGNIZED_NAME, "the node does not know the host that "
	    "we ask for (name another one with " SNI ")" },
};

void
tls_errors_text(const struct tls_errors *w, char *why, size_t n)
{
	unsigned long e = ERR_peek_error();
	int reason = ERR_GET_LIB(e) == ERR_LIB_SSL ? ERR_GET_REASON(e) : 0;
	const char *about_ours = ALERT_TEXT(alerts, reason);
	const char *text = ALERT_TEXT(plain, reason);

	if (w->code != 0)
		say_refused(w, why, n);
	else if (reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE &&
	    w->cert[0] == '\0')
		/* OTP sends it, up to TLS 1.2, to a client without a certificate. */
		snprintf(why, n, "the node ended the TLS handshake: it requires a "
		    "certificate of us (see -tls-cert and -tls-optfile), or we "
		    "have no cipher, group or signature in common");
	else if (reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE)
		snprintf(why, n, "the node ended the TLS handshake: it does not "
		    "take our certificate '%s', or we have no cipher, group or "
		    "signature in common", w->cert);
	else if (about_ours != NULL && w->cert[0] == '\0')
		snprintf(why, n, "the node requires a certificate of us (see "
		    "-tls-cert and -tls-optfile)");
	else if (about_ours != NULL)
		snprintf(why, n, "the node refused our certificate '%s': %s",
		    w->cert, about_ours);
	else if (text != NULL)
		snprintf(why, n, "%s", text);
	else
		snprintf(why, n, "TLS failed: %s", cert_openssl_reason());
}

bool
tls_errors_signed(struct tls_errors *w, SSL *ssl, char *why, size_t n)
{
	char buf[CERT_NAME_MAX + 80];

	w->bad = cert_sigalgs_other(ssl, &w->bad_depth);
	if (w->bad == NULL)
		return true;
	X509_up_ref(w->bad);
	snprintf(why, n, "%s has the signature %s, which signature_algs_cert in "
	    "the options file leaves out", whose(w, buf),
	    OBJ_nid2ln(X509_get_signature_nid(w->bad)));
	return false;
}
