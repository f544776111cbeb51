/*
 * text.c - replaces unsafe characters, fits and wraps text to columns, and
 * formats counts, durations and shares.
 */
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/utf8.h"
#include "text/text.h"

/* ---- the width of a character ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static locale_t utf8;		/* 0: this system has none */

static void
utf8_make(void)
{
	utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

/*
 * Columns on a terminal: 0 (combining), 1 or 2 (East Asian wide, emoji).  In a locale
 * of its own, as a report must look the same under cron.
 */
static unsigned
char_width(uint32_t c)
{
	locale_t users;
	int width;

	if (c < 0x300)
		return 1;
	pthread_once(&once, utf8_make);
	if (utf8 == (locale_t)0)
		return 1;
	users = uselocale(utf8);
	width = wcwidth((wchar_t)c);
	uselocale(users);
	return width < 0 ? 1 : (unsigned)width;
}

/* Scripts that run from right to left, with blocks reserved for more. */
static bool
is_rtl(uint32_t c)
{
	return (c >= 0x590 && c <= 0x8ff) || (c >= 0xfb1d && c <= 0xfdff) ||
	    (c >= 0xfe70 && c <= 0xfefc) || (c >= 0x10800 && c <= 0x10fff) ||
	    (c >= 0x1e800 && c <= 0x1efff);
}

/* ---- texts ---- */

static void
put_char(struct kp_buf *b, const char *s, uint32_t c, size_t len)
{
	if (c == UTF8_BAD)
		kp_buf_str(b, UTF8_REPLACEMENT_TEXT);
	else if (!utf8_unsafe(c))
		kp_buf_put(b, s, len);
	else if (c <= 0xff)
		kp_buf_printf(b, "\\x%02" PRIx32, c);
	else
		kp_buf_printf(b, "\\u{%" PRIx32 "}", c);
}

static void
put_text(struct kp_buf *b, const char *s, size_t n, bool lines)
{
	size_t len;
	uint32_t c;

	for (size_t i = 0; i < n; i += len) {
		c = utf8_next(s + i, n - i, &len);
		if (lines && (c == '\n' || c == '\t'))
			kp_buf_u8(b, (uint8_t)c);
		else
			put_char(b, s + i, c, len);
	}
}

void
text_put(struct kp_buf *b, const char *s)
{
	put_text(b, s, strlen(s), false);
}

void
text_put_n(struct kp_buf *b, const char *s, size_t n)
{
	put_text(b, s, n, false);
}

void
text_put_lines(struct kp_buf *b, const char *s, size_t n)
{
	put_text(b, s, n, true);
}

static size_t
text_width_n(const char *s, size_t n)
{
	size_t len, width = 0;

	for (size_t i = 0; i < n; i += len)
		width += char_width(utf8_next(s + i, n - i, &len));
	return width;
}

size_t
text_width(const char *s)
{
	return text_width_n(s, strlen(s));
}

bool
text_has_rtl(const char *s)
{
	size_t n = strlen(s), len;

	for (size_t i = 0; i < n; i += len)
		if (is_rtl(utf8_next(s + i, n - i, &len)))
			return true;
	return false;
}

size_t
text_fit(const char *s, size_t columns)
{
	size_t n = strlen(s), len, width = 0, i;

	for (i = 0; i < n; i += len) {
		width += char_width(utf8_next(s + i, n - i, &len));
		if (width > columns)
			break;
	}
	return i;
}

void
text_wrap(struct kp_buf *b, const char *s, unsigned columns, unsigned indent)
{
	size_t at = 0, width, len;

	while (*s != '\0') {
		/* the word and the blanks before it */
		len = strspn(s, " ");
		len += strcspn(s + len, " ");
		width = text_width_n(s, len);
		if (columns > 0 && at > indent && at + width > columns) {
			kp_buf_printf(b, "\n%*s", (int)indent, "");
			at = indent;
			width -= strspn(s, " ");
			len -= strspn(s, " ");
			s += strspn(s, " ");
		}
		kp_buf_put(b, s, len);
		at += width;
		s += len;
	}
	kp_buf_u8(b, '\n');
}

void
text_note(struct kp_buf *b, unsigned columns, const char *fmt, ...)
{
	struct kp_buf clean;
	char *text = NULL;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vasprintf(&text, fmt, args);
	va_end(args);
	if (n < 0) {
		b->err = KP_ENOMEM;
		return;
	}
	kp_buf_init(&clean, 10 * (size_t)n + 1);
	text_put(&clean, text);
	text_wrap(b, kp_buf_cstr(&clean), columns, 2);
	kp_buf_free(&clean);
	free(text);
}

/* ---- figures ---- */

int
text_hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ?
	    c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

const char *
text_count(char *buf, uint64_t n)
{
	char plain[24];
	size_t len, out = 0;

	len = (size_t)snprintf(plain, sizeof(plain), "%" PRIu64, n);
	for (size_t i = 0; i < len; i++) {
		if (i > 0 && (len - i) % 3 == 0)
			buf[out++] = ' ';
		buf[out++] = plain[i];
	}
	buf[out] = '\0';
	return buf;
}

const char *
text_counted(char *buf, uint64_t n, const char *noun)
{
	size_t len = strlen(text_count(buf, n));

	snprintf(buf + len, TEXT_MAX - len, " %s%s", noun, n == 1 ? "" :
	    noun[strlen(noun) - 1] == 's' ? "es" : "s");
	return buf;
}

/* Returns d / unit, rounded; d must not be negative. */
static uint64_t
rounded(kp_dur_ns d, int64_t unit)
{
	return (uint64_t)d / (uint64_t)unit +
	    ((uint64_t)d % (uint64_t)unit * 2 >= (uint64_t)unit);
}

static void
one_decimal(char *buf, kp_dur_ns d, int64_t unit, const char *name)
{
	uint64_t tenths = rounded(d, unit / 10);

	snprintf(buf, TEXT_MAX, "%" PRIu64 ".%" PRIu64 " %s", tenths / 10,
	    tenths % 10, name);
}

static void
whole(char *buf, kp_dur_ns d, int64_t unit, const char *name)
{
	char n[TEXT_MAX];

	snprintf(buf, TEXT_MAX, "%.40s %s", text_count(n, rounded(d, unit)),
	    name);
}

const char *
text_known(char *buf, uint64_t n, bool known)
{
	buf[0] = '~';
	text_count(buf + !known, n);
	return buf;
}

const char *
text_dur(char *buf, kp_dur_ns d)
{
	const int64_t us = KP_NS_PER_US, ms = KP_NS_PER_MS, s = KP_NS_PER_S;

	if (d < 0)
		snprintf(buf, TEXT_MAX, "-");
	else if (d == 0)
		snprintf(buf, TEXT_MAX, "0");
	else if (d < us)
		whole(buf, d, 1, "ns");
	else if (rounded(d, us / 10) < 100)
		one_decimal(buf, d, us, "us");
	else if (rounded(d, us) < 1000)
		whole(buf, d, us, "us");
	else if (rounded(d, ms / 10) < 100)
		one_decimal(buf, d, ms, "ms");
	else if (rounded(d, ms) < 10000)
		whole(buf, d, ms, "ms");
	else if (rounded(d, s / 10) < 10000)
		one_decimal(buf, d, s, "s");
	else
		whole(buf, d, s, "s");
	return buf;
}

const char *
text_us(char *buf, uint64_t us)
{
	const uint64_t max = INT64_MAX / KP_NS_PER_US;

	return text_dur(buf, (kp_dur_ns)(us < max ? us : max) * KP_NS_PER_US);
}

const char *
text_ms(char *buf, kp_dur_ns d)
{
	uint64_t us = d < 0 ? 0 : rounded(d, KP_NS_PER_US);
	char n[TEXT_MAX];

	if (d < 0)
		snprintf(buf, TEXT_MAX, "-");
	else
		snprintf(buf, TEXT_MAX, "%.40s.%03" PRIu64,
		    text_count(n, us / 1000), us % 1000);
	return buf;
}

const char *
text_about(char *buf, kp_dur_ns d)
{
	int64_t s = d < 0 ? 0 : (int64_t)rounded(d, KP_NS_PER_S);

	if (s < 120)
		snprintf(buf, TEXT_MAX, "%" PRId64 " s", s);
	else if (s < 7200)
		snprintf(buf, TEXT_MAX, "%" PRId64 " min", (s + 30) / 60);
	else
		snprintf(buf, TEXT_MAX, "%" PRId64 " h", (s + 1800) / 3600);
	return buf;
}

const char *
text_span(char *buf, kp_dur_ns d)
{
	static const struct {
		int64_t s;
		const char *name;
	} units[] = { { 86400, "d" }, { 3600, "h" }, { 60, "m" }, { 1, "s" } };
	int64_t s = d < 0 ? 0 : (int64_t)rounded(d, KP_NS_PER_S);
	int len = 0;

	if (d < KP_NS_PER_S) {
		snprintf(buf, TEXT_MAX, "%" PRId64 "ms",
		    d < 0 ? 0 : d / KP_NS_PER_MS);
		return buf;
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (s / units[i].s > 0)
			len += snprintf(buf + len, TEXT_MAX - (size_t)len,
			    "%" PRId64 "%s", s / units[i].s, units[i].name);
		s %= units[i].s;
	}
	return buf;
}

const char *
text_average(char *buf, double v)
{
	if (!(v >= 0))
		snprintf(buf, TEXT_MAX, "-");
	else if (v == 0)
		snprintf(buf, TEXT_MAX, "0");
	else if (v < 0.005)
		snprintf(buf, TEXT_MAX, "<0.01");
	else if (v < 9.995)
		snprintf(buf, TEXT_MAX, "%.2f", v);
	else if (v < 99.95)
		snprintf(buf, TEXT_MAX, "%.1f", v);
	else
		text_count(buf, v < 1e18 ? (uint64_t)llround(v) : UINT64_MAX);
	return buf;
}

const char *
text_share(char *buf, double part)
{
	double percent = 100 * part;

	if (!(part >= 0))
		snprintf(buf, TEXT_MAX, "-");
	else if (part > 0 && percent < 0.05)
		snprintf(buf, TEXT_MAX, "<0.1 %%");
	else
		snprintf(buf, TEXT_MAX, "%.*f %%", part > 0 && percent < 9.95,
		    percent);
	return buf;
}

const char *
text_change(char *buf, double change)
{
	double percent = 100 * fabs(change);
	char n[TEXT_MAX];

	if (!(percent >= 0))
		snprintf(buf, TEXT_MAX, "-");
	else if (percent < 0.05)
		snprintf(buf, TEXT_MAX, "0 %%");
	else if (percent < 9.95)
		snprintf(buf, TEXT_MAX, "%c%.1f %%", change < 0 ? '-' : '+',
		    percent);
	else
		snprintf(buf, TEXT_MAX, "%c%.40s %%", change < 0 ? '-' : '+',
		    text_count(n, percent < 1e18 ? (uint64_t)llround(percent) :
		    UINT64_MAX));
	return buf;
}

const char *
text_exact_ms(char *buf, kp_dur_ns d)
{
	uint64_t n = d < 0 ? -(uint64_t)d : (uint64_t)d;
	int len;

	len = snprintf(buf, TEXT_MAX, "%s%" PRIu64 ".%06" PRIu64,
	    d < 0 ? "-" : "", n / 1000000, n % 1000000);
	while (buf[len - 1] == '0')
		len--;
	if (buf[len - 1] == '.')
		len--;
	buf[len] = '\0';
	return buf;
}
