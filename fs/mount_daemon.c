/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/mount.h"

/* The child writes "+", or "-" and the reason. */
static void await_child(int pipe, pid_t child)
{
	char text[MOUNT_REASON_BYTES + 1];
	size_t len = 0;
	ssize_t n;
	int status = 0;

	while (len < sizeof(text) - 1 &&
	       (n = read(pipe, text + len, sizeof(text) - 1 - len)) != 0) {
		if (n < 0 && errno != EINTR)
			break;
		if (n > 0)
			len += (size_t)n;
	}
	text[len] = '\0';
	if (text[0] == '+')
		_exit(0);
	if (text[0] == '-') {
		fprintf(stderr, "pagefs mount: %s\n", text + 1);
		_exit(1);
	}
	waitpid(child, &status, 0);
	if (WIFSIGNALED(status))
		fprintf(stderr,
			"pagefs mount: the daemon was killed by signal %d "
			"(%s)\n",
			WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		fprintf(stderr, "pagefs mount: the daemon ended while it was "
				"starting; --foreground shows its log\n");
	_exit(1);
}

int mount_daemon_start(int *ret_pipe)
{
	int ends[2];
	pid_t child;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return -errno;
	fflush(NULL);
	child = fork();
	if (child < 0) {
		close(ends[0]);
		close(ends[1]);
		return -errno;
	}
	if (child > 0) {
		close(ends[1]);
		await_child(ends[0], child);
	}
	close(ends[0]);
	setsid();
	if (chdir("/") != 0)
		return -errno;
	*ret_pipe = ends[1];
	return 0;
}

bool mount_daemon_logs(void)
{
	struct stat st;

	return getenv("JOURNAL_STREAM") ||
	       (fstat(STDERR_FILENO, &st) == 0 && S_ISREG(st.st_mode));
}

/* stdin and stdout lead nowhere from now on, nor does stderr, unless it is a
 * log. */
static void leave_terminal(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return;
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	if (!mount_daemon_logs())
		dup2(null, STDERR_FILENO);
	if (null > STDERR_FILENO)
		close(null);
}

void mount_daemon_ready(int pipe, const char *reason)
{
	char text[MOUNT_REASON_BYTES + 1];
	int len;

	if (pipe < 0) {
		if (reason)
			fprintf(stderr, "pagefs mount: %s\n", reason);
		return;
	}
	len = snprintf(text, sizeof(text), "%s%s", reason ? "-" : "+",
		       reason ? reason : "");
	if (len >= (int)sizeof(text))
		len = (int)sizeof(text) - 1;
	if (!reason)
		leave_terminal();
	if (write(pipe, text, (size_t)len) < 0)
		fprintf(stderr, "pagefs mount: %s\n", text + 1);
	close(pipe);
}
