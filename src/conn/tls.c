/*
 * tls.c - a context for one connection, so that files that were renewed are taken at
 * the next one, and the handshake.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "conn/tls_certs.h"
#include "conn/tls_channel.h"
#include "conn/tls_optfile.h"
#include "conn/tls.h"

_Static_assert(sizeof(((struct tls_errors *)0)->host) > TLS_HOST_MAX,
    "no host is cut");

/* ---- which settings to use: the options file, and options that override it ---- */

static enum kp_err
read_optfile(struct tls_settings *s, const char *path, char *why, size_t n)
{
	char whole[PEM_PATH_MAX];
	enum kp_err e;
	unsigned mode;
	size_t len;
	char *text = pem_read(path, "the options file", "-tls-optfile", &mode,
	    TLS_OPTFILE_MAX, &len, why, n);

	if (text == NULL)
		return KP_ESTATE;
	e = tls_optfile_parse(s, text, len, pem_path(whole, path), why, n);
	explicit_bzero(text, len);
	free(text);
	if (e == KP_OK && s->secret && !pem_is_private(path,
	    "the password in the options file", mode, why, n))
		return KP_ESTATE;
	return e == KP_EFORMAT ? KP_ESTATE : e;
}

/* A copy in place of what was there.  False: out of memory. */
static bool
set(char **to, const char *from)
{
	free(*to);
	*to = strdup(from);
	return *to != NULL;
}

static enum kp_err
settings_read(struct tls_settings *s, const struct tls_opts *o, char *why,
    size_t n)
{
	struct tls_pair *first = &s->pairs[0];
	enum kp_err e = KP_OK;
	bool well = true;

	if (o->optfile != NULL)
		e = read_optfile(s, o->optfile, why, n);
	if (e != KP_OK)
		return e;
	/* Options override the file; a CA among them means that the peer is verified. */
	if (o->verify != TLS_VERIFY_UNSET)
		s->no_verify = o->verify == TLS_VERIFY_NONE;
	else if (o->ca != NULL)
		s->no_verify = false;
	if (o->key != NULL && o->cert == NULL && s->npairs == 0) {
		snprintf(why, n, "-tls-key is for the certificate of -tls-cert, "
		    "which is missing");
		return KP_ESTATE;
	}
	if (o->cert != NULL) {
		/* The keys of the file belong to other certificates. */
		tls_settings_drop_pairs(s);
		well = set(&first->cert, o->cert);
		s->npairs = 1;
	}
	if (o->key != NULL)
		well = well && set(&first->key, o->key);
	if (o->ca != NULL)
		well = well && set(&s->ca, o->ca);
	if (!well) {
		snprintf(why, n, "out of memory");
		return KP_ENOMEM;
	}
	if (s->ca == NULL && !s->no_verify) {
		snprintf(why, n, "the node's certificate cannot be verified "
		    "without a CA: see -tls-ca%s, and -tls-verify",
		    o->optfile != NULL ? ", or {cacertfile, File} for the "
		    "client in the options file" : "");
		return KP_ESTATE;
	}
	return KP_OK;
}

/* ---- the context ---- */

/* Among a file's names may be some of ciphers without certificates or encryption. */
#define NO_WEAK ":!aNULL:!eNULL"

static bool
set_old_ciphers(SSL_CTX *ctx, const struct kp_buf *names)
{
	char list[2 * TLS_TEXT_MAX + sizeof(NO_WEAK)];

	snprintf(list, sizeof(list), "%.*s" NO_WEAK, (int)names->len,
	    (const char *)names->p);
	return SSL_CTX_set_cipher_list(ctx, list) == 1;
}

/*
 * Names of OpenSSL or of the standards, into a list for TLS 1.2 and one for 1.3.  A
 * version that is left without any is not spoken.
 */
static enum kp_err
use_ciphers(SSL_CTX *ctx, struct tls_settings *s, char *why, size_t n)
{
	char *list = s->ciphers, *one, *rest = NULL;
	struct kp_buf old, new;
	const char *name;
	bool well = true;

	kp_buf_init(&old, 2 * TLS_TEXT_MAX);
	kp_buf_init(&new, 2 * TLS_TEXT_MAX);
	for (one = strtok_r(list, ":", &rest); one != NULL && well;
	    one = strtok_r(NULL, ":", &rest)) {
		if (strncmp(one, "TLS_AES_", 8) == 0 ||
		    strncmp(one, "TLS_CHACHA20_", 13) == 0) {
			kp_buf_printf(&new, "%s%s", new.len > 0 ? ":" : "", one);
			continue;
		}
		name = OPENSSL_cipher_name(one);
		kp_buf_printf(&old, "%s%s", old.len > 0 ? ":" : "",
		    strcmp(name, "(NONE)") == 0 ? one : name);
	}
	s->v12 &= old.len > 0;
	s->v13 &= new.len > 0;
	well = old.err == KP_OK && new.err == KP_OK &&
	    (old.len == 0 || set_old_ciphers(ctx, &old)) && (new.len == 0 ||
	    SSL_CTX_set_ciphersuites(ctx, kp_buf_cstr(&new)) == 1) &&
	    (s->v12 || s->v13);
	if (!well)
		snprintf(why, n, "OpenSSL on this machine can use none of the "
		    "ciphers in the options file: %s%s%s", kp_buf_cstr(&old),
		    old.len > 0 && new.len > 0 ? ":" : "", kp_buf_cstr(&new));
	kp_buf_free(&old);
	kp_buf_free(&new);
	return well ? KP_OK : KP_ESTATE;
}

