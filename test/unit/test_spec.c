/*
 * test_spec.c - match specs, byte for byte where they are small.
 *
 * What they mean is tested on real nodes (test/integration/spec_check.erl);
 * here a small reader of external terms turns them into text.
 */
#include "cases.h"
#include "kprofd/config.h"

#define TIERS "[{t, {m, '_', '_'}}].\n{identity, fun "

struct reader {
	const uint8_t *p, *end;
	struct kp_buf text;
};

static uint32_t
take(struct reader *r, size_t n)
{
	uint32_t v = 0;

	assert_true((size_t)(r->end - r->p) >= n);
	while (n-- > 0)
		v = v << 8 | *r->p++;
	return v;
}

static void
put_bytes(struct reader *r, size_t n)
{
	assert_true((size_t)(r->end - r->p) >= n);
	kp_buf_put(&r->text, r->p, n);
	r->p += n;
}

static void put_term(struct reader *r);

static void
put_terms(struct reader *r, uint32_t n, const char *sep)
{
	for (uint32_t i = 0; i < n; i++) {
		if (i > 0)
			kp_buf_str(&r->text, i % 2 ? sep : ",");
		put_term(r);
	}
}

static void
put_big(struct reader *r)
{
	uint64_t v = 0;
	uint32_t n = take(r, 1), neg = take(r, 1);

	for (uint32_t i = 0; i < n; i++)
		v |= (uint64_t)take(r, 1) << (8 * i);
	kp_buf_printf(&r->text, "%s%llu", neg ? "-" : "",
	    (unsigned long long)v);
}

static void
put_list(struct reader *r)
{
	kp_buf_str(&r->text, "[");
	put_terms(r, take(r, 4), ",");
	if (*r->p == 106) {
		r->p++;
	} else {
		kp_buf_str(&r->text, "|");
		put_term(r);
	}
	kp_buf_str(&r->text, "]");
}

static void
put_term(struct reader *r)
{
	switch (take(r, 1)) {
	case 70:
		take(r, 8);
		kp_buf_str(&r->text, "float");
		break;
	case 97:
		kp_buf_printf(&r->text, "%u", take(r, 1));
		break;
	case 98:
		kp_buf_printf(&r->text, "%d", (int32_t)take(r, 4));
		break;
	case 104:
		kp_buf_str(&r->text, "{");
		put_terms(r, take(r, 1), ",");
		kp_buf_str(&r->text, "}");
		break;
	case 106:
		kp_buf_str(&r->text, "[]");
		break;
	case 108:
		put_list(r);
		break;
	case 109:
		kp_buf_str(&r->text, "<<");
		put_bytes(r, take(r, 4));
		kp_buf_str(&r->text, ">>");
		break;
	case 110:
		put_big(r);
		break;
	case 116:
		kp_buf_str(&r->text, "#{");
		put_terms(r, 2 * take(r, 4), "=");
		kp_buf_str(&r->text, "}");
		break;
	case 119:
		put_bytes(r, take(r, 1));
		break;
	default:
		fail_msg("unknown tag %u", r->p[-1]);
	}
}

typedef enum kp_err spec_fn(const struct kp_conf *c, const struct kp_mfa *f,
    const struct kp_spec_params *p, struct kp_buf *out);

static void
assert_term(const struct kp_buf *b, const char *want)
{
	struct reader r = { b->p, b->p + b->len, { 0 } };

	kp_buf_init(&r.text, 1 << 20);
	put_term(&r);
	assert_ptr_equal(r.p, r.end);
	assert_string_equal(kp_buf_cstr(&r.text), want);
	kp_buf_free(&r.text);
}

static void
assert_spec(spec_fn *fn, const char *conf, struct kp_mfa f,
    struct kp_spec_params p, const char *want)
{
	struct kp_conf *c;
	struct kp_diags d;
	struct kp_buf out;

	assert_int_equal(kp_conf_parse(&c, conf, strlen(conf), &d), KP_OK);
	kp_diags_free(&d);
	kp_buf_init(&out, 1 << 20);
	assert_int_equal(fn(c, &f, &p, &out), KP_OK);
	assert_term(&out, want);
	kp_buf_free(&out);
	kp_conf_free(c);
}

