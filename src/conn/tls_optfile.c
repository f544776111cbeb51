/*
 * tls_optfile.c - walks the terms of the file, by a table of the options of OTP's ssl.
 *
 * Source: ssl(3) of OTP 25 to 29, and "Using TLS for Erlang Distribution".  Where an
 * option is given twice the first counts, as for the VM.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "config/lang.h"
#include "conn/tls_optfile.h"

#define OPTIONS_MAX 16

struct reading {
	struct tls_settings s;
	struct tls_pair one;	/* of certfile, keyfile and password */
	bool seen[OPTIONS_MAX];
	const char *path;
	char *why;
	size_t n;
	bool nomem;
};

void
tls_settings_init(struct tls_settings *s)
{
	*s = (struct tls_settings){ .depth = -1 };
}

static void
secret_free(char *s)
{
	if (s != NULL)
		explicit_bzero(s, strlen(s));
	free(s);
}

static void
pair_free(struct tls_pair *p)
{
	free(p->cert);
	free(p->key);
	secret_free(p->password);
}

void
tls_settings_drop_pairs(struct tls_settings *s)
{
	for (size_t i = 0; i < s->npairs; i++) {
		pair_free(&s->pairs[i]);
		s->pairs[i] = (struct tls_pair){ NULL, NULL, NULL };
	}
	s->npairs = 0;
}

void
tls_settings_free(struct tls_settings *s)
{
	tls_settings_drop_pairs(s);
	free(s->ca);
	free(s->sni);
	free(s->ciphers);
	free(s->groups12);
	free(s->groups13);
	free(s->sigalgs);
	free(s->cert_sigalgs);
	tls_settings_init(s);
}

/* Its value is false, as that of all that take a node. */
__attribute__((format(printf, 3, 4)))
static bool
wrong(struct reading *r, const struct node *at, const char *fmt, ...)
{
	va_list ap;
	int n = snprintf(r->why, r->n, "%s:%u: ", r->path, at->pos.line);

	if (n < 0 || (size_t)n >= r->n)
		return false;
	va_start(ap, fmt);
	vsnprintf(r->why + n, r->n - (size_t)n, fmt, ap);
	va_end(ap);
	return false;
}

static bool
expected(struct reading *r, const struct node *v, const char *of,
    const char *what)
{
	char found[NODE_TEXT_MAX];

	return wrong(r, v, "found %s, expected %s for %s",
	    node_describe(v, found), what, of);
}

/* ---- values ---- */

/* A string or binary as text of C; NULL, after writing the reason, for other terms. */
static char *
text_of(struct reading *r, const struct node *v, const char *of)
{
	size_t room = v->kind == N_STR ? v->len * UTF8_BYTES_MAX : v->len;
	size_t n = 0;
	char *s;

	if ((v->kind != N_STR && v->kind != N_BIN) || v->len == 0) {
		expected(r, v, of, "a string");
		return NULL;
	}
	if (v->len > TLS_TEXT_MAX) {
		wrong(r, v, "%s is longer than %u bytes", of, TLS_TEXT_MAX);
		return NULL;
	}
	s = malloc(room + 1);
	if (s == NULL) {
		r->nomem = true;
		return NULL;
	}
	for (size_t i = 0; v->kind == N_STR && i < v->len; i++)
		n += utf8_put(s + n, v->cps[i]);
	if (v->kind == N_BIN)
		memcpy(s, v->text, n = v->len);
	s[n] = '\0';
	if (strlen(s) == n && n <= TLS_TEXT_MAX)
		return s;
	explicit_bzero(s, n);
	free(s);
	wrong(r, v, "%s has a NUL, or more than %u bytes", of, TLS_TEXT_MAX);
	return NULL;
}

static bool
take_text(struct reading *r, const struct node *v, const char *of, char **to)
{
	char *s = text_of(r, v, of);

	if (s == NULL)
		return false;
	secret_free(*to);
	*to = s;
	return true;
}

