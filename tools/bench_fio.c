/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_fio.h"

#include <errno.h>
#include <glob.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "tools/lib/strbuf.h"

/* fio takes several files as one name, with ':' between. */
static int bucket_files(const char *disk, struct strbuf *ret)
{
	char pattern[4352];
	glob_t found;

	snprintf(pattern, sizeof(pattern), "%s/buckets/*.bucket", disk);
	if (glob(pattern, 0, NULL, &found))
		return -ENODATA;
	for (size_t i = 0; i < found.gl_pathc; i++)
		strbuf_printf(ret, "%s%s", i ? ":" : "", found.gl_pathv[i]);
	globfree(&found);
	return strbuf_error(ret);
}

static double bytes_a_second(FILE *output)
{
	json_t *report = json_loadf(output, JSON_DISABLE_EOF_CHECK, NULL);
	json_t *job = json_array_get(json_object_get(report, "jobs"), 0);
	double rate = json_number_value(
		json_object_get(json_object_get(job, "read"), "bw_bytes"));

	json_decref(report);
	return rate;
}

static double run_fio(const char *files, size_t len_bytes)
{
	struct strbuf line;
	double rate;
	FILE *output;

	strbuf_init(&line, 0);
	strbuf_printf(&line,
		      "fio --name=buckets --filename='%s' --readonly "
		      "--rw=read --direct=1 --ioengine=io_uring --iodepth=32 "
		      "--bs=%zu --output-format=json 2>/dev/null",
		      files, len_bytes);
	output = popen(strbuf_text(&line), "r");
	strbuf_release(&line);
	if (!output)
		return -errno;
	rate = bytes_a_second(output);
	if (pclose(output) || rate <= 0)
		return -EIO;
	return (double)len_bytes / rate;
}

double bench_fio_read(const char *disk, size_t len_bytes)
{
	struct strbuf files;
	double seconds;

	if (system("command -v fio >/dev/null 2>&1"))
		return -ENOENT;
	strbuf_init(&files, 0);
	seconds = bucket_files(disk, &files);
	if (seconds >= 0)
		seconds = run_fio(strbuf_text(&files), len_bytes);
	strbuf_release(&files);
	return seconds;
}
