/*
 * fn_name.c - writes a function in Erlang's or in Elixir's syntax, with quotes
 * where they are needed.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "kprofd/fn_name.h"

#define ELIXIR "Elixir."

void
fn_name_put(struct kp_buf *b, const char *mod, const char *fun,
    uint32_t arity)
{
	size_t pre = strlen(ELIXIR);
	bool elixir = strncmp(mod, ELIXIR, pre) == 0;

	kp_buf_printf(b, "%s%s%s/%" PRIu32, elixir ? mod + pre : mod,
	    elixir ? "." : ":", fun, arity);
}