/* A list without a tail, of at most max elements. */
static bool
is_list(struct reading *r, const struct node *v, const char *of, size_t max)
{
	if (node_is_nil(v))
		return true;
	if (v->kind != N_LIST || v->tail != NULL || v->broken)
		return expected(r, v, of, "a list");
	return v->n <= max || wrong(r, v, "%s has more than %zu elements", of,
	    max);
}

/* Of a string, which is a list without elements of its own, none. */
static size_t
list_len(const struct node *v)
{
	return v->kind == N_LIST ? v->n : 0;
}

/* ---- options ---- */

/*
 * Messages go to logs: none shows any part of a password, even one of a wrong type.
 * An empty password, which is the default of ssl, counts as no password.
 */
static bool
take_secret(struct reading *r, const struct node *v, char **to)
{
	bool is_text = v->kind == N_STR || v->kind == N_BIN;

	if (node_is_nil(v) || (is_text && v->len == 0))
		return true;
	r->s.secret = true;
	return is_text ? take_text(r, v, "password", to) :
	    wrong(r, v, "expected a string for password");
}

static bool
take_password(struct reading *r, const struct node *v)
{
	return take_secret(r, v, &r->one.password);
}

static bool
add_pair(struct reading *r, const struct node *at, struct tls_pair *p)
{
	if (r->s.npairs < TLS_PAIRS_MAX && p->cert != NULL) {
		r->s.pairs[r->s.npairs++] = *p;
		return true;
	}
	pair_free(p);
	return wrong(r, at, p->cert != NULL ? "more than %u certificates" :
	    "an element of certs_keys without a certfile (%u at most)",
	    TLS_PAIRS_MAX);
}

/* #{certfile => File, keyfile => File, password => Text} */
static bool
take_pair(struct reading *r, const struct node *v)
{
	struct tls_pair p = { NULL, NULL, NULL };
	const struct node *key, *value;
	bool well = v->kind == N_MAP || expected(r, v, "certs_keys", "maps");

	for (uint32_t i = 0; well && v->kind == N_MAP && i + 1 < v->n; i += 2) {
		key = v->kid[i];
		value = v->kid[i + 1];
		if (node_is_atom(key, "certfile"))
			well = take_text(r, value, "certfile", &p.cert);
		else if (node_is_atom(key, "keyfile"))
			well = take_text(r, value, "keyfile", &p.key);
		else if (node_is_atom(key, "password"))
			well = take_secret(r, value, &p.password);
		else
			well = expected(r, key, "certs_keys",
			    "certfile, keyfile or password");
	}
	if (well)
		return add_pair(r, v, &p);
	pair_free(&p);
	return false;
}

static bool
take_certs_keys(struct reading *r, const struct node *v)
{
	bool well = is_list(r, v, "certs_keys", TLS_PAIRS_MAX);

	for (uint32_t i = 0; well && i < list_len(v); i++)
		well = take_pair(r, v->kid[i]);
	return well;
}

static bool
take_verify(struct reading *r, const struct node *v)
{
	r->s.no_verify = node_is_atom(v, "verify_none");
	return r->s.no_verify || node_is_atom(v, "verify_peer") ||
	    expected(r, v, "verify", "verify_peer or verify_none");
}

static bool
take_depth(struct reading *r, const struct node *v)
{
	if (v->kind != N_INT || v->num < 0 || v->num > 255)
		return expected(r, v, "depth", "a number up to 255");
	r->s.depth = (int)v->num;
	return true;
}

static bool
take_sni(struct reading *r, const struct node *v)
{
	struct tls_settings *s = &r->s;

	s->no_sni = node_is_atom(v, "disable");
	if (s->no_sni)
		return true;
	/* One that is cut is another host; OpenSSL takes a dot for any. */
	return take_text(r, v, "server_name_indication", &s->sni) &&
	    ((strlen(s->sni) <= TLS_HOST_MAX && s->sni[0] != '.') || wrong(r, v,
	    "server_name_indication is no host of at most %u bytes",
	    TLS_HOST_MAX));
}

