/*
 * spec_label.c - the parts of match specs that make labels and test tokens.
 *
 * Labels take their numbers from the trace control word, which all processes of
 * the node share.  Reading and writing it are two steps, but {set_tcw, _}
 * exchanges it in one and returns what was there.  So its bit 31 says whether a
 * number is there to be taken:
 *   1. exchange the word for the next without bit 31;
 *   2. with bit 31 in what was there, the number belongs to this call alone;
 *      else another call has it at this moment: try again;
 *   3. put a higher number back, with bit 31.
 * Match specs have no variables, so the number is kept in the process's own
 * token between these steps, as its label.  What a try that fails writes is
 * near the number, which is enough for the age of tokens: only with bit 31 it is
 * given to anybody.  It differs from what was there, so the hash by which calls
 * are sampled goes on while a thread that has the number has lost its processor.
 *
 * Nothing in a match spec can wait, so there is a limit to the tries.  A step
 * takes some 100 ns, unless the operating system takes the processor from its
 * thread meanwhile: then all calls of entries in that time find no number.  Their
 * labels are of another kind, which may repeat, though hardly ever (spare_put()):
 * the daemon detects that.  Calls without a label would not only be missing, their
 * processes would have no token, nor would whoever waits for them.
 *
 * Whoever else sets the word puts a number there with bit 31 (erlang/shared/
 * kprof_word.erl).
 */
#include "config/spec.h"
#include "kprofd/label.h"

/*
 * Tries to take a number.  A try lasts nearly as long as another call has the
 * number: with two schedulers that did nothing but call an entry, 700,000 times
 * a second, 4 % of the calls found no number within two tries, 1 % within four,
 * 0.1 % within eight and 0.05 % within sixteen.  More do not help: the rest
 * meets a thread that has lost its processor, and that is for ms.  Each try
 * makes the match spec of each clause 100 bytes longer.
 */
#define TRIES 8
/*
 * A try steps the word by one, and takes some 100 ns: so the word goes up by less
 * while a thread that has the number is off its processor for some ms.
 */
#define TRIED (1 << 18)
/* 2^993: its product with 2^31 is no float, and with less it is exact. */
#define TOO_LARGE "0x1p993"
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
 *   KPROFD << 52 | constant << 42 | number
 * so the difference ((KPROFD + 1) << 52) + AHEAD + {get_tcw} - label has, if the
 * kind is a kprofd's, no bit from 52 on, since the constant is not 0.  Its bits
 * 0 to 30 are the age, modulo 2^31, plus AHEAD: for that to be within the window
 * the bits from 26 to 30 must be 0, too.  If the label is not an integer the
 * difference is 'EXIT', which is not 0.  Bit 31 is not tested, since it is not
 * one of the number's.
 *
 * Where tiers give no tokens, those that they gave are none: without the last constant
 * and one more, the difference is below 0 for that one alone.
 */
#define AGE_BASE (((int64_t)KP_LABEL_KPROFD + 1) * (INT64_C(1) << \
	KP_LABEL_KIND_SHIFT) + KP_WORD_AHEAD)
#define AGE_BASE_OWNED (AGE_BASE - (INT64_C(2) << KP_LABEL_CONST_SHIFT))
#define AGE_MASK (-(INT64_C(1) << KP_LABEL_KIND_SHIFT) + \
	(KP_WORD_MASK & ~(KP_WORD_WINDOW - 1)))

_Static_assert((KP_WORD_WINDOW & (KP_WORD_WINDOW - 1)) == 0 &&
    KP_WORD_AHEAD > 0 &&
    AGE_BASE + KP_WORD_FREE + KP_WORD_MASK < (int64_t)KP_LABEL_END,
    "a window is a mask, and the test is done with immediates");

/* The label of the present token. */
#define LABEL "{element,2,{get_seq_token}}"
#define CLEAR "{set_seq_token,sequential_trace_token,[]}"
/* If the label is not an integer the shift is 'EXIT', which is not ~1. */
#define BEGINS "{=:=,{bsr," LABEL ",~0},~1}"
#define OURS INTS(KP_LABEL_SIGN_SHIFT, KP_LABEL_SIGN)
#define KPROFDS INTS(KP_LABEL_KIND_SHIFT, KP_LABEL_KPROFD)

void
clear_put(struct kp_buf *b)
{
	terms_put(b, CLEAR, NULL, NULL);
}

/* ---- tests of tokens ---- */

void
carries_ours_put(struct kp_buf *b, uint32_t more)
{
	call(b, "andalso", 2 + more);
	terms_put(b, "{is_seq_trace}," BEGINS, NULL, OURS);
}