/*
 * Hands OpenSSL those of a list of names that it knows: it takes a list only whole, and
 * OTP has names that it lacks.  KP_ESTATE: it knows none.
 */
static enum kp_err
use_known(SSL_CTX *ctx, const char *names, const char *of,
    bool (*use)(SSL_CTX *ctx, const char *list), char *why, size_t n)
{
	char *list = strdup(names), *one, *rest = NULL;
	struct kp_buf known;
	bool well;

	kp_buf_init(&known, 2 * TLS_TEXT_MAX);
	for (one = list != NULL ? strtok_r(list, ":", &rest) : NULL; one != NULL;
	    one = strtok_r(NULL, ":", &rest))
		if (use(ctx, one))
			kp_buf_printf(&known, "%s%s", known.len > 0 ? ":" : "",
			    one);
	well = known.len > 0 && known.err == KP_OK &&
	    use(ctx, kp_buf_cstr(&known));
	if (!well)
		snprintf(why, n, "OpenSSL on this machine can use none of the "
		    "%s in the options file: %s", of, names);
	kp_buf_free(&known);
	free(list);
	/* What it did not know is no reason for a later failure. */
	ERR_clear_error();
	return well ? KP_OK : KP_ESTATE;
}

static bool
use_groups(SSL_CTX *ctx, const char *list)
{
	return SSL_CTX_set1_groups_list(ctx, list) == 1;
}

static bool
use_sigalgs(SSL_CTX *ctx, const char *list)
{
	return SSL_CTX_set1_sigalgs_list(ctx, list) == 1;
}

/*
 * One list of groups is for all versions, so it has those that the file names for any
 * version that we speak.
 */
static enum kp_err
use_algorithms(SSL_CTX *ctx, const struct tls_settings *s, char *why, size_t n)
{
	const char *new = s->v13 || s->groups12 == NULL ? s->groups13 : NULL;
	const char *old = s->v12 || new == NULL ? s->groups12 : NULL;
	char groups[2 * TLS_TEXT_MAX + 2];
	enum kp_err e = KP_OK;

	snprintf(groups, sizeof(groups), "%s%s%s", new != NULL ? new : "",
	    new != NULL && old != NULL ? ":" : "", old != NULL ? old : "");
	if (groups[0] != '\0')
		e = use_known(ctx, groups, "groups", use_groups, why, n);
	if (e == KP_OK && s->sigalgs != NULL)
		e = use_known(ctx, s->sigalgs, "signature algorithms",
		    use_sigalgs, why, n);
	if (e == KP_OK && s->cert_sigalgs != NULL &&
	    !cert_sigalgs_use(ctx, s->cert_sigalgs)) {
		snprintf(why, n, "kprofd knows none of the signature algorithms "
		    "for certificates in the options file: %s", s->cert_sigalgs);
		e = KP_ESTATE;
	}
	return e;
}

static enum kp_err
context_fill(SSL_CTX *ctx, struct tls_settings *s, char *why, size_t n)
{
	enum kp_err e = KP_OK;

	if (!s->versions)
		s->v12 = s->v13 = true;
	if (s->ciphers != NULL)
		e = use_ciphers(ctx, s, why, n);
	if (e == KP_OK)
		e = use_algorithms(ctx, s, why, n);
	SSL_CTX_set_min_proto_version(ctx,
	    s->v12 ? TLS1_2_VERSION : TLS1_3_VERSION);
	SSL_CTX_set_max_proto_version(ctx,
	    s->v13 ? TLS1_3_VERSION : TLS1_2_VERSION);
	if (s->depth >= 0)
		SSL_CTX_set_verify_depth(ctx, s->depth);
	for (size_t i = 0; e == KP_OK && i < s->npairs; i++)
		e = pem_use_pair(ctx, &(struct pem_pair){
		    .cert = s->pairs[i].cert, .key = s->pairs[i].key,
		    .password = s->pairs[i].password,
		    .cert_option = "-tls-cert", .key_option = "-tls-key",
		    .locked = "give {password, Text} in the options file (see "
		    "-tls-optfile)" }, why, n);
	if (e == KP_OK && s->ca != NULL && !s->no_verify)
		e = pem_trust(ctx, s->ca, why, n);
	return e;
}