/* Older versions than we can speak are left out. */
static bool
take_versions(struct reading *r, const struct node *v)
{
	struct tls_settings *s = &r->s;
	bool well = is_list(r, v, "versions", 16);

	for (uint32_t i = 0; well && i < list_len(v); i++) {
		well = v->kid[i]->kind == N_ATOM ||
		    expected(r, v->kid[i], "versions", "atoms such as 'tlsv1.3'");
		s->v12 |= node_is_atom(v->kid[i], "tlsv1.2");
		s->v13 |= node_is_atom(v->kid[i], "tlsv1.3");
	}
	s->versions = true;
	return well && (s->v12 || s->v13 || wrong(r, v, "versions has neither "
	    "'tlsv1.2' nor 'tlsv1.3', which kprofd speaks"));
}

static bool
is_word(const char *s)
{
	return s[0] != '\0' && strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	    "abcdefghijklmnopqrstuvwxyz0123456789_-") == strlen(s);
}

/* Commands of OpenSSL, which a list may have, could give up encryption. */
static bool
take_cipher_string(struct reading *r, const struct node *v)
{
	char *list = text_of(r, v, "ciphers"), *one, *rest = NULL;
	char *names = list != NULL ? strdup(list) : NULL;
	bool well = names != NULL;

	r->nomem |= list != NULL && names == NULL;
	for (one = well ? strtok_r(list, ":", &rest) : NULL; one != NULL && well;
	    one = strtok_r(NULL, ":", &rest))
		well = is_word(one) || wrong(r, v, "ciphers: '%.40s' is not "
		    "the name of one", one);
	free(list);
	if (well)
		r->s.ciphers = names;
	else
		free(names);
	return well;
}

typedef bool put_fn(struct reading *r, const struct node *v, const char *of,
    struct kp_buf *b);

/* A list of names, of which put() writes each for OpenSSL. */
static bool
take_names(struct reading *r, const struct node *v, const char *of, char **to,
    put_fn *put)
{
	struct kp_buf b;
	bool well = is_list(r, v, of, 64) && (list_len(v) > 0 ||
	    expected(r, v, of, "names"));

	kp_buf_init(&b, TLS_TEXT_MAX);
	for (uint32_t i = 0; well && i < v->n; i++) {
		kp_buf_str(&b, i > 0 ? ":" : "");
		well = put(r, v->kid[i], of, &b);
	}
	if (well) {
		*to = strdup(kp_buf_cstr(&b));
		r->nomem |= b.err != KP_OK || *to == NULL;
		well = !r->nomem;
	}
	kp_buf_free(&b);
	return well;
}

static bool
put_cipher(struct reading *r, const struct node *v, const char *of,
    struct kp_buf *b)
{
	char *one = text_of(r, v, of);
	bool well = one != NULL && (is_word(one) || wrong(r, v,
	    "ciphers: '%.40s' is not the name of one", one));

	if (well)
		kp_buf_printf(b, "%s", one);
	free(one);
	return well;
}

/* A list of names, or a string of them with colons between. */
static bool
take_ciphers(struct reading *r, const struct node *v)
{
	return v->kind != N_LIST ? take_cipher_string(r, v) :
	    take_names(r, v, "ciphers", &r->s.ciphers, put_cipher);
}

/* A curve or a group has one name everywhere. */
static bool
put_group(struct reading *r, const struct node *v, const char *of,
    struct kp_buf *b)
{
	if (v->kind != N_ATOM || !is_word(v->text))
		return expected(r, v, of, "atoms such as secp256r1");
	kp_buf_printf(b, "%s", v->text);
	return true;
}

/*
 * {Hash, Sign} of TLS 1.2 is SIGN+HASH for OpenSSL, and a scheme of TLS 1.3 has its
 * standard's name, but for those that OTP has names of its own for.
 */
