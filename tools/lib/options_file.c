/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/lib/options.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/lib/strbuf.h"

/*
 * Read by hand: libinih, as distributions build it, ends a line at 199 bytes
 * and takes no buffer with a length.
 */

/* Cuts blanks off both ends, in place. */
static char *trim(char *text)
{
	static const char blanks[] = " \t\r\v\f";
	size_t len;

	text += strspn(text, blanks);
	len = strlen(text);
	while (len > 0 && strchr(blanks, text[len - 1]))
		len--;
	text[len] = '\0';
	return text;
}

/* Takes off a pair of quotes, which keep a value's blanks. */
static char *unquote(char *text)
{
	size_t len = strlen(text);

	if (len < 2 || text[0] != '"' || text[len - 1] != '"')
		return text;
	text[len - 1] = '\0';
	return text + 1;
}

static int parse_line(struct options *options, char *line, struct strbuf *error)
{
	char *value = trim(line), *name;

	if (value[0] == '\0' || value[0] == '#' || value[0] == ';')
		return 0;
	if (value[0] == '[') {
		strbuf_puts(error, "sections are not used here; a line is "
				   "name = value");
		return -EINVAL;
	}
	name = trim(strsep(&value, "="));
	if (value)
		value = unquote(trim(value));
	return options_set(options, OPTIONS_FILE, name, value, error);
}

int options_parse_text(struct options *options, const char *text, size_t len,
		       const char *name, struct strbuf *error)
{
	struct strbuf reason;
	char *copy = strndup(text, len), *rest = copy, *line;
	size_t number = 0;
	int r = 0;

	if (!copy)
		return -ENOMEM;
	strbuf_init(&reason, 0);
	if (strncmp(rest, "\xef\xbb\xbf", 3) == 0)
		rest += 3; /* the byte order mark of some editors */
	while (r == 0 && (line = strsep(&rest, "\n")) != NULL) {
		number++;
		r = parse_line(options, line, &reason);
	}
	if (r == 0 && memchr(text, '\0', len)) {
		strbuf_puts(&reason, "holds a NUL byte; is this a text file?");
		r = -EINVAL;
	}
	if (r < 0)
		strbuf_printf(error, "%s:%zu: %s", name, number,
			      strbuf_text(&reason));
	strbuf_release(&reason);
	free(copy);
	return r;
}

/* Reads up to `size` bytes; 0 or -Exxx. */
static int read_whole(int fd, char *buffer, size_t size, size_t *ret_len)
{
	size_t len = 0;

	while (len < size) {
		ssize_t more = read(fd, buffer + len, size - len);

		if (more < 0 && errno == EINTR)
			continue;
		if (more < 0)
			return -errno;
		if (more == 0)
			break;
		len += (size_t)more;
	}
	*ret_len = len;
	return 0;
}

int options_parse_file(struct options *options, const char *path,
		       struct strbuf *error)
{
	size_t size = OPTIONS_FILE_MAX_BYTES + 1, len = 0;
	char *text;
	int fd, r;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		r = -errno;
		strbuf_printf(error,
			      "cannot open the configuration file %s: %s", path,
			      strerror(-r));
		return r;
	}
	text = malloc(size);
	r = text ? read_whole(fd, text, size, &len) : -ENOMEM;
	close(fd);
	if (r < 0)
		strbuf_printf(error,
			      "cannot read the configuration file %s: %s", path,
			      strerror(-r));
	else if (len == size)
		strbuf_printf(error,
			      "the configuration file %s is larger than "
			      "1 MiB",
			      path);
	if (r == 0)
		r = len == size ? -EINVAL
				: options_parse_text(options, text, len, path,
						     error);
	free(text);
	return r;
}