#define LABEL "{element,2,{get_seq_token}}"
#define CLEAR "{set_seq_token,sequential_trace_token,[]}"
#define OURS "{=:=,{bsr," LABEL ",53},45}"
#define CARRIES "{andalso,{is_seq_trace}," OURS
#define KPROFDS "{andalso,{is_seq_trace},{=:=,{bsr," LABEL ",52},90}"
#define YOUNG(base) "{=:=,{band,{-,{+,{get_tcw}," base "}," LABEL \
	"},-4503597546995712},0}"
#define LIVE "{orelse," YOUNG("409818770032295935") ",{andalso,{=:=,{bsr," LABEL ",52},90}," CLEAR \
	",false}}"
#define TIER_ACTION(id) "{message,{andalso," LIVE ",{{" id \
	",{get_seq_token},{caller}}}}}"
#define TIER_MSG(id) "[" TIER_ACTION(id) "]"
#define REST "{_,[{is_seq_trace}]," TIER_MSG("[]") "}"
#define TOKEN "[{is_seq_trace}]"

TEST(test_tier)
{
	static const struct {
		const char *fun;
		uint32_t arity;
		const char *spec;
	} v[] = {
		{ "(_) -> x end}.", 2, "[{_," TOKEN "," TIER_MSG("x") "}]" },
		{ "({m, f, [a, _]}) -> x; (_) -> undefined end}.", 2,
		    "[{[a,_]," TOKEN "," TIER_MSG("x") "}," REST "]" },
		/* other functions, other arities: no clause */
		{ "({m, g, _}) -> x; ({n, f, _}) -> y; ({m, f, [_]}) -> z;"
		    "({_, _, [_, _, _ | _]}) -> w end}.", 2, "[" REST "]" },
		{ "({M, F, []}) -> {M, F} end}.", 0,
		    "[{[]," TOKEN "," TIER_MSG("{{m,f}}") "}]" },
		{ "({_, F, ['_' | R]}) when hd(R) =:= {F, '$1'}; F =:= g -> b "
		    "end}.", 2,
		    "[{[$3,$2],[{is_seq_trace},{=:=,$3,{const,_}},"
		    "{=:=,{hd,[$2]},{{f,{const,$1}}}}]," TIER_MSG("b") "},"
		    "{[$3,$2],[{is_seq_trace},{=:=,$3,{const,_}},{=:=,f,g}],"
		    TIER_MSG("b") "}," REST "]" },
		{ "({_, _, [X, X]}) when is_atom(X) -> {k, X} end}.", 2,
		    "[{[$3,$3],[{is_seq_trace},{is_atom,$3}],"
		    TIER_MSG("{{k,$3}}") "}," REST "]" },
		{ "({_, _, [#{a := 1, \"b\" := X}, _]}) when is_binary(X) -> X "
		    "end}.", 2,
		    "[{[#{a=$3,[98]=$4},_],[{is_seq_trace},{=:=,$3,1},"
		    "{is_binary,$4},{andalso,{is_binary,$4},{=<,{byte_size,"
		    "$4},256}}]," TIER_MSG("$4") "},"
		    "{[#{a=$3,[98]=$4},_],[{is_seq_trace},{=:=,$3,1},"
		    "{is_binary,$4}]," TIER_MSG("{{_other,2}}") "}," REST "]" },
	};
	struct kp_spec_params p = { .one_in = 1 };
	char conf[512];

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		snprintf(conf, sizeof(conf), "%s%s", TIERS, v[i].fun);
		assert_spec(kp_spec_tier, conf, (struct kp_mfa){ "m", "f",
		    v[i].arity }, p, v[i].spec);
	}
	p = (struct kp_spec_params){ .one_in = 1, .exact = true };
	assert_spec(kp_spec_tier, "[{t, \"m\"}]", (struct kp_mfa){ "m", "f",
	    1 }, p, "[{_," TOKEN ",[" TIER_ACTION("[]") ","
	    KPROFDS ",{exception_trace}}]}]");
	p.trace = true;
	assert_spec(kp_spec_tier, "[{t, \"m\"}]", (struct kp_mfa){ "m", "f",
	    1 }, p, "[{_," TOKEN ",[{message,{{[],{get_seq_token},{caller}}}},"
	    "{exception_trace}]}]");
}

/* What was in the word; it has no number now. */
#define TAKE "{set_tcw,{band,{+,{get_tcw},1},2147483647}}"
#define STEP "{set_tcw,{bor,{+,{trunc,{/,{*,{bxor," TAKE \
	",2147483648},float},float}},1},2147483648}}"