static bool
put_sigalg(struct reading *r, const struct node *v, const char *of,
    struct kp_buf *b)
{
	static const char *const names[][2] = {
		{ "sha", "SHA1" }, { "rsa", "RSA" }, { "dsa", "DSA" },
		{ "ecdsa", "ECDSA" }, { "rsa_pss_rsae", "RSA-PSS" },
		{ "rsa_pss_pss", "RSA-PSS" }, { "sha224", "SHA224" },
		{ "sha256", "SHA256" }, { "sha384", "SHA384" },
		{ "sha512", "SHA512" }, { "eddsa_ed25519", "ed25519" },
		{ "eddsa_ed448", "ed448" }, { "rsa_pkcs1_sha", "rsa_pkcs1_sha1" },
	};
	bool is_pair = v->kind == N_TUPLE && v->n == 2;
	const struct node *part[2];

	/* The order of OpenSSL. */
	part[0] = is_pair ? v->kid[1] : v;
	part[1] = is_pair ? v->kid[0] : NULL;
	for (size_t i = 0; i < 2 && part[i] != NULL; i++) {
		const char *name = part[i]->text;

		if (part[i]->kind != N_ATOM || !is_word(name))
			return expected(r, v, of, "names such as "
			    "{sha256, ecdsa} or rsa_pss_rsae_sha256");
		for (size_t j = 0; j < sizeof(names) / sizeof(names[0]); j++)
			if (strcmp(names[j][0], part[i]->text) == 0)
				name = names[j][1];
		kp_buf_printf(b, "%s%s", i > 0 ? "+" : "", name);
	}
	return true;
}

/* Revocation lists are not looked at, which matters only where they are asked for. */
static bool
take_crl_check(struct reading *r, const struct node *v)
{
	return node_is_atom(v, "false") || wrong(r, v, "crl_check: kprofd does "
	    "not read revocation lists (name -tls-cert, -tls-key and -tls-ca in "
	    "place of -tls-optfile to connect without)");
}

/* Its value becomes a text at `to` of struct reading, names that are put there, or else. */
static const struct option {
	const char *name;
	size_t to;
	put_fn *put;
	bool (*take)(struct reading *r, const struct node *v);
} options[] = {
#define AT(member) offsetof(struct reading, member)
	{ "certfile", AT(one.cert), NULL, NULL },
	{ "keyfile", AT(one.key), NULL, NULL },
	{ "password", 0, NULL, take_password },
	{ "cacertfile", AT(s.ca), NULL, NULL },
	{ "certs_keys", 0, NULL, take_certs_keys },
	{ "verify", 0, NULL, take_verify },
	{ "depth", 0, NULL, take_depth },
	{ "server_name_indication", 0, NULL, take_sni },
	{ "versions", 0, NULL, take_versions },
	{ "ciphers", 0, NULL, take_ciphers },
	{ "eccs", AT(s.groups12), put_group, NULL },
	{ "supported_groups", AT(s.groups13), put_group, NULL },
	{ "signature_algs", AT(s.sigalgs), put_sigalg, NULL },
	{ "signature_algs_cert", AT(s.cert_sigalgs), put_sigalg, NULL },
	{ "crl_check", 0, NULL, take_crl_check },
#undef AT
};

/* These do not change what we accept: they are the VM's affair, or loosen its rules. */
static const char *const passed_over[] = { "crl_cache", "partial_chain",
	"customize_hostname_check", "fail_if_no_peer_cert", "secure_renegotiate",
	"client_renegotiation", "renegotiate_at", "key_update_at",
	"reuse_session", "reuse_sessions", "session_tickets", "use_ticket",
	"early_data", "anti_replay", "middlebox_comp_mode", "honor_cipher_order",
	"honor_ecc_order", "dh", "dhfile", "padding_check", "beast_mitigation",
	"fallback", "alpn_advertised_protocols", "max_fragment_length",
	"max_handshake_size", "handshake", "handshake_timeout",
	"hibernate_after", "log_alert", "log_level", "keep_secrets", "protocol",
	"ktls", "receiver_spawn_opts", "sender_spawn_opts", "nodelay",
	"keepalive", "sndbuf", "recbuf", "buffer", "linger", "tos", "priority" };

#define LEN(a) (sizeof(a) / sizeof((a)[0]))
_Static_assert(LEN(options) <= OPTIONS_MAX, "seen[] has room for each option");

