/*
 * one_answer.c - stands in for a daemon: takes one connection on a Unix
 * socket, prints the line that comes, answers with standard input, closes.
 * Whoever sees the socket can connect: it has its name only then.
 *
 *	one_answer SOCKET <answer
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static ssize_t
read_line(int fd, char *line, size_t n)
{
	size_t got = 0;

	while (got < n - 1 && read(fd, line + got, 1) == 1 &&
	    line[got] != '\n')
		got++;
	line[got] = '\0';
	return (ssize_t)got;
}

int
main(int argc, char **argv)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	size_t room = sizeof(sun.sun_path);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), c;
	char line[512], piece[4096];
	ssize_t n;

	if (argc != 2 || (size_t)snprintf(sun.sun_path, room, "%s.new",
	    argv[1]) >= room)
		return 2;
	if (bind(fd, (struct sockaddr *)&sun, sizeof(sun)) != 0 ||
	    listen(fd, 1) != 0 || rename(sun.sun_path, argv[1]) != 0)
		return 1;
	c = accept(fd, NULL, NULL);
	read_line(c, line, sizeof(line));
	printf("%s\n", line);
	while ((n = read(STDIN_FILENO, piece, sizeof(piece))) > 0)
		if (send(c, piece, (size_t)n, MSG_NOSIGNAL) < 0)
			break;
	close(c);
	unlink(argv[1]);
	return 0;
}
