/*
 * test_conn.c - the event loop's side of a channel that holds bytes back, or has to
 * write before it can read; the channels are made up.
 */
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cases.h"
#include "conn/channel.h"
#include "conn/conn.h"

/* What it does is read from its script, a letter a call. */
struct fake {
	struct channel base;
	const char *reads;	/* t: a tick; h: a tick, and more is held back;
				   i, o: waits to read, to write; f: fails */
	bool write_waits;	/* until it has read */
	bool write_takes;	/* it takes in what a read then gives */
	size_t nreads, written;
};

static struct fake *fake;

static char down[300];

static ssize_t
fake_read(struct channel *c, void *to, size_t n)
{
	struct fake *f = (struct fake *)c;
	char what = f->reads[f->nreads];

	assert_true(n >= 4);
	c->more = what == 'h';
	if (what == '\0') {
		c->wants = POLLIN;
		return CHANNEL_WAIT;
	}
	f->nreads++;
	f->write_waits = false;
	if (what == 'i' || what == 'o') {
		c->wants = what == 'i' ? POLLIN : POLLIN | POLLOUT;
		return CHANNEL_WAIT;
	}
	if (what == 'f') {
		snprintf(c->why, sizeof(c->why), "the reason");
		return CHANNEL_FAILED;
	}
	memset(to, 0, 4);
	return 4;
}

static ssize_t
fake_write(struct channel *c, const void *from, size_t n)
{
	struct fake *f = (struct fake *)c;

	(void)from;
	if (f->write_waits) {
		c->wants = POLLIN;
		return CHANNEL_WAIT;
	}
	f->written += n;
	c->more |= f->write_takes;
	return (ssize_t)n;
}

static void
fake_free(struct channel *c)
{
	free(c);
	fake = NULL;
}

static const struct channel_kind fakes = { fake_read, fake_write, fake_free };

static void
on_frame(void *ctx, const struct kp_frame *f)
{
	(void)ctx, (void)f;
}

static void
on_down(void *ctx, const char *why)
{
	struct dist_conn **c = ctx;

	snprintf(down, sizeof(down), "%s", why);
	dist_conn_free(*c);
	*c = NULL;
}

static const struct dist_conn_ops ops = { on_frame, NULL, on_down };

struct loop {
	struct event_base *base;
	struct dist_conn *c;
	int peer;
};

static void
begin(struct loop *l, const char *reads, bool write_waits, bool more)
{
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	fake = calloc(1, sizeof(*fake));
	assert_non_null(fake);
	fake->base.kind = &fakes;
	fake->base.fd = fd[0];
	fake->base.more = more;
	fake->reads = reads;
	fake->write_waits = write_waits;
	l->peer = fd[1];
	l->base = event_base_new();
	down[0] = '\0';
	l->c = dist_conn_new(l->base, &fake->base, &ops, &l->c);
	assert_non_null(l->c);
}

/* Runs what is due, for as long as that makes other things due. */
static void
run(struct loop *l)
{
	for (int i = 0; i < 200; i++)
		event_base_loop(l->base, EVLOOP_NONBLOCK);
}

static void
end(struct loop *l)
{
	dist_conn_free(l->c);
	assert_null(fake);
	event_base_free(l->base);
	close(l->peer);
}

/* More than one turn reads; the descriptor never says a word. */
TEST(test_held_back)
{
	static const char reads[] = "hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhht";
	struct loop l;

	begin(&l, reads, false, true);
	run(&l);
	assert_int_equal(fake->nreads, sizeof(reads) - 1);
	assert_int_equal(fake->written, 4 * (sizeof(reads) - 1));
	end(&l);
	/* nothing is held back: nothing is read */
	begin(&l, reads, false, false);
	run(&l);
	assert_int_equal(fake->nreads, 0);
	end(&l);
}

/* It reads again when the descriptor can be written. */
TEST(test_read_waits_to_write)
{
	struct loop l;

	begin(&l, "oht", false, true);
	run(&l);
	assert_int_equal(fake->nreads, 3);
	end(&l);
}

/* What is to be sent waits for a read, and goes then. */
TEST(test_write_waits_to_read)
{
	struct kp_buf frame;
	struct loop l;

	begin(&l, "i", true, false);
	kp_buf_init(&frame, 64);
	kp_frame_tick(&frame);
	dist_conn_send(l.c, &frame);
	dist_conn_send(l.c, &frame);
	run(&l);
	assert_int_equal(fake->written, 0);
	assert_int_equal(write(l.peer, "x", 1), 1);
	event_base_loop(l.base, EVLOOP_ONCE);
	assert_int_equal(fake->written, 8);
	kp_buf_free(&frame);
	end(&l);
}

/* A write in the middle of new keys takes in data, too: those are read without an event. */
TEST(test_write_takes_in)
{
	struct kp_buf frame;
	struct loop l;

	begin(&l, "t", false, false);
	fake->write_takes = true;
	kp_buf_init(&frame, 64);
	kp_frame_tick(&frame);
	dist_conn_send(l.c, &frame);
	fake->write_takes = false;
	run(&l);
	assert_int_equal(fake->nreads, 1);
	kp_buf_free(&frame);
	end(&l);
}

TEST(test_reason)
{
	struct loop l;

	begin(&l, "hf", false, true);
	run(&l);
	assert_null(l.c);
	assert_string_equal(down, "the reason");
	end(&l);
}

TESTS(NULL, NULL)