static bool
take_value(struct reading *r, const struct option *o, const struct node *v)
{
	char **to = (char **)(void *)((char *)r + o->to);

	return o->take != NULL ? o->take(r, v) :
	    o->put != NULL ? take_names(r, v, o->name, to, o->put) :
	    take_text(r, v, o->name, to);
}

/* {Name, Value}, or Name of what is true.  Any that is in neither table is refused. */
static bool
take_option(struct reading *r, const struct node *v)
{
	bool is_pair = v->kind == N_TUPLE && v->n == 2, seen;
	const struct node *name = is_pair ? v->kid[0] : v;

	if (name->kind != N_ATOM)
		return expected(r, v, "client", "options such as "
		    "{certfile, \"FILE\"}");
	for (size_t i = 0; i < LEN(passed_over); i++)
		if (node_is_atom(name, passed_over[i]))
			return true;
	for (size_t i = 0; i < LEN(options); i++) {
		if (!node_is_atom(name, options[i].name))
			continue;
		seen = r->seen[i];
		r->seen[i] = true;
		return seen || (is_pair ? take_value(r, &options[i], v->kid[1]) :
		    expected(r, v, options[i].name, "a value"));
	}
	return wrong(r, name, "kprofd cannot follow the client's option "
	    "'%.64s' (name -tls-cert, -tls-key and -tls-ca in place of "
	    "-tls-optfile to connect without)", name->text);
}

/* A file whose nodes only listen has no certificate for a client. */
static bool
take_client(struct reading *r, const struct node *v)
{
	bool well = is_list(r, v, "client", 256);

	for (uint32_t i = 0; well && i < list_len(v); i++)
		well = take_option(r, v->kid[i]);
	if (!well || r->one.cert == NULL)
		return well;
	well = add_pair(r, v, &r->one);
	r->one = (struct tls_pair){ NULL, NULL, NULL };
	return well;
}

/* [{server, Options}, {client, Options}]; other keys are the VM's. */
static bool
take_file(struct reading *r, const struct form *f)
{
	const struct node *v;

	if (f == NULL) {
		snprintf(r->why, r->n, "%s: there is no term in it, expected "
		    "[{server, Options}, {client, Options}].", r->path);
		return false;
	}
	if (!is_list(r, f->term, "the file", 16))
		return false;
	for (uint32_t i = 0; i < list_len(f->term); i++) {
		v = f->term->kid[i];
		if (v->kind != N_TUPLE || v->n != 2)
			return expected(r, v, "the file",
			    "{server, Options} or {client, Options}");
		if (node_is_atom(v->kid[0], "client"))
			return take_client(r, v->kid[1]);
	}
	return wrong(r, f->term, "it has no {client, Options}, which we need "
	    "to connect");
}

enum kp_err
tls_optfile_parse(struct tls_settings *s, const char *text, size_t n,
    const char *path, char *why, size_t whylen)
{
	struct reading r = { .s = *s, .path = path, .why = why, .n = whylen };
	struct arena a = { NULL, false };
	struct kp_diags diags = { NULL, 0, 0 };
	struct form *f = parse_forms(&a, text, n, &diags);
	bool well = diags.errors == 0;

	if (well && !a.failed)
		well = take_file(&r, f);
	else if (diags.n > 0 && memmem(text, n, "password", 8) != NULL)
		snprintf(why, whylen, "%s:%u: it is not a term of Erlang (what "
		    "is wrong is not shown, as there is a password in the file)",
		    path, diags.v[0].pos.line);
	else if (diags.n > 0)
		snprintf(why, whylen, "%s:%u: %s", path, diags.v[0].pos.line,
		    diags.v[0].text);
	else
		snprintf(why, whylen, "%s: it is not a term of Erlang", path);
	pair_free(&r.one);
	*s = r.s;
	kp_diags_free(&diags);
	r.nomem |= a.failed;
	arena_wipe(&a);
	arena_free(&a);
	if (r.nomem)
		snprintf(why, whylen, "out of memory");
	return r.nomem ? KP_ENOMEM : well ? KP_OK : KP_EFORMAT;
}
