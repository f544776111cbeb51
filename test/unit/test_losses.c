/*
 * Losses: each says what happened in the same words wherever it stands, and
 * priv/doc/losses.md has every one of them, with its cause and the way out.
 */
#include "cases.h"
#include "report/losses.h"

#define PAGE "priv/doc/losses.md"

static char page[64 << 10];

FIXTURE(read_page)
{
	FILE *f = fopen(PAGE, "r");
	size_t n;

	if (f == NULL)
		return -1;
	n = fread(page, 1, sizeof(page) - 1, f);
	fclose(f);
	return n > 0 && n < sizeof(page) - 1 ? 0 : -1;
}

/* The rest of the row of the page that begins so; NULL: it has none. */
static const char *
row_of(enum kp_loss cause)
{
	const char *unit = kp_loss_unit(cause), *found;
	char row[256];

	snprintf(row, sizeof(row), "\n| %s %s (`%s`) | ", strcmp(unit, "ms") ==
	    0 ? "time" : unit, kp_loss_help(cause), kp_loss_name(cause));
	found = strstr(page, row);
	return found != NULL ? found + strlen(row) : NULL;
}

TEST_WITH(test_page, read_page, NULL)
{
	const char *rest, *way_out;
	int rows = 0;

	for (int i = 0; i < KP_LOSS_COUNT; i++) {
		rest = row_of((enum kp_loss)i);
		if (rest == NULL)
			fail_msg(PAGE " has no row of '%s' with the words "
			    "'%s'", kp_loss_name((enum kp_loss)i),
			    kp_loss_help((enum kp_loss)i));
		way_out = strstr(rest, " | ");
		assert_non_null(way_out);
		assert_true(way_out - rest > 10);
		assert_true(strcspn(way_out + 3, "|\n") >= 8);
	}
	for (const char *s = page; (s = strstr(s, "`) | ")) != NULL; s++)
		rows++;
	assert_int_equal(rows, KP_LOSS_COUNT);
}

static const char *
put(struct kp_buf *b, enum kp_loss cause, uint64_t n)
{
	kp_buf_reset(b);
	losses_put(b, cause, n);
	return kp_buf_cstr(b);
}

TEST(test_line)
{
	struct kp_buf b;

	kp_buf_init(&b, 4096);
	assert_string_equal(put(&b, KP_LOSS_UNSEEN, 1234),
	    "1 234 requests not traced: tracing was off (unseen)");
	assert_string_equal(put(&b, KP_LOSS_UNSEEN, 1),
	    "1 request not traced: tracing was off (unseen)");
	assert_string_equal(put(&b, KP_LOSS_GAP, 1),
	    "1 batch of events missing between two that came (gap)");
	assert_string_equal(put(&b, KP_LOSS_UNARMED, 12345),
	    "12.3 s without tracing, or with parts of it missing (unarmed)");
	assert_string_equal(put(&b, KP_LOSS_UNARMED, UINT64_MAX),
	    "9 223 372 037 s without tracing, or with parts of it missing "
	    "(unarmed)");
	kp_buf_free(&b);
}

/* In columns where there is room; the phrases of long ones go on below. */
TEST(test_lines)
{
	struct kp_losses l = { .n = { [KP_LOSS_UNSEEN] = 1,
		[KP_LOSS_UNARMED] = 320, [KP_LOSS_STALE] = 27 } };
	struct kp_buf b;

	kp_buf_init(&b, 4096);
	losses_text(&b, &l, 0);
	assert_string_equal(kp_buf_cstr(&b), "losses:\n"
	    "           1 request   not traced: tracing was off (unseen)\n"
	    "         320 ms        without tracing, or with parts of it "
	    "missing (unarmed)\n"
	    "          27 calls     not measured: they belong to no request of "
	    "the last 30 s (stale)\n");
	kp_buf_reset(&b);
	losses_text(&b, &l, 60);
	assert_has(kp_buf_cstr(&b), "\n"
	    "          27 calls     not measured: they belong to no\n"
	    "                       request of the last 30 s (stale)\n");
	kp_buf_reset(&b);
	losses_text(&b, &l, 40);
	assert_has(kp_buf_cstr(&b), "\n"
	    "  1 request not traced: tracing was off\n    (unseen)\n");
	kp_buf_free(&b);
}

TESTS(NULL, NULL)
