/*
 * json.c - puts commas and keys before values, escapes strings, and refuses to
 * nest too deep.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "json.h"
#include "text.h"
#include "timefmt.h"

static void
put_escaped(struct kp_buf *b, uint32_t c)
{
	static const char named[] = "\"\\\b\f\n\r\t", as[] = "\"\\bfnrt";
	const char *p = c != 0 && c < 0x80 ? strchr(named, (int)c) : NULL;

	if (p != NULL)
		kp_buf_printf(b, "\\%c", as[p - named]);
	else if (c < 0x10000)
		kp_buf_printf(b, "\\u%04" PRIx32, c);
	else	/* a surrogate pair */
		kp_buf_printf(b, "\\u%04" PRIx32 "\\u%04" PRIx32,
		    0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
}

static void
put_string(struct kp_buf *b, const char *s, size_t n)
{
	size_t len;
	uint32_t c;

	kp_buf_u8(b, '"');
	for (size_t i = 0; i < n; i += len) {
		c = utf8_next(s + i, n - i, &len);
		if (c == UTF8_BAD)
			kp_buf_str(b, UTF8_REPLACEMENT_TEXT);
		else if (c == '"' || c == '\\' || utf8_unsafe(c))
			put_escaped(b, c);
		else
			kp_buf_put(b, s + i, len);
	}
	kp_buf_u8(b, '"');
}

/* Writes what precedes a value: a comma, a key. */
static void
before(struct json *j, const char *key)
{
	uint32_t bit = UINT32_C(1) << j->depth;

	if ((j->started & bit) != 0 && j->depth > 0)
		kp_buf_u8(j->b, ',');
	j->started |= bit;
	if (key == NULL)
		return;
	put_string(j->b, key, strlen(key));
	kp_buf_u8(j->b, ':');
}

static void
nest(struct json *j, const char *key, bool array)
{
	uint32_t bit;

	before(j, key);
	if (j->depth == JSON_DEPTH_MAX - 1) {
		j->b->err = j->b->err != KP_OK ? j->b->err : KP_ELIMIT;
		return;
	}
	kp_buf_u8(j->b, array ? '[' : '{');
	bit = UINT32_C(1) << ++j->depth;
	j->started &= ~bit;
	j->arrays = array ? j->arrays | bit : j->arrays & ~bit;
}

void
json_begin(struct json *j, struct kp_buf *b)
{
	*j = (struct json){ .b = b };
}

void
json_object(struct json *j, const char *key)
{
	nest(j, key, false);
}

void
json_array(struct json *j, const char *key)
{
	nest(j, key, true);
}

void
json_end(struct json *j)
{
	if (j->depth == 0 || j->b->err != KP_OK)
		return;
	kp_buf_u8(j->b, (j->arrays >> j->depth & 1) != 0 ? ']' : '}');
	j->depth--;
}

void
json_open(struct json *j, struct kp_buf *b)
{
	json_begin(j, b);
	json_object(j, NULL);
}

void
json_close(struct json *j)
{
	json_end(j);
	kp_buf_u8(j->b, '\n');
}

void
json_string_n(struct json *j, const char *key, const char *v, size_t n)
{
	before(j, key);
	put_string(j->b, v, n);
}

void
json_string(struct json *j, const char *key, const char *v)
{
	if (v != NULL)
		json_string_n(j, key, v, strlen(v));
	else
		json_null(j, key);
}

void
json_int(struct json *j, const char *key, int64_t v)
{
	before(j, key);
	kp_buf_printf(j->b, "%" PRId64, v);
}

void
json_uint(struct json *j, const char *key, uint64_t v)
{
	before(j, key);
	kp_buf_printf(j->b, "%" PRIu64, v);
}

static void
put_double(struct json *j, const char *key, double v, int digits)
{
	before(j, key);
	if (isfinite(v))
		kp_buf_printf(j->b, "%.*g", digits, v);
	else
		kp_buf_str(j->b, "null");
}

void
json_change(struct json *j, const char *key, double v)
{
	put_double(j, key, v, 6);
}

void
json_double(struct json *j, const char *key, double v)
{
	put_double(j, key, v, 17);
}

void
json_number(struct json *j, const char *key, double v)
{
	json_change(j, key, v >= 0 ? v : (double)NAN);
}

void
json_bool(struct json *j, const char *key, bool v)
{
	before(j, key);
	kp_buf_str(j->b, v ? "true" : "false");
}

void
json_null(struct json *j, const char *key)
{
	before(j, key);
	kp_buf_str(j->b, "null");
}

void
json_ms(struct json *j, const char *key, kp_dur_ns v)
{
	char text[TEXT_MAX];

	before(j, key);
	kp_buf_str(j->b, v < 0 ? "null" : text_exact_ms(text, v));
}

void
json_time(struct json *j, const char *key, kp_wall_ns v)
{
	char text[TIMEFMT_MAX];

	if (v == 0)
		json_null(j, key);
	else
		json_string(j, key, timefmt_iso(text, v));
}
