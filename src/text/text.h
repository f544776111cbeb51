/*
 * text.h - formats figures and untrusted texts for people.
 *
 * Names of tiers, functions and request types come from targets: they may reach
 * a terminal only through text_put().
 */
#ifndef KPROFD_TEXT_TEXT_H
#define KPROFD_TEXT_TEXT_H

#include <stdbool.h>

#include "kprofd/buf.h"
#include "kprofd/clock.h"

/* Bytes for any formatted figure, with its NUL. */
#define TEXT_MAX 48

/*
 * Appends an untrusted text: characters that are unsafe on a terminal as \x1b
 * or \u{202e}, bytes that are not UTF-8 as U+FFFD.
 */
void text_put(struct kp_buf *b, const char *s);
void text_put_n(struct kp_buf *b, const char *s, size_t n);
/* The same for a text of several lines: keeps newlines and tabs. */
void text_put_lines(struct kp_buf *b, const char *s, size_t n);
/* Returns the columns of a text from text_put(). */
size_t text_width(const char *s);
/* Does it have a character of a script that runs from right to left? */
bool text_has_rtl(const char *s);
/* Returns the bytes of its longest prefix that fits into `columns`. */
size_t text_fit(const char *s, size_t columns);
/*
 * Appends a text from text_put() and a newline, broken at blanks into lines of
 * this many columns (0: no limit); all but the first are indented.
 */
void text_wrap(struct kp_buf *b, const char *s, unsigned columns,
    unsigned indent);
/* Formats a text, which may have untrusted parts, and wraps it with an indent of 2. */
void text_note(struct kp_buf *b, unsigned columns, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The value of a hexadecimal digit; -1: it is another character. */
int text_hex(char c);

/* All of these write at most TEXT_MAX bytes and return buf.  "1 204" */
const char *text_count(char *buf, uint64_t n);
/* 1 call, 1 204 calls, 3 processes: noun is a singular that takes s or es. */
const char *text_counted(char *buf, uint64_t n, const char *noun);
/* Writes text_count(), or "~1 204" if n is an estimate (not known). */
const char *text_known(char *buf, uint64_t n, bool known);
/* 340 ns, 5.2 us, 87 us, 9.4 ms, 1 204 ms, 12.3 s: at least two digits.  -1: "-" */
const char *text_dur(char *buf, kp_dur_ns d);
/* The same for any number of microseconds. */
const char *text_us(char *buf, uint64_t us);
/* 1 234.567, in ms: for columns whose rows are compared.  -1: "-" */
const char *text_ms(char *buf, kp_dur_ns d);
/* 1h30m, 30m, 10s, 250ms: a length of time in the form of options. */
const char *text_span(char *buf, kp_dur_ns d);
/* 10 s, 5 min, 36 h: about how long, in a sentence.  Negative: "0 s" */
const char *text_about(char *buf, kp_dur_ns d);
/* A small average: 0.05, 3.40, 12.3, 1 204. */
const char *text_average(char *buf, double v);
/* A part of a whole, 0 to 1: 62 %, 3.4 %, <0.1 %.  Negative: "-" */
const char *text_share(char *buf, double part);
/* A change as a part of the old value: +11 %, -3.4 %, 0 %. */
const char *text_change(char *buf, double change);
/* Exact milliseconds for programs: 1204.567001 */
const char *text_exact_ms(char *buf, kp_dur_ns d);

#endif
