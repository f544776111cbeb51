/*
 * spec_label.c - the parts of match specs that make labels and test tokens.
 *
 * Labels count in the trace control word, which all processes of the node
 * share.  {set_tcw, {get_tcw} + 1} returns the value before.  Reading and
 * writing are two steps: two processes may read the same number, or one that is
 * delayed between the steps may set the counter back, so that the numbers given
 * out meanwhile repeat.  Two that read the same number differ by what the word
 * was before; numbers that repeat, by the labels that their processes had
 * before.  Ten bits of the label are the xor of both, so repeats are rare.  They
 * are not impossible: the daemon detects collisions.
 *
 * The agent moves the word on with the time, also in two steps, but by many
 * thousands at once or not at all.  A call's step that overwrites the agent's
 * undoes it: the numbers in between are skipped half a second later.  A call's
 * step that the agent's overwrites was of a number far below.
 */
#include "config/spec/spec.h"
#include "kprofd/label.h"

#define WORD_MASK INT64_C(0xFFFFFFFF)
#define FIELD_MASK 0x3FF
/*
 * Which calls are sampled: by a hash of the control word, since remainders
 * alias with regular traffic.  With H = tcw * HASH_1 it is
 *   ((((H bxor (H bsr 15)) band HASH_MASK) * HASH_2) bsr 20) band 16#FFFFFF
 * and every product stays within 59 bits.  One multiplication alone is not
 * enough: 57 kinds of requests in rotation with 1 in 32 gave some of them
 * 0.6 of their share.  This one keeps within what fair draws give for
 * rotations of 1 to 130 kinds and 1 in 2 to 1 in 1024.
 */
#define HASH_1 0x4F1BBCD
#define HASH_2 0x85EBCA7
#define HASH_MASK 0xFFFFFFF

/*
 * Tests in one go that a label is a kprofd's and young.  With the kind, a label is
 *   KPROFD << 52 | (constant and xor) << 32 | word
 * so the difference ((KPROFD + 1) << 52) + AHEAD + {get_tcw} - label has, if the
 * kind is a kprofd's, no bit from 52 on, since the constant is not 0.  Its bits
 * 0 to 31 are the age, modulo 2^32, plus AHEAD: for that to be within the window
 * the bits from 26 to 31 must be 0, too.  If the label is not an integer the
 * difference is 'EXIT', which is not 0.
 */
#define AGE_BASE (((int64_t)KP_LABEL_KPROFD + 1) * (INT64_C(1) << \
	KP_LABEL_KIND_SHIFT) + KP_WORD_AHEAD)
#define AGE_MASK (-(INT64_C(1) << KP_LABEL_KIND_SHIFT) + \
	(WORD_MASK & ~(KP_WORD_WINDOW - 1)))

_Static_assert((KP_WORD_WINDOW & (KP_WORD_WINDOW - 1)) == 0 &&
    KP_WORD_AHEAD > 0 && AGE_BASE + WORD_MASK < (int64_t)KP_LABEL_END,
    "a window is a mask, and the test is done with immediates");

/* Opens calls of two arguments, each the first argument of the one before. */
static void
nest(struct kp_buf *b, const char *const *op, size_t n)
{
	for (size_t i = 0; i < n; i++)
		call(b, op[i], 2);
}
#define NEST(b, ...) nest(b, (const char *const[]){ __VA_ARGS__ }, \
	sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

void
step_put(struct kp_buf *b)
{
	call(b, "set_tcw", 1);
	call(b, "band", 2);
	call(b, "+", 2);
	call(b, "get_tcw", 0);
	kp_etf_int(b, 1);
	kp_etf_int(b, WORD_MASK);
}

void
clear_put(struct kp_buf *b)
{
	call(b, "set_seq_token", 2);
	kp_etf_atom(b, "sequential_trace_token");
	kp_etf_nil(b);
}

/* ---- tests of tokens ---- */

/* {element, 2, {get_seq_token}}: the label of the present token. */
static void
token_label_put(struct kp_buf *b)
{
	call(b, "element", 2);
	kp_etf_int(b, 2);
	call(b, "get_seq_token", 0);
}