/* ---- the session ---- */

static bool
is_address(const char *host)
{
	unsigned char any[sizeof(struct in6_addr)];

	return inet_pton(AF_INET, host, any) == 1 ||
	    inet_pton(AF_INET6, host, any) == 1;
}

/* Which host the certificate has to be for, and which one is asked for. */
static bool
use_host(SSL *ssl, const char *host)
{
	X509_VERIFY_PARAM *v = SSL_get0_param(ssl);

	if (is_address(host))
		return X509_VERIFY_PARAM_set1_ip_asc(v, host) == 1;
	X509_VERIFY_PARAM_set_hostflags(v, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set_tlsext_host_name(ssl, host) == 1 &&
	    X509_VERIFY_PARAM_set1_host(v, host, 0) == 1;
}

static enum kp_err
session_new(SSL **ssl, struct tls_errors *w, struct tls_settings *s,
    const struct node_place *p, char *why, size_t n)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	enum kp_err e = KP_OK;

	*ssl = NULL;
	*w = (struct tls_errors){ .depth = s->depth };
	if (!s->no_sni)
		snprintf(w->host, sizeof(w->host), "%s", s->sni != NULL ?
		    s->sni : strchr(p->node, '@') + 1);
	if (s->npairs > 0)
		pem_path(w->cert, s->pairs[0].cert);
	if (s->ca != NULL)
		pem_path(w->ca, s->ca);
	if (ctx != NULL)
		e = context_fill(ctx, s, why, n);
	if (e == KP_OK && ctx != NULL)
		*ssl = SSL_new(ctx);
	SSL_CTX_free(ctx);
	if (e != KP_OK)
		return e;
	if (*ssl != NULL && (w->host[0] == '\0' || use_host(*ssl, w->host)))
		return KP_OK;
	snprintf(why, n, "OpenSSL cannot begin: %s (does it take the host "
	    "'%s'?)", cert_openssl_reason(), w->host);
	SSL_free(*ssl);
	return KP_EIO;
}

/*
 * A node that expects no TLS ends the connection before the handshake is over, or does not
 * answer.
 */
static enum kp_err
shake(struct channel *c, const struct tls_opts *o, kp_mono_ns deadline,
    char *why, size_t n)
{
	const char *plain = o->optfile_env ?
	    "unset KPROFD_TLS_OPTFILE, which asks for TLS" :
	    "leave out -tls-optfile and the like";
	ssize_t r;
	int err = 0;

	while ((r = tls_channel_handshake(c)) == CHANNEL_WAIT && err == 0)
		err = wait_ready(c->fd, c->wants, deadline);
	if (r == 1)
		return KP_OK;
	if (err == ETIMEDOUT) {
		snprintf(why, n, "no answer to the TLS handshake in time (a node "
		    "that hangs, or one without -proto_dist inet_tls? then %s)",
		    plain);
		return KP_ETIMEOUT;
	}
	if (err != 0 || r == CHANNEL_END)
		snprintf(why, n, "the node closed the connection during the TLS "
		    "handshake (a node without -proto_dist inet_tls? then %s)",
		    plain);
	else
		snprintf(why, n, "%s", c->why);
	/* What broke may be whole the next time; what was refused stays so. */
	return r == CHANNEL_FAILED && c->err == 0 ? KP_ESTATE : KP_EIO;
}

enum kp_err
tls_connect(struct channel **c, int fd, const struct tls_opts *o,
    const struct node_place *p, kp_mono_ns deadline, char *why, size_t n)
{
	struct tls_settings s;
	struct tls_errors w;
	enum kp_err e;
	SSL *ssl;

	tls_settings_init(&s);
	e = settings_read(&s, o, why, n);
	if (e == KP_OK)
		e = session_new(&ssl, &w, &s, p, why, n);
	if (e != KP_OK) {
		tls_settings_free(&s);
		close(fd);
		return e;
	}
	*c = tls_channel_new(fd, ssl, &w, !s.no_verify);
	tls_settings_free(&s);
	if (*c == NULL) {
		snprintf(why, n, "out of memory");
		return KP_ENOMEM;
	}
	e = shake(*c, o, deadline, why, n);
	if (e != KP_OK) {
		channel_free(*c);
		*c = NULL;
	}
	return e;
}
