/*
 * fuzz_text.c - what people and other programs write: times, durations, what
 * is kept for how long, sizes, a tiers.conf's file; and texts from anywhere on
 * their way to a terminal and into JSON.  The first byte says which.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/utf8.h"
#include "text/timefmt.h"
#include "text/json.h"
#include "text/text.h"
#include "config/tiers_file.h"
#include "store/retain.h"
#include "fuzz.h"

/* 21 November 2026 */
#define NOW (INT64_C(1795000000) * KP_NS_PER_S)

static void
times(const char *s)
{
	struct timefmt_range r;
	kp_wall_ns t;
	char iso[TIMEFMT_MAX];

	if (timefmt_parse(s, NOW, INT64_MIN, &t)) {
		REQUIRE(t > -86400 * KP_NS_PER_S);
		REQUIRE(strlen(timefmt_iso(iso, t)) > 0);
	}
	if (timefmt_parse_range(s, NOW, &r) == NULL)
		REQUIRE(r.since < r.until);
}

static void
lengths(const char *s)
{
	struct kp_retain r;
	kp_dur_ns d;
	uint64_t bytes;

	if (kp_dur_parse(s, &d))
		REQUIRE(d >= 0);
	if (kp_retain_bytes(s, &bytes))
		REQUIRE(bytes <= INT64_MAX);
	if (!kp_retain_parse(s, &r))
		return;
	REQUIRE(r.n > 0 && r.n <= KP_RETAIN_STEPS);
	REQUIRE(r.slow > 0 && r.events > 0);
	for (size_t i = 1; i < r.n; i++)
		REQUIRE(r.step[i].length % r.step[i - 1].length == 0 &&
		    r.step[i].age > r.step[i - 1].age);
}

static bool
is_clean(const struct kp_buf *b)
{
	size_t len;

	for (size_t i = 0; i < b->len; i += len)
		if (utf8_unsafe(utf8_next(b->p + i, b->len - i, &len)))
			return false;
	return utf8_valid(b->p, b->len);
}

static void
shown(const char *s)
{
	struct kp_buf b;
	struct json j;

	kp_buf_init(&b, 1 << 20);
	text_put(&b, s);
	REQUIRE(b.err == KP_OK && is_clean(&b));
	REQUIRE(text_fit(kp_buf_cstr(&b), 10) <= b.len);
	kp_buf_reset(&b);
	json_begin(&j, &b);
	json_object(&j, NULL);
	json_string(&j, "key", s);
	json_end(&j);
	REQUIRE(b.err == KP_OK && utf8_valid(b.p, b.len));
	for (size_t i = 0; i < b.len; i++)
		REQUIRE(b.p[i] >= 0x20 || b.p[i] == '\n');
	kp_buf_free(&b);
}

static void
file(const uint8_t *data, size_t size)
{
	char path[64], why[300], *text;
	int fd = memfd_create("tiers", 0);
	size_t n;

	REQUIRE(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	text = tiers_file_read(path, &n, why, sizeof(why));
	if (text != NULL)
		REQUIRE(n == size && strlen(text) == n);
	else
		REQUIRE(memchr(data, '\0', size) != NULL);
	free(text);
	close(fd);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *s;

	if (size == 0)
		return 0;
	s = strndup((const char *)data + 1, size - 1);
	REQUIRE(s != NULL);
	switch (data[0] % 8) {
	case 0:
		file(data + 1, size - 1);
		break;
	case 1:
	case 2:
		shown(s);
		break;
	case 3:
	case 4:
		lengths(s);
		break;
	default:
		times(s);
	}
	free(s);
	return 0;
}
