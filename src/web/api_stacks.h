/* api_stacks.h - the route of sampled stacks. */
#ifndef KPROFD_WEB_API_STACKS_H
#define KPROFD_WEB_API_STACKS_H

#include "api.h"

/* At most API_STACKS_MAX stacks, the longest; KP_ENOENT: there is no such tier. */
#define API_STACKS_MAX 5000	/* 3 MB with eight frames each; more than a
				   graph of 2,000 px can show */
api_fn api_stacks;

#endif
