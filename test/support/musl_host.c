/*
 * musl_host.c - loads NIF libraries with all their symbols, as a VM on musl does, and
 * prints the names of their modules.  musl.sh adds stand-ins of the VM's functions.
 *
 *	musl_host LIBRARY...
 */
#include <dlfcn.h>
#include <stdio.h>

/* The begin of ErlNifEntry in erl_nif.h, whose other members are of the VM's types. */
struct entry {
	int major, minor;
	const char *name;
};

int
main(int argc, char **argv)
{
	struct entry *(*init)(void);
	void *library;

	for (int i = 1; i < argc; i++) {
		library = dlopen(argv[i], RTLD_NOW);
		if (library == NULL) {
			fprintf(stderr, "musl_host: %s\n", dlerror());
			return 1;
		}
		*(void **)&init = dlsym(library, "nif_init");
		if (init == NULL) {
			fprintf(stderr, "musl_host: %s has no nif_init\n", argv[i]);
			return 1;
		}
		printf("%s\n", init()->name);
	}
	return 0;
}
