/*
 * cert_text.c - takes names and times out of certificates.
 */
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "base/utf8.h"
#include "conn/tls/cert_text.h"

const char *
cert_time(char buf[CERT_TIME_MAX], const ASN1_TIME *t)
{
	struct tm tm;

	if (ASN1_TIME_to_tm(t, &tm) != 1 ||
	    strftime(buf, CERT_TIME_MAX, "%Y-%m-%d %H:%M:%S UTC", &tm) == 0)
		snprintf(buf, CERT_TIME_MAX, "an unreadable date");
	return buf;
}

/* The text of the first entry of this kind; false: there is none. */
static bool
put_entry(struct kp_buf *b, const X509_NAME *name, int kind)
{
	int at = X509_NAME_get_index_by_NID(name, kind, -1);
	unsigned char *text;
	int n;

	if (at < 0)
		return false;
	n = ASN1_STRING_to_UTF8(&text,
	    X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at)));
	if (n < 0)
		return false;
	utf8_put_name(b, text, (size_t)n, CERT_NAME_MAX / 2);
	OPENSSL_free(text);
	return n > 0;
}

const char *
cert_name(char buf[CERT_NAME_MAX], const X509_NAME *name)
{
	static const int kinds[] = { NID_commonName, NID_organizationalUnitName,
		NID_organizationName };
	struct kp_buf b;
	bool found = false;

	kp_buf_init(&b, 2 * CERT_NAME_MAX);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && !found; i++)
		found = put_entry(&b, name, kinds[i]);
	snprintf(buf, CERT_NAME_MAX, "%s", found ? kp_buf_cstr(&b) :
	    "a nameless one");
	kp_buf_free(&b);
	return buf;
}

/* An address has 4 or 16 bytes. */
static void
put_address(struct kp_buf *b, const ASN1_OCTET_STRING *ip)
{
	int n = ASN1_STRING_length(ip);
	char text[INET6_ADDRSTRLEN] = "?";

	if (n == 4 || n == 16)
		inet_ntop(n == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(ip),
		    text, sizeof(text));
	kp_buf_str(b, text);
}

const char *
cert_hosts(char buf[CERT_NAME_MAX], const X509 *x)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(x, NID_subject_alt_name, NULL,
	    NULL);
	char name[CERT_NAME_MAX];
	const GENERAL_NAME *g;
	struct kp_buf b;
	int n = names != NULL ? sk_GENERAL_NAME_num(names) : 0;

	kp_buf_init(&b, 4 * CERT_NAME_MAX);
	for (int i = 0; i < n && b.len < CERT_NAME_MAX / 2; i++) {
		g = sk_GENERAL_NAME_value(names, i);
		if (g->type != GEN_DNS && g->type != GEN_IPADD)
			continue;
		kp_buf_str(&b, b.len > 0 ? ", '" : "'");
		if (g->type == GEN_DNS)
			utf8_put_name(&b, ASN1_STRING_get0_data(g->d.dNSName),
			    (size_t)ASN1_STRING_length(g->d.dNSName),
			    b.len + CERT_NAME_MAX / 4);
		else
			put_address(&b, g->d.iPAddress);
		kp_buf_u8(&b, '\'');
	}
	if (b.len == 0 && X509_NAME_get_index_by_NID(
	    X509_get_subject_name(x), NID_commonName, -1) >= 0)
		kp_buf_printf(&b, "'%s'", cert_name(name,
		    X509_get_subject_name(x)));
	snprintf(buf, CERT_NAME_MAX, "%s", b.len > 0 ? kp_buf_cstr(&b) :
	    "no host");
	GENERAL_NAMES_free(names);
	kp_buf_free(&b);
	return buf;
}

const char *
cert_openssl_reason(void)
{
	const char *s = ERR_reason_error_string(ERR_peek_error());

	return s != NULL ? s : "no reason is known";
}
