/*
 * slow_resolver.c - preloaded in front of libc's: name servers that are not
 * there, with long limits.
 */
#include <netdb.h>
#include <unistd.h>

int getaddrinfo(const char *node, const char *service,
    const struct addrinfo *hints, struct addrinfo **res)
{
	(void)node, (void)service, (void)hints, (void)res;
	sleep(600);
	return EAI_AGAIN;
}
