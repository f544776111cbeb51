/*
 * accept.h - the elements of HTTP's headers Accept and Accept-Encoding, such as
 * "text/plain;q=0.5".  An element is n bytes, in a string that goes on behind it or
 * ends there.  Pure.
 *
 * Source: RFC 9110, 12.4.2 and 12.5.
 */
#ifndef KPROFD_TEXT_ACCEPT_H
#define KPROFD_TEXT_ACCEPT_H

#include <stdbool.h>
#include <stddef.h>

/* Is `what` among the words of this element? */
bool accept_has(const char *p, size_t n, const char *what);
/* The element's q parameter, 0 to 1; 1 if it has none. */
double accept_quality(const char *p, size_t n);

#endif