#define TRY "{andalso,{set_seq_token,label," TAKE "},{>," LABEL ",2147483647}}"
#define TRIES TRY "," TRY "," TRY "," TRY "," TRY "," TRY "," TRY "," TRY
#define PUT_BACK "{is_integer,{set_tcw,{bor,{band,{+,{+," LABEL ",1},{band,{-," \
	"{-,{get_tcw}," LABEL "},1},262143}},2147483647},2147483648}}}"
#define SPARE "{set_seq_token,label,{bor,{bor," LABEL ",{bsl,{band,{element,5," \
	"{get_seq_token}},1023},31}},405330563533111296}}"
#define NUMBER "{orelse,{andalso,{orelse," TRIES "}," PUT_BACK \
	",{set_seq_token,label,{bxor," LABEL ",405328366657339392}}}," SPARE "}"
#define FREE "{orelse,{not,{is_seq_trace}}," OURS "},"
#define NEW(free) "{andalso," free CLEAR "," NUMBER ",{get_seq_token}}"
#define ENTRY_MSG(id, n) ENTRY_ON(id, n, FREE) "]"
#define ENTRY_ON(id, n, free) "[{message,{{" id ",{caller}," n "," NEW(free) \
	",true,[]," CARRIES ",{get_seq_token}}}}}"
#define WATCH_MSG "{message,{{x,{caller},1,[],true,[],[]}}}"
#define H "{*,{get_tcw},82951117}"

/* No token, or one of a kprofd that is too old: it gets one of no request. */
#define GIVEN "{orelse," YOUNG("409827566125318143") ",{andalso,{orelse,{not,{is_seq_trace}}," \
	"{=:=,{bsr," LABEL ",52},90}},{orelse,{andalso," CLEAR "," TRY "," PUT_BACK \
	",{set_seq_token,label,{bxor," LABEL ",409823170191687680}}},{andalso," CLEAR \
	",false}}}}"

TEST(test_gives_tokens)
{
	/* Between slices as in them: what is watched are entries. */
	assert_spec(kp_spec_tier, "[{t, \"m\"}]", (struct kp_mfa){ "m", "f",
	    1 }, (struct kp_spec_params){ .one_in = 1, .gives_tokens = true, .watch = true },
	    "[{_,[],[{message,{andalso," GIVEN ",{{[],{get_seq_token},"
	    "{caller}}}}}]}]");
}

TEST(test_entry)
{
	struct kp_spec_params p = { .one_in = 1,
		.label_const = UINT64_C(1) << 42 };
	struct kp_mfa f = { "m", "f", 1 };

	assert_spec(kp_spec_entry, TIERS "({_, _, [a]}) -> x end}.", f, p,
	    "[{[a],[]," ENTRY_MSG("x", "1") "},{_,[]," ENTRY_MSG("[]", "1")
	    "}]");
	p.one_in = 10;
	assert_spec(kp_spec_entry, TIERS "(_) -> x end}.", f, p,
	    "[{_,[{>=,{band,{bsr,{*,{band,{bxor," H ",{bsr," H ",15}},"
	    "268435455},140426407},20},16777215},1677721}],"
	    "[" STEP ",{message,false}," CARRIES "," CLEAR "}]},"
	    "{_,[]," ENTRY_MSG("x", "10") "}]");
	/* In a slice of time all are measured, and each stands for ten. */
	p.sliced = true;
	assert_spec(kp_spec_entry, TIERS "(_) -> x end}.", f, p,
	    "[{_,[]," ENTRY_MSG("x", "10") "}]");
	/* Between slices there is no token, and one of before goes. */
	p.watch = true;
	assert_spec(kp_spec_entry, TIERS "(_) -> x end}.\n{scheduling, true}.", f, p,
	    "[{_,[],[" WATCH_MSG "," CARRIES "," CLEAR "}]}]");
	p.exact = true;
	assert_spec(kp_spec_entry, TIERS "(_) -> x end}.", f, p,
	    "[{_,[],[" WATCH_MSG ",{exception_trace}," CARRIES "," CLEAR "}]}]");
}

#define LABELS "[{t, {m, '_', '_'}}].\n{entry, {m, in, 1}}.\n{label, fun "

