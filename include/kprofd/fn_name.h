/*
 * fn_name.h - functions as people write them, and as kp_mfa_pat_parse() reads
 * them: lists:seq/2, 'MY-mod':'weird fun'/2, MyApp.Repo.all/2,
 * MyApp.Repo."weird fun"/2.  Unsafe characters are replaced, as in text_put().
 */
#ifndef KPROFD_FN_NAME_H
#define KPROFD_FN_NAME_H

#include "kprofd/buf.h"
#include "kprofd/config.h"

#define FN_NAME_MAX 2100u	/* bytes that most names need: longer are cut */

void fn_name_put(struct kp_buf *b, const char *mod, const char *fun,
    uint32_t arity);
/* One that may leave out the arity, or the function: lists:seq/_, lists */
void fn_pat_put(struct kp_buf *b, const struct kp_mfa_pat *p);
/* Both into n bytes, of which FN_NAME_MAX do; they return text. */
const char *fn_name(char *text, size_t n, const char *mod, const char *fun,
    uint32_t arity);
const char *fn_pat(char *text, size_t n, const struct kp_mfa_pat *p);
/*
 * That of a name as the database and JSON have it, "Elixir.MyApp.Repo:all/2",
 * or of a process that is registered by a module's name: returns name, which
 * is not clean, or text.
 */
const char *fn_shown(char *text, size_t n, const char *name);

#endif
