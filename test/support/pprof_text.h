/*
 * pprof_text.h - a profile for pprof as text: gunzipped, and its fields read by
 * profile.proto.  Whatever a field refers to has to be there, once.
 */
#ifndef KPROFD_TEST_PPROF_TEXT_H
#define KPROFD_TEST_PPROF_TEXT_H

#include <zlib.h>

#include "cases.h"
#include "kprofd/buf.h"

struct pprof_field {
	uint64_t number, value;		/* value: of a number, or its length */
	struct kp_bytes in;		/* of a text or message */
};

static inline bool
pprof_next(struct kp_bytes *b, struct pprof_field *f)
{
	uint64_t key;

	*f = (struct pprof_field){ .number = 0 };
	if (b->p == b->end)
		return false;
	key = kp_bytes_varint(b);
	f->number = key >> 3;
	if ((key & 7) == 1) {	/* of 64 bits */
		assert_true(b->end - b->p >= 8);
		b->p += 8;
		return true;
	}
	f->value = kp_bytes_varint(b);
	assert_true((key & 7) == 0 || (key & 7) == 2);
	if ((key & 7) == 2) {
		assert_true(f->value <= (uint64_t)(b->end - b->p));
		f->in = (struct kp_bytes){ .p = b->p, .end = b->p + f->value };
		b->p += f->value;
	}
	assert_int_equal(b->err, KP_OK);
	return true;
}

/* The n-th field of this number, from 0 on; with id: whose field 1 is that. */
static inline struct pprof_field
pprof_find(struct kp_bytes b, uint64_t number, uint64_t n, uint64_t id)
{
	struct pprof_field f, sub, found = { .number = 0 };
	bool is_found = false;

	while (pprof_next(&b, &f)) {
		if (f.number != number)
			continue;
		if (id > 0) {
			struct kp_bytes in = f.in;

			assert_true(pprof_next(&in, &sub));
			assert_int_equal(sub.number, 1);
			if (sub.value != id)
				continue;
			assert_false(is_found);
		} else if (n-- != 0) {
			continue;
		}
		is_found = true;
		found = f;
		if (id == 0)
			break;
	}
	if (!is_found)
		fail_msg("there is no field %d with %d", (int)number,
		    (int)(id > 0 ? id : n));
	return found;
}

static inline void
pprof_put_text(struct kp_buf *out, struct kp_bytes b, uint64_t n)
{
	struct pprof_field f = pprof_find(b, 6, n, 0);

	kp_buf_put(out, f.in.p, (size_t)(f.in.end - f.in.p));
}

/* The number in a message's field; 0: it has none. */
static inline uint64_t
pprof_number(struct kp_bytes b, uint64_t number)
{
	struct pprof_field f;

	while (pprof_next(&b, &f))
		if (f.number == number)
			return f.value;
	return 0;
}

/* "m:f/1@m:12": a function, its file and line. */
static inline void
pprof_put_place(struct kp_buf *out, struct kp_bytes b, uint64_t id)
{
	struct kp_bytes line = pprof_find(pprof_find(b, 4, 0, id).in, 4, 0, 0).in;
	struct kp_bytes fn = pprof_find(b, 5, 0, pprof_number(line, 1)).in;

	pprof_put_text(out, b, pprof_number(fn, 2));
	kp_buf_str(out, "@");
	pprof_put_text(out, b, pprof_number(fn, 4));
	kp_buf_printf(out, ":%d", (int)pprof_number(line, 2));
}

/* "innermost < outermost, VALUE ..., key=value ...\n" */
static inline void
pprof_put_sample(struct kp_buf *out, struct kp_bytes b, struct kp_bytes sample)
{
	uint64_t before = 0;
	struct pprof_field f;

	while (pprof_next(&sample, &f)) {
		kp_buf_str(out, f.number == before ? f.number == 1 ? " < " : " " :
		    before == 0 ? "" : ", ");
		before = f.number;
		if (f.number == 1) {
			pprof_put_place(out, b, f.value);
		} else if (f.number == 2) {
			kp_buf_printf(out, "%lld", (long long)f.value);
		} else {
			pprof_put_text(out, b, pprof_number(f.in, 1));
			kp_buf_str(out, "=");
			pprof_put_text(out, b, pprof_number(f.in, 2));
		}
	}
	kp_buf_str(out, "\n");
}

static inline void
pprof_text(struct kp_buf *out, const void *p, size_t n)
{
	static uint8_t bytes[1u << 20];
	z_stream z = { .next_in = (void *)(uintptr_t)p, .avail_in = (uInt)n,
		.next_out = bytes, .avail_out = sizeof(bytes) };
	struct kp_bytes all, b;
	struct pprof_field f;

	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	assert_int_equal(z.avail_in, 0);
	inflateEnd(&z);
	all = b = (struct kp_bytes){ .p = bytes, .end = z.next_out };
	/* the first text has to be empty */
	assert_int_equal(pprof_find(all, 6, 0, 0).value, 0);
	while (pprof_next(&b, &f)) {
		if (f.number == 1 || f.number == 11) {
			kp_buf_str(out, f.number == 1 ? "type " : "period type ");
			pprof_put_text(out, all, pprof_number(f.in, 1));
			kp_buf_str(out, " ");
			pprof_put_text(out, all, pprof_number(f.in, 2));
			kp_buf_str(out, "\n");
		} else if (f.number == 2) {
			pprof_put_sample(out, all, f.in);
		} else if (f.number == 14) {
			kp_buf_str(out, "shows ");
			pprof_put_text(out, all, f.value);
			kp_buf_str(out, "\n");
		} else if (f.number >= 9) {
			kp_buf_printf(out, "%s %lld\n", f.number == 9 ? "time" :
			    f.number == 10 ? "duration" : "period",
			    (long long)f.value);
		}
	}
}

#endif