/* A label stands in the place of an identity; an entry's call has the identity. */
TEST(test_labels)
{
	struct kp_spec_params p = { .one_in = 1 };
	struct kp_mfa f = { "m", "f", 2 };

	assert_spec(kp_spec_tier, LABELS "({m, f, [q, T]}) when is_atom(T) -> T; "
	    "({m, f, [T, _]}) when is_binary(T) -> T end}.", f, p,
	    "[{[q,$3],[{is_seq_trace},{is_atom,$3}],"
	    TIER_MSG("{{_label,$3}}") "},"
	    "{[$3,_],[{is_seq_trace},{is_binary,$3},{andalso,{is_binary,$3},"
	    "{=<,{byte_size,$3},256}}]," TIER_MSG("{{_label,$3}}") "},"
	    "{[$3,_],[{is_seq_trace},{is_binary,$3}],"
	    TIER_MSG("{{_label,{{_other,3}}}}") "}," REST "]");
	/* a last clause for what has no label leaves the identity where it is */
	assert_spec(kp_spec_tier, LABELS "({m, f, [q, _]}) -> q; (_) -> undefined end}.\n"
	    "{identity, fun ({m, f, [_, x]}) -> x end}.", f, p,
	    "[{[q,_]," TOKEN "," TIER_MSG("{{_label,q}}") "},"
	    "{[_,x]," TOKEN "," TIER_MSG("x") "}," REST "]");
	/* what has no label may name the request */
	assert_spec(kp_spec_tier, LABELS "({m, f, [q, _]}) -> q end}.\n"
	    "{identity, fun ({m, F, _}) -> F; (_) -> undefined end}.", f, p,
	    "[{[q,_]," TOKEN "," TIER_MSG("{{_label,q}}") "},"
	    "{[_,_]," TOKEN "," TIER_MSG("f") "}]");
	f = (struct kp_mfa){ "m", "in", 1 };
	p.label_const = UINT64_C(1) << 42;
	assert_spec(kp_spec_entry, LABELS "({m, in, [x]}) -> x end}.\n"
	    "{identity, fun ({m, in, [y]}) -> y end}.", f, p,
	    "[{[y],[]," ENTRY_MSG("y", "1") "},{_,[]," ENTRY_MSG("[]", "1") "}]");
	assert_spec(kp_spec_entry, LABELS "({m, in, [x]}) -> x end}.\n"
	    "{identity, fun (_) -> undefined end}.", f, p,
	    "[{[x],[]," ENTRY_MSG("{{_label,x}}", "1") "},{_,[],"
	    ENTRY_MSG("[]", "1") "}]");
	/* kprof trace has no use for them */
	p = (struct kp_spec_params){ .one_in = 1, .trace = true };
	assert_spec(kp_spec_tier, LABELS "(_) -> q end}.", f, p,
	    "[{_," TOKEN ",[{message,{{[],{get_seq_token},{caller}}}}]}]");
}

#define TRACED "{trace_id, fun "
#define SHORT(v) "{andalso,{is_binary," v "},{=<,{byte_size," v "},64}}"

/*
 * Each clause comes with each clause that names a traceparent, then without; both
 * patterns are guards.  Nothing longer than 64 bytes is copied.
 */
