/*
 * fn_name.h - writes functions as people do, and as kp_mfa_pat_parse() reads
 * them: lists:seq/2, 'MY-mod':'weird fun'/2, MyApp.Repo.all/2,
 * MyApp.Repo."weird fun"/2, anonymous fn/1 in MyApp.Repo.all/2.  It replaces
 * unsafe characters, as text_put() does.
 */
#ifndef KPROFD_FN_NAME_H
#define KPROFD_FN_NAME_H

#include <stdbool.h>

#include "kprofd/buf.h"
#include "kprofd/config.h"

#define FN_NAME_MAX 2100u	/* bytes: most names fit, others are cut */

/* Is it a module of Elixir, whose functions are written in Elixir's syntax? */
bool fn_is_elixir(const char *mod);
void fn_name_put(struct kp_buf *b, const char *mod, const char *fun,
    uint32_t arity);
/* Writes a pattern, which may lack arity or function: lists:seq/_, lists */
void fn_pat_put(struct kp_buf *b, const struct kp_mfa_pat *p);
/* Both write into n bytes (FN_NAME_MAX is enough), and return text. */
const char *fn_name(char *text, size_t n, const char *mod, const char *fun,
    uint32_t arity);
const char *fn_pat(char *text, size_t n, const struct kp_mfa_pat *p);
/*
 * Converts a name of the database or JSON, "Elixir.MyApp.Repo:all/2", perhaps with a
 * label, "Elixir.MyApp.Repo:all/2 [users]", or of a process that is registered with a
 * module's name.  Returns text, or name as it is, with its unsafe characters.
 */
const char *fn_shown(char *text, size_t n, const char *name);
/*
 * For people only: a part of a function that the compiler made a function is called after
 * the one that holds it, "formatter:html/1 (list comprehension)" for
 * formatter:'-html/1-lc$^0/1-0-'/1, and "... (fun 2)" is its second part.  Others are
 * written as fn_name() does, and so are anonymous functions of Elixir.
 */
void fn_read_put(struct kp_buf *b, const char *mod, const char *fun,
    uint32_t arity);
/* The same of what fn_name() wrote: returns text, or name as it is. */
const char *fn_read(char *text, size_t n, const char *name);
/*
 * Returns the label behind such a name, with what is before it: " [users]", or "" if
 * it has none; *arity: where its arity begins.  NULL: it has no arity.
 */
const char *fn_label(const char *name, const char **arity);
/*
 * Returns the module in such a name of n bytes, and sets *n to the module's length.  It
 * ends at the first colon; in Elixir's form, MyApp.Repo.all/2, at the last dot before the
 * function, whose name has a small first letter.  Any other text is returned whole.
 */
const char *fn_module(const char *name, size_t *n);

#endif
