/*
 * utf8.c - decodes and encodes UTF-8, and lists the characters that are unsafe
 * on a terminal.
 */
#include "base/utf8.h"

static const struct {
	uint32_t lo, hi;
} unsafe[] = {
	{ 0, 0x1f }, { 0x7f, 0x9f }, { 0x61c, 0x61c }, { 0x180e, 0x180e },
	{ 0x200b, 0x200b }, { 0x200e, 0x200f }, { 0x2028, 0x202e },
	{ 0x2060, 0x206f }, { 0xfeff, 0xfeff }, { 0xfff9, 0xfffb },
	{ 0xe0000, 0xe007f },
};

/* Returns a character's length by its first byte; 0: it is not a first byte. */
static size_t
length_of(uint8_t first)
{
	if (first < 0x80)
		return 1;
	if (first < 0xc2 || first > 0xf4)
		return 0;
	return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

bool
utf8_is_char(uint32_t c)
{
	return c <= 0x10ffff && (c < 0xd800 || c > 0xdfff);
}

uint32_t
utf8_next(const void *from, size_t n, size_t *len)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const uint8_t *p = from;
	size_t k = length_of(p[0]);
	uint32_t c;

	*len = 1;
	if (k == 0 || k > n)
		return UTF8_BAD;
	c = k == 1 ? p[0] : p[0] & (0x7fu >> k);
	for (size_t i = 1; i < k; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return UTF8_BAD;
		c = c << 6 | (p[i] & 0x3fu);
	}
	if (c < least[k] || !utf8_is_char(c))
		return UTF8_BAD;
	*len = k;
	return c;
}

bool
utf8_valid(const void *p, size_t n)
{
	const uint8_t *s = p;
	size_t len;

	for (size_t i = 0; i < n; i += len) {
		if (utf8_next(s + i, n - i, &len) == UTF8_BAD)
			return false;
	}
	return true;
}

size_t
utf8_put(char *to, uint32_t c)
{
	static const uint8_t first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	size_t n;

	if (!utf8_is_char(c))
		c = UTF8_REPLACEMENT;
	n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	for (size_t i = n - 1; i > 0; i--, c >>= 6)
		to[i] = (char)(0x80 | (c & 0x3f));
	to[0] = (char)(first[n] | c);
	return n;
}

size_t
utf8_fit(const char *s, size_t n, size_t max)
{
	if (n <= max)
		return n;
	while (max > 0 && ((uint8_t)s[max] & 0xc0) == 0x80)
		max--;
	return max;
}

bool
utf8_unsafe(uint32_t c)
{
	for (size_t i = 0; i < sizeof(unsafe) / sizeof(unsafe[0]); i++) {
		if (c <= unsafe[i].hi)
			return c >= unsafe[i].lo;
	}
	return false;
}

void
utf8_put_name(struct kp_buf *b, const uint8_t *p, size_t n, size_t until)
{
	bool utf8 = utf8_valid(p, n);
	size_t len = 1;
	uint32_t c;

	for (size_t i = 0; i < n && b->len < until; i += len) {
		c = utf8 ? utf8_next(p + i, n - i, &len) : p[i];
		if (c > 0xFF && utf8_unsafe(c))
			kp_buf_printf(b, "\\u{%x}", c);
		else if (utf8_unsafe(c) || (!utf8 && c >= 0x80))
			kp_buf_printf(b, "\\x%02x", c);
		else
			kp_buf_put(b, p + i, len);
	}
}