TEST(test_traced)
{
	struct kp_spec_params p = { .one_in = 1, .label_const = UINT64_C(1) << 42 };
	struct kp_mfa f = { "m", "f", 2 };

	assert_spec(kp_spec_entry, "[{t, \"m:f/2\"}].\n" TRACED "({m, f, [_, T]}) -> T end}.",
	    f, p, "[{[$1,$2],[" SHORT("$2") "]," ENTRY_MSG("{{_trace,$2,[]}}", "1") "},"
	    "{[$1,$2],[]," ENTRY_MSG("[]", "1") "}]");
	assert_spec(kp_spec_entry, "[{t, \"m:f/2\"}].\n"
	    "{identity, fun ({m, f, [a, _]}) -> x; ({m, f, [X, X]}) when is_atom(X) -> X end}.\n"
	    TRACED "({m, f, [_, #{k := T}]}) when binary_part(T, 53, 2) =:= <<\"01\">> -> T;"
	    " ({m, f, [_, {T}]}) when is_list(T) -> undefined; ({m, g, [_, T]}) -> T end}.",
	    f, p,
	    "[{[$1,$2],[{=:=,$1,a},{is_map,$2},{is_map_key,{const,k},$2},"
	    "{=:=,{binary_part,{map_get,k,$2},53,2},<<01>>}," SHORT("{map_get,k,$2}") "],"
	    ENTRY_MSG("{{_trace,{map_get,k,$2},x}}", "1") "},"
	    "{[$1,$2],[{=:=,$1,a},{is_tuple,$2},{=:=,{size,$2},1},{is_list,{element,1,$2}}],"
	    ENTRY_MSG("x", "1") "},"
	    "{[$1,$2],[{=:=,$1,a}]," ENTRY_MSG("x", "1") "},"
	    "{[$1,$2],[{=:=,$2,$1},{is_atom,$1},{is_map,$2},{is_map_key,{const,k},$2},"
	    "{=:=,{binary_part,{map_get,k,$2},53,2},<<01>>}," SHORT("{map_get,k,$2}") "],"
	    ENTRY_MSG("{{_trace,{map_get,k,$2},$1}}", "1") "},"
	    "{[$1,$2],[{=:=,$2,$1},{is_atom,$1},{is_tuple,$2},{=:=,{size,$2},1},"
	    "{is_list,{element,1,$2}}]," ENTRY_MSG("$1", "1") "},"
	    "{[$1,$2],[{=:=,$2,$1},{is_atom,$1}]," ENTRY_MSG("$1", "1") "},"
	    "{[$1,$2],[{is_map,$2},{is_map_key,{const,k},$2},"
	    "{=:=,{binary_part,{map_get,k,$2},53,2},<<01>>}," SHORT("{map_get,k,$2}") "],"
	    ENTRY_MSG("{{_trace,{map_get,k,$2},[]}}", "1") "},"
	    "{[$1,$2],[{is_tuple,$2},{=:=,{size,$2},1},{is_list,{element,1,$2}}],"
	    ENTRY_MSG("[]", "1") "},"
	    "{[$1,$2],[]," ENTRY_MSG("[]", "1") "}]");
	/* a tier's calls name none, nor do those of kprof trace, nor for a check */
	assert_spec(kp_spec_tier, "[{t, \"m:f/2\"}].\n" TRACED "({m, f, [_, T]}) -> T end}.",
	    f, p, "[" REST "]");
	p.trace = true;
	assert_spec(kp_spec_tier, "[{t, \"m:f/2\"}].\n" TRACED "({_, _, [T | _]}) -> T end}.",
	    (struct kp_mfa){ "kprof", "trace_id", 1 }, p,
	    "[{_," TOKEN ",[{message,{{[],{get_seq_token},{caller}}}}]}]");
	p.trace = false;
	assert_spec(kp_spec_tier, "[{t, \"m:f/2\"}].\n" TRACED
	    "({kprof, trace_id, [T]}) -> T end}.", (struct kp_mfa){ "kprof", "trace_id", 1 },
	    p, "[{[$1],[{is_seq_trace}," SHORT("$1") "]," TIER_MSG("{{_trace,$1,[]}}") "},"
	    "{[$1],[{is_seq_trace}]," TIER_MSG("[]") "}]");
}

#define TIER_ON(flags) TIER_ACTION("[]") ",{orelse," KPROFDS \
	",{orelse,{trace,[],[" flags "]},true}},{trace,[" flags "],[]}}]}"
#define TIER_OFF(flags) "{_,[],[{message,false},{trace,[" flags "],[]}]}]"

/* A call with a token gives its process the flags, one without takes them. */
TEST(test_flags)
{
	static const struct {
		const char *conf, *flags;
		bool gc_shared;
	} v[] = {
		{ "{scheduling, true}.", "running", false },
		{ "{gc, true}.", "garbage_collection", true },
		{ "{gc, force}.", "garbage_collection", false },
		{ "{gc, true}.\n{scheduling, true}.",
		    "running,garbage_collection", true },
		{ "{gc, true}.\n{scheduling, true}.", "running", false },
		{ "{gc, true}.", NULL, false },
		{ "{gc, false}.\n{scheduling, false}.", NULL, true },
	};
	struct kp_mfa f = { "m", "f", 1 };
	char conf[512], want[2048];

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct kp_spec_params p = { .one_in = 1,
			.gc_shared = v[i].gc_shared };

		snprintf(conf, sizeof(conf), "{tiers, [{t, \"m\"}]}.\n%s",
		    v[i].conf);
		if (v[i].flags == NULL)
			snprintf(want, sizeof(want), "[" REST "]");
		else
			snprintf(want, sizeof(want), "[{_," TOKEN ",["
			    TIER_ON("%s") "," TIER_OFF("%s"), v[i].flags,
			    v[i].flags, v[i].flags);
		assert_spec(kp_spec_tier, conf, f, p, want);
	}
	assert_spec(kp_spec_entry, "{tiers, [{t, \"m\"}]}.\n"
	    "{scheduling, true}.", f, (struct kp_spec_params){ .one_in = 10,
	    .label_const = UINT64_C(1) << 42 },
	    "[{_,[{>=,{band,{bsr,{*,{band,{bxor," H ",{bsr," H ",15}},"
	    "268435455},140426407},20},16777215},1677721}],"
	    "[" STEP ",{message,false}," CARRIES "," CLEAR "},"
	    "{trace,[running],[]}]},{_,[]," ENTRY_ON("[]", "10", FREE)
	    ",{orelse," KPROFDS ",{orelse,{trace,[],[running]},true}},"
	    "{trace,[running],[]}}"
	    "]}]");
}