void
carries_kprofds_put(struct kp_buf *b, uint32_t more)
{
	call(b, "andalso", 2 + more);
	terms_put(b, "{is_seq_trace}," BEGINS, NULL, KPROFDS);
}

void
carries_no_others_put(struct kp_buf *b)
{
	terms_put(b, "{orelse,{not,{is_seq_trace}}," BEGINS "}", NULL, OURS);
}

/* ---- labels: the numbers ~0 to ~4 are those of label_terms() ---- */

/* The word's old value. */
#define TAKE "{set_tcw,{band,{+,{get_tcw},1},~0}}"
/* Takes the number into the token, as its label; true if it was there. */
#define TRY "{andalso,{set_seq_token,label," TAKE "},{>," LABEL ",~0}}"
/*
 * What is put back is the number that the word has by now: what others have found
 * meanwhile is not found again.  A thread that had read the word long before may
 * have set it back, so only the low bits of the difference count: no number is
 * given twice.
 */
#define NEXT "{is_integer,{set_tcw,{bor,{band,{+,{+," LABEL ",1}," \
	"{band,{-,{-,{get_tcw}," LABEL "},1},~2}},~0},~1}}}"
/* Makes the label of the number, which the token has with KP_WORD_FREE. */
#define NUMBER "{set_seq_token,label,{bxor," LABEL ",~3}}"
/*
 * No number was there: the label is what the last try found, which is below it, and
 * ten bits of the number of the message that the process has taken last.  Bit 41
 * keeps it apart from all labels that have a number of their own.
 */
#define SPARE "{set_seq_token,label,{bor,{bor," LABEL \
	",{bsl,{band,{element,5,{get_seq_token}},1023},31}},~4}}"
/*
 * One try, since the next call tries again.  The token that is there goes first: it
 * would name its sender.
 */
#define UNOWNED "{orelse,{andalso," CLEAR "," TRY "," NEXT "," NUMBER "}," \
	"{andalso," CLEAR ",false}}"

static void
label_terms(struct kp_buf *b, const char *terms, uint64_t constant)
{
	terms_put(b, terms, NULL, INTS(KP_WORD_MASK, KP_WORD_FREE, TRIED - 1,
	    (int64_t)(constant | KP_WORD_FREE),
	    (int64_t)(constant | KP_LABEL_SPARE)));
}

/*
 * For a call that needs no number, and thus no token: takes one and puts back
 * the next in one expression.  If there was none, the product is above all
 * floats and thus 'EXIT', the rest too, and {set_tcw, 'EXIT'} does nothing.
 */
void
step_put(struct kp_buf *b)
{
	label_terms(b, "{set_tcw,{bor,{+,{trunc,{/,{*,{bxor," TAKE ",~1},"
	    TOO_LARGE "}," TOO_LARGE "}},1},~1}}", 0);
}

void
label_put(struct kp_buf *b, uint64_t constant)
{
	call(b, "orelse", 2);
	call(b, "andalso", 3);
	call(b, "orelse", TRIES);
	for (unsigned i = 0; i < TRIES; i++)
		label_terms(b, TRY, constant);
	label_terms(b, NEXT "," NUMBER "," SPARE, constant);
}

void
live_put(struct kp_buf *b, bool gives)
{
	call(b, "orelse", 2);
	terms_put(b, "{=:=,{band,{-,{+,{get_tcw},~0}," LABEL "},~1},0}", NULL,
	    INTS(gives ? AGE_BASE : AGE_BASE_OWNED, AGE_MASK));
	if (!gives) {
		terms_put(b, "{andalso," BEGINS "," CLEAR ",false}", NULL,
		    KPROFDS);
		return;
	}
	call(b, "andalso", 2);
	terms_put(b, "{orelse,{not,{is_seq_trace}}," BEGINS "}", NULL, KPROFDS);
	label_terms(b, UNOWNED, KP_LABEL_KPROFD << KP_LABEL_KIND_SHIFT |
	    (uint64_t)KP_LABEL_UNOWNED << KP_LABEL_CONST_SHIFT);
}

/* ---- sampling ---- */

#define PRODUCT "{*,{get_tcw},~0}"

void
hash_put(struct kp_buf *b)
{
	terms_put(b, "{band,{bsr,{*,{band,{bxor," PRODUCT ",{bsr," PRODUCT
	    ",15}},~1},~2},20},~3}", NULL,
	    INTS(HASH_1, HASH_MASK, HASH_2, (1 << HASH_BITS) - 1));
}