/* If the label is not an integer the shift is 'EXIT', which is not `with`. */
static void
begins_put(struct kp_buf *b, int shift, uint64_t with)
{
	NEST(b, "=:=", "bsr");
	token_label_put(b);
	kp_etf_int(b, shift);
	kp_etf_int(b, (int64_t)with);
}

static void
ours_put(struct kp_buf *b)
{
	begins_put(b, KP_LABEL_SIGN_SHIFT, KP_LABEL_SIGN);
}

void
carries_ours_put(struct kp_buf *b, uint32_t more)
{
	call(b, "andalso", 2 + more);
	call(b, "is_seq_trace", 0);
	ours_put(b);
}

void
carries_kprofds_put(struct kp_buf *b, uint32_t more)
{
	call(b, "andalso", 2 + more);
	call(b, "is_seq_trace", 0);
	begins_put(b, KP_LABEL_KIND_SHIFT, KP_LABEL_KPROFD);
}

void
carries_no_others_put(struct kp_buf *b)
{
	call(b, "orelse", 2);
	call(b, "not", 1);
	call(b, "is_seq_trace", 0);
	ours_put(b);
}

void
live_put(struct kp_buf *b)
{
	NEST(b, "orelse", "=:=", "band", "-", "+");
	call(b, "get_tcw", 0);
	kp_etf_int(b, AGE_BASE);
	token_label_put(b);
	kp_etf_int(b, AGE_MASK);
	kp_etf_int(b, 0);
	call(b, "andalso", 3);
	begins_put(b, KP_LABEL_KIND_SHIFT, KP_LABEL_KPROFD);
	clear_put(b);
	kp_etf_bool(b, false);
}

/* ---- labels ---- */

/*
 * The label that the process had, or 0 if it had no token of ours.  An exception
 * in a body would make the label the atom 'EXIT', for ever; so both values are
 * put into a tuple, and a test picks one.
 */
static void
old_label_put(struct kp_buf *b)
{
	NEST(b, "element", "map_get");
	carries_ours_put(b, 0);
	call(b, "const", 1);
	kp_etf_map(b, 2);
	kp_etf_atom(b, "true");
	kp_etf_int(b, 1);
	kp_etf_atom(b, "false");
	kp_etf_int(b, 2);
	kp_etf_tuple(b, 1);
	kp_etf_tuple(b, 2);
	carries_ours_put(b, 1);
	token_label_put(b);
	kp_etf_int(b, 0);
}

/* Arguments are evaluated last to first: old label, then step, then word. */
static void
number_put(struct kp_buf *b, uint64_t constant)
{
	NEST(b, "bor", "bor");
	call(b, "get_tcw", 0);
	kp_etf_int(b, (int64_t)constant);
	NEST(b, "bsl", "band", "bxor");
	step_put(b);
	old_label_put(b);
	kp_etf_int(b, FIELD_MASK);
	kp_etf_int(b, KP_LABEL_FIELD_SHIFT);
}

void
label_put(struct kp_buf *b, uint64_t constant)
{
	call(b, "bor", 2);
	call(b, "map_get", 2);
	clear_put(b);
	call(b, "const", 1);
	kp_etf_map(b, 1);
	kp_etf_atom(b, "true");
	kp_etf_int(b, 0);
	number_put(b, constant);
}

/* ---- sampling ---- */

/* H: {get_tcw} * HASH_1 */
static void
product_put(struct kp_buf *b)
{
	call(b, "*", 2);
	call(b, "get_tcw", 0);
	kp_etf_int(b, HASH_1);
}

void
hash_put(struct kp_buf *b)
{
	NEST(b, "band", "bsr", "*", "band", "bxor");
	product_put(b);
	call(b, "bsr", 2);
	product_put(b);
	kp_etf_int(b, 15);
	kp_etf_int(b, HASH_MASK);
	kp_etf_int(b, HASH_2);
	kp_etf_int(b, 20);
	kp_etf_int(b, (1 << HASH_BITS) - 1);
}
