/*
 * json.h - writes JSON into a kp_buf.
 *
 * It writes commas and brackets; nesting is bounded, and errors stick in the
 * buffer.  Whatever the texts hold, the result is valid JSON in valid UTF-8, and
 * safe to print on a terminal.  Inside an object every value needs a key; inside
 * an array the key is NULL.
 *
 * Source: RFC 8259.
 */
#ifndef KPROFD_TEXT_JSON_H
#define KPROFD_TEXT_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "kprofd/buf.h"
#include "kprofd/clock.h"

#define JSON_DEPTH_MAX 32

/* Fields are private. */
struct json {
	struct kp_buf *b;
	unsigned depth;
	uint32_t arrays, started;	/* bit d: of nesting depth d */
};

void json_begin(struct json *j, struct kp_buf *b);
void json_object(struct json *j, const char *key);
void json_array(struct json *j, const char *key);
/* Closes the innermost object or array. */
void json_end(struct json *j);
/* Begin and end a document that is one object on a line. */
void json_open(struct json *j, struct kp_buf *b);
void json_close(struct json *j);

/* NULL is null. */
void json_string(struct json *j, const char *key, const char *v);
void json_string_n(struct json *j, const char *key, const char *v, size_t n);
void json_int(struct json *j, const char *key, int64_t v);
void json_uint(struct json *j, const char *key, uint64_t v);
/* Six digits; a negative number (there is none) is null. */
void json_number(struct json *j, const char *key, double v);
/* Six digits, and a sign; null if not finite. */
void json_change(struct json *j, const char *key, double v);
/* All digits; null if not finite. */
void json_double(struct json *j, const char *key, double v);
void json_bool(struct json *j, const char *key, bool v);
void json_null(struct json *j, const char *key);
/* Milliseconds, exact to the ns; -1 (there is none) is null. */
void json_ms(struct json *j, const char *key, kp_dur_ns v);
/* 2026-11-21T10:00:00.123Z; 0 is null. */
void json_time(struct json *j, const char *key, kp_wall_ns v);

#endif