#define CLEARED "{{[],{get_seq_token},{caller},[]}}"

static void
clear_is(const char *conf, const char *want)
{
	struct kp_conf *c;
	struct kp_diags d;
	struct kp_buf out;

	assert_int_equal(kp_conf_parse(&c, conf, strlen(conf), &d), KP_OK);
	kp_diags_free(&d);
	kp_buf_init(&out, 1 << 12);
	assert_int_equal(kp_spec_clear(c, &out), KP_OK);
	assert_term(&out, want);
	kp_buf_free(&out);
	kp_conf_free(c);
}

/*
 * kprof:set_token/0 that is not sampled ends the request that was set before
 * in its process, and must tell; kprof:clear_token/0 tells where it ends one.
 */
TEST(test_marks)
{
	struct kp_spec_params p = { .one_in = 10,
		.label_const = UINT64_C(1) << 42 };
	struct kp_mfa f = { "kprof", "set_token", 0 };

	assert_spec(kp_spec_entry, TIERS "(_) -> x end}.", f, p,
	    "[{_,[{>=,{band,{bsr,{*,{band,{bxor," H ",{bsr," H ",15}},"
	    "268435455},140426407},20},16777215},1677721}],"
	    "[" STEP ",{message," CARRIES "," CLEARED "}}," CARRIES ","
	    CLEAR "}]},"
	    "{_,[]," ENTRY_MSG("x", "10") "}]");
	clear_is("[{t, \"m\"}]", "[{_,[{is_seq_trace}],[{message," CARRIES ","
	    CLEARED "}}," CARRIES "," CLEAR "}]}]");
	clear_is("{tiers, [{t, \"m\"}]}.\n{foreign_tokens, replace}.",
	    "[{_,[{is_seq_trace}],[{message," CARRIES "," CLEARED "}}," CLEAR
	    "]}]");
}

/* Where they are not to stay, an entry takes an application's own tokens. */
TEST(test_replace)
{
	struct kp_spec_params p = { .one_in = 10,
		.label_const = UINT64_C(1) << 42 };
	struct kp_mfa f = { "m", "f", 1 };

	assert_spec(kp_spec_entry, "{tiers, [{t, \"m\"}]}.\n"
	    "{foreign_tokens, replace}.", f, p,
	    "[{_,[{>=,{band,{bsr,{*,{band,{bxor," H ",{bsr," H ",15}},"
	    "268435455},140426407},20},16777215},1677721}],"
	    "[" STEP ",{message,false}," CLEAR "]},"
	    "{_,[]," ENTRY_ON("[]", "10", "") "]}]");
}

/* A label of 0 or of more than 59 bits must not reach a VM. */

struct given {
	struct kp_buf text;
};

static void
on_given(void *ctx, const uint8_t *term, size_t n)
{
	struct given *g = ctx;
	struct reader r = { .p = term, .end = term + n };

	kp_buf_init(&r.text, 4096);
	put_term(&r);
	kp_buf_printf(&g->text, "%s;", kp_buf_cstr(&r.text));
	kp_buf_free(&r.text);
}

