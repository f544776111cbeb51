/*
 * How often the writer tries what fails: see writer.c.
 */
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "cases.h"
#include "faultvfs.h"
#include "store_fixture.h"

/* The writer's thread, at the first window. */
static struct {
	sem_t there, go;
} hold;

static void
on_written(void *ctx, const struct kp_window *w)
{
	(void)ctx;
	if (strcmp(w->node, "a@h") != 0)
		return;
	sem_post(&hold.there);
	sem_wait(&hold.go);
}

static void *
close_store(void *s)
{
	kp_store_close(s);
	return NULL;
}

/*
 * Batches that the database refused had counted as tries of those behind them:
 * when kprofd ended, the first error of the disk was the last one, and what
 * might have been written at the next try was dropped.
 */
TEST(test_refused_then_failing)
{
	struct kp_store_opts o = store_opts(path);
	struct kp_store *s;
	pthread_t thread;

	faultvfs_register();
	sem_init(&hold.there, 0, 0);
	sem_init(&hold.go, 0, 0);
	o.on_written = on_written;
	s = open_store_with(&o);
	sql_exec("create trigger no before insert on time_window"
	    " when new.node_id = (select id from node where name = 'b@h')"
	    " begin select raise(abort, 'no'); end");
	kp_store_window(s, known_window("a@h", T0));
	sem_wait(&hold.there);
	for (int i = 1; i < 4; i++)
		kp_store_window(s, known_window("b@h", T0 + i * 10 * S));
	kp_store_window(s, known_window("c@h", T0 + 4 * 10 * S));
	assert_int_equal(pthread_create(&thread, NULL, close_store, s), 0);
	usleep(300000);		/* most likely it is being closed then */
	/* what is refused never comes to the disk */
	faultvfs_set(FAULT_FAIL, 1, SQLITE_IOERR_WRITE);
	sem_post(&hold.go);
	pthread_join(thread, NULL);
	assert_true(faultvfs_struck());
	faultvfs_set(FAULT_NONE, 0, 0);
	assert_sql("select count(*) from time_window w join node n on n.id ="
	    " w.node_id where n.name = 'c@h'", "1");
	assert_sql("select count(*) from event where kind = 'store_loss'", "1");
}

TESTS(setup, teardown)