/* What the fun can give, and by which functions. */
static void
identities(const char *clauses, bool all, const char *given, bool by_f)
{
	const struct kp_mfa f = { "m", "f", 1 };
	struct given g;
	struct kp_diags diags;
	struct kp_conf *c;
	char conf[1000];

	snprintf(conf, sizeof(conf), TIERS "%s end}.\n", clauses);
	kp_buf_init(&g.text, 4096);
	assert_int_equal(kp_conf_parse(&c, conf, strlen(conf), &diags), KP_OK);
	assert_int_equal(kp_spec_identities(c, on_given, &g), all);
	assert_string_equal(kp_buf_cstr(&g.text), given);
	assert_int_equal(kp_spec_names(c, &f), by_f);
	kp_buf_free(&g.text);
	kp_diags_free(&diags);
	kp_conf_free(c);
}

TEST(test_identities)
{
	identities("({m, f, [1]}) -> a; ({m, g, _}) -> 7; (_) -> undefined",
	    true, "a;7;", true);
	identities("({m, g, [X]}) when is_atom(X) -> {x, X}; (_) -> undefined",
	    false, "", false);
	identities("({m, f, []}) -> none; (_) -> undefined", true, "none;",
	    false);
	identities("(_) -> rest", true, "rest;", true);
}

TEST(test_bad_params)
{
	static const struct kp_spec_params bad[] = {
		{ .label_const = 1ull << 42 },
		{ .one_in = 1 },
		{ .one_in = 1, .label_const = 1ull << 52 },
		{ .one_in = 1, .label_const = (1ull << 42) + 1 },
		{ .one_in = 1u << 25, .label_const = 1ull << 42 } };
	static const char conf[] = "[{t, \"m\"}]";
	struct kp_mfa f = { "m", "f", 1 };
	struct kp_conf *c;
	struct kp_diags d;
	struct kp_buf b;

	assert_int_equal(kp_conf_parse(&c, conf, sizeof(conf) - 1, &d), KP_OK);
	kp_buf_init(&b, 1 << 16);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(kp_spec_entry(c, &f, &bad[i], &b),
		    KP_EFORMAT);
	assert_int_equal(b.len, 0);
	kp_conf_free(c);
	kp_diags_free(&d);
}

/* is_boolean(X) names X twice: 40 of them in one another are 2^40 terms. */
static void
explodes(const char *before, const char *after)
{
	char conf[1024];
	struct kp_mfa f = { "m", "f", 1 };
	struct kp_spec_params p = { .one_in = 1 };
	struct kp_conf *c;
	struct kp_diags d;
	struct kp_buf b;

	strcpy(conf, TIERS);
	strcat(conf, before);
	for (int i = 0; i < 40; i++)
		strcat(conf, "is_boolean(");
	strcat(conf, "X");
	for (int i = 0; i < 40; i++)
		strcat(conf, ")");
	strcat(conf, after);
	assert_int_equal(kp_conf_parse(&c, conf, strlen(conf), &d), KP_OK);
	kp_buf_init(&b, 1 << 16);
	assert_int_equal(kp_spec_tier(c, &f, &p, &b), KP_ELIMIT);
	kp_buf_free(&b);
	kp_conf_free(c);
	kp_diags_free(&d);
}

/* For a check: the number of the clause, and nothing that the call has. */
TEST(test_clauses)
{
	struct kp_spec_params p = { .one_in = 1, .clauses = true };
	struct kp_mfa f = { "m", "f", 2 };

	assert_spec(kp_spec_tier, TIERS "({m, f, [a, X]}) -> X; ({n, _, _}) -> "
	    "y; ({m, f, [_, X]}) when X > 1; is_atom(X) -> X end}.", f, p,
	    "[{[a,$3]," TOKEN "," TIER_MSG("1") "},"
	    "{[_,$3],[{is_seq_trace},{>,$3,1}]," TIER_MSG("3") "},"
	    "{[_,$3],[{is_seq_trace},{is_atom,$3}]," TIER_MSG("3") "},"
	    "{_," TOKEN "," TIER_MSG("0") "}]");
	assert_spec(kp_spec_tier, TIERS "({M, F, A}) -> {M, F, hd(A)}; "
	    "(_) -> y end}.", f, p, "[{[$1,$2]," TOKEN "," TIER_MSG("1") "}]");
	assert_spec(kp_spec_tier, "[{t, \"m\"}]", f, p,
	    "[{_," TOKEN "," TIER_MSG("0") "}]");
}

TEST(test_explosion)
{
	explodes("({_, _, [X]}) when ", " -> x end}.");
	explodes("({_, _, [X]}) -> ", " end}.");
}

TESTS(NULL, NULL)
